//! What went wrong, as a signature that is the same whenever the same thing goes wrong, and a
//! class that may be said aloud.
//!
//! The text of an error is hostile and never leaves this module; what is said about it is its
//! class and how often it came.

use std::ops::BitOrAssign;

use serde::{Deserialize, Serialize};

use super::scan::{ErrorScan, plain_error};
use crate::digest::Digest;

/// What is looked at of a long error: its beginning and, more telling, its end.
const HEAD_BYTES: usize = 384;
const TAIL_BYTES: usize = 640;

/// The kind of thing that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// A person, a sandbox or the system refused.
    Permission,
    /// A file, command or thing is not there.
    NotFound,
    /// There is no such tool.
    UnknownTool,
    /// The tool was called in a way it does not take.
    BadArguments,
    /// It took too long.
    Timeout,
    /// The network or a service is down, or asks to slow down.
    Outage,
    /// A test or check did not pass.
    Check,
    /// Something does not parse or compile.
    Syntax,
    /// Anything else.
    Other,
}

impl ErrorClass {
    /// The class in words that fit before "error".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::NotFound => "not-found",
            Self::UnknownTool => "unknown-tool",
            Self::BadArguments => "bad-argument",
            Self::Timeout => "time-out",
            Self::Outage => "service",
            Self::Check => "test",
            Self::Syntax => "syntax",
            Self::Other => "tool",
        }
    }
}

/// An error's identity: equal for the same error in another place, at another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSignature {
    /// The digest of the plain form.
    pub digest: Digest,
    /// What kind of error it is.
    pub class: ErrorClass,
}

impl ErrorSignature {
    /// The signature of an error text. `scratch` is overwritten.
    pub(crate) fn of(text: &str, scratch: &mut Vec<u8>) -> Self {
        scratch.clear();
        let scan = scan(text.as_bytes(), scratch);
        let class = scan.telling_class.or(scan.class).unwrap_or(ErrorClass::Other);
        Self { digest: Digest::of(scratch), class }
    }

    /// The plain form whose digest the signature is: for people who ask why two errors are one.
    pub fn plain_form(text: &str) -> String {
        let mut out = Vec::new();
        scan(text.as_bytes(), &mut out);
        String::from_utf8_lossy(&out).trim_end().to_owned()
    }
}

fn scan(text: &[u8], out: &mut Vec<u8>) -> ErrorScan {
    if text.len() <= HEAD_BYTES + TAIL_BYTES {
        return plain_error(text, out);
    }
    let (head, rest) = text.split_at(HEAD_BYTES);
    let (_, tail) = rest.split_at(rest.len() - TAIL_BYTES);
    let first = plain_error(head, out);
    let mut end = Vec::new();
    let last = plain_error(tail, &mut end);
    match (first.is_telling, last.is_telling) {
        // The preamble of a build is not what went wrong.
        (false, true) => out.clear(),
        (true, false) => end.clear(),
        _ => {}
    }
    out.extend_from_slice(&end);
    ErrorScan {
        is_telling: first.is_telling || last.is_telling,
        telling_class: first.telling_class.or(last.telling_class),
        class: first.class.or(last.class),
    }
}

