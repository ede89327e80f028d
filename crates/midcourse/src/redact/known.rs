//! Tokens that are known by their beginning.
//!
//! A row says how a token begins, which bytes follow and how many at least. Two tokens with a
//! common beginning stand with the longer beginning first.

use super::anchor::KNOWN_BITS;
use super::shape::SecretShape::{self, *};
use super::sight::{Secret, Sight, count, count_back, in_token};

/// How much of a token is looked at to tell whether it looks like one.
const REACH: usize = 64;

/// The fewest bytes after a person's own prefix.
const OWN_BODY_MIN: usize = 8;

/// The bytes after a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    Letters,
    Capitals,
    Hex,
    Token,
    /// Several tokens with dots between them.
    Dotted,
    /// The end of an address.
    Path,
    /// Whatever a header may hold.
    Credential,
}

impl Alphabet {
    const fn has(self, byte: u8) -> bool {
        match self {
            Self::Letters => byte.is_ascii_alphanumeric(),
            Self::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Token => in_token(byte),
            Self::Dotted => in_token(byte) || byte == b'.',
            Self::Path => in_token(byte) || byte == b'/',
            Self::Credential => is_credential(byte),
        }
    }
}

/// Whether a byte may be part of a credential in a header.
pub(super) const fn is_credential(byte: u8) -> bool {
    in_token(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
}

/// What has to be seen of a token, besides its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// Nothing begins like this but a token.
    Any,
    /// Names of small letters begin like this: a digit or a capital tells.
    Mixed,
    /// Words begin like this: only a digit tells.
    Digit,
}

/// A token that is known by its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) prefix: &'static str,
    shape: SecretShape,
    alphabet: Alphabet,
    min: usize,
    looks: Looks,
    /// Every token has the same length.
    is_exact: bool,
    /// The prefix says where the token is from, and is no part of it.
    keeps_prefix: bool,
}

const fn token(prefix: &'static str, shape: SecretShape, alphabet: Alphabet, min: usize) -> Known {
    Known { prefix, shape, alphabet, min, looks: Looks::Any, is_exact: false, keeps_prefix: false }
}

impl Known {
    const fn mixed(self) -> Self {
        Self { looks: Looks::Mixed, ..self }
    }

    const fn with_digit(self) -> Self {
        Self { looks: Looks::Digit, ..self }
    }

    const fn exact(self) -> Self {
        Self { is_exact: true, ..self }
    }

    const fn behind_prefix(self) -> Self {
        Self { keeps_prefix: true, ..self }
    }

    fn find(&self, sight: Sight<'_>, start: usize) -> Option<Secret> {
        if !sight.ahead(start).starts_with(self.prefix.as_bytes()) {
            return None;
        }
        let body_start = start + self.prefix.len();
        let body = sight.head(body_start, self.min.max(REACH));
        let length = count(body, |byte| self.alphabet.has(byte));
        let head = body.get(..length).unwrap_or_default();
        if length < self.min || !looks_made_up(head, self.looks) {
            return None;
        }
        let mut length = count(sight.ahead(body_start), |byte| self.alphabet.has(byte));
        if self.is_exact {
            let is_longer = sight.byte(body_start + length).is_some_and(in_token);
            if length != self.min || is_longer {
                return None;
            }
        } else if self.alphabet != Alphabet::Path {
            // The rest of a token whose first part is of letters: nothing of it is to stay.
            length += count(sight.ahead(body_start + length), in_token);
        }
        let start = if self.keeps_prefix { body_start } else { start };
        let end = without_full_stop(sight, body_start, body_start + length);
        Some(Secret { start, end, shape: self.shape })
    }
}

/// The end of a token without the dots of the sentence it stands in.
fn without_full_stop(sight: Sight<'_>, start: usize, end: usize) -> usize {
    let token = sight.head(start, end - start);
    end - count_back(token, |byte| byte == b'.')
}

/// Whether a token's body looks like a machine made it: no `xxxx`, and no words where words may be.
fn looks_made_up(body: &[u8], looks: Looks) -> bool {
    let has = |kind: fn(&u8) -> bool| body.iter().any(kind);
    let has_digit = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let is_made = match looks {
        Looks::Any => true,
        Looks::Mixed => has_digit || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase),
        Looks::Digit => has_digit,
    };
    is_made && distinct(body) > 4
}

