//! Bytes that MySQL and MariaDB take for a text of the column's own character set, whatever they would be in another.

use super::*;

use crate::database::TestDatabase;

/// Of `name` and `short`, `admin` and `é` are not added.
const ADMITTED: &str = "(if resource has name then resource.name != \"admin\" else true) && \
     (if resource has short then resource.short != \"é\" else true)";

async fn of_columns(server: &'static Server) {
    let script = "
        CREATE TABLE items (id int PRIMARY KEY, name varchar(20) CHARACTER SET utf16, short varchar(20) CHARACTER SET latin1,
            code varchar(20) CHARACTER SET ascii UNIQUE);
        CREATE TABLE given (id int, b varbinary(20), d date);
        INSERT INTO given VALUES (30, x'00610064006D0069006E', '2026-01-02'), (31, x'0061', NULL);";
    let database = TestDatabase::on(server, "bytes", script);
    let backend = database.mysql_backend().await;
    let gate = gate_unless(backend, database.name(), ADMITTED);
    let none = || json!(null);
    let refused = [
        "INSERT INTO items (id, name) SELECT id, b FROM given WHERE id = 30",
        "INSERT INTO items (id, name) SELECT id, CAST(b AS BINARY) FROM given",
        "INSERT INTO items (id, name) SELECT 1, x'00610064006D0069006E'",
        // What lacks of the first letter is 0.
        "INSERT INTO items (id, name) SELECT 1, x'610064006D0069006E'",
        "INSERT INTO items (id, name) SELECT 1, UNHEX('00610064006D0069006E')",
        "REPLACE INTO items (id, name) SELECT id, b FROM given WHERE id = 30",
        "INSERT INTO items (id, short) SELECT 1, x'E9'",
        "INSERT INTO items (id, short) SELECT 1, UNHEX('E9')",
        "INSERT INTO items (id, short) SELECT 1, 'é'",
        "INSERT INTO items (id, name) VALUES (1, x'00610064006D0069006E')",
        "INSERT INTO items (id, short) VALUES (1, x'E9')",
        "INSERT INTO items (id, short) VALUES (1, 'é')",
    ];
    let mut cases: Vec<Case> = refused.map(|sql| (sql, none(), REFUSED)).into();
    let added = [
        "INSERT INTO items (id, name) SELECT id, b FROM given WHERE id = 31",
        "INSERT INTO items (id, name) SELECT 1, 'é'",
        "INSERT INTO items (id, name, short) SELECT 2, 12, d FROM given WHERE id = 30",
        "INSERT INTO items (id, name, short) SELECT 3, now(), x'E8'",
        "INSERT INTO items (id, name, short) SELECT 4, NULL, 1.5e0",
        "INSERT INTO items (id, name, short) SELECT 5, concat('a', 'dmins'), CAST('€' AS CHAR)",
        "REPLACE INTO items (id, code) SELECT 6, x'61'",
    ];
    cases.extend(added.map(|sql| (sql, none(), Ok(1))));
    run(&gate, &cases).await;
    let kept = "SELECT id, hex(name), hex(short), code FROM items WHERE id IN (1, 3, 5, 6, 31) ORDER BY id";
    let kept = database.query(kept);
    let found: Vec<&str> = kept.split_whitespace().collect();
    let moment = found[5];
    assert_eq!(
        found,
        [
            "1",
            "00E9",
            "NULL",
            "NULL",
            "3",
            moment,
            "E8",
            "NULL",
            "5",
            "00610064006D0069006E0073",
            "80",
            "NULL",
            "6",
            "NULL",
            "NULL",
            "a",
            "31",
            "0061",
            "NULL",
            "NULL"
        ]
    );
    // What a column has no letters for is refused, and no others are put in their place.
    for sql in [
        "INSERT INTO items (id, name) SELECT 7, x'D800'",
        "INSERT INTO items (id, short) SELECT 7, '日本'",
    ] {
        let session = Session::new(Principal::new("Agent", "a"));
        let outcome = gate.execute(sql, &Params::None, &session).await;
        assert!(matches!(outcome, Outcome::Rejected(_)), "{sql}");
    }
}

#[tokio::test]
async fn on_mariadb_bytes_are_looked_at_as_the_column_reads_them() {
    of_columns(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn on_mysql_9_bytes_are_looked_at_as_the_column_reads_them() {
    of_columns(MySqlServer::start_shared().unwrap()).await;
}
