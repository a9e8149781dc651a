//! What the engine will be seen to do while a statement runs: read, call, change.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use crate::rewrite::{
    relation_source,
    relation_source::{cache::SourceText, replace::has_obligations, row_filter},
};
use crate::{
    access::AccessSet,
    catalog::{
        Catalog, Change, Column, ColumnId, Relation, RelationId, RelationKind, system_relation,
    },
    dialect::Dialect,
    past::{FROM, TO},
    policy::obligation::RowFilter,
    resolve::{Conflict, Reference, Target},
};

/// A relation without any column.
const NO_COLUMN: &[&str] = &[""];

/// Stands for every column of what has an alias in what an engine may read.
pub const ANY_COLUMN: &str = "*";

/// The row ids of SQLite's tables.
const ROW_ID: &[&str] = &["rowid"];

/// Columns that every table of PostgreSQL has besides its own.
const SYSTEM_COLUMNS: &[&str] = &["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"];

/// Columns that SQLite gives its table functions besides their own.
const OF_TABLE_FUNCTIONS: &[&str] = &["", "rowid", "json", "root"];

/// The (relation, column) pairs, folded, that the engine may read. Spelled out when a backend first asks.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct ExpectedReads {
    relations: Vec<RelationReads>,
    pairs: OnceLock<BTreeSet<(String, String)>>,
}

/// Columns of one relation, which may stand in several of these.
#[derive(Debug)]
struct RelationReads {
    relation: Arc<str>,
    /// Those that it has by the engine.
    engine: &'static [&'static str],
    columns: Arc<[Arc<str>]>,
}

impl ExpectedReads {
    /// All of them, each once.
    pub(in crate::rewrite) fn pairs(&self) -> &BTreeSet<(String, String)> {
        self.pairs.get_or_init(|| {
            let reads = self.relations.iter();
            reads
                .flat_map(|read| {
                    let columns = read.columns.iter().map(|column| &**column);
                    let columns = read.engine.iter().copied().chain(columns);
                    columns.map(|column| (read.relation.to_string(), column.to_owned()))
                })
                .collect()
        })
    }

    /// About how many bytes they take, spelled out: `each` beside the text of a pair.
    pub(in crate::rewrite) fn bytes(&self, each: usize) -> usize {
        let reads = self.relations.iter();
        reads
            .map(|read| {
                let columns = read.columns.iter().map(|column| column.len());
                let of_engine = read.engine.iter().map(|column| column.len());
                let sizes = columns
                    .chain(of_engine)
                    .map(|len| each + read.relation.len() + len);
                sizes.sum::<usize>()
            })
            .sum()
    }

    fn add_reads(
        &mut self,
        relation: Arc<str>,
        engine: &'static [&'static str],
        columns: Arc<[Arc<str>]>,
    ) {
        self.relations.push(RelationReads {
            relation,
            engine,
            columns,
        });
    }
}

/// What the engine will be seen to do.
pub(in crate::rewrite) struct ExpectedAccess {
    pub(in crate::rewrite) reads: ExpectedReads,
    pub(in crate::rewrite) functions: BTreeSet<String>,
    whole_rows: bool,
    /// Tables whose reads are there already, each with whether whole rows were, and whether as a target.
    tables: Vec<(RelationId, bool, bool)>,
}

impl ExpectedAccess {
    /// That it calls `functions`, and reads what it is told of; each table whole where rows are taken as they are.
    pub(in crate::rewrite) fn new(functions: BTreeSet<String>, whole_rows: bool) -> Self {
        Self {
            reads: ExpectedReads::default(),
            functions,
            whole_rows,
            tables: Vec::new(),
        }
    }

