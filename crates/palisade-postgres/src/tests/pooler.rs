//! Behind PgBouncer in transaction mode, where each transaction may have another session of the server's.

use std::time::{Duration, Instant};

use palisade::{catalog::Change, guard::BackendErrorKind, session::Principal, value::Value};
use palisade_testkit::{ask::Ask as _, servers::PgBouncer};

use super::{ADVISORY_LOCKS, Kind, Query, Shop};
use crate::{PostgresBackend, PostgresConfig, SettingName};

const NOTES: &str = "
    CREATE TYPE app.mood AS ENUM ('sad', 'ok');
    CREATE TYPE app.colour AS ENUM ('red', 'blue');
    CREATE TABLE app.notes (id int PRIMARY KEY, owner text NOT NULL, mood app.mood, colour app.colour);
    INSERT INTO app.notes SELECT n, 'Agent::\"' || n % 4 || '\"', 'ok', 'red' FROM generate_series(1, 40) AS n;
    ALTER TABLE app.notes ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON app.notes USING (owner = current_setting('app.user', true));
    CREATE FUNCTION app.leaves() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM set_config('app.left', 'left', false), set_config('work_mem', '1GB', false), pg_advisory_lock(7); RETURN NEW; END $$;
    CREATE TABLE app.armed (a int);
    CREATE TRIGGER t BEFORE INSERT ON app.armed FOR EACH ROW EXECUTE FUNCTION app.leaves();
";

/// A shop behind a pooler with three sessions, and the pooler.
async fn pooled(label: &str, lines: &[&str]) -> (Shop, PgBouncer) {
    let shop = Shop::new(label).await;
    let agent = format!("agent_{}", shop.database);
    shop.ask(&format!(
        "{NOTES} GRANT ALL ON app.notes, app.armed TO {agent}"
    ));
    let pooler = PgBouncer::start_before(shop.server, &[&agent], lines).unwrap();
    let config = PostgresConfig::from_url(&pooler.url_as(&agent, &shop.database))
        .unwrap()
        .hand_principal(SettingName::parse("app.user").unwrap())
        .connections(8, 64)
        .writable()
        .pooled_by_transaction();
    let backend = PostgresBackend::connect(config).await.unwrap();
    (Shop { backend, ..shop }, pooler)
}

fn query(shop: &Shop, principal: &str, sql: &str) -> Query {
    let mut query = shop.query(sql);
    query.principal = Principal::new("Agent", principal);
    query.relations = vec!["app.notes".to_owned(), "app.armed".to_owned()];
    query.reads = ["id", "owner", "mood", "colour"]
        .map(|column| ("notes".to_owned(), column.to_owned()))
        .into();
    query
}

fn change(shop: &Shop, sql: &str, changed: (Change, &str, &str)) -> Query {
    let mut query = query(shop, "1", sql);
    let (change, table, column) = changed;
    query.kind = Kind::Change {
        writes: [(change, table.to_owned(), column.to_owned())].into(),
        triggers: ["leaves".to_owned()].into(),
        max_affected: 10,
    };
    query
}

/// What sessions of the pool have kept, looked at several times, since one never knows which it is.
fn left(pooler: &PgBouncer, shop: &Shop) -> Vec<String> {
    let sql = "SELECT concat_ws(' ', nullif(current_setting('app.user', true), ''), nullif(current_setting('app.left', true), ''), \
                 current_setting('work_mem'), current_setting('statement_timeout'), current_setting('default_transaction_read_only'), \
                 (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors))";
    let agent = format!("agent_{}", shop.database);
    let mut found: Vec<String> = (0..12)
        .map(|_| pooler.query_as(&agent, &shop.database, sql).unwrap())
        .collect();
    found.sort();
    found.dedup();
    found
}

