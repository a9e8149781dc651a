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

/// How much a connection has to do, as an operator is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLoad {
    /// Its name.
    pub name: String,
    /// The engine and its version, as far as they are known.
    pub engine: Option<String>,
    /// The same of it alone; none if its database was not reached yet.
    pub load: Option<Load>,
}

impl PalisadeServer {
    /// How much each connection has to do now, by name.
    #[must_use]
    pub fn list_loads(&self) -> Vec<ConnectionLoad> {
        let opened = self.shared.connections.opened();
        let mut loads: Vec<_> = (self.shared.connections.names().into_iter())
            .map(|name| {
                let open = opened.iter().find(|connection| connection.name == name);
                ConnectionLoad {
                    name: name.to_owned(),
                    engine: open.and_then(|connection| connection.engine()),
                    load: open.map(|connection| {
                        let (running, waiting) = connection.queue.count();
                        Load { running, waiting }
                    }),
                }
            })
            .collect();
        loads.sort_by(|one, other| one.name.cmp(&other.name));
        loads
    }

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
