//! What the server expects of a statement: MariaDB tells rows, MySQL rows and costs.
//!
//! MySQL has two forms of a plan: one of blocks of tables, which MariaDB's is like, and since 8.3 one of steps. It plans
//! queries in the form that the server prefers, and changes in the first, for the second leaves most of them out.

use mysql_async::{Conn, Error, Params, prelude::Queryable as _};
use palisade::{
    catalog::Relation,
    guard::{BackendError, BackendErrorKind, Estimate, PlanText},
};
use serde_json::Value as Json;

use crate::{
    fault,
    introspect::{Product, query, text},
    settings::literal,
};

/// What the server expects of a query; with a `limit`, as soon as it has given so many rows nothing more is worked
/// on. It plans, and runs no more of it than it needs for that.
///
/// No `limit` goes with a condition on groups, which is in no plan of MySQL's: how many rows have to be worked on for one is not
/// known.
pub(crate) async fn read_query(
    conn: &mut Conn,
    text: PlanText<'_>,
    params: &Params,
    limit: Option<u64>,
) -> Result<Estimate, BackendError> {
    let plan = plan(conn, text, params).await?;
    Ok(plan.map_or_else(Estimate::default, |plan| read(&plan, limit)))
}

/// What the server expects of a change of `target`, if that is one table.
pub(crate) async fn of_change(
    conn: &mut Conn,
    product: Product,
    text: PlanText<'_>,
    params: &Params,
    target: Option<&Relation>,
) -> Result<Estimate, BackendError> {
    match product {
        Product::MariaDb => {}
        Product::MySql => match conn.query_drop(FIRST_FORM).await {
            // It has no other.
            Err(Error::Server(error)) if error.code == UNKNOWN_VARIABLE => {}
            set => set.map_err(|e| fault::engine(&e))?,
        },
    }
    let Some(plan) = plan(conn, text, params).await? else {
        return Ok(Estimate::default());
    };
    let estimate = read(&plan, None);
    match target {
        Some(target) if empties(&plan) => {
            let rows = rows_of(conn, target).await?;
            Ok(Estimate { rows, ..estimate })
        }
        Some(_) | None => Ok(estimate),
    }
}

/// The reset after the statement undoes it.
const FIRST_FORM: &str = "SET SESSION explain_json_format_version = 1";

/// `ER_UNKNOWN_SYSTEM_VARIABLE`.
const UNKNOWN_VARIABLE: u16 = 1193;

