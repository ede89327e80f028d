//! The file that makes the system start a service of midcourse: a unit of the user's systemd, or an
//! agent of launchd on macOS.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::display::escape_control_chars;
use crate::user_file::UserFile;

/// A command that the system can start as a service.
pub(super) struct Service {
    /// The name of the unit.
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// The command whose subcommands `install` and `uninstall` write and remove the unit.
    pub(super) command: &'static str,
    /// What it is called in "no … is installed".
    pub(super) thing: &'static str,
    /// How long systemd waits before it starts the service again after a failure. launchd waits ten
    /// seconds.
    pub(super) restart_seconds: u32,
}

impl Service {
    fn mark(&self) -> String {
        let command = self.command;
        format!("Written by `{command} install`; `{command} uninstall` removes it.")
    }

    /// Whether a unit was written for this service.
    pub(super) fn wrote(&self, text: &str) -> bool {
        text.contains(&self.mark())
    }
}

/// The variables that decide where the data directory and the configuration are. A service does not
/// get those of the user's shell.
pub(super) fn environment() -> Vec<(&'static str, String)> {
    let set = |name: &'static str| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        let value = std::path::absolute(value).ok()?.to_str()?.to_owned();
        Some((name, value))
    };
    ["MIDCOURSE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].into_iter().filter_map(set).collect()
}

pub(super) struct Unit {
    service: &'static Service,
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Unit {
    /// The unit that runs a command with these environment variables.
    pub(super) fn find(
        service: &'static Service,
        command: Vec<String>,
        environment: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let words = command.iter().chain(environment.iter().map(|(_, value)| value));
        for word in words {
            ensure!(
                !word.contains(char::is_control),
                "a path contains a control character: {word:?}"
            );
        }
        let home = || dirs::home_dir().context("no home directory was found; set HOME");
        if cfg!(target_os = "macos") {
            let path = home()?.join("Library/LaunchAgents").join(format!("{}.plist", service.name));
            let text = launchd(service, &command, &environment);
            return Ok(Self { service, path, text });
        }
        let config = match std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()) {
            Some(folder) => PathBuf::from(folder),
            None => home()?.join(".config"),
        };
        let path = config.join("systemd/user").join(format!("{}.service", service.name));
        Ok(Self { service, path, text: systemd(service, &command, &environment) })
    }

    pub(super) fn start_command(&self) -> String {
        let name = self.service.name;
        match cfg!(target_os = "macos") {
            true => format!("launchctl load -w {}", self.quoted_path()),
            false => format!(
                "systemctl --user daemon-reload && systemctl --user enable {name} && \
                 systemctl --user restart {name}"
            ),
        }
    }

    /// The file of the unit, which exists or not. Fails if somebody else has written it.
    pub(super) fn file(&self) -> Result<UserFile> {
        let file = UserFile::read(&self.path)?;
        let is_ours =
            |content: &[u8]| std::str::from_utf8(content).is_ok_and(|it| self.service.wrote(it));
        ensure!(
            file.content().is_none_or(is_ours),
            "{} is not changed: `{} install` has not written it",
            self.path.display(),
            self.service.command
        );
        Ok(file)
    }

    /// Deletes the file, if it exists, and says what was done.
    pub(super) fn uninstall(&self, out: &mut impl Write) -> Result<()> {
        let file = self.file()?;
        let path = self.path.display().to_string();
        let path = escape_control_chars(&path);
        if file.content().is_none() {
            let what = self.service.thing;
            writeln!(out, "{path} does not exist; no {what} is installed")?;
            return Ok(());
        }
        file.delete()?;
        self.remove_link();
        writeln!(out, "deleted {path}")?;
        writeln!(out, "stop it: {}", self.stop_command())?;
        Ok(())
    }

    fn stop_command(&self) -> String {
        let name = self.service.name;
        match cfg!(target_os = "macos") {
            true => format!("launchctl remove {name}"),
            false => format!("systemctl --user stop {name}; systemctl --user daemon-reload"),
        }
    }

    /// Removes the link with which systemd starts the unit at login.
    fn remove_link(&self) {
        if let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) {
            let link = folder.join("default.target.wants").join(name);
            if std::fs::symlink_metadata(&link).is_ok_and(|found| found.is_symlink()) {
                // Without the unit, the link has no effect.
                let _ = std::fs::remove_file(link);
            }
        }
    }

    fn quoted_path(&self) -> String {
        crate::shell::shell_quote(&self.path.display().to_string())
    }
}

fn systemd(
    service: &Service,
    command: &[String],
    environment: &[(&'static str, String)],
) -> String {
    let words: Vec<String> = command.iter().map(|word| quoted(&word.replace('$', "$$"))).collect();
    let variable = |(name, value): &(&str, String)| {
        format!("Environment={}\n", quoted(&format!("{name}={value}")))
    };
    let variables: String = environment.iter().map(variable).collect();
    format!(
        "# {mark}\n\
         [Unit]\n\
         Description={}\n\
         \n\
         [Service]\n\
         {variables}\
         ExecStart={}\n\
         WorkingDirectory=/\n\
         Restart=on-failure\n\
         RestartSec={}\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        service.description,
        words.join(" "),
        service.restart_seconds,
        mark = service.mark(),
    )
}

/// Quotes a word for a unit of systemd, where a percent sign begins a specifier.
fn quoted(word: &str) -> String {
    let word = word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{word}\"")
}

fn launchd(
    service: &Service,
    command: &[String],
    environment: &[(&'static str, String)],
) -> String {
    let string = |text: &str| format!("<string>{}</string>", escaped(text));
    let words: String = command.iter().map(|word| format!("    {}\n", string(word))).collect();
    let variable =
        |(name, value): &(&str, String)| format!("    <key>{name}</key>{}\n", string(value));
    let variables: String = environment.iter().map(variable).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <!-- {} -->\n\
         <plist version=\"1.0\">\n<dict>\n  \
         <key>Label</key><string>{}</string>\n  \
         <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n  \
         <key>EnvironmentVariables</key>\n  <dict>\n{variables}  </dict>\n  \
         <key>RunAtLoad</key><true/>\n  \
         <key>KeepAlive</key><true/>\n\
         </dict>\n</plist>\n",
        service.mark(),
        service.name
    )
}

/// Escapes a text for XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{Service, launchd, systemd};

    const PROXY: Service = Service {
        name: "midcourse-proxy",
        description: "a proxy",
        command: "midcourse proxy",
        thing: "proxy",
        restart_seconds: 2,
    };

    #[test]
    fn special_characters_are_quoted() {
        let command = ["/my bin/midcourse", "a\"b", "50%", "$HOME", "c\\d"].map(str::to_owned);
        let environment = [("MIDCOURSE_HOME", "/data & more".to_owned())];
        let unit = systemd(&PROXY, &command, &environment);
        let line = r#"ExecStart="/my bin/midcourse" "a\"b" "50%%" "$$HOME" "c\\d""#;
        assert!(unit.contains(&format!("\n{line}\n")), "{unit}");
        assert!(unit.contains("\nEnvironment=\"MIDCOURSE_HOME=/data & more\"\n"), "{unit}");
        let agent = launchd(&PROXY, &command, &environment);
        assert!(agent.contains("<string>/data &amp; more</string>"), "{agent}");
        assert!(agent.contains("    <string>/my bin/midcourse</string>\n"), "{agent}");
        assert!(PROXY.wrote(&unit) && PROXY.wrote(&agent) && !PROXY.wrote("[Unit]\n"));
    }
}
