//! Queries: WITH, set operations, VALUES, ORDER BY and LIMIT.

pub(in crate::resolve) mod cartesian;
pub(in crate::resolve) mod cte;
pub(in crate::resolve) mod group_by_key;
pub(in crate::resolve) mod narrowing;
pub(in crate::resolve) mod recursive_cte;
pub(in crate::resolve) mod select;
pub(in crate::resolve) mod terms;
pub(in crate::resolve) mod view;

use std::{ops::ControlFlow, sync::Arc};

use sqlparser::ast::{
    Expr, Fetch, LimitClause, Offset, OrderBy, OrderByKind, Parens, Query, SetExpr, SetOperator,
    SetQuantifier, Value, ValueWithSpan, Values, With,
};

use crate::resolve::{
    Mode, Resolver,
    change_permission::Changes,
    query::{cte::uneven, terms::TermNames},
    refuse_unsupported,
    scope::{Origin, Output, Scope},
    state::Position,
    token::OtherValues,
};
use crate::{
    access::Usage,
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
    syntax::{TreeVisitorMut, output_name, visit_tree_mut},
    value::Placeholder,
};

pub(in crate::resolve) use cte::Ctes;

/// What is read once the common table expressions are known.
type Then<'t, 'a> = dyn FnMut(&mut Resolver<'a>, Ctes<'_>) -> Result<Vec<Output>, Rejection> + 't;

impl<'a> Resolver<'a> {
    /// The outermost query.
    pub(in crate::resolve) fn top(&mut self, query: &mut Query) -> Result<Vec<Output>, Rejection> {
        self.changes.position = match self.mode {
            Mode::Statement
            | Mode::Rewritten {
                sources: _,
                writes: _,
            } => Position::Outermost,
            Mode::View { within: _ } => Position::Inside,
        };
        let outputs = self.query(query, None, Ctes::NONE, true)?;
        self.give(&outputs);
        Ok(outputs)
    }

    /// A query in any position. `named`: whether somebody can see its columns' names.
    pub(in crate::resolve) fn query(
        &mut self,
        query: &mut Query,
        parent: Option<&Scope<'a, '_>>,
        ctes: Ctes<'_>,
        named: bool,
    ) -> Result<Vec<Output>, Rejection> {
        // The target of a change stands in the FROM of the change itself.
        let expected_target = self.changes.expected_target.take();
        let outside = self.failures.enter_query();
        self.shape.nesting = self.shape.nesting.max(self.work.queries_around);
        self.work.queries_around += 1;
        let outputs = self.whole_query(query, parent, ctes, named)?;
        self.work.queries_around -= 1;
        self.failures.leave_query(outside);
        self.changes.expected_target = expected_target;
        Ok(outputs)
    }

    fn whole_query(
        &mut self,
        query: &mut Query,
        parent: Option<&Scope<'a, '_>>,
        ctes: Ctes<'_>,
        named: bool,
    ) -> Result<Vec<Output>, Rejection> {
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        let position = std::mem::take(&mut self.changes.position);
        let is_derived = std::mem::take(&mut self.is_derived);
        // A view's own query stands inside of whatever reads it.
        let is_inside = match self.mode {
            Mode::View { within: _ } => true,
            Mode::Statement
            | Mode::Rewritten {
                sources: _,
                writes: _,
            } => position != Position::Outermost,
        };
        self.failures.has_limit_inside |= is_inside && (limit_clause.is_some() || fetch.is_some());
        if let Some(Fetch {
            with_ties: _,
            percent,
            quantity,
        }) = fetch
        {
            if *percent || self.catalog.dialect() == Dialect::Sqlite {
                return Err(refuse_unsupported("FETCH"));
            }
            if let Some(quantity) = quantity {
                self.note_bounds([&*quantity], position == Position::Outermost);
                let scope = Scope::new(self.catalog.dialect(), parent);
                self.expr(quantity, &scope, ctes, Usage::Filter)?;
            }
        }
        if !locks.is_empty() {
            return Err(Rejection::new(
                Code::StatementNotAllowed,
                "row locks (FOR UPDATE, FOR SHARE) are not permitted",
            ));
        }
        if for_clause.is_some() {
            return Err(refuse_unsupported("FOR XML or FOR JSON"));
        }
        if settings.is_some() {
            return Err(refuse_unsupported("SETTINGS"));
        }
        if format_clause.is_some() {
            return Err(refuse_unsupported("FORMAT"));
        }
        if !pipe_operators.is_empty() {
            return Err(refuse_unsupported("a pipe operator"));
        }
        match with {
            None => {
                self.changes.position = position;
                self.is_derived = is_derived;
                self.body(body, order_by, limit_clause, parent, ctes, named)
            }
            Some(With {
                with_token: _,
                recursive: _,
                cte_tables,
            }) if cte_tables.len() > self.limits.max_relations => Err(Rejection::new(
                Code::LimitRelations,
                format!(
                    "WITH defines {} common table expressions; the limit is {}",
                    cte_tables.len(),
                    self.limits.max_relations
                ),
            )),
            Some(With {
                with_token: _,
                recursive,
                cte_tables,
            }) => self.common_tables(
                cte_tables,
                *recursive,
                position,
                parent,
                ctes,
                &mut |resolver, ctes| {
                    resolver.changes.position = position;
                    resolver.is_derived = is_derived;
                    resolver.body(body, order_by, limit_clause, parent, ctes, named)
                },
            ),
        }
    }

