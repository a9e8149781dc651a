//! The pure entry: a statement, its parameters and a session in; a decision out.

mod access_level;
mod access_places;
mod access_table;
mod account_needs;
mod builder;
mod column_lineage;
mod deep_check;
mod metadata;
mod permitted_changes;
mod possible_approvals;
mod row_filters;
mod session_catalog;
mod shown_columns;
mod sole_cells;
mod standing;
mod statement_cache;
mod template_names;
#[cfg(test)]
mod tests;
mod trace;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

pub use crate::syntax::Fingerprint;
pub use access_level::AccessLevel;
pub use access_places::{AccessPlace, KnownColumn};
pub use access_table::{AccessCell, AccessClass};
pub use account_needs::{NeededReads, Prospect, ProspectSession};
pub use builder::FirewallBuilder;
pub use deep_check::DeepCheck;
pub use metadata::{VisibleColumn, VisibleForeignKey, VisibleRelation};
pub use permitted_changes::PermittedChange;
pub use row_filters::SeenRows;
pub use shown_columns::ShownColumn;
pub use sole_cells::SoleCells;
pub use standing::{Listing, Standing};
pub use trace::{ColumnTrace, RelationTrace, Trace, UsePlace};

use session_catalog::{SessionCatalog, ViewCache};
use statement_cache::StatementCache;

