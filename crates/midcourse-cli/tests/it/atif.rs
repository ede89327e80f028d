//! ATIF as a user meets it: what `midcourse export --to atif` writes, `midcourse import` reads back
//! without loss, and Harbor's own validator accepts.

use std::path::PathBuf;
use std::process::Command;

use midcourse::{
    Budget, Channel, DecisionPoint, Engine, Event, RunIdentity, Source, Store, SyncedEngine,
    TrajectoryPayload,
};
use serde_json::{Value, json};

use crate::archive::everything;
use crate::events::{at, root};
use crate::runs_command::User;

const VERSIONS: [&str; 2] = ["1.7", "1.8"];

/// Adds a run with what other programs care about: responses with calls, failures, a refusal, an
/// image, tokens and costs, a summary, messages of midcourse that were delivered and that were not,
/// a subagent, and a subagent of that one.
fn rich(store: &mut Store) {
    let (run, source) = (root("rich"), Source::new("test", Channel::Library));
    let worker = RunIdentity::child_of(&run, "rich.worker-0123456789");
    let helper = RunIdentity::child_of(&worker, "rich.worker-0123456789.helper");
    let mut engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
    let mut seconds = 0;
    let mut add = |run: &RunIdentity, payload: Value| {
        seconds += 1;
        let payload: TrajectoryPayload = serde_json::from_value(payload).unwrap();
        let event = Event::new(run.clone(), source.clone(), at(seconds), payload);
        let event = event.at_decision_point(DecisionPoint::PreToolSelection);
        store.step(event, &mut engine).unwrap();
    };
    let call =
        |add: &mut dyn FnMut(&RunIdentity, Value), run: &RunIdentity, id: &str, result: Value| {
            add(
                run,
                json!({"kind": "tool_started", "tool_call_id": id, "tool_name": "bash",
                        "args": {"command": "make -C some/folder all VERBOSE=1"}}),
            );
            add(
                run,
                json!({"kind": "tool_ended", "tool_call_id": id, "tool_name": "bash",
                        "is_error": result["is_error"], "result": result}),
            );
        };
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = json!({"type": "image", "source": "data:image/png;base64,iVBORw0KGgo=",
                       "media_type": "image/png"});
    let linked = json!({"type": "image", "source": "https://example.com/a.png",
                        "media_type": "image/png"});
    add(&run, json!({"kind": "run_started", "identity": run}));
    add(&run, json!({"kind": "run_described", "model": "model-a", "host_version": "1.2.3"}));
    let content = json!([text("Make it build."), image, linked]);
    add(&run, json!({"kind": "message_appended", "message": {"role": "user", "content": content}}));
    add(
        &run,
        json!({"kind": "provider_request_prepared", "iteration": 0, "model_id": "model-a",
                     "system_prompt_chars": 9, "message_count": 1, "tool_count": 1,
                     "tools": ["bash"]}),
    );
    add(
        &run,
        json!({"kind": "message_appended", "message": {
        "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "thinking", "text": "What is there?"}, text("I look around."),
                    {"type": "tool_call", "id": "c1", "name": "bash",
                     "arguments": {"command": "make -C some/folder all VERBOSE=1"}},
                    {"type": "tool_call", "id": "c2", "name": "rm", "arguments": "-rf /"}],
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 3,
                  "cache_read_input_tokens": 100}}}),
    );
    call(&mut add, &run, "c1", json!({"content": [text("main.c"), image], "is_error": false}));
    add(
        &run,
        json!({"kind": "denied", "tool_call_id": "c2", "tool_name": "rm",
                     "reason": "This would remove everything."}),
    );
    for id in ["c3", "c4", "c5", "c6"] {
        add(&run, json!({"kind": "turn_started"}));
        let failed = json!({"content": [text("error: no rule to make target")], "is_error": true});
        call(&mut add, &run, id, failed);
    }
    add(&run, json!({"kind": "context_compacted", "trigger": "auto"}));
    add(&worker, json!({"kind": "run_started", "identity": worker}));
    call(&mut add, &worker, "w1", json!({"content": [text("done")], "is_error": false}));
    call(&mut add, &helper, "h1", json!({"content": [], "is_error": false}));
    let named = json!({"content": [text("agent worker-0123456789 is done")], "is_error": false});
    call(&mut add, &run, "c7", named);
    add(&run, json!({"kind": "usage_reported", "usage": {"input_tokens": 7, "output_tokens": 1}}));
    add(&run, json!({"kind": "cost_reported", "total_micro_usd": 123_456}));
    add(&run, json!({"kind": "gap", "lost": 2, "reason": "io"}));
    add(&run, json!({"kind": "unread", "host": "test", "raw": "?\u{0}\u{202e}"}));
    let last =
        json!({"role": "assistant", "content": [text("I give up.")], "stop_reason": "end_turn"});
    add(&run, json!({"kind": "run_ended", "outcome": "failed", "new_messages": [last]}));
}

