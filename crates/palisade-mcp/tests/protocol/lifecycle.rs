//! Changes in steps: proposed, looked at, approved by another principal or an operator, committed if they still do what was looked at.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use palisade::change::ChangeEvent;
use palisade::{
    audit::{ApprovalState, RecordKind, RecordedDecision},
    firewall::Firewall,
    guard::Guard,
    limits::Limits,
    policy::PolicySources,
    session::Principal,
};
use palisade_mcp::{PalisadeServer, ServeOptions};
use palisade_sqlite::{SqliteBackend, rusqlite::Connection};
use palisade_state::{ApprovalOptions, ApprovalStore, ApproveError, OperatorKey, StateSecret};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Client, INITIALIZED, Records, TestHost};

const SCRIPT: &str = "
CREATE TABLE customers (id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, name TEXT, ssn TEXT, plan TEXT, seen TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, customer INTEGER REFERENCES customers ON DELETE CASCADE,
  total INTEGER, created_at TEXT DEFAULT CURRENT_TIMESTAMP, nonce INTEGER DEFAULT (random()));
CREATE TABLE audit_log (id INTEGER PRIMARY KEY, what TEXT);
CREATE TABLE prices (plan TEXT PRIMARY KEY, price INTEGER) WITHOUT ROWID;
CREATE TABLE loose (word TEXT);
CREATE TABLE pins (word TEXT, pin TEXT);
INSERT INTO pins VALUES ('x', 'SECRET-5');
CREATE TRIGGER log_plans AFTER UPDATE OF plan ON customers BEGIN
  INSERT INTO audit_log (what) VALUES ('plan of ' || NEW.ssn);
  UPDATE customers SET seen = 'again' WHERE id = NEW.id;
END;
INSERT INTO customers VALUES (1, 'a', 'Ada', 'SECRET-1', 'free', NULL), (2, 'a', 'Bob', 'SECRET-2', 'free', NULL),
  (3, 'b', 'Cyd', 'SECRET-3', 'free', NULL);
INSERT INTO orders (customer, total, created_at, nonce) VALUES (1, 10, 'old', 1), (1, 20, 'old', 2), (3, 30, 'old', 3);
INSERT INTO prices VALUES ('free', 0), ('pro', 9);
INSERT INTO loose VALUES ('x'), ('y');
";

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add", Action::"insert"], resource);
permit (principal, action == Action::"call", resource) when { resource.safety == "pure" };
permit (principal, action == Action::"call", resource == Function::"main.log_plans");
LEVEL
permit (principal, action in [Action::"update", Action::"delete"], resource);
permit (principal == User::"ann", action == Action::"approve", resource);
permit (principal == User::"boss", action == Action::"approve", resource);
forbid (principal, action == Action::"see", resource is row::main::customers)
  when { principal != User::"boss" && resource.tenant == "b" };
forbid (principal, action == Action::"read_plain", resource == Column::"main.customers.ssn")
  when { principal != User::"boss" };
forbid (principal, action == Action::"read_plain", resource == Column::"main.pins.pin")
  when { principal != User::"boss" };
forbid (principal, action == Action::"select", resource == Table::"main.audit_log")
  when { principal != User::"boss" };
"#;

const NOW: Duration = Duration::from_secs(1_800_000_000);

struct Desk {
    dir: TempDir,
    guard: Arc<Guard>,
    store: Arc<ApprovalStore>,
    records: Records,
}

fn sources(level: &str) -> PolicySources {
    let level = match level {
        "" => String::new(),
        level => format!("@approval(\"{level}\")"),
    };
    PolicySources::from_cedar("test.cedar", POLICIES.replace("LEVEL", &level))
}

fn guard(path: &Path, level: &str, store: &Arc<ApprovalStore>, records: &Records) -> Arc<Guard> {
    guard_within(&Limits::default(), path, level, (store, records))
}

fn guard_within(
    limits: &Limits,
    path: &Path,
    level: &str,
    (store, records): (&Arc<ApprovalStore>, &Records),
) -> Arc<Guard> {
    let backend = SqliteBackend::open_file(path, "desk").unwrap().writable();
    let firewall = Firewall::builder(backend.catalog().clone(), sources(level))
        .allow_changes()
        .limits(limits.clone())
        .build()
        .unwrap();
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(TestHost::default()),
        Arc::new(records.clone()),
    );
    let guard = guard
        .with_name("desk")
        .with_approvals(Arc::clone(store) as Arc<dyn palisade::approval::Approvals>)
        .with_changes(Arc::clone(store) as Arc<dyn palisade::change::ChangeStore>);
    Arc::new(guard)
}

fn store(path: &Path, options: ApprovalOptions) -> Arc<ApprovalStore> {
    Arc::new(ApprovalStore::open(path, &StateSecret::new(*b"secret"), options).unwrap())
}