/// The server's plan, if it is one.
async fn plan(
    conn: &mut Conn,
    text: PlanText<'_>,
    params: &Params,
) -> Result<Option<Json>, BackendError> {
    let explain = text.put_after("EXPLAIN FORMAT=JSON");
    let told: Option<String> = match conn.exec_first(explain, params.clone()).await {
        Ok(told) => told,
        // The plan of a view is told to who may read what is below it.
        Err(Error::Server(error)) if error.code == 1345 => {
            return Err(BackendError::new(BackendErrorKind::Cost, error.to_string()));
        }
        Err(error) => return Err(fault::engine(&error)),
    };
    Ok(told.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Whether a plan is to empty a table without reading it. MariaDB tells no number of rows then.
fn empties(plan: &Json) -> bool {
    let table = plan.get("query_block").and_then(|block| block.get("table"));
    let message = table.and_then(|table| table.get("message"));
    message.and_then(Json::as_str) == Some(EMPTIES)
}

const EMPTIES: &str = "Deleting all rows";

/// How many rows the server takes a table to have.
async fn rows_of(conn: &mut Conn, table: &Relation) -> Result<Option<f64>, BackendError> {
    let sql = format!(
        "SELECT t.TABLE_ROWS FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = {} AND t.TABLE_NAME = {}",
        literal(&table.schema),
        literal(&table.name)
    );
    let rows = query(conn, sql).await.map_err(|e| fault::engine(&e))?;
    let told = rows.first().and_then(|row| text(row, 0).ok());
    Ok(told.and_then(|told| told.parse().ok()))
}

/// What a plan says. What is in none of the forms tells nothing.
fn read(plan: &Json, limit: Option<u64>) -> Estimate {
    match (plan.get("query_plan"), plan.get("query_block")) {
        (Some(root), _) => Estimate {
            cost: greatest(root, "estimated_total_cost"),
            rows: steps(root, 1.0),
        },
        (None, Some(block)) => {
            let rows = blocks(block, limit);
            Estimate {
                cost: costs(block, rows),
                rows,
            }
        }
        (None, None) => Estimate::default(),
    }
}

/// A number, which MySQL's first form spells as a string where it has a fraction.
fn number(node: &Json, key: &str) -> Option<f64> {
    let value = node.get(key)?;
    match value.as_str() {
        Some(text) => text.parse().ok(),
        None => value.as_f64(),
    }
}

/// MySQL's first form: what all queries of a plan cost, which are told apart. Of a change of one table it tells no cost:
/// then it is what the server's own constants make of the `rows` (`row_evaluate_cost` and `memory_block_read_cost`,
/// <https://dev.mysql.com/doc/refman/8.4/en/cost-model.html>), as it does for rows that are looked up one by one.
fn costs(block: &Json, rows: Option<f64>) -> Option<f64> {
    const EACH: f64 = 0.1 + 0.25;
    if let Some(told) = sum(block) {
        return Some(told);
    }
    let table = block.get("table")?;
    let is_change = ["insert", "replace", "update", "delete"]
        .iter()
        .any(|change| table.get(*change) == Some(&Json::Bool(true)));
    is_change.then_some(rows? * EACH)
}

/// The sum of all costs of queries at or below `node`, if there are any.
fn sum(node: &Json) -> Option<f64> {
    let own = node
        .get("cost_info")
        .and_then(|info| number(info, "query_cost"));
    let below = parts(node).filter_map(|(_, part)| sum(part));
    own.into_iter().chain(below).reduce(|a, b| a + b)
}

/// The greatest number under `key` at or below `node`.
fn greatest(node: &Json, key: &str) -> Option<f64> {
    let below = parts(node).filter_map(|(_, part)| greatest(part, key));
    number(node, key).into_iter().chain(below).reduce(f64::max)
}

/// Objects directly below `node`, with the names they stand under.
fn parts(node: &Json) -> impl Iterator<Item = (&str, &Json)> {
    let named = node.as_object().into_iter().flatten();
    named.flat_map(|(key, value)| {
        let several = value.as_array().into_iter().flatten();
        let one = value.is_object().then_some(value);
        several.chain(one).map(move |part| (key.as_str(), part))
    })
}

/// MySQL: the rows of the step at or below `node` that works on the most, if of what `node` could give a `share` is
/// taken. What is not known to give rows as it is asked for them works whole.
fn steps(node: &Json, share: f64) -> Option<f64> {
    let text = |node: &Json, key: &str| node.get(key).and_then(Json::as_str).map(str::to_owned);
    let kind = text(node, "access_type");
    let below = parts(node).filter_map(|(key, part)| {
        let is_hashed = text(part, "heading").is_some_and(|heading| heading == "Hash");
        let share = match (key, kind.as_deref()) {
            ("inputs", Some("filter" | "join")) if !is_hashed => share,
            ("inputs", Some("limit")) => {
                let all = number(part, "estimated_rows").filter(|all| *all > 0.0);
                let part = number(node, "estimated_rows");
                let taken = all.zip(part).map_or(1.0, |(all, part)| part / all);
                share * taken.min(1.0)
            }
            (_, _) => 1.0,
        };
        steps(part, share)
    });
    let own = number(node, "estimated_rows").map(|rows| rows * share);
    own.into_iter().chain(below).reduce(f64::max)
}

/// MariaDB, and MySQL's first form: the rows of the step in `block`, or in a query below it, that works on the most. Of a
/// query that only joins, no more is worked on than gives `limit` rows.
fn blocks(block: &Json, limit: Option<u64>) -> Option<f64> {
    let mut tables = Vec::new();
    let mut queries = Vec::new();
    collect(block, &mut tables, &mut queries);
    let (mut most, mut given) = (0.0_f64, 1.0_f64);
    for table in tables {
        match rows_read(table) {
            Read::Rows(rows) => {
                most = most.max(given * rows);
                given *= rows * number(table, "filtered").unwrap_or(100.0) / 100.0;
            }
            Read::Nothing => {}
            Read::Unknown => return None,
        }
    }
    if let Some(limit) = limit.filter(|_| streams(block) && given > 0.0) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "an estimate is none to the unit"
        )]
        let limit = limit as f64;
        most *= (limit / given).min(1.0);
    }
    for query in queries {
        most = most.max(blocks(query, None)?);
    }
    Some(most)
}

