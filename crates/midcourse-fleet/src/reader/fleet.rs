//! A project of a fleet as a [`RunReader`].

mod lists;
mod search;

use midcourse::{
    ChainLimit, ChainPart, ChainPosition, ListedRun, RunCursor, RunFilter, RunHeader, RunId,
    RunTableQuery, TableRun, Timestamp,
};
use postgres::{Client, IsolationLevel, Transaction};

use super::rows::{
    Bodies, RECORD_COLUMNS, REPORT_COLUMNS, in_order, keys, read_run, record, report,
};
use super::{IdPart, ReadRun, RunReader};
use crate::error::FleetError;
use crate::schema;
use crate::target::FleetTarget;

/// Reads the runs of one project. After the connection was lost, the next call connects again.
pub struct FleetReader {
    target: FleetTarget,
    client: Option<Client>,
    project: i32,
    name: String,
}

/// Where the rows of a run are.
#[derive(Debug, Clone)]
struct RunPlace {
    run: i64,
    /// As the server writes a date.
    day: String,
}

impl RunPlace {
    /// The day as SQL. A parameter would make the server plan with all partitions.
    fn date(&self) -> String {
        format!("DATE '{}'", self.day.replace('\'', ""))
    }
}

impl FleetReader {
    /// Connects to a project. Without a name, to the only project that the role may read.
    pub fn open(target: FleetTarget, project: Option<&str>) -> Result<Self, FleetError> {
        let mut client = target.connect()?;
        schema::check(&mut client)?;
        let rows =
            client.query("SELECT project, name FROM midcourse.projects ORDER BY name", &[])?;
        let names: Vec<(i32, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let list = || names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
        let found = match (project, names.as_slice()) {
            (Some(wanted), _) => names.iter().find(|(_, name)| name == wanted),
            (None, [one]) => Some(one),
            (None, _) => None,
        };
        let (project, name) = match (found, project, names.len()) {
            (Some(found), ..) => found.clone(),
            (None, _, 0) => {
                return Err(FleetError::Refused("this role may not read any project".to_owned()));
            }
            (None, Some(wanted), _) => {
                return Err(FleetError::Refused(format!(
                    "there is no project `{wanted}` that this role may read; it may read: {}",
                    list()
                )));
            }
            (None, None, _) => {
                return Err(FleetError::Target(format!(
                    "the fleet has several projects; choose one with --fleet-project: {}",
                    list()
                )));
            }
        };
        let mut reader = Self { target, client: None, project, name };
        reader.enter(client)?;
        Ok(reader)
    }

    /// The name of the project.
    pub fn project(&self) -> &str {
        &self.name
    }

    /// The projects that the role may read.
    pub fn projects(target: &FleetTarget) -> Result<Vec<String>, FleetError> {
        let mut client = target.connect()?;
        schema::check(&mut client)?;
        let rows = client.query("SELECT name FROM midcourse.projects ORDER BY name", &[])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// The id of the project in notifications.
    pub(crate) const fn project_id(&self) -> i32 {
        self.project
    }

    pub(crate) const fn target(&self) -> &FleetTarget {
        &self.target
    }

    /// Uses a connection for this project only: row-level security hides the other ones.
    fn enter(&mut self, mut client: Client) -> Result<&mut Client, FleetError> {
        client.execute("SELECT set_config('midcourse.project', $1, false)", &[&self.name])?;
        Ok(self.client.insert(client))
    }

    fn client(&mut self) -> Result<&mut Client, FleetError> {
        match self.client.take() {
            Some(client) if !client.is_closed() => Ok(self.client.insert(client)),
            _ => {
                let client = self.target.connect()?;
                self.enter(client)
            }
        }
    }

    /// The runs with these numbers, as notifications have them.
    pub fn runs_numbered(&mut self, numbers: &[i64]) -> Result<Vec<ReadRun>, FleetError> {
        let project = self.project;
        let rows = self.client()?.query(
            "SELECT header, level FROM midcourse.runs WHERE project = $1 AND run = ANY ($2) \
             AND header IS NOT NULL ORDER BY latest, run",
            &[&project, &numbers],
        )?;
        rows.iter().map(|row| read_run(row.get(0), row.get(1))).collect()
    }

    /// Checks that the fleet can be reached.
    pub fn ping(&mut self) -> Result<(), FleetError> {
        self.client()?.execute("SELECT 1", &[])?;
        Ok(())
    }

    /// Runs `read` in a transaction that sees one state of the fleet.
    fn snapshot<T>(
        &mut self,
        read: impl FnOnce(&mut Transaction<'_>, i32) -> Result<T, FleetError>,
    ) -> Result<T, FleetError> {
        let project = self.project;
        let mut transaction = self
            .client()?
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()?;
        let done = read(&mut transaction, project)?;
        transaction.commit()?;
        Ok(done)
    }
}

impl RunReader for FleetReader {
    fn list_runs(
        &mut self,
        filter: &RunFilter,
        after: RunCursor,
        count: usize,
    ) -> Result<(Vec<ListedRun>, RunCursor), FleetError> {
        self.snapshot(|transaction, project| {
            lists::list_runs(transaction, project, filter, after, count)
        })
    }

    fn listed_run_count(&mut self, filter: &RunFilter) -> Result<u64, FleetError> {
        self.snapshot(|transaction, project| lists::count(transaction, project, filter))
    }

    fn run_table(&mut self, query: &RunTableQuery) -> Result<(Vec<TableRun>, u64), FleetError> {
        self.snapshot(|transaction, project| lists::run_table(transaction, project, query))
    }

    fn hosts(&mut self) -> Result<Vec<String>, FleetError> {
        let project = self.project;
        let rows = self.client()?.query(
            "SELECT DISTINCT host COLLATE \"C\" AS host FROM midcourse.runs WHERE project = $1 \
             AND header IS NOT NULL ORDER BY host",
            &[&project],
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    fn find_runs(
        &mut self,
        id: &str,
        part: IdPart,
        count: usize,
    ) -> Result<Vec<RunId>, FleetError> {
        if id.contains('\0') {
            return Ok(Vec::new());
        }
        let condition = match part {
            IdPart::Whole => "run_id = $2",
            IdPart::Start => "left(run_id, length($2)) = $2",
            IdPart::End => "length($2) > 0 AND right(run_id, length($2)) = $2",
        };
        let limit = i64::try_from(count).unwrap_or(i64::MAX);
        let project = self.project;
        let rows = self.client()?.query(
            &format!(
                "SELECT run_id FROM midcourse.runs WHERE project = $1 AND {condition} \
                 AND header IS NOT NULL ORDER BY started DESC, run DESC LIMIT $3"
            ),
            &[&project, &id, &limit],
        )?;
        Ok(rows.iter().map(|row| RunId::from(row.get::<_, String>(0))).collect())
    }

    fn family(&mut self, run_id: &RunId) -> Result<Vec<ReadRun>, FleetError> {
        self.snapshot(|transaction, project| lists::family(transaction, project, run_id))
    }

    fn runs_between(
        &mut self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<ReadRun>, FleetError> {
        self.snapshot(|transaction, project| {
            lists::runs_between(transaction, project, since, until)
        })
    }

    fn chain_after(
        &mut self,
        run_id: &RunId,
        from: &ChainPosition,
        limit: ChainLimit,
    ) -> Result<ChainPart, FleetError> {
        self.snapshot(|transaction, project| chain(transaction, project, run_id, from, limit))
    }

    fn chains(
        &mut self,
        runs: &[RunId],
        limit: ChainLimit,
    ) -> Result<Vec<(ReadRun, ChainPart)>, FleetError> {
        self.snapshot(|transaction, project| chains(transaction, project, runs, limit))
    }

    fn runs_with_words(
        &mut self,
        words: &str,
        filter: &RunFilter,
        skip: usize,
        count: usize,
    ) -> Result<Vec<RunId>, FleetError> {
        self.snapshot(|transaction, project| {
            search::runs_with_words(transaction, project, words, filter, skip, count)
        })
    }
}

/// Reads a part of a run's hash chain. The run ends where its header says, even if more was shipped
/// since: the rest has no header yet.
fn chain(
    transaction: &mut Transaction<'_>,
    project: i32,
    run_id: &RunId,
    from: &ChainPosition,
    limit: ChainLimit,
) -> Result<ChainPart, FleetError> {
    let found = places(transaction, project, std::slice::from_ref(run_id))?;
    let (place, run) = found.into_iter().next().ok_or_else(|| gone(run_id))?;
    chain_of(transaction, project, &place, run.header, from, limit)
}

fn chains(
    transaction: &mut Transaction<'_>,
    project: i32,
    runs: &[RunId],
    limit: ChainLimit,
) -> Result<Vec<(ReadRun, ChainPart)>, FleetError> {
    let mut chains = Vec::with_capacity(runs.len());
    for (place, run) in places(transaction, project, runs)? {
        let (header, start) = (run.header.clone(), ChainPosition::start(run.header.run_id()));
        let part = chain_of(transaction, project, &place, header, &start, limit)?;
        chains.push((run, part));
    }
    Ok(chains)
}

/// Where runs are, with their headers, in the order of the ids.
fn places(
    transaction: &mut Transaction<'_>,
    project: i32,
    runs: &[RunId],
) -> Result<Vec<(RunPlace, ReadRun)>, FleetError> {
    let ids: Vec<&str> =
        runs.iter().map(RunId::as_str).filter(|run_id| !run_id.contains('\0')).collect();
    let rows = transaction.query(
        "SELECT run, day::text, header, level FROM midcourse.runs \
         WHERE project = $1 AND run_id = ANY ($2) AND header IS NOT NULL \
         ORDER BY array_position($2, run_id)",
        &[&project, &ids],
    )?;
    let place = |row: &postgres::Row| {
        let run = read_run(row.get(2), row.get(3))?;
        Ok((RunPlace { run: row.get(0), day: row.get(1) }, run))
    };
    rows.iter().map(place).collect()
}

fn gone(run_id: &RunId) -> FleetError {
    FleetError::Run(format!("there is no run {run_id} in the fleet any more"))
}

fn chain_of(
    transaction: &mut Transaction<'_>,
    project: i32,
    place: &RunPlace,
    header: RunHeader,
    from: &ChainPosition,
    limit: ChainLimit,
) -> Result<ChainPart, FleetError> {
    let end = header.end();
    let most = u64::try_from(limit.entries).unwrap_or(u64::MAX);
    let last = from.records.saturating_add(most).min(end.records);
    let (records, size) = records(transaction, project, place, [from.records, last], limit.bytes)?;
    // A dropped day is gone at once, also from a snapshot in which its runs are still listed.
    if records.is_empty() && from.records < last && !has_day(transaction, place)? {
        return Err(gone(header.run_id()));
    }
    // Fewer records than asked for, because they are large.
    let read_up_to = records.last().map_or(from.records, |it| it.seq.saturating_add(1));
    let is_whole = size < limit.bytes || read_up_to == last;
    let last = if is_whole { last } else { read_up_to };
    let reports = match from.reports < end.reports {
        true => reports(transaction, place, from.reports, last, end)?,
        false => Vec::new(),
    };
    let mut position = *from;
    let entries = in_order(records, reports);
    for entry in &entries {
        // A broken chain is read to its end: `verify` says where it is broken.
        position = position.after(entry).unwrap_or_else(|_| match entry {
            midcourse::ChainEntry::Record(it) => ChainPosition {
                records: it.seq.saturating_add(1),
                reports: position.reports,
                link: it.link,
            },
            midcourse::ChainEntry::Report(it) => ChainPosition {
                records: position.records,
                reports: it.ordinal.saturating_add(1),
                link: it.link,
            },
        });
    }
    Ok(ChainPart { header, entries, end: position })
}

fn has_day(transaction: &mut Transaction<'_>, place: &RunPlace) -> Result<bool, FleetError> {
    let row = transaction.query_one(
        "SELECT to_regclass('midcourse.records' || to_char($1::text::date, '_YYYYMMDD')) IS NOT NULL",
        &[&place.day],
    )?;
    Ok(row.try_get(0)?)
}

/// How many records are read with one query.
const PAGE: u64 = 1_000;

/// The records of a run from a seq on, before another one, until they have this many bytes; and how many
/// bytes they have.
fn records(
    transaction: &mut Transaction<'_>,
    project: i32,
    place: &RunPlace,
    [from, end]: [u64; 2],
    most_bytes: usize,
) -> Result<(Vec<midcourse::ChainRecord>, usize), FleetError> {
    let (mut found, mut size, mut next) = (Vec::new(), 0_usize, from);
    while next < end && size < most_bytes {
        let until = next.saturating_add(PAGE).min(end);
        let rows = transaction.query(
            &format!(
                "SELECT {RECORD_COLUMNS} FROM midcourse.records AS s WHERE s.day = {} \
                 AND s.run = $1 AND s.seq >= $2 AND s.seq < $3 ORDER BY s.seq",
                place.date()
            ),
            &[&place.run, &signed(next), &signed(until)],
        )?;
        let mut wanted = Vec::new();
        for row in &rows {
            wanted.extend(keys(row)?);
        }
        let bodies = bodies(transaction, project, place, wanted)?;
        for row in &rows {
            let record = record(row, &bodies)?;
            let texts: usize = record.bodies.iter().map(|body| body.zstd.len()).sum();
            size = size.saturating_add(record.payload.len()).saturating_add(texts);
            found.push(record);
            if size >= most_bytes {
                return Ok((found, size));
            }
        }
        next = until;
    }
    Ok((found, size))
}

fn bodies(
    transaction: &mut Transaction<'_>,
    project: i32,
    place: &RunPlace,
    mut wanted: Vec<Vec<u8>>,
) -> Result<Bodies, FleetError> {
    if wanted.is_empty() {
        return Ok(Bodies::new());
    }
    wanted.sort_unstable();
    wanted.dedup();
    let rows = transaction.query(
        &format!(
            "SELECT key, length, zstd FROM midcourse.bodies \
             WHERE day = {} AND project = $1 AND key = ANY ($2)",
            place.date()
        ),
        &[&project, &wanted],
    )?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, (super::rows::unsigned(row, 1)?, row.try_get(2)?))))
        .collect()
}

/// The reports of a run from an ordinal on, up to those that arrived before the record at `last`.
fn reports(
    transaction: &mut Transaction<'_>,
    place: &RunPlace,
    from: u64,
    last: u64,
    end: ChainPosition,
) -> Result<Vec<midcourse::ChainReport>, FleetError> {
    if from >= end.reports {
        return Ok(Vec::new());
    }
    // Those after the last record that is read belong to the next part, unless this is the last one.
    let before = if last >= end.records { i64::MAX } else { signed(last) };
    let rows = transaction.query(
        &format!(
            "SELECT {REPORT_COLUMNS} FROM midcourse.reports WHERE day = {} AND run = $1 \
             AND ordinal >= $2 AND ordinal < $3 AND after < $4 ORDER BY ordinal",
            place.date()
        ),
        &[&place.run, &signed(from), &signed(end.reports), &before],
    )?;
    rows.iter().map(report).collect()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
