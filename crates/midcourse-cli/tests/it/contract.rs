//! What every implementation of `TrajectorySink` (a place that stores events) must do.
//!
//! Each test runs on the in-memory sink, on a store that is opened again for every event, and on a
//! store behind a writer thread. Afterwards `verify` must find nothing wrong in the two stores.
//!
//! A *fact* is something that happened once but may be reported several times, for example by a
//! hook and by the proxy. A run *adopts* another one by taking over its records; this is how events
//! that arrived before a run had an id get into the run.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use midcourse::{
    Event, RecordStatus, RunIdentity, Source, ToolResult, TrajectoryPayload, TrajectorySink,
};
use serde_json::json;

use crate::events::{
    InMemory, OpenedPerEvent, SinkUnderTest, TempStore, WithWriterThread, at, hook, root, text_of,
    tool_ended, tool_started, user_message,
};

fn check_all(check: impl Fn(&dyn SinkUnderTest)) {
    check(&InMemory::default());
    let (fresh, shared) = (OpenedPerEvent(TempStore::new()), WithWriterThread(TempStore::new()));
    check(&fresh);
    check(&shared);
    for place in [fresh.0, shared.0] {
        assert!(place.findings().is_empty(), "{:?}", place.findings());
    }
}

fn status(sink: &Arc<dyn TrajectorySink>, event: Event) -> RecordStatus {
    sink.record_blocking(event).unwrap().status
}

fn seqs(subject: &dyn SinkUnderTest, run: &str) -> Vec<u64> {
    subject.records(run).iter().map(|record| record.seq).collect()
}

