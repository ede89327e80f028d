//! A message of a chat, in the form of OpenAI's API and of the programs that imitate it.
//!
//! Readers of several formats use it. Parsing is tolerant: a field of an unexpected type is taken as
//! missing.

use std::time::Duration;

use midcourse::{Timestamp, Usage};
use serde_json::Value;

use super::transcript::{Call, CallResult, Response, Transcript};
use crate::session_file::{Fate, Found, parse_time};

/// A message, by the role of its author.
#[derive(Debug)]
pub(super) enum Message {
    System(String),
    User(String),
    Assistant(Response),
    Result(CallResult),
    /// A role that is not known, or none.
    Unknown(String),
}

impl Message {
    pub(super) fn parse(message: &Value) -> Self {
        let role = text_field(message, "role");
        let content = || text_of(message.get("content"));
        match role {
            "system" | "developer" => Self::System(content()),
            "user" => Self::User(content()),
            "assistant" => Self::Assistant(Response {
                text: visible_text(message),
                reasoning: reasoning_of(message),
                calls: calls_of(message),
                usage: message.get("usage").and_then(usage_of),
            }),
            "tool" | "function" => {
                // In the older form, a result has the name of the function and no id.
                let tool = match text_field(message, "name") {
                    "" => text_field(message, "function"),
                    name => name,
                };
                Self::Result(CallResult {
                    id: text_field(message, "tool_call_id").to_owned(),
                    tool: tool.to_owned(),
                    text: content(),
                    is_error: None,
                })
            }
            "" => Self::Unknown("(no role)".to_owned()),
            role => Self::Unknown(role.to_owned()),
        }
    }

    /// The name of the role, for counting.
    pub(super) fn kind(&self) -> &str {
        match self {
            Self::System(_) => "system",
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::Result(_) => "tool",
            Self::Unknown(role) => role,
        }
    }

    /// Records the message and counts it.
    pub(super) fn record(self, run: &mut Transcript, found: &mut Found) {
        let kind = self.kind().to_owned();
        let mut fate = Fate::Used;
        match self {
            Self::System(text) => run.system(text, found),
            Self::User(text) => run.user(text, found),
            Self::Assistant(response) => run.response(response, found),
            Self::Result(result) => {
                if !run.result(result, found) {
                    fate = Fate::Ignored;
                }
            }
            Self::Unknown(_) => fate = Fate::Unknown,
        }
        found.count(&kind, fate);
    }
}

/// Whether messages are the run of an agent, and not only a question and its reply: there is a tool
/// call or a second response.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct AgentSigns {
    responses: usize,
    has_call: bool,
}

impl AgentSigns {
    pub(super) fn add(&mut self, message: &Message) {
        match message {
            Message::Assistant(response) => {
                self.responses += 1;
                self.has_call |= !response.calls.is_empty();
            }
            Message::Result(_) => self.has_call = true,
            _ => {}
        }
    }

    pub(super) const fn is_agent(self) -> bool {
        self.has_call || self.responses > 1
    }
}

/// A field that is a text; empty if it is missing.
pub(super) fn text_field<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a message's content, which is a text or a list of parts.
pub(super) fn text_of(content: Option<&Value>) -> String {
    match content {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<_> = parts.iter().filter_map(part_text).collect();
            texts.join("\n")
        }
        Some(other) => other.to_string(),
    }
}

fn part_text(part: &Value) -> Option<String> {
    let kind = text_field(part, "type");
    match part {
        Value::String(text) => Some(text.clone()),
        _ if kind.contains("image") => Some("[image]".to_owned()),
        _ if kind.contains("audio") => Some("[audio]".to_owned()),
        _ if kind == "reasoning" || kind == "thinking" => None,
        _ => match part.get("text").or_else(|| part.get("refusal")) {
            Some(Value::String(text)) => Some(text.clone()),
            _ => Some(part.to_string()),
        },
    }
}

/// The text of a response, or the reason that the model gave for refusing to respond.
fn visible_text(message: &Value) -> String {
    match text_of(message.get("content")) {
        text if text.is_empty() => text_field(message, "refusal").to_owned(),
        text => text,
    }
}

fn reasoning_of(message: &Value) -> String {
    let field = ["reasoning_content", "reasoning"].iter().find_map(|name| {
        let text = text_field(message, name);
        (!text.is_empty()).then(|| text.to_owned())
    });
    let parts = || {
        let parts = message.get("content").and_then(Value::as_array)?;
        let text = |part: &Value| {
            let text = part.get("reasoning").or_else(|| part.get("thinking"))?;
            text.as_str().map(ToOwned::to_owned)
        };
        Some(parts.iter().filter_map(text).collect::<Vec<_>>().join("\n"))
    };
    field.or_else(parts).unwrap_or_default()
}

fn calls_of(message: &Value) -> Vec<Call> {
    let calls = message.get("tool_calls").and_then(Value::as_array);
    let calls = calls.into_iter().flatten().filter_map(call_of);
    // The older form: one call without an id.
    let older = message.get("function_call").and_then(|function| named_call("", function));
    calls.chain(older).collect()
}

