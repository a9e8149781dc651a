//! Changes and the past of two databases that differ only in rows and cells which are hidden from whoever asks: it is told the same, however
//! many there are.

use palisade::{
    change::ChangeState,
    code::Code,
    guard::{ChangeCall, ChangeProposal, ChangedRows, Moments, PastRows, PreviewedChange, Refusal},
    limits::Limits,
    past::HistoryOrder,
    session::{Principal, Session},
    value::Params,
};
use serde_json::{Value, json};

use crate::history::{Desk, Engine, IMAGES, agent, boss, on_every_engine};

on_every_engine! {
    many_hidden_rows_hide_no_row_of_a_preview
    what_is_not_shown_is_not_approved
    caps_of_the_past_count_rows_that_are_seen
    where_a_list_begins_follows_from_what_it_shows
    a_difference_is_told_backwards
    undoing_an_insert_tells_nothing_of_hidden_columns
    unique_values_that_moved_are_set_back
}

const TABLES: &str = "
CREATE TABLE pairs (a integer NOT NULL, b integer NOT NULL, tenant integer NOT NULL, v integer, PRIMARY KEY (a, b));
CREATE TABLE t (id integer NOT NULL PRIMARY KEY, tenant integer NOT NULL, v integer, h varchar(9));
CREATE TABLE loose (tenant integer NOT NULL, v integer);
CREATE TABLE places (id integer NOT NULL PRIMARY KEY, k integer UNIQUE);
INSERT INTO pairs VALUES (1, 1, 1, 0);
INSERT INTO loose VALUES (1, 0);
INSERT INTO places VALUES (1, 10), (2, 20), (3, 30);
";

/// `bot` sees the rows of tenant 1, without the column `h`, and four rows of `t` at most where `few` asks.
const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action == Action::"see", resource is row::SCHEMA::pairs) when { principal != User::"boss" && resource.tenant != 1 };
forbid (principal, action == Action::"see", resource is row::SCHEMA::t) when { principal != User::"boss" && resource.tenant != 1 };
forbid (principal, action == Action::"see", resource is row::SCHEMA::loose) when { principal != User::"boss" && resource.tenant != 1 };
forbid (principal, action in Action::"read", resource == Column::"SCHEMA.t.h") when { principal != User::"boss" };
@max_rows("4")
permit (principal == Agent::"few", action == Action::"select", resource);
@approval("required")
permit (principal == User::"boss", action == Action::"update", resource);
@approval("required")
permit (principal == Agent::"asks", action == Action::"select", resource);
"#;

async fn desk(engine: Engine, more: &str) -> Desk {
    let desk = Desk::over(engine, &format!("{TABLES}{IMAGES}"), POLICIES).await;
    if !more.is_empty() {
        desk.run(more);
    }
    desk
}

async fn desk_with_history(engine: Engine, more: &str) -> Desk {
    let desk = desk(engine, more).await;
    desk.order(&["t"], &HistoryOrder::Enable { account: None });
    assert!(desk.guard.refresh().await.unwrap(), "{engine:?}");
    desk
}

fn session(id: &str) -> Session {
    Session::new(Principal::new("Agent", id))
}

/// Rows of `t`, or of `pairs`, of a tenant.
fn rows(table: &str, ids: std::ops::Range<i64>, tenant: i64) -> String {
    let row = |id: i64| match table {
        "pairs" => format!("({id}, {id}, {tenant}, 0)"),
        _ => format!("({id}, {tenant}, 0, 'h')"),
    };
    let rows: Vec<String> = ids.map(row).collect();
    format!("INSERT INTO {table} VALUES {};", rows.join(", "))
}

async fn validate(desk: &Desk, session: &Session, sql: &[&str]) -> PreviewedChange {
    let call = ChangeCall::new(session);
    let statements: Vec<(String, Params)> = sql
        .iter()
        .map(|sql| ((*sql).to_owned(), Params::None))
        .collect();
    let proposed = desk
        .guard
        .propose_change(ChangeProposal::new(&statements), call);
    let id = taken(proposed.await).change;
    taken(desk.guard.validate_change(&id, call).await)
}

fn taken<T>(result: Result<T, Refusal>) -> T {
    result.unwrap_or_else(|why| panic!("{why:?}"))
}

/// What is shown of what a change does.
fn describe(looked: &PreviewedChange) -> Value {
    let preview = looked.preview.as_ref().unwrap();
    json!({
        "difference": preview.rows,
        "row_counts": preview.row_counts,
        "also_changed": preview.counted,
        "generated": preview.generated,
        "next": looked.view.next_valid_actions,
    })
}

