//! What policies can know of a statement as a whole.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, SetExpr, Statement, visit_expressions};

use super::{Resolver, Target};
use crate::{
    access::{Definition, StatementFacts},
    syntax::Explain,
};

impl Resolver<'_> {
    /// The facts of the statement `query`, which has been resolved.
    pub(super) fn facts(&self, query: &Query, explain: Option<Explain>) -> StatementFacts {
        StatementFacts {
            kind: self.kind(explain),
            joins: self.references.len().saturating_sub(1),
            has_where: has_where(&query.body),
        }
    }

    /// The facts of a definition, which has been resolved: what it reads is that of its query.
    pub(super) fn facts_of_definition(&self, statement: &Statement) -> StatementFacts {
        let defined = self.access.definitions().next();
        let emptied = self.access.changes().next();
        let query = match statement {
            Statement::CreateTable(create) => create.query.as_deref(),
            Statement::CreateView(create) => Some(&*create.query),
            // The parser's list is long, and nothing else that is read as a definition has a query.
            _ => None,
        };
        StatementFacts {
            kind: match (defined, emptied) {
                (Some(access), _) => access.definition.name(),
                (None, Some(access)) => access.change.name(),
                // Of what is not there.
                (None, None) => Definition::Drop.name(),
            },
            joins: self.references.len().saturating_sub(1),
            has_where: query.is_some_and(|query| has_where(&query.body)),
        }
    }

    /// The word for what the statement does. Several changes of one kind are of that kind, others a merge.
    fn kind(&self, explain: Option<Explain>) -> &'static str {
        let mut kinds = self
            .targets
            .iter()
            .map(|target| self.kind_of_change(target));
        match (kinds.next(), explain) {
            (None, None) => "select",
            (None, Some(_)) => "explain",
            (Some(kind), _) if kinds.all(|other| other == kind) => kind,
            (Some(_), _) => "merge",
        }
    }

    fn kind_of_change(&self, target: &Target) -> &'static str {
        let mut changes = self
            .access
            .changes()
            .filter(|access| access.relation == target.relation && !access.cascaded)
            .map(|access| access.change.name());
        match (changes.next(), changes.next(), target.reference) {
            // An INSERT that updates the row in its way reads no target.
            (Some(kind), None, _) | (Some(kind), Some(_), None) => kind,
            (Some(_), Some(_), Some(_)) => "merge",
            (None, _, _) => "",
        }
    }
}

/// Whether a condition looks at a column: one that holds for every row alike is none.
fn looks(condition: Option<&Expr>) -> bool {
    let looks = |expr: &Expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    condition.is_some_and(|condition| visit_expressions(condition, looks).is_break())
}

/// Whether a statement has a condition at its top.
fn has_where(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => looks(select.selection.as_ref()),
        SetExpr::Query(query) => has_where(&query.body),
        SetExpr::Update(Statement::Update(update)) => looks(update.selection.as_ref()),
        SetExpr::Delete(Statement::Delete(delete)) => looks(delete.selection.as_ref()),
        SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Insert(_)
        | SetExpr::Merge(_)
        | SetExpr::SetOperation {
            op: _,
            set_quantifier: _,
            left: _,
            right: _,
        }
        | SetExpr::Values(_)
        | SetExpr::Table(_) => false,
    }
}
