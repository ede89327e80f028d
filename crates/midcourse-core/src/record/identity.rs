//! Who a run is: its own id, its parent's, and the conversation it belongs to.
//!
//! Ids come from hosts and are kept as they came. Whoever puts one into a path or a URL checks it
//! there; here any text is an id, because refusing one would lose a record.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(CompactString);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: AsRef<str>> From<T> for $name {
            fn from(id: T) -> Self {
                Self(CompactString::from(id.as_ref()))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// Names one run: the host's session id, or one made for it.
    RunId
}

id! {
    /// Names one tool call within its run.
    CallId
}

/// The identity of one run, threaded through the runs it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunIdentity {
    /// This run.
    pub run_id: RunId,
    /// The run that started this one, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// 0 for a run that a person started, one more for each run above it.
    #[serde(default)]
    pub depth: usize,
    /// The conversation this run is part of, where the host has such a thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// When the run has to be done, if its starter said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_unix_ms: Option<Timestamp>,
}

impl RunIdentity {
    /// A run that a person started. The id is the caller's: making one up takes a clock or dice.
    pub fn root(run_id: impl Into<RunId>) -> Self {
        Self {
            run_id: run_id.into(),
            parent_run_id: None,
            depth: 0,
            conversation_id: None,
            deadline_unix_ms: None,
        }
    }

    /// A run started by `parent`, in the same conversation and under the same deadline.
    pub fn child_of(parent: &Self, run_id: impl Into<RunId>) -> Self {
        Self {
            run_id: run_id.into(),
            parent_run_id: Some(parent.run_id.clone()),
            depth: parent.depth.saturating_add(1),
            conversation_id: parent.conversation_id.clone(),
            deadline_unix_ms: parent.deadline_unix_ms,
        }
    }

    /// The same run, as part of a conversation.
    #[must_use]
    pub fn with_conversation_id(mut self, id: impl Into<String>) -> Self {
        self.conversation_id = Some(id.into());
        self
    }

    /// The same run, due at a moment.
    #[must_use]
    pub fn with_deadline(mut self, at: Timestamp) -> Self {
        self.deadline_unix_ms = Some(at);
        self
    }
}
