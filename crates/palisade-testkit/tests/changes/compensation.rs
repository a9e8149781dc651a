//! Changes that are undone, on every engine: exactly what they wrote, and nothing where that cannot be.

use std::sync::Arc;

use palisade::{
    change::{ChangeState, ChangeStore},
    code::Code,
    guard::{ChangeCall, ChangeProposal, ChangeView, Guard, PreviewedChange, Refusal},
    session::{Principal, Session},
    value::Params,
};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::{
    any_database::AnyDatabase,
    database::{TestDatabase, TestFile},
};

/// What the engines spell alike; `KEY` is a key that the engine gives, and `TYPES` columns of many types.
const TABLES: &str = "
CREATE TABLE customers (id integer PRIMARY KEY, tenant varchar(9) NOT NULL, name varchar(20) UNIQUE, ssn varchar(20), plan varchar(9));
CREATE TABLE orders (id KEY, customer integer, total integer, parent integer,
    FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE,
    FOREIGN KEY (parent) REFERENCES orders (id));
CREATE TABLE items (order_id integer, line integer, what varchar(20), PRIMARY KEY (order_id, line),
    FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE);
CREATE TABLE notes (id integer PRIMARY KEY, customer integer, text varchar(20),
    FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE SET NULL);
CREATE TABLE gifts (id integer PRIMARY KEY, customer integer, secret varchar(9), FOREIGN KEY (customer) REFERENCES customers (id));
CREATE TABLE cards (id integer PRIMARY KEY, customer integer, FOREIGN KEY (customer) REFERENCES customers (id));
CREATE TABLE loose (word varchar(9));
CREATE TABLE kinds (id integer PRIMARY KEY, TYPES);
INSERT INTO customers VALUES (1, 'a', 'Ada', 'SECRET-1', 'free'), (2, 'a', 'Bob', 'SECRET-2', 'free'), (3, 'b', 'Cyd', 'SECRET-3', 'free');
INSERT INTO orders (customer, total, parent) VALUES (1, 10, NULL), (1, 20, 1), (3, 30, NULL);
INSERT INTO items VALUES (1, 1, 'pen'), (1, 2, 'ink'), (2, 1, 'it''s \"x\"');
INSERT INTO notes VALUES (1, 1, 'of Ada'), (2, 2, NULL);
INSERT INTO loose VALUES ('x');
";

const IMAGES: &str = "CREATE TABLE palisade_images (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL, image LONG NOT NULL, PRIMARY KEY (change_id, part));";

const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action == Action::"see", resource is row::SCHEMA::customers)
  when { principal != User::"boss" && resource.tenant == "b" };
forbid (principal, action == Action::"read_plain", resource == Column::"SCHEMA.customers.ssn")
  when { principal != User::"boss" && principal != Agent::"clerk" };
forbid (principal, action == Action::"read_plain", resource == Column::"SCHEMA.gifts.secret")
  when { principal != User::"boss" };
forbid (principal == Agent::"remover", action in [Action::"insert", Action::"add"], resource);
"#;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Sqlite,
    Postgres,
    Mariadb,
}

struct Desk {
    guard: Guard,
    database: AnyDatabase,
    engine: Engine,
}

impl Engine {
    /// The tables in this engine's words, after which `more` runs.
    fn script(self, more: &str) -> String {
        let (key, types, long) = match self {
            Self::Sqlite => (
                "INTEGER PRIMARY KEY AUTOINCREMENT",
                "flag, amount, ratio real, at, doc, raw, twice GENERATED ALWAYS AS (id * 2) STORED",
                "text",
            ),
            Self::Postgres => (
                "serial PRIMARY KEY",
                "flag boolean, amount numeric(30, 10), ratio double precision, at timestamptz, doc jsonb, raw bytea, twice integer GENERATED ALWAYS AS (id * 2) STORED, tags text[], small real",
                "text",
            ),
            Self::Mariadb => (
                "integer PRIMARY KEY AUTO_INCREMENT",
                "flag boolean, amount decimal(30, 10), ratio double, at datetime(6), doc text, raw blob, twice integer AS (id * 2) STORED, big bigint unsigned, small float",
                "longtext",
            ),
        };
        let script = TABLES.replace("id KEY", &format!("id {key}"));
        let images = IMAGES.replace("LONG", long);
        format!("{}{images}{more}", script.replace("TYPES", types))
    }

