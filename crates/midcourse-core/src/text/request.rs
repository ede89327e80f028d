//! Reads from a message of the user whether unusual behaviour is normal in this run, because the
//! user asks for it: to run or watch something repeatedly, to provoke failures, or to keep results
//! as they are. Also recognizes messages that the host writes in the user's name.
//!
//! `analysis` calls these functions once per message.

use super::phrases::{Phrases, WHOLE};

/// How many bytes of a message are examined; the rest of a longer one is usually a pasted document.
const MAX_REQUEST_BYTES: usize = 2048;

/// Beginnings of messages that a host, a hook or a router writes in the user's name, in lowercase.
const AUTOMATIC_BEGINNINGS: [&str; 23] = [
    "no tool call",
    "no function call",
    "no tool was called",
    "no action found",
    "you did not call",
    "you did not use a tool",
    "you have not called",
    "your response did not contain",
    "your reply did not contain",
    "your last message did not",
    "your last response did not",
    "your last reply did not",
    "please continue",
    "please proceed",
    "continue",
    "keep going",
    "[context compacted",
    "[session resumed",
    "[resumed",
    "[system",
    "[hook",
    "[automatic",
    "<system-reminder>",
];

/// A message with one of the `AUTOMATIC_BEGINNINGS` and more bytes than this counts as the user's
/// own, because the user may have written the rest.
const MAX_AUTOMATIC_BYTES: usize = 400;

/// A message that equals the previous one is automatic if it has at least this many bytes. A
/// shorter one may come from a person, who may say "yes, please" twice.
const MIN_REPEATED_BYTES: usize = 16;

/// A message that begins with "continue" or "keep going" and has more bytes than this is a request
/// of the user, because it says more than to continue.
const MAX_CONTINUE_BYTES: usize = 80;

/// How the message begins with which a host continues a conversation after it has replaced the
/// earlier messages by a summary.
const SUMMARY_BEGINNING: &str = "this session is being continued from a previous conversation";

/// Whether a message contains the summary of an earlier conversation. The host wrote it; the request
/// of the user is still the one from before.
pub(crate) fn is_summary(text: &str) -> bool {
    let start = text.get(..SUMMARY_BEGINNING.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(SUMMARY_BEGINNING))
}

/// Whether the host wrote a message in the user's name. `is_said_before` says whether the previous
/// message with the user's role was the same, a short time ago.
pub(crate) fn is_automatic(text: &str, is_said_before: bool) -> bool {
    if is_said_before && text.len() >= MIN_REPEATED_BYTES {
        return true;
    }
    let begins = |beginning: &str| {
        text.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
    };
    let is_prompt = begins("continue") || begins("please continue") || begins("keep going");
    let max_bytes = if is_prompt { MAX_CONTINUE_BYTES } else { MAX_AUTOMATIC_BYTES };
    text.len() <= max_bytes && AUTOMATIC_BEGINNINGS.iter().any(|beginning| begins(beginning))
}

/// What the user asks for, one bit per kind of request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Request(u8);

impl Request {
    /// The user asks to run something repeatedly, or to look at something at an interval.
    pub(crate) const REPEAT: Self = Self(1);
    /// The user asks to find or provoke failures, so that failed calls are the wanted results.
    pub(crate) const FAILURES: Self = Self(1 << 1);
    /// The user asks to change the form of something and not its behaviour, so that the same result
    /// after a change is the goal.
    pub(crate) const PRESERVE: Self = Self(1 << 2);

    /// The user asks to check each object of a list, so that many different calls may get the same
    /// result.
    pub(crate) const LIST: Self = Self(1 << 3);

    /// The user says that something takes minutes or hours, so that waiting for it is normal.
    pub(crate) const PATIENCE: Self = Self(1 << 4);

    /// The user asks to do the same with each object of a list, so that the agent returns to the same
    /// page or state after each.
    pub(crate) const EACH: Self = Self(1 << 5);

    /// The user asks to change nothing but what the message names.
    pub(crate) const ONLY: Self = Self(1 << 6);

