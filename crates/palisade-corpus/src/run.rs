//! Running cases: the decision alone, or the whole way through a database.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::{Path, PathBuf},
    sync::Arc,
};

use palisade::{
    answer::{Action, Marker, ScanSession},
    audit::NoAudit,
    code::Code,
    dialect::Dialect,
    error::Error,
    firewall::{Decision, Firewall, FirewallBuilder},
    guard::{Guard, Request, RowSink},
    rejection::Rejection,
    rewrite::{Effect, RewrittenStatement},
    session::Session,
    token::{Lifetime, TokenSecret},
    value::{Params, Value},
};
use palisade_sqlite::{CreateError, OpenError, SqliteBackend, create_database};
use rusqlite::{Connection, OpenFlags, types::ValueRef};

use crate::{
    case::Case,
    compare::{self, Difference},
    host::StillHost,
    load::Corpus,
};

/// Firewalls over the catalogs of a corpus, with a database each.
pub struct Runner {
    /// By catalog, policies and how long tokens last.
    stands: BTreeMap<(String, String, Lifetime), Stand>,
    /// Holds the databases; gone with the runner.
    _folder: tempfile::TempDir,
}

struct Stand {
    firewall: Arc<Firewall>,
    /// None for a dialect whose statements are decided about and not run.
    backend: Option<SqliteBackend>,
    /// Where the database is, if there is one.
    database: PathBuf,
}

/// The database of a MySQL catalog, which is its one schema, so that policies name its relations as they do
/// SQLite's.
const MYSQL_DATABASE: &str = "main";

/// The secret behind the tokens and hashes of every case, so that they come out the same.
pub const SECRET: &str = "the secret of the corpus, known to all";

/// Why a corpus cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no place for the databases.
    #[error("cannot make a folder for the databases: {0}")]
    Folder(std::io::Error),
    /// A catalog's script failed.
    #[error("catalog `{catalog}`: {source}")]
    Create {
        /// Which.
        catalog: String,
        /// Why.
        source: CreateError,
    },
    /// A catalog's text is not understood.
    #[error("catalog `{catalog}`: {source}")]
    Ddl {
        /// Which.
        catalog: String,
        /// Why.
        source: palisade_ddl::DdlError,
    },
    /// A catalog's database does not open.
    #[error("catalog `{catalog}`: {source}")]
    Open {
        /// Which.
        catalog: String,
        /// Why.
        source: OpenError,
    },
    /// Policies do not load over a catalog.
    #[error("policies `{policies}` over `{catalog}`: {source}")]
    Policies {
        /// Which.
        policies: String,
        /// Over which catalog.
        catalog: String,
        /// Why.
        source: Error,
    },
    /// A case names what the corpus does not hold.
    #[error("there is no catalog `{catalog}` with policies `{policies}`")]
    Missing {
        /// The catalog.
        catalog: String,
        /// The policies.
        policies: String,
    },
}

/// What came out of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Refused with this code, or allowed.
    pub code: Option<Code>,
    /// What the agent gets, durations and incident ids aside: an envelope or a refusal.
    pub json: serde_json::Value,
    /// The same as text for a model; none for a refusal.
    pub text: String,
    /// What was run.
    pub rewritten: Option<String>,
    /// The determining policies, sorted.
    pub policies: Vec<String>,
    /// What only the operator may read of a refusal.
    pub detail: Option<String>,
}

impl Runner {
    /// Makes the databases and loads the policies that the cases of `corpus` use.
    ///
    /// # Errors
    /// If a script fails or policies do not load.
    pub fn new(corpus: &Corpus) -> Result<Self, RunError> {
        Self::with_builder(corpus, |builder| builder)
    }

