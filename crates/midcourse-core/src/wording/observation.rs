//! The first part of a message: what was observed.

use crate::analysis::PatternDetail;
use crate::subject::{Activity, Subject};
use crate::text::{FailureKind, ObjectName, SafeName};

/// Durations below this many minutes are not worth mentioning.
const MIN_MINUTES: u64 = 5;

pub(super) fn text(detail: &PatternDetail, subject: Option<&Subject>) -> String {
    match detail {
        PatternDetail::DoomLoop { cycle_length: 1, repetitions, .. } => {
            let result = match subject.and_then(|subject| subject.failure) {
                Some(_) => "it failed the same way each time",
                None => "got the same result each time",
            };
            let (did, between) = (did(subject), between(subject));
            let times = times(*repetitions, subject);
            format!("You {did} {times} and {result}{between}.")
        }
        PatternDetail::DoomLoop { cycle_length, repetitions, .. } => {
            let times = times(*repetitions, subject);
            format!(
                "You went through the same {cycle_length} calls {times}, with the same results each \
                 time."
            )
        }
        PatternDetail::RepeatedError { count, .. } => repeated_error(*count, subject),
        PatternDetail::ErrorCascade { failures, .. } => {
            match subject.map(|subject| subject.different_errors) {
                Some(errors @ 2..) => {
                    format!(
                        "{failures} of your recent calls failed, with {errors} different errors."
                    )
                }
                _ => format!("{failures} of your recent calls failed."),
            }
        }
        PatternDetail::ProgressStall { duration, actions } => {
            let time = match duration.as_secs() / 60 {
                minutes @ MIN_MINUTES.. => format!(" in {minutes} minutes"),
                _ => String::new(),
            };
            format!(
                "Your last {actions} calls{time} brought nothing new: no change took effect, and no \
                 result differed from earlier ones."
            )
        }
        PatternDetail::Churn { turns, .. } => {
            format!(
                "Your last {turns} turns only planned, printed text or made edits without effect."
            )
        }
        PatternDetail::ToolAvoidance { responses } => format!(
            "{responses} responses in a row announced the next step, and none of them made a tool call."
        ),
        PatternDetail::ContextDegradation { repeated, of } => {
            format!(
                "{repeated} of your last {of} calls asked for what an earlier call had returned."
            )
        }
        PatternDetail::Sweep { file, reads, repeated } => {
            let file = quoted(file.as_ref()).unwrap_or_else(|| "one file".to_owned());
            match repeated {
                0 => format!("You read {file} {reads} times in pieces since it last changed."),
                _ => format!(
                    "You read {file} {reads} times since it last changed, {repeated} times mostly \
                     lines that you had read before."
                ),
            }
        }
        PatternDetail::Stagnation { calls, .. } => match subject.map(|subject| subject.activity) {
            Some(Activity::Search) => format!("{calls} searches found nothing new."),
            Some(Activity::Read) => format!("{calls} reads showed the same content."),
            _ => match last(subject) {
                Some(last) => format!("{calls} calls brought no new result, {last}."),
                None => format!("{calls} calls brought no new result."),
            },
        },
        PatternDetail::WriteThrash { file, returns } => {
            let file = quoted(file.as_ref())
                .map_or("A file".to_owned(), |file| format!("The file {file}"));
            format!("{file} has gone back to an earlier state {returns} times.")
        }
        PatternDetail::NoEffect { changes, alternates } => {
            let check = match subject.and_then(|subject| subject.object.as_ref()) {
                Some(object) => format!("{object}"),
                None => "what you check".to_owned(),
            };
            if *alternates {
                return format!(
                    "You made {changes} changes, and {check} went back and forth between the same two \
                     results."
                );
            }
            format!("You made {changes} changes, and {check} gave the same result after each.")
        }
        PatternDetail::IdleTalk { responses } => {
            format!("Your last {responses} responses called no tool.")
        }
        PatternDetail::Outage { failures } => match last(subject) {
            Some(last) => {
                format!("{failures} calls could not reach a service or the network, {last}.")
            }
            None => format!("{failures} calls could not reach a service or the network."),
        },
        PatternDetail::Monologue { repetitions: 0 } => {
            "Your last response repeats one passage over and over.".to_owned()
        }
        PatternDetail::Monologue { repetitions } => {
            format!("Your last {repetitions} responses said nearly the same.")
        }
        PatternDetail::Drift { calls, is_forbidden: true } => format!(
            "The user asked to change nothing else, and you have changed {calls} different things."
        ),
        PatternDetail::Drift { calls, .. } => format!(
            "Your last {calls} calls on files were all outside the folders that this run began in."
        ),
        PatternDetail::Waiting { .. } | PatternDetail::Custom { .. } => String::new(),
    }
}

