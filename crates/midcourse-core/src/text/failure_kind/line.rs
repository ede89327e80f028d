//! Reads one line of a result: whether it reports a failure, and of which kind.
//!
//! A line reports a failure if it begins with the name of a program, an exception type or a word
//! such as `error`, followed by a colon, or if it is one of a few known sentences. The kind is read
//! from the exception type, or from a phrase at a place where such lines give the reason. A phrase
//! in quotes does not count, because quoted text is a name or a value, not a reason.

use super::super::failure::strip_phrase;
use super::FailureKind;
use super::json::kind_of_json;
use super::names::{kind_of_name, kind_of_status};
use super::phrases::{Place, kind_at_line_start, kind_of_absent, phrases_in};

/// Prefixes that agents and package managers put before every line of an output. The flag says
/// whether the prefix alone means that the line reports an error.
const WRAPPERS: &[(&str, bool)] = &[
    ("[ERROR] ", true),
    ("[error] ", true),
    ("<tool_use_error>", true),
    ("npm error ", true),
    ("npm ERR! ", true),
    ("## ", false),
    ("### ", false),
    ("> ", false),
    ("│ ", false),
    ("╰─> ", false),
    ("- ", false),
];

/// Words before a colon that introduce something other than the failure.
const NOTES: &[&str] = &[
    "note", "hint", "help", "info", "debug", "warning", "warn", "detail", "tip", "usage", "output",
    "trace", "notice", "hinweis", "context", "log", "path", "code", "line", "expected", "received",
    "actual", "got", "want", "location", "errno", "syscall", "http", "https", "time",
];

/// A line reports an error if the text before its first colon begins with one of these words.
const SEVERITIES: &[&str] = &[
    "error",
    "fatal",
    "failed",
    "failure",
    "err",
    "panic",
    "fehler",
    "schwerwiegend",
    "erreur",
    "exception",
    "uncaught",
    "mcp error",
    "php",
    "cmake error",
    "tool",
    "e",
];

/// A line that begins with one of these texts, given in lowercase, reports an error.
const SENTENCES: &[&str] = &[
    "failed to ",
    "could not ",
    "couldn't ",
    "cannot ",
    "can't ",
    "can not ",
    "unable to ",
    "error ",
    "request failed",
    "an error occurred",
];

/// A line reports an error if one of these texts comes before a colon and a space, anywhere in it.
const REPORTS: &[&str] = &[" failed", " fehlgeschlagen", " falló", " failed with", "failed due to"];

/// The longest text before the first colon of a line that reports an error.
const MAX_INTRODUCTION_BYTES: usize = 100;

/// A line with more spaces than this at its start is source code, or the details of a message.
const MAX_INDENT: usize = 1;

/// Used in place of `MAX_INDENT` for lines that are a known sentence.
const MAX_SENTENCE_INDENT: usize = 2;

/// What comes before the reason in a line that reports a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `cat: …`
    Program,
    /// `error: …`
    Severity,
    /// `KeyError: …`
    Exception,
    /// No introduction: a known sentence.
    Sentence,
}

/// A line that reports a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TellingLine {
    pub(super) form: Form,
    pub(super) kind: Option<FailureKind>,
}

impl TellingLine {
    /// Reads a line; `None` if it does not report a failure.
    /// `is_alone` says that the line is the whole result, so that it must be the report.
    pub(super) fn of(line: &str, is_alone: bool) -> Option<Self> {
        let text = line.trim_ascii_start();
        let may_be_wrapped =
            text.starts_with(['<', 'n', '[', '#', '>', '-', '+']) || !text.is_ascii();
        if text.is_empty() || (line.len() - text.len() > MAX_SENTENCE_INDENT && !may_be_wrapped) {
            return None;
        }
        let Unwrapped { line, indent, is_error } = Unwrapped::of(line);
        if let Some(name) = powershell_type(line) {
            return Some(Self { form: Form::Exception, kind: kind_of_name(name) });
        }
        if indent > MAX_SENTENCE_INDENT || is_log_entry(line) {
            return None;
        }
        if let Some(kind) = sentence(line) {
            return Some(Self { form: Form::Sentence, kind: Some(kind) });
        }
        if indent > MAX_INDENT {
            return None;
        }
        let form = introduction(line).or((is_error || is_alone).then_some(Form::Severity))?;
        if form == Form::Program && is_missing_program(line) {
            return Some(Self { form, kind: Some(FailureKind::MissingProgram) });
        }
        let kind = name_in(line, form).or_else(|| phrase_in(line)).or_else(|| {
            let json = memchr::memchr(b'{', line.as_bytes()).and_then(|at| line.get(at..));
            json.filter(|json| json.starts_with("{\"")).and_then(kind_of_json)
        });
        Some(Self { form, kind })
    }

