//! Outlines of random runs: every record is in one step, pages fit together, and an outline that is
//! kept up to date equals one that is read again.

use std::collections::BTreeMap;

use midcourse_core::{
    AgentMessage, CallId, GapReason, RunId, RunIdentity, Timestamp, ToolResult, ToolResultContent,
    TrajectoryPayload,
};
use proptest::prelude::*;
use serde_json::json;

use super::{Cursor, Outline, OutlineStep, StepKind, StepState};
use crate::store::{Durability, StoreSettings, StoredRecord};
use crate::{Channel, DataDir, Event, Source, Store};

/// A store in a temporary folder, which is removed on drop.
struct Place {
    store: Store,
    _folder: tempfile::TempDir,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::at(folder.path().join("home"));
    let settings = StoreSettings { durability: Durability::Normal, ..StoreSettings::default() };
    Place { store: Store::open(&data_dir, settings).unwrap(), _folder: folder }
}

/// What a host may report, with the number of the call where there is one.
#[derive(Debug, Clone, Copy)]
enum Report {
    Start(u8),
    End(u8, bool),
    Refusal(u8),
    /// The message that repeats the result of a call.
    Repeated(u8),
    StartWithoutId,
    EndWithoutId,
    User,
    Response,
    Turn,
    TurnEnd,
    Usage,
    Gap,
    Described,
}

fn reports() -> impl Strategy<Value = Report> {
    let call = 0..6_u8;
    prop_oneof![
        4 => call.clone().prop_map(Report::Start),
        4 => (call.clone(), any::<bool>()).prop_map(|(call, failed)| Report::End(call, failed)),
        1 => call.clone().prop_map(Report::Refusal),
        3 => call.prop_map(Report::Repeated),
        1 => Just(Report::StartWithoutId),
        1 => Just(Report::EndWithoutId),
        1 => Just(Report::User),
        1 => Just(Report::Response),
        1 => Just(Report::Turn),
        1 => Just(Report::TurnEnd),
        1 => Just(Report::Usage),
        1 => Just(Report::Gap),
        1 => Just(Report::Described),
    ]
}

fn started(id: &str) -> TrajectoryPayload {
    let args = json!({"command": "make", "nested": {"tool_name": "no", "message": 1}});
    TrajectoryPayload::ToolStarted { tool_call_id: id.into(), tool_name: "bash".into(), args }
}

fn ended(id: &str, failed: bool) -> TrajectoryPayload {
    let result = if failed { ToolResult::error("error: no rule") } else { ToolResult::text("ok") };
    let (tool_call_id, tool_name) = (CallId::from(id), "bash".into());
    TrajectoryPayload::ToolEnded { tool_call_id, tool_name, result, is_error: failed }
}

fn event(run: &RunIdentity, at: u64, report: Report) -> Event {
    let id = |call: u8| format!("call-{call}");
    let payload = match report {
        Report::Start(call) => started(&id(call)),
        Report::End(call, failed) => ended(&id(call), failed),
        Report::Refusal(call) => TrajectoryPayload::Denied {
            tool_call_id: id(call).as_str().into(),
            tool_name: "bash".into(),
            reason: None,
        },
        Report::Repeated(call) => TrajectoryPayload::MessageAppended {
            message: AgentMessage::ToolResult {
                tool_call_id: id(call).as_str().into(),
                tool_name: "bash".into(),
                content: ToolResultContent { blocks: Vec::new() },
                is_error: false,
                narration: None,
                details: None,
                timestamp: None,
            },
        },
        Report::StartWithoutId => started(""),
        Report::EndWithoutId => ended("", false),
        Report::User => {
            TrajectoryPayload::MessageAppended { message: AgentMessage::user("Go on.") }
        }
        Report::Response => {
            TrajectoryPayload::MessageAppended { message: AgentMessage::assistant("Done.") }
        }
        Report::Turn => TrajectoryPayload::TurnStarted,
        Report::TurnEnd => TrajectoryPayload::TurnEnded {
            assistant: AgentMessage::assistant("Done."),
            tool_results: Vec::new(),
        },
        Report::Usage => TrajectoryPayload::UsageReported { usage: Default::default() },
        Report::Gap => TrajectoryPayload::Gap { lost: 2, reason: GapReason::Io },
        Report::Described => TrajectoryPayload::RunDescribed {
            folder: None,
            command: None,
            host_version: None,
            model: Some("m".to_owned()),
            exit_code: None,
        },
    };
    let source = Source::new("test", Channel::Library);
    Event::new(run.clone(), source, Timestamp::from_unix_ms(1_000 + at), payload)
}

fn whole(store: &Store, run: &str) -> Vec<OutlineStep> {
    store.outline(run, 0, usize::MAX).unwrap().map(|outline| outline.steps).unwrap_or_default()
}

/// For each record, the seq of the step that it must be in; `None` for records in no step.
fn expected(records: &[StoredRecord]) -> Vec<Option<u64>> {
    let start_of = |fact: &str| {
        let is_start =
            |it: &&StoredRecord| it.kind() == "tool_started" && it.fact.as_deref() == Some(fact);
        records.iter().find(is_start).map(|it| it.seq)
    };
    let end_of = |fact: &str| {
        let is_end = |it: &&StoredRecord| {
            matches!(it.kind(), "tool_ended" | "denied") && it.fact.as_deref() == Some(fact)
        };
        records.iter().find(is_end).map(|it| it.seq)
    };
    let step = |record: &StoredRecord| match (record.kind(), record.fact.as_deref()) {
        ("turn_ended" | "usage_reported", _) => None,
        ("tool_ended" | "denied", Some(fact)) => start_of(fact).or(Some(record.seq)),
        _ => match record.value.pointer("/message/tool_call_id") {
            Some(call) => {
                let call = call.as_str().unwrap_or_default();
                let end = end_of(call).map(|end| start_of(call).unwrap_or(end));
                end.or(Some(record.seq))
            }
            None => Some(record.seq),
        },
    };
    records.iter().map(step).collect()
}

