//! The tables that a change in steps can write: those of its statements, and all that foreign keys and triggers reach from them.

use mysql_async::Conn;
use palisade::{
    catalog::{Catalog, ReferenceAction, Relation, RelationKind},
    guard::{BackendError, BackendErrorKind},
};
use palisade_pool::{Task, Work};

use crate::{
    execute::Facts,
    history::triggers::keeps_history,
    introspect::{IntrospectError, Product, UNSEEN_TRIGGERS, optional, query, text},
    settings::literal,
    trigger_writes::{Target, find_targets},
};

/// Finds them.
///
/// # Errors
/// If something that can be written is no table, or it is not known what a trigger writes.
pub(crate) async fn find<'c>(
    conn: &mut Conn,
    facts: Facts<'c>,
    tasks: &[Task<'_>],
) -> Result<Vec<&'c Relation>, BackendError> {
    let catalog = facts.catalog;
    let mut reached: Vec<&Relation> = (catalog.relations().iter())
        .filter(|relation| is_written(relation, tasks))
        .collect();
    let mut next = 0;
    while let Some(table) = reached.get(next).copied() {
        next += 1;
        let followers = (catalog.relations().iter())
            .filter(|child| follows(catalog, child, table))
            .chain(find_triggered(conn, facts, table).await?);
        for one in followers {
            if reached.iter().all(|known| known.id != one.id) {
                reached.push(one);
            }
        }
    }
    if reached.is_empty() || reached.iter().any(|one| one.kind != RelationKind::Table) {
        return Err(BackendError::not_previewable(
            "it writes what is no table, as a view",
        ));
    }
    Ok(reached)
}

/// Checks that they are `tables` still.
///
/// # Errors
/// If they are others, and as [`find`].
pub(crate) async fn check(
    conn: &mut Conn,
    facts: Facts<'_>,
    tasks: &[Task<'_>],
    tables: &[&Relation],
) -> Result<(), BackendError> {
    let now = find(conn, facts, tasks).await?;
    let ids = |tables: &[&Relation]| tables.iter().map(|table| table.id).collect::<Vec<_>>();
    match ids(&now) == ids(tables) {
        true => Ok(()),
        false => Err(BackendError::schema_changed("triggers changed")),
    }
}

fn is_written(relation: &Relation, tasks: &[Task<'_>]) -> bool {
    tasks.iter().any(|task| {
        let Work::Change(changes) = task.work else {
            return false;
        };
        let mut writes = changes.writes.iter();
        task.relations.contains(&relation.uid)
            && writes.any(|(_, table, _)| *table == *relation.key)
    })
}

/// Whether rows of `child` are changed when those of `parent` are, by a foreign key.
fn follows(catalog: &Catalog, child: &Relation, parent: &Relation) -> bool {
    let acts = |action: ReferenceAction| action != ReferenceAction::Refuse;
    child.foreign_keys.iter().any(|key| {
        let of = catalog.find(&key.schema, &key.table);
        of.is_some_and(|of| of.id == parent.id) && (acts(key.on_delete) || acts(key.on_update))
    })
}

/// The tables that triggers of `table` can write.
async fn find_triggered<'c>(
    conn: &mut Conn,
    facts: Facts<'c>,
    table: &Relation,
) -> Result<Vec<&'c Relation>, BackendError> {
    if (table.triggers.iter()).any(|trigger| trigger.function == UNSEEN_TRIGGERS) {
        return Err(lacks_trigger(table));
    }
    let bodies = read_bodies(conn, facts.product, table).await;
    let bodies = bodies.map_err(|error| BackendError::unavailable(error.to_string()))?;
    let mut found = Vec::new();
    for body in bodies {
        let Body {
            trigger,
            statement,
            mode,
        } = body;
        if !table.triggers.iter().any(|known| known.function == trigger) {
            return Err(BackendError::schema_changed("triggers changed"));
        }
        // Servers tell no more than the name to whoever may not make triggers.
        let statement = statement.filter(|text| !text.is_empty());
        let statement = statement.ok_or_else(|| lacks_trigger(table))?;
        for target in find_targets(&statement, &mode).ok_or_else(unknown)? {
            let Target { schema, name } = target;
            let schema = schema.as_deref().unwrap_or(&table.schema);
            found.push(facts.catalog.find(schema, &name).ok_or_else(unknown)?);
        }
    }
    Ok(found)
}

/// A trigger.
struct Body {
    /// Its name.
    trigger: String,
    /// What it does, if that is told.
    statement: Option<String>,
    /// The settings under which it was made.
    mode: String,
}

async fn read_bodies(
    conn: &mut Conn,
    product: Product,
    table: &Relation,
) -> Result<Vec<Body>, IntrospectError> {
    let sql = format!(
        "SELECT t.TRIGGER_NAME, t.ACTION_STATEMENT, t.SQL_MODE FROM information_schema.TRIGGERS t \
         WHERE t.EVENT_OBJECT_SCHEMA = {} AND t.EVENT_OBJECT_TABLE = {}",
        literal(&table.schema),
        literal(&table.name)
    );
    let mut bodies = Vec::new();
    for row in query(conn, sql).await? {
        let trigger = text(&row, 0)?;
        let is_ours = match product {
            Product::MariaDb => false,
            Product::MySql => keeps_history(&trigger, &table.name),
        };
        if !is_ours {
            bodies.push(Body {
                trigger,
                statement: optional(&row, 1)?,
                mode: text(&row, 2)?,
            });
        }
    }
    Ok(bodies)
}

fn unknown() -> BackendError {
    BackendError::not_previewable(
        "a trigger of what it writes calls a procedure or a function of the database, or writes what is not known here; use execute, if policy permits it",
    )
}

fn lacks_trigger(table: &Relation) -> BackendError {
    BackendError::new(
        BackendErrorKind::NotGranted,
        format!(
            "a change in steps shows what triggers do, and the server tells the account nothing of those of {0}; for changes in steps: GRANT TRIGGER ON {0} TO the account",
            table.uid
        ),
    )
}
