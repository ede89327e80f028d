//! `midcourse proxy`: a local HTTP proxy between an agent and its model API.
//!
//! The proxy is one process with two parts. The network side (`server`, `upstream`,
//! `response_copy`) is async, forwards all traffic and does not know what a run is. The recorder
//! (`worker`, `store_writer`, `proxied_runs`) is one thread that does not use the network. It gets
//! a copy of each model request and response, and returns messages to insert into a request. The
//! network side waits for these messages only a few milliseconds, then forwards the request without
//! them.

mod authority;
mod base_url;
#[cfg(unix)]
mod channel;
mod compressed;
mod connect;
mod feedback_cache;
#[cfg(unix)]
mod forwarder;
#[cfg(unix)]
mod front;
mod http;
#[cfg(unix)]
mod inherited;
mod intercept;
mod jobs;
mod long_target;
mod model_hosts;
mod model_traffic;
mod notices;
mod one_request;
#[cfg(feature = "otlp")]
mod post;
#[cfg(unix)]
mod processes;
mod proxied_run;
mod proxied_runs;
mod recorder;
mod resolver;
mod response_copy;
mod server;
mod store_writer;
mod timeouts;
mod trust;
mod tunnel;
mod upstream;
mod waiting;
mod worker;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use midcourse::{DataDir, Mode};
use uuid::Uuid;

use crate::config::Overrides;
use crate::duration::parse_duration;
use crate::handoff;
use crate::log::Log;
use crate::run_settings::{LaunchId, RunSettings};
use crate::terminal::warn;
pub(crate) use authority::Authority;
#[cfg(unix)]
pub(crate) use channel::{Channel, Message};
pub(crate) use connect::url as connect_url;
#[cfg(unix)]
pub(crate) use forwarder::Forwarder;
#[cfg(unix)]
pub(crate) use front::{Front, HostCounts};
pub(crate) use model_hosts::ModelHosts;
pub(crate) use notices::Notice;
use notices::Notices;
pub(crate) use one_request::request;
#[cfg(feature = "otlp")]
pub(crate) use post::{PostError, Poster, Reply};
#[cfg(unix)]
pub(crate) use processes::{Found, find as find_processes};
use recorder::Recorder;
use server::Server;
pub(crate) use trust::write as write_trust_files;
pub(crate) use upstream::Upstreams;
pub(crate) use upstream::{Redirect, check_interception, is_inside_another};

/// The environment variable in which `midcourse run` passes the access token to the proxy that it
/// starts. The proxy rejects requests that do not contain the token.
pub(crate) const TOKEN_VARIABLE: &str = "MIDCOURSE_PROXY_TOKEN";

/// The environment variable in which `midcourse run` passes the key of the certificate authority to
/// its proxy. Without this key, the proxy cannot decrypt TLS connections.
pub(crate) const AUTHORITY_VARIABLE: &str = "MIDCOURSE_PROXY_AUTHORITY";

/// How long a model request waits for messages from the recorder before it is forwarded without
/// them.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// The environment variable that sets another number of milliseconds instead of `MAX_WAIT`.
const MAX_WAIT_VARIABLE: &str = "MIDCOURSE_PROXY_MAX_WAIT_MS";

/// How long the recorder may take to write the remaining records when the proxy stops.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// The least number of characters in a token that nobody can guess.
const MIN_TOKEN_LEN: usize = 32;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Listen on this address; port 0 picks a free one.
    ///
    /// On an address other than loopback, everybody who learns the token can use the proxy.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Forward to this server, or set one per vendor: anthropic=URL, openai=URL, gemini=URL.
    ///
    /// Without it, requests go to ANTHROPIC_BASE_URL, OPENAI_BASE_URL and GOOGLE_GEMINI_BASE_URL,
    /// else to the vendors' own servers. A URL without NAME= is a server with all APIs.
    #[arg(long, value_name = "[NAME=]URL")]
    upstream: Vec<String>,
    /// Hold a request at most this many milliseconds for its guidance [default: 20]
    ///
    /// The variable MIDCOURSE_PROXY_MAX_WAIT_MS sets the default.
    #[arg(long, value_name = "MILLISECONDS")]
    max_wait_ms: Option<NonZeroU64>,
    /// Tell each run that it has this much time, such as 90m or "1h 30m".
    #[arg(long, value_name = "DURATION", value_parser = deadline)]
    deadline: Option<Duration>,
    /// Record messages without delivering them.
    #[arg(long)]
    shadow: bool,
    /// Read this configuration file and no other.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read the token from this file, and print no variables.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Forward only to the servers of --upstream, with their hosts in the proxy's URLs.
    #[arg(long, requires = "upstream")]
    only_named: bool,
    /// Use the settings of this launch of `midcourse run`.
    #[arg(long, value_name = "ID", hide = true)]
    launch: Option<String>,
    /// Receive connections from `midcourse run` through the socket on standard input.
    #[arg(long, hide = true)]
    inherited: bool,
}

/// Runs the proxy until it is interrupted or terminated.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.inherited { run_inherited(arguments) } else { run_alone(arguments) }
}

fn run_alone(arguments: &Arguments) -> Result<()> {
    let upstreams = match arguments.only_named {
        true => Upstreams::named(&arguments.upstream)?,
        false => Upstreams::find(&arguments.upstream, |name| std::env::var(name).ok())?,
    };
    let listener = bind(arguments.listen)?;
    let token = match &arguments.token_file {
        Some(file) => read_token(file)?,
        None => token_in_environment().unwrap_or_else(new_token),
    };
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        warn(&format!("other machines can reach {address}; only the token in the URL protects it"));
    }
    if arguments.token_file.is_none() {
        let lines = export_lines(&upstreams, address, &token);
        // Ignore errors: the reader may close the pipe after the first line.
        let mut out = io::stdout().lock();
        let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    }
    let (server, recorder) = prepare(arguments, &token, &upstreams)?;
    listener.set_nonblocking(true)?;
    serve(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::select! {
            () = Arc::new(server).accept(listener) => {}
            () = stop_signal() => {}
        }
        Ok(())
    })?;
    finish(recorder);
    Ok(())
}

