//! Access tokens of servers over HTTP, as hashes: one table of the store.

use crate::{
    database::{DatabaseFault, StateRow},
    store::ApprovalStore,
};

/// The table, which the sixth form of the store has. What is said of a token is sealed, so that no other can make one.
pub(crate) const TABLE: &str = "
    CREATE TABLE access_tokens (
        name TEXT PRIMARY KEY,
        sealed BLOB NOT NULL
    ) STRICT;
";

/// Beside what the seal of a token opens.
fn seal_id(name: &str) -> String {
    format!("access token {name}")
}

impl ApprovalStore {
    /// Keeps what is said of the access token called `name`, as JSON; false if there is a token of this name.
    ///
    /// # Errors
    /// If the store does not work.
    pub fn keep_access_token(&self, name: &str, text: &str) -> Result<bool, String> {
        let sealed = self.keys.seal(&seal_id(name), text)?;
        let kept = self.database.write(|transaction| {
            let same = "SELECT count(*) FROM access_tokens WHERE name = ?1";
            if transaction.count(same, &[name.into()])? > 0 {
                return Ok(false);
            }
            transaction.execute(
                "INSERT INTO access_tokens (name, sealed) VALUES (?1, ?2)",
                &[name.into(), sealed.as_slice().into()],
            )?;
            Ok(true)
        });
        kept.map_err(|fault: DatabaseFault| fault.0)
    }

    /// What is said of all access tokens, by name. What was sealed under another secret, or for another name, is left out.
    ///
    /// # Errors
    /// If the store does not work.
    pub fn list_access_tokens(&self) -> Result<Vec<String>, String> {
        let read = |row: &StateRow| -> Result<_, DatabaseFault> {
            let name = row.text(0)?;
            Ok(self.keys.open(&seal_id(&name), &row.bytes(1)?))
        };
        let listed = self.database.read(|transaction| {
            let rows =
                transaction.query("SELECT name, sealed FROM access_tokens ORDER BY name", &[])?;
            rows.iter().map(read).collect::<Result<Vec<_>, _>>()
        });
        let listed = listed.map_err(|fault: DatabaseFault| fault.0)?;
        Ok(listed.into_iter().flatten().collect())
    }

    /// Deletes the access token called `name`; false if there is none.
    ///
    /// # Errors
    /// If the store does not work.
    pub fn delete_access_token(&self, name: &str) -> Result<bool, String> {
        let deleted = self.database.write(|transaction| {
            transaction.execute("DELETE FROM access_tokens WHERE name = ?1", &[name.into()])
        });
        deleted
            .map(|count| count > 0)
            .map_err(|fault: DatabaseFault| fault.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use rusqlite::Connection;

    use crate::{ApprovalOptions, ApprovalStore, StateSecret};

    #[test]
    fn tokens_are_kept_until_they_are_deleted() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        assert!(store.keep_access_token("a", "1").unwrap());
        assert!(store.keep_access_token("b", "2").unwrap());
        assert!(!store.keep_access_token("a", "3").unwrap());
        assert_eq!(store.list_access_tokens().unwrap(), ["1", "2"]);
        assert!(store.delete_access_token("a").unwrap());
        assert!(!store.delete_access_token("a").unwrap());
        assert_eq!(store.list_access_tokens().unwrap(), ["2"]);
    }

    #[test]
    fn whoever_writes_the_database_makes_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let open = |secret: &str| {
            let secret = StateSecret::new(secret.repeat(32));
            ApprovalStore::open(&path, &secret, ApprovalOptions::default()).unwrap()
        };
        open("x").keep_access_token("a", "1").unwrap();
        let store = open("y");
        store.keep_access_token("b", "2").unwrap();
        // Of another secret, and under another name.
        let file = Connection::open(&path).unwrap();
        file.execute_batch(
            "INSERT INTO access_tokens SELECT 'c', sealed FROM access_tokens WHERE name = 'b'",
        )
        .unwrap();
        file.execute_batch("INSERT INTO access_tokens VALUES ('d', x'7b7d')")
            .unwrap();
        assert_eq!(store.list_access_tokens().unwrap(), ["2"]);
    }
}
