//! Labels: the name before a value, and what it says about the value.
//!
//! A label is the name of a variable, a field, a header, a flag or an XML element. Case and
//! separators do not matter: `db_password`, `DB-PASSWORD`, `dbPassword` and `"db.password"` are
//! equal. The end of the name decides: `db_password` is the label of a secret, `password_hint` is
//! not.

use super::bytes::{examine, last_bytes, matching_suffix, prefix_len, suffix_len};
use super::view::View;

/// How many bytes at the end of a label are examined.
const MAX_LABEL_LEN: usize = 64;

/// A limit that is used twice: for the spaces between a label and the operator after it, and for
/// the backslashes before the quote that closes the label.
const MAX_GAP_LEN: usize = 8;

/// The longest text before the first label of a line, in bytes.
const MAX_LINE_START_LEN: usize = 80;

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
    (b"passcode", Some(LabelKind::Password)),
    (b"pwd", Some(LabelKind::Password)),
    (b"psw", Some(LabelKind::Password)),
    (b"bindpw", Some(LabelKind::Password)),
    (b"rootpw", Some(LabelKind::Password)),
    (b"storepass", Some(LabelKind::Password)),
    (b"keypass", Some(LabelKind::Password)),
    (b"requirepass", Some(LabelKind::Password)),
    (b"dbpass", Some(LabelKind::Password)),
    (b"userpass", Some(LabelKind::Password)),
    (b"rootpass", Some(LabelKind::Password)),
    (b"adminpass", Some(LabelKind::Password)),
    (b"smtppass", Some(LabelKind::Password)),
    (b"ftppass", Some(LabelKind::Password)),
    (b"sqlpass", Some(LabelKind::Password)),
    (b"sshpass", Some(LabelKind::Password)),
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
    (b"githuboauth", Some(LabelKind::Token)),
    (b"gitlaboauth", Some(LabelKind::Token)),
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
    (b"clientkey", Some(LabelKind::Token)),
    (b"consumerkey", Some(LabelKind::Token)),
    (b"sharedkey", Some(LabelKind::Token)),
    (b"presharedkey", Some(LabelKind::Token)),
    (b"licensekey", Some(LabelKind::Token)),
    (b"applicationkey", Some(LabelKind::Token)),
    (b"sessionkey", Some(LabelKind::Token)),
    (b"functionkey", Some(LabelKind::Token)),
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

/// Names of encodings at the end of a label: `password_base64`.
const ENCODINGS: [&[u8]; 3] = [b"base64", b"b64", b"encoded"];

/// The last two bytes, in lower case, of every label for which `label_kind` returns a kind, and of
/// the names for which a rule looks for another label, such as `value`.
const LAST_TWO_BYTES: [&[u8; 2]; 25] = [
    b"64", b"al", b"at", b"de", b"ed", b"en", b"er", b"et", b"ey", b"ie", b"ig", b"ls", b"lt",
    b"ng", b"on", b"pw", b"rd", b"re", b"se", b"sk", b"ss", b"sw", b"th", b"ue", b"wd",
];

/// `LAST_TWO_BYTES` as a table: for each last byte, a set of the bytes before it.
#[expect(clippy::indexing_slicing, reason = "the table has an entry for every ASCII byte")]
const LAST_BYTES: [u64; 128] = {
    let mut table = [0; 128];
    let mut rest = LAST_TWO_BYTES.as_slice();
    while let [[second_last, last], others @ ..] = rest {
        table[*last as usize] |= 1_u64 << (*second_last & 63);
        rest = others;
    }
    table
};

