//! A catalog while its text is read.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    operand::{DeclaredOperand, ImplicitCast},
    trigger::Armed,
    unique_key::DeclaredKey,
};
use palisade::{
    catalog::{
        CastDef, Catalog, CatalogError, ColumnDef, DefaultValue, ForeignKey, OperandDef,
        OperatorDef, RelationDef, RelationKind, RoutineDef, TypeClass, TypeDef, TypeKind,
        UniqueKeyDef, functions, functions::Kinds,
    },
    dialect::Dialect,
};

/// What is known so far.
pub(super) struct SchemaState {
    pub(super) dialect: Dialect,
    pub(super) database: String,
    /// Where the text's own names are looked up.
    pub(super) path: Vec<String>,
    /// Where a session's names will be.
    pub(super) session_path: Option<Vec<String>>,
    pub(super) relations: Vec<Table>,
    pub(super) overloads: Vec<Overload>,
    /// Schemas and names of functions that only triggers call.
    pub(super) trigger_functions: Vec<(String, String)>,
    pub(super) types: Vec<TypeDef>,
    pub(super) operators: Vec<DeclaredOperator>,
    pub(super) implicit_casts: Vec<ImplicitCast>,
    pub(super) casts: Vec<CastDef>,
    /// Collations of the database, and whether equal means the same bytes.
    pub(super) collations: BTreeMap<(String, String), bool>,
    /// Whether anything has another collation than the database's, or `"C"`.
    pub(super) has_own_collations: bool,
    /// What queries of views named when they were made.
    bindings: Vec<Binding>,
}

/// Names without a schema in a view's query, and what they meant.
///
/// An engine settles that when the view is made; a catalog keeps the query's text, whose names are looked up in a
/// session's search path. Where the two differ the text would be taken for another query than what runs.
struct Binding {
    /// The view.
    view: (String, String),
    line: usize,
    meant: BTreeMap<String, Meant>,
}

/// Schemas of the relation, the routine and the type that a name means.
type Meant = [Option<String>; 3];

/// A relation and what is settled at the end.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) def: RelationDef,
    /// Foreign keys by their constraints' names.
    pub(super) foreign_keys: Vec<(String, ForeignKey)>,
    /// Partitions have the keys of what they are part of.
    pub(super) is_partition: bool,
    pub(super) triggers: Vec<Armed>,
    /// DeclaredKey keys but for the primary one.
    pub(super) unique: Vec<DeclaredKey>,
    /// Names of its other indexes, where a unique key could not be called so too.
    pub(super) indexes: Vec<String>,
    /// The primary key, where more is known of it than its columns.
    pub(super) primary: Option<DeclaredKey>,
    /// Columns in which new rows have values by themselves.
    pub(super) filled: Vec<String>,
    /// Whether something was done to its keys that was not followed.
    pub(super) has_unknown_keys: bool,
}

impl Table {
    pub(super) fn new(def: RelationDef) -> Self {
        Self {
            def,
            foreign_keys: Vec::new(),
            is_partition: false,
            triggers: Vec::new(),
            unique: Vec::new(),
            indexes: Vec::new(),
            primary: None,
            filled: Vec::new(),
            has_unknown_keys: false,
        }
    }

    /// What the column called `name` has by itself from now on.
    pub(super) fn fill(&mut self, name: &str, is_filled: bool) {
        self.filled.retain(|other| other != name);
        if is_filled {
            self.filled.push(name.to_owned());
        }
    }

    /// Takes out the unique key called `name`; what is called so may be something else, unless a key has a name that is not
    /// known.
    pub(super) fn drop_unique(&mut self, name: &str) {
        let before = self.unique.len();
        self.unique.retain(|key| {
            !key.name
                .as_ref()
                .is_some_and(|known| known.eq_ignore_ascii_case(name))
        });
        if self.unique.len() == before && self.unique.iter().any(|key| key.name.is_none()) {
            self.has_unknown_keys = true;
        }
    }

