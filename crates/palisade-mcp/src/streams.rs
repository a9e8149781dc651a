//! Standard input and output as the protocol's own: what anything else of the process prints goes to standard error.

use std::io;
#[cfg(unix)]
use std::os::fd::OwnedFd;

use tokio::io::{AsyncRead, AsyncWrite};

/// Where messages come from.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Where answers go.
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input, and standard output taken away from everything else.
///
/// A line on standard output that is no message breaks the protocol, and a dependency may print one. So descriptor 1 leads to
/// standard error from [`take`](Self::take) on. Where descriptors cannot be moved (Windows), standard output stays as it is.
#[derive(Debug)]
pub struct ProtocolStreams {
    #[cfg(unix)]
    output: OwnedFd,
}

impl ProtocolStreams {
    /// Takes standard output. Call it once, before anything could print.
    ///
    /// # Errors
    /// If the descriptor cannot be copied.
    #[cfg(unix)]
    pub fn take() -> io::Result<Self> {
        let output = io::Write::flush(&mut io::stdout())
            .and_then(|()| std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned())?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(Self { output })
    }

    /// Takes standard output. Call it once, before anything could print.
    ///
    /// # Errors
    /// None here.
    #[cfg(not(unix))]
    pub fn take() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Both, for a program that does something else with them than to [serve](crate::serve_streams). It must be called on a Tokio
    /// runtime with IO enabled.
    #[must_use]
    pub fn into_parts(
        self,
    ) -> (
        impl AsyncRead + Send + Unpin + 'static,
        impl AsyncWrite + Send + Unpin + 'static,
    ) {
        self.open()
    }

    /// Both, to be read from and written to on the runtime that calls this.
    #[cfg(unix)]
    pub(crate) fn open(self) -> (Reader, Writer) {
        let (reader, writer) = pipes(&self.output);
        (
            reader.unwrap_or_else(|| Box::new(tokio::io::stdin())),
            // Each write goes to a blocking thread.
            writer.unwrap_or_else(|| {
                Box::new(tokio::fs::File::from_std(std::fs::File::from(self.output)))
            }),
        )
    }

    /// Both, to be read from and written to on the runtime that calls this.
    #[cfg(not(unix))]
    pub(crate) fn open(self) -> (Reader, Writer) {
        let (reader, writer) = rmcp::transport::io::stdio_pipes();
        (Box::new(reader), Box::new(writer))
    }
}

/// Those of the two that are pipes, without a thread for each message. They are opened anew: whoever else holds the descriptors
/// finds them blocking as before.
#[cfg(target_os = "linux")]
fn pipes(output: &OwnedFd) -> (Option<Reader>, Option<Writer>) {
    use std::os::fd::AsRawFd as _;

    use tokio::net::unix::pipe::OpenOptions;

    let path = |descriptor: i32| format!("/proc/self/fd/{descriptor}");
    let reader = OpenOptions::new().open_receiver(path(io::stdin().as_raw_fd()));
    let writer = OpenOptions::new().open_sender(path(output.as_raw_fd()));
    (
        reader.ok().map(|reader| Box::new(reader) as Reader),
        writer.ok().map(|writer| Box::new(writer) as Writer),
    )
}

/// None, where descriptors cannot be opened anew.
#[cfg(all(unix, not(target_os = "linux")))]
fn pipes(_: &OwnedFd) -> (Option<Reader>, Option<Writer>) {
    (None, None)
}
