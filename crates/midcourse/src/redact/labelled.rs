//! Secrets that are known by the label before them: assignments, headers, flags, elements.

use super::header::{find_cookies, find_credential, find_login};
use super::known::distinct;
use super::label::{Claim, Label, claim_of};
use super::shape::SecretShape;
use super::sight::{Secret, Sight, count, in_token};
use super::value::{Form, Look, Value};
use super::words::is_object_name;

/// How far the value may be from the name in `password: Option<&str> = "…"`.
const TYPE_MAX: usize = 40;

/// The longest flag that is looked at.
const FLAG_MAX: usize = 48;

/// The value behind the `=`, `:` or `>` at `operator`, if it is a secret.
pub(super) fn find_labelled(sight: Sight<'_>, operator: usize) -> Option<Secret> {
    let next = sight.byte(operator + 1);
    let is_path = sight.byte(operator) == Some(b':') && sight.behind(operator).ends_with(b":");
    if is_path {
        return None;
    }
    let (sign, start) = match (sight.byte(operator)?, next) {
        (b'=', Some(b'=' | b'~')) | (b':', Some(b':' | b'=')) => return None,
        (b'=', Some(b'>')) => (b'=', operator + 2),
        (sign, _) => (sign, operator + 1),
    };
    let label = Label::before(sight, operator)?;
    let claim = label.claim()?;
    // `arn:aws:secretsmanager:…:secret:name`, `"AWS::IAM::AccessKey": …`.
    if label.behind.ends_with(b":") {
        return None;
    }
    // An element: `<password>…</password>`.
    if sign == b'>' && !label.behind.ends_with(b"<") {
        return None;
    }
    let place = Place { label, sign };
    let value = Value::behind(sight, start);
    place.find(sight, claim, value).or_else(|| {
        let value = typed_value(sight, start).filter(|_| sign == b':')?;
        place.find(sight, claim, value)
    })
}

/// What of a text is a secret if it is the value of a field of that name.
pub(super) fn find_field(name: &str, text: &str) -> Option<Secret> {
    let label = Label::of_field(name);
    let claim = label.claim()?;
    let sight = Sight::new(text.as_bytes(), 0);
    // A field that is named like a variable is one of an environment.
    let sign = if label.is_variable() { b'=' } else { b':' };
    let secret = Place { label, sign }.find(sight, claim, Value::of_field(sight))?;
    // What follows it would be read anew without what it stood behind, and might not stay.
    Some(Secret { end: text.trim_ascii_end().len(), ..secret })
}

/// The value of a flag whose dashes end at `dash`: `--password …`.
pub(super) fn find_flag(sight: Sight<'_>, dash: usize) -> Option<Secret> {
    let name = sight.head(dash + 1, FLAG_MAX);
    let name = name.get(..count(name, in_token))?;
    let space = dash + 1 + name.len();
    let look = match claim_of(name)? {
        Claim::Password => Look::Password,
        Claim::Token | Claim::ApiKeyHeader => Look::Token,
        _ => return None,
    };
    if sight.byte(space) != Some(b' ') {
        return None;
    }
    let value = Value::behind(sight, space);
    let is_secret = sight.byte(value.start) != Some(b'-') && value.is_secret(look, Form::Literal);
    if is_secret {
        return Some(secret(value, SecretShape::LabelledSecret));
    }
    passphrase(value, SecretShape::LabelledSecret).filter(|_| look == Look::Password)
}

/// The quoted value behind a type: `: &str = "…"`.
fn typed_value(sight: Sight<'_>, start: usize) -> Option<Value<'_>> {
    let in_type = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b' ' | b'_' | b'&' | b'\'' | b'<' | b'>' | b'[' | b']' | b'|' | b'?' | b'.'
            )
    };
    let length = count(sight.head(start, TYPE_MAX), in_type);
    let behind = start + length + 1;
    let is_assigned = sight.byte(start + length) == Some(b'=');
    let value = Value::behind(sight, behind);
    (is_assigned && value.is_quoted()).then_some(value)
}

fn secret(value: Value<'_>, shape: SecretShape) -> Secret {
    Secret { start: value.start, end: value.end(), shape }
}

fn passphrase(value: Value<'_>, shape: SecretShape) -> Option<Secret> {
    value.end_of_passphrase().map(|end| Secret { start: value.start, end, shape })
}

/// Where a value stands: behind which label, and which sign.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    label: Label<'a>,
    sign: u8,
}

