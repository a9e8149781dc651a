//! Stored functions and procedures.

use std::collections::HashMap;

use mysql_async::Conn;
use palisade::catalog::{RoutineDef, functions::Kinds};

use super::{
    IntrospectError,
    read::{of_users, query, text},
};
use crate::history;

/// Every routine, a function and a procedure of one name taken together.
pub(super) async fn read(conn: &mut Conn) -> Result<Vec<RoutineDef>, IntrospectError> {
    // Position 0 is what a function returns.
    let sql = format!(
        "SELECT p.SPECIFIC_SCHEMA, p.SPECIFIC_NAME, p.ROUTINE_TYPE, COUNT(*) \
         FROM information_schema.PARAMETERS p WHERE p.ORDINAL_POSITION > 0 AND {} \
         GROUP BY p.SPECIFIC_SCHEMA, p.SPECIFIC_NAME, p.ROUTINE_TYPE",
        of_users("p.SPECIFIC_SCHEMA")
    );
    let mut counts = HashMap::new();
    for row in query(conn, sql).await? {
        let count: u8 = text(&row, 3)?.parse().unwrap_or(u8::MAX);
        counts.insert((text(&row, 0)?, text(&row, 1)?, text(&row, 2)?), count);
    }
    let sql = format!(
        "SELECT r.ROUTINE_SCHEMA, r.ROUTINE_NAME, r.ROUTINE_TYPE \
         FROM information_schema.ROUTINES r WHERE {} \
         ORDER BY r.ROUTINE_SCHEMA, LOWER(r.ROUTINE_NAME), r.ROUTINE_TYPE",
        of_users("r.ROUTINE_SCHEMA")
    );
    let mut routines: Vec<RoutineDef> = Vec::new();
    for row in query(conn, sql).await? {
        let (schema, name, kind) = (text(&row, 0)?, text(&row, 1)?, text(&row, 2)?);
        // What keeps history is called by the firewall alone.
        if history::is_own(&name) {
            continue;
        }
        let (scalar, procedure) = match kind.as_str() {
            "FUNCTION" => (true, false),
            "PROCEDURE" => (false, true),
            // Their routines are called by three names, which is no call of a function here.
            "PACKAGE" | "PACKAGE BODY" => continue,
            other => {
                return Err(IntrospectError::Inconsistent(format!(
                    "routine `{name}` is of the unknown kind `{other}`"
                )));
            }
        };
        let key = (schema, name, kind);
        let args = counts.get(&key).copied().unwrap_or(0);
        let (schema, name, _) = key;
        match routines.last_mut() {
            Some(last)
                if last.schema == schema && last.name.to_lowercase() == name.to_lowercase() =>
            {
                last.kinds.scalar |= scalar;
                last.kinds.procedure |= procedure;
                last.min_args = last.min_args.min(args);
                last.max_args = last.max_args.max(Some(args));
            }
            Some(_) | None => routines.push(RoutineDef {
                schema,
                name,
                kinds: Kinds {
                    scalar,
                    procedure,
                    ..Kinds::default()
                },
                extensions: Vec::new(),
                min_args: args,
                max_args: Some(args),
                columns: Vec::new(),
                // Neither engine has functions of one name with other parameters.
                parameters: Vec::new(),
            }),
        }
    }
    Ok(routines)
}
