//! Two servers over one store in a PostgreSQL database: what one of them knows, the other does, and what counts once counts once.

use std::{sync::Arc, time::Duration};

use palisade::{
    approval::{ApprovalRequest, Approvals as _, Redemption},
    change::{ChangeState, ChangeStore},
    code::Code,
    guard::{ChangeCall, ChangeProposal, Guard},
    past::{KeptLabel, LabelKeeping, LabelStore},
    policy::ApprovalLevel,
    session::{Principal, Session, Transport},
    value::Params,
};
use palisade_postgres::PostgresConfig;
use palisade_state::{ApprovalOptions, ApprovalStore, StateSecret};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::database::TestDatabase;

const NOTES: &str = "
CREATE TABLE notes (id integer PRIMARY KEY, text varchar(20));
INSERT INTO notes VALUES (1, 'old');
";

const POLICIES: &str = r#"
permit (principal, action, resource);
@approval("required")
permit (principal == Agent::"bot", action == Action::"update", resource == Table::"public.notes");
"#;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn try_open(url: &str) -> Result<ApprovalStore, String> {
    let config = PostgresConfig::from_url(url).unwrap().accept_superuser();
    let secret = StateSecret::new(*b"the same on each server");
    let store = ApprovalStore::open_postgres(config, &secret, ApprovalOptions::default());
    store.map_err(|why| why.to_string())
}

fn open(url: &str) -> Arc<ApprovalStore> {
    Arc::new(try_open(url).unwrap_or_else(|why| panic!("{why}")))
}

async fn server(database: &TestDatabase<'_>, store: &Arc<ApprovalStore>) -> Guard {
    let gate = changing_gate(database.postgres_backend().await, policy_sources(POLICIES));
    gate.with_labels(Arc::clone(store) as Arc<dyn LabelStore>)
        .with_changes(Arc::clone(store) as Arc<dyn ChangeStore>)
}

/// A change is proposed at one server, approved at the other, and kept at the first; the receipt is known to both.
#[tokio::test]
async fn a_change_is_approved_at_one_server_and_kept_at_another() {
    let database = TestDatabase::postgres("shared", NOTES);
    let stores = [open(&database.url()), open(&database.url())];
    let one = server(&database, &stores[0]).await;
    let two = server(&database, &stores[1]).await;
    let session = |name: &str| Session::new(Principal::new("Agent", name)).over(Transport::Http);
    let (bot, other) = (session("bot"), session("other"));
    let sql = "UPDATE notes SET text = 'new' WHERE id = 1".to_owned();
    let statements = [(sql, Params::None)];
    let proposed = one
        .propose_change(
            ChangeProposal {
                reason: Some("spelling"),
                ..ChangeProposal::new(&statements)
            },
            ChangeCall::new(&bot),
        )
        .await;
    let id = proposed.unwrap().change;
    // Each step at another server.
    let looked = two.validate_change(&id, ChangeCall::new(&bot)).await;
    let preview = looked.unwrap().view.preview.unwrap();
    let early = one.commit_change(&id, ChangeCall::new(&bot)).await;
    assert_eq!(
        early.unwrap_err().rejection.code(),
        Code::ApprovalRequired,
        "it is not approved"
    );
    let approved = one
        .approve_change((&id, &preview), ChangeCall::new(&other))
        .await;
    assert_eq!(approved.unwrap().state, ChangeState::Approved);
    let kept = two.commit_change(&id, ChangeCall::new(&bot)).await.unwrap();
    assert_eq!(kept.state, ChangeState::Committed);
    assert_eq!(database.query("SELECT text FROM notes"), "new");
    // Again, it is the same receipt, at whichever server.
    let again = one.commit_change(&id, ChangeCall::new(&bot)).await.unwrap();
    assert_eq!(again.receipt, kept.receipt);
    for store in &stores {
        assert_eq!(store.verify_receipts().unwrap().len(), 1);
    }
    // No statement reaches the store, though it stands in the same database and policy permits everything.
    for sql in [
        "SELECT * FROM palisade_state.changes",
        "UPDATE palisade_state.approvals SET state = 'approved' WHERE id <> ''",
        "DELETE FROM palisade_state.receipts WHERE number > 0",
    ] {
        let told = one.execute(sql, &Params::None, &other).await.into_result();
        assert_eq!(
            told.unwrap_err().rejection.code(),
            Code::NameUnknownRelation,
            "{sql}"
        );
    }
    // No value stands in it.
    let stored = database
        .query("SELECT string_agg(encode(sealed, 'escape'), '') FROM palisade_state.changes");
    assert!(!stored.contains("spelling") && !stored.contains("new"));
}

