//! Hosts: coding agents that run a command (a hook) at each step and read its reply. One module per
//! host contains everything specific to the host: decoding the payloads of its hooks, encoding
//! replies, adding hooks to its command line, and reading its transcript.
//!
//! Decoding never fails: a payload that cannot be decoded becomes an `Unread` event. Replies must
//! have exactly the host's format, because hosts ignore other replies. This module does not use the
//! store or the clock; its callers, `midcourse hook` and `midcourse run`, do.

mod capabilities;
mod claude_code;
mod codex;
mod copilot;
mod gemini;
mod hook_settings;
mod imported_run;
mod llm_content;
mod opencode;
mod payload;
mod qwen;
mod reply;
mod sample;
mod settings_file;
mod settings_path;
mod tool_result;
mod unnamed_call;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use midcourse::{
    Channel, DecisionPoint, Delivery, DeliveryPolicy, Event, GuidanceSelection, RunIdentity,
    Source, Timestamp, TrajectoryPayload,
};

pub(crate) use claude_code::session as claude_code_session;
pub(crate) use claude_code::status_line::{self, StatusLine};
pub(crate) use codex::session as codex_session;
pub(crate) use copilot::session as copilot_session;
pub(crate) use gemini::session as gemini_session;
pub(crate) use hook_settings::{HookSettings, InstalledHook, midcourse_arguments, option_value};
pub(crate) use opencode::session as opencode_session;
pub(crate) use qwen::session as qwen_session;
pub(crate) use reply::ReplyForm;
pub(crate) use sample::Sample;
pub(crate) use settings_file::changed_by_others;
pub(crate) use unnamed_call::UnnamedCall;

pub(crate) use capabilities::WithProxy;

use capabilities::Persistence;
use settings_path::SettingsPath;

/// Maximum number of messages in one run. The limit is low because a host repeats the messages from
/// hooks in every later model request, which costs tokens.
const MAX_DELIVERIES: u64 = 40;

/// Maximum number of characters in all messages of one run.
const MAX_CHARS: u64 = 12_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    ClaudeCode,
    Codex,
    Qwen,
    Gemini,
    Opencode,
    Copilot,
    /// The agent of `midcourse demo`, whose hooks have the same format as Claude Code's.
    Demo,
}

/// What the payload of one hook call contains.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    /// The events, in order. Empty if the payload contains nothing to record.
    pub(crate) events: Vec<Event>,
    /// The form in which the host accepts a message in the reply to this hook event; `None` if it
    /// accepts none.
    pub(crate) reply: Option<ReplyForm>,
    /// The path of the host's transcript; `None` if the transcript need not be read for this
    /// payload.
    pub(crate) transcript: Option<PathBuf>,
    /// The agent's working directory.
    pub(crate) cwd: Option<PathBuf>,
    /// The call that the payload reports, if the host has no call ids. `midcourse hook` gives it one.
    pub(crate) unnamed_call: Option<UnnamedCall>,
    /// What the payload or the transcript says about the session as a whole.
    pub(crate) about: About,
}

/// What a host says about a session as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) model: Option<String>,
    pub(crate) host_version: Option<String>,
}

/// Environment variables for a host's process.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// The arguments for starting a host with midcourse's hooks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HookedArguments {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Environment,
    /// Files that the arguments and variables refer to, each as path and content. The caller of
    /// `install_hooks` must write these files into the folder that it passed to `install_hooks`.
    pub(crate) files: Vec<(&'static str, String)>,
}

/// What `midcourse install` writes into a file of a host.
#[derive(Debug)]
pub(crate) enum Installation {
    /// Hooks in a settings file, which may contain other things.
    Hooks(HookSettings),
    /// A file that contains nothing else.
    Plugin(PluginFile),
}

/// The text of a plugin.
#[derive(Debug)]
pub(crate) struct PluginFile(pub(crate) String);

impl PluginFile {
    /// Whether this is the text of midcourse's plugin, in this or another version.
    pub(crate) fn is_ours(text: &str) -> bool {
        opencode::is_plugin(text)
    }

    /// The command that a plugin of midcourse's starts.
    pub(crate) fn command(text: &str) -> Option<Vec<String>> {
        opencode::plugin_command(text)
    }

    /// How many milliseconds a plugin of midcourse's waits for the command.
    pub(crate) fn time_limit_ms(text: &str) -> Option<f64> {
        opencode::plugin_time_limit_ms(text)
    }
}

/// Why hooks cannot be added to a host's command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("the JSON after --settings is invalid: {0}")]
    InvalidSettings(serde_json::Error),
    #[error(
        "its command line sets hooks (-c hooks…), which would replace midcourse's; move them to \
         Codex's config.toml"
    )]
    HooksOnCommandLine,
    #[error("`codex app-server` did not list the hooks: {0}")]
    AppServer(String),
    #[error(
        "Codex lists {listed} of {expected} hooks; this release of Codex may be too old or too \
         new. To record its runs, use `midcourse install codex` and approve the hooks \
         with /hooks"
    )]
    HooksNotListed { listed: usize, expected: usize },
    #[error(
        "Gemini CLI reads hooks for one process only from a file of root's, and {} is not root's \
         alone. To record its runs, use `midcourse install gemini`",
        .0.display()
    )]
    NotOfRoot(PathBuf),
    #[error("the command starts no session")]
    Subcommand,
    #[error("the environment variable {0} contains no valid JSON object with a list `plugin`")]
    InvalidConfigVariable(&'static str),
    #[error("its settings file {} cannot be extended: {why}", path.display())]
    SettingsFile { path: PathBuf, why: String },
}

