//! What a primary key determines in a SELECT that groups by it.
//!
//! PostgreSQL takes columns that stand beside the groups of their table's primary key
//! (<https://www.postgresql.org/docs/current/sql-select.html#SQL-GROUPBY>). What stands in a table's place has no key, so
//! that such columns become terms of the GROUP BY: the groups are the same, as one key has one row, or none where an outer
//! join found nothing.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{
    Expr, Function, Ident, ObjectNamePart, SelectItem, SelectItemQualifiedWildcardKind, Visit,
};

use crate::resolve::{
    Resolver,
    query::terms::position,
    scope::{Columns, Found, Output, Scope, Source},
};
use crate::{
    catalog::{ColumnId, Relation, RelationKind},
    dialect::Dialect,
    policy::obligation::ColumnLevel,
    syntax::{Role, TreeVisitor, name_parts, role, visit_tree},
};

impl<'a> Resolver<'a> {
    /// The positions of tables that something may stand for, and whose primary key is among the terms of GROUP BY.
    pub(in crate::resolve) fn grouped_by_key(
        &self,
        terms: &[Expr],
        outputs: &[Output],
        scope: &Scope<'a, '_>,
    ) -> Vec<usize> {
        // Other engines either look through a derived table or know no such dependency.
        if self.catalog.dialect() != Dialect::Postgres || self.mode.is_output() {
            return Vec::new();
        }
        // These make groups of fewer columns too.
        let is_simple = |term: &Expr| {
            !matches!(
                term,
                Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_)
            )
        };
        let may_be_keyed = scope.sources.iter().any(|source| key(source).is_some());
        if !may_be_keyed || !terms.iter().all(is_simple) {
            return Vec::new();
        }
        let grouped: BTreeSet<(usize, u16)> = terms
            .iter()
            .filter_map(|term| self.grouped_column(term, outputs, scope))
            .collect();
        let is_whole = |source: usize, key: &[u16]| {
            key.iter()
                .all(|column| grouped.contains(&(source, *column)))
        };
        let sources = scope.sources.iter().enumerate();
        sources
            .filter(|(index, source)| key(source).is_some_and(|key| is_whole(*index, key)))
            .map(|(index, _)| index)
            .collect()
    }

    /// The source and the position in it of the column that a term of GROUP BY is, by its name, or by that or the position of
    /// an output.
    fn grouped_column(
        &self,
        term: &Expr,
        outputs: &[Output],
        scope: &Scope<'a, '_>,
    ) -> Option<(usize, u16)> {
        let output = match term {
            Expr::Nested(inner) => return self.grouped_column(inner, outputs, scope),
            Expr::Identifier(ident) => {
                let name = self.key(ident);
                match scope.find(None, &name) {
                    Found::Nothing | Found::WholeRow(_) | Found::Alias(_) => {
                        outputs.iter().find(|output| *output.key == *name)?
                    }
                    Found::Column(_, _)
                    | Found::RowIdAlias {
                        origin: _,
                        qualifier: _,
                        name: _,
                    }
                    | Found::RowId
                    | Found::Ambiguous => return self.column_at(None, &name, scope),
                }
            }
            Expr::CompoundIdentifier(parts) => {
                let [qualifier, name] = parts.as_slice() else {
                    return None;
                };
                return self.column_at(Some(&self.table_key(qualifier)), &self.key(name), scope);
            }
            other => outputs.get(position(other)?)?,
        };
        let column = output.lineage.identity?;
        let mut of_relation = scope.sources.iter().enumerate().filter(|(_, source)| {
            relation_of(source).is_some_and(|relation| relation.id == column.relation)
        });
        match (of_relation.next(), of_relation.next()) {
            (Some((index, _)), None) => Some((index, column.index)),
            (Some(_), Some(_)) | (None, _) => None,
        }
    }

    fn column_at(
        &self,
        qualifier: Option<&str>,
        name: &str,
        scope: &Scope<'a, '_>,
    ) -> Option<(usize, u16)> {
        let index = scope.source_of(qualifier, name)?;
        let relation = relation_of(scope.sources.get(index)?)?;
        Some((index, relation.position(name)?))
    }

    /// The columns of these sources that stand outside of aggregates in `used`.
    pub(in crate::resolve) fn find_determined(
        &self,
        keyed: &[usize],
        used: &Used<'_, '_>,
        scope: &Scope<'a, '_>,
    ) -> Vec<Expr> {
        let mut names = Vec::new();
        for (qualifier, name) in &used.names {
            if let Some(index) = scope.source_of(qualifier.as_deref(), name)
                && keyed.contains(&index)
            {
                names.push((index, name.clone()));
            }
        }
        for index in keyed {
            let Some(source) = scope.sources.get(*index) else {
                continue;
            };
            let is_listed = |star: &Option<String>| {
                star.is_none() || star.as_deref() == source.qualifier.as_deref()
            };
            if used.stars.iter().any(is_listed) {
                let listed = source.columns.list().into_iter();
                names.extend(listed.map(|output| (*index, output.key.to_string())));
            }
        }
        let mut added = BTreeSet::new();
        let mut terms = Vec::new();
        for (index, name) in names {
            let Some(source) = scope.sources.get(index) else {
                continue;
            };
            let (Some(qualifier), Some((origin, spelled))) =
                (&source.qualifier, source.columns.find(&name))
            else {
                continue;
            };
            let is_key = |id: &ColumnId| key(source).is_some_and(|key| key.contains(&id.index));
            if origin.columns().iter().all(is_key) {
                continue;
            }
            // A name that means something else inside a subquery adds nothing that is not read.
            let is_read = |id: &_| self.access.columns.usages(*id).is_read();
            if origin.columns().iter().all(is_read) && added.insert((index, name)) {
                terms.push(Expr::CompoundIdentifier(vec![
                    self.encode(qualifier),
                    self.encode(spelled),
                ]));
            }
        }
        terms
    }

    /// Whether a call gives one value of the rows of a group.
    fn aggregates(&self, call: &Function) -> bool {
        let Function {
            name,
            uses_odbc_syntax: _,
            parameters: _,
            args: _,
            filter: _,
            null_treatment: _,
            over,
            within_group: _,
        } = call;
        let Some(ObjectNamePart::Identifier(name)) = name.0.last() else {
            return false;
        };
        let name = self.key(name);
        over.is_none()
            && self
                .catalog
                .functions_named(&name)
                .any(|function| function.kinds.aggregate)
    }
}

