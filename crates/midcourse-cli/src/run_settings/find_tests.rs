//! Tests which configuration files apply to a run and in which order, and that the recorded text
//! gives the same configuration again.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use midcourse::{DataDir, Mode};
use proptest::prelude::*;

use super::RunSettings;
use crate::config::{Config, Overrides, ProjectFile, Trusted};

/// A temporary folder with a data directory and with a project in a repository.
struct Folders {
    folder: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let folders = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["data", "project/.git", "project/src/deep"] {
            fs::create_dir_all(folders.folder.path().join(folder)).unwrap();
        }
        folders
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn data_dir(&self) -> DataDir {
        DataDir::at(self.at("data"))
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        fs::write(self.at(path), text).unwrap();
        self.at(path)
    }

    fn approve(&self, path: &Path) {
        Trusted::approve(&self.data_dir(), &ProjectFile::read(path).unwrap()).unwrap();
    }

    /// The settings that apply in a subfolder of the project.
    fn find(&self) -> RunSettings {
        self.find_in("project/src/deep")
    }

    fn find_in(&self, folder: &str) -> RunSettings {
        RunSettings::find(&self.data_dir(), &self.at(folder))
    }
}

#[test]
fn without_a_file_the_settings_are_the_shipped_ones() {
    assert_eq!(Folders::new().find(), RunSettings::shipped());
    let nowhere = RunSettings::find(&DataDir::at("/nowhere/at/all"), Path::new("/nowhere/else"));
    assert_eq!(nowhere, RunSettings::shipped());
}

