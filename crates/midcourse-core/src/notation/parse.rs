//! Parses the notation into records. An error names the line and says what to write instead.

use std::time::Duration;

use serde_json::Value;

use super::{Ending, MARKS, START_TIME, STEP_MS, plain_args};
use crate::record::{
    AgentMessage, CallId, RunOutcome, ToolResult, TrajectoryPayload, TrajectoryRecord,
};
use crate::time::Timestamp;

/// The maximum number of lines of a text after repetitions such as `3x bash make` are written out.
const MAX_EXPANDED_LINES: usize = 1_000_000;

const TOO_MANY_LINES: &str = "repetitions expand to more than 1000000 lines; use fewer";

/// The error for a line that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct NotationError {
    /// The line number, from 1.
    pub line: usize,
    /// What is wrong with the line, and what to write instead.
    pub problem: String,
}

/// Parses a run in text notation into records. Examples of lines, each with an explanation at the
/// right that is not part of the notation:
///
/// ```text
/// user: make the tests pass
/// read a.rs        -> 120 lines         a call and its result
/// bash make        !! error: no rule    a call that failed
/// bash rm -rf /    xx not allowed       a call that was refused
/// & read b.rs      -> 80 lines          in the same turn as the call before
/// 3x +2m bash make -> built             three times, each two minutes after the line before
/// ```
///
/// ```
/// let records = midcourse_core::parse_notation("bash make !! error: missing separator")?;
/// let kinds: Vec<_> = records.iter().map(|record| record.payload.kind()).collect();
/// assert_eq!(kinds, ["turn_started", "tool_started", "tool_ended"]);
/// # Ok::<(), midcourse_core::NotationError>(())
/// ```
pub fn parse_notation(text: &str) -> Result<Vec<TrajectoryRecord>, NotationError> {
    Ok(parse_notation_events(text)?.into_iter().flatten().collect())
}

/// Parses a run in text notation and returns its records in groups, one group for each line. A line
/// that is repeated twice gives two groups. No group is empty.
///
/// ```
/// let events = midcourse_core::parse_notation_events("user: go\n2x bash make -> built")?;
/// let records: Vec<_> = events.iter().map(Vec::len).collect();
/// assert_eq!(records, [1, 3, 3]);
/// # Ok::<(), midcourse_core::NotationError>(())
/// ```
pub fn parse_notation_events(text: &str) -> Result<Vec<Vec<TrajectoryRecord>>, NotationError> {
    let mut parser = Parser { event: Vec::new(), next_seq: 0, now: START_TIME, calls: 0 };
    let event_of = |(line, text)| match parser.parse_line(text) {
        Ok(()) => Ok(std::mem::take(&mut parser.event)),
        Err(problem) => Err(NotationError { line, problem }),
    };
    expand_repetitions(text)?.into_iter().map(event_of).collect()
}

/// All lines with their line numbers. A line after `3x`, or in a block after `3x {`, occurs three
/// times in the result. Comments and empty lines are left out.
fn expand_repetitions(text: &str) -> Result<Vec<(usize, &str)>, NotationError> {
    type Lines<'a> = Vec<(usize, &'a str)>;
    // For each block whose `}` is still to come: the line number of its `{`, how often the block
    // repeats, and the lines collected before the block.
    let mut open: Vec<(usize, usize, Lines<'_>)> = Vec::new();
    let mut lines = Lines::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let error = |problem: &str| NotationError { line: number, problem: problem.to_owned() };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (times, rest) = repetition(line);
        if rest == "{" {
            open.push((number, times, std::mem::take(&mut lines)));
        } else if line == "}" {
            let Some((_, times, before)) = open.pop() else {
                return Err(error("this `}` closes nothing; remove it or add a `{` before it"));
            };
            let block = std::mem::replace(&mut lines, before);
            if block.len().saturating_mul(times).saturating_add(lines.len()) > MAX_EXPANDED_LINES {
                return Err(error(TOO_MANY_LINES));
            }
            (0..times).for_each(|_| lines.extend_from_slice(&block));
        } else {
            if lines.len().saturating_add(times) > MAX_EXPANDED_LINES {
                return Err(error(TOO_MANY_LINES));
            }
            lines.extend(std::iter::repeat_n((number, rest), times));
        }
    }
    match open.pop() {
        Some((line, ..)) => {
            let problem = "this `{` is never closed; add a `}`".to_owned();
            Err(NotationError { line, problem })
        }
        None => Ok(lines),
    }
}

