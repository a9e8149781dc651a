//! A database of a world behind a gate.

use std::{cell::Cell, path::Path, sync::Arc};

use palisade::{
    audit::NoAudit,
    catalog::Catalog,
    change::ChangeStore,
    code::Code,
    dialect::Dialect,
    firewall::{Decision, Firewall},
    guard::{Backend, Guard, Preview},
    limits::Limits,
    policy::PolicySources,
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::{Principal, Session},
    token::TokenSecret,
    value::Params,
};
use palisade_sqlite::{SqliteBackend, create_database};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::host::Still;
use tempfile::TempDir;

use crate::{
    database::TestDatabase,
    worlds::{
        bare::{Bare, MysqlSession, PostgresSession, SqliteFile},
        cells,
        grammar::Statement,
        tokens::{Spoken, Tokens},
        world::{Level, Row, World},
    },
};

/// Everything may be done.
pub(crate) const EVERYTHING: &str = "permit(principal, action, resource);";

/// A database behind a gate, and without one.
pub(crate) struct Stand<D> {
    pub(crate) guard: Guard,
    pub(crate) bare: D,
    /// The tokens of its rows, as they were read at first.
    pub(crate) tokens: Tokens,
    /// The schema of its tables, which can be the database's own name.
    schema: String,
}

/// Which policies a stand has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policies {
    /// The world's.
    World,
    /// Everything is permitted.
    Everything,
}

impl<D: Bare> Stand<D> {
    fn new(backend: impl Backend, bare: D, policies: String, schema: &str) -> Self {
        let firewall = firewall(backend.catalog(), sources(policies));
        let guard = Guard::new(
            Arc::new(firewall),
            backend,
            Arc::new(Still),
            Arc::new(NoAudit),
        );
        Self {
            guard,
            bare,
            tokens: Tokens::default(),
            schema: schema.to_owned(),
        }
    }

    /// Reads the tokens of all rows that may be seen.
    async fn acquainted(mut self, world: &World) -> Self {
        for (index, table) in world.tables.iter().enumerate() {
            let tokens: Vec<usize> = (0..table.columns.len())
                .filter(|at| matches!(table.columns[*at].level, Level::Token(_)))
                .collect();
            if tokens.is_empty() || !table.selectable {
                continue;
            }
            let query = format!("SELECT * FROM {} ORDER BY id", table.name);
            let answer = self.ask(&query, &Params::None).await;
            for row in answer["rows"].as_array().expect(&query) {
                for at in &tokens {
                    if let Some(token) = row[table.columns[*at].name].as_str() {
                        let place = (index, *at, row["id"].as_i64().unwrap());
                        self.tokens.0.insert(place, token.to_owned());
                    }
                }
            }
        }
        self
    }

    /// What this session writes where it says `statement`.
    pub(crate) fn spoken(&self, statement: &Statement) -> Spoken {
        let dialect = self.guard.firewall().catalog().dialect();
        statement.spoken(&self.tokens, dialect)
    }

    /// What an agent gets: the envelope or the refusal, rows in a fixed order, for theirs is no part of the
    /// promise.
    pub(crate) async fn answer(&self, statement: &Statement) -> serde_json::Value {
        let spoken = self.spoken(statement);
        self.ask(&spoken.sql, &spoken.params()).await
    }

    async fn ask(&self, sql: &str, params: &Params) -> serde_json::Value {
        self.told(sql, params, &session()).await
    }

    /// What `session` gets, rows in a fixed order.
    pub(crate) async fn told(
        &self,
        sql: &str,
        params: &Params,
        session: &Session,
    ) -> serde_json::Value {
        let mut answer = match self.guard.execute(sql, params, session).await.into_result() {
            Ok(envelope) => serde_json::to_value(&envelope).unwrap(),
            Err(refusal) => self.refused(&refusal.rejection),
        };
        if let Some(rows) = answer.get_mut("rows").and_then(|rows| rows.as_array_mut()) {
            rows.sort_by_key(ToString::to_string);
        }
        answer
    }

