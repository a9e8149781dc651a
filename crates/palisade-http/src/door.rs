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
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::get,
};
use http_body_util::BodyExt as _;
use palisade::session::Principal;
use palisade_mcp::{Asker, PalisadeServer};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    options::HttpOptions, rates::Rates, revocation::RevocableBody, token::Token,
    token_file::TokenEntry,
};

/// How long the body of a request may take to come.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Bytes of a body that are read only so that its client sees the refusal.
const MAX_DISCARDED_BYTES: usize = 16 * 1024 * 1024;

/// Where nothing may be changed, whatever policies permit.
const READ_ONLY: &str = "/mcp/readonly";

/// What our own headers begin with.
const OWN_HEADERS: &str = "palisade-";

/// What the middleware knows.
struct Door {
    options: HttpOptions,
    rates: Rates,
    /// Knows which messages are none.
    server: PalisadeServer,
}

/// The routes of `server`.
pub(crate) fn route(server: &PalisadeServer, options: HttpOptions) -> Router {
    let service = service(server.clone(), &options);
    let door = Arc::new(Door {
        rates: Rates::new(options.requests_per_minute),
        server: server.clone(),
        options,
    });
    let protocol = Router::new()
        .route_service(READ_ONLY, service.clone())
        .route_service("/mcp", service)
        .layer(from_fn_with_state(door, admit));
    let ready = server.clone();
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(move || answer_ready(ready.clone())))
        .merge(protocol)
}

/// Whether every database that is open answers.
async fn answer_ready(server: PalisadeServer) -> (StatusCode, &'static str) {
    match server.is_ready().await {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

/// The protocol without sessions: every request brings its own token, and nothing of one is left for another.
fn service(
    server: PalisadeServer,
    options: &HttpOptions,
) -> StreamableHttpService<PalisadeServer, NeverSessionManager> {
    let mut config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(server.max_message_bytes())
        .with_allowed_origins(options.origins.clone())
        .enforce_origin_validation();
    config.allowed_hosts.extend(options.hosts.iter().cloned());
    StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    )
}

/// Lets a request through that brings a token and nothing that is not known.
async fn admit(
    State(door): State<Arc<Door>>,
    Extension(Peer(peer)): Extension<Peer>,
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
    if let Some(unknown) = parts.headers.keys().find(|name| is_own(name)) {
        let text =
            format!("there is no header `{unknown}`; what may only be read is at `{READ_ONLY}`");
        return refuse(StatusCode::BAD_REQUEST, &text);
    }
    let (token, entry) = match authenticate(&door, &parts.headers) {
        Ok(known) => known,
        Err(response) => {
            tracing::info!(%peer, "a request without a known token was refused");
            return response;
        }
    };
    if let Err(wait) = door.rates.take(&entry.name, Instant::now()) {
        return slow_down(wait);
    }
    let Ok(principal) = Principal::parse(&entry.principal) else {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal");
    };
    // The token stays here: whatever comes after knows a name.
    parts.headers.remove(header::AUTHORIZATION);
    let mut asker = Asker::new(principal).with_client(entry.name.as_str());
    if parts.uri.path() == READ_ONLY {
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
    let mut response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let content = response.headers().get(header::CONTENT_TYPE);
    if content.is_some_and(|content| content.as_bytes().starts_with(b"text/event-stream")) {
        let tokens = door.options.tokens.clone();
        response = response.map(|body| Body::new(RevocableBody::new(body, tokens, token)));
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

fn is_own(name: &HeaderName) -> bool {
    name.as_str().starts_with(OWN_HEADERS)
}

/// The token and its entry, or the answer for who has none.
#[expect(clippy::result_large_err, reason = "it is the answer")]
fn authenticate(door: &Door, headers: &HeaderMap) -> Result<(Token, TokenEntry), Response> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(challenge(None));
    };
    let token = value.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| Token::read(token.trim()))?
    });
    let Some(token) = token else {
        return Err(challenge(Some("the token is not one of this server's")));
    };
    match door.options.tokens.find(&token) {
        Ok(Some(entry)) => Ok((token, entry)),
        Ok(None) => Err(challenge(Some("the token is not known, or has ended"))),
        Err(error) => {
            tracing::error!("every request is refused: {error}");
            Err(refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server cannot tell who asks; its operator's log says why",
            ))
        }
    }
}

/// 401, as RFC 6750 has it.
fn challenge(invalid: Option<&str>) -> Response {
    let (value, text) = match invalid {
        None => (
            "Bearer realm=\"palisade\"".to_owned(),
            "a token is needed: `Authorization: Bearer palisade_…`; the operator makes one with `palisade token create`",
        ),
        Some(why) => (
            format!(
                "Bearer realm=\"palisade\", error=\"invalid_token\", error_description=\"{why}\""
            ),
            why,
        ),
    };
    let mut response = refuse(StatusCode::UNAUTHORIZED, text);
    if let Ok(value) = HeaderValue::from_str(&value) {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, value);
    }
    response
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

fn refuse(status: StatusCode, text: &str) -> Response {
    let body = json!({"error": text}).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
