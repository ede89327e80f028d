//! Preparing events for the store: redaction, truncation, compression.
//!
//! Everything that takes time or depends on the user's settings happens here, before a transaction
//! begins. The engine sees the redacted and truncated payload. A replay reads the same payload from
//! the store.

use midcourse_core::{DecisionPoint, RunId, RunIdentity, TrajectoryPayload, TrajectoryRecord};
use serde::Deserialize;
use serde_json::Value;

use super::body::{self, Body};
use super::chain::{Link, RecordFields, record_link};
use super::error::StoreError;
use super::nesting;
use super::redacted_text;
use super::settings::StoreSettings;
use crate::event::{Event, FactKey, Source};

/// A record that is ready to be stored. Its seq is provisional until [`insert`] assigns it.
///
/// [`insert`]: super::append::insert
#[derive(Debug, Clone)]
pub(super) struct PreparedRecord {
    pub(super) record: TrajectoryRecord,
    pub(super) source: Source,
    pub(super) fact: Option<FactKey>,
    pub(super) decision_point: Option<DecisionPoint>,
    pub(super) redactions: u32,
    /// The time of the record in Unix milliseconds, as stored in the database.
    pub(super) at_ms: i64,
    /// The payload as JSON; the texts that are in `bodies` are empty here.
    pub(super) json: String,
    pub(super) bodies: Vec<Body>,
}

/// A reported event that is ready to be stored.
#[derive(Debug, Clone)]
pub(super) struct PreparedEvent {
    pub(super) run: RunIdentity,
    pub(super) dedupe_consecutive: bool,
    pub(super) adopts: Option<RunId>,
    /// The moment at which the host can still show the agent a message about this event. A batch
    /// stores this decision point with the record only if the engine was asked for a message.
    pub(super) decision_point: Option<DecisionPoint>,
    pub(super) prepared: PreparedRecord,
}

impl PreparedRecord {
    /// Redacts the texts of a record, truncates those that are too long for the store, and
    /// compresses long texts. What is nested too deep to be read again becomes a text.
    pub(super) fn new(
        mut record: TrajectoryRecord,
        source: Source,
        settings: &StoreSettings,
    ) -> Result<Self, StoreError> {
        let at_ms = i64::try_from(record.at().unix_ms())
            .map_err(|_| StoreError::Rejected("its time is beyond the calendar".to_owned()))?;
        let mut value = to_value(&record.payload)?;
        let (mut redactions, mut changed) = (0_u32, nesting::limit(&mut value));
        body::each_text(&mut value, &mut |place, text| {
            if let Some(redacted) = redacted_text::redact(text, place.field, settings) {
                redactions = redactions.saturating_add(redacted.redactions);
                *text = redacted.text;
                changed = true;
            }
        });
        body::each_name(&mut value, &mut |name| {
            let redacted = settings.redaction.redact_name(name)?;
            redactions = redactions.saturating_add(redacted.count);
            changed = true;
            Some(redacted.text)
        });
        if changed {
            record.payload = TrajectoryPayload::deserialize(&value)
                .map_err(|error| StoreError::Rejected(error.to_string()))?;
        }
        let bodies = body::take_out(&mut value)?;
        let (fact, decision_point, json) = (None, None, value.to_string());
        Ok(Self { record, source, fact, decision_point, redactions, at_ms, json, bodies })
    }

    /// The whole payload as JSON, to compare it with a stored one.
    pub(super) fn value(&self) -> Result<Value, StoreError> {
        to_value(&self.record.payload)
    }

    /// The link of this record in its run's hash chain.
    pub(super) fn link(&self, head: &Link, seq: u64) -> Link {
        let fields = RecordFields {
            seq,
            at: self.record.at().unix_ms(),
            kind: self.record.payload.kind(),
            fact: self.fact.as_ref().map(FactKey::as_str),
            host: self.source.host(),
            channel: self.source.channel().as_str(),
            decision_point: self.decision_point.map(DecisionPoint::as_str),
            schema_version: self.record.schema_version,
            redactions: self.redactions,
            payload: &self.json,
        };
        let bodies = self.bodies.iter().map(|body| (body.pointer.as_str(), body.hash.as_slice()));
        record_link(head, &fields, bodies)
    }
}

impl PreparedEvent {
    pub(super) fn new(event: Event, settings: &StoreSettings) -> Result<Self, StoreError> {
        let Event { run, source, at, schema_version, payload, .. } = event;
        let mut record = TrajectoryRecord::new(0, at, payload).in_run(&run);
        record.schema_version = schema_version;
        let mut prepared = PreparedRecord::new(record, source, settings)?;
        prepared.fact =
            event.fact.map(|fact| match settings.redaction.redact_name(fact.as_str()) {
                Some(redacted) => redacted.text.into(),
                None => fact,
            });
        prepared.decision_point = event.decision_point;
        Ok(Self {
            run,
            dedupe_consecutive: event.dedupe_consecutive,
            adopts: event.adopts,
            decision_point: event.decision_point,
            prepared,
        })
    }

    pub(super) const fn payload(&self) -> &TrajectoryPayload {
        &self.prepared.record.payload
    }

    /// The redacted event, for the spill folder. Its decision point is `None`, because when it is
    /// stored from there, it is too late to show the agent a message about it.
    pub(super) fn to_event(&self) -> Event {
        let PreparedRecord { record, source, fact, .. } = &self.prepared;
        Event {
            run: self.run.clone(),
            source: source.clone(),
            at: record.at(),
            fact: fact.clone(),
            dedupe_consecutive: self.dedupe_consecutive,
            adopts: self.adopts.clone(),
            decision_point: None,
            schema_version: record.schema_version,
            payload: record.payload.clone(),
        }
    }
}

fn to_value(payload: &TrajectoryPayload) -> Result<Value, StoreError> {
    serde_json::to_value(payload).map_err(|error| StoreError::Rejected(error.to_string()))
}
