//! What forbids can say once a statement is known: that it is this statement, or this use of a column.
//!
//! Names are resolved in what a session sees, before anything is known of the statement. So such policies take
//! away from what was decided then, and refuse the statement.

use std::sync::Arc;

use cedar_policy::{Context, EntityUid, RestrictedExpression};

use crate::policy::{
    cedar::{
        context_use::{ESTIMATED_COST, ESTIMATED_ROWS, HAS_WHERE, STATEMENT, USAGE},
        entities::resource,
        failure::Failure,
        request::{Subject, Verdict, decide_among},
        schema,
        schema::PolicyAction,
    },
    decide::{ddl, functions, system_relations, writes},
    obligation::{ColumnLevel, Mask},
    session_view::SessionView,
    set::Loaded,
};
use crate::{
    access::{AccessSet, ChangeAccess, DefinedObject, DefinitionAccess, Usages},
    catalog::{
        Catalog, Change, ColumnId, Relation, RelationId, functions::shown_name, system_relation,
    },
    code::Code,
    ident,
    rejection::Rejection,
};

/// What was permitted as far as it is known before the engine has planned the statement: policies of the set look at what
/// the engine expects, and are asked once more with that.
#[derive(Debug, Clone)]
pub(crate) struct PendingEstimatePolicies {
    session_view: Arc<SessionView>,
    access: Arc<AccessSet>,
}

impl PendingEstimatePolicies {
    /// Refuses the statement if policies do so knowing what the engine expects of it; what it does not tell is missing.
    ///
    /// # Errors
    /// `policy.forbidden`, and `policy.evaluation-failed`.
    pub(crate) fn recheck_with_estimates(
        &self,
        cost: Option<f64>,
        rows: Option<f64>,
    ) -> Result<(), Rejection> {
        let known = [(ESTIMATED_COST, cost), (ESTIMATED_ROWS, rows)];
        let known = known.into_iter().filter_map(|(name, figure)| {
            Some((
                name.to_owned(),
                RestrictedExpression::new_long(round_up(figure?)),
            ))
        });
        check_with_estimates(&self.session_view, &self.access, Some(known.collect()))
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        const ENTRY: usize = 48;
        let access = &self.access;
        ENTRY * (access.columns().count() + access.functions().count() + access.relations().count())
    }
}

/// The least whole number that is not less, as policies compare none but whole ones.
fn round_up(figure: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast of what is too large gives the largest, and an estimate is none to the unit"
    )]
    let whole = figure.ceil() as i64;
    whole
}

/// Asks again about everything that `access` touches, with the statement known; what must be asked once more when
/// the engine's estimates are: until then policies that look at them refuse nothing.
///
/// # Errors
/// `policy.forbidden`, and `policy.evaluation-failed`.
pub(in crate::policy) fn check_conditions(
    session_view: &Arc<SessionView>,
    access: &AccessSet,
) -> Result<Option<PendingEstimatePolicies>, Rejection> {
    check_with_estimates(session_view, access, None)?;
    let awaits = !session_view.loaded.of_estimates.is_empty();
    Ok(awaits.then(|| PendingEstimatePolicies {
        session_view: Arc::clone(session_view),
        access: Arc::new(access.clone()),
    }))
}

/// As [`check_conditions`], with what the engine expects of the statement once it was asked.
fn check_with_estimates(
    session_view: &SessionView,
    access: &AccessSet,
    estimates: Option<Vec<(String, RestrictedExpression)>>,
) -> Result<(), Rejection> {
    if session_view.loaded.of_statements.is_empty() {
        return Ok(());
    }
    let subject = session_view.subject.as_ref().map_err(Clone::clone)?;
    let asking = Asking {
        session_view,
        loaded: &session_view.loaded,
        subject,
        awaits_estimates: estimates.is_none(),
        statement: statement_facts(&session_view.loaded.catalog, access)
            .into_iter()
            .chain(estimates.unwrap_or_default())
            .collect(),
    };
    for id in access.relations() {
        asking.relation(id, PolicyAction::Select, None)?;
    }
    for (schema, name) in access.system_relations() {
        asking.system(schema, name)?;
    }
    for (id, usages) in access.columns() {
        let decision = session_view.relation(id.relation)?;
        let level = decision
            .columns
            .get(usize::from(id.index))
            .map(|c| &c.level);
        let action = match level {
            Some(ColumnLevel::Plain) => PolicyAction::ReadPlain,
            Some(ColumnLevel::Masked(Mask::Token(_))) => PolicyAction::ReadToken,
            Some(ColumnLevel::Masked(_)) => PolicyAction::ReadMasked,
            Some(ColumnLevel::Hidden) | None => continue,
        };
        asking.column(id, action, Some(usages))?;
    }
    for uid in access.functions() {
        asking.function(uid)?;
    }
    for ChangeAccess {
        relation,
        change,
        cascaded: _,
        conditioned,
    } in access.changes()
    {
        let has_where = match change {
            Change::Update | Change::Delete => Some(conditioned),
            Change::Insert | Change::Truncate => None,
        };
        asking.relation(relation, writes::action(change), has_where)?;
    }
    for id in access.columns_written() {
        asking.column(id, PolicyAction::Write, None)?;
    }
    for definition in access.definitions() {
        asking.definition(definition)?;
    }
    Ok(())
}

