//! Statements that are no queries, each under the locks that its kind leaves.
//!
//! A change of rows runs in a transaction that can write, of a session that otherwise cannot. What there is instead of
//! the read-only lock:
//!
//! * COM_STMT_PREPARE takes one statement, and `EXPLAIN` before it takes none but queries and changes: no SET, no COMMIT,
//!   no CALL, no DDL, no LOCK. It runs nothing;
//! * the text begins with a change that was decided, of a table that was decided;
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
    guard::{BackendError, Completion, RowSink},
    rewrite::Precheck,
};
use palisade_pool::{Changes, Ended, Task, Work, commit};

use crate::{
    cascade_count::{self, Reached},
    cells::Reading,
    connect::Session,
    estimate,
    execute::{self, Facts},
    fault,
    introspect::{IntrospectError, Product, keys_are_known, optional, query, text, triggers_of},
    params,
    settings::{identifier, literal},
};

/// With what the text of a change begins, and what it is at least.
const CHANGES: &[(&str, Change)] = &[
    ("INSERT INTO ", Change::Insert),
    ("INSERT IGNORE INTO ", Change::Insert),
    ("REPLACE INTO ", Change::Insert),
    ("UPDATE ", Change::Update),
    ("DELETE FROM ", Change::Delete),
    ("DELETE ", Change::Delete),
];

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
pub(crate) fn begin(work: Work<'_>) -> &'static str {
    match work {
        Work::Read | Work::Explain => "START TRANSACTION READ ONLY",
        // The session's own mode stays, so that nothing that commits by itself gets further.
        Work::Change(changes)
            if changes.prechecks.is_empty() && changes.cascade_counts.is_empty() =>
        {
            "START TRANSACTION READ WRITE"
        }
        // What is looked at first is locked, so that the change finds it as it was.
        Work::Change(changes) if changes.cascade_counts.is_empty() => {
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
    execute::check_text(task.sql)?;
    if !task.sql.starts_with(EXPLAIN) {
        return Err(BackendError::second_lock("the statement asks for no plan"));
    }
    let statement = conn.prep(task.sql).await.map_err(|e| fault::engine(&e))?;
    let params = params::bind(statement.num_params(), task.params)?;
    if sink.columns(&["EXPLAIN"]).is_break() {
        return Ok(Ended::Clean);
    }
    let result = conn
        .exec_iter(&statement, params)
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
    execute::check_text(task.sql)?;
    let (kind, target) = check_target(facts.catalog, task, changes)?;
    let statement = conn.prep(task.sql).await.map_err(|e| fault::engine(&e))?;
    let params = params::bind(statement.num_params(), task.params)?;
    plan(conn, task, &params).await?;
    if task.estimates.are_wanted() {
        let estimate = estimate::of_change(conn, facts.product, task.sql, &params, target).await?;
        task.estimates.admit(estimate)?;
    }
    check_effects(conn, facts, task, changes)
        .await
        .map_err(|error| match error {
            Look::Failed(error) => BackendError::unavailable(error.to_string()),
            Look::Refused(error) => error,
        })?;
    for precheck in changes.prechecks {
        seek(conn, precheck).await?;
    }
    let mut reached = Reached::default();
    for count in changes.cascade_counts {
        reached = cascade_count::find(conn, facts.catalog, count, changes.max_affected).await?;
    }
    let mut took = ControlFlow::Continue(());
    let mut result = conn
        .exec_iter(&statement, params)
        .await
        .map_err(|e| fault::change(&e))?;
    // Before it runs, MariaDB does not describe what a change gives.
    let columns = result.columns_ref().to_vec();
    execute::check_origins(&columns, facts, task)?;
    let affected = if columns.is_empty() {
        let affected = count_affected(kind, task.sql, result.affected_rows(), &result.info());
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

/// Runs a precheck: refuses the statement if it finds a row.
async fn seek(conn: &mut Conn, precheck: &Precheck) -> Result<(), BackendError> {
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
    match found {
        Some(_) => Err(BackendError::violated(precheck)),
        None => Ok(()),
    }
}

/// Changes the schema, or empties a table. It is kept as it is done.
pub(crate) async fn define(conn: &mut Conn, task: &Task<'_>) -> Result<(), BackendError> {
    execute::check_text(task.sql)?;
    if !DEFINITIONS.iter().any(|words| task.sql.starts_with(words)) {
        return Err(BackendError::second_lock("the statement is no definition"));
    }
    let statement = conn.prep(task.sql).await.map_err(|e| fault::engine(&e))?;
    if !statement.columns().is_empty() {
        return Err(BackendError::second_lock("the definition gives rows"));
    }
    let params = params::bind(statement.num_params(), task.params)?;
    conn.exec_drop(&statement, params)
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
    let sql = format!("EXPLAIN {}", task.sql);
    // What was prepared a moment ago, and cannot be with this before it, is of another kind.
    let plan = conn.prep(sql).await.map_err(|error| match &error {
        mysql_async::Error::Server(server) if server.code == 1064 => {
            BackendError::second_lock(error.to_string())
        }
        _ => fault::engine(&error),
    })?;
    conn.exec_drop(&plan, params.clone())
        .await
        .map_err(|e| fault::change(&e))
}

/// Checks that the text begins with a change that was decided, of a table that was decided; which they are.
///
/// Where several tables are joined the text does not begin with the table that is changed. Then the kind of change
/// alone is compared, and the account's own rights stand behind it.
fn check_target<'c>(
    catalog: &'c Catalog,
    task: &Task<'_>,
    changes: Changes<'_>,
) -> Result<(Change, Option<&'c Relation>), BackendError> {
    let undecided = || BackendError::second_lock("the text begins with no change that was decided");
    let sql = after_with(task.sql).ok_or_else(undecided)?;
    let (change, rest) = begun(sql).ok_or_else(undecided)?;
    let relation = name(rest).and_then(|(first, rest)| match rest.strip_prefix('.') {
        Some(rest) => catalog.find(&first, &name(rest)?.0),
        None => catalog.find(catalog.database(), &first),
    });
    let is_table = |table: &str| {
        relation.is_some_and(|relation| {
            task.relations.contains(&relation.uid) && *table == *relation.key
        })
    };
    let is_joined = matches!(change, Change::Update | Change::Delete) && joins(sql);
    let decided = changes
        .writes
        .iter()
        .any(|(decided, table, _)| *decided == change && (is_joined || is_table(table)));
    if decided {
        Ok((change, relation.filter(|_| !is_joined)))
    } else {
        Err(undecided())
    }
}

/// The change that a text begins with, and what follows.
fn begun(sql: &str) -> Option<(Change, &str)> {
    CHANGES
        .iter()
        .find_map(|(words, change)| Some((*change, sql.strip_prefix(words)?)))
}

/// The text after a WITH that it begins with, which MySQL has before UPDATE and DELETE: from the first change on that stands
/// in no parentheses, no string and no quoted name.
fn after_with(sql: &str) -> Option<&str> {
    if !sql.starts_with("WITH ") {
        return Some(sql);
    }
    let mut depth = 0_usize;
    let mut quoted = None;
    let mut before = '(';
    for (at, c) in sql.char_indices() {
        match (quoted, c) {
            // How a server reads it depends on its settings; the printer doubles what is to be escaped.
            (Some('\'' | '"'), '\\') => return None,
            (Some(quote), c) if c == quote => quoted = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quoted = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.checked_sub(1)?,
            (None, _) if depth == 0 && before == ' ' => {
                let rest = sql.get(at..)?;
                if begun(rest).is_some() {
                    return Some(rest);
                }
            }
            (None, _) => {}
        }
        before = c;
    }
    None
}

/// Whether the text may be one of several joined tables. What is in strings and names counts: then less is
/// compared, never more permitted than the kind of change.
fn joins(sql: &str) -> bool {
    let before_set = sql.split(" SET ").next().unwrap_or_default();
    sql.contains(" JOIN ")
        || sql.starts_with("UPDATE ") && before_set.contains(',')
        || sql.starts_with("DELETE ") && !sql.starts_with("DELETE FROM ")
}

/// The name that a text begins with, and what follows.
fn name(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('`') else {
        let end = text
            .find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')
            .unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        return (!name.is_empty()).then(|| (name.to_owned(), rest));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('`')?;
        name.push_str(rest.get(..end)?);
        rest = rest.get(end + 1..)?;
        match rest.strip_prefix('`') {
            Some(more) => {
                name.push('`');
                rest = more;
            }
            None => return Some((name, rest)),
        }
    }
}

/// How many rows a change found or made. The server's own number counts rows that have other values than before, which
/// would tell what they had, and a row that an upsert changes twice.
fn count_affected(change: Change, sql: &str, affected: u64, info: &str) -> u64 {
    let after = |words: &str| -> Option<u64> {
        let (_, rest) = info.split_once(words)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    match change {
        // Rows that it leaves out are no more secret than what refuses it without IGNORE.
        Change::Insert if leaves_out(sql) => affected,
        // Of a single row it says nothing.
        Change::Insert => after("Records: ").unwrap_or(1),
        Change::Update => after("Rows matched: ").unwrap_or(affected),
        Change::Delete | Change::Truncate => affected,
    }
}

/// Whether rows in whose way others are stay out, and nothing is updated. What is in strings counts: then those rows are counted too.
fn leaves_out(sql: &str) -> bool {
    sql.starts_with("INSERT IGNORE ") && !sql.contains(" ON DUPLICATE KEY UPDATE ")
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
    changes: Changes<'_>,
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
        let sql = format!(
            "SELECT t.TABLE_NAME FROM information_schema.TABLES t \
             JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE \
             WHERE t.TABLE_SCHEMA = {schema} AND t.TABLE_NAME = {table} AND e.TRANSACTIONS = 'YES'"
        );
        if query(conn, sql).await?.is_empty() {
            return Err(Look::Refused(BackendError::rejected(format!(
                "the engine of `{}` cannot take a change back",
                relation.uid
            ))));
        }
        let condition =
            format!("t.EVENT_OBJECT_SCHEMA = {schema} AND t.EVENT_OBJECT_TABLE = {table}");
        let found: BTreeSet<_> = triggers_of(conn, &condition)
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
        if meets_rows(task.sql) && !keys_are_known(conn, facts.product, relation).await? {
            return Err(changed_schema());
        }
        if !found.is_empty() || may_reach_children(facts, relation, changes) {
            references(conn, catalog, relation, (&schema, &table)).await?;
        }
    }
    Ok(())
}

/// Whether a change does something to the conflicting row, so that it was decided by the keys of its table. What is in strings
/// counts: then they are looked at in vain.
fn meets_rows(sql: &str) -> bool {
    sql.starts_with("REPLACE ") || sql.contains(" ON DUPLICATE KEY UPDATE ")
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
    use super::*;

    #[test]
    fn names_are_read() {
        for (text, expected) in [
            ("`a``b`.`c` x", Some(("a`b", ".`c` x"))),
            ("abc.d", Some(("abc", ".d"))),
            ("t SET", Some(("t", " SET"))),
            ("`open", None),
            ("(SELECT", None),
            ("", None),
        ] {
            let expected = expected.map(|(name, rest)| (name.to_owned(), rest));
            assert_eq!(name(text), expected, "{text}");
        }
    }

    #[test]
    fn a_change_is_found_after_its_queries() {
        for (sql, expected) in [
            ("UPDATE `t` SET a = 1", Some("UPDATE `t` SET a = 1")),
            (
                "WITH `a` AS (SELECT ' UPDATE x', ')'), `b (` (`c`) AS (SELECT (1)) DELETE FROM `t`",
                Some("DELETE FROM `t`"),
            ),
            (
                "WITH RECURSIVE `a` AS (SELECT 1) UPDATE `t`",
                Some("UPDATE `t`"),
            ),
            ("WITH ` UPDATE x` AS (SELECT 1) SELECT 1", None),
            (
                "WITH `a` AS (SELECT '\\') UPDATE `t`') DELETE FROM `u`",
                None,
            ),
            ("WITH `a` AS (SELECT 1)) UPDATE `t`", None),
        ] {
            assert_eq!(after_with(sql), expected, "{sql}");
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
        let (three, upsert) = (
            "Records: 3  Duplicates: 1  Warnings: 0",
            " ON DUPLICATE KEY UPDATE a = 1",
        );
        for (change, sql, affected, info, expected) in [
            (Change::Insert, "INSERT INTO t", 2, "", 1),
            (Change::Insert, "INSERT INTO t", 4, three, 3),
            (Change::Insert, "INSERT IGNORE INTO t", 0, "", 0),
            (Change::Insert, "INSERT IGNORE INTO t", 2, three, 2),
            (
                Change::Insert,
                &format!("INSERT IGNORE INTO t{upsert}"),
                4,
                three,
                3,
            ),
            (
                Change::Update,
                "UPDATE t",
                0,
                "Rows matched: 2  Changed: 0  Warnings: 0",
                2,
            ),
            (Change::Delete, "DELETE FROM t", 5, "", 5),
        ] {
            assert_eq!(
                count_affected(change, sql, affected, info),
                expected,
                "{sql} {info}"
            );
        }
    }
}
