//! Tests made of policies: rows that their conditions take and leave, and a statement for each use of each column.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use palisade::{
    catalog::{Catalog, Relation, RelationId, RelationKind},
    dialect::Dialect,
    firewall::{AccessLevel, Firewall},
    policy::obligation::RowFilter,
    session::{Principal, Session},
};
use serde_json::Value as Json;

use crate::{
    case::{Case, Expectation, Verdict},
    compare::rows_of,
    folder::PolicyTests,
    load::{Corpus, OWN_POLICIES, is_snapshot},
    probe,
    probe_case::{probe_case, stand_in},
    row_maker::{Cell, Values, propose},
    row_sets::RowSets,
    run::{RunError, Runner},
    witness::expect_rows,
    written::dialect,
};

/// What the catalog of generated tests is called, which ends in its dialect.
fn name_catalog(dialect: Dialect) -> String {
    match dialect {
        Dialect::Sqlite => "generated".to_owned(),
        Dialect::Postgres | Dialect::Mysql => format!("generated.{}", dialect.name()),
    }
}

/// Tests that were made of a policy folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// What the catalog is called: its tables are `tests/NAME.sql`.
    pub catalog: String,
    /// The text of that file.
    pub tables: String,
    /// The text of `tests/servers.toml`, where the rows are on a server.
    pub servers: Option<String>,
    /// The text of `tests/generated.toml`.
    pub cases: String,
    /// The cells that nothing establishes, and why. Each fails until a person has decided it.
    pub unverified: Vec<String>,
    /// Rows that the tables do not take, by their constraints.
    pub rejected: usize,
}

/// Why no tests can be generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// Policies or tables do not load.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The tables are not such as rows can be made for.
    #[error("{0}")]
    Tables(String),
}

/// A principal that stands for a class.
struct Member {
    /// As matrices call it.
    key: String,
    principal: Principal,
}

/// A cell of the matrix.
struct Statement {
    name: String,
    sql: String,
    /// The table whose condition of rows it shows, where it is about one.
    of_rows: Option<String>,
}

impl PolicyTests {
    /// Tests of the policies over the tables of `catalog`. Rows of PostgreSQL, MySQL and MariaDB are tried on the server that
    /// `tests/servers.toml` names for it, in databases of their own.
    ///
    /// # Errors
    /// If policies or tables do not load, or the tables are a snapshot or of an engine without a server.
    pub fn generate(&self, catalog: &str) -> Result<Generated, GenerateError> {
        let refuse = |why: &str| Err(GenerateError::Tables(format!("`{catalog}` {why}")));
        let own = self.corpus();
        let Some(text) = own.catalogs.get(catalog).filter(|text| !is_snapshot(text)) else {
            return refuse("is no `tests/NAME.sql`, and rows are made for tables of such");
        };
        let Ok(dialect) = dialect(catalog) else {
            return refuse("is of no dialect");
        };
        let server = own.servers.get(catalog);
        match (dialect, server) {
            (Dialect::Sqlite, _) | (Dialect::Postgres | Dialect::Mysql, Some(_)) => {}
            (Dialect::Postgres | Dialect::Mysql, None) => {
                return refuse(
                    "has no server to try rows on\n  help: name one that holds nothing but tests in `tests/servers.toml`, with `disposable = true`",
                );
            }
        }
        // Names are those of the text, where the database on a server has another.
        let firewall = Runner::over_catalogs(own, OWN_POLICIES)?;
        let firewall = firewall.firewall_over(catalog, OWN_POLICIES)?;
        let runner = Runner::over_server(own, catalog, OWN_POLICIES)?;
        let members = list_members(&firewall, catalog)?;
        let samples = read_samples(&runner, catalog, firewall.catalog());
        let mut sets = RowSets::new(firewall.catalog(), samples);
        let mut conditions = BTreeMap::new();
        for member in &members {
            for (relation, rows) in conditions_of(&firewall, &member.principal, catalog)? {
                if let RowFilter::Where(predicate) = &rows {
                    conditions.insert((member.key.clone(), relation.uid.clone()), relation);
                    for wanted in [true, false] {
                        for values in propose(predicate, wanted, relation) {
                            sets.add(relation, &values);
                        }
                    }
                }
            }
        }
        for relation in firewall.catalog().relations() {
            if relation.system.is_none() {
                sets.add(relation, &Values::new());
            }
        }
        let inserts = sets.inserts();
        let base = match dialect {
            Dialect::Sqlite => read_definitions(&runner, catalog)?,
            Dialect::Postgres | Dialect::Mysql => empty_tables(text, firewall.catalog()),
        };
        let new = name_catalog(dialect);
        let mut corpus = Corpus {
            catalogs: BTreeMap::from([(new.clone(), base.before.clone())]),
            policies: own.policies.clone(),
            techniques: BTreeMap::new(),
            survivors: Vec::new(),
            servers: server
                .map(|server| (new.clone(), server.clone()))
                .into_iter()
                .collect(),
            default_policies: Some(OWN_POLICIES.to_owned()),
            cases: Vec::new(),
        };
        let (tables, rejected) = write_tables(&corpus, &new, &base, inserts)?;
        corpus.catalogs.insert(new.clone(), tables.clone());
        let runner = Runner::over_server(&corpus, &new, OWN_POLICIES)?;
        let mut writer = Writer {
            firewall: &firewall,
            runner: &runner,
            catalog: &new,
            members: &members,
            unverified: Vec::new(),
        };
        let unshown = writer.find_unshown(&conditions);
        let mut cases = writer.write_matrix(&unshown);
        cases.push_str(&writer.write_rows(&conditions)?);
        let unverified = writer.unverified;
        Ok(Generated {
            servers: server.map(|server| server.to_toml(&new)),
            catalog: new,
            tables,
            cases,
            unverified,
            rejected,
        })
    }
}

