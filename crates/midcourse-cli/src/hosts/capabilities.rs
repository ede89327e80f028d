//! What each host can do, in one table. `midcourse run` finds hosts by it, `midcourse hook` takes its
//! limits from it, and a test compares it with the table in `docs/hosts.md`.

use midcourse::DecisionPoint::{
    self, PostToolResult, PreRender, PreToolExecution, PreToolSelection,
};

use super::Host;

/// One row of the table.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "some fields are for the documentation"))]
pub(crate) struct Capabilities {
    /// The host's name in records and in `midcourse hook HOST`.
    pub(crate) name: &'static str,
    /// The vendor's name for the host.
    pub(crate) title: &'static str,
    /// The file name of the host's program, then the packages that contain it.
    pub(crate) programs: &'static [&'static str],
    /// Whether its hooks report the ids of tool calls. If not, `midcourse hook` numbers the calls.
    pub(crate) has_call_ids: bool,
    /// How midcourse learns that a call failed, in words.
    pub(crate) failure_source: &'static str,
    /// The decision points at which the host takes a message, each with its hook events.
    pub(crate) points: &'static [(DecisionPoint, &'static [&'static str])],
    pub(crate) persistence: Persistence,
    /// Whether midcourse learns from its hooks or its transcript how many tokens it has used.
    pub(crate) reports_tokens: bool,
    /// Whether its hooks report the end of every session. If not, `midcourse run` records the end.
    pub(crate) reports_end: bool,
    /// Who records and delivers if `midcourse run` also starts a proxy.
    pub(crate) with_proxy: WithProxy,
    /// Whether `midcourse run` can install its hooks only as root.
    pub(crate) needs_root: bool,
    /// The unit of a hook's time limit in the host's settings.
    pub(crate) timeout_unit: TimeoutUnit,
    /// The oldest release with which midcourse was tested.
    pub(crate) oldest_tested: &'static str,
}

/// How long a message from a hook stays in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// The host sends the message with every later model request.
    Kept,
    /// A message with a prompt stays; any other message is in one model request only.
    KeptWithPrompt,
    /// Every message is in one model request only.
    Never,
}

/// Who records and delivers if hooks and a proxy could see the same session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithProxy {
    /// Hooks and proxy record into one run, and the proxy delivers. Needs call ids and a session id
    /// in the host's requests.
    Both,
    /// The hooks record nothing: they would record the same calls in another run.
    Proxy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeoutUnit {
    Seconds,
    Milliseconds,
}

const CLAUDE_CODE: Capabilities = Capabilities {
    name: "claude-code",
    title: "Claude Code",
    programs: &["claude", "@anthropic-ai/claude-code"],
    has_call_ids: true,
    failure_source: "PostToolUseFailure",
    points: &[
        (PreRender, &["SessionStart", "UserPromptSubmit"]),
        (PreToolSelection, &["PostToolBatch"]),
        (PreToolExecution, &["PreToolUse"]),
        (PostToolResult, &["PostToolUse", "PostToolUseFailure"]),
    ],
    persistence: Persistence::Kept,
    reports_tokens: true,
    reports_end: true,
    with_proxy: WithProxy::Both,
    needs_root: false,
    timeout_unit: TimeoutUnit::Seconds,
    oldest_tested: "2.1.197",
};

const CODEX: Capabilities = Capabilities {
    name: "codex",
    title: "Codex",
    programs: &["codex", "@openai/codex"],
    has_call_ids: true,
    failure_source: "exit code in the rollout",
    points: &[
        (PreRender, &["SessionStart", "UserPromptSubmit"]),
        (PreToolSelection, &["PostToolUse"]),
        (PreToolExecution, &["PreToolUse"]),
    ],
    persistence: Persistence::Kept,
    reports_tokens: true,
    reports_end: true,
    with_proxy: WithProxy::Both,
    needs_root: false,
    timeout_unit: TimeoutUnit::Seconds,
    oldest_tested: "0.166.0",
};

const QWEN: Capabilities = Capabilities {
    name: "qwen",
    title: "Qwen Code",
    programs: &["qwen", "@qwen-code/qwen-code"],
    has_call_ids: true,
    failure_source: "PostToolUseFailure; exit code in the text before release 0.24",
    points: &[
        (PreRender, &["SessionStart", "UserPromptSubmit"]),
        (PostToolResult, &["PostToolUse", "PostToolUseFailure", "PostToolBatch"]),
    ],
    persistence: Persistence::Kept,
    reports_tokens: true,
    reports_end: false,
    with_proxy: WithProxy::Proxy,
    needs_root: false,
    timeout_unit: TimeoutUnit::Milliseconds,
    oldest_tested: "0.15.10",
};

