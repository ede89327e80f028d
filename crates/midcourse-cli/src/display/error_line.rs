//! Finds the line of a failed call's result that says most about the failure. Compilers and test
//! runners name the first error and then repeat at the end that there was one.

use super::one_line;

/// Words that lines with an error have.
const ERROR_WORDS: [&str; 17] = [
    "error",
    "failed",
    "failure",
    "fatal",
    "panic",
    "exception",
    "denied",
    "cannot",
    "can't",
    "could not",
    "not found",
    "no such",
    "refused",
    "undefined",
    "overflowed",
    "timed out",
    "assert",
];

/// Words of lines which only say that something failed, or how much.
const SUMMARY_WORDS: [&str; 30] = [
    "build stopped",
    "exit status",
    "exit code",
    "exited with",
    "could not compile",
    "aborting due to",
    "test result:",
    "to rerun pass",
    "test files",
    "... failed",
    "tests failed",
    "test failed",
    "failing tests",
    "failed tests",
    "failures:",
    " passed",
    "subcommand failed",
    "command failed",
    "build failed",
    "compilation failed",
    "errors generated",
    "error generated",
    "found 0 errors",
    "0 errors",
    "run with --info",
    "rust_backtrace",
    "lifecycle script",
    "a complete log of this run",
    "warning",
    "make: ***",
];

/// How much of a result is searched: its last bytes.
const SEARCHED_BYTES: usize = 16 * 1024;

/// How long the returned line may be, in columns.
const MAX_COLUMNS: usize = 160;

/// The first line with a word for an error that is not a summary. If there are only summaries, the line
/// before the first of them, and without any, the last line.
pub(crate) fn error_line(text: &str) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(SEARCHED_BYTES));
    let lines = text.get(start..).unwrap_or_default().lines();
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    let (mut before, mut summarised) = (None, None);
    for line in lines {
        let lower = line.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if has(&ERROR_WORDS) {
            if !has(&SUMMARY_WORDS) {
                return one_line(line, MAX_COLUMNS);
            }
            summarised = summarised.or(Some(before.unwrap_or(line)));
        }
        before = Some(line);
    }
    one_line(summarised.or(before).unwrap_or_default(), MAX_COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::error_line;

    #[test]
    fn the_first_error_counts_and_not_the_summary() {
        for (output, expected) in [
            (
                "[12/40] linking\n/opt/bin/ld: region `iram0_0_seg' overflowed by 18324 bytes\n\
                 collect2: error: ld returned 1 exit status\nninja: build stopped: subcommand failed.",
                "/opt/bin/ld: region `iram0_0_seg' overflowed by 18324 bytes",
            ),
            (
                "Exit code 101\nwarning: unused variable: `error`\nerror[E0308]: mismatched types\n \
                 --> src/main.rs:3:5\nerror: could not compile `a` (bin \"a\") due to 1 previous error",
                "error[E0308]: mismatched types",
            ),
            (
                " FAIL  src/dates.test.ts > rolls over\nAssertionError: expected '2023-03-31' to be \
                 '2023-04-01'\n Test Files  1 failed (1)\n      Tests  1 failed | 30 passed (31)",
                "AssertionError: expected '2023-03-31' to be '2023-04-01'",
            ),
            (
                "running 15 tests\ntest a ... ok\nthread 'b' panicked at src/lib.rs:9:5:\nassertion \
                 `left == right` failed\n  left: 437.10\nfailures:\n    b\n\ntest result: FAILED. 14 \
                 passed; 1 failed",
                "thread 'b' panicked at src/lib.rs:9:5:",
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n\
                 ModuleNotFoundError: No module named 'yaml'",
                "ModuleNotFoundError: No module named 'yaml'",
            ),
            ("Starting…\nSomething odd\nmake: *** [Makefile:2: all] Error 1", "Something odd"),
            ("make: *** [Makefile:2: all] Error 1", "make: *** [Makefile:2: all] Error 1"),
            ("one\n\n  two  \n", "two"),
            ("", ""),
        ] {
            assert_eq!(error_line(output), expected, "{output}");
        }
    }

    #[test]
    fn a_long_line_is_cut() {
        let line = error_line(&format!("fatal: {}", "x".repeat(10_000)));
        assert_eq!(line.chars().count(), 160);
    }
}
