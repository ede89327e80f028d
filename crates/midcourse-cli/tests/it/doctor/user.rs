//! A user with folders and programs of their own, and what `midcourse doctor` reports to this user.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// Each host, its program, and what that prints for `--version`.
pub(super) const HOSTS: [(&str, &str, &str); 6] = [
    ("claude-code", "claude", "2.1.325 (Claude Code)"),
    ("codex", "codex", "codex-cli 0.166.0"),
    ("qwen", "qwen", "0.24.4"),
    ("gemini", "gemini", "0.61.0"),
    ("copilot", "copilot", "GitHub Copilot CLI 1.0.102."),
    ("opencode", "opencode", "1.18.33"),
];

/// A user whose home folder contains a space, and whose PATH has only a shell and the programs that a
/// test adds.
pub(super) struct User {
    folder: tempfile::TempDir,
}

#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) area: String,
    pub(super) check: String,
    pub(super) state: String,
    pub(super) detail: String,
    pub(super) remedy: String,
}

#[derive(Debug)]
pub(super) struct Report {
    pub(super) findings: Vec<Found>,
    pub(super) problems: u64,
}

impl User {
    pub(super) fn new() -> Self {
        let user = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["project", "bin", "tmp"] {
            fs::create_dir_all(user.file(folder)).unwrap();
        }
        for shell in ["sh", "bash"] {
            let found = Path::new("/bin").join(shell);
            if found.exists() {
                std::os::unix::fs::symlink(found, user.file("bin").join(shell)).unwrap();
            }
        }
        user
    }

    /// A user who has run `midcourse install`.
    pub(super) fn with_hooks(host: &str) -> Self {
        let user = Self::new();
        user.ok(&["install", host]);
        user
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("my home").join(name)
    }

    pub(super) fn write(&self, name: &str, content: &str) {
        fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
        fs::write(self.file(name), content).unwrap();
    }

    pub(super) fn add_script(&self, name: &str, lines: &str) {
        self.write(name, &format!("#!/bin/sh\n{lines}\n"));
        fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Puts a program on PATH.
    pub(super) fn add_program(&self, name: &str, lines: &str) {
        self.add_script(&format!("bin/{name}"), lines);
    }

    /// Replaces text in a file, which must be there.
    pub(super) fn replace(&self, name: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.file(name)).unwrap();
        assert!(text.contains(old), "{text}");
        fs::write(self.file(name), text.replace(old, new)).unwrap();
    }

