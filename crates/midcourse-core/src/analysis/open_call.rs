//! A tool call that has begun: what its arguments say, and how it becomes a call that has ended.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scratch;
use super::call::{CallStatus, Change, Marks, ToolInvoked};
use super::config::TrajectoryAnalysisConfig;
use crate::digest::Digest;
use crate::record::CallId;
use crate::text::{
    ArgsView, EXCERPT_MAX_BYTES, ErrorClass, ErrorSignature, Excerpt, SafeName, strip_volatile,
    write_canonical,
};
use crate::time::Timestamp;

/// What is looked at of a long result for its stripped form: its beginning and its end.
const ANSWER_HEAD_BYTES: usize = 1024;
const ANSWER_TAIL_BYTES: usize = 1024;

/// The longest tool name that is kept, in bytes.
const TOOL_NAME_MAX: usize = 128;

/// Answers that say only that something was done, whichever tool gives them.
const DONE: [&str; 8] = ["ok", "ok.", "done", "done.", "success", "true", "null", "{}"];

/// An answer this short from a tool that may have changed something says only "done".
const BARE_ANSWER_BYTES: usize = 24;

/// A tool call that has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenCall {
    pub(super) call_id: Digest,
    tool: CompactString,
    raw: Digest,
    question: Digest,
    target: Option<Digest>,
    target_name: Option<SafeName>,
    change: Option<Change>,
    excerpt: Excerpt,
    marks: Marks,
    started_at: Timestamp,
    pub(super) turn: u64,
}

impl OpenCall {
    pub(super) fn new(
        call_id: &CallId,
        tool: &str,
        args: &Value,
        at: Timestamp,
        config: &TrajectoryAnalysisConfig,
        scratch: &mut Scratch,
    ) -> Self {
        let tools = &config.tools;
        let mut marks = Marks::default();
        let view = ArgsView::of(args);
        marks.set(Marks::WRITES, tools.writes(tool, view));
        marks.set(Marks::WAITS, tools.waits(tool, view));
        marks.set(Marks::SHELL, view.command.is_some());
        let target = view.target;

        scratch.text.clear();
        write_canonical(args, |key| tools.is_volatile(tool, view, key), &mut scratch.text);
        scratch.stripped.clear();
        let is_stripped = strip_volatile(&scratch.text, false, &mut scratch.stripped);
        let name = Digest::of(tool.as_bytes());
        let raw = name.then(&scratch.text);
        Self {
            call_id: Digest::of(call_id.as_str().as_bytes()),
            tool: bounded_name(tool),
            raw,
            question: if is_stripped { name.then(&scratch.stripped) } else { raw },
            target: target.map(|target| Digest::of(target.as_bytes())),
            target_name: target.map(SafeName::of),
            change: if marks.any(Marks::WRITES) { change_of(view) } else { None },
            excerpt: excerpt_of(&scratch.text),
            marks,
            started_at: at,
            turn: 0,
        }
    }

    /// A call of which only the end was seen.
    pub(super) fn unseen(
        call_id: &CallId,
        tool: &str,
        at: Timestamp,
        config: &TrajectoryAnalysisConfig,
        scratch: &mut Scratch,
    ) -> Self {
        let mut open = Self::new(call_id, tool, &Value::Null, at, config, scratch);
        // What it was asked is not known, so it is no repetition of anything.
        open.raw = open.raw.with(open.call_id);
        open.question = open.raw;
        open
    }

