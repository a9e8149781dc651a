//! Comments, defaults and labels are told with the values of a column, and not without them.

use palisade::{
    firewall::VisibleRelation,
    guard::Backend,
    session::{Principal, Session},
};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::database::TestDatabase;

const POLICIES: &str = r#"
permit(principal, action, resource);
@mask("fixed(-)")
forbid(principal, action == Action::"read_plain", resource == Column::"SCHEMA.tasks.masked");
forbid(principal, action in Action::"read", resource == Column::"SCHEMA.tasks.gone");
"#;

/// What is told of the tables, and nothing that is withheld.
fn describe(backend: impl Backend, schema: &str) -> Vec<VisibleRelation> {
    let gate = changing_gate(backend, policy_sources(POLICIES.replace("SCHEMA", schema)));
    let session = Session::new(Principal::new("Agent", "a"));
    let relations = gate.firewall().relations(&session).unwrap();
    let told = serde_json::to_string(&relations).unwrap();
    assert!(!told.contains("withheld"), "{told}");
    relations
}

fn find<'r>(relations: &'r [VisibleRelation], name: &str) -> &'r VisibleRelation {
    relations.iter().find(|r| r.name == name).unwrap()
}

#[tokio::test]
async fn postgresql_tells_of_what_is_readable() {
    let script = "
        CREATE TYPE mood AS ENUM ('ok', 'sad'); CREATE TYPE hidden AS ENUM ('withheld-label');
        CREATE TABLE tasks (id int, mood mood DEFAULT 'ok', title text DEFAULT 'none', masked hidden DEFAULT 'withheld-label',
            gone text DEFAULT 'withheld-default');
        COMMENT ON TABLE tasks IS 'withheld: tasks with a column gone';
        COMMENT ON COLUMN tasks.title IS 'what to do';
        COMMENT ON COLUMN tasks.masked IS 'withheld-comment';
        COMMENT ON COLUMN tasks.gone IS 'withheld-comment';
        CREATE TABLE open (id int); COMMENT ON TABLE open IS 'for all';
        CREATE VIEW seen AS SELECT title, masked FROM tasks; COMMENT ON COLUMN seen.masked IS 'withheld-comment';
        CREATE MATERIALIZED VIEW stale AS SELECT title, masked FROM tasks;";
    let database = TestDatabase::postgres("described", script);
    let relations = describe(database.postgres_backend().await, "public");
    let tasks = find(&relations, "tasks");
    assert_eq!(tasks.comment, None);
    let [_, mood, title, masked] = tasks.columns.as_slice() else {
        panic!("{tasks:?}");
    };
    assert_eq!(mood.labels, Some(vec!["ok".to_owned(), "sad".to_owned()]));
    assert_eq!(title.comment.as_deref(), Some("what to do"));
    assert_eq!(title.default.as_deref(), Some("'none'"));
    assert!(masked.masked && masked.comment.is_none() && masked.labels.is_none());
    assert_eq!(find(&relations, "open").comment.as_deref(), Some("for all"));
    assert!(find(&relations, "seen").readable && !find(&relations, "stale").readable);
}

#[tokio::test]
async fn mariadb_tells_of_what_is_readable() {
    let script = "
        CREATE TABLE tasks (id int, title varchar(20) DEFAULT 'none' COMMENT 'what to do', masked text COMMENT 'withheld-comment',
            gone text COMMENT 'withheld-comment') COMMENT 'withheld: a column gone';
        CREATE TABLE open (id int) COMMENT 'for all';";
    let database = TestDatabase::mariadb("described", script);
    let relations = describe(database.mysql_backend().await, database.name());
    let title = &find(&relations, "tasks").columns[1];
    assert_eq!(title.comment.as_deref(), Some("what to do"));
    assert_eq!(title.default.as_deref(), Some("'none'"));
    assert_eq!(find(&relations, "tasks").comment, None);
    assert_eq!(find(&relations, "open").comment.as_deref(), Some("for all"));
}
