//! Plain words for patterns, failures and numbers, the same in the text, the page and the summary.

use midcourse::{Activity, FailureKind, OutcomeVerdict, PatternDetail, ToolInvoked};

use super::data::{Message, MessageOutcome};
use crate::display::plain_name;

/// Whether `[patterns.NAME] enabled = false` is a key of the configuration.
pub(crate) fn can_be_disabled(name: &str) -> bool {
    let limits = ["waiting", "deadline", "budget", "sequential_calls"];
    plain_name(name) != name && !limits.contains(&name)
}

/// What the agent did while the pattern held, as a phrase that follows "it". `call` is the latest
/// call that shows the pattern, and `count` the number of calls or responses that do.
pub(crate) fn trouble(detail: &PatternDetail, call: Option<&ToolInvoked>, count: u64) -> String {
    let did = || {
        call.map_or("made a call".to_owned(), |call| call.activity().did(call.object().as_ref()))
    };
    let failed = call.is_some_and(ToolInvoked::is_error);
    let times = times(count);
    match detail {
        PatternDetail::DoomLoop { cycle_length: 1, .. } => {
            let result = if failed { "failure" } else { "result" };
            format!("{} {times} with the same {result}", did())
        }
        PatternDetail::DoomLoop { cycle_length, .. } => {
            let rounds = (count / u64::from((*cycle_length).max(1))).max(1);
            format!("went through the same {cycle_length} calls {}", self::times(rounds))
        }
        PatternDetail::RepeatedError { .. } => format!("{} {times} with the same failure", did()),
        PatternDetail::ErrorCascade { .. } => format!("made {count} failing calls in a row"),
        PatternDetail::ProgressStall { actions, .. } => {
            format!("made {} calls without progress", count.max(*actions))
        }
        PatternDetail::Churn { turns, .. } => {
            format!("only planned or made edits without effect in {turns} turns")
        }
        PatternDetail::ToolAvoidance { .. } => {
            format!("announced its next step {times} and took none")
        }
        PatternDetail::ContextDegradation { repeated, of } => {
            format!("asked again for what it had read in {repeated} of {of} calls")
        }
        PatternDetail::Sweep { file, reads, .. } => match file {
            Some(file) => format!("read \"{file}\" {reads} times in pieces"),
            None => format!("read one file {reads} times in pieces"),
        },
        PatternDetail::Stagnation { calls, .. } => match call.map(ToolInvoked::activity) {
            Some(Activity::Search) => format!("searched {calls} times and found nothing new"),
            _ => format!("made {calls} different calls with the same result"),
        },
        PatternDetail::WriteThrash { file, returns } => match file {
            Some(file) => format!("changed \"{file}\" back and forth {returns} times"),
            None => format!("changed a file back and forth {returns} times"),
        },
        PatternDetail::NoEffect { changes, .. } => {
            let object = call.and_then(ToolInvoked::object);
            let check = object.map_or("the check".to_owned(), |object| object.to_string());
            format!("made {changes} changes, and {check} gave the same result after each")
        }
        PatternDetail::Waiting { polls, .. } => format!("waited and looked {polls} times"),
        PatternDetail::Outage { .. } => {
            format!("could not reach a service or the network {times}")
        }
        PatternDetail::Monologue { .. } => "repeated the same text".to_owned(),
        PatternDetail::IdleTalk { responses } => {
            format!("responded {responses} times without a tool call")
        }
        PatternDetail::Drift { .. } => "worked outside the task".to_owned(),
        PatternDetail::Custom { name, .. } => format!("showed the pattern {name}"),
    }
}

/// The kind of a failure, as a noun phrase.
pub(crate) const fn failure(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Permission => "no permission",
        FailureKind::NotFound => "something does not exist",
        FailureKind::MissingProgram => "a program is not installed",
        FailureKind::MissingPackage => "a package is not installed",
        FailureKind::UnknownTool => "the tool does not exist",
        FailureKind::UnknownName => "an unknown name",
        FailureKind::BadArguments => "arguments were not accepted",
        FailureKind::Timeout => "a time limit",
        FailureKind::Outage => "a service is down",
        FailureKind::Check => "a failing check",
        FailureKind::Syntax => "a text cannot be parsed",
        FailureKind::EditMismatch => "the edit does not fit the file",
        FailureKind::Conflict => "something is in the way",
        FailureKind::Resource => "a resource is used up",
        FailureKind::Other => "another failure",
    }
}

