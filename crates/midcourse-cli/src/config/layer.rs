//! Settings as a TOML table. Tables can be merged key by key, and are written in one canonical
//! form, so that equal settings have equal text. This text is recorded with the run.

use std::path::Path;

use toml::{Table, Value};

use super::{Config, ConfigError, InvalidConfig, file};

/// The settings of one file, or of several files merged. The keys and values of each file were
/// checked when it was parsed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Layer(pub(super) Table);

impl Layer {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidConfig> {
        Config::parse(text)?;
        let table = toml::from_str(text).map_err(|error| InvalidConfig::new(text, &error))?;
        Ok(Self(table))
    }

    /// Reads and checks a file that the user named on the command line.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = file::read_named(path).map_err(|error| ConfigError::unreadable(path, error))?;
        Self::parse(&text).map_err(|problem| ConfigError::invalid(path, problem))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Merges the keys of `over` into these settings. Tables are merged; other values are replaced.
    #[must_use]
    pub(crate) fn overlaid_with(mut self, over: Self) -> Self {
        merge(&mut self.0, over.0);
        self
    }

    /// Writes the settings as TOML. Equal settings give equal text; the text is empty if no key is
    /// set.
    pub(crate) fn text(mut self) -> Result<String, toml::ser::Error> {
        remove_empty_tables(&mut self.0);
        toml::to_string(&self.0)
    }
}

fn merge(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(table)), Value::Table(over)) => merge(table, over),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

fn remove_empty_tables(table: &mut Table) {
    table.retain(|_, value| {
        if let Value::Table(inner) = value {
            remove_empty_tables(inner);
            return !inner.is_empty();
        }
        true
    });
}