/// The words that tell something.
const WORD_LIST: &[(&str, Words)] = &[
    ("error", Words::ERROR),
    ("errors", Words::ERROR),
    ("fatal", Words::ERROR),
    ("failed", Words::ERROR),
    ("failure", Words::ERROR),
    ("fails", Words::ERROR),
    ("cannot", Words::ERROR),
    ("unable", Words::ERROR),
    ("exception", Words::ERROR),
    ("panicked", Words::ERROR),
    ("panic", Words::ERROR),
    ("aborted", Words::ERROR),
    ("traceback", Words::ERROR),
    ("denied", Words::DENIED),
    ("forbidden", Words::DENIED),
    ("permission", Words::DENIED),
    ("unauthorized", Words::DENIED),
    ("eacces", Words::DENIED),
    ("eperm", Words::DENIED),
    ("refusing", Words::DENIED),
    ("disallowed", Words::DENIED),
    ("enoent", Words::NO_SUCH),
    ("missing", Words::NO_SUCH),
    ("such", Words::NO_SUCH),
    ("not", Words::NOT),
    ("found", Words::FOUND),
    ("exist", Words::FOUND),
    ("unknown", Words::UNKNOWN),
    ("unsupported", Words::UNKNOWN),
    ("unrecognized", Words::UNKNOWN),
    ("tool", Words::TOOL),
    ("invalid", Words::INVALID),
    ("required", Words::INVALID),
    ("expected", Words::INVALID),
    ("unexpected", Words::INVALID),
    ("malformed", Words::INVALID),
    ("validation", Words::INVALID),
    ("argument", Words::ARGUMENT),
    ("arguments", Words::ARGUMENT),
    ("parameter", Words::ARGUMENT),
    ("parameters", Words::ARGUMENT),
    ("schema", Words::ARGUMENT),
    ("input", Words::ARGUMENT),
    ("option", Words::ARGUMENT),
    ("property", Words::ARGUMENT),
    ("timeout", Words::TIMEOUT),
    ("timed", Words::TIMEOUT),
    ("etimedout", Words::TIMEOUT),
    ("connection", Words::NETWORK),
    ("network", Words::NETWORK),
    ("dns", Words::NETWORK),
    ("resolve", Words::NETWORK),
    ("socket", Words::NETWORK),
    ("gateway", Words::NETWORK),
    ("upstream", Words::NETWORK),
    ("server", Words::NETWORK),
    ("service", Words::NETWORK),
    ("refused", Words::DOWN),
    ("reset", Words::DOWN),
    ("unavailable", Words::DOWN),
    ("overloaded", Words::DOWN),
    ("throttled", Words::DOWN),
    ("quota", Words::DOWN),
    ("econnrefused", Words::OUTAGE),
    ("econnreset", Words::OUTAGE),
    ("enotfound", Words::OUTAGE),
    ("unreachable", Words::OUTAGE),
    ("http", Words::HTTP),
    ("https", Words::HTTP),
    ("status", Words::HTTP),
    ("code", Words::HTTP),
    ("response", Words::HTTP),
    ("401", Words::CODE_DENIED),
    ("403", Words::CODE_DENIED),
    ("404", Words::CODE_MISSING),
    ("429", Words::CODE_DOWN),
    ("502", Words::CODE_DOWN),
    ("503", Words::CODE_DOWN),
    ("504", Words::CODE_DOWN),
    ("529", Words::CODE_DOWN),
    ("assert", Words::CHECK),
    ("assertion", Words::CHECK),
    ("assertionerror", Words::CHECK),
    ("test", Words::CHECK),
    ("tests", Words::CHECK),
    ("syntax", Words::SYNTAX),
    ("syntaxerror", Words::SYNTAX),
    ("parse", Words::SYNTAX),
    ("parser", Words::SYNTAX),
    ("separator", Words::SYNTAX),
    ("indentationerror", Words::SYNTAX),
];

/// Bit 5 tells small letters from capitals; the other bytes of words do not differ by it.
const SMALL: u128 = u128::from_le_bytes([0x20; 16]);

/// A word of up to sixteen bytes in one number, letters small.
const fn packed(word: &[u8]) -> u128 {
    let mut bytes = [0_u8; 16];
    let (mut at, mut rest) = (0, word);
    while let [first, behind @ ..] = rest {
        if at == bytes.len() {
            break;
        }
        #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
        {
            bytes[at] = *first;
        }
        at += 1;
        rest = behind;
    }
    u128::from_le_bytes(bytes) | SMALL
}

/// The same for the first `length` bytes of a text, in one load where the text goes on.
fn packed_start(text: &[u8], length: usize) -> u128 {
    match text.first_chunk::<16>() {
        Some(bytes) if length < 16 => {
            let bits = (1_u128 << (8 * length)) - 1;
            u128::from_le_bytes(*bytes) & bits | SMALL
        }
        _ => packed(text.get(..length).unwrap_or_default()),
    }
}

/// Places of the table: several times the words, so that few share one.
const PLACES: usize = 512;

/// Where a packed word is looked for first.
const fn place_of(word: u128) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are folded together")]
    let folded = word as u64 ^ (word >> 64) as u64;
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize % PLACES
}

/// Words and their bits; a word that finds its place taken stands in the next free one.
static WORDS: [(u128, Words); PLACES] = {
    let mut table = [(0, Words(0)); PLACES];
    let mut at = 0;
    while at < WORD_LIST.len() {
        #[expect(clippy::indexing_slicing, reason = "every index is below the length")]
        {
            let (word, bit) = WORD_LIST[at];
            let word = packed(word.as_bytes());
            let mut place = place_of(word);
            while table[place].0 != 0 {
                place = (place + 1) % PLACES;
            }
            table[place] = (word, bit);
        }
        at += 1;
    }
    table
};

