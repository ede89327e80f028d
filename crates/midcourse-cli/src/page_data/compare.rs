//! Compares two runs step by step: their calls and the messages of their users, aligned as far as
//! both did the same.

use std::borrow::Cow;

use midcourse::{
    AgentMessage, Digest, Entry, OutlineStep, StepKind, Store, StoreError, ToolInvoked,
    TrajectoryPayload,
};
use serde::Serialize;
use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::entry_view::title;
use super::outline::state_number;

/// How many steps of a run are compared.
const MAX_STEPS: usize = 5_000;

/// How many steps of an outline are read at once, while calls and messages are searched in it.
const PAGE: usize = 5_000;

/// Two runs next to each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// The index of the first row in which the runs differ.
    pub(crate) first_difference: Option<usize>,
    pub(crate) rows: Vec<ComparedRow>,
    /// Whether one of the runs has more steps than are compared.
    pub(crate) is_cut: bool,
}

/// A step of one run, and the step of the other run that corresponds to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ComparedRow {
    pub(crate) state: RowState,
    pub(crate) a: Option<ComparedStep>,
    pub(crate) b: Option<ComparedStep>,
}

/// How the steps of a row differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowState {
    Same,
    OtherResult,
    OtherArguments,
    OnlyA,
    OnlyB,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ComparedStep {
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) title: String,
    pub(crate) tool: Option<String>,
    pub(crate) state: u8,
    #[serde(skip)]
    digests: Digests,
}

/// What is compared of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Digests {
    /// Of the name of the tool, or of the kind of step.
    tool: Digest,
    /// Of the tool and its arguments, or of the user's text.
    call: Digest,
    /// Of the result, without volatile parts such as durations.
    result: Digest,
}

/// Compares two runs; `None` if one of them is not stored.
pub(crate) fn compare(store: &Store, a: &str, b: &str) -> Result<Option<Comparison>, StoreError> {
    let (Some((a, a_is_cut)), Some((b, b_is_cut))) = (steps(store, a)?, steps(store, b)?) else {
        return Ok(None);
    };
    let rows = align(a, b);
    let first_difference = rows.iter().position(|row| row.state != RowState::Same);
    Ok(Some(Comparison { first_difference, rows, is_cut: a_is_cut || b_is_cut }))
}

/// The steps of a run that are compared, and whether there are more.
fn steps(store: &Store, run_id: &str) -> Result<Option<(Vec<ComparedStep>, bool)>, StoreError> {
    let Some(run) = store.run(run_id)? else { return Ok(None) };
    let folder = run.folder.filter(|folder| folder.len() > 1);
    let (mut steps, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let Some(outline) = store.outline(run_id, from, PAGE)? else { return Ok(None) };
        next = outline.next;
        let is_compared =
            |step: &&OutlineStep| matches!(step.kind, StepKind::Tool | StepKind::User);
        for step in outline.steps.iter().filter(is_compared) {
            if steps.len() == MAX_STEPS {
                return Ok(Some((steps, true)));
            }
            let compared = match store.entry(run_id, step.seq) {
                Ok(Some(entry)) => ComparedStep::of(step, &entry, folder.as_deref()),
                Ok(None) => continue,
                Err(StoreError::Damaged(_)) => ComparedStep::unreadable(step),
                Err(error) => return Err(error),
            };
            steps.push(compared);
        }
    }
    Ok(Some((steps, false)))
}

impl ComparedStep {
    fn of(step: &OutlineStep, entry: &Entry, folder: Option<&str>) -> Self {
        let digests = Digests::of(entry, folder);
        Self { title: title(entry, step.kind), digests, ..Self::unreadable(step) }
    }

    fn unreadable(step: &OutlineStep) -> Self {
        // Like no other step.
        let digest = Digest::of(format!("{step:?}").as_bytes());
        Self {
            seq: step.seq,
            at: step.at.unix_ms(),
            title: "cannot be read".to_owned(),
            tool: step.tool.as_deref().map(ToOwned::to_owned),
            state: state_number(step.state),
            digests: Digests { tool: digest, call: digest, result: digest },
        }
    }
}

