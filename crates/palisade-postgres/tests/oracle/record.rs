//! The two sets, and their comparison.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use palisade::{
    catalog::Catalog,
    firewall::{Decision, Firewall},
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::servers::{PostgresServer, Server};
use tokio_postgres::Client;

/// Prints what is outside of the domain and what only we hold.
const VERBOSE: &str = "PALISADE_ORACLE_VERBOSE";

/// Everything is permitted, and those functions of the database that need a permit which names them.
fn policies(catalog: &Catalog) -> String {
    let mut text = "permit(principal, action, resource);\n".to_owned();
    let own: BTreeSet<&str> = catalog
        .functions()
        .iter()
        .map(|def| def.uid.as_str())
        .filter(|uid| !uid.starts_with("pg_catalog.") && !uid.starts_with("information_schema."))
        .collect();
    for uid in own {
        let uid = uid.escape_default();
        writeln!(
            text,
            "permit(principal, action == Action::\"call\", resource == Function::\"{uid}\");"
        )
        .unwrap();
    }
    text
}

/// What `pg_depend` holds for the rule of a view: kind, schema, name, column. The schemas of the system are left out.
const RECORDED: &str = "
    SELECT 'column', n.nspname::text, c.relname::text, a.attname::text
        FROM pg_catalog.pg_rewrite r
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
        JOIN pg_catalog.pg_class c ON c.oid = d.refobjid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
        WHERE r.ev_class = 'palisade_oracle.v'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
            AND d.refobjsubid > 0 AND c.relkind <> 'c' AND c.oid <> r.ev_class
    UNION
    SELECT 'relation', n.nspname::text, c.relname::text, ''
        FROM pg_catalog.pg_rewrite r
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
        JOIN pg_catalog.pg_class c ON c.oid = d.refobjid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE r.ev_class = 'palisade_oracle.v'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
            AND c.relkind NOT IN ('S', 'c') AND c.oid <> r.ev_class
    UNION
    SELECT 'function', n.nspname::text, p.proname::text, ''
        FROM pg_catalog.pg_rewrite r
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
        LEFT JOIN pg_catalog.pg_operator o
            ON d.refclassid = 'pg_catalog.pg_operator'::regclass AND o.oid = d.refobjid
        JOIN pg_catalog.pg_proc p
            ON p.oid = CASE WHEN d.refclassid = 'pg_catalog.pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
        JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
        WHERE r.ev_class = 'palisade_oracle.v'::regclass
    UNION
    SELECT 'row type', n.nspname::text, c.relname::text, ''
        FROM pg_catalog.pg_rewrite r
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
        JOIN pg_catalog.pg_proc p ON d.refclassid = 'pg_catalog.pg_proc'::regclass AND d.refobjid = p.oid
        JOIN pg_catalog.pg_type t ON t.oid = p.prorettype
        JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE r.ev_class = 'palisade_oracle.v'::regclass";

/// Schema and name.
type Name = (String, String);

/// What a statement reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reads {
    pub(crate) relations: BTreeSet<Name>,
    pub(crate) columns: BTreeSet<(Name, String)>,
    pub(crate) functions: BTreeSet<Name>,
    /// Relations whose row type a function gives: the record then has their columns, although they are not read.
    row_types: BTreeSet<Name>,
}

impl Reads {
    /// Relations and columns that are here and not in `other`.
    pub(crate) fn missing_in(&self, other: &Self) -> Vec<String> {
        let is_type =
            |name: &Name| self.row_types.contains(name) && !other.relations.contains(name);
        let relations = self.relations.difference(&other.relations);
        let columns = self.columns.difference(&other.columns);
        relations
            .filter(|name| !is_type(name))
            .map(|name| format!("relation {name:?}"))
            .chain(
                columns
                    .filter(|(name, _)| !is_type(name))
                    .map(|column| format!("column {column:?}")),
            )
            .collect()
    }

