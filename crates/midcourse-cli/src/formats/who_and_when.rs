//! The data set Who&When: a JSON object with `question` and the `history` of a chat between several
//! agents.
//!
//! Its first part has the names of agents in `name` and the task in the first message; its second part
//! has them in `role`, and the task has the role `human`. One agent is a terminal that runs the code
//! blocks of the message before, so its messages are results of tool calls.

use midcourse::{RunOutcome, Timestamp};
use serde_json::{Map, Value, json};

use super::chat_message::text_field;
use super::transcript::{Call, CallResult, Response, Transcript};
use crate::session_file::{Fate, Found, Head, Part, SessionFile, SessionReader, for_each_part};

const HOST: &str = "who-and-when";

/// The tool that the terminal stands for.
const TOOL: &str = "code_exec";

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let has_any = |keys: &[&str]| keys.iter().any(|key| head.has_keys(&[key]));
    let has_human = || memchr::memmem::find(head.bytes, b"\"human\"").is_some();
    head.has_keys(&["history"])
        && (has_any(&["question_ID", "mistake_agent", "ground_truth"])
            // A long history may be all that is known of the file here.
            || (head.keys.len() == 1 && has_human()))
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
        let (mut fields, mut history) = (Map::new(), Vec::new());
        let error = for_each_part(&document, &["history"], |part| match part {
            Part::Field(name, value) => {
                found.count(name, Fate::Ignored);
                if matches!(name, "question_ID" | "question" | "is_correct" | "is_corrected") {
                    let value = serde_json::from_str(value.get()).unwrap_or_default();
                    fields.insert(name.to_owned(), value);
                }
            }
            Part::Element(_, _, message) => match serde_json::from_str::<Value>(message.get()) {
                Ok(message) => history.push(message),
                Err(error) => found.invalid("(message)", error),
            },
        });
        let is_whole = error.is_none();
        found.cut_off(error);
        if history.is_empty() {
            return found.count("(no history)", Fate::Unknown);
        }
        let question = fields.get("question_ID").and_then(Value::as_str).unwrap_or_default();
        let separator = if question.is_empty() { "" } else { ":" };
        let run_id = format!("{}{separator}{question}", self.stem);
        let mut run = Transcript::start(&run_id, HOST, self.modified, found);
        run.is_group_chat = true;
        let mut messages = history.iter().map(Said::parse).peekable();
        let mut is_first = true;
        while let Some(message) = messages.next() {
            let result = messages.next_if(|next| next.is_result());
            record(message, result, is_first, &mut run, found);
            is_first = false;
        }
        let is_correct = fields.get("is_correct").or_else(|| fields.get("is_corrected"));
        if let Some(is_correct) = is_correct.and_then(Value::as_bool).filter(|_| is_whole) {
            run.end(if is_correct { RunOutcome::Completed } else { RunOutcome::Failed }, found);
        }
    }
}

/// A message of the chat.
struct Said<'a> {
    /// The name of the agent.
    by: &'a str,
    text: &'a str,
}

impl<'a> Said<'a> {
    fn parse(message: &'a Value) -> Self {
        let by = match text_field(message, "name") {
            "" => text_field(message, "role"),
            name => name,
        };
        Self { by, text: text_field(message, "content") }
    }

    fn is_terminal(&self) -> bool {
        self.by.replace('_', "").eq_ignore_ascii_case("computerterminal")
    }

    /// Whether the terminal has run something, and not only asks for code.
    fn is_result(&self) -> bool {
        self.is_terminal() && exit_code(self.text).is_some()
    }
}

/// Records a message, and the result of the code in it.
fn record(
    message: Said<'_>,
    result: Option<Said<'_>>,
    is_first: bool,
    run: &mut Transcript,
    found: &mut Found,
) {
    if message.is_result() {
        // A second result, or one without the message that it belongs to.
        return record_result(&message, run, found);
    }
    let call = result.as_ref().map(|_| Call {
        id: String::new(),
        tool: TOOL.to_owned(),
        args: json!({"code": code_blocks(message.text)}),
    });
    let calls: Vec<Call> = call.into_iter().collect();
    let text = message.text.to_owned();
    if message.is_terminal() {
        found.count("terminal (no code)", Fate::Used);
        run.generated("terminal", text, found);
    } else if message.by.ends_with("(thought)") {
        found.count("agent (thought)", Fate::Used);
        run.response(Response { reasoning: text, calls, ..Response::default() }, found);
    } else if is_first || message.by == "human" {
        found.count("task", Fate::Used);
        run.user(text, found);
        if !calls.is_empty() {
            run.response(Response { calls, ..Response::default() }, found);
        }
    } else {
        found.count("agent", Fate::Used);
        run.response(Response { text, calls, ..Response::default() }, found);
    }
    if let Some(result) = result {
        record_result(&result, run, found);
    }
}

fn record_result(result: &Said<'_>, run: &mut Transcript, found: &mut Found) {
    let is_error = exit_code(result.text).map(|code| code != 0);
    let (tool, text) = (TOOL.to_owned(), result.text.to_owned());
    run.result(CallResult { tool, text, is_error, ..CallResult::default() }, found);
    found.count("terminal (result)", Fate::Used);
}

/// The exit code that the terminal reports at the beginning of its message.
fn exit_code(text: &str) -> Option<i64> {
    let first = text.lines().next()?;
    let (_, code) = first.split_once("exitcode:").or_else(|| first.split_once("exit code:"))?;
    code.split_whitespace().next()?.parse().ok()
}

/// The fenced blocks of a text, all of which the terminal runs.
fn code_blocks(text: &str) -> String {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_inside = !is_inside;
            if is_inside {
                blocks.push(Vec::new());
            }
        } else if let Some(block) = blocks.last_mut().filter(|_| is_inside) {
            block.push(line);
        }
    }
    blocks.iter().map(|block| block.join("\n")).collect::<Vec<_>>().join("\n\n")
}
