//! Decides and runs nothing: what would be run in place of a statement, or why it is refused.
//!
//! ```sh
//! cargo run --package palisade-examples --bin decide-only -- 'SELECT name, ssn FROM customers'
//! ```

use std::error::Error;

use palisade::{Decision, Params, Principal, Session};

fn main() -> Result<(), Box<dyn Error>> {
    let sql = std::env::args().nth(1).ok_or("usage: decide-only SQL")?;
    let catalog = palisade_sqlite::catalog_from_ddl(palisade_examples::SCHEMA, "main")?;
    let firewall = palisade_examples::firewall(catalog)?;
    let session = Session::new(Principal::new("Agent", "support-bot"));
    match firewall.check(&sql, &Params::None, &session)? {
        Decision::Allow(statement) => println!("{}", statement.sql().unwrap_or("no plain read")),
        Decision::Reject(why) => {
            println!("{}", serde_json::to_string(&why.for_agent())?);
            palisade_examples::tell_operator(&why.into());
        }
    }
    Ok(())
}
