//! Labels: what the name before a value says about it.
//!
//! `db_password`, `DB-PASSWORD`, `dbPassword` and `"db.password"` are the same label. Only its end
//! counts: `password_hint` is no password, and a `public_key` no secret.

use super::sight::{Sight, count_back};

/// The longest label; the end of a longer one is looked at.
const LABEL_MAX: usize = 64;

/// The most spaces between a label and what follows it.
const SPACES_MAX: usize = 8;

/// What a label says that its value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    Password,
    Token,
    AwsSecretKey,
    AzureKey,
    Authorization,
    ApiKeyHeader,
    /// The signature of a signed address.
    Signature,
    Cookie,
    SetCookie,
    /// A user and a password, encoded.
    Login,
    /// Often the name of a place to find one.
    Credentials,
    /// Some key: only an environment variable's is secret often enough.
    SomeKey,
}

/// How labels end, without what joins their words. The first that fits decides.
const ENDS: &[(&[u8], Option<Claim>)] = &[
    (b"authorization", Some(Claim::Authorization)),
    (b"password", Some(Claim::Password)),
    (b"passwd", Some(Claim::Password)),
    (b"passphrase", Some(Claim::Password)),
    (b"pwd", Some(Claim::Password)),
    (b"pagetoken", None),
    (b"nexttoken", None),
    (b"continuationtoken", None),
    (b"synctoken", None),
    (b"resumetoken", None),
    (b"requesttoken", None),
    (b"changetoken", None),
    (b"actiontoken", None),
    (b"updatetoken", None),
    (b"idempotencytoken", None),
    (b"padtoken", None),
    (b"eostoken", None),
    (b"bostoken", None),
    (b"unktoken", None),
    (b"septoken", None),
    (b"clstoken", None),
    (b"masktoken", None),
    (b"stoptoken", None),
    (b"xauthtoken", Some(Claim::ApiKeyHeader)),
    (b"token", Some(Claim::Token)),
    (b"secret", Some(Claim::Token)),
    (b"credential", Some(Claim::Credentials)),
    (b"credentials", Some(Claim::Credentials)),
    (b"secretaccesskey", Some(Claim::AwsSecretKey)),
    (b"awssecretkey", Some(Claim::AwsSecretKey)),
    (b"sharedaccesskey", Some(Claim::AzureKey)),
    (b"accountkey", Some(Claim::AzureKey)),
    (b"xapikey", Some(Claim::ApiKeyHeader)),
    (b"xgoogapikey", Some(Claim::ApiKeyHeader)),
    (b"subscriptionkey", Some(Claim::ApiKeyHeader)),
    (b"apikey", Some(Claim::Token)),
    (b"secretkey", Some(Claim::Token)),
    (b"accesskey", Some(Claim::Token)),
    (b"privatekey", Some(Claim::Token)),
    (b"authkey", Some(Claim::Token)),
    (b"encryptionkey", Some(Claim::Token)),
    (b"signingkey", Some(Claim::Token)),
    (b"masterkey", Some(Claim::Token)),
    (b"secretkeybase", Some(Claim::Token)),
    (b"publickey", None),
    (b"primarykey", None),
    (b"foreignkey", None),
    (b"cachekey", None),
    (b"sortkey", None),
    (b"partitionkey", None),
    (b"hashkey", None),
    (b"rangekey", None),
    (b"routingkey", None),
    (b"objectkey", None),
    (b"s3key", None),
    (b"storagekey", None),
    (b"lookupkey", None),
    (b"groupkey", None),
    (b"idempotencykey", None),
];

/// The last two bytes of every label that says something.
const LAST_TWO: [&[u8; 2]; 13] =
    [b"al", b"en", b"et", b"ey", b"ie", b"ig", b"ls", b"on", b"rd", b"se", b"ss", b"th", b"wd"];

/// The name before a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label<'a> {
    pub(super) name: &'a [u8],
    /// The bytes before the name.
    pub(super) behind: &'a [u8],
    /// Whether there is space behind it.
    pub(super) is_spaced: bool,
}

impl<'a> Label<'a> {
    /// The label that ends before the `=`, `:` or `>` at `operator`.
    pub(super) fn before(sight: Sight<'a>, operator: usize) -> Option<Self> {
        let behind = sight.behind(operator);
        // Two operators of two bytes each end in one of these.
        let behind = behind.strip_suffix(b":").unwrap_or(behind);
        let spaces = count_back(last(behind, SPACES_MAX + 1), |byte| matches!(byte, b' ' | b'\t'));
        let behind = behind.get(..behind.len() - spaces.min(SPACES_MAX))?;
        let behind = without_quote(behind);
        let name = last(behind, LABEL_MAX);
        let name = last(name, count_back(name, in_label));
        // The `n` of `\nDB_PASSWORD` is no part of it.
        let is_escape = behind.len() > name.len()
            && behind.get(behind.len() - name.len() - 1) == Some(&b'\\')
            && matches!(name, [b'n' | b't' | b'r', _, ..]);
        let name = if is_escape { name.get(1..)? } else { name };
        let behind = behind.get(..behind.len() - name.len())?;
        (!name.is_empty()).then_some(Self { name, behind, is_spaced: spaces > 0 })
    }

