//! Asks Codex for its hooks and their hashes. Starts `codex app-server` and sends it the request
//! `hooks/list`; both sides write one JSON message per line. This is the only code in `hosts` that
//! starts a process; `midcourse run` calls it before it starts the agent.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

/// How long Codex may take to list its hooks.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long `codex app-server` may take to exit before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The id of the request that lists the hooks, by which its reply is recognised.
const LIST_ID: u64 = 2;

/// A hook in Codex's reply to `hooks/list`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedHook {
    pub(super) key: String,
    pub(super) command: Option<String>,
    pub(super) source: Option<String>,
    pub(super) current_hash: Option<String>,
}

#[derive(Deserialize)]
struct ReplyWire {
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
    hooks: Vec<ListedHook>,
}

/// Lists the hooks that Codex would run if it were started with these command-line options. The
/// error is a message for the user.
pub(super) fn list_hooks(
    starter: &[OsString],
    options: &[String],
) -> Result<Vec<ListedHook>, String> {
    let (program, wrapped) = starter.split_first().ok_or("there is no program")?;
    let mut server = Command::new(program)
        .args(wrapped)
        .arg("app-server")
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let list = request_list(&mut server);
    wait_for_exit(&mut server);
    Ok(list?.data.into_iter().flat_map(|folder| folder.hooks).collect())
}

fn request_list(server: &mut Child) -> Result<ListWire, String> {
    let (Some(mut input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
        return Err("it has no standard input and output".to_owned());
    };
    let version = env!("CARGO_PKG_VERSION");
    let client = json!({"name": "midcourse", "title": "midcourse", "version": version});
    let cwd = std::env::current_dir().map_err(|error| error.to_string())?;
    for message in [
        json!({"id": 1, "method": "initialize", "params": {"clientInfo": client}}),
        json!({"method": "initialized"}),
        json!({"id": LIST_ID, "method": "hooks/list", "params": {"cwds": [cwd]}}),
    ] {
        match writeln!(input, "{message}") {
            // The server has exited already. Reading finds that out too, and reports it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written.map_err(|error| error.to_string())?,
        }
    }
    let (sender, replies) = channel();
    let read = move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Skip everything but the reply: the server also sends notifications and requests.
            let reply: Value = serde_json::from_str(&line).unwrap_or_default();
            if reply.get("id").and_then(Value::as_u64) == Some(LIST_ID)
                && sender.send(reply).is_err()
            {
                return;
            }
        }
    };
    std::thread::Builder::new().spawn(read).map_err(|error| error.to_string())?;
    let reply = replies.recv_timeout(REPLY_TIMEOUT).map_err(|error| match error {
        RecvTimeoutError::Timeout => "it did not reply in time".to_owned(),
        RecvTimeoutError::Disconnected => "it exited without a reply".to_owned(),
    })?;
    let reply: ReplyWire = serde_json::from_value(reply)
        .map_err(|error| format!("its reply is not understood: {error}"))?;
    reply.result.ok_or_else(|| reply.error.unwrap_or_default().to_string())
}

/// Waits for the server to exit, which it does by itself when its input ends. Kills the server if
/// that takes too long.
fn wait_for_exit(server: &mut Child) {
    let begun = Instant::now();
    while begun.elapsed() < EXIT_TIMEOUT {
        if matches!(server.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = server.kill();
    let _ = server.wait();
}
