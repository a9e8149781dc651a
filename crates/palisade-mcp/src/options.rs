//! What an operator decides about a connection.

use std::{fmt, sync::Arc};

use palisade::{
    answer::{Form, Room},
    session::{Identity, Principal, Session, Transport},
};
use rmcp::model::Extensions;

/// What the operator decides about a connection, and no client can change.
///
/// ```
/// use palisade::{Principal, session::Transport};
/// use palisade_mcp::ServeOptions;
/// let reads = ServeOptions::new(Principal::new("Agent", "support-bot"), "shop");
/// let changes_over_http = reads.clone().over(Transport::Http).writable();
/// assert!(changes_over_http.writable && !reads.writable);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
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

impl ServeOptions {
    /// One who reads `connection` over standard input and output.
    pub fn new(principal: impl Into<PrincipalSource>, connection: impl Into<String>) -> Self {
        Self {
            principal: principal.into(),
            transport: Transport::Stdio,
            connection: connection.into(),
            writable: false,
        }
    }

    /// The same where statements come otherwise.
    #[must_use]
    pub fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// The same with the tool `execute`, as the field of this name says.
    #[must_use]
    pub fn writable(self) -> Self {
        Self {
            writable: true,
            ..self
        }
    }
}

/// How large an answer may be, in each copy of it that a client could hand to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerSize {
    max_chars: usize,
    max_tokens: usize,
}

impl AnswerSize {
    /// The fewest and the most characters that an answer can be given.
    pub const CHARS: std::ops::RangeInclusive<usize> = 8_000..=65_536;
    /// The fewest and the most tokens.
    pub const TOKENS: std::ops::RangeInclusive<usize> = 2_000..=32_768;

    /// So many characters and tokens; beyond what can be given, the nearest that can.
    #[must_use]
    pub fn new(max_chars: usize, max_tokens: usize) -> Self {
        let within = |value: usize, range: std::ops::RangeInclusive<usize>| {
            value.clamp(*range.start(), *range.end())
        };
        Self {
            max_chars: within(max_chars, Self::CHARS),
            max_tokens: within(max_tokens, Self::TOKENS),
        }
    }

    /// Characters of a copy.
    #[must_use]
    pub fn max_chars(self) -> usize {
        self.max_chars
    }

    /// Tokens of a copy, as they are estimated.
    #[must_use]
    pub fn max_tokens(self) -> usize {
        self.max_tokens
    }

    /// Bytes of the entries of a list, beside what stands around them. A token of names is three characters or more.
    pub(crate) fn list_bytes(self) -> usize {
        let bytes = self.max_chars.min(self.max_tokens.saturating_mul(3));
        bytes.saturating_sub(4_000)
    }

    /// Room for an answer; `has_most_rows` says that a higher limit would give no more rows of it.
    pub(crate) fn room(self, form: Form, has_most_rows: bool) -> Room {
        Room {
            has_most_rows,
            form,
            max_chars: self.max_chars,
            max_tokens: self.max_tokens,
        }
    }
}

impl Default for AnswerSize {
    /// 40,000 characters and 10,000 tokens: a client that takes less of an answer puts the rest where its model does not see it.
    fn default() -> Self {
        Self::new(40_000, 10_000)
    }
}

/// Who asks in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    pub(crate) principal: Principal,
    pub(crate) identity: Identity,
    pub(crate) client: Option<String>,
    pub(crate) token_scope: Option<String>,
    pub(crate) is_read_only: bool,
}

impl Asker {
    /// `principal`, who may do whatever policies and the connection permit.
    #[must_use]
    pub fn new(principal: Principal) -> Self {
        Self {
            principal,
            identity: Identity::default(),
            client: None,
            token_scope: None,
            is_read_only: false,
        }
    }

    /// Who asks.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The same by a credential of this name: the client that was verified, for policies (`context.client`) and records.
    #[must_use]
    pub fn with_client(self, client: impl Into<String>) -> Self {
        Self {
            client: Some(client.into()),
            ..self
        }
    }

    /// The same, whose tokens are good in requests of this scope alone, such as a session of a server
    /// ([`Session::with_token_scope`](palisade::session::Session::with_token_scope)).
    #[must_use]
    pub fn with_token_scope(self, scope: impl Into<String>) -> Self {
        Self {
            token_scope: Some(scope.into()),
            ..self
        }
    }

    /// The same by a credential that says this of the principal too.
    #[must_use]
    pub fn with_identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// The same, who changes nothing by this request.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self {
            is_read_only: true,
            ..self
        }
    }
}

impl From<Principal> for Asker {
    fn from(principal: Principal) -> Self {
        Self::new(principal)
    }
}

/// Who asks, by a request.
type ByRequest = dyn Fn(&Extensions) -> Option<Asker> + Send + Sync;

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
    /// Asks `who` at each request: a principal, or an [`Asker`], of whom more is known.
    ///
    /// ```
    /// use palisade::session::{Principal, Transport};
    /// use palisade_mcp::PrincipalSource;
    /// // A middleware of the embedder's put it there.
    /// let source = PrincipalSource::by_request(|request| request.get::<Principal>().cloned());
    /// ```
    pub fn by_request<A: Into<Asker>>(
        who: impl Fn(&Extensions) -> Option<A> + Send + Sync + 'static,
    ) -> Self {
        Self::ByRequest(Arc::new(move |request| who(request).map(Into::into)))
    }

    /// Who asks in a request.
    pub(crate) fn asker(&self, request: &Extensions) -> Option<Asker> {
        match self {
            Self::Fixed(principal) => Some(Asker::new(principal.clone())),
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

/// The session of who asks.
pub(crate) fn session_of(asker: Asker, transport: Transport) -> Session {
    let Asker {
        principal,
        identity,
        client,
        token_scope,
        is_read_only: _,
    } = asker;
    let session = Session::new(principal).identified(identity).over(transport);
    let session = match client {
        Some(client) => session.of_client(client),
        None => session,
    };
    match token_scope {
        Some(scope) => session.with_token_scope(scope),
        None => session,
    }
}
