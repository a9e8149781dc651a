//! Rows that a query gives to an INSERT: what they must be like is a condition around the query, which the change keeps to by itself,
//! and what a REPLACE or an ON DUPLICATE KEY UPDATE must not meet by any key of the table is one as well.
//!
//! Which rows are left out by it is looked for before, so that a change that would leave out any is refused.

use std::collections::BTreeSet;

use sqlparser::ast::{
    BinaryOperator, Expr, Insert, Query, SelectItem, SetExpr, TableFactor, Values, WindowSpec,
    WindowType,
};

use crate::rewrite::{
    ast,
    change::{
        Job, Reads,
        new_row::{converted, insert_ignore, key_value, storage},
        precheck::{Doubt, Found},
        unassigned, undecided,
        upsert::duplicate_key::{given, unsought},
    },
    source,
    source::row_filter,
};
use crate::{
    catalog::{Column, Relation, TypeClass, without_labels},
    dialect::Dialect,
    policy::obligation::Predicate,
    rejection::Rejection,
    resolve::Admission,
    syntax::encode,
};

/// What rows must not meet, where a query gives them.
#[derive(Debug)]
pub(in crate::rewrite) struct Meeting {
    /// The statement by name.
    pub(in crate::rewrite) what: &'static str,
    /// The unique keys by which they may meet a row, each of columns that the query gives.
    pub(in crate::rewrite) keys: Vec<Key>,
    /// What a row of the table that they meet must be like, and what it says of the change where one is not.
    pub(in crate::rewrite) admitted: Vec<(Expr, Found)>,
    /// Whether two of them that have one key are refused.
    pub(in crate::rewrite) apart: bool,
}

/// The columns of a unique key, each with whether it has a default.
pub(in crate::rewrite) type Key = Vec<(u16, bool)>;

/// What stands around the query of an INSERT.
pub(in crate::rewrite) struct Framed {
    pub(in crate::rewrite) admission: Admission,
    /// What has to be looked for before.
    pub(in crate::rewrite) doubts: Vec<Doubt>,
}

/// The columns of the frame's derived table.
#[derive(Default)]
struct Frame {
    inner: Vec<SelectItem>,
    /// What each of its rows must be like.
    conditions: Vec<Expr>,
    /// How many columns it has besides those of the INSERT.
    more: usize,
}

