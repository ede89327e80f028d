//! Secrets after a label: in assignments, fields, headers, flags and XML elements.
//!
//! A label is a name before a value, such as `password` in `password = "…"`. `Label` says which
//! kind of value to expect, and `Value` whether the value looks like that kind. This module finds
//! both, and knows the places where an expression, a name or a path is more likely than a secret.

use super::bytes::{count_distinct, is_base64_byte, is_token_byte, prefix_len};
use super::false_positives::is_object_name;
use super::header::{find_cookies, find_credential, find_encoded_login};
use super::kind::SecretKind;
use super::label::{Label, LabelKind, label_kind};
use super::value::{Expected, Syntax, Value};
use super::view::{SecretSpan, View};

/// The longest type name between label and value, in bytes: `Option<&str>` in
/// `password: Option<&str> = "…"`.
const MAX_TYPE_LEN: usize = 40;

const MAX_FLAG_LEN: usize = 48;

/// The secret after the `=`, `:` or `>` at `operator`; `None` if the name before the operator is
/// not the label of a secret, or if the value does not look like a secret.
pub(super) fn find_assigned(view: View<'_>, operator: usize) -> Option<SecretSpan> {
    // This is the second colon of a path such as `Token::New`, not an operator.
    if view.byte(operator) == Some(b':') && view.before(operator).ends_with(b":") {
        return None;
    }
    let (sign, start) = match (view.byte(operator)?, view.byte(operator + 1)) {
        (b'=', Some(b'=' | b'~')) | (b':', Some(b':' | b'=')) => return None,
        (b'=', Some(b'>')) => (b'=', operator + 2),
        (sign, _) => (sign, operator + 1),
    };
    let label = Label::before_operator(view, operator)?;
    let kind = label.kind()?;
    // What looks like a label is the last part of a longer name:
    // `arn:aws:secretsmanager:…:secret:name`, `"AWS::IAM::AccessKey": …`.
    if label.before.ends_with(b":") {
        return None;
    }
    // Only an XML element has its label before a `>`: `<password>…</password>`.
    if sign == b'>' && !label.before.ends_with(b"<") {
        return None;
    }
    let assignment = Assignment { label, sign };
    assignment.find(view, kind, Value::at(view, start)).or_else(|| {
        let value = value_after_type(view, start).filter(|_| sign == b':')?;
        assignment.find(view, kind, value)
    })
}

/// The secret in `text` if it is the value of a field with this name.
pub(super) fn find_in_field(name: &str, text: &str) -> Option<SecretSpan> {
    let label = Label::of_field(name);
    let kind = label.kind()?;
    let view = View::new(text.as_bytes(), 0);
    // A field named like an environment variable (`DB_PASSWORD`) is read as `DB_PASSWORD=…`, others
    // as `name: …`.
    let sign = if label.is_environment_variable() { b'=' } else { b':' };
    let secret = Assignment { label, sign }.find(view, kind, Value::of_field(view))?;
    // Redact the rest of the text too. Otherwise redacting the result again could find another
    // secret in the rest.
    Some(SecretSpan { end: text.trim_ascii_end().len(), ..secret })
}

/// The value of a flag such as `--password …`; `dash` is the position of its last dash.
pub(super) fn find_flag(view: View<'_>, dash: usize) -> Option<SecretSpan> {
    let name = view.ahead_up_to(dash + 1, MAX_FLAG_LEN);
    let name = name.get(..prefix_len(name, is_token_byte))?;
    let space = dash + 1 + name.len();
    let expected = match label_kind(name)? {
        LabelKind::Password => Expected::Password,
        LabelKind::Token | LabelKind::ApiKeyHeader => Expected::Token,
        _ => return None,
    };
    if view.byte(space) != Some(b' ') {
        return None;
    }
    let value = Value::at(view, space);
    let is_flag = view.byte(value.start) == Some(b'-');
    if !is_flag && value.is_secret(expected, Syntax::Literal) {
        return Some(whole_value(value, SecretKind::LabelledSecret));
    }
    passphrase(value, SecretKind::LabelledSecret).filter(|_| expected == Expected::Password)
}

/// The quoted value after a type annotation that begins at `start`: `&str = "…"`.
fn value_after_type(view: View<'_>, start: usize) -> Option<Value<'_>> {
    let is_type_byte = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b' ' | b'_' | b'&' | b'\'' | b'<' | b'>' | b'[' | b']' | b'|' | b'?' | b'.'
            )
    };
    let type_end = start + prefix_len(view.ahead_up_to(start, MAX_TYPE_LEN), is_type_byte);
    let value = Value::at(view, type_end + 1);
    (view.byte(type_end) == Some(b'=') && value.is_delimited()).then_some(value)
}

