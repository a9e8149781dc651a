//! What forbids can say once a statement is known: that it is this statement, or this use of a column.
//!
//! Names are resolved in what a session sees, before anything is known of the statement. So such policies take
//! away from what was decided then, and refuse the statement.

use std::{collections::BTreeSet, sync::Arc};

use cedar_policy::{Context, Effect, RestrictedExpression};

use crate::policy::cedar::request::{Failure, HAS_WHERE, Subject, Verdict, decide_among, resource};
use crate::policy::{
    cedar::{
        by_action::covers,
        context_use::{
            ESTIMATED_COST, ESTIMATED_ROWS, Mention, STATEMENT, USAGE, looks_at, mentioned,
        },
        schema,
        schema::Action,
    },
    decide::{ddl, functions, system_relations, writes},
    load::{
        Loaded,
        diagnostic::{PolicyProblem, probably},
        source::Located,
    },
    obligation::{ColumnLevel, Mask},
    session_view::SessionView,
};
use crate::{
    access::{AccessSet, ChangeAccess, DefinedObject, DefinitionAccess, Usages},
    catalog::{Change, ColumnId, Relation, RelationId, system_relation},
    code::Code,
    ident,
    rejection::Rejection,
};

/// What was permitted as far as it is known before the engine has planned the statement: policies of the set look at what
/// the engine expects, and are asked once more with that.
#[derive(Debug, Clone)]
pub(crate) struct Reserved {
    view: Arc<SessionView>,
    access: Arc<AccessSet>,
}

impl Reserved {
    /// Refuses the statement if policies do so knowing what the engine expects of it; what it does not tell is missing.
    ///
    /// # Errors
    /// `policy.forbidden`, and `policy.evaluation-failed`.
    pub(crate) fn confirm(&self, cost: Option<f64>, rows: Option<f64>) -> Result<(), Rejection> {
        let known = [(ESTIMATED_COST, cost), (ESTIMATED_ROWS, rows)];
        let known = known.into_iter().filter_map(|(name, figure)| {
            Some((
                name.to_owned(),
                RestrictedExpression::new_long(whole(figure?)),
            ))
        });
        self.view
            .confirm_knowing(&self.access, Some(known.collect()))
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        const ENTRY: usize = 48;
        let access = &self.access;
        ENTRY * (access.columns().count() + access.functions().count() + access.relations().count())
    }
}

/// The least whole number that is not less, as policies compare none but whole ones.
fn whole(figure: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast of what is too large gives the largest, and an estimate is none to the unit"
    )]
    let whole = figure.ceil() as i64;
    whole
}

/// The policies that look at the statement or at how a column is used. What looks at something that is never there
/// for one of its actions becomes a problem, as do permits that look at what is not known when names are resolved.
pub(in crate::policy) fn policies(
    located: &[Located<'_>],
    problems: &mut Vec<PolicyProblem>,
) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for located in located {
        let Located { policy, origin } = located;
        let found = problems.len();
        for mention in mentioned(policy) {
            problems.extend(missing(located, &mention));
        }
        if problems.len() > found {
            continue;
        }
        let Some(attribute) = [USAGE, STATEMENT]
            .into_iter()
            .find(|attribute| looks_at(policy, attribute))
        else {
            continue;
        };
        match policy.effect() {
            Effect::Forbid => {
                // What looks at the context as a whole names no attribute.
                let known = |action: &&Action| knows(**action, attribute);
                match Action::ALL.iter().find(|a| covers(policy, **a) && !known(a)) {
                    Some(action) => problems.push(unknown_there(located, attribute, *action)),
                    None => {
                        out.insert(policy.id().to_string());
                    }
                }
            }
            Effect::Permit => problems.push(
                origin
                    .problem(format!("a permit cannot look at `context.{attribute}`"))
                    .with_help(Some(
                        "it is not known yet when names are resolved: permit without it, and forbid the statements that should not be",
                    )),
            ),
        }
    }
    out
}

fn knows(action: Action, attribute: &str) -> bool {
    let mut known = schema::context(action).into_iter();
    known.any(|known| known.name == attribute)
}

