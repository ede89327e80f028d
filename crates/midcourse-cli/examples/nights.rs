//! Prints three invented nights of a coding agent as JSON lines for `midcourse record`: one without
//! trouble, one in which the agent looped and recovered after a message, and one that died. The
//! output is always the same.
//!
//! ```console
//! $ cargo run -p midcourse-cli --example nights | midcourse record > /dev/null
//! $ midcourse report night-looped
//! ```

use std::io::{BufWriter, Write as _};

use serde_json::{Value, json};

fn main() -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in nights() {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// The lines of all nights.
pub(crate) fn nights() -> Vec<Value> {
    [clean(), looped(), died()].concat()
}

/// A night while it is being written.
struct Night {
    lines: Vec<Value>,
    run: String,
    parent: Option<String>,
    model: &'static str,
    at: u64,
    calls: u64,
    context: u64,
    seed: u64,
}

impl Night {
    fn new(run: &str, model: &'static str, at: u64) -> Self {
        let seed = run.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(byte));
        let (run, context) = (run.to_owned(), 18_000);
        Self { lines: Vec::new(), run, parent: None, model, at, calls: 0, context, seed }
    }

    /// A number from 0 to `below` - 1, the same in every execution.
    fn number(&mut self, below: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn seconds(&mut self, seconds: u64) {
        self.at += seconds * 1_000;
    }

    fn event(&mut self, payload: Value) {
        let mut line = json!({"run_id": self.run, "host": "claude-code", "recorded_at_unix_ms": self.at,
                              "payload": payload});
        if let (Some(parent), Value::Object(line)) = (&self.parent, &mut line) {
            line.insert("parent_run_id".to_owned(), json!(parent));
            line.insert("depth".to_owned(), json!(1));
        }
        self.lines.push(line);
    }

    fn begin(&mut self, task: &str, folder: &str, command: &str) {
        let identity = json!({"run_id": self.run});
        self.event(json!({"kind": "run_started", "identity": identity}));
        self.event(json!({"kind": "run_described", "folder": folder, "command": command,
                          "host_version": "2.1.34", "model": self.model}));
        self.seconds(1);
        self.event(
            json!({"kind": "message_appended", "message": {"role": "user", "content": task}}),
        );
    }

    /// A response of the model. Most of the context comes from its prompt cache.
    fn respond(&mut self, text: &str) {
        let (think, new) = (4 + self.number(14), 250 + self.number(900));
        self.event(
            json!({"kind": "provider_request_prepared", "iteration": 0, "model_id": self.model,
                          "system_prompt_chars": 9_000, "message_count": 2 * self.calls + 1,
                          "tool_count": 4, "tools": ["Bash", "Read", "Edit", "Grep"]}),
        );
        self.seconds(think);
        let output = 60 + self.number(420);
        let usage = json!({"input_tokens": 12, "output_tokens": output,
                           "cache_creation_input_tokens": new, "cache_read_input_tokens": self.context});
        self.context = if self.context > 150_000 { 30_000 } else { self.context + new };
        self.event(json!({"kind": "message_appended", "message": {"role": "assistant",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": usage}}));
    }

    fn start(&mut self, tool: &str, args: &Value) -> String {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        self.event(
            json!({"kind": "tool_started", "tool_call_id": id, "tool_name": tool, "args": args}),
        );
        id
    }

    fn call(&mut self, tool: &str, args: &Value, took: u64, result: &str, is_error: bool) {
        let id = self.start(tool, args);
        self.seconds(took);
        let content = json!([{"type": "text", "text": result}]);
        self.event(json!({"kind": "tool_ended", "tool_call_id": id, "tool_name": tool,
                          "result": {"content": content, "is_error": is_error},
                          "is_error": is_error}));
    }

    fn read(&mut self, file: &str, content: &str) {
        self.respond(&format!("Let me read {file}."));
        self.call("Read", &json!({"file_path": file}), 1, content, false);
    }

    fn edit(&mut self, file: &str, from: &str, to: &str) {
        self.respond(&format!("Now I change {file}."));
        let args = json!({"file_path": file, "old_string": from, "new_string": to});
        let done = format!("The file {file} has been updated: {to}");
        self.call("Edit", &args, 1, &done, false);
    }

    fn bash(&mut self, say: &str, command: &str, took: u64, result: &str, is_error: bool) {
        self.respond(say);
        let result = if is_error { format!("Exit code 1\n{result}") } else { result.to_owned() };
        self.call("Bash", &json!({"command": command}), took, &result, is_error);
    }

    fn end(mut self, answer: &str, cost: Option<u64>) -> Vec<Value> {
        self.respond(answer);
        if let Some(cost) = cost {
            self.event(json!({"kind": "cost_reported", "total_micro_usd": cost}));
        }
        self.seconds(2);
        self.event(json!({"kind": "run_described", "exit_code": 0}));
        self.event(json!({"kind": "run_ended", "outcome": "completed", "new_messages": []}));
        self.lines
    }
}

const MODULES: [&str; 16] = [
    "account", "address", "audit", "calendar", "contact", "currency", "discount", "export",
    "holiday", "import", "invoice", "ledger", "mail", "payment", "refund", "report",
];

/// One module ported, as an agent does it: read, change, test, and mend what the test finds.
fn port(night: &mut Night, module: &str, kind: &str, round: u64) {
    let file = format!("src/{module}/{kind}.ts");
    let lines = 80 + night.number(300);
    night.read(
        &file,
        &format!("// {module} {kind}, {lines} lines\nimport moment from 'moment';\nexport function {module}{round}() {{ return moment().add({lines}, 'days'); }}"),
    );
    night.edit(
        &file,
        &format!("moment().add({lines}, 'days')"),
        &format!("now().add({{ days: {lines} }})"),
    );
    let test = format!("npx vitest run src/{module}/{kind}.test.ts");
    let (passed, took) = (5 + night.number(30), 6 + night.number(25));
    if night.number(4) == 0 {
        let expected = 2_020 + night.number(9);
        night.bash(
            &format!("I run the tests of {module}."),
            &test,
            took,
            &format!("FAIL src/{module}/{kind}.test.ts > {module} {kind} > rolls over in {expected}\nAssertionError: expected '{expected}-03-31' to be '{expected}-04-01'\n Tests  1 failed | {passed} passed"),
            true,
        );
        let line = format!(
            "now().add({{ days: {lines} }}, {{ overflow: 'constrain', year: {expected} }})"
        );
        night.edit(&file, &format!("now().add({{ days: {lines} }})"), &line);
    }
    night.bash(
        &format!("I run the tests of {module} again."),
        &test,
        took,
        &format!(" ✓ src/{module}/{kind}.test.ts ({passed} tests) {took}s\n Tests  {passed} passed, {lines} lines covered"),
        false,
    );
    let pause = 20 + night.number(70);
    night.seconds(pause);
}

/// A night without trouble: 3 h, 240 calls.
fn clean() -> Vec<Value> {
    let mut night = Night::new("night-clean", "claude-sonnet-4-5-20250929", 1_772_492_460_000);
    night.begin(
        "Replace moment.js by the Temporal polyfill in all modules under src/, keep the public API, and make the tests pass",
        "/home/ada/src/billing-web",
        "claude -p --permission-mode acceptEdits 'Replace moment.js by the Temporal polyfill …'",
    );
    night.bash("I look at the project first.", "ls src", 1, &MODULES.join("\n"), false);
    for (round, kind) in (0..).zip(["model", "service", "view", "job"]) {
        for module in MODULES {
            port(&mut night, module, kind, round);
        }
        let files = 40 + night.number(20);
        night.bash(
            &format!("All {kind} files are ported. I commit."),
            &format!("git commit -am 'Port {kind} files to Temporal'"),
            2,
            &format!("[temporal {files}ab3f1] Port {kind} files to Temporal\n 16 files changed, {files} insertions(+)"),
            false,
        );
    }
    night.bash(
        "Now the whole suite.",
        "npx vitest run",
        194,
        " Test Files  64 passed (64)\n Tests  1,310 passed (1310)",
        false,
    );
    night.bash(
        "moment is not needed any more.",
        "npm uninstall moment",
        9,
        "removed 1 package, and audited 812 packages in 8s",
        false,
    );
    night.end(
        "Done. All 64 modules use Temporal, moment.js is uninstalled, and the whole test suite passes (1,310 tests). The work is in four commits on the branch `temporal`. One thing to review: `src/holiday/job.ts` now rounds to the end of the month where it used to overflow.",
        Some(7_410_000),
    )
}

/// A night in which the agent started the same failing container for an hour, and found another way
/// after a message.
fn looped() -> Vec<Value> {
    let mut night = Night::new("night-looped", "claude-sonnet-4-5-20250929", 1_772_578_980_000);
    night.begin(
        "Make the integration tests of the billing service pass against Postgres 16 and remove the Postgres 12 workarounds",
        "/home/ada/src/billing",
        "claude -p --permission-mode acceptEdits 'Make the integration tests …'",
    );
    night.bash(
        "I look at the project first.",
        "ls",
        1,
        "Cargo.toml\ncompose.yaml\nmigrations\nsrc\ntests",
        false,
    );
    for (module, kind) in MODULES.iter().flat_map(|module| [(module, "rows"), (module, "queries")])
    {
        let file = format!("src/{module}/{kind}.rs");
        let lines = 90 + night.number(400);
        night.read(&file, &format!("//! {module}: {lines} lines\npub fn {module}(pool: &PgPool) -> Result<u{lines}> {{ workaround_pg12(pool, {lines}) }}"));
        night.edit(
            &file,
            &format!("workaround_pg12(pool, {lines})"),
            &format!("query(pool, {lines})"),
        );
        let (passed, took) = (3 + night.number(20), 20 + night.number(60));
        night.bash(
            "I run the unit tests.",
            &format!("cargo test --lib {module}::{kind}"),
            took,
            &format!("running {passed} tests in {module}\ntest result: ok. {passed} passed; 0 failed; finished in {took}s"),
            false,
        );
        let pause = 30 + night.number(180);
        night.seconds(pause);
    }
    let first = night.at;
    let mut sub = Night::new("night-looped-review", "claude-haiku-4-5-20251001", first);
    sub.parent = Some("night-looped".to_owned());
    let task = "Review the migrations for features that Postgres 16 removed, and list them";
    let identity = json!({"run_id": sub.run, "parent_run_id": "night-looped", "depth": 1});
    sub.event(json!({"kind": "run_started", "identity": identity}));
    sub.event(json!({"kind": "message_appended", "message": {"role": "user", "content": task}}));
    for number in 1..=14 {
        let lines = 10 + sub.number(90);
        sub.read(
            &format!("migrations/{number:04}.sql"),
            &format!("-- migration {number}\nCREATE TABLE t{number} (id bigint, v{lines} text);"),
        );
    }
    sub.read("migrations/0015.sql", "-- migration 15\nALTER TABLE t3 SET WITH OIDS;");
    let sub_end = sub.at;
    let sub_lines = sub
        .end("Only migration 15 needs a change: SET WITH OIDS was removed in Postgres 12.", None);
    night.respond("A subagent reviews the migrations meanwhile.");
    let id = night.start("Task", &json!({"description": "Review migrations", "prompt": task}));
    night.lines.extend(
        sub_lines
            .into_iter()
            .filter(|line| line.pointer("/payload/kind") != Some(&json!("run_described"))),
    );
    night.at = sub_end + 20_000;
    night.event(json!({"kind": "tool_ended", "tool_call_id": id, "tool_name": "Task",
        "result": {"content": [{"type": "text", "text": "Only migration 15 needs a change: SET WITH OIDS was removed in Postgres 12."}]},
        "is_error": false}));
    night.edit(
        "migrations/0015.sql",
        "ALTER TABLE t3 SET WITH OIDS;",
        "ALTER TABLE t3 ADD COLUMN legacy_id bigint;",
    );
    // The loop.
    let refused = "Error response from daemon: driver failed programming external connectivity on endpoint billing-postgres-1: Bind for 0.0.0.0:5432 failed: port is already allocated";
    let say = ["Now I start the database.", "I try again.", "Perhaps it needs another moment."];
    for say in say.into_iter().cycle().take(14) {
        night.bash(say, "docker compose up -d postgres", 31, refused, true);
        let pause = 90 + night.number(160);
        night.seconds(pause);
    }
    // The way out.
    night.bash(
        "Something else uses the port. I look which process it is.",
        "ss -ltnp 'sport = :5432'",
        1,
        "LISTEN 0 244 127.0.0.1:5432 0.0.0.0:* users:((\"postgres\",pid=811,fd=6))",
        false,
    );
    night.edit("compose.yaml", "ports: ['5432:5432']", "ports: ['55432:5432']");
    night.edit(
        ".env.test",
        "DATABASE_URL=postgres://localhost:5432/billing",
        "DATABASE_URL=postgres://localhost:55432/billing",
    );
    night.bash(
        "Now the database gets a port of its own.",
        "docker compose up -d --wait postgres",
        24,
        " Container billing-postgres-1  Healthy",
        false,
    );
    for module in MODULES {
        let file = format!("tests/{module}.rs");
        let lines = 90 + night.number(400);
        night.read(&file, &format!("//! integration tests of {module}: {lines} lines\n#[sqlx::test] async fn {module}_{lines}() {{}}"));
        let (passed, took) = (3 + night.number(20), 30 + night.number(90));
        if night.number(3) == 0 {
            night.bash(
                "I run these tests.",
                &format!("cargo test --test {module}"),
                took,
                &format!("test {module}::sums_{lines} ... FAILED\nassertion failed: left: {lines}.10 right: {lines}.1\ntest result: FAILED. {passed} passed; 1 failed"),
                true,
            );
            night.edit(&file, &format!("{lines}.10"), &format!("dec!({lines}.1)"));
        }
        night.bash(
            "I run these tests.",
            &format!("cargo test --test {module}"),
            took,
            &format!(
                "test result: ok. {} passed; 0 failed; {lines} filtered out; finished in {took}s",
                passed + 1
            ),
            false,
        );
        let pause = 60 + night.number(300);
        night.seconds(pause);
    }
    night.end(
        "The integration tests pass against Postgres 16, and the Postgres 12 workarounds are gone. The local Postgres of this machine already uses port 5432, so the test database now listens on 55432 (compose.yaml and .env.test). Migration 15 no longer uses OIDs.",
        None,
    )
}

/// A night in which every build failed in the same way, and that ended in the middle of a build.
fn died() -> Vec<Value> {
    let mut night = Night::new("night-died", "claude-opus-4-5-20251101", 1_772_665_800_000);
    night.begin(
        "Port the firmware to SDK 5.2 and get the release build below 512 KB",
        "/home/ada/src/sensor-fw",
        "claude -p --permission-mode acceptEdits 'Port the firmware to SDK 5.2 …'",
    );
    night.bash(
        "I look at the project first.",
        "ls",
        1,
        "CMakeLists.txt\ndrivers\ninclude\nmain\nsdkconfig",
        false,
    );
    for (index, module) in (0..).zip(MODULES) {
        for part in ["init", "read", "write", "irq", "power"] {
            let file = format!("drivers/{module}_{part}.c");
            let lines = 100 + night.number(600);
            night.read(&file, &format!("/* {module} {part}, {lines} lines */\n#include \"driver/i2c.h\"\nint {module}_{part}(void) {{ return i2c_cmd_begin({lines}); }}"));
            night.edit(
                &file,
                &format!("i2c_cmd_begin({lines})"),
                &format!("i2c_master_transmit(bus, {lines})"),
            );
        }
        let took = 70 + night.number(80);
        let objects = 300 + index * 7;
        night.bash(
            &format!("I compile the driver of {module}."),
            &format!("cmake --build build --target {module}"),
            took,
            &format!("[{objects}/{objects}] Building C object drivers/{module}.c.obj\n[100%] Built target {module} ({objects} objects)"),
            false,
        );
        let pause = 40 + night.number(120);
        night.seconds(pause);
    }
    let overflow = "/opt/xtensa/bin/ld: region `iram0_0_seg' overflowed by 18324 bytes\ncollect2: error: ld returned 1 exit status\nninja: build stopped: subcommand failed.";
    let settings = [
        "CONFIG_COMPILER_OPTIMIZATION_SIZE",
        "CONFIG_LOG_DEFAULT_LEVEL_NONE",
        "CONFIG_FREERTOS_PLACE_IN_FLASH",
        "CONFIG_SPI_MASTER_ISR_IN_IRAM",
        "CONFIG_NEWLIB_NANO_FORMAT",
        "CONFIG_HAL_ASSERTION_DISABLE",
        "CONFIG_ESP_WIFI_IRAM_OPT",
        "CONFIG_LWIP_IRAM_OPTIMIZATION",
        "CONFIG_RINGBUF_PLACE_IN_FLASH",
        "CONFIG_HEAP_IN_FLASH",
        "CONFIG_BT_ENABLED",
        "CONFIG_UART_ISR_IN_IRAM",
        "CONFIG_VFS_SUPPORT_IO",
        "CONFIG_MBEDTLS_ROM",
        "CONFIG_ETH_ENABLED",
        "CONFIG_GDMA_CTRL_IN_IRAM",
    ];
    for setting in settings {
        night.edit("sdkconfig", &format!("# {setting} is not set"), &format!("{setting}=y"));
        night.bash("I build the release.", "idf.py build", 260, overflow, true);
        let pause = 20 + night.number(60);
        night.seconds(pause);
    }
    night.respond("The build directory may be stale. I clean it and build again.");
    night.start("Bash", &json!({"command": "idf.py fullclean && idf.py build"}));
    night.lines
}
