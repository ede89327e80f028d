//! The second part of a message: a suggestion what to do. It depends on the pattern, the number of
//! the message (the rung), the failure and the activity.

use crate::analysis::PatternDetail;
use crate::subject::{Activity, Subject};
use crate::text::FailureKind;

/// The suggestion of the first message: what to do instead.
pub(super) const fn first(detail: &PatternDetail, subject: Option<&Subject>) -> &'static str {
    match detail {
        PatternDetail::DoomLoop { cycle_length: 2.., .. } => {
            "Something outside of these calls has to change first: check what they take for granted."
        }
        PatternDetail::DoomLoop { .. } | PatternDetail::RepeatedError { .. } => match subject {
            Some(Subject {
                failure: Some(FailureKind::Check),
                changes_between: 0,
                may_have_changed: false,
                different_calls: 1,
                ..
            }) => "Read what it reports, and change something about that before the next run.",
            // An error of syntax may repeat the command, and so its variables.
            Some(Subject { names_placeholder: true, failure, .. })
                if !matches!(failure, Some(FailureKind::Syntax)) =>
            {
                "The name in the error is a placeholder that nothing replaced: check its quotes and the option \
                 that should replace it, and print the command before you run it."
            }
            Some(Subject { failure: Some(kind), activity, .. }) => {
                instead_of_failing(*kind, *activity)
            }
            Some(Subject { is_negative: true, .. }) => COMMON,
            Some(Subject { activity, .. }) => instead_of_repeating(*activity),
            None => "Change something that matters before the next attempt.",
        },
        PatternDetail::ErrorCascade { .. } => {
            "Make one small call that has to work, such as a listing, and build the next step on what \
             it shows."
        }
        PatternDetail::ProgressStall { .. } => match subject {
            Some(Subject { activity: Activity::Wait, .. }) => {
                "If you wait for something, look at it in another way (its log, its process), and do \
                 other work meanwhile."
            }
            _ => "What you know may be enough: name the next change or answer, and make it.",
        },
        PatternDetail::Churn { .. } => {
            "Take the first step of the plan now, and see what it shows."
        }
        PatternDetail::ToolAvoidance { .. } => {
            "Make the tool call now; if the work is done, give your final answer."
        }
        PatternDetail::ContextDegradation { .. } => {
            "Write down in a few lines what you know already, and go on from there."
        }
        PatternDetail::Sweep { .. } => {
            "Read it once from beginning to end, or search it for the name that you need."
        }
        PatternDetail::Stagnation { .. } => match subject {
            Some(Subject { activity: Activity::Search, .. }) => {
                "It may not exist, be elsewhere, or have another name: list what is there instead of \
                 searching for what should be."
            }
            Some(Subject { activity: Activity::Read, .. }) => {
                "You have this content: use it, or look where it comes from."
            }
            Some(Subject { is_negative: true, .. }) => COMMON,
            _ => {
                "The result may simply be true: decide what follows from it, or ask another source."
            }
        },
        PatternDetail::WriteThrash { .. } | PatternDetail::NoEffect { alternates: true, .. } => {
            "Note what each version breaks, and look for one that breaks neither before the next edit."
        }
        PatternDetail::NoEffect { .. } => {
            "What you change may not be what it depends on: make one change that has to show, and look \
             whether it does."
        }
        PatternDetail::IdleTalk { .. } => {
            "Perhaps nobody answers here: decide and make the next tool call, or end the run if the work \
             is done."
        }
        PatternDetail::Outage { .. } => {
            instead_of_failing(FailureKind::Outage, Activity::RunCommand)
        }
        PatternDetail::Monologue { .. } => {
            "Say it once, and then act: make a tool call or give your final answer."
        }
        PatternDetail::Drift { is_forbidden: true, .. } => {
            "Compare each of them with the request; undo what it does not ask for, and report it \
             instead."
        }
        PatternDetail::Drift { .. } => {
            "If the task leads there, carry on; if not, return to the original request."
        }
        PatternDetail::Waiting { .. } | PatternDetail::Custom { .. } => "",
    }
}

/// The suggestion for different attempts that all get the same bad result.
const COMMON: &str = "Find what all attempts have in common (a name, an argument, how you read the task), and change \
                      that one thing.";

