//! Statements that are no queries, each under the locks that its kind leaves.
//!
//! A change of rows cannot be under a cursor, and its transaction can write. What there is instead:
//!
//! * the extended protocol takes one statement, and `EXPLAIN` before it takes none that is not planned: no COMMIT, no
//!   SET, no COPY, no DO, no CALL. It runs nothing;
//! * the server's plan names each relation that rows go into or out of, rules expanded and WITH looked through. Each
//!   must be a decided relation, for that change, unless a decided rule rewrites it. A plan does not show what
//!   triggers and foreign keys do: for these the marks of the schema are compared, under the locks that planning took;
//! * what must not be there is looked for by queries of one cell, in a part of the transaction that only reads. Such a
//!   transaction sees one state of the database, and fails where another has changed a row that it is to change. Definitions
//!   that were committed before it had its locks it may not see: it asks another session for their marks, which sees all;
//! * rows are counted, those that triggers and foreign keys change too, and everything is rolled back unless they are within their bound and the answer was taken.
//!
//! Rows that a change gives come as they do from a cursor, as the server prints them: its text stands in a WITH then,
//! before a query of our own that prints each column.
//!
//! A definition is no planned statement: there is the protocol's lock, and its first words.

use std::{future::poll_fn, ops::ControlFlow, pin::pin};

use futures_core::Stream as _;
use palisade::{
    catalog::{Catalog, Change, ForeignKey, ReferenceAction, Relation},
    guard::{BackendError, Check, ColumnTypes, Completion, Estimate, ReadyText, RowSink},
    rewrite::Precheck,
};
use palisade_pool::{Changes, Task, Work, commit};
use serde_json::Value as Json;
use tokio_postgres::{
    Client, RowStream, Statement,
    error::SqlState,
    types::{FromSql, ToSql, Type},
};

use crate::{
    cells::Reading,
    estimate,
    execute::{self, Opened},
    fault, params,
    schema_change::Schema,
    second_look::Outside,
    types,
};

/// With what the printed text of a definition begins.
const DEFINITIONS: &[&str] = &[
    "ALTER TABLE ",
    "CREATE INDEX ",
    "CREATE MATERIALIZED VIEW ",
    "CREATE TABLE ",
    "CREATE UNIQUE INDEX ",
    "CREATE VIEW ",
    "DROP MATERIALIZED VIEW ",
    "DROP TABLE ",
    "DROP VIEW ",
    "TRUNCATE ",
];

