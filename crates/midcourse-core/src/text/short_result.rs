//! What a short tool result says: that nothing was found, something is still running, a service is
//! down, nothing was changed, or the call was refused.
//!
//! Only short results are read. In a long result the same phrases are content, not a statement
//! about the call. `analysis` reads each result once, when its call ends.

use super::phrases::{Phrases, WHOLE};

/// A result with more bytes than this is not examined.
const MAX_READ_BYTES: usize = 600;

/// A result with more bytes than this does not count as "nothing found", "still running",
/// "unchanged" or "negative", even if it contains such a phrase.
const MAX_STATEMENT_BYTES: usize = 240;

/// How long results of refused calls begin. Their reasons may have more than `MAX_READ_BYTES`.
const REFUSALS: [&str; 1] = ["Permission for this action was denied by "];

/// A result that is exactly one of these means "nothing found".
const NOTHING_FOUND: [&str; 12] = [
    "",
    "[]",
    "{}",
    "null",
    "none",
    "0",
    "no results",
    "no matches",
    "not found",
    "nothing found",
    "(no output)",
    "empty",
];

/// Words after "no", "0" or "found 0" that make the result mean "nothing found", as in "no files".
/// The beginning of a word is enough: `entr` stands for "entry" and "entries".
const COUNTABLE_NOUNS: [&str; 18] = [
    "match",
    "result",
    "file",
    "record",
    "entr",
    "row",
    "hit",
    "item",
    "document",
    "found",
    "such",
    "issue",
    "relevant",
    "occurrence",
    "reference",
    "flight",
    "exact",
    "object",
];

// The bits that say what a phrase in a result means.
/// Something is still running.
const PENDING: u16 = 1;
/// A service is down or overloaded.
const DOWN: u16 = 1 << 1;
/// A status code such as 503; means that a service is down if it follows a `STATUS` word.
const DOWN_CODE: u16 = 1 << 2;
/// A word such as "status" that comes before a status code.
const STATUS: u16 = 1 << 3;
/// The call changed nothing, because there was nothing to change.
const UNCHANGED: u16 = 1 << 4;
/// A person or a policy refused the call.
const REFUSED: u16 = 1 << 5;
/// What the agent tried is wrong, invalid or was not found.
const NEGATIVE: u16 = 1 << 6;
/// All is well: tests passed, nothing differs, an operation succeeded.
const POSITIVE: u16 = 1 << 9;
/// Something has ended, so that looking at it again brings nothing new.
const ENDED: u16 = 1 << 10;
/// Something, or a part of it, is done.
const DONE: u16 = 1 << 11;
/// The phrase "0 failed". It cancels `NEGATIVE`, which the word "failed" in it would mean.
const NONE_FAILED: u16 = 1 << 7;
/// A status code such as 404; means that something is missing if it follows a `STATUS` word.
const MISSING_CODE: u16 = 1 << 8;

/// A status code must begin within this many bytes after the start of its `STATUS` word.
const MAX_STATUS_DISTANCE_BYTES: usize = 16;

