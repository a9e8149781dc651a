//! FROM: tables, subqueries and table functions, under their aliases.

pub(in crate::resolve) mod join;
pub(in crate::resolve) mod only;
pub(in crate::resolve) mod relation;
mod repeated_names;
pub(in crate::resolve) mod source_subquery;
pub(in crate::resolve) mod table_function;

use std::sync::Arc;

use repeated_names::{RepeatsTooOften, number_repeated_names};

use super::{
    Resolver,
    query::Ctes,
    refuse_unsupported,
    scope::{Columns, Output, Scope, Source},
};
use sqlparser::ast::{
    Ident, TableAlias, TableFactor, TableFunctionArgs, TableSample, TableSampleKind, TableWithJoins,
};

use crate::{
    access::Usage,
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
    syntax::{decode, output_name},
};

pub(super) use relation::mark_schema;
pub(crate) use relation::reference_index;
pub(crate) use source_subquery::{find_source_name, source_name};

impl<'a> Resolver<'a> {
    /// Reads the FROM list and gives the scope it makes.
    pub(super) fn resolve_from<'s>(
        &mut self,
        from: &mut [TableWithJoins],
        parent: Option<&'s Scope<'a, 's>>,
        ctes: Ctes<'_>,
    ) -> Result<Scope<'a, 's>, Rejection> {
        let mut scope = Scope::new(self.catalog.dialect(), parent);
        for table in from {
            self.table_with_joins(table, &mut scope, ctes)?;
        }
        Ok(scope)
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
                    return Err(refuse_unsupported("a table hint"));
                }
                // They choose a plan and nothing else.
                index_hints.clear();
                if version.is_some() {
                    return Err(refuse_unsupported("a table version"));
                }
                if json_path.is_some() {
                    return Err(refuse_unsupported("a path after a table"));
                }
                self.work.arms = 1;
                let source = match args {
                    Some(_) if self.is_only(name) && !*with_ordinality => {
                        self.only(name, args, alias, ctes)?
                    }
                    Some(TableFunctionArgs { args, settings }) => {
                        if settings.is_some() {
                            return Err(refuse_unsupported("SETTINGS"));
                        }
                        self.table_function(name, args, *with_ordinality, alias, scope, ctes)?
                    }
                    None if *with_ordinality => return Err(refuse_unsupported("WITH ORDINALITY")),
                    None => match (
                        self.find_named_source(name)?,
                        self.take_expected(name, alias.as_ref()),
                    ) {
                        (Some(columns), _) => self.alias_source(alias, None, None, columns)?,
                        (None, Some(expected_target)) => {
                            self.target_factor(name, alias, &expected_target)?
                        }
                        (None, None) => self.table(name, alias, ctes)?,
                    },
                };
                if let Some(sample) = sample {
                    self.sample(sample, &source, scope, ctes)?;
                }
                if !partitions.is_empty() {
                    if source.columns.has_obligation() {
                        return Err(refuse_unsupported("PARTITION of a table with obligations"));
                    }
                    for partition in partitions {
                        self.normalise(partition);
                    }
                }
                self.count_readings(scope);
                self.spend_on(source.columns.len())?;
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
                    return Err(refuse_unsupported("TABLESAMPLE of a subquery"));
                }
                if *lateral && self.catalog.dialect() == Dialect::Sqlite {
                    return Err(refuse_unsupported("LATERAL"));
                }
                let columns = match self.find_source_subquery(subquery)? {
                    Some(columns) => columns,
                    // Other tables of the same FROM are in scope after LATERAL only.
                    None if *lateral => {
                        self.work.arms = 1;
                        self.is_derived = true;
                        Columns::Derived(self.query(subquery, Some(&*scope), ctes, true)?)
                    }
                    None => {
                        self.work.arms = 1;
                        self.is_derived = true;
                        Columns::Derived(self.query(subquery, scope.parent, ctes, true)?)
                    }
                };
                self.count_readings(scope);
                let source = self.alias_source(alias, None, None, columns)?;
                scope.sources.push(source);
                Ok(())
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                if alias.is_some() {
                    if self.catalog.dialect() != Dialect::Postgres {
                        return Err(refuse_unsupported("an alias on a join in parentheses"));
                    }
                    // Inside, the tables around it are out of sight and the other way round.
                    let mut inner = Scope::new(self.catalog.dialect(), scope.parent);
                    self.table_with_joins(table_with_joins, &mut inner, ctes)?;
                    self.work.arms = inner.readings;
                    self.count_readings(scope);
                    let mut outputs = inner.star().unwrap_or_default();
                    for output in &mut outputs {
                        output.lineage.repeats = true;
                    }
                    let columns = Columns::Derived(outputs);
                    let source = self.alias_source(alias, None, None, columns)?;
                    scope.sources.push(source);
                    return Ok(());
                }
                self.engine_names.has_whole_rows = true;
                // The first one is as if it had no parentheses.
                scope.nested |= !scope.sources.is_empty();
                self.table_with_joins(table_with_joins, scope, ctes)
            }
            TableFactor::TableFunction { expr: _, alias: _ } => Err(refuse_unsupported("TABLE(…)")),
            TableFactor::Function {
                lateral: _,
                name,
                args,
                with_ordinality,
                alias,
            } => {
                if self.catalog.dialect() != Dialect::Postgres {
                    return Err(refuse_unsupported("LATERAL with a function"));
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
            } => Err(refuse_unsupported("UNNEST of this form")),
            TableFactor::JsonTable {
                json_expr,
                json_path,
                columns,
                alias,
            } => {
                if self.catalog.dialect() == Dialect::Sqlite {
                    return Err(refuse_unsupported("JSON_TABLE"));
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
            } => Err(refuse_unsupported("OPENJSON")),
            TableFactor::Pivot {
                table: _,
                aggregate_functions: _,
                value_column: _,
                value_source: _,
                default_on_null: _,
                alias: _,
            } => Err(refuse_unsupported("PIVOT")),
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
            } => Err(refuse_unsupported("UNPIVOT")),
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
            } => Err(refuse_unsupported("MATCH_RECOGNIZE")),
            TableFactor::XmlTable {
                namespaces,
                row_expression,
                passing,
                columns,
                alias,
            } => {
                if self.catalog.dialect() != Dialect::Postgres {
                    return Err(refuse_unsupported("XMLTABLE"));
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
            } => Err(refuse_unsupported("SEMANTIC_VIEW")),
        }
    }

    /// Notes an alias by which SQLite may say that it reads: that of a derived table that it has made one with the query around
    /// it, which what a relation is called is none of.
    fn alias_engine_tells(&mut self, key: &str) {
        let is_told = match self.catalog.dialect() {
            Dialect::Sqlite => {
                self.catalog.lookup(key).is_none()
                    && !key.starts_with("sqlite_")
                    && !key.starts_with("pragma_")
            }
            Dialect::Postgres | Dialect::Mysql => false,
        };
        if is_told && !self.mode.is_output() {
            self.engine_names.aliases.insert(key.to_owned());
        }
    }

    /// A source under its alias, with the columns named as the alias's list says.
    pub(super) fn alias_source(
        &mut self,
        alias: &mut Option<TableAlias>,
        name: Option<Arc<str>>,
        schema: Option<Arc<str>>,
        mut columns: Columns<'a>,
    ) -> Result<Source<'a>, Rejection> {
        if let Columns::Derived(outputs) = &mut columns
            && self.catalog.dialect() == Dialect::Sqlite
        {
            let is_truth = |output: &Output| output_name::is_truth(&output.key);
            if outputs.iter().any(is_truth) {
                return Err(refuse_unsupported(
                    "a column called TRUE or FALSE of a subquery",
                ));
            }
            let columns = outputs.iter_mut();
            number_repeated_names(columns.map(|output| (&mut output.name, &mut output.key)))
                .map_err(|RepeatsTooOften| {
                    refuse_unsupported(
                        "a subquery of more than four columns of one name (give them aliases)",
                    )
                })?;
        }
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
            return Err(refuse_unsupported("AT in an alias"));
        }
        self.refuse_text_as_name(ident)?;
        self.normalise_table(ident);
        let key = self.table_key(ident).into_owned();
        self.alias_engine_tells(&key);
        let qualifier = Some(key.into());
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
            Dialect::Sqlite => return Err(refuse_unsupported("a column list on a table alias")),
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
                return Err(refuse_unsupported("a type in a column alias list"));
            }
            output.key = self.key(&column.name).into();
            output.name = self.spelling(&column.name).into();
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
            return Err(refuse_unsupported("TABLESAMPLE of this table"));
        }
        // A share beyond what there is fails when rows are asked for.
        self.failures.planned = true;
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
            return Err(refuse_unsupported("TABLESAMPLE of this form"));
        }
        if let Some(quantity) = quantity {
            self.expr(&mut quantity.value, scope, ctes, Usage::Filter)?;
        }
        if let Some(seed) = seed {
            self.value(&mut seed.value.value, seed.value.span.start)?;
        }
        Ok(())
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
