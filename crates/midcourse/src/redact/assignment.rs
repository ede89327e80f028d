//! Secrets after a label: in assignments, fields, headers, flags and XML elements.
//!
//! A label is a name before a value, such as `password` in `password = "…"`. `Label` says which
//! kind of value to expect, and `Value` whether the value looks like that kind. This module finds
//! both, and knows the places where an expression, a name or a path is more likely than a secret.

use super::bytes::{
    contains, count_distinct, is_base64_byte, is_token_byte, last_bytes, matching_suffix,
    prefix_len,
};
use super::false_positives::is_object_name;
use super::header::{find_cookies, find_credential, find_encoded_login};
use super::kind::SecretKind;
use super::label::{Label, LabelKind, label_kind};
use super::name_value::{name_before, object_name_before};
use super::value::{Expected, Syntax, Value};
use super::view::{SecretSpan, View};

/// The longest type name between label and value, in bytes: `Option<&str>` in
/// `password: Option<&str> = "…"`.
const MAX_TYPE_LEN: usize = 40;

/// How far before its `result` a generated password of Terraform has its hash, in bytes.
const MAX_DISTANCE_TO_HASH: usize = 96;

/// The longest expression before a fallback value, in bytes.
const MAX_EXPRESSION_LEN: usize = 64;

const MAX_FLAG_LEN: usize = 48;

/// The minimum length of a token that is a plain word, in bytes.
const MIN_TOKEN_WORD_LEN: usize = 8;

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
        // Markdown: `**Password:** …`.
        (b':', Some(b'*')) if view.ahead_up_to(operator + 1, 3) == b"** " => (b':', operator + 3),
        (sign, _) => (sign, operator + 1),
    };
    let mut label = match sign {
        // Only an XML element has its label before a `>`: `<password>…</password>`.
        b'>' => Label::of_element(view, operator)?,
        _ => Label::before_operator(view, operator)?,
    };
    if !label.may_matter() {
        return None;
    }
    if matches!(label.name, b"generated" | b"created") {
        // Programs print: `initial admin password generated: …`.
        label.name = last_word(label.before);
    } else if label.name == b"result" {
        // Terraform's `random_password`.
        let near = last_bytes(label.before, MAX_DISTANCE_TO_HASH);
        label.name = contains(near, b"bcrypt_hash").then_some(b"password")?;
    } else if label.name == b"default" {
        // Terraform: `variable "db_password" { default = "…" }`.
        label.name = object_name_before(label.before)?;
    } else if label.name.eq_ignore_ascii_case(b"value") || label.name == b"string" && sign == b'>' {
        label.name = name_before(label.before).or_else(|| object_name_before(label.before))?;
    } else if label.name.contains(&b'.') && matches!(label.before, [.., b'{', b'"' | b' ']) {
        // The tokens of package managers by host: `"gitlab-token": {"gitlab.com": "…"}`.
        label.name = object_name_before(label.before)?;
    }
    let kind = label.kind()?;
    // What looks like a label is the last part of a longer name:
    // `arn:aws:secretsmanager:…:secret:name`, `"AWS::IAM::AccessKey": …`.
    if !label.follows_line_colon() {
        return None;
    }
    let assignment = Assignment { label, sign };
    assignment.find(view, kind, Value::at(view, start)).or_else(|| {
        let value = value_after_type(view, start).filter(|_| sign == b':');
        assignment.find(view, kind, value.or_else(|| fallback_value(view, start))?)
    })
}

fn last_word(text: &[u8]) -> &[u8] {
    matching_suffix(text.trim_ascii_end(), 32, |byte| byte.is_ascii_alphabetic())
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
        LabelKind::Token
        | LabelKind::ApiKeyHeader
        | LabelKind::AzureKey
        | LabelKind::AwsSecretKey => Expected::Token,
        _ => return None,
    };
    if view.byte(space) != Some(b' ') {
        return None;
    }
    let value = Value::at(view, space).to_end_of_word();
    let is_flag = view.byte(value.start) == Some(b'-');
    let is_word = || expected == Expected::Password && value.is_password_word();
    if !is_flag && (value.is_secret(expected, Syntax::Argument) || is_word()) {
        return Some(whole_value(value, SecretKind::LabelledSecret));
    }
    passphrase(value, SecretKind::LabelledSecret).filter(|_| expected == Expected::Password)
}

