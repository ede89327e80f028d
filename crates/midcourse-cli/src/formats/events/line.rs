//! Parses the fields of a line in the `events` format. If the line is invalid or cut off, the
//! fields and events before the error are kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::time::EventTime;

/// Maximum number of events in a run. This limits the use of memory: parsed events can need many
/// times as much memory as the text of their line.
const MAX_EVENTS: usize = 500_000;

/// The fields of a line; the events are not parsed yet.
#[derive(Default)]
pub(super) struct LineParts<'a> {
    pub(super) run_id: Option<Cow<'a, str>>,
    pub(super) source: Option<Cow<'a, str>>,
    pub(super) success: Option<bool>,
    pub(super) deadline: Option<EventTime<'a>>,
    pub(super) started_at: Option<EventTime<'a>>,
    pub(super) events: Vec<&'a RawValue>,
    has_events: bool,
    /// The JSON error at which parsing stopped; `None` if the line is valid.
    pub(super) error: Option<String>,
}

impl<'a> LineParts<'a> {
    pub(super) fn read(line: &'a str) -> Self {
        let mut parts = Self::default();
        let mut deserializer = serde_json::Deserializer::from_str(line);
        let parsed = PartsSeed(&mut parts).deserialize(&mut deserializer);
        if let Err(error) = parsed.and_then(|()| deserializer.end()) {
            parts.error = Some(error.to_string());
        } else if !parts.has_events {
            parts.error = Some("it has no list `events`".to_owned());
        }
        parts
    }
}

#[derive(Deserialize)]
struct MetaWire<'a> {
    #[serde(borrow, default)]
    started_at: Option<EventTime<'a>>,
}

/// Parses a line into `LineParts`, field by field, so that an error later in the line does not lose
/// the fields before it.
struct PartsSeed<'p, 'a>(&'p mut LineParts<'a>);

impl<'de> DeserializeSeed<'de> for PartsSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PartsSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "events" => {
                    self.0.has_events = true;
                    map.next_value_seed(EventsSeed(&mut self.0.events))?;
                }
                "run_id" => self.0.run_id = id(map.next_value()?),
                "source" => self.0.source = value_of(map.next_value()?),
                "success" => self.0.success = value_of(map.next_value()?),
                "deadline" => self.0.deadline = value_of(map.next_value()?),
                "meta" => {
                    let meta: Option<MetaWire<'de>> = value_of(map.next_value()?);
                    self.0.started_at = meta.and_then(|meta| meta.started_at);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads an id, which may be a string or a number.
fn id(raw: &RawValue) -> Option<Cow<'_, str>> {
    match raw.get().starts_with(|c: char| c.is_ascii_digit()) {
        true => Some(Cow::Borrowed(raw.get())),
        false => value_of(raw),
    }
}

/// Deserialises a value; `None` if the JSON is `null` or does not have the expected type.
fn value_of<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str::<Option<T>>(raw.get()).ok().flatten()
}

struct EventsSeed<'p, 'a>(&'p mut Vec<&'a RawValue>);

impl<'de> DeserializeSeed<'de> for EventsSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EventsSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while self.0.len() < MAX_EVENTS {
            match list.next_element()? {
                Some(event) => self.0.push(event),
                None => return Ok(()),
            }
        }
        match list.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(format_args!("a run has at most {MAX_EVENTS} events"))),
            None => Ok(()),
        }
    }
}