/// The isolation level of a transaction for `work`.
pub(crate) fn isolation(task: &Task<'_>) -> &'static str {
    match task.work {
        // Each statement sees what was committed before it, so that the schema is looked at as it is under the locks.
        Work::Read | Work::Explain | Work::Define => "READ COMMITTED",
        Work::Change(_) if !task.checks.have_prechecks() => "READ COMMITTED",
        // The change sees the rows that were looked at first, or fails.
        Work::Change(_) => "REPEATABLE READ",
    }
}

/// The access mode of a transaction for `work`.
pub(crate) fn access_mode(work: Work<'_>) -> &'static str {
    if work.is_committed() {
        "READ WRITE"
    } else {
        "READ ONLY"
    }
}

/// A session, and what the database held when its catalog was read.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) client: &'a Client,
    pub(crate) schema: &'a Schema,
    pub(crate) catalog: &'a Catalog,
    pub(crate) outside: &'a Outside,
    /// Whether the transaction sees one state of the database from its beginning, whatever the statement needs.
    pub(crate) is_fixed: bool,
}

/// Shows the plan of a query. Nothing runs.
pub(crate) async fn explain(
    facts: Facts<'_>,
    opened: Opened,
    task: &Task<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<(), BackendError> {
    let Opened {
        statement,
        look,
        coming: _,
    } = &opened;
    let names = names(statement);
    if names != [PLAN] {
        return Err(BackendError::second_lock("the statement shows no plan"));
    }
    let text = task.checks.first_check().ready()?;
    let bound = params::bind(statement.params(), task.params)?;
    // Preparing has locked the relations.
    facts
        .schema
        .verify(facts.client, look, task.relations, task.functions)
        .await?;
    let stream = facts
        .client
        .query_typed_raw(text.sql(), references(&bound))
        .await
        .map_err(|e| fault::engine(&e))?;
    // A plan is text, whatever its form.
    let (_, _took) = feed(stream, &names, &[Reading::Text], sink).await?;
    Ok(())
}

/// The only column of a plan.
const PLAN: &str = "QUERY PLAN";

/// Changes rows, and says how many. Nothing is kept yet.
pub(crate) async fn change(
    facts: Facts<'_>,
    opened: Opened,
    task: &Task<'_>,
    changes: Changes<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<Completion, BackendError> {
    execute::check_origins(facts.client, facts.schema, &opened, task).await?;
    let Opened {
        statement,
        look,
        coming: _,
    } = &opened;
    let bound = params::bind(statement.params(), task.params)?;
    let plan_text = task.checks.plan_text().to_prepare();
    let planned = printing(plan_text, changes.body, statement)?;
    let costs = if task.checks.want_estimate() {
        "TRUE"
    } else {
        "FALSE"
    };
    let explain = format!("EXPLAIN (FORMAT JSON, VERBOSE, COSTS {costs}) {planned}");
    let plans = facts
        .client
        .query_typed(&explain, &params::with_types(&bound))
        .await
        .map_err(|e| fault::plan(&e))?;
    // Planning has locked what is changed against other definitions.
    if !task.checks.have_prechecks() && !facts.is_fixed {
        let schema = facts.schema;
        schema
            .verify(facts.client, look, task.relations, task.functions)
            .await?;
    } else {
        facts
            .outside
            .verify(facts.client, facts.schema, task)
            .await?;
    }
    let (mut found, mut estimates) = (Vec::new(), Vec::new());
    for row in &plans {
        let Printed(text) = row.try_get(0).map_err(|e| fault::engine(&e))?;
        let plan = serde_json::from_str(text)
            .map_err(|e| BackendError::second_lock(format!("the plan is no JSON: {e}")))?;
        collect_changes(&plan, &mut found)?;
        estimates.push(estimate::read(&plan));
    }
    let is_ruled = !changes.triggers.is_empty()
        && facts.schema.has_rules(facts.client, task.relations).await?;
    if !is_ruled {
        check_plan(facts.catalog, &found, task, changes)?;
    }
    let names = names(statement);
    sink.types(ColumnTypes::Named(&types::names(statement)));
    let readings: Vec<Reading> = statement
        .columns()
        .iter()
        .map(|c| Reading::new(c.type_()))
        .collect();
    let text = look_first(facts.client, task, &estimates).await?;
    let sql = printing(text.sql(), changes.body, statement)?;
    let sets_off = may_set_off(facts.catalog, changes);
    let before = if changes.body.is_some() || sets_off {
        Some(changed_so_far(facts.client).await?)
    } else {
        None
    };
    let stream = facts
        .client
        .query_typed_raw(&sql, references(&bound))
        .await
        .map_err(|e| fault::change(&e))?;
    let (own, took) = feed(stream, &names, &readings, sink).await?;
    let (mut affected, mut all) = (Some(own), own);
    if let Some(before) = before {
        if sets_off {
            // A trigger that waits for the end would change rows after they were counted.
            let ours = facts.client.batch_execute("SET CONSTRAINTS ALL IMMEDIATE");
            ours.await.map_err(|e| fault::change(&e))?;
        }
        let counted = changed_so_far(facts.client).await?.saturating_sub(before);
        // A row that an INSTEAD OF trigger or a rule takes is counted by the statement alone.
        all = all.max(counted);
        if changes.body.is_some() {
            // What triggers change is counted with it, of rows that may be hidden.
            affected = changes.triggers.is_empty().then_some(counted);
        }
    }
    changes.complete(all, affected, took)
}

/// Does what comes before a change, and gives its text.
async fn look_first<'t>(
    client: &Client,
    task: &Task<'t>,
    estimates: &[Estimate],
) -> Result<ReadyText<'t>, BackendError> {
    let mut check = task.checks.first_check();
    loop {
        check = match check {
            Check::Estimate(check) => check.answer(estimates)?,
            Check::Precheck(check) => {
                let gave_row = gives_row(client, check.query()).await?;
                check.answer(gave_row)?
            }
            // The server counts what foreign keys change.
            last @ (Check::CascadeCount(_) | Check::Ready(_)) => return last.ready(),
        };
    }
}

/// Whether a precheck finds a row. It cannot write.
async fn gives_row(client: &Client, precheck: &Precheck) -> Result<bool, BackendError> {
    let ours = async |sql| client.batch_execute(sql).await;
    ours("SAVEPOINT palisade_look; SET TRANSACTION READ ONLY")
        .await
        .map_err(|e| fault::engine(&e))?;
    let query = client
        .prepare(precheck.sql())
        .await
        .map_err(|e| fault::prepare(&e))?;
    // It says nothing of a row but that it is there.
    if query.columns().len() != 1 || query.columns().iter().any(|c| c.table_oid().is_some()) {
        return Err(BackendError::second_lock("what is looked for is no count"));
    }
    let bound = params::bind(query.params(), precheck.params())?;
    let rows = client
        .query_typed(precheck.sql(), &params::with_types(&bound))
        .await
        .map_err(|e| match e.code() {
            // A function that may write in the change must not be run to look.
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => BackendError::not_admitted(),
            Some(_) | None => fault::change(&e),
        })?;
    ours("ROLLBACK TO SAVEPOINT palisade_look; RELEASE SAVEPOINT palisade_look")
        .await
        .map_err(|e| fault::engine(&e))?;
    Ok(!rows.is_empty())
}

/// Changes the schema, or empties a table. Nothing is kept yet.
pub(crate) async fn define(
    facts: Facts<'_>,
    opened: Opened,
    task: &Task<'_>,
) -> Result<(), BackendError> {
    let Opened {
        statement,
        look,
        coming: _,
    } = &opened;
    let text = task.checks.first_check().ready()?.sql();
    if !DEFINITIONS.iter().any(|words| text.starts_with(words)) {
        return Err(BackendError::second_lock("the statement is no definition"));
    }
    if !statement.columns().is_empty() || !statement.params().is_empty() {
        return Err(BackendError::second_lock(
            "the definition gives or takes values",
        ));
    }
    facts
        .schema
        .verify(facts.client, look, task.relations, task.functions)
        .await?;
    facts
        .client
        .execute(statement, &[])
        .await
        .map(drop)
        .map_err(|e| fault::change(&e))
}

/// Keeps what was changed.
pub(crate) async fn keep(client: &Client, is_pooled: bool) -> Result<(), BackendError> {
    // Out of a transaction, a pooled session is somebody else's: it is cleaned in the next one.
    let sql = if is_pooled {
        "COMMIT AND CHAIN"
    } else {
        "COMMIT"
    };
    commit(client.batch_execute(sql), |error| {
        fault::is_rolled_back(error).then(|| fault::change(error))
    })
    .await
}

fn names(statement: &Statement) -> Vec<&str> {
    statement.columns().iter().map(|c| c.name()).collect()
}

fn references(
    bound: &[(params::TextParam, Type)],
) -> impl ExactSizeIterator<Item = (&(dyn ToSql + Sync), Type)> {
    params::with_types(bound).into_iter()
}

/// Whether rows may be changed beside those that the server tells of: by triggers and rules that were decided, or by foreign
/// keys, which act on changes of keys and on deletes. Of which table, partitions and all, is not asked: to count costs little.
fn may_set_off(catalog: &Catalog, changes: Changes<'_>) -> bool {
    let refuse = ReferenceAction::Refuse;
    let acts = |key: &ForeignKey| key.on_delete != refuse || key.on_update != refuse;
    let reaches = (changes.writes.iter()).any(|(change, ..)| match change {
        Change::Update | Change::Delete => true,
        Change::Insert | Change::Truncate => false,
    });
    !changes.triggers.is_empty()
        || reaches && (catalog.relations().iter()).any(|r| r.foreign_keys.iter().any(acts))
}

/// The rows of any table, those of history left out, that this session has changed since it last told the server's statistics, which it does
/// between transactions only (<https://www.postgresql.org/docs/current/monitoring-stats.html>). The difference of two
/// readings is what was changed in between. The server counts the rows of a statement's body alone.
async fn changed_so_far(client: &Client) -> Result<u64, BackendError> {
    let row = client
        .query_one(
            "SELECT pg_catalog.current_setting('track_counts') = 'on', \
             coalesce(pg_catalog.sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::pg_catalog.int8 \
             FROM pg_catalog.pg_stat_xact_user_tables WHERE schemaname <> 'palisade_history'",
            &[],
        )
        .await
        .map_err(|e| fault::engine(&e))?;
    let is_counting: bool = row.try_get(0).map_err(|e| fault::engine(&e))?;
    let count: i64 = row.try_get(1).map_err(|e| fault::engine(&e))?;
    if !is_counting {
        return Err(BackendError::second_lock(
            "the server does not count changed rows (track_counts is off), so that neither a WITH that changes rows nor what triggers and foreign keys change has a bound",
        ));
    }
    Ok(u64::try_from(count).unwrap_or(u64::MAX))
}

/// The text of a change whose rows come printed. `concat` prints by a type's own function, as a cursor does.
fn printing(sql: &str, body: Option<usize>, statement: &Statement) -> Result<String, BackendError> {
    let count = statement.columns().len();
    if count == 0 {
        return Ok(sql.to_owned());
    }
    // A WITH that changes rows has to stay the outermost.
    let (with, body) = match body {
        None => ("WITH", sql),
        Some(start) => match sql.split_at_checked(start) {
            Some((with, body)) => (with, body),
            None => return Err(BackendError::second_lock("the statement has no body")),
        },
    };
    let comma = if with.len() > "WITH".len() { "," } else { "" };
    let mut name = "palisade_changed".to_owned();
    while with.contains(&name) {
        name.push('_');
    }
    let list =
        |each: &dyn Fn(usize) -> String| (1..=count).map(each).collect::<Vec<_>>().join(", ");
    Ok(format!(
        "{}{comma} {name} ({}) AS ({body}) SELECT {} FROM {name}",
        with.trim_end(),
        list(&|n| format!("c{n}")),
        list(&|n| format!("CASE WHEN c{n} IS DISTINCT FROM NULL THEN pg_catalog.concat(c{n}) END"))
    ))
}

/// Feeds rows of text to `sink` until it breaks, and drops the rest: a change is done when the last row has come.
async fn feed(
    stream: RowStream,
    names: &[&str],
    readings: &[Reading],
    sink: &mut (dyn RowSink + Send),
) -> Result<(u64, ControlFlow<()>), BackendError> {
    let mut stream = pin!(stream);
    let mut took = sink.columns(names);
    while let Some(row) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        let row = row.map_err(|e| fault::change(&e))?;
        if took.is_break() {
            continue;
        }
        let mut cells = Vec::with_capacity(readings.len());
        for (index, reading) in readings.iter().enumerate() {
            let cell: Option<Printed<'_>> = row.try_get(index).map_err(|e| fault::engine(&e))?;
            cells.push(reading.value(cell.map(|Printed(text)| text))?);
        }
        took = sink.row(cells);
    }
    Ok((stream.rows_affected().unwrap_or_default(), took))
}