/// Of many that redeem one approval at two servers, one runs.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_counts_once_over_all_servers() {
    let database = TestDatabase::postgres("shared", NOTES);
    let stores = [open(&database.url()), open(&database.url())];
    let request = ApprovalRequest {
        bound: r#"{"version": 1}"#.to_owned(),
        level: ApprovalLevel::Required,
        principal: "Agent::\"a\"".to_owned(),
        relations: Vec::new(),
        now: NOW,
    };
    let Ok(Redemption::Pending(pending)) = stores[0].redeem(&request) else {
        panic!("it waits");
    };
    let version = LabelStore::read_version(&*stores[0]);
    stores[1]
        .confirm(&pending.id, &request.principal, NOW)
        .unwrap();
    assert_ne!(LabelStore::read_version(&*stores[0]), version);
    let redeem = |number: usize| {
        let (store, request) = (Arc::clone(&stores[number % 2]), request.clone());
        std::thread::spawn(move || matches!(store.redeem(&request), Ok(Redemption::Approved(_))))
    };
    let threads: Vec<_> = (0..8).map(redeem).collect();
    let redeemed = threads.into_iter().map(|thread| thread.join().unwrap());
    assert_eq!(redeemed.filter(|is_redeemed| *is_redeemed).count(), 1);
}

/// A name of a snapshot is taken at all servers, and its moment is known to all.
#[tokio::test]
async fn labels_are_known_to_all_servers() {
    let database = TestDatabase::postgres("shared", "");
    let stores = [open(&database.url()), open(&database.url())];
    let label = |name: Option<&str>, taken_ms| KeptLabel {
        name: name.map(str::to_owned),
        label: "1:1".to_owned(),
        taken_ms,
        taken_by: None,
    };
    let monday = label(Some("monday"), 2);
    assert_eq!(
        stores[0].keep_label("desk", &monday),
        Ok(LabelKeeping::Kept)
    );
    assert_eq!(
        stores[1].keep_label("desk", &monday),
        Ok(LabelKeeping::NameTaken)
    );
    assert_eq!(
        stores[1].keep_label("desk", &label(None, 3)),
        Ok(LabelKeeping::Kept)
    );
    assert_eq!(stores[1].find_snapshot("desk", "monday"), Ok(Some(monday)));
    assert_eq!(stores[0].find_label_at("desk", 9), Ok(Some(label(None, 3))));
    assert_eq!(stores[0].find_label_at("desk", 1), Ok(None));
    assert_eq!(stores[0].delete_snapshot("desk", "monday"), Ok(true));
    assert_eq!(stores[1].list_snapshots("desk"), Ok(Vec::new()));
}

/// A session that is ended leaves nothing half done, and the next call has another.
#[tokio::test]
async fn a_lost_session_is_made_anew() {
    let database = TestDatabase::postgres("shared", "");
    let store = open(&database.url());
    let label = KeptLabel {
        name: None,
        label: "1:1".to_owned(),
        taken_ms: 1,
        taken_by: None,
    };
    store.keep_label("desk", &label).unwrap();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert_eq!(database.query(end), "1");
    // The end may be noticed with the next statement alone.
    let found = (0..20).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        store.find_label_at("desk", 1).ok()
    });
    assert_eq!(found, Some(Some(label)));
}

/// What another program or a later version has made is not used.
#[tokio::test]
async fn other_tables_are_refused() {
    let database = TestDatabase::postgres("shared", "");
    drop(open(&database.url()));
    database.load("UPDATE palisade_state.form SET version = version + 1");
    let refused = try_open(&database.url()).unwrap_err();
    assert!(refused.contains("update the program"), "{refused}");
    database.load("DELETE FROM palisade_state.form");
    let refused = try_open(&database.url()).unwrap_err();
    assert!(refused.contains("holds something else"), "{refused}");
    let nowhere = database.url_through(1);
    let refused = try_open(&nowhere).unwrap_err();
    assert!(
        refused.contains("cannot use the state's database"),
        "{refused}"
    );
    // An account that may make no schema uses one that was made for it.
    let other = TestDatabase::postgres(
        "shared",
        "CREATE ROLE keeper LOGIN; CREATE SCHEMA palisade_state AUTHORIZATION keeper;",
    );
    let store = try_open(&other.url_as("keeper")).unwrap();
    assert_eq!(store.count_waiting(NOW), Ok(0));
}
