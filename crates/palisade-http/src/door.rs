//! What stands before the server: who asks, how often, and whether the request is one.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{any, get},
};
use http_body_util::BodyExt as _;
use palisade_mcp::PalisadeServer;
use rmcp::{ServerHandler, model::Extensions};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    clients::PeerCertificate,
    credential::{Admitted, Credentials},
    metrics::Metrics,
    narrowing::{self, READ_ONLY_PATH},
    oauth::{OauthOptions, Verifier, describe_resource, metadata_paths},
    options::HttpOptions,
    protocol::{Kind, Protocol},
    rates::Rates,
    revocation::RevocableBody,
    sessions::{Arrival, Binding, Sessions},
};

/// How long the body of a request may take to come.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Bytes of a body that are read only so that its client sees the refusal.
const MAX_DISCARDED_BYTES: usize = 16 * 1024 * 1024;

/// What names that are not offered are answered, hidden or not there.
const NOT_OFFERED: &str = "`palisade-databases` or `palisade-tools` names something that is not offered here; leave that name out, or ask `tools/list` and `list_databases` without the header";

/// What the middleware knows.
struct Door {
    credentials: Credentials,
    metrics: Option<Arc<Metrics>>,
    rates: Rates,
    /// Knows which messages are none.
    server: PalisadeServer,
}

/// The routes of `server`; the protocol's requests are answered by what `wrap` makes of it.
pub(crate) fn route<H: ServerHandler + Clone>(
    server: &PalisadeServer,
    options: HttpOptions,
    sessions: Option<Arc<Sessions>>,
    wrap: fn(PalisadeServer) -> H,
) -> Router {
    let protocol = Protocol::new(server.clone(), &options, sessions, wrap);
    let door = Arc::new(Door {
        rates: Rates::new(options.requests_per_minute),
        metrics: options.metrics.clone(),
        server: server.clone(),
        credentials: Credentials {
            tokens: options.tokens,
            verifier: options.oauth.map(Verifier::new),
            has_clients: (options.certificates.as_ref())
                .is_some_and(|certificates| certificates.clients().is_some()),
        },
    });
    let metadata = (door.credentials.verifier.as_ref())
        .map(|verifier| route_metadata(verifier.options()))
        .unwrap_or_default();
    let answer = any(move |request: Request| protocol.clone().answer(request));
    let protocol = Router::new()
        .route(READ_ONLY_PATH, answer.clone())
        .route("/mcp", answer)
        .layer(from_fn_with_state(Arc::clone(&door), admit));
    let ready = server.clone();
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(move || answer_ready(ready.clone())))
        .merge(metadata)
        .merge(protocol)
        .layer(from_fn_with_state(door, count))
}

/// Where a client without a token learns where to get one.
fn route_metadata(options: &OauthOptions) -> Router {
    let mut router = Router::new();
    for (path, end) in metadata_paths(options) {
        let text = describe_resource(options, end).to_string();
        let answer = move || async move { ([(header::CONTENT_TYPE, "application/json")], text) };
        router = router.route(&path, get(answer));
    }
    router
}