async fn many_hidden_rows_hide_no_row_of_a_preview(engine: Engine) {
    let mut told = Vec::new();
    for hidden in [0, 600] {
        let more = match hidden {
            0 => String::new(),
            _ => rows("pairs", 2..2 + hidden, 2),
        };
        let desk = desk(engine, &more).await;
        let mine = validate(&desk, &boss(), &["UPDATE pairs SET v = 666 WHERE a > 0"]).await;
        let preview = mine.preview.as_ref().unwrap();
        let all = u64::try_from(hidden + 1).unwrap();
        assert_eq!(preview.row_counts.updated, all, "{engine:?}");
        let (id, bot) = (&mine.view.change, agent());
        let call = ChangeCall::new(&bot);
        let looked = taken(desk.guard.inspect_change(id, call).await);
        assert_eq!(looked.preview.as_ref().unwrap().row_counts.updated, 1);
        let told_of = describe(&looked).to_string();
        told.push(told_of.replace(&desk.name_table("pairs"), "T"));
        let preview = mine.view.preview.unwrap();
        let approved = desk.guard.approve_change((id, &preview), call).await;
        assert_eq!(taken(approved).state, ChangeState::Approved);
    }
    assert_eq!(told[0], told[1], "{engine:?}");
}

/// Whether there are rows to show or not.
async fn what_is_not_shown_is_not_approved(engine: Engine) {
    for (table, who, is_shown) in [
        ("pairs", "bot", true),
        ("pairs", "asks", false),
        ("loose", "bot", false),
    ] {
        for tenant in [1, 2] {
            let more =
                format!("UPDATE pairs SET tenant = {tenant}; UPDATE loose SET tenant = {tenant};");
            let desk = desk(engine, &more).await;
            let sql = format!("UPDATE {table} SET v = 666 WHERE v = 0");
            let mine = validate(&desk, &boss(), &[&sql]).await;
            let (id, asked) = (&mine.view.change, session(who));
            let call = ChangeCall::new(&asked);
            let looked = taken(desk.guard.inspect_change(id, call).await);
            let counted = &looked.preview.as_ref().unwrap().counted;
            let kinds: Vec<ChangedRows> = counted.iter().map(|(_, rows)| *rows).collect();
            let expected: &[ChangedRows] = match is_shown {
                true => &[],
                false => &[ChangedRows::NotShown],
            };
            assert_eq!(kinds, expected, "{engine:?} {table} {who} {tenant}");
            let offers = looked.view.next_valid_actions.contains(&"approve_change");
            assert_eq!(offers, is_shown);
            let preview = mine.view.preview.unwrap();
            let approved = desk.guard.approve_change((id, &preview), call).await;
            match (is_shown, approved) {
                (true, Ok(_)) => {}
                (false, Err(refusal)) => {
                    assert_eq!(refusal.rejection.code(), Code::PolicyNoPermit);
                }
                (_, other) => panic!("{engine:?} {table} {who}: {other:?}"),
            }
        }
    }
}

async fn caps_of_the_past_count_rows_that_are_seen(engine: Engine) {
    let all = [
        rows("t", 1..4, 1),
        rows("t", 100..700, 2),
        rows("t", 1001..1004, 1),
    ]
    .concat();
    for (visible, is_cut) in [
        ("id < 10 OR id > 1001", true),
        ("id < 10 OR id > 1002", false),
    ] {
        let mut told = Vec::new();
        for hidden in [
            "",
            "UPDATE t SET v = 7 WHERE tenant = 2",
            "UPDATE t SET h = 'x' WHERE v = 0",
        ] {
            let desk = desk_with_history(engine, &all).await;
            desk.snapshot("s1").await;
            if !hidden.is_empty() {
                desk.run(hidden);
            }
            desk.run(&format!("UPDATE t SET v = 1 WHERE {visible}"));
            let few = session("few");
            let call = ChangeCall::new(&few);
            let moments = Moments {
                from: "s1",
                to: None,
            };
            let table = desk.name_table("t");
            let compared = taken(desk.guard.compare_past(&table, moments, call).await);
            let rows = PastRows {
                table: &table,
                key: None,
            };
            let listed = taken(desk.guard.list_history(rows, None, call).await);
            for preview in [&compared.preview, &listed.preview] {
                let kinds = preview.counted.iter().map(|(_, rows)| *rows);
                let kinds: Vec<ChangedRows> = kinds.collect();
                assert_eq!(
                    kinds.as_slice() == [ChangedRows::MoreThanPolicyShows],
                    is_cut,
                    "{engine:?} {visible} {hidden} {kinds:?}"
                );
                let updated = preview.row_counts.updated;
                assert_eq!(updated, if is_cut { 0 } else { 4 }, "{engine:?} {hidden}");
            }
            told.push(
                json!([compared.preview.rows, listed.preview.rows])
                    .to_string()
                    .replace(&table, "T"),
            );
        }
        assert_eq!(told[0], told[1], "{engine:?}");
        assert_eq!(told[0], told[2], "{engine:?}");
    }
}

