//! The configuration file. It is read only if the command line names it.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod broker;
mod budget;
pub(crate) mod bundle;
pub(crate) mod clients;
pub(crate) mod command;
pub(crate) mod fault;
pub(crate) mod history;
pub(crate) mod http;
mod metrics;
pub(crate) mod oauth;
pub(crate) mod scan;
pub(crate) mod telemetry;
mod unread;
pub(crate) mod watch;
pub(crate) mod webhook;

use std::{
    collections::BTreeMap,
    ops::{Range, RangeInclusive},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::ValueEnum;
use palisade::{
    answer::{Action, Scanner, Sensitivity, SeverityActions},
    did_you_mean,
    guard::Budgets,
    limits::Limits,
    session::Principal,
    token::{Lifetime, LifetimeSyntaxError},
};
use palisade_mcp::{AnswerSize, ToolSet, UnknownToolError};
use serde::Deserialize;
use toml::Spanned;

use crate::{
    config::{
        approvals::{ApprovalSetup, Approvals},
        audit::{Audit, AuditSetup},
        broker::{Broker, BrokerSetup},
        budget::BudgetTable,
        bundle::{PolicyPlace, PolicySetup},
        fault::ConfigFault,
        history::HistoryTable,
        http::{Http, HttpSetup},
        scan::{Scan, Scanning},
        telemetry::{Telemetry, find_host},
    },
    database::Database,
    database_name::Source,
    exit::Failure,
    postgres::SettingName,
    principal_name,
    secret::Secret,
    target::{Acknowledged, Engine, Target},
};

/// What a configuration decides, for a connection or for whatever the command line names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    /// Where policies come from.
    pub(crate) policies: Option<PolicySetup>,
    /// The policy folder on trial.
    pub(crate) candidate: Option<PathBuf>,
    /// Who asks.
    pub(crate) principal: Option<Principal>,
    /// The audit log.
    pub(crate) audit: AuditSetup,
    /// What becomes of a cell in which a detector finds something.
    pub(crate) on_finding: Option<OnFinding>,
    /// How much of what comes back is reported.
    pub(crate) sensitivity: Option<ScanFor>,
    /// What `[scan]` says.
    pub(crate) scanning: Scanning,
    /// What principals may take over time.
    pub(crate) budgets: Option<Arc<Budgets>>,
    /// How often a moment is noted.
    pub(crate) heartbeat: Option<Duration>,
    /// Where the secret behind tokens and hash masks is.
    pub(crate) token_secret: Option<Secret>,
    /// How long tokens last.
    pub(crate) token_lifetime: Option<Lifetime>,
    /// Limits.
    pub(crate) limits: Limits,
    /// Whether statements may change what policies permit.
    pub(crate) writable: bool,
    /// How large an answer of the MCP server may be, whichever connection it is of.
    pub(crate) answer_size: AnswerSize,
    /// Which tools it offers.
    pub(crate) tools: OfferedTools,
    /// Where requests wait for a person's approval.
    pub(crate) approvals: ApprovalSetup,
    /// The collector of traces and metrics.
    pub(crate) collector: Option<String>,
}

impl Config {
    /// What answers are scanned with.
    pub(crate) fn scanner(&self) -> Scanner {
        let sensitivity = self.sensitivity.map(Sensitivity::from);
        let scanner = Scanner::with_sensitivity(sensitivity.unwrap_or_default());
        match self.scanning.rules {
            Some(rules) => scanner.with_rules(rules),
            None => scanner,
        }
    }

    /// What becomes of cells in which a detector finds something.
    pub(crate) fn actions(&self) -> SeverityActions {
        let on_finding = self.on_finding.map(Action::from).unwrap_or_default();
        self.scanning.actions(on_finding)
    }
}

/// A configuration that has been read and checked, every connection of it.
pub(crate) struct ConfigFile {
    shown: String,
    text: String,
    defaults: Config,
    grants: Grants,
    http: HttpSetup,
    broker: BrokerSetup,
    connections: BTreeMap<String, (Config, Database)>,
    /// Where the state file is named.
    state_span: Option<Range<usize>>,
    /// Where each connection names its database.
    url_spans: BTreeMap<String, Range<usize>>,
}

