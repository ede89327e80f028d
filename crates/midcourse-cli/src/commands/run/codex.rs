//! Codex with our hooks: its option `-c`, for hooks and for the trust in exactly these.
//!
//! Codex runs a hook only if its hash was approved, and says nothing about one it skips. Whoever
//! types `midcourse run -- codex` has agreed to our hook for that process, and to nothing else. So
//! Codex is asked for the hash of each hook as it would run it (`hooks/list` of its app server),
//! and the approval of those hashes is given in the same way as the hooks: for this process,
//! beside what the user has approved. Nothing is written to Codex's folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::hosts::Host;
use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

/// Seconds after which Codex gives up on a hook, which gives up on itself long before. Codex allows
/// no more at the end of a session.
const TIMEOUT: u64 = 3;

/// How long Codex may take to list its hooks.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it may take to end.
const GOODBYE: Duration = Duration::from_millis(500);

pub(super) fn prepare(
    program: &OsString,
    words: &[OsString],
    command: &str,
) -> Result<Vec<OsString>> {
    ensure!(
        !sets_hooks(words),
        "hooks are given on its command line (-c hooks…), and would replace those of midcourse; \
         put them into Codex's config.toml instead"
    );
    let hooks = hook_options(command);
    let trust = trust_option(&listed(program, &hooks)?, command)?;
    let ours = hooks.into_iter().chain(["-c".to_owned(), trust]).map(OsString::from);
    Ok(ours.chain(words.iter().cloned()).collect())
}

/// Whether the user's own options set hooks.
fn sets_hooks(words: &[OsString]) -> bool {
    let is_hooks = |value: &str| value.trim_start().starts_with("hooks");
    let mut words = words.iter().map(|word| word.to_str().unwrap_or_default());
    while let Some(word) = words.next() {
        let value = match word {
            "--" => return false,
            "-c" | "--config" => words.next(),
            other => other.strip_prefix("--config=").or_else(|| other.strip_prefix("-c")),
        };
        if value.is_some_and(|value| is_hooks(value.trim_start_matches('='))) {
            return true;
        }
    }
    false
}

/// A text in TOML, whose strings are those of JSON.
fn toml(text: &str) -> String {
    Value::from(text).to_string()
}

fn hook_options(command: &str) -> Vec<String> {
    let option = |event: &&str| {
        let command = toml(command);
        let hook = format!("{{type=\"command\",command={command},timeout={TIMEOUT}}}");
        ["-c".to_owned(), format!("hooks.{event}=[{{hooks=[{hook}]}}]")]
    };
    Host::Codex.hook_events().iter().flat_map(option).collect()
}

