//! `midcourse ship`: ships the runs of this machine to a fleet's Postgres.

mod background;
mod installation;

use std::io::{Write as _, stdout};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use midcourse::{DataDir, Store, has_spilled};
use midcourse_fleet::{
    FleetError, FleetTarget, Level, Progress, ShipSettings, Shipper, unshipped_runs,
};

use super::open;
use super::refresh::refresh_all;
use crate::config::{self, Ship, ShipLevel};
use crate::display::{counted, escape_control_chars, one_line};
use crate::duration::parse_duration;
use crate::log::Log;
use crate::terminal::{eprint_line, warn};

pub(super) use background::start;

/// The project if neither an option nor the configuration names one.
const DEFAULT_PROJECT: &str = "default";

/// How long to wait after a batch before the next one, if the user does not say, so that a batch has
/// several records: a batch of one record costs the server about as much as a batch of ten.
const DEFAULT_PAUSE: Duration = Duration::from_secs(2);

/// How often the store is checked for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// After this time without a change, runs that were refused are tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// The pause after the first failure in a row; each further pause is twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);

/// How long to wait while another process ships the store but makes no progress.
const OTHER_PROCESS: Duration = Duration::from_secs(30);

/// How often the same problem is logged at most.
const REPEAT_LOG: Duration = Duration::from_secs(600);

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Command {
    #[command(subcommand)]
    service: Option<installation::Service>,
    #[command(flatten)]
    arguments: Arguments,
}

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Ship to this fleet; by default the one in your configuration (`[ship]`).
    ///
    /// The address is postgres://USER@HOST/DATABASE or service=NAME. The password comes from
    /// PGPASSWORD, a password file or the service entry, and never from the command line.
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    /// Ship to this project of the fleet.
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Ship everything, or only metadata: no text of the user, the model or a tool.
    #[arg(long, value_enum, value_name = "LEVEL")]
    level: Option<LevelName>,
    /// Keep running, and ship what is new.
    #[arg(long, short = 'f')]
    follow: bool,
    /// With --follow, wait this long after each batch [default: 2s].
    ///
    /// Longer pauses make larger batches, which cost the server less.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    every: Option<Duration>,
    /// Keep running until nothing was recorded for this time.
    #[arg(long, value_name = "DURATION", value_parser = duration, hide = true)]
    until_idle: Option<Duration>,
    /// Write problems to the log file instead of standard error.
    #[arg(long, hide = true)]
    log: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct LevelName(Level);

impl ValueEnum for LevelName {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(Level::Full), Self(Level::Metadata)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.as_str()))
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("invalid duration `{text}`; try `30s` or `10m`"))
}

/// Where to ship, what, and how often.
pub(super) struct Plan {
    pub(super) target: FleetTarget,
    pub(super) settings: ShipSettings,
    pause: Duration,
}

impl Plan {
    /// What the user's configuration says; `None` if it names no fleet.
    pub(super) fn configured(data_dir: &DataDir) -> Option<Result<Self>> {
        let ship = config::users_ship(data_dir).ok()?;
        ship.to.is_some().then(|| Self::of(ship, data_dir))
    }

    fn of(ship: Ship, data_dir: &DataDir) -> Result<Self> {
        let address = ship.to.with_context(|| {
            format!(
                "no fleet is configured; pass `--to postgres://USER@HOST/DATABASE`, or set `to` in \
                 the table `[ship]` of {}",
                data_dir.config_file().display()
            )
        })?;
        let project = ship.project.unwrap_or_else(|| DEFAULT_PROJECT.to_owned());
        let settings = ShipSettings { project, level: level_of(ship.level) };
        let pause = ship.every.unwrap_or(DEFAULT_PAUSE);
        Ok(Self { target: FleetTarget::parse(&address)?, settings, pause })
    }

    /// The fleet, the project and the level, as messages name them.
    fn place(&self) -> String {
        let level = if self.settings.level == Level::Metadata { ", metadata only" } else { "" };
        let place = format!("{} (project {}{level})", self.target, self.settings.project);
        escape_control_chars(&place).into_owned()
    }
}