    /// What a message asks for.
    pub(crate) fn of(text: &str) -> Self {
        let text = text.get(..text.floor_char_boundary(MAX_REQUEST_BYTES)).unwrap_or_default();
        let (mut request, mut words) = (Self::default(), 0);
        for (at, meaning) in REQUESTS.find_in(text.as_bytes()) {
            words |= meaning;
            request.0 |= match meaning {
                REPEAT => Self::REPEAT.0,
                FAILURES => Self::FAILURES.0,
                PRESERVE => Self::PRESERVE.0,
                ONLY if ends_clause(text, at) => Self::ONLY.0,
                REPEAT_BEFORE_TIME if names_each(text, at) => Self::EACH.0,
                CHECKED_FAILURES | CHECK | REPORT | FIX | LISTS | ONLY => 0,
                TAKES if names_time(text, at) => Self::PATIENCE.0,
                TAKES => 0,
                _ if asks_to_repeat(text, at, meaning) => Self::REPEAT.0,
                _ => 0,
            };
        }
        if words & CHECKED_FAILURES != 0 && words & (CHECK | REPORT) != 0 && words & FIX == 0 {
            request.0 |= Self::FAILURES.0;
        }
        if words & LISTS != 0 && words & CHECK != 0 && words & FIX == 0 {
            request.0 |= Self::LIST.0;
        }
        // To fix each of several things, the agent has to see an effect, as with a single one.
        if words & FIX != 0 {
            request.0 &= !Self::EACH.0;
        }
        // The user names one change, and not the same change in many places.
        if words & (LISTS | REPEAT_BEFORE_TIME) != 0 {
            request.0 &= !Self::ONLY.0;
        }
        request
    }

    pub(crate) const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }
}

/// Flag of a phrase that asks for repetition in any context.
const REPEAT: u16 = 1;
/// Flag of a phrase that asks for repetition if it follows a number.
const REPEAT_AFTER_NUMBER: u16 = 2;
/// Flag of a phrase that asks for repetition if the message has a `?` or the word "whether".
const REPEAT_IN_QUESTION: u16 = 4;
/// Flag of a phrase that asks for repetition if a time follows: "every five minutes".
const REPEAT_BEFORE_TIME: u16 = 8;
/// Flag of a phrase that means that the user wants to see failures.
const FAILURES: u16 = 16;
/// Flag of a phrase about failures that may also be part of a bug report. The phrase counts only in
/// a message that asks to check or report something, and not to fix it.
const CHECKED_FAILURES: u16 = 32;
/// Flag of a word that asks to check something.
const CHECK: u16 = 64;
/// Flag of a word that asks to report something.
const REPORT: u16 = 1024;
/// Flag of a word that asks to fix something.
const FIX: u16 = 128;
/// Flag of a phrase that asks to keep the behaviour.
const PRESERVE: u16 = 256;

/// Flag of a word such as "takes", which says how long something takes if a time follows.
const TAKES: u16 = 2048;
/// Flag of a phrase that asks to change nothing but what the message names.
const ONLY: u16 = 4096;
/// Flag of a phrase such as "all" or "one by one", which refers to many objects.
const LISTS: u16 = 512;

