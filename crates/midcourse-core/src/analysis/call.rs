//! A tool call that has ended. The analysis keeps the latest calls of a run in this form.
//!
//! Of the arguments and the result, only digests and excerpts of at most 256 bytes are kept. Calls
//! are compared by three digests: `exact_digest` covers the tool and its exact arguments,
//! `call_digest` the tool and its arguments without ids and times, `result_digest` the result
//! without ids and times. Errors are compared by their signature.

use std::time::Duration;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::activity::object_of;
use super::call_flags::CallFlags;
use super::config::TrajectoryAnalysisConfig;
use super::preamble::Preamble;
use super::{OpenCall, Scratch};
use crate::digest::Digest;
use crate::record::CallId;
use crate::subject::Activity;
use crate::text::{ErrorSignature, Excerpt, FailureKind, ObjectName, SafeName};
use crate::time::Timestamp;

/// Whether a call succeeded, failed or was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallStatus {
    /// The call succeeded.
    Ok,
    /// The call ran and failed with this error.
    Error(ErrorSignature),
    /// The call was refused before it ran. All refusals of one tool count as the same error,
    /// whatever the given reason.
    Denied(ErrorSignature),
}

impl CallStatus {
    /// The error of a call that failed or was refused; `None` if the call succeeded.
    pub const fn error(self) -> Option<ErrorSignature> {
        match self {
            Self::Ok => None,
            Self::Error(signature) | Self::Denied(signature) => Some(signature),
        }
    }
}

/// The text that an edit replaces and the text that it writes, as digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Edit {
    /// Digest of the replaced text; `None` if the arguments do not contain that text.
    pub(crate) from: Option<Digest>,
    pub(crate) to: Digest,
}

/// What a call does, as far as its arguments show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// Changes the file or other object that the call names.
    Edit(Edit),
    /// Searches for the term with this digest.
    Search(Digest),
    /// Shows the file that the call names, from the first to the second of these line numbers.
    Read(u32, u32),
}

/// A tool call that has ended, reduced to what detectors compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInvoked {
    pub(super) call_index: u64,
    pub(super) prompt: u8,
    pub(super) tool: CompactString,
    /// Digest of the call's id. It is read only when the call is added to the analysis, to ignore a
    /// call that was reported twice, so it is not saved.
    #[serde(skip)]
    pub(super) call_id: Digest,
    pub(super) turn: u64,
    pub(super) ended_seq: u64,
    pub(super) ended_at: Timestamp,
    pub(super) took_ms: u64,
    pub(super) status: CallStatus,
    #[serde(serialize_with = "CallFlags::save")]
    pub(super) flags: CallFlags,
    pub(super) exact_digest: Digest,
    pub(super) call_digest: Digest,
    pub(super) result_digest: Digest,
    pub(super) target: Option<Digest>,
    pub(super) act: Option<Act>,
    pub(super) activity: Activity,
    pub(super) object: Option<CompactString>,
    pub(super) result_bytes: u64,
    pub(super) args_excerpt: Excerpt,
    pub(super) result_excerpt: Excerpt,
    pub(super) target_name: Option<SafeName>,
    /// For a result with measurements: the digest of its text without them, and the sum of their
    /// logarithms. A checkpoint does not contain it; the detector that needs it
    /// keeps a copy.
    #[serde(skip)]
    pub(super) measured: Option<(Digest, f32)>,
    /// Digest of the object that the arguments name. A checkpoint does not contain it.
    #[serde(skip)]
    pub(super) subject: Option<Digest>,
}

impl ToolInvoked {
    /// Creates a call for [`Session::dispatch`](crate::Session::dispatch), for programs that use a
    /// session without storing records. The user's tool settings do not apply to this call: whether
    /// it writes or waits is guessed from the tool's name and the arguments.
    ///
    /// A session ignores a call whose id it has seen before.
    pub fn new(
        call_id: &CallId,
        tool: &str,
        args: &Value,
        result: &str,
        is_error: bool,
        at: Timestamp,
    ) -> Self {
        let config = TrajectoryAnalysisConfig::default();
        let mut scratch = Scratch::default();
        let open = OpenCall::new(call_id, tool, args, at, &config, &mut scratch);
        open.end(result, Some(is_error), 0, at, &mut Preamble::default(), &mut scratch)
    }

