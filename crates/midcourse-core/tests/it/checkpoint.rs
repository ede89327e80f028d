//! Checkpoints (saved sessions) are small and have a version, and an engine refuses one that it
//! cannot read.

use midcourse_core::{
    Budget, CHECKPOINT_VERSION, Checkpoint, CheckpointError, Engine, parse_notation,
};

use crate::replay::replay;

/// An engine in the middle of a typical run of a coding agent. The run is long enough to fill every
/// list of recent items in the engine.
fn mid_run() -> Engine {
    let mut text = String::from("user: fix the failing tests\ndeadline 2h\n");
    for n in 0..200 {
        text.push_str(&format!(
            "Read {{\"file_path\": \"/home/agent/project/crates/core/src/module_{}/file_{n}.rs\", \
             \"limit\": 200}} -> {n} lines of code that differ from file to file\n",
            n % 9
        ));
        text.push_str(&format!(
            "Bash {{\"command\": \"cargo test -p core --test it -- case_{n} --nocapture 2>&1 | \
             tail -40\", \"description\": \"Run case {n}\"}} !! error: case {n} failed\n"
        ));
        text.push_str(&format!(
            "Edit {{\"file_path\": \"/home/agent/project/crates/core/src/file_{n}.rs\", \
             \"old_string\": \"let value = compute({n});\", \
             \"new_string\": \"let value = compute({n}).unwrap_or_default();\"}} -> ok\n"
        ));
        if n % 40 == 39 {
            text.push_str("4x Bash cargo build !! error: linker failed\n");
        }
    }
    let mut engine = Engine::shipped(Budget::default());
    let messages = replay(&mut engine, &parse_notation(&text).unwrap());
    assert!(messages.len() > 3, "a run without messages would have a small checkpoint");
    engine
}

#[test]
fn the_shipped_configuration_fits_into_nine_kib_in_mid_run() {
    let size = mid_run().checkpoint().unwrap().as_bytes().len();
    assert!(size <= 9 * 1024, "{size} bytes");
}

#[test]
fn a_checkpoint_of_another_version_is_refused_with_a_hint() {
    let mut bytes = mid_run().checkpoint().unwrap().as_bytes().to_vec();
    bytes[0] = CHECKPOINT_VERSION + 1;
    let error = Engine::shipped(Budget::default()).restore(&Checkpoint::from(bytes)).unwrap_err();
    assert_eq!(error, CheckpointError::Version { found: CHECKPOINT_VERSION + 1 });
    assert!(error.to_string().ends_with("fold the records again"), "{error}");
}

#[test]
fn a_damaged_checkpoint_never_causes_a_panic() {
    let bytes = mid_run().checkpoint().unwrap().as_bytes().to_vec();
    let restore = |bytes: Vec<u8>| Engine::shipped(Budget::default()).restore(&bytes.into());
    assert!(restore(Vec::new()).is_err());
    for cut in 0..bytes.len() {
        assert!(restore(bytes[..cut].to_vec()).is_err(), "a checkpoint cut at {cut} was restored");
    }
    for at in 1..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        // A damaged checkpoint may still be readable. Then the steps after it must not panic.
        let mut engine = Engine::shipped(Budget::default());
        if engine.restore(&damaged.into()).is_ok() {
            replay(&mut engine, &parse_notation("2x bash make !! error: x").unwrap());
        }
    }
}
