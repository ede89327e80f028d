//! Where commands read runs: the store on this machine, or with `--store` a fleet's Postgres.
//!
//! A command reads lists from the [`Source`], and everything about one run from [`Source::store`]: the
//! user's store, or a temporary store with copies of the runs that the command has asked for.

#[cfg(feature = "fleet")]
use anyhow::Context as _;
use anyhow::Result;
#[cfg(feature = "fleet")]
use midcourse::{DataDir, RunId};
use midcourse::{
    Finding, ListedRun, RunCursor, RunFilter, RunSummary, SearchFilter, SearchHit, SearchIndex,
    Store, Timestamp,
};
#[cfg(feature = "fleet")]
use midcourse_fleet::{Changed, FleetReader, FleetTarget, IdPart, LocalCopy, RunReader as _};

use super::open;
use super::refresh::{Outdated, refresh};
#[cfg(feature = "fleet")]
use crate::display::one_line;
#[cfg(feature = "fleet")]
use crate::terminal::warn;

#[derive(clap::Args, Default)]
pub(super) struct StoreArguments {
    /// Read from this fleet instead of the store on this machine (see docs/fleet.md).
    ///
    /// The address is postgres://USER@HOST/DATABASE or service=NAME. The password comes from
    /// PGPASSWORD, a password file or the service entry.
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) store: Option<String>,
    /// Read this project of the fleet; by default the only one that you may read.
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "NAME", requires = "store")]
    pub(super) fleet_project: Option<String>,
}

/// Runs, wherever they are.
pub(super) enum Source {
    Local(Box<Store>),
    #[cfg(feature = "fleet")]
    Fleet(Box<Fleet>),
}

/// A project of a fleet, with copies of the runs that were asked for.
#[cfg(feature = "fleet")]
pub(super) struct Fleet {
    pub(super) reader: FleetReader,
    pub(super) copy: LocalCopy,
}

/// Maximum number of runs that are looked at to find one by a part of its id.
#[cfg(feature = "fleet")]
const MAX_FOUND: usize = 12;

impl StoreArguments {
    /// Opens the fleet that the options name, or the store on this machine. Fails if there is none.
    pub(super) fn open(&self) -> Result<Source> {
        #[cfg(feature = "fleet")]
        if let Some(fleet) = self.fleet()? {
            return Ok(Source::Fleet(Box::new(fleet)));
        }
        Ok(Source::Local(Box::new(open::to_read()?)))
    }

    /// Like [`Self::open`]; `None` if there is no store on this machine yet.
    pub(super) fn existing(&self) -> Result<Option<Source>> {
        #[cfg(feature = "fleet")]
        if let Some(fleet) = self.fleet()? {
            return Ok(Some(Source::Fleet(Box::new(fleet))));
        }
        Ok(open::existing()?.map(|store| Source::Local(Box::new(store))))
    }

    /// Whether the options name a fleet.
    #[cfg(feature = "archive")]
    pub(super) const fn is_fleet(&self) -> bool {
        #[cfg(feature = "fleet")]
        return self.store.is_some();
        #[cfg(not(feature = "fleet"))]
        false
    }

    #[cfg(feature = "fleet")]
    pub(super) fn fleet(&self) -> Result<Option<Fleet>> {
        let Some(address) = &self.store else { return Ok(None) };
        Fleet::open(FleetTarget::parse(address)?, self.fleet_project.as_deref()).map(Some)
    }
}

