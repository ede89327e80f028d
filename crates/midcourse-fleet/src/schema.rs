//! The schema of a fleet in Postgres: created and migrated here, and nowhere else.

use midcourse::Timestamp;
use postgres::{Client, Transaction};

use crate::error::FleetError;
use crate::target::FleetTarget;

/// SQL scripts: the first creates the schema, each further one upgrades it to the next version.
const STEPS: [&str; 1] = [include_str!("schema/1.sql")];

/// The schema version of this release.
pub const SCHEMA_VERSION: i32 = 1;

/// Serialises the commands that change the schema, and the creation of partitions. No role but the owner
/// can lock the row.
const LOCK: &str = "SELECT version FROM midcourse.version FOR UPDATE";

/// The tables with partitions, in the order in which every transaction locks them.
const PARTITIONED: [&str; 4] = ["records", "bodies", "reports", "words"];

/// How long a command waits for readers and shippers. Those that come later wait behind it.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '10s'";

/// What a role may do in a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Ship runs to it.
    Write,
    /// Read its runs.
    Read,
}

/// What [`grant`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// The password of the role, if the role was created.
    pub password: Option<String>,
    /// Whether the project was created.
    pub is_new_project: bool,
}

/// The partitions of one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Day {
    /// The day, such as `2026-11-18`.
    pub day: String,
    /// The number of runs that started on it.
    pub runs: u64,
    /// The time of the latest record of these runs.
    pub latest: Timestamp,
    /// The size of the partitions and their indexes in bytes.
    pub bytes: u64,
}

/// The version of the schema in a database; `None` if there is none.
pub fn version(client: &mut Client) -> Result<Option<i32>, FleetError> {
    let table = client.query_one("SELECT to_regclass('midcourse.version') IS NOT NULL", &[])?;
    if !table.get::<_, bool>(0) {
        return Ok(None);
    }
    Ok(client.query_opt("SELECT version FROM midcourse.version", &[])?.map(|row| row.get(0)))
}

/// Creates the schema, or upgrades it. Returns the version that it had.
pub fn migrate(client: &mut Client) -> Result<Option<i32>, FleetError> {
    apply(client, &STEPS)
}

fn apply(client: &mut Client, steps: &[&str]) -> Result<Option<i32>, FleetError> {
    let mut transaction = client.transaction()?;
    if !has_schema(&mut transaction)? {
        // While another command creates the schema, this waits for it.
        transaction.execute("SELECT pg_advisory_xact_lock(hashtext('midcourse.schema'))", &[])?;
    }
    let found = current(&mut transaction)?;
    let done = usize::try_from(found.unwrap_or(0)).unwrap_or(0);
    if done > steps.len() {
        let known = steps.len();
        return Err(FleetError::Schema(format!(
            "the fleet has schema {done}; this release of midcourse knows schemas up to {known}"
        )));
    }
    for step in steps.iter().skip(done) {
        transaction.batch_execute(step)?;
    }
    let version = i32::try_from(steps.len()).unwrap_or(i32::MAX);
    transaction.execute(
        "INSERT INTO midcourse.version (version) VALUES ($1) \
         ON CONFLICT (one) DO UPDATE SET version = $1",
        &[&version],
    )?;
    transaction.commit()?;
    Ok(found)
}

fn has_schema(transaction: &mut Transaction<'_>) -> Result<bool, FleetError> {
    let exists = "SELECT to_regclass('midcourse.version') IS NOT NULL";
    Ok(transaction.query_one(exists, &[])?.get(0))
}

fn current(transaction: &mut Transaction<'_>) -> Result<Option<i32>, FleetError> {
    if !has_schema(transaction)? {
        return Ok(None);
    }
    let found = transaction.query_opt(LOCK, &[])?;
    Ok(found.map(|row| row.get(0)))
}

