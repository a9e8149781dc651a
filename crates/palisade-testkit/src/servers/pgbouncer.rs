//! PgBouncer in transaction mode, before another server.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
};

use super::{
    error::ServerError,
    find::{Kind, Programs},
    process::Stop,
    server::{Engine, Home, OnError},
};

/// PgBouncer before the PostgreSQL at `port` of this machine, for these accounts and the superuser, with more lines of configuration.
pub(super) fn engine(
    port: u16,
    users: &[&str],
    lines: &[&str],
) -> Result<Box<dyn Engine>, ServerError> {
    let kind = Kind::PgBouncer;
    let (Some(programs), Some(postgres)) = (kind.find(), Kind::Postgres.find()) else {
        return Err(ServerError::Missing {
            name: kind.name(),
            command: kind.command(),
        });
    };
    Ok(Box::new(PgBouncer {
        version: format!("PgBouncer {}", programs.version),
        programs,
        postgres,
        port,
        users: users
            .iter()
            .chain(&["postgres"])
            .map(|user| format!("\"{user}\" \"\"\n"))
            .collect(),
        lines: lines.join("\n"),
    }))
}

#[derive(Debug)]
struct PgBouncer {
    version: String,
    programs: Programs,
    /// Whose client speaks with it.
    postgres: Programs,
    port: u16,
    users: String,
    lines: String,
}

impl PgBouncer {
    fn write(&self, home: &Path, port: u16) -> io::Result<()> {
        let (configuration, users) = (home.join(CONFIGURATION), home.join("users.txt"));
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 3\n{}\n",
            self.port,
            users.display(),
            self.lines
        );
        fs::write(&configuration, text)?;
        fs::write(&users, &self.users)?;
        // It may run as another account.
        let readable = || Permissions::from_mode(0o644);
        fs::set_permissions(&configuration, readable())?;
        fs::set_permissions(&users, readable())
    }
}

const CONFIGURATION: &str = "pgbouncer.ini";

impl Engine for PgBouncer {
    fn version(&self) -> &str {
        &self.version
    }

    fn accounts(&self) -> &'static [&'static str] {
        &["postgres", "nobody"]
    }

    fn script(&self) -> Option<&'static str> {
        None
    }

    fn initialise(&self, home: &Home) -> Command {
        // It keeps nothing.
        let mut command = Command::new("mkdir");
        command.arg(home.data());
        command
    }

    fn serve(&self, home: &Home, port: u16) -> Command {
        // What is not written, it complains of itself.
        let _ = self.write(home.path(), port);
        let mut command = self.programs.command(&self.programs.server);
        command.arg(home.path().join(CONFIGURATION));
        command
    }

    fn stop(&self) -> Stop {
        Stop::Kill
    }

    fn ready(&self, home: &Home) -> bool {
        home.log().contains("process up")
    }

    fn client(&self, port: u16, user: &str, database: &str, errors: OnError) -> Command {
        super::postgres::client(&self.postgres, port, user, database, errors)
    }

    fn is_failure(&self, line: &str) -> bool {
        super::postgres::is_failure(line)
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
        super::postgres::quote(name)
    }
}