/// A call: OpenAI has the name and the arguments in `function` or `custom`, Inspect has them at the
/// call itself.
pub(super) fn call_of(call: &Value) -> Option<Call> {
    let id = text_field(call, "id");
    match (call.get("function"), call.get("custom")) {
        (Some(Value::String(name)), _) => {
            let args = call.get("arguments").map(arguments).unwrap_or_default();
            Some(Call { id: id.to_owned(), tool: name.clone(), args })
        }
        (Some(function), _) | (None, Some(function)) => named_call(id, function),
        (None, None) => named_call(id, call),
    }
}

fn named_call(id: &str, function: &Value) -> Option<Call> {
    let tool = function.get("name")?.as_str()?.to_owned();
    let args = function.get("arguments").or_else(|| function.get("input"));
    Some(Call { id: id.to_owned(), tool, args: args.map(arguments).unwrap_or_default() })
}

/// Arguments are JSON in a text; a text that is not JSON is kept as it is.
fn arguments(value: &Value) -> Value {
    let Value::String(text) = value else { return value.clone() };
    match serde_json::from_str(text) {
        Ok(parsed @ (Value::Object(_) | Value::Array(_))) => parsed,
        _ => value.clone(),
    }
}

/// Tokens, under the names of OpenAI's two APIs. `None` if there are no counts.
pub(super) fn usage_of(usage: &Value) -> Option<Usage> {
    let count = |names: &[&str]| {
        names.iter().find_map(|name| usage.pointer(name)?.as_i64().filter(|count| *count >= 0))
    };
    let input = count(&["/prompt_tokens", "/input_tokens"]);
    let output = count(&["/completion_tokens", "/output_tokens"]);
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached =
        count(&["/prompt_tokens_details/cached_tokens", "/input_tokens_details/cached_tokens"]);
    let cached = cached.unwrap_or(0);
    Some(Usage {
        input_tokens: input.unwrap_or(0).saturating_sub(cached),
        output_tokens: output.unwrap_or(0),
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: cached,
        is_estimate: false,
    })
}

/// A time: a date, or a number of seconds or milliseconds since 1970.
pub(super) fn time_of(value: &Value) -> Option<Timestamp> {
    /// Numbers of at least this size are milliseconds, smaller ones are seconds.
    const MIN_MILLISECONDS: f64 = 1e11;
    if let Value::String(date) = value {
        return parse_time(date);
    }
    let number = value.as_f64()?;
    let seconds = if number < MIN_MILLISECONDS { number } else { number / 1e3 };
    let since_1970 = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(since_1970.as_millis()).ok().map(Timestamp::from_unix_ms)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn response(message: &Value) -> Response {
        let Message::Assistant(response) = Message::parse(message) else { unreachable!() };
        response
    }

    #[test]
    fn calls_are_found_in_every_form() {
        let calls = json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "a", "arguments": "{\"x\":1}"}},
            {"id": "2", "type": "custom", "custom": {"name": "b", "input": "text"}},
            {"id": "3", "function": "c", "arguments": {"y": 2}}, {"id": "4"}, 5],
            "function_call": {"name": "d", "arguments": "{broken"}});
        let calls = response(&calls).calls;
        let found: Vec<_> =
            calls.iter().map(|call| (call.id.as_str(), call.tool.as_str(), &call.args)).collect();
        assert_eq!(
            found,
            [
                ("1", "a", &json!({"x": 1})),
                ("2", "b", &json!("text")),
                ("3", "c", &json!({"y": 2})),
                ("", "d", &json!("{broken")),
            ]
        );
    }

    #[test]
    fn text_and_reasoning_are_found_in_texts_and_parts() {
        let message = json!({"role": "assistant", "content": [
            {"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": "x"}}, {"type": "output_text", "text": "b"}]});
        let parsed = response(&message);
        assert_eq!((parsed.text.as_str(), parsed.reasoning.as_str()), ("a\n[image]\nb", "hm"));
        let message = json!({"role": "assistant", "refusal": "no", "reasoning_content": "hm"});
        let parsed = response(&message);
        assert_eq!((parsed.text.as_str(), parsed.reasoning.as_str()), ("no", "hm"));
    }

    #[test]
    fn tokens_from_the_cache_are_counted_once() {
        let usage = usage_of(&json!({"prompt_tokens": 500, "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 100}}));
        let usage = usage.unwrap();
        assert_eq!(
            (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens),
            (400, 100, 20)
        );
        assert_eq!(usage_of(&json!({"total": 3})), None);
    }

    #[test]
    fn times_are_dates_or_numbers() {
        let ms = |value: Value| time_of(&value).map(Timestamp::unix_ms);
        assert_eq!(ms(json!(1_700_000_000.5)), Some(1_700_000_000_500));
        assert_eq!(ms(json!(1_700_000_000_500_u64)), Some(1_700_000_000_500));
        assert_eq!(ms(json!("2023-11-14T22:13:20.5Z")), Some(1_700_000_000_500));
        assert_eq!(ms(json!(-1)), None);
        assert_eq!(ms(json!([])), None);
    }
}
