//! Service entries of Postgres: a section of `pg_service.conf` with the parameters of a connection.

use std::ffi::OsString;
use std::path::PathBuf;

use postgres::Config;
use postgres::config::ChannelBinding;

use super::{Extra, pgpass};
use crate::error::FleetError;

/// Reads the entry with this name from the user's file.
pub(super) fn read(
    name: &str,
    extra: &mut Extra,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Config, FleetError> {
    let named = variable("PGSERVICEFILE").filter(|name| !name.is_empty()).map(PathBuf::from);
    let file = named.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".pg_service.conf")));
    let file = file.ok_or_else(|| {
        FleetError::Target("there is no service file; set PGSERVICEFILE".to_owned())
    })?;
    let invalid = |why: String| FleetError::Target(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(&file)
        .map_err(|error| invalid(format!("cannot read the service file: {error}")))?;
    let mut config = Config::new();
    let (mut is_in_section, mut is_found, mut has_password) = (false, false, false);
    for (number, line) in (1_usize..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_in_section = section == name;
            is_found |= is_in_section;
            continue;
        }
        if !is_in_section {
            continue;
        }
        let pair = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let (key, value) = pair.ok_or_else(|| invalid(format!("line {number} has no `=`")))?;
        match key {
            "host" | "hostaddr" => _ = config.host(value),
            "port" => {
                let port = value.parse();
                let port = port.map_err(|_| invalid(format!("line {number}: invalid port")))?;
                config.port(port);
            }
            "dbname" => _ = config.dbname(value),
            "user" => _ = config.user(value),
            "password" => {
                has_password = true;
                config.password(value);
            }
            "channel_binding" => {
                config.channel_binding(match value {
                    "disable" => ChannelBinding::Disable,
                    "prefer" => ChannelBinding::Prefer,
                    "require" => ChannelBinding::Require,
                    _ => return Err(invalid(format!("line {number}: invalid channel_binding"))),
                });
            }
            _ if extra.take(key, value) => {}
            "application_name" | "connect_timeout" | "target_session_attrs" => {}
            _ => return Err(invalid(format!("line {number}: `{key}` is not supported"))),
        }
    }
    if !is_found {
        return Err(invalid(format!("there is no entry [{name}]")));
    }
    if has_password {
        pgpass::check_private(&file)?;
    }
    Ok(config)
}