/// Phrases in the results of tools, services and hosts, with what they mean.
static PHRASES: Phrases<162> = Phrases::new([
    ("not found", NEGATIVE),
    ("no route", NEGATIVE),
    ("does not exist", NEGATIVE),
    ("404", MISSING_CODE),
    ("unknown", NEGATIVE),
    ("running", PENDING),
    ("pending", PENDING),
    ("in progress", PENDING),
    ("ongoing", PENDING | WHOLE),
    ("in_progress", PENDING),
    ("in-progress", PENDING),
    ("queued", PENDING),
    ("waiting", PENDING),
    ("not ready", PENDING),
    ("not finished", PENDING),
    ("still", PENDING),
    ("building", PENDING),
    ("provisioning", PENDING),
    ("processing", PENDING),
    ("starting", PENDING),
    ("creating", PENDING),
    ("deploying", PENDING),
    ("service unavailable", DOWN | WHOLE),
    ("temporarily unavailable", DOWN | WHOLE),
    ("bad gateway", DOWN | WHOLE),
    ("gateway timeout", DOWN | WHOLE),
    ("gateway time-out", DOWN | WHOLE),
    ("too many requests", DOWN | WHOLE),
    ("rate limit", DOWN | WHOLE),
    ("rate_limit", DOWN | WHOLE),
    ("overloaded", DOWN | WHOLE),
    ("quota exceeded", DOWN | WHOLE),
    ("connection refused", DOWN | WHOLE),
    ("connection reset", DOWN | WHOLE),
    ("connection timed out", DOWN | WHOLE),
    ("could not resolve host", DOWN | WHOLE),
    ("name resolution", DOWN | WHOLE),
    ("network is unreachable", DOWN | WHOLE),
    ("no route to host", DOWN | WHOLE),
    ("econnrefused", DOWN | WHOLE),
    ("econnreset", DOWN | WHOLE),
    ("enotfound", DOWN | WHOLE),
    ("eai_again", DOWN | WHOLE),
    ("etimedout", DOWN | WHOLE),
    ("socket hang up", DOWN | WHOLE),
    ("upstream connect error", DOWN | WHOLE),
    ("failed to connect", DOWN | WHOLE),
    ("internal server error", DOWN | WHOLE),
    ("429", DOWN_CODE),
    ("502", DOWN_CODE),
    ("503", DOWN_CODE),
    ("504", DOWN_CODE),
    ("529", DOWN_CODE),
    ("http", STATUS),
    ("status", STATUS),
    ("error", STATUS),
    ("code", STATUS),
    ("no change", UNCHANGED),
    ("nothing to commit", UNCHANGED),
    ("already up to date", UNCHANGED),
    ("already up-to-date", UNCHANGED),
    ("unchanged", UNCHANGED),
    ("identical", UNCHANGED),
    ("no-op", UNCHANGED),
    ("nothing changed", UNCHANGED),
    ("not modified", UNCHANGED),
    ("doesn't want to proceed", REFUSED),
    ("does not want to proceed", REFUSED),
    ("user rejected", REFUSED),
    ("rejected by user", REFUSED),
    ("rejected by the user", REFUSED),
    ("tool use was rejected", REFUSED),
    ("denied by user", REFUSED),
    ("denied by the user", REFUSED),
    ("user denied", REFUSED),
    ("user declined", REFUSED),
    ("declined by user", REFUSED),
    ("declined by the user", REFUSED),
    ("user refused", REFUSED),
    ("refused by user", REFUSED),
    ("refused by the user", REFUSED),
    ("require approval", REFUSED),
    ("requires approval", REFUSED),
    ("requires your approval", REFUSED),
    ("approval denied", REFUSED),
    ("haven't granted", REFUSED),
    ("not been granted", REFUSED),
    ("blocked by policy", REFUSED),
    ("wrong", NEGATIVE),
    ("incorrect", NEGATIVE),
    ("invalid", NEGATIVE),
    ("denied", NEGATIVE),
    ("failed", NEGATIVE | ENDED),
    ("try again", NEGATIVE),
    ("not valid", NEGATIVE),
    ("mismatch", NEGATIVE),
    ("nothing happens", NEGATIVE),
    ("nothing happened", NEGATIVE),
    ("no effect", NEGATIVE),
    ("no data", NEGATIVE | WHOLE),
    ("(empty)", NEGATIVE),
    ("you are human", NEGATIVE | WHOLE),
    ("captcha", NEGATIVE),
    ("session has ended", NEGATIVE),
    ("session has expired", NEGATIVE),
    ("locked", NEGATIVE | WHOLE),
    ("blocked", NEGATIVE | WHOLE),
    ("forbidden", NEGATIVE | WHOLE),
    ("unable", NEGATIVE | WHOLE),
    ("cannot", NEGATIVE | WHOLE),
    ("can't", NEGATIVE | WHOLE),
    ("not possible", NEGATIVE),
    ("not allowed", NEGATIVE),
    ("no such", NEGATIVE | WHOLE),
    ("rejected", NEGATIVE | WHOLE),
    ("0 failed", NONE_FAILED),
    ("passed", POSITIVE | WHOLE),
    ("passing", POSITIVE | WHOLE),
    ("succeeded", POSITIVE | DONE | WHOLE),
    ("completed", DONE | WHOLE),
    ("complete", DONE | WHOLE),
    ("rollback_complete", ENDED),
    ("create_complete", ENDED),
    ("update_complete", ENDED),
    ("create_failed", ENDED | NEGATIVE),
    ("failure", ENDED | WHOLE),
    ("cancelled", ENDED | WHOLE),
    ("canceled", ENDED | WHOLE),
    ("aborted", ENDED | WHOLE),
    ("terminated", ENDED | WHOLE),
    ("stopped", ENDED | WHOLE),
    ("expired", ENDED | WHOLE),
    ("exited", ENDED | WHOLE),
    ("done", DONE | WHOLE),
    ("merged", ENDED | WHOLE),
    ("finished_at", ENDED),
    ("not complete", PENDING),
    ("incomplete", PENDING),
    ("success", POSITIVE | DONE),
    ("success\": false", NEGATIVE),
    ("success\":false", NEGATIVE),
    ("valid", POSITIVE | WHOLE),
    ("ready", POSITIVE | WHOLE),
    ("no changes", POSITIVE | WHOLE),
    ("no errors", POSITIVE | WHOLE),
    ("0 errors", POSITIVE | WHOLE),
    ("no issues", POSITIVE | WHOLE),
    ("no problems", POSITIVE | WHOLE),
    ("all checks", POSITIVE | WHOLE),
    ("is valid", POSITIVE | WHOLE),
    ("healthy", POSITIVE | WHOLE),
    ("in sync", POSITIVE | WHOLE),
    ("0 failures", NONE_FAILED | POSITIVE),
    ("200 ok", POSITIVE | WHOLE),
    ("built", POSITIVE | WHOLE),
    ("build success", POSITIVE),
    ("finished", POSITIVE | DONE | WHOLE),
    ("compiled", POSITIVE | WHOLE),
    ("no warnings", POSITIVE | WHOLE),
    ("failures: 0", NONE_FAILED | POSITIVE),
    ("errors: 0", NONE_FAILED | POSITIVE),
    ("working tree clean", POSITIVE | WHOLE),
]);

