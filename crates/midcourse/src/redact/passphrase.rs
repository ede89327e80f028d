//! Secrets made of words: single-word passwords and passphrases.
//!
//! Ordinary words do not look like a secret. `assignment` therefore calls these functions only
//! where a secret is expected: after `PGPASSWORD=`, or in quotes after `password:`.

use super::bytes::{contains, count_distinct};
use super::false_positives::contains_descriptive_word;
use super::words::is_made_of_words;

const MIN_WORD_LEN: usize = 6;
const MIN_PASSPHRASE_LEN: usize = 16;

/// A passphrase without digits and symbols has at least this many words.
const MIN_PLAIN_WORDS: usize = 4;

/// How many words a passphrase can have.
const PASSPHRASE_WORDS: std::ops::RangeInclusive<usize> = 3..=10;

/// Parts of words that describe a password or its absence. A value that contains one of them, such
/// as `changeme` or `not-required`, is not a password.
const DESCRIPTIONS: &[&[u8]] = &[
    b"absent",
    b"abcdefgh",
    b"accepted",
    b"available",
    b"bearer",
    b"cannot",
    b"change",
    b"config",
    b"credential",
    b"default",
    b"denied",
    b"develop",
    b"disable",
    b"dummy",
    b"empty",
    b"enable",
    b"example",
    b"expire",
    b"external",
    b"fail",
    b"fake",
    b"forbidden",
    b"foobar",
    b"generate",
    b"github",
    b"hidden",
    b"identifier",
    b"incorrect",
    b"insert",
    b"internal",
    b"invalid",
    b"local",
    b"mask",
    b"mismatch",
    b"missing",
    b"mock",
    b"nothing",
    b"object",
    b"optional",
    b"placeholder",
    b"postgres",
    b"present",
    b"product",
    b"prompt",
    b"protected",
    b"redacted",
    b"rejected",
    b"removed",
    b"replace",
    b"required",
    b"reset",
    b"sample",
    b"something",
    b"staging",
    b"success",
    b"temp",
    b"undefined",
    b"unknown",
    b"unset",
    b"updated",
    b"verif",
    b"whatever",
    b"your",
];

/// Words that occur in sentences about passwords. A text with one of them is not a passphrase.
const SENTENCE_WORDS: &[&[u8]] = &[
    b"a",
    b"an",
    b"and",
    b"are",
    b"at",
    b"be",
    b"can",
    b"cannot",
    b"character",
    b"characters",
    b"chars",
    b"contain",
    b"digit",
    b"digits",
    b"enter",
    b"for",
    b"from",
    b"has",
    b"have",
    b"if",
    b"in",
    b"is",
    b"it",
    b"least",
    b"length",
    b"letters",
    b"long",
    b"max",
    b"min",
    b"minimum",
    b"must",
    b"not",
    b"of",
    b"on",
    b"or",
    b"password",
    b"passwords",
    b"please",
    b"required",
    b"secret",
    b"should",
    b"than",
    b"the",
    b"this",
    b"to",
    b"token",
    b"use",
    b"user",
    b"with",
    b"you",
    b"your",
];

/// Whether a value may be a password made of words: one lower-case word, or several joined with
/// `-`. Values that describe a password, such as `changeme`, are none.
pub(super) fn is_password_word(value: &[u8]) -> bool {
    let is_word = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_lowercase);
    value.len() >= MIN_WORD_LEN
        && value.split(|byte| *byte == b'-').all(is_word)
        && count_distinct(value) >= 5
        && !contains_descriptive_word(value)
        && !is_made_of_words(value)
        && !value.ends_with(b"here")
        && !DESCRIPTIONS.iter().any(|word| contains(value, word))
}

