//! The servers of the tests: they take scripts, keep databases apart, and leave nothing behind.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    ops::Deref,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use palisade_testkit::servers::{MariaDbServer, MySqlServer, PostgresServer, Server, ServerError};

/// Ids of living processes that work in `folder`. Every process of a server does.
fn processes_in(folder: &Path) -> Vec<String> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.parse::<u32>().is_ok())
        .collect()
}

/// Waits for the server in `folder` to be gone; what is left of it after a minute is a failure.
fn wait_until_gone(process: u32, folder: &Path) {
    let start = Instant::now();
    loop {
        let left = processes_in(folder);
        let gone = left.is_empty() && !folder.exists() && !lives(process);
        if gone {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "left: processes {left:?}, folder {}, first process {}",
            folder.exists(),
            lives(process)
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether this process runs. A process that only waits to be reaped does not.
fn lives(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit(')').next().unwrap().trim_start();
        !state.starts_with('Z')
    })
}

/// Stopping leaves neither a process nor a folder, at once.
fn leaves_nothing(server: impl Deref<Target = Server>) {
    let (process, folder) = (server.process_id(), server.folder().to_path_buf());
    assert!(!processes_in(&folder).is_empty());
    drop(server);
    assert_eq!(processes_in(&folder), Vec::<String>::new());
    assert!(!folder.exists() && !lives(process));
}

/// What holds for every product, from start to stop.
fn check(server: &Server, version: &str) {
    assert!(server.version().contains(version), "{}", server.version());

    server.create_database("first").unwrap();
    server.create_database("it's \"odd\" `name`").unwrap();
    let again = server.create_database("first").unwrap_err();
    assert!(again.to_string().contains("exists"), "{again}");

    let table = "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2);";
    server.load("first", table).unwrap().clean().unwrap();
    assert_eq!(
        server
            .query("first", "SELECT a, a + 1 FROM t ORDER BY a")
            .unwrap(),
        "1\t2\n2\t3"
    );
    let elsewhere = server
        .query("it's \"odd\" `name`", "SELECT a FROM t")
        .unwrap_err();
    assert!(
        matches!(elsewhere, ServerError::Program { .. }),
        "{elsewhere}"
    );

    // A query stops at the first error; a load goes on and notes it.
    let script = "INSERT INTO nowhere VALUES (1);\nINSERT INTO t VALUES (3);\n";
    server.query("first", script).unwrap_err();
    assert_eq!(
        server.query("first", "SELECT count(*) FROM t").unwrap(),
        "2"
    );
    let loaded = server.load("first", script).unwrap();
    assert_eq!(loaded.failures.len(), 1, "{loaded:?}");
    assert!(loaded.failures[0].contains("nowhere"), "{loaded:?}");
    assert!(matches!(loaded.clean(), Err(ServerError::Load(_))));
    assert_eq!(
        server.query("first", "SELECT count(*) FROM t").unwrap(),
        "3"
    );

    // The same from a file, and text that is not ASCII comes out as it went in.
    let file = server.folder().join("script.sql");
    fs::write(
        &file,
        "CREATE TABLE u (s varchar(20)); INSERT INTO u VALUES ('añ𝄞');",
    )
    .unwrap();
    server.load("first", &file).unwrap().clean().unwrap();
    assert_eq!(server.query("first", "SELECT s FROM u").unwrap(), "añ𝄞");

    let fresh = server.fresh_database("label").unwrap();
    let other = server.fresh_database("label").unwrap();
    assert_ne!(fresh, other);

    let port = server.port();
    assert!(
        server
            .url("a b")
            .ends_with(&format!("@127.0.0.1:{port}/a%20b"))
    );
    assert!(
        server
            .url("x")
            .contains(&format!("//{}@", server.superuser()))
    );
    let nobody = server
        .query_as("nobody-there", "first", "SELECT 1")
        .unwrap_err();
    assert!(nobody.to_string().contains("nobody-there"), "{nobody}");
}

#[test]
fn postgres_from_start_to_stop() {
    let server = PostgresServer::start().unwrap();
    check(&server, "PostgreSQL");
    let copy = "CREATE TABLE c (a int, b text);\nCOPY c FROM stdin;\n1\tx;y\n2\t\\N\n\\.\n";
    server.load("first", copy).unwrap().clean().unwrap();
    assert_eq!(
        server
            .query("first", "SELECT a, b FROM c ORDER BY a")
            .unwrap(),
        "1\tx;y\n2\t"
    );
    // A backend that is busy does not look whether its first process is still there.
    let mut busy = busy_backend(&server);
    leaves_nothing(server);
    busy.wait().unwrap();
}

/// A client whose statement keeps a backend computing, and that is seen to do so.
fn busy_backend(server: &Server) -> Child {
    let mut child = server
        .client(server.superuser(), "first")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let statement = b"SELECT count(*) /* busy */ FROM generate_series(1, 100000000000);\n";
    child.stdin.take().unwrap().write_all(statement).unwrap();
    let activity = "SELECT count(*) FROM pg_stat_activity \
                    WHERE query LIKE '%/* busy */%' AND state = 'active' AND pid <> pg_backend_pid()";
    let start = Instant::now();
    while server.query("postgres", activity).unwrap() != "1" {
        assert!(start.elapsed() < Duration::from_secs(60), "never busy");
    }
    child
}

#[test]
fn mariadb_from_start_to_stop() {
    let server = MariaDbServer::start().unwrap();
    check(&server, "MariaDB");
    leaves_nothing(server);
}

#[test]
#[ignore = "needs PostgreSQL 18: cargo xtask test runs it"]
fn postgres_18_from_start_to_stop() {
    let server = PostgresServer::start_second().unwrap();
    check(&server, "(PostgreSQL) 18.");
    // A language is a library of its own, found from where the server is.
    let block = "DO $$ BEGIN CREATE TABLE made (a int); END $$;";
    server.load("first", block).unwrap().clean().unwrap();
    assert!(
        server
            .query("first", "SELECT version()")
            .unwrap()
            .starts_with("PostgreSQL 18.")
    );
    leaves_nothing(server);
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn mysql_9_from_start_to_stop() {
    let server = MySqlServer::start().unwrap();
    check(&server, "Ver 9.");
    assert!(
        server
            .query("first", "SELECT version()")
            .unwrap()
            .starts_with("9.")
    );
    leaves_nothing(server);
}

#[test]
fn two_servers_run_side_by_side() {
    let (first, second) = (
        PostgresServer::start().unwrap(),
        PostgresServer::start().unwrap(),
    );
    assert_ne!(first.port(), second.port());
    first.create_database("only_here").unwrap();
    let count = "SELECT count(*) FROM pg_database WHERE datname = 'only_here'";
    assert_eq!(first.query("postgres", count).unwrap(), "1");
    assert_eq!(second.query("postgres", count).unwrap(), "0");
}

#[test]
fn a_shared_server_is_one() {
    let first = PostgresServer::start_shared().unwrap();
    let second = PostgresServer::start_shared().unwrap();
    assert_eq!(first.process_id(), second.process_id());
}

/// Another process with a shared server, which no destructor ends.
struct Holder {
    child: Child,
    server: u32,
    folder: PathBuf,
}

impl Holder {
    fn start(mut command: Command, product: &str) -> Self {
        let mut child = command
            .arg(product)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let server = lines.next().unwrap().unwrap().parse().unwrap();
        let folder = PathBuf::from(lines.next().unwrap().unwrap());
        let url = lines.next().unwrap().unwrap();
        assert!(url.contains("@127.0.0.1:"), "{url}");
        assert!(lives(server) && folder.exists());
        Self {
            child,
            server,
            folder,
        }
    }
}

const TEST_SERVER: &str = env!("CARGO_BIN_EXE_test-server");

#[test]
fn a_server_dies_with_a_process_that_is_killed() {
    for product in ["postgres", "mariadb"] {
        let mut holder = Holder::start(Command::new(TEST_SERVER), product);
        holder.child.kill().unwrap();
        holder.child.wait().unwrap();
        wait_until_gone(holder.server, &holder.folder);
    }
}

#[test]
fn a_server_dies_with_a_process_that_ends_by_itself() {
    for product in ["postgres", "mariadb"] {
        let mut holder = Holder::start(Command::new(TEST_SERVER), product);
        drop(holder.child.stdin.take());
        assert!(holder.child.wait().unwrap().success());
        wait_until_gone(holder.server, &holder.folder);
    }
}

/// Without root a server runs as its owner. Where the tests run as root, this one becomes `nobody`.
#[test]
fn an_ordinary_user_has_servers_too() {
    // The build's folder may be closed to others.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("test-server");
    fs::copy(TEST_SERVER, &program).unwrap();
    let root = fs::metadata("/proc/self").is_ok_and(|metadata| {
        use std::os::unix::fs::MetadataExt as _;
        metadata.uid() == 0
    });
    for product in ["postgres", "mariadb"] {
        let mut command = if root {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"])
                .arg(&program);
            command
        } else {
            Command::new(&program)
        };
        command.current_dir(folder.path());
        let mut holder = Holder::start(command, product);
        let status = fs::read_to_string(format!("/proc/{}/status", holder.server)).unwrap();
        let uid = status
            .lines()
            .find(|line| line.starts_with("Uid:"))
            .unwrap();
        assert!(!uid.split_whitespace().any(|number| number == "0"), "{uid}");
        drop(holder.child.stdin.take());
        assert!(holder.child.wait().unwrap().success());
        wait_until_gone(holder.server, &holder.folder);
    }
}
