//! Receipts in the database: a change that was being kept when something fell is settled by them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use palisade::{
    audit::NoAudit,
    change::{
        ChainedReceipt, ChangeBody, ChangeEvent, ChangeRecord, ChangeState, ChangeStore, Step,
        Stepped,
    },
    code::Code,
    firewall::Firewall,
    guard::{Backend, ChangeCall, ChangeProposal, Guard, LedgerFault, TracedRow},
    host::Host,
    session::{Principal, Session},
    value::{Params, Value},
};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::fixture::policy_sources;

use crate::database::{TestDatabase, TestFile};

const TABLES: &str = "
CREATE TABLE notes (id integer PRIMARY KEY, text varchar(20));
INSERT INTO notes VALUES (1, 'old');
CREATE TABLE palisade_receipts (change_id varchar(64) PRIMARY KEY, receipt text NOT NULL);
";

/// A clock that is set.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Host for Clock {
    fn unix_time(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}

/// A store that falls once: before a change is noted as kept, or right after it began.
struct Falling {
    store: ApprovalStore,
    at: ChangeEvent,
    has_fallen: AtomicBool,
}

impl ChangeStore for Falling {
    fn read_version(&self) -> Result<u64, String> {
        ChangeStore::read_version(&self.store)
    }

    fn propose(&self, body: &ChangeBody, now: Duration) -> Result<Option<ChangeRecord>, String> {
        ChangeStore::propose(&self.store, body, now)
    }

    fn find(&self, id: &str, now: Duration) -> Result<Option<ChangeRecord>, String> {
        ChangeStore::find(&self.store, id, now)
    }

    fn list(&self, now: Duration) -> Result<Vec<ChangeRecord>, String> {
        ChangeStore::list(&self.store, now)
    }

    fn step(&self, step: Step<'_>) -> Result<Stepped, String> {
        if step.event == self.at && !self.has_fallen.swap(true, Ordering::Relaxed) {
            if step.event == ChangeEvent::BeginUnapproved {
                self.store.step(step)?;
            }
            return Err("it fell".to_owned());
        }
        self.store.step(step)
    }

    fn hold_rows(&self, change: &str, marks: &[String]) -> Result<(), String> {
        self.store.hold_rows(change, marks)
    }

    fn list_receipts(&self) -> Result<Vec<ChainedReceipt>, String> {
        self.store.list_receipts()
    }

    fn trace_row(&self, mark: &str) -> Result<Vec<u64>, String> {
        self.store.trace_row(mark)
    }

    fn digest(&self, text: &str) -> String {
        self.store.digest(text)
    }

    fn new_id(&self) -> Result<String, String> {
        self.store.new_id()
    }

    fn lacks_operator(&self) -> Option<&'static str> {
        self.store.lacks_operator()
    }
}

fn guard<B: Backend>(backend: B, at: ChangeEvent) -> (Guard, Arc<Clock>) {
    let policies = policy_sources("permit (principal, action, resource);");
    let firewall = Firewall::builder(backend.catalog().clone(), policies).allow_changes();
    let clock = Arc::new(Clock::default());
    let guard = Guard::new(
        Arc::new(firewall.build().unwrap()),
        backend,
        Arc::clone(&clock) as Arc<dyn Host>,
        Arc::new(NoAudit),
    );
    let store = Falling {
        store: ApprovalStore::in_memory(ApprovalOptions::default()).unwrap(),
        at,
        has_fallen: AtomicBool::new(false),
    };
    (guard.with_changes(Arc::new(store)), clock)
}

/// What the database holds: the note, and how many receipts.
type Contents<'a> = &'a dyn Fn() -> (String, String);

async fn validated(guard: &Guard, agent: &Session) -> String {
    let call = ChangeCall::new(agent);
    let sql = "UPDATE notes SET text = 'secret' WHERE id = 1".to_owned();
    let proposed = guard
        .propose_change(ChangeProposal::new(&[(sql, Params::None)]), call)
        .await;
    let id = proposed.unwrap().change;
    let looked = guard.validate_change(&id, call).await;
    looked.unwrap_or_else(|why| panic!("{why:?}"));
    id
}

