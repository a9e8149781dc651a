//! Functions that tables call by themselves: in defaults and in generated columns.
//!
//! The authorizer is asked for those of every column that a statement touches or leaves out, as if the statement called
//! them, and nothing in what it is told tells the two apart. So the engine is asked once for those of each table, by
//! statements that call nothing; and a statement gets those of the tables that were decided, except what its
//! own text can call. What CHECKs and indexes call, the authorizer is never asked for.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use palisade::{
    catalog::{Catalog, RelationKind},
    dialect::Dialect,
    ident,
};
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};

use crate::schema_text;

/// The folded names of functions, by the folded names of the tables that call them.
#[derive(Debug, Default)]
pub(crate) struct OwnFunctions(HashMap<String, BTreeSet<String>>);

impl OwnFunctions {
    /// Those of the tables of `catalog`, which was read from `conn`. Nothing runs; there is no authorizer afterwards.
    pub(crate) fn read(conn: &mut Connection, catalog: &Catalog) -> rusqlite::Result<Self> {
        let mut all = HashMap::new();
        for relation in catalog.relations() {
            if relation.kind != RelationKind::Table {
                continue;
            }
            let called = Arc::new(Mutex::new(BTreeSet::new()));
            let log = Arc::clone(&called);
            conn.authorizer(Some(move |context: AuthContext<'_>| {
                if let AuthAction::Function { function_name } = context.action {
                    let name = Dialect::Sqlite.fold(function_name);
                    log.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(name);
                }
                Authorization::Allow
            }))?;
            let table = ident::quote(&relation.name);
            for sql in [
                format!("SELECT * FROM main.{table}"),
                format!("INSERT INTO main.{table} DEFAULT VALUES"),
            ] {
                // What does not compile has said what it could; the rest stays refused.
                let _ = conn.prepare(&sql);
            }
            conn.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
            let names = std::mem::take(&mut *called.lock().unwrap_or_else(PoisonError::into_inner));
            if !names.is_empty() {
                all.insert(Dialect::Sqlite.fold(&relation.name), names);
            }
        }
        Ok(Self(all))
    }

    /// Those of `tables`, except what a text of `texts` can call.
    pub(crate) fn functions_for<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a str>,
        texts: &[&str],
    ) -> HashSet<String> {
        let mut own: HashSet<String> = (tables.into_iter())
            .filter_map(|table| self.0.get(table))
            .flatten()
            .cloned()
            .collect();
        if !own.is_empty() {
            for text in texts {
                for name in schema_text::callable(text) {
                    own.remove(&Dialect::Sqlite.fold(&name));
                }
            }
        }
        own
    }
}