    /// The kind of a message that is known to report a failure.
    pub(super) fn of_message(message: &str) -> Option<FailureKind> {
        kind_at_line_start(message).or_else(|| phrase_in(message))
    }
}

/// A line without its indentation and without the prefixes that agents and package managers put
/// before it.
struct Unwrapped<'a> {
    line: &'a str,
    /// The number of spaces before the line; 0 if a prefix was removed.
    indent: usize,
    /// Whether a removed prefix says that the line reports an error.
    is_error: bool,
}

impl<'a> Unwrapped<'a> {
    fn of(line: &'a str) -> Self {
        let mut rest = line.trim_ascii();
        rest = rest.strip_suffix("</tool_use_error>").unwrap_or(rest);
        let mut indent = line.len() - line.trim_ascii_start().len();
        let mut is_error = false;
        let inner = |text: &'a str| {
            let first = text.as_bytes().first()?;
            if !(b"[<n#>-".contains(first) || *first >= 0x80) {
                return None;
            }
            WRAPPERS.iter().find_map(|(wrapper, is_error)| {
                Some((text.strip_prefix(wrapper)?.trim_start(), *is_error))
            })
        };
        while let Some((text, reports_error)) = inner(rest) {
            (rest, indent) = (text, 0);
            is_error |= reports_error;
        }
        // Yarn puts a message code before each line: `➤ YN0035: │ a@npm:1: Package not found`.
        if let Some((number, text)) = rest.strip_prefix("➤ YN").and_then(|r| r.split_once(": ")) {
            rest = text.trim_start_matches(['│', ' ']);
            is_error |= number != "0000";
        }
        Self { line: rest, indent, is_error }
    }
}

/// The exception type that PowerShell names at the end of a line `+ CategoryInfo : …`.
fn powershell_type(line: &str) -> Option<&str> {
    line.strip_prefix("+ CategoryInfo")?.rsplit_once(", ").map(|(_, name)| name)
}

/// The kind of a line that is a known sentence, or the first line of an HTTP response.
fn sentence(line: &str) -> Option<FailureKind> {
    if !line.starts_with(|c: char| c.is_ascii_digit()) {
        return kind_at_line_start(line).or_else(|| status_line(line));
    }
    // `404 Not Found`, `400 Unrecognized name: a`, `2 validation errors for Model`
    let after = line.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(' ')?;
    if after.starts_with("validation error") {
        return Some(FailureKind::BadArguments);
    }
    let is_status = line.len() - after.len() == 4 && line.starts_with(['4', '5']);
    kind_at_line_start(line).or_else(|| kind_at_line_start(after).filter(|_| is_status))
}

/// Whether a line begins with a date, as the entries of a log do.
fn is_log_entry(line: &str) -> bool {
    let bytes = line.trim_start_matches('[').as_bytes();
    matches!(bytes, [a, b, c, d, b'-' | b'/', e, ..]
        if [a, b, c, d, e].iter().all(|byte| byte.is_ascii_digit()))
}

/// The form of a line that reports an error, which is `INTRODUCTION: REASON` or a sentence such as
/// `failed to …`; `None` if the line does not look like that.
fn introduction(line: &str) -> Option<Form> {
    // Elixir writes `** (SyntaxError) …`.
    if line.starts_with("** (") || kind_of_name(line).is_some() {
        return Some(Form::Exception);
    }
    let bytes = line.as_bytes();
    let first = bytes.first().map_or(0, u8::to_ascii_lowercase);
    let begins_sentence = |start: &&str| {
        start.as_bytes().first() == Some(&first) && strip_phrase(line, start).is_some()
    };
    if SENTENCES.iter().any(begins_sentence) {
        return Some(Form::Severity);
    }
    for colon in memchr::memchr_iter(b':', bytes) {
        let (before, after) = (line.get(..colon)?, line.get(colon + 1..)?);
        let is_report = after.starts_with(' ') && REPORTS.iter().any(|end| before.ends_with(end));
        if is_report || after.starts_with(" *** ") {
            return Some(Form::Severity);
        }
        // Ruby: `a.rb:3:in 'f': undefined method (NoMethodError)`.
        if (after.starts_with("in `") || after.starts_with("in '")) && line.ends_with(')') {
            return Some(Form::Exception);
        }
    }
    let colon = memchr::memchr(b':', bytes).filter(|colon| *colon <= MAX_INTRODUCTION_BYTES)?;
    let before = line.get(..colon)?.trim_end();
    let is_word = |words: &[&str]| words.iter().any(|word| before.eq_ignore_ascii_case(word));
    if parts(line).take(3).any(is_type) && parts(line).nth(1).is_some() {
        return Some(Form::Exception);
    }
    if is_word(NOTES) {
        return None;
    }
    let begins_with = |severity: &&str| {
        severity.as_bytes().first() == Some(&first)
            && strip_phrase(before, severity).is_some_and(|rest| {
                !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/'))
            })
    };
    let is_status = before.len() > 3 && is_http_error(before);
    if SEVERITIES.iter().any(begins_with) || is_status {
        return Some(Form::Severity);
    }
    // A space follows the colon after a program's name. Without the space, the text is something
    // else, such as a position in a file (`a.py:3`) or the path of an item (`std::x`).
    let after = line.get(colon + 1..)?;
    let is_program = is_program(before) && (after.is_empty() || after.starts_with([' ', '\t']));
    is_program.then_some(Form::Program)
}

