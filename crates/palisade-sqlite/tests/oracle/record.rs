//! The two sets, and their comparison.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use palisade::{
    firewall::{Decision, Firewall},
    policy::PolicySources,
    rewrite::RewrittenStatement,
    session::{Principal, Session},
    value::Params,
};
use palisade_sqlite::SqliteBackend;
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};

/// Prints what is outside of the domain and what only we hold.
const VERBOSE: &str = "PALISADE_ORACLE_VERBOSE";

/// What a statement reads, names in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reads {
    /// Relations, where no column says so.
    pub(crate) relations: BTreeSet<String>,
    pub(crate) columns: BTreeSet<(String, String)>,
    pub(crate) functions: BTreeSet<String>,
}

impl Reads {
    /// What is here and not in `other`.
    pub(crate) fn missing_in(&self, other: &Self) -> Vec<String> {
        let relations = self.relations.difference(&other.relations);
        let columns = self.columns.difference(&other.columns);
        let functions = self.functions.difference(&other.functions);
        let relations = relations.map(|name| format!("relation {name}"));
        let columns = columns.map(|(table, column)| format!("column {table}.{column}"));
        let functions = functions.map(|name| format!("function {name}"));
        relations.chain(columns).chain(functions).collect()
    }
}

/// What came of many statements.
#[derive(Default)]
pub(crate) struct Tally {
    /// How many both said something about.
    pub(crate) compared: usize,
    /// Statements with what we do not know of.
    pub(crate) missed: Vec<String>,
    asked: usize,
    known: usize,
    ours: usize,
    shared: usize,
    /// Why statements are outside of the domain.
    outside: BTreeMap<String, usize>,
}

impl Tally {
    /// Says what came of it.
    pub(crate) fn print(&self, what: &str) {
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        println!(
            "{what}: {} compared, recall {:.2} % of {} columns, precision {:.2} % of {}; {} statements miss something; outside: {:?}",
            self.compared,
            percent(self.known, self.asked),
            self.asked,
            percent(self.shared, self.ours),
            self.ours,
            self.missed.len(),
            self.outside
        );
    }

    pub(crate) fn outside(&mut self, why: &str, what: &str) {
        if std::env::var_os(VERBOSE).is_some() {
            println!("{why}: {what}");
        }
        *self.outside.entry(why.to_owned()).or_default() += 1;
    }
}

/// A database with a firewall over it that permits everything.
pub(crate) struct Desk {
    conn: Connection,
    seen: Arc<Mutex<Reads>>,
    firewall: Firewall,
    _folder: tempfile::TempDir,
}