#[test]
fn flags_override_the_project_and_the_project_overrides_the_user() {
    let folders = Folders::new();
    folders.write("data/midcourse.toml", "mode = 'shadow'\n[budget]\ncalls = 1\ntokens = 2");
    let project = "[budget]\ntokens = 30\n[tools.put]\nvolatile_args = ['a']\n[analysis]";
    folders.approve(&folders.write("project/midcourse.toml", project));
    let beside_file = folders.find_in("data");
    assert_eq!((beside_file.config.mode, beside_file.warnings.len()), (Mode::Shadow, 0));
    let overrides = Overrides { calls: NonZeroU64::new(700), ..Overrides::default() };
    let settings = folders.find().with_overrides(overrides);
    assert_eq!(settings.warnings, [""; 0]);
    insta::assert_snapshot!(settings.config_text, @r#"
    mode = "shadow"

    [budget]
    calls = 700
    tokens = 30

    [tools.put]
    volatile_args = ["a"]
    "#);
    assert_eq!(settings.config, Config::parse(&settings.config_text).unwrap());
    let live = Overrides { mode: Some(Mode::Live), ..Overrides::default() };
    assert_eq!(settings.with_overrides(live).config.mode, Mode::Live);
}

#[test]
fn a_projects_file_is_found_up_to_the_root_of_the_repository() {
    let folders = Folders::new();
    let find = |folder: &str| ProjectFile::find(&folders.at(folder));
    folders.write("midcourse.toml", "");
    assert_eq!(find("project/src/deep"), None, "it is above the repository");
    let root = folders.write("project/midcourse.toml", "");
    assert_eq!(find("project/src/deep"), Some(root.clone()));
    let near = folders.write("project/src/midcourse.toml", "");
    assert_eq!(find("project/src/deep"), Some(near));
    assert_eq!(find("project"), Some(root));
    assert_eq!(find("data"), None, "outside a repository only the folder itself is searched");
    let own = folders.write("data/midcourse.toml", "");
    assert_eq!(find("data"), Some(own));
    assert_eq!(find("missing"), None);
}

#[test]
fn a_projects_file_applies_only_with_the_approved_bytes() {
    let folders = Folders::new();
    let path = folders.write("project/midcourse.toml", "mode = 'shadow'");
    let shown = path.display();
    let assert_skipped = |why: &str| {
        let found = folders.find();
        assert_eq!(
            (found.config, found.config_text, found.warnings),
            (
                Config::shipped(),
                String::new(),
                vec![format!(
                    "skipped {shown}: it {why}; review and approve it with `midcourse trust {shown}`"
                )]
            )
        );
    };
    assert_skipped("is not approved");
    folders.approve(&path);
    assert_eq!(folders.find().config.mode, Mode::Shadow);
    folders.write("project/midcourse.toml", "mode = 'shadow' ");
    assert_skipped("changed since you approved it");
    folders.write("project/midcourse.toml", "mode = 'shadow'");
    assert_eq!(folders.find().config.mode, Mode::Shadow, "it has the approved bytes again");
    assert!(Trusted::revoke(&folders.data_dir(), &path).unwrap());
    assert!(!Trusted::revoke(&folders.data_dir(), &path).unwrap());
    assert_skipped("is not approved");
}

#[test]
fn a_folder_in_a_project_cannot_hide_the_file_that_the_user_approved() {
    let folders = Folders::new();
    folders.approve(&folders.write("project/midcourse.toml", "[budget]\ncalls = 5"));
    let nested = folders.write("project/src/midcourse.toml", "mode = 'shadow'");
    let found = folders.find();
    assert_eq!(found.config_text, "[budget]\ncalls = 5\n");
    assert!(found.warnings[0].contains("src/midcourse.toml: it is not approved"), "{found:?}");
    assert!(found.warnings[1].contains("uses the approved"), "{found:?}");
    fs::create_dir(folders.at("project/src/.git")).unwrap();
    assert_eq!(folders.find().config_text, "[budget]\ncalls = 5\n", "a file and a repository");
    fs::remove_file(&nested).unwrap();
    let found = folders.find();
    assert_eq!((found.config_text.as_str(), found.warnings.len()), ("[budget]\ncalls = 5\n", 0));
    folders.approve(&folders.write("project/src/midcourse.toml", "mode = 'live'"));
    assert_eq!(folders.find().config_text, "mode = \"live\"\n", "the nearest approved file");
    fs::remove_dir(folders.at("project/.git")).unwrap();
    fs::remove_file(&nested).unwrap();
    assert_eq!(folders.find().config_text, "", "no repository contains the approved file");
}

#[test]
fn a_path_in_a_hint_is_quoted_for_the_shell() {
    let folders = Folders::new();
    fs::create_dir_all(folders.at("it's $(here)")).unwrap();
    folders.write("it's $(here)/midcourse.toml", "");
    let found = folders.find_in("it's $(here)");
    let quoted =
        format!("`midcourse trust '{}/it'\\''s $(here)/midcourse.toml'`", folders.at("").display());
    assert!(found.warnings[0].contains(&quoted.replace("//", "/")), "{:?}", found.warnings);
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_a_readable_file_is_skipped_at_once() {
    let folders = Folders::new();
    let at = folders.at("project/midcourse.toml");
    let assert_skipped = |why: &str| {
        let found = folders.find();
        assert_eq!(found.config, Config::shipped());
        let warnings = found.warnings.join("\n");
        assert!(warnings.contains(why), "{warnings}");
        assert!(ProjectFile::read(&at).is_err());
    };
    fs::create_dir(&at).unwrap();
    assert_skipped("it is not a file");
    fs::remove_dir(&at).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&at).status().unwrap();
    assert!(made.success());
    assert_skipped("it is not a file");
    fs::remove_file(&at).unwrap();
    fs::write(&at, "# ".repeat(1 << 20)).unwrap();
    assert_skipped("it is longer than 1 MiB");
    fs::write(&at, b"# \xff").unwrap();
    assert_skipped("it is not valid UTF-8");
    fs::remove_file(&at).unwrap();

    // A symlink to a file that does not exist counts as a missing file. The approval of a symlink
    // is for the path of the symlink and the bytes of the file to which it leads.
    let [good, bad] =
        [folders.write("good", "mode = 'live'"), folders.write("bad", "mode = 'shadow'")];
    std::os::unix::fs::symlink(folders.at("missing"), &at).unwrap();
    assert_eq!(folders.find(), RunSettings::shipped());
    fs::remove_file(&at).unwrap();
    std::os::unix::fs::symlink(&good, &at).unwrap();
    folders.approve(&at);
    assert_eq!(folders.find().config_text, "mode = \"live\"\n");
    folders.approve(&bad);
    fs::remove_file(&at).unwrap();
    std::os::unix::fs::symlink(&bad, &at).unwrap();
    assert!(folders.find().warnings[0].contains("changed since"), "approved, but at another path");
}

#[test]
fn a_wrong_file_is_skipped_if_found_and_an_error_if_named() {
    let folders = Folders::new();
    let wrong = folders.write("data/midcourse.toml", "[analysis]\nwindow = 0");
    folders.approve(&folders.write("project/midcourse.toml", "[budget]\ncalls = 5"));
    let found = folders.find();
    assert_eq!(found.config_text, "[budget]\ncalls = 5\n");
    let expected = format!("skipped a configuration file: {}:2:10: invalid", wrong.display());
    assert!(found.warnings[0].starts_with(&expected), "{:?}", found.warnings);

    let named = RunSettings::read;
    assert!(named(&wrong).unwrap_err().to_string().contains("midcourse.toml:2:10: invalid"));
    assert!(named(&folders.at("missing")).unwrap_err().to_string().contains("cannot read"));
    let alone = named(&folders.write("own.toml", "mode = 'shadow'")).unwrap();
    assert_eq!((alone.config_text.as_str(), alone.warnings.len()), ("mode = \"shadow\"\n", 0));
}

/// Generates a table name and one line for that table.
fn setting() -> impl Strategy<Value = (&'static str, String)> {
    let number = 1..9_i64;
    let text = "[a-z\"'\\\\ \u{e9}\n]{0,6}";
    prop_oneof![
        prop::bool::ANY
            .prop_map(|live| ("", format!("mode = '{}'", if live { "live" } else { "shadow" }))),
        number.clone().prop_map(|n| ("[budget]", format!("calls = {n}"))),
        number.clone().prop_map(|n| ("[budget]", format!("deadline = '{n}h'"))),
        (0.0..=1.0_f64).prop_map(|p| ("[analysis]", format!("similarity_threshold = {p:?}"))),
        prop::bool::ANY.prop_map(|on| ("[analysis]", format!("detect_drift = {on}"))),
        number.clone().prop_map(|n| ("[messages]", format!("max_chars = {n}"))),
        number
            .clone()
            .prop_map(|n| ("[providers.stall_detector]", format!("trigger.every_n_calls = {n}"))),
        number
            .prop_map(|n| ("[providers.stall_detector]", format!("trigger.every_n_seconds = {n}"))),
        prop::bool::ANY.prop_map(|on| ("[providers.deadline]", format!("enabled = {on}"))),
        prop::collection::vec(text, 0..3).prop_map(|names| {
            ("[tools.\"fs put\"]", format!("volatile_args = {}", toml::Value::from(names)))
        }),
    ]
}

/// Generates the settings of a file, in which each key occurs once.
fn layer() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    prop::collection::vec(setting(), 0..8).prop_map(|mut settings| {
        let key = |(table, line): &(&str, String)| {
            (table.to_string(), line.split(" = ").next().unwrap().to_owned())
        };
        settings.sort_by_key(key);
        settings.dedup_by_key(|setting| key(setting));
        settings
    })
}

