//! Generated statements on two databases that differ only in what may not be seen.

use palisade::value::Params;

use crate::{
    gate::{EVERYTHING, Stand, ran},
    statements::{Statements, depends_on_order, is_volatile},
};

const SCHEMA: &str = "
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE users (id int PRIMARY KEY, name text, email text, ssn text, tenant_id int, memo text, level int, born date,
    tags text[], doc jsonb, mood mood, plain text COLLATE \"C\", posix text COLLATE \"POSIX\", parts json[]);
CREATE TABLE vip (rank int) INHERITS (users);
CREATE TABLE orders (id int PRIMARY KEY, user_id int, total int, memo text);
CREATE TABLE credentials (id int PRIMARY KEY, secret text);
CREATE VIEW directory AS SELECT id, name AS n, ssn AS s, level FROM users;
CREATE VIEW teams AS SELECT tenant_id, level, count(*) AS n, max(ssn) AS s FROM users GROUP BY tenant_id, level;
INSERT INTO orders VALUES (1, 1, 10, '1'), (2, 2, 5, '2'), (3, 5, 84, NULL), (4, 1, 10, 'b');
";

/// A mask, a hidden column, a row filter that costs the planner more than most predicates, a forbidden table.
const RESTRICTED: &str = r#"
permit(principal, action, resource)
unless { resource is Table && resource == Table::"public.credentials" };
@mask("last(4)")
forbid(principal, action == Action::"read_plain", resource == Column::"public.users.ssn");
forbid(principal, action in Action::"read", resource == Column::"public.users.email");
forbid(principal, action == Action::"see", resource is row::public::users)
unless {
    resource has tenant_id && (resource.tenant_id == 1 || resource.tenant_id == 11 || resource.tenant_id == 12
        || resource.tenant_id == 13 || resource.tenant_id == 14 || resource.tenant_id == 15)
};
"#;

/// The same to whoever sees by [`RESTRICTED`]: hidden columns, plaintexts whose masks are equal, rows of
/// another tenant and a forbidden table differ.
const SEEN: [&str; 2] = [
    "
INSERT INTO users VALUES
    (1, 'ada', 'a@x', '900-12-3456', 1, '1', 1, '2000-01-01', '{x,y}', '{\"a\": 1}', 'sad'),
    (2, 'bob', 'b@x', '901-23-6789', 1, '2', 2, '2001-02-03', '{y}', '{\"b\": 2}', 'ok'),
    (5, 'eve', 'e@x', NULL, 1, '5', 5, NULL, NULL, NULL, NULL);
INSERT INTO vip VALUES (6, 'fay', NULL, '777-77-6789', 11, '6', 6, '1999-09-09', '{}', '[1]', 'happy', NULL, NULL, NULL, 1);
INSERT INTO users VALUES (3, 'hid', 'c@x', '902-34-5678', 2, '3', 3, '1990-01-01', '{q}', '{\"a\": 3}', 'ok');
INSERT INTO credentials VALUES (1, 'alpha');
",
    "
INSERT INTO users VALUES (3, 'HID', NULL, '111-11-1111', 2, 'three', 0, 'infinity', '{}', '{\"a\": \"b\"}', 'sad', 'p', 'q', ARRAY['1'::json]),
    (4, '[', 'c@x', '3456', NULL, '', -1, NULL, NULL, '[]', NULL, 'p', 'p', ARRAY['{}'::json]);
INSERT INTO users VALUES
    (1, 'ada', 'z@y', '100-99-3456', 1, '1', 1, '2000-01-01', '{x,y}', '{\"a\": 1}', 'sad'),
    (2, 'bob', NULL, '999-99-6789', 1, '2', 2, '2001-02-03', '{y}', '{\"b\": 2}', 'ok'),
    (5, 'eve', 'w@y', NULL, 1, '5', 5, NULL, NULL, NULL, NULL);
INSERT INTO vip VALUES (6, 'fay', 'v@y', '000-00-6789', 11, '6', 6, '1999-09-09', '{}', '[1]', 'happy', NULL, NULL, NULL, 1),
    (7, '(', 'v@y', '1', 3, 'x', 0, '1999-09-09', '{}', '1', 'happy', 'a', 'b', NULL, 2);
INSERT INTO credentials VALUES (1, 'omega'), (2, 'psi');
ANALYZE;
",
];

/// What ran and what differed.
#[derive(Default)]
struct Outcome {
    ran: usize,
    failed: usize,
    /// Refusals by code.
    refused: std::collections::BTreeMap<String, usize>,
    differences: Vec<String>,
}

/// Runs statements on both databases.
async fn compare(label: &str, policies: &str, count: usize) -> Outcome {
    let one = Stand::new(label, &[SCHEMA, SEEN[0]], policies).await;
    let other = Stand::new(label, &[SCHEMA, SEEN[1]], policies).await;
    // The same statements in every run, unless somebody asks for others.
    let seed = number("PALISADE_SEED").unwrap_or(7);
    let mut outcome = Outcome::default();
    for sql in Statements::new(seed).take(count) {
        let (mut here, mut there) = tokio::join!(
            one.answer(&sql, &Params::None),
            other.answer(&sql, &Params::None)
        );
        outcome.ran += usize::from(ran(&here));
        outcome.failed += usize::from(here["code"] == "database.rejected");
        if let Some(code) = here["code"].as_str() {
            *outcome.refused.entry(code.to_owned()).or_default() += 1;
        }
        if is_volatile(&sql) {
            continue;
        }
        if depends_on_order(&sql) {
            // Which rows are picked, and so whether one that raises is, is no part of the promise.
            if ran(&here) != ran(&there) {
                continue;
            }
            (here, there) = (shape(&here), shape(&there));
        }
        if here != there {
            let text = one.rewritten(&sql, &Params::None);
            outcome
                .differences
                .push(format!("{sql}\n  {here}\n  {there}\n  {text:?}"));
        }
    }
    outcome
}

fn shape(answer: &serde_json::Value) -> serde_json::Value {
    ["code", "message", "columns", "truncated", "empty_reason"]
        .iter()
        .map(|key| answer.get(*key).cloned().unwrap_or_default())
        .collect()
}

/// A setting of the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test]
async fn what_is_hidden_does_not_show() {
    let cases = number("PALISADE_CASES").unwrap_or(3000);
    let count = usize::try_from(cases).unwrap();
    let outcome = compare("hidden", RESTRICTED, count).await;
    println!(
        "{count} statements: {} ran, {} failed on the server, {} differ; refused: {:?}",
        outcome.ran,
        outcome.failed,
        outcome.differences.len(),
        outcome.refused
    );
    assert!(
        outcome.differences.is_empty(),
        "{}",
        outcome.differences.join("\n")
    );
    assert!(outcome.ran * 4 > count, "only {} ran", outcome.ran);
}

/// Without masks and filters the same statements tell the databases apart.
#[tokio::test]
async fn what_is_not_hidden_shows() {
    let outcome = compare("shown", EVERYTHING, 200).await;
    assert!(
        outcome.differences.len() > 10,
        "{}",
        outcome.differences.len()
    );
}
