//! What the server expects of a query: MariaDB tells rows, MySQL rows and costs.

use mysql_async::{Conn, Error, Params, prelude::Queryable as _};
use palisade::guard::{BackendError, BackendErrorKind, Estimate};
use serde_json::Value as Json;

use crate::fault;

/// What the server expects of `sql`; with a `limit`, as soon as it has given so many rows nothing more is worked on. It
/// plans, and runs no more of it than it needs for that.
pub(crate) async fn of(
    conn: &mut Conn,
    sql: &str,
    params: &Params,
    limit: Option<u64>,
) -> Result<Estimate, BackendError> {
    let explain = format!("EXPLAIN FORMAT=JSON {sql}");
    let told: Option<String> = match conn.exec_first(explain, params.clone()).await {
        Ok(told) => told,
        // The plan of a view is told to who may read what is below it.
        Err(Error::Server(error)) if error.code == 1345 => {
            return Err(BackendError::new(BackendErrorKind::Cost, error.to_string()));
        }
        Err(error) => return Err(fault::engine(&error)),
    };
    let plan = told.and_then(|text| serde_json::from_str(&text).ok());
    Ok(plan.map_or_else(Estimate::default, |plan| read(&plan, limit)))
}

/// What a plan says. What is in neither server's form tells nothing.
fn read(plan: &Json, limit: Option<u64>) -> Estimate {
    match (plan.get("query_plan"), plan.get("query_block")) {
        (Some(root), _) => Estimate {
            cost: greatest(root, "estimated_total_cost"),
            rows: steps(root, 1.0),
        },
        (None, Some(block)) => Estimate {
            cost: None,
            rows: blocks(block, limit),
        },
        (None, None) => Estimate::default(),
    }
}

fn number(node: &Json, key: &str) -> Option<f64> {
    node.get(key).and_then(Json::as_f64)
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

/// MariaDB: the rows of the step in `block`, or in a query below it, that works on the most. Of a query that only
/// joins, no more is worked on than gives `limit` rows.
fn blocks(block: &Json, limit: Option<u64>) -> Option<f64> {
    let mut tables = Vec::new();
    let mut queries = Vec::new();
    collect(block, &mut tables, &mut queries);
    let joins = block.get("nested_loop").and_then(Json::as_array);
    let is_whole = block.get("having_condition").is_some();
    let streams = joins.filter(|_| !is_whole).is_some_and(|steps| {
        let is_join = |step: &Json| step.get("table").or(step.get("block-nl-join")).is_some();
        steps.iter().all(is_join)
    });
    let (mut most, mut given) = (0.0_f64, 1.0_f64);
    for table in tables {
        match number(table, "rows") {
            Some(rows) => {
                most = most.max(given * rows);
                given *= rows * number(table, "filtered").unwrap_or(100.0) / 100.0;
            }
            // There is none, or nothing of it is read.
            None if table.get("message").is_some() => {}
            None => return None,
        }
    }
    if let Some(limit) = limit.filter(|_| streams && given > 0.0) {
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
