//! Sums over all runs of a period, from their rows: no records are read, except those of messages.

use std::collections::BTreeMap;

use midcourse_core::{Engine, Timestamp, Usage};
use rusqlite::types::ToSql;
use rusqlite::{Row, params_from_iter};

use super::Store;
use super::error::StoreError;
use super::read::unsigned;
use super::runs::{OUTCOME, RunSummary};

/// Which runs a sum is about: those of a period, of a host, in a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period {
    /// The runs have a record at this time or later.
    pub since: Timestamp,
    /// The runs started before this time.
    pub until: Timestamp,
    /// The name of the host; `None` for all hosts.
    pub host: Option<String>,
    /// Only runs in this folder or below it; `None` for all folders. A subagent belongs to the folder
    /// of the run that started it.
    pub project: Option<String>,
}

/// The runs of a period by outcome, without subagents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeriodRuns {
    /// How many runs ended with each outcome; `None` for runs without a recorded end.
    pub outcomes: BTreeMap<Option<String>, u64>,
}

impl PeriodRuns {
    /// The number of runs, without subagents.
    pub fn count(&self) -> u64 {
        self.outcomes.values().sum()
    }
}

/// Sums over the runs of a period. Times are in milliseconds and without those of subagents, which
/// work at the same time as their parents; everything else includes subagents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeriodTotals {
    /// The number of subagents.
    pub subagents: u64,
    /// The time from the first to the latest record of each run.
    pub time_ms: u64,
    /// The number of tool calls.
    pub calls: u64,
    /// The number of tool calls that failed or were refused.
    pub errors: u64,
    /// The number of messages that were shown to an agent.
    pub deliveries: u64,
    /// The number of messages that were only recorded, in shadow mode or by an experiment.
    pub shadow_deliveries: u64,
    /// The number of runs, with subagents, in which the engine found a pattern.
    pub with_trouble: u64,
    /// The time after the first pattern of each run.
    pub time_after_trouble_ms: u64,
    /// The number of tool calls after the first pattern of each run.
    pub calls_after_trouble: u64,
    /// The number of runs, with subagents, that no engine of this release has analysed.
    pub not_analysed: u64,
}

/// How often a pattern was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternCount {
    /// The name of the pattern.
    pub pattern: String,
    /// How often it was found.
    pub count: u64,
    /// In how many runs.
    pub runs: u64,
}

/// Tokens and cost of the runs with one model in one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeriodUsage {
    /// The model; `None` if it is unknown.
    pub model: Option<String>,
    /// The folder of the project; `None` if it is unknown.
    pub folder: Option<String>,
    /// The number of runs, with subagents.
    pub runs: u64,
    /// The sum of the costs that hosts reported, in millionths of a US dollar.
    pub reported_micro_usd: u64,
    /// The tokens of the runs without a reported cost.
    pub unpriced: Usage,
    /// The tokens of all runs.
    pub tokens: Usage,
}

/// Messages of one provider about one pattern, and what became of the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageCounts {
    /// What the messages are about, such as `doom_loop`; `None` if it is unknown.
    pub pattern: Option<String>,
    /// The provider of the messages.
    pub provider: String,
    /// The number of messages that were shown to an agent.
    pub shown: u64,
    /// The number of messages that were only recorded, in shadow mode or by an experiment.
    pub shadow: u64,
    /// How often the problem went away. Messages that an experiment withheld do not count here and
    /// in the next two.
    pub cleared: u64,
    /// How often the problem was still there.
    pub ignored: u64,
    /// How often the run ended first.
    pub run_ended: u64,
}

/// The rows of the runs in the period, as a table for the queries below. Its parameters are those of
/// [`Period::parameters`].
fn period() -> String {
    format!(
        "WITH period AS (SELECT id, runs.run_id, parent_run_id IS NULL AS is_root, started, latest, \
         {OUTCOME} AS how, calls, errors, deliveries, shadow_deliveries, engine, trouble_at, \
         trouble_calls, patterns, model, input_tokens, output_tokens, cache_write_tokens, \
         cache_read_tokens, cost, coalesce(folder, (SELECT parent.folder FROM runs AS parents JOIN \
         summaries AS parent ON parent.run = parents.id WHERE parents.run_id = runs.parent_run_id)) \
         AS project FROM runs LEFT JOIN summaries ON summaries.run = runs.id \
         WHERE latest >= ?1 AND started < ?2 AND (?3 IS NULL OR host = ?3)), \
         wanted AS (SELECT * FROM period WHERE ?4 IS NULL OR project = ?4 \
         OR substr(project, 1, length(?4) + 1) = ?4 || '/') "
    )
}

