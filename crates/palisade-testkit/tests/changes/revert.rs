//! Tables that are set back to how they were, on every engine with history: exactly, as a change like any other, and by those alone who
//! see all of the table.

use palisade::{
    code::Code,
    guard::{ChangeCall, ChangeView, Moments},
    past::HistoryOrder,
    rejection::Rejection,
    session::Session,
};
use serde_json::Value;

use crate::history::{Desk, Engine, agent, boss, on_every_engine};

on_every_engine! {
    a_table_is_set_back_and_that_is_undone
    what_was_written_meanwhile_is_a_conflict
    others_rows_are_not_taken_along
    whoever_sees_a_part_sets_nothing_back
    what_was_pruned_is_refused_whole
    every_type_comes_back_as_it_was
}

/// Proposes to set `table` back.
async fn propose(
    desk: &Desk,
    session: &Session,
    table: &str,
    to: &str,
) -> Result<ChangeView, Rejection> {
    let beside = (to, Some("it was better"));
    let table = desk.name_table(table);
    let proposed = desk
        .guard
        .revert_table(&table, beside, ChangeCall::new(session));
    proposed.await.map_err(|refusal| refusal.rejection)
}

/// Validates a change, and keeps it: the rows that it shows.
async fn keep(desk: &Desk, session: &Session, id: &str) -> Result<Value, Rejection> {
    let looked = desk
        .guard
        .validate_change(id, ChangeCall::new(session))
        .await
        .map_err(|refusal| refusal.rejection)?;
    let kept = desk
        .guard
        .commit_change(id, ChangeCall::new(session))
        .await
        .map_err(|refusal| refusal.rejection)?;
    assert!(kept.receipt.is_some());
    let shown = serde_json::to_value(looked.preview.unwrap().rows).unwrap();
    Ok(shown["rows"].clone())
}

async fn set_back(desk: &Desk, table: &str, to: &str) -> Value {
    let session = boss();
    let view = propose(desk, &session, table, to).await.unwrap();
    let revert = view.reverts.as_ref().unwrap();
    assert!(revert.table.ends_with(table), "{view:?}");
    assert_eq!(revert.to.snapshot.as_deref(), Some(to));
    assert!(view.statements.is_empty());
    keep(desk, &session, &view.change).await.unwrap()
}

async fn a_table_is_set_back_and_that_is_undone(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("before").await;
    let before = desk.contents(None).await;
    for sql in [
        "UPDATE orders SET total = 11 WHERE id = 1",
        "UPDATE orders SET id = 22 WHERE id = 2",
        "DELETE FROM orders WHERE id = 3",
        "INSERT INTO orders VALUES (4, 1, 40)",
        "UPDATE customers SET name = 'Bobby', ssn = NULL WHERE id = 2",
        "DELETE FROM pieces WHERE line = 2",
        "INSERT INTO pieces VALUES (4, 1, 'ink')",
    ] {
        desk.run(sql);
    }
    let wrong = desk.contents(None).await;
    let shown = set_back(&desk, "orders", "before").await.to_string();
    assert!(
        shown.contains("id=22") && shown.contains("delete"),
        "{shown}"
    );
    for table in ["customers", "pieces"] {
        set_back(&desk, table, "before").await;
    }
    assert_eq!(desk.contents(None).await, before, "{engine:?}");
    let session = boss();
    let again = propose(&desk, &session, "orders", "before")
        .await
        .unwrap_err();
    assert_eq!(again.code(), Code::ChangeNotCompensable);
    assert!(again.message().contains("as it was"), "{again:?}");
    // What set a table back is a change as any other.
    let all = desk.guard.list_changes(&session).unwrap();
    for change in all {
        let undoing = desk
            .guard
            .compensate_change(&change.change, None, ChangeCall::new(&session))
            .await
            .map_err(|refusal| refusal.rejection)
            .unwrap();
        keep(&desk, &session, &undoing.change).await.unwrap();
    }
    assert_eq!(desk.contents(None).await, wrong, "{engine:?}");
    assert_eq!(desk.contents(Some("before")).await, before, "{engine:?}");
}

