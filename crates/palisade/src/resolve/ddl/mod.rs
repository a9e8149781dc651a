//! Statements that change the schema, or empty tables: CREATE TABLE, VIEW and INDEX, ALTER TABLE, DROP
//! and TRUNCATE.
//!
//! What they read must be plain and unfiltered for the session: a definition stays in the database,
//! where no mask applies to what it reads. Renaming is refused, because policies and classifications
//! name tables and columns; so is whatever is done to objects the statement does not name (CASCADE).

pub(in crate::resolve) mod column;

use column::gives_no_values;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, CascadeOption, CreateIndex, CreateTable,
    CreateTableOptions, CreateView, DropBehavior, Expr, Ident, IndexColumn, IndexType, ObjectName,
    ObjectNamePart, ObjectType, SqlOption, Statement, Truncate, TruncateTableTarget, ViewColumnDef,
    helpers::stmt_create_table::CreateTableBuilder,
};

use crate::resolve::{
    Mode, Reference, Resolver,
    change::side_effects::Updated,
    query::{
        Ctes,
        terms::{TermNames, position},
    },
    refuse_unsupported,
    scope::{Columns, Output, Scope, Source},
};
use crate::{
    access::{AccessSet, DefinedObject, Definition, DefinitionAccess, GivenColumn, Usage},
    catalog::{Catalog, Change, ColumnId, Relation, RelationKind},
    code::Code,
    dialect::Dialect,
    limits::Limits,
    lineage::Lineage,
    past,
    policy::obligation::Visibility,
    rejection::Rejection,
    syntax::{ParsedDefinition, decode},
};

/// A definition whose every name is resolved.
#[derive(Debug)]
pub(crate) struct ResolvedDdl {
    /// The normalised tree.
    pub(crate) statement: Box<Statement>,
    /// What stands in it: everything must be plain and unfiltered.
    pub(crate) references: Vec<Reference>,
    /// Everything it touches.
    pub(crate) access: AccessSet,
    /// Whether it drops, if that is there, what is not: no engine is asked, since something that is not seen may be.
    pub(crate) does_nothing: bool,
}

/// Resolves a definition against what `visible` holds of `catalog`.
///
/// # Errors
/// As [`resolve`](crate::resolve::resolve).
pub(crate) fn resolve_ddl(
    parsed: ParsedDefinition<'_>,
    catalog: &Catalog,
    visible: &dyn crate::resolve::Visible,
    limits: &Limits,
) -> Result<ResolvedDdl, Rejection> {
    let ParsedDefinition {
        text,
        mut statement,
        outline,
    } = parsed;
    let mut resolver = Resolver::new(catalog, visible, Mode::Statement, limits, text, &outline);
    resolver.definition(&mut statement)?;
    if resolver.placeholders != BTreeMap::new() {
        return Err(Rejection::new(
            Code::ParameterMismatch,
            "a definition takes no parameters",
        ));
    }
    resolver.access.facts = resolver.facts_of_definition(&statement);
    Ok(ResolvedDdl {
        does_nothing: matches!(
            &*statement,
            Statement::Drop {
                object_type: _,
                if_exists: _,
                names,
                cascade: _,
                restrict: _,
                purge: _,
                temporary: _,
                table: _,
            } if names.is_empty()
        ),
        references: resolver.references,
        access: resolver.access,
        statement,
    })
}

impl<'a> Resolver<'a> {
    fn definition(&mut self, statement: &mut Statement) -> Result<(), Rejection> {
        match statement {
            Statement::CreateTable(create) => self.create_table(create),
            Statement::CreateView(create) => self.create_view(create),
            Statement::CreateIndex(create) => self.create_index(create),
            Statement::AlterTable(alter) => self.alter_table(alter),
            Statement::Drop {
                object_type,
                if_exists,
                names,
                cascade,
                restrict: _,
                purge,
                temporary,
                table,
            } => {
                if *cascade || *purge || *temporary {
                    return Err(refuse_unsupported("CASCADE, PURGE or TEMPORARY in DROP"));
                }
                self.drop_objects(*object_type, *if_exists, names, table.as_mut())
            }
            Statement::Truncate(truncate) => self.truncate(truncate),
            _ => Err(refuse_unsupported("a definition of this kind")),
        }
    }

