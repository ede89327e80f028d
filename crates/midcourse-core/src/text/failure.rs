//! Whether a result reads like a failure, where the host does not say.
//!
//! Used only for runs whose format leaves it open. Prose about errors (a file that mentions one, a
//! log with a line of them in its middle) is no failure: what counts is how the text begins and how
//! it ends. Time-outs are failures.

use super::phrases::Phrases;

/// Looked at of a long text: its beginning and its end.
const HEAD_BYTES: usize = 400;
const TAIL_BYTES: usize = 400;

/// What a phrase means: a failure, or one if a number says so.
const FAILED: u16 = 1;
const EXIT: u16 = 2;

/// First words of a text that failed, without what may stand around them.
const BEGINS: [&str; 21] = [
    "error",
    "fatal",
    "exception",
    "traceback",
    "failed",
    "failure",
    "panic",
    "err!",
    "npm err",
    "invalid",
    "unknown tool",
    "tool error",
    "tool_use_error",
    "execution failed",
    "command failed",
    "permission denied",
    "access denied",
    "unauthorized",
    "forbidden",
    "timed out",
    "timeout",
];

/// What stands behind "error" where there was none.
const NO_ERROR: [&str; 7] = ["0", "null", "none", "false", ",", "[]", "{}"];

/// Words that tell it wherever they stand near the beginning or the end.
static TELLING: Phrases<25> = Phrases::new([
    ("success\": false", FAILED),
    ("success\":false", FAILED),
    ("iserror\": true", FAILED),
    ("iserror\":true", FAILED),
    ("status\": \"error\"", FAILED),
    ("status\":\"error\"", FAILED),
    ("traceback (most recent call last)", FAILED),
    ("command not found", FAILED),
    ("no such file or directory", FAILED),
    ("permission denied", FAILED),
    ("syntaxerror:", FAILED),
    ("syntax error", FAILED),
    ("timed out", FAILED),
    ("timeouterror", FAILED),
    ("deadline exceeded", FAILED),
    ("is not recognized as", FAILED),
    ("segmentation fault", FAILED),
    ("core dumped", FAILED),
    ("errno", FAILED),
    ("unhandled exception", FAILED),
    ("connection refused", FAILED),
    ("execution failed", FAILED),
    ("was rejected", FAILED),
    ("invalid option", FAILED),
    ("exit", EXIT),
]);

/// Whether a shell's result says itself that the command failed: a first line `Exit code: 3`, or an
/// `"exit_code": 3` beside the output.
pub(crate) fn reports_failing_exit(text: &str) -> bool {
    let text = text.trim_start();
    let line = text.lines().next().unwrap_or_default();
    let line = line.get(..line.floor_char_boundary(48)).unwrap_or(line);
    let line = line.trim_start_matches('[');
    let header = ["process ", "command "].iter().find_map(|words| strip_words(line, words));
    let header = header.unwrap_or(line);
    // `exit 1` alone may be a script's line; a host says what the number is.
    let named = ["exit code", "exit status", "exitcode", "exited with", "exited:"];
    if named.iter().any(|words| strip_words(header, words).is_some()) {
        return exits_with_failure(header);
    }
    let tail = text.len().saturating_sub(TAIL_BYTES);
    let tail = text.get(text.ceil_char_boundary(tail)..).unwrap_or(text);
    text.starts_with('{')
        && tail
            .match_indices("\"exit_code\"")
            .any(|(at, _)| exits_with_failure(tail.get(at + 1..).unwrap_or_default()))
}

/// Whether a tool's result reads like a failure.
pub fn looks_failed(text: &str) -> bool {
    let text = text.trim();
    let head = text.get(..text.floor_char_boundary(HEAD_BYTES)).unwrap_or(text);
    let tail = text.len().saturating_sub(TAIL_BYTES);
    let tail = text.get(text.ceil_char_boundary(tail)..).unwrap_or(text);
    if says_success(head) {
        return false;
    }
    begins_with_failure(head)
        || tells(head)
        || (text.len() > HEAD_BYTES && tells(tail))
        || tail.lines().last().is_some_and(ends_in_error)
}

