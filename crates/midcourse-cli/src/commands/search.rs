//! `midcourse search`: finds records by the words in them.

use std::io::{Write as _, stdout};

use anyhow::Result;
use midcourse::SearchIndex;
use serde_json::json;

use super::open;
use crate::display::{escape_control_chars, json_line, one_line};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Find records that contain all of these words.
    #[arg(required = true)]
    words: Vec<String>,
    /// Show at most N records.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    count: usize,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let store = open::to_read()?;
    let mut index = SearchIndex::open(&store)?;
    let bar = open::progress(0, "indexing");
    index.catch_up(&store, |remaining| {
        bar.set_length(bar.length().unwrap_or(0).max(remaining));
        bar.set_position(bar.length().unwrap_or(0).saturating_sub(remaining));
    })?;
    bar.finish_and_clear();
    let (hits, findings) = index.search(&store, &arguments.words.join(" "), arguments.count)?;
    let mut out = stdout().lock();
    for hit in &hits {
        if arguments.json {
            let line = json!({"run_id": hit.run_id, "seq": hit.seq, "kind": hit.kind,
                              "excerpt": hit.excerpt});
            writeln!(out, "{}", json_line(&line))?;
        } else {
            let run = one_line(hit.run_id.as_str(), 80);
            writeln!(
                out,
                "{run}:{}  {}  {}",
                hit.seq,
                hit.kind,
                escape_control_chars(&hit.excerpt)
            )?;
        }
    }
    if hits.is_empty() && !arguments.json {
        writeln!(out, "No record contains these words.")?;
    }
    out.flush()?;
    open::report_damage(&findings)
}
