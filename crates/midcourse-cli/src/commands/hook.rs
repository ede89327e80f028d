//! `midcourse hook HOST`: one payload of a host's hook in, the host's answer out.
//!
//! Never break the agent: this is the one place that turns every error, panic and delay into an
//! empty answer, exit code 0 and a line in the log of the home folder. The work is done on a thread
//! of its own; this one waits for it, and when the time is over it puts the event aside and leaves.
//! Exit code 2 would block the agent, so it is kept even from the parser of the command line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::hosts::{Decoded, Host};
use crate::launch::{LAUNCH_VARIABLE, Launch};
use crate::shell::shell_quote;
use anyhow::Context as _;
use midcourse::{
    DataDir, Delivery, Event, Ingested, Mode, NoDataDir, StoreError, StoreSettings, SyncedEngine,
    ingest_all, now, spill_event,
};
use uuid::Uuid;

use crate::beside;
use crate::log::Log;
use crate::terms::Terms;

/// The variable that says how many milliseconds an event may take.
const TIMEOUT_VARIABLE: &str = "MIDCOURSE_HOOK_TIMEOUT_MS";

const TIMEOUT: Duration = Duration::from_millis(500);

/// What putting an event aside may take.
const GRACE: Duration = Duration::from_millis(250);

/// The longest payload that is read; of a longer one the beginning is kept.
const INPUT_MAX: u64 = 8 * 1024 * 1024;

/// What is kept of a payload that is too long.
const KEPT_MAX: usize = 64 * 1024;

/// How much of the end of a host's own file is looked at.
const BESIDE_MAX: u64 = 128 * 1024;

/// Record one event of a coding agent at its hook, and answer it.
///
/// This is what a host runs at its hooks. It reads the payload on standard input, records it
/// durably, and prints the host's answer: nothing, or a short text for the agent. Whatever goes
/// wrong, the answer is empty and the exit code 0; `hook.log` in the folder for data says what it
/// was. MIDCOURSE_HOOK_TIMEOUT_MS is the time it may take (500).
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The host: claude-code or codex.
    host: String,
    /// The folder for data, whatever the environment says: a project can set variables for its
    /// hooks. MIDCOURSE_HOOK_TIMEOUT_MS does not count then either.
    #[arg(long, value_name = "FOLDER")]
    home: Option<PathBuf>,
    /// The launch that it belongs to, as `midcourse run` says.
    #[arg(long, value_name = "ID")]
    launch: Option<String>,
    /// The time it may take, whatever the environment says.
    #[arg(long, value_name = "MILLISECONDS")]
    timeout_ms: Option<u64>,
}

impl Arguments {
    /// Reads what can be read, and passes over the rest.
    pub(super) fn read(words: Vec<OsString>) -> Self {
        let mut read = Self { host: String::new(), home: None, launch: None, timeout_ms: None };
        // `--home=x` is `--home x`.
        let apart = |word: OsString| {
            let option = word.to_str().filter(|word| word.starts_with("--"));
            match option.and_then(|option| option.split_once('=')) {
                Some((option, value)) => vec![option.into(), value.into()],
                None => vec![word],
            }
        };
        let mut words = words.into_iter().flat_map(apart);
        while let Some(word) = words.next() {
            let mut text = || words.next().map(|value| value.to_string_lossy().into_owned());
            match word.to_str() {
                Some("--launch") => read.launch = text(),
                Some("--timeout-ms") => read.timeout_ms = text().and_then(|it| it.parse().ok()),
                Some("--home") => read.home = words.next().map(PathBuf::from),
                _ if read.host.is_empty() => read.host = word.to_string_lossy().into_owned(),
                _ => {}
            }
        }
        read
    }

    /// The command of a shell that runs the hook so: with its own words for all that a project could
    /// set in the environment.
    pub(super) fn command(host: Host, home: &DataDir, launch: &Launch) -> anyhow::Result<String> {
        let text = |path: &Path| {
            let text = path.to_str().map(shell_quote);
            text.with_context(|| format!("the path {} is not text", path.display()))
        };
        let (us, home) = (text(&std::env::current_exe()?)?, text(home.path())?);
        let mut command = format!("{us} hook {} --home {home} --launch {}", host.name(), launch.id);
        if let Some(limit) = limit_in_environment() {
            command.push_str(&format!(" --timeout-ms {}", limit.as_millis()));
        }
        Ok(command)
    }

