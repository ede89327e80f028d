//! A report as text for a terminal.

use std::io::{self, Write};

use midcourse::RunId;

use super::clock::Clock;
use super::data::{Message, RunReport, Subagent, Trouble};
use super::strip::{self, Charset};
use super::{headline, words};
use crate::commands::screen::Painter;
use crate::display::{duration, escape_control_chars, one_line, plain_name, wrapped};
use crate::shell::shell_quote;

/// How many entries of a list are shown.
const MAX_SHOWN: usize = 8;

/// How many messages are shown. If there are more, half of them are the first and half the last.
const MAX_MESSAGES: usize = 10;

/// How a report is laid out.
pub(crate) struct Layout {
    pub(crate) width: usize,
    pub(crate) is_utf8: bool,
    pub(in crate::commands) painter: Painter,
}

/// Prints the first sentence of the headline, which needs only the run's row in the store.
pub(crate) fn print_opening(
    out: &mut impl Write,
    ending: &headline::Ending<'_>,
    layout: &Layout,
) -> io::Result<()> {
    for line in wrapped(&ending.text(), layout.width) {
        writeln!(out, "{}", layout.painter.bold(&line))?;
    }
    Ok(())
}

/// Prints a report without the first sentence of its headline, which is printed before the records
/// are read.
pub(crate) fn print(out: &mut impl Write, report: &RunReport, layout: &Layout) -> io::Result<()> {
    let clock = Clock::of(report);
    let mut page = Page { out, width: layout.width, painter: layout.painter };
    page.paragraph(&headline::rest(report).join(" "), "")?;
    facts(&mut page, report, &clock)?;
    page.line("")?;
    for row in strip::rows(report, layout.width, &Charset::new(layout.is_utf8)) {
        page.line(&row)?;
    }
    trouble(&mut page, report, &clock)?;
    messages(&mut page, report, &clock)?;
    failing(&mut page, report)?;
    files(&mut page, report)?;
    subagents(&mut page, report, &clock)?;
    gaps(&mut page, report, &clock)?;
    if let Some(last) = &report.last_words {
        page.heading(&format!("The last thing the agent said ({})", clock.time(last.at)))?;
        for line in last.text.lines().filter(|line| !line.trim().is_empty()).take(6) {
            page.paragraph(&one_line(line, 400), "  ")?;
        }
    }
    next(&mut page, report)
}

/// A name of a run for a command line.
pub(crate) fn quoted(run: &RunId) -> String {
    shell_quote(&escape_control_chars(run.as_str()))
}

struct Page<'a, W> {
    out: &'a mut W,
    width: usize,
    painter: Painter,
}

impl<W: Write> Page<'_, W> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", self.painter.bold(text))
    }

    /// Prints a text in lines of at most the page's width, each after `indent`.
    fn paragraph(&mut self, text: &str, indent: &str) -> io::Result<()> {
        self.hanging(text, indent, indent)
    }

    /// Like `paragraph`, with another beginning of the first line.
    fn hanging(&mut self, text: &str, first: &str, indent: &str) -> io::Result<()> {
        let width = self.width.saturating_sub(indent.chars().count()).max(20);
        let mut start = first;
        for line in wrapped(text, width) {
            writeln!(self.out, "{start}{line}")?;
            start = indent;
        }
        Ok(())
    }

    fn fact(&mut self, label: &str, text: &str) -> io::Result<()> {
        self.hanging(text, &format!("  {label:<10}"), &" ".repeat(12))
    }
}