    /// Rows with values that are hard to write down.
    fn odd_rows(self) -> &'static str {
        match self {
            Self::Sqlite => {
                "INSERT INTO kinds (id, flag, amount, ratio, at, doc, raw) VALUES
                   (1, 1, 12345678901234567, 0.1, '2026-02-29', '{\"a\": [1]}', x'00ff27'),
                   (2, NULL, '007', -1e300, '', 'é \u{1F600} \\ '' \"', x''), (3, 0, 1.5, 9007199254740993.0, NULL, NULL, NULL)"
            }
            Self::Postgres => {
                "INSERT INTO kinds (id, flag, amount, ratio, at, doc, raw, tags, small) VALUES
                   (1, true, 12345678901234567890.0123456789, 0.1, '2026-02-28 23:59:59.123456+05', '{\"a\": [1, null]}', '\\x00ff27', '{a,\"b,c\",NULL}', 0.1),
                   (2, NULL, -0.5, 'NaN', 'infinity', 'null', '\\x', '{}', 'Infinity'), (3, false, NULL, 1e-300, NULL, NULL, NULL, NULL, NULL)"
            }
            Self::Mariadb => {
                "INSERT INTO kinds (id, flag, amount, ratio, at, doc, raw, big, small) VALUES
                   (1, true, 12345678901234567890.0123456789, 0.1, '2026-02-28 23:59:59.123456', '{\"a\": [1]}', x'00ff27', 18446744073709551615, 0.5),
                   (2, NULL, -0.5, -1e300, '1000-01-01 00:00:00', 'é \u{1F600} \\\\ '' \"', x'', 0, -2.25), (3, false, NULL, 1e-300, NULL, NULL, NULL, NULL, NULL)"
            }
        }
    }
}

impl Desk {
    async fn new(engine: Engine, more: &str) -> Self {
        Self::with_triggers(engine, more, &[]).await
    }

