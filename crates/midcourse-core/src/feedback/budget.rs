//! What is left of calls, tokens and money. It tells, and never stops anything.
//!
//! A budget counts from where the terms in force began to hold: what an earlier launch of the run
//! used up was that launch's.

use crate::cause::{Cause, Rung, Why};
use crate::digest::Digest;
use crate::fault::ProviderError;
use crate::message::{Feedback, Severity};
use crate::money::{InvalidMoney, MicroUsd};
use crate::prompt::{FeedbackContext, FeedbackProvider};

/// What a run may use up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    calls: Option<u64>,
    tokens: Option<u64>,
    cost: Option<MicroUsd>,
}

impl Budget {
    /// At most this many tool calls.
    pub fn with_calls(mut self, calls: u64) -> Result<Self, InvalidBudget> {
        self.calls = Some(more_than_zero(calls)?);
        Ok(self)
    }

    /// At most this many tokens, where the host reports them.
    pub fn with_tokens(mut self, tokens: u64) -> Result<Self, InvalidBudget> {
        self.tokens = Some(more_than_zero(tokens)?);
        Ok(self)
    }

    /// At most this much money, where the host reports the cost.
    pub fn with_cost_usd(mut self, dollars: f64) -> Result<Self, InvalidBudget> {
        let cost = MicroUsd::try_from(dollars)?;
        more_than_zero(cost.get())?;
        self.cost = Some(cost);
        Ok(self)
    }

    /// The tool calls there are.
    pub const fn calls(self) -> Option<u64> {
        self.calls
    }

    /// The tokens there are.
    pub const fn tokens(self) -> Option<u64> {
        self.tokens
    }
}

fn more_than_zero(limit: u64) -> Result<u64, InvalidBudget> {
    if limit > 0 { Ok(limit) } else { Err(InvalidBudget::Nothing) }
}

/// A budget that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum InvalidBudget {
    /// A budget of nothing.
    #[error("a budget of nothing is not possible: give more than zero, or leave it out")]
    Nothing,
    /// Not an amount of money.
    #[error(transparent)]
    Money(#[from] InvalidMoney),
}

/// Parts of a budget, in percent, at which it speaks.
const STEPS: [u64; 4] = [50, 80, 95, 100];

/// From here on it warns.
const WARNING_PERCENT: u64 = 80;

/// Says how much of a budget is used: at half, four fifths, 95 percent and when it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetFeedback {
    budget: Budget,
}

/// One budget and what is used of it.
struct Used {
    kind: &'static str,
    /// Under other terms.
    before: u64,
    used: u64,
    limit: u64,
    /// The amounts in words.
    words: (String, String),
}

impl Used {
    fn percent(&self) -> u64 {
        let percent = u128::from(self.used) * 100 / u128::from(self.limit.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }

    fn step(&self) -> u8 {
        STEPS.iter().map(|step| u8::from(self.percent() >= *step)).sum()
    }

    /// The same limit under later terms is another budget.
    fn cause(&self) -> Cause {
        let limit = Digest::of(self.kind.as_bytes()).then(&self.limit.to_le_bytes());
        Cause::new("budget", limit.then(&self.before.to_le_bytes()))
    }
}

impl BudgetFeedback {
    /// Watches a budget.
    pub const fn new(budget: Budget) -> Self {
        Self { budget }
    }

    /// The part of the budget that has passed a step which was not told yet.
    fn news(&self, context: &FeedbackContext<'_>) -> Option<(Used, Why)> {
        let trajectory = context.trajectory();
        let before = context.session().usage_before();
        let count = |kind: &'static str, total: u64, before: u64, limit: Option<u64>| {
            let used = total.saturating_sub(before);
            limit.map(|limit| {
                let words = (used.to_string(), format!("{limit} {kind}"));
                Used { kind, before, used, limit, words }
            })
        };
        let cost = self.budget.cost.zip(trajectory.cost()).map(|(limit, total)| {
            let used = total.saturating_sub(before.cost);
            Used {
                kind: "dollars",
                before: before.cost.get(),
                used: used.get(),
                limit: limit.get(),
                words: (used.to_string(), format!("{limit} dollars")),
            }
        });
        let (calls, tokens) = (trajectory.tool_call_count(), trajectory.tokens());
        [
            count("tool calls", calls, before.calls, self.budget.calls),
            count("tokens", tokens, before.tokens, self.budget.tokens),
            cost,
        ]
        .into_iter()
        .flatten()
        .find_map(|part| {
            let cause = part.cause();
            // Every step that was passed is a rung, told or not.
            let told = context.session().ledger().next_rung(&cause).0 - 1;
            let rung = Rung(part.step());
            (part.step() > told).then(|| {
                let evidence = vec![trajectory.latest_seq()];
                (part, Why { cause, rung, evidence })
            })
        })
    }
}

impl FeedbackProvider for BudgetFeedback {
    fn name(&self) -> &str {
        "Budget"
    }

    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        Ok(self.news(context).is_some())
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let (part, why) = self.news(context).ok_or("nothing is used up")?;
        let (used, limit) = &part.words;
        let feedback = if part.used >= part.limit {
            Feedback::new(self.name(), format!("You have used the budget of {limit}."))?
                .suggest("Wrap up immediately.")?
                .severity(Severity::Warning)
        } else {
            let summary = format!("You have used {used} of {limit}.");
            let feedback = Feedback::new(self.name(), summary)?;
            if part.percent() >= WARNING_PERCENT {
                feedback
                    .suggest("Prioritize completing critical remaining work.")?
                    .severity(Severity::Warning)
            } else {
                feedback
            }
        };
        Ok(feedback.about(why))
    }
}
