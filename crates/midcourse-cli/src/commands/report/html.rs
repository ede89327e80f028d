//! A report as one HTML file: no script, no external request, readable on a phone and on paper.
//!
//! Everything from the run is untrusted. It reaches the page only through [`Page::text`] and
//! [`escaped`], as text or as the value of an attribute in double quotes.

mod evidence;
mod strip;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use midcourse::{OutcomeVerdict, RunId, Store};

use super::clock::Clock;
use super::data::{Message, RunReport};
use super::{headline, text, words};
use crate::display::{duration, escape_control_chars, one_line, plain_name};
use crate::terminal::eprint_line;

const STYLE: &str = include_str!("page.css");

/// Nothing is loaded and nothing runs, whatever the page contains.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// How many entries of a list are on the page.
const MAX_SHOWN: usize = 200;

/// How many files are shown without opening the list.
const OPEN_FILES: usize = 12;

/// Writes the page to a file and says which; `-` is standard output.
pub(super) fn write(store: &Store, report: &RunReport, file: Option<&Path>) -> Result<()> {
    let page = page(store, report)?;
    if file == Some(Path::new("-")) {
        let mut out = std::io::stdout().lock();
        out.write_all(page.as_bytes())?;
        return Ok(out.flush()?);
    }
    let file = file.map_or_else(|| file_name(&report.run_id), Path::to_owned);
    let shown = file.display().to_string();
    std::fs::write(&file, page).with_context(|| format!("cannot write {shown}"))?;
    eprint_line(&format!("Wrote {}", escape_control_chars(&shown)));
    Ok(())
}

/// The name of the file for a run. An id may contain characters that a file name must not have.
pub(crate) fn file_name(run: &RunId) -> PathBuf {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let safe = |c: char| if is_safe(c) { c } else { '_' };
    let name: String = run.as_str().chars().take(80).map(safe).collect();
    PathBuf::from(format!("midcourse-{name}.html"))
}

/// Escapes a text for HTML, so that it is only text, in an element or in an attribute in double
/// quotes. Characters that are not shown, or that change the direction of writing, become visible.
pub(in crate::commands) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in escape_control_chars(text).chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

/// The text of the page.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Adds markup that contains nothing from the run.
    fn html(&mut self, html: &'static str) {
        self.0.push_str(html);
    }

    /// Adds any text.
    fn text(&mut self, text: &str) {
        self.0.push_str(&escaped(text));
    }

    /// Adds an element with a text. `tag` may have attributes.
    fn element(&mut self, tag: &'static str, text: &str) {
        let name = tag.split(' ').next().unwrap_or(tag);
        let _ = write!(self.0, "<{tag}>{}</{name}>", escaped(text));
    }

    fn fact(&mut self, name: &'static str, value: &str) {
        self.element("dt", name);
        self.element("dd", value);
    }

    fn section(&mut self, heading: &str) {
        self.html("</section>\n<section>");
        self.element("h2", heading);
    }
}