    /// What an agent is told of a refusal.
    pub(crate) fn refused(&self, rejection: &Rejection) -> serde_json::Value {
        let mut told = serde_json::to_value(rejection.for_agent()).unwrap();
        if let Some(message) = told["message"].as_str() {
            told["message"] = alike(&message.replace(&self.schema, "schema")).into();
        }
        if rejection.code() == Code::Internal {
            // A fault of ours: why is for whoever sees the test fail.
            told["detail"] = rejection.operator_detail().into();
        }
        told
    }

    /// What is told of a difference, cell by cell in a fixed order.
    pub(crate) fn describe_preview(&self, preview: &Preview) -> serde_json::Value {
        let Preview {
            rows,
            row_counts,
            counted,
            lock_held_ms: _,
            generated,
        } = preview;
        let mut shown = serde_json::to_value(rows).unwrap();
        if let Some(rows) = shown["rows"].as_array_mut() {
            rows.sort_by_key(ToString::to_string);
        }
        shown["row_counts"] = serde_json::to_value(row_counts).unwrap();
        shown["counted"] = serde_json::to_value(counted).unwrap();
        shown["generated"] = serde_json::to_value(generated).unwrap();
        self.alike(&shown)
    }

    /// The same with one name for the schemas of all worlds.
    pub(crate) fn alike(&self, told: &serde_json::Value) -> serde_json::Value {
        let told = alike(&told.to_string().replace(&self.schema, "schema"));
        serde_json::from_str(&told).unwrap()
    }

    /// The same with changes in steps, and moments.
    pub(crate) fn in_steps(self) -> Self {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        let store = Arc::new(store);
        let changes = Arc::clone(&store) as Arc<dyn ChangeStore>;
        Self {
            guard: self.guard.with_changes(changes).with_labels(store),
            ..self
        }
    }

    /// What would be run, or why nothing is.
    pub(crate) fn rewritten(&self, statement: &Statement) -> Result<RewrittenStatement, String> {
        let firewall = self.guard.firewall();
        let spoken = self.spoken(statement);
        match firewall
            .check(&spoken.sql, &spoken.params(), &session())
            .unwrap()
        {
            Decision::Allow(statement) => Ok(*statement),
            Decision::Reject(why) => Err(why.to_string()),
        }
    }

    /// What would be run if policies were others, or why nothing is.
    pub(crate) fn rewritten_under(
        &self,
        policies: String,
        statement: &Statement,
    ) -> Result<RewrittenStatement, String> {
        let firewall = firewall(self.guard.firewall().catalog(), sources(policies));
        let spoken = self.spoken(statement);
        match firewall
            .check(&spoken.sql, &spoken.params(), &session())
            .unwrap()
        {
            Decision::Allow(statement) => Ok(*statement),
            Decision::Reject(why) => Err(why.to_string()),
        }
    }

    /// The schema of its tables.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// What the tables hold, sorted.
    pub(crate) async fn contents(&mut self, world: &World) -> Vec<Vec<Row>> {
        let mut out = Vec::new();
        for table in &world.tables {
            let query = format!("SELECT * FROM {}", table.name);
            let printed = self.bare.run(&query).await.unwrap();
            let mut rows: Vec<Row> = printed
                .rows
                .iter()
                .map(|row| {
                    let cells = table.columns.iter().zip(row);
                    cells
                        .map(|(column, cell)| cells::Cell::read(column.kind, cell.as_deref()))
                        .collect()
                })
                .collect();
            rows.sort();
            out.push(rows);
        }
        out
    }
}

fn sources(policies: String) -> PolicySources {
    PolicySources {
        secret: Some(TokenSecret::new("a secret of at least thirty-two bytes")),
        ..PolicySources::from_cedar("promise.cedar", policies)
    }
}