fn written(settings: &[(&str, String)]) -> String {
    let mut text = String::new();
    let mut table = "";
    for (of, line) in settings {
        if *of != table {
            text.push_str(&format!("{of}\n"));
            table = of;
        }
        text.push_str(&format!("{line}\n"));
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Parsing the recorded text gives the same settings again, and equal settings have equal text.
    /// The project's file overrides single keys of the user's file, and flags override both.
    #[test]
    fn the_recorded_text_gives_the_same_settings(user in layer(), project in layer(), calls in 0..4_u64) {
        let folders = Folders::new();
        folders.write("data/midcourse.toml", &written(&user));
        folders.approve(&folders.write("project/midcourse.toml", &written(&project)));
        let overrides = Overrides { calls: NonZeroU64::new(calls), ..Overrides::default() };
        let settings = folders.find().with_overrides(overrides);
        prop_assert_eq!(&settings.warnings, &[""; 0]);
        prop_assert_eq!(&Config::parse(&settings.config_text).unwrap(), &settings.config);
        prop_assert_eq!(&RunSettings::from_text(&settings.config_text), &settings);

        let mut by_key = std::collections::BTreeMap::new();
        let from_flags = (calls > 0).then(|| ("[budget]", format!("calls = {calls}")));
        for setting in user.into_iter().chain(project).chain(from_flags) {
            by_key.insert((setting.0, setting.1.split(" = ").next().unwrap().to_owned()), setting);
        }
        let model: Vec<_> = by_key.into_values().collect();
        prop_assert_eq!(&RunSettings::from_text(&written(&model)), &settings);
    }
}
