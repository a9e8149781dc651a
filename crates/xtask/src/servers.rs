//! The database servers that tests start: PostgreSQL and MariaDB must be there, PostgreSQL 18,
//! MySQL 9, PgBouncer and Galera are run where they can be had, and so are a browser, an editor and a solver.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    apt::{self, Source},
    find::{self, Kind},
    run::{FULL, Result, cargo_command, run},
    test::THREADS,
};

/// What the tests cannot do without.
const NEEDED: [Kind; 2] = [Kind::Postgres, Kind::MariaDb];

/// What they do in addition, by the word that the names of such tests hold.
const OPTIONAL: [(Kind, &str); 3] = [
    (Kind::SecondPostgres, "postgres_18"),
    (Kind::MySql, "mysql_9"),
    (Kind::PgBouncer, "pgbouncer"),
];

/// Finds or fetches all servers; fails when a needed one cannot be had.
pub(crate) fn all() -> Result {
    install_needed()?;
    for note in optional().1 {
        println!("\n{note}");
    }
    Ok(())
}

/// Finds PostgreSQL and MariaDB, or installs them: as root on the machine, else under
/// `target/tools`.
pub(crate) fn install_needed() -> Result {
    for kind in NEEDED {
        if let Some(programs) = kind.find() {
            println!("\n{}: {}", kind.name(), programs.version);
            continue;
        }
        println!("\n{} is missing and is installed", kind.name());
        let installed = install(kind);
        let Some(programs) = kind.find() else {
            let why = installed
                .err()
                .unwrap_or_else(|| "what was installed is too old or does not run here".to_owned());
            return Err(format!(
                "the tests need {} and could not install it: {why}\nBy hand: `{}`",
                kind.name(),
                kind.command()
            ));
        };
        println!("\n{}: {}", kind.name(), programs.version);
    }
    install_programs()
}

/// What the tests of the broker start beside servers, with what shows that it is here: a sandbox, and the keyring of a desktop.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("bubblewrap", &["bwrap", "--version"]),
    ("dbus", &["dbus-daemon", "--version"]),
    ("gnome-keyring", &["gnome-keyring-daemon", "--version"]),
];

/// Finds the programs, or installs their packages on the machine.
fn install_programs() -> Result {
    let missing = || {
        let missing = PROGRAMS.iter().filter(|(_, line)| {
            let found = line
                .split_first()
                .map(|(program, arguments)| Command::new(program).args(arguments).output().is_ok());
            found != Some(true)
        });
        missing.map(|(package, _)| *package).collect::<Vec<_>>()
    };
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    println!("\nmissing, and installed: {}", packages.join(", "));
    let installed = match (apt::is_here(), is_root()) {
        (true, true) => apt::install(&packages),
        (false, _) => Err("there is no apt here".to_owned()),
        (true, false) => Err("only root installs it".to_owned()),
    };
    let packages = missing().join(" ");
    if packages.is_empty() {
        return Ok(());
    }
    let why = installed
        .err()
        .unwrap_or_else(|| "it does not run here".to_owned());
    Err(format!(
        "the tests need {packages} and could not install it: {why}\nBy hand: `apt-get install {packages}`"
    ))
}

/// Runs the tests over second versions, and those with a browser, an editor or a solver, which plain `cargo test` leaves out, and says which were
/// not run.
pub(crate) fn test_optional() -> Result<Vec<String>> {
    let (words, notes) = optional();
    if !words.is_empty() {
        let mut args = vec!["test", "--workspace", "--tests"];
        args.extend(FULL);
        args.extend(["--", "--ignored"]);
        args.extend(words);
        // They wait for slow servers.
        run(cargo_command().args(args).env(THREADS, "3"))?;
    }
    Ok(notes)
}

/// Fetches the second versions that are missing; `test_optional` says which of them could not be had.
pub(crate) fn fetch_optional() {
    let _ = optional();
}

/// The words of the second versions that are there, and a note for each that is not.
fn optional() -> (Vec<&'static str>, Vec<String>) {
    let (mut words, mut notes) = (Vec::new(), Vec::new());
    for (kind, word) in OPTIONAL {
        let fetched = match kind.find() {
            Some(_) => Ok(()),
            None => fetch(kind),
        };
        match kind.find() {
            Some(programs) => {
                println!("\n{}: {}", kind.name(), programs.version);
                words.push(word);
            }
            None => {
                let why = fetched
                    .err()
                    .unwrap_or_else(|| "it does not run here".to_owned());
                notes.push(format!("NOT RUN: {} ({why})", kind.name()));
            }
        }
    }
    for beside in BESIDE {
        let found = beside.find().or_else(|| {
            beside.fetch().ok()?;
            beside.find()
        });
        match found {
            Some(file) => {
                println!("\n{}: {}", beside.name, file.display());
                words.push(beside.word);
            }
            None => notes.push(format!(
                "NOT RUN: {} (it cannot be fetched here)",
                beside.name
            )),
        }
    }
    (words, notes)
}

/// What is no server and is fetched for tests.
struct Beside {
    name: &'static str,
    /// What the names of its tests hold, and the folder it is unpacked into.
    word: &'static str,
    source: Source,
    packages: &'static [&'static str],
    /// Where the file is that is needed, under the root of what is unpacked or of the machine.
    files: &'static [&'static str],
    /// Whether the machine's own will do.
    is_installed_used: bool,
}

