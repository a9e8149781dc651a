//! From the command line and the configuration file to a firewall over a database.

use std::{path::Path, sync::Arc, time::Duration};

use palisade::{
    answer::{ExpectedFindings, Scanner, SeverityActions},
    audit::{AuditSink, NoAudit},
    catalog::Catalog,
    dialect::Dialect,
    error::Error,
    firewall::Firewall,
    guard::Budgets,
    limits::Limits,
    policy::Lint,
    session::Principal,
    token::{Lifetime, TokenSecret},
};
use palisade_host::AuditFile;
use palisade_mcp::AnswerSize;

use crate::{
    args::{PolicyArguments, SecretArguments},
    bundle::{self, BundleFeed},
    candidate_log::CandidateLog,
    config::{
        Config, ConfigFile, OfferedTools, approvals::ApprovalSetup, audit::AuditArguments,
        bundle::PolicySetup, history::EVERY, scan::Scanning,
    },
    counts::Counts,
    database::{Access, Database, catalog_of_schema},
    database_name::{CatalogSource, Source},
    exit::Failure,
    policies::Policies,
    secret::Secret,
    setup_command::SetupCommand,
    target::Target,
    webhook::Webhook,
};

/// Everything the operator has decided, the database aside.
#[derive(Clone)]
pub(crate) struct Setup {
    /// By what it is decided.
    pub(crate) policies: Policies,
    /// Where newer bundles of them come from, if they are of one.
    pub(crate) feed: Option<Arc<BundleFeed>>,
    /// Whether the policies are the built-in ones because no others are named.
    pub(crate) is_starter: bool,
    /// The policies on trial.
    pub(crate) candidate: Option<Policies>,
    /// Who asks, unless a line of a batch says otherwise.
    pub(crate) principal: Principal,
    /// Where records go.
    pub(crate) audit: Option<Arc<AuditFile>>,
    /// What becomes of a cell in which a detector finds something.
    pub(crate) on_finding: SeverityActions,
    /// What `[scan]` of the configuration says.
    scanning: Scanning,
    /// How much of what comes back is reported.
    pub(crate) scanner: Scanner,
    /// What principals may take over time from what is served.
    pub(crate) budgets: Option<Arc<Budgets>>,
    /// How often `serve` notes a moment.
    pub(crate) heartbeat: Duration,
    /// Whether the operator says how often, so that the tools of history are waited for.
    pub(crate) expects_history: bool,
    /// The secret behind tokens and hash masks.
    token_secret: Option<TokenSecret>,
    /// What a statement may cost.
    pub(crate) limits: Limits,
    /// Whether the configuration lets statements change what policies permit.
    writable: bool,
    /// How large an answer of the MCP server may be.
    pub(crate) answer_size: AnswerSize,
    /// Which tools it offers.
    pub(crate) tools: OfferedTools,
    /// Where requests wait for a person's approval.
    pub(crate) approvals: ApprovalSetup,
    /// What tells people outside of them.
    pub(crate) webhook: Option<Arc<Webhook>>,
    /// What is counted of records and of requests that wait.
    pub(crate) counts: Counts,
    /// The collector of traces and metrics.
    pub(crate) collector: Option<String>,
    /// The connection's name, if it is one of the configuration's.
    connection: Option<String>,
}

impl Setup {
    /// What the command line and the configuration say about `source`, and the database that it is.
    /// `audit` is what the command line says of the audit log, if anything is to be recorded.
    pub(crate) fn over(
        source: Source,
        secret: &SecretArguments,
        arguments: &PolicyArguments,
        audit: Option<&AuditArguments>,
    ) -> Result<(Self, Database), Failure> {
        let connection = match &source {
            Source::Connection(name) => Some(name.clone()),
            Source::Sqlite(_) | Source::Server(_, _) => None,
        };
        let command = SetupCommand::of_source(&source);
        let command = command.map(|command| command.with_arguments(secret, arguments));
        let file = configuration(arguments)?;
        let (config, database) = reach(source, secret, file.as_ref())?;
        let setup = Self::new(&config, arguments, audit)?;
        Ok((
            Self {
                connection,
                ..setup
            },
            match command {
                Some(command) => database.set_up_by(command),
                None => database,
            },
        ))
    }

    /// As [`over`](Self::over), for a database that is named itself, by the policies of a folder or by the built-in ones, where there is
    /// no configuration. `example` is a command that names one.
    pub(crate) fn without_configuration(
        source: &str,
        secret: &SecretArguments,
        policies: Option<&Path>,
        example: &str,
    ) -> Result<(Self, Database), Failure> {
        let source = Source::argument(source)?;
        if let Source::Connection(_) = source {
            return Err(Failure::Usage(format!(
                "a connection of a configuration cannot be named here\n  help: name the database itself, for example \
                 `{example}`"
            )));
        }
        let arguments = PolicyArguments {
            principal: None,
            policies: policies.map(Path::to_owned),
            config: None,
        };
        Self::over(source, secret, &arguments, None)
    }