/// What to do instead of another attempt that fails.
const fn instead_of_failing(kind: FailureKind, activity: Activity) -> &'static str {
    match kind {
        FailureKind::Permission => {
            "It is a decision, not a glitch: find a way without it, or report what you need \
             and go on with other work."
        }
        FailureKind::NotFound => match activity {
            Activity::Fetch => {
                "There is nothing at this address: start from a page or list that loads, and follow it."
            }
            _ => {
                "Check that the name in the error is one that you meant, and list the place where it should \
                 be."
            }
        },
        FailureKind::MissingProgram => {
            "The program is not there, or quotes are lost: check what is run; then install it, use another, or \
             report it."
        }
        FailureKind::MissingPackage => {
            "Install the package in the environment that this runs in, or do without it."
        }
        FailureKind::UnknownTool => "There is no such tool: use one of those that you were given.",
        FailureKind::UnknownName => {
            "Find out where the name in the error comes from, and look it up (schema, help) instead of guessing."
        }
        FailureKind::BadArguments => {
            "Read the description or help of what you call, and begin with the smallest call that works."
        }
        FailureKind::Timeout => match activity {
            Activity::RunCommand | Activity::RunCheck | Activity::Install => {
                "It needs more time or waits for input: run a part of it, pass its non-interactive \
                 flag, or run it in the background with a log."
            }
            _ => "Ask for a smaller part at a time, or give it more time.",
        },
        FailureKind::Outage => {
            "Changes to your work will not help: wait longer between attempts, or go on with what does \
             not need it."
        }
        FailureKind::Check => {
            "Make it fail differently first, with a print or a smaller case, to see that your changes \
             reach what is checked."
        }
        FailureKind::Syntax => {
            "Look at the exact place that cannot be parsed and at its quoting, or put the text into a \
             file and use that."
        }
        FailureKind::EditMismatch => {
            "View these lines first, then copy the text to replace exactly as it is there."
        }
        FailureKind::Conflict => {
            "Look at what is in the way (an existing file, a lock, a process), and then remove, reuse or \
             avoid it."
        }
        FailureKind::Resource => {
            "Find out what uses it up before you try again, or do the work in smaller parts."
        }
        FailureKind::Other => match activity {
            Activity::Edit => {
                "View the place that you want to change as it is now, and start from that."
            }
            Activity::Delegate => {
                "Give the other agent a smaller task with what you know already, or do it yourself."
            }
            _ => {
                "Read the whole error. If it names nothing to change, begin with the smallest call that works, \
                 and add one part at a time."
            }
        },
    }
}

/// What to do instead of another call that succeeds with the same result.
const fn instead_of_repeating(activity: Activity) -> &'static str {
    match activity {
        Activity::RunCheck => "The result is known: change what is checked before the next run.",
        Activity::Read => "You have its content: use it, or say what you miss in it.",
        Activity::Search => {
            "Use what it found; if it is not what you need, look in another place or for another name."
        }
        Activity::Edit => "View the file to see what is there now, and go on from that.",
        Activity::Fetch => "Take what you need from this answer, or use another source.",
        Activity::Wait => {
            "If nothing moves, look at it in another way (its log, its process), and do other work \
             meanwhile."
        }
        Activity::Delegate => "Give the other agent a different task, or do this yourself.",
        Activity::Install => "What it installs is there: go on with the next step.",
        Activity::RunCommand | Activity::CallTool => {
            "If this is what you need, finish with it. If it is empty or not what you expected, run its first \
             part alone, and look at that."
        }
    }
}

