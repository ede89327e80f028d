//! Planted faults: each is found, and the remedy is named.

use std::fs;

use midcourse::{DataDir, GapReason, Store, StoreSettings, TrajectoryPayload};
use serde_json::json;

use super::user::{Found, User};
use crate::events::user_message;

const SETTINGS: &str = ".claude/settings.json";
const PROGRAM: &str = env!("CARGO_BIN_EXE_midcourse");
const INSTALL: &str = "`midcourse install claude-code`";

fn assert_found(found: &Found, area: &str, check: &str, detail: &str, remedy: &str) {
    assert_eq!((found.area.as_str(), found.check.as_str()), (area, check), "{found:?}");
    assert!(found.detail.contains(detail), "{found:?}");
    assert!(found.remedy.contains(remedy), "{found:?}");
}

#[test]
fn the_program_in_the_command_does_not_exist() {
    let user = User::with_hooks("claude-code");
    user.replace(SETTINGS, PROGRAM, "/no/such/midcourse");
    let problem = user.doctor().only_problem();
    assert_found(&problem, "claude-code", "command", "/no/such/midcourse, which does", INSTALL);
}

#[test]
fn the_program_in_the_command_is_not_executable() {
    let user = User::with_hooks("claude-code");
    user.write("old/midcourse", "");
    let program = user.file("old/midcourse").display().to_string();
    user.replace(SETTINGS, &format!("exec {PROGRAM}"), &format!("exec '{program}'"));
    let problem = user.doctor().only_problem();
    assert_found(&problem, "claude-code", "command", "is not executable", "`chmod +x '");
}

#[test]
fn all_hooks_are_switched_off() {
    for file in [SETTINGS, "project/.claude/settings.json", "project/.claude/settings.local.json"] {
        let user = User::with_hooks("claude-code");
        if !user.file(file).exists() {
            user.write(file, "{}");
        }
        user.edit(file, |settings| settings["disableAllHooks"] = true.into());
        let problem = user.doctor().only_problem();
        let remedy = format!("remove `disableAllHooks` from {}", user.file(file).display());
        assert_found(&problem, "claude-code", "switches", "runs no hooks", &remedy);
    }
}

#[test]
fn hooks_are_switched_off_in_other_agents() {
    let user = User::with_hooks("codex");
    user.approve_codex_hooks();
    let config = fs::read_to_string(user.file(".codex/config.toml")).unwrap();
    user.write(".codex/config.toml", &format!("[features]\nhooks = false\n{config}"));
    let problem = user.doctor().only_problem();
    assert_found(&problem, "codex", "switches", "features.hooks = false", "config.toml");

    let user = User::with_hooks("gemini");
    user.trust_project_in_gemini();
    user.edit(".gemini/settings.json", |it| it["hooksConfig"] = json!({"disabled": ["midcourse"]}));
    let problem = user.doctor().only_problem();
    assert_found(&problem, "gemini", "switches", "hooksConfig.disabled", "settings.json");
}

#[test]
fn an_event_has_no_hook() {
    let user = User::with_hooks("claude-code");
    user.edit(SETTINGS, |settings| {
        settings["hooks"].as_object_mut().unwrap().remove("PostToolBatch");
    });
    let report = user.doctor();
    let problem = report.only_problem();
    assert_found(&problem, "claude-code", "hooks", "for PostToolBatch", INSTALL);
    let points = report.only("claude-code", "decision-points");
    assert!(points.detail.ends_with("not before the agent chooses a tool"), "{points:?}");
    assert_eq!(report.only("claude-code", "trial").state, "ok", "the other hooks work");
}

#[test]
fn an_event_has_two_hooks() {
    let user = User::with_hooks("claude-code");
    user.edit(SETTINGS, |settings| {
        let stop = settings["hooks"]["Stop"][0].clone();
        settings["hooks"]["Stop"].as_array_mut().unwrap().push(stop);
    });
    let report = user.doctor();
    assert_eq!(report.problems, 0);
    let found = report.only("claude-code", "duplicates");
    assert_found(&found, "claude-code", "duplicates", "for Stop", INSTALL);
}