impl Place<'_> {
    fn find(&self, sight: Sight<'_>, claim: Claim, value: Value<'_>) -> Option<Secret> {
        let is_query = matches!(self.label.behind, [.., b'?' | b'&']);
        let (look, shape) = match claim {
            Claim::Authorization => return find_credential(sight, value.start),
            Claim::Cookie | Claim::SetCookie => {
                let is_set = claim == Claim::SetCookie;
                return find_cookies(sight, value.start, is_set).filter(|_| self.sign == b':');
            }
            Claim::Login => {
                let is_json = self.sign == b':' && value.is_quoted() && self.is_quoted();
                return find_login(sight, value.start).filter(|_| is_json);
            }
            Claim::AwsSecretKey | Claim::AzureKey => {
                if let Some(secret) = find_cloud_key(sight, claim, value.start) {
                    return Some(secret);
                }
                (Look::Token, SecretShape::LabelledSecret)
            }
            Claim::Signature if !is_query => return None,
            Claim::Signature => (Look::LongToken, SecretShape::AzureKey),
            Claim::SomeKey | Claim::Credentials => (Look::LongToken, SecretShape::LabelledSecret),
            Claim::ApiKeyHeader => (Look::Token, SecretShape::ApiKeyHeader),
            Claim::Token if self.names_twilio() => (Look::Token, SecretShape::TwilioKey),
            Claim::Token => (Look::Token, SecretShape::LabelledSecret),
            Claim::Password if self.is_in_connection_string(sight, value) => {
                (Look::Password, SecretShape::ConnectionPassword)
            }
            Claim::Password => (Look::Password, SecretShape::LabelledSecret),
        };
        let is_assigned = self.sign == b'=' && !self.label.is_spaced;
        let is_literal = is_assigned
            && (self.label.is_variable() || self.label.name.starts_with(b"--"))
            || is_query
            || self.sign == b'>'
            || matches!(shape, SecretShape::ApiKeyHeader | SecretShape::ConnectionPassword);
        // Any other key is one of a table, a cache or a sort.
        if claim == Claim::SomeKey && (!is_assigned || is_place(value.judged())) {
            return None;
        }
        let is_named = claim == Claim::Token && self.sign == b':' && self.label.is_bare_secret();
        if is_named && is_object_name(value.judged()) {
            return None;
        }
        let form = if is_literal { Form::Literal } else { Form::Bare };
        let is_secret = value.is_secret(look, form);
        let is_closed = || self.sign != b'>' || sight.ahead(value.end()).starts_with(b"</");
        if is_secret || is_assigned && self.takes_words(claim) && value.is_secret_word() {
            return is_closed().then(|| secret(value, shape));
        }
        passphrase(value, shape).filter(|_| look == Look::Password)
    }

    /// Whether a word is a secret here: `PGPASSWORD=…`.
    fn takes_words(&self, claim: Claim) -> bool {
        const ENDS: [&[u8]; 2] = [b"TOKEN", b"SECRET"];
        let name = self.label.name;
        let is_secret = match claim {
            Claim::Password => !matches!(name, b"PWD" | b"OLDPWD"),
            Claim::Token => ENDS.iter().any(|end| name.ends_with(end)),
            _ => false,
        };
        is_secret && self.label.is_variable() && self.label.begins_word()
    }

    /// Whether the label is in quotes, or a field's.
    fn is_quoted(&self) -> bool {
        matches!(self.label.behind, [] | [.., b'"' | b'\''])
    }

    fn names_twilio(&self) -> bool {
        self.label.name.windows(6).any(|part| part.eq_ignore_ascii_case(b"twilio"))
    }

    /// `Server=…;Password=…;`.
    fn is_in_connection_string(&self, sight: Sight<'_>, value: Value<'_>) -> bool {
        let is_between = match self.label.behind {
            [.., b';'] | [.., b';', b' '] => true,
            [.., b'"' | b'\''] => sight.byte(value.start + value.judged().len()) == Some(b';'),
            _ => false,
        };
        self.sign == b'=' && is_between && !value.is_quoted()
    }
}

/// Whether a key leads to something: a path, or parts of a name.
fn is_place(value: &[u8]) -> bool {
    !value.starts_with(b"base64:") && value.iter().any(|byte| matches!(byte, b'/' | b':'))
}

/// The key of a cloud at `start`: encoded bytes of a known length.
fn find_cloud_key(sight: Sight<'_>, claim: Claim, start: usize) -> Option<Secret> {
    let in_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let length = count(sight.head(start, 128), in_key);
    let (is_key, shape) = match claim {
        Claim::AwsSecretKey => (length == 40, SecretShape::AwsSecretKey),
        _ => ((40..128).contains(&length), SecretShape::AzureKey),
    };
    (is_key && distinct(sight.head(start, length)) > 8).then_some(Secret {
        start,
        end: start + length,
        shape,
    })
}

