//! Writing records in the text notation of the tests and parsing them again gives the same records.

use midcourse_core::{TrajectoryRecord, parse_notation, write_notation};
use proptest::prelude::*;

fn line() -> impl Strategy<Value = String> {
    let plain = "[ -~]{0,20}";
    let json = "[ -~\n\"]{0,20}";
    prop_oneof![
        (plain, plain).prop_map(|(args, result)| format!("bash {args} -> {result}")),
        (plain, plain).prop_map(|(args, result)| format!("read {args} !! {result}")),
        plain.prop_map(|args| format!("write {args} ..")),
        plain.prop_map(|reason| format!("+30s rm x xx {reason}")),
        (json, json).prop_map(|(args, result)| format!(
            "& ~3s edit {} -> {}",
            serde_json::json!({"path": args, "n": 1}),
            serde_json::json!(result)
        )),
        plain.prop_map(|text| format!("user: {text}")),
        plain.prop_map(|text| format!("assistant: {text}")),
        Just("turn".to_owned()),
        Just("2x 3x make -> a tool that is named like a repetition".to_owned()),
        Just("1x #make -> a tool that is named like a comment".to_owned()),
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
    fn parsing_written_notation_gives_the_same_records(lines in prop::collection::vec(line(), 0..12)) {
        // A random line may not be valid notation; invalid lines are left out.
        let lines: Vec<_> =
            lines.into_iter().filter(|line| parse_notation(line).is_ok()).collect();
        let records: Vec<TrajectoryRecord> = parse_notation(&lines.join("\n")).unwrap();
        let written = write_notation(&records);
        prop_assert_eq!(parse_notation(&written).unwrap(), records, "{}", written);
    }

    #[test]
    fn parsing_never_panics(text in "\\PC{0,200}") {
        let _ = parse_notation(&text);
    }
}
