//! The identity of a run: its id, its parent's id, and the conversation it belongs to.
//!
//! Ids come from hosts and are stored unchanged. Any text is accepted as an id, because refusing an
//! id would lose its record. Code that puts an id into a path or a URL validates the id first.

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
            /// The id as a string, unchanged.
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
    /// Identifies a run: the host's session id or, if the host has none, an id made up for the run.
    RunId
}

id! {
    /// Identifies a tool call within its run.
    CallId
}

/// Says which run this is, and which run started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunIdentity {
    /// Id of this run.
    pub run_id: RunId,
    /// Id of the run that started this one; `None` if a user started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// Number of ancestors of the run: 0 for a run that a user started, 1 for its subagents.
    #[serde(default)]
    pub depth: usize,
    /// Id of the conversation that the run is part of, if the host has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// When the run has to be done; `None` if it has no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_unix_ms: Option<Timestamp>,
}

impl From<&str> for RunIdentity {
    fn from(run_id: &str) -> Self {
        Self::root(run_id)
    }
}

impl From<String> for RunIdentity {
    fn from(run_id: String) -> Self {
        Self::root(run_id)
    }
}

impl RunIdentity {
    /// A run that a user started. The caller chooses the id, because this crate has no clock and no
    /// random numbers from which it could make a unique id.
    pub fn root(run_id: impl Into<RunId>) -> Self {
        Self {
            run_id: run_id.into(),
            parent_run_id: None,
            depth: 0,
            conversation_id: None,
            deadline_unix_ms: None,
        }
    }

    /// A run that `parent` started, in the same conversation and with the same deadline.
    pub fn child_of(parent: &Self, run_id: impl Into<RunId>) -> Self {
        Self {
            run_id: run_id.into(),
            parent_run_id: Some(parent.run_id.clone()),
            depth: parent.depth.saturating_add(1),
            conversation_id: parent.conversation_id.clone(),
            deadline_unix_ms: parent.deadline_unix_ms,
        }
    }

    /// Sets the host's id of the conversation that the run is part of.
    #[must_use]
    pub fn with_conversation_id(mut self, id: impl Into<String>) -> Self {
        self.conversation_id = Some(id.into());
        self
    }

    /// Sets the time at which the run has to be done.
    #[must_use]
    pub fn with_deadline(mut self, at: Timestamp) -> Self {
        self.deadline_unix_ms = Some(at);
        self
    }
}
