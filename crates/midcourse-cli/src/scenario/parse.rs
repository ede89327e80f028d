//! Parses scenario files. Every error gives the line number and says what to write instead.

use midcourse::{NotationError, PatternType, parse_notation_events};

use super::{Expected, Scenario};

/// The patterns that a scenario can expect.
const PATTERNS: [PatternType; 15] = [
    PatternType::DoomLoop,
    PatternType::RepeatedError,
    PatternType::ProgressStall,
    PatternType::Churn,
    PatternType::ToolAvoidance,
    PatternType::ContextDegradation,
    PatternType::Sweep,
    PatternType::ErrorCascade,
    PatternType::Stagnation,
    PatternType::WriteThrash,
    PatternType::NoEffect,
    PatternType::Outage,
    PatternType::Monologue,
    PatternType::IdleTalk,
    PatternType::Drift,
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct ScenarioError {
    /// Number of the line with the error, counted from 1.
    pub(crate) line: usize,
    /// What is wrong, and what to write instead.
    pub(crate) problem: String,
}

fn error(line: usize, problem: impl Into<String>) -> ScenarioError {
    ScenarioError { line, problem: problem.into() }
}

pub(crate) fn parse_scenarios(text: &str) -> Result<Vec<Scenario>, ScenarioError> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for block in blocks(text)? {
        let name = block.name;
        if let Some(other) = scenarios.iter().find(|scenario| scenario.name == name) {
            let problem = format!("line {} has a scenario `{name}` too; rename one", other.line);
            return Err(error(block.line, problem));
        }
        scenarios.push(block.parse()?);
    }
    Ok(scenarios)
}

/// The part of the file that belongs to one scenario: its name, the number of the line with the
/// name, and the lines after it with their numbers.
struct Block<'a> {
    name: &'a str,
    line: usize,
    lines: Vec<(usize, &'a str)>,
}

fn is_blank_or_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with('#')
}

fn blocks(text: &str) -> Result<Vec<Block<'_>>, ScenarioError> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if let Some(name) = line.strip_prefix("===") {
            let name = name.trim();
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || !name.chars().all(is_name) {
                let problem = format!(
                    "invalid name {name:?}; write `=== its-name` in lower-case letters, digits \
                     and hyphens"
                );
                return Err(error(number, problem));
            }
            blocks.push(Block { name, line: number, lines: Vec::new() });
        } else if let Some(block) = blocks.last_mut() {
            block.lines.push((number, line));
        } else if !is_blank_or_comment(line) {
            let problem = "this line is outside a scenario; start one with `=== its-name`";
            return Err(error(number, problem));
        }
    }
    Ok(blocks)
}

/// Splits a `why:` or `expect:` line into label and text; `None` for any other line.
fn label(line: &str) -> Option<(&str, &str)> {
    let (name, text) = line.split_once(':')?;
    ["why", "expect"].contains(&name).then(|| (name, text.trim()))
}

impl Block<'_> {
    fn parse(self) -> Result<Scenario, ScenarioError> {
        let (mut why, mut expect) = (None, None);
        let mut lines = self.lines.as_slice();
        while let Some(((number, line), rest)) = lines.split_first() {
            if let Some((name, text)) = label(line) {
                let field = if name == "why" { &mut why } else { &mut expect };
                if field.replace((*number, text)).is_some() {
                    let problem = format!("`{}` has two `{name}:` lines; keep one", self.name);
                    return Err(error(*number, problem));
                }
            } else if !is_blank_or_comment(line) {
                break;
            }
            lines = rest;
        }
        let Some((expect_line, expect)) = expect else {
            let problem = format!(
                "`{}` has no `expect:` line; write `expect: quiet` or `expect: PATTERN FIRST..LAST` \
                 between its name and its run",
                self.name
            );
            return Err(error(self.line, problem));
        };
        let expected = parse_expected(expect).map_err(|problem| error(expect_line, problem))?;
        let events = parse_events(lines)?;
        if events.is_empty() {
            let problem = format!("`{}` has no events; write its run below its labels", self.name);
            return Err(error(self.line, problem));
        }
        if let Expected::Message { last, .. } = expected
            && last > events.len()
        {
            let problem = format!(
                "LAST is {last}, but the run has only {} events; lower LAST or add events",
                events.len()
            );
            return Err(error(expect_line, problem));
        }
        let why = why.map(|(_, text)| text.to_owned());
        Ok(Scenario { name: self.name.to_owned(), line: self.line, why, expected, events })
    }
}

fn parse_events(
    lines: &[(usize, &str)],
) -> Result<Vec<Vec<midcourse::TrajectoryRecord>>, ScenarioError> {
    if let Some((number, line)) = lines.iter().find(|(_, line)| label(line).is_some()) {
        let name = label(line).map(|(name, _)| name).unwrap_or_default();
        let problem = format!("`{name}:` is inside the run; move it above the first event");
        return Err(error(*number, problem));
    }
    let before = lines.first().map_or(0, |(number, _)| number.saturating_sub(1));
    let texts: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
    parse_notation_events(&texts.join("\n"))
        .map_err(|NotationError { line, problem }| error(before.saturating_add(line), problem))
}

/// The pattern with this name, if a message can be about it.
pub(crate) fn parse_pattern(name: &str) -> Result<PatternType, String> {
    PATTERNS.into_iter().find(|pattern| pattern.as_str() == name).ok_or_else(|| {
        let known: Vec<String> = PATTERNS.iter().map(ToString::to_string).collect();
        format!("unknown pattern {name:?}; use one of {}", known.join(", "))
    })
}