    fn create_table(&mut self, create: &mut CreateTable) -> Result<(), Rejection> {
        let dialect = self.catalog.dialect();
        let options = match &create.table_options {
            CreateTableOptions::Plain(options)
                if dialect == Dialect::Mysql && options.iter().all(is_harmless_option) =>
            {
                CreateTableOptions::Plain(options.clone())
            }
            CreateTableOptions::None => CreateTableOptions::None,
            _ => return Err(refuse_unsupported("a table option")),
        };
        // Whatever is not named here is an option that is not looked at.
        let looked_at = CreateTableBuilder::new(create.name.clone())
            .if_not_exists(create.if_not_exists)
            .columns(create.columns.clone())
            .constraints(create.constraints.clone())
            .query(create.query.clone())
            .without_rowid(create.without_rowid)
            .strict(create.strict)
            .table_options(options)
            .build();
        if looked_at != *create {
            return Err(refuse_unsupported("an option of CREATE TABLE"));
        }
        let object = self.new_relation(&mut create.name, false)?;
        let (schema, name) = match &object {
            DefinedObject::New {
                schema,
                name,
                view: _,
            } => (schema.clone(), name.clone()),
            DefinedObject::Relation(_) => return Err(refuse_unsupported("a table of this name")),
        };
        let mut outputs = Vec::with_capacity(create.columns.len());
        for column in &mut create.columns {
            outputs.push(Output {
                name: self.spelling(&column.name).into(),
                key: self.key(&column.name).into(),
                lineage: Lineage::default(),
            });
        }
        let mut scope = Scope::new(dialect, None);
        scope.sources.push(Source {
            qualifier: Some(name.into()),
            schema: Some(schema.into()),
            columns: Columns::Derived(outputs),
        });
        for column in &mut create.columns {
            self.column_def(column, &scope)?;
            if !gives_no_values(column) {
                let name = self.key(&column.name).into_owned();
                self.note_given(&object, name, BTreeSet::new());
            }
        }
        for constraint in &mut create.constraints {
            self.table_constraint(constraint, &scope)?;
        }
        if let Some(query) = &mut create.query {
            let outputs = self.query(query, None, Ctes::NONE, true)?;
            // MySQL has columns of the query beside those that are declared, and PostgreSQL calls them so.
            let names = match dialect {
                Dialect::Postgres => create.columns.iter().map(|c| &c.name).collect(),
                Dialect::Sqlite | Dialect::Mysql => Vec::new(),
            };
            self.give_outputs(&object, &names, outputs);
        }
        Ok(())
    }

    fn create_view(&mut self, create: &mut CreateView) -> Result<(), Rejection> {
        let CreateView {
            or_alter,
            or_replace,
            materialized,
            secure,
            name,
            name_before_not_exists: _,
            columns,
            query,
            options,
            cluster_by,
            comment,
            with_no_schema_binding,
            if_not_exists: _,
            temporary,
            copy_grants,
            to,
            params,
        } = create;
        refuse_options(&[
            (*or_alter || *or_replace, "OR REPLACE or OR ALTER of a view"),
            (
                *materialized && self.catalog.dialect() != Dialect::Postgres,
                "a materialised view",
            ),
            (
                *secure || *temporary || *copy_grants || *with_no_schema_binding,
                "an option of CREATE VIEW",
            ),
            (
                *options != CreateTableOptions::None,
                "an option of CREATE VIEW",
            ),
            (
                !cluster_by.is_empty() || comment.is_some() || to.is_some() || params.is_some(),
                "an option of CREATE VIEW",
            ),
        ])?;
        let object = self.new_relation(name, true)?;
        for ViewColumnDef {
            name,
            data_type,
            options,
        } in columns.iter_mut()
        {
            if data_type.is_some() || options.is_some() {
                return Err(refuse_unsupported("an option of a view's column"));
            }
            self.normalise(name);
        }
        let outputs = self.query(query, None, Ctes::NONE, true)?;
        let names: Vec<&Ident> = columns.iter().map(|column| &column.name).collect();
        self.give_outputs(&object, &names, outputs);
        Ok(())
    }

    /// Notes the columns that a definition makes of a query, the first of which have these names.
    fn give_outputs(&mut self, object: &DefinedObject, names: &[&Ident], outputs: Vec<Output>) {
        for (at, output) in outputs.into_iter().enumerate() {
            let name = match names.get(at) {
                Some(name) => self.key(name).into_owned(),
                None => output.key.to_string(),
            };
            self.note_given(object, name, output.lineage.columns.into_iter().collect());
        }
    }

