//! Recognises values that are where a secret could be but are not secret: placeholders, paths,
//! expressions, digests, and names of secrets.
//!
//! The rules call these functions for a bounded sample of each value that otherwise looks secret.

use super::bytes::{contains, examine, prefix_len};

/// Lower-case texts that occur in placeholders and templates, and hardly ever in a secret.
const PLACEHOLDER_PARTS: &[&[u8]] = &[
    b"${",
    b"$(",
    b"${{",
    b"{{",
    b"%s",
    b"#{",
    b"<%",
    b"</",
    b"...",
    b"****",
    b"xxxx",
    b"://",
    b"example",
    b"environ",
    b"getenv",
    b"process.env",
    b"changeme",
    b"change-me",
    b"change_me",
    b"placeholder",
    b"your_",
    b"your-",
    b"yourp",
    b"yours",
    b"yourt",
    b"dummy",
    b"redacted",
    b"-here",
    b"_here",
    "…".as_bytes(),
];

/// For each byte, whether a part of a placeholder starts with it.
#[expect(clippy::indexing_slicing, reason = "the table has an entry for every byte")]
const PLACEHOLDER_STARTS: [bool; 256] = {
    let mut starts = [false; 256];
    let mut rest = PLACEHOLDER_PARTS;
    while let [part, others @ ..] = rest {
        if let [first, ..] = part {
            starts[*first as usize] = true;
            starts[first.to_ascii_uppercase() as usize] = true;
        }
        rest = others;
    }
    starts
};

/// Whether a value contains a placeholder or a template expression.
pub(super) fn contains_placeholder(value: &[u8]) -> bool {
    let starts_with = |text: &[u8], part: &[u8]| {
        text.get(..part.len()).is_some_and(|start| start.eq_ignore_ascii_case(part))
    };
    let is_start =
        |byte: u8| PLACEHOLDER_STARTS.get(usize::from(byte)).is_some_and(|starts| *starts);
    examine(value.len());
    let is_bracketed = matches!(value, [b'<', .., b'>'] | [b'{', .., b'}'] | [b'<' | b'{', ..]);
    is_bracketed
        || value.iter().enumerate().filter(|(_, byte)| is_start(**byte)).any(|(at, _)| {
            let rest = value.get(at..).unwrap_or_default();
            PLACEHOLDER_PARTS.iter().any(|part| starts_with(rest, part))
        })
}

/// Whether the text where a password could be is only a placeholder, a variable or a port number.
pub(super) fn is_placeholder_password(password: &[u8]) -> bool {
    const NAMES: [&[u8]; 9] = [
        b"password",
        b"passwd",
        b"pass",
        b"pw",
        b"pwd",
        b"secret",
        b"token",
        b"port",
        b"x-oauth-basic",
    ];
    let is_percent_encoded =
        matches!(password, [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    // `http://host:8080?to=me@there` has a port where the password would be.
    let digits = prefix_len(password, |byte| byte.is_ascii_digit());
    let is_port = digits > 0 && matches!(password.get(digits), Some(b'?' | b'#'));
    password.is_empty()
        || is_variable(password) && !is_percent_encoded
        || is_port
        || password.iter().all(|byte| matches!(byte, b'x' | b'X' | b'*' | b'.'))
        || NAMES.iter().any(|name| password.eq_ignore_ascii_case(name))
}

/// Whether a value is a variable of a shell or of a batch file, or a format: `$NAME`, `%NAME%`,
/// `%s`.
pub(super) fn is_variable(value: &[u8]) -> bool {
    let is_name_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'>' | b'-');
    let Some((sign, name)) = value.split_first() else { return false };
    let starts_name = matches!(name, [b'A'..=b'Z' | b'a'..=b'z' | b'_', ..]);
    match sign {
        b'$' => starts_name && prefix_len(name, is_name_byte) == name.len(),
        b'%' if name.starts_with(b"(") => true,
        b'%' => starts_name && (name.len() < 3 || name.ends_with(b"%")),
        _ => false,
    }
}

/// Whether a value is a file path.
pub(super) const fn is_path(value: &[u8]) -> bool {
    matches!(value, [b'/' | b'~', ..] | [b'.', b'/' | b'.', ..] | [_, b':', b'\\' | b'/', ..])
}

/// Whether a value starts with a date: `2024-01-31`.
pub(super) const fn is_date(value: &[u8]) -> bool {
    matches!(value, [b'1' | b'2', b'0' | b'9', _, _, b'-', _, _, b'-', ..])
}

/// Whether a word contains a part such as `test` or `pass`.
pub(super) fn contains_descriptive_word(value: &[u8]) -> bool {
    const WORDS: [&[u8]; 10] = [
        b"pass", b"pwd", b"secret", b"token", b"test", b"user", b"admin", b"hash", b"value",
        b"string",
    ];
    WORDS.iter().any(|word| contains(value, word))
}

/// Whether a value looks like the name of a Kubernetes object: words, then a short hash, as in
/// `my-tls-5f6d7a`.
pub(super) fn is_object_name(value: &[u8]) -> bool {
    const MAX_HASH_LEN: usize = 10;
    let is_hash = |part: &[u8]| {
        (1..=MAX_HASH_LEN).contains(&part.len())
            && part.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_word = |part: &[u8]| part.len() > 1 && part.iter().all(u8::is_ascii_lowercase);
    let mut parts = value.rsplit(|byte| *byte == b'-');
    parts.next().is_some_and(is_hash) && parts.clone().count() > 1 && parts.all(is_word)
}

/// Whether a value is a digest with the name of its algorithm: `sha256:…`.
pub(super) fn is_digest(value: &[u8]) -> bool {
    const ALGORITHMS: [&[u8]; 7] =
        [b"md5", b"sha1", b"sha224", b"sha256", b"sha384", b"sha512", b"blake3"];
    let name = value.split(|byte| matches!(byte, b':' | b'-')).next().unwrap_or_default();
    name.len() < value.len() && ALGORITHMS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_are_recognised() {
        for name in ["my-tls-secret-v1a2b3c4", "app-secret-6ct58987ht"] {
            assert!(is_object_name(name.as_bytes()), "{name}");
        }
        for name in ["a8Kd0f3Lq9Zx", "550e8400-e29b-41d4", "word-a1b2c3d4", "my-tls-", "", "-a-b"] {
            assert!(!is_object_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn digests_are_recognised_by_their_algorithm() {
        assert!(is_digest(b"sha256:9f86d0") && is_digest(b"SHA512-z4PhNX7v"));
        assert!(!is_digest(b"sha256") && !is_digest(b"a8Kd:0f3Lq9Zx"));
    }
}