impl Source {
    /// The store with the runs of this machine, or with copies of the runs that were asked for.
    pub(super) fn store(&self) -> &Store {
        match self {
            Self::Local(store) => store,
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) => fleet.copy.store(),
        }
    }

    /// Brings summaries of this machine's runs up to date. Those of a fleet are what its machines say.
    pub(super) fn refresh(&self, outdated: Outdated) {
        match self {
            Self::Local(store) => refresh(store, outdated),
            #[cfg(feature = "fleet")]
            Self::Fleet(_) => {}
        }
    }

    /// Finds a run as [`open::find_run`] does. The store then has it and its child runs.
    pub(super) fn find_run(&mut self, name: &str) -> Result<RunSummary> {
        match self {
            Self::Local(store) => open::find_run(store, name),
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) => {
                fleet.bring_candidates(name)?;
                let found = open::find_run(fleet.copy.store(), name)?;
                fleet.bring(&found.run_id)
            }
        }
    }

    /// Finds a run or a record as [`open::find_run_or_record`] does.
    pub(super) fn find_run_or_record(&mut self, name: &str) -> Result<(RunSummary, Option<u64>)> {
        match self {
            Self::Local(store) => open::find_run_or_record(store, name),
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) => {
                fleet.bring_candidates(name)?;
                if let Some((run, _)) = name.rsplit_once(':') {
                    fleet.bring_candidates(run)?;
                }
                let (found, seq) = open::find_run_or_record(fleet.copy.store(), name)?;
                Ok((fleet.bring(&found.run_id)?, seq))
            }
        }
    }

    pub(super) fn list_runs(
        &mut self,
        filter: &RunFilter,
        after: RunCursor,
        count: usize,
    ) -> Result<(Vec<ListedRun>, RunCursor)> {
        Ok(match self {
            Self::Local(store) => store.list_runs(filter, after, count)?,
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) => fleet.reader.list_runs(filter, after, count)?,
        })
    }

    pub(super) fn listed_run_count(&mut self, filter: &RunFilter) -> Result<u64> {
        Ok(match self {
            Self::Local(store) => store.listed_run_count(filter)?,
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) => fleet.reader.listed_run_count(filter)?,
        })
    }

    /// Prepares a report over the runs of a period.
    pub(super) fn prepare_period(&mut self, since: Timestamp, until: Timestamp) -> Result<()> {
        match self {
            Self::Local(_) => {}
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) => fleet.copy.bring_period(&mut fleet.reader, since, until)?,
        }
        let _ = (since, until);
        Ok(())
    }

    /// Checks a run, as [`Store::verify_run`] does. Finds nothing in a run that was shipped as metadata:
    /// its hashes and counts belong to the texts, which are missing.
    pub(super) fn verify_run(&self, run_id: &midcourse::RunId) -> Result<Vec<Finding>> {
        match self {
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) if fleet.copy.is_metadata(run_id) => Ok(Vec::new()),
            _ => Ok(self.store().verify_run(run_id)?),
        }
    }

    /// Begins to follow a fleet, and copies the runs that were active last, about as many as `count`
    /// records need. `None` for the store of this machine, which is polled.
    pub(super) fn follow(
        &mut self,
        run: Option<&midcourse::RunId>,
        count: usize,
    ) -> Result<Option<Live>> {
        #[cfg(feature = "fleet")]
        if let Self::Fleet(fleet) = self {
            remove_copies_on_signals();
            let live = Live(midcourse_fleet::Follower::open(&fleet.reader)?);
            if run.is_none() {
                fleet.bring_latest(count.clamp(1, MAX_LATEST))?;
            }
            return Ok(Some(live));
        }
        let _ = (run, count);
        Ok(None)
    }

    /// Searches the texts of all runs.
    pub(super) fn search(
        &mut self,
        words: &str,
        filter: &SearchFilter,
        count: usize,
    ) -> Result<(Vec<SearchHit>, Vec<Finding>)> {
        match self {
            Self::Local(store) => {
                let mut index = SearchIndex::open(store)?;
                let bar = open::progress(0, "indexing");
                index.catch_up(store, |remaining| {
                    bar.set_length(bar.length().unwrap_or(0).max(remaining));
                    bar.set_position(bar.length().unwrap_or(0).saturating_sub(remaining));
                })?;
                bar.finish_and_clear();
                Ok(index.search(store, words, filter, count)?)
            }
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) => Ok(fleet.copy.search(&mut fleet.reader, words, filter, count)?),
        }
    }
}