/// Whether a text of several words is a passphrase, such as `correct horse battery 9`, and not a
/// sentence.
pub(super) fn is_passphrase(text: &[u8]) -> bool {
    let words = || text.split(|byte| *byte == b' ');
    let is_word = |word: &[u8]| {
        word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!@#$%^&*+-_',".contains(byte))
            && !matches!(word, [] | [b'$' | b'%' | b'-', _, ..] | [b'+' | b'-' | b'=' | b'&'])
            && !SENTENCE_WORDS.iter().any(|other| word.eq_ignore_ascii_case(other))
    };
    let has_digit_or_symbol =
        text.iter().any(|byte| byte.is_ascii_digit() || b"!@#$%^&*".contains(byte));
    let is_plain = |word: &[u8]| word.len() > 2 && word.iter().all(u8::is_ascii_lowercase);
    let is_word_list = || words().count() >= MIN_PLAIN_WORDS && words().all(is_plain);
    let starts_with = |class: fn(&u8) -> bool| move |word: &[u8]| word.first().is_some_and(class);
    let is_capitalised_sentence = words().take(1).any(starts_with(u8::is_ascii_uppercase))
        && words().skip(1).any(starts_with(u8::is_ascii_lowercase));
    text.len() >= MIN_PASSPHRASE_LEN
        && (has_digit_or_symbol || is_word_list())
        && !is_capitalised_sentence
        && PASSPHRASE_WORDS.contains(&words().count())
        && words().all(is_word)
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn a_word_assigned_to_a_secret_variable_is_redacted() {
        for (before, after) in [
            ("PGPASSWORD=", " make"),
            ("export SECRET=", ""),
            ("- POSTGRES_PASSWORD=", "\n  - B=1"),
            ("docker run -e AUTH_TOKEN=", " image"),
            ("{\"cmd\": \"MYSQL_PWD=", "\"}"),
            (r"A=1\nDB_PASSWORD=", r"\nB=2"),
            ("JWT_SECRET='", "'; run"),
        ] {
            for word in ["correcthorse", "correcthorsebattery", "correct-horse-battery"] {
                let text = format!("{before}{word}{after}");
                assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]{after}"));
            }
        }
    }

    #[test]
    fn descriptions_references_and_other_assignments_are_kept() {
        for text in [
            "PASSWORD=required",
            "PASSWORD=disabled",
            "PASSWORD=changeme",
            "PASSWORD=password",
            "POSTGRES_PASSWORD=mysecretpassword",
            "POSTGRES_PASSWORD=postgres",
            "TOKEN=undefined",
            "TOKEN=$OTHER_TOKEN",
            "TOKEN=shorty",
            "SECRET=true",
            "SECRET=/run/secrets/correcthorse",
            "SECRET = correcthorse",
            "secret=correcthorse",
            "f(PASSWORD: correcthorse)",
            "TOKEN=accessTokenOfOurs",
            "TOKEN=next_identifier",
            "TOKEN=lexer.advance()",
            "f(TOKEN=correcthorse, b=1)",
            "API_KEY=correcthorse",
            "PAD_TOKEN=endofsomewhere",
            "PWD=correcthorse",
            "PASSWORD=put-it-here",
            "TOKEN=aaaaaaaaaa",
        ] {
            assert_no_secret(text);
        }
    }

    #[test]
    fn a_passphrase_is_redacted_whole() {
        for (before, after) in [
            ("password: \"", "\""),
            ("DB_PASSWORD='", "' make"),
            (r#"{\"passphrase\": \""#, r#"\", \"b\": 1}"#),
            ("tool --password \"", "\" x"),
        ] {
            for phrase in ["correct horse battery 9", "correct horse battery staple"] {
                let text = format!("{before}{phrase}{after}");
                assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]{after}"));
            }
        }
    }

    #[test]
    fn a_sentence_is_kept() {
        for text in [
            "password: \"correct horse battery\"",
            "\"password\": \"must be at least 8 characters\"",
            "\"password\": \"Le mot doit contenir 8 lettres\"",
            "\"password\": \"Enter 8 or more letters\"",
            "\"password=\" + first1 + second + \"\"",
            "password: \"{0} is wrong 3 times\"",
            "password: \"error: wrong in line 9\"",
            "password: \"correct horse battery 9",
            "token: \"correct horse battery 9\"",
            "password: \"[redacted:jwt] horse battery 9\"",
            "password = 'x' and id = 9 or b = 'y'",
        ] {
            assert_no_secret(text);
        }
    }
}
