//! midcourse's hooks in a settings file of a host: adds them after the hooks of others, updates older
//! ones in place, and removes them. Works on text; commands read and write the files.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::Host;
use crate::json_edit::Step::{Index, Key};
use crate::json_edit::{JsonEditError, JsonText, Step};

const HOOKS: &str = "hooks";

/// The hooks of one host, as they are in its settings file.
#[derive(Debug, Clone)]
pub(crate) struct HookSettings {
    pub(super) host: Host,
    pub(super) events: &'static [&'static str],
    /// One hook, the same for each event.
    pub(super) hook: Map<String, Value>,
    /// The key of the hook's command.
    pub(super) command_key: &'static str,
    /// Whether the list of an event contains groups, each with a list `hooks`, or the hooks
    /// themselves.
    pub(super) is_grouped: bool,
    /// The text of a new file, to which the hooks are added.
    pub(super) new_file: &'static str,
    /// Whether the host reads JSON with comments.
    pub(super) accepts_comments: bool,
}

/// One of midcourse's hooks in a settings file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InstalledHook {
    pub(crate) event: String,
    /// Where the hook is in the list of its event.
    pub(crate) position: Position,
    pub(crate) command: String,
    /// The time limit in the host's unit; `None` if the host's default applies.
    pub(crate) timeout: Option<f64>,
    /// Whether the host does not wait for the hook.
    pub(crate) is_async: bool,
    /// The tools to which the hook is limited; `None` if it runs for all.
    pub(crate) matcher: Option<String>,
}

/// Where a hook is in the list of its event: the index of its group, and its index in the group. In a
/// list without groups, only the first counts.
pub(crate) type Position = (usize, usize);