/// Text of any type whose binary form is its text.
pub(crate) struct Printed<'a>(pub(crate) &'a str);

impl<'a> FromSql<'a> for Printed<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    fn accepts(ty: &Type) -> bool {
        [Type::TEXT, Type::JSON].contains(ty)
    }
}

/// A change of a relation, as a plan names it.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// One of these.
    changes: &'static [Change],
    schema: String,
    name: String,
}

/// Collects from a plan what it changes.
fn collect_changes(plan: &Json, found: &mut Vec<Found>) -> Result<(), BackendError> {
    match plan {
        Json::Array(parts) => parts
            .iter()
            .try_for_each(|part| collect_changes(part, found)),
        Json::Object(node) => {
            let text = |key: &str| node.get(key).and_then(Json::as_str);
            let odd =
                |what: &str| BackendError::second_lock(format!("the plan has an unknown {what}"));
            let operations: &[&'static [Change]] = match text("Operation") {
                None | Some("Select") if text("Node Type") == Some("ModifyTable") => {
                    return Err(odd("change"));
                }
                None | Some("Select") => &[],
                Some("Insert") if text("Conflict Resolution") == Some("UPDATE") => {
                    &[&[Change::Insert], &[Change::Update]]
                }
                Some("Insert") => &[&[Change::Insert]],
                Some("Update") => &[&[Change::Update]],
                Some("Delete") => &[&[Change::Delete]],
                // Which of its changes it makes, a plan does not say.
                Some("Merge") => &[&[Change::Insert, Change::Update, Change::Delete]],
                Some(_) => return Err(odd("change")),
            };
            for changes in operations {
                let several = node.get("Target Tables").and_then(Json::as_array);
                let targets = several.map_or_else(|| vec![plan], |all| all.iter().collect());
                for target in targets {
                    let part = |key: &str| target.get(key).and_then(Json::as_str);
                    let (Some(schema), Some(name)) = (part("Schema"), part("Relation Name")) else {
                        return Err(odd("target"));
                    };
                    found.push(Found {
                        changes,
                        schema: schema.to_owned(),
                        name: name.to_owned(),
                    });
                }
            }
            node.values()
                .filter(|value| value.is_array() || value.is_object())
                .try_for_each(|value| collect_changes(value, found))
        }
        // A rule's NOTIFY stands as text among the plans; lists of expressions do in them.
        Json::String(_) | Json::Null | Json::Bool(_) | Json::Number(_) => Ok(()),
    }
}

