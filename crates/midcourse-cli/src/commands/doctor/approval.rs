//! Whether the user has allowed hooks to run: Codex runs approved hooks only, and Gemini CLI runs
//! hooks only in trusted folders. Both skip other hooks without a message.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Place;
use super::finding::Finding;
use super::settings::SettingsFile;
use crate::hosts::{Host, InstalledHook};
use crate::json_edit::JsonText;

const CHECK: &str = "approval";

pub(super) fn check(host: Host, file: &SettingsFile, place: &Place) -> Option<Finding> {
    match host {
        Host::Codex => Some(codex(file)),
        Host::Gemini => Some(gemini(place)),
        _ => None,
    }
}

/// The folder of the host with the user's settings.
fn user_folder(host: Host) -> Option<PathBuf> {
    let home = dirs::home_dir();
    let file = host.settings_path().of_user(|name| std::env::var_os(name), home.as_deref())?;
    file.parent().map(Path::to_owned)
}

/// Codex approves hooks one by one, by a hash that only Codex can compute. `codex app-server` could say
/// whether the hashes are right, but it also writes files to the user's folder and uses the network,
/// so the approvals are only looked up.
fn codex(file: &SettingsFile) -> Finding {
    let path = file.path.display();
    let remedy = "start `codex`, type /hooks and approve midcourse's hooks";
    let Some(config) = user_folder(Host::Codex).map(|folder| folder.join("config.toml")) else {
        return Finding::note(CHECK, "Codex's folder was not found", remedy);
    };
    let text = std::fs::read_to_string(&config).unwrap_or_default();
    let values: Value = toml::from_str(&text).unwrap_or_default();
    let state = values.pointer("/hooks/state").cloned().unwrap_or_default();
    let count = file.hooks().len();
    let skipped = file.hooks().iter().filter(|hook| !is_approved(&state, &file.path, hook)).count();
    if skipped > 0 {
        return Finding::problem(
            CHECK,
            format!(
                "Codex skips {skipped} of {count} hooks of midcourse in {path}: you have not \
                 approved them"
            ),
            remedy,
        );
    }
    let changed = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    if changed(&file.path) > changed(&config) {
        return Finding::warning(
            CHECK,
            format!("{path} has changed since you approved its hooks; Codex skips changed hooks"),
            remedy,
        );
    }
    Finding::note(
        CHECK,
        format!("you have approved all {count} hooks; only Codex knows whether they are unchanged"),
        format!("if Codex records nothing, {remedy}"),
    )
}

/// Whether Codex's configuration contains an approval of a hook and does not switch it off.
fn is_approved(state: &Value, file: &Path, hook: &InstalledHook) -> bool {
    let (group, index) = hook.position;
    let event = snake_case(&hook.event);
    let real = file.canonicalize().unwrap_or_default();
    [file, real.as_path()].iter().any(|file| {
        let approval = state.get(format!("{}:{event}:{group}:{index}", file.display()));
        approval.is_some_and(|approval| {
            approval.get("trusted_hash").is_some()
                && approval.get("enabled") != Some(&Value::Bool(false))
        })
    })
}

/// The name of an event in the keys of approvals: `PostToolUse` becomes `post_tool_use`.
fn snake_case(event: &str) -> String {
    let mut name = String::new();
    for c in event.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

fn gemini(place: &Place) -> Finding {
    let folder = user_folder(Host::Gemini).unwrap_or_default();
    let read = |name: &str| {
        let bytes = std::fs::read(folder.join(name)).ok()?;
        JsonText::parse(&bytes).ok()?.get(&[])
    };
    let settings = read("settings.json").unwrap_or_default();
    if settings.pointer("/security/folderTrust/enabled") == Some(&Value::Bool(false)) {
        return Finding::ok(CHECK, "every folder is trusted (security.folderTrust is off)");
    }
    let named = std::env::var_os("GEMINI_CLI_TRUSTED_FOLDERS_PATH").map(PathBuf::from);
    let trusted = match named {
        Some(file) => {
            std::fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
        }
        None => read("trustedFolders.json"),
    };
    let cwd = place.cwd.display();
    if is_trusted(&trusted.unwrap_or_default(), &place.cwd) {
        return Finding::ok(CHECK, format!("you trust this folder, {cwd}"));
    }
    Finding::warning(
        CHECK,
        format!("Gemini CLI skips hooks in this folder, because you do not trust it: {cwd}"),
        "start `gemini` in this folder, type /permissions and trust it",
    )
}

/// Whether a folder is trusted, by the nearest entry above it.
fn is_trusted(entries: &Value, cwd: &Path) -> bool {
    let entries = entries.as_object().into_iter().flatten();
    let covering = entries.filter_map(|(path, trust)| {
        let path = Path::new(path);
        let (root, is_trusted) = match trust.as_str()? {
            "TRUST_FOLDER" => (path, true),
            "TRUST_PARENT" => (path.parent()?, true),
            _ => (path, false),
        };
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let length = root.components().count();
        cwd.starts_with(&root).then_some((length, is_trusted))
    });
    covering.max().is_some_and(|(_, is_trusted)| is_trusted)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::is_trusted;

    #[test]
    fn the_nearest_entry_decides_about_a_folder() {
        let entries = json!({"/no/a": "TRUST_FOLDER", "/no/a/b": "DO_NOT_TRUST",
                             "/no/x/y": "TRUST_PARENT", "/no/a/b/c": "TRUST_FOLDER"});
        for (folder, expected) in [
            ("/no/a", true),
            ("/no/a/z", true),
            ("/no/a/b", false),
            ("/no/a/b/c/d", true),
            ("/no/x/z", true),
            ("/no/other", false),
        ] {
            assert_eq!(is_trusted(&entries, Path::new(folder)), expected, "{folder}");
        }
        assert!(!is_trusted(&json!(null), Path::new("/no/a")));
    }
}
