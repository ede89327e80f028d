//! Every command with `--json` has a schema in `docs/json`, the page `docs/json.md` names it, and what
//! the command prints is valid.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Output;

use jsonschema::Validator;
use serde_json::Value;

use crate::archive::everything;
use crate::events::{tool_started, user_message};
use crate::runs_command::User;

fn docs() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
}

/// The commands that have the option `--json`, from the help of the program.
fn commands_with_json(user: &User) -> BTreeSet<String> {
    let help = user.output(&["--help"]);
    let list = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names = list.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' '));
    let names = names.map(|line| line.split_whitespace().next().unwrap());
    let has_json = |name: &&str| user.output(&["help", name]).contains("--json");
    names.filter(|name| *name != "help").filter(has_json).map(str::to_owned).collect()
}

fn schema(command: &str) -> Validator {
    let file = docs().join("json").join(format!("{command}.schema.json"));
    assert!(file.exists(), "`midcourse {command} --json` has no schema {}", file.display());
    let text = std::fs::read_to_string(&file).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

#[test]
fn every_command_with_json_has_a_schema_on_the_page() {
    let commands = commands_with_json(&User::new());
    assert!(commands.len() >= 16, "{commands:?}");
    let page = std::fs::read_to_string(docs().join("json.md")).unwrap();
    for command in &commands {
        schema(command);
        let row = format!("| `{command}` | ");
        let line = page.lines().find(|line| line.starts_with(&row));
        let line = line.unwrap_or_else(|| panic!("docs/json.md has no row for `{command}`"));
        assert!(line.contains(&format!("(json/{command}.schema.json)")), "{line}");
    }
    for file in std::fs::read_dir(docs().join("json")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let command = name.strip_suffix(".schema.json").unwrap();
        // An option may change the form of the output.
        let form = command.strip_suffix("-since").or_else(|| command.strip_suffix("-effect"));
        let command = form.unwrap_or(command);
        let is_left_out = command == "archive" && !cfg!(feature = "archive");
        assert!(is_left_out || commands.contains(command), "{name} is the schema of no command");
    }
}

/// Checks outputs against the schemas, and counts the kinds of lines of each command.
#[derive(Default)]
struct Checked(BTreeMap<String, BTreeSet<String>>);

impl Checked {
    /// Runs a command; its first argument is its name.
    fn run(&mut self, user: &User, args: &[&str]) -> Output {
        let output = user.run(&[args, &["--json"]].concat());
        let schema = schema(args[0]);
        let kinds = self.0.entry(args[0].to_owned()).or_default();
        for line in String::from_utf8(output.stdout.clone()).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let errors: Vec<String> = schema
                .iter_errors(&line)
                .map(|error| format!("{error} at {}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{args:?}: {line}: {errors:?}");
            kinds.insert(line["type"].as_str().unwrap_or("object").to_owned());
        }
        output
    }
}

#[test]
fn the_output_of_every_command_is_valid() {
    let (user, mut checked) = (User::new(), Checked::default());
    everything(&mut user.place.open());
    user.place.open().append(tool_started("r", "open")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (runs, quiet, scenarios) = (path("runs.jsonl"), path("quiet.toml"), path("a.txt"));
    let call = r#"{"kind":"tool","tool":"bash","args":{"command":"make"},"result":"error: no rule","is_error":true}"#;
    let calls = [call; 5].join(",");
    std::fs::write(&runs, format!("{{\"run_id\":\"stuck\",\"events\":[{calls}]}}\n")).unwrap();
    std::fs::write(&quiet, "[providers.course_correction]\nenabled = false\n").unwrap();
    let scenario = "=== one\nexpect: repeated_error 3..4\n4x bash make !! error: no rule\n\
                    === two\nexpect: quiet\nbash ls -> a\n";
    std::fs::write(&scenarios, scenario).unwrap();

    checked.run(&user, &["import", &runs, "--format", "events"]);
    checked.run(&user, &["list"]);
    checked.run(&user, &["show", "r"]);
    checked.run(&user, &["show", "r", "--errors"]);
    checked.run(&user, &["show", "r:6"]);
    checked.run(&user, &["report", "r"]);
    checked.run(&user, &["tail", "-n", "100"]);
    checked.run(&user, &["search", "rule"]);
    checked.run(&user, &["replay", "--run", "r"]);
    checked.run(&user, &["replay", "--run", "r", "--config", &quiet]);
    checked.run(&user, &["label", "r", "good"]);
    checked.run(&user, &["label", "r:2", "bad", "--cause", "drift", "--note", "odd"]);
    checked.run(&user, &["label", "r:2"]);
    checked.run(&user, &["label", "--list"]);
    checked.run(&user, &["eval", "--labels"]);
    checked.run(&user, &["eval", "--labels", "--config", &quiet]);
    checked.run(&user, &["label", "r:2", "--remove"]);
    checked.run(&user, &["backtest", &runs]);
    checked.run(&user, &["backtest", &runs, "--against", &quiet]);
    checked.run(&user, &["eval", &scenarios]);
    checked.run(&user, &["doctor"]);
    checked.run(&user, &["redact", "r"]);
    let copy = path("copy.db");
    assert!(checked.run(&user, &["backup", &copy]).status.success());
    assert!(checked.run(&user, &["restore", &copy]).status.success());
    if cfg!(feature = "archive") {
        let archive = path("archive");
        checked.run(&user, &["archive", "--older-than", "1d", "--to", &archive, "--dry-run"]);
        checked.run(&user, &["archive", "--older-than", "1d", "--to", &archive]);
        assert!(checked.run(&user, &["import", &archive]).status.success());
    }
    checked.run(&user, &["repair"]);
    let other = rusqlite::Connection::open(user.data_dir().store_file()).unwrap();
    other.execute("UPDATE records SET payload = '{' WHERE seq = 3", []).unwrap();
    drop(other);
    checked.run(&user, &["verify"]);
    checked.run(&user, &["repair"]);
    checked.run(&user, &["prune", "--older-than", "1d"]);
    checked.run(&user, &["delete", "r", "--yes"]);
    user.place.open().append(user_message("last", "x")).unwrap();
    checked.run(&user, &["delete", "--all", "--yes"]);

    let commands: BTreeSet<String> = checked.0.keys().cloned().collect();
    assert_eq!(commands, commands_with_json(&user), "every command is checked");
    let kinds = |command: &str| checked.0[command].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(kinds("show"), ["record", "run"]);
    assert_eq!(kinds("search"), ["hit"]);
    assert_eq!(kinds("replay"), ["delivery", "difference", "outcome", "pattern", "run"]);
    assert_eq!(kinds("backtest"), ["delivery", "difference", "pattern", "run", "summary"]);
    assert_eq!(kinds("eval"), ["label", "label_summary", "scenario", "summary"]);
    assert_eq!(kinds("verify"), ["problem", "summary"]);
    assert_eq!(kinds("repair"), ["run", "summary"]);
}
