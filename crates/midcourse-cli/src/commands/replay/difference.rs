//! How the messages of a replay differ from the recorded ones, by cause and call.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};

use crate::commands::replayed_messages::{Message, Messages, pair};
use crate::display::{one_line, plain_name};

/// What became of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change<'a> {
    Same(&'a Message),
    /// The same cause after the same call, with another text.
    Reworded(&'a Message, &'a Message),
    /// The same cause after another call.
    Moved(&'a Message, &'a Message),
    Gone(&'a Message),
    New(&'a Message),
}

impl<'a> Change<'a> {
    fn of(recorded: &'a Message, replayed: &'a Message) -> Self {
        match (recorded.call == replayed.call, recorded.text == replayed.text) {
            (false, _) => Self::Moved(recorded, replayed),
            (true, false) => Self::Reworded(recorded, replayed),
            (true, true) => Self::Same(recorded),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Same(_) => "same",
            Self::Reworded(..) => "reworded",
            Self::Moved(..) => "moved",
            Self::Gone(_) => "gone",
            Self::New(_) => "new",
        }
    }

    const fn recorded(self) -> Option<&'a Message> {
        match self {
            Self::Same(recorded)
            | Self::Reworded(recorded, _)
            | Self::Moved(recorded, _)
            | Self::Gone(recorded) => Some(recorded),
            Self::New(_) => None,
        }
    }

    const fn replayed(self) -> Option<&'a Message> {
        match self {
            Self::Same(replayed)
            | Self::Reworded(_, replayed)
            | Self::Moved(_, replayed)
            | Self::New(replayed) => Some(replayed),
            Self::Gone(_) => None,
        }
    }

    /// The call by which the changes are ordered.
    fn call(self) -> u64 {
        self.recorded().or(self.replayed()).map(|message| message.call).unwrap_or_default()
    }
}

/// Finds out what became of each message, in the order of their calls. Messages about the same
/// cause that are a few calls apart are one message that moved, and so are messages about the very
/// same loop or error, however far apart.
fn changes(messages: &Messages) -> Vec<Change<'_>> {
    let Messages { recorded, replayed, .. } = messages;
    let mut partners = pair(recorded, replayed);
    let mut taken: BTreeSet<usize> = partners.iter().flatten().copied().collect();
    for (one, partner) in recorded.iter().zip(&mut partners).filter(|(_, it)| it.is_none()) {
        let is_same_cause = |other: &Message| one.full_cause == other.full_cause;
        let mut left = replayed.iter().enumerate().filter(|(at, _)| !taken.contains(at));
        *partner = left.find(|(_, other)| is_same_cause(other)).map(|(at, _)| at);
        taken.extend(*partner);
    }
    let known = recorded.iter().zip(partners).map(|(one, partner)| {
        match partner.and_then(|at| replayed.get(at)) {
            Some(other) => Change::of(one, other),
            None => Change::Gone(one),
        }
    });
    let new = replayed.iter().enumerate().filter(|(at, _)| !taken.contains(at));
    let mut changes: Vec<Change<'_>> =
        known.chain(new.map(|(_, message)| Change::New(message))).collect();
    changes.sort_by_key(|change| change.call());
    changes
}

/// Prints what became of each message; nothing if all are the same. `config` is the name of the
/// configuration file.
pub(super) fn print(out: &mut impl Write, messages: &Messages, config: &str) -> Result<()> {
    let changes = changes(messages);
    if changes.iter().all(|change| matches!(change, Change::Same(_))) {
        return Ok(());
    }
    writeln!(out, "\nWith {config}, compared with the recorded messages:")?;
    for change in changes {
        let place = match change {
            Change::Moved(recorded, replayed) => {
                format!("from call {} to call {}", recorded.call, replayed.call)
            }
            _ => format!("call {}", change.call()),
        };
        let message = change.recorded().or(change.replayed());
        let cause = one_line(message.map(|it| it.cause.as_str()).unwrap_or_default(), 40);
        let about = match plain_name(&cause) {
            plain if plain == cause => cause,
            plain => format!("{plain} ({cause})"),
        };
        writeln!(out, "  {:<9} {place}: {about}", change.name())?;
    }
    Ok(())
}

/// The JSON lines for the messages that are not the same.
pub(super) fn lines(messages: &Messages) -> Vec<Value> {
    let changes = changes(messages).into_iter();
    let changed = changes.filter(|change| !matches!(change, Change::Same(_)));
    changed
        .map(|change| {
            json!({"type": "difference", "change": change.name(),
                   "recorded": change.recorded().map(Message::to_json),
                   "replayed": change.replayed().map(Message::to_json)})
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Message, Messages, print};
    use crate::commands::replayed_messages::message;

    #[track_caller]
    fn check(recorded: &[Message], replayed: &[Message], expected: &[&str]) {
        let (recorded, replayed) = (recorded.to_vec(), replayed.to_vec());
        let messages = Messages { recorded, replayed, ..Messages::default() };
        let mut out = Vec::new();
        print(&mut out, &messages, "x.toml").unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().skip(2).map(str::trim).collect();
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn each_message_is_the_same_or_moved_or_gone_or_new() {
        let a = |call| message("a", call);
        check(&[a(3)], &[a(3)], &[]);
        check(&[a(3)], &[a(5)], &["moved     from call 3 to call 5: a"]);
        check(&[a(3)], &[a(40)], &["moved     from call 3 to call 40: a"]);
        check(&[a(3)], &[], &["gone      call 3: a"]);
        check(
            &[],
            &[message("doom_loop", 4)],
            &["new       call 4: the same calls over and over (doom_loop)"],
        );
        check(
            &[a(3), a(10)],
            &[a(10), message("b", 12)],
            &["gone      call 3: a", "same      call 10: a", "new       call 12: b"],
        );
        let reworded = Message { text: "otherwise".to_owned(), ..a(3) };
        check(&[a(3)], &[reworded], &["reworded  call 3: a"]);
    }

    #[test]
    fn another_error_far_away_is_another_message() {
        let other = midcourse::Cause::new("a", midcourse::Digest::of(b"other"));
        let other = Message { full_cause: Some(other), ..message("a", 40) };
        check(&[message("a", 3)], &[other], &["gone      call 3: a", "new       call 40: a"]);
    }
}
