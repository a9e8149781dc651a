//! What sessions may do in whatever circumstances they come: for whoever gives an account what it needs for that.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::firewall::{Decision, Firewall, PermittedChange, PolicySet, VisibleRelation};
use crate::firewall::{
    permitted_changes::name_columns, session_catalog::ViewCache, statement_cache::StatementCache,
};
use crate::{
    catalog::{Catalog, RelationId},
    error::Error,
    policy::obligation::RowFilter,
    rejection::Rejection,
    resolve::{self, Mode},
    rewrite::{SourceCache, columns_referred_to},
    session::{Principal, Session},
    syntax::{self, Parsed},
    value::Params,
};

/// The decisions of a firewall in all circumstances together. Their reads and changes include those of a session in any
/// circumstances. A statement that is allowed here can be looked at, and cannot be run.
#[derive(Debug)]
pub struct Prospect {
    firewalls: Vec<Firewall>,
}

/// What a statement would read in some circumstances.
#[derive(Debug, Clone)]
pub struct NeededReads {
    /// Uids of every relation that it reads.
    pub relations: Vec<String>,
    /// Uids of those in whose places something else stands.
    pub replaced: BTreeSet<String>,
    /// The (relation, column) pairs, folded, that the engine reads.
    pub reads: BTreeSet<(String, String)>,
    /// What row filters read of other tables, to which rows refer: columns by schema and name.
    pub referred: BTreeMap<(String, String), BTreeSet<String>>,
}

/// A session in some circumstances.
#[derive(Debug)]
pub struct ProspectSession<'p> {
    firewall: &'p Firewall,
    session: Session,
    /// Set while a template is run: nothing but what it names is read or changed then.
    named: Option<BTreeSet<RelationId>>,
    is_most_permissive: bool,
}

impl Firewall {
    /// The firewall's decisions at any time, for any client and by any transport.
    ///
    /// # Errors
    /// [`Error::Internal`] if a policy cannot be written down.
    pub fn prospect(&self) -> Result<Prospect, Error> {
        let policies = self.policies.suppositions().map_err(Error::Internal)?;
        let of = |policies| self.with_policies(policies);
        Ok(Prospect {
            firewalls: policies.into_iter().map(of).collect(),
        })
    }

    fn with_policies(&self, policies: PolicySet) -> Self {
        Self {
            catalog: self.catalog.clone(),
            names: self.names.clone(),
            policies,
            sources: self.sources.clone(),
            changes: self.changes,
            // Each statement is asked about once.
            cache_bytes: 0,
            limits: self.limits.clone(),
            views: ViewCache::default(),
            statements: StatementCache::new(0),
            source_cache: SourceCache::default(),
        }
    }

    /// The relations that a statement names; none where it is a definition, which may be about any.
    fn named_relations(
        &self,
        sql: &str,
        session: &Session,
    ) -> Result<Option<BTreeSet<RelationId>>, Rejection> {
        let session_catalog = self.session_catalog(session);
        let dialect = self.catalog.dialect();
        syntax::parse_any(sql, dialect, &self.limits, |parsed| match parsed {
            Parsed::Query(query) => {
                let mode = Mode::Statement;
                let resolved =
                    resolve::resolve(query, &self.catalog, &session_catalog, mode, &self.limits)?;
                let changed = resolved.access.changes().map(|change| change.relation);
                Ok(Some(resolved.access.relations().chain(changed).collect()))
            }
            Parsed::Definition(_) => Ok(None),
        })
    }
}

impl Prospect {
    /// The sessions of `principal` in circumstances that together are all: without a template, and with each that it may run.
    pub fn sessions(&self, principal: &Principal) -> Vec<ProspectSession<'_>> {
        let mut found = Vec::new();
        for (index, firewall) in self.firewalls.iter().enumerate() {
            // Some time, since tokens have none without, and some client; which they are is supposed already.
            let session = Session::new(principal.clone())
                .at(Duration::ZERO)
                .of_client("client");
            // One that may run no template has an error of its own to tell.
            for template in firewall.templates(&session).unwrap_or_default() {
                let session = session.clone().running(&template.name, Vec::new());
                // Of a statement that is not understood, or names what is not there, nothing is run.
                let named = firewall.named_relations(&template.sql, &session);
                found.push(ProspectSession {
                    firewall,
                    named: named.unwrap_or_else(|_| Some(BTreeSet::new())),
                    session,
                    is_most_permissive: index == 0,
                });
            }
            found.push(ProspectSession {
                firewall,
                named: None,
                session,
                is_most_permissive: index == 0,
            });
        }
        found
    }
}

impl ProspectSession<'_> {
    /// Whether most is permitted in its circumstances, so that what is refused there is in any.
    #[must_use]
    pub fn is_most_permissive(&self) -> bool {
        self.is_most_permissive && self.session.template().is_none()
    }

    /// As [`Firewall::relations`].
    ///
    /// # Errors
    /// As there.
    pub fn relations(&self) -> Result<Vec<VisibleRelation>, Rejection> {
        let mut found = self.firewall.relations(&self.session)?;
        found.retain(|relation| self.is_named(&relation.schema, &relation.name));
        Ok(found)
    }

    /// As [`Firewall::changes`].
    ///
    /// # Errors
    /// As there.
    pub fn changes(&self) -> Result<Vec<PermittedChange>, Rejection> {
        let mut found = self.firewall.changes(&self.session)?;
        found.retain(|change| self.is_named(&change.schema, &change.name));
        Ok(found)
    }

    /// What a statement would read, or why it is refused. The statement itself stays here: what is only supposed is nothing
    /// that a backend may run.
    ///
    /// # Errors
    /// As [`Firewall::check`].
    pub fn check(&self, sql: &str) -> Result<Result<NeededReads, Rejection>, Error> {
        let decision = self.firewall.check(sql, &Params::None, &self.session)?;
        Ok(match decision {
            Decision::Allow(statement) => Ok(NeededReads {
                relations: statement.relations().to_vec(),
                replaced: (statement.sources().iter())
                    .map(|(uid, _)| uid.clone())
                    .collect(),
                reads: statement.engine_reads().clone(),
                referred: self.list_referred(statement.relations())?,
            }),
            Decision::Reject(why) => Err(why),
        })
    }

    /// What the filters of these relations read of tables to which their rows refer.
    fn list_referred(
        &self,
        relations: &[String],
    ) -> Result<BTreeMap<(String, String), BTreeSet<String>>, Error> {
        let view = self.firewall.policies.session(&self.session);
        let mut columns = BTreeMap::new();
        for relation in self.catalog().relations() {
            if !relations.contains(&relation.database_name()) {
                continue;
            }
            let decision = view.relation(relation.id);
            let decision = decision.map_err(|why| Error::Internal(why.to_string()))?;
            if let RowFilter::Where(predicate) = &decision.rows {
                columns_referred_to(predicate, &mut columns);
            }
        }
        Ok(name_columns(&columns, self.catalog()))
    }

    fn catalog(&self) -> &Catalog {
        &self.firewall.catalog
    }

    fn is_named(&self, schema: &str, name: &str) -> bool {
        self.named.as_ref().is_none_or(|named| {
            let relation = self.catalog().find(schema, name);
            relation.is_some_and(|relation| named.contains(&relation.id))
        })
    }
}