    fn home(&self) -> Option<DataDir> {
        let named = self.home.clone().filter(|folder| !folder.as_os_str().is_empty());
        named.map(DataDir::named).or_else(|| DataDir::of_user().ok())
    }

    fn launch(&self) -> Option<String> {
        let set = || std::env::var(LAUNCH_VARIABLE).ok().filter(|id| !id.is_empty());
        self.launch.clone().or_else(set)
    }

    fn time_limit(&self) -> Duration {
        let said = self.timeout_ms.filter(|limit| *limit > 0).map(Duration::from_millis);
        // Who names the folder does not trust the environment.
        let set = || if self.home.is_some() { None } else { limit_in_environment() };
        said.or_else(set).unwrap_or(TIMEOUT)
    }
}

/// What the host gets, and what there is to say about it in the log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    answer: Vec<u8>,
    remarks: Vec<String>,
}

/// The events that are being recorded, for whoever has to put them aside.
type Pending = Arc<Mutex<Vec<Event>>>;

/// Does it all, and cannot fail.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let deadline = Deadline::in_time(arguments.time_limit(), GRACE);
    let home = arguments.home();
    let log = Arc::new(Log::new(home.as_ref(), &arguments.host));
    let panics = Arc::clone(&log);
    // Whatever a panic has to say belongs in the log: the host shows what is on standard error.
    std::panic::set_hook(Box::new(move |panic| panics.write(&panic.to_string())));
    let (host, its_home) = (arguments.host.clone(), home.clone());
    let launch = arguments.launch();
    let report = guard(&log, home, deadline, move |pending| {
        step(&host, its_home, launch.as_deref(), pending, deadline).unwrap_or_else(|error| Report {
            remarks: vec![format!("{error:#}")],
            ..Report::default()
        })
    });
    for remark in &report.remarks {
        log.write(remark);
    }
    let mut out = stdout().lock();
    if let Err(error) = out.write_all(&report.answer).and_then(|()| out.flush()) {
        log.write(&format!("the host did not take the answer: {error}"));
    }
    ExitCode::SUCCESS
}

/// When the answer has to be there.
#[derive(Clone, Copy)]
struct Deadline {
    begun: Instant,
    limit: Duration,
    /// What putting an event aside may take, once the time is over.
    grace: Duration,
}

impl Deadline {
    fn in_time(limit: Duration, grace: Duration) -> Self {
        Self { begun: Instant::now(), limit, grace }
    }

    fn left(self) -> Duration {
        self.limit.saturating_sub(self.begun.elapsed())
    }
}

/// Has the work done on another thread, and answers in time whatever becomes of it.
fn guard(
    log: &Log,
    home: Option<DataDir>,
    deadline: Deadline,
    work: impl FnOnce(&Pending) -> Report + Send + 'static,
) -> Report {
    let pending = Pending::default();
    let (done, report) = channel();
    let for_work = Arc::clone(&pending);
    // Nobody listens if the time is over.
    let started = thread::Builder::new().spawn(move || drop(done.send(work(&for_work))));
    if let Err(error) = started {
        log.write(&format!("no thread could be started, the event is lost: {error}"));
        return Report::default();
    }
    let mut waited = report.recv_timeout(deadline.left());
    if waited == Err(RecvTimeoutError::Timeout) && events(&pending).is_empty() {
        // Nothing to put aside yet: on a busy machine the payload may just not have been read.
        waited = report.recv_timeout(deadline.grace);
    }
    waited.unwrap_or_else(|why| {
        put_aside(log, home, std::mem::take(&mut *events(&pending)), why, deadline.grace);
        // It may have come through at the very end: what was recorded as said is said.
        report.try_recv().unwrap_or_default()
    })
}

fn events(pending: &Pending) -> MutexGuard<'_, Vec<Event>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn limit_in_environment() -> Option<Duration> {
    let set = std::env::var(TIMEOUT_VARIABLE).ok().and_then(|text| text.parse().ok());
    set.filter(|limit| *limit > 0).map(Duration::from_millis)
}

