//! Terms of ORDER BY, GROUP BY, DISTINCT ON, windows and aggregates: which column, or which output, an engine takes them for.
//!
//! What counts is what the engine takes for a name or a position: parentheses always are, and so is more on some.
//! (`findTargetlistEntrySQL92` in PostgreSQL's source, `resolveOrderGroupBy` in SQLite's, `find_order_in_list` in MariaDB's.)

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, ObjectNamePart, OrderByExpr, OrderByOptions, OrderBySort, Query,
    UnaryOperator, Value,
};

use crate::resolve::{
    Resolver,
    query::Ctes,
    refuse_unsupported, refuse_with_replacement,
    scope::{Output, Scope},
};
use crate::{
    access::Usage,
    catalog::ColumnId,
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
    syntax::{Role, TreeVisitor, key, read_plain_arguments, read_plain_call, role, visit_tree},
};

/// SQLite's functions that give their first argument, and tell its planner something.
const HINTS: [&str; 3] = ["likelihood", "likely", "unlikely"];

/// What a whole term can mean beside an expression.
#[derive(Clone, Copy)]
pub(in crate::resolve) enum TermNames<'o> {
    /// The name or position of an output, before any column: in ORDER BY and DISTINCT ON.
    OutputsFirst(&'o [Output]),
    /// A column of the query's own sources, else the name or position of an output: in GROUP BY.
    ColumnsFirst(&'o [Output]),
    /// Nothing: in windows and aggregates.
    Expressions,
}

impl<'a> Resolver<'a> {
    /// Terms of an ORDER BY, and the columns they are made from.
    pub(in crate::resolve) fn order_terms(
        &mut self,
        terms: &mut [OrderByExpr],
        names: TermNames<'_>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Vec<ColumnId>, Rejection> {
        self.bound_terms(terms.len(), "ORDER BY has")?;
        let mut columns = Vec::new();
        for term in terms {
            let OrderByExpr {
                expr,
                options,
                with_fill,
            } = term;
            if with_fill.is_some() {
                return Err(refuse_unsupported("WITH FILL"));
            }
            let OrderByOptions { sort, nulls_first } = options;
            if nulls_first.is_some() && self.catalog.dialect() == Dialect::Mysql {
                let instead = "ORDER BY x IS NULL, x for NULLS LAST, ORDER BY x IS NOT NULL, x for NULLS FIRST";
                return Err(refuse_with_replacement("NULLS FIRST or LAST", instead));
            }
            match sort {
                Some(OrderBySort::Using(operator)) => self.ordering_operator(operator)?,
                Some(OrderBySort::Asc | OrderBySort::Desc) | None => {}
            }
            columns.extend(self.term(expr, names, scope, ctes, Usage::Order)?);
        }
        Ok(columns)
    }

    /// One term, and the columns that it is made from.
    pub(in crate::resolve) fn term(
        &mut self,
        expr: &mut Expr,
        names: TermNames<'_>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
        usage: Usage,
    ) -> Result<Vec<ColumnId>, Rejection> {
        let dialect = self.catalog.dialect();
        let (outputs, columns_first) = match names {
            TermNames::OutputsFirst(outputs) => (outputs, false),
            TermNames::ColumnsFirst(outputs) => (outputs, true),
            TermNames::Expressions => return self.expression_term(expr, scope, ctes, usage),
        };
        unwrap_term(expr, dialect);
        if columns_first
            && dialect == Dialect::Postgres
            && let Some(terms) = grouped_together(expr)
        {
            let mut columns = Vec::new();
            for term in terms {
                columns.extend(self.term(term, names, scope, ctes, usage)?);
            }
            return Ok(columns);
        }
        let mut named = &*expr;
        if dialect == Dialect::Sqlite {
            while let Some(inner) = looked_through(named) {
                named = inner;
            }
        }
        let output = match named {
            Expr::Identifier(ident) => {
                let key = self.key(ident);
                let output = outputs.iter().position(|output| *output.key == *key);
                output.filter(|_| !(columns_first && scope.names_column(&key)))
            }
            other => match position(other) {
                None if !is_no_position(other, dialect) => return Err(refuse_number(other)),
                found => found,
            },
        };
        let Some((position, output)) = output.and_then(|n| Some((n, outputs.get(n)?))) else {
            return self.expression_term(expr, scope, ctes, usage);
        };
        let mut columns = output.lineage.columns.to_vec();
        self.use_output(position);
        self.note_compared(&columns);
        self.spend(output.lineage.size.saturating_add(1))?;
        for column in &columns {
            self.touch(*column, usage);
        }
        match expr {
            Expr::Identifier(ident) => self.normalise(ident),
            Expr::Value(_) => {}
            // What SQLite looks through may name a collation or call a function.
            around => columns.extend(self.expression_term(around, scope, ctes, usage)?),
        }
        Ok(columns)
    }

    fn expression_term(
        &mut self,
        expr: &mut Expr,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
        usage: Usage,
    ) -> Result<Vec<ColumnId>, Rejection> {
        let columns = self.watch_term(|resolver| resolver.expr(expr, scope, ctes, usage))?;
        self.note_compared(&columns);
        Ok(columns)
    }

    /// Notes a term of a window that is a name. MariaDB and MySQL take it for an output of the SELECT, if there is one of this
    /// name, and that is known once all outputs are.
    pub(in crate::resolve) fn note_window_name(&mut self, expr: &Expr, usage: Usage) {
        let mut inner = expr;
        while let Expr::Nested(below)
        | Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: below,
        } = inner
        {
            inner = below;
        }
        if let (Dialect::Mysql, Expr::Identifier(ident)) = (self.catalog.dialect(), inner) {
            let key = self.key(ident).into_owned();
            self.window_names.push((key, usage));
        }
    }

    /// Counts what windows of a SELECT look at by the names of its outputs.
    pub(in crate::resolve) fn use_window_names(&mut self, outputs: &[Output]) {
        for (key, usage) in std::mem::take(&mut self.window_names) {
            for output in outputs.iter().filter(|output| *output.key == *key) {
                self.note_compared(&output.lineage.columns);
                for column in &output.lineage.columns {
                    self.touch(*column, usage);
                }
            }
        }
    }
}

