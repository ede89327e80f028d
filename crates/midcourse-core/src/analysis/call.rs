//! One tool call: what is kept of it, and what it is compared by.
//!
//! A kept call holds names, digests and short excerpts, never a whole argument or result. Three
//! digests tell calls apart: `raw` is tool and arguments to the letter, `question` and `answer` are
//! arguments and result without what changes by itself, and an error has its signature.

use std::time::Duration;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::TrajectoryAnalysisConfig;
use super::{OpenCall, Scratch};
use crate::digest::Digest;
use crate::record::CallId;
use crate::text::{ErrorClass, ErrorSignature, Excerpt, SafeName};
use crate::time::Timestamp;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallStatus {
    /// It worked.
    Ok,
    /// It failed.
    Error(ErrorSignature),
    /// It was refused before it ran.
    Denied(ErrorSignature),
}

impl CallStatus {
    /// The error, if it failed or was refused.
    pub const fn error(self) -> Option<ErrorSignature> {
        match self {
            Self::Ok => None,
            Self::Error(signature) | Self::Denied(signature) => Some(signature),
        }
    }
}

/// Yes-or-no facts about a call, as bits, because fifty calls are saved at every hook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marks(u32);

impl Marks {
    pub(super) const WRITES: Self = Self(1);
    pub(super) const WAITS: Self = Self(1 << 1);
    pub(super) const SHELL: Self = Self(1 << 2);
    pub(super) const DUPLICATE: Self = Self(1 << 3);
    pub(super) const REPEATS: Self = Self(1 << 4);
    pub(super) const BARE: Self = Self(1 << 5);
    pub(super) const NEW_TARGET: Self = Self(1 << 6);
    pub(super) const NEW_ANSWER: Self = Self(1 << 7);
    pub(super) const LANDED: Self = Self(1 << 8);
    pub(super) const ERROR_MOVED: Self = Self(1 << 9);
    pub(super) const IDLE: Self = Self(1 << 10);
    pub(super) const NOTHING: Self = Self(1 << 11);
    pub(super) const PENDING: Self = Self(1 << 12);
    pub(super) const DOWN: Self = Self(1 << 13);
    pub(super) const UNDOES: Self = Self(1 << 14);
    pub(super) const CLOCK: Self = Self(1 << 15);
    pub(super) const MEASURES: Self = Self(1 << 16);
    pub(super) const POLLS: Self = Self(1 << 17);
    pub(super) const NEGATIVE: Self = Self(1 << 18);
    pub(super) const PROCESSES: Self = Self(1 << 19);
    pub(super) const HIDES_FAILURE: Self = Self(1 << 20);
    pub(super) const LOOKS: Self = Self(1 << 21);
    pub(super) const REMOTE: Self = Self(1 << 22);

    const PROGRESS: Self =
        Self(Self::NEW_TARGET.0 | Self::NEW_ANSWER.0 | Self::LANDED.0 | Self::ERROR_MOVED.0);

    pub(super) const fn any(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }

    pub(super) fn set(&mut self, mark: Self, on: bool) {
        if on {
            self.0 |= mark.0;
        }
    }
}

/// What a writing call did to its file, as digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Edit {
    /// What it replaced, where it says so.
    pub(crate) from: Option<Digest>,
    /// What it wrote.
    pub(crate) to: Digest,
}

/// What a call is after, as far as its arguments tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// To change its target.
    Edit(Edit),
    /// To find this.
    Search(Digest),
    /// To show these lines of its target.
    Read(u32, u32),
}

