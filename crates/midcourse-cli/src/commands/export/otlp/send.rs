//! Sends the spans of runs to an endpoint, in batches, and saves the cursor after each of them.
//!
//! A batch ends between two records. So the cursor is a number of records: the spans that they
//! complete were accepted. A busy endpoint is asked again for a while; every other failure ends the
//! export, and the next one goes on where this one stopped.

use std::io::{Write as _, stdout};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use midcourse::{RunSummary, now};

use super::super::record_json;
use super::cursor::CursorFile;
use super::protobuf::{Accepted, request, response};
use super::tree::Tree;
use super::{Endpoint, MAX_BATCH_SPANS, Options, RunSource};
use crate::display::one_line;
use crate::formats::otel::{RunSpans, Span};
use crate::proxy::{PostError, Poster, Reply};
use crate::terminal::warn;

/// A request has no more spans once its body has this size.
const MAX_BATCH_BYTES: usize = 2 * 1024 * 1024;

/// How long the endpoint may take for a response.
const TIMEOUT: Duration = Duration::from_secs(60);

/// For how long a busy endpoint is asked again.
const MAX_BUSY: Duration = Duration::from_secs(120);

/// The first pause before a busy endpoint is asked again. Each pause is twice as long as the one
/// before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// A run that has no end is over if it had no record for this long.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// How much of the endpoint's response an error shows, in characters.
const MAX_SHOWN_CHARS: usize = 300;

/// Sends the first of `runs` and its child runs.
pub(in super::super) fn send(
    source: &mut RunSource<'_>,
    runs: &[RunSummary],
    endpoint: &Endpoint,
    options: &Options,
) -> Result<()> {
    let poster = Poster::new(&endpoint.url, "application/x-protobuf", &endpoint.headers, TIMEOUT)?;
    let mut sender = Sender { poster, endpoint, total: Total::default() };
    let mut tree = Tree::new(source, runs)?;
    let is_over = options.unfinished || runs.first().is_some_and(is_over);
    let mut open = 0;
    for run in runs {
        let mut spans = tree.run_spans(run);
        sender.send_run(source, run, &mut spans, is_over, options.again)?;
        open += spans.open_spans();
        tree.finish_run(&spans, run);
    }
    source.bar.finish_and_clear();
    let Total { sent, rejected, reason } = sender.total;
    let mut out = stdout().lock();
    let trace: String = tree.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    match sent {
        0 => writeln!(out, "Nothing new to send to {endpoint}; --again sends everything again.")?,
        sent => writeln!(out, "Sent {sent} spans to {endpoint} (trace {trace}).")?,
    }
    if open > 0 {
        writeln!(
            out,
            "{open} spans are still open; they are sent after the run, or with --unfinished."
        )?;
    }
    ensure!(
        rejected == 0,
        "the endpoint refused {rejected} of these spans{}; after mending the reason, send all spans \
         again with --again",
        if reason.is_empty() {
            reason
        } else {
            format!(": {}", one_line(&reason, MAX_SHOWN_CHARS))
        }
    );
    Ok(())
}

/// Whether no more records of a run are to be expected.
fn is_over(run: &RunSummary) -> bool {
    let idle = now().unix_ms().saturating_sub(run.latest.unix_ms());
    run.ended.is_some() || u128::from(idle) > IDLE.as_millis()
}

#[derive(Default)]
struct Total {
    sent: u64,
    rejected: u64,
    reason: String,
}

struct Sender<'a> {
    poster: Poster,
    endpoint: &'a Endpoint,
    total: Total,
}

