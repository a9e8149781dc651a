//! Expressions: every variant of the parser's enum is answered.

pub(in crate::resolve) mod arguments;
pub(in crate::resolve) mod cast;
pub(in crate::resolve) mod column;
mod condition;
pub(in crate::resolve) mod constant_form;
pub(in crate::resolve) mod field;
pub(in crate::resolve) mod function;
pub(in crate::resolve) mod late_subquery;
pub(in crate::resolve) mod leakproof;
pub(in crate::resolve) mod literal;
pub(in crate::resolve) mod operand_class;
pub(in crate::resolve) mod operand_reading;
pub(in crate::resolve) mod operator;
pub(in crate::resolve) mod other_engines;
pub(in crate::resolve) mod plan_failures;
pub(in crate::resolve) mod regex_cost;
pub(in crate::resolve) mod single_row;
pub(in crate::resolve) mod total_call;
pub(in crate::resolve) mod totality;
pub(in crate::resolve) mod unfailing_call;
pub(in crate::resolve) mod unfailing_comparison;
pub(in crate::resolve) mod unfailing_condition;
pub(in crate::resolve) mod user_cast;

use sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DateTimeField, Expr, ExtractSyntax,
    Ident, Interval, MemberOf, ObjectName, ObjectNamePart, TypedString, Value,
};

use crate::resolve::{
    Resolver,
    expr::{
        operand_class::{OperandClass, Operands, pair_operands},
        other_engines::{replace_cast_type, replace_date_field},
    },
    query::{Ctes, select::refuse_spread_row},
    refuse_unsupported, refuse_with_replacement,
    scope::Scope,
    token,
};
use crate::{
    access::Usage, catalog::ColumnId, code::Code, dialect::Dialect, rejection::Rejection,
    syntax::decode,
};

/// Where an expression stands.
#[derive(Clone, Copy)]
pub(in crate::resolve) struct ExprContext<'a, 's, 'c> {
    pub(in crate::resolve) scope: &'s Scope<'a, 's>,
    pub(in crate::resolve) ctes: Ctes<'c>,
    pub(in crate::resolve) usage: Usage,
}

impl<'a> Resolver<'a> {
    /// Resolves an expression and gives the columns it is made from.
    pub(in crate::resolve) fn expr(
        &mut self,
        expr: &mut Expr,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
        usage: Usage,
    ) -> Result<Vec<ColumnId>, Rejection> {
        let mut columns = Vec::new();
        self.walk(expr, &ExprContext { scope, ctes, usage }, &mut columns)?;
        Ok(columns)
    }

    pub(in crate::resolve) fn walk(
        &mut self,
        expr: &mut Expr,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        self.spend(1)?;
        self.walk_parts(expr, at, out)?;
        self.note_failure(expr, at.scope);
        Ok(())
    }

