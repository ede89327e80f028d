//! `midcourse show RUN:SEQ`: prints one record in full; for a call, with its result.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use midcourse::{RunSummary, Store};

use crate::commands::json::record_json;
use crate::commands::open;
use crate::commands::screen::Screen;
use crate::display::{
    describe_entry, duration, escape_control_chars, json_line, local_time, one_line,
};

pub(super) fn show(
    store: &Store,
    run: &RunSummary,
    seq: u64,
    is_json: bool,
    mut screen: Screen,
) -> Result<()> {
    let run_id = run.run_id.as_str();
    let seq = store.entry_of(run_id, seq)?;
    let entry = store.entry(run_id, seq)?.with_context(|| {
        format!("the run has no record {seq}; its last is {}", run.records.saturating_sub(1))
    })?;
    let records: Vec<_> = [Some(&entry.record), entry.end.as_ref()].into_iter().flatten().collect();
    let mut findings = Vec::new();
    for record in &records {
        findings.extend(store.verify_record(&run.run_id, record.seq)?);
    }
    if is_json {
        for record in records {
            writeln!(screen, "{}", json_line(&record_json(record)))?;
        }
        screen.finish()?;
        return open::report_damage(&findings);
    }
    let described = describe_entry(&entry, |seq| store.entry_of(run_id, seq).unwrap_or(seq));
    let painter = screen.painter;
    let mut field = |name: &str, value: &str| -> Result<()> {
        Ok(writeln!(screen, "{}{value}", painter.bold(&format!("{name:<9}")))?)
    };
    let joined = |texts: Vec<String>| texts.join(", ");
    field("run", &one_line(run_id, 200))?;
    field("record", &joined(records.iter().map(|it| it.seq.to_string()).collect()))?;
    field("kind", &joined(records.iter().map(|it| one_line(it.kind(), 80)).collect()))?;
    field("time", &local_time(entry.record.at))?;
    if let Some(took) = described.took {
        field("took", &duration(took))?;
    }
    let source = &entry.record.source;
    field("source", &format!("{} ({})", one_line(source.host(), 80), source.channel().as_str()))?;
    writeln!(screen, "\n{}", painter.tone(described.tone, described.label))?;
    for text in [Some(described.text), described.details, described.result].into_iter().flatten() {
        writeln!(screen, "{}\n", escape_control_chars(&text).trim_end())?;
    }
    for conflict in records.iter().flat_map(|record| &record.conflicts) {
        writeln!(screen, "{}\n{}\n", painter.bold("conflicting report"), json_line(conflict))?;
    }
    screen.finish()?;
    open::report_damage(&findings)
}
