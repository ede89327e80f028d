//! The client's exit code and output are the same with and without midcourse.

use serde_json::{Value, json};

use super::Client;
use super::script::{Script, Turn};
use super::trial::{Ended, Hooks, RUN, Trial};

/// The client's standard output without the parts that differ in every run, such as ids and times.
fn shape(ended: &Ended) -> Vec<String> {
    let lines = match ended.client {
        Client::ClaudeCode => vec![serde_json::from_str(&ended.stdout).unwrap()],
        Client::Codex => ended.lines(),
    };
    // Codex prints this warning only if it has hooks, that is only with midcourse, so the
    // comparison leaves the warning out.
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

/// Runs a script with and without midcourse, and compares exit code, output and model requests.
fn compare(client: Client, script: &Script, code: i32) {
    let run = |hooks: &Hooks| Some(Trial::of(client, script.clone())?.run(hooks));
    let (Some(bare), Some(watched)) = (run(&Hooks::None), run(&RUN)) else { return };
    assert_eq!(bare.code, Some(code), "{}{}", bare.stdout, bare.stderr);
    assert_eq!(watched.code, Some(code), "{}{}", watched.stdout, watched.stderr);
    assert_eq!(shape(&watched), shape(&bare));
    assert_eq!(watched.results(), bare.results());
    assert_eq!(
        watched.requests.len(),
        bare.requests.len(),
        "the number of model requests is the same"
    );
}

fn success(client: Client) -> Script {
    let steps =
        [client.shell("a", "echo hello"), client.forbidden("b"), client.shell("c", "exit 3")];
    Script::of_calls(steps, "I have finished.")
}

fn failure(client: Client) -> Script {
    let main = vec![Turn::Response(vec![client.shell("a", "echo hello")]), Turn::Error(400)];
    Script { main, subagent: Vec::new() }
}

#[test]
fn a_success_of_claude_code_looks_the_same() {
    compare(Client::ClaudeCode, &success(Client::ClaudeCode), 0);
}

#[test]
fn a_failure_of_claude_code_looks_the_same() {
    compare(Client::ClaudeCode, &failure(Client::ClaudeCode), 1);
}

#[test]
fn a_success_of_codex_looks_the_same() {
    compare(Client::Codex, &success(Client::Codex), 0);
}

#[test]
fn a_failure_of_codex_looks_the_same() {
    compare(Client::Codex, &failure(Client::Codex), 1);
}