    fn walk_parts(
        &mut self,
        expr: &mut Expr,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        let dialect = self.catalog.dialect();
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.column(expr, at, out),
            Expr::Value(_) => self.literal(expr, at.scope),
            Expr::Nested(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner) => self.walk(inner, at, out),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.user_operator("=", &self.operands(left, right, at.scope));
                let before = out.len();
                self.walk_together([&mut **left, &mut **right], at, out)?;
                self.note_comparison(left, right, out.get(before..).unwrap_or_default(), at);
                self.untag_compared(&mut [&mut **left, &mut **right], at.scope)
            }
            Expr::InList {
                expr,
                list,
                negated: _,
            } => {
                for item in &*list {
                    let operands = self.operands(expr, item, at.scope);
                    self.user_operator("=", &operands);
                    self.user_operator("<>", &operands);
                }
                self.walk_together(std::iter::once(&mut **expr).chain(&mut *list), at, out)?;
                let mut sides: Vec<_> = std::iter::once(&mut **expr).chain(list).collect();
                self.untag_compared(&mut sides, at.scope)
            }
            Expr::InSubquery {
                expr,
                subquery,
                negated: _,
            } => {
                let sides = self.row_operands(expr, at.scope);
                let start = out.len();
                self.walk(expr, at, out)?;
                let middle = out.len();
                let outputs = self.subquery(subquery, at, out)?;
                for operands in pair_operands(sides, outputs) {
                    self.user_operator("=", &operands);
                    self.user_operator("<>", &operands);
                }
                if start < middle {
                    self.note_join(out.get(start..).unwrap_or_default(), at);
                }
                self.implicit_casts(&parts(out, &[start, middle]));
                self.untag_in_subquery(expr, subquery, at.scope)
            }
            Expr::Between {
                expr,
                negated: _,
                low,
                high,
            } => {
                for bound in [&**low, &**high] {
                    let operands = self.operands(expr, bound, at.scope);
                    for symbol in ["<", "<=", ">=", ">"] {
                        self.user_operator(symbol, &operands);
                    }
                }
                self.walk_together([&mut **expr, &mut **low, &mut **high], at, out)?;
                self.untag_compared(&mut [&mut **expr, &mut **low, &mut **high], at.scope)
            }
            Expr::BinaryOp { left, op, right } => {
                if dialect == Dialect::Mysql
                    && *op == BinaryOperator::StringConcat
                    && (is_text(left) || is_text(right))
                {
                    let what = "`||` beside a text, where it is OR to this engine,";
                    return Err(refuse_with_replacement(what, "CONCAT(a, b)"));
                }
                self.binary_operator(op, &self.operands(left, right, at.scope))?;
                let truths = [BinaryOperator::And, BinaryOperator::Or, BinaryOperator::Xor];
                let before = out.len();
                if truths.contains(op) {
                    self.walk(left, at, out)?;
                    self.walk(right, at, out)?;
                } else {
                    self.walk_together([&mut **left, &mut **right], at, out)?;
                }
                if token::compares(op) {
                    self.note_comparison(left, right, out.get(before..).unwrap_or_default(), at);
                    self.untag_compared(&mut [&mut **left, &mut **right], at.scope)?;
                }
                if *op == BinaryOperator::Regexp {
                    crate::resolve::expr::regex_cost::check(right)?;
                }
                Ok(())
            }
            Expr::Like {
                negated: _,
                any,
                expr,
                pattern,
                escape_char,
            } => {
                if *any {
                    return Err(refuse_unsupported("LIKE ANY"));
                }
                if dialect == Dialect::Sqlite {
                    self.calls("like");
                }
                let operands = self.operands(expr, pattern, at.scope);
                self.user_operator("~~", &operands);
                self.user_operator("!~~", &operands);
                self.walk(expr, at, out)?;
                self.walk(pattern, at, out)?;
                match escape_char {
                    Some(escape) => self.walk(escape, at, out),
                    None => Ok(()),
                }
            }
            Expr::UnaryOp { op, expr } => {
                self.unary_operator(*op, &self.prefix_operand(expr, at.scope))?;
                self.walk(expr, at, out)?;
                // `- - 1` would be printed as a comment, and hide what follows it.
                if matches!(**expr, Expr::UnaryOp { op: _, expr: _ }) {
                    let inner = std::mem::replace(&mut **expr, Expr::Identifier(Ident::new("")));
                    **expr = Expr::Nested(Box::new(inner));
                }
                Ok(())
            }
            Expr::Cast {
                kind,
                expr,
                data_type,
                format,
            } => {
                match (&kind, dialect) {
                    (CastKind::Cast, _) => {}
                    (CastKind::DoubleColon, Dialect::Postgres) => {}
                    (
                        CastKind::DoubleColon | CastKind::TryCast | CastKind::SafeCast,
                        Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql,
                    ) => {
                        return Err(refuse_with_replacement(
                            "a cast of this form",
                            "CAST(x AS type)",
                        ));
                    }
                }
                if format.is_some() {
                    return Err(refuse_unsupported("FORMAT in a cast"));
                }
                if dialect == Dialect::Mysql
                    && let Some(instead) = replace_cast_type(data_type)
                {
                    let what = format!("a cast to {data_type}");
                    return Err(refuse_with_replacement(&what, instead));
                }
                let own = self.cast_type(data_type)?;
                let start = out.len();
                self.walk(expr, at, out)?;
                self.explicit_cast(data_type, own, out.get(start..).unwrap_or_default());
                if let Some(text) = self.text_of_token(expr, data_type, at.scope) {
                    *data_type = text;
                }
                Ok(())
            }
            Expr::Collate { expr, collation } => {
                self.collation(collation)?;
                self.failures.names_collation = true;
                self.walk(expr, at, out)
            }
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                let (mut whens, results): (Vec<_>, Vec<_>) = conditions
                    .iter_mut()
                    .map(|CaseWhen { condition, result }| (condition, result))
                    .unzip();
                match operand {
                    Some(operand) => {
                        for when in &whens {
                            let operands = self.operands(operand, when, at.scope);
                            self.user_operator("=", &operands);
                        }
                        let mut operands = vec![&mut **operand];
                        operands.append(&mut whens);
                        self.walk_together(operands.iter_mut().map(|e| &mut **e), at, out)?;
                        self.untag_compared(&mut operands, at.scope)?;
                    }
                    None => {
                        for when in whens {
                            self.walk(when, at, out)?;
                        }
                    }
                }
                let mut values: Vec<&mut Expr> = results;
                values.extend(else_result.as_deref_mut());
                self.walk_together(values.iter_mut().map(|value| &mut **value), at, out)?;
                self.untag_choice(values, at.scope)
            }
            Expr::Exists {
                subquery,
                negated: _,
            }
            | Expr::Subquery(subquery) => self.subquery(subquery, at, out).map(|_| ()),
            Expr::Tuple(exprs) => {
                self.walk_all(exprs, at, out)?;
                exprs.iter().try_for_each(refuse_spread_row)
            }
            Expr::Function(function) => match self.type_call(function) {
                Some(cast) => {
                    *expr = cast;
                    self.walk(expr, at, out)
                }
                None => match self.guard_aggregate(function, at, out)? {
                    Some(guarded) => {
                        *expr = guarded;
                        Ok(())
                    }
                    None => self.call(function, at, out),
                },
            },
            // Calls for which the parser has nodes of their own.
            Expr::Ceil { expr, field } => {
                self.special("ceil", 1)?;
                no_field(field)?;
                self.walk(expr, at, out)
            }
            Expr::Floor { expr, field } => {
                self.special("floor", 1)?;
                no_field(field)?;
                self.walk(expr, at, out)
            }
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special,
                shorthand,
            } => {
                if !*special && dialect == Dialect::Sqlite {
                    let instead = "substr(x, start, length)";
                    return Err(refuse_with_replacement("SUBSTRING … FROM … FOR", instead));
                }
                let parts = [substring_from, substring_for];
                let count = 1 + parts.iter().filter(|part| part.is_some()).count();
                self.special(if *shorthand { "substr" } else { "substring" }, count)?;
                self.walk(expr, at, out)?;
                for part in parts.into_iter().flatten() {
                    self.walk(part, at, out)?;
                }
                Ok(())
            }
            Expr::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                if (trim_where.is_some() || trim_what.is_some()) && dialect == Dialect::Sqlite {
                    let instead = "trim(x, characters), ltrim or rtrim";
                    return Err(refuse_with_replacement("TRIM … FROM", instead));
                }
                self.special("trim", 1)?;
                self.walk(expr, at, out)?;
                if let Some(what) = trim_what {
                    self.walk(what, at, out)?;
                }
                match trim_characters {
                    Some(characters) => self.walk_all(characters, at, out),
                    None => Ok(()),
                }
            }
            Expr::CompoundFieldAccess {
                root: _,
                access_chain: _,
            } => self.field_access(expr, at, out),
            Expr::IsUnknown(inner) | Expr::IsNotUnknown(inner) if dialect != Dialect::Sqlite => {
                self.walk(inner, at, out)
            }
            Expr::IsUnknown(_) | Expr::IsNotUnknown(_) => Err(refuse_unsupported("IS UNKNOWN")),
            Expr::IsJson {
                expr,
                kind: _,
                unique_keys: _,
                negated: _,
            } if dialect == Dialect::Postgres => self.walk(expr, at, out),
            Expr::IsNormalized {
                expr,
                form: _,
                negated: _,
            } if dialect == Dialect::Postgres => {
                self.special("normalize", 1)?;
                self.walk(expr, at, out)
            }
            Expr::ILike {
                negated: _,
                any: false,
                expr,
                pattern,
                escape_char,
            }
            | Expr::SimilarTo {
                negated: _,
                expr,
                pattern,
                escape_char,
            } if dialect == Dialect::Postgres => {
                let operands = self.operands(expr, pattern, at.scope);
                for symbol in ["~~*", "!~~*", "~", "!~"] {
                    self.user_operator(symbol, &operands);
                }
                self.walk(expr, at, out)?;
                self.walk(pattern, at, out)?;
                match escape_char {
                    Some(escape) => self.walk(escape, at, out),
                    None => Ok(()),
                }
            }
            Expr::RLike {
                negated: _,
                expr,
                pattern,
                regexp: _,
            } if dialect == Dialect::Mysql => {
                self.walk(expr, at, out)?;
                self.walk(pattern, at, out)?;
                crate::resolve::expr::regex_cost::check(pattern)
            }
            Expr::AnyOp {
                left,
                compare_op,
                right,
                is_some: _,
            }
            | Expr::AllOp {
                left,
                compare_op,
                right,
            } if dialect != Dialect::Sqlite => {
                let operands =
                    Operands::Binary(self.value_operand(left, at.scope), OperandClass::Unknown);
                self.binary_operator(compare_op, &operands)?;
                self.walk_together([&mut **left, &mut **right], at, out)?;
                if !token::compares(compare_op) {
                    return Ok(());
                }
                self.untag_quantified(left, right, at.scope)
            }
            Expr::Convert {
                is_try: false,
                expr,
                data_type,
                charset,
                target_before_value: false,
                styles,
            } if dialect == Dialect::Mysql && styles.is_empty() => {
                self.special("convert", 1)?;
                if let Some(data_type) = data_type {
                    self.cast_type(data_type)?;
                }
                if let Some(charset) = charset {
                    plain_name(charset)?;
                }
                self.walk(expr, at, out)
            }
            Expr::AtTimeZone {
                timestamp,
                time_zone,
            } if dialect == Dialect::Postgres => {
                self.walk(timestamp, at, out)?;
                self.walk(time_zone, at, out)
            }
            Expr::Extract {
                field,
                syntax: ExtractSyntax::From,
                expr,
            } if dialect != Dialect::Sqlite => {
                date_field(field)?;
                if dialect == Dialect::Mysql
                    && let Some(instead) = replace_date_field(field)
                {
                    let what = format!("EXTRACT of {field}");
                    return Err(refuse_with_replacement(&what, instead));
                }
                self.special("extract", 2)?;
                self.walk(expr, at, out)
            }
            Expr::Position { expr, r#in } if dialect != Dialect::Sqlite => {
                self.special("position", 2)?;
                self.walk(expr, at, out)?;
                self.walk(r#in, at, out)
            }
            Expr::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } if dialect == Dialect::Postgres => {
                self.special("overlay", 3 + usize::from(overlay_for.is_some()))?;
                self.walk(expr, at, out)?;
                self.walk(overlay_what, at, out)?;
                self.walk(overlay_from, at, out)?;
                match overlay_for {
                    Some(length) => self.walk(length, at, out),
                    None => Ok(()),
                }
            }
            // `_utf8mb4'…'`: a character set before a literal.
            Expr::Prefixed { prefix, value }
                if dialect == Dialect::Mysql
                    && prefix.quote_style.is_none()
                    && prefix.value.starts_with('_')
                    && matches!(**value, Expr::Value(_)) =>
            {
                self.walk(value, at, out)
            }
            // `VARIADIC array` and `NAME element`, which our dialect reads.
            Expr::Prefixed { prefix, value }
                if dialect == Dialect::Postgres && prefix.value == "VARIADIC" =>
            {
                self.walk(value, at, out)
            }
            Expr::Prefixed { prefix, value }
                if dialect == Dialect::Postgres && prefix.value == "NAME" =>
            {
                match &mut **value {
                    Expr::Identifier(ident) => {
                        self.normalise(ident);
                        Ok(())
                    }
                    _ => Err(refuse_unsupported("NAME before an expression")),
                }
            }
            Expr::TypedString(TypedString {
                data_type,
                value,
                uses_odbc_syntax,
            }) if dialect == Dialect::Mysql
                || (dialect == Dialect::Postgres && !*uses_odbc_syntax) =>
            {
                self.cast_type(data_type)?;
                self.value(&mut value.value, value.span.start)
            }
            Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets)
                if dialect == Dialect::Postgres =>
            {
                sets.iter_mut()
                    .try_for_each(|exprs| self.walk_all(exprs, at, out))
            }
            Expr::Array(Array { elem, named: true }) if dialect == Dialect::Postgres => {
                let mut items = Vec::with_capacity(elem.len());
                array_items(elem, &mut items);
                self.walk_together(items, at, out)
            }
            Expr::Array(Array {
                elem: _,
                named: false,
            }) if dialect == Dialect::Postgres => Err(Rejection::new(
                Code::SyntaxInvalid,
                "an array begins with the word ARRAY; names stand bare or in double quotes",
            )),
            Expr::Interval(Interval {
                value,
                leading_field,
                leading_precision: _,
                last_field,
                fractional_seconds_precision: _,
            }) if dialect != Dialect::Sqlite => {
                for field in [leading_field, last_field].into_iter().flatten() {
                    date_field(field)?;
                }
                if dialect == Dialect::Postgres && !is_text(value) {
                    return Err(refuse_with_replacement(
                        "INTERVAL without a text behind it",
                        "INTERVAL '30 days', or n * INTERVAL '1 day'",
                    ));
                }
                self.walk(value, at, out)
            }
            Expr::MatchAgainst {
                columns,
                match_value,
                opt_search_modifier: _,
            } if dialect == Dialect::Mysql => {
                let start = out.len();
                for name in columns {
                    let mut parts: Vec<Ident> = name
                        .0
                        .iter()
                        .filter_map(|part| part.as_ident().cloned())
                        .collect();
                    let mut column = if parts.len() == 1 {
                        Expr::Identifier(parts.remove(0))
                    } else {
                        Expr::CompoundIdentifier(parts)
                    };
                    self.column(&mut column, at, out)?;
                    let parts = match column {
                        Expr::Identifier(ident) => vec![ident],
                        Expr::CompoundIdentifier(parts) => parts,
                        _ => return Err(refuse_unsupported("a column name of this form")),
                    };
                    name.0 = parts.into_iter().map(ObjectNamePart::Identifier).collect();
                }
                for column in out.get(start..).unwrap_or_default() {
                    // The index is the table's; what stands in the table's place has none.
                    if self.visible.relation(column.relation)?.has_obligation() {
                        return Err(Rejection::new(
                            Code::ObligationInapplicable,
                            "MATCH … AGAINST cannot search a table with a mask or filter",
                        ));
                    }
                }
                self.value(&mut match_value.value, match_value.span.start)
            }
            Expr::QualifiedWildcard(name, _) => self.whole_row_star(name, at, out),
            Expr::MemberOf(MemberOf { value, array }) if dialect == Dialect::Mysql => {
                self.walk(value, at, out)?;
                self.walk(array, at, out)
            }
            Expr::JsonAccess { value: _, path: _ } => Err(refuse_unsupported("`:` path access")),
            Expr::IsJson {
                expr: _,
                kind: _,
                unique_keys: _,
                negated: _,
            } => Err(refuse_unsupported("IS JSON")),
            Expr::IsNormalized {
                expr: _,
                form: _,
                negated: _,
            } => Err(refuse_unsupported("IS NORMALIZED")),
            Expr::InUnnest {
                expr: _,
                array_expr: _,
                negated: _,
            } => Err(refuse_unsupported("IN UNNEST")),
            Expr::ILike {
                negated: _,
                any: _,
                expr: _,
                pattern: _,
                escape_char: _,
            } => Err(refuse_unsupported(
                "ILIKE (LIKE ignores the case of ASCII letters here)",
            )),
            Expr::SimilarTo {
                negated: _,
                expr: _,
                pattern: _,
                escape_char: _,
            } => Err(refuse_with_replacement(
                "SIMILAR TO",
                match dialect {
                    Dialect::Sqlite => "LIKE or GLOB",
                    Dialect::Postgres | Dialect::Mysql => "REGEXP",
                },
            )),
            Expr::RLike {
                negated: _,
                expr: _,
                pattern: _,
                regexp: _,
            } => Err(Rejection::new(
                Code::FunctionUnknown,
                match dialect {
                    Dialect::Postgres => {
                        "there is no function `regexp` on this engine: write x ~ 'pattern'"
                    }
                    Dialect::Sqlite | Dialect::Mysql => {
                        "there is no function `regexp` on this engine: write LIKE or GLOB"
                    }
                },
            )),
            Expr::AnyOp {
                left: _,
                compare_op: _,
                right: _,
                is_some: _,
            } => Err(refuse_with_replacement("ANY", "IN (…), or EXISTS (…)")),
            Expr::AllOp {
                left: _,
                compare_op: _,
                right: _,
            } => Err(refuse_with_replacement(
                "ALL",
                "NOT IN (…), or NOT EXISTS (…)",
            )),
            Expr::Convert {
                is_try: _,
                expr: _,
                data_type: _,
                charset: _,
                target_before_value: _,
                styles: _,
            } => Err(refuse_with_replacement("CONVERT", "CAST(x AS type)")),
            Expr::AtTimeZone {
                timestamp: _,
                time_zone: _,
            } => Err(refuse_with_replacement(
                "AT TIME ZONE",
                match dialect {
                    Dialect::Sqlite => "datetime(x, '+2 hours')",
                    Dialect::Postgres | Dialect::Mysql => "CONVERT_TZ(x, '+00:00', '+02:00')",
                },
            )),
            Expr::Extract {
                field: _,
                syntax: _,
                expr: _,
            } => Err(refuse_with_replacement(
                "EXTRACT of this form",
                match dialect {
                    Dialect::Sqlite => "strftime('%Y', x)",
                    Dialect::Postgres | Dialect::Mysql => "EXTRACT(YEAR FROM x)",
                },
            )),
            Expr::Position { expr: _, r#in: _ } => Err(refuse_unsupported("POSITION (use instr)")),
            Expr::Overlay {
                expr: _,
                overlay_what: _,
                overlay_from: _,
                overlay_for: _,
            } => Err(refuse_unsupported("OVERLAY")),
            Expr::Prefixed {
                prefix: _,
                value: _,
            } => Err(refuse_unsupported("a prefixed literal")),
            Expr::TypedString(_) => {
                let instead = "the text alone, such as '2024-01-31'";
                Err(refuse_with_replacement(
                    "a typed literal such as DATE '…'",
                    instead,
                ))
            }
            Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_) => {
                let instead = "a query for each set, with UNION ALL between them";
                Err(refuse_with_replacement(
                    "GROUPING SETS, CUBE or ROLLUP",
                    instead,
                ))
            }
            Expr::Struct {
                values: _,
                fields: _,
            } => Err(refuse_unsupported("STRUCT")),
            Expr::Named { expr: _, name: _ } => Err(refuse_unsupported("a named expression")),
            Expr::Dictionary(_) | Expr::Map(_) => Err(refuse_unsupported("a map literal")),
            Expr::Array(_) => Err(match dialect {
                Dialect::Sqlite => refuse_unsupported("an array"),
                Dialect::Postgres | Dialect::Mysql => {
                    refuse_with_replacement("`[…]`", "names bare, or in the engine's own quotes")
                }
            }),
            Expr::Interval(_) => {
                let instead = "date(x, '+30 days') or datetime(x, '-1 hour')";
                Err(refuse_with_replacement("INTERVAL", instead))
            }
            Expr::MatchAgainst {
                columns: _,
                match_value: _,
                opt_search_modifier: _,
            } => Err(refuse_unsupported("MATCH … AGAINST")),
            Expr::Wildcard(_) => Err(refuse_unsupported("`*` in an expression")),
            Expr::OuterJoin(_) => Err(refuse_unsupported("(+)")),
            Expr::Prior(_) => Err(refuse_unsupported("PRIOR")),
            Expr::Lambda(_) => Err(refuse_unsupported("a lambda")),
            Expr::MemberOf(_) => Err(refuse_unsupported("MEMBER OF")),
        }
    }

    /// Counts what a call with a node of its own can mean.
    fn special(&mut self, name: &str, args: usize) -> Result<(), Rejection> {
        let args = vec![OperandClass::Unknown; args];
        self.resolve_function(&mut ObjectName::from(vec![Ident::new(name)]), Some(&args))
            .map(|_| ())
    }

    /// A collation: on SQLite one of three, elsewhere a name the engine looks up.
    fn collation(&mut self, collation: &mut ObjectName) -> Result<(), Rejection> {
        match self.catalog.dialect() {
            Dialect::Sqlite => {
                let known = match collation.0.as_mut_slice() {
                    [ObjectNamePart::Identifier(ident)] => {
                        self.normalise(ident);
                        matches!(&*self.key(ident), "binary" | "nocase" | "rtrim")
                    }
                    _ => false,
                };
                if known {
                    Ok(())
                } else {
                    Err(refuse_unsupported(
                        "a collation other than BINARY, NOCASE or RTRIM",
                    ))
                }
            }
            Dialect::Postgres => {
                for part in &mut collation.0 {
                    match part {
                        ObjectNamePart::Identifier(ident) => self.normalise(ident),
                        ObjectNamePart::Function(_) => {
                            return Err(refuse_unsupported("a collation of this form"));
                        }
                    }
                }
                Ok(())
            }
            Dialect::Mysql => plain_name(collation),
        }
    }

    /// Expressions that an operator or the like brings together.
    fn walk_together<'e>(
        &mut self,
        exprs: impl IntoIterator<Item = &'e mut Expr>,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        let mut starts = Vec::new();
        for expr in exprs {
            starts.push(out.len());
            self.walk(expr, at, out)?;
        }
        if !self.catalog.casts().is_empty() {
            // Of each operator in a chain, what stands below it is looked at again.
            self.spend_on(out.len() - starts.first().copied().unwrap_or(out.len()))?;
            self.implicit_casts(&parts(out, &starts));
        }
        Ok(())
    }

    fn walk_all(
        &mut self,
        exprs: &mut [Expr],
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        exprs
            .iter_mut()
            .try_for_each(|expr| self.walk(expr, at, out))
    }

    /// Resolves a query in an expression; what is known of its columns.
    pub(in crate::resolve) fn subquery(
        &mut self,
        query: &mut sqlparser::ast::Query,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<Vec<OperandClass>, Rejection> {
        let outputs = self.query(query, Some(at.scope), at.ctes, false)?;
        self.note_subquery(query, &outputs);
        self.note_subquery_class(query, &outputs);
        let classes = self.output_operands(&outputs);
        for output in outputs {
            for column in output.lineage.columns {
                self.touch(column, at.usage);
                out.push(column);
            }
        }
        Ok(classes)
    }
}

