//! A text notation for runs, so that tests, documentation and bug reports can show a run in a few
//! readable lines. The input of `midcourse replay` can be in this notation, and scenario files
//! contain runs in it. In the example, the text at the right explains the line and is not part of
//! the notation.
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
//! deadline 2h                                       from now; `deadline none` removes it
//! file report.md                                    a file was created
//! prompt second                                     the run switches to another prompt
//! turn                                              a turn begins
//! compaction
//! resume
//! end completed
//! ```
//!
//! After the name of a tool, plain text is its argument: `command` for a shell tool, `path` for any
//! other tool. Text that begins with a brace is all its arguments as JSON. A result, message, path
//! or name in double quotes is a JSON string; in a plain argument, quotes have no special meaning.
//! Without `+`, a line happens one second after the line before.

mod parse;
mod write;

pub use parse::{NotationError, parse_notation, parse_notation_events};
pub use write::write_notation;

use serde_json::{Map, Value};

use crate::time::Timestamp;

/// The time that the parser gives to the first record: 2026-01-01, midnight UTC.
const START_TIME: Timestamp = Timestamp::from_unix_ms(1_767_225_600_000);

/// The time from one line to the next if the next line has no `+`, in milliseconds.
const STEP_MS: u64 = 1_000;

/// The marks between a call and its result, each with what it says about the end of the call. The
/// parser relies on every mark having two bytes.
const MARKS: [(&str, Ending); 4] =
    [("->", Ending::Result), ("!!", Ending::Error), ("xx", Ending::Refused), ("..", Ending::Open)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Result,
    Error,
    Refused,
    Open,
}

/// The name of the argument that plain text after a tool's name stands for: `bash make` is a call
/// of `bash` with `make` as its `command`.
fn plain_key(tool: &str) -> &'static str {
    match tool {
        "bash" | "Bash" | "sh" | "shell" | "exec" => "command",
        _ => "path",
    }
}

fn plain_args(tool: &str, text: &str) -> Value {
    let mut args = Map::new();
    if !text.is_empty() {
        args.insert(plain_key(tool).to_owned(), Value::String(text.to_owned()));
    }
    Value::Object(args)
}
