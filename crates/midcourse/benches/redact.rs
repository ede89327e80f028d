//! Benchmark of redaction: megabytes per second for ordinary text, and for text that was made to be
//! slow to redact.
//!
//! `cargo bench -p midcourse --bench redact`. To compare two builds, run their binaries in turns;
//! `MIDCOURSE_BENCH_ROUNDS` sets the number of rounds, of which the fastest counts.

#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints what it found"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use midcourse::Redaction;

/// The length of each text, in bytes. The store redacts at most this much of one text.
const TEXT_LEN: usize = 1 << 20;

/// Lines as in the output of tools: source code, a build log, prose, JSON and a diff.
const ORDINARY: &str = r#"    pub(crate) fn records(&self, run_id: &str, from: u64) -> Result<Vec<Record>, StoreError> {
        let Some(head) = self.heads.get(run_id).copied() else { return Ok(Vec::new()) };
        let password = prompt_password("Password: ")?; // asks once
   Compiling serde_json v1.0.149 (/home/user/.cargo/registry/src/serde_json-1.0.149)
warning: unused variable: `token`, help: if this is intentional, prefix it with an underscore: `_token`
  --> crates/core/src/lexer.rs:212:13
The command prints a table with one row per run, newest first; use `--json` for a line per run.
{"id": 4812, "name": "build", "status": "ok", "url": "https://ci.example.org/job/4812", "at": "2026-01-12T09:31:07Z"}
+    assert_eq!(tokens.next(), Some(Token { kind: TokenKind::Ident, text: "key", line: 12 }));
-    expect(await client.get('/users?page=2')).resolves.toMatchObject({ total: 41 });
drwxr-xr-x  7 user user  4096 Jan 12 09:31 node_modules
2026-01-12 09:31:07.412 INFO  [worker-3] c.e.app.Scheduler - finished task 7f3a9c21 in 182 ms
"#;

/// Short texts that make the rules start often and find nothing.
const ADVERSARIAL: &[&str] = &[
    "cookie:a=",
    "password: ",
    "password=a ",
    "token:\"a",
    "curl -u a:",
    "mysql -pa ",
    " --password ",
    "a://b:",
    "-----BEGIN PRIVATE KEY-----\n",
    "eyJhbGciOiJI.eyJ ",
    "sk-ant-a ",
    "name: password\nvalue: ",
    "data:\n  a: ",
    "value=",
    "[redacted:",
    "Basic ",
    "a:1:b:c:",
    "PASSWORD '",
];

fn main() {
    let rounds = std::env::var("MIDCOURSE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds = rounds.unwrap_or(15_usize);
    println!("{:>32} {:>8}", "text", "MB/s");
    for text in std::iter::once(&ORDINARY).chain(ADVERSARIAL) {
        let repeated = text.repeat(TEXT_LEN / text.len());
        let name = if *text == ORDINARY { "ordinary lines" } else { text };
        println!("{name:>32?} {:>8.0}", rate(&repeated, rounds));
    }
}

/// Megabytes per second in the fastest of several rounds.
fn rate(text: &str, rounds: usize) -> f64 {
    let redaction = Redaction::default();
    let mut fastest = Duration::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        black_box(redaction.redact(black_box(text)));
        fastest = fastest.min(start.elapsed());
    }
    text.len() as f64 / 1e6 / fastest.as_secs_f64()
}
