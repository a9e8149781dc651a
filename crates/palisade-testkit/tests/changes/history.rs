//! Tables read as they were, on every engine: exactly, and nothing that is hidden by now.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use palisade::{
    audit::{AuditRecord, AuditSink},
    catalog::{Catalog, Companion},
    change::ChangeStore,
    code::Code,
    dialect::Dialect,
    guard::{
        Backend, BackendFuture, ChangeCall, ChangeProposal, Completion, GivenEstimates, Guard,
        Moments, Request, RowSink, Ticket,
    },
    past::{HistoryOrder, KeptLabel, Label, LabelStanding, LabelStore},
    session::{Principal, Session},
    value::Params,
};
use palisade_sqlite::SqliteBackend;
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{
    fixture::policy_sources,
    host::Ticking,
    live::{changing_gate, changing_gate_on, recording_gate_on},
    servers::PostgresServer,
};
use serde_json::Value;

use crate::{
    any_database::AnyDatabase,
    database::{TestDatabase, TestFile},
};

const TABLES: &str = "
CREATE TABLE customers (id integer NOT NULL PRIMARY KEY, tenant varchar(9) NOT NULL, name varchar(20) UNIQUE, ssn varchar(20));
CREATE TABLE orders (id integer NOT NULL PRIMARY KEY, customer integer, total integer,
    FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE);
CREATE TABLE pieces (order_id integer NOT NULL, line integer NOT NULL, what varchar(20), PRIMARY KEY (order_id, line));
CREATE TABLE loose (word varchar(9));
CREATE VIEW known AS SELECT id, name, ssn FROM customers;
INSERT INTO customers VALUES (1, 'a', 'Ada', 'SECRET-1'), (2, 'a', 'Bob', 'SECRET-2'), (3, 'b', 'Cyd', 'SECRET-3');
INSERT INTO orders VALUES (1, 1, 10), (2, 1, 20), (3, 3, 30);
INSERT INTO pieces VALUES (1, 1, 'pen'), (1, 2, 'ink');
";

pub(crate) const IMAGES: &str = "CREATE TABLE palisade_images (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL, image LONG NOT NULL, PRIMARY KEY (change_id, part));";

pub(crate) const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action == Action::"see", resource is row::SCHEMA::customers)
  when { principal != User::"boss" && resource.tenant == "b" };
@mask("null")
forbid (principal, action == Action::"read_plain", resource == Column::"SCHEMA.customers.ssn")
  when { principal != User::"boss" };
@approval("required")
permit (principal == User::"clerk", action == Action::"select", resource);
"#;

const KEPT: [&str; 3] = ["customers", "orders", "pieces"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    Mariadb,
    Mysql,
}

pub(crate) struct Desk {
    pub(crate) guard: Guard,
    pub(crate) database: AnyDatabase,
    /// What was recorded since it was last taken.
    pub(crate) records: Arc<Records>,
}

/// Keeps records.
#[derive(Default)]
pub(crate) struct Records(Mutex<Vec<AuditRecord>>);

impl Records {
    pub(crate) fn take(&self) -> Vec<AuditRecord> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl AuditSink for Records {
    fn record(&self, record: &AuditRecord) -> Result<(), String> {
        self.0.lock().unwrap().push(record.clone());
        Ok(())
    }
}

impl Desk {
    pub(crate) async fn new(engine: Engine) -> Self {
        let desk = Self::without_history(engine).await;
        desk.order(&KEPT, &HistoryOrder::Enable { account: None });
        assert!(desk.guard.refresh().await.unwrap(), "{engine:?}");
        desk
    }

    pub(crate) async fn without_history(engine: Engine) -> Self {
        let mut script = format!("{TABLES}{IMAGES}");
        if engine == Engine::Mysql {
            // What a foreign key does to rows sets off no triggers there.
            let key = ",\n    FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE";
            assert!(script.contains(key));
            script = script.replace(key, "");
        }
        Self::over(engine, &script, POLICIES).await
    }

