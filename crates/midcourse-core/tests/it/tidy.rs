//! Keeps true what the architecture promises: what the core may depend on, and how long files are.

use std::fs;
use std::path::{Path, PathBuf};

/// The core is pure: these and nothing else.
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

/// What would make it impure.
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

const LINES_MAX: usize = 500;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    rust_files(&root().join(folder), &mut files);
    assert!(!files.is_empty());
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_core_depends_on_little() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
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
    for (path, text) in sources("src") {
        for word in FORBIDDEN {
            let found = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let found: Vec<_> = found.filter(|line| line.contains(word)).collect();
            assert!(found.is_empty(), "{} uses {word}: {found:?}", path.display());
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_own() {
    for folder in ["src", "tests", "benches", "examples"] {
        for (path, text) in sources(folder) {
            let lines = text.lines().count();
            assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
            assert!(text.starts_with("//!"), "{} has no header", path.display());
        }
    }
}

#[test]
fn every_file_has_a_name_that_says_something() {
    for (path, _) in sources("src") {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let vague = ["utils", "helpers", "common", "manager", "service", "misc", "mod"];
        assert!(!vague.contains(&stem), "{}", path.display());
    }
}
