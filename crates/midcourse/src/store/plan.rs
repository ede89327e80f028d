//! A plan: what several events of one run lead to, worked out before anything is written.
//!
//! The engine works before the transaction is begun, on what the store held then; the transaction
//! only looks whether the run is still where it was (its hash chain tells), and writes. If another
//! process was faster, the plan is stale and is made anew. So no provider, rule or template of a
//! user ever runs while the store is locked, and the records, the words and the fold never
//! disagree. Plans of several runs are written with one commit.

use std::collections::HashSet;
use std::time::Instant;

use midcourse_core::{
    Checkpoint, DecisionPoint, Delivery, Fault, Outcome, RunId, TrajectoryRecord,
};
use rusqlite::Connection;

use super::Store;
use super::append::{self, RunHead, run_head};
use super::draft::Draft;
use super::error::StoreError;
use super::fold::{FOLD_MAX, catch_up, save_checkpoint};
use super::settings::StoreSettings;
use crate::event::{Event, Source};
use crate::sink::Recorded;
use crate::watch::{Seen, Watch, watch};

/// What events of a run lead to.
pub struct Plan {
    /// What is to be said, where and why.
    pub said: Vec<(DecisionPoint, Delivery)>,
    /// What followed things said before.
    pub outcomes: Vec<Outcome>,
    /// Providers and detectors that failed and were skipped.
    pub faults: Vec<Fault>,
    run: RunId,
    head: Option<RunHead>,
    rows: Vec<Row>,
    follows: Follows,
}

/// Something that will be stored.
enum Row {
    /// What a host reported: a record, or a report of one that is known.
    Told(Draft),
    /// What the engine concluded.
    Concluded(Draft),
}

/// Whether the engine goes along with the events of a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// It was not needed until now.
    NotYet,
    /// It has seen all records until here.
    Closely,
    /// It has seen so many, and the rest is for the next step.
    Behind(i64),
    /// It cannot know what the run will be.
    Lost,
}

impl Store {
    /// Works out what events of one run lead to. Nothing is written.
    pub fn plan(
        &mut self,
        events: impl IntoIterator<Item = Event>,
        watch: &mut Watch,
    ) -> Result<Plan, StoreError> {
        let drafts = events.into_iter().map(|event| Draft::new(event, &self.settings));
        let drafts: Vec<_> = drafts.collect::<Result<_, StoreError>>()?;
        let begun = Instant::now();
        loop {
            match self.try_plan(&drafts, watch)? {
                Some(plan) => return Ok(plan),
                None if begun.elapsed() < self.settings.patience => {}
                None => return Err(StoreError::Locked),
            }
        }
    }

    /// One attempt; nothing, if another process was faster.
    pub(super) fn try_plan(
        &self,
        drafts: &[Draft],
        watch: &mut Watch,
    ) -> Result<Option<Plan>, StoreError> {
        let Some(first) = drafts.first() else {
            return Err(StoreError::Rejected("there is no event".to_owned()));
        };
        let run = first.run.run_id.clone();
        if drafts.iter().any(|draft| draft.run.run_id != run) {
            return Err(StoreError::Rejected("the events are of several runs".to_owned()));
        }
        // One look at the store for all: it is as it was at one moment, and locked once.
        let look = self.connection.unchecked_transaction()?;
        let head = run_head(&look, run.as_str())?;
        let place = head.map_or(0, |head| head.next_seq);
        let mut planning = Planning {
            connection: &look,
            plan: Plan::empty(run, head),
            next: u64::try_from(place).unwrap_or_default(),
            facts: HashSet::new(),
        };
        for draft in drafts {
            if planning.add(draft.clone(), watch)?.is_none() {
                return Ok(None);
            }
        }
        // Until the plan is carried out the engine is ahead of the store.
        watch.lost_its_place();
        Ok(Some(planning.plan))
    }

    /// Writes plans with one commit. Of a plan that is stale nothing is written, and nothing is
    /// returned for it; else what became of its events.
    pub fn carry_out(
        &mut self,
        plans: &mut [(&Plan, &mut Watch)],
    ) -> Result<Vec<Option<Vec<Recorded>>>, StoreError> {
        let checkpoints: Vec<_> =
            plans.iter().map(|(plan, watch)| plan.checkpoint(watch)).collect();
        let written = self.write(|connection| {
            let mut written = Vec::new();
            for ((plan, _), checkpoint) in plans.iter().zip(&checkpoints) {
                written.push(plan.write(connection, checkpoint.as_ref())?);
            }
            Ok(written)
        })?;
        let came_to = |((plan, watch), written): (&mut (&Plan, &mut Watch), Option<Written>)| {
            let Written { recorded, head } = written?;
            if plan.follows == Follows::Closely {
                watch.came_to(&plan.run, head.link);
            }
            Some(recorded)
        };
        Ok(plans.iter_mut().zip(written).map(came_to).collect())
    }
}

