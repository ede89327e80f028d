//! Redaction. The input is a text; if it has a NUL byte, the part before it is also used as the
//! name of a field, and a secret is planted at its place.

use midcourse::{Redacted, Redaction};

/// Secrets that have to be found wherever they stand, in pieces so that no scanner of repositories
/// reports them.
const PLANTED: [&str; 3] = [
    concat!("gh", "p_a3B7cD4eF5gH6iJ7kL8mN9oP0qR1sT2uV3wX"),
    concat!("AK", "IAIOSFODNN7QRSTUVW"),
    concat!("sk-", "ant-api03-a3B7cD4eF5gH6iJ7kL8mN9oP0qR1sT2uV3wXyZ4aB5cD6eF7gH8"),
];

const MARKER: &str = "[redacted:";

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let redaction = Redaction::default();
    let custom = Redaction::default().with_prefix("acme_live_").unwrap();
    check_text(&redaction, text);
    check_text(&custom, text);
    let (name, rest) = text.split_once('\0').unwrap_or(("password", text));
    check_field(&redaction, name, rest);
    for secret in PLANTED {
        let text = format!("{name} {secret} {rest}");
        let redacted = redaction.redact(&text).map(|redacted| redacted.text);
        let redacted = redacted.unwrap_or_else(|| panic!("found no secret in {text:?}"));
        // The input itself may contain it inside of another word.
        let others = name.matches(secret).count() + rest.matches(secret).count();
        assert!(redacted.matches(secret).count() <= others, "{redacted:?}");
    }
}

fn check_text(redaction: &Redaction, text: &str) {
    let once = redaction.redact(text);
    assert_eq!(once, redaction.redact(text), "redaction depends on something else");
    let Some(once) = once else { return };
    check_kept(text, &once);
    assert_eq!(redaction.redact(&once.text), None, "{:?} from {text:?}", once.text);
}

fn check_field(redaction: &Redaction, name: &str, text: &str) {
    let Some(once) = redaction.redact_field(name, text) else { return };
    check_kept(text, &once);
    assert_eq!(redaction.redact_field(name, &once.text), None, "{:?} from {text:?}", once.text);
}

/// Everything but the secrets is in the result, in order.
fn check_kept(text: &str, once: &Redacted) {
    assert!(once.count > 0 && !once.kinds.is_empty());
    let is_marker = |rest: &str| {
        once.kinds.iter().find_map(|kind| {
            let marker = format!("{MARKER}{}]", kind.name());
            rest.starts_with(&marker).then_some(marker.len())
        })
    };
    // Markers may be in the text already, and may then be kept or be part of a secret.
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = once.text[at..].find(MARKER) {
        at += found;
        if let Some(length) = is_marker(&once.text[at..]) {
            parts.push(&once.text[start..at]);
            at += length;
            start = at;
        } else {
            at += MARKER.len();
        }
    }
    parts.push(&once.text[start..]);
    assert!(parts.len() > once.count as usize, "fewer markers than secrets: {:?}", once.text);
    let mut rest = text;
    for part in &parts {
        let Some(at) = rest.find(part) else { panic!("{:?} from {text:?}", once.text) };
        rest = &rest[at + part.len()..];
    }
    assert!(text.starts_with(parts[0]) && text.ends_with(parts[parts.len() - 1]));
}
