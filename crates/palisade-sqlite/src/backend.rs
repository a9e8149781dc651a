//! The SQLite side of the gate.

use std::{
    fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use palisade::{
    catalog::{Catalog, Companion, Relation},
    change::LedgerEntry,
    dialect::Dialect,
    guard::{
        Backend, BackendError, BackendErrorKind, BackendFuture, Cancel, ChangeEnd, ChangeOrder,
        ColumnTypes, Completion, Estimate, GivenEstimates, OpenTicket, Purpose, RowSink, Ticket,
    },
    past::{HistoryOrder, Label, LabelStanding},
    rewrite::Effect,
    value::Value,
};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{
    define,
    execute::{self, Facts, Task},
    full_text::FullTextIndexes,
    history,
    implicit_calls::OwnFunctions,
    introspect::{self, IntrospectError},
    ledger, load,
    reader::{Readers, SchemaCheck},
    rehearse,
    schema_snapshot::{self, SchemaSnapshot},
    worker::{self, Crossing, RowSender, Stop},
    write::{self, Changes},
    write_turns::WriteTurns,
};

/// Why a database was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such file, or it cannot be looked at.
    #[error("cannot open `{path}`: {source}")]
    File {
        /// The path given.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The path is a folder, a device or the like.
    #[error("cannot open `{path}`: it is not a regular file")]
    NotAFile {
        /// The path given.
        path: String,
    },
    /// The file is no SQLite database, or an encrypted one.
    #[error("`{path}` is not a SQLite database")]
    NotADatabase {
        /// The path given.
        path: String,
    },
    /// The database is damaged.
    #[error("`{path}` is damaged: {message}")]
    Corrupt {
        /// The path given.
        path: String,
        /// The engine's message.
        message: String,
    },
    /// The database cannot be read for another reason: it is locked, or needs recovery.
    #[error("cannot read `{path}`: {message}")]
    Unreadable {
        /// The path given.
        path: String,
        /// The engine's message.
        message: String,
    },
    /// The schema cannot be made a catalog.
    #[error(transparent)]
    Introspect(#[from] IntrospectError),
}

/// A SQLite database as it was when its catalog was read.
///
/// A value never changes: when the database's schema does, [`execute`](Backend::execute) answers
/// [`BackendErrorKind::SchemaChanged`] and [`refresh`](Self::refresh) makes a new value, to go with a new
/// firewall. So no statement that was checked against one catalog runs on another.
#[derive(Clone)]
pub struct SqliteBackend {
    source: Source,
    writable: bool,
    schema: Arc<SchemaSnapshot>,
    catalog: Arc<Catalog>,
    own: Arc<OwnFunctions>,
    full_text: Arc<FullTextIndexes>,
    /// Shared with what was read of the same source before.
    pub(crate) turns: Arc<WriteTurns>,
}

#[derive(Clone)]
enum Source {
    /// A file, by its absolute path. Each request that changes something opens it anew.
    File(PathBuf, Arc<Readers>),
    /// A database in memory, one request at a time.
    Memory(Arc<Mutex<Connection>>),
}

impl SqliteBackend {
    /// The database file at `path`, to be called `database` in policies. It is opened for reading only,
    /// unless it is made [`writable`](Self::writable).
    ///
    /// `path` is a path: URIs (`file:…`) and SQLite's special names (`:memory:`) are looked for as files.
    ///
    /// # Errors
    /// If there is no such file, or it is not a readable SQLite database.
    pub fn open_file(path: impl AsRef<Path>, database: &str) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let file = |source| OpenError::File {
            path: path.display().to_string(),
            source,
        };
        // An absolute path is never a URI and never a special name, which the bundled build would
        // otherwise read whatever the flags say.
        let absolute = path.canonicalize().map_err(file)?;
        if !absolute.metadata().map_err(file)?.is_file() {
            return Err(OpenError::NotAFile {
                path: path.display().to_string(),
            });
        }
        Self::new(Source::File(absolute, Arc::default()), database)
    }

    /// A database in memory that holds what `script` makes, under the rules of
    /// [`catalog_from_ddl`](crate::catalog_from_ddl): for tests and for trying policies out.
    ///
    /// # Errors
    /// If the script fails.
    pub fn in_memory(script: &str, database: &str) -> Result<Self, OpenError> {
        let conn = load::memory(script).map_err(IntrospectError::from)?;
        execute::restrict(&conn).map_err(IntrospectError::from)?;
        Self::new(Source::Memory(Arc::new(Mutex::new(conn))), database)
    }

    /// Runs statements that change rows too, over connections that read and write.
    #[must_use]
    pub fn writable(self) -> Self {
        Self {
            writable: true,
            ..self
        }
    }

    /// What the database held when it was opened.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// `PRAGMA schema_version` of the database now, a number that the engine raises at each change of
    /// the schema.
    ///
    /// # Errors
    /// If the database cannot be read any more.
    pub fn schema_version(&self) -> Result<i64, OpenError> {
        self.source.with(Access::Read, |conn| {
            schema_snapshot::version(conn).map_err(|e| self.source.error(&e))
        })?
    }

    /// The database as it is now, if its schema differs from the one this value was made with.
    ///
    /// # Errors
    /// If the database cannot be read any more.
    pub fn refresh(&self) -> Result<Option<Self>, OpenError> {
        let now = Self::new(self.source.clone(), self.catalog.database())?;
        Ok((now.schema != self.schema).then_some(Self {
            writable: self.writable,
            turns: Arc::clone(&self.turns),
            ..now
        }))
    }

    fn new(source: Source, database: &str) -> Result<Self, OpenError> {
        let (schema, catalog, own, full_text) = source.with(Access::Read, |conn| {
            // One transaction, so that the catalog is of the schema it is stored with.
            let ours =
                |conn: &Connection, sql| conn.execute_batch(sql).map_err(|e| source.error(&e));
            ours(conn, "BEGIN")?;
            let schema = SchemaSnapshot::read(conn).map_err(|e| source.error(&e))?;
            let catalog = introspect::catalog(conn, database)?;
            let own = OwnFunctions::read(conn, &catalog).map_err(|e| source.error(&e))?;
            let full_text = FullTextIndexes::read(conn, &catalog).map_err(|e| source.error(&e))?;
            ours(conn, "ROLLBACK")?;
            Ok::<_, OpenError>((schema, catalog, own, full_text))
        })??;
        Ok(Self {
            source,
            writable: false,
            schema: Arc::new(schema),
            catalog: Arc::new(catalog),
            own: Arc::new(own),
            full_text: Arc::new(full_text),
            turns: Arc::default(),
        })
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            schema: &self.schema,
            catalog: &self.catalog,
            own: &self.own,
            full_text: &self.full_text,
            turns: &self.turns,
        }
    }

    fn is_current_now(&self) -> Result<bool, OpenError> {
        self.source.with_reader(|conn, _| {
            SchemaSnapshot::read(conn)
                .map(|schema| schema == *self.schema)
                .map_err(|error| self.source.error(&error))
        })?
    }

    /// Runs the statement of `ticket`, blocking.
    fn execute_now<T: Send>(
        &self,
        ticket: &OpenTicket,
        rows: &mut RowSender<T>,
    ) -> Result<Completion, BackendError> {
        let statement = ticket.statement();
        let task = Task {
            stop: rows.stop(),
            ..Task::from(ticket)
        };
        let changes = Changes::from(ticket);
        match statement.effect() {
            Effect::Read | Effect::Explain => self.read_now(&task, rows)?,
            Effect::Write => return self.write_now(&task, &changes, rows),
            Effect::Define => self.define_now(&task, &changes, statement.relations())?,
            Effect::Nothing => {}
        }
        Ok(Completion::default())
    }

    /// Runs `task`, which reads, blocking.
    pub(crate) fn read_now(
        &self,
        task: &Task<'_>,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<(), BackendError> {
        self.source
            .with_reader(|conn, check| execute::execute(conn, check, &self.facts(), task, sink))
            .map_err(|error| explain_open_error(&error))?
    }

    /// Runs `task`, which changes rows, blocking.
    pub(crate) fn write_now(
        &self,
        task: &Task<'_>,
        changes: &Changes<'_>,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<Completion, BackendError> {
        let facts = self.facts();
        let affected = self
            .source
            .with(Access::Write, |conn| {
                write::execute(conn, &facts, task, changes, sink)
            })
            .map_err(|error| explain_open_error(&error))??;
        Ok(Completion {
            affected: Some(affected),
        })
    }

    /// Runs the statements of a change, blocking.
    fn change_now(
        &self,
        (tickets, purpose, is_inverse): (&[OpenTicket], &Purpose, bool),
        stop: &Stop,
    ) -> Result<ChangeEnd, BackendError> {
        let facts = self.facts();
        self.source
            .with(Access::Write, |conn| {
                rehearse::run_change(conn, &facts, (tickets, purpose, is_inverse), stop)
            })
            .map_err(|error| explain_open_error(&error))
    }

    /// Runs `task`, which changes the schema, blocking.
    pub(crate) fn define_now(
        &self,
        task: &Task<'_>,
        changes: &Changes<'_>,
        relations: &[String],
    ) -> Result<(), BackendError> {
        let facts = self.facts();
        self.source
            .with(Access::Write, |conn| {
                define::execute(conn, &facts, task, changes, relations)
            })
            .map_err(|error| explain_open_error(&error))?
    }
}

