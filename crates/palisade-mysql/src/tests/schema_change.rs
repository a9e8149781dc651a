//! A schema that changes under a backend.

use palisade::{guard::BackendErrorKind as Kind, value::Value};
use palisade_testkit::{
    ask::Ask as _,
    servers::{MySqlServer, Server},
};

use super::Shop;
use crate::{MysqlBackend, MysqlConfig};

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
            "ALTER TABLE users MODIFY name varchar(20) COLLATE utf8mb4_bin",
            "ALTER TABLE users MODIFY name varchar(20)",
        ),
        (
            "ALTER TABLE users MODIFY name varchar(20) NOT NULL",
            "ALTER TABLE users MODIFY name varchar(20)",
        ),
        (
            "ALTER TABLE users DROP COLUMN ssn, ADD ssn varchar(20) AS (CONCAT(name, '')) VIRTUAL",
            "ALTER TABLE users DROP COLUMN ssn, ADD ssn varchar(20)",
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
        // The second knows what the first found.
        for _ in 0..2 {
            shop.query(query).run().await.unwrap();
        }
        shop.ask(&format!("SET lock_wait_timeout = 5; {change}"));
        let error = shop.query(query).fails().await;
        assert_eq!(error.kind, Kind::SchemaChanged, "{change}: {error}");
        assert!(error.detail.contains("the schema changed"), "{error}");
        assert!(shop.backend.refresh().await.unwrap().is_some(), "{change}");
        shop.ask(&format!("SET lock_wait_timeout = 5; {back}"));
    }
    shop.query(query).run().await.unwrap();
    // What it does not read may change, and what is no matter of columns.
    for harmless in [
        "ALTER TABLE secrets ADD COLUMN extra int",
        "ALTER TABLE users COMMENT 'people'",
        "CREATE INDEX by_name ON users (name)",
        "INSERT INTO users VALUES (7, 'gil', '7-7')",
    ] {
        shop.ask(harmless);
        shop.query(query).run().await.unwrap();
    }
}

#[tokio::test]
async fn no_statement_runs_on_another_schema() {
    changes(&Shop::new("schema").await).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn no_statement_runs_on_another_schema_of_mysql_9() {
    let server: &Server = MySqlServer::start_shared().unwrap();
    changes(&Shop::on(server, "schema", |config| config).await).await;
}

/// How often this session was told of a table by the text that would make it.
const TEXTS: &str = "SELECT VARIABLE_VALUE + 0 AS n FROM information_schema.SESSION_STATUS \
                     WHERE VARIABLE_NAME = 'COM_SHOW_CREATE_TABLE'";

#[tokio::test]
async fn tables_are_known_by_their_text() {
    let shop = Shop::with("texts", |config| config.connections(1, 8)).await;
    let texts = async || {
        let mut query = shop.query(TEXTS);
        query.relations.retain(|uid| uid.ends_with(".users"));
        query.cell().await
    };
    let ask = |sql: &str| shop.ask(&format!("SET lock_wait_timeout = 5; {sql}"));
    // It is learnt, and then it is all that is asked; where it is another, it is learnt again.
    for (sql, expected) in [
        ("DO 0", 1.0),
        ("DO 0", 1.0),
        ("ALTER TABLE users COMMENT 'people'", 2.0),
        ("DO 0", 1.0),
    ] {
        ask(sql);
        assert_eq!(texts().await, Value::Real(expected), "{sql}");
    }
}

/// Of a table of which it may read some columns, the server shows an account no text.
#[tokio::test]
async fn tables_whose_text_is_not_told() {
    let shop = Shop::new("untold").await;
    let agent = format!("agent_{}@'127.0.0.1'", shop.database);
    let ask = |sql: &str| shop.ask(&format!("SET lock_wait_timeout = 5; {sql}"));
    // Rights on a database hold for the sessions that have begun; those on tables do not.
    ask(&format!(
        "REVOKE SELECT, SHOW VIEW ON `{}`.* FROM {agent}; GRANT SELECT ON users TO {agent}",
        shop.database
    ));
    let mut query = shop.query("SELECT id FROM users");
    query.relations.retain(|uid| uid.ends_with(".users"));
    let url = shop
        .server
        .url_as(&format!("agent_{}", shop.database), &shop.database);
    query.backend = MysqlBackend::connect(MysqlConfig::from_url(&url).unwrap())
        .await
        .unwrap();
    for _ in 0..3 {
        query.run().await.unwrap();
    }
    // It is told no more, and nor are the other columns.
    ask(&format!(
        "REVOKE SELECT ON users FROM {agent}; GRANT SELECT (id) ON users TO {agent}"
    ));
    let error = query.fails().await;
    assert_eq!(error.kind, Kind::SchemaChanged, "{error}");
    query.backend = query.backend.refresh().await.unwrap().unwrap();
    for _ in 0..3 {
        query.run().await.unwrap();
    }
    ask("ALTER TABLE users MODIFY id bigint");
    let error = query.fails().await;
    assert_eq!(error.kind, Kind::SchemaChanged, "{error}");
}

/// A session that was reset is set up by the text that asks, in which there are names already.
#[tokio::test]
async fn names_are_read_under_our_settings() {
    let shop = Shop::with("names", |config| config.connections(1, 8)).await;
    shop.ask(r"CREATE TABLE `Größe \' x` (`Länge` int); INSERT INTO `Größe \' x` VALUES (5)");
    let backend = shop.backend.refresh().await.unwrap().unwrap();
    let relation = backend
        .catalog()
        .find(&shop.database, r"Größe \' x")
        .unwrap();
    let query = super::Query {
        relations: vec![relation.uid.clone()],
        reads: [(relation.name.clone(), "länge".to_owned())].into(),
        backend: backend.clone(),
        ..shop.query(r"SELECT `Länge` + 0 FROM `Größe \' x`")
    };
    for _ in 0..3 {
        assert_eq!(query.cell().await, Value::Integer(5));
    }
}
