//! `midcourse ship`, `midcourse fleet` and `--store`, with real processes and a real Postgres. Where
//! there is none, the tests print that they are skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use postgres_server::{OWNER, Server};

fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&["fsync=off"])).as_ref()
}

/// A machine with a data directory of its own, and no configuration of the user who runs the tests.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        command.args(arguments).env("MIDCOURSE_HOME", self.home()).env("HOME", self.0.path());
        command.current_dir(self.0.path()).env_remove("PGPASSWORD").env_remove("PGPASSFILE");
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }
}

/// A fleet with the project `default`, and the addresses for its owner, a writer and a reader.
struct Fleet {
    server: &'static Server,
    database: String,
    owner: String,
    writer: String,
    reader: String,
}

impl Fleet {
    fn new() -> Option<Self> {
        let server = server()?;
        let database = server.create_database();
        let role = |name: &str| format!("{name}_{database}");
        let (writer, reader) = (role("writer"), role("reader"));
        let owner = server.url(&database, OWNER);
        let admin = Machine::new();
        assert!(admin.ok(&["fleet", "init", &owner]).starts_with("Created the schema."));
        assert!(admin.ok(&["fleet", "init", &owner]).contains("has the schema already"));
        assert!(admin.ok(&["fleet", "migrate", &owner]).contains("up to date"));
        let granted = admin.ok(&[
            "fleet",
            "grant",
            &owner,
            "--project",
            "default",
            "--writer",
            &writer,
            "--reader",
            &reader,
            "--create",
        ]);
        assert_eq!(granted.matches("Its password is not shown again").count(), 2, "{granted}");
        let (writer, reader) = (server.url(&database, &writer), server.url(&database, &reader));
        Some(Self { server, database, owner, writer, reader })
    }

    fn sql(&self, sql: &str) -> String {
        self.server.psql(&self.database, sql)
    }
}

