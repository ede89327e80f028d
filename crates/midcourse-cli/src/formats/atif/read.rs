//! Reads ATIF documents, versions 1.0 to 1.8, and newer ones as far as they are known.
//!
//! A document is a trajectory with its subagents, or a list of trajectories. From a document that
//! midcourse wrote, `own` restores the original records; `foreign` converts any other document to
//! events. A document that is cut off is read as far as it goes. Importing it again adds nothing.

mod content;
mod foreign;
mod own;

use std::borrow::Cow;

use memchr::memmem;
use midcourse::{RunIdentity, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::MAX_SUBAGENT_LEVELS;
use crate::session_file::{
    Fate, Found, Head, Part, SessionFile, SessionReader, for_each_part, parse_time,
};
use foreign::ForeignRun;
use own::OwnRun;

/// Maximum length of a step, in bytes. This limits the use of memory: a parsed step can need many
/// times as much memory as its text.
const MAX_STEP_LEN: usize = 64 << 20;

/// Maximum number of records of one document.
const MAX_RECORDS: usize = 1_000_000;

const STEPS: &str = "steps";
const SUBAGENTS: &str = "subagent_trajectories";

/// The newest version that this release knows: 1.8.
const NEWEST_MINOR: u64 = 8;

pub(crate) fn recognises(head: &Head<'_>) -> bool {
    head.has_keys(&["schema_version"]) && memmem::find(head.bytes, b"\"ATIF-v").is_some()
}

pub(crate) fn reader(file: &SessionFile<'_>) -> Box<dyn SessionReader> {
    Box::new(Reader { stem: file.stem(), modified: file.modified })
}

struct Reader {
    /// Name of the file, for a run without an id.
    stem: String,
    modified: Timestamp,
}

impl SessionReader for Reader {
    fn read(&mut self, bytes: &[u8], found: &mut Found) {
        let text = String::from_utf8_lossy(bytes);
        if !text.trim_start().starts_with('[') {
            return self.read_trajectory(&text, &Place::root(&self.stem), found);
        }
        let error = for_each_part(&text, &[], |part| {
            if let Part::Element(_, position, trajectory) = part {
                let place = Place::root(&format!("{}-{}", self.stem, position + 1));
                self.read_trajectory(trajectory.get(), &place, found);
            }
        });
        if let Some(error) = error {
            found.invalid("(document)", error);
        }
    }
}

/// Where in the document a trajectory is.
struct Place {
    parent: Option<RunIdentity>,
    level: usize,
    /// Id of the run if the trajectory has none.
    fallback_id: String,
}

impl Place {
    fn root(name: &str) -> Self {
        Self { parent: None, level: 0, fallback_id: name.to_owned() }
    }
}

/// The fields of a trajectory besides its steps and subagents.
#[derive(Default)]
struct Fields {
    schema_version: Option<String>,
    session_id: Option<String>,
    trajectory_id: Option<String>,
    agent: Value,
    extra: Value,
    final_metrics: Value,
    /// Time of the first step that has one.
    first_time: Option<Timestamp>,
}

#[derive(Deserialize)]
struct TimeWire<'a> {
    #[serde(borrow, default)]
    timestamp: Option<Cow<'a, str>>,
}

impl Fields {
    /// Reads the fields first, because they may come after the steps.
    fn of(trajectory: &str) -> Self {
        let mut fields = Self::default();
        // An error is reported when the steps are read.
        let _ = for_each_part(trajectory, &[STEPS, SUBAGENTS], |part| match part {
            Part::Field(name, value) => fields.set(name, value),
            Part::Element(STEPS, _, step) if fields.first_time.is_none() => {
                let time = serde_json::from_str::<TimeWire<'_>>(step.get()).ok();
                let time = time.and_then(|time| time.timestamp);
                fields.first_time = time.as_deref().and_then(time_of);
            }
            Part::Element(..) => {}
        });
        fields
    }

    fn set(&mut self, name: &str, value: &RawValue) {
        let is_short = value.get().len() <= MAX_STEP_LEN;
        let Some(value) =
            is_short.then(|| serde_json::from_str::<Value>(value.get()).ok()).flatten()
        else {
            return;
        };
        let id = || value.as_str().filter(|id| !id.is_empty()).map(ToOwned::to_owned);
        match name {
            "schema_version" => self.schema_version = id(),
            "session_id" => self.session_id = id(),
            "trajectory_id" => self.trajectory_id = id(),
            "agent" => self.agent = value,
            "extra" => self.extra = value,
            "final_metrics" => self.final_metrics = value,
            _ => {}
        }
    }
}

/// A run whose steps are being read.
enum Run {
    Own(OwnRun),
    Foreign(ForeignRun),
}

