//! Generates settings files as people write them, and checks that edits change nothing else.

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use super::JsonText;
use super::Step::{Index, Key};

const GAPS: [&str; 12] = [
    "",
    "",
    "",
    " ",
    " ",
    "\n",
    "\n  ",
    "\r\n\t",
    "  \n\n    ",
    "/* c, \"] */",
    " // d }, [\n",
    "\t",
];

/// Settings with hooks of others, in any layout: odd white space, comments, trailing commas.
pub(crate) fn settings_text() -> impl Strategy<Value = String> {
    let styles = prop_oneof![
        // Any gap anywhere.
        proptest::collection::vec(0..GAPS.len(), 1..60).prop_map(Some),
        Just(None),
    ];
    let line_end = prop_oneof![Just("\n"), Just("\r\n"), Just("")];
    (settings(), styles, line_end, any::<bool>()).prop_map(|(value, gaps, line_end, has_mark)| {
        let mark = if has_mark { "\u{feff}" } else { "" };
        let text = match gaps {
            Some(gaps) => Noisy { gaps, next: 0, text: String::new() }.render(&value),
            None => serde_json::to_string_pretty(&value).unwrap(),
        };
        let text = if line_end == "\r\n" && !text.contains("\r\n") {
            text.replace('\n', "\r\n")
        } else {
            text
        };
        format!("{mark}{text}{line_end}")
    })
}

fn settings() -> impl Strategy<Value = Value> {
    let command = prop_oneof![
        Just("theirs --quiet"),
        Just("/opt/midcourse-like hook claude-code"),
        Just("echo midcourse hook claude-code"),
        Just("midcourse hook codex --home /x"),
    ];
    let hook = command.prop_map(|command| json!({"type": "command", "command": command}));
    let group =
        (proptest::collection::vec(hook, 0..3), any::<bool>()).prop_map(|(hooks, matcher)| {
            if matcher {
                json!({"matcher": "Bash", "hooks": hooks})
            } else {
                json!({"hooks": hooks})
            }
        });
    let list = proptest::collection::vec(group, 0..3).prop_map(Value::from);
    let event = prop_oneof![Just("PostToolUse"), Just("Stop"), Just("Notification")];
    let hooks = proptest::collection::vec((event, list), 0..3)
        .prop_map(|lists| lists.into_iter().map(|(event, list)| (event.to_owned(), list)));
    let hooks = hooks.prop_map(|lists| Value::Object(lists.collect()));
    let other = prop_oneof![
        Just(json!(null)),
        Just(json!([])),
        Just(json!({})),
        Just(json!([1, {"a": "b // no comment"}, [2.5e3]])),
        Just(json!({"deny": ["Bash(curl:*)", "größer \"x\""]})),
    ];
    let others = proptest::collection::vec((prop_oneof![Just("model"), Just("env")], other), 0..3);
    (others, proptest::option::of(hooks), any::<bool>()).prop_map(|(others, hooks, is_first)| {
        let mut settings = Map::new();
        if let (true, Some(hooks)) = (is_first, &hooks) {
            settings.insert("hooks".to_owned(), hooks.clone());
        }
        settings.extend(others.into_iter().map(|(key, value)| (key.to_owned(), value)));
        if let (false, Some(hooks)) = (is_first, hooks) {
            settings.insert("hooks".to_owned(), hooks);
        }
        Value::Object(settings)
    })
}

/// Writes JSON with a gap between any two tokens.
struct Noisy {
    gaps: Vec<usize>,
    next: usize,
    text: String,
}

impl Noisy {
    fn render(mut self, value: &Value) -> String {
        self.gap();
        self.value(value);
        self.gap();
        self.text
    }

    fn gap(&mut self) -> usize {
        let gap = self.gaps[self.next % self.gaps.len()];
        self.next += 1;
        self.text.push_str(GAPS[gap]);
        gap
    }

    fn value(&mut self, value: &Value) {
        let (open, close, items): (_, _, Vec<(Option<&String>, &Value)>) = match value {
            Value::Object(members) => {
                ('{', '}', members.iter().map(|(key, value)| (Some(key), value)).collect())
            }
            Value::Array(elements) => ('[', ']', elements.iter().map(|it| (None, it)).collect()),
            other => return self.text.push_str(&other.to_string()),
        };
        self.text.push(open);
        let mut gap = self.gap();
        let count = items.len();
        for (index, (key, value)) in items.into_iter().enumerate() {
            if let Some(key) = key {
                self.text.push_str(&json!(key).to_string());
                self.gap();
                self.text.push(':');
                self.gap();
            }
            self.value(value);
            gap = self.gap();
            // Now and then, the last item has a comma too.
            if index + 1 < count || gap % 4 == 1 {
                self.text.push(',');
                self.gap();
            }
        }
        let _ = gap;
        self.text.push(close);
    }
}

