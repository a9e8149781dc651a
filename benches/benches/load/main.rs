//! How many calls a second `palisade serve --http` sustains, beside another MCP server of databases, over HTTP and in one run.
//!
//! Calls come at fixed times, whether or not those before them are answered (an open loop), and each asks PostgreSQL for a row by a key
//! that was not asked for before. A call's time counts from the moment at which it was due: a server that falls behind shows it.
//! The rate rises until calls take longer than [`BOUND`] at the 99th percentile, or fail.
//!
//! `cargo xtask load` builds and installs what it needs, and runs it. `--minutes N` says how long the last part takes, in which memory
//! is looked at.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

mod connection;
#[path = "../peers/database.rs"]
#[expect(dead_code, reason = "SQLite and large schemas are the other bench's")]
mod database;
mod open_loop;
mod server;

use std::{env, time::Duration};

use database::Database;
use open_loop::Step;
use server::{Programs, Server};

/// The time that a call may take, at the 99th percentile.
const BOUND: Duration = Duration::from_millis(50);

/// How long a rate is held.
const STEP: Duration = Duration::from_secs(5);

/// Calls a second of the first step.
const FIRST: f64 = 200.0;

/// How much more each step asks for.
const GROWTH: f64 = 1.2;

/// Times that memory is looked at, while a steady rate is held.
const LOOKS: u32 = 10;

fn main() {
    let minutes = minutes();
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create("postgres", folder.path());
    let servers = Programs::from_environment().start(&database, folder.path());
    // Rows are asked for again after all others.
    let mut keys = std::iter::repeat_with(|| database.keys()).flatten();
    println!(
        "\ncalls a second for a row by key on PostgreSQL, while 99 of 100 take less than {} ms\n\
         | server | calls/s | p50 ms | p99 ms |\n|---|---|---|---|",
        BOUND.as_millis()
    );
    let mut sustained = Vec::new();
    for server in &servers {
        // What is asked first opens sessions with the database.
        open_loop::run(server, FIRST, Duration::from_secs(2), &mut keys);
        let best = find_sustained(server, &mut keys);
        println!(
            "| {} | {:.0} | {:.1} | {:.1} |",
            server.name,
            best.rate,
            ms(best.median),
            ms(best.late)
        );
        sustained.push((server, best));
    }
    if let [(_, ours), (_, other), ..] = sustained.as_slice() {
        println!("\n{:.2} times the calls", ours.rate / other.rate);
    }
    println!(
        "\nresident memory, MiB, at half of that rate, over {minutes:.1} minutes\n\
         | server | at first | most | at last |\n|---|---|---|---|"
    );
    for (server, best) in &sustained {
        hold(server, best.rate / 2.0, minutes, &mut keys);
    }
}

/// The last step that was fast enough.
fn find_sustained(server: &Server, keys: &mut impl Iterator<Item = (String, String)>) -> Step {
    let mut rate = FIRST;
    let mut best: Option<Step> = None;
    loop {
        let step = open_loop::run(server, rate, STEP, keys);
        if step.failed > 0 || step.late > BOUND {
            // A pause of the machine is no limit of a server's: once more, and that counts.
            let again = open_loop::run(server, rate, STEP, keys);
            if again.failed > 0 || again.late > BOUND {
                return best.unwrap_or(again);
            }
            best = Some(again);
        } else {
            best = Some(step);
        }
        rate *= GROWTH;
    }
}

/// Holds a rate, and prints what memory the server has meanwhile.
fn hold(
    server: &Server,
    rate: f64,
    minutes: f64,
    keys: &mut impl Iterator<Item = (String, String)>,
) {
    let part = Duration::from_secs_f64(minutes * 60.0) / LOOKS;
    let mut seen = vec![server.resident_mib()];
    for _ in 0..LOOKS {
        let step = open_loop::run(server, rate, part, keys);
        assert_eq!(step.failed, 0, "{} failed calls", server.name);
        seen.push(server.resident_mib());
    }
    let most = seen.iter().copied().fold(0.0, f64::max);
    println!(
        "| {} | {:.1} | {most:.1} | {:.1} |",
        server.name,
        seen[0],
        seen[seen.len() - 1]
    );
}

/// How long memory is looked at; a minute if nothing is said.
fn minutes() -> f64 {
    let mut arguments = env::args().skip_while(|argument| argument != "--minutes");
    match arguments.nth(1) {
        Some(minutes) => minutes.parse().expect("`--minutes` takes a number"),
        None => 1.0,
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
