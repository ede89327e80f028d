//! Whether a result reads like a failure, where the host does not say.
//!
//! Used only for runs whose format leaves it open. Prose about errors (a file that mentions one, a
//! log with a line of them in its middle) is no failure: what counts is how the text begins and how
//! it ends. Time-outs are failures.

/// Looked at of a long text: its beginning and its end.
const HEAD_BYTES: usize = 400;
const TAIL_BYTES: usize = 400;

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
const TELLING: [&str; 24] = [
    "\"success\": false",
    "\"success\":false",
    "\"iserror\": true",
    "\"iserror\":true",
    "\"status\": \"error\"",
    "\"status\":\"error\"",
    "traceback (most recent call last)",
    "command not found",
    "no such file or directory",
    "permission denied",
    "syntaxerror:",
    "syntax error",
    "timed out",
    "timeouterror",
    "deadline exceeded",
    "is not recognized as",
    "segmentation fault",
    "core dumped",
    "[errno",
    "unhandled exception",
    "connection refused",
    "execution failed",
    "was rejected",
    "invalid option",
];

/// Whether a shell's result says itself that the command failed: a first line `Exit code: 3`, or an
/// `"exit_code": 3` beside the output.
pub(crate) fn says_failing_exit(text: &str) -> bool {
    let text = text.trim_start();
    let line = text.lines().next().unwrap_or_default();
    let line = line.get(..line.floor_char_boundary(48)).unwrap_or(line).to_ascii_lowercase();
    let is_header = ["exit", "process exited", "command exited", "[exit"]
        .iter()
        .any(|start| line.starts_with(start));
    if is_header {
        return exits_with_failure(&line);
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
    let head =
        text.get(..text.floor_char_boundary(HEAD_BYTES)).unwrap_or(text).to_ascii_lowercase();
    let tail = text.len().saturating_sub(TAIL_BYTES);
    let tail = text.get(text.ceil_char_boundary(tail)..).unwrap_or(text).to_ascii_lowercase();
    if says_success(&head) {
        return false;
    }
    begins_with_failure(&head)
        || TELLING.iter().any(|words| head.contains(words) || tail.contains(words))
        || exits_with_failure(&head)
        || exits_with_failure(&tail)
        || tail.lines().last().is_some_and(ends_in_error)
}

fn begins_with_failure(head: &str) -> bool {
    let first = head.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    BEGINS.iter().any(|words| {
        first.strip_prefix(words).is_some_and(|rest| {
            // "errors: 0", "error": null and "invalidate" are something else.
            let value = rest.trim_start_matches([':', ' ', '=', '"', '\'']);
            !rest.starts_with(|c: char| c.is_ascii_alphanumeric())
                && !NO_ERROR.iter().any(|none| value.starts_with(none))
        })
    })
}

/// A wrapper that says outright that all went well.
fn says_success(head: &str) -> bool {
    head.starts_with("exitcode: 0") || head.starts_with("exit code: 0")
}

/// `exit code 3`, `exited with 1`, `exit status: 2`.
fn exits_with_failure(text: &str) -> bool {
    text.match_indices("exit").any(|(at, _)| {
        let rest = text.get(at..).unwrap_or_default();
        let rest = rest.strip_prefix("exited").or_else(|| rest.strip_prefix("exit")).unwrap_or("");
        let mut rest = rest.trim_start_matches([' ', '_']);
        for word in ["with", "code", "status"] {
            rest = rest.strip_prefix(word).unwrap_or(rest).trim_start_matches([' ', ':', '=', '"']);
        }
        let digits = rest.trim_start_matches('-');
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits.get(..end).is_some_and(|code| code.bytes().any(|byte| byte != b'0'))
    })
}

/// `ValueError: …` as the last line of a trace.
fn ends_in_error(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(name, what)| {
        let is_count = what.trim().bytes().all(|byte| byte.is_ascii_digit());
        let is_error = name.ends_with("error") || name.ends_with("exception");
        !name.contains(' ') && is_error && !is_count
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
