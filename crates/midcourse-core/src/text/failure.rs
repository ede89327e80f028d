//! Guesses whether a tool call failed by reading its result, for hosts and file formats that do not
//! report it. The module `analysis` decides which of these functions to use for a call.
//!
//! Only the beginning and the end of a result count: a file that mentions an error, or a log with
//! error lines in its middle, is not a failure. A timeout counts as a failure.

use super::command_result::CommandResult;
use super::phrases::Phrases;

/// Of a long text, this many bytes at the beginning and `TAIL_BYTES` at the end are examined.
const HEAD_BYTES: usize = 400;
const TAIL_BYTES: usize = 400;

/// A result with more bytes than this counts as an error message only if its beginning says so.
const MAX_ERROR_MESSAGE_BYTES: usize = 600;

/// Flag of a phrase that means a failure.
const FAILED: u16 = 1;
/// Flag of a phrase with which a program or a shell says why it failed.
const REASON: u16 = 2;
/// Flag of a field in a JSON result that reports a failure.
const REPORTED: u16 = 4;

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
static FAILURE_PHRASES: Phrases<24> = Phrases::new([
    ("success\": false", FAILED | REPORTED),
    ("success\":false", FAILED | REPORTED),
    ("iserror\": true", FAILED | REPORTED),
    ("iserror\":true", FAILED | REPORTED),
    ("status\": \"error\"", FAILED | REPORTED),
    ("status\":\"error\"", FAILED | REPORTED),
    ("traceback (most recent call last)", FAILED),
    ("command not found", FAILED | REASON),
    ("no such file or directory", FAILED | REASON),
    ("permission denied", FAILED | REASON),
    ("syntaxerror:", FAILED),
    ("syntax error", FAILED | REASON),
    ("timed out", FAILED),
    ("timeouterror", FAILED),
    ("deadline exceeded", FAILED),
    ("is not recognized as", FAILED | REASON),
    ("segmentation fault", FAILED | REASON),
    ("core dumped", FAILED),
    ("errno", FAILED),
    ("unhandled exception", FAILED),
    ("connection refused", FAILED | REASON),
    ("execution failed", FAILED),
    ("was rejected", FAILED),
    ("invalid option", FAILED),
]);

/// Whether the text of a tool result reads like a failure. An exit code in it decides; otherwise
/// this is a guess from the first and the last 400 bytes. Use it if the host does not report
/// whether the call failed and nothing is known about the call. If its arguments are known,
/// [`call_failed`](crate::call_failed) is more precise.
pub fn looks_failed(text: &str) -> bool {
    match CommandResult::parse(text) {
        Some(result) => result.exit_code != 0,
        None => output_looks_failed(text),
    }
}

/// Whether the output of a command reads like a failure. For commands whose exit code is not known,
/// or may be that of another program, as in `make | tail`.
pub(crate) fn output_looks_failed(output: &str) -> bool {
    let text = output.trim();
    let (head, tail) = ends(text);
    begins_with_failure(head)
        || has_phrase(head, FAILED)
        || text.lines().next().is_some_and(is_reason_line)
        || (text.len() > HEAD_BYTES && has_phrase(tail, FAILED))
        || (text.len() <= HEAD_BYTES && text.lines().any(is_labelled_error))
        || tail.lines().last().is_some_and(is_exception_line)
}

/// Whether a line begins with a label such as `Error:`. Many programs print a banner before it.
fn is_labelled_error(line: &str) -> bool {
    let rest = ["error: ", "fatal: ", "fatal error: "].iter().find_map(|it| strip_phrase(line, it));
    rest.is_some_and(|rest| !NO_ERROR_VALUES.iter().any(|none| strip_phrase(rest, none).is_some()))
}

/// Whether a text is an error message as a whole, not a longer text that mentions an error: it
/// begins with a word such as `Error`, is a stack trace, or is short and says why a program failed.
pub(crate) fn is_error_message(text: &str) -> bool {
    let text = text.trim();
    let (head, _) = ends(text);
    begins_with_failure(head)
        || (head.starts_with('{') && has_phrase(head, REPORTED))
        || (text.len() <= MAX_ERROR_MESSAGE_BYTES
            && (text.lines().next().is_some_and(is_reason_line)
                || text.lines().last().is_some_and(is_exception_line)))
}

