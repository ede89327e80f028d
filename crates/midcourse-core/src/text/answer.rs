//! What a short answer says, beyond its bytes: that nothing was found, that something is still
//! under way, that a service is down, that nothing was changed.
//!
//! Only short answers are read. In a long one such words are content, not a verdict.

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

/// Beginnings of words that say that something is still under way.
const PENDING: [&str; 16] = [
    "running",
    "pending",
    "in progress",
    "in_progress",
    "in-progress",
    "queued",
    "waiting",
    "not ready",
    "not finished",
    "still ",
    "building",
    "provisioning",
    "processing",
    "starting",
    "creating",
    "deploying",
];

/// What services say when they do not serve.
const DOWN: [&str; 27] = [
    "service unavailable",
    "temporarily unavailable",
    "bad gateway",
    "gateway timeout",
    "gateway time-out",
    "too many requests",
    "rate limit",
    "rate_limit",
    "ratelimit",
    "overloaded",
    "quota exceeded",
    "connection refused",
    "connection reset",
    "connection timed out",
    "could not resolve host",
    "name resolution",
    "network is unreachable",
    "no route to host",
    "econnrefused",
    "econnreset",
    "enotfound",
    "eai_again",
    "etimedout",
    "socket hang up",
    "upstream connect error",
    "failed to connect",
    "internal server error",
];

/// Statuses with which a service does not serve.
const DOWN_CODES: [&str; 5] = ["429", "502", "503", "504", "529"];

/// What writing tools say when there was nothing to write.
const UNCHANGED: [&str; 9] = [
    "no change",
    "nothing to commit",
    "already up to date",
    "already up-to-date",
    "unchanged",
    "identical",
    "no-op",
    "nothing changed",
    "not modified",
];

/// What an answer says that is a no.
const NEGATIVE: [&str; 8] =
    ["wrong", "incorrect", "invalid", "denied", "failed", "try again", "not valid", "mismatch"];

/// What a call that a person or a rule has refused comes back with.
const REFUSED: [&str; 21] = [
    "doesn't want to proceed",
    "does not want to proceed",
    "user rejected",
    "rejected by user",
    "rejected by the user",
    "tool use was rejected",
    "denied by user",
    "denied by the user",
    "user denied",
    "user declined",
    "declined by user",
    "declined by the user",
    "user refused",
    "refused by user",
    "refused by the user",
    "requires approval",
    "requires your approval",
    "approval denied",
    "haven't granted",
    "not been granted",
    "blocked by policy",
];

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
    /// Reads an answer, if it is short.
    pub(crate) fn of(text: &str) -> Self {
        let text = text.trim();
        if text.len() > SHORT {
            return Self::default();
        }
        let text = text.to_ascii_lowercase();
        let is_verdict = text.len() <= VERDICT;
        Self {
            nothing: is_verdict && finds_nothing(&text),
            pending: is_verdict && PENDING.iter().any(|word| text.contains(word)),
            down: says_down(&text),
            unchanged: is_verdict && UNCHANGED.iter().any(|words| text.contains(words)),
            negative: is_verdict
                && NEGATIVE.iter().any(|words| text.contains(words))
                && !text.contains("0 failed"),
            refused: REFUSED.iter().any(|words| text.contains(words)),
        }
    }
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

fn says_down(text: &str) -> bool {
    if DOWN.iter().any(|words| text.contains(words)) {
        return true;
    }
    let talks_of_a_status = || ["http", "status", "error", "code"].iter().any(|w| text.contains(w));
    let has_code = |code: &&str| {
        text.match_indices(*code).any(|(at, _)| {
            let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
            let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
            is_edge(before) && is_edge(text.as_bytes().get(at + code.len()))
        })
    };
    DOWN_CODES.iter().any(has_code) && talks_of_a_status()
}

/// Whether the beginning of an error says that a service does not serve.
pub(super) fn error_says_down(text: &str) -> bool {
    let head = text.get(..text.floor_char_boundary(SHORT)).unwrap_or(text);
    says_down(&head.to_ascii_lowercase())
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
            assert!(AnswerView::of(text).nothing, "{text}");
        }
        for text in ["3 matches", "No, use b.rs instead", "0.5", "{\"ids\":[],\"n\":3}", "ok"] {
            assert!(!AnswerView::of(text).nothing, "{text}");
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
            assert!(AnswerView::of(text).down, "{text}");
        }
        for text in ["503 files copied", "status: 200", "line 429: fn main()", "all good"] {
            assert!(!AnswerView::of(text).down, "{text}");
        }
    }

    #[test]
    fn under_way_or_unchanged() {
        assert!(AnswerView::of("status: in_progress").pending);
        assert!(AnswerView::of("nothing to commit, working tree clean").unchanged);
        assert!(!AnswerView::of("done").pending);
    }
}
