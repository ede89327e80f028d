//! Decides whether a finished tool call failed. This is the only place that does: the analysis, the
//! store and everything that counts or shows failures use it.
//!
//! The host's error flag counts first. Many hosts have none, or set it only if the tool itself could
//! not run, so the text of the result is read too. How much of a text counts depends on what the
//! call does: the output of a command may show a failure anywhere near its ends, while a file or the
//! matches of a search may contain any words. The user's tool settings do not matter here, so that
//! the result is the same wherever it is computed.

use std::borrow::Cow;

use serde_json::Value;

use super::call::Act;
use super::call_flags::CallFlags;
use super::open_call::{is_bare_exit, read_or_search};
use super::tools::{NameTraits, ToolSettings};
use crate::digest::Digest;
use crate::record::ToolResult;
use crate::text::{
    ArgsView, CommandResult, CommandView, Form, is_error_line, is_error_message,
    output_looks_failed,
};

/// If the host reports success, a text that begins with `Error:` still counts as a failure, unless
/// it is longer than this.
const MAX_PLAIN_ERROR_BYTES: usize = 300;

/// Whether a finished tool call failed. It did if the host's error flag says so, unless the call is
/// a search that found nothing. If the flag says otherwise or is missing, the text of the result
/// may still show a failure, such as an exit code other than 0.
///
/// `args` returns the arguments of the call, or `Value::Null` if they are not known. It is called
/// only if the decision depends on them.
pub fn call_failed(
    tool: &str,
    args: impl FnOnce() -> Value,
    result: &ToolResult,
    is_error: bool,
) -> bool {
    let text = result.comparable_text();
    let flag = error_flag(result, is_error);
    if flag == Some(true) && !is_bare_exit(&text) {
        // The host may report a failure wrongly in one case only: a search or a comparison whose
        // exit code 1 is an answer. With another exit code, the arguments are irrelevant.
        return CommandResult::parse(&text).is_none_or(|result| result.exit_code != 1)
            || CallEnd::of(flags(tool, &args()), &text, flag).failed;
    }
    let may_have_failed = flag == Some(true)
        || CommandResult::parse(&text)
            .is_some_and(|result| result.exit_code != 0 || output_looks_failed(&result.output))
        || output_looks_failed(&text)
        || is_error_message(&text)
        || is_error_line(&text);
    may_have_failed && CallEnd::of(flags(tool, &args()), &text, flag).failed
}

/// The host's error flag; `None` if the host did not set one.
pub(super) const fn error_flag(result: &ToolResult, is_error: bool) -> Option<bool> {
    if is_error || result.is_error {
        Some(true)
    } else if result.is_error_unknown {
        None
    } else {
        Some(false)
    }
}

/// How a call ended, judged by the host's error flag and the text of its result.
pub(super) struct CallEnd<'a> {
    pub(super) failed: bool,
    /// The result without the exit code and other parts that the agent program adds to a command's
    /// output. For a command that failed and printed nothing, a text with its exit code.
    pub(super) output: Cow<'a, str>,
    /// Whether a search command exited with 1 and printed nothing, which means that it found
    /// nothing.
    pub(super) found_no_match: bool,
    /// The exit code, if the agent program added one to the result.
    pub(super) exit_code: Option<i64>,
}

