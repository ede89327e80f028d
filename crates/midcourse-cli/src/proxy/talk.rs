//! One run as its requests and answers show it.
//!
//! What was said about a tool's result goes into every later request again, the same bytes, since
//! the client's history lacks it. What is for one request only goes into one. Both come from the
//! records, so a proxy that begins in the middle says the same again.

use crate::apis::{
    Api, Conversation, Insertion, InsertionPoint, Item, ObservedEvent, Request, Way,
};
use midcourse::{
    CallId, DecisionPoint, Delivery, Event, RunIdentity, RunSummary, Store, StoreError, Timestamp,
    TrajectoryPayload, TrajectoryRecord,
};
use serde_json::Value;
use uuid::Uuid;

use super::spoken::Spoken;

/// Records at the end of a run among which lies what was said and not yet carried.
const RECENT: u64 = 64;

/// The shortest and the longest text of a call that a conversation of a helper is known by.
const TASK_MIN: usize = 16;
const TASK_MAX: usize = 64 * 1024;

/// A run.
pub(super) struct Talk {
    pub(super) run: RunIdentity,
    pub(super) api: Api,
    pub(super) conversation: Conversation,
    /// Feedback by the call that it is about.
    feedback: Vec<(CallId, Vec<Delivery>)>,
    /// Where requests that cannot wait find it.
    spoken: Spoken,
    /// The key of the first words in the latest request.
    begins: Option<String>,
    /// Guidance that was recorded and that no request has carried yet.
    owed: Vec<Delivery>,
    /// Requests until now.
    requests: usize,
    /// Whether the run is on record.
    is_on_record: bool,
    /// Whether hooks report it, too: what people say, then.
    is_hooked: bool,
    pub(super) last: Option<Attempt>,
    /// Calls of the latest answer, and the texts in what they ask.
    open: Vec<(CallId, Vec<String>)>,
    /// When it was needed last.
    pub(super) used: u64,
}

/// The latest request.
pub(super) struct Attempt {
    pub(super) digest: u64,
    pub(super) insertions: Vec<Insertion>,
    /// What it carried and no other request is to carry, unless this one fails.
    pub(super) carried: Vec<Delivery>,
    pub(super) standing: Standing,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    UnderWay,
    Answered,
    /// It failed, so the client may send it again.
    Unanswered,
}

/// Where words fit into a request.
#[derive(Default)]
pub(super) struct Places {
    /// Those about results.
    results: Vec<(CallId, InsertionPoint)>,
    /// Those for this request only.
    end: Option<InsertionPoint>,
}

impl Talk {
    pub(super) fn new(run: RunIdentity, api: Api, spoken: Spoken) -> Self {
        Self {
            run,
            api,
            conversation: Conversation::default(),
            feedback: Vec::new(),
            spoken,
            begins: None,
            owed: Vec::new(),
            requests: 0,
            is_on_record: false,
            is_hooked: false,
            last: None,
            open: Vec::new(),
            used: 0,
        }
    }

    /// Hooks report this run, too.
    pub(super) const fn hooked(&mut self) {
        self.is_hooked = true;
    }

    /// Goes on with a run that is on record.
    pub(super) fn resume(&mut self, store: &Store, run: &RunSummary) -> Result<(), StoreError> {
        let id = run.run_id.as_str();
        self.is_on_record = true;
        self.is_hooked = crate::hosts::Host::named(&run.host).is_some();
        if run.deliveries > 0 {
            for record in store.records_of(id, &["feedback_delivered"])? {
                self.said_before(&record);
            }
            self.share();
            self.owe(&store.records(id, run.records.saturating_sub(RECENT), usize::MAX)?);
        }
        Ok(())
    }

    fn said_before(&mut self, record: &TrajectoryRecord) {
        if let TrajectoryPayload::FeedbackDelivered {
            feedback,
            tool_call_id: Some(call),
            shadow: false,
            ..
        } = &record.payload
        {
            self.say(Delivery::Feedback {
                feedback: feedback.clone(),
                tool_call_id: Some(call.clone()),
            });
        }
    }

    /// What was said before a call ran and has not been carried with its result.
    fn owe(&mut self, recent: &[midcourse::StoredRecord]) {
        for stored in recent {
            match stored.clone().into_record().payload {
                TrajectoryPayload::TurnStarted => self.owed.clear(),
                TrajectoryPayload::GuidanceDelivered { guidance, shadow: false }
                    if guidance.decision_point == DecisionPoint::PreToolExecution =>
                {
                    self.owed.push(guidance.into());
                }
                _ => {}
            }
        }
    }

    /// Keeps what is said for as long as it is to be said.
    pub(super) fn say(&mut self, delivery: Delivery) {
        let Delivery::Feedback { tool_call_id: call, .. } = &delivery else {
            return self.owed.push(delivery);
        };
        let Some(call) = call.clone() else { return };
        match self.feedback.iter_mut().find(|(known, _)| *known == call) {
            Some((_, said)) => said.push(delivery),
            None => self.feedback.push((call, vec![delivery])),
        }
    }

