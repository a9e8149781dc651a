//! Broken rewriters: the comparison of two databases must detect each. This module takes printed statements apart, puts
//! them together wrongly, and runs them without a gate. The rewriter itself has no switch for it.

use std::{collections::BTreeMap, ops::ControlFlow};

use palisade::{dialect::Dialect, value::Value};
use proptest::strategy::{Strategy as _, ValueTree as _};
use serde_json::json;
use sqlparser::{
    ast::{
        BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, Query, Select, SelectItem,
        SetExpr, Statement as Parsed, TableFactor, Value as SqlValue, ValueWithSpan, VisitMut,
        VisitorMut,
    },
    dialect::{Dialect as Grammar, MySqlDialect, PostgreSqlDialect, SQLiteDialect},
    parser::{Parser, ParserOptions},
    tokenizer::{Token, Tokenizer},
};

use crate::worlds::{
    bare::Bare,
    choices::Choices,
    grammar::Statement,
    interference::{
        Seen, difference, may_differ_by_plan, runner, runtime, statement_numbers, statement_of,
        world_numbers,
    },
    stand::{Engine, MariaDb, Policies, Postgres, Sqlite, Stand},
    tokens::Renames,
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
    /// Tokens of all domains have one key.
    SharedKey,
    /// A token with another tag is taken for one.
    UncheckedTag,
    /// The rows of set operations are not capped.
    UncappedSets,
    /// What foreign keys and triggers do is not asked about.
    Uncounted,
    /// A partition that is named is not filtered. (PostgreSQL alone has them.)
    Partitions,
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
    Mutant::SharedKey,
    Mutant::UncheckedTag,
    Mutant::UncappedSets,
    Mutant::Uncounted,
];

/// How many statements of a world are looked at.
const STATEMENTS: usize = 1500;

/// The mutants that there are on an engine.
fn mutants(dialect: Dialect) -> Vec<Mutant> {
    let mut all = MUTANTS.to_vec();
    if dialect == Dialect::Postgres {
        all.push(Mutant::Partitions);
    }
    all
}

impl Mutant {
    /// Whether it is worth while to break a statement so: what concerns few statements is looked for among more.
    fn concerns(self, world: &World, statement: &Statement, number: usize) -> bool {
        match self {
            Self::SharedKey => statement.shapes.contains("tokens of two domains compared"),
            Self::UncheckedTag => statement.forges(),
            Self::UncappedSets => {
                statement.capped
                    && ["a set operation", "nested set operations"]
                        .iter()
                        .any(|shape| statement.shapes.contains(shape))
            }
            Self::Uncounted => {
                (statement.target).is_some_and(|target| world.reached(target).len() > 1)
            }
            Self::Partitions => statement.shapes.contains("a partition"),
            Self::NoFence => {
                number < 50
                    || [
                        "a condition that may raise",
                        "a cast that may raise",
                        "a division",
                    ]
                    .iter()
                    .any(|shape| statement.shapes.contains(shape))
            }
            Self::SecondArm => ["a set operation", "nested set operations"]
                .iter()
                .any(|shape| statement.shapes.contains(shape)),
            Self::None
            | Self::SecondReference
            | Self::Subqueries
            | Self::BelowViews
            | Self::OneMask
            | Self::MaskAfter
            | Self::HiddenInView
            | Self::UnguardedUpdate
            | Self::UnguardedDelete => number < 100,
            Self::UncheckedRows => number < 300,
        }
    }

