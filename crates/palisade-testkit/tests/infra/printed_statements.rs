//! What is printed is what the engines read: each statement of the corpus that is allowed is prepared, as it
//! would be run, on a real server.

use std::path::PathBuf;

use palisade_corpus::{Corpus, Runner};
use palisade_testkit::servers::{MariaDbServer, PostgresServer, Server};

/// Cases that the server of the test does not know, each with the words of its refusal and why.
const EXCUSED: &[(&str, &str, &str)] = &[
    ("my-json-value", "RETURNING", "only MySQL has the clause"),
    ("my-json-arrow", "'$.color'", "only MySQL has the operators"),
    (
        "my-null-treatment",
        "RESPECT NULLS",
        "only MySQL has the words",
    ),
    (
        "pg-is-json",
        "near \"JSON\"",
        "only PostgreSQL 16 and later versions have the condition",
    ),
    (
        "my-extractvalue",
        "constant XPATH",
        "the statement itself is wrong",
    ),
    (
        "my-updatexml",
        "constant XPATH",
        "the statement itself is wrong",
    ),
];

fn corpus() -> Corpus {
    Corpus::load(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus")).unwrap()
}

/// Prepares every allowed statement over `catalog`, whose tables are in `database`; how many there were, and what
/// the server said of those that it refused.
fn prepare(
    server: &Server,
    database: &str,
    catalog: &str,
    prepared: impl Fn(&str) -> String,
) -> (usize, Vec<String>) {
    let corpus = corpus();
    let runner = Runner::new(&corpus).unwrap();
    // MariaDB does not know MySQL's collations, and a script may hold statements that its own server alone runs.
    let script = corpus.catalogs.get(catalog).unwrap();
    let script = script.replace("utf8mb4_0900_ai_ci", "utf8mb4_general_ci");
    let _ = server.load(database, &script).unwrap();
    let mut count = 0;
    let mut refused = Vec::new();
    for case in corpus.cases.iter().filter(|case| case.catalog == catalog) {
        let Some(sql) = runner.decide(case).unwrap().rewritten else {
            continue;
        };
        if sql.is_empty() {
            // It does nothing.
            continue;
        }
        count += 1;
        let answer = server.query(database, &prepared(&sql));
        let excuse = EXCUSED.iter().find(|(name, _, _)| *name == case.name);
        match (answer, excuse) {
            (Ok(_), None) => {}
            (Ok(_), Some(_)) => refused.push(format!("{}: is read, and excused", case.id())),
            (Err(why), Some((_, words, _))) if why.to_string().contains(words) => {}
            (Err(why), _) => refused.push(format!("{}\n  {sql}\n  {why}", case.id())),
        }
    }
    (count, refused)
}

#[test]
fn postgres_reads_what_is_printed() {
    let server: &Server = PostgresServer::start_shared().unwrap();
    for catalog in ["shop.postgres", "desk.postgres", "ledger.postgres"] {
        let database = server.fresh_database("printed").unwrap();
        let (count, refused) = prepare(server, &database, catalog, |sql| {
            let verb = sql.split_whitespace().next().unwrap_or_default();
            // What cannot be prepared runs and is undone.
            if ["CREATE", "ALTER", "DROP", "TRUNCATE", "EXPLAIN"].contains(&verb) {
                format!("BEGIN; {sql}; ROLLBACK")
            } else {
                format!("PREPARE printed AS {sql}")
            }
        });
        assert!(count > 20, "{catalog}: {count}");
        assert!(refused.is_empty(), "{catalog}:\n{}", refused.join("\n"));
    }
}

/// Escaped strings are read by the parser and printed as plain ones.
#[test]
fn postgres_gives_the_same_strings() {
    let server: &Server = PostgresServer::start_shared().unwrap();
    let database = server.fresh_database("strings").unwrap();
    let corpus = corpus();
    let runner = Runner::new(&corpus).unwrap();
    let mut count = 0;
    let escaped = |name: &str| name.starts_with("pg-escaped-");
    for case in corpus.cases.iter().filter(|case| escaped(&case.name)) {
        let Some(sql) = runner.decide(case).unwrap().rewritten else {
            continue;
        };
        let (bare, ours) = (
            server.query(&database, &case.sql).unwrap(),
            server.query(&database, &sql).unwrap(),
        );
        assert_eq!(bare, ours, "{}: {sql}", case.id());
        count += 1;
    }
    assert!(count >= 4, "{count}");
}

#[test]
fn mariadb_reads_what_is_printed() {
    let server: &Server = MariaDbServer::start_shared().unwrap();
    for catalog in ["shop.mysql", "desk.mysql", "ledger.mysql"] {
        // The database that the corpus decides over.
        server.create_database("main").unwrap();
        let (count, refused) = prepare(server, "main", catalog, |sql| {
            let text = sql.replace('\\', "\\\\").replace('\'', "''");
            format!("PREPARE printed FROM '{text}'")
        });
        server.query("main", "DROP DATABASE main").unwrap();
        assert!(count > 20, "{catalog}: {count}");
        assert!(refused.is_empty(), "{catalog}:\n{}", refused.join("\n"));
    }
}
