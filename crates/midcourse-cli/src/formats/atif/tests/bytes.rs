//! Documents that are cut off, changed or hostile. Reading never fails, and what it finds is limited
//! by the length of the document.

use proptest::prelude::*;
use serde_json::json;

use super::generated::stored_run;
use super::{document, read, without_own_data};
use crate::formats::atif::MAX_SUBAGENT_LEVELS;

fn check(bytes: &[u8]) {
    let found = read(bytes);
    // A trajectory becomes at most two events more than its steps, and `{}` is a trajectory.
    assert!(found.records.len() <= 2 + bytes.len(), "{} records", found.records.len());
    assert_eq!(found.records, read(bytes).records, "the document is read in two ways");
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        check(&bytes);
    }

    #[test]
    fn a_document_that_is_cut_off_gives_a_part_of_the_records(
        run in stored_run(),
        is_own in any::<bool>(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut document = document(&run);
        if !is_own {
            without_own_data(&mut document);
        }
        let text = document.to_string();
        let whole = read(text.as_bytes()).records;
        let end = cut.index(text.len());
        let part = read(&text.as_bytes()[..end]);
        prop_assert!(part.problem.is_some());
        prop_assert!(part.records.len() <= whole.len() + 2);
        if is_own && end > text.find("\"steps\"").unwrap() {
            for record in &part.records {
                prop_assert!(whole.contains(record), "{:?}", record);
            }
        }
    }

    #[test]
    fn changed_documents_are_read(
        run in stored_run(),
        is_own in any::<bool>(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0_u8..3), 1..8),
    ) {
        let mut document = document(&run);
        if !is_own {
            without_own_data(&mut document);
        }
        let mut bytes = document.to_string().into_bytes();
        for (at, byte, kind) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => {
                    bytes.remove(at);
                }
            }
        }
        check(&bytes);
    }
}

#[test]
fn subagents_are_read_up_to_a_level() {
    let deep = |levels: usize| {
        let leaf = json!({"agent": {}, "steps": [{"source": "user", "message": "m"}]});
        (0..levels).fold(leaf, |child, _| json!({"steps": [], "subagent_trajectories": [child]}))
    };
    let messages = |levels| {
        let found = read(deep(levels).to_string().as_bytes());
        let events = found.records.iter().flat_map(|record| &record.events);
        let users = events.filter(|event| event.payload.kind() == "message_appended");
        (users.count(), found.problem)
    };
    assert_eq!(messages(MAX_SUBAGENT_LEVELS), (1, None));
    let (count, problem) = messages(MAX_SUBAGENT_LEVELS + 1);
    assert_eq!(count, 0);
    assert!(problem.unwrap().contains("nested"));
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for open in [r#"{"a":"#, "[", r#"{"subagent_trajectories":["#, r#"{"steps":[{"message":["#] {
        check(open.repeat(200_000 / open.len()).as_bytes());
    }
}
