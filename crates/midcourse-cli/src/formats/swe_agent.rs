//! Trajectories of SWE-agent (`.traj`): a JSON object with `trajectory` (the steps), `history` (the
//! messages of the model) and `info`.
//!
//! A step has the model's thought, its action and the observation. The action is a command in a text,
//! and becomes a tool call: the tool is a command of SWE-agent, or `bash`. The task and, if the model
//! called tools, the ids and arguments of its calls are in `history`. In a file without steps, such as
//! a demonstration written by hand, the steps are taken from `history`.

mod history;

use std::collections::VecDeque;

use midcourse::{RunOutcome, Timestamp, Usage};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::chat_message::text_field;
use super::transcript::{Call, CallResult, Response, Transcript, fingerprint};
use crate::session_file::{Fate, Found, Head, Part, SessionFile, SessionReader, for_each_part};
use history::{Entry, History};

const HOST: &str = "swe-agent";

/// Commands that SWE-agent adds to the shell. Other actions run in `bash`.
const COMMANDS: [&str; 22] = [
    "create",
    "edit",
    "exit_cost",
    "exit_forfeit",
    "filemap",
    "find_file",
    "goto",
    "insert",
    "open",
    "scroll_down",
    "scroll_up",
    "search_dir",
    "search_file",
    "str_replace_editor",
    "submit",
    "undo_edit",
    "view_image",
    "click_mouse",
    "connect_sendline",
    "connect_start",
    "debug_start",
    "think",
];

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let is_named = head.is_named(|name| name.ends_with(".traj"));
    let has_steps = head.has_keys(&["trajectory"]) || head.has_keys(&["history"]);
    let has_action = || memchr::memmem::find(head.bytes, b"\"action\"").is_some();
    !head.is_list
        && ((is_named && (has_steps || head.has_keys(&["attempts"])))
            || (head.has_keys(&["trajectory", "history"]))
            || (head.has_keys(&["trajectory"]) && has_action()))
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { stem: file.stem(), modified: file.modified })
}

struct Reader {
    stem: String,
    modified: Timestamp,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        let document = String::from_utf8_lossy(bytes);
        self.read_run(&document, found);
    }
}

/// The parts of a file, before they become records.
#[derive(Default)]
struct Parts {
    steps: Vec<Value>,
    history: History,
    info: Value,
    model: Option<String>,
}

impl Reader {
    fn read_run(&self, document: &str, found: &mut Found) {
        let mut parts = Parts::default();
        let mut attempts = 0;
        let lists = ["trajectory", "history", "attempts"];
        let error = for_each_part(document, &lists, |part| match part {
            Part::Element("attempts", _, attempt) => {
                // Several attempts at one task: each is a run, and has the same fields as a file
                // with one run.
                attempts += 1;
                self.read_run(attempt.get(), found);
            }
            Part::Element(list, _, element) => match serde_json::from_str(element.get()) {
                Ok(element) if list == "trajectory" => parts.steps.push(element),
                Ok(element) => {
                    if !parts.history.add(&element) {
                        found.count("history (other role)", Fate::Unknown);
                    }
                }
                Err(error) => found.invalid(list, error),
            },
            Part::Field("info", info) => {
                parts.info = serde_json::from_str(info.get()).unwrap_or_default();
                found.count("info", Fate::Used);
            }
            Part::Field("replay_config", config) => {
                parts.model = model_of(config);
                found.count("replay_config", Fate::Used);
            }
            Part::Field("environment", _) => found.count("environment", Fate::Ignored),
            Part::Field(name, _) => found.count(name, Fate::Unknown),
        });
        found.cut_off(error);
        let has_steps = !parts.steps.is_empty() || parts.history.has_responses();
        if has_steps {
            self.record(parts, found);
        } else if attempts == 0 {
            found.count("(no steps)", Fate::Unknown);
            found.problem.get_or_insert_with(|| "the trajectory has no steps".to_owned());
        }
    }

