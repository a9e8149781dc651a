//! The pure entry: a statement, its parameters and a session in; a decision out.

mod account_needs;
mod column_lineage;
mod metadata;
mod permitted_changes;
mod plan_cache;
mod session_catalog;
mod stages;
#[cfg(test)]
mod tests;
mod trace;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

pub use crate::syntax::Fingerprint;
pub use account_needs::{Foreseen, Prospect, ProspectSession};
pub use metadata::{VisibleColumn, VisibleForeignKey, VisibleRelation};
pub use permitted_changes::PermittedChange;
pub use trace::{ColumnTrace, RelationTrace, Trace};

use plan_cache::PlanCache;
use session_catalog::{Sight, ViewCache};

use crate::{
    access::AccessSet,
    catalog::Catalog,
    code::Code,
    error::Error,
    ident,
    limits::Limits,
    policy::{PolicySet, PolicySources, authorize, system_relations_named, template::Template},
    rejection::Rejection,
    resolve,
    resolve::Mode,
    rewrite,
    rewrite::{FormCache, Plan, RewrittenStatement},
    session::Session,
    syntax,
    syntax::{Parsed, ParsedQuery, Tokens},
    token::TokenSecret,
    value::{Params, Value},
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
    /// Names of relations and columns, folded: what a fingerprint may show.
    names: HashSet<String>,
    policies: PolicySet,
    /// What the policies were loaded from.
    sources: PolicySources,
    /// Whether a statement may change anything at all.
    changes: bool,
    plan_bytes: u64,
    limits: Limits,
    views: ViewCache,
    plans: PlanCache,
    forms: FormCache,
}

/// Collects what a [`Firewall`] needs.
#[derive(Debug)]
pub struct FirewallBuilder {
    catalog: Catalog,
    policies: PolicySources,
    limits: Limits,
    changes: bool,
    plan_bytes: u64,
}

/// A template with its arguments: a statement to be decided about, in a session of which policies know the
/// template. Only [`instantiate`](Firewall::instantiate) makes one.
#[derive(Debug)]
pub(crate) struct TemplateCall {
    sql: String,
    params: Params,
    session: Session,
}

impl TemplateCall {
    /// The statement.
    #[must_use]
    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    /// Its parameters.
    #[must_use]
    pub(crate) fn params(&self) -> &Params {
        &self.params
    }

    /// The session.
    #[must_use]
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

/// Bytes that rewritten statements may take until the oldest are forgotten.
const PLAN_BYTES: u64 = 16 * 1024 * 1024;

impl FirewallBuilder {
    /// Other limits than the default ones.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Lets policies permit changes of data and of the schema. If not called, every statement that changes
    /// anything is refused by its name, so that a blanket permit of every action stays one of reading.
    #[must_use]
    pub fn allow_changes(self) -> Self {
        Self {
            changes: true,
            ..self
        }
    }

    /// The secret behind tokens and hash masks, instead of the one in the sources. Policies that give either
    /// do not load without one.
    #[must_use]
    pub fn token_secret(mut self, secret: TokenSecret) -> Self {
        self.policies.secret = Some(secret);
        self
    }

    /// About how many bytes of rewritten statements are remembered by their exact texts; 16 MiB if not called, none for 0.
    /// The decisions are the same.
    #[must_use]
    pub fn plan_bytes(self, plan_bytes: u64) -> Self {
        Self { plan_bytes, ..self }
    }

