//! What the server counts, in the text format of Prometheus. There are no names, addresses or paths
//! in it, so nobody learns who looked at what.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;

/// The upper bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 9] = [0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0];

/// What kind of request was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    Api,
    Asset,
    Events,
    Health,
    Other,
    Page,
    Report,
    Search,
    SignIn,
    SignOut,
}

impl Route {
    pub(super) fn of(path: &str) -> Self {
        let in_project = path.strip_prefix("/p/").and_then(|rest| rest.split_once('/'));
        let Some((_, inner)) = in_project else {
            return match path {
                "/" => Self::Page,
                "/healthz" | "/readyz" => Self::Health,
                "/sign-in" => Self::SignIn,
                "/sign-out" => Self::SignOut,
                _ if path.starts_with("/assets/") => Self::Asset,
                _ => Self::Other,
            };
        };
        match inner.split('/').next() {
            Some("api") if inner == "api/events" => Self::Events,
            Some("api") if inner == "api/search" => Self::Search,
            Some("api") if inner.ends_with("/report") || inner.ends_with("/report.html") => {
                Self::Report
            }
            Some("api") => Self::Api,
            Some("assets") => Self::Asset,
            Some("" | "run" | "compare") => Self::Page,
            _ => Self::Other,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Asset => "asset",
            Self::Events => "events",
            Self::Health => "health",
            Self::Other => "other",
            Self::Page => "page",
            Self::Report => "report",
            Self::Search => "search",
            Self::SignIn => "sign_in",
            Self::SignOut => "sign_out",
        }
    }
}

#[derive(Default)]
pub(super) struct Metrics {
    requests: Mutex<Requests>,
    pub(super) open_event_streams: AtomicI64,
    pub(super) sign_ins: AtomicU64,
    pub(super) sign_in_failures: AtomicU64,
}

#[derive(Default)]
struct Requests {
    by_status: BTreeMap<(Route, u16), u64>,
    durations: BTreeMap<Route, Durations>,
}

/// Time until the response began.
#[derive(Default)]
struct Durations {
    buckets: [u64; BUCKETS.len()],
    sum: f64,
    count: u64,
}

impl Metrics {
    pub(super) fn add_request(&self, route: Route, status: StatusCode, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.by_status.entry((route, status.as_u16())).or_default() += 1;
        let durations = requests.durations.entry(route).or_default();
        let seconds = took.as_secs_f64();
        durations.sum += seconds;
        durations.count += 1;
        for (bucket, bound) in durations.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    /// All metrics as text.
    pub(super) fn text(&self, is_ready: bool) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, is_ready);
        text
    }

    fn write(&self, out: &mut String, is_ready: bool) -> std::fmt::Result {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "midcourse_serve_requests_total";
        describe(out, name, "counter", "Requests by kind of route and status.")?;
        for ((route, status), count) in &requests.by_status {
            writeln!(out, "{name}{{route=\"{}\",status=\"{status}\"}} {count}", route.name())?;
        }
        let name = "midcourse_serve_request_duration_seconds";
        describe(out, name, "histogram", "Time until the response began.")?;
        for (route, Durations { buckets, sum, count }) in &requests.durations {
            let route = route.name();
            for (bucket, bound) in buckets.iter().zip(BUCKETS) {
                writeln!(out, "{name}_bucket{{route=\"{route}\",le=\"{bound}\"}} {bucket}")?;
            }
            writeln!(out, "{name}_bucket{{route=\"{route}\",le=\"+Inf\"}} {count}")?;
            writeln!(out, "{name}_sum{{route=\"{route}\"}} {sum}")?;
            writeln!(out, "{name}_count{{route=\"{route}\"}} {count}")?;
        }
        drop(requests);
        let name = "midcourse_serve_open_event_streams";
        describe(out, name, "gauge", "Streams of live changes that are open.")?;
        writeln!(out, "{name} {}", self.open_event_streams.load(Ordering::Relaxed))?;
        let name = "midcourse_serve_sign_ins_total";
        describe(out, name, "counter", "Sign-ins with a valid token.")?;
        writeln!(out, "{name} {}", self.sign_ins.load(Ordering::Relaxed))?;
        let name = "midcourse_serve_sign_in_failures_total";
        describe(out, name, "counter", "Attempts to sign in with a wrong or expired token.")?;
        writeln!(out, "{name} {}", self.sign_in_failures.load(Ordering::Relaxed))?;
        let name = "midcourse_serve_ready";
        describe(out, name, "gauge", "1 if the store can be read, otherwise 0.")?;
        writeln!(out, "{name} {}", u8::from(is_ready))
    }
}

fn describe(out: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind() {
        for (path, route) in [
            ("/p/a/api/runs", Route::Api),
            ("/p/a/api/events", Route::Events),
            ("/p/a/api/search", Route::Search),
            ("/p/a/api/runs/r/report", Route::Report),
            ("/p/a/api/runs/r/report.html", Route::Report),
            ("/p/a/run/r/3", Route::Page),
            ("/p/a/", Route::Page),
            ("/", Route::Page),
            ("/assets/app.js", Route::Asset),
            ("/sign-in", Route::SignIn),
            ("/sign-out", Route::SignOut),
            ("/readyz", Route::Health),
            ("/p/a", Route::Other),
            ("/wp-login.php", Route::Other),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let metrics = Metrics::default();
        metrics.add_request(Route::Api, StatusCode::OK, Duration::from_millis(20));
        metrics.add_request(Route::Api, StatusCode::OK, Duration::from_secs(60));
        let text = metrics.text(true);
        for line in [
            "# TYPE midcourse_serve_requests_total counter",
            "midcourse_serve_requests_total{route=\"api\",status=\"200\"} 2",
            "midcourse_serve_request_duration_seconds_bucket{route=\"api\",le=\"0.01\"} 0",
            "midcourse_serve_request_duration_seconds_bucket{route=\"api\",le=\"0.025\"} 1",
            "midcourse_serve_request_duration_seconds_bucket{route=\"api\",le=\"1\"} 1",
            "midcourse_serve_request_duration_seconds_bucket{route=\"api\",le=\"+Inf\"} 2",
            "midcourse_serve_request_duration_seconds_sum{route=\"api\"} 60.02",
            "midcourse_serve_request_duration_seconds_count{route=\"api\"} 2",
            "midcourse_serve_open_event_streams 0",
            "midcourse_serve_ready 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