    /// As [`over`](Self::over), for a database in memory that the statements of `schema` fill.
    pub(crate) fn in_memory(
        schema: Option<&Path>,
        secret: &SecretArguments,
        arguments: &PolicyArguments,
        audit: Option<&AuditArguments>,
    ) -> Result<(Self, Database), Failure> {
        secret.refuse_unused("a database in memory")?;
        let file = configuration(arguments)?;
        let config = file.map(|file| file.defaults().clone()).unwrap_or_default();
        let database = Database::Memory(schema.map(Path::to_owned));
        Ok((Self::new(&config, arguments, audit)?, database))
    }

    /// What the configuration says about those of its connections that are called `names`, or about all if
    /// there are none. What the command line says of one database has no meaning for several.
    pub(crate) fn connections(
        names: &[String],
        secret: &SecretArguments,
        arguments: &PolicyArguments,
        audit: Option<&AuditArguments>,
    ) -> Result<Vec<(Self, Database)>, Failure> {
        secret.refuse_unused("a connection of the configuration")?;
        let file = configuration(arguments)?.ok_or_else(no_configuration)?;
        let names: Vec<&str> = if names.is_empty() {
            file.names().collect()
        } else {
            names.iter().map(String::as_str).collect()
        };
        let given = [
            ("--policies", arguments.policies.is_some()),
            ("--as", arguments.principal.is_some()),
            ("--audit", audit.is_some_and(|audit| audit.audit.is_some())),
            (
                "--audit-key",
                audit.is_some_and(|audit| audit.audit_key.is_some()),
            ),
            (
                "--audit-anchors",
                audit.is_some_and(|audit| audit.audit_anchors.is_some()),
            ),
        ];
        if let ([_, _, ..], Some((option, _))) =
            (names.as_slice(), given.iter().find(|(_, given)| *given))
        {
            return Err(refuse_for_several(option));
        }
        names
            .into_iter()
            .map(|name| {
                let (config, database) = file.connection(name)?;
                let setup = Self {
                    connection: Some(name.to_owned()),
                    ..Self::new(config, arguments, audit)?
                };
                let command = SetupCommand::of_connection(name).with_arguments(secret, arguments);
                Ok((setup, database.clone().set_up_by(command)))
            })
            .collect()
    }

    /// As [`over`](Self::over), for what needs only the catalog. A `dialect` must be the source's own.
    pub(crate) fn over_catalog(
        source: CatalogSource,
        dialect: Option<Dialect>,
        secret: &SecretArguments,
        arguments: &PolicyArguments,
    ) -> Result<(Self, Catalog), Failure> {
        let source = match source {
            CatalogSource::Database(source) => source,
            CatalogSource::Schema(path) => {
                secret.refuse_unused("a file of CREATE statements")?;
                let file = configuration(arguments)?;
                let config = file.map(|file| file.defaults().clone()).unwrap_or_default();
                let setup = Self::new(&config, arguments, None)?;
                let catalog = catalog_of_schema(&path, dialect.unwrap_or(Dialect::Sqlite))?;
                return Ok((setup, catalog));
            }
        };
        let (setup, database) = Self::over(source, secret, arguments, None)?;
        if let Some(asked) = dialect {
            require_dialect(asked, database.dialect())?;
        }
        Ok((setup, database.catalog()?))
    }

    /// As [`over_catalog`](Self::over_catalog), by the built-in policies, whatever the configuration says.
    pub(crate) fn over_catalog_alone(
        source: CatalogSource,
        dialect: Option<Dialect>,
        secret: &SecretArguments,
        arguments: &PolicyArguments,
    ) -> Result<(Self, Catalog), Failure> {
        let file = configuration(arguments)?;
        let (config, catalog) = match source {
            CatalogSource::Schema(path) => {
                secret.refuse_unused("a file of CREATE statements")?;
                let config = file.map(|file| file.defaults().clone()).unwrap_or_default();
                (
                    config,
                    catalog_of_schema(&path, dialect.unwrap_or(Dialect::Sqlite))?,
                )
            }
            CatalogSource::Database(source) => {
                let (config, database) = reach(source, secret, file.as_ref())?;
                (config, database.catalog()?)
            }
        };
        let token_secret = config.token_secret.as_ref().map(Secret::read).transpose()?;
        let token_secret = token_secret.map(|secret| TokenSecret::new(secret.reveal()));
        Ok((
            Self::from_config(&config, Policies::starter(), token_secret),
            catalog,
        ))
    }