impl Arguments {
    /// What the configuration says, except for what the options say.
    fn plan(&self, data_dir: &DataDir) -> Result<Plan> {
        let configured = match config::users_ship(data_dir) {
            Ok(configured) => configured,
            // What the file would say is not needed, or not all of it.
            Err(error) if self.to.is_some() => {
                warn(&error.to_string());
                Ship::default()
            }
            Err(error) => return Err(error.into()),
        };
        let to = self.to.clone().or(configured.to);
        let project = self.project.clone().or(configured.project);
        let every = self.every.or(configured.every);
        let ship = Ship { to, project, level: configured.level, every };
        let mut plan = Plan::of(ship, data_dir)?;
        if let Some(level) = self.level {
            plan.settings.level = level.0;
        }
        Ok(plan)
    }
}

const fn level_of(level: ShipLevel) -> Level {
    match level {
        ShipLevel::Full => Level::Full,
        ShipLevel::Metadata => Level::Metadata,
    }
}

/// Ships, and returns true if every run was accepted.
pub(super) fn run(command: &Command) -> Result<bool> {
    let arguments = &command.arguments;
    if let Some(service) = &command.service {
        return installation::run(service).map(|()| true);
    }
    let data_dir = open::data_dir()?;
    let plan = arguments.plan(&data_dir)?;
    let follow = Follow {
        problems: Problems {
            log: arguments.log.then(|| Log::new(Some(&data_dir), "ship")),
            last: None,
        },
        until_idle: arguments.until_idle,
    };
    if arguments.follow || arguments.until_idle.is_some() {
        return match follow.run(&data_dir, plan) {
            // Another process does the same for this store.
            Err(error) if arguments.log && is_shipping(&error) => Ok(true),
            other => other.map(|()| true),
        };
    }
    let Some(store) = open::existing()? else {
        let folder = data_dir.path().display().to_string();
        let folder = escape_control_chars(&folder);
        writeln!(stdout(), "Nothing to ship: no runs are recorded in {folder}.")?;
        return Ok(true);
    };
    let Some(mut shipper) = open_or_wait(&data_dir, &plan)? else {
        let place = plan.place();
        writeln!(
            stdout(),
            "Another process ships this store, and has shipped everything to {place}."
        )?;
        return Ok(true);
    };
    shipper.connect()?;
    refresh_all(&store);
    let bar = open::progress(0, "shipping");
    let progress = shipper.ship(|batch| bar.inc(batch.records))?;
    bar.finish_and_clear();
    print(&progress, &plan)?;
    Ok(progress.refused.is_empty())
}