/// What a short result says. For a long result, all but `refused` are false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ShortResult {
    /// A search found nothing.
    pub(crate) nothing_found: bool,
    /// Something is still running.
    pub(crate) pending: bool,
    /// A service is down or overloaded.
    pub(crate) service_down: bool,
    /// The call changed nothing, as an edit that leaves a file as it was.
    pub(crate) unchanged: bool,
    /// A person or a policy refused the call.
    pub(crate) refused: bool,
    /// What the agent tried is wrong, invalid or was not found.
    pub(crate) negative: bool,
    /// All is well: for example, tests passed or an operation succeeded.
    pub(crate) positive: bool,
    /// Something has ended, with or without success.
    pub(crate) ended: bool,
}

impl ShortResult {
    /// Examines a result. `nothing_found` is set only for the result of a search.
    pub(crate) fn of(text: &str, is_search: bool) -> Self {
        let text = text.trim();
        if text.len() > MAX_READ_BYTES {
            let refused = REFUSALS.iter().any(|start| text.starts_with(start));
            return Self { refused, ..Self::default() };
        }
        let is_statement = text.len() <= MAX_STATEMENT_BYTES;
        let meaning = meaning_of(text);
        let means = |what: u16| meaning & what != 0;
        Self {
            nothing_found: is_search && is_statement && finds_nothing(&text.to_ascii_lowercase()),
            pending: is_statement && means(PENDING),
            service_down: means(DOWN),
            unchanged: is_statement && (means(UNCHANGED) || counts_no_change(text)),
            negative: is_statement && means(NEGATIVE) && !means(NONE_FAILED),
            ended: (means(ENDED) || (means(DONE) && !is_part_done(text))) && !means(PENDING),
            positive: (means(POSITIVE) || text.split_whitespace().next() == Some("ok"))
                && (!means(NEGATIVE) || means(NONE_FAILED)),
            refused: means(REFUSED) || REFUSALS.iter().any(|start| text.starts_with(start)),
        }
    }
}

/// The meanings of all phrases in a text together. A status code counts only after a status word.
fn meaning_of(text: &str) -> u16 {
    let (mut all, mut status) = (0, None);
    for (at, meaning) in PHRASES.find_in(text.as_bytes()) {
        if meaning & STATUS != 0 {
            status = Some(at);
        }
        let is_code = status.is_some_and(|status| at - status <= MAX_STATUS_DISTANCE_BYTES);
        all |= match meaning {
            DOWN_CODE if is_code => DOWN,
            MISSING_CODE if is_code => NEGATIVE,
            DOWN_CODE | MISSING_CODE => 0,
            other => other,
        };
    }
    all
}

const fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Whether a text says how many objects something was done with: `12 rows appended`.
pub(crate) fn counts_done(text: &str) -> bool {
    const MAX_COUNT_BYTES: usize = 60;
    let is_number = |word: &str| {
        word.starts_with(|c: char| matches!(c, '1'..='9')) && !word.contains(char::is_alphabetic)
    };
    let mut words = text.trim_end_matches('.').split_whitespace();
    text.len() <= MAX_COUNT_BYTES
        && words.next().is_some_and(is_number)
        && (1..=3).contains(&words.clone().count())
        && words.next_back().is_some_and(|word| word.ends_with("ed"))
}

/// Whether a text is a JSON value that contains an empty list or text and little else, such as
/// `{"text": "", "pages": 1}`.
pub(crate) fn is_empty_answer(text: &str) -> bool {
    const MAX_BYTES: usize = 120;
    let text = text.trim();
    text.len() <= MAX_BYTES
        && text.starts_with(['{', '['])
        && ["[]", "\"\"", "{}"].iter().any(|empty| text.contains(empty))
        && !text.contains("error")
}

fn finds_nothing(text: &str) -> bool {
    let plain = text.trim_end_matches(['.', '!']);
    if NOTHING_FOUND.contains(&plain) {
        return true;
    }
    let is_about_finding = |rest: &str| {
        let head = rest.get(..rest.floor_char_boundary(40)).unwrap_or(rest);
        COUNTABLE_NOUNS.iter().any(|noun| head.contains(noun))
    };
    let begins = ["no ", "0 ", "found 0", "(0 ", "found no", "could not find", "nothing"]
        .iter()
        .any(|start| plain.strip_prefix(start).is_some_and(is_about_finding));
    // "0 messages", "no replies": a count of nothing, whatever it is that was counted.
    let mut words = plain.split_whitespace();
    let is_count = matches!(words.next(), Some("0" | "no")) && (1..=2).contains(&words.count());
    begins || is_count || is_empty_list(plain)
}

/// Whether a text says how much of something is done, and it is not all: `epoch 19/40 done`.
fn is_part_done(text: &str) -> bool {
    text.split_whitespace().any(|word| {
        let word = word.trim_matches(|c: char| !c.is_ascii_digit());
        let counts = word.split_once('/');
        let counts = counts.and_then(|(done, all)| Some((done.parse().ok()?, all.parse().ok()?)));
        counts.is_some_and(|(done, all): (u32, u32)| done < all)
    })
}

/// Whether a text says that zero objects were changed: `{"occurrencesChanged": 0}`, `0 rows
/// updated`. Any other number in it may be a count of something that was, and a digit in a name
/// (`wg0.conf`) is no count.
fn counts_no_change(text: &str) -> bool {
    const CHANGES: [&str; 6] = ["chang", "updat", "modif", "affect", "replac", "edited"];
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let mut numbers = text.split(|c| !is_name(c)).filter(|word| word.contains(is_digit)).peekable();
    if numbers.peek().is_none() || numbers.any(|number| number != "0") {
        return false;
    }
    let text = text.to_ascii_lowercase();
    CHANGES.iter().any(|word| text.contains(word))
}

/// Whether the reply of another agent says that it could not do or find what it was asked for. Every
/// reply has other words, so that replies cannot be compared by their text.
pub(crate) fn is_negative_reply(text: &str) -> bool {
    const BEGINNINGS: [&str; 14] = [
        "no ",
        "none",
        "neither",
        "nothing",
        "unable",
        "i cannot",
        "i can't",
        "i could not",
        "i couldn't",
        "i was unable",
        "i am unable",
        "i'm unable",
        "sorry",
        "i have no ",
    ];
    const PHRASES: [&str; 9] = [
        "there is no ",
        "there's no ",
        "there are no ",
        "not found",
        "no access",
        "does not exist",
        "doesn't exist",
        "could not find",
        "couldn't find",
    ];
    let text = text.trim_start();
    let head = text.get(..text.floor_char_boundary(MAX_STATEMENT_BYTES)).unwrap_or(text);
    let head = head.to_ascii_lowercase();
    BEGINNINGS.iter().any(|beginning| head.starts_with(beginning))
        || PHRASES.iter().any(|phrase| head.contains(phrase))
}

/// Whether a text is a JSON object with an empty list and no number above zero, such as
/// `{"results": [], "total": 0}`.
fn is_empty_list(text: &str) -> bool {
    text.starts_with('{')
        && text.contains("[]")
        && !text.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
        && text.len() <= 120
}

#[cfg(test)]
mod tests;
