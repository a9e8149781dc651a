//! What exists for one session: decided when first asked, then remembered.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use cedar_policy::{Effect, PolicyId};

use crate::policy::{
    approval::{ApprovalDemand, ApprovalLevel, ReadingDemand},
    cedar::{
        entities::resource,
        failure::Failure,
        request::{Subject, decide, decide_among},
        schema,
        schema::PolicyAction,
    },
    decide::{
        columns, ddl, functions,
        functions::FunctionDecision,
        relation, system_relations, writes,
        writes::{ActionDecision, WriteDecision},
    },
    load::template::Template,
    obligation::{ColumnDecision, ColumnLevel, RelationDecision, Visibility},
    review::possible_permits,
    set::Loaded,
    time_dependent,
};
use crate::{
    access::{DefinitionAccess, GivenColumn},
    catalog::{
        Catalog, Change, Relation, RelationId, RelationKind, SystemClass, SystemRelation,
        functions::FunctionDef,
    },
    rejection::Rejection,
    session::{Principal, Session},
};

/// What one session may know of the catalog. An answer, once given, does not change.
#[derive(Debug)]
pub struct SessionView {
    principal: Principal,
    run_policies: Vec<String>,
    pub(in crate::policy) loaded: Arc<Loaded>,
    pub(in crate::policy) subject: Result<Subject, Rejection>,
    relations: Mutex<HashMap<RelationId, Result<Arc<RelationDecision>, Rejection>>>,
    functions: Mutex<HashMap<String, Result<Arc<FunctionDecision>, Rejection>>>,
    writes: Mutex<HashMap<RelationId, Result<Arc<WriteDecision>, Rejection>>>,
    /// Whether reads and changes could wait for an approval.
    may_wait: OnceLock<(bool, bool)>,
    /// Whether it could change anything.
    could_change: OnceLock<bool>,
    /// Set for a session that has a time which policies look at.
    moment: Option<Moment>,
}

impl SessionView {
    pub(in crate::policy) fn new(loaded: Arc<Loaded>, session: &Session) -> Self {
        let subject = Subject::new(&loaded, session);
        Self {
            principal: session.principal().clone(),
            run_policies: session.run_policies().to_vec(),
            loaded,
            subject,
            relations: Mutex::default(),
            functions: Mutex::default(),
            writes: Mutex::default(),
            may_wait: OnceLock::new(),
            could_change: OnceLock::new(),
            moment: None,
        }
    }

    /// Who asks.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Who asks, with its roles and other groups: `Agent::"ana" (in Role::"analyst")`. For the operator.
    pub(crate) fn shown_principal(&self) -> String {
        let groups = match &self.subject {
            Ok(subject) => {
                let around = subject.entities.ancestors(&subject.uid).into_iter();
                let mut groups: Vec<String> = around.flatten().map(ToString::to_string).collect();
                groups.sort();
                groups
            }
            Err(_) => Vec::new(),
        };
        if groups.is_empty() {
            format!("{} (in no role)", self.principal)
        } else {
            format!("{} (in {})", self.principal, groups.join(", "))
        }
    }

    /// Ids of the policies that let the session's template run.
    pub(crate) fn run_policies(&self) -> &[String] {
        &self.run_policies
    }

