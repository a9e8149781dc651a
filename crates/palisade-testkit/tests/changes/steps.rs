//! Changes in steps, on every engine: what a preview shows is what is kept, and nothing else is kept.

use std::sync::Arc;

use palisade::{
    change::{ChangeState, ChangeStore},
    code::Code,
    dialect::Dialect,
    guard::{ChangeCall, ChangeProposal, ChangedRows, Guard, PreviewedChange, RowCounts},
    limits::Limits,
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};
use serde_json::Value;

use crate::{
    any_database::AnyDatabase,
    database::{TestDatabase, TestFile},
};

/// What the engines spell alike; `KEY` is a key that the engine gives, `NOW` a time that it gives.
const TABLES: &str = "
CREATE TABLE customers (id integer PRIMARY KEY, tenant varchar(9) NOT NULL, name varchar(20), ssn varchar(20), plan varchar(9));
CREATE TABLE orders (id KEY, customer integer, total integer, created_at NOW,
    FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE);
CREATE TABLE items (id KEY, order_id integer, what varchar(20),
    FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE);
CREATE TABLE loose (word varchar(9));
CREATE TABLE passes (id KEY, code CODE, created_at NOW, holder varchar(20));
INSERT INTO customers VALUES (1, 'a', 'Ada', 'SECRET-1', 'free'), (2, 'a', 'Bob', 'SECRET-2', 'free'), (3, 'b', 'Cyd', 'SECRET-3', 'free');
INSERT INTO orders (customer, total) VALUES (1, 10), (1, 20), (3, 30);
INSERT INTO items (order_id, what) VALUES (1, 'pen');
INSERT INTO loose VALUES ('x'), ('x');
";

const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action == Action::"see", resource is row::SCHEMA::customers)
  when { principal != User::"boss" && resource.tenant == "b" };
forbid (principal, action == Action::"read_plain", resource == Column::"SCHEMA.customers.ssn")
  when { principal != User::"boss" };
@approval("required")
permit (principal == Agent::"careful", action == Action::"insert", resource);
"#;

struct Desk {
    guard: Guard,
    database: AnyDatabase,
    schema: String,
}

impl Desk {
    async fn sqlite() -> Self {
        let script = script(
            "INTEGER PRIMARY KEY AUTOINCREMENT",
            "text DEFAULT CURRENT_TIMESTAMP",
            "text DEFAULT (hex(randomblob(8)))",
        );
        let file = TestFile::new(&script);
        let gate = changing_gate(file.backend(), policies("main", ""));
        Self::new(gate, AnyDatabase::File(file), "main".to_owned())
    }

    /// After `more` statements, with policies that permit to set off the trigger `sets_off` too.
    async fn postgres(more: &str, sets_off: &str) -> Self {
        let script = script(
            "serial PRIMARY KEY",
            "timestamptz DEFAULT now()",
            "uuid DEFAULT gen_random_uuid()",
        ) + more;
        let database = TestDatabase::postgres("steps", &script);
        let policies = policies("public", sets_off);
        let gate = changing_gate(database.postgres_backend().await, policies);
        Self::new(gate, AnyDatabase::Server(database), "public".to_owned())
    }

    /// As [`Desk::postgres`].
    async fn mariadb(more: &str, sets_off: &str) -> Self {
        Self::mysql(TestDatabase::mariadb, more, sets_off).await
    }

    /// As [`Desk::postgres`], in a database that `make` makes.
    async fn mysql(
        make: impl Fn(&str, &str) -> TestDatabase<'static>,
        more: &str,
        sets_off: &str,
    ) -> Self {
        let script = script(
            "integer PRIMARY KEY AUTO_INCREMENT",
            "datetime(6) DEFAULT CURRENT_TIMESTAMP(6)",
            "varchar(40) DEFAULT (uuid())",
        ) + more;
        let database = make("steps", &script);
        let schema = database.name().to_owned();
        let policies = policies(&schema, sets_off);
        let gate = changing_gate(database.mysql_backend().await, policies);
        Self::new(gate, AnyDatabase::Server(database), schema)
    }

    fn new(gate: Guard, database: AnyDatabase, schema: String) -> Self {
        let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
        Self {
            guard: gate.with_changes(store as Arc<dyn ChangeStore>),
            database,
            schema,
        }
    }

    /// Changes the database beside the firewall.
    fn run(&self, sql: &str) {
        self.database.run(sql);
    }

    /// One value of the database.
    fn value(&self, sql: &str) -> String {
        self.database.value(sql)
    }

    async fn propose(&self, session: &Session, statements: &[&str]) -> String {
        let statements: Vec<(String, Params)> = statements
            .iter()
            .map(|sql| ((*sql).to_owned(), Params::None))
            .collect();
        let call = ChangeCall::new(session);
        let proposed = self
            .guard
            .propose_change(ChangeProposal::new(&statements), call)
            .await;
        proposed.unwrap_or_else(|why| panic!("{why:?}")).change
    }

    async fn validate(&self, session: &Session, id: &str) -> PreviewedChange {
        let looked = self
            .guard
            .validate_change(id, ChangeCall::new(session))
            .await;
        looked.unwrap_or_else(|why| panic!("{why:?}"))
    }