/// One principal of each class: those with equal lines in `access.lock`.
fn list_members(firewall: &Firewall, catalog: &str) -> Result<Vec<Member>, RunError> {
    let mut seen = BTreeSet::new();
    let mut members: Vec<Member> = Vec::new();
    for principal in firewall.known_principals() {
        let classes = firewall.access_classes(std::slice::from_ref(&principal));
        let classes = classes.map_err(|source| RunError::Policies {
            policies: OWN_POLICIES.to_owned(),
            catalog: catalog.to_owned(),
            source,
        })?;
        let cells = classes.into_iter().flat_map(|class| class.cells);
        if !seen.insert(cells.collect::<Vec<_>>()) {
            continue;
        }
        let principal = stand_in(&principal);
        let key = slug(&format!("{} {}", principal.kind(), principal.id()));
        let taken = |key: &str| members.iter().any(|member| member.key == key);
        let numbered = (2..).map(|number: u32| format!("{key}-{number}"));
        let mut keys = std::iter::once(key.clone()).chain(numbered);
        let key = keys.find(|key| !taken(key)).unwrap_or_default();
        members.push(Member { key, principal });
    }
    Ok(members)
}

/// Which rows a principal sees of each table.
fn conditions_of<'f>(
    firewall: &'f Firewall,
    principal: &Principal,
    catalog: &str,
) -> Result<Vec<(&'f Relation, RowFilter)>, RunError> {
    let session = Session::new(principal.clone()).at(Duration::ZERO);
    let seen = firewall
        .seen_rows(&session)
        .map_err(|rejection| RunError::Policies {
            policies: OWN_POLICIES.to_owned(),
            catalog: catalog.to_owned(),
            source: palisade::error::Error::Internal(rejection.to_string()),
        })?;
    let seen = seen.into_iter().filter_map(|seen| {
        let relation = firewall.catalog().relation(seen.relation)?;
        Some((relation, seen.rows))
    });
    Ok(seen.collect())
}

/// The script of the tables, around their rows.
struct Definitions {
    before: String,
    after: String,
}

fn read_definitions(runner: &Runner, catalog: &str) -> Result<Definitions, GenerateError> {
    let sql = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid";
    let anyone = Principal::new("Agent", "anyone");
    let case = probe_case(catalog, &anyone, sql, Duration::ZERO);
    let fault = |why: &str| GenerateError::Tables(format!("tests/{catalog}.sql: {why}"));
    let case = case.ok_or_else(|| fault("it is of no dialect"))?;
    let rows = runner.read_bare(&case, sql).map_err(|why| fault(&why))?;
    let (mut before, mut after) = (String::new(), String::new());
    for row in &rows {
        let text = |index: usize| row.get(index).and_then(Json::as_str).unwrap_or_default();
        let (kind, name, sql) = (text(0), text(1), text(2));
        if sql.to_ascii_uppercase().starts_with("CREATE VIRTUAL") {
            let why = format!("`{name}` is a virtual table, and rows are not made for such");
            return Err(fault(&why));
        }
        let place = match kind {
            "table" if name.starts_with("sqlite_") => continue,
            "table" => &mut before,
            // Triggers would change the rows.
            _ => &mut after,
        };
        let _ = writeln!(place, "{sql};");
    }
    Ok(Definitions { before, after })
}

