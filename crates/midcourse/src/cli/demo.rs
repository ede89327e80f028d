//! `midcourse demo`: a small agent that goes in circles, is told so, and recovers.
//!
//! The agent is a program with one habit and no insight: it runs the build again until somebody
//! tells it that this leads nowhere. Its commands are real and run in a temporary folder; what it
//! hears is what the shipped engine says about the records of its calls.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use midcourse::{Seen, now, watch};
use midcourse_core::{
    AgentMessage, CallId, DecisionPoint, Engine, Goals, OutcomeVerdict, RunIdentity, RunOutcome,
    ToolResult, TrajectoryPayload, TrajectoryRecord,
};
use serde_json::json;

/// What the agent is asked to build.
const BUILD: &str = "\
[ -f settings.conf ] || { echo 'build.sh: error: cannot open settings.conf' >&2; exit 1; }
. ./settings.conf
echo \"built for $TARGET\"
";

/// The agent gives up after this many calls; without a word from outside it gets there.
const PATIENCE: usize = 20;

/// Runs the demo in a folder that is removed afterwards.
pub(super) fn run() -> Result<()> {
    let millis = now().unix_ms();
    let folder =
        std::env::temp_dir().join(format!("midcourse-demo-{}-{millis}", std::process::id()));
    fs::create_dir(&folder)
        .with_context(|| format!("the demo needs a folder and cannot make {}", folder.display()))?;
    let done = show(&folder);
    // A folder that stays behind is no reason to fail.
    let _ = fs::remove_dir_all(&folder);
    done
}

fn show(folder: &Path) -> Result<()> {
    fs::write(folder.join("build.sh"), BUILD).context("the demo cannot write its build script")?;
    let mut stage = Stage::new(folder);
    stage.tell("An agent is asked to get `sh build.sh` to pass. It has one habit: try again.\n")?;
    stage.record(TrajectoryPayload::RunStarted { identity: RunIdentity::root("demo") })?;
    stage.record(TrajectoryPayload::MessageAppended {
        message: AgentMessage::user("Get `sh build.sh` to pass."),
    })?;
    stage.record(TrajectoryPayload::DeadlineSet {
        at_unix_ms: Some(now().after(Duration::from_secs(601))),
    })?;
    let outcome = work(&mut stage)?;
    let passed = outcome == RunOutcome::Completed;
    stage.record(TrajectoryPayload::RunEnded { outcome, new_messages: Vec::new() })?;
    stage.sum_up(passed)
}

/// The agent: it repeats itself until it is told something, and then looks before it acts.
fn work(stage: &mut Stage<'_>) -> Result<RunOutcome> {
    for _ in 0..PATIENCE {
        let build = stage.call("sh build.sh")?;
        if build.passed {
            return Ok(RunOutcome::Completed);
        }
        if build.was_guided {
            // "A different source might": read the script instead of running it again.
            let script = stage.call("cat build.sh")?;
            let missing = script.output.split_whitespace().find(|word| word.ends_with(".conf"));
            if let Some(file) = missing {
                stage.call(&format!("echo 'TARGET=release' > {file}"))?;
            }
        }
    }
    Ok(RunOutcome::Failed)
}

/// What the agent gets back from a call.
struct Answer {
    passed: bool,
    output: String,
    was_guided: bool,
}

/// Runs the agent's commands, records them and shows what happens.
struct Stage<'a> {
    folder: &'a Path,
    engine: Engine,
    next_seq: u64,
    calls: usize,
    said: usize,
    cleared: Option<u64>,
    begun: Instant,
}

impl<'a> Stage<'a> {
    fn new(folder: &'a Path) -> Self {
        Self {
            folder,
            engine: Engine::shipped(Goals::default()),
            next_seq: 0,
            calls: 0,
            said: 0,
            cleared: None,
            begun: Instant::now(),
        }
    }

    fn call(&mut self, command: &str) -> Result<Answer> {
        self.calls += 1;
        let tool_call_id = CallId::from(format!("call-{}", self.calls));
        self.record(TrajectoryPayload::TurnStarted)?;
        self.record(TrajectoryPayload::ToolStarted {
            tool_call_id: tool_call_id.clone(),
            tool_name: "bash".into(),
            args: json!({"command": command}),
        })?;
        let ran = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.folder)
            .output()
            .context("the demo runs commands with `sh`, which cannot be started")?;
        let passed = ran.status.success();
        let output = format!(
            "{}{}",
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        );
        let shown = output.lines().next().unwrap_or("(no output)");
        let mark = if passed { "ok    " } else { "failed" };
        self.tell(&format!(
            "  call {:>2}  {mark}  {command}\n                   {shown}\n",
            self.calls
        ))?;
        let was_guided = self.record(TrajectoryPayload::ToolEnded {
            tool_call_id,
            tool_name: "bash".into(),
            result: ToolResult::text(output.clone()),
            is_error: !passed,
        })?;
        Ok(Answer { passed, output, was_guided })
    }

    /// Records a fact, shows what midcourse says to it, and tells whether it was guidance.
    fn record(&mut self, payload: TrajectoryPayload) -> Result<bool> {
        let record = TrajectoryRecord::new(self.next_seq, now(), payload);
        self.next_seq += 1;
        let Seen { said, outcomes, .. } = {
            let seq = record.seq;
            watch(&mut self.engine, &record, Some(DecisionPoint::PreToolSelection), || seq)
        };
        let mut was_guided = false;
        for (_, delivery) in said {
            self.said += 1;
            was_guided |= matches!(delivery, midcourse_core::Delivery::Guidance(_));
            let about = delivery.why().map_or("", |why| why.cause.kind()).to_owned();
            self.tell(&format!("\n  midcourse says ({about}):\n"))?;
            for line in delivery.text().lines().filter(|line| !line.is_empty()) {
                self.tell(&format!("    | {line}\n"))?;
            }
            self.tell("\n")?;
        }
        for outcome in outcomes {
            if outcome.verdict == OutcomeVerdict::Cleared {
                self.cleared = Some(outcome.after_calls);
            }
        }
        Ok(was_guided)
    }

    fn sum_up(&self, passed: bool) -> Result<()> {
        let trajectory = self.engine.trajectory();
        self.tell(&format!(
            "\n{} after {} calls, {} of them failed, in {:.1} s. midcourse spoke {} times",
            if passed { "The build passes" } else { "The agent gave up" },
            trajectory.tool_call_count(),
            trajectory.error_count(),
            self.begun.elapsed().as_secs_f64(),
            self.said,
        ))?;
        match self.cleared {
            Some(calls) => self.tell(&format!("; the circle was left {calls} call(s) later.\n"))?,
            None => self.tell(".\n")?,
        }
        self.tell("Try it on a run of your own: midcourse replay --help\n")
    }

    fn tell(&self, words: &str) -> Result<()> {
        let mut out = stdout().lock();
        out.write_all(words.as_bytes())?;
        Ok(out.flush()?)
    }
}
