//! Lines that a shell prints at the start of every result, such as a warning of its start-up files.
//!
//! A result that succeeded shows that these lines are not an error. They are left out of the results
//! that fail, so that different failures do not count as the same error because of them.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// How many lines are remembered.
const MAX_LINES: usize = 2;

/// A longer line is content. A shorter one may begin different results by chance.
const MAX_LINE_BYTES: usize = 240;
const MIN_LINE_BYTES: usize = 16;

/// The first lines of the latest command that succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Preamble([Option<Digest>; MAX_LINES]);

impl Preamble {
    /// Remembers the first lines of a result that succeeded; returns the result.
    pub(super) fn learn<'a>(&mut self, output: &'a str) -> &'a str {
        if output.trim().is_empty() {
            return output;
        }
        let mut lines = output.split_inclusive('\n');
        self.0 = [(); MAX_LINES].map(|()| digest_of(lines.next()?));
        output
    }

    /// The result of a call that failed, without the lines at its start that the latest success had,
    /// too; empty if it has no other lines.
    pub(super) fn strip<'a>(&self, output: &'a str) -> &'a str {
        let mut rest = output;
        for known in self.0 {
            let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            if known.is_none() || digest_of(line) != known {
                break;
            }
            rest = after;
        }
        if rest.trim().is_empty() { "" } else { rest }
    }
}

fn digest_of(line: &str) -> Option<Digest> {
    let line = line.trim_end();
    (MIN_LINE_BYTES..=MAX_LINE_BYTES).contains(&line.len()).then(|| Digest::of(line.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISE: &str = "brew.sh: line 60: cannot create temp file";

    #[test]
    fn lines_that_a_success_has_too_are_not_the_error() {
        let mut preamble = Preamble::default();
        preamble.learn(&format!("{NOISE}\nsrc lib docs\n"));
        let failed = format!("{NOISE}\nsed: a.ts: No such file or directory\n");
        assert_eq!(preamble.strip(&failed), "sed: a.ts: No such file or directory\n");
    }

    #[test]
    fn an_error_that_no_success_begins_with_stays() {
        let mut preamble = Preamble::default();
        preamble.learn("src lib docs and more\n");
        let failed = "sed: a.ts: No such file or directory\n";
        assert_eq!(preamble.strip(failed), failed);
    }
}
