//! Slices: the items of one type (tool calls, feedback, guidance or patterns) that belong to one
//! prompt of a run. A slice gives the recent items, and the number of all items so far.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::Session;
use crate::analysis::{ToolInvoked, TrajectoryPattern};
use crate::message::{Assessment, Feedback, GuidanceDelivered};
use crate::time::Deadline;

/// For each type of item except tool calls, a session keeps at most this many items. It keeps more
/// only if the run has had more prompts than this, because the latest item of each prompt is always
/// kept. The number is small, because a checkpoint contains every kept item.
const MAX_RECENT: usize = 4;

/// The latest items of one type, each with the number of its prompt, newest last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Recent<T>(VecDeque<(u8, T)>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Recent<T> {
    pub(super) fn push(&mut self, prompt: u8, item: T) {
        self.0.push_back((prompt, item));
        if self.0.len() > MAX_RECENT {
            let has_later =
                |at: usize, of: u8| self.0.range(at + 1..).any(|(later, _)| *later == of);
            let oldest = self.0.iter().enumerate().find(|(at, (of, _))| has_later(*at, *of));
            if let Some((at, _)) = oldest {
                self.0.remove(at);
            }
        }
    }

    fn of_prompt(&self, prompt: u8) -> impl DoubleEndedIterator<Item = &T> {
        self.0.iter().filter(move |(of, _)| *of == prompt).map(|(_, item)| item)
    }
}

/// One counter per prompt; the index is the number of the prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct PerPrompt(Vec<u64>);

impl PerPrompt {
    pub(super) fn add(&mut self, prompt: u8) {
        let at = usize::from(prompt);
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        if let Some(count) = self.0.get_mut(at) {
            *count += 1;
        }
    }

    pub(super) fn get(&self, prompt: u8) -> u64 {
        self.0.get(usize::from(prompt)).copied().unwrap_or(0)
    }
}

/// Number of items of each type, per prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Totals {
    pub(super) calls: PerPrompt,
    pub(super) feedback: PerPrompt,
    pub(super) guidance: PerPrompt,
    pub(super) patterns: PerPrompt,
}

/// The tool calls, feedback, assessments, guidance or patterns (`T`) of a session on one prompt.
pub struct Slice<'a, T> {
    session: &'a Session,
    prompt: u8,
    of: std::marker::PhantomData<T>,
}

impl<'a, T: SliceItem> Slice<'a, T> {
    /// The items that the session still keeps, oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &'a T> + use<'a, T> {
        T::recent(self.session, self.prompt)
    }

    /// The latest item; `None` if there is none.
    pub fn latest(&self) -> Option<&'a T> {
        self.all().next_back()
    }

    /// Number of items on this prompt in the whole run, including those that the session has
    /// dropped.
    pub fn total(&self) -> u64 {
        T::total(self.session, self.prompt)
    }
}

impl Session {
    pub(super) const fn slice_of_prompt_number<T: SliceItem>(&self, prompt: u8) -> Slice<'_, T> {
        Slice { session: self, prompt, of: std::marker::PhantomData }
    }
}

/// A type of item that a session keeps, such as tool calls, feedback and guidance.
pub trait SliceItem: sealed::Sealed + Sized + 'static {
    #[doc(hidden)]
    fn recent(session: &Session, prompt: u8) -> Box<dyn DoubleEndedIterator<Item = &Self> + '_>;
    #[doc(hidden)]
    fn total(session: &Session, prompt: u8) -> u64;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::analysis::ToolInvoked {}
    impl Sealed for crate::message::Assessment {}
    impl Sealed for crate::message::Feedback {}
    impl Sealed for crate::message::GuidanceDelivered {}
    impl Sealed for crate::analysis::TrajectoryPattern {}
}

impl SliceItem for ToolInvoked {
    fn recent(session: &Session, prompt: u8) -> Box<dyn DoubleEndedIterator<Item = &Self> + '_> {
        Box::new(session.trajectory().calls().filter(move |call| call.prompt() == prompt))
    }

    fn total(session: &Session, prompt: u8) -> u64 {
        session.state.totals.calls.get(prompt)
    }
}

/// "Assessment" is the word of the module `observers` for feedback, so this slice contains all
/// feedback, whether an observer or another provider made it.
impl SliceItem for Assessment {
    fn recent(session: &Session, prompt: u8) -> Box<dyn DoubleEndedIterator<Item = &Self> + '_> {
        Box::new(session.state.feedback.of_prompt(prompt))
    }

    fn total(session: &Session, prompt: u8) -> u64 {
        session.state.totals.feedback.get(prompt)
    }
}

impl SliceItem for Feedback {
    fn recent(session: &Session, prompt: u8) -> Box<dyn DoubleEndedIterator<Item = &Self> + '_> {
        Box::new(session.state.feedback.of_prompt(prompt).map(|assessment| &**assessment))
    }

    fn total(session: &Session, prompt: u8) -> u64 {
        session.state.totals.feedback.get(prompt)
    }
}

impl SliceItem for GuidanceDelivered {
    fn recent(session: &Session, prompt: u8) -> Box<dyn DoubleEndedIterator<Item = &Self> + '_> {
        Box::new(session.state.guidance.of_prompt(prompt))
    }

    fn total(session: &Session, prompt: u8) -> u64 {
        session.state.totals.guidance.get(prompt)
    }
}

impl SliceItem for TrajectoryPattern {
    fn recent(session: &Session, prompt: u8) -> Box<dyn DoubleEndedIterator<Item = &Self> + '_> {
        Box::new(session.state.patterns.of_prompt(prompt))
    }

    fn total(session: &Session, prompt: u8) -> u64 {
        session.state.totals.patterns.get(prompt)
    }
}

/// An event without a record, for callers that keep no records. See [`Session::dispatch`].
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// A tool call ended.
    ToolInvoked(ToolInvoked),
    /// Feedback was delivered.
    Feedback(Feedback),
    /// Guidance was delivered.
    GuidanceDelivered(GuidanceDelivered),
    /// A pattern was detected.
    Pattern(TrajectoryPattern),
    /// The run has a deadline, which replaces an earlier one.
    Deadline(Deadline),
}

impl From<ToolInvoked> for SessionEvent {
    fn from(call: ToolInvoked) -> Self {
        Self::ToolInvoked(call)
    }
}

impl From<Feedback> for SessionEvent {
    fn from(feedback: Feedback) -> Self {
        Self::Feedback(feedback)
    }
}

impl From<Assessment> for SessionEvent {
    fn from(assessment: Assessment) -> Self {
        Self::Feedback(assessment.into())
    }
}

impl From<Deadline> for SessionEvent {
    fn from(deadline: Deadline) -> Self {
        Self::Deadline(deadline)
    }
}

impl From<GuidanceDelivered> for SessionEvent {
    fn from(guidance: GuidanceDelivered) -> Self {
        Self::GuidanceDelivered(guidance)
    }
}

impl From<TrajectoryPattern> for SessionEvent {
    fn from(pattern: TrajectoryPattern) -> Self {
        Self::Pattern(pattern)
    }
}