    fn note_given(&mut self, object: &DefinedObject, name: String, from: BTreeSet<ColumnId>) {
        self.access.given.insert(GivenColumn {
            object: object.clone(),
            name,
            from,
        });
    }

    fn create_index(&mut self, create: &mut CreateIndex) -> Result<(), Rejection> {
        let CreateIndex {
            name,
            table_name,
            using,
            columns,
            unique: _,
            concurrently,
            r#async,
            if_not_exists: _,
            include,
            nulls_distinct: _,
            with,
            predicate,
            index_options,
            alter_options,
        } = create;
        refuse_options(&[
            (*concurrently || *r#async, "CONCURRENTLY"),
            (
                !with.is_empty() || !index_options.is_empty() || !alter_options.is_empty(),
                "an option of CREATE INDEX",
            ),
        ])?;
        match using {
            None
            | Some(
                IndexType::BTree
                | IndexType::Hash
                | IndexType::GIN
                | IndexType::GiST
                | IndexType::SPGiST
                | IndexType::BRIN,
            ) => {}
            Some(_) => return Err(refuse_unsupported("an index of this type")),
        }
        let relation =
            self.changed_relation(table_name, Definition::Alter, &[RelationKind::Table])?;
        let scope = self.scope_of(relation)?;
        for column in columns {
            self.index_column(column, &scope)?;
        }
        for column in include {
            self.use_column(column, &scope, Usage::Order)?;
        }
        if let Some(predicate) = predicate {
            self.expr(predicate, &scope, Ctes::NONE, Usage::Filter)?;
        }
        if let Some(name) = name {
            let is_own = |schema: &Ident| *self.table_key(schema) == *relation.schema_key;
            let own = match name.0.as_mut_slice() {
                [ObjectNamePart::Identifier(own)] => own,
                [
                    ObjectNamePart::Identifier(schema),
                    ObjectNamePart::Identifier(own),
                ] if self.catalog.dialect() == Dialect::Sqlite && is_own(schema) => own,
                _ => return Err(refuse_unsupported("an index name of this form")),
            };
            self.normalise(own);
            if self.catalog.dialect() == Dialect::Sqlite {
                // There the schema stands before the index, and not before the table.
                let own = own.clone();
                *name = ObjectName::from(vec![self.encode(&relation.schema), own]);
                *table_name = ObjectName::from(self.encode(&relation.name));
            }
        }
        Ok(())
    }

    pub(in crate::resolve) fn index_column(
        &mut self,
        column: &mut IndexColumn,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let IndexColumn {
            column,
            operator_class,
        } = column;
        if operator_class.is_some() {
            return Err(refuse_unsupported("an operator class"));
        }
        // A whole number would be a position in ORDER BY, and is a constant here.
        if position(&column.expr).is_some() {
            return Err(refuse_unsupported("a constant in an index"));
        }
        let term = std::slice::from_mut(column);
        self.order_terms(term, TermNames::Expressions, scope, Ctes::NONE)?;
        Ok(())
    }

    fn alter_table(&mut self, alter: &mut AlterTable) -> Result<(), Rejection> {
        let AlterTable {
            name,
            if_exists: _,
            only,
            operations,
            location,
            on_cluster,
            table_type,
            end_token: _,
        } = alter;
        if *only || location.is_some() || on_cluster.is_some() || table_type.is_some() {
            return Err(refuse_unsupported("an option of ALTER TABLE"));
        }
        let relation = self.changed_relation(name, Definition::Alter, &[RelationKind::Table])?;
        let mut scope = self.scope_of(relation)?;
        for operation in operations {
            if let AlterTableOperation::AddColumn {
                column_keyword: _,
                if_not_exists: _,
                column_def,
                column_position: _,
            } = operation
            {
                self.add_column(&column_def.name, relation, &mut scope);
                if !gives_no_values(column_def) {
                    let object = DefinedObject::Relation(relation.id);
                    let name = self.key(&column_def.name).into_owned();
                    self.note_given(&object, name, BTreeSet::new());
                }
            }
            self.alter_operation(operation, &scope)?;
        }
        Ok(())
    }

    /// Adds a new column to what its own conditions and later operations can name. A name that the table has already
    /// stays that column.
    fn add_column(&self, name: &Ident, relation: &Relation, scope: &mut Scope<'a, '_>) {
        let key: Arc<str> = self.key(name).into();
        if relation.position(&key).is_some() {
            return;
        }
        let (qualifier, schema) = match scope.sources.first() {
            Some(source) => (source.qualifier.clone(), source.schema.clone()),
            None => (None, None),
        };
        scope.sources.push(Source {
            qualifier,
            schema,
            columns: Columns::Derived(vec![Output {
                name: self.spelling(name).into(),
                key,
                lineage: Lineage::default(),
            }]),
        });
    }

    fn alter_operation(
        &mut self,
        operation: &mut AlterTableOperation,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let column = |resolver: &mut Self, name: &mut Ident| -> Result<(), Rejection> {
            let mut expr = Expr::Identifier(name.clone());
            resolver.expr(&mut expr, scope, Ctes::NONE, Usage::Filter)?;
            resolver.normalise(name);
            Ok(())
        };
        match operation {
            AlterTableOperation::AddColumn {
                column_keyword: _,
                if_not_exists: _,
                column_def,
                column_position: None,
            } => self.column_def(column_def, scope),
            AlterTableOperation::AddConstraint {
                constraint,
                not_valid: _,
            } => self.table_constraint(constraint, scope),
            AlterTableOperation::DropColumn {
                has_column_keyword: _,
                column_names,
                if_exists: _,
                drop_behavior: None | Some(DropBehavior::Restrict),
            } => {
                for name in column_names {
                    column(self, name)?;
                }
                Ok(())
            }
            AlterTableOperation::DropConstraint {
                if_exists: _,
                name,
                drop_behavior: None | Some(DropBehavior::Restrict),
            } => {
                self.normalise(name);
                Ok(())
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                column(self, column_name)?;
                match op {
                    AlterColumnOperation::SetNotNull
                    | AlterColumnOperation::DropNotNull
                    | AlterColumnOperation::DropDefault => Ok(()),
                    AlterColumnOperation::SetDefault { value } => {
                        let nothing = Scope::new(self.catalog.dialect(), None);
                        self.expr(value, &nothing, Ctes::NONE, Usage::Output)?;
                        Ok(())
                    }
                    AlterColumnOperation::SetDataType {
                        data_type,
                        using,
                        had_set: _,
                    } => {
                        self.cast_type(data_type)?;
                        if let Some(using) = using {
                            self.expr(using, scope, Ctes::NONE, Usage::Output)?;
                        }
                        Ok(())
                    }
                    _ => Err(refuse_unsupported("this change of a column")),
                }
            }
            AlterTableOperation::RenameColumn {
                old_column_name: _,
                new_column_name: _,
            }
            | AlterTableOperation::RenameTable { table_name: _ }
            | AlterTableOperation::ChangeColumn {
                old_name: _,
                new_name: _,
                data_type: _,
                options: _,
                column_position: _,
            }
            | AlterTableOperation::SwapWith { table_name: _ } => Err(Rejection::new(
                Code::StatementNotAllowed,
                "renaming is not permitted: policies and classifications name tables and columns",
            )),
            _ => Err(refuse_unsupported("this form of ALTER TABLE")),
        }
    }

    fn drop_objects(
        &mut self,
        kind: ObjectType,
        if_exists: bool,
        names: &mut Vec<ObjectName>,
        table: Option<&mut ObjectName>,
    ) -> Result<(), Rejection> {
        let kinds: &[RelationKind] = match kind {
            ObjectType::Table => &[RelationKind::Table],
            ObjectType::View => &[RelationKind::View],
            ObjectType::MaterializedView => &[RelationKind::Materialized],
            ObjectType::Index => {
                // Whose index it is, only MySQL says.
                let (Some(table), [name]) = (table, names.as_mut_slice()) else {
                    return Err(refuse_unsupported("DROP INDEX without its table"));
                };
                let [ObjectNamePart::Identifier(name)] = name.0.as_mut_slice() else {
                    return Err(refuse_unsupported("an index name of this form"));
                };
                self.normalise(name);
                self.changed_relation(table, Definition::Alter, &[RelationKind::Table])?;
                return Ok(());
            }
            other => {
                return Err(Rejection::new(
                    Code::StatementNotAllowed,
                    format!("DROP {other} statements are not permitted"),
                ));
            }
        };
        if table.is_some() {
            return Err(refuse_unsupported("ON in DROP"));
        }
        for mut name in std::mem::take(names) {
            let relation = match self.changed_relation(&mut name, Definition::Drop, kinds) {
                Err(unknown) if if_exists && unknown.code() == Code::NameUnknownRelation => {
                    // It stays out of the statement, since it may be there all the same. What policies say of the name is not
                    // asked: that they say something would tell that it is.
                    continue;
                }
                found => found?,
            };
            names.push(name);
            if self.catalog.dialect() == Dialect::Sqlite && kind == ObjectType::Table {
                // It deletes the rows first, with what foreign keys do then.
                self.effects(
                    relation,
                    Change::Delete,
                    &Updated::default(),
                    &mut Vec::new(),
                );
            }
            // Partitions go with their table.
            let all = self.catalog.relations();
            for below in all.iter().filter(|other| is_below(other, relation, all)) {
                self.access.definitions.insert(DefinitionAccess {
                    definition: Definition::Drop,
                    object: DefinedObject::Relation(below.id),
                });
            }
        }
        Ok(())
    }

    fn truncate(&mut self, truncate: &mut Truncate) -> Result<(), Rejection> {
        let Truncate {
            table_names,
            partitions,
            table,
            if_exists,
            identity: _,
            cascade,
            on_cluster,
        } = truncate;
        if self.catalog.dialect() == Dialect::Sqlite {
            return Err(Rejection::new(
                Code::SyntaxUnsupported,
                "SQLite has no TRUNCATE: a DELETE without a condition empties a table",
            ));
        }
        if partitions.is_some() || *if_exists || on_cluster.is_some() {
            return Err(refuse_unsupported("an option of TRUNCATE"));
        }
        match cascade {
            None | Some(CascadeOption::Restrict) => {}
            Some(CascadeOption::Cascade) => return Err(refuse_unsupported("TRUNCATE … CASCADE")),
        }
        *table = true;
        for TruncateTableTarget {
            name,
            only,
            has_asterisk,
        } in table_names
        {
            if *only || *has_asterisk {
                return Err(refuse_unsupported("ONLY or * in TRUNCATE"));
            }
            let relation = self.target_relation(name, Change::Truncate)?;
            self.note_reference(relation)?;
            self.change(relation, Change::Truncate, true);
        }
        Ok(())
    }

    /// A relation that the statement changes or drops, by its name, which is completed.
    fn changed_relation(
        &mut self,
        name: &mut ObjectName,
        definition: Definition,
        kinds: &[RelationKind],
    ) -> Result<&'a Relation, Rejection> {
        let source = self.table(name, &mut None, Ctes::NONE)?;
        let Some(relation) = source.columns.relation() else {
            return Err(refuse_unsupported("a definition of this relation"));
        };
        if !kinds.contains(&relation.kind) {
            let shown = &relation.name;
            return Err(Rejection::new(
                Code::SyntaxInvalid,
                format!("`{shown}` is a relation of another kind"),
            ));
        }
        self.access.definitions.insert(DefinitionAccess {
            definition,
            object: DefinedObject::Relation(relation.id),
        });
        Ok(relation)
    }

