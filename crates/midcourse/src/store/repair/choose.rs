//! Chooses the records of a run that can be saved, by the hash chain of the run. A row is whole if
//! its link is the hash of its fields and of the previous row's link.
//!
//! If only the stored link of a row was damaged, the next row shows this, because it continues the
//! correct link. A record after a missing or damaged one cannot be checked by itself. It is kept if
//! the next row continues its link, and is listed as unchecked. All other records are lost, and
//! their seqs get gap markers.

use super::super::chain::Link;
use super::super::read::{Row, unpack_report};
use super::rows::{FullReport, Rows, RunRow};
use crate::label::Label;

/// What can be saved of a run.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) run_id: String,
    pub(super) row: Option<RunRow>,
    pub(super) items: Vec<Item>,
    /// Seqs of records that were kept although they could not be checked.
    pub(super) unchecked: Vec<u64>,
    /// Seqs of records whose further reports were lost.
    pub(super) lost_reports: Vec<u64>,
    pub(super) labels: Vec<Label>,
}

/// A part of a run, in the order of the hash chain.
#[derive(Debug)]
pub(super) enum Item {
    Record(Box<Row>),
    Report(FullReport),
    /// The record with this seq is lost.
    Lost(u64),
}

/// One position in the hash chain: a report, or all versions of a record that were found.
#[derive(Debug)]
enum Candidate {
    Record(Vec<Row>),
    Report(FullReport),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Whole,
    /// The row could not be checked, because the row before it is missing or damaged.
    Unchecked,
    Damaged,
}

/// The links that the next row may continue, and whether the row before it is whole.
struct Before {
    links: Vec<Link>,
    is_whole: bool,
}

/// Chooses what can be saved of the run with this row id. `max_records` is the number of records
/// that were ever stored, in all runs.
pub(super) fn choose(rows: &Rows, id: i64, max_records: u64) -> Chosen {
    let row = best_row(rows, id);
    let mut chain = candidates(rows, id);
    let run_id = name(rows, id, row.as_ref(), chain.first());
    adopt_strays(rows, &mut chain, Link::genesis(&run_id));
    let is_named = row.is_some() || rows.run_names.contains_key(&id);
    let mut before = Before { links: vec![Link::genesis(&run_id)], is_whole: is_named };
    let mut next_seq = 0;
    let mut verdicts: Vec<Verdict> = Vec::new();
    for candidate in &mut chain {
        if let Candidate::Record(found) = &candidate
            && found.first().is_some_and(|row| row.seq != next_seq)
        {
            before.is_whole = false;
        }
        next_seq = candidate.next_seq().unwrap_or(next_seq);
        let which = candidate.links(&before.links);
        if let Some((row, link)) = which
            .iter()
            .position(|found| found.is_whole)
            .and_then(|row| Some((row, which.get(row)?)))
        {
            // This row continues the computed link of the previous row. So only the stored link of
            // the previous row was damaged.
            if link.continues > 0
                && let Some(last) = verdicts.last_mut()
            {
                *last = Verdict::Whole;
            }
            candidate.take(row);
            before = Before { links: vec![candidate.stored()], is_whole: true };
            verdicts.push(Verdict::Whole);
            continue;
        }
        candidate.take(0);
        verdicts.push(if before.is_whole { Verdict::Damaged } else { Verdict::Unchecked });
        let computed = which.first().map(|found| found.computed.clone()).unwrap_or_default();
        before = Before { links: [vec![candidate.stored()], computed].concat(), is_whole: false };
        before.links.truncate(4);
    }
    confirm(&chain, &mut verdicts, row.as_ref(), &before);
    let mut chosen = collect(chain, &verdicts);
    fill(&mut chosen, row.as_ref(), max_records);
    let labels = rows.labels.get(&id).cloned().unwrap_or_default();
    Chosen { run_id, row, labels, ..chosen }
}

/// Keeps a row that could not be checked only if the next row continues its link.
fn confirm(chain: &[Candidate], verdicts: &mut [Verdict], row: Option<&RunRow>, end: &Before) {
    // The run's row stores the last link of the chain. If the computed link of the last record is
    // the same, only the record's stored link was damaged.
    if let (Some(row), Some(last)) = (row, verdicts.last_mut())
        && end.links.iter().skip(1).any(|link| *link == row.head)
    {
        *last = Verdict::Whole;
    }
    let mut is_continued = match (row, chain.last()) {
        (Some(row), Some(last)) => last.stored() == row.head,
        _ => false,
    };
    for (place, verdict) in verdicts.iter_mut().enumerate().rev() {
        if *verdict == Verdict::Unchecked && !is_continued {
            *verdict = Verdict::Damaged;
        }
        // A whole row confirms the link of the previous row, unless a record between them is
        // missing.
        let follows =
            match (place.checked_sub(1).and_then(|before| chain.get(before)), chain.get(place)) {
                (Some(before), Some(now)) => now.follows(before),
                _ => false,
            };
        is_continued = *verdict == Verdict::Whole && follows;
    }
}

