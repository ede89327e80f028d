//! The contract of [`RunReader`]: a store on this machine and a fleet return what runs in memory
//! return, and a copy of any of them is the run that was recorded.

use std::collections::BTreeSet;

use midcourse::{
    ChainEntry, Event, RunCursor, RunFilter, RunHeader, RunId, RunOrder, RunTableQuery,
    SearchFilter, SearchIndex, Store, Timestamp, ToolResult, TrajectoryPayload,
};
use midcourse_fleet::{FleetReader, IdPart, Level, LocalCopy, RunReader};
use proptest::prelude::*;

use crate::memory::Memory;
use crate::runs::{START, event, message};
use crate::world::{Fleet, Machine, contents, server};

#[derive(Debug, Clone)]
struct Questions {
    filter: RunFilter,
    table: RunTableQuery,
    words: String,
    id: String,
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..200_000_u64).prop_map(|at| Timestamp::from_unix_ms(START + at * 1_000))
}

fn questions() -> impl Strategy<Value = Questions> {
    let host = prop::option::of(prop_oneof![Just("test"), Just("it's\u{0}"), Just("other")]);
    let folder = prop::option::of(prop_oneof![Just("/work/a".to_owned()), Just("/wo%".to_owned())]);
    let filter = (host, folder, prop::option::of(time()), any::<bool>(), any::<bool>()).prop_map(
        |(host, folder, since, failed, said)| RunFilter {
            host: host.map(ToOwned::to_owned),
            folder,
            since,
            failed: failed && since.is_some(),
            said: said && failed,
        },
    );
    let order = prop_oneof![
        Just(RunOrder::Started),
        Just(RunOrder::Latest),
        Just(RunOrder::Duration),
        Just(RunOrder::Calls),
        Just(RunOrder::Errors),
        Just(RunOrder::Messages),
        Just(RunOrder::Tokens),
        Just(RunOrder::Cost),
    ];
    let text = prop::option::of(prop_oneof![Just("RUN"), Just("drop table"), Just("_"), Just("é")]);
    let words = prop_oneof![
        Just("error"),
        Just("make rule"),
        Just("MAKE"),
        Just("'); DROP TABLE"),
        Just("long"),
        Just("nothing of it"),
        Just("a"),
    ];
    let id =
        prop_oneof![Just("run"), Just("run.child"), Just("--"), Just(""), Just("\u{0}"), Just("%")];
    let table = (text, prop::option::of(time()), order, any::<bool>(), 0..3_u64, 1..4_usize);
    (filter, table, words, id).prop_map(|(filter, table, words, id)| {
        let (text, running_since, order, is_ascending, offset, count) = table;
        let text = text.map(ToOwned::to_owned);
        let table = RunTableQuery {
            filter: filter.clone(),
            text,
            running_since,
            order,
            is_ascending,
            offset,
            count,
        };
        Questions { filter, table, words: words.to_owned(), id: id.to_owned() }
    })
}

/// All replies of a reader, as text.
fn replies(reader: &mut dyn RunReader, questions: &Questions) -> Vec<String> {
    let Questions { filter, table, id, .. } = questions;
    let mut replies = Vec::new();
    let mut cursor = RunCursor::START;
    loop {
        let (page, next) = reader.list_runs(filter, cursor, 1).unwrap();
        if page.is_empty() {
            break;
        }
        replies.push(format!("{page:?}"));
        cursor = next;
    }
    replies.push(format!("{:?}", reader.list_runs(filter, RunCursor::START, 100).unwrap().0));
    replies.push(format!("{:?}", reader.listed_run_count(filter).unwrap()));
    replies.push(format!("{:?}", reader.run_table(table).unwrap()));
    replies.push(format!("{:?}", reader.hosts().unwrap()));
    // A child run may start its parent at the same time, and their order is then open.
    for part in [IdPart::Whole, IdPart::Start, IdPart::End] {
        let mut found = reader.find_runs(id, part, 10).unwrap();
        found.sort();
        replies.push(format!("{found:?}"));
    }
    replies.push(format!("{:?}", reader.family(&RunId::from(id.as_str())).unwrap()));
    let (since, until) = (filter.since.unwrap_or_default(), Timestamp::from_unix_ms(u64::MAX));
    let mut between = reader.runs_between(since, until).unwrap();
    between.sort_by(|a, b| a.header.run_id().cmp(b.header.run_id()));
    replies.push(format!("{between:?}"));
    replies
}

/// What a search finds: runs and seqs.
type Found = BTreeSet<(String, u64)>;

fn search_store(store: &Store, words: &str, filter: &SearchFilter) -> Found {
    let mut index = SearchIndex::open(store).unwrap();
    index.catch_up(store, |_| ()).unwrap();
    let (hits, damage) = index.search(store, words, filter, usize::MAX).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    hits.into_iter().map(|hit| (hit.run_id.as_str().to_owned(), hit.seq)).collect()
}

fn search_copy(reader: &mut dyn RunReader, words: &str, filter: &SearchFilter) -> Found {
    let mut copy = LocalCopy::new().unwrap();
    let (hits, damage) = copy.search(reader, words, filter, usize::MAX).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    hits.into_iter().map(|hit| (hit.run_id.as_str().to_owned(), hit.seq)).collect()
}

/// What is in a store, as a fleet has it: a header has no NUL characters there.
fn as_shipped(store: &Store) -> Vec<(RunHeader, Vec<ChainEntry>)> {
    let mut contents = contents(store);
    for text in contents.iter_mut().flat_map(|(header, _)| header.texts_mut()) {
        *text = text.replace('\0', "\u{fffd}");
    }
    contents
}

