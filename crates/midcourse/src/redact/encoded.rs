//! Secrets in Base64: private keys, service accounts, and logins after `Basic`.
//!
//! The first bytes are decoded to see what the text is. A certificate or other JSON is not secret.

use super::bytes::{contains, is_base64_byte, prefix_len};
use super::kind::SecretKind::PrivateKey;
use super::view::{SecretSpan, View};

/// How many bytes of the encoded text are decoded.
const SAMPLE_LEN: usize = 256;

/// The minimum length of an encoded private key or service account, in bytes.
const MIN_ENCODED_LEN: usize = 64;

/// The private key whose encoded `-----BEGIN` is at `start`.
pub(super) fn find_private_key(view: View<'_>, start: usize) -> Option<SecretSpan> {
    const ENCODED_BEGIN: &[u8] = b"LS0tLS1CRUdJTi";
    let is_begin = view.ahead(start).starts_with(ENCODED_BEGIN);
    is_begin.then(|| find(view, start, b"PRIVATE KEY"))?
}

/// The key file of a service account whose encoded `{` is at `start`.
pub(super) fn find_service_account(view: View<'_>, start: usize) -> Option<SecretSpan> {
    find(view, start, b"service_account").or_else(|| find(view, start, b"private_key"))
}

#[inline(never)]
fn find(view: View<'_>, start: usize, part: &[u8]) -> Option<SecretSpan> {
    let sample = view.ahead_up_to(start, SAMPLE_LEN);
    let sample = sample.get(..prefix_len(sample, is_base64_byte))?;
    let mut decoded = [0; SAMPLE_LEN];
    if sample.len() < MIN_ENCODED_LEN || !contains(decode(sample, &mut decoded), part) {
        return None;
    }
    let end = start + prefix_len(view.ahead(start), is_base64_byte);
    Some(SecretSpan { start, end: end_of_lines(view, end), kind: PrivateKey })
}

/// The end of Base64 that continues on the next lines, each of which is long.
fn end_of_lines(view: View<'_>, mut end: usize) -> usize {
    const MAX_INDENT: usize = 16;
    const MIN_LINE_LEN: usize = 40;
    loop {
        let gap = prefix_len(view.ahead_up_to(end, MAX_INDENT), |byte| byte.is_ascii_whitespace());
        let line = prefix_len(view.ahead(end + gap), is_base64_byte);
        if gap == 0 || line < MIN_LINE_LEN {
            return end;
        }
        end += gap + line;
    }
}

/// Decodes Base64 as far as `decoded` has space.
pub(super) fn decode<'a>(encoded: &[u8], decoded: &'a mut [u8]) -> &'a [u8] {
    let (mut bits, mut bit_count, mut len) = (0_u32, 0, 0);
    for byte in encoded.iter().take_while(|byte| **byte != b'=') {
        let six_bits = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = bits << 6 & 0xffff | u32::from(six_bits);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            let Some(target) = decoded.get_mut(len) else { break };
            *target = u8::try_from(bits >> bit_count & 0xff).unwrap_or_default();
            len += 1;
        }
    }
    decoded.get(..len).unwrap_or_default()
}

/// Whether Base64 decodes to `user:password`: printable ASCII with a colon.
pub(super) fn is_encoded_login(encoded: &[u8]) -> bool {
    let mut decoded = [0; SAMPLE_LEN];
    let decoded = decode(encoded, &mut decoded);
    decoded.contains(&b':') && decoded.iter().all(|byte| (0x20..0x7f).contains(byte))
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    const KEY: &str = "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFcEFJQkFBS0NBUUVBN2JxNFprMXZY\
                       b0o4eVRncTJtUjVzVzlkTGZIYzN1Tnh";
    const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUVwQUlCQUFLQ0FRRUE3YnE0WmsxdlhvS\
                               jh5VGdxMm1SNXNXOWRMZkhjM3VOeA==";
    const ACCOUNT: &str = "ewogICJ0eXBlIjogInNlcnZpY2VfYWNjb3VudCIsCiAgInByb2plY3RfaWQiOiAiYSIsCiAgInByaXZhd\
                           GVfa2V5IjogIiJ9";

    #[test]
    fn an_encoded_private_key_is_redacted() {
        for (before, after) in [("", ""), ("client-key-data: ", "\n"), ("key=\"", "\"")] {
            let text = format!("{before}{KEY}{after}");
            assert_eq!(redacted(&text), format!("{before}[redacted:private_key]{after}"));
        }
        assert_no_secret(&format!("certificate-authority-data: {CERTIFICATE}"));
    }

    #[test]
    fn an_encoded_service_account_is_redacted() {
        assert_eq!(redacted(&format!("a {ACCOUNT} b")), "a [redacted:private_key] b");
        assert_no_secret(
            "ewogICJ0eXBlIjogIm1vZHVsZSIsCiAgIm5hbWUiOiAiYSIsCiAgInZlcnNpb24iOiAiMSJ9",
        );
    }
}
