//! The only place that reads the system clock. Everything else gets the time as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

use midcourse_core::Timestamp;

/// The current time of the system's clock; the Unix epoch if the clock is set before it.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