    /// With policies that permit to set off these.
    async fn with_triggers(engine: Engine, more: &str, triggers: &[&str]) -> Self {
        let script = engine.script(more);
        let policies = |schema: &str| {
            let permits = triggers.iter().map(|name| {
                format!("permit (principal, action == Action::\"call\", resource == Function::\"{name}\");\n")
            });
            let permits: String = permits.collect();
            policy_sources(&(permits + &POLICIES.replace("SCHEMA", schema)))
        };
        let (gate, database) = match engine {
            Engine::Sqlite => {
                let file = TestFile::new(&script);
                let gate = changing_gate(file.backend(), policies("main"));
                (gate, AnyDatabase::File(file))
            }
            Engine::Postgres => {
                let database = TestDatabase::postgres("undone", &script);
                let gate = changing_gate(database.postgres_backend().await, policies("public"));
                (gate, AnyDatabase::Server(database))
            }
            Engine::Mariadb => {
                let database = TestDatabase::mariadb("undone", &script);
                let policies = policies(database.name());
                let gate = changing_gate(database.mysql_backend().await, policies);
                (gate, AnyDatabase::Server(database))
            }
        };
        let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
        Self {
            guard: gate.with_changes(store as Arc<dyn ChangeStore>),
            database,
            engine,
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

    /// All rows of all tables.
    fn contents(&self) -> String {
        let kinds = match self.engine {
            Engine::Sqlite => {
                "id, typeof(flag), flag, typeof(amount), amount, ratio, typeof(at), at, doc, hex(raw), typeof(raw), twice"
            }
            Engine::Postgres => {
                "id, flag, amount, ratio, at, doc, raw, typeof(raw), twice, tags, small"
            }
            Engine::Mariadb => {
                "id, flag, amount, ratio, at, doc, hex(raw), isnull(raw), twice, big, small"
            }
        };
        let kinds = kinds.replace(
            "typeof(raw)",
            match self.engine {
                Engine::Sqlite => "typeof(raw)",
                Engine::Postgres | Engine::Mariadb => "raw IS NULL",
            },
        );
        let tables = [
            ("customers", "id, tenant, name, ssn, plan", "id"),
            ("orders", "id, customer, total, parent", "id"),
            ("items", "order_id, line, what", "order_id, line"),
            ("notes", "id, customer, text", "id"),
            ("loose", "word", "word"),
            ("kinds", &kinds, "id"),
        ];
        let rows = tables.map(|(table, columns, order)| {
            let row = columns.split(", ").map(|column| match self.engine {
                Engine::Sqlite | Engine::Postgres => format!("coalesce(CAST({column} AS text), '-')"),
                Engine::Mariadb => format!("coalesce(CAST({column} AS char), '-')"),
            });
            let row = format!("concat_ws(',', {})", row.collect::<Vec<_>>().join(", "));
            let all = match self.engine {
                Engine::Sqlite => format!("SELECT group_concat({row}, '|' ORDER BY {order}) FROM {table}"),
                Engine::Postgres => format!("SELECT coalesce(string_agg({row}, '|' ORDER BY {order}), '') FROM {table}"),
                Engine::Mariadb => format!(
                    "SELECT coalesce(GROUP_CONCAT({row} ORDER BY {order} SEPARATOR '|'), '') FROM {table}"
                ),
            };
            format!("{table}: {}", self.value(&all))
        });
        rows.join("\n")
    }

    /// Keeps a change of these statements.
    async fn keep(&self, session: &Session, statements: &[&str]) -> String {
        let statements: Vec<(String, Params)> = statements
            .iter()
            .map(|sql| ((*sql).to_owned(), Params::None))
            .collect();
        let call = ChangeCall::new(session);
        let proposed = self
            .guard
            .propose_change(ChangeProposal::new(&statements), call);
        let id = proposed
            .await
            .unwrap_or_else(|why| panic!("{why:?}"))
            .change;
        self.finish(session, &id).await;
        id
    }

    async fn finish(&self, session: &Session, id: &str) -> PreviewedChange {
        let call = ChangeCall::new(session);
        let looked = self.guard.validate_change(id, call).await;
        let looked = looked.unwrap_or_else(|why| panic!("{why:?}"));
        let kept = self.guard.commit_change(id, call).await;
        let kept = kept.unwrap_or_else(|why| panic!("{why:?}"));
        assert_eq!(kept.state, ChangeState::Committed);
        looked
    }

    async fn propose_undo(&self, session: &Session, id: &str) -> Result<ChangeView, Refusal> {
        let call = ChangeCall::new(session);
        self.guard.compensate_change(id, Some("a test"), call).await
    }

    /// Undoes a change; the change that does.
    async fn undo(&self, session: &Session, id: &str) -> (String, PreviewedChange) {
        let proposed = self.propose_undo(session, id).await;
        let proposed = proposed.unwrap_or_else(|why| panic!("{why:?}"));
        assert_eq!(proposed.compensates.as_deref(), Some(id));
        assert!(proposed.statements.is_empty());
        let looked = self.finish(session, &proposed.change).await;
        (proposed.change, looked)
    }

    async fn state(&self, session: &Session, id: &str) -> ChangeState {
        let looked = self
            .guard
            .inspect_change(id, ChangeCall::new(session))
            .await;
        looked.unwrap_or_else(|why| panic!("{why:?}")).view.state
    }

    /// Why a change cannot be undone, once it is proposed.
    async fn conflict(&self, session: &Session, id: &str) -> String {
        let before = self.contents();
        let proposed = self.propose_undo(session, id).await;
        let proposed = proposed.unwrap_or_else(|why| panic!("{why:?}"));
        let call = ChangeCall::new(session);
        let refusal = self.guard.validate_change(&proposed.change, call).await;
        let refusal = refusal.unwrap_err();
        assert_eq!(
            refusal.rejection.code(),
            Code::ChangeConflict,
            "{refusal:?}"
        );
        assert_eq!(self.contents(), before);
        self.guard.reject_change(&proposed.change, session).unwrap();
        refusal.rejection.to_string()
    }

    async fn refusal(&self, session: &Session, id: &str) -> String {
        let refusal = self.propose_undo(session, id).await.unwrap_err();
        assert_eq!(
            refusal.rejection.code(),
            Code::ChangeNotCompensable,
            "{refusal:?}"
        );
        refusal.rejection.to_string()
    }
}

fn agent() -> Session {
    Session::new(Principal::new("Agent", "bot"))
}

fn boss() -> Session {
    Session::new(Principal::new("User", "boss"))
}

/// Everything that one change did is set back: new, changed and deleted rows, what foreign keys did, and values that are unique.
async fn sets_everything_back(desk: &Desk) {
    let boss = boss();
    let start = desk.contents();
    let id = desk
        .keep(
            &boss,
            &[
                "UPDATE customers SET plan = 'pro' WHERE tenant = 'a'",
                "INSERT INTO orders (customer, total, parent) VALUES (2, 5, 1)",
                "DELETE FROM items WHERE what = 'ink'",
                "UPDATE items SET what = NULL WHERE order_id = 1",
                "DELETE FROM customers WHERE id = 3",
                "UPDATE customers SET name = 'Cyd' WHERE id = 2",
                "INSERT INTO customers VALUES (9, 'a', 'Bob', '', NULL)",
                "DELETE FROM kinds WHERE id < 3",
                "UPDATE kinds SET ratio = 1, doc = NULL WHERE id = 3",
            ],
        )
        .await;
    let changed = desk.contents();
    assert_ne!(start, changed);
    let (undone, _) = desk.undo(&boss, &id).await;
    assert_eq!(desk.contents(), start);
    assert_eq!(desk.state(&boss, &id).await, ChangeState::Compensated);
    let again = desk.propose_undo(&boss, &id).await.unwrap_err();
    assert_eq!(again.rejection.code(), Code::ChangeWrongState);
    // What undid it is a change too.
    desk.undo(&boss, &undone).await;
    assert_eq!(desk.contents(), changed);
    assert_eq!(desk.state(&boss, &undone).await, ChangeState::Compensated);
    // Rows whose references were set to NULL refer to the row again.
    let start = desk.contents();
    let id = desk
        .keep(&boss, &["DELETE FROM customers WHERE id = 2"])
        .await;
    assert_eq!(
        desk.value("SELECT count(*) FROM notes WHERE customer IS NULL"),
        "1"
    );
    desk.undo(&boss, &id).await;
    assert_eq!(desk.contents(), start);
}

/// What others wrote into other columns stays; what they wrote into the same, or hung on a row, is a conflict.
async fn respects_what_came_later(desk: &Desk) {
    let (agent, boss) = (agent(), boss());
    let id = desk
        .keep(&agent, &["UPDATE customers SET plan = 'pro' WHERE id = 1"])
        .await;
    desk.run("UPDATE customers SET plan = 'max' WHERE id = 1");
    // The agent does not see all customers, and is told of no row.
    let told = desk.conflict(&agent, &id).await;
    assert!(!told.contains("id=1"), "{told}");
    let told = desk.conflict(&boss, &id).await;
    assert!(told.contains("customers id=1"), "{told}");
    desk.run("UPDATE customers SET plan = 'pro', name = 'Eve' WHERE id = 1");
    desk.undo(&agent, &id).await;
    assert_eq!(
        desk.value("SELECT name FROM customers WHERE id = 1 AND plan = 'free'"),
        "Eve"
    );
    // A row that is gone.
    let id = desk
        .keep(&boss, &["UPDATE items SET what = 'cap' WHERE order_id = 2"])
        .await;
    desk.run("DELETE FROM items WHERE order_id = 2");
    let told = desk.conflict(&boss, &id).await;
    assert!(told.contains("items line=1, order_id=2"), "{told}");
    // A row that came, and hangs on one that is to go.
    let id = desk
        .keep(
            &boss,
            &["INSERT INTO orders (customer, total) VALUES (2, 77)"],
        )
        .await;
    desk.run("INSERT INTO items SELECT id, 1, 'late' FROM orders WHERE total = 77");
    let told = desk.conflict(&boss, &id).await;
    assert!(told.contains("items line=1"), "{told}");
    desk.run("DELETE FROM items WHERE what = 'late'");
    // One whose reference forbids that: the engine refuses it, and its key is told all the same.
    let parent = "INSERT INTO orders (customer, total, parent) SELECT NULL, 79, id FROM orders WHERE total = 77";
    let child = |desk: &Desk| desk.value("SELECT id FROM orders WHERE total = 79");
    desk.run(&match desk.engine {
        Engine::Sqlite | Engine::Postgres => parent.to_owned(),
        // It reads its own table by a copy alone.
        Engine::Mariadb => parent.replace("FROM orders", "FROM (SELECT * FROM orders) o"),
    });
    let late = child(desk);
    let told = desk.conflict(&boss, &id).await;
    assert!(told.contains(&format!("orders id={late}")), "{told}");
    // Between the look and the end, too.
    desk.run("UPDATE orders SET parent = NULL WHERE total = 79");
    let proposed = desk.propose_undo(&boss, &id).await.unwrap().change;
    let call = ChangeCall::new(&boss);
    desk.guard.validate_change(&proposed, call).await.unwrap();
    let own = desk.value("SELECT id FROM orders WHERE total = 77");
    desk.run(&format!(
        "UPDATE orders SET parent = {own} WHERE total = 79"
    ));
    let refused = desk.guard.commit_change(&proposed, call).await.unwrap_err();
    let told = refused.rejection.to_string();
    assert_eq!(refused.rejection.code(), Code::ChangeConflict, "{told}");
    assert!(told.contains(&format!("orders id={late}")), "{told}");
    desk.run("DELETE FROM orders WHERE total = 79");
    // A new row that was changed since.
    desk.run("UPDATE orders SET total = 78 WHERE total = 77");
    desk.conflict(&boss, &id).await;
    desk.run("UPDATE orders SET total = 77 WHERE total = 78");
    // What others change between the look and the end is a conflict as well.
    let proposed = desk.propose_undo(&boss, &id).await.unwrap().change;
    let call = ChangeCall::new(&boss);
    desk.guard.validate_change(&proposed, call).await.unwrap();
    desk.run("UPDATE orders SET total = 78 WHERE total = 77");
    let late = desk.guard.commit_change(&proposed, call).await.unwrap_err();
    assert_eq!(late.rejection.code(), Code::ChangeConflict);
    assert_eq!(
        desk.value("SELECT count(*) FROM orders WHERE total = 78"),
        "1"
    );
    // A value that is unique and was taken since: told as it is, and of no value.
    let id = desk
        .keep(&boss, &["UPDATE customers SET name = 'Zoe' WHERE id = 2"])
        .await;
    desk.run("INSERT INTO customers VALUES (7, 'b', 'Bob', 'SECRET-7', 'free')");
    let told = desk.conflict(&boss, &id).await;
    assert!(!told.contains("Bob"), "{told}");
    // Rows that refer to what would be removed are named to whoever sees all of their table alone.
    let clerk = Session::new(Principal::new("Agent", "clerk"));
    let sql = "INSERT INTO customers VALUES (8, 'a', 'Hal', NULL, 'free')";
    let id = desk.keep(&clerk, &[sql]).await;
    desk.run("INSERT INTO gifts VALUES (41, 8, 'hush')");
    let told = desk.conflict(&boss, &id).await;
    assert!(told.contains("gifts id=41"), "{told}");
    let hidden = desk.conflict(&clerk, &id).await;
    assert!(!hidden.contains("41"), "{hidden}");
    desk.run("INSERT INTO cards VALUES (42, 8)");
    let told = desk.conflict(&clerk, &id).await;
    assert!(
        told.contains("cards id=42") && !told.contains("41"),
        "{told}"
    );
}

/// Nothing of hidden values is told, and policies decide over what is written.
async fn stays_within_policy(desk: &Desk) {
    let agent = agent();
    // A masked column: whether it had that value already would tell what it is.
    let mut refusals = Vec::new();
    for guess in ["new", "new", "SECRET-1"] {
        let sql = format!("UPDATE customers SET ssn = '{guess}' WHERE id = 1");
        let id = desk.keep(&agent, &[&sql]).await;
        refusals.push(desk.refusal(&agent, &id).await);
    }
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    // Another column of that row, beside the masked one.
    let id = desk
        .keep(
            &agent,
            &["UPDATE customers SET plan = 'pro' WHERE tenant = 'a'"],
        )
        .await;
    let (undo, looked) = desk.undo(&agent, &id).await;
    assert_eq!(
        desk.value("SELECT count(*) FROM customers WHERE plan = 'free'"),
        "3"
    );
    let receipts = desk.guard.list_receipts(&agent).unwrap();
    let inspected = desk
        .guard
        .inspect_change(&undo, ChangeCall::new(&agent))
        .await;
    let rows = looked.preview.unwrap().rows;
    let told = format!(
        "{:?} {:?} {:?} {} {}",
        looked.view,
        receipts,
        inspected.unwrap().view,
        rows.delimited_text(),
        rows.table_text()
    );
    assert!(!told.contains("SECRET") && !told.contains("Cyd"), "{told}");
    // A deleted row has its masked cells, too.
    let id = desk
        .keep(&agent, &["DELETE FROM customers WHERE id = 2"])
        .await;
    desk.refusal(&agent, &id).await;
    desk.undo(&boss(), &id).await;
    // Who may delete and not insert does not undo a delete. What that takes is not told.
    let remover = Session::new(Principal::new("Agent", "remover"));
    let id = desk
        .keep(&remover, &["DELETE FROM notes WHERE id = 1"])
        .await;
    let why = desk.refusal(&remover, &id).await;
    assert!(!why.contains("notes") && !why.contains("insert"), "{why}");
    // Somebody else does, who may approve such a change.
    desk.undo(&boss(), &id).await;
    assert_eq!(desk.value("SELECT text FROM notes WHERE id = 1"), "of Ada");
    // Whoever may know of no such change is told of none.
    let stranger = desk.propose_undo(&agent, "nothing").await.unwrap_err();
    assert_eq!(stranger.rejection.code(), Code::ChangeUnknown);
    // No statement reaches the images.
    for sql in [
        "SELECT image FROM palisade_images",
        "DELETE FROM palisade_images WHERE part = 0",
    ] {
        let told = desk.guard.execute(sql, &Params::None, &boss()).await;
        let told = told.into_result().unwrap_err();
        assert_eq!(told.rejection.code(), Code::NameUnknownRelation, "{sql}");
    }
}

/// Without images that are as they were written, nothing is undone.
async fn needs_its_images(desk: &Desk) {
    let boss = boss();
    let keep = || desk.keep(&boss, &["UPDATE notes SET text = 'x' WHERE id = 2"]);
    let back = "UPDATE notes SET text = NULL WHERE id = 2";
    // Of a table without a key, a row is not found again.
    let id = desk
        .keep(&boss, &["UPDATE loose SET word = 'y' WHERE word = 'x'"])
        .await;
    desk.refusal(&boss, &id).await;
    let id = keep().await;
    desk.run("UPDATE palisade_images SET image = replace(image, 'null', 'integer 5')");
    let why = desk.refusal(&boss, &id).await;
    assert!(why.contains("edited"), "{why}");
    desk.run(back);
    let id = keep().await;
    assert_eq!(desk.guard.prune_images(0).await, Ok(Some(0)));
    assert_eq!(desk.guard.prune_images(1).await, Ok(Some(3)));
    let why = desk.refusal(&boss, &id).await;
    assert!(why.contains("pruned"), "{why}");
    // A column that came since.
    desk.run(back);
    let id = desk.keep(&boss, &["DELETE FROM notes WHERE id = 2"]).await;
    desk.run("ALTER TABLE notes ADD COLUMN more integer");
    desk.guard.refresh().await.unwrap();
    let why = desk.refusal(&boss, &id).await;
    assert!(why.contains("other columns"), "{why}");
    desk.run("DROP TABLE palisade_images");
    desk.guard.refresh().await.unwrap();
    let id = desk
        .keep(&boss, &["UPDATE notes SET text = 'x' WHERE id = 1"])
        .await;
    let why = desk.refusal(&boss, &id).await;
    assert!(why.contains("setup-sql"), "{why}");
    assert_eq!(desk.guard.prune_images(1).await, Ok(None));
}

macro_rules! on_every_engine {
    ($($name:ident)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let engine = super::Engine::Sqlite;
                super::$name(&super::Desk::new(engine, engine.odd_rows()).await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let engine = super::Engine::Postgres;
                super::$name(&super::Desk::new(engine, engine.odd_rows()).await).await;
            })*
        }
        mod mariadb {
            $(#[tokio::test]
            async fn $name() {
                let engine = super::Engine::Mariadb;
                super::$name(&super::Desk::new(engine, engine.odd_rows()).await).await;
            })*
        }
    };
}

