//! Real MCP clients against the real binary, and what `serve` costs.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    relay,
    run::{FULL, Result, cargo, root, run},
};

/// The Python client and the MCP inspector list the tools, run a query and see a refusal, over a file and
/// over servers of PostgreSQL and MariaDB; over the file also through a relay and a broker. The Python client does so over HTTP as well, with a token of the server's own and with
/// one of an authorization server, and so does the official conformance suite. Older clients are asked and told in a session. Over a file that may be changed, every tool is called.
pub(crate) fn check(binary: &Path) -> Result {
    let clients = root().join("crates/palisade-testkit/clients");
    let demo = fresh_folder("target/clients/demo")?;
    run(Command::new(binary)
        .arg("demo")
        .arg("--dir")
        .arg(&demo)
        .stdout(Stdio::null()))?;
    let database = format!("sqlite:{}", demo.join("demo.db").display());
    install()?;
    let clients = |database: &str| {
        run(Command::new("bash")
            .arg(clients.join("run.sh"))
            .arg(binary)
            .arg(database))
    };
    clients(&database)?;
    check_relay(binary, &demo, &database)?;
    run(
        Command::new(root().join("target/clients/python/bin/python"))
            .arg(root().join("crates/palisade-testkit/clients/http_client.py"))
            .arg(binary)
            .arg(&demo),
    )?;
    run(
        Command::new(root().join("target/clients/python/bin/python"))
            .arg(root().join("crates/palisade-testkit/clients/oauth_client.py"))
            .arg(binary)
            .arg(&demo)
            .arg(root().join("target/clients/inspector/node-bin/node"))
            .env("CLIENTS_FOLDER", root().join("target/clients/oauth")),
    )?;
    run(
        Command::new(root().join("target/clients/python1/bin/python"))
            .arg(root().join("crates/palisade-testkit/clients/session_client.py"))
            .arg(binary)
            .arg(&demo)
            .arg(root().join("target/clients/inspector/node-bin/node"))
            .arg(root().join("target/clients/typescript/node_modules/@modelcontextprotocol/sdk")),
    )?;
    check_conformance(binary, &demo)?;
    call_every_tool(binary)?;
    for (product, script) in [("postgres", POSTGRES), ("mariadb", MARIADB)] {
        let server = TestServer::start(binary, product, script)?;
        clients(&server.url)?;
    }
    Ok(())
}

/// Installs the clients under `target/clients` where they are missing.
pub(crate) fn install() -> Result {
    run(Command::new("bash").arg(root().join("crates/palisade-testkit/clients/setup.sh")))
}

/// The clients through a relay: they start it, and a broker in the folder of the demonstration answers.
fn check_relay(binary: &Path, demo: &Path, database: &str) -> Result {
    let _broker = relay::start_broker(
        binary,
        demo,
        "[broker]\n[connections.demo]\nurl = \"sqlite:demo.db\"\n",
    )?;
    run(Command::new("bash")
        .arg(root().join("crates/palisade-testkit/clients/run.sh"))
        .arg(binary)
        .arg(database)
        .current_dir(demo)
        .env(
            "SERVE_ARGS",
            "relay --run broker/run --secret broker/secret",
        ))
}

/// The official conformance suite over HTTP, alone.
pub(crate) fn conformance() -> Result {
    // With an example, whose features of other crates are those of the tests: what the fixtures need is compiled once.
    let build = [
        "build",
        "--workspace",
        "--bin",
        "palisade",
        "--example",
        "stdio",
    ];
    cargo(&[&build[..], &FULL].concat())?;
    let binary = root().join("target/debug/palisade");
    let demo = fresh_folder("target/clients/demo")?;
    run(Command::new(&binary)
        .arg("demo")
        .arg("--dir")
        .arg(&demo)
        .stdout(Stdio::null()))?;
    install()?;
    check_conformance(&binary, &demo)
}

/// Both revisions, check by check, beside what is known not to pass: against the binary, and against the suite's own tools behind the same
/// door. These are in no binary: the feature is for the example alone.
fn check_conformance(binary: &Path, demo: &Path) -> Result {
    cargo(&[
        "build",
        "--workspace",
        "--example",
        "conformance",
        "--features",
        "palisade-cli/full,palisade-http/conformance",
    ])?;
    let installed = root().join("target/clients");
    run(Command::new(installed.join("inspector/node-bin/node"))
        .arg(root().join("crates/palisade-testkit/clients/conformance/check.mjs"))
        .arg(binary)
        .arg(root().join("target/debug/examples/conformance"))
        .arg(demo)
        .arg(
            installed
                .join("conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js"),
        ))
}

/// Calls each tool with good and bad arguments, by the Python client in its versions 1 and 2 and by the TypeScript SDK.
fn call_every_tool(binary: &Path) -> Result {
    let scripts = root().join("crates/palisade-testkit/clients/tool_calls");
    let installed = root().join("target/clients");
    let folder = installed.join("tool-calls");
    let python = |version: &str, order: &[&str]| {
        run(Command::new(installed.join(version).join("bin/python"))
            .arg(scripts.join("client.py"))
            .args(order)
            .arg(binary)
            .arg(&folder))
    };
    python("python1", &[])?;
    python("python", &[])?;
    python("python", &["make"])?;
    run(Command::new(installed.join("inspector/node-bin/node"))
        .arg(scripts.join("client.mjs"))
        .arg(binary)
        .arg(&folder)
        .current_dir(installed.join("typescript")))
}

