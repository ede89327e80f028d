//! Adds midcourse's plugin to opencode by an environment variable with configuration. opencode merges
//! it with the user's configuration, whose plugins run too. No file of the user is changed.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::settings_path::SettingsPath;
use super::super::{HookedArguments, InstallError};

const VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";

const PLUGIN: &str = include_str!("plugin.js");

const FILE_NAME: &str = "midcourse.js";

/// How long the plugin waits for a hook, in milliseconds. The hook has a timeout of its own, and a
/// quarter of a second more to save what it could not store.
const TIME_LIMIT_MS: u64 = 750;

pub(in crate::hosts) fn install_hooks(
    arguments: &[OsString],
    hook_command: &str,
    folder: &Path,
) -> Result<HookedArguments, InstallError> {
    let given = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let config = with_plugin(given.as_deref(), &file_url(&folder.join(FILE_NAME)))
        .ok_or(InstallError::InvalidConfigVariable(VARIABLE))?;
    Ok(HookedArguments {
        arguments: arguments.to_vec(),
        environment: vec![(VARIABLE, config.into())],
        files: vec![(FILE_NAME, plugin(hook_command))],
    })
}

pub(in crate::hosts) const SETTINGS: SettingsPath = SettingsPath {
    variable: Some("OPENCODE_CONFIG_DIR"),
    base: Some(("XDG_CONFIG_HOME", "opencode")),
    folder: ".config/opencode",
    file: "plugin/midcourse.js",
    project: ".opencode/plugin/midcourse.js",
};

/// Where opencode keeps its sessions.
pub(in crate::hosts) const DATA: SettingsPath = SettingsPath {
    variable: None,
    base: Some(("XDG_DATA_HOME", "opencode")),
    folder: ".local/share/opencode",
    file: "",
    project: "",
};

/// Whether this is the text of midcourse's plugin, in this or another version.
pub(in crate::hosts) fn is_plugin(text: &str) -> bool {
    PLUGIN.lines().next().is_some_and(|line| text.starts_with(line))
}

/// The command in the text of midcourse's plugin.
pub(in crate::hosts) fn plugin_command(text: &str) -> Option<Vec<String>> {
    let line = text.lines().find_map(|line| line.strip_prefix("const COMMAND = "))?;
    serde_json::from_str(line.trim_end_matches(';')).ok()
}

/// The time limit in the text of midcourse's plugin, in milliseconds.
pub(in crate::hosts) fn plugin_time_limit_ms(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("const TIME_LIMIT_MS = "))?;
    line.trim_end_matches(';').parse().ok()
}

/// The plugin, with the command that it starts.
pub(in crate::hosts) fn plugin(hook_command: &str) -> String {
    let words = shlex::split(hook_command).unwrap_or_default();
    // A timeout that the user has set is among the arguments of the hook.
    let given = words.iter().skip_while(|word| *word != "--timeout-ms").nth(1);
    let given = given.and_then(|text| text.parse::<u64>().ok());
    let limit = given.map_or(TIME_LIMIT_MS, |given| given.saturating_add(250));
    PLUGIN
        .replace("\"{{command}}\"", &Value::from(words).to_string())
        .replace("\"{{time limit}}\"", &limit.to_string())
}

/// Adds the plugin to configuration in JSON; `None` if that is not valid.
fn with_plugin(config: Option<&str>, url: &str) -> Option<String> {
    let mut config: Map<String, Value> = match config {
        Some(text) => serde_json::from_str(text).ok()?,
        None => Map::new(),
    };
    let plugins = config.entry("plugin").or_insert_with(|| json!([]));
    plugins.as_array_mut()?.push(url.into());
    Some(Value::Object(config).to_string())
}

fn file_url(path: &Path) -> String {
    let mut url = "file://".to_owned();
    for c in path.to_string_lossy().chars() {
        match c {
            '%' | '#' | '?' | ' ' => url.push_str(&format!("%{:02X}", u32::from(c))),
            other => url.push(other),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{file_url, is_plugin, plugin, plugin_command, plugin_time_limit_ms, with_plugin};

    #[test]
    fn the_plugin_starts_the_hook() {
        let text = plugin("'/bin/my midcourse' hook opencode --home /h");
        let command = r#"const COMMAND = ["/bin/my midcourse","hook","opencode","--home","/h"];"#;
        assert!(text.contains(command), "{text}");
        assert_eq!(plugin_time_limit_ms(&text), Some(750.0));
        let text = plugin("midcourse hook opencode --timeout-ms 2000");
        assert!(text.contains("const TIME_LIMIT_MS = 2250;"), "{text}");
        assert!(!text.contains("{{"), "{text}");
        let command = ["midcourse", "hook", "opencode", "--timeout-ms", "2000"].map(str::to_owned);
        assert_eq!(plugin_command(&text), Some(command.to_vec()));
        assert!(is_plugin(&text) && !is_plugin("export const Other = 1;"));
    }

    #[test]
    fn configuration_of_the_user_is_kept() {
        let url = file_url(Path::new("/a b/m.js"));
        assert_eq!(url, "file:///a%20b/m.js");
        assert_eq!(with_plugin(None, "u").as_deref(), Some(r#"{"plugin":["u"]}"#));
        let theirs = r#"{"model":"m","plugin":["theirs"]}"#;
        let config = with_plugin(Some(theirs), "u").unwrap();
        assert_eq!(config, r#"{"model":"m","plugin":["theirs","u"]}"#);
        for wrong in ["{", "[]", r#"{"plugin":"one"}"#] {
            assert_eq!(with_plugin(Some(wrong), "u"), None, "{wrong}");
        }
    }
}
