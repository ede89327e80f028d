//! Faults: whatever fails, the agent's run is the same as without the plugin.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use midcourse::{
    ClassificationResult, Detection, Engine, Feedback, FeedbackContext, FeedbackProvider,
    FeedbackProviderConfig, FeedbackTrigger, GapReason, GuidanceContext, GuidanceInjection,
    GuidanceProvider, GuidanceProviderConfig, PatternDetector, Prompt, PromptTemplate,
    ProviderError, TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPayload,
    TrajectoryRecord,
};
use midcourse::{
    Event, InMemoryTrajectorySink, OnFailure, Recording, TrajectoryError, TrajectorySink,
};
use midcourse_clark::{Midcourse, Trouble};

use crate::script::{
    Model, Shelf, builder, failing_loop, identity, kinds, message_text, run, without_messages,
    without_times,
};

type Fails = Box<dyn Fn(u64, &Event) -> bool + Send + Sync>;

/// A sink that fails for some events, by their number or content.
struct Flaky {
    memory: InMemoryTrajectorySink,
    fails: Fails,
    asked: AtomicU64,
    panics: bool,
}

impl Flaky {
    fn new(fails: impl Fn(u64, &Event) -> bool + Send + Sync + 'static) -> Self {
        let memory = InMemoryTrajectorySink::new();
        Self { memory, fails: Box::new(fails), asked: AtomicU64::new(0), panics: false }
    }

    /// Fails for the events with these numbers.
    fn during(numbers: Range<u64>) -> Self {
        Self::new(move |number, _| numbers.contains(&number))
    }

    fn records(&self, run: &str) -> Vec<TrajectoryRecord> {
        let records = self.memory.records(&run.into());
        assert!((0..).zip(&records).all(|(seq, record)| record.seq == seq));
        records
    }
}

impl TrajectorySink for Flaky {
    fn record(&self, event: Event) -> Recording<'_> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        if (self.fails)(number, &event) {
            assert!(!self.panics, "on purpose");
            return Box::pin(async { Err(TrajectoryError::Io("no disk".into())) });
        }
        self.memory.record(event)
    }
}

/// Makes four failing calls with the plugin and without it. Checks that both runs are equal except
/// for midcourse's messages, and returns whether there were any.
async fn check_unharmed(plugin: &Arc<Midcourse>) -> bool {
    let (model, bare) = (Model::new(failing_loop(4)), Model::new(failing_loop(4)));
    let told = run(plugin.attach(builder(&model)), identity("r")).await.unwrap();
    let alone = run(builder(&bare), identity("r")).await.unwrap();
    assert_eq!(without_messages(&without_times(&told.messages)), without_times(&alone.messages));
    let requests = model.requests();
    assert_eq!(requests.iter().map(|it| without_messages(it)).collect::<Vec<_>>(), bare.requests());
    requests.iter().flatten().any(|message| message_text(message).is_some())
}

#[tokio::test]
async fn a_sink_that_fails_for_a_while_leaves_a_gap_marker() {
    for panics in [false, true] {
        let sink = Arc::new(Flaky { panics, ..Flaky::during(3..16) });
        let plugin = Arc::new(Midcourse::new(Arc::<Flaky>::clone(&sink)));
        check_unharmed(&plugin).await;
        let records = sink.records("r");
        assert_eq!(kinds(&records)[..3], ["run_started", "turn_started", "message_appended"]);
        assert_eq!(records[3].payload, TrajectoryPayload::Gap { lost: 13, reason: GapReason::Io });
        assert_eq!(kinds(&records).last(), Some(&"run_ended"));
    }
}

#[tokio::test]
async fn a_run_whose_start_was_dropped_starts_late_and_knows_its_deadline() {
    let sink = Arc::new(Flaky::during(0..5));
    let plugin = Arc::new(Midcourse::new(Arc::<Flaky>::clone(&sink)));
    let model = Model::new(failing_loop(3));
    let due = identity("r").with_deadline_unix_ms(midcourse::now().unix_ms() + 3_600_000);
    run(plugin.attach(builder(&model)), due).await.unwrap();
    let records = sink.records("r");
    assert_eq!(kinds(&records)[..2], ["run_started", "gap"]);
    assert!(kinds(&records).contains(&"feedback_delivered"));
}