    /// Its unique keys as a catalog has them, its primary key among them.
    fn unique_keys(&self, dialect: Dialect) -> Option<Vec<UniqueKeyDef>> {
        match self.def.kind {
            RelationKind::Table => {}
            RelationKind::View
            | RelationKind::Materialized
            | RelationKind::Virtual
            | RelationKind::System => return None,
        }
        if self.has_unknown_keys {
            return None;
        }
        let primary = (!self.def.primary_key.is_empty()).then(|| match &self.primary {
            Some(key) if key.columns == self.def.primary_key => key.clone(),
            Some(_) | None => DeclaredKey::new(self.def.primary_key.clone()),
        });
        let keys = primary.iter().chain(&self.unique);
        Some(
            keys.map(|key| key.to_catalog(&self.def, &self.filled, dialect))
                .collect(),
        )
    }
}

/// An operator, until it is known which casts there are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeclaredOperator {
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) function: String,
    pub(super) left: DeclaredOperand,
    pub(super) right: DeclaredOperand,
}

/// A function, procedure or aggregate.
#[derive(Clone)]
pub(super) struct Overload {
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) kinds: Kinds,
    pub(super) extension: Option<String>,
    pub(super) min_args: u8,
    pub(super) max_args: Option<u8>,
    pub(super) columns: Vec<Vec<String>>,
    /// Of its parameters, unless it takes any number of them.
    pub(super) parameters: Option<Vec<DeclaredOperand>>,
    /// The row type it returns, whose columns are its own.
    pub(super) returns: Option<Name>,
}

/// A type as a column has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) name: String,
    pub(super) class: TypeClass,
}

impl Typed {
    pub(super) fn unknown() -> Self {
        Self {
            name: String::new(),
            class: TypeClass::Other,
        }
    }
}

/// How deep domains are looked through.
const MAX_DOMAINS: usize = 64;

impl SchemaState {
    pub(super) fn new(dialect: Dialect, database: &str) -> Self {
        Self {
            dialect,
            database: database.to_owned(),
            path: vec![match dialect {
                Dialect::Mysql => database.to_owned(),
                Dialect::Postgres | Dialect::Sqlite => dialect.default_schema().to_owned(),
            }],
            session_path: None,
            relations: Vec::new(),
            overloads: Vec::new(),
            trigger_functions: Vec::new(),
            types: Vec::new(),
            operators: Vec::new(),
            implicit_casts: Vec::new(),
            casts: Vec::new(),
            collations: BTreeMap::new(),
            has_own_collations: false,
            bindings: Vec::new(),
        }
    }

    /// Schema and name of something new.
    pub(super) fn place(&self, name: &Name, at: &Cursor<'_>) -> Result<(String, String), DdlError> {
        match name.schema.as_ref().or(self.path.first()) {
            Some(schema) => Ok((schema.clone(), name.name.clone())),
            None => Err(at.error(format!("`{}` is in no schema", name.name))),
        }
    }

    /// The table of `CREATE TABLE [IF NOT EXISTS] name`, still without columns; none where it is there already and may
    /// be.
    pub(super) fn create(&self, cursor: &mut Cursor<'_>) -> Result<Option<Table>, DdlError> {
        let optional = cursor.eat("if not exists");
        let name = cursor.name()?;
        let (schema, table) = self.place(&name, cursor)?;
        let known = Name {
            schema: Some(schema.clone()),
            name: table.clone(),
        };
        if self.relation(&known).is_none() {
            let def = RelationDef::new(schema, table, RelationKind::Table, Vec::new());
            return Ok(Some(Table::new(def)));
        }
        if optional {
            return Ok(None);
        }
        Err(cursor.error(format!("relation `{table}` is there already")))
    }

