//! The runtime and the time of this machine.

use palisade::{host::Host as _, session::Session};
use palisade_host::Machine;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::{STACK, exit::Failure};

/// What drives connections and waits, on the thread that asks.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
        .map_err(|error| Failure::Internal(format!("cannot start: {error}")))
}

/// Where connections are opened: on the runtime of the calling thread, or of another thread.
#[derive(Clone, Copy)]
pub(crate) enum Driver<'r> {
    /// The calling thread's.
    Own(&'r Runtime),
    /// Another's.
    Other(&'r Handle),
}

impl Driver<'_> {
    /// Waits for `work`.
    pub(crate) fn block_on<F: Future>(self, work: F) -> F::Output {
        match self {
            Self::Own(runtime) => runtime.block_on(work),
            Self::Other(handle) => handle.block_on(work),
        }
    }

    /// Begins `work`, which goes on by itself.
    pub(crate) fn spawn(self, work: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Own(runtime) => drop(runtime.spawn(work)),
            Self::Other(handle) => drop(handle.spawn(work)),
        }
    }
}

/// `session` as a gate on this machine would ask for it, for a decision without one.
pub(crate) fn now(session: &Session) -> Session {
    session.clone().at(Machine::new().unix_time())
}
