//! Each lock alone, against real servers: statements come as if the firewall had permitted them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod locks;
mod mistakes;
mod owned;
mod planted;
mod pool;
mod schema_change;
mod values;
mod weaknesses;
mod write;

use std::collections::BTreeSet;

use palisade::{
    catalog::Change,
    danger::{self, RawParts},
    guard::{BackendError, Estimates},
    limits::Limits,
    rewrite::{ChangeFacts, ChangeKind, TextFacts},
    session::Principal,
    value::Value,
};
use palisade_pool::{Changes, Task, Work};
use palisade_testkit::{
    ask::Ask,
    rows::Rows,
    servers::{MariaDbServer, Server},
};

use crate::{MysqlBackend, MysqlConfig};

const SHOP: &str = "
    CREATE TABLE users (id int PRIMARY KEY, name varchar(20), ssn varchar(20));
    CREATE VIEW names AS SELECT id, name, ssn FROM users;
    INSERT INTO users VALUES (1, 'ann', '1-1'), (2, 'bob', '2-2');
    CREATE TABLE loose (a int) ENGINE=MyISAM;
    CREATE TABLE secrets (ssn varchar(20));
    CREATE FUNCTION writes() RETURNS int DETERMINISTIC MODIFIES SQL DATA
        BEGIN INSERT INTO users VALUES (3, 'eve', ''); RETURN 1; END//
    CREATE FUNCTION twice(x int) RETURNS int DETERMINISTIC RETURN 2 * x//
    CREATE PROCEDURE act() DELETE FROM users//
";

/// A database, and a backend over it as an account of its own that may read it.
struct Shop {
    server: &'static Server,
    database: String,
    /// A database that the account may not read.
    other: String,
    backend: MysqlBackend,
}

impl Shop {
    async fn new(label: &str) -> Self {
        Self::with(label, |config| config).await
    }

    async fn with(label: &str, configure: impl FnOnce(MysqlConfig) -> MysqlConfig) -> Self {
        Self::on(MariaDbServer::start_shared().unwrap(), label, configure).await
    }

    async fn on(
        server: &'static Server,
        label: &str,
        configure: impl FnOnce(MysqlConfig) -> MysqlConfig,
    ) -> Self {
        let database = server.fresh_database(label).unwrap();
        let other = server.fresh_database("hr").unwrap();
        let (plain, routines) = SHOP.split_once("CREATE FUNCTION").unwrap();
        let agent = format!("agent_{database}@'127.0.0.1'");
        let script = format!(
            "{plain} DELIMITER //\nCREATE FUNCTION{routines}\nDELIMITER ;
             CREATE TABLE `{other}`.users (id int, ssn varchar(20)); INSERT INTO `{other}`.users VALUES (1, '9-9');
             CREATE USER {agent}; GRANT SELECT, SHOW VIEW, EXECUTE ON `{database}`.* TO {agent};"
        );
        server.load(&database, &script).unwrap().clean().unwrap();
        let url = server.url_as(&format!("agent_{database}"), &database);
        let config = configure(MysqlConfig::from_url(&url).unwrap());
        Self {
            server,
            backend: MysqlBackend::connect(config).await.unwrap(),
            database,
            other,
        }
    }

    /// The same database as the superuser sees it.
    async fn superuser(&self) -> Self {
        let url = self.server.url(&self.database);
        let config = MysqlConfig::from_url(&url).unwrap().accept_powerful();
        Self {
            server: self.server,
            database: self.database.clone(),
            other: self.other.clone(),
            backend: MysqlBackend::connect(config).await.unwrap(),
        }
    }

    /// What the superuser's client prints.
    fn ask(&self, sql: &str) -> String {
        self.server.query(&self.database, sql).unwrap()
    }

    fn query(&self, sql: &str) -> Query {
        let database = &self.database;
        Query {
            backend: self.backend.clone(),
            sql: sql.to_owned(),
            params: Vec::new(),
            reads: ["users.id", "users.name", "names.id", "names.name"]
                .iter()
                .map(|pair| pair.split_once('.').unwrap())
                .map(|(table, column)| (table.to_owned(), column.to_owned()))
                .collect(),
            relations: ["users", "names"]
                .map(|name| format!("{database}.{name}"))
                .to_vec(),
            limits: Limits::default(),
            text_facts: TextFacts::default(),
            kind: Kind::Read,
        }
    }

    /// A change of `table` that is nothing but that.
    fn facts(&self, kind: ChangeKind, table: &str) -> ChangeFacts {
        let catalog = self.backend.catalog();
        ChangeFacts {
            kind,
            relation: catalog.find(&self.database, table).unwrap().id,
            is_joined: false,
            ignores_errors: false,
            meets_rows: false,
        }
    }

    /// Statements that the account's sessions are working on.
    fn busy(&self) -> String {
        self.ask(&format!(
            "SELECT COALESCE(GROUP_CONCAT(info), '') FROM information_schema.PROCESSLIST
             WHERE user = 'agent_{}' AND command <> 'Sleep'",
            self.database
        ))
    }

    /// The account's sessions.
    fn sessions(&self) -> usize {
        self.ask(&format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE user = 'agent_{}'",
            self.database
        ))
        .parse()
        .unwrap()
    }
}

#[derive(Clone)]
struct Query {
    backend: MysqlBackend,
    sql: String,
    params: Vec<Value>,
    reads: BTreeSet<(String, String)>,
    relations: Vec<String>,
    limits: Limits,
    text_facts: TextFacts,
    kind: Kind,
}

/// No triggers, no functions.
static NONE: BTreeSet<String> = BTreeSet::new();

/// What a statement is decided to be.
#[derive(Clone)]
enum Kind {
    Read,
    Explain,
    Change {
        facts: ChangeFacts,
        writes: BTreeSet<(Change, String, String)>,
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
                facts,
                writes,
                max_affected,
            } => Work::Change(Changes {
                facts: std::slice::from_ref(facts),
                writes,
                triggers: &NONE,
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

    /// In whose FROM these names are given.
    fn calls(mut self, aliases: &[&str]) -> Self {
        let aliases = aliases.iter().map(ToString::to_string);
        self.text_facts.aliases.extend(aliases);
        self
    }

    /// In which a query, in FROM or in WITH, is called so.
    fn derives(mut self, name: &str) -> Self {
        self.text_facts.has_derived_tables = true;
        if self.sql.starts_with("WITH ") {
            self.text_facts.expressions.insert(name.to_owned());
            return self;
        }
        self.calls(&[name])
    }

    fn within_ms(mut self, ms: u64) -> Self {
        self.limits.statement_timeout_ms = ms;
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
            functions: &NONE,
            limits: &self.limits,
            principal: &Principal::new("Agent", "test"),
            gathers: false,
            text_facts: Some(&self.text_facts),
            reads_past: false,
            cancel: &palisade::guard::Cancel::default(),
            work: self.work(),
        };
        rows.affected = self.backend.run(&task, rows).await?.affected;
        Ok(())
    }
}
