//! Computes the signature of an error text. Detectors compare signatures to see whether a failure
//! occurs again: texts that differ only in times, directories or ids have equal signatures.
//!
//! An error's text is untrusted and never goes into a message to the agent. A message names only
//! the kind of the failure and how often it occurred.

use serde::{Deserialize, Serialize};

use super::failure_kind::{FailedCall, FailureKind, failure_kind};
use super::scan::normalize_error;
use crate::digest::Digest;

/// Of a long error, this many bytes at the beginning and `TAIL_BYTES` at the end are examined. More
/// is read of the end, because the end usually says what went wrong.
const HEAD_BYTES: usize = 384;
const TAIL_BYTES: usize = 640;

/// Two errors with the same text are the same error if their line numbers differ by at most this
/// much: edits above an error move its line.
const MAX_LINE_SHIFT: u32 = 15;

/// How many bytes of an error are searched for a line number.
const MAX_POSITION_BYTES: usize = 1024;

/// How many words of an error's longest line go into `ErrorSignature::template`.
const MAX_TEMPLATE_WORDS: usize = 32;

/// Words after which a number identifies one of several objects, as in `task 7`.
const NUMBERED_OBJECTS: [&[u8]; 16] = [
    b"executor",
    b"task",
    b"job",
    b"worker",
    b"thread",
    b"process",
    b"container",
    b"attempt",
    b"node",
    b"shard",
    b"partition",
    b"port",
    b"id",
    b"request",
    b"session",
    b"connection",
];

/// Words of an error with fewer bytes than this are not looked up in the call's arguments, because
/// they may occur there by chance.
const MIN_ARGUMENT_WORD_BYTES: usize = 3;

/// Identifies an error, so that it is recognized when it occurs again, elsewhere or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSignature {
    /// Digest of the text without directories, positions, ids and times.
    pub digest: Digest,
    /// Digest of the longest line without the words of the call's own arguments: equal for the
    /// same error about a different object, as in "no such file: A" and "no such file: B".
    pub template: Digest,
    /// The first line number in the text, such as 10 in `main.rs:10`; `None` if there is none. The
    /// same text at a line more than 15 lines away is another error.
    pub line: Option<u32>,
    /// The kind of failure.
    pub kind: FailureKind,
}

impl ErrorSignature {
    /// The signature of an error text. `args` is the beginning of the arguments of the call that
    /// failed; `scratch` is a buffer whose content is overwritten.
    pub(crate) fn of(text: &str, args: &str, call: FailedCall, scratch: &mut Vec<u8>) -> Self {
        scratch.clear();
        scan(text.as_bytes(), scratch);
        let kind = failure_kind(text, call);
        let line = first_position(text.as_bytes());
        Self { digest: Digest::of(scratch), template: template_of(scratch, args), line, kind }
    }

    /// Whether both are the same error: their digests are equal, and their line numbers are at most
    /// 15 apart, because edits above an error move its line. A missing line number fits any other.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let is_near = match (self.line, other.line) {
            (Some(a), Some(b)) => a.abs_diff(b) <= MAX_LINE_SHIFT,
            _ => true,
        };
        self.digest == other.digest && is_near
    }

    /// The normalized text of which [`Self::digest`] is the digest. Use it to explain why two
    /// errors count as the same.
    pub fn normalized_text(text: &str) -> String {
        let mut out = Vec::new();
        scan(text.as_bytes(), &mut out);
        String::from_utf8_lossy(&out).trim_end().to_owned()
    }
}

/// Whether a number after this word identifies one of several objects, as in `task 7`.
fn is_numbered(word: &[u8]) -> bool {
    NUMBERED_OBJECTS.iter().any(|noun| word.eq_ignore_ascii_case(noun))
}

/// The digest of the longest line. In it, a placeholder replaces each quoted name, each number of
/// an object (`task 7`) and each word that is also in the call's arguments. The longest line is
/// used because wrappers such as `make` add short lines of their own.
fn template_of(normalized: &[u8], args: &str) -> Digest {
    let lines = normalized.split(|byte| *byte == b'\n');
    let longest =
        lines.reduce(|longest, line| if line.len() > longest.len() { line } else { longest });
    let (mut template, mut words) = (Digest::default(), 0);
    let mut rest = longest.unwrap_or_default();
    let (mut before, mut word_before) = (None, &[] as &[u8]);
    while let Some((first, following)) = rest.split_first() {
        let length = rest.iter().take_while(|byte| is_in_word(**byte)).count();
        if length == 0 {
            before = Some(*first);
            rest = following;
            continue;
        }
        let (word, after) = rest.split_at(length);
        rest = after;
        // A quoted name, and a number after a word such as "task", say which object the error is
        // about, not which error it is. Any other number may be a count. It stays, because two
        // errors with different counts differ.
        let is_quoted =
            matches!(before, Some(b'\'' | b'"' | b'`')) && after.first() == before.as_ref();
        let is_object = is_quoted
            || (word.iter().all(u8::is_ascii_digit) && is_numbered(word_before))
            || (word.len() >= MIN_ARGUMENT_WORD_BYTES
                && std::str::from_utf8(word).is_ok_and(|word| args.contains(word)));
        template = template.then(if is_object { b"@" } else { word });
        word_before = word;
        before = None;
        words += 1;
        if words == MAX_TEMPLATE_WORDS {
            break;
        }
    }
    template
}

