//! The configuration file: what it changes, how it fails, and that its page tells the truth.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use midcourse::{Config, judge, read_scenarios};
use midcourse_core::{Goals, ToolSetting};

fn page() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```toml\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// The keys that a table knows: those named in the error about one it does not know.
fn known_keys(table: &str) -> BTreeSet<String> {
    let error = Config::parse(&format!("{table}\nno_such_key = 1")).unwrap_err().problem;
    let (_, known) = error.split_once(", expected one of ").unwrap();
    known.split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
}

fn keys(table: &toml::Value) -> BTreeSet<String> {
    table.as_table().unwrap().keys().cloned().collect()
}

#[test]
fn the_page_has_every_key_with_its_default() {
    let [defaults, tools] = page().try_into().unwrap();
    assert_eq!(Config::parse(&defaults).unwrap(), Config::shipped());
    assert_eq!(Config::parse("").unwrap(), Config::shipped());
    let (defaults, tools): (toml::Table, toml::Table) =
        (toml::from_str(&defaults).unwrap(), toml::from_str(&tools).unwrap());
    let mut tables = keys(&toml::Value::Table(defaults.clone()));
    tables.extend(keys(&toml::Value::Table(tools.clone())));
    assert_eq!(tables, known_keys(""));
    for table in ["analysis", "speaking"] {
        assert_eq!(keys(&defaults[table]), known_keys(&format!("[{table}]")), "{table}");
    }
    assert_eq!(keys(&tools["tools"]["deploy"]), known_keys("[tools.deploy]"));
}

#[test]
fn a_file_changes_what_it_says_and_nothing_else() {
    let config = Config::parse(
        "[analysis]\nwindow = 200\nsimilarity = 1\nstall_after = '1h 30m'\n\
         [tools.deploy]\npolls = true\nvolatile = ['id']\n[tools.\"fs.put\"]\nwrites = false\n\
         [speaking]\ncool_down_calls = 7\ndeadline = false",
    )
    .unwrap();
    let mut expected = Config::shipped();
    expected.analysis.window = 200.try_into().unwrap();
    expected.analysis.similarity = 1.0.try_into().unwrap();
    expected.analysis.stall_after = std::time::Duration::from_secs(5_400);
    let deploy =
        ToolSetting { polls: Some(true), volatile: vec!["id".into()], ..Default::default() };
    let put = ToolSetting { writes: Some(false), ..Default::default() };
    let tools = expected.analysis.tools.with("deploy", deploy).with("fs.put", put);
    expected.analysis.tools = tools;
    expected.speaking.deadline = false;
    expected.speaking.delivery.ledger.cool_down_calls = 7.try_into().unwrap();
    assert_eq!(config, expected);
}

#[track_caller]
fn wrong(text: &str, expected: &str) {
    let error = Config::parse(text).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn what_is_wrong_is_shown_with_what_is_allowed() {
    insta::assert_snapshot!(Config::parse("[speaking]\n\n\tcool_down = 3\n").unwrap_err(), @"
    3:2: unknown key `cool_down`, expected one of `course_correction`, `deadline`, `cool_down_calls`
      |
    3 | 	cool_down = 3
      | 	^^^^^^^^^
    ");
    insta::assert_snapshot!(Config::parse("[analysis]\nwindow = 900 # all\n").unwrap_err(), @"
    2:10: invalid value: integer `900`, expected a whole number from 1 to 200
      |
    2 | window = 900 # all
      |          ^^^
    ");
    let whole = "expected a whole number from 1 to";
    for (line, told) in [
        ("window = 0", format!("invalid value: integer `0`, {whole} 200")),
        ("window = -1", format!("invalid value: integer `-1`, {whole} 200")),
        ("window = 'all'", format!("invalid type: string \"all\", {whole} 200")),
        ("window = 2.5", format!("invalid type: floating point `2.5`, {whole} 200")),
        ("shortest_cycle = 9", format!("invalid value: integer `9`, {whole} 8")),
        ("cycle_threshold = 1000001", format!("invalid value: integer `1000001`, {whole} 1000000")),
        (
            "similarity = 1.5",
            "invalid value: floating point `1.5`, expected a number from 0".into(),
        ),
        (
            "similarity = nan",
            "invalid value: floating point `NaN`, expected a number from 0".into(),
        ),
        ("similarity = 2", "invalid value: integer `2`, expected a number from 0 to 1".into()),
        ("watch_drift = 1", "invalid type: integer `1`, expected a boolean".into()),
    ] {
        let column = line.find("= ").unwrap() + 3;
        wrong(&format!("[analysis]\n{line}"), &format!("2:{column}: {told}"));
    }
    for length in ["soon", "0s", "-1s", "366d", "1mo", "5", ""] {
        let told = format!("2:12: invalid value: string \"{length}\", expected a length of time");
        wrong(&format!("[analysis]\npoll_gap = '{length}'"), &told);
    }
    wrong("[analysis]\npoll_gap = 60", "2:12: invalid type: integer `60`, expected a length of");
    wrong("analysis = 3", "1:12: invalid type: integer `3`, expected a table");
    wrong("[tools]\nbash = 3", "2:8: invalid type: integer `3`, expected a table");
    wrong("[tools.bash]\nwaits = true", "2:1: unknown key `waits`, expected one of `writes`,");
    wrong("[analyses]\n", "1:2: unknown key `analyses`, expected one of `analysis`, `tools`,");
    wrong("[analysis]\nwindow = 1\nwindow = 2", "3:1: duplicate key");
    wrong("[analysis\n", "1:10: ");
}

#[test]
fn any_place_in_any_text_can_be_shown() {
    for text in
        ["=", "\u{fc} = [", "a = \"\u{1f600}", "\n\n\r\n= ", "[analysis]\nwindow = \"\u{fc}\nb\""]
    {
        Config::parse(text).unwrap_err().to_string();
    }
    let long = format!("[analysis]\n{} = 1", "x".repeat(100_000));
    let shown = Config::parse(&long).unwrap_err().to_string();
    assert!(shown.lines().skip(1).all(|line| line.len() < 200));
}

#[test]
fn an_engine_speaks_as_the_file_says() {
    let scenario = "=== one\nexpect: quiet\n8x bash make !! error: no rule";
    let scenario = &read_scenarios(scenario).unwrap()[0];
    let words = |text: &str| {
        let mut engine = Config::parse(text).unwrap().engine(Goals::default());
        judge(scenario, &mut engine).words.iter().map(|word| word.event).collect::<Vec<_>>()
    };
    assert_eq!(words("")[..2], [3, 6]);
    assert_eq!(words("[speaking]\ncool_down_calls = 4")[..2], [3, 7]);
    assert_eq!(words("[speaking]\ncourse_correction = false"), [0_usize; 0]);
    let patient = "[analysis]\ncycle_threshold = 5\nerror_threshold = 5\ncascade_threshold = 9";
    assert_eq!(words(patient)[0], 5);
}

#[test]
fn the_command_reads_it_and_says_where_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("one.txt", "=== one\nexpect: quiet\n3x bash make !! error: no rule");
    write("silent.toml", "[speaking]\ncourse_correction = false");
    write("wrong.toml", "[analysis]\nwindow = 'all'");
    let eval = |config: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        let args = ["eval", "one.txt", "--max-spoken", "0", "--config", config];
        command.args(args).current_dir(folder.path()).output().unwrap()
    };
    assert!(eval("silent.toml").status.success());
    let wrong = eval("wrong.toml");
    assert_eq!(wrong.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(wrong.stderr).unwrap(), @r#"
    midcourse: wrong.toml:2:10: invalid type: string "all", expected a whole number from 1 to 200
      |
    2 | window = 'all'
      |          ^^^^^
    "#);
    let missing = String::from_utf8(eval("missing.toml").stderr).unwrap();
    assert!(missing.starts_with("midcourse: missing.toml cannot be read: "), "{missing}");
    assert!(Config::read(Path::new("/nowhere/at/all")).is_err());
}
