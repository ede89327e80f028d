//! The values in the manifest of a Kubernetes secret.
//!
//! Under `data:` a secret has names that the user chose and values in Base64, so neither the names
//! nor the values look secret by themselves. A config map has the same form with plain text.

use super::bytes::{contains, contains_any, is_base64_byte, prefix_len, suffix_len};
use super::false_positives::contains_placeholder;
use super::kind::SecretKind::LabelledSecret;
use super::marker::MARKER_START;
use super::view::{SecretSpan, View};

/// The most entries of a secret that are read.
const MAX_ENTRIES: usize = 64;

/// The longest name of an entry, in bytes.
const MAX_NAME_LEN: usize = 128;

/// The shortest value that is redacted, in bytes. Four bytes of Base64 are three bytes.
const MIN_VALUE_LEN: usize = 4;

/// A field with the data of a manifest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data {
    /// The position after the colon.
    start: usize,
    /// Whether the values are plain text instead of Base64.
    is_plain: bool,
    /// The number of spaces before the field, if it is on a line of its own.
    indent: usize,
}

/// The field `data:` or `stringData:` whose colon or closing quote is at `last`.
pub(super) fn find_data(view: View<'_>, last: usize) -> Option<Data> {
    let before = view.before(last);
    let is_plain = before.ends_with(b"stringData");
    let name: &[u8] = if is_plain { b"stringData" } else { b"data" };
    let before = before.strip_suffix(name)?;
    let colon = if view.byte(last) == Some(b':') { last } else { last + 1 };
    let is_field = match before.last() {
        None | Some(b'\n' | b'"') => true,
        Some(b' ') => before.get(..before.len() - spaces_before(before))?.last() != Some(&b':'),
        _ => before.ends_with(b"\\n"),
    };
    let is_colon = view.byte(colon) == Some(b':');
    (is_field && is_colon).then(|| Data {
        start: colon + 1,
        is_plain,
        indent: spaces_before(before),
    })
}

fn spaces_before(text: &[u8]) -> usize {
    suffix_len(super::bytes::last_bytes(text, 32), |byte| byte == b' ')
}

/// Whether a text contains the manifest of a secret.
pub(super) fn contains_secret(text: &[u8]) -> bool {
    contains_any(
        text,
        &[
            b"kind: Secret",
            b"\"kind\": \"Secret\"",
            b"\"kind\":\"Secret\"",
            b"\\\"kind\\\": \\\"Secret",
        ],
    )
}

/// The values of a manifest's data, first to last.
#[inline(never)]
pub(super) fn find_values(view: View<'_>, data: &Data, has_secret: bool) -> Vec<SecretSpan> {
    let mut values = Vec::new();
    if !has_secret && !data.is_plain {
        return values;
    }
    let mut at = data.start;
    for _ in 0..MAX_ENTRIES {
        let Some((start, end, next)) = next_entry(view, at, data) else { break };
        let value = view.ahead_up_to(start, (end - start).min(MAX_NAME_LEN));
        let is_base64 =
            value.iter().all(|byte| is_base64_byte(*byte)) && (end - start).is_multiple_of(4);
        let is_marker = contains(
            view.ahead_up_to(start, MAX_NAME_LEN.min(end - start)),
            MARKER_START.as_bytes(),
        );
        if end - start >= MIN_VALUE_LEN
            && (data.is_plain || is_base64)
            && !is_marker
            && !contains_placeholder(value)
        {
            values.push(SecretSpan { start, end, kind: LabelledSecret });
        }
        at = next;
    }
    values
}

/// The start and end of the next value, and the position after its entry.
fn next_entry(view: View<'_>, at: usize, data: &Data) -> Option<(usize, usize, usize)> {
    // Between entries: spaces, line ends (also escaped), commas, the brackets of JSON and quotes.
    let ahead = view.ahead_up_to(at, MAX_NAME_LEN);
    let is_gap = |byte: u8| byte.is_ascii_whitespace() || b"{,\"\\".contains(&byte);
    let mut gap = prefix_len(ahead, is_gap);
    let between = ahead.get(..gap)?;
    // In JSON, the `n` of an escaped line end is part of the gap.
    if between.ends_with(b"\\") && ahead.get(gap) == Some(&b'n') {
        gap += 1 + prefix_len(ahead.get(gap + 1..)?, is_gap);
    }
    let between = ahead.get(..gap)?;
    let is_json = between.iter().any(|byte| matches!(byte, b'{' | b',' | b'"'));
    let indent = suffix_len(between, |byte| byte == b' ');
    if !is_json
        && (indent <= data.indent || !between.iter().any(|byte| matches!(byte, b'\n' | b'n')))
    {
        return None;
    }
    let name_start = at + gap;
    let name = view.ahead_up_to(name_start, MAX_NAME_LEN);
    let name_len =
        prefix_len(name, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    let mut value_start = name_start + name_len;
    let close = prefix_len(view.ahead_up_to(value_start, 4), |byte| matches!(byte, b'"' | b'\\'));
    value_start += close;
    if name_len == 0 || view.byte(value_start) != Some(b':') {
        return None;
    }
    value_start += 1;
    value_start += prefix_len(view.ahead_up_to(value_start, 8), |byte| {
        matches!(byte, b' ' | b'"' | b'\'' | b'\\')
    });
    let is_value_byte = |byte: u8| byte > b' ' && !matches!(byte, b'"' | b'\'' | b'\\' | b',');
    let len = prefix_len(view.ahead(value_start), is_value_byte);
    let end = value_start + len;
    let close = prefix_len(view.ahead_up_to(end, 2), |byte| matches!(byte, b'"' | b'\''));
    // A block scalar (`|`) or an object is not read.
    (len > 0 && view.byte(value_start) != Some(b'|')).then_some((value_start, end, end + close))
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn the_values_of_a_secret_are_redacted() {
        let text = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ntype: Opaque\ndata:\n  \
                    username: YWRtaW4=\n  host: ZGIuaW50ZXJuYWw=\n---\na: b\n";
        let expected = text
            .replace("YWRtaW4=", "[redacted:labelled_secret]")
            .replace("ZGIuaW50ZXJuYWw=", "[redacted:labelled_secret]");
        assert_eq!(redacted(text), expected);
        let text = "apiVersion: v1\ndata:\n  a: YWRtaW4=\nkind: Secret\n";
        assert_eq!(redacted(text), text.replace("YWRtaW4=", "[redacted:labelled_secret]"));
        let text = "stringData:\n  user: admin7\nkind: Secret\n";
        assert_eq!(redacted(text), text.replace("admin7", "[redacted:labelled_secret]"));
        let text = r#"{"apiVersion": "v1", "data": {"a": "YWRtaW4=", "b": "ZGIuaW50ZXJuYWw="}, "kind": "Secret"}"#;
        let expected = text
            .replace("YWRtaW4=", "[redacted:labelled_secret]")
            .replace("ZGIuaW50ZXJuYWw=", "[redacted:labelled_secret]");
        assert_eq!(redacted(text), expected);
    }

    #[test]
    fn other_data_is_kept() {
        for text in [
            "kind: ConfigMap\ndata:\n  a: YWRtaW4=\n",
            "kind: Secret\ndata:\n  a: plain text\nb: c\n",
            "{\"data\": {\"a\": \"YWRtaW4=\"}}",
            "data: a\nkind: Secret",
        ] {
            assert_no_secret(text);
        }
    }
}
