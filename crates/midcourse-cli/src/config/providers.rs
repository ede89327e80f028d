//! The tables `[providers.NAME]`: who speaks, with which parameters, and how often. What a table
//! leaves out is as it ships, so every key is optional here and has its default in the core alone.

use midcourse::{
    ConsultationPromptProvider, DeadlineFeedback, DiagnosticSignalProvider, ErrorCascadeDetector,
    FeedbackSetting, GuidanceSetting, ParallelToolReminder, ProviderSettings,
};
use serde::Deserialize;

use super::value::{Count, CountOrNone, Cycle, Length, Probability, ToolName, Trigger};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct ProvidersWire {
    deadline: DeadlineWire,
    budget: BudgetWire,
    error_cascade_detector: ErrorCascadeWire,
    stall_detector: FeedbackWire,
    drift_detector: FeedbackWire,
    course_correction: CourseCorrectionWire,
    diagnostic_signal: DiagnosticSignalWire,
    doom_loop_detector: DoomLoopWire,
    consultation_prompt: ConsultationWire,
    parallel_tool_reminder: ParallelWire,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct DeadlineWire {
    enabled: Option<bool>,
    warning_threshold: Option<Length>,
    trigger: Option<Trigger>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct BudgetWire {
    enabled: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct ErrorCascadeWire {
    enabled: Option<bool>,
    failures: Option<Count>,
    trigger: Option<Trigger>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct FeedbackWire {
    enabled: Option<bool>,
    trigger: Option<Trigger>,
}

impl FeedbackWire {
    fn put_on<P>(self, setting: &mut FeedbackSetting<P>) {
        set(&mut setting.enabled, self.enabled);
        set(&mut setting.trigger, self.trigger.map(|trigger| trigger.0));
    }
}

/// The table of a guidance provider: the keys of its own, then those that all of them have. Serde
/// cannot both read one table into another and refuse unknown keys.
macro_rules! guidance_table {
    ($wire:ident { $($key:ident: $value:ty),* $(,)? }) => {
        #[derive(Default, Deserialize)]
        #[serde(default, deny_unknown_fields, expecting = "a table")]
        struct $wire {
            enabled: Option<bool>,
            $($key: Option<$value>,)*
            max_per_turn: Option<Count>,
            cooldown_turns: Option<CountOrNone>,
            max_fires_per_session: Option<Count>,
            min_confidence: Option<Probability>,
        }

        impl $wire {
            fn put_on<P>(self, setting: &mut GuidanceSetting<P>) {
                let (limits, most) = (&mut setting.limits, self.max_fires_per_session);
                set(&mut setting.enabled, self.enabled);
                set(&mut limits.max_per_turn, self.max_per_turn.map(|count| count.0));
                set(&mut limits.cooldown_turns, self.cooldown_turns.map(|count| count.0));
                set(&mut limits.max_fires_per_session, most.map(|count| Some(count.0)));
                set(&mut limits.min_confidence, self.min_confidence.map(|number| number.0));
            }
        }
    };
}

guidance_table!(CourseCorrectionWire {});
guidance_table!(DiagnosticSignalWire { error_threshold: Count, log_tool_name: ToolName });
guidance_table!(DoomLoopWire {
    similarity_threshold: Probability,
    window_size: Cycle,
    max_repetitions: Count,
    shortest_cycle: Cycle,
});
guidance_table!(ConsultationWire { failure_threshold: Count, consultation_tool: ToolName });
guidance_table!(ParallelWire { sequential_threshold: Count });

fn set<T>(place: &mut T, said: Option<T>) {
    if let Some(said) = said {
        *place = said;
    }
}

impl ProvidersWire {
    /// The providers as they ship, with what the tables say instead.
    pub(super) fn over_shipped(self) -> ProviderSettings {
        let mut providers = ProviderSettings::default();
        let all = &mut providers;
        self.deadline.put_on(&mut all.deadline);
        set(&mut all.budget, self.budget.enabled);
        self.error_cascade_detector.put_on(&mut all.error_cascade_detector);
        self.stall_detector.put_on(&mut all.stall_detector);
        self.drift_detector.put_on(&mut all.drift_detector);
        self.course_correction.put_on(&mut all.course_correction);

        let (wire, setting) = (self.diagnostic_signal, &mut all.diagnostic_signal);
        if let Some(errors) = &wire.error_threshold {
            setting.provider = DiagnosticSignalProvider::new(errors.0);
        }
        if let Some(tool) = &wire.log_tool_name {
            setting.provider = setting.provider.clone().with_log_tool(tool.0.as_str());
        }
        wire.put_on(setting);

        let (mut wire, setting) = (self.doom_loop_detector, &mut all.doom_loop_detector);
        let cycles = &mut setting.provider.classifier;
        set(&mut cycles.similarity, wire.similarity_threshold.take().map(|number| number.0));
        set(&mut cycles.longest, wire.window_size.take().map(|calls| calls.0));
        set(&mut cycles.repetitions, wire.max_repetitions.take().map(|count| count.0));
        set(&mut cycles.shortest, wire.shortest_cycle.take().map(|calls| calls.0));
        wire.put_on(setting);

        let (wire, setting) = (self.consultation_prompt, &mut all.consultation_prompt);
        if let Some(failures) = &wire.failure_threshold {
            setting.provider = ConsultationPromptProvider::new(failures.0);
        }
        if let Some(tool) = &wire.consultation_tool {
            setting.provider = setting.provider.clone().with_consultation_tool(tool.0.as_str());
        }
        wire.put_on(setting);

        let (wire, setting) = (self.parallel_tool_reminder, &mut all.parallel_tool_reminder);
        if let Some(turns) = &wire.sequential_threshold {
            setting.provider = ParallelToolReminder::new(turns.0);
        }
        wire.put_on(setting);
        providers
    }
}

impl DeadlineWire {
    /// With a trigger of its own it speaks whenever that is due, and not only when the situation
    /// has changed.
    fn put_on(self, setting: &mut FeedbackSetting<DeadlineFeedback>) {
        let Self { enabled, warning_threshold, trigger } = self;
        let seconds = warning_threshold.map(|length| length.0.as_secs_f64());
        // A length of time in a file is more than nothing, which is all that is asked here.
        let deadline = seconds.and_then(|seconds| DeadlineFeedback::new(seconds).ok());
        let deadline = deadline.unwrap_or_default();
        setting.provider = if trigger.is_some() { deadline } else { deadline.at_steps() };
        FeedbackWire { enabled, trigger }.put_on(setting);
    }
}

impl ErrorCascadeWire {
    fn put_on(self, setting: &mut FeedbackSetting<ErrorCascadeDetector>) {
        let Self { enabled, failures, trigger } = self;
        let detector = failures.and_then(|count| ErrorCascadeDetector::new(count.0.get()).ok());
        set(&mut setting.provider, detector);
        FeedbackWire { enabled, trigger }.put_on(setting);
    }
}