fn relation_of<'a>(source: &Source<'a>) -> Option<&'a Relation> {
    match &source.columns {
        Columns::Relation {
            relation,
            decision: _,
            hidden_exist: _,
            bare: _,
            body: _,
        } => Some(relation),
        Columns::Derived(_) => None,
    }
}

/// The primary key of a table with obligations, if it is shown as it is.
fn key<'a>(source: &Source<'a>) -> Option<&'a [u16]> {
    let Columns::Relation {
        relation,
        decision,
        hidden_exist: _,
        bare: false,
        body: _,
    } = &source.columns
    else {
        return None;
    };
    let is_plain = |index: &u16| {
        let column = decision.columns.get(usize::from(*index));
        column.is_some_and(|column| column.level == ColumnLevel::Plain)
    };
    (relation.kind == RelationKind::Table
        && decision.has_obligation()
        && !relation.primary_key.is_empty()
        && relation.primary_key.iter().all(is_plain))
    .then_some(relation.primary_key.as_slice())
}

/// The names and stars that stand outside of aggregates.
pub(in crate::resolve) struct Used<'r, 'a> {
    resolver: &'r Resolver<'a>,
    /// With the keys of what stands before them.
    names: Vec<(Option<String>, String)>,
    /// Of one source, or of all.
    stars: Vec<Option<String>>,
    /// Aggregates around what is looked at.
    inside: usize,
}

impl<'r, 'a> Used<'r, 'a> {
    pub(in crate::resolve) fn new(resolver: &'r Resolver<'a>) -> Self {
        Self {
            resolver,
            names: Vec::new(),
            stars: Vec::new(),
            inside: 0,
        }
    }

    /// With what stands in `part` of the SELECT.
    pub(in crate::resolve) fn and(mut self, part: &impl Visit) -> Self {
        let _ = visit_tree(part, &mut self);
        self
    }

    /// With the outputs.
    pub(in crate::resolve) fn and_items(mut self, items: &[SelectItem]) -> Self {
        for item in items {
            match item {
                SelectItem::Wildcard(_) => self.stars.push(None),
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    if let [ObjectNamePart::Identifier(name)] = name.0.as_slice() {
                        let key = self.resolver.table_key(name).into_owned();
                        self.stars.push(Some(key));
                    }
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(_), _)
                | SelectItem::UnnamedExpr(_)
                | SelectItem::ExprWithAlias { expr: _, alias: _ }
                | SelectItem::ExprWithAliases {
                    expr: _,
                    aliases: _,
                } => self = self.and(item),
            }
        }
        self
    }

    fn name(&mut self, qualifier: Option<&Ident>, name: &Ident) {
        let qualifier = qualifier.map(|name| self.resolver.table_key(name).into_owned());
        let name = self.resolver.key(name).into_owned();
        self.names.push((qualifier, name));
    }
}

impl TreeVisitor for Used<'_, '_> {
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Role::Call(call) = role(expr)
            && self.resolver.aggregates(call)
        {
            self.inside += 1;
        } else if self.inside == 0 {
            match name_parts(expr) {
                [name] => self.name(None, name),
                [qualifier, name] => self.name(Some(qualifier), name),
                [] | [_, _, _, ..] => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && self.resolver.aggregates(call)
        {
            self.inside -= 1;
        }
        ControlFlow::Continue(())
    }
}