impl HookSettings {
    pub(crate) const fn new_file(&self) -> &'static str {
        self.new_file
    }

    pub(crate) const fn accepts_comments(&self) -> bool {
        self.accepts_comments
    }

    /// Adds the hooks, or updates those that are there.
    pub(crate) fn add_to(&self, json: &mut JsonText) -> Result<(), JsonEditError> {
        for event in self.events_in(json) {
            let is_used = self.events.contains(&event.as_str());
            let ours = self.ours(json, &event);
            // Positions before the removed one stay valid.
            for position in ours.iter().skip(usize::from(is_used)).rev() {
                self.remove_hook(json, &event, *position);
            }
        }
        if json.get(&[Key(HOOKS)]).is_none() {
            let lists = self.events.iter().map(|event| ((*event).to_owned(), self.list()));
            return json.insert(&[], HOOKS, &Value::Object(lists.collect()), 2);
        }
        for event in self.events {
            let list = [Key(HOOKS), Key(event)];
            if json.get(&list).is_none() {
                json.insert(&[Key(HOOKS)], event, &self.list(), 1)?;
            } else if let Some(position) = self.ours(json, event).first() {
                self.update(json, event, *position)?;
            } else {
                json.push(&list, &self.entry())?;
            }
        }
        Ok(())
    }

    /// Removes the hooks. Lists and objects that are empty then are removed too, unless they are in
    /// `original`, the text before the hooks were added.
    pub(crate) fn remove_from(&self, json: &mut JsonText, original: Option<&JsonText>) {
        let was_there = |path: &[Step<'_>]| original.is_some_and(|text| text.get(path).is_some());
        let mut has_removed = false;
        for event in self.events_in(json) {
            let ours = self.ours(json, &event);
            for position in ours.iter().rev() {
                self.remove_hook(json, &event, *position);
                has_removed = true;
            }
            let list = [Key(HOOKS), Key(event.as_str())];
            if !ours.is_empty() && json.get(&list) == Some(json!([])) && !was_there(&list) {
                json.remove(&list);
            }
        }
        let hooks = [Key(HOOKS)];
        if has_removed && json.get(&hooks) == Some(json!({})) && !was_there(&hooks) {
            json.remove(&hooks);
        }
    }

    /// The commands of midcourse's hooks in a settings file.
    pub(crate) fn commands_in(&self, json: &JsonText) -> Vec<String> {
        let mut commands = Vec::new();
        for event in self.events_in(json) {
            for position in self.ours(json, &event) {
                let mut path = self.hook_path(&event, position);
                path.push(Key(self.command_key));
                if let Some(Value::String(command)) = json.get(&path) {
                    commands.push(command);
                }
            }
        }
        commands
    }

    /// The events to which the hooks belong.
    pub(crate) const fn events(&self) -> &'static [&'static str] {
        self.events
    }

    /// midcourse's hooks in a settings file, in the order of the file.
    pub(crate) fn installed_in(&self, json: &JsonText) -> Vec<InstalledHook> {
        let mut installed = Vec::new();
        for event in self.events_in(json) {
            for position in self.ours(json, &event) {
                let hook = json.get(&self.hook_path(&event, position)).unwrap_or_default();
                let command = hook.get(self.command_key).and_then(Value::as_str);
                let timeout = self.hook.keys().find(|key| key.starts_with("timeout"));
                let matcher =
                    json.get(&[Key(HOOKS), Key(&event), Index(position.0), Key("matcher")]);
                installed.push(InstalledHook {
                    event: event.clone(),
                    position,
                    command: command.unwrap_or_default().to_owned(),
                    timeout: timeout.and_then(|key| hook.get(key)?.as_f64()),
                    is_async: hook.get("async").and_then(Value::as_bool).unwrap_or_default(),
                    matcher: matcher
                        .and_then(|matcher| Some(matcher.as_str()?.to_owned()))
                        .filter(|matcher| !["", "*", ".*"].contains(&matcher.as_str())),
                });
            }
        }
        installed
    }

    /// The hooks as JSON, for a file that contains nothing else.
    pub(crate) fn to_json(&self) -> Value {
        let lists = self.events.iter().map(|event| ((*event).to_owned(), self.list()));
        json!({ HOOKS: lists.collect::<Map<_, _>>() })
    }

    fn entry(&self) -> Value {
        let hook = Value::Object(self.hook.clone());
        if self.is_grouped { json!({ HOOKS: [hook] }) } else { hook }
    }

    fn list(&self) -> Value {
        json!([self.entry()])
    }

    fn events_in(&self, json: &JsonText) -> Vec<String> {
        match json.get(&[Key(HOOKS)]) {
            Some(Value::Object(lists)) => lists.into_iter().map(|(event, _)| event).collect(),
            _ => Vec::new(),
        }
    }

    /// The positions of midcourse's hooks in the list of an event.
    fn ours(&self, json: &JsonText, event: &str) -> Vec<Position> {
        let Some(Value::Array(list)) = json.get(&[Key(HOOKS), Key(event)]) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (group, entry) in list.iter().enumerate() {
            if !self.is_grouped {
                found.extend(self.is_ours(entry).then_some((group, 0)));
            } else if let Some(Value::Array(hooks)) = entry.get(HOOKS) {
                let ours = hooks.iter().enumerate().filter(|(_, hook)| self.is_ours(hook));
                found.extend(ours.map(|(index, _)| (group, index)));
            }
        }
        found
    }

    fn is_ours(&self, hook: &Value) -> bool {
        let command = hook.get(self.command_key).and_then(Value::as_str).unwrap_or_default();
        let words = midcourse_arguments(command).unwrap_or_default();
        let mut words = words.iter().map(String::as_str);
        words.next() == Some("hook") && words.next() == Some(self.host.name())
    }

    fn hook_path<'a>(&self, event: &'a str, (group, index): Position) -> Vec<Step<'a>> {
        let mut path = vec![Key(HOOKS), Key(event), Index(group)];
        if self.is_grouped {
            path.extend([Key(HOOKS), Index(index)]);
        }
        path
    }

    /// Gives a hook that is there the values of this one. Other keys stay.
    fn update(
        &self,
        json: &mut JsonText,
        event: &str,
        position: Position,
    ) -> Result<(), JsonEditError> {
        let hook = self.hook_path(event, position);
        for (key, value) in &self.hook {
            let path: Vec<_> = hook.iter().copied().chain([Key(key.as_str())]).collect();
            match json.get(&path) {
                Some(found) if found == *value => {}
                Some(_) => json.replace(&path, value),
                None => json.insert(&hook, key, value, 0)?,
            }
        }
        Ok(())
    }

    /// Removes a hook, and its group if nothing else is in it.
    fn remove_hook(&self, json: &mut JsonText, event: &str, position: Position) {
        let group = [Key(HOOKS), Key(event), Index(position.0)];
        let hooks = json.get(&[Key(HOOKS), Key(event), Index(position.0), Key(HOOKS)]);
        let is_last = hooks.and_then(|hooks| Some(hooks.as_array()?.len() == 1)).unwrap_or(true);
        if is_last {
            json.remove(&group);
        } else {
            json.remove(&self.hook_path(event, position));
        }
    }
}

