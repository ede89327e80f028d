//! One run, as seen through its model requests and responses.
//!
//! There are two kinds of messages to the agent. Feedback is about a tool result; it is inserted
//! into every later request again, with the same bytes, because the client's own history does not
//! contain it. Guidance is inserted into one request only. Both are restored from the store, so a
//! proxy that is restarted during a run inserts the same text.

use crate::apis::{
    Api, Conversation, Insertion, InsertionPoint, Item, ObservedEvent, Reply, Request,
};
use midcourse::{
    AgentMessage, CallId, DecisionPoint, Delivery, Event, RunIdentity, RunSummary, Source, Store,
    StoreError, StoredRecord, Timestamp, TrajectoryPayload, TrajectoryRecord,
};
use serde_json::Value;

use super::feedback_cache::FeedbackCache;

/// When a run is loaded from the store, this many of its latest records are searched for guidance
/// that no request has contained yet, and for the latest result.
pub(super) const RECENT_RECORDS: u64 = 64;

/// A text in the arguments of a tool call may be the task of a subagent only if its length in bytes
/// is from `MIN_TASK_LEN` to `MAX_TASK_LEN`.
const MIN_TASK_LEN: usize = 16;
const MAX_TASK_LEN: usize = 64 * 1024;

pub(super) struct ProxiedRun {
    pub(super) run: RunIdentity,
    pub(super) api: Api,
    pub(super) conversation: Conversation,
    /// For each tool call: the feedback about its result. Every later request contains it.
    feedback: Vec<(CallId, Vec<Delivery>)>,
    /// A copy of the feedback, for requests that are forwarded without waiting for the recorder.
    cache: FeedbackCache,
    /// The key by which the store drops duplicates of the conversation's first user message.
    first_user_key: Option<String>,
    /// Guidance that is already recorded as delivered and goes into the next request.
    pending_guidance: Vec<Delivery>,
    request_count: usize,
    /// The length of the texts in the latest request, in bytes.
    request_len: usize,
    /// Whether the model's server may keep the requests of this run, with what was inserted.
    pub(super) is_kept_by_server: bool,
    /// Whether the start of the run was already recorded.
    is_recorded: bool,
    /// Whether hooks report this run too. If so, the hooks record the user messages, and the proxy
    /// does not.
    has_hooks: bool,
    pub(super) last_attempt: Option<Attempt>,
    /// Tool calls of the latest reply that have no result yet, each with the texts in its arguments
    /// that may be a subagent's task.
    open_calls: Vec<(CallId, Vec<String>)>,
    /// When the run's latest reply arrived.
    pub(super) answered_at: Option<Timestamp>,
    /// How many requests the proxy had seen, in all runs together, when this run was last used. The
    /// runs with the lowest numbers are dropped from memory first.
    pub(super) last_used: u64,
}

/// The latest request of a run, kept to recognise a retry.
pub(super) struct Attempt {
    /// Digest of the body as the client sent it.
    pub(super) digest: u64,
    pub(super) insertions: Vec<Insertion>,
    /// The guidance in this request. If the request fails, this guidance is inserted into the next
    /// one.
    pub(super) guidance: Vec<Delivery>,
    pub(super) state: AttemptState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptState {
    InFlight,
    Completed,
    /// No complete response arrived, so the client may send the request again.
    Failed,
}

/// Where text can be inserted into a request.
#[derive(Default)]
pub(super) struct InsertionPoints {
    /// For each tool result: where to insert feedback.
    results: Vec<(CallId, InsertionPoint)>,
    /// Where to insert guidance: at the end of the request.
    end: Option<InsertionPoint>,
}

impl ProxiedRun {
    pub(super) fn new(run: RunIdentity, api: Api, cache: FeedbackCache) -> Self {
        Self {
            run,
            api,
            conversation: Conversation::default(),
            feedback: Vec::new(),
            cache,
            first_user_key: None,
            pending_guidance: Vec::new(),
            request_count: 0,
            request_len: 0,
            is_kept_by_server: false,
            is_recorded: false,
            has_hooks: false,
            last_attempt: None,
            open_calls: Vec::new(),
            answered_at: None,
            last_used: 0,
        }
    }

