//! Reading scenarios. Whatever is wrong is said with its line and with what to write instead.

use midcourse::{NotationError, PatternType, parse_notation_events};

use super::{Expected, Scenario};

/// What a word can be about.
const PATTERNS: [PatternType; 13] = [
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
    PatternType::Outage,
    PatternType::Monologue,
    PatternType::Drift,
];

/// A file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScenarioError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

fn wrong(line: usize, problem: impl Into<String>) -> ScenarioError {
    ScenarioError { line, problem: problem.into() }
}

/// Reads a file of scenarios.
///
/// ```
/// let scenarios = crate::scenario::read_scenarios("
/// === same-error-three-times
/// why: nothing changes between the attempts
/// expect: repeated_error|doom_loop 3..4
/// 4x bash make !! error: no rule
/// ")?;
/// assert_eq!(scenarios[0].expected.to_string(), "repeated_error|doom_loop 3..4");
/// assert_eq!(scenarios[0].events.len(), 4);
/// # Ok::<(), crate::scenario::ScenarioError>(())
/// ```
pub fn read_scenarios(text: &str) -> Result<Vec<Scenario>, ScenarioError> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for block in blocks(text)? {
        let name = block.name;
        if let Some(twin) = scenarios.iter().find(|scenario| scenario.name == name) {
            let problem = format!("line {} has a scenario {name} too: rename one", twin.line);
            return Err(wrong(block.line, problem));
        }
        scenarios.push(block.read()?);
    }
    Ok(scenarios)
}

/// The lines of one scenario, with their numbers.
struct Block<'a> {
    name: &'a str,
    line: usize,
    lines: Vec<(usize, &'a str)>,
}

fn is_nothing(line: &str) -> bool {
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
                    "{name:?} is no name: write `=== name-of-it` in small letters, digits and \
                     hyphens"
                );
                return Err(wrong(number, problem));
            }
            blocks.push(Block { name, line: number, lines: Vec::new() });
        } else if let Some(block) = blocks.last_mut() {
            block.lines.push((number, line));
        } else if !is_nothing(line) {
            let problem = "this belongs to no scenario: begin one with `=== name-of-it` above it";
            return Err(wrong(number, problem));
        }
    }
    Ok(blocks)
}

/// A label, where a line is one.
fn label(line: &str) -> Option<(&str, &str)> {
    let (name, text) = line.split_once(':')?;
    ["why", "expect"].contains(&name).then(|| (name, text.trim()))
}

impl Block<'_> {
    fn read(self) -> Result<Scenario, ScenarioError> {
        let (mut why, mut expect) = (None, None);
        let mut lines = self.lines.as_slice();
        while let Some(((number, line), behind)) = lines.split_first() {
            if let Some((name, text)) = label(line) {
                let known = if name == "why" { &mut why } else { &mut expect };
                if known.replace((*number, text)).is_some() {
                    let problem = format!("{} has two `{name}:` lines: keep one", self.name);
                    return Err(wrong(*number, problem));
                }
            } else if !is_nothing(line) {
                break;
            }
            lines = behind;
        }
        let Some((expect_line, expect)) = expect else {
            let problem = format!(
                "{} has no `expect:` line: write `expect: quiet` or `expect: PATTERN FIRST..LAST` \
                 below its name, above the run",
                self.name
            );
            return Err(wrong(self.line, problem));
        };
        let expected = read_expected(expect).map_err(|problem| wrong(expect_line, problem))?;
        let events = read_run(lines)?;
        if events.is_empty() {
            let problem = format!("{} has no events: write its run below its labels", self.name);
            return Err(wrong(self.line, problem));
        }
        if let Expected::Word { last, .. } = expected
            && last > events.len()
        {
            let problem = format!(
                "the run ends with event {}, before {last}: lower LAST or lengthen the run",
                events.len()
            );
            return Err(wrong(expect_line, problem));
        }
        let why = why.map(|(_, text)| text.to_owned());
        Ok(Scenario { name: self.name.to_owned(), line: self.line, why, expected, events })
    }
}

fn read_run(
    lines: &[(usize, &str)],
) -> Result<Vec<Vec<midcourse::TrajectoryRecord>>, ScenarioError> {
    if let Some((number, line)) = lines.iter().find(|(_, line)| label(line).is_some()) {
        let name = label(line).map(|(name, _)| name).unwrap_or_default();
        let problem = format!("`{name}:` stands within the run: move it above the first event");
        return Err(wrong(*number, problem));
    }
    let before = lines.first().map_or(0, |(number, _)| number.saturating_sub(1));
    let texts: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
    parse_notation_events(&texts.join("\n"))
        .map_err(|NotationError { line, problem }| wrong(before.saturating_add(line), problem))
}

