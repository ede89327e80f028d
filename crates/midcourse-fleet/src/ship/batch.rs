//! A batch: parts of several runs that are stored in one transaction.

use std::collections::HashSet;

use midcourse::{
    ChainEntry, ChainPart, ChainPosition, ChainRecord, ChainReport, RunHeader, RunId, Store,
};
use sha2::{Digest as _, Sha256};

use super::level::{self, Level};
use super::rows::Rows;
use crate::words::{self, Buckets, Words};

/// Parts of runs, and their rows for the staging tables.
pub(super) struct Batch {
    level: Level,
    parts: Vec<Part>,
    entries: usize,
    bytes: usize,
    /// The days on which the runs started that begin in this batch.
    days: HashSet<u64>,
    runs: Rows,
    records: Rows,
    reports: Rows,
    bodies: Rows,
}

/// The most days on which the runs started that begin in a batch: the server may have to create
/// partitions for each, and refuses a batch with too many new ones.
const MAX_DAYS: usize = 30;

/// The longest id of a run, in bytes. Longer ones do not fit into the indexes of Postgres.
const MAX_ID_BYTES: usize = 1_000;

/// A part of a run.
pub(super) struct Part {
    run_id: RunId,
    from: ChainPosition,
    end: ChainPosition,
}

impl Part {
    pub(super) const fn run_id(&self) -> &RunId {
        &self.run_id
    }

    pub(super) const fn start(&self) -> ChainPosition {
        self.from
    }

    pub(super) const fn end(&self) -> ChainPosition {
        self.end
    }

    pub(super) const fn records(&self) -> u64 {
        self.end.records.saturating_sub(self.from.records)
    }

    pub(super) const fn reports(&self) -> u64 {
        self.end.reports.saturating_sub(self.from.reports)
    }
}

impl Batch {
    pub(super) fn new(level: Level) -> Self {
        Self {
            level,
            parts: Vec::new(),
            entries: 0,
            bytes: 0,
            days: HashSet::new(),
            runs: Rows::new(),
            records: Rows::new(),
            reports: Rows::new(),
            bodies: Rows::new(),
        }
    }

    /// Whether a part of a run may be added: a batch has runs of a limited number of days.
    pub(super) fn has_room_for(&self, from: &ChainPosition, header: &RunHeader) -> bool {
        let (is_begin, day) = beginning(from, header);
        !is_begin || self.days.len() < MAX_DAYS || self.days.contains(&day)
    }

    /// Adds a part of a run. Fails, with the reason, if Postgres cannot store it.
    pub(super) fn add(
        &mut self,
        store: &Store,
        from: ChainPosition,
        read: ChainPart,
    ) -> Result<(), String> {
        let ChainPart { mut header, mut entries, end } = read;
        check(&header, &entries)?;
        if let (true, day) = beginning(&from, &header) {
            self.days.insert(day);
        }
        let run_id = header.run_id().clone();
        let bytes: usize = entries.iter().map(ChainEntry::size).sum();
        let words = match self.level {
            Level::Full => {
                let mut words = Words::default();
                words.add_entries(store, &run_id, from.records, &entries);
                Some(words.into_sorted())
            }
            Level::Metadata => {
                entries.iter_mut().for_each(level::without_texts);
                level::header_without_texts(&mut header);
                None
            }
        };
        let started = header.summary().started.unix_ms();
        let header = (end == header.end()).then(|| json(header)).transpose()?;
        self.entries = self.entries.saturating_add(entries.len()).saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        let number = i32::try_from(self.parts.len()).unwrap_or(i32::MAX);
        self.parts.push(Part { run_id, from, end });
        self.add_run(number, started, header.as_deref(), words.as_deref());
        let mut sent = HashSet::new();
        for entry in &entries {
            match entry {
                ChainEntry::Record(record) => self.add_record(number, record, &mut sent),
                ChainEntry::Report(report) => self.add_report(number, report),
            }
        }
        Ok(())
    }

    fn add_run(
        &mut self,
        n: i32,
        started: u64,
        header: Option<&str>,
        words: Option<&[(i32, Buckets)]>,
    ) {
        let Some(Part { run_id, from, end }) = self.parts.last() else { return };
        let rows = &mut self.runs;
        rows.begin(13);
        rows.int(n);
        rows.text(run_id.as_str());
        rows.bigint(started);
        rows.text(self.level.as_str());
        for position in [from, end] {
            rows.bigint(position.records);
            rows.bigint(position.reports);
            rows.bytea(position.link.as_bytes());
        }
        rows.jsonb(header);
        match words {
            Some(words) => {
                rows.int_array(words.iter().map(|(hash, _)| *hash));
                rows.bigint_array(words.iter().map(|(_, buckets)| buckets.cast_signed()));
            }
            None => (0..2).for_each(|_| rows.null()),
        }
    }

