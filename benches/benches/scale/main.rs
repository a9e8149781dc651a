//! What a schema of 10², 10³ or 10⁴ tables and 1 to 10⁴ policies cost: the start, a new session's first statement, a policy
//! file read again, and memory; and the exponents of their growth.
//!
//! Each line is a process of its own, so that its memory is its own. Arguments name engines (`sqlite`, `postgres`, `mariadb`;
//! without one, SQLite).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

mod world;

use std::{
    fs,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use palisade::{
    audit::NoAudit,
    firewall::Firewall,
    guard::{Backend, Guard},
    host::Host,
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_sqlite::SqliteBackend;
use palisade_testkit::servers::{MariaDbServer, PostgresServer};
use tokio::runtime::Builder;

const TABLES: [usize; 3] = [100, 1_000, 10_000];
const POLICIES: [usize; 5] = [1, 10, 100, 1_000, 10_000];

/// New sessions that ask their first statement; the median is told.
const SESSIONS: usize = 21;

/// What one process tells: the catalog read, the policies loaded over it, a first statement, a policy file read again, all in
/// milliseconds; and its resident memory in MiB.
const FIGURES: [&str; 5] = ["catalog", "policies", "first", "reload", "memory"];

type Line = [f64; FIGURES.len()];

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if let [one, engine, url, tables, policies] = arguments.as_slice()
        && one == "one"
    {
        let line = one_line(
            engine,
            url,
            tables.parse().unwrap(),
            policies.parse().unwrap(),
        );
        println!("{}", line.map(|figure| figure.to_string()).join(" "));
        return;
    }
    let wanted = |engine: &str| match arguments.is_empty() {
        true => engine == "sqlite",
        false => arguments.iter().any(|argument| argument == engine),
    };
    if wanted("sqlite") {
        let folder = tempfile::tempdir().unwrap();
        grid("sqlite", &|tables| {
            let path = folder.path().join(format!("{tables}.db"));
            let database = rusqlite::Connection::open(&path).unwrap();
            let script = format!("BEGIN; {} COMMIT;", world::schema(tables));
            database.execute_batch(&script).unwrap();
            path.to_str().unwrap().to_owned()
        });
    }
    if wanted("postgres") {
        let server = PostgresServer::start_shared().unwrap();
        grid("postgres", &|tables| {
            let database = server.fresh_database(&format!("scale{tables}")).unwrap();
            let schema = world::schema(tables);
            server.load(&database, &schema).unwrap().clean().unwrap();
            server.url(&database)
        });
    }
    if wanted("mariadb") {
        let server = MariaDbServer::start_shared().unwrap();
        grid("mariadb", &|tables| {
            let database = server.fresh_database(&format!("scale{tables}")).unwrap();
            let schema = world::schema(tables);
            server.load(&database, &schema).unwrap().clean().unwrap();
            server.url(&database)
        });
    }
}

/// Prints a line for each size, and the exponents: 1 is growth in proportion, 2 is its square.
fn grid(engine: &str, create: &dyn Fn(usize) -> String) {
    println!(
        "\n{engine}: milliseconds, and MiB of memory\n{:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "tables", "policies", FIGURES[0], FIGURES[1], FIGURES[2], FIGURES[3], FIGURES[4]
    );
    let mut lines: Vec<(usize, usize, Line)> = Vec::new();
    for tables in TABLES {
        let url = create(tables);
        for policies in POLICIES {
            let line = ask_process(engine, &url, tables, policies);
            print!("{tables:>7} {policies:>9}");
            for figure in line {
                print!(" {figure:>9.1}");
            }
            println!();
            lines.push((tables, policies, line));
        }
    }
    let at = |tables: usize, policies: usize| {
        let line = lines
            .iter()
            .find(|(t, p, _)| (*t, *p) == (tables, policies));
        line.unwrap().2
    };
    let print_exponents = |what: &str, small: Line, large: Line| {
        print!("{what:<17}");
        for (small, large) in small.iter().zip(large) {
            print!(" {:>9.2}", (large / small).log10());
        }
        println!();
    };
    print_exponents("tables ×10, p=10³", at(1_000, 1_000), at(10_000, 1_000));
    print_exponents("policies ×10", at(10_000, 1_000), at(10_000, 10_000));
}

fn ask_process(engine: &str, url: &str, tables: usize, policies: usize) -> Line {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["one", engine, url])
        .args([tables.to_string(), policies.to_string()])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<f64> = text.split(' ').map(|f| f.trim().parse().unwrap()).collect();
    figures.try_into().unwrap()
}

fn one_line(engine: &str, url: &str, tables: usize, policies: usize) -> Line {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let sources = world::policies((engine, url), tables, policies);
    runtime.block_on(async {
        let start = Instant::now();
        match engine {
            "sqlite" => {
                let backend = SqliteBackend::open_file(std::path::Path::new(url), "main").unwrap();
                measure(start, backend, sources).await
            }
            "postgres" => {
                let config = PostgresConfig::from_url(url).unwrap().accept_superuser();
                let backend = PostgresBackend::connect(config).await.unwrap();
                measure(start, backend, sources).await
            }
            "mariadb" => {
                let config = MysqlConfig::from_url(url).unwrap().accept_powerful();
                let backend = MysqlBackend::connect(config).await.unwrap();
                measure(start, backend, sources).await
            }
            other => panic!("there is no engine {other}"),
        }
    })
}

async fn measure<B: Backend>(start: Instant, backend: B, sources: PolicySources) -> Line {
    let catalog = ms(start);
    let start = Instant::now();
    let firewall = Firewall::builder(backend.catalog().clone(), sources.clone());
    let firewall = Arc::new(firewall.build().unwrap());
    let policies = ms(start);
    let guard = Guard::new(
        firewall,
        backend,
        Arc::new(Machine(Instant::now())),
        Arc::new(NoAudit),
    );
    let mut first = Vec::new();
    for n in 0..SESSIONS {
        let session = Session::new(Principal::new("Agent", format!("agent {n}")));
        let start = Instant::now();
        let sql = world::statement(n);
        let outcome = guard.query(&sql, &Params::None, &session).await;
        first.push(ms(start));
        match outcome.into_result() {
            Ok(_) => {}
            other => panic!("{other:?}"),
        }
    }
    first.sort_by(f64::total_cmp);
    let mut changed = sources;
    changed.policies[0].text.push_str("\n// changed\n");
    let start = Instant::now();
    guard.reload(&changed).await.unwrap();
    let reload = ms(start);
    [catalog, policies, first[SESSIONS / 2], reload, memory()]
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1_000.0
}

/// What the process has resident, in MiB.
fn memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

struct Machine(Instant);

impl Host for Machine {
    fn unix_time(&self) -> Duration {
        Duration::from_secs(1_800_000_000)
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}
