//! The subject of a message: what the calls that show a pattern did, and what happened between
//! them. The text of the message is made from the subject. The record of the delivery contains the
//! subject as data, so nobody has to parse the text.

use serde::{Deserialize, Serialize};

use crate::text::{FailureKind, ObjectName};

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Runs a command.
    RunCommand,
    /// Runs a test, a compiler or another check.
    RunCheck,
    /// Shows a file.
    Read,
    /// Searches.
    Search,
    /// Changes a file.
    Edit,
    /// Installs packages.
    Install,
    /// Gets a page or file from another machine.
    Fetch,
    /// Waits, or checks whether something is done.
    Wait,
    /// Gives work to another agent.
    Delegate,
    /// Calls a tool that does none of these.
    CallTool,
}

impl Activity {
    /// What the agent did, such as `ran "cargo test"`; a text puts "you" or "it" before it.
    pub fn did(self, object: Option<&ObjectName>) -> String {
        let of = |verb: &str, otherwise: &str| match object {
            Some(object) => format!("{verb} {object}"),
            None => otherwise.to_owned(),
        };
        match self {
            Self::RunCommand => of("ran", "ran a command"),
            Self::RunCheck => of("ran", "ran a check"),
            Self::Read => of("read", "read a file"),
            Self::Search => of("searched for", "searched"),
            Self::Edit => of("edited", "edited a file"),
            Self::Install => of("ran", "installed packages"),
            Self::Fetch => of("fetched from", "fetched a page"),
            Self::Wait => of("waited with", "waited"),
            Self::Delegate => of("delegated with", "delegated work"),
            Self::CallTool => of("called", "called a tool"),
        }
    }
}

/// What the calls in the evidence of a message did, as far as the kept calls show it. The *calls
/// between* are the calls between the first and the last call of the evidence that are not evidence
/// themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// What the latest of the calls did.
    pub activity: Activity,
    /// What the latest of the calls was about, such as its command or file.
    #[serde(default)]
    pub object: Option<ObjectName>,
    /// The kind of the latest call's failure; `None` if it succeeded.
    #[serde(default)]
    pub failure: Option<FailureKind>,
    /// Whether the latest call succeeded but its result says that something is wrong.
    #[serde(default)]
    pub is_negative: bool,
    /// Whether the latest call's error names a placeholder such as `{}`, which nothing has replaced.
    #[serde(default)]
    pub names_placeholder: bool,
    /// How many different calls there are in the evidence.
    pub different_calls: u32,
    /// How many different errors there are in the evidence; 0 if no call in it failed.
    pub different_errors: u32,
    /// Number of calls between.
    pub calls_between: u32,
    /// How many of the calls between made a change that took effect.
    pub changes_between: u32,
    /// Whether one of the calls between may have changed something, as most commands may.
    pub may_have_changed: bool,
    /// Time from the first to the last call of the evidence, in whole minutes.
    pub minutes: u64,
}