    /// Lets requests that cannot wait know what is said by now.
    pub(super) fn share(&self) {
        for (call, said) in &self.feedback {
            if let Some(words) = Delivery::labelled_text(said) {
                self.spoken.note(&self.run.run_id, self.begins.as_ref(), call.as_str(), words);
            }
        }
    }

    /// What was said about the results in a request, again.
    pub(super) fn again(&self, places: &Places) -> Vec<Insertion> {
        let insertion = |(call, place): &(CallId, InsertionPoint)| {
            let (_, said) = self.feedback.iter().find(|(about, _)| about == call)?;
            Some(place.insertion(&Delivery::labelled_text(said)?))
        };
        places.results.iter().filter_map(insertion).collect()
    }

    /// All that goes into a request: what was said about its results, and what is owed.
    pub(super) fn insertions(&self, places: &Places) -> Vec<Insertion> {
        let mut insertions = self.again(places);
        if let (Some(end), Some(words)) = (places.end, Delivery::labelled_text(&self.owed)) {
            insertions.push(end.insertion(&words));
        }
        insertions
    }

    /// A request carries what is owed.
    pub(super) fn carried(&mut self, places: &Places) -> Vec<Delivery> {
        if places.end.is_some() { std::mem::take(&mut self.owed) } else { Vec::new() }
    }

    /// What a request carried that failed is owed to the next one.
    pub(super) fn owe_again(&mut self) {
        if let Some(last) = &mut self.last
            && last.standing == Standing::Unanswered
        {
            let mut owed = std::mem::take(&mut last.carried);
            owed.append(&mut self.owed);
            self.owed = owed;
        }
    }

    /// The events that a request tells of.
    pub(super) fn asked(&mut self, request: &Request<'_>, at: Timestamp) -> Vec<Event> {
        let way = match () {
            () if !request.accepts_insertions() => Way::Late,
            () if self.requests == 0 && request.call_ids().next().is_none() => Way::Opening,
            () if request.has_response_format => Way::Final,
            () => Way::Request,
        };
        let mut events = self.begin(request, at);
        let begins = Conversation::first_user_key(request);
        if begins != self.begins {
            self.begins = begins;
            self.share();
        }
        let news = self.conversation.apply_request(request, !self.is_hooked);
        if news.is_compacted {
            let compacted = TrajectoryPayload::ContextCompacted { trigger: None };
            events.push(self.event(Way::Late, at, compacted));
        }
        let mut has_words = false;
        for ObservedEvent { payload, fact_key: key, is_new_to_model: is_current } in news.events {
            let way = if is_current { way } else { Way::Late };
            if let (TrajectoryPayload::ToolEnded { tool_call_id, .. }, true) =
                (&payload, is_current)
            {
                self.open.retain(|(open, _)| open != tool_call_id);
            }
            has_words |= is_current;
            let event = self.event(way, at, payload);
            events.push(match key {
                Some(key) => event.with_fact(key),
                None => event,
            });
        }
        events.push(self.prepared(request, way, at));
        let is_retry = self.last.as_ref().is_some_and(|last| last.standing != Standing::Answered);
        if has_words || !is_retry {
            let turn = self.event(Way::Late, at, TrajectoryPayload::TurnStarted);
            // Hooks tell of the same turn.
            events.push(match first_result(request) {
                Some(call) => turn.with_fact(format!("after:{call}")),
                None => turn,
            });
        }
        events
    }

    /// The events of something that the client asks for itself.
    pub(super) fn asked_beside(&mut self, request: &Request<'_>, at: Timestamp) -> Vec<Event> {
        let mut events = self.begin(request, at);
        events.push(self.prepared(request, Way::Side, at));
        events
    }

    /// A request that is sent again because it failed.
    pub(super) fn asked_again(&mut self, request: &Request<'_>, at: Timestamp) -> Vec<Event> {
        vec![self.prepared(request, Way::Late, at)]
    }