    /// Notes that a relation stands in the statement as it is.
    fn note_reference(&mut self, relation: &'a Relation) -> Result<(), Rejection> {
        let decision = self.visible.relation(relation.id)?;
        if decision.visibility != Visibility::Selectable {
            return Err(self.unknown_relation(&relation.name));
        }
        self.references.push(Reference {
            relation: relation.id,
            decision,
            body: None,
            opened: Vec::new(),
            narrowed_by: None,
        });
        Ok(())
    }

    fn scope_of<'s>(&self, relation: &'a Relation) -> Result<Scope<'a, 's>, Rejection> {
        let mut scope = Scope::new(self.catalog.dialect(), None);
        scope.sources.push(self.target_source(relation, None)?);
        Ok(scope)
    }

    /// A relation that is to be, whose name is completed.
    fn new_relation(
        &mut self,
        name: &mut ObjectName,
        view: bool,
    ) -> Result<DefinedObject, Rejection> {
        let (schema, last) = self.schema_and_name(name)?;
        let schema = schema.map(|schema| self.table_name(schema).into_owned());
        let shown = match self.catalog.dialect() {
            Dialect::Sqlite | Dialect::Mysql => decode(last).into_owned(),
            Dialect::Postgres => self.table_key(last).into_owned(),
        };
        let key = self.table_key(last).into_owned();
        let schema = schema.unwrap_or_else(|| self.catalog.default_schema().to_owned());
        let schema_key = self.catalog.fold_relation(&schema);
        if self.is_system_name(Some(&schema_key), &key) || self.is_system_name(None, &key) {
            return Err(Rejection::new(
                Code::NameSystemRelation,
                format!("`{shown}` is a name of the engine's own"),
            ));
        }
        if is_own_name(&key) || is_own_name(&schema_key) {
            return Err(Rejection::new(
                Code::NameSystemRelation,
                format!("`{shown}` is a name that the firewall keeps; choose another one"),
            ));
        }
        *name = ObjectName::from(vec![self.encode(&schema), self.encode(&shown)]);
        let object = DefinedObject::New {
            schema: schema_key,
            name: key,
            view,
        };
        self.access.definitions.insert(DefinitionAccess {
            definition: Definition::Create,
            object: object.clone(),
        });
        Ok(object)
    }
}

