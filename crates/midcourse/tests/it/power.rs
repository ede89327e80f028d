//! After a power cut no acknowledged event is missing. The writing process acknowledges an event
//! with a line (`ack`) as soon as the event is in the store, or in the spill folder from which the
//! store takes it later.
//!
//! Killing the process would not test the syncs, because the kernel still writes the unsynced data
//! of a killed process. So the process runs on a simulated disk.

use midcourse::{
    Budget, DataDir, Durability, Engine, Store, StoreSettings, SyncedEngine, spill_event,
};

use simulated_disk::{CrashState, Disk, Fault, Sample, ack, recorded_root};

use crate::events::{findings, test_settings, tool_ended, user_message};

/// A text so long, and so hard to compress, that a few of them fill SQLite's write-ahead log and
/// SQLite moves the log into the database file during the test.
fn text(n: usize) -> String {
    let noise: Vec<String> =
        (0..900).map(|k| format!("{:x}", (n + 1) * 7_919 * (k + 13))).collect();
    noise.join(" ")
}

fn write(durability: Durability) {
    let Some(root) = recorded_root() else { return };
    let data_dir = DataDir::at(root.join("deep/home"));
    let settings = StoreSettings { durability, ..StoreSettings::default() };
    for n in 0..60 {
        let mut engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
        let (run, call) = (if n % 3 == 0 { "a" } else { "b" }, format!("call-{n}"));
        let event = tool_ended(run, &call, &text(n));
        if n % 10 == 7 {
            spill_event(&data_dir, event, &settings).unwrap();
        } else {
            // Opens the store for each event, as a hook process does.
            let mut store = Store::open(&data_dir, settings.clone()).unwrap();
            store.ingest_spilled().unwrap();
            store.step(event, &mut engine).unwrap();
        }
        ack(&format!("{run} {call}"));
        if n % 20 == 19 {
            let mut store = Store::open(&data_dir, settings.clone()).unwrap();
            let events = (0..30).map(|k| user_message("c", &format!("{n}-{k}")));
            store.append_all(events).unwrap();
            ack(&format!("c {}", (n / 20 + 1) * 30));
        }
    }
}

#[test]
#[ignore = "runs as a recorded process"]
fn write_synced() {
    write(Durability::Full);
}

#[test]
#[ignore = "runs as a recorded process"]
fn write_unsynced() {
    write(Durability::Normal);
}

/// Describes what is wrong with the store after a power cut. `acked` has a line for each event that
/// must be stored (run and call id), and one for each batch (run, and how many records the run must
/// have after the batch).
fn losses(state: &CrashState, acked: &[String]) -> Vec<String> {
    let folder = state.materialise();
    let data_dir = DataDir::at(folder.path().join("deep/home"));
    let opened = Store::open(&data_dir, test_settings()).and_then(|mut store| {
        while store.ingest_spilled()? > 0 {}
        Ok(store)
    });
    let store = match opened {
        Ok(store) => store,
        Err(error) => return vec![format!("the store does not open: {error}")],
    };
    let mut losses = findings(&store);
    let runs = ["a", "b", "c"].map(|run| (run, store.trajectory(run).unwrap_or_default()));
    for acked in acked {
        let (run, call_or_count) = acked.split_once(' ').unwrap();
        let records = &runs.iter().find(|(name, _)| *name == run).unwrap().1;
        let is_there = match call_or_count.parse::<usize>() {
            Ok(count) => records.len() >= count,
            Err(_) => records
                .iter()
                .any(|r| r.payload.call_id().is_some_and(|id| id.as_str() == call_or_count)),
        };
        if !is_there {
            losses.push(format!("{acked} was acknowledged and is missing"));
        }
    }
    losses
}

fn states(disk: &Disk, count: usize) -> impl Iterator<Item = CrashState> {
    disk.crash_states(Sample::at_most(count).random_states(1), 11)
}

#[test]
fn every_acknowledged_record_survives_a_power_cut() {
    let disk = Disk::new();
    disk.run_child("power::write_synced");
    let mut count = 0;
    for state in states(&disk, 150) {
        let losses = losses(&state, state.acked());
        assert!(losses.is_empty(), "{losses:?}: {state}");
        count += 1;
    }
    assert!(count >= 300, "{count}");
}

#[test]
fn acknowledged_records_survive_a_second_power_cut_during_recovery() {
    let disk = Disk::new();
    disk.run_child("power::write_synced");
    for state in states(&disk, 300).step_by(90) {
        let again = Disk::after(&state);
        again.run_child("power::recover");
        for second in again.crash_states(Sample::at_most(8), 3) {
            let losses = losses(&second, state.acked());
            assert!(losses.is_empty(), "{losses:?}: {state} then {second}");
        }
    }
}

#[test]
#[ignore = "runs as a recorded process"]
fn recover() {
    let Some(root) = recorded_root() else { return };
    let data_dir = DataDir::at(root.join("deep/home"));
    let mut store = Store::open(&data_dir, StoreSettings::default()).unwrap();
    while store.ingest_spilled().unwrap() > 0 {}
    store.append(user_message("after", "the cut")).unwrap();
}

#[test]
fn without_syncs_the_store_loses_records() {
    let disk = Disk::new();
    disk.inject(&[Fault::dropped_sync()]);
    disk.run_child("power::write_synced");
    let lost = states(&disk, 60).filter(|state| !losses(state, state.acked()).is_empty()).count();
    assert!(lost > 10, "only {lost} states lost a record");
}

#[test]
fn normal_durability_can_lose_only_the_latest_records() {
    let disk = Disk::new();
    disk.run_child("power::write_unsynced");
    let (mut lost, mut damages) = (0, Vec::new());
    for state in states(&disk, 100) {
        let losses = losses(&state, state.acked());
        lost += usize::from(!losses.is_empty());
        damages.extend(losses.into_iter().filter(|loss| !loss.ends_with("is missing")));
    }
    assert!(
        lost > 0,
        "no record was lost, although the documentation of the setting says that records can be"
    );
    assert_eq!(damages, [""; 0]);
}