    /// A database that a script makes, in which `LONG` is the type of long texts, without history.
    pub(crate) async fn over(engine: Engine, script: &str, policies: &str) -> Self {
        let policies = |schema: &str| policy_sources(policies.replace("SCHEMA", schema));
        let records = Arc::<Records>::default();
        let audit = || Arc::clone(&records) as Arc<dyn AuditSink>;
        let long = match engine {
            Engine::Sqlite | Engine::Postgres => "text",
            Engine::Mariadb | Engine::Mysql => "longtext",
        };
        let script = &script.replace("LONG", long);
        let ticking = Ticking::default;
        let (guard, database) = match engine {
            Engine::Sqlite => {
                let file = TestFile::new(script);
                (
                    recording_gate_on(file.backend(), policies("main"), ticking(), audit()),
                    AnyDatabase::File(file),
                )
            }
            Engine::Postgres => {
                let database = TestDatabase::postgres("past", script);
                let gate = recording_gate_on(
                    database.postgres_backend().await,
                    policies("public"),
                    ticking(),
                    audit(),
                );
                (gate, AnyDatabase::Server(database))
            }
            Engine::Mariadb | Engine::Mysql => {
                let database = match engine {
                    Engine::Mysql => TestDatabase::mysql("past", script),
                    Engine::Sqlite | Engine::Postgres | Engine::Mariadb => {
                        TestDatabase::mariadb("past", script)
                    }
                };
                // As servers have it, and those of tests have not.
                database.load("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
                let policies = policies(database.name());
                let backend = database.mysql_backend().await;
                let gate = recording_gate_on(backend, policies, ticking(), audit());
                (gate, AnyDatabase::Server(database))
            }
        };
        let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
        let guard = guard
            .with_labels(Arc::clone(&store) as Arc<dyn LabelStore>)
            .with_changes(store as Arc<dyn ChangeStore>);
        Self {
            guard,
            database,
            records,
        }
    }

    /// The cells of a table that differ between two moments, or since one, a line each.
    pub(crate) async fn list_differences(
        &self,
        session: &Session,
        table: &str,
        from: &str,
        to: Option<&str>,
    ) -> Vec<String> {
        let table = self.name_table(table);
        let moments = Moments { from, to };
        let compared = self
            .guard
            .compare_past(&table, moments, ChangeCall::new(session))
            .await;
        let compared = compared
            .map_err(|refusal| refusal.rejection.code())
            .unwrap();
        let rows = serde_json::to_value(&compared.preview.rows).unwrap()["rows"].take();
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| {
            let text = |key: &str| match &row[key] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            format!(
                "{} {} {}: {} -> {}",
                text("key"),
                text("change"),
                text("column"),
                text("before"),
                text("after")
            )
        })
        .collect()
    }

    pub(crate) fn order(&self, tables: &[&str], order: &HistoryOrder) {
        for table in tables {
            let script = self.write_script(table, order).unwrap();
            self.run(&script);
        }
    }

    /// The statements by which a table of the desk's database has a history or not.
    pub(crate) fn write_script(&self, table: &str, order: &HistoryOrder) -> Result<String, String> {
        let table = self.name_table(table);
        self.guard.write_history_script(&table, order)
    }

    /// What a table of the desk's database is called where it is the only one by its name: tests share servers, and MariaDB shows all
    /// databases.
    pub(crate) fn name_table(&self, table: &str) -> String {
        match &self.database {
            AnyDatabase::Server(database)
                if self.guard.firewall().catalog().dialect() == Dialect::Mysql =>
            {
                format!("{}.{table}", database.name())
            }
            AnyDatabase::Server(_) | AnyDatabase::File(_) => table.to_owned(),
        }
    }

    pub(crate) fn run(&self, sql: &str) {
        self.database.run(sql);
    }

    pub(crate) async fn snapshot(&self, name: &str) {
        let taken = self.guard.create_snapshot(name, &boss()).await;
        assert_eq!(taken.unwrap().snapshot, name);
    }

    /// The rows that a query gives, or the code of its refusal.
    pub(crate) async fn ask(
        &self,
        session: &Session,
        sql: &str,
        as_of: Option<&str>,
    ) -> Result<Value, Code> {
        let request = Request::statement(sql, &Params::None, session).as_of(as_of);
        let (outcome, report) = self.guard.answer(request).await;
        match outcome.into_result() {
            Ok(envelope) => {
                assert_eq!(envelope.as_of().is_some(), as_of.is_some());
                Ok(serde_json::to_value(&envelope).unwrap()["rows"].take())
            }
            Err(refusal) => {
                let rejection = &refusal.rejection;
                assert_ne!(
                    rejection.code(),
                    Code::Internal,
                    "{sql}: {:?} {:?}",
                    rejection.operator_detail(),
                    report.rewritten
                );
                Err(rejection.code())
            }
        }
    }

