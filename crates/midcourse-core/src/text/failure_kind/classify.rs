//! Determines the kind of a failure from the result and the exit code of the call. In the result,
//! only lines that report a failure count. If they name no kind, or kinds that contradict each
//! other, the kind is [`FailureKind::Other`].

use std::borrow::Cow;

use super::FailureKind;
use super::check_output::{Evidence, evidence};
use super::json::kind_of_json;
use super::line::{Form, TellingLine};

/// Of a long result, this many bytes at the beginning and `TAIL_BYTES` at the end are examined.
const HEAD_BYTES: usize = 1024;
const TAIL_BYTES: usize = 1536;

/// The exit code of the program `timeout` if the time limit was reached.
const TIMED_OUT_EXIT_CODE: i64 = 124;
/// The exit code of a shell that does not find a program.
const NO_PROGRAM_EXIT_CODE: i64 = 127;

/// What kind of call failed. The result of each kind is read differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ResultOf {
    /// A command or a tool that is not one of the following.
    #[default]
    Other,
    /// A command that runs tests, a compiler or another check. Exceptions in its output may come
    /// from the code that is checked.
    Check,
    /// A read or a search. Its output is content, such as lines of files, in which words such as
    /// "error" mean nothing. Only lines in which the program itself reports a failure count.
    Content,
}

/// What is needed, besides the text of the result, to determine the kind of a failure.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FailedCall {
    pub(crate) result_of: ResultOf,
    /// The exit code, if the result has one.
    pub(crate) exit_code: Option<i64>,
    /// Whether the command limits its own time with the program `timeout`.
    pub(crate) limits_time: bool,
}

/// The kind of the failure that `text`, the result of a failed call, reports.
pub(crate) fn failure_kind(text: &str, call: FailedCall) -> FailureKind {
    if call.exit_code == Some(TIMED_OUT_EXIT_CODE) && call.limits_time {
        return FailureKind::Timeout;
    }
    let text = text.trim();
    let (head, tail) = ends(text);
    // If a failed read or search printed only one or two lines, they are an error, not content.
    let is_content = call.result_of == ResultOf::Content && text.lines().nth(2).is_some();
    if text.starts_with(['{', '['])
        && !is_content
        && let Some(kind) = kind_of_json(head)
    {
        return kind;
    }
    let is_alone = !is_content && !text.contains('\n');
    let (mut report, mut exception, mut is_weak_check) = (None, None, false);
    for line in head.lines().chain(tail.lines()) {
        let line = without_colours(line);
        let line = after_build_step(&line);
        if !is_content {
            match evidence(line) {
                Evidence::Strong => return FailureKind::Check,
                Evidence::Weak => is_weak_check = true,
                Evidence::None => {}
            }
        }
        let Some(TellingLine { form, kind: Some(kind) }) = TellingLine::of(line, is_alone) else {
            continue;
        };
        match (call.result_of, form) {
            _ if is_content && form != Form::Program => {}
            (ResultOf::Check, Form::Exception)
                if !matches!(kind, FailureKind::MissingPackage | FailureKind::Check) => {}
            // The last exception of a stack trace is the one that ended the program.
            (_, Form::Exception) => exception = Some(kind),
            _ => report = Some(report.map_or(kind, |first| combined(first, kind))),
        }
    }
    if call.exit_code == Some(NO_PROGRAM_EXIT_CODE) {
        return FailureKind::MissingProgram;
    }
    let is_check = is_weak_check && call.result_of == ResultOf::Check;
    let check = is_check.then_some(FailureKind::Check);
    let reported = match (report, exception) {
        (Some(report), Some(exception)) => Some(combined(report, exception)),
        (report, exception) => report.or(exception),
    };
    reported.or(check).unwrap_or(FailureKind::Other)
}

/// Combines two kinds that the result names for one failure into one kind.
fn combined(first: FailureKind, second: FailureKind) -> FailureKind {
    use FailureKind::{
        MissingPackage, MissingProgram, NotFound, Other, Outage, Permission, Resource,
    };
    match (first, second) {
        _ if first == second => first,
        // An outage, a refusal or a full disk causes further failures, so the second kind is
        // ignored.
        (Outage | Permission | Resource, _) => first,
        // Something was not found because a package or program is missing: the latter says more.
        (MissingPackage | MissingProgram, NotFound) => first,
        (NotFound, MissingPackage | MissingProgram) => second,
        _ => Other,
    }
}

/// The beginning and the end of a long text; for a short text, the whole text and an empty string.
fn ends(text: &str) -> (&str, &str) {
    if text.len() <= HEAD_BYTES + TAIL_BYTES {
        return (text, "");
    }
    let head = text.get(..text.floor_char_boundary(HEAD_BYTES)).unwrap_or(text);
    let tail = text.get(text.ceil_char_boundary(text.len() - TAIL_BYTES)..).unwrap_or_default();
    // The first line of the tail is probably incomplete, so it is dropped.
    (head, tail.split_once('\n').map_or(tail, |(_, lines)| lines))
}

/// A line without the escape codes that colour it in a terminal.
fn without_colours(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut pieces = line.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece.strip_prefix('[').unwrap_or(piece);
        let end = code.find(|c: char| c.is_ascii_alphabetic()).map_or(0, |end| end + 1);
        plain.push_str(code.get(end..).unwrap_or_default());
    }
    Cow::Owned(plain)
}