static REQUESTS: Phrases<110> = Phrases::new([
    ("repeatedly", REPEAT),
    ("cycles", REPEAT_AFTER_NUMBER),
    ("rounds", REPEAT_AFTER_NUMBER),
    ("repetitions", REPEAT_AFTER_NUMBER),
    ("provok", FAILURES),
    ("nothing else", ONLY),
    ("no other change", ONLY),
    ("touch nothing", ONLY),
    ("change nothing", ONLY),
    ("this only", ONLY | WHOLE),
    ("that only", ONLY | WHOLE),
    ("just this", ONLY | WHOLE),
    ("only that", ONLY | WHOLE),
    ("only this", ONLY | WHOLE),
    ("don't touch anything", ONLY),
    ("do not touch anything", ONLY),
    ("don't change anything", ONLY),
    ("do not change anything", ONLY),
    ("leave everything else", ONLY),
    ("leave the rest", ONLY),
    ("flaky", REPEAT_IN_QUESTION),
    ("flakiness", REPEAT_IN_QUESTION),
    ("times", REPEAT_AFTER_NUMBER),
    ("samples", REPEAT_AFTER_NUMBER),
    ("runs", REPEAT_AFTER_NUMBER),
    ("iterations", REPEAT_AFTER_NUMBER),
    ("every", REPEAT_BEFORE_TIME | WHOLE),
    ("each", REPEAT_BEFORE_TIME | WHOLE),
    ("error case", FAILURES),
    ("error message", CHECKED_FAILURES),
    ("error path", CHECKED_FAILURES),
    ("failure case", FAILURES),
    ("failure mode", FAILURES),
    ("negative test", FAILURES),
    ("negative case", FAILURES),
    ("dead link", FAILURES),
    ("broken link", FAILURES),
    ("dead ones", FAILURES),
    ("broken ones", FAILURES),
    ("wrong password", FAILURES),
    ("wrong pin", FAILURES | WHOLE),
    ("wrong login", FAILURES),
    ("lockout", CHECKED_FAILURES),
    ("chaos", FAILURES | WHOLE),
    ("drill", FAILURES | WHOLE),
    ("measure how long", REPEAT),
    ("fuzz", FAILURES),
    ("pentest", FAILURES),
    ("penetration test", FAILURES),
    ("rate limiter", CHECKED_FAILURES),
    ("reachable", CHECKED_FAILURES | WHOLE),
    ("unreachable", CHECKED_FAILURES | WHOLE),
    ("which ports", FAILURES),
    ("open ports", CHECKED_FAILURES),
    ("closed ports", CHECKED_FAILURES),
    ("port scan", FAILURES),
    ("expected to fail", FAILURES),
    ("should fail", FAILURES),
    ("must fail", FAILURES),
    ("has to fail", FAILURES),
    ("is what we want", FAILURES),
    ("are what we want", FAILURES),
    ("should be refused", FAILURES),
    ("should be rejected", FAILURES),
    ("should be denied", FAILURES),
    ("should be blocked", FAILURES),
    ("must be refused", FAILURES),
    ("must be rejected", FAILURES),
    ("must be denied", FAILURES),
    ("must be blocked", FAILURES),
    ("is refused", CHECKED_FAILURES),
    ("is rejected", CHECKED_FAILURES),
    ("is denied", CHECKED_FAILURES),
    ("are rejected", CHECKED_FAILURES),
    ("are refused", CHECKED_FAILURES),
    ("are denied", CHECKED_FAILURES),
    ("verify", CHECK),
    ("check", CHECK),
    ("confirm", CHECK),
    ("test that", CHECK | WHOLE),
    ("list", REPORT | WHOLE),
    ("whether", CHECK),
    ("which", REPORT),
    ("which of", CHECK | WHOLE),
    ("measure", REPORT),
    ("tell me", REPORT),
    ("all", LISTS | WHOLE),
    ("every", LISTS | WHOLE),
    ("of these", LISTS | WHOLE),
    ("of our", LISTS | WHOLE),
    ("one by one", LISTS),
    ("listed", LISTS | WHOLE),
    ("each of", LISTS | WHOLE),
    ("for each", LISTS | WHOLE),
    ("fix", FIX | WHOLE),
    ("repair", FIX),
    ("solve", FIX | WHOLE),
    ("make", FIX | WHOLE),
    ("get it", FIX | WHOLE),
    ("write a function", FIX),
    ("implement", FIX),
    ("takes", TAKES | WHOLE),
    ("take", TAKES | WHOLE),
    ("needs", TAKES | WHOLE),
    ("refactor", PRESERVE),
    ("rename", PRESERVE),
    ("without changing", PRESERVE),
    ("behaviour must not change", PRESERVE),
    ("byte-identical", PRESERVE),
    ("must stay the same", PRESERVE),
]);

/// If one of these words comes before the number, the phrase is a report and not a request: "failed
/// three times".
const REPORT_VERBS: [&str; 7] =
    ["failed", "crashed", "tried", "happened", "occurred", "broke", "died"];
