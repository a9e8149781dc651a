//! A grant that the account lacks for a change is the operator's mistake, and told as that.

use palisade::{
    code::Code,
    guard::Guard,
    session::{Principal, Session},
    value::Params,
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::database::TestDatabase;

const TABLES: &str =
    "CREATE TABLE notes (id SERIAL_KEY, body varchar(20)); INSERT INTO notes (body) VALUES ('x');";

const POLICIES: &str = "permit (principal, action, resource);";

async fn require_told(guard: &Guard, sql: &str, grant: &str) {
    let session = Session::new(Principal::new("Agent", "a"));
    let told = guard.execute(sql, &Params::None, &session).await;
    let why = told.into_result().unwrap_err();
    assert_eq!(
        why.rejection.code(),
        Code::DatabaseNotGranted,
        "{sql}: {why:?}"
    );
    assert!(why.incident.is_some(), "{sql}");
    assert!(!why.rejection.message().contains("notes"), "{sql}");
    let detail = why.rejection.operator_detail().unwrap_or_default();
    assert!(detail.contains(grant), "{sql}: {detail}");
}

#[tokio::test]
async fn what_a_change_lacks_is_told_on_postgres() {
    let script = TABLES.replace("SERIAL_KEY", "serial PRIMARY KEY");
    let database = TestDatabase::postgres("missing_grants", &script);
    let role = format!("reads_{}", database.name());
    database.load(&format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT ON notes TO {role}; REVOKE CREATE ON SCHEMA public FROM PUBLIC;"
    ));
    let config = PostgresConfig::from_url(&database.url_as(&role)).unwrap();
    let backend = PostgresBackend::connect(config.writable()).await.unwrap();
    let guard = changing_gate(backend, policy_sources(POLICIES));
    for (sql, grant) in [
        (
            "UPDATE notes SET body = 'y' WHERE id = 1",
            "GRANT UPDATE (\"body\") ON public.notes TO",
        ),
        (
            "INSERT INTO notes (id, body) VALUES (5, 'y')",
            "GRANT INSERT ON public.notes TO",
        ),
        (
            "DELETE FROM notes WHERE id = 1",
            "GRANT DELETE ON public.notes TO",
        ),
        ("TRUNCATE notes", "GRANT TRUNCATE ON \"notes\" TO"),
        (
            "CREATE TABLE more (id integer)",
            "GRANT CREATE ON SCHEMA \"public\" TO",
        ),
    ] {
        require_told(&guard, sql, grant).await;
    }
    database.load(&format!("GRANT INSERT ON notes TO {role};"));
    let sequence = "GRANT USAGE ON SEQUENCE \"notes_id_seq\" TO";
    require_told(&guard, "INSERT INTO notes (body) VALUES ('y')", sequence).await;
}

#[tokio::test]
async fn what_a_change_lacks_is_told_on_mariadb() {
    let script = TABLES.replace("SERIAL_KEY", "integer PRIMARY KEY AUTO_INCREMENT");
    let database = TestDatabase::mariadb("missing_grants", &script);
    let role = format!("reads_{}", database.name());
    database.load(&format!(
        "CREATE USER {role}; GRANT SELECT, TRIGGER ON `{}`.* TO {role};",
        database.name()
    ));
    let config = MysqlConfig::from_url(&database.url_as(&role)).unwrap();
    let backend = MysqlBackend::connect(config.writable()).await.unwrap();
    let guard = changing_gate(backend, policy_sources(POLICIES));
    for (sql, grant) in [
        (
            "UPDATE notes SET body = 'y' WHERE id = 1",
            "GRANT UPDATE ON",
        ),
        (
            "INSERT INTO notes (id, body) VALUES (5, 'y')",
            "GRANT INSERT ON",
        ),
        ("DELETE FROM notes WHERE id = 1", "GRANT DELETE ON"),
        ("TRUNCATE TABLE notes", "GRANT DROP ON"),
        ("CREATE TABLE more (id integer)", "GRANT CREATE ON"),
    ] {
        require_told(&guard, sql, grant).await;
    }
}