/// Records a run of the demo and imports real sessions of agents.
fn record_something(machine: &Machine) -> String {
    machine.ok(&["demo"]);
    let sessions = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sessions/claude-code");
    machine.ok(&["import", sessions]);
    let first = machine.ok(&["list", "--json", "-n", "1"]);
    let run: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    run["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_fleet_is_read_like_the_store_that_was_shipped() {
    let Some(fleet) = Fleet::new() else { return };
    let (machine, elsewhere) = (Machine::new(), Machine::new());
    let run_id = record_something(&machine);
    let shipped = machine.ok(&["ship", "--to", &fleet.writer]);
    assert!(shipped.starts_with("Shipped "), "{shipped}");
    assert!(machine.ok(&["ship", "--to", &fleet.writer]).starts_with("Nothing new to ship"));
    let end = run_id.get(run_id.len() - 8..).unwrap();
    for arguments in [
        vec!["list"],
        vec!["list", "--json"],
        vec!["list", "--failed", "--json"],
        vec!["list", "--host", "claude-code"],
        vec!["show", &run_id],
        vec!["show", "latest", "--json"],
        vec!["show", end, "--errors"],
        vec!["show", &format!("{run_id}:9")],
        vec!["search", "error", "--json", "-n", "500"],
        vec!["search", "settings.conf", "--run", &run_id],
        vec!["report", &run_id],
        vec!["report", "--json"],
        vec!["export", &run_id],
        vec!["export", &run_id, "--to", "atif"],
        vec!["tail", &run_id, "-n", "5"],
    ] {
        let mut there = arguments.clone();
        there.extend(["--store", &fleet.reader]);
        // A search of a fleet begins with the runs that started last, and here with what was stored last.
        let output = |text: String| {
            let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
            if arguments[0] == "search" {
                lines.sort();
            }
            lines
        };
        let (here, there) = (output(machine.ok(&arguments)), output(elsewhere.ok(&there)));
        assert_eq!(there, here, "{arguments:?}");
    }
    let period = ["report", "--since", "2020-01-01", "--json", "--store", &fleet.reader];
    let report: serde_json::Value = serde_json::from_str(&elsewhere.ok(&period)).unwrap();
    assert_eq!((&report["runs"], &report["subagents"]), (&3.into(), &2.into()), "{report}");
    assert!(!elsewhere.home().exists(), "reading a fleet stores nothing here");
    assert!(elsewhere.ok(&["fleet", "verify", &fleet.reader]).contains("no problems"));
    let none = elsewhere.fails(&["show", "nothing", "--store", &fleet.reader]);
    assert!(none.contains("no run `nothing`"), "{none}");
    // A run that cannot be read keeps no other from being checked.
    fleet.sql("UPDATE midcourse.records SET link = '\\x00' WHERE seq = 1 AND run = 1");
    let found = elsewhere.fails(&["fleet", "verify", &fleet.reader]);
    assert!(found.contains("a hash has not 32 bytes") && found.contains("5 runs"), "{found}");
}

#[test]
fn a_rewritten_and_a_deleted_run_are_found_with_the_fleet() {
    let Some(fleet) = Fleet::new() else { return };
    let machine = Machine::new();
    let run_id = record_something(&machine);
    machine.ok(&["ship", "--to", &fleet.writer]);
    let against = ["verify", "--against", &fleet.writer];
    assert!(machine.ok(&against).contains("no problems"));
    // Somebody with access to the machine makes a new history with the same ids, and deletes a run.
    let exported = machine.ok(&["export", &run_id]);
    let forged = exported.replace("cannot open settings.conf", "no problem at all, really");
    assert_ne!(exported, forged);
    let file = machine.0.path().join("forged.jsonl");
    std::fs::write(&file, forged).unwrap();
    machine.ok(&["delete", &run_id, "--yes"]);
    machine.ok(&["import", file.to_str().unwrap()]);
    let listed = machine.ok(&["list", "--json", "--host", "claude-code", "-n", "1"]);
    let other: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    machine.ok(&["delete", other["run_id"].as_str().unwrap(), "--yes"]);
    assert!(machine.ok(&["verify"]).contains("no problems"), "the store alone does not show it");
    let found = machine.fails(&against);
    assert!(found.contains(&format!("{run_id}: the run was changed since its head was kept")));
    assert!(found.contains("the run is not in the store any more"), "{found}");
    // Shipping does not replace what is there.
    let before =
        fleet.sql("SELECT md5(string_agg(payload, '' ORDER BY run, seq)) FROM midcourse.records");
    let refused = machine.fails(&["ship", "--to", &fleet.writer]);
    assert!(refused.contains("it was changed here after it was shipped"), "{refused}");
    let after =
        fleet.sql("SELECT md5(string_agg(payload, '' ORDER BY run, seq)) FROM midcourse.records");
    assert_eq!(after, before);
    // The owner may replace it.
    machine.ok(&["fleet", "delete", &fleet.owner, "--project", "default", &run_id, "--yes"]);
    machine.ok(&["ship", "--to", &fleet.writer]);
}

/// Waits until a condition holds.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends the shipper that runs in the background for a data directory.
fn stop_shipper(home: &Path) {
    let locks = std::fs::read_dir(home.join("shipped")).into_iter().flatten().flatten();
    for lock in locks.filter(|entry| entry.path().extension().is_some_and(|it| it == "lock")) {
        let pid = std::fs::read_to_string(lock.path()).unwrap_or_default();
        let pid = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

#[test]
fn runs_are_shipped_in_the_background_if_the_user_asks_for_it() {
    let Some(fleet) = Fleet::new() else { return };
    let machine = Machine::new();
    std::fs::create_dir_all(machine.home()).unwrap();
    let config = format!("[ship]\nto = \"{}\"\nlevel = \"metadata\"\n", fleet.writer);
    std::fs::write(machine.home().join("midcourse.toml"), config).unwrap();
    // A hook of an agent: its reply is what it is without a fleet.
    let mut hook = machine.command(&["hook", "claude-code"]);
    let payload =
        r#"{"session_id": "s-1", "hook_event_name": "UserPromptSubmit", "prompt": "secret words"}"#;
    let file = machine.0.path().join("payload.json");
    std::fs::write(&file, payload).unwrap();
    let output = hook.stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    wait_until("shipping after a hook", || {
        fleet.sql("SELECT count(*) FROM midcourse.runs WHERE run_id = 's-1'") == "1"
    });
    // What is recorded later follows without another start.
    machine.ok(&["demo"]);
    wait_until("shipping while the process runs", || {
        fleet.sql("SELECT count(*) FROM midcourse.runs WHERE run_id LIKE 'demo-%' AND ended > 0")
            == "1"
    });
    // A job may end with this command: it waits until the background process has shipped everything.
    machine.ok(&["demo"]);
    let another = machine.ok(&["ship"]);
    assert!(another.starts_with("Another process ships this store"), "{another}");
    let ended = "SELECT count(*) FROM midcourse.runs WHERE run_id LIKE 'demo-%' AND ended > 0";
    assert_eq!(fleet.sql(ended), "2");
    let texts = fleet.sql(
        "SELECT string_agg(payload, '') || string_agg(header::text, '') FROM \
                           midcourse.records JOIN midcourse.runs USING (run)",
    );
    assert!(!texts.contains("secret words") && !texts.contains("settings.conf"), "{texts}");
    stop_shipper(&machine.home());
    // A project's file cannot send runs anywhere.
    let project = machine.0.path().join("midcourse.toml");
    std::fs::write(&project, "[ship]\nto = \"postgres://thief@192.0.2.1/d\"\n").unwrap();
    machine.ok(&["trust", "--yes", project.to_str().unwrap()]);
    let output = machine.output(&["run", "--", "true"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("`[ship]` may only be in your own file"), "{errors}");
    stop_shipper(&machine.home());
}

#[test]
fn doctor_checks_whether_the_fleet_accepts_runs() {
    let Some(fleet) = Fleet::new() else { return };
    let machine = Machine::new();
    std::fs::create_dir_all(machine.home()).unwrap();
    let finding = |to: &str| {
        let config = format!("[ship]\nto = \"{to}\"\n");
        std::fs::write(machine.home().join("midcourse.toml"), config).unwrap();
        let output = machine.output(&["doctor", "--json"]);
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = found["findings"].as_array().unwrap();
        let of_ship: Vec<_> = findings.iter().filter(|it| it["area"] == "ship").collect();
        assert_eq!(of_ship.len(), 1, "{to}: {findings:?}");
        let text = |field: &str| of_ship[0][field].as_str().unwrap_or_default().to_owned();
        (text("state"), text("detail"), text("remedy"))
    };
    let (state, detail, _) = finding(&fleet.writer);
    assert_eq!(state, "ok", "{detail}");
    assert!(detail.ends_with("accepts runs for project default"), "{detail}");
    let (state, detail, remedy) = finding(&fleet.reader);
    assert_eq!(state, "problem");
    assert!(detail.contains("may not ship") || detail.contains("denied"), "{detail}");
    assert!(remedy.contains("midcourse fleet grant"), "{remedy}");
    let nobody = "postgres://machine@127.0.0.1:1/midcourse";
    let (state, detail, remedy) = finding(nobody);
    assert_eq!(state, "warning", "{detail}");
    assert!(remedy.contains("stays in the store"), "{remedy}");
}

#[cfg(feature = "archive")]
#[test]
fn an_archive_of_a_fleet_is_the_store_that_was_shipped() {
    let Some(fleet) = Fleet::new() else { return };
    let (machine, elsewhere) = (Machine::new(), Machine::new());
    let run_id = record_something(&machine);
    machine.ok(&["ship", "--to", &fleet.writer]);
    let folder = elsewhere.0.path().join("archive");
    let folder = folder.to_str().unwrap();
    let archive = ["archive", "--older-than", "0s", "--to", folder, "--store", &fleet.reader];
    let archived = elsewhere.ok(&archive);
    assert!(
        archived.starts_with("Archived 5 runs") && archived.contains("fleet prune"),
        "{archived}"
    );
    elsewhere.ok(&["import", folder]);
    assert!(elsewhere.ok(&["verify"]).contains("5 runs"));
    for arguments in [vec!["export", &run_id], vec!["list", "--json"]] {
        assert_eq!(elsewhere.ok(&arguments), machine.ok(&arguments), "{arguments:?}");
    }
}

#[test]
fn old_days_are_dropped_and_the_ends_of_their_chains_stay() {
    let Some(fleet) = Fleet::new() else { return };
    let machine = Machine::new();
    record_something(&machine);
    machine.ok(&["ship", "--to", &fleet.writer]);
    let days = machine.ok(&["fleet", "days", &fleet.owner]);
    assert_eq!(days.lines().count(), 3, "{days}");
    let prune = ["fleet", "prune", &fleet.owner, "--older-than", "12h"];
    assert!(machine.ok(&prune).contains("add --yes to drop them"));
    let dropped = machine.ok(&[&prune[..], &["--yes"]].concat());
    assert!(dropped.contains("Dropped "), "{dropped}");
    let left = machine.ok(&["list", "--json", "--store", &fleet.reader]);
    assert_eq!(left.lines().count(), 1, "{left}");
    assert!(machine.ok(&["verify", "--against", &fleet.writer]).contains("no problems"));
    assert!(machine.ok(&["ship", "--to", &fleet.writer]).starts_with("Nothing new"));
}

#[test]
fn errors_say_what_to_do_and_keep_secrets() {
    let Some(fleet) = Fleet::new() else { return };
    let machine = Machine::new();
    let error = machine.fails(&["ship"]);
    assert!(error.contains("no fleet is configured; pass `--to"), "{error}");
    let error = machine.fails(&["ship", "--to", "postgres://me:hunter2@db.example/runs"]);
    assert!(error.contains("set PGPASSWORD") && !error.contains("hunter2"), "{error}");
    assert!(machine.ok(&["ship", "--to", &fleet.writer]).contains("no runs are recorded"));
    machine.ok(&["demo"]);
    let error = machine.fails(&["ship", "--to", &fleet.writer, "--project", "other"]);
    assert!(error.contains("may not ship to project other"), "{error}");
    assert!(error.contains("midcourse fleet grant"), "{error}");
    let error = machine.fails(&["ship", "--to", &fleet.reader]);
    assert!(error.contains("the fleet's Postgres denied access"), "{error}");
    let error = machine.fails(&["list", "--store", &fleet.writer]);
    assert!(error.contains("denied access"), "{error}");
    // A configuration that cannot be read is named, and is not taken for one without a fleet.
    let config = machine.home().join("midcourse.toml");
    std::fs::write(&config, "[ship]\nto = 'service=fleet'\nevery = 'soon'\n").unwrap();
    let error = machine.fails(&["ship"]);
    assert!(error.contains("midcourse.toml") && error.contains("soon"), "{error}");
    let empty = fleet.server.create_database();
    let error = machine.fails(&["ship", "--to", &fleet.server.url(&empty, OWNER)]);
    assert!(error.contains("no schema of midcourse") && error.contains("fleet init"), "{error}");
    let error = machine.fails(&["list", "--store", "postgres://u@127.0.0.1:1/d"]);
    assert!(error.contains("cannot reach the fleet's Postgres"), "{error}");
}

#[test]
fn runs_without_texts_are_marked_and_not_archived() {
    let Some(fleet) = Fleet::new() else { return };
    let (machine, elsewhere) = (Machine::new(), Machine::new());
    let run_id = record_something(&machine);
    machine.ok(&["ship", "--to", &fleet.writer, "--level", "metadata"]);
    let output = elsewhere.output(&["report", &run_id, "--store", &fleet.reader]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("was shipped as metadata"), "{errors}");
    let verified = elsewhere.ok(&["fleet", "verify", &fleet.reader]);
    assert!(verified.contains("The hashes of 5 runs that came as metadata"), "{verified}");
    #[cfg(feature = "archive")]
    {
        let archived = elsewhere.fails(&[
            "archive",
            "--older-than",
            "0s",
            "--to",
            "a",
            "--store",
            &fleet.reader,
        ]);
        assert!(archived.contains("shipped as metadata"), "{archived}");
        assert!(archived.contains("5 runs were not archived"), "{archived}");
    }
}

#[test]
fn the_fleet_gets_analysed_runs_and_knows_what_would_be_deleted() {
    let Some(fleet) = Fleet::new() else { return };
    let machine = Machine::new();
    let run_id = record_something(&machine);
    machine.ok(&["ship", "--to", &fleet.writer]);
    let analysed = "SELECT count(*) FROM midcourse.runs WHERE header ->> 'engine' IS NULL";
    assert_eq!(fleet.sql(analysed), "0");
    let delete = ["fleet", "delete", &fleet.owner, "--project", "default", &run_id];
    let shown = machine.ok(&delete);
    assert!(shown.contains("would be deleted") && shown.contains("add --yes"), "{shown}");
    assert_eq!(fleet.sql("SELECT count(*) FROM midcourse.runs"), "5");
    let unknown = machine.fails(&["fleet", "delete", &fleet.owner, "--project", "x", &run_id]);
    assert!(unknown.contains("in the project `x`"), "{unknown}");
    // Without the store, every run is missing.
    for file in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(machine.home().join(file));
    }
    let found = machine.fails(&["verify", "--against", &fleet.writer]);
    assert_eq!(found.matches("is not in the store any more").count(), 5, "{found}");
}