fn read_expected(text: &str) -> Result<Expected, String> {
    if text == "quiet" {
        return Ok(Expected::Quiet);
    }
    let Some((names, range)) = text.split_once(char::is_whitespace) else {
        return Err(format!(
            "{text:?} is no expectation: write `quiet` or `PATTERN FIRST..LAST`, such as \
             `doom_loop 5..9`"
        ));
    };
    let mut patterns = Vec::new();
    for name in names.split('|') {
        let Some(pattern) = PATTERNS.into_iter().find(|pattern| pattern.as_str() == name) else {
            let known: Vec<String> = PATTERNS.iter().map(ToString::to_string).collect();
            return Err(format!("{name:?} is no pattern: give {}", known.join(", ")));
        };
        if patterns.contains(&pattern) {
            return Err(format!("{name} is named twice: name it once"));
        }
        patterns.push(pattern);
    }
    let range = range.trim();
    let ends = range.split_once("..").map(|(first, last)| (first.parse(), last.parse()));
    match ends {
        Some((Ok(0), _)) => Err("events are counted from 1: raise FIRST".to_owned()),
        Some((Ok(first), Ok(last))) if first > last => {
            Err(format!("{range} is empty: FIRST, the earliest event, must not be behind LAST"))
        }
        Some((Ok(first), Ok(last))) => Ok(Expected::Word { patterns, first, last }),
        _ => {
            Err(format!("{range:?} is no range of events: write FIRST..LAST in numbers, like 5..9"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_many() {
        let scenarios = read_scenarios(
            "# a comment\n\n=== one\nexpect: doom_loop|stagnation 2..3\n\n# labels in any order\n\
             why: so\n# the run\nuser: go\n2x bash a -> b\n\n===  two \r\nexpect: quiet\r\n\
             bash a -> b\r\n",
        )
        .unwrap();
        let told: Vec<_> = scenarios
            .iter()
            .map(|s| {
                (s.name.as_str(), s.line, s.why.as_deref(), s.expected.to_string(), s.events.len())
            })
            .collect();
        assert_eq!(
            told,
            [
                ("one", 3, Some("so"), "doom_loop|stagnation 2..3".to_owned(), 3),
                ("two", 12, None, "quiet".to_owned(), 1),
            ]
        );
    }

    #[track_caller]
    fn problem(text: &str, expected: &str) {
        assert_eq!(read_scenarios(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_say_where_and_what_to_do() {
        problem(
            "\nbash a -> b",
            "line 2: this belongs to no scenario: begin one with `=== name-of-it` above it",
        );
        problem(
            "=== Not A Name\nexpect: quiet",
            "line 1: \"Not A Name\" is no name: write `=== name-of-it` in small letters, digits \
             and hyphens",
        );
        problem(
            "\n=== one\nwhy: so\nbash a -> b",
            "line 2: one has no `expect:` line: write `expect: quiet` or `expect: PATTERN \
             FIRST..LAST` below its name, above the run",
        );
        problem("=== one\nwhy: a\nwhy: b", "line 3: one has two `why:` lines: keep one");
        problem(
            "=== one\nexpect: quiet",
            "line 1: one has no events: write its run below its labels",
        );
        problem(
            "=== one\nexpect: quiet\nbash a -> b\nwhy: late",
            "line 4: `why:` stands within the run: move it above the first event",
        );
        problem(
            "=== one\nexpect: quiet\nbash a -> b\n=== one\nexpect: quiet\nbash a -> b",
            "line 4: line 1 has a scenario one too: rename one",
        );
    }

    #[test]
    fn an_error_of_the_run_has_the_line_of_the_file() {
        problem(
            "=== zero\nexpect: quiet\nbash a -> b\n\n=== one\nexpect: quiet\n\n# comment\n\
             bash a -> b\n\nbash make",
            "line 11: a call needs ` -> result`, ` !! error`, ` xx reason` or ` ..` behind it",
        );
    }

    #[track_caller]
    fn wrong_expect(expect: &str, expected: &str) {
        let text = format!("=== one\nexpect: {expect}\n3x bash a -> b");
        problem(&text, &format!("line 2: {expected}"));
    }

    #[test]
    fn what_is_expected_must_be_possible() {
        wrong_expect(
            "silence",
            "\"silence\" is no expectation: write `quiet` or `PATTERN FIRST..LAST`, such as \
             `doom_loop 5..9`",
        );
        wrong_expect(
            "waiting 1..2",
            "\"waiting\" is no pattern: give doom_loop, repeated_error, progress_stall, churn, \
             tool_avoidance, context_degradation, sweep, error_cascade, stagnation, write_thrash, \
             outage, monologue, drift",
        );
        wrong_expect("stagnation|stagnation 1..2", "stagnation is named twice: name it once");
        wrong_expect(
            "doom_loop 1-2",
            "\"1-2\" is no range of events: write FIRST..LAST in numbers, like 5..9",
        );
        wrong_expect("doom_loop 0..2", "events are counted from 1: raise FIRST");
        wrong_expect(
            "doom_loop 3..2",
            "3..2 is empty: FIRST, the earliest event, must not be behind LAST",
        );
        wrong_expect(
            "doom_loop 3..4",
            "the run ends with event 3, before 4: lower LAST or lengthen the run",
        );
    }
}
