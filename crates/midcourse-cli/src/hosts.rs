//! Hosts: what a coding agent reports at its hooks, and what it can be told there.
//!
//! Each host is two functions with private wire types. Decoding never fails: what cannot be read is
//! itself a fact. Encoding is strict, since hosts differ in what they throw away. Nothing here
//! touches the store or the clock; the command `hook` puts the parts together.

mod claude_code;
mod codex;
mod facts;
mod response;

use std::path::PathBuf;

use midcourse::{
    DecisionPoint, Delivery, DeliveryPolicy, GuidanceSelection, MessageSettings, RunIdentity,
    Timestamp, TrajectoryPayload,
};
use serde::Serialize;

use midcourse::{Event, Source};

/// The most that is said in one run of a host that keeps what it is told, in pieces.
const DELIVERIES_MAX: u64 = 40;

/// The same in characters: each is paid for with every later request.
const CHARS_MAX: u64 = 12_000;

/// A coding agent with hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// The agent of `midcourse demo`, whose hooks are those of Claude Code.
    Demo,
}

/// What a payload of a host turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The facts it holds, in order; none, if it says nothing about the trajectory.
    pub facts: Vec<Event>,
    /// What carries words back to the agent, if anything does.
    pub carrier: Option<Carrier>,
    /// A file of the host's own whose end may know more than the payload.
    pub beside: Option<PathBuf>,
    /// The folder the agent works in.
    pub folder: Option<PathBuf>,
}

/// The hook event in whose answer words travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carrier(&'static str);

impl Host {
    /// All hosts.
    pub const ALL: [Self; 3] = [Self::ClaudeCode, Self::Codex, Self::Demo];

    /// The host of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// The host's name, as it stands in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Demo => "demo",
        }
    }

    /// The name of its program, if people have it.
    pub const fn program(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("claude"),
            Self::Codex => Some("codex"),
            Self::Demo => None,
        }
    }

    /// The events at which it is to run our hook.
    pub const fn hook_events(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode | Self::Demo => &claude_code::EVENTS,
            Self::Codex => &codex::EVENTS,
        }
    }

    /// Reads one payload of a hook, noticed at this time.
    pub fn decode(self, bytes: &[u8], at: Timestamp) -> Decoded {
        match self {
            Self::ClaudeCode | Self::Demo => claude_code::decode(self, bytes, at),
            Self::Codex => codex::decode(bytes, at),
        }
    }

    /// Whether the file beside a payload has to be looked at: for the tokens of the model's
    /// answers, if those are wanted, and where the payloads do not tell all about calls.
    pub const fn looks_beside(self, for_tokens: bool) -> bool {
        for_tokens || matches!(self, Self::Codex)
    }

    /// Adds to what was decoded what the end of the file beside it knows.
    #[must_use]
    pub fn complete(self, decoded: Decoded, end: &[u8], for_tokens: bool) -> Decoded {
        match self {
            Self::ClaudeCode | Self::Demo => claude_code::complete(decoded, end),
            Self::Codex => codex::complete(decoded, end, for_tokens),
        }
    }

    /// The answer that brings words to the agent; empty, if there are none or nothing carries them.
    pub fn encode<'a>(
        self,
        deliveries: impl IntoIterator<Item = &'a Delivery>,
        carrier: Option<Carrier>,
    ) -> Vec<u8> {
        let words = Delivery::labelled_text(deliveries);
        match (words, carrier) {
            (Some(words), Some(carrier)) => match self {
                // No field more than this: Codex drops an answer that has one it does not know,
                // Claude Code one with the name of another event.
                Self::ClaudeCode | Self::Codex | Self::Demo => answer(&words, carrier),
            },
            _ => Vec::new(),
        }
    }

    /// The decision point at which a fact of this host may be spoken about, live and in a replay:
    /// where the host carries words, and nowhere else.
    pub fn point_of(
        self,
        source: &Source,
        is_child: bool,
        payload: &TrajectoryPayload,
    ) -> Option<DecisionPoint> {
        if source.host() != self.name() {
            return None;
        }
        match self {
            Self::ClaudeCode | Self::Demo => claude_code::point_of(source.way(), is_child, payload),
            Self::Codex => codex::point_of(source.way(), is_child, payload),
        }
    }

    /// How much is said: both hosts keep what they are told for the rest of the session and send
    /// it along with every later request, so it is little.
    pub fn speaking(self) -> MessageSettings {
        let delivery = DeliveryPolicy {
            guidance: GuidanceSelection { max_per_decision: 1 },
            max_deliveries: Some(DELIVERIES_MAX),
            max_chars: Some(CHARS_MAX),
            ..DeliveryPolicy::default()
        };
        MessageSettings { delivery, ..MessageSettings::default() }
    }

    /// A fact that came this way. What has no id of its own is one fact if it comes twice in a
    /// row, since hooks may be installed twice.
    fn event(
        self,
        way: &str,
        run: RunIdentity,
        at: Timestamp,
        payload: TrajectoryPayload,
    ) -> Event {
        let event = Event::new(run, Source::new(self.name(), way), at, payload);
        if event.fact.is_some() { event } else { event.deduped() }
    }

    /// A payload that could not be read, kept in the run that it seems to belong to.
    fn unread(self, bytes: &[u8], at: Timestamp) -> Decoded {
        let run = session_in(bytes).map_or_else(
            || RunIdentity::root(format!("{}.unread", self.name())),
            RunIdentity::root,
        );
        let event = Event::unread(run, Source::new(self.name(), "hook"), at, bytes).deduped();
        Decoded { facts: vec![event], ..Decoded::nothing() }
    }
}

