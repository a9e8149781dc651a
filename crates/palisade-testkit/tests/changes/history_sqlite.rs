//! The past on SQLite: how the engine finds it.

use palisade::{
    code::Code,
    guard::{ChangeCall, Moments, PastRows, Request},
    session::{Principal, Session},
    value::Params,
};

use crate::{
    any_database::AnyDatabase,
    history::{Desk, Engine, boss},
};

/// SQLite reads what was there at a moment by the ends of states, and one row by its key: not all states that there ever were.
#[tokio::test]
async fn the_past_is_read_by_index_on_sqlite() {
    let desk = Desk::new(Engine::Sqlite).await;
    desk.run("UPDATE orders SET total = total + 1");
    desk.snapshot("then").await;
    desk.run("UPDATE orders SET total = total + 1");
    let AnyDatabase::File(file) = &desk.database else {
        panic!("no file");
    };
    let bare = file.open_bare();
    for (sql, index) in [
        (
            "SELECT sum(total) FROM orders",
            "palisade_history_orders_ended",
        ),
        (
            "SELECT total FROM orders WHERE id = 1",
            "palisade_history_orders_states",
        ),
    ] {
        let user = boss();
        let request = Request::statement(sql, &Params::None, &user).as_of(Some("then"));
        let (_, report) = desk.guard.answer(request).await;
        let explain = format!("EXPLAIN QUERY PLAN {}", report.rewritten.unwrap());
        let mut query = bare.prepare(&explain).unwrap();
        let steps = query.query_map([], |row| row.get::<_, String>(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(
            steps.iter().any(|step| step.contains(index))
                && !steps.iter().any(|step| step.starts_with("SCAN")),
            "{steps:#?}"
        );
    }
}

/// What waits for an approval has no past, whether anything was written meanwhile or not, and the refusal says why.
#[tokio::test]
async fn the_past_of_what_waits_for_an_approval_is_not_told_on_sqlite() {
    let desk = Desk::new(Engine::Sqlite).await;
    let clerk = Session::new(Principal::new("User", "clerk"));
    let call = ChangeCall::new(&clerk);
    desk.snapshot("first").await;
    for change in ["", "UPDATE orders SET total = total + 1"] {
        desk.run(change);
        let moments = Moments {
            from: "first",
            to: None,
        };
        let compared = desk.guard.compare_past("orders", moments, call).await;
        let rows = PastRows {
            table: "orders",
            key: None,
        };
        let listed = desk.guard.list_history(rows, None, call).await;
        let reverted = desk
            .guard
            .revert_table("orders", ("first", None), call)
            .await;
        let refused = [
            compared.map(drop).unwrap_err(),
            listed.map(drop).unwrap_err(),
            reverted.map(drop).unwrap_err(),
        ];
        for refusal in refused {
            let why = refusal.rejection;
            assert_eq!(why.code(), Code::HistoryNotKept, "{why:?}");
            assert!(
                why.message().starts_with("a person has to approve"),
                "{why:?}"
            );
        }
    }
}
