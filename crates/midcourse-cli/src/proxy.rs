//! `midcourse proxy`: between an agent and its model.
//!
//! One process, two sides. The network side (`server`, `upstream`, `tape`) is asynchronous, passes
//! everything on and knows nothing of trajectories. The recorder is a thread of its own that knows
//! nothing of the network: it is shown what is asked and answered, and says what to insert. The
//! network never waits for it longer than its budget.

mod compressed;
mod recorder;
mod server;
mod spoken;
mod talk;
mod talks;
mod tape;
mod upstream;
mod worker;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper::Uri;
use midcourse::DataDir;
use uuid::Uuid;

use crate::handoff;
use crate::log::Log;
use crate::run_settings::RunSettings;
use crate::terminal::warn;
use recorder::Recorder;
use server::Server;
pub(crate) use upstream::{Upstreams, is_proxy};

/// The variables by which clients find their APIs, and where they go without them.
pub(crate) const ADDRESSES: [(&str, &str, &str); 2] = [
    ("ANTHROPIC_BASE_URL", "anthropic", "https://api.anthropic.com"),
    ("OPENAI_BASE_URL", "openai", "https://api.openai.com/v1"),
];

/// An older name of `OPENAI_BASE_URL`, which some clients prefer.
pub(crate) const OLDER_NAME: (&str, &str) = ("OPENAI_BASE_URL", "OPENAI_API_BASE");

/// The variable that holds the token of a proxy which goes on with an address that is known.
pub(crate) const TOKEN_VARIABLE: &str = "MIDCOURSE_PROXY_TOKEN";

/// How long a request may wait for what is to be said, and the variable that says otherwise.
const BUDGET: Duration = Duration::from_millis(20);
const BUDGET_VARIABLE: &str = "MIDCOURSE_PROXY_BUDGET_MS";

/// How long the recorder has to finish when the proxy stops.
const FINISHING: Duration = Duration::from_secs(5);

/// Where it listens, and where it sends things on.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The address to listen on; port 0 is any that is free. Beyond loopback everybody who learns the
    /// token can use it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where requests go: the address of a server that has both APIs, or anthropic=URL or openai=URL.
    /// Else where ANTHROPIC_BASE_URL and OPENAI_BASE_URL say, else to the companies' own.
    #[arg(long, value_name = "[API=]URL")]
    upstream: Vec<String>,
    /// How many milliseconds a request may wait for what is to be said; else as many as
    /// MIDCOURSE_PROXY_BUDGET_MS says, else 20.
    #[arg(long, value_name = "MILLISECONDS")]
    budget_ms: Option<NonZeroU64>,
    /// The launch that it belongs to, as `midcourse run` says.
    #[arg(long, value_name = "ID", hide = true)]
    launch: Option<String>,
    /// Take the socket on standard input, as `midcourse run` hands it over.
    #[arg(long, hide = true)]
    inherited: bool,
}

/// Serves until it is told to stop.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let upstreams = Upstreams::find(&arguments.upstream, |name| std::env::var(name).ok())?;
    let listener = if arguments.inherited { inherited()? } else { bind(arguments.listen)? };
    let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
    let token = token.unwrap_or_else(new_token);
    let address = listener.local_addr()?;
    if !arguments.inherited {
        if !address.ip().is_loopback() {
            warn(&format!(
                "{address} can be reached from other machines; the token is all that \
                             keeps them out"
            ));
        }
        // Nothing in it means anything to a shell.
        let line = |(variable, value)| format!("export {variable}={value}\n");
        let lines: String = variables(address, &token).into_iter().map(line).collect();
        // Who has read enough of it may have closed it.
        let mut out = io::stdout().lock();
        let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    }
    let home = DataDir::of_user().ok();
    let log = Arc::new(Log::new(home.as_ref(), "proxy"));
    let folder = std::env::current_dir().unwrap_or_default();
    let settings =
        RunSettings::for_event(home.as_ref(), arguments.launch.as_deref(), Some(&folder));
    for left_out in &settings.warnings {
        warn(left_out);
    }
    let recorder = home.map(|home| Recorder::start(home, settings, Arc::clone(&log)));
    let recorder = recorder.transpose().context("the recorder cannot be started")?;
    let budget = arguments.budget_ms.or_else(budget_in_environment);
    let budget = budget.map_or(BUDGET, |budget| Duration::from_millis(budget.get()));
    let orphan = arguments.inherited;
    let server = Server::new(token, upstreams, recorder.clone(), budget, log)?;
    serve(server, listener, orphan)?;
    if let Some(recorder) = recorder {
        recorder.finish(FINISHING);
    }
    Ok(())
}