/// The telling words seen in a text, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Words(u32);

impl Words {
    const ERROR: Self = Self(1);
    const DENIED: Self = Self(1 << 1);
    const NO_SUCH: Self = Self(1 << 2);
    const NOT: Self = Self(1 << 3);
    const FOUND: Self = Self(1 << 4);
    const UNKNOWN: Self = Self(1 << 5);
    const TOOL: Self = Self(1 << 6);
    const INVALID: Self = Self(1 << 7);
    const ARGUMENT: Self = Self(1 << 8);
    const TIMEOUT: Self = Self(1 << 9);
    const NETWORK: Self = Self(1 << 10);
    const DOWN: Self = Self(1 << 11);
    const HTTP: Self = Self(1 << 12);
    const CODE_DENIED: Self = Self(1 << 13);
    const CODE_MISSING: Self = Self(1 << 14);
    const CODE_DOWN: Self = Self(1 << 15);
    const CHECK: Self = Self(1 << 16);
    const SYNTAX: Self = Self(1 << 17);
    const OUTAGE: Self = Self(Self::NETWORK.0 | Self::DOWN.0);

    /// The bit of the word with which a text begins, in any case; most words have none.
    pub(super) fn at_start_of(text: &[u8], length: usize) -> Self {
        let token = text.get(..length).unwrap_or_default();
        if length < 3 {
            return Self::default();
        }
        if length > 16 {
            return Self::of_ending(token);
        }
        let word = packed_start(text, length);
        let mut place = place_of(word);
        loop {
            match WORDS.get(place) {
                Some((known, bit)) if *known == word => return *bit,
                Some((0, _)) | None => return Self::of_ending(token),
                Some(_) => place = (place + 1) % PLACES,
            }
        }
    }

    /// The bits of names such as `FileNotFoundError`.
    fn of_ending(token: &[u8]) -> Self {
        if !matches!(token.last(), Some(b'r' | b'n'))
            || (!token.ends_with(b"rror") && !token.ends_with(b"xception"))
        {
            Self::default()
        } else if token.ends_with(b"NotFoundError") || token.ends_with(b"NotFoundException") {
            Self(Self::ERROR.0 | Self::NO_SUCH.0)
        } else if token.ends_with(b"RefusedError") || token.ends_with(b"ConnectionError") {
            Self(Self::ERROR.0 | Self::NETWORK.0 | Self::DOWN.0)
        } else {
            Self::ERROR
        }
    }

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a line with these words says what went wrong.
    pub(super) const fn is_telling(self) -> bool {
        self.has(Self::ERROR) || self.has(Self::DENIED) || self.has(Self::TIMEOUT)
    }

    /// The class that the words of one line tell, if they tell one.
    pub(super) const fn class(self) -> Option<ErrorClass> {
        let is_missing = self.has(Self::NO_SUCH) || (self.has(Self::NOT) && self.has(Self::FOUND));
        let is_http = self.has(Self::HTTP);
        if (self.has(Self::NETWORK) && (self.has(Self::DOWN) || self.has(Self::TIMEOUT)))
            || (is_http && self.has(Self::CODE_DOWN))
        {
            Some(ErrorClass::Outage)
        } else if self.has(Self::TIMEOUT) {
            Some(ErrorClass::Timeout)
        } else if self.has(Self::TOOL) && (self.has(Self::UNKNOWN) || is_missing) {
            Some(ErrorClass::UnknownTool)
        } else if self.has(Self::DENIED) || (is_http && self.has(Self::CODE_DENIED)) {
            Some(ErrorClass::Permission)
        } else if self.has(Self::SYNTAX) {
            Some(ErrorClass::Syntax)
        } else if self.has(Self::ARGUMENT)
            && (self.has(Self::INVALID) || self.has(Self::UNKNOWN) || is_missing)
        {
            Some(ErrorClass::BadArguments)
        } else if self.has(Self::CHECK) {
            Some(ErrorClass::Check)
        } else if is_missing || (is_http && self.has(Self::CODE_MISSING)) {
            Some(ErrorClass::NotFound)
        } else {
            None
        }
    }
}

impl BitOrAssign for Words {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(text: &str) -> ErrorSignature {
        ErrorSignature::of(text, &mut Vec::new())
    }

