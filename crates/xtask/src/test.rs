//! Everything that must pass, or a part of it: what is being done, and about how long it still takes.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    clients, docs, editors, licences, packages,
    run::{FULL, Result, cargo, root, run},
    second_opinion, servers,
};

const HELP: &str = "\
Usage: cargo xtask test [--quick] [PART...]

Without a part everything that must pass: formatting, lints, licences, the manual, real MCP clients, every test,
documentation tests, and tests over second versions of the servers. It installs what is missing.

Parts:
  core            the core, the scanner, schemas as texts, and the rules of the source
  sqlite          SQLite, alone and in the tests of several engines
  postgres        the same of PostgreSQL
  mysql           the same of MySQL and MariaDB
  cli             the command line and the manual's commands
  mcp             the MCP server
  corpus          the corpus of statements, on every engine

  --quick         formatting, the core and the corpus on SQLite: no server is started

Examples:
  cargo xtask test --quick
  cargo xtask test sqlite";

/// Tells cargo whether it keeps parts of what it compiled.
const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// Tells a test program how many tests run at once.
pub(crate) const THREADS: &str = "RUST_TEST_THREADS";

/// Whether nothing but this program was built here.
fn is_fresh() -> bool {
    fs::read_dir(root().join("target/debug/incremental")).map_or(true, |kept| {
        kept.flatten()
            .all(|one| one.file_name().to_string_lossy().starts_with("xtask"))
    })
}

/// A part of the tests: packages that are tested whole, and words by which tests of others are chosen.
struct Part {
    name: &'static str,
    packages: &'static [&'static str],
    /// The tests of these packages whose names hold one of these words.
    among: &'static [&'static str],
    words: &'static [&'static str],
    needs_servers: bool,
}

const SHARED: &[&str] = &["palisade-testkit", "palisade-corpus"];

const PARTS: &[Part] = &[
    Part {
        name: "core",
        packages: &["palisade", "palisade-scan", "palisade-ddl", "xtask"],
        among: &[],
        words: &[],
        needs_servers: false,
    },
    Part {
        name: "sqlite",
        packages: &["palisade-sqlite", "palisade-state"],
        among: SHARED,
        words: &["sqlite"],
        needs_servers: false,
    },
    Part {
        name: "postgres",
        packages: &["palisade-pool", "palisade-postgres"],
        among: SHARED,
        words: &["postgres"],
        needs_servers: true,
    },
    Part {
        name: "mysql",
        packages: &["palisade-pool", "palisade-mysql"],
        among: SHARED,
        words: &["mysql", "mariadb"],
        needs_servers: true,
    },
    Part {
        name: "cli",
        packages: &["palisade-cli"],
        among: &[],
        words: &[],
        needs_servers: true,
    },
    Part {
        name: "mcp",
        packages: &["palisade-broker", "palisade-http", "palisade-mcp"],
        among: &[],
        words: &[],
        needs_servers: true,
    },
    Part {
        name: "corpus",
        packages: &["palisade-corpus"],
        among: &[],
        words: &[],
        needs_servers: true,
    },
];

/// Runs what `args` name, or everything.
pub(crate) fn test(args: &[String]) -> Result {
    match args {
        // What is built once is not prepared for being built again: several gigabytes, and a tenth of the time. A panic tells its
        // line all the same.
        [] if env::var_os(INCREMENTAL).is_none() && is_fresh() => {
            let this = env::current_exe().map_err(|why| format!("this program's path: {why}"))?;
            run(Command::new(this)
                .arg("test")
                .env(INCREMENTAL, "0")
                .env("CARGO_PROFILE_DEV_DEBUG", "0"))
        }
        [] => all(),
        [help] if help == "--help" || help == "-h" => {
            println!("{HELP}");
            Ok(())
        }
        [quick] if quick == "--quick" => quickly(),
        names => {
            let find = |name: &String| {
                let part = PARTS.iter().find(|part| part.name == name);
                part.ok_or_else(|| format!("the tests have no part `{name}`\n\n{HELP}"))
            };
            parts(&names.iter().map(find).collect::<Result<Vec<_>>>()?)
        }
    }
}

/// Formatting, the core, and what SQLite alone answers of the corpus.
fn quickly() -> Result {
    let mut progress = Progress::new("quick");
    progress.step("formatting", || cargo(&["fmt", "--all", "--check"]))?;
    let binaries = progress.value("building", build)?;
    let core = PARTS.iter().filter(|part| part.name == "core");
    let mut chosen: Vec<Chosen<'_>> = core.flat_map(|part| choose(&binaries, part)).collect();
    chosen.extend(
        of_packages(&binaries, &["palisade-corpus"]).map(|binary| Chosen {
            binary,
            words: &["sqlite"],
        }),
    );
    run_binaries(&mut progress, &chosen)
}

