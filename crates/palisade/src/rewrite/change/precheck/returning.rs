//! What a change gives back by RETURNING, as a query that changes nothing: every part of a statement of PostgreSQL sees the rows as they
//! were before it.

use std::{collections::BTreeMap, ops::ControlFlow};

use sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Ident, ObjectName, Query, SelectItem,
    SetExpr, Statement, Update, UpdateTableFromKind, Visit as _, VisitMut, Visitor, VisitorMut,
};

use crate::rewrite::{
    ast,
    change::precheck::{one, select},
    source::typed_null,
};
use crate::{
    catalog::{Catalog, Relation, computed_from},
    dialect::Dialect,
    resolve::{Target, WriteForm, is_default},
    syntax::key,
};

/// The rows that `change`, of `target`, gives back: those that a DELETE or UPDATE finds. Beside other tables a row goes with any of
/// theirs, so that it gives back columns of its own alone. None where that cannot be told.
pub(in crate::rewrite) fn query(
    change: &SetExpr,
    form: &WriteForm,
    target: &Target,
    catalog: &Catalog,
) -> Option<Query> {
    let relation = catalog.relation(target.relation)?;
    let (mut items, table, beside, selection, assignments) = match change {
        SetExpr::Delete(Statement::Delete(Delete {
            delete_token: _,
            optimizer_hints: _,
            tables,
            from: FromTable::WithFromKeyword(from),
            using,
            selection,
            returning: Some(items),
            output: None,
            order_by,
            limit: None,
        })) if tables.is_empty() && order_by.is_empty() => {
            let [table] = from.as_slice() else {
                return None;
            };
            (items.clone(), table, using.as_ref(), selection, None)
        }
        SetExpr::Update(Statement::Update(Update {
            update_token: _,
            optimizer_hints: _,
            table,
            assignments,
            from,
            selection,
            returning: Some(items),
            output: None,
            or: None,
            order_by,
            limit: None,
        })) if order_by.is_empty() => {
            let beside = match from {
                None => None,
                Some(UpdateTableFromKind::AfterSet(tables)) => Some(tables),
                Some(UpdateTableFromKind::BeforeSet(_)) => return None,
            };
            (items.clone(), table, beside, selection, Some(assignments))
        }
        _ => return None,
    };
    if !table.joins.is_empty() {
        return None;
    }
    if assignments.is_some() || beside.is_some() {
        let assignments = assignments.map_or(&[][..], Vec::as_slice);
        let mut afterwards =
            Afterwards::of(assignments, relation, target, beside.is_some(), catalog)?;
        for item in &mut items {
            afterwards.put(item)?;
        }
    }
    let mut condition = match &form.guard {
        Some(guard) => Some(guard.wrap(selection.clone(), 0)),
        None => selection.clone(),
    };
    if let Some(beside) = beside {
        let found = select(vec![one(catalog.dialect())], beside.clone(), condition);
        condition = Some(Expr::Exists {
            subquery: Box::new(found),
            negated: false,
        });
    }
    Some(select(items, vec![table.clone()], condition))
}

/// What columns of an UPDATE are once it has run.
struct Afterwards<'a> {
    relation: &'a Relation,
    target: &'a Target,
    dialect: Dialect,
    /// Whether names may be those of other tables.
    joined: bool,
    /// By position; none where only the engine knows.
    values: BTreeMap<u16, Option<Expr>>,
}

impl<'a> Afterwards<'a> {
    fn of(
        assignments: &[Assignment],
        relation: &'a Relation,
        target: &'a Target,
        joined: bool,
        catalog: &Catalog,
    ) -> Option<Self> {
        // They may give a row other values.
        if !assignments.is_empty() && !relation.triggers.is_empty() {
            return None;
        }
        let dialect = catalog.dialect();
        let position = |name: &ObjectName| {
            let ident = name.0.last()?.as_ident()?;
            relation.position(&key(ident, dialect))
        };
        let mut values = BTreeMap::new();
        for Assignment { target, value } in assignments {
            match target {
                AssignmentTarget::ColumnName(name) => {
                    let index = position(name)?;
                    let column = relation.column(index)?;
                    let value = typed_null::data_type(column, catalog)
                        .filter(|_| !joined && !is_default(value) && is_plain(value))
                        .map(|of| ast::parens(ast::cast(ast::parens(value.clone()), of)));
                    values.insert(index, value);
                }
                AssignmentTarget::Tuple(names) => {
                    for name in names {
                        values.insert(position(name)?, None);
                    }
                }
            }
        }
        for (id, column) in relation.column_ids() {
            let from = computed_from([id.index], relation, dialect);
            if column.generated.is_some() && from.iter().any(|from| values.contains_key(from)) {
                values.insert(id.index, None);
            }
        }
        Some(Self {
            relation,
            target,
            dialect,
            joined,
            values,
        })
    }

    /// Puts what columns are afterwards in the place of their names in `item`; none where that is not known.
    fn put(&mut self, item: &mut SelectItem) -> Option<()> {
        let expr = match item {
            SelectItem::UnnamedExpr(expr) => {
                // It keeps the name that the column has.
                if let Some(index) = self.named(expr)
                    && let Some(value) = self.values.get(&index)
                {
                    let name = self.relation.column(index)?.name.clone();
                    *item = ast::item(self.dialect, value.clone()?, &name);
                    return Some(());
                }
                expr
            }
            SelectItem::ExprWithAlias { expr, alias: _ } => expr,
            SelectItem::ExprWithAliases {
                expr: _,
                aliases: _,
            }
            | SelectItem::QualifiedWildcard(_, _)
            | SelectItem::Wildcard(_) => return None,
        };
        // What is in a subquery may have columns of that name.
        if !is_plain(expr) {
            return None;
        }
        match VisitMut::visit(expr, self) {
            ControlFlow::Continue(()) => Some(()),
            ControlFlow::Break(()) => None,
        }
    }

    /// The column that `expr` is.
    fn named(&self, expr: &Expr) -> Option<u16> {
        let of = |ident: &Ident| self.relation.position(&key(ident, self.dialect));
        match expr {
            Expr::Identifier(column) if !self.joined => of(column),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column]
                    if key(table, self.dialect) == key(&self.target.qualifier, self.dialect) =>
                {
                    of(column)
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl VisitorMut for Afterwards<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match self.named(expr).map(|index| self.values.get(&index)) {
            Some(Some(Some(value))) => *expr = value.clone(),
            Some(Some(None)) => return ControlFlow::Break(()),
            Some(None) => {}
            // The whole row, or what is not a column by itself.
            None => {
                let names = matches!(
                    expr,
                    Expr::Identifier(_)
                        | Expr::CompoundIdentifier(_)
                        | Expr::CompoundFieldAccess {
                            root: _,
                            access_chain: _
                        }
                );
                if names {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether `expr` has no subquery.
fn is_plain(expr: &Expr) -> bool {
    struct Plain;
    impl Visitor for Plain {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    expr.visit(&mut Plain).is_continue()
}
