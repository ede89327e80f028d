//! `midcourse uninstall`: removes midcourse's hooks from the settings of a coding agent.
//!
//! If nobody has changed the file since `midcourse install`, it gets the bytes that it had before, or
//! is deleted if there was none. Otherwise exactly midcourse's entries are removed, and what
//! `install` added for them and is empty now.

use std::io::{Write as _, stdout};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::install::record::Record;
use super::install::target::{Target, host_named, print_diff};
use crate::display::escape_control_chars;
use crate::hosts::{
    HookSettings, Host, Installation, PluginFile, midcourse_arguments, option_value, status_line,
};
use crate::json_edit::JsonText;
use crate::user_file::{UserFile, remove_empty_folders};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Remove the hooks from this agent: claude-code, codex, copilot, gemini, opencode or qwen.
    #[arg(value_parser = host_named)]
    host: Host,
    /// Change the settings of the project in the current directory instead of the user's.
    #[arg(long)]
    project: bool,
    /// Print the changes as a diff and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let target = Target::find(arguments.host, arguments.project)?;
    let file = UserFile::read(&target.path)?;
    let removal = match file.content() {
        Some(content) => Removal::plan(&target, content)?,
        None => None,
    };
    let path = target.path.display().to_string();
    let path = escape_control_chars(&path);
    let Some(removal) = removal else {
        writeln!(stdout(), "{path} has no hooks of midcourse; nothing was changed.")?;
        return Ok(());
    };
    if arguments.dry_run {
        return print_diff(&target.path, file.content(), removal.after.as_deref());
    }
    match &removal.after {
        Some(after) => drop(file.replace(after)?),
        None => file.delete()?,
    }
    let mut out = stdout().lock();
    match (&removal.after, removal.is_as_before) {
        (None, _) => writeln!(out, "deleted {path}, which contained only midcourse's hooks")?,
        (Some(_), true) => writeln!(out, "{path} is as it was before the installation")?,
        (Some(_), false) => writeln!(out, "removed midcourse's hooks: {path}")?,
    }
    if let Some(record) = &removal.record {
        if removal.after.is_none() {
            remove_empty_folders(record.created_folders());
        }
        record.remove(removal.is_as_before);
        if let Some(original) = record.original_path().filter(|_| !removal.is_as_before) {
            writeln!(out, "the file before the installation: {}", original.display())?;
        }
    }
    writeln!(
        out,
        "what midcourse has recorded stays: `midcourse list` shows it; to delete it, delete the \
         data directory (`midcourse doctor` names it)"
    )?;
    Ok(())
}

/// How a file loses midcourse's entries.
struct Removal {
    /// The new content; `None` if the file is to be deleted.
    after: Option<Vec<u8>>,
    /// Whether that is exactly what there was before the installation.
    is_as_before: bool,
    record: Option<Record>,
}

impl Removal {
    /// `None` if the file contains nothing of midcourse's.
    fn plan(target: &Target, content: &[u8]) -> Result<Option<Self>> {
        match target.host.installation("") {
            Installation::Hooks(hooks) => Self::of_hooks(target, &hooks, content),
            Installation::Plugin(_) => Ok(Self::of_plugin(target, content)),
        }
    }

    fn of_hooks(target: &Target, hooks: &HookSettings, content: &[u8]) -> Result<Option<Self>> {
        let unchanged = || format!("{} is not changed", target.path.display());
        let mut json = JsonText::parse(content).with_context(unchanged)?;
        let mut commands = hooks.commands_in(&json);
        if target.host == Host::ClaudeCode {
            commands.extend(status_line::own_command(&json));
        }
        let Some(command) = commands.first() else { return Ok(None) };
        let arguments = midcourse_arguments(command).unwrap_or_default();
        let record = Record::find(target, option_value(&arguments, "--home"));
        let original = record.as_ref().and_then(Record::original);
        let original_json = original.and_then(|bytes| JsonText::parse(bytes).ok());
        if record.as_ref().is_some_and(|record| record.is_as_installed(content)) {
            let after = original.zip(original_json).map(|(bytes, json)| {
                let mut without = json.clone();
                // Hooks that were there before the installation are removed too.
                remove(target, hooks, &mut without, None);
                if without == json { bytes.to_vec() } else { without.to_bytes() }
            });
            let is_as_before = after.as_deref() == original;
            return Ok(Some(Self { after, is_as_before, record }));
        }
        remove(target, hooks, &mut json, original_json.as_ref());
        let is_created = record.as_ref().is_some_and(|record| record.original().is_none());
        let new_file = serde_json::from_str::<Value>(hooks.new_file()).ok();
        let is_left_over = is_created && json.get(&[]) == new_file;
        let after = (!is_left_over).then(|| json.to_bytes());
        let is_as_before = record.as_ref().is_some_and(|it| after.as_deref() == it.original());
        Ok(Some(Self { after, is_as_before, record }))
    }

    fn of_plugin(target: &Target, content: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(content).ok().filter(|text| PluginFile::is_ours(text))?;
        let command = PluginFile::command(text).unwrap_or_default();
        let record = Record::find(target, option_value(&command, "--home"));
        Some(Self { after: None, is_as_before: true, record })
    }
}

fn remove(target: &Target, hooks: &HookSettings, json: &mut JsonText, original: Option<&JsonText>) {
    hooks.remove_from(json, original);
    if target.host == Host::ClaudeCode {
        status_line::remove(json, original);
    }
}
