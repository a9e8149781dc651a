//! Changes of the schema between the decision and the execution.

use std::time::{Duration, Instant};

use palisade::{guard::BackendErrorKind as Kind, value::Value};
use palisade_testkit::ask::Ask as _;

use super::Shop;
use crate::{PostgresBackend, PostgresConfig};

#[tokio::test]
async fn a_schema_that_changed_stops_what_reads_it() {
    let check = async |label: &str, ddl: &str, sql: &str| {
        let shop = Shop::new(label).await;
        let mut query = shop.query(sql);
        query.functions = ["app.twice", "pg_catalog.lower"].map(str::to_owned).into();
        query.run().await.unwrap();
        shop.ask(ddl);
        let error = query.fails().await;
        assert_eq!(
            (error.kind, error.detail.as_str()),
            (Kind::SchemaChanged, "the schema changed"),
            "{ddl}"
        );
        let refreshed = shop
            .backend
            .refresh()
            .await
            .unwrap()
            .unwrap_or_else(|| panic!("{ddl}"));
        assert!(refreshed.refresh().await.unwrap().is_none(), "{ddl}");
        // The old value stays refused: what was checked against its catalog must not run.
        assert_eq!(query.fails().await.kind, Kind::SchemaChanged);
        query.backend = refreshed;
        query.run().await.unwrap();
    };
    let (users, names) = ("SELECT id FROM app.users", "SELECT name FROM app.names");
    // The view's name column now holds what was hidden.
    check(
        "ddl_view",
        "CREATE OR REPLACE VIEW app.names AS SELECT id, ssn AS name, name AS ssn FROM app.users",
        names,
    )
    .await;
    check(
        "ddl_add",
        "ALTER TABLE app.users ADD COLUMN more text",
        users,
    )
    .await;
    check("ddl_rename", "ALTER TABLE app.users RENAME COLUMN name TO was; ALTER TABLE app.users RENAME COLUMN ssn TO name; ALTER TABLE app.users RENAME COLUMN was TO ssn", users).await;
    check("ddl_swap", "ALTER TABLE app.users RENAME TO old; ALTER TABLE hr.users RENAME TO users2; ALTER TABLE hr.users2 SET SCHEMA app; ALTER TABLE app.users2 RENAME TO users; GRANT SELECT ON app.users TO PUBLIC", users).await;
    check("ddl_parent", "CREATE TABLE app.parent (id int NOT NULL, name text); ALTER TABLE app.users INHERIT app.parent", users).await;
    check(
        "ddl_function",
        "CREATE OR REPLACE FUNCTION app.twice(int) RETURNS int LANGUAGE sql AS 'SELECT 3 * $1'",
        users,
    )
    .await;
    check(
        "ddl_overload",
        "CREATE FUNCTION app.twice(text) RETURNS text LANGUAGE sql AS 'SELECT $1'",
        users,
    )
    .await;
    check(
        "ddl_operator",
        "CREATE OPERATOR app.=== (leftarg = int, rightarg = int, function = pg_catalog.int4eq)",
        users,
    )
    .await;
    check(
        "ddl_trigger",
        "CREATE FUNCTION app.fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER t AFTER DELETE ON app.users EXECUTE FUNCTION app.fires()",
        users,
    )
    .await;
    check(
        "ddl_rule",
        "CREATE RULE r AS ON DELETE TO app.users DO INSTEAD NOTHING",
        users,
    )
    .await;
    check(
        "ddl_partition",
        "CREATE TABLE app.child () INHERITS (app.users)",
        users,
    )
    .await;
    check("ddl_cast", "CREATE CAST (int4 AS date) WITH INOUT", users).await;
    check(
        "ddl_domain",
        "CREATE DOMAIN app.odd AS int CHECK (app.twice(value) > 0)",
        users,
    )
    .await;
}

/// The rows are asked for together with the look: the server goes no further than the look.
#[tokio::test]
async fn what_changed_does_not_run() {
    let shop = Shop::with("unrun", |config| config.connections(1, 1)).await;
    let query = shop.query("SELECT name FROM app.names");
    for _ in 0..3 {
        query.run().await.unwrap();
    }
    shop.ask(
        "CREATE OR REPLACE VIEW app.names AS SELECT id, name || pg_sleep(3)::text AS name, ssn FROM app.users",
    );
    let began = Instant::now();
    let error = query.fails().await;
    assert_eq!(error.detail, "the schema changed");
    assert!(began.elapsed() < Duration::from_secs(2), "{began:?}");
    // The session is as good as before.
    let mut other = shop.query("SELECT 1");
    other.relations.clear();
    other.run().await.unwrap();
    let mut renewed = query.clone();
    renewed.backend = shop.backend.refresh().await.unwrap().unwrap();
    let began = Instant::now();
    renewed.run().await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(2), "{began:?}");
}

