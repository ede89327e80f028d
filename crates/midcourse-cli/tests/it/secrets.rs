//! Secrets in the store: they are redacted before anything is written, and stay apart.

use std::fs;

use midcourse::{
    Event, Redaction, SearchIndex, SecretKind, Store, StoreSettings, TrajectoryPayload,
};
use serde_json::json;

use crate::events::{
    TempStore, at, hook, root, test_settings, text_of, tool_ended, tool_started, user_message,
    without_hashes,
};

#[test]
fn results_that_differ_only_in_a_secret_stay_different() {
    let place = TempStore::new();
    let mut store = place.open();
    let secrets = ["a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "z1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"];
    let mut text = |call: &str, secret: &str| {
        let event = tool_ended("r", call, &format!("token ghp_{secret} end"));
        text_of(&store.append(event).unwrap().record)
    };
    let (first, second, again) =
        (text("a", secrets[0]), text("b", secrets[1]), text("c", secrets[0]));
    assert_ne!(first, second);
    assert_eq!(first, again);
    drop(store);
    let recorded =
        place.open().append(tool_ended("r", "d", &format!("token ghp_{} end", secrets[1])));
    assert_eq!(text_of(&recorded.unwrap().record), second);
    assert_eq!(place.open().trajectory("r").unwrap().iter().map(text_of).next(), Some(first));
}

#[test]
fn removed_text_is_gone_from_the_disk() {
    let place = TempStore::new();
    let mut store = place.open();
    let text = "gone for good ".repeat(20);
    store.append(tool_ended("r", "c", &text)).unwrap();
    assert_eq!(store.remove_runs(&["r".into()], at(1_000_000)).unwrap().len(), 1);
    store.finish_removal().unwrap();
    drop(store);
    for entry in fs::read_dir(place.data_dir().path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        assert!(!bytes.windows(13).any(|window| window == b"gone for good"), "{}", path.display());
    }
}

#[test]
fn secrets_are_never_written_to_disk() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let place = TempStore::new();
    let data_dir = place.data_dir();
    let mut store = place.open();
    let recorded = store.append(tool_ended("r", "c", &format!("token {secret} end"))).unwrap();
    assert_eq!(without_hashes(&text_of(&recorded.record)), "token [redacted:github_token] end");
    let mut event = tool_started("r", "fields");
    let TrajectoryPayload::ToolStarted { args, .. } = &mut event.payload else { unreachable!() };
    *args = json!({"env": {"DB_PASSWORD": "Tr0ub4dor&3x"}, "kind": secret, "path": "src/a.rs",
                   &secret: 1});
    let recorded = store.append(event).unwrap().record;
    let TrajectoryPayload::ToolStarted { args, .. } = &recorded.payload else { unreachable!() };
    let expected = json!({"env": {"DB_PASSWORD": "[redacted:labelled_secret]"},
                          "kind": "[redacted:github_token]", "path": "src/a.rs",
                          "[redacted:github_token]": 1});
    assert_eq!(without_hashes(&args.to_string()), expected.to_string());
    let mut event = tool_started("r", &secret);
    event.fact = Some(secret.as_str().into());
    store.append(event).unwrap();
    let raw = format!("{{ \"broken\": \"{secret}");
    store.append(Event::unread(root("r"), hook(), at(0), raw.as_bytes())).unwrap();
    midcourse::spill_event(&data_dir, user_message("r", &secret), &StoreSettings::default())
        .unwrap();
    let spilled = fs::read_dir(data_dir.spill_folder()).unwrap().next().unwrap().unwrap().path();
    assert!(!fs::read_to_string(spilled).unwrap().contains(&secret));
    store.ingest_spilled().unwrap();
    let records = store.records("r", 0, 9).unwrap();
    assert_eq!(records.iter().map(|record| record.redactions).collect::<Vec<_>>(), [1, 3, 1, 1, 1]);
    assert!(records[4].value.to_string().contains("[redacted:github_token:"));
    let mut index = SearchIndex::open(&store).unwrap();
    index.catch_up(&store, |_| ()).unwrap();
    drop((store, index));
    for entry in fs::read_dir(data_dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
    let settings = StoreSettings {
        redaction: Redaction::default().without(SecretKind::GithubToken),
        ..test_settings()
    };
    let mut store = Store::open(&data_dir, settings).unwrap();
    let recorded = store.append(tool_ended("r", "d", &secret)).unwrap();
    assert_eq!(text_of(&recorded.record), secret, "the user switched this kind off");
}
