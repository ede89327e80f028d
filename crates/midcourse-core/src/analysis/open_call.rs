//! A tool call that has begun: what its arguments say, and how it becomes a call that has ended.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scratch;
use super::call::{Act, CallStatus, Edit, Marks, ToolInvoked};
use super::config::TrajectoryAnalysisConfig;
use super::tools::NameKinds;
use crate::digest::Digest;
use crate::record::CallId;
use crate::text::{
    ArgsView, CommandView, ErrorClass, ErrorSignature, Excerpt, MAX_EXCERPT_BYTES, SafeName,
    ShortResult, looks_failed, reports_failing_exit, strip_volatile, write_canonical,
    write_without_layout,
};
use crate::time::Timestamp;

/// Results up to this length are stripped as a whole.
const ANSWER_BYTES: usize = 2048;

/// What is looked at of a longer result for its stripped template: its beginning and its end.
const ANSWER_HEAD_BYTES: usize = 512;
const ANSWER_TAIL_BYTES: usize = 512;

/// The longest arguments that are looked at for what does not change their meaning, in bytes.
const QUESTION_BYTES: usize = 2048;

/// The longest tool name that is kept, in bytes.
const TOOL_NAME_MAX: usize = 128;

/// Answers that say only that something was done, whichever tool gives them.
const DONE: [&str; 8] = ["ok", "ok.", "done", "done.", "success", "true", "null", "{}"];

/// An answer this short from a tool that may have changed something says only "done".
const BARE_ANSWER_BYTES: usize = 24;

/// An answer this short from a tool that writes says only that it has written.
const WRITTEN_ANSWER_BYTES: usize = 240;

