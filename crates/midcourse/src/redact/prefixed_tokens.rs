//! Tokens that have a known prefix.
//!
//! Each row of the table `PREFIXED_TOKENS` gives the prefix, the alphabet and minimum length of the
//! rest, and what else the rest must contain, so that ordinary identifiers with the same prefix are
//! not redacted.

use super::bytes::{count_distinct, is_credential_byte, is_token_byte, prefix_len, suffix_len};
use super::kind::SecretKind::{self, *};
use super::prefilter::PREFIXED_TOKEN_BITS;
use super::view::{SecretSpan, View};

/// How many bytes after the prefix are examined to see whether the text is a token.
const SAMPLE_LEN: usize = 64;

/// The minimum number of bytes after a custom prefix.
const MIN_CUSTOM_BODY_LEN: usize = 8;

/// The bytes that may follow a prefix in a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    Alphanumeric,
    /// Capital letters and digits.
    Capitals,
    Hex,
    Token,
    /// Letters, digits, `_`, `-` and dots.
    Dotted,
    /// Letters, digits, `_`, `-` and slashes.
    Path,
    /// The bytes of a credential in an HTTP header.
    Credential,
}

impl Alphabet {
    const fn contains(self, byte: u8) -> bool {
        match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Token => is_token_byte(byte),
            Self::Dotted => is_token_byte(byte) || byte == b'.',
            Self::Path => is_token_byte(byte) || byte == b'/',
            Self::Credential => is_credential_byte(byte),
        }
    }
}

/// What the bytes after a prefix must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Required {
    /// Nothing: only tokens have this prefix.
    Nothing,
    /// A digit, or upper and lower case, because lower-case identifiers have this prefix too.
    DigitOrMixedCase,
    /// A digit, because ordinary words have this prefix too.
    Digit,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PrefixedToken {
    pub(super) prefix: &'static str,
    kind: SecretKind,
    alphabet: Alphabet,
    /// The minimum number of bytes after the prefix.
    min_len: usize,
    required: Required,
    /// Whether there must be exactly `min_len` bytes after the prefix.
    is_fixed_len: bool,
    /// Whether the prefix stays in the text, because it is not part of the secret.
    keeps_prefix: bool,
}

const fn token(
    prefix: &'static str,
    kind: SecretKind,
    alphabet: Alphabet,
    min_len: usize,
) -> PrefixedToken {
    let required = Required::Nothing;
    PrefixedToken {
        prefix,
        kind,
        alphabet,
        min_len,
        required,
        is_fixed_len: false,
        keeps_prefix: false,
    }
}

impl PrefixedToken {
    /// Requires a digit, or both upper and lower case, after the prefix.
    const fn mixed(self) -> Self {
        Self { required: Required::DigitOrMixedCase, ..self }
    }

    const fn with_digit(self) -> Self {
        Self { required: Required::Digit, ..self }
    }

    const fn fixed_len(self) -> Self {
        Self { is_fixed_len: true, ..self }
    }

    const fn keeping_prefix(self) -> Self {
        Self { keeps_prefix: true, ..self }
    }

    fn find(&self, view: View<'_>, start: usize) -> Option<SecretSpan> {
        if !view.ahead(start).starts_with(self.prefix.as_bytes()) {
            return None;
        }
        let body_start = start + self.prefix.len();
        let sample = view.ahead_up_to(body_start, self.min_len.max(SAMPLE_LEN));
        let sample_len = prefix_len(sample, |byte| self.alphabet.contains(byte));
        let sample = sample.get(..sample_len).unwrap_or_default();
        if sample_len < self.min_len || !looks_generated(sample, self.required) {
            return None;
        }
        let mut len = prefix_len(view.ahead(body_start), |byte| self.alphabet.contains(byte));
        if self.is_fixed_len {
            let is_longer = view.byte(body_start + len).is_some_and(is_token_byte);
            if len != self.min_len || is_longer {
                return None;
            }
        } else if self.alphabet != Alphabet::Path {
            // If token bytes that the alphabet lacks, such as `_` or `-`, follow directly, they are
            // redacted too.
            len += prefix_len(view.ahead(body_start + len), is_token_byte);
        }
        let start = if self.keeps_prefix { body_start } else { start };
        // Dots at the end are punctuation.
        let body = view.ahead_up_to(body_start, len);
        let end = body_start + len - suffix_len(body, |byte| byte == b'.');
        Some(SecretSpan { start, end, kind: self.kind })
    }
}

