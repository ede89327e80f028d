//! The notation of trajectories: what is parsed can be written, and parses again to the same run.

use midcourse::{parse_notation, parse_notation_events, write_notation};

use super::{check_engine, check_stored};

/// Repetitions up to this product are tried. The parser itself allows a million lines, which would
/// only make the fuzzer slow.
const MAX_REPEATS: usize = 500;

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if repeats(text) > MAX_REPEATS {
        return;
    }
    let records = match parse_notation(text) {
        Ok(records) => records,
        Err(error) => {
            assert!(error.line >= 1 && error.line <= text.lines().count(), "{error}");
            assert!(!error.problem.is_empty());
            assert_eq!(parse_notation(text), Err(error));
            return;
        }
    };
    let grouped = parse_notation_events(text).unwrap();
    assert!(grouped.iter().all(|group| !group.is_empty()));
    assert!(grouped.into_iter().flatten().eq(records.iter().cloned()));
    assert!((0..).zip(&records).all(|(seq, record)| record.seq == seq));
    assert!(records.is_sorted_by_key(|record| record.at()));

    let written = write_notation(&records);
    let read = parse_notation(&written).unwrap_or_else(|error| panic!("{error}: {written:?}"));
    assert_eq!(read, records, "{written:?} from {text:?}");
    records.iter().for_each(|record| check_stored(&record.payload));
    check_engine(records.iter().map(|record| &record.payload));
}

/// The product of all numbers before an `x`: an upper limit for the factor of repetitions.
fn repeats(text: &str) -> usize {
    let numbers = text.split_whitespace().filter_map(|word| word.strip_suffix('x'));
    let numbers = numbers.filter_map(|number| number.parse::<usize>().ok());
    numbers.fold(1, |product, number| product.saturating_mul(number.max(1)))
}