    fn body(
        &mut self,
        body: &mut SetExpr,
        order_by: &mut Option<OrderBy>,
        limit: &mut Option<LimitClause>,
        parent: Option<&Scope<'a, '_>>,
        ctes: Ctes<'_>,
        named: bool,
    ) -> Result<Vec<Output>, Rejection> {
        let position = std::mem::take(&mut self.changes.position);
        let is_derived = std::mem::take(&mut self.is_derived);
        if position != Position::Inside
            && order_by.is_none()
            && limit.is_none()
            && let Some(outputs) = self.write(body, ctes)?
        {
            return Ok(outputs);
        }
        if let Some(limit) = limit {
            self.note_bounds(bounds(limit), position == Position::Outermost);
            self.limit(limit, parent, ctes)?;
        }
        if let SetExpr::Select(select) = body {
            if position == Position::Outermost {
                self.failures.await_outermost();
            }
            self.is_derived = is_derived;
            return self.select(select, parent, ctes, named, order_by.as_mut());
        }
        let outputs = self.set_expr(body, parent, ctes, named)?;
        if let Some(order_by) = order_by {
            // Only outputs can be named after a set operation.
            let mut scope = Scope::new(self.catalog.dialect(), None);
            scope.aliases = &outputs;
            self.order_by(order_by, &scope, ctes)?;
        }
        Ok(outputs)
    }

    fn set_expr(
        &mut self,
        body: &mut SetExpr,
        parent: Option<&Scope<'a, '_>>,
        ctes: Ctes<'_>,
        named: bool,
    ) -> Result<Vec<Output>, Rejection> {
        match body {
            SetExpr::Select(select) => self.select(select, parent, ctes, named, None),
            SetExpr::SetOperation {
                left,
                op,
                set_quantifier,
                right,
            } => {
                match op {
                    SetOperator::Union | SetOperator::Except | SetOperator::Intersect => {}
                    SetOperator::Minus => return Err(refuse_unsupported("MINUS")),
                }
                match set_quantifier {
                    SetQuantifier::All | SetQuantifier::None | SetQuantifier::Distinct => {}
                    SetQuantifier::ByName
                    | SetQuantifier::AllByName
                    | SetQuantifier::DistinctByName => return Err(refuse_unsupported("BY NAME")),
                }
                let left = self.set_expr(left, parent, ctes, named)?;
                let arms = self.work.arms;
                self.give(&left);
                let right = self.set_expr(right, parent, ctes, false)?;
                match set_quantifier {
                    SetQuantifier::All => {}
                    SetQuantifier::None
                    | SetQuantifier::Distinct
                    | SetQuantifier::ByName
                    | SetQuantifier::AllByName
                    | SetQuantifier::DistinctByName => {
                        self.note_grouped(left.iter().chain(&right));
                    }
                }
                self.work.arms = self.work.arms.saturating_add(arms);
                if left.len() != right.len() {
                    return Err(Rejection::new(
                        Code::SyntaxInvalid,
                        "the arms of a set operation have different numbers of columns",
                    ));
                }
                for (l, r) in left.iter().zip(&right) {
                    self.implicit_casts(&[&l.lineage.columns, &r.lineage.columns]);
                    self.note_unified(&l.lineage, &r.lineage);
                    let origins = [&l.lineage, &r.lineage].map(Origin::Derived);
                    match op {
                        // What is left of both was compared.
                        SetOperator::Except | SetOperator::Intersect | SetOperator::Minus => {
                            self.check_merged_tokens(&origins, OtherValues::Refused)?;
                        }
                        SetOperator::Union => {
                            self.check_merged_tokens(&origins, OtherValues::Constants)?
                        }
                    }
                }
                Ok(left
                    .into_iter()
                    .zip(&right)
                    .map(|(l, r)| Output {
                        lineage: l.lineage.either(&r.lineage),
                        ..l
                    })
                    .collect())
            }
            SetExpr::Values(Values {
                explicit_row,
                value_keyword,
                rows,
            }) => {
                if *value_keyword || (*explicit_row && self.catalog.dialect() != Dialect::Mysql) {
                    return Err(refuse_unsupported("VALUE or ROW in VALUES"));
                }
                self.values(rows, *explicit_row, parent, ctes)
            }
            SetExpr::Query(query) if self.catalog.dialect() != Dialect::Sqlite => {
                self.query(query, parent, ctes, named)
            }
            SetExpr::Query(_) => Err(refuse_unsupported(
                "a query in parentheses as a statement or arm",
            )),
            SetExpr::Insert(_) => Err(self.not_here("INSERT")),
            SetExpr::Update(_) => Err(self.not_here("UPDATE")),
            SetExpr::Delete(_) => Err(self.not_here("DELETE")),
            SetExpr::Merge(_) => Err(self.not_here("MERGE")),
            SetExpr::Table(_) => Err(refuse_unsupported("TABLE")),
        }
    }

