//! The databases of one server. Each has a gate, a principal and room of its own; a call reaches exactly one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use palisade::{
    audit::AuditSink,
    code::Code,
    dialect::Dialect,
    did_you_mean,
    guard::Guard,
    policy::template::Template,
    rejection::Rejection,
    session::{Session, Transport},
};
use rmcp::model::{Extensions, JsonObject};
use serde_json::Value;

use crate::{
    arguments::History,
    change_tools::PartInChanges,
    cursor::Seals,
    late::{Late, LateConnection},
    options::{Asker, PrincipalSource, ServeOptions, session_of},
    queue::Queue,
    template_tools::TemplateTool,
    tool_name::ToolName,
};

/// Characters of a connection's name.
const MAX_NAME: usize = 64;

/// The argument that says which connection is meant, where there are several.
pub(crate) const ARGUMENT: &str = "connection";

/// Why these connections make no server.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConnectionsError {
    /// There is none.
    #[error("there is no connection to serve")]
    None,
    /// Two have one name.
    #[error("two connections are called `{0}`")]
    Twice(String),
    /// An agent reads the names and writes them.
    #[error(
        "`{0}` is no name for a connection: it must have from 1 to 64 letters, digits, `-`, `_` and `.`"
    )]
    Name(String),
}

/// A database behind its gate.
pub(crate) struct Connection {
    pub(crate) name: String,
    pub(crate) guard: Arc<Guard>,
    principal: PrincipalSource,
    transport: Transport,
    /// Whether the operator lets this server change anything here.
    writable: bool,
    /// Who may run next. One whose caller gave up counts until the engine has let go of it.
    pub(crate) queue: Queue,
    /// Of the cursors of its lists.
    pub(crate) seals: Seals,
}

impl Connection {
    pub(crate) fn new(guard: Arc<Guard>, options: ServeOptions) -> Self {
        Self {
            name: options.connection,
            guard,
            principal: options.principal,
            transport: options.transport,
            writable: options.writable,
            queue: Queue::default(),
            seals: Seals::default(),
        }
    }
}

impl Connection {
    /// Whether `execute` is offered: the operator lets the server change what policy permits, and by now some policy
    /// permits something.
    pub(crate) fn is_changeable(&self, request: &Extensions) -> bool {
        let may_change = |asker: Asker| {
            !asker.is_read_only && self.guard.firewall().may_change(&self.session_of(asker))
        };
        self.writable && self.principal.asker(request).is_some_and(may_change)
    }

    /// Whether the principal of a request could approve what others propose.
    pub(crate) fn may_approve(&self, request: &Extensions) -> bool {
        let may_approve = |asker: Asker| {
            !asker.is_read_only && self.guard.firewall().may_approve(&self.session_of(asker))
        };
        self.writable
            && self.guard.keeps_changes()
            && self.principal.asker(request).is_some_and(may_approve)
    }

    /// The templates that the principal of a request may run; none where that cannot be decided.
    pub(crate) fn templates(&self, request: &Extensions) -> Vec<Template> {
        let firewall = self.guard.firewall();
        if !firewall.policies().has_templates() {
            return Vec::new();
        }
        let session = self.session(request);
        let templates = session.and_then(|session| self.guard.templates(&session).ok());
        templates.unwrap_or_default()
    }

    /// Which calls of a request could wait for a person's approval here.
    fn waiting(&self, request: &Extensions) -> Waiting {
        let Some(session) = self.session(request) else {
            return Waiting::default();
        };
        let firewall = self.guard.firewall();
        Waiting {
            reads: firewall.reads_may_wait(&session),
            changes: self.writable && firewall.changes_may_wait(&session),
            templates: (self.templates(request).iter())
                .any(|template| self.guard.template_waits(template, &session)),
            ..self.find_uses((self.is_changeable(request), self.may_approve(request)))
        }
    }

