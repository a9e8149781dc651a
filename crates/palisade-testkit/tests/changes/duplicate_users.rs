//! A story from its first step to its last, by the same calls on every engine. An agent cleans up duplicate users. A person rejects its first
//! try, and approves the second. Then the tables are set back, and receipts and history tell of everything.

use std::{collections::BTreeMap, sync::Arc};

use palisade::{
    change::{ChangeState, ChangeStore},
    code::Code,
    guard::{
        ChangeCall, ChangeProposal, ChangeView, PastRows, Preview, PreviewedChange, ReceiptView,
        TracedRow,
    },
    past::{HistoryOrder, LabelStore},
    session::{Principal, Session, Transport},
    value::{Params, Value as Cell},
};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::fixture::policy_sources;
use serde_json::{Value, json};

use crate::history::{Desk, Engine};

/// They stand beside the tables of every desk.
const TABLES: &str = "
CREATE TABLE users (id integer NOT NULL PRIMARY KEY, name varchar(40) NOT NULL, email varchar(40) NOT NULL);
CREATE TABLE lamps (id integer NOT NULL PRIMARY KEY, owner integer NOT NULL, kind varchar(20),
    FOREIGN KEY (owner) REFERENCES users (id) ON DELETE CASCADE);
INSERT INTO users VALUES (1, 'Ada Byron', 'ada@example.com'), (2, 'Bob Cole', 'bob@example.com'),
    (3, 'Ada Byron', 'ADA@example.com'), (4, 'Ada Byron', 'other@example.com');
INSERT INTO lamps VALUES (1, 1, 'desk'), (2, 3, 'floor'), (3, 4, 'wall');
CREATE TABLE palisade_receipts (change_id varchar(64) PRIMARY KEY, receipt text NOT NULL);
";

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add"], resource);
permit (principal, action == Action::"call", resource) when { resource.safety == "pure" };
@id("tidy-up")
@approval("required")
permit (principal == Agent::"janitor", action in [Action::"insert", Action::"update", Action::"delete"], resource);
@id("agree")
permit (principal == User::"ann", action == Action::"approve", resource);
"#;

const DUPLICATES: &str =
    "SELECT name, count(*) AS n FROM users GROUP BY name HAVING count(*) > 1 ORDER BY name";

/// It takes everybody whose name is there twice.
const TOO_WIDE: &str = "DELETE FROM users WHERE name = 'Ada Byron' AND id > 1";

/// Of users with one address, the second goes, and its lamps go to the first.
const RIGHT: [&str; 2] = [
    "UPDATE lamps SET owner = 1 WHERE owner = 3",
    "DELETE FROM users WHERE id = 3",
];

const REMOVED: [&str; 2] = [
    "users id=3 delete name: Ada Byron -> null",
    "users id=3 delete email: ADA@example.com -> null",
];
const RESTORED: [&str; 2] = [
    "users id=3 insert name: null -> Ada Byron",
    "users id=3 insert email: null -> ADA@example.com",
];
const MOVED: &str = "lamps id=2 update owner: 3 -> 1";

struct Story {
    desk: Desk,
    store: Arc<ApprovalStore>,
    agent: Session,
    person: Session,
}

