//! The MySQL side of the gate.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use mysql_async::Conn;
use palisade::{
    catalog::{Catalog, Companion, Relation},
    change::LedgerEntry,
    dialect::Dialect,
    guard::{
        Backend, BackendError, BackendErrorKind, BackendFuture, ChangeEnd, ChangeOrder, Completion,
        GivenEstimates, OpenTicket, RowSink, Ticket,
    },
    past::{HistoryOrder, Label, LabelStanding},
    value::Value,
};
use palisade_pool::{Ended, Failed, Pool, Statement, Task, Work};
use tokio::{runtime::Handle, time::timeout};

use crate::{
    config::MysqlConfig,
    connect::{ConnectError, Connector, Session},
    execute::{self, Facts},
    fault::{self, DeniedGrant},
    history::{self, LastLabel},
    introspect::{self, IntrospectError, Product, Snapshot},
    ledger, rehearse,
    schema_change::Known,
    weaknesses, write,
};

/// How long reading the catalog may take.
const CATALOG_TIME: Duration = Duration::from_secs(60);

/// A MySQL or MariaDB server as it was when its catalog was read.
///
/// A value never changes: when the schema of what a statement reads does, [`execute`](Backend::execute)
/// answers [`SchemaChanged`](palisade::guard::BackendErrorKind::SchemaChanged) and [`refresh`](Self::refresh) makes a new value, to go with a new
/// firewall. So no statement that was checked against one catalog runs on another. Stored functions, which a policy
/// permits by name, are not looked at again. Clones and refreshed values share their connections.
#[derive(Clone)]
pub struct MysqlBackend {
    pool: Pool<Connector>,
    /// For changes, and for what must be as the last one left it: the pool, unless that may be of a standby.
    primary: Pool<Connector>,
    config: Arc<MysqlConfig>,
    product: Product,
    catalog: Arc<Catalog>,
    /// What the catalog was made from. It takes the server as long as the rest, so it is asked when the schema is first looked at again.
    fingerprint: Arc<OnceLock<String>>,
    known: Arc<Known>,
    last_label: Arc<LastLabel>,
}

impl MysqlBackend {
    /// Connects to a database and reads the server's catalog. Connections run on the caller's runtime, which
    /// must drive input, output and time.
    ///
    /// # Errors
    /// If the database cannot be reached, the account has privileges that
    /// [`accept_powerful`](MysqlConfig::accept_powerful) does not admit, or the catalog cannot be read.
    pub async fn connect(config: MysqlConfig) -> Result<Self, ConnectError> {
        let pool = Pool::new(Connector::new(&config)?, config.size, Handle::current());
        let primary = match config.is_spread() {
            true => Pool::new(
                Connector::for_changes(&config)?,
                config.size,
                Handle::current(),
            ),
            false => pool.clone(),
        };
        let mut lease = pool.lease().await?;
        let conn = lease.session()?.ready().await?;
        if !config.accepts_powerful
            && let Some(privileges) = weaknesses::powerful(conn, &config.meant()).await?
        {
            return Err(ConnectError::Powerful(privileges));
        }
        let snapshot = read(conn).await?;
        lease.give_back().await;
        Ok(Self {
            pool,
            primary,
            config: Arc::new(config),
            product: snapshot.product,
            catalog: Arc::new(snapshot.catalog),
            fingerprint: Arc::default(),
            known: Arc::default(),
            last_label: Arc::default(),
        })
    }

    /// What the server held when its catalog was read.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether the server tells what a query would cost, which
    /// [`Limits::max_cost`](palisade::limits::Limits::max_cost) takes: MariaDB of these versions does not.
    #[must_use]
    pub fn estimates_cost(&self) -> bool {
        match self.product {
            Product::MySql => true,
            Product::MariaDb => false,
        }
    }

    /// The server as it is now, if its schema differs from the one this value was made with.
    ///
    /// # Errors
    /// If the catalog cannot be read any more.
    pub async fn refresh(&self) -> Result<Option<Self>, ConnectError> {
        let mut lease = self.pool.lease().await?;
        // First: what changes while the rest is read has another fingerprint afterwards.
        let fingerprint =
            wait_for_schema(introspect::fingerprint(lease.session()?.ready().await?)).await?;
        let snapshot = read(lease.session()?.ready().await?).await?;
        lease.give_back().await;
        if snapshot.catalog.version() == self.catalog.version()
            && *self.fingerprint.get_or_init(|| fingerprint.clone()) == fingerprint
        {
            return Ok(None);
        }
        Ok(Some(Self {
            product: snapshot.product,
            catalog: Arc::new(snapshot.catalog),
            fingerprint: Arc::new(OnceLock::from(fingerprint)),
            // What was found to be another catalog's.
            known: Arc::default(),
            ..self.clone()
        }))
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            product: self.product,
            catalog: &self.catalog,
            known: &self.known,
        }
    }

    /// Runs `task` within its time.
    pub(crate) async fn run(
        &self,
        task: &Task<'_>,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<Completion, BackendError> {
        let mut run = Run {
            facts: self.facts(),
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
        match (pool.run(time, task.cancel, &mut run).await, task.work) {
            (Ok(()), _) => Ok(run.completion),
            // What the server commits as it runs may be there by now.
            (Err(error), Work::Define)
                if error == BackendError::out_of_time() || error == BackendError::cancelled() =>
            {
                Err(BackendError::outcome_unknown())
            }
            (Err(error), _) => Err(name_lack(error, task)),
        }
    }
}