/// Prepares to ship. If another process is shipping this store, waits until that process has shipped
/// everything, and returns `None`. So a job that ends with `midcourse ship` has shipped all its records.
fn open_or_wait(data_dir: &DataDir, plan: &Plan) -> Result<Option<Shipper>> {
    let (mut left, mut progress) = (usize::MAX, Instant::now());
    loop {
        match Shipper::open(data_dir, plan.target.clone(), plan.settings.clone()) {
            Err(FleetError::AlreadyShipping) => {}
            opened => return Ok(opened?),
        }
        let unshipped = unshipped_runs(data_dir, &plan.target, &plan.settings.project)?;
        if unshipped == 0 {
            return Ok(None);
        }
        if unshipped < left {
            (left, progress) = (unshipped, Instant::now());
        }
        if progress.elapsed() > OTHER_PROCESS {
            bail!(
                "another process ships this store, but {left} runs are not shipped after {} s; \
                 `hook.log` in {} says why",
                OTHER_PROCESS.as_secs(),
                data_dir.path().display()
            );
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn is_shipping(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(FleetError::AlreadyShipping))
}

fn print(progress: &Progress, plan: &Plan) -> Result<()> {
    let mut out = stdout().lock();
    for refused in &progress.refused {
        let id = one_line(refused.run_id.as_str(), 80);
        warn(&format!("run {id} was not shipped: {}", escape_control_chars(&refused.why)));
    }
    let place = plan.place();
    match (progress.records, progress.reports, progress.refused.len()) {
        (0, 0, 0) => writeln!(out, "Nothing new to ship to {place}.")?,
        (0, 0, refused) => {
            let refused = counted(refused, "run");
            writeln!(out, "Shipped nothing to {place}; {refused} refused.")?;
        }
        (records, ..) => {
            let (records, runs) = (counted(records, "record"), counted(progress.runs, "run"));
            writeln!(out, "Shipped {records} of {runs} to {place}.")?;
        }
    }
    Ok(out.flush()?)
}

/// Where problems of a shipper that keeps running are written.
struct Problems {
    log: Option<Log>,
    /// The last problem, and when it was written.
    last: Option<(String, Instant)>,
}

impl Problems {
    fn write(&mut self, problem: &str) {
        let is_known = self
            .last
            .as_ref()
            .is_some_and(|(last, at)| last == problem && at.elapsed() < REPEAT_LOG);
        if is_known {
            return;
        }
        self.last = Some((problem.to_owned(), Instant::now()));
        match &self.log {
            Some(log) => log.write(problem),
            None => warn(problem),
        }
    }
}

/// A shipper that keeps running.
struct Follow {
    problems: Problems,
    until_idle: Option<Duration>,
}

impl Follow {
    fn waits_for(&self, error: &FleetError) -> bool {
        self.problems.log.is_none() && matches!(error, FleetError::AlreadyShipping)
    }

    fn run(mut self, data_dir: &DataDir, plan: Plan) -> Result<()> {
        let (mut shipper, mut retry) = (None::<Shipper>, FIRST_RETRY);
        // The version of the store that is shipped, and the latest one.
        let (mut seen, mut latest) = (None, None);
        let (mut latest_news, mut looked) = (Instant::now(), Instant::now());
        loop {
            let mut attempt = || -> Result<(Option<i64>, Progress), FleetError> {
                if has_spilled(data_dir) {
                    // If it fails, the next round tries it again.
                    let _ = open::existing();
                }
                if shipper.is_none() {
                    let (target, settings) = (plan.target.clone(), plan.settings.clone());
                    shipper = Shipper::open(data_dir, target, settings)?;
                }
                let Some(shipper) = &mut shipper else { return Ok((None, Progress::default())) };
                // Read first: what is stored meanwhile is shipped in the next round.
                let version = shipper.data_version()?;
                if latest != Some(version) {
                    latest = Some(version);
                    latest_news = Instant::now();
                }
                let is_quiet = seen == Some(version) && looked.elapsed() < LOOK_AGAIN;
                if is_quiet && !has_spilled(data_dir) {
                    return Ok((seen, Progress::default()));
                }
                // A run is shipped with its summary, so that is computed before.
                if let Some(store) = Store::open_read_only(data_dir)? {
                    refresh_all(&store);
                }
                let progress = shipper.ship(|_| ())?;
                looked = Instant::now();
                Ok((Some(version), progress))
            };
            let pause = match attempt() {
                Ok((version, progress)) => {
                    retry = FIRST_RETRY;
                    seen = version;
                    for refused in &progress.refused {
                        let id = one_line(refused.run_id.as_str(), 80);
                        self.problems.write(&format!("run {id} was not shipped: {}", refused.why));
                    }
                    let pause = if progress.batches > 0 { plan.pause } else { POLL_INTERVAL };
                    if progress.batches > 0 && self.problems.log.is_none() {
                        print(&Progress { refused: Vec::new(), ..progress }, &plan)?;
                    }
                    pause
                }
                // A background process ends when nothing was recorded for a while. A second one ends at
                // once; somebody who asked for a shipper waits.
                Err(error) if error.is_temporary() || self.waits_for(&error) => {
                    self.problems.write(&format!("{error}; trying again"));
                    let pause = retry.mul_f64(jitter());
                    retry = retry.saturating_mul(2).min(MAX_RETRY);
                    pause
                }
                Err(error) => {
                    if !matches!(error, FleetError::AlreadyShipping) {
                        self.problems.write(&format!("{error}: {}", error.hint()));
                    }
                    return Err(error.into());
                }
            };
            if self.until_idle.is_some_and(|idle| latest_news.elapsed() >= idle) {
                return Ok(());
            }
            thread::sleep(pause);
        }
    }
}

/// A factor between 0.75 and 1.25, so that the machines of a fleet do not all come back at once.
fn jitter() -> f64 {
    let [byte, ..] = *uuid::Uuid::new_v4().as_bytes();
    0.75 + f64::from(byte) / 510.0
}

/// Says that nothing is configured, for `midcourse ship install`.
fn note(text: &str) {
    eprint_line(text);
}
