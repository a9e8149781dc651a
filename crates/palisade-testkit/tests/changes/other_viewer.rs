//! Changes in steps before another principal's eyes: over databases that differ only in what is hidden from it, it is told the same. What it
//! asks counts as its own, and is recorded so.

use std::sync::Arc;

use palisade::{
    audit::{AuditRecord, AuditSink, RecordKind},
    change::{ChangeState, ChangeStore},
    code::Code,
    guard::{
        Allowance, Budgets, ChangeCall, ChangeProposal, ChangeView, Guard, PreviewedChange,
        ReceiptView, Refusal,
    },
    limits::Limits,
    session::{CallOrigin, Principal, Session},
    value::Params,
};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{fixture::policy_sources, host::Still, live::recording_gate_on};
use serde_json::{Value, json};

use crate::{
    any_database::AnyDatabase,
    database::{TestDatabase, TestFile},
    history::Records,
};

const TABLES: &str = "
CREATE TABLE tickets (id integer PRIMARY KEY, tenant integer NOT NULL, title varchar(20), status varchar(20), note varchar(20), prio bigint,
    CHECK (title <> 'bad'));
INSERT INTO tickets VALUES (1, 1, 't1', 'open', 'n1', 0), (2, 2, 't2', 'new', 'n2', 1), (3, 2, 't3', 'open', 'n3', 0), (4, 1, 't4', 'new', 'n4', 1);
CREATE TABLE palisade_images (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL, image LONG NOT NULL, PRIMARY KEY (change_id, part));
";

/// From `ann`, who approves, the rows of a tenant are hidden. `carol` sees every row, and the statuses masked. `zoe` sees all there is.
const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal == User::"ann", action == Action::"see", resource is row::SCHEMA::tickets) when { resource.tenant == 1 };
@mask("null")
forbid (principal == User::"ann", action == Action::"read_plain", resource == Column::"SCHEMA.tickets.note");
@mask("null")
forbid (principal == User::"carol", action == Action::"read_plain", resource == Column::"SCHEMA.tickets.status");
forbid (principal == User::"carol", action == Action::"approve", resource);
@approval("required")
permit (principal == Agent::"bot", action == Action::"update", resource);
"#;

/// What two worlds differ in: hidden from `ann` by her filter, and from `carol` by her mask.
const WORLDS: [&str; 2] = ["", "UPDATE tickets SET status = 'fraud' WHERE id = 1"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Sqlite,
    Postgres,
    Mariadb,
}

struct Desk {
    guard: Guard,
    database: AnyDatabase,
    records: Arc<Records>,
}

/// Who does something in these stories.
struct Sessions {
    bot: Session,
    ann: Session,
    carol: Session,
    zoe: Session,
}

fn sessions() -> Sessions {
    let session = |kind: &str, id: &str| Session::new(Principal::new(kind, id));
    Sessions {
        bot: session("Agent", "bot"),
        ann: session("User", "ann"),
        carol: session("User", "carol"),
        zoe: session("User", "zoe"),
    }
}

impl Desk {
    /// A database after the statement `beside`.
    async fn new(engine: Engine, beside: &str) -> Self {
        Self::with_budget(engine, beside, None).await
    }

    /// The same, where each principal may ask so many statements a minute.
    async fn with_budget(engine: Engine, beside: &str, statements: Option<u64>) -> Self {
        let policies = |schema: &str| policy_sources(POLICIES.replace("SCHEMA", schema));
        let records = Arc::<Records>::default();
        let audit = Arc::clone(&records) as Arc<dyn AuditSink>;
        let (gate, database) = match engine {
            Engine::Sqlite => {
                let file = TestFile::new(&TABLES.replace("LONG", "text"));
                let gate = recording_gate_on(file.backend(), policies("main"), Still, audit);
                (gate, AnyDatabase::File(file))
            }
            Engine::Postgres => {
                let database = TestDatabase::postgres("viewer", &TABLES.replace("LONG", "text"));
                let backend = database.postgres_backend().await;
                let gate = recording_gate_on(backend, policies("public"), Still, audit);
                (gate, AnyDatabase::Server(database))
            }
            Engine::Mariadb => {
                let script = TABLES.replace("LONG", "longtext");
                let database = TestDatabase::mariadb("viewer", &script);
                let backend = database.mysql_backend().await;
                let gate = recording_gate_on(backend, policies(database.name()), Still, audit);
                (gate, AnyDatabase::Server(database))
            }
        };
        if !beside.is_empty() {
            database.run(beside);
        }
        let none = Allowance::default();
        let budgets = Budgets::new(Allowance { statements, ..none }, none);
        let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
        Self {
            guard: gate
                .with_budgets(Arc::new(budgets))
                .with_changes(store as Arc<dyn ChangeStore>),
            database,
            records,
        }
    }