async fn everything(label: &str, lines: &[&str]) {
    let (shop, pooler) = pooled(label, lines).await;
    let clean = left(&pooler, &shop);
    assert_eq!(clean.len(), 1, "{clean:?}");

    // Many at a time, each with parameters and types of the database's own, each for whom it is.
    let mut running = Vec::new();
    for round in 0..10_i64 {
        for principal in 0..4_i64 {
            let sql = "SELECT id, mood, colour FROM app.notes WHERE id > $1 AND mood = $2 AND colour = $3 ORDER BY id LIMIT 1";
            let params = [
                Value::Integer(4 * round),
                Value::text("ok"),
                Value::text("red"),
            ];
            let query = query(&shop, &principal.to_string(), sql).params(params);
            running.push(tokio::spawn(async move {
                (round, principal, query.run().await)
            }));
        }
    }
    for task in running {
        let (round, principal, rows) = task.await.unwrap();
        let rows = rows.unwrap_or_else(|error| panic!("{label} {round} {principal}: {error}"));
        let id = 4 * round + if principal == 0 { 4 } else { principal };
        assert_eq!(
            rows.rows,
            [[Value::Integer(id), Value::text("ok"), Value::text("red")]]
        );
    }

    // Changes are kept, or taken back as a whole.
    let update = "UPDATE app.notes SET mood = 'sad' WHERE id < $1 RETURNING id, mood";
    let update = |below: i64| {
        change(&shop, update, (Change::Update, "notes", "mood")).params([Value::Integer(below)])
    };
    let rows = update(10).run().await.unwrap();
    assert_eq!((rows.affected, rows.rows.len()), (Some(3), 3));
    let mut many = update(40);
    if let Kind::Change { max_affected, .. } = &mut many.kind {
        *max_affected = 3;
    }
    assert_eq!(many.fails().await.kind, BackendErrorKind::AffectedRows);
    assert_eq!(
        shop.ask("SELECT count(*) FROM app.notes WHERE mood = 'sad'"),
        "3"
    );
    // Somebody else's row.
    let other = "INSERT INTO app.notes VALUES (99, 'Agent::\"2\"')";
    change(&shop, other, (Change::Insert, "notes", ""))
        .fails()
        .await;

    // What a permitted trigger sets goes no further than its statement, kept though it is.
    for _ in 0..6 {
        let insert = change(
            &shop,
            "INSERT INTO app.armed VALUES (1)",
            (Change::Insert, "armed", ""),
        );
        assert_eq!(insert.run().await.unwrap().affected, Some(1));
    }
    assert_eq!(shop.ask(ADVISORY_LOCKS), "0");
    assert_eq!(left(&pooler, &shop), clean);

    // What runs out of time ends on the server, by its clock or by ours, and so does what no caller waits for.
    let slow = query(&shop, "1", "SELECT pg_sleep(60)");
    assert_eq!(
        slow.clone().within_ms(200).fails().await.kind,
        BackendErrorKind::Timeout
    );
    let lifted = "SELECT set_config('statement_timeout', '0', true), pg_sleep(60)";
    let lifted = query(&shop, "1", lifted).within_ms(200);
    lifted.fails().await;
    let waiting = tokio::spawn(async move { slow.within_ms(60_000).run().await.map(drop) });
    tokio::time::sleep(Duration::from_millis(300)).await;
    waiting.abort();
    let deadline = Instant::now() + Duration::from_secs(30);
    while shop.busy().contains("pg_sleep") {
        assert!(Instant::now() < deadline, "{}", shop.busy());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(left(&pooler, &shop), clean);
    // A schema that changes is noticed through it as well.
    shop.ask("CREATE TABLE app.later (a int)");
    assert!(shop.backend.refresh().await.unwrap().is_some());
}

#[tokio::test]
#[ignore = "needs PgBouncer: cargo xtask test runs it"]
async fn pgbouncer_gives_each_transaction_a_session() {
    everything("pooled", &["max_prepared_statements = 0"]).await;
}

#[tokio::test]
#[ignore = "needs PgBouncer: cargo xtask test runs it"]
async fn pgbouncer_that_knows_prepared_statements_gives_each_transaction_a_session() {
    everything("prepared", &["max_prepared_statements = 100"]).await;
}

/// Others who use the pooler keep what it keeps for them.
#[tokio::test]
#[ignore = "needs PgBouncer: cargo xtask test runs it"]
async fn pgbouncer_keeps_the_statements_of_others() {
    let (shop, pooler) = pooled("others", &["max_prepared_statements = 100"]).await;
    let url = pooler.url_as(&format!("agent_{}", shop.database), &shop.database);
    let other = crate::connect(&url).await.unwrap();
    let statement = other.prepare("SELECT $1::int + 1").await.unwrap();
    for n in 0..20 {
        let ours = query(&shop, "1", "SELECT count(*) FROM app.notes");
        assert_eq!(ours.cell().await, Value::Integer(10));
        let row = other.query_one(&statement, &[&n]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), n + 1);
    }
}
