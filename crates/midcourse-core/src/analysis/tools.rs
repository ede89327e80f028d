//! What is known about tools: which write, which wait, which arguments do not matter.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::text::{ArgsView, CommandView};

/// Words of a tool's name that say it changes things.
const WRITING_WORDS: [&str; 24] = [
    "write", "edit", "patch", "replace", "create", "insert", "delete", "update", "rename",
    "remove", "append", "save", "move", "add", "set", "put", "post", "send", "submit", "upload",
    "click", "press", "book", "cancel",
];

/// Words of a tool's name that say it waits, or asks what something that runs has said.
const WAITING_WORDS: [&str; 4] = ["wait", "sleep", "poll", "output"];

/// Words of a tool's name that say it notes what is to be done, and does nothing.
const PLANNING_WORDS: [&str; 8] =
    ["plan", "todo", "todos", "think", "thought", "thinking", "reflect", "checklist"];

/// Words of a tool's name that say it looks for something.
const SEEKING_WORDS: [&str; 7] = ["search", "find", "grep", "glob", "lookup", "query", "locate"];

/// First words of statements that change a database.
const CHANGING_VERBS: [&str; 9] =
    ["insert", "update", "delete", "alter", "create", "drop", "grant", "truncate", "merge"];

/// Words of a tool's name that say it is a shell.
const SHELL_WORDS: [&str; 9] =
    ["bash", "sh", "shell", "zsh", "exec", "terminal", "console", "command", "cmd"];

/// Words of a tool's name that say it shows a file.
const SHOWING_WORDS: [&str; 6] = ["read", "view", "open", "cat", "show", "fetch"];

/// Arguments in which a model talks to itself, or says how long it would wait.
const ASIDES: [&str; 11] = [
    "explanation",
    "reasoning",
    "rationale",
    "justification",
    "thought",
    "timeout",
    "timeout_ms",
    "timeout_seconds",
    "yield_time_ms",
    "max_output_tokens",
    "with_escalated_permissions",
];

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

    pub(super) fn writes(
        &self,
        tool: &str,
        name: NameKinds,
        args: &ArgsView<'_>,
        command: Option<&CommandView<'_>>,
    ) -> bool {
        let said = self.get(tool).and_then(|setting| setting.writes);
        said.unwrap_or_else(|| match args.command.as_deref() {
            // The editor tools that take their verb as an argument.
            Some("view") => false,
            Some("create" | "str_replace" | "insert" | "undo_edit") => true,
            _ => {
                command.is_some_and(|command| command.writes)
                    || args.search_term.is_some_and(changes_a_table)
                    || (name.has(NameKinds::WRITES) && !name.has(NameKinds::PLANS))
            }
        })
    }

    pub(super) fn waits(
        &self,
        tool: &str,
        name: NameKinds,
        args: &ArgsView<'_>,
        command: Option<&CommandView<'_>>,
    ) -> bool {
        let said = self.get(tool).and_then(|setting| setting.polls);
        said.unwrap_or_else(|| {
            name.has(NameKinds::WAITS)
                || command.is_some_and(|command| command.waits)
                // Nothing typed into what runs: it is only being waited for.
                || args.input.is_some_and(str::is_empty)
        })
    }

    pub(super) fn is_volatile(&self, tool: &str, args: &ArgsView<'_>, key: &str) -> bool {
        // Beside a command, a description is the model talking to itself.
        (key == "description" && args.command.is_some())
            || ASIDES.contains(&key)
            || self.get(tool).is_some_and(|setting| setting.volatile.iter().any(|k| k == key))
    }
}

/// Whether a statement to a database changes it.
fn changes_a_table(statement: &str) -> bool {
    let verb = statement.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next();
    verb.is_some_and(|verb| CHANGING_VERBS.iter().any(|known| verb.eq_ignore_ascii_case(known)))
}

/// What a tool does, by the words of its name, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NameKinds(u8);

impl NameKinds {
    const WRITES: Self = Self(1);
    const WAITS: Self = Self(1 << 1);
    /// It notes what is to be done.
    pub(super) const PLANS: Self = Self(1 << 2);
    /// It looks for something.
    pub(super) const SEEKS: Self = Self(1 << 3);
    /// It is a shell.
    pub(super) const SHELL: Self = Self(1 << 4);
    /// It shows a file.
    pub(super) const SHOWS: Self = Self(1 << 5);

    const LISTS: [(Self, &[&str]); 6] = [
        (Self::WRITES, &WRITING_WORDS),
        (Self::WAITS, &WAITING_WORDS),
        (Self::PLANS, &PLANNING_WORDS),
        (Self::SEEKS, &SEEKING_WORDS),
        (Self::SHELL, &SHELL_WORDS),
        (Self::SHOWS, &SHOWING_WORDS),
    ];

    fn of(tool: &str) -> Self {
        Self(
            Self::LISTS.iter().fold(0, |kinds, (kind, words)| {
                kinds | if has_word(tool, words) { kind.0 } else { 0 }
            }),
        )
    }

    pub(super) const fn has(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }
}

/// Names that were read, so that each of a run's few tools is read once.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownNames(Vec<(CompactString, NameKinds)>);

impl KnownNames {
    /// Names that are remembered.
    const MAX: usize = 16;

    pub(super) fn kinds(&mut self, tool: &str) -> NameKinds {
        if let Some((_, kinds)) = self.0.iter().find(|(known, _)| known == tool) {
            return *kinds;
        }
        let kinds = NameKinds::of(tool);
        if self.0.len() < Self::MAX && tool.len() <= Self::MAX * 4 {
            self.0.push((tool.into(), kinds));
        }
        kinds
    }
}

/// Whether one of the words of a name is in a list: `str_replace`, `NotebookEdit`, `apply-patch`.
fn has_word(name: &str, list: &[&str]) -> bool {
    let bytes = name.as_bytes();
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1);
        let is_end = next.is_none_or(|next| {
            !next.is_ascii_alphanumeric()
                || (next.is_ascii_uppercase() && byte.is_ascii_lowercase())
        });
        if !byte.is_ascii_alphanumeric() {
            start = at + 1;
        } else if is_end {
            let word = bytes.get(start..=at).unwrap_or_default();
            if list.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())) {
                return true;
            }
            start = at + 1;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_word_by_word() {
        let writes = |tool: &str| {
            let name = NameKinds::of(tool);
            ToolSettings::default().writes(tool, name, &ArgsView::default(), None)
        };
        for tool in ["Write", "MultiEdit", "NotebookEdit", "apply_patch", "str-replace", "fs.write"]
        {
            assert!(writes(tool), "{tool}");
        }
        for tool in ["Read", "dispatch_agent", "bash", "credited", "overwritten", "TodoWrite", ""] {
            assert!(!writes(tool), "{tool}");
        }
    }

    #[test]
    fn what_the_user_says_counts() {
        let setting = ToolSetting { writes: Some(false), polls: Some(true), ..Default::default() };
        let tools = ToolSettings::default().with("edit", setting);
        let name = NameKinds::of("edit");
        assert!(!tools.writes("edit", name, &ArgsView::default(), None));
        assert!(tools.waits("edit", name, &ArgsView::default(), None));
    }
}
