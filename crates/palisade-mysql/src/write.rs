//! Statements that are no queries, each under the locks that its kind leaves.
//!
//! A change of rows runs in a transaction that can write, of a session that otherwise cannot. What there is instead of
//! the read-only lock:
//!
//! * COM_STMT_PREPARE takes one statement, and `EXPLAIN` before it takes none but queries and changes: no SET, no COMMIT,
//!   no CALL, no DDL, no LOCK. It runs nothing;
//! * the text makes one change, which was decided, of a table that was decided, as its verified tree shows; and it begins so;
//! * triggers and foreign keys are looked at again, while the table's definition is locked. So are the unique keys
//!   where a conflicting row is changed;
//! * a table whose engine cannot take a change back is not changed;
//! * what must not be there is looked for first, in a transaction whose reads lock what they find and where they looked:
//!   the change finds it so, or another transaction waits, or one of the two fails;
//! * rows are counted, those that foreign keys change among them (`reach`), and everything is rolled back unless they are within
//!   their bound and the answer was taken.
//!
//! A definition is committed by the server as it runs, and cannot be planned: there is the protocol's lock, and its
//! first words.

use std::{collections::BTreeSet, future::poll_fn, ops::ControlFlow, pin::pin};

use futures_core::Stream as _;
use mysql_async::{Column, Conn, Row, prelude::Queryable as _};
use palisade::{
    catalog::{Catalog, Change, ReferenceAction, Relation},
    guard::{BackendError, Check, ColumnTypes, Completion, RowSink},
    rewrite::{ChangeFacts, ChangeKind, Precheck},
};
use palisade_pool::{Changes, Ended, Task, Work, commit};

use crate::{
    cascade_count::{self, Reached},
    cells::{Reading, type_names},
    connect::Session,
    estimate,
    execute::{self, Facts, Prepared},
    fault,
    introspect::{IntrospectError, Product, keys_are_known, optional, query, text, triggers_of},
    params,
    settings::{identifier, literal},
};

/// With what the text of a definition begins.
const DEFINITIONS: &[&str] = &[
    "ALTER TABLE ",
    "CREATE INDEX ",
    "CREATE TABLE ",
    "CREATE UNIQUE INDEX ",
    "CREATE VIEW ",
    "DROP INDEX ",
    "DROP TABLE ",
    "DROP VIEW ",
    "TRUNCATE ",
];

/// With what the text of a question for a plan begins.
const EXPLAIN: &str = "EXPLAIN FORMAT=JSON ";

