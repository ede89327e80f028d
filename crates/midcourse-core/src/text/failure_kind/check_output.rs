//! Recognizes the output of a check: a test runner, compiler, linter or type checker. A failure
//! with such output has the kind `Check`, whatever other words the output contains.

use super::super::failure::strip_phrase;
use super::super::token::is_file_name;

/// How strongly a line indicates that a check wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evidence {
    None,
    /// Counts only if the command runs a check.
    Weak,
    Strong,
}

/// Beginnings of lines that only a check writes, in lowercase. Spaces before them are ignored.
const BEGINNINGS: &[&str] = &[
    "failed (failures=",
    "failed (errors=",
    "--- fail: ",
    "fail: test",
    "fail\t",
    "not ok ",
    "test result: failed",
    "error: test failed",
    "error: could not compile",
    "error: aborting due to",
    "error: command failed with exit code 1 (tests",
    "***test failed***",
    "result: fail",
    "the following tests failed",
    "there were failing tests",
    "> there were failing tests",
    "errors while running ctest",
    "failures:",
    "failed examples:",
    "test suites: ",
    "failed tests:",
    "expect(received)",
    "failure/error:",
    "offenses:",
    "[error] compilation error",
    "error: failed: ",
    "failed!  - failed:",
    "[error] failures:",
    "collect2: error:",
    "clang: error: linker command failed",
    "tests failed",
];

/// Beginnings of lines that checks write, but other programs, too. In lowercase.
const WEAK_BEGINNINGS: &[&str] = &["diff in ", "would reformat", "in "];

/// Words after a count in the summary of a check, as in `2 failed, 3 passed`.
const COUNTED: &[&str] = &[
    "failed",
    "failing",
    "tests failed",
    "test failed",
    "errors in ",
    "error in ",
    "error found",
    "errors found",
    "errors generated",
    "error generated",
    "problem",
    "snapshot failed",
    "snapshots failed",
    "error(s)",
];

/// Words with which compilers introduce a message, in several languages.
const SEVERITIES: &[&str] = &[
    "error",
    "syntax error",
    "fatal",
    "warning",
    "fehler",
    "erreur",
    "advertencia",
    "エラー",
    "错误",
    "note",
    "[error]",
    "e:",
    "c:",
    "w:",
    "f:",
];

pub(super) fn evidence(line: &str) -> Evidence {
    let line = line.trim_ascii();
    let Some(first) = line.as_bytes().first() else { return Evidence::None };
    let begins = |phrases: &[&str]| {
        phrases.iter().any(|phrase| {
            phrase.as_bytes().first() == Some(&first.to_ascii_lowercase())
                && strip_phrase(line, phrase).is_some()
        })
    };
    // A quick test: a line with a position in a file has a digit after a colon or a parenthesis.
    // Most lines have none.
    let has_number = |pair: &[u8]| matches!(pair, [b':' | b'(', digit] if digit.is_ascii_digit());
    let may_have_position = line.as_bytes().windows(2).any(has_number);
    let diagnostic = if may_have_position { diagnostic(line) } else { Evidence::None };
    if diagnostic == Evidence::Strong
        || is_rust_diagnostic(line)
        || begins(BEGINNINGS)
        || is_test_line(line)
        || is_summary(line)
    {
        Evidence::Strong
    } else if diagnostic == Evidence::Weak
        || (may_have_position && has_position(line))
        || begins(WEAK_BEGINNINGS)
    {
        Evidence::Weak
    } else {
        Evidence::None
    }
}

/// Whether a line begins like `error[E0425]: …` or `--> src/main.rs:1:49`.
fn is_rust_diagnostic(line: &str) -> bool {
    let code = line.strip_prefix("error[E");
    code.is_some_and(|code| code.starts_with(|c: char| c.is_ascii_digit()))
        || line.strip_prefix("--> ").is_some_and(has_position)
}

