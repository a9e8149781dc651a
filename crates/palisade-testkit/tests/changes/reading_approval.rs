//! An approval that policies demand of reading and calling comes before a change is run, also where it is taken back; one of writing does not.

use std::sync::Arc;

use palisade::{
    approval::Approvals,
    change::{ChangeState, ChangeStore},
    code::Code,
    guard::{ChangeCall, ChangeProposal, Guard, PreviewedChange, Refusal},
    session::{Principal, Session},
    value::Params,
};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::{
    any_database::AnyDatabase,
    database::{TestDatabase, TestFile},
};

const TABLES: &str = "
CREATE TABLE pay (id integer PRIMARY KEY, v integer NOT NULL, w integer NOT NULL);
INSERT INTO pay VALUES (1, 777, 1);
CREATE TABLE scratch (id integer PRIMARY KEY, body text);
INSERT INTO scratch VALUES (1, 'old');
CREATE TABLE calls (n integer);
";

const FUNCTION: &str = "
CREATE FUNCTION send_it(x text) RETURNS text LANGUAGE sql VOLATILE
  AS $$ INSERT INTO calls VALUES (1); SELECT x || '!' $$;
";

const WRITING: &str = r#"
permit (principal, action in [Action::"insert", Action::"update", Action::"write", Action::"add", Action::"change"], resource);
permit (principal == User::"ann", action == Action::"approve", resource);
"#;

/// The approval on each of the actions by which `pay` is read.
const READING: [&str; 3] = [
    r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read"], resource) unless { resource == Table::"SCHEMA.pay" };
@approval("LEVEL") permit (principal, action == Action::"select", resource == Table::"SCHEMA.pay");
"#,
    r#"
permit (principal, action in [Action::"select", Action::"read"], resource);
permit (principal, action == Action::"see", resource is row::SCHEMA::scratch);
@approval("LEVEL") permit (principal, action == Action::"see", resource is row::SCHEMA::pay);
"#,
    r#"
permit (principal, action in [Action::"select", Action::"see"], resource);
permit (principal, action == Action::"read_plain", resource) unless { resource == Column::"SCHEMA.pay.v" };
@approval("LEVEL") permit (principal, action == Action::"read_plain", resource == Column::"SCHEMA.pay.v");
"#,
];

#[derive(Clone, Copy)]
enum Engine {
    Sqlite,
    Postgres,
}

struct Desk {
    guard: Guard,
    database: AnyDatabase,
}

impl Desk {
    async fn new(engine: Engine, policies: &str, level: &str) -> Self {
        let sources = |schema: &str| {
            let all = format!("{policies}{WRITING}");
            policy_sources(all.replace("SCHEMA", schema).replace("LEVEL", level))
        };
        let (gate, database) = match engine {
            Engine::Sqlite => {
                let file = TestFile::new(TABLES);
                let gate = changing_gate(file.backend(), sources("main"));
                (gate, AnyDatabase::File(file))
            }
            Engine::Postgres => {
                let script = format!("{TABLES}{FUNCTION}");
                let database = TestDatabase::postgres("reading_approval", &script);
                let gate = changing_gate(database.postgres_backend().await, sources("public"));
                (gate, AnyDatabase::Server(database))
            }
        };
        let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
        let guard = gate
            .with_approvals(Arc::clone(&store) as Arc<dyn Approvals>)
            .with_changes(store as Arc<dyn ChangeStore>);
        Self { guard, database }
    }

    async fn propose(&self, session: &Session, sql: &str) -> String {
        let statements = [(sql.to_owned(), Params::None)];
        let call = ChangeCall::new(session);
        let proposed = self
            .guard
            .propose_change(ChangeProposal::new(&statements), call);
        proposed
            .await
            .unwrap_or_else(|why| panic!("{sql}: {why:?}"))
            .change
    }

    async fn validate(&self, session: &Session, id: &str) -> Result<PreviewedChange, Refusal> {
        let call = ChangeCall::new(session);
        self.guard.validate_change(id, call).await
    }

