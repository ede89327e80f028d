//! The arguments of `midcourse hook`, and the `midcourse hook` command line that `midcourse run`
//! tells a coding agent to run as its hook.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use midcourse::DataDir;

use crate::hosts::Host;
use crate::run_settings::LaunchId;
use crate::shell::shell_quote;

const TIMEOUT_VARIABLE: &str = "MIDCOURSE_HOOK_TIMEOUT_MS";

pub(in crate::commands) const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);

/// Record one hook event of a coding agent and print the reply.
///
/// Coding agents run this command at their hooks. It reads the payload from standard input, stores
/// it and prints the reply: nothing, or a short message for the agent. If anything goes wrong, the
/// reply is empty, the exit code is 0, and `hook.log` in the data directory says why.
///
/// MIDCOURSE_HOOK_TIMEOUT_MS sets the timeout (500 ms by default).
#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
pub(in crate::commands) struct Arguments {
    /// Decode payloads of this host: claude-code, codex, copilot, gemini, opencode or qwen.
    pub(super) host: String,
    /// Use this data directory and ignore the environment.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Use this configuration file instead of midcourse.toml in the data directory.
    #[arg(long, value_name = "FILE", requires = "home")]
    config: Option<PathBuf>,
    /// Use the settings of this launch of `midcourse run`.
    #[arg(long, value_name = "ID")]
    launch: Option<String>,
    /// Give up after this many milliseconds.
    #[arg(long, value_name = "MILLISECONDS")]
    timeout_ms: Option<u64>,
}

// A parser for `hook` alone. The parser of all commands would exit with code 2 if a word is wrong.
#[derive(clap::Parser)]
#[command(name = "midcourse hook", no_binary_name = true, max_term_width = 100)]
struct HookCli {
    #[command(flatten)]
    arguments: Arguments,
}

pub(super) struct Parsed {
    pub(super) arguments: Arguments,
    /// Why the command line is invalid; `None` if it is valid. If it is invalid, `arguments` has
    /// only default values.
    pub(super) problem: Option<String>,
}

/// Parses the arguments after `midcourse hook`. For `--help`, returns the help text as `Err`.
pub(super) fn parse(words: Vec<OsString>) -> Result<Parsed, String> {
    if let Some(arguments) = parse_installed(&words) {
        return Ok(Parsed { arguments, problem: None });
    }
    match HookCli::try_parse_from(words) {
        Ok(HookCli { arguments }) => Ok(Parsed { arguments, problem: None }),
        Err(error) if !error.use_stderr() => Err(error.to_string()),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let problem = first.strip_prefix("error: ").unwrap_or(first).to_owned();
            Ok(Parsed { arguments: Arguments::default(), problem: Some(problem) })
        }
    }
}

/// Parses the words in the form that `midcourse run` and `midcourse install` write: the host, and then
/// options, each followed by its value. `None` for any other form, which clap parses. The agent waits
/// for each hook, and setting up clap takes a new process 0.06 ms.
fn parse_installed(words: &[OsString]) -> Option<Arguments> {
    let (host, options) = words.split_first()?;
    let mut arguments = Arguments { host: plain(host)?.to_owned(), ..Arguments::default() };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = plain(options.next()?)?;
        let is_new = match option.to_str()? {
            "--home" => arguments.home.replace(value.into()).is_none(),
            "--config" => arguments.config.replace(value.into()).is_none(),
            "--launch" => arguments.launch.replace(value.to_owned()).is_none(),
            "--timeout-ms" => arguments.timeout_ms.replace(value.parse().ok()?).is_none(),
            _ => false,
        };
        if !is_new {
            return None;
        }
    }
    (arguments.config.is_none() || arguments.home.is_some()).then_some(arguments)
}

/// A word that is no option, and neither empty nor of other bytes than UTF-8.
fn plain(word: &OsString) -> Option<&str> {
    word.to_str().filter(|word| !word.is_empty() && !word.starts_with('-'))
}

/// The shell command that an agent started by `midcourse run` runs as its hook. `launch_id` is the
/// id of that use of `midcourse run`. The settings are passed as arguments, because arguments take
/// precedence over environment variables, which a project could set.
pub(in crate::commands) fn hook_command(
    host: Host,
    data_dir: &DataDir,
    launch_id: &str,
) -> anyhow::Result<String> {
    let (program, home) = (quoted(&std::env::current_exe()?)?, quoted(data_dir.path())?);
    let command = format!("{program} hook {} --home {home} --launch {launch_id}", host.name());
    Ok(with_timeout(command))
}

/// The shell command that an agent runs as its hook after `midcourse install`. Like the command of
/// `midcourse run`, it names every path.
pub(in crate::commands) fn installed_hook_command(
    host: Host,
    program: &Path,
    data_dir: &DataDir,
) -> anyhow::Result<String> {
    let (program, home) = (quoted(program)?, quoted(data_dir.path())?);
    let config = quoted(&data_dir.config_file())?;
    let command = format!("{program} hook {} --home {home} --config {config}", host.name());
    Ok(with_timeout(command))
}

