//! FROM: tables, subqueries, table functions and joins.

use sqlparser::{
    ast::{
        FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
        ObjectNamePart, Query, TableAlias, TableFactor, TableFunctionArgs, TableWithJoins,
    },
    tokenizer::{Location, Span},
};

use super::{
    Mode, Reference, Resolver,
    query::Ctes,
    scope::{Columns, Output, Scope, Source},
    unsupported,
};
use crate::{
    access::Usage,
    catalog::{Relation, RelationKind, functions::registry},
    code::Code,
    ident,
    lineage::Lineage,
    policy::obligation::Visibility,
    rejection::Rejection,
    syntax::decode,
};

/// A line no text has: the span of an identifier that marks a physical reference.
const MARK: u64 = u64::MAX;

/// `ident`, marked as the reference with this index.
fn marked(mut ident: Ident, index: usize) -> Ident {
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

impl<'a> Resolver<'a> {
    /// Reads the FROM list and gives the scope it makes.
    pub(super) fn from<'s>(
        &mut self,
        from: &mut [TableWithJoins],
        parent: Option<&'s Scope<'a, 's>>,
        ctes: Ctes<'_>,
    ) -> Result<Scope<'a, 's>, Rejection> {
        let mut scope = Scope::inside(parent);
        for table in from {
            self.table_with_joins(table, &mut scope, ctes)?;
        }
        Ok(scope)
    }

    fn table_with_joins(
        &mut self,
        table: &mut TableWithJoins,
        scope: &mut Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        let TableWithJoins { relation, joins } = table;
        // USING and NATURAL reach every table to the left, commas included.
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
                | JoinOperator::Right(constraint)
                | JoinOperator::RightOuter(constraint)
                | JoinOperator::FullOuter(constraint)
                | JoinOperator::CrossJoin(constraint) => {
                    self.constraint(constraint, scope, right, ctes)?;
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
        right: usize,
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
                    self.merge(scope, right, &key)?;
                }
                Ok(())
            }
            JoinConstraint::Natural => {
                let (left, new) = scope.sources.split_at(right.min(scope.sources.len()));
                let left: Vec<_> = left.iter().flat_map(|s| s.columns.list()).collect();
                let shared: Vec<String> = new
                    .iter()
                    .flat_map(|s| s.columns.list())
                    .map(|o| o.key)
                    .filter(|key| left.iter().any(|o| o.key == *key))
                    .collect();
                for key in shared {
                    self.merge(scope, right, &key)?;
                }
                Ok(())
            }
        }
    }

    /// Merges the column `key` of the tables from `right` on into the one to their left.
    fn merge(
        &mut self,
        scope: &mut Scope<'a, '_>,
        right: usize,
        key: &str,
    ) -> Result<(), Rejection> {
        let (mut on_left, mut on_right) = (false, false);
        let mut used = Vec::new();
        let mut merged = Vec::new();
        for (index, source) in scope.sources.iter().enumerate() {
            if let Some((lineage, _)) = source.columns.find(key) {
                used.extend(lineage.columns);
                if index < right {
                    on_left = true;
                } else {
                    on_right = true;
                    merged.push((index, key.to_owned()));
                }
            }
        }
        if !(on_left && on_right) {
            return Err(unknown_column(key, &[]));
        }
        scope
            .links
            .tie(scope.positions(None, key).into_iter().collect());
        scope.merged.extend(merged);
        for column in used {
            if !self.is_plain_base(column) {
                self.needs_fence = true;
            }
            self.touch(column, Usage::Join);
        }
        Ok(())
    }

    fn table_factor(
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
                if !with_hints.is_empty() || !index_hints.is_empty() {
                    return Err(unsupported("an index or table hint"));
                }
                if version.is_some() {
                    return Err(unsupported("a table version"));
                }
                if *with_ordinality {
                    return Err(unsupported("WITH ORDINALITY"));
                }
                if !partitions.is_empty() {
                    return Err(unsupported("PARTITION"));
                }
                if json_path.is_some() {
                    return Err(unsupported("a path after a table"));
                }
                if sample.is_some() {
                    return Err(unsupported("TABLESAMPLE"));
                }
                let source = match args {
                    Some(args) => self.table_function(name, args, alias, scope, ctes)?,
                    None => self.table(name, alias, ctes)?,
                };
                scope.sources.push(source);
                Ok(())
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample,
            } => {
                if *lateral {
                    return Err(unsupported("LATERAL"));
                }
                if sample.is_some() {
                    return Err(unsupported("TABLESAMPLE"));
                }
                let qualifier = self.alias(alias)?;
                let columns = match self.source_form(subquery)? {
                    Some(columns) => columns,
                    // Other tables of the same FROM are not in scope in a subquery.
                    None => Columns::Derived(self.query(subquery, scope.parent, ctes, true)?),
                };
                scope.sources.push(Source { qualifier, columns });
                Ok(())
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                if alias.is_some() {
                    return Err(unsupported("an alias on a join in parentheses"));
                }
                self.whole_rows = true;
                // The first one is as if it had no parentheses.
                scope.nested |= !scope.sources.is_empty();
                self.table_with_joins(table_with_joins, scope, ctes)
            }
            TableFactor::TableFunction { expr: _, alias: _ } => Err(unsupported("TABLE(…)")),
            TableFactor::Function {
                lateral: _,
                name: _,
                args: _,
                with_ordinality: _,
                alias: _,
            } => Err(unsupported("LATERAL with a function")),
            TableFactor::UNNEST {
                alias: _,
                array_exprs: _,
                with_offset: _,
                with_offset_alias: _,
                with_ordinality: _,
            } => Err(unsupported("UNNEST")),
            TableFactor::JsonTable {
                json_expr: _,
                json_path: _,
                columns: _,
                alias: _,
            } => Err(unsupported("JSON_TABLE")),
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
                namespaces: _,
                row_expression: _,
                passing: _,
                columns: _,
                alias: _,
            } => Err(unsupported("XMLTABLE")),
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

    /// An alias's key; its spelling is made plain.
    fn alias(&self, alias: &mut Option<TableAlias>) -> Result<Option<String>, Rejection> {
        let Some(TableAlias {
            explicit: _,
            name,
            columns,
            at,
        }) = alias
        else {
            return Ok(None);
        };
        if !columns.is_empty() {
            return Err(unsupported("a column list on a table alias"));
        }
        if at.is_some() {
            return Err(unsupported("AT in an alias"));
        }
        self.normalise(name);
        Ok(Some(self.key(name)))
    }

    /// A name in FROM: a CTE in scope, else a relation of the visible catalog.
    fn table(
        &mut self,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        let alias_key = self.alias(alias)?;
        let (schema, last) = match name.0.as_mut_slice() {
            [ObjectNamePart::Identifier(last)] => (None, last),
            [
                ObjectNamePart::Identifier(schema),
                ObjectNamePart::Identifier(last),
            ] => (Some(self.key(schema)), last),
            _ => return Err(unsupported("a relation name of this form")),
        };
        let shown = decode(last).into_owned();
        let key = self.fold(&shown);
        if schema.is_none()
            && let Some(cte) = ctes.find(&key)
        {
            let Some(columns) = cte.columns.clone() else {
                return Err(Rejection::new(
                    Code::SyntaxInvalid,
                    format!("the common table expression `{key}` reads itself without UNION"),
                ));
            };
            if decode(&cte.name) != shown && alias.is_none() {
                *alias = Some(plain_alias(self.encode(&shown)));
            }
            *last = cte.name.clone();
            return Ok(Source {
                qualifier: Some(alias_key.unwrap_or(key)),
                columns: Columns::Derived(columns),
            });
        }
        let schema = schema.unwrap_or_else(|| self.catalog.default_schema().to_owned());
        let found = self.catalog.find(&schema, &key);
        if key.starts_with("sqlite_")
            || key.starts_with("pragma_")
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
        self.relation(name, relation, alias_key, &shown)
    }

    fn relation(
        &mut self,
        name: &mut ObjectName,
        relation: &'a Relation,
        alias_key: Option<String>,
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
        if let Mode::Rewritten { forms } = self.mode
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
        Ok(Source {
            qualifier: Some(alias_key.unwrap_or_else(|| self.fold(&relation.name))),
            columns: Columns::Relation {
                relation,
                decision,
                hidden_exist: matches!(self.mode, Mode::View { within: _ }),
            },
        })
    }

    /// In our own output: the relation whose source form `query` is.
    fn source_form(&mut self, query: &Query) -> Result<Option<Columns<'a>>, Rejection> {
        let Mode::Rewritten { forms } = self.mode else {
            return Ok(None);
        };
        let Some((id, _)) = forms.iter().find(|(_, form)| **form == *query) else {
            return Ok(None);
        };
        let Some(relation) = self.catalog.relation(*id) else {
            return Ok(None);
        };
        self.access.relations.insert(*id);
        let decision = self.visible.relation(*id)?;
        Ok(Some(Columns::Relation {
            relation,
            decision,
            hidden_exist: false,
        }))
    }

    fn table_function(
        &mut self,
        name: &mut ObjectName,
        args: &mut TableFunctionArgs,
        alias: &mut Option<TableAlias>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        let alias_key = self.alias(alias)?;
        let TableFunctionArgs { args, settings } = args;
        if settings.is_some() {
            return Err(unsupported("SETTINGS"));
        }
        let [ObjectNamePart::Identifier(ident)] = name.0.as_mut_slice() else {
            return Err(unsupported("a qualified table function"));
        };
        let key = self.key(ident);
        if key.starts_with("pragma_") || key.starts_with("sqlite_") {
            return Err(Rejection::new(
                Code::NameSystemRelation,
                format!("`{key}` is a system relation"),
            ));
        }
        let Some(def) = registry(self.catalog.dialect())
            .get(&key)
            .filter(|def| def.kinds.table)
        else {
            return Err(Rejection::new(
                Code::FunctionUnknown,
                format!("there is no table function `{key}`"),
            ));
        };
        super::expr::check_arity(def, args.len())?;
        self.access.functions.insert(def.uid.clone());
        *ident = Ident::new(&def.name);
        let mut columns = Vec::new();
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    columns.extend(self.expr(expr, scope, ctes, Usage::Output)?);
                }
                FunctionArg::Unnamed(
                    FunctionArgExpr::QualifiedWildcard(_)
                    | FunctionArgExpr::Wildcard
                    | FunctionArgExpr::WildcardWithOptions(_),
                ) => return Err(unsupported("* as an argument")),
                FunctionArg::Named {
                    name: _,
                    arg: _,
                    operator: _,
                }
                | FunctionArg::ExprNamed {
                    name: _,
                    arg: _,
                    operator: _,
                } => {
                    return Err(unsupported("a named argument"));
                }
            }
        }
        let lineage = Lineage::computed(columns);
        // Its rows come from its argument, which may be a column of a filtered table.
        self.needs_fence = true;
        Ok(Source {
            qualifier: Some(alias_key.unwrap_or(key)),
            columns: Columns::Derived(
                def.columns
                    .iter()
                    .flatten()
                    .map(|name| Output {
                        name: name.clone(),
                        key: name.clone(),
                        lineage: lineage.clone(),
                    })
                    .collect(),
            ),
        })
    }

    fn unknown_relation(&self, shown: &str) -> Rejection {
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
