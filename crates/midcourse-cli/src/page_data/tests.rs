//! The data of the page from real stores, also with hostile content.

use midcourse::{
    AgentMessage, AssistantBlock, AssistantContent, Channel, DataDir, Durability, Event,
    RunIdentity, Source, StopReason, Store, StoreSettings, TextContent, Timestamp, ToolCallBlock,
    ToolResult, TrajectoryPayload,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::entry_view::{MAX_CHARS_IN_LIST, MAX_CHARS_OF_ONE};
use super::{changes, entries, entry, outline, whole_text};

/// A store in a temporary folder, which is removed on drop.
pub(super) struct Place {
    pub(super) store: Store,
    folder: tempfile::TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = StoreSettings { durability: Durability::Normal, ..StoreSettings::default() };
        let store = Store::open(&DataDir::at(folder.path().join("home")), settings).unwrap();
        Self { store, folder }
    }

    pub(super) fn add(&mut self, run: &str, seconds: u64, payload: TrajectoryPayload) -> u64 {
        let at = Timestamp::from_unix_ms(1_790_000_000_000 + seconds * 1_000);
        let source = Source::new("test", Channel::Hook);
        let event = Event::new(RunIdentity::root(run), source, at, payload);
        self.store.append(event).unwrap().record.seq
    }

    fn change(&self, sql: &str) {
        let file = DataDir::at(self.folder.path().join("home")).store_file();
        rusqlite::Connection::open(file).unwrap().execute(sql, []).unwrap();
    }
}

pub(super) fn user(text: &str) -> TrajectoryPayload {
    TrajectoryPayload::MessageAppended { message: AgentMessage::user(text) }
}

pub(super) fn started(id: &str, tool: &str, args: Value) -> TrajectoryPayload {
    TrajectoryPayload::ToolStarted { tool_call_id: id.into(), tool_name: tool.into(), args }
}

pub(super) fn ended(id: &str, tool: &str, result: ToolResult) -> TrajectoryPayload {
    let is_error = result.is_error;
    let (tool_call_id, tool_name) = (id.into(), tool.into());
    TrajectoryPayload::ToolEnded { tool_call_id, tool_name, result, is_error }
}

