//! Previews: what a message about a problem would say if it were another one of its series.

use super::{Delivery, Engine};
use crate::cause::{Cause, Rung};
use crate::message::DecisionPoint;
use crate::record::TrajectoryRecord;

impl Engine {
    /// The message about a problem that the engine would deliver now if it had the number `rung` in
    /// its series, whatever was delivered about this problem before and however long ago. `record`
    /// is the latest record that is not a message or an outcome, and `point` its decision point.
    /// `None` if there is no such message, and for the deadline and the budget, which have no series.
    ///
    /// The engine is the same afterwards. It is borrowed mutably because the ledger of its session
    /// is exchanged meanwhile.
    pub fn preview(
        &mut self,
        record: &TrajectoryRecord,
        point: DecisionPoint,
        cause: &Cause,
        rung: Rung,
    ) -> Option<Delivery> {
        if cause.is_limit() {
            return None;
        }
        let ledger = self.session.ledger().with_next_rung(cause, rung);
        let real = self.session.replace_ledger(ledger);
        let call = record.payload.call_id().or_else(|| self.trajectory().call_awaiting_feedback());
        let tool_call_id = call.cloned();
        let feedback = self
            .feedback(record, point)
            .messages
            .into_iter()
            .map(|feedback| Delivery::Feedback { feedback, tool_call_id: tool_call_id.clone() });
        let guidance = self.guidance(point, record.at()).messages.into_iter();
        let mut deliveries = feedback.chain(guidance.map(Delivery::Guidance));
        let found = deliveries.find(|it| it.why().is_some_and(|why| why.cause == *cause));
        drop(deliveries);
        self.session.replace_ledger(real);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::Budget;
    use crate::notation::parse_notation;

    const POINT: DecisionPoint = DecisionPoint::PreToolSelection;

    /// The messages of a run, each with what every position of its series says in its place.
    fn previews(notation: &str) -> Vec<(u8, String, Vec<Option<String>>)> {
        let records = parse_notation(notation).unwrap();
        let (mut live, mut folded) =
            (Engine::shipped(Budget::default()), Engine::shipped(Budget::default()));
        let mut all = Vec::new();
        for record in &records {
            let record = TrajectoryRecord { seq: record.seq * 10, ..record.clone() };
            let step = live.step(&record, Some(POINT));
            folded.fold(&record);
            let outcomes = step.records.len() - step.deliveries.len();
            step.records.iter().take(outcomes).for_each(|outcome| folded.fold(outcome));
            for delivery in &step.deliveries {
                let why = delivery.why().unwrap();
                let before = folded.checkpoint().unwrap();
                let texts = (1..=4).map(|rung| {
                    let preview = folded.preview(&record, POINT, &why.cause, Rung(rung));
                    preview.map(|it| it.text())
                });
                all.push((why.rung.0, delivery.text(), texts.collect()));
                assert_eq!(folded.checkpoint().unwrap(), before);
            }
            step.records.iter().skip(outcomes).for_each(|delivery| folded.fold(delivery));
        }
        all
    }

    #[test]
    fn each_position_of_a_series_has_its_text() {
        let all = previews(
            "
            read a.rs   -> 120 lines of a file that is rather long
            12x bash make   !! error: missing separator
        ",
        );
        assert_eq!(all.iter().map(|(rung, ..)| *rung).collect::<Vec<_>>(), [1, 2, 3]);
        for (rung, text, texts) in &all {
            assert_eq!(texts[usize::from(*rung) - 1].as_ref(), Some(text));
            let start = |text: &Option<String>| {
                text.as_ref().unwrap().split(". ").next().unwrap().to_owned()
            };
            assert!(texts.iter().all(|other| start(other) == start(&Some(text.clone()))));
            assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
        }
    }

    #[test]
    fn limits_have_no_series() {
        let records = parse_notation("bash make -> ok").unwrap();
        let mut engine = Engine::shipped(Budget::default());
        records.iter().for_each(|record| engine.fold(record));
        let last = records.last().unwrap();
        for cause in ["deadline", "budget", "doom_loop"] {
            assert_eq!(engine.preview(last, POINT, &Cause::only(cause), Rung(1)), None);
        }
    }
}
