//! The parts of a line, kept as far as it can be read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::moment::Moment;

/// The most events of one run: a line of small ones would take many times its own room.
const EVENTS_MAX: usize = 500_000;

/// What a line says, its events still unread.
#[derive(Default)]
pub(super) struct LineParts<'a> {
    pub(super) run_id: Option<Cow<'a, str>>,
    pub(super) source: Option<Cow<'a, str>>,
    pub(super) success: Option<bool>,
    pub(super) deadline: Option<Moment<'a>>,
    pub(super) started_at: Option<Moment<'a>>,
    pub(super) events: Vec<&'a RawValue>,
    pub(super) torn: Option<String>,
}

impl<'a> LineParts<'a> {
    pub(super) fn read(line: &'a str) -> Self {
        let mut parts = Self::default();
        let mut deserializer = serde_json::Deserializer::from_str(line);
        let read = Parts(&mut parts).deserialize(&mut deserializer);
        if let Err(error) = read.and_then(|()| deserializer.end()) {
            parts.torn = Some(error.to_string());
        }
        parts
    }
}

#[derive(Deserialize)]
struct MetaWire<'a> {
    #[serde(borrow, default)]
    started_at: Option<Moment<'a>>,
}

/// Puts what is read into parts that outlive an error.
struct Parts<'p, 'a>(&'p mut LineParts<'a>);

impl<'de> DeserializeSeed<'de> for Parts<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Parts<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "events" => map.next_value_seed(Events(&mut self.0.events))?,
                "run_id" => self.0.run_id = name(map.next_value()?),
                "source" => self.0.source = read(map.next_value()?),
                "success" => self.0.success = read(map.next_value()?),
                "deadline" => self.0.deadline = read(map.next_value()?),
                "meta" => {
                    let meta: Option<MetaWire<'de>> = read(map.next_value()?);
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

/// A name; a number is one too.
fn name(raw: &RawValue) -> Option<Cow<'_, str>> {
    match raw.get().starts_with(|c: char| c.is_ascii_digit()) {
        true => Some(Cow::Borrowed(raw.get())),
        false => read(raw),
    }
}

/// A value of the right shape; one of another shape is as if it were not there.
fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str::<Option<T>>(raw.get()).ok().flatten()
}

struct Events<'p, 'a>(&'p mut Vec<&'a RawValue>);

impl<'de> DeserializeSeed<'de> for Events<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Events<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while self.0.len() < EVENTS_MAX {
            match list.next_element()? {
                Some(event) => self.0.push(event),
                None => return Ok(()),
            }
        }
        match list.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(format_args!("a run has at most {EVENTS_MAX} events"))),
            None => Ok(()),
        }
    }
}
