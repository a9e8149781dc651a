//! A schema that changes under a backend.

use palisade::guard::BackendErrorKind as Kind;
use palisade_testkit::{
    ask::Ask as _,
    servers::{MySqlServer, Server},
};

use super::Shop;

async fn changes(shop: &Shop) {
    assert!(shop.backend.refresh().await.unwrap().is_none());
    let query = "SELECT id FROM users UNION ALL SELECT id FROM names";
    for (change, back) in [
        (
            "ALTER TABLE users ADD COLUMN extra int",
            "ALTER TABLE users DROP COLUMN extra",
        ),
        (
            "ALTER TABLE users MODIFY name varchar(30)",
            "ALTER TABLE users MODIFY name varchar(20)",
        ),
        (
            "CREATE OR REPLACE VIEW names AS SELECT id, ssn AS name, ssn FROM users",
            "CREATE OR REPLACE VIEW names AS SELECT id, name, ssn FROM users",
        ),
        (
            "RENAME TABLE users TO elsewhere",
            "RENAME TABLE elsewhere TO users",
        ),
        // A view of the same columns.
        (
            "RENAME TABLE users TO elsewhere; CREATE VIEW users AS SELECT * FROM elsewhere",
            "DROP VIEW users; RENAME TABLE elsewhere TO users",
        ),
    ] {
        shop.query(query).run().await.unwrap();
        shop.ask(&format!("SET lock_wait_timeout = 5; {change}"));
        let error = shop.query(query).fails().await;
        assert_eq!(error.kind, Kind::SchemaChanged, "{change}: {error}");
        assert!(error.detail.contains("the schema changed"), "{error}");
        assert!(shop.backend.refresh().await.unwrap().is_some(), "{change}");
        shop.ask(&format!("SET lock_wait_timeout = 5; {back}"));
    }
    shop.query(query).run().await.unwrap();
    // What it does not read may change.
    shop.ask("ALTER TABLE secrets ADD COLUMN extra int");
    shop.query(query).run().await.unwrap();
}

#[tokio::test]
async fn no_statement_runs_on_another_schema() {
    changes(&Shop::new("schema").await).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn no_statement_runs_on_another_schema_of_mysql_9() {
    let server: &Server = MySqlServer::shared().unwrap();
    changes(&Shop::on(server, "schema", |config| config).await).await;
}
