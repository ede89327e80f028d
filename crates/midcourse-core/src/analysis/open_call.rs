//! A tool call that has started: what its arguments say, and how its result turns it into a
//! [`ToolInvoked`].
//!
//! All text of a call is read here, once; afterwards only digests, flags and excerpts are kept.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scratch;
use super::activity::{activity_of, named_object};
use super::call::{Act, CallStatus, Edit, ToolInvoked};
use super::call_failure::{CallEnd, add_result_flags};
use super::call_flags::CallFlags;
use super::config::TrajectoryAnalysisConfig;
use super::preamble::Preamble;
use super::result_digest::{
    MAX_CONFIRMATION_BYTES, measured_by, normalized_digest, page_of, unordered_digest,
};
use super::tools::NameTraits;
use crate::digest::Digest;
use crate::record::CallId;
use crate::subject::Activity;
use crate::text::{
    ArgsView, CommandView, ErrorSignature, Excerpt, FailedCall, FailureKind, MAX_EXCERPT_BYTES,
    ResultOf, SafeName, ShortResult, counts_done, is_empty_answer, is_error_message,
    is_negative_reply, is_silence, names_placeholder, strip_volatile, write_canonical,
    write_without_layout,
};
use crate::time::Timestamp;

/// If arguments are at most this many bytes long, they are compared without the ids and times in
/// them. Longer arguments, such as the content of a file, are compared exactly.
const MAX_NORMALIZED_ARGS_BYTES: usize = 2048;

/// The longest tool name that is kept, in bytes.
const MAX_TOOL_NAME_BYTES: usize = 128;

/// Results that mean no more than "done", whatever the tool.
const DONE_RESULTS: [&str; 8] = ["ok", "ok.", "done", "done.", "success", "true", "null", "{}"];

/// If the result of a shell command is at most this many bytes long, it counts as no more than
/// "done".
const MAX_BARE_SHELL_RESULT_BYTES: usize = 24;

/// If the result of a call that writes is at most this many bytes long, it counts as no more than
/// "done": it usually only confirms the write.
const MAX_BARE_WRITE_RESULT_BYTES: usize = 240;