fn facts<W: Write>(page: &mut Page<'_, W>, report: &RunReport, clock: &Clock) -> io::Result<()> {
    page.line("")?;
    let known = |text: Option<&String>, max| text.map(|text| one_line(text, max));
    page.fact("run", &one_line(report.run_id.as_str(), 200))?;
    page.fact("task", &known(report.task.as_ref(), 300).unwrap_or_else(|| "unknown".to_owned()))?;
    if let Some(folder) = known(report.folder.as_ref(), 300) {
        page.fact("folder", &folder)?;
    }
    if let Some(command) = known(report.command.as_ref(), 300) {
        page.fact("command", &command)?;
    }
    page.fact("agent", &agent(report))?;
    let times = clock.span(report.started, report.latest);
    page.fact("time", &format!("{times} ({})", duration(report.duration())))?;
    page.fact("calls", &calls(report))?;
    page.fact("tokens", &tokens(report))?;
    page.fact("cost", &report.cost.text())
}

/// The agent with its version and models.
pub(crate) fn agent(report: &RunReport) -> String {
    let version = report.host_version.as_ref().map_or_else(String::new, |it| format!(" {it}"));
    let models: Vec<&str> = report.models.iter().filter_map(|it| it.model.as_deref()).collect();
    let models = if models.is_empty() { "model unknown".to_owned() } else { models.join(", ") };
    one_line(&format!("{}{version}, {models}", report.host), 300)
}

pub(crate) fn calls(report: &RunReport) -> String {
    let calls = words::grouped(report.calls);
    let mut text = format!("{calls}, {} failed or refused", words::grouped(report.errors));
    // Further runs of the same `midcourse run` may be no subagents.
    let is_child = |run: &&Subagent| run.parent_run_id.is_some();
    let children = report.subagents.iter().filter(is_child).count();
    for (count, noun) in
        [(children, "subagent"), (report.subagents.len().saturating_sub(children), "further run")]
    {
        if count > 0 {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            text.push_str(&format!("; with {}", words::count(count, noun)));
        }
    }
    if report.compactions > 0 {
        let times = words::times(report.compactions);
        text.push_str(&format!("; the conversation was summarised {times}"));
    }
    text
}

pub(crate) fn tokens(report: &RunReport) -> String {
    let tokens = report.tokens;
    if tokens.is_zero() {
        return "unknown".to_owned();
    }
    let mut text = format!("{} in", words::tokens(tokens.input));
    if tokens.cache_read > 0 {
        text.push_str(&format!(" ({} of them from the cache)", words::tokens(tokens.cache_read)));
    }
    text.push_str(&format!(", {} out", words::tokens(tokens.output)));
    text
}

fn trouble<W: Write>(page: &mut Page<'_, W>, report: &RunReport, clock: &Clock) -> io::Result<()> {
    let Some(first) = &report.first_trouble else { return Ok(()) };
    page.heading("Where it went wrong")?;
    let began = format!("  {}  ", clock.time(first.from));
    let indent = " ".repeat(began.chars().count());
    let run = one_line(first.record.run_id.as_str(), 200);
    let first_seq = first.first_seq;
    page.hanging(&format!("the trouble began ({run}:{first_seq})"), &began, &indent)?;
    let noticed = format!("  {}  ", clock.time(first.at));
    let (call, seq, sign) = (words::grouped(first.call), first.record.seq, &first.sign);
    let text = format!("midcourse noticed, after call {call} (:{seq}): it {sign}");
    page.hanging(&text, &noticed, &indent)?;
    let distinct = headline::distinct(&report.trouble);
    let is_first = |it: &&&Trouble| {
        it.record.run_id == first.record.run_id && it.from <= first.until && first.from <= it.until
    };
    if let Some(whole) = distinct.iter().find(is_first).filter(|it| it.text != first.sign) {
        let until = clock.time(whole.until);
        page.paragraph(&format!("by {until} it {}", whole.text), &indent)?;
    }
    let others: Vec<_> = distinct.iter().filter(|it| !is_first(it)).collect();
    if others.is_empty() {
        return Ok(());
    }
    page.heading("Later trouble")?;
    for trouble in others.iter().take(MAX_SHOWN) {
        let label = format!("  {}  ", clock.time(trouble.from));
        let until = clock.time(trouble.until);
        let place = one_line(&trouble.record.to_string(), 200);
        page.hanging(&format!("it {}, until {until} ({place})", trouble.text), &label, &indent)?;
    }
    more(page, others.len(), MAX_SHOWN, "stretches")
}

