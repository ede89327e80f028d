//! Comparisons of stored runs, and properties of the alignment.

use midcourse::{ToolResult, TrajectoryPayload};
use proptest::prelude::*;
use serde_json::json;

use super::RowState;
use crate::page_data::compare;
use crate::page_data::tests::{Place, ended, started, user};

/// Stores a run: each step is a command and its result, or a message of the user.
fn store(place: &mut Place, run: &str, steps: &[(&str, &str)]) {
    for (number, (command, result)) in steps.iter().enumerate() {
        let id = number.to_string();
        match command.split_once(' ') {
            Some(("user", text)) => drop(place.add(run, 0, user(text))),
            Some((tool, args)) => {
                place.add(run, 0, started(&id, tool, json!({"command": args})));
                place.add(run, 1, ended(&id, tool, ToolResult::text(*result)));
            }
            None => unreachable!(),
        }
    }
}

fn states(place: &Place) -> (Option<usize>, Vec<String>) {
    let found = compare(&place.store, "a", "b").unwrap().unwrap();
    let rows = found.rows.iter().map(|row| {
        let title = |step: &Option<super::ComparedStep>| {
            step.as_ref().map_or("-".to_owned(), |step| step.title.clone())
        };
        format!("{:?}: {} | {}", row.state, title(&row.a), title(&row.b))
    });
    (found.first_difference, rows.collect())
}

#[test]
fn equal_steps_are_aligned_and_differences_named() {
    let mut place = Place::new();
    let a = [
        ("user Go.", ""),
        ("bash ls", "a b"),
        ("bash make", "ok"),
        ("edit x", ""),
        ("read y", "1"),
    ];
    let b = [
        ("user Go.", ""),
        ("bash make", "failed in a new way"),
        ("edit z", ""),
        ("read y", "1"),
        ("bash end", ""),
    ];
    store(&mut place, "a", &a);
    store(&mut place, "b", &b);
    let (first, rows) = states(&place);
    assert_eq!(first, Some(1));
    assert_eq!(
        rows,
        [
            "Same: Go. | Go.",
            "OnlyA: bash ls | -",
            "OtherResult: bash make | bash make",
            "OtherArguments: edit x | edit z",
            "Same: read y | read y",
            "OnlyB: - | bash end",
        ]
    );
    assert!(compare(&place.store, "a", "unknown").unwrap().is_none());
}

#[test]
fn volatile_parts_and_the_folder_of_the_project_make_no_difference() {
    let mut place = Place::new();
    for (run, folder, time) in [("a", "/home/me/one", "0.52s"), ("b", "/tmp/two", "1.93s")] {
        let described = TrajectoryPayload::RunDescribed {
            folder: Some(folder.to_owned()),
            command: None,
            host_version: None,
            model: None,
            exit_code: None,
        };
        place.add(run, 0, described);
        let result = format!("{folder}/src/a.rs: 12 passed in {time}");
        store(&mut place, run, &[(&format!("bash test {folder}/src"), &result)]);
    }
    assert_eq!(states(&place).0, None);
}

fn runs() -> impl Strategy<Value = Vec<(String, String)>> {
    let step = ("(bash|edit|user) [ab]", "[xy]");
    prop::collection::vec(step, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_step_is_in_one_row_and_in_order(a in runs(), b in runs()) {
        let mut place = Place::new();
        // Both runs have at least one step, and so exist.
        let with_start = |steps: &[(String, String)]| -> Vec<(String, String)> {
            let start = ("user start".to_owned(), String::new());
            std::iter::once(start).chain(steps.iter().cloned()).collect()
        };
        for (run, steps) in [("a", &a), ("b", &b)] {
            let steps = with_start(steps);
            let steps: Vec<_> = steps.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            store(&mut place, run, &steps);
        }
        let found = compare(&place.store, "a", "b").unwrap().unwrap();
        for (side, steps) in [(0, &a), (1, &b)] {
            let seqs: Vec<u64> = found
                .rows
                .iter()
                .filter_map(|row| if side == 0 { row.a.as_ref() } else { row.b.as_ref() })
                .map(|step| step.seq)
                .collect();
            prop_assert_eq!(seqs.len(), steps.len() + 1);
            prop_assert!(seqs.is_sorted());
        }
        for row in &found.rows {
            let is_pair = row.a.is_some() && row.b.is_some();
            prop_assert_eq!(is_pair, !matches!(row.state, RowState::OnlyA | RowState::OnlyB));
            if let (Some(a), Some(b)) = (&row.a, &row.b) {
                prop_assert_eq!(&a.tool, &b.tool);
                prop_assert_eq!(a.title == b.title, row.state != RowState::OtherArguments);
            }
        }
        prop_assert_eq!(found.first_difference.is_none(), a == b);
    }
}
