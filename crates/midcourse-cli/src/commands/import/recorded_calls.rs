//! Gives imported calls the ids under which hooks recorded them, for hosts whose hooks report no ids.
//!
//! Without an id, an imported call belongs to the recorded call of the same tool with the same arguments;
//! equal calls belong together in their order.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use anyhow::Result;
use midcourse::{Channel, Event, RunId, Store, TrajectoryPayload};
use serde_json::Value;

use super::super::hook::NUMBERED_CALL;
use super::super::open;
use crate::hosts::Host;

#[derive(Default)]
pub(super) struct RecordedCalls {
    /// The store, once it is needed.
    store: Option<Store>,
    runs: HashMap<RunId, RunCalls>,
}

#[derive(Default)]
struct RunCalls {
    /// Ids of recorded calls that were not found in the import yet, by tool and arguments.
    recorded: HashMap<u64, VecDeque<String>>,
    /// The ids of recorded calls, by their ids in the import.
    renamed: HashMap<String, String>,
}

impl RecordedCalls {
    /// Changes the id of the call that an imported event is about, if hooks recorded the call.
    pub(super) fn rename(&mut self, event: &mut Event) -> Result<()> {
        let host = Host::named(event.source.host());
        let has_ids = host.is_none_or(|host| host.capabilities().has_call_ids);
        if has_ids || event.source.channel() != Channel::Import {
            return Ok(());
        }
        if !self.runs.contains_key(&event.run.run_id) {
            if self.store.is_none() {
                self.store = open::existing()?;
            }
            let Some(store) = &self.store else { return Ok(()) };
            let calls = RunCalls::read(store, event.run.run_id.as_str())?;
            self.runs.insert(event.run.run_id.clone(), calls);
        }
        let Some(calls) = self.runs.get_mut(&event.run.run_id) else { return Ok(()) };
        let recorded = match &event.payload {
            TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args } => {
                calls.take(tool_call_id.as_str(), tool_name.as_str(), args)
            }
            payload => payload.call_id().and_then(|id| calls.renamed.get(id.as_str()).cloned()),
        };
        let Some(recorded) = recorded else { return Ok(()) };
        if let TrajectoryPayload::ToolStarted { tool_call_id, .. }
        | TrajectoryPayload::ToolEnded { tool_call_id, .. }
        | TrajectoryPayload::Denied { tool_call_id, .. } = &mut event.payload
        {
            *tool_call_id = (&recorded).into();
            event.fact = Some(recorded.as_str().into());
        }
        Ok(())
    }
}

impl RunCalls {
    fn read(store: &Store, run: &str) -> Result<Self> {
        let mut calls = Self::default();
        // Only hooks number the calls of these hosts; the ids of other channels are those of the file.
        for record in store.records_of(run, &["tool_started"])? {
            if let TrajectoryPayload::ToolStarted { tool_call_id, tool_name, args } = record.payload
                && tool_call_id.as_str().starts_with(NUMBERED_CALL)
            {
                let same = calls.recorded.entry(kind(tool_name.as_str(), &args)).or_default();
                same.push_back(tool_call_id.as_str().to_owned());
            }
        }
        Ok(calls)
    }

    fn take(&mut self, id: &str, tool: &str, args: &Value) -> Option<String> {
        let recorded = self.recorded.get_mut(&kind(tool, args))?.pop_front()?;
        self.renamed.insert(id.to_owned(), recorded.clone());
        Some(recorded)
    }
}

fn kind(tool: &str, args: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tool, args.to_string()).hash(&mut hasher);
    hasher.finish()
}