    fn record(&self, parts: Parts, found: &mut Found) {
        let Parts { steps, history, info, model } = parts;
        // A file has no id of its run. Files of one task, which may be from several runs, have the
        // same name and differ in their first steps.
        let first = steps.first().map_or_else(|| history.first_response(), Value::to_string);
        let run_id = format!("{}-{}", self.stem, fingerprint([first.as_str()]));
        let mut run = Transcript::start(&run_id, HOST, self.modified, found);
        let version = info.get("swe_agent_version").and_then(Value::as_str);
        run.describe(model, version.map(ToOwned::to_owned), found);
        let History { before, entries, .. } = history;
        for entry in before {
            entry.record(&mut run, found);
        }
        if steps.is_empty() {
            for entry in entries {
                entry.record(&mut run, found);
            }
        } else {
            // The steps contain what these messages say, but not the ids of calls.
            entries.iter().for_each(|entry| found.count(entry.kind(), Fate::Ignored));
            let mut responses: VecDeque<_> =
                entries.into_iter().filter(Entry::is_response).collect();
            for step in &steps {
                record_step(step, &mut responses, &mut run, found);
            }
        }
        record_info(&info, &run, found);
    }
}

/// Records a step. `responses` are the responses in `history` that no earlier step has taken.
fn record_step(
    step: &Value,
    responses: &mut VecDeque<Entry>,
    run: &mut Transcript,
    found: &mut Found,
) {
    let Some(action) = step.get("action").and_then(Value::as_str) else {
        return found.count("trajectory", Fate::Unknown);
    };
    let same_action = |entry: &Entry| entry.action() == action.trim();
    let in_history = responses.pop_front_if(|entry| same_action(entry));
    let calls_in_history = in_history.map(Entry::into_calls).unwrap_or_default();
    let thought = match text_field(step, "thought") {
        "" => text_field(step, "response"),
        thought => thought,
    };
    let is_empty = action.trim().is_empty();
    let calls = match calls_in_history {
        calls if !calls.is_empty() => calls,
        _ if is_empty => Vec::new(),
        _ => vec![text_call(action)],
    };
    run.response(
        Response { text: thought.trim_end().to_owned(), calls, ..Response::default() },
        found,
    );
    let observation = text_field(step, "observation").to_owned();
    if run.has_open_call() {
        run.result(CallResult { text: observation, ..CallResult::default() }, found);
    } else if !observation.is_empty() {
        // The response had no action, and SWE-agent says so.
        run.generated("observation", observation, found);
    }
    found.count("trajectory", Fate::Used);
}

/// A call that the model wrote as a command.
fn text_call(action: &str) -> Call {
    let command = action.trim_end();
    let first = command.split_whitespace().next().unwrap_or_default();
    let tool = COMMANDS.iter().find(|name| **name == first).unwrap_or(&"bash");
    Call { id: String::new(), tool: (*tool).to_owned(), args: json!({"command": command}) }
}

/// Records tokens, cost and the end of the run. `info` has them for the run as a whole.
fn record_info(info: &Value, run: &Transcript, found: &mut Found) {
    let stats = info.get("model_stats").unwrap_or(&Value::Null);
    let tokens = |name: &str| stats.get(name).and_then(Value::as_i64).unwrap_or(0).max(0);
    let (sent, received) = (tokens("tokens_sent"), tokens("tokens_received"));
    if sent > 0 || received > 0 {
        let usage = Usage { input_tokens: sent, output_tokens: received, ..Usage::default() };
        run.usage("total", usage, found);
    }
    if let Some(dollars) = stats.get("instance_cost").and_then(Value::as_f64) {
        run.cost(dollars, found);
    }
    if let Some(status) = info.get("exit_status").and_then(Value::as_str) {
        run.end(outcome(status), found);
    }
}

/// `submitted` means that the agent has handed in a solution, which may be wrong.
fn outcome(status: &str) -> RunOutcome {
    match status {
        "exit_cost" | "exit_context" | "exit_total_execution_time" => RunOutcome::LimitReached,
        "exit_api" | "exit_environment_error" | "exit_error" | "exit_format" => RunOutcome::Failed,
        status => RunOutcome::Other(status.to_owned()),
    }
}

/// The model in the configuration, which is an object or, in newer versions, its JSON as a text.
fn model_of(config: &RawValue) -> Option<String> {
    let mut config: Value = serde_json::from_str(config.get()).ok()?;
    if let Value::String(text) = &config {
        config = serde_json::from_str(text).ok()?;
    }
    config.pointer("/agent/model/name")?.as_str().map(ToOwned::to_owned)
}
