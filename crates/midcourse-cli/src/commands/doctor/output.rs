//! Prints the findings of `midcourse doctor`, as text of at most 80 columns or as JSON.

use std::io::{Write as _, stdout};

use anstyle::AnsiColor;
use anyhow::Result;
use serde_json::{Value, json};

use super::finding::{Area, Finding, State};
use crate::commands::screen::{self, Painter};
use crate::display::{escape_control_chars, json_line};

const MAX_WIDTH: usize = 80;

/// On a narrower terminal, lines are not wrapped any further.
const MIN_WIDTH: usize = 40;

/// The column at which the text of a finding begins.
const INDENT: usize = 11;

pub(super) fn print_json(areas: &[Area], problems: usize) -> Result<()> {
    let finding = |area: &Area, finding: &Finding| {
        let Finding { check, state, detail, remedy } = finding;
        json!({"area": area.name, "check": check, "state": state, "detail": detail,
               "remedy": remedy})
    };
    let findings = areas.iter().flat_map(|area| area.findings.iter().map(|it| finding(area, it)));
    let findings: Vec<Value> = findings.collect();
    writeln!(stdout(), "{}", json_line(&json!({"findings": findings, "problems": problems})))?;
    Ok(())
}

pub(super) fn print_text(areas: &[Area], problems: usize) -> Result<()> {
    let painter = Painter::automatic();
    let width = screen::width().map_or(MAX_WIDTH, |width| width.clamp(MIN_WIDTH, MAX_WIDTH));
    let mut out = stdout().lock();
    for area in areas {
        writeln!(out, "{}", painter.bold(&escape_control_chars(&area.title)))?;
        for finding in &area.findings {
            let (word, colour) = word_of(finding.state);
            let mark = format!("{word:<8}");
            let mark = painter.coloured(colour, &mark);
            let text = format!("{}: {}", finding.check.replace('-', " "), finding.detail);
            for (number, line) in wrap(&text, width - INDENT).iter().enumerate() {
                match number {
                    0 => writeln!(out, "  {mark} {line}")?,
                    _ => writeln!(out, "{:INDENT$}{line}", "")?,
                }
            }
            let Some(remedy) = &finding.remedy else { continue };
            for (number, line) in wrap(remedy, width - INDENT - 2).iter().enumerate() {
                let arrow = if number == 0 { "→ " } else { "  " };
                writeln!(out, "{:INDENT$}{arrow}{line}", "")?;
            }
        }
        writeln!(out)?;
    }
    match problems {
        0 => writeln!(out, "No problems.")?,
        1 => writeln!(out, "1 problem.")?,
        count => writeln!(out, "{count} problems.")?,
    }
    Ok(())
}

const fn word_of(state: State) -> (&'static str, AnsiColor) {
    match state {
        State::Ok => ("ok", AnsiColor::Green),
        State::Note => ("note", AnsiColor::Cyan),
        State::Warning => ("warning", AnsiColor::Yellow),
        State::Problem => ("problem", AnsiColor::Red),
    }
}

/// Wraps a text at its spaces. Text between backquotes is a command to copy and stays on one line, as
/// does a word that is longer than the line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let text = escape_control_chars(text).replace(['\n', '\t'], " ");
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words(&text) {
        let length = line.chars().count().saturating_add(1).saturating_add(word.chars().count());
        if !line.is_empty() && length > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

/// The words of a text. Spaces between two backquotes do not end a word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in text.chars() {
        if c == '`' {
            is_quoted = !is_quoted;
        }
        match words.last_mut() {
            Some(word) if c != ' ' || is_quoted => word.push(c),
            Some(word) if word.is_empty() => {}
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_are_wrapped_at_spaces_outside_of_commands() {
        assert_eq!(wrap("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(
            wrap("run `midcourse install codex` now", 12),
            ["run", "`midcourse install codex`", "now"]
        );
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("a\nb\u{1b}", 20), ["a b\\u{1b}"]);
    }
}
