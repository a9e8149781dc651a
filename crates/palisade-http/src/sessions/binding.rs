//! With what a session was begun, and so with what alone it goes on.

use palisade_mcp::{Asker, Narrowing};

/// What a request brings beside its message. Each brings it anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// What its requests are counted by: a token's name, or whom an issuer calls so.
    pub(crate) account: String,
    /// Who asks, with client, roles and attributes, before anything is taken away.
    pub(crate) asker: Asker,
    /// Whether the connection brought a client certificate.
    pub(crate) is_certified: bool,
    /// Whether it changes nothing.
    pub(crate) is_read_only: bool,
    /// What is left of databases and tools.
    pub(crate) narrowing: Narrowing,
}

/// Whether a request goes on with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is of whoever began it, and leaves as much.
    Same,
    /// It is of whoever began it, and leaves other things.
    Narrowed,
    /// It is of somebody else.
    Foreign,
}

impl Binding {
    /// Whether what `other` brings goes on with what was begun with this.
    pub(crate) fn compare(&self, other: &Self) -> Fit {
        let Self {
            account,
            asker,
            is_certified,
            is_read_only,
            narrowing,
        } = self;
        let is_of_same = *account == other.account
            && *asker == other.asker
            && *is_certified == other.is_certified;
        if !is_of_same {
            return Fit::Foreign;
        }
        match *is_read_only == other.is_read_only && *narrowing == other.narrowing {
            true => Fit::Same,
            false => Fit::Narrowed,
        }
    }
}
