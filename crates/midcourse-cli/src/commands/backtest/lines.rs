//! Reading runs from files and judging them on all cores, in the order of the files.
//!
//! One thread reads lines, the others judge them, and the caller gets the verdicts in order. What is
//! in flight is bounded, so memory does not depend on the size of the files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::backtest::{Verdict, backtest};
use crate::config::Config;
use crate::formats::events::read_run;
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use midcourse::{Timestamp, now};

use crate::commands::line;

/// Lines handed over at once, unless they are long.
const BATCH: usize = 32;

/// Bytes handed over at once, about.
const BATCH_BYTES: usize = 1 << 20;

/// How the files are written.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Format {
    /// Runs in the neutral format, one JSON object a line.
    Events,
}

/// The configurations that every run is judged with: one, or one and another beside it.
#[derive(Clone, Copy)]
pub(super) struct Judges<'a> {
    pub(super) config: &'a Config,
    pub(super) against: Option<&'a Config>,
}

/// A run's verdicts, in the order of the judges, and the length of its line.
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) against: Option<Verdict>,
    pub(super) bytes: u64,
}

type Batch<T> = (u64, Vec<T>);

/// A line and its number.
type Line = (u64, Vec<u8>);

/// Judges every run of the files and hands the verdicts over in order.
pub(super) fn each_verdict(
    files: &[PathBuf],
    judges: Judges<'_>,
    mut take: impl FnMut(Judged) -> Result<()>,
) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (send_lines, lines) = sync_channel::<Batch<Line>>(workers * 2);
    let (send_judged, judged) = sync_channel::<Batch<Judged>>(workers * 2);
    let (lines, started) = (Mutex::new(lines), now());
    thread::scope(|scope| {
        let reader = scope.spawn(move || read(files, &send_lines));
        for _ in 0..workers {
            let (lines, judged) = (&lines, send_judged.clone());
            scope.spawn(move || judge(lines, &judged, judges, started));
        }
        drop(send_judged);
        let mut waiting: BTreeMap<u64, Vec<Judged>> = BTreeMap::new();
        let mut next = 0;
        for (number, verdicts) in judged {
            waiting.insert(number, verdicts);
            while let Some(verdicts) = waiting.remove(&next) {
                next += 1;
                verdicts.into_iter().try_for_each(&mut take)?;
            }
        }
        reader.join().unwrap_or(Ok(()))
    })
}

fn read(files: &[PathBuf], send: &SyncSender<Batch<Line>>) -> Result<()> {
    let (mut number, mut line_number) = (0, 0);
    let mut batch = Vec::new();
    let (mut bytes, mut length) = (0, 0);
    let mut hand_over = |batch: &mut Vec<Line>| {
        let sent = send.send((number, std::mem::take(batch)));
        number += 1;
        // Nobody listens any more: whoever stopped knows why.
        sent.is_ok()
    };
    for path in files {
        let about = || format!("{} cannot be read", path.display());
        let mut reader = BufReader::with_capacity(1 << 16, File::open(path).with_context(about)?);
        loop {
            // About as long as the one before: a line that grows is copied again and again.
            let mut line = Vec::with_capacity(length.min(BATCH_BYTES));
            if !line::read(&mut reader, &mut line).with_context(about)? {
                break;
            }
            line_number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            length = line.len();
            bytes += length;
            batch.push((line_number, line));
            if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                bytes = 0;
                if !hand_over(&mut batch) {
                    return Ok(());
                }
            }
        }
    }
    hand_over(&mut batch);
    Ok(())
}

fn judge(
    lines: &Mutex<Receiver<Batch<Line>>>,
    judged: &SyncSender<Batch<Judged>>,
    judges: Judges<'_>,
    started: Timestamp,
) {
    loop {
        let received = lines.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, batch)) = received else { return };
        let judge = |(line_number, line): Line| {
            let run = read_run(&line, started, line_number);
            let verdict = |config: &Config, run| backtest(run, &mut config.engine());
            Judged {
                against: judges.against.map(|config| verdict(config, run.clone())),
                verdict: verdict(judges.config, run),
                bytes: u64::try_from(line.len()).unwrap_or_default(),
            }
        };
        if judged.send((number, batch.into_iter().map(judge).collect())).is_err() {
            return;
        }
    }
}