    /// The refusal of a change where only a query can stand.
    fn not_here(&self, verb: &str) -> Rejection {
        match self.visible.changes() {
            Changes::Permitted => refuse_unsupported(&format!("{verb} inside of a query")),
            Changes::NotHere => not_reading(verb),
            Changes::Unpermitted => self.refuse_changes(verb),
        }
    }

    /// The refusal of a change where no policy permits any. The operator is told what to begin with.
    pub(in crate::resolve) fn refuse_changes(&self, verb: &str) -> Rejection {
        let action = if verb == "INSERT" {
            "insert"
        } else if verb == "DELETE" {
            "delete"
        } else {
            "update"
        };
        let message = format!("no policy permits {verb}, or any other change, of anything");
        Rejection::new(Code::StatementNotAllowed, message).with_operator_detail(format!(
            "no policy permits a change to {}. Begin with a policy of a table, and \
             what else is needed is told then: \
             `permit (principal, action == Action::\"{action}\", resource == Table::\"SCHEMA.TABLE\");`",
            self.visible.shown_principal(),
        ))
    }

    fn values(
        &mut self,
        rows: &mut [Parens<Vec<Expr>>],
        explicit_row: bool,
        parent: Option<&Scope<'a, '_>>,
        ctes: Ctes<'_>,
    ) -> Result<Vec<Output>, Rejection> {
        self.failures.sources += 1;
        self.work.arms = 1;
        let scope = Scope::new(self.catalog.dialect(), parent);
        let mut outputs: Vec<Output> = Vec::new();
        for (number, row) in rows.iter_mut().enumerate() {
            let Parens {
                opening_token: _,
                content,
                closing_token: _,
            } = row;
            if content.len() > self.limits.max_columns {
                return Err(self.too_many_columns());
            }
            for (index, expr) in content.iter_mut().enumerate() {
                let columns = self.expr(expr, &scope, ctes, Usage::Output)?;
                let classes = self.classes_of(expr, &scope);
                let lineage = self
                    .computed_lineage(columns, expr, &scope)
                    .with_classes(classes);
                match outputs.get_mut(index) {
                    Some(output) => {
                        self.implicit_casts(&[&output.lineage.columns, &lineage.columns]);
                        self.note_unified(&output.lineage, &lineage);
                        output.lineage = std::mem::take(&mut output.lineage).either(&lineage);
                    }
                    None if number == 0 => {
                        let name = match self.catalog.dialect() {
                            Dialect::Sqlite | Dialect::Postgres => {
                                format!("column{}", index + 1)
                            }
                            Dialect::Mysql if explicit_row => format!("column_{index}"),
                            // Of MariaDB alone, which names columns after the texts of the first row.
                            Dialect::Mysql => output_name::mariadb_value(expr).ok_or_else(|| {
                                refuse_unsupported(
                                    "VALUES whose first row has anything but strings, numbers and NULL",
                                )
                            })?,
                        };
                        let name: Arc<str> = name.into();
                        outputs.push(Output {
                            key: Arc::clone(&name),
                            name,
                            lineage,
                        });
                    }
                    None => return Err(uneven()),
                }
            }
            if content.len() != outputs.len() {
                return Err(uneven());
            }
        }
        Ok(outputs)
    }

