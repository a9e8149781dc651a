//! Traces and metrics of calls, sent to a collector by OTLP over HTTP.
//!
//! Spans are made of [`ObservedCall`] alone, and not of what `tracing` is told: the protocol's crate tells it whole requests. So no
//! statement, literal or value can be an attribute.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Context, KeyValue, SpanId, TraceFlags, TraceId,
    metrics::{Histogram, MeterProvider as _},
    trace::{
        Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, TraceState,
        Tracer as _, TracerProvider as _,
    },
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{Sampler, SdkTracer, SdkTracerProvider},
};
use palisade_mcp::{CallObserver, CallOutcome, ObservedCall};

use crate::exit::Failure;

/// How long a collector may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often metrics are sent.
const INTERVAL: Duration = Duration::from_secs(30);

/// Bounds of the histogram of durations, in seconds.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];

/// Sends what it observes to one collector.
pub(crate) struct Exporter {
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
    tracer: SdkTracer,
    durations: Histogram<f64>,
    rows: Histogram<u64>,
}

impl Exporter {
    /// To the collector at `endpoint`, `http://localhost:4318`.
    pub(crate) fn new(endpoint: &str) -> Result<Self, Failure> {
        let base = endpoint.trim_end_matches('/');
        let unusable = |error: &dyn fmt::Display| {
            Failure::Configuration(format!(
                "error: nothing can be sent to the collector `{endpoint}`: {error}\n  help: write its address, as in `otlp = \"http://localhost:4318\"`"
            ))
        };
        let spans = SpanExporter::builder()
            .with_http()
            .with_http_client(Client::new())
            .with_endpoint(format!("{base}/v1/traces"))
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| unusable(&error))?;
        let metrics = MetricExporter::builder()
            .with_http()
            .with_http_client(Client::new())
            .with_endpoint(format!("{base}/v1/metrics"))
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| unusable(&error))?;
        let resource = Resource::builder()
            .with_service_name("palisade")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let tracers = SdkTracerProvider::builder()
            // What a client says of its trace decides nothing.
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(resource.clone())
            .with_batch_exporter(spans)
            .build();
        let reader = PeriodicReader::builder(metrics)
            .with_interval(INTERVAL)
            .build();
        let meters = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_reader(reader)
            .build();
        let meter = meters.meter("palisade");
        Ok(Self {
            tracer: tracers.tracer("palisade"),
            durations: meter
                .f64_histogram("mcp.server.operation.duration")
                .with_unit("s")
                .with_boundaries(SECONDS.to_vec())
                .build(),
            rows: meter
                .u64_histogram("palisade.answer.rows")
                .with_unit("{row}")
                .build(),
            tracers,
            meters,
        })
    }

    /// Sends what is left. It blocks, though not for ever.
    pub(crate) fn finish(&self) {
        for ended in [self.tracers.shutdown(), self.meters.shutdown()] {
            if let Err(error) = ended {
                tracing::warn!("some traces or metrics were not sent: {error}");
            }
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl CallObserver for Exporter {
    fn observe(&self, call: &ObservedCall) {
        let tool = call.tool.unwrap_or("unknown");
        let measured = describe(call, tool);
        self.durations
            .record(call.duration.as_secs_f64(), &measured);
        if call.outcome == CallOutcome::Answered {
            self.rows.record(call.rows, &measured);
        }
        let at = |offset: Duration| call.started + offset;
        let span = |name: String, kind: SpanKind, start: SystemTime| {
            SpanBuilder::from_name(name)
                .with_kind(kind)
                .with_start_time(start)
        };
        let mut attributes = measured;
        let rows = i64::try_from(call.rows).unwrap_or(i64::MAX);
        attributes.push(KeyValue::new("palisade.rows", rows));
        let named = [
            ("palisade.principal", &call.principal),
            ("mcp.session.id", &call.session),
        ];
        attributes.extend(
            named
                .into_iter()
                .filter_map(|(key, value)| Some(KeyValue::new(key, value.clone()?))),
        );
        let parent = call.traceparent.as_deref().and_then(read_parent);
        let context = match parent {
            Some(parent) => Context::new().with_remote_span_context(parent),
            None => Context::new(),
        };
        let builder = span(format!("tools/call {tool}"), SpanKind::Server, call.started)
            .with_attributes(attributes);
        let mut server = self.tracer.build_with_context(builder, &context);
        if let CallOutcome::Refused(code) = call.outcome {
            server.set_status(Status::error(code.slug()));
        }
        let context = context.with_span(server);
        for stage in &call.stages {
            let builder = span(stage.name.to_owned(), SpanKind::Internal, at(stage.start));
            let mut child = self.tracer.build_with_context(builder, &context);
            child.end_with_timestamp(at(stage.start + stage.time));
        }
        context.span().end_with_timestamp(at(call.duration));
    }
}

/// What spans and metrics of a call say alike.
fn describe(call: &ObservedCall, tool: &'static str) -> Vec<KeyValue> {
    let mut out = vec![
        KeyValue::new("mcp.method.name", "tools/call"),
        KeyValue::new("gen_ai.tool.name", tool),
        KeyValue::new("palisade.outcome", call.outcome.word()),
    ];
    if let Some(connection) = &call.connection {
        out.push(KeyValue::new("palisade.connection", connection.clone()));
    }
    if let CallOutcome::Refused(code) = call.outcome {
        out.push(KeyValue::new("error.type", code.slug()));
    }
    out
}

/// The span that a client says the call is part of: `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
fn read_parent(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let is_one = version.len() == 2 && trace.len() == 32 && span.len() == 16;
    let context = is_one.then(|| {
        Some(SpanContext::new(
            TraceId::from_hex(trace).ok()?,
            SpanId::from_hex(span).ok()?,
            TraceFlags::SAMPLED,
            true,
            TraceState::NONE,
        ))
    });
    context.flatten().filter(SpanContext::is_valid)
}

/// Speaks HTTP from the exporters' own threads, which may block.
#[derive(Debug)]
struct Client(ureq::Agent);

impl Client {
    fn new() -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(PATIENCE))
            .build();
        Self(config.into())
    }
}

impl HttpClient for Client {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let sent = self.0.run(Request::from_parts(parts, &body[..]))?;
            let (parts, mut body) = sent.into_parts();
            let body = body.read_to_vec()?;
            Ok(Response::from_parts(parts, Bytes::from(body)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_as_it_is_written() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let parent =
            read_parent(good).map(|parent| (parent.trace_id().to_string(), parent.is_sampled()));
        let trace = "0af7651916cd43dd8448eb211c80319c".to_owned();
        assert_eq!(parent, Some((trace, true)));
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c8031'c-b7ad6b7169203331-01",
        ] {
            assert_eq!(read_parent(bad), None, "{bad}");
        }
    }
}
