//! Checks what ARCHITECTURE.md promises about this crate: which module uses which, and that files are
//! short.

use std::fs;
use std::path::Path;

use tidy::{ModuleGraph, check_files};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn imports_match_the_table_and_have_no_cycles() {
    let graph = ModuleGraph::of_crate(Path::new(CRATE)).unwrap();
    let architecture = fs::read_to_string(Path::new(CRATE).join("../../ARCHITECTURE.md")).unwrap();
    for result in [graph.check_acyclic(), graph.check_table("midcourse-fleet", &architecture)] {
        if let Err(problem) = result {
            panic!("{problem}");
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_own() {
    if let Err(problems) = check_files(Path::new(CRATE), &["src", "tests"]) {
        panic!("{problems}");
    }
}
