//! A run and its child runs as one ATIF document: the trajectory of the run, with those of its child
//! runs inside. Each step has a line of its own, and is written as soon as it is complete.

use std::io::Write;

use anyhow::Result;
use midcourse::RunSummary;
use serde_json::{Map, Value};

use super::RunSource;
use crate::display::json_line;
use crate::formats::atif::{Header, MAX_SUBAGENT_LEVELS, StepBuilder, Version, closing, opening};
use crate::terminal::sanitized;

/// Writes the first of `runs`; the others are its child runs, at any depth, in any order.
pub(super) fn write(
    source: &mut RunSource<'_>,
    runs: &[RunSummary],
    version: Version,
    out: &mut impl Write,
) -> Result<()> {
    let Some(run) = runs.first() else { return Ok(()) };
    Document { runs, version, session_id: run.run_id.as_str() }.write_run(source, run, out, 0)?;
    writeln!(out)?;
    Ok(())
}

struct Document<'a> {
    runs: &'a [RunSummary],
    version: Version,
    session_id: &'a str,
}

impl Document<'_> {
    fn write_run(
        &self,
        source: &mut RunSource<'_>,
        run: &RunSummary,
        out: &mut impl Write,
        level: usize,
    ) -> Result<()> {
        anyhow::ensure!(
            level <= MAX_SUBAGENT_LEVELS,
            "the child runs are nested more than {MAX_SUBAGENT_LEVELS} levels deep; export \
             {} separately",
            sanitized(run.run_id.as_str())
        );
        let is_child = |other: &&RunSummary| {
            other.parent_run_id.as_ref() == Some(&run.run_id)
                && other.run_id.as_str() != self.session_id
        };
        let children: Vec<&RunSummary> = self.runs.iter().filter(is_child).collect();
        let mut steps = StepBuilder::new(&children, self.session_id);
        let is_damaged = source.is_damaged(run);
        let mut has_opening = false;
        let open = |depth, out: &mut _| {
            let (version, session_id) = (self.version, self.session_id);
            let header = Header { version, run, session_id, depth, is_damaged };
            write_fields(out, "{", opening(header))
        };
        source.for_each_record(run, |record, labels| {
            if !has_opening {
                open(record.run.depth, out)?;
                has_opening = true;
            }
            steps.push(&record, &labels);
            while let Some(step) = steps.pop() {
                write_step(out, &step, steps.written())?;
            }
            Ok(())
        })?;
        if !has_opening {
            open(level, out)?;
        }
        while let Some(step) = steps.pop_rest() {
            write_step(out, &step, steps.written())?;
        }
        write!(out, "\n]")?;
        write_fields(out, ",", closing(run, steps.written()))?;
        if !children.is_empty() {
            write!(out, ",\n\"subagent_trajectories\":[\n")?;
            for (at, child) in children.iter().enumerate() {
                if at > 0 {
                    writeln!(out, ",")?;
                }
                self.write_run(source, child, out, level.saturating_add(1))?;
            }
            write!(out, "\n]")?;
        }
        write!(out, "}}")?;
        Ok(())
    }
}

/// Writes fields of an object, the first one after `before`, each on a line of its own.
fn write_fields(out: &mut impl Write, before: &str, fields: Map<String, Value>) -> Result<()> {
    let mut before = before;
    for (name, value) in fields {
        write!(out, "{before}\n{}:{}", json_line(&name.into()), json_line(&value))?;
        before = ",";
    }
    Ok(())
}

fn write_step(out: &mut impl Write, step: &Value, number: u64) -> Result<()> {
    let before = if number == 1 { ",\n\"steps\":[" } else { "," };
    write!(out, "{before}\n{}", json_line(step))?;
    Ok(())
}