    fn schemas<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = &'a String> {
        let path = if name.schema.is_some() {
            &[][..]
        } else {
            &self.path[..]
        };
        name.schema.iter().chain(path)
    }

    /// The position of the relation that `name` means.
    pub(super) fn position(&self, name: &Name) -> Option<usize> {
        self.schemas(name).find_map(|schema| {
            self.relations
                .iter()
                .position(|t| t.def.schema == *schema && t.def.name == name.name)
        })
    }

    pub(super) fn relation(&self, name: &Name) -> Option<&Table> {
        self.relations.get(self.position(name)?)
    }

    pub(super) fn relation_mut(&mut self, name: &Name) -> Option<&mut Table> {
        let position = self.position(name)?;
        self.relations.get_mut(position)
    }

    /// The type of the database that `name` means.
    pub(super) fn type_named(&self, name: &Name) -> Option<&TypeDef> {
        self.schemas(name).find_map(|schema| {
            self.types
                .iter()
                .find(|def| def.schema == *schema && def.name == name.name)
        })
    }

    /// The class of values of a type of the database; `spelt` is how it is written.
    pub(super) fn class(&self, def: &TypeDef) -> TypeClass {
        let mut def = def;
        for _ in 0..MAX_DOMAINS {
            match &def.kind {
                TypeKind::Enum => return TypeClass::Enum,
                TypeKind::Composite(_) | TypeKind::Range | TypeKind::Base => {
                    return TypeClass::Other;
                }
                TypeKind::Domain { base, check: _ } => {
                    let found = self.types.iter().find(|other| {
                        palisade::ident::qualify([other.schema.as_str(), other.name.as_str()])
                            == *base
                    });
                    match found {
                        Some(next) => def = next,
                        None => return TypeClass::from_name(self.dialect, base),
                    }
                }
            }
        }
        TypeClass::Other
    }

    fn find_meant(&self, name: &str, path: &[String]) -> Meant {
        let first = |has: &dyn Fn(&String) -> bool| path.iter().find(|schema| has(schema)).cloned();
        [
            first(&|schema| {
                (self.relations.iter()).any(|t| t.def.schema == **schema && t.def.name == name)
            }),
            first(&|schema| {
                (self.overloads.iter()).any(|o| o.schema == **schema && o.name == name)
            }),
            first(&|schema| (self.types.iter()).any(|t| t.schema == **schema && t.name == name)),
        ]
    }

    /// Remembers what the names in the query of a view mean now.
    pub(super) fn bind(&mut self, def: &RelationDef, query: Cursor<'_>) {
        // As in a dump: what has no schema is the engine's own, which comes first in every path, or no relation.
        if self.path.is_empty() {
            return;
        }
        let meant = query
            .unqualified()
            .into_iter()
            .map(|name| {
                let meant = self.find_meant(&name, &self.path);
                (name, meant)
            })
            .collect();
        self.bindings.push(Binding {
            view: (def.schema.clone(), def.name.clone()),
            line: query.line(),
            meant,
        });
    }

    /// Takes away the definitions of views whose names mean something else to a session, and says which.
    pub(super) fn check_bindings(&mut self) -> Vec<DdlError> {
        let path = self.session_path.clone().unwrap_or_else(|| {
            vec![match self.dialect {
                Dialect::Mysql => self.database.clone(),
                Dialect::Postgres | Dialect::Sqlite => self.dialect.default_schema().to_owned(),
            }]
        });
        let mut problems = Vec::new();
        for binding in std::mem::take(&mut self.bindings) {
            let changed = (binding.meant.iter())
                .find(|(name, meant)| self.find_meant(name, &path) != **meant)
                .map(|(name, _)| name.clone());
            let (schema, view) = binding.view;
            let name = Name {
                schema: Some(schema),
                name: view,
            };
            if let Some(changed) = changed
                && let Some(table) = self.relation_mut(&name)
                && table.def.definition.take().is_some()
            {
                problems.push(DdlError::new(
                    binding.line,
                    format!(
                        "the view `{}` says `{changed}` without a schema, which means something else to a session",
                        name.name
                    ),
                ));
            }
        }
        problems
    }

    /// Puts a relation in. If `OR REPLACE` replaces another, it keeps the triggers of that.
    pub(super) fn put(&mut self, mut table: Table) {
        let name = Name {
            schema: Some(table.def.schema.clone()),
            name: table.def.name.clone(),
        };
        (self.bindings).retain(|b| b.view.0 != table.def.schema || b.view.1 != table.def.name);
        match self.relation_mut(&name) {
            Some(old) => {
                if table.triggers.is_empty() {
                    table.triggers = std::mem::take(&mut old.triggers);
                }
                *old = table;
            }
            None => self.relations.push(table),
        }
    }

    /// Takes a relation out.
    pub(super) fn remove(&mut self, name: &Name) -> bool {
        match self.position(name) {
            Some(position) => {
                self.relations.remove(position);
                true
            }
            None => false,
        }
    }

    /// After a statement that was not understood: no session can read the relation that it is about. Whether there is none, or it
    /// is found.
    pub(super) fn spoil(&mut self, statement: Cursor<'_>) -> bool {
        let mut cursor = statement;
        let mut object = statement;
        object.until(&["trigger", "function", "procedure", "table", "view", "("]);
        if statement.sees("create") && object.sees("trigger") {
            return self.hide_triggered(object);
        }
        let creates = cursor.eat("create");
        if !creates && !cursor.eat("alter") {
            // Not about a relation, except for what drops or renames some.
            return !(cursor.sees("drop") || cursor.sees("rename") || cursor.sees("do"));
        }
        while !cursor.is_empty() && !cursor.sees("(") && !cursor.sees("as") {
            if cursor.eat_any(&["table", "view"]).is_some() {
                cursor.eat_any(&["if not exists", "if exists"]);
                cursor.eat("only");
                let Ok(name) = cursor.name() else {
                    return false;
                };
                let Ok((schema, name)) = self.place(&name, &cursor) else {
                    return false;
                };
                let known = Name {
                    schema: Some(schema.clone()),
                    name: name.clone(),
                };
                let parents = self.relation(&known).map(|t| t.def.parents.clone());
                if !creates {
                    self.hide(&known);
                    return true;
                }
                let mut def = RelationDef::new(schema, name, RelationKind::View, Vec::new());
                def.parents = parents.unwrap_or_default();
                self.put(Table::new(def));
                return true;
            }
            cursor.bump();
        }
        // A rule can make a view of a table, a schema can hold tables.
        !statement.sees("create rule")
            && !statement.sees("create or replace rule")
            && !statement.sees("create schema")
    }

    /// Makes a relation unreadable, after an ALTER or a trigger that was not understood. Its keys are still there.
    fn hide(&mut self, name: &Name) {
        if let Some(table) = self.relation_mut(name) {
            table.def.kind = RelationKind::View;
            table.def.definition = None;
        }
    }

    /// Hides the relation that a trigger is on; whether its name could be read.
    fn hide_triggered(&mut self, trigger: Cursor<'_>) -> bool {
        let mut cursor = trigger;
        cursor.until(&["on"]);
        let name = match (cursor.eat("on"), cursor.name()) {
            (true, Ok(name)) => name,
            (true, Err(_)) | (false, _) => return false,
        };
        self.hide(&name);
        true
    }

    /// The columns of the row type or relation `name`.
    pub(super) fn row(&self, name: &Name) -> Option<Vec<String>> {
        if let Some(table) = self.relation(name) {
            let names = table.def.columns.iter().map(|c| c.name.clone());
            return Some(names.collect());
        }
        match &self.type_named(name)?.kind {
            TypeKind::Composite(columns) => {
                Some(columns.iter().map(|(name, _)| name.clone()).collect())
            }
            TypeKind::Enum | TypeKind::Domain { .. } | TypeKind::Range | TypeKind::Base => None,
        }
    }

    /// What an extension brings with it.
    pub(super) fn extension(&mut self, extension: &str, schema: &str, types: &[&str]) {
        for def in functions::extension_functions(self.dialect, extension) {
            self.overloads.push(Overload {
                schema: schema.to_owned(),
                name: def.name.clone(),
                kinds: def.kinds,
                extension: Some(extension.to_owned()),
                min_args: def.min_args,
                max_args: def.max_args,
                columns: def.columns.clone(),
                parameters: None,
                returns: None,
            });
        }
        for name in types {
            self.types.push(TypeDef {
                schema: schema.to_owned(),
                name: (*name).to_owned(),
                kind: TypeKind::Base,
                extension: Some(extension.to_owned()),
            });
        }
    }

    pub(super) fn finish(mut self) -> Result<Catalog, CatalogError> {
        self.settle_keys();
        let routines = self.routines();
        let operators = self.operators();
        let mut builder = Catalog::builder(self.dialect)
            .database(self.database)
            .case_sensitive_relations(self.dialect == Dialect::Mysql)
            .plain_collations(self.dialect == Dialect::Postgres && !self.has_own_collations);
        if let Some(path) = self.session_path {
            builder = builder.search_path(path);
        }
        self.relations
            .sort_by(|a, b| (&a.def.schema, &a.def.name).cmp(&(&b.def.schema, &b.def.name)));
        for mut table in self.relations {
            // A domain may have a default of its own.
            for column in &mut table.def.columns {
                let is_domain = self.types.iter().any(|def| {
                    matches!(def.kind, TypeKind::Domain { .. })
                        && palisade::ident::qualify([def.schema.as_str(), def.name.as_str()])
                            == column.type_name
                });
                if is_domain {
                    table.filled.push(column.name.clone());
                    if column.filled == DefaultValue::Null {
                        column.filled = DefaultValue::Unknown;
                    }
                }
            }
            table.def.unique_keys = table.unique_keys(self.dialect);
            table.def.triggers = (table.triggers.iter())
                .filter_map(|armed| armed.trigger(&table.def.schema))
                .collect();
            builder = builder.relation(table.def);
        }
        for routine in routines {
            builder = builder.routine(routine);
        }
        self.types
            .sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        for def in self.types {
            builder = builder.type_def(def);
        }
        for operator in operators {
            builder = builder.operator(operator);
        }
        self.casts.sort_by(|a, b| {
            (&a.source, &a.target, &a.function).cmp(&(&b.source, &b.target, &b.function))
        });
        for cast in self.casts {
            builder = builder.cast(cast);
        }
        builder.build()
    }

    /// Keys that partitions have from above, the columns of references that name none, and references to partitions of
    /// what is referenced, which an engine makes too.
    fn settle_keys(&mut self) {
        // Parents stand before their partitions, so one pass reaches every level.
        for index in 0..self.relations.len() {
            let Some(table) = self.relations.get(index) else {
                continue;
            };
            if table.is_partition
                && let Some((schema, name)) = table.def.parents.first().cloned()
            {
                let parent = Name {
                    schema: Some(schema),
                    name,
                };
                let Some(parent) = self.relation(&parent).cloned() else {
                    continue;
                };
                let Some(table) = self.relations.get_mut(index) else {
                    continue;
                };
                if table.def.primary_key.is_empty() {
                    table.def.primary_key = parent.def.primary_key;
                }
                for key in parent.unique {
                    // The server names what it makes anew.
                    let own = key.with_name(None);
                    if !table.unique.iter().any(|known| own.is_same_key(known)) {
                        table.unique.push(own);
                    }
                }
                table.has_unknown_keys |= parent.has_unknown_keys;
                table.filled.extend(parent.filled);
                for key in parent.foreign_keys {
                    if !table.foreign_keys.iter().any(|own| own.1 == key.1) {
                        table.foreign_keys.push(key);
                    }
                }
            }
        }
        let primary: BTreeMap<(String, String), Vec<String>> = self
            .relations
            .iter()
            .map(|t| {
                let place = (t.def.schema.clone(), t.def.name.clone());
                (place, t.def.primary_key.clone())
            })
            .collect();
        for index in 0..self.relations.len() {
            let mut keys = match self.relations.get_mut(index) {
                Some(table) => std::mem::take(&mut table.foreign_keys),
                None => continue,
            };
            keys.sort_by(|a, b| a.0.cmp(&b.0));
            let mut settled = Vec::with_capacity(keys.len());
            for (_, mut key) in keys {
                if key.references.is_empty() {
                    key.references = primary
                        .get(&(key.schema.clone(), key.table.clone()))
                        .cloned()
                        .unwrap_or_default();
                }
                let referenced = Name {
                    schema: Some(key.schema.clone()),
                    name: key.table.clone(),
                };
                let below = self.family(&referenced, true).into_iter().skip(1);
                let partitions = below.filter_map(|index| self.relations.get(index));
                let copies: Vec<ForeignKey> = partitions
                    .map(|partition| ForeignKey {
                        schema: partition.def.schema.clone(),
                        table: partition.def.name.clone(),
                        ..key.clone()
                    })
                    .collect();
                settled.push(key);
                settled.extend(copies);
            }
            if let Some(table) = self.relations.get_mut(index) {
                table.def.foreign_keys = settled;
            }
        }
    }

    fn operators(&self) -> Vec<OperatorDef> {
        let mut declared = self.operators.clone();
        declared.sort();
        declared.dedup();
        let casts = &self.implicit_casts;
        declared
            .into_iter()
            .map(|operator| {
                let compares =
                    matches!(operator.name.as_str(), "=" | "<>" | "<" | "<=" | ">" | ">=");
                OperatorDef {
                    confined: compares
                        && operator.left.is_confined(self, casts)
                        && operator.right.is_confined(self, casts),
                    left: operator.left.settle(casts),
                    right: operator.right.settle(casts),
                    schema: operator.schema,
                    name: operator.name,
                    function: operator.function,
                }
            })
            .collect()
    }

    /// One for each schema and name. A name counts as extensions' only if each of its overloads came
    /// with one.
    fn routines(&self) -> Vec<RoutineDef> {
        let mut groups: BTreeMap<(&str, &str), RoutineDef> = BTreeMap::new();
        let settle = |overload: &Overload| {
            let parameters = overload.parameters.as_ref()?.iter();
            let settled = parameters.map(|operand| operand.settle(&self.implicit_casts));
            Some(settled.collect::<Vec<OperandDef>>())
        };
        for overload in &self.overloads {
            let mut columns = overload.columns.clone();
            if let Some(row) = overload.returns.as_ref().and_then(|name| self.row(name)) {
                columns.push(row);
            }
            let key = (overload.schema.as_str(), overload.name.as_str());
            let Some(group) = groups.get_mut(&key) else {
                groups.insert(
                    key,
                    RoutineDef {
                        schema: overload.schema.clone(),
                        name: overload.name.clone(),
                        kinds: overload.kinds,
                        extensions: overload.extension.iter().cloned().collect(),
                        min_args: overload.min_args,
                        max_args: overload.max_args,
                        columns,
                        parameters: settle(overload).into_iter().collect(),
                    },
                );
                continue;
            };
            // An overload of which nothing is known may take anything.
            match settle(overload) {
                Some(parameters) if !group.parameters.is_empty() => {
                    group.parameters.push(parameters);
                }
                Some(_) | None => group.parameters.clear(),
            }
            group.kinds = either(group.kinds, overload.kinds);
            match &overload.extension {
                None => group.extensions.clear(),
                Some(_) if group.extensions.is_empty() => {}
                Some(extension) if group.extensions.contains(extension) => {}
                Some(extension) => group.extensions.push(extension.clone()),
            }
            group.min_args = group.min_args.min(overload.min_args);
            group.max_args = match (group.max_args, overload.max_args) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (Some(_), None) | (None, Some(_)) | (None, None) => None,
            };
            for list in columns {
                if !group.columns.contains(&list) {
                    group.columns.push(list);
                }
            }
        }
        groups.into_values().collect()
    }
}

fn either(a: Kinds, b: Kinds) -> Kinds {
    Kinds {
        scalar: a.scalar | b.scalar,
        niladic: a.niladic | b.niladic,
        aggregate: a.aggregate | b.aggregate,
        window: a.window | b.window,
        table: a.table | b.table,
        ordered: a.ordered | b.ordered,
        procedure: a.procedure | b.procedure,
    }
}

/// A column that can be NULL, of the engine's own collation.
pub(super) fn column(name: impl Into<String>, typed: Typed) -> ColumnDef {
    ColumnDef {
        name: name.into(),
        type_name: typed.name,
        class: typed.class,
        nullable: true,
        collation: String::new(),
        generated: None,
        stored: false,
        filled: DefaultValue::Null,
    }
}

/// Columns of views may not be named alike.
pub(super) fn are_unique(columns: &[ColumnDef], dialect: Dialect) -> bool {
    let keys: BTreeSet<String> = columns.iter().map(|c| dialect.fold(&c.name)).collect();
    keys.len() == columns.len()
}
