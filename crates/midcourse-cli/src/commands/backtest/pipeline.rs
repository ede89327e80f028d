//! Backtests the runs of many files on all cores and returns the results in the order of the files.
//!
//! One thread reads lines, each of which contains a run; the others parse the lines and replay the
//! runs. The queues between the threads have a maximum length, so memory use does not depend on the
//! size of the files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::backtest::{BacktestReport, backtest};
use crate::config::Config;
use crate::formats::events::parse_run;
use anyhow::{Context as _, Result};
use midcourse::{Timestamp, now};

use crate::input_line::read_line;

/// Maximum number of lines that are passed to another thread together, as one batch.
const BATCH_LINES: usize = 32;

/// If the lines of a batch have this many bytes in total, the batch is passed on at once, even if
/// it has fewer than `BATCH_LINES` lines.
const BATCH_BYTES: usize = 1 << 20;

/// The configuration with which every run is replayed and, if two are compared, the second one.
#[derive(Clone, Copy)]
pub(super) struct Configs<'a> {
    pub(super) config: &'a Config,
    pub(super) against: Option<&'a Config>,
}

/// The report about a run with the first configuration and, if two are compared, the report with
/// the second configuration.
pub(super) struct RunResult {
    pub(super) report: BacktestReport,
    pub(super) against: Option<BacktestReport>,
    /// Length in bytes of the line from which the run was read.
    pub(super) bytes: u64,
}

/// Lines or results that one thread passes to another together. The number is the position of the
/// batch in the input, counted from 0.
type Batch<T> = (u64, Vec<T>);

/// A line and its number, counted from 1 over the lines of all files.
type Line = (u64, Vec<u8>);

/// Backtests every run of the files on several threads. Calls `take` with each result, in the order
/// of the input.
pub(super) fn for_each_run(
    files: &[PathBuf],
    configs: Configs<'_>,
    mut take: impl FnMut(RunResult) -> Result<()>,
) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (send_lines, lines) = sync_channel::<Batch<Line>>(workers * 2);
    let (send_results, results) = sync_channel::<Batch<RunResult>>(workers * 2);
    let (lines, now) = (Mutex::new(lines), now());
    thread::scope(|scope| {
        let reader = scope.spawn(move || read_files(files, &send_lines));
        for _ in 0..workers {
            let (lines, results) = (&lines, send_results.clone());
            scope.spawn(move || backtest_lines(lines, &results, configs, now));
        }
        drop(send_results);
        // Results by batch number. Results of a batch that is finished before an earlier batch wait
        // here until the earlier batch is finished too.
        let mut out_of_order: BTreeMap<u64, Vec<RunResult>> = BTreeMap::new();
        let mut next = 0;
        for (number, batch) in results {
            out_of_order.insert(number, batch);
            while let Some(batch) = out_of_order.remove(&next) {
                next += 1;
                batch.into_iter().try_for_each(&mut take)?;
            }
        }
        reader.join().unwrap_or(Ok(()))
    })
}

fn read_files(files: &[PathBuf], send: &SyncSender<Batch<Line>>) -> Result<()> {
    let (mut batch_number, mut line_number) = (0, 0);
    let mut batch = Vec::new();
    let (mut batch_bytes, mut line_len) = (0, 0);
    let mut send_batch = |batch: &mut Vec<Line>| {
        let sent = send.send((batch_number, std::mem::take(batch)));
        batch_number += 1;
        // Sending fails if the other threads have stopped, because `take` returned an error.
        sent.is_ok()
    };
    for path in files {
        let context = || format!("cannot read {}", path.display());
        let mut reader = BufReader::with_capacity(1 << 16, File::open(path).with_context(context)?);
        loop {
            // Lines of a file have similar lengths, so the previous line's length is a good initial
            // capacity.
            let mut line = Vec::with_capacity(line_len.min(BATCH_BYTES));
            if !read_line(&mut reader, &mut line).with_context(context)? {
                break;
            }
            line_number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            line_len = line.len();
            batch_bytes += line_len;
            batch.push((line_number, line));
            if batch.len() >= BATCH_LINES || batch_bytes >= BATCH_BYTES {
                batch_bytes = 0;
                if !send_batch(&mut batch) {
                    return Ok(());
                }
            }
        }
    }
    send_batch(&mut batch);
    Ok(())
}

fn backtest_lines(
    lines: &Mutex<Receiver<Batch<Line>>>,
    results: &SyncSender<Batch<RunResult>>,
    configs: Configs<'_>,
    now: Timestamp,
) {
    loop {
        let received = lines.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, batch)) = received else { return };
        let backtest_line = |(line_number, line): Line| {
            let run = parse_run(&line, now, line_number);
            let report = |config: &Config, run| backtest(run, &mut config.engine());
            RunResult {
                against: configs.against.map(|config| report(config, run.clone())),
                report: report(configs.config, run),
                bytes: u64::try_from(line.len()).unwrap_or_default(),
            }
        };
        if results.send((number, batch.into_iter().map(backtest_line).collect())).is_err() {
            return;
        }
    }
}
