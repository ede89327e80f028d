//! Tokens recognised by the lengths and separators of their parts: JSON web tokens, SendGrid
//! keys, and the bot tokens of Discord and Telegram.
//!
//! The prefilter finds the first bytes of a token or, for Telegram, the colon in the middle.

use super::bytes::{
    count_distinct, is_base64_byte, is_token_byte, last_bytes, prefix_len, suffix_len,
};
use super::kind::SecretKind::{
    AwsSecretKey, AzureKey, DiscordToken, Jwt, SendgridKey, ServiceToken, TelegramToken,
};
use super::view::{SecretSpan, View};

/// The minimum length of a JWT's header and of its payload, both in Base64. Even a header with
/// nothing but its `alg` field is longer.
const MIN_JWT_PART_LEN: usize = 12;

/// How many bytes of each part of a Discord token are read. The first part has at most 28 bytes;
/// one more is read, so that a longer part is noticed and rejected.
const MAX_DISCORD_PART_LEN: usize = 29;

/// The JSON web token whose `eyJ` is at `start`.
pub(super) fn find_jwt(view: View<'_>, start: usize) -> Option<SecretSpan> {
    let header_end = start + prefix_len(view.ahead(start), is_token_byte);
    let payload = view.ahead(header_end).strip_prefix(b".")?;
    // The payload is Base64 of a JSON object, so it starts like `{"`, `{ `, `{\n` or `{\r`.
    let is_object =
        [b"eyJ", b"eyA", b"ewo", b"ew0"].iter().any(|start| payload.starts_with(*start));
    if header_end - start < MIN_JWT_PART_LEN || !is_object {
        return None;
    }
    let payload_len = prefix_len(payload, is_token_byte);
    let mut end = header_end + 1 + payload_len;
    if payload_len < MIN_JWT_PART_LEN {
        return None;
    }
    if view.is_cut(end) {
        return Some(SecretSpan { start, end, kind: Jwt });
    }
    if view.byte(end) != Some(b'.') {
        return None;
    }
    end += 1 + prefix_len(view.ahead(end + 1), is_token_byte);
    Some(SecretSpan { start, end, kind: Jwt })
}

/// The Discord bot token whose first part, the encoded user id, is at `start`.
pub(super) fn find_discord(view: View<'_>, start: usize) -> Option<SecretSpan> {
    let part_len =
        |at: usize| prefix_len(view.ahead_up_to(at, MAX_DISCORD_PART_LEN), is_token_byte);
    let is_dot = |at: usize| view.byte(at) == Some(b'.');
    let timestamp = start + part_len(start) + 1;
    let signature = timestamp + part_len(timestamp) + 1;
    let is_token = (23..=28).contains(&(timestamp - 1 - start))
        && (6..=7).contains(&(signature - 1 - timestamp))
        && part_len(signature) >= 27
        && is_dot(timestamp - 1)
        && is_dot(signature - 1);
    is_token.then(|| {
        let end = signature + prefix_len(view.ahead(signature), is_token_byte);
        SecretSpan { start, end, kind: DiscordToken }
    })
}

/// The SendGrid key whose `SG.` is at `start`.
pub(super) fn find_sendgrid(view: View<'_>, start: usize) -> Option<SecretSpan> {
    let id = start + b"SG.".len();
    let dot = id + 22;
    let is_key = view.byte(dot) == Some(b'.')
        && prefix_len(view.ahead_up_to(id, 22), is_token_byte) == 22
        && prefix_len(view.ahead_up_to(dot + 1, 43), is_token_byte) == 43;
    is_key.then(|| {
        let end = dot + 1 + prefix_len(view.ahead(dot + 1), is_token_byte);
        SecretSpan { start, end, kind: SendgridKey }
    })
}

/// Finds an Azure client secret: three characters, a digit, `Q~`, and 31 to 34 more characters.
/// `digit` is the position of the digit.
pub(super) fn find_azure_secret(view: View<'_>, digit: usize) -> Option<SecretSpan> {
    let is_secret_byte = |byte: u8| is_token_byte(byte) || matches!(byte, b'.' | b'~');
    let start = digit.checked_sub(3)?;
    let before = suffix_len(last_bytes(view.before(digit), 4), is_secret_byte);
    let len = prefix_len(view.ahead_up_to(digit + 3, 40), is_secret_byte);
    let end = digit + 3 + len;
    (before == 3 && (31..=34).contains(&len)).then_some(SecretSpan { start, end, kind: AzureKey })
}

/// The Mailchimp key whose suffix `-us` is at `suffix`.
pub(super) fn find_mailchimp(view: View<'_>, suffix: usize) -> Option<SecretSpan> {
    let key = suffix_len(last_bytes(view.before(suffix), 33), |byte| byte.is_ascii_hexdigit());
    let centre = prefix_len(view.ahead_up_to(suffix + 3, 3), |byte| byte.is_ascii_digit());
    let end = suffix + 3 + centre;
    let is_key =
        key == 32 && (1..3).contains(&centre) && !view.byte(end).is_some_and(is_token_byte);
    is_key.then(|| SecretSpan { start: suffix - key, end, kind: ServiceToken })
}