/// Splits `3x bash make` into 3 and `bash make`; the number is 1 for a line that has none.
pub(super) fn repetition(line: &str) -> (usize, &str) {
    let Some((first, rest)) = line.split_once(char::is_whitespace) else { return (1, line) };
    match first
        .strip_suffix('x')
        .filter(|times| !times.starts_with('+'))
        .and_then(|times| times.parse().ok())
    {
        Some(times) => (times, rest.trim_start()),
        None => (1, line),
    }
}

struct Parser {
    /// The records of the current line.
    event: Vec<TrajectoryRecord>,
    next_seq: u64,
    now: Timestamp,
    calls: usize,
}

impl Parser {
    fn push(&mut self, payload: TrajectoryPayload) {
        self.event.push(TrajectoryRecord::new(self.next_seq, self.now, payload));
        self.next_seq += 1;
    }

    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        let mut step = Duration::from_millis(STEP_MS);
        let mut takes = Duration::ZERO;
        let mut same_turn = false;
        let mut rest = line;
        loop {
            let (first, after_first) = first_word(rest);
            if let Some(duration) = first.strip_prefix('+') {
                step = parse_duration(duration)?;
            } else if let Some(duration) = first.strip_prefix('~') {
                takes = parse_duration(duration)?;
            } else if first == "&" {
                same_turn = true;
            } else {
                break;
            }
            rest = after_first;
        }
        if self.next_seq > 0 {
            self.now = self.now.after(step);
        }
        match self.parse_non_call(rest)? {
            Some(payload) => self.push(payload),
            None => self.parse_call(rest, takes, same_turn)?,
        }
        Ok(())
    }

    /// The payload of a line that is not a tool call; `None` for a tool call.
    fn parse_non_call(&self, line: &str) -> Result<Option<TrajectoryPayload>, String> {
        let (word, rest) = first_word(line);
        let message = |message| TrajectoryPayload::MessageAppended { message };
        Ok(Some(match (word, rest) {
            ("user:", text) => message(AgentMessage::user(text_of(text)?)),
            ("assistant:", text) => message(AgentMessage::assistant(text_of(text)?)),
            ("turn", "") => TrajectoryPayload::TurnStarted,
            ("compaction", "") => TrajectoryPayload::ContextCompacted { trigger: None },
            ("resume", "") => TrajectoryPayload::Resumed,
            ("deadline", "none") => TrajectoryPayload::DeadlineSet { at_unix_ms: None },
            ("deadline", duration) if !has_mark(duration) => TrajectoryPayload::DeadlineSet {
                at_unix_ms: Some(self.now.after(parse_duration(duration)?)),
            },
            ("file", path) if !has_mark(path) => {
                TrajectoryPayload::FileCreated { path: text_of(path)? }
            }
            ("prompt", name) if !has_mark(name) => TrajectoryPayload::ConfigApplied {
                config: String::new(),
                prompt_name: Some(text_of(name)?.into()),
            },
            ("end", outcome) if !has_mark(outcome) => TrajectoryPayload::RunEnded {
                outcome: RunOutcome::from(text_of(outcome)?),
                new_messages: Vec::new(),
            },
            _ => return Ok(None),
        }))
    }

    fn parse_call(&mut self, line: &str, takes: Duration, same_turn: bool) -> Result<(), String> {
        let (tool, rest) = first_word(line);
        let (args, ending, text) = if rest.starts_with('{') {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let args = match values.next() {
                Some(Ok(args)) => args,
                _ => return Err("invalid JSON arguments after the `{`".to_owned()),
            };
            let after_args = rest.get(values.byte_offset()..).unwrap_or_default();
            let (extra, ending, text) = split_at_mark(after_args)?;
            if !extra.is_empty() {
                return Err(format!("unexpected {extra:?} after the JSON arguments; remove it"));
            }
            (args, ending, text)
        } else {
            let (args, ending, text) = split_at_mark(rest)?;
            (plain_args(tool, args), ending, text)
        };
        if !same_turn {
            self.push(TrajectoryPayload::TurnStarted);
        }
        self.calls += 1;
        let tool_call_id = CallId::from(format!("c{}", self.calls));
        let tool_name = compact_str::CompactString::from(tool);
        self.push(TrajectoryPayload::ToolStarted {
            tool_call_id: tool_call_id.clone(),
            tool_name: tool_name.clone(),
            args,
        });
        self.now = self.now.after(takes);
        let text = text_of(text)?;
        match ending {
            Ending::Result | Ending::Error => self.push(TrajectoryPayload::ToolEnded {
                tool_call_id,
                tool_name,
                result: ToolResult::text(text),
                is_error: ending == Ending::Error,
            }),
            Ending::Refused => self.push(TrajectoryPayload::Denied {
                tool_call_id,
                tool_name,
                reason: (!text.is_empty()).then_some(text),
            }),
            Ending::Open => {}
        }
        Ok(())
    }
}