async fn finds_what_was_kept(guard: &Guard, contents: Contents<'_>) {
    let agent = Session::new(Principal::new("Agent", "bot"));
    let call = ChangeCall::new(&agent);
    let id = validated(guard, &agent).await;
    let fell = guard.commit_change(&id, call).await.unwrap_err();
    assert_eq!(fell.rejection.code(), Code::Internal);
    assert_eq!(contents(), ("secret".to_owned(), "1".to_owned()));
    // It was kept: the same change gives the receipt that stands in the database, and nothing is run again.
    let kept = guard
        .commit_change(&id, call)
        .await
        .unwrap_or_else(|why| panic!("{why:?}"));
    assert_eq!(kept.state, ChangeState::Committed);
    let receipt = kept.receipt.unwrap();
    assert_eq!(
        (receipt.tables[0].table.as_str(), receipt.tables[0].updated),
        ("notes", 1)
    );
    let again = guard.inspect_change(&id, call).await.unwrap().view;
    assert_eq!(again.receipt, Some(receipt));
    assert_eq!(contents(), ("secret".to_owned(), "1".to_owned()));
    // No statement reaches receipts.
    for sql in [
        "SELECT * FROM palisade_receipts",
        "DELETE FROM palisade_receipts WHERE change_id <> ''",
    ] {
        let told = guard
            .execute(sql, &Params::None, &agent)
            .await
            .into_result();
        assert_eq!(
            told.unwrap_err().rejection.code(),
            Code::NameUnknownRelation,
            "{sql}"
        );
    }
}

async fn releases_what_was_not_kept((guard, clock): &(Guard, Arc<Clock>), contents: Contents<'_>) {
    let agent = Session::new(Principal::new("Agent", "bot"));
    let call = ChangeCall::new(&agent);
    let id = validated(guard, &agent).await;
    let fell = guard.commit_change(&id, call).await.unwrap_err();
    assert_eq!(fell.rejection.code(), Code::Internal);
    assert_eq!(contents(), ("old".to_owned(), "0".to_owned()));
    // It may be under way elsewhere.
    let early = guard.commit_change(&id, call).await.unwrap_err();
    assert_eq!(early.rejection.code(), Code::ChangeWrongState);
    clock.0.store(600, Ordering::Relaxed);
    let looked = guard.inspect_change(&id, call).await.unwrap();
    assert_eq!(looked.view.state, ChangeState::Proposed);
    guard.validate_change(&id, call).await.unwrap();
    assert_eq!(
        guard.commit_change(&id, call).await.unwrap().state,
        ChangeState::Committed
    );
    assert_eq!(contents(), ("secret".to_owned(), "1".to_owned()));
}

fn of_file(file: &TestFile) -> (String, String) {
    let one = |sql: &str| {
        file.open_bare()
            .query_row(sql, [], |row| row.get(0))
            .unwrap()
    };
    (
        one("SELECT text FROM notes"),
        one("SELECT count(*) || '' FROM palisade_receipts WHERE receipt NOT LIKE '%secret%'"),
    )
}

fn of_server(database: &TestDatabase<'_>) -> (String, String) {
    let receipts = "SELECT count(*) FROM palisade_receipts WHERE receipt NOT LIKE '%secret%'";
    (
        database.query("SELECT text FROM notes"),
        database.query(receipts),
    )
}

#[tokio::test]
async fn on_sqlite() {
    let file = TestFile::new(TABLES);
    finds_what_was_kept(&guard(file.backend(), ChangeEvent::Keep).0, &|| {
        of_file(&file)
    })
    .await;
    let file = TestFile::new(TABLES);
    let falling = guard(file.backend(), ChangeEvent::BeginUnapproved);
    releases_what_was_not_kept(&falling, &|| of_file(&file)).await;
}

#[tokio::test]
async fn on_postgres() {
    let database = TestDatabase::postgres("receipts", TABLES);
    let falling = guard(database.postgres_backend().await, ChangeEvent::Keep);
    finds_what_was_kept(&falling.0, &|| of_server(&database)).await;
    let database = TestDatabase::postgres("receipts", TABLES);
    let falling = guard(
        database.postgres_backend().await,
        ChangeEvent::BeginUnapproved,
    );
    releases_what_was_not_kept(&falling, &|| of_server(&database)).await;
}

