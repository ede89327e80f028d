//! Values in the configuration file, with range checks. The error for a value out of range says
//! what is allowed; the caller adds the position in the file.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use midcourse::{
    Confidence, DecisionPoint, DecisionPoints, FeedbackTrigger, Holdout, InvalidMoney,
    InvalidPattern, MAX_CYCLE_LEN, MAX_SAFE_NAME_CHARS, MicroUsd, Mode, Redaction, SafeName,
    WindowSize,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::ModelHost;
use super::experiment::max_within_calls;
use crate::duration::parse_duration;
use crate::size::parse_size;

/// The largest number allowed in a setting that counts something, such as tool calls or errors. No
/// run has that many, so a threshold of this size disables its detector.
const MAX_COUNT: u32 = 1_000_000;

/// Visitor for a whole number from `from` to `to`, both included.
struct WholeNumber {
    from: u64,
    to: u64,
}

/// The largest TOML integer, for settings without an upper limit.
const UNLIMITED: u64 = i64::MAX as u64;

impl Visitor<'_> for WholeNumber {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { from, to: UNLIMITED } => write!(f, "a whole number of {from} or more"),
            Self { from, to } => write!(f, "a whole number from {from} to {to}"),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value)
            .ok()
            .filter(|number| (self.from..=self.to).contains(number))
            .ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
    }
}

fn count_up_to<'de, D: Deserializer<'de>>(value: D, to: u32) -> Result<NonZeroU32, D::Error> {
    let number = value.deserialize_i64(WholeNumber { from: 1, to: to.into() })?;
    // The fallback is never used, because the visitor has checked the range.
    Ok(u32::try_from(number).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN))
}

/// Reads a whole number from 1 to `MAX_COUNT`.
pub(super) fn count<'de, D: Deserializer<'de>>(value: D) -> Result<NonZeroU32, D::Error> {
    count_up_to(value, MAX_COUNT)
}

/// Reads a whole number from 0 to `MAX_COUNT`.
fn count_or_zero<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    let number = value.deserialize_i64(WholeNumber { from: 0, to: MAX_COUNT.into() })?;
    Ok(u32::try_from(number).unwrap_or(MAX_COUNT))
}

/// Reads a whole number of at least 1, without an upper limit.
fn amount<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    value.deserialize_i64(WholeNumber { from: 1, to: UNLIMITED })
}

/// Reads a size such as "500 MB".
fn size<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    let text = String::deserialize(value)?;
    let expected = &"a size of at least 1 MB, such as \"500 MB\" or \"2 GB\"";
    parse_size(&text).ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), expected))
}

/// A list of decision points, by name.
#[derive(Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct Points(pub(super) DecisionPoints);

impl TryFrom<Vec<String>> for Points {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let point = |name: &String| {
            DecisionPoint::from_name(name).ok_or_else(|| {
                let known = DecisionPoint::ALL.map(DecisionPoint::as_str).join(", ");
                format!("unknown decision point `{name}`; use some of: {known}")
            })
        };
        let points = names.iter().map(point).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(DecisionPoints::of(points)))
    }
}

/// Reads a number of tool calls that are repeated together in a loop, from 1 to `MAX_CYCLE_LEN`.
pub(super) fn cycle_len<'de, D: Deserializer<'de>>(value: D) -> Result<NonZeroU32, D::Error> {
    count_up_to(value, u32::try_from(MAX_CYCLE_LEN).unwrap_or(u32::MAX))
}

/// Reads how many of the latest tool calls the engine keeps for analysis.
pub(super) fn window<'de, D: Deserializer<'de>>(value: D) -> Result<WindowSize, D::Error> {
    let calls = count_up_to(value, u32::try_from(WindowSize::MAX).unwrap_or(u32::MAX))?;
    WindowSize::try_from(usize::try_from(calls.get()).unwrap_or_default()).map_err(D::Error::custom)
}

struct FromZeroToOne;

impl Visitor<'_> for FromZeroToOne {
    type Value = Confidence;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number from 0 to 1")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Confidence, E> {
        Confidence::try_from(value).map_err(|_| E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Confidence, E> {
        match value {
            0 => Ok(Confidence::ZERO),
            1 => Ok(Confidence::ONE),
            _ => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }
}

/// Reads a confidence or a similarity, from 0 to 1.
pub(super) fn probability<'de, D: Deserializer<'de>>(value: D) -> Result<Confidence, D::Error> {
    value.deserialize_f64(FromZeroToOne)
}

struct LessThanOne;

impl Visitor<'_> for LessThanOne {
    type Value = Holdout;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number from 0 to less than 1, such as 0.2")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Holdout, E> {
        Holdout::try_from(value).map_err(|_| E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Holdout, E> {
        match value {
            0 => Ok(Holdout::NONE),
            _ => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }
}

/// Reads the share of problems whose messages are withheld.
fn holdout<'de, D: Deserializer<'de>>(value: D) -> Result<Holdout, D::Error> {
    value.deserialize_f64(LessThanOne)
}

/// Reads the number of calls within which a problem has to be gone.
fn outcome_calls<'de, D: Deserializer<'de>>(value: D) -> Result<NonZeroU32, D::Error> {
    count_up_to(value, max_within_calls().get())
}

/// Reads the number of cases of an experiment. With fewer than 20, one side can easily be empty.
fn planned_cases<'de, D: Deserializer<'de>>(value: D) -> Result<NonZeroU32, D::Error> {
    let number = value.deserialize_i64(WholeNumber { from: 20, to: MAX_COUNT.into() })?;
    Ok(u32::try_from(number).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN))
}

/// Reads the name of an experiment.
fn experiment_name<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(value.deserialize_str(PlainName { what: "a name" })?.to_string())
}

