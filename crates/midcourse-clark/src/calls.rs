//! Unique ids for tool calls.
//!
//! In the store, the id of a call has to be unique in its run. Some models use the same ids again
//! in each response, or give calls no id at all. So the second call with the id `x` is recorded as
//! `x#2`, the third as `x#3`.
//!
//! clark-agent's loop reports a call up to three times: with an event when the call starts, to the
//! plugin's `on_after_tool_call` when the call has returned, and with an event when the call has
//! ended. The last two reports become one record.

use std::collections::HashMap;

use midcourse::{CallId, TrajectoryPayload};

/// The call ids that the model used in a run, and how often it used each.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashMap<String, Uses>);

/// How many calls with one id have started, have returned, and were reported as ended by the loop.
#[derive(Debug, Default)]
struct Uses {
    started: u32,
    returned: u32,
    ended: u32,
}

impl Calls {
    /// Replaces the call id in a payload by a unique one. Returns `false` if the payload must not
    /// be recorded, because it is the end of a call that was recorded when the call returned.
    pub(crate) fn identify(&mut self, payload: &mut TrajectoryPayload) -> bool {
        match payload {
            TrajectoryPayload::ToolStarted { tool_call_id, .. } => {
                *tool_call_id = self.start(tool_call_id.as_str());
            }
            TrajectoryPayload::ToolEnded { tool_call_id, .. } => {
                let Some(id) = self.end(tool_call_id.as_str()) else { return false };
                *tool_call_id = id;
            }
            _ => {}
        }
        true
    }

    fn start(&mut self, id: &str) -> CallId {
        let uses = self.of(id);
        uses.started = uses.started.saturating_add(1);
        name(id, uses.started)
    }

    /// Counts a call that has returned, and gives its unique id. A call that was refused returns
    /// although it never started; it is counted as started too.
    pub(crate) fn returned(&mut self, id: &str) -> CallId {
        let uses = self.of(id);
        uses.returned = uses.returned.saturating_add(1);
        uses.started = uses.started.max(uses.returned);
        name(id, uses.returned)
    }

    /// Counts a call that the loop reports as ended, and gives its unique id. `None` if the call
    /// was already recorded when it returned.
    fn end(&mut self, id: &str) -> Option<CallId> {
        let uses = self.of(id);
        uses.ended = uses.ended.saturating_add(1);
        (uses.ended > uses.returned).then(|| self.returned(id))
    }

    /// Counts all running calls as returned and ended. Used when an interrupted run continues: its
    /// running calls will never return.
    pub(crate) fn abandon_open(&mut self) {
        for uses in self.0.values_mut() {
            uses.returned = uses.started;
            uses.ended = uses.started;
        }
    }

    fn of(&mut self, id: &str) -> &mut Uses {
        self.0.entry(id.to_owned()).or_default()
    }
}

fn name(id: &str, use_number: u32) -> CallId {
    match use_number {
        0 | 1 => id.into(),
        later => format!("{id}#{later}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::Calls;

    #[test]
    fn a_repeated_id_is_another_call() {
        let mut calls = Calls::default();
        for expected in ["0", "0#2", "0#3"] {
            assert_eq!(calls.start("0").as_str(), expected);
            assert_eq!(calls.returned("0").as_str(), expected);
            assert_eq!(calls.end("0"), None);
        }
    }

    #[test]
    fn two_calls_in_one_batch_may_share_an_id() {
        let mut calls = Calls::default();
        assert_eq!((calls.start("").as_str(), calls.start("").as_str()), ("", "#2"));
        assert_eq!((calls.returned("").as_str(), calls.returned("").as_str()), ("", "#2"));
        assert_eq!((calls.end(""), calls.end("")), (None, None));
    }

    #[test]
    fn an_end_without_a_return_is_a_new_fact() {
        let mut calls = Calls::default();
        calls.start("a");
        assert_eq!(calls.end("a").unwrap().as_str(), "a");
        assert_eq!(calls.end("a").unwrap().as_str(), "a#2");
    }

    #[test]
    fn an_abandoned_call_does_not_shift_the_next_one() {
        let mut calls = Calls::default();
        calls.start("a");
        calls.abandon_open();
        assert_eq!(calls.start("a").as_str(), "a#2");
        assert_eq!(calls.returned("a").as_str(), "a#2");
    }
}
