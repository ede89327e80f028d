//! `midcourse repair`: saves what can be saved of a damaged store.

use std::io::{Write as _, stdout};

use anyhow::{Context as _, Result};
use midcourse::{Repaired, RepairedRun, Store};
use serde_json::json;

use super::open;
use crate::display::{escape_control_chars, json_line, one_line};
use crate::terminal::warn;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Print JSON lines: the damaged runs, then a summary.
    #[arg(long)]
    json: bool,
}

/// Repairs the store, and returns true if nothing was lost.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    // Spilled events are not imported first: that would write to the damaged store.
    let data_dir = open::data_dir()?;
    let kept = open::folder_for_kept_files(&data_dir, "repair");
    let repaired =
        Store::repair(&data_dir, &kept).with_context(|| data_dir.path().display().to_string())?;
    let mut out = stdout().lock();
    let Some(repaired) = repaired else {
        if arguments.json {
            writeln!(out, "{}", json!({"type": "summary", "repaired": false}))?;
        } else {
            writeln!(out, "The store is not damaged. Nothing was changed.")?;
        }
        return Ok(true);
    };
    let Repaired { runs, records, damaged_runs, lost_at_end, commits_behind_damage, findings } =
        &repaired;
    for finding in findings {
        warn(&format!("still damaged: {finding}"));
    }
    let lost: usize = damaged_runs.iter().map(|run| run.lost.len()).sum();
    if arguments.json {
        for RepairedRun { run_id, lost, unchecked, lost_reports } in damaged_runs {
            let line = json!({"type": "run", "run_id": run_id, "lost": lost,
                              "unchecked": unchecked, "lost_reports": lost_reports});
            writeln!(out, "{}", json_line(&line))?;
        }
        let line = json!({"type": "summary", "repaired": true, "runs": runs, "records": records,
                          "lost": lost, "lost_at_end": lost_at_end,
                          "commits_behind_damage": commits_behind_damage, "kept": kept});
        writeln!(out, "{}", json_line(&line))?;
    } else {
        for run in damaged_runs {
            print_run(&mut out, run)?;
        }
        if *lost_at_end > 0 {
            writeln!(
                out,
                "The last {lost_at_end} records of the store are lost; their runs are not known."
            )?;
        }
        if *commits_behind_damage > 0 {
            writeln!(
                out,
                "Read {commits_behind_damage} commits behind the damage in the write-ahead log."
            )?;
        }
        writeln!(out, "Saved {runs} runs, {records} records. Lost records: {lost}.")?;
        let kept = kept.display().to_string();
        writeln!(out, "The damaged store is in {}", escape_control_chars(&kept))?;
    }
    Ok(lost == 0 && *lost_at_end == 0 && findings.is_empty())
}

fn print_run(out: &mut impl std::io::Write, run: &RepairedRun) -> Result<()> {
    let name = one_line(run.run_id.as_str(), 80);
    if !run.lost.is_empty() {
        let count = run.lost.len();
        writeln!(
            out,
            "{name}: lost records {} ({count}); gap markers are there now",
            ranges(&run.lost)
        )?;
    }
    if !run.unchecked.is_empty() {
        let seqs = ranges(&run.unchecked);
        writeln!(out, "{name}: kept unchecked, because they follow lost records: {seqs}")?;
    }
    if !run.lost_reports.is_empty() {
        let seqs = ranges(&run.lost_reports);
        writeln!(out, "{name}: lost what other sources reported about records {seqs}")?;
    }
    Ok(())
}

/// Formats seqs as ranges, such as `3, 7-9`.
fn ranges(seqs: &[u64]) -> String {
    let mut sorted = seqs.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for seq in sorted {
        match parts.last_mut() {
            Some((_, last)) if last.saturating_add(1) == seq => *last = seq,
            _ => parts.push((seq, seq)),
        }
    }
    let part = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn consecutive_seqs_are_a_range() {
        assert_eq!(ranges(&[3, 9, 7, 8, 12, 12]), "3, 7-9, 12");
        assert_eq!(ranges(&[]), "");
    }
}