/// The driver asks the server for a type of the database's own when a statement is prepared, while the statement runs.
#[tokio::test]
async fn a_type_is_looked_up_beside_a_look_that_is_out_of_date() {
    let server = super::start();
    server.create_database("shop").unwrap();
    let script = format!(
        "{}CREATE TYPE app.state AS ENUM ('new', 'done'); CREATE TYPE app.kind AS ENUM ('a'); \
         ALTER TABLE app.users ADD state app.state DEFAULT 'new', ADD kind app.kind DEFAULT 'a'",
        super::SHOP
    );
    server.load("shop", &script).unwrap().clean().unwrap();
    let config = PostgresConfig::from_url(&server.url("shop")).unwrap();
    let config = config.accept_superuser().connections(1, 1);
    let backend = PostgresBackend::connect(config).await.unwrap();
    let shop = Shop {
        backend,
        ..Shop::new("typed").await
    };
    for _ in 0..3 {
        shop.query("SELECT id FROM app.users").run().await.unwrap();
    }
    server
        .query("shop", "INSERT INTO hr.users VALUES (2, '')")
        .unwrap();
    let state = shop.query("SELECT coalesce(state) FROM app.users WHERE id = 1");
    assert_eq!(state.cell().await, Value::text("new"));
    // What fails while it runs is told, and not that the type could not be looked up behind it.
    for _ in 0..3 {
        shop.query("SELECT id FROM app.users").run().await.unwrap();
    }
    let failing = shop.query("SELECT coalesce(kind) FROM app.users WHERE 1 / (id - id) = 1");
    assert_eq!(failing.fails().await.detail, "22012 division by zero");
}

#[tokio::test]
async fn a_relation_that_is_gone_stops_what_reads_it() {
    let shop = Shop::new("gone").await;
    shop.ask("DROP TABLE app.users CASCADE");
    // The server does not find the name; that the schema changed is for a look to confirm.
    for (sql, kind) in [
        ("SELECT 1", Kind::SchemaChanged),
        ("SELECT id FROM app.users", Kind::NameNotFound),
    ] {
        let error = shop.query(sql).fails().await;
        assert_eq!(error.kind, kind, "{error}");
    }
    let refreshed = shop.backend.refresh().await.unwrap().unwrap();
    assert!(refreshed.catalog().find("app", "users").is_none());
}

/// What a change of rows sets off, in both directions, and on both tables of a foreign key.
#[tokio::test]
async fn triggers_and_foreign_keys_that_change_are_noticed() {
    let mut shop = Shop::new("armed").await;
    for ddl in [
        "CREATE FUNCTION app.fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER t AFTER DELETE ON app.users FOR EACH ROW EXECUTE FUNCTION app.fires()",
        "ALTER TABLE app.users DISABLE TRIGGER t",
        "ALTER TABLE app.users ENABLE TRIGGER t",
        "ALTER FUNCTION app.fires() RENAME TO fired",
        "DROP TRIGGER t ON app.users; CREATE TRIGGER t BEFORE INSERT ON app.users FOR EACH ROW EXECUTE FUNCTION app.fired()",
        "DROP TRIGGER t ON app.users",
        "ALTER TABLE app.users ADD CONSTRAINT users_id_key UNIQUE (id); \
         CREATE TABLE app.child (a int CONSTRAINT k REFERENCES app.users (id))",
        "ALTER TABLE app.child DROP CONSTRAINT k, ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES app.users (id) ON DELETE CASCADE",
        "ALTER TABLE app.child DROP CONSTRAINT k, ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES app.users (id) ON UPDATE SET NULL",
        "DROP TABLE app.child",
    ] {
        let query = shop.query("SELECT id FROM app.users");
        query.run().await.unwrap();
        shop.ask(ddl);
        let error = query.fails().await;
        assert_eq!(error.detail, "the schema changed", "{ddl}");
        shop.backend = shop.backend.refresh().await.unwrap().expect(ddl);
    }
}

