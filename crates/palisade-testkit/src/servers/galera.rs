//! A cluster of MariaDB servers that all take changes (<https://mariadb.com/kb/en/galera-cluster/>).

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::{
    error::ServerError,
    find::tools,
    mysql,
    process::Stop,
    server::{Engine, Home, OnError, Server, free_port},
};

/// How long a node may take to take part, and a server to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a node is given the data of the others. All begin with the same, so that only the position is handed on.
const TRANSFER: &str = include_str!("galera_transfer.sh");

/// Where the library is: fetched, or installed.
fn provider() -> Result<PathBuf, ServerError> {
    let places = [
        tools().join("galera/usr/lib/libgalera_smm.so"),
        PathBuf::from("/usr/lib/galera/libgalera_smm.so"),
    ];
    let found = places.into_iter().find(|place| place.is_file());
    found.ok_or(ServerError::Missing {
        name: "Galera",
        command: "cargo xtask servers",
    })
}

/// A cluster, which is optional: see [the module](super). Its nodes are where MariaDB's other servers are.
#[derive(Debug)]
pub struct GaleraCluster {
    nodes: Vec<Option<Server>>,
    /// Its folder has the data that all began with.
    _seed: Server,
}

impl GaleraCluster {
    /// Starts a cluster of so many nodes.
    ///
    /// # Errors
    /// If MariaDB or Galera cannot be had, or a node does not take part.
    pub fn start(count: usize) -> Result<Self, ServerError> {
        let provider = provider()?;
        let options = |own: &str, all: &str, new: bool| {
            let mut options = vec![
                "--wsrep-on=ON".to_owned(),
                "--wsrep-sst-method=palisade".to_owned(),
                "--wsrep-node-address=127.0.0.1".to_owned(),
                "--binlog-format=ROW".to_owned(),
                "--innodb-autoinc-lock-mode=2".to_owned(),
                format!("--wsrep-provider={}", provider.display()),
                format!("--wsrep-cluster-address=gcomm://{all}"),
                format!(
                    "--wsrep-provider-options={own}gcache.size=8M;evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT6S"
                ),
            ];
            options.extend(new.then(|| "--wsrep-new-cluster".to_owned()));
            options
        };
        let own = |port: u16, transfer: u16| {
            format!("gmcast.listen_addr=tcp://127.0.0.1:{port};ist.recv_addr=127.0.0.1:{transfer};")
        };
        let seed = Self::make_seed(&options(&own(free_port()?, free_port()?), "", true))?;
        let ports = (0..count).map(|_| Ok((free_port()?, free_port()?)));
        let ports = ports.collect::<Result<Vec<_>, ServerError>>()?;
        let all: Vec<String> = ports
            .iter()
            .map(|(port, _)| format!("127.0.0.1:{port}"))
            .collect();
        let mut nodes = Vec::new();
        for (index, (port, transfer)) in ports.iter().enumerate() {
            let options = options(&own(*port, *transfer), &all.join(","), index == 0);
            let node = Server::start(Box::new(Node::new(&options, Some(seed.folder()))?))?;
            wait_for(&node, "wsrep_ready", "ON")?;
            nodes.push(Some(node));
        }
        for node in nodes.iter().flatten() {
            wait_for(node, "wsrep_cluster_size", &count.to_string())?;
        }
        Ok(Self { nodes, _seed: seed })
    }

    /// A server that has ended, whose data are those of a cluster that knows its position.
    fn make_seed(options: &[String]) -> Result<Server, ServerError> {
        let seed = Server::start(Box::new(Node::new(options, None)?))?;
        seed.query("mysql", "SHUTDOWN")?;
        let state = seed.folder().join("data/grastate.dat");
        let begun = Instant::now();
        while !fs::read_to_string(&state).is_ok_and(|text| text.contains("safe_to_bootstrap: 1"))
            || !seed.has_ended()
        {
            if begun.elapsed() > PATIENCE {
                return Err(late(&seed));
            }
            thread::sleep(Duration::from_millis(20));
        }
        let bin = seed.folder().join("bin");
        let script = bin.join("wsrep_sst_palisade");
        fs::create_dir(&bin)
            .and_then(|()| fs::write(&script, TRANSFER))
            .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
            .map_err(|why| ServerError::system("write", &script, &why))?;
        Ok(seed)
    }

    /// The node with this index.
    ///
    /// # Panics
    /// If it was killed, or there is none.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test knows which it killed")]
    pub fn node(&self, index: usize) -> &Server {
        let node = self.nodes.get(index).and_then(Option::as_ref);
        node.expect("the node is there")
    }

    /// Kills a node.
    pub fn kill(&mut self, index: usize) {
        if let Some(node) = self.nodes.get_mut(index) {
            *node = None;
        }
    }
}

fn late(server: &Server) -> ServerError {
    ServerError::Silent {
        name: server.version().to_owned(),
        after: PATIENCE,
        log: server.log(),
    }
}

/// Waits until a node says this of itself.
fn wait_for(node: &Server, status: &str, value: &str) -> Result<(), ServerError> {
    let begun = Instant::now();
    let sql = format!("SHOW STATUS LIKE '{status}'");
    loop {
        let told = node.query("mysql", &sql)?;
        if told.split('\t').nth(1) == Some(value) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(late(node));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// MariaDB as a node; with the data of a seed, if there is one.
#[derive(Debug)]
struct Node {
    server: Box<dyn Engine>,
    seed: Option<PathBuf>,
}

impl Node {
    fn new(options: &[String], seed: Option<&Path>) -> Result<Self, ServerError> {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Ok(Self {
            server: mysql::mariadb(&options)?,
            seed: seed.map(Path::to_owned),
        })
    }
}

impl Engine for Node {
    fn version(&self) -> &str {
        self.server.version()
    }

    fn accounts(&self) -> &'static [&'static str] {
        self.server.accounts()
    }

    fn script(&self) -> Option<&'static str> {
        self.server.script()
    }

    fn has_template(&self) -> bool {
        self.seed.is_none()
    }

    fn initialise(&self, home: &Home) -> Command {
        let Some(seed) = &self.seed else {
            return self.server.initialise(home);
        };
        let mut command = Command::new("sh");
        let copy = "cp -a \"$1/data\" \"$2\" && rm -f \"$2/galera.cache\" \"$2/gvwstate.dat\"";
        command.args(["-c", copy, "sh"]).arg(seed).arg(home.data());
        command
    }

    fn serve(&self, home: &Home, port: u16) -> Command {
        let mut command = self.server.serve(home, port);
        if let Some(seed) = &self.seed {
            let path = format!("{}/bin:/usr/bin:/bin:/usr/sbin:/sbin", seed.display());
            command
                .env("PATH", path)
                .env("PALISADE_TRANSFERS", seed.join("data"));
        }
        command
    }

    fn stop(&self) -> Stop {
        self.server.stop()
    }

    fn ready(&self, home: &Home) -> bool {
        self.server.ready(home)
    }

    fn client(&self, port: u16, user: &str, database: &str, errors: OnError) -> Command {
        self.server.client(port, user, database, errors)
    }

    fn is_failure(&self, line: &str) -> bool {
        self.server.is_failure(line)
    }

    fn scheme(&self) -> &'static str {
        self.server.scheme()
    }

    fn superuser(&self) -> &'static str {
        self.server.superuser()
    }

    fn first_database(&self) -> &'static str {
        self.server.first_database()
    }

    fn quote(&self, name: &str) -> String {
        self.server.quote(name)
    }
}
