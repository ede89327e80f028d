//! Claude Code with our hooks: its option `--settings`, merged with the user's own.
//!
//! The client reads the last `--settings` only. What the user wrote there as JSON stays, with our
//! hooks behind theirs. A file that the user named is neither read nor moved, since the client takes
//! paths in it from where it lies: then our hooks come as a plugin, for that process too
//! (`--plugin-dir`). Their settings files are not touched, and count beside it as always.

use std::ffi::{OsStr, OsString};

use crate::hosts::Host;
use crate::launch::LaunchFolder;
use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

const OPTION: &str = "--settings";

/// Seconds after which the client gives up on a hook, which gives up on itself long before.
const TIMEOUT: u64 = 10;

pub(super) fn prepare(
    words: &[OsString],
    command: &str,
    folder: &LaunchFolder,
) -> Result<Vec<OsString>> {
    let in_front = |option: &str, value: OsString| {
        let ours = [OsString::from(option), value];
        ours.into_iter().chain(words.iter().cloned()).collect()
    };
    // There the client would show the hook of a start before its own first line.
    let is_stream = words.iter().any(|word| word.to_string_lossy().contains("stream-json"));
    let merged = |settings| merged(settings, command, is_stream).to_string();
    match Given::find(words) {
        None => Ok(in_front(OPTION, merged(Map::new()).into())),
        Some(given) if given.is_json() => {
            let settings =
                serde_json::from_str(&given.value).context("the settings given are no JSON")?;
            Ok(given.replaced(words, merged(settings).into()))
        }
        Some(_) => {
            write_plugin(folder, &merged(Map::new())).context("the hooks cannot be written")?;
            Ok(in_front("--plugin-dir", folder.path().into()))
        }
    }
}

/// Our hooks as a plugin of the client.
fn write_plugin(folder: &LaunchFolder, hooks: &str) -> std::io::Result<()> {
    let plugin = json!({"name": "midcourse", "version": env!("CARGO_PKG_VERSION"),
                        "description": "Keeps unattended agents on course."});
    folder.write(".claude-plugin/plugin.json", plugin.to_string().as_bytes())?;
    folder.write("hooks/hooks.json", hooks.as_bytes())
}

