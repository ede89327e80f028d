//! Records with extreme content: they are shipped and read like others, or refused one by one.

use midcourse::{
    AgentMessage, Event, RunId, SearchFilter, ToolResult, TrajectoryPayload as Payload,
};
use midcourse_fleet::{FleetReader, Level, LocalCopy, Progress, RunReader as _};
use serde_json::{Value, json};

use crate::runs::message;
use crate::staging::{Staged, link, record, ship, words};
use crate::world::{Fleet, Machine, contents, server};

/// A text that does not compress.
fn noise(length: usize) -> String {
    let mut state = 1_u64;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
    };
    (0..length).map(letter).collect()
}

fn nested(levels: usize, mut inside: Value) -> Value {
    for level in 0..levels {
        inside = if level % 2 == 0 { json!([inside]) } else { json!({ "a": inside }) };
    }
    inside
}

fn event(run: &str, n: u64, payload: Payload) -> Event {
    Event { payload, ..message(run, n) }
}

fn call(args: Value) -> Payload {
    Payload::ToolStarted { tool_call_id: "c".into(), tool_name: "bash".into(), args }
}

/// Ships everything, and compares what can be read with the store, run by run. Returns the progress.
fn ship_and_compare(machine: &Machine, level: Level) -> Progress {
    let server = server().unwrap();
    let fleet = Fleet::new(server);
    let progress = machine.shipper(&fleet, level).ship(|_| ()).unwrap();
    let mut reader = FleetReader::open(fleet.target("reader"), Some("p")).unwrap();
    let mut copy = LocalCopy::new().unwrap();
    for (header, entries) in contents(&machine.open()) {
        if progress.refused.iter().any(|refused| refused.run_id == *header.run_id()) {
            continue;
        }
        let run = reader.family(header.run_id()).unwrap().swap_remove(0);
        copy.bring_one(&mut reader, &run).unwrap();
        let copied = copy.store().run_header(header.run_id()).unwrap().unwrap();
        assert_eq!(copied.end().records, u64::try_from(entries.len()).unwrap());
        let findings = copy.store().verify_run(header.run_id()).unwrap();
        let own = machine.open().verify_run(header.run_id()).unwrap();
        assert_eq!(findings.len(), own.len(), "{findings:?} {own:?}");
    }
    let filter = SearchFilter::default();
    let (hits, _) = copy.search(&mut reader, "needle", &filter, 100).unwrap();
    assert_eq!(hits.is_empty(), level == Level::Metadata);
    progress
}

#[test]
fn extreme_records_are_shipped_and_read() {
    if server().is_none() {
        return;
    }
    let machine = Machine::new();
    let mut store = machine.open();
    let text = |text: String| Payload::MessageAppended { message: AgentMessage::user(text) };
    let mut refused_here = 0;
    let mut append = |run: &str, payload: Payload| {
        let stored = store.append(event(run, 0, payload));
        refused_here += usize::from(stored.is_err());
    };
    append("needle", text("a needle".to_owned()));
    // Large: a text that does not compress, one that does, and many members.
    append("large", text(noise(12_000_000)));
    append("zeros", text("0".repeat(60_000_000)));
    append("words", text((0..60_000).map(|n| format!("w{n:x} ")).collect()));
    append("one word", text("x".repeat(5_000_000)));
    append("marks", text("e\u{301}\u{302}\u{fdfa}".repeat(20_000)));
    let members: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("key {n}"), json!(n))).collect();
    append("members", call(Value::Object(members)));
    // Thousands of long texts in one record, also with names that are hard to point to.
    let bodies: serde_json::Map<String, Value> = (0..3_000)
        .map(|n| (format!("~/~0/{n}/\u{0}/"), json!(format!("{n} ").repeat(2_000))))
        .collect();
    append("bodies", call(Value::Object(bodies)));
    let equal: Vec<String> = (0..3_000).map(|_| "the same text ".repeat(400)).collect();
    append("equal", call(json!(equal)));
    // Deep: at the limits of parsers and far beyond.
    for levels in [50, 120, 123, 124, 125, 126, 127, 128, 129, 400] {
        append(&format!("deep{levels}"), call(nested(levels, json!("deep needle"))));
        let long = nested(levels, json!("deep needle ".repeat(1_000)));
        append(&format!("deep long{levels}"), call(long));
    }
    // Numbers and texts at their limits.
    append("numbers", call(json!([u64::MAX, i64::MIN, 1e308, -0.0, 5e-324])));
    append("unicode", text("\u{0}\u{ffff}\u{10ffff}\u{202e}\\u0000 \\ud800".to_owned()));
    append("x".repeat(900).as_str(), text("long id".to_owned()));
    append(&noise(3_000), text("id that fits into no index".to_owned()));
    let result = Payload::ToolEnded {
        tool_call_id: noise(100_000).as_str().into(),
        tool_name: noise(100_000).as_str().into(),
        result: ToolResult::text("y".repeat(100_000)),
        is_error: true,
    };
    append("long names", result);
    let raw = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    append("raw", Payload::Unread { host: "h".to_owned(), raw });
    drop(store);
    println!("{refused_here} events refused by the store");
    for level in [Level::Full, Level::Metadata] {
        let progress = ship_and_compare(&machine, level);
        for refused in &progress.refused {
            println!("{:.40}: {:.200}", refused.run_id.as_str(), refused.why);
        }
        assert!(progress.refused.len() <= 1, "{} refused", progress.refused.len());
    }
}

