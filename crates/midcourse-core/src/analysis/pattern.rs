//! Patterns: what detectors find in the records of a run, such as a loop, with the records that
//! show it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, MAX_EVIDENCE_SEQS};
use crate::confidence::Confidence;
use crate::text::{ErrorSignature, SafeName};
use crate::time::Timestamp;

/// The kind of behaviour that a pattern shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PatternType {
    /// The same calls with the same results, over and over.
    DoomLoop,
    /// The same error over and over, whatever the agent tries.
    RepeatedError,
    /// Many calls, or a long time, without a change or a new result.
    ProgressStall,
    /// The agent only plans, prints text or makes edits without effect, and does no work in
    /// between.
    Churn,
    /// Responses that announce actions and contain no tool call.
    ToolAvoidance,
    /// Calls that ask again for what earlier calls returned: the agent loses track of what it has
    /// read.
    ContextDegradation,
    /// One file read over and over in pieces.
    Sweep,
    /// Many failures with different errors, in a row or nearly so.
    ErrorCascade,
    /// Different calls with the same result.
    Stagnation,
    /// A file that keeps returning to an earlier state.
    WriteThrash,
    /// The agent changes something again and again, and the same check gives the same result each
    /// time.
    NoEffect,
    /// The agent waits for something, such as a build. Waiting is not trouble and gets no message.
    Waiting,
    /// The network or a service is down.
    Outage,
    /// The model repeats the same text.
    Monologue,
    /// Responses that only say that the agent waits, ask, thank, or say that the work is done, and
    /// that call no tool.
    IdleTalk,
    /// Work on files outside the folders where the run began.
    Drift,
    /// A pattern that a custom detector reports, with the name that the detector gives it.
    Custom(SafeName),
}

impl PatternType {
    /// The name in configuration files, in scenario files and in stored data. It stays the same
    /// from version to version.
    pub fn as_str(&self) -> &str {
        match self {
            Self::DoomLoop => "doom_loop",
            Self::RepeatedError => "repeated_error",
            Self::ProgressStall => "progress_stall",
            Self::Churn => "churn",
            Self::ToolAvoidance => "tool_avoidance",
            Self::ContextDegradation => "context_degradation",
            Self::Sweep => "sweep",
            Self::ErrorCascade => "error_cascade",
            Self::Stagnation => "stagnation",
            Self::WriteThrash => "write_thrash",
            Self::NoEffect => "no_effect",
            Self::Waiting => "waiting",
            Self::Outage => "outage",
            Self::Monologue => "monologue",
            Self::IdleTalk => "idle_talk",
            Self::Drift => "drift",
            Self::Custom(name) => name.as_str(),
        }
    }
}

impl PatternType {
    /// Whether the behaviour is trouble. Every pattern is, except waiting.
    pub const fn is_trouble(&self) -> bool {
        !matches!(self, Self::Waiting)
    }
}

impl std::fmt::Display for PatternType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The type of a pattern, with the numbers and names that a message about it can mention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PatternDetail {
    /// The same calls with the same results, over and over.
    DoomLoop {
        /// Number of calls in one round of the cycle.
        cycle_length: u32,
        /// Number of complete rounds so far.
        repetitions: u32,
        /// The tools of one round, in order.
        cycle_actions: Vec<SafeName>,
        /// The lowest similarity between calls of different rounds; 1 if all are equal.
        similarity: Confidence,
    },
    /// The same error over and over.
    RepeatedError {
        /// Signature of the error, as it last occurred.
        signature: ErrorSignature,
        /// Number of turns in which a call failed with this error, among the latest calls.
        count: u32,
        /// The tool that failed last.
        tool: SafeName,
    },
    /// Many calls, or a long time, without a change or a new result.
    ProgressStall {
        /// Time since the last progress.
        duration: Duration,
        /// Calls since the last progress.
        actions: u64,
    },
    /// Turns that only planned, printed text or made edits without effect.
    Churn {
        /// Time since the first of these turns.
        duration: Duration,
        /// Number of these turns.
        turns: u32,
    },
    /// Responses that announce actions and contain no tool call.
    ToolAvoidance {
        /// Number of responses in a row that only announce an action.
        responses: u32,
    },
    /// Calls that ask again for what earlier calls returned.
    ContextDegradation {
        /// How many of the latest calls repeated an earlier one.
        repeated: u32,
        /// How many of the latest calls were examined.
        of: u32,
    },
    /// One file read over and over in pieces.
    Sweep {
        /// Name of the file; `None` if it is not known, because only the latest calls keep names.
        file: Option<SafeName>,
        /// Number of reads of the file since it last changed.
        reads: u32,
        /// Number of reads that mostly showed lines that had been read before. It is 0 if the
        /// pattern was reported only because of the large number of reads.
        repeated: u32,
    },
    /// Many failures with different errors, in a row or nearly so.
    ErrorCascade {
        /// Number of turns in which a call failed.
        failures: u64,
        /// How many different tools failed.
        tools: u32,
    },
    /// Different calls with the same result.
    Stagnation {
        /// The tool of the latest call.
        tool: SafeName,
        /// Number of different calls with the same result.
        calls: u32,
    },
    /// A file that keeps returning to an earlier state.
    WriteThrash {
        /// Name of the file; `None` if it is not known, because only the latest calls keep names.
        file: Option<SafeName>,
        /// How often the file returned to an earlier state.
        returns: u32,
    },
    /// The agent changes something again and again, and the same check gives the same result each
    /// time.
    NoEffect {
        /// Number of changes, or groups of changes, each followed by the check.
        changes: u32,
        /// Whether the result goes back and forth between two results.
        alternates: bool,
    },
    /// The agent waits for something, such as a build.
    Waiting {
        /// Number of polls (calls that wait or look again) so far.
        polls: u32,
        /// Time since the wait began.
        duration: Duration,
    },
    /// The network or a service is down.
    Outage {
        /// Number of turns in which a call reported the outage.
        failures: u32,
    },
    /// The model repeats the same text.
    Monologue {
        /// Number of responses with the same text; 0 if the text repeats within one response.
        repetitions: u32,
    },
    /// Responses that only say that the agent waits, ask, thank, or say that the work is done, and
    /// that call no tool.
    IdleTalk {
        /// Number of these responses in a row.
        responses: u32,
    },
    /// Work on files outside the folders where the run began, or many changes although the user
    /// asked for nothing else.
    Drift {
        /// Number of consecutive calls on files outside the folders where the run began, or of
        /// different objects that were changed.
        calls: u32,
        /// Whether the user asked to change nothing but what the message names.
        is_forbidden: bool,
    },
    /// The finding of a custom detector.
    Custom {
        /// The name of the pattern, as the detector gives it.
        name: SafeName,
        /// Name of the file, tool or other thing that the pattern is about, if any.
        subject: Option<SafeName>,
    },
}

