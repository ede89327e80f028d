//! Reads the data that midcourse recorded in a trial.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use midcourse::{
    AgentMessage, DataDir, RunSummary, Store, TrajectoryPayload, TrajectoryRecord, UserContent,
};
use serde_json::Value;

use crate::events::{findings, test_settings};

pub(crate) struct RecordedData(DataDir);

impl RecordedData {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self(DataDir::at(folder))
    }

    /// Opens the store. Fails if `verify` finds a problem in it.
    pub(crate) fn store(&self) -> Store {
        let store = Store::open(&self.0, test_settings()).unwrap();
        assert_eq!(findings(&store), [""; 0]);
        store
    }

    /// All runs with their records: first those of main agents, then those of subagents.
    pub(crate) fn runs(&self) -> Vec<(RunSummary, Vec<TrajectoryRecord>)> {
        let store = self.store();
        let mut runs = store.runs(usize::MAX).unwrap();
        runs.sort_by_key(|run| run.parent_run_id.is_some());
        let with_records = |run: RunSummary| {
            let records = store.trajectory(run.run_id.as_str()).unwrap();
            (run, records)
        };
        runs.into_iter().map(with_records).collect()
    }

    /// Checks that `midcourse replay` computes, for each stored run, exactly the messages that the
    /// agent got during the run.
    pub(crate) fn assert_replay_is_equal(&self) {
        for run in self.store().runs(usize::MAX).unwrap() {
            let mut replay = Command::new(env!("CARGO_BIN_EXE_midcourse"));
            replay.args(["replay", "--json", "--run", run.run_id.as_str()]);
            let output = replay.env("MIDCOURSE_HOME", self.0.path()).output().unwrap();
            let lines = String::from_utf8(output.stdout).unwrap();
            let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
            assert_eq!(last["matches_recorded"], true, "{lines}");
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.0.log_file()).unwrap_or_default()
    }

    /// The files in the data directory that contain a text.
    pub(crate) fn files_with(&self, text: &str) -> Vec<PathBuf> {
        let contains = |file: &PathBuf| {
            let bytes = fs::read(file).unwrap();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        };
        let files = files(self.0.path());
        assert!(!files.is_empty(), "there is a store");
        files.into_iter().filter(contains).collect()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// How many records have this payload kind, such as `run_started`.
pub(crate) fn count(records: &[TrajectoryRecord], kind: &str) -> usize {
    records.iter().filter(|record| record.payload.kind() == kind).count()
}

fn messages(records: &[TrajectoryRecord]) -> impl Iterator<Item = &AgentMessage> {
    records.iter().filter_map(|record| match &record.payload {
        TrajectoryPayload::MessageAppended { message } => Some(message),
        _ => None,
    })
}

/// The texts of the user's messages in a run.
pub(crate) fn user_messages(records: &[TrajectoryRecord]) -> Vec<String> {
    let text = |message: &AgentMessage| match message {
        AgentMessage::User { content: UserContent::Text(text), .. } => Some(text.clone()),
        AgentMessage::User { content, .. } => Some(format!("{content:?}")),
        _ => None,
    };
    messages(records).filter_map(text).collect()
}

/// How many messages of the model are recorded in a run.
pub(crate) fn model_messages(records: &[TrajectoryRecord]) -> usize {
    messages(records).filter(|message| matches!(message, AgentMessage::Assistant { .. })).count()
}
