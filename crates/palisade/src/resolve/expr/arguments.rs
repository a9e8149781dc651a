//! Arguments of calls: their forms, and sizes that they ask for.

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArgumentList, Ident, UnaryOperator, Value,
};

use crate::resolve::{
    MAX_SIZE, Mode, Resolver,
    expr::{ExprContext, function::Called, parts},
    query::terms::TermNames,
    refuse_unsupported,
    scope::Scope,
};
use crate::{
    catalog::ColumnId, code::Code, dialect::Dialect, rejection::Rejection, syntax::read_plain_call,
};

impl<'a> Resolver<'a> {
    pub(in crate::resolve) fn arguments(
        &mut self,
        list: &mut FunctionArgumentList,
        called: &Called<'a>,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        let dialect = self.catalog.dialect();
        let FunctionArgumentList {
            duplicate_treatment,
            args,
            clauses,
        } = list;
        // It is what happens without it.
        if matches!(duplicate_treatment, Some(DuplicateTreatment::All))
            && dialect == Dialect::Sqlite
        {
            *duplicate_treatment = None;
        }
        for clause in clauses {
            match (clause, dialect) {
                (FunctionArgumentClause::OrderBy(terms), _) => {
                    let names = TermNames::Expressions;
                    out.extend(self.order_terms(terms, names, at.scope, at.ctes)?);
                }
                (FunctionArgumentClause::Separator(value), Dialect::Mysql) => {
                    self.value(&mut value.value, value.span.start)?;
                }
                (FunctionArgumentClause::Limit(limit), Dialect::Mysql) => {
                    self.walk(limit, at, out)?;
                }
                (FunctionArgumentClause::JsonNullClause(_), Dialect::Postgres) => {}
                (
                    FunctionArgumentClause::JsonReturningClause(clause),
                    Dialect::Postgres | Dialect::Mysql,
                ) => {
                    self.cast_type(&mut clause.data_type)?;
                }
                (
                    FunctionArgumentClause::IgnoreOrRespectNulls(_)
                    | FunctionArgumentClause::Where(_)
                    | FunctionArgumentClause::Limit(_)
                    | FunctionArgumentClause::OnOverflow(_)
                    | FunctionArgumentClause::Having(_)
                    | FunctionArgumentClause::Separator(_)
                    | FunctionArgumentClause::JsonNullClause(_)
                    | FunctionArgumentClause::JsonReturningClause(_),
                    _,
                ) => {
                    return Err(refuse_unsupported("a clause inside a function call"));
                }
            }
        }
        let bound = called.candidates.iter().find_map(|def| def.bound);
        let budget = self.work.size_budget;
        let asked = bound.map_or(1, |position| {
            let size = usize::from(position)
                .checked_sub(1)
                .and_then(|i| args.get(i))
                .and_then(literal_size);
            size.unwrap_or(budget)
        });
        self.work.size_budget = if called.candidates.iter().any(|def| def.grows) {
            budget.isqrt()
        } else {
            budget / asked.clamp(1, budget.max(1))
        };
        if dialect == Dialect::Postgres && called.candidates.iter().any(|def| def.format) {
            check_format(args.first())?;
        }
        let mut star = false;
        let total = args.len();
        let mut starts = Vec::with_capacity(total);
        for (position, arg) in (1_usize..).zip(args.iter_mut()) {
            starts.push(out.len());
            let value = match arg {
                FunctionArg::Unnamed(value) => value,
                FunctionArg::Named {
                    name: _,
                    arg,
                    operator: _,
                } if dialect == Dialect::Postgres => arg,
                FunctionArg::ExprNamed {
                    name,
                    arg,
                    operator: _,
                } if dialect == Dialect::Postgres => {
                    // `json_object('a' : b)` has any expression there; elsewhere it is a name.
                    if !matches!(name, Expr::Identifier(_)) {
                        self.walk(name, at, out)?;
                    }
                    arg
                }
                FunctionArg::Named {
                    name: _,
                    arg: _,
                    operator: _,
                }
                | FunctionArg::ExprNamed {
                    name: _,
                    arg: _,
                    operator: _,
                } => return Err(refuse_unsupported("a named argument")),
            };
            match value {
                // `f(name := value)`, which the parser takes for an assignment.
                FunctionArgExpr::Expr(Expr::BinaryOp {
                    left,
                    op: BinaryOperator::Assignment,
                    right,
                }) if dialect == Dialect::Postgres && matches!(**left, Expr::Identifier(_)) => {
                    self.walk(right, at, out)?;
                }
                // A unit or a kind of value, which no column can stand for.
                FunctionArgExpr::Expr(Expr::Identifier(word))
                    if dialect == Dialect::Mysql
                        && position == 1
                        && word.quote_style.is_none()
                        && takes_word(called) => {}
                // `xmlforest(a AS n)`: an element's name.
                FunctionArgExpr::Expr(Expr::Named { expr, name })
                    if dialect == Dialect::Postgres && names_elements(called) =>
                {
                    self.walk(expr, at, out)?;
                    self.normalise(name);
                }
                FunctionArgExpr::Expr(Expr::Identifier(word))
                    if dialect == Dialect::Postgres
                        && position == 2
                        && is_normal_form(called, word) => {}
                FunctionArgExpr::Expr(expr) => {
                    self.walk(expr, at, out)?;
                    if dialect == Dialect::Mysql && position == 2 && matches_regexp(called) {
                        crate::resolve::expr::regex_cost::check(expr)?;
                    }
                    if bound.map(usize::from) == Some(position) {
                        self.bound_size(expr, budget, at.scope)?;
                    }
                }
                FunctionArgExpr::Wildcard => star = true,
                FunctionArgExpr::QualifiedWildcard(name) if dialect == Dialect::Postgres => {
                    self.whole_row_star(name, at, out)?;
                }
                FunctionArgExpr::QualifiedWildcard(_) | FunctionArgExpr::WildcardWithOptions(_) => {
                    return Err(refuse_unsupported("a qualified `*` as an argument"));
                }
            }
        }
        self.implicit_casts(&parts(out, &starts));
        self.casts_to_json(&called.candidates, &parts(out, &starts));
        self.work.size_budget = budget;
        let counts = called
            .candidates
            .iter()
            .any(|def| def.takes(0) && def.kinds.is_over_rows(Some(0)));
        if star && (total != 1 || !counts) {
            return Err(refuse_unsupported(
                "`*` as an argument of anything but count",
            ));
        }
        Ok(())
    }

