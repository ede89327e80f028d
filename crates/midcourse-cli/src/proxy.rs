//! `midcourse proxy`: a local HTTP proxy between an agent and its model API.
//!
//! The proxy is one process with two parts. The network side (`server`, `upstream`,
//! `response_copy`) is async, forwards all traffic and does not know what a run is. The recorder
//! (`worker`, `store_writer`, `proxied_runs`) is one thread that does not use the network. It gets
//! a copy of each model request and response, and returns messages to insert into a request. The
//! network side waits for these messages only a few milliseconds, then forwards the request without
//! them.

mod compressed;
mod feedback_cache;
mod jobs;
mod model_traffic;
mod proxied_run;
mod proxied_runs;
mod recorder;
mod response_copy;
mod server;
mod store_writer;
mod upstream;
mod worker;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use midcourse::DataDir;
use uuid::Uuid;

use crate::handoff;
use crate::log::Log;
use crate::run_settings::RunSettings;
use crate::terminal::warn;
use recorder::Recorder;
use server::Server;
pub(crate) use upstream::{BASE_URL_ALIAS, BASE_URLS, Upstreams, is_proxy};

/// The environment variable in which `midcourse run` passes the access token to the proxy that it
/// starts. The proxy rejects requests whose URL does not contain the token.
pub(crate) const TOKEN_VARIABLE: &str = "MIDCOURSE_PROXY_TOKEN";

/// How long a model request waits for messages from the recorder before it is forwarded without
/// them.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// The environment variable that sets another number of milliseconds instead of `MAX_WAIT`.
const MAX_WAIT_VARIABLE: &str = "MIDCOURSE_PROXY_MAX_WAIT_MS";

/// How long the recorder may take to write the remaining records when the proxy stops.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Listen on this address; port 0 picks a free one.
    ///
    /// On an address other than loopback, everybody who learns the token can use the proxy.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Forward to this server, or set one per API: anthropic=URL, openai=URL.
    ///
    /// Without it, requests go to ANTHROPIC_BASE_URL and OPENAI_BASE_URL, else to the vendors'
    /// own servers. A URL without API= is a server with both APIs.
    #[arg(long, value_name = "[API=]URL")]
    upstream: Vec<String>,
    /// Hold a request at most this many milliseconds for its guidance [default: 20]
    ///
    /// The variable MIDCOURSE_PROXY_MAX_WAIT_MS sets the default.
    #[arg(long, value_name = "MILLISECONDS")]
    max_wait_ms: Option<NonZeroU64>,
    /// Use the settings of this launch of `midcourse run`.
    #[arg(long, value_name = "ID", hide = true)]
    launch: Option<String>,
    /// Take over the listening socket on standard input.
    #[arg(long, hide = true)]
    inherited: bool,
}

/// Runs the proxy until it is interrupted or terminated.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let upstreams = Upstreams::find(&arguments.upstream, |name| std::env::var(name).ok())?;
    let listener = if arguments.inherited { inherited()? } else { bind(arguments.listen)? };
    let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
    let token = token.unwrap_or_else(new_token);
    let address = listener.local_addr()?;
    if !arguments.inherited {
        if !address.ip().is_loopback() {
            warn(&format!(
                "other machines can reach {address}; only the token in the URL protects it"
            ));
        }
        // The values contain no characters that are special in a shell, so they need no quotes.
        let line = |(variable, value)| format!("export {variable}={value}\n");
        let lines: String = variables(address, &token).into_iter().map(line).collect();
        // Ignore errors: the reader may close the pipe after the first line.
        let mut out = io::stdout().lock();
        let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    }
    let data_dir = DataDir::of_user().ok();
    let log = Arc::new(Log::new(data_dir.as_ref(), "proxy"));
    let folder = std::env::current_dir().unwrap_or_default();
    let settings =
        RunSettings::for_event(data_dir.as_ref(), arguments.launch.as_deref(), Some(&folder));
    for warning in &settings.warnings {
        warn(warning);
    }
    let recorder = data_dir.map(|data_dir| Recorder::start(data_dir, settings, Arc::clone(&log)));
    let recorder = recorder.transpose().context("could not start the recorder thread")?;
    let max_wait = arguments.max_wait_ms.or_else(max_wait_in_environment);
    let max_wait = max_wait.map_or(MAX_WAIT, |wait| Duration::from_millis(wait.get()));
    let server = Server::new(token, upstreams, recorder.clone(), max_wait, log)?;
    serve(server, listener, arguments.inherited)?;
    if let Some(recorder) = recorder {
        recorder.finish(FINISH_TIMEOUT);
    }
    Ok(())
}