/// Whether the bytes after a prefix look generated, unlike `xxxx` or the rest of an identifier.
fn looks_generated(body: &[u8], required: Required) -> bool {
    let has = |class: fn(&u8) -> bool| body.iter().any(class);
    let has_digit = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let has_required = match required {
        Required::Nothing => true,
        Required::DigitOrMixedCase => {
            has_digit || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
        }
        Required::Digit => has_digit,
    };
    has_required && count_distinct(body) > 4
}

/// The token at `start`, if it begins with one of the prefixes that have this bit in the prefilter.
pub(super) fn find_prefixed_token(view: View<'_>, start: usize, bit: u32) -> Option<SecretSpan> {
    PREFIXED_TOKENS
        .iter()
        .skip(bit as usize)
        .step_by(PREFIXED_TOKEN_BITS as usize)
        .find_map(|token| token.find(view, start))
}

/// The token at `start` that begins with a prefix which the user configured.
pub(super) fn find_custom_token(
    view: View<'_>,
    start: usize,
    prefixes: &[String],
) -> Option<SecretSpan> {
    let is_token = |prefix: &&String| {
        let body = view.ahead_up_to(start + prefix.len(), MIN_CUSTOM_BODY_LEN);
        view.ahead(start).starts_with(prefix.as_bytes())
            && prefix_len(body, is_token_byte) == MIN_CUSTOM_BODY_LEN
    };
    prefixes.iter().find(is_token)?;
    let end = start + prefix_len(view.ahead(start), is_token_byte);
    Some(SecretSpan { start, end, kind: CustomPrefix })
}