impl Reader {
    fn read_trajectory(&self, trajectory: &str, place: &Place, found: &mut Found) {
        let fields = Fields::of(trajectory);
        check_version(fields.schema_version.as_deref(), found);
        let start = fields.first_time.unwrap_or(self.modified);
        let mut run = match OwnRun::of(&fields.extra, start) {
            Some(run) => Run::Own(run),
            None => Run::Foreign(ForeignRun::new(&fields, place, start)),
        };
        let identity = match &run {
            Run::Own(run) => run.identity.clone(),
            Run::Foreign(run) => run.identity().clone(),
        };
        let child_place = |position: usize| Place {
            parent: Some(identity.clone()),
            level: place.level.saturating_add(1),
            fallback_id: format!("subagent-{}", position.saturating_add(1)),
        };
        // Where the last complete part ends, and whether the subagents come next.
        let (mut end, mut subagents) = (0, None);
        let error = for_each_part(trajectory, &[STEPS, SUBAGENTS], |part| {
            let (Part::Field(_, value) | Part::Element(_, _, value)) = part;
            end = end_of(value, trajectory);
            match part {
                Part::Element(STEPS, position, step) => match &mut run {
                    Run::Own(run) => run.read_step(step, found),
                    Run::Foreign(run) => run.read_step(step, position, found),
                },
                Part::Element(SUBAGENTS, position, child) => {
                    if position == 0 {
                        run.finish(&fields, found);
                    }
                    self.read_child(child.get(), &child_place(position), found);
                    subagents = Some(position);
                }
                Part::Element(..) | Part::Field(..) => {}
            }
        });
        run.finish(&fields, found);
        let Some(error) = error else { return };
        // The document is cut off, perhaps inside a subagent.
        let rest = trajectory.get(end..).unwrap_or_default();
        if let Some((before, _)) = rest.split_once('{')
            && (subagents.is_some() || before.contains(SUBAGENTS))
        {
            let child = rest.get(before.len()..).unwrap_or_default();
            let position = subagents.map_or(0, |position| position.saturating_add(1));
            return self.read_child(child, &child_place(position), found);
        }
        found.cut_off(Some(error));
    }

    fn read_child(&self, trajectory: &str, place: &Place, found: &mut Found) {
        if place.level > MAX_SUBAGENT_LEVELS {
            let limit = MAX_SUBAGENT_LEVELS;
            let problem =
                format!("left out subagents that are nested more than {limit} levels deep");
            return found.invalid("(subagent)", problem);
        }
        self.read_trajectory(trajectory, place, found);
    }
}

impl Run {
    /// Adds what can only be added after the last step. Later calls add nothing.
    fn finish(&mut self, fields: &Fields, found: &mut Found) {
        match self {
            Self::Own(run) => run.finish(found),
            Self::Foreign(run) => run.finish(&fields.final_metrics, found),
        }
    }
}

/// Parses a step; `None` if it is not valid or too much.
fn parse_step(step: &RawValue, found: &mut Found) -> Option<Value> {
    if found.records.len() >= MAX_RECORDS {
        found.invalid("step", format!("used only the first {MAX_RECORDS} records of the document"));
        return None;
    }
    if step.get().len() > MAX_STEP_LEN {
        found.invalid("step", format!("left out a step of more than {} MiB", MAX_STEP_LEN >> 20));
        return None;
    }
    match serde_json::from_str(step.get()) {
        Ok(step) => Some(step),
        Err(error) => {
            found.invalid("step", format!("left out a step: {error}"));
            None
        }
    }
}

/// The position in `text` at which a value that is part of it ends.
fn end_of(value: &RawValue, text: &str) -> usize {
    let start = value.get().as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start.saturating_add(value.get().len())
}

fn check_version(version: Option<&str>, found: &mut Found) {
    let parts = version.and_then(|version| version.strip_prefix("ATIF-v")?.split_once('.'));
    let numbers = parts
        .and_then(|(major, minor)| Some((major.parse::<u64>().ok()?, minor.parse::<u64>().ok()?)));
    if let (Some(version), Some(numbers)) = (version, numbers)
        && numbers > (1, NEWEST_MINOR)
    {
        let problem = format!("{version} is newer than 1.{NEWEST_MINOR}; new fields are left out");
        found.problem.get_or_insert(problem);
    }
}

/// A time in ISO 8601. A time without an offset is taken to be in UTC.
fn time_of(text: &str) -> Option<Timestamp> {
    let without_offset = || {
        let time: jiff::civil::DateTime = text.parse().ok()?;
        parse_time(&format!("{time}Z"))
    };
    parse_time(text).or_else(without_offset)
}

/// Counts a step that was read.
fn count_step(source: Option<&str>, fate: Fate, found: &mut Found) {
    found.count(source.unwrap_or("(step without a source)"), fate);
}
