//! Lines as they come in, bounded before anything is made of them.
//!
//! A reader of JSON-RPC makes a tree of a whole line, which takes far more memory than its text: a number of a list a
//! hundred times its two bytes. So lines are counted as bytes first. A line can be longer than the largest statement
//! needs, or have more values than a statement has parameters. It is answered with an error and skipped, and hardly
//! any of it is kept in memory. So is a line that is no request: the protocol's crate would pass over it in silence.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use palisade::{code::Code, rejection::Rejection};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        ClientNotification, ErrorCode, Extensions, GetExtensions as _, JsonRpcMessage, RequestId,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncBufRead as _, AsyncRead, AsyncWrite, BufReader, ReadBuf},
    sync::mpsc,
};

use crate::{
    arguments::{MAX_PARAMETER_BYTES, MAX_PARAMETERS},
    flight::Flight,
    request::{self, Fault},
};

/// What JSON makes of a byte of text at most: `\u0000`.
const ESCAPED: usize = 6;
/// Bytes of a line beside the statement and its parameters: what the protocol adds.
const ENVELOPE_BYTES: usize = 64 * 1024;
/// Values of a line beside the parameters.
const ENVELOPE_VALUES: usize = 1024;
/// Bytes of a request's id that are looked at.
const MAX_ID: usize = 256;
/// What is kept of a buffer from line to line.
const KEPT: usize = 64 * 1024;

/// How large a line may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    bytes: usize,
    values: usize,
}

impl Bounds {
    /// Bytes of a message.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Room for a statement of so many bytes, its parameters, and the envelope.
    pub(crate) fn of_statements(max_query_bytes: usize) -> Self {
        Self {
            bytes: max_query_bytes
                .saturating_mul(ESCAPED)
                .saturating_add(MAX_PARAMETER_BYTES)
                .saturating_add(ENVELOPE_BYTES),
            values: MAX_PARAMETERS.saturating_add(ENVELOPE_VALUES),
        }
    }
}

/// Of what a line has too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excess {
    Bytes(usize),
    Values,
}

/// Why a line is answered with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    Excess(Excess),
    Fault(Fault),
}

impl Reason {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Excess(_) => ErrorCode::INVALID_REQUEST,
            Self::Fault(fault) => fault.code(),
        }
    }

    fn rejection(self) -> Rejection {
        match self {
            Self::Excess(excess) => excess.rejection(),
            Self::Fault(fault) => Rejection::new(Code::RequestInvalid, fault.message()),
        }
    }
}

impl Excess {
    fn rejection(self) -> Rejection {
        match self {
            Self::Bytes(most) => Rejection::new(
                Code::LimitQuerySize,
                format!(
                    "the request is longer than {most} bytes, which is more than the largest statement with its parameters takes"
                ),
            ),
            Self::Values => Rejection::new(
                Code::RequestInvalid,
                format!(
                    "the request holds more values than the {MAX_PARAMETERS} parameters that a statement may have; send several statements"
                ),
            ),
        }
    }
}

/// A request that was skipped.
#[derive(Debug)]
struct Skipped {
    id: Option<RequestId>,
    reason: Reason,
}

impl Skipped {
    fn answer(self) -> TxJsonRpcMessage<RoleServer> {
        let code = self.reason.code();
        let rejection = self.reason.rejection();
        let data = serde_json::to_value(rejection.for_agent()).ok();
        let message = rejection.message().to_owned();
        let error = ErrorData::new(code, message, data);
        TxJsonRpcMessage::<RoleServer>::error(error, self.id)
    }
}

/// The answer to a whole message that is no request, or larger than a statement needs; none to another one.
pub(crate) fn refuse(bounds: Bounds, message: &[u8]) -> Option<String> {
    let mut outline = Outline::default();
    outline.read(message);
    let reason = if message.len() > bounds.bytes {
        Reason::Excess(Excess::Bytes(bounds.bytes))
    } else if outline.commas > bounds.values {
        Reason::Excess(Excess::Values)
    } else {
        Reason::Fault(request::find_fault(message)?)
    };
    let skipped = Skipped {
        id: outline.id,
        reason,
    };
    serde_json::to_string(&skipped.answer()).ok()
}

/// What is known of a line from its bytes.
#[derive(Debug, Default)]
struct Outline {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    /// Commas between values.
    commas: usize,
    /// The key or value of the outermost object that is being read.
    token: Vec<u8>,
    is_id: bool,
    id: Option<RequestId>,
}

