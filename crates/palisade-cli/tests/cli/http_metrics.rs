//! Figures for Prometheus, read over a real socket and beside the audit log.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::TcpStream,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    desk::Desk,
    http::{BOT, PATIENCE, Request, Response, Server, desk, exchange, make_token},
};

/// What occurs in statements, names and values, and must not occur in figures.
const CANARY: &str = "kanarienvogel";

/// The address at which a server tells its figures.
fn address(server: &Server) -> String {
    let began = Instant::now();
    loop {
        let log = server.log.lock().unwrap().clone();
        if let Some((_, rest)) = log.split_once("Prometheus are at http://") {
            return rest.split_once("/metrics").unwrap().0.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "{log}");
        sleep(Duration::from_millis(20));
    }
}

fn get(address: &str, target: &str) -> Response {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    exchange(stream, &Request::get(target).write(address))
}

/// Samples by name and labels, as they are written.
#[derive(Debug)]
struct Page(BTreeMap<String, f64>);

impl Page {
    /// Reads the text format 0.0.4, and nothing that is not in it.
    fn read(text: &str) -> Self {
        let mut samples = BTreeMap::new();
        let mut kinds: BTreeMap<String, String> = BTreeMap::new();
        let mut family = String::new();
        let mut helped = BTreeSet::new();
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
                name.clone_into(&mut family);
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, family, "{line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none());
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let is_name = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(name.starts_with("palisade_") && is_name(name), "{line}");
            let of_histogram = kinds[&family] == "histogram"
                && ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|end| format!("{family}{end}") == name);
            assert!(name == family || of_histogram, "{line}");
            if let Some((_, labels)) = series.split_once('{') {
                let labels = labels.strip_suffix('}').unwrap();
                for label in labels.split(',') {
                    let (label, text) = label.split_once('=').unwrap();
                    assert!(is_name(label), "{line}");
                    let text = text.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
                    let is_sign = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
                    assert!(!text.is_empty() && text.chars().all(is_sign), "{line}");
                }
            }
            let value: f64 = value.parse().unwrap();
            assert!(value >= 0.0 && value.is_finite(), "{line}");
            assert!(samples.insert(series.to_owned(), value).is_none(), "{line}");
        }
        Self(samples)
    }

    fn get(&self, series: &str) -> f64 {
        let value = self.0.get(series);
        *value.unwrap_or_else(|| panic!("no {series} in {:#?}", self.0))
    }

    fn sum(&self, start: &str, part: &str) -> f64 {
        let samples = self.0.iter();
        let found =
            samples.filter(|(series, _)| series.starts_with(start) && series.contains(part));
        found.map(|(_, value)| value).sum()
    }
}

fn serve_with_figures() -> (Desk, Server, String) {
    let desk = desk("[http.metrics]\naddress = \"127.0.0.1:0\"");
    let server = Server::start(&desk);
    let address = address(&server);
    (desk, server, address)
}

