//! Tests of how short results are read.

use super::*;

#[test]
fn empty_search_results_are_recognized() {
    for text in [
        "",
        "No matches found",
        "No files found",
        "[]",
        "0 results",
        "Found 0 files",
        "no results for that query.",
        "{\"results\": [], \"total\": 0}",
        "(0 rows)",
        "Nothing found",
        "No relevant documents were found in the index",
    ] {
        assert!(ShortResult::of(text, true).nothing_found, "{text}");
    }
    for text in ["3 matches", "No, use b.rs instead", "0.5", "{\"ids\":[],\"n\":3}", "ok"] {
        assert!(!ShortResult::of(text, true).nothing_found, "{text}");
    }
}

#[test]
fn outages_are_recognized_and_plain_numbers_are_not() {
    for text in [
        "HTTP/1.1 503 Service Unavailable",
        "{\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
        "curl: (7) Failed to connect to api port 443: Connection refused",
        "{\"status\": 429, \"message\": \"slow down\"}",
        "<title>502 Bad Gateway</title>",
    ] {
        assert!(ShortResult::of(text, false).service_down, "{text}");
    }
    for text in [
        "503 files copied",
        "status: 200",
        "line 429: fn main()",
        "all good",
        "The file src/ratelimit.rs has been updated.",
        "502 src/a.rs, error.rs",
        "fix rate limiter, 3 files",
    ] {
        assert!(!ShortResult::of(text, false).service_down, "{text}");
    }
}

#[test]
fn refusals_are_recognized_even_if_their_reason_is_long() {
    let reason = "The command sends files to a host that the user did not name. ".repeat(20);
    for text in [
        "This command require approval",
        "Permission for this action was denied by the Claude Code auto mode classifier.",
        &format!("Permission for this action was denied by the classifier. Reason: {reason}"),
    ] {
        assert!(ShortResult::of(text, false).refused, "{text}");
    }
    let file = format!("{reason} This requires approval.");
    assert!(!ShortResult::of(&file, false).refused, "a long text with the phrase");
}

#[test]
fn pending_and_unchanged_results_are_recognized() {
    assert!(ShortResult::of("status: in_progress", false).pending);
    assert!(ShortResult::of("nothing to commit, working tree clean", false).unchanged);
    assert!(!ShortResult::of("done", false).pending);
}

#[test]
fn a_part_that_is_done_has_not_ended_the_whole() {
    assert!(!ShortResult::of("epoch 19/40 done, loss 0.42", false).ended);
    assert!(ShortResult::of("epoch 40/40 done, loss 0.42", false).ended);
    assert!(ShortResult::of("w4: terminated at 214/310 rows", false).ended);
}

#[test]
fn zero_changes_are_no_change() {
    for text in [r#"{"occurrencesChanged": 0}"#, "0 rows updated", "Updated 0 cells."] {
        assert!(ShortResult::of(text, false).unchanged, "{text}");
    }
    for text in
        [r#"{"occurrencesChanged": 10}"#, "3 rows updated, 0 errors", "updated", "wg0.conf edited"]
    {
        assert!(!ShortResult::of(text, false).unchanged, "{text}");
    }
}

#[test]
fn counts_of_nothing_are_nothing_found() {
    for text in ["0 messages", "No unread mails.", "no replies"] {
        assert!(ShortResult::of(text, true).nothing_found, "{text}");
    }
    for text in ["10 messages", "No, the mail of Monday has not been answered yet"] {
        assert!(!ShortResult::of(text, true).nothing_found, "{text}");
    }
}

#[test]
fn counts_of_done_things_and_empty_answers_are_recognized() {
    for text in ["12 rows appended", "1,840 labelled", "3 files were moved."] {
        assert!(counts_done(text), "{text}");
    }
    for text in ["0 rows appended", "12 rows", "rows appended", "3 of the 12 tests have not passed"]
    {
        assert!(!counts_done(text), "{text}");
    }
    for text in [r#"{"text": "", "pages": 1}"#, r#"{"data":{"result":[]}}"#, "[]"] {
        assert!(is_empty_answer(text), "{text}");
    }
    for text in [r#"{"error": "", "value": 3}"#, r#"{"text": "a"}"#, "no text"] {
        assert!(!is_empty_answer(text), "{text}");
    }
}

#[test]
fn a_line_that_begins_with_ok_is_good_news() {
    assert!(ShortResult::of("ok  \tacme/sync\t2.1s", false).positive);
    assert!(!ShortResult::of("oklahoma", false).positive);
}
