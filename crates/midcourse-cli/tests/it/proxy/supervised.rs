//! The proxy process that `midcourse run` starts for its agent. If the process dies,
//! `midcourse run` starts it again.

use std::process::Stdio;
use std::sync::{Mutex, mpsc};

use super::server::{Server, completion, send_json};
use super::{Chat, command, runs};

/// Functions for the bash script that plays the agent. `ask BODY` sends a model request through the
/// proxy and prints the status line of the response. `proxies` prints the proxy's process id.
const SHELL_FUNCTIONS: &str = r#"
ask() {
  url=${OPENAI_BASE_URL#http://}
  exec 3<>"/dev/tcp/${url%%:*}/$(echo "${url#*:}" | cut -d/ -f1)"
  printf 'POST /%s/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s' \
    "${url#*/}" "${#1}" "$1" >&3
  head -n 1 <&3
  exec 3>&-
}
# The other children of `midcourse run`.
proxies() { pgrep -P $PPID | grep -v "^$$\$"; }
# Waits until there is a proxy other than the last one.
new_proxy() { until p=$(proxies) && [ $p != "$last" ]; do :; done; }
# Waits until the killed process is gone: until then it can still take a connection, which dies with it.
kill_proxy() { new_proxy; kill -9 $p; last=$p; while kill -0 $p 2>/dev/null; do :; done; }
"#;

/// Runs a script. `pause` is how long `midcourse run` waits, in milliseconds, before it restarts a
/// proxy that keeps dying.
fn run(script: &str, server: &Server, pause: &str) -> (tempfile::TempDir, std::process::Output) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&folder);
    command
        .args(["run", "--", "bash", "-c", &format!("{SHELL_FUNCTIONS}\n{script}")])
        .env("OPENAI_BASE_URL", format!("http://{}/v1", server.address))
        .env("MIDCOURSE_PROXY_RESTART_PAUSE_MS", pause)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = command.output().unwrap();
    (folder, output)
}

#[test]
fn a_proxy_that_dies_is_restarted() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let body = Chat::new("go").body();
    let script = format!("ask '{body}'\nfor i in 1 2; do kill_proxy; ask '{body}'; done; exit 7");
    let (folder, output) = run(&script, &server, "60000");
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(out, "HTTP/1.1 200 OK\r\n".repeat(3).replace("OK", "-"), "{:?}", output.stderr);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(server.received().len(), 3);
    assert!(!runs(&folder).is_empty());
}

#[test]
fn run_forwards_requests_itself_if_the_proxy_keeps_dying() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let body = Chat::new("go").body();
    // After the third death, `midcourse run` pauses and forwards requests itself.
    let script = format!("for i in 1 2 3; do kill_proxy; done; ask '{body}'");
    let (_, output) = run(&script, &server, "60000");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "HTTP/1.1 200 -\r\n");
    assert_eq!(output.status.code(), Some(0));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("the proxy stopped early"), "{err}");
}

#[test]
fn recording_goes_on_when_the_proxy_can_be_started_again() {
    let (later, is_later) = mpsc::channel();
    let (later, is_later) = (Mutex::new(later), Mutex::new(is_later));
    // The response to the first request comes only after the second request.
    let server = Server::start(move |_, request, out| {
        if request.text().contains("first") {
            is_later.lock().unwrap().recv().unwrap();
        } else {
            later.lock().unwrap().send(()).unwrap();
        }
        send_json(out, 200, &completion(Some("ok"), None));
    });
    let [first, second] = ["first", "second"].map(|task| Chat::new(task).body());
    let script = format!(
        "for i in 1 2 3; do kill_proxy; done
         ask '{first}' > first & asking=$!
         new_proxy; ask '{second}'; wait $asking; cat first"
    );
    let (folder, output) = run(&script, &server, "2000");
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "HTTP/1.1 200 -\r\n".repeat(2), "{err}");
    assert!(err.contains("some model requests were passed on and not recorded"), "{err}");
    let runs = runs(&folder);
    assert!(runs.iter().any(|run| format!("{run:?}").contains("second")), "{} runs", runs.len());
}

#[test]
fn the_proxy_ends_with_the_command() {
    let server = Server::of_json(|_| completion(Some("ok"), None));
    let body = Chat::new("go").body();
    let script = format!("ask '{body}'; proxies");
    let (folder, output) = run(&script, &server, "60000");
    let out = String::from_utf8(output.stdout).unwrap();
    let pid = out.lines().nth(1).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    let runs = runs(&folder);
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    assert_eq!(run.last().unwrap().payload.kind(), "run_ended");
}
