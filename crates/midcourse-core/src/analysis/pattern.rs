//! Patterns: what a detector believes about a run, and the records that made it believe so.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, MAX_EVIDENCE_SEQS};
use crate::confidence::Confidence;
use crate::text::{ErrorSignature, SafeName};
use crate::time::Timestamp;

/// The type of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PatternType {
    /// The same calls with the same answers, round and round.
    DoomLoop,
    /// The same error again and again, whatever is tried.
    RepeatedError,
    /// Calls or time without anything new.
    ProgressStall,
    /// Planning, printing and changes that change nothing, without work in between.
    Churn,
    /// Answers without tool calls from a model that has tools.
    ToolAvoidance,
    /// Calls that ask again for what earlier calls returned.
    ContextDegradation,
    /// One file read over and over in pieces.
    Sweep,
    /// One failure after the other.
    ErrorCascade,
    /// The arguments vary, the answer does not.
    Stagnation,
    /// A file that returns to an earlier state.
    WriteThrash,
    /// A wait for something else, which is no loop.
    Waiting,
    /// The network or a service is down.
    Outage,
    /// The same words again and again.
    Monologue,
    /// Work far from where the run began.
    Drift,
    /// A pattern of somebody else's detector.
    Custom(SafeName),
}

impl PatternType {
    /// The stable name.
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
            Self::Waiting => "waiting",
            Self::Outage => "outage",
            Self::Monologue => "monologue",
            Self::Drift => "drift",
            Self::Custom(name) => name.as_str(),
        }
    }
}

impl std::fmt::Display for PatternType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a pattern is made of, by type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PatternDetail {
    /// The same calls with the same answers, round and round.
    DoomLoop {
        /// Calls in one round of the cycle.
        cycle_length: u32,
        /// How often the cycle was gone through.
        repetitions: u32,
        /// The tools of one round.
        cycle_actions: Vec<SafeName>,
        /// How alike the rounds are at the least.
        similarity: Confidence,
    },
    /// The same error again and again.
    RepeatedError {
        /// The error.
        signature: ErrorSignature,
        /// How often it came within the error window.
        count: u32,
        /// The tool it came from last.
        tool: SafeName,
    },
    /// Calls or time without anything new.
    ProgressStall {
        /// Time since the last progress.
        duration: Duration,
        /// Calls since the last progress.
        actions: u64,
    },
    /// Turns that only planned, printed text or changed nothing.
    Churn {
        /// Time since the first of them.
        duration: Duration,
        /// How many turns.
        turns: u32,
    },
    /// Answers without tool calls.
    ToolAvoidance {
        /// How many.
        responses: u32,
    },
    /// Questions asked again.
    ContextDegradation {
        /// How many of the latest calls repeated an earlier one.
        repeated: u32,
        /// How many of the latest calls were examined.
        of: u32,
    },
    /// One file read over and over in pieces.
    Sweep {
        /// The file, unless its name is no longer in the window.
        file: Option<SafeName>,
        /// Reads of the file since it last changed.
        reads: u32,
        /// Reads of lines that had been read before; 0 if all pieces were new.
        repeated: u32,
    },
    /// One failure after the other.
    ErrorCascade {
        /// How many.
        failures: u64,
        /// In how many tools.
        tools: u32,
    },
    /// One answer to many questions.
    Stagnation {
        /// The tool.
        tool: SafeName,
        /// How many questions.
        calls: u32,
    },
    /// A file that returns to an earlier state.
    WriteThrash {
        /// The file, while its name is remembered.
        file: Option<SafeName>,
        /// How often it returned.
        returns: u32,
    },
    /// A wait for something else.
    Waiting {
        /// How often it was asked for.
        polls: u32,
        /// How long.
        duration: Duration,
    },
    /// The network or a service is down.
    Outage {
        /// Failures that say so.
        failures: u32,
    },
    /// The same words again and again.
    Monologue {
        /// In how many messages; 0, if it is over and over within one.
        repetitions: u32,
    },
    /// Work far from where the run began.
    Drift {
        /// Calls in a row outside the first places.
        calls: u32,
    },
    /// What somebody else's detector found.
    Custom {
        /// The type's name.
        name: SafeName,
        /// What it is about.
        subject: Option<SafeName>,
    },
}

impl PatternDetail {
    /// The type these details belong to.
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
            Self::Waiting { .. } => PatternType::Waiting,
            Self::Outage { .. } => PatternType::Outage,
            Self::Monologue { .. } => PatternType::Monologue,
            Self::Drift { .. } => PatternType::Drift,
            Self::Custom { name, .. } => PatternType::Custom(name.clone()),
        }
    }
}

/// What a detector believes.
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
    /// A belief with the records that show it, of which the newest [`MAX_EVIDENCE_SEQS`] are kept.
    ///
    /// `cause` tells this one from the next of its type: a loop over other calls is another loop.
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

    /// The type.
    pub fn pattern_type(&self) -> PatternType {
        self.detail.pattern_type()
    }

    /// What it is made of.
    pub const fn detail(&self) -> &PatternDetail {
        &self.detail
    }

    /// How sure the detector is.
    pub const fn confidence(&self) -> Confidence {
        self.confidence
    }

    /// The records that show it, oldest first.
    pub fn evidence(&self) -> &[u64] {
        &self.evidence
    }

    /// How often it came.
    pub const fn occurrences(&self) -> u32 {
        self.occurrences
    }

    /// When it was first believed.
    pub const fn first_seen(&self) -> Timestamp {
        self.first_seen
    }

    /// The record with which it was first believed.
    pub const fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// What it is about.
    pub const fn cause(&self) -> &Cause {
        &self.cause
    }
}
