//! `midcourse install` and `midcourse uninstall`: settings files of users in every state, and what is
//! left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

const HOSTS: [(&str, &str); 6] = [
    ("claude-code", ".claude/settings.json"),
    ("codex", ".codex/hooks.json"),
    ("qwen", ".qwen/settings.json"),
    ("gemini", ".gemini/settings.json"),
    ("copilot", ".copilot/hooks/midcourse.json"),
    ("opencode", ".config/opencode/plugin/midcourse.js"),
];

/// A user with a home folder that contains a space.
struct User {
    folder: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        let user = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(user.home().join("project")).unwrap();
        user
    }

    fn home(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("my home")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home().join(name)
    }

    /// Writes a settings file of Claude Code.
    fn with_settings(settings: &str) -> Self {
        let user = Self::new();
        user.write(".claude/settings.json", settings);
        user
    }

    fn write(&self, name: &str, content: &str) {
        fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
        fs::write(self.file(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.env_clear().env("HOME", self.home()).env("PATH", "/usr/bin:/bin");
        command.env("MIDCOURSE_HOME", self.file("data"));
        command.args(args).current_dir(self.file("project")).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output with the home folder as `~`.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{output:?}");
        self.shown(&output.stdout)
    }

    /// Runs a command that must fail, and returns the error.
    fn error(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        self.shown(&output.stderr)
    }

    fn shown(&self, text: &[u8]) -> String {
        let home = self.home().display().to_string();
        String::from_utf8(text.to_vec()).unwrap().replace(&home, "~")
    }

    /// All files below the home folder, without the data directory.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        fn collect(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    files.push((path.display().to_string(), Vec::new()));
                    collect(&path, files);
                } else {
                    files.push((path.display().to_string(), fs::read(&path).unwrap()));
                }
            }
        }
        let mut files = Vec::new();
        collect(&self.home(), &mut files);
        let data = self.file("data").display().to_string();
        files.retain(|(path, _)| !path.starts_with(&data));
        files.sort();
        files
    }
}

#[test]
fn every_host_is_installed_and_uninstalled_without_a_trace() {
    for (host, file) in HOSTS {
        let user = User::new();
        let before = user.files();
        let output = user.ok(&["install", host]);
        assert!(output.contains(&format!("~/{file}\n")), "{output}");
        assert!(output.contains(&format!("undo: midcourse uninstall {host}\n")), "{output}");
        let text = user.read(file);
        assert!(text.contains("my home/data"), "the data directory is named: {text}");
        let installed = user.files();
        let again = user.ok(&["install", host]);
        assert!(again.contains("nothing was changed"), "{again}");
        assert_eq!(user.files(), installed);
        let output = user.ok(&["uninstall", host]);
        assert!(output.starts_with("deleted ~/"), "{output}");
        assert_eq!(user.files(), before, "{host}");
        assert!(user.ok(&["uninstall", host]).contains("nothing was changed"));
    }
}

#[test]
fn a_project_has_a_file_of_its_own() {
    for (host, file) in [
        ("claude-code", ".claude/settings.local.json"),
        ("codex", ".codex/hooks.json"),
        ("qwen", ".qwen/settings.json"),
        ("gemini", ".gemini/settings.json"),
        ("copilot", ".github/hooks/midcourse.json"),
        ("opencode", ".opencode/plugin/midcourse.js"),
    ] {
        let user = User::new();
        let before = user.files();
        let output = user.ok(&["install", host, "--project"]);
        assert!(output.contains("do not commit it"), "{output}");
        assert!(output.contains(&format!("midcourse uninstall {host} --project\n")), "{output}");
        let text = user.read(&format!("project/{file}"));
        assert!(!text.contains("statusLine"), "it would replace the user's own: {text}");
        user.ok(&["uninstall", host, "--project"]);
        assert_eq!(user.files(), before, "{host}");
    }
}

#[test]
fn the_installed_command_names_every_path() {
    let user = User::new();
    user.write("my conf.toml", "");
    user.ok(&["install", "codex", "--home", "../other data", "--config", "../my conf.toml"]);
    let hooks = user.json(".codex/hooks.json");
    let hook = &hooks["hooks"]["PostToolUse"][0]["hooks"][0];
    let (home, program) = (user.home().display().to_string(), env!("CARGO_BIN_EXE_midcourse"));
    let command = format!(
        "{program} hook codex --home '{home}/project/../other data' --config \
         '{home}/project/../my conf.toml'"
    );
    assert_eq!(hook["command"].as_str().unwrap(), command);
    assert_eq!(hook["timeout"], 3);
    assert!(user.file("other data/installed").is_dir());
    let error = user.error(&["install", "codex", "--config", "missing.toml"]);
    assert!(error.contains("missing.toml"), "{error}");
}