/// Lets a role ship to a project or read from it. Creates the project, and with `create` the role, if
/// there is none.
pub fn grant(
    client: &mut Client,
    project: &str,
    role: &str,
    access: Access,
    create: bool,
) -> Result<Granted, FleetError> {
    check_names(project, role)?;
    let mut granted = Granted::default();
    let mut transaction = client.transaction()?;
    transaction.execute(LOCK, &[])?;
    let exists = transaction.query_opt("SELECT FROM pg_roles WHERE rolname = $1", &[&role])?;
    let name = identifier(&mut transaction, role)?;
    if exists.is_none() {
        if !create {
            return Err(FleetError::Name(format!(
                "there is no role `{role}`; create it in Postgres, or add --create"
            )));
        }
        let password =
            format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        // Not the password itself, which would be in the log of the server and in its list of
        // statements. A verifier has only letters, digits and `$+/:=-`.
        let verifier = postgres_protocol::password::scram_sha_256(password.as_bytes());
        transaction.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD '{verifier}'"))?;
        granted.password = Some(password);
    }
    let added = transaction.execute(
        "INSERT INTO midcourse.projects (name) VALUES ($1) ON CONFLICT (name) DO NOTHING",
        &[&project],
    )?;
    granted.is_new_project = added > 0;
    let may = match access {
        Access::Write => "write",
        Access::Read => "read",
    };
    transaction.execute(
        "INSERT INTO midcourse.access (role, project, may) \
         SELECT $1::text::name, project, $3 FROM midcourse.projects WHERE name = $2 \
         ON CONFLICT DO NOTHING",
        &[&role, &project, &may],
    )?;
    transaction.batch_execute(&format!("GRANT USAGE ON SCHEMA midcourse TO {name}"))?;
    transaction.batch_execute(&match access {
        Access::Write => format!(
            "GRANT EXECUTE ON FUNCTION midcourse.ship, midcourse.shipped, midcourse.heads \
             TO {name}; \
             GRANT SELECT ON midcourse.version TO {name}"
        ),
        Access::Read => format!(
            "GRANT SELECT ON midcourse.version, midcourse.projects, midcourse.runs, \
             midcourse.records, midcourse.reports, midcourse.bodies TO {name}; \
             GRANT EXECUTE ON FUNCTION midcourse.allowed, midcourse.heads, midcourse.runs_with \
             TO {name}"
        ),
    })?;
    transaction.commit()?;
    Ok(granted)
}

/// Fails if a project or a role cannot have these names.
fn check_names(project: &str, role: &str) -> Result<(), FleetError> {
    const MAX_ROLE_BYTES: usize = 63;
    const MAX_PROJECT_BYTES: usize = 64;
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_project = project.len() <= MAX_PROJECT_BYTES
        && project.bytes().next().is_some_and(is_word)
        && project.bytes().all(|byte| is_word(byte) || b"._-".contains(&byte));
    if !is_project {
        return Err(FleetError::Name(format!("`{project}` is not a valid name of a project")));
    }
    if role.is_empty() || role.len() > MAX_ROLE_BYTES || role.contains('\0') {
        return Err(FleetError::Name(format!(
            "`{role}` is not a valid name of a role; it has 1 to {MAX_ROLE_BYTES} bytes"
        )));
    }
    Ok(())
}

/// Takes the access of a role to a project away.
pub fn revoke(client: &mut Client, project: &str, role: &str) -> Result<bool, FleetError> {
    check_names(project, role)?;
    let removed = client.execute(
        "DELETE FROM midcourse.access AS a USING midcourse.projects AS p \
         WHERE a.project = p.project AND p.name = $1 AND a.role::text = $2",
        &[&project, &role],
    )?;
    Ok(removed > 0)
}

/// The name of a role as a quoted identifier.
fn identifier(transaction: &mut Transaction<'_>, role: &str) -> Result<String, FleetError> {
    Ok(transaction.query_one("SELECT quote_ident($1)", &[&role])?.get(0))
}

/// The days that have partitions, the oldest first.
pub fn days(client: &mut Client) -> Result<Vec<Day>, FleetError> {
    let rows = client.query(
        "SELECT d.day::text, count(r.run), coalesce(max(least(r.latest, (extract(epoch FROM r.received) * 1000)::bigint)), 0), \
         (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c \
          WHERE c.relnamespace = 'midcourse'::regnamespace AND c.relkind = 'r' AND c.relname IN \
          (SELECT part || to_char(d.day, '_YYYYMMDD') FROM \
           unnest(ARRAY['records', 'reports', 'bodies', 'words']) AS part)) \
         FROM midcourse.days AS d LEFT JOIN midcourse.runs AS r ON r.day = d.day \
         GROUP BY d.day ORDER BY d.day",
        &[],
    )?;
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    let day = |row: &postgres::Row| Day {
        day: row.get(0),
        runs: count(row.get(1)),
        latest: Timestamp::from_unix_ms(count(row.get(2))),
        bytes: count(row.get(3)),
    };
    Ok(rows.iter().map(day).collect())
}