impl Outline {
    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.is_text {
            self.take(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.is_text = true;
                self.take(byte);
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => {
                self.end();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => {
                self.end();
                self.commas = self.commas.saturating_add(1);
            }
            b':' if self.depth == 1 => {
                self.is_id = self.token == b"\"id\"";
                self.token.clear();
            }
            b':' | b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.take(byte),
        }
    }

    fn take(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() <= MAX_ID {
            self.token.push(byte);
        }
    }

    fn end(&mut self) {
        if self.depth == 1 {
            if self.is_id && self.id.is_none() {
                self.id = serde_json::from_slice(&self.token).ok();
            }
            self.is_id = false;
            self.token.clear();
        }
    }
}

/// Gives on lines that are within bounds, each when it is whole.
struct BoundedLines<R> {
    read: BufReader<R>,
    bounds: Bounds,
    line: Vec<u8>,
    outline: Outline,
    excess: Option<Excess>,
    /// How much of a whole line was given on.
    given: Option<usize>,
    skipped: mpsc::UnboundedSender<Skipped>,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    /// Takes what there is of a line; whether there is more to come.
    fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let available = ready!(Pin::new(&mut self.read).poll_fill_buf(context))?;
        if available.is_empty() {
            return Poll::Ready(Ok(false));
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |at| at + 1);
        let part = available.get(..taken).unwrap_or(available);
        self.outline.read(part);
        if self.excess.is_none() {
            if self.line.len().saturating_add(taken) > self.bounds.bytes {
                self.excess = Some(Excess::Bytes(self.bounds.bytes));
            } else if self.outline.commas > self.bounds.values {
                self.excess = Some(Excess::Values);
            }
            match self.excess {
                Some(_) => self.line = Vec::new(),
                None => self.line.extend_from_slice(part),
            }
        }
        Pin::new(&mut self.read).consume(taken);
        if end.is_some() {
            let outline = std::mem::take(&mut self.outline);
            let fault = || request::find_fault(&self.line).map(Reason::Fault);
            match self.excess.take().map(Reason::Excess).or_else(fault) {
                None => self.given = Some(0),
                Some(reason) => {
                    self.line.clear();
                    // It is lost only where no client reads any more.
                    let id = match &reason {
                        Reason::Fault(fault) if !fault.is_of_object() => None,
                        Reason::Fault(_) | Reason::Excess(_) => outline.id,
                    };
                    let _ = self.skipped.send(Skipped { id, reason });
                }
            }
        }
        Poll::Ready(Ok(true))
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if let Some(given) = this.given {
                let rest = this.line.get(given..).unwrap_or_default();
                let part = rest.get(..to.remaining()).unwrap_or(rest);
                to.put_slice(part);
                let given = given.saturating_add(part.len());
                this.given = (given < this.line.len()).then_some(given);
                if this.given.is_none() {
                    this.line.clear();
                    this.line.shrink_to(KEPT);
                }
                return Poll::Ready(Ok(()));
            }
            // A line without an end is none.
            if !ready!(this.poll_line(context))? {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// What is known of a client, put where its requests are looked at.
pub(crate) type Mark = Box<dyn Fn(&mut Extensions) + Send>;

/// Messages over a pair of streams, a bounded line each.
pub(crate) struct BoundedTransport<R: AsyncRead + Unpin, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, BoundedLines<R>, W>,
    skipped: mpsc::UnboundedReceiver<Skipped>,
    /// An answer on its way. It is kept here, since receiving can be given up at any time.
    answering: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>>,
    mark: Option<Mark>,
    flight: Flight,
}

impl<R, W> BoundedTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) fn new(read: R, write: W, bounds: Bounds) -> Self {
        let (tell, skipped) = mpsc::unbounded_channel();
        let lines = BoundedLines {
            read: BufReader::new(read),
            bounds,
            line: Vec::new(),
            outline: Outline::default(),
            excess: None,
            given: None,
            skipped: tell,
        };
        Self {
            inner: AsyncRwTransport::new(lines, write).with_max_line_length(bounds.bytes),
            skipped,
            answering: None,
            mark: None,
            flight: Flight::default(),
        }
    }

    /// What of it has no answer yet.
    pub(crate) fn flight(&self) -> Flight {
        self.flight.clone()
    }

    /// The same, which puts what is known of the client with each request.
    pub(crate) fn marked(self, mark: Option<Mark>) -> Self {
        Self { mark, ..self }
    }
}

