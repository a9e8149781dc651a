//! A decision that is wrong, and the engine's second opinion.

use std::collections::BTreeSet;

use palisade::guard::{BackendError, Completion, RowSink, Ticket};
use palisade_testkit::{
    ask::{Misled, wrong_decisions_are_incidents},
    servers::{MySqlServer, Server},
};

use palisade_pool::{Changes, Task, Work};

use super::Shop;
use crate::{MysqlBackend, MysqlConfig};

impl Misled for MysqlBackend {
    async fn execute_misled(
        &self,
        ticket: Ticket,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<Completion, BackendError> {
        let ticket = ticket.open(self.catalog())?;
        let (reads, writes) = (BTreeSet::new(), BTreeSet::new());
        let work = match Work::from(&ticket) {
            Work::Change(changes) => Work::Change(Changes {
                writes: &writes,
                ..changes
            }),
            other => other,
        };
        let task = Task {
            reads: &reads,
            work,
            ..Task::from(&ticket)
        };
        self.run(&task, sink).await
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
    wrong_decisions_are_incidents(backend, &statements, contents).await;
}

#[tokio::test]
async fn wrong_decisions_are_caught() {
    planted(&Shop::new("planted").await).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn wrong_decisions_are_caught_on_mysql_9() {
    let server: &Server = MySqlServer::start_shared().unwrap();
    planted(&Shop::on(server, "planted", |config| config).await).await;
}
