//! FROM: tables, subqueries, table functions and joins.

use std::{borrow::Cow, ops::Range};

use sqlparser::{
    ast::{
        Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, TableAlias,
        TableFactor, TableFunctionArgs, TableSample, TableSampleKind, TableWithJoins,
    },
    tokenizer::{Location, Span},
};

use super::{
    Mode, Reference, Resolver, SourceForm,
    query::Ctes,
    scope::{Columns, Merged, Origin, Output, Scope, Source},
    unsupported,
};
use crate::{
    access::Usage,
    catalog::{Column, Relation, RelationId, RelationKind, SystemClass, system_relation},
    code::Code,
    dialect::Dialect,
    ident,
    lineage::Lineage,
    policy::obligation::Visibility,
    rejection::Rejection,
    syntax::{decode, encode},
};

/// A line no text has: the span of an identifier that marks a physical reference.
const MARK: u64 = u64::MAX;

/// `ident`, marked as the reference with this index.
pub(super) fn marked(mut ident: Ident, index: usize) -> Ident {
    let at = Location {
        line: MARK,
        column: u64::try_from(index).unwrap_or(MARK),
    };
    ident.span = Span { start: at, end: at };
    ident
}

/// The index of the reference that `name` was marked as.
pub(crate) fn reference_index(name: &ObjectName) -> Option<usize> {
    let start = name.0.first()?.as_ident()?.span.start;
    (start.line == MARK)
        .then(|| usize::try_from(start.column).ok())
        .flatten()
}

/// The name that stands for the source form at `index` in our own output: no text that is parsed holds its first
/// character.
pub(crate) fn form_name(index: usize, dialect: Dialect) -> Ident {
    encode(&format!("\0form {index}"), dialect)
}