/// A text without its white space.
pub(crate) fn dense(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap().split_whitespace().collect()
}

/// Whether `text` contains the characters of `part` in their order.
pub(crate) fn contains_in_order(text: &str, part: &str) -> bool {
    let mut rest = text.chars();
    part.chars().all(|wanted| rest.any(|c| c == wanted))
}

fn edited(text: &str, edit: impl Fn(&mut JsonText)) -> String {
    let mut json = JsonText::parse(text.as_bytes()).unwrap();
    edit(&mut json);
    String::from_utf8(json.to_bytes()).unwrap()
}

proptest! {
    #[test]
    fn what_is_inserted_can_be_removed(text in settings_text()) {
        let value = json!({"a": [{"b": 1}]});
        let with = edited(&text, |json| json.insert(&[], "new", &value, 2).unwrap());
        let json = JsonText::parse(with.as_bytes()).unwrap();
        assert_eq!(json.get(&[Key("new")]), Some(value));
        assert!(contains_in_order(&with, &text), "{with}");
        let without = edited(&with, |json| json.remove(&[Key("new")]));
        assert_eq!(dense(without.as_bytes()), dense(text.as_bytes()));
        let original = JsonText::parse(text.as_bytes()).unwrap();
        if original.get(&[]) != Some(json!({})) {
            assert_eq!(without, text);
        }
    }
}

#[test]
fn new_values_follow_the_layout_of_the_text() {
    let value = json!({"Stop": [{"hooks": []}]});
    for (text, expected) in [
        ("{}", "{\n  \"h\": {\n    \"Stop\": [\n      {\"hooks\": []}\n    ]\n  }\n}"),
        ("{\"a\":1}\n", "{\"a\":1,\"h\":{\"Stop\":[{\"hooks\":[]}]}}\n"),
        ("{\"a\": 1}", "{\"a\": 1, \"h\": {\"Stop\": [{\"hooks\": []}]}}"),
        (
            "{\r\n\t\"a\": 1 // why\r\n}",
            "{\r\n\t\"a\": 1, // why\r\n\t\"h\": {\r\n\t\t\"Stop\": [\r\n\t\t\t{\"hooks\": []}\r\n\t\t]\r\n\t}\r\n}",
        ),
        (
            "{\n \"a\": 1,\n}",
            "{\n \"a\": 1,\n \"h\": {\n  \"Stop\": [\n   {\"hooks\": []}\n  ]\n },\n}",
        ),
    ] {
        assert_eq!(edited(text, |json| json.insert(&[], "h", &value, 2).unwrap()), expected);
    }
    let pushed = |text: &str| edited(text, |json| json.push(&[Key("a")], &json!(2)).unwrap());
    assert_eq!(pushed("{\"a\": [\n 1\n]}"), "{\"a\": [\n 1,\n 2\n]}");
    assert_eq!(pushed("{\n\"a\": [1] // c\n}"), "{\n\"a\": [1, 2] // c\n}");
    assert_eq!(pushed("{\n  \"a\": []\n}"), "{\n  \"a\": [\n    2\n  ]\n}");
}

#[test]
fn the_last_of_equal_keys_counts() {
    let text = r#"{"a": [1], "a": [2]}"#;
    assert_eq!(
        edited(text, |json| json.push(&[Key("a")], &json!(3)).unwrap()),
        r#"{"a": [1], "a": [2, 3]}"#
    );
    assert_eq!(edited(text, |json| json.remove(&[Key("a"), Index(0)])), r#"{"a": [1], "a": []}"#);
}

#[test]
fn files_that_are_not_json_are_refused() {
    for wrong in ["{", "{\"a\" 1}", "{} {}", "{a: 1}", "{'a': 1}", "[1 2]", "\u{0}"] {
        assert!(JsonText::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    assert!(JsonText::parse(&[0xff, b'{', b'}']).is_err());
    let mut list = JsonText::parse(b"[]").unwrap();
    assert!(list.insert(&[], "a", &json!(1), 0).is_err());
    for empty in ["", "\n", "// nothing yet", "/* x */\n"] {
        let json = JsonText::parse(empty.as_bytes()).unwrap();
        assert_eq!(json.get(&[]), Some(json!({})), "{empty:?}");
    }
}