/// Quotes a path for a shell.
pub(in crate::commands) fn quoted(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(shell_quote);
    text.with_context(|| format!("the path {} is not valid UTF-8", path.display()))
}

fn with_timeout(command: String) -> String {
    match timeout_in_environment() {
        Some(timeout) => format!("{command} --timeout-ms {}", timeout.as_millis()),
        None => command,
    }
}

impl Arguments {
    /// The data directory. With `--home`, the environment has no say in where its configuration file
    /// is: a project could set the variables.
    pub(super) fn data_dir(&self) -> Option<DataDir> {
        let Some(home) = self.home.clone().filter(|folder| !folder.as_os_str().is_empty()) else {
            return DataDir::of_user().ok();
        };
        let data_dir = DataDir::at(home);
        Some(match self.config.clone() {
            Some(config) => data_dir.with_config_file(config),
            None => data_dir,
        })
    }

    pub(super) fn launch(&self) -> Option<LaunchId> {
        self.launch.clone().map(LaunchId::Given).or_else(LaunchId::in_environment)
    }

    pub(super) fn timeout(&self) -> Duration {
        let given = self.timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis);
        // A command line with `--home` comes from `midcourse run`, which passes the timeout as an
        // argument too. So ignore the variable then: a project could set it.
        let variable = || if self.home.is_some() { None } else { timeout_in_environment() };
        given.or_else(variable).unwrap_or(DEFAULT_TIMEOUT)
    }
}

fn timeout_in_environment() -> Option<Duration> {
    let ms = std::env::var(TIMEOUT_VARIABLE).ok().and_then(|text| text.parse().ok());
    ms.filter(|ms| *ms > 0).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser as _;
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    use super::{Arguments, HookCli, Parsed, parse, parse_installed};

    const WORDS: [&str; 12] = [
        "claude-code",
        "--home",
        "/home/me/my data",
        "--config",
        "c.toml",
        "--launch",
        "01a1",
        "--timeout-ms",
        "500",
        "-1",
        "",
        "--home=/x",
    ];

    #[test]
    fn the_form_that_midcourse_writes_does_not_need_clap() {
        let words =
            ["codex", "--home", "/d", "--config", "/c", "--launch", "x", "--timeout-ms", "9"];
        assert!(parse_installed(&words.map(OsString::from)).is_some());
    }

    proptest! {
        #[test]
        fn what_is_parsed_without_clap_is_parsed_as_clap_does(
            words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..10),
        ) {
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            if let Some(arguments) = parse_installed(&words) {
                let parsed = HookCli::try_parse_from(words).map(|parsed| parsed.arguments).ok();
                prop_assert_eq!(parsed, Some(arguments));
            }
        }
    }

    fn parsed(words: &[&str]) -> Parsed {
        parse(words.iter().map(OsString::from).collect()).ok().unwrap()
    }

    #[test]
    fn options_may_have_either_form_and_any_order() {
        for words in [
            &["codex", "--home", "/h x", "--config", "c", "--launch", "l", "--timeout-ms", "7"][..],
            &["--home=/h x", "codex", "--config=c", "--launch=l", "--timeout-ms=7"],
        ] {
            let Parsed { arguments, problem } = parsed(words);
            let Arguments { host, home, config, launch, timeout_ms } = arguments;
            assert_eq!(problem, None);
            assert_eq!((host.as_str(), home), ("codex", Some("/h x".into())));
            assert_eq!(config, Some("c".into()));
            assert_eq!((launch.as_deref(), timeout_ms), (Some("l"), Some(7)));
        }
    }

    #[test]
    fn a_wrong_command_line_is_a_problem_and_not_a_failure() {
        for (words, problem) in [
            (&[][..], "required arguments were not provided"),
            (&["codex", "--home"], "a value is required"),
            (&["codex", "--bogus"], "unexpected argument '--bogus'"),
            (&["codex", "more"], "unexpected argument 'more'"),
            (&["codex", "--timeout-ms", "x"], "invalid value 'x'"),
            (&["codex", "--config", "c"], "required arguments were not provided"),
            (&["--bogus", "--help"], "unexpected argument '--bogus'"),
        ] {
            let found = parsed(words).problem.unwrap();
            assert!(found.contains(problem), "{words:?}: {found}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn arguments_that_are_not_utf_8_are_a_problem_and_not_a_failure() {
        use std::os::unix::ffi::OsStringExt as _;
        let word = OsString::from_vec(vec![b'x', 0xff]);
        let found = parse(vec![word.clone()]).ok().unwrap().problem.unwrap();
        assert!(found.contains("invalid UTF-8"), "{found}");
        let home = parse(vec!["codex".into(), "--home".into(), word.clone()]).ok().unwrap();
        assert_eq!(home.arguments.home, Some(word.into()));
    }

    #[test]
    fn help_is_printed() {
        let help = parse(vec!["codex".into(), "--help".into()]).err().unwrap();
        assert!(help.starts_with("Record one hook event"), "{help}");
    }
}
