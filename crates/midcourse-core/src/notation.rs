//! A text notation for trajectories, so that a test, a page or a bug report is a few readable
//! lines.
//!
//! ```text
//! # a comment
//! user: make the tests pass
//! read a.rs                     -> 120 lines        a call and its result
//! bash make                     !! error: no rule   a call that failed
//! bash rm -rf /                 xx not allowed      a call that was refused
//! bash sleep 60                 ..                  a call that has not ended
//! & read b.rs                   -> 80 lines         in the same turn as the call before
//! +2m bash make                 -> built            two minutes after the line before
//! ~30s bash make                -> built            a call that takes half a minute
//! 3x bash make                  !! error: no rule   three times the same line
//! 2x {                                              two times the lines up to the brace
//! }
//! edit {"path": "a.rs", "old": "x", "new": "y"} -> ok
//! bash cat notes                -> "two\nlines"
//! assistant: done
//! deadline 2h                                       from now; `deadline none` lifts it
//! file report.md                                    a file appeared
//! prompt second                                     the run works on another prompt
//! turn                                              a turn begins
//! compaction
//! resume
//! end completed
//! ```
//!
//! A shell tool's words are its `command`, any other tool's its `path`, and arguments that begin
//! with a brace are JSON. Text in double quotes is a JSON string. Without `+`, a line is one second
//! after the one before.

mod parse;
mod write;

pub use parse::{NotationError, parse_notation, parse_notation_events};
pub use write::write_notation;

use serde_json::{Map, Value};

use crate::time::Timestamp;

/// When every written trajectory begins: 2026-01-01, midnight UTC.
const BEGINNING: Timestamp = Timestamp::from_unix_ms(1_767_225_600_000);

/// The time from one line to the next, in milliseconds.
const STEP_MS: u64 = 1_000;

/// What stands between a call and how it ended.
const MARKS: [(&str, Ending); 4] =
    [("->", Ending::Result), ("!!", Ending::Error), ("xx", Ending::Refused), ("..", Ending::Open)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Result,
    Error,
    Refused,
    Open,
}

/// The argument that plain words are for this tool.
fn plain_key(tool: &str) -> &'static str {
    match tool {
        "bash" | "Bash" | "sh" | "shell" | "exec" => "command",
        _ => "path",
    }
}

fn plain_args(tool: &str, words: &str) -> Value {
    let mut args = Map::new();
    if !words.is_empty() {
        args.insert(plain_key(tool).to_owned(), Value::String(words.to_owned()));
    }
    Value::Object(args)
}
