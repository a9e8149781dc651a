//! Statements that were permitted before, so that the same text need not be read twice.
//!
//! A prepared statement is found again only by everything that it was made from: the text to the byte, the session (the
//! principal and all that policies can see of the request), and the limits. What is not in the key cannot
//! change: catalog, policies and the principals' attributes belong to one firewall, and so does its cache.
//! Whatever is added to what policies see belongs into [`Session`], or its decisions must not come here.
//!
//! Refusals are not kept: their speed does not matter, and an attacker could fill the cache with them.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use quick_cache::{Equivalent, Weighter, sync::Cache};

use crate::{limits::Limits, rewrite::Prepared, session::Session};

/// Bytes of a prepared statement and its key, about, for a first guess of how many fit.
const TYPICAL_BYTES: u64 = 4096;

/// Prepared statements by what they were made from, bounded in bytes.
pub(in crate::firewall) struct StatementCache(Option<Cache<StatementKey, Arc<Prepared>, Weight>>);

impl fmt::Debug for StatementCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StatementCache")
            .field(&self.0.as_ref().map(Cache::len))
            .finish()
    }
}

impl StatementCache {
    /// A cache of about `bytes` bytes; none for 0.
    pub(in crate::firewall) fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self((bytes > 0).then(|| Cache::with_weighter(items, bytes, Weight)))
    }

    /// The prepared statement of `sql` for `session` within `limits`, if it is remembered.
    pub(in crate::firewall) fn find(
        &self,
        session: &Session,
        limits: &Limits,
        sql: &str,
    ) -> Option<Arc<Prepared>> {
        let asked = Asked {
            session,
            limits,
            sql,
        };
        self.0.as_ref()?.get(&asked)
    }

    /// Remembers `prepared`.
    pub(in crate::firewall) fn keep(
        &self,
        session: &Session,
        limits: &Limits,
        sql: &str,
        prepared: &Arc<Prepared>,
    ) {
        if let Some(cache) = &self.0 {
            cache.insert(
                StatementKey::new(session, limits, sql),
                Arc::clone(prepared),
            );
        }
    }
}

/// What a prepared statement was made from.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::firewall) struct StatementKey {
    session: Session,
    limits: Limits,
    sql: Box<str>,
}

/// The same, borrowed.
#[derive(Hash)]
pub(in crate::firewall) struct Asked<'a> {
    pub(in crate::firewall) session: &'a Session,
    pub(in crate::firewall) limits: &'a Limits,
    pub(in crate::firewall) sql: &'a str,
}

impl StatementKey {
    /// That of `sql` for `session` within `limits`.
    pub(in crate::firewall) fn new(session: &Session, limits: &Limits, sql: &str) -> Self {
        Self {
            session: session.clone(),
            limits: limits.clone(),
            sql: sql.into(),
        }
    }

    /// About how many bytes it takes.
    pub(in crate::firewall) fn bytes(&self) -> usize {
        let principal = self.session.principal();
        let whose = principal.kind().len() + principal.id().len();
        size_of::<Self>() + self.sql.len() + whose + self.session.identity().bytes()
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            session: &self.session,
            limits: &self.limits,
            sql: &self.sql,
        }
    }
}

/// As [`Asked`], by which it is looked for.
impl Hash for StatementKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.asked().hash(state);
    }
}

impl Equivalent<StatementKey> for Asked<'_> {
    fn equivalent(&self, key: &StatementKey) -> bool {
        *self.sql == *key.sql && *self.session == key.session && *self.limits == key.limits
    }
}

/// Bytes of a prepared statement with its key.
#[derive(Clone)]
struct Weight;

impl Weighter<StatementKey, Arc<Prepared>> for Weight {
    fn weight(&self, key: &StatementKey, prepared: &Arc<Prepared>) -> u64 {
        u64::try_from(key.bytes() + prepared.bytes()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{
        catalog::test_ddl,
        firewall::Firewall,
        policy::{PolicyFile, PolicySources},
        session::Principal,
        value::Params,
    };

    #[test]
    fn what_was_permitted_is_kept() {
        let catalog = test_ddl::postgres("CREATE TABLE t (id integer PRIMARY KEY);", "main");
        let file = PolicyFile {
            name: "p.cedar".to_owned(),
            text: "permit(principal, action, resource);".to_owned(),
        };
        let sources = PolicySources {
            policies: vec![file],
            ..PolicySources::default()
        };
        let firewall = Firewall::builder(catalog.unwrap(), sources)
            .build()
            .unwrap();
        let session = Session::new(Principal::new("Agent", "ana"));
        let sql = "SELECT id FROM t";
        let find = || firewall.statements.find(&session, &Limits::default(), sql);
        assert!(find().is_none());
        let check = |sql| drop(firewall.check(sql, &Params::None, &session).unwrap());
        // Refusals are not kept.
        check("SELECT nosuch FROM t");
        check(sql);
        let kept = find().unwrap();
        check(sql);
        assert!(Arc::ptr_eq(&kept, &find().unwrap()));
        assert_eq!(
            format!("{:?}", firewall.statements),
            "StatementCache(Some(1))"
        );
    }

    /// Whether texts hash to one number is chance, so that what is found is compared.
    #[test]
    fn a_key_is_that_of_its_text_its_session_and_its_limits() {
        let [ana, ben] = ["ana", "ben"].map(|id| Session::new(Principal::new("Agent", id)));
        let limits = Limits::default();
        let fewer = Limits {
            max_columns: 1,
            ..Limits::default()
        };
        let key = StatementKey::new(&ana, &limits, "SELECT 1");
        for (session, limits, sql, same) in [
            (&ana, &limits, "SELECT 1", true),
            (&ana, &limits, "SELECT 2", false),
            (&ana, &fewer, "SELECT 1", false),
            (&ben, &limits, "SELECT 1", false),
        ] {
            let asked = Asked {
                session,
                limits,
                sql,
            };
            assert_eq!(asked.equivalent(&key), same, "{sql} {session:?}");
        }
    }

    #[test]
    fn a_key_is_as_large_as_what_it_keeps() {
        let session = |id: &str| Session::new(Principal::new("Agent", id));
        let bytes =
            |id: &str, sql: &str| StatementKey::new(&session(id), &Limits::default(), sql).bytes();
        let least = bytes("a", "");
        assert!(least >= size_of::<StatementKey>());
        assert_eq!(bytes("a", &"x".repeat(5000)), least + 5000);
        assert_eq!(bytes(&"a".repeat(301), ""), least + 300);
    }
}