/// Whether the last word of a text is an exception type, such as `KeyError`. A code in brackets may
/// follow it, as in `AssertionError [CODE]`.
fn is_type(part: &str) -> bool {
    let bracket = memchr::memchr(b'[', part.as_bytes());
    let part = part.get(..bracket.unwrap_or(part.len())).unwrap_or(part).trim_ascii_end();
    let name = memchr::memrchr(b' ', part.as_bytes()).and_then(|space| part.get(space + 1..));
    let name = name.unwrap_or(part);
    let ends = ["Error", "Exception", "Expired", "Timeout", "Interrupt"];
    let is_type = name.len() > 5 && ends.iter().any(|end| name.ends_with(end));
    (is_type || kind_of_name(name).is_some())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:\\".contains(&byte))
}

/// Whether a text begins with an HTTP status code that reports an error.
fn is_http_error(text: &str) -> bool {
    let (digits, rest) = text.split_at_checked(3).unwrap_or_default();
    digits.starts_with(['4', '5'])
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && rest.starts_with(' ')
}

/// Whether a text is the name of a program: `cat`, `/bin/sh`, `make[2]`, `tar (child)`.
fn is_program(text: &str) -> bool {
    let text = text.strip_suffix(" (child)").unwrap_or(text);
    text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '~' | '_'))
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
        && text.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || b"_./+-[]@~\\".contains(&byte) || byte >= 0x80
        })
}

/// The parts of a line, separated by a colon and a space.
fn parts(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut colons = memchr::memchr_iter(b':', text.as_bytes());
        let end = colons.find(|colon| text.as_bytes().get(colon + 1) == Some(&b' '));
        rest = end.and_then(|end| text.get(end + 2..));
        text.get(..end.unwrap_or(text.len()))
    })
}

/// How many parts of a line, separated by colons, are searched for names.
const MAX_PARTS: usize = 6;

/// The kind that an exception type or errno name in a line indicates. A name counts if it is alone
/// between colons, in brackets, or the last word before a colon. An errno name counts anywhere.
fn name_in(line: &str, form: Form) -> Option<FailureKind> {
    let mut found = None;
    let mut parts = parts(line).take(MAX_PARTS).peekable();
    while let Some(part) = parts.next() {
        let mut words = part.split_ascii_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next());
        let is_alone = second.is_none_or(|second| second.starts_with('['));
        let name = if is_alone { Some(first.trim_end_matches(':')) } else { None };
        let in_brackets = memchr::memchr2(b'(', b'[', part.as_bytes()).and_then(|open| {
            let rest = part.get(open + 1..)?;
            rest.get(..memchr::memchr2(b')', b']', rest.as_bytes())?)
        });
        let is_introduction = form == Form::Severity && parts.peek().is_some();
        let last_word = part
            .split_ascii_whitespace()
            .next_back()
            .filter(|_| is_introduction && found.is_none());
        let mut kinds =
            [name, in_brackets, last_word].into_iter().flatten().filter_map(kind_of_name);
        found = kinds.next_back().or(found);
        // An errno name may be between other words: `connect ECONNREFUSED 127.0.0.1:27017`.
        let errno = part.split(' ').find(|word| is_errno(word));
        found = found.or_else(|| errno.and_then(kind_of_name));
    }
    // Ruby writes the exception type last: `a.rb:3:in 'f': undefined method (NoMethodError)`.
    let last = line.strip_suffix(')').and_then(|rest| rest.rsplit_once('('));
    found.or_else(|| last.and_then(|(_, name)| kind_of_name(name)))
}

