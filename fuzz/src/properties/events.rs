//! Lines of the `events` format, with one run each. Parsing never fails; a damaged line keeps what
//! comes before the damage.

use super::{NOW, check_engine, check_stored};
use crate::formats::events::parse_run;

pub(crate) fn check(data: &[u8]) {
    let run = parse_run(data, NOW, 7);
    assert_eq!(run, parse_run(data, NOW, 7), "the line is read in two ways");
    let positions: Vec<usize> = run.events.iter().map(|event| event.position).collect();
    assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    let last = positions.last().copied().unwrap_or_default();
    assert!(last <= positions.len() + run.skipped_events);
    assert!(run.events.iter().all(|event| !event.payloads.is_empty()));

    // A line that is cut off has the same events up to the cut.
    if run.parse_error.is_none() && std::str::from_utf8(data).is_ok() {
        let cut = parse_run(&data[..data.len() / 2], NOW, 7);
        assert!(cut.events.len() <= run.events.len());
    }

    let payloads = run.events.iter().flat_map(|event| &event.payloads);
    payloads.clone().for_each(check_stored);
    check_engine(payloads);

    let records = run.clone().into_records();
    assert_eq!(records, run.into_records());
    assert!(records.iter().all(|record| record.events.iter().all(|event| event.fact.is_some())));
}
