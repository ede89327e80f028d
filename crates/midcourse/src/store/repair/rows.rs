//! The rows of the store's tables, recognised by their columns.

use std::collections::{BTreeMap, HashMap};

use super::super::chain::Link;
use super::super::labels::LabelRow;
use super::super::read::{BodyRow, ReportRow, Row};
use super::pages::{Pages, Value};
use crate::label::Label;

/// A row of the `runs` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunRow {
    pub(super) run_id: String,
    pub(super) parent_run_id: Option<String>,
    pub(super) depth: i64,
    pub(super) conversation_id: Option<String>,
    pub(super) host: String,
    pub(super) started: i64,
    pub(super) latest: i64,
    pub(super) next_seq: u64,
    pub(super) head: Link,
    pub(super) errors: i64,
}

/// A row of the `reports` table.
#[derive(Debug, Clone)]
pub(super) struct FullReport {
    pub(super) row: ReportRow,
    pub(super) zstd: Vec<u8>,
}

/// All rows that were found. A damaged database may contain several versions of a row.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) runs: BTreeMap<i64, Vec<RunRow>>,
    /// By run and seq. The rows have no bodies yet.
    pub(super) records: BTreeMap<i64, BTreeMap<u64, Vec<Row>>>,
    pub(super) reports: BTreeMap<i64, Vec<FullReport>>,
    /// Run ids by row id, from the index of the `runs` table.
    pub(super) run_names: HashMap<i64, Vec<String>>,
    /// By record: the pointer and id of each body, from the `record_bodies` table and from its
    /// index.
    record_bodies: [HashMap<i64, Vec<(String, i64)>>; 2],
    bodies: HashMap<i64, Vec<BodyRow>>,
    /// By run. The first label of a place is the one that SQLite sees, if it sees one.
    pub(super) labels: HashMap<i64, Vec<Label>>,
    /// The greatest record id that was ever assigned, according to SQLite.
    sequence: i64,
}

impl Rows {
    /// A record with this seq that continues this link, and whose run is not stored.
    pub(super) fn stray_after(&self, link: &Link, seq: u64) -> Option<Row> {
        let is_known = |id: &i64| self.runs.contains_key(id) || self.run_names.contains_key(id);
        let strays = self.records.iter().filter(|(id, _)| !is_known(id));
        let rows = strays.filter_map(|(_, rows)| rows.get(&seq)).flatten();
        rows.flat_map(|row| self.with_bodies(row)).find(|row| row.link_at(link, seq) == row.link)
    }

    /// Adds all rows on these pages that are not known yet.
    pub(super) fn add(&mut self, pages: &Pages<'_>) {
        pages.each_row(&mut |id, values| {
            match id {
                Some(id) if id > 0 => self.add_table_row(id, values),
                Some(_) => None,
                None => self.add_index_entry(&values),
            };
        });
    }

    fn add_table_row(&mut self, id: i64, values: Vec<Value>) -> Option<()> {
        let count = values.len();
        let mut columns = Columns { values: values.into_iter() };
        match count {
            2 if columns.text()? == "records" => {
                self.sequence = self.sequence.max(columns.integer()?)
            }
            4 => {
                columns.null()?;
                let (hash, length, zstd) = (columns.blob()?, columns.integer()?, columns.blob()?);
                let body = BodyRow { pointer: String::new(), hash, length, zstd };
                push_new(self.bodies.entry(id).or_default(), body);
            }
            9 => {
                let (run, label) = label(columns)?;
                push_new(self.labels.entry(run).or_default(), label);
            }
            11 => {
                let (run, report) = report(id, columns)?;
                let reports = self.reports.entry(run).or_default();
                let is_same = |known: &FullReport| {
                    known.row.id == id
                        && known.row.link == report.row.link
                        && known.zstd == report.zstd
                };
                if !reports.iter().any(is_same) {
                    reports.push(report);
                }
            }
            14 => {
                let (run, row) = record(id, columns)?;
                push_new(self.records.entry(run).or_default().entry(row.seq).or_default(), row);
            }
            15 => push_new(self.runs.entry(id).or_default(), self::run(columns)?),
            _ => {}
        }
        Some(())
    }

    fn add_index_entry(&mut self, values: &[Value]) -> Option<()> {
        let [table, index] = &mut self.record_bodies;
        let (list, record, pointer, body) = match values {
            [Value::Integer(record), Value::Text(pointer), Value::Integer(body)] => {
                (table, *record, pointer, *body)
            }
            [Value::Integer(body), Value::Integer(record), Value::Text(pointer)] => {
                (index, *record, pointer, *body)
            }
            [Value::Text(name), Value::Integer(id)] => {
                push_new(self.run_names.entry(*id).or_default(), name.clone());
                return Some(());
            }
            _ => return None,
        };
        push_new(list.entry(record).or_default(), (pointer.clone(), body));
        Some(())
    }

    /// The greatest record id that was ever assigned, as far as it is known.
    pub(super) fn last_id(&self) -> i64 {
        let rows = self.records.values().flat_map(|run| run.values().flatten());
        rows.map(|row| row.id).fold(self.sequence, i64::max)
    }

