//! `midcourse search`: finds calls and messages by the words in them.

use std::io::Write as _;

use anstyle::AnsiColor;
use anyhow::Result;
use midcourse::{SearchFilter, SearchHit, SearchWords};
use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use super::open;
use super::run_filter::RunFilterArguments;
use super::screen::{Painter, Screen, ScreenArguments};
use super::source::StoreArguments;
use crate::display::{
    describe_entry, escape_control_chars, json_line, local_minute, one_line, rfc3339,
};
use crate::terminal::eprint_line;

/// The length of an excerpt in JSON, and if there is no terminal.
const EXCERPT_CHARS: usize = 160;

/// The shortest excerpt, however narrow the terminal is.
const MIN_EXCERPT_CHARS: usize = 40;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Find calls and messages that contain all of these words.
    #[arg(required = true)]
    words: Vec<String>,
    #[command(flatten)]
    runs: RunFilterArguments,
    /// Search only this run (id, start or end of id, or `latest`).
    #[arg(long)]
    run: Option<String>,
    /// Only calls that failed or were refused.
    #[arg(long)]
    errors: bool,
    /// Only calls of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Show at most N results.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    count: usize,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    screen: ScreenArguments,
}

/// Searches, prints what was found, and returns true if there is anything.
pub(super) fn run(arguments: &Arguments) -> Result<bool> {
    let mut source = arguments.store.open()?;
    let run_id = match &arguments.run {
        Some(run) => Some(source.find_run(run)?.run_id),
        None => None,
    };
    let filter = SearchFilter {
        runs: arguments.runs.filter()?,
        run_id,
        errors: arguments.errors,
        tool: arguments.tool.clone(),
    };
    let text = arguments.words.join(" ");
    let words = SearchWords::of(&text);
    let (hits, findings) = source.search(&text, &filter, arguments.count)?;
    let mut screen = Screen::direct(&arguments.screen);
    for hit in &hits {
        match arguments.json {
            true => writeln!(screen, "{}", json_line(&hit_json(hit, &words)))?,
            false => print_hit(&mut screen, hit, &words)?,
        }
    }
    screen.finish()?;
    open::report_damage(&findings)?;
    if hits.is_empty() && !arguments.json {
        eprint_line("Nothing found.");
    }
    Ok(!hits.is_empty())
}

fn hit_json(hit: &SearchHit, words: &SearchWords) -> serde_json::Value {
    let record = &hit.entry.record;
    json!({
        "type": "hit", "run_id": hit.run_id, "seq": hit.seq, "at": rfc3339(record.at),
        "host": record.source.host(), "kind": record.kind(), "failed": hit.entry.failed(),
        "excerpt": words.excerpt(&hit.line, EXCERPT_CHARS),
    })
}

/// Prints a hit: where and what it is, and if that leaves too little space, the excerpt on a line of
/// its own.
fn print_hit(screen: &mut Screen, hit: &SearchHit, words: &SearchWords) -> Result<()> {
    let painter = screen.painter;
    let place = format!("{}:{}", one_line(hit.run_id.as_str(), 80), hit.seq);
    let described = describe_entry(&hit.entry, |seq| seq);
    let time = local_minute(hit.entry.record.at, true);
    let start_width = place.width() + 2 + time.len() + 2 + described.label.len() + 2;
    let room = screen.width.map_or(EXCERPT_CHARS, |width| width.saturating_sub(start_width));
    write!(
        screen,
        "{}  {time}  {}",
        painter.coloured(AnsiColor::Yellow, &place),
        painter.tone(described.tone, described.label),
    )?;
    let line = escape_control_chars(&hit.line).replace('\t', " ");
    let excerpt = match room >= MIN_EXCERPT_CHARS {
        true => {
            write!(screen, "  ")?;
            words.excerpt(&line, room)
        }
        false => {
            write!(screen, "\n    ")?;
            let room = screen.width.unwrap_or(EXCERPT_CHARS).saturating_sub(4);
            words.excerpt(&line, room.max(MIN_EXCERPT_CHARS / 2))
        }
    };
    writeln!(screen, "{}", highlighted(&excerpt, words, painter))?;
    Ok(())
}

/// The text with the search words in another colour.
fn highlighted(text: &str, words: &SearchWords, painter: Painter) -> String {
    let (mut painted, mut from) = (String::new(), 0);
    for place in words.places(text) {
        painted.push_str(text.get(from..place.start).unwrap_or_default());
        from = place.end;
        painted.push_str(&painter.found(text.get(place).unwrap_or_default()));
    }
    painted.push_str(text.get(from..).unwrap_or_default());
    painted
}
