//! The decision: Cedar policies over what a statement touches.
//!
//! A [`PolicySet`] is loaded from texts against one catalog; everything that can be wrong with it is
//! found then, with file and line. A [`SessionView`] is what one principal gets to see of the
//! catalog, decided when first asked and remembered. Cedar itself skips a policy that fails to
//! evaluate; here a failure denies. No other module names Cedar.

mod approval;
mod authorize;
mod cedar;
mod decide;
mod inheritance;
mod lint;
mod load;
pub mod obligation;
mod review;
mod rule;
mod session_view;
mod set;
mod sources;
mod statement_conditions;
mod symbolic;
#[cfg(test)]
mod tests;
mod time_dependent;

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

pub use approval::{ApprovalDemand, ApprovalLevel, ReadingDemand};
pub use authorize::Permit;
pub use cedar::schema::{row_type, schema_text};
pub use cedar::schema_fragment::read_ahead;
pub use decide::functions::FunctionDecision;
pub(crate) use decide::system_relations::named_in as system_relations_named;
pub use decide::writes::{ActionDecision, ColumnWrite, WriteDecision};
pub use lint::Lint;
pub use load::annotation::{ANNOTATIONS, Annotation};
pub use load::classification::ColumnFlow;
pub use load::diagnostic::{PolicyErrors, PolicyProblem, SourceSpan};
pub use load::format::{find_syntax_errors, format_policies};
pub use load::template;
pub use load::word::{PolicyWord, PolicyWordKind, find_begun_word, find_word};
pub use review::action_note::{ACTIONS, ActionNote};
pub use review::clause::{Clause, ClauseAbout, PolicyOutline, outline};
pub(crate) use review::condition_values::AskedPolicy;
pub use review::condition_values::{ConditionPart, ConditionValues};
pub use review::mutant::{Mutant, Mutation, mutate};
pub use review::rule_example::RuleExample;
pub use rule::Rule;
pub use session_view::SessionView;
pub use sources::{PolicyFile, PolicyOrigin, PolicySources};
pub(crate) use statement_conditions::PendingEstimatePolicies;
pub use symbolic::{
    Amount, Aspect, Setting, SymbolicAnswer, SymbolicModel, SymbolicQuestion, Whose,
};

pub(crate) use authorize::{SpentPermit, authorize};

use cedar::{by_action::Slices, schema::PolicyAction};
use lint::{ignores, ignores::Tried};
use review::{clause, condition_values, what_if};
use set::Loaded;

use crate::{
    access::Usage,
    catalog::{Catalog, ColumnId, RelationId},
    session::{Principal, Session},
    token::TokenSecret,
};

/// Validated policies over one catalog. Immutable; make a new one when either changes.
#[derive(Debug)]
pub struct PolicySet {
    loaded: Arc<Loaded>,
    sessions: Mutex<HashMap<Session, Arc<SessionView>>>,
}

/// What a policy does where it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyEffect {
    /// It permits.
    Permit,
    /// It forbids.
    Forbid,
}

impl PolicyEffect {
    /// As Cedar writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Permit => "permit",
            Self::Forbid => "forbid",
        }
    }
}

/// Takes away the warnings of a deep check that comments silence, and adds those of comments that silence none.
pub(crate) fn silence_deep(sources: &PolicySources, warnings: &mut Vec<PolicyProblem>) {
    ignores::apply(sources, warnings, Tried::Deep);
}

/// How many sessions' decisions are remembered; when more come, all are forgotten.
const SESSIONS: usize = 1024;

impl PolicySet {
    /// Parses, validates and checks `sources` against `catalog`. `flow` says which columns of views
    /// and which generated columns are computed from which others, for their tags.
    ///
    /// # Errors
    /// If anything is wrong: syntax, an unknown type, attribute, entity or annotation, a row policy
    /// that forbids by a condition without SQL form. All problems of a stage are reported together.
    pub fn load(
        sources: &PolicySources,
        catalog: &Arc<Catalog>,
        flow: &ColumnFlow,
    ) -> Result<Self, PolicyErrors> {
        Self::load_and_lint(sources, catalog, flow, Lint::Sample)
    }