    async fn refusal_of_validation(
        &self,
        session: &Session,
        statements: &[&str],
    ) -> (Code, String) {
        let id = self.propose(session, statements).await;
        let refused = self
            .guard
            .validate_change(&id, ChangeCall::new(session))
            .await;
        let why = refused.unwrap_err().rejection;
        (
            why.code(),
            format!("{} {:?}", why.message(), why.operator_detail()),
        )
    }

    async fn commit(&self, session: &Session, id: &str) -> Result<ChangeState, Code> {
        let kept = self.guard.commit_change(id, ChangeCall::new(session)).await;
        kept.map(|view| view.state).map_err(|why| {
            let why = why.rejection;
            eprintln!("{:?} {:?}", why.message(), why.operator_detail());
            why.code()
        })
    }
}

fn script(key: &str, now: &str, code: &str) -> String {
    TABLES
        .replace("code CODE", &format!("code {code}"))
        .replace("id KEY", &format!("id {key}"))
        .replace("created_at NOW", &format!("created_at {now}"))
}

fn policies(schema: &str, sets_off: &str) -> PolicySources {
    let more = match sets_off {
        "" => String::new(),
        name => format!(
            "permit (principal, action == Action::\"call\", resource == Function::\"SCHEMA.{name}\");"
        ),
    };
    policy_sources(format!("{POLICIES}{more}").replace("SCHEMA", schema))
}

fn agent() -> Session {
    Session::new(Principal::new("Agent", "bot"))
}

fn boss() -> Session {
    Session::new(Principal::new("User", "boss"))
}

/// The cells that are different: table without its schema, key, change, column, before, after.
fn cells(looked: &PreviewedChange) -> Vec<String> {
    let rows = serde_json::to_value(&looked.preview.as_ref().unwrap().rows).unwrap();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let names = ["table", "key", "change", "column", "before", "after"];
    let line = |row: &Value| {
        let cells = names.map(|name| text(&row[name]));
        let table = cells[0].rsplit('.').next().unwrap().to_owned();
        format!("{table} | {}", cells[1..].join(" | "))
    };
    rows["rows"].as_array().unwrap().iter().map(line).collect()
}

fn assert_cells(looked: &PreviewedChange, expected: &[&str]) {
    let cells = cells(looked);
    for one in expected {
        assert!(cells.iter().any(|cell| cell == one), "{one}: {cells:#?}");
    }
}

const CONTENTS: &str = "SELECT count(*) * 1000000 + coalesce(sum(total), 0) FROM orders";

/// What a change does is shown with what foreign keys do, and only that is kept.
async fn shows_and_keeps(desk: &Desk) {
    let statements = [
        "DELETE FROM customers WHERE id = 1",
        "UPDATE customers SET plan = 'pro' WHERE id = 2",
        "INSERT INTO loose VALUES ('z')",
        "DELETE FROM loose WHERE word = 'x'",
    ];
    let contents = desk.value(CONTENTS);
    let id = desk.propose(&boss(), &statements).await;
    let looked = desk.validate(&boss(), &id).await;
    assert_cells(
        &looked,
        &[
            "customers | id=1 | delete | ssn | SECRET-1 | null",
            "orders | id=1 | delete | total | 10 | null",
            "orders | id=2 | delete | total | 20 | null",
            "items | id=1 | delete | what | pen | null",
            "customers | id=2 | update | plan | free | pro",
        ],
    );
    let preview = looked.preview.unwrap();
    let expected = RowCounts {
        inserted: 0,
        updated: 1,
        deleted: 4,
    };
    assert_eq!(preview.row_counts, expected);
    // SQLite has one writer.
    let is_file = matches!(desk.database, AnyDatabase::File(_));
    assert_eq!(preview.lock_held_ms.is_some(), is_file);
    let counted = (format!("{}.loose", desk.schema), ChangedRows::Count(3));
    assert_eq!(preview.counted, [counted]);
    assert_eq!(looked.view.affected_rows, Some(vec![1, 1, 1, 2]));
    assert_eq!(desk.value(CONTENTS), contents);
    let keep = async || {
        let kept = desk
            .guard
            .commit_change(&id, ChangeCall::new(&boss()))
            .await;
        kept.unwrap_or_else(|why| panic!("{why:?}"))
            .receipt
            .unwrap()
    };
    let receipt = keep().await;
    let mut counts: Vec<(String, u64, u64, u64)> = receipt
        .tables
        .iter()
        .map(|one| (one.table.clone(), one.inserted, one.updated, one.deleted))
        .collect();
    counts.sort();
    let expected = [
        ("customers", 0, 1, 1),
        ("items", 0, 0, 1),
        ("loose", 1, 0, 2),
        ("orders", 0, 0, 2),
    ];
    assert_eq!(
        counts,
        expected.map(|(table, new, other, gone)| (table.to_owned(), new, other, gone))
    );
    // The same again, and nothing happens.
    assert_eq!(keep().await, receipt);
    assert_eq!(desk.value("SELECT count(*) FROM orders"), "1");
    assert_eq!(desk.value("SELECT count(*) FROM items"), "0");
    assert_eq!(desk.value("SELECT plan FROM customers WHERE id = 2"), "pro");
    assert_eq!(desk.value("SELECT count(*) FROM loose"), "1");
}