    async fn inspect(&self, session: &Session, id: &str) -> Result<PreviewedChange, Refusal> {
        let call = ChangeCall::new(session);
        self.guard.inspect_change(id, call).await
    }
}

fn desk() -> Session {
    Session::new(Principal::new("Agent", "desk"))
}

fn ann() -> Session {
    Session::new(Principal::new("User", "ann"))
}

fn refused<T>(result: Result<T, Refusal>) -> Refusal {
    let Err(refusal) = result else {
        panic!("it was not refused");
    };
    assert_eq!(
        refusal.rejection.code(),
        Code::ApprovalRequired,
        "{refusal:?}"
    );
    refusal
}

async fn reading_waits_for_its_approval(engine: Engine) {
    let desk_of = desk();
    for policies in READING {
        let desk = Desk::new(engine, policies, "required").await;
        for sql in [
            "UPDATE scratch SET body = (SELECT v FROM pay WHERE pay.id = 1) WHERE id = 1",
            "INSERT INTO scratch (id, body) SELECT 2, 'x' FROM pay WHERE v >= 777",
            "UPDATE pay SET w = 2 WHERE id = 1 AND v >= 777",
        ] {
            let id = desk.propose(&desk_of, sql).await;
            let refusal = refused(desk.validate(&desk_of, &id).await);
            let told = refusal.rejection.message();
            assert!(told.contains("before it is run to be looked at"), "{told}");
            // Nothing of it is known to anybody.
            let looked = desk.inspect(&ann(), &id).await.unwrap();
            assert!(looked.preview.is_none() && looked.view.affected_rows.is_none());
            // Nor may an approval of another request stand for it.
            refused(desk.validate(&desk_of, &id).await);
            let pending = refusal.pending.expect("the request waits");
            desk.guard.confirm(&pending, &desk_of).unwrap();
            let executed = desk.guard.execute(sql, &Params::None, &desk_of).await;
            let executed = executed.into_result().unwrap_err().rejection;
            assert_eq!(executed.code(), Code::ApprovalRequired, "{sql}");
            // What was approved holds for each look at this change.
            let looked = desk.validate(&desk_of, &id).await.unwrap();
            assert_eq!(looked.view.affected_rows, Some(vec![1]), "{sql}");
            let preview = looked.view.preview.unwrap();
            let looked = desk.inspect(&ann(), &id).await.unwrap();
            assert!(looked.is_as_validated, "{sql}");
            // Another one waits as well.
            let other = desk.propose(&desk_of, sql).await;
            refused(desk.validate(&desk_of, &other).await);
            // It is kept once what it does is approved too.
            refused(
                desk.guard
                    .commit_change(&id, ChangeCall::new(&desk_of))
                    .await,
            );
            let ann = ann();
            let approved = desk
                .guard
                .approve_change((&id, &preview), ChangeCall::new(&ann));
            let approved = approved.await;
            if sql.starts_with("UPDATE pay") {
                // Who would need an approval to see the rows cannot let them be changed.
                let why = approved.unwrap_err().rejection;
                assert_eq!(why.code(), Code::PolicyNoPermit, "{sql}");
                continue;
            }
            approved.unwrap();
            let kept = desk
                .guard
                .commit_change(&id, ChangeCall::new(&desk_of))
                .await;
            assert_eq!(kept.unwrap().state, ChangeState::Committed, "{sql}");
        }
    }
}

/// An operator's approval is given by no client, so that nothing is looked at where no operator reaches the request.
async fn an_operators_approval_of_reading_is_no_clients(engine: Engine) {
    let session = desk();
    for policies in READING {
        let desk = Desk::new(engine, policies, "operator").await;
        let sql = "UPDATE scratch SET body = (SELECT v FROM pay WHERE pay.id = 1) WHERE id = 1";
        let id = desk.propose(&session, sql).await;
        refused(desk.validate(&session, &id).await);
        let sql = "UPDATE scratch SET body = 'new' WHERE id = 1";
        let id = desk.propose(&session, sql).await;
        desk.validate(&session, &id).await.unwrap();
    }
}