    /// For which tools there is a use here, of a caller that may change something or not, and approve something or not. What could
    /// wait is not looked at.
    pub(crate) fn find_uses(&self, (is_changeable, may_approve): (bool, bool)) -> Waiting {
        Waiting {
            proposes: self.guard.keeps_changes() && is_changeable,
            approves: may_approve,
            has_history: self.history() == History::Kept,
            ..Waiting::default()
        }
    }

    /// Whether history of any table is kept.
    pub(crate) fn history(&self) -> History {
        match self.guard.firewall().catalog().has_history() {
            true => History::Kept,
            false => History::None,
        }
    }

    /// The engine and its version.
    pub(crate) fn engine(&self) -> Option<String> {
        let firewall = self.guard.firewall();
        firewall.catalog().engine().map(str::to_owned)
    }

    /// The session of a request; none if it has no principal.
    pub(crate) fn session(&self, request: &Extensions) -> Option<Session> {
        let asker = self.principal.asker(request)?;
        Some(self.session_of(asker))
    }

    fn session_of(&self, asker: Asker) -> Session {
        session_of(asker, self.transport)
    }
}

/// One connection, which every call means, or several by name.
pub(crate) enum Connections {
    One(Place),
    Several(BTreeMap<String, Place>),
}

/// The place of one of several connections.
#[derive(Clone)]
pub(crate) enum Place {
    /// Open since the start.
    Open(Arc<Connection>),
    /// Opened when it is meant.
    Late(Arc<Late>),
}

impl Place {
    fn name(&self) -> &str {
        match self {
            Self::Open(connection) => &connection.name,
            Self::Late(late) => &late.connection.name,
        }
    }

    /// The engine and its version, as far as they are known.
    fn engine(&self) -> Option<String> {
        match (self.opened(), self) {
            (Some(connection), _) => connection.engine(),
            (None, Self::Late(late)) => late.connection.engine.clone(),
            (None, Self::Open(_)) => None,
        }
    }

    /// The connection, if it is not open.
    fn unopened(&self) -> Option<&Arc<Late>> {
        match self {
            Self::Open(_) => None,
            Self::Late(late) => late.opened().is_none().then_some(late),
        }
    }

    /// The connection, if it is open.
    fn opened(&self) -> Option<&Arc<Connection>> {
        match self {
            Self::Open(connection) => Some(connection),
            Self::Late(late) => late.opened(),
        }
    }

    fn dialect(&self) -> Dialect {
        match self {
            Self::Open(connection) => connection.guard.firewall().catalog().dialect(),
            Self::Late(late) => late.connection.dialect,
        }
    }

    fn max_query_bytes(&self) -> usize {
        match self {
            Self::Open(connection) => connection.guard.firewall().limits().max_query_bytes,
            Self::Late(late) => late.connection.max_query_bytes,
        }
    }
}

/// What records calls that reach no database.
pub(crate) enum Recorder {
    /// A gate that is open.
    Gate(Arc<Guard>),
    /// The records alone, while none is.
    Sink(Arc<dyn AuditSink>),
}

/// What a call means.
pub(crate) enum Chosen<'c> {
    /// A connection that is open.
    Open(Arc<Connection>),
    /// A connection that is to be opened first.
    Late(&'c Arc<Late>),
}

impl Connections {
    pub(crate) fn one(guard: Arc<Guard>, options: ServeOptions) -> Self {
        Self::One(Place::Open(Arc::new(Connection::new(guard, options))))
    }

    /// A connection that is not open yet, which calls need not name.
    pub(crate) fn one_late(late: LateConnection) -> Self {
        Self::One(Place::Late(Arc::new(Late::new(late))))
    }