impl Digests {
    fn of(entry: &Entry, folder: Option<&str>) -> Self {
        let end = entry.end.as_ref().unwrap_or(&entry.record);
        let (tool, mut args) = match entry.record.payload() {
            Some(TrajectoryPayload::ToolStarted { tool_name, args, .. }) => (tool_name, args),
            Some(
                TrajectoryPayload::ToolEnded { tool_name, .. }
                | TrajectoryPayload::Denied { tool_name, .. },
            ) => (tool_name, Value::Null),
            Some(TrajectoryPayload::MessageAppended {
                message: AgentMessage::User { content, .. },
            }) => {
                let text = serde_json::to_string(&content).unwrap_or_default();
                return Self::of_text("user", &without_folder(&text, folder));
            }
            _ => return Self::of_text("other", &entry.record.value.to_string()),
        };
        let failed = entry.failed();
        let end = end.payload();
        let result = match &end {
            Some(TrajectoryPayload::ToolEnded { result, .. }) => result.comparable_text(),
            Some(TrajectoryPayload::Denied { reason, .. }) => {
                reason.as_deref().unwrap_or_default().into()
            }
            _ => Cow::Borrowed(""),
        };
        let result = without_folder(&result, folder);
        remove_folder(&mut args, folder);
        let is_error = failed == Some(true);
        // The analysis leaves out durations, clock times and ids.
        let call = ToolInvoked::new(&"".into(), &tool, &args, &result, is_error, entry.record.at);
        let state = format!("{failed:?}");
        Self {
            tool: Digest::of(tool.as_bytes()),
            call: call.exact_digest(),
            result: Digest::of(state.as_bytes()).with(call.result_digest()),
        }
    }

    fn of_text(kind: &str, text: &str) -> Self {
        let tool = Digest::of(format!("({kind})").as_bytes());
        Self { tool, call: tool.then(text.as_bytes()), result: tool }
    }
}

/// A text without the path of the run's folder: two runs of one project are often in two folders.
fn without_folder<'a>(text: &'a str, folder: Option<&str>) -> Cow<'a, str> {
    match folder {
        Some(folder) if text.contains(folder) => Cow::Owned(text.replace(folder, ".")),
        _ => Cow::Borrowed(text),
    }
}

fn remove_folder(value: &mut Value, folder: Option<&str>) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(changed) = without_folder(text, folder) {
                *text = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove_folder(item, folder)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| remove_folder(value, folder));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Aligns the steps of two runs: first equal calls; then, where both runs did something else, calls
/// of the same tool.
fn align(a: Vec<ComparedStep>, b: Vec<ComparedStep>) -> Vec<ComparedRow> {
    let digests = |steps: &[ComparedStep]| -> Vec<Digests> {
        steps.iter().map(|step| step.digests).collect()
    };
    let (a_digests, b_digests) = (digests(&a), digests(&b));
    let calls =
        |digests: &[Digests]| -> Vec<Digest> { digests.iter().map(|step| step.call).collect() };
    let mut rows = Rows { a: a.into_iter(), b: b.into_iter(), rows: Vec::new() };
    for op in capture_diff_slices(Algorithm::Myers, &calls(&a_digests), &calls(&b_digests)) {
        if let DiffOp::Equal { len, .. } = op {
            rows.pair(len, RowState::Same);
            continue;
        }
        let tools = |digests: &[Digests], range: std::ops::Range<usize>| -> Vec<Digest> {
            let part = digests.get(range).unwrap_or_default();
            part.iter().map(|step| step.tool).collect()
        };
        let (a_tools, b_tools) =
            (tools(&a_digests, op.old_range()), tools(&b_digests, op.new_range()));
        for op in capture_diff_slices(Algorithm::Myers, &a_tools, &b_tools) {
            match op {
                DiffOp::Equal { len, .. } => rows.pair(len, RowState::OtherArguments),
                other => rows.apart(other.old_range().len(), other.new_range().len()),
            }
        }
    }
    rows.rows
}

struct Rows {
    a: std::vec::IntoIter<ComparedStep>,
    b: std::vec::IntoIter<ComparedStep>,
    rows: Vec<ComparedRow>,
}

impl Rows {
    fn pair(&mut self, count: usize, state: RowState) {
        for _ in 0..count {
            let (a, b) = (self.a.next(), self.b.next());
            let result = |step: &Option<ComparedStep>| step.as_ref().map(|it| it.digests.result);
            let is_other_result = state == RowState::Same && result(&a) != result(&b);
            let state = if is_other_result { RowState::OtherResult } else { state };
            self.rows.push(ComparedRow { state, a, b });
        }
    }

    fn apart(&mut self, a_count: usize, b_count: usize) {
        for step in self.a.by_ref().take(a_count) {
            self.rows.push(ComparedRow { state: RowState::OnlyA, a: Some(step), b: None });
        }
        for step in self.b.by_ref().take(b_count) {
            self.rows.push(ComparedRow { state: RowState::OnlyB, a: None, b: Some(step) });
        }
    }
}

#[cfg(test)]
mod tests;
