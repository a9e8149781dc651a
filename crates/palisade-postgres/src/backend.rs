//! The PostgreSQL side of the gate.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use palisade::{
    catalog::{Catalog, Change, Companion, Relation},
    change::LedgerEntry,
    dialect::Dialect,
    guard::{
        Backend, BackendError, BackendErrorKind, BackendFuture, ChangeEnd, ChangeOrder, Completion,
        GivenEstimates, OpenTicket, RowSink, Ticket,
    },
    ident,
    past::{HistoryOrder, Label, LabelStanding},
    value::Value,
};
use palisade_pool::{Ended, Failed, Pool, PoolSize, Statement, Task, Work};
use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::Client;

use crate::{
    config::PostgresConfig,
    connect::{ConnectError, Connector, Session, cleaning},
    execute::{self, Ground, SYSTEM_COLUMNS},
    fault, history,
    introspect::{self, IntrospectError},
    ledger,
    rehearse::{self, Stage},
    schema_change::{self, Schema},
    second_look::Outside,
    settings::Features,
    weaknesses,
    wire::MAX_MESSAGE_BYTES,
    write::{self, Facts},
};

/// How long reading the catalog may take.
const CATALOG_TIME: Duration = Duration::from_secs(60);

/// A PostgreSQL database as it was when its catalog was read.
///
/// A value never changes: when the schema of what a statement reads does, [`execute`](Backend::execute)
/// answers [`BackendErrorKind::SchemaChanged`] and [`refresh`](Self::refresh) makes a new value, to go with a new
/// firewall. So no statement that was checked against one catalog runs on another. Clones and refreshed values
/// share their connections.
#[derive(Clone)]
pub struct PostgresBackend {
    pub(crate) pool: Pool<Connector>,
    /// For changes, and for what must be as the last one left it: the pool, unless that may be of a standby.
    primary: Pool<Connector>,
    outside: Outside,
    /// For the state before a change that is looked at. Whoever uses it takes one of the pool's after that.
    before: Pool<Connector>,
    config: Arc<PostgresConfig>,
    features: Features,
    schema: Arc<Schema>,
    catalog: Arc<Catalog>,
}

impl PostgresBackend {
    /// Connects to a database and reads its catalog. Connections run on the caller's runtime, which must
    /// drive input, output and time.
    ///
    /// # Errors
    /// If the database cannot be reached, the account is a superuser whom
    /// [`accept_superuser`](PostgresConfig::accept_superuser) does not admit, or the catalog cannot be read.
    pub async fn connect(config: PostgresConfig) -> Result<Self, ConnectError> {
        let pool = Pool::new(Connector::new(&config), config.size, Handle::current());
        let outside = Outside::new(&config);
        let one = PoolSize {
            connections: 1,
            waiting: config.size.connections,
        };
        let before = Pool::new(Connector::for_changes(&config), one, Handle::current());
        let primary = match config.is_spread() {
            true => Pool::new(
                Connector::for_changes(&config),
                config.size,
                Handle::current(),
            ),
            false => pool.clone(),
        };
        let mut lease = pool.lease().await?;
        let client = &lease.session()?.client;
        if !config.accepts_superuser
            && let Some(role) = weaknesses::superuser(client).await?
        {
            return Err(ConnectError::Superuser(role));
        }
        let features = Features::read(client).await?;
        let (catalog, schema) = read(client).await?;
        lease.give_back().await;
        Ok(Self {
            pool,
            primary,
            outside,
            before,
            config: Arc::new(config),
            features,
            schema: Arc::new(schema),
            catalog: Arc::new(catalog),
        })
    }

    /// What the database held when its catalog was read.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The database as it is now, if its schema differs from the one this value was made with.
    ///
    /// # Errors
    /// If the catalog cannot be read any more.
    pub async fn refresh(&self) -> Result<Option<Self>, ConnectError> {
        let mut lease = self.pool.lease().await?;
        let (catalog, schema) = read(&lease.session()?.client).await?;
        lease.give_back().await;
        if schema == *self.schema && catalog.version() == self.catalog.version() {
            return Ok(None);
        }
        Ok(Some(Self {
            schema: Arc::new(schema),
            catalog: Arc::new(catalog),
            ..self.clone()
        }))
    }

