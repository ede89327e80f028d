//! Compares the confidence that messages state with how often they were right.
//!
//! Only the first message of a scenario counts, because it decides the verdict. It is right if the
//! scenario expects a message and it did not come too early.

use std::io::Write;

use anyhow::Result;

use super::Evaluated;
use crate::commands::columns;
use crate::commands::stats::{format_share, share_of};
use crate::commands::step_json::confidence_of;
use crate::scenario::ScenarioVerdict;

/// How many ranges of confidence the table has. Each is a tenth wide.
const RANGES: usize = 10;

/// Number of messages in a range of confidence, and how many of them were right.
#[derive(Default, Clone, Copy)]
struct Range {
    messages: usize,
    right: usize,
}

/// Prints the table, one row per range of confidence in which there are messages.
pub(super) fn print(out: &mut impl Write, evaluated: &[Evaluated]) -> Result<()> {
    let mut ranges = [Range::default(); RANGES];
    for Evaluated { result, .. } in evaluated {
        let Some(first) = result.deliveries().next() else { continue };
        let Some(confidence) = confidence_of(first.delivery) else { continue };
        if let Some(range) = ranges.get_mut(range_of(confidence)) {
            range.messages += 1;
            let is_right =
                matches!(result.verdict, ScenarioVerdict::InTime | ScenarioVerdict::Late);
            range.right += usize::from(is_right);
        }
    }
    let mut table = columns::table(["STATED CONFIDENCE", "MESSAGES", "RIGHT", "SHARE"]);
    for (index, range) in ranges.iter().enumerate().filter(|(_, range)| range.messages > 0) {
        table.add_row([
            format!("{}–{} %", index * 10, index * 10 + 10),
            range.messages.to_string(),
            range.right.to_string(),
            format_share(share_of(range.right, range.messages)),
        ]);
    }
    writeln!(out)?;
    columns::print(out, table, 1..4)
}

/// The index of the range that contains a confidence; 1.0 belongs to the last one. A hundredth of a
/// percent is added, because 0.85 times 0.9 and the like are not exact.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a confidence is from 0 to 1"
)]
fn range_of(confidence: f64) -> usize {
    ((confidence * 10.0 + 0.001) as usize).min(RANGES - 1)
}
