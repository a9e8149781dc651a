//! The servers, and how each is started at an address.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use palisade_benches::process::resident_mib;

use crate::database::{Database, READER};

/// A running server; it ends with this value.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) address: String,
    pub(crate) tool: &'static str,
    /// A header of every request, with its end of line.
    pub(crate) header: String,
    child: Child,
}

/// Where the programs are, as `cargo xtask load` tells it.
pub(crate) struct Programs {
    palisade: String,
    toolbox: String,
}

impl Programs {
    pub(crate) fn from_environment() -> Self {
        let read = |name: &str| {
            env::var(name).unwrap_or_else(|_| panic!("no {name}: run `cargo xtask load`"))
        };
        Self {
            palisade: read("BENCH_PALISADE"),
            toolbox: read("BENCH_TOOLBOX"),
        }
    }

    /// Every server over `database`, ours first; `folder` holds their files.
    pub(crate) fn start(&self, database: &Database, folder: &Path) -> Vec<Server> {
        let Database::Postgres { port, name } = database else {
            panic!("the load is on PostgreSQL");
        };
        vec![
            self.start_palisade(*port, name, folder),
            self.start_toolbox(*port, name),
        ]
    }

    fn start_palisade(&self, port: u16, database: &str, folder: &Path) -> Server {
        let config = folder.join("palisade.toml");
        let text = format!(
            "[grants]\nhosts = [\"127.0.0.1:{port}\"]\n[http]\nrequests_per_minute = 1000000\n\
             [connections.bench]\nurl = \"postgres://{READER}@127.0.0.1:{port}/{database}\"\n"
        );
        fs::write(&config, text).unwrap();
        let config = config.to_str().unwrap();
        let made = Command::new(&self.palisade)
            .args(["token", "create", "load", "--as", "Agent::\"default\""])
            .args(["--config", config, "--format", "json"])
            .output()
            .unwrap();
        let told: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
        let token = told["token"].as_str().unwrap();
        let address = free_address();
        let mut command = Command::new(&self.palisade);
        command.args(["serve", "--config", config, "--http", &address]);
        Server::start(
            "palisade",
            address,
            "query",
            format!("Authorization: Bearer {token}\r\n"),
            command,
        )
    }

    fn start_toolbox(&self, port: u16, database: &str) -> Server {
        let address = free_address();
        let (host, own) = address.split_once(':').unwrap();
        let mut command = Command::new(&self.toolbox);
        command
            .args(["--prebuilt", "postgres", "--disable-version-check"])
            .args(["--address", host, "--port", own])
            .env("POSTGRES_HOST", "127.0.0.1")
            .env("POSTGRES_PORT", port.to_string())
            .env("POSTGRES_DATABASE", database)
            .env("POSTGRES_USER", READER)
            .env("POSTGRES_PASSWORD", "bench");
        Server::start(
            "@toolbox-sdk/server",
            address,
            "execute_sql",
            String::new(),
            command,
        )
    }
}

impl Server {
    fn start(
        name: &'static str,
        address: String,
        tool: &'static str,
        header: String,
        mut command: Command,
    ) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "{name} does not listen at {address}"
            );
            thread::sleep(Duration::from_millis(50));
        }
        Self {
            name,
            address,
            tool,
            header,
            child,
        }
    }

    /// What the process has resident, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        resident_mib(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that nothing listened at a moment ago.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}