    fn facts<'a>(&'a self, session: &'a Session) -> Facts<'a> {
        Facts {
            client: &session.client,
            schema: &self.schema,
            catalog: &self.catalog,
            outside: &self.outside,
            is_fixed: false,
        }
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            features: self.features,
            search_path: self.catalog.search_path(),
            schema: &self.schema,
            handed: self.config.handed.as_ref(),
        }
    }

    fn stage(&self) -> Stage<'_> {
        Stage {
            ground: self.ground(),
            catalog: &self.catalog,
            outside: &self.outside,
            is_pooled: self.config.is_pooled,
        }
    }

    /// Runs `task` within its time.
    pub(crate) async fn run(
        &self,
        task: &Task<'_>,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<Completion, BackendError> {
        let mut run = Run {
            backend: self,
            task,
            sink,
            completion: Completion::default(),
        };
        let _turn = self.primary.take_turn(std::slice::from_ref(task)).await?;
        let time = task.limits.statement_timeout();
        let pool = match task.needs_primary() {
            true => &self.primary,
            false => &self.pool,
        };
        let ran = pool.run(time, task.cancel, &mut run).await;
        ran.map_err(|error| self.name_grant(error, task))?;
        Ok(run.completion)
    }
}

/// A statement on its way to the sink.
struct Run<'a> {
    backend: &'a PostgresBackend,
    task: &'a Task<'a>,
    sink: &'a mut (dyn RowSink + Send),
    completion: Completion,
}

impl Run<'_> {
    async fn steps(&mut self, session: &mut Session) -> Result<(), Failed> {
        let config = &self.backend.config;
        let ground = self.backend.ground();
        let cleaning = cleaning(config.is_pooled);
        let opened = execute::open(session, ground, self.task, cleaning)
            .await
            .map_err(|error| match error.kind {
                BackendErrorKind::Unavailable => Failed::Lost(error),
                BackendErrorKind::Timeout
                | BackendErrorKind::Cancelled
                | BackendErrorKind::Resource
                | BackendErrorKind::Rejected
                | BackendErrorKind::NameNotFound
                | BackendErrorKind::NotGranted
                | BackendErrorKind::SecondLock
                | BackendErrorKind::Constraint
                | BackendErrorKind::AffectedRows
                | BackendErrorKind::NotAdmitted
                | BackendErrorKind::Forbidden
                | BackendErrorKind::ReadOnly
                | BackendErrorKind::Cost
                | BackendErrorKind::NotPreviewable
                | BackendErrorKind::NotTaken
                | BackendErrorKind::OutcomeUnknown
                | BackendErrorKind::Conflict
                | BackendErrorKind::Locked
                | BackendErrorKind::Busy
                | BackendErrorKind::NoMoment
                | BackendErrorKind::SchemaChanged => Failed::Running(error),
            })?;
        let (backend, task, sink) = (self.backend, self.task, &mut *self.sink);
        match task.work {
            Work::Read => {
                execute::answer(session, ground.schema, opened, task, Some(cleaning), sink).await
            }
            Work::Explain => write::explain(backend.facts(session), opened, task, sink).await,
            Work::Change(changes) => {
                write::change(backend.facts(session), opened, task, changes, sink)
                    .await
                    .map(|completion| self.completion = completion)
            }
            Work::Define => write::define(backend.facts(session), opened, task).await,
        }
        .map_err(Failed::Running)
    }
}

impl Statement<Session> for Run<'_> {
    async fn attempt(&mut self, session: &mut Session) -> Result<Ended, Failed> {
        let result = self.steps(session).await;
        if result.is_err() && session.excess.happened() {
            // The connection broke because we would not read what came.
            return Err(Failed::Running(BackendError::new(
                BackendErrorKind::Resource,
                format!("a row is larger than {MAX_MESSAGE_BYTES} bytes"),
            )));
        }
        // What is still on its way is little: the cursor gave a batch.
        result.map(|()| Ended::Clean)
    }

    async fn keep(&mut self, session: &mut Session) -> Result<(), BackendError> {
        if self.task.work.is_committed() {
            write::keep(&session.client, self.backend.config.is_pooled).await
        } else {
            Ok(())
        }
    }
}