/// Names of tables that operators make for the firewall (`change::LEDGER` and `change::IMAGES`): catalogs leave them out, so that a
/// table of a principal's by such a name would be written by the firewall, and seen in no catalog.
const OWN_TABLES: [&str; 2] = ["palisade_receipts", "palisade_images"];

/// Whether the firewall keeps a name of a relation or schema, in whatever letters: one of these, or of history.
fn is_own_name(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    OWN_TABLES.contains(&key.as_str()) || key.starts_with(past::PREFIX)
}

/// Refuses the first of these options that is present, by its name.
fn refuse_options(options: &[(bool, &str)]) -> Result<(), Rejection> {
    match options.iter().find(|(is_present, _)| *is_present) {
        Some((_, what)) => Err(refuse_unsupported(what)),
        None => Ok(()),
    }
}

/// Options that say how MySQL keeps a table, and not where.
fn is_harmless_option(option: &SqlOption) -> bool {
    let harmless = |name: &Ident| {
        let name = name.value.to_ascii_uppercase();
        matches!(
            name.as_str(),
            "ENGINE"
                | "CHARSET"
                | "DEFAULT CHARSET"
                | "CHARACTER SET"
                | "DEFAULT CHARACTER SET"
                | "COLLATE"
                | "DEFAULT COLLATE"
                | "AUTO_INCREMENT"
        )
    };
    match option {
        SqlOption::KeyValue { key, value } => {
            harmless(key) && matches!(value, Expr::Identifier(_) | Expr::Value(_))
        }
        SqlOption::NamedParenthesizedList(list) => {
            harmless(&list.key)
                && list.values.is_empty()
                && list
                    .name
                    .as_ref()
                    .is_some_and(|engine| engine.value.eq_ignore_ascii_case("InnoDB"))
        }
        SqlOption::Comment(_) => true,
        SqlOption::Clustered(_)
        | SqlOption::Ident(_)
        | SqlOption::Partition {
            column_name: _,
            range_direction: _,
            for_values: _,
        }
        | SqlOption::TableSpace(_) => false,
    }
}

