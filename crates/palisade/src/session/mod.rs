//! Who asks: the principal, as the operator's configuration or a verified credential names it.

mod identity;

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

pub use identity::{AttributeValue, Identity};

use crate::{past::Label, token::Epoch};

/// A Cedar entity id such as `Agent::"support-bot"`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal {
    kind: String,
    id: String,
}

/// A text that is not of the form `Type::"id"`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a principal; write it as `Agent::\"name\"`, `User::\"name\"` or `Role::\"name\"`"
)]
pub struct PrincipalSyntaxError(String);

impl Principal {
    /// The principal `kind::"id"`, for example `Agent` and `support-bot`.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            id: id.into(),
        }
    }

    /// Reads `Agent::"support-bot"`; the quotes may be left out where a shell ate them.
    ///
    /// # Errors
    /// If there is no `::`, the type is not a word, or the id is empty or holds quotes, backslashes
    /// or control characters.
    pub fn parse(text: &str) -> Result<Self, PrincipalSyntaxError> {
        let bad = || PrincipalSyntaxError(text.to_owned());
        let (kind, id) = text.split_once("::").ok_or_else(bad)?;
        let id = match id.strip_prefix('"') {
            Some(rest) => rest.strip_suffix('"').ok_or_else(bad)?,
            None => id,
        };
        let word = kind
            .chars()
            .enumerate()
            .all(|(i, c)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit()));
        if kind.is_empty() || !word || id.is_empty() {
            return Err(bad());
        }
        if id.chars().any(|c| c == '"' || c == '\\' || c.is_control()) {
            return Err(bad());
        }
        Ok(Self::new(kind, id))
    }

    /// The entity type, for example `Agent`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The id inside the quotes.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::\"{}\"", self.kind, self.id)
    }
}

/// How the statement reached the firewall; policies see it as `context.transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Transport {
    /// Called in the embedder's own process.
    #[default]
    Library,
    /// The command line.
    Cli,
    /// An MCP client over standard input and output.
    Stdio,
    /// An MCP client over HTTP.
    Http,
}

impl Transport {
    pub(crate) const ALL: [Self; 4] = [Self::Library, Self::Cli, Self::Stdio, Self::Http];

    /// The word policies compare with.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Cli => "cli",
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }

    /// The transport that policies call `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// The most characters of what a client says of itself.
const MAX_CLAIM: usize = 120;

/// What a client says of itself. It is recorded as a claim, and decides nothing: policies do not see it.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    client: Option<String>,
    purpose: Option<String>,
}

impl Claims {
    /// What a client says that it is, and what it says it asks for. Characters that do not show are left out, and what is
    /// too long is cut.
    #[must_use]
    pub fn new(client: Option<&str>, purpose: Option<&str>) -> Self {
        Self {
            client: client.and_then(clean_text),
            purpose: purpose.and_then(clean_text),
        }
    }

    /// What it says that it is called.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// What it says that it asks for.
    #[must_use]
    pub fn purpose(&self) -> Option<&str> {
        self.purpose.as_deref()
    }
}

fn clean_text(text: &str) -> Option<String> {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{feff}')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(c, '\u{e0000}'..='\u{e007f}')
    };
    let shown: String = text.chars().filter(|c| !is_hidden(*c)).collect();
    let cut: String = shown.trim().chars().take(MAX_CLAIM).collect();
    (!cut.is_empty()).then_some(cut)
}

/// By which call a statement came, for records. It decides nothing: policies do not see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallOrigin {
    /// The id that a server gave to the client's session.
    pub session: Option<String>,
    /// The tool that was called.
    pub tool: Option<&'static str>,
    trace: Option<String>,
}

impl CallOrigin {
    /// A call of `tool` in the session that a server calls so.
    #[must_use]
    pub fn new(session: Option<String>, tool: Option<&'static str>) -> Self {
        Self {
            session,
            tool,
            trace: None,
        }
    }

