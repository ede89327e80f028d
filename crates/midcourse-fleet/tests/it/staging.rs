//! What a hostile writer can send: batches in SQL, without the crate's own shipper.

use postgres::Client;
use postgres::error::SqlState;

/// The time of the first events.
pub(crate) const STARTED: i64 = 1_790_000_000_000;

/// A part of a run, as it is staged. Every field can be a lie.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    pub(crate) n: i32,
    pub(crate) run: String,
    pub(crate) started: i64,
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// The seqs of the records that are staged.
    pub(crate) seqs: Vec<i64>,
    /// SQL for the links before the part and after it.
    pub(crate) from_link: String,
    pub(crate) link: String,
    /// SQL for the header.
    pub(crate) header: String,
    pub(crate) words: String,
}

/// SQL for the link of a run after this many records.
pub(crate) fn link(run: &str, records: i64) -> String {
    format!("sha256(convert_to('{run} {records}', 'UTF8'))")
}

/// SQL for the hashes of words (FNV-1a), as the table `words` has them.
pub(crate) fn words(words: &[&str]) -> String {
    let hash = |word: &&str| {
        let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        word.bytes().fold(0x811c_9dc5, step).cast_signed().to_string()
    };
    format!("'{{{}}}'::int4[]", words.iter().map(hash).collect::<Vec<_>>().join(","))
}

/// SQL for the header of a run. `more` are further fields of the summary, in JSON.
pub(crate) fn header(run: &str, records: i64, link: &str, more: &str) -> String {
    format!(
        "jsonb_build_object('summary', '{{\"host\": \"h\", \"started\": {STARTED}, \
         \"latest\": {STARTED}, \"calls\": 0, \"errors\": 0, \"deliveries\": 0, \
         \"shadow_deliveries\": 0, \"cleared\": 0, \"ignored\": 0, \
         \"findings\": {{\"trouble\": null, \"patterns\": {{}}}}}}'::jsonb || '{more}'::jsonb \
         || jsonb_build_object('run_id', '{run}', 'records', {records}), 'depth', 0, \
         'open_calls', 0, 'reports', 0, 'has_summary', false, 'responded', false, \
         'link', encode({link}, 'hex'))"
    )
}

impl Staged {
    /// The records `from..to` of a run, with nothing wrong.
    pub(crate) fn new(run: &str, from: i64, to: i64) -> Self {
        Self {
            n: 0,
            run: run.to_owned(),
            started: STARTED,
            from,
            to,
            seqs: (from..to).collect(),
            from_link: link(run, from),
            link: link(run, to),
            header: header(run, to, &link(run, to), "{}"),
            words: words(&["word"]),
        }
    }

    /// The statements that stage the part.
    pub(crate) fn sql(&self) -> String {
        let Self { n, run, started, from, to, from_link, link: last, header, words, .. } = self;
        let mut sql = format!(
            "INSERT INTO pg_temp.staged_runs VALUES ({n}, '{run}', {started}, 'full', {from}, 0, \
             {from_link}, {to}, 0, {last}, {header}, {words}, NULL);"
        );
        for seq in &self.seqs {
            let link = if *seq == to - 1 { last.clone() } else { link(run, seq + 1) };
            sql += &record(*n, *seq, &link, "'{\"kind\":\"turn_started\"}'");
        }
        sql
    }
}

/// The statement that stages one record.
pub(crate) fn record(n: i32, seq: i64, link: &str, payload: &str) -> String {
    format!(
        "INSERT INTO pg_temp.staged_records VALUES ({n}, {seq}, {STARTED}, 1, 0, NULL, 0, \
         'turn_started', NULL, 'h', 'hook', NULL, {link}, {payload}, NULL, NULL, NULL);"
    )
}

/// The run id and the status of each run of a batch.
pub(crate) type Statuses = Vec<(String, String)>;

/// Stages with these statements, and has the server take the batch.
pub(crate) fn ship(client: &mut Client, sql: &str) -> Result<Statuses, String> {
    let text = |error: postgres::Error| match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => format!("{error:?}"),
    };
    let mut transaction = client.transaction().map_err(text)?;
    transaction.batch_execute(sql).map_err(text)?;
    let rows = transaction
        .query("SELECT run_id, status FROM midcourse.ship('p', 'store')", &[])
        .map_err(text)?;
    transaction.commit().map_err(text)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Like [`ship`], for one run. Returns its status.
pub(crate) fn ship_one(client: &mut Client, staged: &Staged) -> Result<String, String> {
    ship(client, &staged.sql()).map(|statuses| statuses[0].1.clone())
}

/// Fails unless the server denies the statement.
#[track_caller]
pub(crate) fn denied(client: &mut Client, sql: &str) {
    let error = client.batch_execute(sql).err();
    let code = error.as_ref().and_then(|error| error.code());
    assert_eq!(code, Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{sql}: {error:?}");
    client.batch_execute("ROLLBACK").unwrap();
}
