//! A project of a fleet as a [`RunReader`].

mod chains;
mod lists;
mod search;

use midcourse::{
    ChainLimit, ChainPart, ChainPosition, ListedRun, RunCursor, RunFilter, RunId, RunTableQuery,
    TableRun, Timestamp,
};
use postgres::{Client, IsolationLevel, Transaction};

use super::rows::read_run;
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
                return Err(FleetError::Refused("this role may read no project".to_owned()));
            }
            (None, Some(wanted), _) => {
                return Err(FleetError::Refused(format!(
                    "there is no project `{wanted}` that this role may read; it may read: {}",
                    list()
                )));
            }
            (None, None, _) => {
                return Err(FleetError::Ambiguous(list()));
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
        // To compile these queries takes longer than to run them.
        let settings =
            "SELECT set_config('midcourse.project', $1, false), set_config('jit', 'off', false)";
        client.execute(settings, &[&self.name])?;
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
        // Runs whose headers cannot be read are left out.
        Ok(rows.iter().filter_map(|row| read_run(row, 0).ok()).collect())
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
            // From one host to the next in the index.
            "WITH RECURSIVE hosts (host) AS ((SELECT host FROM midcourse.runs WHERE project = $1 \
             AND started IS NOT NULL ORDER BY host LIMIT 1) UNION ALL SELECT (SELECT r.host \
             FROM midcourse.runs AS r WHERE r.project = $1 AND r.started IS NOT NULL \
             AND r.host > hosts.host ORDER BY r.host LIMIT 1) FROM hosts WHERE hosts.host IS NOT NULL) \
             SELECT host FROM hosts WHERE host IS NOT NULL ORDER BY host COLLATE \"C\"",
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
        let after = if part == IdPart::Start { first_id_after(id) } else { None };
        let condition = match part {
            IdPart::Whole => "run_id = $2 AND $4::text IS NULL",
            // A range of the index on ids, which are in the order of their bytes.
            IdPart::Start => "run_id >= $2 AND ($4::text IS NULL OR run_id < $4)",
            IdPart::End => "length($2) > 0 AND right(run_id, length($2)) = $2 AND $4::text IS NULL",
        };
        let limit = i64::try_from(count).unwrap_or(i64::MAX);
        let project = self.project;
        let rows = self.client()?.query(
            // OFFSET 0 makes the server use the index on ids. Without statistics, it would expect many
            // runs with this id, and read them in the order of their starts.
            &format!(
                "SELECT run_id FROM (SELECT run_id, started, run FROM midcourse.runs \
                 WHERE project = $1 AND {condition} AND started IS NOT NULL OFFSET 0) AS found \
                 ORDER BY started DESC, run DESC LIMIT $3"
            ),
            &[&project, &id, &limit, &after],
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
        self.snapshot(|transaction, project| {
            chains::chain(transaction, project, run_id, from, limit)
        })
    }

    fn chains(
        &mut self,
        runs: &[RunId],
        limit: ChainLimit,
    ) -> Result<Vec<(ReadRun, ChainPart)>, FleetError> {
        self.snapshot(|transaction, project| chains::chains(transaction, project, runs, limit))
    }

    fn runs_with_words(
        &mut self,
        words: &str,
        filter: &RunFilter,
        after: Option<&RunId>,
        count: usize,
    ) -> Result<Vec<RunId>, FleetError> {
        search::runs_with_words(self, words, filter, after, count)
    }
}

/// The first text after all those that begin with this one; `None` if there is none.
fn first_id_after(start: &str) -> Option<String> {
    let mut text = start.to_owned();
    while let Some(last) = text.pop() {
        // Behind the characters that are no characters of their own.
        let next = u32::from(last).saturating_add(1);
        let next = if next == 0xd800 { 0xe000 } else { next };
        if let Some(next) = char::from_u32(next) {
            text.push(next);
            return Some(text);
        }
    }
    None
}
