//! Palisade's MCP server mounted beside the routes of an axum server. It prints its address, and serves MCP at `/mcp`. Who asks is
//! told by each request's key, so that one server tells principals apart.
//!
//! Beside `palisade serve --http` it lacks TLS, tokens that end, checks of `Host` and `Origin`, bounds and rates of requests, and metrics.
//! The routes around it have to give them, or `palisade_http::serve` on a listener of its own.
//!
//! ```sh
//! cargo run --package palisade-examples --bin mounted-in-axum
//! ```

use std::{error::Error, sync::Arc};

use axum::{
    Router,
    extract::Request,
    http::{header::AUTHORIZATION, request::Parts},
    middleware::{Next, from_fn},
    response::Response,
    routing::get,
};
use palisade::{Principal, session::Transport};
use palisade_mcp::{PalisadeServer, PrincipalSource, ServeOptions};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};

/// Keys of two agents. A server of one's own looks them up, or verifies a token.
const KEYS: [(&str, &str); 2] = [
    ("Bearer key-of-support", "support-bot"),
    ("Bearer key-of-billing", "billing-bot"),
];

/// Puts the principal of a request beside it. A request without a known key has none, and reaches no data.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let key = request.headers().get(AUTHORIZATION);
    let known = KEYS
        .iter()
        .find(|(known, _)| key.is_some_and(|key| key == known));
    if let Some((_, name)) = known {
        request
            .extensions_mut()
            .insert(Principal::new("Agent", *name));
    }
    next.run(request).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = ServeOptions::new(
        PrincipalSource::by_request(|request| {
            let parts = request.get::<Parts>()?;
            parts.extensions.get::<Principal>().cloned()
        }),
        "example",
    )
    .over(Transport::Http);
    let palisade = PalisadeServer::new(Arc::new(palisade_examples::guard()?), options);
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = false;
    config.json_response = true;
    let mcp = StreamableHttpService::new(
        move || Ok(palisade.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let router = Router::new()
        .route("/health", get(|| async { "well" }))
        .nest_service("/mcp", mcp)
        .layer(from_fn(authenticate));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