/// Whether telling words stand in a text, or an exit that is a failure.
fn tells(text: &str) -> bool {
    TELLING.find_in(text.as_bytes()).any(|(at, meaning)| {
        meaning == FAILED || exits_with_failure(text.get(at..).unwrap_or_default())
    })
}

fn begins_with_failure(head: &str) -> bool {
    let first = head.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    BEGINS.iter().any(|words| {
        let Some(rest) = strip_words(first, words) else { return false };
        // "errors: 0", "error": null and "invalidate" are something else.
        let value = rest.trim_start_matches([':', ' ', '=', '"', '\'']);
        !rest.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !NO_ERROR.iter().any(|none| strip_words(value, none).is_some())
    })
}

/// What follows these words, in any case, if a text begins with them.
fn strip_words<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(words.len())?;
    first.eq_ignore_ascii_case(words).then_some(rest)
}

/// A wrapper that says outright that all went well.
fn says_success(head: &str) -> bool {
    ["exitcode: 0", "exit code: 0"].iter().any(|words| strip_words(head, words).is_some())
}

/// `exit code 3`, `exited with 1`, `exit status: 2`.
fn exits_with_failure(text: &str) -> bool {
    let rest = strip_words(text, "exited").or_else(|| strip_words(text, "exit"));
    let mut rest = rest.unwrap_or_default().trim_start_matches([' ', '_']);
    for word in ["with", "code", "status"] {
        rest = strip_words(rest, word).unwrap_or(rest).trim_start_matches([' ', ':', '=', '"']);
    }
    let digits = rest.trim_start_matches('-');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end).is_some_and(|code| code.bytes().any(|byte| byte != b'0'))
}

/// `ValueError: …` as the last line of a trace.
fn ends_in_error(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(name, what)| {
        let is_count = what.trim().bytes().all(|byte| byte.is_ascii_digit());
        let ends_in = |words: &str| {
            let start = name.len().checked_sub(words.len());
            start
                .and_then(|start| name.get(start..))
                .is_some_and(|end| end.eq_ignore_ascii_case(words))
        };
        !name.contains(' ') && (ends_in("error") || ends_in("exception")) && !is_count
    })
}

#[cfg(test)]
mod tests {
    use super::looks_failed;

    #[test]
    fn failures() {
        for text in [
            "Error: reservation not found",
            "bash: foo: command not found",
            "Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'x'",
            "exitcode: 1 (execution failed)\nCode output: unknown language json",
            "exitcode: 124 (execution failed)\nCode output: \nTimeout",
            "make: *** [all] Error 2\nexit code 2",
            "<tool_use_error>Unknown skill: commit</tool_use_error>",
            "Command timed out after 120 s",
            "{'error': 'Error: invalid syntax (<string>, line 6)'}",
            "bash: -c: line 0: syntax error near unexpected token `('",
            "[error] no rule to make target",
            "a\nb\nValueError: too many values",
            "{\"output\":\"x\",\"metadata\":{\"exit_code\":3}}",
            "{\"success\": false, \"message\": \"no\"}",
        ] {
            assert!(looks_failed(text), "{text}");
        }
    }

    #[test]
    fn results() {
        for text in [
            "",
            "120 lines",
            "errors: 0, warnings: 2",
            "{\"error\": null, \"value\": 3}",
            "{\"output\":\"x\",\"metadata\":{\"exit_code\":0}}",
            "error: 0",
            "invalidate_cache() was called",
            "exit code: 0",
            "exited with 0",
            "exitcode: 0 (execution succeeded)\nCode output: Error: unsupported language",
            "fn error(&self) -> String",
            "test result: ok. 12 passed; 0 failed",
            "the exit is 3 doors down",
        ] {
            assert!(!looks_failed(text), "{text}");
        }
    }
}
