//! The whole run on a strip of text: one column per slice of time, one row each for calls, failed
//! calls, stretches of trouble, and messages, above a scale with clock times.

use super::clock::Clock;
use super::data::{RunReport, Slice};
use super::words;
use crate::display::{duration, wrapped};

/// The characters of a strip.
pub(crate) struct Charset {
    /// Bars, from the lowest to the highest.
    bars: &'static [char],
    nothing: char,
    trouble: char,
    message: char,
    tick: char,
}

impl Charset {
    const UNICODE: Self = Self {
        bars: &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        nothing: '·',
        trouble: '━',
        message: '▲',
        tick: '╵',
    };

    const ASCII: Self = Self {
        bars: &['.', ':', '-', '=', '+', '*', '#', '@'],
        nothing: ' ',
        trouble: '~',
        message: '^',
        tick: '\'',
    };

    pub(crate) const fn new(is_utf8: bool) -> Self {
        if is_utf8 { Self::UNICODE } else { Self::ASCII }
    }

    fn bar(&self, count: u32, max: u32) -> char {
        if count == 0 {
            return ' ';
        }
        let highest = self.bars.len().saturating_sub(1);
        let level = u64::from(count).saturating_mul(u64::try_from(self.bars.len()).unwrap_or(1));
        let level = level.div_ceil(u64::from(max.max(1))).saturating_sub(1);
        let level = usize::try_from(level).unwrap_or(highest).min(highest);
        self.bars.get(level).copied().unwrap_or(' ')
    }
}

/// Width of the labels at the beginning of each row.
const LABEL_WIDTH: usize = 12;

/// The rows of the strip, at most `width` columns wide.
pub(crate) fn rows(report: &RunReport, width: usize, charset: &Charset) -> Vec<String> {
    let columns = width.saturating_sub(LABEL_WIDTH).max(20);
    let slices = report.timeline.in_slices(columns);
    let max = slices.iter().map(|slice| slice.calls).max().unwrap_or_default();
    let calls = |slice: &Slice| match slice.records {
        0 => charset.nothing,
        _ => charset.bar(slice.calls, max),
    };
    let mut rows = vec![row("calls", slices.iter().map(calls))];
    if slices.iter().any(|slice| slice.errors > 0) {
        rows.push(row("failed", slices.iter().map(|it| charset.bar(it.errors, max))));
    }
    if slices.iter().any(|slice| slice.trouble) {
        let mark = |slice: &Slice| if slice.trouble { charset.trouble } else { ' ' };
        rows.push(row("trouble", slices.iter().map(mark)));
    }
    if slices.iter().any(|slice| slice.messages > 0) {
        let mark = |slice: &Slice| if slice.messages > 0 { charset.message } else { ' ' };
        rows.push(row("messages", slices.iter().map(mark)));
    }
    rows.extend(scale(report, columns, charset));
    let legend = legend(report, &slices, max, charset);
    rows.extend(wrapped(&legend, columns).iter().map(|line| row("", line.chars())));
    rows
}

fn row(label: &str, cells: impl IntoIterator<Item = char>) -> String {
    let mut text = format!("  {label:<10}");
    text.extend(cells);
    text.trim_end().to_owned()
}

/// A row of ticks and a row of the clock times at them.
fn scale(report: &RunReport, columns: usize, charset: &Charset) -> [String; 2] {
    let clock = Clock::of(report);
    let label = clock.time(report.started);
    let label_width = label.chars().count();
    // Labels are far enough apart to be read, and at most six.
    let step = (columns / 6).max(label_width.saturating_add(4));
    let (mut ticks, mut times) = (vec![' '; columns], vec![' '; columns]);
    let mut place = 0_usize;
    while place.saturating_add(label_width) <= columns {
        if let Some(tick) = ticks.get_mut(place) {
            *tick = charset.tick;
        }
        let time = clock.time(report.timeline.time_of(place, columns));
        for (cell, c) in times.iter_mut().skip(place).zip(time.chars()) {
            *cell = c;
        }
        place = place.saturating_add(step);
    }
    [row("", ticks), row("", times)]
}

fn legend(report: &RunReport, slices: &[Slice], max: u32, charset: &Charset) -> String {
    let count = u32::try_from(slices.len().max(1)).unwrap_or(u32::MAX);
    let mut parts = vec![format!("a column is {}", duration(report.duration() / count))];
    parts.push(format!("the highest bar is {}", words::count(u64::from(max), "call")));
    if charset.nothing != ' ' && slices.iter().any(|slice| slice.records == 0) {
        parts.push(format!("{} nothing recorded", charset.nothing));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::Charset;

    #[test]
    fn bars_grow_with_the_count_and_every_count_shows() {
        for charset in [Charset::UNICODE, Charset::ASCII] {
            let bar = |count| charset.bar(count, 800);
            assert_eq!(bar(0), ' ');
            assert_eq!(bar(1), charset.bars[0]);
            assert_eq!(bar(800), charset.bars[7]);
            let places = (1..=800).map(|it| charset.bars.iter().position(|bar_| *bar_ == bar(it)));
            assert!(places.is_sorted());
        }
        assert!(Charset::ASCII.bars.iter().all(char::is_ascii));
    }
}