#[test]
fn records_keep_their_order() {
    check_all(|subject| {
        let sink = subject.sink();
        for n in 0..20 {
            let recorded = sink.record_blocking(user_message("r", &n.to_string())).unwrap();
            assert_eq!((recorded.record.seq, recorded.status), (n, RecordStatus::New));
        }
        let texts: Vec<_> = subject.records("r").iter().map(text_of).collect();
        assert_eq!(texts, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(seqs(subject, "r"), (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_fact_is_one_record_whichever_source_reports_it() {
    check_all(|subject| {
        let sink = subject.sink();
        assert_eq!(status(&sink, tool_ended("r", "c", "out")), RecordStatus::New);
        assert_eq!(status(&sink, tool_ended("r", "c", "out")), RecordStatus::Duplicate);
        // The start of call "c" is another event than its end, so it gets a record of its own.
        assert_eq!(status(&sink, tool_started("r", "c")), RecordStatus::New);
        let mut other = tool_ended("r", "c", "the proxy saw more");
        other.source = Source::new("test", midcourse::Channel::Proxy);
        assert_eq!(status(&sink, other.clone()), RecordStatus::Duplicate, "the first source wins");
        let TrajectoryPayload::ToolEnded { result, .. } = &mut other.payload else {
            unreachable!()
        };
        result.narration = Some("built".into());
        result.details = json!({"exit": 0});
        assert_eq!(status(&sink, other.clone()), RecordStatus::Merged);
        assert_eq!(status(&sink, other), RecordStatus::Duplicate);
        let records = subject.records("r");
        let TrajectoryPayload::ToolEnded { result, .. } = &records[0].payload else {
            unreachable!()
        };
        let mut expected = ToolResult::text("out");
        expected.narration = Some("built".into());
        expected.details = json!({"exit": 0});
        assert_eq!(*result, expected);
        assert_eq!(seqs(subject, "r"), [0, 1]);
    });
}

#[test]
fn a_source_that_reports_a_fact_differently_is_a_conflict() {
    check_all(|subject| {
        let sink = subject.sink();
        assert_eq!(status(&sink, tool_ended("r", "c", "one")), RecordStatus::New);
        assert_eq!(status(&sink, tool_ended("r", "c", "two")), RecordStatus::Conflict);
        assert_eq!(status(&sink, tool_ended("r", "c", "two")), RecordStatus::Conflict);
        assert_eq!(subject.records("r").iter().map(text_of).collect::<Vec<_>>(), ["one"]);
    });
}

#[test]
fn a_source_is_compared_with_its_own_first_report() {
    check_all(|subject| {
        let sink = subject.sink();
        let first = tool_ended("r", "c", "out");
        assert_eq!(status(&sink, first.clone()), RecordStatus::New);
        let mut other = first.clone();
        other.source = Source::new("test", midcourse::Channel::Proxy);
        let TrajectoryPayload::ToolEnded { result, .. } = &mut other.payload else {
            unreachable!()
        };
        result.narration = Some("built".into());
        assert_eq!(status(&sink, other), RecordStatus::Merged);
        assert_eq!(
            status(&sink, first),
            RecordStatus::Duplicate,
            "the source repeats its first report"
        );
    });
}

#[test]
fn a_call_has_one_end() {
    let denied = |call: &str| {
        let payload = TrajectoryPayload::Denied {
            tool_call_id: call.into(),
            tool_name: "bash".into(),
            reason: Some("not allowed".into()),
        };
        Event::new(root("r"), Source::new("test", midcourse::Channel::Transcript), at(0), payload)
    };
    check_all(|subject| {
        let sink = subject.sink();
        assert_eq!(status(&sink, tool_ended("r", "c", "out")), RecordStatus::New);
        assert_eq!(status(&sink, denied("c")), RecordStatus::Duplicate, "the call has returned");
        assert_eq!(status(&sink, denied("d")), RecordStatus::New);
        assert_eq!(
            status(&sink, tool_ended("r", "d", "out")),
            RecordStatus::Duplicate,
            "the call was denied"
        );
        assert_eq!(seqs(subject, "r"), [0, 1]);
    });
}

#[test]
fn consecutive_events_are_deduplicated_where_the_event_allows_it() {
    check_all(|subject| {
        let sink = subject.sink();
        let go_on = || user_message("r", "go on").deduped();
        assert_eq!(status(&sink, go_on()), RecordStatus::New);
        assert_eq!(status(&sink, go_on()), RecordStatus::Duplicate);
        assert_eq!(
            status(&sink, user_message("r", "go on")),
            RecordStatus::New,
            "the event does not allow it"
        );
        assert_eq!(status(&sink, tool_started("r", "c")), RecordStatus::New);
        assert_eq!(status(&sink, go_on()), RecordStatus::New, "another event came between");
        let mut other = go_on();
        other.source = Source::new("test", midcourse::Channel::Proxy);
        assert_eq!(status(&sink, other), RecordStatus::New, "the source is another one");
    });
}

#[test]
fn events_with_an_empty_call_id_are_not_merged() {
    check_all(|subject| {
        let sink = subject.sink();
        for text in ["one", "two"] {
            assert_eq!(status(&sink, tool_ended("r", "", text)), RecordStatus::New);
        }
    });
}

#[test]
fn a_run_can_report_its_identity_after_its_child() {
    check_all(|subject| {
        let sink = subject.sink();
        // The child is reported before its parent, which itself has a parent and a deadline.
        let top = root("top");
        let parent = RunIdentity::child_of(&top, "top.p").with_deadline(at(99));
        let child = RunIdentity::child_of(&parent, "top.p.c");
        let turn = |run: &RunIdentity| {
            Event::new(run.clone(), hook(), at(1), TrajectoryPayload::TurnStarted)
        };
        sink.record_blocking(turn(&child)).unwrap();
        let run_started = TrajectoryPayload::RunStarted { identity: parent.clone() };
        let event = Event::new(parent.clone(), hook(), at(2), run_started);
        assert_eq!(status(&sink, event), RecordStatus::Merged);
        let records = subject.records("top.p");
        assert_eq!((records[0].depth, records[0].parent_run_id.clone()), (1, Some("top".into())));
        let TrajectoryPayload::RunStarted { identity } = &records[0].payload else {
            unreachable!()
        };
        assert_eq!(identity.deadline_unix_ms, Some(at(99)));
        assert_eq!(subject.records("top").len(), 1, "the parent's own parent has a record too");
        // A run that names itself as its parent is stored without a parent.
        let mut orphan = root("odd");
        orphan.parent_run_id = Some("odd".into());
        sink.record_blocking(turn(&orphan)).unwrap();
        assert_eq!(subject.records("odd").len(), 1);
    });
}

#[test]
fn events_without_a_key_are_never_merged() {
    check_all(|subject| {
        let sink = subject.sink();
        for _ in 0..3 {
            assert_eq!(status(&sink, user_message("r", "again")), RecordStatus::New);
        }
        assert_eq!(seqs(subject, "r"), [0, 1, 2]);
        let keyed = || user_message("r", "again").with_fact("message-1");
        assert_eq!(status(&sink, keyed()), RecordStatus::New);
        assert_eq!(status(&sink, keyed()), RecordStatus::Duplicate);
    });
}

#[test]
fn runs_are_independent() {
    check_all(|subject| {
        let sink = subject.sink();
        for n in 0..5 {
            sink.record_blocking(tool_ended("a", &n.to_string(), "in a")).unwrap();
            sink.record_blocking(tool_ended("b", &n.to_string(), "in b")).unwrap();
        }
        for run in ["a", "b"] {
            assert_eq!(seqs(subject, run), [0, 1, 2, 3, 4]);
            let texts: Vec<_> = subject.records(run).iter().map(text_of).collect();
            assert_eq!(texts, vec![format!("in {run}"); 5]);
            assert!(subject.records(run).iter().all(|r| r.run_id == Some(run.into())));
        }
        assert!(subject.records("c").is_empty());
    });
}

#[test]
fn a_child_run_gives_its_parent_a_record() {
    check_all(|subject| {
        let sink = subject.sink();
        let parent = root("p").with_conversation_id("talk");
        let child = RunIdentity::child_of(&parent, "p.worker");
        let event = Event::new(child.clone(), hook(), at(1), TrajectoryPayload::TurnStarted);
        sink.record_blocking(event).unwrap();
        let (parent_records, child_records) = (subject.records("p"), subject.records("p.worker"));
        assert_eq!(parent_records.len(), 1, "the parent has a record although it reported nothing");
        let TrajectoryPayload::RunStarted { identity } = &parent_records[0].payload else {
            unreachable!()
        };
        assert_eq!(*identity, parent);
        assert_eq!((child_records[0].seq, child_records[0].depth), (0, 1));
        assert_eq!(child_records[0].parent_run_id, Some("p".into()));
        // When the child was stored, the store added a start record for its parent. The parent now
        // reports its start itself, which adds no second record.
        let run_started = TrajectoryPayload::RunStarted { identity: parent.clone() };
        let status = status(&sink, Event::new(parent, hook(), at(0), run_started));
        assert_eq!((status, subject.records("p").len()), (RecordStatus::Duplicate, 1));
    });
}

#[test]
fn a_run_adopts_the_records_from_before_its_start() {
    check_all(|subject| {
        let sink = subject.sink();
        sink.record_blocking(user_message("held", "early")).unwrap();
        sink.record_blocking(tool_ended("held", "c", "early too")).unwrap();
        let run_started = TrajectoryPayload::RunStarted { identity: root("r") };
        let event = Event::new(root("r"), hook(), at(1), run_started).adopting("held".into());
        let recorded = sink.record_blocking(event).unwrap();
        assert_eq!(recorded.record.seq, 2);
        let texts: Vec<_> = subject.records("r").iter().map(text_of).collect();
        assert_eq!(texts, ["early", "early too", "run_started"]);
        assert!(subject.records("r").iter().all(|r| r.run_id == Some("r".into())));
        assert!(subject.records("held").is_empty());
        assert_eq!(status(&sink, tool_ended("r", "c", "early too")), RecordStatus::Duplicate);
    });
}

#[test]
fn adopting_a_run_merges_its_facts_and_its_children() {
    check_all(|subject| {
        let sink = subject.sink();
        for run in ["held", "r"] {
            sink.record_blocking(tool_ended(run, "c", "one")).unwrap();
            sink.record_blocking(tool_ended(run, "c", "two")).unwrap();
            sink.record_blocking(tool_ended(run, run, "own")).unwrap();
            sink.record_blocking(tool_ended(run, run, "differently")).unwrap();
        }
        let child = RunIdentity::child_of(&root("held"), "held.w");
        let turn = TrajectoryPayload::TurnStarted;
        sink.record_blocking(Event::new(child, hook(), at(50), turn)).unwrap();
        let run_started = TrajectoryPayload::RunStarted { identity: root("r") };
        let event = Event::new(root("r"), hook(), at(1), run_started).adopting("held".into());
        sink.record_blocking(event).unwrap();
        let texts: Vec<_> = subject.records("r").iter().map(text_of).collect();
        assert_eq!(texts, ["one", "own", "own", "run_started"], "a fact has one record");
    });
}

#[test]
fn concurrent_writers_leave_no_gap() {
    const EVENTS_PER_WRITER: u64 = 40;
    check_all(|subject| {
        let sinks = [subject.sink(), subject.sink(), subject.sink(), subject.sink()];
        std::thread::scope(|scope| {
            for (writer, sink) in sinks.iter().enumerate() {
                scope.spawn(move || {
                    for n in 0..EVENTS_PER_WRITER {
                        sink.record_blocking(tool_ended("r", &format!("{writer}-{n}"), "x"))
                            .unwrap();
                        // All writers report the start of the same call, which is stored once.
                        sink.record_blocking(tool_started("r", &n.to_string())).unwrap();
                    }
                });
            }
        });
        assert_eq!(seqs(subject, "r"), (0..EVENTS_PER_WRITER * 5).collect::<Vec<_>>());
    });
}

#[test]
fn records_are_there_after_a_reopen() {
    check_all(|subject| {
        subject.sink().record_blocking(tool_ended("r", "c", "before")).unwrap();
        let sink = subject.sink();
        assert_eq!(status(&sink, tool_ended("r", "c", "before")), RecordStatus::Duplicate);
        let recorded = sink.record_blocking(user_message("r", "after")).unwrap();
        assert_eq!(recorded.record.seq, 1);
        assert_eq!(
            subject.records("r").iter().map(text_of).collect::<Vec<_>>(),
            ["before", "after"]
        );
    });
}

/// While another connection locks the store, nothing can be stored. Until it releases the lock, the
/// future of every event must stay pending, and polling a future must return at once.
#[test]
fn an_async_append_completes_after_the_commit_and_never_blocks() {
    let subject = WithWriterThread(TempStore::new());
    let writer = subject.sink();
    let other = rusqlite::Connection::open(subject.0.data_dir().store_file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // More events than fit into the writer thread's queue, so that some must wait for space.
    let mut pending: Vec<_> =
        (0..2_000).map(|n| writer.record(tool_ended("r", &n.to_string(), "x"))).collect();
    let mut context = Context::from_waker(Waker::noop());
    for recording in &mut pending {
        assert!(recording.as_mut().poll(&mut context).is_pending());
    }
    other.execute_batch("COMMIT").unwrap();
    let mut seqs = Vec::new();
    std::thread::scope(|scope| {
        for (n, recording) in pending.into_iter().enumerate() {
            let subject = &subject;
            let done = scope.spawn(move || wait(recording)).join().unwrap().unwrap();
            seqs.push(done.record.seq);
            if n % 500 == 0 {
                assert!(subject.records("r").len() > n, "an acknowledged record can be read");
            }
        }
    });
    // Events that waited for space in the queue are stored in any order, and each once.
    seqs.sort_unstable();
    assert_eq!(seqs, (0..2_000).collect::<Vec<u64>>());
}

/// Polls a future on this thread until it is ready.
fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);

    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