    /// The ids of the operator's entities of this type, sorted.
    pub(crate) fn listed_ids(&self, kind: &str) -> Vec<String> {
        let mut ids: Vec<String> = self
            .loaded
            .store
            .operator
            .iter()
            .map(cedar_policy::Entity::uid)
            .filter(|uid| uid.type_name().to_string() == kind)
            .map(|uid| uid.id().unescaped().to_owned())
            .collect();
        ids.sort();
        ids
    }

    /// The one of `ids` that was probably meant by `id`.
    pub(crate) fn closest(id: &str, ids: &[String]) -> Option<String> {
        load::diagnostic::probably(id, ids.iter().map(String::as_str)).map(str::to_owned)
    }

    /// As [`load`](Self::load), with the policies tried on as many relations as `lint` says.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_and_lint(
        sources: &PolicySources,
        catalog: &Arc<Catalog>,
        flow: &ColumnFlow,
        lint: Lint,
    ) -> Result<Self, PolicyErrors> {
        let loaded = Arc::new(load::load(sources, catalog, flow, lint)?);
        Ok(Self {
            loaded,
            sessions: Mutex::default(),
        })
    }

    /// Policies that no longer look at circumstances; a template is none. The first set permits what these permit in any
    /// circumstances. The others have the conditions and masks of some circumstances. Policies that look at none come alone.
    ///
    /// # Errors
    /// A text if a policy cannot be written down.
    pub(crate) fn suppositions(&self) -> Result<Vec<Self>, String> {
        let all = what_if::suppose_circumstances(&self.loaded.policies)?;
        Ok(all.into_iter().map(|one| self.with_slices(one)).collect())
    }

    /// Policies that no longer look at circumstances. What is decided alike by all of them is decided so in any circumstances.
    /// None where no policy looks at any.
    ///
    /// # Errors
    /// A text if a policy cannot be written down.
    pub(crate) fn corners(&self) -> Result<Vec<Self>, String> {
        let all = what_if::suppose_corners(&self.loaded.policies)?;
        Ok(all.into_iter().map(|one| self.with_slices(one)).collect())
    }

    /// The same policies without those that cannot apply to `principal`, where that is less work than to ask them all: for whoever
    /// asks about everything that it may do. None where nothing is gained, or nothing is known of it.
    pub(crate) fn about_principal(&self, principal: &Principal) -> Option<Self> {
        let loaded = &self.loaded;
        let relations = loaded.catalog.relations().iter();
        let columns: usize = relations.map(|relation| relation.columns.len()).sum();
        if what_if::find_ids(&loaded.policies).len() > columns {
            return None;
        }
        let session = Session::new(principal.clone());
        let subject = cedar::request::Subject::new(loaded, &session).ok()?;
        let above = subject.entities.ancestors(&subject.uid);
        let above = above.into_iter().flatten().cloned().collect();
        let policies = loaded.policies.about_principal(&subject.uid, &above).ok()?;
        Some(self.with_slices(policies))
    }

    fn with_slices(&self, policies: Slices) -> Self {
        let mut loaded = Loaded::clone(&self.loaded);
        loaded.timed = time_dependent::actions(&policies);
        loaded.policies = policies;
        Self {
            loaded: Arc::new(loaded),
            sessions: Mutex::default(),
        }
    }

    /// The conditions of the policy called `id`, if they look at circumstances.
    pub(crate) fn circumstances_of(&self, id: &str) -> Option<String> {
        what_if::describe_circumstances(&self.loaded.policies, id)
    }

    /// The conditions of policies with the values that they have in `session`; none where the principal is of no known type.
    pub(crate) fn condition_values(
        &self,
        session: &Session,
        asked: &[AskedPolicy<'_>],
    ) -> Vec<ConditionValues> {
        let Ok(subject) = cedar::request::Subject::new(&self.loaded, session) else {
            return Vec::new();
        };
        condition_values::find_values(&self.loaded, &subject, asked).unwrap_or_default()
    }

    /// The value of a clause in `session`, about a table or a column.
    pub(crate) fn clause_value(
        &self,
        clause: &Clause,
        session: &Session,
        relation: RelationId,
        column: Option<ColumnId>,
    ) -> Option<bool> {
        let subject = cedar::request::Subject::new(&self.loaded, session).ok()?;
        clause::value(&self.loaded, &subject, clause, relation, column)
    }

    /// The actions on tables that some policy permits somebody, as a statement's kind names them.
    #[must_use]
    pub fn permitted_actions(&self) -> Vec<&'static str> {
        let is_of_statements =
            |action: PolicyAction| action == PolicyAction::Select || action.is_changing_statement();
        let permitted = |action: &PolicyAction| self.loaded.policies.permits(*action);
        let actions = PolicyAction::filter(is_of_statements).filter(permitted);
        actions.map(PolicyAction::name).collect()
    }

    /// Whether two policies are about an action both.
    pub(crate) fn share_action(&self, one: &str, other: &str) -> bool {
        let policies = &self.loaded.policies;
        let is_shared =
            |action: &PolicyAction| policies.has(*action, one) && policies.has(*action, other);
        PolicyAction::ALL.iter().any(is_shared)
    }

    /// The uses of columns that policies name, `output` or `order`, by their words; none where no policy looks at `context.usage`.
    #[must_use]
    pub fn named_usages(&self) -> Vec<&'static str> {
        let usages = what_if::find_usages(&self.loaded.policies);
        usages.into_iter().map(Usage::name).collect()
    }

    /// The ids of all policies, sorted.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<String> {
        what_if::find_ids(&self.loaded.policies)
    }

    /// The id of a principal that stands for all that neither entities nor policies name.
    pub(crate) const OTHERS: &str = "\u{1}others";

    /// The principals that entities or policies name, and for each type one for all others.
    pub(crate) fn known_principals(&self) -> Vec<Principal> {
        let mut kinds: BTreeSet<String> = BTreeSet::new();
        kinds.extend(
            self.loaded
                .schemas
                .fixed
                .principals()
                .map(ToString::to_string),
        );
        let named = what_if::find_entities(&self.loaded.policies);
        let mut found = Vec::new();
        for kind in kinds {
            let mut ids: BTreeSet<String> = self.listed_ids(&kind).into_iter().collect();
            let of_kind = named.iter().filter(|(other, _)| *other == kind);
            ids.extend(of_kind.map(|(_, id)| id.clone()));
            ids.insert(Self::OTHERS.to_owned());
            found.extend(ids.into_iter().map(|id| Principal::new(kind.clone(), id)));
        }
        found
    }

    /// The Cedar schema generated from `catalog`, the principal types aside.
    #[must_use]
    pub fn schema_text(catalog: &Catalog) -> String {
        schema_text(catalog)
    }

    /// A digest of the sources, the catalog and the flow: equal versions, equal decisions.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.loaded.version
    }

    /// A digest of the texts of policies, classification and templates.
    #[must_use]
    pub fn texts_digest(&self) -> &str {
        &self.loaded.texts_digest
    }

    /// A digest of the principals: their schema and their entities.
    #[must_use]
    pub fn entities_digest(&self) -> &str {
        &self.loaded.entities_digest
    }

    /// What is odd but does not stop the policies from loading.
    #[must_use]
    pub fn warnings(&self) -> &[PolicyProblem] {
        &self.loaded.warnings
    }

    /// Why no statement can read a view: its definition is not understood. None of what can be read.
    #[must_use]
    pub fn why_unread(&self, view: RelationId) -> Option<&str> {
        self.loaded.flow.unread.get(&view).map(String::as_str)
    }

    /// The catalog the policies were loaded against.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.loaded.catalog
    }

    /// The tags of a column, those of what it is computed from included.
    pub(crate) fn tags(&self, id: ColumnId) -> Vec<String> {
        let tags = self.loaded.tags.of_column(id);
        tags.map(str::to_owned).collect()
    }

    /// The names and patterns of the classification that chose the column itself.
    pub(crate) fn choices(&self, id: ColumnId) -> Vec<String> {
        let choices = self.loaded.tags.choices(id);
        choices.map(str::to_owned).collect()
    }

    /// Permits of tables that reach other databases than the connection's own, each with its place. On MySQL and MariaDB alone
    /// an account can read several.
    #[must_use]
    pub fn permits_beyond_the_database(&self) -> &[PolicyProblem] {
        &self.loaded.beyond
    }

    /// The templates, by name.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &template::Template> {
        self.loaded.templates.all()
    }

    /// The same with more warnings, of what only the whole firewall can tell, and without those that the sources ignore.
    pub(crate) fn with_warnings(
        mut self,
        sources: &PolicySources,
        more: Vec<PolicyProblem>,
    ) -> Self {
        let warnings = &mut Arc::make_mut(&mut self.loaded).warnings;
        let more = more.into_iter();
        warnings.extend(more.map(|warning| warning.of_rule(Rule::TemplateNames)));
        ignores::apply(sources, warnings, Tried::Every);
        self
    }

    /// What the policy called `id` does where it applies; none where there is no such policy.
    #[must_use]
    pub fn effect(&self, id: &str) -> Option<PolicyEffect> {
        let mut policies = what_if::each(&self.loaded.policies);
        let policy = policies.find(|policy| policy.id().as_ref() as &str == id)?;
        Some(match policy.effect() {
            cedar_policy::Effect::Permit => PolicyEffect::Permit,
            cedar_policy::Effect::Forbid => PolicyEffect::Forbid,
        })
    }

    /// Whether there are templates.
    #[must_use]
    pub fn has_templates(&self) -> bool {
        self.loaded.templates.names().next().is_some()
    }

    /// Whether any policy demands an approval.
    #[must_use]
    pub fn demands_approval(&self) -> bool {
        self.loaded.demands_approval
    }

    /// Whether any policy looks at the time, or tokens expire, so that sessions should have one.
    #[must_use]
    pub fn looks_at_time(&self) -> bool {
        !self.loaded.timed.is_empty() || self.tokens_expire()
    }

    fn tokens_expire(&self) -> bool {
        self.loaded
            .secret
            .as_ref()
            .is_some_and(TokenSecret::expires)
            && self.gives_tokens()
    }

    fn gives_tokens(&self) -> bool {
        self.loaded.policies.permits(PolicyAction::ReadToken)
    }

    /// By what of `session` to remember what does not depend on its time: the epoch of tokens is all that is left of that. Where there are
    /// no tokens, sessions that differ in their scope alone are one.
    pub(crate) fn remembered<'s>(&self, session: &'s Session) -> Cow<'s, Session> {
        let secret = self.loaded.secret.as_ref().filter(|_| self.tokens_expire());
        let epoch = secret.and_then(|secret| secret.epoch(session.time()));
        let is_scoped = session.token_scope().is_some() && !self.gives_tokens();
        if session.time().is_none() && session.epoch() == epoch && !is_scoped {
            return Cow::Borrowed(session);
        }
        let session = session.timeless(epoch);
        Cow::Owned(if is_scoped {
            session.unscoped()
        } else {
            session
        })
    }

    /// What exists for `session`. Nothing is decided yet; what gets decided is remembered, for this
    /// session and any equal one; what depends on the time is forgotten with the answer.
    #[must_use]
    pub fn session(&self, session: &Session) -> Arc<SessionView> {
        // The past is read by the policies of now.
        if session.past().is_some() {
            return self.session(&session.in_present());
        }
        let key = self.remembered(session);
        let steady = self.steady(&key);
        if session.time().is_none() || self.loaded.timed.is_empty() {
            return steady;
        }
        let session = session.in_epoch(key.epoch());
        Arc::new(SessionView::at(Arc::clone(&self.loaded), &session, steady))
    }

    /// What exists for a session whatever the time.
    fn steady(&self, session: &Session) -> Arc<SessionView> {
        // A poisoned lock guards a map of finished values; the panic was elsewhere.
        let sessions = || self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = sessions().get(session) {
            return Arc::clone(view);
        }
        // Made without the lock; where two threads make one, the first stays.
        let view = Arc::new(SessionView::new(Arc::clone(&self.loaded), session));
        let mut sessions = sessions();
        if sessions.len() >= SESSIONS {
            sessions.clear();
        }
        Arc::clone(sessions.entry(session.clone()).or_insert(view))
    }
}
