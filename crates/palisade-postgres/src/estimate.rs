//! What the server expects of a statement.

use palisade::guard::{BackendError, Estimate, PlanText};
use serde_json::Value as Json;
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use crate::{fault, write::Printed};

/// What the server expects of a query, which it plans for these parameters. Nothing runs.
pub(crate) async fn read_query(
    client: &Client,
    text: PlanText<'_>,
    bound: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Estimate, BackendError> {
    let explain = text.put_after("EXPLAIN (FORMAT JSON)");
    let rows = client
        .query_typed(&explain, bound)
        .await
        .map_err(|e| fault::plan(&e))?;
    let Some(row) = rows.first() else {
        return Ok(Estimate::default());
    };
    let Printed(text) = row.try_get(0).map_err(|e| fault::engine(&e))?;
    // What is no plan tells nothing.
    Ok(serde_json::from_str(text).map_or_else(|_| Estimate::default(), |plan| read(&plan)))
}

/// What a plan says, `[{"Plan": {…}}]`.
pub(crate) fn read(plan: &Json) -> Estimate {
    let Some(root) = plan.get(0).and_then(|plan| plan.get("Plan")) else {
        return Estimate::default();
    };
    Estimate {
        cost: number(root, "Total Cost"),
        rows: most(root, 1.0),
    }
}

fn number(node: &Json, key: &str) -> Option<f64> {
    node.get(key).and_then(Json::as_f64)
}

/// The rows of the step at or below `node` that works on the most, if of what `node` could give a `share` is taken.
///
/// A LIMIT takes a part of its input. Nodes that give rows as they are asked for work in that proportion. Nodes that
/// have to be complete before their first row (a sort, a group, a hash) work whole. The costs tell both: a LIMIT's is
/// that part of its input's, and what is complete before the first row costs no more than that row does.
fn most(node: &Json, share: f64) -> Option<f64> {
    let mut found = number(node, "Plan Rows")? * share;
    for part in node
        .get("Plans")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
    {
        let streams = matches!(
            part.get("Parent Relationship").and_then(Json::as_str),
            Some("Outer" | "Inner" | "Member" | "Subquery")
        );
        let is_whole = number(part, "Total Cost")? <= number(node, "Startup Cost")?;
        let share = if !streams || is_whole {
            1.0
        } else if node.get("Node Type").and_then(Json::as_str) == Some("Limit") {
            share * limit_share(node, part)?
        } else {
            share
        };
        found = found.max(most(part, share)?);
    }
    Some(found)
}

/// The part of `input` that a LIMIT takes.
fn limit_share(limit: &Json, input: &Json) -> Option<f64> {
    let first = number(input, "Startup Cost")?;
    let whole = number(input, "Total Cost")? - first;
    let part = number(limit, "Total Cost")? - first;
    Some(if whole > 0.0 {
        (part / whole).clamp(0.0, 1.0)
    } else {
        1.0
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_takes_its_part_of_what_streams_and_all_of_what_is_sorted() {
        let scan = |rows: f64, startup: f64, total: f64| {
            json!({"Node Type": "Seq Scan", "Parent Relationship": "Outer",
                   "Startup Cost": startup, "Total Cost": total, "Plan Rows": rows})
        };
        let limit = |cost: f64, input: Json| json!([{"Plan": {"Node Type": "Limit", "Startup Cost": 0.0, "Total Cost": cost, "Plan Rows": 10, "Plans": [input]}}]);
        let of = |plan: &Json| read(plan).rows.map(f64::round);
        assert_eq!(of(&limit(1.0, scan(1000.0, 0.0, 100.0))), Some(10.0));
        let sort = json!({"Node Type": "Sort", "Parent Relationship": "Outer", "Startup Cost": 120.0, "Total Cost": 125.0,
                          "Plan Rows": 1000, "Plans": [scan(1000.0, 0.0, 100.0)]});
        assert_eq!(of(&limit(120.5, sort)), Some(1000.0));
        // What runs beside the rows runs whole; what is not understood tells nothing.
        let mut beside = scan(1000.0, 0.0, 100.0);
        if let Some(node) = beside.as_object_mut() {
            node.insert("Parent Relationship".to_owned(), json!("InitPlan"));
        }
        assert_eq!(of(&limit(1.0, beside)), Some(1000.0));
        assert_eq!(
            read(&json!([{"Plan": {"Plan Rows": "many"}}])),
            Estimate::default()
        );
        assert_eq!(read(&json!({})), Estimate::default());
    }
}