fn firewall(catalog: &Catalog, sources: PolicySources) -> Firewall {
    let limits = Limits {
        statement_timeout_ms: 20_000,
        max_failures: u32::MAX,
        ..Limits::default()
    };
    Firewall::builder(catalog.clone(), sources)
        .limits(limits)
        .allow_changes()
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

impl Policies {
    async fn acquainted<D: Bare>(self, stand: Stand<D>, world: &World) -> Stand<D> {
        match self {
            Self::World => stand.acquainted(world).await,
            Self::Everything => stand,
        }
    }

    fn text(self, world: &World, schema: &str) -> String {
        match self {
            Self::World => world.policies(schema),
            Self::Everything => EVERYTHING.to_owned(),
        }
    }
}

/// Where databases stand.
pub(crate) trait Engine {
    const DIALECT: Dialect;
    type Bare: Bare;

    /// A new database that `script` makes and `fill` fills again, behind the policies that `policies` says over its schema.
    async fn stand_of(
        &self,
        script: &str,
        fill: Vec<String>,
        policies: impl FnOnce(&str) -> String,
    ) -> Stand<Self::Bare>;

    /// A new database with the rows of one of the databases of `world`.
    async fn stand(&self, world: &World, database: usize, policies: Policies) -> Stand<Self::Bare> {
        let (script, fill) = (script(world, database), world.fill(database));
        let stand = self
            .stand_of(&script, fill, |schema| policies.text(world, schema))
            .await;
        policies.acquainted(stand, world).await
    }
}

/// SQLite files.
pub(crate) struct Sqlite {
    folder: TempDir,
    count: Cell<u32>,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        // In memory, where there is such a folder: each change is one of a file.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        Self {
            folder: folder.unwrap(),
            count: Cell::new(0),
        }
    }
}

impl Engine for Sqlite {
    const DIALECT: Dialect = Dialect::Sqlite;
    type Bare = SqliteFile;

    async fn stand_of(
        &self,
        script: &str,
        _fill: Vec<String>,
        policies: impl FnOnce(&str) -> String,
    ) -> Stand<SqliteFile> {
        self.count.set(self.count.get() + 1);
        let path = self.folder.path().join(format!("{}.db", self.count.get()));
        create_database(&path, script).unwrap();
        let backend = SqliteBackend::open_file(&path, "main").unwrap().writable();
        Stand::new(backend, SqliteFile::new(path), policies("main"), "main")
    }
}

/// The server that the tests share.
pub(crate) struct Postgres;

impl Engine for Postgres {
    const DIALECT: Dialect = Dialect::Postgres;
    type Bare = PostgresSession;

    async fn stand_of(
        &self,
        script: &str,
        fill: Vec<String>,
        policies: impl FnOnce(&str) -> String,
    ) -> Stand<PostgresSession> {
        let database = TestDatabase::postgres("worlds", "");
        let client = database.postgres_client().await;
        client.batch_execute(script).await.unwrap();
        // Without ANALYZE the plans over both databases are the same: one that never looks at a row that may be
        // seen does not fail on it, and which plan it is, is no part of the promise.
        let backend = database.postgres_backend().await;
        let bare = PostgresSession { client, fill };
        Stand::new(backend, bare, policies("public"), "public")
    }
}

/// The server that the tests share.
pub(crate) struct MariaDb;

impl Engine for MariaDb {
    const DIALECT: Dialect = Dialect::Mysql;
    type Bare = MysqlSession;

    async fn stand_of(
        &self,
        script: &str,
        fill: Vec<String>,
        policies: impl FnOnce(&str) -> String,
    ) -> Stand<MysqlSession> {
        let database = TestDatabase::mariadb("worlds", script);
        // Counts rows that were found, as ours do, and not those that became others.
        let options = mysql_async::Opts::from_url(&database.url()).unwrap();
        let options = mysql_async::OptsBuilder::from_opts(options).client_found_rows(true);
        let conn = mysql_async::Conn::new(options).await.unwrap();
        let backend = database.mysql_backend().await;
        let name = database.name();
        let bare = MysqlSession {
            conn,
            fill,
            database: name.to_owned(),
        };
        Stand::new(backend, bare, policies(name), name)
    }
}

/// A message in which all databases of worlds on one server have one name: one may be hinted at in another.
fn alike(message: &str) -> String {
    let mut parts = message.split("worlds_");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |message, part| {
        message + "schema" + part.trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

fn script(world: &World, database: usize) -> String {
    let mut statements = world.schema();
    statements.extend(world.fill(database));
    format!("{};", statements.join(";\n"))
}

pub(crate) fn session() -> Session {
    Session::new(Principal::new("Agent", "a"))
}
