//! Where the programs of the servers are. Also a module of xtask, which installs what this does not
//! find: one notion of "there".

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A kind of server that tests can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// PostgreSQL 15 or later, of the machine.
    Postgres,
    /// MariaDB 10.11 or later, of the machine.
    MariaDb,
    /// PostgreSQL 18, unpacked.
    SecondPostgres,
    /// MySQL 9, unpacked.
    MySql,
    /// PgBouncer, unpacked. One program is all there is to it.
    PgBouncer,
}

/// The programs of one server.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// The server.
    pub(crate) server: PathBuf,
    /// What makes a data folder.
    pub(crate) initialise: PathBuf,
    /// The command-line client.
    pub(crate) client: PathBuf,
    /// Where they were unpacked, if they are not installed.
    pub(crate) unpacked: Option<PathBuf>,
    /// Where they find the libraries they were unpacked with, unless they know.
    libraries: Option<PathBuf>,
    /// What the server says to `--version`, without the program's name.
    pub(crate) version: String,
}

impl Kind {
    /// Product and version.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL 15 or later",
            Self::MariaDb => "MariaDB 10.11 or later",
            Self::SecondPostgres => "PostgreSQL 18",
            Self::MySql => "MySQL 9",
            Self::PgBouncer => "PgBouncer 1.21 or later",
        }
    }

    /// What makes it be there.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Postgres => "apt-get install postgresql",
            Self::MariaDb => "apt-get install mariadb-server-core mariadb-client-core",
            Self::SecondPostgres | Self::MySql | Self::PgBouncer => "cargo xtask servers",
        }
    }

    /// Where its packages are unpacked.
    pub(crate) fn unpacked(self) -> PathBuf {
        tools().join(match self {
            Self::Postgres => "postgresql",
            Self::MariaDb => "mariadb",
            Self::SecondPostgres => "postgresql-18",
            Self::MySql => "mysql-9",
            Self::PgBouncer => "pgbouncer",
        })
    }

    fn server(self) -> &'static str {
        match self {
            Self::Postgres | Self::SecondPostgres => "postgres",
            Self::MariaDb => "mariadbd",
            Self::MySql => "mysqld",
            Self::PgBouncer => "pgbouncer",
        }
    }

    fn initialise(self) -> &'static str {
        match self {
            Self::Postgres | Self::SecondPostgres => "initdb",
            Self::MariaDb => "mariadb-install-db",
            Self::MySql => "mysqld",
            Self::PgBouncer => "pgbouncer",
        }
    }

    fn client(self) -> &'static str {
        match self {
            Self::Postgres | Self::SecondPostgres => "psql",
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
            Self::PgBouncer => "pgbouncer",
        }
    }

    fn accepts(self, version: &str) -> bool {
        let Some(number) = number(version) else {
            return false;
        };
        match self {
            Self::Postgres => version.contains("PostgreSQL") && number >= (15, 0),
            Self::SecondPostgres => version.contains("PostgreSQL") && number.0 == 18,
            Self::MariaDb => version.contains("MariaDB") && number >= (10, 11),
            Self::MySql => !version.contains("MariaDB") && number.0 == 9,
            Self::PgBouncer => number >= (1, 21),
        }
    }

    /// The programs, from PATH, then from where Debian installs them, then from where xtask unpacks
    /// them; second versions only from there. All programs and the right version, or it is not
    /// there.
    pub(crate) fn find(self) -> Option<Programs> {
        let unpacked = self.unpacked();
        let installed = || {
            let path = env::var_os("PATH").unwrap_or_default();
            let path: Vec<PathBuf> = env::split_paths(&path).collect();
            path.iter()
                .cloned()
                .chain(folders(Path::new("/")))
                .find_map(|folder| self.at(&folder, &path, None))
        };
        let fetched =
            || folders(&unpacked).find_map(|folder| self.at(&folder, &[], Some(&unpacked)));
        match self {
            Self::Postgres | Self::MariaDb => installed().or_else(fetched),
            Self::SecondPostgres | Self::MySql | Self::PgBouncer => fetched(),
        }
    }

    fn at(self, folder: &Path, path: &[PathBuf], unpacked: Option<&Path>) -> Option<Programs> {
        // A link in /usr/local/bin leads to where the rest is.
        let server = fs::canonicalize(folder.join(self.server())).ok()?;
        let beside = server.parent()?.to_path_buf();
        // MariaDB's server is in sbin and the rest in bin.
        let bin = beside.parent().map(|above| above.join("bin"));
        let other = |name: &str| {
            std::iter::once(&beside)
                .chain(&bin)
                .chain(path)
                .map(|folder| folder.join(name))
                .find(|file| file.is_file())
        };
        let mut programs = Programs {
            initialise: other(self.initialise())?,
            client: other(self.client())?,
            server,
            unpacked: unpacked.map(Path::to_path_buf),
            libraries: match self {
                Self::Postgres | Self::MariaDb => unpacked.map(libraries),
                Self::SecondPostgres | Self::MySql | Self::PgBouncer => None,
            },
            version: String::new(),
        };
        let output = programs
            .command(&programs.server)
            .arg("--version")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        // `postgres (PostgreSQL) 15.18`, `/usr/sbin/mariadbd  Ver 10.11.19-MariaDB`, `PgBouncer 1.24.1` and lines of
        // its libraries.
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines()
            .next()?
            .split_once(' ')?
            .1
            .trim()
            .clone_into(&mut programs.version);
        (output.status.success() && self.accepts(&programs.version)).then_some(programs)
    }
}

impl Programs {
    /// A command that finds the libraries it was unpacked with, and no settings of the person who
    /// runs the tests.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("PG") || text.starts_with("MYSQL_") || text.starts_with("MARIADB_")
            {
                command.env_remove(&name);
            }
        }
        command.env("LC_ALL", "C");
        command
    }
}

/// `target/tools`: what is installed for development, and what may be deleted.
pub(crate) fn tools() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("target/tools")
}

/// Where the libraries of packages unpacked into `root` are.
pub(crate) fn libraries(root: &Path) -> PathBuf {
    // Debian's name of this machine, where it is Rust's with another end.
    root.join(format!("usr/lib/{}-linux-gnu", env::consts::ARCH))
}

/// Where Debian puts servers under `root`: PostgreSQL's newest version first.
fn folders(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(root.join("usr/lib/postgresql"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_string_lossy().parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    let others = ["usr/sbin", "usr/bin", "usr/local/sbin", "usr/local/bin"];
    let others = others.map(|folder| root.join(folder));
    versions.into_iter().map(|(_, path)| path).chain(others)
}

/// The first `number.number` in a text: `(15, 18)` of `postgres (PostgreSQL) 15.18`.
fn number(text: &str) -> Option<(u32, u32)> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.')
        .find_map(|word| {
            let mut parts = word.split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        })
}