    /// Adds a record, and those of its long texts that the part does not have yet.
    fn add_record(&mut self, n: i32, record: &ChainRecord, sent: &mut HashSet<[u8; 32]>) {
        let rows = &mut self.records;
        rows.begin(17);
        rows.int(n);
        rows.bigint(record.seq);
        rows.bigint(record.at);
        rows.unsigned_int(record.schema_version);
        rows.unsigned_int(record.redactions);
        rows.boolean(record.failed);
        rows.smallint(words::bucket(record).into());
        rows.text(&record.kind);
        rows.optional(record.fact.as_deref().map(str::as_bytes));
        rows.text(&record.host);
        rows.text(&record.channel);
        rows.optional(record.decision_point.as_deref().map(str::as_bytes));
        rows.bytea(record.link.as_bytes());
        rows.text(&record.payload);
        if record.bodies.is_empty() {
            (0..3).for_each(|_| rows.null());
            return;
        }
        let bodies = record.bodies.iter();
        let keys: Vec<[u8; 32]> =
            bodies.clone().map(|body| body_key(body.length, &body.zstd)).collect();
        rows.bytea_array(bodies.clone().map(|body| body.pointer.as_bytes()));
        rows.bytea_array(bodies.clone().map(|body| body.hash.as_slice()));
        rows.bytea_array(keys.iter().map(<[u8; 32]>::as_slice));
        for (body, key) in bodies.zip(keys) {
            if sent.insert(key) {
                self.bodies.begin(4);
                self.bodies.int(n);
                self.bodies.bytea(&key);
                self.bodies.bigint(body.length);
                self.bodies.bytea(&body.zstd);
            }
        }
    }

    fn add_report(&mut self, n: i32, report: &ChainReport) {
        let rows = &mut self.reports;
        rows.begin(11);
        rows.int(n);
        rows.bigint(report.ordinal);
        rows.bigint(report.seq);
        rows.bigint(report.after);
        rows.bigint(report.at);
        rows.text(&report.host);
        rows.text(&report.channel);
        rows.text(&report.status);
        rows.bytea(&report.hash);
        rows.bytea(report.link.as_bytes());
        rows.bytea(&report.zstd);
    }

    /// The staging tables, with the rows for them.
    pub(super) const fn tables(&self) -> [(&'static str, &Rows); 4] {
        [
            ("staged_runs", &self.runs),
            ("staged_records", &self.records),
            ("staged_reports", &self.reports),
            ("staged_bodies", &self.bodies),
        ]
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) const fn entries(&self) -> usize {
        self.entries
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Whether a part begins a run, and the day on which the run started.
fn beginning(from: &ChainPosition, header: &RunHeader) -> (bool, u64) {
    const DAY: u64 = 24 * 60 * 60 * 1_000;
    let is_begin = from.records == 0 && from.reports == 0;
    (is_begin, header.summary().started.unix_ms().checked_div(DAY).unwrap_or_default())
}

/// The key of a long text: a hash of its length and its compressed bytes that Postgres computes too.
fn body_key(length: u64, zstd: &[u8]) -> [u8; 32] {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    Sha256::new().chain_update(length.to_be_bytes()).chain_update(zstd).finalize().into()
}

/// The header as JSON, without labels, which stay on the machine. NUL characters, which `jsonb` does not have, become replacement characters: a
/// header is not covered by the hash chain.
fn json(mut header: RunHeader) -> Result<String, String> {
    // A label may be set after the last record was shipped, and would then be missing.
    header.labels.clear();
    for text in header.texts_mut() {
        if text.contains('\0') {
            *text = text.replace('\0', "\u{fffd}");
        }
    }
    serde_json::to_string(&header).map_err(|error| error.to_string())
}

/// Postgres has no NUL characters in texts. They do not occur in practice, and what the hash chain
/// covers must not be changed.
fn check(header: &RunHeader, entries: &[ChainEntry]) -> Result<(), String> {
    let has_nul = |text: &str| text.contains('\0');
    let summary = header.summary();
    let is_bad = |entry: &ChainEntry| match entry {
        ChainEntry::Record(it) => {
            [&it.kind, &it.host, &it.channel, &it.payload].iter().any(|text| has_nul(text))
                || it.decision_point.as_deref().is_some_and(has_nul)
        }
        ChainEntry::Report(it) => [&it.host, &it.channel, &it.status].iter().any(|t| has_nul(t)),
    };
    let parent = summary.parent_run_id.as_ref().map_or("", RunId::as_str);
    if summary.run_id.as_str().len().max(parent.len()) > MAX_ID_BYTES {
        return Err(format!("its id or that of its parent has more than {MAX_ID_BYTES} bytes"));
    }
    if has_nul(summary.run_id.as_str()) || has_nul(parent) || entries.iter().any(is_bad) {
        return Err("an id or a name in it contains a NUL character, which Postgres cannot store"
            .to_owned());
    }
    Ok(())
}
