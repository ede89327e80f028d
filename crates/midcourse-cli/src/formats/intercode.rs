//! Results of InterCode: a JSON object with a run per key, in which `turn_history` has a list of
//! actions, a list of observations and a list of rewards.
//!
//! Each action is a command or a program that the environment ran, so it becomes a tool call, and the
//! observation its result. `valid_action` says whether it ran without an error, where it is not null.
//! A run is solved if its highest reward is 1.

use midcourse::{RunOutcome, Timestamp};
use serde_json::{Value, json};

use super::chat_message::text_field;
use super::transcript::{Call, CallResult, Response, Transcript};
use crate::session_file::{Fate, Found, Head, Part, SessionFile, SessionReader, for_each_part};

const HOST: &str = "intercode";

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let has = |text: &str| memchr::memmem::find(head.bytes, text.as_bytes()).is_some();
    !head.is_list && has("\"turn_history\"") && has("\"query\"")
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
        let error = for_each_part(&document, &[], |part| {
            let Part::Field(key, run) = part else {
                return found.count("(not a run)", Fate::Unknown);
            };
            match serde_json::from_str(run.get()) {
                Ok(run) => self.read_run(key, &run, found),
                Err(error) => found.invalid("(run)", error),
            }
        });
        found.cut_off(error);
    }
}

impl Reader {
    fn read_run(&self, key: &str, run: &Value, found: &mut Found) {
        let list = |name: &str| {
            let list = run.get("turn_history").and_then(|history| history.get(name));
            list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
        };
        let actions = list("actions");
        if run.get("turn_history").is_none() {
            return found.count("(no turn_history)", Fate::Unknown);
        }
        let run_id = format!("{}:{key}", self.stem);
        let mut records = Transcript::start(&run_id, HOST, self.modified, found);
        records.user(text_field(run, "query").to_owned(), found);
        let environment = text_field(run, "environment");
        for (position, action) in actions.iter().enumerate() {
            let Some(action) = action.as_str() else {
                found.count("action", Fate::Unknown);
                continue;
            };
            let call = call(environment, action);
            records.response(Response { calls: vec![call], ..Response::default() }, found);
            found.count("action", Fate::Used);
            let Some(observation) = list("observations").get(position) else { continue };
            let text = observation.as_str().map_or_else(|| observation.to_string(), str::to_owned);
            let is_valid = list("valid_action").get(position).and_then(Value::as_bool);
            let is_error = is_valid.map(|is_valid| !is_valid);
            records.result(CallResult { text, is_error, ..CallResult::default() }, found);
            found.count("observation", Fate::Used);
        }
        let rewards = list("rewards").iter().filter_map(Value::as_f64);
        let highest = run.pointer("/summary/max_reward").and_then(Value::as_f64);
        if let Some(highest) = highest.or_else(|| rewards.reduce(f64::max)) {
            let is_solved = highest >= 1.0;
            records.end(if is_solved { RunOutcome::Completed } else { RunOutcome::Failed }, found);
        }
        found.count("(run)", Fate::Used);
    }
}

/// The tool is the interpreter of the environment. `submit` ends a run of the environment for
/// security challenges, whose other actions are shell commands.
fn call(environment: &str, action: &str) -> Call {
    let (tool, args) = match environment {
        "ic_python" => ("python", json!({"code": action})),
        "ic_sql" => ("sql", json!({"query": action})),
        "ic_ctf" if action.starts_with("submit ") => ("submit", json!({"command": action})),
        _ => ("bash", json!({"command": action})),
    };
    Call { id: String::new(), tool: tool.to_owned(), args }
}
