//! Tokens that are known by their parts: JSON web tokens, those of SendGrid, and those of the bots of
//! Discord and Telegram.

use super::shape::SecretShape::{DiscordToken, Jwt, SendgridKey, TelegramToken};
use super::sight::{Secret, Sight, count, count_back, in_token};

/// The shortest header and payload of a web token: `{"alg":"…"}`, encoded.
const JWT_PART_MIN: usize = 12;

/// No part of a bot's token that is looked for is longer.
const PART_MAX: usize = 29;

/// The token whose `eyJ` is at `start`.
pub(super) fn find_jwt(sight: Sight<'_>, start: usize) -> Option<Secret> {
    let header_end = start + count(sight.ahead(start), in_token);
    let payload = sight.ahead(header_end).strip_prefix(b".")?;
    // An encoded object: `{"` or, spaced out, `{ ` and `{` with a line end.
    let is_object =
        [b"eyJ", b"eyA", b"ewo", b"ew0"].iter().any(|begin| payload.starts_with(*begin));
    if header_end - start < JWT_PART_MIN || !is_object {
        return None;
    }
    let payload_length = count(payload, in_token);
    let mut end = header_end + 1 + payload_length;
    if payload_length < JWT_PART_MIN || sight.byte(end) != Some(b'.') {
        return None;
    }
    end += 1 + count(sight.ahead(end + 1), in_token);
    Some(Secret { start, end, shape: Jwt })
}

/// The token whose id begins at `start`.
pub(super) fn find_discord(sight: Sight<'_>, start: usize) -> Option<Secret> {
    let part = |at: usize| count(sight.head(at, PART_MAX), in_token);
    let is_dot = |at: usize| sight.byte(at) == Some(b'.');
    let stamp = start + part(start) + 1;
    let signature = stamp + part(stamp) + 1;
    let is_token = (23..=28).contains(&(stamp - 1 - start))
        && (6..=7).contains(&(signature - 1 - stamp))
        && part(signature) >= 27
        && is_dot(stamp - 1)
        && is_dot(signature - 1);
    is_token.then(|| {
        let end = signature + count(sight.ahead(signature), in_token);
        Secret { start, end, shape: DiscordToken }
    })
}

/// The key whose `SG.` is at `start`.
pub(super) fn find_sendgrid(sight: Sight<'_>, start: usize) -> Option<Secret> {
    let dot = start + b"SG.".len() + 22;
    let is_key = sight.byte(dot) == Some(b'.')
        && count(sight.head(start + 3, 22), in_token) == 22
        && count(sight.head(dot + 1, 43), in_token) == 43;
    is_key.then(|| {
        let end = dot + 1 + count(sight.ahead(dot + 1), in_token);
        Secret { start, end, shape: SendgridKey }
    })
}

/// The token whose colon is at `colon`.
pub(super) fn find_telegram(sight: Sight<'_>, colon: usize) -> Option<Secret> {
    let behind = sight.behind(colon);
    let behind = behind.get(behind.len().saturating_sub(11)..).unwrap_or_default();
    let digits = count_back(behind, |byte| byte.is_ascii_digit());
    let key = sight.head(colon + 1, 36);
    if !(8..=10).contains(&digits) || !key.starts_with(b"AA") {
        return None;
    }
    let length = count(key, in_token);
    let (start, end) = (colon - digits, colon + 1 + length);
    // In the address of a request, `bot` stands before it.
    let is_begun = sight.is_boundary(start) || sight.behind(start).ends_with(b"/bot");
    (is_begun && (34..=35).contains(&length)).then_some(Secret { start, end, shape: TelegramToken })
}

#[cfg(test)]
mod tests {
    use crate::redact::check::{gone, stays};

    const HEADER: &str = concat!("ey", "JhbGciOiJIUzI1NiJ9");
    const PAYLOAD: &str = concat!("ey", "JzdWIiOiIxMjM0NTY3ODkwIn0");

    #[test]
    fn a_web_token_goes() {
        let token = format!("{HEADER}.{PAYLOAD}.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U");
        assert_eq!(gone(&format!("got {token}.")), "got [redacted:jwt].");
        assert_eq!(gone(&format!(r#"{{\"t\":\n{token}\"}}"#)), r#"{\"t\":\n[redacted:jwt]\"}"#);
        assert_eq!(gone(&format!("{HEADER}.{PAYLOAD}.")), "[redacted:jwt]");
    }

    #[test]
    fn half_a_web_token_stays() {
        stays(HEADER);
        stays(&format!("{HEADER}.{HEADER}"));
        stays(&format!("{HEADER}.toString().length"));
        stays(&format!("x{HEADER}.{PAYLOAD}.abc"));
        stays("eyJ.eyJ.eyJ");
    }

    #[test]
    fn a_discord_token_goes() {
        let token = concat!(
            "MTAxMjM0NTY3ODkwMTIzNDU2",
            ".GhIjKl.",
            "abcdefghijklmnopqrstuvwxyz0123456789AB"
        );
        assert_eq!(gone(&format!("run({token})")), "run([redacted:discord_token])");
        stays(&format!("x{token}"));
        stays("Module1234567890123456789.config.abcdefghijklmnopqrstuv");
    }

    #[test]
    fn a_sendgrid_key_goes() {
        let key = format!("SG.{}.{}", "a1B2".repeat(5) + "xY", "c3D4".repeat(10) + "zW5");
        assert_eq!(gone(&format!("use {key}.")), "use [redacted:sendgrid_key].");
        stays("MSG.len() == SG.a.b");
        stays(&key.replace("xY.", "."));
    }

    #[test]
    fn a_telegram_token_goes() {
        let token = concat!("123456789", ":AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1");
        assert_eq!(gone(&format!("use {token}")), "use [redacted:telegram_token]");
        assert_eq!(
            gone(&format!("https://api.telegram.org/bot{token}/getMe")),
            "https://api.telegram.org/bot[redacted:telegram_token]/getMe"
        );
        stays("123456789:AAbc");
        stays("at 12:30:45, 1234567890:AB");
    }
}
