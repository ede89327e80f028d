//! The labels of runs: what a person says about midcourse's messages and silences.
//!
//! A label has no influence on the records, their hash chain or the engine. A place (a record, or
//! the whole run) has at most one label. Removing a run removes its labels.

use midcourse_core::{RunId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::Store;
use super::append::run_head;
use super::error::StoreError;
use super::settings::StoreSettings;
use crate::label::{Label, LabelVerdict};

/// The seq that stands for the whole run in the table.
const WHOLE_RUN: i64 = -1;

/// Maximum number of characters in a note.
const MAX_NOTE_CHARS: usize = 500;

/// The columns of a label's row that are not ids.
pub(super) struct LabelRow {
    pub(super) seq: i64,
    pub(super) verdict: String,
    pub(super) cause: Option<String>,
    pub(super) call: Option<i64>,
    pub(super) text_hash: Option<Vec<u8>>,
    pub(super) note: Option<String>,
    pub(super) at: i64,
}

impl LabelRow {
    /// The label; `None` if the row is damaged.
    pub(super) fn label(self) -> Option<Label> {
        let unsigned = |value: i64| u64::try_from(value).ok();
        let hash = self.text_hash.map(|hash| blake3::Hash::from_slice(&hash)).transpose().ok()?;
        Some(Label {
            seq: unsigned(self.seq),
            verdict: LabelVerdict::from_name(&self.verdict)?,
            cause: self.cause,
            call: self.call.and_then(unsigned),
            text_hash: hash.map(|hash| hash.to_hex().to_string()),
            note: self.note,
            labelled_at_unix_ms: Timestamp::from_unix_ms(unsigned(self.at)?),
        })
    }
}

impl Store {
    /// Stores a label. It replaces an earlier label of the same place. Secrets in the note are
    /// redacted.
    pub fn set_label(&mut self, run_id: &RunId, label: &Label) -> Result<(), StoreError> {
        let label = prepared(label, &self.settings);
        self.write(|connection| {
            let Some(run) = run_head(connection, run_id.as_str())? else {
                return Err(StoreError::Rejected(format!("the run {run_id} was removed")));
            };
            remove(connection, run.id, label.seq)?;
            insert(connection, run.id, &label)
        })
    }

    /// Removes the label of a record or, without `seq`, of the whole run. Returns whether there was
    /// one.
    pub fn remove_label(&mut self, run_id: &RunId, seq: Option<u64>) -> Result<bool, StoreError> {
        self.write(|connection| match run_head(connection, run_id.as_str())? {
            Some(run) => remove(connection, run.id, seq),
            None => Ok(false),
        })
    }

    /// The labels of a run: that of the whole run first, then in the order of their records.
    pub fn labels(&self, run_id: &RunId) -> Result<Vec<Label>, StoreError> {
        of_run(&self.connection, run_id)
    }

    /// The ids of all runs that have a label, in the order in which the runs started.
    pub fn labelled_runs(&self) -> Result<Vec<RunId>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT run_id FROM runs WHERE id IN (SELECT run FROM labels) ORDER BY started, id",
        )?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
        ids.map(|id| Ok(RunId::from(id?))).collect()
    }
}

pub(super) fn of_run(connection: &Connection, run_id: &RunId) -> Result<Vec<Label>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT labels.seq, verdict, cause, call, text_hash, note, at FROM labels \
         JOIN runs ON runs.id = run WHERE run_id = ?1 ORDER BY labels.seq",
    )?;
    let rows = statement.query_map([run_id.as_str()], label_row)?;
    let rows: Vec<LabelRow> = rows.collect::<Result<_, _>>()?;
    Ok(rows.into_iter().filter_map(LabelRow::label).collect())
}

/// Stores an imported label at the record with this seq, unless the place has a label that is as new.
pub(super) fn import(
    connection: &Connection,
    run: i64,
    seq: u64,
    label: &Label,
    settings: &StoreSettings,
) -> Result<(), StoreError> {
    let seq = label.seq.map(|_| seq);
    insert_newer(connection, run, &Label { seq, ..prepared(label, settings) })
}