impl<'a> CallEnd<'a> {
    /// `flags` must include the flags that [`add_result_flags`] sets for the call. `flag` is the
    /// host's error flag, if it set one.
    pub(super) fn of(flags: CallFlags, text: &'a str, flag: Option<bool>) -> Self {
        let is_command = flags.any(CallFlags::SHELL);
        // A search such as `grep` exits with 1 if it finds nothing, which is not a failure.
        let is_search_command = is_command
            && (flags.any(CallFlags::ANSWERS)
                || (flags.any(CallFlags::SEARCHES) && !flags.any(CallFlags::HIDES_FAILURE)));
        // Cline puts these lines before the output of every command, whether it failed or not.
        let (text, flag) = match text.strip_prefix("Command executed.\nOutput:\n") {
            Some(output) if is_command => (output, flag.filter(|failed| *failed)),
            _ => (text, flag),
        };
        let shows_content = flags.any(CallFlags::SHOWS_CONTENT);
        // A tool with another name may run a command too, and then reports its exit code in a form
        // that only agents write.
        let is_read = |result: &CommandResult<'_>| {
            is_command || (result.form == Form::Envelope && !shows_content)
        };
        let Some(result) = CommandResult::parse(text).filter(is_read) else {
            let found_no_match = is_search_command && is_bare_exit(text);
            // A command such as `make | tail` exits with 0 even if `make` failed, so its output is
            // searched for signs of a failure. Without a flag, this is done for every command that
            // may do more than read.
            let may_hide_failure = flags.any(CallFlags::HIDES_FAILURE)
                || (flag.is_none() && is_command && !flags.any(CallFlags::ONLY_READS));
            let looks_failed = match shows_content {
                true => is_error_line(text) && (flag.is_none() || is_plain_error(text)),
                // A command such as `kubectl logs | tail` prints content, which may mention errors.
                false if flags.any(CallFlags::ONLY_READS) && may_hide_failure => {
                    is_error_line(text)
                }
                false if may_hide_failure => output_looks_failed(text),
                // Many tools report a failure only in their text. The host's flag then says only
                // that the tool could be called.
                false => is_error_message(text) && (flag.is_none() || is_plain_error(text)),
            };
            let failed = (flag == Some(true) || looks_failed) && !found_no_match;
            return Self { failed, output: Cow::Borrowed(text), found_no_match, exit_code: None };
        };
        let is_silent = result.is_silent();
        let found_no_match = is_search_command && is_silent && matches!(result.exit_code, 0 | 1);
        // Whether the exit code was added by the agent program. If the command shows a file or a
        // log, a line that looks like an exit code may be part of that content. It is not if there
        // is no other output, or if the other output is an error message.
        let is_agents = match result.form {
            Form::Envelope => true,
            Form::FirstLine => !shows_content,
            Form::LastLine => !shows_content && !flags.any(CallFlags::ONLY_READS),
        } || is_silent
            || (result.exit_code != 0 && is_error_message(&result.output));
        let says_failed = is_agents && result.exit_code != 0;
        let hides_failure = flags.any(CallFlags::HIDES_FAILURE)
            && !shows_content
            && output_looks_failed(&result.output);
        // `diff` exits with 1 if it prints differences; an error would be 2.
        let is_difference = flags.any(CallFlags::COMPARES) && result.exit_code == 1;
        let failed = (flag == Some(true) || says_failed || hides_failure)
            && !found_no_match
            && !is_difference;
        let exit_code = is_agents.then_some(result.exit_code);
        let output = if !is_agents {
            Cow::Borrowed(text)
        } else if is_silent && result.exit_code != 0 && !found_no_match {
            Cow::Owned(format!("exit code {}", result.exit_code))
        } else {
            result.output
        };
        Self { failed, output, found_no_match, exit_code }
    }
}

/// Whether a text is a short error message of a tool: a line that begins with `Error:`.
fn is_plain_error(text: &str) -> bool {
    let text = text.trim();
    let begins = text.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("error:"));
    begins && text.len() <= MAX_PLAIN_ERROR_BYTES && !text.contains('\n')
}

/// The flags on which the decision depends, for a call whose arguments are known.
fn flags(tool: &str, args: &Value) -> CallFlags {
    let name_traits = NameTraits::of(tool);
    let view = ArgsView::of(args, name_traits.has(NameTraits::SHELL));
    let command = view.shell_command().map(CommandView::of);
    let mut flags = CallFlags::default();
    add_result_flags(&mut flags, tool, name_traits, &view, command.as_ref());
    flags
}

