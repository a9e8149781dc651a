//! The past of rows that follow others: a key may have been another row's.

use palisade::{code::Code, past::HistoryOrder};
use serde_json::Value;

use crate::history::{Desk, Engine, IMAGES, agent, boss, on_every_engine};

const TABLES: &str = "
CREATE TABLE customers (id integer NOT NULL PRIMARY KEY, tenant varchar(9) NOT NULL);
CREATE TABLE orders (id integer NOT NULL PRIMARY KEY, customer integer NOT NULL, ref varchar(20),
    FOREIGN KEY (customer) REFERENCES customers (id));
INSERT INTO customers VALUES (1, 'a'), (3, 'b'), (4, 'b');
INSERT INTO orders VALUES (1, 1, 'O1'), (3, 3, 'SECRET-3'), (4, 4, 'SECRET-4');
";

const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action == Action::"see", resource is row::SCHEMA::customers)
  when { principal != User::"boss" && resource.tenant == "b" };
forbid (principal, action == Action::"see", resource is row::SCHEMA::orders)
  unless { principal == User::"boss" || resource.customer_is_seen };
"#;

on_every_engine! {
    a_key_that_is_given_to_another_row_opens_no_past
    the_past_of_followed_rows_must_be_kept
}

async fn desk(engine: Engine, kept: &[&str]) -> Desk {
    let desk = Desk::over(engine, &format!("{TABLES}{IMAGES}"), POLICIES).await;
    desk.order(kept, &HistoryOrder::Enable { account: None });
    assert!(desk.guard.refresh().await.unwrap(), "{engine:?}");
    desk.snapshot("first").await;
    desk
}

fn list_refs(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["ref"].as_str().unwrap()).collect()
}

async fn a_key_that_is_given_to_another_row_opens_no_past(engine: Engine) {
    let desk = desk(engine, &["customers", "orders"]).await;
    let sql = "SELECT ref FROM orders ORDER BY id";
    let before = desk.ask(&agent(), sql, Some("first")).await.unwrap();
    assert_eq!(list_refs(&before), ["O1"], "{engine:?}");
    // One customer goes, and another gets its key; one is moved to the agent's tenant.
    desk.run("DELETE FROM orders WHERE id = 3");
    desk.run("DELETE FROM customers WHERE id = 3");
    desk.run("INSERT INTO customers VALUES (3, 'a')");
    desk.run("UPDATE customers SET tenant = 'a' WHERE id = 4");
    desk.run("UPDATE orders SET ref = 'O4' WHERE id = 4");
    desk.run("UPDATE orders SET ref = 'O1b' WHERE id = 1");
    desk.snapshot("second").await;
    for (session, as_of, expected) in [
        (agent(), Some("first"), vec!["O1"]),
        (agent(), Some("second"), vec!["O1b"]),
        (agent(), None, vec!["O1b", "O4"]),
        (boss(), Some("first"), vec!["O1", "SECRET-3", "SECRET-4"]),
    ] {
        let rows = desk.ask(&session, sql, as_of).await.unwrap();
        assert_eq!(list_refs(&rows), expected, "{engine:?} {as_of:?}");
    }
    let count = "SELECT count(*) AS n FROM orders WHERE ref LIKE 'SECRET%'";
    let counted = desk.ask(&agent(), count, Some("first")).await.unwrap();
    assert_eq!(counted[0]["n"], 0, "{engine:?}");
    let listed = desk
        .list_differences(&agent(), "orders", "first", None)
        .await;
    assert!(
        listed.iter().any(|line| line.contains("O1b")) && !listed.join("\n").contains("SECRET"),
        "{engine:?} {listed:#?}"
    );
}

async fn the_past_of_followed_rows_must_be_kept(engine: Engine) {
    let desk = desk(engine, &["orders"]).await;
    let sql = "SELECT ref FROM orders ORDER BY id";
    let asked = desk.ask(&agent(), sql, Some("first")).await;
    assert_eq!(asked, Err(Code::HistoryNotKept), "{engine:?}");
    let all = desk.ask(&boss(), sql, Some("first")).await.unwrap();
    assert_eq!(list_refs(&all).len(), 3, "{engine:?}");
}