    /// SQLite reports a common table expression of which no column is used as a read of its name.
    pub(in crate::rewrite) fn allow_ctes<'n>(
        &mut self,
        names: impl IntoIterator<Item = &'n String>,
    ) {
        for name in names {
            self.reads
                .add_reads(name.as_str().into(), NO_COLUMN, Arc::default());
        }
    }

    /// SQLite tells the columns of a derived table by its alias, where it has made one query of both
    /// (<https://www.sqlite.org/optoverview.html#flattening>).
    pub(in crate::rewrite) fn allow_aliases<'n>(
        &mut self,
        aliases: impl IntoIterator<Item = &'n String>,
    ) {
        for alias in aliases {
            self.reads
                .add_reads(alias.as_str().into(), &[ANY_COLUMN], Arc::default());
        }
    }

    /// That `functions` are called too.
    pub(in crate::rewrite) fn allow_functions(&mut self, functions: &BTreeSet<String>) {
        for uid in functions {
            if !self.functions.contains(uid) {
                self.functions.insert(uid.clone());
            }
        }
    }

    /// What `access` reads, calls or changes that is not among it.
    pub(in crate::rewrite) fn first_beyond(
        &self,
        access: &AccessSet,
        catalog: &Catalog,
    ) -> Option<String> {
        let undecided = |id: ColumnId| {
            let relation = catalog.relation(id.relation);
            let pair = relation
                .zip(catalog.column(id))
                .map(|(relation, column)| (relation.key.to_string(), column.key.to_string()));
            match pair {
                Some(pair) if self.reads.pairs().contains(&pair) => None,
                Some((table, column)) => Some(format!("`{table}.{column}`")),
                None => Some("a column that is not there".to_owned()),
            }
        };
        let changes = access
            .changes()
            .map(|change| format!("a {}", change.change.name()));
        let columns = access.columns().filter_map(|(id, _)| undecided(id));
        let functions = access
            .functions()
            .filter(|uid| !self.functions.contains(*uid));
        let functions = functions.map(|uid| format!("`{uid}()`"));
        changes.chain(columns).chain(functions).next()
    }

    /// The engine's own relations, whole: who reads them sees everything.
    pub(in crate::rewrite) fn allow_system_relations(
        &mut self,
        access: &AccessSet,
        dialect: Dialect,
    ) {
        for (schema, name) in access.system_relations() {
            let Some(known) = system_relation(dialect, schema, name) else {
                continue;
            };
            let columns = known.columns.iter().map(|column| column.as_str().into());
            self.reads
                .add_reads(name.into(), NO_COLUMN, columns.collect());
        }
    }

    /// SQLite takes what USING merges after a RIGHT or FULL JOIN from the first table that has it, by a function
    /// (<https://www.sqlite.org/lang_select.html>, `sqlite3ProcessJoin`), and says that it calls it.
    pub(in crate::rewrite) fn allow_merged_columns(&mut self, dialect: Dialect) {
        match dialect {
            Dialect::Sqlite => {
                self.functions.insert("coalesce".to_owned());
            }
            Dialect::Postgres | Dialect::Mysql => {}
        }
    }

    /// A table function's columns are reported as read, and the call is not.
    pub(in crate::rewrite) fn allow_table_functions(&mut self, catalog: &Catalog) {
        let called: Vec<_> = self
            .functions
            .iter()
            .filter_map(|uid| catalog.function(uid))
            .filter(|def| def.kinds.table)
            .collect();
        for def in called {
            let columns = def.columns.iter().flatten();
            let columns = columns.map(|column| column.as_str().into()).collect();
            let name = def.name.as_str().into();
            self.reads.add_reads(name, OF_TABLE_FUNCTIONS, columns);
        }
    }

    /// What is read of a target, for the statement and for the policies' conditions.
    pub(in crate::rewrite) fn allow_target(
        &mut self,
        target: &Target,
        reads: &BTreeSet<u16>,
        access: &AccessSet,
        catalog: &Catalog,
    ) {
        let Some(relation) = catalog.relation(target.relation) else {
            return;
        };
        let read = access
            .columns_read()
            .filter(|id| id.relation == relation.id)
            .map(|id| id.index);
        let read = reads.iter().copied().chain(read);
        let columns = read.filter_map(|index| Some(Arc::clone(&relation.column(index)?.key)));
        let table = Arc::clone(&relation.key);
        // What is looked for may be found by the row id alone.
        let row_id = match target.on_conflict {
            Conflict::DoNothing => &[][..],
            Conflict::Updates | Conflict::Replaces => NO_COLUMN,
        };
        self.reads.add_reads(table, row_id, columns.collect());
    }

    /// What is read of relations that a change reaches by foreign keys.
    pub(in crate::rewrite) fn allow_probes(
        &mut self,
        reads: &BTreeMap<RelationId, BTreeSet<u16>>,
        catalog: &Catalog,
    ) {
        for (id, columns) in reads {
            let Some(relation) = catalog.relation(*id) else {
                continue;
            };
            let columns = columns.iter();
            let columns =
                columns.filter_map(|index| Some(Arc::clone(&relation.column(*index)?.key)));
            self.reads
                .add_reads(Arc::clone(&relation.key), NO_COLUMN, columns.collect());
        }
    }

    /// What is read of tables to which keys refer, to find out whether those rows are seen.
    pub(in crate::rewrite) fn allow_seen_rows(&mut self, rows: &RowFilter, catalog: &Catalog) {
        if let RowFilter::Where(predicate) = rows {
            let mut reads = BTreeMap::new();
            row_filter::columns_referred_to(predicate, &mut reads);
            self.allow_probes(&reads, catalog);
        }
    }

    /// What is read of a table as it was, or noted of it as it changes.
    pub(in crate::rewrite) fn allow_companion(&mut self, relation: &Relation, catalog: &Catalog) {
        let Some(companion) = catalog.companion(relation) else {
            return;
        };
        let columns = relation
            .columns
            .iter()
            .map(|column| Arc::clone(&column.key));
        let name = catalog.fold_relation(&companion.name);
        let columns = columns.chain([FROM.into(), TO.into()]).collect();
        self.reads.add_reads(name.as_str().into(), ROW_ID, columns);
        self.reads
            .add_reads(name.as_str().into(), NO_COLUMN, Arc::default());
    }

    /// What is read for `reference`, in whose place `ready` stands if that is made; of a target, beside what is told
    /// of it as one ([`target`](Self::target)).
    pub(in crate::rewrite) fn allow_reference(
        &mut self,
        reference: &Reference,
        (is_target, ready): (bool, Option<&SourceText>),
        catalog: &Catalog,
        access: &AccessSet,
    ) {
        let Some(relation) = catalog.relation(reference.relation) else {
            return;
        };
        self.allow_seen_rows(&reference.decision.rows, catalog);
        if reference.body.is_none() {
            let table = (relation.id, self.whole_rows, is_target);
            if self.tables.contains(&table) {
                return;
            }
            self.tables.push(table);
        }
        let is_replaced = has_obligations(reference);
        if reference.decision.past.is_some() {
            self.allow_companion(relation, catalog);
            let referred = relation_source::past::list_referred(reference);
            for relation in referred.into_iter().filter_map(|id| catalog.relation(id)) {
                self.allow_companion(relation, catalog);
            }
        }
        let table = &relation.key;
        let is_table = relation.kind == RelationKind::Table;
        if relation.has_rowid && !is_replaced {
            self.reads
                .add_reads(Arc::clone(table), ROW_ID, Arc::default());
        }
        if catalog.dialect() == Dialect::Postgres && is_table && !is_replaced {
            self.reads
                .add_reads(Arc::clone(table), SYSTEM_COLUMNS, Arc::default());
        }
        let whole = reference.body.is_some() || (self.whole_rows && !is_replaced);
        let columns = match ready {
            Some(ready) if !whole => Arc::clone(&ready.reads),
            None if is_replaced && !whole && !is_target => {
                relation_source::columns_read(reference, relation)
            }
            Some(_) | None => {
                let read = |id: &ColumnId| whole || access.uses(*id);
                let columns = relation.column_ids().filter(|(id, _)| read(id));
                columns.map(|(_, column)| Arc::clone(&column.key)).collect()
            }
        };
        self.reads.add_reads(Arc::clone(table), NO_COLUMN, columns);
        if let Some(body) = &reference.body {
            self.allow_functions(&body.resolved.access.functions);
            self.allow_ctes(&body.resolved.ctes);
            if catalog.dialect() == Dialect::Sqlite {
                self.allow_aliases(&body.resolved.aliases);
            }
            self.whole_rows |= body.resolved.whole_rows;
            if is_replaced {
                self.allow_ctes([relation_source::unused_name(catalog, reference.relation)].iter());
            }
            for inner in &body.resolved.references {
                self.allow_reference(inner, (false, None), catalog, access);
            }
        }
    }
}

