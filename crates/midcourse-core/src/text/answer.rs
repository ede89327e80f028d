//! What a short answer says, beyond its bytes: that nothing was found, that something is still
//! under way, that a service is down, that nothing was changed.
//!
//! Only short answers are read. In a long one such words are content, not a verdict.

use super::phrases::{Phrases, WHOLE};

/// The longest answer that is read, in bytes.
const SHORT: usize = 600;

/// The longest answer that says nothing was found, or that something is under way.
const VERDICT: usize = 240;

/// Whole answers that mean that there is nothing.
const NOTHING: [&str; 12] = [
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

/// How an answer goes on that begins with "no", "0" or "found 0".
const NOUNS: [&str; 18] = [
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

/// What a phrase means.
const PENDING: u16 = 1;
/// A service does not serve.
const DOWN: u16 = 1 << 1;
/// A number that is a status with which a service does not serve, beside a word for a status.
const CODE: u16 = 1 << 2;
const STATUS: u16 = 1 << 3;
/// There was nothing to write.
const UNCHANGED: u16 = 1 << 4;
/// A person or a rule has said no.
const REFUSED: u16 = 1 << 5;
/// It is not right.
const NEGATIVE: u16 = 1 << 6;
const NONE_FAILED: u16 = 1 << 7;
/// A status that says that there is no such thing, beside a word for a status.
const MISSING: u16 = 1 << 8;

/// How far behind the word for a status its number may begin, in bytes.
const STATUS_REACH: usize = 16;

/// What tools, services and hosts say.
static PHRASES: Phrases<95> = Phrases::new([
    ("not found", NEGATIVE),
    ("no route", NEGATIVE),
    ("does not exist", NEGATIVE),
    ("404", MISSING),
    ("unknown", NEGATIVE),
    ("running", PENDING),
    ("pending", PENDING),
    ("in progress", PENDING),
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
    ("429", CODE),
    ("502", CODE),
    ("503", CODE),
    ("504", CODE),
    ("529", CODE),
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
    ("failed", NEGATIVE),
    ("try again", NEGATIVE),
    ("not valid", NEGATIVE),
    ("mismatch", NEGATIVE),
    ("0 failed", NONE_FAILED),
]);

/// What a short answer says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AnswerView {
    /// That there is nothing.
    pub(crate) nothing: bool,
    /// That something is under way.
    pub(crate) pending: bool,
    /// That a service does not serve.
    pub(crate) down: bool,
    /// That nothing was changed.
    pub(crate) unchanged: bool,
    /// That it was refused.
    pub(crate) refused: bool,
    /// That it is not right.
    pub(crate) negative: bool,
}

impl AnswerView {
    /// Reads an answer, if it is short; whether it says that there is nothing only for who `seeks`.
    pub(crate) fn of(text: &str, seeks: bool) -> Self {
        let text = text.trim();
        if text.len() > SHORT {
            return Self::default();
        }
        let is_verdict = text.len() <= VERDICT;
        let meaning = meaning_of(text);
        let means = |what: u16| meaning & what != 0;
        Self {
            nothing: seeks && is_verdict && finds_nothing(&text.to_ascii_lowercase()),
            pending: is_verdict && means(PENDING),
            down: means(DOWN),
            unchanged: is_verdict && means(UNCHANGED),
            negative: is_verdict && means(NEGATIVE) && !means(NONE_FAILED),
            refused: means(REFUSED),
        }
    }
}

/// What the phrases of a text mean; a number is a status only right behind a word for one.
fn meaning_of(text: &str) -> u16 {
    let (mut all, mut status) = (0, None);
    for (at, meaning) in PHRASES.find_in(text.as_bytes()) {
        if meaning & STATUS != 0 {
            status = Some(at);
        }
        let is_status = status.is_some_and(|status| at - status <= STATUS_REACH);
        all |= match meaning {
            CODE if is_status => DOWN,
            MISSING if is_status => NEGATIVE,
            CODE | MISSING => 0,
            other => other,
        };
    }
    all
}

fn finds_nothing(text: &str) -> bool {
    let plain = text.trim_end_matches(['.', '!']);
    if NOTHING.contains(&plain) {
        return true;
    }
    let is_about_finding = |rest: &str| {
        let head = rest.get(..rest.floor_char_boundary(40)).unwrap_or(rest);
        NOUNS.iter().any(|noun| head.contains(noun))
    };
    let begins = ["no ", "0 ", "found 0", "(0 ", "found no", "could not find", "nothing"]
        .iter()
        .any(|start| plain.strip_prefix(start).is_some_and(is_about_finding));
    begins || is_empty_list(plain)
}

/// `{"results": [], "total": 0}`: an object that holds an empty list and nothing that counts.
fn is_empty_list(text: &str) -> bool {
    text.starts_with('{')
        && text.contains("[]")
        && !text.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
        && text.len() <= 120
}

/// Whether the beginning of an error says that a service does not serve.
pub(super) fn error_says_down(text: &str) -> bool {
    let head = text.get(..text.floor_char_boundary(SHORT)).unwrap_or(text);
    meaning_of(head) & DOWN != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_was_found() {
        for text in [
            "",
            "No matches found",
            "No files found",
            "[]",
            "0 results",
            "Found 0 files",
            "no results for that query.",
            "{\"results\": [], \"total\": 0}",
            "(0 rows)",
            "Nothing found",
            "No relevant documents were found in the index",
        ] {
            assert!(AnswerView::of(text, true).nothing, "{text}");
        }
        for text in ["3 matches", "No, use b.rs instead", "0.5", "{\"ids\":[],\"n\":3}", "ok"] {
            assert!(!AnswerView::of(text, true).nothing, "{text}");
        }
    }

    #[test]
    fn a_service_is_down() {
        for text in [
            "HTTP/1.1 503 Service Unavailable",
            "{\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
            "curl: (7) Failed to connect to api port 443: Connection refused",
            "{\"status\": 429, \"message\": \"slow down\"}",
            "<title>502 Bad Gateway</title>",
        ] {
            assert!(AnswerView::of(text, false).down, "{text}");
        }
        for text in [
            "503 files copied",
            "status: 200",
            "line 429: fn main()",
            "all good",
            "The file src/ratelimit.rs has been updated.",
            "502 src/a.rs, error.rs",
            "fix rate limiter, 3 files",
        ] {
            assert!(!AnswerView::of(text, false).down, "{text}");
        }
    }

    #[test]
    fn under_way_or_unchanged() {
        assert!(AnswerView::of("status: in_progress", false).pending);
        assert!(AnswerView::of("nothing to commit, working tree clean", false).unchanged);
        assert!(!AnswerView::of("done", false).pending);
    }
}
