//! What a backtest found, on one screen: how much the agents worked, in how many sessions midcourse
//! would have spoken about a problem, what came after the first such message, and the sessions with
//! the most of that. Messages about the deadline and budgets say nothing about trouble and are left out.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use midcourse::Timestamp;

use crate::backtest::{BacktestReport, Spent};
use crate::commands::report::words;
use crate::commands::stats::{median, percent};
use crate::display::{self, duration, local_date, one_line, plain_name, wrapped};
use crate::shell::shell_quote;

/// Maximum number of sessions that are shown.
const MAX_SHOWN: usize = 5;

/// Width of the text if the output is not a terminal, or a wide one.
const MAX_COLUMNS: usize = 100;

/// A session in which midcourse would have spoken.
struct Example {
    run_id: String,
    started_at: Timestamp,
    folder: Option<String>,
    first_call: u64,
    calls: u64,
    after: Spent,
    cause: String,
    text: String,
    /// The command that shows what midcourse would have said in the run.
    command: String,
}

#[derive(Default)]
struct Source {
    sessions: u64,
    subagents: u64,
    calls: u64,
    time: Duration,
}

#[derive(Default)]
pub(super) struct Overview {
    sources: BTreeMap<String, Source>,
    /// Of each session, by a hash of its id: whether midcourse would have spoken in it, or in a
    /// subagent of it.
    sessions: HashMap<u64, bool>,
    spent: Spent,
    after: Spent,
    /// Of each run with a message: what it took until the first message, and from there to the end.
    until_first: Vec<Spent>,
    until_end: Vec<Spent>,
    period: Option<(Timestamp, Timestamp)>,
    examples: Vec<Example>,
    runs_without_calls: u64,
}

impl Overview {
    /// Adds a run. `path` is its file, and `is_only_run` says whether the file has no other run;
    /// `None` if the run is from the store.
    pub(super) fn add(&mut self, report: &BacktestReport, path: Option<(&Path, bool)>) {
        let (is_child, spent) = (report.parent_run_id.is_some(), report.spent);
        let source = self.sources.entry(report.source.clone()).or_default();
        // A subagent works while its parent waits, so its time is part of the parent's.
        let time = if is_child { Duration::ZERO } else { spent.time };
        source.time = source.time.saturating_add(time);
        source.calls = source.calls.saturating_add(spent.calls);
        if is_child {
            source.subagents += 1;
        } else {
            source.sessions += 1;
            self.runs_without_calls += u64::from(report.calls == 0);
        }
        self.spent.add(Spent { time, ..spent });
        let session = report.parent_run_id.as_ref().unwrap_or(&report.run_id);
        let hash = xxhash_rust::xxh3::xxh3_64(session.as_bytes());
        *self.sessions.entry(hash).or_default() |= report.after_problem.is_some();
        let period = (report.started_at, report.ended_at);
        let wider = |known: (Timestamp, Timestamp)| (known.0.min(period.0), known.1.max(period.1));
        self.period = Some(self.period.map_or(period, wider));
        if let Some(after) = report.after_problem {
            let time = if is_child { Duration::ZERO } else { after.time };
            self.after.add(Spent { time, ..after });
            self.until_first.push(spent.since(after));
            self.until_end.push(after);
            self.add_example(report, after, path);
        }
    }

    fn add_example(&mut self, report: &BacktestReport, after: Spent, path: Option<(&Path, bool)>) {
        let rank = |after: &Spent| (after.time, after.tokens, after.calls);
        if self.examples.len() == MAX_SHOWN
            && self.examples.last().is_some_and(|last| rank(&last.after) >= rank(&after))
        {
            return;
        }
        let Some(first) = report.first_problem() else { return };
        let run = shell_quote(&report.run_id);
        let command = match path {
            None => format!("midcourse replay --run {run}"),
            Some((path, is_only_run)) => {
                let path = shell_quote(&path.to_string_lossy());
                let run = if is_only_run { String::new() } else { format!(" --run {run}") };
                format!("midcourse replay {path}{run}")
            }
        };
        self.examples.push(Example {
            run_id: report.run_id.clone(),
            started_at: report.started_at,
            folder: report.folder.clone(),
            first_call: first.call,
            calls: report.calls,
            after,
            cause: first.cause_name().to_owned(),
            text: first.delivery.text(),
            command,
        });
        self.examples.sort_by_key(|example| std::cmp::Reverse(rank(&example.after)));
        self.examples.truncate(MAX_SHOWN);
    }

    fn spoken(&self) -> usize {
        self.sessions.values().filter(|is_spoken| **is_spoken).count()
    }