/// What is read of a table.
enum Read {
    /// So many rows, for each row of what is joined before.
    Rows(f64),
    Nothing,
    Unknown,
}

fn rows_read(table: &Json) -> Read {
    let told = number(table, "rows").or_else(|| number(table, "rows_examined_per_scan"));
    if let Some(rows) = told {
        return Read::Rows(rows);
    }
    // What was made of a query has at most as many rows as that works on.
    let made = table.get("materialized_from_subquery");
    if let Some(query) = made.and_then(|made| made.get("query_block")) {
        return blocks(query, None).map_or(Read::Unknown, Read::Rows);
    }
    match table.get("message").and_then(Json::as_str) {
        Some(EMPTIES) => return Read::Unknown,
        // There is none, or nothing of it is read.
        Some(_) => return Read::Nothing,
        None => {}
    }
    // What rows go into. MariaDB says no more of it than its name.
    let is_target = ["insert", "replace"]
        .iter()
        .any(|change| table.get(*change) == Some(&Json::Bool(true)));
    let is_named = table
        .as_object()
        .is_some_and(|table| table.keys().eq(["table_name"]));
    if is_target || is_named {
        Read::Nothing
    } else {
        Read::Unknown
    }
}

/// Whether a query gives rows as it reads them: it joins, and does nothing else.
fn streams(block: &Json) -> bool {
    let ordered = block.get("ordering_operation");
    let block = match ordered {
        // It reads in that order.
        Some(ordered) if ordered.get("using_filesort") == Some(&Json::Bool(false)) => ordered,
        Some(_) => return false,
        None => block,
    };
    let is_whole =
        block.get("having_condition").is_some() || block.get("using_temporary_table").is_some();
    // MySQL reads the side that it keeps in memory as a whole.
    let kept = |table: &Json| table.get("using_join_buffer").is_some();
    let is_join = |step: &Json| match (step.get("table"), step.get("block-nl-join")) {
        (Some(table), _) => !kept(table),
        (None, Some(_)) => true,
        (None, None) => false,
    };
    match block.get("nested_loop").and_then(Json::as_array) {
        Some(steps) => !is_whole && steps.iter().all(is_join),
        None => !is_whole && block.get("table").is_some(),
    }
}

