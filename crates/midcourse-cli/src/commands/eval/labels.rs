//! `midcourse eval --labels`: replays the labelled runs of the store with a configuration, and
//! compares the messages with the labels.

use std::io::{BufWriter, Write, stdout};

use anyhow::{Result, ensure};
use midcourse::{RunId, Store};
use serde_json::{Value, json};

use super::Arguments;
use super::label_score::LabelScore;
use super::label_verdicts::{Expected, LabelResult, RunResult, compare};
use crate::commands::label::{HOW_TO_LABEL, describe, subject};
use crate::commands::replayed_messages::{self, Message};
use crate::commands::{is_broken_pipe, open, run_input};
use crate::config::Config;
use crate::display::{json_line, one_line};
use crate::shell::shell_quote;
use crate::terminal::warn;

/// Maximum number of columns of a message in the list.
const MAX_SHOWN_TEXT: usize = 44;

/// A labelled run and the results of its labels.
pub(super) struct EvaluatedRun {
    pub(super) run_id: RunId,
    pub(super) result: RunResult,
}

/// Evaluates the labels of the runs that the arguments name, or of all runs. Returns whether the
/// result meets the thresholds.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    let config = arguments.config.as_deref().map_or_else(|| Ok(Config::shipped()), Config::read)?;
    let store = open::to_read()?;
    let mut runs = Vec::new();
    for run_id in labelled_runs(arguments, &store)? {
        let labels = store.labels(&run_id)?;
        if !store.verify_run(&run_id)?.is_empty() {
            warn(&format!("the run {run_id} is damaged; run `midcourse verify` for details"));
        }
        let records = run_input::read_stored(&store, &run_id)?;
        let messages = replayed_messages::replay(&records, Some(&config), |_, _, _| Ok(()))?;
        runs.push(EvaluatedRun { run_id, result: compare(&labels, &messages) });
    }
    let score = LabelScore::of(&runs);
    // As for scenarios, the exit code must be right even if the reader closes the pipe early.
    match print(arguments, &runs, &score) {
        Err(error) if !is_broken_pipe(&error) => return Err(error),
        _ => {}
    }
    let failures = score.failed_thresholds(arguments.min_caught, arguments.max_false_alarms);
    failures.iter().for_each(|failure| warn(failure));
    Ok(failures.is_empty())
}

/// The runs whose labels are evaluated.
fn labelled_runs(arguments: &Arguments, store: &Store) -> Result<Vec<RunId>> {
    if arguments.paths.is_empty() {
        let runs = store.labelled_runs()?;
        ensure!(!runs.is_empty(), "there are no labels yet; {HOW_TO_LABEL}");
        return Ok(runs);
    }
    let mut runs = Vec::new();
    for name in &arguments.paths {
        let run_id = open::find_run(store, &name.to_string_lossy())?.run_id;
        ensure!(
            !store.labels(&run_id)?.is_empty(),
            "the run {run_id} has no labels; {HOW_TO_LABEL}"
        );
        if !runs.contains(&run_id) {
            runs.push(run_id);
        }
    }
    Ok(runs)
}

fn print(arguments: &Arguments, runs: &[EvaluatedRun], score: &LabelScore) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    if arguments.json {
        for EvaluatedRun { run_id, result } in runs {
            for result in &result.labels {
                writeln!(out, "{}", json_line(&line(run_id, result)))?;
            }
        }
        writeln!(out, "{}", json_line(&score.line()))?;
    } else {
        score.print(&mut out)?;
        print_list(&mut out, runs, arguments.all)?;
        let config = arguments.config.as_ref().map(|path| path.display().to_string());
        print_unlabelled(&mut out, runs, config.as_deref())?;
    }
    Ok(out.flush()?)
}

/// Lists the labels with which the replay does not agree or, if `all`, all labels. Each comes with
/// the command that shows its place.
fn print_list(out: &mut impl Write, runs: &[EvaluatedRun], all: bool) -> Result<()> {
    let is_shown = |result: &&LabelResult| all || !result.is_as_labelled();
    if !runs.iter().any(|run| run.result.labels.iter().any(|result| is_shown(&result))) {
        return Ok(());
    }
    writeln!(out, "\n{}:", if all { "All labels" } else { "Not as labelled" })?;
    for EvaluatedRun { run_id, result } in runs {
        for result in result.labels.iter().filter(is_shown) {
            let run = shell_quote(&one_line(run_id.as_str(), 200));
            let place = match result.label.seq {
                Some(seq) => format!("{run}:{seq}"),
                None => format!("{run} --said"),
            };
            writeln!(out, "  midcourse show {place}")?;
            writeln!(out, "    label    {}", describe(&result.label))?;
            writeln!(out, "    now      {}", describe_result(result))?;
            if let Some(note) = &result.label.note {
                writeln!(out, "    note     {}", one_line(note, MAX_SHOWN_TEXT))?;
            }
        }
    }
    Ok(())
}

/// What the replay does at the place of a label.
fn describe_result(result: &LabelResult) -> String {
    let about = |message: &Message| {
        let text = one_line(&message.text, MAX_SHOWN_TEXT);
        format!("call {}, {}: {text}", message.call, one_line(&message.cause, 40))
    };
    match (&result.delivered, &result.late, result.expected) {
        (Some(message), ..) => about(message),
        (None, Some(late), _) => format!("too late: {}", about(late)),
        (None, None, Expected::Silence) => "no new message".to_owned(),
        (None, None, Expected::Message) => "not delivered".to_owned(),
        (None, None, Expected::NotThisMessage) => "gone".to_owned(),
        (None, None, Expected::MissingMessage) => "still missing".to_owned(),
    }
}

/// Says that there are new messages which no label covers, and how to see them.
fn print_unlabelled(
    out: &mut impl Write,
    runs: &[EvaluatedRun],
    config: Option<&str>,
) -> Result<()> {
    let with_new: Vec<&EvaluatedRun> =
        runs.iter().filter(|run| !run.result.unlabelled.is_empty()).collect();
    let Some(first) = with_new.first() else { return Ok(()) };
    let count: usize = with_new.iter().map(|run| run.result.unlabelled.len()).sum();
    let are = if count == 1 { "message is new and has" } else { "messages are new and have" };
    let run = shell_quote(&one_line(first.run_id.as_str(), 200));
    let config = config.map_or_else(String::new, |path| {
        format!(" --config {}", shell_quote(&one_line(path, 200)))
    });
    writeln!(out, "\n{count} {are} no label; see `midcourse replay --run {run}{config}`.")?;
    Ok(())
}

/// The JSON object that `eval --labels --json` prints for a label.
fn line(run_id: &RunId, result: &LabelResult) -> Value {
    let LabelResult { label, expected, delivered, .. } = result;
    let expect = if expected.is_message() { "message" } else { "quiet" };
    json!({
        "type": "label", "run_id": run_id, "seq": label.seq, "call": label.call,
        "about": subject(label), "verdict": label.verdict, "cause": label.cause,
        "note": label.note, "expect": expect, "as_labelled": result.is_as_labelled(),
        "delivered": delivered.as_ref().map(Message::to_json),
        "same_text": delivered.as_ref().and_then(|message| {
            let hash = label.text_hash.as_ref()?;
            Some(*hash == midcourse::Label::hash_of(&message.text))
        }),
    })
}