    /// The number of this call in the run, counted from 1; 0 before the call is added to a session.
    pub const fn call_index(&self) -> u64 {
        self.call_index
    }

    /// The tool's name as the host gives it. Untrusted: use [`Self::safe_tool`] in messages.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The tool's name in a form that is safe in messages.
    pub fn safe_tool(&self) -> SafeName {
        SafeName::of(&self.tool)
    }

    /// Number of the turn that the call is part of. Calls that the model made together are in the
    /// same turn.
    pub const fn turn(&self) -> u64 {
        self.turn
    }

    /// Position in the run (seq) of the record that ended the call.
    pub const fn ended_seq(&self) -> u64 {
        self.ended_seq
    }

    /// When the call began: its end minus the time it took.
    pub fn started_at(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.ended_at.unix_ms().saturating_sub(self.took_ms))
    }

    /// The time of the record that ended the call.
    pub const fn ended_at(&self) -> Timestamp {
        self.ended_at
    }

    /// How long the call took; zero if the host did not report its start.
    pub const fn took(&self) -> Duration {
        Duration::from_millis(self.took_ms)
    }

    /// Whether the call succeeded, failed or was refused.
    pub const fn status(&self) -> CallStatus {
        self.status
    }

    /// Whether the call failed or was refused.
    pub const fn is_error(&self) -> bool {
        !matches!(self.status, CallStatus::Ok)
    }

    /// Whether the call was refused before it ran.
    pub const fn is_denied(&self) -> bool {
        matches!(self.status, CallStatus::Denied(_))
    }

    /// Class of the error, if the call failed or was refused.
    pub fn failure_kind(&self) -> Option<FailureKind> {
        self.status.error().map(|error| error.kind)
    }

    /// Whether the call changes files or other state.
    pub const fn writes(&self) -> bool {
        self.flags.any(CallFlags::WRITES)
    }

    /// Whether the call sleeps or waits, judged by its name, its command or the tool settings.
    pub const fn waits(&self) -> bool {
        self.flags.any(CallFlags::WAITS)
    }

    /// Whether the call is a poll: it waits, or it repeats an earlier call after a sleep or after a
    /// long or growing pause.
    pub const fn polls(&self) -> bool {
        self.flags.any(CallFlags::POLLS)
    }

    /// Whether the call acts on a page or a screen, and its result shows the page afterwards.
    pub const fn shows_page(&self) -> bool {
        self.flags.any(CallFlags::UI)
    }

    /// Whether the call runs a shell command.
    pub const fn is_shell(&self) -> bool {
        self.flags.any(CallFlags::SHELL)
    }

    /// Whether an earlier call in the same turn has the same tool and arguments.
    pub const fn is_duplicate(&self) -> bool {
        self.flags.any(CallFlags::DUPLICATE)
    }

    /// Whether an earlier call has the same tool, arguments and result, and no call in between
    /// changed anything.
    pub const fn repeats(&self) -> bool {
        self.flags.any(CallFlags::REPEATS)
    }

    /// Whether the result says no more than "done", so that the agent learns nothing from it.
    pub const fn is_bare(&self) -> bool {
        self.flags.any(CallFlags::BARE)
    }

    /// Whether the result is empty, or a word such as "done".
    pub const fn is_silent(&self) -> bool {
        self.flags.any(CallFlags::SILENT)
    }

    /// Whether the call is a command that only shows where things are, as `ls` and `git status` do.
    pub const fn orients(&self) -> bool {
        self.flags.any(CallFlags::ORIENTS)
    }

    /// Whether the call is progress: its target, result or error is new, or its change took effect.
    pub const fn is_progress(&self) -> bool {
        self.flags.any(CallFlags::PROGRESS)
    }

    /// Digest of the tool and the exact arguments.
    pub const fn exact_digest(&self) -> Digest {
        self.exact_digest
    }

    /// Digest of the tool and the arguments, without volatile parts such as ids and clock times.
    /// For a shell command, flags, quotes and redirections are left out too. If a call of another
    /// kind writes or has long arguments, this equals the exact digest.
    pub const fn call_digest(&self) -> Digest {
        self.call_digest
    }

    /// Digest of the result, without volatile parts such as ids, clock times and durations.
    pub const fn result_digest(&self) -> Digest {
        self.result_digest
    }

    /// Digest of the file, URL or other object that the call names; `None` if it names none.
    pub const fn target(&self) -> Option<Digest> {
        self.target
    }

    /// Name of the file, URL or other object that the call names; `None` if it names none, and for
    /// older calls, which keep only the digest.
    pub const fn target_name(&self) -> Option<&SafeName> {
        self.target_name.as_ref()
    }

    /// What the call does.
    pub const fn activity(&self) -> Activity {
        self.activity
    }

    /// What the call is about, such as its command or file; `None` if there is no name that a
    /// message may contain. For older calls, at most the name of the tool is known.
    pub fn object(&self) -> Option<ObjectName> {
        let (named, file) = (self.object.as_deref(), self.target_name.as_ref());
        object_of(self.activity, named, file, &self.tool, self.is_shell())
    }

    /// Digest of the name of the command, search term or host that the call is about.
    pub(crate) fn name_digest(&self) -> Digest {
        self.object.as_deref().map_or_else(Digest::default, |name| Digest::of(name.as_bytes()))
    }

    /// Whether the call does no work: it only records a plan, prints text, or makes an edit that
    /// has no effect.
    pub const fn is_idle(&self) -> bool {
        self.flags.any(CallFlags::IDLE)
    }

    /// Whether the call is a search that found nothing.
    pub const fn found_nothing(&self) -> bool {
        self.flags.any(CallFlags::FOUND_NOTHING)
    }

    /// Whether the result says that something is still running.
    pub const fn is_pending(&self) -> bool {
        self.flags.any(CallFlags::PENDING)
    }

    /// Whether the result says that something has ended, with or without success.
    pub const fn says_ended(&self) -> bool {
        self.flags.any(CallFlags::ENDED)
    }

    /// Whether the call prints something that differs each time, as `date` does.
    pub const fn prints_clock(&self) -> bool {
        self.flags.any(CallFlags::PRINTS_CLOCK)
    }

    /// Whether the call succeeded, but its result says that something is wrong, invalid or not
    /// found.
    pub const fn is_negative(&self) -> bool {
        self.flags.any(CallFlags::NEGATIVE)
    }

    /// Whether the call succeeded and its result is good news, for instance that the tests passed.
    pub const fn is_positive(&self) -> bool {
        self.flags.any(CallFlags::POSITIVE)
    }

    /// Whether the error or result says that the network or a service is down.
    pub fn reports_outage(&self) -> bool {
        self.flags.any(CallFlags::SERVICE_DOWN) || self.failure_kind() == Some(FailureKind::Outage)
    }

    /// Whether the call talks to another machine or to a database server.
    pub const fn is_remote(&self) -> bool {
        self.flags.any(CallFlags::REMOTE)
    }

    /// Whether the call restores an earlier state, as `git checkout -- FILE` does.
    pub const fn reverts(&self) -> bool {
        self.flags.any(CallFlags::REVERTS)
    }

    /// Whether the call succeeded and made a change that no earlier call had made.
    pub const fn landed(&self) -> bool {
        self.flags.any(CallFlags::LANDED)
    }

    /// Whether the call is a shell command that only reads.
    pub(crate) const fn only_reads(&self) -> bool {
        self.flags.any(CallFlags::ONLY_READS)
    }

    /// Whether the call is a successful shell command that may do more than read, and that does not
    /// repeat an earlier call with the same result.
    pub const fn may_have_changed_something(&self) -> bool {
        self.flags.any(CallFlags::SHELL)
            && !self.flags.any(CallFlags::ONLY_READS)
            && !self.is_error()
            && !self.repeats()
    }

    /// Whether the call failed with an error that no earlier call had. `false` if no earlier call
    /// failed at all.
    pub const fn is_new_error(&self) -> bool {
        self.flags.any(CallFlags::NEW_ERROR)
    }

    pub(crate) const fn edit(&self) -> Option<Edit> {
        match self.act {
            Some(Act::Edit(edit)) => Some(edit),
            _ => None,
        }
    }

    /// Digest of the search term, if the call is a search.
    pub(crate) const fn search_term(&self) -> Option<Digest> {
        match self.act {
            Some(Act::Search(term)) => Some(term),
            _ => None,
        }
    }

    /// The first and last line that the call shows, if it reads a file.
    pub(crate) const fn shown_lines(&self) -> Option<(u32, u32)> {
        match self.act {
            Some(Act::Read(first, last)) => Some((first, last)),
            _ => None,
        }
    }

    pub(crate) const fn prompt(&self) -> u8 {
        self.prompt
    }

    pub(crate) fn in_prompt(mut self, prompt: u8) -> Self {
        self.prompt = prompt;
        self
    }

    /// For the latest call, if it failed: whether the error names a placeholder such as `{}`, which
    /// nothing has replaced.
    pub(crate) const fn names_placeholder(&self) -> bool {
        self.flags.any(CallFlags::PLACEHOLDER)
    }

    /// For the latest call: the digest of the object that it is about, if the arguments name one; for
    /// a command, the digest of its program and paths.
    pub(crate) const fn subject(&self) -> Option<Digest> {
        self.subject
    }

    /// For the latest call: whether its result consists of measurements, and not of a text that also
    /// contains some.
    pub(crate) const fn is_measurement(&self) -> bool {
        self.flags.any(CallFlags::IS_MEASUREMENT)
    }

    /// For the latest call: whether its result is an empty list or text in JSON.
    pub(crate) const fn is_empty_answer(&self) -> bool {
        self.flags.any(CallFlags::EMPTY_ANSWER)
    }

    /// For the latest call, if its result has measurements: the digest of the result without them, and
    /// the sum of their logarithms.
    pub(crate) const fn measured(&self) -> Option<(Digest, f32)> {
        self.measured
    }

    /// The length of the result in bytes.
    pub const fn result_bytes(&self) -> u64 {
        self.result_bytes
    }

    /// The beginning of the arguments, kept only for the latest calls. Untrusted: never put it in a
    /// message.
    pub fn args_excerpt(&self) -> &str {
        self.args_excerpt.as_str()
    }

    /// The arguments; `None` if they are too long to be kept whole, and for older calls, which keep
    /// no arguments. Untrusted: never put them in a message.
    pub fn whole_args(&self) -> Option<&str> {
        let excerpt = self.args_excerpt.as_str();
        (!excerpt.is_empty() && !self.args_excerpt.is_cut()).then_some(excerpt)
    }

    /// The beginning of the result, kept only for the latest calls. Untrusted: never put it in a
    /// message.
    pub fn result_excerpt(&self) -> &str {
        self.result_excerpt.as_str()
    }

    /// Whether both calls succeeded with the same result, or both failed with the same error.
    pub fn same_result(&self, other: &Self) -> bool {
        match (self.status.error(), other.status.error()) {
            (Some(a), Some(b)) => a.digest == b.digest,
            (None, None) => self.result_digest == other.result_digest,
            _ => false,
        }
    }

    pub(super) fn drop_result_excerpt(&mut self) {
        self.result_excerpt = Excerpt::default();
    }

    pub(super) fn drop_args_excerpt(&mut self) {
        self.args_excerpt = Excerpt::default();
        self.target_name = None;
        self.object = None;
    }
}