    pub(super) const fn set_has_hooks(&mut self) {
        self.has_hooks = true;
    }

    /// Restores the feedback and guidance of a run from the store.
    pub(super) fn resume(&mut self, store: &Store, run: &RunSummary) -> Result<(), StoreError> {
        let id = run.run_id.as_str();
        self.is_recorded = true;
        self.has_hooks = crate::hosts::Host::named(&run.host).is_some();
        if run.deliveries > 0 {
            for record in store.records_of(id, &["feedback_delivered"])? {
                self.restore_feedback(&record);
            }
            self.publish_feedback();
            let first = run.records.saturating_sub(RECENT_RECORDS);
            self.restore_guidance(&store.records(id, first, usize::MAX)?);
        }
        Ok(())
    }

    fn restore_feedback(&mut self, record: &TrajectoryRecord) {
        if let TrajectoryPayload::FeedbackDelivered { feedback, tool_call_id: Some(call), .. } =
            &record.payload
            && record.payload.reached_agent()
        {
            let tool_call_id = Some(call.clone());
            let feedback = feedback.clone();
            self.deliver(Delivery::Feedback { feedback, tool_call_id }, None);
        }
    }

    /// Restores guidance that was chosen for a tool call before the call ran, and that no request
    /// has contained yet.
    fn restore_guidance(&mut self, recent: &[StoredRecord]) {
        for stored in recent {
            let payload = stored.clone().into_record().payload;
            let reached_agent = payload.reached_agent();
            match payload {
                // A turn starts with a request. That request contained all guidance that was
                // recorded before it.
                TrajectoryPayload::TurnStarted => self.pending_guidance.clear(),
                TrajectoryPayload::GuidanceDelivered { guidance, .. }
                    if reached_agent
                        && guidance.decision_point == DecisionPoint::PreToolExecution =>
                {
                    self.pending_guidance.push(guidance.into());
                }
                _ => {}
            }
        }
    }

    /// Accepts a message that was recorded as delivered. Guidance goes into the next request only.
    /// Feedback about a tool result goes into all later requests, together with the result. If the
    /// request that waits has no such result, feedback goes to the end of this request, like
    /// guidance. `points` is where text can be inserted into the waiting request, if there is one.
    pub(super) fn deliver(&mut self, delivery: Delivery, points: Option<&InsertionPoints>) {
        let Delivery::Feedback { tool_call_id: call, .. } = &delivery else {
            return self.pending_guidance.push(delivery);
        };
        let has_result = |call: &CallId| {
            points.is_none_or(|points| points.results.iter().any(|(known, _)| known == call))
        };
        let Some(call) = call.clone().filter(has_result) else {
            return self.pending_guidance.push(delivery);
        };
        match self.feedback.iter_mut().find(|(known, _)| *known == call) {
            Some((_, deliveries)) => deliveries.push(delivery),
            None => self.feedback.push((call, vec![delivery])),
        }
    }

    /// Copies the run's feedback to the cache, which serves requests that are forwarded without
    /// waiting for the recorder.
    pub(super) fn publish_feedback(&self) {
        for (call, deliveries) in &self.feedback {
            if let Some(text) = Delivery::labelled_text(deliveries) {
                let key = self.first_user_key.as_ref();
                self.cache.insert(&self.run.run_id, key, call.as_str(), text);
            }
        }
    }

    /// The feedback to insert into a request, without guidance.
    pub(super) fn feedback_insertions(&self, points: &InsertionPoints) -> Vec<Insertion> {
        let insertion = |(call, point): &(CallId, InsertionPoint)| {
            let (_, deliveries) = self.feedback.iter().find(|(about, _)| about == call)?;
            Some(point.insertion(&Delivery::labelled_text(deliveries)?))
        };
        points.results.iter().filter_map(insertion).collect()
    }