/// Exports a run as ATIF into a file in the user's folder.
fn export(user: &User, run: &str, version: &str) -> PathBuf {
    let file = user.data_dir().path().join(format!("{run}-{version}.json"));
    user.output(&["export", run, "--to", "atif", "--atif", version, "-o", file.to_str().unwrap()]);
    file
}

fn import(user: &User, file: &std::path::Path) -> Value {
    user.lines(&["import", file.to_str().unwrap(), "--json"]).remove(0)
}

fn rich_user() -> User {
    let user = User::new();
    rich(&mut user.place.open());
    everything(&mut user.place.open());
    user
}

#[test]
fn an_atif_document_imports_without_loss_any_number_of_times() {
    let user = rich_user();
    for (run, version) in [("rich", "1.7"), ("r", "1.8")] {
        let file = export(&user, run, version);
        let lines = user.output(&["export", run, "--tree"]);
        let copy = User::new();
        let counts = import(&copy, &file);
        assert_eq!(counts["new"], lines.lines().count(), "{counts}");
        assert_eq!((&counts["unreadable"], &counts["unknown"]), (&json!(0), &json!(0)));
        assert_eq!(copy.output(&["export", run, "--tree"]), lines);
        for user in [&copy, &user] {
            let again = import(user, &file);
            assert_eq!((&again["new"], &again["renumbered"]), (&json!(0), &json!(0)), "{again}");
        }
        assert_eq!(copy.output(&["export", run, "--tree"]), lines);
        assert!(copy.output(&["verify"]).contains("no problems"));
    }
}

#[test]
fn a_replay_of_the_copy_gives_the_same_patterns_and_messages() {
    let (user, copy) = (rich_user(), User::new());
    import(&copy, &export(&user, "rich", "1.7"));
    let replay = user.output(&["replay", "--run", "rich", "--json"]);
    assert!(replay.contains("\"repeated_error\"") && replay.contains("\"delivery\""), "{replay}");
    assert_eq!(copy.output(&["replay", "--run", "rich", "--json"]), replay);
}

/// Removes what only midcourse reads, as a program that keeps only the standard fields would.
fn without_own_data(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(extra) = fields.get_mut("extra").and_then(Value::as_object_mut) {
                extra.shift_remove("midcourse");
            }
            fields.values_mut().for_each(without_own_data);
        }
        Value::Array(items) => items.iter_mut().for_each(without_own_data),
        _ => {}
    }
}

#[test]
fn the_standard_fields_alone_give_the_same_patterns() {
    let (user, other) = (rich_user(), User::new());
    let file = export(&user, "rich", "1.7");
    let mut document: Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    without_own_data(&mut document);
    std::fs::write(&file, document.to_string()).unwrap();
    assert_eq!(import(&other, &file)["runs"], 3);
    // A step has one time for all its calls, so messages may be delivered at other calls.
    let found = |user: &User| -> Vec<Value> {
        let lines = user.lines(&["replay", "--run", "rich", "--json"]);
        let patterns = lines.iter().filter(|line| line["type"] == "pattern");
        patterns.map(|line| json!([line["call"], line["pattern"]])).collect()
    };
    assert_eq!(found(&other), found(&user));
    assert!(!found(&user).is_empty());
}