fn parts(parts: &[&Part]) -> Result {
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    let mut progress = Progress::new(&names.join("-"));
    if parts.iter().any(|part| part.needs_servers) {
        progress.step("servers", servers::install_needed)?;
    }
    let binaries = progress.value("building", build)?;
    let chosen: Vec<Chosen<'_>> = parts
        .iter()
        .flat_map(|part| choose(&binaries, part))
        .collect();
    run_binaries(&mut progress, &chosen)
}

fn all() -> Result {
    let mut progress = Progress::new("all");
    progress.step("formatting", || cargo(&["fmt", "--all", "--check"]))?;
    progress.step("servers", servers::install_needed)?;
    let fetching = thread::spawn(fetch_ahead);
    progress.step("lints", || {
        let lints = ["clippy", "--workspace", "--all-targets"];
        cargo(&[&lints[..], &FULL, &["--", "--deny", "warnings"]].concat())
    })?;
    progress.step("lints of each engine alone", lint_engines)?;
    progress.step("licences", licences::check)?;
    progress.step("packages", packages::check)?;
    progress.step("the manual", || docs::build(&[]))?;
    let binaries = progress.value("building", build)?;
    // What it could not fetch is tried again where it is needed, and told of there.
    let _ = fetching.join();
    progress.step("MCP clients", || {
        clients::check(&root().join("target/debug/palisade"))
    })?;
    progress.step("editors", || {
        editors::check(&root().join("target/debug/palisade"))
    })?;
    let every: Vec<Chosen<'_>> = binaries
        .iter()
        .map(|binary| Chosen { binary, words: &[] })
        .collect();
    run_binaries(&mut progress, &every)?;
    progress.step("examples in comments", || {
        cargo(&[&["test", "--workspace", "--doc"][..], &FULL].concat())
    })?;
    progress.step("the binary with SQLite alone", || {
        cargo(&["test", "--workspace", "--test", "engines"])
    })?;
    // Last, so that what was not run is the last thing said.
    let notes = progress.value("second versions of servers", servers::test_optional)?;
    let more = progress.value("PostgreSQL's own parser", second_opinion::where_possible)?;
    progress.end();
    for note in notes.into_iter().chain(more) {
        println!("\n{note}");
    }
    Ok(())
}

/// Fetches what later steps start, while the compiler works: one waits for the network, the other for the cores.
fn fetch_ahead() {
    servers::fetch_optional();
    let _ = clients::install();
}

/// Lints the binary with each engine alone, and with none.
fn lint_engines() -> Result {
    // The whole workspace, so that what the binary needs is compiled once.
    let lints = [
        "clippy",
        "--workspace",
        "--lib",
        "--bins",
        "--no-default-features",
    ];
    for engine in [
        "",
        "palisade-cli/sqlite",
        "palisade-cli/postgres",
        "palisade-cli/mysql",
    ] {
        cargo(
            &[
                &lints[..],
                &["--features", engine, "--", "--deny", "warnings"],
            ]
            .concat(),
        )?;
    }
    Ok(())
}

/// A test program.
struct Binary {
    package: String,
    name: String,
    program: PathBuf,
    folder: PathBuf,
}

/// A test program, and the words of which one is in the name of each test that it runs; none for all.
struct Chosen<'a> {
    binary: &'a Binary,
    words: &'a [&'static str],
}