    #[track_caller]
    fn same(a: &str, b: &str) {
        assert_eq!(ErrorSignature::plain_form(a), ErrorSignature::plain_form(b));
        assert_eq!(signature(a), signature(b));
    }

    #[track_caller]
    fn different(a: &str, b: &str) {
        assert_ne!(signature(a).digest, signature(b).digest, "{a:?} was taken for {b:?}");
    }

    #[test]
    fn what_a_machine_made_up_does_not_count() {
        same(
            "error: cannot open /home/ann/x/src/main.rs:10:5",
            "error: cannot open /tmp/y/main.rs:99",
        );
        same("error at 0x7ffd1234 in worker", "error at 0x00aa in worker");
        same(
            "error: job 3fa85f64-5717-4562-b3fc-2c963f66afa6 failed",
            "error: job 9c5b94b1-35ad-49bb-b118-8e8fc24abf80 failed",
        );
        same("[2026-11-15T08:12:34.123Z] error: x", "[2027-01-02T23:59:59Z] error: x");
        same("2026-11-15 08:12:34 error: x", "2026-11-16 09:00:00 error: x");
        same("error: pid 4711 died", "error: pid 12 died");
        same("nginx[4711]: error", "nginx[9001]: error");
        same("error: failed after 0.31s", "error: failed after 12.7s");
        same("error: gave up after 30 seconds", "error: gave up after 45 seconds");
        same(
            "File \"/a/b.py\", line 12, in f\nKeyError",
            "File \"/c/b.py\", line 40, in f\nKeyError",
        );
        same("\u{1b}[31merror\u{1b}[0m: x", "error:   x");
        same("commit 1a2b3c4 failed", "commit 99ffab1 failed");
    }

    #[test]
    fn what_means_something_stays() {
        different("12 errors", "7 errors");
        different("error: 12 tests failed", "error: 7 tests failed");
        different("error: cannot open a.rs", "error: cannot open b.rs");
        different("error E0308", "error E0382");
        different("exit code 1", "exit code 2");
        different("error: port 8080 in use", "error: port 8081 in use");
        different("error: expected 3.1", "error: expected 3.2");
        different("error: failed to process 12 files", "error: failed to process 7 files");
        different("error: connect 127.0.0.1:5432", "error: connect 10.0.0.7:80");
        different("error: connect localhost:8080", "error: connect localhost:9090");
    }

    #[test]
    fn lines_that_do_not_talk_of_an_error_do_not_count_beside_one_that_does() {
        same(
            "Compiling a v1\nerror: missing separator",
            "Compiling b v2\nDownloading\nerror: missing separator",
        );
    }

    #[test]
    fn the_preamble_of_a_long_error_does_not_count() {
        let long = |crate_name: &str| {
            format!(
                "{}error: missing separator\n",
                format!("Compiling {crate_name} v1\n").repeat(99)
            )
        };
        same(&long("alpha"), &long("bravo"));
    }

    #[test]
    fn classes() {
        for (text, class) in [
            ("bash: rm: Permission denied", ErrorClass::Permission),
            ("cat: x: No such file or directory", ErrorClass::NotFound),
            ("Error: No such tool available: frobnicate", ErrorClass::UnknownTool),
            (
                "InputValidationError: required parameter `path` is missing",
                ErrorClass::BadArguments,
            ),
            ("Command timed out after 2m 0s", ErrorClass::Timeout),
            ("connect ECONNREFUSED: connection refused", ErrorClass::Outage),
            ("HTTP 503 Service Unavailable", ErrorClass::Outage),
            ("FAILED tests/test_a.py::t - AssertionError", ErrorClass::Check),
            ("Makefile:3: *** missing separator.  Stop.", ErrorClass::Syntax),
            ("bash: frobnicate: command not found", ErrorClass::NotFound),
            ("boom", ErrorClass::Other),
            // Words that mean something else in other company.
            (
                "expected `u32`, found `&str`\narguments to this function are incorrect",
                ErrorClass::Other,
            ),
            ("panic: test timed out after 1s\nexit status 2", ErrorClass::Timeout),
            ("! [rejected] main -> main\nerror: failed to push some refs", ErrorClass::Other),
            ("Found 3 errors", ErrorClass::Other),
            ("403 passed, 1 failed", ErrorClass::Other),
        ] {
            assert_eq!(signature(text).class, class, "{text}");
        }
    }
}