    /// The same with the trace id of a W3C `traceparent`, which the client claims. What is none is left out.
    #[must_use]
    pub fn with_traceparent(self, traceparent: Option<&str>) -> Self {
        Self {
            trace: traceparent.and_then(trace_id).map(str::to_owned),
            ..self
        }
    }

    /// The trace id, 32 hexadecimal digits.
    #[must_use]
    pub fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }
}

/// The trace id of `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
fn trace_id(traceparent: &str) -> Option<&str> {
    let mut parts = traceparent.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_one = version.len() == 2
        && is_hex(version)
        && trace.len() == 32
        && is_hex(trace)
        && trace.bytes().any(|b| b != b'0');
    is_one.then_some(trace)
}

/// What stands beside what decides: it makes no other session.
#[derive(Debug, Clone, Default)]
struct Beside {
    claims: Claims,
    origin: CallOrigin,
}

impl PartialEq for Beside {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Beside {}

impl PartialOrd for Beside {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Beside {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

impl Hash for Beside {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// One principal's use of the firewall. Not a connection: two sessions of the same principal over
/// the same transport get the same decisions, and are equal whatever their clients [claim](Claims).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    principal: Principal,
    identity: Identity,
    transport: Transport,
    client: Option<String>,
    /// Milliseconds since 1970-01-01 UTC.
    time: Option<i64>,
    template: Option<String>,
    /// Ids of the policies that let the template run.
    run_policies: Vec<String>,
    /// To whom tokens belong beside the principal.
    token_scope: Option<String>,
    /// The span of the tokens' lifetime that the time is in, where tokens expire; of a session that is remembered.
    epoch: Option<Epoch>,
    /// As of what tables are read; as they are by now where there is none.
    past: Option<Arc<Label>>,
    beside: Beside,
}

impl Session {
    /// A session of `principal`, in process.
    #[must_use]
    pub fn new(principal: Principal) -> Self {
        Self {
            principal,
            identity: Identity::default(),
            transport: Transport::Library,
            client: None,
            time: None,
            template: None,
            run_policies: Vec::new(),
            token_scope: None,
            epoch: None,
            past: None,
            beside: Beside::default(),
        }
    }

    /// The session of a client whose identity has been verified, by a certificate or a signed token; policies
    /// see it as `context.client`. What a client only says of itself does not belong here.
    #[must_use]
    pub fn of_client(self, client: impl Into<String>) -> Self {
        Self {
            client: Some(client.into()),
            ..self
        }
    }

    /// The session whose tokens are good in sessions of this scope alone, for example the id of a server's session. Policies do not see
    /// it. Without one, tokens belong to the principal.
    #[must_use]
    pub fn with_token_scope(self, scope: impl Into<String>) -> Self {
        Self {
            token_scope: Some(scope.into()),
            ..self
        }
    }

    /// The session of a principal of whom a verified credential says this too.
    #[must_use]
    pub fn identified(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// The session of a client that says this of itself, for records.
    #[must_use]
    pub fn claiming(mut self, claims: Claims) -> Self {
        self.beside.claims = claims;
        self
    }

    /// The session of a statement that came by this call, for records.
    #[must_use]
    pub fn called_by(mut self, origin: CallOrigin) -> Self {
        self.beside.origin = origin;
        self
    }

    /// The session as it is `since_1970`, UTC; policies see it as `context.time`, to the millisecond. A gate sets
    /// it to the time of the request.
    #[must_use]
    pub fn at(self, since_1970: Duration) -> Self {
        Self {
            time: Some(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)),
            ..self
        }
    }

    /// The session whose queries read tables as they were at `label`, under the policies, masks and filters of now. What changes
    /// anything is refused in it.
    #[must_use]
    pub fn as_of(self, label: Label) -> Self {
        Self {
            past: Some(Arc::new(label)),
            ..self
        }
    }

    /// The same session without a label.
    pub(crate) fn in_present(&self) -> Self {
        Self {
            past: None,
            ..self.clone()
        }
    }

    /// As of what tables are read; none where they are read as they are by now.
    #[must_use]
    pub fn past(&self) -> Option<&Arc<Label>> {
        self.past.as_ref()
    }