/// Statements run on threads of this crate's own, so that a future never blocks the thread that polls it, and any runtime will do. A
/// future that is dropped stops its statement, and takes back a change that is not committed yet.
impl Backend for SqliteBackend {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn is_current(&self) -> BackendFuture<'_, bool> {
        let this = self.clone();
        Box::pin(async move {
            let is_current = worker::run(move || this.is_current_now()).await?;
            is_current.map_err(|error| explain_open_error(&error))
        })
    }

    fn refreshed(&self) -> BackendFuture<'_, Option<Arc<dyn Backend>>> {
        let this = self.clone();
        Box::pin(async move {
            let now = worker::run(move || this.refresh()).await?;
            let now = now.map_err(|error| explain_open_error(&error))?;
            Ok(now.map(|now| Arc::new(now) as Arc<dyn Backend>))
        })
    }

    fn gives_estimates(&self) -> GivenEstimates {
        GivenEstimates::default()
    }

    fn execute<'a>(
        &'a self,
        ticket: Ticket,
        sink: &'a mut (dyn RowSink + Send),
    ) -> BackendFuture<'a, Completion> {
        let this = self.clone();
        Box::pin(async move {
            let ticket = ticket.open(&self.catalog)?;
            let statement = ticket.statement();
            if !self.writable {
                BackendError::unless_reading(statement)?;
            }
            // The engine tells none: whoever asks for caps gets no answer without them.
            BackendError::unless_admitted(statement, Estimate::default())?;
            let crossing = match statement.effect() {
                Effect::Read | Effect::Explain | Effect::Define => Crossing::Batches,
                // Before the change is kept it is known whether its rows are taken.
                Effect::Write => Crossing::Rows,
                Effect::Nothing => return Ok(Completion::default()),
            };
            sink.types(ColumnTypes::ByValue);
            let cancel = ticket.cancel().clone();
            let work = move |rows: &mut RowSender<_>| this.execute_now(&ticket, rows);
            let result = worker::feed(Some(sink), crossing, work).await?;
            result.map_err(|error| note_cancel(error, cancel.is_set()))
        })
    }

    fn find_receipt<'a>(&'a self, change: &'a str) -> BackendFuture<'a, LedgerEntry> {
        let (this, id) = (self.clone(), change.to_owned());
        Box::pin(async move {
            let find = move || {
                this.source
                    .with_reader(|conn, _| ledger::find_receipt(conn, &id))
            };
            let found = worker::run(find).await?;
            let found = found.map_err(|error| explain_open_error(&error))?;
            found.map_err(|error| BackendError::unavailable(error.to_string()))
        })
    }

    fn list_receipts(&self) -> BackendFuture<'_, Option<Vec<(String, String)>>> {
        let this = self.clone();
        Box::pin(async move {
            let list = move || {
                this.source
                    .with_reader(|conn, _| ledger::list_receipts(conn))
            };
            let listed = worker::run(list).await?;
            let listed = listed.map_err(|error| explain_open_error(&error))?;
            listed.map_err(|error| BackendError::unavailable(error.to_string()))
        })
    }

    fn read_images<'a>(&'a self, change: &'a str) -> BackendFuture<'a, Option<Vec<String>>> {
        let (this, id) = (self.clone(), change.to_owned());
        Box::pin(async move {
            let read = move || {
                this.source
                    .with_reader(|conn, _| ledger::read_images(conn, &id))
            };
            let read = worker::run(read).await?;
            let read = read.map_err(|error| explain_open_error(&error))?;
            read.map_err(|error| BackendError::unavailable(error.to_string()))
        })
    }

    fn prune_images(&self, kept_ms: u64) -> BackendFuture<'_, Option<u64>> {
        let this = self.clone();
        Box::pin(async move {
            let prune = move || {
                this.source
                    .with(Access::Write, |conn| ledger::prune_images(conn, kept_ms))
            };
            let pruned = worker::run(prune).await?;
            let pruned = pruned.map_err(|error| explain_open_error(&error))?;
            pruned.map_err(|error| BackendError::unavailable(error.to_string()))
        })
    }

    fn take_label(&self) -> BackendFuture<'_, Option<Label>> {
        let this = self.clone();
        Box::pin(async move {
            let take = move || this.source.with_reader(|conn, _| history::take_label(conn));
            let taken = worker::run(take).await?;
            let taken = taken.map_err(|error| explain_open_error(&error))?;
            taken.map_err(|error| BackendError::unavailable(error.to_string()))
        })
    }

    fn list_changed_keys<'a>(
        &'a self,
        relation: &'a Relation,
        (from, to): (&'a Label, Option<&'a Label>),
        most: u32,
    ) -> BackendFuture<'a, Vec<Vec<Value>>> {
        let (this, relation) = (self.clone(), relation.clone());
        let (from, to) = (from.clone(), to.cloned());
        Box::pin(async move {
            let list = move || {
                this.source.with_reader(|conn, _| {
                    history::list_changed_keys(conn, &relation, (&from, to.as_ref()), most)
                })
            };
            let listed = worker::run(list).await?;
            let listed = listed.map_err(|error| explain_open_error(&error))?;
            listed.map_err(|error| BackendError::unavailable(error.to_string()))
        })
    }

    fn list_writes<'a>(
        &'a self,
        relation: &'a Relation,
        key: Option<&'a [Value]>,
        most: u32,
    ) -> BackendFuture<'a, Vec<u64>> {
        let (this, relation) = (self.clone(), relation.clone());
        let key = key.map(<[Value]>::to_vec);
        Box::pin(async move {
            let list = move || {
                this.source.with_reader(|conn, _| {
                    history::list_writes(conn, &relation, key.as_deref(), most)
                })
            };
            let listed = worker::run(list).await?;
            listed.map_err(|error| explain_open_error(&error))?
        })
    }

    fn write_history_script(
        &self,
        relation: &Relation,
        order: &HistoryOrder,
    ) -> Result<String, String> {
        history::write_script(relation, order).map_err(|fault| fault.to_string())
    }

    fn check_label<'a>(
        &'a self,
        label: &'a Label,
        companions: &'a [Companion],
    ) -> BackendFuture<'a, LabelStanding> {
        let (this, label, companions) = (self.clone(), label.clone(), companions.to_vec());
        Box::pin(async move {
            let check = move || {
                this.source
                    .with_reader(|conn, _| history::check_label(conn, &label, &companions))
            };
            let checked = worker::run(check).await?;
            let checked = checked.map_err(|error| explain_open_error(&error))?;
            checked.map_err(|error| BackendError::unavailable(error.to_string()))
        })
    }

    fn previews_changes(&self) -> bool {
        self.writable
    }

    fn change(&self, order: ChangeOrder) -> BackendFuture<'_, ChangeEnd> {
        let this = self.clone();
        Box::pin(async move {
            let ChangeOrder {
                tickets,
                purpose,
                is_inverse,
            } = order;
            let tickets = tickets.into_iter().map(|ticket| ticket.open(&self.catalog));
            let tickets: Vec<OpenTicket> = tickets.collect::<Result<_, _>>()?;
            for ticket in &tickets {
                if !self.writable {
                    BackendError::unless_reading(ticket.statement())?;
                }
                // The engine tells none.
                BackendError::unless_admitted(ticket.statement(), Estimate::default())?;
            }
            let cancel = tickets.first().map(|ticket| ticket.cancel().clone());
            let is_cancelled = || cancel.as_ref().is_some_and(Cancel::is_set);
            let work = move |rows: &mut RowSender<_>| {
                this.change_now((&tickets, &purpose, is_inverse), &rows.stop())
            };
            match worker::feed(None, Crossing::Batches, work).await? {
                Ok(ChangeEnd::Failed { statement, error }) => Ok(ChangeEnd::Failed {
                    statement,
                    error: note_cancel(error, is_cancelled()),
                }),
                Ok(ran @ ChangeEnd::Ran(_)) => Ok(ran),
                Err(error) => Err(note_cancel(error, is_cancelled())),
            }
        })
    }
}