impl Desk {
    /// A new database that `script` fills.
    pub(crate) fn new(script: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let path = folder.path().join("oracle.db");
        let mut conn = Connection::open(&path).map_err(|e| e.to_string())?;
        conn.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF;")
            .map_err(|e| e.to_string())?;
        conn.execute_batch(script).map_err(|e| e.to_string())?;
        let backend = SqliteBackend::open_file(&path, "oracle").map_err(|e| e.to_string())?;
        let sources =
            PolicySources::from_cedar("oracle.cedar", "permit(principal, action, resource);");
        let firewall = Firewall::builder(backend.catalog().clone(), sources)
            .build()
            .map_err(|e| e.to_string())?;
        let seen = Arc::new(Mutex::new(Reads::default()));
        let relations: BTreeSet<String> = backend
            .catalog()
            .relations()
            .iter()
            .map(|relation| relation.name.to_lowercase())
            .collect();
        let log = Arc::clone(&seen);
        conn.authorizer(Some(move |context: AuthContext<'_>| {
            note(&mut log.lock().unwrap(), &context, &relations);
            Authorization::Allow
        }))
        .map_err(|e| e.to_string())?;
        Ok(Self {
            conn,
            seen,
            firewall,
            _folder: folder,
        })
    }

    /// Compares what both say about `sql`.
    pub(crate) fn compare(&self, sql: &str, params: &Params, tally: &mut Tally) {
        let (ours, direct) = match self.ours(sql, params) {
            Ok(ours) => ours,
            Err(code) => return tally.outside(&code, sql),
        };
        let asked = match self.read_authorizer(sql) {
            Ok(asked) => asked,
            Err(error) => return tally.outside(&error, sql),
        };
        tally.compared += 1;
        tally.asked += asked.columns.len();
        tally.known += asked.columns.intersection(&ours.columns).count();
        tally.ours += direct.len();
        tally.shared += asked.columns.intersection(&direct).count();
        let mut missed = asked.missing_in(&ours);
        if joins_in_parentheses(sql) {
            // The engine makes `(SELECT * FROM …)` of them: then it asks about every column of what is read.
            let read = |line: &String| {
                ours.relations
                    .iter()
                    .any(|name| line.starts_with(&format!("column {name}.")))
            };
            missed.retain(|line| !read(line));
        }
        if merges_after_outer_join(sql) {
            // What is merged may come from any of the tables; the statement does not call the function that chooses.
            missed.retain(|line| line != "function coalesce");
        }
        if !missed.is_empty() {
            tally.missed.push(format!("{sql}\n  {}", missed.join(", ")));
        }
        if std::env::var_os(VERBOSE).is_some() {
            let beyond: Vec<_> = direct.difference(&asked.columns).collect();
            if !beyond.is_empty() {
                println!("only ours: {sql}\n  {beyond:?}");
            }
        }
    }

    /// What the engine asks about when it prepares `sql`, or its error.
    pub(crate) fn read_authorizer(&self, sql: &str) -> Result<Reads, String> {
        *self.seen.lock().unwrap() = Reads::default();
        self.conn.prepare(sql).map_err(|e| format!("engine: {e}"))?;
        Ok(self.seen.lock().unwrap().clone())
    }

    /// What we decide over, and the columns of it that are not only read below a view; or the code of the refusal.
    pub(crate) fn ours(
        &self,
        sql: &str,
        params: &Params,
    ) -> Result<(Reads, BTreeSet<(String, String)>), String> {
        let session = Session::new(Principal::new("Agent", "oracle"));
        let (decision, trace) = self.firewall.explain(sql, params, &session).unwrap();
        match decision {
            Decision::Reject(why) => return Err(why.code().slug().to_owned()),
            Decision::Allow(statement) => self.origins_are_decided(&statement),
        }
        let mut reads = Reads::default();
        let mut direct = BTreeSet::new();
        for traced in &trace.relations {
            let relations = self.firewall.catalog().relations();
            let relation = relations.iter().find(|r| r.uid == traced.relation).unwrap();
            let name = relation.name.to_lowercase();
            for column in &traced.columns {
                let column_name = (name.clone(), column.column.to_lowercase());
                if column.usages.iter().any(|usage| *usage != "view") {
                    direct.insert(column_name.clone());
                }
                reads.columns.insert(column_name);
            }
            reads.relations.insert(name);
        }
        reads.functions = trace
            .functions
            .iter()
            .map(|uid| {
                uid.rsplit('.')
                    .next()
                    .unwrap()
                    .trim_matches('"')
                    .to_lowercase()
            })
            .collect();
        Ok((reads, direct))
    }
}

impl Desk {
    /// The backend refuses a statement of whose columns the engine says that they come from elsewhere.
    fn origins_are_decided(&self, statement: &RewrittenStatement) {
        let sql = palisade::danger::parts(statement).sql;
        let Ok(compiled) = self.conn.prepare(sql) else {
            return;
        };
        for column in compiled.columns_with_metadata() {
            if column.database_name().is_none() {
                continue;
            }
            if let (Some(table), Some(origin)) = (column.table_name(), column.origin_name()) {
                let pair = (table.to_lowercase(), origin.to_lowercase());
                assert!(statement.engine_reads().contains(&pair), "{sql}: {pair:?}");
            }
        }
    }
}

/// Whether USING or NATURAL stands after a RIGHT or FULL JOIN.
fn merges_after_outer_join(sql: &str) -> bool {
    let words = sql.to_lowercase();
    let outer = ["right ", "full "]
        .iter()
        .filter_map(|word| words.find(word));
    outer
        .min()
        .and_then(|at| words.get(at..))
        .is_some_and(|after| after.contains("using") || after.contains("natural"))
}

/// Whether a join stands in parentheses of its own: `FROM (a JOIN b)`, `JOIN (a JOIN b)`.
fn joins_in_parentheses(sql: &str) -> bool {
    let words = sql.to_lowercase();
    ["join (", "from (", ", ("].iter().any(|before| {
        words.split(before).skip(1).any(|after| {
            let after = after.trim_start();
            !["select", "with", "values"]
                .iter()
                .any(|word| after.starts_with(word))
                && after.split(')').next().unwrap().contains("join")
        })
    })
}

/// Notes what the engine asks about, if it is about a relation of the catalog or a function.
fn note(reads: &mut Reads, context: &AuthContext<'_>, relations: &BTreeSet<String>) {
    match context.action {
        AuthAction::Read {
            table_name,
            column_name,
        } => {
            let table = table_name.to_lowercase();
            if !relations.contains(&table) {
                return;
            }
            // Without a column a common table expression may be meant, which is in no database.
            if column_name.is_empty() {
                if context.database_name.is_some() {
                    reads.relations.insert(table);
                }
            } else if column_name == "ROWID" {
                reads.relations.insert(table);
            } else {
                reads.columns.insert((table, column_name.to_lowercase()));
            }
        }
        AuthAction::Function { function_name } => {
            reads.functions.insert(function_name.to_lowercase());
        }
        _ => {}
    }
}
