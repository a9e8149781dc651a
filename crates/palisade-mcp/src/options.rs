//! What an operator decides about a connection.

use std::{fmt, sync::Arc};

use palisade::session::{Principal, Transport};
use rmcp::model::Extensions;

/// What the operator decides about a connection, and no client can change.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Who asks, whatever a client says of itself.
    pub principal: PrincipalSource,
    /// How statements come, for policies and records: `Stdio`, or `Http` where the router is mounted in an HTTP server.
    pub transport: Transport,
    /// What the database is called. The agent reads it: no path, no address, no secret.
    pub connection: String,
    /// Whether the tool `execute` is offered, as far as policies permit changes. The guard's firewall has to allow
    /// changes and its backend has to be writable as well, or every change is refused.
    pub writable: bool,
}

/// Who asks, by a request.
type ByRequest = dyn Fn(&Extensions) -> Option<Principal> + Send + Sync;

/// Who asks: one principal, or one for each request.
#[derive(Clone)]
pub enum PrincipalSource {
    /// The same at every request.
    Fixed(Principal),
    /// By what the transport knows of a request, such as the parts of an HTTP request that a middleware has looked at. A request
    /// without a principal reaches nothing.
    ByRequest(Arc<ByRequest>),
}

impl PrincipalSource {
    /// Asks `who` at each request.
    ///
    /// ```
    /// use palisade::session::{Principal, Transport};
    /// use palisade_mcp::PrincipalSource;
    /// // A middleware of the embedder's put it there.
    /// let source = PrincipalSource::by_request(|request| request.get::<Principal>().cloned());
    /// ```
    pub fn by_request(
        who: impl Fn(&Extensions) -> Option<Principal> + Send + Sync + 'static,
    ) -> Self {
        Self::ByRequest(Arc::new(who))
    }

    /// Who asks in a request.
    pub(crate) fn principal(&self, request: &Extensions) -> Option<Principal> {
        match self {
            Self::Fixed(principal) => Some(principal.clone()),
            Self::ByRequest(who) => who(request),
        }
    }
}

impl From<Principal> for PrincipalSource {
    fn from(principal: Principal) -> Self {
        Self::Fixed(principal)
    }
}

impl fmt::Debug for PrincipalSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(principal) => f.debug_tuple("Fixed").field(principal).finish(),
            Self::ByRequest(_) => f.debug_tuple("ByRequest").finish_non_exhaustive(),
        }
    }
}
