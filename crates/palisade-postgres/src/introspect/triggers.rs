//! Triggers, and rules that are not a view's query.

use std::collections::{BTreeSet, HashMap};

use palisade::catalog::{Change, RelationDef, Trigger};
use tokio_postgres::Client;

use super::IntrospectError;

/// The bits of `pg_trigger.tgtype` (`src/include/catalog/pg_trigger.h`).
const EVENTS: [(i16, Change); 4] = [
    (4, Change::Insert),
    (8, Change::Delete),
    (16, Change::Update),
    (32, Change::Truncate),
];

/// Puts them where they belong. What enforces a foreign key is no trigger here: the key says what it does.
pub(super) async fn read(
    client: &Client,
    by_oid: &HashMap<u32, usize>,
    relations: &mut [RelationDef],
) -> Result<(), IntrospectError> {
    let sql = "SELECT t.tgrelid, n.nspname, p.proname, t.tgtype, \
               ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a \
                     WHERE a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr)) \
               FROM pg_catalog.pg_trigger t \
               JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid \
               JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
               WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND n.nspname <> 'palisade_history'";
    for row in client.query_typed(sql, &[]).await? {
        let bits: i16 = row.try_get(3)?;
        let trigger = Trigger {
            schema: row.try_get(1)?,
            function: row.try_get(2)?,
            on: EVENTS
                .into_iter()
                .filter(|(bit, _)| bits & bit != 0)
                .map(|(_, change)| change)
                .collect(),
            columns: row.try_get::<_, Vec<String>>(4)?.into_iter().collect(),
        };
        put(by_oid, relations, row.try_get(0)?, trigger);
    }
    // A view's query is a rule, the only one on SELECT.
    let sql = "SELECT r.ev_class, n.nspname, r.rulename, r.ev_type::text \
               FROM pg_catalog.pg_rewrite r \
               JOIN pg_catalog.pg_class c ON c.oid = r.ev_class \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE r.ev_type <> '1' AND r.ev_enabled <> 'D'";
    for row in client.query_typed(sql, &[]).await? {
        let on = match row.try_get(3)? {
            "2" => Change::Update,
            "3" => Change::Insert,
            "4" => Change::Delete,
            other => {
                return Err(IntrospectError::Inconsistent(format!(
                    "a rule is for the unknown `{other}`"
                )));
            }
        };
        let rule = Trigger {
            schema: row.try_get(1)?,
            function: row.try_get(2)?,
            on: BTreeSet::from([on]),
            columns: BTreeSet::new(),
        };
        put(by_oid, relations, row.try_get(0)?, rule);
    }
    Ok(())
}

fn put(by_oid: &HashMap<u32, usize>, relations: &mut [RelationDef], oid: u32, trigger: Trigger) {
    // Those of the system's relations and of temporary tables are no one's here.
    if let Some(def) = by_oid.get(&oid).and_then(|i| relations.get_mut(*i)) {
        def.triggers.push(trigger);
    }
}
