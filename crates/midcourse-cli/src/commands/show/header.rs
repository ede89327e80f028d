//! Prints what is known about a run as a whole, before its entries.

use std::io::Write;

use anyhow::Result;
use midcourse::{RunSummary, Store};

use crate::commands::list::outcome;
use crate::commands::open;
use crate::commands::screen::Screen;
use crate::display::{counted, duration, local_time, one_line};

/// How many subagents are named. Further ones are only counted.
const MAX_CHILDREN: usize = 10;

/// The columns of the names.
const INDENT: usize = 11;

pub(super) fn print(screen: &mut Screen, store: &Store, run: &RunSummary) -> Result<()> {
    let room = screen.width.map_or(200, |width| width.saturating_sub(INDENT).max(20));
    let mut field = |name: &str, value: &str| -> Result<()> {
        let name = format!("{name:<INDENT$}");
        Ok(writeln!(screen, "{}{}", screen.painter.bold(&name), one_line(value, room))?)
    };
    field("run", run.run_id.as_str())?;
    if let Some(parent) = &run.parent_run_id {
        field("parent", parent.as_str())?;
    }
    let children = store.children(run.run_id.as_str())?;
    for child in children.iter().take(MAX_CHILDREN) {
        let mut child = child.clone();
        open::add_open_calls(store, &mut child)?;
        field("subagent", &format!("{} ({})", child.run_id, counted(child.calls, "call")))?;
    }
    if children.len() > MAX_CHILDREN {
        field("", &format!("and {} more", children.len() - MAX_CHILDREN))?;
    }
    for (name, value) in [("task", &run.task), ("folder", &run.folder), ("command", &run.command)] {
        if let Some(value) = value {
            field(name, value)?;
        }
    }
    let version = run.host_version.as_deref().map_or_else(String::new, |it| format!(" {it}"));
    let model = run.model.as_deref().map_or_else(String::new, |it| format!(", {it}"));
    field("agent", &format!("{}{version}{model}", run.host))?;
    let took = duration(run.latest.since(run.started));
    field("time", &format!("{}, {took}", local_time(run.started)))?;
    let code = run.exit_code.map_or_else(String::new, |code| format!(" (exit code {code})"));
    field("outcome", &format!("{}{code}", outcome(run)))?;
    let failed = match run.errors {
        0 => String::new(),
        errors => format!(", {errors} failed or refused"),
    };
    field("calls", &format!("{}{failed}", run.calls))?;
    field("messages", &messages(run))?;
    writeln!(screen)?;
    Ok(())
}

fn messages(run: &RunSummary) -> String {
    let shadow = match run.shadow_deliveries {
        0 => String::new(),
        count => format!(", {count} more recorded only (shadow mode or withheld)"),
    };
    let outcomes = match (run.cleared, run.ignored) {
        (0, 0) => String::new(),
        (cleared, 0) => format!("; the problem went away after {cleared} of them"),
        (0, ignored) => format!("; the problem was still there after {ignored} of them"),
        (cleared, ignored) => format!(
            "; the problem went away after {cleared} of them, and was still there after {ignored}"
        ),
    };
    format!("{}{shadow}{outcomes}", run.deliveries)
}
