//! The options by which `list`, `search` and `report` choose runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use midcourse::{RunFilter, Timestamp, now};

use crate::duration::parse_age;

#[derive(clap::Args)]
pub(super) struct RunFilterArguments {
    /// Only runs of this agent, such as `claude-code`.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Only runs in this folder or below it.
    #[arg(long, value_name = "FOLDER")]
    project: Option<PathBuf>,
    /// Only runs since then: an age such as `7d` or `12h`, a date, or a date and time.
    #[arg(long, value_name = "WHEN", value_parser = parse_since)]
    since: Option<Timestamp>,
}

impl RunFilterArguments {
    pub(super) fn filter(&self) -> Result<RunFilter> {
        let folder = self.project.as_deref().map(folder).transpose()?;
        let host = self.host.clone();
        Ok(RunFilter { host, folder, since: self.since, ..RunFilter::default() })
    }
}

/// The folder that `--project` names, as runs have it: absolute, without links and without a slash at
/// its end. It need not exist any more.
pub(super) fn folder(path: &Path) -> Result<String> {
    let path = path.canonicalize().or_else(|_| std::path::absolute(path))?;
    let path = path.to_string_lossy();
    Ok(path.trim_end_matches('/').to_owned())
}

/// Parses `7d`, `2026-11-16`, `2026-11-16 08:30` or an RFC 3339 time. A date begins at midnight in
/// the user's time zone.
pub(super) fn parse_since(text: &str) -> Result<Timestamp> {
    let ago = |age: Duration| {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_unix_ms(now().unix_ms().saturating_sub(age))
    };
    if let Some(age) = parse_age(text) {
        return Ok(ago(age));
    }
    let zone = TimeZone::system();
    let exact = text.parse::<jiff::Timestamp>().ok();
    let minute = || text.parse::<DateTime>().ok()?.to_zoned(zone.clone()).ok();
    let date = || text.parse::<Date>().ok()?.to_zoned(zone.clone()).ok();
    let at = exact.or_else(|| Some(minute().or_else(date)?.timestamp()));
    match at.and_then(|at| u64::try_from(at.as_millisecond()).ok()) {
        Some(ms) => Ok(Timestamp::from_unix_ms(ms)),
        None => bail!("invalid time `{text}`; try `7d`, `12h` or `2026-11-16`"),
    }
}

#[cfg(test)]
mod tests {
    use midcourse::now;

    use super::parse_since;

    #[test]
    fn a_time_is_an_age_or_a_date() {
        let week = parse_since("7d").unwrap();
        let age = now().since(week).as_secs();
        assert!((604_799..=604_805).contains(&age), "{age}");
        let exact = parse_since("2026-09-21T14:13:20Z").unwrap();
        assert_eq!(exact.unix_ms(), 1_790_000_000_000);
        let day = parse_since("2026-09-21").unwrap();
        assert_eq!(parse_since("2026-09-21 00:00").unwrap(), day);
        assert!(parse_since("2026-09-21 12:30").unwrap() > day);
        for invalid in ["", "soon", "7", "2026-13-01", "1960-01-01"] {
            let error = parse_since(invalid).unwrap_err().to_string();
            assert!(error.contains("try `7d`"), "{error}");
        }
    }
}
