//! The content of an entry as blocks: texts, JSON values and diffs. Blocks are made from the stored
//! JSON and not from typed payloads, so every record has some, also one of a kind that this release
//! does not know.

use midcourse::{Entry, StoredRecord};
use serde::Serialize;
use serde_json::{Map, Value};

use super::cut::{cut, cut_json};
use super::diff::{self, DiffLine, FileDiff};

/// A part of an entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Block {
    label: &'static str,
    #[serde(flatten)]
    content: Content,
    /// The length of the whole content, in characters.
    length: usize,
    is_cut: bool,
    /// The JSON pointer to the whole content in the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
}

/// What a block shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Content {
    /// May contain any characters, also escape sequences for a terminal.
    Text {
        text: String,
    },
    Json {
        value: Value,
    },
    Diff {
        path: Option<String>,
        lines: Vec<DiffLine>,
    },
}

/// Results up to this length are shown as JSON if they are JSON.
const MAX_JSON_BYTES: usize = 1024 * 1024;

/// The blocks of an entry; each has at most about `max` characters.
pub(super) fn blocks_of(entry: &Entry, max: usize) -> Vec<Block> {
    let mut blocks = Blocks { blocks: Vec::new(), max };
    let details = entry.end.as_ref().and_then(|end| end.value.pointer("/result/details"));
    blocks.add_record(&entry.record, details);
    if let Some(end) = &entry.end {
        blocks.add_record(end, None);
    }
    let records = [Some(&entry.record), entry.end.as_ref()].into_iter().flatten();
    for conflict in records.flat_map(|record| &record.conflicts) {
        blocks.add_json("Conflicting report", conflict, None);
    }
    blocks.blocks
}

struct Blocks {
    blocks: Vec<Block>,
    max: usize,
}

impl Blocks {
    fn add_record(&mut self, record: &StoredRecord, details: Option<&Value>) {
        let value = &record.value;
        match record.kind() {
            "tool_started" => self.add_arguments(value, details),
            "tool_ended" => self.add_result(value),
            "message_appended" => self.add_message(value),
            "feedback_delivered" => self.add_text_at("Message", value, "/text"),
            "guidance_delivered" => {
                self.add_text_at("Message", value, "/guidance/injection/content");
            }
            "denied" => self.add_text_at("Refused", value, "/reason"),
            "config_applied" => self.add_text_at("Configuration", value, "/config"),
            "unread" => self.add_text_at("Raw", value, "/raw"),
            // Their titles say everything.
            "run_started" | "turn_started" | "outcome" | "deadline_set" | "file_created"
            | "proxy_attached" | "resumed" | "gap" => {}
            _ => self.add_rest(value),
        }
    }

    /// The arguments of a call: diffs, a command as text, and what is left as JSON.
    fn add_arguments(&mut self, value: &Value, details: Option<&Value>) {
        let tool = value.get("tool_name").and_then(Value::as_str).unwrap_or_default();
        let fields = match value.get("args") {
            None | Some(Value::Null) => return,
            Some(Value::Object(fields)) => fields,
            Some(Value::String(text)) => return self.add_text("Arguments", text, "/args".into()),
            Some(other) => return self.add_json("Arguments", other, Some("/args".into())),
        };
        let mut shown: Vec<&str> = Vec::new();
        if let Some(found) = diff::of_arguments(tool, fields, details, self.max) {
            let name = found.names.last().copied().unwrap_or_default();
            let pointer = (found.files.len() == 1).then(|| format!("/args/{name}"));
            self.add_files("Change", found.files, pointer.as_deref());
            shown = found.names;
        } else if let Some((name, command)) = ["command", "cmd"]
            .into_iter()
            .find_map(|name| Some((name, fields.get(name)?.as_str()?)))
        {
            self.add_plain("Command", command, Some(format!("/args/{name}")));
            shown.push(name);
        }
        let is_rest = |(name, _): &(&String, &Value)| !shown.contains(&name.as_str());
        let rest: Map<String, Value> = fields
            .iter()
            .filter(is_rest)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !rest.is_empty() {
            self.add_json("Arguments", &Value::Object(rest), Some("/args".into()));
        }
    }

    fn add_result(&mut self, value: &Value) {
        let Some(result) = value.get("result") else { return self.add_rest(value) };
        self.add_parts("Result", result.get("content"), "/result/content");
        if let Some(details) = result.get("details").filter(|it| !it.is_null()) {
            self.add_json("Details", details, Some("/result/details".into()));
        }
    }

