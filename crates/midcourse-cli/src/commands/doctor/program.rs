//! The programs of hosts and of midcourse: where they are, and which release they are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::finding::Finding;
use super::own_program;
use super::process;
use crate::hosts::Host;

/// How long a program may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// The program of a host on PATH.
pub(super) fn of_host(host: Host) -> Option<PathBuf> {
    let name = host.capabilities().programs.first()?;
    own_program::on_path(name).find(|file| is_executable(file))
}

pub(super) fn check(host: Host, program: Option<&Path>) -> Finding {
    const CHECK: &str = "program";
    let capabilities = host.capabilities();
    let (title, tested) = (capabilities.title, capabilities.oldest_tested);
    let Some(program) = program else {
        return Finding::note(
            CHECK,
            format!("{title} is not on PATH"),
            format!("nothing, if you start {title} in another way"),
        );
    };
    let shown = program.display();
    let Some(version) = version(program) else {
        return Finding::note(
            CHECK,
            format!("{shown} does not say its version"),
            format!("run `{shown} --version`; midcourse needs {title} {tested} or later"),
        );
    };
    if numbers(&version) < numbers(tested) {
        return Finding::note(
            CHECK,
            format!("{shown} is release {version}; midcourse was tested with {tested} and later"),
            format!("upgrade {title} if the trial below fails or messages do not arrive"),
        );
    }
    Finding::ok(CHECK, format!("{title} {version} ({shown})"))
}

/// The first word with a number and a dot in the first line that a program prints for `--version`.
pub(super) fn version(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version");
    let finished = process::run(&mut command, Vec::new(), VERSION_TIMEOUT).ok()?;
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let mut words =
        text.lines().next()?.split_whitespace().map(|word| word.trim_start_matches('v'));
    let is_version =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    words.find(is_version).map(ToOwned::to_owned)
}

/// The numbers of a version, for comparison.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(|c: char| !c.is_ascii_digit()).take(3);
    parts.map(|part| part.parse().unwrap_or_default()).collect()
}

#[cfg(unix)]
pub(super) fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
pub(super) fn is_executable(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("2.1.197") < numbers("2.1.325"));
        assert!(numbers("0.9.1") < numbers("0.15.10"));
        assert!(numbers("1.0.102-beta") >= numbers("1.0.102"));
    }
}