/// The same failure, where its caller gave up.
fn note_cancel(error: BackendError, is_cancelled: bool) -> BackendError {
    // By the same interrupt, or in place of a wait for a lock.
    let is_interrupted = matches!(
        error.kind,
        BackendErrorKind::Timeout | BackendErrorKind::Locked | BackendErrorKind::Unavailable
    );
    if is_interrupted && is_cancelled {
        BackendError::cancelled()
    } else {
        error
    }
}

impl fmt::Debug for SqliteBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBackend")
            .field("source", &self.source.name())
            .field("catalog", &self.catalog.version())
            .finish_non_exhaustive()
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// What helps where a file cannot be read as it is, although it is there.
fn advise_on_open(error: &rusqlite::Error, file: &Path) -> Option<&'static str> {
    let is_write = match error.sqlite_error_code()? {
        ErrorCode::ReadOnly => true,
        ErrorCode::CannotOpen => false,
        // Nothing that an account's rights would change.
        _ => return None,
    };
    if keeps_write_ahead_log(file) {
        return Some(
            "it keeps a write-ahead log (WAL), and whoever reads it has to write the files `-shm` and `-wal` beside it; \
             let the account write its folder, or give a copy made by `VACUUM INTO` or after `PRAGMA journal_mode=DELETE`",
        );
    }
    is_write.then_some(
        "a change that was broken off has to be taken back first; open it once with an account that may write it",
    )
}

