//! The columns of `midcourse list`: which ones fit the terminal, how wide they are, and a run as one
//! line.
//!
//! A table of all runs would have to be read completely before its first line can be printed. So the
//! widths follow from the first page; a longer text on a later page is cut, or if there is no
//! terminal, moves what comes after it.

use anstyle::AnsiColor;
use midcourse::{ListedRun, RunSummary};
use unicode_width::UnicodeWidthStr as _;

use crate::commands::screen::Painter;
use crate::display::{duration, end_of_line, local_minute, one_line, pad};

/// An id of at most this length is shown whole. People choose short ids, and read them.
const MAX_WHOLE_ID: usize = 16;

/// The space between two columns.
const GAP: usize = 2;

/// The fewest columns for a task, however narrow the terminal is.
const MIN_TASK_WIDTH: usize = 10;

/// Less of a folder says nothing, so it is left out.
const MIN_FOLDER_WIDTH: usize = 8;

/// More of a folder does not tell projects apart.
const MAX_FOLDER_WIDTH: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Run,
    Host,
    Started,
    Duration,
    Outcome,
    Calls,
    Failed,
    Messages,
    Folder,
    Task,
}

/// How much space there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    /// Less than 80 columns.
    Narrow,
    /// Less than 120 columns.
    Medium,
    /// Less than 160 columns.
    Wide,
    /// Enough for whole ids.
    VeryWide,
    /// No terminal: nothing is cut.
    Unlimited,
}

#[derive(Debug)]
pub(super) struct Layout {
    columns: Vec<(Column, usize)>,
    space: Space,
}

impl Layout {
    /// The layout for a terminal with `width` columns; `first` is the first page of runs.
    pub(super) fn new(width: Option<usize>, first: &[ListedRun]) -> Self {
        use Column::{
            Calls, Duration, Failed, Folder, Host, Messages, Outcome, Run, Started, Task,
        };
        let space = match width {
            None => Space::Unlimited,
            Some(0..80) => Space::Narrow,
            Some(80..120) => Space::Medium,
            Some(120..160) => Space::Wide,
            Some(_) => Space::VeryWide,
        };
        let columns: &[Column] = match space {
            Space::Narrow => &[Run, Started, Outcome, Calls, Messages, Task],
            Space::Medium => &[Run, Started, Outcome, Calls, Failed, Messages, Task],
            Space::Wide | Space::VeryWide | Space::Unlimited => {
                &[Run, Host, Started, Duration, Outcome, Calls, Failed, Messages, Folder, Task]
            }
        };
        let mut layout = Self { columns: Vec::new(), space };
        for column in columns {
            let widest = first.iter().map(|listed| layout.text(*column, listed).width()).max();
            let heading = layout.name(*column).width();
            let needed = widest.unwrap_or(0).max(heading);
            // If no run on the page has a folder or task, a column for it would only take space.
            if matches!(column, Folder | Task) && widest.unwrap_or(0) == 0 {
                continue;
            }
            layout.columns.push((*column, needed));
        }
        layout.fit(width);
        layout
    }

    /// Gives folder and task what the other columns leave.
    fn fit(&mut self, width: Option<usize>) {
        let Some(width) = width else { return };
        let is_flexible = |column: Column| matches!(column, Column::Folder | Column::Task);
        let fixed: usize = self
            .columns
            .iter()
            .filter(|(column, _)| !is_flexible(*column))
            .map(|(_, width)| width.saturating_add(GAP))
            .sum();
        let mut left = width.saturating_sub(fixed);
        for (column, wanted) in &mut self.columns {
            if *column == Column::Folder {
                *wanted = (*wanted).min(MAX_FOLDER_WIDTH).min(left / 3);
                if *wanted >= MIN_FOLDER_WIDTH {
                    left = left.saturating_sub(wanted.saturating_add(GAP));
                }
            }
            if *column == Column::Task {
                *wanted = (*wanted).min(left.max(MIN_TASK_WIDTH));
            }
        }
        self.columns
            .retain(|(column, width)| *column != Column::Folder || *width >= MIN_FOLDER_WIDTH);
    }

    pub(super) fn heading(&self, painter: Painter) -> String {
        let cells = self.columns.iter().map(|(column, width)| {
            pad(&one_line(self.name(*column), *width), *width, is_number(*column))
        });
        painter.bold(cells.collect::<Vec<_>>().join("  ").trim_end())
    }

