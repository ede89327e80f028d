//! Backtests the runs of many files, and runs of the store, on all cores. Returns the results in the
//! order of the input.
//!
//! One thread finds out the format of each file. Where every line is a run, it reads the lines;
//! the other threads parse them and replay the runs. Any other file is read by one of the other
//! threads. The queues between the threads have a maximum length and files are read piece by
//! piece, so memory use does not depend on the number and size of the files.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::backtest::{BacktestReport, RunBacktest, backtest};
use crate::config::Config;
use crate::formats::events::parse_run;
use crate::hosts::Host;
use anyhow::{Context as _, Result};
use midcourse::{
    DataDir, DecisionPoint, DeliveryPolicy, Event, RunId, RunIdentity, Store, StoredRecord,
    Timestamp, TrajectoryPayload, now,
};

use crate::commands::input_files::InputFile;
use crate::input_line::read_line;
use crate::session_format::{FileReport, ReadError, SessionFormat, format_of_file, read_file};

/// Maximum number of lines that are passed to another thread together.
const BATCH_LINES: usize = 32;

/// If the lines of a batch have this many bytes in total, the batch is passed on at once, even if
/// it has fewer than `BATCH_LINES` lines.
const BATCH_BYTES: usize = 1 << 20;

/// Number of records that are read from the store at once.
const PAGE: usize = 256;

/// The configuration with which every run is replayed and, if two are compared, the second one.
#[derive(Clone, Copy)]
pub(super) struct Configs<'a> {
    pub(super) config: &'a Config,
    pub(super) against: Option<&'a Config>,
}

/// What is backtested.
pub(super) enum Input {
    File(InputFile, Option<&'static SessionFormat>),
    /// A run of the store.
    Stored(RunId),
}

/// The report about a run with the first configuration and, if two are compared, the report with
/// the second configuration.
pub(super) struct RunResult {
    pub(super) report: BacktestReport,
    pub(super) against: Option<BacktestReport>,
}

/// The result of a part of the input.
#[derive(Default)]
pub(super) struct PartResult {
    pub(super) runs: Vec<RunResult>,
    /// The file that the runs are from; `None` for a run of the store.
    pub(super) path: Option<PathBuf>,
    /// If the part is a whole file: what was read from it, or why it could not be read.
    pub(super) file: Option<Result<FileReport, ReadError>>,
    pub(super) is_in_directory: bool,
    /// How many bytes of the input this part has.
    pub(super) bytes: u64,
}

/// A part of the input.
enum Part {
    /// Lines of a file, each with its number and a run.
    Lines(PathBuf, Vec<(u64, Vec<u8>)>),
    File(InputFile, &'static SessionFormat),
    Stored(RunId),
    Unreadable(InputFile, ReadError),
}

/// Backtests every run on several threads. Calls `take` with each result, in the order of the input.
pub(super) fn for_each_part(
    inputs: &[Input],
    configs: Configs<'_>,
    data_dir: Option<&DataDir>,
    mut take: impl FnMut(PartResult) -> Result<()>,
) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (send_parts, parts) = sync_channel::<(u64, Part)>(workers * 2);
    let (send_results, results) = sync_channel::<(u64, PartResult)>(workers * 2);
    let (parts, now) = (Mutex::new(parts), now());
    thread::scope(|scope| {
        let reader = scope.spawn(move || split(inputs, &mut Parts { send: send_parts, number: 0 }));
        for _ in 0..workers {
            let (parts, results) = (&parts, send_results.clone());
            let worker = Worker { configs, now, data_dir };
            scope.spawn(move || worker.run(parts, &results));
        }
        drop(send_results);
        // Results of a part that is finished before an earlier part wait here until the earlier part
        // is finished too.
        let mut out_of_order: BTreeMap<u64, PartResult> = BTreeMap::new();
        let mut next = 0;
        for (number, result) in results {
            out_of_order.insert(number, result);
            while let Some(result) = out_of_order.remove(&next) {
                next += 1;
                take(result)?;
            }
        }
        reader.join().unwrap_or(Ok(()))
    })
}

/// Numbers the parts and passes them to the workers.
struct Parts {
    send: SyncSender<(u64, Part)>,
    number: u64,
}

impl Parts {
    /// Passes on a part. Returns false if the workers have stopped, because `take` returned an
    /// error.
    fn send(&mut self, part: Part) -> bool {
        let sent = self.send.send((self.number, part));
        self.number += 1;
        sent.is_ok()
    }
}

fn split(inputs: &[Input], parts: &mut Parts) -> Result<()> {
    for input in inputs {
        let is_sent = match input {
            Input::Stored(run) => parts.send(Part::Stored(run.clone())),
            Input::File(file, format) => {
                match format.map_or_else(|| format_of_file(&file.path), Ok) {
                    Ok(format) if format.is_run_per_line => send_lines(&file.path, parts)?,
                    Ok(format) => parts.send(Part::File(file.clone(), format)),
                    Err(error) => parts.send(Part::Unreadable(file.clone(), error)),
                }
            }
        };
        if !is_sent {
            break;
        }
    }
    Ok(())
}

fn send_lines(path: &Path, parts: &mut Parts) -> Result<bool> {
    let context = || format!("cannot read {}", path.display());
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).with_context(context)?);
    let (mut batch, mut batch_bytes, mut line_len) = (Vec::new(), 0, 0);
    for number in 1.. {
        // Lines of a file have similar lengths, so the previous line's length is a good initial
        // capacity.
        let mut line = Vec::with_capacity(usize::min(line_len, BATCH_BYTES));
        if !read_line(&mut reader, &mut line).with_context(context)? {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        line_len = line.len();
        batch_bytes += line_len;
        batch.push((number, line));
        if batch.len() >= BATCH_LINES || batch_bytes >= BATCH_BYTES {
            batch_bytes = 0;
            if !parts.send(Part::Lines(path.to_owned(), std::mem::take(&mut batch))) {
                return Ok(false);
            }
        }
    }
    Ok(batch.is_empty() || parts.send(Part::Lines(path.to_owned(), batch)))
}

