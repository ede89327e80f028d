//! Several writers of one run.

use midcourse::{Budget, DataDir, Engine, Store, SyncedEngine};

use crate::events::{findings, test_settings, tool_ended};

/// `step` evaluates an event before it begins the transaction that stores the event. If another
/// writer has added records to the run meanwhile, `step` must evaluate the event again.
#[test]
fn concurrent_steps_on_one_run_are_serialised() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Store::open(&DataDir::at(folder.path().join("home")), test_settings()).unwrap();
    drop(open());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                let mut engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
                let mut store = open();
                for n in 0..60 {
                    let call = format!("{writer}-{n}");
                    store.step(tool_ended("r", &call, "error: no rule"), &mut engine).unwrap();
                }
            });
        }
    });
    let store = open();
    assert_eq!(findings(&store), [""; 0]);
    let records = store.trajectory("r").unwrap();
    assert_eq!(store.run("r").unwrap().unwrap().calls, 240);
    let mut engine = Engine::shipped(Budget::default());
    records.iter().for_each(|record| engine.fold(record));
    let (folded, saved) = store.checkpoint("r").unwrap().unwrap();
    assert_eq!(folded, records.len() as u64);
    assert!(engine.checkpoint().unwrap() == saved, "the checkpoint equals the fold of the records");
}
