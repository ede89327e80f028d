//! Feedback about the budget: how many calls and tokens, and how much money, are used up.
//!
//! The feedback informs the agent; a budget never stops a run. If the agent is started again to
//! resume a run, it has the whole budget: what the run used up before does not count.

use crate::cause::{Cause, Rung};
use crate::digest::Digest;
use crate::fault::ProviderError;
use crate::message::{Feedback, Severity};
use crate::money::{InvalidMoney, MicroUsd};
use crate::prompt::{FeedbackContext, FeedbackProvider};
use crate::why::Why;

/// How many calls and tokens, and how much money, a run should use up at most. By default nothing
/// is limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    calls: Option<u64>,
    tokens: Option<u64>,
    cost: Option<MicroUsd>,
}

impl Budget {
    /// Limits the number of tool calls. A limit of zero is an error.
    pub fn with_calls(mut self, calls: u64) -> Result<Self, InvalidBudget> {
        self.calls = Some(more_than_zero(calls)?);
        Ok(self)
    }

    /// Limits the number of tokens. A limit of zero is an error. The limit has no effect with hosts
    /// that do not report tokens.
    pub fn with_tokens(mut self, tokens: u64) -> Result<Self, InvalidBudget> {
        self.tokens = Some(more_than_zero(tokens)?);
        Ok(self)
    }

    /// Limits the cost, in US dollars. A limit of zero is an error. The limit has no effect with
    /// hosts that do not report a cost.
    pub fn with_cost_usd(mut self, dollars: f64) -> Result<Self, InvalidBudget> {
        let cost = MicroUsd::try_from(dollars)?;
        more_than_zero(cost.get())?;
        self.cost = Some(cost);
        Ok(self)
    }

    /// The limit for tool calls; `None` if they are not limited.
    pub const fn calls(self) -> Option<u64> {
        self.calls
    }

    /// The limit for tokens; `None` if they are not limited.
    pub const fn tokens(self) -> Option<u64> {
        self.tokens
    }
}

fn more_than_zero(limit: u64) -> Result<u64, InvalidBudget> {
    if limit > 0 { Ok(limit) } else { Err(InvalidBudget::Zero) }
}

/// Why a limit of a budget is invalid.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum InvalidBudget {
    /// The limit is zero.
    #[error("a budget of 0 is not possible; use more than 0, or set no budget")]
    Zero,
    /// The number of dollars is negative, infinite or NaN.
    #[error(transparent)]
    Money(#[from] InvalidMoney),
}

/// The unit of a budget of tokens.
const TOKENS: &str = "tokens";

/// Percentages of a budget at which the agent gets feedback.
const STEPS_PERCENT: [u64; 4] = [50, 80, 95, 100];

/// When at least this percentage of a budget is used, the feedback is a warning.
const WARNING_PERCENT: u64 = 80;

/// Tells the agent how much of a budget is used: at 50, 80, 95 and 100 percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetFeedback {
    budget: Budget,
}

/// One limit of a budget, and how much of it is used.
struct Usage {
    kind: &'static str,
    /// Amount that the run had used up when the agent was last started, which does not count
    /// towards the limit and is not part of `used`.
    used_before: u64,
    used: u64,
    limit: u64,
    used_text: String,
    limit_text: String,
}

impl Usage {
    fn percent(&self) -> u64 {
        let percent = u128::from(self.used) * 100 / u128::from(self.limit.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }

    /// How many of the percentages in [`STEPS_PERCENT`] are reached.
    fn step(&self) -> u8 {
        STEPS_PERCENT.iter().map(|step| u8::from(self.percent() >= *step)).sum()
    }

    /// The cause that identifies this limit in messages about it. It includes `used_before`, so
    /// that an agent that is started again to resume the run gets these messages again.
    fn cause(&self) -> Cause {
        let limit = Digest::of(self.kind.as_bytes()).then(&self.limit.to_le_bytes());
        Cause::new("budget", limit.then(&self.used_before.to_le_bytes()))
    }
}

impl BudgetFeedback {
    /// Reports how much of this budget is used. A budget without limits is never reported.
    pub const fn new(budget: Budget) -> Self {
        Self { budget }
    }

    /// The first limit that has reached a further percentage of `STEPS_PERCENT`, with the reason
    /// for a message; `None` if the agent has been told about all percentages reached so far.
    fn unreported_step(&self, context: &FeedbackContext<'_>) -> Option<(Usage, Why)> {
        let trajectory = context.trajectory();
        let before = context.session().usage_before();
        let count = |kind: &'static str, total: u64, used_before: u64, limit: Option<u64>| {
            let used = total.saturating_sub(used_before);
            let limit = limit?;
            let is_estimate = kind == TOKENS && trajectory.has_estimated_tokens();
            let used_text = if is_estimate { format!("about {used}") } else { used.to_string() };
            let limit_text = format!("{limit} {kind}");
            Some(Usage { kind, used_before, used, limit, used_text, limit_text })
        };
        let cost = self.budget.cost.zip(trajectory.cost()).map(|(limit, total)| {
            let used = total.saturating_sub(before.cost);
            Usage {
                kind: "dollars",
                used_before: before.cost.get(),
                used: used.get(),
                limit: limit.get(),
                used_text: used.to_string(),
                limit_text: format!("{limit} dollars"),
            }
        });
        let (calls, tokens) = (trajectory.tool_call_count(), trajectory.tokens());
        [
            count("tool calls", calls, before.calls, self.budget.calls),
            count(TOKENS, tokens, before.tokens, self.budget.tokens),
            cost,
        ]
        .into_iter()
        .flatten()
        .find_map(|usage| {
            let cause = usage.cause();
            // A message about the n-th percentage in `STEPS_PERCENT` gets the number (rung) n, so
            // the rung of the latest message says which percentage was reported last. If usage
            // jumps from 40 to 85 percent, the message about 80 percent has rung 2, and 50 percent
            // is never reported.
            let reported = context.session().ledger().next_rung(&cause).0 - 1;
            let rung = Rung(usage.step());
            (usage.step() > reported).then(|| {
                let evidence = vec![trajectory.latest_seq()];
                (usage, Why { cause, rung, evidence, subject: None })
            })
        })
    }
}

impl FeedbackProvider for BudgetFeedback {
    fn name(&self) -> &str {
        "Budget"
    }

    fn is_about_run(&self) -> bool {
        true
    }

    fn should_run(&self, context: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        Ok(self.unreported_step(context).is_some())
    }

    fn provide(&self, context: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        let (usage, why) = self.unreported_step(context).ok_or("no step was reached")?;
        let Usage { used_text, limit_text, .. } = &usage;
        let feedback = if usage.used >= usage.limit {
            Feedback::new(self.name(), format!("You have used the budget of {limit_text}."))
                .with_suggestion("Wrap up immediately.")
                .with_severity(Severity::Warning)
        } else {
            let summary = format!("You have used {used_text} of {limit_text}.");
            let feedback = Feedback::new(self.name(), summary);
            if usage.percent() >= WARNING_PERCENT {
                feedback
                    .with_suggestion("Prioritize completing critical remaining work.")
                    .with_severity(Severity::Warning)
            } else {
                feedback
            }
        };
        Ok(feedback.about(why))
    }
}
