//! Determines which configuration files apply to a run: the user's file, and on top of it the
//! project's file if the user approved it. A file with an error is skipped with a warning; it never
//! makes a run fail.
//!
//! A project may contain folders that the user does not trust, such as packages, and the agent may
//! work in one. A file or a repository there must not hide a file that the user approved. So if the
//! nearest file is not approved, the next approved file above it applies.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use midcourse::DataDir;

#[cfg(feature = "fleet")]
use super::Ship;
use super::file::{self, ProjectFile};
use super::layer::Layer;
use super::trust::Trusted;
use super::{Config, ConfigError, InvalidConfig, Price, Retention};
use crate::shell::shell_quote;

/// The settings for an agent that works in `cwd`, and a warning for each file that was skipped:
/// which file, why, and what to do. A warning may quote text from the file, so the caller has to
/// escape control characters before printing it.
pub(crate) fn find(data_dir: &DataDir, cwd: &Path) -> (Layer, Vec<String>) {
    let mut warnings = Vec::new();
    let mut found = Layer::default();
    match users_file(&data_dir.config_file()) {
        Ok(layer) => found = layer,
        Err(error) => warnings.push(skipped(&error)),
    }
    // The agent may work in the folder of the user's own file. The search for a project's file then
    // finds the user's file, which was read already.
    let users = file::real_path(&data_dir.config_file());
    let nearest = ProjectFile::find(cwd).filter(|path| *path != users);
    if let Some(path) = &nearest {
        match projects_file(data_dir, path) {
            Ok(layer) => return (found.overlaid_with(layer), warnings),
            Err(warning) => warnings.push(warning),
        }
    }
    let others = ProjectFile::find_all(cwd).into_iter();
    let mut others = others.filter(|path| *path != users && Some(path) != nearest.as_ref());
    if let Some((path, layer)) =
        others.find_map(|path| projects_file(data_dir, &path).ok().map(|layer| (path, layer)))
    {
        if nearest.is_some() {
            warnings.push(format!("uses the approved {} instead", path.display()));
        }
        found = found.overlaid_with(layer);
    }
    (found, warnings)
}

/// The user's limits on stored runs. There are none if the user's file is missing or invalid. A
/// project's file cannot set them.
pub(crate) fn users_retention(data_dir: &DataDir) -> Retention {
    users_config(data_dir).retention
}

/// Where the user's runs are shipped; the default if the user's file does not say. A project's file
/// cannot set it: otherwise it could send what an agent does to anybody.
#[cfg(feature = "fleet")]
pub(crate) fn users_ship(data_dir: &DataDir) -> Result<Ship, ConfigError> {
    let path = data_dir.config_file();
    let invalid = |problem: InvalidConfig| ConfigError::invalid(&path, problem);
    let text = file::read_found(&path).map_err(|error| ConfigError::unreadable(&path, error))?;
    Ok(Config::parse(&text.unwrap_or_default()).map_err(invalid)?.ship)
}

/// The user's prices of models. There are none if the user's file is missing or invalid.
pub(crate) fn users_prices(data_dir: &DataDir) -> BTreeMap<String, Price> {
    users_config(data_dir).prices
}

fn users_config(data_dir: &DataDir) -> Config {
    let layer = users_file(&data_dir.config_file()).unwrap_or_default();
    let config = layer.text().ok().and_then(|text| Config::parse(&text).ok());
    config.unwrap_or_default()
}

pub(super) fn skipped(error: &dyn Display) -> String {
    format!("skipped a configuration file: {error}")
}

fn users_file(path: &Path) -> Result<Layer, ConfigError> {
    let text = file::read_found(path).map_err(|error| ConfigError::unreadable(path, error))?;
    let invalid = |problem: InvalidConfig| ConfigError::invalid(path, problem);
    text.map_or_else(|| Ok(Layer::default()), |text| Layer::parse(&text).map_err(invalid))
}

/// The settings of a project's file, or a warning that says why the file was skipped.
fn projects_file(data_dir: &DataDir, path: &Path) -> Result<Layer, String> {
    let file = ProjectFile::read(path).map_err(|error| skipped(&error))?;
    let trusted = Trusted::read(data_dir)
        .map_err(|error| format!("skipped the project's configuration: {error}"))?;
    if !trusted.has(&file) {
        let why =
            if trusted.knows(&file) { "changed since you approved it" } else { "is not approved" };
        let path = file.path().display().to_string();
        return Err(format!(
            "skipped {path}: it {why}; review and approve it with `midcourse trust {}`",
            shell_quote(&path)
        ));
    }
    let layer = Layer::parse(file.text());
    let layer = layer.map_err(|problem| skipped(&ConfigError::invalid(path, problem)))?;
    for table in ["retention", "ship"] {
        if layer.0.contains_key(table) {
            let path = path.display();
            return Err(format!("skipped {path}: `[{table}]` may only be in your own file"));
        }
    }
    Ok(layer)
}
