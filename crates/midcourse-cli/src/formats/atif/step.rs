//! One step while it is put together, and its JSON.
//!
//! Fields without a value are left out. Only steps of the agent have calls, reasoning and tokens; the
//! format allows them nowhere else.

use midcourse::{Timestamp, Usage};
use serde_json::{Map, Value, json};

use super::OWN;
use super::moved::{StepValues, shorten};

/// Who a step is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    User,
    Agent,
    System,
}

impl Origin {
    const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::System => "system",
        }
    }
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) has_ended: bool,
}

impl Call {
    fn to_json(&self) -> Value {
        // ATIF wants an object.
        let arguments = match &self.arguments {
            Value::Object(_) => self.arguments.clone(),
            Value::Null => json!({}),
            other => json!({"input": other}),
        };
        json!({"tool_call_id": self.id, "function_name": self.name, "arguments": arguments})
    }
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) origin: Origin,
    pub(super) at: Timestamp,
    /// A text or a list of parts.
    pub(super) message: Value,
    pub(super) reasoning: String,
    pub(super) calls: Vec<Call>,
    pub(super) results: Vec<Value>,
    pub(super) usage: Usage,
    /// Number of model responses whose tokens `usage` contains.
    pub(super) responses: u64,
    /// Further fields of `extra`.
    pub(super) extra: Map<String, Value>,
    /// Further fields of `extra.midcourse`.
    pub(super) own: Map<String, Value>,
    /// The records that the step was made of, as JSON.
    pub(super) records: Vec<Value>,
}

impl Step {
    pub(super) fn new(origin: Origin, at: Timestamp, message: impl Into<Value>) -> Self {
        Self {
            origin,
            at,
            message: message.into(),
            reasoning: String::new(),
            calls: Vec::new(),
            results: Vec::new(),
            usage: Usage::default(),
            responses: 0,
            extra: Map::new(),
            own: Map::new(),
            records: Vec::new(),
        }
    }

    pub(super) fn has_open_calls(&self) -> bool {
        self.calls.iter().any(|call| !call.has_ended)
    }

    pub(super) fn has_message(&self) -> bool {
        self.message.as_str() != Some("") || !self.reasoning.is_empty()
    }

    pub(super) fn add_usage(&mut self, usage: &Usage) {
        self.usage.add(usage);
        self.responses += 1;
    }

    pub(super) fn into_json(self, step_id: u64) -> Value {
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        set("step_id", step_id.into());
        if let Some(timestamp) = iso_8601(self.at) {
            set("timestamp", timestamp.into());
        }
        set("source", self.origin.as_str().into());
        set("message", self.message);
        if !self.reasoning.is_empty() {
            set("reasoning_content", self.reasoning.into());
        }
        if !self.calls.is_empty() {
            set("tool_calls", self.calls.iter().map(Call::to_json).collect());
        }
        if !self.results.is_empty() {
            set("observation", json!({"results": self.results}));
        }
        if self.responses > 0 {
            set("metrics", metrics(&self.usage));
            set("llm_call_count", self.responses.into());
        }
        let mut step = Value::Object(fields);
        let mut own = self.own;
        if !self.records.is_empty() {
            let mut records = self.records;
            let mut values = StepValues::of(&step);
            records.iter_mut().for_each(|record| shorten(record, &mut values));
            own.insert("records".to_owned(), records.into());
        }
        let mut extra = self.extra;
        if !own.is_empty() {
            extra.insert(OWN.to_owned(), own.into());
        }
        if let Some(fields) = step.as_object_mut().filter(|_| !extra.is_empty()) {
            fields.insert("extra".to_owned(), extra.into());
        }
        step
    }
}

/// In ATIF, the tokens of the prompt include those that were read from or written to a cache.
pub(super) fn prompt_tokens(usage: &Usage) -> i64 {
    let cached = usage.cache_creation_input_tokens.saturating_add(usage.cache_read_input_tokens);
    usage.input_tokens.saturating_add(cached)
}

fn metrics(usage: &Usage) -> Value {
    let mut metrics = json!({
        "prompt_tokens": prompt_tokens(usage),
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_input_tokens,
    });
    let extra = usage_extra(usage);
    if let Some(fields) = metrics.as_object_mut().filter(|_| !extra.is_empty()) {
        fields.insert("extra".to_owned(), extra.into());
    }
    metrics
}

/// What ATIF has no field for.
pub(super) fn usage_extra(usage: &Usage) -> Map<String, Value> {
    let mut extra = Map::new();
    if usage.cache_creation_input_tokens != 0 {
        let written = usage.cache_creation_input_tokens.into();
        extra.insert("cache_creation_input_tokens".to_owned(), written);
    }
    if usage.is_estimate {
        extra.insert("is_estimate".to_owned(), true.into());
    }
    extra
}

/// `None` if the year has more than four digits.
fn iso_8601(at: Timestamp) -> Option<String> {
    let ms = i64::try_from(at.unix_ms()).ok()?;
    Some(jiff::Timestamp::from_millisecond(ms).ok()?.to_string())
}