    /// Everything to insert into a request: feedback and pending guidance.
    pub(super) fn insertions(&self, points: &InsertionPoints) -> Vec<Insertion> {
        let mut insertions = self.feedback_insertions(points);
        let guidance = Delivery::labelled_text(&self.pending_guidance);
        if let (Some(end), Some(text)) = (points.end, guidance) {
            insertions.push(end.insertion(&text));
        }
        insertions
    }

    /// Removes and returns the pending guidance, if the request has a place to insert it.
    pub(super) fn take_guidance(&mut self, points: &InsertionPoints) -> Vec<Delivery> {
        if points.end.is_some() { std::mem::take(&mut self.pending_guidance) } else { Vec::new() }
    }

    /// If the latest request failed, its guidance goes into the next request again.
    pub(super) fn reclaim_guidance(&mut self) {
        if let Some(last) = &mut self.last_attempt
            && last.state == AttemptState::Failed
        {
            let mut guidance = std::mem::take(&mut last.guidance);
            guidance.append(&mut self.pending_guidance);
            self.pending_guidance = guidance;
        }
    }

    /// The events to record for a model request: what is new in the conversation, and the request
    /// itself. Also undoes in `request` how the client rewrote ids and results.
    pub(super) fn request_events(
        &mut self,
        request: &mut Request<'_>,
        at: Timestamp,
    ) -> Vec<Event> {
        let mut events = self.opening_events(request, at);
        let first_user_key = Conversation::first_user_key(request);
        if first_user_key != self.first_user_key {
            self.first_user_key = first_user_key;
            self.publish_feedback();
        }
        let delta = self.conversation.apply_request(request, !self.has_hooks);
        let request_point = self.decision_point(request);
        let result_point = request_point.map(|_| DecisionPoint::PostToolResult);
        if delta.is_compacted {
            events.push(self.event(at, TrajectoryPayload::ContextCompacted { trigger: None }));
        }
        let mut has_new_items = false;
        for observed in delta.events {
            has_new_items |= observed.is_new_to_model;
            let mut event = self.observed_event(at, observed.payload, observed.fact_key);
            if let TrajectoryPayload::ToolEnded { tool_call_id, .. } = &event.payload
                && observed.is_new_to_model
            {
                self.open_calls.retain(|(open, _)| open != tool_call_id);
                event.decision_point = result_point;
            }
            events.push(event);
        }
        let mut prepared = self.prepared_event(request, at);
        prepared.decision_point = request_point;
        events.push(prepared);
        let is_retry =
            self.last_attempt.as_ref().is_some_and(|last| last.state != AttemptState::Completed);
        if has_new_items || !is_retry {
            let turn = self.event(at, TrajectoryPayload::TurnStarted);
            // Hooks may report this turn too. They use the same key, so the store keeps only one of
            // the two events.
            events.push(match first_new_result(request) {
                Some(call) => turn.with_fact(format!("after:{call}")),
                None => turn,
            });
        }
        events
    }

    /// The decision point of a request, which tells the engine what kind of guidance fits: it is
    /// the first request of a run, the model may choose tools, or the request asks for a final
    /// response. `None` if no text can be inserted.
    fn decision_point(&self, request: &Request<'_>) -> Option<DecisionPoint> {
        if !request.accepts_insertions() {
            return None;
        }
        let has_tools = !request.tools.is_empty() || self.conversation.has_text_actions();
        Some(if self.request_count == 0 && request.call_ids().next().is_none() {
            DecisionPoint::PreRender
        } else if request.has_response_format || !has_tools {
            DecisionPoint::PreResponse
        } else {
            DecisionPoint::PreToolSelection
        })
    }

