//! Why midcourse spoke: what a message is about, the calls that show it, where it landed, what
//! became of the problem, and the other messages about it.

use std::collections::VecDeque;

use midcourse::{
    Cause, DecisionPoint, Delivery, Entry, OutcomeVerdict, StepKind, Store, StoreError,
};
use serde::Serialize;

use super::entry_view::{Message, title};
use super::outline::state_number;
use crate::display::{describe_outcome, one_line, plain_name};

/// How many messages of a series are listed.
const MAX_SERIES: usize = 20;

/// Everything about one message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct WhyView {
    seq: u64,
    at: u64,
    shadow: bool,
    withheld: bool,
    kind: &'static str,
    provider: String,
    pattern: Option<String>,
    pattern_text: Option<String>,
    confidence: Option<f64>,
    /// The number of the message among those about its problem, from 1.
    number: Option<u8>,
    text: String,
    landed: Landed,
    evidence: Vec<StepRef>,
    outcome: Option<OutcomeView>,
    series: Vec<SeriesItem>,
}

/// Where the agent got the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Landed {
    text: String,
    decision_point: &'static str,
    seq: Option<u64>,
}

/// A step to link to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct StepRef {
    seq: u64,
    title: String,
    state: u8,
    at: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct OutcomeView {
    seq: u64,
    verdict: OutcomeVerdict,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SeriesItem {
    seq: u64,
    at: u64,
    number: u8,
    text: String,
}

/// Why the message at `seq` was delivered; `None` if there is no message at `seq`.
pub(crate) fn why(store: &Store, run_id: &str, seq: u64) -> Result<Option<WhyView>, StoreError> {
    let Some(entry) = store.entry(run_id, seq)? else { return Ok(None) };
    let Some(message) = Message::of(&entry) else { return Ok(None) };
    let why = message.delivery.why();
    let pattern = why.map(|why| why.cause.kind().to_owned());
    let outcome = store.outcomes(run_id, seq)?.get(&seq).copied();
    Ok(Some(WhyView {
        seq,
        at: entry.record.at.unix_ms(),
        shadow: message.shadow,
        withheld: message.withheld,
        kind: match &message.delivery {
            Delivery::Feedback { .. } => "feedback",
            Delivery::Guidance(_) => "guidance",
        },
        provider: one_line(message.delivery.provider(), 80),
        pattern_text: pattern.as_deref().map(|pattern| plain_name(pattern).to_owned()),
        pattern,
        confidence: match &message.delivery {
            Delivery::Guidance(guidance) => Some(guidance.classification.confidence().value()),
            Delivery::Feedback { .. } => None,
        },
        number: why.map(|why| why.rung.0),
        landed: landed(store, run_id, seq, &message)?,
        evidence: match why {
            Some(why) => evidence(store, run_id, &why.evidence)?,
            None => Vec::new(),
        },
        outcome: outcome.map(|(seq, outcome)| OutcomeView {
            seq,
            verdict: outcome.verdict,
            text: describe_outcome(outcome.verdict, outcome.after_calls),
        }),
        series: match why {
            Some(why) => series(store, run_id, seq, &why.cause)?,
            None => Vec::new(),
        },
        text: message.text,
    }))
}

/// The steps that show the problem, in the order of the run. Several records of one call are one
/// step.
fn evidence(store: &Store, run_id: &str, seqs: &[u64]) -> Result<Vec<StepRef>, StoreError> {
    let mut steps = Vec::new();
    for seq in seqs {
        steps.push(store.entry_of(run_id, *seq)?);
    }
    steps.sort_unstable();
    steps.dedup();
    let mut refs = Vec::new();
    for seq in steps {
        refs.extend(step_ref(store, run_id, seq)?);
    }
    Ok(refs)
}

fn step_ref(store: &Store, run_id: &str, seq: u64) -> Result<Option<StepRef>, StoreError> {
    Ok(read(store, run_id, seq)?.map(|entry| {
        let step = entry.step();
        let state = state_number(step.state);
        StepRef { seq, title: title(&entry, step.kind), state, at: step.at.unix_ms() }
    }))
}

/// An entry; `None` if it is not stored or damaged.
fn read(store: &Store, run_id: &str, seq: u64) -> Result<Option<Entry>, StoreError> {
    match store.entry(run_id, seq) {
        Err(StoreError::Damaged(_)) => Ok(None),
        other => other,
    }
}

/// Where the agent got the message, in words, and the step with which it got it.
fn landed(store: &Store, run_id: &str, seq: u64, message: &Message) -> Result<Landed, StoreError> {
    let point = message.delivery.decision_point();
    let call = match message.delivery.tool_call_id() {
        Some(call) => store.call_seq(run_id, call.as_str())?,
        None => None,
    };
    let call = match (call, point) {
        (Some(call), _) => step_ref(store, run_id, call)?,
        (None, DecisionPoint::PostToolResult | DecisionPoint::PreToolExecution) => {
            call_before(store, run_id, seq)?
        }
        (None, _) => None,
    };
    let text = match (&call, point) {
        (Some(call), DecisionPoint::PreToolExecution) => {
            format!("before the call `{}`", call.title)
        }
        (Some(call), _) => format!("with the result of `{}`", call.title),
        (None, DecisionPoint::PreRender) => "with the prompt, at the start".to_owned(),
        (None, DecisionPoint::PreToolSelection) => {
            "with the agent's next request to its model".to_owned()
        }
        (None, DecisionPoint::PreToolExecution) => "before a call".to_owned(),
        (None, DecisionPoint::PostToolResult) => "with the result of a call".to_owned(),
        (None, DecisionPoint::PreResponse) => "before the final response".to_owned(),
    };
    let text = match message.shadow || message.withheld {
        true => format!("nowhere: it was only recorded (it would have been {text})"),
        false => text,
    };
    Ok(Landed { text, decision_point: point.as_str(), seq: call.map(|call| call.seq) })
}

/// The call to whose start or end the message is a reply: that of the latest record before the
/// message that is not a message itself.
fn call_before(store: &Store, run_id: &str, seq: u64) -> Result<Option<StepRef>, StoreError> {
    for before in (seq.saturating_sub(64)..seq).rev() {
        let Some(entry) = read(store, run_id, before)? else { return Ok(None) };
        if entry.record.payload().is_some_and(|payload| payload.is_conclusion()) {
            continue;
        }
        if entry.step().kind != StepKind::Tool {
            return Ok(None);
        }
        return step_ref(store, run_id, store.entry_of(run_id, before)?);
    }
    Ok(None)
}

/// The messages about a problem, in the order of the run. Of a long series, those around the message
/// at `seq` are listed.
fn series(
    store: &Store,
    run_id: &str,
    seq: u64,
    cause: &Cause,
) -> Result<Vec<SeriesItem>, StoreError> {
    let this = seq;
    let mut items = VecDeque::new();
    for seq in store.seqs_of(run_id, &["feedback_delivered", "guidance_delivered"])? {
        let Some(entry) = read(store, run_id, seq)? else { continue };
        let Some(message) = Message::of(&entry) else { continue };
        if let Some(why) = message.delivery.why().filter(|why| why.cause == *cause) {
            let (at, number) = (entry.record.at.unix_ms(), why.rung.0);
            items.push_back(SeriesItem { seq, at, number, text: message.text });
        }
        let later = items.iter().filter(|item| item.seq > this).count();
        if later > MAX_SERIES / 2 {
            break;
        }
        if items.len() > MAX_SERIES {
            items.pop_front();
        }
    }
    Ok(items.into())
}

#[cfg(test)]
mod tests;
