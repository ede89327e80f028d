//! Follows a project of a fleet: shippers send a notification for each batch that was shipped.

use std::time::{Duration, Instant};

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator as _;

use crate::error::FleetError;
use crate::reader::FleetReader;

/// What was shipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// Nothing.
    Nothing,
    /// Something of the runs with these numbers.
    Runs(Vec<i64>),
    /// Any runs: so many that they are not named, or nobody knows which.
    All,
}

/// After this time, everything may have changed: a shipper that was killed has not sent its last
/// notification.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A connection that waits for notifications.
pub struct Follower {
    client: Client,
    project: i32,
    /// When it last said that everything may have changed.
    looked: Instant,
}

impl Follower {
    /// Begins to follow the project of a reader. What is shipped from now on is noticed.
    pub fn open(reader: &FleetReader) -> Result<Self, FleetError> {
        let mut client = reader.target().connect()?;
        client.batch_execute("LISTEN midcourse")?;
        Ok(Self { client, project: reader.project_id(), looked: Instant::now() })
    }

    /// Waits until something was shipped, but no longer than `timeout`. Once a minute, it says that
    /// everything may have changed.
    pub fn wait(&mut self, timeout: Duration) -> Result<Changed, FleetError> {
        let mut changed = Changed::Nothing;
        {
            let mut notifications = self.client.notifications();
            if let Some(first) = notifications.timeout_iter(timeout).next()? {
                add(&mut changed, self.project, first.payload());
            }
            // Those that have arrived meanwhile.
            let mut others = notifications.iter();
            while let Some(other) = others.next()? {
                add(&mut changed, self.project, other.payload());
            }
        }
        if self.client.is_closed() {
            return Err(FleetError::Unreachable("the connection was closed".to_owned()));
        }
        if self.looked.elapsed() >= LOOK_AGAIN {
            changed = Changed::All;
        }
        if changed == Changed::All {
            self.looked = Instant::now();
        }
        Ok(changed)
    }
}

/// Adds what a notification says: the number of a project, and those of runs. Everybody may send
/// notifications, so a text that is none of ours is ignored.
fn add(changed: &mut Changed, project: i32, payload: &str) {
    let mut numbers = payload.split(' ').map(str::parse::<i64>);
    if numbers.next() != Some(Ok(i64::from(project))) {
        return;
    }
    let Ok(runs) = numbers.collect::<Result<Vec<i64>, _>>() else { return };
    match (&mut *changed, runs.is_empty()) {
        (Changed::All, _) | (_, true) => *changed = Changed::All,
        (Changed::Runs(known), false) => known.extend(runs),
        (Changed::Nothing, false) => *changed = Changed::Runs(runs),
    }
}

#[cfg(test)]
mod tests {
    use super::{Changed, add};

    #[test]
    fn notifications_add_up_and_strange_ones_are_ignored() {
        let mut changed = Changed::Nothing;
        for payload in ["", "2 7", "1 x", "x", "1 ; DROP TABLE", "11"] {
            add(&mut changed, 1, payload);
            assert_eq!(changed, Changed::Nothing, "{payload}");
        }
        add(&mut changed, 1, "1 7");
        add(&mut changed, 1, "1 8 9");
        assert_eq!(changed, Changed::Runs(vec![7, 8, 9]));
        add(&mut changed, 1, "1");
        add(&mut changed, 1, "1 3");
        assert_eq!(changed, Changed::All);
    }
}
