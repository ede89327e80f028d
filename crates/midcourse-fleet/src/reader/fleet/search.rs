//! Which runs may contain some words.

use std::collections::HashSet;

use midcourse::{RunFilter, RunId};
use postgres::Transaction;

use super::lists::{Filter, condition};
use crate::error::FleetError;
use crate::words::Words;

/// How many parts of runs are looked up at once.
const PAGE: i32 = 200;

/// Up to `count` runs that may contain all the words, those that started last first, without the first
/// `skip` ones.
pub(super) fn runs_with_words(
    transaction: &mut Transaction<'_>,
    project: i32,
    words: &str,
    filter: &RunFilter,
    skip: usize,
    count: usize,
) -> Result<Vec<RunId>, FleetError> {
    let wanted = Words::of(words);
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let filter = Filter::new(project, filter);
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut before: (Option<String>, i64, i64) = (None, i64::MAX, i64::MAX);
    let enough = skip.saturating_add(count);
    while found.len() < enough {
        let parts = transaction.query(
            "SELECT day::text, run, first_seq FROM \
             midcourse.parts_with($1, $2, $3::text::date, $4, $5, NULL, $6)",
            &[&project, &wanted, &before.0, &before.1, &before.2, &PAGE],
        )?;
        let Some(last) = parts.last() else { break };
        before = (last.get(0), last.get(1), last.get(2));
        let runs: Vec<i64> = parts
            .iter()
            .map(|part| part.get::<_, i64>(1))
            .filter(|run| seen.insert(*run))
            .collect();
        let rows = transaction.query(
            &format!(
                "SELECT r.run_id FROM unnest($7::bigint[]) WITH ORDINALITY AS wanted (run, place) \
                 JOIN midcourse.runs AS r ON r.run = wanted.run WHERE {} ORDER BY place",
                condition("r")
            ),
            &filter.and(&[&runs]),
        )?;
        found.extend(rows.iter().map(|row| RunId::from(row.get::<_, String>(0))));
        if i32::try_from(parts.len()).is_ok_and(|count| count < PAGE) {
            break;
        }
    }
    Ok(found.into_iter().skip(skip).take(count).collect())
}
