//! Each lock alone, against real databases: statements come as if the firewall had permitted them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod locks;
mod mistakes;
mod planted;
mod pool;
mod pooler;
mod principal;
mod schema_change;
mod tls;
mod values;
mod weaknesses;
mod write;

use std::{collections::BTreeSet, sync::OnceLock};

use palisade::{
    catalog::Change,
    danger::{self, RawParts},
    guard::{BackendError, Estimates},
    limits::Limits,
    session::Principal,
    value::Value,
};
use palisade_pool::{Changes, Task, Work};
use palisade_testkit::{
    ask::Ask,
    rows::Rows,
    servers::{PostgresServer, Server},
};

use crate::{PostgresBackend, PostgresConfig};

const SHOP: &str = "
    CREATE SCHEMA app; CREATE SCHEMA hr;
    CREATE TABLE app.users (gone int, id int PRIMARY KEY, name text, ssn text);
    ALTER TABLE app.users DROP COLUMN gone;
    CREATE TABLE hr.users (id int, ssn text);
    CREATE VIEW app.names AS SELECT id, name, ssn FROM app.users;
    CREATE MATERIALIZED VIEW app.cached AS SELECT id, ssn FROM app.users;
    CREATE SEQUENCE app.seq;
    INSERT INTO app.users VALUES (1, 'ann', '1-1'), (2, 'bob', '2-2');
    INSERT INTO hr.users VALUES (1, '9-9');
    CREATE FUNCTION app.writes() RETURNS int LANGUAGE plpgsql SECURITY DEFINER
        AS 'BEGIN INSERT INTO app.users VALUES (3); RETURN 1; END';
    CREATE FUNCTION app.makes() RETURNS int LANGUAGE plpgsql
        AS 'BEGIN CREATE TEMP TABLE made (a int); RETURN 1; END';
    CREATE FUNCTION app.twice(int) RETURNS int LANGUAGE sql AS 'SELECT 2 * $1';
    CREATE PROCEDURE app.act() LANGUAGE sql AS 'DELETE FROM app.users';
";

/// How many advisory locks are held in this database. The server has those of other tests as well.
const ADVISORY_LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// Set to have the tests run on PostgreSQL 18.
const EIGHTEEN: &str = "PALISADE_TEST_POSTGRES_18";

/// A server of the version that the tests run on.
fn start() -> PostgresServer {
    if std::env::var_os(EIGHTEEN).is_some() {
        PostgresServer::start_second().unwrap()
    } else {
        PostgresServer::start().unwrap()
    }
}

/// The server that most tests share.
fn shared() -> &'static Server {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(start)
}

#[test]
#[ignore = "needs PostgreSQL 18: cargo xtask test runs it"]
fn postgres_18_passes_all_of_these_tests() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--skip", "postgres_18"])
        .env(EIGHTEEN, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && !text.contains("ok. 0 passed"),
        "{text}"
    );
}

/// A database, and a backend over it as an account of its own that may read `app`.
struct Shop {
    server: &'static Server,
    database: String,
    backend: PostgresBackend,
}

impl Shop {
    async fn new(label: &str) -> Self {
        Self::with(label, |config| config).await
    }

    async fn with(label: &str, configure: impl FnOnce(PostgresConfig) -> PostgresConfig) -> Self {
        let server = shared();
        let database = server.fresh_database(label).unwrap();
        let script = format!(
            "{SHOP} CREATE ROLE agent_{database} LOGIN;
             GRANT USAGE ON SCHEMA app TO agent_{database}; GRANT SELECT ON ALL TABLES IN SCHEMA app TO agent_{database};"
        );
        server.load(&database, &script).unwrap().clean().unwrap();
        let url = server.url_as(&format!("agent_{database}"), &database);
        let config = configure(PostgresConfig::from_url(&url).unwrap());
        Self {
            server,
            backend: PostgresBackend::connect(config).await.unwrap(),
            database,
        }
    }

    /// The same database as the superuser sees it.
    async fn superuser(&self) -> Self {
        let url = self.server.url(&self.database);
        let config = PostgresConfig::from_url(&url).unwrap().accept_superuser();
        Self {
            server: self.server,
            database: self.database.clone(),
            backend: PostgresBackend::connect(config).await.unwrap(),
        }
    }

    /// What the superuser's client prints.
    fn ask(&self, sql: &str) -> String {
        self.server.query(&self.database, sql).unwrap()
    }

    fn query(&self, sql: &str) -> Query {
        Query {
            backend: self.backend.clone(),
            sql: sql.to_owned(),
            params: Vec::new(),
            reads: [
                "users.id",
                "users.name",
                "names.id",
                "names.name",
                "cached.id",
            ]
            .iter()
            .map(|pair| pair.split_once('.').unwrap())
            .map(|(table, column)| (table.to_owned(), column.to_owned()))
            .collect(),
            relations: ["app.users", "app.names", "app.cached"]
                .map(str::to_owned)
                .to_vec(),
            functions: BTreeSet::new(),
            limits: Limits::default(),
            principal: Principal::new("Agent", "a"),
            kind: Kind::Read,
        }
    }

    /// Sessions of our backends that do something, as the server sees it.
    fn busy(&self) -> String {
        self.ask(&format!(
            "SELECT string_agg(query, ';') FROM pg_stat_activity
             WHERE datname = '{}' AND application_name = 'palisade' AND state <> 'idle'",
            self.database
        ))
    }
}

#[derive(Clone)]
struct Query {
    backend: PostgresBackend,
    sql: String,
    params: Vec<Value>,
    reads: BTreeSet<(String, String)>,
    relations: Vec<String>,
    functions: BTreeSet<String>,
    limits: Limits,
    principal: Principal,
    kind: Kind,
}

/// What a statement is decided to be.
#[derive(Clone)]
enum Kind {
    Read,
    Explain,
    Change {
        writes: BTreeSet<(Change, String, String)>,
        triggers: BTreeSet<String>,
        max_affected: u64,
    },
    Define,
}

impl Query {
    fn work(&self) -> Work<'_> {
        match &self.kind {
            Kind::Read => Work::Read,
            Kind::Explain => Work::Explain,
            Kind::Change {
                writes,
                triggers,
                max_affected,
            } => Work::Change(Changes {
                facts: &[],
                writes,
                triggers,
                max_affected: *max_affected,
                body: None,
            }),
            Kind::Define => Work::Define,
        }
    }

    fn params(mut self, params: impl IntoIterator<Item = Value>) -> Self {
        self.params = params.into_iter().collect();
        self
    }

    fn within_ms(mut self, ms: u64) -> Self {
        self.limits.statement_timeout_ms = ms;
        self
    }

    /// With rows in more batches than one.
    fn up_to(mut self, rows: u64) -> Self {
        self.limits.max_rows = rows;
        self
    }
}

impl Ask for Query {
    fn text(&self) -> &str {
        &self.sql
    }

    async fn run_into(&self, rows: &mut Rows) -> Result<(), BackendError> {
        let task = Task {
            checks: danger::checks(&RawParts {
                estimates: Estimates {
                    caps: self.limits.estimate_caps(),
                    awaiting: None,
                },
                ..RawParts::from_sql(&self.sql)
            }),
            params: &self.params,
            reads: &self.reads,
            relations: &self.relations,
            functions: &self.functions,
            limits: &self.limits,
            principal: &self.principal,
            gathers: false,
            text_facts: None,
            reads_past: false,
            cancel: &palisade::guard::Cancel::default(),
            work: self.work(),
        };
        rows.affected = self.backend.run(&task, rows).await?.affected;
        Ok(())
    }
}
