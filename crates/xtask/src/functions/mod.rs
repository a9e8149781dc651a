//! Tables of functions: kept in step with running servers.
//!
//! The servers say which functions there are, where they may stand, how many arguments they take and
//! which columns they give. They cannot say what a function reaches: the class of a row is reviewed
//! by hand and never changed here. A name that no row has is added as `unknown`, which no blanket
//! permit reaches, and named, so that somebody looks at it.

mod mysql;
mod postgres;
#[cfg(test)]
mod table_checks;
mod table_format;

use std::path::PathBuf;

use self::table_format::{Change, Found, Table};
use crate::run::{Result, root};

const HELP: &str = "\
Usage: cargo xtask functions postgres URL...
       cargo xtask functions mysql [--program FILE] [CLIENT-ARGUMENT...]

Brings crates/palisade/data/functions in step with running servers: adds what they have and the table
lacks as `unknown`, widens kinds, counts of arguments and columns, keeps the reviewed classes.

  postgres  each URL is a database, as psql takes it; functions of its extensions count too
  mysql     MariaDB or MySQL; the arguments are the client's, such as --port=3306 --user=root.
            With --program, each name-like text of the server's program is tried, too (some minutes)

The servers should be throw-away ones: functions are called to see whether they exist.

SQLite's table is compared with the bundled build by a test of palisade-sqlite.";

/// `cargo xtask functions`.
pub(crate) fn run(args: Vec<String>) -> Result {
    let mut args = args.into_iter();
    match args.next().as_deref() {
        Some("postgres") => {
            let urls: Vec<_> = args.collect();
            if urls.is_empty() {
                return Err(format!("no URL is given\n\n{HELP}"));
            }
            let mut found = Vec::new();
            for url in urls {
                found.extend(postgres::functions(&url)?);
            }
            update("postgres", found)
        }
        Some("mysql") => {
            let mut program = None;
            let mut client = Vec::new();
            while let Some(arg) = args.next() {
                if arg == "--program" {
                    program = Some(PathBuf::from(args.next().ok_or("--program needs a file")?));
                } else {
                    client.push(arg);
                }
            }
            let known = Table::read(&path("mysql"))?.names("-");
            update(
                "mysql",
                mysql::functions(&client, program.as_deref(), known)?,
            )
        }
        Some("help" | "--help" | "-h") | None => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => Err(format!("there is no table `{other}`\n\n{HELP}")),
    }
}

fn update(engine: &str, found: Vec<Found>) -> Result {
    let path = path(engine);
    let mut table = Table::read(&path)?;
    println!("{} functions on the servers", found.len());
    let (mut new, mut wider) = (0, 0);
    for found in found {
        let shown = format!("{} {}", found.schema, found.name);
        match table.widen(found) {
            Change::None => {}
            Change::Wider => {
                wider += 1;
                println!("wider    {shown}");
            }
            Change::New => {
                new += 1;
                println!("unknown  {shown}");
            }
        }
    }
    println!("{new} new, to be classed; {wider} wider");
    table.write(&path)
}

fn path(engine: &str) -> PathBuf {
    root()
        .join("crates/palisade/data/functions")
        .join(format!("{engine}.tsv"))
}
