//! Rows that a query gives to an INSERT: `add` is a condition around the query, so that the change adds no other rows.
//!
//! A precheck looks first for rows that the condition would leave out, and refuses the change if there is one.

use std::collections::BTreeSet;

use sqlparser::ast::{
    BinaryOperator, Expr, Insert, Query, SelectItem, SetExpr, TableFactor, Values,
};

use crate::rewrite::{
    ast,
    change::{
        ChangeRewriter,
        new_row::{column_storage, converted, insert_ignore, mysql_charset},
        precheck::{Violation, ViolationQuery},
        refusal::{unassigned_column, undecided_row},
    },
    relation_source,
    relation_source::row_filter,
};
use crate::{
    catalog::{Column, Relation, TypeClass},
    dialect::Dialect,
    policy::obligation::Predicate,
    rejection::Rejection,
    resolve::Admission,
    syntax::encode,
};

/// The columns of the frame's derived table.
#[derive(Default)]
struct Frame {
    inner: Vec<SelectItem>,
    /// What each of its rows must be like.
    conditions: Vec<Expr>,
    /// How many columns it has besides those of the INSERT.
    more: usize,
}

impl ChangeRewriter<'_> {
    /// `WITH rows (columns) AS (…) SELECT columns FROM (SELECT … FROM rows) AS rows WHERE condition`: the
    /// inner SELECT gives what policy or a key looks at the type that the target's column has, so that what is
    /// compared is what is stored. It has a fence, so that what is compared is worked out once.
    pub(in crate::rewrite) fn frame(
        &self,
        insert: &Insert,
        relation: &Relation,
        columns: &[(u16, &Column)],
        predicates: &[&Predicate],
        functions: &mut BTreeSet<String>,
    ) -> Result<(Admission, ViolationQuery), Rejection> {
        let dialect = self.catalog.dialect();
        let name = self.unused_name();
        let mut looked = BTreeSet::new();
        for predicate in predicates {
            row_filter::columns(predicate, &mut looked);
        }
        for index in &looked {
            if columns.iter().all(|(known, _)| known != index) {
                return Err(unassigned_column(relation, *index));
            }
        }
        let mut frame = Frame::default();
        // Only once it is stored has a value the type that such a table keeps to.
        let given = Relation {
            strict: false,
            rowid_alias: None,
            columns: column_storage::compared_columns(relation, dialect),
            ..relation.clone()
        };
        for predicate in predicates {
            let condition = row_filter::expression(predicate, &given, self.catalog, functions)?;
            frame.conditions.push(condition);
        }
        let mut outer = Vec::with_capacity(columns.len());
        for (index, column) in columns {
            let plain = ast::column(dialect, &column.name);
            outer.push(SelectItem::UnnamedExpr(plain.clone()));
            let is_looked_at = looked.contains(index);
            let mut typed = None;
            if is_looked_at {
                let behind = column_storage::storage_column(column, self.catalog);
                typed = converted::cast_to_stored(plain.clone(), &behind, dialect)
                    .map(|typed| column_storage::with_collation(typed, &behind, dialect));
                if typed.is_none() {
                    return Err(undecided_row(relation, Some(column)));
                }
                let kept =
                    column_storage::whole_text_conditions(&plain, &behind, dialect, functions);
                frame.conditions.extend(kept);
                if insert.ignore {
                    frame.conditions.extend(insert_ignore::unchanged_conditions(
                        &plain, column, dialect, functions,
                    )?);
                }
            }
            if dialect == Dialect::Mysql && column.class == TypeClass::Text && is_looked_at {
                let is_whole = mysql_charset::is_whole(&plain, column, functions);
                let is_whole = frame.add_column(self, is_whole);
                frame.conditions.push(is_whole);
            }
            frame.inner.push(match typed {
                Some(typed) => ast::item(dialect, typed, &column.name),
                None => SelectItem::UnnamedExpr(plain),
            });
        }
        let condition = ast::join_by(frame.conditions, &BinaryOperator::And, true);
        let mut rows = ast::select(frame.inner, ast::table(dialect, &[&name]), None);
        rows.limit_clause = Some(relation_source::fence(dialect));
        let derived = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(rows),
            alias: Some(ast::alias(encode(&name, dialect))),
            sample: None,
        };
        let mut whole = ast::select(outer, derived, Some(condition.clone()));
        let names = columns
            .iter()
            .map(|(_, column)| encode(&column.name, dialect));
        whole.with = Some(ast::with_query(
            encode(&name, dialect),
            names.collect(),
            no_rows(),
        ));
        let admission = Admission {
            frame: Box::new(whole),
        };
        let precheck = ViolationQuery::Rows {
            admitted: Box::new(condition),
            violation: Violation::NotAdmitted,
        };
        Ok((admission, precheck))
    }
}

impl Frame {
    /// Adds a column beside those of the INSERT.
    fn add_column(&mut self, job: &ChangeRewriter<'_>, value: Expr) -> Expr {
        let dialect = job.catalog.dialect();
        self.more += 1;
        // No column of a table is called so by chance.
        let name = format!("{}_{}", job.unused_name(), self.more);
        self.inner.push(ast::item(dialect, value, &name));
        ast::column(dialect, &name)
    }
}

/// In whose place the query is put.
fn no_rows() -> Query {
    ast::query(SetExpr::Values(Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    }))
}
