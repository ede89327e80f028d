//! Secrets that people make of words, and words that only stand where a secret would.
//!
//! Words alone are no sign of a secret, so these rules are asked only where a place is certain to
//! hold one: behind a shell's `PGPASSWORD=`, or in the quotes behind a `password`.

use super::known::distinct;

/// The fewest bytes of a word, and of a phrase.
const WORD_MIN: usize = 8;
const PHRASE_MIN: usize = 16;

/// How many words a phrase may have.
const PHRASE_WORDS: std::ops::RangeInclusive<usize> = 3..=10;

/// Whether a value of small letters is a secret rather than a remark on one.
pub(super) fn is_secret_word(value: &[u8]) -> bool {
    const REMARKS: &[&[u8]] = &[
        b"absent",
        b"abcdefgh",
        b"available",
        b"bearer",
        b"change",
        b"config",
        b"credential",
        b"default",
        b"develop",
        b"disable",
        b"dummy",
        b"empty",
        b"enable",
        b"example",
        b"expire",
        b"external",
        b"fake",
        b"foobar",
        b"generate",
        b"github",
        b"hidden",
        b"identifier",
        b"insert",
        b"internal",
        b"invalid",
        b"local",
        b"mask",
        b"missing",
        b"mock",
        b"optional",
        b"placeholder",
        b"postgres",
        b"present",
        b"product",
        b"prompt",
        b"redacted",
        b"replace",
        b"required",
        b"sample",
        b"something",
        b"staging",
        b"temp",
        b"undefined",
        b"unknown",
        b"unset",
        b"whatever",
        b"your",
    ];
    let is_word = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_lowercase);
    value.len() >= WORD_MIN
        && value.split(|byte| *byte == b'-').all(is_word)
        && distinct(value) >= 5
        && !describes_itself(value)
        && !value.ends_with(b"here")
        && !REMARKS.iter().any(|remark| has(value, remark))
}

/// Whether a phrase is a secret rather than a sentence about one: `correct horse battery 9`.
pub(super) fn is_passphrase(phrase: &[u8]) -> bool {
    const PROSE: &[&[u8]] = &[
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
    let words = || phrase.split(|byte| *byte == b' ');
    let is_word = |word: &[u8]| {
        word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!@#$%^&*+-_'".contains(byte))
            && !matches!(word, [] | [b'$' | b'%' | b'-', _, ..] | [b'+' | b'-' | b'=' | b'&'])
            && !PROSE.iter().any(|prose| word.eq_ignore_ascii_case(prose))
    };
    let has_sign = phrase.iter().any(|byte| byte.is_ascii_digit() || b"!@#$%^&*".contains(byte));
    let begins = |kind: fn(&u8) -> bool| move |word: &[u8]| word.first().is_some_and(kind);
    // A sentence begins with a capital, and its other words do not.
    let is_sentence = words().take(1).any(begins(u8::is_ascii_uppercase))
        && words().skip(1).any(begins(u8::is_ascii_lowercase));
    phrase.len() >= PHRASE_MIN
        && has_sign
        && !is_sentence
        && PHRASE_WORDS.contains(&words().count())
        && words().all(is_word)
}

/// Whether a value of small letters says what it is: `testpass123`, `my-secret-1`.
pub(super) fn describes_itself(value: &[u8]) -> bool {
    const WORDS: [&[u8]; 12] = [
        b"pass", b"pwd", b"secret", b"token", b"test", b"user", b"admin", b"key", b"demo", b"hash",
        b"value", b"string",
    ];
    !value.iter().any(u8::is_ascii_uppercase) && WORDS.iter().any(|word| has(value, word))
}

/// Whether a value is the name of an object in a cluster: words and a short hash, `my-tls-5f6d7a`.
pub(super) fn is_object_name(value: &[u8]) -> bool {
    const HASH_MAX: usize = 10;
    let is_hash = |part: &[u8]| {
        (1..=HASH_MAX).contains(&part.len())
            && part.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_word = |part: &[u8]| part.len() > 1 && part.iter().all(u8::is_ascii_lowercase);
    let mut parts = value.rsplit(|byte| *byte == b'-');
    parts.next().is_some_and(is_hash) && parts.clone().count() > 1 && parts.all(is_word)
}

/// Whether a value is the digest of something: `sha256:…`.
pub(super) fn is_digest(value: &[u8]) -> bool {
    const DIGESTS: [&[u8]; 7] =
        [b"md5", b"sha1", b"sha224", b"sha256", b"sha384", b"sha512", b"blake3"];
    let name = value.split(|byte| matches!(byte, b':' | b'-')).next().unwrap_or_default();
    name.len() < value.len() && DIGESTS.iter().any(|digest| name.eq_ignore_ascii_case(digest))
}

fn has(value: &[u8], word: &[u8]) -> bool {
    value.windows(word.len()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::check::{gone, stays};

    #[test]
    fn a_word_in_an_environment_goes() {
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
                assert_eq!(gone(&text), format!("{before}[redacted:labelled_secret]{after}"));
            }
        }
    }

    #[test]
    fn a_remark_in_an_environment_stays() {
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
            "PASSWORD: correcthorse",
            "TOKEN=accessTokenOfOurs",
            "TOKEN=next_identifier",
            "TOKEN=lexer.advance()",
            "f(TOKEN=correcthorse, b=1)",
            "dict(TOKEN=\"correcthorse\")",
            "API_KEY=correcthorse",
            "PAD_TOKEN=endofsomewhere",
            "PWD=correcthorse",
            "PASSWORD=put-it-here",
            "TOKEN=aaaaaaaaaa",
        ] {
            stays(text);
        }
    }

    #[test]
    fn a_phrase_goes_whole() {
        for (before, after) in [
            ("password: \"", "\""),
            ("DB_PASSWORD='", "' make"),
            (r#"{\"passphrase\": \""#, r#"\", \"b\": 1}"#),
            ("tool --password \"", "\" x"),
        ] {
            let text = format!("{before}correct horse battery 9{after}");
            assert_eq!(gone(&text), format!("{before}[redacted:labelled_secret]{after}"));
        }
    }

    #[test]
    fn a_sentence_stays() {
        for text in [
            "password: \"correct horse battery staple\"",
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
            stays(text);
        }
    }

    #[test]
    fn names_and_digests_are_told() {
        for name in ["my-tls-secret-v1a2b3c4", "app-secret-6ct58987ht"] {
            assert!(is_object_name(name.as_bytes()), "{name}");
        }
        for name in ["a8Kd0f3Lq9Zx", "550e8400-e29b-41d4", "word-a1b2c3d4", "my-tls-", "", "-a-b"] {
            assert!(!is_object_name(name.as_bytes()), "{name}");
        }
        assert!(is_digest(b"sha256:9f86d0") && is_digest(b"SHA512-z4PhNX7v"));
        assert!(!is_digest(b"sha256") && !is_digest(b"a8Kd:0f3Lq9Zx"));
    }
}
