//! Which agent a command starts: looks behind wrappers such as `env`, `npx`, `uv run` and `sh -c`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::hosts::Host;

/// An agent that midcourse was tested with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agent {
    /// The file name of its program.
    pub(crate) name: &'static str,
    /// Other names under which it is started: packages of npm and PyPI, Python modules.
    aliases: &'static [&'static str],
    pub(crate) host: Option<Host>,
    /// Whether it draws on the whole terminal, so that a line of midcourse's would spoil it.
    pub(crate) is_full_screen: bool,
}

const AGENTS: [Agent; 11] = [
    Agent::of_host(Host::ClaudeCode),
    Agent::of_host(Host::Codex),
    Agent::of_host(Host::Qwen),
    Agent::of_host(Host::Gemini),
    Agent::of_host(Host::Opencode),
    Agent::of_host(Host::Copilot),
    Agent { aliases: &["aider-chat"], ..Agent::named_only("aider") },
    Agent::named_only("gptme"),
    Agent::named_only("llm"),
    Agent { aliases: &["mini-swe-agent"], ..Agent::named_only("mini") },
    Agent { is_full_screen: true, ..Agent::named_only("openhands") },
];

impl Agent {
    const fn named_only(name: &'static str) -> Self {
        Self { name, aliases: &[], host: None, is_full_screen: false }
    }

    /// An agent with hooks. All of them draw on the whole terminal.
    const fn of_host(host: Host) -> Self {
        let (name, aliases) = match host.capabilities().programs.split_first() {
            Some((name, aliases)) => (*name, aliases),
            None => (host.name(), host.capabilities().programs),
        };
        Self { name, aliases, host: Some(host), is_full_screen: true }
    }

    fn named(name: &str) -> Option<Self> {
        // `npx` takes a version after the package: @openai/codex@0.166.0
        let versionless = match name.rfind('@') {
            Some(at) if at > 0 => name.get(..at).unwrap_or(name),
            _ => name,
        };
        let is_agent = |agent: &Self| {
            agent.name == name || agent.name == versionless || agent.aliases.contains(&versionless)
        };
        AGENTS.into_iter().find(is_agent)
    }
}

/// Where a command names its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// `command[..=at]` starts the agent; its own arguments follow.
    Argument { agent: Agent, at: usize },
    /// `command[at]` is a shell script that is one simple command, split into `words`.
    /// `words[..=word]` starts the agent; its own arguments follow.
    Script { agent: Agent, at: usize, words: Vec<OsString>, word: usize },
    /// A shell script that does more than start the agent.
    InsideScript { agent: Agent },
}

impl Found {
    pub(crate) const fn agent(&self) -> Agent {
        match self {
            Self::Argument { agent, .. }
            | Self::Script { agent, .. }
            | Self::InsideScript { agent } => *agent,
        }
    }
}

/// Finds the agent that a command starts; `None` if it is not one that midcourse knows.
pub(crate) fn find(command: &[OsString]) -> Option<Found> {
    let at = start(command)?;
    let name = file_name(command.get(at)?)?;
    if let Some(agent) = Agent::named(name).or_else(|| Agent::named(command.get(at)?.to_str()?)) {
        return Some(Found::Argument { agent, at });
    }
    if !["sh", "bash", "dash", "zsh", "ksh"].contains(&name) {
        return None;
    }
    // The script is the first argument after the options, one of which contains `c`.
    let options = command.get(at.checked_add(1)?..)?;
    let script = options.iter().position(|word| !is_option(word))?;
    let is_command = |word: &OsString| {
        word.to_str().is_some_and(|word| !word.starts_with("--") && word.contains('c'))
    };
    if !options.get(..script)?.iter().any(is_command) {
        return None;
    }
    let at = at.checked_add(1)?.checked_add(script)?;
    let text = command.get(at)?.to_str()?;
    in_script(text, at)
}

fn in_script(text: &str, at: usize) -> Option<Found> {
    if let Some(words) = simple_words(text) {
        return match find(&words)? {
            Found::Argument { agent, at: word } => Some(Found::Script { agent, at, words, word }),
            other => Some(Found::InsideScript { agent: other.agent() }),
        };
    }
    let names = text.split(|c: char| c.is_whitespace() || ";&|()`'\"".contains(c));
    let agent = names.filter_map(|word| Agent::named(word.rsplit('/').next()?)).next()?;
    Some(Found::InsideScript { agent })
}

/// The words of a script that is one simple command without expansions; `None` otherwise.
fn simple_words(text: &str) -> Option<Vec<OsString>> {
    let has_special = text.contains(|c: char| "$`;&|<>(){}*?[]~#!\\\n=".contains(c));
    let words = if has_special { None } else { shlex::split(text) };
    let words: Vec<OsString> = words?.into_iter().map(OsString::from).collect();
    (!words.is_empty()).then_some(words)
}