/// As the lack of a grant, what is denied to the account of a table that the statement itself names. Of another table it contradicts
/// what was decided.
fn name_lack(error: BackendError, task: &Task<'_>) -> BackendError {
    let is_of_second_lock = error.kind == BackendErrorKind::SecondLock;
    let denied = fault::read_denied_grant(&error.detail).filter(|_| is_of_second_lock);
    let lacking = denied.and_then(|denied| find_lacking(denied, task.relations, task.work));
    match lacking {
        Some(grant) => BackendError::new(
            BackendErrorKind::NotGranted,
            format!(
                "{}; the account lacks: GRANT {grant} TO the account",
                error.detail
            ),
        ),
        None => error,
    }
}

/// What the account lacks of a statement that names `relations`: a privilege and what it is on. None where the statement was decided
/// to do nothing that takes it.
fn find_lacking(denied: DeniedGrant<'_>, relations: &[String], work: Work<'_>) -> Option<String> {
    let DeniedGrant {
        privilege,
        column,
        database,
        table,
    } = denied;
    let may_take = match work {
        Work::Read | Work::Explain => privilege == "SELECT",
        Work::Change(_) | Work::Define => true,
    };
    if !may_take {
        return None;
    }
    let is_called = |own: &str, told: &str| own.trim_matches('"').eq_ignore_ascii_case(told);
    let named = relations.iter().find(|uid| {
        let (of, name) = uid.rsplit_once('.').unwrap_or(("", uid.as_str()));
        is_called(name, table) && database.is_none_or(|told| is_called(of, told))
    });
    let on = match (named, work) {
        (Some(uid), _) => uid.clone(),
        // What is to be is no relation yet.
        (None, Work::Define) if privilege.starts_with("CREATE") => "its database.*".to_owned(),
        // A definition reads no rows of what it defines otherwise, or empties.
        (None, Work::Define) if ["ALTER", "DROP", "INDEX"].contains(&privilege) => {
            format!("`{table}`")
        }
        (None, Work::Define | Work::Change(_) | Work::Read | Work::Explain) => return None,
    };
    let column = column.map(|name| format!(" ({})", Dialect::Mysql.identifier(name)));
    let column = column.unwrap_or_default();
    Some(format!("{privilege}{column} ON {on}"))
}

/// A statement on its way to the sink.
struct Run<'a> {
    facts: Facts<'a>,
    task: &'a Task<'a>,
    sink: &'a mut (dyn RowSink + Send),
    completion: Completion,
}

impl Statement<Session> for Run<'_> {
    async fn attempt(&mut self, session: &mut Session) -> Result<Ended, Failed> {
        let conn = execute::open(session, self.facts, self.task).await?;
        let (facts, task, sink) = (self.facts, self.task, &mut *self.sink);
        match task.work {
            Work::Read => execute::answer(conn, facts, task, sink).await,
            Work::Explain => write::explain(conn, task, sink).await,
            Work::Change(changes) => {
                write::change(conn, facts, task, changes, sink)
                    .await
                    .map(|completion| {
                        self.completion = completion;
                        Ended::Clean
                    })
            }
            Work::Define => write::define(conn, task).await.map(|()| Ended::Clean),
        }
        .map_err(Failed::Running)
    }

    async fn keep(&mut self, session: &mut Session) -> Result<(), BackendError> {
        if self.task.work.is_committed() {
            write::keep(session).await
        } else {
            Ok(())
        }
    }
}

