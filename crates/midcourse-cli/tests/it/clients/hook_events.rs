//! The hook events for which the command installs midcourse's hooks. Integration tests and
//! benchmarks cannot use the command's own list, because a binary crate exports nothing. So they
//! install hooks for the events in this list; a unit test compares the two lists.

pub(crate) const CLAUDE_CODE: [&str; 11] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
];

pub(crate) const CODEX: [&str; 10] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostCompact",
    "Stop",
    "Interrupt",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
];
