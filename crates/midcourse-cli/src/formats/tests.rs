//! Tests of the readers of benchmark and framework files, on the real files in `testdata/sessions`.
//! What all formats have in common is tested in `session_format`.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use midcourse::{AgentMessage, Event, FactKey, Timestamp, TrajectoryPayload, Usage};

use crate::session_file::SessionFile;
use crate::session_format::{FileReport, SessionFormat, read_stream};

const FORMATS: [&str; 8] = [
    "inspect",
    "intercode",
    "mini-swe-agent",
    "openai-chat",
    "openai-chat-lines",
    "swe-agent",
    "tau-bench",
    "who-and-when",
];

fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sessions").join(format)
}

fn read_bytes(path: &Path, bytes: &[u8], format: Option<&str>) -> (Vec<Event>, FileReport) {
    let file = SessionFile { path, modified: Timestamp::from_unix_ms(1_700_000_000_000) };
    let format = format.map(|name| SessionFormat::named(name).unwrap());
    let mut events = Vec::new();
    let report = read_stream(Cursor::new(bytes), &file, format, |records, _| {
        events.extend(records.drain(..).flat_map(|record| record.events));
        Ok(())
    });
    (events, report.unwrap())
}

fn read(format: &str, name: &str) -> (Vec<Event>, FileReport) {
    let path = folder(format).join(name);
    read_bytes(&path, &fs::read(&path).unwrap(), Some(format))
}