    /// Prints the overview. `without_sessions` names agents of which no session was found.
    pub(super) fn print(
        &self,
        out: &mut impl Write,
        without_sessions: &[&str],
        columns: Option<usize>,
    ) -> Result<()> {
        let paragraph = |out: &mut _, text: &str| print_paragraph(out, text, columns);
        let sessions: u64 = self.sources.values().map(|source| source.sessions).sum();
        let period = self.period.map_or_else(String::new, |(from, to)| {
            format!(", from {} to {}", local_date(from), local_date(to))
        });
        let spent = spent_text(self.spent);
        let agent_sessions = if sessions == 1 { "session" } else { "sessions" };
        let count = words::grouped(sessions);
        paragraph(out, &format!("{count} agent {agent_sessions}: {spent}{period}."))?;
        for (name, source) in &self.sources {
            let subagents = match source.subagents {
                0 => String::new(),
                1 => ", 1 subagent".to_owned(),
                subagents => format!(", {} subagents", words::grouped(subagents)),
            };
            let name = one_line(name, 30);
            let spent = Spent { time: source.time, tokens: 0, calls: source.calls };
            let (sessions, spent) = (sessions_text(source.sessions), spent_text(spent));
            writeln!(out, "  {name}: {sessions}{subagents}, {spent}")?;
        }
        if self.runs_without_calls > 0 {
            let count = words::grouped(self.runs_without_calls);
            writeln!(out, "  ({count} of these sessions have no tool call)")?;
        }
        if !without_sessions.is_empty() {
            writeln!(out, "  no sessions found of {}", without_sessions.join(", "))?;
        }
        writeln!(out)?;
        let spoken = self.spoken();
        if spoken == 0 {
            paragraph(out, "midcourse would have sent no message about a problem in any of them.")?;
            return Ok(());
        }
        let of_all = percent((spoken, self.sessions.len().max(1)));
        let first = middle(&self.until_first);
        let is_one = self.until_first.len() == 1;
        let median = if is_one { "" } else { " (medians)" };
        let after = match first.time > Duration::ZERO {
            true => format!(", after {} of work", duration(first.time)),
            false => String::new(),
        };
        paragraph(
            out,
            &format!(
                "midcourse would have sent a message about a problem in {} of {} ({of_all:.0} %), the first at call \
                 {}{after}{median}.",
                words::grouped(u64::try_from(spoken).unwrap_or_default()),
                sessions_text(u64::try_from(self.sessions.len()).unwrap_or_default()),
                first.calls,
            ),
        )?;
        let these = if is_one {
            "After it, that session"
        } else {
            "After their first message, these sessions"
        };
        paragraph(
            out,
            &format!(
                "{these} took another {}. Some of that was needed anyway: a backtest cannot tell how \
                 much a message would have saved.",
                spent_text(self.after)
            ),
        )?;
        writeln!(out, "\nThe most work after the first message:")?;
        for example in &self.examples {
            example.print(out, limited(columns))?;
        }
        Ok(())
    }
}

/// The medians of time and calls.
fn middle(spent: &[Spent]) -> Spent {
    let of = |part: fn(&Spent) -> u64| median(spent.iter().map(part).collect()).unwrap_or_default();
    let seconds = of(|spent| spent.time.as_secs());
    Spent { time: Duration::from_secs(seconds), tokens: 0, calls: of(|spent| spent.calls) }
}

/// Time, calls and tokens. Files without times or tokens have none to show.
fn spent_text(spent: Spent) -> String {
    let time = (spent.time > Duration::ZERO).then(|| format!("{} of work", duration(spent.time)));
    let calls = match spent.calls {
        0 if time.is_some() => None,
        1 => Some("1 call".to_owned()),
        calls => Some(format!("{} calls", words::grouped(calls))),
    };
    let tokens = (spent.tokens > 0).then(|| format!("{} tokens", words::tokens(spent.tokens)));
    let mut parts: Vec<String> = [time, calls, tokens].into_iter().flatten().collect();
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() { last } else { format!("{} and {last}", parts.join(", ")) }
}

fn limited(columns: Option<usize>) -> usize {
    columns.unwrap_or(MAX_COLUMNS).clamp(40, MAX_COLUMNS)
}

/// Prints a text in lines of the width of the terminal.
pub(super) fn print_paragraph(
    out: &mut impl Write,
    text: &str,
    columns: Option<usize>,
) -> Result<()> {
    for line in wrapped(text, limited(columns)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

impl Example {
    fn print(&self, out: &mut impl Write, columns: usize) -> Result<()> {
        let place = self.folder.as_deref().unwrap_or(&self.run_id);
        let place = display::end_of_line(place, columns.saturating_sub(20));
        writeln!(out, "\n  {}  {place}", local_date(self.started_at))?;
        let spent = format!(
            "{}, at call {} of {}; after it: {}",
            plain_name(&self.cause),
            self.first_call,
            self.calls,
            spent_text(self.after),
        );
        let text = one_line(&self.text, columns.saturating_mul(2).saturating_sub(12));
        let text = format!("The agent would have read: “{text}”");
        for paragraph in [spent, text] {
            for line in wrapped(&paragraph, columns.saturating_sub(4)) {
                writeln!(out, "    {line}")?;
            }
        }
        // Not wrapped: the command is there to be copied.
        writeln!(out, "    To see it call by call:")?;
        writeln!(out, "      {}", display::escape_control_chars(&self.command))?;
        Ok(())
    }
}

fn sessions_text(sessions: u64) -> String {
    if sessions == 1 {
        "1 session".to_owned()
    } else {
        format!("{} sessions", words::grouped(sessions))
    }
}