impl Sender<'_> {
    fn send_run(
        &mut self,
        source: &mut RunSource<'_>,
        run: &RunSummary,
        spans: &mut RunSpans,
        is_over: bool,
        again: bool,
    ) -> Result<()> {
        let data_dir = source.store.data_dir().clone();
        let run_id = run.run_id.as_str();
        let mut file = CursorFile::read(&data_dir, run_id, &self.endpoint.url, run.records)?;
        let (accepted, ends) = (file.cursor.records, file.cursor.ends.clone());
        let mut batch: Vec<Span> = Vec::new();
        let mut records = 0;
        let is_damaged = source.is_damaged(run);
        source.for_each_record(run, |record, labels| {
            // The run seemed to be over here. What was sent then stays as it is.
            let at_end = if ends.contains(&record.seq) { spans.finish() } else { Vec::new() };
            batch.extend(at_end.into_iter().filter(|_| again));
            let complete = spans.add(record_json(&record, &labels, is_damaged));
            batch.extend(complete.into_iter().filter(|_| again || record.seq >= accepted));
            records = record.seq.saturating_add(1);
            if batch.len() >= MAX_BATCH_SPANS {
                self.send_batch(std::mem::take(&mut batch))?;
                file.accept(records)?;
            }
            Ok(())
        })?;
        let was_over = ends.contains(&records);
        if is_over || was_over {
            batch.extend(spans.finish().into_iter().filter(|_| again || !was_over));
        }
        if !batch.is_empty() {
            self.send_batch(batch)?;
        }
        if is_over && !was_over {
            file.cursor.ends.push(records);
        }
        file.accept(records)
    }

    /// Sends spans in requests of bounded size.
    fn send_batch(&mut self, spans: Vec<Span>) -> Result<()> {
        let body = request(&spans);
        if body.len() > MAX_BATCH_BYTES && spans.len() > 1 {
            return self.send_halves(spans);
        }
        let count = u64::try_from(spans.len()).unwrap_or_default();
        let reply = self.post_while_busy(&body)?;
        if reply.status.as_u16() == 413 {
            if spans.len() > 1 {
                return self.send_halves(spans);
            }
            let name = spans.first().map_or("", |span| span.name.as_str());
            let size = body.len() / 1024;
            warn(&format!("the endpoint refused a span as too large: {name}, {size} KiB"));
            self.total.rejected += 1;
            "too large".clone_into(&mut self.total.reason);
            return Ok(());
        }
        if !reply.status.is_success() {
            bail!("{}", self.failure(&reply));
        }
        let Accepted { rejected, message } = response(&reply.body);
        let rejected = u64::try_from(rejected).unwrap_or_default().min(count);
        self.total.sent += count - rejected;
        self.total.rejected += rejected;
        if !message.is_empty() {
            if rejected == 0 {
                warn(&format!("the endpoint says: {}", one_line(&message, MAX_SHOWN_CHARS)));
            }
            self.total.reason = message;
        }
        Ok(())
    }

    fn send_halves(&mut self, mut spans: Vec<Span>) -> Result<()> {
        let rest = spans.split_off(spans.len() / 2);
        self.send_batch(spans)?;
        self.send_batch(rest)
    }

    /// Sends a request, and sends it again as long as the endpoint is busy, up to a limit.
    fn post_while_busy(&self, body: &[u8]) -> Result<Reply> {
        let begin = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let reply =
                self.poster.post(body.to_vec()).map_err(|error| self.unreachable(&error))?;
            let is_busy = matches!(reply.status.as_u16(), 429 | 502 | 503 | 504);
            let wait = reply.retry_after.unwrap_or(pause);
            if !is_busy || begin.elapsed().saturating_add(wait) > MAX_BUSY {
                return Ok(reply);
            }
            std::thread::sleep(wait);
            pause = pause.saturating_mul(2);
        }
    }

    fn unreachable(&self, error: &PostError) -> anyhow::Error {
        let endpoint = self.endpoint;
        let hint = match error {
            PostError::Connect(_) => "check the address, and that the endpoint is running",
            PostError::Timeout(_) | PostError::Broken(_) => "run the command again to go on",
        };
        anyhow::anyhow!("{endpoint}: {error}; {}{hint}", self.so_far())
    }

    /// What was accepted before a failure.
    fn so_far(&self) -> String {
        match self.total.sent {
            0 => String::new(),
            sent => format!("{sent} spans were accepted before; "),
        }
    }

    /// Says why the endpoint did not accept a request, and what to do.
    fn failure(&self, reply: &Reply) -> String {
        let text = String::from_utf8_lossy(&reply.body);
        let is_text = !text.is_empty() && !text.contains('\u{fffd}');
        let said = match one_line(text.trim(), MAX_SHOWN_CHARS) {
            said if is_text && !said.is_empty() => format!(": {said}"),
            _ => String::new(),
        };
        let hint = match reply.status.as_u16() {
            401 | 403 => {
                "check the credentials; `--header 'authorization=Bearer TOKEN'` or \
                 OTEL_EXPORTER_OTLP_HEADERS sends them"
            }
            404 | 405 => {
                "there is no OTLP endpoint at this address; name the one for HTTP, such as \
                 http://localhost:6006 for Phoenix"
            }
            415 => "the endpoint does not take OTLP over HTTP as protobuf",
            400 | 422 if text.to_ascii_lowercase().contains("x-mlflow-experiment-id") => {
                "MLflow needs the experiment: add `--header x-mlflow-experiment-id=0`"
            }
            429 | 502 | 503 | 504 => {
                "the endpoint was busy for two minutes; run the command again later to go on"
            }
            300..=399 => "use the address to which the endpoint redirects",
            500..=599 => "see the log of the endpoint, and run the command again to go on",
            _ => "check the address and the headers",
        };
        let location = reply.location.as_deref().map(|url| format!(" (to {})", one_line(url, 100)));
        let (endpoint, status) = (self.endpoint, reply.status);
        let so_far = self.so_far();
        format!("{endpoint} replied {status}{}{said}; {so_far}{hint}", location.unwrap_or_default())
    }
}