    /// The events to record for a side request. Clients make side requests for their own purposes,
    /// such as generating a title; they are not part of the agent's conversation.
    pub(super) fn side_request_events(
        &mut self,
        request: &Request<'_>,
        at: Timestamp,
    ) -> Vec<Event> {
        let mut events = self.opening_events(request, at);
        events.push(self.prepared_event(request, at));
        events
    }

    /// The events to record when the client repeats a request that failed.
    pub(super) fn retry_events(&mut self, request: &Request<'_>, at: Timestamp) -> Vec<Event> {
        vec![self.prepared_event(request, at)]
    }

    /// The events that come before all others: the start of the run and its system prompt, unless
    /// they were already recorded, and a note that a proxy is in use, if hooks report the run too.
    fn opening_events(&mut self, request: &Request<'_>, at: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.is_recorded {
            self.is_recorded = true;
            let identity = self.run.clone();
            events.push(self.event(at, TrajectoryPayload::RunStarted { identity }));
            for text in request.system_texts() {
                let message = AgentMessage::System { content: text, timestamp: None };
                events.push(self.event(at, TrajectoryPayload::MessageAppended { message }));
            }
        }
        if self.has_hooks && self.request_count == 0 {
            events.push(self.event(at, TrajectoryPayload::ProxyAttached));
        }
        events
    }

    fn prepared_event(&mut self, request: &Request<'_>, at: Timestamp) -> Event {
        let prepared = TrajectoryPayload::ProviderRequestPrepared {
            iteration: self.request_count,
            model_id: request.model.clone(),
            system_prompt_chars: request.system_chars(),
            message_count: request.message_count,
            tool_count: request.tools.len(),
            tools: request.tools.clone(),
            kept_by_server: request.is_kept_by_server,
        };
        self.request_count = self.request_count.saturating_add(1);
        self.request_len = request.text_len();
        self.is_kept_by_server |= request.is_kept_by_server;
        self.event(at, prepared)
    }

    /// The events to record for a reply. If the engine chooses a message for one of the reply's
    /// tool calls, the message goes into the next request, together with the result of the call.
    pub(super) fn reply_events(&mut self, mut reply: Reply, at: Timestamp) -> Vec<Event> {
        reply.estimate_usage(self.request_len);
        let open = reply.tool_calls().map(|call| (call.id.clone(), tasks(&call.arguments)));
        self.open_calls = open.collect();
        self.answered_at = Some(at);
        let observed = self.conversation.apply_reply(reply);
        let event = |ObservedEvent { payload, fact_key, .. }| {
            let mut event = self.observed_event(at, payload, fact_key);
            if matches!(event.payload, TrajectoryPayload::ToolStarted { .. }) {
                event.decision_point = Some(DecisionPoint::PreToolExecution);
            }
            event
        };
        observed.into_iter().map(event).collect()
    }

    /// The event for the reply to a side request, which reports only token usage.
    pub(super) fn side_reply_event(&self, reply: &Reply, at: Timestamp) -> Option<Event> {
        Some(self.event(at, TrajectoryPayload::UsageReported { usage: reply.usage? }))
    }

    fn observed_event(
        &self,
        at: Timestamp,
        payload: TrajectoryPayload,
        fact_key: Option<String>,
    ) -> Event {
        let event = self.event(at, payload);
        match fact_key {
            Some(key) => event.with_fact(key),
            None => event,
        }
    }

    /// Creates an event without a decision point: unless the caller sets one, the engine delivers
    /// no message about the event.
    fn event(&self, at: Timestamp, payload: TrajectoryPayload) -> Event {
        Event::new(self.run.clone(), source(self.api), at, payload)
    }