fn more<W: Write>(page: &mut Page<'_, W>, all: usize, shown: usize, noun: &str) -> io::Result<()> {
    match all.saturating_sub(shown) {
        0 => Ok(()),
        hidden => page.line(&format!("  … {hidden} more {noun}")),
    }
}

fn messages<W: Write>(page: &mut Page<'_, W>, report: &RunReport, clock: &Clock) -> io::Result<()> {
    if report.message_count == 0 {
        return page.heading("midcourse said nothing to the agent.");
    }
    let all_shadow = report.messages.iter().all(|message| message.shadow && !message.withheld);
    let count = words::count(report.message_count, "message");
    page.heading(&match all_shadow {
        true => format!("{count}, recorded only (shadow mode): the agent did not see them"),
        false if report.messages.iter().any(Message::was_shown) => format!("{count} to the agent"),
        false => format!("{count} that the agent did not see"),
    })?;
    let hidden = report.messages.len().saturating_sub(MAX_MESSAGES);
    for (index, message) in report.messages.iter().enumerate() {
        match index.checked_sub(MAX_MESSAGES / 2) {
            Some(0) if hidden > 0 => page.line(&format!("  … {hidden} more …"))?,
            Some(after_first) if after_first < hidden => {}
            _ => message_lines(page, message, clock, all_shadow)?,
        }
    }
    Ok(())
}

fn message_lines<W: Write>(
    page: &mut Page<'_, W>,
    message: &Message,
    clock: &Clock,
    all_shadow: bool,
) -> io::Result<()> {
    let label = format!("  {}  ", clock.time(message.at));
    let indent = " ".repeat(label.chars().count());
    page.hanging(&one_line(&message.text, 600), &label, &indent)?;
    page.paragraph(&format!("why: {}", why(message)), &indent)?;
    if let Some(note) = message.not_shown().filter(|_| !all_shadow) {
        page.paragraph(note, &indent)?;
    }
    match words::outcome(message) {
        Some(outcome) => page.paragraph(&format!("then: {outcome}"), &indent),
        None => Ok(()),
    }
}

/// Why a message was given: the pattern in plain words, and its name.
pub(crate) fn reason(message: &Message) -> String {
    match message.pattern.as_deref() {
        None => format!("said by {}", one_line(&message.provider, 60)),
        Some(name) if words::can_be_disabled(name) => {
            format!("{} ({name})", plain_name(name))
        }
        Some(name) => one_line(plain_name(name), 60),
    }
}

/// Why a message was given, and the calls that show it.
fn why(message: &Message) -> String {
    let mut text = reason(message);
    let mut evidence = message.evidence.iter();
    if let Some(first) = evidence.next() {
        text.push_str(&format!("; see {}", one_line(&first.to_string(), 200)));
        for record in evidence.take(5) {
            text.push_str(&format!(", :{}", record.seq));
        }
    }
    text
}

fn failing<W: Write>(page: &mut Page<'_, W>, report: &RunReport) -> io::Result<()> {
    if report.failing.is_empty() {
        return Ok(());
    }
    page.heading("What failed")?;
    for calls in report.failing.iter().take(MAX_SHOWN) {
        let kind = if calls.refused { "refused" } else { words::failure(calls.kind) };
        let text = one_line(&calls.text, 60);
        page.line(&format!("  {:>5} ×  {text} ({kind})", words::grouped(calls.count)))?;
        if !calls.error.is_empty() {
            page.paragraph(&calls.error, "           ")?;
        }
    }
    more(page, report.failing.len(), MAX_SHOWN, "kinds of failing calls")
}

