//! Figures of the server for Prometheus: counts by words that are known beforehand, and nothing of what was asked.

mod serve;
mod text;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use palisade::code::{Code, Fault};
use palisade_mcp::{CallObserver, CallOutcome, ObservedCall, PalisadeServer};

pub use serve::serve_metrics;

use crate::{credential::AuthFailure, metrics::text::Page};

/// Upper bounds of the histogram of durations, in seconds.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];

/// What stands for a tool that there is not: what a client makes up is no label.
const UNKNOWN_TOOL: &str = "unknown";

/// What becomes of a call.
const OUTCOMES: [&str; 5] = ["ok", "refused", "failed", "cancelled", "timed_out"];

/// Counts of a server since it started. It is an observer of the server's calls.
pub struct Metrics {
    started: SystemTime,
    counters: Mutex<Counters>,
    sources: Vec<MetricSource>,
}

/// A figure that is asked for when somebody reads the page.
pub struct MetricSource {
    /// The name without `palisade_`, of lower-case letters and `_`. That of a count that only grows ends with `_total`.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// The figure; none where it is not known now. It may block.
    pub read: Box<dyn Fn() -> Option<u64> + Send + Sync>,
}

#[derive(Debug, Default)]
struct Counters {
    /// By tool and outcome.
    calls: BTreeMap<(&'static str, &'static str), u64>,
    /// By code.
    refusals: BTreeMap<&'static str, u64>,
    /// By tool.
    durations: BTreeMap<&'static str, Histogram>,
    rows: u64,
    cells: u64,
    failures: BTreeMap<&'static str, u64>,
    /// Answers over HTTP by status.
    responses: BTreeMap<u16, u64>,
    connections: u64,
    sessions: u64,
}

#[derive(Debug, Default)]
struct Histogram {
    /// How many were within each bound, and in none of those before.
    within: [u64; SECONDS.len()],
    count: u64,
    sum: Duration,
}

impl Metrics {
    /// Nothing counted yet. `sources` are told beside what is counted.
    #[must_use]
    pub fn new(sources: Vec<MetricSource>) -> Self {
        Self {
            started: SystemTime::now(),
            counters: Mutex::default(),
            sources,
        }
    }

    /// The page, in the text format 0.0.4, with what runs at `server` now. It may block.
    #[must_use]
    pub fn write_page(&self, server: &PalisadeServer) -> String {
        let mut page = Page::default();
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        page.begin("build_info", "gauge", "The version of the server.");
        page.sample("build_info", &version, 1);
        let since = self.started.duration_since(UNIX_EPOCH);
        let since = since.map_or(0, |since| since.as_secs());
        let help = "When the server started, in seconds since 1970-01-01 UTC.";
        page.one("start_time_seconds", "gauge", help, since);
        let load = server.load();
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let help = "Calls that have a place and run now.";
        page.one("statements_running", "gauge", help, count(load.running));
        let help = "Calls that wait for a place now.";
        page.one("statements_waiting", "gauge", help, count(load.waiting));
        self.counters().write(&mut page);
        for MetricSource { name, help, read } in &self.sources {
            let kind = match name.ends_with("_total") {
                true => "counter",
                false => "gauge",
            };
            if let Some(value) = read() {
                page.one(name, kind, help, value);
            }
        }
        page.finish()
    }

    /// Counts a request whose credential did not let it in.
    pub(crate) fn count_failure(&self, failure: AuthFailure) {
        let mut counters = self.counters();
        *counters.failures.entry(failure.word()).or_default() += 1;
    }

    /// Counts an answer.
    pub(crate) fn count_response(&self, status: u16) {
        *self.counters().responses.entry(status).or_default() += 1;
    }

    /// Counts a connection that begins.
    pub(crate) fn count_connection(&self) {
        self.counters().connections += 1;
    }

    /// Counts one no more that ends.
    pub(crate) fn end_connection(&self) {
        let mut counters = self.counters();
        counters.connections = counters.connections.saturating_sub(1);
    }

