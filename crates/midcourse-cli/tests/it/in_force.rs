//! Which configuration counts: whose file, in which order, and that what is recorded of it says the
//! same.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use midcourse::DataDir;
use midcourse::Mode;
use midcourse_cli::config::{Config, Flags, InForce, ProjectFile, Trusted};
use proptest::prelude::*;

/// A user with a home folder and a project in a repository.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["home", "project/.git", "project/src/deep"] {
            fs::create_dir_all(desk.folder.path().join(folder)).unwrap();
        }
        desk
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn home(&self) -> DataDir {
        DataDir::at(self.at("home"))
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        fs::write(self.at(path), text).unwrap();
        self.at(path)
    }

    fn approve(&self, path: &Path) {
        Trusted::approve(&self.home(), &ProjectFile::read(path).unwrap()).unwrap();
    }

    /// What counts deep in the project.
    fn find(&self) -> InForce {
        InForce::find(&self.home(), None, &self.at("project/src/deep")).unwrap()
    }
}

#[test]
fn without_any_file_it_is_what_ships() {
    assert_eq!(Desk::new().find(), InForce::shipped());
    let nowhere = InForce::find(&DataDir::at("/nowhere/at/all"), None, Path::new("/nowhere/else"));
    assert_eq!(nowhere.unwrap(), InForce::shipped());
    assert_eq!(InForce::of_text(""), InForce::shipped());
    assert_eq!(InForce::shipped().with_flags(Flags::default()), InForce::shipped());
}