fn repeated_error(count: u32, subject: Option<&Subject>) -> String {
    let Some(it) = subject else { return format!("The same error came up {count} times.") };
    let (did, between) = (did(subject), between(subject));
    if it.different_calls == 1 {
        let times = times(count, subject);
        return format!("You {did} {times}, and it failed the same way each time{between}.");
    }
    if it.different_errors == 1 {
        let times = times(count, subject);
        return format!("Nearly the same error came up {times}, last when you {did}{between}.");
    }
    match it.failure.and_then(name) {
        Some(kind) => format!("{count} calls failed because of {kind}, last when you {did}."),
        None => format!("{count} calls failed in nearly the same way, last when you {did}."),
    }
}

/// What the agent did, such as `ran "cargo test"`; "made a call" if nothing is known about the
/// calls.
fn did(subject: Option<&Subject>) -> String {
    subject.map_or("made a call".to_owned(), |it| it.activity.did(it.object.as_ref()))
}

/// The latest call, such as `last when you ran "cargo test"`; `None` if the object of the call is
/// unknown.
fn last(subject: Option<&Subject>) -> Option<String> {
    let named = subject.filter(|subject| subject.object.is_some())?;
    Some(format!("last when you {}", did(Some(named))))
}

/// How often something happened: "3 times", or "3 times in 20 minutes".
fn times(count: u32, subject: Option<&Subject>) -> String {
    match subject.map(|subject| subject.minutes) {
        Some(minutes @ MIN_MINUTES..) => format!("{count} times in {minutes} minutes"),
        _ => format!("{count} times"),
    }
}

/// What happened between the calls; empty if that is unknown, because a call in between may or may
/// not have changed something.
fn between(subject: Option<&Subject>) -> String {
    match subject {
        Some(Subject { calls_between: 0, .. }) => ", with nothing in between".to_owned(),
        Some(Subject { changes_between: 1, .. }) => ", despite a change in between".to_owned(),
        Some(Subject { changes_between: changes @ 2.., .. }) => {
            format!(", despite {changes} changes in between")
        }
        Some(Subject { may_have_changed: false, .. }) => ", with no change in between".to_owned(),
        _ => String::new(),
    }
}

/// The words for a kind of failure that follow "because of". `None` if the kind is not known.
const fn name(kind: FailureKind) -> Option<&'static str> {
    Some(match kind {
        FailureKind::Permission => "a refusal",
        FailureKind::NotFound => "something that does not exist",
        FailureKind::MissingProgram => "a program that is not there",
        FailureKind::MissingPackage => "a package that is not there",
        FailureKind::UnknownTool => "a tool that does not exist",
        FailureKind::UnknownName => "a name that does not exist",
        FailureKind::BadArguments => "arguments that were not accepted",
        FailureKind::Timeout => "a time limit",
        FailureKind::Outage => "a service that is down",
        FailureKind::Check => "a failing check",
        FailureKind::Syntax => "a text that cannot be parsed",
        FailureKind::EditMismatch => "an edit that does not fit the file",
        FailureKind::Conflict => "something in the way",
        FailureKind::Resource => "a resource that is used up",
        FailureKind::Other => return None,
    })
}

fn quoted(file: Option<&SafeName>) -> Option<String> {
    file.and_then(ObjectName::of_file).map(|name| name.to_string())
}
