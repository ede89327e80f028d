//! Tests of reading the results of commands, in the forms of many agents.

use super::{CommandResult, Form};

fn parsed(text: &str) -> Option<(i64, String)> {
    CommandResult::parse(text).map(|result| (result.exit_code, result.output.trim().to_owned()))
}

#[test]
fn every_form_gives_the_exit_code_and_the_output() {
    for text in [
        "Exit code 2\nboom",
        "Exit code: 2\nboom",
        "boom\nExit code 2",
        "boom\n\nExit code: 2\n",
        r#"{"output":"boom","metadata":{"exit_code":2,"duration_seconds":0.1}}"#,
        r#"{"output":"boom","metadata":{"exit":2}}"#,
        r#"{"exit_code":2,"stdout":"","stderr":"boom"}"#,
        r#"{"exitCode": 2, "stderr": "boom\n", "stdout": ""}"#,
        r#"{"returncode": 2, "output": "boom"}"#,
        "<returncode>2</returncode>\n<output>\nboom\n</output>",
        "<returncode>2</returncode>\nboom",
        "<output>boom\n</output>\n<returncode>2</returncode>",
        "Observation:\nboom\nexit code 2",
        "boom\n<exited with exit code 2>",
        "Command failed with exit code 2\nboom",
        "Command failed with exit code 2: make all\nboom",
        "Process exited with code 2\nboom",
        "boom\n(exit code: 2)",
        "Error: Command exited with 2\nboom",
        "boom\nError: Command exited with code 2",
        "boom\n[The command completed with exit code 2.]",
        "Ran allowlisted command: `make`\n\n`boom`\n\nReturn code: 2\n",
        "Ran command: `make`\n\n```\nboom\n```\n\nReturn code: 2",
        "Error executing tool Bash: Error (exit code 2): boom",
        "boom\n[The command completed with exit code 2.]\n[Current working directory: /w]\n\
         [Python interpreter: /usr/bin/python]\n[Command finished with exit code 2]",
        "Output: boom\nError: of the output\nError: (none)\nExit Code: 2\nSignal: (none)\n\
         Background PIDs: (none)\nProcess Group PGID: 4711",
        "Command: make\nDirectory: (root)\nOutput: (empty)\nError: boom\nExit Code: 2\n\
         Signal: (none)\nProcess Group PGID: 12",
        "<untrusted_context>\nOutput: boom\nExit Code: 2\nProcess Group PGID: 12\n\
         </untrusted_context>",
        "Chunk ID: 1a2b3c\nWall time: 0.0512 seconds\nProcess exited with code 2\n\
         Original token count: 3\nOutput:\nboom",
        "Exit code: 2\nWall time: 0.1 seconds\nOutput:\nboom",
        "<shellId: 7 completed with exit code 2>\nboom",
        "boom\n<shellId: 31 completed with exit code 2>",
        "exitcode: 2 (execution failed)\nCode output: boom",
    ] {
        let result = parsed(text);
        let bracketed = result
            .map(|(code, output)| (code, output.lines().next().unwrap_or_default().to_owned()));
        assert_eq!(bracketed, Some((2, "boom".to_owned())), "{text}");
        let success = text.replace("code 2", "code 0").replace("code: 2", "code: 0");
        if success != text && !success.contains('2') {
            assert_eq!(parsed(&success).map(|(code, _)| code), Some(0), "{success}");
        }
    }
}

#[test]
fn a_python_dictionary_and_a_truncated_object_have_an_exit_code() {
    let long = format!("{{\"stdout\": \"{}\", \"exit_code\": 2}}", "x".repeat(40_000));
    for text in ["{'returncode': 2, 'stdout': 'it\\'s'}", &long] {
        assert_eq!(CommandResult::parse(text).map(|result| result.exit_code), Some(2));
    }
}

#[test]
fn a_command_that_the_sandbox_stopped_has_an_exit_code() {
    let text = "failed in sandbox MacosSeatbelt with execution error: sandbox denied exec \
                error, exit code: 1, stdout: , stderr: brew.sh: Operation not permitted";
    let output = "brew.sh: Operation not permitted".to_owned();
    assert_eq!(parsed(text), Some((1, output)));
}

#[test]
fn signals_and_negative_codes_are_exit_codes() {
    assert_eq!(parsed("Exit code: -9"), Some((-9, String::new())));
    let killed = "Output: x\nError: (none)\nExit Code: (none)\nSignal: 9";
    assert_eq!(parsed(killed), Some((137, "x".to_owned())));
    let success = "<untrusted_context>\nOutput: x\nProcess Group PGID: 12\n</untrusted_context>";
    assert_eq!(parsed(success), Some((0, "x".to_owned())));
}

#[test]
fn a_statement_in_the_middle_or_in_a_sentence_is_content() {
    for text in [
        "",
        "a\nExit code 1\nb",
        "build step: exit code 1 was ignored\nall done",
        "exit 1",
        "if fails:\n  exit 1",
        "the exit is 3 doors down",
        "Exit code 1.5",
        "Exit code 1 means that nothing was found",
        "status 1",
        "code: 1",
        "Error: 1",
        "failed with code",
        "{\"error\": 1}",
        "{\"jobs\": [{\"exit_code\": 1}]}",
        "Command: none",
        "Chunk ID: 1\nWall time: 2 seconds\nProcess running with session ID 4\nOutput:\nx",
        "src/run.rs:3: Exit code 1",
    ] {
        assert_eq!(parsed(text), None, "{text}");
    }
}

#[test]
fn only_tags_and_labels_are_certain_to_be_the_agent_s() {
    let form = |text: &str| CommandResult::parse(text).map(|result| result.form);
    assert_eq!(form("x\n<shellId: 1 completed with exit code 1>"), Some(Form::Envelope));
    assert_eq!(form("Exit code 1\nx"), Some(Form::FirstLine));
    assert_eq!(form("x\nExit code 1"), Some(Form::LastLine));
    assert_eq!(form("{\"exit_code\":1}"), Some(Form::FirstLine));
}