impl Backend for MysqlBackend {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn is_current(&self) -> BackendFuture<'_, bool> {
        Box::pin(async move {
            let Some(known) = self.fingerprint.get() else {
                return Ok(false);
            };
            let look =
                async |session: &mut Session| introspect::fingerprint(session.ready().await?).await;
            let read = self.pool.look(CATALOG_TIME, look).await?;
            Ok(read == *known)
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
            cost: self.estimates_cost(),
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
                let conn = session.ready().await?;
                Ok::<_, mysql_async::Error>(ledger::find_receipt(conn, &self.catalog, change).await)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn list_receipts(&self) -> BackendFuture<'_, Option<Vec<(String, String)>>> {
        Box::pin(async move {
            let look = async |session: &mut Session| {
                let conn = session.ready().await?;
                Ok::<_, mysql_async::Error>(ledger::list_receipts(conn, &self.catalog).await)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn read_images<'a>(&'a self, change: &'a str) -> BackendFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            let look = async |session: &mut Session| {
                let conn = session.ready().await?;
                let read = ledger::read_images(conn, &self.catalog, change).await;
                Ok::<_, mysql_async::Error>(read)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn prune_images(&self, kept_ms: u64) -> BackendFuture<'_, Option<u64>> {
        Box::pin(async move {
            let look = async |session: &mut Session| {
                let conn = session.ready().await?;
                let pruned = ledger::prune_images(conn, &self.catalog, kept_ms).await;
                Ok::<_, mysql_async::Error>(pruned)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn take_label(&self) -> BackendFuture<'_, Option<Label>> {
        Box::pin(async move {
            if !self.catalog.has_history() {
                return Ok(None);
            }
            let own = self.catalog.default_schema();
            let look = async |session: &mut Session| {
                let conn = session.ready().await?;
                let taken = history::take_label(conn, own, &self.last_label, self.product).await;
                Ok::<_, mysql_async::Error>(taken.map(Some))
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
            let own = self.catalog.default_schema();
            let look = async |session: &mut Session| {
                let conn = session.ready().await?;
                let checked =
                    history::check_label(conn, own, label, companions, self.product).await;
                Ok::<_, mysql_async::Error>(checked)
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
                let conn = session.ready().await?;
                let listed = history::list_changed_keys(conn, relation, companion, between, most);
                Ok::<_, mysql_async::Error>(listed.await)
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
                let conn = session.ready().await?;
                let listed = history::list_writes(conn, relation, companion, key, most);
                Ok::<_, mysql_async::Error>(listed.await)
            };
            self.primary.look(CATALOG_TIME, look).await?
        })
    }

    fn write_history_script(
        &self,
        relation: &Relation,
        order: &HistoryOrder,
    ) -> Result<String, String> {
        let own = self.catalog.default_schema();
        history::write_script(self.product, own, relation, order)
    }

    fn previews_changes(&self) -> bool {
        self.config.is_writable
    }

    fn change(&self, order: ChangeOrder) -> BackendFuture<'_, ChangeEnd> {
        Box::pin(async move {
            // Tables with triggers are refused.
            let ChangeOrder {
                tickets,
                purpose,
                is_inverse: _,
            } = order;
            let tickets = tickets.into_iter().map(|ticket| ticket.open(&self.catalog));
            let tickets: Vec<OpenTicket> = tickets.collect::<Result<_, _>>()?;
            let tasks = Task::admit_change(&tickets, self.config.is_writable)?;
            let end = rehearse::run_change(&self.primary, self.facts(), &tasks, &purpose).await?;
            Ok(match end {
                ChangeEnd::Failed { statement, error } => ChangeEnd::Failed {
                    statement,
                    error: match tasks.get(statement) {
                        Some(task) => name_lack(error, task),
                        None => error,
                    },
                },
                ran @ ChangeEnd::Ran(_) => ran,
            })
        })
    }
}

impl fmt::Debug for MysqlBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlBackend")
            .field("config", &self.config)
            .field("catalog", &self.catalog.version())
            .finish_non_exhaustive()
    }
}

async fn read(conn: &mut Conn) -> Result<Snapshot, ConnectError> {
    wait_for_schema(introspect::snapshot(conn)).await
}

/// Waits for what is asked of the schema as long as that may take.
async fn wait_for_schema<T>(
    answer: impl Future<Output = Result<T, IntrospectError>>,
) -> Result<T, ConnectError> {
    Ok(timeout(CATALOG_TIME, answer)
        .await
        .map_err(|_| IntrospectError::Inconsistent("no answer within a minute".to_owned()))??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_statement_takes_of_its_own_tables_is_lacking() {
        let relations = ["d.t".to_owned(), "\"d-2\".u".to_owned()];
        let find = |privilege, column, database, table, work| {
            let denied = DeniedGrant {
                privilege,
                column,
                database,
                table,
            };
            find_lacking(denied, &relations, work)
        };
        for (privilege, column, database, table, work, expected) in [
            ("SELECT", None, None, "t", Work::Read, Some("SELECT ON d.t")),
            (
                "SELECT",
                Some("c"),
                Some("D"),
                "T",
                Work::Explain,
                Some("SELECT (`c`) ON d.t"),
            ),
            (
                "SELECT",
                None,
                Some("d-2"),
                "u",
                Work::Read,
                Some("SELECT ON \"d-2\".u"),
            ),
            // Of another database, or another table.
            ("SELECT", None, Some("e"), "t", Work::Read, None),
            ("SELECT", None, None, "v", Work::Read, None),
            // What reads takes no other privilege.
            ("INSERT", None, None, "t", Work::Read, None),
            ("INSERT", Some("c"), None, "t", Work::Explain, None),
            ("DROP", None, None, "t", Work::Define, Some("DROP ON d.t")),
            ("DROP", None, None, "v", Work::Define, Some("DROP ON `v`")),
            (
                "CREATE",
                None,
                None,
                "v",
                Work::Define,
                Some("CREATE ON its database.*"),
            ),
            ("SELECT", None, None, "v", Work::Define, None),
        ] {
            let found = find(privilege, column, database, table, work);
            assert_eq!(found.as_deref(), expected, "{privilege} {column:?} {table}");
        }
    }
}