    /// That there are so many sessions now.
    pub(crate) fn set_sessions(&self, sessions: usize) {
        self.counters().sessions = u64::try_from(sessions).unwrap_or(u64::MAX);
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        // Counts are whole at any time.
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl CallObserver for Metrics {
    fn observe(&self, call: &ObservedCall) {
        let tool = call.tool.unwrap_or(UNKNOWN_TOOL);
        let (outcome, code) = describe(call.outcome);
        let mut counters = self.counters();
        *counters.calls.entry((tool, outcome)).or_default() += 1;
        if let Some(code) = code {
            *counters.refusals.entry(code.slug()).or_default() += 1;
        }
        if call.outcome == CallOutcome::Answered {
            counters.rows = counters.rows.saturating_add(call.rows);
            counters.cells = counters.cells.saturating_add(call.cells);
        }
        counters
            .durations
            .entry(tool)
            .or_default()
            .add(call.duration);
    }
}

/// What a call became in a word of [`OUTCOMES`], and the code of its refusal.
fn describe(outcome: CallOutcome) -> (&'static str, Option<Code>) {
    match outcome {
        CallOutcome::Answered => ("ok", None),
        // Its person has not approved yet.
        CallOutcome::Asked => ("refused", Some(Code::ApprovalRequired)),
        CallOutcome::Cancelled => ("cancelled", None),
        CallOutcome::Refused(code) => (word_of(code), Some(code)),
    }
}

fn word_of(code: Code) -> &'static str {
    if code == Code::LimitTime {
        return "timed_out";
    }
    if code == Code::LimitCancelled {
        return "cancelled";
    }
    match code.fault() {
        Fault::Statement => "refused",
        Fault::Database if code == Code::LimitBusy => "refused",
        Fault::Database | Fault::Configuration | Fault::Internal => "failed",
    }
}

impl Counters {
    fn write(&self, page: &mut Page) {
        let Self {
            calls,
            refusals,
            durations,
            rows,
            cells,
            failures,
            responses,
            connections,
            sessions,
        } = self;
        let name = "calls_total";
        page.begin(
            name,
            "counter",
            "Calls that have ended, by tool and outcome.",
        );
        for tool in durations.keys() {
            for outcome in OUTCOMES {
                let count = calls.get(&(*tool, outcome)).copied().unwrap_or_default();
                page.sample(name, &[("tool", tool), ("outcome", outcome)], count);
            }
        }
        let name = "refusals_total";
        page.begin(name, "counter", "Calls that were not answered, by code.");
        for (code, count) in refusals {
            page.sample(name, &[("code", code)], *count);
        }
        let name = "call_duration_seconds";
        page.begin(name, "histogram", "Seconds until calls ended, by tool.");
        for (tool, histogram) in durations {
            histogram.write(page, name, tool);
        }
        page.one("rows_total", "counter", "Rows of answers.", *rows);
        page.one("cells_total", "counter", "Cells of answers.", *cells);
        let name = "authentication_failures_total";
        let help = "Requests over HTTP whose credential did not let them in, by kind.";
        page.begin(name, "counter", help);
        for kind in AuthFailure::ALL.map(AuthFailure::word) {
            let count = failures.get(kind).copied().unwrap_or_default();
            page.sample(name, &[("kind", kind)], count);
        }
        let name = "http_responses_total";
        page.begin(name, "counter", "Answers over HTTP, by status.");
        for (status, count) in responses {
            page.sample(name, &[("status", &status.to_string())], *count);
        }
        let help = "Connections over HTTP that are open now.";
        page.one("http_connections", "gauge", help, *connections);
        let help = "Sessions of the protocol over HTTP that there are now.";
        page.one("http_sessions", "gauge", help, *sessions);
    }
}

impl Histogram {
    fn add(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let mut bounds = self.within.iter_mut().zip(SECONDS);
        if let Some((count, _)) = bounds.find(|(_, bound)| seconds <= *bound) {
            *count += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    fn write(&self, page: &mut Page, name: &str, tool: &str) {
        let bucket = format!("{name}_bucket");
        let mut sum = 0;
        for (bound, count) in SECONDS.iter().zip(self.within) {
            sum += count;
            page.sample(&bucket, &[("tool", tool), ("le", &bound.to_string())], sum);
        }
        page.sample(&bucket, &[("tool", tool), ("le", "+Inf")], self.count);
        let total = self.sum.as_secs_f64();
        page.sample(&format!("{name}_sum"), &[("tool", tool)], total);
        page.sample(&format!("{name}_count"), &[("tool", tool)], self.count);
    }
}
