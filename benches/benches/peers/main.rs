//! What a call of an agent costs through `palisade serve`, beside other MCP servers of databases, over stdio and in one run.
//!
//! Measured are `SELECT 1`, a row by a key that is asked for once, a thousand rows, eight calls in flight, start and memory. The start
//! is measured over ten thousand tables of SQLite too.
//!
//! `cargo xtask bench peers` builds and installs what it needs, and runs it. Arguments name engines (`sqlite`, `postgres`;
//! without one, both).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

mod client;
mod database;
mod server;

use std::time::Instant;

use client::Client;
use database::{Database, ROWS, WIDE};
use server::{Program, Programs};

/// Each server is asked this often in a round, and the servers take turns: what else the machine does meets all of them.
const ROUNDS: usize = 7;
const CALLS: usize = 60;
const LONG_CALLS: usize = 8;
const FLIGHT_CALLS: usize = 400;
const IN_FLIGHT: usize = 8;
const STARTS: usize = 5;

fn main() {
    let engines: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let programs = Programs::from_environment();
    let folder = tempfile::tempdir().unwrap();
    for engine in ["sqlite", "postgres"] {
        if engines.is_empty() || engines.iter().any(|wanted| wanted == engine) {
            let database = Database::create(engine, folder.path());
            compare(engine, &programs.all(&database, folder.path()), &database);
        }
    }
    if engines.is_empty() || engines.iter().any(|wanted| wanted == "sqlite") {
        let database = Database::wide(folder.path());
        start(&programs.all(&database, folder.path()));
    }
}

/// What a start costs over many tables.
fn start(programs: &[Program]) {
    println!(
        "\nsqlite, {WIDE} tables: medians\n| server | initialize ms | first call ms |\n|---|---|---|"
    );
    for program in programs {
        let (mut initialize, mut first) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            let start = Instant::now();
            let mut client = Client::start(program);
            initialize.push(us(start));
            client.ask(&one(), &["1"]);
            first.push(us(start));
        }
        let ms = |values: &mut [f64]| median(values) / 1_000.0;
        println!(
            "| {} | {:.1} | {:.1} |",
            program.name,
            ms(&mut initialize),
            ms(&mut first)
        );
    }
}

/// What was measured of one server; times in microseconds.
#[derive(Default)]
struct Figures {
    initialize: Vec<f64>,
    first: Vec<f64>,
    one: Vec<f64>,
    key: Vec<f64>,
    rows: Vec<f64>,
    per_second: Vec<f64>,
    memory: Vec<f64>,
}

fn compare(engine: &str, programs: &[Program], database: &Database) {
    let mut figures: Vec<Figures> = programs.iter().map(|_| Figures::default()).collect();
    let mut keys = database.keys();
    for _ in 0..STARTS {
        for (program, figures) in programs.iter().zip(&mut figures) {
            let start = Instant::now();
            let mut client = Client::start(program);
            figures.initialize.push(us(start));
            client.ask(&one(), &["1"]);
            figures.first.push(us(start));
        }
    }
    let mut clients: Vec<Client> = programs.iter().map(Client::start).collect();
    for client in &mut clients {
        client.ask(&one(), &["1"]);
        client.ask_rows(&all_rows(), &database.last_of_all());
    }
    for _ in 0..ROUNDS {
        for (client, figures) in clients.iter_mut().zip(&mut figures) {
            for _ in 0..CALLS {
                figures.one.push(time(|| client.ask(&one(), &["1"])));
            }
            for _ in 0..CALLS {
                let (sql, expected) = keys.next().unwrap();
                figures.key.push(time(|| client.ask(&sql, &[&expected])));
            }
            for _ in 0..LONG_CALLS {
                let last = database.last_of_all();
                figures
                    .rows
                    .push(time(|| client.ask_rows(&all_rows(), &last)));
            }
            let calls: Vec<(String, String)> = keys.by_ref().take(FLIGHT_CALLS).collect();
            let start = Instant::now();
            client.ask_many(&calls, IN_FLIGHT);
            let seconds = us(start) / 1_000_000.0;
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            figures.per_second.push(FLIGHT_CALLS as f64 / seconds);
        }
    }
    for (client, figures) in clients.iter().zip(&mut figures) {
        figures.memory.push(client.resident_mib());
    }
    print(engine, programs, &mut figures);
}

fn one() -> String {
    "SELECT 1 AS one".to_owned()
}

fn all_rows() -> String {
    format!("SELECT id, label, quantity, price, made FROM items ORDER BY id LIMIT {ROWS}")
}

fn time(ask: impl FnOnce()) -> f64 {
    let start = Instant::now();
    ask();
    us(start)
}

fn us(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1_000_000.0
}

/// A column of the table: its heading, and the figure of a server.
type Column = (&'static str, fn(&mut Figures) -> f64);

/// Prints a line for each server: medians.
fn print(engine: &str, programs: &[Program], figures: &mut [Figures]) {
    let columns: [Column; 7] = [
        ("initialize ms", |f| median(&mut f.initialize) / 1_000.0),
        ("first call ms", |f| median(&mut f.first) / 1_000.0),
        ("SELECT 1 µs", |f| median(&mut f.one)),
        ("by key µs", |f| median(&mut f.key)),
        ("1,000 rows ms", |f| median(&mut f.rows) / 1_000.0),
        ("by key, 8 at once, /s", |f| median(&mut f.per_second)),
        ("memory MiB", |f| median(&mut f.memory)),
    ];
    println!("\n{engine}: medians");
    print!("| server |");
    for (heading, _) in &columns {
        print!(" {heading} |");
    }
    println!("\n|---|{}", "---|".repeat(columns.len()));
    for (program, figures) in programs.iter().zip(figures) {
        print!("| {} |", program.name);
        for (_, figure) in &columns {
            let value = figure(figures);
            let digits = usize::from(value < 100.0);
            print!(" {value:.digits$} |");
        }
        println!();
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
