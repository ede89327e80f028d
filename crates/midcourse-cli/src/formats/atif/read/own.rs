//! Trajectories that midcourse wrote: the records are in `extra.midcourse` of each step.
//!
//! They get the ids of their run, the texts that their step has, and their order; then they are read
//! like lines of `midcourse export`.

use midcourse::{Channel, ForeignRecord, RunId, RunIdentity, Source, Timestamp};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{MAX_RECORDS, parse_step};
use crate::formats::atif::moved::{CopyLimit, restore};
use crate::formats::atif::{OWN, OWN_FORMAT};
use crate::formats::records::{LineDefaults, parse_line};
use crate::session_file::{Fate, Found};

pub(super) struct OwnRun {
    pub(super) identity: RunIdentity,
    defaults: LineDefaults,
    /// The records so far. A step can contain records that came after those of later steps.
    records: Vec<ForeignRecord>,
}

impl OwnRun {
    /// `None` if `extra` does not say that this release of midcourse can read the records.
    pub(super) fn of(extra: &Value, at: Timestamp) -> Option<Self> {
        let own = extra.get(OWN)?;
        if own.get("format").and_then(Value::as_u64) != Some(OWN_FORMAT) {
            return None;
        }
        let id = |name: &str| own.get(name).and_then(Value::as_str).map(RunId::from);
        let run_id = id("run_id")?;
        let mut identity = RunIdentity::root(run_id.clone());
        identity.parent_run_id = id("parent_run_id");
        let depth = own.get("depth").and_then(Value::as_u64).unwrap_or_default();
        identity.depth = usize::try_from(depth).unwrap_or(usize::MAX);
        let defaults = LineDefaults {
            run_id: Some(run_id),
            source: Source::new("import", Channel::Import),
            at,
            schema_version: 0,
            decision_point: None,
        };
        Some(Self { identity, defaults, records: Vec::new() })
    }

    pub(super) fn read_step(&mut self, step: &RawValue, found: &mut Found) {
        let mut limit = CopyLimit::for_step(step.get().len());
        let Some(mut step) = parse_step(step, found) else { return };
        let records = step.pointer_mut("/extra/midcourse/records").map(Value::take);
        let Some(Value::Array(records)) = records else {
            // midcourse adds steps for readers that do not know its records.
            return found.count("(step without records)", Fate::Ignored);
        };
        for record in records {
            if found.records.len().saturating_add(self.records.len()) >= MAX_RECORDS {
                let problem = format!("used only the first {MAX_RECORDS} records of the document");
                return found.invalid("record", problem);
            }
            self.read_record(record, &step, &mut limit, found);
        }
    }

    fn read_record(
        &mut self,
        mut record: Value,
        step: &Value,
        limit: &mut CopyLimit,
        found: &mut Found,
    ) {
        if restore(&mut record, step, limit).is_none() {
            return found.invalid("record", "left out a record whose step has been changed");
        }
        if let Some(fields) = record.as_object_mut() {
            // In the order in which `midcourse export` writes them.
            let at = fields.len().min(2);
            fields.shift_insert(at, "depth".to_owned(), self.identity.depth.into());
            if let Some(parent) = &self.identity.parent_run_id {
                fields.shift_insert(at, "parent_run_id".to_owned(), parent.as_str().into());
            }
            let run_id = self.identity.run_id.as_str();
            fields.shift_insert(at, "run_id".to_owned(), run_id.into());
        }
        match parse_line(&record.to_string(), &self.defaults) {
            Ok(record) => {
                let kind = record.events.first().map_or("", |event| event.payload.kind());
                found.count(kind, Fate::Used);
                self.records.push(record);
            }
            Err(error) => found.invalid("record", error),
        }
    }

    /// Adds the records of the steps so far, in the order in which they were stored.
    pub(super) fn finish(&mut self, found: &mut Found) {
        self.records.sort_by_key(|record| record.seq);
        found.records.append(&mut self.records);
    }
}
