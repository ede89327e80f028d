//! `midcourse report --effect`: whether messages help, from the cases of an experiment.
//!
//! `cases` reads the cases and their plans from the store, [`crate::effect`] analyses them, and
//! `text` prints the result.

mod cases;
mod text;

use std::io::{BufWriter, Write as _, stdout};

use anyhow::Result;
use midcourse::{Store, now};
use serde_json::json;

use super::text::Layout;
use crate::config::Experiment;
use crate::display::json_line;
use crate::effect::analyse;
use crate::run_settings::RunSettings;

/// Prints the effect of messages, as text or as one JSON object.
pub(super) fn print(store: &Store, layout: &Layout, as_json: bool) -> Result<()> {
    let mut read = cases::read(store, now())?;
    let mut plans = analyse(read.planned());
    if plans.iter().any(|plan| plan.effect.is_some()) {
        read.add_tokens(store)?;
        plans = analyse(read.planned());
    }
    let mut out = BufWriter::new(stdout().lock());
    if as_json {
        let object = json!({"plans": plans, "without_plan": read.without_plan});
        writeln!(out, "{}", json_line(&object))?;
    } else {
        text::print(&mut out, &plans, read.without_plan, &current_experiment(store), layout)?;
    }
    Ok(out.flush()?)
}

/// The experiment that applies to runs in the current folder.
fn current_experiment(store: &Store) -> Experiment {
    let folder = std::env::current_dir().unwrap_or_default();
    RunSettings::find(store.data_dir(), &folder).config.experiment
}