    /// The catalog of which this is a view.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.loaded.catalog
    }

    /// The columns that policies show the session, and that the account of the connection may not read.
    pub(crate) fn list_withheld(&self) -> Vec<&str> {
        let Ok(subject) = &self.subject else {
            return Vec::new();
        };
        let relations = self.loaded.catalog.relations().iter();
        let selectable = relations.filter(|relation| {
            let decided = self.relation(relation.id);
            decided.is_ok_and(|decided| decided.visibility == Visibility::Selectable)
        });
        let withheld = |relation| columns::list_withheld(&self.loaded, subject, relation);
        selectable
            .flat_map(|relation| withheld(relation).unwrap_or_default())
            .collect()
    }

    /// The decision about a relation. A relation that is unreadable by its kind, or of another catalog,
    /// is absent.
    ///
    /// # Errors
    /// `policy.evaluation-failed` if a policy that could matter fails to evaluate;
    /// `policy.no-permit` if the session's principal is of no type that policies can permit anything.
    pub fn relation(&self, id: RelationId) -> Result<Arc<RelationDecision>, Rejection> {
        let decision = self.decide_relation(id)?;
        let relation = self.loaded.catalog.relation(id);
        let class = relation.and_then(|r| Some(r.system?.class));
        match (relation, class, decision.visibility) {
            (
                Some(relation),
                Some(SystemClass::Catalog),
                Visibility::Absent | Visibility::Discoverable(_),
            ) => Ok(self
                .decide_name_relation(relation)?
                .map_or(decision, Arc::new)),
            _ => Ok(decision),
        }
    }

    /// What is read of a relation that tells of names alone without a permit that names it; not remembered, since what it depends
    /// on is.
    fn decide_name_relation(
        &self,
        relation: &Relation,
    ) -> Result<Option<RelationDecision>, Rejection> {
        if !self.sees_everything()? {
            return Ok(None);
        }
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        // Notes whether it depends on the time.
        let _ = self.steady(PolicyAction::is_read);
        system_relations::decide_name_relation(&self.loaded, subject, relation)
            .map_err(Rejection::from)
    }

    /// Whether a relation of the engine's own that no policy names may be read: it tells of names alone, nothing of the catalog is
    /// kept from the session, and nothing forbids it.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn reads_system(&self, known: &SystemRelation) -> Result<bool, Rejection> {
        match known.class {
            SystemClass::Catalog => {}
            SystemClass::Activity
            | SystemClass::Statistics
            | SystemClass::Secrets
            | SystemClass::Storage
            | SystemClass::Settings => return Ok(false),
        }
        if !self.sees_everything()? {
            return Ok(false);
        }
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        // Notes whether it depends on the time.
        let _ = self.steady(PolicyAction::is_read);
        system_relations::is_unforbidden(&self.loaded, subject, known).map_err(Rejection::from)
    }

    fn decide_relation(&self, id: RelationId) -> Result<Arc<RelationDecision>, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        if let Some(known) = lock(&self.relations).get(&id) {
            return known.clone();
        }
        if let (Some(moment), Some(relation)) = (&self.moment, self.loaded.catalog.relation(id))
            && let Some(steady) = moment.steady_relation(&self.loaded, subject, relation)?
        {
            return steady.decide_relation(id);
        }
        // Decided without the lock: two threads may do the work twice, with the same result.
        let decision = self
            .loaded
            .catalog
            .relation(id)
            .filter(|relation| schema::has_entity(relation))
            .map_or_else(
                || Ok(relation::deny_relation(self.loaded.catalog.relation(id))),
                |relation| relation::decide_relation(&self.loaded, subject, relation),
            )
            .map(Arc::new)
            .map_err(Rejection::from);
        lock(&self.relations).insert(id, decision.clone());
        decision
    }

    /// Whether any policy permits anybody to change anything.
    #[must_use]
    pub fn may_write(&self) -> bool {
        Change::ALL
            .into_iter()
            .any(|change| self.loaded.policies.permits(writes::action(change)))
    }

    /// Whether any policy permits anybody to change the schema or to empty tables.
    #[must_use]
    pub fn may_define(&self) -> bool {
        // Emptying a table is permitted as a change, and is a statement of its own like a definition.
        PolicyAction::filter(|action| action.is_definition() || action == PolicyAction::Truncate)
            .any(|action| self.loaded.policies.permits(action))
    }

    /// Whether some policy could permit the principal to change anything. Forbids do not count, nor conditions that look at
    /// more than the principal.
    pub(crate) fn could_change(&self) -> bool {
        // It looks at no time.
        if let Some(moment) = &self.moment {
            return moment.steady.could_change();
        }
        *self.could_change.get_or_init(|| {
            let is_asked = PolicyAction::is_changing_statement;
            let subject = self.subject.as_ref();
            subject.is_ok_and(|subject| {
                possible_permits::could_permit(&self.loaded, subject, is_asked)
            })
        })
    }

    /// Whether some policy could permit the principal to approve what others propose. A hint.
    pub(crate) fn could_approve(&self) -> bool {
        // It looks at no time.
        if let Some(moment) = &self.moment {
            return moment.steady.could_approve();
        }
        let is_asked = |action| action == PolicyAction::Approve;
        let subject = self.subject.as_ref();
        subject.is_ok_and(|subject| possible_permits::could_permit(&self.loaded, subject, is_asked))
    }

    /// Whether the schema may be changed so.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn decide_definition(
        &self,
        access: &DefinitionAccess,
    ) -> Result<ActionDecision, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        // Notes whether it depends on the time; it is not remembered either way.
        let _ = self.steady(|action| action == ddl::action(access.definition));
        ddl::decide_definition(&self.loaded, subject, access).map_err(Rejection::from)
    }

    /// What the session would read of a column that is to be, where that is tokens or hashes.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub(in crate::policy) fn decide_given(
        &self,
        column: &GivenColumn,
    ) -> Result<Option<ColumnDecision>, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        // As of a definition.
        let _ = self.steady(PolicyAction::is_read);
        ddl::decide_given_column(&self.loaded, subject, column).map_err(Rejection::from)
    }

    /// The changes that are permitted of a relation; none unless it is a table.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn write(&self, id: RelationId) -> Result<Arc<WriteDecision>, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        if let Some(known) = lock(&self.writes).get(&id) {
            return known.clone();
        }
        if let Some(steady) = self.steady(PolicyAction::is_change) {
            return steady.write(id);
        }
        let decision = match self.loaded.catalog.relation(id) {
            Some(relation) if relation.kind == RelationKind::Table => {
                writes::decide_writes(&self.loaded, subject, relation)
            }
            Some(_) | None => Ok(WriteDecision::nothing()),
        };
        let decision = decision.map(Arc::new).map_err(Rejection::from);
        lock(&self.writes).insert(id, decision.clone());
        decision
    }

    /// Whether one of `policies` forbids calls.
    pub(in crate::policy) fn forbids_call(&self, policies: &[String]) -> bool {
        let of_calls = self.loaded.policies.for_action(PolicyAction::Call);
        let forbids = |id: &String| {
            let policy = of_calls.and_then(|all| all.policy(&PolicyId::new(id)));
            policy.is_some_and(|policy| policy.effect() == Effect::Forbid)
        };
        policies.iter().any(forbids)
    }

    /// Whether a function may be called. A function that reaches beyond its arguments needs a permit whose
    /// scope names it; a blanket permit does not count.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn function(&self, def: &FunctionDef) -> Result<Arc<FunctionDecision>, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        if let Some(known) = lock(&self.functions).get(&def.uid) {
            return known.clone();
        }
        if let Some(steady) = self.steady(|action| action == PolicyAction::Call) {
            return steady.function(def);
        }
        let decision = functions::decide_call(&self.loaded, subject, def)
            .map(Arc::new)
            .map_err(Rejection::from);
        lock(&self.functions).insert(def.uid.clone(), decision.clone());
        decision
    }

    /// Whether nothing of the catalog is kept from the session: every relation is readable, whole and
    /// without masks. Names in the engine's own relations tell such a session nothing new.
    ///
    /// # Errors
    /// As [`relation`](Self::relation), for the first relation that fails.
    pub fn sees_everything(&self) -> Result<bool, Rejection> {
        for relation in self.loaded.catalog.relations() {
            match relation.kind {
                RelationKind::Table | RelationKind::View | RelationKind::Materialized => {}
                RelationKind::Virtual | RelationKind::System => continue,
            }
            let decision = self.relation(relation.id)?;
            if decision.visibility != Visibility::Selectable || decision.has_obligation() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every relation that exists for the session, in the catalog's order; of the engine's own those that it is permitted by name.
    ///
    /// # Errors
    /// As [`relation`](Self::relation), for the first relation that fails.
    pub fn discoverable(&self) -> Result<Vec<(RelationId, Arc<RelationDecision>)>, Rejection> {
        let mut out = Vec::new();
        for relation in self.loaded.catalog.relations() {
            let decision = self.decide_relation(relation.id)?;
            match decision.visibility {
                Visibility::Selectable | Visibility::Discoverable(_) => {
                    out.push((relation.id, decision));
                }
                Visibility::Absent => {}
            }
        }
        Ok(out)
    }
}

impl SessionView {
    /// The template called `name`, if `run` is permitted on it, and by which policies. An approval that those demand is demanded
    /// of its statement.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn template(&self, name: &str) -> Result<Option<(&Template, Vec<String>)>, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        let Some(template) = self.loaded.templates.get(name) else {
            return Ok(None);
        };
        let resource = resource("Template", name)?;
        let verdict = decide_among(
            &self.loaded,
            subject,
            PolicyAction::Run,
            resource,
            &subject.entities,
            subject.context.clone(),
        )?;
        Ok(verdict.permitted.then_some((template, verdict.policies)))
    }

    /// Whether the session may approve changes that others propose of a relation, and the policies that determine it.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn decide_approval(&self, id: RelationId) -> Result<(bool, Vec<String>), Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        let Some(relation) = self.loaded.catalog.relation(id) else {
            return Ok((false, Vec::new()));
        };
        let table = resource("Table", &relation.uid)?;
        let verdict = decide(
            &self.loaded,
            subject,
            PolicyAction::Approve,
            relation,
            table,
        )?;
        Ok((verdict.permitted, verdict.policies))
    }

    /// The templates that the session may run, by name.
    ///
    /// # Errors
    /// As [`relation`](Self::relation), for the first that fails.
    pub fn templates(&self) -> Result<Vec<&Template>, Rejection> {
        let mut out = Vec::new();
        for name in self.loaded.templates.names() {
            out.extend(self.template(name)?.map(|(template, _)| template));
        }
        Ok(out)
    }

    /// Whether a statement that reads could wait for an approval: a permit that demands one could apply to the principal. A
    /// hint, which forbids do not change.
    pub(crate) fn reads_may_wait(&self) -> bool {
        self.may_wait().0
    }

    /// As [`reads_may_wait`](Self::reads_may_wait), for what a statement changes.
    pub(crate) fn changes_may_wait(&self) -> bool {
        self.may_wait().1
    }

    fn may_wait(&self) -> (bool, bool) {
        // It looks at no time.
        if let Some(moment) = &self.moment {
            return moment.steady.may_wait();
        }
        *self.may_wait.get_or_init(|| {
            let Ok(subject) = &self.subject else {
                return (false, false);
            };
            let could = |is_asked: fn(PolicyAction) -> bool| {
                possible_permits::could_demand(&self.loaded, subject, is_asked)
            };
            (
                could(possible_permits::is_of_reading),
                could(possible_permits::is_of_changing),
            )
        })
    }

    /// The approval that `determining` policies demand, of which `reading` permit what is read and called. Several permits of one
    /// thing combine to the strictest.
    pub(in crate::policy) fn demanded_approval(
        &self,
        determining: &[String],
        reading: impl FnOnce() -> Vec<String>,
    ) -> Option<ApprovalDemand> {
        let (level, policies) = self.strictest_approval(determining)?;
        let of_reading = self.strictest_approval(&reading());
        Some(ApprovalDemand {
            level,
            policies,
            of_reading: of_reading.map(|(level, policies)| ReadingDemand { level, policies }),
        })
    }

    /// The strictest approval that any of these policies demands.
    pub(crate) fn demanded_level(&self, determining: &[String]) -> Option<ApprovalLevel> {
        Some(self.strictest_approval(determining)?.0)
    }

    /// Whether a statement that reads what is plain of a relation waits for an approval.
    pub(crate) fn reading_waits(&self, decision: &RelationDecision) -> bool {
        let plain = decision.columns.iter();
        let plain = plain.filter(|column| column.level == ColumnLevel::Plain);
        let mut lists = plain
            .map(|column| &column.policies)
            .chain([&decision.policies]);
        lists.any(|list| self.strictest_approval(list).is_some())
    }

    /// The strictest approval that any of these policies demands, and which of them demand one.
    fn strictest_approval(&self, ids: &[String]) -> Option<(ApprovalLevel, Vec<String>)> {
        if !self.loaded.demands_approval {
            return None;
        }
        let level_of = |id: &String| self.loaded.annotations.get(id)?.approval;
        let level = ids.iter().filter_map(level_of).max()?;
        let demanding = ids.iter().filter(|id| level_of(id).is_some());
        Some((level, demanding.cloned().collect()))
    }
}

