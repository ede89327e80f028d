//! `midcourse man`: writes manual pages, one for each command.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;

use super::Cli;

/// Write manual pages to a folder.
///
/// For example `midcourse man ~/.local/share/man/man1`; then `man midcourse` and `man
/// midcourse-run` work.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Write the pages to this folder, and create it if it is missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.folder;
    let failed = || format!("cannot write manual pages to {}", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(failed)
}