/// A viewer's copy of the outlines: what it has read, and what changes did to it.
#[derive(Default)]
struct Viewer(BTreeMap<String, BTreeMap<u64, OutlineStep>>);

impl Viewer {
    fn read_on(&mut self, store: &Store, mut cursor: Cursor, count: usize) -> Cursor {
        loop {
            let (changes, after) =
                store.outline_changes(cursor, &[RunId::from("r")], count).unwrap();
            for run in changes {
                let steps = self.0.entry(run.run_id.to_string()).or_default();
                run.gone.iter().for_each(|seq| drop(steps.remove(seq)));
                steps.extend(run.steps.into_iter().map(|step| (step.seq, step)));
            }
            if after == cursor {
                return cursor;
            }
            cursor = after;
        }
    }

    fn steps(&self, run: &str) -> Vec<OutlineStep> {
        self.0.get(run).map(|steps| steps.values().cloned().collect()).unwrap_or_default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_record_is_in_one_step(reports in prop::collection::vec(reports(), 0..40)) {
        let mut place = place();
        let run = RunIdentity::root("r");
        for (at, report) in reports.iter().enumerate() {
            place.store.append(event(&run, at as u64, *report)).unwrap();
        }
        let records = place.store.records("r", 0, usize::MAX).unwrap();
        let steps = whole(&place.store, "r");
        let mut seqs: Vec<u64> = expected(&records).into_iter().flatten().collect();
        seqs.sort_unstable();
        seqs.dedup();
        prop_assert_eq!(steps.iter().map(|step| step.seq).collect::<Vec<_>>(), seqs);
        for step in &steps {
            let entry = place.store.entry("r", step.seq).unwrap().unwrap();
            prop_assert_eq!(&entry.step(), step);
            prop_assert_eq!(step.tool.is_some(), step.kind == StepKind::Tool);
        }
    }

    #[test]
    fn pages_of_any_size_fit_together(
        reports in prop::collection::vec(reports(), 0..40),
        size in 1..9_usize,
    ) {
        let mut place = place();
        let run = RunIdentity::root("r");
        let events = reports.iter().enumerate().map(|(at, it)| event(&run, at as u64, *it));
        place.store.append_all(events).unwrap();
        let (mut steps, mut from) = (Vec::new(), Some(0));
        while let Some(seq) = from {
            let Some(page) = place.store.outline("r", seq, size).unwrap() else { break };
            prop_assert!(page.steps.len() == size || page.next.is_none());
            steps.extend(page.steps);
            from = page.next;
        }
        prop_assert_eq!(steps, whole(&place.store, "r"));
    }

    #[test]
    fn changes_keep_an_outline_up_to_date(
        reports in prop::collection::vec((0..3_usize, reports(), any::<bool>()), 0..60),
        count in 1..7_usize,
    ) {
        let mut place = place();
        // A run, its subagent, and a run that has nothing to do with them.
        let (root, other) = (RunIdentity::root("r"), RunIdentity::root("other"));
        let child =
            RunIdentity::child_of(&root, "child");
        let runs = [root, child, other];
        let mut viewer = Viewer::default();
        let mut cursor = place.store.cursor(None, 0).unwrap();
        for (at, (run, report, is_read)) in reports.iter().enumerate() {
            place.store.append(event(&runs[*run], at as u64, *report)).unwrap();
            if *is_read {
                cursor = viewer.read_on(&place.store, cursor, count);
            }
        }
        viewer.read_on(&place.store, cursor, count);
        for run in ["r", "child"] {
            prop_assert_eq!(viewer.steps(run), whole(&place.store, run));
        }
        prop_assert!(!viewer.0.contains_key("other"));
    }
}

#[test]
fn a_call_is_open_until_its_result_is_stored() {
    let mut place = place();
    let run = RunIdentity::root("r");
    for (at, report) in
        [Report::Start(1), Report::Start(2), Report::End(1, true)].iter().enumerate()
    {
        place.store.append(event(&run, at as u64, *report)).unwrap();
    }
    let Outline { steps, next, cursor } = place.store.outline("r", 0, 9).unwrap().unwrap();
    assert_eq!((steps[0].state, steps[1].state, next), (StepState::Failed, StepState::Open, None));
    assert_eq!(steps[0].end, Some((2, Timestamp::from_unix_ms(1_002))));
    place.store.append(event(&run, 9, Report::Refusal(2))).unwrap();
    let cursor = cursor.to_string().parse().unwrap();
    let (changes, _) = place.store.outline_changes(cursor, &["r".into()], 9).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].steps[0].seq, changes[0].steps[0].state), (1, StepState::Refused));
    assert_eq!(place.store.outline("unknown", 0, 9).unwrap(), None);
}

#[test]
fn payloads_that_cannot_be_read_are_steps_too() {
    let mut place = place();
    let run = RunIdentity::root("r");
    for report in [Report::User, Report::Start(1), Report::Turn] {
        place.store.append(event(&run, 0, report)).unwrap();
    }
    let change = |sql: &str| place.store.connection.execute(sql, []).unwrap();
    change("UPDATE records SET payload = '{\"a' WHERE seq < 2");
    change("UPDATE records SET kind = 'from_the_future', payload = x'00ff' WHERE seq = 2");
    let steps = whole(&place.store, "r");
    let kinds: Vec<_> = steps.iter().map(|step| (step.kind, step.tool.as_deref())).collect();
    assert_eq!(kinds, [(StepKind::Gap, None), (StepKind::Tool, None), (StepKind::Gap, None)]);
}
