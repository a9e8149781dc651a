//! What forbids can say once a statement is known: that it is this statement, or this use of a column.
//!
//! Names are resolved in what a session sees, before anything is known of the statement. So such policies take
//! away from what was decided then, and refuse the statement.

use std::collections::BTreeSet;

use cedar_policy::{Effect, RestrictedExpression};

use super::{
    context::{STATEMENT, USAGE, looks_at},
    decide::{Failure, Subject, Verdict, decide_among},
    load::Loaded,
    obligation::{ColumnLevel, Mask},
    problem::PolicyProblem,
    schema::{self, Action},
    slice::covers,
    source::Located,
    view::{SessionView, resource},
};
use crate::{
    access::{AccessSet, Usages},
    catalog::{ColumnId, Relation, RelationId},
    code::Code,
    rejection::Rejection,
};

/// The policies that look at the statement or at how a column is used. Permits that do become problems: what they
/// permit would not exist when names are resolved.
pub(super) fn policies(
    located: &[Located<'_>],
    problems: &mut Vec<PolicyProblem>,
) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for Located { policy, origin } in located {
        // How a column is used is known for fewer actions.
        let Some(attribute) = [USAGE, STATEMENT]
            .into_iter()
            .find(|attribute| looks_at(policy, attribute))
        else {
            continue;
        };
        // Elsewhere the attribute would be missing whatever the statement, and the forbid without effect.
        let honoured = honoured(attribute);
        let elsewhere = Action::ALL
            .iter()
            .find(|action| covers(policy, **action) && !honoured.contains(action));
        match policy.effect() {
            Effect::Forbid => match elsewhere {
                Some(action) => {
                    let names: Vec<_> = honoured.iter().map(|action| action.name()).collect();
                    let message = format!(
                        "`context.{attribute}` is not known for `{}`, so this would forbid nothing there",
                        action.name()
                    );
                    problems.push(origin.problem(message).with_help(Some(format!(
                        "it is known for `{}`: name those in the policy's scope",
                        names.join("`, `")
                    ))));
                }
                None => {
                    out.insert(policy.id().to_string());
                }
            },
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

/// The actions about which policies are asked again with this attribute.
fn honoured(attribute: &str) -> &'static [Action] {
    match attribute {
        USAGE => &[Action::ReadPlain, Action::ReadMasked, Action::ReadToken],
        _ => &[
            Action::Select,
            Action::ReadPlain,
            Action::ReadMasked,
            Action::ReadToken,
        ],
    }
}

impl SessionView {
    /// Asks again about everything that `access` reads, with the statement known.
    ///
    /// # Errors
    /// `policy.forbidden`, and `policy.evaluation-failed`.
    pub(super) fn confirm(&self, access: &AccessSet) -> Result<(), Rejection> {
        if self.loaded.of_statements.is_empty() {
            return Ok(());
        }
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        // Its decisions may be others at another time.
        let _ = self.steady(&[
            Action::Select,
            Action::ReadPlain,
            Action::ReadMasked,
            Action::ReadToken,
        ]);
        let asking = Asking {
            loaded: &self.loaded,
            subject,
            statement: self.statement(access),
        };
        for id in access.relations() {
            asking.relation(id)?;
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
            asking.column(id, action, usages)?;
        }
        Ok(())
    }

    /// Refuses what only a permit that demands an approval made possible: nobody can give one here. Several
    /// permits of one thing combine to the strictest.
    ///
    /// # Errors
    /// `approval.required`.
    pub(super) fn approved(&self, determining: &[String]) -> Result<(), Rejection> {
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
        let tables = access
            .relations()
            .chain(access.changes().map(|change| change.relation))
            .filter_map(|id| Some(text(&self.loaded.catalog.relation(id)?.uid)));
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
    loaded: &'a Loaded,
    subject: &'a Subject,
    statement: Vec<(String, RestrictedExpression)>,
}

impl<'a> Asking<'a> {
    /// A relation, its ancestors, whose rows it shows, and its descendants, which it shows rows of.
    fn relation(&self, id: RelationId) -> Result<(), Rejection> {
        let Some(relation) = self.loaded.catalog.relation(id) else {
            return Ok(());
        };
        for table in self.relatives(relation) {
            let table = ("Table", table.uid.as_str());
            self.ask(Action::Select, table, None, &|| {
                format!("a policy forbids this statement on `{}`", relation.name)
            })?;
        }
        Ok(())
    }

    /// A column, and those of its relation's relatives that it is.
    fn column(&self, id: ColumnId, action: Action, usages: Usages) -> Result<(), Rejection> {
        let (Some(relation), Some(column)) = (
            self.loaded.catalog.relation(id.relation),
            self.loaded.catalog.column(id),
        ) else {
            return Ok(());
        };
        for table in self.relatives(relation) {
            let own = table.position(&column.key).and_then(|at| table.column(at));
            let Some(own) = own else { continue };
            self.ask(action, ("Column", own.uid.as_str()), Some(usages), &|| {
                format!("a policy forbids using the column `{}` so", column.name)
            })?;
        }
        Ok(())
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
        usages: Option<Usages>,
        message: &dyn Fn() -> String,
    ) -> Result<(), Rejection> {
        let verdict = self.verdict(action, kind, id, usages)?;
        let of_statements = |id: &&String| self.loaded.of_statements.contains(*id);
        if verdict.permitted || !verdict.policies.iter().any(|id| of_statements(&id)) {
            return Ok(());
        }
        let own = verdict.policies.iter().filter(of_statements);
        let mut told = own.filter_map(|id| self.loaded.annotations.get(id)?.message.clone());
        let message = told.next().unwrap_or_else(message);
        Err(Rejection::new(Code::PolicyForbidden, message).with_policies(verdict.policies))
    }

    fn verdict(
        &self,
        action: Action,
        kind: &str,
        id: &str,
        usages: Option<Usages>,
    ) -> Result<Verdict, Failure> {
        let statement = RestrictedExpression::new_record(self.statement.iter().cloned())
            .map_err(Failure::new)?;
        let mut more = vec![(STATEMENT.to_owned(), statement)];
        more.extend(usages.map(|usages| {
            let usages = usages.iter().map(|usage| usage.name().to_owned());
            let usages = usages.map(RestrictedExpression::new_string);
            (USAGE.to_owned(), RestrictedExpression::new_set(usages))
        }));
        let context = self.subject.circumstances.with(more)?;
        decide_among(
            self.loaded,
            self.subject,
            action,
            resource(kind, id)?,
            &self.subject.store.entities,
            context,
        )
    }
}