/// All known prefixes. A prefix comes before every shorter prefix that it starts with: `sk-ant-`
/// before `sk-`.
pub(super) static PREFIXED_TOKENS: [PrefixedToken; 107] = {
    use Alphabet::{Alphanumeric, Capitals, Credential, Dotted, Hex, Path, Token};
    [
        token("AKIA", AwsAccessKey, Capitals, 16).fixed_len(),
        token("ASIA", AwsAccessKey, Capitals, 16).fixed_len(),
        token("ABIA", AwsAccessKey, Capitals, 16).fixed_len(),
        token("ACCA", AwsAccessKey, Capitals, 16).fixed_len(),
        token("AIza", GoogleApiKey, Token, 35).mixed(),
        token("ya29.", GoogleOauth, Dotted, 20).mixed(),
        token("GOCSPX-", GoogleOauth, Token, 20).mixed(),
        token("ghp_", GithubToken, Alphanumeric, 30),
        token("gho_", GithubToken, Alphanumeric, 30),
        token("ghu_", GithubToken, Alphanumeric, 30),
        token("ghs_", GithubToken, Alphanumeric, 30),
        token("ghr_", GithubToken, Alphanumeric, 30),
        token("github_pat_", GithubToken, Token, 22).mixed(),
        token("glpat-", GitlabToken, Dotted, 20).mixed(),
        token("gldt-", GitlabToken, Token, 20).mixed(),
        token("glrt-", GitlabToken, Dotted, 20).mixed(),
        token("glrtr-", GitlabToken, Dotted, 20).mixed(),
        token("glcbt-", GitlabToken, Token, 20).mixed(),
        token("glptt-", GitlabToken, Token, 20).mixed(),
        token("glft-", GitlabToken, Token, 20).mixed(),
        token("glimt-", GitlabToken, Token, 20).mixed(),
        token("glagent-", GitlabToken, Token, 20).mixed(),
        token("gloas-", GitlabToken, Token, 20).mixed(),
        token("glsoat-", GitlabToken, Token, 20).mixed(),
        token("glffct-", GitlabToken, Token, 20).mixed(),
        token("sk-ant-", AnthropicKey, Token, 20).mixed(),
        token("sk-or-", OpenrouterKey, Token, 20).mixed(),
        token("sk-proj-", OpenaiKey, Token, 20).mixed(),
        token("sk-svcacct-", OpenaiKey, Token, 20).mixed(),
        token("sk-admin-", OpenaiKey, Token, 20).mixed(),
        token("sk-None-", OpenaiKey, Token, 20).mixed(),
        token("sk-lf-", ServiceToken, Token, 20).mixed(),
        token("sk-", OpenaiKey, Alphanumeric, 20).mixed(),
        token("sess-", OpenaiKey, Alphanumeric, 30).mixed(),
        token("hf_", HuggingFaceToken, Alphanumeric, 30),
        token("api_org_", HuggingFaceToken, Alphanumeric, 30),
        token("gsk_", GroqKey, Alphanumeric, 30).mixed(),
        token("xai-", XaiKey, Alphanumeric, 30).mixed(),
        token("r8_", ReplicateToken, Alphanumeric, 30).mixed(),
        token("xoxb-", SlackToken, Token, 16).mixed(),
        token("xoxp-", SlackToken, Token, 16).mixed(),
        token("xoxa-", SlackToken, Token, 16).mixed(),
        token("xoxr-", SlackToken, Token, 16).mixed(),
        token("xoxs-", SlackToken, Token, 16).mixed(),
        token("xoxe-", SlackToken, Token, 16).mixed(),
        token("xoxc-", SlackToken, Token, 16).mixed(),
        token("xoxd-", SlackToken, Token, 16).mixed(),
        token("xapp-", SlackToken, Token, 20).mixed(),
        token("hooks.slack.com/services/", Webhook, Path, 20).mixed().keeping_prefix(),
        token("hooks.slack.com/workflows/", Webhook, Path, 20).mixed().keeping_prefix(),
        token("hooks.slack.com/triggers/", Webhook, Path, 20).mixed().keeping_prefix(),
        token("discord.com/api/webhooks/", Webhook, Path, 40).mixed().keeping_prefix(),
        token("discordapp.com/api/webhooks/", Webhook, Path, 40).mixed().keeping_prefix(),
        token("sk_live_", StripeKey, Alphanumeric, 16),
        token("rk_live_", StripeKey, Alphanumeric, 16),
        token("sk_test_", StripeKey, Alphanumeric, 16),
        token("rk_test_", StripeKey, Alphanumeric, 16),
        token("whsec_", StripeKey, Credential, 24).mixed(),
        token("npm_", NpmToken, Alphanumeric, 30).mixed(),
        token("pypi-Ag", PypiToken, Token, 50).mixed(),
        token("dckr_pat_", DockerToken, Token, 20).mixed(),
        token("dckr_oat_", DockerToken, Token, 20).mixed(),
        token("cio", CratesToken, Alphanumeric, 32).mixed().fixed_len(),
        token("dop_v1_", DigitaloceanToken, Hex, 40),
        token("doo_v1_", DigitaloceanToken, Hex, 40),
        token("dor_v1_", DigitaloceanToken, Hex, 40),
        token("shpat_", ShopifyToken, Hex, 30),
        token("shpca_", ShopifyToken, Hex, 30),
        token("shppa_", ShopifyToken, Hex, 30),
        token("shpss_", ShopifyToken, Hex, 30),
        token("lin_api_", LinearKey, Alphanumeric, 30),
        token("lin_oauth_", LinearKey, Alphanumeric, 30),
        token("ntn_", NotionToken, Alphanumeric, 40).mixed(),
        token("secret_", NotionToken, Alphanumeric, 43).mixed().fixed_len(),
        token("Bearer ", Authorization, Credential, 20).with_digit().keeping_prefix(),
        token("bearer ", Authorization, Credential, 20).with_digit().keeping_prefix(),
        token("tvly-", ServiceToken, Token, 20).mixed(),
        token("pplx-", ServiceToken, Alphanumeric, 40),
        token("lsv2_pt_", ServiceToken, Token, 32).mixed(),
        token("lsv2_sk_", ServiceToken, Token, 32).mixed(),
        token("glsa_", ServiceToken, Token, 32).mixed(),
        token("glc_", ServiceToken, Credential, 60).mixed(),
        token("hvs.", ServiceToken, Token, 24).mixed(),
        token("hvb.", ServiceToken, Token, 24).mixed(),
        token("tskey-", ServiceToken, Token, 20).mixed(),
        token("dapi", ServiceToken, Hex, 32).fixed_len(),
        token("AGE-SECRET-KEY-1", ServiceToken, Capitals, 50),
        token("sbp_", ServiceToken, Hex, 40),
        token("ATATT3", ServiceToken, Credential, 50).mixed(),
        token("figd_", ServiceToken, Token, 30).mixed(),
        token("pscale_tkn_", ServiceToken, Dotted, 30).mixed(),
        token("pscale_pw_", ServiceToken, Dotted, 30).mixed(),
        token("pscale_oauth_", ServiceToken, Dotted, 30).mixed(),
        token("dp.pt.", ServiceToken, Alphanumeric, 40).mixed(),
        token("sntrys_", ServiceToken, Credential, 40).mixed(),
        token("sntryu_", ServiceToken, Hex, 60),
        token("PMAK-", ServiceToken, Token, 50).mixed(),
        token("NRAK-", ServiceToken, Capitals, 27),
        token("fo1_", ServiceToken, Token, 40).mixed(),
        token("pcsk_", ServiceToken, Token, 40).mixed(),
        token("e2b_", ServiceToken, Hex, 40),
        token("nvapi-", ServiceToken, Token, 40).mixed(),
        token("sgp_", ServiceToken, Hex, 40),
        token("xkeysib-", ServiceToken, Hex, 60),
        token("csk-", ServiceToken, Alphanumeric, 40).mixed(),
        token("jina_", ServiceToken, Alphanumeric, 40).mixed(),
        token("fw_", ServiceToken, Alphanumeric, 24).mixed().fixed_len(),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::testing::{assert_no_secret, redacted};

    /// The shortest text after this token's prefix that looks generated.
    fn body(token: &PrefixedToken) -> String {
        let bytes = if token.alphabet == Alphabet::Capitals { "A2B3C4D5E6" } else { "a2b3c4d5e6" };
        bytes.repeat(10).chars().take(token.min_len).collect()
    }

    #[test]
    fn every_prefixed_token_is_redacted() {
        for token in &PREFIXED_TOKENS {
            let text = format!("{}{}", token.prefix, body(token));
            let kept = if token.keeps_prefix { token.prefix } else { "" };
            let kind = token.kind;
            assert_eq!(
                redacted(&format!("(see {text}.)")),
                format!("(see {kept}[redacted:{kind}].)")
            );
            assert_eq!(
                redacted(&format!(r#"{{\"a\":\"\\n{text}\"}}"#)),
                format!(r#"{{\"a\":\"\\n{kept}[redacted:{kind}]\"}}"#)
            );
        }
    }

    #[test]
    fn text_that_is_too_short_or_not_generated_or_inside_a_word_is_no_token() {
        for token in &PREFIXED_TOKENS {
            let body = body(token);
            assert_no_secret(&format!("see {}{}", token.prefix, &body.get(1..).unwrap()));
            assert_no_secret(&format!("see {}{}", token.prefix, "x".repeat(token.min_len)));
            assert_no_secret(&format!("see {}{}", token.prefix, "some_word_".repeat(7)));
            if !token.keeps_prefix {
                assert_no_secret(&format!("see ab{}{body}", token.prefix));
            }
        }
    }

    #[test]
    fn a_token_of_fixed_length_is_not_found_in_longer_text() {
        for token in PREFIXED_TOKENS.iter().filter(|token| token.is_fixed_len) {
            let body = body(token);
            assert_no_secret(&format!("see {}{body}A", token.prefix));
            assert_no_secret(&format!("see {}{body}_", token.prefix));
        }
    }

    #[test]
    fn no_prefix_comes_before_a_longer_one_that_starts_with_it() {
        for (at, token) in PREFIXED_TOKENS.iter().enumerate() {
            let mut later = PREFIXED_TOKENS.iter().skip(at + 1);
            let longer = later.find(|other| other.prefix.starts_with(token.prefix));
            assert!(longer.is_none(), "{} comes before {longer:?}", token.prefix);
        }
    }
}