struct UpToAYear;

impl Visitor<'_> for UpToAYear {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration of up to 365 days, such as \"90s\", \"30m\" or \"2h\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Reads a duration of more than zero and at most 365 days.
pub(super) fn duration<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    value.deserialize_str(UpToAYear)
}

struct LiveOrShadow;

impl Visitor<'_> for LiveOrShadow {
    type Value = Mode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"live\" or \"shadow\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Mode, E> {
        match text {
            "live" => Ok(Mode::Live),
            "shadow" => Ok(Mode::Shadow),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

pub(super) fn mode<'de, D: Deserializer<'de>>(value: D) -> Result<Mode, D::Error> {
    value.deserialize_str(LiveOrShadow)
}

struct PlainName {
    what: &'static str,
}

impl Visitor<'_> for PlainName {
    type Value = SafeName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of up to {MAX_SAFE_NAME_CHARS} letters, digits, `.`, `_`, `/` and `-`",
            self.what
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SafeName, E> {
        let name = SafeName::of(text);
        if !text.is_empty() && name.as_str() == text {
            Ok(name)
        } else {
            Err(E::invalid_value(Unexpected::Str(text), &self))
        }
    }
}

/// Reads a tool name that is safe to use in messages to the agent.
fn tool_name<'de, D: Deserializer<'de>>(value: D) -> Result<SafeName, D::Error> {
    value.deserialize_str(PlainName { what: "a tool name" })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct TriggerWire {
    every_n_calls: Option<Count>,
    every_n_seconds: Option<Count>,
}

/// Reads how often a provider may give feedback to the agent: after so many tool calls, after so
/// many seconds, or both.
fn trigger<'de, D: Deserializer<'de>>(value: D) -> Result<FeedbackTrigger, D::Error> {
    let TriggerWire { every_n_calls, every_n_seconds } = TriggerWire::deserialize(value)?;
    let calls = every_n_calls.map(|n| FeedbackTrigger::every_n_calls(n.0.get()));
    let seconds = every_n_seconds.map(|n| FeedbackTrigger::every_n_seconds(f64::from(n.0.get())));
    let mut trigger = FeedbackTrigger::never();
    for part in [calls, seconds].into_iter().flatten() {
        trigger = trigger.or(part.map_err(D::Error::custom)?);
    }
    if trigger == FeedbackTrigger::never() {
        return Err(D::Error::custom("a trigger needs `every_n_calls`, `every_n_seconds` or both"));
    }
    Ok(trigger)
}

/// Defines a type that wraps a value and reads it with one of the functions above. Optional
/// settings need such a type: serde cannot apply `deserialize_with` to the value in an `Option`.
macro_rules! optional {
    ($name:ident($kind:ty) = $read:ident) => {
        pub(super) struct $name(pub(super) $kind);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
                $read(value).map(Self)
            }
        }
    };
}

optional!(Count(NonZeroU32) = count);
optional!(CountOrZero(u32) = count_or_zero);
optional!(Amount(u64) = amount);
optional!(CycleLen(NonZeroU32) = cycle_len);
optional!(Probability(Confidence) = probability);
optional!(DurationText(Duration) = duration);
optional!(SizeText(u64) = size);
optional!(ToolName(SafeName) = tool_name);
optional!(Trigger(FeedbackTrigger) = trigger);
optional!(HoldoutShare(Holdout) = holdout);
optional!(OutcomeCalls(NonZeroU32) = outcome_calls);
optional!(PlannedCases(NonZeroU32) = planned_cases);
optional!(ExperimentName(String) = experiment_name);
/// A price in US dollars: zero or more.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Dollars(pub(super) f64);

impl TryFrom<f64> for Dollars {
    type Error = InvalidMoney;

    fn try_from(dollars: f64) -> Result<Self, InvalidMoney> {
        MicroUsd::try_from(dollars)?;
        Ok(Self(dollars))
    }
}

/// The address of a fleet.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct FleetAddress(pub(super) String);

impl TryFrom<String> for FleetAddress {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let url = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        let user = url.and_then(|url| url.rsplit_once('@')).map_or("", |(user, _)| user);
        if user.contains(':') {
            // The address is recorded with each run.
            return Err(
                "leave the password out; use a password file (~/.pgpass) or a service entry",
            );
        }
        if url.is_none() && !text.starts_with("service=") {
            return Err("write postgres://USER@HOST/DATABASE or service=NAME");
        }
        Ok(Self(text))
    }
}

/// A regular expression that matches secrets.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PatternText(pub(super) String);

impl TryFrom<String> for PatternText {
    type Error = InvalidPattern;

    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        Redaction::off().with_pattern(&text)?;
        Ok(Self(text))
    }
}

/// A model host, written as `HOST` or `HOST:PORT`. The port is 443 if it is left out.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct ModelHostText(pub(super) ModelHost);

impl TryFrom<String> for ModelHostText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        const HTTPS_PORT: u16 = 443;
        let (name, port) = match text.split_once(':') {
            None => (text.as_str(), Some(HTTPS_PORT)),
            Some((name, port)) => (name, port.parse().ok()),
        };
        let is_label = |label: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !label.is_empty() && label.len() < 64 && label.bytes().all(is_plain)
        };
        let is_name = name.split('.').all(is_label) && name.len() < 254;
        let is_address = name.parse::<std::net::Ipv4Addr>().is_ok();
        let port = port.filter(|port| *port > 0 && is_name && !is_address);
        let port = port.ok_or_else(|| {
            format!("invalid host `{text}`; write a host name such as gateway.example.com")
        })?;
        Ok(Self(ModelHost { name: name.to_ascii_lowercase(), port }))
    }
}