/// A tool call that has started and not ended, reduced to what is needed when it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenCall {
    pub(super) call_id: Digest,
    tool: CompactString,
    exact_digest: Digest,
    call_digest: Digest,
    target: Option<Digest>,
    target_name: Option<SafeName>,
    act: Option<Act>,
    activity: Activity,
    object: Option<CompactString>,
    subject: Option<Digest>,
    excerpt: Excerpt,
    flags: CallFlags,
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
        let mut flags = CallFlags::default();
        let name_traits = scratch.tool_names.traits(tool);
        let view = ArgsView::of(args, name_traits.has(NameTraits::SHELL));
        let command = view.shell_command().map(CommandView::of);
        let command = command.as_ref();
        flags.set(CallFlags::WRITES, tools.writes(tool, name_traits, &view, command));
        flags.set(CallFlags::WAITS, tools.waits(tool, name_traits, &view, command));
        add_result_flags(&mut flags, tool, name_traits, &view, command);
        flags.set(
            CallFlags::IDLE,
            name_traits.has(NameTraits::PLANS) || command.is_some_and(|c| c.only_prints),
        );
        flags.set(
            CallFlags::REVERTS,
            command.is_some_and(|c| c.reverts) || view.command.as_deref() == Some("undo_edit"),
        );
        // A count of 0 is information. It does not mean that a search found nothing.
        flags.set(CallFlags::COUNTS, view.search_term.is_some_and(counts));
        flags.set(CallFlags::PRINTS_CLOCK, command.is_some_and(|c| c.prints_clock));
        flags.set(CallFlags::UI, name_traits.has(NameTraits::UI) && command.is_none());
        flags.set(CallFlags::ORIENTS, command.is_some_and(|c| c.orients));
        flags.set(CallFlags::IS_BENCHMARK, command.is_some_and(|c| c.is_benchmark));
        flags.set(CallFlags::LISTS_PROCESSES, command.is_some_and(|c| c.lists_processes));
        let is_url = view.target.is_some_and(|target| target.contains("://"));
        flags.set(CallFlags::REMOTE, is_url || command.is_some_and(|c| c.is_remote));
        let target = view.target.or(command.and_then(|command| command.file));

        scratch.text.clear();
        write_canonical(args, |key| tools.is_volatile(tool, &view, key), &mut scratch.text);
        let name = Digest::of(tool.as_bytes());
        let exact_digest = name.then(&scratch.text);
        let call_digest = match command {
            Some(command) => name.with(command.normalized),
            // Writes are compared exactly: two different edits are two steps, however similar they
            // are.
            None if flags.any(CallFlags::WRITES)
                || scratch.text.len() > MAX_NORMALIZED_ARGS_BYTES =>
            {
                exact_digest
            }
            None => {
                scratch.plain.clear();
                write_without_layout(&scratch.text, &mut scratch.plain);
                scratch.stripped.clear();
                let is_stripped = strip_volatile(&scratch.plain, false, &mut scratch.stripped);
                let text = if is_stripped { &scratch.stripped } else { &scratch.plain };
                // `strip_volatile` removes ids. If an id names the object of the call, `identity`
                // adds it again.
                name.then(text).with(view.identity)
            }
        };
        let act = act_of(name_traits, &view, command, flags, call_digest);
        let activity = activity_of(name_traits, &view, command, act, flags);
        if let Some(Act::Edit(Edit { from: Some(from), to })) = act {
            flags.set(CallFlags::IDLE, from == to);
        }
        Self {
            call_id: Digest::of(call_id.as_str().as_bytes()),
            tool: bounded_name(tool),
            exact_digest,
            call_digest,
            target: target.map(|target| Digest::of(target.as_bytes())),
            target_name: target.map(SafeName::of),
            act,
            activity,
            object: named_object(activity, &view, command),
            subject: match (command, view.target) {
                (Some(command), _) => command.place,
                (None, Some(target)) => Some(Digest::of(target.as_bytes())),
                (None, None) => view.subject,
            },
            excerpt: excerpt_of(&scratch.text),
            flags,
            started_at: at,
            turn: 0,
        }
    }

    /// Creates the open call for a call of which only the end was recorded, so that its arguments
    /// are unknown.
    pub(super) fn without_start(
        call_id: &CallId,
        tool: &str,
        at: Timestamp,
        config: &TrajectoryAnalysisConfig,
        scratch: &mut Scratch,
    ) -> Self {
        let mut open = Self::new(call_id, tool, &Value::Null, at, config, scratch);
        // Two calls with unknown arguments must not count as equal, so the call's id is added to
        // the digest, which makes it unique.
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

    /// Ends the call. `error_flag` is what the host reports; `None` if it reports nothing.
    pub(super) fn end(
        mut self,
        text: &str,
        error_flag: Option<bool>,
        seq: u64,
        at: Timestamp,
        preamble: &mut Preamble,
        scratch: &mut Scratch,
    ) -> ToolInvoked {
        let is_search = matches!(self.act, Some(Act::Search(_)));
        let CallEnd { failed, output, found_no_match, exit_code } =
            CallEnd::of(self.flags, text, error_flag);
        // Some shells print the same lines at the start of every result. They are not the error.
        let result = match self.flags.any(CallFlags::SHELL) {
            true if failed => preamble.strip(&output),
            true => preamble.learn(&output),
            false => &*output,
        };
        // A search that printed nothing else has found nothing.
        let is_answer = failed
            && result.is_empty()
            && self.flags.any(CallFlags::ANSWERS)
            && exit_code == Some(1);
        let (is_error, found_no_match) = (failed && !is_answer, found_no_match || is_answer);
        let result = if result.is_empty() && is_error { &*output } else { result };
        let failed_call = FailedCall {
            // The output of a failed shell command may contain the content of a file. The error of
            // another tool contains only the error message.
            result_of: if self.flags.any(CallFlags::SHOWS_CONTENT)
                && self.flags.any(CallFlags::SHELL)
            {
                ResultOf::Content
            } else if self.flags.any(CallFlags::RUNS_CHECK) {
                ResultOf::Check
            } else {
                ResultOf::Other
            },
            exit_code,
            limits_time: self.flags.any(CallFlags::LIMITS_TIME),
        };
        self.flags.set(CallFlags::PLACEHOLDER, is_error && names_placeholder(result));
        let short = ShortResult::of(result, is_search);
        let status = if is_error && short.refused {
            CallStatus::Denied(refusal_of(&self.tool, FailureKind::Permission))
        } else if is_error {
            let args = self.excerpt.as_str();
            CallStatus::Error(ErrorSignature::of(result, args, failed_call, &mut scratch.text))
        } else {
            CallStatus::Ok
        };
        let found_nothing = is_search
            && !is_error
            && !self.flags.any(CallFlags::COUNTS)
            && (short.nothing_found || found_no_match);
        self.flags.set(CallFlags::FOUND_NOTHING, found_nothing);
        self.flags.set(CallFlags::ENDED, short.ended && !is_error);
        // A tool that shows a file says nothing about what runs.
        let is_file = matches!(self.act, Some(Act::Read(..))) && !self.flags.any(CallFlags::SHELL);
        self.flags.set(
            CallFlags::PENDING,
            short.pending && !is_error && !is_file && !is_error_message(result),
        );
        let is_no = self.activity == Activity::Delegate && is_negative_reply(result);
        self.flags.set(CallFlags::NEGATIVE, (short.negative || is_no) && !is_error);
        // If a file or a search result mentions an outage, that does not mean that there is one.
        let service_down = short.service_down && !is_error && self.may_use_a_service();
        self.flags.set(CallFlags::SERVICE_DOWN, service_down);
        self.flags.set(CallFlags::IDLE, short.unchanged && self.flags.any(CallFlags::WRITES));
        let bytes = result.as_bytes();
        // Results are compared by the page, without the line above it that confirms the action.
        let is_page = self.flags.any(CallFlags::UI) && bytes.len() > MAX_CONFIRMATION_BYTES;
        let page = if is_page { page_of(bytes) } else { bytes };
        if !is_page {
            self.flags.clear(CallFlags::UI);
        }
        let result_digest = if found_nothing {
            Digest::of(b"nothing")
        } else if self.flags.any(CallFlags::PRINTS_CLOCK) && !is_error {
            Digest::of(b"a clock's")
        } else if is_error || self.flags.any(CallFlags::IS_BENCHMARK) {
            // In these two cases, the digest includes ids and times. Errors are compared by their
            // signature and not by this digest. In the output of a benchmark, every number matters.
            Digest::of(page)
        } else if self.flags.any(CallFlags::LISTS_PROCESSES) {
            scratch.stripped.clear();
            scratch.stripped.extend(bytes.iter().filter(|byte| !byte.is_ascii_digit()));
            Digest::of(&scratch.stripped)
        } else if is_search {
            unordered_digest(page, &mut scratch.stripped)
        } else {
            normalized_digest(page, &mut scratch.stripped)
        };
        let is_silent = is_silence(result) || is_done(result);
        self.flags.set(CallFlags::SILENT, is_silent && !is_error);
        let may_measure =
            !is_error && !self.flags.any(CallFlags::WRITES) && self.shows_no_content();
        let is_benchmark = self.flags.any(CallFlags::IS_BENCHMARK);
        let measured = if may_measure { measured_by(result, is_benchmark) } else { None };
        let is_main = measured.as_ref().is_some_and(|measured| measured.is_main);
        self.flags.set(CallFlags::IS_MEASUREMENT, is_main);
        let may_be_empty = may_measure && !self.flags.any(CallFlags::SHELL);
        let is_empty = may_be_empty && is_empty_answer(result);
        self.flags.set(CallFlags::EMPTY_ANSWER, is_empty);
        self.flags
            .set(CallFlags::POSITIVE, short.positive && !is_error && !is_empty && !found_nothing);
        self.flags
            .set(CallFlags::BARE, !is_error && !is_search && !short.negative && self.is_bare(text));
        ToolInvoked {
            call_index: 0,
            prompt: 0,
            call_id: self.call_id,
            turn: self.turn,
            ended_seq: seq,
            ended_at: at,
            took_ms: u64::try_from(at.since(self.started_at).as_millis()).unwrap_or(u64::MAX),
            status,
            flags: self.flags,
            exact_digest: self.exact_digest,
            call_digest: self.call_digest,
            result_digest,
            target: self.target,
            act: self.act,
            activity: self.activity,
            object: self.object,
            result_bytes: text.len() as u64,
            args_excerpt: self.excerpt,
            result_excerpt: Excerpt::of(result),
            target_name: self.target_name,
            measured: measured.map(|measured| (measured.text, measured.sum)),
            subject: self.subject,
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
        // A denied call never ran, so it does not count as a search, read or edit.
        self.act = None;
        self.flags.clear(CallFlags::SEARCHES);
        let mut call = self.end(reason, Some(true), seq, at, &mut Preamble::default(), scratch);
        let class = match call.status.error().map(|error| error.kind) {
            Some(FailureKind::UnknownTool) => FailureKind::UnknownTool,
            _ => FailureKind::Permission,
        };
        call.status = CallStatus::Denied(refusal_of(&call.tool, class));
        call
    }

    /// Whether the result means no more than "done".
    fn is_bare(&self, result: &str) -> bool {
        let text = result.trim();
        let length = text.len();
        length == 0
            || is_done(text)
            || counts_done(text)
            || (length <= MAX_BARE_SHELL_RESULT_BYTES && self.flags.any(CallFlags::SHELL))
            || (length <= MAX_BARE_WRITE_RESULT_BYTES
                && self.flags.any(CallFlags::WRITES)
                && !self.flags.any(CallFlags::UI))
    }

    /// Whether the result is something other than the content of a file or the matches of a search.
    const fn shows_no_content(&self) -> bool {
        !matches!(self.act, Some(Act::Read(..) | Act::Search(_)))
    }

    /// Whether the call may use the network or a service. A call that only reads, searches or
    /// writes local files does not.
    const fn may_use_a_service(&self) -> bool {
        let is_local = (self.flags.any(CallFlags::WRITES) && self.target.is_some())
            || (self.flags.any(CallFlags::SHELL) && self.flags.any(CallFlags::ONLY_READS));
        self.shows_no_content() && (!is_local || self.flags.any(CallFlags::REMOTE))
    }
}

/// A tool call that has started and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingToolCall<'a> {
    /// The tool's name as the host gives it. Untrusted: never put it in a message.
    pub tool: &'a str,
    /// The beginning of the arguments. Untrusted: never put it in a message.
    pub args_excerpt: &'a str,
    /// When the call started.
    pub started_at: Timestamp,
}

