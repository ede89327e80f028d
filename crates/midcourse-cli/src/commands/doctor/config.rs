//! Checks the configuration in force in the current directory: the user's file and the project's.

use std::path::Path;

use midcourse::{DataDir, Mode};

use super::finding::{Area, Finding};
use crate::config::{Approval, Config, ProjectFile, Trusted};
use crate::run_settings::RunSettings;
use crate::shell::shell_quote;

pub(super) fn check(data_dir: &DataDir, cwd: &Path) -> Area {
    let mut findings = vec![users_file(&data_dir.config_file())];
    let users = data_dir.config_file();
    let project = ProjectFile::find(cwd);
    let is_users =
        |path: &Path| path == users || path.canonicalize().ok() == users.canonicalize().ok();
    if let Some(path) = project.filter(|path| !is_users(path)) {
        findings.push(projects_file(data_dir, &path));
    }
    let settings = RunSettings::find(data_dir, cwd);
    findings.push(match settings.mode() {
        Mode::Shadow => Finding::note(
            "in-force",
            "shadow mode: messages are recorded and not delivered",
            "remove `mode = \"shadow\"` from the configuration to deliver them",
        ),
        Mode::Live if settings.config.experiment.is_on() => Finding::note(
            "in-force",
            "an experiment withholds some messages at random",
            "nothing if you want that; `midcourse report --effect` shows its state",
        ),
        Mode::Live => {
            let keys = settings.config_text.lines().filter(|line| line.contains(" = ")).count();
            let detail = match keys {
                0 => "the built-in settings; messages are delivered".to_owned(),
                1 => "1 key differs from the built-in settings; messages are delivered".to_owned(),
                keys => {
                    format!("{keys} keys differ from the built-in settings; messages are delivered")
                }
            };
            Finding::ok("in-force", detail)
        }
    });
    Area::new("configuration", format!("Configuration ({})", users.display()), findings)
}

fn users_file(path: &Path) -> Finding {
    const CHECK: &str = "user-file";
    match path.try_exists() {
        Ok(false) => return Finding::ok(CHECK, "there is no file, so the built-in settings apply"),
        Ok(true) if path.is_file() => {}
        Ok(true) => {
            return Finding::problem(
                CHECK,
                format!("{} is not a file", path.display()),
                "move it away; a file or nothing has to be there",
            );
        }
        Err(error) => {
            return Finding::problem(
                CHECK,
                format!("cannot read {}: {error}", path.display()),
                "check who owns the file and its folder",
            );
        }
    }
    match Config::read(path) {
        Ok(_) => Finding::ok(CHECK, format!("{} is valid", path.display())),
        Err(error) => Finding::problem(
            CHECK,
            format!("hooks skip the file: {}", first_line(&error.to_string())),
            format!("correct {}", path.display()),
        ),
    }
}

fn projects_file(data_dir: &DataDir, path: &Path) -> Finding {
    const CHECK: &str = "project-file";
    let file = match ProjectFile::read(path) {
        Ok(file) => file,
        Err(error) => {
            return Finding::warning(
                CHECK,
                format!("hooks skip the project's file: {}", first_line(&error.to_string())),
                "check who owns the file",
            );
        }
    };
    let shown = file.path().display().to_string();
    let trusted = match Trusted::read(data_dir) {
        Ok(trusted) => trusted,
        Err(error) => {
            return Finding::problem(
                CHECK,
                error.to_string(),
                format!("`rm {}`", shell_quote(&data_dir.trusted_file().to_string_lossy())),
            );
        }
    };
    if !trusted.has(&file) {
        let is_changed = trusted.files().any(|it| it == (file.path(), Approval::Changed));
        let why = if is_changed { "changed since you approved it" } else { "is not approved" };
        return Finding::warning(
            CHECK,
            format!("{shown} {why}, so it has no effect"),
            format!("review and approve it with `midcourse trust {}`", shell_quote(&shown)),
        );
    }
    match file.config() {
        Ok(_) => Finding::ok(CHECK, format!("{shown} is approved and valid")),
        Err(error) => Finding::problem(
            CHECK,
            format!("hooks skip the project's file: {}", first_line(&error.to_string())),
            format!("correct it, then `midcourse trust {}`", shell_quote(&shown)),
        ),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
