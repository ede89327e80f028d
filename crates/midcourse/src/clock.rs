//! The only file that asks the system for the date and time. Other code calls `now` from here, or
//! gets the time as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

use midcourse_core::Timestamp;

/// The current time. If the system's clock is set to a date before 1970, returns the Unix epoch.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
