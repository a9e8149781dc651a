//! What the text that runs is made of, as far as a server tells of it by names that the text gives.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{Cte, Expr, Ident, Query, SetExpr, TableAlias, TableFactor};

use crate::rewrite::refusal::not_as_decided;
use crate::{
    catalog::Catalog,
    dialect::Dialect,
    rejection::Rejection,
    syntax::{TreeVisitor, decode, visit_tree},
};

/// What the text of a statement is made of, told of the tree that this text was read back as.
///
/// Servers report where a column comes from by names of the text, and what they make of it depends on its parts. What stands
/// in the place of a relation counts like the rest. The bodies of views do not: they are no part of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextFacts {
    /// Names that it gives to relations and queries in FROM, as the catalog folds names of relations.
    pub aliases: BTreeSet<String>,
    /// Names of its common table expressions, folded likewise.
    pub expressions: BTreeSet<String>,
    /// Whether anything in it gives rows that is no relation: a query in FROM or in WITH, or a function in FROM.
    pub has_derived_tables: bool,
    /// Whether a query in it has a condition on groups.
    pub has_group_conditions: bool,
}

impl TextFacts {
    /// Adds what is known of a part of the text.
    pub(in crate::rewrite) fn add_part(&mut self, part: &Self) {
        let Self {
            aliases,
            expressions,
            has_derived_tables,
            has_group_conditions,
        } = part;
        self.aliases.extend(aliases.iter().cloned());
        self.expressions.extend(expressions.iter().cloned());
        self.has_derived_tables |= has_derived_tables;
        self.has_group_conditions |= has_group_conditions;
    }

    /// The same with its names as the catalog folds them.
    pub(in crate::rewrite) fn fold_names(self, catalog: &Catalog) -> Self {
        let fold = |names: BTreeSet<String>| -> BTreeSet<String> {
            (names.iter())
                .map(|name| catalog.fold_relation(name))
                .collect()
        };
        Self {
            aliases: fold(self.aliases),
            expressions: fold(self.expressions),
            ..self
        }
    }

    /// About how many bytes they take, each name with `each` beside its text.
    pub(in crate::rewrite) fn bytes(&self, each: usize) -> usize {
        let names = self.aliases.iter().chain(&self.expressions);
        names.map(|name| each + name.len()).sum()
    }
}

/// The facts of a tree, with the names in it that stand for texts of ours.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct SkeletonFacts {
    pub(in crate::rewrite) facts: TextFacts,
    /// Each as often as it stands there.
    pub(in crate::rewrite) placeholders: Vec<Ident>,
}

/// Reads the facts of a tree that was read back. Nothing for engines whose backends ask for none.
///
/// # Errors
/// `internal` where rows come from what is not modelled.
pub(in crate::rewrite) fn read_skeleton(
    query: &Query,
    dialect: Dialect,
) -> Result<Option<SkeletonFacts>, Rejection> {
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => return Ok(None),
        Dialect::Mysql => {}
    }
    let mut reader = FactReader {
        found: SkeletonFacts::default(),
        is_unknown: false,
    };
    let _ = visit_tree(query, &mut reader);
    if reader.is_unknown {
        return Err(not_as_decided("rows come from what is not modelled"));
    }
    Ok(Some(reader.found))
}

/// [`read_skeleton`] of a text in which no name stands for another.
///
/// # Errors
/// `internal` where rows come from what is not modelled, or such a name is left.
pub(in crate::rewrite) fn read_whole(
    query: &Query,
    dialect: Dialect,
) -> Result<Option<TextFacts>, Rejection> {
    let Some(SkeletonFacts {
        facts,
        placeholders,
    }) = read_skeleton(query, dialect)?
    else {
        return Ok(None);
    };
    if placeholders.is_empty() {
        Ok(Some(facts))
    } else {
        Err(not_as_decided("a name stands for another text"))
    }
}

struct FactReader {
    found: SkeletonFacts,
    is_unknown: bool,
}

