//! Trajectories of mini-swe-agent (`.traj.json`): a JSON object with `messages` and `info`.
//!
//! Version 2 lists the commands of a response in `extra.actions`, whether the model called a tool or
//! wrote a code block. Version 1 has only the code block. Results have the role `tool` or `user`. A
//! response that mini-swe-agent rejected is in the message that says so.

use midcourse::{RunOutcome, Timestamp};
use serde_json::{Value, json};

use super::chat_message::{Message, text_field, text_of, time_of, usage_of};
use super::transcript::{Call, CallResult, Response, Transcript, fingerprint};
use crate::session_file::{Fate, Found, Head, Part, SessionFile, SessionReader, for_each_part};

const HOST: &str = "mini-swe-agent";

/// How the block with the command begins in a response of a model that is offered no tools.
const FENCES: [&str; 2] = ["```mswea_bash_command", "```bash"];

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let has_config = || {
        let has = |text: &str| memchr::memmem::find(head.bytes, text.as_bytes()).is_some();
        has("\"mini_version\"") || has("\"trajectory_format\"")
    };
    let is_named = || head.is_named(|name| name.ends_with(".traj.json"));
    !head.is_list && head.has_keys(&["info", "messages"]) && (has_config() || is_named())
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    let stem = file.stem();
    let stem = stem.strip_suffix(".traj").unwrap_or(&stem).to_owned();
    Box::new(Reader { stem, modified: file.modified })
}

struct Reader {
    stem: String,
    modified: Timestamp,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        let document = String::from_utf8_lossy(bytes);
        let (mut info, mut messages) = (Value::Null, Vec::new());
        let mut instance = None;
        let error = for_each_part(&document, &["messages"], |part| match part {
            Part::Field("info", value) => {
                info = serde_json::from_str(value.get()).unwrap_or_default();
                found.count("info", Fate::Used);
            }
            Part::Field("instance_id", value) => {
                instance = serde_json::from_str::<String>(value.get()).ok();
                found.count("instance_id", Fate::Used);
            }
            Part::Field("trajectory_format", _) => found.count("trajectory_format", Fate::Ignored),
            Part::Field(name, _) => found.count(name, Fate::Unknown),
            Part::Element(_, _, message) => match serde_json::from_str::<Value>(message.get()) {
                Ok(message) => messages.push(message),
                Err(error) => found.invalid("(message)", error),
            },
        });
        found.cut_off(error);
        if messages.is_empty() {
            found.count("(no messages)", Fate::Unknown);
            found.problem.get_or_insert_with(|| "the trajectory has no messages".to_owned());
            return;
        }
        let name = instance.as_deref().unwrap_or(&self.stem);
        self.record(name, &info, &messages, found);
    }
}

impl Reader {
    fn record(&self, name: &str, info: &Value, messages: &[Value], found: &mut Found) {
        // A file has no id of its run, and several runs may work on the same task. The first
        // response has a time and an id.
        let responses = messages.iter().position(|message| message.get("extra").is_some());
        let beginning: Vec<_> =
            messages.iter().take(responses.map_or(3, |at| at + 1)).map(Value::to_string).collect();
        let run_id = format!("{name}-{}", fingerprint(beginning.iter().map(String::as_str)));
        let first_time = messages.iter().find_map(message_time).unwrap_or(self.modified);
        let mut run = Transcript::start(&run_id, HOST, first_time, found);
        let text = |pointer: &str| info.pointer(pointer)?.as_str().map(ToOwned::to_owned);
        run.describe(text("/config/model/model_name"), text("/mini_version"), found);
        let mut has_response = false;
        for message in messages {
            if let Some(at) = message_time(message) {
                run.at = at;
            }
            let fate = record_message(message, &mut has_response, &mut run, found);
            let kind = match text_field(message, "role") {
                "" => "(no role)",
                role => role,
            };
            found.count(kind, fate);
        }
        if let Some(dollars) = info.pointer("/model_stats/instance_cost").and_then(Value::as_f64) {
            run.cost(dollars, found);
        }
        if let Some(status) = text("/exit_status").filter(|status| !status.is_empty()) {
            run.end(outcome(&status), found);
        }
    }
}

/// `Submitted` means that the agent has handed in a solution, which may be wrong.
fn outcome(status: &str) -> RunOutcome {
    match status {
        "LimitsExceeded" | "TimeExceeded" => RunOutcome::LimitReached,
        "Submitted" => RunOutcome::Other("submitted".to_owned()),
        status => RunOutcome::Other(status.to_owned()),
    }
}

