//! Records the settings of a run: adds events with the configuration and the deadline to the run's
//! events. A replay then finds the settings in the records and needs no other file.
//!
//! A *launch* is one use of `midcourse run`. A run that is resumed by another launch gets the
//! settings of that launch.

use midcourse::{Channel, Event, Source, TrajectoryPayload};

use super::RunSettings;

impl RunSettings {
    /// Adds the settings to a host's events, if one of the events begins or resumes a run or
    /// contains a prompt. Only then returns the warnings about the settings, so that they are not
    /// shown at every event.
    pub(crate) fn record_in(&mut self, events: &mut Vec<Event>) -> Vec<String> {
        let Some(place) = events.iter().position(Event::begins_something) else {
            return Vec::new();
        };
        self.insert_at(place, events, false);
        std::mem::take(&mut self.warnings)
    }

    /// Adds the settings to the first events of a run, even if none of the events reports its
    /// start.
    pub(crate) fn record_in_new_run(&mut self, events: &mut Vec<Event>) {
        let place = events.iter().position(Event::begins_something).unwrap_or_default();
        self.insert_at(place, events, true);
    }

    fn insert_at(&mut self, place: usize, events: &mut Vec<Event>, is_new_run: bool) {
        let Some(opening) = events.get(place) else { return };
        let starts_run = matches!(opening.payload, TrajectoryPayload::RunStarted { .. });
        let is_resumed = matches!(opening.payload, TrajectoryPayload::Resumed);
        // The deadline in a configuration file is a time span that begins when the run starts. A
        // deadline that `midcourse run` has set takes precedence.
        if (starts_run || is_new_run) && opening.run.parent_run_id.is_none() {
            let (start, length) = (opening.at, self.config.deadline);
            self.deadline = self.deadline.or_else(|| Some(start.after(length?)));
        }
        // Without a launch and without a configuration file, the defaults apply and need no record.
        // A resumed run needs the record: otherwise the settings of an earlier launch would stay in
        // effect.
        if self.launch_id.is_some() || !self.config_text.is_empty() || is_resumed {
            let settings = self.events(opening, is_resumed);
            // The first record of a run must be its start, so the settings come after it.
            let place = place.saturating_add(usize::from(starts_run));
            events.splice(place..place, settings);
        }
    }

    fn events(&self, opening: &Event, is_resumed: bool) -> Vec<Event> {
        let config = self.config_text.clone();
        let mut payloads = vec![TrajectoryPayload::ConfigApplied { config, prompt_name: None }];
        // A resumed run gets this event even if there is no deadline: the event then removes the
        // deadline that an earlier launch has set.
        if self.deadline.is_some() || is_resumed {
            payloads.push(TrajectoryPayload::DeadlineSet { at_unix_ms: self.deadline });
        }
        let source = Source::new(opening.source.host(), Channel::Settings);
        let event = |payload| {
            let event = Event::new(opening.run.clone(), source.clone(), opening.at, payload);
            match self.launch_key() {
                Some(key) => event.with_fact(key),
                None => event.deduped(),
            }
        };
        payloads.into_iter().map(event).collect()
    }

    /// The key of the events that record a launch's settings: the store keeps only one such event
    /// of each kind per run. The key also serves to find all runs of a launch.
    pub(crate) fn launch_key(&self) -> Option<String> {
        self.launch_id.as_ref().map(|id| format!("launch:{id}"))
    }
}

#[cfg(test)]
mod tests {
    use midcourse::{
        AgentMessage, Channel, Event, RunIdentity, Source, Timestamp, TrajectoryPayload,
    };

    use super::RunSettings;

    fn recorded(settings: &RunSettings, payload: TrajectoryPayload) -> Vec<Event> {
        let source = Source::new("codex", midcourse::Channel::Hook);
        let event = Event::new(RunIdentity::root("r"), source, Timestamp::default(), payload);
        let mut events = vec![event];
        settings.clone().record_in(&mut events);
        events
    }

    fn kinds(settings: &RunSettings, payload: TrajectoryPayload) -> Vec<&'static str> {
        recorded(settings, payload).iter().map(|event| event.payload.kind()).collect()
    }

    fn message(message: AgentMessage) -> TrajectoryPayload {
        TrajectoryPayload::MessageAppended { message }
    }

    fn started() -> TrajectoryPayload {
        TrajectoryPayload::RunStarted { identity: RunIdentity::root("r") }
    }

    #[test]
    fn a_launch_is_recorded_where_a_run_begins() {
        let deadline = Some(Timestamp::from_unix_ms(7));
        let launch = RunSettings::shipped().for_new_launch(deadline, false);
        assert_eq!(kinds(&launch, started()), ["run_started", "config_applied", "deadline_set"]);
        let resumed = kinds(&launch, TrajectoryPayload::Resumed);
        assert_eq!(resumed, ["config_applied", "deadline_set", "resumed"]);
        let prompt = kinds(&launch, message(AgentMessage::user("go")));
        assert_eq!(prompt, ["config_applied", "deadline_set", "message_appended"]);
        let reply = kinds(&launch, message(AgentMessage::assistant("ok")));
        assert_eq!(reply, ["message_appended"]);
        assert_eq!(kinds(&launch, TrajectoryPayload::TurnStarted), ["turn_started"]);
    }

    #[test]
    fn recorded_settings_name_the_host_of_the_run() {
        let launch = RunSettings::shipped().for_new_launch(None, false);
        let events = recorded(&launch, TrajectoryPayload::Resumed);
        assert_eq!(events[0].source.host(), "codex");
    }

    #[test]
    fn resuming_without_a_deadline_clears_the_earlier_one() {
        let launch = RunSettings::shipped().for_new_launch(None, false);
        assert_eq!(kinds(&launch, started()), ["run_started", "config_applied"]);
        let resumed = kinds(&launch, TrajectoryPayload::Resumed);
        assert_eq!(resumed, ["config_applied", "deadline_set", "resumed"]);
    }

    #[test]
    fn without_a_launch_and_a_file_only_a_resumption_is_recorded() {
        let shipped = RunSettings::shipped();
        assert_eq!(kinds(&shipped, started()), ["run_started"]);
        let resumed = kinds(&shipped, TrajectoryPayload::Resumed);
        assert_eq!(resumed, ["config_applied", "deadline_set", "resumed"]);
        let found = RunSettings::from_text("[budget]\ndeadline = '2h'\n");
        let begun = recorded(&found, started());
        let deadline = TrajectoryPayload::DeadlineSet {
            at_unix_ms: Some(Timestamp::from_unix_ms(2 * 60 * 60 * 1_000)),
        };
        assert_eq!(begun[2].payload, deadline);
        let prompt = kinds(&found, message(AgentMessage::user("go")));
        assert_eq!(prompt, ["config_applied", "message_appended"]);
    }

    #[test]
    fn a_new_run_without_a_start_has_its_settings_before_its_first_event() {
        let found = RunSettings::from_text("[budget]\ndeadline = '2h'\n");
        let in_new_run = |payload| {
            let source = Source::new("custom", Channel::Library);
            let at = Timestamp::default();
            let mut events = vec![Event::new(RunIdentity::root("r"), source, at, payload)];
            found.clone().record_in_new_run(&mut events);
            events.iter().map(|event| event.payload.kind()).collect::<Vec<_>>()
        };
        let turn = in_new_run(TrajectoryPayload::TurnStarted);
        assert_eq!(turn, ["config_applied", "deadline_set", "turn_started"]);
        assert_eq!(in_new_run(started()), ["run_started", "config_applied", "deadline_set"]);
    }
}