fn whole_value(value: Value<'_>, kind: SecretKind) -> SecretSpan {
    SecretSpan { start: value.start, end: value.end(), kind }
}

fn passphrase(value: Value<'_>, kind: SecretKind) -> Option<SecretSpan> {
    value.end_of_passphrase().map(|end| SecretSpan { start: value.start, end, kind })
}

/// A label and the operator after it.
#[derive(Debug, Clone, Copy)]
struct Assignment<'a> {
    label: Label<'a>,
    /// `=`, `:` or `>`.
    sign: u8,
}

impl Assignment<'_> {
    fn find(&self, view: View<'_>, label_kind: LabelKind, value: Value<'_>) -> Option<SecretSpan> {
        let is_query_parameter = matches!(self.label.before, [.., b'?' | b'&']);
        let (expected, kind) = match label_kind {
            LabelKind::Authorization => return find_credential(view, value.start),
            LabelKind::Cookie | LabelKind::SetCookie => {
                let is_set_cookie = label_kind == LabelKind::SetCookie;
                let cookies = find_cookies(view, value.start, is_set_cookie);
                return cookies.filter(|_| self.sign == b':');
            }
            LabelKind::EncodedLogin => {
                let is_json = self.sign == b':' && value.is_delimited() && self.is_label_quoted();
                return find_encoded_login(view, value.start).filter(|_| is_json);
            }
            LabelKind::AwsSecretKey | LabelKind::AzureKey => {
                if let Some(secret) = find_cloud_key(view, label_kind, value.start) {
                    return Some(secret);
                }
                (Expected::Token, SecretKind::LabelledSecret)
            }
            LabelKind::Signature if !is_query_parameter => return None,
            LabelKind::Signature => (Expected::LongToken, SecretKind::AzureKey),
            LabelKind::OtherKey | LabelKind::Credentials => {
                (Expected::LongToken, SecretKind::LabelledSecret)
            }
            LabelKind::ApiKeyHeader => (Expected::Token, SecretKind::ApiKeyHeader),
            LabelKind::Token if self.is_twilio() => (Expected::Token, SecretKind::TwilioKey),
            LabelKind::Token => (Expected::Token, SecretKind::LabelledSecret),
            LabelKind::Password if self.is_in_connection_string(view, value) => {
                (Expected::Password, SecretKind::ConnectionPassword)
            }
            LabelKind::Password => (Expected::Password, SecretKind::LabelledSecret),
        };
        let is_shell_assignment = self.sign == b'=' && !self.label.is_spaced;
        let is_literal = is_shell_assignment
            && (self.label.is_environment_variable() || self.label.name.starts_with(b"--"))
            || is_query_parameter
            || self.sign == b'>'
            || matches!(kind, SecretKind::ApiKeyHeader | SecretKind::ConnectionPassword);
        // Outside a shell assignment, `key` mostly means the key of a table, a cache or a sort
        // order.
        if label_kind == LabelKind::OtherKey
            && (!is_shell_assignment || is_path_or_qualified_name(value.sample()))
        {
            return None;
        }
        let may_be_object_name =
            label_kind == LabelKind::Token && self.sign == b':' && self.label.is_just_secret();
        if may_be_object_name && is_object_name(value.sample()) {
            return None;
        }
        let syntax = if is_literal { Syntax::Literal } else { Syntax::MaybeExpression };
        let is_password_word =
            || is_shell_assignment && self.accepts_words(label_kind) && value.is_password_word();
        if value.is_secret(expected, syntax) || is_password_word() {
            let is_closed = self.sign != b'>' || view.ahead(value.end()).starts_with(b"</");
            return is_closed.then(|| whole_value(value, kind));
        }
        passphrase(value, kind).filter(|_| expected == Expected::Password)
    }

    /// Whether the value may be a password made of plain words: `PGPASSWORD=correcthorse`.
    fn accepts_words(&self, label_kind: LabelKind) -> bool {
        let name = self.label.name;
        let is_secret = match label_kind {
            // `PWD` and `OLDPWD` are the current and the previous working directory.
            LabelKind::Password => !matches!(name, b"PWD" | b"OLDPWD"),
            LabelKind::Token => name.ends_with(b"TOKEN") || name.ends_with(b"SECRET"),
            _ => false,
        };
        is_secret && self.label.is_environment_variable() && self.label.starts_word()
    }

    /// Whether the label is in quotes or is the name of a field.
    fn is_label_quoted(&self) -> bool {
        matches!(self.label.before, [] | [.., b'"' | b'\''])
    }

    fn is_twilio(&self) -> bool {
        self.label.name.windows(6).any(|part| part.eq_ignore_ascii_case(b"twilio"))
    }

    /// Whether the value is in a connection string: `Server=…;Password=…;`.
    fn is_in_connection_string(&self, view: View<'_>, value: Value<'_>) -> bool {
        let has_semicolon = match self.label.before {
            [.., b';'] | [.., b';', b' '] => true,
            [.., b'"' | b'\''] => view.byte(value.start + value.sample().len()) == Some(b';'),
            _ => false,
        };
        self.sign == b'=' && has_semicolon && !value.is_delimited()
    }
}

