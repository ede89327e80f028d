//! `midcourse install claude-code --plugin`: a folder that is a marketplace of Claude Code with one
//! plugin, which contains midcourse's hooks.

use std::io::{Write as _, stdout};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::hook::quoted;
use super::target::print_diff;
use crate::display::escape_control_chars;
use crate::hosts::{Host, Installation};
use crate::user_file::UserFile;

const DESCRIPTION: &str = "Keeps unattended agents on course.";

pub(super) fn write(folder: &Path, hook_command: &str, is_dry_run: bool) -> Result<()> {
    let folder = std::path::absolute(folder)?;
    let files = files(hook_command)?;
    for (name, content) in &files {
        let path = folder.join(name);
        let file = UserFile::read(&path)?;
        if is_dry_run {
            print_diff(&path, file.content(), Some(content))?;
        } else if file.content() != Some(content) {
            file.replace(content)?;
        }
    }
    if !is_dry_run {
        let (mut out, shown) = (stdout().lock(), folder.display().to_string());
        writeln!(out, "wrote the plugin: {}", escape_control_chars(&shown))?;
        writeln!(out, "next: claude plugin marketplace add {}", quoted(&folder)?)?;
        writeln!(out, "      claude plugin install midcourse@midcourse")?;
        writeln!(out, "undo: claude plugin uninstall midcourse@midcourse")?;
        writeln!(out, "      claude plugin marketplace remove midcourse")?;
    }
    Ok(())
}

fn files(hook_command: &str) -> Result<[(&'static str, Vec<u8>); 3]> {
    let version = env!("CARGO_PKG_VERSION");
    let plugin = json!({"name": "midcourse", "version": version, "description": DESCRIPTION,
                        "author": {"name": "midcourse"}, "license": env!("CARGO_PKG_LICENSE")});
    let marketplace = json!({
        "name": "midcourse",
        "description": DESCRIPTION,
        "owner": {"name": "midcourse"},
        "plugins": [{"name": "midcourse", "source": "./", "version": version,
                     "description": DESCRIPTION}],
    });
    let hooks = match Host::ClaudeCode.installation(hook_command) {
        Installation::Hooks(hooks) => hooks.to_json(),
        Installation::Plugin(_) => Value::Null,
    };
    let text = |value: &Value| -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        Ok(text)
    };
    Ok([
        (".claude-plugin/plugin.json", text(&plugin)?),
        (".claude-plugin/marketplace.json", text(&marketplace)?),
        ("hooks/hooks.json", text(&hooks)?),
    ])
}
