//! Compares the messages of a replay with the labels of the run.
//!
//! A label of a message or of a silence is compared with what the replay does there. A label of the
//! whole run stands for a label of each recorded message that has none of its own and, if it is
//! good, for silence everywhere else. Messages about deadlines and budgets count only if they have a
//! label of their own.

use midcourse::{Label, LabelVerdict};

use crate::commands::replayed_messages::{MAX_CALLS_APART, Message, Messages, pair};

/// What a label expects at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// The recorded message, or one like it.
    Message,
    /// Not the recorded message, which was a false alarm.
    NotThisMessage,
    /// A message that was missing.
    MissingMessage,
    /// No new message.
    Silence,
}

impl Expected {
    /// Whether the label expects a message.
    pub(super) const fn is_message(self) -> bool {
        matches!(self, Self::Message | Self::MissingMessage)
    }
}

/// The result of one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelResult {
    /// The label. If it stands for one message of a whole run, it names this message.
    pub(super) label: Label,
    pub(super) expected: Expected,
    /// The message of the replay that the label expects, or that it does not want.
    pub(super) delivered: Option<Message>,
    /// A message that would be the missing one, if it did not come too late.
    pub(super) late: Option<Message>,
}

impl LabelResult {
    /// Whether the replay does what the label says.
    pub(super) const fn is_as_labelled(&self) -> bool {
        self.expected.is_message() == self.delivered.is_some()
    }

    /// What the expected or delivered message is about; `None` for a silence that was kept, and for
    /// a missing message about which the label says nothing.
    pub(super) fn cause(&self) -> Option<&str> {
        let delivered = self.delivered.as_ref().map(|message| message.cause.as_str());
        self.label.cause.as_deref().or(delivered)
    }
}

/// The results of a run's labels, and how many messages of the replay are new and not covered by
/// any label.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RunResult {
    pub(super) labels: Vec<LabelResult>,
    pub(super) unlabelled: Vec<Message>,
}

/// Compares the messages of a replay with the labels of the run.
pub(super) fn compare(labels: &[Label], messages: &Messages) -> RunResult {
    let run_label = labels.iter().find(|label| label.seq.is_none());
    let has_label = |message: &Message| labels.iter().any(|label| label.seq == Some(message.seq));
    let mut expected: Vec<Label> =
        labels.iter().filter(|label| label.is_about_message()).cloned().collect();
    let counted = messages.recorded.iter().filter(|message| !message.is_about_limit());
    let (with_label, without_label): (Vec<&Message>, Vec<&Message>) =
        counted.partition(|message| has_label(message));
    if let Some(run_label) = run_label {
        expected.extend(without_label.iter().map(|message| of_message(run_label, message)));
    }
    // Messages without any label are paired too, so that they do not count as new.
    let mut anchors: Vec<Message> = expected.iter().map(as_message).collect();
    let has_anchor = |message: &Message| expected.iter().any(|it| it.seq == Some(message.seq));
    anchors.extend(messages.recorded.iter().filter(|it| !has_anchor(it)).cloned());
    let partners = pair(&anchors, &messages.replayed);
    let is_new = |(at, message): &(usize, &Message)| {
        !partners.contains(&Some(*at)) && !message.is_about_limit()
    };
    let new: Vec<&Message> =
        messages.replayed.iter().enumerate().filter(is_new).map(|(_, message)| message).collect();

    let mut results: Vec<LabelResult> = Vec::new();
    for (label, partner) in expected.into_iter().zip(&partners) {
        let expected = match label.verdict {
            LabelVerdict::Good => Expected::Message,
            LabelVerdict::Bad => Expected::NotThisMessage,
        };
        let delivered = partner.and_then(|at| messages.replayed.get(at)).cloned();
        results.push(LabelResult { label, expected, delivered, late: None });
    }
    let silences = labels.iter().filter(|label| label.seq.is_some() && !label.is_about_message());
    results.extend(silences.map(|label| compare_silence(label, &new)));
    let is_judged = |message: &Message, results: &[LabelResult]| {
        results.iter().any(|result| result.delivered.as_ref() == Some(message))
    };
    if let Some(label) = run_label {
        let had_none = with_label.is_empty() && without_label.is_empty();
        let rest: Vec<&Message> =
            new.iter().copied().filter(|message| !is_judged(message, &results)).collect();
        match label.verdict {
            LabelVerdict::Good => results.push(compare_silence(label, &rest)),
            LabelVerdict::Bad if had_none => results.push(compare_silence(label, &rest)),
            LabelVerdict::Bad => {}
        }
    }
    results.sort_by_key(|result| result.label.seq);
    let is_good_run = run_label.is_some_and(|label| label.verdict == LabelVerdict::Good);
    let unlabelled = new.into_iter().filter(|it| !is_good_run && !is_judged(it, &results));
    let unlabelled = unlabelled.cloned().collect();
    RunResult { labels: results, unlabelled }
}

