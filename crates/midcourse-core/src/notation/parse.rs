//! Reading the notation.

use std::time::Duration;

use serde_json::Value;

use super::{BEGINNING, Ending, MARKS, STEP_MS, plain_args};
use crate::record::{
    AgentMessage, CallId, RunOutcome, ToolResult, TrajectoryPayload, TrajectoryRecord,
};
use crate::time::Timestamp;

/// The most lines a trajectory has once its repetitions are written out.
const LINES_MAX: usize = 1_000_000;

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct NotationError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Reads a trajectory: see the crate's documentation of the notation.
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

/// Reads a trajectory event by event: one group of records, never an empty one, for each line once
/// repetitions are written out.
///
/// ```
/// let events = midcourse_core::parse_notation_events("user: go\n2x bash make -> built")?;
/// let records: Vec<_> = events.iter().map(Vec::len).collect();
/// assert_eq!(records, [1, 3, 3]);
/// # Ok::<(), midcourse_core::NotationError>(())
/// ```
pub fn parse_notation_events(text: &str) -> Result<Vec<Vec<TrajectoryRecord>>, NotationError> {
    let mut reader = Reader { event: Vec::new(), next_seq: 0, now: BEGINNING, calls: 0 };
    let event_of = |(line, text)| match reader.read(text) {
        Ok(()) => Ok(std::mem::take(&mut reader.event)),
        Err(problem) => Err(NotationError { line, problem }),
    };
    written_out(text)?.into_iter().map(event_of).collect()
}

/// The lines with their numbers, repetitions written out.
fn written_out(text: &str) -> Result<Vec<(usize, &str)>, NotationError> {
    type Lines<'a> = Vec<(usize, &'a str)>;
    // Where a block began, how often it comes, and the lines before it.
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
                return Err(error("there is no `{` that this closes"));
            };
            let block = std::mem::replace(&mut lines, before);
            if block.len().saturating_mul(times).saturating_add(lines.len()) > LINES_MAX {
                return Err(error("with its repetitions this is more than a million lines"));
            }
            (0..times).for_each(|_| lines.extend_from_slice(&block));
        } else {
            if lines.len().saturating_add(times) > LINES_MAX {
                return Err(error("with its repetitions this is more than a million lines"));
            }
            lines.extend(std::iter::repeat_n((number, rest), times));
        }
    }
    match open.pop() {
        Some((line, ..)) => {
            Err(NotationError { line, problem: "this `{` is never closed".to_owned() })
        }
        None => Ok(lines),
    }
}