async fn what_was_written_meanwhile_is_a_conflict(engine: Engine) {
    let desk = Desk::new(engine).await;
    let session = boss();
    desk.snapshot("before").await;
    desk.run("UPDATE orders SET total = 11 WHERE id = 1");
    let view = propose(&desk, &session, "orders", "before").await.unwrap();
    let call = || ChangeCall::new(&session);
    desk.guard
        .validate_change(&view.change, call())
        .await
        .unwrap();
    desk.run("UPDATE orders SET total = 12 WHERE id = 1");
    let refused = desk.guard.commit_change(&view.change, call()).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.rejection.code(), Code::ChangeConflict);
    let total = "SELECT total FROM orders WHERE id = 1";
    let rows = desk.ask(&session, total, None).await.unwrap();
    assert_eq!(rows[0]["total"], 12);
    // Once it was looked at again, it is kept.
    keep(&desk, &session, &view.change).await.unwrap();
    let rows = desk.ask(&session, total, None).await.unwrap();
    assert_eq!(rows[0]["total"], 10);
}

async fn others_rows_are_not_taken_along(engine: Engine) {
    let desk = Desk::new(engine).await;
    if engine == Engine::Mysql {
        desk.run("ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers (id)");
        desk.order(&["orders"], &HistoryOrder::Enable { account: None });
        assert!(desk.guard.refresh().await.unwrap());
    }
    desk.snapshot("before").await;
    desk.run("INSERT INTO customers VALUES (9, 'a', 'New', NULL)");
    desk.run("INSERT INTO orders VALUES (9, 9, 90)");
    // The customer's order would go with it.
    let session = boss();
    let view = propose(&desk, &session, "customers", "before")
        .await
        .unwrap();
    let refused = keep(&desk, &session, &view.change).await.unwrap_err();
    assert_eq!(refused.code(), Code::ChangeConflict);
    set_back(&desk, "orders", "before").await;
    set_back(&desk, "customers", "before").await;
    let count = desk.ask(&session, "SELECT id FROM customers ORDER BY id", None);
    assert_eq!(count.await.unwrap().as_array().unwrap().len(), 3);
}

async fn whoever_sees_a_part_sets_nothing_back(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("before").await;
    desk.run("UPDATE customers SET ssn = 'SECRET-X' WHERE id = 1");
    for hidden in ["customers", "loose", "nosuch"] {
        let refused = propose(&desk, &agent(), hidden, "before")
            .await
            .unwrap_err();
        let expected = match hidden {
            "customers" => Code::ChangeNotCompensable,
            "loose" => Code::HistoryNotKept,
            _ => Code::NameUnknownRelation,
        };
        assert_eq!(refused.code(), expected, "{hidden}: {refused:?}");
        assert!(!refused.message().contains("SECRET"), "{refused:?}");
    }
    // Whether there is anything to set back depends on policy alone: a table that is as it was is refused alike.
    set_back(&desk, "customers", "before").await;
    let refused = propose(&desk, &agent(), "customers", "before").await;
    assert_eq!(refused.unwrap_err().code(), Code::ChangeNotCompensable);
    // A table that it sees whole it sets back.
    desk.run("UPDATE orders SET total = 0");
    let view = propose(&desk, &agent(), "orders", "before").await.unwrap();
    keep(&desk, &agent(), &view.change).await.unwrap();
    let sum = "SELECT sum(total) AS n FROM orders";
    let rows = desk.ask(&boss(), sum, None).await.unwrap();
    let sum = rows[0]["n"].to_string();
    assert_eq!(sum.trim_matches('"'), "60");
}

