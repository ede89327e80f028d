//! `midcourse trust`, with which a user approves a project's configuration file: approving, listing
//! and revoking files, and a damaged list of approved files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use midcourse::DataDir;

struct User {
    folder: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        let user = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(user.project().join("src")).unwrap();
        fs::create_dir_all(user.project().join(".git")).unwrap();
        user
    }

    fn project(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("project")
    }

    fn file(&self) -> PathBuf {
        self.project().join("midcourse.toml")
    }

    fn data_dir(&self) -> DataDir {
        DataDir::at(self.folder.path().join("data"))
    }

    fn trust(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.arg("trust").args(args).current_dir(self.project().join("src"));
        command.env("HOME", self.folder.path()).env("MIDCOURSE_HOME", self.data_dir().path());
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Runs `midcourse trust`, which must succeed. Returns its output with the name of the
    /// temporary folder replaced by `…`, because the name differs in every run.
    fn output(&self, args: &[&str]) -> String {
        let output = self.trust(args);
        assert!(output.status.success(), "{output:?}");
        self.without_folder(output.stdout)
    }

    fn error(&self, args: &[&str]) -> String {
        let output = self.trust(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        self.without_folder(output.stderr)
    }

    fn without_folder(&self, text: Vec<u8>) -> String {
        let folder = self.folder.path().canonicalize().unwrap().display().to_string();
        let given = self.folder.path().display().to_string();
        String::from_utf8(text).unwrap().replace(&folder, "…").replace(&given, "…")
    }

    /// What `midcourse run` prints to standard error when it is started in the project folder.
    fn run_warnings(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.args(["run", "--proxy=off", "--", "true"]).current_dir(self.project());
        command.env("HOME", self.folder.path()).env("MIDCOURSE_HOME", self.data_dir().path());
        String::from_utf8(command.stdin(Stdio::null()).output().unwrap().stderr).unwrap()
    }

    /// Whether `midcourse run` uses the project's configuration file.
    fn applies(&self) -> bool {
        !self.run_warnings().contains("skipped")
    }
}

#[test]
fn a_file_is_shown_approved_listed_and_revoked() {
    let user = User::new();
    insta::assert_snapshot!(user.error(&[]), @"midcourse: no `midcourse.toml` in this directory or above it in the repository; name the file");
    assert_eq!(user.output(&["--list"]), "No files are approved.\n");
    // U+202E makes a terminal show the rest of the line backwards and could hide what the line
    // says, so the command prints an escape sequence instead.
    fs::write(user.file(), "mode = 'shadow' # \u{202e}\n").unwrap();
    insta::assert_snapshot!(user.error(&[]), @"midcourse: cannot ask without a terminal, so nothing was approved; read the file, then add `--yes`");
    assert!(!user.applies());
    insta::assert_snapshot!(user.output(&["--yes"]), @r"
    …/project/midcourse.toml, 1 line:

      | mode = 'shadow' # \u{202e}

    Approved. After any change to the file you have to approve it again.
    ");
    assert!(user.applies());
    assert_eq!(user.output(&[]), "…/project/midcourse.toml is already approved.\n");
    insta::assert_snapshot!(user.output(&["--list"]), @r"
    STATUS    FILE
    approved  …/project/midcourse.toml
    ");
    fs::write(user.file(), "mode = 'shadow'").unwrap();
    assert!(!user.applies());
    assert!(user.output(&["--list"]).contains("changed, not applied  …/project"));
    user.output(&["../midcourse.toml", "--yes"]);
    assert!(user.applies());
    fs::remove_file(user.file()).unwrap();
    assert!(user.output(&["--list"]).contains("deleted  …/project"));
    assert_eq!(user.output(&["--revoke", "../midcourse.toml"]), "Approval revoked.\n");
    insta::assert_snapshot!(user.error(&["--revoke", "../midcourse.toml"]), @"midcourse: ../midcourse.toml is not approved; `midcourse trust --list` shows the approved files");
}

#[test]
fn an_invalid_file_cannot_be_approved() {
    let user = User::new();
    fs::write(user.file(), "[analysis]\nwindow = 'all'").unwrap();
    insta::assert_snapshot!(user.error(&["--yes"]), @r#"
    midcourse: …/project/midcourse.toml:2:10: invalid type: string "all", expected a whole number from 1 to 200
      |
    2 | window = 'all'
      |          ^^^^^
    "#);
    insta::assert_snapshot!(user.error(&["--yes", "."]), @"midcourse: cannot read …/project/src: it is not a file");
    assert_eq!(user.output(&["--list"]), "No files are approved.\n");
}

#[test]
fn a_damaged_list_approves_nothing_and_says_what_to_do() {
    let user = User::new();
    fs::write(user.file(), "mode = 'shadow'").unwrap();
    user.output(&["--yes"]);
    let whole = fs::read_to_string(user.data_dir().trusted_file()).unwrap();
    let half: String = whole.chars().take(whole.len() / 2).collect();
    for damaged in ["", &half, "{}", &whole.replace("1", "2"), "\u{0}"] {
        fs::write(user.data_dir().trusted_file(), damaged).unwrap();
        assert!(!user.applies(), "{damaged}");
        let warnings = user.run_warnings();
        assert!(warnings.contains("skipped the project's configuration: "), "{warnings}");
        for args in [&["--yes"][..], &["--list"], &["--revoke", "x"]] {
            let error = user.error(args);
            assert!(error.contains("remove it and approve the files again"), "{error}");
        }
        assert_eq!(fs::read_to_string(user.data_dir().trusted_file()).unwrap(), damaged);
    }
    fs::write(user.data_dir().trusted_file(), whole).unwrap();
    assert!(user.applies());
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_list() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::new();
    fs::write(user.file(), "").unwrap();
    user.output(&["--yes"]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&user.data_dir().trusted_file()), 0o600);
    assert_eq!(mode(user.data_dir().path()), 0o700);
}