    /// Versions of the row with its bodies: with those in the table, with those in the index, and
    /// with both. Damage may have changed the table or the index.
    pub(super) fn with_bodies(&self, row: &Row) -> Vec<Row> {
        let [table, index] = self.record_bodies.each_ref().map(|list| {
            let mut places = list.get(&row.id).cloned().unwrap_or_default();
            places.sort_unstable();
            places
        });
        let mut both = [table.as_slice(), &index].concat();
        both.sort_unstable();
        both.dedup();
        let mut rows = Vec::new();
        for places in [table, index, both] {
            let bodies = places.into_iter().map(|(pointer, id)| self.body(pointer, id));
            push_new(&mut rows, Row { bodies: bodies.collect(), ..row.clone() });
        }
        rows
    }

    /// The body with this id. If several versions were found, this is the first whole one, or else
    /// the first. If none was found, the returned body is empty and cannot be read.
    fn body(&self, pointer: String, id: i64) -> BodyRow {
        let found = self.bodies.get(&id).map(Vec::as_slice).unwrap_or_default();
        let whole = found.iter().find(|body| body.is_whole());
        match whole.or(found.first()) {
            Some(body) => BodyRow { pointer, ..body.clone() },
            None => BodyRow { pointer, hash: Vec::new(), length: 0, zstd: Vec::new() },
        }
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, new: T) {
    if !list.contains(&new) {
        list.push(new);
    }
}

/// The values of a row that were not taken yet.
struct Columns {
    values: std::vec::IntoIter<Value>,
}

impl Columns {
    fn null(&mut self) -> Option<()> {
        (self.values.next()? == Value::Null).then_some(())
    }

    fn integer(&mut self) -> Option<i64> {
        if let Value::Integer(number) = self.values.next()? { Some(number) } else { None }
    }

    fn unsigned(&mut self) -> Option<u64> {
        self.integer()?.try_into().ok()
    }

    fn text(&mut self) -> Option<String> {
        if let Value::Text(text) = self.values.next()? { Some(text) } else { None }
    }

    fn blob(&mut self) -> Option<Vec<u8>> {
        if let Value::Blob(bytes) = self.values.next()? { Some(bytes) } else { None }
    }

    fn optional_blob(&mut self) -> Option<Option<Vec<u8>>> {
        match self.values.next()? {
            Value::Null => Some(None),
            Value::Blob(bytes) => Some(Some(bytes)),
            _ => None,
        }
    }

    fn link(&mut self) -> Option<Link> {
        <[u8; 32]>::try_from(self.blob()?).ok().map(Link::from)
    }

    fn optional_text(&mut self) -> Option<Option<String>> {
        match self.values.next()? {
            Value::Null => Some(None),
            Value::Text(text) => Some(Some(text)),
            _ => None,
        }
    }

    fn optional_integer(&mut self) -> Option<Option<i64>> {
        match self.values.next()? {
            Value::Null => Some(None),
            Value::Integer(number) => Some(Some(number)),
            _ => None,
        }
    }
}

fn run(mut columns: Columns) -> Option<RunRow> {
    columns.null()?;
    let (run_id, parent_run_id, depth) =
        (columns.text()?, columns.optional_text()?, columns.integer()?);
    let (conversation_id, host) = (columns.optional_text()?, columns.text()?);
    let (started, latest) = (columns.integer()?, columns.integer()?);
    let _end = (columns.optional_integer()?, columns.optional_text()?);
    let (next_seq, head) = (columns.unsigned()?, columns.link()?);
    let (_calls, errors, _deliveries) =
        (columns.integer()?, columns.integer()?, columns.integer()?);
    Some(RunRow {
        run_id,
        parent_run_id,
        depth,
        conversation_id,
        host,
        started,
        latest,
        next_seq,
        head,
        errors,
    })
}

fn record(id: i64, mut columns: Columns) -> Option<(i64, Row)> {
    columns.null()?;
    let run = columns.integer()?;
    let row = Row {
        id,
        seq: columns.unsigned()?,
        at: columns.unsigned()?,
        kind: columns.text()?,
        fact: columns.optional_text()?,
        host: columns.text()?,
        channel: columns.text()?,
        decision_point: columns.optional_text()?,
        schema_version: columns.integer()?.try_into().ok()?,
        redactions: columns.integer()?.try_into().ok()?,
        failed: columns.optional_integer()?.map(|failed| failed != 0),
        payload: columns.text()?,
        link: columns.link()?,
        bodies: Vec::new(),
    };
    // A seq of `u32::MAX` or more can only come from damage. The limit also prevents overflow in
    // calculations with seqs.
    (row.seq < u64::from(u32::MAX)).then_some((run, row))
}

fn label(mut columns: Columns) -> Option<(i64, Label)> {
    columns.null()?;
    let (run, seq, verdict) = (columns.integer()?, columns.integer()?, columns.text()?);
    let (cause, call) = (columns.optional_text()?, columns.optional_integer()?);
    let (text_hash, note) = (columns.optional_blob()?, columns.optional_text()?);
    let at = columns.integer()?;
    let row = LabelRow { seq, verdict, cause, call, text_hash, note, at };
    Some((run, row.label()?))
}

fn report(id: i64, mut columns: Columns) -> Option<(i64, FullReport)> {
    columns.null()?;
    let run = columns.integer()?;
    let (seq, after, at) = (columns.unsigned()?, columns.unsigned()?, columns.unsigned()?);
    let (host, channel, status) = (columns.text()?, columns.text()?, columns.text()?);
    let (hash, zstd, link) = (columns.blob()?, columns.blob()?, columns.link()?);
    let row = ReportRow { id, seq, after, at, host, channel, status, hash, link };
    Some((run, FullReport { row, zstd }))
}
