//! A throw-away server by hand, and for the test that servers die with their process:
//! `cargo run --package palisade-testkit --bin test-server postgres` prints its process id, folder
//! and URL, one a line, and runs until standard input ends. After the product, a file of statements may
//! be named: then the URL is that of a database in which they have run.

use std::{
    io::{Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use palisade_testkit::servers::{MariaDbServer, MySqlServer, PostgresServer, Server, ServerError};

fn main() -> ExitCode {
    let shared: fn() -> Result<&'static Server, ServerError> =
        match std::env::args().nth(1).as_deref() {
            Some("postgres") => || PostgresServer::start_shared().map(|server| &**server),
            Some("mariadb") => || MariaDbServer::start_shared().map(|server| &**server),
            Some("mysql") => || MySqlServer::start_shared().map(|server| &**server),
            Some(_) | None => {
                eprintln!("usage: test-server postgres|mariadb|mysql [FILE]");
                return ExitCode::from(2);
            }
        };
    let server = match shared() {
        Ok(server) => server,
        Err(why) => {
            eprintln!("test-server: {why}");
            return ExitCode::FAILURE;
        }
    };
    let database = match std::env::args_os().nth(2).map(PathBuf::from) {
        None => String::new(),
        Some(file) => {
            let loaded = server.fresh_database("loaded").and_then(|database| {
                server.load(&database, &file)?.clean()?;
                Ok(database)
            });
            match loaded {
                Ok(database) => database,
                Err(why) => {
                    eprintln!("test-server: {why}");
                    return ExitCode::FAILURE;
                }
            }
        }
    };
    let url = server.url(&database);
    println!(
        "{}\n{}\n{url}",
        server.process_id(),
        server.folder().display()
    );
    // Whoever reads this may have gone; then standard input ends, too.
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}