pub(crate) fn page(store: &Store, report: &RunReport) -> Result<String> {
    let clock = Clock::of(report);
    let mut page = Page::default();
    page.html("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(page.0, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">");
    page.html("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.html("<meta name=\"color-scheme\" content=\"light dark\">\n");
    page.html("<meta name=\"referrer\" content=\"no-referrer\">\n");
    page.element("title", &format!("Report of run {}", one_line(report.run_id.as_str(), 80)));
    let _ = writeln!(page.0, "\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>");
    opening(&mut page, report, &clock);
    strip::add(&mut page.0, report, &clock);
    trouble(&mut page, report, &clock);
    messages(&mut page, store, report, &clock)?;
    last_words(&mut page, report, &clock);
    failing(&mut page, report);
    files(&mut page, report);
    subagents(&mut page, report, &clock);
    gaps(&mut page, report, &clock);
    next(&mut page, report);
    page.html("</section>\n</main>\n<footer>");
    page.text(
        "Made by midcourse, which records the runs of coding agents and sends an agent a short \
         message when it finds trouble. This release of midcourse found the patterns by replaying \
         the records. What the records do not say is unknown. Times are local times of the machine \
         that made this page.",
    );
    page.html("</footer>\n</body>\n</html>\n");
    Ok(page.0)
}

fn opening(page: &mut Page, report: &RunReport, clock: &Clock) {
    page.html("<section>\n<p class=\"kicker\">");
    page.text("Report of an agent’s run, ");
    page.text(&clock.date_and_time(report.started));
    page.html("</p>\n");
    let task = report.task.as_deref().unwrap_or("Task unknown");
    page.element("h1", &one_line(task, 240));
    page.html("<p class=\"headline\">");
    page.element("strong", &headline::Ending::of_report(report).text());
    page.text(" ");
    page.text(&headline::rest(report).join(" "));
    page.html("</p>\n<dl class=\"facts\">");
    page.fact("Run", report.run_id.as_str());
    if let Some(folder) = &report.folder {
        page.fact("Folder", folder);
    }
    if let Some(command) = &report.command {
        page.fact("Command", &words::shorten(command, 400));
    }
    page.fact("Agent", &text::agent(report));
    let times = clock.span(report.started, report.latest);
    page.fact("Time", &format!("{times} ({})", duration(report.duration())));
    page.fact("Tool calls", &text::calls(report));
    page.fact("Tokens", &text::tokens(report));
    page.fact("Cost", &report.cost.text());
    page.html("</dl>\n");
}

fn trouble(page: &mut Page, report: &RunReport, clock: &Clock) {
    let Some(first) = &report.first_trouble else { return };
    page.section("Where it went wrong");
    page.html("<p>");
    page.text(&format!(
        "It began at {}. midcourse noticed at {}, after call {}: it {}.",
        clock.time(first.from),
        clock.time(first.at),
        words::grouped(first.call),
        first.sign
    ));
    page.html("</p>\n<table><thead><tr><th>From</th><th>Until</th><th>What the agent did</th>");
    page.html("<th>Pattern</th><th>Record</th></tr></thead><tbody>\n");
    let all = headline::distinct(&report.trouble);
    for trouble in all.iter().take(MAX_SHOWN) {
        page.html("<tr>");
        page.element("td class=\"time\" data-label=\"from\"", &clock.time(trouble.from));
        page.element("td class=\"time\" data-label=\"until\"", &clock.time(trouble.until));
        page.element("td", &trouble.text);
        page.element("td", &format!("{} ({})", plain_name(&trouble.pattern), trouble.pattern));
        page.element("td class=\"ref\"", &trouble.record.to_string());
        page.html("</tr>\n");
    }
    page.html("</tbody></table>\n");
    more(page, all.len());
}

fn messages(page: &mut Page, store: &Store, report: &RunReport, clock: &Clock) -> Result<()> {
    page.section("What midcourse said to the agent");
    if report.message_count == 0 {
        page.element("p", "Nothing.");
        return Ok(());
    }
    page.html("<ol class=\"messages\">\n");
    for (number, message) in (1..).zip(report.messages.iter().take(MAX_SHOWN)) {
        let _ = write!(page.0, "<li id=\"m{number}\"><div class=\"meta\">");
        page.element("span class=\"number\"", &format!("{number}"));
        page.element("span class=\"time\"", &clock.time(message.at));
        if let Some(note) = message.not_shown() {
            page.element("span class=\"badge\"", note);
        }
        badge(page, message);
        page.html("</div>\n");
        page.element("blockquote", &message.text);
        page.html("<p class=\"why\">");
        page.text("Why: ");
        page.text(&text::reason(message));
        page.html("</p>\n");
        evidence::add(page, store, message, clock)?;
        page.html("</li>\n");
    }
    page.html("</ol>\n");
    more(page, usize::try_from(report.message_count).unwrap_or(usize::MAX));
    Ok(())
}

fn badge(page: &mut Page, message: &Message) {
    let Some(outcome) = words::outcome(message) else { return };
    match message.outcome.map(|outcome| outcome.verdict) {
        Some(OutcomeVerdict::Cleared) => page.element("span class=\"badge good\"", &outcome),
        Some(OutcomeVerdict::Ignored) => page.element("span class=\"badge bad\"", &outcome),
        _ => page.element("span class=\"badge\"", &outcome),
    }
}

fn last_words(page: &mut Page, report: &RunReport, clock: &Clock) {
    let Some(last) = &report.last_words else { return };
    page.section(&format!("The last thing the agent said ({})", clock.time(last.at)));
    page.element("blockquote", &last.text);
}

fn failing(page: &mut Page, report: &RunReport) {
    if report.failing.is_empty() {
        return;
    }
    page.section("What failed");
    page.html("<table><thead><tr><th class=\"count\">Times</th><th>What the agent did</th>");
    page.html("<th>Kind of failure</th><th>Latest</th></tr></thead><tbody>\n");
    for calls in report.failing.iter().take(MAX_SHOWN) {
        page.html("<tr>");
        page.element("td class=\"count\" data-label=\"times\"", &words::grouped(calls.count));
        page.element("td", &calls.text);
        page.html("<td>");
        page.text(if calls.refused { "refused" } else { words::failure(calls.kind) });
        page.element("div class=\"error\"", &calls.error);
        page.html("</td>");
        page.element("td class=\"ref\"", &calls.last.to_string());
        page.html("</tr>\n");
    }
    page.html("</tbody></table>\n");
    more(page, report.failing.len());
}

fn files(page: &mut Page, report: &RunReport) {
    if report.files.is_empty() {
        return;
    }
    let count = u64::try_from(report.files.len()).unwrap_or(u64::MAX);
    page.section(&format!("{} written or edited", words::count(count, "file")));
    let (first, others) = report.files.split_at(report.files.len().min(OPEN_FILES));
    let list = |page: &mut Page, files: &[super::data::ChangedFile]| {
        page.html("<ul class=\"files\">\n");
        for file in files.iter().take(MAX_SHOWN) {
            page.html("<li>");
            page.element("code", &file.path);
            if file.count > 1 {
                page.element("span class=\"quiet\"", &format!(" {} times", file.count));
            }
            page.html("</li>\n");
        }
        page.html("</ul>\n");
        more(page, files.len());
    };
    list(page, first);
    if !others.is_empty() {
        page.html("<details>");
        page.element("summary", &format!("{} more", others.len()));
        list(page, others);
        page.html("</details>\n");
    }
}

fn subagents(page: &mut Page, report: &RunReport, clock: &Clock) {
    if report.subagents.is_empty() {
        return;
    }
    page.section("Subagents");
    page.html("<table><thead><tr><th>Started</th><th>Task</th><th class=\"count\">Calls</th>");
    page.html("<th class=\"count\">Failed</th><th class=\"count\">Messages</th>");
    page.html("<th>Run</th></tr></thead><tbody>\n");
    for subagent in report.subagents.iter().take(MAX_SHOWN) {
        page.html("<tr>");
        page.element("td class=\"time\"", &clock.time(subagent.started));
        page.element("td", subagent.task.as_deref().unwrap_or("unknown"));
        page.element("td class=\"count\" data-label=\"calls\"", &words::grouped(subagent.calls));
        page.element("td class=\"count\" data-label=\"failed\"", &words::grouped(subagent.errors));
        let messages = words::grouped(subagent.messages);
        page.element("td class=\"count\" data-label=\"messages\"", &messages);
        page.element("td class=\"ref\"", subagent.run_id.as_str());
        page.html("</tr>\n");
    }
    page.html("</tbody></table>\n");
    more(page, report.subagents.len());
}

fn gaps(page: &mut Page, report: &RunReport, clock: &Clock) {
    if report.pauses.is_empty() && report.gaps.is_empty() {
        return;
    }
    page.section("Pauses and missing records");
    page.html("<ul>\n");
    for pause in &report.pauses {
        let (from, until) = (clock.time(pause.from), clock.time(pause.until));
        let took = duration(pause.length());
        let during = pause.during.as_ref().map_or_else(String::new, |call| {
            format!(", while this call ran: {}", one_line(call, 200))
        });
        let text = format!("{from} to {until} ({took}): nothing was recorded{during}");
        page.element("li", &text);
    }
    for gap in report.gaps.iter().take(MAX_SHOWN) {
        let (time, lost) = (clock.time(gap.at), words::count(gap.lost, "record"));
        let text =
            format!("{time}: {lost} missing at {}: {}", gap.record, one_line(&gap.text, 200));
        page.element("li", &text);
    }
    page.html("</ul>\n");
}

fn next(page: &mut Page, report: &RunReport) {
    page.section("Look next");
    page.html("<dl class=\"commands\">");
    for (command, what) in text::commands(report) {
        page.html("<dt>");
        page.element("code", &command);
        page.html("</dt>");
        page.element("dd", what);
    }
    page.html("</dl>\n");
}

fn more(page: &mut Page, all: usize) {
    match all.saturating_sub(MAX_SHOWN) {
        0 => {}
        hidden => page.element("p class=\"quiet\"", &format!("and {hidden} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::{escaped, file_name};

    #[test]
    fn escaped_text_has_no_markup_and_no_hidden_characters() {
        let hostile = "<script>'\"&\u{1b}[31m\u{202e}evil\u{200b}\0\n\tx";
        assert_eq!(
            escaped(hostile),
            "&lt;script&gt;&#39;&quot;&amp;\\u{1b}[31m\\u{202e}evil\\u{200b}\\u{0}\n\tx"
        );
    }

    #[test]
    fn the_name_of_the_file_stays_in_the_folder() {
        let name = file_name(&"../../etc/pass wd\n".into());
        assert_eq!(name.to_str(), Some("midcourse-.._.._etc_pass_wd_.html"));
    }
}
