//! What became of rows, from moment to moment, on every engine.

use std::collections::BTreeMap;

use palisade::{
    code::Code,
    guard::{ChangeCall, Moments, PastRows},
    past::HistoryOrder,
    session::Session,
    value::Value as Cell,
};
use serde_json::Value;

use crate::history::{Desk, Engine, agent, boss, on_every_engine};

on_every_engine! {
    what_became_of_a_row_is_told_newest_first
    what_is_hidden_by_now_is_in_no_list
    a_list_begins_where_history_or_its_room_does
}

fn key_of(id: i64) -> BTreeMap<String, Cell> {
    BTreeMap::from([("id".to_owned(), Cell::Integer(id))])
}

/// Where the list begins, and its rows: `moment key change column: before -> after`, where `moment` is the name that was given to it.
async fn list(
    desk: &Desk,
    session: &Session,
    (table, key, from): (&str, Option<i64>, Option<&str>),
) -> Result<(Option<String>, Vec<String>), Code> {
    let names: BTreeMap<String, String> = (desk.guard.list_snapshots(session).unwrap().into_iter())
        .map(|view| (view.taken, view.snapshot))
        .collect();
    let (table, key) = (desk.name_table(table), key.map(key_of));
    let rows = PastRows {
        table: &table,
        key: key.as_ref(),
    };
    let call = ChangeCall::new(session);
    let listed = desk.guard.list_history(rows, from, call).await;
    let listed = listed.map_err(|refusal| refusal.rejection.code())?;
    let begins = listed.from.map(|from| from.snapshot.unwrap_or(from.taken));
    let rows = serde_json::to_value(&listed.preview.rows).unwrap()["rows"].take();
    let line = |row: &Value| {
        let text = |key: &str| match &row[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let moment = text("moment");
        format!(
            "{} {} {} {}: {} -> {}",
            names.get(&moment).unwrap_or(&moment),
            text("key"),
            text("change"),
            text("column"),
            text("before"),
            text("after")
        )
    };
    let rows = rows.as_array().unwrap().iter().map(line).collect();
    Ok((begins, rows))
}

async fn what_became_of_a_row_is_told_newest_first(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("s0").await;
    desk.run("UPDATE customers SET name = 'Adele' WHERE id = 1");
    desk.run("UPDATE customers SET name = 'Bobby' WHERE id = 2");
    desk.snapshot("s1").await;
    // There and back within one step is nothing; nor is what other tables do.
    desk.run("UPDATE customers SET name = 'nobody' WHERE id = 1");
    desk.run("UPDATE customers SET name = 'Adele' WHERE id = 1");
    desk.run("UPDATE orders SET total = 11 WHERE id = 1");
    desk.snapshot("s2").await;
    desk.run("DELETE FROM customers WHERE id = 1");
    desk.snapshot("s3").await;
    desk.run("INSERT INTO customers VALUES (1, 'a', 'Ann', NULL)");
    desk.snapshot("s4").await;
    desk.run("UPDATE customers SET ssn = 'SECRET-9' WHERE id = 1");
    let row = [
        "now id=1 update ssn: null -> SECRET-9",
        "s4 id=1 insert tenant: null -> a",
        "s4 id=1 insert name: null -> Ann",
        "s4 id=1 insert ssn: null -> null",
        "s3 id=1 delete tenant: a -> null",
        "s3 id=1 delete name: Adele -> null",
        "s3 id=1 delete ssn: SECRET-1 -> null",
        "s1 id=1 update name: Ada -> Adele",
    ];
    let (from, told) = list(&desk, &boss(), ("customers", Some(1), None))
        .await
        .unwrap();
    assert_eq!(told, row, "{engine:?}");
    assert_eq!(from, None);
    let (from, told) = list(&desk, &boss(), ("customers", Some(1), Some("s3")))
        .await
        .unwrap();
    assert_eq!(told, row[..4]);
    assert_eq!(from.as_deref(), Some("s3"));
    let (_, all) = list(&desk, &boss(), ("customers", None, None))
        .await
        .unwrap();
    let of_both: Vec<String> = (row.iter().map(|line| (*line).to_owned()))
        .chain(["s1 id=2 update name: Bob -> Bobby".to_owned()])
        .collect();
    assert_eq!(all, of_both);
    for (table, key, from, code) in [
        ("loose", None, None, Code::HistoryNotKept),
        ("nosuch", None, None, Code::NameUnknownRelation),
        ("customers", None, Some("nosuch"), Code::HistoryUnknown),
        ("pieces", Some(1), None, Code::RequestInvalid),
    ] {
        let refused = list(&desk, &boss(), (table, key, from)).await;
        assert_eq!(refused.unwrap_err(), code, "{table}");
    }
}

async fn what_is_hidden_by_now_is_in_no_list(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("s0").await;
    desk.run("UPDATE customers SET ssn = 'SECRET-8' WHERE id = 1");
    desk.run("UPDATE customers SET name = 'Bert' WHERE id = 2");
    desk.snapshot("s1").await;
    desk.run("UPDATE customers SET tenant = 'b', name = 'Hidden' WHERE id = 2");
    desk.run("UPDATE customers SET name = 'Hidden too' WHERE id = 3");
    desk.snapshot("s2").await;
    desk.run("UPDATE customers SET tenant = 'a', name = 'Bob' WHERE id = 2");
    desk.snapshot("s3").await;
    let told = async |key| {
        list(&desk, &agent(), ("customers", key, None))
            .await
            .unwrap()
    };
    // A masked column that was written, and a row that is another's, are as one that never was.
    let nothing = (None, Vec::new());
    for key in [1, 3, 77] {
        assert_eq!(told(Some(key)).await, nothing, "{engine:?} {key}");
    }
    // To the byte, and so is what is different between two moments.
    let bot = agent();
    let call = || ChangeCall::new(&bot);
    let table = desk.name_table("customers");
    let mut answers = Vec::new();
    for key in [1, 3, 77].map(key_of) {
        let rows = PastRows {
            table: &table,
            key: Some(&key),
        };
        let listed = desk.guard.list_history(rows, None, call()).await.unwrap();
        answers.push(serde_json::to_string(&listed.preview.rows).unwrap());
    }
    for (from, to) in [("s1", "s2"), ("s3", "s3")] {
        let moments = Moments { from, to: Some(to) };
        let compared = desk.guard.compare_past(&table, moments, call()).await;
        answers.push(serde_json::to_string(&compared.unwrap().preview.rows).unwrap());
    }
    assert_eq!(answers[0], answers[2], "a masked value was written");
    assert_eq!(answers[1], answers[2], "a hidden row was written");
    assert_eq!(answers[3], answers[4], "hidden rows were written");
    // What came back into sight has no past there.
    let back = [
        "s3 id=2 insert tenant: null -> a",
        "s3 id=2 insert name: null -> Bob",
        "s3 id=2 insert ssn: null -> null",
    ];
    assert_eq!(told(Some(2)).await.1, back);
    assert_eq!(told(None).await.1, back);
}

async fn a_list_begins_where_history_or_its_room_does(engine: Engine) {
    let desk = Desk::new(engine).await;
    for number in 0..110 {
        if number % 2 == 0 {
            desk.snapshot(&format!("s{number}")).await;
        }
        desk.run(&format!("UPDATE orders SET total = {number} WHERE id = 1"));
    }
    let listed = list(&desk, &boss(), ("orders", Some(1), None)).await;
    let (from, told) = listed.unwrap();
    assert_eq!(told.len(), 55, "{engine:?} {told:?}");
    assert_eq!(told[0], "now id=1 update total: 107 -> 109");
    assert_eq!(from, None);
    let listed = list(&desk, &boss(), ("orders", None, Some("s100"))).await;
    assert_eq!(listed.unwrap().1.len(), 5);
    // Who may not see the row is not told that it was written, also where others in its table are seen.
    for number in 0..102 {
        if number % 50 == 0 {
            desk.snapshot(&format!("c{number}")).await;
        }
        desk.run(&format!(
            "UPDATE customers SET name = 'n{number}' WHERE id = 3"
        ));
    }
    let listed = list(&desk, &agent(), ("customers", Some(3), None)).await;
    assert_eq!(listed.unwrap(), (None, Vec::new()));
    let listed = list(&desk, &agent(), ("customers", None, None)).await;
    assert_eq!(listed.unwrap(), (None, Vec::new()));
    // Of a row that is not written as often, all is told.
    let listed = list(&desk, &boss(), ("orders", Some(2), None)).await;
    assert_eq!(listed.unwrap(), (None, Vec::new()));
    desk.snapshot("last").await;
    let (label, _) = desk.guard.find_label("last").unwrap();
    desk.order(&["orders"], &HistoryOrder::Prune(label));
    desk.run("UPDATE orders SET total = 200 WHERE id = 1");
    assert_eq!(
        list(&desk, &boss(), ("orders", Some(1), Some("s100"))).await,
        Err(Code::HistoryTooEarly)
    );
    let (from, told) = list(&desk, &boss(), ("orders", Some(1), None))
        .await
        .unwrap();
    // MariaDB deletes all of the past rows, and history begins with the next moment.
    let expected: &[&str] = match engine {
        Engine::Sqlite | Engine::Postgres | Engine::Mysql => &["now id=1 update total: 109 -> 200"],
        Engine::Mariadb => &[],
    };
    assert_eq!(from, None);
    assert_eq!(told, expected);
}
