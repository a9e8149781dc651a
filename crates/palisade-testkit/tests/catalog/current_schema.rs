//! Whether a catalog is still that of its database: rows do not count, and another schema is noticed.

use palisade::guard::Backend;
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_testkit::servers::MariaDbServer;

use crate::database::{TestDatabase, TestFile};

const SCRIPT: &str = "CREATE TABLE things (id int PRIMARY KEY); INSERT INTO things VALUES (1);";

async fn follows(backend: impl Backend, run: impl Fn(&str)) {
    // MySQL's is read with the first question.
    assert!(backend.refreshed().await.unwrap().is_none());
    assert!(backend.is_current().await.unwrap());
    run("INSERT INTO things VALUES (2)");
    assert!(backend.is_current().await.unwrap());
    run("CREATE TABLE others (id int PRIMARY KEY)");
    assert!(!backend.is_current().await.unwrap());
    let renewed = backend.refreshed().await.unwrap().unwrap();
    assert!(renewed.refreshed().await.unwrap().is_none());
    assert!(renewed.is_current().await.unwrap());
    let relations = renewed.catalog().relations();
    assert!(relations.iter().any(|relation| relation.name == "others"));
}

#[tokio::test]
async fn another_schema_of_sqlite_is_noticed() {
    let file = TestFile::new(SCRIPT);
    follows(file.backend(), |sql| {
        file.open_bare().execute_batch(sql).unwrap()
    })
    .await;
}

#[tokio::test]
async fn another_schema_of_postgres_is_noticed() {
    let database = TestDatabase::postgres("current", SCRIPT);
    follows(database.postgres_backend().await, |sql| database.load(sql)).await;
}

#[tokio::test]
async fn another_schema_of_mariadb_is_noticed() {
    let server = MariaDbServer::start_shared().unwrap();
    let database = TestDatabase::on(server, "current", SCRIPT);
    // An account that sees no other database: other tests make theirs meanwhile.
    let account = format!("agent_{database}");
    database.load(&format!(
        "CREATE USER {account}@'127.0.0.1'; GRANT SELECT, SHOW VIEW ON `{database}`.* TO {account}@'127.0.0.1';"
    ));
    let config = MysqlConfig::from_url(&database.url_as(&account)).unwrap();
    let backend = MysqlBackend::connect(config).await.unwrap();
    follows(backend, |sql| database.load(sql)).await;
}