/// Whether a value is a path or a name with colons. A key that starts with `base64:`, as Laravel
/// generates them, is neither, although it contains a colon.
fn is_path_or_qualified_name(value: &[u8]) -> bool {
    !value.starts_with(b"base64:") && value.iter().any(|byte| matches!(byte, b'/' | b':'))
}

/// The AWS or Azure key at `start`: 40 bytes of Base64 for AWS, 40 to 127 for Azure.
fn find_cloud_key(view: View<'_>, label_kind: LabelKind, start: usize) -> Option<SecretSpan> {
    let len = prefix_len(view.ahead_up_to(start, 128), is_base64_byte);
    let (is_key, kind) = match label_kind {
        LabelKind::AwsSecretKey => (len == 40, SecretKind::AwsSecretKey),
        _ => ((40..128).contains(&len), SecretKind::AzureKey),
    };
    (is_key && count_distinct(view.ahead_up_to(start, len)) > 8).then_some(SecretSpan {
        start,
        end: start + len,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn a_labelled_secret_is_redacted_without_its_label() {
        for (before, after) in [
            ("password = \"", "\""),
            ("DB_PASSWORD=", "\n"),
            ("export API_TOKEN=", " && run"),
            ("\"client_secret\": \"", "\", \"b\": 1"),
            (r#"{\"password\": \""#, r#"\", \"b\": 1}"#),
            (r#"{\\\"api_key\\\":\\\""#, r#"\\\"}"#),
            ("config['secret_key'] = '", "'"),
            ("const apiKey: string = '", "';"),
            ("pub const TOKEN: &'static str = \"", "\";"),
            ("auth_token => '", "',"),
            ("tok --access-token=", " x"),
            ("tok --password ", " x"),
            ("GET /a?access_token=", "&b=1"),
            ("<password>", "</password>"),
            ("password := \"", "\""),
            ("spring.datasource.password=", ""),
        ] {
            let text = format!("{before}a8Kd0f3Lq9Zx{after}");
            assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]{after}"));
        }
    }

    #[test]
    fn source_code_and_names_are_kept() {
        for text in [
            "password: string;",
            "let token = next_token();",
            "password = get_password()",
            "const token: Token = lexer.next();",
            "password=os.environ['DB_PASSWORD1']",
            "token = process.env.TOKEN_V2",
            "secret: ${SECRET_1A2B3C}",
            "api_key = None",
            "api_key: null",
            "password = \"changeme\"",
            "token == \"a8Kd0f3Lq9Zx\"",
            "Token::A1b2C3d4E5",
            "arn:aws:secretsmanager:us-west-2:123456789012:secret:MyDb-a1b2c3",
            "\"AWS::IAM::AccessKey\": \"48205d4ffd7feba3\"",
            "primary_key=a1b2c3d4e5f6a7b8c9",
            "self.token = token_v1_2a3b[0]",
            "PWD=/home/u1/a2b3c4d5",
            "sort_key: 'a8Kd0f3Lq9Zx'",
            "password: &str, token: Option<Token2022>",
            "PRIMARY_KEY=a1b2c3d4e5f6a7b8c9",
            "FOREIGN_KEY=a1b2c3d4e5f6a7b8c9",
            "CACHE_KEY=a1b2c3d4e5f6a7b8c9",
            "SORT_KEY=a1b2c3d4e5f6a7b8c9",
            "PARTITION_KEY=a1b2c3d4e5f6a7b8c9",
            "S3_KEY=path/to/file1a2b3.txt",
            "LAYER_KEY=path/to/file1a2b3c4d.txt",
            "LAYER_KEY=build:1a2b3c4d5e6f7a8b",
            "LAYER_KEY=\"build 1a2b3c4d5e6f7a8b\"",
            "secret: my-tls-secret-v1a2b3c4",
            "secret: \"my-tls-secret-v1a2b3c4\"",
            "secretName: my-tls-secret-v1a2b3c4",
            "credentials: \"include1a2b\"",
            "token: 'sha256:9f86d081884c7d659a2feaa0c55ad015'",
            "max_tokens=4096, token_type=\"bearer\"",
        ] {
            assert_no_secret(text);
        }
    }

    #[test]
    fn the_credential_of_a_header_is_redacted_without_its_scheme() {
        for before in [
            "Authorization: Bearer ",
            "curl -H 'authorization: Basic ",
            "\"Authorization\": \"token ",
            r#"\"authorization\":\"Bearer "#,
            "Proxy-Authorization: ",
        ] {
            let text = format!("{before}a8Kd0f3Lq9Zx77_bQ\"");
            assert_eq!(redacted(&text), format!("{before}[redacted:authorization]\""));
        }
        assert_eq!(
            redacted("Authorization: Basic dXNlcjpwYXNz"),
            "Authorization: Basic [redacted:authorization]"
        );
        assert_eq!(redacted("x-api-key: a8Kd0f3Lq9Zx"), "x-api-key: [redacted:api_key_header]");
        assert_no_secret("Authorization: Bearer token");
        assert_no_secret("Authorization: Bearer $TOKEN_1234");
        assert_no_secret("Authorization: Bearer <token-1234>");
        assert_no_secret("Authorization: Bearer YOUR_API_KEY");
        assert_no_secret("Authorization: `Bearer ${token1234}`");
        assert_no_secret("authorization: Basic authentication");
        assert_no_secret("Authorization: AWS4-HMAC-SHA256 Credential=a/b/c");
        assert_no_secret("a Bearer token of ours");
        assert_no_secret("x-api-key: YOUR_KEY");
    }

    #[test]
    fn secrets_that_resemble_names_and_digests_are_redacted() {
        for (before, value) in [
            ("STRIPE_KEY=", "a1b2c3d4e5f6a7b8c9"),
            ("APP_KEY=", "base64:a1b2c3d4e5f6a7b8c9/d0="),
            ("secret: ", "a1b2-c3d4-e5f6a7b8c9"),
            ("SECRET=", "my-own-v1a2b3c4"),
            ("credentials: \"", "a1b2c3d4e5f6a7b8"),
            ("token: '", "sha9f86d081884c7d65"),
        ] {
            let text = format!("{before}{value}");
            assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]"));
        }
    }

    #[test]
    fn keys_of_aws_and_azure_have_their_own_kinds() {
        let aws = concat!("wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYzzzzzzzKEY");
        for (before, after) in [
            ("aws_secret_access_key = ", "\n"),
            ("AWS_SECRET_ACCESS_KEY=", ""),
            ("\"SecretAccessKey\": \"", "\""),
            ("secret_access_key: ", "\n"),
        ] {
            let text = format!("{before}{aws}{after}");
            assert_eq!(redacted(&text), format!("{before}[redacted:aws_secret_key]{after}"));
        }
        let azure =
            "Zk1vXoJ8yTgq2mR5sW9dLfHc3uNxPz6aYtVb0eKjIrQwb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE==";
        assert_eq!(
            redacted(&format!("AccountName=a;AccountKey={azure};EndpointSuffix=b")),
            "AccountName=a;AccountKey=[redacted:azure_key];EndpointSuffix=b"
        );
        assert_no_secret("AccountKey=none;x");
        assert_no_secret("aws_secret_access_key = var.secret");
    }

    #[test]
    fn only_the_password_of_a_connection_string_is_redacted() {
        assert_eq!(
            redacted("Server=db;User Id=sa;Password=Tr0ub4dor;Encrypt=true"),
            "Server=db;User Id=sa;Password=[redacted:connection_password];Encrypt=true"
        );
        assert_eq!(
            redacted("\"Pwd=p@ssphr4se;Server=db\""),
            "\"Pwd=[redacted:connection_password];Server=db\""
        );
        assert_no_secret("Server=db;Password={0};Encrypt=true");
        assert_no_secret("a();password=b.c;d()");
    }

    #[test]
    fn a_twilio_key_is_recognised_by_its_label() {
        let key = concat!("SK", "0123456789abcdef0123456789abcdef");
        assert_eq!(
            redacted(&format!("TWILIO_API_KEY={key}")),
            "TWILIO_API_KEY=[redacted:twilio_key]"
        );
        assert_no_secret(&format!("sid {key}"));
        assert_no_secret("TWILIO_ACCOUNT_SID=AC0123456789abcdef0123456789abcdef");
    }
}
