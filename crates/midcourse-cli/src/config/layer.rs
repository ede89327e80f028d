//! Several configurations as one: laid over each other key by key, and written down so that the same
//! settings always read the same.

use toml::{Table, Value};

use super::{Config, InvalidConfig};

/// The settings of one file, or of several.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Layer(pub(super) Table);

impl Layer {
    /// The settings of a text that is a configuration.
    pub(super) fn of(text: &str) -> Result<Self, InvalidConfig> {
        Config::parse(text)?;
        let table = toml::from_str(text).map_err(|error| InvalidConfig::new(text, &error))?;
        Ok(Self(table))
    }

    /// These settings with others laid over them: tables are put together, all else is replaced.
    #[must_use]
    pub(super) fn under(mut self, over: Self) -> Self {
        lay(&mut self.0, over.0);
        self
    }

    /// What is set, in one order and one form; nothing, if nothing is.
    pub(super) fn text(mut self) -> Result<String, toml::ser::Error> {
        drop_empty(&mut self.0);
        toml::to_string(&self.0)
    }
}

fn lay(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(under)), Value::Table(over)) => lay(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

/// A table without keys says nothing.
fn drop_empty(table: &mut Table) {
    table.retain(|_, value| {
        if let Value::Table(inner) = value {
            drop_empty(inner);
            return !inner.is_empty();
        }
        true
    });
}
