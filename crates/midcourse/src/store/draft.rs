//! Drafts: events made ready to be stored.
//!
//! Everything that takes time or a user's settings happens here, before a transaction is begun:
//! secrets are taken out, long texts cut, bodies compressed. What the engine sees is the draft's
//! payload, which is what a replay will read.

use midcourse_core::{DecisionPoint, RunIdentity, Timestamp, TrajectoryPayload, TrajectoryRecord};
use serde::Deserialize;
use serde_json::Value;

use super::body::{self, Body};
use super::chain::Link;
use super::error::StoreError;
use super::settings::StoreSettings;
use crate::event::{Event, FactKey, Source};

/// An event as it will be stored.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) run: RunIdentity,
    pub(super) source: Source,
    pub(super) at: Timestamp,
    /// The same as the database holds it.
    pub(super) at_ms: i64,
    pub(super) fact: Option<FactKey>,
    pub(super) may_echo: bool,
    pub(super) adopts: Option<midcourse_core::RunId>,
    pub(super) decision_point: Option<DecisionPoint>,
    pub(super) schema_version: u32,
    pub(super) payload: TrajectoryPayload,
    pub(super) redactions: u32,
    /// The payload as JSON text, without its bodies.
    pub(super) json: String,
    pub(super) bodies: Vec<Body>,
}

impl Draft {
    /// Makes an event ready.
    pub(super) fn new(event: Event, settings: &StoreSettings) -> Result<Self, StoreError> {
        let Event {
            run,
            source,
            at,
            fact,
            may_echo,
            adopts,
            decision_point,
            schema_version,
            mut payload,
        } = event;
        let at_ms = i64::try_from(at.unix_ms())
            .map_err(|_| StoreError::Rejected("its time is beyond the calendar".to_owned()))?;
        let mut value = to_value(&payload)?;
        let (mut redactions, mut changed) = (0_u32, false);
        body::each_text(&mut value, &mut |place, text| {
            if let Some(redacted) = settings.redaction.redact_field(place.field, text) {
                redactions = redactions.saturating_add(redacted.count);
                *text = redacted.text;
                changed = true;
            }
            if let Some(short) = body::cut(text, settings.body_limit) {
                *text = short;
                changed = true;
            }
        });
        if changed {
            payload = TrajectoryPayload::deserialize(&value)
                .map_err(|error| StoreError::Rejected(error.to_string()))?;
        }
        let bodies = body::take_out(&mut value)?;
        let json = value.to_string();
        Ok(Self {
            run,
            source,
            at,
            fact,
            may_echo,
            adopts,
            decision_point,
            schema_version,
            payload,
            redactions,
            json,
            bodies,
            at_ms,
        })
    }

    /// The payload as JSON, whole, to compare it with.
    pub(super) fn value(&self) -> Result<Value, StoreError> {
        to_value(&self.payload)
    }

    /// The event again, without its secrets, for the spill folder. Once it comes back it is too late
    /// to deliver a message about it.
    pub(super) fn into_event(self) -> Event {
        let Self { run, source, at, fact, may_echo, adopts, schema_version, payload, .. } = self;
        let decision_point = None;
        Event { run, source, at, fact, may_echo, adopts, decision_point, schema_version, payload }
    }

    /// The record this becomes at a place in its run.
    pub(super) fn record(&self, seq: u64) -> TrajectoryRecord {
        let mut record =
            TrajectoryRecord::new(seq, self.at, self.payload.clone()).in_run(&self.run);
        record.schema_version = self.schema_version;
        record
    }

    /// The link of the record at a place in its run.
    pub(super) fn link(&self, head: &Link, seq: u64) -> Link {
        let bodies = self.bodies.iter().map(|body| (body.pointer.as_str(), body.hash.as_slice()));
        record_link(
            head,
            &Linked {
                seq,
                at: self.at.unix_ms(),
                kind: self.payload.kind(),
                fact: self.fact.as_ref().map(FactKey::as_str),
                source: self.source.as_str(),
                decision_point: self.decision_point.map(DecisionPoint::as_str),
                schema_version: self.schema_version,
                redactions: self.redactions,
                payload: &self.json,
            },
            bodies,
        )
    }
}

/// The fields of a record that its link commits to.
pub(super) struct Linked<'a> {
    pub(super) seq: u64,
    pub(super) at: u64,
    pub(super) kind: &'a str,
    pub(super) fact: Option<&'a str>,
    pub(super) source: &'a str,
    pub(super) decision_point: Option<&'a str>,
    pub(super) schema_version: u32,
    pub(super) redactions: u32,
    pub(super) payload: &'a str,
}

/// The link of a record: its fields, then its bodies in the order of their places.
pub(super) fn record_link<'a>(
    head: &Link,
    record: &Linked<'_>,
    bodies: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Link {
    let numbers = [
        record.seq.to_string(),
        record.at.to_string(),
        record.schema_version.to_string(),
        record.redactions.to_string(),
    ];
    let mut fields: Vec<&[u8]> = vec![b"record"];
    fields.extend(numbers.iter().map(String::as_bytes));
    fields.push(record.kind.as_bytes());
    fields.push(if record.fact.is_some() { b"fact" } else { b"" });
    fields.push(record.fact.unwrap_or_default().as_bytes());
    fields.push(record.source.as_bytes());
    fields.push(record.decision_point.unwrap_or_default().as_bytes());
    fields.push(record.payload.as_bytes());
    let mut bodies: Vec<_> = bodies.collect();
    bodies.sort_unstable();
    for (pointer, hash) in &bodies {
        fields.push(pointer.as_bytes());
        fields.push(hash);
    }
    head.next(&fields)
}

/// The link of a report about a record; of what it says, the hash.
pub(super) fn report_link(
    head: &Link,
    seq: u64,
    at: u64,
    source: &str,
    relation: &str,
    hash: &[u8],
) -> Link {
    head.next(&[
        b"report",
        seq.to_string().as_bytes(),
        at.to_string().as_bytes(),
        source.as_bytes(),
        relation.as_bytes(),
        hash,
    ])
}

fn to_value(payload: &TrajectoryPayload) -> Result<Value, StoreError> {
    serde_json::to_value(payload).map_err(|error| StoreError::Rejected(error.to_string()))
}
