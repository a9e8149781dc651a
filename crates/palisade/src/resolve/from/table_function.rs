//! Functions that stand in FROM, and what the grammar puts there like them.

use std::sync::Arc;

use sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, JsonTableColumn, JsonTableColumnErrorHandling, ObjectName,
    ObjectNamePart, TableAlias, TypedString, Value, ValueWithSpan, XmlTableColumn,
    XmlTableColumnOption,
};

use crate::resolve::{
    Resolver,
    expr::{ExprContext, field::Fields, operand_class::OperandClass, total_call::is_series},
    from::plain_alias,
    query::Ctes,
    refuse_unsupported,
    scope::{Columns, Output, Scope, Source},
};
use crate::{
    access::Usage,
    catalog::{ColumnId, functions::FunctionDef},
    code::Code,
    dialect::Dialect,
    lineage::Lineage,
    rejection::Rejection,
    syntax,
};

impl<'a> Resolver<'a> {
    /// `f(…)` in FROM: of SQLite those that are tables, of PostgreSQL any.
    pub(in crate::resolve) fn table_function(
        &mut self,
        name: &mut ObjectName,
        args: &mut [FunctionArg],
        with_ordinality: bool,
        alias: &mut Option<TableAlias>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        let dialect = self.catalog.dialect();
        if let (Dialect::Sqlite, [ObjectNamePart::Identifier(ident)]) = (dialect, name.0.as_slice())
        {
            let key = self.key(ident);
            if key.starts_with("pragma_") || key.starts_with("sqlite_") {
                return Err(Rejection::new(
                    Code::NameSystemRelation,
                    format!("`{key}` is a system relation"),
                ));
            }
        }
        if dialect == Dialect::Postgres && is_rows_from(name) {
            return self.rows_from(name, args, with_ordinality, alias, scope, ctes);
        }
        let called = self.resolve_function(name, Some(&vec![OperandClass::Unknown; args.len()]))?;
        let stands = match dialect {
            Dialect::Sqlite => called.candidates.iter().all(|def| def.kinds.table),
            Dialect::Postgres => true,
            Dialect::Mysql => false,
        };
        if !stands {
            return Err(unknown_function(name));
        }
        let called_name = called.candidates.first().map(|def| def.name.clone());
        let names = columns(&called.candidates);
        let names = match (names, args.first()) {
            (None, Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first)))) => {
                let fields = match row_argument(first) {
                    Some(data_type) => self.fields_of_cast(data_type)?,
                    None => None,
                };
                fields.and_then(Fields::into_names)
            }
            (names, _) => names,
        };
        let mut from = Vec::new();
        let mut list = FunctionArgumentList {
            duplicate_treatment: None,
            args: args.to_vec(),
            clauses: Vec::new(),
        };
        let place = ExprContext {
            scope,
            ctes,
            usage: Usage::Output,
        };
        self.arguments(&mut list, &called, &place, &mut from)?;
        for (arg, resolved) in args.iter_mut().zip(list.args) {
            *arg = resolved;
        }
        // Its rows come from its arguments, which may be columns of a filtered table.
        self.needs_fence |= dialect == Dialect::Sqlite || !from.is_empty();
        self.failures.planned |= !called_name
            .as_deref()
            .is_some_and(|name| is_series(name, args));
        self.function_source(called_name, names, from, with_ordinality, alias)
    }

    /// `ROWS FROM (f(…), g(…))`: the columns of one function after those of the other.
    fn rows_from(
        &mut self,
        name: &ObjectName,
        args: &mut [FunctionArg],
        with_ordinality: bool,
        alias: &mut Option<TableAlias>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        // The alias of one function is its column's name too.
        let mut only = match args.len() {
            1 => alias.as_ref().map(|alias| plain_alias(alias.name.clone())),
            _ => None,
        };
        let mut qualifier = None;
        let mut outputs = Vec::new();
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(Function {
                name: called,
                uses_odbc_syntax: false,
                parameters: FunctionArguments::None,
                args:
                    FunctionArguments::List(FunctionArgumentList {
                        duplicate_treatment: None,
                        args,
                        clauses,
                    }),
                within_group,
                filter: None,
                null_treatment: None,
                over: None,
            }))) = arg
            else {
                return Err(refuse_unsupported("anything but plain calls in ROWS FROM"));
            };
            if !clauses.is_empty() || !within_group.is_empty() || is_rows_from(called) {
                return Err(refuse_unsupported("anything but plain calls in ROWS FROM"));
            }
            let source = if is_unnest(called) && args.len() > 1 {
                self.unnest_call(args, scope, ctes)?
            } else {
                self.table_function(called, args, false, &mut only, scope, ctes)?
            };
            qualifier = qualifier.or(source.qualifier);
            outputs.extend(source.columns.list());
        }
        if outputs.is_empty() {
            return Err(unknown_function(name));
        }
        outputs.extend(with_ordinality.then(ordinality));
        self.alias_source(alias, qualifier, None, Columns::Derived(outputs))
    }

    /// `unnest(a, b)` in ROWS FROM, which no function but the grammar is: without a schema.
    fn unnest_call(
        &mut self,
        args: &mut [FunctionArg],
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        let mut arrays = Vec::with_capacity(args.len());
        for arg in args.iter() {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(array)) = arg else {
                return Err(refuse_unsupported("UNNEST of this form"));
            };
            arrays.push(array.clone());
        }
        let source = self.unnest(&mut arrays, false, &mut None, scope, ctes)?;
        for (arg, array) in args.iter_mut().zip(arrays) {
            *arg = FunctionArg::Unnamed(FunctionArgExpr::Expr(array));
        }
        Ok(source)
    }

    /// `UNNEST(a, b)`: a column for each array.
    pub(in crate::resolve) fn unnest(
        &mut self,
        arrays: &mut [Expr],
        with_ordinality: bool,
        alias: &mut Option<TableAlias>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        let mut name = ObjectName::from(vec![Ident::new("unnest")]);
        self.resolve_function(&mut name, Some(&vec![OperandClass::Unknown; arrays.len()]))?;
        let mut from = Vec::new();
        let mut names = Vec::new();
        let mut is_spread = false;
        for array in arrays.iter_mut() {
            let columns = self.expr(array, scope, ctes, Usage::Output)?;
            // Rows in an array become a column for each of their fields.
            match self.known_fields(array, scope)? {
                Some(Fields::Rows(fields)) => {
                    is_spread = true;
                    names.extend(fields.into_iter().map(|field| field.name));
                }
                Some(Fields::Untyped(_) | Fields::Row(_)) | None => names.push("unnest".to_owned()),
            }
            from.extend(columns);
        }
        self.needs_fence |= !from.is_empty();
        self.failures.planned = true;
        // One column has the name of the alias.
        let names = (is_spread || names.len() > 1).then_some(names);
        self.function_source(
            Some("unnest".to_owned()),
            names,
            from,
            with_ordinality,
            alias,
        )
    }

    /// The columns of a function under its alias. A function that gives one value has one column,
    /// called as the alias, else as the function.
    fn function_source(
        &mut self,
        called: Option<String>,
        names: Option<Vec<String>>,
        from: Vec<ColumnId>,
        with_ordinality: bool,
        alias: &mut Option<TableAlias>,
    ) -> Result<Source<'a>, Rejection> {
        self.failures.sources += 1;
        let typed = alias
            .as_ref()
            .is_some_and(|alias| alias.columns.iter().any(|c| c.data_type.is_some()));
        let names = match (names, &*alias) {
            (_, Some(alias)) if typed => alias
                .columns
                .iter()
                .map(|c| self.key(&c.name).into_owned())
                .collect(),
            (Some(names), _) => names,
            (None, Some(alias)) => vec![self.table_key(&alias.name).into_owned()],
            (None, None) => called.iter().cloned().collect(),
        };
        let lineage = Lineage::from_columns(from);
        let ordinality = with_ordinality.then(ordinality);
        let outputs = names
            .into_iter()
            .map(Arc::<str>::from)
            .map(|name| Output {
                key: Arc::clone(&name),
                name,
                lineage: lineage.clone(),
            })
            .chain(ordinality)
            .collect();
        if !typed {
            return self.alias_source(
                alias,
                called.map(Arc::from),
                None,
                Columns::Derived(outputs),
            );
        }
        let Some(TableAlias {
            explicit: _,
            name,
            columns,
            at: None,
        }) = alias
        else {
            return Err(refuse_unsupported("AT in an alias"));
        };
        for column in columns.iter_mut() {
            let Some(data_type) = &mut column.data_type else {
                return Err(refuse_unsupported("a column of a function without a type"));
            };
            self.cast_type(data_type)?;
            self.normalise(&mut column.name);
        }
        self.normalise_table(name);
        Ok(Source {
            qualifier: Some(self.table_key(name).into()),
            schema: None,
            columns: Columns::Derived(outputs),
        })
    }

    /// `JSON_TABLE(document, path COLUMNS (…))`.
    pub(in crate::resolve) fn json_table(
        &mut self,
        document: &mut Expr,
        path: &mut ValueWithSpan,
        columns: &mut [JsonTableColumn],
        alias: &mut Option<TableAlias>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        let mut name = ObjectName::from(vec![Ident::new("json_table")]);
        self.resolve_function(&mut name, None)?;
        self.failures.sources += 1;
        let from = self.expr(document, scope, ctes, Usage::Output)?;
        self.needs_fence |= !from.is_empty();
        self.failures.planned = true;
        self.literal_only(path)?;
        let lineage = Lineage::from_columns(from);
        let mut outputs = Vec::new();
        self.json_columns(columns, &lineage, &mut outputs)?;
        self.alias_source(alias, None, None, Columns::Derived(outputs))
    }

    fn json_columns(
        &mut self,
        columns: &mut [JsonTableColumn],
        lineage: &Lineage,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Rejection> {
        for column in columns {
            let name = match column {
                JsonTableColumn::Named(named) => {
                    self.cast_type(&mut named.r#type)?;
                    self.literal_only(&mut named.path)?;
                    for handling in [&mut named.on_empty, &mut named.on_error]
                        .into_iter()
                        .flatten()
                    {
                        match handling {
                            JsonTableColumnErrorHandling::Default(value) => {
                                self.literal_only(value)?;
                            }
                            JsonTableColumnErrorHandling::Null
                            | JsonTableColumnErrorHandling::Error => {}
                        }
                    }
                    &mut named.name
                }
                JsonTableColumn::ForOrdinality(name) => name,
                JsonTableColumn::Nested(nested) => {
                    self.literal_only(&mut nested.path)?;
                    self.json_columns(&mut nested.columns, lineage, outputs)?;
                    continue;
                }
            };
            outputs.push(Output {
                key: self.key(name).into(),
                name: self.spelling(name).into(),
                lineage: lineage.clone(),
            });
            self.normalise(name);
        }
        Ok(())
    }

    fn literal_only(&mut self, value: &mut ValueWithSpan) -> Result<(), Rejection> {
        if matches!(value.value, Value::Placeholder(_)) {
            return Err(refuse_unsupported("a parameter as a path"));
        }
        self.value(&mut value.value, value.span.start)
    }

    /// The columns of `XMLTABLE(…)`, whose document was made from `from`.
    pub(in crate::resolve) fn xml_table(
        &mut self,
        columns: &mut [XmlTableColumn],
        mut from: Vec<ColumnId>,
        alias: &mut Option<TableAlias>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        self.failures.sources += 1;
        for column in columns.iter_mut() {
            match &mut column.option {
                XmlTableColumnOption::NamedInfo {
                    r#type,
                    path,
                    default,
                    nullable: _,
                } => {
                    self.cast_type(r#type)?;
                    for expr in [path, default].into_iter().flatten() {
                        from.extend(self.expr(expr, scope, ctes, Usage::Output)?);
                    }
                }
                XmlTableColumnOption::ForOrdinality => {}
            }
        }
        self.needs_fence |= !from.is_empty();
        self.failures.planned = true;
        let lineage = Lineage::from_columns(from);
        let mut outputs = Vec::with_capacity(columns.len());
        for column in columns {
            outputs.push(Output {
                key: self.key(&column.name).into(),
                name: self.spelling(&column.name).into(),
                lineage: lineage.clone(),
            });
            self.normalise(&mut column.name);
        }
        self.alias_source(
            alias,
            Some("xmltable".into()),
            None,
            Columns::Derived(outputs),
        )
    }
}

/// Whether a call in FROM is `ROWS FROM` around calls.
fn is_rows_from(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(ident)]
        if ident.quote_style.is_none() && ident.value == syntax::ROWS_FROM)
}

fn is_unnest(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(ident)]
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("unnest"))
}

fn unknown_function(name: &ObjectName) -> Rejection {
    Rejection::new(
        Code::FunctionUnknown,
        format!("there is no table function `{name}`"),
    )
}

/// The column that WITH ORDINALITY adds.
fn ordinality() -> Output {
    Output {
        name: "ordinality".into(),
        key: "ordinality".into(),
        lineage: Lineage::default(),
    }
}

/// The type of `NULL::row_type`, after which `json_populate_record` and its like are shaped.
fn row_argument(argument: &Expr) -> Option<&DataType> {
    match argument {
        Expr::Nested(inner) => row_argument(inner),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: _,
            data_type,
            format: _,
        }
        | Expr::TypedString(TypedString {
            data_type,
            value: _,
            uses_odbc_syntax: _,
        }) => Some(data_type),
        _ => None,
    }
}

/// The columns that all candidates agree on giving.
fn columns(candidates: &[&FunctionDef]) -> Option<Vec<String>> {
    let mut lists = candidates.iter().flat_map(|def| &def.columns);
    let first = lists.next()?;
    lists.all(|list| list == first).then(|| first.clone())
}
