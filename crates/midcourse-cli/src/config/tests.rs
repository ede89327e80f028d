//! Tests of the configuration file: the effect of its keys, its error messages, and that
//! `docs/configuration.md` matches the code.

use std::collections::BTreeSet;
use std::path::Path;

use midcourse::{DecisionPoint, DeliveryPolicy, Engine, Mode, ToolSetting, parse_notation};

use super::Config;

fn examples_in_docs() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```toml\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// All keys of a table, taken from the error message about an unknown key.
fn known_keys(table: &str) -> BTreeSet<String> {
    let error = Config::parse(&format!("{table}\nno_such_key = 1")).unwrap_err().problem;
    let (_, known) = error.split_once(", expected ").unwrap();
    known.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

fn keys<'a>(tables: impl IntoIterator<Item = &'a toml::Table>) -> BTreeSet<String> {
    tables.into_iter().flat_map(|table| table.keys().cloned()).collect()
}

/// Collects the table at this path, such as `providers.deadline`, from all examples that have it.
fn tables<'a>(examples: &'a [toml::Table], path: &[&str]) -> Vec<&'a toml::Table> {
    let find = |example: &'a toml::Table| {
        path.iter().try_fold(example, |table, name| table.get(*name)?.as_table())
    };
    examples.iter().filter_map(find).collect()
}

#[test]
fn the_docs_show_every_key_with_its_default() {
    let docs = examples_in_docs();
    assert_eq!(Config::parse(&docs[0]).unwrap(), Config::shipped());
    assert_eq!(Config::parse("").unwrap(), Config::shipped());
    let examples: Vec<toml::Table> = docs
        .iter()
        .map(|text| {
            Config::parse(text).unwrap();
            toml::from_str(text).unwrap()
        })
        .collect();
    let providers = known_keys("[providers]");
    assert!(providers.len() > 9);
    assert_eq!(keys(&examples), known_keys(""));
    let mut paths = vec![vec!["tools", "deploy"], vec!["prices", "my-model"]];
    paths.extend(
        [
            "budget",
            "analysis",
            "messages",
            "patterns",
            "providers",
            "retention",
            "ship",
            "experiment",
        ]
        .map(|it| vec![it]),
    );
    let patterns = known_keys("[patterns]");
    paths.extend(patterns.iter().map(|name| vec!["patterns", name]));
    paths.extend(providers.iter().map(|name| vec!["providers", name]));
    for path in paths {
        let table = path.join(".");
        assert_eq!(keys(tables(&examples, &path)), known_keys(&format!("[{table}]")), "{table}");
    }
    let trigger = tables(&examples, &["providers", "deadline", "trigger"]);
    assert_eq!(keys(trigger), known_keys("[providers.deadline.trigger]"));
}

#[test]
fn a_muted_pattern_gets_no_message_and_no_other_pattern_takes_its_place() {
    let messages = |config: &str| {
        let run = "user: go\n5x bash ls -> a.txt and b.txt and c.txt";
        let mut engine = Config::parse(config).unwrap().engine();
        let records = parse_notation(run).unwrap();
        let point = Some(DecisionPoint::PreToolSelection);
        records.iter().map(|record| engine.step(record, point).deliveries.len()).sum::<usize>()
    };
    assert_eq!(messages(""), 1);
    assert_eq!(messages("[patterns.doom_loop]\nenabled = false"), 0);
    assert_eq!(messages("[patterns.sweep]\nenabled = false"), 1);
    let error = Config::parse("[patterns.loops]\nenabled = false").unwrap_err().problem;
    assert!(error.contains("unknown key `loops`, expected one of `doom_loop`"), "{error}");
}

#[test]
fn a_file_changes_its_keys_and_nothing_else() {
    let config = Config::parse(
        "[analysis]\nwindow = 200\nsimilarity_threshold = 1\nstall_after = '1h 30m'\n\
         [tools.deploy]\npolls = true\nvolatile_args = ['id']\n[tools.\"fs.put\"]\nwrites = false\n\
         [messages]\ncooldown_calls = 7\n[providers.deadline]\nenabled = false",
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
    expected.messages.cooldown_calls = 7.try_into().ok();
    assert_eq!(config, expected);
}

#[track_caller]
fn fails(text: &str, expected: &str) {
    let error = Config::parse(text).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn errors_show_the_place_and_what_is_allowed() {
    insta::assert_snapshot!(Config::parse("[messages]\n\n\tcooldown = 3\n").unwrap_err(), @"
    3:2: unknown key `cooldown`, expected one of `cooldown_calls`, `max_per_decision`, `max_deliveries`, `max_chars`
      |
    3 | 	cooldown = 3
      | 	^^^^^^^^
    ");
    insta::assert_snapshot!(Config::parse("[analysis]\nwindow = 900 # all\n").unwrap_err(), @"
    2:10: invalid value: integer `900`, expected a whole number from 1 to 200
      |
    2 | window = 900 # all
      |          ^^^
    ");
}

#[test]
fn values_out_of_range_are_refused() {
    let whole = "expected a whole number from 1 to";
    for (line, error) in [
        ("window = 0", format!("invalid value: integer `0`, {whole} 200")),
        ("window = -1", format!("invalid value: integer `-1`, {whole} 200")),
        ("window = 'all'", format!("invalid type: string \"all\", {whole} 200")),
        ("window = 2.5", format!("invalid type: floating point `2.5`, {whole} 200")),
        ("min_cycle_len = 9", format!("invalid value: integer `9`, {whole} 8")),
        ("cycle_threshold = 1000001", format!("invalid value: integer `1000001`, {whole} 1000000")),
        (
            "similarity_threshold = 1.5",
            "invalid value: floating point `1.5`, expected a number from 0".into(),
        ),
        (
            "similarity_threshold = nan",
            "invalid value: floating point `NaN`, expected a number from 0".into(),
        ),
        (
            "similarity_threshold = 2",
            "invalid value: integer `2`, expected a number from 0 to 1".into(),
        ),
        ("detect_drift = 1", "invalid type: integer `1`, expected a boolean".into()),
    ] {
        let column = line.find("= ").unwrap() + 3;
        fails(&format!("[analysis]\n{line}"), &format!("2:{column}: {error}"));
    }
    for text in ["soon", "0s", "-1s", "366d", "1mo", "5", ""] {
        let error = format!("2:12: invalid value: string \"{text}\", expected a duration of up");
        fails(&format!("[analysis]\npoll_gap = '{text}'"), &error);
    }
    fails("[analysis]\npoll_gap = 60", "2:12: invalid type: integer `60`, expected a duration of");
    fails("mode = 'loud'", "1:8: invalid value: string \"loud\", expected \"live\" or \"shadow\"");
    fails("mode = true", "1:8: invalid type: boolean `true`, expected \"live\" or \"shadow\"");
    fails(
        "[budget]\ncalls = 0",
        "2:9: invalid value: integer `0`, expected a whole number of 1 or",
    );
    fails("[budget]\ndeadline = 2", "2:12: invalid type: integer `2`, expected a duration of up");
}

#[test]
fn unknown_keys_and_wrong_tables_are_refused() {
    fails("analysis = 3", "1:12: invalid type: integer `3`, expected a table");
    fails("[tools]\nbash = 3", "2:8: invalid type: integer `3`, expected a table");
    fails("[tools.bash]\nwaits = true", "2:1: unknown key `waits`, expected one of `writes`,");
    fails("[analyses]\n", "1:2: unknown key `analyses`, expected one of `mode`, `budget`,");
    let provider = "[providers.stall_detector]\n";
    fails(
        &format!("{provider}on = true"),
        "2:1: unknown key `on`, expected `enabled` or `trigger`",
    );
    fails(&format!("{provider}trigger = {{}}"), "2:11: a trigger needs `every_n_calls`,");
    fails(&format!("{provider}trigger = {{ every_n_calls = 0 }}"), "2:29: invalid value: integer");
    let guide = "[providers.diagnostic_signal]\n";
    fails(&format!("{guide}cooldown_turns = -1"), "2:18: invalid value: integer `-1`, expected a");
    fails(
        &format!("{guide}log_tool_name = 'a b'"),
        "2:17: invalid value: string \"a b\", expected",
    );
    fails("[providers.oracle]", "1:12: unknown key `oracle`, expected one of `deadline`,");
    fails("[analysis]\nwindow = 1\nwindow = 2", "3:1: duplicate key");
    fails("[analysis\n", "1:10: ");
}

#[test]
fn an_error_can_be_shown_for_any_text() {
    for text in
        ["=", "\u{fc} = [", "a = \"\u{1f600}", "\n\n\r\n= ", "[analysis]\nwindow = \"\u{fc}\nb\""]
    {
        Config::parse(text).unwrap_err().to_string();
    }
    let long = format!("[analysis]\n{} = 1", "x".repeat(100_000));
    let shown = Config::parse(&long).unwrap_err().to_string();
    assert!(shown.lines().skip(1).all(|line| line.len() < 200));
}

/// Shows eight failing tool calls to an engine with this configuration. Returns, for each message
/// to the agent, how many calls had been made by then and which provider created the message.
fn deliveries(config: &str) -> Vec<(u64, String)> {
    let mut engine: Engine = Config::parse(config).unwrap().engine();
    let mut found = Vec::new();
    for record in parse_notation("8x bash make !! error: no rule").unwrap() {
        let step = engine.step(&record, Some(DecisionPoint::PreToolSelection));
        let calls = engine.trajectory().tool_call_count();
        let providers = step.deliveries.iter().map(|delivery| delivery.provider().to_owned());
        found.extend(providers.map(|provider| (calls, provider)));
    }
    found
}

#[test]
fn the_engine_delivers_as_the_file_says() {
    let calls = |config: &str| deliveries(config).iter().map(|(call, _)| *call).collect::<Vec<_>>();
    assert_eq!(calls("")[..2], [3, 6]);
    assert_eq!(calls("[messages]\ncooldown_calls = 4")[..2], [3, 7]);
    assert_eq!(calls("[providers.course_correction]\nenabled = false"), [0; 0]);
    let patient = "[analysis]\ncycle_threshold = 5\nerror_threshold = 5\ncascade_threshold = 9";
    assert_eq!(calls(patient)[0], 5);
}

#[test]
fn providers_deliver_as_their_tables_say() {
    let first = |text: &str| {
        let text = format!("[providers.course_correction]\nenabled = false\n{text}");
        deliveries(&text).into_iter().next()
    };
    let by = |call: u64, provider: &str| Some((call, provider.to_owned()));
    assert_eq!(first(""), None);
    for (table, expected) in [
        ("[providers.diagnostic_signal]\nerror_threshold = 4", by(4, "diagnostic_signal")),
        ("[providers.consultation_prompt]", by(5, "consultation_prompt")),
        ("[providers.doom_loop_detector]\nmin_cycle_len = 1", by(3, "doom_loop_detector")),
        (
            "[providers.error_cascade_detector]\nfailure_threshold = 6",
            by(6, "ErrorCascadeDetector"),
        ),
        ("[providers.stall_detector]", by(3, "StallDetector")),
        ("[providers.stall_detector]\ntrigger = {every_n_calls = 7}", by(7, "StallDetector")),
    ] {
        assert_eq!(first(table), None, "{table}");
        let (name, rest) = table.split_once(']').unwrap();
        assert_eq!(first(&format!("{name}]\nenabled = true{rest}")), expected, "{table}");
    }
}

#[test]
fn a_provider_delivers_at_the_decision_points_of_its_table() {
    let delivers_at = |points: &str| -> Vec<DecisionPoint> {
        let table = format!("[providers.course_correction]\n{points}");
        let config = Config::parse(&table).unwrap();
        let records = parse_notation("3x bash make !! error: missing separator").unwrap();
        let delivers = |point: &DecisionPoint| {
            let mut engine = config.engine();
            records.iter().any(|record| !engine.step(record, Some(*point)).deliveries.is_empty())
        };
        DecisionPoint::ALL.into_iter().filter(delivers).collect()
    };
    use DecisionPoint::{PostToolResult, PreResponse, PreToolExecution, PreToolSelection};
    assert_eq!(delivers_at(""), [PreToolSelection, PostToolResult]);
    let both = r#"decision_points = ["pre_tool_execution", "pre_response"]"#;
    assert_eq!(delivers_at(both), [PreToolExecution, PreResponse]);
    assert_eq!(delivers_at("decision_points = []"), []);
    fails(
        "[providers.course_correction]\ndecision_points = ['now']",
        "2:19: unknown decision point `now`; use some of: pre_render, pre_tool_selection, \
         pre_tool_execution, post_tool_result, pre_response",
    );
}

#[test]
fn limits_in_the_file_replace_those_of_the_host() {
    let host = DeliveryPolicy {
        max_deliveries: Some(40),
        max_chars: Some(9),
        ..DeliveryPolicy::default()
    };
    let policy = |text: &str| *Config::parse(text).unwrap().engine_for(host).prompt().delivery();
    assert_eq!(policy(""), host);
    let limited = policy("[messages]\nmax_per_decision = 1\nmax_chars = 70\ncooldown_calls = 4");
    assert_eq!((limited.max_deliveries, limited.max_chars), (Some(40), Some(70)));
    assert_eq!((limited.guidance.max_per_decision, limited.ledger.cool_down_calls.get()), (1, 4));
}

#[test]
fn the_mode_and_the_budget_reach_the_engine() {
    let config = Config::parse("mode = 'shadow'\n[budget]\ncalls = 4\ndeadline = '2h'").unwrap();
    assert_eq!((config.mode, config.deadline.unwrap().as_secs()), (Mode::Shadow, 7_200));
    assert_eq!((config.budget.calls(), config.budget.tokens()), (Some(4), None));
    let mut engine = config.engine();
    let mut delivered = Vec::new();
    for record in parse_notation("2x read a.rs -> text").unwrap() {
        let step = engine.step(&record, Some(DecisionPoint::PostToolResult));
        delivered.extend(step.deliveries.iter().map(|delivery| delivery.text()));
        let records = format!("{:?}", step.records);
        assert_eq!(records.contains("shadow: true"), !step.deliveries.is_empty(), "{records}");
    }
    assert_eq!(delivered, ["[Feedback - Budget]\n\nYou have used 2 of 4 tool calls."]);
    let config = Config::parse("[budget]\ncalls = 1\n[providers.budget]\nenabled = false").unwrap();
    assert_eq!(config.engine().prompt().feedback_providers().len(), 1);
}

#[test]
fn a_file_that_does_not_exist_is_an_error() {
    let error = Config::read(Path::new("/nowhere/at/all")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read /nowhere/at/all: "), "{error}");
}