/// A tool call that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInvoked {
    pub(super) call_index: u64,
    pub(super) prompt: u8,
    pub(super) tool: CompactString,
    /// Of use only until the call is taken in.
    #[serde(skip)]
    pub(super) call_id: Digest,
    pub(super) turn: u64,
    pub(super) ended_seq: u64,
    pub(super) ended_at: Timestamp,
    pub(super) took_ms: u64,
    pub(super) status: CallStatus,
    pub(super) marks: Marks,
    pub(super) exact_digest: Digest,
    pub(super) call_digest: Digest,
    pub(super) result_digest: Digest,
    pub(super) target: Option<Digest>,
    pub(super) act: Option<Act>,
    pub(super) result_bytes: u64,
    pub(super) args_excerpt: Excerpt,
    pub(super) result_excerpt: Excerpt,
    pub(super) target_name: Option<SafeName>,
}

impl ToolInvoked {
    /// A call for a session that is fed calls instead of records. What the tool does is guessed
    /// from its name; records honour the session's tool settings.
    ///
    /// The call id is the host's; a session ignores one it has seen.
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
        open.end(result, is_error, 0, at, &mut scratch)
    }

    /// The number of this call in the run, from 1.
    pub const fn call_index(&self) -> u64 {
        self.call_index
    }

    /// The tool, as the host names it. Not for saying aloud: see [`Self::safe_tool`].
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The tool's name in a form that may be said.
    pub fn safe_tool(&self) -> SafeName {
        SafeName::of(&self.tool)
    }

    /// The turn it belongs to.
    pub const fn turn(&self) -> u64 {
        self.turn
    }

    /// The record that ended it.
    pub const fn ended_seq(&self) -> u64 {
        self.ended_seq
    }

    /// When it began.
    pub fn started_at(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.ended_at.unix_ms().saturating_sub(self.took_ms))
    }

    /// When it ended.
    pub const fn ended_at(&self) -> Timestamp {
        self.ended_at
    }

    /// How long it took.
    pub const fn took(&self) -> Duration {
        Duration::from_millis(self.took_ms)
    }

    /// How it ended.
    pub const fn status(&self) -> CallStatus {
        self.status
    }

    /// Whether it failed or was refused.
    pub const fn is_error(&self) -> bool {
        !matches!(self.status, CallStatus::Ok)
    }

    /// Whether it was refused before it ran.
    pub const fn is_denied(&self) -> bool {
        matches!(self.status, CallStatus::Denied(_))
    }

    /// The class of its error.
    pub fn error_class(&self) -> Option<ErrorClass> {
        self.status.error().map(|error| error.class)
    }

    /// Whether the tool changes things.
    pub const fn writes(&self) -> bool {
        self.marks.any(Marks::WRITES)
    }

    /// Whether it waits, by its name, its command or what the user said.
    pub const fn waits(&self) -> bool {
        self.marks.any(Marks::WAITS)
    }

    /// Whether it asks again as one who waits: it sleeps, comes long after the last time, or each
    /// time later.
    pub const fn polls(&self) -> bool {
        self.marks.any(Marks::POLLS)
    }

    /// Whether it runs a shell command.
    pub const fn is_shell(&self) -> bool {
        self.marks.any(Marks::SHELL)
    }

    /// Whether a sibling in its round asked the same.
    pub const fn is_duplicate(&self) -> bool {
        self.marks.any(Marks::DUPLICATE)
    }

    /// Whether a kept call asked the same and got the same.
    pub const fn repeats(&self) -> bool {
        self.marks.any(Marks::REPEATS)
    }

    /// Whether its answer says nothing but that it was done.
    pub const fn is_bare(&self) -> bool {
        self.marks.any(Marks::BARE)
    }

    /// Whether it brought the run forward: new target, new answer, a change, an error that moved.
    pub const fn is_progress(&self) -> bool {
        self.marks.any(Marks::PROGRESS)
    }

    /// Tool and arguments to the letter.
    pub const fn exact_digest(&self) -> Digest {
        self.exact_digest
    }

    /// Tool and arguments without what changes by itself.
    pub const fn call_digest(&self) -> Digest {
        self.call_digest
    }

    /// The result without what changes by itself.
    pub const fn result_digest(&self) -> Digest {
        self.result_digest
    }

    /// What it works on.
    pub const fn target(&self) -> Option<Digest> {
        self.target
    }

    /// The name of what it works on, while it is remembered.
    pub const fn target_name(&self) -> Option<&SafeName> {
        self.target_name.as_ref()
    }

    /// Whether it plans, talks or changes nothing: it cannot bring the run forward.
    pub const fn is_idle(&self) -> bool {
        self.marks.any(Marks::IDLE)
    }

    /// Whether it looked for something and there was nothing.
    pub const fn found_nothing(&self) -> bool {
        self.marks.any(Marks::NOTHING)
    }

    /// Whether its answer says that something is still under way.
    pub const fn is_pending(&self) -> bool {
        self.marks.any(Marks::PENDING)
    }

    /// Whether its answer is another one each time, by its nature.
    pub const fn prints_clock(&self) -> bool {
        self.marks.any(Marks::CLOCK)
    }

    /// Whether its answer is a no.
    pub const fn is_negative(&self) -> bool {
        self.marks.any(Marks::NEGATIVE)
    }

    /// Whether its error or its answer says that a service does not serve.
    pub fn reports_outage(&self) -> bool {
        self.marks.any(Marks::DOWN) || self.error_class() == Some(ErrorClass::Outage)
    }

    /// Whether it asks something that is not on this machine.
    pub const fn is_remote(&self) -> bool {
        self.marks.any(Marks::REMOTE)
    }

    /// Whether it brings something back to an earlier state.
    pub const fn undoes(&self) -> bool {
        self.marks.any(Marks::UNDOES)
    }

    /// Whether a change landed with it.
    pub const fn landed(&self) -> bool {
        self.marks.any(Marks::LANDED)
    }

    /// Whether it ran something new in a shell that does more than look.
    pub const fn may_have_changed_something(&self) -> bool {
        self.marks.any(Marks::SHELL)
            && !self.marks.any(Marks::LOOKS)
            && !self.is_error()
            && !self.repeats()
    }

    /// Whether it is an error that the run had not had.
    pub const fn is_new_error(&self) -> bool {
        self.marks.any(Marks::ERROR_MOVED)
    }

    pub(crate) const fn edit(&self) -> Option<Edit> {
        match self.act {
            Some(Act::Edit(edit)) => Some(edit),
            _ => None,
        }
    }

    /// What it looks for.
    pub(crate) const fn search_term(&self) -> Option<Digest> {
        match self.act {
            Some(Act::Search(term)) => Some(term),
            _ => None,
        }
    }

    /// The lines it shows, from and to.
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

    /// The length of the result in bytes.
    pub const fn result_bytes(&self) -> u64 {
        self.result_bytes
    }

    /// The beginning of the arguments, while it is remembered. Hostile: never to be said.
    pub fn args_excerpt(&self) -> &str {
        self.args_excerpt.as_str()
    }

    /// The arguments, if all of them are remembered. Hostile: never to be said.
    pub fn whole_args(&self) -> Option<&str> {
        let excerpt = self.args_excerpt.as_str();
        (!excerpt.is_empty() && !self.args_excerpt.is_cut()).then_some(excerpt)
    }

    /// The beginning of the result, while it is remembered. Hostile: never to be said.
    pub fn result_excerpt(&self) -> &str {
        self.result_excerpt.as_str()
    }

    /// Whether two calls ended the same way: the same answer, or the same error.
    pub fn same_result(&self, other: &Self) -> bool {
        match (self.status.error(), other.status.error()) {
            (Some(a), Some(b)) => a.digest == b.digest,
            (None, None) => self.result_digest == other.result_digest,
            _ => false,
        }
    }

    pub(super) fn forget_result(&mut self) {
        self.result_excerpt = Excerpt::default();
    }

    pub(super) fn forget_args(&mut self) {
        self.args_excerpt = Excerpt::default();
        self.target_name = None;
    }
}
