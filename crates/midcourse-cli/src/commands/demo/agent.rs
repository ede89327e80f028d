//! The demo's agent. It runs the failing build again and again until midcourse sends it a message
//! with guidance. Then it reads the build script and creates the file that the build needs.
//!
//! The agent reports each step to `midcourse hook demo` in the payload format of Claude Code, and
//! reads the message in the reply. It uses no other part of midcourse.

use std::io::{Write as _, stdout};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::hosts::Host;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// The agent gives up after running the build this many times. It gets that far only if midcourse
/// sends no guidance.
const MAX_BUILDS: usize = 20;

/// Timeout of the agent's hooks, in milliseconds. It is longer than the default of 500, so that the
/// demo works even on a slow machine.
const HOOK_TIMEOUT_MS: &str = "10000";

pub(super) fn run(directory: &Path) -> Result<ExitCode> {
    let mut agent = Agent { directory, session: format!("demo-{}", Uuid::now_v7()), calls: 0 };
    agent.print("An agent is asked to get `sh build.sh` to pass. It just keeps trying.\n")?;
    agent.report("SessionStart", json!({"source": "startup"}))?;
    agent.report("UserPromptSubmit", json!({"prompt": "Get `sh build.sh` to pass."}))?;
    let passed = agent.work()?;
    let (last, code) = if passed {
        ("The build passes.", ExitCode::SUCCESS)
    } else {
        ("I give up.", ExitCode::FAILURE)
    };
    agent.print(&format!("\nThe agent: {last}\n"))?;
    agent.report("Stop", json!({"last_assistant_message": last}))?;
    agent.report("SessionEnd", json!({"reason": "other"}))?;
    Ok(code)
}

struct Agent<'a> {
    directory: &'a Path,
    session: String,
    calls: usize,
}

struct CallResult {
    passed: bool,
    output: String,
    /// The messages in the replies of the hooks that ran after the call.
    messages: String,
}

/// The part of a hook's reply that the agent reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HookWire {
    hook_specific_output: OutputWire,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutputWire {
    additional_context: String,
}

impl Agent<'_> {
    /// Repeats the build until it passes. After a guidance message, reads the build script and
    /// creates the file that the build needs. Returns whether the build passed.
    fn work(&mut self) -> Result<bool> {
        for _ in 0..MAX_BUILDS {
            let build = self.call("sh build.sh")?;
            if build.passed {
                return Ok(true);
            }
            if build.messages.contains("[Guidance]") {
                // The guidance suggests to look elsewhere for information, so the agent reads the
                // script.
                let script = self.call("cat build.sh")?;
                let missing_file =
                    script.output.split_whitespace().find(|word| word.ends_with(".conf"));
                if let Some(file) = missing_file {
                    self.call(&format!("echo 'TARGET=release' > {file}"))?;
                }
            }
        }
        Ok(false)
    }

    fn call(&mut self, command: &str) -> Result<CallResult> {
        self.calls += 1;
        let id = format!("{}-call-{}", self.session, self.calls);
        let fields_with = |more: Value| {
            let mut fields = json!({"tool_use_id": id, "tool_name": "Bash",
                                    "tool_input": {"command": command}});
            if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
                fields.extend(more);
            }
            fields
        };
        self.report("PreToolUse", fields_with(json!({})))?;
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.directory)
            .output()
            .context("cannot start `sh`, which the demo needs")?;
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let (status, passed) = (output.status, output.status.success());
        let text = format!("{out}{err}");
        let mark = if passed { "ok    " } else { "failed" };
        let shown = text.lines().next().unwrap_or("(no output)");
        self.print(&format!(
            "  call {:>2}  {mark}  {command}\n                   {shown}\n",
            self.calls
        ))?;
        let mut messages = if passed {
            self.report(
                "PostToolUse",
                fields_with(json!({"tool_response": {"stdout": out, "stderr": err}})),
            )?
        } else {
            let code = status.code().unwrap_or(-1);
            let error = format!("Exit code {code}\n{text}");
            self.report("PostToolUseFailure", fields_with(json!({"error": error})))?
        };
        let batch = json!({"tool_calls": [fields_with(json!({"tool_response": text}))]});
        messages.push_str(&self.report("PostToolBatch", batch)?);
        Ok(CallResult { passed, output: text, messages })
    }

    /// Runs the hook for an event. Returns the message in the hook's reply; empty if there is none.
    fn report(&self, event: &str, fields: Value) -> Result<String> {
        let mut payload = json!({"session_id": self.session, "cwd": self.directory,
                                 "hook_event_name": event});
        if let (Value::Object(payload), Value::Object(fields)) = (&mut payload, fields) {
            payload.extend(fields);
        }
        let mut hook = Command::new(std::env::current_exe()?)
            .args(["hook", Host::Demo.name()])
            .env("MIDCOURSE_HOOK_TIMEOUT_MS", HOOK_TIMEOUT_MS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the hook of the demo")?;
        if let Some(mut input) = hook.stdin.take() {
            input.write_all(payload.to_string().as_bytes())?;
        }
        let reply = hook.wait_with_output()?.stdout;
        let reply: Result<HookWire, _> = serde_json::from_slice(&reply);
        let Ok(HookWire { hook_specific_output }) = reply else { return Ok(String::new()) };
        self.print(&format!("\n  the {event} hook replies:\n"))?;
        let message = hook_specific_output.additional_context;
        for line in message.lines().filter(|line| !line.is_empty()) {
            self.print(&format!("    | {line}\n"))?;
        }
        self.print("\n")?;
        Ok(message)
    }

    fn print(&self, text: &str) -> Result<()> {
        let mut out = stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }
}