/// Builds the programs and the tests of the workspace.
fn build() -> Result<Vec<Binary>> {
    // Programs are built with the tests that start them. Without tests they would have other features of some crates, and
    // nearly everything would be compiled twice.
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(program)
        .args(["test", "--workspace", "--tests", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .args(FULL)
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("the tests do not build: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut binaries: Vec<Binary> = text.lines().filter_map(read_binary).collect();
    if binaries.is_empty() {
        return Err("cargo built no tests".to_owned());
    }
    binaries.sort_by(|a, b| (&a.package, &a.name).cmp(&(&b.package, &b.name)));
    Ok(binaries)
}

/// A test program, if this line of cargo's tells of one.
fn read_binary(line: &str) -> Option<Binary> {
    let json: Value = serde_json::from_str(line).ok()?;
    let is_test = json.get("profile")?.get("test")?.as_bool()?;
    let program = json.get("executable")?.as_str()?;
    let manifest = Path::new(json.get("manifest_path")?.as_str()?);
    let folder = manifest.parent()?;
    is_test.then(|| Binary {
        package: folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        name: json
            .get("target")
            .and_then(|target| target.get("name"))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        program: PathBuf::from(program),
        folder: folder.to_path_buf(),
    })
}

fn of_packages<'a>(
    binaries: &'a [Binary],
    packages: &'a [&str],
) -> impl Iterator<Item = &'a Binary> {
    let is_one = |binary: &&Binary| packages.contains(&binary.package.as_str());
    binaries.iter().filter(is_one)
}

fn choose<'a>(binaries: &'a [Binary], part: &'a Part) -> Vec<Chosen<'a>> {
    let whole = of_packages(binaries, part.packages);
    let some = of_packages(binaries, part.among);
    whole
        .map(|binary| Chosen { binary, words: &[] })
        .chain(some.map(|binary| Chosen {
            binary,
            words: part.words,
        }))
        .collect()
}

/// Test programs that wait for clocks and other programs more than they compute: two of their tests share a core.
const WAITING: &[&str] = &["cli", "protocol"];

/// Those that wait now and then: three of their tests share two cores.
const WAITING_SOMETIMES: &[&str] = &["changes", "infra", "promise", "reads"];

/// How many tests of `binary` run at once, where it is not as many as there are cores.
fn threads(binary: &Binary) -> Option<String> {
    if env::var_os(THREADS).is_some() {
        return None;
    }
    let cores = thread::available_parallelism().ok()?.get();
    let name = binary.name.as_str();
    let threads = match (WAITING.contains(&name), WAITING_SOMETIMES.contains(&name)) {
        (true, _) => 2 * cores,
        (false, true) => cores + cores.div_ceil(2),
        (false, false) => return None,
    };
    Some(threads.to_string())
}

/// Runs all of them, also behind a failure. The end names what failed.
fn run_binaries(progress: &mut Progress, chosen: &[Chosen<'_>]) -> Result {
    let key = |chosen: &Chosen<'_>| format!("{} {}", chosen.binary.package, chosen.binary.name);
    progress.expect(chosen.iter().map(key));
    let mut failed = Vec::new();
    for one in chosen {
        let outcome = progress.step(&key(one), || {
            run(Command::new(&one.binary.program)
                .args(one.words)
                .current_dir(&one.binary.folder)
                .env("CARGO_MANIFEST_DIR", &one.binary.folder)
                .envs(threads(one.binary).map(|threads| (THREADS, threads))))
        });
        failed.extend(outcome.err());
    }
    if !failed.is_empty() {
        return Err(failed.join("\n"));
    }
    progress.end();
    Ok(())
}

/// What was done, and what the same steps took the last time.
struct Progress {
    begun: Instant,
    file: PathBuf,
    before: BTreeMap<String, f64>,
    now: BTreeMap<String, f64>,
}

impl Progress {
    fn new(what: &str) -> Self {
        let file = root().join(format!("target/xtask-times-{what}.json"));
        let text = fs::read_to_string(&file).unwrap_or_default();
        Self {
            begun: Instant::now(),
            file,
            before: serde_json::from_str(&text).unwrap_or_default(),
            now: BTreeMap::new(),
        }
    }

    /// Says which steps come that the last time knew nothing of.
    fn expect(&self, steps: impl Iterator<Item = String>) {
        let new = steps.filter(|step| !self.before.contains_key(step)).count();
        if new > 0 && !self.before.is_empty() {
            println!("\n    {new} steps are new: how long they take is not known");
        }
    }

    fn step(&mut self, name: &str, work: impl FnOnce() -> Result) -> Result {
        self.value(name, work)
    }

    fn value<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let left: f64 = self
            .before
            .iter()
            .filter(|(step, _)| !self.now.contains_key(*step))
            .map(|(_, seconds)| seconds)
            .sum();
        let gone = show(self.begun.elapsed());
        match self.before.is_empty() {
            true => println!("\n── {name} · {gone} gone"),
            false => {
                let left = show(Duration::from_secs_f64(left));
                println!("\n── {name} · {gone} gone, about {left} left");
            }
        }
        let start = Instant::now();
        let value = work()?;
        self.now
            .insert(name.to_owned(), start.elapsed().as_secs_f64());
        Ok(value)
    }

    /// Says what took longest, and remembers how long each step took.
    fn end(&self) {
        let mut steps: Vec<_> = self.now.iter().collect();
        steps.sort_by(|a, b| b.1.total_cmp(a.1));
        println!("\n── done in {}", show(self.begun.elapsed()));
        for (name, seconds) in steps.iter().take(8) {
            println!("   {:>8}  {name}", show(Duration::from_secs_f64(**seconds)));
        }
        if let Ok(text) = serde_json::to_string_pretty(&self.now) {
            // A run without it says no times, and is none the worse.
            let _ = fs::write(&self.file, text);
        }
    }
}

fn show(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {} s", seconds % 60),
    }
}