/// `3x` in front of a line, and the line.
fn repetition(line: &str) -> (usize, &str) {
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

struct Reader {
    /// The records of the line that is being read.
    event: Vec<TrajectoryRecord>,
    next_seq: u64,
    now: Timestamp,
    calls: usize,
}

impl Reader {
    fn push(&mut self, payload: TrajectoryPayload) {
        self.event.push(TrajectoryRecord::new(self.next_seq, self.now, payload));
        self.next_seq += 1;
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let mut step = Duration::from_millis(STEP_MS);
        let mut takes = Duration::ZERO;
        let mut same_turn = false;
        let mut rest = line;
        loop {
            let (first, behind) = first_word(rest);
            if let Some(length) = first.strip_prefix('+') {
                step = length_of(length)?;
            } else if let Some(length) = first.strip_prefix('~') {
                takes = length_of(length)?;
            } else if first == "&" {
                same_turn = true;
            } else {
                break;
            }
            rest = behind;
        }
        if self.next_seq > 0 {
            self.now = self.now.after(step);
        }
        match self.fact(rest)? {
            Some(payload) => self.push(payload),
            None => self.call(rest, takes, same_turn)?,
        }
        Ok(())
    }

    /// A line that is no call.
    fn fact(&self, line: &str) -> Result<Option<TrajectoryPayload>, String> {
        let (word, rest) = first_word(line);
        let message = |message| TrajectoryPayload::MessageAppended { message };
        Ok(Some(match (word, rest) {
            ("user:", text) => message(AgentMessage::user(text_of(text)?)),
            ("assistant:", text) => message(AgentMessage::assistant(text_of(text)?)),
            ("turn", "") => TrajectoryPayload::TurnStarted,
            ("compaction", "") => TrajectoryPayload::ContextCompacted { trigger: None },
            ("resume", "") => TrajectoryPayload::Resumed,
            ("deadline", "none") => TrajectoryPayload::DeadlineSet { at_unix_ms: None },
            ("deadline", length) if !has_mark(length) => TrajectoryPayload::DeadlineSet {
                at_unix_ms: Some(self.now.after(length_of(length)?)),
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

    fn call(&mut self, line: &str, takes: Duration, same_turn: bool) -> Result<(), String> {
        let (tool, rest) = first_word(line);
        let (args, ending, text) = if rest.starts_with('{') {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let args = match values.next() {
                Some(Ok(args)) => args,
                _ => return Err("the arguments begin like JSON and are none".to_owned()),
            };
            let behind = rest.get(values.byte_offset()..).unwrap_or_default();
            let (between, ending, text) = split_at_mark(behind)?;
            if !between.is_empty() {
                return Err(format!("{between:?} stands between the arguments and the mark"));
            }
            (args, ending, text)
        } else {
            let (words, ending, text) = split_at_mark(rest)?;
            (plain_args(tool, words), ending, text)
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

/// Where the first mark that stands by itself begins, and which it is.
fn find_mark(text: &str) -> Option<(usize, Ending)> {
    MARKS
        .iter()
        .filter_map(|(mark, ending)| {
            text.match_indices(mark)
                .map(|(at, _)| at)
                .find(|at| {
                    let before = text.get(..*at).unwrap_or_default();
                    let behind = text.get(at + mark.len()..).unwrap_or_default();
                    (before.is_empty() || before.ends_with(char::is_whitespace))
                        && (behind.is_empty() || behind.starts_with(char::is_whitespace))
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
        .ok_or("a call needs ` -> result`, ` !! error`, ` xx reason` or ` ..` behind it")?;
    let (before, behind) = text.split_at(at);
    // Every mark has two bytes.
    Ok((before.trim(), ending, behind.get(2..).unwrap_or_default().trim()))
}

/// A text, which in double quotes is a JSON string.
fn text_of(text: &str) -> Result<String, String> {
    if text.starts_with('"') && text.ends_with('"') && text.len() > 1 {
        serde_json::from_str(text).map_err(|error| format!("the text in quotes: {error}"))
    } else {
        Ok(text.to_owned())
    }
}

/// `90s`, `2m`, `1h`, `250ms`.
fn length_of(text: &str) -> Result<Duration, String> {
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
        _ => Err(format!("{text:?} is not a length of time: write 250ms, 90s, 2m or 1h")),
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
    fn errors_say_what_to_do() {
        problem(
            "\nbash make",
            "line 2: a call needs ` -> result`, ` !! error`, ` xx reason` or ` ..` behind it",
        );
        problem(
            "+2x bash make -> ok",
            "line 1: \"2x\" is not a length of time: write 250ms, 90s, 2m or 1h",
        );
        problem("edit {\"a\": -> ok", "line 1: the arguments begin like JSON and are none");
        problem("2x {\nbash a -> b", "line 1: this `{` is never closed");
        problem("}", "line 1: there is no `{` that this closes");
        problem(
            "9999999x bash a -> b",
            "line 1: with its repetitions this is more than a million lines",
        );
    }

    #[test]
    fn pipes_and_arrows_within_words_are_words() {
        let records = parse_notation("bash a->b | c !!x -> fine -> really").unwrap();
        let json = serde_json::to_value(&records).unwrap();
        assert_eq!(json[1]["payload"]["args"]["command"], "a->b | c !!x");
        assert_eq!(json[2]["payload"]["result"]["content"][0]["text"], "fine -> really");
    }

    #[test]
    fn times() {
        let records = parse_notation("bash a -> b\n+2m ~3s bash a -> b").unwrap();
        let at: Vec<u64> = records.iter().map(|r| r.at().unix_ms() - 1_767_225_600_000).collect();
        assert_eq!(at, [0, 0, 0, 120_000, 120_000, 123_000]);
    }
}