/// Cells that are different, a line each, without the schema of their table.
fn cells(preview: &Preview, table: Option<&str>) -> Vec<String> {
    let rows = serde_json::to_value(&preview.rows).unwrap()["rows"].take();
    let line = |row: &Value| {
        let text = |key: &str| match &row[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let own = text("table");
        format!(
            "{} {} {} {}: {} -> {}",
            table.unwrap_or_else(|| own.rsplit('.').next().unwrap()),
            text("key"),
            text("change"),
            text("column"),
            text("before"),
            text("after")
        )
    };
    rows.as_array().unwrap().iter().map(line).collect()
}

fn key_of(id: i64) -> BTreeMap<String, Cell> {
    BTreeMap::from([("id".to_owned(), Cell::Integer(id))])
}

impl Story {
    async fn begin(engine: Engine) -> Self {
        let desk = Desk::without_history(engine).await;
        desk.run(TABLES);
        assert!(desk.guard.refresh().await.unwrap());
        let loaded = desk.guard.reload(&policy_sources(POLICIES)).await;
        loaded.unwrap_or_else(|why| panic!("{why}"));
        desk.order(&["users", "lamps"], &HistoryOrder::Enable { account: None });
        assert!(desk.guard.refresh().await.unwrap());
        // The test asks the store for the chain.
        let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
        let guard = desk
            .guard
            .with_labels(Arc::clone(&store) as Arc<dyn LabelStore>)
            .with_changes(Arc::clone(&store) as Arc<dyn ChangeStore>);
        Self {
            desk: Desk { guard, ..desk },
            store,
            agent: Session::new(Principal::new("Agent", "janitor")).over(Transport::Stdio),
            person: Session::new(Principal::new("User", "ann")).over(Transport::Cli),
        }
    }

    async fn contents(&self, as_of: Option<&str>) -> [Value; 2] {
        let ask = async |sql| self.desk.ask(&self.person, sql, as_of).await.unwrap();
        [
            ask("SELECT id, name, email FROM users ORDER BY id").await,
            ask("SELECT id, owner, kind FROM lamps ORDER BY id").await,
        ]
    }

    /// The agent proposes statements.
    async fn propose(&self, statements: &[&str], reason: &str) -> ChangeView {
        let statements: Vec<(String, Params)> = (statements.iter())
            .map(|sql| ((*sql).to_owned(), Params::None))
            .collect();
        let call = ChangeCall::new(&self.agent);
        let proposed = self
            .desk
            .guard
            .propose_change(
                ChangeProposal {
                    reason: Some(reason),
                    ..ChangeProposal::new(&statements)
                },
                call,
            )
            .await;
        proposed.unwrap_or_else(|why| panic!("{why:?}"))
    }

    /// The agent proposes to set a table back.
    async fn propose_revert(&self, table: &str, to: &str) -> Result<ChangeView, Code> {
        let name = self.desk.name_table(table);
        let beside = (to, Some("they are two people"));
        let call = ChangeCall::new(&self.agent);
        let proposed = self.desk.guard.revert_table(&name, beside, call).await;
        proposed.map_err(|why| why.rejection.code())
    }

    async fn validate(&self, id: &str) -> PreviewedChange {
        let call = ChangeCall::new(&self.agent);
        let looked = self.desk.guard.validate_change(id, call).await;
        looked.unwrap_or_else(|why| panic!("{why:?}"))
    }

    async fn commit(&self, id: &str) -> Result<ChangeView, Code> {
        let call = ChangeCall::new(&self.agent);
        let kept = self.desk.guard.commit_change(id, call).await;
        kept.map_err(|why| why.rejection.code())
    }

    async fn approve(&self, session: &Session, looked: &ChangeView) -> Result<ChangeView, Code> {
        let which = (looked.change.as_str(), looked.preview.as_deref().unwrap());
        let call = ChangeCall::new(session);
        let approved = self.desk.guard.approve_change(which, call).await;
        approved.map_err(|why| why.rejection.code())
    }

    /// The person looks at a change that waits: it is in her list, and she sees what the agent saw.
    async fn look(&self, looked: &PreviewedChange) {
        let waiting = self.desk.guard.list_changes(&self.person).unwrap();
        let own = &looked.view;
        let found = (waiting.iter()).find(|view| view.change == own.change);
        let found = found.unwrap();
        assert_eq!(found.state, ChangeState::Validated);
        assert_eq!(found.proposed_by, "Agent::\"janitor\"");
        assert_eq!(found.reason, own.reason);
        let seen = self
            .desk
            .guard
            .inspect_change(&own.change, ChangeCall::new(&self.person))
            .await
            .unwrap_or_else(|why| panic!("{why:?}"));
        assert!(seen.is_as_validated);
        assert_eq!(
            seen.view.next_valid_actions,
            ["approve_change", "reject_change", "inspect_change"]
        );
        let [seen, shown] = [&seen, looked].map(|one| cells(one.preview.as_ref().unwrap(), None));
        assert_eq!(seen, shown);
    }

    /// The agent validates a change that does `expected`, the person approves it, and the agent keeps it.
    async fn agree(&self, proposed: &ChangeView, expected: &[&str]) -> ChangeView {
        let looked = self.validate(&proposed.change).await;
        assert_eq!(cells(looked.preview.as_ref().unwrap(), None), expected);
        self.look(&looked).await;
        let id = &proposed.change;
        assert_eq!(self.commit(id).await, Err(Code::ApprovalRequired));
        let own = self.approve(&self.agent, &looked.view).await;
        assert_eq!(own, Err(Code::ChangeOwnApproval));
        let approved = self.approve(&self.person, &looked.view).await.unwrap();
        assert_eq!(approved.state, ChangeState::Approved);
        let kept = self.commit(id).await.unwrap();
        assert_eq!(kept.state, ChangeState::Committed);
        let receipt = kept.receipt.as_ref().unwrap();
        assert_eq!(receipt.proposed_by, "Agent::\"janitor\"");
        assert_eq!(receipt.approved_by.as_deref(), Some("User::\"ann\""));
        assert_eq!(receipt.policies, ["tidy-up"]);
        // Once more, and nothing happens.
        assert_eq!(self.commit(id).await.unwrap().receipt, kept.receipt);
        kept
    }

    /// The changes whose receipts tell of a row, newest first.
    fn trace(&self, table: &str, id: i64) -> Vec<String> {
        let name = self.desk.name_table(table);
        let key = key_of(id);
        let row = TracedRow {
            table: &name,
            key: &key,
        };
        changes_of(self.desk.guard.trace_row(row, &self.person).unwrap())
    }

    /// What became of a user, newest first, and how many moments that were.
    async fn history_of_user(&self, id: i64) -> (Vec<String>, usize) {
        let (name, key) = (self.desk.name_table("users"), key_of(id));
        let rows = PastRows {
            table: &name,
            key: Some(&key),
        };
        let call = ChangeCall::new(&self.person);
        let listed = self.desk.guard.list_history(rows, None, call).await;
        let listed = listed.unwrap_or_else(|why| panic!("{why:?}"));
        let rows = serde_json::to_value(&listed.preview.rows).unwrap()["rows"].take();
        let mut moments: Vec<String> = (rows.as_array().unwrap().iter())
            .map(|row| row["moment"].to_string())
            .collect();
        moments.dedup();
        (cells(&listed.preview, Some("users")), moments.len())
    }
}

fn changes_of(receipts: Vec<ReceiptView>) -> Vec<String> {
    receipts.into_iter().map(|view| view.change).collect()
}

async fn is_told(engine: Engine) {
    let story = Story::begin(engine).await;
    let guard = &story.desk.guard;
    let before = story.contents(None).await;
    let taken = guard.create_snapshot("before-cleanup", &story.agent).await;
    assert_eq!(taken.unwrap().snapshot, "before-cleanup");
    let found = story.desk.ask(&story.agent, DUPLICATES, None).await;
    assert_eq!(found, Ok(json!([{"name": "Ada Byron", "n": 3}])));

    // The first try would take somebody else along, and her lamp.
    let wide = story
        .propose(&[TOO_WIDE], "users that are there twice")
        .await;
    assert_eq!(wide.state, ChangeState::Proposed);
    assert_eq!(
        wide.next_valid_actions,
        ["validate_change", "reject_change", "inspect_change"]
    );
    assert_eq!(
        story.commit(&wide.change).await,
        Err(Code::ChangeWrongState)
    );
    let looked = story.validate(&wide.change).await;
    let shown = cells(looked.preview.as_ref().unwrap(), None);
    for line in [
        "users id=4 delete email: other@example.com -> null",
        "lamps id=3 delete kind: wall -> null",
    ] {
        assert!(shown.iter().any(|one| one == line), "{line}: {shown:#?}");
    }
    story.look(&looked).await;
    let rejected = guard.reject_change(&wide.change, &story.person).unwrap();
    assert_eq!(rejected.state, ChangeState::Rejected);
    let seen = guard
        .inspect_change(&wide.change, ChangeCall::new(&story.agent))
        .await;
    let seen = seen.unwrap().view;
    assert_eq!(seen.decided_by.as_deref(), Some("User::\"ann\""));
    assert_eq!(
        story.commit(&wide.change).await,
        Err(Code::ChangeWrongState)
    );
    assert_eq!(story.contents(None).await, before);
    assert!(guard.list_receipts(&story.person).unwrap().is_empty());

    // The second one is right.
    let right = story.propose(&RIGHT, "the lamps go to the first").await;
    let cleaned = story.agree(&right, &[MOVED, REMOVED[0], REMOVED[1]]).await;
    let receipt = cleaned.receipt.as_ref().unwrap();
    let mut counts: Vec<_> = (receipt.tables.iter())
        .map(|one| (one.table.as_str(), one.inserted, one.updated, one.deleted))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [("lamps", 0, 1, 0), ("users", 0, 0, 1)]);
    let after = story.contents(None).await;
    assert_ne!(after, before);
    assert_eq!(story.trace("users", 3), [right.change.as_str()]);
    guard
        .create_snapshot("cleaned", &story.agent)
        .await
        .unwrap();

    // They were two people. What sets a table back is a change as any other.
    let users = story
        .propose_revert("users", "before-cleanup")
        .await
        .unwrap();
    assert!(users.statements.is_empty());
    assert_eq!(
        users.reverts.as_ref().unwrap().to.snapshot.as_deref(),
        Some("before-cleanup")
    );
    story.agree(&users, &RESTORED).await;
    let lamps = story
        .propose_revert("lamps", "before-cleanup")
        .await
        .unwrap();
    story
        .agree(&lamps, &["lamps id=2 update owner: 1 -> 3"])
        .await;
    assert_eq!(story.contents(None).await, before);
    for table in ["users", "lamps"] {
        let again = story.propose_revert(table, "before-cleanup").await;
        assert_eq!(again, Err(Code::ChangeNotCompensable), "{table}");
    }

    story.tells_of_everything([&right, &users, &lamps]).await;
    assert_eq!(story.contents(Some("cleaned")).await, after);
    assert_eq!(story.contents(Some("before-cleanup")).await, before);
    let states: Vec<ChangeState> = (guard.list_changes(&story.person).unwrap().iter())
        .map(|view| view.state)
        .collect();
    let (kept, rejected) = (ChangeState::Committed, ChangeState::Rejected);
    assert_eq!(states, [kept, kept, kept, rejected]);
}