impl<R, W> Transport<RoleServer> for BoundedTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let (sending, flight) = (self.inner.send(message), self.flight.clone());
        async move {
            let sent = sending.await;
            if let Some(id) = answered {
                flight.end(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answering) = &mut self.answering {
                let sent = answering.await;
                self.answering = None;
                if sent.is_err() {
                    return None;
                }
            }
            tokio::select! {
                biased;
                () = self.flight.closed() => return std::future::pending().await,
                Some(skipped) = self.skipped.recv() => {
                    self.answering = Some(Box::pin(self.inner.send(skipped.answer())));
                }
                mut message = self.inner.receive() => {
                    match &mut message {
                        Some(JsonRpcMessage::Request(request)) => {
                            self.flight.begin(&request.id);
                            if let Some(mark) = &self.mark {
                                mark(request.request.extensions_mut());
                            }
                        }
                        Some(JsonRpcMessage::Notification(told)) => {
                            // It gets no answer any more.
                            if let ClientNotification::CancelledNotification(cancelled) = &told.notification
                                && let Some(id) = &cancelled.params.request_id
                            {
                                self.flight.end(id);
                            }
                        }
                        Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) | None => {}
                    }
                    return message;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// What of `text` is given on, and what is skipped.
    async fn read(text: &[u8], bytes: usize, values: usize) -> (String, Vec<Skipped>) {
        let (tell, mut skipped) = mpsc::unbounded_channel();
        let mut lines = BoundedLines {
            // Small pieces, so that a line comes in several.
            read: BufReader::with_capacity(7, text),
            bounds: Bounds { bytes, values },
            line: Vec::new(),
            outline: Outline::default(),
            excess: None,
            given: None,
            skipped: tell,
        };
        let mut given = String::new();
        lines.read_to_string(&mut given).await.unwrap();
        drop(lines);
        let mut all = Vec::new();
        while let Some(one) = skipped.recv().await {
            all.push(one);
        }
        (given, all)
    }

    #[tokio::test]
    async fn a_line_beyond_the_bounds_is_skipped_and_others_are_not() {
        let long = format!(
            "{{\"params\":{{\"id\":5,\"x\":\"{}\"}},\"id\":7}}",
            "y".repeat(200)
        );
        let many = r#"{"id":"a,b","params":[1,2,3,4,5,6,7,8,9,10,11],"m":1}"#;
        let commas = r#"{"id":1,"method":"m","params":[",,,,,,,,,,,,,\",,,,"]}"#;
        let (first, last) = (r#"{"id":1,"method":"m"}"#, r#"{"id":2,"result":{}}"#);
        let text = format!("{first}\n{long}\n{commas}\n{many}\n\n{last}\nrest");
        let (given, skipped) = read(text.as_bytes(), 100, 8).await;
        assert_eq!(given, format!("{first}\n{commas}\n\n{last}\n"));
        let skipped: Vec<_> = skipped.into_iter().map(|s| (s.id, s.reason)).collect();
        assert_eq!(
            skipped,
            [
                (
                    Some(RequestId::Number(7)),
                    Reason::Excess(Excess::Bytes(100))
                ),
                (
                    Some(RequestId::String("a,b".into())),
                    Reason::Excess(Excess::Values)
                ),
            ]
        );
    }

    #[tokio::test]
    async fn a_line_that_is_no_request_is_answered() {
        let text = "{\"id\":1,\nnonsense\n[1]\n{\"id\":3}\n\u{feff}{\"id\":4,\"method\":\"m\"}\n";
        let (given, skipped) = read(text.as_bytes(), 100, 8).await;
        assert_eq!(given, "\u{feff}{\"id\":4,\"method\":\"m\"}\n");
        let skipped: Vec<_> = skipped
            .into_iter()
            .map(|s| (s.id, s.reason.code().0))
            .collect();
        assert_eq!(
            skipped,
            [
                (None, -32700),
                (None, -32700),
                (None, -32600),
                (Some(RequestId::Number(3)), -32600),
            ]
        );
    }

    #[tokio::test]
    async fn an_id_that_is_none_is_none() {
        for line in [
            "x",
            "[1,1]",
            "{\"id\":{\"id\":1},\"id\"",
            "{\"id\":\"",
            "{\"a\":\"id\",:1}",
            "}}}{{{\"id\":1,",
        ] {
            let (given, skipped) =
                read(format!("{line}{}\n", "z".repeat(50)).as_bytes(), 40, 8).await;
            assert_eq!(given, "");
            let ids: Vec<_> = skipped.into_iter().map(|s| s.id).collect();
            assert_eq!(ids, [None], "{line}");
        }
    }
}