/// The quoted value that is used if an expression has none: `process.env.TOKEN || "…"`.
fn fallback_value(view: View<'_>, start: usize) -> Option<Value<'_>> {
    let ahead = view.ahead_up_to(start, MAX_EXPRESSION_LEN);
    let is_expression_byte =
        |byte: u8| byte >= b' ' && !matches!(byte, b'|' | b'?' | b';' | b',' | b'=' | b'{');
    let len = prefix_len(ahead, is_expression_byte);
    // Go converts a string to bytes.
    if let Some(call) = memchr::memmem::find(ahead, b"[]byte(").filter(|at| *at < 3) {
        return Some(Value::at(view, start + call + b"[]byte(".len())).filter(Value::is_quoted);
    }
    let operator = ahead.get(len..len + 2)?;
    let value = Value::at(view, start + len + 2);
    (len > 0 && matches!(operator, b"||" | b"??") && value.is_quoted()).then_some(value)
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
            LabelKind::EncodedLogin
                if is_query_parameter || self.label.starts_line() && self.sign == b'=' =>
            {
                (Expected::Password, SecretKind::LabelledSecret)
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
            LabelKind::Signature
                if !is_query_parameter && (self.sign != b'=' || self.label.name.len() < 9) =>
            {
                return None;
            }
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
        let line = if self.label.starts_line() { value.to_end_of_line() } else { None };
        let value = match kind {
            SecretKind::ConnectionPassword => value.to_byte(b';'),
            _ if self.sign == b'>' => value.to_byte(b'<'),
            _ if is_shell_assignment
                && line.is_none()
                && self.is_argument(true)
                && !is_query_parameter =>
            {
                value.to_end_of_word()
            }
            _ => line.unwrap_or(value),
        };
        let is_argument = line.is_some()
            || is_query_parameter
            || self.is_argument(is_shell_assignment)
            || kind == SecretKind::ConnectionPassword;
        // Outside a setting, `key` mostly means the key of a table, a cache or a sort order.
        if label_kind == LabelKind::OtherKey
            && (!is_shell_assignment && line.is_none() && !value.is_quoted()
                || is_path_or_qualified_name(value.sample()))
        {
            return None;
        }
        let may_be_object_name =
            label_kind == LabelKind::Token && self.sign == b':' && self.label.is_just_secret();
        if may_be_object_name && is_object_name(value.sample()) {
            return None;
        }
        let syntax = match (is_argument, kind) {
            (true, _) => Syntax::Argument,
            (_, SecretKind::ApiKeyHeader) => Syntax::Literal,
            _ => Syntax::MaybeExpression,
        };
        let is_password_word = || {
            let may_be_word = match label_kind {
                LabelKind::Password => {
                    is_argument && !self.is_working_directory()
                        || value.is_quoted() && !self.is_call_argument(view, value)
                }
                _ => {
                    is_shell_assignment
                        && self.accepts_words()
                        && value.sample().len() >= MIN_TOKEN_WORD_LEN
                }
            };
            may_be_word && value.is_password_word()
        };
        if value.is_secret(expected, syntax) || is_password_word() {
            let is_closed = self.sign != b'>' || view.ahead(value.end()).starts_with(b"</");
            return is_closed.then(|| whole_value(value, kind));
        }
        passphrase(value, kind).filter(|_| expected == Expected::Password)
    }

    /// Whether the value is an argument of a shell command, an XML element, a header or a pair in a
    /// log line, so that it cannot be an expression.
    fn is_argument(&self, is_shell_assignment: bool) -> bool {
        let Label { name, before, .. } = self.label;
        let is_shell_variable = self.label.is_environment_variable()
            || name.starts_with(b"--")
            || name.starts_with(b"_");
        let is_pair = self.label.is_separate_word() || before.ends_with(b"=");
        is_shell_assignment && (is_shell_variable || is_pair)
            || self.sign == b'>'
            || self.sign == b':' && name.contains(&b'-') && !self.is_label_quoted()
    }

    /// `PWD` and `OLDPWD` are the current and the previous working directory.
    fn is_working_directory(&self) -> bool {
        matches!(self.label.name, b"PWD" | b"OLDPWD")
    }

    /// Whether a quoted value is followed by something that makes it part of an expression.
    fn is_call_argument(&self, view: View<'_>, value: Value<'_>) -> bool {
        let after = view.ahead_up_to(value.start + value.sample().len() + 1, 3).trim_ascii_start();
        matches!(after, [b'+' | b'.' | b'?' | b'[' | b'%' | b'(', ..])
    }

    /// Whether the value may be a token made of plain words: `JWT_SECRET=correcthorse`.
    fn accepts_words(&self) -> bool {
        let name = self.label.name;
        let is_secret = name.ends_with(b"TOKEN") || name.ends_with(b"SECRET");
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
mod tests;
