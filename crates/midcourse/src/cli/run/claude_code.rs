//! Claude Code with our hooks: its option `--settings`, merged with the user's own.
//!
//! The client reads the last `--settings` only. What the user gave there stays, with our hooks
//! behind theirs. Their settings files are not touched, and count beside it as always.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use midcourse::{Home, Host};
use serde_json::{Map, Value, json};

use super::Prepared;

const OPTION: &str = "--settings";

/// Seconds after which the client gives up on a hook; it gives up on itself long before.
const TIMEOUT: u64 = 10;

pub(super) fn prepare(
    words: &[OsString],
    us: &Path,
    home: &Home,
    launch: &str,
) -> Result<Prepared> {
    let us = us.to_str().context("the path of midcourse is not text")?;
    let Some(given) = Given::find(words) else {
        let settings = merged(Map::new(), us).to_string();
        let ours = [OPTION.into(), settings.into()];
        let arguments = ours.into_iter().chain(words.iter().cloned()).collect();
        return Ok(Prepared { arguments, file: None });
    };
    let (settings, file) = given.read()?;
    let settings = merged(settings, us).to_string();
    let file = file.then(|| private_file(home, launch, &settings)).transpose()?;
    let value = file.as_ref().map_or_else(|| settings.into(), |file| file.clone().into_os_string());
    Ok(Prepared { arguments: given.replaced(words, value), file })
}

/// The settings with our hooks behind those that are in them.
fn merged(mut settings: Map<String, Value>, us: &str) -> Value {
    let ours = json!({"hooks": [{"type": "command", "command": us,
                      "args": ["hook", Host::ClaudeCode.name()], "timeout": TIMEOUT}]});
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    for event in Host::ClaudeCode.hook_events() {
        if let Value::Object(hooks) = hooks
            && let Value::Array(groups) = hooks.entry(*event).or_insert_with(|| json!([]))
        {
            groups.push(ours.clone());
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

    /// The settings, and whether they come from a file.
    fn read(&self) -> Result<(Map<String, Value>, bool)> {
        let is_inline = self.value.trim_start().starts_with('{');
        let text = if is_inline {
            self.value.clone()
        } else {
            std::fs::read_to_string(&self.value)
                .with_context(|| format!("the settings in {} cannot be read", self.value))?
        };
        let settings = serde_json::from_str(&text).context("the settings given are no JSON")?;
        Ok((settings, !is_inline))
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

/// What comes out of a file goes into one: it may hold what others must not see in the list of
/// processes.
fn private_file(home: &Home, launch: &str, settings: &str) -> Result<PathBuf> {
    let file = home.launch_file(launch);
    let write = || {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&file)?.write_all(settings.as_bytes())
    };
    write().with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use midcourse::Home;
    use serde_json::Value;

    use super::prepare;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn prepared(given: &[&str]) -> (Vec<String>, Option<Value>) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let prepared = prepare(&words(given), "/bin/midcourse".as_ref(), &home, "l").unwrap();
        let file = prepared.file.map(|file| std::fs::read(file).unwrap());
        let file = file.map(|bytes| serde_json::from_slice(&bytes).unwrap());
        let words = prepared.arguments.into_iter().map(|word| word.into_string().unwrap());
        (words.collect(), file)
    }

    #[test]
    fn hooks_are_added_in_front() {
        let (words, file) = prepared(&["-p", "task", "--", "--settings", "x"]);
        assert_eq!(words[0], "--settings");
        assert_eq!(words[2..], ["-p", "task", "--", "--settings", "x"]);
        let settings: Value = serde_json::from_str(&words[1]).unwrap();
        let hook = &settings["hooks"]["PostToolUse"][0]["hooks"][0];
        assert_eq!(hook["command"], "/bin/midcourse");
        assert_eq!(hook["args"], serde_json::json!(["hook", "claude-code"]));
        assert!(settings["hooks"]["PermissionRequest"].is_null());
        assert_eq!(file, None);
    }

    #[test]
    fn what_the_user_gave_stays() {
        let theirs = r#"{"model":"m","hooks":{"PostToolUse":[{"hooks":[]}],"Stop":[]}}"#;
        for given in [vec!["--settings", theirs, "-p"], vec![&format!("--settings={theirs}"), "-p"]]
        {
            let (words, _) = prepared(&given);
            assert_eq!(words.len(), given.len());
            let json = words.iter().find_map(|word| word.find('{').and_then(|at| word.get(at..)));
            let settings: Value = serde_json::from_str(json.unwrap()).unwrap();
            assert_eq!(settings["model"], "m");
            assert_eq!(settings["hooks"]["PostToolUse"].as_array().unwrap().len(), 2);
            assert_eq!(settings["hooks"]["Stop"].as_array().unwrap().len(), 1);
        }
    }

    #[test]
    fn settings_from_a_file_go_into_a_private_one() {
        let folder = tempfile::tempdir().unwrap();
        let theirs = folder.path().join("s.json");
        std::fs::write(&theirs, r#"{"env":{"KEY":"secret"}}"#).unwrap();
        let (words, file) = prepared(&["--settings", "a", "--settings", theirs.to_str().unwrap()]);
        assert_eq!(words[..2], ["--settings", "a"]);
        assert!(!words.iter().any(|word| word.contains("secret")));
        let settings = file.unwrap();
        assert_eq!(settings["env"]["KEY"], "secret");
        assert_eq!(settings["hooks"]["SessionEnd"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn settings_that_cannot_be_read_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        for wrong in ["nowhere.json", "{\"torn\":", "[]"] {
            let words = words(&["--settings", wrong]);
            assert!(prepare(&words, "/bin/midcourse".as_ref(), &home, "l").is_err(), "{wrong}");
        }
    }
}
