//! `midcourse proxy`: runs the proxy, or sets up one that stays.
//!
//! `midcourse proxy install` writes a unit for the user's systemd, or an agent for launchd on macOS.
//! Its address and its token stay the same, so that the variables of agents stay valid. The token is
//! in the data directory, readable by the user only, and not in the unit.

use std::io::{Write as _, stdout};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use midcourse::DataDir;

use crate::display::escape_control_chars;
use crate::duration::parse_duration;
use crate::proxy::{self, Upstreams, export_lines, new_token, read_token};
use crate::run_settings::RunSettings;
use crate::user_file::UserFile;

use super::unit::{Service as UnitService, Unit, environment};

static SERVICE: UnitService = UnitService {
    name: "midcourse-proxy",
    description: "midcourse proxy: records model traffic and injects guidance",
    command: "midcourse proxy",
    thing: "proxy",
    restart_seconds: 2,
};

const TOKEN_FILE: &str = "proxy-token";
const ADDRESS_FILE: &str = "proxy-address";

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct ProxyCommand {
    #[command(subcommand)]
    service: Option<Service>,
    #[command(flatten)]
    proxy: proxy::Arguments,
}

#[derive(clap::Subcommand)]
enum Service {
    /// Set up a proxy that runs whenever you are logged in.
    ///
    /// Writes a systemd user unit, or a launchd agent on macOS, and prints the variables to set for
    /// agents. Each variable names the server that its requests go to.
    Install(InstallArguments),
    /// Remove the proxy that `midcourse proxy install` has set up.
    Uninstall,
}

#[derive(clap::Args)]
struct InstallArguments {
    /// Forward to this server, or set one per vendor: anthropic=URL, openai=URL, gemini=URL.
    #[arg(long, value_name = "[NAME=]URL", required = true)]
    upstream: Vec<String>,
    /// Listen on this address instead of a free port of 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Tell each run that it has this much time, such as 90m or "1h 30m".
    #[arg(long, value_name = "DURATION", value_parser = deadline)]
    deadline: Option<String>,
    /// Record messages without delivering them.
    #[arg(long)]
    shadow: bool,
    /// Read this configuration file and no other.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the unit and change nothing.
    #[arg(long)]
    dry_run: bool,
}

fn deadline(text: &str) -> Result<String, String> {
    parse_duration(text)
        .map(|_| text.to_owned())
        .ok_or_else(|| "try 90m, 2h or \"1h 30m\"; at most 365d".to_owned())
}

pub(super) fn run(arguments: &ProxyCommand) -> Result<()> {
    match &arguments.service {
        None => proxy::run(&arguments.proxy),
        Some(Service::Install(arguments)) => install(arguments),
        Some(Service::Uninstall) => uninstall(),
    }
}

fn install(arguments: &InstallArguments) -> Result<()> {
    ensure!(
        cfg!(unix),
        "this system has neither systemd nor launchd; start `midcourse proxy` yourself"
    );
    let upstreams = Upstreams::named(&arguments.upstream)?;
    ensure!(
        !arguments.upstream.iter().any(|url| url.contains('@')),
        "leave user name and password out of --upstream: other programs can read the command line \
         of a service; agents send their own keys"
    );
    let data_dir = super::open::data_dir()?;
    let token_file = data_dir.path().join(TOKEN_FILE);
    let token = if token_file.exists() { read_token(&token_file)? } else { new_token() };
    let address = match arguments.listen {
        Some(address) => address,
        None => stored_address(&data_dir).map_or_else(free_address, Ok)?,
    };
    ensure!(address.port() != 0, "choose a port with --listen: agents need one that stays");
    let unit = Unit::find(&SERVICE, command(arguments, &token_file, address)?, environment())?;
    if arguments.dry_run {
        write!(stdout(), "{}", escape_control_chars(&unit.text))?;
        return Ok(());
    }
    let file = unit.file()?;
    data_dir.create(data_dir.path())?;
    write_private(&token_file, &token)?;
    write_private(&data_dir.path().join(ADDRESS_FILE), &address.to_string())?;
    file.replace(unit.text.as_bytes())?;
    let (mut out, path) = (stdout().lock(), unit.path.display().to_string());
    writeln!(out, "# wrote {}", escape_control_chars(&path))?;
    writeln!(out, "# start it:  {}", unit.start_command())?;
    writeln!(out, "# undo:      midcourse proxy uninstall")?;
    writeln!(out, "# put the lines that your agents need into their environment:")?;
    write!(out, "{}", export_lines(&upstreams, address, &token))?;
    Ok(())
}