/// Puts the events aside that were not recorded in time, or were not for a panic. An event that
/// was recorded after all is known by its key when it comes back.
fn put_aside(
    log: &Log,
    home: Option<DataDir>,
    events: Vec<Event>,
    why: RecvTimeoutError,
    grace: Duration,
) {
    let why = match why {
        RecvTimeoutError::Timeout => "the time was over",
        RecvTimeoutError::Disconnected => "it failed",
    };
    let (Some(home), false) = (home, events.is_empty()) else {
        return log.write(&format!("{why} before there was an event"));
    };
    let (done, spilled) = channel();
    // A disk that hangs must not hold the agent up, and what panicked once may do so again.
    let spilling = thread::Builder::new().spawn(move || {
        let settings = StoreSettings::default();
        let all =
            events.into_iter().try_for_each(|event| spill_event(&home, event, &settings).map(drop));
        // Nobody listens if that took too long as well.
        let _ = done.send(all.map_err(|error| error.to_string()));
    });
    let spilled = match spilling {
        Ok(_) => spilled.recv_timeout(grace).unwrap_or_else(|error| Err(error.to_string())),
        Err(error) => Err(error.to_string()),
    };
    log.write(&match spilled {
        Ok(()) => format!("{why}: the event waits in the spill folder"),
        Err(error) => format!("{why}, and the event may be lost: {error}"),
    });
}

/// Reads, records, asks, and says what to answer.
fn step(
    host: &str,
    home: Option<DataDir>,
    launch: Option<&str>,
    pending: &Pending,
    deadline: Deadline,
) -> anyhow::Result<Report> {
    let mut remarks = Vec::new();
    let bytes = read_input(&mut remarks)?;
    let Some(host) = Host::named(host) else {
        let names = Host::ALL.map(Host::name).join(", ");
        anyhow::bail!("there is no such host; those known are {names}");
    };
    let mut decoded = host.decode(&bytes, now());
    if let Some(run) = decoded.unread_run() {
        remarks.push(format!("a payload of {} bytes is kept unread in run {run}", bytes.len()));
    }
    drop(bytes);
    let mut terms = Terms::in_force(home.as_ref(), launch, decoded.folder.as_deref());
    let is_beside = beside::is_beside(home.as_ref(), host, terms.is_proxied(), &decoded.facts);
    if is_beside {
        beside::step_back(&mut decoded.facts);
    }
    let for_tokens = terms.counts_tokens() && !is_beside;
    if host.looks_beside(for_tokens)
        && let Some(end) = decoded.beside.as_deref().and_then(end_of)
    {
        decoded = host.complete(decoded, &end, for_tokens);
    }
    let Decoded { mut facts, carrier, .. } = decoded;
    if facts.is_empty() {
        return Ok(Report { remarks, ..Report::default() });
    }
    remarks.extend(terms.announce(&mut facts));
    for event in &mut facts {
        // Whoever puts it aside does so under the same key.
        event.fact.get_or_insert_with(|| format!("once:{}", Uuid::now_v7()).into());
    }
    *events(pending) = facts.clone();

    let home = home.ok_or(NoDataDir)?;
    let is_child = facts.iter().any(|event| event.run.parent_run_id.is_some());
    let mut watch = SyncedEngine::new(terms.engine(Some(host), is_child))?;
    let facts = facts.into_iter().map(|mut event| {
        let is_child = event.run.parent_run_id.is_some();
        event.decision_point = host.point_of(&event.source, is_child, &event.payload);
        event
    });
    // Some of the time is for the spill folder.
    let patience = deadline.left().mul_f32(0.75);
    let settings = StoreSettings { busy_timeout: patience, ..StoreSettings::default() };
    let taken = ingest_all(&home, &settings, facts.collect(), &mut watch);
    let mut said = sum_up(taken, &mut remarks);
    if terms.mode() == Mode::Shadow {
        said.clear();
    }
    Ok(Report { answer: host.encode(&said, carrier), remarks })
}

/// What is to be said; what went wrong is remarked.
fn sum_up(taken: Vec<Result<Ingested, StoreError>>, remarks: &mut Vec<String>) -> Vec<Delivery> {
    let mut said = Vec::new();
    for taken in taken {
        match taken {
            Ok(Ingested::Stored { step, .. }) => {
                remarks.extend(step.faults.iter().map(ToString::to_string));
                said.extend(step.deliveries);
            }
            Ok(Ingested::Spilled { reason: why, .. }) => {
                remarks.push(format!("an event waits in the spill folder: {why}"));
            }
            Err(error) => remarks.push(format!("an event is lost: {error}")),
        }
    }
    said
}

