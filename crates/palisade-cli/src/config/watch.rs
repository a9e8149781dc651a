//! While `serve` runs: a configuration that is edited.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use palisade::{guard::Guard, limits::Limits};
use palisade_mcp::PalisadeServer;
use tokio::{
    sync::watch::{Receiver, Sender, channel},
    task::spawn_blocking,
};

use crate::{
    config::{Config, ConfigFile, Tools, bundle::PolicySetup},
    exit::Failure,
    setup::Setup,
    watch::{Hangups, every},
};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

const STAY: &str = "the configuration does not load; what was in force stays";

/// The connections that are open, and the configuration that was taken up since the start. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Served {
    /// `--policies`, which wins over a configuration.
    policies: Option<PathBuf>,
    state: Arc<Mutex<ServedState>>,
}

#[derive(Default)]
struct ServedState {
    gates: Vec<ServedGate>,
    /// `None` until one is taken up.
    file: Option<Arc<ConfigFile>>,
}

/// An open connection.
struct ServedGate {
    /// Its name in the configuration; none of a database that the command line names.
    connection: Option<String>,
    guard: Arc<Guard>,
    /// Where its policies are.
    folder: Sender<Option<PathBuf>>,
}

impl Served {
    pub(crate) fn new(policies: Option<PathBuf>) -> Self {
        Self {
            policies,
            ..Self::default()
        }
    }

    /// `setup` as a database is served that is opened now: under the limits in force, and the policies as they are on the disk.
    pub(crate) fn renew(&self, setup: &Setup) -> Result<Setup, Failure> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let config = match &state.file {
            Some(file) => find_config(file, setup.connection()),
            None => None,
        };
        let folder = match (&self.policies, config) {
            (None, Some(config)) => config.policies.as_ref().and_then(PolicySetup::folder),
            (Some(_), _) | (_, None) => None,
        };
        let limits = config.map(|config| config.limits.clone());
        setup.renew(limits, folder)
    }

    /// Adds one, and gives where the folder of its policies is told.
    pub(crate) fn add(
        &self,
        connection: Option<&str>,
        guard: &Arc<Guard>,
        folder: Option<&Path>,
    ) -> Receiver<Option<PathBuf>> {
        let (sender, receiver) = channel(folder.map(Path::to_owned));
        let gate = ServedGate {
            connection: connection.map(str::to_owned),
            guard: Arc::clone(guard),
            folder: sender,
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have been taken up while the database was opened.
        if let Some(config) = (state.file.as_ref()).and_then(|file| find_config(file, connection)) {
            self.apply_to(&gate, config);
        }
        state.gates.push(gate);
        receiver
    }

    /// Takes up `file` for all connections, and for those that are opened later.
    fn apply(&self, file: ConfigFile) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for gate in &state.gates {
            if let Some(config) = find_config(&file, gate.connection.as_deref()) {
                self.apply_to(gate, config);
            }
        }
        state.file = Some(Arc::new(file));
    }

    fn apply_to(&self, gate: &ServedGate, config: &Config) {
        let name = gate.connection.as_deref().unwrap_or_default();
        let limits: &Limits = &config.limits;
        if let Err(error) = gate.guard.reload_limits(limits) {
            tracing::error!(connection = name, "its limits stay as they were\n{error}");
        }
        // Whoever takes the folder away does not mean the starter policies.
        if let (None, Some(PolicySetup::Folder(folder))) = (&self.policies, &config.policies) {
            gate.folder.send_if_modified(|current| {
                let is_other = current.as_ref() != Some(folder);
                *current = Some(folder.clone());
                is_other
            });
        }
    }
}

/// What `file` says of a connection; of a database without a name, what it says of all.
fn find_config<'f>(file: &'f ConfigFile, connection: Option<&str>) -> Option<&'f Config> {
    match connection {
        None => Some(file.defaults()),
        Some(name) => file.connection(name).ok().map(|(config, _)| config),
    }
}

/// A configuration that is served, and what the command line says beside it.
pub(crate) struct Watched {
    pub(crate) path: PathBuf,
    /// What it said at the start.
    pub(crate) text: String,
    /// `--tools`, which wins over it.
    pub(crate) tools: Option<Tools>,
    pub(crate) served: Served,
    pub(crate) server: PalisadeServer,
}