fn files(format: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder(format)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// One line per run: its id, how many messages of each author, calls with their failures, tokens, and
/// how it ended.
fn summary(events: &[Event]) -> Vec<String> {
    #[derive(Default)]
    struct Run {
        system: usize,
        user: usize,
        generated: usize,
        responses: usize,
        turns: usize,
        calls: usize,
        results: usize,
        failed: usize,
        unknown: usize,
        tools: Vec<String>,
        usage: Usage,
        about: String,
        outcome: String,
    }
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    for event in events {
        let run = runs.entry(event.run.run_id.to_string()).or_default();
        match &event.payload {
            TrajectoryPayload::TurnStarted => run.turns += 1,
            TrajectoryPayload::MessageAppended { message } => match message {
                AgentMessage::System { .. } => run.system += 1,
                AgentMessage::User { .. } => run.user += 1,
                AgentMessage::Assistant { usage, .. } => {
                    run.responses += 1;
                    run.usage.add(&usage.unwrap_or_default());
                }
                _ => run.generated += 1,
            },
            TrajectoryPayload::UsageReported { usage } => run.usage.add(usage),
            TrajectoryPayload::ToolStarted { tool_name, .. } => {
                run.calls += 1;
                if !run.tools.contains(&tool_name.to_string()) {
                    run.tools.push(tool_name.to_string());
                }
            }
            TrajectoryPayload::ToolEnded { result, is_error, .. } => {
                run.results += 1;
                run.failed += usize::from(*is_error);
                run.unknown += usize::from(result.is_error_unknown);
            }
            TrajectoryPayload::RunDescribed { model, host_version, .. } => {
                run.about =
                    [model, host_version].map(|it| it.clone().unwrap_or_default()).join(" ");
            }
            TrajectoryPayload::RunEnded { outcome, .. } => {
                run.outcome = outcome.as_str().to_owned()
            }
            _ => {}
        }
    }
    let line = |(id, run): (String, Run)| {
        let Run { system, user, generated, responses, turns, calls, results, .. } = run;
        let Run { failed, unknown, tools, usage, about, outcome, .. } = run;
        let tokens = (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens);
        let tools = tools.join(" ");
        format!(
            "{id} | system {system} user {user} generated {generated} responses {responses} | turns \
             {turns} calls {calls} results {results} failed {failed} unknown {unknown} | {tools} | \
             {tokens:?} | {about} | {outcome}"
        )
    };
    runs.into_iter().map(line).collect()
}

fn kind_counts(report: &FileReport, kind: &str) -> (u64, u64, u64, u64) {
    let counts = report.counts.iter().find(|(name, _)| *name == kind);
    let counts = counts.map(|(_, counts)| counts).unwrap_or_default();
    (counts.used, counts.ignored, counts.unknown, counts.invalid)
}

#[test]
fn what_is_read_from_each_file() {
    let mut found = Vec::new();
    for format in FORMATS {
        for path in files(format) {
            let name = path.file_name().unwrap().to_string_lossy();
            found.push(format!("{format}/{name}"));
            found.extend(summary(&read_bytes(&path, &fs::read(&path).unwrap(), None).0));
        }
    }
    insta::assert_snapshot!(found.join("\n"));
}

/// The identity of a record: reading a file again gives the same ones.
fn identities(events: &[Event]) -> Vec<(String, &'static str, Option<FactKey>)> {
    let identity =
        |event: &Event| (event.run.run_id.to_string(), event.payload.kind(), event.fact.clone());
    events.iter().map(identity).collect()
}

/// A file that is cut off after a fraction of its length, as if it were still being written.
#[test]
fn a_file_that_is_cut_off_gives_records_of_the_whole_file() {
    for format in FORMATS {
        for path in files(format) {
            let bytes = fs::read(&path).unwrap();
            let (whole, _) = read_bytes(&path, &bytes, None);
            let whole: HashSet<_> = identities(&whole).into_iter().collect();
            let mut most = 0;
            for part in 1..40 {
                let cut = &bytes[..bytes.len() * part / 40];
                let (events, report) = read_bytes(&path, cut, Some(format));
                let total = report.counts.total();
                // A cut between two lines, or in the directory of an archive, removes no part of a run.
                let may_be_whole = format == "openai-chat-lines" || cut.starts_with(b"PK");
                assert!(may_be_whole || total.invalid + total.unknown > 0, "{}", path.display());
                // The first records of a run decide its id; after them, it does not change.
                let known = identities(&events).iter().filter(|it| whole.contains(*it)).count();
                most = most.max(known);
            }
            // InterCode has the actions and the observations of a run in separate lists, so a run
            // that is cut off is left out.
            let expected = usize::from(!whole.is_empty() && format != "intercode");
            assert!(most >= expected, "{}: {most} of {}", path.display(), whole.len());
        }
    }
}

#[test]
fn unknown_parts_are_counted_and_change_nothing() {
    let path = folder("mini-swe-agent").join("tool-calls.traj.json");
    let text = fs::read_to_string(&path).unwrap();
    let (events, _) = read_bytes(&path, text.as_bytes(), None);
    let changed = text.replacen("\"trajectory_format\"", "\"mood\": 7, \"trajectory_format\"", 1);
    let changed = changed.replacen(
        "{\n   \"role\": \"exit\"",
        "{\"role\": \"alien\"}, 5, {\n   \"role\": \"exit\"",
        1,
    );
    let (same, report) = read_bytes(&path, changed.as_bytes(), None);
    assert_eq!(identities(&same), identities(&events));
    assert_eq!(kind_counts(&report, "mood"), (0, 0, 1, 0));
    assert_eq!(kind_counts(&report, "alien"), (0, 0, 1, 0));
    assert_eq!(kind_counts(&report, "(no role)"), (0, 0, 1, 0));
}

#[test]
fn samples_that_are_no_runs_of_agents_are_reported() {
    let (events, report) = read("inspect", "log_formats.eval");
    assert!(events.is_empty());
    assert_eq!(kind_counts(&report, "sample (question and reply)"), (0, 1, 0, 0));
    let problems: Vec<_> = report.problems.iter().map(|(_, problem)| problem.as_str()).collect();
    assert_eq!(
        problems,
        ["left out 1 sample without a tool call or a second response: no run of an agent"]
    );
}

#[test]
fn a_growing_file_with_one_message_per_line_is_one_run() {
    let path = folder("openai-chat-lines").join("messages.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (whole, _) = read_bytes(&path, text.as_bytes(), None);
    let whole = identities(&whole);
    let lines: Vec<_> = text.lines().collect();
    for end in 1..lines.len() {
        let (events, _) = read_bytes(&path, lines[..end].join("\n").as_bytes(), None);
        let events = identities(&events);
        assert_eq!(events, whole[..events.len()], "{end} lines");
    }
}

#[test]
fn a_zip_bomb_does_not_use_up_the_memory() {
    // 300 MiB of spaces, which is more than a sample may have.
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..300 {
        std::io::Write::write_all(&mut packer, &vec![b' '; 1 << 20]).unwrap();
    }
    let packed = packer.finish().unwrap();
    let name = b"samples/a_epoch_1.json";
    let mut archive = b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0".to_vec();
    archive.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
    archive.extend(100_u32.to_le_bytes());
    archive.extend([u8::try_from(name.len()).unwrap(), 0, 0, 0]);
    archive.extend(name);
    archive.extend(packed);
    archive.extend(b"PK\x01\x02");
    let (events, report) = read_bytes(Path::new("bomb.eval"), &archive, None);
    assert!(events.is_empty());
    assert_eq!(kind_counts(&report, "sample"), (0, 0, 0, 1));
    assert!(report.problems[0].1.contains("larger than the limit of 256 MiB"), "{report:?}");
}
