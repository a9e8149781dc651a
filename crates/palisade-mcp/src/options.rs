//! What an operator decides about a connection.

use palisade::session::Principal;

/// What the operator decides about a connection, and no client can change.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Who asks, whatever a client says of itself.
    pub principal: Principal,
    /// What the database is called. The agent reads it: no path, no address, no secret.
    pub connection: String,
    /// Whether the tool `execute` is offered, as far as policies permit changes. The guard's firewall has to allow
    /// changes and its backend has to be writable as well, or every change is refused.
    pub writable: bool,
}