/// The first line number in a text: `main.rs:10`, `line 12`, `a.ts(41,22)`.
fn first_position(text: &[u8]) -> Option<u32> {
    let text = text.get(..MAX_POSITION_BYTES).unwrap_or(text);
    let mut at = 0;
    while let Some(ahead) = text.get(at..)?.iter().position(u8::is_ascii_digit) {
        let start = at + ahead;
        let length = text.get(start..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        at = start + length;
        let is_line = match text.get(..start)? {
            [name @ .., b':' | b'('] => ends_in_file_name(name),
            [words @ .., b' '] => {
                words.last_chunk::<4>().is_some_and(|word| word.eq_ignore_ascii_case(b"line"))
            }
            _ => false,
        };
        if is_line && length <= 6 {
            let digits = std::str::from_utf8(text.get(start..at)?).ok()?;
            return digits.parse().ok();
        }
    }
    None
}

/// Whether the last word of a text is a file name with an extension.
fn ends_in_file_name(text: &[u8]) -> bool {
    let word = text.rsplit(|byte| !is_in_word(*byte)).next().unwrap_or_default();
    let extension = word.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    extension.len() < word.len()
        && (1..=5).contains(&extension.len())
        && extension.first().is_some_and(u8::is_ascii_alphabetic)
}

fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b'=') || byte >= 0x80
}

/// Appends the normalized text to `out`; of a long text, only its beginning and end.
fn scan(text: &[u8], out: &mut Vec<u8>) {
    if text.len() <= HEAD_BYTES + TAIL_BYTES {
        normalize_error(text, out);
        return;
    }
    let (head, rest) = text.split_at(HEAD_BYTES);
    let (_, tail) = rest.split_at(rest.len() - TAIL_BYTES);
    let head_has_error = normalize_error(head, out);
    let mut end = Vec::new();
    let tail_has_error = normalize_error(tail, &mut end);
    match (head_has_error, tail_has_error) {
        // If only the beginning or only the end has lines that report an error, the other of the
        // two is dropped. For example, the first lines of a build log are not part of the error.
        (false, true) => out.clear(),
        (true, false) => end.clear(),
        _ => {}
    }
    out.extend_from_slice(&end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(text: &str) -> ErrorSignature {
        ErrorSignature::of(text, "", FailedCall::default(), &mut Vec::new())
    }

    #[track_caller]
    fn same(a: &str, b: &str) {
        assert_eq!(ErrorSignature::normalized_text(a), ErrorSignature::normalized_text(b));
        assert_eq!(signature(a).digest, signature(b).digest);
    }

    #[track_caller]
    fn different(a: &str, b: &str) {
        assert_ne!(signature(a).digest, signature(b).digest, "{a:?} and {b:?} must differ");
    }

    #[test]
    fn ids_times_and_positions_do_not_change_the_signature() {
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
        same("run.sh: line 12: foo: command not found", "run.sh: line 13: foo: command not found");
        same("#11 2.114 E: cannot locate x", "#9 14.7 E: cannot locate x");
        same("main.go:44 +0x2c error: x", "main.go:45 +0x2d error: x");
        same("a.ts(41,22): error TS2339: x", "a.ts(7,1): error TS2339: x");
        same("error: in /tmp/tmpk3x91aq_ x", "error: in /tmp/tmpp0wz7v2c x");
        same("\u{1b}[31merror\u{1b}[0m: x", "error:   x");
        same("commit 1a2b3c4 failed", "commit 99ffab1 failed");
    }

    #[test]
    fn counts_names_and_codes_change_the_signature() {
        different("12 errors", "7 errors");
        different("error: 12 tests failed", "error: 7 tests failed");
        different("error: cannot open a.rs", "error: cannot open b.rs");
        different("FAILED: 7/10 tests failed", "FAILED: 3/10 tests failed");
        different("error E0308", "error E0382");
        different("exit code 1", "exit code 2");
        different("error: port 8080 in use", "error: port 8081 in use");
        different("error: expected 3.1", "error: expected 3.2");
        different("error: want f(3), got x", "error: want f(4), got x");
        different("error: failed to process 12 files", "error: failed to process 7 files");
        different("error: connect 127.0.0.1:5432", "error: connect 10.0.0.7:80");
        different("error: connect localhost:8080", "error: connect localhost:9090");
    }

    #[test]
    fn other_lines_do_not_count_once_there_is_an_error_line() {
        same(
            "Compiling a v1\nerror: missing separator",
            "Compiling b v2\nDownloading\nerror: missing separator",
        );
    }

    #[test]
    fn the_template_does_not_depend_on_the_object_of_the_call() {
        let template = |package: &str| {
            let text = format!("ERROR: No matching distribution found for {package}");
            let args = format!("pip install {package}");
            ErrorSignature::of(&text, &args, FailedCall::default(), &mut Vec::new()).template
        };
        assert_eq!(template("gdal==3.4"), template("pygdal"));
        assert_ne!(signature("no such file: a").template, signature("no such folder: a").template);
    }

    #[test]
    fn the_same_error_at_a_distant_line_is_another_error() {
        let is_same = |a: &str, b: &str| signature(a).is_same_as(&signature(b));
        assert!(is_same("a.ts(41,22): error TS2339: x", "a.ts(43,24): error TS2339: x"));
        assert!(!is_same(
            "error: bad key in 'site.yml': line 12",
            "error: bad key in 'site.yml': line 48"
        ));
        assert!(!is_same("a.c:10: error: expected ;", "a.c:90: error: expected ;"));
        assert!(is_same("error: port 8080 in use", "error: port 8080 in use"));
    }

    #[test]
    fn the_preamble_of_a_long_error_does_not_change_the_signature() {
        let long = |crate_name: &str| {
            format!(
                "{}error: missing separator\n",
                format!("Compiling {crate_name} v1\n").repeat(99)
            )
        };
        same(&long("alpha"), &long("bravo"));
    }
}