/// Copies all runs of a reader, some of them in two steps.
fn copy_all(copy: &mut LocalCopy, reader: &mut dyn RunReader) {
    let (listed, _) = reader.list_runs(&RunFilter::default(), RunCursor::START, 100).unwrap();
    for listed in listed {
        assert!(copy.bring(reader, &listed.run.run_id).unwrap());
    }
}

#[test]
fn every_reader_returns_the_same() {
    let Some(server) = server() else { return };
    let config = ProptestConfig { cases: 5, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let strategy =
        (prop::collection::vec(event(), 1..90), 0..90_usize, prop::collection::vec(questions(), 8));
    runner
        .run(&strategy, |(events, cut, questions)| {
            let fleet = Fleet::new(server);
            let machine = Machine::new();
            let mut store = machine.open();
            let mut shipper = machine.shipper(&fleet, Level::Full);
            let mut reader = FleetReader::open(fleet.target("reader"), None).unwrap();
            let mut copy = LocalCopy::new().unwrap();
            for (n, event) in events.into_iter().enumerate() {
                store.append(event).unwrap();
                if n == cut {
                    shipper.ship(|_| ()).unwrap();
                    copy_all(&mut copy, &mut reader);
                    prop_assert_eq!(contents(copy.store()), as_shipped(&store));
                }
            }
            shipper.ship(|_| ()).unwrap();
            copy_all(&mut copy, &mut reader);
            prop_assert_eq!(contents(copy.store()), as_shipped(&store));
            let mut second = LocalCopy::new().unwrap();
            copy_all(&mut second, &mut store);
            prop_assert_eq!(contents(second.store()), contents(&store));
            let mut memory = Memory { runs: contents(&store) };
            let mut in_fleet = Memory { runs: as_shipped(&store) };
            for questions in questions {
                let expected = replies(&mut memory, &questions);
                for (found, expected) in replies(&mut store, &questions).iter().zip(&expected) {
                    prop_assert_eq!(found, expected, "of the store, to {:?}", &questions);
                }
                let expected = replies(&mut in_fleet, &questions);
                for (found, expected) in replies(&mut reader, &questions).iter().zip(&expected) {
                    prop_assert_eq!(found, expected, "of the fleet, to {:?}", &questions);
                }
                let runs = questions.filter.clone();
                for run_id in [None, Some(RunId::from("run.child"))] {
                    let filter =
                        SearchFilter { runs: runs.clone(), run_id, ..SearchFilter::default() };
                    let expected = search_store(&store, &questions.words, &filter);
                    let words = &questions.words;
                    prop_assert_eq!(&search_copy(&mut reader, words, &filter), &expected);
                    prop_assert_eq!(&search_copy(&mut memory, words, &filter), &expected);
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_run_without_texts_can_be_read_and_checked() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    let mut store = machine.open();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let events = prop::collection::vec(event(), 80);
    let events = proptest::strategy::Strategy::new_tree(&events, &mut runner).unwrap();
    let events = proptest::strategy::ValueTree::current(&events);
    let mut shipper = machine.shipper(&fleet, Level::Metadata);
    let mut reader = FleetReader::open(fleet.target("reader"), Some("p")).unwrap();
    let mut copy = LocalCopy::new().unwrap();
    for (n, event) in events.into_iter().enumerate() {
        store.append(event).unwrap();
        if n % 20 == 19 {
            shipper.ship(|_| ()).unwrap();
            copy_all(&mut copy, &mut reader);
        }
    }
    for (header, entries) in contents(copy.store()) {
        let findings = copy.store().verify_run(header.run_id()).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
        let original = store.run_header(header.run_id()).unwrap().unwrap();
        assert_eq!(header.end().records, original.end().records);
        assert_eq!(header.summary().calls, original.summary().calls);
        assert!(!format!("{entries:?}").contains("no rule"));
        let records = copy.store().trajectory(header.run_id().as_str()).unwrap();
        assert!(records.iter().all(|record| record.payload.kind() != "unread"));
    }
}

#[test]
fn words_that_no_record_or_call_has_together_find_no_run() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    let mut store = machine.open();
    let mut shipper = machine.shipper(&fleet, Level::Full);
    let call = |payload| {
        let Event { run, source, at, .. } = message("run", 69);
        Event::new(run, source, at, payload)
    };
    // The messages 4 and 68 are 64 records apart, and so in the same bucket.
    (3..69).for_each(|n| drop(store.append(message("run", n)).unwrap()));
    let start = TrajectoryPayload::ToolStarted {
        tool_call_id: "call".into(),
        tool_name: "bash".into(),
        args: serde_json::json!({"command": "gamma"}),
    };
    store.append(call(start)).unwrap();
    shipper.ship(|_| ()).unwrap();
    // The result is in another part of the run than the call.
    let end = TrajectoryPayload::ToolEnded {
        tool_call_id: "call".into(),
        tool_name: "bash".into(),
        result: ToolResult::text("delta"),
        is_error: false,
    };
    store.append(call(end)).unwrap();
    shipper.ship(|_| ()).unwrap();
    let mut reader = FleetReader::open(fleet.target("reader"), None).unwrap();
    let mut found =
        |words: &str| reader.runs_with_words(words, &RunFilter::default(), None, 10).unwrap().len();
    for words in ["3", "message 4", "gamma", "delta gamma"] {
        assert_eq!(found(words), 1, "{words}");
    }
    for words in ["3 4", "4 68", "gamma 3", "4 message gamma", "epsilon"] {
        assert_eq!(found(words), 0, "{words}");
    }
}
