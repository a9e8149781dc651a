//! Sessions of the protocol's older revisions: what joins the requests of one client, so that the server can ask it and tell it.
//!
//! The protocol's crate reads and answers requests, and asks [`Sessions`] for the rest of it. Its own sessions stand still when one of a
//! client's streams is not read, and keep no bounds of ours. So a [`Session`] has buffers that never make anybody wait.

mod binding;
mod events;
mod manager;
mod outbox;
mod session;
mod stream;
mod transport;

pub(crate) use binding::Binding;
pub(crate) use manager::{ASKING, Arrival, Asking, Found, NoRoom, Sessions};