    pub(super) fn pending(&self) -> PendingToolCall<'_> {
        PendingToolCall {
            tool: &self.tool,
            args_excerpt: self.excerpt.as_str(),
            started_at: self.started_at,
        }
    }

    pub(super) fn end(
        mut self,
        result: &str,
        is_error: bool,
        seq: u64,
        at: Timestamp,
        scratch: &mut Scratch,
    ) -> ToolInvoked {
        let status = if is_error {
            CallStatus::Error(ErrorSignature::of(result, &mut scratch.text))
        } else {
            CallStatus::Ok
        };
        let text = result.as_bytes();
        let whole = Digest::of(text);
        // An error is told apart by its signature, not by its answer.
        let answer =
            if is_error { whole } else { answer_digest(text, whole, &mut scratch.stripped) };
        self.marks.set(Marks::BARE, !is_error && self.is_bare(result));
        ToolInvoked {
            call_index: 0,
            prompt: 0,
            call_id: self.call_id,
            turn: self.turn,
            ended_seq: seq,
            ended_at: at,
            took_ms: u64::try_from(at.since(self.started_at).as_millis()).unwrap_or(u64::MAX),
            status,
            marks: self.marks,
            raw: self.raw,
            question: self.question,
            answer,
            target: self.target,
            change: self.change,
            answer_bytes: text.len() as u64,
            args_excerpt: self.excerpt,
            result_excerpt: Excerpt::of(result),
            target_name: self.target_name,
            tool: self.tool,
        }
    }

    pub(super) fn deny(
        self,
        reason: &str,
        seq: u64,
        at: Timestamp,
        scratch: &mut Scratch,
    ) -> ToolInvoked {
        let mut call = self.end(reason, true, seq, at, scratch);
        if let CallStatus::Error(signature) = call.status {
            // Refusals of one tool are one thing, in whatever words.
            let digest = Digest::of(b"denied").then(call.tool.as_bytes());
            call.status = CallStatus::Denied(ErrorSignature {
                digest,
                class: match signature.class {
                    ErrorClass::UnknownTool => ErrorClass::UnknownTool,
                    _ => ErrorClass::Permission,
                },
            });
        }
        call
    }

    /// Nothing, or a few words from a tool that may have changed something.
    fn is_bare(&self, result: &str) -> bool {
        let text = result.trim();
        let length = text.len();
        length == 0
            || DONE.iter().any(|word| text.eq_ignore_ascii_case(word))
            || (length <= BARE_ANSWER_BYTES && self.marks.any(Marks::SHELL))
            || self.marks.any(Marks::WRITES)
    }
}

/// A tool call that has begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingToolCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The beginning of the arguments. Hostile: never to be said.
    pub args_excerpt: &'a str,
    /// When it began.
    pub started_at: Timestamp,
}

/// A tool's name in little room; a long one is cut and keeps a digest to tell it from others.
fn bounded_name(tool: &str) -> CompactString {
    if tool.len() <= TOOL_NAME_MAX {
        return tool.into();
    }
    let start = tool.get(..tool.floor_char_boundary(TOOL_NAME_MAX - 17)).unwrap_or_default();
    format!("{start}~{}", Digest::of(tool.as_bytes())).into()
}

fn excerpt_of(bytes: &[u8]) -> Excerpt {
    let end = bytes.len().min(2 * EXCERPT_MAX_BYTES);
    match std::str::from_utf8(bytes.get(..end).unwrap_or_default()) {
        Ok(text) => Excerpt::of(text),
        // Cut within a character, far behind what an excerpt takes.
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            Excerpt::of(std::str::from_utf8(valid).unwrap_or_default())
        }
    }
}

/// The digest of a result without what changes by itself, given the one of the whole result.
fn answer_digest(text: &[u8], whole: Digest, scratch: &mut Vec<u8>) -> Digest {
    scratch.clear();
    if text.len() <= ANSWER_HEAD_BYTES + ANSWER_TAIL_BYTES {
        return if strip_volatile(text, true, scratch) { Digest::of(scratch) } else { whole };
    }
    let (head, rest) = text.split_at(ANSWER_HEAD_BYTES);
    let (middle, tail) = rest.split_at(rest.len() - ANSWER_TAIL_BYTES);
    // Ids in the middle of a long text are not looked for, but its words still count.
    let mut digest = Digest::of(middle);
    for end in [head, tail] {
        scratch.clear();
        let is_stripped = strip_volatile(end, true, scratch);
        digest = digest.then(if is_stripped { scratch } else { end });
    }
    digest
}

/// What a writing call puts in place of what.
fn change_of(args: ArgsView<'_>) -> Option<Change> {
    let digest = |text: &str| Digest::of(text.as_bytes());
    let to = args.new_text.or(args.command).map(digest)?;
    Some(Change { from: args.old_text.map(digest), to })
}