fn message_time(message: &Value) -> Option<Timestamp> {
    message.pointer("/extra/timestamp").or_else(|| message.get("timestamp")).and_then(time_of)
}

fn record_message(
    message: &Value,
    has_response: &mut bool,
    run: &mut Transcript,
    found: &mut Found,
) -> Fate {
    match Message::parse(message) {
        Message::System(text) => run.system(text, found),
        Message::Assistant(response) => {
            *has_response = true;
            run.response(with_actions(response, message), found);
        }
        Message::Result(result) => {
            if !run.result(CallResult { is_error: is_error(message), ..result }, found) {
                return Fate::Ignored;
            }
        }
        Message::User(text) if !*has_response && message.get("extra").is_none() => {
            run.user(text, found);
        }
        Message::User(text) => {
            // A rejected response is only in the message that rejects it.
            let rejected = message.pointer("/extra/response/choices/0/message");
            if let Some(Message::Assistant(response)) = rejected.map(Message::parse) {
                *has_response = true;
                let usage = message.pointer("/extra/response/usage").and_then(usage_of);
                run.response(Response { calls: Vec::new(), usage, ..response }, found);
            }
            if run.has_open_call() && rejected.is_none() {
                let is_error = is_error(message);
                run.result(CallResult { text, is_error, ..CallResult::default() }, found);
            } else {
                run.generated("rejection", text, found);
            }
        }
        Message::Unknown(role) if role == "exit" => {
            // The command with which the agent submits has no other result.
            let is_submitted = message.pointer("/extra/exit_status") == Some(&"Submitted".into());
            if is_submitted && run.has_open_call() {
                let text = text_of(message.get("content"));
                let is_error = Some(false);
                run.result(CallResult { text, is_error, ..CallResult::default() }, found);
            }
        }
        Message::Unknown(_) => return Fate::Unknown,
    }
    Fate::Used
}

/// The response with its commands as calls.
fn with_actions(mut response: Response, message: &Value) -> Response {
    response.usage = message.pointer("/extra/response/usage").and_then(usage_of);
    if !response.calls.is_empty() {
        return response;
    }
    let actions = message.pointer("/extra/actions").and_then(Value::as_array);
    let commands: Vec<String> = match actions {
        Some(actions) => actions
            .iter()
            .filter_map(|action| Some(action.get("command")?.as_str()?.to_owned()))
            .collect(),
        None => fenced_command(&response.text).into_iter().collect(),
    };
    response.calls = commands
        .into_iter()
        .map(|command| Call {
            id: String::new(),
            tool: "bash".to_owned(),
            args: json!({"command": command}),
        })
        .collect();
    if !response.calls.is_empty() {
        response.text = without_block(&response.text);
    }
    response
}

/// The command in the only block of a response; `None` if there is no block, or more than one.
fn fenced_command(text: &str) -> Option<String> {
    let (_, block) = FENCES.iter().find_map(|fence| text.split_once(fence))?;
    let (command, rest) = block.strip_prefix('\n')?.split_once("\n```")?;
    let is_only = !FENCES.iter().any(|fence| rest.contains(fence));
    is_only.then(|| command.trim().to_owned())
}

/// The text before the block with the command.
fn without_block(text: &str) -> String {
    let before = FENCES.iter().find_map(|fence| text.split_once(fence));
    before.map_or(text, |(before, _)| before).trim_end().to_owned()
}

/// Whether a command failed: version 2 has its exit code in a field, version 1 in the text.
fn is_error(message: &Value) -> Option<bool> {
    if let Some(code) = message.pointer("/extra/returncode").and_then(Value::as_i64) {
        return Some(code != 0);
    }
    let text = message.get("content")?.as_str()?;
    let (_, code) = text.split_once("<returncode>")?;
    let (code, _) = code.split_once("</returncode>")?;
    code.trim().parse::<i64>().ok().map(|code| code != 0)
}

#[cfg(test)]
mod tests {
    use super::{fenced_command, without_block};

    #[test]
    fn the_only_block_of_a_response_is_its_command() {
        let text = "THOUGHT: look\n\n```bash\nls -a\ncat x\n```\nbye";
        assert_eq!(fenced_command(text).as_deref(), Some("ls -a\ncat x"));
        assert_eq!(without_block(text), "THOUGHT: look");
        assert_eq!(fenced_command("```bash\nls\n```\n```bash\nls\n```"), None);
        assert_eq!(fenced_command("```bash\nls"), None);
    }
}
