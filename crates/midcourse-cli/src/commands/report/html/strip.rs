//! The whole run as a drawing (SVG): calls and failed calls as bars, stretches of trouble and
//! pauses as bands, and messages as numbers that link to them.
//!
//! Horizontal places are percentages, so the drawing is as wide as the page and nothing is
//! distorted.

use std::fmt::Write as _;

use midcourse::Timestamp;

use super::escaped;
use crate::commands::report::clock::Clock;
use crate::commands::report::data::{RunReport, Timeline};
use crate::commands::report::{headline, words};

/// How many bars there are.
const BARS: usize = 160;

/// Vertical places, in pixels.
const BAR_HEIGHT: f64 = 72.0;
const BAR_BOTTOM: f64 = 80.0;
const TROUBLE_TOP: f64 = 88.0;
const MESSAGE_MIDDLE: f64 = 116.0;
const HEIGHT: u32 = 156;

/// How many clock times are on the scale.
const TICKS: u32 = 4;

pub(super) fn add(html: &mut String, report: &RunReport, clock: &Clock) {
    let timeline = &report.timeline;
    let slices = timeline.in_slices(BARS);
    let max = slices.iter().map(|slice| slice.calls).max().unwrap_or_default().max(1);
    let _ = write!(
        html,
        "<figure><svg class=\"strip\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" \
         aria-label=\"The run over time\">\n<rect class=\"ground\" x=\"0\" y=\"{:.0}\" width=\"100%\" \
         height=\"{BAR_HEIGHT}\"/>\n",
        BAR_BOTTOM - BAR_HEIGHT
    );
    for pause in &report.pauses {
        let title = format!(
            "nothing recorded from {} to {}",
            clock.time(pause.from),
            clock.time(pause.until)
        );
        let y = BAR_BOTTOM - BAR_HEIGHT;
        band(html, timeline, "pause", (pause.from, pause.until), (y, BAR_HEIGHT), &title);
    }
    #[expect(clippy::cast_precision_loss, reason = "there are few bars")]
    let width = 100.0 / BARS as f64;
    for (index, slice) in slices.iter().enumerate().filter(|(_, slice)| slice.calls > 0) {
        let time = clock.time(timeline.time_of(index, BARS));
        let calls = words::count(u64::from(slice.calls), "call");
        let title = escaped(&format!("{time}: {calls}, {} failed", slice.errors));
        #[expect(clippy::cast_precision_loss, reason = "there are few bars")]
        let x = index as f64 * width;
        for (class, count) in [("calls", slice.calls), ("failed", slice.errors)] {
            if count > 0 {
                let height = (f64::from(count) / f64::from(max) * BAR_HEIGHT).max(2.0);
                let y = BAR_BOTTOM - height;
                let _ = writeln!(
                    html,
                    "<rect class=\"{class}\" x=\"{x:.3}%\" y=\"{y:.1}\" width=\"{:.3}%\" \
                     height=\"{height:.1}\"><title>{title}</title></rect>",
                    width * 0.86
                );
            }
        }
    }
    for trouble in headline::distinct(&report.trouble) {
        let title = format!("{}: it {}", clock.time(trouble.from), trouble.text);
        band(html, timeline, "trouble", (trouble.from, trouble.until), (TROUBLE_TOP, 8.0), &title);
    }
    for (number, message) in (1..).zip(report.messages.iter().take(super::MAX_SHOWN)) {
        // A number at the very edge would be cut off.
        let x = percent(timeline, message.at).clamp(1.2, 98.8);
        let title = escaped(&format!("Message {number}, {}", clock.time(message.at)));
        let _ = writeln!(
            html,
            "<a href=\"#m{number}\"><title>{title}</title><circle cx=\"{x:.3}%\" \
             cy=\"{MESSAGE_MIDDLE}\" r=\"9\"/><text class=\"number\" x=\"{x:.3}%\" y=\"{}\" \
             text-anchor=\"middle\">{number}</text></a>",
            MESSAGE_MIDDLE + 4.0
        );
    }
    scale(html, timeline, clock);
    html.push_str("</svg>\n<figcaption>");
    let keys = [
        ("calls", "tool calls", report.calls > 0),
        ("failed", "failed or refused", report.errors > 0),
        ("trouble", "trouble", !report.trouble.is_empty()),
        ("message", "message to the agent", report.message_count > 0),
        ("pause", "nothing recorded", !report.pauses.is_empty()),
    ];
    for (class, text, _) in keys.iter().filter(|(.., is_used)| *is_used) {
        let _ = write!(html, "<span class=\"key {class}\">{text}</span> ");
    }
    let length = crate::display::duration(report.duration() / u32::try_from(BARS).unwrap_or(1));
    let highest = words::count(u64::from(max), "call");
    let scale = escaped(&format!("A bar is {length}; the highest is {highest}."));
    let _ = write!(html, "<span class=\"quiet\">{scale}</span>");
    html.push_str("</figcaption></figure>\n");
}

fn percent(timeline: &Timeline, at: Timestamp) -> f64 {
    let total = timeline.until.since(timeline.from).as_secs_f64().max(0.001);
    (at.since(timeline.from).as_secs_f64() / total * 100.0).clamp(0.0, 100.0)
}

/// A band from one time to another; `place` is its top and its height.
fn band(
    html: &mut String,
    timeline: &Timeline,
    class: &'static str,
    (from, until): (Timestamp, Timestamp),
    (top, height): (f64, f64),
    title: &str,
) {
    let (x, end) = (percent(timeline, from), percent(timeline, until));
    // A short stretch is still visible.
    let width = (end - x).max(0.6);
    let x = x.min(100.0 - width);
    let title = escaped(title);
    let _ = writeln!(
        html,
        "<rect class=\"{class}\" x=\"{x:.3}%\" y=\"{top:.1}\" width=\"{width:.3}%\" \
         height=\"{height:.1}\" rx=\"2\"><title>{title}</title></rect>"
    );
}

fn scale(html: &mut String, timeline: &Timeline, clock: &Clock) {
    for tick in 0..=TICKS {
        let x = 100.0 * f64::from(tick) / f64::from(TICKS);
        let anchor = match tick {
            0 => "start",
            TICKS => "end",
            _ => "middle",
        };
        let place = usize::try_from(tick).unwrap_or_default();
        let count = usize::try_from(TICKS).unwrap_or(1);
        let time = escaped(&clock.time(timeline.time_of(place, count)));
        let _ = writeln!(
            html,
            "<line class=\"tick\" x1=\"{x}%\" x2=\"{x}%\" y1=\"131\" y2=\"136\"/><text \
             class=\"time\" x=\"{x}%\" y=\"150\" text-anchor=\"{anchor}\">{time}</text>"
        );
    }
}
