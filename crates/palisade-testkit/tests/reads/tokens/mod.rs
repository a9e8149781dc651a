//! Tokens on real databases: what a session may compare and not read, on each engine alike.

mod indirect_constants;
mod named_columns;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use palisade::{
    audit::NoAudit,
    code::Code,
    dialect::Dialect,
    firewall::{Decision, Firewall},
    guard::{Backend, Guard, Request},
    host::Host,
    policy::PolicySources,
    session::{Principal, Session},
    token::{TokenSecret, keyed_hash},
    value::Params,
};
use palisade_sqlite::{SqliteBackend, create_database};
use palisade_testkit::{
    host::Still,
    servers::{MariaDbServer, MySqlServer, Server},
};
use serde_json::{Value, json};

use crate::database::{TestDatabase, TestFile};

const SCRIPT: &str = "
CREATE TABLE people (id int PRIMARY KEY, email varchar(60), name varchar(20), pin int, phone varchar(20), born int);
INSERT INTO people VALUES
    (1, 'ann@canary.example', 'canary-ann', 4711, '555-canary', 1980),
    (2, 'bob@canary.example', 'canary-bob', 4712, '556-canary', 1990),
    (3, NULL, 'canary-\u{e9}\u{20ac}', NULL, NULL, NULL);
CREATE TABLE orders (id int PRIMARY KEY, buyer varchar(60), total int);
INSERT INTO orders VALUES (10, 'ann@canary.example', 5), (11, 'ann@canary.example', 7), (12, 'bob@canary.example', 9);
CREATE VIEW directory AS SELECT id, email AS mail, born FROM people WHERE id < 9;
CREATE VIEW latest AS SELECT max(email) AS mail FROM people WHERE id < 2;
CREATE VIEW chain AS WITH RECURSIVE r (n, mail) AS
    (SELECT 1, email FROM people WHERE id = 2 UNION ALL SELECT n + 1, mail FROM r WHERE n < 2) SELECT n, mail FROM r;
CREATE TABLE log (id int PRIMARY KEY, what varchar(20));
";

const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"read_plain", resource)
when { ["mail", "personal"].containsAny(resource.tags) };
@domain("mail")
permit(principal, action == Action::"read_token", resource) when { resource.tags.contains("mail") };
permit(principal, action == Action::"read_token", resource) when { resource.tags.contains("personal") };
@mask("hash(phones)")
forbid(principal, action == Action::"read_plain", resource == Column::"SCHEMA.people.phone");
"#;

const TAGS: &str = r#"
[[column]]
name = "SCHEMA.people.email"
tags = ["mail"]
[[column]]
name = "SCHEMA.orders.buyer"
tags = ["mail"]
[[column]]
name = "SCHEMA.people.name"
tags = ["personal"]
[[column]]
name = "SCHEMA.people.pin"
tags = ["personal"]
"#;

const SECRET: &str = "a secret that nobody can guess, of 32 bytes and more";

/// A host whose clock is turned by hand; it says how many seconds have passed.
#[derive(Default)]
struct TurnedHost(AtomicU64);

impl Host for TurnedHost {
    fn unix_time(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([3; 16])
    }
}

fn gate<B: Backend>(backend: B, schema: &str) -> Guard {
    let secret = TokenSecret::new(SECRET);
    gate_of(backend, schema, secret, Arc::new(Still))
}

