//! One SELECT: FROM, projection, WHERE, GROUP BY, HAVING, windows, ORDER BY.

use std::{collections::BTreeSet, sync::Arc};

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, GroupByWithModifier, Ident, NamedWindowDefinition,
    NamedWindowExpr, OrderBy, Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind,
    WildcardAdditionalOptions,
};

use crate::resolve::{
    Resolver,
    names::unknown_qualifier,
    query::{Ctes, group_by_key::Used, terms::TermNames},
    refuse_unsupported, refuse_with_replacement,
    scope::{Found, Output, Scope},
};
use crate::{
    access::Usage,
    catalog::ClassSet,
    code::Code,
    dialect::Dialect,
    lineage::Lineage,
    rejection::Rejection,
    syntax::{check_alias, output_name},
};

/// Where the items of a SELECT list stand.
#[derive(Clone, Copy)]
pub(in crate::resolve) struct ItemsPlace {
    /// Whether somebody can see the columns' names.
    pub(in crate::resolve) named: bool,
    /// Whether they are of a derived table whose rows are rows of its sources.
    pub(in crate::resolve) passes: bool,
    /// Where the SELECT begins.
    pub(in crate::resolve) keyword: sqlparser::tokenizer::Location,
}

impl<'a> Resolver<'a> {
    pub(in crate::resolve) fn select(
        &mut self,
        select: &mut Select,
        parent: Option<&Scope<'a, '_>>,
        ctes: Ctes<'_>,
        named: bool,
        order_by: Option<&mut OrderBy>,
    ) -> Result<Vec<Output>, Rejection> {
        let Select {
            select_token,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        // Hints are comments; they do not survive.
        optimizer_hints.clear();
        let dialect = self.catalog.dialect();
        if dialect == Dialect::Mysql {
            // HIGH_PRIORITY, STRAIGHT_JOIN and their like choose a plan and nothing else.
            *select_modifiers = None;
        }
        let above = "the window in a subquery, and WHERE around that";
        for (present, what, instead) in [
            (select_modifiers.is_some(), "a SELECT modifier", None),
            (top.is_some(), "TOP", Some("LIMIT behind the query")),
            (exclude.is_some(), "EXCLUDE", Some("the columns")),
            (!lateral_views.is_empty(), "LATERAL VIEW", None),
            (prewhere.is_some(), "PREWHERE", Some("WHERE")),
            (!connect_by.is_empty(), "CONNECT BY", Some("WITH RECURSIVE")),
            (!cluster_by.is_empty(), "CLUSTER BY", None),
            (!distribute_by.is_empty(), "DISTRIBUTE BY", None),
            (!sort_by.is_empty(), "SORT BY", Some("ORDER BY")),
            (qualify.is_some(), "QUALIFY", Some(above)),
            (value_table_mode.is_some(), "SELECT AS", None),
            (
                *flavor != SelectFlavor::Standard,
                "FROM before SELECT",
                None,
            ),
        ] {
            if present {
                return Err(match instead {
                    Some(instead) => refuse_with_replacement(what, instead),
                    None => refuse_unsupported(what),
                });
            }
        }
        if into.is_some() {
            return Err(Rejection::new(
                Code::StatementNotAllowed,
                "SELECT … INTO writes and is not permitted",
            ));
        }
        if let Some(Distinct::On(_)) = distinct
            && dialect != Dialect::Postgres
        {
            let instead = "row_number() OVER (PARTITION BY …) in a subquery, and take 1 of it";
            return Err(refuse_with_replacement("DISTINCT ON", instead));
        }

        let is_grouped = distinct.is_some()
            || having.is_some()
            || !matches!(group_by, GroupByExpr::Expressions(terms, _) if terms.is_empty());
        // What it gives of a row is that row's.
        let passes = std::mem::take(&mut self.is_derived) && !is_grouped;
        self.failures.begin_select();
        if from.is_empty() {
            self.failures.sources += usize::from(!self.failures.is_outermost());
        }
        let windows_around = std::mem::take(&mut self.work.window_terms);
        let window_names_around = std::mem::take(&mut self.window_names);
        let mut scope = self.resolve_from(from, parent, ctes)?;
        scope.repeats = self.may_give_rows(projection)
            || self.may_give_rows(distinct)
            || self.may_give_rows(selection)
            || self.may_give_rows(group_by)
            || self.may_give_rows(having)
            || self.may_give_rows(named_window)
            || order_by
                .as_deref()
                .is_some_and(|terms| self.may_give_rows(terms));
        let before = self.work.steps;
        for NamedWindowDefinition(name, window) in named_window.iter_mut() {
            self.normalise(name);
            match window {
                NamedWindowExpr::NamedWindow(base) => self.normalise(base),
                NamedWindowExpr::WindowSpec(spec) => {
                    self.within_call(true, |resolver| resolver.window(spec, &scope, ctes))?;
                }
            }
        }
        let keyword = select_token.0.span.start;
        let listed = self.listed.len();
        let place = ItemsPlace {
            named,
            passes,
            keyword,
        };
        let mut outputs = self.projection(projection, &scope, ctes, place)?;
        let repeats = scope.repeats || scope.sources.len() > 1;
        for output in &mut outputs {
            output.lineage.repeats |= repeats;
        }
        if let Some(Distinct::On(terms)) = distinct {
            self.bound_terms(terms.len(), "DISTINCT ON has")?;
            for term in terms {
                let names = TermNames::OutputsFirst(&outputs);
                self.term(term, names, &scope, ctes, Usage::Group)?;
            }
        } else if distinct.is_some() {
            self.note_grouped(&outputs);
            (0..outputs.len()).for_each(|position| self.use_output(position));
            for output in &outputs {
                for column in &output.lineage.columns {
                    self.touch(*column, Usage::Group);
                }
            }
        }
        if dialect == Dialect::Sqlite {
            scope.aliases = &outputs;
        }
        if let Some(expr) = selection {
            self.resolve_condition(expr, &scope, ctes, Usage::Filter)?;
            self.tie(expr, &mut scope);
            self.note_narrowing(expr, from, &scope);
        }
        self.bound_product(&scope)?;
        if dialect == Dialect::Mysql {
            scope.aliases = &outputs;
        }
        match group_by {
            GroupByExpr::All(_) => return Err(refuse_unsupported("GROUP BY ALL")),
            GroupByExpr::Expressions(exprs, modifiers) => {
                for modifier in modifiers {
                    match modifier {
                        GroupByWithModifier::Rollup if dialect == Dialect::Mysql => {}
                        GroupByWithModifier::Rollup
                        | GroupByWithModifier::Cube
                        | GroupByWithModifier::Totals
                        | GroupByWithModifier::GroupingSets(_) => {
                            return Err(refuse_unsupported("WITH ROLLUP, CUBE or TOTALS"));
                        }
                    }
                }
                self.bound_terms(exprs.len(), "GROUP BY has")?;
                for expr in exprs {
                    let names = TermNames::ColumnsFirst(&outputs);
                    self.term(expr, names, &scope, ctes, Usage::Group)?;
                }
            }
        }
        if let Some(expr) = having {
            self.resolve_having(expr, &scope, ctes)?;
        }
        self.listed.truncate(listed);
        let mut order_by = order_by;
        if let Some(order_by) = order_by.as_deref_mut() {
            scope.aliases = &outputs;
            self.order_by(order_by, &scope, ctes)?;
        }
        self.use_window_names(&outputs);
        self.window_names = window_names_around;
        if let GroupByExpr::Expressions(terms, _) = group_by {
            let keyed = self.grouped_by_key(terms, &outputs, &scope);
            if !keyed.is_empty() {
                let mut used = Used::new(self)
                    .and_items(projection)
                    .and(distinct)
                    .and(having)
                    .and(named_window);
                if let Some(order_by) = order_by {
                    used = used.and(order_by);
                }
                let determined = self.find_determined(&keyed, &used, &scope);
                terms.extend(determined);
            }
        }
        self.note_single_row(keyword, projection, group_by, &scope);
        let readings = scope.readings;
        drop(scope);
        self.spend_again(before, readings)?;
        if is_grouped || self.work.window_terms > 0 {
            // No engine puts such a query into the one around it.
            for output in &mut outputs {
                output.lineage.size = 0;
            }
            self.work.arms = 1;
        } else {
            self.work.arms = readings;
        }
        self.work.window_terms = windows_around;
        Ok(outputs)
    }

    pub(in crate::resolve) fn projection(
        &mut self,
        items: &mut [SelectItem],
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
        place: ItemsPlace,
    ) -> Result<Vec<Output>, Rejection> {
        let ItemsPlace {
            named,
            passes,
            keyword,
        } = place;
        let unnamed = named
            && items
                .iter()
                .any(|item| matches!(item, SelectItem::UnnamedExpr(expr) if !is_column(expr)));
        let texts = if unnamed {
            self.outline.item_texts(keyword, items.len(), self.text)
        } else {
            None
        };
        let dialect = self.catalog.dialect();
        // A star takes at least one of the tables, and at most what all of them have.
        let is_star = |item: &SelectItem| match item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _) => true,
            SelectItem::UnnamedExpr(_)
            | SelectItem::ExprWithAlias { expr: _, alias: _ }
            | SelectItem::ExprWithAliases {
                expr: _,
                aliases: _,
            } => false,
        };
        let most = if items.iter().any(is_star) {
            scope.sources.iter().map(|s| s.columns.len()).sum()
        } else {
            0
        };
        let mut outputs = Vec::with_capacity(items.len() + most);
        for (index, item) in items.iter_mut().enumerate() {
            if outputs.len() > self.limits.max_columns {
                return Err(self.too_many_columns());
            }
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let signed = dialect == Dialect::Mysql && output_name::without_plus(expr);
                    let column = is_column(expr);
                    let string =
                        matches!(expr, Expr::Identifier(ident) if ident.quote_style == Some('"'));
                    let own = match dialect {
                        Dialect::Sqlite => None,
                        Dialect::Postgres => Some(output_name::postgres(expr)),
                        Dialect::Mysql => output_name::mysql_literal(expr)
                            .or_else(|| (signed && !column).then(|| expr.to_string())),
                    };
                    let printed = (own.is_none() && (string || (!column && texts.is_none())))
                        .then(|| expr.to_string());
                    let position = outputs.len();
                    let (lineage, name) =
                        self.read_item(expr, scope, passes, |resolver, expr| {
                            resolver
                                .watch_output(position, |resolver| resolver.item(expr, scope, ctes))
                        })?;
                    let name: Arc<str> = match (name, own) {
                        (Some(name), _) => name,
                        (None, Some(own)) => own.into(),
                        // `"x"` that is no column is a string to SQLite, and named after its text.
                        (None, None) => texts
                            .as_ref()
                            .and_then(|t| t.get(index).cloned())
                            .or(printed)
                            .unwrap_or_else(|| expr.to_string())
                            .into(),
                    };
                    let name = match dialect {
                        Dialect::Mysql => output_name::mysql_shortened(name),
                        Dialect::Sqlite | Dialect::Postgres => name,
                    };
                    let written = match dialect {
                        Dialect::Mysql => self.spelled_otherwise(expr, &name, scope),
                        Dialect::Sqlite | Dialect::Postgres => None,
                    };
                    let is_own = column && is_column(expr) && written.is_none();
                    let is_named = named || written.is_some();
                    let name = written.unwrap_or(name);
                    if is_named && !is_own && !name.is_empty() {
                        let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
                        *item = SelectItem::ExprWithAlias {
                            expr,
                            alias: self.encode(&name),
                        };
                    }
                    outputs.push(Output {
                        key: self.fold_shared(&name),
                        name,
                        lineage,
                    });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    self.refuse_text_as_name(alias)?;
                    self.require_short_alias(alias)?;
                    if dialect == Dialect::Mysql {
                        check_alias(&alias.value)?;
                    }
                    let key: Arc<str> = self.key(alias).into();
                    let name = self.spelling(alias).into();
                    self.normalise(alias);
                    let position = outputs.len();
                    let (lineage, _) = self.read_item(expr, scope, passes, |resolver, expr| {
                        resolver.watch_output(position, |resolver| resolver.item(expr, scope, ctes))
                    })?;
                    self.listed.push(Arc::clone(&key));
                    outputs.push(Output { key, name, lineage });
                }
                SelectItem::ExprWithAliases {
                    expr: _,
                    aliases: _,
                } => {
                    return Err(refuse_unsupported("several aliases for one expression"));
                }
                SelectItem::Wildcard(options) => {
                    plain_star(options)?;
                    let Some(columns) = scope.star() else {
                        return Err(Rejection::new(Code::SyntaxInvalid, "`*` without FROM"));
                    };
                    if scope.nested {
                        self.lists_in_order(scope, &columns)?;
                    }
                    self.spend_on_star(&columns)?;
                    self.read_star(passes, |resolver| resolver.gives(&columns, named));
                    self.note_star(options, &columns);
                    outputs.extend(columns);
                }
                SelectItem::QualifiedWildcard(kind, options) => {
                    plain_star(options)?;
                    let qualifier = match kind {
                        SelectItemQualifiedWildcardKind::ObjectName(name) => {
                            self.star_qualifier(name, scope)?
                        }
                        SelectItemQualifiedWildcardKind::Expr(expr) => {
                            let name = self.row_star(expr)?;
                            let qualifier = self.table_key(&name).into_owned();
                            *kind = SelectItemQualifiedWildcardKind::ObjectName(name.into());
                            qualifier
                        }
                    };
                    let before = outputs.len();
                    if !scope.star_of(&qualifier, &mut outputs) {
                        return Err(if scope.has_column(None, &qualifier) {
                            refuse_unsupported("`.*` after a column")
                        } else {
                            unknown_qualifier(&qualifier, scope)
                        });
                    }
                    let columns = outputs.get(before..).unwrap_or_default();
                    self.spend_on_star(columns)?;
                    self.read_star(passes, |resolver| resolver.gives(columns, named));
                    self.note_star(options, columns);
                }
            }
        }
        if outputs.len() > self.limits.max_columns {
            return Err(self.too_many_columns());
        }
        Ok(outputs)
    }

    pub(in crate::resolve) fn too_many_columns(&self) -> Rejection {
        Rejection::new(
            Code::LimitCost,
            format!(
                "a SELECT gives more than {} columns",
                self.limits.max_columns
            ),
        )
    }

    /// Refuses the star over a join in parentheses whose columns are not known.
    fn lists_in_order(&self, scope: &Scope<'a, '_>, columns: &[Output]) -> Result<(), Rejection> {
        // SQLite invents names for what such a join gives twice. MySQL lists what a RIGHT JOIN merges in the
        // order of its right side, and that of a join in parentheses is not its tables'.
        let is_unordered = scope
            .merged
            .iter()
            .any(|merged| merged.right_first && merged.over.end > merged.middle + 1);
        let mut keys = BTreeSet::new();
        let is_renamed = self.catalog.dialect() == Dialect::Sqlite
            && !columns.iter().all(|c| keys.insert(&c.key));
        if is_unordered || is_renamed {
            return Err(refuse_unsupported("`*` over a join in parentheses"));
        }
        Ok(())
    }

    /// That a star has these among its outputs. Where they are `named`, it is for others to use them.
    fn gives(&mut self, outputs: &[Output], named: bool) {
        for output in outputs {
            for column in &output.lineage.columns {
                if named {
                    self.take_along(*column);
                } else {
                    self.touch(*column, Usage::Output);
                }
            }
        }
    }

    /// That the star of `options` gives these.
    fn note_star(&mut self, options: &WildcardAdditionalOptions, outputs: &[Output]) {
        let span = options.wildcard_token.0.span;
        for output in outputs {
            for column in &output.lineage.columns {
                self.note_column(span, *column, Usage::Output);
            }
        }
    }

    /// That these are given, whoever uses them.
    pub(in crate::resolve) fn give(&mut self, outputs: &[Output]) {
        for output in outputs {
            for column in &output.lineage.columns {
                self.access.columns.give(*column);
            }
        }
    }

    /// `(t).*` of a table in FROM is `t.*`.
    fn row_star(&self, expr: &Expr) -> Result<Ident, Rejection> {
        match expr {
            Expr::Nested(inner) => self.row_star(inner),
            Expr::Identifier(ident) if self.catalog.dialect() == Dialect::Postgres => {
                let mut ident = ident.clone();
                self.normalise_table(&mut ident);
                Ok(ident)
            }
            _ => Err(refuse_unsupported("`.*` after an expression")),
        }
    }

    /// A projection item: its lineage, and its column's name if it is one.
    fn item(
        &mut self,
        expr: &mut Expr,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(Lineage, Option<Arc<str>>), Rejection> {
        let before = self.work.steps;
        let columns = self.expr(expr, scope, ctes, Usage::Output)?;
        refuse_spread_row(expr)?;
        let size = self.work.steps.saturating_sub(before);
        if let Some((lineage, name)) = self.column_of(expr, scope) {
            return Ok((lineage, Some(name)));
        }
        // Nothing is computed of what the outermost query gives.
        let classes = match self.failures.is_outermost() {
            true => ClassSet::default(),
            false => self.classes_of(expr, scope),
        };
        let lineage = self.computed_lineage(columns, expr, scope);
        Ok((lineage.with_size(size).with_classes(classes), None))
    }

    /// How a column is spelled, if not as it is `called`. MySQL and MariaDB name a table's column as it is spelled, and one of a
    /// view or subquery so or as it is called there, by how they run it; with an alias they have no choice.
    fn spelled_otherwise(
        &self,
        expr: &Expr,
        called: &str,
        scope: &Scope<'a, '_>,
    ) -> Option<Arc<str>> {
        let (qualifier, name) = match expr {
            Expr::Nested(inner) => return self.spelled_otherwise(inner, called, scope),
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => (Some(self.table_key(qualifier)), name),
                _ => return None,
            },
            _ => return None,
        };
        let spelled = self.spelling(name);
        if spelled == called {
            return None;
        }
        match scope.find(qualifier.as_deref(), &self.key(name)) {
            Found::Column(..) => Some(spelled.into()),
            Found::Alias(_)
            | Found::WholeRow(_)
            | Found::RowIdAlias {
                origin: _,
                qualifier: _,
                name: _,
            }
            | Found::RowId
            | Found::Ambiguous
            | Found::Nothing => None,
        }
    }
}

/// Refuses `t.*` where the engine would make several values of it.
pub(in crate::resolve) fn refuse_spread_row(expr: &Expr) -> Result<(), Rejection> {
    let mut inner = expr;
    while let Expr::Nested(nested) = inner {
        inner = nested;
    }
    if let Expr::QualifiedWildcard(row, _) = inner {
        return Err(Rejection::new(
            Code::SyntaxUnsupported,
            format!(
                "the row `{row}` is no single value here; name its columns, or write `to_jsonb({row}.*)`"
            ),
        ));
    }
    Ok(())
}

/// Whether an item is a bare column reference, which the engine names after the column.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Nested(inner) => is_column(inner),
        _ => false,
    }
}

fn plain_star(options: &WildcardAdditionalOptions) -> Result<(), Rejection> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    if opt_ilike.is_some()
        || opt_exclude.is_some()
        || opt_except.is_some()
        || opt_replace.is_some()
        || opt_rename.is_some()
        || opt_alias.is_some()
    {
        return Err(refuse_unsupported("an option after `*`"));
    }
    Ok(())
}