/// Stores a label unless the place has one that is as new.
pub(super) fn insert_newer(
    connection: &Connection,
    run: i64,
    label: &Label,
) -> Result<(), StoreError> {
    let known: Option<i64> = connection
        .query_row(
            "SELECT at FROM labels WHERE run = ?1 AND seq = ?2",
            params![run, place(label.seq)],
            |row| row.get(0),
        )
        .optional()?;
    if known.is_some_and(|known| known >= stored_time(label.labelled_at_unix_ms)) {
        return Ok(());
    }
    remove(connection, run, label.seq)?;
    insert(connection, run, label)
}

/// Redacts the notes of a run's labels. Returns the number of secrets.
pub(super) fn redact(
    connection: &Connection,
    run: i64,
    settings: &StoreSettings,
) -> Result<u64, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT id, note FROM labels WHERE run = ?1 AND note IS NOT NULL")?;
    let notes = statement.query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let notes: Vec<(i64, String)> = notes.collect::<Result<_, _>>()?;
    let mut secrets = 0_u64;
    for (id, note) in notes {
        if let Some(redacted) = settings.redaction.redact(&note) {
            secrets = secrets.saturating_add(redacted.count.into());
            connection
                .execute("UPDATE labels SET note = ?2 WHERE id = ?1", params![id, redacted.text])?;
        }
    }
    Ok(secrets)
}

/// Writes a label of a run that has no label at this place.
pub(super) fn insert(connection: &Connection, run: i64, label: &Label) -> Result<(), StoreError> {
    let Label { seq, verdict, cause, call, text_hash, note, labelled_at_unix_ms } = label;
    let hash = text_hash.as_deref().and_then(|hash| blake3::Hash::from_hex(hash).ok());
    connection.execute(
        "INSERT OR IGNORE INTO labels (run, seq, verdict, cause, call, text_hash, note, at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            run,
            place(*seq),
            verdict.as_str(),
            cause,
            call.map(|call| i64::try_from(call).unwrap_or(i64::MAX)),
            hash.map(|hash| hash.as_bytes().to_vec()),
            note,
            stored_time(*labelled_at_unix_ms),
        ],
    )?;
    Ok(())
}

fn remove(connection: &Connection, run: i64, seq: Option<u64>) -> Result<bool, StoreError> {
    let removed = connection
        .execute("DELETE FROM labels WHERE run = ?1 AND seq = ?2", params![run, place(seq)])?;
    Ok(removed > 0)
}

fn place(seq: Option<u64>) -> i64 {
    seq.map_or(WHOLE_RUN, |seq| i64::try_from(seq).unwrap_or(i64::MAX))
}

fn stored_time(at: Timestamp) -> i64 {
    i64::try_from(at.unix_ms()).unwrap_or(i64::MAX)
}

/// The label with its note redacted and shortened.
fn prepared(label: &Label, settings: &StoreSettings) -> Label {
    let note = label.note.as_deref().map(|note| {
        let redacted = settings.redaction.redact(note).map(|redacted| redacted.text);
        let note = redacted.unwrap_or_else(|| note.to_owned());
        note.chars().take(MAX_NOTE_CHARS).collect()
    });
    Label { note, ..label.clone() }
}

fn label_row(row: &Row<'_>) -> rusqlite::Result<LabelRow> {
    Ok(LabelRow {
        seq: row.get(0)?,
        verdict: row.get(1)?,
        cause: row.get(2)?,
        call: row.get(3)?,
        text_hash: row.get(4)?,
        note: row.get(5)?,
        at: row.get(6)?,
    })
}

#[cfg(test)]
mod tests {
    use midcourse_core::{AgentMessage, RunIdentity, TrajectoryPayload};
    use proptest::prelude::*;

    use super::*;
    use crate::{Channel, DataDir, Event, Source};

    fn store(folder: &tempfile::TempDir) -> Store {
        let mut store = Store::open(&DataDir::at(folder.path()), StoreSettings::default()).unwrap();
        for (run, text) in [("a", "one"), ("a", "two"), ("b", "one")] {
            let payload = TrajectoryPayload::MessageAppended { message: AgentMessage::user(text) };
            let source = Source::new("test", Channel::Hook);
            let at = Timestamp::from_unix_ms(1_000);
            store.append(Event::new(RunIdentity::root(run), source, at, payload)).unwrap();
        }
        store
    }

