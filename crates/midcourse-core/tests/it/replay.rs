//! Replays a run and lists the messages of the engine, for other tests too. Also tests the messages
//! of the "shipped" engine: the one with the settings that the `midcourse` command uses unless its
//! configuration file sets others.

use midcourse_core::{
    Budget, DecisionPoint, Delivery, Engine, TrajectoryRecord, parse_notation, write_notation,
};

/// A message that the engine delivered during a replay.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    /// The number of calls before the message.
    pub(crate) call: u64,
    /// The sequence number of the record after which the message was delivered.
    pub(crate) seq: u64,
    pub(crate) provider: String,
    /// The cause, such as a loop or an error, and the number of the message in the series of
    /// messages about this cause, from 1. `None` if the message is not about a cause.
    pub(crate) why: Option<(String, u8)>,
    pub(crate) text: String,
}

/// The record with a ten times larger sequence number, so that the numbers after it are free for
/// the engine's own records.
pub(crate) fn with_free_seqs(record: &TrajectoryRecord) -> TrajectoryRecord {
    TrajectoryRecord { seq: record.seq * 10, ..record.clone() }
}

/// Feeds one record to the engine and returns the messages that the engine delivers after it. The
/// decision point is the one before the model selects a tool.
pub(crate) fn step(engine: &mut Engine, record: &TrajectoryRecord) -> Vec<Message> {
    let step = engine.step(&with_free_seqs(record), Some(DecisionPoint::PreToolSelection));
    let call = engine.trajectory().tool_call_count();
    let message = |delivery: &Delivery| Message {
        call,
        seq: record.seq,
        provider: delivery.provider().to_owned(),
        why: delivery.why().map(|why| (why.cause.to_string(), why.rung.0)),
        text: delivery.text(),
    };
    step.deliveries.iter().map(message).collect()
}

/// Feeds all records to the engine and returns the messages that the engine delivers.
pub(crate) fn replay(engine: &mut Engine, records: &[TrajectoryRecord]) -> Vec<Message> {
    records.iter().flat_map(|record| step(engine, record)).collect()
}

/// All messages of the shipped engine for a run, one `call N: text` per line, where N is the number
/// of calls so far.
pub(crate) fn shipped(notation: &str) -> String {
    let records = parse_notation(notation).unwrap();
    let messages = replay(&mut Engine::shipped(Budget::default()), &records);
    messages.iter().map(|message| format!("call {}: {}\n", message.call, message.text)).collect()
}

#[test]
fn a_loop_gets_three_messages_with_growing_waits() {
    insta::assert_snapshot!(shipped("
        read a.rs   -> 120 lines of a file that is rather long
        12x bash make   !! error: missing separator
    "), @r#"
    call 4: You ran "make" 3 times and it failed the same way each time, with nothing in between. Look at the exact place that cannot be parsed and at its quoting, or put the text into a file and use that.
    call 7: You ran "make" 6 times and it failed the same way each time, with nothing in between. Cut the text in half until a part of it is accepted; what you add next is the cause.
    call 13: You ran "make" 12 times and it failed the same way each time, with nothing in between. Write down what is known, what is ruled out and what blocks you; then go on with other work, or report it as open.
    "#);
}

#[test]
fn a_problem_without_new_evidence_gets_no_second_message() {
    let messages = shipped(
        r#"
        bash make !! error: undefined reference to main
        edit {"path":"a.c","old":"1","new":"2"} -> ok
        bash make all !! error: undefined reference to main
        edit {"path":"b.c","old":"3","new":"4"} -> ok
        bash cc -o a a.c !! error: undefined reference to main
        edit {"path":"b.c","old":"4","new":"5"} -> ok
        bash cc -o a a.c !! error: undefined reference to main
        read a.c -> the text of the first file, quite long
        read b.c -> the text of the second file, quite long
        read c.c -> the text of the third file, quite long
        read d.c -> the text of the fourth file, quite long
        "#,
    );
    assert_eq!(messages.lines().count(), 1, "{messages}");
}

#[test]
fn another_loop_has_its_own_ladder() {
    insta::assert_snapshot!(shipped("
        3x bash make        !! error: missing separator
        3x bash cat x.conf  !! error: stale file handle
    "), @r#"
    call 3: You ran "make" 3 times and it failed the same way each time, with nothing in between. Look at the exact place that cannot be parsed and at its quoting, or put the text into a file and use that.
    call 6: You read "x.conf" 3 times and it failed the same way each time, with nothing in between. Read the whole error. If it names nothing to change, begin with the smallest call that works, and add one part at a time.
    "#);
}

#[test]
fn a_run_without_problems_gets_no_message() {
    assert_eq!(
        shipped(
            r#"
            user: make the tests pass
            read src/lib.rs -> pub fn add(a: i32, b: i32) -> i32 { a - b }
            & read tests/add.rs -> assert_eq!(add(1, 2), 3)
            bash cargo test !! error: test add failed, 1 failed, 0 passed
            edit {"path": "src/lib.rs", "old": "a - b", "new": "a + b"} -> ok
            bash cargo test -> test add passed, 1 passed, 0 failed
            assistant: The sign was wrong. It is fixed.
            end completed
            "#
        ),
        ""
    );
}

#[test]
fn the_deadline_is_mentioned_at_fixed_parts_of_the_time() {
    let calls: String =
        (0..120).map(|n| format!("+1m read f{n}.rs -> the text of file {n}, long\n")).collect();
    let told: Vec<String> = shipped(&format!("deadline 2h\n{calls}"))
        .lines()
        .filter(|line| line.starts_with("You have"))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        told,
        [
            "You have 2.0 hours remaining.",
            "You have 1.0 hours remaining.",
            "You have 30 minutes remaining.",
            "You have 12 minutes remaining.",
            "You have 2 minutes remaining.",
            "You have reached the time deadline.",
        ]
    );
}

#[test]
fn the_deadline_is_mentioned_again_after_a_compaction() {
    let text = shipped(
        "
        deadline 2h
        bash a -> one of a few long lines
        +10m bash b -> two of a few long lines
        compaction
        +1m bash c -> three of a few long lines
        bash d -> four of a few long lines
        ",
    );
    let told: Vec<_> = text.lines().filter(|line| line.starts_with("You have")).collect();
    assert_eq!(told, ["You have 2.0 hours remaining.", "You have 1.8 hours remaining."]);
}

#[test]
fn a_deadline_in_the_past_counts_as_reached() {
    let text = shipped("deadline 0s\n+1s bash ls -> a.txt and b.txt and c.txt");
    assert!(text.contains("You have reached the time deadline."), "{text}");
}

#[test]
fn written_records_parse_to_the_same_records() {
    let text = "3x bash make !! error: missing separator\nuser: stop\n+90s bash make -> built";
    let records = parse_notation(text).unwrap();
    assert_eq!(parse_notation(&write_notation(&records)).unwrap(), records);
}
