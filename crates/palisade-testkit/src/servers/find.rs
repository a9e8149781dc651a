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
    /// PostgreSQL 15 or later.
    Postgres,
    /// MariaDB 10.11 or later.
    MariaDb,
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
    /// What the server says to `--version`, without the program's name.
    pub(crate) version: String,
}

impl Kind {
    /// Product and lowest version.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL 15 or later",
            Self::MariaDb => "MariaDB 10.11 or later",
        }
    }

    /// What installs it on Debian and its kin, by hand.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Postgres => "apt-get install postgresql",
            Self::MariaDb => "apt-get install mariadb-server-core mariadb-client-core",
        }
    }

    fn server(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadbd",
        }
    }

    fn initialise(self) -> &'static str {
        match self {
            Self::Postgres => "initdb",
            Self::MariaDb => "mariadb-install-db",
        }
    }

    fn client(self) -> &'static str {
        match self {
            Self::Postgres => "psql",
            Self::MariaDb => "mariadb",
        }
    }

    fn accepts(self, version: &str) -> bool {
        let lowest = match self {
            Self::Postgres => (15, 0),
            Self::MariaDb => (10, 11),
        };
        let own = match self {
            Self::Postgres => version.contains("PostgreSQL"),
            Self::MariaDb => version.contains("MariaDB"),
        };
        own && number(version).is_some_and(|number| number >= lowest)
    }

    /// The programs, from PATH, then from where Debian installs them, then from where xtask unpacks
    /// them. All three programs and a version that is new enough, or it is not there.
    pub(crate) fn find(self) -> Option<Programs> {
        let path = env::var_os("PATH").unwrap_or_default();
        let path: Vec<PathBuf> = env::split_paths(&path).collect();
        let unpacked = unpacked();
        path.iter()
            .map(|folder| (folder.clone(), None))
            .chain(folders(Path::new("/")).map(|folder| (folder, None)))
            .chain(folders(&unpacked).map(|folder| (folder, Some(unpacked.clone()))))
            .find_map(|(folder, unpacked)| self.at(&folder, &path, unpacked))
    }

    fn at(self, folder: &Path, path: &[PathBuf], unpacked: Option<PathBuf>) -> Option<Programs> {
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
        let initialise = other(self.initialise())?;
        let client = other(self.client())?;
        let output = with_libraries(Command::new(&server), unpacked.as_deref())
            .arg("--version")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        // `postgres (PostgreSQL) 15.18`, `/usr/sbin/mariadbd  Ver 10.11.19-MariaDB`.
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.split_once(' ')?.1.trim().to_owned();
        (output.status.success() && self.accepts(&version)).then_some(Programs {
            server,
            initialise,
            client,
            unpacked,
            version,
        })
    }
}

impl Programs {
    /// A command that finds the libraries it was unpacked with, and no settings of the person who
    /// runs the tests.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = with_libraries(Command::new(program), self.unpacked.as_deref());
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

/// Where Debian's packages are unpacked for an ordinary user.
pub(crate) fn unpacked() -> PathBuf {
    tools().join("debian")
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

fn with_libraries(mut command: Command, unpacked: Option<&Path>) -> Command {
    if let Some(root) = unpacked {
        let lib = root.join("usr/lib");
        let triplet = format!("{}-linux-gnu", env::consts::ARCH);
        if let Ok(joined) = env::join_paths([lib.join(triplet), lib]) {
            command.env("LD_LIBRARY_PATH", joined);
        }
    }
    command
}

/// The first `number.number` in a text: `(15, 18)` of `postgres (PostgreSQL) 15.18`.
fn number(text: &str) -> Option<(u32, u32)> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.')
        .find_map(|word| {
            let mut parts = word.split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        })
}