    fn new(
        config: &Config,
        arguments: &PolicyArguments,
        audit: Option<&AuditArguments>,
    ) -> Result<Self, Failure> {
        let (policies, feed) = match (&arguments.policies, &config.policies) {
            (Some(folder), _) => (Policies::read(folder)?, None),
            (None, Some(PolicySetup::Folder(folder))) => (Policies::read(folder)?, None),
            (None, Some(PolicySetup::Bundle(setup))) => {
                let feed = bundle::find(setup)?;
                (feed.newest().policies.clone(), Some(feed))
            }
            (None, None) => (Policies::starter(), None),
        };
        let candidate = config
            .candidate
            .as_deref()
            .map(Policies::read)
            .transpose()?;
        let principal = arguments
            .principal
            .as_ref()
            .or(config.principal.as_ref())
            .cloned()
            .unwrap_or_else(|| Principal::new("Agent", "default"));
        let audit = audit.map(|audit| config.audit.with(audit));
        let approvals = match &audit {
            Some(audit) => config.approvals.clone().settle_beside(audit),
            None => config.approvals.clone(),
        };
        // What records nothing asks for no approval.
        let webhook = match (&audit, &approvals.webhook) {
            (Some(_), Some(webhook)) => Some(Arc::new(Webhook::start(webhook)?)),
            (_, None) | (None, Some(_)) => None,
        };
        let audit = match audit {
            Some(audit) => audit.open()?,
            None => None,
        };
        let token_secret = config.token_secret.as_ref().map(Secret::read).transpose()?;
        let token_secret = token_secret.map(|secret| TokenSecret::new(secret.reveal()));
        Ok(Self {
            candidate,
            feed,
            is_starter: arguments.policies.is_none() && config.policies.is_none(),
            principal,
            audit,
            webhook,
            approvals,
            ..Self::from_config(config, policies, token_secret)
        })
    }

    /// What the configuration says, without anything that it would open.
    pub(crate) fn from_config(
        config: &Config,
        policies: Policies,
        token_secret: Option<TokenSecret>,
    ) -> Self {
        let lifetime = config.token_lifetime.unwrap_or(TOKEN_LIFETIME);
        Self {
            policies,
            feed: None,
            candidate: None,
            is_starter: false,
            principal: Principal::new("Agent", "default"),
            audit: None,
            on_finding: config.actions(),
            scanning: config.scanning.clone(),
            scanner: config.scanner(),
            budgets: config.budgets.clone(),
            heartbeat: config.heartbeat.unwrap_or(EVERY),
            expects_history: config.heartbeat.is_some(),
            token_secret: token_secret.map(|secret| secret.lasting(lifetime)),
            limits: config.limits.clone(),
            writable: config.writable,
            answer_size: config.answer_size,
            tools: config.tools.clone(),
            webhook: None,
            counts: Counts::default(),
            approvals: config.approvals.clone(),
            collector: config.collector.clone(),
            connection: None,
        }
    }

    /// The same, by other policies.
    pub(crate) fn with_policies(&self, policies: Policies) -> Self {
        Self {
            policies,
            ..self.clone()
        }
    }

    /// The same under other limits, and with policies that are read anew: from `folder`, or from where they were.
    pub(crate) fn renew(
        &self,
        limits: Option<Limits>,
        folder: Option<&Path>,
    ) -> Result<Self, Failure> {
        let policies = match (&self.feed, folder.or_else(|| self.policies.folder())) {
            (Some(feed), _) => feed.newest().policies.clone(),
            (None, Some(folder)) => Policies::read(folder)?,
            (None, None) => self.policies.clone(),
        };
        Ok(Self {
            is_starter: policies.folder().is_none() && self.feed.is_none(),
            policies,
            limits: limits.unwrap_or_else(|| self.limits.clone()),
            ..self.clone()
        })
    }

    /// Where records go.
    pub(crate) fn audit_sink(&self) -> Arc<dyn AuditSink> {
        let sink = match &self.audit {
            Some(file) => (self.counts).count_records(Arc::clone(file) as Arc<dyn AuditSink>),
            None => Arc::new(NoAudit),
        };
        match &self.candidate {
            Some(_) => Arc::new(CandidateLog::over(sink)),
            None => sink,
        }
    }

    /// What `database` is called before agents and in records.
    pub(crate) fn name_of(&self, database: &Database) -> String {
        self.connection.clone().unwrap_or_else(|| database.name())
    }

    /// Findings that are no news in answers of the database.
    pub(crate) fn expected_findings(&self) -> Vec<ExpectedFindings> {
        self.scanning.list_expected(self.connection.as_deref())
    }

    /// What the configuration expects of columns that `catalog` lacks, each as a sentence.
    pub(crate) fn describe_expected_without_column(&self, catalog: &Catalog) -> Vec<String> {
        let connection = self.connection.as_deref();
        self.scanning.list_without_column(connection, catalog)
    }

