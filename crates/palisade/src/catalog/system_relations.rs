//! The engines' own relations, as reviewed data in `data/relations/`: what their rows tell of.
//!
//! A catalog holds those that policies name, as relations of the kind [`System`](RelationKind::System), and knows of all of
//! them which columns the server has.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use crate::catalog::{
    Catalog, CatalogBuilder, ColumnDef, DefaultValue, Relation, RelationDef, RelationId,
    RelationKind, TypeClass, builder,
};
use crate::{dialect::Dialect, ident};

/// What the rows of a system relation tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SystemClass {
    /// Names, types, keys and comments of objects.
    Catalog,
    /// Other people's statements, sessions, locks, jobs, progress.
    Activity,
    /// Values or counts of data, which filters and masks do not reach.
    Statistics,
    /// Passwords, options and connection strings, accounts, authentication rules.
    Secrets,
    /// Raw storage below the tables.
    Storage,
    /// Configuration of the server.
    Settings,
}

impl SystemClass {
    /// The word for it in the data.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Activity => "activity",
            Self::Statistics => "statistics",
            Self::Secrets => "secrets",
            Self::Storage => "storage",
            Self::Settings => "settings",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [
            Self::Catalog,
            Self::Activity,
            Self::Statistics,
            Self::Secrets,
            Self::Storage,
            Self::Settings,
        ]
        .into_iter()
        .find(|class| class.name() == word)
    }
}

/// A relation of the engine's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemRelation {
    /// Its schema, folded.
    pub schema: String,
    /// Its name, folded.
    pub name: String,
    /// What it tells of.
    pub class: SystemClass,
    /// Its columns, over all versions of the engine.
    pub columns: Vec<String>,
    /// Those of them that hold secrets, where the relation as a whole does not.
    pub secrets: Vec<String>,
}

impl SystemRelation {
    /// The qualified name that policies use.
    #[must_use]
    pub fn uid(&self) -> String {
        ident::qualify([self.schema.as_str(), self.name.as_str()])
    }
}

type Relations = HashMap<(String, String), SystemRelation>;

/// Columns of the server's own relations, by schema and name, folded.
pub(in crate::catalog) type SystemColumns = BTreeMap<(String, String), Vec<ColumnDef>>;

/// The system relation `schema.name`, both folded; `None` for an unknown relation, which no session may read.
#[must_use]
pub fn system_relation(
    dialect: Dialect,
    schema: &str,
    name: &str,
) -> Option<&'static SystemRelation> {
    engine_relations(dialect)?.get(&(schema.to_owned(), name.to_owned()))
}

/// The system relations that have one name wherever they are, in no order; those of extensions stand in schemas of the
/// database's choice, and are relations of its own.
pub fn system_relations(dialect: Dialect) -> impl Iterator<Item = &'static SystemRelation> {
    let relations = engine_relations(dialect)
        .into_iter()
        .flat_map(HashMap::values);
    relations.filter(|relation| relation.name != "*" && !relation.schema.starts_with('@'))
}

/// The schemas of the engine's own.
#[must_use]
pub fn system_schemas(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Sqlite => &[],
        Dialect::Postgres => &["information_schema", "pg_catalog"],
        Dialect::Mysql => &["information_schema", "mysql", "performance_schema", "sys"],
    }
}

fn engine_relations(dialect: Dialect) -> Option<&'static Relations> {
    static POSTGRES: LazyLock<Relations> =
        LazyLock::new(|| read(include_str!("../../data/relations/postgres.tsv")));
    static MYSQL: LazyLock<Relations> =
        LazyLock::new(|| read(include_str!("../../data/relations/mysql.tsv")));
    match dialect {
        Dialect::Sqlite => None,
        Dialect::Postgres => Some(&*POSTGRES),
        Dialect::Mysql => Some(&*MYSQL),
    }
}

impl CatalogBuilder {
    /// Says which columns a relation of the engine's own has on this server, in order. Without this its columns are taken to
    /// be those of all versions. It is no relation of the catalog by that, and no part of its version.
    #[must_use]
    pub fn system_relation(
        mut self,
        schema: impl AsRef<str>,
        name: impl AsRef<str>,
        columns: Vec<ColumnDef>,
    ) -> Self {
        let key = (schema.as_ref().to_lowercase(), name.as_ref().to_lowercase());
        self.system.insert(key, columns);
        self
    }
}