/// Keys and times that the engine gives do not bind; to what new rows refer does.
async fn leaves_out_what_is_generated(desk: &Desk) {
    let statements = [
        "INSERT INTO orders (customer, total) VALUES (2, 5)",
        "INSERT INTO items (order_id, what) SELECT max(id), 'cup' FROM orders WHERE total = 5",
        "INSERT INTO items (order_id, what) VALUES (2, 'ink')",
    ];
    let id = desk.propose(&agent(), &statements).await;
    let looked = desk.validate(&agent(), &id).await;
    // Whoever approves is told of which columns other values may be kept.
    let generated = looked.preview.unwrap().generated;
    assert!(
        generated
            .iter()
            .any(|one| one.ends_with("orders.created_at")),
        "{generated:?}"
    );
    assert!(
        generated.iter().all(|one| !one.ends_with("order_id")),
        "{generated:?}"
    );
    desk.run("INSERT INTO orders (customer, total) VALUES (2, 6)");
    desk.run("INSERT INTO items (order_id, what) VALUES (2, 'between')");
    assert_eq!(desk.commit(&agent(), &id).await, Ok(ChangeState::Committed));
    let joined = "SELECT count(*) FROM items JOIN orders ON orders.id = items.order_id WHERE what = 'cup' AND total = 5";
    assert_eq!(desk.value(joined), "1");
    // Another row than the new one is another change.
    let refers =
        "INSERT INTO items (order_id, what) SELECT max(id), 'lid' FROM orders WHERE total < 100";
    let id = desk.propose(&agent(), &[refers]).await;
    desk.validate(&agent(), &id).await;
    desk.run("INSERT INTO orders (customer, total) VALUES (2, 7)");
    assert_eq!(desk.commit(&agent(), &id).await, Err(Code::ChangeConflict));
    assert_eq!(
        desk.value("SELECT count(*) FROM items WHERE what = 'lid'"),
        "0"
    );
}

/// What another principal approves is kept, though key, time and code are others by then.
async fn is_approved_and_kept(desk: &Desk) {
    let careful = Session::new(Principal::new("Agent", "careful"));
    let insert = "INSERT INTO passes (holder) VALUES ('Ada')";
    let id = desk.propose(&careful, &[insert]).await;
    let looked = desk.validate(&careful, &id).await;
    let preview = looked.view.preview.unwrap();
    let generated = looked.preview.unwrap().generated;
    for column in ["code", "created_at"] {
        let name = format!("passes.{column}");
        assert!(
            generated.iter().any(|one| one.ends_with(&name)),
            "{column}: {generated:?}"
        );
    }
    let waits = desk
        .guard
        .commit_change(&id, ChangeCall::new(&careful))
        .await;
    let waits = waits.unwrap_err();
    assert_eq!(waits.rejection.code(), Code::ApprovalRequired);
    assert!(waits.rejection.message().contains(&id));
    let approve = async |session| {
        let call = ChangeCall::new(session);
        desk.guard.approve_change((&id, &preview), call).await
    };
    let own = approve(&careful).await.unwrap_err();
    assert_eq!(own.rejection.code(), Code::ChangeOwnApproval);
    // Keys are given out meanwhile, and time passes.
    desk.run("INSERT INTO passes (holder) VALUES ('Bob')");
    let approved = approve(&boss()).await.unwrap();
    assert_eq!(approved.state, ChangeState::Approved);
    desk.run("INSERT INTO passes (holder) VALUES ('Cyd')");
    let kept = desk.commit(&careful, &id).await;
    assert_eq!(kept, Ok(ChangeState::Committed));
    let rows = "SELECT count(DISTINCT code) FROM passes";
    assert_eq!(desk.value(rows), "3");
}

/// Changes of one row that come at once are made one after the other, and none is refused.
async fn come_one_after_the_other(desk: &Desk) {
    let raise = || async {
        let sql = "UPDATE orders SET total = total + 1 WHERE id = 1";
        let outcome = desk.guard.execute(sql, &Params::None, &boss()).await;
        let envelope = outcome
            .into_result()
            .unwrap_or_else(|why| panic!("{why:?}"));
        assert_eq!(envelope.affected_rows(), Some(1));
    };
    let three = || async { tokio::join!(raise(), raise(), raise()) };
    tokio::join!(three(), three(), three(), three());
    assert_eq!(desk.value("SELECT total FROM orders WHERE id = 1"), "22");
}

