//! What a preview would do for good: effects that no rollback takes back.

use crate::{
    catalog::{
        Catalog,
        functions::{FunctionDef, Safety, shown_name},
    },
    code::Code,
    rejection::Rejection,
    rewrite::RewrittenStatement,
};

/// Functions that belong to the server's control, and leave nothing behind a rollback but gaps in sequences.
const TAKEN_BACK: [&str; 9] = [
    "autoinc",
    "insert_username",
    "lo_manage",
    "moddatetime",
    "nextval",
    "pg_notify",
    "suppress_redundant_updates_trigger",
    "tsvector_update_trigger",
    "tsvector_update_trigger_column",
];

/// Refuses a statement that calls what acts outside of the transaction: a preview would do so too, and a commit again.
///
/// What a function of the database does by itself is not known. Policy names it, and so does whoever permits it.
pub(super) fn require_inside(
    statement: &RewrittenStatement,
    catalog: &Catalog,
) -> Result<(), Rejection> {
    for key in statement.engine_functions() {
        // Some are kept by id, others by name.
        let by_id = catalog.function(key).into_iter();
        let mut meant = by_id.chain(catalog.functions_named(key));
        if let Some(def) = meant.find(|def| acts_outside(def)) {
            return Err(Rejection::new(
                Code::ChangeNotPreviewable,
                format!(
                    "`{}` acts outside of the transaction, so that a preview would do it too",
                    shown_name(&def.uid)
                ),
            ));
        }
    }
    Ok(())
}

fn acts_outside(def: &FunctionDef) -> bool {
    match def.safety {
        Safety::File | Safety::Network | Safety::DynamicSql => true,
        Safety::Admin => !TAKEN_BACK.contains(&def.name.as_str()),
        Safety::Pure
        | Safety::Volatile
        | Safety::Account
        | Safety::Session
        | Safety::Catalog
        | Safety::Lock
        | Safety::Resource
        | Safety::Unknown => false,
    }
}
