//! The bytes between us and the server.
//!
//! The driver holds each message whole before it hands it on, and a message of the server's may have a gigabyte. So
//! the stream that the driver reads is looked at first. Messages are counted by the lengths they announce, and a
//! message that announces too much ends the connection before it is read.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_postgres::{
    config::Host,
    tls::{ChannelBinding, TlsConnect, TlsStream},
};
use tokio_util::either::Either;

/// Bytes of the largest message that is read.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The port of a server that does not say.
const PORT: u16 = 5432;

/// A connection below TLS: over TCP, or by a socket of the file system.
pub(crate) type Wire = Either<TcpStream, UnixStream>;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    host: Host,
    port: u16,
    /// The address, where no name is to be looked up.
    address: Option<IpAddr>,
}

impl Place {
    /// The places that a configuration names, in its order.
    pub(crate) fn all(server: &tokio_postgres::Config) -> Vec<Self> {
        let (hosts, addresses, ports) = (
            server.get_hosts(),
            server.get_hostaddrs(),
            server.get_ports(),
        );
        (0..hosts.len().max(addresses.len()))
            .filter_map(|index| {
                let address = addresses.get(index).copied();
                let host = match (hosts.get(index), address) {
                    (Some(host), _) => host.clone(),
                    (None, Some(address)) => Host::Tcp(address.to_string()),
                    (None, None) => return None,
                };
                let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
                Some(Self {
                    host,
                    port,
                    address,
                })
            })
            .collect()
    }

    /// The name that a certificate must have.
    pub(crate) fn name(&self) -> &str {
        match &self.host {
            Host::Tcp(name) => name,
            // No certificate has a file's name.
            Host::Unix(_) => "",
        }
    }

    /// Connects.
    pub(crate) async fn open(&self) -> io::Result<Wire> {
        let stream = match (&self.host, self.address) {
            (Host::Unix(folder), None) => {
                let socket = folder.join(format!(".s.PGSQL.{}", self.port));
                return Ok(Either::Right(UnixStream::connect(socket).await?));
            }
            (Host::Tcp(_) | Host::Unix(_), Some(address)) => {
                TcpStream::connect((address, self.port)).await?
            }
            (Host::Tcp(name), None) => TcpStream::connect((name.as_str(), self.port)).await?,
        };
        stream.set_nodelay(true)?;
        Ok(Either::Left(stream))
    }
}

/// Whether a connection was ended for the size of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Excess(Arc<AtomicBool>);

impl Excess {
    pub(crate) fn happened(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream of the server's messages, none larger than [`MAX_MESSAGE_BYTES`].
pub(crate) struct Limited<S> {
    inner: S,
    messages: Messages,
    excess: Excess,
}

impl<S> Limited<S> {
    pub(crate) fn new(inner: S, excess: Excess) -> Self {
        Self {
            inner,
            messages: Messages::default(),
            excess,
        }
    }
}

/// Follows messages: a byte for the kind, four for the length, which counts itself, and the rest
/// (<https://www.postgresql.org/docs/current/protocol-message-formats.html>).
#[derive(Default)]
struct Messages {
    /// Bytes of the header that have come.
    header: usize,
    length: u32,
    /// Bytes of the rest that have not come.
    missing: usize,
}

impl Messages {
    /// Takes note of what came; false if a message announces too much.
    fn note(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.missing.min(bytes.len());
            self.missing -= skipped;
            let Some((byte, rest)) = bytes.get(skipped..).and_then(<[u8]>::split_first) else {
                return true;
            };
            bytes = rest;
            // The first byte is pushed out by the four that follow.
            self.length = (self.length << 8) | u32::from(*byte);
            self.header += 1;
            if self.header == 5 {
                self.header = 0;
                let length = usize::try_from(self.length).unwrap_or(usize::MAX);
                if length > MAX_MESSAGE_BYTES {
                    return false;
                }
                self.missing = length.saturating_sub(4);
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        let new = buffer.filled().get(before..).unwrap_or_default();
        if this.messages.note(new) {
            Poll::Ready(Ok(()))
        } else {
            this.excess.0.store(true, Ordering::Relaxed);
            Poll::Ready(Err(io::Error::other("a message is too large")))
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

impl<S: TlsStream + Unpin> TlsStream for Limited<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.inner.channel_binding()
    }
}

/// Makes TLS connections [`Limited`].
pub(crate) struct LimitedConnect<T> {
    inner: T,
    excess: Excess,
}

impl<T> LimitedConnect<T> {
    pub(crate) fn new(inner: T, excess: Excess) -> Self {
        Self { inner, excess }
    }
}

impl<T> TlsConnect<Wire> for LimitedConnect<T>
where
    T: TlsConnect<Wire>,
    T::Future: Send + 'static,
{
    type Stream = Limited<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, stream: Wire) -> Self::Future {
        let connecting = self.inner.connect(stream);
        let excess = self.excess;
        Box::pin(async move { Ok(Limited::new(connecting.await?, excess)) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// What is written arrives, and so does the end.
    #[tokio::test]
    async fn an_end_is_passed_on() {
        let (own, mut server) = duplex(64);
        let mut limited = Limited::new(own, Excess::default());
        limited.write_all(b"X").await.unwrap();
        limited.flush().await.unwrap();
        limited.shutdown().await.unwrap();
        let mut read = Vec::new();
        let all = server.read_to_end(&mut read);
        let late = std::time::Duration::from_secs(10);
        tokio::time::timeout(late, all).await.unwrap().unwrap();
        assert_eq!(read, b"X");
    }

    #[test]
    fn messages_are_followed_however_they_are_cut() {
        let mut stream = Vec::new();
        for (kind, size) in [(b'R', 0_u32), (b'D', 3), (b'D', 70_000), (b'Z', 1)] {
            stream.push(kind);
            stream.extend((size + 4).to_be_bytes());
            stream.extend(vec![0xff; usize::try_from(size).unwrap_or(0)]);
        }
        let too_large = [b"D".as_slice(), &0x0400_0001_u32.to_be_bytes()].concat();
        for size in [1, 2, 3, 5, 7, 4096, 1_000_000] {
            let mut messages = Messages::default();
            assert!(
                stream.chunks(size).all(|chunk| messages.note(chunk)),
                "{size}"
            );
            assert_eq!((messages.header, messages.missing), (0, 0), "{size}");
            assert!(
                !too_large.chunks(size).all(|chunk| messages.note(chunk)),
                "{size}"
            );
        }
    }
}