/// Sets the flags that say how the result of a call has to be read. They do not depend on the
/// user's settings.
pub(super) fn add_result_flags(
    flags: &mut CallFlags,
    tool: &str,
    name_traits: NameTraits,
    view: &ArgsView<'_>,
    command: Option<&CommandView<'_>>,
) {
    flags.set(CallFlags::SHELL, command.is_some());
    flags.set(CallFlags::ONLY_READS, command.is_some_and(|c| c.only_reads));
    flags.set(CallFlags::HIDES_FAILURE, command.is_some_and(|c| c.hides_failure));
    flags.set(CallFlags::RUNS_CHECK, command.is_some_and(|c| c.runs_check));
    flags.set(CallFlags::LIMITS_TIME, command.is_some_and(|c| c.limits_time));
    flags.set(CallFlags::ANSWERS, command.is_some_and(|c| c.answers));
    flags.set(CallFlags::COMPARES, command.is_some_and(|c| c.compares));
    let reverts =
        command.is_some_and(|c| c.reverts) || view.command.as_deref() == Some("undo_edit");
    let writes = ToolSettings::default().writes(tool, name_traits, view, command);
    if !reverts && !writes {
        let act = read_or_search(name_traits, view, command, Digest::default());
        flags.set(CallFlags::SHOWS_CONTENT, matches!(act, Some(Act::Read(..) | Act::Search(_))));
        flags.set(CallFlags::SEARCHES, matches!(act, Some(Act::Search(_))));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{OpenCall, Scratch, ToolInvoked, TrajectoryAnalysisConfig};
    use super::call_failed;
    use crate::record::ToolResult;
    use crate::time::Timestamp;

    const TRACEBACK: &str = "Traceback (most recent call last):\n  File \"run.py\", line 3, in \
                             <module>\n    main()\nKeyError: 'region'";

    fn ended(tool: &str, args: &Value, text: &str) -> ToolInvoked {
        let (config, mut scratch) = (TrajectoryAnalysisConfig::default(), Scratch::default());
        let at = Timestamp::default();
        let open = OpenCall::new(&"c".into(), tool, args, at, &config, &mut scratch);
        open.end(text, None, 0, at, &mut super::super::preamble::Preamble::default(), &mut scratch)
    }

    /// Whether a call without an error flag failed, for the store and for the analysis.
    #[track_caller]
    fn failed(tool: &str, args: &Value, text: &str) -> bool {
        let failed = call_failed(tool, || args.clone(), &ToolResult::unflagged(text), false);
        assert_eq!(ended(tool, args, text).is_error(), failed, "{text}");
        failed
    }

    #[track_caller]
    fn command_failed(command: &str, text: &str) -> bool {
        failed("bash", &json!({ "command": command }), text)
    }

    #[test]
    fn a_form_that_only_agents_write_counts_for_every_tool() {
        let check = "I ran this command:\n\nmake\n\nAnd got this output:\n\n3 tests, 1 bad\n";
        let failed = |tool: &str, args: Value, text: &str| {
            call_failed(tool, || args.clone(), &ToolResult::unflagged(text), false)
        };
        assert!(failed("text:block", json!({"code": "x = 1"}), check));
        assert!(failed("mcp__box__exec", json!({"id": 7}), "<returncode>2</returncode>\nx"));
        assert!(!failed("mcp__box__exec", json!({"id": 7}), "<returncode>0</returncode>\nx"));
        assert!(!failed("read_file", json!({"path": "aider.log"}), check), "content of a file");
    }

    #[test]
    fn without_a_flag_the_text_of_a_command_decides() {
        for text in [
            TRACEBACK,
            "loading\nTraceback (most recent call last):\n  x\nKeyError: 'a'",
            "bash: line 1: frobnicate: command not found",
            "sh: 1: frobnicate: not found",
            "python: can't open file 'x.py': [Errno 2] No such file or directory",
            "Exit code 1\nFAILED tests/test_a.py",
            "1 failed\nExit code 1",
            r#"{"output":"1 failed","metadata":{"exit_code":1,"duration_seconds":0.4}}"#,
            r#"{"exitCode":1,"stdout":"","stderr":""}"#,
            "<returncode>1</returncode>\n<output>\n1 failed\n</output>",
            "1 failed\n<exited with exit code 1>",
            "Command failed with exit code 1\n1 failed",
            "Process exited with code 1\n1 failed",
            "1 failed\n(exit code: 1)",
            "Error: Command exited with 1\n1 failed",
            "1 failed\n[The command completed with exit code 1.]",
            "Output: 1 failed\nError: (none)\nExit Code: 1\nSignal: (none)",
            "Chunk ID: 1a\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n1 failed",
            "<shellId: 4 completed with exit code 1>\n1 failed",
        ] {
            assert!(command_failed("./run.sh", text), "{text}");
        }
        for text in [
            "",
            "ok",
            "12 passed, 0 failed",
            "0 errors, 2 warnings",
            "Exit code 0\nall done",
            "all done\nExit code: 0",
            "<returncode>0</returncode>\n<output>\ncommand not found is handled\n</output>",
            "step 1\nexit code 1 was ignored\nall done",
            r#"{"output":"x","metadata":{"exit_code":0}}"#,
            "done\n<shellId: 4 completed with exit code 0>",
        ] {
            assert!(!command_failed("./run.sh", text), "{text}");
        }
    }

    #[test]
    fn content_that_mentions_a_failure_is_no_failure() {
        let log = "10:01 start\n10:02 worker: command not found\nProcess exited with code 1";
        for command in ["cat build.log", "tail -n 3 build.log", "grep -n exit build.log"] {
            assert!(!command_failed(command, log), "{command}");
            assert!(!command_failed(command, TRACEBACK), "{command}");
            assert!(!command_failed(command, "Exit code 1\nmeans a failure"), "{command}");
            assert!(!command_failed(command, r#"{"exit_code":1,"stdout":"x"}"#), "{command}");
        }
        assert!(!command_failed("git log --oneline", "1a2b3c fix: command not found\n4d5e6f x"));
        let logs = "ERROR Executor: self-exiting due to: OutOfMemory in task 117.0";
        assert!(!command_failed("kubectl logs worker-1 | tail -2", logs));
        assert!(!failed("read_file", &json!({"path": "build.log"}), log));
        assert!(!failed("read_file", &json!({"path": "a.txt"}), TRACEBACK));
        assert!(!failed("search", &json!({"query": "errors"}), "a.rs:3: Error: no such file"));
    }

    #[test]
    fn reading_or_searching_can_fail_too() {
        assert!(command_failed("cat a.txt", "cat: a.txt: No such file or directory"));
        assert!(command_failed("cat a", "cat: a: No such file or directory\nExit code 1"));
        assert!(command_failed(
            "cat a",
            "<returncode>1</returncode>\n<output>\ncat: a: No such file or directory\n</output>"
        ));
        assert!(command_failed("ls x", "ls: cannot access 'x': No such file or directory"));
        assert!(failed(
            "read_file",
            &json!({"path": "a"}),
            "Error: ENOENT: no such file, open 'a'"
        ));
    }

    #[test]
    fn a_search_that_finds_nothing_has_not_failed() {
        for text in [
            "",
            "Exit code 1",
            "<returncode>1</returncode>\n<output>\n</output>",
            "<shellId: 2 completed with exit code 1>",
            r#"{"output":"","metadata":{"exit_code":1}}"#,
        ] {
            assert!(!command_failed("grep -rn needle src", text), "{text}");
            let flagged = ToolResult::error(text);
            assert!(!call_failed(
                "bash",
                || json!({"command": "grep -rn needle src"}),
                &flagged,
                true
            ));
        }
        assert!(command_failed(
            "grep -rn needle src",
            "<returncode>2</returncode>\n<output>\ngrep: src: No such file or directory\n</output>"
        ));
    }

    #[test]
    fn other_tools_fail_with_an_error_message() {
        assert!(failed("run_python", &json!({"code": "main()"}), TRACEBACK));
        assert!(failed("book_flight", &json!({"id": 7}), "Error: flight not found"));
        assert!(!failed("book_flight", &json!({"id": 7}), "Booked. Errors are refunded."));
        assert!(!failed("run_job", &json!({"id": 7}), "job 7: exit code 1"));
    }

    #[test]
    fn a_flag_decides_unless_the_result_has_an_exit_code() {
        let args = || json!({"command": "./run.sh"});
        assert!(call_failed("bash", args, &ToolResult::error("fine"), true));
        assert!(!call_failed("bash", args, &ToolResult::text(TRACEBACK), false));
        assert!(call_failed("bash", args, &ToolResult::text("Exit code 3\nx"), false));
        let hides = || json!({"command": "./run.sh | tail -3"});
        assert!(call_failed("bash", hides, &ToolResult::text(TRACEBACK), false));
    }

    #[test]
    fn numbers_that_an_agent_adds_do_not_change_the_error() {
        let errors = [
            "Exit code 2\nerror: no rule",
            "error: no rule\nExit code 2",
            "<shellId: 3 completed with exit code 2>\nerror: no rule",
            "error: no rule\n<shellId: 17 completed with exit code 2>",
            "Chunk ID: 1a2b\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nerror: \
             no rule",
            "Output: error: no rule\nError: (none)\nExit Code: 2\nProcess Group PGID: 4711",
            r#"{"output":"error: no rule","metadata":{"exit_code":2,"duration_seconds":1.5}}"#,
        ]
        .map(|text| ended("bash", &json!({"command": "make"}), text).status().error());
        for error in errors {
            assert!(error.is_some_and(|error| errors[0].is_some_and(|one| one.is_same_as(&error))));
        }
    }
}