/// The label of a run as a label of one of its messages.
fn of_message(run_label: &Label, message: &Message) -> Label {
    Label {
        seq: Some(message.seq),
        cause: Some(message.cause.clone()),
        call: Some(message.call),
        text_hash: Some(Label::hash_of(&message.text)),
        ..run_label.clone()
    }
}

/// The message that a label is about, as far as the label describes it.
fn as_message(label: &Label) -> Message {
    Message {
        cause: label.cause.clone().unwrap_or_default(),
        full_cause: None,
        call: label.call.unwrap_or_default(),
        seq: label.seq.unwrap_or_default(),
        text: String::new(),
    }
}

/// Compares a label of a silence, or of a run as a whole, with the messages that are new.
fn compare_silence(label: &Label, new: &[&Message]) -> LabelResult {
    let (expected, delivered, late) = match (label.verdict, label.call) {
        (LabelVerdict::Good, call) => {
            let is_near = |message: &&&Message| {
                call.is_none_or(|call| message.call.abs_diff(call) <= MAX_CALLS_APART)
            };
            (Expected::Silence, new.iter().find(is_near), None)
        }
        (LabelVerdict::Bad, call) => {
            let has_cause =
                |it: &&&Message| label.cause.as_ref().is_none_or(|cause| *cause == it.cause);
            let mut fitting = new.iter().filter(has_cause);
            let first = fitting.next();
            let is_in_time = |it: &&&Message| call.is_none_or(|call| it.call <= call);
            (Expected::MissingMessage, first.filter(is_in_time), first)
        }
    };
    let owned = |message: &&Message| (*message).clone();
    let late = late.filter(|_| delivered.is_none()).map(owned);
    LabelResult { label: label.clone(), expected, delivered: delivered.map(owned), late }
}

#[cfg(test)]
mod tests {
    use midcourse::Timestamp;
    use proptest::prelude::*;

    use std::slice::from_ref;

    use super::*;
    use crate::commands::replayed_messages::message;

    fn label(seq: Option<u64>, call: Option<u64>, verdict: LabelVerdict) -> Label {
        let (cause, text_hash, note) = (None, None, None);
        let labelled_at_unix_ms = Timestamp::default();
        Label { seq, verdict, cause, call, text_hash, note, labelled_at_unix_ms }
    }

    fn of(message: &Message, verdict: LabelVerdict) -> Label {
        of_message(&label(None, None, verdict), message)
    }

    fn silence(call: u64, verdict: LabelVerdict) -> Label {
        label(Some(call * 3 + 1), Some(call), verdict)
    }

    fn messages(recorded: &[Message], replayed: &[Message]) -> Messages {
        let (recorded, replayed) = (recorded.to_vec(), replayed.to_vec());
        Messages { recorded, replayed, ..Messages::default() }
    }

    /// Checks the results, one letter per label: `+` as labelled, `-` not.
    #[track_caller]
    fn check(labels: &[Label], recorded: &[Message], replayed: &[Message], expected: &str) {
        let result = compare(labels, &messages(recorded, replayed));
        let sign = |result: &LabelResult| if result.is_as_labelled() { '+' } else { '-' };
        let signs: String = result.labels.iter().map(sign).collect();
        assert_eq!(signs, expected, "{result:#?}");
    }