/// Whether a text is a line, or a few of them, with which a program says why it failed, as in
/// `cat: a.txt: No such file or directory`. A line of a file is unlikely to look like that.
pub(crate) fn is_error_line(text: &str) -> bool {
    let text = text.trim();
    // A program that prints several lines about one error begins each of them with its name.
    let label = text.split_inclusive(':').next().unwrap_or_default();
    let is_one_error = text.len() <= HEAD_BYTES && text.lines().all(|line| line.starts_with(label));
    is_one_error
        && begins_with_program(text)
        && (text.lines().any(is_reason_line) || begins_with_failure(text))
}

/// Whether an error says that there is no file with the name of a placeholder: `grep: {}: No such
/// file or directory`. The command was quoted so that nothing replaced it.
pub(crate) fn names_placeholder(error: &str) -> bool {
    let (head, _) = ends(error.trim());
    let names_one = |line: &str| {
        line.split([' ', ':', '\'', '"', '`']).any(|word| {
            let is_variable =
                |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '{');
            word == "{}"
                || word.strip_prefix('$').is_some_and(is_variable)
                || (word.len() > 2 && word.starts_with('<') && word.ends_with('>'))
        })
    };
    head.lines().any(|line| has_phrase(line, REASON) && names_one(line))
}

/// The beginning and the end of a text.
fn ends(text: &str) -> (&str, &str) {
    let head = text.get(..text.floor_char_boundary(HEAD_BYTES)).unwrap_or(text);
    let tail = text.len().saturating_sub(TAIL_BYTES);
    (head, text.get(text.ceil_char_boundary(tail)..).unwrap_or(text))
}

fn has_phrase(text: &str, meaning: u16) -> bool {
    FAILURE_PHRASES.find_in(text.as_bytes()).any(|(_, found)| found & meaning != 0)
}

/// Whether a program or a shell says in this line why it failed. The text `: not found`, which `sh`
/// writes, counts only at the end of the line.
fn is_reason_line(line: &str) -> bool {
    let line = line.trim_end();
    begins_with_program(line) && (has_phrase(line, REASON) || line.ends_with(": not found"))
}

/// Whether a line begins with the name of a program and a colon: `cat: …` or `/bin/sh: …`. Matches
/// of a search begin with a file and a line number instead.
fn begins_with_program(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    let Some(program) = word.strip_suffix(':') else { return false };
    let name = if program.starts_with('/') { program.rsplit('/').next() } else { Some(program) };
    name.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
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
pub(super) fn strip_phrase<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(phrase.len())?;
    first.eq_ignore_ascii_case(phrase).then_some(rest)
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
    use super::{is_error_line, is_error_message, looks_failed};

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

    #[test]
    fn an_error_message_is_the_whole_text() {
        for text in [
            "Traceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'x'",
            "bash: line 1: foo: command not found",
            "sh: 1: foo: not found",
            "ls: cannot access 'x': No such file or directory",
            "Error: reservation not found",
            "{\"success\": false}",
            "ModuleNotFoundError: No module named 'x'",
        ] {
            assert!(is_error_message(text), "{text}");
        }
        let log = format!("started\n{}Permission denied\n{0}", "all is well\n".repeat(60));
        for text in ["0 errors", "a.py\nerrno.h\nb.py", "12 passed, 0 failed", &log] {
            assert!(!is_error_message(text), "{text}");
        }
    }

    #[test]
    fn a_line_of_a_file_is_no_error_line() {
        for text in ["cat: a.txt: No such file or directory", "Error: ENOENT: open 'a.txt'"] {
            assert!(is_error_line(text), "{text}");
        }
        for text in [
            "src/a.py:3: No such file or directory",
            "3: command not found",
            "raise ValueError('permission denied')",
            "cat: a.txt: No such file or directory\nsecond line",
            "note: all is well",
        ] {
            assert!(!is_error_line(text), "{text}");
        }
    }
}