    pub(crate) fn several(
        all: impl IntoIterator<Item = (Arc<Guard>, ServeOptions)>,
        late: impl IntoIterator<Item = LateConnection>,
    ) -> Result<Self, ConnectionsError> {
        let open = all.into_iter().map(|(guard, options)| {
            let name = options.connection.clone();
            (name, Place::Open(Arc::new(Connection::new(guard, options))))
        });
        let late = late.into_iter().map(|connection| {
            let name = connection.name.clone();
            (name, Place::Late(Arc::new(Late::new(connection))))
        });
        let mut named = BTreeMap::new();
        for (name, place) in open.chain(late) {
            if !is_name(&name) {
                return Err(ConnectionsError::Name(name));
            }
            if named.insert(name.clone(), place).is_some() {
                return Err(ConnectionsError::Twice(name));
            }
        }
        let only = match (named.len(), named.values().next()) {
            (0, _) | (_, None) => return Err(ConnectionsError::None),
            (1, Some(Place::Open(connection))) => Some(Place::Open(Arc::clone(connection))),
            (_, Some(_)) => None,
        };
        Ok(only.map_or(Self::Several(named), Self::One))
    }

    /// Those of them that are called by one of `names`.
    pub(crate) fn only_within(&self, names: &BTreeSet<String>) -> Self {
        match self {
            Self::One(place) if names.contains(place.name()) => Self::One(place.clone()),
            Self::One(_) => Self::Several(BTreeMap::new()),
            // A call names its connection as it would without the narrowing, and templates keep their names.
            Self::Several(named) => {
                let within = named.iter().filter(|(name, _)| names.contains(*name));
                let within = within.map(|(name, place)| (name.clone(), place.clone()));
                Self::Several(within.collect())
            }
        }
    }

    /// The name of the connection that every call means.
    pub(crate) fn only(&self) -> Option<&str> {
        match self {
            Self::One(place) => Some(place.name()),
            Self::Several(_) => None,
        }
    }

    /// The engine of the only connection, as far as that is known.
    pub(crate) fn only_engine(&self) -> Option<String> {
        match self {
            Self::One(place) => place.engine(),
            Self::Several(_) => None,
        }
    }

    /// Bytes of the longest statement that any of them looks at.
    pub(crate) fn max_query_bytes(&self) -> usize {
        match self {
            Self::One(place) => place.max_query_bytes(),
            Self::Several(named) => {
                let most = named.values().map(Place::max_query_bytes).max();
                most.unwrap_or_default()
            }
        }
    }