fn collect(chain: Vec<Candidate>, verdicts: &[Verdict]) -> Chosen {
    let mut chosen = Chosen::default();
    for (candidate, verdict) in chain.into_iter().zip(verdicts) {
        match (candidate, verdict) {
            (Candidate::Report(report), Verdict::Damaged) => {
                chosen.lost_reports.push(report.row.seq);
            }
            (Candidate::Report(report), _)
                if unpack_report(&report.row.hash, &report.zstd).is_ok() =>
            {
                chosen.items.push(Item::Report(report));
            }
            (Candidate::Report(report), _) => chosen.lost_reports.push(report.row.seq),
            (Candidate::Record(rows), verdict) => {
                let Some(row) = rows.into_iter().next() else { continue };
                // The chain covers only the hashes of long texts. `is_readable` checks the texts
                // themselves.
                if *verdict == Verdict::Damaged || !is_readable(&row) {
                    continue;
                }
                if *verdict == Verdict::Unchecked {
                    // The payload has an empty string in place of each long text. This record's
                    // link cannot be checked, so an empty string without a long text may mean that
                    // the long text was lost.
                    if row.payload.matches("\"\"").count() > row.bodies.len() {
                        continue;
                    }
                    chosen.unchecked.push(row.seq);
                }
                chosen.items.push(Item::Record(Box::new(row)));
            }
        }
    }
    chosen
}

/// Puts a gap marker at each seq without a record.
fn fill(chosen: &mut Chosen, row: Option<&RunRow>, max_records: u64) {
    let mut items = Vec::new();
    let mut next_seq = 0;
    let mut last_link = None;
    for item in std::mem::take(&mut chosen.items) {
        match &item {
            // The gap would have more records than were ever stored, so this seq or position is
            // wrong.
            Item::Record(record) if record.seq.saturating_sub(next_seq) > max_records => continue,
            Item::Report(report) if report.row.after.saturating_sub(next_seq) > max_records => {
                chosen.lost_reports.push(report.row.seq);
                continue;
            }
            Item::Record(record) => {
                items.extend((next_seq..record.seq).map(Item::Lost));
                next_seq = record.seq.saturating_add(1);
                last_link = Some(record.link);
            }
            Item::Report(report) => {
                items.extend((next_seq..report.row.after).map(Item::Lost));
                next_seq = next_seq.max(report.row.after);
                last_link = Some(report.row.link);
            }
            Item::Lost(_) => {}
        }
        items.push(item);
    }
    if let Some(row) = row
        && last_link != Some(row.head)
        && row.next_seq.saturating_sub(next_seq) <= max_records
    {
        items.extend((next_seq..row.next_seq).map(Item::Lost));
    }
    // A report about a lost record cannot be used, so it counts as lost too.
    let lost: Vec<u64> = items.iter().filter_map(Item::lost_seq).collect();
    items.retain(|item| match item {
        Item::Report(report) if lost.binary_search(&report.row.seq).is_ok() => {
            chosen.lost_reports.push(report.row.seq);
            false
        }
        _ => true,
    });
    chosen.items = items;
}

/// The newest row of a run. After damage in the log, older versions of the row may be found too.
fn best_row(rows: &Rows, id: i64) -> Option<RunRow> {
    let found = rows.runs.get(&id)?;
    let newest = found.iter().max_by_key(|row| row.next_seq)?;
    Some(newest.clone())
}

/// The id of the run. If several are stored, this is the one with which the hash chain starts, or
/// else the first. If none is stored, the run gets a new id.
fn name(rows: &Rows, id: i64, row: Option<&RunRow>, first: Option<&Candidate>) -> String {
    let in_index = rows.run_names.get(&id).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&String> = row.map(|row| &row.run_id).into_iter().chain(in_index).collect();
    let begins = |name: &&&String| {
        let links = first.map(|first| first.links(&[Link::genesis(name)])).unwrap_or_default();
        links.iter().any(|link| link.is_whole)
    };
    let known = names.iter().find(begins).or(names.first());
    known.map_or_else(|| format!("recovered-{id}"), |name| (*name).clone())
}

