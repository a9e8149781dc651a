//! The tables of built-in functions, read once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use super::{FunctionDef, Kinds, Safety};
use crate::{dialect::Dialect, ident};

/// The built-in functions of one engine.
#[derive(Debug, Default)]
pub struct Registry {
    functions: Vec<FunctionDef>,
    by_name: HashMap<String, Vec<usize>>,
    by_uid: HashMap<String, usize>,
    /// Functions of extensions, which a database may have in any schema: by extension and name.
    extensions: BTreeMap<(String, String), FunctionDef>,
    /// Which servers have a function, by its id, of those that not every server has.
    servers: HashMap<String, Servers>,
    /// Rows that could not be read; a test shows that there are none.
    problems: Vec<String>,
}

impl Registry {
    /// Every function, extensions' aside.
    #[must_use]
    pub fn all(&self) -> &[FunctionDef] {
        &self.functions
    }

    /// The functions with this folded name.
    pub fn find_by_name(&self, name: &str) -> impl Iterator<Item = &FunctionDef> {
        self.by_name
            .get(name)
            .into_iter()
            .flatten()
            .filter_map(|index| self.functions.get(*index))
    }

    /// The function with this id.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<&FunctionDef> {
        self.functions.get(*self.by_uid.get(uid)?)
    }

    /// Which servers have the function with this id; none where all have it.
    #[must_use]
    pub fn servers(&self, uid: &str) -> Option<&Servers> {
        self.servers.get(uid)
    }

    /// What is wrong with the table; empty.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn read(table: &str) -> Self {
        let mut registry = Self::default();
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            match row(line) {
                Some((extension, def)) => {
                    if let Some(servers) = Servers::read(line)
                        && extension.is_none()
                    {
                        registry.servers.insert(def.0.uid.clone(), servers);
                    }
                    registry.add(extension, def);
                }
                None => registry.problems.push(line.to_owned()),
            }
        }
        registry
    }

    fn add(&mut self, extension: Option<String>, (def, exceptions): (FunctionDef, Exceptions)) {
        if let Some(extension) = extension {
            // An exception's class counts for the whole name: which overload is meant is not known.
            let safety = exceptions
                .iter()
                .map(|(safety, _)| *safety)
                .fold(def.safety, Safety::max);
            let key = (extension, def.name.clone());
            self.extensions.insert(key, FunctionDef { safety, ..def });
            return;
        }
        for (safety, args) in exceptions {
            self.push(FunctionDef {
                uid: format!("{}/{args}", def.uid),
                safety,
                min_args: args,
                max_args: Some(args),
                ..def.clone()
            });
        }
        self.push(def);
    }

    fn push(&mut self, def: FunctionDef) {
        let index = self.functions.len();
        self.by_name
            .entry(def.name.clone())
            .or_default()
            .push(index);
        if self.by_uid.insert(def.uid.clone(), index).is_some() {
            self.problems.push(format!("{} stands twice", def.uid));
        }
        self.functions.push(def);
    }
}

/// Which servers have a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// The product, folded, where another of its family lacks it: `mariadb`.
    pub product: Option<String>,
    /// The first version, from its major number on.
    pub since: Option<Vec<u32>>,
}

impl Servers {
    /// What the note of a line says; none where it says nothing of servers.
    fn read(line: &str) -> Option<Self> {
        let words = || line.rsplit('\t').next().unwrap_or_default().split(' ');
        let value = |key: &str| words().find_map(|word| word.strip_prefix(key));
        let servers = Self {
            product: value("engine=").map(str::to_owned),
            since: value("since=").map(version_numbers),
        };
        (servers.product.is_some() || servers.since.is_some()).then_some(servers)
    }

    /// Whether `engine`, such as `PostgreSQL 15.4`, is one of them.
    #[must_use]
    pub fn include(&self, engine: &str) -> bool {
        let (product, version) = engine.split_once(' ').unwrap_or((engine, ""));
        let is_product = |wanted: &String| product.eq_ignore_ascii_case(wanted);
        let is_new = |since: &Vec<u32>| version_numbers(version) >= *since;
        self.product.as_ref().is_none_or(is_product) && self.since.as_ref().is_none_or(is_new)
    }
}

fn version_numbers(version: &str) -> Vec<u32> {
    let numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    numbers.collect()
}

/// Classes that hold for one number of arguments only.
type Exceptions = Vec<(Safety, u8)>;

/// One line: `schema name kind safety min max out bound note`, between tabs.
fn row(line: &str) -> Option<(Option<String>, (FunctionDef, Exceptions))> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let (schema, name, kind, safety) = (next()?, next()?, next()?, next()?);
    let (min, max, out, bound, note) = (next()?, next()?, next()?, next()?, next()?);
    if next().is_some() {
        return None;
    }
    let optional = |field: &str| match field {
        "-" => Some(None),
        number => number.parse::<u8>().ok().map(Some),
    };
    let columns = match out {
        "-" => Vec::new(),
        lists => lists
            .split('|')
            .map(|list| list.split(',').map(str::to_owned).collect())
            .collect(),
    };
    let mut exceptions = Vec::new();
    let words = || note.split([' ', ';', ',']);
    for word in words() {
        if let Some((class, args)) = word.split_once(':')
            && let Some(safety) = Safety::from_name(class)
        {
            exceptions.push((safety, args.parse().ok()?));
        }
    }
    let extension = schema.strip_prefix('@').map(str::to_owned);
    let schema = (schema != "-" && extension.is_none()).then(|| schema.to_owned());
    let def = FunctionDef {
        uid: uid(schema.as_deref(), name),
        schema,
        name: name.to_owned(),
        kinds: kinds(kind)?,
        safety: Safety::from_name(safety)?,
        min_args: min.parse().ok()?,
        max_args: optional(max)?,
        columns,
        parameters: Vec::new(),
        bound: optional(bound)?,
        grows: words().any(|word| word == "grows"),
        format: words().any(|word| word == "format"),
    };
    Some((extension, (def, exceptions)))
}

