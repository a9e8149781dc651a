//! A database of any engine, looked at and changed beside the firewall.

use crate::database::{TestDatabase, TestFile};

pub(crate) enum AnyDatabase {
    File(TestFile),
    Server(TestDatabase<'static>),
}

impl AnyDatabase {
    pub(crate) fn run(&self, sql: &str) {
        match self {
            Self::File(file) => file.open_bare().execute_batch(sql).unwrap(),
            Self::Server(database) => database.load(sql),
        }
    }

    /// One value; NULL is empty.
    pub(crate) fn value(&self, sql: &str) -> String {
        match self {
            Self::File(file) => {
                let sql = format!("SELECT coalesce(CAST(({sql}) AS text), '')");
                file.open_bare()
                    .query_row(&sql, [], |row| row.get(0))
                    .unwrap()
            }
            Self::Server(database) => database.query(sql),
        }
    }
}
