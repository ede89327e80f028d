//! What whoever started the client gets of it: its exit code and its output.

use serde_json::{Value, json};

use super::Client;
use super::script::{Script, Turn};
use super::trial::{Ended, Hooks, RUN, Trial};

/// Standard output without what is another in every run: ids, times, what things cost.
fn shape(ended: &Ended) -> Vec<String> {
    let lines = match ended.client {
        Client::ClaudeCode => vec![serde_json::from_str(&ended.stdout).unwrap()],
        Client::Codex => ended.lines(),
    };
    // Only a hook that was put there by hand is warned of.
    let is_warning = |line: &Value| line.to_string().contains("bypass-hook-trust");
    lines
        .into_iter()
        .filter(|line| !is_warning(line))
        .map(|line| stable(line).to_string())
        .collect()
}

fn stable(value: Value) -> Value {
    let varies = |name: &str| {
        name == "id" || name.ends_with("_id") || name.ends_with("_ms") || name == "uuid"
    };
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| {
                let value = if varies(&name) { json!("varies") } else { stable(value) };
                (name, value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => items.into_iter().map(stable).collect(),
        other => other,
    }
}

/// Runs a script without midcourse and with it; nobody can tell which was which.
fn compare(client: Client, script: &Script, code: i32) {
    let run = |hooks: &Hooks| Some(Trial::of(client, script.clone())?.run(hooks));
    let (Some(bare), Some(watched)) = (run(&Hooks::None), run(&RUN)) else { return };
    assert_eq!(bare.code, Some(code), "{}{}", bare.stdout, bare.stderr);
    assert_eq!(watched.code, Some(code), "{}{}", watched.stdout, watched.stderr);
    assert_eq!(shape(&watched), shape(&bare));
    assert_eq!(watched.results(), bare.results());
    assert_eq!(watched.asked.len(), bare.asked.len(), "the model is asked as often");
}

fn success(client: Client) -> Script {
    let steps =
        [client.shell("a", "echo hello"), client.forbidden("b"), client.shell("c", "exit 3")];
    Script::of_calls(steps, "I have finished.")
}

fn failure(client: Client) -> Script {
    let main = vec![Turn::Answers(vec![client.shell("a", "echo hello")]), Turn::Refuses(400)];
    Script { main, agent: Vec::new() }
}

#[test]
fn claude_code_ends_well_as_ever() {
    compare(Client::ClaudeCode, &success(Client::ClaudeCode), 0);
}

#[test]
fn claude_code_fails_as_ever() {
    compare(Client::ClaudeCode, &failure(Client::ClaudeCode), 1);
}

#[test]
fn codex_ends_well_as_ever() {
    compare(Client::Codex, &success(Client::Codex), 0);
}

#[test]
fn codex_fails_as_ever() {
    compare(Client::Codex, &failure(Client::Codex), 1);
}
