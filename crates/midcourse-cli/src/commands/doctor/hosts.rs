//! Checks one host: its program, midcourse's hooks in its settings, and whether they work.

use midcourse::{DataDir, DecisionPoint};

use super::finding::{Area, Finding, State};
use super::hook_command::HookCommand;
use super::settings::{PLUGIN_EVENT, SettingsFile};
use super::{Place, approval, program, switches, timeouts, trial};
use crate::hosts::Host;

/// Checks a host. `is_named` says whether the user asked for it. Returns the findings and the data
/// directories that its hooks use; `None` if the host is not on this machine.
pub(super) fn check(host: Host, is_named: bool, place: &Place) -> Option<(Area, Vec<DataDir>)> {
    let program = program::of_host(host);
    let files = SettingsFile::of(host);
    let has_hooks = files.iter().any(SettingsFile::is_used);
    if program.is_none() && !has_hooks && !is_named {
        return None;
    }
    let (name, title) = (host.name(), host.capabilities().title);
    let mut findings = vec![program::check(host, program.as_deref())];
    let mut data_dirs = Vec::new();
    if !has_hooks {
        let detail = format!("midcourse is not installed in {title}");
        let remedy = format!("`midcourse install {name}`");
        findings.push(if is_named {
            Finding::problem("hooks", detail, remedy)
        } else {
            Finding::note("hooks", detail, remedy)
        });
    }
    let mut tried: Vec<Vec<HookCommand>> = Vec::new();
    for file in &files {
        findings.extend(file.findings(host));
        if file.hooks().is_empty() {
            continue;
        }
        let commands = file.commands();
        let mut can_start = true;
        for command in &commands {
            let found = command.findings(host, file, place);
            // A data directory that cannot be written does not matter to the trial.
            can_start &= !found.iter().any(|it| it.check == "command" && is_problem(it));
            findings.extend(found);
            data_dirs.extend(command.data_dir());
        }
        findings.extend(timeouts::check(host, file));
        findings.extend(approval::check(host, file, place));
        if can_start && !tried.contains(&commands) {
            findings.push(trial::check(host, file, place));
            tried.push(commands);
        }
        findings.push(decision_points(host, file));
    }
    if has_hooks {
        findings.extend(switches::check(host, place));
        findings.extend(in_both_files(host, &files));
    }
    Some((Area::new(name, title, findings), data_dirs))
}

fn is_problem(finding: &Finding) -> bool {
    finding.state == State::Problem
}

/// The decision point in words that do not need the glossary.
const fn moment(point: DecisionPoint) -> &'static str {
    match point {
        DecisionPoint::PreRender => "with a prompt",
        DecisionPoint::PreToolSelection => "before the agent chooses a tool",
        DecisionPoint::PreToolExecution => "before a tool runs",
        DecisionPoint::PostToolResult => "after a tool result",
        DecisionPoint::PreResponse => "before the final answer",
    }
}

/// At which moments the agent can get messages, by the events that have hooks.
fn decision_points(host: Host, file: &SettingsFile) -> Finding {
    const CHECK: &str = "decision-points";
    let has_hook = |event: &str| {
        file.hooks().iter().any(|hook| hook.event == event || hook.event == PLUGIN_EVENT)
    };
    let (mut live, mut silent) = (Vec::new(), Vec::new());
    for (point, events) in host.capabilities().points {
        let hooked: Vec<&str> = events.iter().copied().filter(|event| has_hook(event)).collect();
        let name = moment(*point);
        if hooked.is_empty() {
            silent.push(name);
        } else {
            live.push(format!("{name} ({})", hooked.join(", ")));
        }
    }
    let live = match live.is_empty() {
        true => "no messages reach the agent".to_owned(),
        false => format!("messages reach the agent {}", live.join("; ")),
    };
    if silent.is_empty() {
        return Finding::ok(CHECK, live);
    }
    Finding::warning(
        CHECK,
        format!("{live}; not {}", silent.join(", ")),
        format!("`{}` adds the hooks for them", file.install_command(host)),
    )
}

/// Hooks for the user and for the project run both.
fn in_both_files(host: Host, files: &[SettingsFile]) -> Option<Finding> {
    if files.iter().filter(|file| !file.hooks().is_empty()).count() < 2 {
        return None;
    }
    let (name, title) = (host.name(), host.capabilities().title);
    let remedy = format!("`midcourse uninstall {name} --project` leaves yours");
    Some(if host.capabilities().has_call_ids {
        let detail = "your settings and the project's have hooks; each event is recorded once";
        Finding::note("duplicates", detail, remedy)
    } else {
        let detail = format!(
            "your settings and the project's have hooks, and {title} reports no ids of calls, so \
             calls may be recorded twice"
        );
        Finding::warning("duplicates", detail, remedy)
    })
}