#[test]
fn figures_agree_with_the_audit_log_and_tell_nothing_else() {
    let (desk, server, address) = serve_with_figures();
    let answer = get(&address, "/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer
            .head
            .to_ascii_lowercase()
            .contains("content-type: text/plain; version=0.0.4"),
        "{answer:?}"
    );
    let empty = Page::read(&answer.body);
    assert_eq!(empty.get("palisade_rows_total"), 0.0);
    let token = make_token(&desk, CANARY, BOT, &[]);
    let other = make_token(&desk, "other", &format!("Agent::\"{CANARY}\""), &[]);
    let answered = server.query(&token, "SELECT id, name FROM customers ORDER BY id LIMIT 2");
    assert_eq!(
        answered["structuredContent"]["rows"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    server.query(
        &token,
        &format!("SELECT id FROM customers WHERE name = '{CANARY}'"),
    );
    server.call(&token, "list_tables", &json!({}));
    for (token, sql) in [
        (&token, format!("SELECT {CANARY} FROM customers")),
        (&token, format!("SELECT id FROM {CANARY}")),
        (&token, "SELECT id FROM customers WHERE".to_owned()),
        (&other, "SELECT id FROM customers".to_owned()),
    ] {
        let refused = server.query(token, &sql);
        assert_eq!(refused["isError"], true, "{sql}: {refused}");
    }
    let made_up = Request::call(CANARY, &json!({})).bearer(&token);
    assert!(server.send(&made_up).json()["error"].is_object());
    let call = Request::call("query", &json!({"sql": "SELECT 1"}));
    assert_eq!(server.send(&call).status, 401);
    assert_eq!(server.send(&call.clone().bearer(CANARY)).status, 401);
    let unknown = format!("palisade_{}", "0".repeat(64));
    for _ in 0..2 {
        assert_eq!(server.send(&call.clone().bearer(&unknown)).status, 401);
    }
    let basic = call.clone().header("Authorization", "Basic eDp5");
    assert_eq!(server.send(&basic).status, 401);
    let odd = call.bearer(&token).header("Palisade-X", CANARY);
    assert_eq!(server.send(&odd).status, 400);

    let text = get(&address, "/metrics").body;
    let page = Page::read(&text);
    // Each call has a record, and is counted as it was recorded.
    let records = desk.records("audit.jsonl");
    let calls = "palisade_calls_total{";
    for (decision, outcomes) in [
        ("allow", &["\"ok\""][..]),
        (
            "reject",
            &[
                "\"refused\"",
                "\"failed\"",
                "\"timed_out\"",
                "\"cancelled\"",
            ],
        ),
    ] {
        let recorded = records
            .iter()
            .filter(|record| record["decision"] == decision);
        let counted: f64 = outcomes
            .iter()
            .map(|outcome| page.sum(calls, outcome))
            .sum();
        assert_eq!(
            counted,
            f64::from(u32::try_from(recorded.count()).unwrap()),
            "{decision}: {text}"
        );
    }
    let codes: BTreeSet<&str> = records
        .iter()
        .filter_map(|one| one["code"].as_str())
        .collect();
    assert!(codes.len() > 2, "{codes:?}");
    for code in codes {
        let recorded = records
            .iter()
            .filter(|record| record["code"] == code)
            .count();
        let counted = page.get(&format!("palisade_refusals_total{{code=\"{code}\"}}"));
        assert_eq!(
            counted,
            f64::from(u32::try_from(recorded).unwrap()),
            "{code}"
        );
    }
    let rows: u64 = records
        .iter()
        .filter_map(|record| record["rows"].as_u64())
        .sum();
    assert_eq!(
        page.get("palisade_rows_total"),
        f64::from(u32::try_from(rows).unwrap())
    );
    assert_eq!(
        page.get("palisade_cells_total"),
        4.0,
        "two rows of two columns"
    );
    assert_eq!(
        page.get("palisade_calls_total{tool=\"query\",outcome=\"ok\"}"),
        2.0
    );
    assert_eq!(
        page.get("palisade_calls_total{tool=\"query\",outcome=\"refused\"}"),
        4.0
    );
    assert_eq!(
        page.get("palisade_calls_total{tool=\"unknown\",outcome=\"refused\"}"),
        1.0
    );
    let recorded = f64::from(u32::try_from(records.len()).unwrap());
    assert_eq!(page.get("palisade_audit_records_total"), recorded);
    assert_eq!(page.get("palisade_audit_failures_total"), 0.0);
    // A histogram grows from bound to bound, to all of them.
    let count = page.get("palisade_call_duration_seconds_count{tool=\"query\"}");
    assert_eq!(count, 6.0);
    let bucket = |le: &str| {
        page.get(&format!(
            "palisade_call_duration_seconds_bucket{{tool=\"query\",le=\"{le}\"}}"
        ))
    };
    assert_eq!(bucket("+Inf"), count);
    let bounds = ["0.001", "0.01", "0.1", "1", "30", "+Inf"].map(bucket);
    assert!(bounds.is_sorted(), "{bounds:?}");
    for (kind, count) in [
        ("missing", 1.0),
        ("unknown", 3.0),
        ("malformed", 1.0),
        ("invalid", 0.0),
    ] {
        let series = format!("palisade_authentication_failures_total{{kind=\"{kind}\"}}");
        assert_eq!(page.get(&series), count, "{kind}");
    }
    assert_eq!(
        page.get("palisade_http_responses_total{status=\"401\"}"),
        5.0
    );
    assert_eq!(
        page.get("palisade_http_responses_total{status=\"400\"}"),
        1.0
    );
    assert_eq!(page.get("palisade_statements_running"), 0.0);
    assert_eq!(page.sum("palisade_build_info{version=", ""), 1.0);
    // Nothing of what was asked, by whom and of what.
    for secret in [
        CANARY,
        "support-bot",
        "customers",
        "demo",
        "other",
        &token[9..],
        "SELECT",
    ] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[test]
fn figures_have_an_address_of_their_own() {
    let (desk, server, address) = serve_with_figures();
    let token = make_token(&desk, "one", BOT, &[]);
    for (target, status) in [
        ("/metrics", 200),
        ("/mcp", 404),
        ("/", 404),
        ("/healthz", 404),
    ] {
        assert_eq!(get(&address, target).status, status, "{target}");
    }
    let there = Request::get("/metrics");
    assert_eq!(server.send(&there).status, 401);
    assert_eq!(server.send(&there.bearer(&token)).status, 404);
    // Without the section there is no such address.
    let quiet = crate::http::desk("");
    let silent = Server::start(&quiet);
    assert!(!silent.log.lock().unwrap().contains("Prometheus"));
    for (address, exit, why) in [
        ("localhost", 3, "is no address with a port"),
        ("127.0.0.1", 3, "is no address with a port"),
        (address.as_str(), 3, "cannot be listened on"),
    ] {
        let wrong = crate::http::desk(&format!("[http.metrics]\naddress = \"{address}\""));
        wrong
            .run(&[
                "serve",
                "--config",
                "palisade.toml",
                "--http",
                "127.0.0.1:0",
            ])
            .fails(exit, &[why]);
    }
}