const GEMINI: Capabilities = Capabilities {
    name: "gemini",
    title: "Gemini CLI",
    programs: &["gemini", "@google/gemini-cli"],
    has_call_ids: false,
    failure_source: "`error` in AfterTool; exit code in the text",
    points: &[(PreRender, &["BeforeAgent"]), (PreToolSelection, &["BeforeModel"])],
    persistence: Persistence::KeptWithPrompt,
    reports_tokens: true,
    reports_end: true,
    with_proxy: WithProxy::Proxy,
    needs_root: true,
    timeout_unit: TimeoutUnit::Milliseconds,
    oldest_tested: "0.61.0",
};

const OPENCODE: Capabilities = Capabilities {
    name: "opencode",
    title: "opencode",
    programs: &["opencode", "opencode-ai"],
    has_call_ids: true,
    failure_source: "`exit` in tool.execute.after; errors in the messages of the next request",
    points: &[(PreToolSelection, &["chat.messages.transform"])],
    persistence: Persistence::Never,
    reports_tokens: true,
    reports_end: false,
    with_proxy: WithProxy::Proxy,
    needs_root: false,
    timeout_unit: TimeoutUnit::Milliseconds,
    oldest_tested: "1.18.33",
};

const COPILOT: Capabilities = Capabilities {
    name: "copilot",
    title: "Copilot CLI",
    programs: &["copilot", "@github/copilot"],
    has_call_ids: false,
    failure_source: "PostToolUseFailure; exit code in the text",
    points: &[
        (PreRender, &["SessionStart", "UserPromptSubmit"]),
        (PostToolResult, &["PostToolUse", "PostToolUseFailure"]),
    ],
    persistence: Persistence::Kept,
    reports_tokens: false,
    reports_end: true,
    with_proxy: WithProxy::Proxy,
    needs_root: false,
    timeout_unit: TimeoutUnit::Seconds,
    oldest_tested: "1.0.102",
};

/// The agent of `midcourse demo`, whose hooks have the same format as Claude Code's.
const DEMO: Capabilities =
    Capabilities { name: "demo", title: "demo", programs: &[], ..CLAUDE_CODE };

impl Host {
    pub(crate) const fn capabilities(self) -> &'static Capabilities {
        match self {
            Self::ClaudeCode => &CLAUDE_CODE,
            Self::Codex => &CODEX,
            Self::Qwen => &QWEN,
            Self::Gemini => &GEMINI,
            Self::Opencode => &OPENCODE,
            Self::Copilot => &COPILOT,
            Self::Demo => &DEMO,
        }
    }
}

impl TimeoutUnit {
    /// How many milliseconds this unit has.
    pub(crate) const fn ms(self) -> f64 {
        match self {
            Self::Seconds => 1_000.0,
            Self::Milliseconds => 1.0,
        }
    }

    /// The unit in words.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
        }
    }

    /// A time limit in this unit.
    pub(super) const fn of_seconds(self, seconds: u64) -> u64 {
        match self {
            Self::Seconds => seconds,
            Self::Milliseconds => seconds.saturating_mul(1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Capabilities, Persistence, TimeoutUnit};
    use crate::hosts::Host;

    /// The row of a host in `docs/hosts.md`.
    fn row(host: &Capabilities) -> String {
        let code = |names: &[&str]| {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        let points = host.points.iter().map(|(point, events)| {
            format!("{}: {}", point.as_str().replace('_', " "), events.join(", "))
        });
        let ids = if host.has_call_ids { "yes" } else { "no" };
        let stays = match host.persistence {
            Persistence::Kept => "yes",
            Persistence::KeptWithPrompt => "only with the prompt",
            Persistence::Never => "no",
        };
        let unit = match host.timeout_unit {
            TimeoutUnit::Seconds => "s",
            TimeoutUnit::Milliseconds => "ms",
        };
        let points = points.collect::<Vec<_>>().join("; ");
        let (title, name, programs) = (host.title, host.name, code(host.programs));
        let failure = host.failure_source;
        format!(
            "| {title} | `{name}` | {programs} | {ids} | {failure} | {points} | {stays} | {unit} |"
        )
    }

    #[test]
    fn the_documentation_has_a_row_for_each_host() {
        let page = include_str!("../../../../docs/hosts.md");
        let table = page.lines().skip_while(|line| !line.starts_with("| host |")).skip(2);
        let rows: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
        let hosts = Host::ALL.into_iter().filter(|host| *host != Host::Demo);
        let expected: Vec<String> = hosts.map(|host| row(host.capabilities())).collect();
        assert_eq!(rows, expected);
    }
}
