//! Answers that go on for long: they end with the access token that asked for them.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Interval, interval};

use crate::{token::Token, token_file::TokenFile};

/// How often it is looked whether the token still lets somebody in.
const LOOK: Duration = Duration::from_secs(1);

/// A body that ends when its token does.
pub(crate) struct RevocableBody {
    body: Body,
    tokens: TokenFile,
    token: Token,
    look: Interval,
}

impl RevocableBody {
    /// `body`, as long as `token` is in `tokens`.
    pub(crate) fn new(body: Body, tokens: TokenFile, token: Token) -> Self {
        Self {
            body,
            tokens,
            token,
            look: interval(LOOK),
        }
    }

    fn is_revoked(&self) -> bool {
        !matches!(self.tokens.find(&self.token), Ok(Some(_)))
    }
}

impl HttpBody for RevocableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.look.poll_tick(cx).is_ready() {
            if self.is_revoked() {
                return Poll::Ready(None);
            }
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