use crate::{
    access::AccessSet,
    catalog::Catalog,
    code::Code,
    did_you_mean,
    error::Error,
    limits::Limits,
    policy::{
        ApprovalDemand, AskedPolicy, Clause, ConditionValues, PolicySet, PolicySources, authorize,
        template::Template,
    },
    rejection::Rejection,
    resolve,
    resolve::Mode,
    rewrite,
    rewrite::{Prepared, RewrittenStatement, SourceCache},
    session::Session,
    stage_span::enter_stage,
    syntax,
    syntax::{Explain, Lexed, Parsed, ParsedQuery, Wording},
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

/// As [`Decision`], with what waits for an approval: the gate's alone.
pub(crate) enum Decided {
    /// It may be run, exactly as printed.
    Allow(Box<RewrittenStatement>),
    /// It may be run once the approval is there.
    Pending(Box<RewrittenStatement>, ApprovalDemand),
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
    cache_bytes: u64,
    limits: Limits,
    views: ViewCache,
    statements: StatementCache,
    source_cache: SourceCache,
}

/// A template with its arguments: a statement to be decided about, in a session of which policies know the
/// template. Only [`instantiate`](Firewall::instantiate) makes one.
#[derive(Debug)]
pub struct TemplateCall {
    sql: String,
    params: Params,
    session: Session,
}

impl TemplateCall {
    /// The statement.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Its parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }
}

impl Firewall {
    /// The same over another catalog and by other policies, with nothing remembered.
    ///
    /// # Errors
    /// As [`build`](FirewallBuilder::build): a policy may name what is not in the catalog.
    pub fn renewed(&self, catalog: Catalog, policies: PolicySources) -> Result<Self, Error> {
        self.rebuilt(catalog, policies, self.limits.clone())
    }

    /// The same within other limits, with nothing remembered.
    ///
    /// # Errors
    /// As [`build`](FirewallBuilder::build).
    pub fn limited(&self, limits: Limits) -> Result<Self, Error> {
        self.rebuilt((*self.catalog).clone(), self.sources.clone(), limits)
    }

    fn rebuilt(
        &self,
        catalog: Catalog,
        policies: PolicySources,
        limits: Limits,
    ) -> Result<Self, Error> {
        // A folder that is read again has no secret.
        let secret = policies
            .secret
            .clone()
            .or_else(|| self.sources.secret.clone());
        let policies = PolicySources { secret, ..policies };
        let builder = Self::builder(catalog, policies)
            .limits(limits)
            .cache_bytes(self.cache_bytes);
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

    /// Decides about `sql` for `session`. What waits for an approval is refused: only a [`Guard`](crate::guard::Guard) asks for one.
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
        decision(self.decide(sql.into(), params, session, limits, None))
    }

    /// As [`check_within`](Self::check_within), and says of what waits for an approval what it is.
    ///
    /// # Errors
    /// As `check`.
    pub(crate) fn decide_with_approval(
        &self,
        wording: Wording<'_>,
        params: &Params,
        session: &Session,
        limits: &Limits,
    ) -> Result<Decided, Error> {
        match self.decide(wording, params, session, limits, None) {
            Ok(statement) => Ok(match statement.approval().cloned() {
                None => Decided::Allow(Box::new(statement)),
                Some(demand) => Decided::Pending(Box::new(statement), demand),
            }),
            Err(rejection) => match decision(Err(rejection))? {
                Decision::Allow(statement) => Ok(Decided::Allow(statement)),
                Decision::Reject(rejection) => Ok(Decided::Reject(rejection)),
            },
        }
    }

    /// The statement of the template called `name` with these arguments, and the session in which it is decided: for tests, which
    /// look at decisions. [`run`](Self::run) decides about it at once.
    ///
    /// # Errors
    /// `template.unknown` where there is no such template, or `session` may not run it; `parameter.mismatch`.
    pub fn instantiate(
        &self,
        name: &str,
        arguments: &BTreeMap<String, Value>,
        session: &Session,
    ) -> Result<TemplateCall, Rejection> {
        let session_view = self.policies.session(session);
        let Some((template, policies)) = session_view.template(name)? else {
            let permitted = session_view.templates()?;
            let names = permitted.iter().map(|template| template.name.as_str());
            return Err(Rejection::new(
                Code::TemplateUnknown,
                match did_you_mean::closest(name, names) {
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
            session: session.clone().running(name, policies),
        })
    }

    /// Decides about the template called `name` with these arguments: `run` must be permitted on it, and what
    /// its statement touches by policies that may look at `context.template`.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_template(
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
        let session_view = self.policies.session(session);
        Ok(session_view.templates()?.into_iter().cloned().collect())
    }

    /// The columns, as policies name them, that policies show `session` and that the account of the connection may not read: for the
    /// operator. They do not exist for the session.
    #[must_use]
    pub fn withheld_columns(&self, session: &Session) -> Vec<String> {
        let view = self.policies.session(session);
        view.list_withheld()
            .into_iter()
            .map(str::to_owned)
            .collect()
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
        let mut trace = Trace::new(sql, session);
        let result = self.decide(sql.into(), params, session, &self.limits, Some(&mut trace));
        let result = result.and_then(refuse_pending);
        trace.conclude(&result);
        Ok((decision(result)?, trace))
    }

    /// The conditions of the policies that `trace` names, with the values that they have in `session`: for the operator, as a
    /// trace is.
    #[must_use]
    pub fn condition_values(&self, trace: &Trace, session: &Session) -> Vec<ConditionValues> {
        let mut asked = Vec::new();
        for relation in &trace.relations {
            let found = self.catalog.relations().iter();
            let Some(found) = found.into_iter().find(|one| one.uid == relation.relation) else {
                continue;
            };
            let about = |policy, column| AskedPolicy {
                policy,
                relation: Some(found.id),
                column,
            };
            let by = relation.policies.iter().chain(&relation.changed_by);
            asked.extend(by.map(|id| about(id.as_str(), None)));
            for column in &relation.columns {
                let id = found
                    .column_ids()
                    .find(|(_, one)| *one.name == *column.column);
                let id = id.map(|(id, _)| id);
                asked.extend(
                    column
                        .policies
                        .iter()
                        .map(|policy| about(policy.as_str(), id)),
                );
            }
        }
        // What decided about the whole, or refused.
        for policy in &trace.policies {
            if !asked.iter().any(|one| one.policy == policy) {
                asked.push(AskedPolicy {
                    policy,
                    relation: None,
                    column: None,
                });
            }
        }
        self.policies.condition_values(session, &asked)
    }

    /// The value of a clause in `session`, about the table with this uid, or one of its columns; none where its policy's scope
    /// does not take these, or it has no value before a statement is known.
    #[must_use]
    pub fn clause_value(
        &self,
        clause: &Clause,
        session: &Session,
        relation: &str,
        column: Option<&str>,
    ) -> Option<bool> {
        let mut relations = self.catalog.relations().iter();
        let found = relations.find(|one| one.uid == relation)?;
        let column = match column {
            None => None,
            Some(name) => {
                let mut columns = found.column_ids();
                Some(columns.find(|(_, one)| *one.name == *name)?.0)
            }
        };
        self.policies
            .clause_value(clause, session, found.id, column)
    }

    /// Everything that `sql` would touch, by the names that exist for `session`. Nothing is permitted by
    /// this.
    ///
    /// # Errors
    /// Every refusal that comes before policies are asked about the whole.
    pub fn resolve_access(&self, sql: &str, session: &Session) -> Result<AccessSet, Rejection> {
        let session_catalog = self.session_catalog(session);
        syntax::parse(sql, self.catalog.dialect(), &self.limits, |parsed| {
            resolve::resolve(
                parsed,
                &self.catalog,
                &session_catalog,
                Mode::Statement,
                &self.limits,
            )
            .map(|resolved| resolved.access)
        })
    }

    /// Whether policies permit `session` everything in `access`, an access set of this firewall: the stage
    /// of authorisation alone. It says nothing of obligations.
    ///
    /// # Errors
    /// With the first refusal.
    pub fn authorize(&self, access: &AccessSet, session: &Session) -> Result<(), Rejection> {
        let permit = authorize(self.session_catalog(session).session_view(), access)?;
        match permit.spent().approval {
            None => Ok(()),
            Some(demand) => Err(refuse_unapproved(&demand)),
        }
    }

    /// Whether `session` could change anything: changes are allowed, and some policy could permit its principal one. What
    /// is decided about a statement may still be a refusal.
    #[must_use]
    pub fn may_change(&self, session: &Session) -> bool {
        self.changes && self.policies.session(session).could_change()
    }

    /// The statement that asks for the plan of `sql`. [`Wording::plan`] reads it, so that places are those in `sql`.
    pub(crate) fn plan_of(&self, sql: &str) -> String {
        format!("{}{sql}", Explain::words(self.catalog.dialect()))
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
    fn session_catalog<'f>(&'f self, session: &'f Session) -> SessionCatalog<'f> {
        SessionCatalog::new(
            self.policies.session(session),
            self.policies.remembered(session),
            &self.views,
            self.changes,
        )
    }

    fn decide(
        &self,
        wording: Wording<'_>,
        params: &Params,
        session: &Session,
        limits: &Limits,
        trace: Option<&mut Trace>,
    ) -> Result<RewrittenStatement, Rejection> {
        let limits = limits.lowered_by(&self.limits);
        // What depends on the time is not remembered; everything else holds at any, and tokens in their epoch.
        let key = &*self.policies.remembered(session);
        // A trace is the record of a decision, not of a memory.
        let is_remembered = trace.is_none() && session.past().is_none();
        let known = is_remembered
            .then(|| self.statements.find(key, &limits, wording.full_text()))
            .flatten();
        if let Some(prepared) = known {
            return Prepared::bind(&prepared, params);
        }
        let lexed = Lexed::read(wording, self.catalog.dialect(), &limits)?;
        let session_catalog = self.session_catalog(session);
        let statement = self.decide_anew(lexed, params, &session_catalog, &limits, trace)?;
        if let Some(prepared) = statement.prepared()
            && session.past().is_none()
            && !session_catalog.session_view().depends_on_time()
        {
            self.statements
                .keep(key, &limits, wording.full_text(), prepared);
        }
        Ok(statement)
    }

    fn decide_anew(
        &self,
        lexed: Lexed<'_>,
        params: &Params,
        session_catalog: &SessionCatalog<'_>,
        limits: &Limits,
        trace: Option<&mut Trace>,
    ) -> Result<RewrittenStatement, Rejection> {
        let stage = enter_stage!("parse");
        lexed.parse(self.catalog.dialect(), limits, |parsed| match parsed {
            Parsed::Query(query) => {
                stage.end();
                self.decide_query(query, params, session_catalog, limits, trace)
            }
            Parsed::Definition(definition) => {
                stage.end();
                if session_catalog.is_past() {
                    return Err(refuse_change_of_past());
                }
                // Where no session may define anything, no definition is looked at further.
                if !self.changes || !session_catalog.session_view().may_define() {
                    return Err(definition.not_allowed());
                }
                let stage = enter_stage!("resolve");
                let resolved =
                    resolve::resolve_ddl(definition, &self.catalog, session_catalog, limits)?;
                stage.end();
                params
                    .check(&BTreeSet::new())
                    .map_err(|message| Rejection::new(Code::ParameterMismatch, message))?;
                let stage = enter_stage!("authorize");
                let authorized =
                    rewrite::authorize_definition(session_catalog.session_view(), resolved)?;
                stage.end();
                let _stage = enter_stage!("rewrite");
                rewrite::rewrite_definition(authorized, self.context(session_catalog, limits))
            }
        })
    }

    fn decide_query(
        &self,
        query: ParsedQuery<'_>,
        params: &Params,
        session_catalog: &SessionCatalog<'_>,
        limits: &Limits,
        trace: Option<&mut Trace>,
    ) -> Result<RewrittenStatement, Rejection> {
        let stage = enter_stage!("resolve");
        let resolved = resolve::resolve(
            query,
            &self.catalog,
            session_catalog,
            Mode::Statement,
            limits,
        )?;
        stage.end();
        if session_catalog.is_past() && !resolved.targets.is_empty() {
            return Err(refuse_change_of_past());
        }
        let used = resolved.placeholders.keys().cloned().collect();
        params
            .check(&used)
            .map_err(|message| Rejection::new(Code::ParameterMismatch, message))?;
        let stage = enter_stage!("authorize");
        let authorized = rewrite::authorize(session_catalog.session_view(), resolved)?;
        stage.end();
        if let Some(trace) = trace {
            trace.record(authorized.resolved(), authorized.permit(), &self.catalog);
        }
        let _stage = enter_stage!("rewrite");
        rewrite::rewrite(authorized, params, self.context(session_catalog, limits))
    }

    /// What the stages of the rewriter may look at.
    fn context<'c>(
        &'c self,
        session_catalog: &'c SessionCatalog<'_>,
        limits: &'c Limits,
    ) -> rewrite::Context<'c> {
        rewrite::Context {
            catalog: &self.catalog,
            visible: session_catalog,
            cache: &self.source_cache,
            limits,
        }
    }
}

/// Refuses a change in a session that reads tables as they were.
fn refuse_change_of_past() -> Rejection {
    Rejection::new(
        Code::StatementNotAllowed,
        "the past is read only: leave out as_of to change what there is now",
    )
}

/// Refuses what waits for an approval.
fn refuse_pending(statement: RewrittenStatement) -> Result<RewrittenStatement, Rejection> {
    match statement.approval() {
        None => Ok(statement),
        Some(demand) => Err(refuse_unapproved(demand)),
    }
}

fn refuse_unapproved(demand: &ApprovalDemand) -> Rejection {
    let code = Code::ApprovalRequired;
    Rejection::from(code).with_policies(demand.policies.clone())
}

fn decision(result: Result<RewrittenStatement, Rejection>) -> Result<Decision, Error> {
    match result.and_then(refuse_pending) {
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
