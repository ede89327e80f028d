//! Which configuration counts: the user's file, over it the project's if the user approved it, over
//! it what was said on the command line. A file that is only found never makes anything fail: what
//! is wrong with it is remarked, and it is left out.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use midcourse::Mode;
use toml::{Table, Value};

use super::file::{self, ProjectFile};
use super::layer::Layer;
use super::trust::Trusted;
use super::{Config, ConfigError, InvalidConfig};
use crate::shell::shell_quote;
use midcourse::DataDir;

/// The configuration that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct InForce {
    /// The configuration.
    pub config: Config,
    /// All that was set, as the text of a file from which [`Config::parse`] makes an equal
    /// configuration. The same settings have the same text; it is empty if nothing was set.
    pub text: String,
    /// What was left out, why, and what to do about it. It quotes paths and files as they are.
    pub remarks: Vec<String>,
}

/// What was said on the command line. It goes before every file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// Whether what is said reaches the agent.
    pub mode: Option<Mode>,
    /// At most this many tool calls.
    pub calls: Option<NonZeroU64>,
    /// At most this many tokens.
    pub tokens: Option<NonZeroU64>,
}

impl InForce {
    /// What midcourse ships.
    pub fn shipped() -> Self {
        Self { config: Config::shipped(), text: String::new(), remarks: Vec::new() }
    }

    /// What counts for work in the folder `project`. A file that is named explicitly takes the place
    /// of those that are found, and has to be right.
    pub fn find(
        home: &DataDir,
        explicit: Option<&Path>,
        project: &Path,
    ) -> Result<Self, ConfigError> {
        if let Some(path) = explicit {
            let of_file = |error| ConfigError::unreadable(path, error);
            let text = file::named(path).map_err(of_file)?;
            let layer = Layer::of(&text).map_err(|problem| ConfigError::invalid(path, problem))?;
            return Ok(Self::of_layer(layer));
        }
        let mut remarks = Vec::new();
        let mut found = None;
        match of_user(&home.config_file()) {
            Ok(layer) => found = layer,
            Err(error) => remarks.push(format!("a configuration is left out: {error}")),
        }
        // Who works in the folder of the user's file has found that one again.
        let is_users = |path: &PathBuf| *path == file::place_of(&home.config_file());
        if let Some(path) = ProjectFile::find(project).filter(|path| !is_users(path)) {
            match of_project(home, &path) {
                Ok(layer) => found = Some(found.unwrap_or_default().under(layer)),
                Err(remark) => remarks.push(remark),
            }
        }
        // Most often there is no file at all, and nothing to read.
        let in_force = found.map_or_else(Self::shipped, Self::of_layer);
        Ok(Self { remarks: [remarks, in_force.remarks].concat(), ..in_force })
    }

    /// What a text says that was in force once. If it is no configuration (any more), it is what
    /// ships, and remarked.
    pub fn of_text(text: &str) -> Self {
        if text.is_empty() {
            return Self::shipped();
        }
        match Layer::of(text) {
            Ok(layer) => Self::of_layer(layer),
            Err(problem) => Self::broken(&problem),
        }
    }

    /// The same with what was said on the command line.
    #[must_use]
    pub fn with_flags(self, flags: Flags) -> Self {
        if flags == Flags::default() {
            return self;
        }
        // What is in force was written here and can be read.
        let layer = Layer::of(&self.text).unwrap_or_default().under(flags.layer());
        let in_force = Self::of_layer(layer);
        Self { remarks: [self.remarks, in_force.remarks].concat(), ..in_force }
    }

    fn of_layer(layer: Layer) -> Self {
        let text = match layer.text() {
            Ok(text) => text,
            Err(error) => return Self::broken(&error),
        };
        match Config::parse(&text) {
            Ok(config) => Self { config, text, remarks: Vec::new() },
            Err(problem) => Self::broken(&problem),
        }
    }

    fn broken(problem: &dyn std::fmt::Display) -> Self {
        let remark = format!("a configuration is left out: {problem}");
        Self { remarks: vec![remark], ..Self::shipped() }
    }
}

impl Flags {
    fn layer(self) -> Layer {
        let Self { mode, calls, tokens } = self;
        let mut table = Table::new();
        if let Some(mode) = mode {
            let mode = match mode {
                Mode::Live => "live",
                Mode::Shadow => "shadow",
            };
            table.insert("mode".to_owned(), mode.into());
        }
        let mut budget = Table::new();
        for (key, amount) in [("calls", calls), ("tokens", tokens)] {
            if let Some(amount) = amount {
                // More than a file can say is never used up either.
                let amount = i64::try_from(amount.get()).unwrap_or(i64::MAX);
                budget.insert(key.to_owned(), Value::Integer(amount));
            }
        }
        table.insert("budget".to_owned(), Value::Table(budget));
        Layer(table)
    }
}

fn of_user(path: &Path) -> Result<Option<Layer>, ConfigError> {
    let text = file::found(path).map_err(|error| ConfigError::unreadable(path, error))?;
    let invalid = |problem: InvalidConfig| ConfigError::invalid(path, problem);
    text.map(|text| Layer::of(&text).map_err(invalid)).transpose()
}

/// The settings of a project's file, or why it does not count.
fn of_project(home: &DataDir, path: &Path) -> Result<Layer, String> {
    let left_out = |error: &dyn std::fmt::Display| format!("a configuration is left out: {error}");
    let file = ProjectFile::read(path).map_err(|error| left_out(&error))?;
    let trusted = Trusted::read(home)
        .map_err(|error| format!("no project's configuration counts: {error}"))?;
    if !trusted.has(&file) {
        let why = if trusted.knows(&file) {
            "has changed since it was approved"
        } else {
            "is not approved"
        };
        let place = file.path().display().to_string();
        return Err(format!(
            "{place} {why} and is left out; `midcourse trust {}` shows it and asks",
            shell_quote(&place)
        ));
    }
    Layer::of(file.text()).map_err(|problem| left_out(&ConfigError::invalid(path, problem)))
}
