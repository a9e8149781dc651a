//! One statement that changes the schema, under the locks that its kind leaves.
//!
//! The engine keeps a schema in tables of its own and changes them by statements of its own, which the authorizer sees
//! beside the definition. So a definition may write those tables, in the main database only, and there is no
//! deciding which entry; defensive mode and the grammar are what keeps it to whole definitions. Triggers, virtual
//! tables, temporary objects, attached databases and pragmas are no definitions here.

use std::{collections::HashSet, sync::Arc};

use palisade::{
    catalog::{Catalog, Change},
    dialect::Dialect,
    guard::{BackendError, ReadyText},
};
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext},
};

use crate::{
    execute::{self, Facts, Task, engine, second_lock, unavailable},
    write::{self, Changes},
};

/// What the engine calls by itself when it alters a table.
const OWN_FUNCTIONS: &[&str] = &[
    "glob",
    "length",
    "like",
    "printf",
    "sqlite_drop_column",
    "sqlite_fail",
    "sqlite_rename_column",
    "sqlite_rename_quotefix",
    "sqlite_rename_table",
    "sqlite_rename_test",
    "substr",
];

/// Runs the definition `task` on `conn`, which can write, in a transaction of its own. It reads at most `relations`,
/// by uid, and deletes rows of what it drops.
///
/// `conn` must be [`restrict`](execute::restrict)ed, and is not any more.
pub(crate) fn execute(
    conn: &mut Connection,
    facts: &Facts<'_>,
    task: &Task<'_>,
    changes: &Changes<'_>,
    relations: &[String],
) -> Result<(), BackendError> {
    execute::start_clock(conn, task).map_err(unavailable)?;
    let reads = names(facts.catalog, relations);
    // Those of the tables that it alters, too.
    let text = task.checks.first_check().ready()?;
    let tables = reads.iter().map(String::as_str);
    let mut functions = execute::own_functions(facts, task, text.sql(), tables);
    functions.extend(task.functions.iter().cloned());
    let permitted = Permitted {
        catalog: Arc::clone(facts.catalog),
        reads,
        functions,
        writes: changes.writes.iter().cloned().collect(),
        defined: HashSet::new(),
    };
    let result = in_transaction(conn, facts, (task, text), changes, permitted);
    // As after every change: what is committed stays.
    let _ = execute::reset(conn);
    result
}

fn in_transaction(
    conn: &mut Connection,
    facts: &Facts<'_>,
    (task, text): (&Task<'_>, ReadyText<'_>),
    changes: &Changes<'_>,
    mut permitted: Permitted,
) -> Result<(), BackendError> {
    let _turn = write::begin(conn, facts, task, changes)?;
    write::set_effects(conn, true).map_err(unavailable)?;
    execute::with_authorizer(
        conn,
        move |context| permitted.admits(context),
        |conn, _| run(conn, task, text),
    )?;
    conn.execute_batch("COMMIT").map_err(|e| engine(&e))
}

fn run(conn: &Connection, task: &Task<'_>, text: ReadyText<'_>) -> Result<(), BackendError> {
    let mut statement = conn.prepare(text.sql()).map_err(|e| engine(&e))?;
    let is_definition =
        !statement.readonly() && statement.is_explain() == 0 && statement.column_count() == 0;
    if !is_definition {
        return Err(second_lock("the statement defines nothing".to_owned()));
    }
    execute::bind(&mut statement, task.params)?;
    statement.raw_execute().map(drop).map_err(|e| engine(&e))
}

/// The folded names of relations.
fn names(catalog: &Catalog, uids: &[String]) -> HashSet<String> {
    (catalog.relations().iter())
        .filter(|relation| uids.contains(&relation.uid))
        .map(|relation| fold(&relation.name))
        .collect()
}

struct Permitted {
    catalog: Arc<Catalog>,
    reads: HashSet<String>,
    functions: HashSet<String>,
    writes: HashSet<(Change, String, String)>,
    /// What the statement makes, alters or drops.
    defined: HashSet<String>,
}

impl Permitted {
    fn admits(&mut self, context: &AuthContext<'_>) -> bool {
        let in_main = context.database_name == Some("main");
        match context.action {
            AuthAction::Select | AuthAction::Recursive => true,
            AuthAction::CreateIndex { .. }
            | AuthAction::CreateView { .. }
            | AuthAction::DropIndex { .. }
            | AuthAction::Reindex { .. }
            // With its table.
            | AuthAction::DropTrigger { .. } => in_main,
            AuthAction::CreateTable { table_name } | AuthAction::DropTable { table_name } => {
                self.defined.insert(fold(table_name));
                in_main
            }
            AuthAction::DropView { view_name } => {
                self.defined.insert(fold(view_name));
                in_main
            }
            AuthAction::AlterTable {
                database_name,
                table_name,
            } => {
                self.defined.insert(fold(table_name));
                database_name == "main"
            }
            AuthAction::Read {
                table_name,
                column_name,
            } => {
                let name = fold(table_name);
                is_own(&name)
                    || self.defined.contains(&name)
                    || self.reads.contains(&name)
                    || self.refers(&name, &fold(column_name))
            }
            AuthAction::Insert { table_name } => is_own(&fold(table_name)),
            AuthAction::Update {
                table_name,
                column_name,
            } => {
                let name = fold(table_name);
                is_own(&name)
                    // Rows that reference others of the table that is dropped.
                    || in_main
                        && (self.defined.contains(&name)
                            || self.is_decided(Change::Update, name, fold(column_name)))
            }
            AuthAction::Delete { table_name } => {
                let name = fold(table_name);
                is_own(&name)
                    || in_main
                        && (self.defined.contains(&name)
                            || self.is_decided(Change::Delete, name, String::new()))
            }
            AuthAction::Function { function_name } => {
                let name = fold(function_name);
                self.functions.contains(&name) || OWN_FUNCTIONS.contains(&name.as_str())
            }
            // What a new column must hold for rows that are there.
            AuthAction::Pragma { pragma_name, .. } => pragma_name == "quick_check",
            // Everything else attaches, runs later, or changes the connection.
            _ => false,
        }
    }

    /// Whether `column` of `table` references a table that the statement drops. The engine looks for rows that would
    /// be left alone (<https://www.sqlite.org/foreignkeys.html#fk_schemacommands>), as before any DELETE.
    fn refers(&self, table: &str, column: &str) -> bool {
        let relations = self.catalog.relations().iter();
        let mut keys = relations
            .filter(|relation| fold(&relation.name) == table)
            .flat_map(|relation| &relation.foreign_keys)
            .filter(|key| self.defined.contains(&fold(&key.table)));
        keys.any(|key| key.columns.iter().any(|own| fold(own) == column))
    }

    fn is_decided(&self, change: Change, table: String, column: String) -> bool {
        self.writes.contains(&(change, table, column))
    }
}

/// Whether a folded name is of a table of the engine's own, or of its check of one.
fn is_own(name: &str) -> bool {
    name.starts_with("sqlite_") || name == "pragma_quick_check"
}

fn fold(name: &str) -> String {
    Dialect::Sqlite.fold(name)
}
