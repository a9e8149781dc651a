//! A server over two streams, until the client goes away.

use std::{pin::pin, time::Duration};

use rmcp::service::{QuitReason, ServerInitializeError, serve_server};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use crate::{
    lines::{BoundedTransport, Mark},
    server::PalisadeServer,
    streams::ProtocolStreams,
};

/// How long the protocol's crate has answers written once it is told to end. What it still waits for then is cancelled.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Why a server stopped that should not have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client's first messages are not those of an MCP client.
    #[error("the client does not speak MCP: {0}")]
    Handshake(String),
    /// The loop that reads and answers messages broke.
    #[error("the protocol loop stopped: {0}")]
    Stopped(String),
    /// Standard output cannot be taken for the protocol.
    #[error("standard output cannot be taken for the protocol: {0}")]
    Output(#[from] std::io::Error),
}

/// Runs `server` over standard input and output until the client closes its end. What else of this process prints goes to standard
/// error from here on; [`ProtocolStreams::take`] and [`serve_streams`] do the same in two steps.
///
/// It must be polled on a Tokio runtime with IO and time enabled; one of a single thread is enough.
/// Statements run on the runtime's blocking threads, or [small ones in place](PalisadeServer::with_queries_in_place).
///
/// # Errors
/// If the client does not speak MCP, or the loop breaks. A client that goes away is no error.
pub async fn serve_stdio(server: PalisadeServer) -> Result<(), ServeError> {
    serve_streams(server, ProtocolStreams::take()?).await
}

/// As [`serve_stdio`], over streams that were taken before: as early as a program can, so that nothing it starts prints into them.
///
/// # Errors
/// As [`serve_stdio`].
pub async fn serve_streams(
    server: PalisadeServer,
    streams: ProtocolStreams,
) -> Result<(), ServeError> {
    serve_streams_until(server, streams, std::future::pending()).await
}

/// As [`serve_streams`], and no longer than until `stop` is there: then it ends as if the client had gone.
///
/// # Errors
/// As [`serve_stdio`].
pub async fn serve_streams_until(
    server: PalisadeServer,
    streams: ProtocolStreams,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (read, write) = streams.open();
    serve_until(server, (read, write), stop).await
}

/// Runs `server` for the client that writes to `read` and reads from `write`, one JSON-RPC message a
/// line, until the client closes its end.
///
/// Lines are bounded by what the largest statement with its parameters takes; longer ones are answered with an error. Each
/// call of this is a client of its own, which has its share of what runs at once.
///
/// # Errors
/// As [`serve_stdio`].
///
/// What still runs some seconds after the client closed its end is cancelled on the database, and waited for a little.
pub async fn serve<R, W>(server: PalisadeServer, read: R, write: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    serve_until(server, (read, write), std::future::pending()).await
}

/// As [`serve`], for a client of whom more is known than its streams, and no longer than until `stop` is there: every request carries
/// `peer`, where a [`PrincipalSource`](crate::PrincipalSource) that asks by request finds it.
///
/// `stop` says how long requests that have come by then may still take. None that comes later is read, and what runs when the time
/// is over is cancelled on the database. Answers have two seconds in any case.
///
/// # Errors
/// As [`serve_stdio`].
pub async fn serve_peer<R, W, P>(
    server: PalisadeServer,
    streams: (R, W),
    peer: P,
    stop: impl Future<Output = Duration>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
    P: Clone + Send + Sync + 'static,
{
    let mark: Mark = Box::new(move |extensions| drop(extensions.insert(peer.clone())));
    serve_marked(server, streams, Some(mark), stop).await
}

async fn serve_until<R, W>(
    server: PalisadeServer,
    streams: (R, W),
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let stop = async {
        stop.await;
        Duration::ZERO
    };
    serve_marked(server, streams, None, stop).await
}

async fn serve_marked<R, W>(
    server: PalisadeServer,
    (read, write): (R, W),
    mark: Option<Mark>,
    stop: impl Future<Output = Duration>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let mut stop = pin!(stop);
    let server = server.through_a_door();
    let transport = BoundedTransport::new(read, write, server.bounds()).marked(mark);
    let flight = transport.flight();
    let calls = server.running();
    let tasks = server.end_of_door();
    let begun = tokio::select! {
        begun = serve_server(server, transport) => begun,
        _ = &mut stop => return Ok(()),
    };
    let running = match begun {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(handshake(&error)),
    };
    let end = running.cancellation_token();
    let mut waiting = pin!(running.waiting());
    let ended = tokio::select! {
        ended = &mut waiting => ended,
        time = stop => {
            flight.close();
            let last = timeout(time.saturating_sub(LAST_ANSWERS), flight.emptied());
            tokio::select! {
                ended = &mut waiting => ended,
                _ = last => {
                    end.cancel();
                    waiting.await
                }
            }
        }
    };
    // No client can ask for them any more.
    drop(tasks);
    // They are cancelled. Whoever ends the program now would leave them to the database.
    calls.ended().await;
    match ended {
        Ok(QuitReason::Closed | QuitReason::Cancelled) => Ok(()),
        Ok(other) => Err(ServeError::Stopped(format!("{other:?}"))),
        Err(error) => Err(ServeError::Stopped(error.to_string())),
    }
}

/// The kind of failure without the message that caused it, which can hold a statement.
fn handshake(error: &ServerInitializeError) -> ServeError {
    ServeError::Handshake(
        match error {
            ServerInitializeError::ExpectedInitializeRequest(_) => {
                "its first message is neither `initialize` nor a request with its own metadata"
            }
            ServerInitializeError::InitializeFailed(_) => "no common protocol version",
            ServerInitializeError::TransportError { .. } => "the answer could not be written",
            ServerInitializeError::Cancelled => "cancelled",
            _ => "the handshake failed",
        }
        .to_owned(),
    )
}