    /// Functions that are here and not in `other`.
    pub(crate) fn functions_missing_in(&self, other: &Self) -> Vec<String> {
        let functions = self.functions.difference(&other.functions);
        functions.map(|name| format!("function {name:?}")).collect()
    }
}

/// What came of many statements.
#[derive(Default)]
pub(crate) struct Tally {
    /// How many both said something about.
    pub(crate) compared: usize,
    /// Statements with the relations and columns that we do not know of.
    pub(crate) missed: Vec<String>,
    /// Statements with the functions that we do not know of.
    pub(crate) missed_functions: Vec<String>,
    /// Columns the server recorded.
    recorded: usize,
    /// Columns of ours, those below views aside, and how many of them the server recorded.
    ours: usize,
    shared: usize,
    /// How many of those recorded ours has.
    known: usize,
    /// Why statements are outside of the domain.
    outside: BTreeMap<String, usize>,
    /// Ours beyond the record, for reading.
    beyond: Vec<String>,
}

impl Tally {
    /// Says what came of it.
    pub(crate) fn print(&self, what: &str) {
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        println!(
            "{what}: {} compared, recall {:.2} % of {} columns, precision {:.2} % of {}; {} statements miss columns, {} functions; outside: {:?}",
            self.compared,
            percent(self.known, self.recorded),
            self.recorded,
            percent(self.shared, self.ours),
            self.ours,
            self.missed.len(),
            self.missed_functions.len(),
            self.outside
        );
        if std::env::var_os(VERBOSE).is_some() {
            self.beyond.iter().for_each(|line| println!("{line}"));
        }
    }

    pub(crate) fn outside(&mut self, why: &str, what: &str) {
        if std::env::var_os(VERBOSE).is_some() {
            println!("{why}: {what}");
        }
        *self.outside.entry(why.to_owned()).or_default() += 1;
    }
}

/// A database with a firewall over it.
pub(crate) struct Desk {
    client: Client,
    firewall: Firewall,
}

impl Desk {
    /// A new database that `script` fills, statements that fail tolerated where a folder's own are.
    pub(crate) async fn new(label: &str, script: &str) -> Result<Self, String> {
        Self::with(label, script, policies).await
    }

    /// The same with other policies.
    pub(crate) async fn with(
        label: &str,
        script: &str,
        policies: impl FnOnce(&Catalog) -> String,
    ) -> Result<Self, String> {
        let server: &Server = PostgresServer::start_shared().map_err(|e| e.to_string())?;
        let database = server.fresh_database(label).map_err(|e| e.to_string())?;
        let loaded = server.load(&database, script).map_err(|e| e.to_string())?;
        if let Some(first) = loaded.failures.first() {
            println!(
                "{label}: {} statements fail, first: {first}",
                loaded.failures.len()
            );
        }
        let client = palisade_postgres::connect(&server.url(&database))
            .await
            .map_err(|e| e.to_string())?;
        let catalog = palisade_postgres::catalog(&client)
            .await
            .map_err(|e| e.to_string())?;
        let sources = PolicySources::from_cedar("oracle.cedar", policies(&catalog));
        let firewall = Firewall::builder(catalog, sources)
            .build()
            .map_err(|e| e.to_string())?;
        Ok(Self { client, firewall })
    }

    /// Compares what both say about `sql`.
    pub(crate) async fn compare(&self, sql: &str, tally: &mut Tally) {
        let (ours, direct) = match self.ours(sql) {
            Ok(ours) => ours,
            Err(code) => return tally.outside(&code, sql),
        };
        let recorded = match self.recorded(sql).await {
            Ok(recorded) => recorded,
            Err(state) => return tally.outside(&state, sql),
        };
        tally.compared += 1;
        let read = |(name, _): &&(Name, String)| {
            ours.relations.contains(name) || !recorded.row_types.contains(name)
        };
        tally.recorded += recorded.columns.iter().filter(read).count();
        tally.ours += direct.len();
        tally.shared += recorded.columns.intersection(&direct).count();
        tally.known += recorded.columns.intersection(&ours.columns).count();
        let missed = recorded.missing_in(&ours);
        if !missed.is_empty() {
            tally.missed.push(format!("{sql}\n  {}", missed.join(", ")));
        }
        let functions = recorded.functions_missing_in(&ours);
        if !functions.is_empty() {
            let line = format!("{sql}\n  {}", functions.join(", "));
            tally.missed_functions.push(line);
        }
        let beyond: Vec<_> = direct.difference(&recorded.columns).collect();
        if !beyond.is_empty() {
            tally.beyond.push(format!("{sql}\n  {beyond:?}"));
        }
    }

