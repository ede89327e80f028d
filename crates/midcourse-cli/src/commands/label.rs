//! `midcourse label`: keeps a person's verdict on a message, on a silence or on a whole run.
//!
//! A label is stored next to the run and changes nothing in it. `midcourse eval --labels` replays
//! labelled runs and compares the messages with the labels.

use std::io::{Write, stdout};

use anyhow::{Result, bail, ensure};
use midcourse::{Label, LabelVerdict, RunId, RunSummary, Store, now};
use serde_json::{Value, json};

use super::replayed_messages::{self, Message, Messages};
use super::{open, run_input};
use crate::display::{json_line, one_line, rfc3339};
use crate::scenario::parse_pattern;

/// Maximum number of columns of a task, a note or a message in one line of the output.
const MAX_SHOWN_TEXT: usize = 60;

#[derive(Clone, Copy, clap::ValueEnum)]
enum Verdict {
    /// The message, or the silence, was right.
    Good,
    /// The message was a false alarm, or a message was missing.
    Bad,
}

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Label this run (id, start or end of id, or `latest`), or one record of it (`RUN:SEQ`).
    #[arg(required_unless_present = "list")]
    run: Option<String>,
    /// Say whether midcourse was right; without it, the labels of the run are listed.
    #[arg(conflicts_with = "list")]
    verdict: Option<Verdict>,
    /// Label the message at this record or, if the record is no message, the silence there.
    #[arg(long, value_name = "SEQ", requires = "run")]
    at: Option<u64>,
    /// With `bad`: say what the missing message should be about, such as `doom_loop`.
    #[arg(long, value_name = "PATTERN", requires = "verdict", value_parser = parse_cause)]
    cause: Option<String>,
    /// Keep a remark with the label.
    #[arg(long, value_name = "TEXT", requires = "verdict")]
    note: Option<String>,
    /// Remove the label.
    #[arg(long, conflicts_with = "verdict", requires = "run")]
    remove: bool,
    /// List the labels of all runs.
    #[arg(long, conflicts_with_all = ["run", "remove"])]
    list: bool,
    /// Print JSON lines: each label.
    #[arg(long)]
    json: bool,
}

fn parse_cause(name: &str) -> Result<String, String> {
    parse_pattern(name).map(|pattern| pattern.to_string())
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let store = open::to_read()?;
    let Some(name) = &arguments.run else {
        return list_all(arguments, &store);
    };
    ensure!(
        LabelVerdict::from_name(name).is_none() || store.run(name)?.is_some(),
        "`{name}` is a verdict; name the run before it, as in `midcourse label latest {name}`"
    );
    let (run, seq) = open::find_run_or_record(&store, name)?;
    if let (Some(a), Some(b)) = (seq, arguments.at) {
        ensure!(a == b, "`{name}` and `--at {b}` name different records; leave one out");
    }
    let seq = seq.or(arguments.at);
    match arguments.verdict {
        Some(verdict) => {
            let label = new_label(arguments, &store, &run, verdict, seq)?;
            open::to_write()?.set_label(&run.run_id, &label.label)?;
            let mut out = stdout().lock();
            if arguments.json {
                // As it is stored: secrets in the note are redacted.
                let stored = labels_of(&open::to_read()?, &run.run_id, Some(label.label.seq))?;
                return print_json(&mut out, &run.run_id, &stored, false);
            }
            label.print(&mut out, &run.run_id)
        }
        None if arguments.remove => remove(arguments, &store, &run, seq),
        None => list(arguments, &store, &run, seq),
    }
}

/// A label that is being made, and what to tell the user about it.
struct NewLabel {
    label: Label,
    /// What the label says, as a sentence without a full stop.
    meaning: String,
    message: Option<Message>,
}

impl NewLabel {
    fn print(&self, out: &mut impl Write, run_id: &RunId) -> Result<()> {
        let (run, verdict) = (one_line(run_id.as_str(), 200), self.label.verdict.as_str());
        let place = match (self.label.seq, self.label.call) {
            (Some(seq), Some(call)) => format!(", record {seq} (call {call})"),
            _ => String::new(),
        };
        writeln!(out, "Labelled {run}{place} as {verdict}: {}.", self.meaning)?;
        if let Some(message) = &self.message {
            writeln!(out, "  {}", one_line(&message.text, MAX_SHOWN_TEXT + 18))?;
        }
        Ok(())
    }
}