/// The payload, or the beginning of one that is too long. It is read to its end all the same: a
/// host that cannot get rid of it may take that for a failure.
fn read_input(remarks: &mut Vec<String>) -> anyhow::Result<Vec<u8>> {
    let mut input = stdin().lock();
    let mut bytes = Vec::new();
    input.by_ref().take(INPUT_MAX).read_to_end(&mut bytes)?;
    let more = std::io::copy(&mut input, &mut std::io::sink())?;
    if more > 0 {
        bytes.truncate(KEPT_MAX);
        let length = INPUT_MAX.saturating_add(more);
        remarks.push(format!("a payload of {length} bytes is too long: its beginning is kept"));
    }
    Ok(bytes)
}

/// The end of a file, if it is one.
fn end_of(path: &Path) -> Option<Vec<u8>> {
    // A pipe would be waited for.
    let length = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(length.saturating_sub(BESIDE_MAX))).ok()?;
    let mut end = Vec::new();
    file.take(BESIDE_MAX).read_to_end(&mut end).ok()?;
    Some(end)
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use midcourse::{DataDir, Event, RunIdentity, Source, TrajectoryPayload, has_spilled, now};

    use super::{Deadline, Log, Pending, Report, events, guard};

    /// Longer than any machine takes, however busy it is.
    const AGES: Duration = Duration::from_secs(600);

    const A_MOMENT: Duration = Duration::from_millis(50);

    fn guarded(
        limit: Duration,
        grace: Duration,
        work: fn(&Pending) -> Report,
    ) -> (Report, DataDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let home = DataDir::at(folder.path());
        let log = Log::new(Some(&home), "test");
        let deadline = Deadline::in_time(limit, grace);
        let report = guard(&log, Some(home.clone()), deadline, work);
        let lines = std::fs::read_to_string(home.log_file()).unwrap_or_default();
        // The folder stays until the process ends: the work may still be at it.
        std::mem::forget(folder);
        (report, home, lines)
    }

    fn begin(pending: &Pending) {
        let run = RunIdentity::root("r");
        let event = Event::new(run, Source::new("test", "hook"), now(), TrajectoryPayload::Resumed);
        events(pending).push(event);
    }

    #[test]
    fn the_words_of_a_hook_are_read_in_either_form() {
        let read = |words: &[&str]| {
            let read = super::Arguments::read(words.iter().map(Into::into).collect());
            (read.host, read.home, read.launch, read.timeout_ms)
        };
        let all = ("codex".to_owned(), Some("/h x".into()), Some("l".to_owned()), Some(7));
        assert_eq!(read(&["codex", "--home", "/h x", "--launch", "l", "--timeout-ms", "7"]), all);
        assert_eq!(read(&["--home=/h x", "codex", "--launch=l", "--timeout-ms=7", "more"]), all);
        assert_eq!(read(&["codex", "--home"]), ("codex".to_owned(), None, None, None));
        assert_eq!(read(&[]), (String::new(), None, None, None));
    }

    #[test]
    fn work_that_takes_too_long_is_left_and_its_event_put_aside() {
        // By then the work has certainly begun.
        let (report, home, lines) = guarded(Duration::from_secs(2), AGES, |pending| {
            begin(pending);
            sleep(AGES);
            Report::default()
        });
        assert_eq!(report, Report::default());
        assert!(has_spilled(&home));
        assert!(lines.contains("test: the time was over: the event waits"), "{lines}");
    }

    #[test]
    fn work_that_panics_is_silent_and_its_event_put_aside() {
        let (report, home, lines) = guarded(AGES, AGES, |pending| {
            begin(pending);
            panic!("a bug");
        });
        assert_eq!(report, Report::default());
        assert!(has_spilled(&home));
        assert!(lines.contains("test: it failed: the event waits"), "{lines}");
    }

    #[test]
    fn a_payload_that_never_comes_is_waited_for_a_little() {
        let (report, home, lines) = guarded(A_MOMENT, A_MOMENT, |_| {
            sleep(AGES);
            Report::default()
        });
        assert_eq!(report, Report::default());
        assert!(!has_spilled(&home));
        assert!(lines.contains("test: the time was over before there was an event"), "{lines}");
    }

    #[test]
    fn work_that_is_done_in_time_is_heard() {
        let done = || Report { answer: b"{}".to_vec(), remarks: vec!["one".to_owned()] };
        let (report, _, lines) = guarded(AGES, AGES, |_| Report {
            answer: b"{}".to_vec(),
            remarks: vec!["one".to_owned()],
        });
        assert_eq!((report, lines.as_str()), (done(), ""));
    }
}
