//! The runtime and the time of this machine.

use palisade::{host::Host as _, session::Session};
use palisade_host::Machine;
use tokio::runtime::{Builder, Runtime};

use crate::{STACK, exit::Failure};

/// What drives connections and waits, on the thread that asks.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
        .map_err(|error| Failure::Internal(format!("cannot start: {error}")))
}

/// `session` as a gate on this machine would ask for it, for a decision without one.
pub(crate) fn now(session: &Session) -> Session {
    session.clone().at(Machine::new().unix_time())
}