/// How many different bytes there are.
pub(super) fn distinct(bytes: &[u8]) -> u32 {
    let set = bytes.iter().fold(0_u128, |set, byte| set | 1 << (byte & 0x7f));
    set.count_ones()
}

/// The known token that begins at `start`, by the bit of its anchor.
pub(super) fn find_known(sight: Sight<'_>, start: usize, bit: usize) -> Option<Secret> {
    KNOWN.iter().skip(bit).step_by(KNOWN_BITS as usize).find_map(|known| known.find(sight, start))
}

/// The token at `start` that begins with a person's own prefix.
pub(super) fn find_own(sight: Sight<'_>, start: usize, prefixes: &[String]) -> Option<Secret> {
    let is_token = |prefix: &&String| {
        let body = start + prefix.len();
        sight.ahead(start).starts_with(prefix.as_bytes())
            && count(sight.head(body, OWN_BODY_MIN), in_token) == OWN_BODY_MIN
    };
    prefixes.iter().find(is_token)?;
    let end = start + count(sight.ahead(start), in_token);
    Some(Secret { start, end, shape: OwnPrefix })
}

/// All of them.
pub(super) static KNOWN: [Known; 107] = {
    use Alphabet::{Capitals, Credential, Dotted, Hex, Letters, Path, Token};
    [
        token("AKIA", AwsAccessKey, Capitals, 16).exact(),
        token("ASIA", AwsAccessKey, Capitals, 16).exact(),
        token("ABIA", AwsAccessKey, Capitals, 16).exact(),
        token("ACCA", AwsAccessKey, Capitals, 16).exact(),
        token("AIza", GoogleApiKey, Token, 35).mixed(),
        token("ya29.", GoogleOauth, Dotted, 20).mixed(),
        token("GOCSPX-", GoogleOauth, Token, 20).mixed(),
        token("ghp_", GithubToken, Letters, 30),
        token("gho_", GithubToken, Letters, 30),
        token("ghu_", GithubToken, Letters, 30),
        token("ghs_", GithubToken, Letters, 30),
        token("ghr_", GithubToken, Letters, 30),
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
        token("sk-", OpenaiKey, Letters, 20).mixed(),
        token("sess-", OpenaiKey, Letters, 30).mixed(),
        token("hf_", HuggingFaceToken, Letters, 30),
        token("api_org_", HuggingFaceToken, Letters, 30),
        token("gsk_", GroqKey, Letters, 30).mixed(),
        token("xai-", XaiKey, Letters, 30).mixed(),
        token("r8_", ReplicateToken, Letters, 30).mixed(),
        token("xoxb-", SlackToken, Token, 16).mixed(),
        token("xoxp-", SlackToken, Token, 16).mixed(),
        token("xoxa-", SlackToken, Token, 16).mixed(),
        token("xoxr-", SlackToken, Token, 16).mixed(),
        token("xoxs-", SlackToken, Token, 16).mixed(),
        token("xoxe-", SlackToken, Token, 16).mixed(),
        token("xoxc-", SlackToken, Token, 16).mixed(),
        token("xoxd-", SlackToken, Token, 16).mixed(),
        token("xapp-", SlackToken, Token, 20).mixed(),
        token("hooks.slack.com/services/", Webhook, Path, 20).mixed().behind_prefix(),
        token("hooks.slack.com/workflows/", Webhook, Path, 20).mixed().behind_prefix(),
        token("hooks.slack.com/triggers/", Webhook, Path, 20).mixed().behind_prefix(),
        token("discord.com/api/webhooks/", Webhook, Path, 40).mixed().behind_prefix(),
        token("discordapp.com/api/webhooks/", Webhook, Path, 40).mixed().behind_prefix(),
        token("sk_live_", StripeKey, Letters, 16),
        token("rk_live_", StripeKey, Letters, 16),
        token("sk_test_", StripeKey, Letters, 16),
        token("rk_test_", StripeKey, Letters, 16),
        token("whsec_", StripeKey, Credential, 24).mixed(),
        token("npm_", NpmToken, Letters, 30).mixed(),
        token("pypi-Ag", PypiToken, Token, 50).mixed(),
        token("dckr_pat_", DockerToken, Token, 20).mixed(),
        token("dckr_oat_", DockerToken, Token, 20).mixed(),
        token("cio", CratesToken, Letters, 32).mixed().exact(),
        token("dop_v1_", DigitaloceanToken, Hex, 40),
        token("doo_v1_", DigitaloceanToken, Hex, 40),
        token("dor_v1_", DigitaloceanToken, Hex, 40),
        token("shpat_", ShopifyToken, Hex, 30),
        token("shpca_", ShopifyToken, Hex, 30),
        token("shppa_", ShopifyToken, Hex, 30),
        token("shpss_", ShopifyToken, Hex, 30),
        token("lin_api_", LinearKey, Letters, 30),
        token("lin_oauth_", LinearKey, Letters, 30),
        token("ntn_", NotionToken, Letters, 40).mixed(),
        token("secret_", NotionToken, Letters, 43).mixed().exact(),
        token("Bearer ", Authorization, Credential, 20).with_digit().behind_prefix(),
        token("bearer ", Authorization, Credential, 20).with_digit().behind_prefix(),
        token("tvly-", ServiceToken, Token, 20).mixed(),
        token("pplx-", ServiceToken, Letters, 40),
        token("lsv2_pt_", ServiceToken, Token, 32).mixed(),
        token("lsv2_sk_", ServiceToken, Token, 32).mixed(),
        token("glsa_", ServiceToken, Token, 32).mixed(),
        token("glc_", ServiceToken, Credential, 60).mixed(),
        token("hvs.", ServiceToken, Token, 24).mixed(),
        token("hvb.", ServiceToken, Token, 24).mixed(),
        token("tskey-", ServiceToken, Token, 20).mixed(),
        token("dapi", ServiceToken, Hex, 32).exact(),
        token("AGE-SECRET-KEY-1", ServiceToken, Capitals, 50),
        token("sbp_", ServiceToken, Hex, 40),
        token("ATATT3", ServiceToken, Credential, 50).mixed(),
        token("figd_", ServiceToken, Token, 30).mixed(),
        token("pscale_tkn_", ServiceToken, Dotted, 30).mixed(),
        token("pscale_pw_", ServiceToken, Dotted, 30).mixed(),
        token("pscale_oauth_", ServiceToken, Dotted, 30).mixed(),
        token("dp.pt.", ServiceToken, Letters, 40).mixed(),
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
        token("csk-", ServiceToken, Letters, 40).mixed(),
        token("jina_", ServiceToken, Letters, 40).mixed(),
        token("fw_", ServiceToken, Letters, 24).mixed().exact(),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::check::{gone, stays};

    /// A body that every alphabet has, and that looks made.
    fn body(known: &Known) -> String {
        let bytes = if known.alphabet == Alphabet::Capitals { "A2B3C4D5E6" } else { "a2b3c4d5e6" };
        bytes.repeat(10).chars().take(known.min).collect()
    }

    #[test]
    fn every_known_token_goes() {
        for known in &KNOWN {
            let token = format!("{}{}", known.prefix, body(known));
            let kept = if known.keeps_prefix { known.prefix } else { "" };
            let shape = known.shape;
            assert_eq!(
                gone(&format!("(see {token}.)")),
                format!("(see {kept}[redacted:{shape}].)")
            );
            assert_eq!(
                gone(&format!(r#"{{\"a\":\"\\n{token}\"}}"#)),
                format!(r#"{{\"a\":\"\\n{kept}[redacted:{shape}]\"}}"#)
            );
        }
    }

    #[test]
    fn a_token_that_is_too_short_or_in_a_word_stays() {
        for known in &KNOWN {
            let body = body(known);
            stays(&format!("see {}{}", known.prefix, &body.get(1..).unwrap()));
            stays(&format!("see {}{}", known.prefix, "x".repeat(known.min)));
            stays(&format!("see {}{}", known.prefix, "some_word_".repeat(7)));
            if !known.keeps_prefix {
                stays(&format!("see ab{}{body}", known.prefix));
            }
        }
    }

    #[test]
    fn a_token_of_one_length_is_never_longer() {
        for known in KNOWN.iter().filter(|known| known.is_exact) {
            let body = body(known);
            stays(&format!("see {}{body}A", known.prefix));
            stays(&format!("see {}{body}_", known.prefix));
        }
    }

    #[test]
    fn a_longer_beginning_comes_first() {
        for (at, known) in KNOWN.iter().enumerate() {
            let shadowed =
                KNOWN.iter().skip(at + 1).find(|other| other.prefix.starts_with(known.prefix));
            assert!(shadowed.is_none(), "{} is before {:?}", known.prefix, shadowed);
        }
    }
}