    /// What the server records of `sql`, or the SQLSTATE with which it refuses to make a view of it.
    pub(crate) async fn recorded(&self, sql: &str) -> Result<Reads, String> {
        let sql = sql.trim().trim_end_matches(';');
        let result = self.as_view(sql).await;
        self.client.batch_execute("ROLLBACK").await.unwrap();
        result.map_err(|error| match error.code() {
            Some(state) => format!("server {}", state.code()),
            None => error.to_string(),
        })
    }

    async fn as_view(&self, sql: &str) -> Result<Reads, tokio_postgres::Error> {
        let client = &self.client;
        client
            .batch_execute("BEGIN; CREATE SCHEMA palisade_oracle")
            .await?;
        let count = client.prepare(sql).await?.columns().len();
        // The names of outputs may repeat, which those of a view may not.
        let names: Vec<String> = (0..count).map(|n| format!("c{n}")).collect();
        let names = match names.as_slice() {
            [] => String::new(),
            some => format!("({})", some.join(", ")),
        };
        client
            .batch_execute(&format!("CREATE VIEW palisade_oracle.v {names} AS {sql}\n"))
            .await?;
        let mut reads = Reads::default();
        for row in client.query(RECORDED, &[]).await? {
            let [kind, schema, name, column] = [0, 1, 2, 3].map(|n| row.get::<_, String>(n));
            // Ours keeps those of the system apart.
            if schema == "pg_catalog" || schema == "information_schema" || schema == "pg_toast" {
                continue;
            }
            match kind.as_str() {
                "relation" => drop(reads.relations.insert((schema, name))),
                "column" => drop(reads.columns.insert(((schema, name), column))),
                "row type" => drop(reads.row_types.insert((schema, name))),
                "function" => drop(reads.functions.insert((schema, name))),
                other => panic!("unknown kind {other}"),
            }
        }
        Ok(reads)
    }

    /// What we decide over, and the columns of it that are not only read below a view; or the code of the refusal.
    pub(crate) fn ours(&self, sql: &str) -> Result<(Reads, BTreeSet<(Name, String)>), String> {
        let session = Session::new(Principal::new("Agent", "oracle"));
        let (decision, trace) = self.firewall.explain(sql, &Params::None, &session).unwrap();
        if let Decision::Reject(why) = decision {
            return Err(why.code().slug().to_owned());
        }
        let catalog = self.firewall.catalog();
        let mut reads = Reads::default();
        let mut direct = BTreeSet::new();
        for traced in &trace.relations {
            let relation = catalog
                .relations()
                .iter()
                .find(|relation| relation.uid == traced.relation)
                .unwrap();
            let name = (relation.schema.clone(), relation.name.clone());
            for column in &traced.columns {
                let column_name = (name.clone(), column.column.clone());
                if column.usages.iter().any(|usage| *usage != "view") {
                    direct.insert(column_name.clone());
                }
                reads.columns.insert(column_name);
            }
            reads.relations.insert(name);
        }
        for uid in &trace.functions {
            let def = catalog.functions().iter().find(|def| def.uid == *uid);
            if let Some((schema, name)) = def.and_then(|def| def.uid.split_once('.')) {
                let plain = |word: &str| word.trim_matches('"').replace("\"\"", "\"");
                reads.functions.insert((plain(schema), plain(name)));
            }
        }
        Ok((reads, direct))
    }
}
