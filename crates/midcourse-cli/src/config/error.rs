//! What is wrong with a file, and where: the line is shown with a mark below the place.

use std::fmt;
use std::path::Path;

/// The most characters of a line that are shown: what is given as a configuration may be anything.
const SHOWN_MAX: usize = 120;

/// A file that is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read at all.
    #[error("{file} cannot be read: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why not.
        error: std::io::Error,
    },
    /// It says something wrong.
    #[error("{file}:{problem}")]
    Invalid {
        /// The file.
        file: String,
        /// Where, and what.
        problem: InvalidConfig,
    },
}

impl ConfigError {
    pub(super) fn unreadable(path: &Path, error: std::io::Error) -> Self {
        Self::Unreadable { file: path.display().to_string(), error }
    }

    pub(super) fn invalid(path: &Path, problem: InvalidConfig) -> Self {
        Self::Invalid { file: path.display().to_string(), problem }
    }
}

/// A text that is no configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct InvalidConfig {
    /// The line, from 1.
    pub line: usize,
    /// The character within the line, from 1.
    pub column: usize,
    /// What is wrong, and what is allowed.
    pub problem: String,
    /// The line, or its beginning.
    shown: String,
    /// How many characters of it are wrong.
    width: usize,
}

impl InvalidConfig {
    pub(super) fn new(text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or_default();
        let before = text.get(..span.start).unwrap_or_default();
        let begins = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let line = text.get(begins..).unwrap_or_default().lines().next().unwrap_or_default();
        let column = before.get(begins..).unwrap_or_default().chars().count().saturating_add(1);
        let wrong = text.get(span).and_then(|wrong| wrong.lines().next()).unwrap_or_default();
        Self {
            line: before.matches('\n').count().saturating_add(1),
            column,
            // People write keys; serde calls them fields.
            problem: error.message().replacen("unknown field", "unknown key", 1),
            shown: line.chars().take(SHOWN_MAX).collect(),
            width: wrong.chars().count().max(1),
        }
    }
}

/// `3:5: what is wrong`, and below it the line with a mark.
impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, problem, shown, width } = self;
        write!(f, "{line}:{column}: {problem}")?;
        let room = shown.chars().count().saturating_add(1);
        if *column > room || shown.is_empty() {
            return Ok(());
        }
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        // A tab stays one, so that the mark stands below its place however wide tabs are.
        let indent: String =
            shown.chars().take(column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
        let mark = "^".repeat((*width).min(room.saturating_sub(*column)).max(1));
        write!(f, "\n{margin} |\n{number} | {shown}\n{margin} | {indent}{mark}")
    }
}