/// The suggestion of the second message: how to narrow down the problem.
pub(super) const fn narrowing(detail: &PatternDetail, subject: Option<&Subject>) -> &'static str {
    match detail {
        PatternDetail::DoomLoop { .. } | PatternDetail::RepeatedError { .. } => match subject {
            Some(Subject {
                failure: Some(FailureKind::Outage | FailureKind::Other),
                changes_between: 0,
                ..
            }) => "Leave out parts of it until it works; what you left out last is the cause.",
            Some(Subject { failure: Some(kind), .. }) => untested(*kind),
            Some(Subject { is_negative: true, .. }) => {
                "Read the task again: which name, argument or meaning in it have all attempts taken the same way?"
            }
            _ => {
                "If the result is right, the work may be done: finish. If not, name what is missing, and look there."
            }
        },
        PatternDetail::ErrorCascade { .. } => {
            "Go back to the last state that worked, and take one small step from there."
        }
        PatternDetail::ProgressStall { .. }
        | PatternDetail::Stagnation { .. }
        | PatternDetail::ContextDegradation { .. }
        | PatternDetail::Sweep { .. } => {
            "Name the one thing that you still need to know, and get exactly that, or go on without it."
        }
        PatternDetail::WriteThrash { .. } | PatternDetail::NoEffect { alternates: true, .. } => {
            "If both versions fail, write a test for each problem, and change something else than these \
             lines."
        }
        PatternDetail::NoEffect { .. } => {
            "Find out what the result depends on: what is run, with which files and which settings."
        }
        PatternDetail::Outage { .. } => {
            "Test the connection with the smallest request there is, once; then work on what does not \
             need it, or report it."
        }
        PatternDetail::Churn { .. }
        | PatternDetail::ToolAvoidance { .. }
        | PatternDetail::IdleTalk { .. }
        | PatternDetail::Monologue { .. } => {
            "If something keeps you from acting, say what it is; if not, make one tool call now."
        }
        PatternDetail::Drift { .. }
        | PatternDetail::Waiting { .. }
        | PatternDetail::Custom { .. } => "Compare what you do with the original request.",
    }
}

/// The assumption that is worth testing when attempts to avoid a failure do not help.
const fn untested(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Permission => {
            "Do not try to get around it: say what you need permission for and why, and do work that does \
             not need it."
        }
        FailureKind::NotFound => {
            "Test which part of the call is taken for this name: print the arguments; an option or a lost \
             quote may change them."
        }
        FailureKind::MissingProgram | FailureKind::MissingPackage => {
            "Test which environment this runs in: print the search path and the version of what runs it."
        }
        FailureKind::UnknownTool | FailureKind::UnknownName => {
            "Test which version you have: its names may differ from those you remember."
        }
        FailureKind::BadArguments => {
            "Take an example that is known to work, and change it towards what you need, one step at a \
             time."
        }
        FailureKind::Timeout => {
            "Test whether it does anything at all in that time: start it with a log, and look at the log."
        }
        FailureKind::Check => {
            "Test whether the check runs the code that you edit: break that code on purpose, and look \
             whether the check notices."
        }
        FailureKind::Syntax => {
            "Cut the text in half until a part of it is accepted; what you add next is the cause."
        }
        FailureKind::EditMismatch => {
            "Print the lines with their whitespace made visible, or replace the whole block or file."
        }
        FailureKind::Conflict => "Find out who holds it, and since when, before you act on it.",
        FailureKind::Resource => "Measure it: how much there is, how much is used, and by what.",
        FailureKind::Outage | FailureKind::Other => {
            "Build the smallest case that shows it, or undo your last changes to see whether they matter."
        }
    }
}

/// The suggestion of the third message: to stop and go on with something else. `None` if there is
/// nothing more to say.
pub(super) const fn leaving(detail: &PatternDetail) -> Option<&'static str> {
    Some(match detail {
        // If the agent carries on after two messages, it probably has a reason.
        PatternDetail::Drift { .. } => return None,
        PatternDetail::Churn { .. }
        | PatternDetail::ToolAvoidance { .. }
        | PatternDetail::IdleTalk { .. }
        | PatternDetail::Monologue { .. } => {
            "Write down what is done and what is open, and end your turn with that."
        }
        _ => {
            "Write down what is known, what is ruled out and what blocks you; then go on with other \
             work, or report it as open."
        }
    })
}

/// The suggestion of all later messages; `None` if there is nothing more to say. It is always the
/// same; the numbers in the first part make each message different.
pub(super) const fn last(detail: &PatternDetail) -> Option<&'static str> {
    match detail {
        PatternDetail::DoomLoop { .. }
        | PatternDetail::RepeatedError { .. }
        | PatternDetail::Outage { .. } => Some(
            "Hand over what you have, with this as an open point; another attempt adds nothing.",
        ),
        _ => None,
    }
}