    /// Keeps an argument that chooses a size small, so that a call cannot ask for any amount of memory. A literal is looked at; what is only known
    /// when the statement runs is bounded there.
    fn bound_size(
        &mut self,
        expr: &mut Expr,
        most: u64,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let too_large = || {
            Rejection::new(
                Code::LimitCost,
                format!("calls ask for more than {MAX_SIZE} characters"),
            )
        };
        match expr {
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => match text.parse::<u64>() {
                    Ok(size) if size <= most => Ok(()),
                    _ => Err(too_large()),
                },
                Value::Null => Ok(()),
                _ => Err(too_large()),
            },
            Expr::UnaryOp {
                op: sqlparser::ast::UnaryOperator::Minus,
                expr: inner,
            } if matches!(**inner, Expr::Value(_)) => Ok(()),
            // The server's max_allowed_packet bounds every value
            // (<https://dev.mysql.com/doc/refman/8.4/en/string-functions.html>).
            _ if self.catalog.dialect() == Dialect::Mysql => Ok(()),
            _ if self.is_plain_size(expr, MAX_SIZE_TERMS, scope) => {
                // What the second resolution will find in the text, this one has to know of.
                let cap = || Expr::Value(Value::Number(most.to_string(), false).into());
                let operands = self.operands(expr, &cap(), scope);
                self.user_operator(">", &operands);
                let argument = expr.clone();
                *expr = Expr::Case {
                    case_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                    end_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                    operand: None,
                    conditions: vec![sqlparser::ast::CaseWhen {
                        condition: Expr::BinaryOp {
                            left: Box::new(argument.clone()),
                            op: sqlparser::ast::BinaryOperator::Gt,
                            right: Box::new(cap()),
                        },
                        result: cap(),
                    }],
                    else_result: Some(Box::new(argument)),
                };
                Ok(())
            }
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: None,
                conditions,
                else_result: Some(_),
            } if matches!(
                self.mode,
                Mode::Rewritten {
                    sources: _,
                    writes: _
                }
            ) && conditions.len() == 1 =>
            {
                Ok(())
            }
            _ => Err(Rejection::new(
                Code::LimitCost,
                "the size that a call asks for must be a number, a column, or made from columns, lengths and count(*) by + - * /, \
                 rounding, coalesce and casts to integer. Compute anything else in a subquery, and name its column here",
            )),
        }
    }

    /// Whether an expression is made from numbers, columns and lengths by arithmetic alone.
    fn is_plain_size(&self, expr: &Expr, depth: usize, scope: &Scope<'a, '_>) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
            Expr::Value(value) => matches!(value.value, Value::Number(..)),
            Expr::Nested(inner)
            | Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: inner,
            } => self.is_plain_size(inner, depth, scope),
            Expr::Cast {
                kind: _,
                expr: inner,
                data_type:
                    DataType::Int(None)
                    | DataType::Integer(None)
                    | DataType::SmallInt(None)
                    | DataType::BigInt(None)
                    | DataType::Int2(None)
                    | DataType::Int4(None)
                    | DataType::Int8(None),
                format: None,
            } => self.is_plain_size(inner, depth, scope),
            Expr::BinaryOp {
                left,
                op:
                    op @ (BinaryOperator::Plus
                    | BinaryOperator::Minus
                    | BinaryOperator::Multiply
                    | BinaryOperator::Divide
                    | BinaryOperator::Modulo),
                right,
            } if self.is_engines_own_for(&op.to_string(), left, right, scope) => {
                self.is_plain_size(left, depth, scope) && self.is_plain_size(right, depth, scope)
            }
            Expr::Function(call) => {
                let Some((name, args)) = read_plain_call(call) else {
                    return false;
                };
                // Its name was resolved before, so that one of PostgreSQL's own stands with its schema.
                let name = name.to_string();
                let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
                let counts_rows = matches!(name, "count")
                    && matches!(args, [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
                let is_plain = |arg: &FunctionArg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(_))) => true,
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                        self.is_plain_size(expr, depth, scope)
                    }
                    _ => false,
                };
                let is_plain_call = PLAIN_SIZES.contains(&name) && args.iter().all(is_plain);
                self.is_engines_function(name) && (counts_rows || is_plain_call)
            }
            _ => false,
        }
    }
}