/// The folder's own script without the rows that it leaves.
fn empty_tables(script: &str, catalog: &Catalog) -> Definitions {
    let dialect = catalog.dialect();
    let tables = catalog
        .relations()
        .iter()
        .filter(|relation| relation.kind == RelationKind::Table && relation.system.is_none());
    let names: Vec<String> = tables
        .map(|relation| probe::name_table(dialect, relation, catalog))
        .collect();
    let mut before = script.trim_end().to_owned();
    // An empty statement is none to MySQL.
    let lines = before.lines().rev().map(str::trim);
    let mut code = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
    if code.next().is_some_and(|last| !last.ends_with(';')) {
        before.push_str("\n;");
    }
    before.push('\n');
    if names.is_empty() {
        return Definitions {
            before,
            after: String::new(),
        };
    }
    before.push_str("-- The rows above give way to those that were made.\n");
    match dialect {
        Dialect::Sqlite => {}
        Dialect::Postgres => {
            let _ = writeln!(before, "TRUNCATE TABLE {} CASCADE;", names.join(", "));
        }
        Dialect::Mysql => {
            before.push_str("SET FOREIGN_KEY_CHECKS = 0;\n");
            for name in &names {
                let _ = writeln!(before, "TRUNCATE TABLE {name};");
            }
            before.push_str("SET FOREIGN_KEY_CHECKS = 1;\n");
        }
    }
    Definitions {
        before,
        after: String::new(),
    }
}

/// The first row of each table in the folder's own fixture: values that constraints are known to take.
fn read_samples(runner: &Runner, name: &str, catalog: &Catalog) -> BTreeMap<RelationId, Values> {
    let anyone = Principal::new("Agent", "anyone");
    let mut out = BTreeMap::new();
    for relation in catalog.relations() {
        if relation.kind != RelationKind::Table || relation.system.is_some() {
            continue;
        }
        let dialect = catalog.dialect();
        let columns = relation.columns.iter();
        let columns: Vec<String> = columns
            .map(|column| probe::name_in(dialect, &column.name))
            .collect();
        let table = probe::name_table(dialect, relation, catalog);
        let sql = format!("SELECT {} FROM {table} LIMIT 1", columns.join(", "));
        let row = probe_case(name, &anyone, &sql, Duration::ZERO)
            .and_then(|case| runner.read_bare(&case, &sql).ok())
            .and_then(|rows| rows.into_iter().next());
        let cells = (0_u16..).zip(row.into_iter().flatten());
        let cells = cells.filter_map(|(index, cell)| Some((index, read_cell(&cell)?)));
        out.insert(relation.id, cells.collect());
    }
    out
}

fn read_cell(cell: &Json) -> Option<Cell> {
    match cell {
        Json::Null => Some(Cell::Null),
        Json::Bool(is_true) => Some(Cell::Integer(i64::from(*is_true))),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Some(Cell::Integer(integer)),
            None => Some(Cell::Number(number.to_string())),
        },
        Json::String(text) => Some(Cell::Text(text.clone())),
        Json::Array(_) | Json::Object(_) => None,
    }
}

/// The text of the fixture, with the rows that the tables take, and how many they do not.
fn write_tables(
    corpus: &Corpus,
    catalog: &str,
    base: &Definitions,
    inserts: Vec<String>,
) -> Result<(String, usize), GenerateError> {
    // In a database that is given up with this value.
    let runner = Runner::over_server(corpus, catalog, OWN_POLICIES)?;
    let taken = runner.try_each(catalog, OWN_POLICIES, &inserts);
    let taken = taken.map_err(GenerateError::Tables)?;
    let rejected = taken.iter().filter(|is_taken| !**is_taken).count();
    let mut out = "-- Rows that the conditions of the policies take, and rows that they leave.\n\
                   -- Written by `palisade policy test --generate`, for review.\n"
        .to_owned();
    out.push_str(&base.before);
    for (insert, _) in inserts.iter().zip(taken).filter(|(_, is_taken)| *is_taken) {
        let _ = writeln!(out, "{insert}");
    }
    out.push_str(&base.after);
    Ok((out, rejected))
}