impl SessionView {
    /// The view of `session` at its time, beside what holds at any.
    pub(in crate::policy) fn at(loaded: Arc<Loaded>, session: &Session, steady: Arc<Self>) -> Self {
        let mut view = Self::new(loaded, session);
        view.moment = Some(Moment::new(steady));
        view
    }

    /// Whether what was asked so far is decided by the time, so that it must not be remembered.
    #[must_use]
    pub fn depends_on_time(&self) -> bool {
        self.moment.as_ref().is_some_and(Moment::was_used)
    }

    /// Whether the session has a time that policies look at.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.moment.is_some()
    }

    /// The decisions that hold at any time, for what policies of the actions that are asked decide, if those do not look at it.
    pub(in crate::policy) fn steady(
        &self,
        is_asked: impl Fn(PolicyAction) -> bool,
    ) -> Option<&Self> {
        self.moment.as_ref()?.steady(&self.loaded, is_asked)
    }
}

/// A session's decisions at one point in time, beside those that hold at any.
#[derive(Debug)]
struct Moment {
    /// What holds whatever the time.
    steady: Arc<SessionView>,
    /// Whether anything was asked that depends on the time.
    used: AtomicBool,
}

impl Moment {
    fn new(steady: Arc<SessionView>) -> Self {
        Self {
            steady,
            used: AtomicBool::new(false),
        }
    }

