//! Settings given as flags of `midcourse run` and `midcourse proxy`. They take precedence over every file.

use std::num::NonZeroU64;
use std::time::Duration;

use midcourse::Mode;
use toml::{Table, Value};

use super::Layer;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    pub(crate) mode: Option<Mode>,
    pub(crate) calls: Option<NonZeroU64>,
    pub(crate) tokens: Option<NonZeroU64>,
    /// How much time a run has, counted from its start.
    pub(crate) deadline: Option<Duration>,
}

impl Overrides {
    pub(crate) fn layer(self) -> Layer {
        let Self { mode, calls, tokens, deadline } = self;
        let mut table = Table::new();
        if let Some(mode) = mode {
            let mode = match mode {
                Mode::Live => "live",
                Mode::Shadow => "shadow",
            };
            table.insert("mode".to_owned(), mode.into());
        }
        let mut budget = Table::new();
        for (key, amount) in [("calls", calls), ("tokens", tokens)] {
            if let Some(amount) = amount {
                // TOML has no integers above `i64::MAX`. A larger budget is lowered to this number,
                // which no run reaches anyway.
                let amount = i64::try_from(amount.get()).unwrap_or(i64::MAX);
                budget.insert(key.to_owned(), Value::Integer(amount));
            }
        }
        if let Some(deadline) = deadline {
            budget.insert("deadline".to_owned(), format!("{}s", deadline.as_secs().max(1)).into());
        }
        table.insert("budget".to_owned(), Value::Table(budget));
        Layer(table)
    }
}