/// `context.statement`.
fn statement_facts(catalog: &Catalog, access: &AccessSet) -> Vec<(String, RestrictedExpression)> {
    let facts = access.facts();
    let count =
        |count: usize| RestrictedExpression::new_long(i64::try_from(count).unwrap_or(i64::MAX));
    let shape = &facts.shape;
    let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
    let uid = |id| Some(text(&catalog.relation(id)?.uid));
    let defined = access.definitions().filter_map(|d| match &d.object {
        DefinedObject::Relation(id) => uid(*id),
        DefinedObject::New {
            schema,
            name,
            view: _,
        } => Some(text(&ident::qualify([schema.as_str(), name.as_str()]))),
    });
    let tables = access
        .relations()
        .chain(access.changes().map(|change| change.relation))
        .filter_map(uid)
        .chain(defined);
    vec![
        ("kind".to_owned(), text(facts.kind)),
        ("joins".to_owned(), count(facts.joins)),
        ("tables".to_owned(), RestrictedExpression::new_set(tables)),
        (
            "has_where".to_owned(),
            RestrictedExpression::new_bool(facts.has_where),
        ),
        ("nesting".to_owned(), count(shape.nesting)),
        (
            "offset".to_owned(),
            RestrictedExpression::new_long(i64::try_from(shape.offset).unwrap_or(i64::MAX)),
        ),
        ("unjoined".to_owned(), count(shape.unjoined)),
        (
            "recursive".to_owned(),
            RestrictedExpression::new_bool(shape.recursive),
        ),
    ]
}

/// One statement, about which policies are asked.
struct Asking<'a> {
    session_view: &'a SessionView,
    loaded: &'a Loaded,
    subject: &'a Subject,
    statement: Vec<(String, RestrictedExpression)>,
    /// Whether policies that look at what the engine expects will be asked once more.
    awaits_estimates: bool,
}

impl<'a> Asking<'a> {
    /// A relation, its ancestors, whose rows it shows, and its descendants, which it shows rows of.
    fn relation(
        &self,
        id: RelationId,
        action: PolicyAction,
        has_where: Option<bool>,
    ) -> Result<(), Rejection> {
        let Some(relation) = self.loaded.catalog.relation(id) else {
            return Ok(());
        };
        let more = has_where.map(|has_where| {
            let has_where = RestrictedExpression::new_bool(has_where);
            (HAS_WHERE.to_owned(), has_where)
        });
        for table in self.relatives(relation) {
            let uid = resource("Table", &table.uid)?;
            self.ask(action, table, uid, more.clone(), &|| {
                format!("a policy forbids this statement on `{}`", relation.name)
            })?;
        }
        Ok(())
    }

    /// A column, and those of its relation's relatives that it is.
    fn column(
        &self,
        id: ColumnId,
        action: PolicyAction,
        usages: Option<Usages>,
    ) -> Result<(), Rejection> {
        let (Some(relation), Some(column)) = (
            self.loaded.catalog.relation(id.relation),
            self.loaded.catalog.column(id),
        ) else {
            return Ok(());
        };
        let more = usages.map(|usages| {
            let usages = usages.iter().map(|usage| usage.name().to_owned());
            let usages = usages.map(RestrictedExpression::new_string);
            (USAGE.to_owned(), RestrictedExpression::new_set(usages))
        });
        for table in self.relatives(relation) {
            let own = table.position(&column.key).and_then(|at| table.column(at));
            let Some(own) = own else { continue };
            let uid = resource("Column", &own.uid)?;
            self.ask(action, table, uid, more.clone(), &|| {
                format!("a policy forbids using the column `{}` so", column.name)
            })?;
        }
        Ok(())
    }