/// The id of a function: operators spelt as functions (`->>`) stay as they are.
pub(in crate::catalog) fn uid(schema: Option<&str>, name: &str) -> String {
    match schema {
        None => name.to_owned(),
        Some(schema) => ident::qualify([schema, name]),
    }
}

fn kinds(words: &str) -> Option<Kinds> {
    let mut kinds = Kinds::default();
    for word in words.split('+') {
        let kind = match word {
            "scalar" => &mut kinds.scalar,
            "niladic" => &mut kinds.niladic,
            "aggregate" => &mut kinds.aggregate,
            "window" => &mut kinds.window,
            "table" => &mut kinds.table,
            "ordered" => &mut kinds.ordered,
            "procedure" => &mut kinds.procedure,
            _ => return None,
        };
        *kind = true;
    }
    Some(kinds)
}

#[cfg(feature = "sqlite")]
const SQLITE_TABLE: &str = include_str!("../../../data/functions/sqlite.tsv");
#[cfg(not(feature = "sqlite"))]
const SQLITE_TABLE: &str = "";
#[cfg(feature = "postgres")]
const POSTGRES_TABLE: &str = include_str!("../../../data/functions/postgres.tsv");
#[cfg(not(feature = "postgres"))]
const POSTGRES_TABLE: &str = "";
#[cfg(feature = "mysql")]
const MYSQL_TABLE: &str = include_str!("../../../data/functions/mysql.tsv");
#[cfg(not(feature = "mysql"))]
const MYSQL_TABLE: &str = "";

/// The built-in functions of `dialect`; none where the dialect is not [built in](Dialect::is_built_in).
#[must_use]
pub fn registry(dialect: Dialect) -> &'static Registry {
    static SQLITE: LazyLock<Registry> = LazyLock::new(|| Registry::read(SQLITE_TABLE));
    static POSTGRES: LazyLock<Registry> = LazyLock::new(|| Registry::read(POSTGRES_TABLE));
    static MYSQL: LazyLock<Registry> = LazyLock::new(|| Registry::read(MYSQL_TABLE));
    match dialect {
        Dialect::Sqlite => &SQLITE,
        Dialect::Postgres => &POSTGRES,
        Dialect::Mysql => &MYSQL,
    }
}

/// What is known of the function `name` of `extension`.
#[must_use]
pub fn extension(dialect: Dialect, extension: &str, name: &str) -> Option<&'static FunctionDef> {
    registry(dialect)
        .extensions
        .get(&(extension.to_owned(), name.to_owned()))
}

/// Every function of `extension` that is known, in order of their names.
pub fn extension_functions(
    dialect: Dialect,
    extension: &str,
) -> impl Iterator<Item = &'static FunctionDef> {
    let extension = extension.to_owned();
    registry(dialect)
        .extensions
        .iter()
        .filter(move |((of, _), _)| *of == extension)
        .map(|(_, def)| def)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_servers_have_a_function() {
        let find = |dialect, uid: &str| registry(dialect).servers(uid).cloned();
        let has = |dialect, uid, engine: &str| {
            find(dialect, uid).is_none_or(|servers| servers.include(engine))
        };
        let newer = "pg_catalog.any_value";
        assert!(!has(Dialect::Postgres, newer, "PostgreSQL 15.14"));
        assert!(has(Dialect::Postgres, newer, "PostgreSQL 16.1"));
        assert!(has(
            Dialect::Postgres,
            "pg_catalog.lower",
            "PostgreSQL 15.14"
        ));
        assert!(has(Dialect::Mysql, "add_months", "MariaDB 10.11.14"));
        assert!(!has(Dialect::Mysql, "add_months", "MySQL 9.1.0"));
        assert!(!has(Dialect::Mysql, "uuid_v7", "MariaDB 11.4.2"));
        assert!(has(Dialect::Mysql, "uuid_v7", "MariaDB 11.7.1"));
    }

    #[test]
    fn every_row_is_read() {
        for dialect in Dialect::ALL {
            assert_eq!(registry(dialect).problems(), [""; 0], "{dialect}");
        }
        let lower = registry(Dialect::Sqlite).get("lower");
        assert!(lower.is_some_and(|def| def.kinds == Kinds::SCALAR && def.takes(1)));
    }

    #[test]
    fn table_functions_have_columns() {
        for def in registry(Dialect::Sqlite).all() {
            assert_eq!(def.kinds.table, !def.columns.is_empty(), "{}", def.uid);
        }
    }

    #[test]
    fn a_number_of_arguments_may_be_worse_than_the_name() {
        let table = "s\tf\tscalar\tpure\t1\t3\t-\t-\tdynamic-sql:2 since=16\n";
        let registry = Registry::read(table);
        assert_eq!(registry.problems(), [""; 0]);
        let class = |uid| registry.get(uid).map(|def| def.safety);
        assert_eq!(class("s.f"), Some(Safety::Pure));
        assert_eq!(class("s.f/2"), Some(Safety::DynamicSql));
    }
}