fn gate_of<B: Backend>(
    backend: B,
    schema: &str,
    secret: TokenSecret,
    host: Arc<dyn Host>,
) -> Guard {
    let sources = PolicySources {
        classification: Some(TAGS.replace("SCHEMA", schema)),
        ..PolicySources::from_cedar("tokens.cedar", POLICIES.replace("SCHEMA", schema))
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .token_secret(secret)
        .allow_changes()
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    Guard::new(Arc::new(firewall), backend, host, Arc::new(NoAudit))
}

struct Asking {
    guard: Guard,
    dialect: Dialect,
}

impl Asking {
    /// The cells of each row, or the code of the refusal. A `?` is a parameter on every engine.
    async fn ask_as(&self, who: &str, sql: &str, params: &[Value]) -> Value {
        let mut pieces = sql.split('?');
        let mut sql = pieces.next().unwrap().to_owned();
        for (number, piece) in (1..).zip(pieces) {
            sql += &self.dialect.placeholder(number);
            sql += piece;
        }
        let params = match params {
            [] => Params::None,
            some => Params::from_json(&json!(some)).unwrap(),
        };
        let session = Session::new(Principal::new("Agent", who));
        let (outcome, report) = self
            .guard
            .answer(
                Request::statement(&sql, &params, &session)
                    .with_limits(self.guard.firewall().limits())
                    .allow_changes(),
            )
            .await;
        match outcome.into_result() {
            Ok(envelope) => {
                let answer = serde_json::to_string(&envelope).unwrap();
                assert!(!answer.contains("canary"), "{sql}: {answer}");
                let answer: Value = serde_json::from_str(&answer).unwrap();
                let columns = answer["columns"].as_array().unwrap().clone();
                let rows = answer["rows"].as_array().unwrap().iter();
                rows.map(|row| {
                    json!(
                        columns
                            .iter()
                            .map(|c| &row[c["name"].as_str().unwrap()])
                            .collect::<Vec<_>>()
                    )
                })
                .collect()
            }
            Err(refusal) if refusal.rejection.code() == Code::TokenForeign => {
                json!("token.foreign")
            }
            Err(refusal) => panic!(
                "{sql}: {} {:?} {:?}",
                refusal.rejection,
                refusal.rejection.operator_detail(),
                report.rewritten
            ),
        }
    }

    async fn ask(&self, sql: &str, params: &[Value]) -> Value {
        self.ask_as("a", sql, params).await
    }

    async fn check(&self, sql: &str, params: &[Value], expected: Value) {
        // The second time from memory.
        for _ in 0..2 {
            assert_eq!(self.ask(sql, params).await, expected, "{sql}");
        }
    }
}

/// `row` is what stands before a row of VALUES.
async fn tokens_hold(guard: Guard, row: &str) {
    let dialect = guard.firewall().catalog().dialect();
    let to = Asking { guard, dialect };
    let all = to
        .ask("SELECT email, name, pin FROM people ORDER BY id", &[])
        .await;
    let cells: Vec<&Value> = all
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row.as_array().unwrap())
        .collect();
    assert_eq!((cells[6], cells[8]), (&Value::Null, &Value::Null));
    for cell in cells.iter().filter(|cell| !cell.is_null()) {
        assert!(cell.as_str().unwrap().starts_with("tok_"), "{cell}");
    }
    let (ann, bob, name, pin) = (cells[0], cells[3], cells[1], cells[2]);
    let [ann_sql, bob_sql] = [ann, bob].map(|token| format!("'{}'", token.as_str().unwrap()));

    // What a token is good for.
    to.check(
        &format!("SELECT id FROM people WHERE email = {ann_sql}"),
        &[],
        json!([[1]]),
    )
    .await;
    to.check(
        &format!("SELECT id FROM people WHERE email IN ({ann_sql}, {bob_sql}) ORDER BY id"),
        &[],
        json!([[1], [2]]),
    )
    .await;
    to.check(
        "SELECT id FROM people WHERE email <> ?",
        std::slice::from_ref(ann),
        json!([[2]]),
    )
    .await;
    to.check(
        "SELECT id FROM people WHERE pin = ? AND name = ? AND email = ?",
        &[pin.clone(), name.clone(), ann.clone()],
        json!([[1]]),
    )
    .await;
    to.check(
        &format!("SELECT CASE email WHEN {ann_sql} THEN 'her' ELSE 'other' END AS who FROM people ORDER BY id"),
        &[],
        json!([["her"], ["other"], ["other"]]),
    )
    .await;
    to.check(
        &format!("SELECT p.id FROM people p WHERE (p.email, p.id) = ({ann_sql}, 1)"),
        &[],
        json!([[1]]),
    )
    .await;
    to.check(
        "SELECT p.id, count(*) AS n FROM people p JOIN orders o ON o.buyer = p.email GROUP BY p.id ORDER BY p.id",
        &[],
        json!([[1, 2], [2, 1]]),
    )
    .await;
    to.check(
        "SELECT buyer, count(*) AS n, count(DISTINCT buyer) AS d FROM orders GROUP BY buyer ORDER BY 2 DESC",
        &[],
        json!([[ann, 2, 1], [bob, 1, 1]]),
    )
    .await;
    to.check(
        "SELECT count(*) AS n FROM (SELECT DISTINCT buyer FROM orders) AS t",
        &[],
        json!([[2]]),
    )
    .await;
    to.check(
        &format!("WITH c AS (SELECT mail FROM directory) SELECT count(*) AS n FROM c WHERE mail = {ann_sql}"),
        &[],
        json!([[1]]),
    )
    .await;
    to.check(
        "SELECT d.mail FROM directory d JOIN orders o ON o.buyer = d.mail WHERE o.id = ? LIMIT ?",
        &[json!(12), json!(5)],
        json!([[bob]]),
    )
    .await;
    to.check(
        "SELECT id FROM people WHERE id >= ? AND email IN (SELECT buyer FROM orders WHERE total > ?) ORDER BY id LIMIT ? OFFSET ?",
        &[json!(1), json!(6), json!(1), json!(1)],
        json!([[2]]),
    )
    .await;
    // A limit above the cap is replaced, and its parameter with it.
    to.check(
        "SELECT id FROM people WHERE email = ? ORDER BY id LIMIT ?",
        &[bob.clone(), json!(100_000)],
        json!([[2]]),
    )
    .await;
    // One table twice, each with its keys.
    to.check(
        "SELECT a.id, b.id FROM people a JOIN people b ON a.email = b.email WHERE a.email = ? AND b.id < ?",
        &[bob.clone(), json!(9)],
        json!([[2, 2]]),
    )
    .await;
    // What picks one of several tokens of a domain gives a token.
    for (sql, expected) in [
        (
            "SELECT max(email) AS m, min(email) AS n FROM people WHERE id = 1",
            json!([[ann, ann]]),
        ),
        (
            "SELECT email FROM people WHERE id = 1 INTERSECT SELECT buyer FROM orders",
            json!([[ann]]),
        ),
        (
            "SELECT email FROM people EXCEPT SELECT buyer FROM orders WHERE id < 12",
            json!([[bob], [null]]),
        ),
        (
            "SELECT NULL AS e UNION SELECT buyer FROM orders WHERE id = 12",
            json!([[bob], [null]]),
        ),
        (
            "SELECT (SELECT email FROM people WHERE id = 2) AS e",
            json!([[bob]]),
        ),
        (
            "SELECT CASE WHEN p.id = 1 THEN p.email ELSE o.buyer END AS e FROM people p JOIN orders o ON o.id = 12 WHERE p.id IN (1, 3) ORDER BY p.id",
            json!([[ann], [bob]]),
        ),
        (
            "SELECT coalesce(p.email, o.buyer) AS e FROM people p JOIN orders o ON o.id = 12 WHERE p.id = 3",
            json!([[bob]]),
        ),
        (
            "SELECT id, lag(email) OVER (ORDER BY id) AS l, first_value(email) OVER (ORDER BY id) AS f FROM people ORDER BY id",
            json!([[1, null, ann], [2, ann, ann], [3, bob, ann]]),
        ),
        (
            "WITH c AS (SELECT max(email) AS m FROM people WHERE id = 1) SELECT d.m FROM (SELECT m FROM c) AS d",
            json!([[ann]]),
        ),
        (
            "SELECT l.mail, p.id FROM latest l JOIN people p ON p.email = l.mail",
            json!([[ann, 1]]),
        ),
        // Constants stay what they are.
        (
            "SELECT coalesce(email, 'none') AS e FROM people ORDER BY id",
            json!([[ann], [bob], ["none"]]),
        ),
        (
            "SELECT id, CASE id WHEN 1 THEN email WHEN 2 THEN 'two' END AS e FROM people ORDER BY id",
            json!([[1, ann], [2, "two"], [3, null]]),
        ),
    ] {
        for _ in 0..2 {
            let mut answer = to.ask(sql, &[]).await;
            if !sql.contains("ORDER BY") {
                let rows = answer.as_array_mut().unwrap();
                rows.sort_by_key(|row| row[0].is_null());
            }
            assert_eq!(answer, expected, "{sql}");
        }
    }
    // And what it gives is compared with tokens, where it may be nothing else.
    let foreign = json!("token.foreign");
    for (sql, nothing_else) in [
        (
            "SELECT max(id) AS i FROM people WHERE id = 2 HAVING max(email) = ?",
            true,
        ),
        (
            "SELECT id FROM people WHERE id = 2 AND ? IN (SELECT buyer FROM orders)",
            true,
        ),
        (
            "SELECT id FROM people WHERE id = 2 AND (?, 12) IN (SELECT buyer, id FROM orders)",
            true,
        ),
        (
            "SELECT id FROM people WHERE (SELECT mail FROM directory WHERE id = 2) = ? AND id = 2",
            true,
        ),
        (
            "SELECT id FROM (SELECT id, coalesce(email, 'none') AS e FROM people) AS t WHERE e = ?",
            false,
        ),
    ] {
        let literal = |token: &Value| sql.replace('?', &format!("'{}'", token.as_str().unwrap()));
        to.check(sql, std::slice::from_ref(bob), json!([[2]])).await;
        to.check(&literal(bob), &[], json!([[2]])).await;
        let (other, none) = (json!("x"), json!("none"));
        let (of_other, of_none) = if nothing_else {
            (foreign.clone(), foreign.clone())
        } else {
            (json!([]), json!([[3]]))
        };
        for (value, expected) in [(&other, of_other), (&none, of_none)] {
            to.check(sql, std::slice::from_ref(value), expected.clone())
                .await;
            to.check(&literal(value), &[], expected).await;
        }
    }
    let without = "SELECT nullif(email, ?) AS e FROM people WHERE id < 3 ORDER BY id";
    to.check(without, std::slice::from_ref(ann), json!([[null], [bob]]))
        .await;
    to.check(without, &[json!("x")], foreign.clone()).await;
    // Of two domains, beside what may be a hash, or computed: a string of the hash, which is no token.
    for sql in [
        "SELECT coalesce(email, name) AS e FROM people WHERE id = 1",
        "SELECT email AS e FROM people WHERE id = 1 UNION SELECT name FROM people WHERE id = 99",
        "SELECT coalesce(email, '0123456789abcdef0123456789abcdef') AS e FROM people WHERE id = 1",
        "SELECT lower(email) AS e FROM people WHERE id = 1",
    ] {
        let answer = to.ask(sql, &[]).await;
        let text = answer[0][0].as_str().unwrap();
        assert_eq!(text, &ann.as_str().unwrap()[4..36], "{sql}");
    }
    let forged = "SELECT coalesce(NULL, '0123456789abcdef0123456789abcdef', email) AS e FROM people WHERE id = 1";
    assert_eq!(
        to.ask(forged, &[]).await[0][0],
        json!("0123456789abcdef0123456789abcdef")
    );
    // Elsewhere it is a string of the hash.
    to.check(
        "SELECT count(*) AS n FROM people WHERE email LIKE '%example%' OR name LIKE 'canary%'",
        &[],
        json!([[0]]),
    )
    .await;

    // A hash mask is the same for everybody, and is HMAC-SHA-256 whatever the engine.
    let hashes = to.ask("SELECT phone FROM people ORDER BY id", &[]).await;
    assert_eq!(
        hashes,
        to.ask_as("b", "SELECT phone FROM people ORDER BY id", &[])
            .await
    );
    let named = "4:mask13:domain phones";
    let key = keyed_hash(SECRET.as_bytes(), named.as_bytes());
    assert_eq!(
        hashes[0][0],
        json!(keyed_hash(key.as_bytes(), b"555-canary"))
    );

    // What is none, before anything runs.
    let other = to
        .ask_as("b", "SELECT email FROM people ORDER BY id", &[])
        .await;
    assert_ne!(other[0][0], *ann);
    let mut altered = ann.as_str().unwrap().to_owned();
    let last = if altered.pop() == Some('0') { '1' } else { '0' };
    altered.push(last);
    for value in [
        json!("ann@canary.example"),
        json!(altered),
        other[0][0].clone(),
        name.clone(),
        json!(1),
    ] {
        to.check(
            "SELECT id FROM people WHERE email = ?",
            std::slice::from_ref(&value),
            foreign.clone(),
        )
        .await;
        if let Some(text) = value.as_str() {
            let sql = format!("SELECT id FROM people WHERE email = '{text}'");
            to.check(&sql, &[], foreign.clone()).await;
        }
    }
    to.check(
        "SELECT id FROM people WHERE email = ?",
        std::slice::from_ref(ann),
        json!([[1]]),
    )
    .await;
    for sql in [
        "SELECT id FROM people WHERE pin BETWEEN 4000 AND 5000",
        "SELECT id FROM people WHERE pin = -1",
        "SELECT id FROM people WHERE name > 'c'",
        "SELECT p.id FROM people p LEFT JOIN orders o ON p.email = 'x'",
        "SELECT email FROM people GROUP BY email HAVING email = 'x'",
        "SELECT (SELECT count(*) FROM orders o WHERE o.buyer = p.email AND p.email <> 'x') AS n FROM people p",
    ] {
        to.check(sql, &[], foreign.clone()).await;
    }
    tokens_recur(&to, ann, bob).await;
    indirect_constants::tokens_are_given(&to, row, ann, bob).await;
    // Values of the session's own do not reach the keys, and a change reads no tokens.
    let insert = "INSERT INTO log SELECT id + ?, 'x' FROM people WHERE id = 1";
    assert_eq!(to.ask(insert, &[json!(1)]).await, json!([]));
}