/// The secret of an AWS access key whose id ends at `end`, as in a CSV file.
pub(super) fn find_aws_secret(view: View<'_>, end: usize) -> Option<SecretSpan> {
    let gap = prefix_len(view.ahead_up_to(end, 6), |byte| b" ,:;'\"\\\t\n".contains(&byte));
    let start = end + gap;
    let len = prefix_len(view.ahead_up_to(start, 41), is_base64_byte);
    let sample = view.ahead_up_to(start, len);
    let has_capitals = sample.iter().filter(|byte| byte.is_ascii_uppercase()).count() > 4;
    (gap > 0 && len == 40 && has_capitals && count_distinct(sample) > 16).then_some(SecretSpan {
        start,
        end: start + len,
        kind: AwsSecretKey,
    })
}

/// The Telegram bot token whose colon is at `colon`.
pub(super) fn find_telegram(view: View<'_>, colon: usize) -> Option<SecretSpan> {
    // A bot id has at most 10 digits. Up to 11 are counted, so that a longer number is rejected.
    let digits = suffix_len(last_bytes(view.before(colon), 11), |byte| byte.is_ascii_digit());
    let key = view.ahead_up_to(colon + 1, 36);
    if !(8..=10).contains(&digits) || !key.starts_with(b"AA") {
        return None;
    }
    let key_len = prefix_len(key, is_token_byte);
    let (start, end) = (colon - digits, colon + 1 + key_len);
    // In the URL of a Telegram request, `bot` comes directly before the token.
    let is_start = view.is_token_boundary(start) || view.before(start).ends_with(b"/bot");
    (is_start && (34..=35).contains(&key_len)).then_some(SecretSpan {
        start,
        end,
        kind: TelegramToken,
    })
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    const HEADER: &str = concat!("ey", "JhbGciOiJIUzI1NiJ9");
    const PAYLOAD: &str = concat!("ey", "JzdWIiOiIxMjM0NTY3ODkwIn0");

    #[test]
    fn a_json_web_token_is_redacted() {
        let token = format!("{HEADER}.{PAYLOAD}.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U");
        assert_eq!(redacted(&format!("got {token}.")), "got [redacted:jwt].");
        assert_eq!(redacted(&format!(r#"{{\"t\":\n{token}\"}}"#)), r#"{\"t\":\n[redacted:jwt]\"}"#);
        assert_eq!(redacted(&format!("{HEADER}.{PAYLOAD}.")), "[redacted:jwt]");
    }

    #[test]
    fn a_json_web_token_that_was_cut_off_is_redacted() {
        for after in ["", "...", "…", "\n[12 bytes left out]"] {
            let text = format!("got {HEADER}.{PAYLOAD}{after}");
            assert_eq!(redacted(&text), format!("got [redacted:jwt]{after}"));
        }
    }

    #[test]
    fn an_incomplete_json_web_token_is_kept() {
        assert_no_secret(HEADER);
        assert_no_secret(&format!("{HEADER}.{HEADER} b"));
        assert_no_secret(&format!("{HEADER}.toString().length"));
        assert_no_secret(&format!("x{HEADER}.{PAYLOAD}.abc"));
        assert_no_secret("eyJ.eyJ.eyJ");
    }

    #[test]
    fn a_discord_bot_token_is_redacted() {
        let token = concat!(
            "MTAxMjM0NTY3ODkwMTIzNDU2",
            ".GhIjKl.",
            "abcdefghijklmnopqrstuvwxyz0123456789AB"
        );
        assert_eq!(redacted(&format!("run({token})")), "run([redacted:discord_token])");
        assert_no_secret(&format!("x{token}"));
        assert_no_secret("Module1234567890123456789.config.abcdefghijklmnopqrstuv");
    }

    #[test]
    fn a_sendgrid_key_is_redacted() {
        let key = format!("SG.{}.{}", "a1B2".repeat(5) + "xY", "c3D4".repeat(10) + "zW5");
        assert_eq!(redacted(&format!("use {key}.")), "use [redacted:sendgrid_key].");
        assert_no_secret("MSG.len() == SG.a.b");
        assert_no_secret(&key.replace("xY.", "."));
    }

    #[test]
    fn an_azure_secret_and_a_mailchimp_key_are_redacted() {
        let secret = concat!("FdL8Q~", "en2c7o4uZC3Nuqb3pXHSO0nCSTapKTRUpp");
        assert_eq!(redacted(&format!("key={secret} b")), "key=[redacted:azure_key] b");
        let key = concat!("34d3cc8bce33d4b9b4dba7e93e8678a0", "-us20");
        assert_eq!(redacted(&format!("'{key}'")), "'[redacted:service_token]'");
        assert_no_secret("34d3cc8bce33d4b9b4dba7e93e8678a0-usual");
    }

    #[test]
    fn the_secret_after_an_aws_access_key_is_redacted() {
        let id = concat!("AKIA", "IOSFODNN7QRSTUVW");
        let secret = concat!("wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYzzzzzzzKEY");
        assert_eq!(
            redacted(&format!("me,{id},{secret}\n")),
            "me,[redacted:aws_access_key],[redacted:aws_secret_key]\n"
        );
        assert_no_secret(&format!("me,{secret}\n"));
    }

    #[test]
    fn a_telegram_bot_token_is_redacted() {
        let token = concat!("123456789", ":AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1");
        assert_eq!(redacted(&format!("use {token}")), "use [redacted:telegram_token]");
        assert_eq!(
            redacted(&format!("https://api.telegram.org/bot{token}/getMe")),
            "https://api.telegram.org/bot[redacted:telegram_token]/getMe"
        );
        assert_no_secret("123456789:AAbc");
        assert_no_secret("at 12:30:45, 1234567890:AB");
    }
}
