//! `midcourse completions`: prints the script by which a shell completes midcourse's command line.

use std::io::Write as _;

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Cli;

/// Print a script that completes this command line in a shell.
///
/// bash: `midcourse completions bash > ~/.local/share/bash-completion/completions/midcourse`.
/// fish: `midcourse completions fish > ~/.config/fish/completions/midcourse.fish`.
/// zsh: write it to a file `_midcourse` in a folder of your `fpath`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Print the script for this shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "midcourse", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}
