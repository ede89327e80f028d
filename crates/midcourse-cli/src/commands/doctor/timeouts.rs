//! The time limits that a host has for midcourse's hooks, compared with the time that a hook needs at
//! most.

use std::time::Duration;

use super::super::hook::{DEFAULT_TIMEOUT, SPILL_TIME};
use super::finding::Finding;
use super::hook_command::HookCommand;
use super::settings::SettingsFile;
use crate::hosts::{Host, InstalledHook};

/// A longer limit is a mistake: no hook of midcourse takes that long, and if one did, the agent would
/// wait for it.
const ABSURD_MS: f64 = 600_000.0;

pub(super) fn check(host: Host, file: &SettingsFile) -> Vec<Finding> {
    const CHECK: &str = "timeout";
    let unit = host.capabilities().timeout_unit;
    let ms_of = |hook: &InstalledHook| hook.timeout.map(|limit| limit * unit.ms());
    let needed = |hook: &InstalledHook| {
        let command = HookCommand::parse(&hook.command);
        command.map_or(Duration::ZERO, |command| command.timeout()).saturating_add(SPILL_TIME)
    };
    let remedy = || format!("`{}` writes the right limit", file.install_command(host));
    let title = host.capabilities().title;
    let is_short =
        |hook: &&InstalledHook| ms_of(hook).is_some_and(|limit| limit < ms(needed(hook)));
    let is_long = |hook: &&InstalledHook| ms_of(hook).is_some_and(|ms| ms > ABSURD_MS);
    let mut findings = Vec::new();
    if let Some(hook) = file.hooks().iter().find(is_short) {
        let count = file.hooks().iter().filter(is_short).count();
        findings.push(Finding::problem(
            CHECK,
            format!(
                "{title} gives {} only {} {} ({count} of {} hooks have too little time); a hook may \
                 need {} ms while the store is busy",
                hook.event,
                hook.timeout.unwrap_or_default(),
                unit.name(),
                file.hooks().len(),
                needed(hook).as_millis()
            ),
            // If the limit is long enough for the usual timeout, the hook's own timeout is too long.
            if ms_of(hook) < Some(ms(DEFAULT_TIMEOUT.saturating_add(SPILL_TIME))) {
                remedy()
            } else {
                format!(
                    "the hooks have a timeout of their own (--timeout-ms): \
                     `unset MIDCOURSE_HOOK_TIMEOUT_MS`, then `{}`",
                    file.install_command(host)
                )
            },
        ));
    }
    if let Some(hook) = file.hooks().iter().find(is_long) {
        findings.push(Finding::warning(
            CHECK,
            format!(
                "{title} waits up to {} {} for the hook of {}; limits of {title} are in {}",
                hook.timeout.unwrap_or_default(),
                unit.name(),
                hook.event,
                unit.name()
            ),
            remedy(),
        ));
    }
    if findings.is_empty() {
        let limits: Vec<f64> = file.hooks().iter().filter_map(|hook| hook.timeout).collect();
        let shortest = limits.iter().copied().reduce(f64::min);
        findings.push(Finding::ok(
            CHECK,
            match shortest {
                Some(limit) => format!("a hook may take {limit} {}", unit.name()),
                None => format!("the default of {title} applies"),
            },
        ));
    }
    findings
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
