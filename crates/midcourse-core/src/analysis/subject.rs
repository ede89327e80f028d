//! Computes the subject of a message from the kept calls.

use super::{ToolInvoked, TrajectoryAnalysis};
use crate::digest::Digest;
use crate::subject::Subject;

impl TrajectoryAnalysis {
    /// The subject of a message with this evidence, which is sequence numbers of records. `None` if
    /// none of these records ended a kept call.
    pub(crate) fn subject_of(&self, evidence: &[u64]) -> Option<Subject> {
        let is_evidence = |call: &ToolInvoked| evidence.contains(&call.ended_seq());
        let newest = self.calls().rev().find(|call| is_evidence(call))?;
        let first = self.calls().find(|call| is_evidence(call))?;
        let (mut calls, mut errors): (Vec<Digest>, Vec<Digest>) = (Vec::new(), Vec::new());
        let mut subject = Subject {
            activity: newest.activity(),
            object: newest.object(),
            failure: newest.failure_kind(),
            is_negative: newest.is_negative(),
            names_placeholder: newest.names_placeholder(),
            different_calls: 0,
            different_errors: 0,
            calls_between: 0,
            changes_between: 0,
            may_have_changed: false,
            minutes: newest.ended_at().since(first.started_at()).as_secs() / 60,
        };
        let from_first = self.calls().skip_while(|call| call.ended_seq() < first.ended_seq());
        for call in from_first.take_while(|call| call.ended_seq() <= newest.ended_seq()) {
            if is_evidence(call) {
                calls.push(call.call_digest());
                errors.extend(call.status().error().map(|error| error.digest));
            } else {
                subject.calls_between += 1;
                subject.changes_between += u32::from(call.landed());
                subject.may_have_changed |= call.may_have_changed_something();
            }
        }
        subject.different_calls = different(calls);
        subject.different_errors = different(errors);
        Some(subject)
    }
}

fn different(mut digests: Vec<Digest>) -> u32 {
    digests.sort_unstable();
    digests.dedup();
    u32::try_from(digests.len()).unwrap_or(u32::MAX)
}