/// What became of the problem after a message. `None` if that is not known.
pub(crate) fn outcome(message: &Message) -> Option<String> {
    let Some(MessageOutcome { verdict, after_calls }) = message.outcome else {
        let is_seen = is_problem(message) && message.was_shown();
        return is_seen.then(|| "what became of the problem is not known".to_owned());
    };
    let calls = count(after_calls, "call");
    Some(match verdict {
        OutcomeVerdict::Cleared => format!("the problem went away after {calls}"),
        OutcomeVerdict::Ignored => format!("the problem was still there after {calls}"),
        OutcomeVerdict::RunEnded => "the run ended first".to_owned(),
    })
}

/// Whether a message is about a problem that can go away, and not about a limit or a hint.
fn is_problem(message: &Message) -> bool {
    let pattern = message.pattern.as_deref().unwrap_or("deadline");
    !matches!(pattern, "deadline" | "budget" | "sequential_calls") && plain_name(pattern) != pattern
}

/// How often: "once", "twice", "three times", "41 times".
pub(crate) fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        3..=10 => format!("{} times", number(count)),
        _ => format!("{count} times"),
    }
}

/// A number of at most ten as a word.
pub(crate) fn number(count: u64) -> String {
    let words =
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let word = usize::try_from(count).ok().and_then(|index| words.get(index));
    word.map_or_else(|| count.to_string(), |word| (*word).to_owned())
}

/// "first", "second" and so on.
pub(crate) fn ordinal(number: usize) -> String {
    let words =
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"];
    match number.checked_sub(1).and_then(|index| words.get(index)) {
        Some(word) => (*word).to_owned(),
        None => format!("{number}th"),
    }
}

/// Formats a number with its noun: `1 call`, `2 calls`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// Formats a number with a comma after every three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len().saturating_mul(2));
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && digits.len().saturating_sub(index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of tokens in at most three digits: `950`, `12.3 k`, `4.1 M`.
pub(crate) fn tokens(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "only three digits are shown")]
    let scaled = |by: f64| count as f64 / by;
    match count {
        0..1_000 => count.to_string(),
        1_000..99_950 => format!("{:.1} k", scaled(1e3)),
        99_950..999_500 => format!("{:.0} k", scaled(1e3)),
        999_500..99_950_000 => format!("{:.1} M", scaled(1e6)),
        99_950_000..9_950_000_000 => format!("{:.0} M", scaled(1e6)),
        _ => format!("{:.1} G", scaled(1e9)),
    }
}

/// Cuts a text to about `max_chars` characters, with a note of how much was left out.
pub(crate) fn shorten(text: &str, max_chars: usize) -> String {
    let mut chars = text.char_indices();
    let Some((end, _)) = chars.nth(max_chars) else { return text.to_owned() };
    let left_out = chars.count().saturating_add(1);
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept} … ({} more characters)", grouped(u64::try_from(left_out).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::{grouped, ordinal, shorten, times, tokens};

    #[test]
    fn numbers_are_short_and_readable() {
        assert_eq!(
            ["1", "2", "3", "11"].map(|it| times(it.parse().unwrap())),
            ["once", "twice", "three times", "11 times"]
        );
        assert_eq!(
            [0, 999, 1_000, 99_949, 99_950, 999_500, 14_230_000, 1_500_000_000].map(tokens),
            ["0", "999", "1.0 k", "99.9 k", "100 k", "1.0 M", "14.2 M", "1500 M"]
        );
        assert_eq!([7, 1_000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
        assert_eq!((ordinal(2), ordinal(12)), ("second".to_owned(), "12th".to_owned()));
    }

    #[test]
    fn a_long_text_is_cut_with_a_note() {
        assert_eq!(shorten("größer", 6), "größer");
        assert_eq!(shorten("größer", 3), "grö … (3 more characters)");
        let long = "x".repeat(10_000_000);
        assert!(shorten(&long, 100).ends_with(" … (9,999,900 more characters)"));
    }
}