#[derive(Clone, Copy)]
struct Worker<'a> {
    configs: Configs<'a>,
    now: Timestamp,
    data_dir: Option<&'a DataDir>,
}

impl Worker<'_> {
    fn run(self, parts: &Mutex<Receiver<(u64, Part)>>, results: &SyncSender<(u64, PartResult)>) {
        loop {
            let received = parts.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((number, part)) = received else { return };
            let result = match part {
                Part::Lines(path, lines) => self.lines(path, lines),
                Part::File(file, format) => self.file(file, format),
                Part::Stored(run) => self.stored(&run),
                Part::Unreadable(file, error) => PartResult {
                    bytes: file.len(),
                    path: Some(file.path),
                    file: Some(Err(error)),
                    is_in_directory: file.is_in_directory,
                    ..PartResult::default()
                },
            };
            if results.send((number, result)).is_err() {
                return;
            }
        }
    }

    fn lines(self, path: PathBuf, lines: Vec<(u64, Vec<u8>)>) -> PartResult {
        let mut result = PartResult { path: Some(path), ..PartResult::default() };
        for (number, line) in lines {
            result.bytes += u64::try_from(line.len()).unwrap_or_default();
            let run = parse_run(&line, self.now, number);
            let against = self.configs.against.map(|config| backtest(run.clone(), config.engine()));
            let report = backtest(run, self.configs.config.engine());
            result.runs.push(RunResult { report, against });
        }
        result
    }

    fn file(self, file: InputFile, format: &'static SessionFormat) -> PartResult {
        let mut runs = Runs::new(self.configs);
        // Records of other programs have no decision points.
        runs.has_points =
            format.name != "records" || contains(&file.path, b"\"decision_point\":\"");
        let mut bytes = 0;
        let read = read_file(&file.path, Some(format), |records, read| {
            bytes += read;
            // The first event of a record is the one that counts; further ones conflict with it.
            let events = records.drain(..).filter_map(|record| record.events.into_iter().next());
            events.for_each(|event| runs.apply(event));
            Ok(())
        });
        PartResult {
            runs: runs.finish(),
            path: Some(file.path),
            file: Some(read),
            is_in_directory: file.is_in_directory,
            bytes,
        }
    }

    fn stored(self, run: &RunId) -> PartResult {
        let mut runs = Runs::new(self.configs);
        let read = self.apply_stored(run, &mut runs);
        PartResult {
            runs: runs.finish(),
            file: read.err().map(|error| Err(ReadError::Caller(error.into()))),
            bytes: 1,
            ..PartResult::default()
        }
    }

    fn apply_stored(self, run: &RunId, runs: &mut Runs<'_>) -> Result<()> {
        let store = self.data_dir.map(Store::open_read_only).transpose()?.flatten();
        let store = store.context("the store has been removed")?;
        runs.has_points = store.was_monitored(run.as_str())?;
        let mut from = 0;
        loop {
            let page = store.records_or_damage(run.as_str(), from, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            from = last.saturating_add(1);
            // A damaged record is left out; `midcourse verify` reports it.
            for stored in page.into_iter().filter_map(|(_, record)| record.ok()) {
                runs.apply(event_of(stored));
            }
        }
    }
}