/// Whether the end of a name may be that of a label. This is a cheap test that rejects most names.
fn may_be_label(name: &[u8]) -> bool {
    let [.., second_last, last] = name else { return false };
    let last = LAST_BYTES.get(usize::from(last.to_ascii_lowercase())).copied().unwrap_or_default();
    last & 1 << (second_last.to_ascii_lowercase() & 63) != 0
}

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
        let before = without_colour(before.get(..before.len() - spaces)?);
        let before = without_quote(before);
        // Markdown: `**API key**: …`.
        let before = before.strip_suffix(b"**").unwrap_or(before);
        let name = matching_suffix(before, MAX_LABEL_LEN, is_label_byte);
        // In `\nDB_PASSWORD`, the `n` is part of the escape sequence `\n`.
        let is_escaped = before.get(..before.len() - name.len())?.ends_with(b"\\");
        let name = match name {
            [b'n' | b't' | b'r', rest @ ..] if is_escaped && !rest.is_empty() => rest,
            name => name,
        };
        let name = with_word_before(name, before);
        let before = before.get(..before.len() - name.len())?;
        (!name.is_empty()).then_some(Self { name, before, is_spaced: spaces > 0 })
    }

    /// Whether the label may be that of a secret, or one for which another name counts. Cheap.
    pub(super) fn may_matter(&self) -> bool {
        may_be_label(without_version(self.name))
            || matches!(self.before, [.., b'{', b'"' | b' ']) && self.name.contains(&b'.')
    }

    /// The name of the XML element whose start tag ends with the `>` at `operator`.
    pub(super) fn of_element(view: View<'a>, operator: usize) -> Option<Self> {
        let before = view.before(operator);
        // The arrows `->` and `=>` are more frequent than tags.
        if matches!(before, [.., b'-' | b'=' | b' ' | b'/']) {
            return None;
        }
        let near = last_bytes(before, MAX_LABEL_LEN * 2);
        let open = memchr::memrchr(b'<', near)? + 1;
        examine(near.len() - open);
        let tag = near.get(open..)?;
        let name = tag.get(..prefix_len(tag, |byte| is_label_byte(byte) || byte == b':'))?;
        let name = name_attribute(tag).unwrap_or(name);
        let is_tag = name.len() == tag.len() || tag.contains(&b' ');
        let before = before.get(..before.len() - near.len() + open)?;
        let name = name.rsplit(|byte| *byte == b':').next().unwrap_or(name);
        (!name.is_empty() && is_tag).then_some(Self { name, before, is_spaced: false })
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

    /// Whether the label is the first thing on its line, apart from what tools put there: line
    /// numbers, the signs of a diff, a file name before a match.
    pub(super) fn starts_line(&self) -> bool {
        let before = last_bytes(self.before, MAX_LINE_START_LEN + 1);
        // A string or a colour starts here.
        if matches!(
            before,
            [.., b':' | b',' | b'[' | b'(' | b'=' | b' ', b'"' | b'\''] | [.., b'\x1b', b'[']
        ) {
            return true;
        }
        if matches!(before, [.., b':' | b' ' | b',' | b'[', b'\\', b'"']) {
            return true;
        }
        let before = before.strip_suffix(b"\"").unwrap_or(before);
        let is_end = |pair: &[u8]| matches!(pair, [b'\n', _] | [b'\\', b'n']);
        let line = match before {
            [.., b'\n'] => b"".as_slice(),
            _ => match before.windows(2).rposition(is_end) {
                Some(at) if before.get(at) == Some(&b'\n') => {
                    before.get(at + 1..).unwrap_or_default()
                }
                Some(at) => before.get(at + 2..).unwrap_or_default(),
                None => before,
            },
        };
        examine(before.len());
        let words =
            || line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        line.len() <= MAX_LINE_START_LEN && words().count() < 5 && words().all(is_line_start_word)
    }

    /// Whether the label stands alone, like the names in a log line: `user=me password=…`.
    pub(super) fn is_separate_word(&self) -> bool {
        match self.before {
            [] => true,
            [.., last] => last.is_ascii_whitespace() || *last == b',',
        }
    }

    /// Whether a colon before the label belongs to it or to the line, and does not make it the last
    /// part of a longer name.
    pub(super) fn follows_line_colon(&self) -> bool {
        let Some(before) = self.before.strip_suffix(b":") else { return true };
        // npm writes `//registry/:_authToken=…`; RubyGems writes `:rubygems_api_key: …`.
        self.name.starts_with(b"_")
            || before.ends_with(b"$env")
            || before.last().is_none_or(|byte| byte.is_ascii_whitespace() || b"({[,".contains(byte))
            || self.starts_line()
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
    let name = without_version(name);
    if !may_be_label(name) {
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
    let normal = ENCODINGS.iter().find_map(|end| normal.strip_suffix(*end)).unwrap_or(normal);
    let last_two = last_bytes(normal, 2);
    let is_end = |(end, _): &&(&[u8], _)| {
        matches!((*end, last_two), ([.., a, b], [c, d]) if a == c && b == d)
            && normal.ends_with(end)
    };
    if let Some((_, kind)) = LABEL_ENDS.iter().find(is_end) {
        // `api-key` is a header, `api_key` a variable.
        let is_header = normal == b"apikey" && name.contains(&b'-');
        return if is_header { Some(LabelKind::ApiKeyHeader) } else { *kind };
    }
    let has_separator_before_pass = matches!(
        name,
        [.., b'_' | b'-' | b'.', b'p' | b'P', _, _, _] | [.., b'a'..=b'z', b'P', b'a', _, _]
    );
    let has_separator_before_pw = matches!(name, [.., b'_' | b'-' | b'.', b'p' | b'P', _]);
    match normal {
        b"pass" => Some(LabelKind::Password),
        [.., b'p', b'a', b's', b's'] if has_separator_before_pass => Some(LabelKind::Password),
        b"pw" => Some(LabelKind::Password),
        b"bearer" => Some(LabelKind::Token),
        [.., b'p', b'w'] if has_separator_before_pw => Some(LabelKind::Password),
        b"psk" | b"rediscliauth" => Some(LabelKind::Password),
        [.., b'p', b'a', b't'] if name.ends_with(b"_PAT") => Some(LabelKind::Token),
        [.., b's', b'e', b'e', b'd'] if normal.starts_with(b"otp") => Some(LabelKind::Token),
        b"sig" | b"code" => Some(LabelKind::Signature),
        [.., b's', b'i', b'g', b'n', b'a', b't', b'u', b'r', b'e'] => Some(LabelKind::Signature),
        [.., b'c', b'o', b'o', b'k', b'i', b'e'] if normal == b"erlangcookie" => {
            Some(LabelKind::Token)
        }
        b"cookie" => Some(LabelKind::Cookie),
        b"setcookie" => Some(LabelKind::SetCookie),
        b"auth" => Some(LabelKind::EncodedLogin),
        [.., b'k', b'e', b'y'] if name.ends_with(b"_KEY") || name.ends_with(b"_key") => {
            Some(LabelKind::OtherKey)
        }
        _ => None,
    }
}

/// The text without the escape sequence for a terminal colour at its end.
fn without_colour(text: &[u8]) -> &[u8] {
    let Some(sequence) = text.strip_suffix(b"m") else { return text };
    let len = suffix_len(last_bytes(sequence, 12), |byte| matches!(byte, b'0'..=b'9' | b';'));
    let sequence = sequence.get(..sequence.len() - len).unwrap_or_default();
    sequence.strip_suffix(b"\x1b[").unwrap_or(text)
}

/// The name without a number at its end: `password2`, `smtp_password_v4`.
fn without_version(name: &[u8]) -> &[u8] {
    let digits = suffix_len(last_bytes(name, 3), |byte| byte.is_ascii_digit());
    if !(1..3).contains(&digits) || name.ends_with(b"64") {
        return name;
    }
    let name = name.get(..name.len() - digits).unwrap_or_default();
    let name = name.strip_suffix(b"_v").unwrap_or(name);
    name.strip_suffix(b"_").unwrap_or(name)
}

/// The text without a closing quote, which may be escaped or followed by `]`: `env["KEY"]`.
fn without_quote(text: &[u8]) -> &[u8] {
    let inside = text.strip_suffix(b"]").unwrap_or(text);
    let Some((b'"' | b'\'' | b'`', text)) = inside.split_last() else { return text };
    let escapes = suffix_len(last_bytes(text, MAX_GAP_LEN), |byte| byte == b'\\');
    text.get(..text.len() - escapes).unwrap_or_default()
}

/// The name in the attributes of an XML element: `<property name="password">`.
fn name_attribute(tag: &[u8]) -> Option<&[u8]> {
    if !tag.contains(&b'=') {
        return None;
    }
    let mut attributes = [b" name=".as_slice(), b" key="].into_iter();
    let value = attributes.find_map(|name| {
        let at = memchr::memmem::find(tag, name)?;
        tag.get(at + name.len()..)
    })?;
    let value = value.get(prefix_len(value, |byte| matches!(byte, b'"' | b'\'' | b'\\'))..)?;
    value.get(..prefix_len(value, is_label_byte))
}

/// Adds the word before `key` to the name: `API Key: …`.
fn with_word_before<'a>(name: &'a [u8], before: &'a [u8]) -> &'a [u8] {
    const WORDS: [&[u8]; 6] = [b"api", b"secret", b"access", b"private", b"encryption", b"account"];
    if !name.eq_ignore_ascii_case(b"key") {
        return name;
    }
    let start = before.get(..before.len() - name.len()).unwrap_or_default();
    let Some(start) = start.strip_suffix(b" ") else { return name };
    let word = matching_suffix(start, MAX_GAP_LEN * 2, |byte| byte.is_ascii_alphabetic());
    let is_known = WORDS.iter().any(|known| word.eq_ignore_ascii_case(known));
    if is_known { last_bytes(before, word.len() + 1 + name.len()) } else { name }
}

/// Whether a word may come before the first label of a line.
fn is_line_start_word(word: &[u8]) -> bool {
    const WORDS: [&[u8]; 16] = [
        b"-", b"+", b"#", b";", b"//", b">", b"*", b"|", b":", b"export", b"set", b"setx", b"ENV",
        b"ARG", b"<", b"{",
    ];
    let is_number = |word: &[u8]| {
        let word = word.strip_suffix("→".as_bytes()).unwrap_or(word);
        let digits = prefix_len(word, |byte| byte.is_ascii_digit());
        digits > 0 && matches!(word.get(digits..), Some([] | [b':' | b'|' | b')' | b'-']))
    };
    // `grep` writes the name of the file before a match: `app.yml:12:password: …`.
    let is_file = || {
        let name = word.strip_suffix(b":").unwrap_or_default();
        let digits = suffix_len(name, |byte| byte.is_ascii_digit());
        let name = name.get(..name.len() - digits).unwrap_or_default();
        let name = if digits > 0 { name.strip_suffix(b":").unwrap_or_default() } else { name };
        name.iter().any(|byte| matches!(byte, b'.' | b'/')) && !name.contains(&b'"')
    };
    WORDS.contains(&word) || is_number(word) || matches!(word, b"$env:") || is_file()
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
