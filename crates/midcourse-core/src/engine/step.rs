//! One step of the engine: applies a record and delivers messages.
//!
//! Feedback is delivered and counted before the guidance providers are evaluated, so that guidance
//! does not report a problem that feedback of the same step has just reported.

use super::{Delivery, Engine, Mode};
use crate::analysis::TrajectoryPattern;
use crate::fault::Fault;
use crate::message::{Assignment, DecisionPoint, Outcome};
use crate::prompt::Collected;
use crate::record::{TrajectoryPayload, TrajectoryRecord};
use crate::session::Changes;

/// Everything that follows from one record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Patterns that a detector reports after this record and did not report before it.
    pub patterns: Vec<TrajectoryPattern>,
    /// Outcomes that this record decides. An outcome says whether the problem that an earlier
    /// message was about went away.
    pub outcomes: Vec<Outcome>,
    /// Messages for the agent, in order: feedback, then guidance by priority.
    pub deliveries: Vec<Delivery>,
    /// Messages that the agent must not get, because an experiment withholds them. They are recorded
    /// and count for limits and waits like the others. See [`Engine::with_holdout`].
    pub withheld: Vec<Delivery>,
    /// Detectors, classifiers and providers that failed and were skipped.
    pub faults: Vec<Fault>,
    /// New records to store: first one for each outcome, then one for each message,
    /// also if it is withheld. Their sequence
    /// numbers directly follow that of the applied record, so the caller appends them unchanged.
    pub records: Vec<TrajectoryRecord>,
}

impl Step {
    /// Whether there is a message, delivered or withheld. Callers that treat messages in a special
    /// way, such as waiting until they are stored, do so for both, so that an experiment compares
    /// like with like.
    pub const fn has_messages(&self) -> bool {
        !self.deliveries.is_empty() || !self.withheld.is_empty()
    }

    /// All messages as one text that a host shows to the agent, with a label in the first line;
    /// `None` if there are no messages.
    pub fn labelled_text(&self) -> Option<String> {
        Delivery::labelled_text(&self.deliveries)
    }
}

impl Engine {
    /// Applies one record and returns what follows from it.
    ///
    /// `decision_point` says where in its turn the agent is; `None` means that the agent cannot
    /// receive a message now. Then the record is applied and outcomes are recorded, but no provider
    /// is evaluated. Every message in the returned [`Step`] already counts as delivered.
    ///
    /// To restore a session from stored records, use [`Self::fold`].
    ///
    /// ```
    /// use midcourse_core::{DecisionPoint, Engine, Budget, parse_notation};
    ///
    /// let mut engine = Engine::shipped(Budget::default());
    /// let records = parse_notation("
    ///     bash make  !! error: missing separator
    ///     bash make  !! error: missing separator
    ///     bash make  !! error: missing separator
    /// ")?;
    /// let mut messages = Vec::new();
    /// for record in &records {
    ///     let step = engine.step(record, Some(DecisionPoint::PreToolSelection));
    ///     messages.extend(step.labelled_text());
    /// }
    /// assert_eq!(messages.len(), 1);
    /// # Ok::<(), midcourse_core::NotationError>(())
    /// ```
    pub fn step(
        &mut self,
        record: &TrajectoryRecord,
        decision_point: Option<DecisionPoint>,
    ) -> Step {
        let Changes { patterns, outcomes, faults } = self.apply(record);
        let mut step = Step { patterns, faults, ..Step::default() };
        for outcome in &outcomes {
            let Outcome { delivery_seq, verdict, after_calls } = *outcome;
            let payload = TrajectoryPayload::Outcome { delivery_seq, verdict, after_calls };
            self.conclude(record, payload, &mut step);
        }
        step.outcomes = outcomes;
        if let Some(point) = decision_point {
            self.deliver_feedback(record, point, &mut step);
            self.deliver_guidance(record, point, &mut step);
        }
        step
    }

    fn deliver_feedback(
        &mut self,
        record: &TrajectoryRecord,
        point: DecisionPoint,
        step: &mut Step,
    ) {
        let Collected { messages, faults } = self.feedback(record, point);
        step.faults.extend(faults);
        let call = record.payload.call_id().or_else(|| self.trajectory().call_awaiting_feedback());
        let tool_call_id = call.cloned();
        for feedback in messages {
            let tool_call_id = tool_call_id.clone();
            self.deliver(record, Delivery::Feedback { feedback, tool_call_id }, step);
        }
    }

    fn deliver_guidance(
        &mut self,
        record: &TrajectoryRecord,
        point: DecisionPoint,
        step: &mut Step,
    ) {
        let Collected { messages, faults } = self.guidance(point, record.at());
        step.faults.extend(faults);
        for guidance in messages {
            self.deliver(record, Delivery::Guidance(guidance), step);
        }
    }

    fn deliver(&mut self, record: &TrajectoryRecord, delivery: Delivery, step: &mut Step) {
        let assignment = self.assignment(record, &delivery);
        let payload = delivery.clone().into_payload(self.mode == Mode::Shadow, assignment);
        self.conclude(record, payload, step);
        match assignment {
            Some(Assignment::Withheld) => step.withheld.push(delivery),
            Some(Assignment::Delivered) | None => step.deliveries.push(delivery),
        }
    }

    /// Makes a record of a delivery or an outcome that follows from `record`, applies the new
    /// record to the session, and adds it to the step.
    fn conclude(&mut self, record: &TrajectoryRecord, payload: TrajectoryPayload, step: &mut Step) {
        let place = u64::try_from(step.records.len()).unwrap_or(u64::MAX).saturating_add(1);
        let conclusion = TrajectoryRecord {
            schema_version: record.schema_version,
            seq: record.seq.saturating_add(place),
            run_id: record.run_id.clone(),
            parent_run_id: record.parent_run_id.clone(),
            depth: record.depth,
            recorded_at_unix_ms: record.at(),
            payload,
        };
        // Applying the new record decides an outcome in one case only: the record is a delivery,
        // and the run has already ended. The outcome of the delivered message is then `run_ended`,
        // which says nothing, so it is dropped.
        let Changes { patterns, faults, .. } = self.apply(&conclusion);
        step.patterns.extend(patterns);
        step.faults.extend(faults);
        step.records.push(conclusion);
    }
}
