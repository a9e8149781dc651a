//! The protocol over HTTP: what is answered request by request, and what within a session.

use std::{borrow::Cow, io, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, Method, StatusCode, header},
    response::Response,
};
use palisade_mcp::PalisadeServer;
use rmcp::{
    ServerHandler,
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde::Deserialize;

use crate::{
    door::{refuse, refuse_for_now},
    options::HttpOptions,
    sessions::{ASKING, Arrival, Asking, Found, NoRoom, Sessions},
};

/// By what a client says of which session its request is.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Of which revision a request is.
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

const UNKNOWN: &str =
    "there is no such session; begin another one with `initialize`, without `Mcp-Session-Id`";

const NARROWED: &str = "the session was begun with other headers `Palisade-…`, or at the other path; send the same with each of its requests, or begin another one with `initialize`";

const TOO_MANY: &str =
    "this token has as many sessions as it can have, and reads all of them; end one with `DELETE`";

const FULL: &str = "the server has as many sessions as it can have; come again in a minute";

const ENDING: &str = "the server ends; come again";

/// How long a client waits before it asks for a session again.
const WAIT: Duration = Duration::from_secs(60);

/// Whether a message begins a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Initialize,
    Other,
}

impl Kind {
    /// What the body of a request is. What is no message is for the protocol's crate to judge.
    pub(crate) fn read(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Message<'a> {
            #[serde(borrow)]
            method: Cow<'a, str>,
        }
        match serde_json::from_slice::<Message<'_>>(body) {
            Ok(message) if message.method == "initialize" => Self::Initialize,
            Ok(_) | Err(_) => Self::Other,
        }
    }
}

/// What answers the protocol's requests. Every one brings its own token and its own narrowing.
pub(crate) struct Protocol<H> {
    server: PalisadeServer,
    /// Nothing of one request is left for another.
    apart: StreamableHttpService<H, NeverSessionManager>,
    /// Requests of one client belong together.
    joined: Option<(Arc<Sessions>, StreamableHttpService<H, Sessions>)>,
}

impl<H> Clone for Protocol<H> {
    fn clone(&self) -> Self {
        Self {
            server: self.server.clone(),
            apart: self.apart.clone(),
            joined: self.joined.clone(),
        }
    }
}

impl<H: ServerHandler> Protocol<H> {
    pub(crate) fn new(
        server: PalisadeServer,
        options: &HttpOptions,
        sessions: Option<Arc<Sessions>>,
        wrap: fn(PalisadeServer) -> H,
    ) -> Self {
        let mut config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(server.max_message_bytes())
            .with_allowed_origins(options.origins.clone())
            .enforce_origin_validation();
        config.allowed_hosts.extend(options.hosts.iter().cloned());
        // Without a request there is no server.
        let left = move || {
            let left = ASKING.try_with(|asking| wrap(asking.server.clone()));
            left.map_err(io::Error::other)
        };
        let joined = sessions.map(|sessions| {
            let mut config = config.clone().with_legacy_session_mode(true);
            // A stream says itself how a client comes again.
            config.sse_retry = None;
            let begun = move || {
                let begun = ASKING.try_with(|asking| {
                    let is_heard = Arc::clone(&asking.is_heard);
                    wrap(asking.server.for_session(is_heard))
                });
                begun.map_err(io::Error::other)
            };
            let service = StreamableHttpService::new(begun, Arc::clone(&sessions), config);
            (sessions, service)
        });
        Self {
            server,
            apart: StreamableHttpService::new(left, Arc::default(), config),
            joined,
        }
    }

    /// Answers by what the request leaves of the server.
    pub(crate) async fn answer(self, mut request: Request) -> Response {
        if is_same_origin(&request) {
            request.headers_mut().remove(header::ORIGIN);
        }
        let extensions = request.extensions_mut();
        let (Some(arrival), Some(kind)) =
            (extensions.remove::<Arrival>(), extensions.remove::<Kind>())
        else {
            // It did not come through the door.
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal");
        };
        let narrowing = &arrival.binding.narrowing;
        let server = match narrowing.is_empty() {
            true => self.server,
            false => self.server.narrow(narrowing),
        };
        let server = server.for_caller(arrival.caller());
        let joined = (self.joined).filter(|_| is_of_session(&request, kind));
        if let Some((sessions, _)) = &joined
            && let Err(response) = admit(sessions, (request.headers(), kind), &arrival)
        {
            return *response;
        }
        let is_end = *request.method() == Method::DELETE && joined.is_some();
        let asking = Asking {
            arrival,
            server,
            is_heard: Arc::default(),
        };
        let answered = match joined {
            Some((_, service)) => ASKING.scope(asking, service.handle(request)).await,
            None => ASKING.scope(asking, self.apart.handle(request)).await,
        };
        let mut answered = answered.map(Body::new);
        if is_end && answered.status() == StatusCode::ACCEPTED {
            // It has ended, and clients of Python look for that.
            *answered.status_mut() = StatusCode::NO_CONTENT;
        }
        answered
    }
}

/// Whether a request is of a session, or begins one. A client of an older revision that names none is answered request by request.
fn is_of_session(request: &Request, kind: Kind) -> bool {
    let headers = request.headers();
    if *request.method() != Method::POST {
        return headers.contains_key(SESSION);
    }
    let version = headers.get(VERSION).map(|version| version.as_bytes());
    let newest_with_sessions = ProtocolVersion::LATEST_WITH_INITIALIZE.as_str().as_bytes();
    let is_older = version.is_none_or(|version| version <= newest_with_sessions);
    is_older && (headers.contains_key(SESSION) || kind == Kind::Initialize)
}

/// Lets a request on to the session that it means or begins.
fn admit(
    sessions: &Sessions,
    (headers, kind): (&HeaderMap, Kind),
    arrival: &Arrival,
) -> Result<(), Box<Response>> {
    let mut ids = headers.get_all(SESSION).iter();
    let refused = match (ids.next(), ids.next()) {
        // That there is none is for the protocol's crate to say.
        (None, _) if kind == Kind::Other => return Ok(()),
        (None, _) => match sessions.find_room(&arrival.binding) {
            Ok(()) => return Ok(()),
            Err(NoRoom::Account) => refuse_for_now(StatusCode::TOO_MANY_REQUESTS, TOO_MANY, WAIT),
            Err(NoRoom::Server) => refuse_for_now(StatusCode::SERVICE_UNAVAILABLE, FULL, WAIT),
            Err(NoRoom::Ending) => {
                let soon = Duration::from_secs(1);
                refuse_for_now(StatusCode::SERVICE_UNAVAILABLE, ENDING, soon)
            }
        },
        (Some(id), None) => {
            let found = id.to_str().map(|id| sessions.find(id, &arrival.binding));
            match found {
                Ok(Found::Own) => return Ok(()),
                Ok(Found::Narrowed) => refuse(StatusCode::BAD_REQUEST, NARROWED),
                Ok(Found::Unknown) | Err(_) => refuse(StatusCode::NOT_FOUND, UNKNOWN),
            }
        }
        (Some(_), Some(_)) => refuse(
            StatusCode::BAD_REQUEST,
            "`Mcp-Session-Id` is there twice; write it once",
        ),
    };
    Err(Box::new(refused))
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