#[tokio::test]
async fn gap_markers_are_where_events_are_missing() {
    let is_full = Arc::new(AtomicBool::new(false));
    let disk = Arc::clone(&is_full);
    let sink = Arc::new(Flaky::new(move |_, _| disk.load(Ordering::Relaxed)));
    let plugin = Arc::new(Midcourse::new(Arc::<Flaky>::clone(&sink)));
    let one = async |id| run(plugin.attach(builder(&Model::new([]))), identity(id)).await.unwrap();
    one("first").await;
    is_full.store(true, Ordering::Relaxed);
    one("second").await;
    one("third").await;
    assert!(plugin.flush().await.is_err());
    assert_eq!(sink.memory.len(), sink.records("first").len());

    is_full.store(false, Ordering::Relaxed);
    one("fourth").await;
    for id in ["second", "third"] {
        assert_eq!(kinds(&sink.records(id)), ["run_started", "gap"]);
    }
    assert_eq!(kinds(&sink.records("fourth")), kinds(&sink.records("first")));
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_said() {
    let sink = Flaky::new(|_, event| event.payload.is_conclusion());
    assert!(!check_unharmed(&Arc::new(Midcourse::new(Arc::new(sink)))).await);
}

#[tokio::test]
async fn escalated_failures_reach_the_callback() {
    let troubles = Arc::<Mutex<Vec<Trouble>>>::default();
    let told = Arc::clone(&troubles);
    let plugin = Midcourse::new(Arc::new(Flaky::during(3..5)))
        .on_failure(OnFailure::Escalate)
        .on_trouble(move |trouble| told.lock().unwrap().push(trouble.clone()));
    check_unharmed(&Arc::new(plugin)).await;
    let no_disk = Trouble::Recording(TrajectoryError::Io("no disk".into()));
    assert_eq!(*troubles.lock().unwrap(), [no_disk.clone(), no_disk]);
}

#[tokio::test]
async fn an_engine_that_cannot_be_made_leaves_the_agent_unharmed() {
    let shelf = Shelf::new();
    let plugin = Arc::new(shelf.plugin().with_engine(|_| panic!("on purpose")));
    check_unharmed(&plugin).await;
    assert_eq!(kinds(&shelf.records("r")).last(), Some(&"run_ended"));
}

struct Panics;

impl FeedbackProvider for Panics {
    fn name(&self) -> &str {
        "Panics"
    }

    fn should_run(&self, _: &FeedbackContext<'_>) -> Result<bool, ProviderError> {
        panic!("on purpose")
    }

    fn provide(&self, _: &FeedbackContext<'_>) -> Result<Feedback, ProviderError> {
        Err("never asked".into())
    }
}

impl GuidanceProvider for Panics {
    fn name(&self) -> &str {
        "Panics too"
    }

    fn category(&self) -> &str {
        "test"
    }

    fn classify(&self, _: &GuidanceContext<'_>) -> Result<ClassificationResult, ProviderError> {
        Ok(ClassificationResult::yes())
    }

    fn provide(&self, _: &GuidanceContext<'_>) -> Result<GuidanceInjection, ProviderError> {
        panic!("on purpose")
    }
}

impl PatternDetector for Panics {
    fn name(&self) -> &str {
        "Panics as well"
    }

    fn detect(&mut self, _: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        panic!("on purpose")
    }

    fn reset(&mut self) {
        panic!("on purpose")
    }
}

#[tokio::test]
async fn panicking_providers_and_detectors_leave_the_agent_unharmed() {
    let shelf = Shelf::new();
    let troubles = Arc::<Mutex<Vec<String>>>::default();
    let told = Arc::clone(&troubles);
    let plugin = shelf
        .plugin()
        .with_engine(|_| {
            let trigger = FeedbackTrigger::every_n_calls(1).unwrap();
            let template = PromptTemplate::new("test", "run")
                .unwrap()
                .with_feedback_provider(FeedbackProviderConfig::new(Panics, trigger))
                .unwrap()
                .with_guidance_provider(GuidanceProviderConfig::new(Panics))
                .unwrap();
            Engine::new(Prompt::new(template), TrajectoryAnalysisConfig::shipped())
                .with_detector(Panics)
        })
        .on_trouble(move |trouble| {
            told.lock().unwrap().push(trouble.to_string());
            panic!("on purpose, too");
        });
    assert!(!check_unharmed(&Arc::new(plugin)).await);
    assert_eq!(kinds(&shelf.records("r")).last(), Some(&"run_ended"));
    let troubles = troubles.lock().unwrap();
    for name in ["Panics was skipped", "Panics too was skipped", "Panics as well was skipped"] {
        assert!(troubles.iter().any(|trouble| trouble.starts_with(name)), "{name}: {troubles:?}");
    }
}
