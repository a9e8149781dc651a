//! What policies can know of a statement as a whole.

use sqlparser::ast::{Query, SetExpr, Statement};

use crate::resolve::{Resolver, Target};
use crate::{
    access::{Definition, StatementFacts},
    syntax::Explain,
};

impl Resolver<'_> {
    /// The facts of the statement `query`, which has been resolved.
    pub(in crate::resolve) fn facts(
        &self,
        query: &Query,
        explain: Option<Explain>,
    ) -> StatementFacts {
        StatementFacts {
            kind: self.kind(explain),
            joins: self.references.len().saturating_sub(1),
            has_where: self.has_where(&query.body),
            shape: self.shape,
        }
    }

    /// Whether each change of rows that are there has a condition on them; where there is no such change, whether the query has one on
    /// the rows of its tables.
    fn has_where(&self, body: &SetExpr) -> bool {
        let mut changed = self
            .changes
            .targets
            .iter()
            .filter(|t| t.reference.is_some())
            .peekable();
        if changed.peek().is_some() {
            return changed.all(|target| target.conditioned);
        }
        self.query_has_where(body)
    }

    fn query_has_where(&self, body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => self.selects(select),
            SetExpr::Query(query) => self.query_has_where(&query.body),
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

    /// The facts of a definition, which has been resolved: what it reads is that of its query.
    pub(in crate::resolve) fn facts_of_definition(&self, statement: &Statement) -> StatementFacts {
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
            has_where: query.is_some_and(|query| self.query_has_where(&query.body)),
            shape: self.shape,
        }
    }

    /// The word for what the statement does. Several changes of one kind are of that kind, others a merge.
    fn kind(&self, explain: Option<Explain>) -> &'static str {
        let mut kinds = self
            .changes
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
            // An INSERT that updates the conflicting row reads no target.
            (Some(kind), None, _) | (Some(kind), Some(_), None) => kind,
            (Some(_), Some(_), Some(_)) => "merge",
            (None, _, _) => "",
        }
    }
}