/// What is wrong with looking at an attribute: that there is none of this name, or never for one of the policy's actions.
fn missing(located: &Located<'_>, mention: &Mention) -> Option<PolicyProblem> {
    let Located { policy, origin } = located;
    let attribute = mention.attribute.as_str();
    let none = |wanted: &str, path: &str, names: &[&str]| {
        let help = match probably(wanted, names.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("there are `{}`", names.join("`, `")),
        };
        let message = format!("there is no `{path}{wanted}`");
        Some(origin.at_attribute(wanted, message).with_help(Some(help)))
    };
    let of_actions = Action::ALL
        .iter()
        .flat_map(|action| schema::context(*action));
    let names: BTreeSet<&str> = of_actions.map(|attribute| attribute.name).collect();
    if !names.contains(attribute) {
        let names: Vec<&str> = names.into_iter().collect();
        return none(attribute, "context.", &names);
    }
    if let (STATEMENT, Some(part)) = (attribute, &mention.part) {
        let names: Vec<&str> = schema::FACTS.iter().map(|fact| fact.name).collect();
        if !names.contains(&part.as_str()) {
            return none(part, "context.statement.", &names);
        }
    }
    let covered = Action::ALL.iter().filter(|action| covers(policy, **action));
    let mut without = covered.filter(|action| !knows(**action, attribute));
    without
        .next()
        .map(|action| unknown_there(located, attribute, *action))
}

/// Where the attribute is missing whatever the statement, the policy would be without effect.
fn unknown_there(located: &Located<'_>, attribute: &str, action: Action) -> PolicyProblem {
    let Located { policy, origin } = located;
    let known = Action::ALL
        .iter()
        .filter(|action| knows(**action, attribute));
    let names: Vec<_> = known.map(|action| action.name()).collect();
    let effect = match policy.effect() {
        Effect::Forbid => "forbid",
        Effect::Permit => "permit",
    };
    let message = format!(
        "`context.{attribute}` is not known for `{}`, so this would {effect} nothing there",
        action.name()
    );
    let help = format!(
        "it is known for `{}`: name those in the policy's scope",
        names.join("`, `")
    );
    origin
        .at_attribute(attribute, message)
        .with_help(Some(help))
}

impl SessionView {
    /// Asks again about everything that `access` touches, with the statement known; what must be asked once more when
    /// the engine's estimates are: until then policies that look at them refuse nothing.
    ///
    /// # Errors
    /// `policy.forbidden`, and `policy.evaluation-failed`.
    pub(in crate::policy) fn confirm(
        self: &Arc<Self>,
        access: &AccessSet,
    ) -> Result<Option<Reserved>, Rejection> {
        self.confirm_knowing(access, None)?;
        let awaits = !self.loaded.of_estimates.is_empty();
        Ok(awaits.then(|| Reserved {
            view: Arc::clone(self),
            access: Arc::new(access.clone()),
        }))
    }