/// Tokens that a query reads from itself are tokens where each of its arms gives those of one domain, and strings else.
async fn tokens_recur(to: &Asking, ann: &Value, bob: &Value) {
    let [ann_sql, hash] = [
        format!("'{}'", ann.as_str().unwrap()),
        ann.as_str().unwrap()[4..36].to_owned(),
    ];
    let name = to.ask("SELECT name FROM people WHERE id = 1", &[]).await[0][0].clone();
    let name_hash = &name.as_str().unwrap()[4..36];
    let query = |arm: &str, then: &str| {
        format!(
            "WITH RECURSIVE r (n, e) AS (SELECT 1, email FROM people WHERE id = 1 UNION ALL SELECT n + 1, {arm}) {then}"
        )
    };
    let all = "SELECT n, e FROM r ORDER BY n";
    for (arm, expected) in [
        (
            "e FROM r WHERE n < 3",
            json!([[1, ann], [2, ann], [3, ann]]),
        ),
        (
            "o.buyer FROM r JOIN orders o ON o.id = 10 + r.n WHERE n < 3",
            json!([[1, ann], [2, ann], [3, bob]]),
        ),
        (
            "coalesce(p.email, e) FROM r JOIN people p ON p.id = r.n + 1 WHERE n < 3",
            json!([[1, ann], [2, bob], [3, bob]]),
        ),
        ("NULL FROM r WHERE n < 2", json!([[1, ann], [2, null]])),
        ("'none' FROM r WHERE n < 2", json!([[1, ann], [2, "none"]])),
        // What may be a constant may be compared with one, in the arm that gives it too.
        (
            "coalesce(NULLIF(e, e), 'none') FROM r WHERE n < 4 AND e <> 'none'",
            json!([[1, ann], [2, "none"]]),
        ),
        // Of another domain, computed, or what may be a hash: all are strings.
        (
            "p.name FROM r JOIN people p ON p.id = r.n WHERE n < 2",
            json!([[1, hash], [2, name_hash]]),
        ),
        ("lower(e) FROM r WHERE n < 2", json!([[1, hash], [2, hash]])),
        (
            "'0123456789abcdef0123456789abcdef' FROM r WHERE n < 2",
            json!([[1, hash], [2, "0123456789abcdef0123456789abcdef"]]),
        ),
        // A string is compared with anything, and a tag stays on what it is compared with.
        (
            "lower(e) FROM r WHERE n < 2 AND e <> 'x'",
            json!([[1, hash], [2, hash]]),
        ),
        (
            &format!("lower(e) FROM r WHERE n < 2 AND e = {ann_sql}"),
            json!([[1, hash]]),
        ),
        // A token is compared with tokens, whose tags are taken off once.
        (
            &format!("e FROM r WHERE n < 3 AND e = {ann_sql}"),
            json!([[1, ann], [2, ann], [3, ann]]),
        ),
        ("e FROM r WHERE n < 3 AND e = 'x'", json!("token.foreign")),
        (
            &format!("e FROM r WHERE n < 3 AND e = '{hash}'"),
            json!("token.foreign"),
        ),
    ] {
        to.check(&query(arm, all), &[], expected).await;
    }
    let by = query(
        "o.buyer FROM r JOIN orders o ON o.id = 10 + r.n WHERE n < 3 AND e <> ?",
        "SELECT n FROM r WHERE e = ? ORDER BY n",
    );
    to.check(&by, &[bob.clone(), bob.clone()], json!([[3]]))
        .await;
    to.check(&by, &[bob.clone(), ann.clone()], json!([[1], [2]]))
        .await;
    for params in [[bob.clone(), json!("x")], [json!("x"), bob.clone()]] {
        to.check(&by, &params, json!("token.foreign")).await;
    }
    // A parameter that was taken for a token's in an earlier reading is none.
    let string = query("lower(e) FROM r WHERE n < 2 AND e <> ?", all);
    to.check(&string, &[json!("x")], json!([[1, hash], [2, hash]]))
        .await;
    // Columns that go round: of one domain, of two, and of another that comes late.
    let round = |columns: &[&str], arm: &str| {
        let names = &["a", "b", "c", "d", "e", "f", "g"][..columns.len()];
        format!(
            "WITH RECURSIVE r (n, {}) AS (SELECT 1, {} FROM people p JOIN orders o ON o.buyer = p.email WHERE o.id = 12 \
             UNION ALL SELECT n + 1, {arm} FROM r WHERE n < 9) SELECT a FROM r WHERE n = 1",
            names.join(", "),
            columns.join(", "),
        )
    };
    let bob_hash = &bob.as_str().unwrap()[4..36];
    for (columns, arm, tagged) in [
        (&["email", "buyer"][..], "b, a", true),
        (&["email", "name"], "b, a", false),
        (&["email", "email", "buyer"], "b, c, c", true),
        (&["email", "email", "name"], "b, c, c", false),
        (
            &["email", "email", "email", "email", "email", "email", "name"],
            "b, c, d, e, f, g, g",
            false,
        ),
        (&["email", "name"], "a, b", true),
    ] {
        let expected = if tagged { bob } else { &json!(bob_hash) };
        to.check(&round(columns, arm), &[], json!([[expected]]))
            .await;
    }
    // One inside of another, and in a view.
    to.check(
        "WITH RECURSIVE r (n, e) AS (SELECT 1, email FROM people WHERE id = 1 UNION ALL SELECT r.n + 1, d.e FROM r JOIN (\
         WITH RECURSIVE s (m, e) AS (SELECT 1, buyer FROM orders WHERE id = 12 UNION ALL SELECT m + 1, e FROM s WHERE m < 2) \
         SELECT m, e FROM s) AS d ON d.m = r.n WHERE r.n < 3) SELECT n, e FROM r ORDER BY n",
        &[],
        json!([[1, ann], [2, bob], [3, bob]]),
    )
    .await;
    to.check(
        "SELECT c.n, c.mail, p.id FROM chain c JOIN people p ON p.email = c.mail WHERE c.mail = ? ORDER BY c.n",
        std::slice::from_ref(bob),
        json!([[1, bob, 2], [2, bob, 2]]),
    )
    .await;
}