#[test]
fn records_that_a_hostile_writer_ships_harm_only_their_run() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    machine.open().append(message("honest", 0)).unwrap();
    machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    let deep = |levels: usize| format!("'{}1{}'", "[".repeat(levels), "]".repeat(levels));
    let payloads = [
        "''".to_owned(),
        "'no JSON'".to_owned(),
        "'null'".to_owned(),
        "'{\"kind\":\"turn_started\"}'".to_owned(),
        deep(127),
        deep(128),
        deep(500_000),
        "repeat('[', 1000000)".to_owned(),
        "repeat('x', 20000000)".to_owned(),
        "'{\"kind\": 7, \"kind\": \"message_appended\"}'".to_owned(),
    ];
    // Long texts: none, of another hash, a bomb, a wrong place, no UTF-8, and lists of NULLs.
    let bomb = zstd::bulk::compress(&vec![b'0'; 900_000_000], 1).unwrap();
    let bomb: String = bomb.iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = "decode(repeat('00', 32), 'hex')";
    let texts = [
        "NULL, NULL, NULL".to_owned(),
        format!("ARRAY['/a'::bytea], ARRAY[{hash}], ARRAY['\\x00'::bytea]"),
        format!("ARRAY['\\xff'::bytea], ARRAY[{hash}], ARRAY['\\x00'::bytea]"),
        "ARRAY[NULL::bytea], ARRAY[NULL::bytea], ARRAY[NULL::bytea]".to_owned(),
        "ARRAY['a'::bytea], ARRAY['short'::bytea], ARRAY['\\x00'::bytea]".to_owned(),
        format!("ARRAY[['a'::bytea]], ARRAY[[{hash}]], ARRAY[['\\x00'::bytea]]"),
        format!(
            "ARRAY['/a'::bytea], ARRAY[{hash}], \
             ARRAY[sha256(int8send(900000000) || '\\x{bomb}'::bytea)]"
        ),
    ];
    let (mut taken, mut n) = (0, 0);
    for payload in &payloads {
        for text in &texts {
            // Decompressing takes long, so there is one bomb only.
            if text.contains("900000000") && payload != "'null'" {
                continue;
            }
            n += 1;
            let run = format!("hostile{n}");
            // Each is a child run of the honest one, and has the words of the search.
            let words = words(&["message", "of", "honest", "0"]);
            let parent = "{\"parent_run_id\": \"honest\", \"deliveries\": 1}";
            let header = crate::staging::header(&run, 1, &link(&run, 1), parent);
            let staged = Staged { seqs: vec![], words, header, ..Staged::new(&run, 0, 1) };
            let row = record(0, 0, &link(&run, 1), payload)
                .replace("NULL, NULL, NULL);", &format!("{text});"));
            let body = format!(
                "INSERT INTO pg_temp.staged_bodies VALUES (0, sha256(int8send(900000000) \
                 || '\\x{bomb}'::bytea), 900000000, '\\x{bomb}');"
            );
            let body = if text.contains("900000000") { body } else { String::new() };
            taken += usize::from(ship(&mut writer, &(staged.sql() + &row + &body)).is_ok());
        }
    }
    println!("{taken} of {n} were taken");
    // Two records with the same fact key. A store never has these.
    let words = words(&["message", "of", "honest", "0"]);
    let twice = Staged { seqs: vec![], words, ..Staged::new("twice", 0, 2) };
    let start = "'{\"kind\":\"tool_started\",\"x\":\"message of honest 0\"}'";
    let rows = [0, 1].map(|seq| {
        record(0, seq, &link("twice", seq + 1), start)
            .replace("'turn_started', NULL", "'tool_started', 'call'::bytea")
    });
    ship(&mut writer, &(twice.sql() + &rows.concat())).unwrap();
    let mut reader = FleetReader::open(fleet.target("reader"), Some("p")).unwrap();
    let honest = RunId::from("honest");
    let mut copy = LocalCopy::new().unwrap();
    assert!(copy.bring(&mut reader, &honest).unwrap());
    assert_eq!(copy.store().verify_run(&honest).unwrap(), Vec::new());
    println!("{} child runs cannot be read", copy.unreadable().len());
    for run in copy.store().chain_ends().unwrap() {
        let _ = copy.store().verify_run(&run.0).unwrap();
        let _ = copy.store().trajectory(run.0.as_str());
    }
    let mut copy = LocalCopy::new().unwrap();
    let filter = SearchFilter::default();
    let (hits, damage) = copy.search(&mut reader, "message honest", &filter, 10).unwrap();
    assert_eq!(hits.iter().filter(|hit| hit.run_id == honest).count(), 1);
    assert!(!damage.is_empty());
    let since = midcourse::Timestamp::default();
    let until = midcourse::Timestamp::from_unix_ms(u64::MAX);
    LocalCopy::new().unwrap().bring_period(&mut reader, since, until).unwrap();
}