#[test]
fn the_data_directory_cannot_be_written() {
    let user = User::with_hooks("claude-code");
    user.write("file", "");
    let home = user.file("data").display().to_string();
    let other = user.file("file/data").display().to_string();
    user.replace(SETTINGS, &format!("--home '{home}'"), &format!("--home '{other}'"));
    let report = user.doctor();
    let problems: Vec<_> = report.findings.iter().filter(|it| it.state == "problem").collect();
    assert_found(problems[0], "store", "data-directory", &other, "MIDCOURSE_HOME");
    let elsewhere = report.only("claude-code", "data-directory");
    assert_found(&elsewhere, "claude-code", "data-directory", "does not show these runs", INSTALL);
}

#[test]
fn the_configuration_is_broken() {
    let user = User::with_hooks("claude-code");
    user.write("data/midcourse.toml", "[budget]\ncals = 5\n");
    let problem = user.doctor().only_problem();
    let remedy = format!("correct {}", user.file("data/midcourse.toml").display());
    assert_found(
        &problem,
        "configuration",
        "user-file",
        "midcourse.toml:2:1: unknown key",
        &remedy,
    );
}

#[test]
fn the_settings_are_not_valid_json() {
    let user = User::with_hooks("claude-code");
    let text = fs::read_to_string(user.file(SETTINGS)).unwrap();
    for (broken, why) in [
        (text.trim_end().trim_end_matches('}').to_owned(), "not valid JSON"),
        (format!("// mine\n{text}"), "contains a comment"),
    ] {
        user.write(SETTINGS, &broken);
        let problem = user.doctor().only_problem();
        assert_found(&problem, "claude-code", "settings", why, "correct the file");
        assert!(problem.remedy.contains(INSTALL), "{problem:?}");
    }
}

#[test]
fn a_time_limit_has_the_wrong_unit() {
    let user = User::with_hooks("gemini");
    user.trust_project_in_gemini();
    user.replace(".gemini/settings.json", "10000", "10");
    let problem = user.doctor().only_problem();
    let remedy = "`midcourse install gemini`";
    assert_found(&problem, "gemini", "timeout", "only 10 milliseconds (7 of 7", remedy);

    let user = User::with_hooks("claude-code");
    user.replace(SETTINGS, "\"timeout\": 10", "\"timeout\": 10000");
    let report = user.doctor();
    assert_eq!(report.problems, 0);
    let found = report.only("claude-code", "timeout");
    assert_found(&found, "claude-code", "timeout", "waits up to 10000 seconds", INSTALL);
    assert_eq!(found.state, "warning");
}

#[test]
fn the_timeout_of_the_hooks_is_longer_than_the_agent_waits() {
    let user = User::with_hooks("claude-code");
    user.replace(SETTINGS, "--timeout-ms 2500", "--timeout-ms 60000");
    let problem = user.doctor().only_problem();
    let remedy = format!("`unset MIDCOURSE_HOOK_TIMEOUT_MS`, then {INSTALL}");
    assert_found(&problem, "claude-code", "timeout", "may need 60250 ms", &remedy);
}

#[test]
fn events_wait_in_the_spill_folder() {
    let user = User::with_hooks("claude-code");
    user.write("data/spill/000000000000001-x.json", "{}");
    user.write("data/spill/000000000000002-y.unread", "{}");
    let report = user.doctor();
    assert_eq!(report.problems, 0);
    let found: Vec<_> = report.findings.iter().filter(|it| it.check == "spill").collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_found(found[0], "store", "spill", "1 events wait in ", "`midcourse list`");
    assert_found(found[1], "store", "spill", "1 files in ", "`hook.log`");
    assert!(user.file("data/spill/000000000000001-x.json").exists(), "nothing is taken in");
}

