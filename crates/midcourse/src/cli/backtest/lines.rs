//! Reading runs from files and judging them on all cores, in the order of the files.
//!
//! One thread reads lines, the others judge them, and the caller gets the verdicts in order. What is
//! in flight is bounded, so memory does not depend on the size of the files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use midcourse::{Verdict, backtest, now, read_run};
use midcourse_core::{Engine, Goals, Timestamp};

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

type Batch = (u64, Vec<(u64, Vec<u8>)>);
type Judged = (u64, Vec<(Verdict, u64)>);

/// Judges every run of the files and hands the verdicts over in order, with the length of each line.
pub(super) fn each_verdict(
    files: &[PathBuf],
    mut take: impl FnMut(Verdict, u64) -> Result<()>,
) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (send_lines, lines) = sync_channel::<Batch>(workers * 2);
    let (send_judged, judged) = sync_channel::<Judged>(workers * 2);
    let (lines, started) = (Mutex::new(lines), now());
    thread::scope(|scope| {
        let reader = scope.spawn(move || read(files, &send_lines));
        for _ in 0..workers {
            let (lines, judged) = (&lines, send_judged.clone());
            scope.spawn(move || judge(lines, &judged, started));
        }
        drop(send_judged);
        let mut waiting: BTreeMap<u64, Vec<(Verdict, u64)>> = BTreeMap::new();
        let mut next = 0;
        for (number, verdicts) in judged {
            waiting.insert(number, verdicts);
            while let Some(verdicts) = waiting.remove(&next) {
                next += 1;
                for (verdict, bytes) in verdicts {
                    take(verdict, bytes)?;
                }
            }
        }
        reader.join().unwrap_or(Ok(()))
    })
}

fn read(files: &[PathBuf], send: &SyncSender<Batch>) -> Result<()> {
    let (mut number, mut line_number) = (0, 0);
    let mut batch = Vec::new();
    let mut bytes = 0;
    let mut hand_over = |batch: &mut Vec<(u64, Vec<u8>)>| {
        let sent = send.send((number, std::mem::take(batch)));
        number += 1;
        // Nobody listens any more: whoever stopped knows why.
        sent.is_ok()
    };
    for path in files {
        let about = || format!("{} cannot be read", path.display());
        let mut reader = BufReader::with_capacity(1 << 16, File::open(path).with_context(about)?);
        loop {
            let mut line = Vec::new();
            if reader.read_until(b'\n', &mut line).with_context(about)? == 0 {
                break;
            }
            line_number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            bytes += line.len();
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

fn judge(lines: &Mutex<Receiver<Batch>>, judged: &SyncSender<Judged>, started: Timestamp) {
    loop {
        let received = lines.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, batch)) = received else { return };
        let verdict = |(line_number, line): (u64, Vec<u8>)| {
            let run = read_run(&line, started, line_number);
            let mut engine = Engine::shipped(Goals::default());
            (backtest(&run, &mut engine), u64::try_from(line.len()).unwrap_or_default())
        };
        if judged.send((number, batch.into_iter().map(verdict).collect())).is_err() {
            return;
        }
    }
}