    /// As [`confirm`](Self::confirm), with what the engine `expects` of the statement once it was asked.
    fn confirm_knowing(
        &self,
        access: &AccessSet,
        expects: Option<Vec<(String, RestrictedExpression)>>,
    ) -> Result<(), Rejection> {
        if self.loaded.of_statements.is_empty() {
            return Ok(());
        }
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        let asking = Asking {
            view: self,
            loaded: &self.loaded,
            subject,
            awaits_estimates: expects.is_none(),
            statement: self
                .statement(access)
                .into_iter()
                .chain(expects.unwrap_or_default())
                .collect(),
        };
        for id in access.relations() {
            asking.relation(id, Action::Select, None)?;
        }
        for (schema, name) in access.system_relations() {
            asking.system(schema, name)?;
        }
        for (id, usages) in access.columns() {
            let decision = self.relation(id.relation)?;
            let level = decision
                .columns
                .get(usize::from(id.index))
                .map(|c| &c.level);
            let action = match level {
                Some(ColumnLevel::Plain) => Action::ReadPlain,
                Some(ColumnLevel::Masked(Mask::Token(_))) => Action::ReadToken,
                Some(ColumnLevel::Masked(_)) => Action::ReadMasked,
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
            asking.column(id, Action::Write, None)?;
        }
        for definition in access.definitions() {
            asking.definition(definition)?;
        }
        Ok(())
    }

    /// Refuses what only a permit that demands an approval made possible: nobody can give one here. Several
    /// permits of one thing combine to the strictest.
    ///
    /// # Errors
    /// `approval.required`.
    pub(in crate::policy) fn approved(&self, determining: &[String]) -> Result<(), Rejection> {
        if !self.loaded.demands_approval {
            return Ok(());
        }
        let demands = |id: &&String| {
            let annotations = self.loaded.annotations.get(*id);
            annotations.is_some_and(|annotations| annotations.approval)
        };
        let demanding: Vec<String> = determining.iter().filter(demands).cloned().collect();
        if demanding.is_empty() {
            return Ok(());
        }
        let code = Code::ApprovalRequired;
        Err(Rejection::new(code, code.summary()).with_policies(demanding))
    }

    /// `context.statement`.
    fn statement(&self, access: &AccessSet) -> Vec<(String, RestrictedExpression)> {
        let facts = access.facts();
        let joins = i64::try_from(facts.joins).unwrap_or(i64::MAX);
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let uid = |id| Some(text(&self.loaded.catalog.relation(id)?.uid));
        let defined = access.definitions().filter_map(|d| match &d.object {
            DefinedObject::Relation(id) => uid(*id),
            DefinedObject::New {
                schema,
                name,
                view: _,
            } => Some(text(&ident::qualified([schema.as_str(), name.as_str()]))),
        });
        let tables = access
            .relations()
            .chain(access.changes().map(|change| change.relation))
            .filter_map(uid)
            .chain(defined);
        vec![
            ("kind".to_owned(), text(facts.kind)),
            ("joins".to_owned(), RestrictedExpression::new_long(joins)),
            ("tables".to_owned(), RestrictedExpression::new_set(tables)),
            (
                "has_where".to_owned(),
                RestrictedExpression::new_bool(facts.has_where),
            ),
        ]
    }
}

/// One statement, about which policies are asked.
struct Asking<'a> {
    view: &'a SessionView,
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
        action: Action,
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
            let table = ("Table", table.uid.as_str());
            self.ask(action, table, more.clone(), &|| {
                format!("a policy forbids this statement on `{}`", relation.name)
            })?;
        }
        Ok(())
    }

    /// A column, and those of its relation's relatives that it is.
    fn column(
        &self,
        id: ColumnId,
        action: Action,
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
            self.ask(action, ("Column", own.uid.as_str()), more.clone(), &|| {
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
        let _ = self.view.steady(&[Action::Select]);
        let context = self.context(None)?;
        let verdict =
            system_relations::verdict(self.loaded, self.subject, known, Action::Select, context)?;
        self.unless_forbidden(verdict, &|| {
            format!("a policy forbids this statement on `{name}`")
        })
    }

    fn function(&self, uid: &str) -> Result<(), Rejection> {
        let Some(def) = self.loaded.catalog.function(uid) else {
            return Ok(());
        };
        let verdict = {
            let _ = self.view.steady(&[Action::Call]);
            let context = self.context(None)?;
            functions::verdict(self.loaded, self.subject, def, context)?
        };
        self.unless_forbidden(verdict, &|| {
            format!("a policy forbids calling `{uid}` in this statement")
        })
    }

    fn definition(&self, access: &DefinitionAccess) -> Result<(), Rejection> {
        let _ = self.view.steady(&[ddl::action(access.definition)]);
        let context = self.context(None)?;
        let verdict = ddl::verdict(self.loaded, self.subject, access, context)?;
        self.unless_forbidden(verdict, &|| "a policy forbids this definition".to_owned())
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
        action: Action,
        (kind, id): (&str, &str),
        more: Option<(String, RestrictedExpression)>,
        message: &dyn Fn() -> String,
    ) -> Result<(), Rejection> {
        // Its decisions may be others at another time.
        let _ = self.view.steady(&[action]);
        let verdict = decide_among(
            self.loaded,
            self.subject,
            action,
            resource(kind, id)?,
            &self.subject.store.entities,
            self.context(more)?,
        )?;
        self.unless_forbidden(verdict, message)
    }

    /// What was permitted before the statement was known is refused now by policies that look at it, or not at all.
    fn unless_forbidden(
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
        self.subject.circumstances.with(known)
    }
}