/// `palisade.toml`. Every key may be left out. A key that is not here is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The policy folder; or a table that says where a signed bundle is. Without it, the starter policies apply.
    policies: Option<PolicyPlace>,
    /// Who asks, for example `Agent::"support-bot"`. Without it, `Agent::"default"`.
    principal: Option<Spanned<String>>,
    /// The file to which audit records are appended, one JSON line a call; or a table that says more. Without it, nothing is recorded.
    audit: Option<Audit>,
    /// What becomes of a cell in which a detector finds something: it stays with a note, what is found is replaced, it becomes
    /// null, or the answer is refused. Without it, `"flag"`. `[scan]` can say it by severity.
    on_finding: Option<OnFinding>,
    /// How much is reported of text that reads as instructions: everything that may be one, what is likely one, or what
    /// certainly is. Without it, `"balanced"`.
    sensitivity: Option<ScanFor>,
    /// The environment variable that holds the secret of tokens and hash masks, at least 32 bytes. `[grants]` must name it.
    token_secret_env: Option<Spanned<String>>,
    /// The file that holds this secret, instead of a variable. `[grants]` must name it.
    token_secret_file: Option<Spanned<PathBuf>>,
    /// How long tokens last: `"1m"` to `"365d"`, or `"never"`. Without it, a day.
    token_lifetime: Option<Spanned<String>>,
    /// The limits of all connections.
    #[serde(default)]
    limits: Limits,
    /// What connections may reach.
    #[serde(default)]
    grants: Grants,
    /// What the MCP server does alike for all connections.
    #[serde(default)]
    mcp: Mcp,
    /// Where statements wait for a person's approval.
    #[serde(default)]
    approvals: Approvals,
    /// What `palisade serve --http` does.
    #[serde(default)]
    http: Http,
    /// What `palisade broker` does.
    #[serde(default)]
    broker: Broker,
    /// Where traces and metrics are sent.
    #[serde(default)]
    telemetry: Telemetry,
    /// What is looked for in answers beside the detectors.
    #[serde(default)]
    scan: Scan,
    /// What principals may take within a minute and a day, over all connections.
    #[serde(default)]
    budgets: BudgetTable,
    /// Tables as they were.
    #[serde(default)]
    history: HistoryTable,
    /// The databases, by name.
    #[serde(default)]
    connections: BTreeMap<String, Connection>,
}

/// What connections may reach. What is not named here is refused.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grants {
    /// Servers, as `HOST:PORT`. A socket of PostgreSQL is `FOLDER:PORT`, one of MySQL its path.
    #[serde(default)]
    hosts: Vec<Spanned<String>>,
    /// Environment variables that hold secrets.
    #[serde(default)]
    env: Vec<String>,
    /// Files of passwords and keys, from the folder of the configuration file.
    #[serde(default)]
    files: Vec<PathBuf>,
}

/// `[mcp]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mcp {
    /// Characters of an answer, in each copy that a client could hand to a model: 8000 to 65536. Without it, 40000.
    max_answer_chars: Option<Spanned<usize>>,
    /// Tokens of an answer, as they are estimated: 2000 to 32768. Without it, 10000.
    max_answer_tokens: Option<Spanned<usize>>,
    /// Which tools are offered: all, or the few that an agent needs. Without it, `"full"`. `serve --tools` wins over it.
    tools: Option<Tools>,
    /// Tools that are offered beside those.
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    /// Tools that are never offered.
    #[serde(default)]
    exclude: Vec<Spanned<String>>,
}

/// Which tools the MCP server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tools {
    /// Those that an agent needs
    Core,
    /// All
    Full,
}

impl Tools {
    /// How it is written.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Full => "full",
        }
    }
}

/// Which tools the MCP server offers, with those that are named one by one.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfferedTools {
    set: Option<Tools>,
    /// Names that exist.
    allow: Vec<String>,
    exclude: Vec<String>,
}

impl OfferedTools {
    /// Whether the file says which tools there are.
    pub(crate) fn is_said(&self) -> bool {
        self.set.is_some()
    }

    /// The tools, where the command line asks for `set`.
    pub(crate) fn choose(&self, set: Option<Tools>) -> Result<ToolSet, UnknownToolError> {
        let begun = match set.or(self.set) {
            Some(Tools::Core) => ToolSet::core(),
            Some(Tools::Full) | None => ToolSet::full(),
        };
        let grown = self
            .allow
            .iter()
            .try_fold(begun, |set, name| set.include(name))?;
        self.exclude
            .iter()
            .try_fold(grown, |set, name| set.exclude(name))
    }
}

