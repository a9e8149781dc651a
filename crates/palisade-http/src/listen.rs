//! Connections: how many, how long, encrypted or not.

use std::{
    collections::HashMap,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use palisade_mcp::PalisadeServer;
use rmcp::ServerHandler;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    certificates::Certificates,
    clients::PeerCertificate,
    credential::AuthFailure,
    door::{self, Peer},
    metrics::Metrics,
    options::HttpOptions,
    sessions::Sessions,
    tokens::Tokens,
};

/// How long the head of a request may take to come, and a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(15);

/// How long encryption may take to be agreed on.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How long requests that run may go on when the server ends.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// How long the end of statements is waited for that were cancelled when the server ends.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// Bytes of a request's head.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Why a server stopped, or did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// In plain text, anybody on the way could read what is asked and answered.
    #[error(
        "`{0}` can be reached from other machines, and connections are not encrypted; name a certificate and its key, or the proxies that encrypt, or listen on `127.0.0.1`"
    )]
    PlainText(SocketAddr),
    /// The listener has no address.
    #[error("the address cannot be listened on: {0}")]
    Listener(#[from] io::Error),
}

/// Serves `server` at `listener` until `stop` is there. Requests that run then have ten seconds to end.
///
/// # Errors
/// If it would serve other machines in plain text.
pub async fn serve(
    server: PalisadeServer,
    listener: TcpListener,
    options: HttpOptions,
    stop: impl Future<Output = ()>,
) -> Result<(), HttpError> {
    serve_wrapped(server, listener, options, stop, |server| server).await
}

/// The same with a handler around the server, which has what a test suite asks for beside its own. Only the feature `conformance` has it: what
/// such a handler answers goes through no gate.
///
/// # Errors
/// As [`serve`].
#[cfg(feature = "conformance")]
#[doc(hidden)]
pub async fn serve_beside<H: ServerHandler + Clone>(
    server: PalisadeServer,
    listener: TcpListener,
    options: HttpOptions,
    stop: impl Future<Output = ()>,
    wrap: fn(PalisadeServer) -> H,
) -> Result<(), HttpError> {
    serve_wrapped(server, listener, options, stop, wrap).await
}

async fn serve_wrapped<H: ServerHandler + Clone>(
    server: PalisadeServer,
    listener: TcpListener,
    options: HttpOptions,
    stop: impl Future<Output = ()>,
    wrap: fn(PalisadeServer) -> H,
) -> Result<(), HttpError> {
    let address = listener.local_addr()?;
    let is_plain = options.certificates.is_none();
    if is_plain && !address.ip().is_loopback() && options.proxies.is_empty() {
        return Err(HttpError::PlainText(address));
    }
    let admission = Admission::new(&options);
    let certificates = options.certificates.clone();
    let (proxies, metrics) = (options.proxies.clone(), options.metrics.clone());
    // It ends with the server.
    let mut beside = JoinSet::new();
    if let Tokens::Shared(tokens) = &options.tokens {
        beside.spawn(tokens.clone().keep_fresh());
    }
    let sessions = (options.sessions).then(|| Arc::new(Sessions::new(options.metrics.clone())));
    if let Some(sessions) = &sessions {
        beside.spawn(Arc::clone(sessions).keep_swept());
    }
    let server = match options.tasks {
        true => server,
        false => server.without_tasks(),
    };
    let router = door::route(&server, options, sessions.clone(), wrap);
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Of one connection, or of all descriptors: then others have to end first.
                tracing::warn!("a connection was not taken: {error}");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let may_be_plain = peer.ip().is_loopback() || proxies.contains(&peer.ip());
        if is_plain && !may_be_plain {
            tracing::warn!(%peer, "it is no proxy that is named, and its connection is not encrypted: closed");
            continue;
        }
        let Some(place) = admission.admit(peer.ip()) else {
            tracing::warn!(%peer, "too many connections: closed");
            continue;
        };
        let router = router.clone();
        let (certificates, watcher) = (certificates.clone(), graceful.watcher());
        let counting = metrics.clone();
        let counted = metrics.clone().map(CountedConnection::new);
        tokio::spawn(async move {
            let _place = (place, counted);
            // Answers are small, and each is waited for.
            let _ = stream.set_nodelay(true);
            let of = |certificate| {
                router.layer(Extension(Peer {
                    address: peer,
                    certificate,
                }))
            };
            match certificates {
                None => answer(TokioIo::new(stream), of(None), watcher).await,
                Some(certificates) => match encrypt(stream, &certificates).await {
                    Ok(stream) => {
                        let certificate = read_certificate(&stream, &certificates);
                        answer(TokioIo::new(stream), of(certificate), watcher).await;
                    }
                    Err(Unencrypted::Certificate(error)) => {
                        tracing::info!(%peer, "a client's certificate was refused: {error}");
                        if let Some(metrics) = counting {
                            metrics.count_failure(AuthFailure::Certificate);
                        }
                    }
                    Err(Unencrypted::Other) => {}
                },
            }
        });
    }
    drop(listener);
    server.close_tasks();
    if let Some(sessions) = &sessions {
        sessions.drain();
    }
    if timeout(DRAIN_TIME, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests that still ran were ended");
    }
    if let Some(sessions) = &sessions {
        sessions.end();
    }
    // No client can ask for them any more.
    server.end_tasks();
    wait_for_statements(&server).await;
    Ok(())
}