#[test]
fn the_store_is_damaged() {
    let user = User::with_hooks("claude-code");
    user.record_a_run();
    let store = rusqlite::Connection::open(user.file("data/store.db")).unwrap();
    store.execute_batch("UPDATE records SET payload = X'00' WHERE seq = 1").unwrap();
    drop(store);
    let problem = user.doctor().only_problem();
    assert_found(&problem, "store", "runs", "such as: s1", "`midcourse verify`");
    assert!(problem.remedy.contains("`midcourse repair`"), "{problem:?}");

    for rest in ["data/store.db-wal", "data/store.db-shm"] {
        let _ = fs::remove_file(user.file(rest));
    }
    user.write("data/store.db", &"no database ".repeat(500));
    let problem = user.doctor().only_problem();
    assert_found(&problem, "store", "store", "the store is damaged", "`midcourse repair`");
}

#[test]
fn a_wrapper_swallows_the_output() {
    let user = User::with_hooks("claude-code");
    user.add_script("wrapper/midcourse", &format!("'{PROGRAM}' \"$@\" > /dev/null"));
    let wrapper = user.file("wrapper/midcourse").display().to_string();
    user.replace(SETTINGS, &format!("exec {PROGRAM}"), &format!("exec '{wrapper}'"));
    let report = user.doctor();
    let problem = report.only_problem();
    let detail = "6 failing calls were recorded, but no message came out";
    assert_found(&problem, "claude-code", "trial", detail, "pass on the output of midcourse");
    assert_eq!(report.only("claude-code", "command").state, "warning", "it has no version");
}

#[test]
fn hooks_fail_or_print_something_else() {
    for (lines, detail) in [
        ("exit 2", "ended with exit code 2"),
        ("echo oops >&2", "printed an error: oops"),
        ("echo '{\"systemMessage\": \"hello\"}'", "a hook printed: {\"systemMessage\""),
    ] {
        let user = User::with_hooks("claude-code");
        user.add_script("wrapper/midcourse", &format!("[ \"$1\" = hook ] || exit 0\n{lines}"));
        let wrapper = user.file("wrapper/midcourse").display().to_string();
        user.replace(SETTINGS, &format!("exec {PROGRAM}"), &format!("exec '{wrapper}'"));
        let problem = user.doctor().only_problem();
        assert_found(&problem, "claude-code", "trial", detail, INSTALL);
    }
}

