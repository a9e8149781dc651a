//! A process that is killed while it keeps a change, at each call of its store and at many moments of its commit. Whatever runs after it finds
//! the change with its receipt or neither of both, tells which, and keeps it once.
//!
//! PostgreSQL has a test of its own in `killed_server`, which counts messages.

use std::{
    env,
    io::{BufRead as _, BufReader, Lines},
    os::unix::{fs::MetadataExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use mysql_async::prelude::Queryable as _;
use palisade::{
    change::{
        ChainedReceipt, ChangeBody, ChangeEvent, ChangeRecord, ChangeState, ChangeStore, Receipt,
        Step, Stepped,
    },
    code::Code,
    guard::{ChangeCall, ChangeProposal, Guard},
    host::Host,
    session::{Principal, Session},
    value::Params,
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_sqlite::SqliteBackend;
use palisade_state::{ApprovalOptions, ApprovalStore, StateSecret};
use palisade_testkit::{fixture::policy_sources, live::changing_gate_on};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    any_database::AnyDatabase,
    database::{TestDatabase, TestFile},
};

const TABLES: &str = "
CREATE TABLE notes (id integer PRIMARY KEY, text varchar(20));
INSERT INTO notes VALUES (1, 'old');
CREATE TABLE palisade_receipts (change_id varchar(64) PRIMARY KEY, receipt text NOT NULL);
CREATE TABLE palisade_images (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL, image text NOT NULL, PRIMARY KEY (change_id, part));
";

/// What the process is told, as JSON.
const TOLD: &str = "PALISADE_TEST_KILLED_PROCESS";

/// What it says before the number of microseconds after which the database had kept its change.
const KEPT: &str = "kept after ";

/// Seconds after which a change that left no receipt was not kept.
const LATER: u64 = 600;

/// Moments that are spread over the time that a commit takes.
const MOMENTS: u32 = 30;

/// More calls of the store than a commit makes.
const MANY: u32 = 100;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A clock that stands still.
#[derive(Debug, Clone, Copy)]
struct At(u64);

impl Host for At {
    fn unix_time(&self) -> Duration {
        Duration::from_secs(1_800_000_000 + self.0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0)
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}

/// A store that says where its process stands before and after it is written or read, and stays there at one of these places.
struct Stopping {
    store: Arc<ApprovalStore>,
    stop: Option<u32>,
    passed: AtomicU32,
    began: Instant,
}

impl Stopping {
    fn pass(&self) {
        if self.stop == Some(self.passed.fetch_add(1, Ordering::Relaxed)) {
            stay("stands");
        }
    }

    fn between<T>(&self, call: impl FnOnce(&ApprovalStore) -> T) -> T {
        self.pass();
        let told = call(&self.store);
        self.pass();
        told
    }
}

impl ChangeStore for Stopping {
    fn read_version(&self) -> Result<u64, String> {
        ChangeStore::read_version(&*self.store)
    }

    fn propose(&self, body: &ChangeBody, now: Duration) -> Result<Option<ChangeRecord>, String> {
        self.between(|store| ChangeStore::propose(store, body, now))
    }

    fn find(&self, id: &str, now: Duration) -> Result<Option<ChangeRecord>, String> {
        self.between(|store| ChangeStore::find(store, id, now))
    }

    fn list(&self, now: Duration) -> Result<Vec<ChangeRecord>, String> {
        self.between(|store| ChangeStore::list(store, now))
    }

    fn step(&self, step: Step<'_>) -> Result<Stepped, String> {
        if step.event == ChangeEvent::Keep {
            eprintln!("{KEPT}{}", self.began.elapsed().as_micros());
        }
        self.between(|store| store.step(step))
    }

    fn hold_rows(&self, change: &str, marks: &[String]) -> Result<(), String> {
        self.between(|store| store.hold_rows(change, marks))
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

/// Says a word and does nothing more.
fn stay(word: &str) -> ! {
    eprintln!("{word}");
    loop {
        thread::park();
    }
}

fn bot() -> Session {
    Session::new(Principal::new("Agent", "bot"))
}

/// What a process keeps changes with: a database, by its URL or its path, and a state file.
async fn start((database, state): (&str, &Path), now: u64) -> (Guard, Arc<ApprovalStore>) {
    let secret = StateSecret::new(*b"the same in each process");
    let store = ApprovalStore::open(state, &secret, ApprovalOptions::default());
    let store = Arc::new(store.unwrap_or_else(|why| panic!("{why}")));
    let policies = policy_sources("permit (principal, action, resource);");
    let gate = if database.contains("://") {
        let config = MysqlConfig::from_url(database).unwrap().accept_powerful();
        let backend = MysqlBackend::connect(config.writable()).await.unwrap();
        changing_gate_on(backend, policies, At(now))
    } else {
        let backend = SqliteBackend::open_file(database, "main").unwrap();
        changing_gate_on(backend.writable(), policies, At(now))
    };
    let changes = Arc::clone(&store) as Arc<dyn ChangeStore>;
    (gate.with_changes(changes), store)
}

/// The process that is killed: it keeps one change.
#[tokio::test]
#[ignore = "run by the tests of this file, in a process of its own"]
async fn keeps_a_change() {
    let Ok(told) = env::var(TOLD) else {
        return;
    };
    let told: Value = serde_json::from_str(&told).unwrap();
    let text = |key: &str| told[key].as_str().unwrap();
    let stop = told["stop"]
        .as_u64()
        .map(|stop| u32::try_from(stop).unwrap());
    let place = (text("database"), Path::new(text("state")));
    let (guard, store) = start(place, told["now"].as_u64().unwrap()).await;
    let guard = guard.with_changes(Arc::new(Stopping {
        store,
        stop,
        passed: AtomicU32::new(0),
        began: Instant::now(),
    }));
    let session = bot();
    eprintln!("begins");
    let kept = guard
        .commit_change(text("change"), ChangeCall::new(&session))
        .await;
    match kept {
        Ok(_) => stay("done"),
        Err(refusal) => panic!("{refusal:?}"),
    }
}

/// It, from outside.
struct Killed {
    process: Child,
    said: Lines<BufReader<ChildStderr>>,
    found: Found,
}

/// What was heard of a commit.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    kept_after: Option<Duration>,
    is_done: bool,
}

impl Found {
    fn note(&mut self, line: &str) {
        if let Some(micros) = line.strip_prefix(KEPT) {
            self.kept_after = Some(Duration::from_micros(micros.parse().unwrap()));
        }
        self.is_done |= line == "done";
    }
}

impl Killed {
    fn start(told: &Value) -> Self {
        let name = "killed_process::keeps_a_change";
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(TOLD, told.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap()).lines();
        Self {
            process,
            said,
            found: Found::default(),
        }
    }

    /// Waits until it says one of these.
    fn wait_for(&mut self, words: &[&str]) {
        let mut said = Vec::new();
        for line in self.said.by_ref().map(Result::unwrap) {
            self.found.note(&line);
            if words.contains(&line.as_str()) {
                return;
            }
            said.push(line);
        }
        panic!("it ended by itself: {said:#?}");
    }

    /// Kills it: what was heard until then.
    fn kill(mut self) -> Found {
        self.process.kill().unwrap();
        let status = self.process.wait().unwrap();
        let rest: Vec<String> = self.said.map(Result::unwrap).collect();
        assert_eq!(status.signal(), Some(9), "it ended by itself: {rest:#?}");
        for line in rest {
            self.found.note(&line);
        }
        self.found
    }
}

/// When a process is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kill {
    /// Where it has passed so many places of its store.
    AtPlace(u32),
    /// So long after its commit began.
    After(Duration),
    /// While the database makes it wait, with all of the change written and none of it kept.
    HeldBack,
    /// Once its change is kept.
    Late,
}

/// What a commit that was killed had come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Untouched,
    Begun,
    Kept,
}

/// A database and a state file that processes come to one after the other.
struct Scene {
    database: AnyDatabase,
    /// For the process that is killed.
    place: String,
    /// For those that are not.
    own_place: String,
    account: String,
    folder: TempDir,
    now: u64,
    round: u64,
    /// The least time after which the database had kept a change.
    least: Duration,
}

impl Scene {
    fn sqlite() -> Self {
        let file = TestFile::new(TABLES);
        let place = file.path().to_str().unwrap().to_owned();
        Self::new(
            AnyDatabase::File(file),
            [place.clone(), place],
            String::new(),
        )
    }

    /// Accounts see this database alone, whatever other tests make on the server meanwhile.
    fn mariadb() -> Self {
        let database = TestDatabase::mariadb("killed", TABLES);
        let account = format!("a_{database}");
        let own = format!("b_{database}");
        for name in [&account, &own] {
            database.load(&format!(
                "CREATE USER {name}; GRANT ALL ON `{database}`.* TO {name};"
            ));
        }
        let places = [database.url_as(&account), database.url_as(&own)];
        Self::new(AnyDatabase::Server(database), places, account)
    }

    fn new(database: AnyDatabase, [place, own_place]: [String; 2], account: String) -> Self {
        Self {
            database,
            place,
            own_place,
            account,
            folder: tempfile::tempdir().unwrap(),
            now: 0,
            round: 0,
            least: PATIENCE,
        }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state.db")
    }

    /// What comes after a process that was killed: here it is this one, with connections of its own.
    async fn restart(&self) -> (Guard, Arc<ApprovalStore>) {
        start((&self.own_place, &self.state()), self.now).await
    }

    /// What stands in the database: the note, and the receipt of a change.
    fn look(&self, change: &str) -> (String, Option<Receipt>) {
        let note = self.database.value("SELECT text FROM notes");
        let receipt = "SELECT coalesce(max(receipt), '') FROM palisade_receipts WHERE change_id";
        let receipt = self.database.value(&format!("{receipt} = '{change}'"));
        let receipt = (!receipt.is_empty()).then(|| serde_json::from_str(&receipt).unwrap());
        (note, receipt)
    }

    /// Has a process keep a change and kills it. Then all is looked at, and the change is kept, by now at the latest. What the process left,
    /// and whether its commit had ended.
    async fn kill(&mut self, kill: Kill) -> (Left, bool) {
        self.round += 1;
        let text = format!("n{}", self.round);
        let session = bot();
        let call = ChangeCall::new(&session);
        let (guard, _) = self.restart().await;
        let sql = format!("UPDATE notes SET text = '{text}' WHERE id = 1");
        let proposed = guard
            .propose_change(ChangeProposal::new(&[(sql, Params::None)]), call)
            .await;
        let id = proposed.unwrap_or_else(|why| panic!("{why:?}")).change;
        let validated = guard.validate_change(&id, call).await;
        validated.unwrap_or_else(|why| panic!("{why:?}"));
        drop(guard);

        let stop = match kill {
            Kill::AtPlace(place) => Some(place),
            Kill::After(_) | Kill::HeldBack | Kill::Late => None,
        };
        let told = json!({
            "database": self.place, "state": self.state(), "change": id, "now": self.now, "stop": stop,
        });
        let found = self.run_and_kill(&told, kill).await;

        // The change with its receipt, or neither.
        let (note, receipt) = self.look(&id);
        assert_eq!(
            note == text,
            receipt.is_some(),
            "{kill:?}: the note is {note}, and its receipt {receipt:?}"
        );
        assert!(!found.is_done || receipt.is_some(), "{kill:?}");
        let left = self.keep_at_last(&id, receipt.is_some()).await;
        self.least = self.least.min(found.kept_after.unwrap_or(PATIENCE));

        // Once, and as it was kept then.
        let (guard, store) = self.restart().await;
        let view = guard.commit_change(&id, call).await.unwrap();
        assert_eq!(view.state, ChangeState::Committed, "{kill:?}");
        let (note, now) = self.look(&id);
        assert_eq!(note, text, "{kill:?}");
        let told = view.receipt.map(|receipt| receipt.id);
        assert_eq!(told, now.as_ref().map(|one| one.id.clone()), "{kill:?}");
        assert_eq!(now, receipt.or(now.clone()), "{kill:?}: it was kept twice");
        let links = store.verify_receipts().unwrap();
        assert_eq!(u64::try_from(links.len()).unwrap(), self.round, "{kill:?}");
        let faults = guard.compare_receipts(&links).await.unwrap();
        assert_eq!(faults, Some(Vec::new()), "{kill:?}");
        let images = "SELECT count(DISTINCT change_id) FROM palisade_images";
        assert_eq!(
            self.database.value(images),
            self.round.to_string(),
            "{kill:?}"
        );
        (left, found.is_done)
    }

    /// Processes that come after find out what became of a change, and keep it where that was nothing.
    async fn keep_at_last(&mut self, id: &str, was_kept: bool) -> Left {
        let session = bot();
        let call = ChangeCall::new(&session);
        let (guard, _) = self.restart().await;
        match guard.commit_change(id, call).await {
            Ok(view) => {
                assert_eq!(view.state, ChangeState::Committed);
                return if was_kept {
                    Left::Kept
                } else {
                    Left::Untouched
                };
            }
            Err(refusal) => {
                assert_eq!(
                    refusal.rejection.code(),
                    Code::ChangeWrongState,
                    "{refusal:?}"
                );
                assert!(!was_kept, "{refusal:?}");
            }
        }
        // It may be under way elsewhere, and after some time it cannot be.
        self.now += LATER;
        let (guard, _) = self.restart().await;
        let looked = guard.inspect_change(id, call).await.unwrap();
        assert_eq!(looked.view.state, ChangeState::Proposed);
        guard.validate_change(id, call).await.unwrap();
        guard.commit_change(id, call).await.unwrap();
        Left::Begun
    }

    async fn run_and_kill(&self, told: &Value, kill: Kill) -> Found {
        let mut held = match kill {
            Kill::HeldBack => Some(self.hold_back().await),
            Kill::AtPlace(_) | Kill::After(_) | Kill::Late => None,
        };
        let mut killed = Killed::start(told);
        killed.wait_for(&["begins"]);
        match (&mut held, kill) {
            (Some(held), _) => held.wait_for(killed.process.id()).await,
            (None, Kill::After(delay)) => thread::sleep(delay),
            (None, Kill::AtPlace(_) | Kill::Late | Kill::HeldBack) => {
                killed.wait_for(&["stands", "done"]);
            }
        }
        let found = killed.kill();
        drop(held);
        if let AnyDatabase::Server(database) = &self.database {
            let sessions = format!(
                "SELECT count(*) FROM information_schema.processlist WHERE user = '{}'",
                self.account
            );
            let deadline = Instant::now() + PATIENCE;
            while database.query(&sessions) != "0" {
                assert!(Instant::now() < deadline, "its sessions do not end");
            }
        }
        found
    }

    /// Holds what a commit needs last: on SQLite the file itself, elsewhere the table of receipts.
    async fn hold_back(&self) -> Held {
        match &self.database {
            AnyDatabase::File(file) => {
                let reader = file.open_bare();
                reader.execute_batch("BEGIN; SELECT * FROM notes").unwrap();
                let inode = std::fs::metadata(file.path()).unwrap().ino();
                Held::File {
                    _reader: reader,
                    inode,
                }
            }
            AnyDatabase::Server(database) => {
                let mut client = database.mysql_client().await;
                client.query_drop("BEGIN").await.unwrap();
                let lock = "SELECT * FROM palisade_receipts FOR UPDATE";
                client.query_drop(lock).await.unwrap();
                let waiting = format!(
                    "SELECT count(*) FROM information_schema.processlist \
                     WHERE user = '{}' AND info LIKE 'INSERT%palisade_receipts%'",
                    self.account
                );
                Held::Server { client, waiting }
            }
        }
    }
}

/// What is held until it is dropped.
enum Held {
    File {
        _reader: rusqlite::Connection,
        inode: u64,
    },
    Server {
        client: mysql_async::Conn,
        /// Counts statements that wait for it.
        waiting: String,
    },
}

impl Held {
    /// Waits until `process` waits for what is held.
    async fn wait_for(&mut self, process: u32) {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_waited_for(process).await {
            assert!(Instant::now() < deadline, "it does not wait");
        }
    }

    async fn is_waited_for(&mut self, process: u32) -> bool {
        match self {
            // Before it writes the file, it locks this byte, so that no other begins to read. Within one process SQLite does not ask the
            // system, so that another connection of this one would not notice.
            Self::File { inode, .. } => {
                let locks = std::fs::read_to_string("/proc/locks").unwrap();
                let [process, file] = [
                    format!(" WRITE {process} "),
                    format!(":{inode} 1073741824 "),
                ];
                let mut locks = locks.lines();
                locks.any(|line| line.contains(&process) && line.contains(&file))
            }
            Self::Server { client, waiting } => {
                let found: Option<u32> = client.query_first(waiting.as_str()).await.unwrap();
                found != Some(0)
            }
        }
    }
}

async fn is_whole_or_nothing(mut scene: Scene) {
    // How long it takes is told by more than the first one.
    for _ in 0..3 {
        let (left, is_done) = scene.kill(Kill::Late).await;
        assert!(left == Left::Kept && is_done);
    }

    // Each place of the store, before and after each call.
    let mut found = Vec::new();
    for place in 0..MANY {
        let (left, is_done) = scene.kill(Kill::AtPlace(place)).await;
        found.push(left);
        if is_done {
            break;
        }
    }
    assert!(found.is_sorted(), "{found:?}");
    found.dedup();
    assert_eq!(found, [Left::Untouched, Left::Begun, Left::Kept]);

    // All written, and nothing kept.
    let (left, _) = scene.kill(Kill::HeldBack).await;
    assert_eq!(left, Left::Begun);

    // What is between these places, and while the store notes that the change is kept.
    for moment in 1..=MOMENTS {
        let after = scene.least * 3 * moment / (2 * MOMENTS);
        scene.kill(Kill::After(after)).await;
    }
}

#[tokio::test]
async fn a_commit_is_whole_or_nothing_wherever_its_process_is_killed_on_sqlite() {
    is_whole_or_nothing(Scene::sqlite()).await;
}

#[tokio::test]
async fn a_commit_is_whole_or_nothing_wherever_its_process_is_killed_on_mariadb() {
    is_whole_or_nothing(Scene::mariadb()).await;
}
