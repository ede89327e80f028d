//! The tables and keys of the configuration file. They mirror types of the crate `midcourse`: if
//! such a type gets a new field, this file does not compile until it has a key for the field.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use compact_str::CompactString;
use midcourse::{
    Budget, Confidence, Mode, ToolSetting, ToolSettings, TrajectoryAnalysisConfig, WindowSize,
};
use serde::Deserialize;
use serde::de::Error as _;

use super::experiment::ExperimentWire;
use super::providers::ProvidersWire;
use super::value::{
    Amount, Count, Dollars, DurationText, FleetAddress, ModelHostText, PatternText, SizeText,
    count, cycle_len, duration, mode, probability, window,
};
use super::{Config, MessageLimits, Price, Retention, Ship, ShipLevel};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct ConfigWire {
    #[serde(deserialize_with = "mode", default)]
    mode: Mode,
    #[serde(default)]
    budget: BudgetWire,
    #[serde(with = "AnalysisWire", default = "TrajectoryAnalysisConfig::shipped")]
    analysis: TrajectoryAnalysisConfig,
    #[serde(default)]
    patterns: PatternsWire,
    #[serde(default)]
    tools: BTreeMap<CompactString, ToolSettingOf>,
    #[serde(default)]
    messages: MessagesWire,
    #[serde(default)]
    providers: ProvidersWire,
    #[serde(default)]
    proxy: ProxyWire,
    #[serde(default)]
    redaction: RedactionWire,
    #[serde(default)]
    retention: RetentionWire,
    #[serde(default)]
    ship: ShipWire,
    #[serde(default)]
    experiment: ExperimentWire,
    #[serde(default)]
    prices: BTreeMap<String, PriceWire>,
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
    #[serde(deserialize_with = "window", rename = "excerpt_window")]
    excerpts: WindowSize,
    #[serde(deserialize_with = "count")]
    cycle_threshold: NonZeroU32,
    #[serde(deserialize_with = "cycle_len", rename = "min_cycle_len")]
    shortest_cycle: NonZeroU32,
    #[serde(deserialize_with = "probability", rename = "similarity_threshold")]
    similarity: Confidence,
    #[serde(deserialize_with = "count")]
    error_window: NonZeroU32,
    #[serde(deserialize_with = "count")]
    error_threshold: NonZeroU32,
    #[serde(deserialize_with = "count")]
    cascade_threshold: NonZeroU32,
    #[serde(deserialize_with = "count")]
    stall_threshold: NonZeroU32,
    #[serde(deserialize_with = "duration")]
    stall_after: Duration,
    #[serde(deserialize_with = "count")]
    stagnation_threshold: NonZeroU32,
    #[serde(deserialize_with = "duration")]
    poll_gap: Duration,
    failing_exit_is_output: bool,
    #[serde(rename = "detect_drift")]
    watch_drift: bool,
    /// Not a key of this table. `read` fills this field from the separate table `[tools]`.
    #[serde(skip)]
    tools: ToolSettings,
    /// Not a key of this table. `read` fills this field from the separate table `[patterns]`.
    #[serde(skip)]
    muted: BTreeSet<CompactString>,
}

/// One table for each pattern, under the name of the pattern.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct PatternsWire {
    doom_loop: PatternWire,
    repeated_error: PatternWire,
    progress_stall: PatternWire,
    churn: PatternWire,
    tool_avoidance: PatternWire,
    context_degradation: PatternWire,
    sweep: PatternWire,
    error_cascade: PatternWire,
    stagnation: PatternWire,
    write_thrash: PatternWire,
    outage: PatternWire,
    monologue: PatternWire,
    no_effect: PatternWire,
    idle_talk: PatternWire,
    drift: PatternWire,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct PatternWire {
    enabled: bool,
}

