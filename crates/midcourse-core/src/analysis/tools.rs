//! What is known about tools: which of them write or wait, and which arguments are ignored when
//! calls are compared.
//!
//! The user's settings come first. What they leave open is guessed from the words of the tool's
//! name and from the call's arguments.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::text::{ArgsView, CommandView};

/// If the name of a tool contains one of these words, the tool changes something.
const WRITING_WORDS: [&str; 24] = [
    "write", "edit", "patch", "replace", "create", "insert", "delete", "update", "rename",
    "remove", "append", "save", "move", "add", "set", "put", "post", "send", "submit", "upload",
    "click", "press", "book", "cancel",
];

/// If the name of a tool contains one of these words, the tool waits or reads the output of a
/// running process.
const WAITING_WORDS: [&str; 4] = ["wait", "sleep", "poll", "output"];

/// If the name of a tool contains one of these words, the tool only records plans or thoughts.
const PLANNING_WORDS: [&str; 8] =
    ["plan", "todo", "todos", "think", "thought", "thinking", "reflect", "checklist"];

/// If the name of a tool contains one of these words, the tool searches.
const SEARCHING_WORDS: [&str; 7] = ["search", "find", "grep", "glob", "lookup", "query", "locate"];

/// First words of SQL statements that change a database.
const SQL_WRITING_VERBS: [&str; 9] =
    ["insert", "update", "delete", "alter", "create", "drop", "grant", "truncate", "merge"];

/// If the name of a tool contains one of these words, the tool runs shell commands.
const SHELL_WORDS: [&str; 9] =
    ["bash", "sh", "shell", "zsh", "exec", "terminal", "console", "command", "cmd"];

/// If the name of a tool contains one of these words, the tool shows a file.
const SHOWING_WORDS: [&str; 6] = ["read", "view", "open", "cat", "show", "fetch"];

/// If the name of a tool contains one of these words, the tool gives work to another agent.
const DELEGATING_WORDS: [&str; 7] =
    ["task", "agent", "subagent", "delegate", "handoff", "dispatch", "spawn"];

/// If the name of a tool contains one of these words, the tool acts on a page or a screen and
/// usually returns what the page looks like afterwards. Words for typing are left out, because
/// typed text is often not visible in the result.
const UI_WORDS: [&str; 6] = ["click", "press", "tap", "hover", "scroll", "swipe"];

/// Arguments that are ignored when calls are compared: they explain the call, limit its time or
/// output, or ask for permissions.
const IRRELEVANT_ARGUMENTS: [&str; 19] = [
    "request_id",
    "trace_id",
    "correlation_id",
    "idempotency_key",
    "nonce",
    "timestamp",
    "attempt",
    "explanation",
    "reasoning",
    "rationale",
    "justification",
    "reason",
    "thought",
    "timeout",
    "timeout_ms",
    "timeout_seconds",
    "yield_time_ms",
    "max_output_tokens",
    "with_escalated_permissions",
];

/// The user's settings for one tool. A field that is `None` is guessed from the tool's name and
/// arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSetting {
    /// Whether calls of the tool change files or other state.
    pub writes: Option<bool>,
    /// Whether calls of the tool wait or poll, as `sleep` or a status query does. Repeating them is
    /// not a loop.
    pub polls: Option<bool>,
    /// Names of top-level arguments that are ignored when calls are compared.
    pub volatile: Vec<CompactString>,
}

/// The user's settings for tools, by exact tool name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSettings(BTreeMap<CompactString, ToolSetting>);

impl ToolSettings {
    /// Adds or replaces the settings for a tool.
    #[must_use]
    pub fn with(mut self, tool: impl Into<CompactString>, setting: ToolSetting) -> Self {
        self.0.insert(tool.into(), setting);
        self
    }

    fn get(&self, tool: &str) -> Option<&ToolSetting> {
        // Most runs have no settings; that case skips the lookup.
        if self.0.is_empty() { None } else { self.0.get(tool) }
    }

    pub(super) fn writes(
        &self,
        tool: &str,
        name: NameTraits,
        args: &ArgsView<'_>,
        command: Option<&CommandView<'_>>,
    ) -> bool {
        let configured = self.get(tool).and_then(|setting| setting.writes);
        configured.unwrap_or_else(|| match args.command.as_deref() {
            // Some editor tools have one name for all their actions, and the argument `command`
            // says which action to take.
            Some("view") => false,
            Some("create" | "str_replace" | "insert" | "undo_edit") => true,
            _ => {
                command.is_some_and(|command| command.writes)
                    || args.search_term.is_some_and(is_sql_write)
                    || (name.has(NameTraits::WRITES) && !name.has(NameTraits::PLANS))
                    || args.action.is_some_and(|action| has_word(action, &WRITING_WORDS))
            }
        })
    }

