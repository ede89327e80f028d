//! `midcourse label`, `midcourse eval --labels` and `midcourse replay --config`, on a stored run in
//! which midcourse gave one message.

use midcourse::{
    Budget, DecisionPoint, Engine, Event, RunId, SyncedEngine, ToolResult, TrajectoryPayload,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::events::{at, findings, hook, root, tool_started, user_message};
use crate::runs_command::User;

/// A user with two runs. In `stuck`, the third equal failure gets a message, which is record 7; its
/// last record is 11. In `fine`, nothing is wrong; its last record is 4.
fn user() -> User {
    let user = User::new();
    let mut store = user.place.open();
    for (run, result, is_error) in [("stuck", "error: no rule", true), ("fine", "built", false)] {
        let mut engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
        store.step(user_message(run, "make it build"), &mut engine).unwrap();
        for call in 0..if is_error { 5 } else { 2 } {
            let id = call.to_string();
            store.step(tool_started(run, &id), &mut engine).unwrap();
            let payload = TrajectoryPayload::ToolEnded {
                tool_call_id: id.as_str().into(),
                tool_name: "bash".into(),
                result: ToolResult::text(result),
                is_error,
            };
            let event = Event::new(root(run), hook(), at(60 * (call + 1)), payload);
            let event = event.at_decision_point(DecisionPoint::PreToolSelection);
            store.step(event, &mut engine).unwrap();
        }
    }
    drop(store);
    let messages = user.lines(&["show", "stuck", "--said", "--json"]);
    assert_eq!(messages[1]["seq"], 7, "{messages:?}");
    user
}

/// A folder with configuration files: one that speaks later, and one that never speaks.
fn configs() -> (TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let patient = write("patient.toml", "[analysis]\nerror_threshold = 5\ncycle_threshold = 5\n");
    let silent = write("silent.toml", "[providers.course_correction]\nenabled = false\n");
    (folder, patient, silent)
}

fn exit_code(user: &User, args: &[&str]) -> Option<i32> {
    user.run(args).status.code()
}

#[test]
fn a_label_says_what_it_means() {
    let user = user();
    let label = |args: &[&str]| user.output(&[&["label"], args].concat());
    let shown = label(&["stuck", "good", "--at", "7"]);
    let said =
        "Labelled stuck, record 7 (call 3) as good: the message about repeated_error was right.";
    assert_eq!(shown.lines().next(), Some(said));
    assert!(shown.contains("  You ran \"make\" 3 times"), "{shown}");
    let shown = label(&["stuck:7", "bad"]);
    assert!(
        shown.contains("as bad: the message about repeated_error was a false alarm."),
        "{shown}"
    );
    let shown = label(&["fine", "good", "--at", "2"]);
    assert_eq!(shown, "Labelled fine, record 2 (call 1) as good: silence was right.\n");
    let shown = label(&["fine", "bad", "--at", "4", "--cause", "stagnation", "--note", "odd"]);
    let said = "Labelled fine, record 4 (call 2) as bad: a message about stagnation was missing.\n";
    assert_eq!(shown, said);
    let shown = label(&["fine", "bad"]);
    assert_eq!(shown, "Labelled fine as bad: a message was missing.\n");
    let shown = label(&["stuck", "good"]);
    assert_eq!(shown, "Labelled stuck as good: its message was right, and no other was due.\n");
    insta::assert_snapshot!(label(&["--list"]), @r"
    stuck (make it build)
      good  whole run, right
      bad   record 7 (call 3), message about repeated_error: false alarm
    fine (make it build)
      bad   whole run, wrong
      good  record 2 (call 1), silence: right
      bad   record 4 (call 2), message about stagnation missing
            odd
    ");
    let listed = user.lines(&["label", "fine", "--json"]);
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[2]["about"], "silence");
    assert_eq!(label(&["fine", "--remove"]), "Removed the label of fine.\n");
    assert_eq!(label(&["fine:2", "--remove"]), "Removed the label of fine, record 2.\n");
    assert_eq!(user.lines(&["label", "fine", "--json"]).len(), 1);
}

#[test]
fn a_label_that_makes_no_sense_is_refused() {
    let user = user();
    for (args, expected) in [
        (vec!["nothing", "good"], "no run `nothing`; `midcourse list --all` shows all runs"),
        (vec!["good"], "name the run before it, as in `midcourse label latest good`"),
        (vec!["stuck", "good", "--at", "99"], "the run has no record 99; its last is 11"),
        (
            vec!["stuck", "good", "--at", "6"],
            "record 6 got a message, so there was no silence; label the message, record 7",
        ),
        (
            vec!["stuck", "good", "--at", "1", "--cause", "doom_loop"],
            "`--cause` says which message was missing; use it with `bad`",
        ),
        (
            vec!["stuck", "bad", "--at", "7", "--cause", "doom_loop"],
            "record 7 is a message, so none was missing there; leave out `--cause`",
        ),
        (vec!["stuck", "bad", "--cause", "doom_loop"], "add `--at SEQ`"),
        (vec!["stuck:3", "good", "--at", "7"], "name different records; leave one out"),
        (vec!["fine", "--remove"], "fine has no label of its own"),
    ] {
        let error = user.error(&[&["label"], args.as_slice()].concat());
        assert!(error.contains(expected), "{args:?}: {error}");
    }
    for args in [vec!["stuck", "fine"], vec!["stuck", "bad", "--cause", "loop"], vec![]] {
        assert_eq!(exit_code(&user, &[&["label"], args.as_slice()].concat()), Some(2), "{args:?}");
    }
    assert_eq!(user.lines(&["label", "--list", "--json"]), [Value::Null; 0]);
}

#[test]
fn eval_compares_a_configuration_with_labels() {
    let user = user();
    let (_folder, patient, silent) = configs();
    let error = user.error(&["eval", "--labels"]);
    assert!(
        error.contains(
            "there are no labels yet; make one with `midcourse label RUN good|bad [--at SEQ]`"
        ),
        "{error}"
    );
    user.output(&["label", "stuck", "good", "--at", "7"]);
    user.output(&["label", "fine", "good"]);
    insta::assert_snapshot!(user.output(&["eval", "--labels"]), @r"
    CAUSE           EXPECTED  GIVEN  MISSED  GONE  FALSE ALARMS  RECALL  PRECISION
    repeated_error         1      1       0     0             0   100 %      100 %

    2 labelled runs: 1 of 1 expected message given (100 %); 0 false alarms in 1 quiet place (0 %).
    ");
    let moved = user.lines(&["eval", "--labels", "stuck", "--config", &patient, "--json"]);
    assert_eq!(moved[0]["as_labelled"], true, "two calls later is still the same message");
    assert_eq!(
        (&moved[0]["delivered"]["call"], &moved[0]["same_text"]),
        (&5.into(), &false.into())
    );
    insta::assert_snapshot!(user.output(&["eval", "--labels", "--config", &silent]), @r"
    CAUSE           EXPECTED  GIVEN  MISSED  GONE  FALSE ALARMS  RECALL  PRECISION
    repeated_error         1      0       1     0             0     0 %          –

    2 labelled runs: 0 of 1 expected message given (0 %); 0 false alarms in 1 quiet place (0 %).

    Not as labelled:
      midcourse show stuck:7
        label    record 7 (call 3), message about repeated_error: right
        now      not delivered
    ");
    let strict = ["eval", "--labels", "--min-caught", "100", "--max-false-alarms", "0"];
    assert_eq!(exit_code(&user, &strict), Some(0));
    assert_eq!(exit_code(&user, &[&strict[..], &["--config", &silent]].concat()), Some(1));
    // The opposite opinion.
    user.output(&["label", "stuck", "bad"]);
    user.output(&["label", "stuck:7", "--remove"]);
    assert_eq!(exit_code(&user, &["eval", "--labels", "--max-false-alarms", "0"]), Some(1));
    let gone = user.lines(&["eval", "--labels", "--json", "--config", &silent]);
    let summary = gone.last().unwrap();
    assert_eq!((&summary["gone"], &summary["false_alarms"]), (&1.into(), &0.into()), "{summary}");
    let error = user.error(&["eval", "--labels", "--min-caught", "50"]);
    assert!(error.contains("--min-caught: no label expects a message"), "{error}");
    assert_eq!(exit_code(&user, &["eval"]), Some(2));
    assert_eq!(exit_code(&user, &["eval", "--labels", "--max-early", "0"]), Some(2));
}

#[test]
fn a_missing_message_is_found_by_a_stricter_configuration() {
    let user = user();
    let folder = tempfile::tempdir().unwrap();
    let eager = folder.path().join("eager.toml");
    std::fs::write(&eager, "[analysis]\nerror_threshold = 2\n").unwrap();
    user.output(&["label", "stuck", "bad", "--at", "4", "--cause", "doom_loop"]);
    let missing = user.lines(&["eval", "--labels", "--json"]);
    assert_eq!(
        (&missing[0]["expect"], &missing[0]["as_labelled"]),
        (&"message".into(), &false.into())
    );
    let shown = user.output(&["eval", "--labels"]);
    assert!(shown.contains("record 4 (call 2), message about doom_loop missing"), "{shown}");
    assert!(shown.contains("now      still missing"), "{shown}");
}

#[test]
fn replay_with_a_configuration_says_what_changes() {
    let user = user();
    let (_folder, patient, silent) = configs();
    let differences = |args: &[&str]| {
        let shown = user.output(&[&["replay", "--run", "stuck"], args].concat());
        let list = shown.split_once("compared with the recorded messages:\n");
        list.map(|(_, list)| list.to_owned()).unwrap_or_default()
    };
    assert_eq!(differences(&[]), "");
    assert_eq!(
        differences(&["--config", &patient]),
        "  moved     from call 3 to call 5: the same error again and again (repeated_error)\n"
    );
    assert_eq!(
        differences(&["--config", &silent]),
        "  gone      call 3: the same error again and again (repeated_error)\n"
    );
    let lines = user.lines(&["replay", "--run", "stuck", "--json", "--config", &silent]);
    let [difference, run] = &lines[lines.len() - 2..] else { unreachable!() };
    assert_eq!(
        (&difference["change"], &difference["recorded"]["seq"]),
        (&"gone".into(), &7.into())
    );
    assert_eq!((&run["deliveries"], &run["matches_recorded"]), (&0.into(), &false.into()));
    // An exported run is compared, too. A run in notation has no recorded messages.
    let file = user.data_dir().path().join("stuck.jsonl");
    let file = file.to_str().unwrap();
    user.output(&["export", "stuck", "-o", file]);
    assert!(user.output(&["replay", file, "--config", &silent]).contains("gone      call 3"));
    std::fs::write(file, "4x bash make !! error: no rule\n").unwrap();
    let shown = user.output(&["replay", file, "--config", &patient]);
    assert!(shown.ends_with("4 calls, 4 failed or refused; no messages.\n"), "{shown}");
    assert!(user.error(&["replay", file, "--config", "no-such.toml"]).contains("no-such.toml"));
}

#[test]
fn labels_change_nothing_in_a_run_and_go_with_it() {
    let user = user();
    let facts = || {
        let show = user.output(&["show", "stuck", "--json"]);
        (show, user.output(&["replay", "--run", "stuck", "--json"]), user.output(&["verify"]))
    };
    let before = facts();
    user.output(&["label", "stuck", "bad", "--note", "unmistakable"]);
    user.output(&["label", "stuck", "good", "--at", "7"]);
    assert_eq!(facts(), before);
    // Export and import keep them; an import changes no label that is as new.
    let (other, file) = (User::new(), user.data_dir().path().join("stuck.jsonl"));
    let file = file.to_str().unwrap();
    user.output(&["export", "stuck", "-o", file]);
    other.output(&["import", file]);
    let labels = |user: &User| user.lines(&["label", "stuck", "--json"]);
    assert_eq!(labels(&other), labels(&user));
    other.output(&["label", "stuck", "good", "--note", "another opinion"]);
    other.output(&["import", file]);
    assert_eq!(labels(&other)[0]["note"], "another opinion");
    assert_eq!(findings(&other.place.open()), [""; 0]);
    // A copy of the store has them, too.
    let copy = user.data_dir().path().join("copy.db");
    user.output(&["backup", copy.to_str().unwrap()]);
    user.output(&["delete", "stuck", "--yes"]);
    assert_eq!(user.output(&["label", "--list", "--json"]), "");
    assert!(user.place.open().labels(&RunId::from("stuck")).unwrap().is_empty());
    let has_note = |path: &std::path::Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(12).any(|part| part == b"unmistakable")
    };
    assert!(!has_note(&user.data_dir().store_file()) && has_note(&copy));
    user.output(&["restore", copy.to_str().unwrap()]);
    assert_eq!(labels(&user).len(), 2);
    user.output(&["prune", "--older-than", "1d", "--yes"]);
    assert_eq!(user.output(&["label", "--list", "--json"]), "");
}