fn new_label(
    arguments: &Arguments,
    store: &Store,
    run: &RunSummary,
    verdict: Verdict,
    seq: Option<u64>,
) -> Result<NewLabel> {
    let last = run.records.saturating_sub(1);
    if let Some(seq) = seq {
        ensure!(seq <= last, "the run has no record {seq}; its last is {last}");
    }
    let verdict = match verdict {
        Verdict::Good => LabelVerdict::Good,
        Verdict::Bad => LabelVerdict::Bad,
    };
    let is_good = verdict == LabelVerdict::Good;
    ensure!(
        arguments.cause.is_none() || !is_good,
        "`--cause` says which message was missing; use it with `bad`"
    );
    let records = run_input::read_stored(store, &run.run_id)?;
    let mut call = 0;
    let messages = replayed_messages::replay(&records, None, |engine, record, _| {
        if seq.is_some_and(|seq| record.seq <= seq) {
            call = engine.trajectory().tool_call_count();
        }
        Ok(())
    })?;
    let message = messages.recorded.iter().find(|message| Some(message.seq) == seq);
    let meaning = match (seq, message) {
        (None, _) => meaning_for_run(arguments, &messages, is_good)?,
        (Some(_), Some(message)) => {
            ensure!(
                arguments.cause.is_none(),
                "record {} is a message, so none was missing there; leave out `--cause`",
                message.seq
            );
            let opinion = if is_good { "right" } else { "a false alarm" };
            format!("the message about {} was {opinion}", one_line(&message.cause, 40))
        }
        (Some(seq), None) => {
            let delivered = next_message(&records, &messages, seq);
            if let Some(delivered) = delivered.filter(|_| arguments.cause.is_none()) {
                bail!(
                    "record {seq} got a message, so there was no silence; label the message, \
                     record {}",
                    delivered.seq
                );
            }
            meaning_for_silence(arguments, is_good)
        }
    };
    let label = Label {
        seq,
        verdict,
        cause: message.map(|it| it.cause.clone()).or_else(|| arguments.cause.clone()),
        call: seq.map(|_| call),
        text_hash: message.map(|it| Label::hash_of(&it.text)),
        note: arguments.note.clone(),
        labelled_at_unix_ms: now(),
    };
    Ok(NewLabel { label, meaning, message: message.cloned() })
}

fn meaning_for_run(arguments: &Arguments, messages: &Messages, is_good: bool) -> Result<String> {
    let counted = messages.recorded.iter().filter(|message| !message.is_about_limit());
    let count = counted.count();
    if count == 0 {
        return Ok(meaning_for_silence(arguments, is_good));
    }
    ensure!(
        arguments.cause.is_none(),
        "this run has messages, so `bad` says that they were false alarms; to say where a message \
         was missing, add `--at SEQ`"
    );
    let all = if count == 1 {
        "its message was".to_owned()
    } else {
        format!("its {count} messages were")
    };
    let meaning = match (is_good, count) {
        (true, _) => format!("{all} right, and no other was due"),
        (false, 1) => format!("{all} a false alarm"),
        (false, _) => format!("{all} false alarms"),
    };
    let uncounted = match messages.recorded.len() > count {
        true => " (those about a deadline or a budget do not count)",
        false => "",
    };
    Ok(format!("{meaning}{uncounted}"))
}

fn meaning_for_silence(arguments: &Arguments, is_good: bool) -> String {
    match (&arguments.cause, is_good) {
        (_, true) => "silence was right".to_owned(),
        (None, false) => "a message was missing".to_owned(),
        (Some(cause), false) => format!("a message about {cause} was missing"),
    }
}

/// The message that was delivered because of the record at `seq`: only records that the engine added
/// lie between them.
fn next_message<'a>(
    records: &[run_input::InputRecord],
    messages: &'a Messages,
    seq: u64,
) -> Option<&'a Message> {
    let later = records.iter().filter(|input| input.record.seq > seq);
    let added = later.take_while(|input| input.record.payload.is_conclusion());
    let last = added.last()?.record.seq;
    messages.recorded.iter().find(|message| (seq..=last).contains(&message.seq))
}

fn remove(arguments: &Arguments, store: &Store, run: &RunSummary, seq: Option<u64>) -> Result<()> {
    let labels = labels_of(store, &run.run_id, Some(seq))?;
    let name = one_line(run.run_id.as_str(), 200);
    let place = seq.map_or_else(String::new, |seq| format!(", record {seq},"));
    ensure!(
        !labels.is_empty() && open::to_write()?.remove_label(&run.run_id, seq)?,
        "{name}{place} has no label of its own; `midcourse label {name}` lists the labels of the run"
    );
    let mut out = stdout().lock();
    match arguments.json {
        true => print_json(&mut out, &run.run_id, &labels, true),
        false => Ok(writeln!(
            out,
            "Removed the label of {}.",
            format!("{name}{place}").trim_end_matches(',')
        )?),
    }
}

