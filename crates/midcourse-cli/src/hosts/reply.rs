//! The reply that a hook prints. Each hook event of a host accepts a message in one form only, and
//! hosts ignore replies in another form.

use serde::Serialize;
use serde_json::{Value, json};

/// The form in which a host accepts a message in the reply to a hook event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReplyForm {
    /// `hookSpecificOutput` with `additionalContext`. Contains the name of the hook event, which
    /// must be the event to which the reply belongs: Claude Code ignores a reply with another name.
    HookOutput(&'static str),
    /// The messages of the model request that is about to be sent, with one more at the end.
    /// Contains those messages. It is the form of Gemini CLI's BeforeModel.
    ModelRequest(Vec<Value>),
    /// `{"additionalContext": …}`, for Copilot CLI.
    Context,
    /// `{"text": …}`, for midcourse's plugin for opencode.
    Text,
}

impl ReplyForm {
    pub(super) fn encode(&self, text: &str) -> Vec<u8> {
        // Serialising strings and JSON values cannot fail; if it did, the empty reply would deliver
        // nothing.
        match self {
            Self::HookOutput(event) => serde_json::to_vec(&HookReplyWire {
                hook_specific_output: ContextWire {
                    hook_event_name: event,
                    additional_context: text,
                },
            }),
            Self::ModelRequest(messages) => {
                let message = json!({"role": "user", "content": text});
                let messages = messages.iter().chain([&message]).collect();
                serde_json::to_vec(&HookReplyWire {
                    hook_specific_output: RequestWire {
                        hook_event_name: "BeforeModel",
                        llm_request: MessagesWire { messages },
                    },
                })
            }
            Self::Context => serde_json::to_vec(&json!({"additionalContext": text})),
            Self::Text => serde_json::to_vec(&json!({"text": text})),
        }
        .unwrap_or_default()
    }

    /// The message in a reply; `None` if the reply has none or has another form, so that the host
    /// would ignore it.
    pub(crate) fn message_in(&self, reply: &[u8]) -> Option<String> {
        let reply: Value = serde_json::from_slice(reply).ok()?;
        let text = match self {
            Self::HookOutput(_) => reply.pointer("/hookSpecificOutput/additionalContext"),
            Self::ModelRequest(messages) => {
                let last = messages.len();
                reply.pointer(&format!("/hookSpecificOutput/llm_request/messages/{last}/content"))
            }
            Self::Context => reply.get("additionalContext"),
            Self::Text => reply.get("text"),
        };
        let text = text?.as_str().filter(|text| !text.is_empty())?;
        let expected: Value = serde_json::from_slice(&self.encode(text)).ok()?;
        (reply == expected).then(|| text.to_owned())
    }
}

/// The JSON of a reply. Do not add fields: Codex ignores a reply if it does not know one of its
/// fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookReplyWire<T> {
    hook_specific_output: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContextWire<'a> {
    hook_event_name: &'a str,
    additional_context: &'a str,
}

#[derive(Serialize)]
struct RequestWire<'a> {
    #[serde(rename = "hookEventName")]
    hook_event_name: &'a str,
    llm_request: MessagesWire<'a>,
}

#[derive(Serialize)]
struct MessagesWire<'a> {
    messages: Vec<&'a Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ReplyForm;

    #[test]
    fn a_message_is_found_only_in_a_reply_of_the_same_form() {
        let forms = [
            ReplyForm::HookOutput("PostToolUse"),
            ReplyForm::HookOutput("PreToolUse"),
            ReplyForm::ModelRequest(vec![json!({"role": "user", "content": "x"})]),
            ReplyForm::Context,
            ReplyForm::Text,
        ];
        for one in &forms {
            for other in &forms {
                let found = other.message_in(&one.encode("look elsewhere"));
                assert_eq!(found.is_some(), one == other, "{one:?} {other:?}");
            }
            for nothing in ["", "{}", "plain text", "null"] {
                assert_eq!(one.message_in(nothing.as_bytes()), None);
            }
            assert_eq!(one.message_in(&one.encode("")), None);
        }
        let more = json!({"additionalContext": "x", "systemMessage": "y"}).to_string();
        assert_eq!(ReplyForm::Context.message_in(more.as_bytes()), None);
    }
}