impl FactReader {
    fn read_body(&mut self, body: &SetExpr) {
        match body {
            SetExpr::Select(select) => {
                self.found.facts.has_group_conditions |= select.having.is_some();
            }
            SetExpr::SetOperation {
                op: _,
                set_quantifier: _,
                left,
                right,
            } => {
                self.read_body(left);
                self.read_body(right);
            }
            // Queries in these are visited by themselves.
            SetExpr::Query(_)
            | SetExpr::Values(_)
            | SetExpr::Table(_)
            | SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_) => {}
        }
    }

    fn read_factor(&mut self, factor: &TableFactor) -> Result<(), Rejection> {
        let facts = &mut self.found.facts;
        let alias: &Option<TableAlias> = match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints: _,
                version: _,
                with_ordinality: _,
                partitions: _,
                json_path: _,
                sample: _,
                index_hints: _,
            } => {
                facts.has_derived_tables |= args.is_some();
                let names = name.0.iter().filter_map(|part| part.as_ident());
                for name in names.filter(|name| is_placeholder(name)) {
                    facts.has_derived_tables = true;
                    self.found.placeholders.push(name.clone());
                }
                alias
            }
            TableFactor::Derived {
                lateral: _,
                subquery: _,
                alias,
                sample: _,
            }
            | TableFactor::JsonTable {
                json_expr: _,
                json_path: _,
                columns: _,
                alias,
            } => {
                facts.has_derived_tables = true;
                alias
            }
            TableFactor::NestedJoin {
                table_with_joins: _,
                alias,
            } => alias,
            _ => return Err(not_as_decided("rows come from what is not modelled")),
        };
        if let Some(alias) = alias {
            let name = decode(&alias.name).into_owned();
            self.found.facts.aliases.insert(name);
        }
        Ok(())
    }
}

impl TreeVisitor for FactReader {
    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for Cte {
            alias,
            query: _,
            from: _,
            materialized: _,
            closing_paren_token: _,
        } in query.with.iter().flat_map(|with| &with.cte_tables)
        {
            self.found.facts.has_derived_tables = true;
            let name = decode(&alias.name).into_owned();
            self.found.facts.expressions.insert(name);
        }
        self.found.facts.has_derived_tables |= is_ordered_twice(query);
        self.read_body(&query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match self.read_factor(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => {
                self.is_unknown = true;
                ControlFlow::Break(())
            }
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && is_placeholder(name)
        {
            self.found.placeholders.push(name.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Whether a query in parentheses is put in order, and then again: MariaDB makes a derived table of it, and gives that a name of
/// its own.
fn is_ordered_twice(query: &Query) -> bool {
    let mut inner = query;
    while let (Some(_), SetExpr::Query(within)) = (&query.order_by, &*inner.body) {
        inner = within;
        if inner.order_by.is_some() {
            return true;
        }
    }
    false
}

/// Whether a name begins with what no text holds, and stands for a text of ours.
fn is_placeholder(name: &Ident) -> bool {
    name.value.starts_with('\0')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{limits::Limits, resolve::source_name, syntax::read_query};

    fn read(text: &str, dialect: Dialect) -> Box<Query> {
        read_query(text, dialect, &Limits::default()).unwrap()
    }

    #[test]
    fn names_are_told_as_they_are_meant() {
        let query = read(
            "WITH `c``d` (`x`) AS (SELECT 1) SELECT `e f`.`x` FROM `c``d` AS `e f`, (SELECT 2) G",
            Dialect::Mysql,
        );
        let facts = read_whole(&query, Dialect::Mysql).unwrap().unwrap();
        let (aliases, expressions) = (["G", "e f"], ["c`d"]);
        assert_eq!(facts.aliases, aliases.map(str::to_owned).into());
        assert_eq!(facts.expressions, expressions.map(str::to_owned).into());
        assert!(facts.has_derived_tables);
        assert_eq!(read_whole(&query, Dialect::Sqlite).unwrap(), None);
    }

    #[test]
    fn names_that_stand_for_texts_are_kept() {
        let mut query = read("SELECT 1 FROM t AS u WHERE x", Dialect::Mysql);
        let (form, write_filter) = (
            source_name(0, Dialect::Mysql),
            Ident::with_quote('`', "\0filter 0"),
        );
        if let SetExpr::Select(select) = &mut *query.body
            && let TableFactor::Table { name, .. } = &mut select.from.first_mut().unwrap().relation
        {
            *name = form.clone().into();
            select.selection = Some(Expr::Identifier(write_filter.clone()));
        }
        let found = read_skeleton(&query, Dialect::Mysql).unwrap().unwrap();
        assert_eq!(found.placeholders, [form, write_filter]);
        assert!(found.facts.has_derived_tables);
        assert!(read_whole(&query, Dialect::Mysql).is_err());
    }

    #[test]
    fn what_is_not_modelled_is_refused() {
        let text = "SELECT * FROM t, UNNEST (ARRAY[1]) AS u";
        let query = read(text, Dialect::Postgres);
        assert!(read_whole(&query, Dialect::Mysql).is_err());
    }

    /// How much is remembered is bounded in bytes.
    #[test]
    fn each_name_counts_with_its_text() {
        let bytes = |text: &str| {
            let facts = read_whole(&read(text, Dialect::Mysql), Dialect::Mysql).unwrap();
            facts.unwrap().bytes(10)
        };
        for (text, expected) in [
            ("SELECT 1 FROM t", 0),
            ("SELECT 1 FROM t AS abc", 13),
            ("SELECT 1 FROM t AS abc, t AS de", 25),
            ("WITH abcd AS (SELECT 1) SELECT 1 FROM abcd AS x", 25),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