/// Whether a word is like `ENOENT`.
fn is_errno(word: &str) -> bool {
    word.len() >= 4
        && word.starts_with('E')
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// The kind that a phrase in a line indicates.
fn phrase_in(line: &str) -> Option<FailureKind> {
    let (mut found, mut absent) = (None, None);
    for (at, kind, place) in phrases_in(line) {
        let before = line.get(..at)?;
        let counts = match place {
            Place::Line | Place::Part => {
                begins_part(before)
                    // After these two kinds, a further reason such as "no such file" only gives
                    // details about the program or its input.
                    && !matches!(found, Some(FailureKind::MissingProgram | FailureKind::Syntax))
            }
            Place::Anywhere => found.is_none(),
            Place::Absent => found.is_none() && absent.is_none(),
        };
        if !counts || is_quoted(before) {
            continue;
        }
        if place == Place::Absent {
            let start = before.rfind(": ").map_or(0, |colon| colon + 2);
            let part = line.get(start..).unwrap_or_default();
            let part = part.split_once(": ").map_or(part, |(part, _)| part);
            let is_quoted = |at: usize| part.get(..at).is_some_and(is_quoted);
            absent = Some(kind_of_absent(part, at - start, is_quoted));
        } else {
            found = Some(kind);
        }
    }
    found.or_else(|| status_in(line)).or(absent).filter(|kind| *kind != FailureKind::Other)
}

/// Whether a shell says that it does not find a program: `sh: 1: vite: not found`.
fn is_missing_program(line: &str) -> bool {
    let shell = line.split(':').next().unwrap_or_default();
    let shell = shell.rsplit('/').next().unwrap_or(shell);
    line.ends_with(": not found")
        && (matches!(shell, "sh" | "dash" | "ash" | "bash" | "zsh" | "ksh")
            || shell.ends_with(".sh"))
}

/// Whether a new part of a line begins after this text.
fn begins_part(before: &str) -> bool {
    let words = before.trim_end();
    words.is_empty()
        || (words.len() < before.len() && words.ends_with([':', ']', ')', '*', '-', '>', ',']))
}

/// Whether quotes are open at the end of a text.
fn is_quoted(before: &str) -> bool {
    let mut open = None;
    let mut last = ' ';
    let mut chars = before.chars().peekable();
    while let Some(c) = chars.next() {
        open = match (open, c) {
            (None, '"') => Some('"'),
            // After a letter, `'` is an apostrophe, as in `can't`.
            (None, '\'') if !last.is_alphanumeric() => Some('\''),
            (None, '`') => Some('`'),
            (None, '‘') => Some('’'),
            (None, '“') => Some('”'),
            (None, '„') => Some('“'),
            (None, '»') => Some('«'),
            (None, '«') => Some('»'),
            // Old GNU programs quote a name with a backtick before it and `'` after it.
            (Some('`'), '\'' | '`') => None,
            (Some('\''), '\'') if chars.peek().is_some_and(|next| next.is_alphanumeric()) => open,
            (Some(close), c) if close == c => None,
            _ => open,
        };
        last = c;
    }
    open.is_some()
}

/// Texts that come directly before an HTTP status code, in lowercase.
const STATUS_LABELS: &[&str] = &[
    "status code ",
    "status code: ",
    "returned error: ",
    "error code: ",
    "http error ",
    "http/1.1 ",
    "http status ",
    "http ",
    "code e",
    "an error occurred (",
];

/// The kind of the HTTP status code that a line names after a label such as `status code`.
fn status_in(line: &str) -> Option<FailureKind> {
    let has_number = line.as_bytes().windows(3).any(
        |digits| matches!(digits, [b'4' | b'5', a, b] if a.is_ascii_digit() && b.is_ascii_digit()),
    );
    if !has_number {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    STATUS_LABELS.iter().find_map(|label| {
        let (before, after) = lower.split_once(label)?;
        (!is_quoted(before)).then(|| status_at(after)).flatten()
    })
}

/// Beginnings of lines that name the status of an HTTP response. The status code follows.
const STATUS_LINES: &[&str] = &[
    "HTTP/1.0 ",
    "HTTP/1.1 ",
    "HTTP/2 ",
    "HTTP/3 ",
    "HTTP ",
    "HTTP status ",
    "HTTP request sent, awaiting response... ",
    "Request failed with status code ",
];

/// The kind of a line that is the first line of an HTTP response, or names its status.
fn status_line(line: &str) -> Option<FailureKind> {
    if !line.starts_with(['H', 'R']) {
        return None;
    }
    STATUS_LINES.iter().find_map(|start| status_at(line.strip_prefix(start)?))
}

fn status_at(text: &str) -> Option<FailureKind> {
    let (digits, rest) = text.split_at_checked(3)?;
    let is_longer = rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    kind_of_status(digits.parse().ok().filter(|_| !is_longer)?)
}
