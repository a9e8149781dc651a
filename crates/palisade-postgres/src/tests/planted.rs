//! A decision that is wrong, and the engine's second opinion.

use std::collections::BTreeSet;

use palisade::guard::{BackendError, Completion, RowSink, Ticket};
use palisade_testkit::ask::{Misled, wrong_decisions_are_incidents};

use palisade_pool::{Changes, Task, Work};

use super::Shop;
use crate::{PostgresBackend, PostgresConfig};

impl Misled for PostgresBackend {
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

#[tokio::test]
async fn wrong_decisions_are_caught() {
    let shop = Shop::new("planted").await;
    let url = shop.server.url(&shop.database);
    let config = PostgresConfig::from_url(&url).unwrap();
    let backend = PostgresBackend::connect(config.accept_superuser().writable())
        .await
        .unwrap();
    let statements = [
        "SELECT id, ssn FROM app.users",
        "SELECT n.name FROM app.names AS n JOIN hr.users AS u ON u.id = n.id",
        "INSERT INTO app.users (id) VALUES (5)",
        "UPDATE app.users SET name = 'x' WHERE id = 1",
        "DELETE FROM app.users WHERE id = 1",
    ];
    let contents = || shop.ask("TABLE app.users ORDER BY id");
    wrong_decisions_are_incidents(backend, &statements, contents).await;
}