fn budget_in_environment() -> Option<NonZeroU64> {
    std::env::var(BUDGET_VARIABLE).ok()?.parse().ok()
}

/// Passes everything on and records nothing: what is left where no proxy can be started any more.
pub(crate) fn pass_on(listener: TcpListener, token: String, upstreams: Upstreams, home: &DataDir) {
    let log = Arc::new(Log::new(Some(home), "proxy"));
    let server = Server::new(token, upstreams, None, Duration::ZERO, Arc::clone(&log));
    let served = server.map_err(Into::into).and_then(|server| serve(server, listener, false));
    if let Err(error) = served {
        log.write(&format!("nothing can be passed on any more: {error:#}"));
    }
}

fn serve(server: Server, listener: TcpListener, ends_alone: bool) -> Result<()> {
    // One thread passes more on than any agent asks, and wakes nobody else for it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?;
    listener.set_nonblocking(true)?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let server = Arc::new(server);
        tokio::select! {
            () = Arc::clone(&server).accept(listener) => {}
            () = told_to_stop() => {}
            () = left_alone(&server), if ends_alone => {}
        }
        anyhow::Ok(())
    })?;
    // What is under way is dropped here, and tells the recorder so.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

#[cfg(unix)]
async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        _ => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn told_to_stop() {
    // Without a handler the system ends the process.
    let _ = tokio::signal::ctrl_c().await;
}

/// Ends when whoever started this is gone and nothing was asked for a day: the agent may go on
/// without `midcourse run`, and needs this to reach its model.
#[cfg(unix)]
async fn left_alone(server: &Server) {
    const LOOKS: Duration = Duration::from_secs(60);
    const IDLE: Duration = Duration::from_secs(24 * 60 * 60);
    let parent = rustix::process::getppid();
    loop {
        tokio::time::sleep(LOOKS).await;
        if rustix::process::getppid() != parent && server.idle_for() > IDLE {
            return;
        }
    }
}

#[cfg(not(unix))]
async fn left_alone(_: &Server) {
    std::future::pending().await
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address)
        .with_context(|| format!("{address} cannot be listened on; choose another with --listen"))
}

#[cfg(unix)]
fn inherited() -> Result<TcpListener> {
    use std::os::fd::AsFd as _;
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

#[cfg(not(unix))]
fn inherited() -> Result<TcpListener> {
    anyhow::bail!("a socket cannot be handed over on this system")
}

/// A token that nobody guesses.
pub(crate) fn new_token() -> String {
    // 122 random bits each.
    format!("{}{}{}", handoff::PATH_PREFIX, Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// The variables that point clients at a proxy.
pub(crate) fn variables(address: SocketAddr, token: &str) -> Vec<(&'static str, String)> {
    let variable = |(variable, api, _): (&'static str, &str, &str)| {
        (variable, format!("http://{address}/{token}/{api}"))
    };
    ADDRESSES.into_iter().map(variable).collect()
}

/// An address that requests go to.
fn parse_url(text: &str) -> Result<Uri> {
    let url: Uri = text.parse().with_context(|| format!("{text} is no address"))?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    if !is_http || url.authority().is_none() || url.query().is_some() {
        anyhow::bail!("{text} is no address that begins with http:// or https:// and a host");
    }
    Ok(url)
}