    /// Loads and checks everything.
    ///
    /// # Errors
    /// [`Error::Policies`] with every problem and its line.
    pub fn build(self) -> Result<Firewall, Error> {
        let named = system_relations_named(&self.policies, self.catalog.dialect());
        let catalog = Arc::new(self.catalog.with_system(named));
        let flow = column_lineage::columns(&catalog, &self.limits);
        let policies = PolicySet::load(&self.policies, &catalog, &flow)?;
        let names = catalog
            .relations()
            .iter()
            .flat_map(|relation| {
                let name = catalog.dialect().fold(&relation.name);
                let columns = relation.columns.iter();
                let columns = columns.map(|column| column.key.to_string());
                columns.chain([name])
            })
            .collect();
        Ok(Firewall {
            catalog,
            names,
            policies,
            sources: self.policies,
            changes: self.changes,
            plan_bytes: self.plan_bytes,
            limits: self.limits,
            views: ViewCache::default(),
            plans: PlanCache::new(self.plan_bytes),
            forms: FormCache::default(),
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
            changes: false,
            plan_bytes: PLAN_BYTES,
        }
    }

    /// The same over another catalog and by other policies, with nothing remembered.
    ///
    /// # Errors
    /// As [`build`](FirewallBuilder::build): a policy may name what is not in the catalog.
    pub fn renewed(&self, catalog: Catalog, policies: PolicySources) -> Result<Self, Error> {
        // A folder that is read again has no secret.
        let secret = policies
            .secret
            .clone()
            .or_else(|| self.sources.secret.clone());
        let policies = PolicySources { secret, ..policies };
        let builder = Self::builder(catalog, policies)
            .limits(self.limits.clone())
            .plan_bytes(self.plan_bytes);
        if self.changes {
            builder.allow_changes().build()
        } else {
            builder.build()
        }
    }

    /// What its policies were loaded from.
    #[must_use]
    pub fn sources(&self) -> &PolicySources {
        &self.sources
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

    /// The statement of the template called `name` with these arguments, and the session in which it is decided.
    ///
    /// # Errors
    /// `template.unknown` of one that `session` may not run, as of one that is not there; `parameter.mismatch`.
    pub(crate) fn instantiate(
        &self,
        name: &str,
        arguments: &BTreeMap<String, Value>,
        session: &Session,
    ) -> Result<TemplateCall, Rejection> {
        let view = self.policies.session(session);
        let Some(template) = view.template(name)? else {
            let permitted = view.templates()?;
            let names = permitted.iter().map(|template| template.name.as_str());
            return Err(Rejection::new(
                Code::TemplateUnknown,
                match ident::closest(name, names) {
                    Some(close) => {
                        format!("there is no template `{name}`; did you mean `{close}`?")
                    }
                    None => format!("there is no template `{name}`"),
                },
            ));
        };
        let params = template
            .bind(arguments)
            .map_err(|message| Rejection::new(Code::ParameterMismatch, message))?;
        Ok(TemplateCall {
            sql: template.sql.clone(),
            params,
            session: session.clone().running(name),
        })
    }

    /// Decides about the template called `name` with these arguments: `run` must be permitted on it, and what
    /// its statement touches by policies that may look at `context.template`.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn run(
        &self,
        name: &str,
        arguments: &BTreeMap<String, Value>,
        session: &Session,
    ) -> Result<Decision, Error> {
        match self.instantiate(name, arguments, session) {
            Ok(call) => self.check(call.sql(), call.params(), call.session()),
            Err(rejection) => Ok(Decision::Reject(rejection)),
        }
    }

    /// The templates that `session` may run.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn templates(&self, session: &Session) -> Result<Vec<Template>, Rejection> {
        let view = self.policies.session(session);
        Ok(view.templates()?.into_iter().cloned().collect())
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

    /// Whether `session` could change anything: changes are allowed, and some policy permits somebody one. What
    /// is decided about a statement may still be a refusal.
    #[must_use]
    pub fn may_change(&self, session: &Session) -> bool {
        let view = self.policies.session(session);
        self.changes && (view.may_write() || view.may_define())
    }

    /// Which statement `sql` is, literals aside.
    #[must_use]
    pub fn fingerprint(&self, sql: &str) -> Fingerprint {
        let dialect = self.catalog.dialect();
        syntax::fingerprint(sql, dialect, |word| {
            self.names.contains(&dialect.fold(word))
        })
    }

    /// What exists for `session`.
    fn sight<'f>(&'f self, session: &'f Session) -> Sight<'f> {
        Sight::new(
            self.policies.session(session),
            self.policies.remembered(session),
            &self.views,
            self.changes,
        )
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
        // What depends on the time is not remembered; everything else holds at any, and tokens in their epoch.
        let key = &*self.policies.remembered(session);
        // A trace is the record of a decision, not of a memory.
        let known = trace
            .is_none()
            .then(|| self.plans.find(key, &limits, sql))
            .flatten();
        if let Some(plan) = known {
            return Plan::bind(&plan, params);
        }
        let tokens = Tokens::read(sql, self.catalog.dialect(), &limits)?;
        let sight = self.sight(session);
        let statement = self.decide_anew(tokens, params, &sight, &limits, trace)?;
        if let Some(plan) = statement.plan()
            && !sight.view().depends_on_time()
        {
            self.plans.keep(key, &limits, sql, plan);
        }
        Ok(statement)
    }

    fn decide_anew(
        &self,
        tokens: Tokens<'_>,
        params: &Params,
        sight: &Sight<'_>,
        limits: &Limits,
        trace: Option<&mut Trace>,
    ) -> Result<RewrittenStatement, Rejection> {
        tokens.parse(self.catalog.dialect(), limits, |parsed| match parsed {
            Parsed::Query(query) => self.decide_query(query, params, sight, limits, trace),
            Parsed::Definition(definition) => {
                // Where nobody may define anything, no definition is looked at further.
                if !self.changes || !sight.view().may_define() {
                    return Err(definition.not_allowed());
                }
                let resolved = resolve::resolve_ddl(definition, &self.catalog, sight, limits)?;
                params
                    .check(&BTreeSet::new())
                    .map_err(|message| Rejection::new(Code::ParameterMismatch, message))?;
                let permit = authorize(sight.view(), &resolved.access)?;
                rewrite::define(resolved, permit, &self.catalog, sight, limits)
            }
        })
    }

    fn decide_query(
        &self,
        query: ParsedQuery<'_>,
        params: &Params,
        sight: &Sight<'_>,
        limits: &Limits,
        trace: Option<&mut Trace>,
    ) -> Result<RewrittenStatement, Rejection> {
        let resolved = resolve::resolve(query, &self.catalog, sight, Mode::Statement, limits)?;
        let used = resolved.placeholders.keys().cloned().collect();
        params
            .check(&used)
            .map_err(|message| Rejection::new(Code::ParameterMismatch, message))?;
        let permit = authorize(sight.view(), &resolved.access)?;
        if let Some(trace) = trace {
            trace.record(&resolved, &permit, &self.catalog);
        }
        rewrite::rewrite(
            resolved,
            permit,
            params,
            &self.catalog,
            sight,
            &self.forms,
            limits,
        )
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