fn max_wait_in_environment() -> Option<NonZeroU64> {
    std::env::var(MAX_WAIT_VARIABLE).ok()?.parse().ok()
}

/// Forwards all traffic without recording. `midcourse run` uses this if its proxy process keeps
/// crashing.
pub(crate) fn forward_only(
    listener: TcpListener,
    token: String,
    upstreams: Upstreams,
    data_dir: &DataDir,
) {
    let log = Arc::new(Log::new(Some(data_dir), "proxy"));
    let server = Server::new(token, upstreams, None, Duration::ZERO, Arc::clone(&log));
    let served = server.map_err(Into::into).and_then(|server| serve(server, listener, false));
    if let Err(error) = served {
        log.write(&format!("the proxy stopped forwarding requests: {error:#}"));
    }
}

/// Serves requests until a signal to stop arrives. With `ends_when_orphaned`, also stops if the
/// process that started the proxy has ended and no request has arrived for a day.
fn serve(server: Server, listener: TcpListener, ends_when_orphaned: bool) -> Result<()> {
    // One thread is enough for the requests of a few agents, and passing work to other threads
    // would delay each request.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the async runtime")?;
    listener.set_nonblocking(true)?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let server = Arc::new(server);
        tokio::select! {
            () = Arc::clone(&server).accept(listener) => {}
            () = stop_signal() => {}
            () = orphaned(&server), if ends_when_orphaned => {}
        }
        anyhow::Ok(())
    })?;
    // This drops requests that have no complete response yet. The recorder then records that the
    // response was cut off.
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

/// Returns once the parent process, `midcourse run`, has ended and no request has arrived for a
/// day. The proxy does not stop at once, because the agent may still be running and reaches its
/// model only through the proxy.
#[cfg(unix)]
async fn orphaned(server: &Server) {
    const CHECK_INTERVAL: Duration = Duration::from_secs(60);
    const MAX_IDLE: Duration = Duration::from_secs(24 * 60 * 60);
    let parent = rustix::process::getppid();
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        if rustix::process::getppid() != parent && server.idle_for() > MAX_IDLE {
            return;
        }
    }
}

#[cfg(not(unix))]
async fn orphaned(_: &Server) {
    std::future::pending().await
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).with_context(|| {
        format!("could not listen on {address}; choose another address with --listen")
    })
}

#[cfg(unix)]
fn inherited() -> Result<TcpListener> {
    use std::os::fd::AsFd as _;
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

#[cfg(not(unix))]
fn inherited() -> Result<TcpListener> {
    anyhow::bail!("--inherited is not supported on this system")
}

/// A random access token, which is the first path segment of the proxy's URLs. It consists of two
/// UUIDs with 122 random bits each, so that nobody can guess it.
pub(crate) fn new_token() -> String {
    format!("{}{}{}", handoff::PATH_PREFIX, Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// The environment variables, with their values, that make an agent send its model requests to the
/// proxy.
pub(crate) fn variables(address: SocketAddr, token: &str) -> Vec<(&'static str, String)> {
    let variable = |(variable, api, _): (&'static str, &str, &str)| {
        (variable, format!("http://{address}/{token}/{api}"))
    };
    BASE_URLS.into_iter().map(variable).collect()
}
