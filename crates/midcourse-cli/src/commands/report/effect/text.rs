//! The effect of messages as text for a terminal, in at most 80 columns.

use std::io::Write;

use anyhow::Result;
use comfy_table::Table;

use crate::commands::columns;
use crate::commands::report::text::Layout;
use crate::commands::report::words;
use crate::config::Experiment;
use crate::display::{local_time, one_line, wrapped};
use crate::effect::{Comparison, Effect, Estimate, MIN_CASES_PER_SIDE, PlanReport, Side, Verdict};

const MAX_WIDTH: usize = 80;

/// How many patterns and how many hosts are shown.
const MAX_ROWS: usize = 12;

/// Prints what is known about each plan. `current` is the experiment that applies now.
pub(super) fn print(
    out: &mut impl Write,
    plans: &[PlanReport],
    without_plan: u64,
    current: &Experiment,
    layout: &Layout,
) -> Result<()> {
    let mut page = Page { out, width: layout.width.min(MAX_WIDTH) };
    if plans.is_empty() {
        page.paragraph(&nothing(current))?;
    }
    if plans.len() > 1 {
        page.paragraph(&format!(
            "The plan changed: the runs have {} plans. Each is analysed by itself.",
            words::number(u64::try_from(plans.len()).unwrap_or(u64::MAX))
        ))?;
        page.line("")?;
    }
    for (index, plan) in plans.iter().enumerate() {
        if index > 0 {
            page.line("")?;
        }
        page.plan(plan, layout)?;
    }
    if without_plan > 0 {
        page.line("")?;
        page.paragraph(&format!(
            "Left out: {} in runs that record no plan.",
            words::count(without_plan, "case")
        ))?;
    }
    Ok(())
}

/// Says that there are no cases, and why.
fn nothing(current: &Experiment) -> String {
    if current.is_on() {
        return format!(
            "Not enough data yet: 0 of {} cases. The experiment withholds the messages about {} of \
             the problems, and no run has had a problem since it began.",
            words::grouped(current.cases.get().into()),
            percent(current.holdout.share())
        );
    }
    "There is no experiment, so nothing is known about the effect of messages. To start one, add \
     `[experiment]` and `holdout = 0.2` to your midcourse.toml: then the messages about every fifth \
     problem are withheld at random."
        .to_owned()
}

struct Page<'a, W> {
    out: &'a mut W,
    width: usize,
}

impl<W: Write> Page<'_, W> {
    fn line(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.out, "{line}")?)
    }

    fn paragraph(&mut self, text: &str) -> Result<()> {
        wrapped(text, self.width).iter().try_for_each(|line| self.line(line))
    }

    fn field(&mut self, name: &str, text: &str) -> Result<()> {
        let mut label = format!("  {name:<8}  ");
        for line in wrapped(text, self.width.saturating_sub(label.len())) {
            self.line(&format!("{label}{line}"))?;
            label = " ".repeat(label.len());
        }
        Ok(())
    }

    fn plan(&mut self, report: &PlanReport, layout: &Layout) -> Result<()> {
        let PlanReport { plan, delivered, withheld, open, later, not_first, shadow, .. } = report;
        let name = plan.name.as_deref().map(|name| format!(" ({})", one_line(name, 60)));
        let heading = format!("Do messages help?{}", name.unwrap_or_default());
        self.line(&layout.painter.bold(&heading))?;
        self.field("since", &local_time(report.since))?;
        self.field(
            "plan",
            &format!(
                "the first {} cases; does the problem go away within {}?",
                words::grouped(plan.cases),
                words::count(plan.within_calls, "call")
            ),
        )?;
        self.field(
            "holdout",
            &format!("the messages about {} of the problems are withheld", percent(plan.holdout)),
        )?;
        let all = delivered.saturating_add(*withheld);
        let mut cases = format!(
            "{} of {}: {} with messages, {} withheld",
            words::grouped(all),
            words::grouped(plan.cases),
            words::grouped(*delivered),
            words::grouped(*withheld)
        );
        if *open > 0 {
            cases.push_str(&format!("; {} not decided yet", words::grouped(*open)));
        }
        self.field("cases", &cases)?;
        let left_out = [
            (*not_first, "not the first problem of their run"),
            (*later, "after the planned number"),
            (shadow.cases, "in shadow mode, where no message is delivered"),
        ];
        let left_out = left_out.iter().filter(|(count, _)| *count > 0);
        let left_out: Vec<String> =
            left_out.map(|(count, why)| format!("{} {why}", words::grouped(*count))).collect();
        if !left_out.is_empty() {
            self.field("left out", &left_out.join("; "))?;
        }
        self.line("")?;
        match &report.effect {
            None => self.paragraph(&format!(
                "Not enough data yet: {} of {} cases. Results are shown when all planned cases are \
                 there and decided, so that it does not matter when you look.",
                words::grouped(all.saturating_sub(*open)),
                words::grouped(plan.cases)
            ))?,
            Some(effect) => {
                self.paragraph(&answer(effect, plan.within_calls))?;
                self.exploratory(effect)?;
            }
        }
        if let Some(recovery) = shadow.recovery {
            self.line("")?;
            self.paragraph(&format!(
                "For comparison: of the {} that the experiment would have withheld in shadow mode, \
                 {} recovered (95 % interval: {} to {}). If that is far from the withheld cases \
                 above, runs in shadow mode differ from the others.",
                words::count(shadow.withheld, "case"),
                percent(recovery.value),
                percent(recovery.low),
                percent(recovery.high)
            ))?;
        }
        Ok(())
    }

    fn exploratory(&mut self, effect: &Effect) -> Result<()> {
        self.line("")?;
        self.paragraph(
            "More figures. They were not planned, so they are hints: of twenty figures without an \
             effect, about one has an interval that leaves out 0 (or × 1). The number of cases is \
             in parentheses.",
        )?;
        self.line("")?;
        let mut table = columns::table(["", "MESSAGES", "WITHHELD", "DIFFERENCE (95 % INTERVAL)"]);
        let add = |table: &mut Table, name: &str, figure: &Figure<'_>| {
            table.add_row([
                name.to_owned(),
                figure.side(figure.of.delivered),
                figure.side(figure.of.withheld),
                figure.difference(),
            ]);
        };
        add(&mut table, "calls until it is gone", &Figure::new(Unit::Calls, &effect.calls));
        add(&mut table, "tokens until then", &Figure::new(Unit::Tokens, &effect.tokens));
        add(&mut table, "run finished", &Figure::new(Unit::Share, &effect.success));
        for (heading, groups) in
            [("gone, by pattern:", &effect.patterns), ("gone, by agent:", &effect.hosts)]
        {
            table.add_row([heading]);
            for group in groups.iter().take(MAX_ROWS) {
                let name = format!("  {}", one_line(&group.name, 22));
                add(&mut table, &name, &Figure::new(Unit::Share, &group.recovery));
            }
        }
        columns::print(self.out, table, [1, 2])
    }
}

