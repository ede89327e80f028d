//! Labels that are values themselves: `name: DB_PASSWORD` and `value: …` on the next line.
//!
//! Kubernetes, task definitions, XML settings and the state of Terraform write the name of a
//! setting as one field and its value as another.

use super::bytes::{examine, last_bytes, matching_suffix, suffix_len};

/// How many bytes before a value are searched for its name.
const MAX_DISTANCE: usize = 160;

/// What ends the field with the name, in the order in which it is tried.
const NAME_FIELDS: [&[u8]; 4] = [b"name", b"key", b"id", b"variable"];

/// The name in the field before a field `value`, which starts after `before`.
pub(super) fn name_before(before: &[u8]) -> Option<&[u8]> {
    let near = last_bytes(before, MAX_DISTANCE);
    examine(near.len());
    // Only spaces, punctuation and one quoted or bare word may be between the name field and
    // `value`.
    let near = without_gap(near);
    // A plist has its names in elements: `<key>apiSecret</key><string>`.
    let (near, is_element) = match near.strip_suffix(b"</key") {
        Some(near) => (near, true),
        None => (near, false),
    };
    let name = matching_suffix(near, MAX_DISTANCE, is_name_byte);
    let field = near.get(..near.len() - name.len())?;
    if is_element {
        return field.ends_with(b"<key>").then_some(name);
    }
    let field = field.trim_ascii_end();
    let operator = field.iter().rposition(|byte| matches!(byte, b':' | b'='))?;
    let is_operator = field.len() - operator <= 4;
    let field = field.get(..operator)?.trim_ascii_end();
    let quotes = field.iter().rev().position(|byte| !b"\"'\\".contains(byte))?;
    let field = field.get(..field.len() - quotes)?;
    let is_name_field = NAME_FIELDS.iter().any(|known| {
        let found = last_bytes(field, known.len());
        let rest = field.len() - found.len();
        found.eq_ignore_ascii_case(known)
            && !field.get(..rest).unwrap_or_default().last().is_some_and(u8::is_ascii_alphanumeric)
    });
    (is_operator && is_name_field && !name.is_empty()).then_some(name)
}

/// A text without the punctuation, spaces and line numbers at its end.
fn without_gap(text: &[u8]) -> &[u8] {
    let is_gap = |byte: u8| byte.is_ascii_whitespace() || b"\"',;\\-{(/><".contains(&byte);
    let mut rest = text;
    loop {
        rest = rest.get(..rest.len() - suffix_len(rest, is_gap)).unwrap_or_default();
        let digits = suffix_len(rest, |byte| byte.is_ascii_digit());
        let before = rest.get(..rest.len() - digits).unwrap_or_default();
        let is_line_number = digits > 0 && matches!(before, [.., b'\n' | b' ']);
        let is_escape = matches!(rest, [.., b'\\', b'n' | b't']);
        let is_file = rest.ends_with(b":") && rest.iter().rev().take(60).any(|byte| *byte == b'\n');
        rest = match (is_line_number, is_escape) {
            (true, _) => before,
            (_, true) => rest.get(..rest.len() - 2).unwrap_or_default(),
            _ if is_file => {
                let line = rest.iter().rposition(|byte| *byte == b'\n').unwrap_or_default();
                rest.get(..line).unwrap_or_default()
            }
            _ => return rest,
        };
    }
}

/// The name of the object in which a field `value` or the first field is: `"db_password": {`.
pub(super) fn object_name_before(before: &[u8]) -> Option<&[u8]> {
    let near = last_bytes(before, MAX_DISTANCE);
    examine(near.len());
    let open = near.iter().rposition(|byte| matches!(byte, b'{' | b'}'))?;
    let (outside, inside) = near.split_at_checked(open)?;
    if !inside.starts_with(b"{") {
        return None;
    }
    let outside = outside.trim_ascii_end();
    let outside = outside
        .strip_suffix(b":")
        .or_else(|| outside.strip_suffix(b"="))
        .or(outside.ends_with(b"\"").then_some(outside))?;
    let outside = outside.trim_ascii_end();
    let quotes = suffix_len(outside, |byte| matches!(byte, b'"' | b'\'' | b'\\'));
    let name = matching_suffix(outside.get(..outside.len() - quotes)?, MAX_DISTANCE, is_name_byte);
    (!name.is_empty()).then_some(name)
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn a_name_is_found_before_its_value() {
        for text in [
            "- name: DB_PASSWORD\n  ",
            "{\"name\": \"DB_PASSWORD\", \"",
            r#"{\"name\":\"DB_PASSWORD\",\""#,
            "<add key=\"DB_PASSWORD\" ",
            "<property name='DB_PASSWORD' ",
        ] {
            assert_eq!(name_before(text.as_bytes()), Some(b"DB_PASSWORD".as_slice()), "{text}");
        }
        assert_eq!(name_before(b"DB_PASSWORD "), None);
        assert_eq!(name_before(b"title: DB_PASSWORD\n"), None);
    }

    #[test]
    fn a_value_with_the_name_of_a_secret_is_redacted() {
        for (before, after) in [
            ("- name: DB_PASSWORD\n  value: ", "\n"),
            ("- name: DB_PASSWORD\n  value: \"", "\"\n"),
            ("{\"name\": \"DB_PASSWORD\", \"value\": \"", "\"}"),
            ("<add key=\"ClearTextPassword\" value=\"", "\" />"),
            ("<property name=\"password\" value=\"", "\"/>"),
            (
                "\"db_password\": {\n \"sensitive\": true,\n \"type\": \"string\",\n \"value\": \"",
                "\"\n}",
            ),
            ("\"gitlab-token\": {\"gitlab.com\": \"", "\"}"),
        ] {
            let text = format!("{before}a8Kd0f3Lq9Zx{after}");
            assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]{after}"));
        }
        assert_eq!(
            redacted("variable \"db_password\" {\n  default = \"a8Kd0f3Lq9Zx\"\n}"),
            "variable \"db_password\" {\n  default = \"[redacted:labelled_secret]\"\n}"
        );
        assert_no_secret("- name: LOG_LEVEL\n  value: a8Kd0f3Lq9Zx");
        assert_no_secret("\"token\": {\"type\": \"a8Kd0f3Lq9Zx\"}");
        assert_no_secret("- name: DB_PASSWORD\n  valueFrom:\n    name: a8Kd0f3Lq9Zx");
    }
}