/// A link on PATH stays when an upgrade replaces the program behind it.
#[cfg(unix)]
#[test]
fn the_path_by_which_the_user_finds_midcourse_is_installed() {
    let user = User::new();
    let link = user.file("bin/midcourse");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_midcourse"), &link).unwrap();
    let mut command = user.command(&["install", "codex"]);
    assert!(command.env("PATH", link.parent().unwrap()).output().unwrap().status.success());
    let expected = format!("'{}' hook codex ", link.display());
    assert!(
        user.json(".codex/hooks.json")["hooks"]["Stop"][0]["hooks"][0]["command"]
            .as_str()
            .unwrap()
            .starts_with(&expected)
    );
    // The program has moved: the hooks are updated, and there are no more than before.
    let output = user.ok(&["install", "codex"]);
    assert!(output.starts_with("updated midcourse's hooks"), "{output}");
    let hooks = user.json(".codex/hooks.json");
    assert_eq!(hooks["hooks"]["Stop"].as_array().unwrap().len(), 1);
    assert!(!hooks.to_string().contains("my home/bin"), "{hooks}");
    user.ok(&["uninstall", "codex"]);
    assert!(!user.file(".codex").exists());
}

const SETTINGS: &str = "\u{feff}{\r\n\t\"model\" : \"m\",\r\n\r\n   \"hooks\":{\"Stop\":[ \
                        {\"hooks\":[{\"type\":\"command\",\"command\":\"theirs\"}]} ]},\r\n\t\
                        \"statusLine\": {\"type\": \"command\", \"command\": \"echo \\u0022it's\\u0022\"}}";

#[test]
fn codex_users_learn_what_keeps_the_hooks_from_running() {
    let user = User::new();
    user.write(".codex/config.toml", "[features]\nhooks = false\n");
    let output = user.ok(&["install", "codex"]);
    assert!(output.contains("approve the hooks with /hooks"), "{output}");
    assert!(output.contains("hooks are switched off in config.toml"), "{output}");
    assert_eq!(user.read(".codex/config.toml"), "[features]\nhooks = false\n");
}

#[test]
fn a_dry_run_shows_the_change_and_makes_none() {
    let user = User::with_settings("{\n  \"model\": \"m\"\n}\n");
    let before = user.files();
    let diff = user.ok(&["install", "claude-code", "--dry-run"]);
    assert!(
        diff.starts_with("--- ~/.claude/settings.json\n+++ ~/.claude/settings.json\n@@"),
        "{diff}"
    );
    assert!(
        diff.contains("\n-  \"model\": \"m\"\n+  \"model\": \"m\",\n+  \"hooks\": {\n"),
        "{diff}"
    );
    assert_eq!(user.files(), before);
    assert!(!user.file("data").exists());
    user.ok(&["install", "claude-code"]);
    let installed = user.files();
    let diff = user.ok(&["uninstall", "claude-code", "--dry-run"]);
    assert!(diff.contains("\n-  \"hooks\": {\n"), "{diff}");
    assert_eq!(user.files(), installed);
    let user = User::new();
    let diff = user.ok(&["install", "gemini", "--dry-run"]);
    assert!(diff.starts_with("--- /dev/null\n"), "{diff}");
    assert!(!user.file(".gemini").exists());
}

#[test]
fn what_others_change_in_between_stays() {
    let user = User::with_settings(SETTINGS);
    user.ok(&["install", "claude-code"]);
    let installed = user.read(".claude/settings.json");
    let changed = installed.replace("\"model\" : \"m\"", "\"model\" : \"other\"");
    user.write(".claude/settings.json", &changed);
    let output = user.ok(&["uninstall", "claude-code"]);
    assert!(output.contains("the file before the installation: ~/data/installed/"), "{output}");
    let expected = SETTINGS.replace("\"model\" : \"m\"", "\"model\" : \"other\"");
    assert_eq!(user.read(".claude/settings.json"), expected);
}

