//! A decision that is wrong, and the engine's second opinion.

use std::{
    collections::BTreeSet,
    pin::pin,
    task::{Context, Waker},
};

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    guard::{Backend, BackendError, Completion, Introspect, RowSink},
    rewrite::{Effect, RewrittenStatement},
};
use palisade_testkit::ask::wrong_decisions_are_incidents;

use super::Shop;
use crate::{SqliteBackend, execute::Task, write::Changes};

/// A backend that takes every decision for one that permits nothing.
struct Planted(SqliteBackend);

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
        let task = Task {
            reads: &reads,
            ..Task::from(statement)
        };
        let changes = Changes {
            writes: &writes,
            ..Changes::from(statement)
        };
        match statement.effect() {
            Effect::Write => self.0.write_now(&task, &changes, sink),
            Effect::Read | Effect::Explain | Effect::Define => self
                .0
                .execute_now(&task, sink)
                .map(|()| Completion::default()),
        }
    }
}

#[test]
fn wrong_decisions_are_caught() {
    let shop = Shop::new();
    let backend = SqliteBackend::open_file(shop.path(), "shop").unwrap();
    let statements = [
        "SELECT id, ssn FROM users",
        "SELECT label FROM named",
        "INSERT INTO bare (x) VALUES (5)",
        "UPDATE users SET name = 'x' WHERE id = 1",
        "DELETE FROM users WHERE id = 1",
    ];
    let contents = || format!("{:x?}", std::fs::read(shop.path()).unwrap());
    let planted = Planted(backend.writable());
    let checked = pin!(wrong_decisions_are_incidents(
        planted,
        &statements,
        contents
    ));
    // SQLite answers at once.
    assert!(
        checked
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
}