fn event_of(stored: StoredRecord) -> Event {
    let (source, decision_point) = (stored.source.clone(), stored.decision_point);
    let record = stored.into_record();
    let mut run = RunIdentity::root(record.run_id.unwrap_or_else(|| "".into()));
    run.parent_run_id = record.parent_run_id;
    run.depth = record.depth;
    let event = Event::new(run, source, record.recorded_at_unix_ms, record.payload);
    Event { decision_point, ..event }
}

/// Whether a file contains these bytes; false if it cannot be read.
fn contains(path: &Path, bytes: &[u8]) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let (mut reader, mut line) = (BufReader::with_capacity(1 << 16, file), Vec::new());
    while let Ok(true) = read_line(&mut reader, &mut line) {
        if memchr::memmem::find(&line, bytes).is_some() {
            return true;
        }
        line.clear();
    }
    false
}

/// The runs of one file, in the order in which they begin.
struct Runs<'a> {
    configs: Configs<'a>,
    /// Whether the events have the decision points at which a message could be delivered. Otherwise
    /// every event has one, as in `midcourse replay`.
    has_points: bool,
    index: HashMap<RunId, usize>,
    runs: Vec<(RunBacktest, Option<RunBacktest>)>,
}

impl<'a> Runs<'a> {
    fn new(configs: Configs<'a>) -> Self {
        Self { configs, has_points: true, index: HashMap::new(), runs: Vec::new() }
    }

    fn apply(&mut self, mut event: Event) {
        if !self.has_points {
            event.decision_point = Some(DecisionPoint::PreToolSelection);
        }
        let index = match self.index.get(&event.run.run_id) {
            Some(index) => *index,
            None => {
                // The limits on messages that the agent's hooks would have had.
                let host = Host::named(event.source.host());
                let policy = host.map_or_else(DeliveryPolicy::default, Host::delivery_policy);
                // The record of the start may have a deadline.
                let identity = match &event.payload {
                    TrajectoryPayload::RunStarted { identity } => identity,
                    _ => &event.run,
                };
                let replay = |config: &Config| {
                    RunBacktest::new(identity, event.at, config.engine_for(policy))
                };
                self.runs.push((replay(self.configs.config), self.configs.against.map(replay)));
                let index = self.runs.len() - 1;
                self.index.insert(event.run.run_id.clone(), index);
                index
            }
        };
        let Some((run, against)) = self.runs.get_mut(index) else { return };
        if let Some(against) = against {
            against.apply(event.clone());
        }
        run.apply(event);
    }

    fn finish(self) -> Vec<RunResult> {
        let finish = |(run, against): (RunBacktest, Option<RunBacktest>)| RunResult {
            report: run.finish(),
            against: against.map(RunBacktest::finish),
        };
        self.runs.into_iter().map(finish).collect()
    }
}
