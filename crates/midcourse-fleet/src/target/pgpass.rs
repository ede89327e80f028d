//! The password file of Postgres: lines of `host:port:database:user:password`, where `*` is anything
//! and a backslash makes the next character literal.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use postgres::Config;
use postgres::config::Host;

use crate::error::FleetError;

/// The password for a connection; `None` if there is no file, or no line fits.
pub(super) fn find(
    config: &Config,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<String>, FleetError> {
    let named = variable("PGPASSFILE").filter(|name| !name.is_empty()).map(PathBuf::from);
    let default = || Some(PathBuf::from(variable("HOME")?).join(".pgpass"));
    let Some(file) = named.clone().or_else(default) else { return Ok(None) };
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(_) if named.is_none() => return Ok(None),
        Err(error) => {
            let what = format!("cannot read the password file {}: {error}", file.display());
            return Err(FleetError::Target(what));
        }
    };
    check_private(&file)?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let wanted = [
        host.as_str(),
        port.as_str(),
        config.get_dbname().unwrap_or_default(),
        config.get_user().unwrap_or_default(),
    ];
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.map(fields).find_map(|fields| {
        let (password, given) = fields.split_last()?;
        let fits = given.len() == wanted.len()
            && given.iter().zip(wanted).all(|(given, wanted)| given == "*" || given == wanted);
        fits.then(|| password.clone())
    }))
}

fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field) = (Vec::new(), String::new());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
            '\\' => field.extend(characters.next()),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

/// Refuses a file that other users can read.
pub(super) fn check_private(file: &Path) -> Result<(), FleetError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(file).map(|about| about.permissions().mode()).unwrap_or(0);
        if mode & 0o077 != 0 {
            return Err(FleetError::Target(format!(
                "other users can read the password file {}; run `chmod 600` on it",
                file.display()
            )));
        }
    }
    let _ = file;
    Ok(())
}
