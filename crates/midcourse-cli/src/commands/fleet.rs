//! `midcourse fleet`: what the owner of a fleet's Postgres does.

use std::io::{Write as _, stdout};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use indicatif::DecimalBytes;
use midcourse::{Timestamp, now};
use midcourse_fleet::schema::{self, Access, Day, SCHEMA_VERSION};
use midcourse_fleet::{Client, FleetReader, FleetTarget, Level, LocalCopy, RunReader as _};
use serde_json::json;

use super::open;
use crate::display::{counted, escape_control_chars, one_line};
use crate::duration::parse_age;

/// How many runs of a fleet are copied before the copies are removed.
const RUNS_PER_COPY: usize = 200;

#[derive(clap::Args)]
pub(super) struct Command {
    #[command(subcommand)]
    task: Task,
}

/// The address of the fleet, which every subcommand takes.
#[derive(clap::Args)]
struct Address {
    /// The fleet: postgres://USER@HOST/DATABASE or service=NAME.
    ///
    /// The password comes from PGPASSWORD, a password file or the service entry.
    #[arg(value_name = "ADDRESS")]
    address: String,
}

impl Address {
    fn target(&self) -> Result<FleetTarget> {
        Ok(FleetTarget::parse(&self.address)?)
    }

    fn connect(&self) -> Result<Client> {
        Ok(schema::connect(&self.target()?)?)
    }
}

#[derive(Subcommand)]
enum Task {
    /// Create the schema of a fleet in an empty database.
    Init(Address),
    /// Upgrade the schema of a fleet to this release.
    Migrate(Address),
    /// Let a role ship runs to a project, or read them.
    ///
    /// Creates the project if there is none.
    Grant(GrantArguments),
    /// Remove a role's access to a project.
    Revoke(RevokeArguments),
    /// Show how many runs each day has, and how much space they take.
    Days(DaysArguments),
    /// Drop the days whose latest record is older than a limit, in all projects.
    ///
    /// Without `--yes`, shows what would be dropped. The last hash of each run stays, for `midcourse
    /// verify --against`; the fleet takes nothing more of these runs. To keep the runs, archive each
    /// project before: `midcourse archive --store ADDRESS --fleet-project NAME`.
    Prune(PruneArguments),
    /// Delete a run and its child runs from a fleet.
    ///
    /// A machine that still has them ships them again when its shipper connects the next time. So this
    /// is also the way to replace a run after `midcourse redact`; to remove a run for good, delete it on
    /// its machine first (`midcourse delete`).
    Delete(DeleteArguments),
    /// Check the hash chains of all runs of a project.
    Verify(VerifyArguments),
}

#[derive(clap::Args)]
struct GrantArguments {
    #[command(flatten)]
    address: Address,
    /// Grant access to this project.
    #[arg(long, value_name = "NAME")]
    project: String,
    /// Let this role of Postgres ship runs.
    #[arg(long, value_name = "ROLE", required_unless_present = "reader")]
    writer: Option<String>,
    /// Let this role of Postgres read runs.
    #[arg(long, value_name = "ROLE", required_unless_present = "writer")]
    reader: Option<String>,
    /// Create the role if there is none, and print its password.
    #[arg(long)]
    create: bool,
}

#[derive(clap::Args)]
struct RevokeArguments {
    #[command(flatten)]
    address: Address,
    /// Remove access to this project.
    #[arg(long, value_name = "NAME")]
    project: String,
    /// The role of Postgres that loses it.
    #[arg(long, value_name = "ROLE")]
    role: String,
}