    /// As [`new`](Self::new), with firewalls as `configure` makes them.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_builder(
        corpus: &Corpus,
        configure: impl Fn(FirewallBuilder) -> FirewallBuilder,
    ) -> Result<Self, RunError> {
        let folder = tempfile::tempdir().map_err(RunError::Folder)?;
        let mut stands = BTreeMap::new();
        for case in &corpus.cases {
            let number = stands.len();
            if let Entry::Vacant(vacant) = stands.entry(key(case)) {
                let (catalog, policies, token_lifetime) = vacant.key();
                let database = folder.path().join(format!("{catalog}.{number}.db"));
                let (builder, backend) =
                    ground(corpus, case.dialect, catalog, policies, &database)?;
                let builder =
                    builder.token_secret(TokenSecret::new(SECRET).lasting(*token_lifetime));
                let firewall = configure(builder)
                    .build()
                    .map_err(|source| RunError::Policies {
                        policies: policies.to_owned(),
                        catalog: catalog.to_owned(),
                        source,
                    })?;
                vacant.insert(Stand {
                    firewall: Arc::new(firewall),
                    backend,
                    database,
                });
            }
        }
        Ok(Self {
            stands,
            _folder: folder,
        })
    }

    /// The firewall that decides about `case`.
    #[must_use]
    pub fn firewall(&self, case: &Case) -> Option<&Arc<Firewall>> {
        self.stand(case).ok().map(|stand| &stand.firewall)
    }

    /// Decides about `case` and compares, as far as a decision shows it. A refusal that can only come
    /// from running the statement is an allowed statement here.
    #[must_use]
    pub fn run_pure(&self, case: &Case) -> Vec<Difference> {
        match self.decide(case) {
            Ok(answer) => compare::decision(case, &answer),
            Err(error) => vec![Difference::new("run", "an answer", error)],
        }
    }

    /// Runs `case`, of SQLite, through the gate on its database and compares everything.
    #[must_use]
    pub fn run_sqlite(&self, case: &Case) -> Vec<Difference> {
        // What changes the database would change it for the next case.
        if self.changes(case) {
            return self.run_pure(case);
        }
        let answer = match self.answer(case) {
            Ok(answer) => answer,
            Err(error) => return vec![Difference::new("run", "an answer", error)],
        };
        let mut differences = compare::answer(case, &answer);
        if case.expect.preserve && answer.code.is_none() {
            match self.bare(case) {
                Ok(bare) => differences.extend(compare::compare_rows(case, &answer, &bare)),
                Err(error) => {
                    differences.push(Difference::new("bare engine", "an answer", error));
                }
            }
        }
        differences
    }

    /// Whether `case` is a statement that is allowed to change anything.
    #[must_use]
    pub fn changes(&self, case: &Case) -> bool {
        let decided = self.stand(case).ok().map(|stand| self.check(stand, case));
        match decided {
            Some(Ok(Decision::Allow(statement))) => match statement.effect() {
                Effect::Read | Effect::Explain => false,
                Effect::Write | Effect::Define | Effect::Nothing => true,
            },
            Some(Ok(Decision::Reject(_)) | Err(_)) | None => false,
        }
    }

    /// The decision about `case`, without columns and rows.
    ///
    /// # Errors
    /// A text if the case cannot be decided about at all.
    pub fn decide(&self, case: &Case) -> Result<Answer, String> {
        let stand = self.stand(case).map_err(|error| error.to_string())?;
        Ok(match self.check(stand, case) {
            Ok(Decision::Allow(statement)) => Answer {
                code: None,
                json: serde_json::Value::Null,
                text: String::new(),
                rewritten: Some(palisade::danger::parts(&statement).sql.to_owned()),
                policies: sort_names(statement.policies()),
                detail: None,
            },
            Ok(Decision::Reject(rejection)) => answer_of_refusal(&rejection),
            Err(error) => fault(&error),
        })
    }

    /// What the gate gives for `case`.
    ///
    /// # Errors
    /// A text if the case cannot be run at all, as those of other dialects than SQLite.
    pub fn answer(&self, case: &Case) -> Result<Answer, String> {
        let stand = self.stand(case).map_err(|error| error.to_string())?;
        let Some(backend) = &stand.backend else {
            return Err(format!("nothing runs cases of {}", case.dialect));
        };
        let guard = Guard::new(
            Arc::clone(&stand.firewall),
            backend.clone(),
            Arc::new(StillHost(case.at)),
            Arc::new(NoAudit),
        )
        .on_finding(case.on_finding);
        // Without a time of its own: the gate asks the clock.
        let session = Session::new(case.principal.clone());
        let request =
            Request::statement(&case.sql, &case.params, &session).with_limits(&case.limits);
        let (outcome, report) = pollster::block_on(guard.answer(request));
        Ok(match outcome.into_result() {
            Ok(envelope) => Answer {
                code: None,
                json: serde_json::to_value(envelope.answer()).map_err(|e| e.to_string())?,
                text: envelope.delimited_text(),
                rewritten: report.rewritten,
                policies: sort_names(&report.policies),
                detail: None,
            },
            Err(refusal) => Answer {
                rewritten: report.rewritten,
                policies: sort_names(&report.policies),
                ..answer_of_refusal(&refusal.rejection)
            },
        })
    }

    /// What the engine gives for the statement as it was written, put into the same form.
    fn bare(&self, case: &Case) -> Result<serde_json::Value, String> {
        let stand = self.stand(case).map_err(|error| error.to_string())?;
        let statement = match self.check(stand, case) {
            Ok(Decision::Allow(statement)) => statement,
            Ok(Decision::Reject(rejection)) => return Err(rejection.to_string()),
            Err(error) => return Err(error.to_string()),
        };
        let rows = |e: rusqlite::Error| e.to_string();
        let conn = Connection::open_with_flags(&stand.database, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(rows)?;
        bare_rows(&conn, case, &statement)
    }

    fn check(&self, stand: &Stand, case: &Case) -> Result<Decision, Error> {
        stand
            .firewall
            .check_within(&case.sql, &case.params, &case.session(), &case.limits)
    }

    fn stand(&self, case: &Case) -> Result<&Stand, RunError> {
        self.stands
            .get(&key(case))
            .ok_or_else(|| RunError::Missing {
                catalog: case.catalog.clone(),
                policies: case.policies.clone(),
            })
    }
}