    /// The session while it runs a template, which only the firewall says, and by which policies.
    pub(crate) fn running(self, template: &str, policies: Vec<String>) -> Self {
        Self {
            template: Some(template.to_owned()),
            run_policies: policies,
            ..self
        }
    }

    /// The session without a time, of which `epoch` alone is left: what does not depend on the rest is the same for
    /// both.
    pub(crate) fn timeless(&self, epoch: Option<Epoch>) -> Self {
        Self {
            time: None,
            epoch,
            ..self.clone()
        }
    }

    /// The session without a scope of tokens, where there are no tokens.
    pub(crate) fn unscoped(&self) -> Self {
        Self {
            token_scope: None,
            ..self.clone()
        }
    }

    /// The session in `epoch`.
    pub(crate) fn in_epoch(&self, epoch: Option<Epoch>) -> Self {
        Self {
            epoch,
            ..self.clone()
        }
    }

    /// The span of the tokens' lifetime that it is in.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// To whom tokens belong beside the principal.
    #[must_use]
    pub fn token_scope(&self) -> Option<&str> {
        self.token_scope.as_deref()
    }

    /// The same session over another transport.
    #[must_use]
    pub fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Who asks.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Roles and attributes that a verified credential gives the principal.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How the statement came.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The verified identity of the client.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// What the client says of itself.
    #[must_use]
    pub fn claims(&self) -> &Claims {
        &self.beside.claims
    }

    /// By which call the statement came.
    #[must_use]
    pub fn origin(&self) -> &CallOrigin {
        &self.beside.origin
    }

    /// When the statement came, in milliseconds since 1970-01-01 UTC.
    #[must_use]
    pub fn time(&self) -> Option<i64> {
        self.time
    }

    /// The template that is run.
    #[must_use]
    pub fn template(&self) -> Option<&str> {
        self.template.as_deref()
    }

    /// Ids of the policies that let the template run.
    pub(crate) fn run_policies(&self) -> &[String] {
        &self.run_policies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_short_and_show() {
        let said = |text: &str| Claims::new(Some(text), None).client().map(str::to_owned);
        assert_eq!(
            said("desk\n\u{1b}[31m\u{202e}app\0 ").as_deref(),
            Some("desk[31mapp")
        );
        assert_eq!(said(" \r\n\u{200b}"), None);
        assert_eq!(
            said(&"x".repeat(5000)).map(|text| text.len()),
            Some(MAX_CLAIM)
        );
        let session = Session::new(Principal::new("Agent", "a"));
        let claiming = session.clone().claiming(Claims::new(Some("b"), Some("c")));
        assert_eq!(claiming.claims().purpose(), Some("c"));
        assert_eq!(session, claiming);
    }

    #[test]
    fn transports_are_read_by_the_words_of_policies() {
        for transport in Transport::ALL {
            assert_eq!(Transport::from_name(transport.name()), Some(transport));
        }
        assert_eq!(Transport::from_name("Stdio"), None);
    }

    #[test]
    fn traces_are_hexadecimal() {
        let of = |text: &str| {
            let origin = CallOrigin::new(None, Some("query")).with_traceparent(Some(text));
            origin.trace().map(str::to_owned)
        };
        let good = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(
            of(&format!("00-{good}-b7ad6b7169203331-01")).as_deref(),
            Some(good)
        );
        for bad in [
            "",
            "00",
            "00-Ada Brandt-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "zz-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn principals_are_read_and_printed() {
        let p = Principal::parse("Agent::\"support-bot\"").ok();
        assert_eq!(
            p.as_ref().map(ToString::to_string).as_deref(),
            Some("Agent::\"support-bot\"")
        );
        assert_eq!(Principal::parse("Agent::support-bot").ok(), p);
        for bad in [
            "",
            "Agent",
            "Agent::",
            "Agent::\"x",
            "1x::\"y\"",
            "A::\"a\\\"b\"",
            "A::\"a\nb\"",
        ] {
            assert!(Principal::parse(bad).is_err(), "{bad}");
        }
    }
}