fn list(arguments: &Arguments, store: &Store, run: &RunSummary, seq: Option<u64>) -> Result<()> {
    let labels = labels_of(store, &run.run_id, seq.map(Some))?;
    let mut out = stdout().lock();
    if arguments.json {
        return print_json(&mut out, &run.run_id, &labels, false);
    }
    if labels.is_empty() {
        return Ok(writeln!(out, "No labels yet; {HOW_TO_LABEL}.")?);
    }
    print_labels(&mut out, run, &labels)
}

fn list_all(arguments: &Arguments, store: &Store) -> Result<()> {
    let runs = store.labelled_runs()?;
    let mut out = stdout().lock();
    if runs.is_empty() && !arguments.json {
        return Ok(writeln!(out, "No labels yet; {HOW_TO_LABEL}.")?);
    }
    for run_id in runs {
        let labels = store.labels(&run_id)?;
        if arguments.json {
            print_json(&mut out, &run_id, &labels, false)?;
        } else if let Some(run) = store.run(run_id.as_str())? {
            print_labels(&mut out, &run, &labels)?;
        }
    }
    Ok(())
}

/// Says how to make a label, for users who have none.
pub(super) const HOW_TO_LABEL: &str = "make one with `midcourse label RUN good|bad [--at SEQ]` \
     (`midcourse show RUN --said` lists the messages)";

/// The labels of a run or, with `place`, of one of its records or of the whole run.
fn labels_of(store: &Store, run_id: &RunId, place: Option<Option<u64>>) -> Result<Vec<Label>> {
    let mut labels = store.labels(run_id)?;
    labels.retain(|label| place.is_none_or(|place| label.seq == place));
    Ok(labels)
}

fn print_labels(out: &mut impl Write, run: &RunSummary, labels: &[Label]) -> Result<()> {
    let task = run.task.as_deref().map(|task| format!(" ({})", one_line(task, MAX_SHOWN_TEXT)));
    writeln!(out, "{}{}", one_line(run.run_id.as_str(), 200), task.unwrap_or_default())?;
    for label in labels {
        writeln!(out, "  {:<4}  {}", label.verdict.as_str(), describe(label))?;
        if let Some(note) = &label.note {
            writeln!(out, "        {}", one_line(note, 200))?;
        }
    }
    Ok(())
}

/// What a label says and where, in a few words.
pub(super) fn describe(label: &Label) -> String {
    let is_good = label.verdict == LabelVerdict::Good;
    let about = label
        .cause
        .as_deref()
        .map_or_else(String::new, |cause| format!(" about {}", one_line(cause, 40)));
    let what = match (label.is_about_message(), is_good) {
        (true, true) => format!("message{about}: right"),
        (true, false) => format!("message{about}: false alarm"),
        (false, _) if label.seq.is_none() && label.cause.is_none() => {
            if is_good { "right" } else { "wrong" }.to_owned()
        }
        (false, true) => "silence: right".to_owned(),
        (false, false) => format!("message{about} missing"),
    };
    match (label.seq, label.call) {
        (Some(seq), Some(call)) => format!("record {seq} (call {call}), {what}"),
        (Some(seq), None) => format!("record {seq}, {what}"),
        (None, _) => format!("whole run, {what}"),
    }
}

/// What a label is about: a message, a silence or the whole run.
pub(super) const fn subject(label: &Label) -> &'static str {
    match (label.seq, label.is_about_message()) {
        (None, _) => "run",
        (Some(_), true) => "message",
        (Some(_), false) => "silence",
    }
}

fn print_json(out: &mut impl Write, run_id: &RunId, labels: &[Label], removed: bool) -> Result<()> {
    for label in labels {
        let mut line = label_json(run_id, label);
        if removed && let Value::Object(fields) = &mut line {
            fields.insert("removed".to_owned(), true.into());
        }
        writeln!(out, "{}", json_line(&line))?;
    }
    Ok(())
}

fn label_json(run_id: &RunId, label: &Label) -> Value {
    json!({
        "type": "label", "run_id": run_id, "seq": label.seq, "call": label.call,
        "about": subject(label), "verdict": label.verdict, "cause": label.cause,
        "note": label.note, "at": rfc3339(label.labelled_at_unix_ms),
    })
}