#[derive(clap::Args)]
struct DaysArguments {
    #[command(flatten)]
    address: Address,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct PruneArguments {
    #[command(flatten)]
    address: Address,
    /// Drop days whose latest record is older than this, such as `90d`.
    #[arg(long, value_name = "DURATION", value_parser = older_than)]
    older_than: Duration,
    /// Drop the days; without this, only show them.
    #[arg(long)]
    yes: bool,
}

#[derive(clap::Args)]
struct DeleteArguments {
    #[command(flatten)]
    address: Address,
    /// The project of the run.
    #[arg(long, value_name = "NAME")]
    project: String,
    /// The whole id of the run.
    run: String,
    /// Delete; without this, only show what would be deleted.
    #[arg(long)]
    yes: bool,
}

#[derive(clap::Args)]
struct VerifyArguments {
    #[command(flatten)]
    address: Address,
    /// Check this project; by default the only one that you may read.
    #[arg(long, alias = "fleet-project", value_name = "NAME")]
    project: Option<String>,
    /// Print JSON lines: the problems, then a summary.
    #[arg(long)]
    json: bool,
}

fn older_than(text: &str) -> Result<Duration> {
    parse_age(text).with_context(|| format!("invalid duration `{text}`; try `90d`"))
}

/// Does the task, and returns true if it found no problems.
pub(super) fn run(command: &Command) -> Result<bool> {
    match &command.task {
        Task::Init(address) => init(address)?,
        Task::Migrate(address) => migrate(address)?,
        Task::Grant(arguments) => grant(arguments)?,
        Task::Revoke(arguments) => revoke(arguments)?,
        Task::Days(arguments) => days(arguments)?,
        Task::Prune(arguments) => prune(arguments)?,
        Task::Delete(arguments) => delete(arguments)?,
        Task::Verify(arguments) => return verify(arguments),
    }
    Ok(true)
}

fn init(address: &Address) -> Result<()> {
    let mut client = address.target()?.connect()?;
    let mut out = stdout().lock();
    match schema::migrate(&mut client)? {
        None => writeln!(
            out,
            "Created the schema. Next: midcourse fleet grant ADDRESS --project NAME --writer ROLE"
        )?,
        Some(SCHEMA_VERSION) => writeln!(out, "The database has the schema already.")?,
        Some(found) => writeln!(out, "Upgraded the schema from {found} to {SCHEMA_VERSION}.")?,
    }
    Ok(())
}

fn migrate(address: &Address) -> Result<()> {
    let mut client = address.target()?.connect()?;
    if schema::version(&mut client)?.is_none() {
        bail!("the database has no schema of midcourse; create it with `midcourse fleet init`");
    }
    let mut out = stdout().lock();
    match schema::migrate(&mut client)? {
        Some(SCHEMA_VERSION) => writeln!(out, "The schema is up to date.")?,
        found => {
            let found = found.unwrap_or_default();
            writeln!(out, "Upgraded the schema from {found} to {SCHEMA_VERSION}.")?;
        }
    }
    Ok(())
}

fn grant(arguments: &GrantArguments) -> Result<()> {
    let mut client = arguments.address.connect()?;
    let mut out = stdout().lock();
    let wanted = [(&arguments.writer, Access::Write), (&arguments.reader, Access::Read)];
    for (role, access) in wanted {
        let Some(role) = role else { continue };
        let granted =
            schema::grant(&mut client, &arguments.project, role, access, arguments.create)?;
        let (role, project) =
            (escape_control_chars(role), escape_control_chars(&arguments.project));
        if granted.is_new_project {
            writeln!(out, "Created the project {project}.")?;
        }
        let may = match access {
            Access::Write => "ship to",
            Access::Read => "read",
        };
        writeln!(out, "{role} may {may} {project}.")?;
        if let Some(password) = granted.password {
            writeln!(out, "Created the role {role}. Its password is not shown again: {password}")?;
        } else if arguments.create {
            writeln!(out, "The role {role} existed; its password is unchanged.")?;
        }
    }
    Ok(())
}

fn revoke(arguments: &RevokeArguments) -> Result<()> {
    let mut client = arguments.address.connect()?;
    let (role, project) =
        (escape_control_chars(&arguments.role), escape_control_chars(&arguments.project));
    match schema::revoke(&mut client, &arguments.project, &arguments.role)? {
        true => writeln!(stdout(), "{role} has no access to {project} any more.")?,
        false => bail!("{role} has no access to {project}"),
    }
    Ok(())
}

fn days(arguments: &DaysArguments) -> Result<()> {
    let days = schema::days(&mut arguments.address.connect()?)?;
    let mut out = stdout().lock();
    for Day { day, runs, bytes, .. } in &days {
        match arguments.json {
            true => {
                let line = json!({"type": "day", "day": day, "runs": runs, "bytes": bytes});
                writeln!(out, "{line}")?;
            }
            false => {
                writeln!(out, "{day}  {runs:>8} runs  {:>10}", DecimalBytes(*bytes).to_string())?
            }
        }
    }
    if days.is_empty() && !arguments.json {
        writeln!(out, "Nothing was shipped yet.")?;
    }
    Ok(())
}

fn prune(arguments: &PruneArguments) -> Result<()> {
    let mut client = arguments.address.connect()?;
    let age = u64::try_from(arguments.older_than.as_millis()).unwrap_or(u64::MAX);
    let before = Timestamp::from_unix_ms(now().unix_ms().saturating_sub(age));
    let mut out = stdout().lock();
    let (mut dropped, mut bytes) = (0_u64, 0_u64);
    for day in schema::days(&mut client)? {
        if day.latest >= before {
            continue;
        }
        if arguments.yes && !schema::drop_day(&mut client, &day.day, before)? {
            writeln!(out, "{}  kept: a run of this day has just got a new record", day.day)?;
            continue;
        }
        dropped += 1;
        bytes = bytes.saturating_add(day.bytes);
        writeln!(
            out,
            "{}  {:>8} runs  {:>10}",
            day.day,
            day.runs,
            DecimalBytes(day.bytes).to_string()
        )?;
    }
    match (arguments.yes, dropped) {
        (_, 0) => writeln!(out, "Nothing to drop: no day has only older records.")?,
        (true, _) => {
            writeln!(out, "Dropped {}, {}.", counted(dropped, "day"), DecimalBytes(bytes))?;
        }
        (false, _) => writeln!(
            out,
            "{} would be dropped, {}; add --yes to drop them.",
            counted(dropped, "day"),
            DecimalBytes(bytes)
        )?,
    }
    Ok(())
}

fn delete(arguments: &DeleteArguments) -> Result<()> {
    let mut client = arguments.address.connect()?;
    let (run, project) = (one_line(&arguments.run, 80), one_line(&arguments.project, 80));
    let count = match arguments.yes {
        true => schema::delete_run(&mut client, &arguments.project, &arguments.run)?,
        false => schema::count_family(&mut client, &arguments.project, &arguments.run)?,
    };
    let runs = counted(count, "run");
    match (count, arguments.yes) {
        (0, _) => bail!("there is no run `{run}` in the project `{project}`"),
        (_, true) => writeln!(stdout(), "Deleted {runs}.")?,
        (_, false) => writeln!(
            stdout(),
            "{runs} would be deleted: {run} and its child runs; add --yes to delete them."
        )?,
    }
    Ok(())
}

fn verify(arguments: &VerifyArguments) -> Result<bool> {
    let target = arguments.address.target()?;
    let mut reader = FleetReader::open(target, arguments.project.as_deref())?;
    let all = reader.runs_between(Timestamp::default(), Timestamp::from_unix_ms(u64::MAX))?;
    let records: u64 = all.iter().map(|run| run.header.end().records).sum();
    let bar = open::progress(records, "verifying");
    let mut out = stdout().lock();
    let mut problems = 0_u64;
    for runs in all.chunks(RUNS_PER_COPY) {
        let (mut copy, mut findings) = (LocalCopy::new()?, Vec::new());
        for run in runs {
            copy.bring_if_readable(&mut reader, run)?;
            let findings_of_run = match run.level {
                Level::Full => copy.store().verify_run(run.header.run_id())?,
                Level::Metadata => Vec::new(),
            };
            for finding in findings_of_run {
                // A child run is copied without its parent here.
                if !finding.description.starts_with("its parent run") {
                    findings.push(finding);
                }
            }
            bar.inc(run.header.end().records);
        }
        // A run that cannot be read, whoever has shipped it, keeps no other from being checked.
        findings.extend_from_slice(copy.unreadable());
        problems += u64::try_from(findings.len()).unwrap_or(u64::MAX);
        for finding in findings {
            match arguments.json {
                true => {
                    let line = json!({"type": "problem", "run_id": finding.run_id,
                                      "problem": finding.description});
                    writeln!(out, "{line}")?;
                }
                false => writeln!(out, "{}", one_line(&finding.to_string(), 500))?,
            }
        }
    }
    bar.finish_and_clear();
    let runs = all.len();
    // Their hashes cover the texts, which stayed on the machine.
    let unchecked = all.iter().filter(|run| run.level == Level::Metadata).count();
    if arguments.json {
        let line = json!({"type": "summary", "runs": runs, "records": records,
                          "problems": problems, "metadata_runs": unchecked});
        writeln!(out, "{line}")?;
        return Ok(problems == 0);
    }
    let found = if problems == 0 { "no problems".to_owned() } else { counted(problems, "problem") };
    write!(out, "{}, {}: {found}.", counted(runs, "run"), counted(records, "record"))?;
    if unchecked > 0 {
        let unchecked = counted(unchecked, "run");
        write!(out, " The hashes of {unchecked} that came as metadata cannot be checked.")?;
    }
    writeln!(out)?;
    Ok(problems == 0)
}