/// Removes the copies of runs when a signal ends the process: a command that follows ends in no other way.
#[cfg(feature = "fleet")]
fn remove_copies_on_signals() {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        // If the handler cannot be set, the next process removes the copies.
        let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) else {
            return;
        };
        std::thread::spawn(move || {
            for signal in signals.forever() {
                midcourse_fleet::remove_copies();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
    }
}

/// Waits for what is shipped to a fleet.
#[cfg(feature = "fleet")]
pub(super) struct Live(midcourse_fleet::Follower);

/// The store of this machine is polled instead.
#[cfg(not(feature = "fleet"))]
pub(super) enum Live {}

impl Live {
    /// Waits until something was shipped, and copies what is new of it: of one run with its child runs,
    /// or of all runs.
    #[cfg(feature = "fleet")]
    pub(super) fn wait(
        &mut self,
        source: &mut Source,
        run: Option<&midcourse::RunId>,
    ) -> Result<()> {
        let Source::Fleet(fleet) = source else { return Ok(()) };
        let runs = match self.0.wait(LIVE_WAIT)? {
            Changed::Nothing => return Ok(()),
            Changed::Runs(numbers) => fleet.reader.runs_numbered(&numbers)?,
            Changed::All => match run {
                Some(run_id) => fleet.reader.family(run_id)?,
                None => return fleet.bring_latest(MAX_LATEST),
            },
        };
        for changed in runs {
            if run.is_none_or(|run_id| changed.header.run_id() == run_id) {
                fleet.copy.bring_if_readable(&mut fleet.reader, &changed)?;
            }
        }
        Ok(())
    }

    #[cfg(not(feature = "fleet"))]
    pub(super) fn wait(&mut self, _: &mut Source, _: Option<&midcourse::RunId>) -> Result<()> {
        match *self {}
    }
}

/// How many of the runs that were active last are followed.
#[cfg(feature = "fleet")]
const MAX_LATEST: usize = 20;

/// How long one wait for notifications takes at most.
#[cfg(feature = "fleet")]
const LIVE_WAIT: std::time::Duration = std::time::Duration::from_secs(30);

#[cfg(feature = "fleet")]
impl Fleet {
    /// Copies the runs that were active last, the latest one last.
    fn bring_latest(&mut self, count: usize) -> Result<()> {
        let query = midcourse::RunTableQuery {
            order: midcourse::RunOrder::Latest,
            count,
            ..midcourse::RunTableQuery::default()
        };
        let (mut rows, _) = self.reader.run_table(&query)?;
        rows.reverse();
        for row in rows {
            self.copy.bring(&mut self.reader, &row.run.run_id)?;
        }
        Ok(())
    }

    pub(super) fn open(target: FleetTarget, project: Option<&str>) -> Result<Self> {
        Ok(Self { reader: FleetReader::open(target, project)?, copy: Self::new_copy()? })
    }

    /// Removes all copies.
    pub(super) fn forget_copies(&mut self) -> Result<()> {
        self.copy = Self::new_copy()?;
        Ok(())
    }

    fn new_copy() -> Result<LocalCopy> {
        let copy = LocalCopy::new()?;
        // Reports about copies use the user's prices, too.
        if let Ok(user) = DataDir::of_user() {
            let _ = std::fs::copy(user.config_file(), copy.data_dir().config_file());
        }
        Ok(copy)
    }

    /// Copies the summaries of the runs that a name may mean, so that the rules for names decide among
    /// them.
    fn bring_candidates(&mut self, name: &str) -> Result<()> {
        let mut ids: Vec<RunId> = Vec::new();
        if name == "latest" {
            let (listed, _) = self.reader.list_runs(&RunFilter::default(), RunCursor::START, 1)?;
            ids.extend(listed.into_iter().map(|listed| listed.run.run_id));
        }
        for part in [IdPart::Whole, IdPart::Start, IdPart::End] {
            if ids.is_empty() {
                ids = self.reader.find_runs(name, part, MAX_FOUND)?;
            }
        }
        for run_id in ids {
            self.copy.bring_summary(&mut self.reader, &run_id)?;
        }
        Ok(())
    }

    /// Copies a run and its child runs.
    fn bring(&mut self, run_id: &RunId) -> Result<RunSummary> {
        self.copy.bring(&mut self.reader, run_id)?;
        if self.copy.is_metadata(run_id) {
            warn(&format!(
                "{} was shipped as metadata: its texts stayed on its machine, and what went wrong \
                 cannot be analysed here",
                one_line(run_id.as_str(), 80)
            ));
        }
        let run = self.copy.store().run(run_id.as_str())?;
        run.context("the run has just been removed")
    }
}
