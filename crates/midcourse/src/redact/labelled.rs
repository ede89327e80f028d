//! Secrets that are known by the label before them: assignments, headers, flags, elements.

use super::known::{distinct, is_credential};
use super::label::{Claim, Label, claim_of};
use super::shape::SecretShape;
use super::sight::{Secret, Sight, count, in_token};
use super::value::{Form, Look, Value};

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
    is_secret.then(|| secret(value, SecretShape::LabelledSecret))
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
            Claim::AwsSecretKey | Claim::AzureKey => {
                if let Some(secret) = find_cloud_key(sight, claim, value.start) {
                    return Some(secret);
                }
                (Look::Token, SecretShape::LabelledSecret)
            }
            Claim::Signature if !is_query => return None,
            Claim::Signature => (Look::LongToken, SecretShape::AzureKey),
            Claim::SomeKey => (Look::LongToken, SecretShape::LabelledSecret),
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
        if claim == Claim::SomeKey && !is_assigned {
            return None;
        }
        let form = if is_literal { Form::Literal } else { Form::Bare };
        let is_secret = value.is_secret(look, form);
        let is_closed = || self.sign != b'>' || sight.ahead(value.end()).starts_with(b"</");
        (is_secret && is_closed()).then(|| secret(value, shape))
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

/// The credential in a header whose value begins at `start`: `Bearer …`.
fn find_credential(sight: Sight<'_>, start: usize) -> Option<Secret> {
    const SCHEMES: [&[u8]; 7] =
        [b"bearer", b"basic", b"token", b"apikey", b"key", b"bot", b"digest"];
    let head = sight.head(start, 16);
    let word = head.get(..count(head, |byte| byte.is_ascii_alphabetic()))?;
    let is_scheme = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    let spaces = count(sight.head(start + word.len(), 4), |byte| byte == b' ');
    let start = if is_scheme && spaces > 0 { start + word.len() + spaces } else { start };
    let head = sight.head(start, 64);
    let head = head.get(..count(head, is_credential))?;
    // `dXNlcjpwYXNz` has no digit, and `YOUR_API_KEY` no small letter.
    let has = |kind: fn(&u8) -> bool| head.iter().any(kind);
    let capitals = head.iter().skip(1).filter(|byte| byte.is_ascii_uppercase()).count();
    let is_made = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
        || word.eq_ignore_ascii_case(b"basic") && has(u8::is_ascii_lowercase) && capitals > 1;
    let min = if is_scheme { 8 } else { 16 };
    // Some other scheme, and then what it needs.
    let is_other_scheme = !is_scheme && sight.byte(start + head.len()) == Some(b' ');
    // A call or an index is not what is sent.
    let is_expression =
        matches!(sight.byte(start + head.len()), Some(b'(' | b'[' | b'{' | b'$' | b'<'));
    if head.len() < min || !is_made || is_expression || is_other_scheme || distinct(head) < 5 {
        return None;
    }
    let end = start + count(sight.ahead(start), is_credential);
    Some(Secret { start, end, shape: SecretShape::Authorization })
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