    fn add_message(&mut self, value: &Value) {
        let Some(message) = value.get("message") else { return self.add_rest(value) };
        let content = message.get("content");
        match message.get("role").and_then(Value::as_str) {
            Some("user") => self.add_parts("User", content, "/message/content"),
            Some("system") => self.add_parts("System", content, "/message/content"),
            Some("tool_result") => self.add_parts("Result", content, "/message/content"),
            Some("assistant") => {
                self.add_parts("Text", content, "/message/content");
                self.add_text_at("Error", value, "/message/error_message");
            }
            _ => self.add_json("Raw", message, Some("/message".into())),
        }
    }

    /// A text, or a list of parts: texts, reasoning, images and the names of called tools.
    fn add_parts(&mut self, label: &'static str, content: Option<&Value>, pointer: &str) {
        let parts = match content {
            None | Some(Value::Null) => return,
            Some(Value::String(text)) => {
                return self.add_plain(label, text, Some(pointer.to_owned()));
            }
            Some(Value::Array(parts)) => parts,
            Some(other) => return self.add_json(label, other, Some(pointer.to_owned())),
        };
        let mut calls: Vec<&str> = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let at = |field: &str| format!("{pointer}/{index}/{field}");
            let text = |field: &str| part.get(field).and_then(Value::as_str);
            match (text("type").unwrap_or_default(), text("text")) {
                ("text", Some(text)) if label == "Result" => {
                    self.add_text(label, text, at("text"));
                }
                ("text", Some(text)) => self.add_plain(label, text, Some(at("text"))),
                ("thinking" | "reasoning", Some(text)) => {
                    self.add_plain("Thinking", text, Some(at("text")));
                }
                ("image", _) => {
                    let source = text("alt").or(text("source")).unwrap_or_default();
                    self.add_plain("Image", source, Some(at("source")));
                }
                ("tool_call", _) => calls.extend(text("name")),
                _ => self.add_json(label, part, Some(format!("{pointer}/{index}"))),
            }
        }
        if !calls.is_empty() {
            // The calls are entries of their own.
            let (label, text) = ("Calls", calls.join(", "));
            self.add_plain(label, &text, None);
        }
    }

    /// The fields of a record whose kind has no blocks of its own.
    fn add_rest(&mut self, value: &Value) {
        let Value::Object(fields) = value else {
            return self.add_json("Raw", value, Some(String::new()));
        };
        let mut fields = fields.clone();
        fields.shift_remove("kind");
        if !fields.is_empty() {
            self.add_json("Record", &Value::Object(fields), Some(String::new()));
        }
    }

    fn add_text_at(&mut self, label: &'static str, value: &Value, pointer: &str) {
        match value.pointer(pointer) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => self.add_plain(label, text, Some(pointer.to_owned())),
            Some(other) => self.add_json(label, other, Some(pointer.to_owned())),
        }
    }

    /// Adds a text: as diffs if it is a patch, and as JSON if it is JSON.
    fn add_text(&mut self, label: &'static str, text: &str, pointer: String) {
        if let Some((before, files)) = diff::of_unified_diff(text, self.max) {
            if !before.trim().is_empty() {
                self.add_plain(label, before, Some(pointer.clone()));
            }
            return self.add_files("Diff", files, Some(&pointer));
        }
        let is_json = text.len() <= MAX_JSON_BYTES && text.trim_start().starts_with(['{', '[']);
        match is_json.then(|| serde_json::from_str::<Value>(text)) {
            Some(Ok(value)) => self.add_json(label, &value, Some(pointer)),
            _ => self.add_plain(label, text, Some(pointer)),
        }
    }

    fn add_plain(&mut self, label: &'static str, text: &str, pointer: Option<String>) {
        if text.is_empty() {
            return;
        }
        let cut = cut(text, self.max);
        let content = Content::Text { text: cut.text.to_owned() };
        let (length, is_cut) = (cut.length, cut.is_cut);
        self.blocks.push(Block { label, content, length, is_cut, pointer });
    }

    fn add_json(&mut self, label: &'static str, value: &Value, pointer: Option<String>) {
        let (value, length, is_cut) = cut_json(value, self.max);
        self.blocks.push(Block {
            label,
            content: Content::Json { value },
            length,
            is_cut,
            pointer,
        });
    }

    fn add_files(&mut self, label: &'static str, files: Vec<FileDiff>, pointer: Option<&str>) {
        let mut left = self.max;
        for mut file in files {
            // All files of a patch together have at most `max` characters.
            let (mut shown, lines) = (0_usize, file.lines.len());
            file.lines.retain(|(_, text)| {
                let is_shown = shown < left;
                shown = shown.saturating_add(text.chars().count().saturating_add(1));
                is_shown
            });
            let is_cut = file.is_cut || file.lines.len() < lines;
            left = left.saturating_sub(shown);
            let content = Content::Diff { path: file.path, lines: file.lines };
            let pointer = pointer.map(ToOwned::to_owned);
            self.blocks.push(Block { label, content, length: file.length, is_cut, pointer });
        }
    }
}