struct Writer<'w> {
    firewall: &'w Firewall,
    runner: &'w Runner,
    catalog: &'w str,
    members: &'w [Member],
    unverified: Vec<String>,
}

impl Writer<'_> {
    /// The conditions of which no row is taken, or none is left, each with why.
    fn find_unshown(
        &mut self,
        conditions: &BTreeMap<(String, String), &Relation>,
    ) -> BTreeSet<(String, String)> {
        let mut unshown = BTreeSet::new();
        for ((key, table), relation) in conditions {
            let Some(member) = self.members.iter().find(|member| member.key == *key) else {
                continue;
            };
            let why = match self.count_rows(&member.principal, relation) {
                Some((0, _)) => "no row was found that its condition takes",
                Some((taken, all)) if taken == all => "no row was found that its condition leaves",
                Some(_) => continue,
                None => "its rows cannot be counted",
            };
            self.unverified
                .push(format!("{}, {table}: {why}", member.principal));
            unshown.insert((key.clone(), table.clone()));
        }
        unshown
    }

    /// How many rows the principal sees, and how many there are.
    fn count_rows(&self, principal: &Principal, relation: &Relation) -> Option<(usize, usize)> {
        let catalog = self.firewall.catalog();
        let table = probe::name_table(catalog.dialect(), relation, catalog);
        // No function, which a policy would have to permit.
        let sql = format!("SELECT 1 AS one FROM {table}");
        let case = probe_case(self.catalog, principal, &sql, Duration::ZERO)?;
        let all = self.runner.read_bare(&case, &sql).ok()?.len();
        let answer = self.runner.run(&case).answer;
        let answer = answer.filter(|answer| answer.code.is_none())?;
        Some((rows_of(&answer.json).len(), all))
    }

    /// A matrix of every principal and every use of every column.
    fn write_matrix(&mut self, unshown: &BTreeSet<(String, String)>) -> String {
        let mut out = "# Written by `palisade policy test --generate`, for review: what came out is not yet what was meant.\n\n\
                       [[matrix]]\nname = \"generated\"\nwhy = \"It came out so when it was generated.\"\n\n[matrix.principals]\n"
            .to_owned();
        for member in self.members {
            let principal = toml::Value::from(member.principal.to_string());
            let _ = writeln!(out, "{} = {principal}", member.key);
        }
        for statement in list_statements(self.firewall.catalog()) {
            let cells: Vec<String> = self
                .members
                .iter()
                .map(|member| {
                    let key = &member.key;
                    let of_rows = statement.of_rows.as_ref();
                    let is_unshown = of_rows
                        .is_some_and(|table| unshown.contains(&(key.clone(), table.clone())));
                    let cell = match is_unshown {
                        true => "unverified".to_owned(),
                        false => self.cell(&member.principal, &statement),
                    };
                    format!("{key} = \"{cell}\"")
                })
                .collect();
            let _ = write!(
                out,
                "\n[[matrix.statement]]\nname = \"{}\"\nsql = {}\ncells = {{ {} }}\n",
                statement.name,
                toml::Value::from(statement.sql.as_str()),
                cells.join(", ")
            );
        }
        out
    }

    /// What becomes of a statement, as a matrix has it.
    fn cell(&mut self, principal: &Principal, statement: &Statement) -> String {
        let asked = probe_case(self.catalog, principal, &statement.sql, Duration::ZERO);
        let asked = asked.map(|case| Case {
            // As cells are decided, with what is shown.
            expect: Expectation {
                shown: Some(crate::case::Shown::default()),
                ..Expectation::from_verdict(Verdict::Allow)
            },
            ..case
        });
        let answer = asked.and_then(|case| self.runner.decide(&case).ok());
        match answer.map(|answer| (answer.code, answer.shown)) {
            Some((Some(code), _)) => code.slug().to_owned(),
            Some((None, Some(shown))) => match (shown.masked, shown.filtered) {
                (false, false) => "allow".to_owned(),
                (true, false) => "mask".to_owned(),
                (false, true) => "filter".to_owned(),
                (true, true) => "mask, filter".to_owned(),
            },
            Some((None, None)) | None => {
                let name = &statement.name;
                self.unverified
                    .push(format!("{principal}, {name}: it cannot be decided"));
                "unverified".to_owned()
            }
        }
    }

    /// A case for each principal and table with a condition: the rows that are seen.
    fn write_rows(
        &mut self,
        conditions: &BTreeMap<(String, String), &Relation>,
    ) -> Result<String, RunError> {
        let catalog = self.firewall.catalog();
        let dialect = catalog.dialect();
        let mut out = String::new();
        for ((key, table), relation) in conditions {
            let Some(member) = self.members.iter().find(|member| member.key == *key) else {
                continue;
            };
            let places = self
                .firewall
                .access_places(&member.principal)
                .map_err(|source| RunError::Policies {
                    policies: OWN_POLICIES.to_owned(),
                    catalog: self.catalog.to_owned(),
                    source,
                })?;
            let is_read = |name: &str| {
                places.iter().any(|place| {
                    place.table == *table
                        && place.column.as_deref() == Some(name)
                        && place.action == "read"
                        && !place.levels.iter().any(AccessLevel::is_nothing)
                })
            };
            let columns = relation.columns.iter();
            let columns: Vec<String> = columns
                .filter(|column| is_read(&column.name))
                .map(|column| probe::name_in(dialect, &column.name))
                .collect();
            if columns.is_empty() {
                continue;
            }
            let from = probe::name_table(dialect, relation, catalog);
            let sql = format!("SELECT {} FROM {from}", columns.join(", "));
            let Some(mut case) = probe_case(self.catalog, &member.principal, &sql, Duration::ZERO)
            else {
                continue;
            };
            let Some(answer) = self.runner.run(&case).answer else {
                continue;
            };
            case.expect = expect_rows(&answer);
            case.written_name = slug(&format!("rows {table} {key}"));
            case.name.clone_from(&case.written_name);
            "These rows its condition takes, and no other.".clone_into(&mut case.why);
            if self.runner.run(&case).differences.is_empty() {
                let _ = write!(out, "\n{}", case.to_toml());
            } else {
                self.unverified.push(format!(
                    "{}, {table}: its rows come out otherwise each time",
                    member.principal
                ));
            }
        }
        Ok(out)
    }
}

