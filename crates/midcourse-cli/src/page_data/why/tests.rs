//! Messages of a run that really got stuck, through the store as hooks store it.

use midcourse::{
    Budget, Cause, Channel, DecisionPoint, Engine, Event, Feedback, RunIdentity, Rung, Source,
    SyncedEngine, Timestamp, ToolResult, TrajectoryPayload, Why,
};
use serde_json::{Value, json};

use crate::page_data::tests::{Place, ended, started, user};
use crate::page_data::{rungs, why};

/// A run that fails in the same way again and again, then does something else.
fn stuck() -> Place {
    let mut place = Place::new();
    let mut payloads = vec![user("Make it build.")];
    for n in 0..20 {
        let (id, command) =
            (n.to_string(), if n < 12 { "make".to_owned() } else { format!("ls {n}") });
        let result = match n {
            0..12 => ToolResult::error("Makefile:3: *** missing separator.  Stop."),
            _ => ToolResult::text(format!("file-{n}.txt with something new")),
        };
        payloads.push(started(&id, "bash", json!({"command": command})));
        payloads.push(ended(&id, "bash", result));
    }
    for (at, payload) in payloads.into_iter().enumerate() {
        let is_end = matches!(payload, TrajectoryPayload::ToolEnded { .. });
        let at = Timestamp::from_unix_ms(1_790_000_000_000 + at as u64 * 1_000);
        let mut event =
            Event::new(RunIdentity::root("r"), Source::new("test", Channel::Hook), at, payload);
        event.decision_point = is_end.then_some(DecisionPoint::PostToolResult);
        // Each hook is a process of its own.
        let mut engine = SyncedEngine::new(Engine::shipped(Budget::default())).unwrap();
        place.store.step(event, &mut engine).unwrap();
    }
    place
}

fn view(place: &Place, seq: u64) -> Value {
    let mut view = serde_json::to_value(why(&place.store, "r", seq).unwrap()).unwrap();
    if view.is_object() {
        view["rungs"] = serde_json::to_value(rungs(&place.store, "r", seq).unwrap()).unwrap();
    }
    view
}

#[test]
fn a_message_says_why_where_and_what_became_of_it() {
    let place = stuck();
    let messages = place.store.seqs_of("r", &["guidance_delivered", "feedback_delivered"]).unwrap();
    assert_eq!(messages.len(), 3, "{messages:?}");
    for (index, seq) in messages.iter().enumerate() {
        let view = view(&place, *seq);
        assert_eq!((&view["kind"], &view["shadow"]), (&json!("guidance"), &json!(false)));
        assert_eq!(view["pattern_text"], "the same error again and again");
        assert_eq!(view["number"], json!(index + 1));
        assert!(view["confidence"].as_f64().unwrap() > 0.5);
        assert_eq!(view["landed"]["text"], "with the result of `bash make`");
        let call = view["landed"]["seq"].as_u64().unwrap();
        assert_eq!(place.store.entry("r", call).unwrap().unwrap().end.unwrap().seq, {
            let mut before = seq - 1;
            while place.store.entry("r", before).unwrap().unwrap().record.kind() == "outcome" {
                before -= 1;
            }
            before
        });
        let evidence = view["evidence"].as_array().unwrap();
        assert!(
            evidence.len() >= 3
                && evidence.iter().all(|it| it["title"] == "bash make" && it["state"] == 1)
        );
        assert_eq!(view["series"].as_array().unwrap().len(), 3);
        assert_eq!(view["series"][index]["text"], view["text"]);
        let verdict = if index == 2 { "cleared" } else { "ignored" };
        assert_eq!(view["outcome"]["verdict"], verdict, "{view}");
        // Each position of the series has a text of its own, and this message is one of them.
        let rungs = view["rungs"].as_array().unwrap();
        assert_eq!(rungs.len(), 4, "{rungs:?}");
        for (number, rung) in rungs.iter().enumerate() {
            assert_eq!(rung["number"], json!(number + 1));
            assert_eq!(rung["is_this"], json!(number == index));
            assert_eq!(rung["text"] == view["text"], number == index);
        }
    }
}

#[test]
fn messages_about_a_limit_or_without_a_cause_have_no_series() {
    let mut place = Place::new();
    place.add("r", 0, user("Go."));
    let (cause, rung) = (Cause::only("deadline"), Rung(1));
    let limit = Why { cause, rung, evidence: vec![0], subject: None };
    let feedback = Feedback::new("deadline", "Ten minutes are left.");
    for feedback in [feedback.clone().about(limit), feedback] {
        let text = feedback.render();
        let payload = TrajectoryPayload::FeedbackDelivered {
            feedback,
            text,
            tool_call_id: None,
            shadow: true,
            assignment: None,
        };
        let seq = place.add("r", 1, payload);
        let view = view(&place, seq);
        assert_eq!((&view["rungs"], &view["shadow"]), (&json!([]), &json!(true)));
        assert!(view["landed"]["text"].as_str().unwrap().starts_with("nowhere"), "{view}");
        assert_eq!(view["number"].is_null(), view["pattern"].is_null());
        assert_eq!(
            view["evidence"].as_array().unwrap().len(),
            usize::from(!view["number"].is_null())
        );
    }
}

#[test]
fn only_messages_have_a_reason() {
    let place = stuck();
    assert_eq!(view(&place, 1), Value::Null);
    assert_eq!(view(&place, 9_999), Value::Null);
}
