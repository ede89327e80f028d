//! Checks what ARCHITECTURE.md promises about this crate: which module uses which, that only one
//! file reads the clock, and that files are short.

use std::fs;
use std::path::Path;

use tidy::{ModuleGraph, check_files, rust_files};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn imports_match_the_table_and_have_no_cycles() {
    let graph = ModuleGraph::of_crate(Path::new(CRATE)).unwrap();
    let architecture = fs::read_to_string(Path::new(CRATE).join("../../ARCHITECTURE.md")).unwrap();
    for result in [graph.check_acyclic(), graph.check_table("midcourse", &architecture)] {
        if let Err(problem) = result {
            panic!("{problem}");
        }
    }
}

#[test]
fn only_one_file_reads_the_clock() {
    for file in rust_files(&Path::new(CRATE).join("src")).unwrap() {
        let is_clock = file.path == "clock.rs";
        assert!(is_clock || !file.text.contains("SystemTime"), "{} uses SystemTime", file.path);
    }
}

#[test]
fn files_are_short_and_say_what_they_own() {
    if let Err(problems) = check_files(Path::new(CRATE), &["src", "tests", "examples"]) {
        panic!("{problems}");
    }
}
