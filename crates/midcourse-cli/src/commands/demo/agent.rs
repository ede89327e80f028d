//! The agent of the demo: a program with one habit and no insight. It runs the build again until
//! somebody tells it that this leads nowhere; then it looks before it acts.
//!
//! It is a host like any other: it reports each step to `midcourse hook demo`, in the form in which
//! Claude Code does, and reads the words in the answer. It knows nothing else of midcourse.

use std::io::{Write as _, stdout};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::hosts::Host;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// The agent gives up after this many calls; without a word from outside it gets there.
const PATIENCE: usize = 20;

/// On a slow machine the demo waits longer for its hooks than an agent at work would.
const HOOK_TIMEOUT_MS: &str = "10000";

pub(super) fn run(folder: &Path) -> Result<ExitCode> {
    let mut agent = Agent { folder, session: format!("demo-{}", Uuid::now_v7()), calls: 0 };
    agent.tell("An agent is asked to get `sh build.sh` to pass. It has one habit: try again.\n")?;
    agent.report("SessionStart", json!({"source": "startup"}))?;
    agent.report("UserPromptSubmit", json!({"prompt": "Get `sh build.sh` to pass."}))?;
    let passed = agent.work()?;
    let (last, code) = if passed {
        ("The build passes.", ExitCode::SUCCESS)
    } else {
        ("I give up.", ExitCode::FAILURE)
    };
    agent.tell(&format!("\nThe agent: {last}\n"))?;
    agent.report("Stop", json!({"last_assistant_message": last}))?;
    agent.report("SessionEnd", json!({"reason": "other"}))?;
    Ok(code)
}

struct Agent<'a> {
    folder: &'a Path,
    session: String,
    calls: usize,
}

/// What the agent gets back from a call.
struct Answer {
    passed: bool,
    output: String,
    /// What it was told beside it.
    advice: String,
}

/// The answer of a hook, as far as an agent reads it.
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
    /// Repeats itself until it is told that this will not change anything.
    fn work(&mut self) -> Result<bool> {
        for _ in 0..PATIENCE {
            let build = self.call("sh build.sh")?;
            if build.passed {
                return Ok(true);
            }
            if build.advice.contains("[Guidance]") {
                // "A different source might": read the script instead of running it again.
                let script = self.call("cat build.sh")?;
                let missing = script.output.split_whitespace().find(|word| word.ends_with(".conf"));
                if let Some(file) = missing {
                    self.call(&format!("echo 'TARGET=release' > {file}"))?;
                }
            }
        }
        Ok(false)
    }

    fn call(&mut self, command: &str) -> Result<Answer> {
        self.calls += 1;
        let id = format!("{}-call-{}", self.session, self.calls);
        let about = |rest: Value| {
            let mut fields = json!({"tool_use_id": id, "tool_name": "Bash",
                                    "tool_input": {"command": command}});
            if let (Value::Object(fields), Value::Object(rest)) = (&mut fields, rest) {
                fields.extend(rest);
            }
            fields
        };
        self.report("PreToolUse", about(json!({})))?;
        let ran = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.folder)
            .output()
            .context("the demo runs commands with `sh`, which cannot be started")?;
        let (out, err) =
            (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        let passed = ran.status.success();
        let output = format!("{out}{err}");
        let mark = if passed { "ok    " } else { "failed" };
        let shown = output.lines().next().unwrap_or("(no output)");
        self.tell(&format!(
            "  call {:>2}  {mark}  {command}\n                   {shown}\n",
            self.calls
        ))?;
        let mut advice = if passed {
            self.report(
                "PostToolUse",
                about(json!({"tool_response": {"stdout": out, "stderr": err}})),
            )?
        } else {
            let code = ran.status.code().unwrap_or(-1);
            let error = format!("Exit code {code}\n{output}");
            self.report("PostToolUseFailure", about(json!({"error": error})))?
        };
        let batch = json!({"tool_calls": [about(json!({"tool_response": output}))]});
        advice.push_str(&self.report("PostToolBatch", batch)?);
        Ok(Answer { passed, output, advice })
    }

    /// Runs the hook for an event, and returns what it says.
    fn report(&self, event: &str, fields: Value) -> Result<String> {
        let mut payload = json!({"session_id": self.session, "cwd": self.folder,
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
            .context("the hook of the demo cannot be started")?;
        if let Some(mut input) = hook.stdin.take() {
            input.write_all(payload.to_string().as_bytes())?;
        }
        let answer = hook.wait_with_output()?.stdout;
        let said: Result<HookWire, _> = serde_json::from_slice(&answer);
        let Ok(HookWire { hook_specific_output }) = said else { return Ok(String::new()) };
        self.tell(&format!("\n  the hook of {event} answers:\n"))?;
        let words = hook_specific_output.additional_context;
        for line in words.lines().filter(|line| !line.is_empty()) {
            self.tell(&format!("    | {line}\n"))?;
        }
        self.tell("\n")?;
        Ok(words)
    }

    fn tell(&self, words: &str) -> Result<()> {
        let mut out = stdout().lock();
        out.write_all(words.as_bytes())?;
        Ok(out.flush()?)
    }
}