/// Where an approval is demanded of the change alone, its preview is what an approver looks at.
async fn an_approval_of_writing_waits_until_the_change_is_kept(engine: Engine) {
    let policies = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read"], resource);
@approval("LEVEL") permit (principal, action == Action::"update", resource == Table::"SCHEMA.pay");
@approval("LEVEL") permit (principal, action == Action::"write", resource == Column::"SCHEMA.pay.v");
"#;
    let session = desk();
    for level in ["required", "operator"] {
        let desk = Desk::new(engine, policies, level).await;
        let sql = "UPDATE pay SET v = v + 1 WHERE id = 1";
        let id = desk.propose(&session, sql).await;
        let looked = desk.validate(&session, &id).await.unwrap();
        assert_eq!(looked.view.approval.as_deref(), Some(level));
        assert_eq!(looked.view.affected_rows, Some(vec![1]));
        refused(
            desk.guard
                .commit_change(&id, ChangeCall::new(&session))
                .await,
        );
    }
}

/// From whom an approval is demanded before it reads a table, it does not see the table as a whole.
async fn who_waits_to_read_is_told_of_no_rows(engine: Engine) {
    let policies = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read"], resource) unless { principal == User::"ann" };
@approval("LEVEL") permit (principal == User::"ann", action in [Action::"select", Action::"see", Action::"read"], resource);
"#;
    let (session, ann) = (desk(), ann());
    let desk = Desk::new(engine, policies, "required").await;
    let sql = "UPDATE pay SET w = w WHERE v >= 777";
    let id = desk.propose(&session, sql).await;
    desk.validate(&session, &id).await.unwrap();
    let looked = desk.inspect(&ann, &id).await.unwrap();
    assert_eq!(looked.view.affected_rows, None);
    let preview = looked.preview.unwrap();
    assert_eq!(preview.rows.affected_rows(), None);
    assert_eq!(preview.rows.answer().row_count(), 0);
    // Whether rows of it are different or not.
    let told = preview.counted.iter();
    let told: Vec<_> = told.map(|(_, rows)| rows.to_string()).collect();
    assert!(
        told.len() == 1 && told[0].starts_with("not shown"),
        "{told:?}"
    );
}

#[tokio::test]
async fn reading_waits_for_its_approval_on_sqlite() {
    reading_waits_for_its_approval(Engine::Sqlite).await;
    an_operators_approval_of_reading_is_no_clients(Engine::Sqlite).await;
    an_approval_of_writing_waits_until_the_change_is_kept(Engine::Sqlite).await;
    who_waits_to_read_is_told_of_no_rows(Engine::Sqlite).await;
}

#[tokio::test]
async fn reading_waits_for_its_approval_on_postgres() {
    reading_waits_for_its_approval(Engine::Postgres).await;
    an_operators_approval_of_reading_is_no_clients(Engine::Postgres).await;
    an_approval_of_writing_waits_until_the_change_is_kept(Engine::Postgres).await;
    who_waits_to_read_is_told_of_no_rows(Engine::Postgres).await;
}

/// A function that waits for an approval is not called by a validation.
#[tokio::test]
async fn no_validation_calls_a_function_that_waits() {
    let policies = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read"], resource);
@approval("LEVEL") permit (principal, action == Action::"call", resource == Function::"SCHEMA.send_it");
"#;
    let session = desk();
    let desk = Desk::new(Engine::Postgres, policies, "required").await;
    let sql = "UPDATE scratch SET body = send_it('x') WHERE id = 1";
    let id = desk.propose(&session, sql).await;
    let before = desk.database.value("SELECT count(*) FROM calls");
    let pending = refused(desk.validate(&session, &id).await).pending;
    assert_eq!(before, desk.database.value("SELECT count(*) FROM calls"));
    desk.guard.confirm(&pending.unwrap(), &session).unwrap();
    let looked = desk.validate(&session, &id).await.unwrap();
    assert_eq!(looked.view.affected_rows, Some(vec![1]));
}
