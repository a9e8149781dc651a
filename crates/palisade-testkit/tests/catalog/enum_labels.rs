//! The labels of MySQL's ENUM and SET are values, and are told only with the values of a column.

use palisade::{
    guard::{Guard, Outcome},
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{
    fixture::policy_sources,
    live::changing_gate,
    servers::{MariaDbServer, MySqlServer, Server},
};

use crate::database::TestDatabase;

const SCRIPT: &str = "
CREATE TABLE moods (id int PRIMARY KEY, mood enum('canary-a','b'), marks set('canary-x','y'), shown enum('plain','c'));
INSERT INTO moods VALUES (1, 'b', 'y', 'c');
CREATE VIEW seen AS SELECT id, mood, shown FROM moods;
";

const POLICIES: &str = r#"
permit(principal, action, resource);
@mask("fixed(-)")
forbid(principal, action == Action::"read_plain", resource == Column::"SCHEMA.moods.mood");
@mask("null")
forbid(principal, action == Action::"read_plain", resource == Column::"SCHEMA.moods.marks");
"#;

async fn are_not_told(server: &'static Server) {
    let database = TestDatabase::on(server, "labels", SCRIPT);
    let backend = database.mysql_backend().await;
    let policies = policy_sources(POLICIES.replace("SCHEMA", database.name()));
    let gate: Guard = changing_gate(backend, policies);
    let session = Session::new(Principal::new("Agent", "a"));
    let relations = gate.firewall().relations(&session).unwrap();
    let described = serde_json::to_string(&relations).unwrap();
    assert!(!described.contains("canary"), "{described}");
    assert!(described.contains("enum('plain','c')"), "{described}");
    for sql in [
        "SELECT mood, marks, shown FROM moods",
        "SELECT * FROM seen",
        "WITH m AS (SELECT mood AS m, shown FROM moods) SELECT * FROM m",
    ] {
        let outcome = gate.execute(sql, &Params::None, &session).await;
        let Outcome::Rows(envelope) = outcome else {
            panic!("{sql}");
        };
        let answer = serde_json::to_string(&envelope).unwrap();
        assert!(!answer.contains("canary"), "{sql}: {answer}");
    }
}

#[tokio::test]
async fn labels_of_what_is_masked_are_not_told_on_mariadb() {
    are_not_told(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn labels_of_what_is_masked_are_not_told_on_mysql_9() {
    are_not_told(MySqlServer::start_shared().unwrap()).await;
}
