//! The principal is handed to the server, whose own row-level security goes by it.

use palisade::{catalog::Change, guard::BackendErrorKind, session::Principal, value::Value};
use palisade_testkit::ask::Ask as _;

use super::{Kind, Query, Shop};
use crate::SettingName;

const NOTES: &str = "
    CREATE TABLE app.notes (id int PRIMARY KEY, owner text NOT NULL);
    INSERT INTO app.notes VALUES (1, 'Agent::\"a\"'), (2, 'Agent::\"o''clock\"'), (3, 'User::\"a\"');
    ALTER TABLE app.notes ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON app.notes USING (owner = current_setting('app.user', true));
";

/// A shop whose server is told who asks, over a single session.
async fn notes(label: &str) -> Shop {
    let name = SettingName::parse("app.user").unwrap();
    let configure =
        |config: crate::PostgresConfig| config.hand_principal(name).connections(1, 8).writable();
    let mut shop = Shop::with(label, configure).await;
    let database = &shop.database;
    shop.ask(&format!(
        "{NOTES} GRANT ALL ON app.notes TO agent_{database}"
    ));
    shop.backend = shop.backend.refresh().await.unwrap().unwrap();
    shop
}

fn query(shop: &Shop, principal: &Principal, sql: &str) -> Query {
    let mut query = shop.query(sql);
    query.principal = principal.clone();
    query.relations = vec!["app.notes".to_owned()];
    query.reads = ["id", "owner"]
        .map(|column| ("notes".to_owned(), column.to_owned()))
        .into();
    query
}

fn insert(shop: &Shop, principal: &Principal, row: &str) -> Query {
    let mut query = query(
        shop,
        principal,
        &format!("INSERT INTO app.notes VALUES {row}"),
    );
    query.kind = Kind::Change {
        writes: [(Change::Insert, "notes".to_owned(), String::new())].into(),
        triggers: [].into(),
        max_affected: 10,
    };
    query
}

#[tokio::test]
async fn row_level_security_sees_who_asks() {
    let shop = notes("principal").await;
    let ids = async |principal: &Principal| {
        let rows = query(&shop, principal, "SELECT id FROM app.notes ORDER BY id")
            .run()
            .await
            .unwrap();
        rows.rows.into_iter().flatten().collect::<Vec<_>>()
    };
    // In turns, through one session: each sees its own, whatever its name holds.
    for _ in 0..2 {
        assert_eq!(
            ids(&Principal::new("Agent", "a")).await,
            [Value::Integer(1)]
        );
        assert_eq!(
            ids(&Principal::new("Agent", "o'clock")).await,
            [Value::Integer(2)]
        );
        assert_eq!(ids(&Principal::new("User", "a")).await, [Value::Integer(3)]);
        assert_eq!(ids(&Principal::new("User", "b")).await, []);
    }
    // A change is held to it as well.
    let agent = Principal::new("Agent", "a");
    let rows = insert(&shop, &agent, "(4, 'Agent::\"a\"')")
        .run()
        .await
        .unwrap();
    assert_eq!(rows.affected, Some(1));
    insert(&shop, &agent, "(5, 'User::\"a\"')").fails().await;
    assert_eq!(shop.ask("SELECT count(*) FROM app.notes"), "4");
}

#[tokio::test]
async fn nothing_of_it_remains_and_no_statement_changes_it() {
    let shop = notes("handed").await;
    let agent = Principal::new("Agent", "a");
    query(&shop, &agent, "SELECT id FROM app.notes")
        .run()
        .await
        .unwrap();
    let mut lease = shop.backend.pool.lease().await.unwrap();
    assert!(lease.is_reused());
    let client = &lease.session().unwrap().client;
    let sql = "SELECT coalesce(current_setting('app.user', true), '')";
    let left: String = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(left, "");
    lease.give_back().await;
    // Even where the decision let it be called.
    let mut other = query(
        &shop,
        &agent,
        "SELECT set_config('app.user', 'User::\"a\"', true), id FROM app.notes",
    );
    other.functions = ["pg_catalog.set_config".to_owned()].into();
    assert_eq!(other.fails().await.kind, BackendErrorKind::SecondLock);
}

#[test]
fn names_of_settings_are_of_our_own() {
    for name in ["app.user", "_a.b_1", "app.request.user"] {
        assert_eq!(SettingName::parse(name).unwrap().as_str(), name);
    }
    for name in [
        "",
        "role",
        "row_security",
        "search_path",
        "app.",
        ".user",
        "App.user",
        "app user.x",
        "app.us er",
        "app.1",
        "a-b.c",
    ] {
        assert!(SettingName::parse(name).is_none(), "{name}");
    }
}