    /// The events with which a run begins, if it does.
    fn begin(&mut self, request: &Request<'_>, at: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.is_on_record {
            self.is_on_record = true;
            let identity = self.run.clone();
            events.push(self.event(Way::Late, at, TrajectoryPayload::RunStarted { identity }));
            for text in request.system_texts() {
                let message = midcourse::AgentMessage::System { content: text, timestamp: None };
                let said = TrajectoryPayload::MessageAppended { message };
                events.push(self.event(Way::Late, at, said));
            }
        }
        if self.is_hooked && self.requests == 0 {
            events.push(self.event(Way::Late, at, TrajectoryPayload::ProxyAttached));
        }
        events
    }

    fn prepared(&mut self, request: &Request<'_>, way: Way, at: Timestamp) -> Event {
        let prepared = TrajectoryPayload::ProviderRequestPrepared {
            iteration: self.requests,
            model_id: request.model.clone(),
            system_prompt_chars: request.system_chars(),
            message_count: request.message_count,
            tool_count: request.tools.len(),
            tools: request.tools.clone(),
        };
        self.requests = self.requests.saturating_add(1);
        self.event(way, at, prepared)
    }

    /// The events that an answer tells of.
    pub(super) fn heard(&mut self, answer: crate::apis::Reply, at: Timestamp) -> Vec<Event> {
        self.open =
            answer.tool_calls().map(|call| (call.id.clone(), tasks(&call.arguments))).collect();
        let facts = self.conversation.apply_reply(answer);
        let event = |ObservedEvent { payload, fact_key: key, .. }| {
            let event = self.event(Way::Answer, at, payload);
            match key {
                Some(key) => event.with_fact(key),
                None => event,
            }
        };
        facts.into_iter().map(event).collect()
    }

    /// The event of an answer to something that the client asked for itself: what it took.
    pub(super) fn heard_beside(&self, answer: &crate::apis::Reply, at: Timestamp) -> Option<Event> {
        let used = TrajectoryPayload::UsageReported { usage: answer.usage? };
        Some(self.event(Way::Side, at, used))
    }

    fn event(&self, way: Way, at: Timestamp, payload: TrajectoryPayload) -> Event {
        let event = Event::new(self.run.clone(), self.api.source(way), at, payload);
        if event.fact.is_some() {
            return event;
        }
        // A commit that fails may have been made: if it comes back, it is known.
        event.with_fact(format!("once:{}", Uuid::now_v7()))
    }

    /// The call that somebody who begins so works for.
    pub(super) fn call_about(&self, words: &str) -> Option<&CallId> {
        // A word that both hold makes nobody a helper: one is the most of the other.
        let is_most = |part: &str, of: &str| part.len().saturating_mul(2) >= of.len();
        let is_about = |task: &String| {
            (words.contains(task.as_str()) && is_most(task, words))
                || (task.contains(words) && is_most(words, task))
        };
        let found = self.open.iter().find(|(_, tasks)| tasks.iter().any(is_about));
        found.map(|(call, _)| call).filter(|_| words.len() >= TASK_MIN)
    }

    /// What was not stored is to be told again.
    pub(super) fn forget(&mut self) {
        self.conversation = Conversation::default();
        self.is_on_record = false;
    }
}

impl Places {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let result = |item: &Item<'_>| match item {
            Item::ToolResult { id, insertion_point: place, .. } => {
                Some((CallId::from(id), (*place)?))
            }
            _ => None,
        };
        Self {
            results: request.items.iter().filter_map(result).collect(),
            end: request.insertion_point,
        }
    }
}

fn first_result<'a>(request: &'a Request<'_>) -> Option<&'a str> {
    request.items.iter().skip(request.tail_start).find_map(|item| match item {
        Item::ToolResult { id, .. } => Some(id.as_ref()),
        _ => None,
    })
}

/// The texts in what a call asks that may be a helper's task.
fn tasks(args: &Value) -> Vec<String> {
    match args {
        Value::String(text) if (TASK_MIN..=TASK_MAX).contains(&text.trim().len()) => {
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

    use super::{Attempt, Places, Standing, Talk};

    const BODY: &str = r#"{"messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"done"}]}"#;

    fn guidance(words: &str) -> GuidanceDelivered {
        GuidanceDelivered {
            provider_name: "p".into(),
            injection: GuidanceInjection::new("key", words).unwrap(),
            decision_point: DecisionPoint::PreToolExecution,
            classification: ClassificationResult::yes(),
            timestamp: Timestamp::default(),
        }
    }

    #[test]
    fn what_is_said_before_a_call_runs_goes_out_once_with_its_result() {
        let mut talk =
            Talk::new(RunIdentity::root("r"), Api::ChatCompletions, super::Spoken::default());
        talk.say(guidance("mind the step").into());
        let places = Places::of(&Api::ChatCompletions.parse_request(BODY).unwrap());
        let sent = insert(BODY.as_bytes(), &mut talk.insertions(&places));
        let sent = String::from_utf8(sent).unwrap();
        assert!(
            sent.contains(&format!("done\\n\\n{LABEL}\\n[Guidance]\\n\\nmind the step\"")),
            "{sent}"
        );
        let carried = talk.carried(&places);
        assert!(talk.insertions(&places).is_empty(), "it is in one request");
        // That request failed, and the next is another.
        let standing = Standing::Unanswered;
        talk.last = Some(Attempt { digest: 0, insertions: Vec::new(), carried, standing });
        talk.owe_again();
        assert_eq!(talk.insertions(&places).len(), 1);
        // Where nothing fits in, it waits.
        assert!(talk.carried(&Places::default()).is_empty());
        assert_eq!(talk.insertions(&places).len(), 1);
    }
}