impl Job<'_> {
    /// The keys by which rows of a query may meet others.
    pub(in crate::rewrite) fn keys_given(
        &self,
        what: &str,
        insert: &Insert,
        relation: &Relation,
        reads: &mut Reads,
    ) -> Result<Vec<Key>, Rejection> {
        let given = given(self, insert, relation);
        let mut keys = Vec::new();
        for key in self.unique_keys(what, relation)? {
            let is_given = |index: &u16| given.contains(index);
            let absent: Vec<&u16> = key.columns.iter().filter(|i| !is_given(i)).collect();
            let is_nobodys = |index: &&&u16| {
                let column = relation.column(***index);
                column.is_some_and(|c| c.generated.is_none()) && !key.filled.contains(*index)
            };
            // A column that is given nothing is NULL, by which no row is met.
            if key.plain && absent.iter().any(|index| is_nobodys(&index)) {
                continue;
            }
            let absent = absent.first().and_then(|index| relation.column(**index));
            if !key.plain || absent.is_some() {
                return Err(self.unknown_key(what, key, relation, absent, false));
            }
            reads.extend(&key.columns);
            let columns = key.columns.iter();
            keys.push(columns.map(|i| (*i, key.filled.contains(i))).collect());
        }
        Ok(keys)
    }

    /// `WITH rows (columns) AS (…) SELECT columns FROM (SELECT … FROM rows) AS rows WHERE condition`: the
    /// inner SELECT gives what policy or a key looks at the type that the target's column has, so that what is
    /// compared is what is stored. It has a fence, so that what is compared is worked out once.
    pub(in crate::rewrite) fn frame(
        &self,
        insert: &Insert,
        relation: &Relation,
        columns: &[(u16, &Column)],
        predicates: &[&Predicate],
        meeting: Option<&Meeting>,
        functions: &mut BTreeSet<String>,
    ) -> Result<Framed, Rejection> {
        let dialect = self.catalog.dialect();
        let name = self.unused_name();
        let mut looked = BTreeSet::new();
        for predicate in predicates {
            row_filter::columns(predicate, &mut looked);
        }
        for index in &looked {
            if columns.iter().all(|(known, _)| known != index) {
                return Err(unassigned(relation, *index));
            }
        }
        let mut frame = Frame::default();
        // Only once it is stored has a value the type that such a table keeps to.
        let given = Relation {
            strict: false,
            rowid_alias: None,
            ..relation.clone()
        };
        for predicate in predicates {
            let condition = row_filter::expression(predicate, &given, dialect, functions)?;
            frame.conditions.push(condition);
        }
        let mut outer = Vec::with_capacity(columns.len());
        for (index, column) in columns {
            let plain = ast::column(dialect, &column.name);
            outer.push(SelectItem::UnnamedExpr(plain.clone()));
            let is_looked_at = looked.contains(index);
            let mut typed = None;
            if is_looked_at {
                let behind = storage::behind(column, self.catalog);
                typed = converted::typed(plain.clone(), &behind, dialect);
                if typed.is_none() {
                    return Err(undecided(relation, Some(column)));
                }
                let kept = storage::kept(&plain, &behind, dialect, functions);
                frame.conditions.extend(kept);
                if insert.ignore {
                    frame
                        .conditions
                        .extend(insert_ignore::kept(&plain, column, dialect, functions)?);
                }
            }
            let of_key = meeting.and_then(|meeting| of_key(*index, meeting));
            if dialect == Dialect::Mysql
                && column.class == TypeClass::Text
                && (is_looked_at || of_key.is_some())
            {
                let is_whole = key_value::is_whole(&plain, column, functions);
                let is_whole = frame.beside(self, is_whole);
                frame.conditions.push(is_whole);
            }
            if let Some(meeting) = meeting
                && let Some(is_filled) = of_key
            {
                typed = Some(
                    self.key_value(column, is_filled, meeting, relation, &mut frame, functions)?,
                );
            }
            frame.inner.push(match typed {
                Some(typed) => ast::item(dialect, typed, &column.name),
                None => SelectItem::UnnamedExpr(plain),
            });
        }
        if let Some(meeting) = meeting.filter(|meeting| meeting.apart) {
            for key in &meeting.keys {
                self.once(key, meeting, relation, &mut frame, functions)?;
            }
        }
        let mut doubts = Vec::new();
        let of_rows = ast::joined(frame.conditions.clone(), &BinaryOperator::And, true);
        if !frame.conditions.is_empty() {
            doubts.push(Doubt::Rows {
                admitted: Box::new(of_rows),
                found: Found::NotAdmitted,
            });
        }
        for (admitted, found) in meeting.iter().flat_map(|meeting| &meeting.admitted) {
            let keys = meeting.iter().flat_map(|meeting| &meeting.keys);
            let unmet: Vec<Expr> = keys
                .map(|key| self.unmet(key, relation, &name, admitted))
                .collect();
            if unmet.is_empty() {
                continue;
            }
            frame.conditions.extend(unmet.iter().cloned());
            doubts.push(Doubt::Rows {
                admitted: Box::new(ast::joined(unmet, &BinaryOperator::And, true)),
                found: *found,
            });
        }
        let mut rows = ast::select(frame.inner, ast::table(dialect, &[&name]), None);
        rows.limit_clause = Some(source::barrier(dialect));
        let derived = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(rows),
            alias: Some(ast::alias(encode(&name, dialect))),
            sample: None,
        };
        let condition = ast::joined(frame.conditions, &BinaryOperator::And, true);
        let mut whole = ast::select(outer, derived, Some(condition));
        let names = columns
            .iter()
            .map(|(_, column)| encode(&column.name, dialect));
        whole.with = Some(ast::with(
            encode(&name, dialect),
            names.collect(),
            no_rows(),
        ));
        Ok(Framed {
            admission: Admission {
                frame: Box::new(whole),
            },
            doubts,
        })
    }

    /// What is compared of a column of a key, as it is stored; the conditions under which it is stored so go to `frame`.
    fn key_value(
        &self,
        column: &Column,
        is_filled: bool,
        meeting: &Meeting,
        relation: &Relation,
        frame: &mut Frame,
        functions: &mut BTreeSet<String>,
    ) -> Result<Expr, Rejection> {
        let dialect = self.catalog.dialect();
        let plain = ast::column(dialect, &column.name);
        let known = key_value::keyed(plain.clone(), column, dialect);
        let kept = key_value::kept(&plain, column, is_filled, dialect, functions);
        let (Some(known), Some(kept)) = (known, kept) else {
            let why = if column.class == TypeClass::Text && column.collation.is_empty() {
                format!(
                    "a query gives `{}`, of which the catalog does not know the collation: give the rows by VALUES",
                    column.name
                )
            } else {
                format!(
                    "a query gives `{}`, and nobody can tell what a column of type `{}` makes of that: give the rows by VALUES",
                    column.name,
                    without_labels(&column.type_name)
                )
            };
            return Err(unsought(meeting.what, relation, &why));
        };
        if known.may_be_lost {
            let absent = frame.beside(self, ast::parens(Expr::IsNull(Box::new(plain.clone()))));
            let stored = Expr::IsNotNull(Box::new(plain));
            frame
                .conditions
                .push(ast::parens(ast::binary(absent, BinaryOperator::Or, stored)));
        }
        frame.conditions.extend(kept);
        Ok(known.typed)
    }

    /// That no other row of the query has the key that a row has.
    fn once(
        &self,
        key: &Key,
        meeting: &Meeting,
        relation: &Relation,
        frame: &mut Frame,
        functions: &mut BTreeSet<String>,
    ) -> Result<(), Rejection> {
        let dialect = self.catalog.dialect();
        let columns = || key.iter().filter_map(|(index, _)| relation.column(*index));
        let grouped: Option<Vec<Expr>> = columns()
            .map(|column| key_value::grouped(ast::column(dialect, &column.name), column, dialect))
            .collect();
        let Some(partition_by) = grouped else {
            let why = "one row of the query may meet another, and nobody can tell whether any does: give one row at a time";
            return Err(unsought(meeting.what, relation, why));
        };
        functions.insert("count".to_owned());
        let mut count = ast::call(dialect, "count", vec![ast::integer(1)]);
        if let Expr::Function(function) = &mut count {
            function.over = Some(WindowType::WindowSpec(WindowSpec {
                window_name: None,
                partition_by,
                order_by: Vec::new(),
                window_frame: None,
            }));
        }
        let same = frame.beside(self, count);
        let alone = ast::binary(same, BinaryOperator::Eq, ast::integer(1));
        let absent = columns().map(|c| Expr::IsNull(Box::new(ast::column(dialect, &c.name))));
        let either = [alone].into_iter().chain(absent).collect();
        let either = ast::joined(either, &BinaryOperator::Or, false);
        frame.conditions.push(ast::parens(either));
        Ok(())
    }

    /// That a row of the derived table `rows` has no key of a row of the target that is not `admitted`.
    fn unmet(&self, key: &Key, relation: &Relation, rows: &str, admitted: &Expr) -> Expr {
        let dialect = self.catalog.dialect();
        let alias = &self.target.qualifier;
        let columns = key.iter().filter_map(|(index, _)| relation.column(*index));
        let mut conditions: Vec<Expr> = columns
            .map(|column| {
                let name = encode(&column.name, dialect);
                let own = Expr::CompoundIdentifier(vec![alias.clone(), name.clone()]);
                let given = Expr::CompoundIdentifier(vec![encode(rows, dialect), name]);
                key_value::equal(own, column, given, dialect)
            })
            .collect();
        conditions.push(crate::rewrite::change::precheck::refused(admitted.clone()));
        let mut target = ast::table(dialect, &[&relation.schema, &relation.name]);
        if let TableFactor::Table {
            name: _,
            alias: own,
            args: _,
            with_hints: _,
            version: _,
            with_ordinality: _,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        } = &mut target
        {
            *own = Some(ast::alias(alias.clone()));
        }
        let met = ast::select(
            vec![crate::rewrite::change::precheck::one(dialect)],
            target,
            Some(ast::joined(conditions, &BinaryOperator::And, true)),
        );
        Expr::Exists {
            subquery: Box::new(met),
            negated: true,
        }
    }
}

impl Frame {
    /// A column beside those of the INSERT.
    fn beside(&mut self, job: &Job<'_>, value: Expr) -> Expr {
        let dialect = job.catalog.dialect();
        self.more += 1;
        // No column of a table is called so by chance.
        let name = format!("{}_{}", job.unused_name(), self.more);
        self.inner.push(ast::item(dialect, value, &name));
        ast::column(dialect, &name)
    }
}

/// Whether a column is one of a key; and then, whether it has a default there.
fn of_key(index: u16, meeting: &Meeting) -> Option<bool> {
    let mut columns = meeting.keys.iter().flatten();
    columns
        .find(|(of, _)| *of == index)
        .map(|(_, filled)| *filled)
}

/// In whose place the query is put.
fn no_rows() -> Query {
    ast::query(SetExpr::Values(Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    }))
}