    /// Finds the tool call that started a subagent with this text as its task: a call that has no
    /// result yet and whose arguments contain about the same text.
    pub(super) fn call_delegating(&self, text: &str) -> Option<&CallId> {
        // Sharing a few words is not enough: one text must contain the other, and the contained
        // text must be at least half as long as the one that contains it.
        let is_most = |part: &str, of: &str| part.len().saturating_mul(2) >= of.len();
        let is_same_task = |task: &String| {
            (text.contains(task.as_str()) && is_most(task, text))
                || (task.contains(text) && is_most(text, task))
        };
        let found = self.open_calls.iter().find(|(_, tasks)| tasks.iter().any(is_same_task));
        found.map(|(call, _)| call).filter(|_| text.len() >= MIN_TASK_LEN)
    }

    /// Forgets the conversation because its events could not be stored. The next request then
    /// reports them again.
    pub(super) fn forget_conversation(&mut self) {
        self.conversation = Conversation::default();
        self.is_recorded = false;
    }
}

impl InsertionPoints {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let result = |item: &Item<'_>| match item {
            Item::ToolResult { id, insertion_point, .. } => {
                Some((CallId::from(id), (*insertion_point)?))
            }
            _ => None,
        };
        let results = request.items.iter().filter_map(result).collect();
        Self { results, end: request.insertion_point }
    }
}

/// The source of all events that the proxy reports.
pub(super) fn source(api: Api) -> Source {
    Source::new(api.name(), midcourse::Channel::Proxy)
}

fn first_new_result<'a>(request: &'a Request<'_>) -> Option<&'a str> {
    request.items.iter().skip(request.tail_start).find_map(|item| match item {
        Item::ToolResult { id, .. } => Some(id.as_ref()),
        _ => None,
    })
}

/// The texts in a call's arguments that may be a subagent's task, judged by their length.
fn tasks(args: &Value) -> Vec<String> {
    match args {
        Value::String(text) if (MIN_TASK_LEN..=MAX_TASK_LEN).contains(&text.trim().len()) => {
            vec![text.trim().to_owned()]
        }
        Value::Array(items) => items.iter().flat_map(tasks).collect(),
        Value::Object(fields) => fields.values().flat_map(tasks).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::apis::{Api, insert};
    use midcourse::{
        ClassificationResult, DecisionPoint, GuidanceDelivered, GuidanceInjection, LABEL,
        RunIdentity, Timestamp,
    };

    use super::{Attempt, AttemptState, FeedbackCache, InsertionPoints, ProxiedRun};

    const BODY: &str = r#"{"messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"done"}]}"#;

    fn guidance(text: &str) -> GuidanceDelivered {
        GuidanceDelivered {
            provider_name: "p".into(),
            injection: GuidanceInjection::new("key", text).unwrap(),
            decision_point: DecisionPoint::PreToolExecution,
            classification: ClassificationResult::yes(),
            timestamp: Timestamp::default(),
        }
    }

    #[test]
    fn guidance_about_a_call_goes_into_one_request_with_its_result() {
        let (identity, api) = (RunIdentity::root("r"), Api::ChatCompletions);
        let mut run = ProxiedRun::new(identity, api, FeedbackCache::default());
        run.deliver(guidance("mind the step").into(), None);
        let points = InsertionPoints::of(&api.parse_request(BODY).unwrap());
        let sent = insert(BODY.as_bytes(), &mut run.insertions(&points));
        let sent = String::from_utf8(sent).unwrap();
        assert!(
            sent.contains(&format!("done\\n\\n{LABEL}\\n[Guidance]\\n\\nmind the step\"")),
            "{sent}"
        );
        let guidance = run.take_guidance(&points);
        assert!(run.insertions(&points).is_empty(), "guidance goes into one request only");
        // The request with the guidance failed, so the next request contains the guidance again.
        let (insertions, state) = (Vec::new(), AttemptState::Failed);
        run.last_attempt = Some(Attempt { digest: 0, insertions, guidance, state });
        run.reclaim_guidance();
        assert_eq!(run.insertions(&points).len(), 1);
        // If a request has no insertion point, the guidance stays pending.
        assert!(run.take_guidance(&InsertionPoints::default()).is_empty());
        assert_eq!(run.insertions(&points).len(), 1);
    }
}
