//! The databases of one server. Each has a gate, a principal and room of its own; a call reaches exactly one.

use std::{collections::BTreeMap, sync::Arc};

use palisade::{
    code::Code,
    dialect::Dialect,
    guard::{Backend, Guard},
    ident,
    rejection::Rejection,
    session::{Session, Transport},
};
use rmcp::model::JsonObject;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::server::ServeOptions;

/// Statements that run at once on one connection. One whose caller gave up counts until the engine has let go of
/// it.
const MAX_RUNNING: usize = 4;
/// Calls of one connection that run or wait; more are refused.
pub(crate) const MAX_CALLS: usize = 64;
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
pub(crate) struct Connection<B> {
    pub(crate) name: String,
    pub(crate) guard: Arc<Guard<B>>,
    pub(crate) session: Session,
    pub(crate) running: Arc<Semaphore>,
    pub(crate) calls: Semaphore,
}

impl<B> Connection<B> {
    fn new(guard: Arc<Guard<B>>, options: ServeOptions) -> Self {
        Self {
            name: options.connection,
            guard,
            session: Session::new(options.principal).over(Transport::Stdio),
            running: Arc::new(Semaphore::new(MAX_RUNNING)),
            calls: Semaphore::new(MAX_CALLS),
        }
    }
}

/// One connection, which every call means, or several by name.
pub(crate) enum Connections<B> {
    One(Arc<Connection<B>>),
    Several(BTreeMap<String, Arc<Connection<B>>>),
}

impl<B: Backend> Connections<B> {
    pub(crate) fn one(guard: Arc<Guard<B>>, options: ServeOptions) -> Self {
        Self::One(Arc::new(Connection::new(guard, options)))
    }

    pub(crate) fn several(
        all: impl IntoIterator<Item = (Arc<Guard<B>>, ServeOptions)>,
    ) -> Result<Self, ConnectionsError> {
        let mut named = BTreeMap::new();
        for (guard, options) in all {
            let name = options.connection.clone();
            if !is_name(&name) {
                return Err(ConnectionsError::Name(name));
            }
            let connection = Arc::new(Connection::new(guard, options));
            if named.insert(name.clone(), connection).is_some() {
                return Err(ConnectionsError::Twice(name));
            }
        }
        match named.len() {
            0 => Err(ConnectionsError::None),
            1 => named
                .into_values()
                .next()
                .map(Self::One)
                .ok_or(ConnectionsError::None),
            _ => Ok(Self::Several(named)),
        }
    }

    /// The name of the connection that every call means.
    pub(crate) fn only(&self) -> Option<&str> {
        match self {
            Self::One(connection) => Some(&connection.name),
            Self::Several(_) => None,
        }
    }

    /// Whether any of them has templates.
    pub(crate) fn have_templates(&self) -> bool {
        let have = |connection: &Arc<Connection<B>>| {
            connection.guard.firewall().policies().has_templates()
        };
        match self {
            Self::One(connection) => have(connection),
            Self::Several(named) => named.values().any(have),
        }
    }

    /// What a caller may choose from: nothing, where there is no choice.
    pub(crate) fn choices(&self) -> Vec<Choice<'_>> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Several(named) => named
                .values()
                .map(|connection| Choice {
                    name: &connection.name,
                    dialect: connection.guard.firewall().catalog().dialect(),
                })
                .collect(),
        }
    }

    /// The connection that a call means; the argument that says so is taken out.
    pub(crate) fn choose(
        &self,
        arguments: &mut JsonObject,
    ) -> Result<&Arc<Connection<B>>, Rejection> {
        let named = match self {
            Self::One(connection) => return Ok(connection),
            Self::Several(named) => named,
        };
        let listed = || {
            let names: Vec<_> = named.keys().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let invalid = |why: String| Rejection::new(Code::RequestInvalid, why);
        match arguments.remove(ARGUMENT) {
            Some(Value::String(name)) => named.get(&name).ok_or_else(|| {
                let names = named.keys().map(String::as_str);
                invalid(match ident::closest(&name, names) {
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

/// A connection as a caller sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) name: &'a str,
    pub(crate) dialect: Dialect,
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}