async fn what_was_pruned_is_refused_whole(engine: Engine) {
    let desk = Desk::new(engine).await;
    let session = boss();
    desk.snapshot("before").await;
    desk.run("DELETE FROM orders WHERE id = 3");
    desk.snapshot("after").await;
    let view = propose(&desk, &session, "orders", "before").await.unwrap();
    let (label, _) = desk.guard.find_label("after").unwrap();
    desk.order(&["orders"], &HistoryOrder::Prune(label));
    // Nothing is left of what was written in between, and that is not told as nothing.
    let moments = Moments {
        from: "before",
        to: Some("after"),
    };
    let orders = desk.name_table("orders");
    let compared = desk
        .guard
        .compare_past(&orders, moments, ChangeCall::new(&session))
        .await;
    let refused = compared.unwrap_err().rejection;
    assert_eq!(refused.code(), Code::HistoryTooEarly, "{refused:?}");
    let validated = keep(&desk, &session, &view.change).await;
    assert_eq!(validated.unwrap_err().code(), Code::HistoryTooEarly);
    let again = propose(&desk, &session, "orders", "before").await;
    assert_eq!(again.unwrap_err().code(), Code::HistoryTooEarly);
}

async fn every_type_comes_back_as_it_was(engine: Engine) {
    let desk = Desk::new(engine).await;
    let (table, values) = match engine {
        Engine::Sqlite => (
            "CREATE TABLE odd (id integer PRIMARY KEY, a, b real, c text, d blob, e integer GENERATED ALWAYS AS (id * 2) VIRTUAL)",
            "INSERT INTO odd (id, a, b, c, d) VALUES (1, x'00ff', 1e300, 'it''s', x''), (2, 9223372036854775807, -0.5, '', NULL), (3, 1.0, NULL, NULL, x'27')",
        ),
        Engine::Mariadb | Engine::Mysql => (
            "CREATE TABLE odd (id integer PRIMARY KEY, a decimal(30,10), b double, c text, d blob, e datetime(6), f bigint unsigned, g bit(9), h enum('x', 'y'), i time(3), e2 integer AS (id * 2) STORED)",
            "INSERT INTO odd (id, a, b, c, d, e, f, g, h, i) VALUES
               (1, 12345678901234567890.0123456789, 1e-300, 'it''s \\\\', x'00ff', '2026-03-01 12:00:00.123456', 18446744073709551615, b'101010101', 'y', '-12:34:56.789'),
               (2, -0.5, -1e300, '', x'', '1000-01-01 00:00:00', 0, b'0', 'x', '838:59:59'),
               (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        ),
        Engine::Postgres => (
            "CREATE TABLE odd (id integer PRIMARY KEY, a numeric(30,10), b double precision, c jsonb, d bytea, e int[], f timestamptz, g uuid, h interval, i bool, j date, e2 integer GENERATED ALWAYS AS (id * 2) STORED)",
            "INSERT INTO odd (id, a, b, c, d, e, f, g, h, i, j) VALUES
               (1, 12345678901234567890.0123456789, 1e-300, '{\"b\": [1, null], \"a\": 1.50}', '\\x00ff', '{1,NULL,3}', '2026-03-01 12:00:00.123456+02', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1 year 2 days 03:04:05.6', true, '0044-03-15 BC'),
               (2, 'NaN', '-Infinity', 'null', '', '{}', 'infinity', NULL, NULL, false, 'infinity'),
               (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        ),
    };
    desk.run(table);
    desk.run(values);
    assert!(desk.guard.refresh().await.unwrap());
    desk.order(&["odd"], &HistoryOrder::Enable { account: None });
    desk.guard.refresh().await.unwrap();
    desk.snapshot("before").await;
    let session = boss();
    let sql = "SELECT * FROM odd ORDER BY id";
    let before = desk.ask(&session, sql, None).await.unwrap();
    assert_eq!(before.as_array().unwrap().len(), 3);
    desk.run("DELETE FROM odd WHERE id = 1");
    desk.run("UPDATE odd SET a = NULL, b = 7, d = NULL WHERE id = 2");
    desk.run("UPDATE odd SET a = 1, b = 2 WHERE id = 3");
    assert_ne!(desk.ask(&session, sql, None).await.unwrap(), before);
    set_back(&desk, "odd", "before").await;
    assert_eq!(desk.ask(&session, sql, None).await.unwrap(), before);
}