/// Whether a file's header says so (<https://www.sqlite.org/fileformat.html#file_format_version_numbers>).
fn keeps_write_ahead_log(file: &Path) -> bool {
    let mut header = [0_u8; 20];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && header.ends_with(&[2, 2])
}

/// What the database itself says about why it cannot be read.
fn explain_open_error(error: &OpenError) -> BackendError {
    BackendError::unavailable(error.to_string())
}

impl Source {
    fn name(&self) -> String {
        match self {
            Self::File(path, _) => path.display().to_string(),
            Self::Memory(_) => "the database in memory".to_owned(),
        }
    }

    /// Calls `work` with a connection: a new one to a file, the only one to memory.
    fn with<T>(
        &self,
        access: Access,
        work: impl FnOnce(&mut Connection) -> T,
    ) -> Result<T, OpenError> {
        match self {
            Self::File(path, _) => {
                let mode = match access {
                    Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
                    Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
                };
                let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let mut conn =
                    Connection::open_with_flags(path, flags).map_err(|e| self.error(&e))?;
                execute::restrict(&conn).map_err(|e| self.error(&e))?;
                Ok(work(&mut conn))
            }
            Self::Memory(conn) => {
                let mut conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
                // A request that wrote, or panicked, has left the connection otherwise.
                execute::reset(&mut conn).map_err(|e| self.error(&e))?;
                execute::restrict(&conn).map_err(|e| self.error(&e))?;
                Ok(work(&mut conn))
            }
        }
    }