impl Decoded {
    /// A payload that says nothing about the trajectory.
    const fn nothing() -> Self {
        Self { facts: Vec::new(), carrier: None, beside: None, folder: None }
    }

    /// The run of a payload that could not be read.
    pub fn unread_run(&self) -> Option<&str> {
        self.facts.iter().find_map(|event| {
            let is_unread = matches!(event.payload, TrajectoryPayload::Unread { .. });
            is_unread.then(|| event.run.run_id.as_str())
        })
    }
}

/// The run of a session, or of an agent that works for it.
pub fn session_run(session: &str, agent: Option<&str>) -> RunIdentity {
    let session_run = RunIdentity::root(session);
    match agent.filter(|agent| !agent.is_empty()) {
        None => session_run,
        Some(agent) => RunIdentity::child_of(&session_run, format!("{session}.{agent}")),
    }
}

/// The session that a payload names although it cannot be read as a whole.
fn session_in(bytes: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"\"session_id\"";
    const ID_MAX: usize = 128;
    let at = bytes.windows(NAME.len()).position(|window| window == NAME)?;
    let rest = bytes.get(at.saturating_add(NAME.len())..)?.trim_ascii_start();
    let rest = rest.strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = rest.iter().take(ID_MAX).position(|byte| *byte == b'"')?;
    let id = std::str::from_utf8(rest.get(..end)?).ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (!id.is_empty() && id.bytes().all(is_plain)).then_some(id)
}

/// The answer that both hosts understand, and no field more.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerWire<'a> {
    hook_specific_output: OutputWire<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputWire<'a> {
    hook_event_name: &'a str,
    additional_context: &'a str,
}

fn answer(words: &str, carrier: Carrier) -> Vec<u8> {
    let hook_specific_output = OutputWire { hook_event_name: carrier.0, additional_context: words };
    // Text always serializes; were it not to, nothing is said.
    serde_json::to_vec(&AnswerWire { hook_specific_output }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use midcourse::Timestamp;

    use super::{Host, session_in};

    #[test]
    fn a_torn_payload_still_names_its_session() {
        assert_eq!(session_in(br#"{"cwd":"/", "session_id" : "a-1.b", "to"#), Some("a-1.b"));
        for none in [
            &b"{\"session_id\":\"torn"[..],
            b"{\"session_id\":\"\"}",
            b"{\"session_id\":\"../../etc\"}",
            b"{\"session_id\":7}",
            b"\xff\xfe\0",
            b"",
        ] {
            assert_eq!(session_in(none), None, "{none:?}");
        }
    }

    #[test]
    fn nothing_that_comes_in_makes_a_host_fail() {
        for host in Host::ALL {
            for (bytes, run) in [
                (&b""[..], format!("{}.unread", host.name())),
                (b"\xff\xfe\0{", format!("{}.unread", host.name())),
                (b"[]", format!("{}.unread", host.name())),
                (b"{\"session_id\":\"s\",\"hook_event_name\":\"PreToolUse\"", "s".to_owned()),
                (b"{\"session_id\":\"s\",\"hook_event_name\":\"PreToolUse\"}", "s".to_owned()),
                (
                    b"{\"session_id\":\"s\",\"hook_event_name\":\"NewInThisRelease\"}",
                    "s".to_owned(),
                ),
                (b"{\"session_id\":\"s\",\"hook_event_name\":7}", "s".to_owned()),
            ] {
                let decoded = host.decode(bytes, Timestamp::default());
                assert_eq!(decoded.unread_run(), Some(run.as_str()), "{bytes:?}");
                assert_eq!(decoded.carrier, None);
            }
        }
    }
}