fn parse_expected(text: &str) -> Result<Expected, String> {
    if text == "quiet" {
        return Ok(Expected::Quiet);
    }
    let Some((names, range)) = text.split_once(char::is_whitespace) else {
        return Err(format!(
            "invalid expectation {text:?}; write `quiet` or `PATTERN FIRST..LAST`, such as \
             `doom_loop 5..9`"
        ));
    };
    let mut patterns = Vec::new();
    for name in names.split('|') {
        let pattern = parse_pattern(name)?;
        if patterns.contains(&pattern) {
            return Err(format!("pattern `{name}` is listed twice; list it once"));
        }
        patterns.push(pattern);
    }
    let range = range.trim();
    let bounds = range.split_once("..").map(|(first, last)| (first.parse(), last.parse()));
    match bounds {
        Some((Ok(0), _)) => {
            Err("FIRST is 0, but events are counted from 1; write a larger number".to_owned())
        }
        Some((Ok(first), Ok(last))) if first > last => {
            Err(format!("range {range} is empty; FIRST must not be greater than LAST"))
        }
        Some((Ok(first), Ok(last))) => Ok(Expected::Message { patterns, first, last }),
        _ => Err(format!("invalid range {range:?}; write FIRST..LAST in numbers, such as 5..9")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_contain_several_scenarios() {
        let scenarios = parse_scenarios(
            "# a comment\n\n=== one\nexpect: doom_loop|stagnation 2..3\n\n# labels in any order\n\
             why: so\n# the run\nuser: go\n2x bash a -> b\n\n===  two \r\nexpect: quiet\r\n\
             bash a -> b\r\n",
        )
        .unwrap();
        let parsed: Vec<_> = scenarios
            .iter()
            .map(|s| {
                (s.name.as_str(), s.line, s.why.as_deref(), s.expected.to_string(), s.events.len())
            })
            .collect();
        assert_eq!(
            parsed,
            [
                ("one", 3, Some("so"), "doom_loop|stagnation 2..3".to_owned(), 3),
                ("two", 12, None, "quiet".to_owned(), 1),
            ]
        );
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        assert_eq!(parse_scenarios(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_name_the_line_and_what_to_write() {
        check_error(
            "\nbash a -> b",
            "line 2: this line is outside a scenario; start one with `=== its-name`",
        );
        check_error(
            "=== Not A Name\nexpect: quiet",
            "line 1: invalid name \"Not A Name\"; write `=== its-name` in lower-case letters, \
             digits and hyphens",
        );
        check_error(
            "\n=== one\nwhy: so\nbash a -> b",
            "line 2: `one` has no `expect:` line; write `expect: quiet` or `expect: PATTERN \
             FIRST..LAST` between its name and its run",
        );
        check_error("=== one\nwhy: a\nwhy: b", "line 3: `one` has two `why:` lines; keep one");
        check_error(
            "=== one\nexpect: quiet",
            "line 1: `one` has no events; write its run below its labels",
        );
        check_error(
            "=== one\nexpect: quiet\nbash a -> b\nwhy: late",
            "line 4: `why:` is inside the run; move it above the first event",
        );
        check_error(
            "=== one\nexpect: quiet\nbash a -> b\n=== one\nexpect: quiet\nbash a -> b",
            "line 4: line 1 has a scenario `one` too; rename one",
        );
    }

    #[test]
    fn an_error_in_the_run_names_the_line_of_the_file() {
        check_error(
            "=== zero\nexpect: quiet\nbash a -> b\n\n=== one\nexpect: quiet\n\n# comment\n\
             bash a -> b\n\nbash make",
            "line 11: a call needs ` -> result`, ` !! error`, ` xx reason` or ` ..` after it",
        );
    }

    #[track_caller]
    fn check_expect_error(expect: &str, expected: &str) {
        let text = format!("=== one\nexpect: {expect}\n3x bash a -> b");
        check_error(&text, &format!("line 2: {expected}"));
    }

    #[test]
    fn impossible_expectations_are_errors() {
        check_expect_error(
            "silence",
            "invalid expectation \"silence\"; write `quiet` or `PATTERN FIRST..LAST`, such as \
             `doom_loop 5..9`",
        );
        check_expect_error(
            "waiting 1..2",
            "unknown pattern \"waiting\"; use one of doom_loop, repeated_error, progress_stall, churn, \
             tool_avoidance, context_degradation, sweep, error_cascade, stagnation, write_thrash, \
             no_effect, outage, monologue, idle_talk, drift",
        );
        check_expect_error(
            "stagnation|stagnation 1..2",
            "pattern `stagnation` is listed twice; list it once",
        );
        check_expect_error(
            "doom_loop 1-2",
            "invalid range \"1-2\"; write FIRST..LAST in numbers, such as 5..9",
        );
        check_expect_error(
            "doom_loop 0..2",
            "FIRST is 0, but events are counted from 1; write a larger number",
        );
        check_expect_error(
            "doom_loop 3..2",
            "range 3..2 is empty; FIRST must not be greater than LAST",
        );
        check_expect_error(
            "doom_loop 3..4",
            "LAST is 4, but the run has only 3 events; lower LAST or add events",
        );
    }
}