/// Tables to list and an account that can read them.
const POSTGRES: &str = "
    CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, email text, password text);
    CREATE TABLE tickets (id int PRIMARY KEY, customer_id int REFERENCES customers, subject text);
    INSERT INTO customers VALUES (1, 'Ada', 'ada@acme.example', 'x'), (2, 'Elif', 'elif@globex.example', 'y');
    INSERT INTO tickets VALUES (1, 1, 'printer'), (2, 1, 'screen'), (3, 2, 'desk');
    CREATE ROLE palisade_reader LOGIN NOINHERIT;
    GRANT SELECT ON customers, tickets TO palisade_reader;
";

/// The same.
const MARIADB: &str = "
    CREATE TABLE customers (id int PRIMARY KEY, name varchar(40) NOT NULL, email varchar(80), password varchar(40));
    CREATE TABLE tickets (id int PRIMARY KEY, customer_id int REFERENCES customers (id), subject varchar(40));
    INSERT INTO customers VALUES (1, 'Ada', 'ada@acme.example', 'x'), (2, 'Elif', 'elif@globex.example', 'y');
    INSERT INTO tickets VALUES (1, 1, 'printer'), (2, 1, 'screen'), (3, 2, 'desk');
    CREATE USER palisade_reader@'127.0.0.1';
    GRANT SELECT ON customers TO palisade_reader@'127.0.0.1';
    GRANT SELECT ON tickets TO palisade_reader@'127.0.0.1';
";

/// A server that ends with this value.
struct TestServer {
    child: Child,
    /// Of the database, as the account that can only read.
    url: String,
}

impl TestServer {
    /// Starts `product` with a database in which `statements` have run.
    fn start(binary: &Path, product: &str, statements: &str) -> Result<Self> {
        let script = root().join(format!("target/clients/{product}.sql"));
        std::fs::write(&script, statements)
            .map_err(|error| format!("{}: {error}", script.display()))?;
        let program = binary.with_file_name("test-server");
        let mut child = Command::new(&program)
            .arg(product)
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("no stdout")?;
        // Process id and folder come first.
        let url = BufReader::new(output).lines().nth(2);
        let url = url.and_then(std::io::Result::ok).unwrap_or_default();
        let (superuser, place) = url.split_once('@').unwrap_or_default();
        let server = Self {
            child,
            url: match superuser.split_once("://") {
                Some((scheme, _)) => format!("{scheme}://palisade_reader@{place}"),
                None => String::new(),
            },
        };
        if server.url.is_empty() {
            return Err(format!("{} gives no URL", program.display()));
        }
        Ok(server)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Prints the time from start to the first answer, and the resident memory after some, of the
/// release build or of the program that is named. Then what a relay adds.
pub(crate) fn measure(named: Option<String>) -> Result {
    let binary = match named {
        Some(named) => {
            std::fs::canonicalize(&named).map_err(|error| format!("{named}: {error}"))?
        }
        None => {
            cargo(&[
                "build",
                "--release",
                "--package",
                "palisade-cli",
                FULL[0],
                FULL[1],
            ])?;
            root().join("target/release/palisade")
        }
    };
    let demo = fresh_folder("target/clients/measure")?;
    run(Command::new(&binary)
        .arg("demo")
        .arg("--dir")
        .arg(&demo)
        .stdout(Stdio::null()))?;
    let database = format!("sqlite:{}", demo.join("demo.db").display());
    let policies = demo.join("demo-policies");
    let mut times = Vec::new();
    let mut memory = 0;
    for _ in 0..11 {
        let (time, kib) = once(&binary, &database, &policies)?;
        times.push(time);
        memory = memory.max(kib);
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "\nserve: start to first answer {:.1} ms (median of {})",
        ms(median),
        times.len()
    );
    println!(
        "serve: resident memory after 100 queries {:.1} MB (largest)",
        mb(memory)
    );
    relay::measure(&binary, &demo)
}

fn once(binary: &Path, database: &str, policies: &Path) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let mut child = Command::new(binary)
        .args(["serve", database, "--as", "Agent::\"support-bot\""])
        .arg("--policies")
        .arg(policies)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let result = talk(&mut child, start);
    // The child has answered or failed; either way it must not stay.
    let _ = child.kill();
    let _ = child.wait();
    result
}

fn talk(child: &mut Child, start: Instant) -> Result<(Duration, u64)> {
    let mut input = child.stdin.take().ok_or("no stdin")?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no stdout")?);
    let mut ask = |line: &str, answer: bool| -> Result<String> {
        writeln!(input, "{line}").map_err(|error| error.to_string())?;
        let mut text = String::new();
        if answer {
            output
                .read_line(&mut text)
                .map_err(|error| error.to_string())?;
            if text.is_empty() {
                return Err("the server closed its output".to_owned());
            }
        }
        Ok(text)
    };
    let initialize = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "measure", "version": "0"},
        },
    });
    ask(&initialize.to_string(), true)?;
    ask(
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        false,
    )?;
    let mut first = Duration::ZERO;
    for id in 2..102 {
        let call = serde_json::json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "query", "arguments": {"sql": "SELECT * FROM tickets"}},
        });
        let answer = ask(&call.to_string(), true)?;
        if !answer.contains("palisade-data") {
            return Err(format!("not an answer: {answer}"));
        }
        if id == 2 {
            first = start.elapsed();
        }
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))
        .map_err(|error| error.to_string())?;
    let rss = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse().ok())
        .ok_or("no VmRSS")?;
    Ok((first, rss))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mb(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// An empty folder: what an older demonstration left is not what this one makes.
pub(crate) fn fresh_folder(path: &str) -> Result<std::path::PathBuf> {
    let folder = root().join(path);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    std::fs::create_dir_all(&folder).map_err(failed)?;
    Ok(folder)
}
