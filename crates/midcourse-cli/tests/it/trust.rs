//! `midcourse trust` as a user meets it, and its list on a bad day.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use midcourse::DataDir;
use midcourse_cli::config::{Config, InForce, ProjectFile, Trusted};

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

    fn home(&self) -> DataDir {
        DataDir::at(self.folder.path().join("home"))
    }

    fn trust(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.arg("trust").args(args).current_dir(self.project().join("src"));
        command.env("HOME", self.folder.path()).env("MIDCOURSE_HOME", self.home().path());
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// What it prints when all is well, with the folder's name taken out.
    fn tell(&self, args: &[&str]) -> String {
        let output = self.trust(args);
        assert!(output.status.success(), "{output:?}");
        self.without_folder(output.stdout)
    }

    fn complain(&self, args: &[&str]) -> String {
        let output = self.trust(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        self.without_folder(output.stderr)
    }

    fn without_folder(&self, text: Vec<u8>) -> String {
        let folder = self.folder.path().canonicalize().unwrap().display().to_string();
        let given = self.folder.path().display().to_string();
        String::from_utf8(text).unwrap().replace(&folder, "…").replace(&given, "…")
    }

    fn counts(&self) -> bool {
        InForce::find(&self.home(), None, &self.project()).unwrap().config != Config::shipped()
    }
}

#[test]
fn a_file_is_shown_approved_listed_and_revoked() {
    let user = User::new();
    insta::assert_snapshot!(user.complain(&[]), @"midcourse: there is no `midcourse.toml` here or above within the repository: name the file");
    assert_eq!(user.tell(&["--list"]), "No file is approved.\n");
    // What hides a line from the eye is shown.
    fs::write(user.file(), "mode = 'shadow' # \u{202e}\n").unwrap();
    insta::assert_snapshot!(user.complain(&[]), @"midcourse: there is no terminal to ask on, and nothing is approved: look at the file, then add `--yes`");
    assert!(!user.counts());
    insta::assert_snapshot!(user.tell(&["--yes"]), @r"
    …/project/midcourse.toml, 1 line:

      | mode = 'shadow' # \u{202e}

    Approved. Any change to the file ends that.
    ");
    assert!(user.counts());
    assert_eq!(user.tell(&[]), "…/project/midcourse.toml is approved already.\n");
    insta::assert_snapshot!(user.tell(&["--list"]), @r"
    STANDS    FILE
    approved  …/project/midcourse.toml
    ");
    fs::write(user.file(), "mode = 'shadow'").unwrap();
    assert!(!user.counts());
    assert!(user.tell(&["--list"]).contains("changed, does not count  …/project"));
    user.tell(&["../midcourse.toml", "--yes"]);
    assert!(user.counts());
    fs::remove_file(user.file()).unwrap();
    assert!(user.tell(&["--list"]).contains("gone    …/project"));
    assert_eq!(user.tell(&["--revoke", "../midcourse.toml"]), "It does not count any more.\n");
    insta::assert_snapshot!(user.complain(&["--revoke", "../midcourse.toml"]), @"midcourse: ../midcourse.toml is not approved; `midcourse trust --list` shows what is");
}

#[test]
fn what_is_no_configuration_cannot_be_approved() {
    let user = User::new();
    fs::write(user.file(), "[analysis]\nwindow = 'all'").unwrap();
    insta::assert_snapshot!(user.complain(&["--yes"]), @r#"
    midcourse: …/project/midcourse.toml:2:10: invalid type: string "all", expected a whole number from 1 to 200
      |
    2 | window = 'all'
      |          ^^^^^
    "#);
    insta::assert_snapshot!(user.complain(&["--yes", "."]), @"midcourse: …/project/src cannot be read: it is not a file");
    assert_eq!(user.tell(&["--list"]), "No file is approved.\n");
}

#[test]
fn a_damaged_list_approves_nothing_and_says_what_to_do() {
    let user = User::new();
    fs::write(user.file(), "mode = 'shadow'").unwrap();
    user.tell(&["--yes"]);
    let whole = fs::read_to_string(user.home().trusted_file()).unwrap();
    let half: String = whole.chars().take(whole.len() / 2).collect();
    for torn in ["", &half, "{}", &whole.replace("1", "2"), "\u{0}"] {
        fs::write(user.home().trusted_file(), torn).unwrap();
        assert!(!user.counts(), "{torn}");
        let remarks = InForce::find(&user.home(), None, &user.project()).unwrap().remarks;
        assert!(remarks[0].starts_with("no project's configuration counts: "), "{remarks:?}");
        for args in [&["--yes"][..], &["--list"], &["--revoke", "x"]] {
            let told = user.complain(args);
            assert!(told.contains("remove it and approve the files again"), "{told}");
        }
        assert_eq!(fs::read_to_string(user.home().trusted_file()).unwrap(), torn);
    }
    fs::write(user.home().trusted_file(), whole).unwrap();
    assert!(user.counts());
}

#[cfg(unix)]
#[test]
fn the_list_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::new();
    fs::write(user.file(), "").unwrap();
    user.tell(&["--yes"]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&user.home().trusted_file()), 0o600);
    assert_eq!(mode(user.home().path()), 0o700);
}

#[test]
fn approvals_at_once_are_all_kept() {
    let user = User::new();
    let files: Vec<PathBuf> = (0..24)
        .map(|number| {
            let folder = user.project().join(format!("{number}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("midcourse.toml"), format!("[budget]\ncalls = 1{number}"))
                .unwrap();
            folder.join("midcourse.toml")
        })
        .collect();
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(|| {
                let file = ProjectFile::read(file).unwrap();
                Trusted::approve(&user.home(), &file).unwrap();
                // Whoever reads meanwhile finds a whole list.
                assert!(Trusted::read(&user.home()).unwrap().has(&file));
            });
        }
    });
    assert_eq!(Trusted::read(&user.home()).unwrap().files().count(), files.len());
}