/// Drops the partitions of a day, unless one of its runs has a record at `active_since` or later.
/// Returns whether the day was dropped. The rows of its runs keep the ends of their hash chains.
pub fn drop_day(
    client: &mut Client,
    day: &str,
    active_since: Timestamp,
) -> Result<bool, FleetError> {
    let since = i64::try_from(active_since.unix_ms()).unwrap_or(i64::MAX);
    let mut transaction = client.transaction()?;
    transaction.batch_execute(LOCK_TIMEOUT)?;
    // Locks the day, so that no shipper adds a run to it, and then its runs, so that none of them grows.
    let found = transaction
        .query_opt("SELECT FROM midcourse.days WHERE day = $1::text::date FOR UPDATE", &[&day])?;
    if found.is_none() {
        return Ok(false);
    }
    // The clock of the machine may be wrong, but nothing has happened after it was received.
    let rows = transaction.query(
        "SELECT least(latest, (extract(epoch FROM received) * 1000)::bigint) \
         FROM midcourse.runs WHERE day = $1::text::date ORDER BY run FOR UPDATE",
        &[&day],
    )?;
    if rows.iter().any(|row| row.get::<_, i64>(0) >= since) {
        return Ok(false);
    }
    let suffix: String =
        transaction.query_one("SELECT to_char($1::text::date, '_YYYYMMDD')", &[&day])?.get(0);
    for part in PARTITIONED {
        // The suffix has only digits.
        transaction.batch_execute(&format!("DROP TABLE IF EXISTS midcourse.{part}{suffix}"))?;
    }
    transaction.execute(
        "UPDATE midcourse.runs SET header = NULL, is_dropped = true WHERE day = $1::text::date",
        &[&day],
    )?;
    transaction.execute("DELETE FROM midcourse.days WHERE day = $1::text::date", &[&day])?;
    transaction.commit()?;
    Ok(true)
}

/// Selects a run and all its child runs, at any depth, with their days. The parameters are the names of
/// the project and the run.
const FAMILY: &str = "WITH RECURSIVE family AS (SELECT r.run, r.run_id, r.day, r.project \
     FROM midcourse.runs AS r JOIN midcourse.projects AS p ON p.project = r.project \
     WHERE p.name = $1 AND r.run_id = $2 UNION SELECT r.run, r.run_id, r.day, r.project \
     FROM midcourse.runs AS r JOIN family AS f ON r.project = f.project \
     AND r.parent_run_id = f.run_id) SELECT run, day::text FROM family";

/// Counts the runs that [`delete_run`] would remove.
pub fn count_family(client: &mut Client, project: &str, run_id: &str) -> Result<u64, FleetError> {
    if project.contains('\0') || run_id.contains('\0') {
        return Ok(0);
    }
    let rows = client.query(FAMILY, &[&project, &run_id])?;
    Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX))
}

/// Removes a run and the runs that it started, with everything that was shipped of them. They can be
/// shipped again. Returns how many runs were removed.
pub fn delete_run(client: &mut Client, project: &str, run_id: &str) -> Result<u64, FleetError> {
    if project.contains('\0') || run_id.contains('\0') {
        return Ok(0);
    }
    let mut transaction = client.transaction()?;
    transaction.batch_execute(LOCK_TIMEOUT)?;
    let rows = transaction.query(FAMILY, &[&project, &run_id])?;
    // Waits until no shipper adds to one of the runs, or refers to one of their long texts.
    let runs: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let lock = "SELECT FROM midcourse.runs WHERE run = ANY ($1) ORDER BY run FOR UPDATE";
    transaction.query(lock, &[&runs])?;
    for part in PARTITIONED {
        transaction.batch_execute(&format!("LOCK midcourse.{part} IN SHARE ROW EXCLUSIVE MODE"))?;
    }
    for row in &rows {
        let (run, day): (i64, String) = (row.get(0), row.get(1));
        for part in ["words", "reports", "records"] {
            transaction.execute(
                &format!("DELETE FROM midcourse.{part} WHERE day = $2::text::date AND run = $1"),
                &[&run, &day],
            )?;
        }
        // Long texts that no other record of the day has.
        transaction.execute(
            "DELETE FROM midcourse.bodies AS b USING midcourse.runs AS r WHERE r.run = $1 \
             AND b.day = r.day AND b.project = r.project AND NOT EXISTS (SELECT FROM \
             midcourse.records AS s WHERE s.day = b.day AND s.project = b.project \
             AND b.key = ANY (s.keys))",
            &[&run],
        )?;
        transaction.execute("DELETE FROM midcourse.runs WHERE run = $1", &[&run])?;
    }
    transaction.commit()?;
    Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX))
}

/// Connects to a fleet with the schema of this release.
pub fn connect(target: &FleetTarget) -> Result<Client, FleetError> {
    let mut client = target.connect()?;
    check(&mut client)?;
    Ok(client)
}

/// Fails unless the database has the schema of this release.
pub(crate) fn check(client: &mut Client) -> Result<(), FleetError> {
    match version(client)? {
        Some(SCHEMA_VERSION) => Ok(()),
        Some(found) if found > SCHEMA_VERSION => Err(FleetError::Schema(format!(
            "the fleet has schema {found}, and this release of midcourse knows {SCHEMA_VERSION}; \
             install the newer midcourse"
        ))),
        Some(found) => Err(FleetError::Schema(format!(
            "the fleet has schema {found}, and this release of midcourse needs {SCHEMA_VERSION}"
        ))),
        None => Err(FleetError::Schema("the database has no schema of midcourse".to_owned())),
    }
}
