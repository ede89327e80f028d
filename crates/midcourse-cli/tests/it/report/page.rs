//! The page of `midcourse report --html`: whatever a run contains, it is only text.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{command, output, record, report, three_nights};
use crate::events::TempStore;

/// A run that has `text` in every place that an agent, a tool or a user can fill: a loop of three
/// failing calls, for which midcourse speaks, a refused call, a file, and a last word.
fn run_with(text: &str) -> Vec<Value> {
    let mut payloads = vec![
        json!({"kind": "run_described", "folder": text, "command": text, "host_version": text, "model": text}),
        json!({"kind": "message_appended", "message": {"role": "user", "content": text}}),
    ];
    for number in 1..=4 {
        let id = format!("{number}{text}");
        payloads.push(json!({"kind": "tool_started", "tool_call_id": id, "tool_name": text,
                             "args": {"command": text, text: text}}));
        let content = json!([{"type": "text", "text": format!("error: {text}")}]);
        payloads.push(json!({"kind": "tool_ended", "tool_call_id": id, "tool_name": text,
                             "result": {"content": content, "is_error": true}, "is_error": true}));
    }
    payloads.extend([
        json!({"kind": "denied", "tool_call_id": "d", "tool_name": text, "reason": text}),
        json!({"kind": "file_created", "path": text}),
        json!({"kind": "usage_reported", "usage": {"input_tokens": 5, "output_tokens": 5}}),
        json!({"kind": "message_appended", "message": {"role": "assistant", "stop_reason": "end_turn",
               "content": [{"type": "text", "text": text}]}}),
    ]);
    let line = |payload| {
        json!({"run_id": "r", "recorded_at_unix_ms": 1_772_500_000_000_u64,
                                "host": text, "payload": payload})
    };
    payloads.into_iter().map(line).collect()
}

fn page_of(text: &str) -> String {
    let place = TempStore::new();
    record(&place, &run_with(text));
    report(&place, &["r", "--html", "-"])
}

/// The tags of a page, in order, with their attributes. A `<` or `>` that is not part of a tag, or a
/// quote that ends an attribute too early, changes them.
fn tags(page: &str) -> Vec<&str> {
    // The style sheet contains `>`.
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, body) = rest.split_once("</style>").unwrap();
    [head, body]
        .iter()
        .flat_map(|part| part.split('<').skip(1))
        .map(|it| it.split('>').next().unwrap())
        .collect()
}

/// Fails unless every element is closed, in the right order.
#[track_caller]
fn assert_balanced(page: &str) {
    const VOID: [&str; 3] = ["meta", "!doctype", "rect"];
    let mut open: Vec<&str> = Vec::new();
    for tag in tags(page) {
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
        if tag.starts_with('/') {
            // A `<rect>` with a title is closed by a tag.
            if open.last() != Some(&name) && name == "rect" {
                continue;
            }
            assert_eq!(open.pop(), Some(name), "{open:?}");
        } else if !VOID.contains(&name) && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0]);
}

/// Fails if the page could load or run something.
#[track_caller]
fn assert_inert(page: &str) {
    let lower = page.to_ascii_lowercase();
    assert!(!lower.contains("<script"));
    for tag in tags(page) {
        let lower = tag.to_ascii_lowercase();
        for forbidden in
            [" src", " on", "http:", "https:", "javascript:", "<link", "<iframe", "style="]
        {
            let is_policy = lower.starts_with("meta http-equiv=\"content-security-policy\"");
            assert!(is_policy || !lower.contains(forbidden), "{forbidden}: {tag}");
        }
        if let Some((_, target)) = lower.split_once("href=") {
            assert!(target.starts_with("\"#m"), "{tag}");
        }
    }
    assert!(
        !lower.contains("url(") && !lower.contains("@import"),
        "the style sheet loads something"
    );
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';";
    let head = page.split("<title>").next().unwrap();
    assert!(head.contains(policy), "the policy comes before everything else");
}

#[test]
fn the_page_of_a_night_loads_nothing_and_is_well_formed() {
    for run in ["night-clean", "night-looped", "night-died"] {
        let page = report(three_nights(), &[run, "--html", "-"]);
        assert_inert(&page);
        assert_balanced(&page);
    }
    let page = report(three_nights(), &["night-looped", "--html", "-"]);
    assert!(page.contains("docker compose up -d postgres"), "the calls that show the loop");
    assert!(page.contains("port is already allocated"), "their results");
}

#[test]
fn the_page_is_written_to_a_file_with_the_name_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    output(command(three_nights(), &["report", "night-clean", "--html"]).current_dir(&folder));
    let page = std::fs::read_to_string(folder.path().join("midcourse-night-clean.html")).unwrap();
    assert!(page.ends_with("</html>\n"));
}

#[test]
fn a_very_long_line_is_cut_with_a_note() {
    let page = page_of(&format!("A {}", "<b>x</b> ".repeat(1_200_000)));
    assert!(page.len() < 300_000, "{}", page.len());
    assert!(page.contains("more characters)"));
    assert_inert(&page);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// The tags of a page do not depend on the texts in the run.
    #[test]
    fn hostile_texts_are_only_text(
        parts in prop::collection::vec(prop_oneof![
            Just("<script>alert(1)</script>".to_owned()),
            Just("\"><img src=x onerror=alert(1)>".to_owned()),
            Just("' onload='alert(1)".to_owned()),
            Just("</pre></main></style><!--".to_owned()),
            Just("javascript:alert(1)".to_owned()),
            Just("&lt;b&gt;&#60;".to_owned()),
            Just("\u{1b}[2J\u{1b}]0;x\u{7}".to_owned()),
            Just("\u{202e}evil\u{200b}\u{feff}\u{e0041}".to_owned()),
            "\\PC{1,20}",
        ], 1..4),
    ) {
        let page = page_of(&format!("Word {}", parts.concat()));
        assert_inert(&page);
        assert_balanced(&page);
        let hidden = ['\u{1b}', '\u{202e}', '\u{200b}', '\u{feff}', '\u{e0041}', '\u{7}'];
        prop_assert!(!page.contains(hidden));
        let expected = page_of("Word x");
        prop_assert_eq!(tags(&page), tags(&expected));
    }
}
