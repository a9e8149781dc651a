//! Traces and metrics, as a collector gets them that the test itself is.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value as Any},
    metrics::v1::metric::Data,
    trace::v1::{Span, span::SpanKind},
};
use prost::Message as _;
use serde_json::json;

use crate::{desk::Desk, serve::Client};

/// What was posted: paths and bodies.
type Posted = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Takes what is posted, and says thanks.
fn collect() -> (u16, Posted) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let posted = Posted::default();
    let kept = Arc::clone(&posted);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, kept) = (stream.unwrap(), Arc::clone(&kept));
            thread::spawn(move || take_requests(&stream, &kept));
        }
    });
    (port, posted)
}

fn take_requests(stream: &TcpStream, kept: &Posted) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap().to_owned();
        let (mut length, mut kind) = (0, String::new());
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            let Some((name, value)) = header.trim().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "content-type" => kind = value.to_owned(),
                _ => {}
            }
        }
        assert_eq!(kind, "application/x-protobuf");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        kept.lock().unwrap().push((path, body));
        let thanks =
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        let mut stream = stream;
        stream.write_all(thanks.as_bytes()).unwrap();
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|one| one.key == key)?;
    match found.value.clone()?.value? {
        Any::StringValue(text) => Some(text),
        Any::IntValue(number) => Some(number.to_string()),
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn a_collector_gets_spans_and_metrics_without_data() {
    let (port, posted) = collect();
    let desk = Desk::new();
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"demo-policies\"\nprincipal = 'Agent::\"support-bot\"'\n\
             [telemetry]\notlp = \"http://127.0.0.1:{port}\"\n\
             [grants]\nhosts = [\"127.0.0.1:{port}\"]\n\
             [connections.desk]\nurl = \"sqlite:demo.db\"\n"
        ),
    );
    let mut client = Client::new(&desk, &["--config", "palisade.toml"]);
    let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let sql = "SELECT name FROM customers WHERE name = 'Ada Brandt'";
    let call = json!({
        "name": "query",
        "arguments": {"sql": sql, "format": "json"},
        // That the client samples it not is its own matter.
        "_meta": {"traceparent": format!("00-{trace}-{parent}-00")},
    });
    let answer = client.ask("tools/call", &call);
    assert_eq!(answer["isError"], false, "{answer}");
    let rows = answer["structuredContent"]["row_count"].to_string();
    client.query("SELECT geheim FROM customers WHERE name = 'Ada Brandt'");
    client.ask("tools/call", &json!({"name": "geheim", "arguments": {}}));
    client.end();

    let posted = posted.lock().unwrap();
    let mut spans: Vec<Span> = Vec::new();
    let mut metrics = Vec::new();
    for (path, body) in posted.iter() {
        for secret in ["Ada", "geheim", "SELECT"] {
            let found = body
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{secret} in what is sent to {path}");
        }
        match path.as_str() {
            "/v1/traces" => {
                let sent = ExportTraceServiceRequest::decode(&body[..]).unwrap();
                for resource in sent.resource_spans {
                    let about = resource.resource.unwrap().attributes;
                    assert_eq!(
                        attribute(&about, "service.name").as_deref(),
                        Some("palisade")
                    );
                    let scopes = resource.scope_spans.into_iter();
                    spans.extend(scopes.flat_map(|scope| scope.spans));
                }
            }
            "/v1/metrics" => {
                let sent = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
                let resources = sent.resource_metrics.into_iter();
                let scopes = resources.flat_map(|resource| resource.scope_metrics);
                metrics.extend(scopes.flat_map(|scope| scope.metrics));
            }
            other => panic!("{other}"),
        }
    }
    let calls: Vec<&Span> = spans
        .iter()
        .filter(|span| span.kind == i32::from(SpanKind::Server))
        .collect();
    let told = |span: &Span, key: &str| attribute(&span.attributes, key);
    let names: Vec<&str> = calls.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        ["tools/call query", "tools/call query", "tools/call unknown"]
    );
    let [first, second, third] = calls[..] else {
        panic!("{names:?}")
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(hex(&first.trace_id), trace);
    assert_eq!(hex(&first.parent_span_id), parent);
    assert_eq!(told(first, "palisade.outcome").as_deref(), Some("answered"));
    assert_eq!(told(first, "palisade.connection").as_deref(), Some("desk"));
    assert_eq!(told(first, "palisade.rows"), Some(rows));
    assert_eq!(
        told(first, "palisade.principal").as_deref(),
        Some("Agent::\"support-bot\"")
    );
    let code = told(second, "error.type");
    assert_eq!(code.as_deref(), Some("name.unknown-column"));
    assert!(second.parent_span_id.is_empty() && second.trace_id != first.trace_id);
    assert_eq!(
        told(third, "error.type").as_deref(),
        Some("request.invalid")
    );
    // The stages are its children, one after the other, within its time.
    let stages: Vec<&Span> = spans
        .iter()
        .filter(|span| span.parent_span_id == first.span_id)
        .collect();
    let names: Vec<&str> = stages.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["wait", "decide", "run", "record"]);
    let mut at = first.start_time_unix_nano;
    for stage in stages {
        assert_eq!(stage.trace_id, first.trace_id);
        assert!(stage.start_time_unix_nano >= at, "{}", stage.name);
        assert!(stage.end_time_unix_nano >= stage.start_time_unix_nano);
        at = stage.end_time_unix_nano;
    }
    assert!(at <= first.end_time_unix_nano);

    let count = |name: &str| -> u64 {
        let found = metrics.iter().filter(|metric| metric.name == name);
        let points = found.filter_map(|metric| match metric.data.as_ref()? {
            Data::Histogram(histogram) => Some(&histogram.data_points),
            other => panic!("{name}: {other:?}"),
        });
        points.flatten().map(|point| point.count).sum()
    };
    assert_eq!(count("mcp.server.operation.duration"), 3);
    assert_eq!(count("palisade.answer.rows"), 1);
}

#[test]
fn a_collector_is_granted_and_may_be_away() {
    let desk = Desk::new();
    let write = |otlp: &str, grants: &str| {
        desk.write(
            "palisade.toml",
            format!(
                "policies = \"demo-policies\"\n[telemetry]\notlp = \"{otlp}\"\n[grants]\nhosts = [{grants}]\n\
                 [connections.desk]\nurl = \"sqlite:demo.db\"\n"
            ),
        );
    };
    let check = ["config", "check"];
    write("http://127.0.0.1:4318", "");
    desk.run(&check)
        .fails(3, &["palisade.toml:3:8", "hosts = [\"127.0.0.1:4318\"]"]);
    write("127.0.0.1:4318", "");
    desk.run(&check).fails(3, &["http://localhost:4318"]);
    // No collector is there: calls are answered all the same, and the log says so.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    write(
        &format!("http://127.0.0.1:{port}"),
        &format!("\"127.0.0.1:{port}\""),
    );
    let mut client = Client::new(&desk, &["--config", "palisade.toml"]);
    let answer = client.query("SELECT 1 AS n");
    assert_eq!(answer["isError"], false, "{answer}");
    let log = client.end();
    assert!(log.contains("were not sent"), "{log}");
}
