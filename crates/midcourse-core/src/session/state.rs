//! The state of a session apart from the analysis and the detectors: prompts, delivered messages,
//! patterns, deadline and created files. A checkpoint contains all of it.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use super::cadence::{Cadence, ProviderId};
use super::checkpoint;
use super::launch::UsageBefore;
use super::outcome::Outcomes;
use super::slice::{Recent, Totals};
use crate::analysis::TrajectoryPattern;
use crate::ledger::Ledger;
use crate::message::{Assessment, Feedback, GuidanceDelivered};
use crate::record::{RunIdentity, TrajectoryRecord};
use crate::time::{Deadline, Timestamp};

/// The maximum number of prompts that a session tells apart. If a run has more prompts, the session
/// counts the calls and messages on the further prompts as those of the 16th prompt.
pub const MAX_PROMPTS: usize = 16;

/// The maximum number of created files that are remembered; beyond that, the oldest is forgotten.
pub const MAX_CREATED_FILES: usize = 16;

/// A provider can have a file as its trigger: the provider is due from the creation of the file
/// until it delivers feedback. So the session remembers, for each created file, which providers
/// have delivered feedback since. It remembers at most this many providers per file. Once it has
/// that many, the file triggers no provider any more, because further ones could not be remembered
/// and would be triggered forever.
const MAX_ANNOUNCERS: usize = 32;

/// The maximum number of bytes that are kept of the path of a file or of the name of a prompt.
const MAX_NAME_BYTES: usize = 256;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    #[serde(with = "checkpoint::identity")]
    pub(super) identity: Option<RunIdentity>,
    /// Names of the prompts that the run has been on. A prompt's index here is its number.
    prompts: Vec<CompactString>,
    /// Number of the current prompt.
    pub(super) prompt: u8,
    pub(super) totals: Totals,
    pub(super) feedback: Recent<Assessment>,
    pub(super) guidance: Recent<GuidanceDelivered>,
    pub(super) patterns: Recent<TrajectoryPattern>,
    pub(super) cadence: Cadence,
    pub(super) ledger: Ledger,
    pub(super) outcomes: Outcomes,
    /// The deadline, and the sequence number of the record that set it.
    pub(super) deadline: Option<(Deadline, u64)>,
    pub(super) files: Vec<CreatedFile>,
    pub(super) delivery_totals: DeliveryTotals,
    pub(super) usage_before: UsageBefore,
    /// Whether some messages since the latest launch of the agent were only recorded and not
    /// delivered (shadow mode).
    pub(super) has_shadow_deliveries: bool,
}

/// A file that was created, and the providers that have delivered feedback since then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CreatedFile {
    path: CompactString,
    pub(super) announced_by: Vec<ProviderId>,
}

/// How many messages a run has received. Messages that were only recorded and not shown to the
/// agent (shadow mode) count too; if there are any, both totals restart at 0 when the agent is
/// started again to resume the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryTotals {
    /// Number of messages, feedback and guidance together.
    pub deliveries: u64,
    /// Length of all messages together, in characters.
    pub chars: u64,
}

impl State {
    pub(super) fn enter_prompt(&mut self, name: &str) {
        self.prompt = self.number_prompt(name);
    }

    /// The number of a prompt. A prompt that is new to the run gets the next number.
    fn number_prompt(&mut self, name: &str) -> u8 {
        let name = name.get(..name.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or_default();
        match self.known_prompt(name) {
            Some(number) => number,
            None if self.prompts.len() < MAX_PROMPTS => {
                self.prompts.push(name.into());
                u8::try_from(self.prompts.len() - 1).unwrap_or(0)
            }
            None => u8::try_from(MAX_PROMPTS - 1).unwrap_or(0),
        }
    }

    pub(super) fn prompt_name(&self) -> &str {
        self.prompts.get(usize::from(self.prompt)).map_or("", |name| name)
    }

    /// The number of a prompt; `None` if the run was never on it.
    pub(super) fn known_prompt(&self, name: &str) -> Option<u8> {
        let known = self.prompts.iter().position(|known| known == name);
        known.and_then(|at| u8::try_from(at).ok())
    }

    /// Sets the deadline. Does nothing if the run already has a deadline at this time: the record
    /// that first set it stays the one from which the total time counts.
    pub(super) fn set_deadline(&mut self, at: Timestamp, record: &TrajectoryRecord) {
        if self.deadline.is_none_or(|(known, _)| known.at() != at) {
            self.deadline = Some((Deadline::new(at, record.at()), record.seq));
        }
    }

    pub(super) fn count_calls(&mut self, calls: u64) {
        for _ in 0..calls {
            self.totals.calls.add(self.prompt);
        }
    }

    pub(super) fn record_pattern(&mut self, pattern: TrajectoryPattern) {
        self.totals.patterns.add(self.prompt);
        self.patterns.push(self.prompt, pattern);
    }

    /// Sets the time, call index and prompt of feedback if they are not set yet.
    pub(super) fn complete_feedback(&mut self, feedback: &mut Feedback, now: Timestamp) {
        let prompt = match feedback.prompt_name() {
            "" => self.prompt,
            name => self.number_prompt(name),
        };
        let name = self.prompts.get(usize::from(prompt)).map_or("", |name| name);
        feedback.complete(now, self.totals.calls.get(prompt), name);
    }

    pub(super) fn record_feedback(&mut self, feedback: Feedback) {
        let provider = ProviderId::of(feedback.provider_name());
        let prompt = self.number_prompt(feedback.prompt_name());
        let (at, call) = (feedback.timestamp(), feedback.call_index());
        self.totals.feedback.add(prompt);
        self.cadence.record_feedback(provider, prompt, at, call);
        for file in &mut self.files {
            let is_known = file.announced_by.contains(&provider);
            if !is_known && file.announced_by.len() < MAX_ANNOUNCERS {
                file.announced_by.push(provider);
            }
        }
        self.feedback.push(prompt, Assessment::kept(feedback));
    }

    pub(super) fn record_guidance(&mut self, mut guidance: GuidanceDelivered, turn: u64) {
        guidance.injection = guidance.injection.kept();
        self.totals.guidance.add(self.prompt);
        self.cadence.record_guidance(ProviderId::of(&guidance.provider_name), turn);
        self.guidance.push(self.prompt, guidance);
    }

    pub(super) fn add_created_file(&mut self, path: &str) {
        // If the path is too long, its end is kept, because the end contains the file name.
        let start = path.ceil_char_boundary(path.len().saturating_sub(MAX_NAME_BYTES));
        let path = path.get(start..).unwrap_or_default();
        if self.files.iter().any(|known| known.path == path) {
            return;
        }
        if self.files.len() == MAX_CREATED_FILES {
            self.files.remove(0);
        }
        self.files.push(CreatedFile { path: path.into(), announced_by: Vec::new() });
    }

    pub(super) fn has_unannounced_file(&self, provider: ProviderId, file: &str) -> bool {
        self.files.iter().any(|known| {
            known.matches(file)
                && known.announced_by.len() < MAX_ANNOUNCERS
                && !known.announced_by.contains(&provider)
        })
    }
}

impl CreatedFile {
    /// Whether `file` is the path of this file, or the last part of the path: `b.rs` and `src/b.rs`
    /// match `/project/src/b.rs`.
    fn matches(&self, file: &str) -> bool {
        self.path
            .strip_suffix(file)
            .is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
    }
}