    /// A relation of the engine's own that no policy names.
    fn system(&self, schema: &str, name: &str) -> Result<(), Rejection> {
        let Some(known) = system_relation(self.loaded.catalog.dialect(), schema, name) else {
            return Ok(());
        };
        let _ = self
            .session_view
            .steady(|action| action == PolicyAction::Select);
        let context = self.context(None)?;
        let verdict = system_relations::ask_system_relation(
            self.loaded,
            self.subject,
            known,
            PolicyAction::Select,
            context,
        )?;
        self.refuse_if_forbidden(verdict, &|| {
            format!("a policy forbids this statement on `{name}`")
        })
    }

    fn function(&self, uid: &str) -> Result<(), Rejection> {
        let Some(def) = self.loaded.catalog.function(uid) else {
            return Ok(());
        };
        let verdict = {
            let _ = self
                .session_view
                .steady(|action| action == PolicyAction::Call);
            let context = self.context(None)?;
            functions::ask_call(self.loaded, self.subject, def, context)?
        };
        self.refuse_if_forbidden(verdict, &|| {
            let name = shown_name(uid);
            format!("a policy forbids calling `{name}` in this statement")
        })
    }

    fn definition(&self, access: &DefinitionAccess) -> Result<(), Rejection> {
        let _ = self
            .session_view
            .steady(|action| action == ddl::action(access.definition));
        let context = self.context(None)?;
        let verdict = ddl::ask_definition(self.loaded, self.subject, access, context)?;
        self.refuse_if_forbidden(verdict, &|| "a policy forbids this definition".to_owned())
    }

    fn relatives(&self, relation: &'a Relation) -> impl Iterator<Item = &'a Relation> {
        let catalog = &self.loaded.catalog;
        let inheritance = &self.loaded.inheritance;
        std::iter::once(relation)
            .chain(inheritance.ancestors(catalog, relation))
            .chain(inheritance.descendants(catalog, relation))
            .filter(|relation| schema::has_entity(relation))
    }

    fn ask(
        &self,
        action: PolicyAction,
        relation: &Relation,
        resource: EntityUid,
        more: Option<(String, RestrictedExpression)>,
        message: &dyn Fn() -> String,
    ) -> Result<(), Rejection> {
        // Its decisions may be others at another time.
        let _ = self.session_view.steady(|asked| asked == action);
        let entities = self.subject.entities_about(self.loaded, relation)?;
        let verdict = decide_among(
            self.loaded,
            self.subject,
            action,
            resource,
            &entities,
            self.context(more)?,
        )?;
        self.refuse_if_forbidden(verdict, message)
    }

    /// What was permitted before the statement was known is refused now by policies that look at it, or not at all.
    fn refuse_if_forbidden(
        &self,
        verdict: Verdict,
        message: &dyn Fn() -> String,
    ) -> Result<(), Rejection> {
        let of_statements = |id: &&String| {
            self.loaded.of_statements.contains(*id)
                && !(self.awaits_estimates && self.loaded.of_estimates.contains(*id))
        };
        if verdict.permitted || !verdict.policies.iter().any(|id| of_statements(&id)) {
            return Ok(());
        }
        let own = verdict.policies.iter().filter(of_statements);
        let mut told = own.filter_map(|id| self.loaded.annotations.get(id)?.message.clone());
        let message = told.next().unwrap_or_else(message);
        Err(Rejection::new(Code::PolicyForbidden, message).with_policies(verdict.policies))
    }

    fn context(&self, more: Option<(String, RestrictedExpression)>) -> Result<Context, Failure> {
        let statement = RestrictedExpression::new_record(self.statement.iter().cloned())
            .map_err(Failure::new)?;
        let statement = (STATEMENT.to_owned(), statement);
        let known = std::iter::once(statement).chain(more).collect();
        self.subject.circumstances.context_with(known)
    }
}