/// The statements that begin a transaction for `work`.
pub(crate) fn begin(task: &Task<'_>) -> &'static str {
    let checks = task.checks;
    match task.work {
        Work::Read | Work::Explain => "START TRANSACTION READ ONLY",
        // The session's own mode stays, so that nothing that commits by itself gets further.
        Work::Change(_) if !checks.have_prechecks() && !checks.have_cascade_counts() => {
            "START TRANSACTION READ WRITE"
        }
        // What is looked at first is locked, so that the change finds it as it was.
        Work::Change(_) if !checks.have_cascade_counts() => {
            "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION READ WRITE"
        }
        // And at the same time, by which it may choose its rows.
        Work::Change(_) => {
            "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET SESSION timestamp = UNIX_TIMESTAMP(NOW(6)); \
             START TRANSACTION READ WRITE"
        }
        // The reset after it puts the session's mode back.
        Work::Define => "SET SESSION TRANSACTION READ WRITE",
    }
}

/// Shows the plan of a query, by its only column, which MySQL does not describe before it runs. Nothing else runs.
pub(crate) async fn explain(
    conn: &mut Conn,
    task: &Task<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<Ended, BackendError> {
    let text = task.checks.first_check().ready()?;
    if !text.sql().starts_with(EXPLAIN) {
        return Err(BackendError::second_lock("the statement asks for no plan"));
    }
    let statement = Prepared::prepare(conn, task).await?;
    let params = params::bind(statement.num_params(), task.params)?;
    if sink.columns(&["EXPLAIN"]).is_break() {
        return Ok(Ended::Clean);
    }
    let result = conn
        .exec_iter(statement.to_run(text), params)
        .await
        .map_err(|e| fault::engine(&e))?;
    execute::fetch(result, 1, sink).await
}

/// Changes rows, and says how many. Nothing is kept yet.
pub(crate) async fn change(
    conn: &mut Conn,
    facts: Facts<'_>,
    task: &Task<'_>,
    changes: Changes<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<Completion, BackendError> {
    let (change, target) = check_target(facts.catalog, task, changes)?;
    let statement = Prepared::prepare(conn, task).await?;
    let params = params::bind(statement.num_params(), task.params)?;
    plan(conn, task, &params).await?;
    let mut check = task.checks.first_check();
    if let Check::Estimate(estimates) = check {
        let target = Some(target).filter(|_| !change.is_joined);
        let text = task.checks.plan_text();
        let estimate = estimate::of_change(conn, facts.product, text, &params, target).await?;
        check = estimates.answer(&[estimate])?;
    }
    check_effects(conn, facts, task, (changes, change))
        .await
        .map_err(|error| match error {
            Look::Failed(error) => BackendError::unavailable(error.to_string()),
            Look::Refused(error) => error,
        })?;
    let mut reached = Reached::default();
    let text = loop {
        check = match check {
            Check::Precheck(check) => {
                let gave_row = gives_row(conn, check.query()).await?;
                check.answer(gave_row)?
            }
            Check::CascadeCount(check) => {
                let (count, most) = (check.query(), changes.max_affected);
                reached = cascade_count::find(conn, facts.catalog, count, most).await?;
                check.answer(reached.with(0))?
            }
            last @ (Check::Estimate(_) | Check::Ready(_)) => break last.ready()?,
        };
    };
    let mut took = ControlFlow::Continue(());
    let mut result = conn
        .exec_iter(statement.to_run(text), params)
        .await
        .map_err(|e| fault::change(&e))?;
    // Before it runs, MariaDB does not describe what a change gives.
    let columns = result.columns_ref().to_vec();
    execute::check_origins(&columns, facts, task)?;
    let affected = if columns.is_empty() {
        let affected = count_affected(change, result.affected_rows(), &result.info());
        result.drop_result().await.map_err(|e| fault::change(&e))?;
        affected
    } else {
        let names: Vec<_> = columns.iter().map(Column::name_str).collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        took = sink.columns(&names);
        let stream = result
            .stream::<Row>()
            .await
            .map_err(|e| fault::change(&e))?
            .ok_or_else(|| BackendError::second_lock("the statement gave no rows"))?;
        sink.types(ColumnTypes::Named(&type_names(stream.columns_ref())));
        let readings: Vec<Reading> = stream.columns_ref().iter().map(Reading::new).collect();
        let mut stream = pin!(stream);
        let mut rows = 0_u64;
        while let Some(row) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            let row = row.map_err(|e| fault::change(&e))?;
            rows = rows.saturating_add(1);
            if took.is_continue() {
                took = sink.row(execute::cells(row, &readings)?);
            }
        }
        rows
    };
    let all = reached.with(affected);
    changes.complete(all, Some(affected), took)
}

/// Whether a precheck finds a row.
async fn gives_row(conn: &mut Conn, precheck: &Precheck) -> Result<bool, BackendError> {
    execute::check_text(precheck.sql())?;
    let query = conn
        .prep(precheck.sql())
        .await
        .map_err(|e| fault::engine(&e))?;
    // A query has columns, and nothing else that is prepared has.
    if query.columns().len() != 1 {
        return Err(BackendError::second_lock("what is looked for is no count"));
    }
    let params = params::bind(query.num_params(), precheck.params())?;
    let found: Option<Row> = conn
        .exec_first(&query, params)
        .await
        .map_err(|e| fault::change(&e))?;
    Ok(found.is_some())
}

/// Changes the schema, or empties a table. It is kept as it is done.
pub(crate) async fn define(conn: &mut Conn, task: &Task<'_>) -> Result<(), BackendError> {
    let text = task.checks.first_check().ready()?;
    if !(DEFINITIONS.iter()).any(|words| text.sql().starts_with(words)) {
        return Err(BackendError::second_lock("the statement is no definition"));
    }
    let statement = Prepared::prepare(conn, task).await?;
    if !statement.columns().is_empty() {
        return Err(BackendError::second_lock("the definition gives rows"));
    }
    let params = params::bind(statement.num_params(), task.params)?;
    conn.exec_drop(statement.to_run(text), params)
        .await
        .map_err(|error| match fault::is_lost(&error) {
            true => BackendError::outcome_unknown(),
            false => fault::change(&error),
        })
}

/// Keeps what was changed.
pub(crate) async fn keep(session: &mut Session) -> Result<(), BackendError> {
    let ended = async { session.ready().await?.query_drop("COMMIT").await };
    commit(ended, |error| {
        fault::is_rolled_back(error).then(|| fault::change(error))
    })
    .await
}

/// Has the server plan the statement, which it does with queries and changes only.
async fn plan(
    conn: &mut Conn,
    task: &Task<'_>,
    params: &mysql_async::Params,
) -> Result<(), BackendError> {
    let sql = task.checks.plan_text().put_after("EXPLAIN");
    let plan = conn.prep(sql).await.map_err(|e| read_plan_failure(&e))?;
    conn.exec_drop(&plan, params.clone())
        .await
        .map_err(|e| fault::change(&e))
}

/// Why there is no plan. What was prepared a moment ago, and cannot be with EXPLAIN before it, is of another kind.
fn read_plan_failure(error: &mysql_async::Error) -> BackendError {
    match error {
        mysql_async::Error::Server(server) if server.code == 1064 => {
            BackendError::second_lock(error.to_string())
        }
        _ => fault::engine(error),
    }
}

/// Checks that the text makes one change, which was decided, of a table that was decided; which they are.
fn check_target<'c>(
    catalog: &'c Catalog,
    task: &Task<'_>,
    changes: Changes<'_>,
) -> Result<(ChangeFacts, &'c Relation), BackendError> {
    let undecided = || BackendError::second_lock("the text makes no change that was decided");
    let [change] = changes.facts else {
        return Err(undecided());
    };
    let target = catalog.relation(change.relation).ok_or_else(undecided)?;
    let is_decided = changes
        .writes
        .iter()
        .any(|(decided, table, _)| Some(*decided) == change.kind.change() && *table == *target.key);
    let text = task.checks.plan_text().to_prepare();
    if is_decided && task.relations.contains(&target.uid) && begins_with(text, *change, target) {
        Ok((*change, target))
    } else {
        Err(undecided())
    }
}

/// Whether a text begins with the words of `change`, and with its `target` where that comes next: nothing else runs, whatever
/// else is wrong.
///
/// Only UPDATE and DELETE may have a WITH before them, as MySQL has it.
fn begins_with(sql: &str, change: ChangeFacts, target: &Relation) -> bool {
    let (schema, name) = (identifier(&target.schema), identifier(&target.name));
    let table = if change.is_joined {
        String::new()
    } else {
        format!("{schema}.{name}")
    };
    let begins = |words: &str| {
        sql.strip_prefix(words)
            .is_some_and(|rest| rest.starts_with(&table))
    };
    match (change.kind, change.ignores_errors) {
        (ChangeKind::Insert, false) => begins("INSERT INTO "),
        (ChangeKind::Insert, true) => begins("INSERT IGNORE INTO "),
        (ChangeKind::Replace, false) => begins("REPLACE INTO "),
        (ChangeKind::Update, false) => begins("UPDATE ") || sql.starts_with("WITH "),
        // `DELETE t FROM …` says first what the target is called there.
        (ChangeKind::Delete, false) => match sql.strip_prefix("DELETE ") {
            Some(rest) => !rest.starts_with("FROM ") || begins("DELETE FROM "),
            None => sql.starts_with("WITH "),
        },
        (ChangeKind::Replace | ChangeKind::Update | ChangeKind::Delete, true)
        | (ChangeKind::Merge, _) => false,
    }
}

/// How many rows a change found or made. The server's own number counts rows that have other values than before, which
/// would tell what they had, and a row that an upsert changes twice.
fn count_affected(change: ChangeFacts, affected: u64, info: &str) -> u64 {
    let after = |words: &str| -> Option<u64> {
        let (_, rest) = info.split_once(words)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    match change.kind {
        // Rows that it leaves out are no more secret than what refuses it without IGNORE.
        ChangeKind::Insert if change.ignores_errors && !change.meets_rows => affected,
        // Of a single row it says nothing.
        ChangeKind::Insert | ChangeKind::Replace => after("Records: ").unwrap_or(1),
        ChangeKind::Update => after("Rows matched: ").unwrap_or(affected),
        ChangeKind::Delete | ChangeKind::Merge => affected,
    }
}

/// Why a look at what a change sets off did not go well.
enum Look {
    Failed(IntrospectError),
    Refused(BackendError),
}

impl From<mysql_async::Error> for Look {
    fn from(error: mysql_async::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<IntrospectError> for Look {
    fn from(error: IntrospectError) -> Self {
        Self::Failed(error)
    }
}

/// Checks that what a change sets off is what the catalog says, and that it can be taken back.
async fn check_effects(
    conn: &mut Conn,
    facts: Facts<'_>,
    task: &Task<'_>,
    (changes, change): (Changes<'_>, ChangeFacts),
) -> Result<(), Look> {
    let catalog = facts.catalog;
    let tables: BTreeSet<&str> = (changes.writes.iter())
        .map(|(_, table, _)| table.as_str())
        .collect();
    // Another database's table can have the same name.
    let changed = |relation: &&Relation| {
        task.relations.contains(&relation.uid) && tables.contains(&*relation.key)
    };
    for relation in catalog.relations().iter().filter(changed) {
        let (schema, table) = (literal(&relation.schema), literal(&relation.name));
        require_transactions(conn, relation).await?;
        let condition =
            format!("t.EVENT_OBJECT_SCHEMA = {schema} AND t.EVENT_OBJECT_TABLE = {table}");
        let found: BTreeSet<_> = triggers_of(conn, facts.product, &condition)
            .await?
            .into_values()
            .flatten()
            .collect();
        // What the account is not told stands in the catalog under a name of ours, and is decided by that.
        if !found
            .iter()
            .all(|trigger| relation.triggers.contains(trigger))
        {
            return Err(changed_schema());
        }
        // What does something to the conflicting row was decided by the keys of its table.
        if change.meets_rows && !keys_are_known(conn, facts.product, relation).await? {
            return Err(changed_schema());
        }
        if !found.is_empty() || may_reach_children(facts, relation, changes) {
            references(conn, catalog, relation, (&schema, &table)).await?;
        }
    }
    Ok(())
}

/// Refuses a table whose engine cannot take a change back.
async fn require_transactions(conn: &mut Conn, relation: &Relation) -> Result<(), Look> {
    let sql = format!(
        "SELECT t.TABLE_NAME FROM information_schema.TABLES t \
         JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE \
         WHERE t.TABLE_SCHEMA = {} AND t.TABLE_NAME = {} AND e.TRANSACTIONS = 'YES'",
        literal(&relation.schema),
        literal(&relation.name)
    );
    if query(conn, sql).await?.is_empty() {
        return Err(Look::Refused(BackendError::rejected(format!(
            "the engine of `{}` cannot take a change back",
            relation.uid
        ))));
    }
    Ok(())
}

/// Checks that a table which foreign keys or triggers reach can be taken back, and that its triggers and further keys are those of the catalog.
pub(crate) async fn check_reached(
    conn: &mut Conn,
    facts: Facts<'_>,
    relation: &Relation,
) -> Result<(), BackendError> {
    let look = async {
        require_transactions(conn, relation).await?;
        let (schema, table) = (literal(&relation.schema), literal(&relation.name));
        let condition =
            format!("t.EVENT_OBJECT_SCHEMA = {schema} AND t.EVENT_OBJECT_TABLE = {table}");
        let found = triggers_of(conn, facts.product, &condition).await?;
        let mut found = found.into_values().flatten();
        if !found.all(|trigger| relation.triggers.contains(&trigger)) {
            return Err(changed_schema());
        }
        references(conn, facts.catalog, relation, (&schema, &table)).await
    };
    look.await.map_err(|error| match error {
        Look::Failed(error) => BackendError::unavailable(error.to_string()),
        Look::Refused(error) => error,
    })
}

/// Whether foreign keys of other tables can do something when `relation`, which has no triggers, is changed: unless rows are
/// only added, or no column is assigned that they could refer to.
///
/// To be told of foreign keys costs MariaDB as much as opening every table of the server.
fn may_reach_children(facts: Facts<'_>, relation: &Relation, changes: Changes<'_>) -> bool {
    let name = relation.key.to_string();
    let own = || changes.writes.iter().filter(|(_, table, _)| *table == name);
    if own().all(|(change, _, _)| *change == Change::Insert) {
        return false;
    }
    let text = match facts.product {
        Product::MariaDb => facts.known.text(&relation.uid),
        Product::MySql => None,
    };
    let Some(text) = text else {
        return true;
    };
    own().any(|(change, _, column)| match change {
        Change::Insert => false,
        Change::Update => relation
            .position(column)
            .and_then(|position| relation.columns.get(usize::from(position)))
            .is_none_or(|column| may_be_referred_to(&text, &column.name)),
        Change::Delete | Change::Truncate => true,
    })
}

/// Whether a foreign key could refer to what changes with `column`, by the text that would make its table: it refers to
/// columns of an index. A column that the text names once is in none, nor in the expression of another; and none is assigned
/// by itself.
fn may_be_referred_to(text: &str, column: &str) -> bool {
    text.contains(" ON UPDATE ") || text.matches(&identifier(column)).count() != 1
}

/// Checks that foreign keys to `relation` do what the catalog says that they do.
async fn references(
    conn: &mut Conn,
    catalog: &Catalog,
    relation: &Relation,
    (schema, table): (&str, &str),
) -> Result<(), Look> {
    let sql = format!(
        "SELECT r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.DELETE_RULE, r.UPDATE_RULE \
         FROM information_schema.REFERENTIAL_CONSTRAINTS r \
         WHERE r.UNIQUE_CONSTRAINT_SCHEMA = {schema} AND r.REFERENCED_TABLE_NAME = {table}"
    );
    for row in query(conn, sql).await? {
        let child = catalog.find(&text(&row, 0)?, &text(&row, 1)?);
        let action = |index| -> Result<Option<ReferenceAction>, IntrospectError> {
            Ok(optional(&row, index)?.and_then(|rule| ReferenceAction::from_sql(&rule)))
        };
        let (on_delete, on_update) = (action(2)?, action(3)?);
        let is_known = child.is_some_and(|child| {
            child.foreign_keys.iter().any(|key| {
                let parent = catalog.find(&key.schema, &key.table);
                let told = |known, now: Option<ReferenceAction>| {
                    // What was not told is taken for the most there is.
                    now == Some(known) || known == ReferenceAction::Cascade && now.is_some()
                };
                parent.is_some_and(|parent| parent.id == relation.id)
                    && told(key.on_delete, on_delete)
                    && told(key.on_update, on_update)
            })
        });
        if !is_known {
            return Err(changed_schema());
        }
    }
    Ok(())
}

fn changed_schema() -> Look {
    Look::Refused(BackendError::schema_changed("the schema changed"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use palisade::{
        catalog::{RelationDef, RelationKind},
        dialect::Dialect,
        guard::BackendErrorKind,
    };

    use super::*;

    fn facts(kind: ChangeKind) -> (ChangeFacts, Catalog) {
        let def = RelationDef::new("d", "a`b", RelationKind::Table, Vec::new());
        let builder = Catalog::builder(Dialect::Mysql).relation(def);
        let catalog = builder.build().unwrap();
        let relation = catalog.find("d", "a`b").unwrap().id;
        let facts = ChangeFacts {
            kind,
            relation,
            is_joined: false,
            ignores_errors: false,
            meets_rows: false,
        };
        (facts, catalog)
    }

    #[test]
    fn a_text_that_has_no_plan_is_of_another_kind() {
        for (code, kind) in [
            (1064, BackendErrorKind::SecondLock),
            (1146, BackendErrorKind::Rejected),
            (1142, BackendErrorKind::SecondLock),
        ] {
            let error = mysql_async::ServerError {
                code,
                message: String::new(),
                state: "42000".to_owned(),
            };
            assert_eq!(read_plan_failure(&error.into()).kind, kind, "{code}");
        }
    }

    #[test]
    fn a_text_begins_as_its_facts_say() {
        use ChangeKind::{Delete, Insert, Merge, Replace, Update};
        let plain = |facts: ChangeFacts| facts;
        let joined = |facts| ChangeFacts {
            is_joined: true,
            ..facts
        };
        let ignoring = |facts| ChangeFacts {
            ignores_errors: true,
            ..facts
        };
        type Vary = fn(ChangeFacts) -> ChangeFacts;
        let cases: [(&str, ChangeKind, Vary, bool); 21] = [
            ("INSERT INTO `d`.`a``b` (x)", Insert, plain, true),
            ("INSERT INTO `d`.`a`", Insert, plain, false),
            ("INSERT INTO `e`.`a``b` (x)", Insert, plain, false),
            ("INSERT IGNORE INTO `d`.`a``b`", Insert, plain, false),
            ("INSERT IGNORE INTO `d`.`a``b`", Insert, ignoring, true),
            ("INSERT INTO `d`.`a``b`", Insert, ignoring, false),
            ("REPLACE INTO `d`.`a``b`", Insert, plain, false),
            ("REPLACE INTO `d`.`a``b`", Replace, plain, true),
            ("UPDATE `d`.`a``b` SET x = 1", Update, plain, true),
            ("UPDATE `d`.`c` JOIN `d`.`a``b`", Update, plain, false),
            ("UPDATE `d`.`c` JOIN `d`.`a``b`", Update, joined, true),
            ("WITH c AS (SELECT 1) UPDATE", Update, plain, true),
            ("WITH c AS (SELECT 1) INSERT", Insert, plain, false),
            ("DELETE FROM `d`.`a``b`", Delete, plain, true),
            ("DELETE FROM `d`.`a``b`", Delete, ignoring, false),
            ("DELETE FROM `d`.`c`", Delete, plain, false),
            ("DELETE x FROM `d`.`c` AS x", Delete, plain, true),
            ("DELETE x FROM `d`.`c` AS x", Delete, joined, true),
            ("UPDATE `d`.`a``b` SET x = 1", Delete, joined, false),
            ("SELECT 1", Update, joined, false),
            ("MERGE INTO `d`.`a``b`", Merge, plain, false),
        ];
        for (sql, kind, vary, expected) in cases {
            let (facts, catalog) = facts(kind);
            let facts = vary(facts);
            let target = catalog.relation(facts.relation).unwrap();
            assert_eq!(begins_with(sql, facts, target), expected, "{sql} {facts:?}");
        }
    }

    #[test]
    fn a_column_of_no_index_is_not_referred_to() {
        let table = |rest: &str| {
            format!(
                "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `a` int,\n  `aa` int{rest},\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB"
            )
        };
        for (rest, column, expected) in [
            ("", "a", false),
            ("", "id", true),
            (",\n  KEY `k` (`aa`,`a`)", "a", true),
            (" GENERATED ALWAYS AS (`a` + 1) STORED", "a", true),
            (
                " DEFAULT current_timestamp() ON UPDATE current_timestamp()",
                "a",
                true,
            ),
            ("", "gone", true),
        ] {
            assert_eq!(
                may_be_referred_to(&table(rest), column),
                expected,
                "{rest} {column}"
            );
        }
    }

    #[test]
    fn rows_are_counted_as_they_are_found() {
        use ChangeKind::{Delete, Insert, Replace, Update};
        let three = "Records: 3  Duplicates: 1  Warnings: 0";
        let two = "Rows matched: 2  Changed: 0  Warnings: 0";
        for (kind, (ignores_errors, meets_rows), affected, info, expected) in [
            (Insert, (false, false), 2, "", 1),
            (Insert, (false, false), 4, three, 3),
            (Insert, (true, false), 0, "", 0),
            (Insert, (true, false), 2, three, 2),
            (Insert, (true, true), 4, three, 3),
            (Insert, (false, true), 2, "", 1),
            (Replace, (false, true), 2, "", 1),
            (Update, (false, false), 0, two, 2),
            (Delete, (false, false), 5, "", 5),
        ] {
            let (facts, _) = facts(kind);
            let facts = ChangeFacts {
                ignores_errors,
                meets_rows,
                ..facts
            };
            assert_eq!(
                count_affected(facts, affected, info),
                expected,
                "{facts:?} {info}"
            );
        }
    }
}
