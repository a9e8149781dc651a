//! A decision that is wrong, and the engine's second opinion.

use std::collections::BTreeSet;

use palisade::{
    guard::{BackendError, Completion, RowSink, Ticket},
    rewrite::Effect,
};
use palisade_testkit::ask::{Misled, wrong_decisions_are_incidents};

use super::Shop;
use crate::{SqliteBackend, execute::Task, write::Changes};

impl Misled for SqliteBackend {
    async fn execute_misled(
        &self,
        ticket: Ticket,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<Completion, BackendError> {
        let ticket = ticket.open(self.catalog())?;
        let (reads, writes) = (BTreeSet::new(), BTreeSet::new());
        let task = Task {
            reads: &reads,
            ..Task::from(&ticket)
        };
        let changes = Changes {
            writes: &writes,
            ..Changes::from(&ticket)
        };
        match ticket.statement().effect() {
            Effect::Write => self.write_now(&task, &changes, sink),
            Effect::Read | Effect::Explain | Effect::Define | Effect::Nothing => {
                self.read_now(&task, sink).map(|()| Completion::default())
            }
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
    let planted = backend.writable();
    pollster::block_on(wrong_decisions_are_incidents(
        planted,
        &statements,
        contents,
    ));
}