/// The settings with our hooks behind those that are in them.
fn merged(mut settings: Map<String, Value>, command: &str, is_stream: bool) -> Value {
    // Not in the form without a shell: a release that does not know it runs the program without its
    // arguments. `exec` spares a process.
    let command = format!("exec {command}");
    let ours = json!({"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT}]});
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    for event in Host::ClaudeCode.hook_events() {
        if let Value::Object(hooks) = hooks
            && let Value::Array(groups) = hooks.entry(*event).or_insert_with(|| json!([]))
        {
            let mut ours = ours.clone();
            if let (true, "SessionStart", Value::Object(group)) = (is_stream, *event, &mut ours) {
                // The first prompt begins the run as well.
                group.insert("matcher".to_owned(), "resume|compact".into());
            }
            groups.push(ours);
        }
    }
    Value::Object(settings)
}

/// The user's own `--settings`, the last one.
struct Given {
    /// The word that holds the value.
    place: usize,
    value: String,
    /// Whether the option stands in the same word.
    is_joined: bool,
}

impl Given {
    fn find(words: &[OsString]) -> Option<Self> {
        let mut found = None;
        let mut words = words.iter().enumerate().take_while(|(_, word)| *word != "--");
        while let Some((place, word)) = words.next() {
            if word == OPTION {
                let (place, value) = words.next()?;
                let value = value.to_string_lossy().into_owned();
                found = Some(Self { place, value, is_joined: false });
            } else if let Some(value) = joined(word) {
                found = Some(Self { place, value, is_joined: true });
            }
        }
        found
    }

    /// Whether it is JSON, and not the name of a file.
    fn is_json(&self) -> bool {
        self.value.trim_start().starts_with('{')
    }

    fn replaced(&self, words: &[OsString], value: OsString) -> Vec<OsString> {
        let mut words = words.to_vec();
        if let Some(word) = words.get_mut(self.place) {
            *word = if self.is_joined {
                let mut joined = OsString::from(OPTION);
                joined.push("=");
                joined.push(value);
                joined
            } else {
                value
            };
        }
        words
    }
}

fn joined(word: &OsStr) -> Option<String> {
    let value = word.to_str()?.strip_prefix(OPTION)?.strip_prefix('=')?;
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::launch::Launch;
    use midcourse::DataDir;
    use serde_json::Value;

    use super::prepare;

    const COMMAND: &str = "/bin/midcourse hook claude-code --home /h --launch l";

    /// The words, and the hooks of the plugin if there is one.
    fn prepared(given: &[&str]) -> anyhow::Result<(Vec<String>, Option<Value>)> {
        let folder = tempfile::tempdir().unwrap();
        let home = DataDir::at(folder.path());
        let folder = Launch::new(None, String::new()).keep(&home).unwrap();
        let given: Vec<OsString> = given.iter().map(OsString::from).collect();
        let words = prepare(&given, COMMAND, &folder)?;
        let words = words.into_iter().map(|word| word.into_string().unwrap());
        let hooks = std::fs::read(folder.path().join("hooks/hooks.json")).ok();
        let hooks = hooks.map(|bytes| serde_json::from_slice(&bytes).unwrap());
        Ok((words.collect(), hooks))
    }

    #[test]
    fn hooks_are_added_in_front() {
        let (words, plugin) = prepared(&["-p", "task", "--", "--settings", "x"]).unwrap();
        assert_eq!(words[0], "--settings");
        assert_eq!(words[2..], ["-p", "task", "--", "--settings", "x"]);
        let settings: Value = serde_json::from_str(&words[1]).unwrap();
        let hook = &settings["hooks"]["PostToolUse"][0]["hooks"][0];
        assert_eq!(hook["command"], format!("exec {COMMAND}"));
        assert!(settings["hooks"]["PermissionRequest"].is_null());
        assert_eq!(plugin, None);
    }

    #[test]
    fn what_the_user_gave_stays() {
        let theirs = r#"{"model":"m","hooks":{"PostToolUse":[{"hooks":[]}],"Stop":[]}}"#;
        for given in [vec!["--settings", theirs, "-p"], vec![&format!("--settings={theirs}"), "-p"]]
        {
            let (words, _) = prepared(&given).unwrap();
            assert_eq!(words.len(), given.len());
            let json = words.iter().find_map(|word| word.find('{').and_then(|at| word.get(at..)));
            let settings: Value = serde_json::from_str(json.unwrap()).unwrap();
            assert_eq!(settings["model"], "m");
            assert_eq!(settings["hooks"]["PostToolUse"].as_array().unwrap().len(), 2);
            assert_eq!(settings["hooks"]["Stop"].as_array().unwrap().len(), 1);
        }
        assert!(prepared(&["--settings", "{\"torn\":"]).is_err());
    }

    #[test]
    fn a_stream_begins_as_the_client_has_it() {
        let (words, _) = prepared(&["-p", "--output-format=stream-json"]).unwrap();
        let settings: Value = serde_json::from_str(&words[1]).unwrap();
        assert_eq!(settings["hooks"]["SessionStart"][0]["matcher"], "resume|compact");
        assert!(settings["hooks"]["Stop"][0]["matcher"].is_null());
    }

    #[test]
    fn a_file_of_the_users_is_left_where_it_is() {
        for given in
            [vec!["--settings", "{}", "--settings", "conf/s.json"], vec!["--settings=/dev/fd/9"]]
        {
            let (words, plugin) = prepared(&given).unwrap();
            assert_eq!(words[0], "--plugin-dir");
            assert_eq!(words[2..], given);
            let hooks = plugin.unwrap();
            assert_eq!(hooks["hooks"]["SessionEnd"].as_array().unwrap().len(), 1);
        }
    }
}
