//! Checks what ARCHITECTURE.md promises about this crate: which modules use which other modules,
//! which crates it depends on, and how long its files are.

use std::fs;
use std::path::Path;

use tidy::{ModuleGraph, check_files, rust_files};

/// This crate depends on these crates and on no others.
const DEPENDENCIES: [&str; 9] = [
    "compact_str",
    "memchr",
    "minijinja",
    "phf",
    "postcard",
    "serde",
    "serde_json",
    "thiserror",
    "xxhash-rust",
];

/// Code that this crate must not contain, because it would print, start a thread or an async
/// runtime, or use a clock, a file, the environment or the network.
const FORBIDDEN: [&str; 12] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::io",
    "SystemTime",
    "Instant",
    "async fn",
    "tokio",
    "println!",
    "thread_local!",
];

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn imports_match_the_table_and_have_no_cycles() {
    let graph = ModuleGraph::of_crate(Path::new(CRATE)).unwrap();
    let architecture = fs::read_to_string(Path::new(CRATE).join("../../ARCHITECTURE.md")).unwrap();
    for result in [graph.check_acyclic(), graph.check_table("midcourse-core", &architecture)] {
        if let Err(problem) = result {
            panic!("{problem}");
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_own() {
    let folders = ["src", "tests", "benches", "examples"];
    if let Err(problems) = check_files(Path::new(CRATE), &folders) {
        panic!("{problems}");
    }
}

#[test]
fn the_core_depends_on_few_crates() {
    let manifest = fs::read_to_string(Path::new(CRATE).join("Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let mut names: Vec<&str> = section
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    assert_eq!(names, DEPENDENCIES);
}

#[test]
fn the_core_touches_no_clock_disk_network_or_runtime() {
    for file in rust_files(&Path::new(CRATE).join("src")).unwrap() {
        for word in FORBIDDEN {
            let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let found: Vec<_> = code.filter(|line| line.contains(word)).collect();
            assert!(found.is_empty(), "{} uses {word}: {found:?}", file.path);
        }
    }
}
