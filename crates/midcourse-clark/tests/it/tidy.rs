//! Checks that modules of this crate have no import cycles, and that files are short.

use std::path::Path;

use tidy::{ModuleGraph, check_files};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn modules_never_use_each_other_in_a_circle() {
    let graph = ModuleGraph::of_crate(Path::new(CRATE)).unwrap();
    assert_eq!(graph.check_acyclic(), Ok(()));
}

#[test]
fn files_are_short_and_say_what_they_own() {
    assert_eq!(check_files(Path::new(CRATE), &["src", "tests", "examples"]), Ok(()));
}
