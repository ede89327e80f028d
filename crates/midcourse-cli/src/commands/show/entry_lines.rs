//! Prints an entry: one line with its seq, the time of day, what happened and how long it took, and
//! for a call that failed a second line with the error. With `--full`, everything.

use std::io::Write;

use anyhow::Result;
use midcourse::{Entry, RunSummary, Store};
use unicode_width::UnicodeWidthStr as _;

use crate::commands::screen::{Painter, Screen};
use crate::display::{
    Description, Tone, clock_time, describe_entry, duration, escape_control_chars, one_line,
    wrapped,
};

/// How much of a text is printed on one line if there is no terminal.
const WIDTH_WITHOUT_TERMINAL: usize = 200;

/// The fewest columns for a text, however narrow the terminal is.
const MIN_TEXT_WIDTH: usize = 20;

pub(super) struct EntryLines {
    painter: Painter,
    /// The columns of the terminal.
    width: usize,
    has_terminal: bool,
    /// The columns for a seq.
    seq_width: usize,
    is_full: bool,
}

impl EntryLines {
    pub(super) fn new(screen: &Screen, run: &RunSummary, is_full: bool) -> Self {
        let last = run.records.saturating_sub(1);
        Self {
            painter: screen.painter,
            width: screen.width.unwrap_or(WIDTH_WITHOUT_TERMINAL),
            has_terminal: screen.width.is_some(),
            seq_width: last.to_string().len().max(3),
            is_full,
        }
    }

    pub(super) fn print(&self, out: &mut impl Write, store: &Store, entry: &Entry) -> Result<()> {
        let run_id = entry.record.run.run_id.as_str();
        let described = describe_entry(entry, |seq| store.entry_of(run_id, seq).unwrap_or(seq));
        let painter = self.painter;
        let seq = format!("{:>width$}", entry.record.seq, width = self.seq_width);
        let time = clock_time(entry.record.at);
        let label = format!("{:<9}", described.label);
        let indent = seq.len() + 2 + time.len() + 2 + label.len() + 2;
        let room = self.width.saturating_sub(indent).max(MIN_TEXT_WIDTH);
        let notes = notes(entry, described.took.map(duration).filter(|took| took != "0 ms"));
        let is_below = self.is_full && described.text.contains('\n');
        let mut texts = match (described.tone, is_below) {
            (_, true) => Vec::new(),
            (Tone::Message, false) if self.has_terminal => wrapped(&described.text, room),
            (Tone::Message, false) => vec![one_line(&described.text, usize::MAX)],
            (_, false) if self.is_full => vec![one_line(&described.text, usize::MAX)],
            (_, false) => {
                let taken = if notes.is_empty() { 0 } else { notes.width() + 1 };
                vec![one_line(&described.text, room.saturating_sub(taken).max(MIN_TEXT_WIDTH / 2))]
            }
        }
        .into_iter()
        .map(|text| match described.tone {
            Tone::Message | Tone::Faint => painter.tone(described.tone, &text),
            _ => text,
        });
        let first = [texts.next().unwrap_or_default(), painter.faint(&notes)];
        let line = format!(
            "{}  {}  {}  {}",
            painter.faint(&seq),
            time,
            painter.tone(described.tone, &label),
            first.join(" ").trim(),
        );
        writeln!(out, "{}", line.trim_end())?;
        for text in texts {
            writeln!(out, "{:indent$}{text}", "")?;
        }
        match self.is_full {
            true => self.print_rest(out, &described, is_below),
            false => self.print_error(out, &described, indent, room),
        }
    }

    /// Prints the error of a call that failed, on one line.
    fn print_error(
        &self,
        out: &mut impl Write,
        described: &Description,
        indent: usize,
        room: usize,
    ) -> Result<()> {
        let Some(result) = described.result.as_deref().filter(|_| described.tone == Tone::Bad)
        else {
            return Ok(());
        };
        let error = one_line(result, room);
        if !error.is_empty() {
            writeln!(out, "{:indent$}{}", "", self.painter.tone(Tone::Bad, &error))?;
        }
        Ok(())
    }

    /// Prints what the first line of an entry leaves out.
    fn print_rest(
        &self,
        out: &mut impl Write,
        described: &Description,
        is_below: bool,
    ) -> Result<()> {
        let text = Some(described.text.as_str()).filter(|_| is_below);
        for (mark, text) in
            [("|", text), ("|", described.details.as_deref()), (">", described.result.as_deref())]
        {
            let indent = self.seq_width + 2;
            for line in escape_control_chars(text.unwrap_or_default()).lines() {
                let line = format!("{:indent$}{} {line}", "", self.painter.faint(mark));
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }
}

/// What is worth knowing about an entry beside its text: how long a call took, how many secrets were
/// redacted, and whether reports contradict each other.
fn notes(entry: &Entry, took: Option<String>) -> String {
    let end = entry.end.as_ref();
    let redactions = entry.record.redactions.saturating_add(end.map_or(0, |end| end.redactions));
    let conflicts = entry.record.conflicts.len() + end.map_or(0, |end| end.conflicts.len());
    let notes = [
        took.map(|took| format!("({took})")),
        (redactions > 0).then(|| format!("[{redactions} redacted]")),
        (conflicts > 0).then(|| format!("[conflicting reports: {conflicts}]")),
    ];
    notes.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
