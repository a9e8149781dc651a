//! Of whom a task is. To everybody else it is not there.

use std::{fmt, sync::Arc};

use rmcp::model::Extensions;

use crate::{narrow::Narrowing, options::Asker, server::PalisadeServer};

/// Whether the credential of whoever asked is over.
pub(crate) type Lease = Option<Arc<dyn Fn() -> bool + Send + Sync>>;

/// Of whom a request is, as a transport without lasting connections knows it. A call that goes on as a task is of the same caller
/// alone.
#[derive(Clone)]
pub struct Caller {
    account: Arc<str>,
    asker: Asker,
    is_over: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Caller {
    /// Whoever `account` names: the bearer of a token, or a subject of an issuer. `asker` is who asks, with all that narrows it. A task
    /// ends once `is_over` says that the credential has ended or was taken back; it must not block.
    #[must_use]
    pub fn new(
        account: impl Into<Arc<str>>,
        asker: Asker,
        is_over: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            account: account.into(),
            asker,
            is_over: Arc::new(is_over),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

/// All that a request brings of who sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// As the transport knows it.
    caller: Option<(Arc<str>, Asker)>,
    /// The pair of streams that it came through; 0 for none.
    pub(crate) door: u64,
    /// Who asks the databases that are open.
    askers: Vec<(String, Option<Asker>)>,
    narrowings: Vec<Narrowing>,
}

impl Owner {
    /// Whether somebody is known by it. Without that, a task would be everybody's.
    pub(crate) fn is_somebody(&self) -> bool {
        let is_principal = |(_, asker): &(String, Option<Asker>)| asker.is_some();
        self.caller.is_some() || self.door != 0 || self.askers.iter().any(is_principal)
    }

    /// Whether `other` is the same. Databases that were opened meanwhile count for nothing.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let Self {
            caller,
            door,
            askers,
            narrowings,
        } = self;
        *caller == other.caller
            && *door == other.door
            && *narrowings == other.narrowings
            && askers.iter().all(|asker| other.askers.contains(asker))
    }

    /// What tasks are counted by.
    pub(crate) fn account(&self) -> String {
        let first = || self.askers.iter().find_map(|(_, asker)| asker.as_ref());
        match (&self.caller, self.door) {
            (Some((account, _)), _) => format!("account {account}"),
            (None, 0) => match first() {
                Some(asker) => format!("principal {}", asker.principal()),
                None => "nobody".to_owned(),
            },
            (None, door) => format!("door {door}"),
        }
    }
}

impl PalisadeServer {
    /// The same for requests of `caller`, whose calls can go on as tasks that are of this caller alone.
    #[must_use]
    pub fn for_caller(mut self, caller: Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Who sends a request, and how long it may go on.
    pub(crate) fn owner(&self, request: &Extensions) -> (Owner, Lease) {
        let caller = self.caller.as_ref();
        let owner = Owner {
            caller: caller.map(|caller| (Arc::clone(&caller.account), caller.asker.clone())),
            door: self.door(),
            askers: self.connections.askers(request),
            narrowings: self.narrowings.clone(),
        };
        (owner, caller.map(|caller| Arc::clone(&caller.is_over)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use palisade::session::Principal;

    use super::*;

    fn asker(name: &str) -> Asker {
        Asker::new(Principal::new("Agent", name))
    }

    fn owner(account: &str) -> Owner {
        Owner {
            caller: Some((account.into(), asker("one"))),
            door: 0,
            askers: vec![("desk".to_owned(), Some(asker("one")))],
            narrowings: Vec::new(),
        }
    }

    #[test]
    fn an_owner_is_all_that_a_request_brings() {
        let begun = owner("a");
        assert!(begun.is(&owner("a")));
        let narrowing = Narrowing {
            tools: Some(BTreeSet::from(["query".to_owned()])),
            ..Narrowing::default()
        };
        let others = [
            owner("b"),
            Owner {
                caller: Some(("a".into(), asker("two"))),
                ..owner("a")
            },
            Owner {
                caller: Some(("a".into(), asker("one").read_only())),
                ..owner("a")
            },
            Owner {
                caller: None,
                ..owner("a")
            },
            Owner {
                door: 1,
                ..owner("a")
            },
            Owner {
                askers: vec![("desk".to_owned(), Some(asker("two")))],
                ..owner("a")
            },
            Owner {
                askers: Vec::new(),
                ..owner("a")
            },
            Owner {
                narrowings: vec![narrowing],
                ..owner("a")
            },
        ];
        for other in others {
            assert!(!begun.is(&other), "{other:?}");
        }
        // A database that is open by now makes no other owner.
        let mut later = owner("a");
        later.askers.push(("shop".to_owned(), Some(asker("one"))));
        assert!(begun.is(&later));
        let unknown = Owner {
            caller: None,
            askers: vec![("desk".to_owned(), None)],
            ..owner("a")
        };
        assert!(!unknown.is_somebody() && begun.is_somebody());
    }
}
