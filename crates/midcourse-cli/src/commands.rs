//! The command line: its arguments, its exit codes, and how errors are printed.
//!
//! Results go to standard output, everything else to standard error. The exit code is 0 for
//! success, 2 for an invalid command line, and 1 for any other error. It is also 1 if `verify`,
//! `backup`, `archive` or `doctor` found a problem, if `repair` lost a record, if `search` found
//! nothing, or if `eval` missed a threshold.

mod anchor;
#[cfg(feature = "archive")]
mod archive;
mod backtest;
mod backup;
mod columns;
mod completions;
mod delete;
mod demo;
mod doctor;
mod eval;
mod export;
#[cfg(feature = "fleet")]
mod fleet;
mod hook;
mod import;
mod input_files;
mod install;
mod json;
mod label;
mod list;
mod man;
mod open;
#[cfg(feature = "proxy")]
mod proxy;
mod prune;
mod record;
mod redact;
mod refresh;
mod repair;
mod replay;
mod replayed_messages;
mod replayed_run;
pub(crate) mod report;
mod restore;
mod retention;
mod run;
mod run_filter;
mod run_input;
mod screen;
mod search;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "fleet")]
mod ship;
mod show;
mod source;
mod stats;
mod statusline;
mod step_json;
mod tail;
mod trust;
#[cfg(feature = "ui")]
mod ui;
mod uninstall;
mod unit;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use midcourse::StoreError;
#[cfg(feature = "fleet")]
use midcourse_fleet::FleetError;

use crate::terminal::{eprint_line, warn};

/// The release, and the commit it was built from if that is known.
const VERSION: &str = env!("MIDCOURSE_VERSION");

