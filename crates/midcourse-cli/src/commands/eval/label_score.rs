//! The score of a configuration against labels: how many messages that a person wants are delivered
//! (recall), and how many of the delivered messages that a person judged are wanted (precision).

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::label_verdicts::{Expected, LabelResult};
use super::labels::EvaluatedRun;
use crate::commands::columns;
use crate::commands::stats::{Share, format_share, percent, share_of};
use crate::display::{counted, one_line};

/// The row for missing messages of which the person did not say what they should be about.
const ANY_CAUSE: &str = "any";

/// Counts for one cause, or for all causes together.
#[derive(Default)]
struct Row {
    /// Number of messages that a person wants.
    expected: usize,
    /// Number of these that are delivered.
    given: usize,
    /// Number of messages that were false alarms and are gone.
    gone: usize,
    /// Number of places that should be quiet and get a message.
    false_alarms: usize,
}

impl Row {
    fn add(&mut self, result: &LabelResult) {
        let is_delivered = result.delivered.is_some();
        if result.expected.is_message() {
            self.expected += 1;
            self.given += usize::from(is_delivered);
        } else {
            self.false_alarms += usize::from(is_delivered);
            let is_gone = result.expected == Expected::NotThisMessage && !is_delivered;
            self.gone += usize::from(is_gone);
        }
    }

    const fn recall(&self) -> Option<Share> {
        share_of(self.given, self.expected)
    }

    const fn precision(&self) -> Option<Share> {
        share_of(self.given, self.given + self.false_alarms)
    }
}

#[derive(Default)]
pub(super) struct LabelScore {
    causes: BTreeMap<String, Row>,
    total: Row,
    runs: usize,
    /// Number of places that should be quiet: false alarms and silences.
    quiet: usize,
    /// Number of new messages that no label covers.
    unlabelled: usize,
}

impl LabelScore {
    pub(super) fn of(runs: &[EvaluatedRun]) -> Self {
        let mut score = Self { runs: runs.len(), ..Self::default() };
        for EvaluatedRun { result, .. } in runs {
            score.unlabelled += result.unlabelled.len();
            result.labels.iter().for_each(|result| score.add(result));
        }
        score
    }

    fn add(&mut self, result: &LabelResult) {
        self.total.add(result);
        self.quiet += usize::from(!result.expected.is_message());
        let any = result.expected.is_message().then_some(ANY_CAUSE);
        if let Some(cause) = result.cause().or(any) {
            self.causes.entry(cause.to_owned()).or_default().add(result);
        }
    }

    /// Describes each threshold, in percent, that is not met. A threshold is also not met if there
    /// is no label for it.
    pub(super) fn failed_thresholds(
        &self,
        min_caught: Option<f64>,
        max_false_alarms: Option<f64>,
    ) -> Vec<String> {
        let caught = min_caught.and_then(|min| match self.total.recall().map(percent) {
            None => Some("--min-caught: no label expects a message".to_owned()),
            Some(caught) if caught < min => Some(format!(
                "--min-caught: {caught:.1} % of the expected messages came, less than {min} %"
            )),
            Some(_) => None,
        });
        let alarms = max_false_alarms.and_then(|max| match self.false_alarms().map(percent) {
            None => Some("--max-false-alarms: no label expects midcourse to stay quiet".to_owned()),
            Some(share) if share > max => Some(format!(
                "--max-false-alarms: {share:.1} % of the quiet places got a message, more than \
                 {max} %"
            )),
            Some(_) => None,
        });
        caught.into_iter().chain(alarms).collect()
    }

    const fn false_alarms(&self) -> Option<Share> {
        share_of(self.total.false_alarms, self.quiet)
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut table = columns::table([
            "CAUSE",
            "EXPECTED",
            "GIVEN",
            "MISSED",
            "GONE",
            "FALSE ALARMS",
            "RECALL",
            "PRECISION",
        ]);
        for (cause, row) in &self.causes {
            table.add_row([
                one_line(cause, 22),
                row.expected.to_string(),
                row.given.to_string(),
                (row.expected - row.given).to_string(),
                row.gone.to_string(),
                row.false_alarms.to_string(),
                format_share(row.recall()),
                format_share(row.precision()),
            ]);
        }
        if !self.causes.is_empty() {
            columns::print(out, table, 1..8)?;
            writeln!(out)?;
        }
        let Row { expected, given, false_alarms, .. } = &self.total;
        writeln!(
            out,
            "{}: {given} of {} given ({}); {} in {} ({}).",
            counted(self.runs, "labelled run"),
            counted(*expected, "expected message"),
            format_share(self.total.recall()),
            counted(*false_alarms, "false alarm"),
            counted(self.quiet, "quiet place"),
            format_share(self.false_alarms()),
        )?;
        Ok(())
    }

    /// The JSON object that `eval --labels --json` prints as the summary.
    pub(super) fn line(&self) -> Value {
        let causes = self.causes.iter().map(|(cause, row)| {
            json!({
                "cause": cause, "expected": row.expected, "given": row.given,
                "missed": row.expected - row.given, "gone": row.gone,
                "false_alarms": row.false_alarms,
                "recall_percent": row.recall().map(percent),
                "precision_percent": row.precision().map(percent),
            })
        });
        json!({
            "type": "label_summary", "runs": self.runs,
            "labels": self.total.expected + self.quiet,
            "expect_message": self.total.expected, "given": self.total.given,
            "missed": self.total.expected - self.total.given,
            "caught_percent": self.total.recall().map(percent),
            "expect_quiet": self.quiet, "gone": self.total.gone,
            "false_alarms": self.total.false_alarms,
            "false_alarm_percent": self.false_alarms().map(percent),
            "unlabelled": self.unlabelled, "causes": causes.collect::<Vec<_>>(),
        })
    }
}
