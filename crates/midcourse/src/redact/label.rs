//! Labels: the name before a value, and what it says about the value.
//!
//! A label is the name of a variable, a field, a header, a flag or an XML element. Case and
//! separators do not matter: `db_password`, `DB-PASSWORD`, `dbPassword` and `"db.password"` are
//! equal. The end of the name decides: `db_password` is the label of a secret, `password_hint` is
//! not.

use super::bytes::{last_bytes, matching_suffix, suffix_len};
use super::view::View;

/// How many bytes at the end of a label are examined.
const MAX_LABEL_LEN: usize = 64;

/// A limit that is used twice: for the spaces between a label and the operator after it, and for
/// the backslashes before the quote that closes the label.
const MAX_GAP_LEN: usize = 8;

/// What kind of secret the value after a label may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LabelKind {
    Password,
    Token,
    AwsSecretKey,
    AzureKey,
    Authorization,
    ApiKeyHeader,
    /// The signature in a signed URL: `?sig=…`.
    Signature,
    Cookie,
    SetCookie,
    /// `user:password` in Base64.
    EncodedLogin,
    /// A label such as `credentials`, whose value is often the name or path of a secret.
    Credentials,
    /// A label that ends in `_KEY`, such as `STRIPE_KEY`. It does not say what the key is for, so
    /// the value counts as a secret only in a shell assignment: `STRIPE_KEY=…`.
    OtherKey,
}

/// How labels end, in lower case and without separators. The first entry that matches decides;
/// `None` means that the value is not a secret.
const LABEL_ENDS: &[(&[u8], Option<LabelKind>)] = &[
    (b"authorization", Some(LabelKind::Authorization)),
    (b"password", Some(LabelKind::Password)),
    (b"passwd", Some(LabelKind::Password)),
    (b"passphrase", Some(LabelKind::Password)),
    (b"pwd", Some(LabelKind::Password)),
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
    (b"xauthtoken", Some(LabelKind::ApiKeyHeader)),
    (b"token", Some(LabelKind::Token)),
    (b"secret", Some(LabelKind::Token)),
    (b"credential", Some(LabelKind::Credentials)),
    (b"credentials", Some(LabelKind::Credentials)),
    (b"secretaccesskey", Some(LabelKind::AwsSecretKey)),
    (b"awssecretkey", Some(LabelKind::AwsSecretKey)),
    (b"sharedaccesskey", Some(LabelKind::AzureKey)),
    (b"accountkey", Some(LabelKind::AzureKey)),
    (b"xapikey", Some(LabelKind::ApiKeyHeader)),
    (b"xgoogapikey", Some(LabelKind::ApiKeyHeader)),
    (b"subscriptionkey", Some(LabelKind::ApiKeyHeader)),
    (b"apikey", Some(LabelKind::Token)),
    (b"secretkey", Some(LabelKind::Token)),
    (b"accesskey", Some(LabelKind::Token)),
    (b"privatekey", Some(LabelKind::Token)),
    (b"authkey", Some(LabelKind::Token)),
    (b"encryptionkey", Some(LabelKind::Token)),
    (b"signingkey", Some(LabelKind::Token)),
    (b"masterkey", Some(LabelKind::Token)),
    (b"secretkeybase", Some(LabelKind::Token)),
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

/// The last two bytes, in lower case, of every label for which `label_kind` returns a kind.
const LAST_TWO_BYTES: [&[u8; 2]; 13] =
    [b"al", b"en", b"et", b"ey", b"ie", b"ig", b"ls", b"on", b"rd", b"se", b"ss", b"th", b"wd"];

#[derive(Debug, Clone, Copy)]
pub(super) struct Label<'a> {
    pub(super) name: &'a [u8],
    /// The text before the label, back to the end of the last secret that was found.
    pub(super) before: &'a [u8],
    /// Whether there is space between the label and the operator.
    pub(super) is_spaced: bool,
}

impl<'a> Label<'a> {
    /// The label that ends before the `=`, `:` or `>` at `operator`.
    pub(super) fn before_operator(view: View<'a>, operator: usize) -> Option<Self> {
        let before = view.before(operator);
        // The operator may be the second byte of `:=`.
        let before = before.strip_suffix(b":").unwrap_or(before);
        let is_space = |byte| matches!(byte, b' ' | b'\t');
        let spaces = suffix_len(last_bytes(before, MAX_GAP_LEN), is_space);
        let before = without_quote(before.get(..before.len() - spaces)?);
        let name = matching_suffix(before, MAX_LABEL_LEN, is_label_byte);
        // In `\nDB_PASSWORD`, the `n` is part of the escape sequence `\n`.
        let is_escaped = before.get(..before.len() - name.len())?.ends_with(b"\\");
        let name = match name {
            [b'n' | b't' | b'r', rest @ ..] if is_escaped && !rest.is_empty() => rest,
            name => name,
        };
        let before = before.get(..before.len() - name.len())?;
        (!name.is_empty()).then_some(Self { name, before, is_spaced: spaces > 0 })
    }