/// Waits a little until the databases have been told of statements that were cancelled.
async fn wait_for_statements(server: &PalisadeServer) {
    let look = async {
        while server.load().running > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    // Others have no client to answer.
    let _ = timeout(CANCEL_TIME, look).await;
}

async fn encrypt(
    stream: TcpStream,
    certificates: &Certificates,
) -> Result<TlsStream<TcpStream>, Unencrypted> {
    let acceptor = TlsAcceptor::from(certificates.config());
    match timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(Unencrypted::new(&error)),
        Err(_) => Err(Unencrypted::Other),
    }
}

/// Why encryption was not agreed on.
enum Unencrypted {
    /// The client's certificate is not taken, or it has none and needs one.
    Certificate(rustls::Error),
    /// A client that does not trust the server's certificate, or a scanner of ports.
    Other,
}

impl Unencrypted {
    fn new(error: &io::Error) -> Self {
        let inner = error.get_ref();
        let error = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match error {
            Some(
                error @ (rustls::Error::InvalidCertificate(_)
                | rustls::Error::NoCertificatesPresented),
            ) => Self::Certificate(error.clone()),
            Some(_) | None => Self::Other,
        }
    }
}

/// The certificate that the client showed, where such count.
fn read_certificate(
    stream: &TlsStream<TcpStream>,
    certificates: &Certificates,
) -> Option<Arc<PeerCertificate>> {
    let authorities = certificates.clients()?;
    let (_, connection) = stream.get_ref();
    let chain = connection.peer_certificates()?;
    Some(Arc::new(PeerCertificate::new(authorities.clone(), chain)))
}

async fn answer<S>(
    stream: TokioIo<S>,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(stream, TowerToHyperService::new(router));
    // A client that goes away is no error.
    let _ = watcher.watch(connection).await;
}

/// A connection that is counted as long as this is there.
struct CountedConnection(Arc<Metrics>);

impl CountedConnection {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.count_connection();
        Self(metrics)
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.end_connection();
    }
}

/// How many connections there are, and of whom.
#[derive(Debug)]
struct Admission {
    all: Arc<Semaphore>,
    per_address: usize,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// Behind a proxy all are of one address.
    proxies: Vec<IpAddr>,
}

/// A connection's place; it is free again with this value.
struct Place {
    _permit: tokio::sync::OwnedSemaphorePermit,
    address: IpAddr,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Admission {
    fn new(options: &HttpOptions) -> Self {
        Self {
            all: Arc::new(Semaphore::new(options.connections.max(1))),
            per_address: options.connections_per_address(),
            by_address: Arc::default(),
            proxies: options.proxies.clone(),
        }
    }

    fn admit(&self, address: IpAddr) -> Option<Place> {
        let permit = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let mut counts = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_insert(0);
        if *count >= self.per_address && !self.proxies.contains(&address) {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(Place {
            _permit: permit,
            address,
            by_address: Arc::clone(&self.by_address),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}
