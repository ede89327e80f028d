//! Redacts the texts of an event, and shortens those that are too long for the store.
//!
//! Of a long text only the kept beginning and end are redacted, so that a huge text costs little. A
//! secret at the cut is redacted whole, even if only a part of it would be kept.

use super::body;
use super::settings::StoreSettings;
use crate::redact::{head, tail};

/// A text that was redacted or shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RedactedText {
    pub(super) text: String,
    pub(super) redactions: u32,
}

/// Redacts and shortens the value of a field. Returns `None` if the text stays as it is.
pub(super) fn redact(text: &str, field: &str, settings: &StoreSettings) -> Option<RedactedText> {
    let StoreSettings { redaction, body_limit, .. } = settings;
    if text.len() <= *body_limit {
        let redacted = redaction.redact_field(field, text)?;
        // Markers may make the text too long.
        let text = cut(&redacted.text, *body_limit).unwrap_or(redacted.text);
        return Some(RedactedText { text, redactions: redacted.count });
    }
    if let Some(redacted) = redaction.redact_value(field, text) {
        let text = cut(&redacted.text, *body_limit).unwrap_or(redacted.text);
        return Some(RedactedText { text, redactions: redacted.count });
    }
    let kept_len = body::kept_len(*body_limit);
    let (first, last) = (head(text, kept_len), tail(text, kept_len));
    let middle = text.get(first.len()..text.len() - last.len()).unwrap_or_default();
    let head_part = redaction.redact_part(text, 0..first.len());
    let tail_part = redaction.redact_part(text, text.len() - last.len()..text.len());
    let count = |part: &Option<crate::redact::Redacted>| part.as_ref().map_or(0, |part| part.count);
    let redactions = count(&head_part).saturating_add(count(&tail_part));
    let first = head_part.as_ref().map_or(first, |part| head(&part.text, kept_len));
    let last = tail_part.as_ref().map_or(last, |part| tail(&part.text, kept_len));
    Some(RedactedText { text: body::without_middle(first, middle, last), redactions })
}

/// Leaves out the middle of a text that is longer than `limit`.
fn cut(text: &str, limit: usize) -> Option<String> {
    if text.len() <= limit {
        return None;
    }
    let kept_len = body::kept_len(limit);
    let (first, last) = (head(text, kept_len), tail(text, kept_len));
    let middle = text.get(first.len()..text.len() - last.len())?;
    Some(body::without_middle(first, middle, last))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::string_slice, reason = "a test that slices wrongly fails")]

    use proptest::prelude::*;

    use super::super::body::MAX_NOTE_BYTES;
    use super::*;

    const TOKEN: &str = concat!("ghp", "_a3B7cD4eF5gH6iJ7kL8mN9oP0qR1sT2uV3wX");

    fn settings(body_limit: usize) -> StoreSettings {
        StoreSettings { body_limit, ..StoreSettings::default() }
    }

    #[test]
    fn a_secret_at_the_cut_is_redacted_wherever_the_cut_is() {
        let settings = settings(1000);
        for position in 370..480 {
            for from_end in [false, true] {
                let filler = "a line of text\n".repeat(200);
                let at = if from_end { filler.len() - position } else { position };
                let text = format!("{} {TOKEN} {}", &filler[..at], &filler[at..]);
                let short = redact(&text, "text", &settings).unwrap().text;
                assert!(short.len() <= 1000);
                for len in 8..TOKEN.len() {
                    assert!(!short.contains(&TOKEN[..len]), "{position}: {short}");
                    assert!(!short.contains(&TOKEN[TOKEN.len() - len..]), "{position}: {short}");
                }
            }
        }
    }

    #[test]
    fn a_marker_is_never_cut() {
        let text = format!("{} ", TOKEN).repeat(100);
        let short = redact(&text, "text", &settings(700)).unwrap();
        assert!(short.text.len() <= 700);
        let markers = short.text.matches("[redacted:github_token]").count();
        assert_eq!(short.text.matches("[redacted").count(), markers);
        assert_eq!(redact(&short.text, "text", &settings(700)), None);
    }

    proptest! {
        #[test]
        fn a_truncated_text_keeps_both_ends(text in "\\PC{0,900}", limit in MAX_NOTE_BYTES..700_usize) {
            let settings = StoreSettings { redaction: crate::Redaction::off(), ..settings(limit) };
            match redact(&text, "text", &settings) {
                None => prop_assert!(text.len() <= limit),
                Some(short) => {
                    let short = short.text;
                    prop_assert!(short.len() <= limit);
                    prop_assert_eq!(redact(&short, "text", &settings), None);
                    let (head, rest) = short.split_once("\n[").unwrap();
                    let (note, tail) = rest.split_once("]\n").unwrap();
                    prop_assert!(text.starts_with(head) && text.ends_with(tail));
                    let left_out = text.len() - head.len() - tail.len();
                    let expected = format!("{left_out} of {} bytes left out", text.len());
                    prop_assert!(note.starts_with(&expected));
                }
            }
        }
    }
}