impl Catalog {
    /// The same catalog with these relations of the engine's own, and no others, after its own: for policies that name them.
    /// Ids and version stay.
    #[must_use]
    pub(crate) fn with_system(
        mut self,
        named: impl Iterator<Item = &'static SystemRelation>,
    ) -> Self {
        let own = self.relations.iter().filter(|r| r.system.is_none()).count();
        // They stand at the end: whatever comes before keeps its id.
        while self.relations.len() > own
            && let Some(last) = self.relations.pop_if(|last| last.system.is_some())
        {
            if let Some(ids) = self.by_key.get_mut(&last.key) {
                ids.retain(|id| *id != last.id);
            }
        }
        for known in named {
            let (schema, key): (Arc<str>, Arc<str>) =
                (known.schema.as_str().into(), known.name.as_str().into());
            let Ok(id) = u32::try_from(self.relations.len()) else {
                break;
            };
            if self.find_by_key(&schema, &key).is_some() {
                continue;
            }
            let mut columns = self.system_columns(known);
            let told = columns.len();
            let is_told = |name: &&String| {
                let mut columns = columns.iter();
                columns.any(|column| self.dialect.fold(&column.name) == **name)
            };
            let untold: Vec<_> = known.columns.iter().filter(|name| !is_told(name)).collect();
            columns.extend(untold.into_iter().map(|name| unknown(name)));
            let untold = columns.len() - told;
            let def = RelationDef::new(&*schema, &*key, RelationKind::System, columns);
            let names = (schema, Arc::clone(&key));
            // One that contradicts itself stays unknown, so that policies cannot name it.
            let made = builder::relation(self.dialect, RelationId(id), known.uid(), names, def);
            if let Ok(mut relation) = made {
                relation.untold = untold;
                self.by_key.entry(key).or_default().push(relation.id);
                self.relations.push(relation);
            }
        }
        self
    }

    /// The columns of a relation of the engine's own: those that the server has where it has told, else those of all versions.
    pub(crate) fn system_columns(&self, known: &SystemRelation) -> Vec<ColumnDef> {
        let key = (known.schema.clone(), known.name.clone());
        match self.system.get(&key) {
            Some(columns) => columns.clone(),
            None => known.columns.iter().map(|name| unknown(name)).collect(),
        }
    }
}

impl Relation {
    /// Whether the server has a column of a relation of its own and the column has been reviewed: a newer server may
    /// have others.
    pub(crate) fn is_reviewed(&self, index: usize) -> bool {
        let told = self.columns.len().saturating_sub(self.untold);
        let column = self.columns.get(index).filter(|_| index < told);
        let mut known = self.system.iter().flat_map(|known| &known.columns);
        column.is_some_and(|column| known.any(|name| *name == *column.key))
    }
}

/// A column of which no more than the name is known.
fn unknown(name: &str) -> ColumnDef {
    ColumnDef {
        name: name.to_owned(),
        type_name: String::new(),
        class: TypeClass::Other,
        nullable: true,
        collation: String::new(),
        generated: None,
        stored: false,
        filled: DefaultValue::Unknown,
    }
}

/// `schema name class columns except`, between tabs. A row that cannot be read is left out, so that its
/// relation is not known; a test shows that there is none.
fn read(table: &str) -> Relations {
    table
        .lines()
        .filter_map(row)
        .map(|relation| ((relation.schema.clone(), relation.name.clone()), relation))
        .collect()
}

fn row(line: &str) -> Option<SystemRelation> {
    let mut fields = line.split('\t');
    let (schema, name, class) = (fields.next()?, fields.next()?, fields.next()?);
    let class = SystemClass::from_word(class)?;
    let columns = fields.next()?.split(',').map(str::to_owned).collect();
    let mut secrets = Vec::new();
    for except in fields.next()?.split(',').filter(|except| *except != "-") {
        let (column, holds) = except.split_once(':')?;
        match SystemClass::from_word(holds) {
            Some(SystemClass::Secrets) => secrets.push(column.to_owned()),
            Some(_) => {}
            // Text that people have written, such as that of a view.
            None if holds == "definition" => {}
            None => return None,
        }
    }
    Some(SystemRelation {
        schema: schema.to_owned(),
        name: name.to_owned(),
        class,
        columns,
        secrets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        for table in [
            include_str!("../../data/relations/postgres.tsv"),
            include_str!("../../data/relations/mysql.tsv"),
        ] {
            let rows: Vec<_> = table.lines().filter(|l| !l.starts_with('#')).collect();
            assert_eq!(rows.iter().filter(|l| row(l).is_none()).count(), 0);
            assert_eq!(read(table).len(), rows.len());
        }
        let class = |schema, name| {
            system_relation(Dialect::Postgres, schema, name).map(|relation| relation.class)
        };
        assert_eq!(class("pg_catalog", "pg_class"), Some(SystemClass::Catalog));
        assert_eq!(
            class("pg_catalog", "pg_stats"),
            Some(SystemClass::Statistics)
        );
        assert_eq!(class("pg_catalog", "pg_authid"), Some(SystemClass::Secrets));
        assert_eq!(class("pg_catalog", "pg_nothing"), None);
    }
}