    /// All rows of all tables with a history, as the boss sees them.
    pub(crate) async fn contents(&self, as_of: Option<&str>) -> Vec<Value> {
        let mut all = Vec::new();
        for sql in [
            "SELECT id, tenant, name, ssn FROM customers ORDER BY id",
            "SELECT id, customer, total FROM orders ORDER BY id",
            "SELECT order_id, line, what FROM pieces ORDER BY order_id, line",
        ] {
            all.push(self.ask(&boss(), sql, as_of).await.unwrap());
        }
        all
    }
}

pub(crate) fn boss() -> Session {
    Session::new(Principal::new("User", "boss"))
}

pub(crate) fn agent() -> Session {
    Session::new(Principal::new("Agent", "bot"))
}

/// Calls a test on every engine.
macro_rules! on_every_engine {
    ($($name:ident)*) => {
        mod sqlite { $(#[tokio::test] async fn $name() { super::$name(super::Engine::Sqlite).await; })* }
        mod postgres { $(#[tokio::test] async fn $name() { super::$name(super::Engine::Postgres).await; })* }
        mod mariadb { $(#[tokio::test] async fn $name() { super::$name(super::Engine::Mariadb).await; })* }
        mod mysql_9 {
            $(
                #[tokio::test]
                #[ignore = "needs MySQL 9: cargo xtask test runs it"]
                async fn $name() {
                    super::$name(super::Engine::Mysql).await;
                }
            )*
        }
    };
}
pub(crate) use on_every_engine;

on_every_engine! {
    every_state_is_read_as_it_was
    nothing_that_is_hidden_by_now_is_seen
    what_has_no_history_is_refused
    labels_of_another_time_are_refused
    differences_are_those_that_the_session_sees
    history_costs_no_limit_and_no_preview
    an_undone_change_is_in_history
    names_of_history_cannot_be_reached
    snapshots_are_of_whoever_took_them
    rows_of_other_moments_make_nothing_fail
}

/// A database whose history is pruned while a statement runs.
struct PrunedMeanwhile {
    database: SqliteBackend,
    path: PathBuf,
    script: String,
}

impl Backend for PrunedMeanwhile {
    fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    fn catalog(&self) -> &Catalog {
        self.database.catalog()
    }

    fn is_current(&self) -> BackendFuture<'_, bool> {
        self.database.is_current()
    }

    fn refreshed(&self) -> BackendFuture<'_, Option<Arc<dyn Backend>>> {
        self.database.refreshed()
    }

    fn gives_estimates(&self) -> GivenEstimates {
        self.database.gives_estimates()
    }

    fn execute<'a>(
        &'a self,
        ticket: Ticket,
        sink: &'a mut (dyn RowSink + Send),
    ) -> BackendFuture<'a, Completion> {
        let pruned = rusqlite::Connection::open(&self.path)
            .and_then(|database| database.execute_batch(&self.script));
        pruned.unwrap();
        self.database.execute(ticket, sink)
    }

    fn check_label<'a>(
        &'a self,
        label: &'a Label,
        companions: &'a [Companion],
    ) -> BackendFuture<'a, LabelStanding> {
        self.database.check_label(label, companions)
    }
}

/// What a statement gave of which a part was pruned meanwhile does not leave.
#[tokio::test]
async fn rows_whose_history_was_pruned_meanwhile_do_not_leave() {
    let desk = Desk::new(Engine::Sqlite).await;
    desk.snapshot("first").await;
    desk.run("UPDATE customers SET name = name || 'x'");
    desk.snapshot("second").await;
    let (first, _) = desk.guard.find_label("first").unwrap();
    let (second, _) = desk.guard.find_label("second").unwrap();
    let prune = HistoryOrder::Prune(second);
    let script = desk.guard.write_history_script("customers", &prune);
    let AnyDatabase::File(file) = &desk.database else {
        panic!("it is a file");
    };
    let backend = PrunedMeanwhile {
        database: file.backend(),
        path: file.path(),
        script: script.unwrap(),
    };
    let policies = policy_sources(POLICIES.replace("SCHEMA", "main"));
    let guard = changing_gate(backend, policies);
    let sql = "SELECT count(*) AS n FROM customers";
    let outcome = guard.query(sql, &Params::None, &boss().as_of(first)).await;
    let refusal = outcome.into_result().unwrap_err();
    assert_eq!(refusal.rejection.code(), Code::HistoryTooEarly);
}

/// Where something of what keeps it is gone, or does not know of a unique key, there is no history.
#[tokio::test]
async fn what_keeps_history_on_sqlite_is_looked_at() {
    for (change, keeps) in [
        ("DROP TRIGGER palisade_history_customers_update", false),
        ("CREATE UNIQUE INDEX more ON customers (ssn)", false),
        ("ALTER TABLE customers ADD COLUMN age integer", false),
        ("CREATE INDEX other ON customers (ssn)", true),
        (
            "CREATE TRIGGER mine AFTER DELETE ON orders BEGIN SELECT 1; END; VACUUM; DROP TRIGGER mine",
            true,
        ),
    ] {
        let desk = Desk::new(Engine::Sqlite).await;
        desk.snapshot("first").await;
        desk.run(change);
        desk.guard.refresh().await.unwrap();
        let asked = desk
            .ask(&boss(), "SELECT id FROM customers", Some("first"))
            .await;
        match keeps {
            true => assert!(asked.is_ok(), "{change}"),
            false => assert_eq!(asked, Err(Code::HistoryNotKept), "{change}"),
        }
    }
}

/// What was written while triggers were away is in no history, also where they are there again: as after a table was made anew.
#[tokio::test]
async fn triggers_that_were_made_again_keep_no_history_on_sqlite() {
    let desk = Desk::new(Engine::Sqlite).await;
    let texts = "SELECT group_concat(sql, '; ') FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'customers'";
    let texts = desk.database.value(texts);
    desk.snapshot("before").await;
    let read = async |moment| {
        desk.ask(&boss(), "SELECT name FROM customers WHERE id = 1", moment)
            .await
    };
    assert!(read(Some("before")).await.is_ok());
    desk.run(
        "DROP TRIGGER palisade_history_customers_insert; DROP TRIGGER palisade_history_customers_update; \
         DROP TRIGGER palisade_history_customers_delete; UPDATE customers SET name = 'Gap' WHERE id = 1",
    );
    desk.run(&texts);
    desk.guard.refresh().await.unwrap();
    assert_eq!(read(Some("before")).await, Err(Code::HistoryNotKept));
    assert_eq!(read(None).await.unwrap()[0]["name"], "Gap");
    // Begun anew, it answers for what comes.
    desk.order(&["customers"], &HistoryOrder::Enable { account: None });
    desk.guard.refresh().await.unwrap();
    desk.snapshot("after").await;
    desk.run("UPDATE customers SET name = 'Later' WHERE id = 1");
    assert_eq!(read(Some("after")).await.unwrap()[0]["name"], "Gap");
    assert_eq!(read(Some("before")).await, Err(Code::HistoryTooEarly));
}

/// Triggers of another form, as of an earlier version, keep no history that is read, and refuse no change either.
#[tokio::test]
async fn triggers_of_another_form_refuse_no_change() {
    let desk = Desk::new(Engine::Sqlite).await;
    desk.order(&["orders", "pieces"], &HistoryOrder::Disable);
    desk.run("DROP TRIGGER palisade_history_customers_delete");
    desk.guard.refresh().await.unwrap();
    let session = boss();
    let sql = "UPDATE customers SET name = 'Adele' WHERE id = 1";
    let request = Request::statement(sql, &Params::None, &session).allow_changes();
    let (outcome, _) = desk.guard.answer(request).await;
    let envelope = outcome
        .into_result()
        .map_err(|refusal| format!("{:?}", refusal.rejection))
        .unwrap();
    assert_eq!(envelope.affected_rows(), Some(1));
}

async fn every_state_is_read_as_it_was(engine: Engine) {
    let desk = Desk::new(engine).await;
    let upsert = match engine {
        Engine::Sqlite => "REPLACE INTO customers VALUES (9, 'a', 'Ada', 'x')",
        Engine::Postgres => {
            "INSERT INTO pieces VALUES (1, 2, 'new'), (7, 7, 'n') ON CONFLICT (order_id, line) DO UPDATE SET what = excluded.what"
        }
        Engine::Mariadb | Engine::Mysql => {
            "INSERT INTO pieces VALUES (1, 12, 'new'), (7, 7, 'n') ON DUPLICATE KEY UPDATE what = VALUES(what)"
        }
    };
    let replace = match engine {
        Engine::Sqlite | Engine::Mariadb | Engine::Mysql => {
            "REPLACE INTO customers VALUES (2, 'a', 'Dan', 'x')"
        }
        Engine::Postgres => "DELETE FROM customers WHERE id = 2",
    };
    let steps = [
        "INSERT INTO customers VALUES (4, 'c', 'Dan', NULL)",
        "UPDATE customers SET name = 'Adele' WHERE id = 1",
        "UPDATE orders SET total = total + 1",
        "UPDATE pieces SET line = line + 10 WHERE order_id = 1",
        "UPDATE customers SET name = NULL WHERE id = 1",
        upsert,
        replace,
        "DELETE FROM orders WHERE id = 2",
        "INSERT INTO orders VALUES (2, 3, 99)",
        "DELETE FROM customers WHERE id = 3",
        "INSERT INTO customers VALUES (3, 'b', 'Cyd', 'SECRET-9')",
        "DELETE FROM pieces",
    ];
    let mut seen = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let name = format!("s{number}");
        desk.snapshot(&name).await;
        seen.push((name, desk.contents(None).await));
        // Foreign keys act on SQLite where a connection says so.
        let keys = match engine {
            Engine::Sqlite => "PRAGMA foreign_keys = ON; ",
            Engine::Postgres | Engine::Mariadb | Engine::Mysql => "",
        };
        desk.run(&format!("{keys}{step}"));
    }
    desk.snapshot("last").await;
    seen.push(("last".to_owned(), desk.contents(None).await));
    // Each step has changed something.
    let distinct: BTreeSet<String> = seen.iter().map(|(_, rows)| format!("{rows:?}")).collect();
    assert_eq!(distinct.len(), seen.len());
    for (name, rows) in &seen {
        assert_eq!(
            desk.contents(Some(name)).await,
            *rows,
            "{engine:?} at {name}"
        );
    }
    // By shapes that people write.
    for sql in [
        "SELECT c.name, sum(o.total) AS total FROM customers c JOIN orders o ON o.customer = c.id GROUP BY c.id, c.name ORDER BY 1",
        "WITH big AS (SELECT * FROM orders WHERE total > 15) SELECT count(*) AS n FROM big",
        "SELECT name FROM known WHERE id IN (SELECT customer FROM orders) ORDER BY name LIMIT 1",
    ] {
        let rows = desk.ask(&boss(), sql, Some("s0")).await.unwrap();
        assert!(!rows.as_array().unwrap().is_empty(), "{sql}");
    }
    let sum = "SELECT sum(total) AS n FROM orders";
    let then = desk.ask(&boss(), sum, Some("s0")).await.unwrap();
    let now = desk.ask(&boss(), sum, None).await.unwrap();
    assert_ne!(then, now);
}

