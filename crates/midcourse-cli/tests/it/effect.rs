//! `midcourse report --effect` on fleets of scripted agents that `midcourse record` watches: real
//! records, a real holdout, real outcomes. An agent that gets a message stops its loop with one
//! probability, an agent that gets none with another, so the effect is known.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::events::TempStore;

fn command(place: &TempStore, args: &[&str]) -> Command {
    std::fs::create_dir_all(place.data_dir().path()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(args).env("MIDCOURSE_HOME", place.data_dir().path()).env("TZ", "UTC");
    command.env("LC_ALL", "C.UTF-8").env_remove("COLUMNS").current_dir(place.data_dir().path());
    command
}

fn output(place: &TempStore, args: &[&str]) -> String {
    let output = command(place, args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(place: &TempStore) -> String {
    let text = output(place, &["report", "--effect"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

/// The JSON object, checked against its schema.
fn object(place: &TempStore) -> Value {
    let schema = include_str!("../../../../docs/json/report-effect.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let schema: Validator =
        jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let object = serde_json::from_str(&output(place, &["report", "--effect", "--json"])).unwrap();
    let errors: Vec<String> = schema.iter_errors(&object).map(|it| it.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}: {object}");
    object
}

fn configure(place: &TempStore, config: &str) {
    std::fs::create_dir_all(place.data_dir().path()).unwrap();
    std::fs::write(place.data_dir().config_file(), config).unwrap();
}

/// Agents that run one after the other, and the process that records them.
struct Fleet {
    recorder: Child,
    events: ChildStdin,
    replies: BufReader<ChildStdout>,
    at: u64,
    seed: u64,
}

impl Fleet {
    fn start(place: &TempStore) -> Self {
        let mut recorder = command(place, &["record", "--host", "scripted"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = recorder.stdin.take().unwrap();
        let replies = BufReader::new(recorder.stdout.take().unwrap());
        Self { recorder, events, replies, at: 1_790_000_000_000, seed: 1 }
    }

    /// Records one event, and returns whether the agent gets a message after it.
    fn record(&mut self, run: &str, payload: Value) -> bool {
        self.at += 1_000;
        let line = json!({"run_id": run, "recorded_at_unix_ms": self.at, "payload": payload});
        writeln!(self.events, "{line}").unwrap();
        let mut reply = String::new();
        self.replies.read_line(&mut reply).unwrap();
        let reply: Value = serde_json::from_str(&reply).unwrap();
        assert_eq!(reply["status"], "new", "{reply}");
        !reply["deliveries"].as_array().unwrap().is_empty()
    }

    /// Records a call whose result follows from its command.
    fn call(&mut self, run: &str, id: usize, command: &str) -> bool {
        let (id, tool) = (format!("c{id}"), "bash");
        let usage = json!({"input_tokens": 1_000 + 40 * self.random(), "output_tokens": 50});
        let message = json!({"role": "assistant", "content": [], "stop_reason": "tool_use",
                             "usage": usage});
        let started = json!({"kind": "tool_started", "tool_call_id": id, "tool_name": tool,
                             "args": {"command": command}});
        let text = format!("what {command} prints");
        let result = json!({"content": [{"type": "text", "text": text}]});
        let ended = json!({"kind": "tool_ended", "tool_call_id": id, "tool_name": tool,
                           "result": result, "is_error": false});
        [json!({"kind": "message_appended", "message": message}), started, ended]
            .into_iter()
            .map(|payload| self.record(run, payload))
            .fold(false, std::ops::BitOr::bitor)
    }

    /// A number from 0 to 99.
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) % 100
    }

    /// An agent that repeats a call. After a message, or where there would be one, it stops
    /// with one of these probabilities in percent, and otherwise goes on for a while.
    fn run(&mut self, number: u64, with_message: u64, without: u64) {
        let run = &format!("run-{number}");
        self.record(run, json!({"kind": "run_started", "identity": {"run_id": run}}));
        let task = json!({"role": "user", "content": "Build the project."});
        self.record(run, json!({"kind": "message_appended", "message": task}));
        let mut got_message = false;
        for id in 0..3 {
            got_message |= self.call(run, id, "make");
        }
        let stops = self.random() < if got_message { with_message } else { without };
        for id in 3..9 {
            if stops {
                let file = format!("src/file{id}.c");
                self.call(run, id, &format!("cat {file}"));
            } else {
                self.call(run, id, "make");
            }
        }
        let outcome = if stops { "completed" } else { "failed" };
        self.record(run, json!({"kind": "run_ended", "outcome": outcome, "new_messages": []}));
    }

    fn end(self) {
        let Self { mut recorder, events, replies, .. } = self;
        drop((events, replies));
        assert!(recorder.wait().unwrap().success());
    }
}

const PLAN: &str = "[experiment]\nholdout = 0.5\ncases = 40\n";

#[test]
fn an_effect_of_known_size_is_found() {
    let place = TempStore::new();
    configure(&place, PLAN);
    let mut fleet = Fleet::start(&place);
    (0..30).for_each(|run| fleet.run(run, 90, 20));
    let early = text(&place);
    assert!(early.contains("Not enough data yet: 30 of 40 cases."), "{early}");
    assert!(!early.contains('+'), "no result: {early}");
    assert_eq!(object(&place)["plans"][0]["effect"], Value::Null);

    (30..40).for_each(|run| fleet.run(run, 90, 20));
    let report = object(&place);
    let effect = &report["plans"][0]["effect"];
    assert_eq!(effect["verdict"], "helped");
    let difference = &effect["recovery"]["difference"];
    let end = |name: &str| difference[name].as_f64().unwrap();
    assert!(end("low") > 0.0 && end("low") < 0.7 && end("high") > 0.7, "{difference}");
    assert!(effect["calls"]["difference"]["high"].as_f64().unwrap() < 0.0, "{effect}");
    assert!(effect["tokens"]["difference"]["high"].as_f64().unwrap() < 1.0, "{effect}");
    assert!(effect["success"]["difference"]["low"].as_f64().unwrap() > 0.0, "{effect}");
    assert_eq!(effect["patterns"][0]["name"], "doom_loop");
    assert_eq!(effect["hosts"][0]["name"], "scripted");

    // Looking again after more cases gives the same result.
    let before = text(&place);
    assert!(before.contains("Yes, messages help."), "{before}");
    fleet.run(40, 0, 100);
    fleet.end();
    let later = object(&place);
    assert_eq!((&later["plans"][0]["effect"], &later["plans"][0]["later"]), (effect, &json!(1)));

    // Commands show to people that messages were withheld.
    let withheld = output(&place, &["show", "run-0", "--said"]);
    let delivered = output(&place, &["show", "run-1", "--said"]);
    assert!(format!("{withheld}{delivered}").contains("withheld"), "{withheld}{delivered}");
    for run in ["run-0", "run-1", "run-2", "run-3"] {
        let replay = output(&place, &["replay", "--run", run]);
        assert!(replay.contains("the same as in the recorded run"), "{replay}");
    }
}

#[test]
fn a_null_effect_is_not_claimed() {
    let place = TempStore::new();
    configure(&place, PLAN);
    let mut fleet = Fleet::start(&place);
    (0..40).for_each(|run| fleet.run(run, 50, 50));
    fleet.end();
    assert_eq!(object(&place)["plans"][0]["effect"]["verdict"], "not_shown");
    let text = text(&place);
    assert!(text.contains("An effect is not shown."), "{text}");
}

#[test]
fn plans_are_kept_apart_and_shadow_mode_is_no_comparison() {
    let place = TempStore::new();
    let second = "[experiment]\nholdout = 0.3\ncases = 20\nname = \"again\"\n";
    let shadow = format!("mode = \"shadow\"\n{PLAN}");
    for (number, config) in (0..).zip(["", PLAN, second, &shadow]) {
        configure(&place, config);
        let mut fleet = Fleet::start(&place);
        fleet.at += number * 1_000_000;
        (0..3).for_each(|run| fleet.run(100 * number + run, 50, 50));
        fleet.end();
    }
    let report = object(&place);
    let plans = report["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 2, "{report}");
    assert_eq!(
        (&plans[0]["plan"]["name"], &plans[1]["plan"]["name"]),
        (&Value::Null, &json!("again"))
    );
    assert_eq!(plans[0]["shadow"]["cases"], 3);
    let counts =
        |plan: &Value| plan["delivered"].as_u64().unwrap() + plan["withheld"].as_u64().unwrap();
    assert_eq!((counts(&plans[0]), counts(&plans[1])), (3, 3));
    let text = text(&place);
    assert!(text.contains("The plan changed: the runs have two plans."), "{text}");
    assert!(text.contains("3 in shadow mode, where no message is delivered"), "{text}");
}

#[test]
fn without_an_experiment_the_report_says_how_to_start_one() {
    let place = TempStore::new();
    let mut fleet = Fleet::start(&place);
    fleet.run(0, 50, 50);
    fleet.end();
    let none = text(&place);
    assert!(none.contains("There is no experiment") && none.contains("holdout = 0.2"), "{none}");
    configure(&place, PLAN);
    assert!(text(&place).contains("Not enough data yet: 0 of 40 cases."), "{}", text(&place));
}
