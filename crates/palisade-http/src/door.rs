//! What stands before the server: who asks, how often, and whether the request is one.

use std::{
    io,
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
use palisade_mcp::{Narrowing, PalisadeServer};
use rmcp::{
    ServerHandler,
    model::Extensions,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    clients::PeerCertificate,
    credential::{Admitted, Credentials},
    metrics::Metrics,
    narrowing::{self, READ_ONLY_PATH},
    oauth::{OauthOptions, Verifier, describe_resource, metadata_paths},
    options::HttpOptions,
    rates::Rates,
    revocation::RevocableBody,
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
    wrap: fn(PalisadeServer) -> H,
) -> Router {
    let protocol = Protocol::new(server.clone(), &options, wrap);
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

tokio::task_local! {
    /// What a request leaves of the server, while it is answered.
    static LEFT: PalisadeServer;
}

/// The protocol without sessions: every request brings its own token and its own narrowing, and nothing of one is left for another.
#[derive(Clone)]
struct Protocol<H> {
    server: PalisadeServer,
    service: StreamableHttpService<H, NeverSessionManager>,
}

impl<H: ServerHandler> Protocol<H> {
    fn new(server: PalisadeServer, options: &HttpOptions, wrap: fn(PalisadeServer) -> H) -> Self {
        let mut config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(server.max_message_bytes())
            .with_allowed_origins(options.origins.clone())
            .enforce_origin_validation();
        config.allowed_hosts.extend(options.hosts.iter().cloned());
        // Without a request there is no server.
        let left = move || {
            let left = LEFT.try_with(Clone::clone).map_err(io::Error::other);
            left.map(wrap)
        };
        Self {
            server,
            service: StreamableHttpService::new(left, Arc::default(), config),
        }
    }

    /// Answers by what the request leaves of the server.
    async fn answer(self, mut request: Request) -> Response {
        if is_same_origin(&request) {
            request.headers_mut().remove(header::ORIGIN);
        }
        let Some(narrowing) = request.extensions().get::<Narrowing>() else {
            // It did not come through the door.
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal");
        };
        let server = match narrowing.is_empty() {
            true => self.server,
            false => self.server.narrow(narrowing),
        };
        let answer = LEFT.scope(server, self.service.handle(request));
        answer.await.map(Body::new)
    }
}

/// Whether the page that asks is of the address that it asks. Whether that address is this server's is looked at afterwards, as of every
/// request: a name that was made to point here is not listed.
fn is_same_origin(request: &Request) -> bool {
    let headers = request.headers();
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else {
        return false;
    };
    let Some((scheme, page)) = origin.to_str().ok().and_then(|o| o.split_once("://")) else {
        return false;
    };
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.or_else(|| {
        request
            .uri()
            .authority()
            .map(|authority| authority.as_str())
    });
    matches!(scheme, "http" | "https") && host.is_some_and(|host| host.eq_ignore_ascii_case(page))
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
    if asked.is_read_only {
        asker = asker.read_only();
    }
    parts.extensions.insert(asker);
    parts.extensions.insert(asked.narrowing);
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
    let mut response = next.run(Request::from_parts(parts, Body::from(body))).await;
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
    let mut response = refuse(
        StatusCode::TOO_MANY_REQUESTS,
        "too many requests with this token; wait, and ask for more at once",
    );
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