/// Takes up what changes in a configuration, as far as that needs no restart, and at once on a hangup signal. A file that is wrong
/// changes nothing, and the log says where it is wrong. Runs for ever.
pub(crate) async fn configuration(watched: Watched) {
    let watched = Arc::new(watched);
    let mut ticks = every(LOOK);
    let mut hangups = Hangups::new();
    // What is in force, what was tried last, and what is there since the last look: an editor may be half-way through.
    let mut in_force = watched.text.clone();
    let mut tried = Some(in_force.clone());
    let mut unsettled = None;
    loop {
        let asked = tokio::select! {
            _ = ticks.tick() => false,
            () = hangups.next() => true,
        };
        let path = watched.path.clone();
        let read = spawn_blocking(move || std::fs::read_to_string(path).ok()).await;
        let Ok(read) = read else { continue };
        if !asked && read == tried {
            unsettled = None;
        } else if asked || unsettled.as_ref() == Some(&read) {
            let (job, before) = (Arc::clone(&watched), in_force.clone());
            let now = read.clone().unwrap_or_default();
            // Limits are a part of what policies are prepared for, which takes time.
            let applied = spawn_blocking(move || job.apply(&before, &now)).await;
            if let (Ok(true), Some(text)) = (applied, &read) {
                in_force.clone_from(text);
            }
            tried = read;
            unsettled = None;
        } else {
            unsettled = Some(read);
        }
    }
}

impl Watched {
    /// Takes up the file, which says `now` what it did not `before`. Whether it could be read.
    fn apply(&self, before: &str, now: &str) -> bool {
        let file = match ConfigFile::read(&self.path) {
            Ok(file) => file,
            Err(failure) => {
                tracing::error!("{STAY}\n{failure}");
                return false;
            }
        };
        let tools = match file.defaults().tools.choose(self.tools) {
            Ok(tools) => tools,
            Err(unknown) => {
                tracing::error!("{STAY}\n{unknown}");
                return false;
            }
        };
        self.server.replace_tools(tools);
        self.served.apply(file);
        tracing::info!("configuration loaded");
        let later = list_restarts(before, now);
        if !later.is_empty() {
            let keys = later.join("`, `");
            tracing::warn!("what changed at `{keys}` needs a restart; until then it is as before");
        }
        true
    }
}

/// The keys that differ and are taken up at a start alone.
fn list_restarts(before: &str, now: &str) -> Vec<String> {
    let (before, now) = (flatten(before), flatten(now));
    let keys = before.keys().chain(now.keys());
    let mut differing: Vec<String> = keys
        .filter(|key| {
            // A folder takes the place of a folder; from a bundle or to one takes a restart.
            let was_bundle = before.contains_key(&format!("{key}.bundle"));
            let is_there = now.contains_key(*key) && !was_bundle;
            before.get(*key) != now.get(*key) && !is_live(key, is_there)
        })
        .cloned()
        .collect();
    differing.sort();
    differing.dedup();
    differing
}

/// Whether what `key` says is taken up while a server runs.
fn is_live(key: &str, is_there: bool) -> bool {
    let of_connection = key
        .strip_prefix("connections.")
        .and_then(|rest| rest.split_once('.'));
    let key = of_connection.map_or(key, |(_, key)| key);
    match key {
        "policies" => is_there,
        "mcp.tools" | "mcp.allow" | "mcp.exclude" => of_connection.is_none(),
        _ => key.starts_with("limits."),
    }
}

/// The values of a TOML text, by the names of their tables with dots between.
fn flatten(text: &str) -> BTreeMap<String, toml::Value> {
    let mut out = BTreeMap::new();
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    let mut open: Vec<(String, toml::Value)> = table.into_iter().collect();
    while let Some((key, value)) = open.pop() {
        match value {
            toml::Value::Table(table) => {
                open.extend(
                    table
                        .into_iter()
                        .map(|(own, value)| (format!("{key}.{own}"), value)),
                );
            }
            value => drop(out.insert(key, value)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_is_listed() {
        let before = "policies = 'p'\n[limits]\nmax_rows = 1\n[connections.a]\nurl = 'sqlite:a'\npolicies = 'q'\n";
        let now = "audit = 'l'\n[limits]\nmax_rows = 2\n[mcp]\ntools = 'core'\nmax_answer_chars = 9000\n[connections.a]\nurl = 'sqlite:b'\npolicies = 'r'\n[connections.a.limits]\nmax_rows = 3\n[connections.b]\nurl = 'sqlite:a'\n";
        assert_eq!(
            list_restarts(before, now),
            [
                "audit",
                "connections.a.url",
                "connections.b.url",
                "mcp.max_answer_chars",
                "policies"
            ]
        );
        assert_eq!(list_restarts(before, before), [""; 0]);
    }
}