#[tokio::test]
async fn what_does_not_matter_changes_nothing() {
    let shop = Shop::new("harmless").await;
    let query = shop.query("SELECT id FROM app.users");
    shop.ask("INSERT INTO app.users VALUES (5)");
    for ddl in [
        "VACUUM FULL ANALYZE app.users",
        "CREATE INDEX ON app.users (name)",
        "GRANT SELECT ON app.users TO PUBLIC",
        "REFRESH MATERIALIZED VIEW app.cached",
        "CREATE TABLE app.other (a int)",
        "CREATE FUNCTION app.other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "VACUUM FREEZE",
    ] {
        shop.ask(ddl);
        query.run().await.unwrap();
    }
}

#[tokio::test]
async fn relations_that_were_never_there() {
    let shop = Shop::new("never").await;
    let mut query = shop.query("SELECT 1");
    query.relations.push("app.nosuch".to_owned());
    assert_eq!(query.fails().await.kind, Kind::SecondLock);
}

/// Planning the look takes several times as long as looking.
#[tokio::test]
async fn the_look_at_the_schema_is_planned_once() {
    let shop = Shop::with("planned", |config| config.connections(1, 8)).await;
    for _ in 0..8 {
        shop.query("SELECT id FROM app.users").run().await.unwrap();
    }
    let plans = shop
        .query(
            "SELECT sum(custom_plans) = 0 AND sum(generic_plans) >= 8 FROM pg_prepared_statements",
        )
        .cell()
        .await;
    assert_eq!(plans, Value::Bool(true));
    // What a statement's own functions are planned by is the server's setting.
    let mode = shop
        .query("SELECT current_setting('plan_cache_mode')")
        .cell()
        .await;
    assert_eq!(mode, Value::text("auto"));
}

/// On a server to which no other test writes. Other tests' writing has the marks looked at each time.
#[tokio::test]
async fn marks_are_looked_at_again_when_somebody_has_written() {
    let server = super::start();
    server.create_database("shop").unwrap();
    let loaded = server.load("shop", super::SHOP).unwrap();
    loaded.clean().unwrap();
    let ask = |sql: &str| server.query("shop", sql).unwrap();
    let config = PostgresConfig::from_url(&server.url("shop")).unwrap();
    let config = config.accept_superuser().connections(1, 1);
    let backend = PostgresBackend::connect(config).await.unwrap();
    let shop = Shop {
        backend,
        ..Shop::new("quiet").await
    };
    let mut query = shop.query(
        "SELECT sum(generic_plans)::int FROM pg_prepared_statements WHERE statement LIKE '%pg_trigg' || 'er t%'",
    );
    query.functions = ["app.twice".to_owned()].into();
    let looks = async |query: &super::Query| match query.cell().await {
        Value::Integer(looks) => looks,
        other => panic!("{other:?}"),
    };
    // Counted in the session that looks: the first prepares it, the third need not look.
    for expected in [1, 2, 2, 2] {
        assert_eq!(looks(&query).await, expected);
    }
    // What was not among what was looked at.
    let mut other = query.clone();
    other.functions.insert("app.writes".to_owned());
    for (query, expected) in [(&other, 3), (&other, 3), (&query, 3)] {
        assert_eq!(looks(query).await, expected);
    }
    // Whatever is written, and wherever: it is looked at until that is over.
    ask("INSERT INTO hr.users VALUES (2, '')");
    for expected in [4, 5, 5] {
        assert_eq!(looks(&query).await, expected);
    }
    // Somebody who has begun and not ended changes nothing yet, before somebody else's end and after it.
    let writer = crate::connect(&server.url("shop")).await.unwrap();
    writer
        .batch_execute("BEGIN; CREATE OR REPLACE FUNCTION app.twice(int) RETURNS int LANGUAGE sql AS 'SELECT 3 * $1'")
        .await
        .unwrap();
    assert_eq!(looks(&query).await, 5);
    ask("INSERT INTO hr.users VALUES (3, '')");
    for expected in [6, 7, 7] {
        assert_eq!(looks(&query).await, expected);
    }
    writer.batch_execute("COMMIT").await.unwrap();
    for _ in 0..4 {
        let error = query.fails().await;
        assert_eq!(error.detail, "the schema changed");
    }
}
