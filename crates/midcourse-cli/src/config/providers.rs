//! The tables `[providers.NAME]` of the configuration file. A provider is a source of messages to
//! the agent. Its table says whether the provider is enabled, with which parameters, and how often
//! it may send a message. Every key is optional; the defaults are in the crate `midcourse`.

use midcourse::{
    DeadlineFeedback, ErrorCascadeDetector, FeedbackSetting, GuidanceSetting, ProviderSettings,
};
use serde::Deserialize;

use super::value::{
    Count, CountOrZero, CycleLen, DurationText, Points, Probability, ToolName, Trigger,
};

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
    warning_threshold: Option<DurationText>,
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
    failure_threshold: Option<Count>,
    trigger: Option<Trigger>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct FeedbackWire {
    enabled: Option<bool>,
    trigger: Option<Trigger>,
}

impl FeedbackWire {
    fn apply_to<P>(self, setting: &mut FeedbackSetting<P>) {
        set(&mut setting.enabled, self.enabled);
        set(&mut setting.trigger, self.trigger.map(|trigger| trigger.0));
    }
}

/// Defines the table of a guidance provider: the provider's own keys, and the keys that all
/// guidance providers have. The common keys cannot be a struct that each table includes, because
/// serde cannot combine `flatten` with `deny_unknown_fields`; so a macro repeats them.
macro_rules! guidance_table {
    ($wire:ident { $($key:ident: $value:ty),* $(,)? }) => {
        #[derive(Default, Deserialize)]
        #[serde(default, deny_unknown_fields, expecting = "a table")]
        struct $wire {
            enabled: Option<bool>,
            $($key: Option<$value>,)*
            max_per_turn: Option<Count>,
            cooldown_turns: Option<CountOrZero>,
            max_fires_per_session: Option<Count>,
            min_confidence: Option<Probability>,
            decision_points: Option<Points>,
        }

        impl $wire {
            fn apply_to<P>(self, setting: &mut GuidanceSetting<P>) {
                let (limits, max_fires) = (&mut setting.limits, self.max_fires_per_session);
                set(&mut setting.enabled, self.enabled);
                set(&mut limits.max_per_turn, self.max_per_turn.map(|count| count.0));
                set(&mut limits.cooldown_turns, self.cooldown_turns.map(|count| count.0));
                set(&mut limits.max_fires_per_session, max_fires.map(|count| Some(count.0)));
                set(&mut limits.min_confidence, self.min_confidence.map(|number| number.0));
                set(&mut setting.points, self.decision_points.map(|points| points.0));
            }
        }
    };
}

guidance_table!(CourseCorrectionWire {});
guidance_table!(DiagnosticSignalWire { error_threshold: Count, log_tool_name: ToolName });
guidance_table!(DoomLoopWire {
    similarity_threshold: Probability,
    window_size: CycleLen,
    max_repetitions: Count,
    min_cycle_len: CycleLen,
});
guidance_table!(ConsultationWire { failure_threshold: Count, consultation_tool: ToolName });
guidance_table!(ParallelWire { sequential_threshold: Count });

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

impl ProvidersWire {
    /// The default settings of all providers, changed by the keys that are set in these tables.
    pub(super) fn over_shipped(self) -> ProviderSettings {
        let mut providers = ProviderSettings::default();
        let all = &mut providers;
        self.deadline.apply_to(&mut all.deadline);
        set(&mut all.budget, self.budget.enabled);
        self.error_cascade_detector.apply_to(&mut all.error_cascade_detector);
        self.stall_detector.apply_to(&mut all.stall_detector);
        self.drift_detector.apply_to(&mut all.drift_detector);
        self.course_correction.apply_to(&mut all.course_correction);

        let (wire, setting) = (self.diagnostic_signal, &mut all.diagnostic_signal);
        if let Some(errors) = &wire.error_threshold {
            setting.provider = setting.provider.clone().with_error_threshold(errors.0);
        }
        if let Some(tool) = &wire.log_tool_name {
            setting.provider = setting.provider.clone().with_log_tool_name(tool.0.as_str());
        }
        wire.apply_to(setting);

        let (mut wire, setting) = (self.doom_loop_detector, &mut all.doom_loop_detector);
        let cycles = &mut setting.provider.classifier;
        set(&mut cycles.similarity, wire.similarity_threshold.take().map(|number| number.0));
        set(&mut cycles.longest_cycle, wire.window_size.take().map(|calls| calls.0));
        set(&mut cycles.repetitions, wire.max_repetitions.take().map(|count| count.0));
        set(&mut cycles.shortest_cycle, wire.min_cycle_len.take().map(|calls| calls.0));
        wire.apply_to(setting);

        let (wire, setting) = (self.consultation_prompt, &mut all.consultation_prompt);
        if let Some(failures) = &wire.failure_threshold {
            setting.provider = setting.provider.clone().with_failure_threshold(failures.0);
        }
        if let Some(tool) = &wire.consultation_tool {
            setting.provider = setting.provider.clone().with_consultation_tool(tool.0.as_str());
        }
        wire.apply_to(setting);

        let (wire, setting) = (self.parallel_tool_reminder, &mut all.parallel_tool_reminder);
        if let Some(turns) = &wire.sequential_threshold {
            setting.provider = setting.provider.with_sequential_threshold(turns.0);
        }
        wire.apply_to(setting);
        providers
    }
}

impl DeadlineWire {
    /// Changes `setting` by the keys of this table. If the key `trigger` is set, the provider tells
    /// the agent the remaining time as often as the trigger says. Otherwise it does so at fixed
    /// steps, such as when half of the time is left.
    fn apply_to(self, setting: &mut FeedbackSetting<DeadlineFeedback>) {
        let Self { enabled, warning_threshold, trigger } = self;
        let seconds = warning_threshold.map(|duration| duration.0.as_secs_f64());
        // `new` cannot fail here: it rejects zero, and a duration in a configuration file is never
        // zero.
        let deadline = seconds.and_then(|seconds| DeadlineFeedback::new(seconds).ok());
        let deadline = deadline.unwrap_or_default();
        setting.provider = if trigger.is_some() { deadline } else { deadline.at_steps() };
        FeedbackWire { enabled, trigger }.apply_to(setting);
    }
}

impl ErrorCascadeWire {
    fn apply_to(self, setting: &mut FeedbackSetting<ErrorCascadeDetector>) {
        let Self { enabled, failure_threshold, trigger } = self;
        let detector =
            failure_threshold.and_then(|count| ErrorCascadeDetector::new(count.0.get()).ok());
        set(&mut setting.provider, detector);
        FeedbackWire { enabled, trigger }.apply_to(setting);
    }
}
