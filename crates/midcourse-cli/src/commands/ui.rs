//! `midcourse ui`: shows runs in the browser, from a web server on this machine.
//!
//! `server` answers requests, `access` decides who may ask, `changes` follows the store, and
//! `page_data` makes what the page shows. `midcourse serve` shows the same page to a team. The page itself is in `page/`: plain HTML, CSS and JavaScript, embedded
//! as it is. Everything is read from the same queries as `list` and `report`.

mod access;
mod assets;
mod changes;
mod events;
#[cfg(feature = "fleet")]
mod fleet;
mod records;
mod reports;
mod responses;
mod run_id;
mod runs;
mod search;
mod server;
mod steps;
mod stores;

use std::io::{IsTerminal as _, Write as _, stdout};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use midcourse::DataDir;

use super::open as store;
use super::source::StoreArguments;
use crate::terminal::warn;
use access::Access;

#[cfg(feature = "serve")]
pub(super) use {
    assets::file,
    responses::add_headers,
    run_id::segment,
    server::{Viewer, routes},
};

/// The port that is tried first, so that a page that is open finds the server again after a restart.
const DEFAULT_PORT: u16 = 4863;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Show this run (id, start or end of id, or `latest`) instead of the table of runs.
    run: Option<String>,
    /// Listen on this port of 127.0.0.1; by default 4863, or another one if that is in use.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Print the link and do not open a browser.
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    store: StoreArguments,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let data_dir = store::data_dir()?;
    let start = match &arguments.run {
        Some(name) => {
            let run = arguments.store.open()?.find_run(name)?;
            format!("/run/{}", run_id::segment(run.run_id.as_str()))
        }
        None => "/".to_owned(),
    };
    let viewer = viewer(&data_dir, &arguments.store)?;
    let listener = listen(arguments.port)?;
    let address = listener.local_addr()?;
    let access = Arc::new(Access::new(&data_dir, address.port(), start));
    print_link(&access)?;
    if !arguments.no_open && stdout().is_terminal() && has_display() {
        // Without a browser, the link on the screen is enough.
        let _ = open::that_detached(access.link());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(stores::MAX_READERS + 4)
        .enable_all()
        .build()
        .context("cannot start the server")?;
    runtime.block_on(server::serve(listener, viewer, access))?;
    // Reports that are being computed do not delay the end of the program.
    runtime.shutdown_background();
    Ok(())
}

fn viewer(data_dir: &DataDir, options: &StoreArguments) -> Result<Viewer> {
    #[cfg(feature = "fleet")]
    if let Some(address) = &options.store {
        let target = midcourse_fleet::FleetTarget::parse(address)?;
        return Viewer::open_fleet(&target, options.fleet_project.as_deref());
    }
    let _ = options;
    // If there is no store yet, this creates one: the page shows the first run when it begins.
    if store::existing()?.is_none() {
        store::to_write()?;
    }
    Viewer::open(data_dir)
}

fn listen(port: Option<u16>) -> Result<TcpListener> {
    let at = |port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let listener = match port {
        Some(port) => at(port).with_context(|| {
            format!("cannot listen on port {port}; leave out --port to use a free one")
        })?,
        None => at(DEFAULT_PORT).or_else(|_| at(0)).context("cannot listen on 127.0.0.1")?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn print_link(access: &Access) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}", access.link())?;
    out.flush()?;
    if stdout().is_terminal() {
        crate::terminal::eprint_line("The link works once. Press Ctrl-C to stop the viewer.");
    }
    Ok(())
}

/// Prints a new link after the last one was used, for another browser.
fn print_next_link(access: &Access) {
    if let Err(error) = print_link(access) {
        warn(&format!("cannot print the next link: {error}"));
    }
}

/// Whether a browser could show a window. On other systems than Linux there is always a display.
fn has_display() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(not(target_os = "linux")) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}
