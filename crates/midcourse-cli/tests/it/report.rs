//! `midcourse report`: what it says about three recorded nights, in which forms, and that nothing
//! from a run can do anything in its page.

mod page;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::archive::everything;
use crate::events::{TempStore, at, root, user_message};

#[path = "../../examples/nights.rs"]
#[expect(dead_code, reason = "an example, with a main function")]
mod nights;

fn command(place: &TempStore, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
    command.args(args).env("MIDCOURSE_HOME", place.data_dir().path()).env("TZ", "UTC");
    command.env("LC_ALL", "C.UTF-8").env_remove("COLUMNS").stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn report(place: &TempStore, args: &[&str]) -> String {
    output(command(place, &["report"]).args(args))
}

/// Records lines with the command, so that the engine speaks as in a live run.
fn record(place: &TempStore, lines: &[Value]) -> Output {
    let mut child =
        command(place, &["record"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// A store with the three nights, recorded once for all tests.
fn three_nights() -> &'static TempStore {
    static STORE: OnceLock<TempStore> = OnceLock::new();
    STORE.get_or_init(|| {
        let place = TempStore::new();
        record(&place, &nights::nights());
        place
    })
}

#[test]
fn a_night_with_a_loop_is_told_in_one_page() {
    insta::assert_snapshot!(report(three_nights(), &["night-looped"]), @r#"
    Finished after 4 h 16 min, exit code 0.
    It ran "docker compose" 14 times with the same failure from 00:58 to 01:42. midcourse spoke three
    times; the problem went away after the third message.

      run       night-looped
      task      Make the integration tests of the billing service pass against Postgres 16 and remove
                the Postgres 12 workarounds
      folder    /home/ada/src/billing
      command   claude -p --permission-mode acceptEdits 'Make the integration tests …'
      agent     claude-code 2.1.34, claude-sonnet-4-5-20250929, claude-haiku-4-5-20251001
      time      Tue 2026-03-03 23:03 to Wed 2026-03-04 03:19 (4 h 16 min)
      calls     170, 17 failed or refused; with 1 subagent
      tokens    11.0 M in (10.9 M of them from the cache), 49.5 k out
      cost      $4.30, estimated with list prices as known on 2026-11-16

      calls     ▃▂▁▃▃▃▃▃▃▃▂▁▄▂▂▃▃▂▁▃▃▃▃▃▃▃▃▃▂▁▃▂▁▃▃▂▁▃█▆▁▁▁▁▁▁ ▁▁▁▁▁ ▁▁▃▂·▂·▂·▁▁·▂·▂·▂·▁▂▁▁▁·▂▁▁▃▁▃▂▁▁▃
      failed                                           ▁▁▁▁▁▁▁ ▁▁▁▁▁ ▁▁                         ▁ ▁   ▁
      trouble                                          ━━━━━━━━━━━━━━━━
      messages                                            ▲  ▲       ▲
                ╵             ╵             ╵             ╵             ╵             ╵
                23:03         23:43         00:24         01:05         01:46         02:26
                a column is 2 min 54 s; the highest bar is 11 calls; · nothing recorded

    Where it went wrong
      00:58  the trouble began (night-looped:402)
      01:06  midcourse noticed, after call 103 (:414): it ran "docker compose" four times with the same
             failure
             by 01:42 it ran "docker compose" 14 times with the same failure

    3 messages to the agent
      01:06  You ran "docker compose" 4 times in 8 minutes, and it failed the same way each time, with
             nothing in between. Look at what is in the way (an existing file, a lock, a process), and
             then remove, reuse or avoid it.
             why: the same error again and again (repeated_error); see night-looped:402, :406, :410,
             :414
             then: the problem was still there after 5 calls
      01:16  You ran "docker compose" 7 times in 18 minutes, and it failed the same way each time, with
             nothing in between. Find out who holds it, and since when, before you act on it.
             why: the same error again and again (repeated_error); see night-looped:402, :406, :410,
             :414, :419, :423
             then: the problem was still there after 5 calls
      01:38  You ran "docker compose" 13 times in 40 minutes, and it failed the same way each time, with
             nothing in between. Write down what is known, what is ruled out and what blocks you; then
             go on with other work, or report it as open.
             why: the same error again and again (repeated_error); see night-looped:402, :406, :410,
             :414, :419, :423
             then: the problem went away after 5 calls

    What failed
         14 ×  ran "docker compose" (something is in the way)
               Error response from daemon: driver failed programming external connectivity on endpoint
               billing-postgres-1: Bind for 0.0.0.0:5432 failed: port is already alloc…
          3 ×  ran "cargo test" (a failing check)
               assertion failed: left: 437.10 right: 437.1

    38 files written or edited
      .env.test, compose.yaml, migrations/0015.sql, src/account/queries.rs, src/account/rows.rs,
      src/address/queries.rs, src/address/rows.rs, src/audit/queries.rs
      … 30 more files

    Subagents
      00:54  15 calls, 0 failed, 0 messages, 3 min 13 s (night-looped-review): Review the migrations for
             features that Postgres 16 removed, and list them

    The last thing the agent said (03:19)
      The integration tests pass against Postgres 16, and the Postgres 12 workarounds are gone. The
      local Postgres of this machine already uses port 5432, so the test database now listens on 55432
      (compose.yaml and .env.test). Migration 15 no longer uses OIDs.

    Look next
      midcourse show night-looped:402               where the trouble began
      midcourse show night-looped --errors          the calls that failed
      midcourse show night-looped --said            what midcourse said
      midcourse report night-looped --html          this report as a page, with more
    "#);
}

#[test]
fn the_first_sentences_say_how_a_night_went() {
    let opening = |run: &str| {
        let text = report(three_nights(), &[run]);
        text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(opening("night-clean"), @r#"
    Finished after 2 h 7 min, exit code 0.
    midcourse found no trouble and said nothing.
    "#);
    insta::assert_snapshot!(opening("night-died"), @r#"
    It has no recorded end: it stopped or was killed at 02:07, after 2 h 57 min.
    Its last call, Bash idf.py fullclean && idf.py build, began at 02:07 and has no result. It ran
    "idf.py" 16 times with the same failure from 00:37 to 02:06. midcourse spoke four times; the problem
    was still there after three of these messages.
    "#);
}

#[test]
fn without_a_name_the_last_run_is_reported_and_no_subagent() {
    let place = TempStore::new();
    let mut store = place.open();
    let mut parent = user_message("parent", "Do it");
    parent.at = at(5);
    store.append(parent).unwrap();
    let mut child = user_message("child", "Do a part of it");
    child.run = midcourse::RunIdentity::child_of(&root("parent"), "child");
    child.at = at(9);
    store.append(child).unwrap();
    drop(store);
    let reported: Value = serde_json::from_str(&report(&place, &["--json"])).unwrap();
    assert_eq!((&reported["run_id"], &reported["task"]), (&json!("parent"), &json!("Do it")));
    assert_eq!(reported["subagents"][0]["run_id"], "child");
}

#[test]
fn lines_keep_to_the_width_and_the_strip_to_the_characters_of_the_locale() {
    for width in [60, 100, 200] {
        for run in ["night-looped", "night-died"] {
            let mut command = command(three_nights(), &["report", run]);
            let text = output(command.env("COLUMNS", width.to_string()));
            // Commands to copy are not broken.
            let (text, _) = text.split_once("Look next").unwrap();
            let long = text.lines().find(|line| line.chars().count() > width);
            assert_eq!(long, None, "{width}");
        }
    }
    let mut command = command(three_nights(), &["report", "night-died"]);
    let text = output(command.env("LC_ALL", "C"));
    let strip = text.lines().skip_while(|line| !line.starts_with("  failed")).take(6);
    assert!(strip.clone().all(str::is_ascii), "{:?}", strip.collect::<Vec<_>>());
}

fn schema(text: &str) -> Validator {
    let schema: Value = serde_json::from_str(text).unwrap();
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

#[track_caller]
fn assert_valid(schema: &Validator, json: &str) -> Value {
    assert_eq!(json.trim_end().lines().count(), 1);
    let value = serde_json::from_str(json).unwrap();
    let errors: Vec<String> = schema.iter_errors(&value).map(|it| it.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}: {value}");
    value
}

#[test]
fn the_json_of_a_run_matches_its_schema() {
    let schema = schema(include_str!("../../../../docs/json/report.schema.json"));
    for run in ["night-clean", "night-looped", "night-died"] {
        let value = assert_valid(&schema, &report(three_nights(), &[run, "--json"]));
        assert_eq!(value["run_id"], run);
    }
    let place = TempStore::new();
    let mut store = place.open();
    everything(&mut store);
    drop(store);
    assert_valid(&schema, &report(&place, &["r", "--json"]));
}

#[test]
fn a_period_is_summed_up_by_outcome_pattern_model_and_project() {
    let schema = schema(include_str!("../../../../docs/json/report-since.schema.json"));
    let since = |args: &[&str]| {
        let args = [&["--since", "2026-03-01"], args].concat();
        report(three_nights(), &args)
    };
    insta::assert_snapshot!(since(&[]), @r#"
    3 runs since 2026-03-01 00:00:00.
    2 finished, 1 without an end. They took 9 h 21 min and 600 calls, of which 44 failed or were
    refused; with 1 subagent. midcourse found trouble in 2 runs: 3 h 15 min (34 %) and 74 calls (12 %)
    came after its first sign. Tokens: 45.3 M in, 165 k out; cost: $22.15, partly estimated with list
    prices as known on 2026-11-16.

    Patterns
    TIMES  RUNS  PATTERN
        2     2  the same error again and again  repeated_error

    Messages, and what became of the problem
    SHOWN  NOT SHOWN  WENT AWAY  STILL THERE  RUN ENDED  ABOUT                           PROVIDER
        7          0          1            5          0  the same error again and again  course_correction

    Tokens and cost by model
    RUNS  TOKENS IN  CACHED     OUT  MODEL                       COST
       2     28.5 M  28.3 M   106 k  claude-sonnet-4-5-20250929  ~$11.63
       1     16.4 M  16.2 M  54.7 k  claude-opus-4-5-20251101    ~$10.44
       1      391 k   379 k   4.6 k  claude-haiku-4-5-20251001   ~$0.08

    Tokens and cost by project
    RUNS  TOKENS IN  CACHED     OUT  FOLDER                     COST
       1     17.9 M  17.7 M  61.1 k  /home/ada/src/billing-web  $7.41
       1     16.4 M  16.2 M  54.7 k  /home/ada/src/sensor-fw    ~$10.44
       2     11.0 M  10.9 M  49.5 k  /home/ada/src/billing      ~$4.30
    ~ estimated with list prices as known on 2026-11-16

    Runs worth a look
      midcourse report night-looped
          2026-03-03 23:03:00, finished; 52 of 155 calls after the first sign of trouble (the same error
          again and again): Make the integration tests of the billing service pass against Postgres 16
          and remove the Postgres …
      midcourse report night-died
          2026-03-04 23:10:00, without an end; 22 of 209 calls after the first sign of trouble (the same
          error again and again): Port the firmware to SDK 5.2 and get the release build below 512 KB
    "#);
    let all = assert_valid(&schema, &since(&["--json"]));
    assert_eq!((&all["runs"], &all["subagents"]), (&json!(3), &json!(1)));
    let billing = assert_valid(&schema, &since(&["--json", "--project", "/home/ada/src/billing"]));
    assert_eq!((&billing["runs"], &billing["subagents"]), (&json!(1), &json!(1)));
    for none in
        [["--project", "/home/ada/src/bill"], ["--host", "codex"], ["--until", "2026-03-02"]]
    {
        let value = assert_valid(&schema, &since(&[&["--json"], none.as_slice()].concat()));
        assert_eq!(value["runs"], 0, "{none:?}");
    }
    let later = report(three_nights(), &["--since", "2026-03-04T12:00:00Z", "--json"]);
    assert_eq!(assert_valid(&schema, &later)["worst"][0]["run_id"], "night-died");
}

#[test]
fn a_price_of_the_user_counts() {
    let place = TempStore::new();
    let usage = json!({"input_tokens": 2_000_000, "output_tokens": 1_000_000});
    let line = |payload: Value| json!({"run_id": "r", "payload": payload});
    let lines = [
        line(json!({"kind": "run_described", "model": "my-model"})),
        line(json!({"kind": "usage_reported", "usage": usage})),
    ];
    record(&place, &lines);
    let cost =
        || report(&place, &["r"]).lines().find(|it| it.starts_with("  cost")).map(str::to_owned);
    assert_eq!(cost().unwrap(), "  cost      unknown; there is no price for my-model");
    let config = "[prices.my-model]\ninput = 1.5\noutput = 4\n";
    std::fs::write(place.data_dir().config_file(), config).unwrap();
    assert_eq!(cost().unwrap(), "  cost      $7.00, estimated with your prices");
}
