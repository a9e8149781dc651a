//! MariaDB and MySQL.

use std::process::Command;

use super::{
    error::ServerError,
    find::{Kind, Programs},
    process::Stop,
    server::{Engine, Home, OnError},
};

/// The MariaDB of this machine, else the MariaDB that xtask unpacked, with more `options`.
pub(super) fn mariadb(options: &[&str]) -> Result<Box<dyn Engine>, ServerError> {
    engine(Kind::MariaDb, Product::MariaDb, options)
}

/// The MySQL that xtask unpacked.
pub(super) fn mysql() -> Result<Box<dyn Engine>, ServerError> {
    engine(Kind::MySql, Product::MySql, &[])
}

fn engine(kind: Kind, product: Product, options: &[&str]) -> Result<Box<dyn Engine>, ServerError> {
    match kind.find() {
        Some(programs) => Ok(Box::new(MySqlKin {
            programs,
            product,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        })),
        None => Err(ServerError::Missing {
            name: kind.name(),
            command: kind.command(),
        }),
    }
}

#[derive(Debug, Clone, Copy)]
enum Product {
    MariaDb,
    MySql,
}

#[derive(Debug)]
struct MySqlKin {
    programs: Programs,
    product: Product,
    /// Of the server, after all others.
    options: Vec<String>,
}

impl MySqlKin {
    /// Where the files are that the server reads at start, if it was unpacked.
    fn share(&self, command: &mut Command) {
        let Some(root) = &self.programs.unpacked else {
            return;
        };
        let usr = root.join("usr");
        command
            .arg(option("basedir", &usr))
            .arg(option("lc-messages-dir", &usr.join("share/mysql")))
            .arg(option(
                "character-sets-dir",
                &usr.join("share/mysql/charsets"),
            ))
            .arg(option("plugin-dir", &usr.join("lib/mysql/plugin")));
    }
}

impl Engine for MySqlKin {
    fn version(&self) -> &str {
        &self.programs.version
    }

    fn accounts(&self) -> &'static [&'static str] {
        &["mysql"]
    }

    fn script(&self) -> Option<&'static str> {
        match self.product {
            // Its superuser may come from 127.0.0.1 without more.
            Product::MariaDb => None,
            Product::MySql => Some(
                "CREATE USER root@'127.0.0.1';\n\
                 GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n",
            ),
        }
    }

    fn initialise(&self, home: &Home) -> Command {
        let mut command = self.programs.command(&self.programs.initialise);
        command
            .arg("--no-defaults")
            .arg(option("datadir", &home.data()));
        match (self.product, &self.programs.unpacked) {
            (Product::MariaDb, unpacked) => {
                command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
                if let Some(root) = unpacked {
                    command.arg(option("basedir", &root.join("usr")));
                }
            }
            (Product::MySql, _) => {
                command.arg("--initialize-insecure");
                command.arg(option("init-file", &home.script()));
                self.share(&mut command);
            }
        }
        command
    }

    fn serve(&self, home: &Home, port: u16) -> Command {
        let mut command = self.programs.command(&self.programs.server);
        command
            .arg("--no-defaults")
            .arg(option("datadir", &home.data()))
            .arg(option("socket", &home.path().join("s")))
            // A server that starts deletes what it takes for leftovers of its kind in /tmp.
            .arg(option("tmpdir", &home.data()))
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
        match self.product {
            // Tables are made by the thousand, and none outlives its test: nothing waits for a disk.
            Product::MariaDb => {
                command.args([
                    "--debug-no-sync",
                    "--skip-sync-frm",
                    "--innodb-doublewrite=0",
                    "--innodb-flush-method=nosync",
                ]);
            }
            Product::MySql => {
                command.args(["--mysqlx=OFF", "--performance-schema=OFF"]);
                // The default is a folder that only a package's installation makes.
                command.arg("--secure-file-priv=NULL");
            }
        }
        self.share(&mut command);
        command.args(&self.options);
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
