//! What is known about tools: which write, which wait, which arguments do not matter.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::text::ArgsView;

/// Parts of a tool's name that say it changes things.
const WRITING_WORDS: [&str; 9] =
    ["write", "edit", "patch", "replace", "create", "insert", "delete", "update", "rename"];

/// Parts of a tool's name that say it waits.
const WAITING_WORDS: [&str; 3] = ["wait", "sleep", "poll"];

/// What the user says about one tool; what is left open is guessed from its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSetting {
    /// Whether a call of it changes things.
    pub writes: Option<bool>,
    /// Whether asking it again and again is its purpose.
    pub polls: Option<bool>,
    /// Top-level arguments that do not belong to the question.
    pub volatile: Vec<CompactString>,
}

/// What the user says about tools, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSettings(BTreeMap<CompactString, ToolSetting>);

impl ToolSettings {
    /// Says something about a tool.
    #[must_use]
    pub fn with(mut self, tool: impl Into<CompactString>, setting: ToolSetting) -> Self {
        self.0.insert(tool.into(), setting);
        self
    }

    fn get(&self, tool: &str) -> Option<&ToolSetting> {
        // Most runs have no settings, and then there is nothing to look up.
        if self.0.is_empty() { None } else { self.0.get(tool) }
    }

    pub(super) fn writes(&self, tool: &str, args: ArgsView<'_>) -> bool {
        self.get(tool).and_then(|setting| setting.writes).unwrap_or_else(|| {
            contains_any(tool, &WRITING_WORDS)
                // The editor tools that take their verb as an argument.
                || (args.command.is_some_and(|verb| {
                    matches!(verb, "create" | "str_replace" | "insert")
                }))
        })
    }

    pub(super) fn waits(&self, tool: &str, args: ArgsView<'_>) -> bool {
        self.get(tool).and_then(|setting| setting.polls).unwrap_or_else(|| {
            contains_any(tool, &WAITING_WORDS) || args.command.is_some_and(sleeps)
        })
    }

    pub(super) fn is_volatile(&self, tool: &str, args: ArgsView<'_>, key: &str) -> bool {
        // Beside a command, a description is the model talking to itself.
        (key == "description" && args.command.is_some())
            || self.get(tool).is_some_and(|setting| setting.volatile.iter().any(|k| k == key))
    }
}

/// Whether a command begins with a sleep, or sleeps between two others.
fn sleeps(command: &str) -> bool {
    let mut parts = command.split([';', '&', '|', '\n']).take(8);
    parts.any(|part| {
        let part = part.trim_start();
        part.starts_with("sleep ") || part.starts_with("wait ") || part == "wait"
    })
}

fn contains_any(name: &str, words: &[&str]) -> bool {
    let mut lower = [0_u8; 64];
    let end = name.len().min(lower.len());
    let (Some(place), Some(bytes)) = (lower.get_mut(..end), name.as_bytes().get(..end)) else {
        return false;
    };
    place.copy_from_slice(bytes);
    place.make_ascii_lowercase();
    let place = &*place;
    words.iter().any(|word| place.windows(word.len()).any(|part| part == word.as_bytes()))
}