    /// Calls `work` with a connection that reads, which another request may have used before, and what is known of its schema.
    fn with_reader<T>(
        &self,
        work: impl FnOnce(&mut Connection, &mut SchemaCheck) -> T,
    ) -> Result<T, OpenError> {
        match self {
            Self::File(path, readers) => {
                let mut reader = readers.take(path).map_err(|e| self.error(&e))?;
                let result = work(&mut reader.conn, &mut reader.check);
                readers.put_back(reader);
                Ok(result)
            }
            Self::Memory(_) => self.with(Access::Read, |conn| work(conn, &mut SchemaCheck::anew())),
        }
    }

    fn error(&self, error: &rusqlite::Error) -> OpenError {
        let path = self.name();
        let mut message = error.to_string();
        if let Self::File(file, _) = self
            && let Some(advice) = advise_on_open(error, file)
        {
            message = format!("{message}: {advice}");
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Corrupt { path, message },
            _ => OpenError::Unreadable { path, message },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use rusqlite::ffi;

    use super::*;

    /// The accounts of tests may write everything, so that the engine's error is made here.
    #[test]
    fn a_write_ahead_log_that_cannot_be_read_is_told_with_what_helps() {
        let dir = tempfile::tempdir().unwrap();
        let told = |mode: &str, code: i32| {
            let path = dir.path().join(format!("{mode}{code}"));
            let conn = Connection::open(&path).unwrap();
            conn.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t (a)"))
                .or_else(|error| match error {
                    rusqlite::Error::ExecuteReturnedResults => Ok(()),
                    error => Err(error),
                })
                .unwrap();
            drop(conn);
            let source = Source::File(path, Arc::default());
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            source.error(&error).to_string()
        };
        for code in [ffi::SQLITE_READONLY_CANTINIT, ffi::SQLITE_CANTOPEN] {
            let told = told("wal", code);
            assert!(
                told.contains("write its folder") && told.contains("`VACUUM INTO`"),
                "{told}"
            );
        }
        assert!(told("delete", ffi::SQLITE_READONLY_ROLLBACK).contains("broken off"));
        assert!(!told("delete", ffi::SQLITE_CANTOPEN).contains("log"));
        assert!(!told("wal", ffi::SQLITE_IOERR).contains("folder"));
    }
}
