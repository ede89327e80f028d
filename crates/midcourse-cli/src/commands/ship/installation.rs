//! `midcourse ship install`: ships whenever the user is logged in, as a service of systemd or launchd.

use std::io::{Write as _, stdout};

use anyhow::{Context as _, Result, bail, ensure};

use super::note;
use crate::commands::open;
use crate::commands::unit::{Service as UnitService, Unit, environment};
use crate::config;
use crate::display::escape_control_chars;

static SERVICE: UnitService = UnitService {
    name: "midcourse-ship",
    description: "midcourse ship: ships recorded runs to a fleet",
    command: "midcourse ship",
    thing: "service",
    // A wrong password or a fleet that is being upgraded does not become right within seconds.
    restart_seconds: 30,
};

#[derive(clap::Subcommand)]
pub(super) enum Service {
    /// Install a service that ships new runs while you are logged in.
    ///
    /// Writes a systemd user unit, or a launchd agent on macOS. Hooks and `midcourse run` start a
    /// shipper themselves; the service also ships what the proxy and `midcourse record` store. The
    /// fleet is the one in your configuration (`[ship]`). The unit contains no password: put it into
    /// a password file (~/.pgpass) or a service entry.
    Install(InstallArguments),
    /// Remove the service that `midcourse ship install` has set up.
    Uninstall,
}

#[derive(clap::Args)]
pub(super) struct InstallArguments {
    /// Print the unit and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(service: &Service) -> Result<()> {
    match service {
        Service::Install(arguments) => install(arguments),
        Service::Uninstall => uninstall(),
    }
}

fn install(arguments: &InstallArguments) -> Result<()> {
    ensure!(
        cfg!(unix),
        "this system has neither systemd nor launchd; start `midcourse ship --follow` yourself"
    );
    let data_dir = open::data_dir()?;
    if config::users_ship(&data_dir)?.to.is_none() {
        bail!(
            "no fleet is configured; add this to {}:\n\n[ship]\nto = \
             \"postgres://USER@HOST/DATABASE\"",
            data_dir.config_file().display()
        );
    }
    let program = crate::commands::install::program_path()?;
    let program = program.to_str().context("the path of midcourse is not valid UTF-8")?;
    let command = vec![program.to_owned(), "ship".to_owned(), "--follow".to_owned()];
    let mut variables = environment();
    for name in ["PGPASSFILE", "PGSERVICEFILE"] {
        if let Some(value) = std::env::var(name).ok().filter(|value| !value.is_empty()) {
            variables.push((name, value));
        }
    }
    let unit = Unit::find(&SERVICE, command, variables)?;
    if arguments.dry_run {
        write!(stdout(), "{}", escape_control_chars(&unit.text))?;
        return Ok(());
    }
    unit.file()?.replace(unit.text.as_bytes())?;
    let (mut out, path) = (stdout().lock(), unit.path.display().to_string());
    writeln!(out, "wrote {}", escape_control_chars(&path))?;
    writeln!(out, "start it:  {}", unit.start_command())?;
    writeln!(out, "undo:      midcourse ship uninstall")?;
    if std::env::var_os("PGPASSWORD").is_some() {
        note("The service does not get PGPASSWORD; put the password into ~/.pgpass.");
    }
    Ok(())
}

fn uninstall() -> Result<()> {
    Unit::find(&SERVICE, Vec::new(), Vec::new())?.uninstall(&mut stdout().lock())
}
