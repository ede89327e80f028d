//! Statistics over the runs of one source (a dataset or an agent). A delivery is a message that
//! midcourse would have shown to the agent.
//!
//! Runs that agree in three things are counted as one group: the number of tool calls, the call
//! after which the first message was delivered, and success. Large numbers are rounded first. So
//! the number of groups, and with it memory use, stays small even for very many runs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::backtest::BacktestReport;
use crate::commands::stats::{Share, share_of};

/// Numbers up to this one are kept as they are. In a larger number, all digits after the first
/// three become zero.
const MAX_EXACT: u64 = 1_000;

#[derive(Default)]
pub(super) struct SourceStats {
    pub(super) runs: usize,
    pub(super) calls: u64,
    groups: BTreeMap<Group, usize>,
    calls_after: Histogram,
    ms_after: Histogram,
}

/// What the runs of one group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    calls: u64,
    /// After how many tool calls the first message was delivered; `None` if there was no message.
    first_delivery: Option<u64>,
    success: Option<bool>,
}

/// The numbers in one row of the summary table. A number is `None` if there is no run from which it
/// can be computed.
pub(super) struct Figures {
    pub(super) runs_with_delivery: usize,
    /// Median number of tool calls before the first message.
    pub(super) first_delivery: Option<u64>,
    /// Median number of tool calls between the first message and the end of the run.
    pub(super) calls_after: Option<u64>,
    /// Median time between the first message and the end of the run.
    pub(super) time_after: Option<Duration>,
    pub(super) success_with_delivery: Option<Share>,
    pub(super) success_without_delivery: Option<Share>,
    /// The rate to compare `success_with_delivery` with. `SourceStats::success_same_length` says
    /// which runs it is about.
    pub(super) success_same_length: Option<Share>,
}

impl SourceStats {
    pub(super) fn add(&mut self, report: &BacktestReport) {
        self.runs += 1;
        self.calls += report.calls;
        let group = Group {
            calls: rounded(report.calls),
            first_delivery: report.first_delivery().map(|first| rounded(first.call)),
            success: report.success,
        };
        *self.groups.entry(group).or_default() += 1;
        if let Some((calls, time)) = report.after_first_delivery() {
            self.calls_after.add(calls);
            self.ms_after.add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        }
    }

    /// Whether the success of some run is known.
    pub(super) fn knows_success(&self) -> bool {
        self.groups.keys().any(|group| group.success.is_some())
    }

    pub(super) fn runs_with_delivery(&self) -> usize {
        let with_delivery = self.groups.iter().filter(|(group, _)| group.first_delivery.is_some());
        with_delivery.map(|(_, count)| count).sum()
    }

    pub(super) fn figures(&self) -> Figures {
        let mut first_deliveries = Histogram::default();
        for (group, count) in &self.groups {
            if let Some(call) = group.first_delivery {
                first_deliveries.add_many(call, *count);
            }
        }
        Figures {
            runs_with_delivery: self.runs_with_delivery(),
            first_delivery: first_deliveries.median(),
            calls_after: self.calls_after.median(),
            time_after: self.ms_after.median().map(Duration::from_millis),
            success_with_delivery: self.successes(|group| group.first_delivery.is_some()),
            success_without_delivery: self.successes(|group| group.first_delivery.is_none()),
            success_same_length: self.success_same_length(),
        }
    }

    fn successes(&self, is_counted: impl Fn(&Group) -> bool) -> Option<Share> {
        let (mut total, mut succeeded) = (0, 0);
        for (group, count) in self.groups.iter().filter(|(group, _)| is_counted(group)) {
            if let Some(success) = group.success {
                total += count;
                succeeded += if success { *count } else { 0 };
            }
        }
        share_of(succeeded, total)
    }

    /// The success rate to compare with that of runs with a message. For every run that got its
    /// first message at call N, this counts all runs that reached call N without a message.
    ///
    /// Comparing with all runs would be misleading: failed runs are longer than others, so a run
    /// that is still going at call N is more likely to fail, with or without a message.
    fn success_same_length(&self) -> Option<Share> {
        let mut first_deliveries: BTreeMap<u64, usize> = BTreeMap::new();
        for (group, count) in self.groups.iter().filter(|(group, _)| group.success.is_some()) {
            if let Some(call) = group.first_delivery {
                *first_deliveries.entry(call).or_default() += count;
            }
        }
        let (mut total, mut succeeded) = (0, 0);
        for (call, runs) in first_deliveries {
            let reached_without_delivery = |group: &Group| {
                group.calls >= call && group.first_delivery.is_none_or(|first| first > call)
            };
            if let Some((successes, others)) = self.successes(reached_without_delivery) {
                succeeded += successes * runs;
                total += others * runs;
            }
        }
        share_of(succeeded, total)
    }
}

/// How often each number occurred. The numbers are rounded.
#[derive(Default)]
struct Histogram(BTreeMap<u64, usize>);

impl Histogram {
    fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    fn add_many(&mut self, value: u64, count: usize) {
        *self.0.entry(rounded(value)).or_default() += count;
    }

    fn median(&self) -> Option<u64> {
        let total: usize = self.0.values().sum();
        let mut seen = 0;
        self.0.iter().find_map(|(value, count)| {
            seen += count;
            (seen > total / 2).then_some(*value)
        })
    }
}

fn rounded(value: u64) -> u64 {
    let mut unit = 1;
    while value / unit > MAX_EXACT {
        unit *= 10;
    }
    value / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_exact_for_small_numbers_and_close_for_large_ones() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.median(), None);
        for value in [5, 1, 9] {
            histogram.add(value);
        }
        assert_eq!(histogram.median(), Some(5));
        histogram.add_many(123_456, 9);
        assert_eq!(histogram.median(), Some(123_000));
    }
}