    /// The names of all.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::One(place) => vec![place.name()],
            Self::Several(named) => named.keys().map(String::as_str).collect(),
        }
    }

    /// The names of those that are open.
    pub(crate) fn opened_names(&self) -> Vec<&str> {
        let opened = self.opened().into_iter();
        opened.map(|connection| connection.name.as_str()).collect()
    }

    /// Those that were not reached yet.
    pub(crate) fn unopened(&self) -> Vec<Arc<Late>> {
        match self {
            Self::One(place) => place.unopened().into_iter().cloned().collect(),
            Self::Several(named) => {
                let late = named.values().filter_map(Place::unopened);
                late.cloned().collect()
            }
        }
    }

    /// Those that are open.
    pub(crate) fn opened(&self) -> Vec<&Arc<Connection>> {
        match self {
            Self::One(place) => place.opened().into_iter().collect(),
            Self::Several(named) => named.values().filter_map(Place::opened).collect(),
        }
    }

    /// Who asks each of those that are open.
    pub(crate) fn askers(&self, request: &Extensions) -> Vec<(String, Option<Asker>)> {
        let opened = self.opened().into_iter();
        opened
            .map(|connection| (connection.name.clone(), connection.principal.asker(request)))
            .collect()
    }

    /// What records calls that reach no connection, and the session of a request: the gate of the first that is open, or before
    /// that what the operator records with.
    pub(crate) fn recorder(&self, request: &Extensions) -> Option<(Recorder, Session)> {
        if let Some(connection) = self.opened().first() {
            let gate = Recorder::Gate(Arc::clone(&connection.guard));
            return Some((gate, connection.session(request)?));
        }
        let unopened = self.unopened();
        let mut recorders = unopened.iter().filter_map(|late| late.recorder(request));
        let (audit, session) = recorders.next()?;
        Some((Recorder::Sink(audit), session))
    }

    /// Whether a caller may run a template of any of them.
    pub(crate) fn have_templates(&self, request: &Extensions) -> bool {
        let mut opened = self.opened().into_iter();
        opened.any(|connection| !connection.templates(request).is_empty())
    }

    /// Which calls of a request could wait for a person's approval, on any of those that are open.
    pub(crate) fn waiting(&self, request: &Extensions) -> Waiting {
        let opened = self.opened().into_iter();
        let waiting = opened.map(|connection| connection.waiting(request));
        waiting.fold(Waiting::default(), Waiting::or)
    }

    /// For which tools a caller has a use on any of those that are open.
    pub(crate) fn find_uses(&self, request: &Extensions) -> Waiting {
        let opened = self.opened().into_iter();
        let uses = opened.map(|connection| {
            let may = (
                connection.is_changeable(request),
                connection.may_approve(request),
            );
            connection.find_uses(may)
        });
        uses.fold(Waiting::default(), Waiting::or)
    }

    /// The templates that a caller may run and the operator offers as tools, by the names of the tools.
    pub(crate) fn template_tools(&self, request: &Extensions) -> Vec<TemplateTool> {
        self.divide_template_tools(request).0
    }

    /// The same, and those that are left out because their names are taken.
    pub(crate) fn divide_template_tools(
        &self,
        request: &Extensions,
    ) -> (Vec<TemplateTool>, Vec<TemplateTool>) {
        let is_alone = self.only().is_some();
        let (mut tools, mut left_out): (Vec<TemplateTool>, _) = (Vec::new(), Vec::new());
        for connection in self.opened() {
            for template in connection.templates(request) {
                // What changes something is no tool's business.
                if !template.is_tool || template.changes_rows {
                    continue;
                }
                let tool = TemplateTool::new(template, (connection, request), is_alone);
                let is_taken = ToolName::from_name(&tool.name).is_some()
                    || tools.iter().any(|other| other.name == tool.name);
                match is_taken {
                    true => left_out.push(tool),
                    false => tools.push(tool),
                }
            }
        }
        (tools, left_out)
    }

    /// What is offered to a caller by now.
    pub(crate) fn offer(&self, request: &Extensions) -> Offer<'_> {
        self.offer_with(request, |_| false)
    }

    /// The same, where everything may be changed for which that is not known yet and the operator lets it.
    pub(crate) fn foresee(&self, request: &Extensions) -> Offer<'_> {
        self.offer_with(request, |late| late.connection.is_writable)
    }

    fn offer_with(&self, request: &Extensions, unopened: impl Fn(&Late) -> bool) -> Offer<'_> {
        let is_changeable = |place: &Place| match (place.opened(), place.unopened()) {
            (Some(connection), _) => connection.is_changeable(request),
            (None, Some(late)) => unopened(late),
            (None, None) => false,
        };
        match self {
            Self::One(place) => Offer::One {
                dialect: place.dialect(),
                changeable: is_changeable(place),
            },
            Self::Several(named) => Offer::Several(
                named
                    .iter()
                    .map(|(name, place)| Choice {
                        name,
                        dialect: place.dialect(),
                        changeable: is_changeable(place),
                    })
                    .collect(),
            ),
        }
    }

    /// Every connection by name, with its SQL, whether something of it may be changed, and its engine as far as that is known.
    pub(crate) fn databases(&self, request: &Extensions) -> Vec<(Choice<'_>, Option<String>)> {
        let offer = self.offer(request);
        match self {
            Self::One(place) => {
                let choice = Choice {
                    name: place.name(),
                    dialect: place.dialect(),
                    changeable: offer.changeable(),
                };
                vec![(choice, place.engine())]
            }
            Self::Several(named) => {
                let engines = named.values().map(Place::engine);
                offer.choices().iter().copied().zip(engines).collect()
            }
        }
    }

    /// The connection that a call means; the argument that says so is taken out.
    pub(crate) fn choose(&self, arguments: &mut JsonObject) -> Result<Chosen<'_>, Rejection> {
        let named = match self {
            Self::One(place) => return Ok(choose_place(place)),
            Self::Several(named) => named,
        };
        let listed = || {
            let names: Vec<_> = named.keys().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let invalid = |why: String| Rejection::new(Code::RequestInvalid, why);
        match arguments.remove(ARGUMENT) {
            Some(Value::String(name)) => named.get(&name).map(choose_place).ok_or_else(|| {
                let names = named.keys().map(String::as_str);
                invalid(match did_you_mean::closest(&name, names) {
                    Some(close) => {
                        format!("there is no such `{ARGUMENT}`; did you mean `{close}`?")
                    }
                    None => format!("there is no such `{ARGUMENT}`; there are {}", listed()),
                })
            }),
            Some(_) | None => Err(invalid(format!("`{ARGUMENT}` must be one of {}", listed()))),
        }
    }
}