    /// The label of a field of that name.
    pub(super) fn of_field(name: &'a str) -> Self {
        Self { name: last(name.as_bytes(), LABEL_MAX), behind: b"", is_spaced: false }
    }

    /// What the label says, if it says that its value is a secret.
    pub(super) fn claim(&self) -> Option<Claim> {
        claim_of(self.name)
    }

    /// Whether it is where a shell takes a variable's name.
    pub(super) fn begins_word(&self) -> bool {
        match self.behind {
            [] | [.., b'\\', b'n' | b't' | b'r'] => true,
            [.., last] => last.is_ascii_whitespace() || b"\"'`;(".contains(last),
        }
    }

    /// Whether it names the place of a secret rather than the secret.
    pub(super) fn is_bare_secret(&self) -> bool {
        self.name.eq_ignore_ascii_case(b"secret")
    }

    /// Whether it looks like a variable of an environment.
    pub(super) fn is_variable(&self) -> bool {
        let is_capital = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
        self.name.len() > 2 && self.name.iter().all(is_capital)
    }
}

/// What a name says about its value.
pub(super) fn claim_of(name: &[u8]) -> Option<Claim> {
    // Most names end otherwise, and this is asked for every one of them.
    let [.., before, end] = name else { return None };
    let ends = [before.to_ascii_lowercase(), end.to_ascii_lowercase()];
    if !LAST_TWO.contains(&&ends) {
        return None;
    }
    let mut plain = [0_u8; LABEL_MAX];
    let mut length = 0;
    let joined = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
    for (place, byte) in plain.iter_mut().zip(joined) {
        *place = byte.to_ascii_lowercase();
        length += 1;
    }
    let plain = plain.get(..length)?;
    if let Some((_, claim)) = ENDS.iter().find(|(end, _)| plain.ends_with(end)) {
        // A header's name: `api-key: …`.
        let is_header = plain == b"apikey" && name.contains(&b'-');
        return if is_header { Some(Claim::ApiKeyHeader) } else { *claim };
    }
    let is_pass = matches!(name, [.., b'_' | b'-' | b'.', b'p' | b'P', _, _, _]);
    match plain {
        b"pass" => Some(Claim::Password),
        [.., b'p', b'a', b's', b's'] if is_pass => Some(Claim::Password),
        b"sig" => Some(Claim::Signature),
        b"cookie" => Some(Claim::Cookie),
        b"setcookie" => Some(Claim::SetCookie),
        b"auth" => Some(Claim::Login),
        [.., b'k', b'e', b'y'] if name.ends_with(b"_KEY") => Some(Claim::SomeKey),
        _ => None,
    }
}

/// What is before a quote at the end, which may be escaped, and before an index: `env["KEY"]`.
fn without_quote(text: &[u8]) -> &[u8] {
    let inside = text.strip_suffix(b"]").unwrap_or(text);
    let Some((b'"' | b'\'' | b'`', text)) = inside.split_last() else { return text };
    let escapes = count_back(last(text, SPACES_MAX), |byte| byte == b'\\');
    text.get(..text.len() - escapes).unwrap_or_default()
}

fn last(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(length)..).unwrap_or_default()
}

const fn in_label(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_name_counts() {
        for name in
            ["password", "DB_PASSWORD", "dbPassword", "spring.datasource.password", "db_pass"]
        {
            assert_eq!(claim_of(name.as_bytes()), Some(Claim::Password), "{name}");
        }
        for name in
            ["token", "--auth-token", "clientSecret", "API_KEY", "apikey", "secret_key_base"]
        {
            assert_eq!(claim_of(name.as_bytes()), Some(Claim::Token), "{name}");
        }
        for name in
            ["password_hint", "tokens", "nextPageToken", "public_key", "monkey", "compass", "key"]
        {
            assert_eq!(claim_of(name.as_bytes()), None, "{name}");
        }
        assert_eq!(claim_of(b"STRIPE_KEY"), Some(Claim::SomeKey));
        for name in ["SSH_PUBLIC_KEY", "PRIMARY_KEY", "CACHE_KEY", "S3_KEY", "EOS_TOKEN", "oauth"] {
            assert_eq!(claim_of(name.as_bytes()), None, "{name}");
        }
        assert_eq!(claim_of(b"x-api-key"), Some(Claim::ApiKeyHeader));
    }

    #[test]
    fn a_label_is_found_in_its_quotes() {
        for text in [
            "token",
            "token ",
            "\"token\" ",
            r#"\"token\""#,
            "env['token']",
            "token:",
            "{token",
            r"\ntoken",
        ] {
            let label = Label::before(Sight::new(text.as_bytes(), 0), text.len());
            assert_eq!(label.map(|label| label.name), Some(b"token".as_slice()), "{text}");
        }
        assert!(Label::before(Sight::new(b"a[b]", 0), 4).is_none());
        assert!(Label::before(Sight::new(b"token", 5), 5).is_none());
    }
}
