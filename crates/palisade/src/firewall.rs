//! The pure entry: a statement, its parameters and a session in; a decision out.

mod catalogue;
mod flow;
mod sight;
#[cfg(test)]
mod tests;
mod trace;

use std::sync::Arc;

pub use crate::syntax::Fingerprint;
pub use catalogue::{VisibleColumn, VisibleForeignKey, VisibleRelation};
pub use trace::{ColumnTrace, RelationTrace, Trace};

use sight::{Sight, ViewCache};

use crate::{
    access::AccessSet,
    catalog::Catalog,
    code::Code,
    error::Error,
    limits::Limits,
    policy::{PolicySet, PolicySources, authorize},
    rejection::Rejection,
    resolve::{self, Mode},
    rewrite::{self, RewrittenStatement},
    session::Session,
    syntax,
    value::Params,
};

/// What became of a statement.
#[derive(Debug)]
#[must_use = "a refused statement must not be run"]
pub enum Decision {
    /// It may be run, exactly as printed.
    Allow(Box<RewrittenStatement>),
    /// It may not.
    Reject(Rejection),
}

/// Policies over a catalog, ready to decide. It has no connection, no clock and no state but caches:
/// the same input gives the same output.
#[derive(Debug)]
pub struct Firewall {
    catalog: Arc<Catalog>,
    policies: PolicySet,
    limits: Limits,
    views: ViewCache,
}

/// Collects what a [`Firewall`] needs.
#[derive(Debug)]
pub struct FirewallBuilder {
    catalog: Catalog,
    policies: PolicySources,
    limits: Limits,
}

impl FirewallBuilder {
    /// Other limits than the default ones.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Loads and checks everything.
    ///
    /// # Errors
    /// [`Error::Policies`] with every problem and its line.
    pub fn build(self) -> Result<Firewall, Error> {
        let catalog = Arc::new(self.catalog);
        let flow = flow::columns(&catalog, &self.limits);
        let policies = PolicySet::load(&self.policies, &catalog, &flow)?;
        Ok(Firewall {
            catalog,
            policies,
            limits: self.limits,
            views: ViewCache::default(),
        })
    }
}

impl Firewall {
    /// A firewall over `catalog` with `policies`; without any permit nothing is allowed.
    #[must_use]
    pub fn builder(catalog: Catalog, policies: PolicySources) -> FirewallBuilder {
        FirewallBuilder {
            catalog,
            policies,
            limits: Limits::default(),
        }
    }

    /// The catalog it decides over.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The policies it decides by.
    #[must_use]
    pub fn policies(&self) -> &PolicySet {
        &self.policies
    }

    /// The limits no caller can raise.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Decides about `sql` for `session`.
    ///
    /// # Errors
    /// [`Error::Internal`] if an invariant does not hold; a refusal is a [`Decision`].
    pub fn check(&self, sql: &str, params: &Params, session: &Session) -> Result<Decision, Error> {
        self.check_within(sql, params, session, &self.limits)
    }

    /// Like [`check`](Self::check) with limits that may be lower than the firewall's own; higher ones
    /// have no effect.
    ///
    /// # Errors
    /// As `check`.
    pub fn check_within(
        &self,
        sql: &str,
        params: &Params,
        session: &Session,
        limits: &Limits,
    ) -> Result<Decision, Error> {
        decision(self.decide(sql, params, session, limits, None))
    }

    /// Decides like [`check`](Self::check) and tells how: the record of that decision, not a second
    /// evaluation. It is the operator's; filters and policies of others stand in it.
    ///
    /// # Errors
    /// As `check`.
    pub fn explain(
        &self,
        sql: &str,
        params: &Params,
        session: &Session,
    ) -> Result<(Decision, Trace), Error> {
        let mut trace = Trace::of(sql, session);
        let result = self.decide(sql, params, session, &self.limits, Some(&mut trace));
        trace.conclude(&result);
        Ok((decision(result)?, trace))
    }

    /// What `sql` would touch if `session` asked: read and resolved, and nothing asked about whether it may.
    ///
    /// # Errors
    /// The refusal of a statement that is not understood, or that names what does not exist for the session.
    pub fn accesses(&self, sql: &str, session: &Session) -> Result<AccessSet, Rejection> {
        let sight = self.sight(session);
        syntax::parse(sql, self.catalog.dialect(), &self.limits, |parsed| {
            resolve::resolve(parsed, &self.catalog, &sight, Mode::Statement, &self.limits)
                .map(|resolved| resolved.access)
        })
    }

    /// Which statement `sql` is, literals aside.
    #[must_use]
    pub fn fingerprint(&self, sql: &str) -> Fingerprint {
        syntax::fingerprint(sql, self.catalog.dialect(), |word| {
            let key = self.catalog.dialect().fold(word);
            self.catalog
                .relations()
                .iter()
                .any(|r| self.catalog.dialect().fold(&r.name) == key || r.position(&key).is_some())
        })
    }

    /// What exists for `session`.
    fn sight<'f>(&'f self, session: &'f Session) -> Sight<'f> {
        Sight::new(self.policies.session(session), session, &self.views)
    }

    fn decide(
        &self,
        sql: &str,
        params: &Params,
        session: &Session,
        limits: &Limits,
        trace: Option<&mut Trace>,
    ) -> Result<RewrittenStatement, Rejection> {
        let limits = limits.lowered_by(&self.limits);
        let sight = self.sight(session);
        syntax::parse(sql, self.catalog.dialect(), &limits, |parsed| {
            let resolved =
                resolve::resolve(parsed, &self.catalog, &sight, Mode::Statement, &limits)?;
            let used = resolved.placeholders.keys().cloned().collect();
            params
                .check(&used)
                .map_err(|message| Rejection::new(Code::ParameterMismatch, message))?;
            let permit = authorize(sight.view(), &resolved.access)?;
            if let Some(trace) = trace {
                trace.record(&resolved, &permit, &self.catalog);
            }
            rewrite::rewrite(resolved, permit, params, &self.catalog, &sight, &limits)
        })
    }
}

fn decision(result: Result<RewrittenStatement, Rejection>) -> Result<Decision, Error> {
    match result {
        Ok(statement) => Ok(Decision::Allow(Box::new(statement))),
        Err(rejection) if rejection.code() == Code::Internal => Err(Error::Internal(
            rejection
                .operator_detail()
                .unwrap_or(rejection.message())
                .to_owned(),
        )),
        Err(rejection) => Ok(Decision::Reject(rejection)),
    }
}
