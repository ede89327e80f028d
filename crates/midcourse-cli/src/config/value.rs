//! Values that hold only what makes sense. What does not is refused with what is allowed, and the
//! reader of the file adds where it stands.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use midcourse::{
    Confidence, FeedbackTrigger, MAX_CYCLE_LEN, MAX_SAFE_NAME_CHARS, Mode, SafeName, WindowSize,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use crate::duration::parse_duration;

/// The highest number of calls that can be waited for: a threshold that is never reached switches a
/// detector off.
const COUNT_MAX: u32 = 1_000_000;

/// Whole numbers in these bounds.
struct Whole {
    from: u64,
    to: u64,
}

/// As high as a number in a file can be.
const NO_END: u64 = i64::MAX as u64;

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { from, to: NO_END } => write!(f, "a whole number of {from} or more"),
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

fn counted<'de, D: Deserializer<'de>>(value: D, to: u32) -> Result<NonZeroU32, D::Error> {
    let number = value.deserialize_i64(Whole { from: 1, to: to.into() })?;
    // It was looked at above.
    Ok(u32::try_from(number).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN))
}

/// A number of calls.
pub(super) fn count<'de, D: Deserializer<'de>>(value: D) -> Result<NonZeroU32, D::Error> {
    counted(value, COUNT_MAX)
}

/// A number of calls that may be none.
fn count_or_none<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    let number = value.deserialize_i64(Whole { from: 0, to: COUNT_MAX.into() })?;
    Ok(u32::try_from(number).unwrap_or(COUNT_MAX))
}

/// An amount without an upper end.
fn amount<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    value.deserialize_i64(Whole { from: 1, to: NO_END })
}

/// The length of a cycle.
pub(super) fn cycle<'de, D: Deserializer<'de>>(value: D) -> Result<NonZeroU32, D::Error> {
    counted(value, u32::try_from(MAX_CYCLE_LEN).unwrap_or(u32::MAX))
}

/// A number of calls that are kept.
pub(super) fn window<'de, D: Deserializer<'de>>(value: D) -> Result<WindowSize, D::Error> {
    let calls = counted(value, u32::try_from(WindowSize::MAX).unwrap_or(u32::MAX))?;
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

/// How sure one is to be, or how alike two things are.
pub(super) fn probability<'de, D: Deserializer<'de>>(value: D) -> Result<Confidence, D::Error> {
    value.deserialize_f64(FromZeroToOne)
}

struct UpToAYear;

impl Visitor<'_> for UpToAYear {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a length of time of up to 365 days, such as \"90s\", \"30m\" or \"2h\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// A length of time.
pub(super) fn length<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
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

/// Whether what is said reaches the agent.
pub(super) fn mode<'de, D: Deserializer<'de>>(value: D) -> Result<Mode, D::Error> {
    value.deserialize_str(LiveOrShadow)
}

struct PlainName;

impl Visitor<'_> for PlainName {
    type Value = SafeName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a tool's name of up to {MAX_SAFE_NAME_CHARS} letters, digits, `.`, `_`, `/` and `-`"
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

/// The name of a tool that is said to the agent.
fn tool_name<'de, D: Deserializer<'de>>(value: D) -> Result<SafeName, D::Error> {
    value.deserialize_str(PlainName)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct TriggerWire {
    every_n_calls: Option<Count>,
    every_n_seconds: Option<Count>,
}

/// When a feedback provider is asked.
fn trigger<'de, D: Deserializer<'de>>(value: D) -> Result<FeedbackTrigger, D::Error> {
    let TriggerWire { every_n_calls, every_n_seconds } = TriggerWire::deserialize(value)?;
    let calls = every_n_calls.map(|n| FeedbackTrigger::every_n_calls(n.0.get()));
    let seconds = every_n_seconds.map(|n| FeedbackTrigger::every_n_seconds(f64::from(n.0.get())));
    let mut trigger = FeedbackTrigger::never();
    for part in [calls, seconds].into_iter().flatten() {
        trigger = trigger.or(part.map_err(D::Error::custom)?);
    }
    if trigger == FeedbackTrigger::never() {
        return Err(D::Error::custom("a trigger has `every_n_calls`, `every_n_seconds` or both"));
    }
    Ok(trigger)
}

/// A value that a table may leave out.
macro_rules! optional {
    ($name:ident($kind:ty) = $read:ident) => {
        #[doc = concat!("As [`", stringify!($read), "`], where the key may be missing.")]
        pub(super) struct $name(pub(super) $kind);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
                $read(value).map(Self)
            }
        }
    };
}

optional!(Count(NonZeroU32) = count);
optional!(CountOrNone(u32) = count_or_none);
optional!(Amount(u64) = amount);
optional!(Cycle(NonZeroU32) = cycle);
optional!(Probability(Confidence) = probability);
optional!(Length(Duration) = length);
optional!(ToolName(SafeName) = tool_name);
optional!(Trigger(FeedbackTrigger) = trigger);
