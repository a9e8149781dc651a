//! Broken rewriters, each of which the comparison of two databases must find out. What is printed is taken apart
//! and put together wrongly here, and run without a gate: nothing in the rewriter can be told to be broken.

use std::{collections::BTreeMap, ops::ControlFlow};

use palisade::dialect::Dialect;
use proptest::strategy::{Strategy as _, ValueTree as _};
use serde_json::json;
use sqlparser::{
    ast::{
        BinaryOperator, Expr, Query, Select, SelectItem, SetExpr, Statement as Parsed, TableFactor,
        VisitMut, VisitorMut,
    },
    dialect::{Dialect as Grammar, MySqlDialect, PostgreSqlDialect, SQLiteDialect},
    parser::{Parser, ParserOptions},
};

use crate::{
    bare::Bare,
    choices::Choices,
    grammar::Statement,
    interference::{
        Seen, difference, may_differ_by_plan, runner, runtime, statement_numbers, statement_of,
        world_numbers,
    },
    stand::{Engine, MariaDb, Policies, Postgres, Sqlite, Stand},
    world::{Filter, World},
};

/// How a rewriter may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mutant {
    /// Nothing is: what is run is what the rewriter printed.
    None,
    /// Conditions of the agent's run beside the filters.
    NoFence,
    /// The second reference of a table is not filtered.
    SecondReference,
    /// References in subqueries of expressions are not filtered.
    Subqueries,
    /// The second arm of a set operation is not filtered.
    SecondArm,
    /// What stands below views is not filtered.
    BelowViews,
    /// One column of each source is not masked.
    OneMask,
    /// Masks stand on the answer alone, and everything else is computed on values.
    MaskAfter,
    /// Hidden columns of what stands below views are there.
    HiddenInView,
    /// The rows that an UPDATE reaches are not those that may be seen.
    UnguardedUpdate,
    /// Nor those of a DELETE.
    UnguardedDelete,
    /// The rows of a query are added as they are.
    UncheckedRows,
}

const MUTANTS: &[Mutant] = &[
    Mutant::NoFence,
    Mutant::SecondReference,
    Mutant::Subqueries,
    Mutant::SecondArm,
    Mutant::BelowViews,
    Mutant::OneMask,
    Mutant::MaskAfter,
    Mutant::HiddenInView,
    Mutant::UnguardedUpdate,
    Mutant::UnguardedDelete,
    Mutant::UncheckedRows,
];

impl Mutant {
    /// `sql`, broken; nothing where there is nothing to break.
    fn of(
        self,
        sql: &str,
        dialect: Dialect,
        world: &World,
        statement: &Statement,
    ) -> Option<String> {
        let mut parsed = parse(sql, dialect);
        let printed = parsed.to_string();
        let filtered = statement
            .target
            .is_some_and(|index| world.tables[index].filter != Filter::All);
        match self {
            Self::None => return Some(printed),
            Self::NoFence => {
                forms(&mut parsed, |form, _| form.limit_clause = None);
                if filtered {
                    unfence(&mut parsed);
                }
            }
            Self::SecondReference => {
                let mut seen = Vec::new();
                forms(&mut parsed, |form, _| {
                    let table = source(form);
                    if seen.contains(&table) {
                        unfilter(form);
                    }
                    seen.push(table);
                });
            }
            Self::Subqueries => {
                let _ = VisitMut::visit(&mut parsed, &mut InSubqueries);
            }
            Self::SecondArm => {
                let _ = VisitMut::visit(&mut parsed, &mut InSecondArms);
            }
            Self::BelowViews => forms(&mut parsed, |form, in_view| {
                if in_view {
                    unfilter(form);
                }
            }),
            Self::OneMask => forms(&mut parsed, |form, _| {
                let item = select(form)
                    .projection
                    .iter_mut()
                    .find(|item| is_masked(item));
                if let Some(item) = item {
                    unmask(item);
                }
            }),
            Self::MaskAfter if statement.target.is_some() => return None,
            Self::MaskAfter => forms(&mut parsed, |form, _| {
                select(form)
                    .projection
                    .iter_mut()
                    .filter(|item| is_masked(item))
                    .for_each(unmask);
            }),
            Self::HiddenInView => forms(&mut parsed, |form, in_view| {
                if in_view {
                    select(form)
                        .projection
                        .iter_mut()
                        .filter(|item| is_nothing(item))
                        .for_each(unmask);
                }
            }),
            Self::UnguardedUpdate => {
                if let (Parsed::Update(update), true) = (&mut parsed, filtered) {
                    unguard(&mut update.selection);
                }
            }
            Self::UnguardedDelete => {
                if let (Parsed::Delete(delete), true) = (&mut parsed, filtered) {
                    unguard(&mut delete.selection);
                }
            }
            Self::UncheckedRows => {
                if let Parsed::Insert(insert) = &mut parsed
                    && let Some(query) = &mut insert.source
                    && query.with.is_some()
                    && let SetExpr::Select(select) = &mut *query.body
                {
                    select.selection = None;
                }
            }
        }
        let broken = parsed.to_string();
        (broken != printed).then_some(broken)
    }
}

