//! The past on SQLite: how the engine finds it.

use palisade::{guard::Request, value::Params};

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
