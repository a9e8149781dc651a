//! Statements of the corpus that change data, run through the gate on real databases: what is permitted happens,
//! as many rows as the case says, and what policy hides stays as it was.

use std::path::PathBuf;

use palisade::{
    code::Code,
    guard::{Backend, Guard, Outcome, Request},
    limits::Limits,
    session::{Principal, Session},
    value::Params,
};
use palisade_corpus::{Case, Corpus, Verdict};
use palisade_testkit::{
    fixture::policy_sources,
    live::changing_gate,
    servers::{MariaDbServer, Server},
};

use crate::database::{TestDatabase, TestFile};

/// What no statement of the clerk's or the officer's may change.
const KEPT: &[&str] = &[
    "SELECT id, tenant_id, name, iban, balance, note, state FROM accounts WHERE tenant_id <> 1 ORDER BY id",
    "SELECT id, account_id, tenant_id, amount, memo FROM entries WHERE tenant_id <> 1 ORDER BY id",
    "SELECT id, iban, note FROM accounts WHERE id < 5 ORDER BY id",
    "SELECT id, name, balance FROM accounts WHERE state = 'closed' ORDER BY id",
    "SELECT id, tenant_id, email, name, hits, secret FROM contacts WHERE tenant_id <> 1 OR name = 'Held' ORDER BY id",
    "SELECT id, salary FROM payroll ORDER BY id",
    "SELECT code, rate FROM rates ORDER BY code",
];

