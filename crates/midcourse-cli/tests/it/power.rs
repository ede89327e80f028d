//! A power cut, which no kill can show: what was acknowledged before it is there after it.

use midcourse::{
    Budget, DataDir, Durability, Engine, Store, StoreSettings, SyncedEngine, spill_event,
};

use crate::disk::{CrashState, Disk, Fault, Sample, ack, recorded_root};
use crate::events::{ended, findings, quick, said};

/// Long and different enough that the log is folded a few times.
fn text(n: usize) -> String {
    let noise: Vec<String> =
        (0..900).map(|k| format!("{:x}", (n + 1) * 7_919 * (k + 13))).collect();
    noise.join(" ")
}

fn write(durability: Durability) {
    let Some(root) = recorded_root() else { return };
    let home = DataDir::at(root.join("deep/home"));
    let settings = StoreSettings { durability, ..StoreSettings::default() };
    for n in 0..60 {
        let mut watch = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
        let (run, call) = (if n % 3 == 0 { "a" } else { "b" }, format!("call-{n}"));
        let event = ended(run, &call, &text(n));
        if n % 10 == 7 {
            spill_event(&home, event, &settings).unwrap();
        } else {
            // A fresh process for each event, as far as the store can tell.
            let mut store = Store::open(&home, settings.clone()).unwrap();
            store.ingest_spilled().unwrap();
            store.step(event, &mut watch).unwrap();
        }
        ack(&format!("{run} {call}"));
        if n % 20 == 19 {
            let mut store = Store::open(&home, settings.clone()).unwrap();
            let events = (0..30).map(|k| said("c", &format!("{n}-{k}")));
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

/// What is wrong with the store that a power cut left, given what was acknowledged before it.
fn losses(state: &CrashState, acked: &[String]) -> Vec<String> {
    let folder = state.materialise();
    let home = DataDir::at(folder.path().join("deep/home"));
    let opened = Store::open(&home, quick()).and_then(|mut store| {
        while store.ingest_spilled()? > 0 {}
        Ok(store)
    });
    let store = match opened {
        Ok(store) => store,
        Err(error) => return vec![format!("it does not open: {error}")],
    };
    let mut losses = findings(&store);
    let runs = ["a", "b", "c"].map(|run| (run, store.trajectory(run).unwrap_or_default()));
    for acked in acked {
        let (run, what) = acked.split_once(' ').unwrap();
        let records = &runs.iter().find(|(name, _)| *name == run).unwrap().1;
        let is_there = match what.parse::<usize>() {
            Ok(count) => records.len() >= count,
            Err(_) => {
                records.iter().any(|r| r.payload.call_id().is_some_and(|id| id.as_str() == what))
            }
        };
        if !is_there {
            losses.push(format!("{acked} was acknowledged and is gone"));
        }
    }
    losses
}

fn states(disk: &Disk, count: usize) -> impl Iterator<Item = CrashState> {
    disk.crash_states(Sample::at_most(count).random_states(1), 11)
}

#[test]
fn what_was_acknowledged_survives_a_power_cut() {
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
fn a_second_power_cut_during_the_recovery_changes_nothing() {
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
    let home = DataDir::at(root.join("deep/home"));
    let mut store = Store::open(&home, StoreSettings::default()).unwrap();
    while store.ingest_spilled().unwrap() > 0 {}
    store.append(said("after", "the cut")).unwrap();
}

#[test]
fn without_its_syncs_the_store_would_lose_records() {
    let disk = Disk::new();
    disk.inject(&[Fault::dropped_sync()]);
    disk.run_child("power::write_synced");
    let lost = states(&disk, 60).filter(|state| !losses(state, state.acked()).is_empty()).count();
    assert!(lost > 10, "only {lost} states tell");
}

#[test]
fn normal_durability_may_lose_the_latest_records_but_nothing_else() {
    let disk = Disk::new();
    disk.run_child("power::write_unsynced");
    let (mut lost, mut torn) = (0, Vec::new());
    for state in states(&disk, 100) {
        let losses = losses(&state, state.acked());
        lost += usize::from(!losses.is_empty());
        torn.extend(losses.into_iter().filter(|loss| !loss.ends_with("is gone")));
    }
    assert!(lost > 0, "the setting would cost nothing, and its documentation says it does");
    assert_eq!(torn, [""; 0]);
}