/// The rows of a run in the order of the hash chain.
fn candidates(rows: &Rows, id: i64) -> Vec<Candidate> {
    let mut reports = rows.reports.get(&id).cloned().unwrap_or_default();
    reports.sort_by_key(|report| (report.row.after, report.row.id));
    let mut reports = reports.into_iter().peekable();
    let mut chain = Vec::new();
    for (seq, found) in rows.records.get(&id).into_iter().flatten() {
        while let Some(report) = reports.next_if(|report| report.row.after <= *seq) {
            chain.push(Candidate::Report(report));
        }
        let found = found.iter().flat_map(|row| rows.with_bodies(row)).collect();
        chain.push(Candidate::Record(found));
    }
    chain.extend(reports.map(Candidate::Report));
    chain
}

/// Fills gaps in a run with records whose run is not stored, because the number of their run is
/// damaged. The hash chain shows that they belong there.
fn adopt_strays(rows: &Rows, chain: &mut Vec<Candidate>, mut link: Link) {
    let mut next_seq = 0;
    let mut filled = Vec::new();
    let end = chain.iter().filter_map(Candidate::next_seq).max().unwrap_or(0);
    let places = std::mem::take(chain).into_iter().map(Some).chain([None]);
    for candidate in places {
        // After the last record, there may be one more.
        let until = candidate.as_ref().map_or(end.saturating_add(1), Candidate::place);
        while next_seq < until
            && let Some(stray) = rows.stray_after(&link, next_seq)
        {
            link = stray.link;
            next_seq = next_seq.saturating_add(1);
            filled.push(Candidate::Record(vec![stray]));
        }
        let Some(candidate) = candidate else { break };
        link = candidate.stored();
        next_seq = candidate.next_seq().unwrap_or(next_seq);
        filled.push(candidate);
    }
    *chain = filled;
}

/// The links that a row would have, one for each link that it may continue.
struct Links {
    computed: Vec<Link>,
    is_whole: bool,
    /// If the row is whole, the index of the previous link that it continues.
    continues: usize,
}

impl Candidate {
    fn links(&self, before: &[Link]) -> Vec<Links> {
        let links = |computed: Vec<Link>, stored: Link| {
            let continues = computed.iter().position(|link| *link == stored);
            Links { computed, is_whole: continues.is_some(), continues: continues.unwrap_or(0) }
        };
        match self {
            Self::Record(rows) => rows
                .iter()
                .map(|row| {
                    let computed = before.iter().map(|link| row.link_at(link, row.seq));
                    links(computed.collect(), row.link)
                })
                .collect(),
            Self::Report(FullReport { row, .. }) => {
                let computed = before.iter().map(|link| row.link_at(link, row.seq));
                vec![links(computed.collect(), row.link)]
            }
        }
    }

    /// Keeps only the version of the record with this index.
    fn take(&mut self, which: usize) {
        if let Self::Record(rows) = self {
            let which = which.min(rows.len().saturating_sub(1));
            rows.swap(0, which);
            rows.truncate(1);
        }
    }

    fn stored(&self) -> Link {
        match self {
            Self::Record(rows) => rows.first().map_or_else(|| Link::genesis(""), |row| row.link),
            Self::Report(report) => report.row.link,
        }
    }

    /// The seq that the run's next record would have at this place.
    fn place(&self) -> u64 {
        match self {
            Self::Record(rows) => rows.first().map_or(0, |row| row.seq),
            Self::Report(report) => report.row.after,
        }
    }

    fn next_seq(&self) -> Option<u64> {
        match self {
            Self::Record(rows) => rows.first().map(|row| row.seq.saturating_add(1)),
            Self::Report(_) => None,
        }
    }

    /// Whether no record is missing between `before` and this candidate.
    fn follows(&self, before: &Self) -> bool {
        match (before, self) {
            (Self::Record(before), Self::Record(now)) => {
                let seq = |rows: &[Row]| rows.first().map_or(0, |row| row.seq);
                seq(before).saturating_add(1) == seq(now)
            }
            _ => true,
        }
    }
}

impl Item {
    fn lost_seq(&self) -> Option<u64> {
        if let Self::Lost(seq) = self { Some(*seq) } else { None }
    }
}

/// Whether the record's JSON and long texts can be read.
fn is_readable(row: &Row) -> bool {
    let kind = |value: serde_json::Value| {
        value.get("kind").and_then(|kind| kind.as_str()).map(str::to_owned)
    };
    row.value().is_ok_and(|value| kind(value).as_deref() == Some(row.kind.as_str()))
}
