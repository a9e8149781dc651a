//! How long the workbench takes over many cases and many columns, beside the loading that every command does.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::run::{FULL, Result, cargo, root};

/// What a folder of cases holds.
const CASES: usize = 10_000;

/// What a folder of columns holds: tables, columns of each, and principals of whom no two see the same.
const TABLES: usize = 500;
const COLUMNS: usize = 20;
const CLASSES: usize = 50;

/// Tags, one of which each column has. A principal reads two of them, or one.
const TAGS: usize = 10;

/// What each of the two may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Measures a release build, or the binary that is named.
pub(crate) fn measure(named: Option<String>) -> Result {
    let binary = match named {
        Some(named) => fs::canonicalize(&named).map_err(|error| format!("{named}: {error}"))?,
        None => {
            let package = ["build", "--release", "--package", "palisade-cli"];
            cargo(&[&package[..], &FULL].concat())?;
            root().join("target/release/palisade")
        }
    };
    let folder = root().join("target/workbench");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| at(&folder, &error))?;
    }
    let (cases, columns) = (folder.join("cases"), folder.join("columns"));
    write_cases(&cases)?;
    write_columns(&columns)?;
    let check = |folder: &Path, catalog: &str| {
        let mut command = Command::new(&binary);
        command.args(["policy", "check", "--catalog"]);
        command.arg(folder.join("tests").join(catalog));
        command.arg("--policies").arg(folder);
        time(&mut command)
    };
    let on = |words: &[&str], folder: &Path| {
        let mut command = Command::new(&binary);
        command.args(words).arg(folder);
        time(&mut command)
    };
    let rows = [
        (
            format!("`policy test` of {CASES} cases"),
            on(&["policy", "test"], &cases)?,
            check(&cases, "desk.sql")?,
        ),
        (
            format!(
                "`policy lock` over {} columns and {CLASSES} classes",
                TABLES * COLUMNS
            ),
            on(&["policy", "lock", "--update"], &columns)?,
            check(&columns, "wide.sql")?,
        ),
    ];
    println!(
        "\n| what | takes | of processors | `policy check` of the folder |\n|---|---|---|---|"
    );
    let mut over = Vec::new();
    for (what, taken, loaded) in rows {
        let [whole, computed, beside] = [taken.whole, taken.computed, loaded.whole]
            .map(|time| format!("{:.1} s", time.as_secs_f64()));
        println!("| {what} | {whole} | {computed} | {beside} |");
        if taken.whole > LIMIT {
            over.push(what);
        }
    }
    match over.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "more than {} s: {}",
            LIMIT.as_secs(),
            over.join(", ")
        )),
    }
}

/// How long a program ran.
struct Taken {
    whole: Duration,
    /// On processors, in all threads: what a busy machine does not add to.
    computed: Duration,
}

