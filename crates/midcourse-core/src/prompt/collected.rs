//! The result of evaluating the providers of a prompt.

use crate::fault::Fault;
use crate::message::{Assessment, Feedback, GuidanceDelivered, format_guidance};
use crate::session::{Session, SessionEvent};

/// Messages that providers have for the agent, and providers that failed.
///
/// The session does not know yet that the messages were delivered. The caller tells the session
/// with [`Self::dispatch_to`], or message by message with [`Session::dispatch`].
#[derive(Debug, Clone, PartialEq)]
pub struct Collected<T> {
    /// The messages, in the order in which the agent gets them.
    pub messages: Vec<T>,
    /// Providers that failed and were skipped.
    pub faults: Vec<Fault>,
}

impl<T> Default for Collected<T> {
    fn default() -> Self {
        Self { messages: Vec::new(), faults: Vec::new() }
    }
}

impl<T: Into<SessionEvent>> Collected<T> {
    /// Tells the session that all messages were delivered to the agent. From now on, the triggers
    /// of their providers count calls and time anew, and further messages about the same problems
    /// have to wait.
    pub fn dispatch_to(self, session: &mut Session) {
        for message in self.messages {
            session.dispatch(message);
        }
    }
}

impl Collected<Feedback> {
    /// All messages as one text for the agent; `None` if there are none.
    pub fn text(&self) -> Option<String> {
        joined(self.messages.iter().map(Feedback::render))
    }
}

impl Collected<Assessment> {
    /// All messages as one text for the agent; `None` if there are none.
    pub fn text(&self) -> Option<String> {
        joined(self.messages.iter().map(|assessment| assessment.render()))
    }
}

impl Collected<GuidanceDelivered> {
    /// All messages as one text for the agent; `None` if there are none.
    pub fn text(&self) -> Option<String> {
        let text = format_guidance(self.messages.iter().map(|guidance| &guidance.injection));
        (!text.is_empty()).then_some(text)
    }
}

fn joined(texts: impl Iterator<Item = String>) -> Option<String> {
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