/// Checks that a plan changes something, and nothing that was not decided.
fn check_plan(
    catalog: &Catalog,
    found: &[Found],
    task: &Task<'_>,
    changes: Changes<'_>,
) -> Result<(), BackendError> {
    if found.is_empty() {
        return Err(BackendError::second_lock("the statement changes nothing"));
    }
    for Found {
        changes: any_of,
        schema,
        name,
    } in found
    {
        let decided = |relation: &Relation| {
            let writes = changes.writes.iter();
            task.relations.contains(&relation.uid)
                && writes
                    .filter(|(_, table, _)| *table == relation.name)
                    .any(|(change, ..)| any_of.contains(change))
        };
        let is_decided = catalog
            .find(schema, name)
            .is_some_and(|relation| family(catalog, relation).into_iter().any(decided));
        if !is_decided {
            return Err(BackendError::second_lock(format!(
                "the plan has {any_of:?} on `{schema}.{name}`, which was not decided"
            )));
        }
    }
    Ok(())
}

/// A relation and those whose rows include its own.
fn family<'c>(catalog: &'c Catalog, relation: &'c Relation) -> Vec<&'c Relation> {
    let mut family = vec![relation];
    let mut next = 0;
    while let Some(member) = family.get(next).copied() {
        next += 1;
        for parent in member.parents.iter().filter_map(|id| catalog.relation(*id)) {
            if family.iter().all(|known| known.id != parent.id) {
                family.push(parent);
            }
        }
    }
    family
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use palisade::guard::BackendErrorKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_tells_what_it_changes() {
        use Change::{Delete, Insert, Update};
        let modify = |operation: &str| json!({"Node Type": "ModifyTable", "Operation": operation, "Schema": "s", "Relation Name": "t"});
        let mut upsert = modify("Insert");
        upsert["Conflict Resolution"] = json!("UPDATE");
        let mut nothing = modify("Insert");
        nothing["Conflict Resolution"] = json!("NOTHING");
        for (plan, expected) in [
            (modify("Insert"), vec![vec![Insert]]),
            (modify("Update"), vec![vec![Update]]),
            (modify("Delete"), vec![vec![Delete]]),
            (modify("Merge"), vec![vec![Insert, Update, Delete]]),
            (upsert, vec![vec![Insert], vec![Update]]),
            (nothing, vec![vec![Insert]]),
            (json!({"Node Type": "Seq Scan"}), vec![]),
            (
                json!({"Node Type": "Seq Scan", "Operation": "Select"}),
                vec![],
            ),
            (json!(["Notify"]), vec![]),
            (
                json!([{"Plan": {"Node Type": "CTE Scan", "Plans": [modify("Delete")]}}]),
                vec![vec![Delete]],
            ),
        ] {
            let mut found = Vec::new();
            collect_changes(&plan, &mut found).unwrap();
            let changes: Vec<_> = found.iter().map(|one| one.changes.to_vec()).collect();
            assert_eq!(changes, expected, "{plan}");
            assert!(
                found
                    .iter()
                    .all(|one| (&*one.schema, &*one.name) == ("s", "t"))
            );
        }
    }

    #[test]
    fn a_plan_names_each_of_several_targets() {
        let plan = json!({
            "Node Type": "ModifyTable", "Operation": "Update", "Schema": "s", "Relation Name": "all",
            "Target Tables": [{"Schema": "s", "Relation Name": "a"}, {"Schema": "s", "Relation Name": "b"}],
        });
        let mut found = Vec::new();
        collect_changes(&plan, &mut found).unwrap();
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn a_plan_that_is_not_understood_is_refused() {
        for plan in [
            json!({"Node Type": "ModifyTable"}),
            json!({"Node Type": "ModifyTable", "Operation": "Select"}),
            json!({"Node Type": "ModifyTable", "Operation": "Upsert"}),
            json!({"Node Type": "ModifyTable", "Operation": "Insert", "Schema": "s"}),
            json!({"Node Type": "ModifyTable", "Operation": "Insert", "Relation Name": "t"}),
            json!([{"Plans": [{"Operation": "Truncate"}]}]),
        ] {
            let refused = collect_changes(&plan, &mut Vec::new()).unwrap_err();
            assert_eq!(refused.kind, BackendErrorKind::SecondLock, "{plan}");
        }
    }

    #[test]
    fn only_what_is_committed_may_write() {
        for (work, mode) in [
            (Work::Read, "READ ONLY"),
            (Work::Explain, "READ ONLY"),
            (Work::Define, "READ WRITE"),
        ] {
            assert_eq!(access_mode(work), mode, "{work:?}");
        }
    }

    #[test]
    fn a_familys_members_are_those_above() {
        let schema = "CREATE TABLE top (id int, at date) PARTITION BY RANGE (at);
            CREATE TABLE middle PARTITION OF top DEFAULT PARTITION BY RANGE (at);
            CREATE TABLE low PARTITION OF middle DEFAULT;";
        let catalog = palisade_ddl::postgres(schema, "shop").unwrap();
        for (name, expected) in [
            ("top", &["top"][..]),
            ("middle", &["middle", "top"]),
            ("low", &["low", "middle", "top"]),
        ] {
            let relation = catalog.find("public", name).unwrap();
            let found = family(&catalog, relation).into_iter();
            let names: Vec<&str> = found.map(|one| one.name.as_str()).collect();
            assert_eq!(names, expected, "{name}");
        }
    }
}