/// Which calls could wait for a person's approval.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// Of statements that read.
    pub(crate) reads: bool,
    /// Of statements that change something.
    pub(crate) changes: bool,
    /// Of templates.
    pub(crate) templates: bool,
    /// Whether changes can be proposed,
    pub(crate) proposes: bool,
    /// or approved.
    pub(crate) approves: bool,
    /// Whether history of any table is kept.
    pub(crate) has_history: bool,
}

impl Waiting {
    fn or(self, other: Self) -> Self {
        Self {
            reads: self.reads || other.reads,
            changes: self.changes || other.changes,
            templates: self.templates || other.templates,
            proposes: self.proposes || other.proposes,
            approves: self.approves || other.approves,
            has_history: self.has_history || other.has_history,
        }
    }

    /// Whether there is a use for a tool of changes.
    pub(crate) fn lets(self, part: PartInChanges) -> bool {
        match part {
            PartInChanges::Proposer => self.proposes,
            PartInChanges::Approver => self.approves,
            PartInChanges::Both => self.proposes || self.approves,
        }
    }
}

/// What a caller may use.
#[derive(Debug)]
pub(crate) enum Offer<'a> {
    /// A connection that the call does not name, the SQL it speaks, and whether something of it may be changed.
    One { dialect: Dialect, changeable: bool },
    /// Those that a caller chooses from.
    Several(Vec<Choice<'a>>),
}

/// A connection as a caller sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) name: &'a str,
    pub(crate) dialect: Dialect,
    /// Whether something of it may be changed.
    pub(crate) changeable: bool,
}

impl<'a> Offer<'a> {
    /// Whether something of any connection may be changed.
    pub(crate) fn changeable(&self) -> bool {
        match self {
            Self::One {
                dialect: _,
                changeable,
            } => *changeable,
            Self::Several(choices) => choices.iter().any(|choice| choice.changeable),
        }
    }

    /// The connections of which a call names one; empty where calls name none.
    pub(crate) fn choices(&self) -> &[Choice<'a>] {
        match self {
            Self::One {
                dialect: _,
                changeable: _,
            } => &[],
            Self::Several(choices) => choices,
        }
    }

    /// The SQL that connections speak, each once.
    pub(crate) fn dialects(&self) -> Vec<Dialect> {
        match self {
            Self::One {
                dialect,
                changeable: _,
            } => vec![*dialect],
            Self::Several(choices) => {
                let mut dialects: Vec<_> = choices.iter().map(|choice| choice.dialect).collect();
                dialects.sort_unstable_by_key(|dialect| dialect.to_string());
                dialects.dedup();
                dialects
            }
        }
    }
}

fn choose_place(place: &Place) -> Chosen<'_> {
    match place {
        Place::Open(connection) => Chosen::Open(Arc::clone(connection)),
        Place::Late(late) => match late.opened() {
            Some(connection) => Chosen::Open(Arc::clone(connection)),
            None => Chosen::Late(late),
        },
    }
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}