    fn a_label(seq: Option<u64>, verdict: LabelVerdict, at: u64) -> Label {
        let (cause, call) = (seq.map(|_| "doom_loop".to_owned()), seq);
        let text_hash = seq.map(|_| Label::hash_of("stop"));
        let labelled_at_unix_ms = Timestamp::from_unix_ms(at);
        Label { seq, verdict, cause, call, text_hash, note: None, labelled_at_unix_ms }
    }

    #[test]
    fn the_last_label_of_a_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(&folder);
        let (run, other) = (RunId::from("a"), RunId::from("b"));
        let good = a_label(Some(1), LabelVerdict::Good, 2);
        store.set_label(&run, &a_label(Some(1), LabelVerdict::Bad, 9)).unwrap();
        store.set_label(&run, &good).unwrap();
        let whole = a_label(None, LabelVerdict::Bad, 3);
        store.set_label(&run, &whole).unwrap();
        assert_eq!(store.labels(&run).unwrap(), [whole, good.clone()]);
        assert_eq!(store.labels(&other).unwrap(), []);
        assert_eq!(store.labelled_runs().unwrap(), std::slice::from_ref(&run));
        assert!(store.remove_label(&run, None).unwrap());
        assert!(!store.remove_label(&run, None).unwrap());
        assert_eq!(store.labels(&run).unwrap(), [good]);
        assert!(store.set_label(&"c".into(), &a_label(None, LabelVerdict::Good, 1)).is_err());
    }

    #[test]
    fn labels_go_with_their_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(&folder);
        for run in ["a", "b"] {
            store.set_label(&run.into(), &a_label(None, LabelVerdict::Good, 1)).unwrap();
        }
        store.delete_run(&"a".into()).unwrap();
        assert_eq!(store.labelled_runs().unwrap(), ["b".into()]);
        store.delete_all_runs().unwrap();
        let left: i64 = store
            .connection
            .query_row("SELECT count(*) FROM labels", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, 0);
    }

    #[test]
    fn secrets_in_a_note_are_redacted_and_long_notes_cut() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(&folder);
        let secret = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
        let note = Some(format!("saw {secret} {}", "x".repeat(900)));
        let label = Label { note, ..a_label(None, LabelVerdict::Bad, 1) };
        store.set_label(&"a".into(), &label).unwrap();
        let kept = store.labels(&"a".into()).unwrap().remove(0).note.unwrap();
        assert!(!kept.contains(&secret) && kept.starts_with("saw [redacted:"), "{kept}");
        assert_eq!(kept.chars().count(), MAX_NOTE_CHARS);
    }

    #[test]
    fn redacting_a_run_redacts_its_notes() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(&folder);
        store.set_label(&"a".into(), &a_label(None, LabelVerdict::Bad, 1)).unwrap();
        let secret = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
        store.connection.execute("UPDATE labels SET note = ?1", [&secret]).unwrap();
        assert_eq!(store.redact_run(&"a".into()).unwrap().secrets, 1);
        let note = store.labels(&"a".into()).unwrap().remove(0).note.unwrap();
        assert!(note.starts_with("[redacted:"), "{note}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn a_label_changes_no_record_and_no_hash(
            changes in proptest::collection::vec(
                (proptest::option::of(0..3_u64), any::<bool>(), any::<bool>()), 1..6
            )
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut store = store(&folder);
            let run = RunId::from("a");
            let before = (
                store.records("a", 0, 9).unwrap(),
                store.run("a").unwrap(),
                store.head(&run).unwrap(),
            );
            for (seq, is_good, is_removed) in changes {
                let verdict = if is_good { LabelVerdict::Good } else { LabelVerdict::Bad };
                store.set_label(&run, &a_label(seq, verdict, 1)).unwrap();
                if is_removed {
                    prop_assert!(store.remove_label(&run, seq).unwrap());
                }
            }
            let after = (
                store.records("a", 0, 9).unwrap(),
                store.run("a").unwrap(),
                store.head(&run).unwrap(),
            );
            prop_assert_eq!(before, after);
            prop_assert_eq!(store.verify_run(&run).unwrap(), []);
        }
    }
}