impl Host {
    pub(crate) const ALL: [Self; 7] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Qwen,
        Self::Gemini,
        Self::Opencode,
        Self::Copilot,
        Self::Demo,
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// The host's name in records and in `midcourse hook HOST`.
    pub(crate) const fn name(self) -> &'static str {
        self.capabilities().name
    }

    /// Decodes the payload of a hook. `at` is the time at which the payload was received.
    pub(crate) fn decode(self, bytes: &[u8], at: Timestamp) -> Decoded {
        match self {
            Self::ClaudeCode | Self::Demo => claude_code::decode(self, bytes, at),
            Self::Codex => codex::decode(bytes, at),
            Self::Qwen => qwen::decode(bytes, at),
            Self::Gemini => gemini::decode(bytes, at),
            Self::Opencode => opencode::decode(bytes, at),
            Self::Copilot => copilot::decode(bytes, at),
        }
    }

    /// Adds to `decoded` what only the transcript contains: token counts and, for Codex, how some
    /// tool calls ended. `tail` is the end of the transcript. If `counts_tokens` is false, token
    /// counts are left out, because the proxy reports them.
    #[must_use]
    pub(crate) fn add_transcript(
        self,
        decoded: Decoded,
        tail: &[u8],
        counts_tokens: bool,
    ) -> Decoded {
        match self {
            Self::Codex => codex::add_transcript(decoded, tail, counts_tokens),
            _ if !counts_tokens => decoded,
            Self::ClaudeCode | Self::Demo => claude_code::add_transcript(decoded, tail),
            Self::Qwen => qwen::add_transcript(decoded, tail),
            Self::Gemini => gemini::add_transcript(decoded, tail),
            // Payloads of opencode contain everything, and those of Copilot CLI do not name the
            // transcript while it matters.
            Self::Opencode | Self::Copilot => decoded,
        }
    }

    /// Encodes the reply with the messages for the agent. The reply is empty if there are no
    /// messages, or if the host accepts none in the reply to this hook event.
    pub(crate) fn encode<'a>(
        deliveries: impl IntoIterator<Item = &'a Delivery>,
        reply: Option<&ReplyForm>,
    ) -> Vec<u8> {
        match (Delivery::labelled_text(deliveries), reply) {
            (Some(text), Some(form)) => form.encode(&text),
            _ => Vec::new(),
        }
    }

    /// The limits on messages from hooks. They are low where the host repeats these messages in
    /// each later model request of the session, which costs tokens.
    pub(crate) fn delivery_policy(self) -> DeliveryPolicy {
        match self.capabilities().persistence {
            Persistence::Kept => permanent_policy(),
            Persistence::KeptWithPrompt | Persistence::Never => DeliveryPolicy::default(),
        }
    }

    /// Changes the host's arguments and environment so that its hooks run `hook_command`. The caller
    /// must write the returned files into `folder` before it starts the host.
    pub(crate) fn install_hooks(
        self,
        starter: &[OsString],
        arguments: &[OsString],
        hook_command: &str,
        folder: &Path,
    ) -> Result<HookedArguments, InstallError> {
        match self {
            Self::ClaudeCode | Self::Demo => {
                claude_code::install_hooks(arguments, hook_command, folder)
            }
            Self::Codex => codex::install_hooks(starter, arguments, hook_command),
            Self::Qwen => qwen::install_hooks(arguments, hook_command, folder),
            Self::Gemini => gemini::install_hooks(arguments, hook_command, folder),
            Self::Opencode => opencode::install_hooks(arguments, hook_command, folder),
            Self::Copilot => copilot::install_hooks(arguments, hook_command, folder),
        }
    }

    /// Where the host keeps the file into which `midcourse install` writes.
    pub(crate) const fn settings_path(self) -> &'static SettingsPath {
        match self {
            Self::ClaudeCode | Self::Demo => &claude_code::SETTINGS,
            Self::Codex => &codex::SETTINGS,
            Self::Qwen => &qwen::SETTINGS,
            Self::Gemini => &gemini::SETTINGS,
            Self::Opencode => &opencode::SETTINGS,
            Self::Copilot => &copilot::SETTINGS,
        }
    }

    /// The folders in which the host keeps its sessions. They may not exist.
    pub(crate) fn session_folders(
        self,
        variable: impl Fn(&str) -> Option<OsString>,
        home: Option<&Path>,
    ) -> Vec<PathBuf> {
        let (path, names): (&SettingsPath, &[&str]) = match self {
            Self::ClaudeCode => (&claude_code::SETTINGS, &["projects"]),
            Self::Codex => (&codex::SETTINGS, &["sessions", "archived_sessions"]),
            Self::Qwen => (&qwen::SETTINGS, &["projects", "tmp"]),
            Self::Gemini => (&gemini::SETTINGS, &["tmp"]),
            Self::Copilot => (&copilot::SETTINGS, &["session-state", "history-session-state"]),
            Self::Opencode => (&opencode::DATA, &[""]),
            Self::Demo => return Vec::new(),
        };
        let folder = path.folder_of_user(variable, home);
        folder.map_or_else(Vec::new, |folder| names.iter().map(|name| folder.join(name)).collect())
    }

    /// What `midcourse install` writes into that file.
    pub(crate) fn installation(self, hook_command: &str) -> Installation {
        Installation::Hooks(match self {
            Self::ClaudeCode | Self::Demo => claude_code::hook_settings(hook_command),
            Self::Codex => codex::hook_settings(hook_command),
            Self::Qwen => qwen::hook_settings(hook_command),
            Self::Gemini => gemini::hook_settings(hook_command),
            Self::Copilot => copilot::hook_settings(hook_command),
            Self::Opencode => {
                return Installation::Plugin(PluginFile(opencode::plugin(hook_command)));
            }
        })
    }

    /// Creates an event. If hooks are installed twice, they report every event twice. The store
    /// recognises the second report of an event that has a key, such as a call id. An event without
    /// a key is dropped if it equals the event directly before it.
    fn event(
        self,
        channel: Channel,
        run: RunIdentity,
        at: Timestamp,
        payload: TrajectoryPayload,
    ) -> Event {
        let event = Event::new(run, Source::new(self.name(), channel), at, payload);
        if event.fact.is_some() { event } else { event.deduped() }
    }

    /// Returns an `Unread` event with the bytes of a payload that cannot be decoded. If the session
    /// id can be found in these bytes, the event belongs to the run of that session; otherwise to a
    /// run for all such payloads of the host.
    fn unread(self, bytes: &[u8], at: Timestamp) -> Decoded {
        let run = session_id_in(bytes).map_or_else(
            || RunIdentity::root(format!("{}.unread", self.name())),
            RunIdentity::root,
        );
        let event =
            Event::unread(run, Source::new(self.name(), Channel::Hook), at, bytes).deduped();
        Decoded { events: vec![event], ..Decoded::nothing() }
    }
}

