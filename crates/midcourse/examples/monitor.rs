//! Records a run durably and gets messages for its agent, in under twenty lines.

use midcourse::{AgentMessage, DataDir, Monitor, RunOutcome, ToolResult};

/// Runs an agent that repeats one failing command, and returns the messages for it.
fn run_agent(data_dir: &DataDir) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let monitor = Monitor::open(data_dir)?.host("my-agent");
    let run = monitor.begin_blocking("night-1")?;
    let run = run.blocking();
    run.message(AgentMessage::user("Make the tests pass."))?;
    let mut messages = Vec::new();
    for call in 1..=4 {
        // A real loop adds the text of `model_request` to the request, and the texts of
        // `tool_started` and `tool_ended` to the tool's result.
        messages.extend(run.model_request("some-model", 1 + 2 * call, &["bash"])?.text());
        let id = format!("call-{call}");
        run.tool_started(id.as_str(), "bash", serde_json::json!({"command": "make test"}))?;
        let result = ToolResult::error("make: *** No rule to make target 'test'.  Stop.");
        messages.extend(run.tool_ended(id.as_str(), "bash", result)?.text());
    }
    run.end(RunOutcome::Failed)?;
    Ok(messages)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let messages = run_agent(&DataDir::at(folder.path()))?;
    assert_eq!(messages.len(), 1, "{messages:?}");
    print(&messages);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn print(messages: &[String]) {
    for message in messages {
        println!("{message}");
    }
}

#[test]
fn the_third_failure_brings_one_message() {
    main().unwrap();
}
