//! Checks what ARCHITECTURE.md promises about this crate: which module uses which, that the modules
//! `hosts` and `apis` do no I/O, which modules may print, and how long files are.

use std::fs;
use std::path::Path;

use tidy::{ModuleGraph, SourceFile, check_files, rust_files};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Modules that must not use each other. Code that needs two of them is in other modules.
const INDEPENDENT: [&str; 4] = ["apis", "config", "formats", "hosts"];

fn sources() -> Vec<SourceFile> {
    rust_files(&Path::new(CRATE).join("src")).unwrap()
}

/// Whether a file belongs to one of these top-level modules.
fn is_in(file: &SourceFile, modules: &[&str]) -> bool {
    let top = file.path.split('/').next().unwrap_or_default();
    modules.contains(&top.trim_end_matches(".rs"))
}

#[test]
fn imports_match_the_table_and_have_no_cycles() {
    let graph = ModuleGraph::of_crate(Path::new(CRATE)).unwrap();
    let architecture = fs::read_to_string(Path::new(CRATE).join("../../ARCHITECTURE.md")).unwrap();
    for result in [graph.check_acyclic(), graph.check_table("midcourse-cli", &architecture)] {
        if let Err(problem) = result {
            panic!("{problem}");
        }
    }
}

#[test]
fn hosts_apis_formats_and_configuration_do_not_use_each_other() {
    let graph = ModuleGraph::of_crate(Path::new(CRATE)).unwrap();
    for module in INDEPENDENT {
        let used: Vec<_> =
            graph.imports_of(module).filter(|used| INDEPENDENT.contains(used)).collect();
        assert!(used.is_empty(), "{module} uses {used:?}");
    }
}

#[test]
fn decoding_and_encoding_do_no_io() {
    // Installing hooks needs some: `app_server.rs` asks `codex app-server` for the hashes of hooks,
    // and the other two extend settings of the user.
    let installs =
        ["hosts/codex/app_server.rs", "hosts/settings_file.rs", "hosts/opencode/install.rs"];
    for file in sources().iter().filter(|file| is_in(file, &["hosts", "apis"])) {
        if file.path.contains("tests") || installs.contains(&file.path.as_str()) {
            continue;
        }
        for word in ["std::fs", "std::env", "std::io", "std::time", "std::process"] {
            assert!(!file.text.contains(word), "{} uses {word}", file.path);
        }
    }
}

#[test]
fn only_commands_and_the_proxy_print() {
    let may_print = ["commands", "proxy", "terminal"];
    for file in sources().iter().filter(|file| !is_in(file, &may_print)) {
        for word in ["clap::", "anyhow::", "indicatif::", "comfy_table::", "println!"] {
            assert!(!file.text.contains(word), "{} uses {word}", file.path);
        }
    }
}

#[test]
fn only_the_library_reads_the_clock() {
    for file in sources() {
        assert!(!file.text.contains("SystemTime"), "{} uses SystemTime", file.path);
    }
}

#[test]
fn files_are_short_and_say_what_they_own() {
    if let Err(problems) = check_files(Path::new(CRATE), &["src", "tests", "benches"]) {
        panic!("{problems}");
    }
}
