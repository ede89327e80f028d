//! Steps of the agent: model responses, the calls in them, and the results of the calls.
//!
//! Hosts report them in different orders. A response may come before the start of its calls or after
//! their end, or not at all; calls and results are matched by their ids.

use midcourse::{AgentMessage, AssistantBlock, AssistantContent, ToolCallBlock, Usage};
use serde_json::Value;

use super::StepBuilder;
use crate::formats::atif::step::{Call, Origin, Step};

impl StepBuilder {
    /// Adds a model response. If calls of the response are known already, it belongs to their step.
    pub(super) fn push_response(
        &mut self,
        content: &AssistantContent,
        error: Option<String>,
        usage: Option<Usage>,
        line: Value,
    ) {
        let calls: Vec<&ToolCallBlock> = content.blocks.iter().filter_map(call_of).collect();
        let known = calls.iter().find_map(|call| self.position_of(call.id.as_str(), false));
        let known = known.filter(|at| self.step_at(*at).is_some_and(|step| !step.has_message()));
        let position = match known {
            Some(position) => position,
            None => self.start_turn(),
        };
        let unknown: Vec<&ToolCallBlock> = calls
            .into_iter()
            .filter(|call| self.position_of(call.id.as_str(), false).is_none())
            .collect();
        let waiting = std::mem::take(&mut self.waiting);
        let Some(step) = self.step_at(position) else { return };
        step.message = content.plain_text().into_owned().into();
        step.reasoning = reasoning_of(content);
        for call in unknown {
            step.calls.push(Call {
                id: call.id.as_str().to_owned(),
                name: call.name.to_string(),
                arguments: call.arguments.clone(),
                has_ended: false,
            });
        }
        if let Some(error) = error {
            step.extra.insert("error_message".to_owned(), error.into());
        }
        if let Some(usage) = usage {
            step.add_usage(&usage);
        }
        step.records.extend(waiting);
        step.records.push(line);
    }

    /// Adds a message that another record may have reported before.
    pub(super) fn push_repeated(&mut self, message: AgentMessage, line: Value) {
        if let AgentMessage::Assistant { content, error_message, usage, .. } = message {
            let text = content.plain_text();
            let is_new =
                self.latest_agent_step().is_none_or(|step| step.message.as_str() != Some(&text));
            let has_calls_or_text = content.has_tool_calls() || !text.is_empty();
            let turn = self.turn.and_then(|at| self.step_at(at));
            if let Some(step) = turn.filter(|step| !step.has_message()) {
                step.message = text.into_owned().into();
                step.reasoning = reasoning_of(&content);
                usage.iter().for_each(|usage| step.add_usage(usage));
            } else if is_new && has_calls_or_text {
                return self.push_response(&content, error_message, usage, line);
            }
        }
        self.attach(line);
    }

    pub(super) fn start_call(&mut self, id: &str, name: &str, arguments: Value, line: Value) {
        let position = match self.position_of(id, true) {
            Some(position) => position,
            None => self.add_call(id, name, Value::Null),
        };
        let waiting = std::mem::take(&mut self.waiting);
        let Some(step) = self.step_at(position) else { return };
        let call = step.calls.iter_mut().find(|call| call.id == id && !call.has_ended);
        // The response may name the call without its arguments.
        if let Some(call) = call.filter(|call| call.arguments.is_null()) {
            call.arguments = arguments;
        }
        step.records.extend(waiting);
        step.records.push(line);
    }

    /// Adds the result of a call, without its id. A second report of the same result adds nothing.
    pub(super) fn end_call(&mut self, id: &str, name: &str, mut result: Value, line: Value) {
        let known = self.position_of(id, true).or_else(|| self.position_of(id, false));
        let position = match known {
            Some(position) => position,
            None => self.add_call(id, name, Value::Null),
        };
        let Some(step) = self.step_at(position) else { return };
        if let Some(call) = step.calls.iter_mut().find(|call| call.id == id && !call.has_ended) {
            call.has_ended = true;
        }
        let is_known = step.results.iter().any(|known| {
            known.get("source_call_id").and_then(Value::as_str) == Some(id)
                && known.get("content") == result.get("content")
        });
        if let Some(fields) = result.as_object_mut().filter(|_| !is_known) {
            fields.shift_insert(0, "source_call_id".to_owned(), id.into());
            step.results.push(result);
        }
        step.records.push(line);
    }

    pub(super) fn latest_agent_step(&mut self) -> Option<&mut Step> {
        self.kept.iter_mut().rev().find(|step| step.origin == Origin::Agent)
    }

    /// The position of the latest kept step with this call, counted from the first step.
    fn position_of(&self, id: &str, is_open: bool) -> Option<u64> {
        let has = |step: &Step| {
            step.calls.iter().any(|call| call.id == id && !(is_open && call.has_ended))
        };
        let at = self.kept.iter().rposition(has)?;
        self.written.checked_add(u64::try_from(at).ok()?)
    }

    fn step_at(&mut self, position: u64) -> Option<&mut Step> {
        let at = position.checked_sub(self.written)?;
        self.kept.get_mut(usize::try_from(at).ok()?)
    }

    /// Adds a step of the agent, with the records that wait, and returns its position.
    fn start_turn(&mut self) -> u64 {
        let mut step = Step::new(Origin::Agent, self.latest, "");
        step.records.append(&mut self.waiting);
        self.kept.push_back(step);
        let at = u64::try_from(self.kept.len()).unwrap_or(u64::MAX).saturating_sub(1);
        let position = self.written.saturating_add(at);
        self.turn = Some(position);
        position
    }

    /// Adds a call to the step of this turn and returns the position of the step.
    fn add_call(&mut self, id: &str, name: &str, arguments: Value) -> u64 {
        let has_turns = self.has_turns;
        // Without records of turns, a call that starts when all others have ended is a new turn.
        let is_open = |step: &mut Step| has_turns || step.calls.is_empty() || step.has_open_calls();
        let turn = self.turn.filter(|at| self.step_at(*at).is_some_and(is_open));
        let position = turn.unwrap_or_else(|| self.start_turn());
        if let Some(step) = self.step_at(position) {
            let (id, name) = (id.to_owned(), name.to_owned());
            step.calls.push(Call { id, name, arguments, has_ended: false });
        }
        position
    }
}

const fn call_of(block: &AssistantBlock) -> Option<&ToolCallBlock> {
    match block {
        AssistantBlock::ToolCall(call) => Some(call),
        _ => None,
    }
}

fn reasoning_of(content: &AssistantContent) -> String {
    let texts = content.blocks.iter().filter_map(|block| match block {
        AssistantBlock::Thinking(text) | AssistantBlock::Reasoning(text) => {
            Some(text.text.as_str())
        }
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