const BESIDE: [Beside; 4] = [
    Beside {
        // The library that makes servers of MariaDB a cluster.
        name: "Galera",
        word: "galera",
        source: Source::Machine,
        packages: &["galera-4"],
        files: &[
            "usr/lib/libgalera_smm.so",
            "usr/lib/galera/libgalera_smm.so",
        ],
        is_installed_used: true,
    },
    Beside {
        name: "Chromium",
        word: "chromium",
        source: Source::Machine,
        packages: &["chromium"],
        files: &["usr/lib/chromium/chromium"],
        is_installed_used: true,
    },
    Beside {
        // What proofs over any entities ask.
        name: "cvc5",
        word: "cvc5",
        source: Source::Machine,
        packages: &["cvc5"],
        files: &["usr/bin/cvc5"],
        is_installed_used: true,
    },
    Beside {
        // The manual's configuration is for a newer version than machines have.
        name: "Neovim",
        word: "neovim",
        source: Source::Unstable,
        packages: &["neovim"],
        files: &["usr/bin/nvim"],
        is_installed_used: false,
    },
];

impl Beside {
    fn root(&self) -> PathBuf {
        find::tools().join(self.word)
    }

    fn find(&self) -> Option<PathBuf> {
        let machine = self.is_installed_used.then(|| PathBuf::from("/"));
        let mut roots = [self.root()].into_iter().chain(machine);
        roots.find_map(|root| {
            let mut places = self.files.iter().map(|file| root.join(file));
            places.find(|file| file.is_file() && self.starts(file))
        })
    }

    /// Whether `file` starts. What is of another system has a launcher that names the folder which it was unpacked into: where that has
    /// moved, it is fetched again.
    fn starts(&self, file: &Path) -> bool {
        match self.source {
            Source::Machine => true,
            Source::Unstable => Command::new(file)
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success()),
        }
    }

    fn fetch(&self) -> Result {
        if !apt::is_here() {
            return Err("there is no apt here".to_owned());
        }
        println!("\n{} is fetched and unpacked under target/tools", self.name);
        let root = self.root();
        if root.exists() {
            // It is there and lacks the file, or that does not start.
            fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        }
        apt::unpack(self.source, self.packages, &root)?;
        match self.source {
            Source::Machine => Ok(()),
            Source::Unstable => {
                (self.files.iter()).try_for_each(|file| wrap(&root, &root.join(file)))
            }
        }
    }
}

fn install(kind: Kind) -> Result {
    if !apt::is_here() {
        return Err("there is no apt here".to_owned());
    }
    if is_root() {
        return apt::install(packages(kind));
    }
    unpack(kind, Source::Machine)
}

fn fetch(kind: Kind) -> Result {
    if !apt::is_here() {
        return Err("there is no apt here".to_owned());
    }
    println!(
        "\n{} is fetched and unpacked under target/tools",
        kind.name()
    );
    unpack(kind, Source::Unstable)?;
    let root = kind.unpacked();
    programs(kind)
        .iter()
        .try_for_each(|program| wrap(&root, &root.join(program)))
}

fn unpack(kind: Kind, source: Source) -> Result {
    let root = kind.unpacked();
    if root.exists() {
        // It is there and was not found to run: a newer one may.
        fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    apt::unpack(source, packages(kind), &root)
}

/// Puts a script in a program's place that runs it with the C library it was built for. The name it
/// is called by stays, since PostgreSQL finds its files from there.
fn wrap(root: &Path, program: &Path) -> Result {
    let at = |error: std::io::Error| format!("{}: {error}", program.display());
    let libraries = find::libraries(root);
    let loader = fs::read_dir(&libraries)
        .map_err(at)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
        })
        .ok_or("the C library was not fetched")?;
    let mut real = program.as_os_str().to_owned();
    real.push(".real");
    fs::rename(program, &real).map_err(at)?;
    let script = format!(
        "#!/bin/sh\nexec '{}' --library-path '{}:{}' --argv0 \"$0\" '{}' \"$@\"\n",
        loader.display(),
        libraries.display(),
        root.join("usr/lib/mysql/private").display(),
        Path::new(&real).display(),
    );
    fs::write(program, script).map_err(at)?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).map_err(at)
}

/// Debian's packages. MariaDB's core packages are the programs without the service.
fn packages(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Postgres => &["postgresql"],
        Kind::MariaDb => &["mariadb-server-core", "mariadb-client-core"],
        Kind::SecondPostgres => &["postgresql-18"],
        Kind::MySql => &["mysql-server-core", "mysql-client-core"],
        Kind::PgBouncer => &["pgbouncer"],
    }
}

/// The programs of an unpacked second version below its folder.
fn programs(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Postgres | Kind::MariaDb => &[],
        Kind::SecondPostgres => &[
            "usr/lib/postgresql/18/bin/postgres",
            "usr/lib/postgresql/18/bin/initdb",
            "usr/lib/postgresql/18/bin/psql",
        ],
        Kind::MySql => &["usr/sbin/mysqld", "usr/bin/mysql"],
        Kind::PgBouncer => &["usr/sbin/pgbouncer"],
    }
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
}
