//! The texts of messages about patterns.
//!
//! A message has two parts. The first says what was observed: what the agent did, to what, how often,
//! and what changed in between, each only as far as the evidence shows it. The second suggests what
//! fits the failure and the activity. The number of the message in its series (the rung) decides how
//! far the suggestion goes: first what to do instead, then how to narrow it down, then to write down
//! what is known and to go on with something else.
//!
//! A message contains no byte of tool output. Names in it come from the agent's own calls, and only
//! as an [`ObjectName`](crate::ObjectName) in quotes. It never refers to an earlier message, which the
//! agent may not have got. It has at most [`MAX_MESSAGE_CHARS`] characters. `docs/messages.md` shows
//! all of them, and a test compares that page with this code.

mod observation;
mod suggestion;

#[cfg(test)]
mod tests;

use crate::analysis::{PatternDetail, TrajectoryPattern};
use crate::why::Why;

/// The longest message, in characters.
#[cfg(test)]
const MAX_MESSAGE_CHARS: usize = 300;

/// The text of a message about a pattern. `None` if there is none for so high a rung, and for patterns
/// without texts: waiting, which is not a problem, and the patterns of custom detectors.
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