/// The command line of the proxy, which names every path.
fn command(
    arguments: &InstallArguments,
    token_file: &Path,
    address: SocketAddr,
) -> Result<Vec<String>> {
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("the path {} is not valid UTF-8", path.display()))
    };
    let program = super::install::program_path()?;
    let mut words = vec![text(&program)?, "proxy".to_owned()];
    words.extend(["--listen".to_owned(), address.to_string()]);
    words.extend(["--token-file".to_owned(), text(token_file)?, "--only-named".to_owned()]);
    for upstream in &arguments.upstream {
        words.extend(["--upstream".to_owned(), upstream.clone()]);
    }
    if let Some(deadline) = &arguments.deadline {
        words.extend(["--deadline".to_owned(), deadline.clone()]);
    }
    if let Some(config) = &arguments.config {
        let config = std::path::absolute(config)?;
        RunSettings::read(&config).with_context(|| config.display().to_string())?;
        words.extend(["--config".to_owned(), text(&config)?]);
    }
    if arguments.shadow {
        words.push("--shadow".to_owned());
    }
    Ok(words)
}

/// What `midcourse proxy install` has set up, as far as it is there.
pub(super) struct InstalledProxy {
    /// The address on which the proxy listens; `None` if it is not known.
    pub(super) address: Option<SocketAddr>,
    pub(super) unit: PathBuf,
    pub(super) has_unit: bool,
    pub(super) start_command: String,
    pub(super) token_file: PathBuf,
    /// Why the token cannot be used; `None` if it can.
    pub(super) token_error: Option<String>,
}

impl InstalledProxy {
    /// `None` if no proxy is installed.
    pub(super) fn find(data_dir: &DataDir) -> Option<Self> {
        let unit = Unit::find(&SERVICE, Vec::new(), Vec::new()).ok()?;
        let text = std::fs::read_to_string(&unit.path);
        let has_unit = text.is_ok_and(|text| SERVICE.wrote(&text));
        let address = stored_address(data_dir);
        let token_file = data_dir.path().join(TOKEN_FILE);
        (has_unit || address.is_some() || token_file.exists()).then(|| Self {
            address,
            has_unit,
            start_command: unit.start_command(),
            unit: unit.path,
            token_error: read_token(&token_file).err().map(|error| format!("{error:#}")),
            token_file,
        })
    }
}

fn stored_address(data_dir: &DataDir) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(data_dir.path().join(ADDRESS_FILE)).ok()?;
    text.trim().parse().ok()
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port was found")?;
    Ok(listener.local_addr()?)
}

/// Writes a line into a file that only its owner can read.
fn write_private(path: &Path, line: &str) -> Result<()> {
    let content = format!("{line}\n");
    let file = UserFile::read(path)?;
    if file.content().is_none() {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path).with_context(|| path.display().to_string())?;
    }
    // The file keeps its mode when it is replaced.
    UserFile::read(path)?.replace(content.as_bytes())?;
    Ok(())
}

fn uninstall() -> Result<()> {
    let data_dir = super::open::data_dir()?;
    let mut out = stdout().lock();
    Unit::find(&SERVICE, Vec::new(), Vec::new())?.uninstall(&mut out)?;
    for name in [TOKEN_FILE, ADDRESS_FILE] {
        let _ = std::fs::remove_file(data_dir.path().join(name));
    }
    writeln!(
        out,
        "remove the variables with the proxy's address from the environment of your agents"
    )?;
    Ok(())
}