    /// A change of `session`'s that is proposed and validated.
    async fn validate_new(&self, session: &Session, sql: &str, most: Option<u64>) -> String {
        let statements = [(sql.to_owned(), Params::None)];
        let call = ChangeCall::new(session);
        let proposed = self
            .guard
            .propose_change(
                ChangeProposal {
                    max_affected_rows: most,
                    ..ChangeProposal::new(&statements)
                },
                call,
            )
            .await;
        let id = taken(proposed).change;
        self.validate(session, &id).await;
        id
    }

    async fn validate(&self, session: &Session, id: &str) -> PreviewedChange {
        let call = ChangeCall::new(session);
        taken(self.guard.validate_change(id, call).await)
    }

    async fn inspect(&self, session: &Session, id: &str) -> Result<PreviewedChange, Refusal> {
        let call = ChangeCall::new(session);
        self.guard.inspect_change(id, call).await
    }

    async fn commit(&self, session: &Session, id: &str) {
        let call = ChangeCall::new(session);
        let kept = taken(self.guard.commit_change(id, call).await);
        assert_eq!(kept.state, ChangeState::Committed);
    }

    /// Approves what a change does; with what `session` is told of it before, then, and in its list.
    async fn approve(&self, session: &Session, id: &str) -> Value {
        let looked = taken(self.inspect(session, id).await);
        let listed = self.tell_changes(session);
        let preview = looked.view.preview.clone().unwrap();
        let call = ChangeCall::new(session);
        let approved = taken(self.guard.approve_change((id, &preview), call).await);
        json!([describe(&looked), listed, approved])
    }

    /// What `session` is told of all changes. Of those of one moment, what undoes another comes last.
    fn tell_changes(&self, session: &Session) -> Value {
        let mut listed = taken(self.guard.list_changes(session));
        listed.sort_by_key(|view| view.compensates.is_some());
        json!(listed)
    }

    /// What `session` is told of all receipts, by list and one by one.
    fn tell_receipts(&self, session: &Session) -> Value {
        let listed: Vec<ReceiptView> = taken(self.guard.list_receipts(session));
        let one = |view: &ReceiptView| taken(self.guard.get_receipt(&view.receipt.id, session));
        let each: Vec<ReceiptView> = listed.iter().map(one).collect();
        json!([listed, each])
    }
}

fn taken<T>(result: Result<T, Refusal>) -> T {
    result.unwrap_or_else(|why| panic!("{why:?}"))
}

/// All that is told of a change and of what it does, but for how long others had to wait.
fn describe(looked: &PreviewedChange) -> Value {
    let preview = looked.preview.as_ref().unwrap();
    json!({
        "view": looked.view,
        "as_validated": looked.is_as_validated,
        "difference": preview.rows,
        "text": preview.rows.table_text(),
        "row_counts": preview.row_counts,
        "also_changed": preview.counted,
        "generated": preview.generated,
    })
}

