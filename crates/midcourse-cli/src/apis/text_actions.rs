//! Actions that the model writes as text, for agents that offer it no tools.
//!
//! Such an agent tells the model to write a command into a fenced block or between tags, runs it,
//! and sends what it printed as the next user message. No agent is known by name here. A block and
//! the message after it are taken as a call and its result if the message begins like a result
//! (`Observation:`, `<returncode>`, `Executed …`), or like another message that came after a block.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::request::{Item, Request, Role, is_client_note, text_of};

/// How the name of every tool begins that is called by text. The language of the block or the name
/// of the tag follows.
const TOOL_PREFIX: &str = "text:";

/// The languages of blocks that are commands for a shell.
const SHELLS: [&str; 6] = ["bash", "sh", "shell", "zsh", "console", "terminal"];

/// Words with which results begin, after brackets and other marks.
const RESULT_BEGINNINGS: [&str; 18] = [
    "observation",
    "output",
    "result",
    "returncode",
    "return code",
    "exit code",
    "exit_code",
    "executed",
    "execution",
    "ran ",
    "i ran",
    "command",
    "stdout",
    "stderr",
    "error",
    "traceback",
    "tool",
    "system",
];

/// Two messages after blocks have the same form if they begin with the same characters, of which
/// there are this many.
const FORM_CHARS: usize = 16;

/// A longer text of the model is not searched for an action.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// A text of the model that is at most this long can be the client's, between two messages of its
/// own.
const MAX_FILLER_BYTES: usize = 64;

/// The longest language or tag that can be a part of a tool's name.
const MAX_NAME_LEN: usize = 32;

/// A block or tag in the model's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextAction {
    /// The language of the block, or the name of the tag.
    name: String,
    code: String,
}

/// An action in a request, with the message that is its result.
#[derive(Debug)]
pub(super) struct ActedText {
    pub(super) action: TextAction,
    /// The index of the result in the items of the request.
    pub(super) result_at: usize,
    /// Digest of the action and its result.
    pub(super) digest: u64,
}

impl TextAction {
    /// The last block or tag in a text of the model.
    pub(super) fn in_text(text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT_BYTES {
            return None;
        }
        fenced(text).or_else(|| tagged(text))
    }

    pub(super) fn tool(&self) -> String {
        format!("{TOOL_PREFIX}{}", self.name)
    }

    pub(super) fn args(&self) -> Value {
        let is_shell = SHELLS.iter().any(|shell| self.name.contains(shell));
        json!({ if is_shell { "command" } else { "code" }: self.code })
    }
}

/// The last block between two lines of backquotes.
fn fenced(text: &str) -> Option<TextAction> {
    let (mut block, mut found) = (None, None);
    for line in text.lines() {
        let Some(language) = line.trim_end().strip_prefix("```") else {
            if let Some((_, code)) = &mut block {
                let code: &mut Vec<&str> = code;
                code.push(line);
            }
            continue;
        };
        match block.take() {
            None => block = Some((language.trim_start_matches('`').trim(), Vec::new())),
            Some(whole) => found = Some(whole),
        }
    }
    let (language, code) = found?;
    let name = language.split_whitespace().next().unwrap_or_default();
    let code = code.join("\n");
    let is_empty = code.trim().is_empty();
    Some(TextAction { name: plain_name(name).unwrap_or("block").to_owned(), code })
        .filter(|_| !is_empty)
}

/// The last text between a tag and its end: `<execute>ls</execute>`.
fn tagged(text: &str) -> Option<TextAction> {
    let (before, rest) = text.rsplit_once("</")?;
    let (name, _) = rest.split_once('>')?;
    let name = plain_name(name)?;
    let at = before.rfind(&format!("<{name}"))?;
    let (_, code) = before.get(at..)?.split_once('>')?;
    let code = code.trim().to_owned();
    (!code.is_empty()).then(|| TextAction { name: name.to_owned(), code })
}

/// The name, if it can be a part of a tool's name.
fn plain_name(name: &str) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-=.".contains(&byte);
    let is_name = !name.is_empty() && name.len() <= MAX_NAME_LEN && name.bytes().all(is_plain);
    is_name.then_some(name)
}

/// The actions in a request whose results are in it too. Empty if the request has other tool calls
/// or offers tools: then a block is only a text.
pub(super) fn find(request: &Request<'_>) -> Vec<ActedText> {
    let is_call = |item: &Item<'_>| !matches!(item, Item::Message { .. });
    if !request.tools.is_empty() || request.items.iter().any(is_call) {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    let mut forms: HashMap<String, usize> = HashMap::new();
    for (at, item) in request.items.iter().enumerate() {
        let Item::Message { role: Role::Assistant, text } = item else { continue };
        let Some((result_at, answer)) = answer_to(&request.items, at) else { continue };
        let (said, answer) = (text_of(text), text_of(answer));
        let Some(action) = TextAction::in_text(&said) else { continue };
        let form: String = answer.trim_start().chars().take(FORM_CHARS).collect();
        let count = forms.entry(form.clone()).or_default();
        *count = count.saturating_add(1);
        let digest = xxh3_64(format!("{said}\0{answer}").as_bytes());
        let is_result = begins_like_result(&answer);
        pairs.push((ActedText { action, result_at, digest }, form, is_result));
    }
    let is_acted = |(_, form, is_result): &(ActedText, String, bool)| {
        *is_result || forms.get(form).is_some_and(|count| *count > 1)
    };
    pairs.into_iter().filter(is_acted).map(|(pair, ..)| pair).collect()
}

/// The message of the client that answers the model's message at this index, with its own index.
///
/// Some clients answer themselves in between: aider says that it has updated the files, writes "Ok."
/// in the model's name, and then sends the output of the tests.
fn answer_to<'r, 'a>(items: &'r [Item<'a>], at: usize) -> Option<(usize, &'r RawValue)> {
    let mut rest = items.iter().enumerate().skip(at.saturating_add(1));
    let (mut found, mut answer) = (0, None);
    while let Some((at, Item::Message { role, text })) = rest.next() {
        if *role == Role::Assistant || is_client_note(text) {
            break;
        }
        (found, answer) = (at, Some(*text));
        match rest.next() {
            Some((_, Item::Message { role: Role::Assistant, text }))
                if is_filler(&text_of(text)) => {}
            _ => break,
        }
    }
    answer.map(|answer| (found, answer))
}

fn is_filler(text: &str) -> bool {
    text.len() <= MAX_FILLER_BYTES && TextAction::in_text(text).is_none()
}

fn begins_like_result(text: &str) -> bool {
    let start = text.trim_start_matches(|char: char| !char.is_alphanumeric());
    let start: String = start.chars().take(FORM_CHARS).flat_map(char::to_lowercase).collect();
    RESULT_BEGINNINGS.iter().any(|beginning| start.starts_with(beginning))
}
