//! Logs of Inspect: a JSON object with `eval` and `samples`, or a zip file (`.eval`) with a JSON file
//! per sample.
//!
//! A sample is one run of the evaluated agent. Many logs evaluate a model that only answers a
//! question: such samples are not runs of agents, and are counted and left out.

mod sample;
mod zip;

use midcourse::Timestamp;
use serde_json::Value;

use super::chat_message::text_field;
use super::openai_chat::counted;
use crate::session_file::{Fate, Found, Head, Part, SessionFile, SessionReader, for_each_part};
use sample::read_sample;
use zip::{Archive, Entry};

/// Fields that contain nothing to record.
const IGNORED_FIELDS: [&str; 13] = [
    "error",
    "etag",
    "invalidated",
    "location",
    "log_updates",
    "metadata",
    "plan",
    "reductions",
    "results",
    "stats",
    "status",
    "tags",
    "version",
];

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    let has = |text: &str| memchr::memmem::find(head.bytes, text.as_bytes()).is_some();
    let is_archive = zip::is_archive(head.bytes)
        && (head.is_named(|name| name.ends_with(".eval")) || has("_journal/") || has("samples/"));
    is_archive || (!head.is_list && head.has_keys(&["eval", "status"]) && has("\"task\""))
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { modified: file.modified, stem: file.stem(), left_out: 0 })
}

struct Reader {
    modified: Timestamp,
    stem: String,
    /// Number of samples that are not runs of agents.
    left_out: u64,
}

/// What the log says about all of its samples.
#[derive(Debug, Default)]
struct Evaluation {
    task: String,
    /// Identifies the evaluation.
    id: String,
    model: Option<String>,
    /// The version of Inspect.
    version: Option<String>,
    /// When the evaluation began, or the time of the file.
    at: Timestamp,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        if zip::is_archive(bytes) {
            self.read_archive(bytes, found);
        } else {
            self.read_document(&String::from_utf8_lossy(bytes), found);
        }
    }

    fn end(&mut self, found: &mut Found) {
        if self.left_out > 0 {
            found.problem = Some(format!(
                "left out {} without a tool call or a second response: no run of an agent",
                counted(self.left_out, "sample")
            ));
        }
    }
}

impl Reader {
    fn evaluation(&self, eval: &Value) -> Evaluation {
        let text = |name: &str| Some(text_field(eval, name).to_owned()).filter(|it| !it.is_empty());
        let created = text("created").and_then(|date| crate::session_file::parse_time(&date));
        let id = text("eval_id").or_else(|| text("run_id")).unwrap_or_else(|| self.stem.clone());
        let version = eval.pointer("/packages/inspect_ai").and_then(Value::as_str);
        Evaluation {
            task: text("task").unwrap_or_else(|| "sample".to_owned()),
            id,
            model: text("model"),
            version: version.map(ToOwned::to_owned),
            at: created.unwrap_or(self.modified),
        }
    }

    fn read_document(&mut self, document: &str, found: &mut Found) {
        let mut evaluation = self.evaluation(&Value::Null);
        let mut samples = 0;
        // Where the latest part ends that could be read.
        let mut end = 0;
        let error = for_each_part(document, &["samples"], |part| {
            let (Part::Field(_, value) | Part::Element(_, _, value)) = part;
            let after = value.get().as_ptr().addr().saturating_add(value.get().len());
            end = after.saturating_sub(document.as_ptr().addr());
            match part {
                Part::Element(_, _, sample) => {
                    samples += 1;
                    self.left_out += u64::from(!read_sample(sample.get(), &evaluation, found));
                }
                Part::Field("eval", eval) => {
                    let eval = serde_json::from_str(eval.get()).unwrap_or_default();
                    evaluation = self.evaluation(&eval);
                    found.count("eval", Fate::Used);
                }
                Part::Field(name, _) => {
                    let is_known = IGNORED_FIELDS.contains(&name);
                    found.count(name, if is_known { Fate::Ignored } else { Fate::Unknown });
                }
            }
        });
        if let Some(error) = &error {
            found.invalid("(document)", format!("used only what comes before the error: {error}"));
            let rest = document.get(end..).filter(|_| end > 0).unwrap_or_default();
            if let Some(sample) = torn_sample(rest) {
                samples += 1;
                read_sample(sample, &evaluation, found);
            }
        }
        if samples == 0 {
            found.count("(no samples)", Fate::Ignored);
            found.problem.get_or_insert_with(|| "the log has no samples".to_owned());
        }
    }

    fn read_archive(&mut self, bytes: &[u8], found: &mut Found) {
        let mut archive = Archive::new(bytes);
        let entries = archive.entries();
        if let Some(problem) = archive.problem() {
            found.invalid("(archive)", problem);
        }
        let mut evaluation = self.evaluation(&Value::Null);
        // `header.json` is written at the end of an evaluation, and has the same.
        let about = |entry: &&Entry<'_>| {
            matches!(entry.name.as_str(), "_journal/start.json" | "header.json")
        };
        if let Some(Ok(about)) = entries.iter().find(about).map(|entry| archive.unpack(entry)) {
            let about: Value = serde_json::from_slice(&about).unwrap_or_default();
            evaluation = self.evaluation(about.get("eval").unwrap_or(&Value::Null));
        }
        let mut samples = 0;
        for entry in &entries {
            if !entry.name.starts_with("samples/") {
                let is_known = entry.name.starts_with("_journal/")
                    || matches!(
                        entry.name.as_str(),
                        "header.json" | "summaries.json" | "reductions.json"
                    );
                found.count(&entry.name, if is_known { Fate::Ignored } else { Fate::Unknown });
                continue;
            }
            samples += 1;
            match archive.unpack(entry) {
                Ok(sample) => {
                    let sample = String::from_utf8_lossy(&sample);
                    self.left_out += u64::from(!read_sample(&sample, &evaluation, found));
                }
                Err(problem) => found.invalid("sample", format!("{}: {problem}", entry.name)),
            }
        }
        if samples == 0 {
            found.count("(no samples)", Fate::Ignored);
            found.problem.get_or_insert_with(|| "the log has no samples".to_owned());
        }
    }
}

/// The sample at which a document is cut off. `rest` is what comes after the last part that could be
/// read: a sample, or a field before the samples.
fn torn_sample(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
    if rest.starts_with('{') {
        return Some(rest);
    }
    let list = rest.strip_prefix("\"samples\"")?.trim_start().strip_prefix(':')?;
    list.trim_start().strip_prefix('[').map(str::trim_start).filter(|rest| rest.starts_with('{'))
}
