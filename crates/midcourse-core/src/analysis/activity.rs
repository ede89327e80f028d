//! Finds out what a call does and to what, so that a message can name both.

use compact_str::CompactString;

use super::call::Act;
use super::call_flags::CallFlags;
use super::tools::NameTraits;
use crate::subject::Activity;
use crate::text::{ArgsView, CommandView, MAX_OBJECT_CHARS, ObjectName, SafeName, Task, host};

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
            // A read or a search is only the first step of a pipeline.
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

/// The command, search term or network host that the call is about; `None` if it has none, or if
/// the name is too long for a message. [`object_of`] decides later whether a message may contain
/// the name, because messages mention few calls.
pub(super) fn named_object(
    activity: Activity,
    view: &ArgsView<'_>,
    command: Option<&CommandView<'_>>,
) -> Option<CompactString> {
    let is_short = |name: &&str| name.len() <= MAX_OBJECT_CHARS;
    let name = match (activity, command) {
        (Activity::Read | Activity::Edit, _) => return None,
        (Activity::Search, _) => {
            command.map_or(view.search_term, |it| it.search_term).filter(is_short)?.into()
        }
        (_, Some(command)) => {
            let mut words = command.words.iter().flatten();
            let mut name = CompactString::from(*words.next()?);
            for word in words {
                name.push(' ');
                name.push_str(word);
            }
            name
        }
        (Activity::Fetch, None) => view.target.and_then(host).filter(is_short)?.into(),
        (_, None) => return None,
    };
    Some(name).filter(|name: &CompactString| name.len() <= MAX_OBJECT_CHARS)
}

/// What a call is about. For a read or an edit, this is the file; for other calls, `named`, which
/// is the result of [`named_object`]. A call without such a name is about its tool, unless it is a
/// search or the tool is a shell: the names of these tools would tell the agent nothing.
pub(super) fn object_of(
    activity: Activity,
    named: Option<&str>,
    file: Option<&SafeName>,
    tool: &str,
    is_shell: bool,
) -> Option<ObjectName> {
    match activity {
        Activity::Read | Activity::Edit => file.and_then(ObjectName::of_file),
        // A search term is not split at spaces: unlike a command, it may be any text.
        Activity::Search => ObjectName::of_words([named?]),
        _ => {
            let named = named.and_then(|named| ObjectName::of_words(named.split(' ')));
            named.or_else(|| ObjectName::of_words([tool]).filter(|_| !is_shell))
        }
    }
}
