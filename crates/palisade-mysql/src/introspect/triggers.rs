//! Triggers.

use std::collections::{BTreeSet, HashMap};

use mysql_async::Conn;
use palisade::catalog::{Change, RelationDef, RelationKind, Trigger};

use super::{
    IntrospectError, Name, Product,
    read::{Server, of_users, query, text},
};
use crate::{grants::Account, history::triggers::keeps_history};

/// The trigger that stands for a table's triggers where the server does not tell them: they run all the same.
pub(crate) const UNSEEN: &str = "unseen_triggers";

/// Puts the triggers where they belong.
pub(super) async fn read(
    conn: &mut Conn,
    server: &Server,
    account: &Account,
    relations: &mut [RelationDef],
) -> Result<(), IntrospectError> {
    let is_told = |def: &RelationDef| {
        server.tells_triggers() || account.may(&def.schema, &def.name, "TRIGGER")
    };
    let mut triggers = by_table(conn, server.product, &of_users("t.EVENT_OBJECT_SCHEMA")).await?;
    for def in relations {
        let name = (def.schema.clone(), def.name.clone());
        def.triggers = triggers.remove(&name).unwrap_or_default();
        if def.kind == RelationKind::Table && !is_told(def) {
            def.triggers.push(Trigger {
                schema: def.schema.clone(),
                function: UNSEEN.to_owned(),
                // Emptying a table sets off none.
                on: [Change::Insert, Change::Update, Change::Delete].into(),
                columns: BTreeSet::new(),
            });
        }
    }
    Ok(())
}

/// The triggers for which `condition` holds, `t` being a trigger, by their tables, without those that keep history.
pub(crate) async fn by_table(
    conn: &mut Conn,
    product: Product,
    condition: &str,
) -> Result<HashMap<Name, Vec<Trigger>>, IntrospectError> {
    let sql = format!(
        "SELECT t.EVENT_OBJECT_SCHEMA, t.EVENT_OBJECT_TABLE, t.TRIGGER_SCHEMA, t.TRIGGER_NAME, \
                t.EVENT_MANIPULATION \
         FROM information_schema.TRIGGERS t WHERE {condition}"
    );
    let mut triggers: HashMap<Name, Vec<Trigger>> = HashMap::new();
    for row in query(conn, sql).await? {
        let is_ours = match product {
            Product::MariaDb => false,
            Product::MySql => keeps_history(&text(&row, 3)?, &text(&row, 1)?),
        };
        if is_ours {
            continue;
        }
        let event = text(&row, 4)?;
        let on = match Change::ALL
            .into_iter()
            .find(|change| change.name().eq_ignore_ascii_case(&event))
        {
            Some(change) => BTreeSet::from([change]),
            // Several at once, or one that is not known here.
            None => Change::ALL.into(),
        };
        triggers
            .entry((text(&row, 0)?, text(&row, 1)?))
            .or_default()
            .push(Trigger {
                schema: text(&row, 2)?,
                function: text(&row, 3)?,
                on,
                columns: BTreeSet::new(),
            });
    }
    Ok(triggers)
}
