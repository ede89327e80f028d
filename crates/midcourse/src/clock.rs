//! The clock: the one place that asks it. Everything else is told the time.

use std::time::{SystemTime, UNIX_EPOCH};

use midcourse_core::Timestamp;

/// The time now.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