/// Whether a line names a test that failed: `FAILED tests/test_a.py::test_b`,
/// `FAIL  src/a.test.ts`.
fn is_test_line(line: &str) -> bool {
    if !line.starts_with(['F', 'E', 'A']) && !line.ends_with(['D', '*', ']']) {
        return false;
    }
    let Some((word, rest)) = line.split_once(' ') else { return false };
    let rest = rest.trim_start();
    let name = rest.split_ascii_whitespace().next().unwrap_or_default();
    match word {
        "FAILED" | "ERROR" => name.contains("::") || (word == "ERROR" && name.ends_with(".py")),
        "FAIL" => name.contains(".test.") || name.contains(".spec.") || name.contains("_test."),
        "AssertionError:" | "AssertionError" => true,
        _ => ["... FAILED", "--- FAILED", "*** FAILED ***", " [FAIL]"]
            .iter()
            .any(|end| line.ends_with(end)),
    }
}

/// Whether a line counts failures: `= 1 failed, 4 passed in 0.8s =`, `Tests:  1 failed`.
fn is_summary(line: &str) -> bool {
    if !line.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let mut rest = line.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    for label in ["Tests:", "Test Files", "Tests", "Found", "Executed", "Failed:"] {
        rest = rest.strip_prefix(label).map_or(rest, str::trim_start);
    }
    // A summary has one or two counts: `3 examples, 1 failure`, `67% tests passed, 1 tests failed`.
    rest.split(',').take(2).map(str::trim_ascii_start).any(|part| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, counted) = part.split_at_checked(digits).unwrap_or_default();
        let counted = counted.trim_start();
        let is_counted = COUNTED.iter().any(|word| strip_phrase(counted, word).is_some())
            || matches!(
                counted.trim_end_matches('.'),
                "error"
                    | "errors"
                    | "failure"
                    | "failures"
                    | "offense detected"
                    | "Fehler"
                    | "offenses detected"
                    | "erreur"
                    | "erreurs"
                    | "item had failures:"
                    | "items had failures:"
            )
            || (counted.starts_with("error") && line.starts_with("Found"));
        !number.is_empty() && number.bytes().any(|digit| digit != b'0') && is_counted
    })
}

/// Whether a line is a compiler's message: `a.c:3:9: …`, `a.ts(12,9): error …`, `a.py:3: error: …`.
/// A warning is weak evidence, because a build with warnings may fail for another reason.
fn diagnostic(line: &str) -> Evidence {
    // A tool may put its name or the name of a package first: `vet: a.go:3:9: …`.
    let space = memchr::memchr(b' ', line.as_bytes());
    let prefixed = space
        .and_then(|space| line.split_at_checked(space))
        .filter(|(prefix, _)| prefix.ends_with(':'));
    let message = message_at_position(line).or_else(|| {
        prefixed.and_then(|(_, message)| message_at_position(message.trim_ascii_start()))
    });
    let is_warning = |message: &str| {
        ["warning", "note", "remark", "info"]
            .iter()
            .any(|word| strip_phrase(message, word).is_some())
    };
    match message {
        None => Evidence::None,
        Some(message) if is_warning(message) => Evidence::Weak,
        Some(_) => Evidence::Strong,
    }
}

/// The message of a compiler, if the line begins with a position in a file.
fn message_at_position(line: &str) -> Option<&str> {
    let end = line.find([' ', '(']).unwrap_or(line.len());
    let (word, rest) = line.split_at_checked(end)?;
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if let Some((position, message)) = rest.strip_prefix('(').and_then(|r| r.split_once("):")) {
        let is_position = position.split(',').all(is_digits);
        let is_file = is_file_name(file_part(word).as_bytes());
        return (is_position && is_file).then(|| message.trim_start());
    }
    let mut parts = word.split(':');
    let name = parts.next().filter(|name| is_file_name(file_part(name).as_bytes()));
    name.filter(|_| parts.next().is_some_and(is_digits))?;
    let message = rest.trim_start().trim_start_matches("- ");
    // Without a column, only a word such as `error` shows that this is a compiler's message.
    let is_message = match parts.next()? {
        "" => SEVERITIES.iter().any(|severity| strip_phrase(message, severity).is_some()),
        column => is_digits(column),
    };
    is_message.then_some(message)
}

fn file_part(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Whether the first word is a position in a file, such as `Dockerfile:3`.
fn has_position(line: &str) -> bool {
    let word = line.split_ascii_whitespace().next().unwrap_or_default();
    let mut parts = word.split(':');
    parts.next().is_some_and(|name| !name.is_empty())
        && parts
            .next()
            .is_some_and(|line| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()))
}