fn time(command: &mut Command) -> Result<Taken> {
    let (begun, before) = (Instant::now(), read_computed());
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    match output.status.success() {
        true => Ok(Taken {
            whole: begun.elapsed(),
            computed: read_computed().saturating_sub(before),
        }),
        false => Err(format!(
            "{} failed:\n{}{}",
            command.get_program().display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// What programs that have ended took of processors, by Linux; nothing elsewhere.
fn read_computed() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let (_, after_name) = text.rsplit_once(')').unwrap_or_default();
    // `cutime` and `cstime`, in hundredths of a second (proc_pid_stat(5)); the first field here is the third.
    let fields = after_name.split_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// A desk of several tenants: reads with masks and conditions on rows, refusals, and changes.
fn write_cases(folder: &Path) -> Result {
    let mut sql = "CREATE TABLE customers (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, name TEXT NOT NULL, email TEXT NOT NULL);\n\
         CREATE TABLE tickets (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, status TEXT NOT NULL);\n"
        .to_owned();
    for id in 1..=200 {
        let tenant = id % 10;
        let _ = writeln!(
            sql,
            "INSERT INTO customers VALUES ({id}, {tenant}, 'Name {id}', 'mail{id}@example.org');\nINSERT INTO tickets VALUES ({id}, {tenant}, 'open');"
        );
    }
    let mut cases = String::new();
    for number in 0..CASES {
        let (agent, id) = (number % 10, number % 200 + 1);
        let is_own = id % 10 == agent;
        let (statement, expected) = match number % 20 {
            0 => (
                format!("SELECT secret FROM customers WHERE id = {id}"),
                "decision = \"reject\"\ncode = \"name.unknown-column\"".to_owned(),
            ),
            1 => (
                format!("UPDATE tickets SET status = 'closed' WHERE id = {id}"),
                format!("decision = \"allow\"\naffected = {}", u8::from(is_own)),
            ),
            _ => (
                format!(
                    "SELECT name, email FROM customers WHERE id = {id} OR id = {number} + 1000"
                ),
                match is_own {
                    true => format!(
                        "decision = \"allow\"\nmasked = [\"email\"]\nrows = [[\"Name {id}\", \"***\"]]"
                    ),
                    false => "decision = \"allow\"\nrows = []".to_owned(),
                },
            ),
        };
        let _ = writeln!(
            cases,
            "[[case]]\nname = \"case-{number}\"\nas = 'Agent::\"a{agent}\"'\nsql = \"{statement}\"\n{expected}\n"
        );
    }
    let entities: Vec<_> = (0..10)
        .map(|tenant| json!({"uid": {"type": "Agent", "id": format!("a{tenant}")}, "attrs": {"tenant": tenant}, "parents": []}))
        .collect();
    write(
        folder,
        &[
            ("base.cedar", CASE_POLICIES.to_owned()),
            (
                "principals.cedarschema",
                "entity User;\nentity Agent = { tenant?: Long };\n".to_owned(),
            ),
            ("entities.json", json!(entities).to_string()),
            ("tests/desk.sql", sql),
            ("tests/desk.toml", cases),
        ],
    )
}

const CASE_POLICIES: &str = r#"@id("read")
permit (principal, action in [Action::"select", Action::"read", Action::"update"], resource);
@id("customers")
permit (principal, action == Action::"see", resource is row::main::customers)
when { principal has tenant && resource.tenant == principal.tenant };
@id("tickets")
permit (principal, action in [Action::"see", Action::"change", Action::"add"], resource is row::main::tickets)
when { principal has tenant && resource.tenant == principal.tenant };
@id("status")
permit (principal, action == Action::"write", resource == Column::"main.tickets.status");
@id("mail")
@mask("fixed(***)")
forbid (principal, action == Action::"read_plain", resource == Column::"main.customers.email");
"#;

/// Tables of which each principal reads the columns of its own tags, and sees the rest masked.
fn write_columns(folder: &Path) -> Result {
    let (mut sql, mut tags) = (String::new(), String::new());
    for table in 0..TABLES {
        let columns: Vec<String> = (0..COLUMNS)
            .map(|column| format!("c{column} TEXT"))
            .collect();
        let _ = writeln!(sql, "CREATE TABLE t{table} ({});", columns.join(", "));
        for column in 0..COLUMNS {
            let tag = (table + column) % TAGS;
            let _ = writeln!(
                tags,
                "[[column]]\nname = \"main.t{table}.c{column}\"\ntags = [\"g{tag}\"]\n"
            );
        }
    }
    let mut policies = "@id(\"all\")\npermit (principal, action in [Action::\"select\", Action::\"see\", Action::\"read_masked\"], resource);\n".to_owned();
    let mut entities = Vec::new();
    let pairs = (0..TAGS).flat_map(|one| (one..TAGS).map(move |other| (one, other)));
    for (class, (one, other)) in pairs.take(CLASSES).enumerate() {
        let _ = writeln!(
            policies,
            "@id(\"p{class}\")\npermit (principal == Agent::\"a{class}\", action == Action::\"read_plain\", resource)\nwhen {{ resource.tags.contains(\"g{one}\") || resource.tags.contains(\"g{other}\") }};"
        );
        entities.push(json!({"uid": {"type": "Agent", "id": format!("a{class}")}, "attrs": {}, "parents": []}));
    }
    write(
        folder,
        &[
            ("base.cedar", policies),
            ("entities.json", json!(entities).to_string()),
            ("classification.toml", tags),
            ("tests/wide.sql", sql),
        ],
    )
}

fn write(folder: &Path, files: &[(&str, String)]) -> Result {
    for (name, text) in files {
        let path: PathBuf = folder.join(name);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).map_err(|error| at(above, &error))?;
        }
        fs::write(&path, text).map_err(|error| at(&path, &error))?;
    }
    Ok(())
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
