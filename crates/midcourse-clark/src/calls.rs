//! Unique ids for tool calls.
//!
//! Records of a call are identified by the call's id, which has to be unique in a run. Some models
//! count their calls anew in each response, or give no id at all. The second call with an id is
//! recorded as `id#2`, so that it is not taken for the first one. The loop reports each call up to
//! three times: when it starts, when it has returned, and as ended; the last two become one record.

use std::collections::HashMap;

use midcourse::{CallId, TrajectoryPayload};

/// For each call id of a run, how often the model used it. A model may give several calls one id.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashMap<String, Uses>);

/// How many calls with this id were started, have returned, and were reported as ended by the loop.
#[derive(Debug, Default)]
struct Uses {
    started: u32,
    returned: u32,
    ended: u32,
}

impl Calls {
    /// Makes the call id in a payload unique. Returns `false` if the payload is the end of a call
    /// that was recorded when it returned.
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

    /// Counts a call that has returned, and returns its unique id. A refused call returns without
    /// having started.
    pub(crate) fn returned(&mut self, id: &str) -> CallId {
        let uses = self.of(id);
        uses.returned = uses.returned.saturating_add(1);
        uses.started = uses.started.max(uses.returned);
        name(id, uses.returned)
    }

    /// Counts an end that the loop reports. Returns `None` if this end was recorded when the call
    /// returned.
    fn end(&mut self, id: &str) -> Option<CallId> {
        let uses = self.of(id);
        uses.ended = uses.ended.saturating_add(1);
        (uses.ended > uses.returned).then(|| self.returned(id))
    }

    /// Treats calls that were running when the run was interrupted as returned.
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
