//! Guesses whether a tool call failed by reading its result, for hosts and file formats that do not
//! report it.
//!
//! Only the beginning and the end of a result count: a file that mentions an error, or a log with
//! error lines in its middle, is not a failure. A timeout counts as a failure.

use super::phrases::Phrases;

/// Of a long text, this many bytes at the beginning and `TAIL_BYTES` at the end are examined.
const HEAD_BYTES: usize = 400;
const TAIL_BYTES: usize = 400;

/// Flag of a phrase that means a failure.
const FAILED: u16 = 1;
/// Flag of a phrase that means a failure if a nonzero exit code follows it.
const EXIT: u16 = 2;

/// A text that begins with one of these words, after any punctuation, reports a failure.
const FAILURE_BEGINNINGS: [&str; 21] = [
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

/// Values after "error" that mean there was no error, as in `"error": null`.
const NO_ERROR_VALUES: [&str; 7] = ["0", "null", "none", "false", ",", "[]", "{}"];

/// Phrases that mean a failure near the beginning or the end of a text.
static FAILURE_PHRASES: Phrases<25> = Phrases::new([
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

/// Whether a shell result reports a nonzero exit code: a first line `Exit code: 3`, or an
/// `"exit_code": 3` in a JSON result.
pub(crate) fn reports_failing_exit(text: &str) -> bool {
    let text = text.trim_start();
    let line = text.lines().next().unwrap_or_default();
    let line = line.get(..line.floor_char_boundary(48)).unwrap_or(line);
    let line = line.trim_start_matches('[');
    let header = ["process ", "command "].iter().find_map(|prefix| strip_phrase(line, prefix));
    let header = header.unwrap_or(line);
    // A host puts a label such as `exit code` before the number. Without a label, `exit 1` may be
    // a line of a script.
    let labels = ["exit code", "exit status", "exitcode", "exited with", "exited:"];
    if labels.iter().any(|label| strip_phrase(header, label).is_some()) {
        return exits_with_failure(header);
    }
    let tail = text.len().saturating_sub(TAIL_BYTES);
    let tail = text.get(text.ceil_char_boundary(tail)..).unwrap_or(text);
    text.starts_with('{')
        && tail
            .match_indices("\"exit_code\"")
            .any(|(at, _)| exits_with_failure(tail.get(at + 1..).unwrap_or_default()))
}

/// Whether the text of a tool result reads like a failure. This is a guess from the first and the
/// last 400 bytes; use it if the host does not report whether the call failed.
pub fn looks_failed(text: &str) -> bool {
    let text = text.trim();
    let head = text.get(..text.floor_char_boundary(HEAD_BYTES)).unwrap_or(text);
    let tail = text.len().saturating_sub(TAIL_BYTES);
    let tail = text.get(text.ceil_char_boundary(tail)..).unwrap_or(text);
    if says_success(head) {
        return false;
    }
    begins_with_failure(head)
        || has_failure_phrase(head)
        || (text.len() > HEAD_BYTES && has_failure_phrase(tail))
        || tail.lines().last().is_some_and(is_exception_line)
}

fn has_failure_phrase(text: &str) -> bool {
    FAILURE_PHRASES.find_in(text.as_bytes()).any(|(at, meaning)| {
        meaning == FAILED || exits_with_failure(text.get(at..).unwrap_or_default())
    })
}

fn begins_with_failure(head: &str) -> bool {
    let first = head.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    FAILURE_BEGINNINGS.iter().any(|beginning| {
        let Some(rest) = strip_phrase(first, beginning) else { return false };
        // "errors: 0", "error": null and "invalidate" are not failures.
        let value = rest.trim_start_matches([':', ' ', '=', '"', '\'']);
        !rest.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !NO_ERROR_VALUES.iter().any(|none| strip_phrase(value, none).is_some())
    })
}

/// The rest of `text` after `phrase`, ignoring ASCII case; `None` if `text` does not begin with it.
fn strip_phrase<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(phrase.len())?;
    first.eq_ignore_ascii_case(phrase).then_some(rest)
}

/// Whether a result begins with `exit code: 0`, which some hosts put in front of the output.
fn says_success(head: &str) -> bool {
    ["exitcode: 0", "exit code: 0"].iter().any(|phrase| strip_phrase(head, phrase).is_some())
}

/// Whether a text begins with a nonzero exit code, such as `exit code 3` or `exited with 1`.
fn exits_with_failure(text: &str) -> bool {
    let rest = strip_phrase(text, "exited").or_else(|| strip_phrase(text, "exit"));
    let mut rest = rest.unwrap_or_default().trim_start_matches([' ', '_']);
    for word in ["with", "code", "status"] {
        rest = strip_phrase(rest, word).unwrap_or(rest).trim_start_matches([' ', ':', '=', '"']);
    }
    let digits = rest.trim_start_matches('-');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end).is_some_and(|code| code.bytes().any(|byte| byte != b'0'))
}

/// Whether a line names an exception, such as `ValueError: …` at the end of a stack trace.
fn is_exception_line(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(name, message)| {
        let is_count = message.trim().bytes().all(|byte| byte.is_ascii_digit());
        let ends_in = |suffix: &str| {
            let start = name.len().checked_sub(suffix.len());
            start
                .and_then(|start| name.get(start..))
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
        };
        !name.contains(' ') && (ends_in("error") || ends_in("exception")) && !is_count
    })
}

#[cfg(test)]
mod tests {
    use super::looks_failed;

    #[test]
    fn failures_are_recognized() {
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
    fn results_that_mention_errors_are_no_failures() {
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
