//! Who else may read rows that the firewall keeps: images of changed rows, and histories.

use palisade::{change::IMAGES, ident};
use tokio_postgres::Client;

use super::HISTORY;
use crate::weakness::{Weak, readable_images};

/// What is wrong, and what is to know of.
pub(super) struct ImageReaders {
    /// Tables that everybody may read.
    pub(super) weaknesses: Vec<Weak>,
    /// Tables that accounts of other names may read.
    pub(super) notes: Vec<String>,
}

/// Finds them. Owners, the session's account and the roles that it is a member of are not told of.
pub(super) async fn find(client: &Client) -> Result<ImageReaders, tokio_postgres::Error> {
    // Grantee 0 is PUBLIC.
    let sql = format!(
        "SELECT n.nspname::text, c.relname::text, \
           pg_catalog.bool_or(a.grantee OPERATOR(pg_catalog.=) 0), \
           pg_catalog.array_agg(DISTINCT r.rolname::text) FILTER (WHERE r.oid IS NOT NULL) \
         FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         CROSS JOIN LATERAL (SELECT a.grantee, a.privilege_type FROM pg_catalog.aclexplode(c.relacl) a \
           UNION SELECT a.grantee, a.privilege_type FROM pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) a \
                 WHERE t.attrelid = c.oid AND NOT t.attisdropped) a \
         LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee \
         WHERE (c.relname = '{IMAGES}' OR n.nspname = '{HISTORY}' AND c.relname <> 'spans') \
           AND c.relkind IN ('r', 'p', 'v', 'm') AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner \
           AND (a.grantee = 0 OR NOT pg_catalog.pg_has_role(session_user, a.grantee, 'MEMBER')) \
         GROUP BY n.nspname, c.relname ORDER BY n.nspname, c.relname"
    );
    let mut found = ImageReaders {
        weaknesses: Vec::new(),
        notes: Vec::new(),
    };
    for row in client.query_typed(&sql, &[]).await? {
        let (schema, name): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let table = ident::qualify([schema.as_str(), name.as_str()]);
        if row.try_get(2)? {
            let remedy = format!("REVOKE SELECT ON {table} FROM PUBLIC;");
            found.weaknesses.push(readable_images(&table, remedy));
        }
        let roles: Option<Vec<String>> = row.try_get(3)?;
        if let Some(roles) = roles {
            found.notes.push(format!(
                "{table} holds values of rows, and may also be read by {}; it is for its owner and accounts of Palisade.",
                roles.join(", ")
            ));
        }
    }
    Ok(found)
}