#[tokio::test]
async fn on_mariadb() {
    let database = TestDatabase::mariadb("receipts", TABLES);
    let falling = guard(database.mysql_backend().await, ChangeEvent::Keep);
    finds_what_was_kept(&falling.0, &|| of_server(&database)).await;
    let database = TestDatabase::mariadb("receipts", TABLES);
    let falling = guard(database.mysql_backend().await, ChangeEvent::BeginUnapproved);
    releases_what_was_not_kept(&falling, &|| of_server(&database)).await;
}

/// A table of receipts that is made later says nothing of a change that began without one: it may have been kept.
#[tokio::test]
async fn what_began_without_receipts_is_not_released_by_them() {
    let (notes, receipts) = TABLES.split_at(TABLES.find("CREATE TABLE palisade").unwrap());
    let file = TestFile::new(notes);
    let (guard, clock) = guard(file.backend(), ChangeEvent::Keep);
    let agent = Session::new(Principal::new("Agent", "bot"));
    let call = ChangeCall::new(&agent);
    let id = validated(&guard, &agent).await;
    guard.commit_change(&id, call).await.unwrap_err();
    file.open_bare().execute_batch(receipts).unwrap();
    assert!(guard.refresh().await.unwrap());
    clock.0.store(600, Ordering::Relaxed);
    assert_eq!(of_file(&file), ("secret".to_owned(), "0".to_owned()));
    let looked = guard.inspect_change(&id, call).await.unwrap();
    assert_ne!(looked.view.state, ChangeState::Proposed);
    let again = guard.commit_change(&id, call).await.unwrap_err();
    assert_eq!(again.rejection.code(), Code::ChangeWrongState);
}

/// What somebody does to the database's table is found beside the chain.
async fn finds_what_was_done_to_receipts(backend: impl Backend, run: &dyn Fn(&str)) {
    let policies = policy_sources("permit (principal, action, resource);");
    let firewall = Firewall::builder(backend.catalog().clone(), policies).allow_changes();
    let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
    let guard = Guard::new(
        Arc::new(firewall.build().unwrap()),
        backend,
        Arc::new(Clock::default()),
        Arc::new(NoAudit),
    );
    let guard = guard.with_changes(Arc::clone(&store) as Arc<dyn ChangeStore>);
    let agent = Session::new(Principal::new("Agent", "bot"));
    let id = validated(&guard, &agent).await;
    let kept = guard
        .commit_change(&id, ChangeCall::new(&agent))
        .await
        .unwrap_or_else(|why| panic!("{why:?}"));
    let links = store.verify_receipts().unwrap();
    assert_eq!((links.len(), links[0].body.rows), (1, 1));
    assert!(links[0].body.in_database);
    let found = async || guard.compare_receipts(&links).await.unwrap().unwrap();
    assert_eq!(found().await, []);
    let traced = |key: i64| {
        let key = std::collections::BTreeMap::from([("id".to_owned(), Value::Integer(key))]);
        let row = TracedRow {
            table: "notes",
            key: &key,
        };
        let traced = guard.trace_row(row, &agent).unwrap();
        traced
            .into_iter()
            .map(|view| view.receipt.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(traced(1), [kept.receipt.unwrap().id]);
    assert_eq!(traced(2), [] as [String; 0]);
    run("INSERT INTO palisade_receipts VALUES ('stray', '{}')");
    assert_eq!(found().await, [LedgerFault::Unchained("stray".to_owned())]);
    run(
        "UPDATE palisade_receipts SET receipt = replace(receipt, '\"updated\":1', '\"updated\":0')",
    );
    let (number, change) = (1, id);
    assert_eq!(
        found().await[0],
        LedgerFault::Altered {
            number,
            change: change.clone()
        }
    );
    run("DELETE FROM palisade_receipts");
    assert_eq!(found().await, [LedgerFault::Missing { number, change }]);
}

#[tokio::test]
async fn what_is_done_to_receipts_is_found_on_every_engine() {
    let file = TestFile::new(TABLES);
    finds_what_was_done_to_receipts(file.backend(), &|sql| {
        file.open_bare().execute_batch(sql).unwrap();
    })
    .await;
    let database = TestDatabase::postgres("receipts", TABLES);
    let backend = database.postgres_backend().await;
    finds_what_was_done_to_receipts(backend, &|sql| database.load(sql)).await;
    let database = TestDatabase::mariadb("receipts", TABLES);
    let backend = database.mysql_backend().await;
    finds_what_was_done_to_receipts(backend, &|sql| database.load(sql)).await;
}
