//! Adds the commit to the output of `midcourse --version`, if this is built from a git checkout, and
//! says what is missing if a static binary cannot be linked.

use std::path::Path;
use std::process::Command;

fn main() {
    check_static_library();
    let release = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = is_checkout().then(|| git(&["rev-parse", "--short=9", "HEAD"])).flatten();
    let version = commit.map_or(release.clone(), |commit| format!("{release} ({commit})"));
    println!("cargo:rustc-env=MIDCOURSE_VERSION={version}");
    // The file of the log changes with every commit and every switch to another branch. A file that
    // does not exist would make cargo run this again each time.
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]);
    match log.filter(|log| Path::new(log).is_file()) {
        Some(log) => println!("cargo:rerun-if-changed={log}"),
        None => println!("cargo:rerun-if-changed=build.rs"),
    }
}

/// Some Linux distributions have the static C library in a package of its own. Without it, the
/// linker's message would not say what to do.
fn check_static_library() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let is_static = variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|it| it == "crt-static");
    let is_host = variable("TARGET") == variable("HOST");
    if !is_static || !is_host || variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return;
    }
    let found = output("cc", &["-print-file-name=libc.a"]);
    // The compiler repeats the name if it does not find the file.
    assert!(
        found.is_none_or(|found| found != "libc.a"),
        "the static C library (libc.a) is missing. Install it (Fedora: glibc-static), or set \
         RUSTFLAGS=-Ctarget-feature=-crt-static for a binary that starts more slowly",
    );
}

/// Whether this source is a checkout of its own. A copy of the source may lie in somebody else's
/// repository, whose commits mean nothing here.
fn is_checkout() -> bool {
    let this = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let root = git(&["rev-parse", "--show-toplevel"]);
    this.is_some_and(|this| root.is_some_and(|root| Path::new(&root) == this))
}

fn git(arguments: &[&str]) -> Option<String> {
    output("git", arguments)
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
