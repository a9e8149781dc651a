//! The page of figures, at an address of its own.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use palisade_mcp::PalisadeServer;
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::metrics::Metrics;

/// The format of the page.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How long the head of a request may take to come, and a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(15);

/// How long a connection lasts: whoever reads figures comes again.
const CONNECTION_TIME: Duration = Duration::from_secs(300);

/// Connections at a time.
const CONNECTIONS: usize = 16;

/// Bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Serves the figures of `metrics` and `server` at `/metrics`, until `stop` is there. Whoever reaches the listener can read them.
pub async fn serve_metrics(
    metrics: Arc<Metrics>,
    server: PalisadeServer,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) {
    let page = move || answer(Arc::clone(&metrics), server.clone());
    let router = Router::new().route("/metrics", get(page));
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return,
        };
        let Ok((stream, _)) = accepted else {
            // Of one connection, or of all descriptors: then others have to end first.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            let _place = place;
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(MAX_HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            // A reader that goes away is no error.
            let _ = timeout(CONNECTION_TIME, connection).await;
        });
    }
}

async fn answer(metrics: Arc<Metrics>, server: PalisadeServer) -> Response {
    // Some figures are read from files.
    match spawn_blocking(move || metrics.write_page(&server)).await {
        Ok(page) => ([(header::CONTENT_TYPE, FORMAT)], page).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal\n").into_response(),
    }
}