/// What the engine changes, by itself included: keys of relations and columns.
pub(in crate::rewrite) fn writes(
    access: &AccessSet,
    catalog: &Catalog,
) -> BTreeSet<(Change, String, String)> {
    let key = |relation: &Relation| relation.key.to_string();
    list_writes(access, catalog, key, |column| column.key.to_string())
}

/// The same by the database's names.
pub(in crate::rewrite) fn named_writes(
    access: &AccessSet,
    catalog: &Catalog,
) -> BTreeSet<(Change, String, String)> {
    list_writes(access, catalog, Relation::database_name, |column| {
        column.name.to_string()
    })
}

fn list_writes(
    access: &AccessSet,
    catalog: &Catalog,
    name_relation: impl Fn(&Relation) -> String,
    name_column: impl Fn(&Column) -> String,
) -> BTreeSet<(Change, String, String)> {
    let mut out = BTreeSet::new();
    for access_change in access.changes() {
        let Some(relation) = catalog.relation(access_change.relation) else {
            continue;
        };
        let table = name_relation(relation);
        match access_change.change {
            Change::Insert | Change::Delete | Change::Truncate => {
                out.insert((access_change.change, table, String::new()));
            }
            Change::Update => out.extend(
                access
                    .columns_written()
                    .filter(|id| id.relation == relation.id)
                    .filter_map(|id| relation.column(id.index))
                    .map(|column| (Change::Update, table.clone(), name_column(column))),
            ),
        }
    }
    out
}

/// The triggers that what a statement changes sets off.
pub(in crate::rewrite) fn triggers(access: &AccessSet, catalog: &Catalog) -> BTreeSet<String> {
    if access.changes().next().is_none() {
        return BTreeSet::new();
    }
    let uids: BTreeSet<&str> = access.functions().collect();
    access
        .changes()
        .filter_map(|change| catalog.relation(change.relation))
        .flat_map(|relation| &relation.triggers)
        .filter(|trigger| uids.contains(trigger.uid(catalog.dialect()).as_str()))
        .map(|trigger| catalog.dialect().fold(&trigger.function))
        .collect()
}