/// `[connections.NAME]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Connection {
    /// The database: `sqlite:FILE`, `postgres://USER@HOST:PORT/DATABASE` or `mysql://USER@HOST:PORT/DATABASE`. A password in it is refused.
    url: Spanned<String>,
    /// Offers the tool `execute` where some policy permits a change. Without it, `false`.
    #[serde(default)]
    writable: bool,
    /// The environment variable that holds the account's password. `[grants]` must name it.
    password_env: Option<Spanned<String>>,
    /// The file that holds the password, which only its owner may read. `[grants]` must name it. It is read for each new session, so that a changed password is taken up.
    password_file: Option<Spanned<PathBuf>>,
    /// PostgreSQL: the setting in which the server is told the principal of each statement, for example `"app.user"`.
    hand_principal: Option<Spanned<String>>,
    /// PostgreSQL: how a pooler before the server gives out sessions.
    pooled: Option<Spanned<Pooled>>,
    /// Servers: how old the data of a standby may be that is read, for example `"10s"`; from `"1s"` to `"24h"`.
    max_lag: Option<Spanned<String>>,
    /// Lets the connection start on an account that administers the server. Without it, `false`.
    #[serde(default)]
    acknowledge_superuser: bool,
    /// Lets the connection start on an account that can write more than it needs. Without it, `false`.
    #[serde(default)]
    acknowledge_write: bool,
    /// As at the top, for this connection.
    policies: Option<PolicyPlace>,
    /// A policy folder on trial. Its refusals are recorded, and refuse nothing.
    candidate: Option<PathBuf>,
    /// As at the top, for this connection.
    principal: Option<Spanned<String>>,
    /// As at the top, for this connection.
    audit: Option<PathBuf>,
    /// As at the top, for this connection.
    on_finding: Option<OnFinding>,
    /// As at the top, for this connection.
    sensitivity: Option<ScanFor>,
    /// As at the top, for this connection.
    token_secret_env: Option<Spanned<String>>,
    /// As at the top, for this connection.
    token_secret_file: Option<Spanned<PathBuf>>,
    /// As at the top, for this connection.
    token_lifetime: Option<Spanned<String>>,
    /// Limits of this connection. Each that is left out is that of `[limits]`.
    // Read here to be checked; `Reader::limits` gives what counts.
    #[serde(default, rename = "limits")]
    _limits: Limits,
}

/// By what a pooler before the server gives out sessions, where that makes a difference.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Pooled {
    /// By transaction.
    Transaction,
}

/// [`Action`] as it is written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnFinding {
    /// It stays, with a note.
    Flag,
    /// What is found is replaced.
    Redact,
    /// It becomes null.
    Withhold,
    /// The whole answer is refused.
    Block,
}

/// [`Sensitivity`] as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScanFor {
    /// Everything that may be an instruction
    Strict,
    /// What is likely one
    Balanced,
    /// What certainly is one
    Quiet,
}

impl From<ScanFor> for Sensitivity {
    fn from(value: ScanFor) -> Self {
        match value {
            ScanFor::Strict => Self::Strict,
            ScanFor::Balanced => Self::Balanced,
            ScanFor::Quiet => Self::Quiet,
        }
    }
}

impl From<OnFinding> for Action {
    fn from(value: OnFinding) -> Self {
        match value {
            OnFinding::Flag => Self::Flag,
            OnFinding::Redact => Self::Redact,
            OnFinding::Withhold => Self::Withhold,
            OnFinding::Block => Self::Block,
        }
    }
}

