//! Asks the gate: it decides, runs, scans and records in one call.
//!
//! ```sh
//! cargo run --package palisade-examples --bin guard-on-sqlite -- 'SELECT name, ssn FROM customers'
//! ```

use std::error::Error;

use palisade::{Params, Principal, Session};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let sql = std::env::args()
        .nth(1)
        .ok_or("usage: guard-on-sqlite SQL")?;
    let guard = palisade_examples::guard()?;
    let session = Session::new(Principal::new("Agent", "support-bot"));
    let outcome = guard.query(&sql, &Params::None, &session).await;
    match outcome.into_result() {
        Ok(envelope) => println!("{}", envelope.delimited_text()),
        Err(refusal) => {
            println!("{}", serde_json::to_string(&refusal.for_agent())?);
            palisade_examples::tell_operator(&refusal);
        }
    }
    Ok(())
}