impl Story {
    /// What receipts, history and differences tell once the tables are set back by the last two changes.
    async fn tells_of_everything(&self, [right, users, lamps]: [&ChangeView; 3]) {
        let guard = &self.desk.guard;
        let [right, users, lamps] = [right, users, lamps].map(|view| view.change.as_str());
        let listed = guard.list_receipts(&self.person).unwrap();
        let reasons: Vec<_> = (listed.iter())
            .map(|view| (view.change.as_str(), view.reason.as_deref().unwrap()))
            .collect();
        assert_eq!(
            reasons,
            [
                (lamps, "they are two people"),
                (users, "they are two people"),
                (right, "the lamps go to the first")
            ]
        );
        for view in &listed {
            let one = guard.get_receipt(&view.receipt.id, &self.person).unwrap();
            assert_eq!(one, *view);
        }
        // The proposer knows of them as well, and somebody who sees no less.
        assert_eq!(guard.list_receipts(&self.agent).unwrap(), listed);

        assert_eq!(self.trace("users", 3), [users, right]);
        assert_eq!(self.trace("lamps", 2), [lamps, right]);
        for (table, id) in [("users", 1), ("users", 4), ("lamps", 1), ("lamps", 3)] {
            assert_eq!(self.trace(table, id), [] as [&str; 0], "{table} {id}");
        }

        let expected = [RESTORED, REMOVED].concat();
        let told = self.history_of_user(3).await;
        assert_eq!(
            told,
            (expected.iter().map(ToString::to_string).collect(), 2)
        );
        assert_eq!(self.history_of_user(4).await, (Vec::new(), 0));

        let differences = async |table, from, to| {
            let told = self.desk.list_differences(&self.person, table, from, to);
            let told = told.await.into_iter();
            told.map(|line| format!("{table} {line}"))
                .collect::<Vec<_>>()
        };
        let (first, then) = ("before-cleanup", Some("cleaned"));
        assert_eq!(differences("users", first, then).await, REMOVED);
        assert_eq!(differences("lamps", first, then).await, [MOVED]);
        assert_eq!(differences("users", "cleaned", None).await, RESTORED);
        for table in ["users", "lamps"] {
            assert_eq!(differences(table, first, None).await, [] as [&str; 0]);
        }

        let links = self.store.verify_receipts().unwrap();
        let chained: Vec<&str> = (links.iter())
            .map(|link| link.body.change.as_str())
            .collect();
        assert_eq!(chained, [right, users, lamps]);
        for link in &links {
            assert!(link.body.in_database);
            assert!(!link.body.receipt.permitted_by.is_empty());
        }
        assert_eq!(guard.compare_receipts(&links).await, Ok(Some(Vec::new())));
    }
}

#[tokio::test]
async fn on_sqlite() {
    is_told(Engine::Sqlite).await;
}

#[tokio::test]
async fn on_postgres() {
    is_told(Engine::Postgres).await;
}

#[tokio::test]
async fn on_mariadb() {
    is_told(Engine::Mariadb).await;
}