#[test]
fn flags_go_before_the_project_and_the_project_before_the_user() {
    let desk = Desk::new();
    desk.write("home/midcourse.toml", "mode = 'shadow'\n[budget]\ncalls = 1\ntokens = 2");
    let of_project = "[budget]\ntokens = 30\n[tools.put]\nvolatile = ['a']\n[analysis]";
    desk.approve(&desk.write("project/midcourse.toml", of_project));
    let at_home = InForce::find(&desk.home(), None, &desk.at("home")).unwrap();
    assert_eq!((at_home.config.mode, at_home.remarks.len()), (Mode::Shadow, 0));
    let flags = Flags { calls: NonZeroU64::new(700), ..Flags::default() };
    let in_force = desk.find().with_flags(flags);
    assert_eq!(in_force.remarks, [""; 0]);
    insta::assert_snapshot!(in_force.text, @r#"
    mode = "shadow"

    [budget]
    calls = 700
    tokens = 30

    [tools.put]
    volatile = ["a"]
    "#);
    assert_eq!(in_force.config, Config::parse(&in_force.text).unwrap());
    let live = Flags { mode: Some(Mode::Live), ..Flags::default() };
    assert_eq!(in_force.with_flags(live).config.mode, Mode::Live);
    let endless = Flags { calls: Some(NonZeroU64::MAX), ..Flags::default() };
    assert_eq!(InForce::shipped().with_flags(endless).remarks, [""; 0]);
}

#[test]
fn a_projects_file_is_looked_for_up_to_the_root_of_the_repository() {
    let desk = Desk::new();
    let find = |folder: &str| ProjectFile::find(&desk.at(folder));
    desk.write("midcourse.toml", "");
    assert_eq!(find("project/src/deep"), None, "it lies above the repository");
    let root = desk.write("project/midcourse.toml", "");
    assert_eq!(find("project/src/deep"), Some(root.clone()));
    let near = desk.write("project/src/midcourse.toml", "");
    assert_eq!(find("project/src/deep"), Some(near));
    assert_eq!(find("project"), Some(root));
    assert_eq!(find("home"), None, "without a repository only the folder itself counts");
    let own = desk.write("home/midcourse.toml", "");
    assert_eq!(find("home"), Some(own));
    assert_eq!(find("missing"), None);
}

#[test]
fn a_projects_file_counts_only_as_it_was_approved() {
    let desk = Desk::new();
    let path = desk.write("project/midcourse.toml", "mode = 'shadow'");
    let shown = path.display();
    let left_out = |why: &str| {
        let found = desk.find();
        assert_eq!(
            (found.config, found.text, found.remarks),
            (
                Config::shipped(),
                String::new(),
                vec![format!(
                    "{shown} {why} and is left out; `midcourse trust {shown}` shows it and asks"
                )]
            )
        );
    };
    left_out("is not approved");
    desk.approve(&path);
    assert_eq!(desk.find().config.mode, Mode::Shadow);
    desk.write("project/midcourse.toml", "mode = 'shadow' ");
    left_out("has changed since it was approved");
    desk.write("project/midcourse.toml", "mode = 'shadow'");
    assert_eq!(desk.find().config.mode, Mode::Shadow, "it says again what was approved");
    assert!(Trusted::revoke(&desk.home(), &path).unwrap());
    assert!(!Trusted::revoke(&desk.home(), &path).unwrap());
    left_out("is not approved");
}

#[test]
fn a_path_that_a_shell_would_read_otherwise_is_quoted() {
    let desk = Desk::new();
    fs::create_dir_all(desk.at("it's $(here)")).unwrap();
    desk.write("it's $(here)/midcourse.toml", "");
    let found = InForce::find(&desk.home(), None, &desk.at("it's $(here)")).unwrap();
    let quoted =
        format!("`midcourse trust '{}/it'\\''s $(here)/midcourse.toml'`", desk.at("").display());
    assert!(found.remarks[0].contains(&quoted.replace("//", "/")), "{:?}", found.remarks);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_neither_hurts_nor_hangs() {
    let desk = Desk::new();
    let at = desk.at("project/midcourse.toml");
    let told = |why: &str| {
        let found = desk.find();
        assert_eq!(found.config, Config::shipped());
        let remarks = found.remarks.join("\n");
        assert!(remarks.contains(why), "{remarks}");
        assert!(ProjectFile::read(&at).is_err());
    };
    fs::create_dir(&at).unwrap();
    told("it is not a file");
    fs::remove_dir(&at).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&at).status().unwrap();
    assert!(made.success());
    told("it is not a file");
    fs::remove_file(&at).unwrap();
    fs::write(&at, "# ".repeat(1 << 20)).unwrap();
    told("it is longer than 1 MiB");
    fs::write(&at, b"# \xff").unwrap();
    told("it is not text in UTF-8");
    fs::remove_file(&at).unwrap();

    // A link that leads nowhere is no file; one that was turned round counts by what it says now.
    let [good, bad] = [desk.write("good", "mode = 'live'"), desk.write("bad", "mode = 'shadow'")];
    std::os::unix::fs::symlink(desk.at("missing"), &at).unwrap();
    assert_eq!(desk.find(), InForce::shipped());
    fs::remove_file(&at).unwrap();
    std::os::unix::fs::symlink(&good, &at).unwrap();
    desk.approve(&at);
    assert_eq!(desk.find().text, "mode = \"live\"\n");
    desk.approve(&bad);
    fs::remove_file(&at).unwrap();
    std::os::unix::fs::symlink(&bad, &at).unwrap();
    assert!(desk.find().remarks[0].contains("has changed since"), "approved, but not here");
}

#[test]
fn what_is_found_and_broken_is_left_out_and_what_is_named_has_to_be_right() {
    let desk = Desk::new();
    let wrong = desk.write("home/midcourse.toml", "[analysis]\nwindow = 0");
    desk.approve(&desk.write("project/midcourse.toml", "[budget]\ncalls = 5"));
    let found = desk.find();
    assert_eq!(found.text, "[budget]\ncalls = 5\n");
    let expected = format!("a configuration is left out: {}:2:10: invalid", wrong.display());
    assert!(found.remarks[0].starts_with(&expected), "{:?}", found.remarks);

    let named = |path: &Path| InForce::find(&desk.home(), Some(path), &desk.at("project"));
    assert!(named(&wrong).unwrap_err().to_string().contains("midcourse.toml:2:10: invalid"));
    assert!(named(&desk.at("missing")).unwrap_err().to_string().contains("cannot be read"));
    let alone = named(&desk.write("own.toml", "mode = 'shadow'")).unwrap();
    assert_eq!((alone.text.as_str(), alone.remarks.len()), ("mode = \"shadow\"\n", 0));

    let broken = InForce::of_text("mode = 'loud'");
    assert_eq!(
        (broken.config, broken.text, broken.remarks.len()),
        (Config::shipped(), "".into(), 1)
    );
}

/// One setting of a file.
fn setting() -> impl Strategy<Value = (&'static str, String)> {
    let number = 1..9_i64;
    let text = "[a-z\"'\\\\ \u{e9}\n]{0,6}";
    prop_oneof![
        prop::bool::ANY
            .prop_map(|live| ("", format!("mode = '{}'", if live { "live" } else { "shadow" }))),
        number.clone().prop_map(|n| ("[budget]", format!("calls = {n}"))),
        number.clone().prop_map(|n| ("[budget]", format!("deadline = '{n}h'"))),
        (0.0..=1.0_f64).prop_map(|p| ("[analysis]", format!("similarity = {p:?}"))),
        prop::bool::ANY.prop_map(|on| ("[analysis]", format!("watch_drift = {on}"))),
        number.clone().prop_map(|n| ("[speaking]", format!("max_chars = {n}"))),
        number
            .clone()
            .prop_map(|n| ("[providers.stall_detector]", format!("trigger.every_n_calls = {n}"))),
        number
            .prop_map(|n| ("[providers.stall_detector]", format!("trigger.every_n_seconds = {n}"))),
        prop::bool::ANY.prop_map(|on| ("[providers.deadline]", format!("enabled = {on}"))),
        prop::collection::vec(text, 0..3).prop_map(|names| {
            ("[tools.\"fs put\"]", format!("volatile = {}", toml::Value::from(names)))
        }),
    ]
}

/// The text of a file, with its settings by their keys.
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

    /// What is recorded says what counted, and the same settings are recorded alike; the later layer
    /// decides key by key.
    #[test]
    fn what_is_recorded_of_it_says_the_same(user in layer(), project in layer(), calls in 0..4_u64) {
        let desk = Desk::new();
        desk.write("home/midcourse.toml", &written(&user));
        desk.approve(&desk.write("project/midcourse.toml", &written(&project)));
        let flags = Flags { calls: NonZeroU64::new(calls), ..Flags::default() };
        let in_force = desk.find().with_flags(flags);
        prop_assert_eq!(&in_force.remarks, &[""; 0]);
        prop_assert_eq!(&Config::parse(&in_force.text).unwrap(), &in_force.config);
        prop_assert_eq!(&InForce::of_text(&in_force.text), &in_force);

        let mut by_key = std::collections::BTreeMap::new();
        let of_flags = (calls > 0).then(|| ("[budget]", format!("calls = {calls}")));
        for setting in user.into_iter().chain(project).chain(of_flags) {
            by_key.insert((setting.0, setting.1.split(" = ").next().unwrap().to_owned()), setting);
        }
        let model: Vec<_> = by_key.into_values().collect();
        prop_assert_eq!(&InForce::of_text(&written(&model)), &in_force);
    }
}
