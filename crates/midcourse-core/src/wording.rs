//! The texts of messages about patterns.
//!
//! A message has two parts. The first says what was observed: what the agent did, to what, how
//! often, and what changed in between, each only as far as the evidence shows it. The second part
//! is a suggestion that fits the failure and the activity. The suggestion depends on the number of
//! the message in its series (the rung). The first message says what to do instead, and the second
//! how to narrow down the problem. The third says to write down what is known and go on with
//! something else.
//!
//! A message contains no tool output. Names in a message come from the agent's own calls, and only
//! as an [`ObjectName`](crate::ObjectName) in quotes. A message never refers to an earlier message,
//! because the agent may not have received that one. It has at most [`MAX_MESSAGE_CHARS`]
//! characters. `docs/messages.md` shows the messages, and a test compares that page with this code.

mod observation;
mod suggestion;

#[cfg(test)]
mod tests;

use crate::analysis::{PatternDetail, TrajectoryPattern};
use crate::why::Why;

/// The longest message, in characters.
#[cfg(test)]
const MAX_MESSAGE_CHARS: usize = 300;

/// The text of a message about a pattern. `None` if the pattern has no text for this rung, or no
/// texts at all: waiting, which is not a problem, and the patterns of custom detectors.
pub(crate) fn text(pattern: &TrajectoryPattern, why: &Why) -> Option<String> {
    let detail = pattern.detail();
    if matches!(detail, PatternDetail::Waiting { .. } | PatternDetail::Custom { .. }) {
        return None;
    }
    let subject = why.subject.as_ref();
    let suggestion = match why.rung.0 {
        0 | 1 => suggestion::first(detail, subject),
        2 => suggestion::narrowing(detail, subject),
        3 => suggestion::leaving(detail)?,
        _ => suggestion::last(detail)?,
    };
    Some(format!("{} {suggestion}", observation::text(detail, subject)))
}
