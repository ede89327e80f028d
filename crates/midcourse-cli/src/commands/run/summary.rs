//! The summary that `midcourse run` prints at the end: the short form of `midcourse report`, with
//! the exit code of the command.

use std::time::Duration;

use anyhow::Result;
use midcourse::{DataDir, Store, Timestamp, has_spilled, now};

use super::child::Ended;
use crate::commands::report::clock::Clock;
use crate::commands::report::collect::{self, Part};
use crate::commands::report::data::{Message, RunReport};
use crate::commands::report::headline::{self, Ending};
use crate::commands::report::prices::Prices;
use crate::commands::report::{text, words};
use crate::commands::{eprint_line, warn};
use crate::config;
use crate::display::{duration, one_line, wrapped};
use crate::log::Log;
use crate::run_settings::RunSettings;

/// Maximum number of lines of a summary, with the empty line before it.
const MAX_LINES: usize = 12;

/// Maximum width of a line.
const WIDTH: usize = 96;

/// Which of the two, hooks and a proxy, were set up to report what the command does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Observed {
    pub(crate) hooks: bool,
    pub(crate) proxy: bool,
}

/// Prints the summary to standard error. `unread` says which traffic midcourse could not read. An
/// error is printed too and not returned, because `midcourse run` must exit with the exit code of
/// the command.
pub(crate) fn print(
    data_dir: &DataDir,
    settings: &RunSettings,
    started: Timestamp,
    ended: &Ended,
    observed: Observed,
    unread: Option<&str>,
) {
    let elapsed = now().since(started);
    let log = Log::new(Some(data_dir), "run");
    let log = log.written_within(elapsed).map(|log| log.display().to_string());
    match collect(data_dir, settings, started) {
        // Neither hooks nor a proxy were set up, and a warning said so when the command started.
        Ok(None) if !observed.hooks && !observed.proxy => {}
        Ok(None) => {
            let more = log.map_or_else(String::new, |log| format!("; see {log}"));
            let why = if observed.hooks {
                "no hook ran. The command did not start working, continues in the background, or \
                 has its hooks switched off"
            } else {
                "no model request came through midcourse. The command made none, or connects in a \
                 way of its own"
            };
            let why = unread.unwrap_or(why);
            warn(&format!("nothing was recorded in {}: {why}{more}", duration(elapsed)));
        }
        Ok(Some(report)) => {
            for line in lines(&report, elapsed, *ended) {
                eprint_line(&line);
            }
            if let Some(log) = log {
                warn(&format!("there were problems; see {log}"));
            }
        }
        Err(error) => warn(&format!("cannot read the recorded runs: {error:#}")),
    }
    if has_spilled(data_dir) {
        warn("some events are in the spill folder; they are stored with the next event");
    }
}

/// The report about all runs of the launch (this use of `midcourse run`); `None` if there are none.
/// Of a run that was resumed, it covers only the part since the launch.
fn collect(
    data_dir: &DataDir,
    settings: &RunSettings,
    started: Timestamp,
) -> Result<Option<RunReport>> {
    let (Some(store), Some(key)) = (Store::open_read_only(data_dir)?, settings.launch_key()) else {
        return Ok(None);
    };
    let runs = store.runs_with_fact("config_applied", &key, started)?.into_iter();
    let mut parts: Vec<Part> =
        runs.map(|(run, from)| Part { started: run.started.max(started), run, from }).collect();
    parts.sort_by_key(|part| (part.run.parent_run_id.is_some(), part.run.started));
    let prices = Prices::new(config::users_prices(data_dir));
    collect::collect(&store, parts, &prices)
}

fn lines(report: &RunReport, elapsed: Duration, ended: Ended) -> Vec<String> {
    let killed = ended.to_string();
    let ending = Ending {
        outcome: match ended {
            Ended::Code(0) => Some("completed"),
            Ended::Code(_) => Some("failed"),
            Ended::Signal(_) => Some(&killed),
            Ended::Unknown => None,
        },
        exit_code: match ended {
            Ended::Code(code) => Some(i64::from(code)),
            Ended::Signal(_) | Ended::Unknown => None,
        },
        has_ended: true,
        took: elapsed,
        latest: report.latest,
        clock: Clock::of(report),
    };
    let mut lines = vec![String::new(), format!("midcourse: {}", ending.text())];
    let sentences = headline::rest(report).join(" ");
    lines.extend(wrapped(&one_line(&sentences, 380), WIDTH).into_iter().map(indented));
    let mut counts = format!("calls: {}", text::calls(report));
    if !report.tokens.is_zero() {
        counts.push_str(&format!(
            "; tokens: {}; cost: {}",
            text::tokens(report),
            report.cost.text()
        ));
    }
    lines.extend(wrapped(&counts, WIDTH).into_iter().map(indented));
    let details = format!("  details: midcourse report {}", text::quoted(&report.run_id));
    let free = MAX_LINES.saturating_sub(lines.len()).saturating_sub(1);
    lines.extend(message_lines(&report.messages, &Clock::of(report), free));
    lines.push(details);
    lines
}

fn indented(line: String) -> String {
    format!("  {line}")
}

/// The latest messages, two lines each, in at most `free` lines.
fn message_lines(messages: &[Message], clock: &Clock, free: usize) -> Vec<String> {
    let shown = (free.saturating_sub(1) / 2).min(messages.len());
    let hidden = messages.len().saturating_sub(shown);
    let mut lines = Vec::new();
    if shown > 0 && hidden > 0 {
        lines.push(format!("  {hidden} earlier, then:"));
    }
    for message in messages.iter().skip(hidden) {
        let time = clock.time(message.at);
        let width = WIDTH.saturating_sub(time.chars().count()).saturating_sub(2);
        lines.push(format!("  {time}  {}", one_line(&message.text, width)));
        let outcome = words::outcome(message);
        let not_shown = message.not_shown().map(str::to_owned);
        let notes: Vec<String> = [not_shown, outcome].into_iter().flatten().collect();
        if !notes.is_empty() {
            let indent = time.chars().count();
            lines.push(format!("  {:indent$}  ({})", "", notes.join("; ")));
        }
    }
    lines
}
