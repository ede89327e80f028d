//! Tests of all formats with the files in `testdata/sessions`, which has a folder per format. A format
//! takes part as soon as its folder exists.

mod records;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use midcourse::{ForeignRecord, Timestamp};
use proptest::prelude::*;

use super::{FORMATS, FileReport, SessionFormat, read_file, read_stream};
use crate::session_file::{Head, SessionFile, Unit};

/// Records that a reader may make of a byte, at most: a file of N bytes has at most this many times N.
const MAX_RECORDS_PER_BYTE: usize = 1;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sessions")
}

/// The files of each format that has a folder.
fn files() -> Vec<(&'static SessionFormat, PathBuf)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let format = SessionFormat::named(&name).unwrap_or_else(|| panic!("no format {name}"));
            found.extend(files_in(&path).into_iter().map(|file| (format, file)));
        }
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    found
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

fn read(path: &Path) -> (Vec<ForeignRecord>, FileReport) {
    let mut records = Vec::new();
    let report = read_file(path, None, |found, _| {
        records.append(found);
        Ok(())
    });
    (records, report.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Reads bytes as the contents of a file of this format.
fn read_bytes(
    format: &'static SessionFormat,
    path: &Path,
    bytes: &[u8],
) -> Option<(Vec<ForeignRecord>, FileReport)> {
    let mut records = Vec::new();
    let file = SessionFile { path, modified: Timestamp::from_unix_ms(1_700_000_000_000) };
    let report = read_stream(bytes, &file, Some(format), |found, _| {
        records.append(found);
        Ok(())
    });
    // An empty file is an error, and so are rows of something that is no database.
    report.ok().map(|report| (records, report))
}

/// Whether the contents of this file alone say what is read.
fn stands_for_itself(format: &SessionFormat, path: &Path) -> bool {
    format.unit != Unit::Collection
        || path.extension().is_some_and(|it| it == "json") && !path.iter().any(|it| it == "storage")
}

#[test]
fn every_file_is_recognised_and_read_completely() {
    assert!(!files().is_empty());
    for (format, path) in files() {
        let name = path.display();
        let bytes = fs::read(&path).unwrap();
        let recognised = SessionFormat::of(&Head::new(&path, &bytes)).map(|format| format.name);
        assert_eq!(recognised, Some(format.name), "{name}");
        let (records, report) = read(&path);
        assert_eq!(report.format.name, format.name, "{name}");
        // Some files contain samples that are no runs of an agent.
        let is_left_out = |(_, problem): &(u64, String)| problem.starts_with("left out");
        assert!(report.problems.iter().all(is_left_out), "{name}: {:?}", report.problems);
        let total = report.counts.total();
        assert_eq!((total.unknown, total.invalid), (0, 0), "{name}: {:?}", report.counts);
        assert!(total.used > 0 || total.ignored > 0, "{name}");
        assert!(!records.is_empty() || total.used == 0 || !report.problems.is_empty(), "{name}");
    }
}

#[test]
fn reading_again_gives_the_same_records_with_keys_that_occur_once() {
    for (_, path) in files() {
        let (records, _) = read(&path);
        assert_eq!(read(&path).0, records, "{}", path.display());
        let mut keys = HashSet::new();
        for event in records.iter().flat_map(|record| &record.events) {
            let fact = event.fact.clone();
            let key = (event.run.run_id.clone(), event.payload.kind(), fact.clone());
            assert!(fact.is_some(), "{}: {event:?}", path.display());
            assert!(keys.insert(key), "{}: {event:?}", path.display());
        }
    }
}

#[test]
fn a_torn_last_line_loses_only_that_line() {
    for (format, path) in files() {
        let bytes = fs::read(&path).unwrap();
        let is_lines = format.unit == Unit::Line
            || (format.unit == Unit::LineOrDocument
                && path.extension().is_some_and(|it| it == "jsonl"));
        if !is_lines {
            continue;
        }
        let ends: Vec<usize> =
            bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|it| it.0).collect();
        for pair in ends.windows(2) {
            let [start, end] = [pair[0] + 1, pair[1]];
            let cut = start + (end - start) / 2;
            let (torn, report) = read_bytes(format, &path, &bytes[..cut]).unwrap();
            let (whole, _) = read_bytes(format, &path, &bytes[..start]).unwrap();
            // Where a line is a whole conversation, its first messages may be read.
            let is_kept = torn.starts_with(&whole);
            assert!(
                is_kept && (torn == whole || format.name == "openai-chat-lines"),
                "{} cut at {cut}",
                path.display()
            );
            assert_eq!(report.counts.total().invalid, 1, "{} cut at {cut}", path.display());
            assert!(!report.problems.is_empty(), "{} cut at {cut}", path.display());
        }
    }
}

#[test]
fn a_document_that_is_cut_off_gives_its_first_records() {
    for (format, path) in files() {
        let bytes = fs::read(&path).unwrap();
        let is_document =
            format.unit != Unit::Line && path.extension().is_some_and(|it| it == "json");
        if !is_document || !stands_for_itself(format, &path) {
            continue;
        }
        let (whole, _) = read_bytes(format, &path, &bytes).unwrap();
        let (half, report) = read_bytes(format, &path, &bytes[..bytes.len() * 3 / 4]).unwrap();
        let runs: HashSet<_> =
            whole.iter().flat_map(|record| &record.events).map(|event| &event.run.run_id).collect();
        // Of InterCode's results, the run in which the file is cut off is left out.
        let is_read = !half.is_empty() || (format.name == "intercode" && runs.len() == 1);
        assert!(is_read && half.len() < whole.len(), "{}", path.display());
        assert!(report.counts.total().invalid > 0, "{}", path.display());
    }
}

#[test]
fn a_line_of_an_unknown_kind_is_counted_and_the_rest_is_read() {
    for (format, path) in files() {
        if format.unit != Unit::Line {
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        let (before, _) = read_bytes(format, &path, &bytes).unwrap();
        bytes.extend_from_slice(b"{\"type\":\"a kind from the future\",\"payload\":{}}\n");
        let (after, report) = read_bytes(format, &path, &bytes).unwrap();
        let total = report.counts.total();
        assert!(total.unknown + total.invalid == 1, "{}: {:?}", path.display(), report.counts);
        let kept: Vec<_> = after.iter().filter(|record| before.contains(record)).collect();
        assert_eq!(kept.len(), before.len(), "{}", path.display());
    }
}

/// Reads any bytes as a file of this format. Reading never fails, is deterministic and leaves nothing
/// out without a word.
fn check_any_bytes(format: &'static SessionFormat, path: &Path, bytes: &[u8]) {
    let Some((records, report)) = read_bytes(format, path, bytes) else { return };
    // Zipped files are larger when unpacked.
    let per_byte = if bytes.starts_with(b"PK") { 100 } else { MAX_RECORDS_PER_BYTE };
    assert!(records.len() <= bytes.len() * per_byte, "{} records", records.len());
    let total = report.counts.total();
    let is_counted = total.used + total.ignored + total.unknown + total.invalid > 0;
    assert!(is_counted || !report.problems.is_empty());
    let again = read_bytes(format, path, bytes).map(|(records, _)| records);
    assert_eq!(again.as_ref(), Some(&records));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read(
        bytes in proptest::collection::vec(any::<u8>(), 1..2_000),
        is_zip in any::<bool>(),
    ) {
        let beginning: &[u8] = if is_zip { b"PK\x03\x04" } else { b"" };
        for format in FORMATS {
            let bytes = [beginning, &bytes].concat();
            check_any_bytes(format, Path::new("x/session/a/b.jsonl"), &bytes);
        }
    }

    #[test]
    fn any_json_is_read(text in json()) {
        for format in FORMATS {
            check_any_bytes(format, Path::new("x/session/a/b.jsonl"), text.as_bytes());
        }
    }

    /// Changes some bytes of a real file, or repeats or removes a part of it.
    #[test]
    fn changed_files_are_read(
        file in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        part in (any::<prop::sample::Index>(), 0..3_000_usize),
        repeats in any::<bool>(),
    ) {
        let mut files = files();
        files.retain(|(format, path)| stands_for_itself(format, path));
        let &(format, ref path) = file.get(&files);
        let mut bytes = fs::read(path).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let start = part.0.index(bytes.len());
        let end = (start + part.1).min(bytes.len());
        if repeats {
            let copy = bytes[start..end].to_vec();
            bytes.splice(end..end, copy);
        } else {
            bytes.drain(start..end);
        }
        check_any_bytes(format, path, &bytes);
    }
}

/// JSON with the names of fields that readers look for, and any values.
fn json() -> impl Strategy<Value = String> {
    const NAMES: [&str; 24] = [
        "messages",
        "role",
        "content",
        "tool_calls",
        "id",
        "function",
        "name",
        "arguments",
        "traj",
        "task_id",
        "history",
        "trajectory",
        "action",
        "observation",
        "info",
        "extra",
        "samples",
        "eval",
        "events",
        "turn_history",
        "actions",
        "observations",
        "rewards",
        "attempts",
    ];
    let text = prop::sample::select(vec![
        "user",
        "assistant",
        "tool",
        "system",
        "exit",
        "",
        "submit",
        "```bash\nls\n```",
        "a",
    ]);
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        text.prop_map(Into::into),
    ];
    let value = leaf.prop_recursive(6, 60, 8, |inner| {
        let name = prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::Array),
            prop::collection::vec((name, inner), 0..6)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    });
    value.prop_map(|value| value.to_string())
}
