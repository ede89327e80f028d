//! `midcourse serve`: shows the runs of many machines to a team, in the page of `midcourse ui`.
//!
//! `site` decides who may ask for what, and passes requests on to the viewer of a project. `start`
//! gets the projects and the readiness check from its caller, so this module knows nothing about
//! where runs are stored.

mod failures;
mod listener;
mod metrics;
mod pages;
mod people;
mod people_commands;
mod private_file;
mod projects;
mod readiness;
mod rules;
mod sessions;
mod site;
mod streams;
mod token;

use std::io::{Read as _, Write as _, stdout};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use midcourse::DataDir;

use super::ui::{Viewer, routes};
use listener::Certificate;
use people::WatchedPeople;
use people_commands::{AddArguments, FileArgument, RemoveArguments};
use projects::Projects;
use readiness::{Check, Readiness};
use rules::{RequestRules, Transport};
use site::Site;

/// How many threads may block at once: each project reads with four at most.
const MAX_BLOCKING_THREADS: usize = 64;

/// How long `midcourse serve ready` waits.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct ServeCommand {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    arguments: Arguments,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Add a person to the people file and print the token to sign in with.
    ///
    /// The token is shown only once; the file has its hash. A server that runs reads the file again.
    Add(AddArguments),
    /// Remove a person from the people file and end the person's sessions.
    Remove(RemoveArguments),
    /// List the people in the people file and the projects that they see.
    People(FileArgument),
    /// Ask a running server whether it is ready, for health checks of containers.
    ///
    /// The exit code is 0 if it is ready.
    Ready(ReadyArguments),
}

#[derive(clap::Args)]
struct ReadyArguments {
    /// Ask at this address, which `midcourse serve` has as --metrics-listen.
    address: SocketAddr,
}

#[derive(clap::Args)]
struct Arguments {
    /// Read from this file who may sign in; `midcourse serve add` writes it.
    #[arg(long, value_name = "FILE", required = true)]
    people: Option<PathBuf>,
    /// Listen on this address.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4864")]
    listen: SocketAddr,
    /// Answer requests for this name only; may be repeated. By default, the names of the address.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Use this certificate chain (PEM) for TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Use this private key (PEM) for TLS; only you may be able to read it.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Rely on a proxy in front that terminates TLS and sets X-Forwarded-Proto.
    #[arg(long, conflicts_with = "tls_cert")]
    behind_tls_proxy: bool,
    /// Serve metrics for Prometheus on this address, without a sign-in.
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
    /// Show the projects of this fleet that its role may read (see docs/fleet.md).
    ///
    /// The address is postgres://USER@HOST/DATABASE or service=NAME. The password comes from
    /// PGPASSWORD, a password file or the service entry.
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "ADDRESS", required_unless_present = "local_projects")]
    store: Option<String>,
    /// Show the store of a data directory as a project.
    #[arg(long = "local-project", value_name = "NAME=DIR", hide = true)]
    local_projects: Vec<String>,
}

pub(super) fn run(command: ServeCommand) -> Result<()> {
    match &command.command {
        Some(Command::Add(arguments)) => people_commands::add(arguments),
        Some(Command::Remove(arguments)) => people_commands::remove(arguments),
        Some(Command::People(arguments)) => people_commands::list(arguments),
        Some(Command::Ready(arguments)) => ask_ready(arguments),
        None => serve(command.arguments),
    }
}

/// How often the server looks for projects that were created.
#[cfg(feature = "fleet")]
const NEW_PROJECTS: Duration = Duration::from_secs(60);

/// Adds the projects of a fleet that are not known yet, and returns their viewers.
#[cfg(feature = "fleet")]
fn add_projects(projects: &Projects, target: &midcourse_fleet::FleetTarget) -> Result<Vec<Viewer>> {
    let mut viewers = Vec::new();
    for name in midcourse_fleet::FleetReader::projects(target)? {
        if !projects.has(&name) {
            let viewer = Viewer::open_fleet(target, Some(&name))?;
            projects.insert(&name, routes(viewer.clone()));
            viewers.push(viewer);
        }
    }
    Ok(viewers)
}