/// What the planned comparison says, in two or three sentences.
fn answer(effect: &Effect, within_calls: u64) -> String {
    let Comparison { delivered, withheld, difference } = effect.recovery;
    let Some(Estimate { value, low, high }) = difference else {
        return format!(
            "Not enough data: all planned cases are there, but one side has fewer than \
             {MIN_CASES_PER_SIDE}. Plan more cases, or a larger holdout."
        );
    };
    let share = |side: Side, noun: &str| {
        let share = side.value.unwrap_or_default();
        let recovered = rounded(share * figure(side.cases));
        let counts = format!("{} of {}", words::grouped(recovered), words::grouped(side.cases));
        format!("{}{noun} ({counts})", percent(share))
    };
    let begin = match effect.verdict {
        Verdict::Helped => "Yes, messages help.",
        Verdict::Hurt => "No, messages do harm.",
        Verdict::NotShown | Verdict::TooFewCases => "An effect is not shown.",
    };
    let range = format!("{} to {} points", points(low), points(high));
    let end = match effect.verdict {
        Verdict::Helped | Verdict::Hurt => {
            format!("The true difference is likely in the range of {range} (95 % interval).")
        }
        Verdict::NotShown | Verdict::TooFewCases => format!(
            "The true difference may be anything in the range of {range} (95 % interval), also 0."
        ),
    };
    format!(
        "{begin} With messages, the problem was gone within {} in {}; without, in {}. That is a \
         difference of {} points. {end}",
        words::count(within_calls, "call"),
        share(delivered, " of the cases"),
        share(withheld, ""),
        points(value)
    )
}

/// How a figure is written.
#[derive(Clone, Copy)]
enum Unit {
    Share,
    Calls,
    /// The difference is a ratio.
    Tokens,
}

struct Figure<'a> {
    unit: Unit,
    of: &'a Comparison,
}

impl<'a> Figure<'a> {
    const fn new(unit: Unit, of: &'a Comparison) -> Self {
        Self { unit, of }
    }

    fn side(&self, side: Side) -> String {
        let value = match (self.unit, side.value) {
            (_, None) => "–".to_owned(),
            (Unit::Share, Some(value)) => percent(value),
            (Unit::Calls, Some(value)) => format!("{value:.1}"),
            (Unit::Tokens, Some(value)) => words::tokens(rounded(value)),
        };
        format!("{value} ({})", words::grouped(side.cases))
    }

    fn difference(&self) -> String {
        let Some(Estimate { value, low, high }) = self.of.difference else {
            return "not enough data yet".to_owned();
        };
        match self.unit {
            Unit::Share => {
                format!("{} points ({} to {})", points(value), points(low), points(high))
            }
            Unit::Calls => format!("{value:+.1} ({low:+.1} to {high:+.1})"),
            Unit::Tokens => format!("× {value:.2} ({low:.2} to {high:.2})"),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A difference of shares in percentage points, with its sign; never `-0`.
fn points(difference: f64) -> String {
    format!("{:+.0}", (difference * 100.0).round() + 0.0)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of cases are far below 2^52")]
const fn figure(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of counts")]
const fn rounded(value: f64) -> u64 {
    value.round() as u64
}