#[test]
fn an_update_keeps_the_original() {
    let user = User::with_settings(SETTINGS);
    user.ok(&["install", "claude-code", "--config", "/dev/null"]);
    user.ok(&["install", "claude-code"]);
    user.ok(&["uninstall", "claude-code"]);
    assert_eq!(user.read(".claude/settings.json"), SETTINGS);
    let saved = fs::read_dir(user.file("data/installed")).unwrap().count();
    assert_eq!(saved, 0, "the saved original is not needed any more");
    // Another data directory: the original moves there.
    user.ok(&["install", "claude-code", "--home", "../one"]);
    user.ok(&["install", "claude-code", "--home", "../two"]);
    user.ok(&["uninstall", "claude-code"]);
    assert_eq!(user.read(".claude/settings.json"), SETTINGS);
    for home in ["one", "two"] {
        assert_eq!(fs::read_dir(user.file(home).join("installed")).unwrap().count(), 0);
    }
    // Somebody changes the file between two installations: nothing of that is lost.
    user.ok(&["install", "claude-code", "--config", "/dev/null"]);
    let changed = user.read(".claude/settings.json").replace("\"m\"", "\"n\"");
    user.write(".claude/settings.json", &changed);
    user.ok(&["install", "claude-code"]);
    user.ok(&["uninstall", "claude-code"]);
    assert_eq!(user.read(".claude/settings.json"), SETTINGS.replace("\"m\"", "\"n\""));
}

#[test]
fn hooks_that_the_user_wrote_by_hand_are_updated_and_removed() {
    let by_hand = json!({"hooks": {"Stop": [{"hooks": [
        {"type": "command", "command": "midcourse hook claude-code"}]}]}});
    let user = User::with_settings(&by_hand.to_string());
    let output = user.ok(&["install", "claude-code", "--no-statusline"]);
    assert!(output.starts_with("updated midcourse's hooks"), "{output}");
    let settings = user.json(".claude/settings.json");
    assert_eq!(settings["hooks"]["Stop"].as_array().unwrap().len(), 1);
    assert!(settings["statusLine"].is_null());
    user.ok(&["uninstall", "claude-code"]);
    assert_eq!(user.json(".claude/settings.json"), json!({}));
}

#[test]
fn the_status_line_of_the_user_is_wrapped() {
    let user = User::with_settings(SETTINGS);
    let output = user.ok(&["install", "claude-code"]);
    assert!(output.contains("added midcourse to the status line that you have\n"), "{output}");
    let text = user.read(".claude/settings.json");
    let settings: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap();
    let command = settings["statusLine"]["command"].as_str().unwrap();
    let shown = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), "it's\nmidcourse: nothing recorded yet\n");
    user.ok(&["uninstall", "claude-code"]);
    assert_eq!(user.read(".claude/settings.json"), SETTINGS);
}

#[test]
fn files_that_cannot_be_edited_stay_as_they_are() {
    for (content, expected) in [
        ("{\"hooks\": ", "it is not valid JSON"),
        (
            "{\n  // mine\n  \"model\": \"m\"\n}",
            "it contains a comment, and Claude Code does not read such a file at all",
        ),
        ("{\n  \"model\": \"m\",\n}", "it contains a trailing comma"),
        ("[]", "`the file` is not an object"),
        ("{\"hooks\": []}", "`hooks` is not an object"),
        ("{\"hooks\": {\"Stop\": 1}}", "`hooks.Stop` is not a list"),
    ] {
        let user = User::with_settings(content);
        let before = user.files();
        for dry_run in [&["install", "claude-code"][..], &["install", "claude-code", "--dry-run"]] {
            let error = user.error(dry_run);
            assert!(
                error.contains(expected) && error.contains("settings.json is not changed"),
                "{error}"
            );
        }
        assert_eq!(user.files(), before);
        assert!(!user.file("data").exists());
    }
    let user = User::new();
    user.write(".config/opencode/plugin/midcourse.js", "export const Mine = 1;\n");
    let error = user.error(&["install", "opencode"]);
    assert!(error.contains("it is not midcourse's plugin"), "{error}");
    assert!(user.ok(&["uninstall", "opencode"]).contains("nothing was changed"));
    assert_eq!(user.read(".config/opencode/plugin/midcourse.js"), "export const Mine = 1;\n");
    let user = User::new();
    fs::create_dir_all(user.file(".claude/settings.json/x")).unwrap();
    let error = user.error(&["install", "claude-code"]);
    assert!(error.contains("is a folder"), "{error}");
}

#[test]
fn hosts_that_read_comments_keep_them() {
    let settings = "{\n  // mine\n  \"ui\": {\"theme\": \"x\"} /* last, */\n}\n";
    for (host, file) in [("gemini", ".gemini/settings.json"), ("qwen", ".qwen/settings.json")] {
        let user = User::new();
        user.write(file, settings);
        user.ok(&["install", host]);
        let text = user.read(file);
        for part in [
            "  // mine\n  \"ui\": {\"theme\": \"x\"}, /* last, */\n  \"hooks\": {\n",
            "\"timeout\": 10000",
        ] {
            assert!(text.contains(part), "{text}");
        }
        user.ok(&["uninstall", host]);
        assert_eq!(user.read(file), settings);
    }
}