/// The text of what was told, with one name for what is another one each time: ids, digests under a key of the store's own, and the database.
fn normalise(told: &Value, desk: &Desk) -> String {
    fn name(told: &mut Value) {
        match told {
            Value::Object(all) => {
                for (key, value) in all {
                    let is_fresh = ["change", "preview", "id", "compensates", "waits_for"]
                        .contains(&&**key)
                        || key == "statements" && value.is_string();
                    let is_kind = ["insert", "update", "delete"]
                        .contains(&value.as_str().unwrap_or_default());
                    if is_fresh && value.is_string() && !is_kind {
                        *value = json!("…");
                    } else {
                        name(value);
                    }
                }
            }
            Value::Array(all) => all.iter_mut().for_each(name),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut told = told.clone();
    name(&mut told);
    let told = told.to_string();
    match &desk.database {
        AnyDatabase::File(_) => told,
        AnyDatabase::Server(database) => told.replace(database.name(), "…"),
    }
}

fn refused<T>(result: Result<T, Refusal>) -> (Code, Value) {
    let Err(refusal) = result else {
        panic!("it was not refused");
    };
    let told = json!({"refusal": refusal.rejection.for_agent(), "incident": refusal.incident});
    (refusal.rejection.code(), told)
}

/// Which hidden rows an UPDATE reaches is told only to those from whom they are not hidden.
async fn an_update_tells_nothing_of_hidden_rows(engine: Engine) {
    let Sessions { bot, ann, zoe, .. } = sessions();
    let mut told = Vec::new();
    for (world, hidden) in WORLDS.iter().zip([1, 0]) {
        let desk = Desk::new(engine, world).await;
        let sql = "UPDATE tickets SET title = 't' WHERE status = 'open' AND id IN (1, 3)";
        let id = desk.validate_new(&bot, sql, None).await;
        let whole = taken(desk.inspect(&zoe, &id).await);
        assert_eq!(whole.view.affected_rows, Some(vec![1 + hidden]));
        let own = taken(desk.inspect(&bot, &id).await);
        assert_eq!(own.view.affected_rows, Some(vec![1 + hidden]));
        let rows = own.preview.unwrap().rows;
        assert_eq!(rows.affected_rows(), Some(1 + hidden));
        let mut shown = vec![desk.approve(&ann, &id).await];
        desk.commit(&bot, &id).await;
        shown.push(desk.tell_receipts(&ann));
        shown.push(desk.tell_changes(&ann));
        told.push(normalise(&json!(shown), &desk));
    }
    assert!(told[0].contains("\"row_counts\":{\"inserted\":0,\"updated\":1,\"deleted\":0}"));
    assert!(!told[0].contains("affected_rows"), "{}", told[0]);
    assert_eq!(told[0], told[1], "{engine:?}");
}

/// That columns are made anew in hidden rows tells of these rows as well.
async fn columns_made_anew_tell_nothing_of_hidden_rows(engine: Engine) {
    let Sessions { bot, ann, .. } = sessions();
    let now = match engine {
        Engine::Sqlite | Engine::Postgres => "substr(CAST(random() AS varchar(20)), 1, 9)",
        Engine::Mariadb => "left(uuid(), 9)",
    };
    let mut told = Vec::new();
    for (world, hidden) in WORLDS.iter().zip([1, 0]) {
        let desk = Desk::new(engine, world).await;
        let sql = format!("UPDATE tickets SET title = {now} WHERE status = 'open' AND tenant = 1");
        let id = desk.validate_new(&bot, &sql, None).await;
        let own = taken(desk.inspect(&bot, &id).await).preview.unwrap();
        assert_eq!(own.generated.len(), hidden, "{engine:?} {own:?}");
        let looked = taken(desk.inspect(&ann, &id).await);
        told.push(normalise(&describe(&looked), &desk));
    }
    assert_eq!(told[0], told[1], "{engine:?}");
}

/// Which hidden values were equal, by which the statements of an undoing change are grouped, is never told.
async fn an_undo_tells_nothing_of_hidden_values(engine: Engine) {
    let Sessions {
        bot,
        ann,
        carol,
        zoe,
    } = sessions();
    let mut told = Vec::new();
    for world in WORLDS {
        let desk = Desk::new(engine, world).await;
        let sql = "UPDATE tickets SET status = 'done' WHERE id IN (1, 3)";
        let id = desk.validate_new(&bot, sql, None).await;
        let mut shown = vec![desk.approve(&ann, &id).await];
        desk.commit(&bot, &id).await;
        let call = ChangeCall::new(&bot);
        let undoing: ChangeView = taken(desk.guard.compensate_change(&id, None, call).await);
        let undoing = undoing.change;
        // One number for all statements, of those who see everything, too.
        let own = desk.validate(&bot, &undoing).await;
        assert_eq!(own.view.affected_rows, Some(vec![2]));
        let whole = taken(desk.inspect(&zoe, &undoing).await);
        assert_eq!(whole.view.affected_rows, Some(vec![2]));
        assert_eq!(whole.preview.unwrap().rows.affected_rows(), Some(2));
        shown.push(desk.approve(&ann, &undoing).await);
        desk.commit(&bot, &undoing).await;
        let (code, _) = refused(desk.inspect(&carol, &undoing).await);
        assert_eq!(code, Code::ChangeUnknown);
        for session in [&ann, &carol] {
            let receipts = desk.tell_receipts(session);
            assert_eq!(receipts[0].as_array().unwrap().len(), 2);
            assert_eq!(receipts[0][0]["fingerprints"], json!([]), "{receipts}");
            assert_eq!(receipts[0][1]["fingerprints"].as_array().unwrap().len(), 1);
            shown.push(receipts);
        }
        shown.push(desk.tell_changes(&ann));
        told.push(normalise(&json!(shown), &desk));
    }
    assert!(!told[0].contains("affected_rows"), "{}", told[0]);
    assert_eq!(told[0], told[1], "{engine:?}");
}

/// Why a change cannot be run any more is told to its proposer, and to those from whom nothing of it is hidden.
async fn a_failure_tells_nothing_of_hidden_rows(engine: Engine) {
    let Sessions { bot, ann, zoe, .. } = sessions();
    let mut told = Vec::new();
    for (hidden, why) in [
        (
            "UPDATE tickets SET note = 'bad' WHERE id = 1",
            Code::DatabaseConstraint,
        ),
        (
            "UPDATE tickets SET prio = 0 WHERE id = 4",
            Code::LimitAffectedRows,
        ),
    ] {
        let desk = Desk::new(engine, "").await;
        let sql = "UPDATE tickets SET title = note WHERE prio = 0";
        let id = desk.validate_new(&bot, sql, Some(2)).await;
        let preview = taken(desk.inspect(&ann, &id).await).view.preview.unwrap();
        desk.database.run(hidden);
        let call = ChangeCall::new(&ann);
        let looked = refused(desk.inspect(&ann, &id).await);
        let approved = refused(desk.guard.approve_change((&id, &preview), call).await);
        assert_eq!(looked.0, Code::ChangeConflict);
        told.push(json!([looked.1, approved.1]).to_string());
        for session in [&bot, &zoe] {
            let (code, _) = refused(desk.inspect(session, &id).await);
            assert_eq!(code, why, "{engine:?}");
        }
    }
    assert_eq!(told[0], told[1], "{engine:?}");
}

/// Whoever else sees a part of the rows proposes no undo, whichever rows the change was about.
async fn whoever_sees_a_part_undoes_nothing(engine: Engine) {
    let Sessions { bot, ann, .. } = sessions();
    let mut told = Vec::new();
    for world in WORLDS {
        let desk = Desk::new(engine, world).await;
        let sql = "UPDATE tickets SET title = 't' WHERE status = 'open' AND id IN (1, 3)";
        let id = desk.validate_new(&bot, sql, None).await;
        desk.approve(&ann, &id).await;
        desk.commit(&bot, &id).await;
        let call = ChangeCall::new(&ann);
        let (code, why) = refused(desk.guard.compensate_change(&id, None, call).await);
        assert_eq!(code, Code::ChangeNotCompensable, "{why}");
        told.push(why.to_string());
    }
    assert_eq!(told[0], told[1], "{engine:?}");
}

/// Looks count for whoever looks, and use up nothing of what belongs to another.
async fn a_look_counts_for_who_asks(engine: Engine) {
    let Sessions { bot, ann, .. } = sessions();
    let desk = Desk::with_budget(engine, "", Some(5)).await;
    let sql = "UPDATE tickets SET title = 't' WHERE id = 3";
    let id = desk.validate_new(&bot, sql, None).await;
    for _ in 0..5 {
        taken(desk.inspect(&ann, &id).await);
    }
    let (code, _) = refused(desk.inspect(&ann, &id).await);
    assert_eq!(code, Code::LimitBudget, "{engine:?}");
    let call = ChangeCall::new(&ann);
    let (code, _) = refused(desk.guard.approve_change((&id, "x"), call).await);
    assert_eq!(code, Code::ChangeConflict);
    // The proposer has asked twice.
    for _ in 0..3 {
        desk.validate(&bot, &id).await;
    }
    let call = ChangeCall::new(&bot);
    let (code, _) = refused(desk.guard.validate_change(&id, call).await);
    assert_eq!(code, Code::LimitBudget, "{engine:?}");
}

/// A look is recorded as that of whoever looks, with the name of who proposed the change.
async fn a_look_is_recorded_for_who_asks(engine: Engine) {
    let Sessions { bot, ann, .. } = sessions();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let origin = CallOrigin::new(Some("s1".to_owned()), Some("inspect_change"));
    let ann = ann.called_by(origin.with_traceparent(Some(trace)));
    let desk = Desk::new(engine, "").await;
    let sql = "UPDATE tickets SET title = note WHERE prio = 0";
    let id = desk.validate_new(&bot, sql, Some(2)).await;
    let of_statements = || -> Vec<AuditRecord> {
        let mut records = desk.records.take();
        records.retain(|record| record.kind == RecordKind::Statement);
        records
    };
    let own = of_statements();
    assert!(own.iter().all(|record| record.proposed_by.is_none()));
    assert!(
        own.iter()
            .all(|record| record.principal == "Agent::\"bot\"")
    );
    taken(desk.inspect(&ann, &id).await);
    desk.database
        .run("UPDATE tickets SET note = 'bad' WHERE id = 1");
    refused(desk.inspect(&ann, &id).await);
    let looks = of_statements();
    // What is not told to her is recorded.
    let codes: Vec<Option<Code>> = looks.iter().map(|record| record.code).collect();
    assert_eq!(codes, [None, Some(Code::DatabaseConstraint)], "{engine:?}");
    for record in looks {
        assert_eq!(record.principal, "User::\"ann\"");
        assert_eq!(record.proposed_by.as_deref(), Some("Agent::\"bot\""));
        assert_eq!(record.tool, Some("inspect_change"));
        assert_eq!(record.session.as_deref(), Some("s1"));
        assert!(record.trace.is_some() && record.dry_run, "{record:?}");
    }
}

macro_rules! on_every_engine {
    ($($name:ident)*) => {
        mod sqlite { $(#[tokio::test] async fn $name() { super::$name(super::Engine::Sqlite).await; })* }
        mod postgres { $(#[tokio::test] async fn $name() { super::$name(super::Engine::Postgres).await; })* }
        mod mariadb { $(#[tokio::test] async fn $name() { super::$name(super::Engine::Mariadb).await; })* }
    };
}

on_every_engine! {
    an_update_tells_nothing_of_hidden_rows
    columns_made_anew_tell_nothing_of_hidden_rows
    an_undo_tells_nothing_of_hidden_values
    a_failure_tells_nothing_of_hidden_rows
    whoever_sees_a_part_undoes_nothing
    a_look_counts_for_who_asks
    a_look_is_recorded_for_who_asks
}

/// Failures over hidden rows count for whoever looks, though the proposer sees these rows.
#[tokio::test]
async fn failures_count_for_who_asks() {
    let Sessions { bot, ann, .. } = sessions();
    let desk = Desk::new(Engine::Sqlite, "").await;
    let sql = "UPDATE tickets SET prio = abs(prio) WHERE id IN (1, 3)";
    let id = desk.validate_new(&bot, sql, None).await;
    desk.database
        .run("UPDATE tickets SET prio = -9223372036854775807 - 1 WHERE id = 1");
    let limits = Limits {
        max_failures: 2,
        ..Limits::default()
    };
    let look = async |session| {
        let call = ChangeCall {
            limits: Some(&limits),
            ..ChangeCall::new(session)
        };
        refused(desk.guard.inspect_change(&id, call).await).0
    };
    for expected in [
        Code::ChangeConflict,
        Code::ChangeConflict,
        Code::LimitFailures,
    ] {
        assert_eq!(look(&ann).await, expected);
    }
    for _ in 0..3 {
        assert_eq!(look(&bot).await, Code::DatabaseRejected);
    }
}
