//! Which call an id means.
//!
//! A fact about a call is known by the call's id, once in a run. Models do not all keep to that: some
//! number their calls anew in each answer, or give no id at all. The second call of an id is recorded
//! as `id#2`, so that no call is lost behind an earlier one. The loop reports each call up to three
//! times: when it starts, when it has returned, and as ended; the last two are one fact.

use std::collections::HashMap;

use midcourse_core::{CallId, TrajectoryPayload};

/// The calls of one run, by the ids they came with.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashMap<String, Uses>);

/// How many calls of one id have come how far.
#[derive(Debug, Default)]
struct Uses {
    started: u32,
    returned: u32,
    ended: u32,
}

impl Calls {
    /// Gives a fact about a call the id of that very call; `false`, if the fact is known.
    pub(crate) fn tell_apart(&mut self, payload: &mut TrajectoryPayload) -> bool {
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

    /// A call starts.
    fn start(&mut self, id: &str) -> CallId {
        let uses = self.of(id);
        uses.started = uses.started.saturating_add(1);
        name(id, uses.started)
    }

    /// A call has returned. One that was refused never started.
    pub(crate) fn give_back(&mut self, id: &str) -> CallId {
        let uses = self.of(id);
        uses.returned = uses.returned.saturating_add(1);
        uses.started = uses.started.max(uses.returned);
        name(id, uses.returned)
    }

    /// A call is reported as ended; nothing, if it is known to have returned.
    fn end(&mut self, id: &str) -> Option<CallId> {
        let uses = self.of(id);
        uses.ended = uses.ended.saturating_add(1);
        (uses.ended > uses.returned).then(|| self.give_back(id))
    }

    /// Calls that were under way when the run broke off will not return.
    pub(crate) fn break_off(&mut self) {
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
    fn an_id_that_comes_again_is_another_call() {
        let mut calls = Calls::default();
        for expected in ["0", "0#2", "0#3"] {
            assert_eq!(calls.start("0").as_str(), expected);
            assert_eq!(calls.give_back("0").as_str(), expected);
            assert_eq!(calls.end("0"), None);
        }
    }

    #[test]
    fn two_calls_of_one_id_in_one_batch() {
        let mut calls = Calls::default();
        assert_eq!((calls.start("").as_str(), calls.start("").as_str()), ("", "#2"));
        assert_eq!((calls.give_back("").as_str(), calls.give_back("").as_str()), ("", "#2"));
        assert_eq!((calls.end(""), calls.end("")), (None, None));
    }

    #[test]
    fn an_end_that_nobody_reported_before_is_news() {
        let mut calls = Calls::default();
        calls.start("a");
        assert_eq!(calls.end("a").unwrap().as_str(), "a");
        assert_eq!(calls.end("a").unwrap().as_str(), "a#2");
    }

    #[test]
    fn a_call_that_broke_off_does_not_shift_the_next() {
        let mut calls = Calls::default();
        calls.start("a");
        calls.break_off();
        assert_eq!(calls.start("a").as_str(), "a#2");
        assert_eq!(calls.give_back("a").as_str(), "a#2");
    }
}