async fn where_a_list_begins_follows_from_what_it_shows(engine: Engine) {
    let all = [rows("t", 1..8, 1), rows("t", 100..101, 2)].concat();
    let mut told = Vec::new();
    for hidden in [
        "",
        "UPDATE t SET v = 7 WHERE tenant = 2",
        "UPDATE t SET h = 'x' WHERE id = 1",
    ] {
        let desk = desk_with_history(engine, &all).await;
        desk.snapshot("s0").await;
        if !hidden.is_empty() {
            desk.run(hidden);
        }
        desk.snapshot("s1").await;
        desk.run("UPDATE t SET v = 1 WHERE tenant = 1");
        desk.snapshot("s2").await;
        let limits = Limits {
            max_rows: 5,
            ..Limits::default()
        };
        let bot = agent();
        let call = ChangeCall {
            limits: Some(&limits),
            ..ChangeCall::new(&bot)
        };
        let table = desk.name_table("t");
        let rows = PastRows {
            table: &table,
            key: None,
        };
        let listed = taken(desk.guard.list_history(rows, None, call).await);
        assert_eq!(listed.preview.rows.answer().row_count(), 5);
        told.push(listed.from.and_then(|from| from.snapshot));
    }
    assert_eq!(told[0].as_deref(), Some("s1"), "{engine:?}");
    assert!(
        told.iter().all(|one| *one == told[0]),
        "{engine:?} {told:?}"
    );
}

async fn a_difference_is_told_backwards(engine: Engine) {
    let desk = desk_with_history(engine, &rows("t", 1..3, 1)).await;
    desk.snapshot("s0").await;
    desk.run("UPDATE t SET v = 5 WHERE id = 1");
    desk.run("DELETE FROM t WHERE id = 2");
    desk.snapshot("s1").await;
    let told = desk.list_differences(&agent(), "t", "s1", Some("s0")).await;
    let expected = [
        "id=1 update v: 5 -> 0",
        "id=2 insert tenant: null -> 1",
        "id=2 insert v: null -> 0",
    ];
    assert_eq!(told, expected, "{engine:?}");
    let same = desk.list_differences(&agent(), "t", "s1", Some("s1")).await;
    assert!(same.is_empty(), "{engine:?} {same:?}");
}

async fn undoing_an_insert_tells_nothing_of_hidden_columns(engine: Engine) {
    let mut told = Vec::new();
    for hidden in ["", "UPDATE t SET h = 'z' WHERE id = 50"] {
        let desk = desk(engine, "").await;
        let bot = agent();
        let call = ChangeCall::new(&bot);
        let sql = "INSERT INTO t (id, tenant, v) VALUES (50, 1, 5)";
        let id = validate(&desk, &bot, &[sql]).await.view.change;
        taken(desk.guard.commit_change(&id, call).await);
        if !hidden.is_empty() {
            desk.run(hidden);
        }
        let undone = desk.guard.compensate_change(&id, None, call).await;
        told.push(undone.unwrap_err().rejection.code());
    }
    assert_eq!(told, [Code::ChangeNotCompensable; 2], "{engine:?}");
}

async fn unique_values_that_moved_are_set_back(engine: Engine) {
    for (moves, expected) in [
        ([(1, 5), (2, 10), (3, 20)], None),
        ([(3, 40), (2, 30), (1, 20)], None),
        // They were exchanged over a value that is gone.
        ([(1, 99), (2, 10), (1, 20)], Some(Code::ChangeConflict)),
    ] {
        let desk = desk(engine, "").await;
        let bot = agent();
        let call = ChangeCall::new(&bot);
        let sql = moves.map(|(id, k)| format!("UPDATE places SET k = {k} WHERE id = {id}"));
        let sql: Vec<&str> = sql.iter().map(String::as_str).collect();
        let id = validate(&desk, &bot, &sql).await.view.change;
        taken(desk.guard.commit_change(&id, call).await);
        let undo = taken(desk.guard.compensate_change(&id, None, call).await).change;
        let validated = desk.guard.validate_change(&undo, call).await;
        let code = validated.err().map(|refusal| refusal.rejection.code());
        assert_eq!(code, expected, "{engine:?} {moves:?}");
        if code.is_none() {
            taken(desk.guard.commit_change(&undo, call).await);
            let rows = desk
                .ask(&bot, "SELECT sum(id * k) AS n FROM places", None)
                .await;
            assert_eq!(rows.unwrap()[0]["n"].to_string().replace('"', ""), "140");
        }
    }
}

/// That a trigger made a value anew tells that there was a row for it, to who set it off too.
#[tokio::test]
async fn columns_that_triggers_write_tell_nothing_of_hidden_rows() {
    let trigger =
        "CREATE TRIGGER touched AFTER UPDATE ON places BEGIN UPDATE t SET v = random(); END;";
    let permit =
        "permit (principal, action == Action::\"call\", resource == Function::\"main.touched\");";
    let policies = format!("{POLICIES}{permit}");
    let mut told = Vec::new();
    for (tenant, expected) in [(None, &[][..]), (Some(2), &[]), (Some(1), &["main.t.v"])] {
        let rows = tenant.map(|tenant| rows("t", 100..101, tenant));
        let script = format!("{TABLES}{IMAGES}{trigger}{}", rows.unwrap_or_default());
        let desk = Desk::over(Engine::Sqlite, &script, &policies).await;
        let sql = "UPDATE places SET k = k + 1 WHERE id = 1";
        let looked = validate(&desk, &agent(), &[sql]).await;
        let generated = &looked.preview.as_ref().unwrap().generated;
        assert_eq!(generated, expected, "{tenant:?}");
        told.push(describe(&looked));
    }
    assert_eq!(told[0], told[1]);
}
