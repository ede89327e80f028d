//! The configuration file: what it changes, how it fails, and that its page tells the truth.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use midcourse::{DeliveryPolicy, Mode, ToolSetting};
use midcourse_cli::config::Config;
use midcourse_cli::scenario::{evaluate, parse_scenarios};

fn page() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```toml\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// The keys that a table knows: those named in the error about one it does not know.
fn known_keys(table: &str) -> BTreeSet<String> {
    let error = Config::parse(&format!("{table}\nno_such_key = 1")).unwrap_err().problem;
    let (_, known) = error.split_once(", expected ").unwrap();
    known.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

fn keys<'a>(tables: impl IntoIterator<Item = &'a toml::Table>) -> BTreeSet<String> {
    tables.into_iter().flat_map(|table| table.keys().cloned()).collect()
}

/// The table of this path, in each of the examples that has it.
fn tables<'a>(examples: &'a [toml::Table], path: &[&str]) -> Vec<&'a toml::Table> {
    let find = |example: &'a toml::Table| {
        path.iter().try_fold(example, |table, name| table.get(*name)?.as_table())
    };
    examples.iter().filter_map(find).collect()
}

#[test]
fn the_page_has_every_key_with_its_default() {
    let page = page();
    assert_eq!(Config::parse(&page[0]).unwrap(), Config::shipped());
    assert_eq!(Config::parse("").unwrap(), Config::shipped());
    let examples: Vec<toml::Table> = page
        .iter()
        .map(|text| {
            Config::parse(text).unwrap();
            toml::from_str(text).unwrap()
        })
        .collect();
    let providers = known_keys("[providers]");
    assert!(providers.len() > 9);
    assert_eq!(keys(&examples), known_keys(""));
    let mut paths = vec![vec!["tools", "deploy"]];
    paths.extend(["budget", "analysis", "speaking", "providers"].map(|table| vec![table]));
    paths.extend(providers.iter().map(|name| vec!["providers", name]));
    for path in paths {
        let table = path.join(".");
        assert_eq!(keys(tables(&examples, &path)), known_keys(&format!("[{table}]")), "{table}");
    }
    let trigger = tables(&examples, &["providers", "deadline", "trigger"]);
    assert_eq!(keys(trigger), known_keys("[providers.deadline.trigger]"));
}

#[test]
fn a_file_changes_what_it_says_and_nothing_else() {
    let config = Config::parse(
        "[analysis]\nwindow = 200\nsimilarity = 1\nstall_after = '1h 30m'\n\
         [tools.deploy]\npolls = true\nvolatile = ['id']\n[tools.\"fs.put\"]\nwrites = false\n\
         [speaking]\ncool_down_calls = 7\n[providers.deadline]\nenabled = false",
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
    expected.providers.deadline.enabled = false;
    expected.speaking.cool_down_calls = 7.try_into().ok();
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
    3:2: unknown key `cool_down`, expected one of `cool_down_calls`, `max_per_decision`, `max_deliveries`, `max_chars`
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
    wrong("[analyses]\n", "1:2: unknown key `analyses`, expected one of `mode`, `budget`,");
    wrong("mode = 'loud'", "1:8: invalid value: string \"loud\", expected \"live\" or \"shadow\"");
    wrong("mode = true", "1:8: invalid type: boolean `true`, expected \"live\" or \"shadow\"");
    wrong(
        "[budget]\ncalls = 0",
        "2:9: invalid value: integer `0`, expected a whole number of 1 or",
    );
    wrong("[budget]\ndeadline = 2", "2:12: invalid type: integer `2`, expected a length of time");
    let provider = "[providers.stall_detector]\n";
    wrong(
        &format!("{provider}on = true"),
        "2:1: unknown key `on`, expected `enabled` or `trigger`",
    );
    wrong(&format!("{provider}trigger = {{}}"), "2:11: a trigger has `every_n_calls`,");
    wrong(&format!("{provider}trigger = {{ every_n_calls = 0 }}"), "2:29: invalid value: integer");
    let guide = "[providers.diagnostic_signal]\n";
    wrong(&format!("{guide}cooldown_turns = -1"), "2:18: invalid value: integer `-1`, expected a");
    wrong(
        &format!("{guide}log_tool_name = 'a b'"),
        "2:17: invalid value: string \"a b\", expected",
    );
    wrong("[providers.oracle]", "1:12: unknown key `oracle`, expected one of `deadline`,");
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
    let scenario = &parse_scenarios(scenario).unwrap()[0];
    let words = |text: &str| {
        let mut engine = Config::parse(text).unwrap().engine();
        evaluate(scenario, &mut engine).deliveries().map(|it| it.event).collect::<Vec<_>>()
    };
    assert_eq!(words("")[..2], [3, 6]);
    assert_eq!(words("[speaking]\ncool_down_calls = 4")[..2], [3, 7]);
    assert_eq!(words("[providers.course_correction]\nenabled = false"), [0_usize; 0]);
    let patient = "[analysis]\ncycle_threshold = 5\nerror_threshold = 5\ncascade_threshold = 9";
    assert_eq!(words(patient)[0], 5);
}

#[test]
fn providers_speak_as_their_tables_say() {
    let scenario = "=== one\nexpect: quiet\n8x bash make !! error: no rule";
    let scenario = &parse_scenarios(scenario).unwrap()[0];
    let first = |text: &str| {
        let text = format!("[providers.course_correction]\nenabled = false\n{text}");
        let mut engine = Config::parse(&text).unwrap().engine();
        let result = evaluate(scenario, &mut engine);
        result.deliveries().next().map(|it| (it.event, it.delivery.provider().to_owned()))
    };
    let by = |event: usize, provider: &str| Some((event, provider.to_owned()));
    assert_eq!(first(""), None);
    for (table, told) in [
        ("[providers.diagnostic_signal]\nerror_threshold = 4", by(4, "diagnostic_signal")),
        ("[providers.consultation_prompt]", by(5, "consultation_prompt")),
        ("[providers.doom_loop_detector]\nshortest_cycle = 1", by(3, "doom_loop_detector")),
        ("[providers.error_cascade_detector]\nfailures = 6", by(6, "ErrorCascadeDetector")),
        ("[providers.stall_detector]", by(3, "StallDetector")),
        ("[providers.stall_detector]\ntrigger = {every_n_calls = 7}", by(7, "StallDetector")),
    ] {
        assert_eq!(first(table), None, "{table}");
        let (name, rest) = table.split_once(']').unwrap();
        assert_eq!(first(&format!("{name}]\nenabled = true{rest}")), told, "{table}");
    }
}

#[test]
fn the_file_goes_before_the_host_where_it_says_something() {
    let host = DeliveryPolicy {
        max_deliveries: Some(40),
        max_chars: Some(9),
        ..DeliveryPolicy::default()
    };
    let delivery = |text: &str| *Config::parse(text).unwrap().engine_for(host).prompt().delivery();
    assert_eq!(delivery(""), host);
    let said = delivery("[speaking]\nmax_per_decision = 1\nmax_chars = 70\ncool_down_calls = 4");
    assert_eq!((said.max_deliveries, said.max_chars), (Some(40), Some(70)));
    assert_eq!((said.guidance.max_per_decision, said.ledger.cool_down_calls.get()), (1, 4));
}

#[test]
fn the_mode_and_the_budget_reach_the_engine() {
    let config = Config::parse("mode = 'shadow'\n[budget]\ncalls = 4\ndeadline = '2h'").unwrap();
    assert_eq!((config.mode, config.deadline.unwrap().as_secs()), (Mode::Shadow, 7_200));
    assert_eq!((config.budget.calls(), config.budget.tokens()), (Some(4), None));
    let mut engine = config.engine();
    let mut said = Vec::new();
    for record in midcourse::parse_notation("3x read a.rs -> text").unwrap() {
        engine.take_in(&record);
        for feedback in engine.feedback(record.at()).said {
            said.push((feedback.render(), engine.delivered(feedback.clone())));
            engine.confirm(feedback, record.seq, record.at());
        }
    }
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, "[Feedback - Budget]\n\nYou have used 2 of 4 tool calls.");
    assert!(format!("{:?}", said[0].1).contains("shadow: true"), "{said:?}");
    let mut silent = Config::parse("[budget]\ncalls = 1\n[providers.budget]\nenabled = false");
    assert!(silent.as_mut().unwrap().engine().prompt().feedback_providers().len() == 1);
}

#[test]
fn the_command_reads_it_and_says_where_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("one.txt", "=== one\nexpect: quiet\n3x bash make !! error: no rule");
    write("silent.toml", "[providers.course_correction]\nenabled = false");
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
