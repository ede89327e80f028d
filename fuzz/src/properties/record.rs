//! Lines with one record each, as `midcourse record` and `midcourse import` read them.

use midcourse::{
    Channel, DecisionPoint, RunId, Source, TRAJECTORY_SCHEMA_VERSION, TrajectoryRecord,
};

use super::{NOW, check_events};
use crate::formats::records::{LineDefaults, parse_line};

pub(crate) fn check(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else { return };
    let defaults = LineDefaults {
        run_id: None,
        source: Source::new("custom", Channel::Library),
        at: NOW,
        schema_version: TRAJECTORY_SCHEMA_VERSION,
        decision_point: Some(DecisionPoint::PreToolSelection),
    };
    let Ok(record) = parse_line(line, &defaults) else {
        assert!(parse_line(line, &defaults).is_err());
        return;
    };
    assert_eq!(parse_line(line, &defaults).ok().as_ref(), Some(&record));
    assert!(!record.events.is_empty());
    check_events(&record.events);

    // With a default run, the line is still of the run that it names.
    let other = LineDefaults { run_id: Some(RunId::from("other")), ..defaults.clone() };
    assert_eq!(parse_line(line, &other).ok().as_ref(), Some(&record));

    // What is written as a record is read as the same event.
    for event in &record.events {
        let mut written = TrajectoryRecord::new(7, event.at, event.payload.clone());
        written = written.in_run(&event.run);
        let written = serde_json::to_string(&written).unwrap();
        let read = parse_line(&written, &defaults)
            .unwrap_or_else(|error| panic!("cannot be read: {error}: {written}"));
        assert_eq!(read.events[0].payload, event.payload, "{written}");
        assert_eq!(read.events[0].run.run_id, event.run.run_id);
        assert_eq!((read.seq, read.events[0].at), (Some(7), event.at));
    }
}