#[test]
fn other_programs_see_a_sensible_trajectory() {
    let user = rich_user();
    let text = std::fs::read_to_string(export(&user, "rich", "1.7")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let steps = document["steps"].as_array().unwrap();
    let step = |text: &str| {
        let found = steps.iter().find(|step| step.to_string().contains(text));
        found.unwrap_or_else(|| unreachable!("no step contains {text}"))
    };
    assert_eq!(
        document["agent"],
        json!({"name": "test", "version": "1.2.3", "model_name": "model-a"})
    );
    let look = step("I look around.");
    assert_eq!(
        (&look["source"], &look["reasoning_content"]),
        (&json!("agent"), &json!("What is there?"))
    );
    assert_eq!(look["metrics"]["prompt_tokens"], 113);
    assert_eq!(look["tool_calls"][1]["arguments"], json!({"input": "-rf /"}));
    let refusal = json!({"source_call_id": "c2",
                         "content": "Refused before it ran: This would remove everything.",
                         "extra": {"is_error": true, "is_denied": true}});
    assert_eq!(look["observation"]["results"][1], refusal);
    assert_eq!(step("\"c3\"")["observation"]["results"][0]["extra"], json!({"is_error": true}));
    let message = step("times and it failed the same way");
    assert_eq!(message["source"], "system");
    let about = &message["extra"]["midcourse"]["message"];
    assert_eq!(about["evidence_seqs"].as_array().unwrap().len(), 3, "{about}");
    assert_eq!(step("was replaced")["extra"]["context_management"]["type"], "compaction");
    let worker = "rich.worker-0123456789";
    let refs = &step("is done")["observation"]["results"][0]["subagent_trajectory_ref"];
    assert_eq!(refs[0], json!({"trajectory_id": worker, "session_id": "rich"}));
    let child = &document["subagent_trajectories"][0];
    assert_eq!(child["trajectory_id"], worker);
    assert_eq!(child["subagent_trajectories"][0]["trajectory_id"], format!("{worker}.helper"));
    assert_eq!(steps.last().unwrap()["message"], "I give up.");
    assert_eq!(document["final_metrics"]["total_cost_usd"], 0.123_456);
    assert_eq!(document["final_metrics"]["total_steps"], steps.len());
}

#[test]
fn a_document_that_is_cut_off_is_imported_as_far_as_it_goes() {
    let user = rich_user();
    let file = export(&user, "rich", "1.7");
    let text = std::fs::read_to_string(&file).unwrap();
    let cut = text.find("\"h1\"").unwrap();
    std::fs::write(&file, text.get(..cut).unwrap()).unwrap();
    let copy = User::new();
    let counts = import(&copy, &file);
    // The only step of the last run is cut off.
    assert_eq!((&counts["runs"], &counts["unreadable"]), (&json!(2), &json!(1)), "{counts}");
    for run in ["rich", "rich.worker-0123456789"] {
        assert_eq!(copy.output(&["export", run]), user.output(&["export", run]));
    }
}

/// The Python interpreter with Harbor's validator; `None` if the test is skipped.
fn python() -> Option<PathBuf> {
    let folder = std::env::var_os("MIDCOURSE_CLIENTS").filter(|folder| !folder.is_empty());
    let Some(folder) = folder else {
        skip("Harbor's validator runs only if MIDCOURSE_CLIENTS is set");
        return None;
    };
    let python = PathBuf::from(folder).join("harbor/bin/python");
    if !python.exists() {
        skip(&format!("no Harbor: {} does not exist", python.display()));
        return None;
    }
    Some(python)
}

/// Writes to standard error directly: the test runner hides the output of tests that pass.
fn skip(why: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

#[test]
fn harbors_validator_accepts_exports_and_samples() {
    let Some(python) = python() else { return };
    let user = rich_user();
    let mut files: Vec<PathBuf> = Vec::new();
    for run in ["rich", "r"] {
        files.extend(VERSIONS.map(|version| export(&user, run, version)));
    }
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sessions/atif");
    let samples = std::fs::read_dir(samples).unwrap().map(|entry| entry.unwrap().path());
    files.extend(samples.filter(|path| path.extension().is_some_and(|ending| ending == "json")));
    assert_eq!(files.len(), 13);
    for file in files {
        let validator = ["-I", "-m", "harbor.utils.trajectory_validator"];
        let output = Command::new(&python).args(validator).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", file.display());
    }
}