fn corpus() -> Corpus {
    Corpus::load(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus")).unwrap()
}

fn guard<B: Backend>(corpus: &Corpus, case: &Case, backend: B) -> Guard {
    changing_gate(backend, corpus.policies[&case.policies].clone())
}

/// What is wrong with the outcome of `case`.
async fn run(guard: &Guard, case: &Case, kept: &dyn Fn() -> Vec<String>) -> Option<String> {
    let before = kept();
    let session = case.session();
    let (outcome, report) = guard
        .answer(
            Request::statement(&case.sql, &case.params, &session)
                .with_limits(&case.limits)
                .allow_changes(),
        )
        .await;
    let after = kept();
    let ran = report.rewritten.unwrap_or_default();
    if before != after {
        return Some(format!("{ran}\n  changed {before:?}\n  to {after:?}"));
    }
    let verdict = (case.expect.on_data).map_or(case.expect.verdict, Verdict::Reject);
    match (outcome.into_result(), verdict) {
        (Ok(envelope), Verdict::Allow) => {
            let answer = serde_json::to_string(&envelope).unwrap();
            if let Some(word) = case.expect.never.iter().find(|word| answer.contains(*word)) {
                return Some(format!("{ran}\n  gave {word}: {answer}"));
            }
            let expected = case.expect.affected?;
            (envelope.affected_rows() != Some(expected)).then(|| {
                format!(
                    "{ran}\n  {expected} rows, got {:?}",
                    envelope.affected_rows()
                )
            })
        }
        (Err(refusal), Verdict::Reject(code)) => (refusal.rejection.code() != code)
            .then(|| format!("{ran}\n  {code}, got {}", refusal.rejection)),
        (Ok(_), Verdict::Reject(code)) => Some(format!("{ran}\n  {code}, and it ran")),
        (_, Verdict::Deny) => Some(format!("{ran}\n  a cell of a matrix is not run")),
        (Err(refusal), Verdict::Allow) => Some(format!(
            "{ran}\n  {} {:?}",
            refusal.rejection,
            refusal.rejection.operator_detail()
        )),
    }
}

/// The cases that are run. What is refused before anything runs is refused in the corpus's own tests.
fn cases<'c>(corpus: &'c Corpus, catalog: &'c str) -> impl Iterator<Item = &'c Case> {
    corpus
        .cases
        .iter()
        .filter(move |case| case.catalog == catalog && case.expect.verdict == Verdict::Allow)
}

fn report(failures: &[String], count: usize) {
    assert!(count > 40, "{count}");
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[tokio::test]
async fn sqlite_changes_what_is_permitted_and_nothing_else() {
    let corpus = corpus();
    let clear = |table: &str| format!("DELETE FROM {table};\n");
    let again = rows_again(&corpus.catalogs["ledger"], clear);
    let (mut failures, mut count) = (Vec::new(), 0);
    let mut last: Option<(&str, TestFile, Guard)> = None;
    for case in cases_by_policies(&corpus, "ledger") {
        let (file, guard) = match last.take() {
            Some((policies, file, guard)) if policies == case.policies => {
                file.open_bare().execute_batch(&again).unwrap();
                (file, guard)
            }
            _ => {
                let file = TestFile::new(&corpus.catalogs["ledger"]);
                let guard = guard(&corpus, case, file.backend());
                (file, guard)
            }
        };
        let kept = || {
            let conn = file.open_bare();
            KEPT.iter()
                .map(|sql| {
                    let mut statement = conn.prepare(sql).unwrap();
                    let width = statement.column_count();
                    let rows = statement
                        .query_map([], |row| {
                            (0..width)
                                .map(|i| row.get::<_, rusqlite::types::Value>(i))
                                .collect::<Result<Vec<_>, _>>()
                        })
                        .unwrap();
                    format!("{:?}", rows.map(Result::unwrap).collect::<Vec<_>>())
                })
                .collect()
        };
        if let Some(why) = run(&guard, case, &kept).await {
            failures.push(format!("{}\n  {why}", case.id()));
        }
        count += 1;
        last = (!defines(case)).then_some((&case.policies, file, guard));
    }
    report(&failures, count);
}

/// In one script: a client's start takes longer than all of it.
fn kept_on(server: &Server, database: &str) -> Vec<String> {
    let script = KEPT.join(";\n");
    let rows = server.query(database, &script);
    vec![rows.unwrap_or_else(|error| panic!("{script}: {error}"))]
}

/// A new ledger on PostgreSQL.
fn ledger(label: &str, corpus: &Corpus) -> TestDatabase<'static> {
    let database = TestDatabase::postgres(label, "");
    let renamed = format!("ALTER DATABASE {database}");
    database.load(&corpus.catalogs["ledger.postgres"].replace("ALTER DATABASE ledger", &renamed));
    database
}

#[tokio::test]
async fn rows_that_a_with_changes_count_as_all_others_do() {
    let corpus = corpus();
    let database = ledger("capped", &corpus);
    let case = cases(&corpus, "ledger.postgres").next().unwrap();
    let guard = guard(&corpus, case, database.postgres_backend().await);
    let session = case.session();
    let most = |rows| Limits {
        max_affected_rows: rows,
        ..Limits::default()
    };
    for (sql, rows) in [
        (
            "WITH c AS (UPDATE entries SET memo = 'x' WHERE amount > 0 RETURNING id) SELECT count(*) AS n FROM c",
            2,
        ),
        (
            "WITH c AS (UPDATE entries SET memo = 'x' WHERE id = 10), d AS (DELETE FROM drafts WHERE id = 2) \
             SELECT 1 AS one",
            2,
        ),
        (
            "WITH c AS (UPDATE entries SET memo = 'x' WHERE id = 10 RETURNING id) INSERT INTO drafts (id) SELECT id FROM c",
            2,
        ),
        // What a statement before it changed is not counted again.
        (
            "WITH c AS (DELETE FROM drafts WHERE id = 10 RETURNING id) SELECT id FROM c",
            1,
        ),
    ] {
        let (outcome, _) = guard
            .answer(
                Request::statement(sql, &Params::None, &session)
                    .with_limits(&most(rows - 1))
                    .allow_changes(),
            )
            .await;
        match outcome {
            Outcome::Rejected(refusal) if refusal.rejection.code() == Code::LimitAffectedRows => {}
            other => panic!("{sql}: {other:?}"),
        }
        let (outcome, _) = guard
            .answer(
                Request::statement(sql, &Params::None, &session)
                    .with_limits(&most(rows))
                    .allow_changes(),
            )
            .await;
        match outcome.into_result() {
            Ok(envelope) => assert_eq!(envelope.affected_rows(), Some(rows), "{sql}"),
            Err(refusal) => panic!("{sql}: {}", refusal.rejection),
        }
    }
}

/// PostgreSQL counts what triggers change with what a WITH changes.
#[tokio::test]
async fn rows_that_triggers_change_are_not_told_of() {
    let database = TestDatabase::postgres(
        "set_off",
        "CREATE TABLE source (id integer PRIMARY KEY);
         CREATE TABLE secret (source_id integer);
         CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN DELETE FROM secret WHERE source_id = OLD.id; RETURN OLD; END $$;
         CREATE TRIGGER forgotten BEFORE DELETE ON source FOR EACH ROW EXECUTE FUNCTION forget();
         INSERT INTO source VALUES (1), (2), (3), (4);
         INSERT INTO secret VALUES (2), (2), (4), (4);",
    );
    let policies = r#"permit(principal, action, resource) unless { resource is Table && resource == Table::"public.secret" };
        permit(principal, action == Action::"call", resource == Function::"public.forget");"#;
    let guard = changing_gate(database.postgres_backend().await, policy_sources(policies));
    let session = Session::new(Principal::new("Agent", "a"));
    for (id, is_with, told) in [
        (1, true, None),
        (2, true, None),
        (3, false, Some(1)),
        (4, false, Some(1)),
    ] {
        let sql = match is_with {
            true => format!(
                "WITH d AS (DELETE FROM source WHERE id = {id} RETURNING id) SELECT id FROM d"
            ),
            false => format!("DELETE FROM source WHERE id = {id}"),
        };
        match guard
            .execute(&sql, &Params::None, &session)
            .await
            .into_result()
        {
            Ok(envelope) => assert_eq!(envelope.affected_rows(), told, "{sql}"),
            Err(refusal) => panic!("{sql}: {}", refusal.rejection),
        }
    }
}

/// A row of `par` has three of `kid`, another none.
const FAMILY: &[&str] = &[
    "CREATE TABLE par (id INTEGER PRIMARY KEY)",
    "CREATE TABLE kid (id INTEGER PRIMARY KEY, par_id INTEGER, FOREIGN KEY (par_id) REFERENCES par (id) ON DELETE CASCADE)",
    "INSERT INTO par (id) VALUES (1), (2)",
    "INSERT INTO kid (id, par_id) VALUES (1, 1), (2, 1), (3, 1)",
];

/// Whether a row of `par` with three of `kid` goes only where the cap has room for all of them.
async fn cascades_are_capped<B: Backend + Clone>(backend: B, kids: &dyn Fn() -> String) {
    let session = Session::new(Principal::new("Agent", "a"));
    let delete = async |id: u8, most: u64| {
        let policies = format!(
            "permit(principal, action, resource) unless {{ action == Action::\"delete\" }};\n\
             @max_rows(\"{most}\") permit(principal, action == Action::\"delete\", resource);"
        );
        let guard = changing_gate(backend.clone(), policy_sources(policies));
        let sql = format!("DELETE FROM par WHERE id = {id}");
        guard.execute(&sql, &Params::None, &session).await
    };
    match delete(1, 3).await {
        Outcome::Rejected(refusal) if refusal.rejection.code() == Code::LimitAffectedRows => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(kids(), "3");
    match delete(2, 3).await.into_result() {
        Ok(envelope) => assert_eq!(envelope.affected_rows(), Some(1)),
        Err(refusal) => panic!("{}", refusal.rejection),
    }
    match delete(1, 4).await.into_result() {
        Ok(envelope) => assert_eq!(envelope.affected_rows(), Some(1)),
        Err(refusal) => panic!("{}", refusal.rejection),
    }
    assert_eq!(kids(), "0");
}

#[tokio::test]
async fn sqlite_counts_cascades_against_the_cap() {
    let file = TestFile::new(&FAMILY.join(";"));
    let kids = || {
        let count = "SELECT count(*) || '' FROM kid";
        let count = file.open_bare().query_row(count, [], |row| row.get(0));
        count.unwrap()
    };
    cascades_are_capped(file.backend(), &kids).await;
}

#[tokio::test]
async fn postgres_counts_cascades_against_the_cap() {
    let database = TestDatabase::postgres("cascades", &FAMILY.join(";"));
    let kids = || {
        let count = database.query("SELECT count(*) FROM kid");
        count.trim().to_owned()
    };
    cascades_are_capped(database.postgres_backend().await, &kids).await;
}

/// What writes as it is called is not called to look whether its rows are admitted.
#[tokio::test]
async fn what_writes_is_not_run_to_look() {
    let mut corpus = corpus();
    let keeper = corpus.policies["keeper"].clone();
    let with = |uid: &str| {
        let mut sources = keeper.clone();
        sources.policies[0].text += &format!(
            "permit(principal, action == Action::\"call\", resource == Function::\"{uid}\");"
        );
        sources
    };
    let refused = |outcome: Outcome, sql: &str| match outcome.into_result() {
        Err(refusal) => assert_eq!(
            refusal.rejection.code(),
            Code::WriteRowNotAdmitted,
            "{sql}: {:?}",
            refusal.rejection.operator_detail()
        ),
        Ok(_) => panic!("{sql}: it ran"),
    };
    let of = |catalog: &str| {
        let mut cases = corpus.cases.iter();
        let case = cases.find(|case| case.catalog == catalog && case.policies == "keeper");
        case.unwrap().clone()
    };
    let (on_postgres, on_mysql) = (of("ledger.postgres"), of("ledger.mysql"));
    let session = Session::new(on_postgres.principal.clone());

    let database = ledger("twice", &corpus);
    database.query("CREATE SEQUENCE main.numbers START 500");
    corpus
        .policies
        .insert("keeper".to_owned(), with("pg_catalog.nextval"));
    let gate = guard(&corpus, &on_postgres, database.postgres_backend().await);
    let sql = "INSERT INTO accounts (id, tenant_id, name, balance) SELECT nextval('main.numbers'), tenant_id, name, 0 FROM accounts WHERE id = 1";
    refused(gate.execute(sql, &Params::None, &session).await, sql);
    assert_eq!(database.query("SELECT nextval('main.numbers')"), "500");

    let database = TestDatabase::mariadb("twice", &corpus.catalogs["ledger.mysql"]);
    let mut sources = with("get_lock");
    for file in &mut sources.policies {
        file.text = file
            .text
            .replace("row::main::", &format!("row::{database}::"));
    }
    corpus.policies.insert("keeper".to_owned(), sources);
    let gate = guard(&corpus, &on_mysql, database.mysql_backend().await);
    let sql = "UPDATE accounts SET name = 'x' WHERE id = 1 AND get_lock('a', 0) = 1";
    refused(gate.execute(sql, &Params::None, &session).await, sql);
}

/// Those of `catalog`, one policy set after the other, so that each is loaded once.
fn cases_by_policies<'c>(corpus: &'c Corpus, catalog: &'c str) -> Vec<&'c Case> {
    let mut cases: Vec<&Case> = cases(corpus, catalog).collect();
    cases.sort_by_key(|case| &case.policies);
    cases
}

/// Whether `case` changes what the database is made of, so that the next one needs another database.
fn defines(case: &Case) -> bool {
    let words = ["create", "alter", "drop"];
    let first = case.sql.split_whitespace().next().unwrap_or_default();
    words.contains(&first.to_lowercase().as_str())
}

/// What gives the tables of a ledger their first rows again: `clear` empties a table, and the script's own INSERTs fill it.
fn rows_again(script: &str, clear: impl Fn(&str) -> String) -> String {
    let table = |line: &str| {
        Some(clear(
            line.strip_prefix("CREATE TABLE ")?.split(' ').next()?,
        ))
    };
    let cleared: Vec<String> = script.lines().filter_map(table).collect();
    assert!(cleared.len() > 5, "{cleared:?}");
    let begin = script.find("\nINSERT INTO ").unwrap();
    let rows = script[begin..].split("\n\n").next().unwrap();
    format!("{}\n{rows}", cleared.concat())
}

#[tokio::test]
async fn postgres_changes_what_is_permitted_and_nothing_else() {
    let corpus = corpus();
    let clear = |table: &str| format!("TRUNCATE {table} RESTART IDENTITY CASCADE;\n");
    let again = rows_again(&corpus.catalogs["ledger.postgres"], clear);
    let (mut failures, mut count) = (Vec::new(), 0);
    let mut last: Option<(&str, TestDatabase<'_>, Guard)> = None;
    for case in cases_by_policies(&corpus, "ledger.postgres") {
        let (database, guard) = match last.take() {
            Some((policies, database, guard)) if policies == case.policies => {
                database.load(&again);
                (database, guard)
            }
            _ => {
                let database = ledger("changes", &corpus);
                let backend = database.postgres_backend().await;
                (database, guard(&corpus, case, backend))
            }
        };
        let kept = || kept_on(database.server(), database.name());
        if let Some(why) = run(&guard, case, &kept).await {
            failures.push(format!("{}\n  {why}", case.id()));
        }
        count += 1;
        last = (!defines(case)).then_some((&case.policies, database, guard));
    }
    report(&failures, count);
}

#[tokio::test]
async fn mariadb_changes_what_is_permitted_and_nothing_else() {
    let corpus = corpus();
    let server: &Server = MariaDbServer::start_shared().unwrap();
    let clear = |table: &str| format!("TRUNCATE {table};\n");
    let again = rows_again(&corpus.catalogs["ledger.mysql"], clear);
    let again = format!("SET foreign_key_checks = 0;\n{again}");
    let (mut failures, mut count) = (Vec::new(), 0);
    let mut last: Option<(&str, Guard)> = None;
    for case in cases_by_policies(&corpus, "ledger.mysql") {
        let guard = match last.take() {
            Some((policies, guard)) if policies == case.policies => {
                server.load("main", &again).unwrap().clean().unwrap();
                guard
            }
            _ => {
                // The database that policies name.
                let whole = &corpus.catalogs["ledger.mysql"];
                server
                    .query("mysql", "DROP DATABASE IF EXISTS main")
                    .unwrap();
                server.create_database("main").unwrap();
                server.load("main", whole).unwrap().clean().unwrap();
                guard(
                    &corpus,
                    case,
                    TestDatabase::connect_mysql(&server.url("main")).await,
                )
            }
        };
        let kept = || kept_on(server, "main");
        if let Some(why) = run(&guard, case, &kept).await {
            failures.push(format!("{}\n  {why}", case.id()));
        }
        count += 1;
        last = (!defines(case)).then_some((&case.policies, guard));
    }
    server.query("mysql", "DROP DATABASE main").unwrap();
    report(&failures, count);
}