/// The index of the program that a command finally starts, behind wrappers.
fn start(command: &[OsString]) -> Option<usize> {
    let mut at = 0;
    loop {
        let name = file_name(command.get(at)?)?;
        let rest = command.get(at.checked_add(1)?..)?;
        let skipped = match name {
            "env" => skip(rest, &["-u", "-C", "--unset", "--chdir"], |word| word.contains('=')),
            "nohup" | "time" | "command" | "exec" | "setsid" | "caffeinate" | "ionice" => {
                skip(rest, &["-c", "-n"], |_| false)
            }
            "nice" => skip(rest, &["-n"], |_| false),
            "stdbuf" => skip(rest, &["-i", "-o", "-e"], |_| false),
            "timeout" => skip(rest, &["-k", "-s", "--signal", "--kill-after"], |_| false)
                .and_then(|at| at.checked_add(1)),
            "npx" | "bunx" | "uvx" => {
                let options = ["-p", "--package", "--from", "--with", "--python"];
                skip(rest, &options, |_| false)
            }
            "uv" | "pipx" | "poetry" | "pnpm" | "npm" | "yarn" | "bun" | "hatch" | "pdm" => {
                let is_subcommand =
                    |word: &str| ["run", "tool", "dlx", "exec", "x"].contains(&word);
                let first = rest.first().and_then(|word| word.to_str());
                let options = ["--with", "--from", "--python", "-p", "--project", "--extra"];
                first.filter(|word| is_subcommand(word)).and(skip(rest, &options, is_subcommand))
            }
            name if is_python(name) => {
                let module = rest.iter().position(|word| word == "-m");
                let is_plain = |at: &usize| {
                    rest.get(..*at).is_some_and(|before| before.iter().all(|it| is_option(it)))
                };
                module.filter(is_plain).and_then(|at| at.checked_add(1))
            }
            _ => None,
        };
        match skipped {
            Some(skipped) => at = at.checked_add(1)?.checked_add(skipped)?,
            None => return Some(at),
        }
    }
}

/// The number of words before the first one that is neither an option, nor the value of an option
/// in `with_value`, nor accepted by `is_prefix`.
fn skip(
    words: &[OsString],
    with_value: &[&str],
    is_prefix: impl Fn(&str) -> bool,
) -> Option<usize> {
    let mut at = 0;
    loop {
        let word = words.get(at)?.to_str()?;
        if with_value.contains(&word) {
            at = at.checked_add(2)?;
        } else if word.starts_with('-') || is_prefix(word) {
            at = at.checked_add(1)?;
        } else {
            return Some(at);
        }
    }
}

fn is_option(word: &OsStr) -> bool {
    word.to_str().is_some_and(|word| word.starts_with('-'))
}

fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python");
    version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

fn file_name(word: &OsStr) -> Option<&str> {
    let name = Path::new(word).file_name()?.to_str()?;
    Some(name.strip_suffix(".exe").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::{Found, find};
    use std::ffi::OsString;

    fn found(command: &[&str]) -> Option<String> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        Some(match find(&command)? {
            Found::Argument { agent, at } => format!("{} at {at}", agent.name),
            Found::Script { agent, at, word, .. } => {
                format!("{} at word {word} of script {at}", agent.name)
            }
            Found::InsideScript { agent } => format!("{} inside a script", agent.name),
        })
    }

    #[test]
    fn agents_are_found_behind_wrappers() {
        for (command, expected) in [
            (&["codex", "exec", "x"][..], "codex at 0"),
            (&["/opt/bin/claude", "-p", "x"], "claude at 0"),
            (&["env", "A=b", "-u", "X", "aider", "--yes"], "aider at 4"),
            (&["npx", "-y", "@openai/codex@0.166.0", "exec"], "codex at 2"),
            (&["npx", "@anthropic-ai/claude-code", "-p", "x"], "claude at 1"),
            (&["uv", "run", "--with", "x", "mini", "-t", "y"], "mini at 4"),
            (&["uv", "tool", "run", "aider"], "aider at 3"),
            (&["uvx", "--from", "aider-chat", "aider"], "aider at 3"),
            (&["nice", "-n", "5", "timeout", "-k", "1", "2h", "aider"], "aider at 7"),
            (&["python3.12", "-m", "aider", "--yes"], "aider at 2"),
            (&["sh", "-c", "codex exec 'do it'"], "codex at word 0 of script 2"),
            (&["bash", "-lc", "env codex exec x"], "codex at word 1 of script 2"),
            (&["env", "sh", "-e", "-c", "claude -p x", "sh"], "claude at word 0 of script 4"),
            (&["sh", "-c", "cd x && codex exec y"], "codex inside a script"),
            (&["sh", "-c", "X=1 /usr/bin/claude -p \"$TASK\""], "claude inside a script"),
        ] {
            assert_eq!(found(command).as_deref(), Some(expected), "{command:?}");
        }
    }

    #[test]
    fn other_commands_are_not_agents() {
        for command in [
            &["python", "agent.py"][..],
            &["python", "claude"],
            &["echo", "claude"],
            &["sh", "claude"],
            &["sh", "-c", "echo hi"],
            &["npm", "install", "codex"],
            &["env"],
            &["uv", "pip", "install", "aider"],
            &[],
        ] {
            assert_eq!(found(command), None, "{command:?}");
        }
    }
}