    pub(super) fn waits(
        &self,
        tool: &str,
        name: NameTraits,
        args: &ArgsView<'_>,
        command: Option<&CommandView<'_>>,
    ) -> bool {
        let configured = self.get(tool).and_then(|setting| setting.polls);
        configured.unwrap_or_else(|| {
            name.has(NameTraits::WAITS)
                || command.is_some_and(|command| command.waits)
                // A call that sends empty input to a running process only waits for its output.
                || args.input.is_some_and(str::is_empty)
        })
    }

    pub(super) fn is_volatile(&self, tool: &str, args: &ArgsView<'_>, key: &str) -> bool {
        // In a call with a command, the description only explains the command.
        (key == "description" && args.command.is_some())
            // A page gives its elements new references each time it is loaded.
            || (key == "ref" && args.has_element)
            || IRRELEVANT_ARGUMENTS.contains(&key)
            || self.get(tool).is_some_and(|setting| setting.volatile.iter().any(|k| k == key))
    }
}

fn is_sql_write(statement: &str) -> bool {
    let verb = statement.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next();
    verb.is_some_and(|verb| SQL_WRITING_VERBS.iter().any(|known| verb.eq_ignore_ascii_case(known)))
}

/// What a tool does, judged by the words of its name; one bit per property.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NameTraits(u8);

impl NameTraits {
    const WRITES: Self = Self(1);
    const WAITS: Self = Self(1 << 1);
    /// The tool only records plans or thoughts.
    pub(super) const PLANS: Self = Self(1 << 2);
    pub(super) const SEARCHES: Self = Self(1 << 3);
    pub(super) const SHELL: Self = Self(1 << 4);
    pub(super) const SHOWS_FILE: Self = Self(1 << 5);
    /// The tool gives work to another agent.
    pub(super) const DELEGATES: Self = Self(1 << 7);
    /// The tool acts on a page or a screen.
    pub(super) const UI: Self = Self(1 << 6);

    // The lists are short and searched once per tool name, so a hash table would gain nothing.
    const LISTS: [(Self, &[&str]); 8] = [
        (Self::WRITES, &WRITING_WORDS),
        (Self::WAITS, &WAITING_WORDS),
        (Self::PLANS, &PLANNING_WORDS),
        (Self::SEARCHES, &SEARCHING_WORDS),
        (Self::SHELL, &SHELL_WORDS),
        (Self::SHOWS_FILE, &SHOWING_WORDS),
        (Self::DELEGATES, &DELEGATING_WORDS),
        (Self::UI, &UI_WORDS),
    ];

    pub(super) fn of(tool: &str) -> Self {
        Self(
            Self::LISTS.iter().fold(0, |traits, (one, words)| {
                traits | if has_word(tool, words) { one.0 } else { 0 }
            }),
        )
    }

    pub(super) const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }
}

/// A cache of the traits of tool names: a run calls the same few tools many times.
#[derive(Debug, Clone, Default)]
pub(super) struct ToolNameCache(Vec<(CompactString, NameTraits)>);

impl ToolNameCache {
    const MAX_NAMES: usize = 16;
    const MAX_NAME_BYTES: usize = 64;

    pub(super) fn traits(&mut self, tool: &str) -> NameTraits {
        if let Some((_, traits)) = self.0.iter().find(|(known, _)| known == tool) {
            return *traits;
        }
        let traits = NameTraits::of(tool);
        if self.0.len() < Self::MAX_NAMES && tool.len() <= Self::MAX_NAME_BYTES {
            self.0.push((tool.into(), traits));
        }
        traits
    }
}

/// Whether a word of a tool's name is in a list. Names are split into words at separators and
/// capital letters: `str_replace`, `NotebookEdit`, `apply-patch`.
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
    fn tool_names_are_read_word_by_word() {
        let writes = |tool: &str| {
            let name = NameTraits::of(tool);
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
    fn settings_override_the_guess_from_the_name() {
        let setting = ToolSetting { writes: Some(false), polls: Some(true), ..Default::default() };
        let tools = ToolSettings::default().with("edit", setting);
        let name = NameTraits::of("edit");
        assert!(!tools.writes("edit", name, &ArgsView::default(), None));
        assert!(tools.waits("edit", name, &ArgsView::default(), None));
    }
}
