//! Which statements are fenced: where the plan decides what fails, every filtered source is, and nowhere else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use palisade::{
    firewall::{Decision, Firewall},
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
    value::Params,
};

const SCHEMA: &str = "
CREATE TABLE leads (id int PRIMARY KEY, tenant int NOT NULL, note text, amount bigint, created timestamp);
CREATE TABLE teams (id int PRIMARY KEY, lead int, name text, k int NOT NULL, price numeric(10, 2), doc json, made timestamp);
CREATE VIEW failing AS SELECT id, 10 / k AS share FROM teams;
";

const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"see", resource is row::public::leads) unless { resource.tenant == 1 };
"#;

fn is_fenced(sql: &str) -> bool {
    let catalog = palisade_ddl::postgres(SCHEMA, "shop").unwrap();
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: POLICIES.to_owned(),
        }],
        ..PolicySources::default()
    };
    let firewall = Firewall::builder(catalog, sources).build().unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall.check(sql, &Params::None, &session).unwrap() {
        Decision::Allow(statement) => {
            let text = palisade::danger::parts(&statement).sql;
            // What leaves a fence has no statistics.
            assert_eq!(
                text.contains("OFFSET 0) "),
                text.contains(r#"coalesce("note", "note") AS "note""#),
                "{text}"
            );
            text.contains("OFFSET 0) ")
        }
        Decision::Reject(why) => panic!("{sql}: {why}"),
    }
}

#[test]
fn what_may_fail_below_the_answer_fences() {
    for sql in [
        "SELECT l.id FROM leads l, generate_series(1, 500) g WHERE l.note LIKE 'merg%' AND 1 / (g - 1) > 0",
        "SELECT l.id FROM generate_series(1, 500, 0) g, leads l WHERE l.note = 'x'",
        "SELECT l.id FROM leads l CROSS JOIN (SELECT 1 / k AS x FROM teams LIMIT 5) t WHERE l.note = 'x'",
        "SELECT l.id FROM leads l, (SELECT max(1 / k) AS x FROM teams GROUP BY id) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, (SELECT DISTINCT name::int AS x FROM teams) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, (SELECT id FROM teams LIMIT -1) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, (SELECT id FROM teams OFFSET 1 - 2) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, teams t TABLESAMPLE BERNOULLI (200) WHERE l.amount < 9",
        "SELECT l.id FROM leads l, (SELECT count(*) OVER (ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) AS c FROM teams) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, failing f WHERE f.id = l.id AND l.note = 'x'",
        "SELECT l.id FROM leads l JOIN teams t ON t.lead = l.id WHERE l.note = 'x' ORDER BY 1 / t.k",
        "SELECT l.id, 1 / t.k AS x FROM leads l JOIN teams t ON t.lead = l.id WHERE l.note = 'x' ORDER BY x",
        "SELECT 1 / t.k AS x, count(*) FROM leads l JOIN teams t ON t.lead = l.id WHERE l.note = 'x' GROUP BY 1",
        "SELECT DISTINCT 1 / t.k FROM leads l JOIN teams t ON t.lead = l.id WHERE l.note = 'x'",
        "SELECT l.id FROM leads l, (VALUES (1 / (1 - 1))) v(x) WHERE l.note = 'x'",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r WHERE n < 1) SELECT l.id FROM leads l, r WHERE l.note = 'x'",
    ] {
        assert!(is_fenced(sql), "{sql}");
    }
}

/// Indexes serve these: what a statement of the usual kind computes of its answer fails alike by every plan.
#[test]
fn what_cannot_fail_or_is_of_the_answer_does_not() {
    for sql in [
        "SELECT id FROM leads WHERE id = 7 AND note = 'x'",
        "SELECT 100 / amount, upper(note) FROM leads WHERE id = 7",
        "SELECT note FROM leads WHERE id IN (1, 2, 3) ORDER BY created DESC LIMIT 10",
        "SELECT l.note, t.price * 2 AS double FROM leads l JOIN teams t ON t.lead = l.id WHERE l.id = 7",
        "SELECT t.name, sum(l.amount * t.k) AS total FROM leads l JOIN teams t ON t.lead = l.id GROUP BY t.name HAVING count(*) > 1 ORDER BY total DESC",
        "SELECT date_trunc('month', l.created) AS month, count(*) FROM leads l JOIN teams t ON t.lead = l.id GROUP BY 1 ORDER BY 1",
        "SELECT l.id, (SELECT count(*) FROM teams t WHERE t.lead = l.id) AS teams FROM leads l WHERE l.id = 7",
        "SELECT l.id, row_number() OVER (PARTITION BY t.name ORDER BY l.created) FROM leads l JOIN teams t ON t.lead = l.id",
        "SELECT l.id FROM leads l JOIN (SELECT lead, count(*) AS n FROM teams GROUP BY lead) t ON t.lead = l.id WHERE l.id = 7",
    ] {
        assert!(!is_fenced(sql), "{sql}");
    }
}