/// Foreign keys that are checked at the end of a transaction are checked in a preview.
async fn foreign_keys_hold_at_the_end(desk: &Desk) {
    desk.run(
        "CREATE TABLE visits (id integer PRIMARY KEY, customer integer REFERENCES customers (id) DEFERRABLE INITIALLY DEFERRED)",
    );
    desk.guard.refresh().await.unwrap();
    let child = "INSERT INTO visits (id, customer) VALUES (1, 77)";
    let parent = "INSERT INTO customers (id, tenant, name) VALUES (77, 'a', 'Eve')";
    let (code, _) = desk.refusal_of_validation(&boss(), &[child]).await;
    assert_eq!(code, Code::DatabaseConstraint);
    let id = desk.propose(&boss(), &[child, parent]).await;
    desk.validate(&boss(), &id).await;
    assert_eq!(desk.commit(&boss(), &id).await, Ok(ChangeState::Committed));
    let gone = "DELETE FROM customers WHERE id = 77";
    let (code, _) = desk.refusal_of_validation(&boss(), &[gone]).await;
    assert_eq!(code, Code::DatabaseConstraint);
    if matches!(desk.database, AnyDatabase::File(_)) {
        // A row that was wrong before is no hindrance: the engine does not look at it either.
        desk.run("PRAGMA foreign_keys = OFF; INSERT INTO visits VALUES (5, 55)");
        let id = desk
            .propose(
                &boss(),
                &["INSERT INTO visits (id, customer) VALUES (6, 1)"],
            )
            .await;
        desk.validate(&boss(), &id).await;
        assert_eq!(desk.commit(&boss(), &id).await, Ok(ChangeState::Committed));
    }
}

#[tokio::test]
async fn deferred_foreign_keys_hold_on_sqlite() {
    foreign_keys_hold_at_the_end(&Desk::sqlite().await).await;
}

#[tokio::test]
async fn deferred_foreign_keys_hold_on_postgres() {
    foreign_keys_hold_at_the_end(&Desk::postgres("", "").await).await;
}

