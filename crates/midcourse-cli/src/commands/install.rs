//! `midcourse install`: adds midcourse's hooks to the settings of a coding agent, for every session.
//!
//! Everything else in the settings file stays byte for byte. The file as it was is saved in the data
//! directory first ([`record`]), and `midcourse uninstall` puts it back.

mod plugin;
pub(super) mod program;
pub(super) mod record;
pub(super) mod target;

use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use midcourse::DataDir;

use super::hook::{installed_hook_command, quoted};
use crate::display::escape_control_chars;
use crate::hosts::{
    Host, Installation, PluginFile, StatusLine, midcourse_arguments, option_value, status_line,
};
use crate::json_edit::JsonText;
use crate::run_settings::RunSettings;
use crate::shell::shell_quote;
use crate::user_file::UserFile;
pub(super) use program::path as program_path;
use record::Record;
use target::{Target, host_named, print_diff};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Install in this agent: claude-code, codex, copilot, gemini, opencode or qwen.
    #[arg(value_parser = host_named)]
    host: Option<Host>,
    /// Write to the settings of the project in the current directory instead of the user's.
    #[arg(long, requires = "host")]
    project: bool,
    /// Print the changes as a diff and change nothing.
    #[arg(long, requires = "host")]
    dry_run: bool,
    /// Record into this data directory instead of the user's.
    #[arg(long, value_name = "DIR", requires = "host")]
    home: Option<PathBuf>,
    /// Use this configuration file instead of the user's.
    #[arg(long, value_name = "FILE", requires = "host")]
    config: Option<PathBuf>,
    /// Leave the status line of Claude Code as it is.
    #[arg(long, requires = "host")]
    no_statusline: bool,
    /// Write a plugin for Claude Code to this directory, and change no settings.
    #[arg(long, value_name = "DIR", requires = "host", conflicts_with_all = ["project", "no_statusline"])]
    plugin: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let Some(host) = arguments.host else { return program::list_hosts() };
    let data_dir = data_dir(arguments)?;
    let program = program_path()?;
    if let Some(folder) = &arguments.plugin {
        ensure!(host == Host::ClaudeCode, "only Claude Code takes a plugin; leave out --plugin");
        let command = installed_hook_command(host, &program, &data_dir)?;
        return plugin::write(folder, &command, arguments.dry_run);
    }
    let target = Target::find(host, arguments.project)?;
    let command = installed_hook_command(host, &program, &data_dir)?;
    let has_status_line =
        host == Host::ClaudeCode && !arguments.project && !arguments.no_statusline;
    let status_line = has_status_line.then(|| status_line_command(&program, &data_dir));
    let change = Change::plan(&target, &command, status_line.transpose()?)?;
    if arguments.dry_run {
        return print_diff(&target.path, change.file.content(), Some(&change.after));
    }
    change.apply(&target, &data_dir)
}

/// The data directory that the hooks use, with the configuration file that they read.
fn data_dir(arguments: &Arguments) -> Result<DataDir> {
    let data_dir = match &arguments.home {
        Some(home) => DataDir::at(std::path::absolute(home)?),
        None => super::open::data_dir()?,
    };
    let Some(config) = &arguments.config else { return Ok(data_dir) };
    let config = std::path::absolute(config)?;
    RunSettings::read(&config).with_context(|| config.display().to_string())?;
    Ok(data_dir.with_config_file(config))
}

/// Makes the command of the status line, with the command to wrap.
fn status_line_command(
    program: &Path,
    data_dir: &DataDir,
) -> Result<impl Fn(Option<&str>) -> String + use<>> {
    let (program, home) = (quoted(program)?, quoted(data_dir.path())?);
    let config = quoted(&data_dir.config_file())?;
    Ok(move |wrapped: Option<&str>| {
        let wrap = wrapped.map(|theirs| format!(" --wrap {}", shell_quote(theirs)));
        let wrap = wrap.unwrap_or_default();
        format!("exec {program} statusline --home {home} --config {config}{wrap}")
    })
}

