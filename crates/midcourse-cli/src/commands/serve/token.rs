//! Secrets: the tokens with which people sign in, and the values of session cookies. Only their
//! hashes are kept. A hash tells nothing about 256 random bits, so it needs no salt and no slow
//! function.

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use rustls::crypto::ring;

/// Tokens begin with this, so that people and programs that look for secrets recognise them.
const PREFIX: &str = "midcourse_";

const RANDOM_BYTES: usize = 32;

/// A new token for a person.
pub(super) fn new_token() -> Result<String> {
    Ok(format!("{PREFIX}{}", random()?))
}

/// The hash of a token, as the people file has it; `None` if the text has not the form of a token.
/// The hash of a weak password in the people file therefore lets nobody in.
pub(super) fn hash_of(token: &str) -> Option<blake3::Hash> {
    let digits = token.trim().strip_prefix(PREFIX)?;
    let is_token =
        digits.len() == RANDOM_BYTES * 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_token.then(|| blake3::hash(token.trim().as_bytes()))
}

/// 256 random bits as hexadecimal digits.
pub(super) fn random() -> Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    let source = ring::default_provider().secure_random;
    source.fill(&mut bytes).map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(bytes.iter().fold(String::with_capacity(RANDOM_BYTES * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_256_random_bits_and_a_known_form() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), "midcourse_".len() + 64);
        assert_eq!(hash_of(&format!(" {one}\n")), hash_of(&one));
        assert_ne!(hash_of(&one), hash_of(&other));
        let cut = one.get(..one.len() - 1).unwrap();
        for wrong in ["", "midcourse_", "hunter2", "midcourse_hunter2", cut] {
            assert_eq!(hash_of(wrong), None, "{wrong}");
        }
    }
}