/// Whether every database that is open answers.
async fn answer_ready(server: PalisadeServer) -> (StatusCode, &'static str) {
    match server.is_ready().await {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

/// Counts how a request is answered.
async fn count(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if let Some(metrics) = &door.metrics {
        metrics.count_response(response.status().as_u16());
    }
    response
}

/// Lets a request through that brings a token and nothing that is not known.
async fn admit(
    State(door): State<Arc<Door>>,
    Extension(Peer {
        address: peer,
        certificate,
    }): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    if parts.uri.query().is_some() {
        return refuse(
            StatusCode::BAD_REQUEST,
            "the address has a query; nothing is configured by the address, so leave it out",
        );
    }
    // RFC 9112, section 3.2: which of two is meant is read one way here, and another way by what stands before.
    if parts.headers.get_all(header::HOST).iter().count() > 1 {
        return refuse(
            StatusCode::BAD_REQUEST,
            "`Host` is there twice; write it once",
        );
    }
    let asked = match narrowing::read(&parts.headers, parts.uri.path()) {
        Ok(asked) => asked,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let admitted =
        door.credentials
            .authenticate(&parts.headers, certificate.as_ref(), parts.uri.path());
    let Admitted {
        mut asker,
        account,
        term,
    } = match admitted.await {
        Ok(admitted) => admitted,
        Err((failure, response)) => {
            tracing::info!(%peer, kind = failure.word(), "a request was refused: its credential does not let in");
            if let Some(metrics) = &door.metrics {
                metrics.count_failure(failure);
            }
            return *response;
        }
    };
    if let Err(wait) = door.rates.take(&account, Instant::now()) {
        return slow_down(wait);
    }
    // The token stays here: whatever comes after knows a name.
    parts.headers.remove(header::AUTHORIZATION);
    if !asked.narrowing.is_empty() {
        // Templates are tools too, once their database is open.
        door.server.settle().await;
        // By what the principal could have, so that one header does not make another one wrong.
        parts.extensions.insert(asker.clone());
        let mut whole = Extensions::new();
        whole.insert(parts.clone());
        if !door.server.offers(&whole, &asked.narrowing) {
            return refuse(StatusCode::BAD_REQUEST, NOT_OFFERED);
        }
    }
    let binding = Binding {
        account,
        asker: asker.clone(),
        is_certified: certificate.is_some(),
        is_read_only: asked.is_read_only,
        narrowing: asked.narrowing,
    };
    if asked.is_read_only {
        asker = asker.read_only();
    }
    parts.extensions.insert(asker);
    let most = door.server.max_message_bytes();
    let body = match timeout(BODY_TIME, read_body(body, most)).await {
        Ok(Some(body)) => body,
        Ok(None) => {
            return refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the body is too large or broken off; send a shorter statement",
            );
        }
        Err(_) => {
            return refuse(
                StatusCode::REQUEST_TIMEOUT,
                "the body took too long to come",
            );
        }
    };
    if parts.method == Method::POST
        && let Some(error) = door.server.refuse_message(&body)
    {
        let json = [(header::CONTENT_TYPE, "application/json")];
        return (StatusCode::BAD_REQUEST, json, error).into_response();
    }
    parts.extensions.insert(Kind::read(&body));
    let mut request = Request::from_parts(parts, Body::from(body));
    let arrival = Arrival {
        binding,
        term: term.clone(),
    };
    request.extensions_mut().insert(arrival);
    let mut response = next.run(request).await;
    let content = response.headers().get(header::CONTENT_TYPE);
    if content.is_some_and(|content| content.as_bytes().starts_with(b"text/event-stream")) {
        response = response.map(|body| Body::new(RevocableBody::new(body, term)));
    }
    // Answers are of one principal.
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The body, if it has at most `most` bytes and is whole.
///
/// What is too large is read on and thrown away, up to [`MAX_DISCARDED_BYTES`]: a connection that is closed
/// with bytes unread is reset, and its client would not see the answer that says why.
async fn read_body(mut body: Body, most: usize) -> Option<Vec<u8>> {
    let (mut read, mut total) = (Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else {
            continue;
        };
        total = total.saturating_add(data.len());
        if total <= most {
            read.extend_from_slice(&data);
        } else if total <= most.saturating_add(MAX_DISCARDED_BYTES) {
            read = Vec::new();
        } else {
            return None;
        }
    }
    (total <= most).then_some(read)
}

/// Whose connection it is.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// What the client showed and has the key of. No header says anything of it.
    pub(crate) certificate: Option<Arc<PeerCertificate>>,
}

fn slow_down(wait: Duration) -> Response {
    let text = "too many requests with this token; wait, and ask for more at once";
    refuse_for_now(StatusCode::TOO_MANY_REQUESTS, text, wait)
}

/// Refuses what can be asked again after a while.
pub(crate) fn refuse_for_now(status: StatusCode, text: &str, wait: Duration) -> Response {
    let mut response = refuse(status, text);
    let seconds = wait.as_secs().saturating_add(1);
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

pub(crate) fn refuse(status: StatusCode, text: &str) -> Response {
    let body = json!({"error": text}).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
