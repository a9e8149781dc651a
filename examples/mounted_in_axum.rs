//! Palisade's MCP server mounted beside the routes of an axum server. It prints its address, and serves MCP at `/mcp`.
//!
//! ```sh
//! cargo run --package palisade-examples --bin mounted-in-axum
//! ```

use std::{error::Error, sync::Arc};

use axum::{Router, routing::get};
use palisade::session::Principal;
use palisade_mcp::{PalisadeServer, ServeOptions};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = ServeOptions {
        principal: Principal::new("Agent", "support-bot"),
        connection: "example".to_owned(),
        writable: false,
    };
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
        .nest_service("/mcp", mcp);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