/// Shows the projects of a fleet, or stores of this machine.
fn serve(arguments: Arguments) -> Result<()> {
    let projects = Arc::new(Projects::default());
    #[cfg(feature = "fleet")]
    if let Some(address) = &arguments.store {
        let target = midcourse_fleet::FleetTarget::parse(address)?;
        let readers = add_projects(&projects, &target)?;
        let first = readers.into_iter().next();
        let first = first.context("the role may read no project of the fleet; its owner gives access with `midcourse fleet grant ADDRESS --project NAME --reader ROLE`")?;
        let followed = Arc::clone(&projects);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(NEW_PROJECTS);
                // If the fleet cannot be reached now, the next round finds the new projects.
                let _ = add_projects(&followed, &target);
            }
        });
        return start(arguments, projects, Arc::new(move || first.check()));
    }
    for project in &arguments.local_projects {
        let (name, folder) = project.rsplit_once('=').context("write NAME=DIR")?;
        people::check_name(name)?;
        let viewer = Viewer::open(&DataDir::at(folder))?;
        projects.insert(name, routes(viewer));
    }
    start(arguments, projects, Arc::new(|| Ok(())))
}

/// Serves the projects until the program is told to stop. `check` says whether they can be read.
fn start(arguments: Arguments, projects: Arc<Projects>, check: Check) -> Result<()> {
    let transport = match (&arguments.tls_cert, arguments.behind_tls_proxy) {
        (Some(_), _) => Transport::Tls,
        (None, true) => Transport::TlsProxy,
        (None, false) => Transport::Plain,
    };
    listener::check(arguments.listen, transport, &arguments.hosts)?;
    let people = arguments.people.context("--people is missing")?;
    ensure!(
        people.exists(),
        "there is no people file {}; `midcourse serve add NAME --project PROJECT --people FILE` makes one",
        people.display()
    );
    let people = WatchedPeople::open(people)?;
    let certificate = arguments.tls_cert.zip(arguments.tls_key);
    let certificate = certificate.map(|(cert, key)| Certificate::open(cert, key)).transpose()?;
    let certificate = certificate.map(Arc::new);
    let socket = listener::bind(arguments.listen, "--listen")?;
    let metrics_socket = arguments.metrics_listen;
    let metrics_socket =
        metrics_socket.map(|address| listener::bind(address, "--metrics-listen")).transpose()?;
    let address = socket.local_addr()?;
    let site = Arc::new(Site {
        projects,
        people,
        sessions: sessions::Sessions::default(),
        failures: failures::Failures::default(),
        rules: RequestRules::new(transport, address, &arguments.hosts),
        readiness: Readiness::new(check),
        metrics: metrics::Metrics::default(),
        port: address.port(),
    });
    let mut out = stdout().lock();
    writeln!(out, "{}", link(transport, address, arguments.hosts.first()))?;
    if let Some(socket) = &metrics_socket {
        writeln!(out, "http://{}/metrics", socket.local_addr()?)?;
    }
    out.flush()?;
    drop(out);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("cannot start the server")?;
    runtime.block_on(async {
        if let Some(socket) = metrics_socket {
            tokio::spawn(listener::serve(socket, None, site::metrics_router(&site)));
        }
        if let Some(certificate) = certificate.clone() {
            tokio::spawn(async move { certificate.renew().await });
        }
        // The streams of live events never end by themselves, so the server does not wait for them.
        tokio::select! {
            served = listener::serve(socket, certificate, site::router(&site)) => match served {
                Err(error) => Err(error.context("the server stopped")),
            },
            stopped = stop_signal() => stopped,
        }
    })?;
    // Reports that are being computed do not delay the end of the program.
    runtime.shutdown_background();
    Ok(())
}

/// The address to open.
fn link(transport: Transport, address: SocketAddr, host: Option<&String>) -> String {
    let named = host.map(|host| format!("{host}:{}", address.port()));
    match (transport, host) {
        (Transport::TlsProxy, Some(host)) => format!("https://{host}/"),
        (Transport::Plain, _) => format!("http://{}/", named.unwrap_or(address.to_string())),
        _ => format!("https://{}/", named.unwrap_or(address.to_string())),
    }
}

/// Waits for Ctrl-C, or for the signal with which services and containers are stopped.
async fn stop_signal() -> Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => Ok(stopped?),
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    Ok(tokio::signal::ctrl_c().await?)
}

fn ask_ready(arguments: &ReadyArguments) -> Result<()> {
    let address = arguments.address;
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, READY_TIMEOUT)?;
        stream.set_read_timeout(Some(READY_TIMEOUT))?;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut reply = String::new();
        stream.take(4096).read_to_string(&mut reply)?;
        Ok(reply)
    };
    let reply = ask().with_context(|| format!("there is no server at {address}"))?;
    ensure!(reply.starts_with("HTTP/1.1 200 "), "the server at {address} is not ready");
    Ok(())
}