async fn nothing_that_is_hidden_by_now_is_seen(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("first").await;
    // Into another tenant, there deleted, into another one and back, and from one.
    desk.run("UPDATE customers SET tenant = 'b' WHERE id = 1");
    desk.run(
        "INSERT INTO customers VALUES (4, 'a', 'Dan', 'SECRET-4'), (5, 'a', 'Eve', 'SECRET-5')",
    );
    desk.snapshot("second").await;
    desk.run("UPDATE customers SET tenant = 'b' WHERE id = 4");
    desk.run("DELETE FROM customers WHERE id = 4");
    desk.run("UPDATE customers SET tenant = 'b' WHERE id = 5");
    desk.run("UPDATE customers SET tenant = 'a' WHERE id = 5");
    desk.run("UPDATE customers SET tenant = 'a' WHERE id = 3");
    desk.run("UPDATE customers SET name = 'Bobby' WHERE id = 2");
    let names = "SELECT name FROM customers ORDER BY id";
    let list = |rows: &Value| -> Vec<String> {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for (as_of, expected) in [
        (Some("first"), vec!["Bob"]),
        (Some("second"), vec!["Bob"]),
        (None, vec!["Bobby", "Cyd", "Eve"]),
    ] {
        let rows = desk.ask(&agent(), names, as_of).await.unwrap();
        assert_eq!(list(&rows), expected, "{engine:?} {as_of:?}");
    }
    let boss_sees = desk.ask(&boss(), names, Some("second")).await.unwrap();
    assert_eq!(list(&boss_sees), ["Ada", "Bob", "Cyd", "Dan", "Eve"]);
    for sql in [
        "SELECT * FROM customers",
        "SELECT ssn FROM known",
        "SELECT max(ssn) AS m, count(ssn) AS n FROM customers",
        "SELECT id FROM customers WHERE ssn LIKE 'SECRET%'",
        "SELECT name FROM customers ORDER BY ssn",
        "SELECT count(*) AS n FROM customers WHERE tenant = 'b'",
    ] {
        let rows = desk.ask(&agent(), sql, Some("second")).await.unwrap();
        let text = rows.to_string();
        assert!(
            !text.contains("SECRET") && !text.contains("Dan") && !text.contains("Cyd"),
            "{sql}: {text}"
        );
    }
    let counted = desk
        .ask(
            &agent(),
            "SELECT count(*) AS n FROM customers WHERE ssn IS NOT NULL OR tenant = 'b'",
            Some("second"),
        )
        .await
        .unwrap();
    assert_eq!(counted[0]["n"], 0);
}

async fn what_has_no_history_is_refused(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("first").await;
    for sql in [
        "SELECT word FROM loose",
        "SELECT c.name FROM customers c, loose l",
        "SELECT name FROM customers WHERE name IN (SELECT word FROM loose)",
    ] {
        assert_eq!(
            desk.ask(&boss(), sql, Some("first")).await,
            Err(Code::HistoryNotKept),
            "{sql}"
        );
    }
    let session = boss();
    for sql in [
        "UPDATE customers SET name = 'x' WHERE id = 1",
        "DELETE FROM orders WHERE id = 1",
        "INSERT INTO pieces VALUES (9, 9, 'x')",
    ] {
        let request = Request::statement(sql, &Params::None, &session).allow_changes();
        let (outcome, _) = desk.guard.answer(request.as_of(Some("first"))).await;
        let refusal = outcome.into_result().unwrap_err();
        assert_eq!(refusal.rejection.code(), Code::StatementNotAllowed, "{sql}");
    }
    // What reads no table is as it is.
    let one = desk.ask(&boss(), "SELECT 1 AS n", Some("first")).await;
    assert_eq!(one.unwrap()[0]["n"], 1);
}

async fn labels_of_another_time_are_refused(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("first").await;
    let sql = "SELECT count(*) AS n FROM customers";
    for (as_of, code) in [
        ("nosuch", Code::HistoryUnknown),
        ("yesterday evening", Code::RequestInvalid),
    ] {
        assert_eq!(desk.ask(&boss(), sql, Some(as_of)).await, Err(code));
    }
    let now = desk.ask(&boss(), sql, Some("2100-01-01T00:00:00Z")).await;
    assert_eq!(now.unwrap()[0]["n"], 3);
    // History that begins anew does not reach back.
    desk.order(&["orders"], &HistoryOrder::Disable);
    desk.order(&["orders"], &HistoryOrder::Enable { account: None });
    desk.guard.refresh().await.unwrap();
    let orders = "SELECT count(*) AS n FROM orders";
    assert_eq!(
        desk.ask(&boss(), orders, Some("first")).await,
        Err(Code::HistoryTooEarly)
    );
    assert!(desk.ask(&boss(), sql, Some("first")).await.is_ok());
    desk.snapshot("second").await;
    assert!(desk.ask(&boss(), orders, Some("second")).await.is_ok());
    // Nor does what was pruned.
    desk.run("DELETE FROM customers WHERE id = 3");
    desk.snapshot("third").await;
    let (label, _) = desk.guard.find_label("third").unwrap();
    desk.order(&["customers"], &HistoryOrder::Prune(label));
    // MariaDB deletes all past rows or none: history begins anew then.
    let third = match engine {
        Engine::Sqlite | Engine::Postgres | Engine::Mysql => Ok(2),
        Engine::Mariadb => Err(Code::HistoryTooEarly),
    };
    desk.snapshot("fourth").await;
    for (as_of, expected) in [
        ("second", Err(Code::HistoryTooEarly)),
        ("third", third),
        ("fourth", Ok(2)),
    ] {
        let rows = desk.ask(&boss(), sql, Some(as_of)).await;
        assert_eq!(
            rows.map(|rows| rows[0]["n"].as_i64().unwrap()),
            expected,
            "{as_of}"
        );
    }
}

/// In a server into which a dump was restored no moment counts until history begins anew, and none from before then. The servers of these
/// tests are copies of one, whose identifier they share: another's would be foreign in any case.
#[tokio::test]
async fn a_restored_dump_has_a_history_of_its_own() {
    let desk = Desk::new(Engine::Postgres).await;
    // The numbers of its transactions run ahead of those of the other.
    let many = "SELECT pg_current_xact_id(); COMMIT; BEGIN; ".repeat(500);
    desk.run(&format!("BEGIN; {many} COMMIT"));
    desk.snapshot("first").await;
    desk.run("DELETE FROM customers WHERE id = 3");
    let AnyDatabase::Server(original) = &desk.database else {
        panic!("it is on a server");
    };
    let client = original.server().client("postgres", original.name());
    let dump = std::path::Path::new(client.get_program()).with_file_name("pg_dump");
    let dumped = std::process::Command::new(dump)
        .args(["--dbname", &original.url()])
        .output()
        .unwrap();
    assert!(dumped.status.success(), "{dumped:?}");
    let script = String::from_utf8(dumped.stdout).unwrap();
    let server = PostgresServer::start().unwrap();
    let database = TestDatabase::on(&server, "restored", &script);
    let label = desk.guard.find_label("first").unwrap().0;
    let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
    let first = KeptLabel {
        name: Some("first".to_owned()),
        label: label.as_text().to_owned(),
        taken_ms: 1,
        taken_by: None,
    };
    let backend = database.postgres_backend().await;
    store.keep_label(database.name(), &first).unwrap();
    let policies = policy_sources(POLICIES.replace("SCHEMA", "public"));
    let restored = changing_gate_on(backend, policies, Ticking::default());
    let restored = restored.with_labels(store as Arc<dyn LabelStore>);
    let count = async |as_of: &str| {
        let sql = "SELECT count(*) AS n FROM customers";
        let session = boss();
        let request = Request::statement(sql, &Params::None, &session).as_of(Some(as_of));
        let (outcome, _) = restored.answer(request).await;
        match outcome.into_result() {
            Ok(envelope) => Ok(serde_json::to_value(&envelope).unwrap()["rows"][0]["n"].take()),
            Err(refusal) => Err(refusal.rejection.code()),
        }
    };
    let is_refused = |counted| matches!(counted, Err(Code::HistoryForeign | Code::HistoryTooEarly));
    assert!(is_refused(count("first").await));
    restored.create_snapshot("second", &boss()).await.unwrap();
    assert_eq!(count("second").await, Err(Code::HistoryTooEarly));
    for table in KEPT {
        let enable = HistoryOrder::Enable { account: None };
        database.load(&restored.write_history_script(table, &enable).unwrap());
    }
    restored.refresh().await.unwrap();
    restored.create_snapshot("third", &boss()).await.unwrap();
    database.load("DELETE FROM customers");
    assert!(is_refused(count("first").await));
    assert_eq!(count("second").await, Err(Code::HistoryTooEarly));
    assert_eq!(count("third").await, Ok(serde_json::json!(2)));
}

async fn differences_are_those_that_the_session_sees(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("first").await;
    desk.run("UPDATE customers SET name = 'Adele', ssn = 'SECRET-X' WHERE id = 1");
    desk.run("UPDATE customers SET tenant = 'b' WHERE id = 2");
    desk.run("UPDATE customers SET name = 'Cydney' WHERE id = 3");
    desk.snapshot("second").await;
    desk.run("DELETE FROM customers WHERE id = 1");
    let compare = async |session: &Session, from, to| {
        desk.list_differences(session, "customers", from, to).await
    };
    let told = compare(&boss(), "first", Some("second")).await;
    for line in [
        "id=1 update name: Ada -> Adele",
        "id=1 update ssn: SECRET-1 -> SECRET-X",
        "id=2 update tenant: a -> b",
        "id=3 update name: Cyd -> Cydney",
    ] {
        assert!(told.iter().any(|told| told == line), "{line}: {told:?}");
    }
    assert_eq!(told.len(), 4);
    // What went out of sight was never seen; what is masked stays so.
    let told = compare(&agent(), "first", Some("second")).await;
    assert_eq!(told, ["id=1 update name: Ada -> Adele"]);
    let told = compare(&agent(), "second", None).await;
    assert!(
        told.iter().all(|line| line.starts_with("id=1 delete")) && !told.is_empty(),
        "{told:?}"
    );
    assert!(!told.concat().contains("SECRET"));
    for (table, from, code) in [
        ("loose", "first", Code::HistoryNotKept),
        ("nosuch", "first", Code::NameUnknownRelation),
        ("customers", "nosuch", Code::HistoryUnknown),
    ] {
        let moments = Moments { from, to: None };
        let refused = desk
            .guard
            .compare_past(&desk.name_table(table), moments, ChangeCall::new(&boss()))
            .await;
        assert_eq!(refused.unwrap_err().rejection.code(), code, "{table}");
    }
}

async fn history_costs_no_limit_and_no_preview(engine: Engine) {
    let desk = Desk::new(engine).await;
    let rows: Vec<String> = (100..1000).map(|id| format!("({id}, 1, 0)")).collect();
    desk.run(&format!("INSERT INTO orders VALUES {}", rows.join(", ")));
    desk.snapshot("first").await;
    // As many as the limit, which what history keeps of them does not count against.
    let session = boss();
    let sql = "UPDATE orders SET total = 7 WHERE id >= 100";
    let request = Request::statement(sql, &Params::None, &session).allow_changes();
    let (outcome, _) = desk.guard.answer(request).await;
    let envelope = outcome
        .into_result()
        .map_err(|refusal| format!("{:?}", refusal.rejection))
        .unwrap();
    assert_eq!(envelope.affected_rows(), Some(900));
    let sum = "SELECT sum(total) AS n FROM orders WHERE id >= 100";
    let number = |rows: Value| rows[0]["n"].to_string().replace('"', "");
    let then = desk.ask(&boss(), sum, Some("first")).await.unwrap();
    assert_eq!(number(then), "0");
    let now = desk.ask(&boss(), sum, None).await.unwrap();
    assert_eq!(number(now), "6300");
    // A preview leaves no trace, and shows the tables of whoever asks alone.
    let (alice, id) = (
        boss(),
        propose(&desk, "DELETE FROM customers WHERE id = 1").await,
    );
    let looked = desk
        .guard
        .validate_change(&id, ChangeCall::new(&alice))
        .await;
    let preview = looked
        .map_err(|refusal| refusal.rejection)
        .unwrap()
        .preview
        .unwrap();
    let text = serde_json::to_string(&preview.rows).unwrap();
    assert!(text.contains("Ada") && !text.contains("palisade"), "{text}");
    assert!(
        preview
            .counted
            .iter()
            .all(|(table, _)| !table.contains("palisade"))
    );
    desk.snapshot("second").await;
    let count = "SELECT count(*) AS n FROM customers";
    let rows = desk.ask(&boss(), count, Some("second")).await.unwrap();
    assert_eq!(number(rows), "3");
}

pub(crate) async fn propose(desk: &Desk, sql: &str) -> String {
    let session = boss();
    let statements = [(sql.to_owned(), Params::None)];
    let proposed = desk
        .guard
        .propose_change(ChangeProposal::new(&statements), ChangeCall::new(&session))
        .await;
    proposed
        .map_err(|refusal| refusal.rejection)
        .unwrap()
        .change
}

async fn an_undone_change_is_in_history(engine: Engine) {
    let desk = Desk::new(engine).await;
    let session = boss();
    let call = || ChangeCall::new(&session);
    let keep = async |id: &str| {
        let looked = desk.guard.validate_change(id, call()).await;
        looked.map_err(|refusal| refusal.rejection).unwrap();
        let kept = desk.guard.commit_change(id, call()).await;
        kept.map_err(|refusal| refusal.rejection).unwrap();
    };
    let before = desk.contents(None).await;
    let id = propose(&desk, "DELETE FROM customers WHERE id = 1").await;
    keep(&id).await;
    desk.snapshot("done").await;
    let done = desk.contents(None).await;
    assert_ne!(done, before);
    let undoing = desk.guard.compensate_change(&id, None, call()).await;
    let undoing = undoing.map_err(|refusal| refusal.rejection).unwrap().change;
    keep(&undoing).await;
    desk.snapshot("undone").await;
    desk.run("DELETE FROM customers");
    assert_eq!(desk.contents(Some("done")).await, done);
    assert_eq!(desk.contents(Some("undone")).await, before);
}

async fn names_of_history_cannot_be_reached(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("first").await;
    let session = boss();
    let names: &[&str] = match engine {
        Engine::Sqlite => &[
            "palisade_history_customers",
            "\"palisade_history.marks\"",
            "\"palisade_history.spans\"",
        ],
        Engine::Postgres => &[
            "palisade_history.\"public.customers\"",
            "palisade_history.spans",
        ],
        Engine::Mariadb => &[
            "palisade_history_customers",
            "PALISADE_HISTORY_customers",
            "`palisade_history.spans`",
            "`palisade_history.seal`",
        ],
        Engine::Mysql => &[
            "palisade_history_customers",
            "PALISADE_HISTORY_customers",
            "`palisade_history.spans`",
            "`palisade_history.numbers`",
            "`palisade_history.seal`",
        ],
    };
    for name in names {
        for as_of in [None, Some("first")] {
            let sql = format!("SELECT * FROM {name}");
            let refused = desk.ask(&boss(), &sql, as_of).await;
            assert!(
                matches!(
                    refused,
                    Err(Code::NameUnknownRelation | Code::NameSystemRelation)
                ),
                "{sql}: {refused:?}"
            );
        }
        for sql in [
            format!("DELETE FROM {name} WHERE 1 = 1"),
            format!("DROP TABLE {name}"),
            format!("CREATE TABLE {name} (id integer)"),
        ] {
            let request = Request::statement(&sql, &Params::None, &session).allow_changes();
            let (outcome, _) = desk.guard.answer(request).await;
            assert!(outcome.into_result().is_err(), "{sql}");
        }
    }
    for column in ["palisade_from", "palisade_to"] {
        let sql = format!("SELECT {column} FROM customers");
        for as_of in [None, Some("first")] {
            let refused = desk.ask(&boss(), &sql, as_of).await;
            assert_eq!(refused, Err(Code::NameUnknownColumn), "{sql} {as_of:?}");
        }
    }
}

/// What may fail works on the rows of the moment alone: not on later values, nor on those of hidden rows.
async fn rows_of_other_moments_make_nothing_fail(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.run("UPDATE orders SET total = 0");
    desk.run("UPDATE orders SET total = 65 + id");
    desk.run(match engine {
        Engine::Sqlite | Engine::Postgres => "UPDATE customers SET name = '' || id, ssn = '' || id",
        Engine::Mariadb | Engine::Mysql => "UPDATE customers SET name = id, ssn = id",
    });
    desk.snapshot("first").await;
    desk.run(match engine {
        Engine::Sqlite | Engine::Postgres => {
            "UPDATE customers SET name = 'no number ' || id, ssn = 'none'"
        }
        Engine::Mariadb | Engine::Mysql => {
            "UPDATE customers SET name = concat('no number ', id), ssn = 'none'"
        }
    });
    for (session, count) in [(boss(), 3), (agent(), 2)] {
        let session = &session;
        for sql in [
            "SELECT count(*) AS n FROM customers WHERE CAST(name AS integer) > 0",
            "SELECT count(*) AS n FROM customers WHERE 1 / (CASE WHEN name LIKE 'no%' THEN 0 ELSE 1 END) = 1",
            "SELECT count(*) AS n FROM customers c JOIN orders o ON CAST(c.name AS integer) = o.customer WHERE o.total < 70 OR c.id > 0",
        ] {
            let sql = match engine {
                Engine::Mysql => sql.replace("AS integer", "AS SIGNED"),
                Engine::Sqlite | Engine::Postgres | Engine::Mariadb => sql.to_owned(),
            };
            let rows = desk.ask(session, &sql, Some("first")).await;
            let rows = rows.map_err(|code| format!("{sql}: {code:?}")).unwrap();
            assert!(rows[0]["n"].as_i64().unwrap() >= count - 1, "{sql}: {rows}");
        }
    }
    if engine == Engine::Postgres {
        // Cheaper than the conditions of the moment, so that the planner would begin with it.
        let sql = "SELECT count(*) AS n FROM orders WHERE chr(total) IS NOT NULL";
        let rows = desk.ask(&boss(), sql, Some("first")).await;
        assert_eq!(rows.unwrap()[0]["n"], 3);
    }
    // Of a row that has moved out of sight no value decides whether it fails.
    desk.run("UPDATE customers SET tenant = 'b' WHERE id = 2");
    let sql = "SELECT count(*) AS n FROM customers WHERE 1 / (id - 2) <> 7";
    let rows = desk.ask(&agent(), sql, Some("first")).await.unwrap();
    assert_eq!(rows[0]["n"], 1, "{engine:?}");
}

async fn snapshots_are_of_whoever_took_them(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("first").await;
    let again = desk.guard.create_snapshot("first", &agent()).await;
    assert_eq!(again.unwrap_err().rejection.code(), Code::RequestInvalid);
    for name in ["", "a b", "2026-01-01T00:00:00Z", &"x".repeat(65)] {
        let refused = desk.guard.create_snapshot(name, &agent()).await;
        assert_eq!(
            refused.unwrap_err().rejection.code(),
            Code::RequestInvalid,
            "{name}"
        );
    }
    let listed = desk.guard.list_snapshots(&agent()).unwrap();
    assert!(listed.len() == 1 && !listed[0].own);
    let refused = desk.guard.delete_snapshot("first", &agent()).unwrap_err();
    assert_eq!(refused.rejection.code(), Code::HistoryUnknown);
    desk.guard.delete_snapshot("first", &boss()).unwrap();
    assert!(desk.guard.list_snapshots(&boss()).unwrap().is_empty());
    let count = "SELECT count(*) AS n FROM customers";
    assert_eq!(
        desk.ask(&boss(), count, Some("first")).await,
        Err(Code::HistoryUnknown)
    );
}