/// The tables of a query, in the order in which they are joined, and the queries below it.
fn collect<'p>(node: &'p Json, tables: &mut Vec<&'p Json>, queries: &mut Vec<&'p Json>) {
    for (key, part) in parts(node) {
        if key == "query_block" {
            queries.push(part);
            continue;
        }
        if key == "table" {
            tables.push(part);
        }
        collect(part, tables, queries);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The rows that a plan of blocks tells.
    fn rows(block: &Json, limit: Option<u64>) -> Option<f64> {
        read(&json!({ "query_block": block }), limit).rows
    }

    fn table(rows: u64) -> Json {
        json!({"table": {"rows": rows}})
    }

    #[test]
    fn numbers_are_spelled_as_such_or_as_strings() {
        for (value, expected) in [
            (json!({"n": 2}), Some(2.0)),
            (json!({"n": 2.5}), Some(2.5)),
            (json!({"n": "2.5"}), Some(2.5)),
            (json!({"n": "two"}), None),
            (json!({"n": null}), None),
            (json!({}), None),
        ] {
            assert_eq!(number(&value, "n"), expected, "{value}");
        }
    }

    #[test]
    fn the_table_that_is_worked_on_the_most_counts() {
        for (block, expected) in [
            (table(7), Some(7.0)),
            (json!({"table": {"rows_examined_per_scan": 8}}), Some(8.0)),
            (json!({"nested_loop": [table(3), table(5)]}), Some(15.0)),
            (
                json!({"nested_loop": [{"table": {"rows": 100, "filtered": 10}}, table(5)]}),
                Some(100.0),
            ),
            (
                json!({"nested_loop": [{"table": {"rows": 100, "filtered": "50"}}, table(5)]}),
                Some(250.0),
            ),
            (
                json!({"table": {"rows": 3}, "subqueries": [{"query_block": table(9)}]}),
                Some(9.0),
            ),
            (
                json!({"table": {"rows": 30}, "subqueries": [{"query_block": table(9)}]}),
                Some(30.0),
            ),
            (
                json!({"table": {"rows": 3}, "subqueries": [{"query_block": {"table": {"key": "k"}}}]}),
                None,
            ),
            (json!({}), Some(0.0)),
        ] {
            assert_eq!(rows(&block, None), expected, "{block}");
        }
    }

    #[test]
    fn a_table_without_a_number_of_rows_is_read_or_not() {
        for (table, expected) in [
            (json!({"message": "No tables used"}), Some(0.0)),
            (json!({"message": "Deleting all rows"}), None),
            (json!({"table_name": "t"}), Some(0.0)),
            (json!({"table_name": "t", "key": "k"}), None),
            (json!({"insert": true, "key": "k"}), Some(0.0)),
            (json!({"replace": true, "key": "k"}), Some(0.0)),
            (json!({"insert": false, "key": "k"}), None),
            (json!({"update": true, "key": "k"}), None),
            (
                json!({"materialized_from_subquery": {"query_block": {"table": {"rows": 6}}}}),
                Some(6.0),
            ),
            (
                json!({"materialized_from_subquery": {"query_block": {"table": {"key": "k"}}}}),
                None,
            ),
            (json!({"materialized_from_subquery": {}}), None),
        ] {
            let block = json!({ "table": table });
            assert_eq!(rows(&block, None), expected, "{block}");
        }
    }

    #[test]
    fn no_more_is_worked_on_than_gives_the_limit_where_rows_stream() {
        for (block, limit, expected) in [
            (table(1000), Some(10), 10.0),
            (table(5), Some(10), 5.0),
            (table(1000), None, 1000.0),
            (
                json!({"table": {"rows": 1000, "filtered": 10}}),
                Some(10),
                100.0,
            ),
            (
                json!({"table": {"rows": 1000, "filtered": 0}}),
                Some(10),
                1000.0,
            ),
            (
                json!({"nested_loop": [table(10), table(10)]}),
                Some(10),
                10.0,
            ),
            // A query below it works whole.
            (
                json!({"table": {"rows": 1000}, "subqueries": [{"query_block": table(500)}]}),
                Some(10),
                500.0,
            ),
        ] {
            assert_eq!(rows(&block, limit), Some(expected), "{block} {limit:?}");
        }
    }

    #[test]
    fn only_a_query_that_joins_and_does_nothing_else_streams() {
        let sorted = |using_filesort: bool| json!({"ordering_operation": {"using_filesort": using_filesort, "table": {"rows": 1}}});
        for (block, expected) in [
            (table(1), true),
            (json!({"nested_loop": [table(1), table(1)]}), true),
            (sorted(false), true),
            (sorted(true), false),
            (json!({"ordering_operation": {"table": {"rows": 1}}}), false),
            (
                json!({"table": {"rows": 1}, "having_condition": "x"}),
                false,
            ),
            (
                json!({"table": {"rows": 1}, "using_temporary_table": true}),
                false,
            ),
            (
                json!({"nested_loop": [table(1)], "having_condition": "x"}),
                false,
            ),
            (
                json!({"nested_loop": [table(1), {"table": {"using_join_buffer": "hash join"}}]}),
                false,
            ),
            (
                json!({"nested_loop": [table(1), {"block-nl-join": {}}]}),
                true,
            ),
            (
                json!({"nested_loop": [table(1), {"duplicates_removal": {}}]}),
                false,
            ),
            (json!({"union_result": {}}), false),
        ] {
            assert_eq!(streams(&block), expected, "{block}");
        }
    }

    #[test]
    fn costs_are_those_of_all_queries_or_made_of_the_rows_of_a_change() {
        let cost = |block: &Json| read(&json!({ "query_block": block }), None).cost;
        for (block, expected) in [
            (
                json!({"cost_info": {"query_cost": "2.5"}, "table": {"rows": 9}}),
                Some(2.5),
            ),
            (
                json!({"cost_info": {"query_cost": "2.5"}, "subqueries": [{"query_block": {"cost_info": {"query_cost": "4"}}}]}),
                Some(6.5),
            ),
            (json!({"table": {"rows": 100, "update": true}}), Some(35.0)),
            (json!({"table": {"rows": 100, "delete": true}}), Some(35.0)),
            (json!({"table": {"rows": 100, "update": false}}), None),
            (json!({"table": {"rows": 100}}), None),
            (json!({"nested_loop": []}), None),
        ] {
            let found = cost(&block);
            let is_near = match (found, expected) {
                (Some(found), Some(expected)) => f64::abs(found - expected) < 1e-9,
                (found, expected) => found == expected,
            };
            assert!(is_near, "{block} {found:?}");
        }
    }

    #[test]
    fn steps_work_on_the_share_that_is_taken_of_them() {
        let limited = |below: Json| {
            json!({"query_plan": {
                "access_type": "limit", "estimated_rows": 10, "estimated_total_cost": 3, "inputs": [below],
            }})
        };
        for (plan, expected) in [
            (
                json!({"query_plan": {"access_type": "table", "estimated_rows": 50}}),
                50.0,
            ),
            (
                limited(json!({"access_type": "table", "estimated_rows": 1000})),
                10.0,
            ),
            (
                limited(json!({"access_type": "table", "estimated_rows": 5})),
                10.0,
            ),
            (
                limited(
                    json!({"access_type": "filter", "estimated_rows": 100, "inputs": [{"access_type": "table", "estimated_rows": 1000}]}),
                ),
                100.0,
            ),
            (
                limited(
                    json!({"access_type": "sort", "estimated_rows": 100, "inputs": [{"access_type": "table", "estimated_rows": 1000}]}),
                ),
                1000.0,
            ),
            (
                limited(
                    json!({"access_type": "join", "estimated_rows": 100, "inputs": [{"heading": "Hash", "estimated_rows": 700}]}),
                ),
                700.0,
            ),
            (
                limited(
                    json!({"access_type": "join", "estimated_rows": 100, "inputs": [{"heading": "x", "estimated_rows": 700}]}),
                ),
                70.0,
            ),
            (
                limited(json!({"access_type": "table", "estimated_rows": 0})),
                10.0,
            ),
        ] {
            assert_eq!(read(&plan, None).rows, Some(expected), "{plan}");
        }
        let nested = limited(json!({"estimated_total_cost": 8, "estimated_rows": 1}));
        assert_eq!(read(&nested, None).cost, Some(8.0));
        let neither = read(&json!({}), None);
        assert_eq!((neither.cost, neither.rows), (None, None));
    }

    #[test]
    fn a_plan_empties_a_table_where_it_says_so() {
        for (plan, expected) in [
            (
                json!({"query_block": {"table": {"message": "Deleting all rows"}}}),
                true,
            ),
            (
                json!({"query_block": {"table": {"message": "No tables used"}}}),
                false,
            ),
            (json!({"query_block": {"table": {}}}), false),
            (json!({}), false),
        ] {
            assert_eq!(empties(&plan), expected, "{plan}");
        }
    }
}