/// The columns from each start to the next.
pub(in crate::resolve) fn parts<'c>(
    columns: &'c [ColumnId],
    starts: &[usize],
) -> Vec<&'c [ColumnId]> {
    let ends = starts.iter().skip(1).copied().chain([columns.len()]);
    starts
        .iter()
        .zip(ends)
        .filter_map(|(start, end)| columns.get(*start..end))
        .collect()
}

/// The values of an array, and of those in brackets inside of it.
fn array_items<'e>(elem: &'e mut [Expr], items: &mut Vec<&'e mut Expr>) {
    for expr in elem {
        match expr {
            Expr::Array(Array { elem, named: false }) => array_items(elem, items),
            other => items.push(other),
        }
    }
}

fn no_field(field: &CeilFloorKind) -> Result<(), Rejection> {
    match field {
        CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => Ok(()),
        CeilFloorKind::DateTimeField(_) | CeilFloorKind::Scale(_) => {
            Err(refuse_unsupported("CEIL or FLOOR … TO"))
        }
    }
}

/// A field of a date: a word, nothing that is read.
fn date_field(field: &DateTimeField) -> Result<(), Rejection> {
    let plain = field
        .to_string()
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'\''));
    if plain {
        Ok(())
    } else {
        Err(refuse_unsupported("a date field of this form"))
    }
}

/// A name of a character set or collation: one plain word.
pub(in crate::resolve) fn plain_name(name: &ObjectName) -> Result<(), Rejection> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)]
            if decode(ident)
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_') =>
        {
            Ok(())
        }
        _ => Err(refuse_unsupported(
            "a character set or collation of this form",
        )),
    }
}

/// Whether it is a literal of a text.
fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(
            &value.value,
            Value::SingleQuotedString(_)
                | Value::EscapedStringLiteral(_)
                | Value::UnicodeStringLiteral(_)
                | Value::DollarQuotedString(_)
        ),
        _ => false,
    }
}
