//! Masked text beside text of other character sets and collations, on MySQL and MariaDB.

use palisade::{
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::servers::{MariaDbServer, MySqlServer, Server};

use super::{Typed, firewall, guard_over, policies, script};
use crate::database::TestDatabase;

/// Text of every kind that a query can combine with what a mask made.
const TEXTS: &[Typed] = &[
    ("int", "12345"),
    ("varchar(20) CHARACTER SET latin1", "'\u{e9}t\u{e9}s'"),
    (
        "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
        "'\u{1f600}ann@mail.example'",
    ),
    ("varchar(20) CHARACTER SET latin2", "'\u{10d}'"),
    ("varchar(20) CHARACTER SET utf8mb3", "'\u{20ac}'"),
    (
        "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "'\u{1f600}'",
    ),
    (
        "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "'\u{1f600}'",
    ),
    ("varbinary(20)", "'b'"),
];

/// What masks make goes with text of every character set and collation, to either side of it: that the server raises
/// where it is combined with another column would be the mask's doing.
async fn go_with_other_text(server: &Server) {
    let database = TestDatabase::on(server, "texts", &script(TEXTS));
    let backend = database.mysql_reader().await;
    let mut combined = 0;
    for mask in [
        "fixed(***)",
        "fixed(\u{e9}\u{20ac})",
        "first(2)",
        "last(2)",
        "email",
        "expr(lower(value))",
        "hash",
        "token",
    ] {
        for (hidden, (hidden_type, _)) in TEXTS.iter().enumerate().take(3) {
            let policies = policies(mask, database.name(), &[hidden]);
            // An e-mail address is no number.
            let Ok(firewall) = firewall(&backend, policies) else {
                continue;
            };
            let guard = guard_over(firewall, backend.clone());
            for plain in (0..TEXTS.len()).filter(|plain| *plain != hidden) {
                let columns = format!("c{hidden} AS hidden, c{plain} AS plain");
                // Both as what the server may take apart, and as what it keeps in a table of its own.
                for limit in ["", " LIMIT 9"] {
                    let from = format!("FROM (SELECT {columns} FROM t{limit}) AS x");
                    for sql in [
                        format!("SELECT hidden {from} UNION ALL SELECT plain {from}"),
                        format!("SELECT plain {from} UNION ALL SELECT hidden {from}"),
                        format!(
                            "SELECT CASE WHEN plain IS NULL THEN hidden ELSE plain END AS c {from}"
                        ),
                        format!("SELECT coalesce(plain, hidden) AS c {from}"),
                        format!("SELECT concat(plain, hidden) AS c {from}"),
                    ] {
                        let session = Session::new(Principal::new("Agent", "a"));
                        match guard
                            .query(&sql, &Params::None, &session)
                            .await
                            .into_result()
                        {
                            Ok(_) => combined += 1,
                            Err(refusal) => panic!(
                                "{mask} of {hidden_type}: {sql}: {} {:?}",
                                refusal.rejection,
                                refusal.rejection.operator_detail()
                            ),
                        }
                    }
                }
            }
        }
    }
    assert!(combined > 1000, "{combined}");
}

#[tokio::test]
async fn masks_go_with_other_text_on_mariadb() {
    go_with_other_text(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn masks_go_with_other_text_on_mysql_9() {
    go_with_other_text(MySqlServer::start_shared().unwrap()).await;
}
