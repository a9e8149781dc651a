//! MariaDB.

use std::process::Command;

use super::{
    error::ServerError,
    find::{Kind, Programs},
    process::Stop,
    server::{Engine, Home, OnError},
};

/// The MariaDB of this machine, or the one unpacked under the target folder.
pub(super) fn mariadb() -> Result<Box<dyn Engine>, ServerError> {
    let kind = Kind::MariaDb;
    match kind.find() {
        Some(programs) => Ok(Box::new(MariaDb { programs })),
        None => Err(ServerError::Missing {
            name: kind.name(),
            command: kind.command(),
        }),
    }
}

#[derive(Debug)]
struct MariaDb {
    programs: Programs,
}

impl Engine for MariaDb {
    fn version(&self) -> &str {
        &self.programs.version
    }

    fn accounts(&self) -> &'static [&'static str] {
        &["mysql"]
    }

    fn initialise(&self, home: &Home) -> Command {
        let mut command = self.programs.command(&self.programs.initialise);
        command
            .arg("--no-defaults")
            .arg(option("datadir", &home.data()))
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        if let Some(root) = &self.programs.unpacked {
            command.arg(option("basedir", &root.join("usr")));
        }
        command
    }

    fn serve(&self, home: &Home, port: u16) -> Command {
        let mut command = self.programs.command(&self.programs.server);
        command
            .arg("--no-defaults")
            .arg(option("datadir", &home.data()))
            .arg(option("socket", &home.path().join("s")))
            .arg(option("pid-file", &home.path().join("pid")))
            .arg(format!("--port={port}"))
            .args([
                "--bind-address=127.0.0.1",
                "--skip-log-bin",
                "--innodb-flush-log-at-trx-commit=0",
                "--skip-name-resolve",
                "--local-infile=0",
                // Debian's settings, which `--no-defaults` leaves out; built in is latin1.
                "--character-set-server=utf8mb4",
                "--collation-server=utf8mb4_general_ci",
            ]);
        if let Some(root) = &self.programs.unpacked {
            command
                .arg(option("basedir", &root.join("usr")))
                .arg(option("lc-messages-dir", &root.join("usr/share/mysql")))
                .arg(option(
                    "character-sets-dir",
                    &root.join("usr/share/mysql/charsets"),
                ));
        }
        command
    }

    fn stop(&self) -> Stop {
        Stop::Kill
    }

    fn ready(&self, home: &Home) -> bool {
        home.log().contains("ready for connections")
    }

    fn client(&self, port: u16, user: &str, database: &str, errors: OnError) -> Command {
        let mut command = self.programs.command(&self.programs.client);
        command
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"])
            .arg(format!("--port={port}"))
            .arg(format!("--user={user}"))
            .arg(format!("--database={database}"))
            .args(["--default-character-set=utf8mb4", "--connect-timeout=10"])
            .args(["--batch", "--raw", "--skip-column-names"]);
        match errors {
            OnError::Stop => {}
            OnError::GoOn => {
                command.arg("--force");
            }
        }
        command
    }

    fn is_failure(&self, line: &str) -> bool {
        line.starts_with("ERROR ")
    }

    fn scheme(&self) -> &'static str {
        "mysql"
    }

    fn superuser(&self) -> &'static str {
        "root"
    }

    fn first_database(&self) -> &'static str {
        "mysql"
    }

    fn quote(&self, name: &str) -> String {
        format!("`{}`", name.replace('`', "``"))
    }
}

fn option(name: &str, path: &std::path::Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(format!("--{name}="));
    option.push(path);
    option
}