/// `answer` with each token replaced by a number, in the order in which they come.
fn renamed(answer: &Value) -> String {
    let mut text = answer.to_string();
    let mut number = 0;
    while let Some(at) = text.find("tok_") {
        let token = text[at..at + 52].to_owned();
        text = text.replace(&token, &format!("#{number}"));
        number += 1;
    }
    text
}

/// Two databases that differ in what tokens stand for, and in nothing else, give the same answers up to the names
/// of tokens. (LIKE, functions and the order of tokens see the hash, which is another.)
#[tokio::test]
async fn tokens_tell_of_equality_alone() {
    let folder = tempfile::tempdir().unwrap();
    let other = SCRIPT
        .replace("ann@canary", "zoe@canary.of")
        .replace("bob@canary", "a@canary")
        .replace("4711", "17")
        .replace("canary-bob", "canary-2");
    let mut both = Vec::new();
    for (name, script) in [("one.db", SCRIPT), ("other.db", &other)] {
        let path = folder.path().join(name);
        create_database(&path, script).unwrap();
        let backend = SqliteBackend::open_file(&path, "tokens").unwrap();
        both.push(Asking {
            guard: gate(backend.writable(), "main"),
            dialect: Dialect::Sqlite,
        });
    }
    for sql in [
        "SELECT * FROM people ORDER BY id",
        "SELECT * FROM directory ORDER BY id",
        "SELECT o.id, p.id, o.buyer, p.name FROM orders o JOIN people p ON p.email = o.buyer ORDER BY o.id",
        "SELECT p.id, (SELECT count(*) FROM orders o WHERE o.buyer = p.email) AS n FROM people p ORDER BY p.id",
        "SELECT count(DISTINCT buyer) AS d, count(buyer) AS n, sum(total) AS s FROM orders",
        "SELECT buyer, sum(total) AS s FROM orders GROUP BY buyer ORDER BY s",
        "SELECT length(name) AS l, typeof(pin) AS t, pin IS NULL AS e, email = buyer AS s FROM people, orders WHERE people.id = 1 ORDER BY orders.id",
        "SELECT id FROM people WHERE email > id + 1 ORDER BY id",
        "SELECT coalesce(NULLIF(email, lower(id || 'ANN@CANARY.EXAMPLE')), 'none') = 'none' AS e FROM people ORDER BY id",
    ] {
        let [one, other] = [&both[0], &both[1]];
        let (one, other) = (one.ask(sql, &[]).await, other.ask(sql, &[]).await);
        assert_eq!(renamed(&one), renamed(&other), "{sql}");
    }
}