impl Period {
    fn parameters(&self) -> [Box<dyn ToSql>; 4] {
        let ms = |at: Timestamp| i64::try_from(at.unix_ms()).unwrap_or(i64::MAX);
        let project = self.project.as_ref().map(|project| project.trim_end_matches('/').to_owned());
        [
            Box::new(ms(self.since)),
            Box::new(ms(self.until)),
            Box::new(self.host.clone()),
            Box::new(project),
        ]
    }
}

impl Store {
    fn query_period<T>(
        &self,
        period_: &Period,
        query: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut find = self.connection.prepare_cached(&format!("{}{query}", period()))?;
        let found = find.query_map(params_from_iter(period_.parameters()), read)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The number of runs in a period, without subagents. Quick, unless the period names a project.
    pub fn period_count(&self, period: &Period) -> Result<u64, StoreError> {
        if period.project.is_some() {
            return Ok(self.period_runs(period)?.count());
        }
        let [since, until, host, _] = period.parameters();
        let mut count = self.connection.prepare_cached(
            "SELECT count(*) FROM runs WHERE latest >= ?1 AND started < ?2 \
             AND (?3 IS NULL OR host = ?3) AND parent_run_id IS NULL",
        )?;
        Ok(count.query_row(params_from_iter([since, until, host]), |row| unsigned(row, 0))?)
    }

    /// How the runs of a period ended.
    pub fn period_runs(&self, period: &Period) -> Result<PeriodRuns, StoreError> {
        let query = "SELECT how, count(*) FROM wanted WHERE is_root GROUP BY how";
        let found = self.query_period(period, query, |row| Ok((row.get(0)?, unsigned(row, 1)?)))?;
        Ok(PeriodRuns { outcomes: found.into_iter().collect() })
    }

    /// Sums over the runs of a period.
    pub fn period_totals(&self, period: &Period) -> Result<PeriodTotals, StoreError> {
        let query = format!(
            "SELECT coalesce(sum(NOT is_root), 0), \
             coalesce(sum(CASE WHEN is_root THEN latest - started END), 0), \
             coalesce(sum(calls), 0), coalesce(sum(errors), 0), coalesce(sum(deliveries), 0), \
             coalesce(sum(shadow_deliveries), 0), count(trouble_at), \
             coalesce(sum(CASE WHEN is_root THEN max(0, latest - trouble_at) END), 0), \
             coalesce(sum(max(0, calls - trouble_calls)), 0), \
             coalesce(sum(engine IS NOT {}), 0) FROM wanted",
            Engine::VERSION
        );
        let found = self.query_period(period, &query, |row| {
            Ok(PeriodTotals {
                subagents: unsigned(row, 0)?,
                time_ms: unsigned(row, 1)?,
                calls: unsigned(row, 2)?,
                errors: unsigned(row, 3)?,
                deliveries: unsigned(row, 4)?,
                shadow_deliveries: unsigned(row, 5)?,
                with_trouble: unsigned(row, 6)?,
                time_after_trouble_ms: unsigned(row, 7)?,
                calls_after_trouble: unsigned(row, 8)?,
                not_analysed: unsigned(row, 9)?,
            })
        })?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// How often each pattern was found in the runs of a period, the most frequent first.
    pub fn period_patterns(&self, period: &Period) -> Result<Vec<PatternCount>, StoreError> {
        let query = "SELECT found.key, sum(found.value), count(*) FROM wanted, \
                     json_each(wanted.patterns) AS found \
                     WHERE patterns IS NOT NULL AND json_valid(patterns) \
                     GROUP BY found.key ORDER BY 2 DESC, 1";
        self.query_period(period, query, |row| {
            let (pattern, count, runs) = (row.get(0)?, unsigned(row, 1)?, unsigned(row, 2)?);
            Ok(PatternCount { pattern, count, runs })
        })
    }

    /// Tokens and cost of the runs of a period, by model and project.
    pub fn period_usage(&self, period: &Period) -> Result<Vec<PeriodUsage>, StoreError> {
        let sum = |column: &str| format!("coalesce(sum({column}), 0)");
        let unpriced =
            |column: &str| format!("coalesce(sum(CASE WHEN cost IS NULL THEN {column} END), 0)");
        let columns = ["input_tokens", "output_tokens", "cache_write_tokens", "cache_read_tokens"];
        let query = format!(
            "SELECT model, project, count(*), {}, {}, {} FROM wanted GROUP BY model, project",
            sum("cost"),
            columns.map(sum).join(", "),
            columns.map(unpriced).join(", ")
        );
        self.query_period(period, &query, |row| {
            let usage = |from: usize| -> rusqlite::Result<Usage> {
                let column = |offset: usize| row.get(from.saturating_add(offset));
                Ok(Usage {
                    input_tokens: column(0)?,
                    output_tokens: column(1)?,
                    cache_creation_input_tokens: column(2)?,
                    cache_read_input_tokens: column(3)?,
                    is_estimate: false,
                })
            };
            Ok(PeriodUsage {
                model: row.get(0)?,
                folder: row.get(1)?,
                runs: unsigned(row, 2)?,
                reported_micro_usd: unsigned(row, 3)?,
                tokens: usage(4)?,
                unpriced: usage(8)?,
            })
        })
    }

    /// The messages in the runs of a period by pattern and provider, the most frequent first.
    pub fn period_messages(&self, period: &Period) -> Result<Vec<MessageCounts>, StoreError> {
        // Only runs with messages are searched for them, which are few.
        let query = "SELECT coalesce(json_extract(said.payload, '$.guidance.injection.why.cause'), \
             json_extract(said.payload, '$.feedback.why.cause')) AS cause, \
             coalesce(json_extract(said.payload, '$.guidance.provider_name'), \
             json_extract(said.payload, '$.feedback.provider_name'), '') AS provider, \
             coalesce(json_extract(said.payload, '$.shadow'), 0) AS is_shadow, \
             coalesce(json_extract(said.payload, '$.assignment') = 'withheld', 0) AS is_withheld, \
             (SELECT json_extract(after.payload, '$.verdict') FROM records AS after \
             WHERE after.run = said.run AND after.seq > said.seq AND after.kind = 'outcome' \
             AND json_valid(after.payload) \
             AND json_extract(after.payload, '$.delivery_seq') = said.seq LIMIT 1) AS verdict, \
             count(*) FROM wanted JOIN records AS said ON said.run = wanted.id \
             WHERE wanted.deliveries + coalesce(wanted.shadow_deliveries, 0) > 0 \
             AND said.kind IN ('feedback_delivered', 'guidance_delivered') \
             AND json_valid(said.payload) GROUP BY 1, 2, 3, 4, 5";
        let rows = self.query_period(period, query, |row| {
            let cause: Option<String> = row.get(0)?;
            let pattern = cause.map(|cause| match cause.rsplit_once(':') {
                Some((kind, _)) => kind.to_owned(),
                None => cause,
            });
            let provider: String = row.get(1)?;
            let (is_shadow, is_withheld): (bool, bool) = (row.get(2)?, row.get(3)?);
            // What became of the problem after a withheld message says nothing about messages.
            let verdict = row.get::<_, Option<String>>(4)?.filter(|_| !is_withheld);
            Ok((pattern, provider, is_shadow || is_withheld, verdict, unsigned(row, 5)?))
        })?;
        let mut sums: BTreeMap<(Option<String>, String), MessageCounts> = BTreeMap::new();
        for (pattern, provider, is_shadow, verdict, count) in rows {
            let key = (pattern.clone(), provider.clone());
            let sum = sums.entry(key).or_insert_with(|| MessageCounts {
                pattern,
                provider,
                shown: 0,
                shadow: 0,
                cleared: 0,
                ignored: 0,
                run_ended: 0,
            });
            *(if is_shadow { &mut sum.shadow } else { &mut sum.shown }) += count;
            match verdict.as_deref() {
                Some("cleared") => sum.cleared += count,
                Some("ignored") => sum.ignored += count,
                Some("run_ended") => sum.run_ended += count,
                _ => {}
            }
        }
        let mut sums: Vec<MessageCounts> = sums.into_values().collect();
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.shown.saturating_add(sum.shadow)));
        Ok(sums)
    }

    /// Up to `count` runs of a period that are worth a look, without subagents: those with the most
    /// calls after the first pattern, then those that failed.
    pub fn period_worst(
        &self,
        period: &Period,
        count: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let query = format!(
            "SELECT run_id FROM wanted WHERE is_root AND (trouble_at IS NOT NULL \
             OR how IS NULL OR how NOT IN ('completed', 'unknown')) \
             ORDER BY coalesce(calls - trouble_calls, -1) DESC, errors DESC, started DESC LIMIT {count}"
        );
        let ids = self.query_period(period, &query, |row| row.get::<_, String>(0))?;
        let mut runs = Vec::new();
        for id in ids {
            runs.extend(self.run(&id)?);
        }
        Ok(runs)
    }
}
