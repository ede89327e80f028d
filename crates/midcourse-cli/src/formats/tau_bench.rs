//! Results of tau-bench: a JSON list of `{task_id, trial, reward, traj: [messages]}`, one element per
//! run of the agent.
//!
//! The user of these runs is simulated by a model; its messages are recorded as those of a user.
//! A reward of 1 means that the agent solved its task.

use midcourse::{RunOutcome, Timestamp};
use serde_json::{Map, Value};

use super::chat_message::Message;
use super::elements::{Element, for_each_element};
use super::transcript::Transcript;
use crate::session_file::{Fate, Found, Head, Part, SessionFile, SessionReader, for_each_part};

const HOST: &str = "tau-bench";

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    head.is_list && head.has_keys(&["task_id", "traj"])
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { stem: file.stem(), modified: file.modified, trials: Map::new() })
}

struct Reader {
    stem: String,
    modified: Timestamp,
    /// How many runs of each task there have been.
    trials: Map<String, Value>,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        let document = String::from_utf8_lossy(bytes);
        let error = for_each_element(&document, |element| self.read_run(element, found));
        found.cut_off(error);
    }
}

impl Reader {
    fn read_run(&mut self, element: Element<'_>, found: &mut Found) {
        let (mut fields, mut messages) = (Map::new(), Vec::new());
        // If the element is cut off, the caller counts that.
        let _ = for_each_part(element.text, &["traj"], |part| match part {
            Part::Field(name @ ("task_id" | "trial" | "reward"), value) => {
                fields
                    .insert(name.to_owned(), serde_json::from_str(value.get()).unwrap_or_default());
            }
            Part::Field("info", _) => found.count("info", Fate::Ignored),
            Part::Field(name, _) => found.count(name, Fate::Unknown),
            Part::Element(_, _, message) => match serde_json::from_str::<Value>(message.get()) {
                Ok(message) => messages.push(message),
                Err(error) => found.invalid("(message)", error),
            },
        });
        let Some(task) = fields.get("task_id").filter(|task| !task.is_null()) else {
            return found.count("(no task_id)", Fate::Unknown);
        };
        let task = task.as_str().map_or_else(|| task.to_string(), ToOwned::to_owned);
        let trials = self.trials.entry(task.clone()).or_insert_with(|| 0.into());
        let counted = trials.as_u64().unwrap_or_default();
        *trials = (counted + 1).into();
        // The last element of a file that is cut off has no trial.
        let trial = fields.get("trial").and_then(Value::as_u64).unwrap_or(counted);
        let run_id = format!("{}:{task}:{trial}", self.stem);
        let mut run = Transcript::start(&run_id, HOST, self.modified, found);
        for message in messages {
            Message::parse(&message).record(&mut run, found);
        }
        let reward = fields.get("reward").and_then(Value::as_f64);
        if let Some(reward) = reward.filter(|_| element.is_complete) {
            let is_solved = reward >= 1.0;
            run.end(if is_solved { RunOutcome::Completed } else { RunOutcome::Failed }, found);
        }
        found.count("(run)", Fate::Used);
    }
}