/// The tool's name as it is kept. A name that is too long is cut and gets a digest at its end, so
/// that different long names stay different.
fn bounded_name(tool: &str) -> CompactString {
    if tool.len() <= MAX_TOOL_NAME_BYTES {
        return tool.into();
    }
    let start = tool.get(..tool.floor_char_boundary(MAX_TOOL_NAME_BYTES - 17)).unwrap_or_default();
    format!("{start}~{}", Digest::of(tool.as_bytes())).into()
}

fn excerpt_of(bytes: &[u8]) -> Excerpt {
    let end = bytes.len().min(2 * MAX_EXCERPT_BYTES);
    match std::str::from_utf8(bytes.get(..end).unwrap_or_default()) {
        Ok(text) => Excerpt::of(text),
        // The cut at `end` went through a character. An excerpt has only half as many bytes, so
        // leaving out that character makes no difference.
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            Excerpt::of(std::str::from_utf8(valid).unwrap_or_default())
        }
    }
}

/// What a call does, as far as its arguments and the tool's name show.
fn act_of(
    name_traits: NameTraits,
    view: &ArgsView<'_>,
    command: Option<&CommandView<'_>>,
    flags: CallFlags,
    call_digest: Digest,
) -> Option<Act> {
    let digest = |text: &str| Digest::of(text.as_bytes());
    if flags.any(CallFlags::REVERTS) {
        return Some(Act::Edit(Edit { from: None, to: Digest::of(b"undone") }));
    }
    if flags.any(CallFlags::WRITES) {
        let to = view.new_text.or(view.command.as_deref()).map(digest)?;
        return Some(Act::Edit(Edit { from: view.old_text.map(digest), to }));
    }
    read_or_search(name_traits, view, command, call_digest)
}