/// A file that another program writes is busy, and not out of reach.
#[tokio::test]
async fn a_file_that_others_write_is_busy_on_sqlite() {
    let desk = Desk::sqlite().await;
    let AnyDatabase::File(file) = &desk.database else {
        panic!("a file");
    };
    let other = rusqlite::Connection::open(file.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let limits = Limits {
        statement_timeout_ms: 100,
        ..Limits::default()
    };
    let boss = boss();
    let call = ChangeCall {
        limits: Some(&limits),
        ..ChangeCall::new(&boss)
    };
    let id = desk
        .propose(&boss, &["UPDATE orders SET total = 1 WHERE id = 1"])
        .await;
    let refused = desk.guard.validate_change(&id, call).await.unwrap_err();
    assert_eq!(refused.rejection.code(), Code::ChangeBusy);
    let told = refused.rejection.for_agent();
    assert!(told.retryable && told.retry_after_ms == Some(1000));
    other.execute_batch("ROLLBACK").unwrap();
    desk.validate(&boss, &id).await;
    // What could not be tried may be tried again.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = desk.guard.commit_change(&id, call).await.unwrap_err();
    assert_eq!(refused.rejection.code(), Code::ChangeBusy);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(desk.commit(&boss, &id).await, Ok(ChangeState::Committed));
}

/// Who approved need not do so again because another held a lock.
#[tokio::test]
async fn an_approval_outlasts_a_lock_on_postgres() {
    let desk = Desk::postgres("", "").await;
    let AnyDatabase::Server(database) = &desk.database else {
        panic!("a server");
    };
    let careful = Session::new(Principal::new("Agent", "careful"));
    let insert = "INSERT INTO passes (holder) VALUES ('Ada')";
    let id = desk.propose(&careful, &[insert]).await;
    let preview = desk.validate(&careful, &id).await.view.preview.unwrap();
    let boss = boss();
    let call = ChangeCall::new(&boss);
    desk.guard
        .approve_change((&id, &preview), call)
        .await
        .unwrap();
    let other = database.postgres_client().await;
    other
        .batch_execute("BEGIN; LOCK TABLE passes")
        .await
        .unwrap();
    for _ in 0..2 {
        assert_eq!(desk.commit(&careful, &id).await, Err(Code::ChangeBusy));
    }
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(desk.commit(&careful, &id).await, Ok(ChangeState::Committed));
    // Once kept, it is used.
    assert_eq!(desk.commit(&careful, &id).await, Ok(ChangeState::Committed));
    assert_eq!(desk.value("SELECT count(*) FROM passes"), "1");
}

/// A column that no statement names stands in the text that the firewall prints. Where it is gone, that is a change of the schema, and
/// not a mistake of the statement's.
#[tokio::test]
async fn a_column_that_is_gone_is_a_change_of_the_schema_on_postgres() {
    let more = "ALTER TABLE customers ADD spare integer, ADD other integer;";
    let desk = Desk::postgres(more, "").await;
    let agent = agent();
    let update =
        "UPDATE orders SET total = 1 FROM customers c WHERE c.id = customer AND c.name = 'Ada'";
    let id = desk.propose(&agent, &[update]).await;
    desk.validate(&agent, &id).await;
    desk.run("ALTER TABLE customers DROP COLUMN spare");
    let refused = desk.guard.commit_change(&id, ChangeCall::new(&agent)).await;
    let refused = refused.unwrap_err().rejection;
    assert_eq!(refused.code(), Code::DatabaseSchemaChanged, "{refused:?}");
    // The next is gone within a second of the last look.
    desk.run("ALTER TABLE customers DROP COLUMN other");
    let sql = "SELECT count(*) FROM customers";
    let told = desk.guard.query(sql, &Params::None, &agent).await;
    let told = told.into_result().unwrap_err().rejection;
    assert_eq!(told.code(), Code::DatabaseSchemaChanged, "{told:?}");
    desk.guard.refresh().await.unwrap();
    desk.validate(&agent, &id).await;
    assert_eq!(desk.commit(&agent, &id).await, Ok(ChangeState::Committed));
}

async fn conflicts_with_other_data(desk: &Desk) {
    let raise = "UPDATE orders SET total = total + 1 WHERE customer = 1";
    for between in [
        "UPDATE orders SET total = 11 WHERE id = 1",
        "INSERT INTO orders (customer, total) VALUES (1, 7)",
        "DELETE FROM orders WHERE id = 2",
        // A column that the change does not write.
        "UPDATE orders SET created_at = '2020-01-02 03:04:05' WHERE id = 1",
    ] {
        let id = desk.propose(&agent(), &[raise]).await;
        desk.validate(&agent(), &id).await;
        desk.run(between);
        let before = desk.value(CONTENTS);
        assert_eq!(
            desk.commit(&agent(), &id).await,
            Err(Code::ChangeConflict),
            "{between}"
        );
        assert_eq!(desk.value(CONTENTS), before, "{between}");
        assert_eq!(
            desk.commit(&agent(), &id).await,
            Err(Code::ChangeWrongState)
        );
        desk.validate(&agent(), &id).await;
        assert_eq!(desk.commit(&agent(), &id).await, Ok(ChangeState::Committed));
    }
}

/// What hides a value from a query hides it from a preview.
async fn tells_no_more_than_a_query(desk: &Desk) {
    for (statement, expected) in [
        ("UPDATE customers SET name = 'Eve' WHERE id = 3", 0),
        ("UPDATE customers SET name = 'Eve' WHERE id > 0", 2),
        ("UPDATE customers SET ssn = 'SECRET-1' WHERE id = 1", 0),
        ("UPDATE customers SET ssn = 'SECRET-9' WHERE id = 1", 0),
    ] {
        let id = desk.propose(&agent(), &[statement]).await;
        let looked = desk.validate(&agent(), &id).await;
        let cells = cells(&looked);
        assert_eq!(cells.len(), expected, "{statement}: {cells:#?}");
        let text = format!("{cells:?} {:?}", looked.view);
        for secret in ["Cyd", "SECRET-2", "SECRET-3"] {
            assert!(!text.contains(secret), "{statement}: {text}");
        }
    }
    assert_eq!(
        desk.value("SELECT count(*) FROM customers WHERE name = 'Eve'"),
        "0"
    );
}

/// Another statement of a change that fails takes all of it back, and a statement that chooses anew each time is refused.
async fn refuses_what_fails_or_varies(desk: &Desk, random: &str) {
    let contents = desk.value(CONTENTS);
    let (code, _) = desk
        .refusal_of_validation(
            &agent(),
            &[
                "DELETE FROM orders WHERE id = 1",
                "INSERT INTO customers (id, tenant) VALUES (1, 'a')",
            ],
        )
        .await;
    assert_eq!(code, Code::DatabaseConstraint);
    assert_eq!(desk.value(CONTENTS), contents);
    let id = desk.propose(&agent(), &[random]).await;
    let mut refused = false;
    for _ in 0..20 {
        match desk
            .guard
            .validate_change(&id, ChangeCall::new(&agent()))
            .await
        {
            Ok(_) => {}
            Err(why) => {
                assert_eq!(why.rejection.code(), Code::ChangeNotPreviewable);
                refused = true;
                break;
            }
        }
    }
    assert!(refused);
    assert_eq!(desk.value(CONTENTS), contents);
}

macro_rules! on_every_engine {
    ($($name:ident: $check:ident($($more:expr),*);)*) => { $(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn on_sqlite() {
                $check(&Desk::sqlite().await).await;
            }

            #[tokio::test]
            async fn on_postgres() {
                $check(&Desk::postgres("", "").await).await;
            }

            #[tokio::test]
            async fn on_mariadb() {
                $check(&Desk::mariadb("", "").await).await;
            }
        }
    )* };
}

on_every_engine! {
    a_change_is_looked_at_and_kept: shows_and_keeps();
    what_is_made_anew_does_not_bind: leaves_out_what_is_generated();
    what_is_approved_is_kept: is_approved_and_kept();
    changes_wait_for_each_other: come_one_after_the_other();
    data_that_changes_between_is_a_conflict: conflicts_with_other_data();
    a_preview_tells_no_more_than_a_query: tells_no_more_than_a_query();
}

#[tokio::test]
async fn what_fails_or_varies_is_refused() {
    let desk = Desk::sqlite().await;
    refuses_what_fails_or_varies(
        &desk,
        "DELETE FROM orders WHERE id > 0 AND random() % 2 = 0",
    )
    .await;
    let desk = Desk::postgres("", "").await;
    refuses_what_fails_or_varies(&desk, "DELETE FROM orders WHERE id > 0 AND random() < 0.5").await;
    let desk = Desk::mariadb("", "").await;
    refuses_what_fails_or_varies(&desk, "DELETE FROM orders WHERE id > 0 AND rand() < 0.5").await;
}