/// Functions of one value, the same whenever they are asked, of which a size may be made.
const PLAIN_SIZES: &[&str] = &[
    "abs",
    "array_length",
    "cardinality",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "coalesce",
    "floor",
    "greatest",
    "least",
    "length",
    "octet_length",
    "round",
];

/// How deep an expression may be that a call takes for a size: it stands twice in what is printed.
const MAX_SIZE_TERMS: usize = 4;

/// Whether the first argument of a call is a keyword of MySQL's grammar.
pub(in crate::resolve) fn takes_word(called: &Called<'_>) -> bool {
    called.candidates.iter().all(|def| {
        def.schema.is_none()
            && matches!(
                def.name.as_str(),
                "timestampadd" | "timestampdiff" | "get_format"
            )
    })
}

/// Whether the arguments of a call may carry the names of elements or attributes.
pub(in crate::resolve) fn names_elements(called: &Called<'_>) -> bool {
    called.candidates.iter().all(|def| {
        def.schema.is_none() && matches!(def.name.as_str(), "xmlforest" | "xmlattributes")
    })
}

/// Whether `word` is the keyword of PostgreSQL's grammar that says which normal form `normalize` gives.
pub(in crate::resolve) fn is_normal_form(called: &Called<'_>, word: &Ident) -> bool {
    let named = |forms: &[&str]| forms.iter().any(|f| word.value.eq_ignore_ascii_case(f));
    word.quote_style.is_none()
        && named(&["nfc", "nfd", "nfkc", "nfkd"])
        && called.candidates.iter().all(|def| def.name == "normalize")
}

