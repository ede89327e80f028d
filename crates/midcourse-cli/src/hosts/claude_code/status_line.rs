//! midcourse's status line in the settings of Claude Code. If the user has a status line, midcourse's
//! command runs it (`--wrap`) and adds its own text; removing midcourse's puts the user's back.

use serde_json::{Value, json};

use super::super::hook_settings::{midcourse_arguments, option_value};
use crate::json_edit::Step::Key;
use crate::json_edit::{JsonEditError, JsonText};

const STATUS_LINE: &str = "statusLine";
const COMMAND: [crate::json_edit::Step<'static>; 2] = [Key(STATUS_LINE), Key("command")];

/// What became of the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusLine {
    /// There was none, or midcourse's own.
    Set,
    /// midcourse's command runs the one that was there.
    Wraps,
    /// There is one that is not a command.
    Unchanged,
}

/// Sets the status line. `command` makes midcourse's command, with the command to wrap.
pub(crate) fn add(
    json: &mut JsonText,
    command: impl Fn(Option<&str>) -> String,
) -> Result<StatusLine, JsonEditError> {
    let Some(found) = json.get(&[Key(STATUS_LINE)]) else {
        let value = json!({"type": "command", "command": command(None)});
        json.insert(&[], STATUS_LINE, &value, 1)?;
        return Ok(StatusLine::Set);
    };
    let theirs = found.get("command").and_then(Value::as_str);
    let Some(theirs) = theirs.filter(|_| found.get("type") == Some(&json!("command"))) else {
        return Ok(StatusLine::Unchanged);
    };
    let arguments = own_arguments(theirs);
    let wrapped = match &arguments {
        Some(arguments) => option_value(arguments, "--wrap"),
        None => Some(theirs),
    };
    let ours = command(wrapped);
    if theirs != ours {
        json.replace(&COMMAND, &ours.into());
    }
    Ok(if wrapped.is_some() { StatusLine::Wraps } else { StatusLine::Set })
}

/// Removes midcourse's status line, and puts the one back that it wraps. `original` is the text
/// before the status line was added.
pub(crate) fn remove(json: &mut JsonText, original: Option<&JsonText>) {
    let Some(arguments) = command_in(json).as_deref().and_then(own_arguments) else { return };
    let Some(theirs) = option_value(&arguments, "--wrap") else {
        json.remove(&[Key(STATUS_LINE)]);
        return;
    };
    // The same string can be written in several ways, so prefer the bytes that the user wrote.
    let original = original.filter(|text| command_in(text).as_deref() == Some(theirs));
    match original.and_then(|text| text.raw(&COMMAND)) {
        Some(raw) => json.replace_raw(&COMMAND, raw),
        None => json.replace(&COMMAND, &theirs.into()),
    }
}

/// The command of midcourse's status line, if the settings have it.
pub(crate) fn own_command(json: &JsonText) -> Option<String> {
    command_in(json).filter(|command| own_arguments(command).is_some())
}

fn command_in(json: &JsonText) -> Option<String> {
    json.get(&COMMAND)?.as_str().map(str::to_owned)
}

/// The arguments of `midcourse statusline`; `None` for any other command.
fn own_arguments(command: &str) -> Option<Vec<String>> {
    let arguments = midcourse_arguments(command)?;
    (arguments.first().map(String::as_str) == Some("statusline")).then_some(arguments)
}

#[cfg(test)]
mod tests {
    use super::{StatusLine, add, remove};
    use crate::json_edit::JsonText;
    use crate::shell::shell_quote;

    fn command(wrapped: Option<&str>) -> String {
        let wrap = wrapped.map(|theirs| format!(" --wrap {}", shell_quote(theirs)));
        format!("/bin/midcourse statusline --home /h{}", wrap.unwrap_or_default())
    }

    #[test]
    fn a_status_line_of_the_user_is_wrapped_and_put_back() {
        for (theirs, expected) in [
            ("{}", StatusLine::Set),
            (r#"{"model": "m"}"#, StatusLine::Set),
            (
                r#"{"statusLine":{"type":"command","command":"echo 'a b' \u0022c\"","padding":0}}"#,
                StatusLine::Wraps,
            ),
            (r#"{"statusLine": {"type": "static", "text": "x"}}"#, StatusLine::Unchanged),
            (r#"{"statusLine": null}"#, StatusLine::Unchanged),
        ] {
            let original = JsonText::parse(theirs.as_bytes()).unwrap();
            let mut json = original.clone();
            assert_eq!(add(&mut json, command).unwrap(), expected);
            let once = json.clone();
            assert_eq!(add(&mut json, command).unwrap(), expected);
            assert_eq!(json, once, "a second time changes nothing");
            remove(&mut json, Some(&original));
            assert_eq!(json.to_bytes(), theirs.as_bytes());
        }
    }
}