/// A line without the step number and time, such as `#11 2.114`, that Docker puts at the start of
/// each line of a build.
fn after_build_step(line: &str) -> &str {
    let Some((step, rest)) = line.strip_prefix('#').and_then(|rest| rest.split_once(' ')) else {
        return line;
    };
    let (clock, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_number = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    if is_number(step) && is_number(clock) { text } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureKind::{
        BadArguments, Check, Conflict, EditMismatch, MissingPackage, MissingProgram, NotFound,
        Other, Outage, Permission, Resource, Syntax, Timeout, UnknownName, UnknownTool,
    };
    use proptest::prelude::*;

    fn kind(text: &str) -> FailureKind {
        failure_kind(text, FailedCall::default())
    }

    #[test]
    fn the_line_that_reports_the_failure_names_the_kind() {
        for (text, expected) in [
            ("bash: rm: Permission denied", Permission),
            ("cat: x: No such file or directory", NotFound),
            ("bash: line 1: frobnicate: command not found", MissingProgram),
            ("sh: 1: vite: not found", MissingProgram),
            ("ModuleNotFoundError: No module named 'x'", MissingPackage),
            ("Error: No such tool available: frobnicate", UnknownTool),
            ("psycopg2.errors.UndefinedColumn: column \"a\" does not exist", UnknownName),
            ("error: unrecognized arguments: --fast", UnknownName),
            ("InputValidationError: required parameter `path` is missing", BadArguments),
            ("Command timed out after 2m 0s", Timeout),
            ("connect ECONNREFUSED: connection refused", Outage),
            ("HTTP 503 Service Unavailable", Outage),
            ("HTTP status 503: service unavailable", Outage),
            ("upstream server: connection reset", Outage),
            ("npm ERR! code E404", NotFound),
            ("{\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}", Outage),
            ("{\"ok\":false,\"error\":\"channel_not_found\"}", NotFound),
            ("error[E0425]: cannot find value `x` in this scope", Check),
            ("FAILED tests/test_a.py::t - AssertionError", Check),
            ("Makefile:3: *** missing separator.  Stop.", Syntax),
            ("error: patch failed: a.txt:1\nerror: a.txt: patch does not apply", EditMismatch),
            ("fatal: destination path 'app' already exists and is not empty.", Conflict),
            ("! [rejected] main -> main\nerror: failed to push some refs", Conflict),
            ("touch: cannot touch 'x': No space left on device", Resource),
            ("\u{1b}[31mENOSPC\u{1b}[0m: no space left on device, write", Resource),
            ("boom", Other),
            ("Found 3 files", Other),
            ("the service is slow; a timeout may occur\nsee the log", Other),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn a_check_is_a_check_whatever_words_its_output_contains() {
        for text in [
            // Words in the first four outputs look like a syntax error, a timeout, a refusal and an
            // outage.
            "FAIL: test_parse (t.TestParse)\nTraceback (most recent call last):\n  File \"t.py\", line \
             4, in test_parse\n    self.assertEqual(parse('a'), 1)\nAssertionError: 2 != 1\n\nFAILED \
             (failures=1)",
            "____ test_client ____\n    c = Client(timeout=5)\n>   assert c.ok\nE   assert \
             False\n\ntest_client.py:3: AssertionError\n= 1 failed in 0.1s =",
            " FAIL  src/pages.test.tsx\n  ● pages › shows Access denied\n\nTests:  1 failed, 2 passed",
            " ❯ test/proxy.test.ts > answers 503 upstream unavailable\n\n Tests  1 failed | 8 passed",
            "a.c:3:9: error: 'Permission denied' undeclared",
            "src/a.ts(12,9): error TS2551: Property 'timeout' does not exist on type 'Job'.",
        ] {
            assert_eq!(kind(text), Check, "{text}");
        }
        assert_eq!(kind("403 passed, 1 failed"), Check);
        assert_eq!(kind("403 passed, 0 failed"), Other);
    }

    #[test]
    fn quoted_text_notes_logs_and_content_name_no_kind() {
        for text in [
            "error: cannot rename 'Permission denied' to `No such file or directory`",
            "hint: Permission denied\nerror: it failed",
            "2026-06-03T10:00:02 ERROR permission denied for user 7\ninactive",
            "--- a\n+++ b\n-error: none\n+error: connection refused",
            "    raise PermissionError('Permission denied')\nKeyError: 'x'",
            "reindexed timeout\nreindexed permission denied",
        ] {
            assert_eq!(kind(text), Other, "{text}");
        }
        let search = FailedCall { result_of: ResultOf::Content, ..FailedCall::default() };
        let text = "a.py:1:raise X\nPermission denied\ngrep: lib: No such file or directory";
        assert_eq!(failure_kind(text, search), NotFound);
    }

    #[test]
    fn the_exit_code_names_the_kind_of_a_silent_command() {
        let call = FailedCall { exit_code: Some(124), limits_time: true, ..FailedCall::default() };
        assert_eq!(failure_kind("exit code 124", call), Timeout);
        assert_eq!(failure_kind("exit code 124", FailedCall { limits_time: false, ..call }), Other);
        let call = FailedCall { exit_code: Some(127), ..FailedCall::default() };
        assert_eq!(failure_kind("env: 'x': No such file or directory", call), MissingProgram);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).{0,300}") {
            kind(&text);
        }

        #[test]
        fn no_mixture_of_known_texts_panics(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "error", ": ", "'", "\"", "`", "»", "不", " not found", "(", "[", "{\"code\":", "\n",
                    "HTTP ", "404", "npm ERR! ", "a.c:3:", " failed", "=", ", ", "1", "+ CategoryInfo",
                    "** (", "➤ YN0035: ", "\u{1b}[", "#1 2.0 ", "Error", "E0425", "file(1,2):",
                ]),
                0..30,
            ),
        ) {
            kind(&pieces.concat());
        }
    }
}