/// A planned change of a file.
struct Change {
    file: UserFile,
    after: Vec<u8>,
    /// The arguments of the hooks that were in the file already.
    found: Option<Vec<String>>,
    status_line: Option<StatusLine>,
}

impl Change {
    fn plan(
        target: &Target,
        command: &str,
        status_line_command: Option<impl Fn(Option<&str>) -> String>,
    ) -> Result<Self> {
        let path = target.path.display();
        let file = UserFile::read(&target.path)?;
        let hooks = match target.host.installation(command) {
            Installation::Hooks(hooks) => hooks,
            Installation::Plugin(PluginFile(text)) => {
                let found = target.own_plugin(&file)?;
                return Ok(Self { file, after: text.into_bytes(), found, status_line: None });
            }
        };
        let unchanged = || format!("{path} is not changed");
        let content = file.content().unwrap_or(hooks.new_file().as_bytes());
        let mut json = JsonText::parse(content).with_context(unchanged)?;
        let title = target.host.capabilities().title;
        let refused = match () {
            () if json.has_trailing_commas() => Some("a trailing comma"),
            () if json.has_comments() && !hooks.accepts_comments() => Some("a comment"),
            () => None,
        };
        if let Some(refused) = refused {
            bail!(
                "{path} is not changed: it contains {refused}, and {title} does not read such a \
                 file at all; remove it first"
            );
        }
        let commands = hooks.commands_in(&json);
        let found = commands.first().and_then(|command| midcourse_arguments(command));
        hooks.add_to(&mut json).with_context(unchanged)?;
        let status_line = match status_line_command {
            Some(command) => Some(status_line::add(&mut json, command).with_context(unchanged)?),
            None => None,
        };
        Ok(Self { after: json.to_bytes(), file, found, status_line })
    }

    fn apply(self, target: &Target, data_dir: &DataDir) -> Result<()> {
        let Self { file, after, found, status_line } = self;
        let had_hooks = found.is_some();
        let mut out = stdout().lock();
        let path = target.path.display().to_string();
        let path = escape_control_chars(&path);
        if file.content() == Some(after.as_slice()) {
            writeln!(out, "{path} has midcourse's hooks already; nothing was changed.")?;
            return Ok(());
        }
        file.check_writable()?;
        // The hooks that are there may use another data directory.
        let previous =
            found.and_then(|arguments| Record::find(target, option_value(&arguments, "--home")));
        let mut record = Record::save(data_dir, target, file.content(), &after, previous)?;
        let created = file.replace(&after)?;
        record.add_folders(created)?;

        let what = if target.host == Host::Opencode { "plugin" } else { "hooks" };
        let done = if had_hooks { "updated" } else { "added" };
        writeln!(out, "{done} midcourse's {what}: {path}")?;
        match status_line {
            Some(StatusLine::Set) => writeln!(out, "set the status line")?,
            Some(StatusLine::Wraps) => {
                writeln!(out, "added midcourse to the status line that you have")?;
            }
            Some(StatusLine::Unchanged) => {
                writeln!(out, "left the status line: it is not a command")?;
            }
            None => {}
        }
        if let Some(original) = record.original_path() {
            writeln!(out, "the file as it was: {}", original.display())?;
        }
        for line in target.remaining_steps() {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "undo: {}", target.uninstall_command())?;
        Ok(())
    }
}

impl Target {
    /// The command of midcourse's plugin in a file; `None` if there is no file. Fails if the file
    /// contains anything else, which must not be overwritten.
    fn own_plugin(&self, file: &UserFile) -> Result<Option<Vec<String>>> {
        let Some(content) = file.content() else { return Ok(None) };
        match std::str::from_utf8(content).ok().filter(|text| PluginFile::is_ours(text)) {
            Some(text) => Ok(Some(PluginFile::command(text).unwrap_or_default())),
            None => bail!(
                "{} is not changed: it is not midcourse's plugin; move it away first",
                self.path.display()
            ),
        }
    }
}
