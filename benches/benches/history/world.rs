//! A database whose table `things` gets a history, beside the same table `plain` without one, and a `small` one.

use std::{cell::RefCell, sync::Arc};

use mysql_async::prelude::Queryable as _;
use palisade::{
    audit::NoAudit,
    change::ChangeStore,
    dialect::Dialect,
    firewall::Firewall,
    guard::{Backend, Guard},
    limits::Limits,
    past::LabelStore,
    session::{Principal, Session},
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_sqlite::SqliteBackend;
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{
    fixture::policy_sources,
    host::Ticking,
    servers::{MariaDbServer, PostgresServer, Server},
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// Rows of the table whose changes are looked at.
const SMALL: u32 = 10_000;

/// A database, its gate, and the bare driver beside it.
pub(crate) struct World {
    pub(crate) engine: &'static str,
    pub(crate) guard: Guard,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) session: Session,
    driver: Driver,
    script: Script,
}

/// The bare driver.
enum Driver {
    Sqlite(rusqlite::Connection),
    Postgres(Runtime, tokio_postgres::Client),
    Mysql(Runtime, RefCell<mysql_async::Conn>),
}

/// What runs scripts of several statements.
enum Script {
    Driver(TempDir),
    Server(&'static Server, String),
}

impl World {
    /// One whose tables have so many rows.
    pub(crate) async fn new(engine: &'static str, rows: u32) -> Self {
        let script = |series: &dyn Fn(u32) -> String| {
            let table = |name: &str, rows: u32| {
                format!(
                    "CREATE TABLE {name} (id integer NOT NULL PRIMARY KEY, tenant integer NOT NULL, name varchar(20) NOT NULL, total integer NOT NULL);\n\
                     INSERT INTO {name} SELECT n, n % 10, 'a name of a thing', n FROM {};\n",
                    series(rows)
                )
            };
            [("things", rows), ("plain", rows), ("small", SMALL)]
                .map(|(name, rows)| table(name, rows))
                .concat()
        };
        let (backend, driver, script): (Arc<dyn Backend>, Driver, Script) = match engine {
            "sqlite" => {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("main.db");
                let driver = rusqlite::Connection::open(&path).unwrap();
                driver
                    .busy_timeout(std::time::Duration::from_secs(5))
                    .unwrap();
                let series = |rows| {
                    format!(
                        "(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s) s"
                    )
                };
                let tables = script(&series);
                driver
                    .execute_batch(&format!("PRAGMA journal_mode = wal; {tables}"))
                    .unwrap();
                let backend = SqliteBackend::open_file(&path, "main").unwrap().writable();
                (
                    Arc::new(backend),
                    Driver::Sqlite(driver),
                    Script::Driver(folder),
                )
            }
            "postgres" => {
                let server = PostgresServer::start_shared().unwrap();
                let database = server.fresh_database("history").unwrap();
                let tables = script(&|rows| format!("generate_series(1, {rows}) s (n)"));
                // As servers have it, and those of tests have not: a moment waits for the log.
                let tables =
                    format!("ALTER DATABASE {database} SET synchronous_commit = on;\n{tables}");
                server.load(&database, &tables).unwrap().clean().unwrap();
                let url = server.url(&database);
                let config = PostgresConfig::from_url(&url).unwrap().accept_superuser();
                let backend = PostgresBackend::connect(config.writable()).await.unwrap();
                let runtime = start_runtime();
                let client = runtime
                    .spawn(async move { palisade_postgres::connect(&url).await.unwrap() })
                    .await
                    .unwrap();
                (
                    Arc::new(backend),
                    Driver::Postgres(runtime, client),
                    Script::Server(server, database),
                )
            }
            "mariadb" => {
                let server = MariaDbServer::start_shared().unwrap();
                let database = server.fresh_database("history").unwrap();
                let tables = script(&|rows| format!("(SELECT seq AS n FROM seq_1_to_{rows}) s"));
                // As servers have it, and those of tests have not: without it there are no moments.
                let tables = format!("SET GLOBAL innodb_flush_log_at_trx_commit = 1;\n{tables}");
                server.load(&database, &tables).unwrap().clean().unwrap();
                let url = server.url(&database);
                let config = MysqlConfig::from_url(&url).unwrap().accept_powerful();
                let backend = MysqlBackend::connect(config.writable()).await.unwrap();
                let runtime = start_runtime();
                let conn = runtime
                    .spawn(async move {
                        let options = mysql_async::Opts::from_url(&url).unwrap();
                        mysql_async::Conn::new(options).await.unwrap()
                    })
                    .await
                    .unwrap();
                (
                    Arc::new(backend),
                    Driver::Mysql(runtime, RefCell::new(conn)),
                    Script::Server(server, database),
                )
            }
            other => panic!("there is no engine {other}"),
        };
        let (guard, session) = Self::open(&backend);
        Self {
            engine,
            guard,
            backend,
            session,
            driver,
            script,
        }
    }

    /// Opens the database anew, once its tables have a history.
    pub(crate) async fn reopen(&mut self) {
        let url = || match &self.script {
            Script::Server(server, database) => server.url(database),
            Script::Driver(folder) => folder.path().join("main.db").display().to_string(),
        };
        self.backend = match self.dialect() {
            Dialect::Sqlite => {
                let backend = SqliteBackend::open_file(std::path::Path::new(&url()), "main");
                Arc::new(backend.unwrap().writable())
            }
            Dialect::Postgres => {
                let config = PostgresConfig::from_url(&url()).unwrap().accept_superuser();
                Arc::new(PostgresBackend::connect(config.writable()).await.unwrap())
            }
            Dialect::Mysql => {
                let config = MysqlConfig::from_url(&url()).unwrap().accept_powerful();
                Arc::new(MysqlBackend::connect(config.writable()).await.unwrap())
            }
        };
        (self.guard, self.session) = Self::open(&self.backend);
    }

    /// A gate that permits everything, and who asks.
    fn open(backend: &Arc<dyn Backend>) -> (Guard, Session) {
        let policies = policy_sources("permit (principal, action, resource);");
        let limits = Limits {
            max_affected_rows: 1_000_000,
            statement_timeout_ms: 60_000,
            ..Limits::default()
        };
        let firewall = Firewall::builder(backend.catalog().clone(), policies);
        let firewall = firewall.allow_changes().limits(limits).build().unwrap();
        let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
        let guard = Guard::over(
            Arc::new(firewall),
            Arc::clone(backend),
            Arc::new(Ticking::default()),
            Arc::new(NoAudit),
        );
        let guard = guard
            .with_labels(Arc::clone(&store) as Arc<dyn LabelStore>)
            .with_changes(store as Arc<dyn ChangeStore>);
        (guard, Session::new(Principal::new("Agent", "bench")))
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.backend.dialect()
    }

    /// A table's name where it is the only one by that.
    pub(crate) fn name(&self, table: &str) -> String {
        match (&self.script, self.dialect()) {
            (Script::Server(_, database), Dialect::Mysql) => format!("{database}.{table}"),
            (Script::Server(_, _) | Script::Driver(_), _) => table.to_owned(),
        }
    }

    /// Whether a schema is that of the tables.
    pub(crate) fn is_own(&self, schema: &str) -> bool {
        match (&self.script, self.dialect()) {
            (Script::Server(_, database), Dialect::Mysql) => database == schema,
            (Script::Server(_, _) | Script::Driver(_), _) => true,
        }
    }

    pub(crate) async fn snapshot(&self, name: &str) {
        let taken = self.guard.create_snapshot(name, &self.session).await;
        taken.unwrap_or_else(|why| panic!("{why:?}"));
    }

    /// Runs a script of the owner's.
    pub(crate) fn run(&self, sql: &str) {
        match (&self.script, &self.driver) {
            (Script::Server(server, database), _) => {
                server.load(database, sql).unwrap().clean().unwrap();
            }
            (Script::Driver(_), Driver::Sqlite(driver)) => driver.execute_batch(sql).unwrap(),
            (Script::Driver(_), Driver::Postgres(_, _) | Driver::Mysql(_, _)) => {
                panic!("servers have scripts")
            }
        }
    }

    /// Runs a statement by the bare driver.
    pub(crate) fn write(&self, sql: &str) {
        match &self.driver {
            Driver::Sqlite(driver) => {
                driver.execute(sql, []).unwrap();
            }
            Driver::Postgres(runtime, client) => {
                runtime.block_on(client.execute(sql, &[])).unwrap();
            }
            Driver::Mysql(runtime, conn) => {
                let mut conn = conn.borrow_mut();
                runtime.block_on(conn.query_drop(sql)).unwrap();
            }
        }
    }

    /// Reads all rows of a query by the bare driver, prepared as the firewall prepares it.
    pub(crate) fn read(&self, sql: &str) {
        match &self.driver {
            Driver::Sqlite(driver) => {
                let mut statement = driver.prepare(sql).unwrap();
                let mut rows = statement.query([]).unwrap();
                while rows.next().unwrap().is_some() {}
            }
            Driver::Postgres(runtime, client) => {
                runtime.block_on(client.query(sql, &[])).unwrap();
            }
            Driver::Mysql(runtime, conn) => {
                let mut conn = conn.borrow_mut();
                let _: Vec<mysql_async::Row> = runtime.block_on(conn.query(sql)).unwrap();
            }
        }
    }
}

/// One whose connections go on by themselves.
fn start_runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}
