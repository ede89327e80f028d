//! A report about all runs of a period, as text for a terminal.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use comfy_table::Table;
use midcourse::Period;

use super::many::{OutcomeCount, PeriodReport, UsageSum};
use super::text::Layout;
use super::words;
use crate::commands::columns;
use crate::commands::screen::Painter;
use crate::display::{duration, local_time, one_line, plain_name, wrapped};

/// How many rows of a table are shown.
const MAX_ROWS: usize = 8;

/// Prints the first sentence, which needs one quick query.
pub(crate) fn print_opening(
    out: &mut impl Write,
    period: &Period,
    runs: u64,
    layout: &Layout,
) -> io::Result<()> {
    let since = local_time(period.since);
    paragraph(out, &format!("{} since {since}.", words::count(runs, "run")), layout)
}

/// How many runs ended in which way.
fn outcomes(report: &PeriodReport) -> String {
    let part = |it: &OutcomeCount| {
        format!("{} {}", words::grouped(it.runs), ending(it.outcome.as_deref()))
    };
    report.outcomes.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn ending(outcome: Option<&str>) -> String {
    match outcome {
        None => "without an end".to_owned(),
        Some("completed") => "finished".to_owned(),
        Some("aborted") => "stopped by the user or a signal".to_owned(),
        Some("limit_reached") => "stopped at a limit".to_owned(),
        Some("unknown") => "ended, unknown how".to_owned(),
        Some(other) => one_line(other, 30),
    }
}

fn paragraph(out: &mut impl Write, text: &str, layout: &Layout) -> io::Result<()> {
    wrapped(text, layout.width).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Prints the rest of the report.
pub(crate) fn print(out: &mut impl Write, report: &PeriodReport, layout: &Layout) -> Result<()> {
    if report.runs == 0 {
        return Ok(());
    }
    paragraph(out, &totals(report), layout)?;
    if report.not_analysed > 0 {
        let count = words::count(report.not_analysed, "run");
        let note = format!(
            "{count} are not analysed yet, so their trouble is not counted. Each use of this \
             command analyses more of them, for two seconds."
        );
        paragraph(out, &note, layout)?;
    }
    patterns(out, report)?;
    messages(out, report)?;
    usage(out, "Tokens and cost by model", "MODEL", &report.models)?;
    usage(out, "Tokens and cost by project", "FOLDER", &report.projects)?;
    if let Some(estimated) = report.cost.estimated_with() {
        writeln!(out, "~ {estimated}")?;
    }
    worst(out, report, layout)
}

fn totals(report: &PeriodReport) -> String {
    let took = duration(Duration::from_secs(report.time_seconds));
    let mut text = format!(
        "{}. They took {took} and {}, of which {} failed or were refused",
        outcomes(report),
        words::count(report.calls, "call"),
        words::grouped(report.errors)
    );
    if report.subagents > 0 {
        text.push_str(&format!("; with {}", words::count(report.subagents, "subagent")));
    }
    text.push_str(". ");
    if report.with_trouble > 0 {
        let percent = |part: u64, whole: u64| part.saturating_mul(100) / whole.max(1);
        let time = duration(Duration::from_secs(report.time_after_trouble_seconds));
        text.push_str(&format!(
            "midcourse found trouble in {}: {time} ({} %) and {} ({} %) came after its first sign. ",
            words::count(report.with_trouble, "run"),
            percent(report.time_after_trouble_seconds, report.time_seconds),
            words::count(report.calls_after_trouble, "call"),
            percent(report.calls_after_trouble, report.calls),
        ));
    } else {
        text.push_str("midcourse found no trouble. ");
    }
    text.push_str(&format!(
        "Tokens: {} in, {} out; cost: {}.",
        words::tokens(report.tokens.input),
        words::tokens(report.tokens.output),
        report.cost.text()
    ));
    text
}

fn table<'a>(
    out: &mut impl Write,
    heading: &str,
    headings: impl IntoIterator<Item = &'a str>,
) -> io::Result<Table> {
    writeln!(out, "\n{}", Painter::automatic().bold(heading))?;
    Ok(columns::table(headings))
}

fn patterns(out: &mut impl Write, report: &PeriodReport) -> Result<()> {
    if report.patterns.is_empty() {
        return Ok(());
    }
    let mut table = table(out, "Patterns", ["TIMES", "RUNS", "PATTERN", ""])?;
    for pattern in report.patterns.iter().take(MAX_ROWS) {
        table.add_row([
            words::grouped(pattern.count),
            words::grouped(pattern.runs),
            one_line(plain_name(&pattern.pattern), 60),
            one_line(&pattern.pattern, 40),
        ]);
    }
    columns::print(out, table, [0, 1])
}

fn messages(out: &mut impl Write, report: &PeriodReport) -> Result<()> {
    if report.messages.is_empty() {
        return Ok(());
    }
    let headings =
        ["SHOWN", "NOT SHOWN", "WENT AWAY", "STILL THERE", "RUN ENDED", "ABOUT", "PROVIDER"];
    let heading = "Messages, and what became of the problem";
    let mut table = table(out, heading, headings)?;
    for message in report.messages.iter().take(MAX_ROWS) {
        let about = message.pattern.as_deref().map_or("unknown", plain_name);
        table.add_row([
            words::grouped(message.shown),
            words::grouped(message.shadow),
            words::grouped(message.cleared),
            words::grouped(message.ignored),
            words::grouped(message.run_ended),
            one_line(about, 40),
            one_line(&message.provider, 30),
        ]);
    }
    columns::print(out, table, [0, 1, 2, 3, 4])?;
    for useless in &report.useless {
        let about = plain_name(&useless.pattern);
        writeln!(
            out,
            "\nMessages about {about} rarely helped: {} of {}. To stop them, add this to your midcourse.toml:",
            useless.cleared, useless.messages
        )?;
        useless.setting.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    Ok(())
}

fn usage(out: &mut impl Write, heading: &str, name: &str, sums: &[UsageSum]) -> Result<()> {
    let mut table = table(out, heading, ["RUNS", "TOKENS IN", "CACHED", "OUT", name, "COST"])?;
    for sum in sums.iter().take(MAX_ROWS) {
        let tokens = sum.tokens;
        let known = |count: u64| match tokens.is_zero() {
            true => "unknown".to_owned(),
            false => words::tokens(count),
        };
        table.add_row([
            words::grouped(sum.runs),
            known(tokens.input),
            known(tokens.cache_read),
            known(tokens.output),
            one_line(sum.name.as_deref().unwrap_or("unknown"), 50),
            sum.cost.short(),
        ]);
    }
    columns::print(out, table, [0, 1, 2, 3])?;
    match sums.len().saturating_sub(MAX_ROWS) {
        0 => Ok(()),
        hidden => Ok(writeln!(out, "  … {hidden} more")?),
    }
}

fn worst(out: &mut impl Write, report: &PeriodReport, layout: &Layout) -> Result<()> {
    if report.worst.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.painter.bold("Runs worth a look"))?;
    for run in &report.worst {
        let task = run.task.as_deref().unwrap_or("task unknown");
        writeln!(out, "  {}", run.command)?;
        let outcome = ending(run.outcome.as_deref());
        let trouble = match (run.calls_after_trouble, run.pattern.as_deref()) {
            (Some(calls), Some(pattern)) => format!(
                "; {} of {} after the first sign of trouble ({})",
                words::grouped(calls),
                words::count(run.calls, "call"),
                one_line(plain_name(pattern), 40)
            ),
            _ => format!("; {}", words::count(run.calls, "call")),
        };
        let started = local_time(run.started);
        let text = format!("{started}, {outcome}{trouble}: {}", one_line(task, 100));
        for line in wrapped(&text, layout.width.saturating_sub(6)) {
            writeln!(out, "      {line}")?;
        }
    }
    Ok(())
}