    /// The name of a field, treated as a label before the field's value.
    pub(super) fn of_field(name: &'a str) -> Self {
        Self { name: last_bytes(name.as_bytes(), MAX_LABEL_LEN), before: b"", is_spaced: false }
    }

    pub(super) fn kind(&self) -> Option<LabelKind> {
        label_kind(self.name)
    }

    /// Whether a shell would read the label as the start of a word, as in `A=1 PGPASSWORD=…`.
    pub(super) fn starts_word(&self) -> bool {
        match self.before {
            [] | [.., b'\\', b'n' | b't' | b'r'] => true,
            [.., last] => last.is_ascii_whitespace() || b"\"'`;(".contains(last),
        }
    }

    /// Whether the label is only `secret`, which is often followed by the name of an object:
    /// `secret: my-tls`.
    pub(super) fn is_just_secret(&self) -> bool {
        self.name.eq_ignore_ascii_case(b"secret")
    }

    /// Whether the label looks like the name of an environment variable.
    pub(super) fn is_environment_variable(&self) -> bool {
        let is_variable_byte = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
        self.name.len() > 2 && self.name.iter().all(is_variable_byte)
    }
}

/// What kind of secret a value with this name may be; `None` if the name is not the label of a
/// secret.
pub(super) fn label_kind(name: &[u8]) -> Option<LabelKind> {
    // Most labels in a text are not for secrets. The last two bytes are a cheap test that rejects
    // most of these.
    let [.., second_last, last] = name else { return None };
    let last_two = [second_last.to_ascii_lowercase(), last.to_ascii_lowercase()];
    if !LAST_TWO_BYTES.contains(&&last_two) {
        return None;
    }
    let mut normal = [0_u8; MAX_LABEL_LEN];
    let mut len = 0;
    let without_separators = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
    for (target, byte) in normal.iter_mut().zip(without_separators) {
        *target = byte.to_ascii_lowercase();
        len += 1;
    }
    let normal = normal.get(..len)?;
    if let Some((_, kind)) = LABEL_ENDS.iter().find(|(end, _)| normal.ends_with(end)) {
        // `api-key` is a header, `api_key` a variable.
        let is_header = normal == b"apikey" && name.contains(&b'-');
        return if is_header { Some(LabelKind::ApiKeyHeader) } else { *kind };
    }
    let has_separator_before_pass = matches!(name, [.., b'_' | b'-' | b'.', b'p' | b'P', _, _, _]);
    match normal {
        b"pass" => Some(LabelKind::Password),
        [.., b'p', b'a', b's', b's'] if has_separator_before_pass => Some(LabelKind::Password),
        b"sig" => Some(LabelKind::Signature),
        b"cookie" => Some(LabelKind::Cookie),
        b"setcookie" => Some(LabelKind::SetCookie),
        b"auth" => Some(LabelKind::EncodedLogin),
        [.., b'k', b'e', b'y'] if name.ends_with(b"_KEY") => Some(LabelKind::OtherKey),
        _ => None,
    }
}

/// The text without a closing quote, which may be escaped or followed by `]`: `env["KEY"]`.
fn without_quote(text: &[u8]) -> &[u8] {
    let inside = text.strip_suffix(b"]").unwrap_or(text);
    let Some((b'"' | b'\'' | b'`', text)) = inside.split_last() else { return text };
    let escapes = suffix_len(last_bytes(text, MAX_GAP_LEN), |byte| byte == b'\\');
    text.get(..text.len() - escapes).unwrap_or_default()
}

const fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_decides_its_kind() {
        for name in
            ["password", "DB_PASSWORD", "dbPassword", "spring.datasource.password", "db_pass"]
        {
            assert_eq!(label_kind(name.as_bytes()), Some(LabelKind::Password), "{name}");
        }
        for name in
            ["token", "--auth-token", "clientSecret", "API_KEY", "apikey", "secret_key_base"]
        {
            assert_eq!(label_kind(name.as_bytes()), Some(LabelKind::Token), "{name}");
        }
        for name in
            ["password_hint", "tokens", "nextPageToken", "public_key", "monkey", "compass", "key"]
        {
            assert_eq!(label_kind(name.as_bytes()), None, "{name}");
        }
        assert_eq!(label_kind(b"STRIPE_KEY"), Some(LabelKind::OtherKey));
        for name in ["SSH_PUBLIC_KEY", "PRIMARY_KEY", "CACHE_KEY", "S3_KEY", "EOS_TOKEN", "oauth"] {
            assert_eq!(label_kind(name.as_bytes()), None, "{name}");
        }
        assert_eq!(label_kind(b"x-api-key"), Some(LabelKind::ApiKeyHeader));
    }

    #[test]
    fn a_label_is_found_in_quotes_and_after_escape_sequences() {
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
            let label = Label::before_operator(View::new(text.as_bytes(), 0), text.len());
            assert_eq!(label.map(|label| label.name), Some(b"token".as_slice()), "{text}");
        }
        assert!(Label::before_operator(View::new(b"a[b]", 0), 4).is_none());
        assert!(Label::before_operator(View::new(b"token", 5), 5).is_none());
    }
}
