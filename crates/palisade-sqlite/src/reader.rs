//! Connections to a file that read, kept for the next request: opening one parses the whole stored schema.
//!
//! What is kept is used again for the same file alone, and as long as neither the system nor the engine knows of any write to it.
//! The engine takes a file that was copied over another for the one it knows, and keeps the pages that it has read.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use palisade::guard::BackendError;
use rusqlite::{Connection, OpenFlags, limits::Limit};

use crate::{
    execute::{self, LIMITS, engine},
    schema_snapshot::SchemaSnapshot,
};

/// How many connections wait for a request.
const KEPT: usize = 4;

/// How coarse the times of files are at most: two writes within it may have one time.
const COARSE: Duration = Duration::from_millis(100);

/// The connections that wait.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Vec<Reader>>);

/// A connection that reads one file.
pub(crate) struct Reader {
    pub(crate) conn: Connection,
    pub(crate) check: SchemaCheck,
    /// The engine's limits as they were before a statement lowered them.
    limits: Vec<(Limit, i32)>,
}

/// Whether a connection's schema has to be compared again.
pub(crate) struct SchemaCheck {
    /// As the file was before this request; none where that is not known, so that it is compared at each.
    stamp: Option<Stamp>,
    checked: Option<Checked>,
}

/// When the schema was last found to be the decided one.
struct Checked {
    schema: Arc<SchemaSnapshot>,
    stamp: Stamp,
    marks: [i64; 2],
}

/// Which file it is, and when it was last written, as the system tells. It changes where the file is written over, and where another
/// takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    main: FileStamp,
    /// What was committed and not yet written back.
    log: Option<FileStamp>,
}

type FileStamp = (u64, u64, u64, Option<SystemTime>);

impl Stamp {
    #[cfg(not(unix))]
    fn read(_: &Path) -> io::Result<Self> {
        // What tells a file from one that took its place is not known there: each request opens it anew.
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(unix)]
    fn read(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;

        let stamp = |path: &Path| {
            let found = fs::metadata(path)?;
            let modified = found.modified().ok();
            Ok::<_, io::Error>((found.dev(), found.ino(), found.len(), modified))
        };
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = match stamp(Path::new(&log)) {
            Ok(stamp) => Some(stamp),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            main: stamp(path)?,
            log,
        })
    }

    /// Whether both are of one file.
    fn is_same_file(&self, other: &Self) -> bool {
        let id = |stamp: &Self| (stamp.main.0, stamp.main.1);
        id(self) == id(other)
    }

    /// Whether a later write would show in another stamp: the last one is further back than the system's clock of files is coarse.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now();
        let is_past = |stamp: &FileStamp| {
            let gone = stamp
                .3
                .and_then(|modified| now.duration_since(modified).ok());
            gone.is_some_and(|gone| gone > COARSE)
        };
        is_past(&self.main) && self.log.as_ref().is_none_or(is_past)
    }
}

impl Readers {
    /// A connection to the file at `path`, which waited or is new.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn take(&self, path: &Path) -> rusqlite::Result<Reader> {
        // A file of which the system tells nothing is opened as any other, and the engine says why it cannot be.
        let stamp = Stamp::read(path).ok();
        while let Some(mut reader) = self.lock().pop() {
            let (Some(now), Some(before)) = (&stamp, &reader.check.stamp) else {
                continue;
            };
            if now == before && reader.make_ready().is_ok() {
                return Ok(reader);
            }
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        execute::restrict(&conn)?;
        let limits = LIMITS.iter().map(|limit| Ok((*limit, conn.limit(*limit)?)));
        // Where another file took its place meanwhile, it is not known which of them was opened.
        let after = Stamp::read(path).ok();
        let stamp = stamp.filter(|before| {
            before.is_settled() && after.is_some_and(|after| after.is_same_file(before))
        });
        Ok(Reader {
            limits: limits.collect::<rusqlite::Result<_>>()?,
            conn,
            check: SchemaCheck {
                stamp,
                checked: None,
            },
        })
    }

    /// Keeps a connection for the next request, where there is room.
    pub(crate) fn put_back(&self, reader: Reader) {
        let mut waiting = self.lock();
        if waiting.len() < KEPT && reader.check.stamp.is_some() {
            waiting.push(reader);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Reader>> {
        // A poisoned lock guards connections that are made ready before each use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Takes off what the last request put on.
    fn make_ready(&mut self) -> rusqlite::Result<()> {
        execute::reset(&mut self.conn)?;
        for (limit, value) in &self.limits {
            self.conn.set_limit(*limit, *value)?;
        }
        execute::restrict(&self.conn)
    }
}

impl SchemaCheck {
    /// For a connection of which nothing is known.
    pub(crate) fn anew() -> Self {
        Self {
            stamp: None,
            checked: None,
        }
    }

    /// Checks, in the transaction that has begun, that the schema is still `schema`. Its text is read again unless neither the
    /// file nor the engine knows of any write since it was last found the same.
    ///
    /// # Errors
    /// `SchemaChanged`, and what the engine says.
    pub(crate) fn check(
        &mut self,
        conn: &Connection,
        schema: &Arc<SchemaSnapshot>,
    ) -> Result<(), BackendError> {
        let Some(stamp) = &self.stamp else {
            return execute::check_schema(conn, schema);
        };
        let mark = |name: &str| {
            let sql = format!("PRAGMA main.{name}");
            conn.query_row(&sql, [], |row| row.get::<_, i64>(0))
                .map_err(|error| engine(&error))
        };
        let marks = [mark("schema_version")?, mark("data_version")?];
        let is_known = self.checked.as_ref().is_some_and(|checked| {
            Arc::ptr_eq(&checked.schema, schema)
                && checked.stamp == *stamp
                && checked.marks == marks
        });
        if is_known {
            return Ok(());
        }
        self.checked = None;
        execute::check_schema(conn, schema)?;
        self.checked = Some(Checked {
            schema: Arc::clone(schema),
            stamp: stamp.clone(),
            marks,
        });
        Ok(())
    }
}