on_every_engine! { sets_everything_back respects_what_came_later stays_within_policy needs_its_images }

/// On SQLite, what triggers did is undone as well, and they are not set off again. They are, by the next change.
#[tokio::test]
async fn triggers_stay_off_on_sqlite() {
    let log = "CREATE TABLE log (id INTEGER PRIMARY KEY, what text);
        CREATE TRIGGER noted AFTER UPDATE ON notes BEGIN INSERT INTO log (what) VALUES ('note ' || OLD.id); END;";
    let desk = Desk::with_triggers(Engine::Sqlite, log, &["main.noted"]).await;
    let boss = boss();
    let start = desk.contents();
    let id = desk
        .keep(&boss, &["UPDATE notes SET text = 'new' WHERE id = 1"])
        .await;
    assert_eq!(desk.value("SELECT count(*) FROM log"), "1");
    desk.undo(&boss, &id).await;
    assert_eq!(desk.contents(), start);
    assert_eq!(desk.value("SELECT count(*) FROM log"), "0");
    desk.keep(&boss, &["UPDATE notes SET text = 'new' WHERE id = 1"])
        .await;
    assert_eq!(desk.value("SELECT count(*) FROM log"), "1");
}

/// On PostgreSQL triggers run: what they do to other rows than the change did is a conflict, what they leave as it was is none.
#[tokio::test]
async fn triggers_run_on_postgres() {
    let log = "CREATE TABLE log (id serial PRIMARY KEY, what text);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.log (what) VALUES (OLD.id); RETURN NULL; END $$;
        CREATE TRIGGER noted AFTER UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION note();
        CREATE FUNCTION tidy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.what := trim(NEW.what); RETURN NEW; END $$;
        CREATE TRIGGER tidied BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION tidy();";
    let triggers = ["public.note", "public.tidy"];
    let desk = Desk::with_triggers(Engine::Postgres, log, &triggers).await;
    let boss = boss();
    let start = desk.contents();
    let id = desk
        .keep(
            &boss,
            &["UPDATE items SET what = ' cap ' WHERE order_id = 1"],
        )
        .await;
    assert_eq!(
        desk.value("SELECT what FROM items WHERE order_id = 1 AND line = 1"),
        "cap"
    );
    desk.undo(&boss, &id).await;
    assert_eq!(desk.contents(), start);
    let id = desk
        .keep(&boss, &["UPDATE notes SET text = 'new' WHERE id = 1"])
        .await;
    desk.conflict(&boss, &id).await;
}
