//! The command of an installed hook: which program it starts, with which data directory and
//! configuration, and whether it can start at all.

use std::path::PathBuf;
use std::time::Duration;

use midcourse::DataDir;

use super::super::hook::DEFAULT_TIMEOUT;
use super::finding::Finding;
use super::settings::SettingsFile;
use super::{Place, own_program, program};
use crate::hosts::{Host, option_value};
use crate::shell::shell_quote;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookCommand {
    text: String,
    has_exec: bool,
    program: String,
    arguments: Vec<String>,
}

impl HookCommand {
    /// Parses the command of one of midcourse's hooks.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let words = shlex::split(text)?;
        let has_exec = words.first().is_some_and(|word| word == "exec");
        let mut words = words.into_iter().skip_while(|word| word == "exec");
        let program = words.next()?;
        Some(Self { text: text.to_owned(), has_exec, program, arguments: words.collect() })
    }

    fn option(&self, name: &str) -> Option<&str> {
        let joined = || {
            let prefix = format!("{name}=");
            self.arguments.iter().find_map(|word| word.strip_prefix(prefix.as_str()))
        };
        option_value(&self.arguments, name).or_else(joined)
    }

    /// The data directory that the hook uses; `None` if the command does not name it.
    pub(super) fn data_dir(&self) -> Option<DataDir> {
        let data_dir = DataDir::at(self.option("--home").filter(|home| !home.is_empty())?);
        Some(match self.option("--config") {
            Some(config) => data_dir.with_config_file(config.into()),
            None => data_dir,
        })
    }

    pub(super) fn timeout(&self) -> Duration {
        let given = self.option("--timeout-ms").and_then(|ms| ms.parse().ok());
        given.filter(|ms| *ms > 0).map_or(DEFAULT_TIMEOUT, Duration::from_millis)
    }

    /// The file that a shell would run.
    pub(super) fn program_file(&self) -> Option<PathBuf> {
        if self.program.contains('/') || cfg!(windows) {
            return Some(PathBuf::from(&self.program)).filter(|file| file.exists());
        }
        own_program::on_path(&self.program).find(|file| program::is_executable(file))
    }

    /// The words of the command with another data directory, to start without a shell. `program`
    /// takes the place of the command's program.
    pub(super) fn words_in(&self, home: &str, program: &str) -> Vec<String> {
        let mut words = vec![program.to_owned()];
        let mut is_home = false;
        for word in &self.arguments {
            words.push(match word.as_str() {
                _ if is_home => home.to_owned(),
                joined if joined.starts_with("--home=") => format!("--home={home}"),
                other => other.to_owned(),
            });
            is_home = word == "--home";
        }
        words
    }

    /// The command with another data directory, for a shell. Everything else in it stays as it is.
    /// `None` if the place of the data directory in the text cannot be found.
    pub(super) fn text_in(&self, home: &str) -> Option<String> {
        let Some(given) = self.option("--home") else { return Some(self.text.clone()) };
        let quoted = shell_quote(home);
        for separator in [' ', '='] {
            for form in
                [shell_quote(given), given.to_owned(), format!("'{given}'"), format!("\"{given}\"")]
            {
                let changed = self.text.replacen(
                    &format!("--home{separator}{form}"),
                    &format!("--home{separator}{quoted}"),
                    1,
                );
                let expected = self.words_in(home, &self.program);
                let found = Self::parse(&changed).map(|it| it.words_in(home, &it.program));
                if changed != self.text && found == Some(expected) {
                    return Some(changed);
                }
            }
        }
        let words = self.words_in(home, &self.program);
        let text = words.iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ");
        let original = self.words_in(given, &self.program);
        let original = original.iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ");
        // A command with anything but plain words has a meaning that only a shell knows.
        let is_plain = self.text.trim_start_matches("exec ").trim() == original;
        is_plain.then(|| if self.has_exec { format!("exec {text}") } else { text })
    }

    /// Whether the command starts this program.
    pub(super) fn is_this_program(&self, place: &Place) -> bool {
        let found = self.program_file();
        found.is_some_and(|found| own_program::is_same_file(&found, &place.program))
    }

    /// Checks program, data directory and configuration file of the command. Returns no problem if
    /// the command can be tried.
    pub(super) fn findings(&self, host: Host, file: &SettingsFile, place: &Place) -> Vec<Finding> {
        let mut findings = vec![self.check_program(host, file, place)];
        let install = file.install_command(host);
        match self.data_dir() {
            None => findings.push(Finding::warning(
                "data-directory",
                "the hook's command names no data directory (--home), so a project can set \
                 variables that change where the hook records",
                format!("`{install}` writes a command that names every path"),
            )),
            Some(data_dir) => {
                let is_users = place.data_dir.as_ref().is_some_and(|of_user| {
                    of_user.path() == data_dir.path()
                        || own_program::is_same_file(of_user.path(), data_dir.path())
                });
                let home = data_dir.path().display().to_string();
                // The area of the store reports whether it is writable.
                findings.push(match (&place.data_dir, is_users) {
                    (Some(of_user), false) => Finding::warning(
                        "data-directory",
                        format!(
                            "the hooks record into {home}, but your data directory is {}, so \
                             `midcourse list` does not show these runs",
                            of_user.path().display()
                        ),
                        format!(
                            "`{install}` to record into yours, or `export MIDCOURSE_HOME={}`",
                            shell_quote(&home)
                        ),
                    ),
                    _ => Finding::ok("data-directory", format!("the hooks record into {home}")),
                });
                if let Some(of_user) = place.data_dir.as_ref().filter(|_| is_users)
                    && of_user.config_file() != data_dir.config_file()
                {
                    findings.push(Finding::note(
                        "configuration",
                        format!(
                            "the hooks read {}, not {}",
                            data_dir.config_file().display(),
                            of_user.config_file().display()
                        ),
                        format!("nothing if you want that, otherwise `{install}`"),
                    ));
                }
            }
        }
        findings
    }

    fn check_program(&self, host: Host, file: &SettingsFile, place: &Place) -> Finding {
        const CHECK: &str = "command";
        let install = format!("`{}`", file.install_command(host));
        let Some(found) = self.program_file() else {
            let program = &self.program;
            return Finding::problem(
                CHECK,
                format!("the hooks start {program}, which does not exist"),
                format!("{install} writes the path of this program into the hooks"),
            );
        };
        let shown = found.display().to_string();
        if !program::is_executable(&found) {
            return Finding::problem(
                CHECK,
                format!("the hooks start {shown}, which is not executable"),
                format!("`chmod +x {}`, or {install}", shell_quote(&shown)),
            );
        }
        if self.is_this_program(place) {
            return Finding::ok(CHECK, format!("the hooks start this program, {shown}"));
        }
        if file.is_project {
            // A project may contain any program. It is not started.
            return Finding::problem(
                CHECK,
                format!(
                    "the project's file {} starts {shown}, which is not this program",
                    file.path.display()
                ),
                format!("look at the file; then {install}, or remove the hooks"),
            );
        }
        let own = env!("CARGO_PKG_VERSION");
        match program::version(&found) {
            Some(version) if version == own => Finding::note(
                CHECK,
                format!("the hooks start {shown}, another copy of this release ({own})"),
                format!("nothing if you want that, otherwise {install}"),
            ),
            Some(version) => Finding::warning(
                CHECK,
                format!("the hooks start {shown}, which is release {version}; this is {own}"),
                format!("{install} makes the hooks start this program"),
            ),
            None => Finding::warning(
                CHECK,
                format!("the hooks start {shown}, which does not say its version"),
                format!("{install} makes the hooks start this program"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HookCommand;

    fn text_in(command: &str) -> Option<String> {
        HookCommand::parse(command).unwrap().text_in("/tmp/a b")
    }

    #[test]
    fn only_the_value_of_home_is_replaced() {
        for (command, expected) in [
            (
                "exec '/my bin/midcourse' hook codex --home '/my home/data' --config /c",
                "exec '/my bin/midcourse' hook codex --home '/tmp/a b' --config /c",
            ),
            (
                "midcourse hook codex --home \"/h\" --config \"$HOME/c\" 2>&1",
                "midcourse hook codex --home '/tmp/a b' --config \"$HOME/c\" 2>&1",
            ),
            ("midcourse hook codex --home=/h", "midcourse hook codex --home='/tmp/a b'"),
            ("midcourse  hook codex", "midcourse  hook codex"),
        ] {
            assert_eq!(text_in(command).as_deref(), Some(expected));
        }
        assert_eq!(text_in("midcourse hook codex --home /h\\ x | cat"), None);
    }

    #[test]
    fn options_are_found_in_both_forms() {
        let command = HookCommand::parse("midcourse hook qwen --home=/h --timeout-ms 20").unwrap();
        assert_eq!(command.data_dir().unwrap().path().to_str(), Some("/h"));
        assert_eq!(command.timeout().as_millis(), 20);
        let words = command.words_in("/s", "/bin/m");
        assert_eq!(words, ["/bin/m", "hook", "qwen", "--home=/s", "--timeout-ms", "20"]);
    }
}