    /// The decisions to ask for something that policies of the actions asked decide: none if those look at the time.
    fn steady(
        &self,
        loaded: &Loaded,
        is_asked: impl Fn(PolicyAction) -> bool,
    ) -> Option<&SessionView> {
        let timeless = !loaded.timed.iter().any(|action| is_asked(*action));
        self.note_unless(timeless)
    }

    /// As [`steady`](Self::steady), for a relation as it is read.
    fn steady_relation(
        &self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
    ) -> Result<Option<&SessionView>, Failure> {
        Ok(self.note_unless(time_dependent::is_timeless(loaded, subject, relation)?))
    }

    fn note_unless(&self, timeless: bool) -> Option<&SessionView> {
        if !timeless {
            self.used.store(true, Ordering::Relaxed);
        }
        timeless.then_some(&self.steady)
    }

    /// Whether anything that was decided so far may be decided otherwise at another time.
    fn was_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A poisoned lock guards a map of finished values; the panic was elsewhere.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::time::Duration;

    use super::*;
    use crate::{
        catalog::{Change, functions},
        code::Code,
        dialect::Dialect,
        policy::tests::fixture::{READ_ALL, agent, decision, load, relation_id, set, sources},
        token::TokenSecret,
    };

    #[test]
    fn system_relations_are_absent_whatever_policies_say() {
        let everything = "permit(principal, action, resource);";
        let system = decision(everything, "bot", "sqlite_schema");
        assert_eq!(system.visibility, Visibility::Absent);
        let set = set(everything);
        let listed = set.session(&agent("bot")).discoverable().unwrap();
        let names: Vec<_> = listed.iter().map(|(id, _)| *id).collect();
        assert_eq!(names, ["customers", "tickets", "contacts"].map(relation_id));
    }