/// Whether the second argument of a call is a regular expression.
pub(in crate::resolve) fn matches_regexp(called: &Called<'_>) -> bool {
    called
        .candidates
        .iter()
        .any(|def| def.name.starts_with("regexp_"))
}

/// The size that a literal argument asks for.
pub(in crate::resolve) fn literal_size(arg: &FunctionArg) -> Option<u64> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else {
        return None;
    };
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Refuses formats whose widths are not small numbers written in them.
pub(in crate::resolve) fn check_format(arg: Option<&FunctionArg>) -> Result<(), Rejection> {
    let refuse = || {
        Rejection::new(
            Code::LimitCost,
            "a format must be a literal whose widths are numbers below 10000",
        )
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(format))) = arg else {
        return Err(refuse());
    };
    let Expr::Value(format) = uncast(format) else {
        return Err(refuse());
    };
    let text = match &format.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text.as_str(),
        Value::DollarQuotedString(text) => text.value.as_str(),
        Value::Null => "",
        _ => return Err(refuse()),
    };
    for spec in text.split('%').skip(1) {
        let width: String = spec
            .chars()
            .take_while(|c| c.is_ascii_digit() || matches!(c, '-' | '$' | '*'))
            .collect();
        if width.contains('*') || width.split(['-', '$']).any(|digits| digits.len() > 4) {
            return Err(refuse());
        }
    }
    Ok(())
}

/// What stands before casts to text: PostgreSQL writes one behind each literal of a view.
pub(in crate::resolve) fn uncast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner)
        | Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: inner,
            data_type: DataType::Text,
            format: None,
        } => uncast(inner),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

    use super::*;

    fn parse(text: &str) -> Expr {
        Parser::new(&PostgreSqlDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn argument(text: &str) -> FunctionArg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(parse(text)))
    }

    #[test]
    fn sizes_are_whole_numbers_that_are_written() {
        for (text, expected) in [
            ("5", Some(5)),
            ("0", Some(0)),
            ("5.5", None),
            ("-5", None),
            ("'5'", None),
            ("a", None),
        ] {
            assert_eq!(literal_size(&argument(text)), expected, "{text}");
        }
        assert_eq!(
            literal_size(&FunctionArg::Unnamed(FunctionArgExpr::Wildcard)),
            None
        );
    }

    #[test]
    fn formats_are_literals_with_small_widths() {
        for (text, is_fine) in [
            ("'%s'", true),
            ("'100% of 12345'", true),
            ("'%9999s'", true),
            ("'%10000s'", false),
            ("'%-9999s'", true),
            ("'%-10000s'", false),
            ("'%1$9999s'", true),
            ("'%1$10000s'", false),
            ("'%10000$s'", false),
            ("'%*s'", false),
            ("'%1$*2$s'", false),
            ("'%s %10000s'", false),
            ("E'%s'", true),
            ("$$%10000s$$", false),
            ("$$%5s$$", true),
            ("NULL", true),
            ("'%s'::text", true),
            ("('%10000s'::text)", false),
            ("5", false),
            ("a", false),
            ("'a' || 'b'", false),
        ] {
            let found = check_format(Some(&argument(text)));
            assert_eq!(found.is_ok(), is_fine, "{text}");
        }
        assert!(check_format(None).is_err());
    }

    #[test]
    fn casts_to_text_are_looked_through() {
        for (text, expected) in [
            ("a::text", "a"),
            ("(CAST(a AS text))::text", "a"),
            ("a::int", "a::INT"),
            ("a::varchar", "a::VARCHAR"),
        ] {
            assert_eq!(uncast(&parse(text)).to_string(), expected, "{text}");
        }
    }
}
