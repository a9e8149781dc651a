//! Reads the rows of an answer as typed cells, for a program of its own. Each cell stands on a line.
//!
//! ```sh
//! cargo run --package palisade-examples --bin typed-rows -- 'SELECT id, id, name FROM customers WHERE id = ?'
//! ```

use std::error::Error;

use palisade::{Params, Principal, Session, Value, answer::Cell};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let sql = std::env::args().nth(1).ok_or("usage: typed-rows SQL")?;
    let guard = palisade_examples::guard()?;
    let session = Session::new(Principal::new("Agent", "support-bot"));
    let params = Params::from(vec![Value::from(2)]);
    // A refusal is an error here: what is printed of it is what the agent may read.
    let envelope = guard.query(&sql, &params, &session).await.into_result()?;
    let answer = envelope.answer();
    for row in answer.rows() {
        for (column, cell) in answer.columns().iter().zip(row.cells()) {
            println!("{}: {}", column.name, describe(cell));
        }
    }
    Ok(())
}

fn describe(cell: &Cell) -> String {
    match cell {
        Cell::Null => "nothing".to_owned(),
        Cell::Bool(truth) => format!("the boolean {truth}"),
        Cell::Integer(number) => format!("the integer {number}"),
        Cell::Real(number) => format!("the number {number}"),
        Cell::Text(text) => format!("the text {text}"),
        Cell::Bytes(bytes) => format!("{} bytes", bytes.len()),
        // Minor versions may add kinds.
        _ => "a cell of a later version".to_owned(),
    }
}
