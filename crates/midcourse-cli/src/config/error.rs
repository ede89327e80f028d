//! Errors in a configuration file. An error shows the line and marks the wrong part of it.

use std::fmt;
use std::path::Path;

/// How many characters of the wrong line an error shows at most. A line may be very long.
const MAX_SHOWN_CHARS: usize = 120;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {file}: {error}")]
    Unreadable { file: String, error: std::io::Error },
    #[error("{file}:{problem}")]
    Invalid { file: String, problem: InvalidConfig },
}

impl ConfigError {
    pub(super) fn unreadable(path: &Path, error: std::io::Error) -> Self {
        Self::Unreadable { file: path.display().to_string(), error }
    }

    pub(super) fn invalid(path: &Path, problem: InvalidConfig) -> Self {
        Self::Invalid { file: path.display().to_string(), problem }
    }
}

/// Text that is not a valid configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct InvalidConfig {
    /// Line number, counted from 1.
    line: usize,
    /// Column in characters, counted from 1.
    column: usize,
    /// What is wrong, and what is allowed instead.
    pub(super) problem: String,
    /// The beginning of the wrong line.
    shown: String,
    /// How many characters to underline, from `column` on.
    width: usize,
}

impl InvalidConfig {
    pub(super) fn new(text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or_default();
        let before = text.get(..span.start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let line = text.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
        let column = before.get(line_start..).unwrap_or_default().chars().count().saturating_add(1);
        let wrong = text.get(span).and_then(|wrong| wrong.lines().next()).unwrap_or_default();
        Self {
            line: before.matches('\n').count().saturating_add(1),
            column,
            // serde's message says "field" where TOML says "key".
            problem: error.message().replacen("unknown field", "unknown key", 1),
            shown: line.chars().take(MAX_SHOWN_CHARS).collect(),
            width: wrong.chars().count().max(1),
        }
    }
}

/// Shows `LINE:COLUMN: error`, then the line with the wrong part marked.
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
        // Keep tabs in the indentation, so that the mark is below the wrong part at any tab width.
        let indent: String =
            shown.chars().take(column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
        let mark = "^".repeat((*width).min(room.saturating_sub(*column)).max(1));
        write!(f, "\n{margin} |\n{number} | {shown}\n{margin} | {indent}{mark}")
    }
}
