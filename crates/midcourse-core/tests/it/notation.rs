//! The notation reads back what it writes.

use midcourse_core::{TrajectoryRecord, parse_notation, write_notation};
use proptest::prelude::*;

fn line() -> impl Strategy<Value = String> {
    let words = "[ -~]{0,20}";
    let json = "[ -~\n\"]{0,20}";
    prop_oneof![
        (words, words).prop_map(|(args, result)| format!("bash {args} -> {result}")),
        (words, words).prop_map(|(args, result)| format!("read {args} !! {result}")),
        words.prop_map(|args| format!("write {args} ..")),
        words.prop_map(|reason| format!("+30s rm x xx {reason}")),
        (json, json).prop_map(|(args, result)| format!(
            "& ~3s edit {} -> {}",
            serde_json::json!({"path": args, "n": 1}),
            serde_json::json!(result)
        )),
        words.prop_map(|text| format!("user: {text}")),
        words.prop_map(|text| format!("assistant: {text}")),
        Just("compaction".to_owned()),
        Just("resume".to_owned()),
        Just("deadline 90s".to_owned()),
        Just("deadline none".to_owned()),
        Just("file out/report.md".to_owned()),
        Just("prompt second".to_owned()),
        Just("end completed".to_owned()),
    ]
}

proptest! {
    #[test]
    fn what_is_read_is_written_so_that_it_reads_the_same(lines in prop::collection::vec(line(), 0..12)) {
        // Random words may spell something that is no line; those are left out.
        let lines: Vec<_> =
            lines.into_iter().filter(|line| parse_notation(line).is_ok()).collect();
        let records: Vec<TrajectoryRecord> = parse_notation(&lines.join("\n")).unwrap();
        let written = write_notation(&records);
        prop_assert_eq!(parse_notation(&written).unwrap(), records, "{}", written);
    }

    #[test]
    fn nothing_makes_it_panic(text in "\\PC{0,200}") {
        let _ = parse_notation(&text);
    }
}