/// What stand `case` runs on.
fn key(case: &Case) -> (String, String, Lifetime) {
    (
        case.catalog.clone(),
        case.policies.clone(),
        case.token_lifetime,
    )
}

/// What a stand is built on, with a database at `path` where one is needed.
fn ground(
    corpus: &Corpus,
    dialect: Dialect,
    catalog: &str,
    policies: &str,
    path: &Path,
) -> Result<(FirewallBuilder, Option<SqliteBackend>), RunError> {
    let missing = || RunError::Missing {
        catalog: catalog.to_owned(),
        policies: policies.to_owned(),
    };
    let script = corpus.catalogs.get(catalog).ok_or_else(missing)?;
    let sources = corpus.policies.get(policies).ok_or_else(missing)?;
    let not_understood = |source| RunError::Ddl {
        catalog: catalog.to_owned(),
        source,
    };
    let (facts, backend) = match dialect {
        Dialect::Postgres => {
            let name = catalog.split('.').next().unwrap_or(catalog);
            let facts = palisade_ddl::postgres(script, name).map_err(not_understood)?;
            (facts, None)
        }
        Dialect::Mysql => {
            let facts = palisade_ddl::mysql(script, MYSQL_DATABASE).map_err(not_understood)?;
            (facts, None)
        }
        Dialect::Sqlite => {
            create_database(path, script).map_err(|source| RunError::Create {
                catalog: catalog.to_owned(),
                source,
            })?;
            let backend =
                SqliteBackend::open_file(path, catalog).map_err(|source| RunError::Open {
                    catalog: catalog.to_owned(),
                    source,
                })?;
            (backend.catalog().clone(), Some(backend))
        }
    };
    Ok((
        Firewall::builder(facts, sources.clone()).allow_changes(),
        backend,
    ))
}

fn answer_of_refusal(rejection: &Rejection) -> Answer {
    Answer {
        code: Some(rejection.code()),
        json: serde_json::to_value(rejection.for_agent()).unwrap_or_default(),
        text: String::new(),
        rewritten: None,
        policies: sort_names(rejection.policies()),
        detail: rejection.operator_detail().map(str::to_owned),
    }
}

fn fault(error: &Error) -> Answer {
    Answer {
        detail: Some(error.to_string()),
        ..answer_of_refusal(&Rejection::new(Code::Internal, Code::Internal.summary()))
    }
}

fn sort_names(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}

fn bare_rows(
    conn: &Connection,
    case: &Case,
    statement: &RewrittenStatement,
) -> Result<serde_json::Value, String> {
    let message = |e: rusqlite::Error| e.to_string();
    let mut prepared = conn.prepare(&case.sql).map_err(message)?;
    match &case.params {
        Params::None => {}
        Params::Positional(values) => {
            for (value, number) in values.iter().zip(1..) {
                prepared
                    .raw_bind_parameter(number, print_value(value))
                    .map_err(message)?;
            }
        }
        Params::Named(values) => {
            for (name, value) in values {
                for sigil in [':', '@', '$'] {
                    if let Some(number) = prepared
                        .parameter_index(&format!("{sigil}{name}"))
                        .map_err(message)?
                    {
                        prepared
                            .raw_bind_parameter(number, print_value(value))
                            .map_err(message)?;
                    }
                }
            }
        }
    }
    let names: Vec<String> = prepared.column_names().map(str::to_owned).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut scan = ScanSession::new(
        statement.scan_plan(),
        Action::Flag,
        Marker::from_bytes([0; 16]),
    );
    let mut flow = scan.columns(&names);
    let mut rows = prepared.raw_query();
    while flow.is_continue()
        && let Some(row) = rows.next().map_err(message)?
    {
        let cells = (0..names.len())
            .map(|index| row.get_ref(index).map(value).map_err(message))
            .collect::<Result<Vec<_>, _>>()?;
        flow = scan.row(cells);
    }
    let answer = scan.finish().map_err(|rejection| {
        format!(
            "{rejection}: {}; its columns are {names:?}",
            rejection.operator_detail().unwrap_or("")
        )
    })?;
    serde_json::to_value(answer).map_err(|e| e.to_string())
}

fn print_value(value: &Value) -> rusqlite::types::Value {
    use rusqlite::types::Value as Sqlite;
    match value {
        Value::Null => Sqlite::Null,
        Value::Bool(b) => Sqlite::Integer(i64::from(*b)),
        Value::Integer(i) => Sqlite::Integer(*i),
        Value::Real(r) => Sqlite::Real(*r),
        Value::Text(text) => Sqlite::Text(String::from_utf8_lossy(text).into_owned()),
        Value::Blob(bytes) => Sqlite::Blob(bytes.clone()),
    }
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(i) => Value::Integer(i),
        ValueRef::Real(r) => Value::Real(r),
        ValueRef::Text(text) => Value::Text(text.to_vec()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}
