//! Finds out what a call does, in the words of its agent, and what it is about.

use super::call::Act;
use super::call_flags::CallFlags;
use super::tools::NameTraits;
use crate::subject::Activity;
use crate::text::{ArgsView, CommandView, ObjectName, SafeName, Task, host};

/// What a call does, as far as its tool and arguments show.
pub(super) fn activity_of(
    name_traits: NameTraits,
    view: &ArgsView<'_>,
    command: Option<&CommandView<'_>>,
    act: Option<Act>,
    flags: CallFlags,
) -> Activity {
    if flags.any(CallFlags::WAITS) {
        return Activity::Wait;
    }
    if let Some(command) = command {
        return match (command.task, act) {
            _ if command.runs_check => Activity::RunCheck,
            // What a pipeline reads or finds is only its first step.
            _ if command.is_pipeline() => Activity::RunCommand,
            (Task::Install, _) => Activity::Install,
            (Task::Fetch, _) => Activity::Fetch,
            (_, Some(Act::Search(_))) => Activity::Search,
            (_, Some(Act::Read(..))) => Activity::Read,
            (_, Some(Act::Edit(_))) if command.file.is_some() => Activity::Edit,
            _ => Activity::RunCommand,
        };
    }
    let is_url = view.target.is_some_and(|target| target.contains("://"));
    match act {
        _ if name_traits.has(NameTraits::DELEGATES) => Activity::Delegate,
        Some(Act::Edit(_)) if view.target.is_some() => Activity::Edit,
        _ if is_url => Activity::Fetch,
        Some(Act::Search(_)) => Activity::Search,
        Some(Act::Read(..)) => Activity::Read,
        _ => Activity::CallTool,
    }
}

/// The command, search term or host that the call is about. `None` if it has no such name, or
/// none that may be in a message; see `object_of`.
pub(super) fn named_object(
    activity: Activity,
    view: &ArgsView<'_>,
    command: Option<&CommandView<'_>>,
) -> Option<ObjectName> {
    match (activity, command) {
        (Activity::Read | Activity::Edit, _) => None,
        (Activity::Search, _) => {
            let term = command.map_or(view.search_term, |command| command.search_term)?;
            ObjectName::of_words([term])
        }
        (_, Some(command)) => ObjectName::of_words(command.words.iter().flatten().copied()),
        (Activity::Fetch, None) => ObjectName::of_words([view.target.and_then(host)?]),
        (_, None) => None,
    }
}

/// What a call of this tool is about: the object that `named_object` found, or else the file,
/// or else the tool. A shell and a search tool are known to the agent; their names say nothing.
pub(super) fn object_of(
    activity: Activity,
    named: Option<&ObjectName>,
    file: Option<&SafeName>,
    tool: &str,
    is_shell: bool,
) -> Option<ObjectName> {
    match activity {
        Activity::Read | Activity::Edit => file.and_then(ObjectName::of_file),
        Activity::Search => named.cloned(),
        _ => named.cloned().or_else(|| ObjectName::of_words([tool]).filter(|_| !is_shell)),
    }
}