impl Default for PatternWire {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl PatternsWire {
    /// The names of the patterns that are not enabled.
    fn muted(&self) -> BTreeSet<CompactString> {
        let all = [
            ("doom_loop", &self.doom_loop),
            ("repeated_error", &self.repeated_error),
            ("progress_stall", &self.progress_stall),
            ("churn", &self.churn),
            ("tool_avoidance", &self.tool_avoidance),
            ("context_degradation", &self.context_degradation),
            ("sweep", &self.sweep),
            ("error_cascade", &self.error_cascade),
            ("stagnation", &self.stagnation),
            ("write_thrash", &self.write_thrash),
            ("outage", &self.outage),
            ("monologue", &self.monologue),
            ("no_effect", &self.no_effect),
            ("idle_talk", &self.idle_talk),
            ("drift", &self.drift),
        ];
        let muted = all.into_iter().filter(|(_, pattern)| !pattern.enabled);
        muted.map(|(name, _)| CompactString::from(name)).collect()
    }
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
    #[serde(rename = "volatile_args")]
    volatile: Vec<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct BudgetWire {
    calls: Option<Amount>,
    tokens: Option<Amount>,
    deadline: Option<DurationText>,
}

impl BudgetWire {
    fn read(self) -> Result<(Budget, Option<Duration>), toml::de::Error> {
        let Self { calls, tokens, deadline } = self;
        let mut budget = Budget::default();
        if let Some(Amount(calls)) = calls {
            budget = budget.with_calls(calls).map_err(toml::de::Error::custom)?;
        }
        if let Some(Amount(tokens)) = tokens {
            budget = budget.with_tokens(tokens).map_err(toml::de::Error::custom)?;
        }
        Ok((budget, deadline.map(|time| time.0)))
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct MessagesWire {
    cooldown_calls: Option<Count>,
    max_per_decision: Option<Count>,
    max_deliveries: Option<Count>,
    max_chars: Option<Count>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct ProxyWire {
    model_hosts: Vec<ModelHostText>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct RedactionWire {
    patterns: Vec<PatternText>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct RetentionWire {
    max_age: Option<DurationText>,
    max_size: Option<SizeText>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct ShipWire {
    to: Option<FleetAddress>,
    project: Option<String>,
    level: ShipLevelWire,
    every: Option<DurationText>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ShipLevelWire {
    #[default]
    Full,
    Metadata,
}

impl ShipWire {
    fn read(self) -> Ship {
        let level = match self.level {
            ShipLevelWire::Full => ShipLevel::Full,
            ShipLevelWire::Metadata => ShipLevel::Metadata,
        };
        let (to, every) = (self.to.map(|to| to.0), self.every.map(|every| every.0));
        Ship { to, project: self.project, level, every }
    }
}

/// Dollars per million tokens. Without prices of their own, cached tokens cost as much as others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct PriceWire {
    input: Dollars,
    output: Dollars,
    cache_read: Option<Dollars>,
    cache_write: Option<Dollars>,
}

impl PriceWire {
    fn read(self) -> Price {
        let Self { input, output, cache_read, cache_write } = self;
        let or_input = |price: Option<Dollars>| price.map_or(input.0, |price| price.0);
        Price {
            input: input.0,
            output: output.0,
            cache_read: or_input(cache_read),
            cache_write: or_input(cache_write),
        }
    }
}

pub(super) fn read(text: &str) -> Result<Config, toml::de::Error> {
    let ConfigWire {
        mode,
        budget,
        mut analysis,
        patterns,
        tools,
        messages,
        providers,
        proxy,
        redaction,
        retention,
        ship,
        experiment,
        prices,
    } = toml::from_str(text)?;
    analysis.muted = patterns.muted();
    analysis.tools = tools
        .into_iter()
        .fold(ToolSettings::default(), |known, (name, setting)| known.with(name, setting.0));
    let MessagesWire { cooldown_calls, max_per_decision, max_deliveries, max_chars } = messages;
    let number = |count: Option<Count>| count.map(|count| count.0);
    let messages = MessageLimits {
        cooldown_calls: number(cooldown_calls),
        max_per_decision: number(max_per_decision),
        max_deliveries: number(max_deliveries),
        max_chars: number(max_chars),
    };
    let (budget, deadline) = budget.read()?;
    let providers = providers.over_shipped();
    let model_hosts = proxy.model_hosts.into_iter().map(|text| text.0).collect();
    let secret_patterns = redaction.patterns.into_iter().map(|text| text.0).collect();
    Ok(Config {
        mode,
        budget,
        deadline,
        analysis,
        messages,
        providers,
        model_hosts,
        secret_patterns,
        retention: Retention {
            max_age: retention.max_age.map(|age| age.0),
            max_size: retention.max_size.map(|size| size.0),
        },
        ship: ship.read(),
        experiment: experiment.read(),
        prices: prices.into_iter().map(|(model, price)| (model, price.read())).collect(),
    })
}