/// The answer of the app server to the question for its hooks.
#[derive(Deserialize)]
struct AnswerWire {
    result: Option<ListWire>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ListWire {
    #[serde(default)]
    data: Vec<FolderWire>,
}

#[derive(Deserialize)]
struct FolderWire {
    #[serde(default)]
    hooks: Vec<HookWire>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HookWire {
    key: String,
    command: Option<String>,
    source: Option<String>,
    current_hash: Option<String>,
}

/// The approval of exactly our hooks, by the hashes that Codex gives them.
fn trust_option(hooks: &[HookWire], command: &str) -> Result<String> {
    let is_ours = |hook: &&HookWire| {
        hook.source.as_deref() == Some("sessionFlags") && hook.command.as_deref() == Some(command)
    };
    let ours = hooks.iter().filter(is_ours);
    let hashes: BTreeMap<&str, &str> =
        ours.filter_map(|hook| Some((hook.key.as_str(), hook.current_hash.as_deref()?))).collect();
    let (found, all) = (hashes.len(), Host::Codex.hook_events().len());
    ensure!(
        found == all,
        "of {all} hooks it lists {found}; this release of Codex may be too old or too new. Put \
         `midcourse hook codex` into its hooks.json and approve it with /hooks to be watched"
    );
    let entry =
        |(key, hash): (&str, &str)| format!("{}={{trusted_hash={}}}", toml(key), toml(hash));
    let entries: Vec<String> = hashes.into_iter().map(entry).collect();
    Ok(format!("hooks.state={{{}}}", entries.join(",")))
}

/// The hooks as Codex sees them with our options.
fn listed(program: &OsString, hooks: &[String]) -> Result<Vec<HookWire>> {
    let mut server = Command::new(program)
        .arg("app-server")
        .args(hooks)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("its app server, which knows its hooks, cannot be started")?;
    let answer = ask(&mut server);
    leave(&mut server);
    let answer = answer.context("its app server does not say which hooks there are")?;
    Ok(answer.data.into_iter().flat_map(|folder| folder.hooks).collect())
}

/// Lets the server end by itself, since its input has ended; it tidies up then. Not for long.
fn leave(server: &mut Child) {
    let begun = Instant::now();
    while begun.elapsed() < GOODBYE {
        if matches!(server.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = server.kill();
    let _ = server.wait();
}

fn ask(server: &mut Child) -> Result<ListWire> {
    let (Some(mut input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
        bail!("it has no input and output");
    };
    let version = env!("CARGO_PKG_VERSION");
    let who = json!({"name": "midcourse", "title": "midcourse", "version": version});
    let folder = std::env::current_dir()?;
    for message in [
        json!({"id": 1, "method": "initialize", "params": {"clientInfo": who}}),
        json!({"method": "initialized"}),
        json!({"id": 2, "method": "hooks/list", "params": {"cwds": [folder]}}),
    ] {
        writeln!(input, "{message}")?;
    }
    let (sender, answers) = channel();
    std::thread::Builder::new().spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // What is no answer (a notice, a question) is passed over.
            let answer: Value = serde_json::from_str(&line).unwrap_or_default();
            if answer.get("id").and_then(Value::as_u64) == Some(2) && sender.send(answer).is_err() {
                return;
            }
        }
    })?;
    let answer = answers.recv_timeout(PATIENCE).context("there is no answer")?;
    let answer: AnswerWire = serde_json::from_value(answer).context("its answer is another one")?;
    match (answer.result, answer.error) {
        (Some(list), _) => Ok(list),
        (None, error) => bail!("{}", error.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::hosts::Host;

    use super::{HookWire, hook_options, sets_hooks, trust_option};

    #[test]
    fn our_hooks_are_an_option_for_each_event() {
        let options = hook_options("/bin/midcourse hook codex");
        assert_eq!(options.len(), Host::Codex.hook_events().len() * 2);
        let hook = r#"[{hooks=[{type="command",command="/bin/midcourse hook codex",timeout=3}]}]"#;
        assert!(options.contains(&format!("hooks.PostToolUse={hook}")), "{options:?}");
        assert!(!options.iter().any(|option| option.contains("PermissionRequest")));
    }

    fn hook(key: usize, source: &str, command: &str) -> HookWire {
        HookWire {
            key: format!("/<session-flags>/config.toml:e{key}:0:0"),
            command: Some(command.to_owned()),
            source: Some(source.to_owned()),
            current_hash: Some(format!("sha256:{key}")),
        }
    }

    #[test]
    fn exactly_our_hooks_are_trusted() {
        let all = Host::Codex.hook_events().len();
        let mut hooks: Vec<HookWire> =
            (0..all).map(|key| hook(key, "sessionFlags", "ours")).collect();
        hooks.push(hook(100, "user", "ours"));
        hooks.push(hook(101, "sessionFlags", "theirs"));
        hooks.push(hook(102, "project", "theirs"));
        let option = trust_option(&hooks, "ours").unwrap();
        assert!(
            option.starts_with("hooks.state={\"/<session-flags>/config.toml:e0:0:0\"={trusted")
        );
        assert_eq!(option.matches("trusted_hash").count(), all);
        for other in ["e100", "e101", "e102"] {
            assert!(!option.contains(other), "{option}");
        }
        let error = trust_option(&hooks[1..], "ours").unwrap_err().to_string();
        assert!(error.contains("/hooks"), "{error}");
    }

    #[test]
    fn hooks_on_the_users_own_command_line_are_noticed() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for theirs in [
            &["exec", "-c", "hooks.Stop=[]"][..],
            &["-chooks.Stop=[]"],
            &["--config", "hooks={}"],
            &["--config=hooks.state={}"],
        ] {
            assert!(sets_hooks(&words(theirs)), "{theirs:?}");
        }
        for other in [&["exec", "-c", "model=x", "hooks"][..], &["--", "-c", "hooks.Stop=[]"]] {
            assert!(!sets_hooks(&words(other)), "{other:?}");
        }
    }
}