/// Each use of each column, and of each table its rows and changes.
fn list_statements(catalog: &Catalog) -> Vec<Statement> {
    let dialect = catalog.dialect();
    let mut out: Vec<Statement> = Vec::new();
    let mut names = BTreeSet::new();
    let mut add = |name: &str, sql: String, of_rows: Option<&str>| {
        let name = slug(name);
        let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
        let mut all = std::iter::once(name.clone()).chain(numbered);
        let name = all.find(|name| !names.contains(name)).unwrap_or(name);
        names.insert(name.clone());
        out.push(Statement {
            name,
            sql,
            of_rows: of_rows.map(str::to_owned),
        });
    };
    for relation in catalog.relations() {
        let is_table = match relation.kind {
            RelationKind::Table => true,
            RelationKind::View | RelationKind::Materialized => false,
            RelationKind::Virtual | RelationKind::System => continue,
        };
        let uid = &relation.uid;
        let table = probe::name_table(dialect, relation, catalog);
        let count = format!("SELECT 1 AS one FROM {table}");
        add(&format!("{uid} rows"), count, Some(uid));
        if is_table {
            let delete = format!("DELETE FROM {table} WHERE 1 = 1");
            add(&format!("{uid} delete"), delete, None);
        }
        for column in &relation.columns {
            let of = format!("{uid} {}", column.name);
            let name = probe::name_in(dialect, &column.name);
            for (usage, sql) in [
                ("output", format!("SELECT {name} FROM {table}")),
                (
                    "filter",
                    format!("SELECT 1 AS one FROM {table} WHERE {name} IS NOT NULL"),
                ),
                (
                    "group",
                    format!("SELECT 1 AS one FROM {table} GROUP BY {name}"),
                ),
                (
                    "order",
                    format!("SELECT 1 AS one FROM {table} ORDER BY {name}"),
                ),
                ("aggregate", format!("SELECT MAX({name}) FROM {table}")),
            ] {
                add(&format!("{of} {usage}"), sql, None);
            }
            if is_table && column.generated.is_none() {
                let update = format!("UPDATE {table} SET {name} = NULL WHERE 1 = 1");
                add(&format!("{of} write"), update, None);
            }
        }
    }
    out
}

/// Small letters, digits and `-`.
fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    match words.is_empty() {
        true => "other".to_owned(),
        false => words.join("-"),
    }
}