    #[test]
    fn nothing_but_tables_may_be_changed() {
        let set = set("permit(principal, action, resource);");
        let view = set.session(&agent("bot"));
        for (name, changes) in [
            ("tickets", true),
            ("contacts", false),
            ("sqlite_schema", false),
        ] {
            let write = view.write(relation_id(name)).unwrap();
            assert_eq!(write.action(Change::Delete).permitted, changes, "{name}");
        }
    }

    #[test]
    fn a_foreign_id_is_absent() {
        let set = set(READ_ALL);
        let decision = set.session(&agent("bot")).relation(RelationId(99)).unwrap();
        assert_eq!(decision.visibility, Visibility::Absent);
    }

    #[test]
    fn principals_need_a_known_type_only() {
        let set = set(READ_ALL);
        let known = set.session(&agent("never-heard-of"));
        assert_eq!(
            known.relation(relation_id("tickets")).unwrap().visibility,
            Visibility::Selectable
        );
        for kind in ["Robot", "Role", "Table", "not a type", ""] {
            let view = set.session(&Session::new(Principal::new(kind, "x")));
            let refused = view.relation(relation_id("tickets")).unwrap_err();
            assert_eq!(refused.code(), Code::PolicyNoPermit, "{kind}");
            assert!(
                view.function(functions::registry(Dialect::Sqlite).get("lower").unwrap())
                    .is_err()
            );
        }
    }

