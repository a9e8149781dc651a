//! PostgreSQL.

use std::{fs, process::Command};

use super::{
    error::ServerError,
    find::{Kind, Programs},
    process::Stop,
    server::{Engine, Home, OnError},
};

/// The PostgreSQL of this machine, else the PostgreSQL that xtask unpacked; or the second version.
pub(super) fn engine(kind: Kind, settings: &[&str]) -> Result<Box<dyn Engine>, ServerError> {
    find(kind, settings, None)
}

/// As [`engine`], of a standby of the server at the port `primary` of this machine.
pub(super) fn standby(kind: Kind, primary: u16) -> Result<Box<dyn Engine>, ServerError> {
    find(kind, &[], Some(primary))
}

fn find(
    kind: Kind,
    settings: &[&str],
    primary: Option<u16>,
) -> Result<Box<dyn Engine>, ServerError> {
    match kind.find() {
        Some(programs) => Ok(Box::new(Postgres {
            programs,
            settings: settings.iter().map(|one| (*one).to_owned()).collect(),
            primary,
        })),
        None => Err(ServerError::Missing {
            name: kind.name(),
            command: kind.command(),
        }),
    }
}

#[derive(Debug)]
struct Postgres {
    programs: Programs,
    /// More of them, `name=value`.
    settings: Vec<String>,
    /// The port of the server that it follows.
    primary: Option<u16>,
}

impl Engine for Postgres {
    fn version(&self) -> &str {
        &self.programs.version
    }

    fn accounts(&self) -> &'static [&'static str] {
        &["postgres"]
    }

    fn script(&self) -> Option<&'static str> {
        None
    }

    fn has_template(&self) -> bool {
        self.primary.is_none()
    }

    fn initialise(&self, home: &Home) -> Command {
        if let Some(primary) = self.primary {
            let program = self.programs.initialise.with_file_name("pg_basebackup");
            let mut command = self.programs.command(&program);
            command.arg("--pgdata").arg(home.data()).args([
                "--host=127.0.0.1",
                "--username=postgres",
                // What makes it a standby.
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ]);
            command.arg(format!("--port={primary}"));
            return command;
        }
        let mut command = self.programs.command(&self.programs.initialise);
        command.arg("--pgdata").arg(home.data()).args([
            "--username=postgres",
            "--auth=trust",
            "--no-sync",
            "--no-instructions",
            "--locale=C",
            "--encoding=UTF8",
        ]);
        command
    }

    fn serve(&self, home: &Home, port: u16) -> Command {
        let mut command = self.programs.command(&self.programs.server);
        command
            .arg("-D")
            .arg(home.data())
            .arg("-k")
            .arg(home.path())
            .arg("-p")
            .arg(port.to_string());
        for setting in [
            "listen_addresses=127.0.0.1",
            "fsync=off",
            "synchronous_commit=off",
            "full_page_writes=off",
            "autovacuum=off",
            // In the data folder, which is removed, rather than in /dev/shm, which stays.
            "dynamic_shared_memory_type=mmap",
        ] {
            command.arg("-c").arg(setting);
        }
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command
    }

    fn stop(&self) -> Stop {
        Stop::Quit
    }

    fn ready(&self, home: &Home) -> bool {
        // Its last line is the state, `starting` or `ready` (src/include/utils/pidfile.h).
        fs::read_to_string(home.data().join("postmaster.pid"))
            .is_ok_and(|text| text.lines().nth(7).map(str::trim) == Some("ready"))
    }

    fn client(&self, port: u16, user: &str, database: &str, errors: OnError) -> Command {
        client(&self.programs, port, user, database, errors)
    }

    fn is_failure(&self, line: &str) -> bool {
        is_failure(line)
    }

    fn scheme(&self) -> &'static str {
        "postgres"
    }

    fn superuser(&self) -> &'static str {
        "postgres"
    }

    fn first_database(&self) -> &'static str {
        "postgres"
    }

    fn quote(&self, name: &str) -> String {
        quote(name)
    }
}

/// psql, as [`Engine::client`].
pub(super) fn client(
    programs: &Programs,
    port: u16,
    user: &str,
    database: &str,
    errors: OnError,
) -> Command {
    let mut command = programs.command(&programs.client);
    command
        .args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"])
        .args(["--field-separator", "\t", "--host=127.0.0.1"])
        .arg(format!("--port={port}"))
        .arg(format!("--username={user}"))
        // As a name: `--dbname` would read `a=b` or a URL as a connection string.
        .env("PGDATABASE", database)
        .env("PGCLIENTENCODING", "UTF8")
        .arg(match errors {
            OnError::Stop => "--set=ON_ERROR_STOP=1",
            OnError::GoOn => "--set=ON_ERROR_STOP=0",
        })
        // With a file, failures have line numbers.
        .arg("--file=-");
    command
}

/// As [`Engine::is_failure`], of what psql prints.
pub(super) fn is_failure(line: &str) -> bool {
    // `psql:<stdin>:3: ERROR:  …` is the server's, `psql:<stdin>:3: error: …` psql's own.
    line.starts_with("psql:")
        && [" ERROR: ", " FATAL: ", " PANIC: ", " error: "]
            .iter()
            .any(|mark| line.contains(mark))
}

/// `name` as an identifier.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