    /// Changes a JSON file.
    pub(super) fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut json = serde_json::from_slice(&fs::read(self.file(name)).unwrap()).unwrap();
        edit(&mut json);
        fs::write(self.file(name), json.to_string()).unwrap();
    }

    pub(super) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What `midcourse doctor` prints on a terminal, with these variables.
    #[cfg(target_os = "linux")]
    pub(super) fn on_terminal(&self, variables: &[(&str, &str)]) -> String {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use std::io::Read as _;

        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = fs::File::options().write(true).open(name).unwrap();
        let mut command = self.command(&["doctor"]);
        let mut child = command.envs(variables.iter().copied()).stdout(theirs).spawn().unwrap();
        // Otherwise this process keeps the terminal open, and reading does not end.
        drop(command);
        let mut text = Vec::new();
        // At the end, reading from a terminal fails.
        let _ = fs::File::from(ours).read_to_end(&mut text);
        child.wait().unwrap();
        String::from_utf8(text).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.env_clear().env("HOME", self.file("")).env("PATH", self.file("bin"));
        command.env("MIDCOURSE_HOME", self.file("data")).env("TMPDIR", self.file("tmp"));
        command.env("XDG_CONFIG_HOME", self.file(".config"));
        // Installed hooks get this timeout, so that they have time enough on a busy machine.
        command.env("MIDCOURSE_HOOK_TIMEOUT_MS", "2500");
        command.args(args).current_dir(self.file("project")).stdin(Stdio::null());
        command
    }

    pub(super) fn ok(&self, args: &[&str]) {
        let output = self.run(args);
        assert!(output.status.success(), "{output:?}");
    }

    pub(super) fn doctor(&self) -> Report {
        self.doctor_of(&[])
    }

    pub(super) fn doctor_of(&self, hosts: &[&str]) -> Report {
        let output = self.run(&[&["doctor", "--json"], hosts].concat());
        assert_eq!(output.stderr, b"", "{}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text =
            |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let findings = json["findings"].as_array().unwrap().iter().map(|finding| Found {
            area: text(finding, "area"),
            check: text(finding, "check"),
            state: text(finding, "state"),
            detail: text(finding, "detail"),
            remedy: text(finding, "remedy"),
        });
        let findings: Vec<Found> = findings.collect();
        let problems = json["problems"].as_u64().unwrap();
        let counted = findings.iter().filter(|finding| finding.state == "problem").count();
        assert_eq!(problems, u64::try_from(counted).unwrap());
        assert_eq!(output.status.code(), Some(i32::from(problems > 0)));
        for finding in &findings {
            assert_eq!(finding.state == "ok", finding.remedy.is_empty(), "{finding:?}");
        }
        Report { findings, problems }
    }

    /// Records a short run with the hooks of Claude Code.
    pub(super) fn record_a_run(&self) {
        for event in [
            json!({"hook_event_name": "SessionStart", "source": "startup"}),
            json!({"hook_event_name": "UserPromptSubmit", "prompt": "Fix the build."}),
            json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "c1",
                   "tool_input": {"command": "make"}}),
            json!({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "c1",
                   "tool_input": {"command": "make"}, "tool_response": {"stdout": "done"}}),
        ] {
            let mut payload = event;
            payload["session_id"] = "s1".into();
            let mut hook = Command::new(env!("CARGO_BIN_EXE_midcourse"))
                .args(["hook", "claude-code", "--timeout-ms", "60000", "--home"])
                .arg(self.file("data"))
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            hook.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
            assert!(hook.wait().unwrap().success());
        }
    }

    /// Approves the hooks of Codex, as it does after `/hooks`.
    pub(super) fn approve_codex_hooks(&self) {
        let path = self.file(".codex/hooks.json");
        let mut state = String::new();
        for event in [
            "session_start",
            "user_prompt_submit",
            "pre_tool_use",
            "post_tool_use",
            "post_compact",
            "stop",
            "interrupt",
            "subagent_start",
            "subagent_stop",
            "session_end",
        ] {
            let key = format!("{}:{event}:0:0", path.display());
            state.push_str(&format!("[hooks.state.\"{key}\"]\ntrusted_hash = \"sha256:1\"\n"));
        }
        self.write(".codex/config.toml", &state);
    }

    pub(super) fn trust_project_in_gemini(&self) {
        let project = self.file("project").display().to_string();
        let trusted = json!({project: "TRUST_FOLDER"}).to_string();
        self.write(".gemini/trustedFolders.json", &trusted);
    }

    /// All files below the home folder, without those of the database that change when it is read.
    pub(super) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn collect(folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    collect(&path, files);
                } else if path.extension().is_none_or(|end| end != "db-shm") {
                    files.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        let mut files = Vec::new();
        collect(&self.file(""), &mut files);
        files.sort();
        files
    }
}

impl Report {
    /// The finding of this check, of which there must be one.
    pub(super) fn only(&self, area: &str, check: &str) -> Found {
        let found = self.findings.iter().filter(|it| it.area == area && it.check == check);
        let found: Vec<&Found> = found.collect();
        assert_eq!(found.len(), 1, "{area} {check} in {:#?}", self.findings);
        found[0].clone()
    }

    /// The only problem.
    pub(super) fn only_problem(&self) -> Found {
        assert_eq!(self.problems, 1, "{:#?}", self.findings);
        self.findings.iter().find(|finding| finding.state == "problem").unwrap().clone()
    }

    /// Asserts that there are neither problems nor warnings.
    pub(super) fn assert_healthy(&self) {
        let is_bad = |finding: &&Found| !["ok", "note"].contains(&finding.state.as_str());
        let bad: Vec<&Found> = self.findings.iter().filter(is_bad).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
}