impl<'a> Resolver<'a> {
    /// Reads the FROM list and gives the scope it makes.
    pub(super) fn from<'s>(
        &mut self,
        from: &mut [TableWithJoins],
        parent: Option<&'s Scope<'a, 's>>,
        ctes: Ctes<'_>,
    ) -> Result<Scope<'a, 's>, Rejection> {
        let mut scope = Scope::inside(self.catalog.dialect(), parent);
        for table in from {
            self.table_with_joins(table, &mut scope, ctes)?;
        }
        Ok(scope)
    }

    pub(super) fn table_with_joins(
        &mut self,
        table: &mut TableWithJoins,
        scope: &mut Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        let TableWithJoins { relation, joins } = table;
        // On SQLite USING and NATURAL reach every table to the left, commas included.
        let start = match self.catalog.dialect() {
            Dialect::Sqlite => 0,
            Dialect::Postgres | Dialect::Mysql => scope.sources.len(),
        };
        self.table_factor(relation, scope, ctes)?;
        for join in joins {
            let Join {
                relation,
                global,
                join_operator,
            } = join;
            if *global {
                return Err(unsupported("GLOBAL JOIN"));
            }
            let right = scope.sources.len();
            self.table_factor(relation, scope, ctes)?;
            match join_operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint)
                | JoinOperator::FullOuter(constraint)
                | JoinOperator::CrossJoin(constraint) => {
                    self.constraint(constraint, scope, start..right, ctes)?;
                }
                JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                    let before = scope.merged.len();
                    self.constraint(constraint, scope, start..right, ctes)?;
                    for merged in scope.merged.iter_mut().skip(before) {
                        merged.right_first = self.catalog.dialect() == Dialect::Mysql;
                    }
                }
                JoinOperator::StraightJoin(constraint)
                    if self.catalog.dialect() == Dialect::Mysql =>
                {
                    self.constraint(constraint, scope, start..right, ctes)?;
                }
                JoinOperator::Semi(_)
                | JoinOperator::LeftSemi(_)
                | JoinOperator::RightSemi(_)
                | JoinOperator::Anti(_)
                | JoinOperator::LeftAnti(_)
                | JoinOperator::RightAnti(_) => return Err(unsupported("SEMI or ANTI JOIN")),
                JoinOperator::CrossApply | JoinOperator::OuterApply => {
                    return Err(unsupported("APPLY"));
                }
                JoinOperator::AsOf {
                    match_condition: _,
                    constraint: _,
                } => {
                    return Err(unsupported("ASOF JOIN"));
                }
                JoinOperator::StraightJoin(_) => return Err(unsupported("STRAIGHT_JOIN")),
                JoinOperator::ArrayJoin
                | JoinOperator::LeftArrayJoin
                | JoinOperator::InnerArrayJoin => return Err(unsupported("ARRAY JOIN")),
            }
        }
        Ok(())
    }

    fn constraint(
        &mut self,
        constraint: &mut JoinConstraint,
        scope: &mut Scope<'a, '_>,
        left: Range<usize>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        match constraint {
            JoinConstraint::None => Ok(()),
            JoinConstraint::On(expr) => {
                self.predicate(expr, scope, ctes, Usage::Join)?;
                self.tie(expr, scope);
                Ok(())
            }
            JoinConstraint::Using(columns) => {
                for column in columns {
                    let [ObjectNamePart::Identifier(ident)] = column.0.as_mut_slice() else {
                        return Err(unsupported("a qualified name in USING"));
                    };
                    self.normalise(ident);
                    let key = self.key(ident);
                    self.merge(scope, left.clone(), &key)?;
                }
                Ok(())
            }
            JoinConstraint::Natural => {
                let keys = |range: Range<usize>| -> Vec<String> {
                    let sources = scope.sources.get(range).unwrap_or_default();
                    sources
                        .iter()
                        .flat_map(|s| s.columns.list())
                        .map(|o| o.key)
                        .collect()
                };
                let new = keys(left.end..scope.sources.len());
                let mut shared: Vec<String> = Vec::new();
                for key in keys(left.clone()) {
                    if new.contains(&key) && !shared.contains(&key) {
                        shared.push(key);
                    }
                }
                for key in shared {
                    self.merge(scope, left.clone(), &key)?;
                }
                Ok(())
            }
        }
    }

    /// Merges the column `key` of the tables after `left` into the one there.
    fn merge(
        &mut self,
        scope: &mut Scope<'a, '_>,
        left: Range<usize>,
        key: &str,
    ) -> Result<(), Rejection> {
        let mut into = None;
        let mut merged = Vec::new();
        let mut used = Vec::new();
        for (index, source) in scope.sources.iter().enumerate().skip(left.start) {
            if let Some((origin, _)) = source.columns.find(key) {
                used.extend_from_slice(origin.columns());
                if index < left.end {
                    into = into.or(Some(index));
                } else {
                    merged.push(index);
                }
            }
        }
        let Some(into) = into.filter(|_| !merged.is_empty()) else {
            return Err(unknown_column(key, &[]));
        };
        let mut links = std::mem::take(&mut scope.links);
        for position in scope.positions(None, key) {
            links.tie(into, position);
        }
        scope.links = links;
        let over = left.start..scope.sources.len();
        scope.merged.extend(merged.into_iter().map(|source| Merged {
            source,
            into,
            over: over.clone(),
            middle: left.end,
            right_first: false,
            key: key.to_owned(),
        }));
        let origins: Vec<Origin<'_>> = scope
            .sources
            .iter()
            .skip(left.start)
            .filter_map(|source| Some(source.columns.find(key)?.0))
            .collect();
        // What is compared runs on rows that a filter hides, unless it is a column that may be seen.
        let columns: Option<Vec<&Column>> = origins
            .iter()
            .map(|origin| {
                let id = origin.identity().filter(|id| self.is_plain_base(*id))?;
                self.catalog.column(id)
            })
            .collect();
        let safe = columns.is_some_and(|columns| {
            columns
                .iter()
                .all(|one| columns.iter().all(|other| self.columns_compare(one, other)))
        });
        self.needs_fence |= !safe;
        self.user_operator("=")?;
        let operands: Vec<_> = origins.iter().map(Origin::columns).collect();
        self.implicit_casts(&operands);
        for column in used {
            self.touch(column, Usage::Join);
        }
        Ok(())
    }

    pub(super) fn table_factor(
        &mut self,
        factor: &mut TableFactor,
        scope: &mut Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                if !with_hints.is_empty() {
                    return Err(unsupported("a table hint"));
                }
                // They choose a plan and nothing else.
                index_hints.clear();
                if version.is_some() {
                    return Err(unsupported("a table version"));
                }
                if json_path.is_some() {
                    return Err(unsupported("a path after a table"));
                }
                let source = match args {
                    Some(_) if self.is_only(name) && !*with_ordinality => {
                        self.only(name, args, alias, ctes)?
                    }
                    Some(TableFunctionArgs { args, settings }) => {
                        if settings.is_some() {
                            return Err(unsupported("SETTINGS"));
                        }
                        self.table_function(name, args, *with_ordinality, alias, scope, ctes)?
                    }
                    None if *with_ordinality => return Err(unsupported("WITH ORDINALITY")),
                    None => match (self.named_form(name)?, self.claims(name, alias.as_ref())) {
                        (Some(columns), _) => self.aliased(alias, None, None, columns)?,
                        (None, Some(awaited)) => self.target_factor(name, alias, &awaited)?,
                        (None, None) => self.table(name, alias, ctes)?,
                    },
                };
                if let Some(sample) = sample {
                    self.sample(sample, &source, scope, ctes)?;
                }
                if !partitions.is_empty() {
                    if source.columns.has_obligation() {
                        return Err(unsupported("PARTITION of a table with obligations"));
                    }
                    for partition in partitions {
                        self.normalise(partition);
                    }
                }
                scope.sources.push(source);
                Ok(())
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample,
            } => {
                if sample.is_some() {
                    return Err(unsupported("TABLESAMPLE of a subquery"));
                }
                if *lateral && self.catalog.dialect() == Dialect::Sqlite {
                    return Err(unsupported("LATERAL"));
                }
                let columns = match self.source_form(subquery)? {
                    Some(columns) => columns,
                    // Other tables of the same FROM are in scope after LATERAL only.
                    None if *lateral => {
                        Columns::Derived(self.query(subquery, Some(&*scope), ctes, true)?)
                    }
                    None => Columns::Derived(self.query(subquery, scope.parent, ctes, true)?),
                };
                let source = self.aliased(alias, None, None, columns)?;
                scope.sources.push(source);
                Ok(())
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                if alias.is_some() {
                    if self.catalog.dialect() != Dialect::Postgres {
                        return Err(unsupported("an alias on a join in parentheses"));
                    }
                    // Inside, the tables around it are out of sight and the other way round.
                    let mut inner = Scope::inside(self.catalog.dialect(), scope.parent);
                    self.table_with_joins(table_with_joins, &mut inner, ctes)?;
                    let columns = Columns::Derived(inner.star(None).unwrap_or_default());
                    let source = self.aliased(alias, None, None, columns)?;
                    scope.sources.push(source);
                    return Ok(());
                }
                self.whole_rows = true;
                // The first one is as if it had no parentheses.
                scope.nested |= !scope.sources.is_empty();
                self.table_with_joins(table_with_joins, scope, ctes)
            }
            TableFactor::TableFunction { expr: _, alias: _ } => Err(unsupported("TABLE(…)")),
            TableFactor::Function {
                lateral: _,
                name,
                args,
                with_ordinality,
                alias,
            } => {
                if self.catalog.dialect() != Dialect::Postgres {
                    return Err(unsupported("LATERAL with a function"));
                }
                let source =
                    self.table_function(name, args, *with_ordinality, alias, scope, ctes)?;
                scope.sources.push(source);
                Ok(())
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality,
            } if self.catalog.dialect() == Dialect::Postgres => {
                let source = self.unnest(array_exprs, *with_ordinality, alias, scope, ctes)?;
                scope.sources.push(source);
                Ok(())
            }
            TableFactor::UNNEST {
                alias: _,
                array_exprs: _,
                with_offset: _,
                with_offset_alias: _,
                with_ordinality: _,
            } => Err(unsupported("UNNEST of this form")),
            TableFactor::JsonTable {
                json_expr,
                json_path,
                columns,
                alias,
            } => {
                if self.catalog.dialect() == Dialect::Sqlite {
                    return Err(unsupported("JSON_TABLE"));
                }
                let source = self.json_table(json_expr, json_path, columns, alias, scope, ctes)?;
                scope.sources.push(source);
                Ok(())
            }
            TableFactor::OpenJsonTable {
                json_expr: _,
                json_path: _,
                columns: _,
                alias: _,
            } => Err(unsupported("OPENJSON")),
            TableFactor::Pivot {
                table: _,
                aggregate_functions: _,
                value_column: _,
                value_source: _,
                default_on_null: _,
                alias: _,
            } => Err(unsupported("PIVOT")),
            TableFactor::Unpivot {
                table: _,
                value: _,
                name: _,
                columns: _,
                null_inclusion: _,
                alias: _,
            }
            | TableFactor::UnpivotExpr {
                expression: _,
                value_alias: _,
                attribute_alias: _,
            } => Err(unsupported("UNPIVOT")),
            TableFactor::MatchRecognize {
                table: _,
                partition_by: _,
                order_by: _,
                measures: _,
                rows_per_match: _,
                after_match_skip: _,
                pattern: _,
                symbols: _,
                alias: _,
            } => Err(unsupported("MATCH_RECOGNIZE")),
            TableFactor::XmlTable {
                namespaces,
                row_expression,
                passing,
                columns,
                alias,
            } => {
                if self.catalog.dialect() != Dialect::Postgres {
                    return Err(unsupported("XMLTABLE"));
                }
                for namespace in namespaces {
                    self.expr(&mut namespace.uri, scope, ctes, Usage::Output)?;
                    self.normalise(&mut namespace.name);
                }
                let mut from = self.expr(row_expression, scope, ctes, Usage::Output)?;
                for argument in &mut passing.arguments {
                    from.extend(self.expr(&mut argument.expr, scope, ctes, Usage::Output)?);
                }
                let source = self.xml_table(columns, from, alias, scope, ctes)?;
                scope.sources.push(source);
                Ok(())
            }
            TableFactor::SemanticView {
                name: _,
                dimensions: _,
                metrics: _,
                facts: _,
                where_clause: _,
                alias: _,
            } => Err(unsupported("SEMANTIC_VIEW")),
        }
    }

    /// A source under its alias, with the columns named as the alias's list says.
    pub(super) fn aliased(
        &mut self,
        alias: &mut Option<TableAlias>,
        name: Option<String>,
        schema: Option<String>,
        columns: Columns<'a>,
    ) -> Result<Source<'a>, Rejection> {
        let Some(TableAlias {
            explicit: _,
            name: ident,
            columns: list,
            at,
        }) = alias
        else {
            return Ok(Source {
                qualifier: name,
                schema,
                columns,
            });
        };
        if at.is_some() {
            return Err(unsupported("AT in an alias"));
        }
        self.is_name(ident)?;
        self.normalise_table(ident);
        let qualifier = Some(self.table_key(ident).into_owned());
        if list.is_empty() {
            return Ok(Source {
                qualifier,
                schema: None,
                columns,
            });
        }
        let dialect = self.catalog.dialect();
        let mut outputs = columns.list();
        // PostgreSQL takes a list that is shorter than the columns.
        let fits = match dialect {
            Dialect::Sqlite => return Err(unsupported("a column list on a table alias")),
            Dialect::Postgres => list.len() <= outputs.len(),
            Dialect::Mysql => list.len() == outputs.len(),
        };
        if !fits {
            return Err(Rejection::new(
                Code::SyntaxInvalid,
                format!("{} columns are given {} names", outputs.len(), list.len()),
            ));
        }
        for (output, column) in outputs.iter_mut().zip(list) {
            if column.data_type.is_some() {
                return Err(unsupported("a type in a column alias list"));
            }
            output.key = self.key(&column.name).into_owned();
            output.name = self.spelling(&column.name);
            self.normalise(&mut column.name);
        }
        Ok(Source {
            qualifier,
            schema: None,
            columns: Columns::Derived(outputs),
        })
    }

    /// The name that a column called `ident` gets.
    pub(super) fn spelling(&self, ident: &Ident) -> String {
        match self.catalog.dialect() {
            Dialect::Sqlite | Dialect::Mysql => decode(ident).into_owned(),
            Dialect::Postgres => self.key(ident).into_owned(),
        }
    }

    /// TABLESAMPLE: of a table that stands as it is.
    fn sample(
        &mut self,
        sample: &mut TableSampleKind,
        source: &Source<'a>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        if self.catalog.dialect() != Dialect::Postgres || source.columns.has_obligation() {
            return Err(unsupported("TABLESAMPLE of this table"));
        }
        let (TableSampleKind::AfterTableAlias(sample) | TableSampleKind::BeforeTableAlias(sample)) =
            sample;
        let TableSample {
            modifier: _,
            name: _,
            quantity,
            seed,
            bucket,
            offset,
        } = &mut **sample;
        if bucket.is_some() || offset.is_some() {
            return Err(unsupported("TABLESAMPLE of this form"));
        }
        if let Some(quantity) = quantity {
            self.expr(&mut quantity.value, scope, ctes, Usage::Filter)?;
        }
        if let Some(seed) = seed {
            self.value(&mut seed.value.value, seed.value.span.start)?;
        }
        Ok(())
    }

    /// A name in FROM: a CTE in scope, else a relation of the visible catalog.
    pub(super) fn table(
        &mut self,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        self.drop_database(name);
        let (schema, last) = match name.0.as_mut_slice() {
            [ObjectNamePart::Identifier(last)] => (None, last),
            [
                ObjectNamePart::Identifier(schema),
                ObjectNamePart::Identifier(last),
            ] => (Some(self.table_key(schema)), last),
            _ => return Err(unsupported("a relation name of this form")),
        };
        let shown = self.table_name(last);
        let schema = schema.map(Cow::into_owned);
        let key = self.table_key(last).into_owned();
        if schema.is_none()
            && let Some(cte) = ctes.find(&key)
        {
            let Some(columns) = cte.columns.clone() else {
                let why = if cte.changes {
                    "gives no rows without RETURNING"
                } else {
                    "reads itself without UNION"
                };
                return Err(Rejection::new(
                    Code::SyntaxInvalid,
                    format!("the common table expression `{key}` {why}"),
                ));
            };
            if decode(&cte.name) != shown && alias.is_none() {
                *alias = Some(plain_alias(self.encode(&shown)));
            }
            *last = cte.name.clone();
            return self.aliased(alias, Some(key), None, Columns::Derived(columns));
        }
        // `dual` is a table of one row that every MySQL has.
        if self.catalog.dialect() == Dialect::Mysql
            && key.eq_ignore_ascii_case("dual")
            && schema.is_none()
            && self.catalog.lookup(&key).is_none()
        {
            *last = Ident::new("DUAL");
            return Ok(Source {
                qualifier: None,
                schema: None,
                columns: Columns::Derived(Vec::new()),
            });
        }
        let found = match &schema {
            Some(schema) => self.catalog.find(schema, &key),
            None => self.catalog.lookup(&key),
        };
        if self.is_system_name(schema.as_deref(), &key)
            && let Some(source) = self.system(schema.as_deref(), &key, name, alias)?
        {
            return Ok(source);
        }
        if self.is_system_name(schema.as_deref(), &key)
            || found.is_some_and(|r| r.kind == RelationKind::System)
        {
            return Err(Rejection::new(
                Code::NameSystemRelation,
                format!("`{shown}` is a system relation"),
            ));
        }
        let Some(relation) = found else {
            return Err(self.unknown_relation(&shown));
        };
        self.relation(name, relation, alias, &shown)
    }

    /// A relation of the engine's own that tells of names alone, for whom nothing is hidden.
    fn system(
        &mut self,
        schema: Option<&str>,
        key: &str,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
    ) -> Result<Option<Source<'a>>, Rejection> {
        let dialect = self.catalog.dialect();
        let schema = schema.unwrap_or("pg_catalog").to_lowercase();
        let key = match dialect {
            Dialect::Sqlite | Dialect::Postgres => key.to_owned(),
            Dialect::Mysql => key.to_lowercase(),
        };
        let Some(known) = system_relation(dialect, &schema, &key) else {
            return Ok(None);
        };
        match known.class {
            SystemClass::Catalog if self.visible.sees_everything()? => {}
            SystemClass::Catalog
            | SystemClass::Activity
            | SystemClass::Statistics
            | SystemClass::Secrets
            | SystemClass::Storage
            | SystemClass::Settings => return Ok(None),
        }
        self.count_relation(1)?;
        self.access.system.insert((schema.clone(), key.clone()));
        name.0 = [&schema, &key]
            .into_iter()
            .map(|part| ObjectNamePart::Identifier(self.encode(part)))
            .collect();
        let columns = known.columns.iter().map(|column| Output {
            name: column.clone(),
            key: column.clone(),
            lineage: Lineage::default(),
        });
        self.aliased(
            alias,
            Some(key),
            Some(schema),
            Columns::Derived(columns.collect()),
        )
        .map(Some)
    }

    /// Takes the database off `database.schema.table` where it is the one at hand.
    pub(super) fn drop_database(&self, name: &mut ObjectName) {
        if self.catalog.dialect() == Dialect::Postgres
            && name.0.len() == 3
            && let Some(ObjectNamePart::Identifier(database)) = name.0.first()
            && self.table_key(database) == self.catalog.database()
        {
            name.0.remove(0);
        }
    }

    /// Whether a CTE of this name could be mistaken for a relation of the engine's own.
    pub(super) fn is_reserved(&self, key: &str) -> bool {
        self.is_system_name(None, key)
            || (self.catalog.dialect() == Dialect::Mysql && key == "dual")
    }

    /// Whether a name means a relation of the engine's own, whatever the catalog holds.
    pub(super) fn is_system_name(&self, schema: Option<&str>, key: &str) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => key.starts_with("sqlite_") || key.starts_with("pragma_"),
            Dialect::Postgres => match schema {
                None => key.starts_with("pg_"),
                Some(schema) => schema.starts_with("pg_") || schema == "information_schema",
            },
            Dialect::Mysql => schema.is_some_and(|schema| {
                ["information_schema", "mysql", "performance_schema", "sys"]
                    .iter()
                    .any(|system| schema.eq_ignore_ascii_case(system))
            }),
        }
    }

    fn relation(
        &mut self,
        name: &mut ObjectName,
        relation: &'a Relation,
        alias: &mut Option<TableAlias>,
        shown: &str,
    ) -> Result<Source<'a>, Rejection> {
        let decision = self.visible.relation(relation.id)?;
        match decision.visibility {
            Visibility::Selectable => {}
            Visibility::Absent => return Err(self.unknown_relation(shown)),
            Visibility::Discoverable(code) => {
                let message = decision
                    .message
                    .clone()
                    .unwrap_or_else(|| format!("`{shown}` may not be read"));
                return Err(Rejection::new(code, message).with_policies(decision.policies.clone()));
            }
        }
        if let Mode::Rewritten { forms, writes: _ } = self.mode
            && forms.iter().any(|(id, _)| *id == relation.id)
        {
            return Err(Rejection::new(
                Code::Internal,
                "the rewritten statement is not as decided",
            )
            .with_operator_detail(format!("`{}` stands outside its source form", relation.uid)));
        }
        self.count_relation(1)?;
        self.access.relations.insert(relation.id);
        let body = match relation.kind {
            RelationKind::View | RelationKind::Materialized => Some(self.view(relation, shown)?),
            RelationKind::Table => None,
            RelationKind::Virtual | RelationKind::System => {
                return Err(self.unknown_relation(shown));
            }
        };
        self.gives_tokens |= decision.gives_tokens();
        let index = self.references.len();
        *name = ObjectName(vec![
            ObjectNamePart::Identifier(marked(self.encode(&relation.schema), index)),
            ObjectNamePart::Identifier(self.encode(&relation.name)),
        ]);
        self.references.push(Reference {
            relation: relation.id,
            decision: decision.clone(),
            body,
        });
        let columns = Columns::Relation {
            relation,
            decision,
            hidden_exist: matches!(self.mode, Mode::View { within: _ }),
            bare: false,
        };
        self.aliased(
            alias,
            Some(self.catalog.fold_relation(&relation.name)),
            Some(self.catalog.fold_relation(&relation.schema)),
            columns,
        )
    }

    /// In our own output: the relation whose source form `query` is.
    fn source_form(&mut self, query: &Query) -> Result<Option<Columns<'a>>, Rejection> {
        let Mode::Rewritten { forms, writes: _ } = self.mode else {
            return Ok(None);
        };
        let found = forms.iter().find(|(_, form)| match form {
            SourceForm::Tree(form) => *form == query,
            SourceForm::Named => false,
        });
        match found {
            Some((id, _)) => self.form_of(*id),
            None => Ok(None),
        }
    }

    /// In our own output: the relation for whose source form `name` stands.
    fn named_form(&mut self, name: &ObjectName) -> Result<Option<Columns<'a>>, Rejection> {
        let Mode::Rewritten { forms, writes: _ } = self.mode else {
            return Ok(None);
        };
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return Ok(None);
        };
        let dialect = self.catalog.dialect();
        let found = forms
            .iter()
            .enumerate()
            .find(|(index, (_, form))| match form {
                SourceForm::Tree(_) => false,
                SourceForm::Named => *ident == form_name(*index, dialect),
            });
        match found {
            Some((_, (id, _))) => self.form_of(*id),
            None => Ok(None),
        }
    }

    fn form_of(&mut self, id: RelationId) -> Result<Option<Columns<'a>>, Rejection> {
        let Some(relation) = self.catalog.relation(id) else {
            return Ok(None);
        };
        self.access.relations.insert(id);
        let decision = self.visible.relation(id)?;
        Ok(Some(Columns::Relation {
            relation,
            decision,
            hidden_exist: false,
            bare: false,
        }))
    }

    pub(super) fn unknown_relation(&self, shown: &str) -> Rejection {
        let names = self.visible.names();
        let message = match ident::closest(shown, names.iter().map(String::as_str)) {
            Some(name) => format!("there is no table or view `{shown}`; did you mean `{name}`?"),
            None => format!("there is no table or view `{shown}`"),
        };
        Rejection::new(Code::NameUnknownRelation, message)
    }
}

/// An alias that does not change a name's meaning.
pub(super) fn plain_alias(name: Ident) -> TableAlias {
    TableAlias {
        explicit: true,
        name,
        columns: Vec::new(),
        at: None,
    }
}

/// The refusal of a column name, with the nearest visible one.
pub(super) fn unknown_column(shown: &str, candidates: &[String]) -> Rejection {
    let message = match ident::closest(shown, candidates.iter().map(String::as_str)) {
        Some(name) => format!("there is no column `{shown}`; did you mean `{name}`?"),
        None => format!("there is no column `{shown}`"),
    };
    Rejection::new(Code::NameUnknownColumn, message)
}