/// Whether a call that changes nothing shows a file or searches, as far as its arguments and the
/// tool's name show.
pub(super) fn read_or_search(
    name_traits: NameTraits,
    view: &ArgsView<'_>,
    command: Option<&CommandView<'_>>,
    call_digest: Digest,
) -> Option<Act> {
    let digest = |text: &str| Digest::of(text.as_bytes());
    if let Some(command) = command {
        let read = || command.lines.map(|(first, last)| Act::Read(first, last));
        let term = command.search_term.map_or(call_digest, digest);
        return if command.searches { Some(Act::Search(term)) } else { read() };
    }
    if let Some((first, last)) = view.lines().filter(|_| view.target.is_some()) {
        return Some(Act::Read(first, last));
    }
    match view.search_term {
        Some(term) => Some(Act::Search(digest(term))),
        None if name_traits.has(NameTraits::SEARCHES) => Some(Act::Search(call_digest)),
        None if view.target.is_some()
            && (name_traits.has(NameTraits::SHOWS_FILE)
                || view.command.as_deref() == Some("view")) =>
        {
            Some(Act::Read(1, u32::MAX))
        }
        None => None,
    }
}

/// Whether a result is a text that only means "done".
fn is_done(result: &str) -> bool {
    DONE_RESULTS.iter().any(|word| result.trim().eq_ignore_ascii_case(word))
}

/// Whether a query asks for a count.
fn counts(term: &str) -> bool {
    let head = term.get(..term.floor_char_boundary(64)).unwrap_or(term).to_ascii_lowercase();
    head.contains("count(")
}

/// The error signature of a refusal. Its digest is the same for all refusals of one tool, whatever
/// the reason in their text.
fn refusal_of(tool: &str, class: FailureKind) -> ErrorSignature {
    let digest = Digest::of(b"denied").then(tool.as_bytes());
    ErrorSignature { digest, template: digest, line: None, kind: class }
}

/// Whether a result is empty, or only says that the command printed nothing, or only says that the
/// exit code was 1.
pub(super) fn is_bare_exit(result: &str) -> bool {
    let text = result.trim();
    text.len() <= 40
        && (is_silence(text)
            || text.strip_suffix('1').is_some_and(|text| {
                let text = text.to_ascii_lowercase();
                ["exit", "code", "status"].iter().any(|word| text.contains(word))
                    && !text.bytes().any(|byte| byte.is_ascii_digit())
            }))
}
