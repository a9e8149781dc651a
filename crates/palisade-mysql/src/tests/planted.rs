//! A decision that is wrong, and the engine's second opinion.

use std::collections::BTreeSet;

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    guard::{Backend, BackendError, Completion, Introspect, RowSink},
    rewrite::RewrittenStatement,
};
use palisade_testkit::{
    ask::wrong_decisions_are_incidents,
    servers::{MySqlServer, Server},
};

use super::Shop;
use crate::{
    MysqlBackend, MysqlConfig,
    execute::Task,
    write::{Changes, Work},
};

/// A backend that takes every decision for one that permits nothing.
struct Planted(MysqlBackend);

impl Introspect for Planted {
    fn catalog(&self) -> &Catalog {
        self.0.catalog()
    }

    async fn is_current(&self) -> Result<bool, BackendError> {
        self.0.is_current().await
    }

    async fn refreshed(&self) -> Result<Option<Self>, BackendError> {
        Ok(self.0.refreshed().await?.map(Self))
    }
}

impl Backend for Planted {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    async fn execute(
        &self,
        statement: &RewrittenStatement,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<Completion, BackendError> {
        let (reads, writes) = (BTreeSet::new(), BTreeSet::new());
        let work = match Work::of(statement) {
            Work::Change(changes) => Work::Change(Changes {
                writes: &writes,
                ..changes
            }),
            other => other,
        };
        let task = Task {
            reads: &reads,
            work,
            ..Task::from(statement)
        };
        self.0.run(&task, sink).await
    }
}

async fn planted(shop: &Shop) {
    let url = shop.server.url(&shop.database);
    let config = MysqlConfig::from_url(&url).unwrap();
    let backend = MysqlBackend::connect(config.accept_powerful().writable())
        .await
        .unwrap();
    let statements = [
        "SELECT id, ssn FROM users",
        "SELECT name FROM names",
        "INSERT INTO users (id) VALUES (5)",
        "UPDATE users SET name = 'x' WHERE id = 1",
        "DELETE FROM users WHERE id = 1",
    ];
    let contents = || shop.ask("SELECT * FROM users ORDER BY id");
    wrong_decisions_are_incidents(Planted(backend), &statements, contents).await;
}

#[tokio::test]
async fn wrong_decisions_are_caught() {
    planted(&Shop::new("planted").await).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn wrong_decisions_are_caught_on_mysql_9() {
    let server: &Server = MySqlServer::shared().unwrap();
    planted(&Shop::on(server, "planted", |config| config).await).await;
}