/// Triggers that write other tables and the same rows again, partitions, and rows that others hold.
#[tokio::test]
async fn postgres_tells_of_triggers_and_partitions() {
    let more = "
CREATE TABLE audit_log (id serial PRIMARY KEY, what text);
CREATE FUNCTION log_plans() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  BEGIN
    INSERT INTO audit_log (what) VALUES ('plan of ' || NEW.ssn);
    UPDATE customers SET name = name || '!' WHERE id = NEW.id + 1;
  EXCEPTION WHEN OTHERS THEN NULL;
  END;
  RETURN NULL;
END $$;
CREATE TRIGGER log_plans AFTER UPDATE OF plan ON customers FOR EACH ROW EXECUTE FUNCTION log_plans();
CREATE TABLE days (day integer, id integer, n integer, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM (1) TO (10);
CREATE TABLE days_2 PARTITION OF days FOR VALUES FROM (10) TO (20);
INSERT INTO days VALUES (1, 1, 1), (11, 1, 2);
CREATE TABLE base (id integer PRIMARY KEY);
CREATE TABLE heir (more integer) INHERITS (base);
INSERT INTO heir VALUES (1, 1);
";
    let desk = Desk::postgres(more, "log_plans").await;
    let id = desk
        .propose(&boss(), &["UPDATE customers SET plan = 'pro' WHERE id = 1"])
        .await;
    let looked = desk.validate(&boss(), &id).await;
    let made = cells(&looked);
    assert_cells(
        &looked,
        &[
            "customers | id=1 | update | plan | free | pro",
            "customers | id=2 | update | name | Bob | Bob!",
        ],
    );
    assert!(
        made.iter()
            .any(|cell| cell.ends_with("insert | what | null | plan of SECRET-1")),
        "{made:#?}"
    );
    assert_eq!(made.len(), 3, "{made:#?}");
    assert_eq!(desk.commit(&boss(), &id).await, Ok(ChangeState::Committed));
    assert_eq!(desk.value("SELECT count(*) FROM audit_log"), "1");
    let id = desk
        .propose(
            &boss(),
            &["UPDATE days SET day = day + 9, n = n + 1 WHERE id = 1 AND day = 1"],
        )
        .await;
    let looked = desk.validate(&boss(), &id).await;
    assert_cells(
        &looked,
        &[
            "days | day=1, id=1 | delete | n | 1 | null",
            "days | day=10, id=1 | insert | n | null | 2",
        ],
    );
    assert_eq!(desk.commit(&boss(), &id).await, Ok(ChangeState::Committed));
    let (code, _) = desk
        .refusal_of_validation(&boss(), &["UPDATE base SET id = 2 WHERE id = 1"])
        .await;
    assert_eq!(code, Code::ChangeNotPreviewable);
    // Rows that others lock, alone and beside the change: groups of lockers are seen through.
    let client = match &desk.database {
        AnyDatabase::Server(database) => database.postgres_client().await,
        AnyDatabase::File(_) => panic!("a server"),
    };
    client
        .batch_execute("BEGIN; SELECT 1 FROM customers WHERE id = 2 FOR KEY SHARE")
        .await
        .unwrap();
    let id = desk
        .propose(&boss(), &["UPDATE customers SET name = 'Zed' WHERE id = 2"])
        .await;
    let looked = desk.validate(&boss(), &id).await;
    assert_eq!(
        cells(&looked),
        ["customers | id=2 | update | name | Bob! | Zed"]
    );
    assert_eq!(desk.commit(&boss(), &id).await, Ok(ChangeState::Committed));
    client
        .batch_execute("UPDATE orders SET total = 0 WHERE id = 3")
        .await
        .unwrap();
    let (code, _) = desk
        .refusal_of_validation(&boss(), &["UPDATE orders SET total = 1 WHERE id = 3"])
        .await;
    assert_eq!(code, Code::ChangeBusy);
    client.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn mariadb_tells_of_triggers() {
    tells_of_triggers(&Desk::mariadb(TRIGGERS, "log_plans").await).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn mysql_9_tells_of_triggers() {
    tells_of_triggers(&Desk::mysql(TestDatabase::mysql, TRIGGERS, "log_plans").await).await;
}

/// They write other tables, which have triggers themselves.
const TRIGGERS: &str = "
CREATE TABLE audit_log (id integer PRIMARY KEY AUTO_INCREMENT, what varchar(40));
CREATE TABLE totals (customer integer PRIMARY KEY, n integer);
CREATE TABLE kept (n integer PRIMARY KEY);
INSERT INTO totals VALUES (1, 2), (2, 0);
DELIMITER //
CREATE TRIGGER log_plans AFTER UPDATE ON customers FOR EACH ROW BEGIN
  IF NOT (NEW.plan <=> OLD.plan) THEN
    INSERT INTO audit_log (what) VALUES (CONCAT('plan of ', NEW.ssn));
  END IF;
  UPDATE totals t SET t.n = t.n + 1 WHERE t.customer = NEW.id;
END//
DELIMITER ;
CREATE TRIGGER marks BEFORE INSERT ON audit_log FOR EACH ROW SET NEW.what = LOWER(NEW.what);
CREATE TRIGGER keeps AFTER INSERT ON audit_log FOR EACH ROW REPLACE INTO kept VALUES (7);
";

async fn tells_of_triggers(desk: &Desk) {
    let upgrade = ["UPDATE customers SET plan = 'pro' WHERE id = 1"];
    let id = desk.propose(&boss(), &upgrade).await;
    let looked = desk.validate(&boss(), &id).await;
    let made = cells(&looked);
    assert_cells(
        &looked,
        &[
            "customers | id=1 | update | plan | free | pro",
            "totals | customer=1 | update | n | 2 | 3",
            "kept | n=7 | insert |  | null | null",
        ],
    );
    assert!(
        made.iter()
            .any(|cell| cell.ends_with("insert | what | null | plan of secret-1")),
        "{made:#?}"
    );
    assert_eq!(desk.value("SELECT count(*) FROM audit_log"), "0");
    assert_eq!(desk.commit(&boss(), &id).await, Ok(ChangeState::Committed));
    assert_eq!(desk.value("SELECT what FROM audit_log"), "plan of secret-1");
    // A trigger that came to one of the other tables since.
    let id = desk
        .propose(&boss(), &["UPDATE customers SET plan = 'max' WHERE id = 1"])
        .await;
    desk.validate(&boss(), &id).await;
    desk.run("CREATE TRIGGER late AFTER UPDATE ON totals FOR EACH ROW DELETE FROM kept");
    assert_eq!(
        desk.commit(&boss(), &id).await,
        Err(Code::DatabaseSchemaChanged)
    );
    assert_eq!(desk.value("SELECT count(*) FROM kept"), "1");
}

/// What acts outside of the transaction would act in a preview already, whoever permits it.
#[tokio::test]
async fn postgres_previews_nothing_that_acts_outside() {
    let more = "CREATE EXTENSION dblink; CREATE FUNCTION shout(t text) RETURNS text LANGUAGE sql AS 'SELECT upper(t)';";
    let propose = async |desk: &Desk, sql: &str| {
        let statements = [(sql.to_owned(), Params::None)];
        let boss = boss();
        let call = ChangeCall::new(&boss);
        let proposed = desk
            .guard
            .propose_change(ChangeProposal::new(&statements), call)
            .await;
        proposed.map(drop).map_err(|why| why.rejection)
    };
    let desk = Desk::postgres(more, "dblink_exec").await;
    let sql = "UPDATE customers SET name = dblink_exec('dbname=x', 'SELECT 1') WHERE id = 1";
    let why = propose(&desk, sql).await.unwrap_err();
    assert_eq!(why.code(), Code::ChangeNotPreviewable, "{why:?}");
    assert!(why.message().contains("`public.dblink_exec`"), "{why:?}");
    // What is the database's own is its operator's to permit.
    let desk = Desk::postgres(more, "shout").await;
    let sql = "UPDATE customers SET name = shout(name) WHERE id = 1";
    propose(&desk, sql).await.unwrap();
}

/// What the server does not tell of is not shown in part.
#[tokio::test]
async fn mariadb_refuses_what_it_cannot_show() {
    let more = "
CREATE TABLE copies (id integer PRIMARY KEY);
CREATE TABLE copied (id integer PRIMARY KEY);
DELIMITER //
CREATE FUNCTION copies_one(n int) RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO copies VALUES (n); RETURN n; END//
DELIMITER ;
CREATE TRIGGER copy AFTER INSERT ON copied FOR EACH ROW SET @copied = copies_one(NEW.id);
CREATE TABLE untaken (id integer PRIMARY KEY) ENGINE=MyISAM;
CREATE TABLE many (id integer PRIMARY KEY);
INSERT INTO many SELECT seq FROM seq_1_to_50001;
";
    let desk = Desk::mariadb(more, "copy").await;
    let copy = desk
        .refusal_of_validation(&boss(), &["INSERT INTO copied VALUES (1)"])
        .await;
    assert_eq!(copy.0, Code::ChangeNotPreviewable, "{copy:?}");
    assert_eq!(desk.value("SELECT count(*) FROM copies"), "0");
    let many = desk
        .refusal_of_validation(&boss(), &["DELETE FROM many WHERE id = 1"])
        .await;
    assert_eq!(many.0, Code::ChangeNotPreviewable, "{many:?}");
    let untaken = desk
        .refusal_of_validation(&boss(), &["INSERT INTO untaken VALUES (1)"])
        .await;
    assert_eq!(untaken.0, Code::DatabaseRejected, "{untaken:?}");
    assert_eq!(desk.value("SELECT count(*) FROM untaken"), "0");
}

/// A trigger that writes what cannot be taken back.
#[tokio::test]
async fn mariadb_refuses_triggers_that_cannot_be_taken_back() {
    let more = "
CREATE TABLE noted (id integer PRIMARY KEY);
CREATE TABLE notes (id integer PRIMARY KEY) ENGINE=MyISAM;
CREATE TRIGGER note AFTER INSERT ON noted FOR EACH ROW INSERT INTO notes VALUES (NEW.id);
";
    let desk = Desk::mariadb(more, "note").await;
    let why = desk
        .refusal_of_validation(&boss(), &["INSERT INTO noted VALUES (1)"])
        .await;
    assert_eq!(why.0, Code::DatabaseRejected, "{why:?}");
    assert_eq!(desk.value("SELECT count(*) FROM notes"), "0");
}

/// A table of receipts that takes no part in transactions: nothing is kept, not even without a receipt.
#[tokio::test]
async fn mariadb_keeps_no_change_beside_such_receipts() {
    let more = "CREATE TABLE palisade_receipts (change_id varchar(64) PRIMARY KEY, receipt text NOT NULL) ENGINE=MyISAM;";
    let desk = Desk::mariadb(more, "").await;
    let id = desk
        .propose(&boss(), &["UPDATE customers SET plan = 'pro' WHERE id = 1"])
        .await;
    desk.validate(&boss(), &id).await;
    assert_eq!(desk.commit(&boss(), &id).await, Err(Code::DatabaseRejected));
    let plan = "SELECT plan FROM customers WHERE id = 1";
    assert_eq!(desk.value(plan), "free");
    assert_eq!(desk.value("SELECT count(*) FROM palisade_receipts"), "0");
    desk.run("ALTER TABLE palisade_receipts ENGINE=InnoDB");
    let id = desk
        .propose(&boss(), &["UPDATE customers SET plan = 'pro' WHERE id = 1"])
        .await;
    desk.validate(&boss(), &id).await;
    assert_eq!(desk.commit(&boss(), &id).await, Ok(ChangeState::Committed));
    assert_eq!(desk.value("SELECT count(*) FROM palisade_receipts"), "1");
}

/// Rows are shown whole or not at all: an account that reads columns is not enough, and its operator is told what is.
#[tokio::test]
async fn an_account_needs_the_rows_that_it_shows() {
    let upgrade = "UPDATE customers SET plan = 'pro' WHERE id = 1";
    let delete = "DELETE FROM customers WHERE id = 1";
    let columns = "id, tenant, name, plan";

    let desk = Desk::postgres("", "").await;
    let AnyDatabase::Server(database) = &desk.database else {
        panic!("a server");
    };
    let role = format!("steps_of_{database}");
    desk.run(&format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT ({columns}), UPDATE, DELETE ON customers TO {role}; GRANT SELECT ON orders TO {role};"
    ));
    let config = PostgresConfig::from_url(&database.url_as(&role)).unwrap();
    let backend = PostgresBackend::connect(config.writable().connections(1, 8)).await;
    let gate = changing_gate(backend.unwrap(), policies("public", ""));
    let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
    let guard = gate.with_changes(Arc::new(store) as Arc<dyn ChangeStore>);
    check_grants(&guard, &desk, (upgrade, delete), &role).await;

    let desk = Desk::mariadb("", "").await;
    let AnyDatabase::Server(database) = &desk.database else {
        panic!("a server");
    };
    let role = format!("steps_of_{database}");
    desk.run(&format!(
        "CREATE USER {role}; GRANT TRIGGER ON `{database}`.* TO {role}; \
         GRANT SELECT ({columns}), UPDATE, DELETE ON customers TO {role}; \
         GRANT SELECT ON orders TO {role}; GRANT SELECT ON items TO {role}; GRANT SELECT ON loose TO {role};"
    ));
    let config = MysqlConfig::from_url(&database.url_as(&role)).unwrap();
    let backend = MysqlBackend::connect(config.writable()).await;
    let gate = changing_gate(backend.unwrap(), policies(database.name(), ""));
    let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
    let guard = gate.with_changes(Arc::new(store) as Arc<dyn ChangeStore>);
    check_grants(&guard, &desk, (upgrade, delete), &role).await;
}

async fn check_grants(guard: &Guard, desk: &Desk, (upgrade, delete): (&str, &str), role: &str) {
    let try_out = async |sql: &str| {
        let statements = [(sql.to_owned(), Params::None)];
        let agent = agent();
        let call = ChangeCall::new(&agent);
        let proposed = guard
            .propose_change(ChangeProposal::new(&statements), call)
            .await;
        let id = proposed.unwrap_or_else(|why| panic!("{why:?}")).change;
        let looked = guard.validate_change(&id, call).await;
        looked
            .map(|looked| cells(&looked))
            .map_err(|why| why.rejection)
    };
    let why = try_out(upgrade).await.unwrap_err();
    assert_eq!(why.code(), Code::DatabaseNotGranted, "{why:?}");
    assert!(!why.message().contains("customers"), "{why:?}");
    let told = why.operator_detail().unwrap_or_default().to_owned();
    assert!(
        told.contains("GRANT SELECT ON") && told.contains("customers"),
        "{told}"
    );
    desk.run(&format!("GRANT SELECT ON customers TO {role};"));
    let shown = try_out(upgrade).await.unwrap();
    assert_eq!(shown, ["customers | id=1 | update | plan | free | pro"]);
    // What foreign keys delete, too.
    let deleted = try_out(delete).await;
    if guard.firewall().catalog().dialect() == Dialect::Postgres {
        let why = deleted.unwrap_err();
        assert_eq!(why.code(), Code::DatabaseNotGranted, "{why:?}");
        assert!(
            why.operator_detail().unwrap_or_default().contains("items"),
            "{why:?}"
        );
    } else {
        let shown = deleted.unwrap();
        assert!(
            shown.iter().any(|cell| cell.starts_with("items")),
            "{shown:?}"
        );
    }
}
