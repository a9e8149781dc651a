//! Literals of MySQL and MariaDB mean through the gate what they mean to the server.

use palisade::{
    guard::Outcome,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{
    fixture::policy_sources,
    live::changing_gate,
    servers::{MariaDbServer, MySqlServer, Server},
};

use crate::database::TestDatabase;

const THINGS: &str = "
CREATE TABLE things (id int PRIMARY KEY, n int, s varchar(20), b varbinary(20));
INSERT INTO things VALUES (1, 10, 'A', 'A'), (2, 20, 'B', 'B'), (141, 0, '1', '1');
";

/// Numbers and bytes where each is asked for. MariaDB takes `0x10` for a number among numbers, and `x'10'` for a text always.
const CONDITIONS: &[&str] = &[
    "id = 0x01",
    "id = x'01'",
    "id + 0x01 = 142",
    "id + x'01' = 142",
    "id IN (0x02, 0x8d)",
    "id BETWEEN 0x01 AND 0x8c",
    "s = 0x41",
    "s = x'41'",
    "b = 0x42",
    "0x0a = 10",
    "x'0a' = 10",
    "id = (0xff & 0x0f) - 14",
    "id = CAST(0x02 AS UNSIGNED)",
    "id = -0x1 + 2",
    "id = 0b10",
    "id = b'10'",
    "s = concat(0x41)",
    "hex(0xfff) = '0FFF' AND id = 1",
    "id = 0x1",
    "s = (SELECT 0x41)",
    "n = CASE WHEN id = 1 THEN 0x0a ELSE 0x14 END",
];

/// Changes, whose rows are compared.
const CHANGES: &[&str] = &[
    "UPDATE things SET n = n + 0x05 WHERE id = 0x01",
    "INSERT INTO things VALUES (0x03, 0x1F, 0x41, 0x41)",
    "INSERT IGNORE INTO things (id, n) VALUES (4, 0x2329)",
    "INSERT INTO things (id, n) SELECT 5, 0x31",
    "UPDATE things SET n = b'101', b = x'00ff' WHERE id = 2",
    "DELETE FROM things WHERE id = 0x02",
];

async fn literals_keep_their_meaning(server: &'static Server) {
    let [bare, gated] =
        ["literals_bare", "literals_gated"].map(|label| TestDatabase::on(server, label, THINGS));
    let backend = gated.mysql_backend().await;
    let gate = changing_gate(
        backend,
        policy_sources("permit(principal, action, resource);"),
    );
    let session = Session::new(Principal::new("Agent", "a"));
    let ask = async |sql: &str| gate.execute(sql, &Params::None, &session).await;
    for condition in CONDITIONS {
        let sql = format!("SELECT count(*) AS n FROM things WHERE {condition}");
        let expected = bare.query(&sql);
        let Outcome::Rows(envelope) = ask(&sql).await else {
            panic!("{sql}")
        };
        let answer = serde_json::to_value(&envelope).unwrap();
        let count = expected.lines().last().unwrap().trim();
        let found = answer.pointer("/rows/0/n").unwrap().to_string();
        assert_eq!(found.trim_matches('"'), count, "{sql}");
    }
    let rows = |database: &TestDatabase<'_>| {
        let all = "SELECT id, n, s, hex(b) FROM things ORDER BY id";
        database.query(all)
    };
    for sql in CHANGES {
        bare.query(sql);
        match ask(sql).await.into_result() {
            Ok(_) => {}
            Err(refusal) => panic!("{sql}: {}", refusal.rejection),
        }
        assert_eq!(rows(&gated), rows(&bare), "{sql}");
    }
}

#[tokio::test]
async fn literals_keep_their_meaning_on_mariadb() {
    literals_keep_their_meaning(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn literals_keep_their_meaning_on_mysql_9() {
    literals_keep_their_meaning(MySqlServer::start_shared().unwrap()).await;
}