    /// `sql`, broken; nothing where there is nothing to break.
    fn apply(
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
            // These are not broken here, but let through what would be refused.
            Self::UncheckedTag | Self::Uncounted => return Some(printed),
            Self::SharedKey if statement.target.is_some() => return None,
            Self::SharedKey => {
                let _ = VisitMut::visit(&mut parsed, &mut OneKey { keys: Vec::new() });
            }
            Self::UncappedSets => {
                if let Parsed::Query(query) = &mut parsed
                    && let SetExpr::SetOperation { .. } = &*query.body
                {
                    query.limit_clause = None;
                }
            }
            Self::Partitions => change_sources(&mut parsed, |source, _| {
                if table_name(source).contains("_low") || table_name(source).contains("_high") {
                    unfilter(source);
                }
            }),
            Self::NoFence => {
                change_sources(&mut parsed, |source, _| source.limit_clause = None);
                if filtered {
                    unfence(&mut parsed);
                }
            }
            Self::SecondReference => {
                let mut seen = Vec::new();
                change_sources(&mut parsed, |source, _| {
                    let table = table_name(source);
                    if seen.contains(&table) {
                        unfilter(source);
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
            Self::BelowViews => change_sources(&mut parsed, |source, in_view| {
                if in_view {
                    unfilter(source);
                }
            }),
            Self::OneMask => change_sources(&mut parsed, |source, _| {
                let item = select(source)
                    .projection
                    .iter_mut()
                    .find(|item| is_masked(item));
                if let Some(item) = item {
                    unmask(item);
                }
            }),
            Self::MaskAfter if statement.target.is_some() => return None,
            Self::MaskAfter => change_sources(&mut parsed, |source, _| {
                select(source)
                    .projection
                    .iter_mut()
                    .filter(|item| is_masked(item))
                    .for_each(unmask);
            }),
            Self::HiddenInView => change_sources(&mut parsed, |source, in_view| {
                if in_view {
                    select(source)
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

/// `sql` with what is bound to it in its place.
fn bound(sql: &str, params: &[Value], dialect: Dialect) -> String {
    let mut tokenizer = Tokenizer::new(grammar(dialect), sql).with_unescape(false);
    let mut next = 0;
    tokenizer
        .tokenize()
        .unwrap()
        .iter()
        .map(|token| match token {
            Token::Placeholder(text) => {
                next += 1;
                let number = text[1..].parse().unwrap_or(next);
                match &params[number - 1] {
                    Value::Text(text) => {
                        format!("'{}'", String::from_utf8_lossy(text).replace('\'', "''"))
                    }
                    Value::Integer(value) => value.to_string(),
                    Value::Null => "NULL".to_owned(),
                    other => panic!("{other:?} is bound to {sql}"),
                }
            }
            other => other.to_string(),
        })
        .collect()
}

/// Calls `change` with each source subquery, and whether it stands below a view.
fn change_sources(parsed: &mut Parsed, change: impl FnMut(&mut Query, bool)) {
    let _ = VisitMut::visit(parsed, &mut SourceVisitor { change, views: 0 });
}

struct SourceVisitor<F> {
    change: F,
    views: usize,
}

impl<F: FnMut(&mut Query, bool)> VisitorMut for SourceVisitor<F> {
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

fn select(source: &mut Query) -> &mut Select {
    match &mut *source.body {
        SetExpr::Select(select) => select,
        other => panic!("{other}"),
    }
}

fn table_name(source: &mut Query) -> String {
    select(source).from[0].relation.to_string()
}

fn unfilter(source: &mut Query) {
    select(source).selection = None;
}

/// Whether a source subquery's column is computed from the table's.
fn is_masked(item: &SelectItem) -> bool {
    matches!(item, SelectItem::ExprWithAlias { .. }) && !is_nothing(item)
}

/// Whether a source subquery's column is NULL.
fn is_nothing(item: &SelectItem) -> bool {
    match item {
        SelectItem::ExprWithAlias { expr, .. } => {
            let text = expr.to_string();
            // MySQL's has a type by what it never is.
            text == "NULL"
                || text.starts_with("CAST(NULL AS")
                || text.starts_with("CASE WHEN false THEN")
        }
        _ => false,
    }
}

fn unmask(item: &mut SelectItem) {
    if let SelectItem::ExprWithAlias { alias, .. } = item {
        *item = SelectItem::UnnamedExpr(Expr::Identifier(alias.clone()));
    }
}

/// Gives all columns of tokens the key of the first.
struct OneKey {
    keys: Vec<String>,
}

impl VisitorMut for OneKey {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let SqlValue::SingleQuotedString(text) = &mut value.value
            && [64, 128].contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            // A key is two constants on the servers, whose first bytes tell which of the two it is of.
            let parts = if text.len() == 64 { 1 } else { 2 };
            let part = self.keys.len() % parts;
            self.keys.push(text.clone());
            text.clone_from(&self.keys[part]);
        }
        ControlFlow::Continue(())
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
        let mut unfiltering = SourceVisitor {
            change: |source: &mut Query, _| unfilter(source),
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
            let mut unfiltering = SourceVisitor {
                change: |source: &mut Query, _| unfilter(source),
                views: 0,
            };
            return VisitMut::visit(right, &mut unfiltering);
        }
        ControlFlow::Continue(())
    }
}

/// Takes the guard off a condition.
fn unguard(selection: &mut Option<Expr>) {
    let Some(terms) = selection.take().map(terms) else {
        return;
    };
    let guard = terms
        .iter()
        .find_map(|term| split(term).map(|(guard, _)| guard));
    let own: Vec<Expr> = match guard {
        // What is left where the guard is known.
        Some(guard) => {
            let own = terms.into_iter().filter(|term| *term != guard);
            own.map(|term| split(&term).map_or(term, |(_, own)| own))
                .collect()
        }
        None => terms.into_iter().skip(1).collect(),
    };
    *selection = joined(own);
}

/// Puts the guard beside a condition.
fn unfence_condition(selection: &mut Option<Expr>) {
    let Some(terms) = selection.take().map(terms) else {
        return;
    };
    let mut guards = Vec::new();
    let mut own = Vec::new();
    for term in terms {
        match split(&term) {
            Some((guard, inside)) => {
                own.push(inside);
                guards.push(guard);
            }
            None => own.push(term),
        }
    }
    // SQLite and the others try what stands first before the rest, mostly.
    own.retain(|term| !guards.contains(term));
    guards.truncate(1);
    own.append(&mut guards);
    *selection = joined(own);
}

/// The terms of a chain of AND.
fn terms(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            let mut all = terms(*left);
            all.push(*right);
            all
        }
        other => vec![other],
    }
}

/// The guard and what it stands around.
fn split(term: &Expr) -> Option<(Expr, Expr)> {
    match term {
        Expr::Case { conditions, .. } if conditions.len() == 1 => {
            let case = &conditions[0];
            Some((case.condition.clone(), case.result.clone()))
        }
        _ => None,
    }
}

fn joined(terms: Vec<Expr>) -> Option<Expr> {
    terms.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

/// Puts the guards beside the conditions.
fn unfence(parsed: &mut Parsed) {
    match parsed {
        Parsed::Update(update) => {
            unfence_condition(&mut update.selection);
            let joins = &mut update.table.joins;
            for join in joins {
                unfence_join(join);
            }
        }
        Parsed::Delete(delete) => unfence_condition(&mut delete.selection),
        Parsed::Merge(merge) => {
            let mut on = Some((*merge.on).clone());
            unfence_condition(&mut on);
            *merge.on = on.unwrap();
        }
        _ => {}
    }
}

fn unfence_join(join: &mut Join) {
    if let JoinOperator::Join(JoinConstraint::On(on))
    | JoinOperator::Left(JoinConstraint::On(on))
    | JoinOperator::LeftOuter(JoinConstraint::On(on)) = &mut join.join_operator
    {
        let mut own = Some(on.clone());
        unfence_condition(&mut own);
        *on = own.unwrap();
    }
}

/// Whether a hash stands in an answer.
fn shows_hash(answer: &serde_json::Value) -> bool {
    let text = answer["rows"].to_string();
    text.split(|letter: char| !matches!(letter, '0'..='9' | 'a'..='f'))
        .any(|run| run.len() >= 32)
}

/// Runs what the rewriter printed, broken, without a gate.
async fn run<D: Bare>(
    stand: &mut Stand<D>,
    world: &World,
    statement: &Statement,
    mutant: Mutant,
) -> Option<Seen> {
    let rewritten = match mutant {
        Mutant::UncheckedTag => stand.rewritten(&unforged(statement)?).ok()?,
        Mutant::Uncounted => {
            let target = statement.target?;
            if world.reached(target).len() == 1 || stand.rewritten(statement).is_ok() {
                return None;
            }
            // Otherwise it is what the statement reads that is no more filtered.
            let names = world.tables.iter().map(|table| table.name);
            let reads = names
                .chain(world.views.iter().map(|view| view.name))
                .filter(|name| *name != world.tables[target].name)
                .any(|name| statement.sql.contains(name));
            if reads {
                return None;
            }
            let policies = world.policies_of_target(target, stand.schema());
            stand.rewritten_under(policies, statement).ok()?
        }
        _ => stand.rewritten(statement).ok()?,
    };
    let sql = bound(
        palisade::danger::parts(&rewritten).sql,
        rewritten.params(),
        world.dialect,
    );
    let sql = mutant.apply(&sql, world.dialect, world, statement)?;
    let answer = match stand.bare.run(&sql).await {
        // The gate forwards no message.
        Err(_) => json!({ "code": "database.rejected" }),
        Ok(printed) => {
            let shown = match mutant {
                Mutant::MaskAfter => stand.answer(statement).await,
                _ => serde_json::Value::Null,
            };
            let mut rows: Vec<serde_json::Value> = printed
                .rows
                .into_iter()
                .map(|row| {
                    let cells = row.into_iter().enumerate().map(|(index, cell)| {
                        // As if masks were put over the answer.
                        cell.filter(|_| shown["columns"][index]["masked"] != true)
                    });
                    format!("{:?}", cells.collect::<Vec<_>>()).into()
                })
                .collect();
            rows.sort_by_key(ToString::to_string);
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

/// A statement that holds a forged token, with that of which it was made.
fn unforged(statement: &Statement) -> Option<Statement> {
    statement.forges().then(|| Statement {
        sql: statement.sql.replace("{forged ", "{token "),
        ..statement.clone()
    })
}

/// Breaks statements until each mutant is found out: how many of its statements that took.
async fn hunt<E: Engine>(engine: &E, seed: u64, worlds: usize) -> BTreeMap<Mutant, usize> {
    let all = mutants(E::DIALECT);
    let mut runner = runner(seed);
    let mut tried: BTreeMap<Mutant, usize> = BTreeMap::new();
    let mut caught = BTreeMap::new();
    for _ in 0..worlds {
        let numbers = world_numbers().new_tree(&mut runner).unwrap().current();
        let world = World::new(E::DIALECT, &mut Choices::new(&numbers));
        let mut stands = [
            engine.stand(&world, 0, Policies::World).await,
            engine.stand(&world, 1, Policies::World).await,
        ];
        let renames = Renames::new(&stands[0].tokens, &stands[1].tokens);
        for number in 0..STATEMENTS {
            let numbers = statement_numbers().new_tree(&mut runner).unwrap().current();
            let statement = statement_of(&world, &numbers);
            for mutant in all.iter().chain([&Mutant::None]) {
                if caught.contains_key(mutant) || !mutant.concerns(&world, &statement, number) {
                    continue;
                }
                let (Some(one), Some(other)) = (
                    run(&mut stands[0], &world, &statement, *mutant).await,
                    run(&mut stands[1], &world, &statement, *mutant).await,
                ) else {
                    continue;
                };
                let renames = renames.as_ref().unwrap();
                // With another key there are other tokens.
                if *mutant == Mutant::SharedKey
                    && [&one, &other].iter().any(|seen| shows_hash(&seen.answer))
                {
                    continue;
                }
                let seen = [
                    one,
                    Seen {
                        answer: renames.answer(other.answer),
                        ..other
                    },
                ];
                if *mutant == Mutant::None && may_differ_by_plan(&world, &statement, &seen) {
                    continue;
                }
                let count = tried.entry(*mutant).or_default();
                *count += 1;
                if let Some(why) = difference(&world, &statement, &seen) {
                    let ran = stands[0]
                        .rewritten(&statement)
                        .map(|ran| palisade::danger::parts(&ran).sql.to_owned());
                    assert_ne!(*mutant, Mutant::None, "{}\n{ran:?}\n{why}", statement.sql);
                    caught.insert(*mutant, *count);
                }
            }
            if caught.len() == all.len() {
                return caught;
            }
        }
        for stand in &mut stands {
            stand.bare.leave().await;
        }
    }
    panic!("found out: {caught:?}, of {tried:?}");
}

#[test]
fn broken_rewriters_are_found_out_on_sqlite() {
    let caught = runtime().block_on(hunt(&Sqlite::new(), 82, 60));
    println!("{caught:?}");
}

#[test]
fn broken_rewriters_are_found_out_on_postgres() {
    let caught = runtime().block_on(hunt(&Postgres, 83, 30));
    println!("{caught:?}");
}

#[test]
fn broken_rewriters_are_found_out_on_mariadb() {
    let caught = runtime().block_on(hunt(&MariaDb, 146, 30));
    println!("{caught:?}");
}