impl Decoded {
    const fn nothing() -> Self {
        Self {
            events: Vec::new(),
            reply: None,
            transcript: None,
            cwd: None,
            unnamed_call: None,
            about: About { model: None, host_version: None },
        }
    }

    /// The result of decoding a payload that contains one event. `reply` is `None` if the host
    /// ignores the reply to this event, so that no message can be delivered.
    fn one(mut event: Event, reply: Option<(ReplyForm, DecisionPoint)>) -> Self {
        let (reply, decision_point) = reply.unzip();
        event.decision_point = decision_point;
        Self { events: vec![event], reply, ..Self::nothing() }
    }

    /// If the payload could not be decoded, the id of the run in which it is kept as an `Unread`
    /// event; otherwise `None`.
    pub(crate) fn unread_run(&self) -> Option<&str> {
        self.events.iter().find_map(|event| {
            let is_unread = matches!(event.payload, TrajectoryPayload::Unread { .. });
            is_unread.then(|| event.run.run_id.as_str())
        })
    }
}

/// The limits on messages that stay in the conversation.
pub(crate) fn permanent_policy() -> DeliveryPolicy {
    DeliveryPolicy {
        guidance: GuidanceSelection { max_per_decision: 1 },
        max_deliveries: Some(MAX_DELIVERIES),
        max_chars: Some(MAX_CHARS),
        ..DeliveryPolicy::default()
    }
}

/// The run that belongs to a host's session or, with a subagent's id, the child run of that
/// subagent.
pub(crate) fn session_run(session: &str, subagent: Option<&str>) -> RunIdentity {
    let session_run = RunIdentity::root(session);
    match subagent.filter(|subagent| !subagent.is_empty()) {
        None => session_run,
        Some(subagent) => RunIdentity::child_of(&session_run, format!("{session}.{subagent}")),
    }
}

/// Finds the session id in a payload that is not valid JSON, such as one that was cut off.
fn session_id_in(bytes: &[u8]) -> Option<&str> {
    const KEY: &[u8] = b"\"session_id\"";
    const MAX_ID_LEN: usize = 128;
    let at = bytes.windows(KEY.len()).position(|window| window == KEY)?;
    let rest = bytes.get(at.saturating_add(KEY.len())..)?.trim_ascii_start();
    let rest = rest.strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = rest.iter().take(MAX_ID_LEN).position(|byte| *byte == b'"')?;
    let id = std::str::from_utf8(rest.get(..end)?).ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (!id.is_empty() && id.bytes().all(is_plain)).then_some(id)
}
