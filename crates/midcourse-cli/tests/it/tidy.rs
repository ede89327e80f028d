//! Keeps true what the architecture promises: who may import whom, and how long files are.

use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 500;

/// These know nothing of each other; the command puts them together.
const APART: [&str; 5] = ["apis", "hosts", "formats", "store", "config"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

#[test]
fn parts_that_are_apart_stay_apart() {
    for part in APART {
        let folder = root().join("src").join(part);
        let file = folder.with_extension("rs");
        if !file.exists() {
            continue;
        }
        let mut files = if folder.exists() { sources(&folder) } else { Vec::new() };
        files.push((file.clone(), fs::read_to_string(&file).unwrap()));
        for (path, text) in files {
            for other in APART.iter().filter(|other| **other != part) {
                let import = format!("crate::{other}");
                assert!(!text.contains(&import), "{} imports {other}", path.display());
            }
        }
    }
}

/// A host or an API is bytes on one side and events on the other: it needs nothing else of this
/// crate but what a tool's answer looks like.
#[test]
fn hosts_and_apis_know_events_and_the_core() {
    let mut files = Vec::new();
    for part in ["src/hosts", "src/apis"] {
        let folder = root().join(part);
        files.extend(sources(&folder));
        let file = folder.with_extension("rs");
        files.push((file.clone(), fs::read_to_string(&file).unwrap()));
    }
    for (path, text) in files {
        // `pub(in crate::hosts)` is no import, and the app server of Codex is a process.
        let is_test =
            path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        if is_test || path.ends_with("app_server.rs") {
            continue;
        }
        for import in text.split("crate::").skip(1) {
            let known = ["blocks::", "hosts)", "apis)"];
            let is_known = known.iter().any(|known| import.starts_with(known));
            assert!(is_known, "{}: crate::{import:.20}", path.display());
        }
        for word in ["std::fs", "std::env", "std::io", "std::time", "std::process"] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

#[test]
fn what_a_person_sees_is_made_in_the_command_alone() {
    for (path, text) in sources(&root().join("src")) {
        let inside = path.strip_prefix(root().join("src")).unwrap();
        let is_command = ["commands", "commands.rs", "proxy.rs", "proxy"]
            .iter()
            .any(|part| inside.starts_with(part));
        for word in ["clap::", "anyhow::", "indicatif::", "comfy_table::", " println!"] {
            let is_there = text.contains(word);
            assert!(!is_there || is_command, "{}: {word}", path.display());
        }
    }
}

#[test]
fn the_clock_is_asked_in_one_place() {
    for (path, text) in sources(&root().join("src")) {
        let is_clock = path.ends_with("clock.rs");
        assert!(is_clock || !text.contains("SystemTime"), "{}", path.display());
    }
}

#[test]
fn files_are_short_and_say_what_they_own() {
    for folder in ["src", "tests", "benches"] {
        for (path, text) in sources(&root().join(folder)) {
            let lines = text.lines().count();
            assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
            assert!(text.starts_with("//!"), "{} has no header", path.display());
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let vague = ["utils", "helpers", "common", "manager", "service", "misc", "mod"];
            assert!(!vague.contains(&stem), "{}", path.display());
        }
    }
}