impl Backend for PostgresBackend {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn is_current(&self) -> BackendFuture<'_, bool> {
        Box::pin(async move {
            let look = async |session: &mut Session| introspect::fingerprint(&session.client).await;
            let read = self.pool.look(CATALOG_TIME, look).await?;
            Ok(read == self.schema.fingerprint())
        })
    }

    fn refreshed(&self) -> BackendFuture<'_, Option<Arc<dyn Backend>>> {
        Box::pin(async move {
            let now = self
                .refresh()
                .await
                .map_err(|error| BackendError::unavailable(error.to_string()))?;
            Ok(now.map(|now| Arc::new(now) as Arc<dyn Backend>))
        })
    }

    fn gives_estimates(&self) -> GivenEstimates {
        GivenEstimates {
            cost: true,
            rows: true,
        }
    }

    fn execute<'a>(
        &'a self,
        ticket: Ticket,
        sink: &'a mut (dyn RowSink + Send),
    ) -> BackendFuture<'a, Completion> {
        Box::pin(async move {
            let ticket = ticket.open(&self.catalog)?;
            match Task::admit(&ticket, self.config.is_writable)? {
                Some(task) => self.run(&task, sink).await,
                None => Ok(Completion::default()),
            }
        })
    }

    fn find_receipt<'a>(&'a self, change: &'a str) -> BackendFuture<'a, LedgerEntry> {
        Box::pin(async move {
            let look = async |session: &mut Session| {
                let found = ledger::find_receipt(&session.client, &self.catalog, change).await;
                Ok::<_, BackendError>(found)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn list_receipts(&self) -> BackendFuture<'_, Option<Vec<(String, String)>>> {
        Box::pin(async move {
            let look = async |session: &mut Session| {
                let listed = ledger::list_receipts(&session.client, &self.catalog).await;
                Ok::<_, BackendError>(listed)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn read_images<'a>(&'a self, change: &'a str) -> BackendFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            let look = async |session: &mut Session| {
                let read = ledger::read_images(&session.client, &self.catalog, change).await;
                Ok::<_, BackendError>(read)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn prune_images(&self, kept_ms: u64) -> BackendFuture<'_, Option<u64>> {
        Box::pin(async move {
            let look = async |session: &mut Session| {
                let pruned = ledger::prune_images(&session.client, &self.catalog, kept_ms).await;
                Ok::<_, BackendError>(pruned)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn take_label(&self) -> BackendFuture<'_, Option<Label>> {
        Box::pin(async move {
            if !self.catalog.has_history() {
                return Ok(None);
            }
            let look = async |session: &mut Session| {
                Ok::<_, BackendError>(history::take_label(&session.client).await)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn check_label<'a>(
        &'a self,
        label: &'a Label,
        companions: &'a [Companion],
    ) -> BackendFuture<'a, LabelStanding> {
        Box::pin(async move {
            let look = async |session: &mut Session| {
                let client = &session.client;
                let checked = history::check_label(client, &self.catalog, label, companions);
                Ok::<_, BackendError>(checked.await)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn list_changed_keys<'a>(
        &'a self,
        relation: &'a Relation,
        between: (&'a Label, Option<&'a Label>),
        most: u32,
    ) -> BackendFuture<'a, Vec<Vec<Value>>> {
        Box::pin(async move {
            let Some(companion) = self.catalog.companion(relation) else {
                return Ok(Vec::new());
            };
            let look = async |session: &mut Session| {
                let client = &session.client;
                let listed = history::list_changed_keys(client, relation, companion, between, most);
                Ok::<_, BackendError>(listed.await)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn list_writes<'a>(
        &'a self,
        relation: &'a Relation,
        key: Option<&'a [Value]>,
        most: u32,
    ) -> BackendFuture<'a, Vec<u64>> {
        Box::pin(async move {
            let Some(companion) = self.catalog.companion(relation) else {
                return Ok(Vec::new());
            };
            let look = async |session: &mut Session| {
                let client = &session.client;
                let listed = history::list_writes(client, relation, companion, key, most);
                Ok::<_, BackendError>(listed.await)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn write_history_script(
        &self,
        relation: &Relation,
        order: &HistoryOrder,
    ) -> Result<String, String> {
        history::write_script(relation, order)
    }

    fn previews_changes(&self) -> bool {
        self.config.is_writable
    }

    fn change(&self, order: ChangeOrder) -> BackendFuture<'_, ChangeEnd> {
        Box::pin(async move {
            // Triggers run: what they did to the change's rows is undone by hand, or the preview is a conflict.
            let ChangeOrder {
                tickets,
                purpose,
                is_inverse: _,
            } = order;
            let tickets = tickets.into_iter().map(|ticket| ticket.open(&self.catalog));
            let tickets: Vec<OpenTicket> = tickets.collect::<Result<_, _>>()?;
            let tasks = Task::admit_change(&tickets, self.config.is_writable)?;
            let sessions = (&self.primary, &self.before);
            let end = rehearse::run_change(self.stage(), sessions, &tasks, &purpose).await?;
            Ok(match end {
                ChangeEnd::Failed { statement, error } => {
                    let named = tasks
                        .get(statement)
                        .map(|task| self.name_grant(error.clone(), task));
                    // Of the ledger and of history a statement says nothing.
                    let named = named.filter(|named| named.kind == error.kind);
                    ChangeEnd::Failed {
                        statement,
                        error: named.unwrap_or(error),
                    }
                }
                ran @ ChangeEnd::Ran(_) => ran,
            })
        })
    }
}

/// Whether a relation is of the schema that the server calls `name`.
fn is_in_schema(uid: &str, name: &str) -> bool {
    let inside = uid.strip_prefix(ident::qualify([name]).as_str());
    inside.is_some_and(|rest| rest.starts_with('.'))
}

impl PostgresBackend {
    /// Adds the grant that the operator has to make to a failure for the lack of one, of something that the statement itself reads or
    /// changes. Of anything else, such as a relation of the server's own, it contradicts what was decided.
    fn name_grant(&self, mut error: BackendError, task: &Task<'_>) -> BackendError {
        if error.kind != BackendErrorKind::NotGranted {
            return error;
        }
        let account = ident::quote(self.config.server.get_user().unwrap_or_default());
        let denied = error.detail.split_once("permission denied for ");
        let denied = denied.map_or("", |(_, object)| object);
        let object_of = |kind: &str| denied.strip_prefix(kind).map(str::to_owned);
        // The server names it without its schema.
        let is_named = |uid: &&String| {
            let name = uid.rsplit('.').next().unwrap_or(uid);
            let end = format!(" {}", name.trim_matches('"'));
            !schema_change::is_system(uid) && error.detail.ends_with(&end)
        };
        // What a filter looks up is read, and stands in no FROM of the caller's.
        let looked_up = object_of("table ").filter(|name| {
            let mut reads = task.reads.iter();
            reads.any(|(table, _)| table == name)
        });
        let is_of_table = (task.relations.iter().any(|uid| is_named(&uid)) || looked_up.is_some())
            && object_of("sequence ").is_none()
            && object_of("schema ").is_none();
        let of_schema = object_of("schema ").and_then(|name| {
            let schema = ident::quote(&name);
            let mut own = task
                .relations
                .iter()
                .filter(|uid| !schema_change::is_system(uid));
            own.any(|uid| is_in_schema(uid, &name))
                .then(|| format!("GRANT USAGE ON SCHEMA {schema} TO {account};"))
        });
        let other = match task.work {
            Work::Read | Work::Explain => of_schema,
            Work::Change(_) => {
                // The numbers of a column that is left out.
                let of_sequence = object_of("sequence ").map(|name| {
                    format!(
                        "GRANT USAGE ON SEQUENCE {} TO {account};",
                        ident::quote(&name)
                    )
                });
                // What a trigger does, it does with the rights of the account.
                let of_trigger = object_of("table ").and_then(|table| {
                    let name = table.strip_suffix(fault::IN_FUNCTION)?;
                    let name = ident::quote(name);
                    Some(format!(
                        "GRANT INSERT ON {name} TO {account}; (a trigger writes it; or make its function SECURITY DEFINER)"
                    ))
                });
                of_sequence.or(of_trigger).or(of_schema)
            }
            Work::Define => {
                let in_schema = object_of("schema ").map(|name| ("CREATE ON SCHEMA", name));
                // Other definitions of a table that is there are its owner's.
                let of_table = object_of("table ").map(|name| ("TRUNCATE ON", name));
                in_schema.or(of_table).map(|(grant, name)| {
                    format!("GRANT {grant} {} TO {account};", ident::quote(&name))
                })
            }
        };
        if !is_of_table && other.is_none() {
            return BackendError::second_lock(error.detail);
        }
        error
            .detail
            .push_str("; `palisade doctor` tells what the account lacks, with the `palisade setup-sql` that prints it");
        let mut grants: Vec<String> = Vec::new();
        if is_of_table {
            let of_reads = task.relations.iter().filter_map(|uid| {
                let columns = self.read_columns(uid, task)?;
                Some(format!("GRANT SELECT ({columns}) ON {uid} TO {account};"))
            });
            grants.extend(of_reads);
            grants.extend(looked_up.and_then(|name| self.grant_looked_up(&name, task, &account)));
            grants.extend(self.change_grants(task, &account));
        }
        grants.extend(other);
        if !grants.is_empty() {
            let _ = write!(error.detail, ", or: {}", grants.join(" "));
        }
        error
    }

    /// The grant for a table that a filter of the statement looks up, where its name says which it is.
    fn grant_looked_up(&self, name: &str, task: &Task<'_>, account: &str) -> Option<String> {
        let mut named = (self.catalog.relations().iter()).filter(|one| *one.key == *name);
        let (Some(relation), None) = (named.next(), named.next()) else {
            return None;
        };
        if task.relations.contains(&relation.uid) {
            return None;
        }
        let reads = task.reads.iter().filter(|(table, _)| table == name);
        let columns: Vec<String> = reads
            .filter(|(_, column)| relation.columns.iter().any(|one| *one.key == **column))
            .map(|(_, column)| ident::quote(column))
            .collect();
        let uid = &relation.uid;
        let columns = columns.join(", ");
        (!columns.is_empty()).then(|| format!("GRANT SELECT ({columns}) ON {uid} TO {account};"))
    }

    /// The grants of what a statement changes, by itself and by foreign keys.
    fn change_grants(&self, task: &Task<'_>, account: &str) -> Vec<String> {
        let Work::Change(changes) = task.work else {
            return Vec::new();
        };
        let mut wanted: BTreeMap<(&str, Change), BTreeSet<&str>> = BTreeMap::new();
        for (change, table, column) in changes.writes {
            let columns = wanted.entry((table, *change)).or_default();
            columns.extend(Some(column.as_str()).filter(|column| !column.is_empty()));
        }
        let one = |((table, change), columns): ((&str, Change), BTreeSet<&str>)| {
            let mut named = task.relations.iter().filter(|uid| {
                let mut all = self.catalog.relations().iter();
                all.any(|relation| relation.uid == **uid && *relation.key == *table)
            });
            // Writes are told by names without schemas.
            let (Some(uid), None) = (named.next(), named.next()) else {
                return None;
            };
            let privilege = change.name().to_uppercase();
            let columns: Vec<String> = columns.into_iter().map(ident::quote).collect();
            let columns = match columns.is_empty() {
                true => String::new(),
                false => format!(" ({})", columns.join(", ")),
            };
            Some(format!("GRANT {privilege}{columns} ON {uid} TO {account};"))
        };
        wanted.into_iter().filter_map(one).collect()
    }

    /// The columns of a relation that the statement reads, listed for a grant: no more than these. Nothing where it reads none, or
    /// another relation of the same name, for reads are told by names without schemas.
    fn read_columns(&self, uid: &str, task: &Task<'_>) -> Option<String> {
        let find = |uid: &str| {
            let mut relations = self.catalog.relations().iter();
            relations.find(|relation| relation.uid == uid)
        };
        let relation = find(uid)?;
        let of_name = task.relations.iter().filter_map(|uid| find(uid));
        if of_name.filter(|other| other.key == relation.key).count() > 1 {
            return None;
        }
        let is_read = |column: &str| {
            let pair = (relation.key.to_string(), column.to_owned());
            task.reads.contains(&pair)
        };
        // Every statement over a plain table may read those of the server's; few do.
        let text = task.checks.plan_text().to_prepare();
        let of_server = SYSTEM_COLUMNS.iter().map(|(_, name)| *name);
        let columns: Vec<String> = (relation.columns.iter())
            .map(|column| &*column.key)
            .filter(|column| is_read(column))
            .chain(of_server.filter(|column| is_read(column) && text.contains(column)))
            .map(ident::quote)
            .collect();
        (!columns.is_empty()).then(|| columns.join(", "))
    }
}

impl fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBackend")
            .field("config", &self.config)
            .field("catalog", &self.catalog.version())
            .finish_non_exhaustive()
    }
}

async fn read(client: &Client) -> Result<(Catalog, Schema), ConnectError> {
    Ok(timeout(CATALOG_TIME, introspect::snapshot(client))
        .await
        .map_err(|_| IntrospectError::Inconsistent("no answer within a minute".to_owned()))??)
}

impl Features {
    async fn read(client: &Client) -> Result<Self, ConnectError> {
        let sql = "SELECT pg_catalog.current_setting('server_version_num')::int4";
        let rows = client.query_typed(sql, &[]).await?;
        let version = match rows.first() {
            Some(row) => row.try_get(0)?,
            None => 0,
        };
        // Refused with an error where the system cannot tell.
        let checks = "BEGIN; SET LOCAL client_connection_check_interval = 1000";
        let checks_connection = client.batch_execute(checks).await.is_ok();
        client.batch_execute("ROLLBACK").await?;
        Ok(Self {
            version,
            checks_connection,
        })
    }
}
