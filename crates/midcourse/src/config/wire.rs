//! The file's tables and keys. They mirror the core's types, so a field that is added there does not
//! compile until somebody says how it is written here.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use compact_str::CompactString;
use midcourse_core::{
    Confidence, DeliveryPolicy, LedgerPolicy, Speaking, ToolSetting, ToolSettings,
    TrajectoryAnalysisConfig, WindowSize,
};
use serde::Deserialize;

use super::Config;
use super::value::{count, cycle, length, probability, window};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct ConfigWire {
    #[serde(with = "AnalysisWire", default = "TrajectoryAnalysisConfig::shipped")]
    analysis: TrajectoryAnalysisConfig,
    #[serde(default)]
    tools: BTreeMap<CompactString, ToolSettingOf>,
    #[serde(default)]
    speaking: SpeakingWire,
}

#[derive(Deserialize)]
#[serde(
    remote = "TrajectoryAnalysisConfig",
    default = "TrajectoryAnalysisConfig::shipped",
    deny_unknown_fields,
    expecting = "a table"
)]
struct AnalysisWire {
    #[serde(deserialize_with = "window")]
    window: WindowSize,
    #[serde(deserialize_with = "window")]
    excerpts: WindowSize,
    #[serde(deserialize_with = "count")]
    cycle_threshold: NonZeroU32,
    #[serde(deserialize_with = "cycle")]
    shortest_cycle: NonZeroU32,
    #[serde(deserialize_with = "probability")]
    similarity: Confidence,
    #[serde(deserialize_with = "count")]
    error_window: NonZeroU32,
    #[serde(deserialize_with = "count")]
    error_threshold: NonZeroU32,
    #[serde(deserialize_with = "count")]
    cascade_threshold: NonZeroU32,
    #[serde(deserialize_with = "count")]
    stall_threshold: NonZeroU32,
    #[serde(deserialize_with = "length")]
    stall_after: Duration,
    #[serde(deserialize_with = "count")]
    stagnation_threshold: NonZeroU32,
    #[serde(deserialize_with = "length")]
    poll_gap: Duration,
    failing_exit_is_output: bool,
    watch_drift: bool,
    /// A table of its own.
    #[serde(skip)]
    tools: ToolSettings,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct ToolSettingOf(#[serde(with = "ToolWire")] ToolSetting);

#[derive(Deserialize)]
#[serde(
    remote = "ToolSetting",
    default = "ToolSetting::default",
    deny_unknown_fields,
    expecting = "a table"
)]
struct ToolWire {
    writes: Option<bool>,
    polls: Option<bool>,
    volatile: Vec<CompactString>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct SpeakingWire {
    course_correction: bool,
    deadline: bool,
    #[serde(deserialize_with = "count")]
    cool_down_calls: NonZeroU32,
}

impl Default for SpeakingWire {
    fn default() -> Self {
        let Speaking { course_correction, deadline, delivery } = Speaking::default();
        let LedgerPolicy { cool_down_calls } = delivery.ledger;
        Self { course_correction, deadline, cool_down_calls }
    }
}

pub(super) fn read(text: &str) -> Result<Config, toml::de::Error> {
    let ConfigWire { mut analysis, tools, speaking } = toml::from_str(text)?;
    analysis.tools = tools
        .into_iter()
        .fold(ToolSettings::default(), |known, (name, setting)| known.with(name, setting.0));
    let SpeakingWire { course_correction, deadline, cool_down_calls } = speaking;
    // What else there is to say about deliveries is no setting yet.
    let DeliveryPolicy { feedback, guidance, ledger: _, max_deliveries, max_chars } =
        DeliveryPolicy::default();
    let ledger = LedgerPolicy { cool_down_calls };
    let delivery = DeliveryPolicy { feedback, guidance, ledger, max_deliveries, max_chars };
    Ok(Config { analysis, speaking: Speaking { course_correction, deadline, delivery } })
}