fn first_word(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim_start()),
        None => (text, ""),
    }
}

/// The byte offset of the first mark (such as `->`) that has whitespace around it, and what that
/// mark says about the end of the call.
fn find_mark(text: &str) -> Option<(usize, Ending)> {
    MARKS
        .iter()
        .filter_map(|(mark, ending)| {
            text.match_indices(mark)
                .map(|(at, _)| at)
                .find(|at| {
                    let before = text.get(..*at).unwrap_or_default();
                    let after = text.get(at + mark.len()..).unwrap_or_default();
                    (before.is_empty() || before.ends_with(char::is_whitespace))
                        && (after.is_empty() || after.starts_with(char::is_whitespace))
                })
                .map(|at| (at, *ending))
        })
        .min_by_key(|(at, _)| *at)
}

pub(super) fn has_mark(text: &str) -> bool {
    find_mark(text).is_some()
}

fn split_at_mark(text: &str) -> Result<(&str, Ending, &str), String> {
    let (at, ending) = find_mark(text)
        .ok_or("a call needs ` -> result`, ` !! error`, ` xx reason` or ` ..` after it")?;
    let (before, from_mark) = text.split_at(at);
    // Every mark has two bytes.
    Ok((before.trim(), ending, from_mark.get(2..).unwrap_or_default().trim()))
}

/// Returns the text unchanged, or decodes it as a JSON string if it is in double quotes.
fn text_of(text: &str) -> Result<String, String> {
    if text.starts_with('"') && text.ends_with('"') && text.len() > 1 {
        serde_json::from_str(text).map_err(|error| format!("invalid quoted text: {error}"))
    } else {
        Ok(text.to_owned())
    }
}

/// Parses a duration: `90s`, `2m`, `1h` or `250ms`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let ms_per = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    match (number.parse::<u64>(), ms_per) {
        (Ok(number), 1..) => Ok(Duration::from_millis(number.saturating_mul(ms_per))),
        _ => Err(format!("invalid duration `{text}`; try 250ms, 90s, 2m or 1h")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn problem(text: &str, expected: &str) {
        assert_eq!(parse_notation(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_name_the_line_and_say_what_to_write() {
        problem(
            "\nbash make",
            "line 2: a call needs ` -> result`, ` !! error`, ` xx reason` or ` ..` after it",
        );
        problem("+2x bash make -> ok", "line 1: invalid duration `2x`; try 250ms, 90s, 2m or 1h");
        problem("edit {\"a\": -> ok", "line 1: invalid JSON arguments after the `{`");
        problem(
            "edit {\"a\": 1} b -> ok",
            "line 1: unexpected \"b\" after the JSON arguments; remove it",
        );
        problem("2x {\nbash a -> b", "line 1: this `{` is never closed; add a `}`");
        problem("}", "line 1: this `}` closes nothing; remove it or add a `{` before it");
        problem(
            "9999999x bash a -> b",
            "line 1: repetitions expand to more than 1000000 lines; use fewer",
        );
    }

    #[test]
    fn marks_inside_words_are_part_of_the_text() {
        let records = parse_notation("bash a->b | c !!x -> fine -> really").unwrap();
        let json = serde_json::to_value(&records).unwrap();
        assert_eq!(json[1]["payload"]["args"]["command"], "a->b | c !!x");
        assert_eq!(json[2]["payload"]["result"]["content"][0]["text"], "fine -> really");
    }

    #[test]
    fn plus_and_tilde_set_times() {
        let records = parse_notation("bash a -> b\n+2m ~3s bash a -> b").unwrap();
        let at: Vec<u64> = records.iter().map(|r| r.at().unix_ms() - 1_767_225_600_000).collect();
        assert_eq!(at, [0, 0, 0, 120_000, 120_000, 123_000]);
    }
}
