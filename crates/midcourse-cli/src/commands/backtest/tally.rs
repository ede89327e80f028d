//! What is kept of the runs of one source, in room that does not grow with their number: how many
//! runs are alike in length, in when they were first spoken to, and in whether they succeeded.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::backtest::Verdict;

use crate::commands::figures::{Share, share_of};

/// Numbers up to this one are kept exactly, larger ones to three digits.
const EXACT: u64 = 1_000;

/// The runs of one source.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) runs: usize,
    pub(super) calls: u64,
    alike: BTreeMap<Kind, usize>,
    calls_after: Histogram,
    ms_after: Histogram,
}

/// What runs that are counted together have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    calls: u64,
    first_call: Option<u64>,
    success: Option<bool>,
}

/// The figures of a source.
pub(super) struct Figures {
    pub(super) spoken: usize,
    pub(super) first_call: Option<u64>,
    pub(super) calls_after: Option<u64>,
    pub(super) time_after: Option<Duration>,
    pub(super) success: Option<Share>,
    pub(super) quiet_success: Option<Share>,
    pub(super) equal_success: Option<Share>,
}

impl Tally {
    pub(super) fn add(&mut self, verdict: &Verdict) {
        self.runs += 1;
        self.calls += verdict.calls;
        let kind = Kind {
            calls: rounded(verdict.calls),
            first_call: verdict.spoken.first().map(|spoken| rounded(spoken.call)),
            success: verdict.success,
        };
        *self.alike.entry(kind).or_default() += 1;
        if let Some((calls, time)) = verdict.after_first_word() {
            self.calls_after.add(calls);
            self.ms_after.add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        }
    }

    pub(super) fn spoken(&self) -> usize {
        self.alike.iter().filter(|(kind, _)| kind.first_call.is_some()).map(|(_, n)| n).sum()
    }

    pub(super) fn figures(&self) -> Figures {
        let mut first_calls = Histogram::default();
        for (kind, count) in &self.alike {
            if let Some(call) = kind.first_call {
                first_calls.add_many(call, *count);
            }
        }
        Figures {
            spoken: self.spoken(),
            first_call: first_calls.median(),
            calls_after: self.calls_after.median(),
            time_after: self.ms_after.median().map(Duration::from_millis),
            success: self.successes(|kind| kind.first_call.is_some()),
            quiet_success: self.successes(|kind| kind.first_call.is_none()),
            equal_success: self.equally_long(),
        }
    }

    fn successes(&self, is_counted: impl Fn(&Kind) -> bool) -> Option<Share> {
        let (mut of, mut succeeded) = (0, 0);
        for (kind, count) in self.alike.iter().filter(|(kind, _)| is_counted(kind)) {
            if let Some(success) = kind.success {
                of += count;
                succeeded += if success { *count } else { 0 };
            }
        }
        share_of(succeeded, of)
    }

    /// For every run that was spoken to: those that got as far without a word.
    fn equally_long(&self) -> Option<Share> {
        let mut firsts: BTreeMap<u64, usize> = BTreeMap::new();
        for (kind, count) in self.alike.iter().filter(|(kind, _)| kind.success.is_some()) {
            if let Some(by) = kind.first_call {
                *firsts.entry(by).or_default() += count;
            }
        }
        let (mut of, mut succeeded) = (0, 0);
        for (by, times) in firsts {
            let got_as_far =
                |kind: &Kind| kind.calls >= by && kind.first_call.is_none_or(|first| first > by);
            if let Some((some, all)) = self.successes(got_as_far) {
                succeeded += some * times;
                of += all * times;
            }
        }
        share_of(succeeded, of)
    }
}

/// How often each number came, large ones to three digits.
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
        let all: usize = self.0.values().sum();
        let mut seen = 0;
        self.0.iter().find_map(|(value, count)| {
            seen += count;
            (seen > all / 2).then_some(*value)
        })
    }
}

fn rounded(value: u64) -> u64 {
    let mut unit = 1;
    while value / unit > EXACT {
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