impl PatternDetail {
    /// The type of pattern that these details describe.
    pub fn pattern_type(&self) -> PatternType {
        match self {
            Self::DoomLoop { .. } => PatternType::DoomLoop,
            Self::RepeatedError { .. } => PatternType::RepeatedError,
            Self::ProgressStall { .. } => PatternType::ProgressStall,
            Self::Churn { .. } => PatternType::Churn,
            Self::ToolAvoidance { .. } => PatternType::ToolAvoidance,
            Self::ContextDegradation { .. } => PatternType::ContextDegradation,
            Self::Sweep { .. } => PatternType::Sweep,
            Self::ErrorCascade { .. } => PatternType::ErrorCascade,
            Self::Stagnation { .. } => PatternType::Stagnation,
            Self::WriteThrash { .. } => PatternType::WriteThrash,
            Self::NoEffect { .. } => PatternType::NoEffect,
            Self::Waiting { .. } => PatternType::Waiting,
            Self::Outage { .. } => PatternType::Outage,
            Self::Monologue { .. } => PatternType::Monologue,
            Self::IdleTalk { .. } => PatternType::IdleTalk,
            Self::Drift { .. } => PatternType::Drift,
            Self::Custom { name, .. } => PatternType::Custom(name.clone()),
        }
    }
}

/// Trouble or another behaviour that a detector found in a run, with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryPattern {
    detail: PatternDetail,
    confidence: Confidence,
    evidence: Vec<u64>,
    occurrences: u32,
    cause: Cause,
    pub(super) detector: u8,
    pub(super) first_seen: Timestamp,
    pub(super) first_seq: u64,
}

impl TrajectoryPattern {
    /// Creates a pattern. `evidence` is the positions in the run (seqs) of the records that show
    /// the pattern; the newest [`MAX_EVIDENCE_SEQS`] are kept.
    ///
    /// `cause` says which problem the pattern is about, so that two patterns of one type can be
    /// told apart: loops over different calls have different causes. `occurrences` is the number of
    /// repetitions, failures or calls that the detector counted, depending on the type.
    pub fn new(
        detail: PatternDetail,
        confidence: Confidence,
        cause: Cause,
        occurrences: u32,
        evidence: impl IntoIterator<Item = u64>,
    ) -> Self {
        let mut evidence: Vec<u64> = evidence.into_iter().collect();
        evidence.sort_unstable();
        evidence.dedup();
        evidence.drain(..evidence.len().saturating_sub(MAX_EVIDENCE_SEQS));
        Self {
            detail,
            confidence,
            evidence,
            occurrences,
            cause,
            detector: 0,
            first_seen: Timestamp::default(),
            first_seq: 0,
        }
    }

    /// The kind of behaviour that the pattern shows.
    pub fn pattern_type(&self) -> PatternType {
        self.detail.pattern_type()
    }

    /// The numbers and names that a message about the pattern can mention.
    pub const fn detail(&self) -> &PatternDetail {
        &self.detail
    }

    /// How sure the detector is, from 0 to 1.
    pub const fn confidence(&self) -> Confidence {
        self.confidence
    }

    /// Positions in the run (seqs) of the records that show the pattern, oldest first.
    pub fn evidence(&self) -> &[u64] {
        &self.evidence
    }

    /// The number of repetitions, failures or calls that the detector counted, depending on the
    /// type.
    pub const fn occurrences(&self) -> u32 {
        self.occurrences
    }

    /// When the pattern was first detected.
    pub const fn first_seen(&self) -> Timestamp {
        self.first_seen
    }

    /// Position in the run (seq) of the record after which the pattern was first detected.
    pub const fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Which problem the pattern is about. Two patterns of one type with different causes are two
    /// different problems.
    pub const fn cause(&self) -> &Cause {
        &self.cause
    }
}