/// Whether `relation` is a partition or a child of `above`.
fn is_below(relation: &Relation, above: &Relation, all: &[Relation]) -> bool {
    let mut pending = relation.parents.clone();
    let mut seen = Vec::new();
    while let Some(id) = pending.pop() {
        if id == above.id {
            return true;
        }
        if !seen.contains(&id) {
            seen.push(id);
            pending.extend(
                all.iter()
                    .filter(|r| r.id == id)
                    .flat_map(|r| r.parents.iter().copied()),
            );
        }
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use sqlparser::{dialect::MySqlDialect, parser::Parser};

    use super::*;

    #[test]
    fn options_say_how_a_table_is_kept_and_not_where() {
        for (option, expected) in [
            ("ENGINE = InnoDB", true),
            ("ENGINE = MyISAM", false),
            ("DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin", true),
            ("AUTO_INCREMENT = 5 COMMENT = 'x'", true),
            ("DATA DIRECTORY = '/var/other'", false),
            ("ENGINE = InnoDB DATA DIRECTORY = '/var/other'", false),
            ("UNION = (a, b)", false),
            ("CONNECTION = 'mysql://other/db'", false),
        ] {
            let sql = format!("CREATE TABLE t (a INT) {option}");
            let found = Parser::parse_sql(&MySqlDialect {}, &sql);
            let Ok([Statement::CreateTable(create)]) = found.as_deref() else {
                panic!("{sql}: {found:?}");
            };
            let CreateTableOptions::Plain(options) = &create.table_options else {
                panic!("{sql}: {:?}", create.table_options);
            };
            assert_eq!(options.iter().all(is_harmless_option), expected, "{sql}");
        }
    }
}