impl ConfigFile {
    /// Reads a file; its paths are from the folder it is in.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::Configuration(format!(
                "error: cannot read the configuration `{shown}`: {error}"
            ))
        })?;
        let reader = Reader {
            folder: path.parent().unwrap_or(Path::new("")),
            shown: &shown,
            text: &text,
        };
        reader.read()
    }

    /// Looks for what has to be there when a server starts: the folder of the state file, and the files of databases. Nothing is opened.
    pub(crate) fn look_for_files(&self) -> Result<(), Failure> {
        let fault = |message: &str, span: Option<Range<usize>>, help: &str| {
            let fault = ConfigFault::new(
                (self.shown.as_str(), self.text.as_str()),
                message,
                span,
                help,
            );
            Failure::ConfigurationAt(Box::new(fault))
        };
        if let Some(folder) = self.defaults.approvals.find_missing_folder() {
            let message = format!("there is no folder `{}`", folder.display());
            let help = "make it, or name a file in another";
            return Err(fault(&message, self.state_span.clone(), help));
        }
        for (name, (_, database)) in &self.connections {
            let path = match database {
                Database::Sqlite(path) => path,
                Database::Memory(_) | Database::Server(_) => continue,
            };
            if !path.exists() {
                let message = format!("there is no file `{}`", path.display());
                let help = "make it, or name another; paths begin at the folder of this file";
                return Err(fault(&message, self.url_spans.get(name).cloned(), help));
            }
        }
        Ok(())
    }

    /// What holds where the command line names a database itself.
    pub(crate) fn defaults(&self) -> &Config {
        &self.defaults
    }

    /// The variables of the environment that it grants.
    pub(crate) fn granted_variables(&self) -> &[String] {
        &self.grants.env
    }

    /// The files of secrets that it grants.
    pub(crate) fn granted_files(&self) -> &[PathBuf] {
        &self.grants.files
    }

    /// What the server over HTTP does.
    pub(crate) fn http(&self) -> &HttpSetup {
        &self.http
    }

    /// What the broker does.
    pub(crate) fn broker(&self) -> &BrokerSetup {
        &self.broker
    }

    /// The audit logs that it names.
    pub(crate) fn audits(&self) -> Vec<AuditSetup> {
        let mut audits: Vec<AuditSetup> = Vec::new();
        let of_connections = self.connections.values().map(|(config, _)| &config.audit);
        for audit in std::iter::once(&self.defaults.audit).chain(of_connections) {
            if audit.file.is_some() && !audits.iter().any(|other| other.file == audit.file) {
                audits.push(audit.clone());
            }
        }
        audits
    }

    /// Where requests wait, each place once.
    pub(crate) fn approvals(&self) -> Vec<ApprovalSetup> {
        let mut all: Vec<ApprovalSetup> = Vec::new();
        let of_connections = (self.connections.values()).map(|(config, _)| &config.approvals);
        for setup in std::iter::once(&self.defaults.approvals).chain(of_connections) {
            let name = setup.name_store();
            if name.is_some() && !all.iter().any(|other| other.name_store() == name) {
                all.push(setup.clone());
            }
        }
        all
    }

    /// The names of its connections.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.connections.keys().map(String::as_str)
    }

    /// The connection called `name`.
    pub(crate) fn connection(&self, name: &str) -> Result<(&Config, &Database), Failure> {
        if let Some((config, database)) = self.connections.get(name) {
            return Ok((config, database));
        }
        let names = self.connections.keys().map(String::as_str);
        let help = match did_you_mean::closest(name, names) {
            Some(close) => format!("did you mean `connection:{close}`?"),
            None if self.connections.is_empty() => {
                format!("write `[connections.{name}]` with a `url`")
            }
            None => format!(
                "there is {}",
                self.connections
                    .keys()
                    .map(|name| format!("`connection:{name}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        };
        Err(Failure::Usage(format!(
            "there is no connection `{name}` in `{}`\n  help: {help}",
            self.shown
        )))
    }

    /// Where policies come from, each place once.
    pub(crate) fn policies(&self) -> Vec<PolicySetup> {
        let mut all: Vec<PolicySetup> = Vec::new();
        let of_connections = (self.connections.values()).map(|(config, _)| &config.policies);
        for setup in std::iter::once(&self.defaults.policies)
            .chain(of_connections)
            .flatten()
        {
            if !all.contains(setup) {
                all.push(setup.clone());
            }
        }
        all
    }

    /// Refuses what `[grants]` does not name, of a database that the command line names.
    pub(crate) fn admit(&self, target: &Target) -> Result<(), Failure> {
        match self.grants.refusal(target) {
            None => Ok(()),
            Some((message, help)) => Err(Failure::Configuration(format!(
                "error: {message}\n  help: {help} in `{}`",
                self.shown
            ))),
        }
    }
}

impl Grants {
    /// What `target` would reach that is not granted, and what grants it.
    pub(crate) fn refusal(&self, target: &Target) -> Option<(String, String)> {
        for endpoint in target.endpoints() {
            if !self.has_host(endpoint) {
                return Some((
                    format!("`{endpoint}` is not granted"),
                    format!("`hosts = [\"{endpoint}\"]` under `[grants]` grants it"),
                ));
            }
        }
        let files = target.tls().keys.iter();
        target
            .secret()
            .and_then(|secret| self.refuse_unnamed(secret))
            .or_else(|| files.filter_map(|path| self.unnamed_file(path)).next())
    }

    /// Servers that are granted.
    pub(crate) fn list_hosts(&self) -> Vec<String> {
        let hosts = self.hosts.iter();
        hosts.map(|host| host.get_ref().clone()).collect()
    }

    /// Whether the server at `endpoint` is granted.
    pub(crate) fn has_host(&self, endpoint: &str) -> bool {
        let mut hosts = self.hosts.iter();
        hosts.any(|host| host.get_ref().eq_ignore_ascii_case(endpoint))
    }

    /// That a secret is not granted, and what grants it.
    pub(crate) fn refuse_unnamed(&self, secret: &Secret) -> Option<(String, String)> {
        match secret {
            Secret::Env(name) => {
                (!self.env.contains(name)).then(|| explain_missing_grant("env", name))
            }
            Secret::File(path) => self.unnamed_file(path),
        }
    }

    fn unnamed_file(&self, path: &PathBuf) -> Option<(String, String)> {
        (!self.files.contains(path))
            .then(|| explain_missing_grant("files", &path.display().to_string()))
    }
}

/// That a secret is not granted, and what grants it.
fn explain_missing_grant(key: &str, name: &str) -> (String, String) {
    (
        format!("the secret `{name}` is not granted"),
        format!("`{key} = [\"{name}\"]` under `[grants]` grants it"),
    )
}

/// Reads one file.
pub(crate) struct Reader<'a> {
    pub(crate) folder: &'a Path,
    shown: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn read(&self) -> Result<ConfigFile, Failure> {
        let file: File = toml::from_str(self.text).map_err(|error| self.unread(&error))?;
        let File {
            policies,
            principal,
            audit,
            on_finding,
            sensitivity,
            token_secret_env,
            token_secret_file,
            token_lifetime,
            limits,
            mut grants,
            mcp,
            approvals,
            http,
            broker,
            telemetry,
            scan,
            budgets,
            history,
            connections,
        } = file;
        for host in &grants.hosts {
            let is_place = host.get_ref().starts_with('/')
                || host.get_ref().rsplit_once(':').is_some_and(|(name, port)| {
                    !name.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
                });
            if !is_place {
                return Err(self.fault(
                    &format!("`{}` is no host with its port", host.get_ref()),
                    Some(host.span()),
                    "write `HOST:PORT`, for example `127.0.0.1:5432`; of a socket of PostgreSQL `FOLDER:PORT`, of MySQL its path",
                ));
            }
        }
        for path in &mut grants.files {
            *path = self.folder.join(&*path);
        }
        let audit = self.audit(audit, &grants)?;
        let state_span = approvals.find_state();
        let named = self.approvals(approvals, &grants)?;
        let scanning = scan.check(connections.keys().map(String::as_str));
        let scanning = scanning.map_err(|(what, span, help)| self.fault(&what, span, &help))?;
        let defaults = Config {
            policies: self.policies(policies, &grants)?,
            candidate: None,
            principal: self.principal(principal)?,
            approvals: named.clone().settle_beside(&audit),
            audit,
            on_finding,
            sensitivity,
            scanning,
            budgets: self.budgets(budgets)?,
            heartbeat: self.heartbeat(history)?,
            token_secret: self.token_secret(token_secret_env, token_secret_file, &grants)?,
            token_lifetime: self.lifetime(token_lifetime)?,
            limits,
            writable: false,
            tools: self.offered_tools(&mcp)?,
            answer_size: self.answer_size(mcp)?,
            collector: self.collector(telemetry, &grants)?,
        };
        let url_spans = (connections.iter())
            .map(|(name, connection)| (name.clone(), connection.url.span()))
            .collect();
        let mut checked = BTreeMap::new();
        for (name, connection) in connections {
            let made = self.connection(&name, connection, (&defaults, &named), &grants)?;
            checked.insert(name, made);
        }
        Ok(ConfigFile {
            shown: self.shown.to_owned(),
            text: self.text.to_owned(),
            defaults,
            grants,
            http: self.http(http, &named)?,
            broker: broker.read(self.folder, |what, span, help| self.fault(what, span, help))?,
            connections: checked,
            state_span,
            url_spans,
        })
    }

    /// A connection: what it does not say, the top of the file says.
    fn connection(
        &self,
        name: &str,
        connection: Connection,
        (defaults, approvals): (&Config, &ApprovalSetup),
        grants: &Grants,
    ) -> Result<(Config, Database), Failure> {
        let Connection {
            url,
            writable,
            password_env,
            password_file,
            hand_principal,
            pooled,
            max_lag,
            acknowledge_superuser,
            acknowledge_write,
            policies,
            candidate,
            principal,
            audit,
            on_finding,
            sensitivity,
            token_secret_env,
            token_secret_file,
            token_lifetime,
            _limits: _,
        } = connection;
        let named = [
            password_env.as_ref().map(Spanned::span),
            password_file.as_ref().map(Spanned::span),
        ];
        let secret = self.secret(
            (password_env, password_file),
            ("the password", "`password_env` and `password_file`"),
        )?;
        for (key, span) in [
            ("hand_principal", hand_principal.as_ref().map(Spanned::span)),
            ("pooled", pooled.as_ref().map(Spanned::span)),
        ] {
            let Some(span) = span else { continue };
            match Source::parse(url.get_ref()) {
                Ok(Source::Server(Engine::Postgres, _)) => {}
                Ok(_) | Err(_) => {
                    let message = format!("`{key}` is for PostgreSQL");
                    return Err(self.fault(&message, Some(span), "leave it out"));
                }
            }
        }
        let is_pooled = match pooled.map(Spanned::into_inner) {
            Some(Pooled::Transaction) => true,
            None => false,
        };
        let lag_span = max_lag.as_ref().map(Spanned::span);
        let max_lag = self.period(max_lag, "max_lag")?;
        let at_url = |message: &str, help: &str| self.fault(message, Some(url.span()), help);
        let database = match Source::parse(url.get_ref()) {
            Ok(Source::Sqlite(path)) => {
                if let Some(span) = named.into_iter().flatten().next() {
                    return Err(self.fault("a file has no password", Some(span), "leave it out"));
                }
                if let Some(span) = lag_span {
                    let message = "a file follows no other: `max_lag` is for servers";
                    return Err(self.fault(message, Some(span), "leave it out"));
                }
                if acknowledge_superuser || acknowledge_write {
                    return Err(at_url(
                        "a file has no account to acknowledge anything of",
                        "leave `acknowledge_superuser` and `acknowledge_write` out",
                    ));
                }
                Database::Sqlite(self.folder.join(path))
            }
            Ok(Source::Server(engine, text)) => {
                let target = Target::parse(engine, &text, secret).map_err(|problem| {
                    self.error_without_source(&problem.message, url.span(), &problem.help)
                })?;
                let handed = hand_principal
                    .map(|name| self.check_session_setting(&name))
                    .transpose()?;
                if let Some(path) = target.tls().relative() {
                    return Err(at_url(
                        &format!("`{}` means another file in another folder", path.display()),
                        "in a configuration, write files of the URL from the root, `/…`",
                    ));
                }
                if let Some((message, help)) = grants.refusal(&target) {
                    return Err(at_url(&message, &help));
                }
                let acknowledged = Acknowledged {
                    superuser: acknowledge_superuser,
                    write: acknowledge_write,
                };
                Database::Server(
                    target
                        .acknowledging(acknowledged)
                        .handing(handed)
                        .pooled(is_pooled)
                        .lagging(max_lag),
                )
            }
            Ok(Source::Connection(_)) => {
                return Err(at_url(
                    "a connection does not name another",
                    "write the database's own URL",
                ));
            }
            Err(why) => {
                return Err(self.error_without_source(
                    &why,
                    url.span(),
                    "write the database's URL",
                ));
            }
        };
        let audit = AuditSetup {
            file: audit
                .map(|path| self.folder.join(path))
                .or_else(|| defaults.audit.file.clone()),
            ..defaults.audit.clone()
        };
        let config = Config {
            policies: self
                .policies(policies, grants)?
                .or_else(|| defaults.policies.clone()),
            candidate: candidate.map(|path| self.folder.join(path)),
            principal: self
                .principal(principal)?
                .or_else(|| defaults.principal.clone()),
            approvals: approvals.clone().settle_beside(&audit),
            audit,
            on_finding: on_finding.or(defaults.on_finding),
            sensitivity: sensitivity.or(defaults.sensitivity),
            scanning: match on_finding {
                Some(_) => defaults.scanning.clone().without_severities(),
                None => defaults.scanning.clone(),
            },
            budgets: defaults.budgets.clone(),
            heartbeat: defaults.heartbeat,
            token_secret: self
                .token_secret(token_secret_env, token_secret_file, grants)?
                .or_else(|| defaults.token_secret.clone()),
            token_lifetime: self.lifetime(token_lifetime)?.or(defaults.token_lifetime),
            limits: self.limits(name)?,
            writable,
            answer_size: defaults.answer_size,
            tools: defaults.tools.clone(),
            collector: defaults.collector.clone(),
        };
        Ok((config, database))
    }

    /// A number that is within its range.
    pub(crate) fn number(
        &self,
        value: Option<Spanned<u64>>,
        (key, range): (&str, RangeInclusive<u64>),
    ) -> Result<Option<u64>, Failure> {
        let Some(value) = value else { return Ok(None) };
        if range.contains(value.get_ref()) {
            return Ok(Some(value.into_inner()));
        }
        let (least, most) = (range.start(), range.end());
        let help = format!("write a number from {least} to {most}");
        let message = format!("`{key}` cannot be {}", value.get_ref());
        Err(self.fault(&message, Some(value.span()), &help))
    }

    /// Where traces and metrics are sent.
    fn collector(&self, table: Telemetry, grants: &Grants) -> Result<Option<String>, Failure> {
        let Telemetry { otlp } = table;
        let Some(url) = otlp else {
            return Ok(None);
        };
        let wrong = |message: &str, help: &str| Err(self.fault(message, Some(url.span()), help));
        let Some(host) = find_host(url.get_ref()) else {
            let message = "`otlp` is no address of a collector";
            return wrong(message, "write for example `\"http://localhost:4318\"`");
        };
        if !grants.has_host(&host) {
            let help = format!("`hosts = [\"{host}\"]` under `[grants]` grants it");
            return wrong(&format!("`{host}` is not granted"), &help);
        }
        Ok(Some(url.into_inner()))
    }

    /// Which tools are offered.
    fn offered_tools(&self, mcp: &Mcp) -> Result<OfferedTools, Failure> {
        for name in mcp.allow.iter().chain(&mcp.exclude) {
            ToolSet::full().include(name.get_ref()).map_err(|unknown| {
                let help = "write the name as the manual's table of tools has it";
                self.fault(&unknown.to_string(), Some(name.span()), help)
            })?;
        }
        let names =
            |all: &[Spanned<String>]| all.iter().map(|name| name.get_ref().clone()).collect();
        Ok(OfferedTools {
            set: mcp.tools,
            allow: names(&mcp.allow),
            exclude: names(&mcp.exclude),
        })
    }

    /// How large an answer may be.
    fn answer_size(&self, mcp: Mcp) -> Result<AnswerSize, Failure> {
        let Mcp {
            max_answer_chars,
            max_answer_tokens,
            tools: _,
            allow: _,
            exclude: _,
        } = mcp;
        let usual = AnswerSize::default();
        let within = |value: Option<Spanned<usize>>,
                      usual: usize,
                      (key, range): (&str, RangeInclusive<usize>)| {
            let Some(value) = value else { return Ok(usual) };
            if range.contains(value.get_ref()) {
                return Ok(*value.get_ref());
            }
            let (least, most) = (range.start(), range.end());
            let help = format!("write a number from {least} to {most}");
            let message = format!("`{key}` cannot be {}", value.get_ref());
            Err(self.fault(&message, Some(value.span()), &help))
        };
        Ok(AnswerSize::new(
            within(
                max_answer_chars,
                usual.max_chars(),
                ("max_answer_chars", AnswerSize::CHARS),
            )?,
            within(
                max_answer_tokens,
                usual.max_tokens(),
                ("max_answer_tokens", AnswerSize::TOKENS),
            )?,
        ))
    }

    /// The setting in which the server is told for whom a statement is.
    fn check_session_setting(&self, name: &Spanned<String>) -> Result<SettingName, Failure> {
        SettingName::parse(name.get_ref()).ok_or_else(|| {
            self.fault(
                &format!("`{}` is no name for a setting", name.get_ref()),
                Some(name.span()),
                "write small letters with a dot, for example `hand_principal = \"app.user\"`",
            )
        })
    }

    /// Where a secret is; `what` it is, and its two keys.
    pub(crate) fn secret(
        &self,
        (env, file): (Option<Spanned<String>>, Option<Spanned<PathBuf>>),
        (what, keys): (&str, &str),
    ) -> Result<Option<Secret>, Failure> {
        match (env, file) {
            (None, None) => Ok(None),
            (Some(env), None) => Ok(Some(Secret::Env(env.into_inner()))),
            (None, Some(file)) => Ok(Some(Secret::File(self.folder.join(file.into_inner())))),
            (Some(_), Some(file)) => Err(self.fault(
                &format!("{what} is named twice"),
                Some(file.span()),
                &format!("keep one of {keys}"),
            )),
        }
    }

    /// Where the secret behind tokens is, which must be granted.
    fn token_secret(
        &self,
        env: Option<Spanned<String>>,
        file: Option<Spanned<PathBuf>>,
        grants: &Grants,
    ) -> Result<Option<Secret>, Failure> {
        let span = env
            .as_ref()
            .map(Spanned::span)
            .or(file.as_ref().map(Spanned::span));
        let secret = self.secret(
            (env, file),
            (
                "the token secret",
                "`token_secret_env` and `token_secret_file`",
            ),
        )?;
        match secret
            .as_ref()
            .and_then(|secret| grants.refuse_unnamed(secret))
        {
            None => Ok(secret),
            Some((message, help)) => Err(self.fault(&message, span, &help)),
        }
    }

    /// How long tokens last.
    fn lifetime(&self, text: Option<Spanned<String>>) -> Result<Option<Lifetime>, Failure> {
        text.map(|text| {
            (text.get_ref().parse()).map_err(|error: LifetimeSyntaxError| {
                self.fault(&error.to_string(), Some(text.span()), error.help())
            })
        })
        .transpose()
    }

    /// The limits of a connection: each that it does not set is that of `[limits]`.
    fn limits(&self, connection: &str) -> Result<Limits, Failure> {
        // All of it has been read once, with places; this is the same text.
        let unread = |error| self.unread(&error);
        let table: toml::Table = toml::from_str(self.text).map_err(unread)?;
        let mut limits = toml::Table::new();
        let own = table
            .get("connections")
            .and_then(|all| all.get(connection))
            .and_then(|one| one.get("limits"));
        for layer in [table.get("limits"), own].into_iter().flatten() {
            if let Some(layer) = layer.as_table() {
                limits.extend(layer.clone());
            }
        }
        limits.try_into().map_err(unread)
    }

    fn principal(&self, text: Option<Spanned<String>>) -> Result<Option<Principal>, Failure> {
        text.map(|text| {
            principal_name::parse(text.get_ref()).map_err(|error| {
                self.fault(
                    &format!("`principal`: {error}"),
                    Some(text.span()),
                    "for example `principal = 'Agent::\"support-bot\"'`",
                )
            })
        })
        .transpose()
    }

    pub(crate) fn fault(&self, message: &str, span: Option<Range<usize>>, help: &str) -> Failure {
        let fault = ConfigFault::new((self.shown, self.text), message, span, help);
        Failure::ConfigurationAt(Box::new(fault))
    }

    /// As [`fault`](Self::fault), with the place but not its text, which can hold a password.
    pub(crate) fn error_without_source(
        &self,
        message: &str,
        span: Range<usize>,
        help: &str,
    ) -> Failure {
        let fault = ConfigFault::without_source((self.shown, self.text), message, span, help);
        Failure::ConfigurationAt(Box::new(fault))
    }
}
