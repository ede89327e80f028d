//! `midcourse doctor`: a healthy installation, and faults that it has to find, each with its remedy.

#[path = "doctor/faults.rs"]
mod faults;
#[path = "doctor/user.rs"]
mod user;

use std::fs;

use user::{HOSTS, User};

#[test]
fn a_healthy_installation_has_no_problem() {
    for (host, program, version) in HOSTS {
        let user = User::new();
        user.add_program(program, &format!("echo '{version}'"));
        user.ok(&["install", host]);
        match host {
            "codex" => user.approve_codex_hooks(),
            "gemini" => user.trust_project_in_gemini(),
            _ => {}
        }
        let report = user.doctor();
        report.assert_healthy();
        let trial = report.only(host, "trial");
        assert!(trial.detail.starts_with("3 failing calls gave a message at "), "{trial:?}");
        assert!(trial.detail.contains(" ms (median of "), "{trial:?}");
        let program = report.only(host, "program");
        assert_eq!(program.state, "ok", "{program:?}");
        assert_eq!(report.only(host, "decision-points").state, "ok");
    }
}

#[test]
fn a_store_with_runs_is_healthy_too() {
    let user = User::with_hooks("claude-code");
    user.record_a_run();
    let report = user.doctor();
    report.assert_healthy();
    assert!(report.only("store", "store").detail.starts_with("schema 3, 1 runs, "));
    assert_eq!(report.only("store", "runs").detail, "the latest 1 runs are whole");
}

#[test]
fn nothing_is_changed_and_nothing_is_left_behind() {
    let user = User::with_hooks("claude-code");
    user.record_a_run();
    user.doctor();
    let before = user.files();
    user.doctor().assert_healthy();
    assert_eq!(user.files(), before);
    assert_eq!(fs::read_dir(user.file("tmp")).unwrap().count(), 0, "the scratch folder is removed");
}

#[test]
fn a_user_without_agents_gets_a_note() {
    let user = User::new();
    let report = user.doctor();
    report.assert_healthy();
    assert!(report.only("agents", "program").remedy.contains("midcourse run"));
    assert!(!user.file("data").exists(), "the data directory is not created");
}

#[test]
fn an_agent_without_hooks_is_a_problem_only_if_the_user_named_it() {
    let user = User::new();
    user.add_program("claude", "echo 2.1.325");
    let report = user.doctor();
    report.assert_healthy();
    assert_eq!(report.only("claude-code", "hooks").state, "note");
    let report = user.doctor_of(&["claude-code", "codex"]);
    assert_eq!(report.problems, 2);
    assert_eq!(report.only("codex", "hooks").remedy, "`midcourse install codex`");
    assert!(report.findings.iter().all(|finding| finding.area != "gemini"));
}

#[test]
fn a_version_that_cannot_be_found_is_a_note() {
    for script in ["echo none", "exit 3", "echo 1.0.3"] {
        let user = User::with_hooks("claude-code");
        user.add_program("claude", script);
        let report = user.doctor();
        report.assert_healthy();
        assert_eq!(report.only("claude-code", "program").state, "note", "{script}");
    }
}

#[test]
fn the_text_fits_80_columns_and_has_no_colours_in_a_pipe() {
    let user = User::with_hooks("claude-code");
    user.write("data/midcourse.toml", "mode = 'loud'\n");
    let output = user.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(output.stderr, b"");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("\n1 problem.\n"), "{text}");
    assert!(text.contains("\n  problem  user file: hooks skip the file: "), "{text}");
    assert!(text.contains("\n           → correct "), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    for line in text.lines() {
        // A path or a command is not broken.
        let longest = line.split(' ').map(|word| word.chars().count()).max().unwrap_or_default();
        assert!(line.chars().count() <= 80 || longest > 40, "{line}");
    }
    fs::remove_file(user.file("data/midcourse.toml")).unwrap();
    let output = user.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.ends_with(b"\nNo problems.\n"));
}

#[test]
fn a_wrong_command_line_has_exit_code_2() {
    let user = User::new();
    for wrong in [&["doctor", "unknown-agent"][..], &["doctor", "--nonsense"]] {
        assert_eq!(user.run(wrong).status.code(), Some(2));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn only_a_terminal_gets_colours_unless_the_user_wants_none() {
    let user = User::with_hooks("claude-code");
    let plain = user.on_terminal(&[("NO_COLOR", "1"), ("TERM", "xterm")]);
    let coloured = user.on_terminal(&[("TERM", "xterm")]);
    assert!(plain.contains("  ok       trial: ") && !plain.contains('\u{1b}'), "{plain}");
    assert!(coloured.contains("\u{1b}[32mok      \u{1b}[0m trial: "), "{coloured}");
    assert!(!user.on_terminal(&[("TERM", "dumb")]).contains('\u{1b}'));
}