fn grammar(dialect: Dialect) -> &'static dyn Grammar {
    match dialect {
        Dialect::Sqlite => &SQLiteDialect {},
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::Mysql => &MySqlDialect {},
    }
}

fn parse(sql: &str, dialect: Dialect) -> Parsed {
    let options = ParserOptions::new().with_unescape(false);
    let mut parser = Parser::new(grammar(dialect)).with_options(options);
    parser = parser.try_with_sql(sql).unwrap();
    parser
        .parse_statement()
        .unwrap_or_else(|why| panic!("{why}: {sql}"))
}

/// Calls `change` with each source form, and whether it stands below a view.
fn forms(parsed: &mut Parsed, change: impl FnMut(&mut Query, bool)) {
    let _ = VisitMut::visit(parsed, &mut Forms { change, views: 0 });
}

struct Forms<F> {
    change: F,
    views: usize,
}

impl<F: FnMut(&mut Query, bool)> VisitorMut for Forms<F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.views += usize::from(is_view(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.views -= usize::from(is_view(query));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor
            && is_form(subquery)
        {
            (self.change)(subquery, self.views > 0);
        }
        ControlFlow::Continue(())
    }
}

/// Whether this is what stands in the place of a table: the statements of these tests name no table without an
/// alias.
fn is_form(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else {
        return false;
    };
    match &select.from[..] {
        [from] if from.joins.is_empty() => {
            matches!(&from.relation, TableFactor::Table { name, alias: None, .. } if name.0.len() == 2)
        }
        _ => false,
    }
}

/// Whether this is what stands in the place of a view.
fn is_view(query: &Query) -> bool {
    query.with.as_ref().is_some_and(|with| {
        with.cte_tables
            .iter()
            .any(|cte| cte.alias.name.value.ends_with("_view"))
    })
}

fn select(form: &mut Query) -> &mut Select {
    match &mut *form.body {
        SetExpr::Select(select) => select,
        other => panic!("{other}"),
    }
}

fn source(form: &mut Query) -> String {
    select(form).from[0].relation.to_string()
}

fn unfilter(form: &mut Query) {
    select(form).selection = None;
}

/// Whether a form's column is computed from the table's.
fn is_masked(item: &SelectItem) -> bool {
    matches!(item, SelectItem::ExprWithAlias { .. }) && !is_nothing(item)
}

/// Whether a form's column is NULL.
fn is_nothing(item: &SelectItem) -> bool {
    match item {
        SelectItem::ExprWithAlias { expr, .. } => {
            let text = expr.to_string();
            text == "NULL" || text.starts_with("CAST(NULL AS")
        }
        _ => false,
    }
}

fn unmask(item: &mut SelectItem) {
    if let SelectItem::ExprWithAlias { alias, .. } = item {
        *item = SelectItem::UnnamedExpr(Expr::Identifier(alias.clone()));
    }
}

struct InSubqueries;

impl VisitorMut for InSubqueries {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (Expr::Subquery(query)
        | Expr::Exists {
            subquery: query, ..
        }
        | Expr::InSubquery {
            subquery: query, ..
        }) = expr
        else {
            return ControlFlow::Continue(());
        };
        let mut unfiltering = Forms {
            change: |form: &mut Query, _| unfilter(form),
            views: 0,
        };
        VisitMut::visit(query, &mut unfiltering)
    }
}

struct InSecondArms;

impl VisitorMut for InSecondArms {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::SetOperation { right, .. } = &mut *query.body {
            let mut unfiltering = Forms {
                change: |form: &mut Query, _| unfilter(form),
                views: 0,
            };
            return VisitMut::visit(right, &mut unfiltering);
        }
        ControlFlow::Continue(())
    }
}

/// Takes the guard off a condition.
fn unguard(selection: &mut Option<Expr>) {
    *selection = match selection.take() {
        Some(Expr::Case { mut conditions, .. }) => Some(conditions.remove(0).result),
        Some(Expr::BinaryOp {
            op: BinaryOperator::And,
            right,
            ..
        }) => Some(*right),
        _ => None,
    };
}