    /// What a database is opened for: of a connection of the configuration what that says, of any other what the
    /// command line does.
    pub(crate) fn access(&self, asked: Access) -> Result<Access, Failure> {
        match (asked, &self.connection) {
            (Access::Read, Some(_)) if self.writable => Ok(Access::Write),
            (Access::Write, Some(name)) if !self.writable => Err(Failure::Configuration(format!(
                "error: the connection `{name}` is for reading only\n  help: `writable = true` under \
                 `[connections.{name}]` lets it change what policies permit"
            ))),
            (asked, _) => Ok(asked),
        }
    }

    /// The connection of the configuration that it is of.
    pub(crate) fn connection(&self) -> Option<&str> {
        self.connection.as_deref()
    }

    /// The same, for reading alone.
    pub(crate) fn read_only(self) -> Self {
        Self {
            writable: false,
            ..self
        }
    }

    /// A firewall over `catalog`.
    pub(crate) fn firewall(&self, catalog: Catalog, access: Access) -> Result<Firewall, Failure> {
        self.try_firewall(catalog, access, Lint::Sample)
            .map_err(|error| self.policies.failure(&error))
    }

    /// A firewall over `catalog`, whose policies are tried on as many relations as `lint` says.
    ///
    /// # Errors
    /// What is wrong with the policies.
    pub(crate) fn try_firewall(
        &self,
        catalog: Catalog,
        access: Access,
        lint: Lint,
    ) -> Result<Firewall, Error> {
        let builder = Firewall::builder(catalog, self.policies.sources.clone())
            .limits(self.limits.clone())
            .lint(lint);
        let builder = match &self.token_secret {
            Some(secret) => builder.token_secret(secret.clone()),
            None => builder,
        };
        match access {
            Access::Read => builder,
            Access::Write => builder.allow_changes(),
        }
        .build()
    }
}

/// That the dialect of the command line is that of the database.
pub(crate) fn require_dialect(asked: Dialect, spoken: Dialect) -> Result<(), Failure> {
    if asked == spoken {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "the database speaks {spoken}, not {asked}\n  help: leave `--dialect` out"
    )))
}

/// How long tokens last where the configuration does not say.
const TOKEN_LIFETIME: Lifetime = Lifetime::Span(Duration::from_secs(24 * 60 * 60));

/// That what the command line says of one database has no meaning for several.
pub(crate) fn refuse_for_several(option: &str) -> Failure {
    Failure::Usage(format!(
        "`{option}` is for one database, and several are served\n  help: write it at each connection of the configuration"
    ))
}

fn no_configuration() -> Failure {
    Failure::Usage(
        "connections are those of a configuration\n  help: name the file, `--config palisade.toml`"
            .to_owned(),
    )
}

pub(crate) fn configuration(arguments: &PolicyArguments) -> Result<Option<ConfigFile>, Failure> {
    arguments
        .config
        .as_deref()
        .map(ConfigFile::read)
        .transpose()
}

/// The database that `source` names. Where there is a configuration, it must grant what is reached; where
/// there is none, the command line does.
pub(crate) fn reach(
    source: Source,
    secret: &SecretArguments,
    file: Option<&ConfigFile>,
) -> Result<(Config, Database), Failure> {
    let defaults = || file.map(|file| file.defaults().clone()).unwrap_or_default();
    match source {
        Source::Sqlite(path) => {
            secret.refuse_unused("a file")?;
            Ok((defaults(), Database::Sqlite(path)))
        }
        Source::Server(engine, url) => {
            let target = Target::parse(engine, &url, secret.named_secret())?;
            if let Some(file) = file {
                file.admit(&target)?;
            }
            Ok((defaults(), Database::Server(target)))
        }
        Source::Connection(name) => {
            secret.refuse_unused("a connection of the configuration")?;
            let (config, database) = file.ok_or_else(no_configuration)?.connection(&name)?;
            Ok((config.clone(), database.clone()))
        }
    }
}

impl SecretArguments {
    /// Where the command line says that the password is.
    fn named_secret(&self) -> Option<Secret> {
        match (&self.password_env, &self.password_file) {
            (Some(name), _) => Some(Secret::Env(name.clone())),
            (None, Some(path)) => Some(Secret::File(path.clone())),
            (None, None) => None,
        }
    }

    /// Refuses a password for what has none.
    pub(crate) fn refuse_unused(&self, what: &str) -> Result<(), Failure> {
        match self.named_secret() {
            None => Ok(()),
            Some(_) => Err(Failure::Usage(format!(
                "`--password-env` and `--password-file` are for a database's URL; {what} takes none from the command line\n  help: leave it out"
            ))),
        }
    }
}