    use LabelVerdict::{Bad, Good};

    #[test]
    fn a_good_message_must_stay_and_a_bad_one_must_go() {
        let a = message("a", 4);
        check(&[of(&a, Good)], from_ref(&a), &[message("a", 6)], "+");
        check(&[of(&a, Good)], from_ref(&a), &[message("a", 8)], "-");
        check(&[of(&a, Good)], from_ref(&a), &[message("b", 4)], "-");
        check(&[of(&a, Bad)], from_ref(&a), &[message("a", 6)], "-");
        check(&[of(&a, Bad)], from_ref(&a), &[message("b", 4)], "+");
        check(&[of(&a, Good)], &[], &[message("a", 4)], "+");
    }

    #[test]
    fn a_silence_is_broken_by_a_new_message_only() {
        let a = message("a", 4);
        check(&[silence(5, Good)], from_ref(&a), &[message("a", 5)], "+");
        check(&[silence(5, Good)], from_ref(&a), &[message("a", 4), message("b", 8)], "-");
        check(&[silence(5, Good)], &[a], &[message("a", 4), message("b", 9)], "+");
        check(&[silence(5, Good)], &[], &[message("deadline", 5)], "+");
    }

    #[test]
    fn a_missing_message_must_come_by_then_with_the_cause_that_was_named() {
        check(&[silence(5, Bad)], &[], &[message("a", 2)], "+");
        check(&[silence(5, Bad)], &[], &[message("a", 6)], "-");
        check(&[silence(5, Bad)], &[message("a", 2)], &[message("a", 2)], "-");
        let b = Label { cause: Some("b".to_owned()), ..silence(5, Bad) };
        check(from_ref(&b), &[], &[message("a", 2)], "-");
        check(from_ref(&b), &[], &[message("a", 2), message("b", 5)], "+");
        let late = compare(&[b], &messages(&[], &[message("b", 7)]));
        assert_eq!(late.labels[0].late.as_ref().map(|message| message.call), Some(7));
    }

    #[test]
    fn a_label_of_the_run_stands_for_its_messages_and_the_rest() {
        let (a, b) = (message("a", 4), message("b", 20));
        let (good, bad) = (label(None, None, Good), label(None, None, Bad));
        let both = [a.clone(), b.clone()];
        check(from_ref(&good), &both, &both, "+++");
        check(from_ref(&good), &both, &both[..1], "++-");
        check(from_ref(&good), &both, &[a.clone(), b.clone(), message("c", 9)], "-++");
        check(from_ref(&good), &[], &[], "+");
        check(from_ref(&bad), &both, &both[..1], "-+");
        check(from_ref(&bad), &[], &[], "-");
        check(from_ref(&bad), &[], &both, "+");
        // The label of a message goes before that of its run.
        check(&[bad, of(&a, Good)], &both, &both[..1], "++");
        check(&[good, of(&b, Bad)], &both, &both[..1], "+++");
    }

    #[test]
    fn new_messages_that_no_label_covers_are_listed() {
        let a = message("a", 4);
        let result =
            compare(&[of(&a, Good)], &messages(from_ref(&a), &[a.clone(), message("b", 9)]));
        assert_eq!(result.unlabelled, [message("b", 9)]);
    }

    proptest! {
        #[test]
        fn the_recorded_messages_are_as_labelled_if_all_labels_are_good(
            calls in proptest::collection::btree_set(0_u64..40, 0..6),
            other in 0_u64..40,
            with_run in any::<bool>(),
        ) {
            let recorded: Vec<Message> = calls.iter().map(|call| message("a", *call)).collect();
            let mut labels: Vec<Label> = recorded.iter().map(|it| of(it, Good)).collect();
            labels.push(silence(other, Good));
            labels.extend(with_run.then(|| label(None, None, Good)));
            let result = compare(&labels, &messages(&recorded, &recorded));
            prop_assert!(result.labels.iter().all(LabelResult::is_as_labelled), "{result:?}");
            prop_assert_eq!(result.labels.len(), labels.len());
            prop_assert!(result.unlabelled.is_empty());
        }
    }
}