/// The terms of ROLLUP, CUBE, GROUPING SETS or a list in parentheses, each of which is one of GROUP BY.
fn grouped_together(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    match expr {
        Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
            Some(sets.iter_mut().flatten().collect())
        }
        Expr::Tuple(terms) => Some(terms.iter_mut().collect()),
        _ => None,
    }
}

/// Takes off what no engine sees around a term: parentheses, and on MariaDB and MySQL a plus sign.
fn unwrap_term(expr: &mut Expr, dialect: Dialect) {
    while let Some(inner) = unseen_around(expr, dialect) {
        *expr = std::mem::replace(inner, Expr::Value(Value::Null.into()));
    }
}

fn unseen_around(expr: &mut Expr, dialect: Dialect) -> Option<&mut Expr> {
    match expr {
        Expr::Nested(inner) => Some(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: inner,
        } if dialect == Dialect::Mysql => Some(inner),
        _ => None,
    }
}

/// What SQLite looks through to compare a term with the outputs (`sqlite3ExprSkipCollateAndLikely` in its source).
fn looked_through(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Nested(inner)
        | Expr::Collate {
            expr: inner,
            collation: _,
        } => Some(inner),
        Expr::Function(call) => {
            let (ObjectName(name), args) = read_plain_call(call)?;
            let [ObjectNamePart::Identifier(name)] = name.as_slice() else {
                return None;
            };
            let is_hint = HINTS.contains(&&*key(name, Dialect::Sqlite));
            read_plain_arguments(args)?
                .first()
                .copied()
                .filter(|_| is_hint)
        }
        _ => None,
    }
}

/// Whether no engine takes `expr` for the position of an output: it names something, calls or computes, or is a text or NULL.
fn is_no_position(expr: &Expr, dialect: Dialect) -> bool {
    struct Computed;
    impl TreeVisitor for Computed {
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match role(expr) {
                Role::Name(_)
                | Role::Path(_)
                | Role::WholeRow(_)
                | Role::Columns(_)
                | Role::Access
                | Role::Call(_)
                | Role::Operator(_) => ControlFlow::Break(()),
                Role::Star | Role::Value(_) | Role::Collation | Role::Other => {
                    ControlFlow::Continue(())
                }
            }
        }

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Null
            | Value::SingleQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::DollarQuotedString(_) => true,
            // MariaDB reads a parameter's value as if it stood there.
            Value::Placeholder(_) => dialect != Dialect::Mysql,
            _ => false,
        },
        computed => visit_tree(computed, &mut Computed).is_break(),
    }
}

/// The position, from 0, of the output that digits in ORDER BY or GROUP BY mean.
pub(in crate::resolve) fn position(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        _ => None,
    }
}

fn refuse_number(expr: &Expr) -> Rejection {
    if let Expr::Value(value) = expr
        && let Value::DoubleQuotedString(text) = &value.value
    {
        let message =
            format!("`\"{text}\"` is a text here and no name; names stand bare or in backticks");
        return Rejection::new(Code::SyntaxUnsupported, message);
    }
    Rejection::new(
        Code::SyntaxUnsupported,
        format!(
            "`{expr}` in ORDER BY, GROUP BY or DISTINCT ON may be the position of an output to the engine. Write the name of the \
             output, or its position as digits: `ORDER BY 2`"
        ),
    )
}
