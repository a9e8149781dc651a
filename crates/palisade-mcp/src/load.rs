//! How much a server has to do now.

use crate::server::PalisadeServer;

/// How much a server has to do, on all its databases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Calls that run.
    pub running: usize,
    /// Calls that wait for a place.
    pub waiting: usize,
}

impl PalisadeServer {
    /// How much it has to do now.
    #[must_use]
    pub fn load(&self) -> Load {
        let opened = self.shared.connections.opened().into_iter();
        opened.fold(Load::default(), |load, connection| {
            let (running, waiting) = connection.queue.count();
            Load {
                running: load.running.saturating_add(running),
                waiting: load.waiting.saturating_add(waiting),
            }
        })
    }
}