/// A tool call that has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenCall {
    pub(super) call_id: Digest,
    tool: CompactString,
    exact_digest: Digest,
    call_digest: Digest,
    target: Option<Digest>,
    target_name: Option<SafeName>,
    act: Option<Act>,
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
        let kinds = scratch.names.kinds(tool);
        let view = ArgsView::of(args, kinds.has(NameKinds::SHELL));
        let command = view.command.as_deref().map(CommandView::of);
        let command = command.as_ref();
        marks.set(Marks::WRITES, tools.writes(tool, kinds, &view, command));
        marks.set(Marks::WAITS, tools.waits(tool, kinds, &view, command));
        marks.set(Marks::SHELL, command.is_some());
        marks.set(
            Marks::IDLE,
            kinds.has(NameKinds::PLANS) || command.is_some_and(|c| c.only_prints),
        );
        marks.set(
            Marks::UNDOES,
            command.is_some_and(|c| c.reverts) || view.command.as_deref() == Some("undo_edit"),
        );
        marks.set(Marks::CLOCK, command.is_some_and(|c| c.prints_clock));
        marks.set(Marks::MEASURES, command.is_some_and(|c| c.is_benchmark));
        marks.set(Marks::PROCESSES, command.is_some_and(|c| c.lists_processes));
        let is_address = view.target.is_some_and(|target| target.contains("://"));
        marks.set(Marks::REMOTE, is_address || command.is_some_and(|c| c.is_remote));
        marks.set(Marks::LOOKS, command.is_some_and(|c| c.only_reads));
        marks.set(Marks::HIDES_FAILURE, command.is_some_and(|c| c.hides_failure));
        let target = view.target.or(command.and_then(|command| command.file));

        scratch.text.clear();
        write_canonical(args, |key| tools.is_volatile(tool, &view, key), &mut scratch.text);
        let name = Digest::of(tool.as_bytes());
        let exact_digest = name.then(&scratch.text);
        let call_digest = match command {
            Some(command) => name.with(command.normalized),
            // Another change is another step, and long arguments are content: to the letter.
            None if marks.any(Marks::WRITES) || scratch.text.len() > QUESTION_BYTES => exact_digest,
            None => {
                scratch.plain.clear();
                write_without_layout(&scratch.text, &mut scratch.plain);
                scratch.stripped.clear();
                let is_stripped = strip_volatile(&scratch.plain, false, &mut scratch.stripped);
                name.then(if is_stripped { &scratch.stripped } else { &scratch.plain })
            }
        };
        let act = act_of(kinds, &view, command, marks, call_digest);
        if let Some(Act::Edit(Edit { from: Some(from), to })) = act {
            marks.set(Marks::IDLE, from == to);
        }
        Self {
            call_id: Digest::of(call_id.as_str().as_bytes()),
            tool: bounded_name(tool),
            exact_digest,
            call_digest,
            target: target.map(|target| Digest::of(target.as_bytes())),
            target_name: target.map(SafeName::of),
            act,
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
        open.exact_digest = open.exact_digest.with(open.call_id);
        open.call_digest = open.exact_digest;
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
        let seeks = matches!(self.act, Some(Act::Search(_)));
        let said = ShortResult::of(result, seeks);
        // Searching programs fail where they find nothing; that is an answer. And a pipe hides that
        // something failed.
        let finds_nothing = seeks && self.marks.any(Marks::SHELL) && is_bare_exit(result);
        let is_hidden = self.marks.any(Marks::HIDES_FAILURE) && self.asks_no_file();
        let is_told =
            self.marks.any(Marks::SHELL) && self.asks_no_file() && reports_failing_exit(result);
        let is_error =
            (is_error || is_told || (is_hidden && looks_failed(result))) && !finds_nothing;
        let status = if is_error && said.refused {
            CallStatus::Denied(refusal_of(&self.tool, ErrorClass::Permission))
        } else if is_error {
            let asked = self.excerpt.as_str();
            CallStatus::Error(ErrorSignature::of(result, asked, &mut scratch.text))
        } else {
            CallStatus::Ok
        };
        let found_nothing = seeks && !is_error && (said.nothing_found || is_bare_exit(result));
        self.marks.set(Marks::NOTHING, found_nothing);
        self.marks.set(Marks::PENDING, said.pending && !is_error);
        self.marks.set(Marks::NEGATIVE, said.negative && !is_error);
        // What a file or a search shows about a service is content.
        self.marks.set(Marks::DOWN, said.service_down && !is_error && self.asks_a_service());
        self.marks.set(Marks::IDLE, said.unchanged && self.marks.any(Marks::WRITES));
        let text = result.as_bytes();
        let result_digest = if found_nothing {
            Digest::of(b"nothing")
        } else if self.marks.any(Marks::CLOCK) && !is_error {
            Digest::of(b"a clock's")
        } else {
            let whole = Digest::of(text);
            // An error is told apart by its signature, and a measurement to the letter.
            if is_error || self.marks.any(Marks::MEASURES) {
                whole
            } else if self.marks.any(Marks::PROCESSES) {
                scratch.stripped.clear();
                scratch.stripped.extend(text.iter().filter(|byte| !byte.is_ascii_digit()));
                Digest::of(&scratch.stripped)
            } else {
                answer_digest(text, whole, &mut scratch.stripped)
            }
        };
        self.marks.set(Marks::BARE, !is_error && !seeks && !said.negative && self.is_bare(result));
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
            exact_digest: self.exact_digest,
            call_digest: self.call_digest,
            result_digest,
            target: self.target,
            act: self.act,
            result_bytes: text.len() as u64,
            args_excerpt: self.excerpt,
            result_excerpt: Excerpt::of(result),
            target_name: self.target_name,
            tool: self.tool,
        }
    }

    pub(super) fn deny(
        mut self,
        reason: &str,
        seq: u64,
        at: Timestamp,
        scratch: &mut Scratch,
    ) -> ToolInvoked {
        // It has not run: whatever it was after, it has found nothing and shown nothing.
        self.act = None;
        let mut call = self.end(reason, true, seq, at, scratch);
        let class = match call.status.error().map(|error| error.class) {
            Some(ErrorClass::UnknownTool) => ErrorClass::UnknownTool,
            _ => ErrorClass::Permission,
        };
        call.status = CallStatus::Denied(refusal_of(&call.tool, class));
        call
    }

    /// Nothing, or a few words from a tool that may have changed something.
    fn is_bare(&self, result: &str) -> bool {
        let text = result.trim();
        let length = text.len();
        length == 0
            || DONE.iter().any(|word| text.eq_ignore_ascii_case(word))
            || (length <= BARE_ANSWER_BYTES && self.marks.any(Marks::SHELL))
            || (length <= WRITTEN_ANSWER_BYTES && self.marks.any(Marks::WRITES))
    }

    /// Whether its answer is not the content of a file or an index.
    const fn asks_no_file(&self) -> bool {
        !matches!(self.act, Some(Act::Read(..) | Act::Search(_)))
    }

    /// Whether it asks something that can be down.
    const fn asks_a_service(&self) -> bool {
        let is_local = (self.marks.any(Marks::WRITES) && self.target.is_some())
            || (self.marks.any(Marks::SHELL) && self.marks.any(Marks::LOOKS));
        self.asks_no_file() && (!is_local || self.marks.any(Marks::REMOTE))
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
    let end = bytes.len().min(2 * MAX_EXCERPT_BYTES);
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
    if text.len() <= ANSWER_BYTES {
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

/// What a call is after.
fn act_of(
    name: NameKinds,
    view: &ArgsView<'_>,
    command: Option<&CommandView<'_>>,
    marks: Marks,
    call_digest: Digest,
) -> Option<Act> {
    let digest = |text: &str| Digest::of(text.as_bytes());
    if marks.any(Marks::UNDOES) {
        return Some(Act::Edit(Edit { from: None, to: Digest::of(b"undone") }));
    }
    if marks.any(Marks::WRITES) {
        let to = view.new_text.or(view.command.as_deref()).map(digest)?;
        return Some(Act::Edit(Edit { from: view.old_text.map(digest), to }));
    }
    if let Some(command) = command {
        let shown = || command.lines.map(|(from, to)| Act::Read(from, to));
        let sought = command.search_term.map_or(call_digest, digest);
        return if command.searches { Some(Act::Search(sought)) } else { shown() };
    }
    if let Some((from, to)) = view.lines().filter(|_| view.target.is_some()) {
        return Some(Act::Read(from, to));
    }
    match view.search_term {
        Some(sought) => Some(Act::Search(digest(sought))),
        None if name.has(NameKinds::SEEKS) => Some(Act::Search(call_digest)),
        None if view.target.is_some() && name.has(NameKinds::SHOWS) => Some(Act::Read(1, u32::MAX)),
        None => None,
    }
}

/// Refusals of one tool are one thing, in whatever words.
fn refusal_of(tool: &str, class: ErrorClass) -> ErrorSignature {
    let digest = Digest::of(b"denied").then(tool.as_bytes());
    ErrorSignature { digest, template: digest, line: None, class }
}

/// Whether a failure says nothing but that something ended with 1.
fn is_bare_exit(result: &str) -> bool {
    let text = result.trim();
    text.len() <= 40
        && (text.is_empty()
            || text.strip_suffix('1').is_some_and(|text| {
                let text = text.to_ascii_lowercase();
                ["exit", "code", "status"].iter().any(|word| text.contains(word))
                    && !text.bytes().any(|byte| byte.is_ascii_digit())
            }))
}