#[cfg(test)]
mod tests {
    use crate::redact::check::{gone, stays};

    #[test]
    fn a_labelled_secret_goes_and_its_label_stays() {
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
            assert_eq!(gone(&text), format!("{before}[redacted:labelled_secret]{after}"));
        }
    }

    #[test]
    fn source_code_stays() {
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
            stays(text);
        }
    }

    #[test]
    fn a_header_goes_without_its_scheme() {
        for before in [
            "Authorization: Bearer ",
            "curl -H 'authorization: Basic ",
            "\"Authorization\": \"token ",
            r#"\"authorization\":\"Bearer "#,
            "Proxy-Authorization: ",
        ] {
            let text = format!("{before}a8Kd0f3Lq9Zx77_bQ\"");
            assert_eq!(gone(&text), format!("{before}[redacted:authorization]\""));
        }
        assert_eq!(
            gone("Authorization: Basic dXNlcjpwYXNz"),
            "Authorization: Basic [redacted:authorization]"
        );
        assert_eq!(gone("x-api-key: a8Kd0f3Lq9Zx"), "x-api-key: [redacted:api_key_header]");
        stays("Authorization: Bearer token");
        stays("Authorization: Bearer $TOKEN_1234");
        stays("Authorization: Bearer <token-1234>");
        stays("Authorization: Bearer YOUR_API_KEY");
        stays("Authorization: `Bearer ${token1234}`");
        stays("authorization: Basic authentication");
        stays("Authorization: AWS4-HMAC-SHA256 Credential=a/b/c");
        stays("a Bearer token of ours");
        stays("x-api-key: YOUR_KEY");
    }

    #[test]
    fn near_what_stays_secrets_go() {
        for (before, value) in [
            ("STRIPE_KEY=", "a1b2c3d4e5f6a7b8c9"),
            ("APP_KEY=", "base64:a1b2c3d4e5f6a7b8c9/d0="),
            ("secret: ", "a1b2-c3d4-e5f6a7b8c9"),
            ("SECRET=", "my-own-v1a2b3c4"),
            ("credentials: \"", "a1b2c3d4e5f6a7b8"),
            ("token: '", "sha9f86d081884c7d65"),
        ] {
            let text = format!("{before}{value}");
            assert_eq!(gone(&text), format!("{before}[redacted:labelled_secret]"));
        }
    }

    #[test]
    fn cloud_keys_have_their_own_names() {
        let aws = concat!("wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYzzzzzzzKEY");
        for (before, after) in [
            ("aws_secret_access_key = ", "\n"),
            ("AWS_SECRET_ACCESS_KEY=", ""),
            ("\"SecretAccessKey\": \"", "\""),
            ("secret_access_key: ", "\n"),
        ] {
            let text = format!("{before}{aws}{after}");
            assert_eq!(gone(&text), format!("{before}[redacted:aws_secret_key]{after}"));
        }
        let azure =
            "Zk1vXoJ8yTgq2mR5sW9dLfHc3uNxPz6aYtVb0eKjIrQwb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE==";
        assert_eq!(
            gone(&format!("AccountName=a;AccountKey={azure};EndpointSuffix=b")),
            "AccountName=a;AccountKey=[redacted:azure_key];EndpointSuffix=b"
        );
        stays("AccountKey=none;x");
        stays("aws_secret_access_key = var.secret");
    }

    #[test]
    fn connection_strings_keep_the_rest() {
        assert_eq!(
            gone("Server=db;User Id=sa;Password=Tr0ub4dor;Encrypt=true"),
            "Server=db;User Id=sa;Password=[redacted:connection_password];Encrypt=true"
        );
        assert_eq!(
            gone("\"Pwd=p@ssphr4se;Server=db\""),
            "\"Pwd=[redacted:connection_password];Server=db\""
        );
        stays("Server=db;Password={0};Encrypt=true");
        stays("a();password=b.c;d()");
    }

    #[test]
    fn twilio_is_told_by_its_label() {
        let key = concat!("SK", "0123456789abcdef0123456789abcdef");
        assert_eq!(gone(&format!("TWILIO_API_KEY={key}")), "TWILIO_API_KEY=[redacted:twilio_key]");
        stays(&format!("sid {key}"));
        stays("TWILIO_ACCOUNT_SID=AC0123456789abcdef0123456789abcdef");
    }
}