    pub(in crate::resolve) fn order_by(
        &mut self,
        order_by: &mut OrderBy,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        let OrderBy { kind, interpolate } = order_by;
        if interpolate.is_some() {
            return Err(refuse_unsupported("INTERPOLATE"));
        }
        match kind {
            OrderByKind::All(_) => Err(refuse_unsupported("ORDER BY ALL")),
            OrderByKind::Expressions(terms) => {
                let names = TermNames::OutputsFirst(scope.aliases);
                self.order_terms(terms, names, scope, ctes)?;
                Ok(())
            }
        }
    }

    fn limit(
        &mut self,
        limit: &mut LimitClause,
        parent: Option<&Scope<'a, '_>>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        let scope = Scope::new(self.catalog.dialect(), parent);
        match limit {
            LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            } => {
                if !limit_by.is_empty() {
                    return Err(refuse_unsupported("LIMIT … BY"));
                }
                if let Some(limit) = limit {
                    self.expr(limit, &scope, ctes, Usage::Filter)?;
                }
                if let Some(Offset { value, rows: _ }) = offset {
                    self.note_offset(value);
                    self.expr(value, &scope, ctes, Usage::Filter)?;
                }
            }
            LimitClause::OffsetCommaLimit { offset, limit } => {
                self.note_offset(offset);
                self.expr(offset, &scope, ctes, Usage::Filter)?;
                self.expr(limit, &scope, ctes, Usage::Filter)?;
            }
        }
        Ok(())
    }

    fn note_offset(&mut self, value: &Expr) {
        let number = match value {
            Expr::Value(ValueWithSpan {
                value: Value::Number(text, _),
                span: _,
            }) => text.parse().ok(),
            _ => None,
        };
        self.shape.offset = self.shape.offset.max(number.unwrap_or(u64::MAX));
    }

    /// Gives named placeholders numbers, in the order of their names, so that what is bound does not
    /// depend on how an engine spells names.
    pub(in crate::resolve) fn number_names(&mut self, query: &mut Query) -> Result<(), Rejection> {
        let names: Vec<_> = self
            .placeholders
            .keys()
            .filter(|p| matches!(p, Placeholder::Name(_)))
            .cloned()
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        if names.len() != self.placeholders.len() {
            return Err(Rejection::new(
                Code::ParameterMismatch,
                "the statement mixes numbered and named parameters",
            ));
        }
        for (number, name) in (1u32..).zip(names) {
            self.placeholders.insert(name, number);
        }
        let mut visitor = Numbering {
            dialect: self.catalog.dialect(),
            numbers: &self.placeholders,
        };
        let _ = visit_tree_mut(query, &mut visitor);
        let copied = self.references.iter_mut();
        for term in copied.filter_map(|reference| reference.narrowed_by.as_mut()) {
            let _ = visit_tree_mut(term, &mut visitor);
        }
        Ok(())
    }
}

struct Numbering<'p> {
    dialect: Dialect,
    numbers: &'p std::collections::BTreeMap<Placeholder, u32>,
}

impl TreeVisitorMut for Numbering<'_> {
    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let Value::Placeholder(text) = &mut value.value
            && let Some(name) = crate::syntax::placeholder_name(text)
            && let Some(number) = self.numbers.get(&name)
        {
            *text = self.dialect.placeholder(*number);
        }
        ControlFlow::Continue(())
    }
}

/// What a LIMIT says of how many rows are given, and from which on.
fn bounds(limit: &LimitClause) -> Vec<&Expr> {
    match limit {
        LimitClause::LimitOffset {
            limit,
            offset,
            limit_by: _,
        } => {
            let offset = offset.as_ref().map(|Offset { value, rows: _ }| value);
            limit.iter().chain(offset).collect()
        }
        LimitClause::OffsetCommaLimit { offset, limit } => vec![offset, limit],
    }
}

pub(in crate::resolve) fn not_reading(verb: &str) -> Rejection {
    Rejection::new(
        Code::StatementNotAllowed,
        format!("{verb} statements are not permitted"),
    )
}