#[cfg(unix)]
#[test]
fn links_modes_and_permissions_are_respected() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let user = User::new();
    user.write("dotfiles/claude.json", SETTINGS);
    let (real, link) = (user.file("dotfiles/claude.json"), user.file(".claude/settings.json"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(user.file(".claude")).unwrap();
    symlink("../dotfiles/claude.json", &link).unwrap();
    user.ok(&["install", "claude-code"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_ne!(user.read("dotfiles/claude.json"), SETTINGS);
    assert_eq!(mode(&real), 0o600);
    let saved = fs::read_dir(user.file("data/installed")).unwrap().next().unwrap().unwrap().path();
    for entry in fs::read_dir(&saved).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600, "settings may contain keys");
    }
    user.ok(&["uninstall", "claude-code"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((user.read("dotfiles/claude.json").as_str(), mode(&real)), (SETTINGS, 0o600));

    fs::set_permissions(&real, fs::Permissions::from_mode(0o444)).unwrap();
    let error = user.error(&["install", "claude-code"]);
    assert!(error.contains("is read-only") && error.contains("chmod u+w"), "{error}");
    assert_eq!(user.read("dotfiles/claude.json"), SETTINGS);
    fs::remove_file(&real).unwrap();
    let error = user.error(&["install", "claude-code"]);
    assert!(error.contains("symlink to a file that does not exist"), "{error}");
    // Where the folder cannot be written. Root can write everywhere.
    if !rustix::process::geteuid().is_root() {
        let user = User::with_settings(SETTINGS);
        let folder = user.file(".claude");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
        let error = user.error(&["install", "claude-code"]);
        assert!(error.contains("you may not write"), "{error}");
        assert_eq!(user.read(".claude/settings.json"), SETTINGS);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Settings as people write them, with and without hooks, in any layout that the host reads.
fn settings() -> impl Strategy<Value = String> {
    let hooks = prop_oneof![
        Just(json!(null)),
        Just(json!({})),
        Just(json!({"Stop": []})),
        Just(json!({"Stop": [{"hooks": []}], "Notification": [{"matcher": "x", "hooks": [
            {"type": "command", "command": "theirs 'a b'"}]}]})),
    ];
    let status_line = prop_oneof![
        Just(json!(null)),
        Just(json!({"type": "command", "command": "cat; echo 'x y'", "padding": 0})),
        Just(json!({"type": "other"})),
    ];
    let gaps = proptest::collection::vec(0..5_usize, 1..40);
    (hooks, status_line, gaps, any::<(bool, bool)>()).prop_map(
        |(hooks, status_line, gaps, (has_mark, is_pretty))| {
            let mut settings = json!({"model": "größer"});
            for (key, value) in [("hooks", hooks), ("statusLine", status_line)] {
                if !value.is_null() {
                    settings[key] = value;
                }
            }
            let mark = if has_mark { "\u{feff}" } else { "" };
            if is_pretty {
                return format!("{mark}{}\n", serde_json::to_string_pretty(&settings).unwrap());
            }
            // White space around the brackets, which are in no string here.
            let (mut text, mut gaps) = (mark.to_owned(), gaps.into_iter().cycle());
            for c in settings.to_string().chars() {
                text.push(c);
                if "{}[],".contains(c) {
                    text.push_str(["", " ", "\n", "\r\n\t", "\n\n   "][gaps.next().unwrap()]);
                }
            }
            text
        },
    )
}

#[test]
fn uninstalling_gives_back_the_same_bytes() {
    let mut runner =
        TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    runner
        .run(&settings(), |text| {
            let user = User::with_settings(&text);
            user.ok(&["install", "claude-code"]);
            let once = user.read(".claude/settings.json");
            assert_ne!(once, text);
            user.ok(&["install", "claude-code"]);
            assert_eq!(user.read(".claude/settings.json"), once);
            user.ok(&["uninstall", "claude-code"]);
            assert_eq!(user.read(".claude/settings.json"), text);
            Ok(())
        })
        .unwrap();
}

#[test]
fn without_an_agent_the_command_lists_those_on_path() {
    let user = User::new();
    assert!(user.ok(&["install"]).starts_with("None of these agents is on PATH: Claude Code, "));
    user.write("bin/codex", "");
    let mut command = user.command(&["install"]);
    let output = command.env("PATH", user.file("bin")).output().unwrap();
    assert_eq!(user.shown(&output.stdout), "Codex (~/bin/codex)\n  midcourse install codex\n");
    let output = user.run(&["install", "emacs"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        user.shown(&output.stderr).contains("choose one of claude-code, codex, "),
        "{output:?}"
    );
}
