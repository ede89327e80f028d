//! `midcourse anchor`: writes the heads of runs to a file, a command, a URL or standard output, and
//! reads them again for `verify --against`.
//!
//! Each line is a JSON object with one head. A file or URL may contain several heads of the same
//! run, from different times.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _, stdin, stdout};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use midcourse::{Finding, Head, RunId, Store};

use super::open;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Only this run (id, start or end of id, or `latest`); otherwise all runs.
    run: Option<String>,
    /// Append the heads to this file, or send them to this URL with POST.
    #[arg(long, value_name = "FILE|URL", conflicts_with = "command")]
    to: Option<String>,
    /// Pipe the heads into this shell command.
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let store = open::to_read()?;
    let runs = match &arguments.run {
        Some(run) => vec![open::find_run(&store, run)?],
        None => store.runs(usize::MAX)?,
    };
    let mut lines = String::new();
    for run in &runs {
        if let Some(head) = store.head(&run.run_id)? {
            lines.push_str(&serde_json::to_string(&head)?);
            lines.push('\n');
        }
    }
    match (&arguments.to, &arguments.command) {
        (Some(url), _) if is_url(url) => send(url, lines).map(drop),
        (Some(file), _) => append(file, &lines).with_context(|| format!("cannot write to {file}")),
        (None, Some(command)) => pipe(command, &lines),
        (None, None) => Ok(stdout().write_all(lines.as_bytes())?),
    }
}

/// Reads heads from a file, a URL or, if `place` is `-`, standard input. Groups them by run.
pub(super) fn read(place: &str, store: &Store) -> Result<HashMap<RunId, Vec<Head>>> {
    #[cfg(feature = "fleet")]
    if midcourse_fleet::FleetTarget::is_address(place) {
        return from_fleet(place, store);
    }
    let _ = store;
    let text = match place {
        "-" => {
            let mut text = String::new();
            stdin().read_to_string(&mut text).context("cannot read standard input")?;
            text
        }
        url if is_url(url) => fetch(url)?,
        file => std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?,
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let head = |(at, line): (usize, &str)| {
        let number = at + 1;
        let head = serde_json::from_str(line);
        head.with_context(|| format!("line {number} of {place} is no line of `midcourse anchor`"))
    };
    let mut heads: HashMap<RunId, Vec<Head>> = HashMap::new();
    for head in lines.map(head) {
        let head: Head = head?;
        heads.entry(head.run_id.clone()).or_default().push(head);
    }
    ensure!(!heads.is_empty(), "{place} has no heads; `midcourse anchor` writes them");
    Ok(heads)
}

/// The heads of the runs that were shipped to a fleet: `ADDRESS`, or `ADDRESS#PROJECT`.
#[cfg(feature = "fleet")]
fn from_fleet(place: &str, store: &Store) -> Result<HashMap<RunId, Vec<Head>>> {
    let (address, project) = match place.rsplit_once('#') {
        Some((address, project)) => (address, Some(project)),
        None => (place, None),
    };
    let target = midcourse_fleet::FleetTarget::parse(address)?;
    let mut heads: HashMap<RunId, Vec<Head>> = HashMap::new();
    let shipped = midcourse_fleet::shipped_heads(&target, project, store)?;
    if !shipped.has_store_id {
        crate::terminal::warn(
            "this machine does not know which runs it has shipped there (the folder `shipped` in its \
             data directory is missing, or the address was another one): only runs that are still \
             in the store are compared, and deleted ones are not found",
        );
    }
    for head in shipped.heads {
        heads.entry(head.run_id.clone()).or_default().push(head);
    }
    ensure!(
        !heads.is_empty(),
        "{target} has no runs of this machine in the project {}, or this role has no access to it",
        project.unwrap_or("default")
    );
    Ok(heads)
}

/// Returns a finding for each run that has a head but is no longer in the store.
pub(super) fn missing_runs(
    store: &Store,
    heads: &HashMap<RunId, Vec<Head>>,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (run_id, heads) in heads {
        if store.head(run_id)?.is_none() {
            let records = heads.iter().map(|head| head.records).max().unwrap_or_default();
            let description =
                format!("the run is not in the store any more; it had {records} records");
            findings.push(Finding { run_id: Some(run_id.clone()), description });
        }
    }
    findings.sort_unstable_by(|a, b| a.run_id.cmp(&b.run_id));
    Ok(findings)
}

fn is_url(place: &str) -> bool {
    place.starts_with("http://") || place.starts_with("https://")
}

fn append(file: &str, lines: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    file.write_all(lines.as_bytes())?;
    file.sync_all()
}

fn pipe(command: &str, lines: &str) -> Result<()> {
    let mut child = Command::new("sh").args(["-c", command]).stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // The write fails if the command does not read its input. Ignore that: only the exit code
        // says whether the command succeeded.
        let _ = input.write_all(lines.as_bytes());
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("the command `{command}` failed: {status}");
    }
    Ok(())
}

#[cfg(feature = "proxy")]
fn fetch(url: &str) -> Result<String> {
    crate::proxy::request(url, None)
}

#[cfg(feature = "proxy")]
fn send(url: &str, lines: String) -> Result<String> {
    crate::proxy::request(url, Some(lines))
}

#[cfg(not(feature = "proxy"))]
fn fetch(url: &str) -> Result<String> {
    bail!("this build has no HTTP client; use `curl {url} | midcourse verify --against -`")
}

#[cfg(not(feature = "proxy"))]
fn send(url: &str, _: String) -> Result<String> {
    bail!("this build has no HTTP client; use `--command 'curl --data-binary @- {url}'`")
}
