//! Redaction takes linear time on any text: twice the text, at most twice the work.
//!
//! Work is the number of bytes that the rules examine, which does not depend on the machine.

use proptest::prelude::*;

use super::Redaction;
use super::bytes::take_examined;
use super::properties::PIECES;

/// The most bytes that the rules may examine for each byte of a text.
const MAX_WORK_PER_BYTE: usize = 320;

/// The bytes that the rules examine in a text.
fn work(text: &str) -> usize {
    take_examined();
    let _ = Redaction::default().redact(text);
    take_examined()
}

#[track_caller]
fn check(piece: &str) {
    let count = 8192 / piece.len().max(1) + 1;
    let (once, twice) = (piece.repeat(count), piece.repeat(2 * count));
    let (work_once, work_twice) = (work(&once), work(&twice));
    assert!(work_once <= MAX_WORK_PER_BYTE * once.len() + 4096, "{work_once} for {piece:?}");
    let expected = work_once.saturating_mul(2) + 8192;
    assert!(work_twice <= expected + expected / 8, "{work_once} and {work_twice} for {piece:?}");
}

#[test]
fn texts_made_to_be_slow_take_linear_time() {
    for piece in [
        "cookie:a=",
        "set-cookie:a=",
        "Cookie: a=b;",
        "password: ",
        "password=",
        "password=\"",
        "password:'a b ",
        "token = \"a",
        "\"password\", \"",
        "curl -u a:",
        "mysql -pa ",
        " -p ",
        " --password ",
        "echo a | ",
        "htpasswd -b a ",
        "net use ",
        "a://b:",
        "a:1234:b:c:",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----a b ",
        "MIIEpAIBAAKCAQEA7bq4Zk1v\n",
        "-----END PRIVATE KEY-----",
        "eyJhbGciOiJI.eyJ ",
        "eyJ",
        // The slowest known text: the rules examine 220 bytes for each of its bytes.
        "/eyJ",
        "ewo",
        "LS0tLS1CRUdJTi ",
        "sk-ant-a ",
        "name: password\nvalue: ",
        "value=",
        "{\"value\": \"",
        "kind: Secret\ndata:\n  a: ",
        "data:",
        "stringData:\n  a: b\n",
        "recovery codes: ",
        "<password a=\"",
        "<a>",
        "<value>",
        "[redacted:",
        "Basic ",
        "PASSWORD '",
        "password is ",
        "machine a login b password ",
        "0Q~",
    ] {
        check(piece);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn repeated_pieces_take_linear_time(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..5),
    ) {
        check(&pieces.concat());
    }
}
