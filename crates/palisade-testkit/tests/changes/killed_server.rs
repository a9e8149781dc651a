//! A server that is killed at every step of a commit, beside another one over the same store: no change without its receipt, no receipt
//! without its change, and each is kept once.
//!
//! What a server does before it sends a message, and what it hears after one, changes nothing outside of it. So it is killed with each message
//! that it sends, to the database or to the store: all of its connections end, and it reaches neither any more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use palisade::{
    audit::NoAudit,
    change::{ChangeState, ChangeStore, Receipt},
    code::Code,
    firewall::Firewall,
    guard::{ChangeCall, ChangeProposal, Guard},
    host::Host,
    session::{Principal, Session},
    value::Params,
};
use palisade_postgres::PostgresConfig;
use palisade_state::{ApprovalOptions, ApprovalStore, StateSecret};
use palisade_testkit::{fixture::policy_sources, servers::CuttingProxy};
use tokio::time::sleep;

use crate::database::TestDatabase;

const TABLES: &str = "
CREATE TABLE notes (id integer PRIMARY KEY, text varchar(20));
INSERT INTO notes VALUES (1, 'old');
CREATE TABLE palisade_receipts (change_id varchar(64) PRIMARY KEY, receipt text NOT NULL);
CREATE TABLE palisade_images (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL, image text NOT NULL, PRIMARY KEY (change_id, part));
";

/// Messages that a commit sends before it notes that it began, so that it is as if it had not been asked for: all but the last of them are left
/// out.
const BEFORE: u32 = 8;

/// Of how many changes that were not kept the other server keeps one.
const TRIED_AGAIN: u32 = 5;

/// More messages than a commit sends.
const MANY: u32 = 300;

/// A clock that is set, of both servers.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Host for Clock {
    fn unix_time(&self) -> Duration {
        Duration::from_secs(1_800_000_000 + self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}

struct TestServer {
    guard: Guard,
    store: Arc<ApprovalStore>,
}

impl TestServer {
    /// Reaches database and store by this URL.
    async fn start(url: &str, clock: &Arc<Clock>) -> Self {
        let config = PostgresConfig::from_url(url).unwrap().accept_superuser();
        let secret = StateSecret::new(*b"the same on each server");
        let store = ApprovalStore::open_postgres(config, &secret, ApprovalOptions::default());
        let store = Arc::new(store.unwrap_or_else(|why| panic!("{why}")));
        let backend = TestDatabase::connect_postgres(url).await;
        let policies = policy_sources("permit (principal, action, resource);");
        let firewall = Firewall::builder(
            palisade::guard::Backend::catalog(&backend).clone(),
            policies,
        );
        let guard = Guard::new(
            Arc::new(firewall.allow_changes().build().unwrap()),
            backend,
            Arc::clone(clock) as Arc<dyn Host>,
            Arc::new(NoAudit),
        );
        let changes = Arc::clone(&store) as Arc<dyn ChangeStore>;
        Self {
            guard: guard.with_changes(changes),
            store,
        }
    }
}

/// What stands in the database: the note, and the receipt of a change.
async fn look(client: &tokio_postgres::Client, change: &str) -> (String, Option<Receipt>) {
    let sql = "SELECT n.text, (SELECT r.receipt FROM palisade_receipts r WHERE r.change_id = $1) FROM notes n";
    let row = client.query_one(sql, &[&change]).await.unwrap();
    let receipt: Option<String> = row.get(1);
    let receipt = receipt.map(|text| serde_json::from_str(&text).unwrap());
    (row.get(0), receipt)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_whole_or_nothing_wherever_its_server_is_killed() {
    let database = TestDatabase::postgres("killed", TABLES);
    let account = format!("a_{}", database.name());
    database.load(&format!("CREATE ROLE {account} LOGIN SUPERUSER"));
    let clock = Arc::new(Clock::default());
    let beside = database.postgres_client().await;
    let two = TestServer::start(&database.url(), &clock).await;
    let bot = Session::new(Principal::new("Agent", "bot"));
    let call = ChangeCall::new(&bot);
    let (mut seen, mut kept) = ([0_u32; 3], 0);
    for messages in BEFORE..MANY {
        let proxy = CuttingProxy::start(database.server().port()).unwrap();
        let direct = format!(":{}/", database.server().port());
        let through = format!(":{}/", proxy.port());
        let url = database.url_as(&account).replace(&direct, &through);
        let one = TestServer::start(&url, &clock).await;
        let text = format!("n{messages}");
        let sql = format!("UPDATE notes SET text = '{text}' WHERE id = 1");
        let proposed = two
            .guard
            .propose_change(ChangeProposal::new(&[(sql, Params::None)]), call)
            .await;
        let id = proposed.unwrap_or_else(|why| panic!("{why:?}")).change;
        let validated = two.guard.validate_change(&id, call).await;
        validated.unwrap_or_else(|why| panic!("{why:?}"));
        proxy.cut_after(messages);
        let is_killed = async {
            while !proxy.is_cut() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let is_done = tokio::select! {
            told = one.guard.commit_change(&id, call) => !proxy.is_cut() && told.is_ok(),
            () = is_killed => false,
        };
        drop(one);
        wait_until_gone(&beside, &account).await;
        let (note, receipt) = look(&beside, &id).await;
        assert_eq!(
            note == text,
            receipt.is_some(),
            "{messages}: the note is {note}, and its receipt {receipt:?}"
        );
        // The other server finds out what became of it, and keeps it where that was nothing.
        let was_kept = receipt.is_some();
        let told = two.guard.commit_change(&id, call).await;
        let view = match told {
            Ok(view) => {
                seen[usize::from(was_kept)] += 1;
                view
            }
            Err(refusal) => {
                assert_eq!(refusal.rejection.code(), Code::ChangeWrongState);
                assert!(!was_kept, "{messages}: {refusal:?}");
                clock.0.fetch_add(600, Ordering::Relaxed);
                let looked = two.guard.inspect_change(&id, call).await.unwrap();
                assert_eq!(looked.view.state, ChangeState::Proposed, "{messages}");
                seen[2] += 1;
                if messages % TRIED_AGAIN != 0 {
                    continue;
                }
                two.guard.validate_change(&id, call).await.unwrap();
                two.guard.commit_change(&id, call).await.unwrap()
            }
        };
        kept += 1;
        assert_eq!(view.state, ChangeState::Committed, "{messages}");
        let (note, now) = look(&beside, &id).await;
        assert_eq!(note, text, "{messages}");
        assert_eq!(
            now,
            receipt.or(now.clone()),
            "{messages}: it was kept twice"
        );
        assert!(now.is_some(), "{messages}");
        let links = two.store.verify_receipts().unwrap();
        assert_eq!(links.len(), kept, "{messages}");
        let faults = two.guard.compare_receipts(&links).await.unwrap();
        assert_eq!(faults, Some(Vec::new()), "{messages}");
        if is_done {
            // Before it began, after it was kept, and in between.
            assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
            return;
        }
    }
    panic!("no commit ended within {MANY} messages");
}

/// Waits until the server has noticed that sessions of `account` are gone.
async fn wait_until_gone(client: &tokio_postgres::Client, account: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
    loop {
        let left: i64 = client.query_one(sql, &[&account]).await.unwrap().get(0);
        if left == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "sessions are left");
        sleep(Duration::from_millis(2)).await;
    }
}