fn files<W: Write>(page: &mut Page<'_, W>, report: &RunReport) -> io::Result<()> {
    if report.files.is_empty() {
        return Ok(());
    }
    let count = u64::try_from(report.files.len()).unwrap_or(u64::MAX);
    page.heading(&format!("{} written or edited", words::count(count, "file")))?;
    let shown = report.files.iter().take(MAX_SHOWN);
    let names: Vec<String> = shown
        .map(|file| match file.count {
            1 => one_line(&file.path, 80),
            times => format!("{} ({times} times)", one_line(&file.path, 80)),
        })
        .collect();
    page.paragraph(&names.join(", "), "  ")?;
    more(page, report.files.len(), MAX_SHOWN, "files")
}

fn subagents<W: Write>(
    page: &mut Page<'_, W>,
    report: &RunReport,
    clock: &Clock,
) -> io::Result<()> {
    if report.subagents.is_empty() {
        return Ok(());
    }
    page.heading("Subagents")?;
    for subagent in report.subagents.iter().take(MAX_SHOWN) {
        let Subagent { run_id, task, started, latest, calls, errors, messages, .. } = subagent;
        let task =
            task.as_ref().map_or_else(String::new, |task| format!(": {}", one_line(task, 80)));
        let (calls, messages) = (words::count(*calls, "call"), words::count(*messages, "message"));
        let took = duration(latest.since(*started));
        page.hanging(
            &format!(
                "{calls}, {errors} failed, {messages}, {took} ({}){task}",
                one_line(run_id.as_str(), 200)
            ),
            &format!("  {}  ", clock.time(*started)),
            &" ".repeat(clock.time(*started).chars().count().saturating_add(4)),
        )?;
    }
    more(page, report.subagents.len(), MAX_SHOWN, "subagents")
}

fn gaps<W: Write>(page: &mut Page<'_, W>, report: &RunReport, clock: &Clock) -> io::Result<()> {
    if !report.pauses.is_empty() {
        page.heading("Pauses")?;
        for pause in report.pauses.iter().take(MAX_SHOWN) {
            let (from, until) = (clock.time(pause.from), clock.time(pause.until));
            let took = duration(pause.length());
            let during = match &pause.during {
                Some(call) => format!(", while this call ran: {}", one_line(call, 60)),
                None => String::new(),
            };
            page.line(&format!("  {from} to {until} ({took}) nothing was recorded{during}"))?;
        }
    }
    if !report.gaps.is_empty() {
        page.heading("Missing records")?;
        for gap in report.gaps.iter().take(MAX_SHOWN) {
            let lost = words::count(gap.lost, "record");
            let place = one_line(&gap.record.to_string(), 200);
            let text = one_line(&gap.text, 80);
            page.line(&format!("  {}  {lost} at {place}: {text}", clock.time(gap.at)))?;
        }
        more(page, report.gaps.len(), MAX_SHOWN, "places")?;
    }
    Ok(())
}

fn next<W: Write>(page: &mut Page<'_, W>, report: &RunReport) -> io::Result<()> {
    page.heading("Look next")?;
    for (command, what) in commands(report) {
        page.line(&format!("  {command:<44}  {what}"))?;
    }
    Ok(())
}

/// Commands that show more, with what they show.
pub(crate) fn commands(report: &RunReport) -> Vec<(String, &'static str)> {
    let run = quoted(&report.run_id);
    let mut commands = Vec::new();
    if let Some(trouble) = &report.first_trouble {
        let (run, seq) = (quoted(&trouble.record.run_id), trouble.first_seq);
        commands.push((format!("midcourse show {run}:{seq}"), "where the trouble began"));
    }
    if report.errors > 0 {
        commands.push((format!("midcourse show {run} --errors"), "the calls that failed"));
    }
    if report.message_count > 0 {
        commands.push((format!("midcourse show {run} --said"), "what midcourse said"));
    }
    if report.ended.is_none() {
        commands.push((format!("midcourse show {run} --last 20"), "the last records"));
    }
    commands.push((format!("midcourse report {run} --html"), "this report as a page, with more"));
    commands
}