/// The lines for a shell that make clients use the proxy.
pub(crate) fn export_lines(upstreams: &Upstreams, address: SocketAddr, token: &str) -> String {
    // The values contain no characters that are special in a shell, so they need no quotes.
    let line = |(variable, value)| format!("export {variable}={value}\n");
    upstreams.variables(address, token).into_iter().map(line).collect()
}

/// Reads an access token from a file.
pub(crate) fn read_token(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the token in {}", file.display()))?;
    let token = text.trim();
    let is_token = token.strip_prefix(handoff::PATH_PREFIX).is_some_and(|rest| {
        rest.len() >= MIN_TOKEN_LEN && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    anyhow::ensure!(
        is_token,
        "{} contains no token; `midcourse proxy install` writes one",
        file.display()
    );
    Ok(token.to_owned())
}

fn deadline(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "try 90m, 2h or \"1h 30m\"; at most 365d".to_owned())
}

/// Runs as the proxy process of `midcourse run`, which accepts connections and passes them to this
/// process.
#[cfg(unix)]
fn run_inherited(arguments: &Arguments) -> Result<()> {
    let token = token_in_environment().context("only `midcourse run` uses --inherited")?;
    let redirects = Redirect::all(|name| std::env::var(name).ok()).unwrap_or_default();
    let (server, recorder) = prepare(arguments, &token, &Upstreams::of_redirects(&redirects))?;
    let mut server = server.with_notices(Notices::to_stdout()).with_tunnels();
    if let Ok(key) = std::env::var(AUTHORITY_VARIABLE) {
        let launch_id = arguments.launch.as_deref().unwrap_or_default();
        let data_dir = DataDir::of_user().ok();
        let given = LaunchId::Given(launch_id.to_owned());
        let settings = RunSettings::for_event(data_dir.as_ref(), Some(&given), None);
        let hosts = ModelHosts::with(&settings.config.model_hosts);
        server = server.with_interception(Authority::from_key_pem(launch_id, &key)?, hosts)?;
    }
    let launch_id = arguments.launch.clone().unwrap_or_default();
    let channel = Channel::inherited()?;
    serve(inherited::serve(Arc::new(server), channel, launch_id))?;
    finish(recorder);
    Ok(())
}

#[cfg(not(unix))]
fn run_inherited(_: &Arguments) -> Result<()> {
    anyhow::bail!("--inherited is not supported on this system")
}

fn token_in_environment() -> Option<String> {
    std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty())
}

/// Creates the server and its recorder. The recorder is `None` if there is no data directory.
fn prepare(
    arguments: &Arguments,
    token: &str,
    upstreams: &Upstreams,
) -> Result<(Server, Option<Recorder>)> {
    let data_dir = DataDir::of_user().ok();
    let log = Arc::new(Log::new(data_dir.as_ref(), "proxy"));
    let folder = std::env::current_dir().unwrap_or_default();
    let launch = arguments.launch.clone().map(LaunchId::Given);
    let settings = match &arguments.config {
        Some(file) => RunSettings::read(file).with_context(|| file.display().to_string())?,
        None => RunSettings::for_event(data_dir.as_ref(), launch.as_ref(), Some(&folder)),
    };
    let settings = settings.with_overrides(Overrides {
        mode: arguments.shadow.then_some(Mode::Shadow),
        deadline: arguments.deadline,
        ..Overrides::default()
    });
    for warning in &settings.warnings {
        warn(warning);
    }
    let recorder = data_dir.map(|data_dir| Recorder::start(data_dir, settings, Arc::clone(&log)));
    let recorder = recorder.transpose().context("could not start the recorder thread")?;
    let max_wait = arguments.max_wait_ms.or_else(max_wait_in_environment);
    let max_wait = max_wait.map_or(MAX_WAIT, |wait| Duration::from_millis(wait.get()));
    let server = Server::new(token, upstreams, recorder.clone(), max_wait, log)?;
    Ok((server, recorder))
}

fn max_wait_in_environment() -> Option<NonZeroU64> {
    std::env::var(MAX_WAIT_VARIABLE).ok()?.parse().ok()
}

fn finish(recorder: Option<Recorder>) {
    if let Some(recorder) = recorder {
        recorder.finish(FINISH_TIMEOUT);
    }
}

/// Runs the network side until `served` ends.
fn serve(served: impl Future<Output = Result<()>>) -> Result<()> {
    // One thread is enough for the traffic of agents, and avoids waking other threads.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the async runtime")?;
    runtime.block_on(served)?;
    // This drops requests that are still open; each is then recorded as cut off.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

#[cfg(unix)]
async fn stop_signal() {
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
async fn stop_signal() {
    // If the handler cannot be installed, this returns at once and the proxy stops.
    let _ = tokio::signal::ctrl_c().await;
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).with_context(|| {
        format!("could not listen on {address}; choose another address with --listen")
    })
}

/// A random access token, which is the first path segment of the proxy's URLs. It consists of a
/// fixed prefix and two UUIDs with 122 random bits each, so that nobody can guess it.
pub(crate) fn new_token() -> String {
    format!("{}{}{}", handoff::PATH_PREFIX, Uuid::new_v4().simple(), Uuid::new_v4().simple())
}