fn desk_with(level: &str, options: ApprovalOptions) -> Desk {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("desk.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(SCRIPT)
        .unwrap();
    let store = store(&dir.path().join("state.db"), options);
    let records = Records::default();
    Desk {
        guard: guard(&path, level, &store, &records),
        dir,
        store,
        records,
    }
}

fn desk(level: &str) -> Desk {
    desk_with(level, ApprovalOptions::default())
}

impl Desk {
    fn path(&self) -> PathBuf {
        self.dir.path().join("desk.db")
    }

    /// A client of a server that asks as this principal.
    async fn client(&self, kind: &str, id: &str) -> Client {
        connect(&self.guard, kind, id).await
    }

    /// Changes the database beside the firewall.
    fn run(&self, sql: &str) {
        Connection::open(self.path())
            .unwrap()
            .execute_batch(sql)
            .unwrap();
    }

    /// One value of the database.
    fn value(&self, sql: &str) -> String {
        let connection = Connection::open(self.path()).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

async fn connect(guard: &Arc<Guard>, kind: &str, id: &str) -> Client {
    let options = ServeOptions::new(Principal::new(kind, id), "desk").writable();
    let mut client = Client::connect(PalisadeServer::new(Arc::clone(guard), options));
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
    client.request("initialize", params).await;
    client.send(INITIALIZED).await;
    client
}

/// What a call gave, which was no refusal.
fn body(result: &Value) -> &Value {
    assert_eq!(result["isError"], false, "{result}");
    &result["structuredContent"]
}

fn code(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["structuredContent"]["code"].as_str().unwrap()
}

async fn propose(client: &mut Client, statements: &[&str]) -> String {
    let statements: Vec<Value> = statements.iter().map(|sql| json!({"sql": sql})).collect();
    let arguments = json!({"statements": statements, "reason": "tidying up"});
    let proposed = client.call("propose_change", arguments).await;
    let proposed = body(&proposed);
    assert_eq!(proposed["state"], "proposed", "{proposed}");
    proposed["change"].as_str().unwrap().to_owned()
}

async fn of_change(client: &mut Client, tool: &str, id: &str) -> Value {
    client.call(tool, json!({"change": id})).await
}

/// The cells that are different, as a client that asks for JSON reads them: table, key, change, column, before, after.
fn cells(looked: &Value) -> Vec<String> {
    let rows = looked["structuredContent"]["difference"]["rows"].as_array();
    let rows = rows.unwrap_or_else(|| panic!("{looked}"));
    let text = |row: &Value, name: &str| match &row[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let names = ["table", "key", "change", "column", "before", "after"];
    let line = |row: &Value| names.map(|name| text(row, name)).join(" | ");
    rows.iter().map(line).collect()
}

async fn look(client: &mut Client, tool: &str, id: &str) -> Value {
    client
        .call(tool, json!({"change": id, "format": "json"}))
        .await
}

const UPGRADE: &str = "UPDATE customers SET plan = 'pro' WHERE id = 1";

#[tokio::test]
async fn a_change_is_looked_at_and_kept() {
    let desk = desk("");
    let mut agent = desk.client("Agent", "bot").await;
    let id = propose(&mut agent, &[UPGRADE]).await;
    // What was not looked at is not kept.
    let early = of_change(&mut agent, "commit_change", &id).await;
    assert_eq!(code(&early), "change.wrong-state");
    let told = early.to_string();
    assert!(told.contains("it has to be validated first"), "{told}");
    assert!(told.contains("\"validate_change\""), "{told}");
    let looked = look(&mut agent, "validate_change", &id).await;
    assert_eq!(
        cells(&looked),
        [
            "main.customers | id=1 | update | plan | free | pro",
            "main.customers | id=1 | update | seen | null | again"
        ]
    );
    let told = body(&looked);
    assert_eq!(told["state"], "validated");
    assert_eq!(told["affected_rows"], json!([1]));
    assert_eq!(
        told["next_valid_actions"],
        json!([
            "commit_change",
            "validate_change",
            "reject_change",
            "inspect_change"
        ])
    );
    assert_eq!(
        desk.value("SELECT plan FROM customers WHERE id = 1"),
        "free"
    );
    // The table that does not exist for it is not told of, and its secret stands nowhere.
    assert!(!looked.to_string().contains("audit_log"), "{looked}");
    assert!(!looked.to_string().contains("SECRET"), "{looked}");
    let kept = of_change(&mut agent, "commit_change", &id).await;
    assert_eq!(body(&kept)["state"], "committed");
    assert_eq!(desk.value("SELECT plan FROM customers WHERE id = 1"), "pro");
    assert_eq!(desk.value("SELECT count(*) || '' FROM audit_log"), "1");
    let receipt = &body(&kept)["receipt"];
    assert_eq!(receipt["tables"], json!([]));
    // The answer can be asked for again, and nothing happens.
    let same = of_change(&mut agent, "commit_change", &id).await;
    assert_eq!(&body(&same)["receipt"], receipt);
    let seen = of_change(&mut agent, "inspect_change", &id).await;
    assert_eq!(&body(&seen)["receipt"], receipt);
    for secret in ["SECRET", "audit_log", "free"] {
        assert!(!receipt.to_string().contains(secret), "{receipt}");
    }
    for tool in ["validate_change", "reject_change"] {
        let again = of_change(&mut agent, tool, &id).await;
        assert_eq!(code(&again), "change.wrong-state", "{tool}");
    }
    assert_eq!(desk.value("SELECT count(*) || '' FROM audit_log"), "1");
    // Nothing of ours stays in the file.
    let left = "SELECT count(*) || '' FROM sqlite_schema WHERE name LIKE '%palisade%'";
    assert_eq!(desk.value(left), "0");
    let records = desk.records.0.lock().unwrap().clone();
    let of = |dry: bool| {
        let made = records.iter().filter(|record| {
            record.kind == RecordKind::Statement
                && record.dry_run == dry
                && record.decision == RecordedDecision::Allow
        });
        made.count()
    };
    assert_eq!((of(true), of(false)), (2, 1));
}

#[tokio::test]
async fn triggers_cascades_and_all_kinds_of_tables_are_told_of() {
    let desk = desk("");
    let mut boss = desk.client("User", "boss").await;
    let id = propose(
        &mut boss,
        &[
            "DELETE FROM customers WHERE id = 1",
            UPGRADE.replace("id = 1", "id = 2").as_str(),
            "UPDATE prices SET price = 12 WHERE plan = 'pro'",
            "INSERT INTO loose VALUES ('z')",
        ],
    )
    .await;
    let looked = look(&mut boss, "validate_change", &id).await;
    let cells = cells(&looked);
    for expected in [
        "main.customers | id=1 | delete | ssn | SECRET-1 | null",
        "main.orders | id=1 | delete | total | 10 | null",
        "main.orders | id=2 | delete | total | 20 | null",
        "main.customers | id=2 | update | plan | free | pro",
        "main.customers | id=2 | update | seen | null | again",
        "main.audit_log | id=1 | insert | what | null | plan of SECRET-2",
        "main.prices | plan=pro | update | price | 9 | 12",
    ] {
        assert!(
            cells.iter().any(|cell| cell == expected),
            "{expected}: {cells:#?}"
        );
    }
    // A table without a key is counted, and named, for whom sees all of its rows.
    assert_eq!(
        body(&looked)["also_changed"],
        json!([{"table": "main.loose", "rows": 1}])
    );
    assert_eq!(body(&looked)["affected_rows"], json!([1, 1, 1, 1]));
    let kept = of_change(&mut boss, "commit_change", &id).await;
    assert_eq!(body(&kept)["state"], "committed");
    assert_eq!(desk.value("SELECT count(*) || '' FROM orders"), "1");
}

#[tokio::test]
async fn what_is_made_anew_each_time_does_not_bind() {
    let desk = desk("");
    let mut agent = desk.client("Agent", "bot").await;
    let insert = ["INSERT INTO orders (customer, total) VALUES (2, 5)"];
    let id = propose(&mut agent, &insert).await;
    let looked = look(&mut agent, "validate_change", &id).await;
    assert_eq!(
        body(&looked)["generated"],
        json!(["main.orders.created_at", "main.orders.nonce"])
    );
    // Another order comes between: the key will be another one, and so will the time.
    desk.run("INSERT INTO orders (customer, total) VALUES (2, 6)");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let kept = of_change(&mut agent, "commit_change", &id).await;
    assert_eq!(body(&kept)["state"], "committed");
    assert_eq!(
        desk.value("SELECT count(*) || '' FROM orders WHERE total = 5"),
        "1"
    );
}

#[tokio::test]
async fn a_change_of_the_data_between_is_a_conflict() {
    let desk = desk("");
    let mut agent = desk.client("Agent", "bot").await;
    let raise = "UPDATE orders SET total = total + 1 WHERE customer = 1";
    for between in [
        "UPDATE orders SET total = 11 WHERE id = 1",
        "INSERT INTO orders (customer, total) VALUES (1, 7)",
        "DELETE FROM orders WHERE id = 2",
        // A column that the change does not write.
        "UPDATE orders SET created_at = 'new' WHERE id = 1",
    ] {
        let id = propose(&mut agent, &[raise]).await;
        body(&look(&mut agent, "validate_change", &id).await);
        desk.run(between);
        let before = desk.value("SELECT group_concat(total) FROM orders");
        let conflict = of_change(&mut agent, "commit_change", &id).await;
        assert_eq!(code(&conflict), "change.conflict", "{between}");
        // What it does by now is told with it.
        assert_eq!(conflict["structuredContent"]["state"], "proposed");
        let total = desk.value("SELECT min(total) || '' FROM orders WHERE customer = 1");
        let fresh = cells(&conflict);
        assert!(
            fresh
                .iter()
                .any(|cell| cell.contains(&format!("| total | {total} |"))),
            "{between}: {fresh:#?}"
        );
        let inspected = look(&mut agent, "inspect_change", &id).await;
        assert_eq!(cells(&inspected), fresh);
        assert_eq!(body(&inspected)["as_validated"], false);
        assert_eq!(desk.value("SELECT group_concat(total) FROM orders"), before);
        // It has to be looked at anew, and then it is kept.
        assert_eq!(
            code(&of_change(&mut agent, "commit_change", &id).await),
            "change.wrong-state"
        );
        body(&look(&mut agent, "validate_change", &id).await);
        let kept = of_change(&mut agent, "commit_change", &id).await;
        assert_eq!(body(&kept)["state"], "committed");
    }
}

#[tokio::test]
async fn another_principal_approves_what_it_looked_at() {
    let desk = desk("required");
    let mut agent = desk.client("Agent", "bot").await;
    let mut ann = desk.client("User", "ann").await;
    let mut other = desk.client("Agent", "other").await;
    let id = propose(&mut agent, &[UPGRADE]).await;
    let validated = look(&mut agent, "validate_change", &id).await;
    let preview = body(&validated)["preview"].as_str().unwrap().to_owned();
    let pending = of_change(&mut agent, "commit_change", &id).await;
    assert_eq!(code(&pending), "approval.required");
    let message = pending["structuredContent"]["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("the change {id} is pending")),
        "{message}"
    );
    // Its own proposer cannot, whatever it says, and for somebody who may not approve there is no such change.
    let arguments = json!({"change": id, "preview": preview});
    let own = agent.call("approve_change", arguments.clone()).await;
    assert_eq!(code(&own), "statement.not-allowed");
    let theirs = of_change(&mut other, "inspect_change", &id).await;
    assert_eq!(code(&theirs), "change.unknown");
    assert_eq!(
        code(&of_change(&mut other, "commit_change", &id).await),
        "change.unknown"
    );
    // Who approves looks under policies of her own, and names what she looked at.
    let seen = look(&mut ann, "inspect_change", &id).await;
    assert!(!seen.to_string().contains("SECRET"), "{seen}");
    assert_eq!(body(&seen)["reason"], "tidying up");
    assert_eq!(
        body(&seen)["next_valid_actions"],
        json!(["approve_change", "reject_change", "inspect_change"])
    );
    let mut boss = desk.client("User", "boss").await;
    let all = cells(&look(&mut boss, "inspect_change", &id).await);
    assert!(
        all.iter().any(|cell| cell.ends_with("plan of SECRET-1")),
        "{all:#?}"
    );
    let wrong = ann
        .call(
            "approve_change",
            json!({"change": id, "preview": "abcdefghjk"}),
        )
        .await;
    assert_eq!(code(&wrong), "change.conflict");
    // What is validated again has another preview: an approval of the former is none.
    body(&look(&mut agent, "validate_change", &id).await);
    let late = ann.call("approve_change", arguments).await;
    assert_eq!(code(&late), "change.conflict");
    let seen = look(&mut ann, "inspect_change", &id).await;
    let preview = body(&seen)["preview"].as_str().unwrap();
    let approve = json!({"change": id, "preview": preview});
    let approved = ann.call("approve_change", approve.clone()).await;
    assert_eq!(body(&approved)["state"], "approved");
    assert_eq!(body(&approved)["decided_by"], "User::\"ann\"");
    assert_eq!(
        code(&ann.call("approve_change", approve).await),
        "change.wrong-state"
    );
    // She does not commit what is another's.
    assert_eq!(
        code(&of_change(&mut boss, "commit_change", &id).await),
        "change.wrong-state"
    );
    let kept = of_change(&mut agent, "commit_change", &id).await;
    assert_eq!(body(&kept)["state"], "committed");
    assert_eq!(body(&kept)["receipt"]["approved_by"], "User::\"ann\"");
    // Who sees every row of a table reads there how many are different.
    let seen = of_change(&mut boss, "inspect_change", &id).await;
    let receipt = &body(&seen)["receipt"];
    assert_eq!(receipt["id"], body(&kept)["receipt"]["id"]);
    let counted = receipt["tables"].to_string();
    assert!(
        counted.contains("audit_log") && counted.contains("customers"),
        "{counted}"
    );
    let approvals = desk
        .records
        .0
        .lock()
        .unwrap()
        .clone()
        .into_iter()
        .filter_map(|record| record.approval);
    let approvals: Vec<_> = approvals
        .map(|note| (note.state, note.by.unwrap()))
        .collect();
    assert!(
        approvals.contains(&(ApprovalState::Approved, "User::\"ann\"".to_owned())),
        "{approvals:?}"
    );
    assert!(
        approvals.contains(&(ApprovalState::Used, "User::\"ann\"".to_owned())),
        "{approvals:?}"
    );
}

#[tokio::test]
async fn nobody_approves_a_change_of_their_own() {
    let desk = desk("required");
    let mut ann = desk.client("User", "ann").await;
    let id = propose(&mut ann, &[UPGRADE]).await;
    let validated = look(&mut ann, "validate_change", &id).await;
    let preview = &body(&validated)["preview"];
    let own = ann
        .call("approve_change", json!({"change": id, "preview": preview}))
        .await;
    assert_eq!(code(&own), "change.own-approval");
    assert_eq!(
        code(&of_change(&mut ann, "commit_change", &id).await),
        "approval.required"
    );
    let rejected = of_change(&mut ann, "reject_change", &id).await;
    assert_eq!(body(&rejected)["state"], "rejected");
    assert_eq!(
        code(&of_change(&mut ann, "validate_change", &id).await),
        "change.wrong-state"
    );
}

#[tokio::test]
async fn an_approval_is_for_the_data_and_the_policies_that_it_was_given_over() {
    let desk = desk("required");
    let mut agent = desk.client("Agent", "bot").await;
    let mut ann = desk.client("User", "ann").await;
    let approved = async |agent: &mut Client, ann: &mut Client| {
        let id = propose(
            agent,
            &["UPDATE orders SET total = total * 2 WHERE customer = 1"],
        )
        .await;
        let validated = look(agent, "validate_change", &id).await;
        let preview = body(&validated)["preview"].clone();
        let approval = json!({"change": id, "preview": preview});
        assert_eq!(
            body(&ann.call("approve_change", approval).await)["state"],
            "approved"
        );
        id
    };
    let id = approved(&mut agent, &mut ann).await;
    desk.run("UPDATE orders SET total = 1000000 WHERE id = 1");
    let conflict = of_change(&mut agent, "commit_change", &id).await;
    assert_eq!(code(&conflict), "change.conflict");
    // The approval is gone with it.
    body(&look(&mut agent, "validate_change", &id).await);
    assert_eq!(
        code(&of_change(&mut agent, "commit_change", &id).await),
        "approval.required"
    );
    // Data that changes before it is approved: what she looked at is not there any more.
    let validated = look(&mut agent, "validate_change", &id).await;
    let preview = body(&validated)["preview"].clone();
    desk.run("UPDATE orders SET total = 5 WHERE id = 1");
    let seen = look(&mut ann, "inspect_change", &id).await;
    assert_eq!(body(&seen)["as_validated"], false);
    assert_eq!(
        body(&seen)["next_valid_actions"],
        json!(["reject_change", "inspect_change"])
    );
    let late = ann
        .call("approve_change", json!({"change": id, "preview": preview}))
        .await;
    assert_eq!(code(&late), "change.conflict");
    // Other policies, by which nothing else of it changes.
    let id = approved(&mut agent, &mut ann).await;
    let mut other = sources("required");
    other.policies[0]
        .text
        .push_str("\n@id(\"more\") permit (principal == User::\"zoe\", action, resource);");
    desk.guard.reload(&other).await.unwrap();
    let conflict = of_change(&mut agent, "commit_change", &id).await;
    assert_eq!(code(&conflict), "change.conflict");
    assert_eq!(
        desk.value("SELECT group_concat(total) FROM orders"),
        "5,20,30"
    );
}

#[tokio::test]
async fn only_a_signature_is_an_operators_approval() {
    let key = OperatorKey::generate().unwrap();
    let options = ApprovalOptions {
        operator_key: Some(key.public()),
        ..ApprovalOptions::default()
    };
    let desk = desk_with("operator", options.clone());
    let mut agent = desk.client("Agent", "bot").await;
    let mut ann = desk.client("User", "ann").await;
    let id = propose(&mut agent, &[UPGRADE]).await;
    let validated = look(&mut agent, "validate_change", &id).await;
    let preview = body(&validated)["preview"].clone();
    // No tool gives it, not even to whom policy lets approve.
    let approve = json!({"change": id, "preview": preview});
    assert_eq!(
        code(&ann.call("approve_change", approve).await),
        "approval.required"
    );
    let by = |event, key| desk.store.decide_change((&id, event), NOW, "uid 1", key);
    assert!(matches!(
        by(ChangeEvent::Approve, None),
        Err(ApproveError::NeedsKey(_))
    ));
    let stranger = OperatorKey::generate().unwrap();
    assert!(matches!(
        by(ChangeEvent::Approve, Some(&stranger)),
        Err(ApproveError::OtherKey)
    ));
    // Nor does whoever writes the file, without the key.
    let state = Connection::open(desk.dir.path().join("state.db")).unwrap();
    let forge = "UPDATE changes SET state = 'approved', decided_by = 'uid 0', signature = x'00'";
    state.execute(forge, []).unwrap();
    assert_eq!(
        code(&of_change(&mut agent, "commit_change", &id).await),
        "change.wrong-state"
    );
    assert_eq!(
        desk.value("SELECT plan FROM customers WHERE id = 1"),
        "free"
    );
    by(ChangeEvent::Approve, Some(&key)).unwrap();
    // A signature is for one change: another's is moved to it.
    let other = propose(&mut agent, &["DELETE FROM orders WHERE id = 1"]).await;
    body(&look(&mut agent, "validate_change", &other).await);
    let moved = "UPDATE changes SET state = 'approved', decided_by = 'uid 1', expires_ms = (SELECT expires_ms FROM changes WHERE id = ?1),
                 signature = (SELECT signature FROM changes WHERE id = ?1) WHERE id = ?2";
    state.execute(moved, [&id, &other]).unwrap();
    assert_eq!(
        code(&of_change(&mut agent, "commit_change", &other).await),
        "change.wrong-state"
    );
    // And so is a sealed body: the other's statements under the first one's approval open no more.
    let swap =
        "UPDATE changes SET sealed = (SELECT sealed FROM changes WHERE id = ?2) WHERE id = ?1";
    let kept: Vec<u8> = state
        .query_row("SELECT sealed FROM changes WHERE id = ?1", [&id], |row| {
            row.get(0)
        })
        .unwrap();
    state.execute(swap, [&id, &other]).unwrap();
    assert_eq!(
        code(&of_change(&mut agent, "commit_change", &id).await),
        "change.unknown"
    );
    let back = "UPDATE changes SET sealed = ?2 WHERE id = ?1";
    state
        .execute(back, palisade_sqlite::rusqlite::params![id, kept])
        .unwrap();
    let kept = of_change(&mut agent, "commit_change", &id).await;
    assert_eq!(body(&kept)["state"], "committed");
    assert_eq!(desk.value("SELECT count(*) || '' FROM orders"), "3");
}

#[tokio::test]
async fn two_servers_over_one_store_are_one() {
    let desk = desk("required");
    let store = store(
        &desk.dir.path().join("state.db"),
        ApprovalOptions::default(),
    );
    let second = guard(&desk.path(), "required", &store, &desk.records);
    let mut agent = desk.client("Agent", "bot").await;
    let mut ann = connect(&second, "User", "ann").await;
    let id = propose(&mut agent, &[UPGRADE]).await;
    let validated = look(&mut agent, "validate_change", &id).await;
    let preview = body(&validated)["preview"].clone();
    let listed = ann.call("list_changes", json!({})).await;
    assert_eq!(body(&listed)["changes"][0]["change"], json!(id));
    let approve = json!({"change": id, "preview": preview});
    assert_eq!(
        body(&ann.call("approve_change", approve).await)["state"],
        "approved"
    );
    let mut elsewhere = connect(&second, "Agent", "bot").await;
    // Of both that commit, one is first.
    let (one, other) = tokio::join!(
        of_change(&mut agent, "commit_change", &id),
        of_change(&mut elsewhere, "commit_change", &id)
    );
    // The other comes too early, or is given the same receipt.
    let receipts: Vec<&Value> = [&one, &other]
        .into_iter()
        .filter(|result| result["isError"] == false)
        .map(|result| &result["structuredContent"]["receipt"]["id"])
        .collect();
    assert!(
        receipts.windows(2).all(|two| two[0] == two[1]) && !receipts.is_empty(),
        "{one} {other}"
    );
    assert_eq!(desk.value("SELECT count(*) || '' FROM audit_log"), "1");
}

/// What hides a value from a query hides it from a preview, whatever the change does.
#[tokio::test]
async fn a_preview_tells_no_more_than_a_query() {
    let desk = desk("");
    let mut agent = desk.client("Agent", "bot").await;
    // The row of another tenant is neither shown nor counted, also where the change would reach it.
    for (statement, expected) in [
        ("UPDATE customers SET name = 'Eve' WHERE id = 3", 0),
        ("UPDATE customers SET name = 'Eve' WHERE id > 0", 2),
        // A masked column may be written; whether it held that already is not told.
        ("UPDATE customers SET ssn = 'SECRET-1' WHERE id = 1", 0),
        ("UPDATE customers SET ssn = 'SECRET-9' WHERE id = 1", 0),
    ] {
        let arguments = json!({"statements": [{"sql": statement}]});
        let proposed = agent.call("propose_change", arguments).await;
        if proposed["isError"] == true {
            panic!("{statement}: {proposed}");
        }
        let id = body(&proposed)["change"].as_str().unwrap().to_owned();
        let looked = look(&mut agent, "validate_change", &id).await;
        let cells = cells(&looked);
        assert_eq!(cells.len(), expected, "{statement}: {cells:#?}");
        let text = looked.to_string();
        for secret in ["Cyd", "SECRET-2", "SECRET-3", "audit_log"] {
            assert!(!text.contains(secret), "{statement}: {text}");
        }
        of_change(&mut agent, "reject_change", &id).await;
    }
    let listed = agent.call("list_changes", json!({})).await.to_string();
    assert!(
        !listed.contains("audit_log") && !listed.contains("digest"),
        "{listed}"
    );
}

#[tokio::test]
async fn what_cannot_be_looked_at_first_is_refused() {
    let desk = desk("");
    let mut boss = desk.client("User", "boss").await;
    let reads = json!({"statements": [{"sql": "SELECT 1"}]});
    assert_eq!(
        code(&boss.call("propose_change", reads).await),
        "change.not-previewable"
    );
    let unknown = json!({"statements": [{"sql": "DELETE FROM nothing WHERE id = 1"}]});
    assert_eq!(
        code(&boss.call("propose_change", unknown).await),
        "name.unknown-relation"
    );
    for arguments in [
        json!({"statements": []}),
        json!({"statements": [{"sql": "x", "as": "y"}]}),
    ] {
        let refused = boss.call("propose_change", arguments).await;
        assert_eq!(code(&refused), "request.invalid");
    }
    let none = of_change(&mut boss, "inspect_change", "abcdefghjk").await;
    assert_eq!(code(&none), "change.unknown");
    // An entry may be a text, and is one statement; what is refused is proposed anew.
    let two =
        json!({"statements": ["DELETE FROM orders WHERE id = 1; DELETE FROM orders WHERE id = 2"]});
    let unknown = json!({"statements": ["DELETE FROM nothing WHERE id = 1"]});
    for (arguments, expected, next) in [
        (two, "syntax.multiple-statements", json!(["propose_change"])),
        (
            unknown,
            "name.unknown-relation",
            json!(["propose_change", "list_tables"]),
        ),
    ] {
        let refused = boss.call("propose_change", arguments).await;
        assert_eq!(code(&refused), expected);
        assert_eq!(refused["structuredContent"]["next_valid_actions"], next);
    }
    let plain = json!({"statements": ["DELETE FROM orders WHERE id = 1"]});
    let proposed = boss.call("propose_change", plain).await;
    assert_eq!(body(&proposed)["state"], "proposed");
    // A statement that fails takes the whole change back, in a preview too.
    let id = propose(
        &mut boss,
        &[
            "DELETE FROM orders WHERE id = 1",
            "INSERT INTO prices VALUES ('pro', 1)",
        ],
    )
    .await;
    let failed = of_change(&mut boss, "validate_change", &id).await;
    assert_eq!(code(&failed), "database.constraint");
    assert_eq!(desk.value("SELECT count(*) || '' FROM orders"), "3");
}

async fn receipts(client: &mut Client) -> Vec<Value> {
    let listed = client.call("list_receipts", json!({})).await;
    body(&listed)["receipts"].as_array().unwrap().clone()
}

async fn trace(client: &mut Client, table: &str, key: Value) -> usize {
    let traced = client
        .call("trace", json!({"table": table, "key": key}))
        .await;
    body(&traced)["receipts"].as_array().unwrap().len()
}

async fn keep(client: &mut Client, statements: &[&str]) -> String {
    let id = propose(client, statements).await;
    body(&look(client, "validate_change", &id).await);
    let kept = of_change(client, "commit_change", &id).await;
    body(&kept)["receipt"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn receipts_are_listed_and_rows_traced() {
    let desk = desk("");
    let mut boss = desk.client("User", "boss").await;
    let first = keep(&mut boss, &[UPGRADE]).await;
    let second = keep(
        &mut boss,
        &["UPDATE prices SET price = 7 WHERE plan = 'pro'"],
    )
    .await;
    let listed = receipts(&mut boss).await;
    assert_eq!(
        [&listed[0]["id"], &listed[1]["id"]],
        [&json!(second), &json!(first)]
    );
    // Places and digests of the chain, of policies and of the catalog would tell of what is hidden.
    for key in [
        "number",
        "previous",
        "digest",
        "difference",
        "keys",
        "policy_version",
        "catalog_version",
    ] {
        assert_eq!(listed[0].get(key), None, "{key}");
    }
    assert_eq!(listed[1]["reason"], "tidying up");
    assert_eq!(listed[1]["proposed_by"], "User::\"boss\"");
    assert_eq!(listed[1]["fingerprints"].as_array().unwrap().len(), 1);
    let one = boss.call("list_receipts", json!({"receipt": first})).await;
    for key in ["id", "kept_ms", "reason", "tables"] {
        assert_eq!(body(&one)[key], listed[1][key], "{key}");
    }
    assert_eq!(trace(&mut boss, "customers", json!({"id": 1})).await, 1);
    assert_eq!(
        trace(&mut boss, "main.prices", json!({"plan": "pro"})).await,
        1
    );
    // What a trigger wrote is traced too.
    assert_eq!(trace(&mut boss, "audit_log", json!({"id": 1})).await, 1);
    assert_eq!(trace(&mut boss, "customers", json!({"id": 2})).await, 0);
    let other_key = json!({"table": "customers", "key": {"name": "Ada"}});
    assert_eq!(
        code(&boss.call("trace", other_key).await),
        "request.invalid"
    );
    assert_eq!(desk.store.verify_receipts().unwrap().len(), 2);
}

/// Whoever does not see a table or all of its rows learns nothing of what was done to it.
#[tokio::test]
async fn receipts_tell_no_more_than_queries() {
    let desk = desk("");
    let mut boss = desk.client("User", "boss").await;
    let of_hidden_row = keep(
        &mut boss,
        &["UPDATE customers SET plan = 'SECRET' WHERE id = 3"],
    )
    .await;
    let of_hidden_table = keep(&mut boss, &["INSERT INTO audit_log (what) VALUES ('x')"]).await;
    let seen = keep(
        &mut boss,
        &["UPDATE prices SET price = 7 WHERE plan = 'pro'"],
    )
    .await;
    let mut agent = desk.client("Agent", "bot").await;
    let listed = receipts(&mut agent).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["id"], json!(seen));
    // Hidden and absent are one answer.
    let absent = agent
        .call("list_receipts", json!({"receipt": "abcdefghjk"}))
        .await;
    assert_eq!(code(&absent), "change.unknown-receipt");
    for hidden in [&of_hidden_row, &of_hidden_table] {
        let refused = agent
            .call("list_receipts", json!({"receipt": hidden}))
            .await;
        assert_eq!(
            refused["structuredContent"]["message"],
            absent["structuredContent"]["message"]
        );
        assert_eq!(code(&refused), code(&absent));
    }
    // Its own change sets off a trigger that writes a table that does not exist for it.
    let own = keep(&mut agent, &[UPGRADE]).await;
    let listed = receipts(&mut agent).await;
    assert_eq!(listed[0]["id"], json!(own));
    for (table, key) in [
        ("customers", json!({"id": 3})),
        ("customers", json!({"id": 1})),
        ("customers", json!({"id": 99})),
        ("audit_log", json!({"id": 1})),
        ("audit_log", json!({"nothing": 1})),
        ("nothing", json!({"id": 1})),
    ] {
        assert_eq!(trace(&mut agent, table, key).await, 0, "{table}");
    }
    assert_eq!(trace(&mut agent, "prices", json!({"plan": "pro"})).await, 1);
    let told = json!(listed).to_string();
    for secret in ["SECRET", "audit_log", "customers"] {
        assert!(!told.contains(secret), "{secret}: {told}");
    }
}

/// How many rows a change makes different would tell whether a masked value is what it writes: of a table without a key in a preview,
/// of any in a receipt, and by whether a row is traced.
#[tokio::test]
async fn counts_do_not_tell_whether_a_masked_value_was_guessed() {
    let desk = desk("");
    let mut agent = desk.client("Agent", "bot").await;
    let mut told = Vec::new();
    for guess in ["SECRET-5", "SECRET-6"] {
        let sql = format!("UPDATE pins SET pin = '{guess}' WHERE word = 'x'");
        let id = propose(&mut agent, &[&sql]).await;
        let looked = look(&mut agent, "validate_change", &id).await;
        let mut kept = of_change(&mut agent, "commit_change", &id).await;
        let told_of = &mut kept["structuredContent"]["receipt"];
        let keys: Vec<String> = told_of.as_object().unwrap().keys().cloned().collect();
        assert!(!keys.contains(&"difference".to_owned()), "{keys:?}");
        let body = body(&looked);
        told.push((
            body.get("also_changed").cloned(),
            body["difference"]["rows"].clone(),
            told_of["tables"].clone(),
            keys,
        ));
    }
    assert_eq!(told[0], told[1]);
    // A row with a masked column is not traced for those who see the mask.
    let mut boss = desk.client("User", "boss").await;
    desk.run("UPDATE customers SET tenant = 'a'");
    for (guess, times) in [("SECRET-1", 0), ("SECRET-7", 1)] {
        keep(
            &mut agent,
            &[&format!(
                "UPDATE customers SET ssn = '{guess}' WHERE id = 1"
            )],
        )
        .await;
        assert_eq!(trace(&mut agent, "customers", json!({"id": 1})).await, 0);
        assert_eq!(trace(&mut boss, "customers", json!({"id": 1})).await, times);
    }
}

/// A preview has as many rows as the configuration lets an answer have, and tells how many there are.
#[tokio::test]
async fn a_preview_keeps_the_limit_of_rows() {
    let mut desk = desk("");
    let limits = Limits {
        max_rows: 2,
        ..Limits::default()
    };
    desk.guard = guard_within(&limits, &desk.path(), "", (&desk.store, &desk.records));
    let mut agent = desk.client("Agent", "bot").await;
    let id = propose(
        &mut agent,
        &["UPDATE orders SET total = total + 1 WHERE id > 0"],
    )
    .await;
    let looked = look(&mut agent, "validate_change", &id).await;
    let body = body(&looked);
    assert_eq!(body["difference"]["rows"].as_array().unwrap().len(), 2);
    assert_eq!(body["row_counts"]["updated"], 3, "{body}");
    assert_eq!(body.get("also_changed"), None);
}

/// Who may change something is shown the way of a change, by the tools that there are.
#[tokio::test]
async fn prompts_lead_through_a_change() {
    let desk = desk("");
    let mut client = desk.client("Agent", "bot").await;
    let listed = client.request("prompts/list", json!({})).await;
    let names = listed["prompts"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "analyze_changes",
            "ask-a-question",
            "explore-database",
            "safe_mutation",
            "understand-a-refusal"
        ]
    );
    let task = json!({"name": "safe_mutation", "arguments": {"task": "Close ticket\u{200b} 1", "table": "tickets"}});
    let told = client.request("prompts/get", task).await;
    let told = told["messages"][0]["content"]["text"].as_str().unwrap();
    for word in [
        "Close ticket\\u200b 1",
        "the table `tickets`",
        "`propose_change`",
        "`validate_change`",
        "`commit_change`",
        "is data",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let question =
        json!({"name": "analyze_changes", "arguments": {"question": "Who closed ticket 1?"}});
    let told = client.request("prompts/get", question).await;
    let told = told["messages"][0]["content"]["text"].as_str().unwrap();
    for word in [
        "Who closed ticket 1?",
        "`list_receipts`",
        "`trace`",
        "only if the user asks",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let lately = client
        .request("prompts/get", json!({"name": "analyze_changes"}))
        .await;
    assert!(lately.to_string().contains("lately"), "{lately}");
    client.stop().await;
}