#[tokio::test]
async fn tokens_end_with_their_hour() {
    let file = TestFile::new(SCRIPT);
    let backend = file.reader();
    let secret = TokenSecret::new(SECRET).lasting(Duration::from_secs(3600));
    let host = Arc::new(TurnedHost::default());
    let guard = gate_of(backend, "main", secret, Arc::clone(&host) as _);
    let to = Asking {
        guard,
        dialect: Dialect::Sqlite,
    };
    let turn = |seconds| host.0.store(seconds, Ordering::Relaxed);
    let all = "SELECT p.email, d.mail, p.phone FROM people p JOIN directory d ON d.mail = p.email WHERE p.id = 1";
    let by_parameter = "SELECT id FROM people WHERE email = ?";
    let first = to.ask(all, &[]).await;
    let token = first[0][0].clone();
    assert_eq!(first[0][0], first[0][1]);
    let literal = format!(
        "SELECT id FROM people WHERE email = '{}'",
        token.as_str().unwrap()
    );
    for seconds in [0, 3599] {
        turn(seconds);
        to.check(all, &[], first.clone()).await;
        to.check(&literal, &[], json!([[1]])).await;
        to.check(by_parameter, std::slice::from_ref(&token), json!([[1]]))
            .await;
    }
    // What was remembered in the last hour is not of this one.
    turn(3600);
    to.check(&literal, &[], json!("token.foreign")).await;
    to.check(
        by_parameter,
        std::slice::from_ref(&token),
        json!("token.foreign"),
    )
    .await;
    let second = to.ask(all, &[]).await;
    assert_ne!(second[0][0], token);
    assert_eq!(second[0][0], second[0][1]);
    to.check(
        by_parameter,
        std::slice::from_ref(&second[0][0]),
        json!([[1]]),
    )
    .await;
    // A hash lasts.
    assert_eq!(first[0][2], second[0][2]);
    // A clock that is turned back finds the old hour again.
    turn(10);
    to.check(&literal, &[], json!([[1]])).await;
    // Without a time there are none.
    let session = Session::new(Principal::new("Agent", "a"));
    let firewall = to.guard.firewall();
    let sql = "SELECT email FROM people";
    let Decision::Allow(statement) = firewall.check(sql, &Params::None, &session).unwrap() else {
        panic!("refused")
    };
    assert!(
        palisade::danger::parts(&statement)
            .sql
            .contains("NULL AS \"email\""),
        "{}",
        palisade::danger::parts(&statement).sql
    );
    let session = session.at(Duration::from_secs(10));
    let Decision::Allow(statement) = firewall.check(sql, &Params::None, &session).unwrap() else {
        panic!("refused")
    };
    assert!(
        !palisade::danger::parts(&statement)
            .sql
            .contains("NULL AS \"email\""),
        "{}",
        palisade::danger::parts(&statement).sql
    );
}

#[tokio::test]
async fn tokens_on_sqlite() {
    let file = TestFile::new(SCRIPT);
    let backend = file.reader();
    tokens_hold(gate(backend.writable(), "main"), "").await;
}

#[tokio::test]
async fn tokens_on_postgres() {
    let database = TestDatabase::postgres("tokens", SCRIPT);
    let backend = database.postgres_backend().await;
    tokens_hold(gate(backend, "public"), "").await;
}

async fn on_mysql(server: &'static Server, row: &str) {
    let database = TestDatabase::on(server, "tokens", SCRIPT);
    let backend = database.mysql_backend().await;
    tokens_hold(gate(backend, database.name()), row).await;
}

#[tokio::test]
async fn tokens_on_mariadb() {
    on_mysql(MariaDbServer::start_shared().unwrap(), "").await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn tokens_on_mysql_9() {
    on_mysql(MySqlServer::start_shared().unwrap(), "ROW").await;
}
