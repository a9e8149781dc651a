//! Answers that go on for long: they end with the access token that asked for them.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Interval, interval};

use crate::credential::Term;

/// How often it is looked whether the token still lets somebody in.
const LOOK: Duration = Duration::from_secs(1);

/// A body that ends when its token does.
pub(crate) struct RevocableBody {
    body: Body,
    term: Term,
    look: Interval,
}

impl RevocableBody {
    /// `body`, within its `term`.
    pub(crate) fn new(body: Body, term: Term) -> Self {
        Self {
            body,
            term,
            look: interval(LOOK),
        }
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
            if self.term.is_over() {
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