    pub(super) fn line(&self, listed: &ListedRun, painter: Painter) -> String {
        let last = self.columns.last().map(|(column, _)| *column);
        let cells = self.columns.iter().map(|(column, width)| {
            let text = self.text(*column, listed);
            let text = match (self.space, column) {
                (Space::Unlimited, _) => text,
                (_, Column::Folder) => end_of_line(&text, *width),
                (_, Column::Task) => one_line(&text, *width),
                _ => text,
            };
            let cell = match last == Some(*column) {
                true => text,
                false => pad(&text, *width, is_number(*column)),
            };
            paint(*column, &listed.run, &cell, painter)
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }

    const fn name(&self, column: Column) -> &'static str {
        match (column, self.space) {
            (Column::Run, _) => "RUN",
            (Column::Host, _) => "HOST",
            (Column::Started, _) => "STARTED",
            (Column::Duration, _) => "DURATION",
            (Column::Outcome, _) => "OUTCOME",
            (Column::Calls, _) => "CALLS",
            (Column::Failed, _) => "FAILED",
            (Column::Messages, Space::Narrow | Space::Medium) => "MSGS",
            (Column::Messages, _) => "MESSAGES",
            (Column::Folder, _) => "FOLDER",
            (Column::Task, _) => "TASK",
        }
    }

    fn text(&self, column: Column, listed: &ListedRun) -> String {
        let ListedRun { run, level, .. } = listed;
        match column {
            Column::Run => {
                let max = match self.space {
                    Space::Narrow | Space::Medium => 8,
                    Space::Wide => 12,
                    Space::VeryWide => 42,
                    Space::Unlimited => usize::MAX,
                };
                let id = one_line(run.run_id.as_str(), usize::MAX);
                let max = if id.len() <= MAX_WHOLE_ID { MAX_WHOLE_ID } else { max };
                format!("{}{}", "  ".repeat(*level), end_of_id(&id, max))
            }
            Column::Host => one_line(&run.host, 20),
            Column::Started => local_minute(run.started, self.space != Space::Narrow),
            Column::Duration => duration(run.latest.since(run.started)),
            Column::Outcome => outcome(run),
            Column::Calls => run.calls.to_string(),
            Column::Failed => run.errors.to_string(),
            Column::Messages => messages(run),
            Column::Folder => run.folder.as_deref().map(short_folder).unwrap_or_default(),
            Column::Task => one_line(run.task.as_deref().unwrap_or_default(), usize::MAX),
        }
    }
}

/// The last characters of an id, by which `midcourse show` finds the run. The first ones are often
/// the same: many agents use ids that begin with the time. Without an ellipsis, so that the text can
/// be copied.
fn end_of_id(id: &str, max_chars: usize) -> &str {
    let skipped = id.chars().count().saturating_sub(max_chars);
    let start = id.char_indices().nth(skipped).map_or(id.len(), |(at, _)| at);
    id.get(start..).unwrap_or_default().trim_start_matches('-')
}

const fn is_number(column: Column) -> bool {
    matches!(column, Column::Duration | Column::Calls | Column::Failed | Column::Messages)
}

fn paint(column: Column, run: &RunSummary, cell: &str, painter: Painter) -> String {
    match column {
        Column::Run => painter.coloured(AnsiColor::Yellow, cell),
        Column::Outcome => match run.outcome.as_deref() {
            Some("completed") => painter.coloured(AnsiColor::Green, cell),
            Some("failed" | "aborted") => painter.coloured(AnsiColor::Red, cell),
            _ => cell.to_owned(),
        },
        Column::Failed if run.errors > 0 => painter.coloured(AnsiColor::Red, cell),
        Column::Messages if run.deliveries > 0 => painter.coloured(AnsiColor::Yellow, cell),
        Column::Host | Column::Folder => painter.faint(cell),
        _ => cell.to_owned(),
    }
}

/// The number of messages; those that were recorded only are in parentheses.
fn messages(run: &RunSummary) -> String {
    match (run.deliveries, run.shadow_deliveries) {
        (shown, 0) => shown.to_string(),
        (0, shadow) => format!("({shadow})"),
        (shown, shadow) => format!("{shown} ({shadow})"),
    }
}

/// How a run ended: `no end` if no end was recorded; otherwise the outcome, or `ended` if the end was
/// recorded without an outcome.
pub(crate) fn outcome(run: &RunSummary) -> String {
    match (&run.ended, &run.outcome) {
        (Some(_), Some(outcome)) => one_line(outcome, 20),
        (Some(_), None) => "ended".to_owned(),
        (None, _) => "no end".to_owned(),
    }
}

/// A path with `~` for the user's home folder.
fn short_folder(folder: &str) -> String {
    let folder = one_line(folder, usize::MAX);
    let home = dirs::home_dir().map(|home| home.display().to_string());
    match home.as_deref().and_then(|home| folder.strip_prefix(home)) {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("~{rest}"),
        _ => folder,
    }
}
