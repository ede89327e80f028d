//! What a feedback context shows: resources, the deadline, and the latest calls and feedback.

use midcourse_core::{
    Deadline, DeadlineFeedback, Feedback, FeedbackContext, FeedbackProviderConfig, FeedbackTrigger,
    Filesystem, Prompt, PromptTemplate, Session, Timestamp, ToolInvoked, TrajectoryAnalysisConfig,
    collect_feedback,
};
use serde_json::json;

const NOW: Timestamp = Timestamp::from_unix_ms(1_767_225_600_000);

fn later(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ms(NOW.unix_ms() + seconds * 1_000)
}

fn template() -> PromptTemplate {
    PromptTemplate::new("agent", "main").unwrap()
}

fn session(calls: u64) -> Session {
    let mut session = Session::new(TrajectoryAnalysisConfig::default(), "agent:main");
    for n in 0..calls {
        let id = format!("c{n}").into();
        session.dispatch(ToolInvoked::new(&id, "bash", &json!({"n": n}), "ok", false, NOW));
    }
    session
}

#[derive(Debug, PartialEq)]
struct Ticket(&'static str);

struct OneFile;

impl Filesystem for OneFile {
    fn exists(&self, path: &str) -> bool {
        path == "a.txt"
    }

    fn read(&self, path: &str) -> Option<String> {
        self.exists(path).then(|| "text".to_owned())
    }
}

#[test]
fn the_resources_of_the_prompt_are_available_by_type() {
    let session = session(0);
    let prompt = Prompt::new(template().with_resource(Ticket("T-1")).with_filesystem(OneFile));
    let context = FeedbackContext::new(&session, &prompt, NOW);
    assert_eq!(context.resources().get_optional::<Ticket>(), Some(&Ticket("T-1")));
    assert_eq!(context.resources().get::<Ticket>(), Ok(&Ticket("T-1")));
    assert_eq!(context.filesystem().unwrap().read("a.txt").unwrap(), "text");
    assert!(!context.filesystem().unwrap().exists("b.txt"));

    let bare = Prompt::new(template());
    let context = FeedbackContext::new(&session, &bare, NOW);
    assert!(context.filesystem().is_none());
    assert_eq!(context.resources().get_optional::<Ticket>(), None);
    let error = context.resources().get::<Ticket>().unwrap_err().to_string();
    assert!(error.starts_with("the prompt has no resource of type "), "{error}");
}

#[test]
fn the_latest_calls_are_returned_oldest_first_and_all_if_there_are_fewer() {
    let (session, prompt) = (session(3), Prompt::new(template()));
    let context = FeedbackContext::new(&session, &prompt, NOW);
    let indexes = |n| -> Vec<u64> {
        context.recent_tool_calls(n).iter().map(|call| call.call_index()).collect()
    };
    assert_eq!(indexes(2), [2, 3]);
    assert_eq!(indexes(9), [1, 2, 3]);
    assert_eq!((context.tool_call_count(), context.now()), (3, NOW));
}

#[test]
fn the_latest_feedback_and_the_calls_since_then_are_known() {
    let (mut session, prompt) = (session(2), Prompt::new(template()));
    let context = FeedbackContext::new(&session, &prompt, NOW);
    assert_eq!(context.last_feedback(), None);
    assert_eq!(context.tool_calls_since_last_feedback(), 2);
    session.dispatch(Feedback::new("A", "First."));
    let id = "next".into();
    session.dispatch(ToolInvoked::new(&id, "bash", &json!({}), "ok", false, later(5)));
    let context = FeedbackContext::new(&session, &prompt, later(5));
    assert_eq!(context.last_feedback().unwrap().summary(), "First.");
    assert_eq!(context.last_feedback_of("A"), context.last_feedback());
    assert_eq!(context.last_feedback_of("B"), None);
    assert_eq!(context.last_feedback_time_of("A"), Some(NOW));
    assert_eq!(context.tool_calls_since_last_feedback(), 1);
    assert_eq!(context.tool_calls_since_last_feedback_of("B"), 3);
}

#[test]
fn a_deadline_can_be_given_to_a_context_or_dispatched_to_a_session() {
    let trigger = FeedbackTrigger::every_n_seconds(30.0).unwrap();
    let provider = FeedbackProviderConfig::new(DeadlineFeedback::default(), trigger);
    let prompt = Prompt::new(template().with_feedback_provider(provider).unwrap());
    let mut session = session(1);
    let text = |context: FeedbackContext<'_>| collect_feedback(&context).text();
    assert_eq!(text(FeedbackContext::new(&session, &prompt, NOW)), None);

    let context = FeedbackContext::new(&session, &prompt, NOW);
    let context = context.with_deadline(Deadline::new(later(480), NOW));
    assert_eq!(
        text(context).as_deref(),
        Some("[Feedback - Deadline]\n\nYou have 8 minutes remaining.")
    );
    assert_eq!(session.deadline(), None);

    session.dispatch(Deadline::new(later(600), NOW));
    let context = FeedbackContext::new(&session, &prompt, NOW);
    assert_eq!(context.deadline(), Some(Deadline::new(later(600), NOW)));
    assert_eq!(
        text(context).as_deref(),
        Some("[Feedback - Deadline]\n\nYou have 10 minutes remaining.")
    );
}