/// What became of a plan.
struct Written {
    recorded: Vec<Recorded>,
    head: RunHead,
}

impl Plan {
    const fn empty(run: RunId, head: Option<RunHead>) -> Self {
        Self {
            said: Vec::new(),
            outcomes: Vec::new(),
            faults: Vec::new(),
            run,
            head,
            rows: Vec::new(),
            follows: Follows::NotYet,
        }
    }

    /// The fold as it is after the plan, which the watch has kept since.
    fn checkpoint(&self, watch: &Watch) -> Option<Checkpoint> {
        let has_seen = matches!(self.follows, Follows::Closely | Follows::Behind(_));
        has_seen.then(|| watch.engine().checkpoint().ok()).flatten()
    }

    fn write(
        &self,
        connection: &Connection,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Option<Written>, StoreError> {
        if run_head(connection, self.run.as_str())? != self.head {
            return Ok(None);
        }
        let mut recorded = Vec::new();
        for row in &self.rows {
            match row {
                Row::Told(draft) => {
                    recorded.push(super::settled(append::settle(connection, draft)?));
                }
                Row::Concluded(draft) => {
                    let mut head = self.head_now(connection)?;
                    append::insert(connection, &mut head, draft)?;
                }
            }
        }
        let head = self.head_now(connection)?;
        let folded = match self.follows {
            Follows::Behind(folded) => folded,
            _ => head.next_seq,
        };
        if let Some(checkpoint) = checkpoint {
            save_checkpoint(connection, head.id, folded, checkpoint)?;
        }
        Ok(Some(Written { recorded, head }))
    }

    fn head_now(&self, connection: &Connection) -> Result<RunHead, StoreError> {
        run_head(connection, self.run.as_str())?
            .ok_or_else(|| StoreError::Damaged("a run vanished".to_owned()))
    }
}

/// A plan in the making.
struct Planning<'a> {
    connection: &'a Connection,
    plan: Plan,
    /// The place of the next record.
    next: u64,
    /// The facts of the plan itself.
    facts: HashSet<(&'static str, String)>,
}

impl Planning<'_> {
    /// Adds an event; nothing, if another process was faster.
    fn add(&mut self, mut draft: Draft, watch: &mut Watch) -> Result<Option<()>, StoreError> {
        if draft.adopts.is_some() {
            self.plan.follows = Follows::Lost;
        } else if !self.is_known(&draft)? {
            if matches!(self.plan.follows, Follows::NotYet) {
                let head = self.plan.head.as_ref();
                let caught_up = catch_up(self.connection, watch, &self.plan.run, head, FOLD_MAX)?;
                let Some(folded) = caught_up else { return Ok(None) };
                let place = head.map_or(0, |head| head.next_seq);
                let is_current = folded == place;
                self.plan.follows =
                    if is_current { Follows::Closely } else { Follows::Behind(folded) };
            }
            let seq = self.next;
            self.next = seq.saturating_add(1);
            if let Follows::Closely = self.plan.follows {
                let seen = watch_record(watch, &draft, seq, &mut self.next);
                let opinions = opinions(&draft, &seen)?;
                let Seen { said, outcomes, faults, .. } = seen;
                self.plan.rows.push(Row::Told(draft));
                self.plan.rows.extend(opinions.into_iter().map(Row::Concluded));
                self.plan.said.extend(said);
                self.plan.outcomes.extend(outcomes);
                self.plan.faults.extend(faults);
                return Ok(Some(()));
            }
        }
        // The engine was not asked about this one, so a replay must not ask either.
        draft.decision_point = None;
        self.plan.rows.push(Row::Told(draft));
        Ok(Some(()))
    }

    fn is_known(&mut self, draft: &Draft) -> Result<bool, StoreError> {
        let is_known = self
            .plan
            .head
            .as_ref()
            .map_or(Ok(false), |head| append::is_known(self.connection, head.id, draft))?;
        let fact = draft.fact.as_ref();
        let is_new = fact
            .is_none_or(|fact| self.facts.insert((draft.payload.kind(), fact.as_str().to_owned())));
        Ok(is_known || !is_new)
    }
}

/// Shows the engine the draft as the record it will be.
fn watch_record(watching: &mut Watch, draft: &Draft, seq: u64, next: &mut u64) -> Seen {
    watch(watching.engine_mut(), &draft.record(seq), draft.decision_point, || {
        let place = *next;
        *next = place.saturating_add(1);
        place
    })
}

/// The records of what the engine concluded, ready to be stored.
fn opinions(draft: &Draft, seen: &Seen) -> Result<Vec<Draft>, StoreError> {
    let (settings, source) = (StoreSettings::default(), Source::new("midcourse", "engine"));
    let ready = |record: &TrajectoryRecord| {
        let payload = record.payload.clone();
        Draft::new(Event::new(draft.run.clone(), source.clone(), record.at(), payload), &settings)
    };
    seen.records.iter().map(ready).collect()
}
