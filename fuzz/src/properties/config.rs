//! Configuration files: a valid file gives a working engine and one canonical text; the error about
//! an invalid one points into the file.

use std::sync::LazyLock;

use midcourse::{DecisionPoint, TrajectoryRecord, parse_notation};

use crate::config::{Config, Layer};

static RUN: LazyLock<Vec<TrajectoryRecord>> = LazyLock::new(|| {
    let run = "user: go\ndeadline 10m\n8x bash make !! error: no rule\n3x read a.rs -> x\n\
               +6m bash ls -> a\n3x edit b.rs -> ok\n+5m assistant: done\nend completed\n";
    parse_notation(run).unwrap()
});

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let config = Config::parse(text);
    assert_eq!(config, Config::parse(text));
    let layer = Layer::parse(text);
    match (config, layer) {
        (Ok(config), Ok(layer)) => check_valid(&config, &layer),
        (Err(error), Err(same)) => {
            assert_eq!(error, same);
            check_error(text, &error.to_string());
        }
        (config, layer) => panic!("{config:?} but {layer:?}"),
    }
}

fn check_valid(config: &Config, layer: &Layer) {
    // The text is recorded with the run, and a replay parses it again.
    let text = layer.clone().text().expect("settings can be written");
    let read = Layer::parse(&text).unwrap_or_else(|error| panic!("{error}\nin {text}"));
    assert_eq!(Config::parse(&text).as_ref(), Ok(config), "{text}");
    assert_eq!(read.text().unwrap(), text, "the text is not canonical");
    let merged = layer.clone().overlaid_with(layer.clone());
    assert_eq!(merged.text().unwrap(), text, "a file over itself changes something");
    let merged = Layer::default().overlaid_with(layer.clone());
    assert_eq!(merged.text().unwrap(), text);

    let mut engine = config.engine();
    for record in RUN.iter() {
        let step = engine.step(record, Some(DecisionPoint::PreToolSelection));
        assert!(step.faults.is_empty(), "{:?}", step.faults);
    }
}

/// An error begins with `LINE:COLUMN: ` and shows the line that it is about.
fn check_error(text: &str, error: &str) {
    let mut parts = error.splitn(3, ':');
    let mut number = || parts.next().unwrap().parse::<usize>().unwrap();
    let (line, column) = (number(), number());
    assert!(line >= 1 && line <= text.split('\n').count(), "{error}");
    assert!(column >= 1, "{error}");
    assert!(parts.next().is_some_and(|problem| !problem.trim().is_empty()), "{error}");
}