/// Keep unattended LLM agents on course.
///
/// midcourse records every step of an agent's run, analyses the run as it unfolds, and gives the
/// agent a short message when it matters: it repeats a failing command, it goes in circles, its
/// time is running out.
///
/// Runs are stored in the directory MIDCOURSE_HOME, or by default in the user's data directory.
#[derive(Parser)]
#[command(name = "midcourse", version = VERSION, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a demo agent that loops, then recovers.
    ///
    /// The agent runs real commands in a temporary directory and gets its messages through hooks.
    /// The demo needs no network, key or setup. Its run is stored like any other.
    Demo(demo::Arguments),
    Run(run::Arguments),
    /// Run a local proxy that records model traffic and injects guidance.
    ///
    /// For agents that use Anthropic's Messages API or OpenAI's Chat Completions API. The proxy
    /// prints the variables to set for the agent and runs until it is stopped; `midcourse run` does
    /// all of this by itself. Requests that midcourse does not understand pass through unchanged,
    /// and so does everything if midcourse fails. `midcourse proxy install` sets up a proxy that
    /// stays.
    #[cfg(feature = "proxy")]
    Proxy(proxy::ProxyCommand),
    /// Add midcourse's hooks to a coding agent, for every session.
    ///
    /// Adds hooks to the agent's settings file and leaves everything else in it as it is. Without
    /// an agent, the command lists the agents on PATH. `midcourse uninstall` undoes it.
    Install(install::Arguments),
    /// Remove midcourse's hooks from a coding agent.
    ///
    /// If nobody else has changed the settings file since `midcourse install`, it gets exactly the
    /// content that it had before.
    Uninstall(uninstall::Arguments),
    /// Check whether midcourse works here, and say what to do if not.
    ///
    /// Checks the hooks in the settings of each agent and runs them with a sample of a loop, in a
    /// scratch store; then the user's store and the configuration. Changes nothing. The exit code is
    /// 1 if there are problems.
    Doctor(doctor::Arguments),
    Statusline(statusline::Arguments),
    /// List recorded runs, newest first, with their subagents.
    List(list::Arguments),
    /// Report how a run went: trouble, messages, what they changed, files, tokens and cost.
    ///
    /// Reports the last run that a person started, or the run that you name, each with its
    /// subagents. The report contains the patterns that the engine of this release finds in the
    /// records, as `midcourse replay` does. What the records do not say is `unknown`.
    Report(report::Arguments),
    /// Show one run: what was called, what failed, and what midcourse said.
    ///
    /// A call and its result are one line. `--full` shows all of it, and `midcourse show RUN:SEQ` one
    /// record.
    Show(show::Arguments),
    /// Show the latest records and follow new ones.
    Tail(tail::Arguments),
    /// Find calls and messages by the words in them.
    ///
    /// Prints RUN:SEQ, which `midcourse show` takes. The exit code is 1 if nothing was found.
    Search(search::Arguments),
    /// Show runs in the browser: a table, and for each run a timeline and every step.
    ///
    /// Serves a page on this machine, prints a link to it, and opens the browser. The page grows with
    /// a run that is going on, and says for each message why midcourse spoke. The link works once;
    /// after that the browser is known. Nothing leaves the machine.
    #[cfg(feature = "ui")]
    Ui(ui::Arguments),
    /// Show the runs of a team in the browser, to the people who may see them.
    ///
    /// Serves the page of `midcourse ui` for several projects. Each person signs in with a token and
    /// sees the projects of the own entry in the people file. Listens on loopback by default, and
    /// elsewhere with TLS only (see docs/serve.md).
    #[cfg(feature = "serve")]
    Serve(serve::ServeCommand),
    /// Export a run to a file that other programs, or `import`, can read.
    ///
    /// Writes trajectory records as JSON lines, with `--to atif` one document in Harbor's Agent
    /// Trajectory Interchange Format, or with `--to otlp` OpenTelemetry spans, which can also be sent
    /// to an endpoint. Importing any of them gives the same records.
    Export(export::Arguments),
    /// Import runs from files.
    ///
    /// Reads sessions of coding agents, trajectories of benchmarks and frameworks, and what `midcourse
    /// export` writes; the format of each file is recognised (see docs/formats.md). Importing a
    /// file again, or a session that hooks have recorded, adds only what is missing.
    Import(import::Arguments),
    /// Ship the runs of this machine to a fleet's Postgres.
    ///
    /// Ships what is new since the last time, and continues after any interruption. Nothing is shipped
    /// twice or lost. With `[ship]` in your configuration, it also happens in the background while an
    /// agent runs (see docs/fleet.md).
    #[cfg(feature = "fleet")]
    Ship(ship::Command),
    /// Set up and maintain a fleet: one Postgres for the runs of many machines.
    #[cfg(feature = "fleet")]
    Fleet(fleet::Command),
    /// Check stored runs for missing or changed records.
    ///
    /// Checks the hash chain of every run. The exit code is 1 if there are problems.
    Verify(verify::Arguments),
    /// Write the heads of runs to a place of your choice, for `verify --against`.
    ///
    /// The head of a run is the last hash of its chain. Somebody who can write to the store can
    /// rewrite, shorten or delete a run. `verify --against` finds such a change if the heads are in
    /// a place where that person cannot write.
    Anchor(anchor::Arguments),
    /// Copy the store to one file, while agents write to it.
    ///
    /// The copy contains all runs and nothing else: no configuration, and not the key for the
    /// hashes of redacted secrets. The command checks the hash chains of the copy. Read the copy
    /// back with `midcourse restore`.
    Backup(backup::Arguments),
    /// Replace a missing or damaged store by a backup.
    ///
    /// The command checks the backup first, and keeps the old files in a folder of the data
    /// directory. It fails if another process has the store open.
    Restore(restore::Arguments),
    /// Save what can be saved of a damaged store.
    ///
    /// The command copies undamaged records to a new store, which replaces the damaged one. It
    /// keeps the old files in a folder of the data directory. It names each lost record and puts a
    /// gap marker in its place. It fails if another process has the store open. The exit code is 1
    /// if records were lost.
    Repair(repair::Arguments),
    /// Remove secrets from a stored run.
    ///
    /// Applies the redaction rules of this release and of your configuration to a run that was
    /// stored earlier, and removes the old text from the files of the store. While the command
    /// runs, no other process can write to the store; hooks write their events to the spill folder.
    Redact(redact::Arguments),
    /// Delete a run and its subagents, or everything that midcourse has recorded.
    ///
    /// Asks first, if standard input is a terminal; otherwise it needs `--yes`. Removes the text from
    /// the files of the store, too. While the command runs, no other process can write to the store;
    /// hooks write their events to the spill folder. `--all` keeps the configuration and the hooks.
    Delete(delete::Arguments),
    /// Copy old runs to Parquet files, in a folder or an S3 bucket.
    ///
    /// DuckDB, Spark and other programs can query the files (see docs/archive.md), and `midcourse
    /// import` reads them back without loss. Runs that the archive has already are left out. The runs
    /// stay in the store; `midcourse prune` removes them. The exit code is 1 if a run is damaged.
    #[cfg(feature = "archive")]
    Archive(archive::Arguments),
    /// Remove old runs.
    Prune(prune::Arguments),
    /// Approve a project's `midcourse.toml`.
    ///
    /// Shows the file first. The approval is for this path and exactly these bytes; after any change
    /// the file has to be approved again. A file that is not approved has no effect.
    Trust(trust::Arguments),
    /// Record events from standard input.
    ///
    /// Reads trajectory records, one JSON object per line, and prints a JSON reply for each line
    /// once it is on disk. The reply contains the messages for the agent. The field
    /// `decision_point` of a line says at which point of its turn the agent would get such
    /// messages; the default is `pre_tool_selection`.
    Record(record::Arguments),
    Hook(hook::Arguments),
    /// Replay finished runs: what midcourse would have said, and when.
    ///
    /// Without an argument, finds the sessions that agents keep on this machine. Otherwise reads
    /// session files of any format (see docs/formats.md) or runs of the store. Nothing is stored.
    /// Without --config, the built-in settings apply.
    Backtest(backtest::Arguments),
    /// Measure messages against labelled scenarios, or against your own labels.
    ///
    /// A scenario is a short run with an expectation: a message about a pattern within a range of
    /// events, or none (see docs/scenarios.md). With `--labels`, the stored runs that you labelled
    /// with `midcourse label` are replayed instead. Messages about deadlines and budgets do not
    /// count. The exit code is 1 if a required threshold is missed.
    Eval(eval::Arguments),
    /// Replay one run and show its messages.
    ///
    /// Replays a stored run (`--run`) with its recorded configuration, or a file: records that
    /// `export` wrote, or a run in short notation, one call per line, such as
    /// `bash make !! error: no rule` (see docs/measuring.md). With `--config`, says how the messages
    /// differ from the recorded ones.
    Replay(replay::Arguments),
    /// Say whether midcourse was right to speak, or to stay silent, in a run.
    ///
    /// Keeps your verdict next to the run and changes nothing in it. With `--at`, the verdict is
    /// about the message at this record or, if the record is no message, about the silence there.
    /// Without it, `good` says that the messages of the run were right and no other was due; `bad`
    /// says that they were false alarms or, if there were none, that one was missing. A new label
    /// replaces the earlier one. `midcourse eval --labels` compares a configuration with your labels.
    Label(label::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// Runs the command line and returns the exit code.
pub(crate) fn run() -> ExitCode {
    // `midcourse hook` has a parser of its own. `Cli::parse` would exit with code 2 if the command
    // line is invalid, and a hook that exits with code 2 blocks the agent.
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    if first.as_ref().is_some_and(|word| word == "hook") {
        return hook::run(words.collect());
    }
    // The same holds for the status line: Claude Code shows nothing if its command fails.
    if first.as_ref().is_some_and(|word| word == "statusline") {
        return statusline::run(words.collect());
    }
    let result = match Cli::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        #[cfg(feature = "proxy")]
        Command::Proxy(arguments) => proxy::run(&arguments).map(success),
        Command::Install(arguments) => install::run(&arguments).map(success),
        Command::Uninstall(arguments) => uninstall::run(&arguments).map(success),
        Command::Doctor(arguments) => doctor::run(&arguments).map(success_if),
        Command::List(arguments) => list::run(&arguments).map(success),
        Command::Report(arguments) => report::run(&arguments).map(success),
        Command::Show(arguments) => show::run(&arguments).map(success),
        Command::Tail(arguments) => tail::run(&arguments).map(success),
        Command::Search(arguments) => search::run(&arguments).map(success_if),
        #[cfg(feature = "ui")]
        Command::Ui(arguments) => ui::run(&arguments).map(success),
        #[cfg(feature = "serve")]
        Command::Serve(arguments) => serve::run(arguments).map(success),
        Command::Export(arguments) => export::run(&arguments).map(success),
        Command::Import(arguments) => import::run(&arguments).map(success),
        #[cfg(feature = "fleet")]
        Command::Ship(arguments) => ship::run(&arguments).map(success_if),
        #[cfg(feature = "fleet")]
        Command::Fleet(arguments) => fleet::run(&arguments).map(success_if),
        Command::Verify(arguments) => verify::run(&arguments).map(success_if),
        Command::Eval(arguments) => eval::run(&arguments).map(success_if),
        Command::Anchor(arguments) => anchor::run(&arguments).map(success),
        Command::Backup(arguments) => backup::run(&arguments).map(success_if),
        Command::Restore(arguments) => restore::run(&arguments).map(success),
        Command::Repair(arguments) => repair::run(&arguments).map(success_if),
        Command::Redact(arguments) => redact::run(&arguments).map(success),
        Command::Delete(arguments) => delete::run(&arguments).map(success),
        #[cfg(feature = "archive")]
        Command::Archive(arguments) => archive::run(&arguments).map(success_if),
        Command::Prune(arguments) => prune::run(&arguments).map(success),
        Command::Trust(arguments) => trust::run(&arguments).map(success),
        Command::Record(arguments) => record::run(&arguments).map(success),
        // Never reached: these were handled above. The variants exist only so that `midcourse help`
        // lists the commands.
        Command::Hook(_) | Command::Statusline(_) => Ok(ExitCode::SUCCESS),
        Command::Backtest(arguments) => backtest::run(&arguments).map(success),
        Command::Replay(arguments) => replay::run(&arguments).map(success),
        Command::Label(arguments) => label::run(&arguments).map(success),
        Command::Completions(arguments) => completions::run(&arguments).map(success),
        Command::Man(arguments) => man::run(&arguments).map(success),
    };
    // The threads of a server end with the process and do not drop their copies of runs.
    #[cfg(feature = "fleet")]
    midcourse_fleet::remove_copies();
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

const fn success((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

const fn success_if(is_success: bool) -> ExitCode {
    if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the error is that the program which reads our output has closed the pipe, as `head` does
/// once it has enough lines.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints an error with the errors that caused it. An error of the store also gets a hint that says
/// what to do.
fn print_error(error: &anyhow::Error) {
    warn(&format!("{error:#}"));
    if let Some(error) = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>()) {
        eprint_line(&format!("hint: {}", error.hint()));
        return;
    }
    #[cfg(feature = "fleet")]
    if let Some(error) = error.chain().find_map(|cause| cause.downcast_ref::<FleetError>()) {
        eprint_line(&format!("hint: {}", error.hint()));
    }
}