fn json_of(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn an_outline_is_columns() {
    let mut place = Place::new();
    place.add("r", 0, user("Fix it."));
    place.add("r", 1, started("1", "Bash", json!({"command": "make"})));
    place.add("r", 3, ended("1", "Bash", ToolResult::error("error: no rule")));
    place.add("r", 4, started("2", "Edit", json!({})));
    let columns = outline(&place.store, "r", 0, 9).unwrap().unwrap();
    let cursor = json_of(&columns)["cursor"].as_str().unwrap().to_owned();
    let expected = json!({"base": 1_790_000_000_000_u64, "kinds": ["user", "tool"],
        "tools": ["Bash", "Edit"], "seq": [0, 1, 3], "at": [0, 1_000, 4_000], "kind": [0, 1, 1],
        "tool": [-1, 0, 1], "end": [-1, 3_000, -1], "end_seq": [-1, 2, -1], "state": [0, 1, 3],
        "next": null, "cursor": cursor});
    assert_eq!(json_of(&columns), expected);
    place.add("r", 9, ended("2", "Edit", ToolResult::text("ok")));
    let (found, _) = changes(&place.store, cursor.parse().unwrap(), &["r".into()], 100).unwrap();
    let found = json_of(found);
    assert_eq!((&found[0]["run_id"], &found[0]["seq"]), (&json!("r"), &json!([3])));
    assert_eq!((&found[0]["end_seq"], &found[0]["state"]), (&json!([4]), &json!([0])));
    let page = json_of(outline(&place.store, "r", 0, 2).unwrap());
    assert_eq!((&page["next"], &page["base"]), (&json!(3), &expected["base"]));
    assert!(outline(&place.store, "unknown", 0, 9).unwrap().is_none());
}

#[test]
fn entries_have_titles_states_and_blocks() {
    let mut place = Place::new();
    place.add("r", 0, user("Fix\nit."));
    place.add("r", 0, TrajectoryPayload::TurnStarted);
    let call = ToolCallBlock { id: "1".into(), name: "Edit".into(), arguments: json!({}) };
    let text = |text: &str| TextContent { text: text.to_owned() };
    let blocks = vec![AssistantBlock::Thinking(text("Hm.")), AssistantBlock::ToolCall(call)];
    let message = AgentMessage::Assistant {
        content: AssistantContent { blocks },
        stop_reason: StopReason::ToolUse,
        error_message: None,
        timestamp: None,
        usage: None,
    };
    place.add("r", 1, TrajectoryPayload::MessageAppended { message });
    let args =
        json!({"file_path": "a.rs", "old_string": "x", "new_string": "y", "replace_all": true});
    place.add("r", 2, started("1", "Edit", args));
    place.add("r", 3, ended("1", "Edit", ToolResult::text(r#"{"ok": [1, 2]}"#)));
    place.add("r", 4, started("2", "Bash", json!({"command": "git diff", "timeout": 5})));
    let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    place.add("r", 5, ended("2", "Bash", ToolResult::error(diff)));
    let page = entries(&place.store, "r", 0, 50).unwrap().unwrap();
    let view = json_of(&page);
    let titles: Vec<_> = page.entries.iter().map(|it| (it.seq, it.title.as_str())).collect();
    assert_eq!(titles, [(0, "Fix it."), (2, "Hm."), (3, "Edit a.rs"), (5, "Bash git diff")]);
    let block = |entry: usize, block: usize| view["entries"][entry]["blocks"][block].clone();
    assert_eq!(
        block(0, 0),
        json!({"label": "User", "type": "text", "text": "Fix\nit.", "length": 7,
               "is_cut": false, "pointer": "/message/content"})
    );
    assert_eq!((&block(1, 0)["label"], &block(1, 1)["text"]), (&json!("Thinking"), &json!("Edit")));
    assert_eq!(block(2, 0)["lines"], json!([["-", "x"], ["+", "y"]]));
    assert_eq!((&block(2, 0)["path"], &block(2, 0)["type"]), (&json!("a.rs"), &json!("diff")));
    assert_eq!(block(2, 1)["value"], json!({"replace_all": true}));
    assert_eq!(block(2, 2)["value"], json!({"ok": [1, 2]}));
    assert_eq!(block(3, 0)["text"], "git diff");
    assert_eq!(block(3, 2)["lines"][1], json!(["-", "a"]));
    assert_eq!(
        (&view["entries"][3]["state"], &view["entries"][3]["end_seq"]),
        (&json!(1), &json!(6))
    );
    // By the seq of the end, one finds the whole call.
    assert_eq!(entry(&place.store, "r", 6).unwrap().unwrap().seq, 5);
    let pointer = block(3, 2)["pointer"].as_str().unwrap().to_owned();
    assert_eq!(whole_text(&place.store, "r", 5, &pointer).unwrap().as_deref(), Some(diff));
    assert_eq!(whole_text(&place.store, "r", 5, "/nowhere").unwrap(), None);
    assert_eq!(entry(&place.store, "r", 99).unwrap(), None);
}

#[test]
fn pages_of_entries_fit_together() {
    let mut place = Place::new();
    for n in 0..10 {
        place.add("r", n, TrajectoryPayload::TurnStarted);
        place.add("r", n, user(&n.to_string()));
    }
    let (mut seqs, mut from) = (Vec::new(), Some(0));
    while let Some(seq) = from {
        let page = entries(&place.store, "r", seq, 3).unwrap().unwrap();
        seqs.extend(page.entries.iter().map(|it| it.seq));
        from = page.next;
    }
    assert_eq!(seqs, (0..10).map(|n| 2 * n + 1).collect::<Vec<_>>());
    assert!(entries(&place.store, "unknown", 0, 3).unwrap().is_none());
}

#[test]
fn long_texts_are_cut_and_can_be_read_whole() {
    let mut place = Place::new();
    let line = "x".repeat(900_000);
    place.add("r", 0, started("1", "Write", json!({"file_path": "a", "content": line})));
    place.add("r", 1, ended("1", "Write", ToolResult::text(line.as_str())));
    place.add("r", 2, started("2", "t", json!({"deep": [{"text": line}]})));
    let view = json_of(entries(&place.store, "r", 0, 9).unwrap());
    assert!(view.to_string().len() < 5 * MAX_CHARS_IN_LIST);
    let cut = &view["entries"][0]["blocks"][1];
    assert_eq!((&cut["is_cut"], &cut["length"]), (&json!(true), &json!(900_000)));
    let pointer = cut["pointer"].as_str().unwrap();
    assert_eq!(whole_text(&place.store, "r", 0, pointer).unwrap().unwrap(), line);
    assert!(line.len() < MAX_CHARS_OF_ONE);
    let one = json_of(entry(&place.store, "r", 2).unwrap());
    assert_eq!(one["blocks"][0]["value"]["deep"][0]["text"], json!(line));
}

#[test]
fn damaged_records_are_entries_that_say_so() {
    let mut place = Place::new();
    place.add("r", 0, user("Go."));
    place.add("r", 1, started("1", "Bash", json!({})));
    place.add("r", 2, user("Go on."));
    place.change("UPDATE records SET payload = '{\"a' WHERE seq = 1");
    place.change(
        "UPDATE records SET kind = 'new', payload = '{\"kind\":\"new\",\"x\":1}' WHERE seq = 2",
    );
    let page = entries(&place.store, "r", 0, 9).unwrap().unwrap();
    assert_eq!(page.entries.len(), 3);
    assert!(page.entries[1].title.starts_with("cannot be read"), "{}", page.entries[1].title);
    assert_eq!(json_of(&page)["entries"][2]["blocks"][0]["value"], json!({"x": 1}));
    assert!(entry(&place.store, "r", 1).unwrap().unwrap().title.starts_with("cannot be read"));
}

fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "\\PC{0,20}",
        Just("\u{202e}\u{200b}\u{0}\u{1b}[31m\u{7f}\u{e0041}".to_owned()),
        Just("<script>alert(1)</script>".to_owned()),
        Just("\n--- a\n+++ b\n@@ -1,99 +1 @@\n".to_owned()),
        Just("diff --git a/x b/x\n".to_owned()),
        Just("*** Begin Patch\n*** Update File: x\n".to_owned()),
        Just("{\"a\":[".to_owned()),
        Just("e\u{301}\u{301}".repeat(300)),
    ];
    prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn hostile_content_never_fails(texts in prop::collection::vec(hostile(), 6), tool in hostile()) {
        let mut place = Place::new();
        let [a, b, c, d, e, f] = &texts[..] else { unreachable!() };
        place.add("r", 0, user(a));
        place.add("r", 0, started("1", &tool, json!({"file_path": a, "old_string": b, "new_string": c,
            "edits": [{"old_string": d}, 1]})));
        place.add("r", 0, ended("1", &tool, ToolResult::text(d.as_str())));
        place.add("r", 0, started("2", &tool, json!({"command": [a, b], (c.clone()): e})));
        place.add("r", 0, ended("2", &tool, ToolResult::error(e.as_str())));
        place.add("r", 0, started("3", &tool, json!(f)));
        place.add("r", 0, TrajectoryPayload::Unread { host: b.clone(), raw: f.clone() });
        let page = entries(&place.store, "r", 0, 50).unwrap().unwrap();
        prop_assert_eq!(page.entries.len(), 5);
        for view in &page.entries {
            prop_assert!(view.title.chars().count() <= 160);
            prop_assert!(!view.title.chars().any(char::is_control));
            let hidden = ['\u{202e}', '\u{200b}', '\u{e0041}'];
            prop_assert!(!view.title.contains(hidden));
            let alone = entry(&place.store, "r", view.seq).unwrap().unwrap();
            prop_assert_eq!(&alone.title, &view.title);
            prop_assert!(serde_json::to_string(&alone).is_ok());
        }
    }
}