/// Puts the guard beside the condition.
fn unfence(parsed: &mut Parsed) {
    let selection = match parsed {
        Parsed::Update(update) => &mut update.selection,
        Parsed::Delete(delete) => &mut delete.selection,
        _ => return,
    };
    // SQLite and the others try what stands first before the rest, mostly.
    if let Some(Expr::Case { conditions, .. }) = selection {
        let case = conditions.remove(0);
        *selection = Some(Expr::BinaryOp {
            left: Box::new(case.result),
            op: BinaryOperator::And,
            right: Box::new(case.condition),
        });
    }
}

/// Runs what the rewriter printed, broken, without a gate.
async fn run<B: palisade::guard::Backend, D: Bare>(
    stand: &mut Stand<B, D>,
    world: &World,
    statement: &Statement,
    mutant: Mutant,
) -> Option<Seen> {
    let rewritten = stand.rewritten(&statement.sql).ok()?;
    let sql = mutant.of(rewritten.sql(), world.dialect, world, statement)?;
    let answer = match stand.bare.run(&sql).await {
        // The gate forwards no message.
        Err(_) => json!({ "code": "database.rejected" }),
        Ok(printed) => {
            let shown = match mutant {
                Mutant::MaskAfter => stand.answer(&statement.sql).await,
                _ => serde_json::Value::Null,
            };
            let mut rows: Vec<String> = printed
                .rows
                .into_iter()
                .map(|row| {
                    let cells = row.into_iter().enumerate().map(|(index, cell)| {
                        // As if masks were put over the answer.
                        cell.filter(|_| shown["columns"][index]["masked"] != true)
                    });
                    format!("{:?}", cells.collect::<Vec<_>>())
                })
                .collect();
            rows.sort();
            json!({
                "columns": printed.names,
                "row_count": rows.len(),
                "rows": rows,
                "affected_rows": statement.target.map(|_| printed.affected),
            })
        }
    };
    let contents = match statement.target {
        None => None,
        Some(_) => {
            let contents = stand.contents(world).await;
            stand.bare.restore().await;
            Some(contents)
        }
    };
    Some(Seen { answer, contents })
}

/// Breaks statements until each mutant is found out: how many of its statements that took.
async fn hunt<E: Engine>(engine: &E, seed: u64, worlds: usize) -> BTreeMap<Mutant, usize> {
    let mut runner = runner(seed);
    let mut tried: BTreeMap<Mutant, usize> = BTreeMap::new();
    let mut caught = BTreeMap::new();
    for _ in 0..worlds {
        let numbers = world_numbers().new_tree(&mut runner).unwrap().current();
        let world = World::new(E::DIALECT, &mut Choices::new(&numbers));
        let mut one = engine.stand(&world, 0, Policies::World).await;
        let mut other = engine.stand(&world, 1, Policies::World).await;
        for _ in 0..100 {
            let numbers = statement_numbers().new_tree(&mut runner).unwrap().current();
            let statement = statement_of(&world, &numbers);
            for mutant in MUTANTS.iter().chain([&Mutant::None]) {
                if caught.contains_key(mutant) {
                    continue;
                }
                let (Some(one), Some(other)) = (
                    run(&mut one, &world, &statement, *mutant).await,
                    run(&mut other, &world, &statement, *mutant).await,
                ) else {
                    continue;
                };
                let seen = [one, other];
                if *mutant == Mutant::None && may_differ_by_plan(&world, &statement, &seen) {
                    continue;
                }
                let count = tried.entry(*mutant).or_default();
                *count += 1;
                if let Some(why) = difference(&world, &statement, &seen) {
                    assert_ne!(*mutant, Mutant::None, "{}\n{why}", statement.sql);
                    caught.insert(*mutant, *count);
                }
            }
            if caught.len() == MUTANTS.len() {
                return caught;
            }
        }
    }
    panic!("found out: {caught:?}, of {tried:?}");
}

#[test]
fn broken_rewriters_are_found_out_on_sqlite() {
    let caught = runtime().block_on(hunt(&Sqlite::new(), 41, 60));
    println!("{caught:?}");
}

#[test]
fn broken_rewriters_are_found_out_on_postgres() {
    let caught = runtime().block_on(hunt(&Postgres, 42, 20));
    println!("{caught:?}");
}

#[test]
fn broken_rewriters_are_found_out_on_mariadb() {
    let caught = runtime().block_on(hunt(&MariaDb, 43, 20));
    println!("{caught:?}");
}