#[test]
fn the_hooks_of_codex_are_not_approved() {
    let remedy = "type /hooks and approve";
    let user = User::with_hooks("codex");
    // A program that fails if it is started for anything but its version.
    let started = user.file("started").display().to_string();
    user.add_program("codex", &format!("[ \"$1\" = --version ] || echo > '{started}'"));
    let problem = user.doctor().only_problem();
    assert_found(&problem, "codex", "approval", "Codex skips 10 of 10 hooks", remedy);
    user.approve_codex_hooks();
    assert_eq!(user.doctor().only("codex", "approval").state, "note");
    // One of them is switched off, and one was not approved.
    let approved = fs::read_to_string(user.file(".codex/config.toml")).unwrap();
    user.replace(".codex/config.toml", ":stop:0:0\"]", ":stop:0:0\"]\nenabled = false");
    user.replace(".codex/config.toml", ":interrupt:0:0", ":interrupt:1:0");
    let problem = user.doctor().only_problem();
    assert_found(&problem, "codex", "approval", "Codex skips 2 of 10 hooks", remedy);
    // The hooks are newer than their approvals.
    user.write(".codex/config.toml", &approved);
    let old = fs::File::options().write(true).open(user.file(".codex/config.toml")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    let found = user.doctor().only("codex", "approval");
    assert_eq!(found.state, "warning");
    assert_found(&found, "codex", "approval", "has changed since you approved", remedy);
    assert!(!user.file("started").exists(), "Codex itself is not started");
}

#[test]
fn gemini_does_not_trust_the_folder() {
    let user = User::with_hooks("gemini");
    let found = user.doctor().only("gemini", "approval");
    assert_eq!(found.state, "warning");
    assert_found(&found, "gemini", "approval", "you do not trust it", "/permissions");
    user.edit(".gemini/settings.json", |settings| {
        settings["security"] = json!({"folderTrust": {"enabled": false}});
    });
    assert_eq!(user.doctor().only("gemini", "approval").state, "ok");
}

#[test]
fn the_projects_configuration_is_not_approved() {
    let user = User::with_hooks("claude-code");
    user.write("project/midcourse.toml", "[budget]\ncalls = 5\n");
    let found = user.doctor().only("configuration", "project-file");
    assert_eq!(found.state, "warning");
    let file = user.file("project/midcourse.toml").display().to_string();
    let remedy = format!("`midcourse trust '{file}'`");
    assert_found(&found, "configuration", "project-file", "is not approved", &remedy);
    user.ok(&["trust", "--yes", &file]);
    assert_eq!(user.doctor().only("configuration", "project-file").state, "ok");
    user.write("project/midcourse.toml", "[budget]\ncalls = 6\n");
    let found = user.doctor().only("configuration", "project-file");
    assert!(found.detail.contains("changed since you approved it"), "{found:?}");
}

#[test]
fn in_shadow_mode_no_message_is_expected() {
    let user = User::with_hooks("claude-code");
    user.write("data/midcourse.toml", "mode = \"shadow\"\n");
    let report = user.doctor();
    report.assert_healthy();
    let trial = report.only("claude-code", "trial");
    assert_found(&trial, "claude-code", "trial", "6 failing calls were recorded", "configuration");
}

#[test]
fn hooks_that_had_trouble_are_reported() {
    let user = User::with_hooks("claude-code");
    user.write("data/hook.log", "2020-01-01T00:00:00.000Z codex: long ago\n");
    user.doctor().assert_healthy();
    let now = jiff::Timestamp::now();
    user.write("data/hook.log", &format!("{now:.3} codex: the store is locked\n"));
    let found = user.doctor().only("store", "log");
    assert_eq!(found.state, "warning");
    assert_found(&found, "store", "log", "codex: the store is locked", "hook.log");
}

#[test]
fn a_project_cannot_make_the_doctor_start_a_program() {
    let user = User::with_hooks("claude-code");
    user.add_script("project/midcourse", &format!("echo > '{}'", user.file("started").display()));
    let evil = user.file("project/midcourse").display().to_string();
    let hook = |command: &str| {
        let hook = json!([{"hooks": [{"type": "command", "command": command}]}]);
        json!({"hooks": {"PostToolUseFailure": hook}}).to_string()
    };
    user.write("project/.claude/settings.local.json", &hook(&format!("'{evil}' hook claude-code")));
    let report = user.doctor();
    let found = report.findings.iter().find(|it| it.detail.contains("which is not this program"));
    assert_found(found.unwrap(), "claude-code", "command", &evil, "look at the file");
    // What follows in the text of a command is not run either.
    let command = format!("{PROGRAM} hook claude-code --home /h; '{evil}'");
    user.write("project/.claude/settings.local.json", &hook(&command));
    user.doctor();
    assert!(!user.file("started").exists());
}

#[test]
fn the_hooks_start_another_release() {
    let user = User::with_hooks("claude-code");
    let version = "[ \"$1\" = --version ] && echo midcourse 0.0.1 && exit";
    user.add_script("old/midcourse", &format!("{version}\nexec '{PROGRAM}' \"$@\""));
    let program = user.file("old/midcourse").display().to_string();
    user.replace(SETTINGS, &format!("exec {PROGRAM}"), &format!("exec '{program}'"));
    let report = user.doctor();
    let found = report.only("claude-code", "command");
    assert_eq!((found.state.as_str(), report.problems), ("warning", 0), "{found:?}");
    assert_found(&found, "claude-code", "command", "which is release 0.0.1", INSTALL);
    assert_eq!(report.only("claude-code", "trial").state, "ok", "the wrapper passes everything on");
}

#[test]
fn a_command_without_a_data_directory_is_tried_in_a_scratch_folder() {
    let user = User::with_hooks("claude-code");
    let (home, config) = (user.file("data"), user.file("data/midcourse.toml"));
    let paths = format!(" --home '{}' --config '{}'", home.display(), config.display());
    user.replace(SETTINGS, &format!("hook claude-code{paths}"), "hook claude-code");
    let report = user.doctor();
    let found = report.only("claude-code", "data-directory");
    assert_found(&found, "claude-code", "data-directory", "names no data directory", INSTALL);
    assert_eq!(report.only("claude-code", "trial").state, "ok");
    assert!(!user.file("data/store.db").exists(), "nothing is stored in the user's store");
}

#[test]
fn hooks_are_in_the_users_and_in_the_projects_settings() {
    for (host, state) in [("claude-code", "note"), ("copilot", "warning")] {
        let user = User::with_hooks(host);
        user.ok(&["install", host, "--project"]);
        let report = user.doctor();
        assert_eq!(report.problems, 0, "{report:#?}");
        let found = report.only(host, "duplicates");
        assert_eq!(found.state, state);
        assert!(found.remedy.contains(&format!("`midcourse uninstall {host} --project`")));
        assert_eq!(report.only(host, "trial").state, "ok", "the same command is tried once");
    }
}

#[test]
fn the_plugin_of_opencode_was_changed() {
    let user = User::with_hooks("opencode");
    let plugin = ".config/opencode/plugin/midcourse.js";
    user.replace(plugin, "const MAX_MESSAGES = 8;", "const MAX_MESSAGES = 9;");
    let found = user.doctor().only("opencode", "hooks");
    assert_eq!(found.state, "warning");
    let remedy = "`midcourse install opencode`";
    assert_found(&found, "opencode", "hooks", "plugin of another release", remedy);
}

#[test]
fn an_interrupted_repair_is_not_finished() {
    let user = User::with_hooks("claude-code");
    user.record_a_run();
    user.write("data/store.db.replacing", "");
    let found = user.doctor().only("store", "store");
    assert_eq!(found.state, "warning");
    assert_found(&found, "store", "store", "was interrupted", "`midcourse list`");
    assert!(user.file("data/store.db.replacing").exists());
}

#[test]
fn gaps_in_a_run_are_noted() {
    let user = User::with_hooks("claude-code");
    let data_dir = DataDir::at(user.file("data"));
    let mut store = Store::open(&data_dir, StoreSettings::default()).unwrap();
    let mut gap = user_message("r", "");
    gap.payload = TrajectoryPayload::Gap { lost: 2, reason: GapReason::Io };
    store.append(user_message("r", "begin")).unwrap();
    store.append(gap).unwrap();
    drop(store);
    let found = user.doctor().only("store", "gaps");
    assert_eq!(found.state, "note");
    assert_found(&found, "store", "gaps", "1 gap markers", "`midcourse show RUN`");
}

#[cfg(all(target_os = "linux", feature = "proxy"))]
#[test]
fn the_installed_proxy_does_not_run() {
    let user = User::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    user.ok(&["proxy", "install", "--upstream", "http://127.0.0.1:1", "--listen", &address]);
    let report = user.doctor();
    report.assert_healthy();
    assert!(report.only("proxy", "answers").detail.ends_with(&format!("connections on {address}")));
    drop(listener);
    let problem = user.doctor().only_problem();
    let detail = format!("nothing answers on {address}");
    assert_found(&problem, "proxy", "answers", &detail, "start the proxy: `");

    // Its unit is gone, and others can read the token.
    let listener = std::net::TcpListener::bind(&address);
    fs::remove_dir_all(user.file(".config/systemd")).unwrap();
    let token = user.file("data/proxy-token");
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let report = user.doctor();
    let found = report.only("proxy", "token");
    assert_found(&found, "proxy", "token", "other users can read", "`chmod 600 ");
    let found = report.only("proxy", "unit");
    assert_eq!(found.state, "problem");
    assert_found(&found, "proxy", "unit", "there is no unit", "`midcourse proxy install");
    fs::write(token, "no token").unwrap();
    assert_eq!(user.doctor().only("proxy", "token").state, "problem");
    drop(listener);
}
