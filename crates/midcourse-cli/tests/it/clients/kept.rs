//! What midcourse has kept of a trial.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use midcourse::{
    AgentMessage, DataDir, RunSummary, Store, TrajectoryPayload, TrajectoryRecord, UserContent,
};
use serde_json::Value;

use crate::events::{findings, quick};

/// The folder with midcourse's data.
pub(crate) struct Kept(DataDir);

impl Kept {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self(DataDir::at(folder))
    }

    /// The store, in which nothing is wrong.
    pub(crate) fn store(&self) -> Store {
        let store = Store::open(&self.0, quick()).unwrap();
        assert_eq!(findings(&store), [""; 0]);
        store
    }

    /// The runs: those that work for another last.
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

    /// Fails, if a replay of a run says anything else than was said.
    pub(crate) fn replays_as_it_was(&self) {
        for run in self.store().runs(usize::MAX).unwrap() {
            let mut replay = Command::new(env!("CARGO_BIN_EXE_midcourse"));
            replay.args(["replay", "--json", "--run", run.run_id.as_str()]);
            let output = replay.env("MIDCOURSE_HOME", self.0.path()).output().unwrap();
            let lines = String::from_utf8(output.stdout).unwrap();
            let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
            assert_eq!(last["as_then"], true, "{lines}");
        }
    }

    /// What went wrong.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.0.log_file()).unwrap_or_default()
    }

    /// The files that hold a word.
    pub(crate) fn files_with(&self, word: &str) -> Vec<PathBuf> {
        let holds = |file: &PathBuf| {
            let bytes = fs::read(file).unwrap();
            bytes.windows(word.len()).any(|window| window == word.as_bytes())
        };
        let files = files(self.0.path());
        assert!(!files.is_empty(), "there is a store");
        files.into_iter().filter(holds).collect()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// How many records of a kind there are.
pub(crate) fn count(records: &[TrajectoryRecord], kind: &str) -> usize {
    records.iter().filter(|record| record.payload.kind() == kind).count()
}

/// The messages of a run.
fn messages(records: &[TrajectoryRecord]) -> impl Iterator<Item = &AgentMessage> {
    records.iter().filter_map(|record| match &record.payload {
        TrajectoryPayload::MessageAppended { message } => Some(message),
        _ => None,
    })
}

/// What people said.
pub(crate) fn words(records: &[TrajectoryRecord]) -> Vec<String> {
    let words = |message: &AgentMessage| match message {
        AgentMessage::User { content: UserContent::Text(text), .. } => Some(text.clone()),
        AgentMessage::User { content, .. } => Some(format!("{content:?}")),
        _ => None,
    };
    messages(records).filter_map(words).collect()
}

/// How often the model answered.
pub(crate) fn answers(records: &[TrajectoryRecord]) -> usize {
    messages(records).filter(|message| matches!(message, AgentMessage::Assistant { .. })).count()
}
