//! Databases of cases on real servers: their names, and the runtime that drives connections.

use std::{future::Future, pin::Pin, sync::Arc, thread};

use palisade::dialect::Dialect;
use tokio::runtime::{Builder, Runtime};

use crate::{fixture::Fixture, test_server::TestServer};

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
pub(crate) fn invent_name() -> String {
    let mut bytes = [0; 8];
    // Without randomness the server says that the name is taken.
    let _ = getrandom::fill(&mut bytes);
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("{PREFIX}{}", digits.collect::<String>())
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
        Dialect::Postgres => crate::postgres::PostgresFixture::create(server, script)
            .map(|made| Box::new(made) as Box<dyn Fixture>),
        #[cfg(not(feature = "postgres"))]
        Dialect::Postgres => Err("this build runs nothing on PostgreSQL".to_owned()),
        #[cfg(feature = "mysql")]
        Dialect::Mysql => crate::mysql::MysqlFixture::create(server, script)
            .map(|made| Box::new(made) as Box<dyn Fixture>),
        #[cfg(not(feature = "mysql"))]
        Dialect::Mysql => Err("this build runs nothing on MySQL or MariaDB".to_owned()),
    }
}