    /// What is decided alike is decided once.
    #[test]
    fn sessions_that_differ_in_what_no_policy_looks_at_are_one() {
        let at = |seconds| agent("bot").at(Duration::from_secs(seconds));
        let scoped = |scope: &str| agent("bot").with_token_scope(scope);
        let is_one = |policies: &str, one: &Session, other: &Session| {
            let mut sources = sources(policies);
            sources.secret = Some(TokenSecret::new("0".repeat(32)));
            let set = load(&sources).unwrap();
            Arc::ptr_eq(&set.session(one), &set.session(other))
        };
        let timed = r#"permit(principal, action == Action::"select", resource)
            when { context has time && context.time < datetime("2026-01-01") };"#;
        let tokens = r#"permit(principal, action == Action::"read_token", resource);"#;
        for (more, alike_in_time, alike_in_scope) in [
            ("", true, true),
            (timed, false, true),
            (tokens, true, false),
        ] {
            let policies = format!("{READ_ALL}{more}");
            let is_one = |one: &Session, other: &Session| is_one(&policies, one, other);
            assert_eq!(is_one(&at(1), &at(2)), alike_in_time, "{more}");
            assert_eq!(is_one(&scoped("a"), &scoped("b")), alike_in_scope, "{more}");
            assert!(is_one(&scoped("a"), &scoped("a")), "{more}");
            assert!(!is_one(&agent("bot"), &agent("officer")), "{more}");
        }
    }

    #[test]
    fn sessions_are_shared_and_bounded() {
        let set = set(READ_ALL);
        let first = set.session(&agent("bot"));
        assert!(Arc::ptr_eq(&first, &set.session(&agent("bot"))));
        let one = first.relation(relation_id("tickets")).unwrap();
        assert!(Arc::ptr_eq(
            &one,
            &first.relation(relation_id("tickets")).unwrap()
        ));
        for n in 0..crate::policy::SESSIONS {
            let _ = set.session(&agent(&format!("a{n}")));
        }
        assert!(!Arc::ptr_eq(&first, &set.session(&agent("bot"))));
    }
}