/// If one of these words follows "times", the phrase is a comparison and not a request: "ten times
/// faster".
const COMPARISONS: [&str; 10] =
    ["faster", "slower", "as", "more", "less", "larger", "smaller", "bigger", "better", "the"];

const NUMBER_WORDS: [&str; 16] = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twenty", "fifty",
    "hundred", "several", "multiple", "few", "other",
];

const TIME_UNITS: [&str; 10] =
    ["second", "seconds", "sec", "s", "minute", "minutes", "min", "mins", "hour", "hours"];

/// Whether a phrase at this position asks for repeated runs: "run it ten times", "is it flaky?",
/// "look every five minutes".
fn asks_to_repeat(text: &str, at: usize, meaning: u16) -> bool {
    let (before, from_phrase) = text.split_at_checked(at).unwrap_or_default();
    let is_word = |word: &&str| !word.is_empty();
    let not_word = |c: char| !c.is_alphanumeric();
    let mut after = from_phrase.split(not_word).filter(is_word).skip(1);
    match meaning {
        REPEAT_IN_QUESTION => text.contains('?') || text.contains("whether"),
        REPEAT_BEFORE_TIME => {
            let next = after.next().unwrap_or_default();
            // "every 5s" and "every 5 seconds".
            let unit = next.trim_start_matches(|c: char| c.is_ascii_digit());
            let is_counted = unit.len() < next.len() || is_number(next);
            let unit = if is_counted && unit.is_empty() || is_number(next) {
                after.next().unwrap_or_default()
            } else {
                unit
            };
            is_one_of(unit, &TIME_UNITS)
        }
        _ => {
            let mut before = before.rsplit(not_word).filter(is_word).peekable();
            // "30 power cycles": the word between says what kind of cycle.
            if from_phrase.starts_with("cycles") {
                before.next_if(|word| !is_number(word));
            }
            let is_counted = before.next().is_some_and(is_number);
            let is_report = before.next().is_some_and(|word| is_one_of(word, &REPORT_VERBS));
            is_counted
                && !is_report
                && !after.next().is_some_and(|word| is_one_of(word, &COMPARISONS))
        }
    }
}

/// Whether the word "each" at this position stands for each object of a list: "one mail each", "for
/// each person". "After each step" does not: there, the user asks for a step in between.
fn names_each(text: &str, at: usize) -> bool {
    let (before, from_word) = text.split_at_checked(at).unwrap_or_default();
    let Some((word, after)) = from_word.split_at_checked(4) else { return false };
    let previous = before.split_whitespace().next_back().unwrap_or_default();
    let is_last = !after.trim_start_matches(' ').starts_with(|c: char| c.is_alphanumeric());
    let is_distributed = is_last && !is_one_of(previous, &["after", "before"]);
    word.eq_ignore_ascii_case("each") && (is_distributed || previous.eq_ignore_ascii_case("for"))
}

/// Whether a phrase such as "only that" at this position ends its clause, unlike in "only that week".
/// Other phrases need not.
fn ends_clause(text: &str, at: usize) -> bool {
    let phrase = text.get(at..).unwrap_or_default();
    let is_only = phrase.get(.."only that".len()).is_some_and(|words| {
        is_one_of(words, &["only that", "only this", "this only", "that only", "just this"])
    });
    let rest = phrase.get("only that".len()..).unwrap_or_default();
    !is_only || !rest.trim_start_matches(' ').starts_with(|c: char| c.is_alphanumeric())
}

/// Whether one of the five words after the word at position `at` is a unit such as "minutes" or
/// "hours".
fn names_time(text: &str, at: usize) -> bool {
    let after = text.get(at..).unwrap_or_default();
    let mut words = after.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_time = |word: &str| is_one_of(word, &["minutes", "min", "hour", "hours", "h"]);
    words.by_ref().skip(1).take(5).any(is_time)
}

fn is_one_of(word: &str, list: &[&str]) -> bool {
    list.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit()) || is_one_of(word, &NUMBER_WORDS)
}

#[cfg(test)]
mod tests;
