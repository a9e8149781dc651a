//! Databases of cases on real servers: their names, and the runtime that drives connections.

use std::{future::Future, pin::Pin, sync::Arc, thread};

use palisade::{catalog::Catalog, dialect::Dialect, guard::Backend, value::Params};
use tokio::runtime::{Builder, Runtime};

use crate::{
    fixture::{Bare, Fixture},
    test_server::TestServer,
};

/// What the name of every database of tests begins with: what a killed run left can be told by it.
const PREFIX: &str = "palisade_test_";

/// Drives connections, and ends without waiting, also on a thread of another runtime.
pub(crate) struct ServerRuntime(Option<Runtime>);

impl ServerRuntime {
    pub(crate) fn start() -> Result<Arc<Self>, String> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Arc::new(Self(Some(runtime))))
    }

    /// Waits for `future`, on a thread of its own: the caller's may belong to another runtime.
    pub(crate) fn block_on<T: Send>(
        &self,
        future: impl Future<Output = T> + Send,
    ) -> Result<T, String> {
        let runtime = self.0.as_ref().ok_or("the runtime has ended")?;
        thread::scope(|scope| scope.spawn(|| runtime.block_on(future)).join())
            .map_err(|_| "what ran on the server panicked".to_owned())
    }

    /// As [`block_on`](Self::block_on), for what gives nothing back.
    pub(crate) fn wait(&self, future: Pin<Box<dyn Future<Output = ()> + Send + '_>>) {
        // A panic shows as an answer that is missing.
        let _ = self.block_on(future);
    }
}

impl Drop for ServerRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A name that no other run takes.
fn invent_name() -> String {
    let mut bytes = [0; 8];
    // Without randomness the server says that the name is taken.
    let _ = getrandom::fill(&mut bytes);
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("{PREFIX}{}", digits.collect::<String>())
}

/// What an engine does for databases of cases.
pub(crate) trait ServerEngine: Send + Sync + 'static {
    type Backend: Backend + Clone + 'static;

    /// Whether statements name the database, which has another name in every run.
    const IS_NAMED_IN_STATEMENTS: bool;

    fn catalog(backend: &Self::Backend) -> &Catalog;

    /// Makes the database `name` with the rows of `script`, and opens it.
    fn make(
        server: &TestServer,
        script: &str,
        database: (&str, bool),
    ) -> impl Future<Output = Result<Self::Backend, String>> + Send;

    fn drop(server: &TestServer, name: &str) -> impl Future<Output = ()> + Send;

    /// What the bare engine gives for `sql`.
    fn query(
        server: &TestServer,
        name: &str,
        sql: &str,
    ) -> impl Future<Output = Result<Bare, String>> + Send;

    /// Runs each of `statements` by itself: whether the engine took it.
    fn try_each(
        server: &TestServer,
        name: &str,
        statements: &[String],
    ) -> impl Future<Output = Result<Vec<bool>, String>> + Send;
}

/// A database on a server, dropped with this value.
struct ServerFixture<E: ServerEngine> {
    server: TestServer,
    script: String,
    name: String,
    backend: E::Backend,
    // Last: connections end in it.
    runtime: Arc<ServerRuntime>,
}

impl<E: ServerEngine> ServerFixture<E> {
    /// Makes a database on `server` with the rows of `script`.
    fn create(server: &TestServer, script: &str) -> Result<Self, String> {
        Self::create_in(ServerRuntime::start()?, server, script, false)
    }

    fn create_in(
        runtime: Arc<ServerRuntime>,
        server: &TestServer,
        script: &str,
        is_writable: bool,
    ) -> Result<Self, String> {
        let name = invent_name();
        let backend = runtime.block_on(E::make(server, script, (&name, is_writable)))??;
        Ok(Self {
            server: server.clone(),
            script: script.to_owned(),
            name,
            backend,
            runtime,
        })
    }
}

impl<E: ServerEngine> Drop for ServerFixture<E> {
    fn drop(&mut self) {
        // What cannot be dropped is left with a name that says whose it is.
        let _ = self.runtime.block_on(E::drop(&self.server, &self.name));
    }
}

impl<E: ServerEngine> Fixture for ServerFixture<E> {
    fn catalog(&self) -> &Catalog {
        E::catalog(&self.backend)
    }

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(self.backend.clone())
    }

    fn copy(&self) -> Result<Box<dyn Fixture>, String> {
        let runtime = Arc::clone(&self.runtime);
        let copied = Self::create_in(runtime, &self.server, &self.script, true)?;
        Ok(Box::new(copied))
    }

    fn query(&self, sql: &str, params: &Params) -> Result<Bare, String> {
        match params {
            Params::None => {}
            Params::Positional(_) | Params::Named(_) => {
                return Err(
                    "on a server, `preserve` compares statements without parameters".to_owned(),
                );
            }
        }
        self.runtime
            .block_on(E::query(&self.server, &self.name, sql))?
    }

    fn try_each(&self, statements: &[String]) -> Result<Vec<bool>, String> {
        self.runtime
            .block_on(E::try_each(&self.server, &self.name, statements))?
    }

    fn wait(&self, future: Pin<Box<dyn Future<Output = ()> + Send + '_>>) {
        self.runtime.wait(future);
    }

    fn own_name(&self) -> Option<&str> {
        E::IS_NAMED_IN_STATEMENTS.then_some(&self.name)
    }
}

/// Makes the database of a catalog on `server`, with the rows of `script`.
pub(crate) fn create(
    dialect: Dialect,
    server: &TestServer,
    script: &str,
) -> Result<Box<dyn Fixture>, String> {
    match dialect {
        Dialect::Sqlite => Err("cases of SQLite need no server".to_owned()),
        #[cfg(feature = "postgres")]
        Dialect::Postgres => ServerFixture::<crate::postgres::Postgres>::create(server, script)
            .map(|made| Box::new(made) as Box<dyn Fixture>),
        #[cfg(not(feature = "postgres"))]
        Dialect::Postgres => Err("this build runs nothing on PostgreSQL".to_owned()),
        #[cfg(feature = "mysql")]
        Dialect::Mysql => ServerFixture::<crate::mysql::Mysql>::create(server, script)
            .map(|made| Box::new(made) as Box<dyn Fixture>),
        #[cfg(not(feature = "mysql"))]
        Dialect::Mysql => Err("this build runs nothing on MySQL or MariaDB".to_owned()),
    }
}
