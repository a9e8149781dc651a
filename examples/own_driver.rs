//! Runs what was decided over a driver of its own, and scans the rows. The duties are listed in
//! `docs/embedding.md` and at `palisade::danger::RawParts`; this program keeps no records and counts no failures.
//!
//! ```sh
//! cargo run --package palisade-examples --bin own-driver -- 'SELECT name, ssn FROM customers'
//! ```

use std::{error::Error, path::Path, time::Instant};

use palisade::{
    Decision, Params, Principal, Session, Value,
    answer::{Action, Marker, ScanSession},
    host::Host as _,
};
use palisade_host::Machine;
use rusqlite::{
    Connection, OpenFlags,
    types::{ToSqlOutput, ValueRef},
};

fn main() -> Result<(), Box<dyn Error>> {
    let sql = std::env::args().nth(1).ok_or("usage: own-driver SQL")?;
    let name = format!("palisade-own-driver-{}.db", std::process::id());
    let path = std::env::temp_dir().join(name);
    Connection::open(&path)?.execute_batch(palisade_examples::SCHEMA)?;
    let told = answer(&path, &sql);
    std::fs::remove_file(&path)?;
    println!("{}", told?);
    Ok(())
}

/// What an agent is told that asks `sql`.
fn answer(path: &Path, sql: &str) -> Result<String, Box<dyn Error>> {
    // What is only read is opened so: a statement that the decision got wrong changes nothing.
    let mut database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let firewall = palisade_examples::firewall(palisade_sqlite::catalog(&database, "main")?)?;
    let session = Session::new(Principal::new("Agent", "support-bot"));
    let statement = match firewall.check(sql, &Params::None, &session)? {
        Decision::Allow(statement) => statement,
        Decision::Reject(why) => {
            palisade_examples::tell_operator(&why.clone().into());
            return Ok(serde_json::to_string(&why.for_agent())?);
        }
    };
    let text = statement
        .sql()
        .ok_or("this program runs plain reads alone")?;
    // The engine itself stops at the end of the time; every so many steps it is asked whether it has come.
    let (begun, time) = (Instant::now(), statement.limits().statement_timeout());
    database.progress_handler(10_000, Some(move || begun.elapsed() > time))?;
    // A fresh marker for each answer: rows cannot hold what was not known before.
    let marker = Marker::from_bytes(Machine::new().random()?);
    let mut scan = ScanSession::new(statement.scan_plan(), Action::Flag, marker);
    let mut query = database.prepare(text)?;
    let columns = query.column_count();
    let bound = statement.params().iter().map(bind);
    let mut rows = query.query(rusqlite::params_from_iter(bound))?;
    while let Some(row) = rows.next()? {
        let cells: Result<Vec<Value>, _> =
            (0..columns).map(|at| row.get_ref(at).map(value)).collect();
        if scan.push(cells?).is_break() {
            break;
        }
    }
    Ok(scan.finish()?.delimited_text())
}

fn bind(value: &Value) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Value::Null => ValueRef::Null,
        Value::Bool(truth) => ValueRef::Integer(i64::from(*truth)),
        Value::Integer(number) => ValueRef::Integer(*number),
        Value::Real(number) => ValueRef::Real(*number),
        Value::Text(text) => ValueRef::Text(text),
        Value::Blob(bytes) => ValueRef::Blob(bytes),
    })
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(text.to_vec()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}
