//! Asks for what takes a person's approval: refused at first, approved by a person, and run once.
//!
//! ```sh
//! cargo run --package palisade-examples --bin approvals -- 'SELECT name FROM customers'
//! ```

use std::{error::Error, sync::Arc};

use palisade::{
    Firewall, Guard, Params, PolicySources, Principal, Session, audit::NoAudit, host::Host,
};
use palisade_host::Machine;
use palisade_sqlite::SqliteBackend;
use palisade_state::{ApprovalOptions, ApprovalStore};

const POLICIES: &str = r#"
permit (principal, action, resource) unless { action == Action::"select" };
@id("read.customers")
@approval("required")
permit (principal, action == Action::"select", resource == Table::"main.customers");
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let sql = std::env::args().nth(1).ok_or("usage: approvals SQL")?;
    let backend = SqliteBackend::in_memory(palisade_examples::SCHEMA, "main")?;
    let policies = PolicySources::from_cedar("approvals.cedar", POLICIES);
    let firewall = Firewall::builder(backend.catalog().clone(), policies).build()?;
    let host = Arc::new(Machine::new());
    // `ApprovalStore::open` keeps requests in a file, `open_postgres` in a database.
    let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default())?);
    let guard = Guard::new(Arc::new(firewall), backend, host.clone(), Arc::new(NoAudit))
        .with_approvals(store.clone())
        .with_approval_instruction("a person opens https://desk.example/approvals/{id}");

    let session = Session::new(Principal::new("Agent", "support-bot"));
    let outcome = guard.query(&sql, &Params::None, &session).await;
    let refusal = match outcome.into_result() {
        Ok(envelope) => {
            println!("{}", envelope.delimited_text());
            return Ok(());
        }
        Err(refusal) => refusal,
    };
    println!("{}", serde_json::to_string(&refusal.for_agent())?);

    // A page of yours shows `store.list(now)` to persons, and knows who decides. The agent does not reach it.
    let pending = refusal.pending.ok_or("nothing waits")?;
    store.approve(&pending.id, host.unix_time(), "ann@desk.example", None)?;

    // The agent sends the same call again, which uses the approval up.
    let outcome = guard.query(&sql, &Params::None, &session).await;
    println!("{}", outcome.into_result()?.delimited_text());
    Ok(())
}