/// The arguments of a shell command that starts a program called midcourse; `None` for any other
/// command.
pub(crate) fn midcourse_arguments(command: &str) -> Option<Vec<String>> {
    let words = shlex::split(command)?;
    let mut words = words.into_iter().skip_while(|word| word == "exec");
    let program = words.next()?;
    let name = Path::new(&program).file_name()?.to_str()?;
    let is_midcourse = name.strip_suffix(".exe").unwrap_or(name) == "midcourse";
    is_midcourse.then(|| words.collect())
}

/// The value of an option in a list of arguments.
pub(crate) fn option_value<'a>(arguments: &'a [String], option: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|word| word == option)?;
    arguments.get(at.checked_add(1)?).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use serde_json::{Value, json};

    use super::{HookSettings, midcourse_arguments};
    use crate::hosts::{Host, Installation};
    use crate::json_edit::JsonText;
    use crate::json_edit::properties::{contains_in_order, dense, settings_text};

    const COMMAND: &str = "'/my bin/midcourse' hook claude-code --home /h --config /c";

    fn hooks_of(host: Host, command: &str) -> HookSettings {
        match host.installation(command) {
            Installation::Hooks(hooks) => hooks,
            Installation::Plugin(_) => unreachable!(),
        }
    }

    fn parse(text: &str) -> JsonText {
        JsonText::parse(text.as_bytes()).unwrap()
    }

    proptest! {
        #[test]
        fn installing_adds_and_uninstalling_removes_nothing_else(text in settings_text()) {
            let hooks = hooks_of(Host::ClaudeCode, COMMAND);
            let original = parse(&text);
            let mut json = original.clone();
            hooks.add_to(&mut json).unwrap();
            let installed = json.clone();
            prop_assert_eq!(hooks.commands_in(&json), vec![format!("exec {COMMAND}"); hooks.events.len()]);
            prop_assert!(contains_in_order(&dense(&json.to_bytes()), &dense(text.as_bytes())));
            hooks.add_to(&mut json).unwrap();
            prop_assert_eq!(&json, &installed, "a second time changes nothing");

            // The program has moved: the hooks are updated where they are.
            let moved = hooks_of(Host::ClaudeCode, "/new/midcourse hook claude-code --home /other");
            moved.add_to(&mut json).unwrap();
            prop_assert_eq!(moved.commands_in(&json).len(), moved.events.len());
            hooks.add_to(&mut json).unwrap();
            prop_assert_eq!(&json, &installed);

            hooks.remove_from(&mut json, Some(&original));
            prop_assert_eq!(dense(&json.to_bytes()), dense(text.as_bytes()));
            prop_assert_eq!(json.get(&[]), original.get(&[]));
        }
    }

    #[test]
    fn the_documentation_lists_the_events() {
        let page = include_str!("../../../../docs/hosts.md");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for host in [Host::ClaudeCode, Host::Codex, Host::Qwen, Host::Gemini, Host::Copilot] {
            let (title, hooks) = (host.capabilities().title, hooks_of(host, ""));
            let (_, entry) = page.split_once(&format!("- **{title}** (")).unwrap();
            let (_, list) = entry.split_once("): ").unwrap();
            assert!(list.starts_with(&format!("{}.", hooks.events.join(", "))), "{title}");
        }
    }

    #[test]
    fn each_host_gets_its_own_form() {
        for (host, expected) in [
            (Host::Codex, json!([{"hooks": [{"type": "command", "command": "c", "timeout": 3}]}])),
            (
                Host::Gemini,
                json!([{"hooks": [{"type": "command", "command": "exec c", "name": "midcourse",
                                   "timeout": 10_000}]}]),
            ),
            (Host::Copilot, json!([{"type": "command", "bash": "exec c", "timeoutSec": 10}])),
        ] {
            let hooks = hooks_of(host, "c");
            let mut json = parse(hooks.new_file());
            hooks.add_to(&mut json).unwrap();
            let json: Value = serde_json::from_slice(&json.to_bytes()).unwrap();
            assert_eq!(json["hooks"]["SessionEnd"], expected);
        }
    }

    #[test]
    fn what_the_user_added_to_our_hook_stays() {
        let text = r#"{"hooks": {"Stop": [{"matcher": "x", "hooks": [
            {"type": "command", "command": "midcourse hook claude-code", "timeout": 3, "if": "y"},
            {"type": "command", "command": "/old/midcourse hook claude-code --home /h"},
            {"type": "command", "command": "other"}]}],
            "PreCompact": [{"hooks": [{"type": "command", "command": "midcourse hook claude-code"}]}]}}"#;
        let mut json = parse(text);
        let hooks = hooks_of(Host::ClaudeCode, COMMAND);
        hooks.add_to(&mut json).unwrap();
        let settings: Value = serde_json::from_slice(&json.to_bytes()).unwrap();
        let stop = json!([{"matcher": "x", "hooks": [
            {"type": "command", "command": format!("exec {COMMAND}"), "timeout": 10, "if": "y"},
            {"type": "command", "command": "other"}]}]);
        assert_eq!(settings["hooks"]["Stop"], stop);
        assert_eq!(settings["hooks"]["PreCompact"], json!([]), "midcourse has no hook there now");
        hooks.remove_from(&mut json, None);
        let settings: Value = serde_json::from_slice(&json.to_bytes()).unwrap();
        let stop = json!([{"matcher": "x", "hooks": [{"type": "command", "command": "other"}]}]);
        assert_eq!(settings, json!({"hooks": {"Stop": stop, "PreCompact": []}}));
    }

    #[test]
    fn installed_hooks_are_listed_with_what_the_user_changed() {
        let mut json = parse(
            r#"{"hooks": {"Stop": [{"matcher": "Bash", "hooks": [{"type": "command",
            "command": "midcourse hook claude-code", "timeout": 0.5, "async": true}]}]}}"#,
        );
        let hooks = hooks_of(Host::ClaudeCode, COMMAND);
        let [stop] = hooks.installed_in(&json).try_into().unwrap();
        assert_eq!((stop.event.as_str(), stop.timeout), ("Stop", Some(0.5)));
        assert_eq!((stop.is_async, stop.matcher.as_deref()), (true, Some("Bash")));
        hooks.add_to(&mut json).unwrap();
        let installed = hooks.installed_in(&json);
        assert_eq!(installed.len(), hooks.events().len());
        assert!(installed.iter().all(|hook| hook.timeout == Some(10.0)), "{installed:?}");
    }

    #[test]
    fn settings_of_another_form_are_refused() {
        let hooks = hooks_of(Host::ClaudeCode, COMMAND);
        for wrong in
            ["[]", "1", r#"{"hooks": []}"#, r#"{"hooks": {"Stop": {}}}"#, r#"{"hooks": null}"#]
        {
            assert!(hooks.add_to(&mut parse(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_commands_of_midcourse_are_ours() {
        for (command, is_ours) in [
            (COMMAND, true),
            ("exec midcourse hook codex", true),
            ("C:/bin/midcourse.exe hook codex", true),
            ("echo midcourse hook codex", false),
            ("midcourse-like hook codex", false),
            ("'unfinished", false),
            ("", false),
        ] {
            assert_eq!(midcourse_arguments(command).is_some(), is_ours, "{command}");
        }
    }
}
