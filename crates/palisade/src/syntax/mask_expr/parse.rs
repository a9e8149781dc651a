//! From text to a [`Formula`], or why not.

use std::collections::BTreeSet;

use sqlparser::{
    ast::{
        BinaryOperator, CaseWhen, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
        FunctionArgumentList, FunctionArguments, ObjectNamePart, TrimWhereField, UnaryOperator,
        Value,
    },
    parser::Parser,
    tokenizer::Token,
};

use crate::syntax::mask_expr::{
    Arithmetic, Comparing, Formula, FormulaCondition, TrimSide, Unread,
    bounds::{arithmetic, bound_arithmetic, require_single_use},
    functions,
};
use crate::{
    dialect::Dialect,
    syntax::{
        dialect::{options, parser_dialect},
        key,
    },
};

/// An expression with what it is called by.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) formula: Formula,
    /// As it is printed.
    pub(crate) text: String,
    /// By which names the column was called beside `value`, folded.
    pub(crate) names: BTreeSet<String>,
}

/// What the value is called in every expression.
const VALUE: &str = "value";

/// The most bytes of an expression.
const MAX_BYTES: usize = 2000;

/// How deep an expression may be.
const MAX_DEPTH: usize = 64;

/// Reads `text`.
///
/// # Errors
/// If it is no expression, or holds what could raise for some value.
pub(crate) fn read(text: &str, dialect: Dialect) -> Result<Read, Unread> {
    if text.len() > MAX_BYTES || text.chars().any(char::is_control) {
        return Err(Unread::new(format!(
            "an expression has at most {MAX_BYTES} bytes and no control characters"
        )));
    }
    let unread = |why: String| Unread::new(format!("`{text}` is no expression: {why}"));
    let mut parser = Parser::new(parser_dialect(dialect))
        .with_recursion_limit(MAX_DEPTH)
        .with_options(options())
        .try_with_sql(text)
        .map_err(|error| unread(error.to_string()))?;
    let expr = parser
        .parse_expr()
        .map_err(|error| unread(error.to_string()))?;
    let next = parser.next_token().token;
    if next != Token::EOF {
        return Err(unread(format!("it ends before `{next}`")));
    }
    let mut reader = Reader {
        dialect,
        names: BTreeSet::new(),
    };
    let formula = reader.formula(&expr, MAX_DEPTH)?;
    Ok(Read {
        formula,
        text: expr.to_string(),
        names: reader.names,
    })
}

struct Reader {
    dialect: Dialect,
    names: BTreeSet<String>,
}

impl Reader {
    fn formula(&mut self, expr: &Expr, depth: usize) -> Result<Formula, Unread> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Unread::new(format!(
                "an expression is at most {MAX_DEPTH} levels deep"
            )));
        };
        let dialect = self.dialect;
        let mut inner = |expr: &Expr| self.formula(expr, depth);
        let boxed = |formula| Ok(Box::new(formula));
        match expr {
            Expr::Nested(expr) => inner(expr),
            Expr::Identifier(name) => {
                let name = key(name, self.dialect).into_owned();
                if name != VALUE {
                    self.names.insert(name);
                }
                Ok(Formula::Value)
            }
            Expr::Value(value) => self.constant(&value.value),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: digits,
            } => match inner(digits)? {
                Formula::Number(digits) if !digits.starts_with('-') => {
                    Ok(Formula::Number(format!("-{digits}")))
                }
                _ => Err(arithmetic()),
            },
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => condition(FormulaCondition::Not(Box::new(inner(expr)?))),
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                let operand = operand.as_deref().map(&mut inner).transpose()?;
                let arms = conditions
                    .iter()
                    .map(|CaseWhen { condition, result }| Ok((inner(condition)?, inner(result)?)))
                    .collect::<Result<_, Unread>>()?;
                Ok(Formula::Case {
                    operand: operand.map(Box::new),
                    arms,
                    otherwise: else_result.as_deref().map(inner).transpose()?.map(Box::new),
                })
            }
            Expr::BinaryOp { left, op, right } => {
                let (left, right) = (inner(left)?, inner(right)?);
                self.binary(left, op, right)
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => condition(FormulaCondition::Between {
                operand: boxed(inner(expr)?)?,
                low: boxed(inner(low)?)?,
                high: boxed(inner(high)?)?,
                negated: *negated,
            }),
            Expr::InList {
                expr,
                list,
                negated,
            } => {
                let operand = Box::new(inner(expr)?);
                let list = list.iter().map(inner).collect::<Result<Vec<_>, _>>()?;
                if !list.iter().all(is_constant) {
                    return Err(Unread::new("what stands in `IN (…)` is a constant"));
                }
                condition(FormulaCondition::In {
                    operand,
                    list,
                    negated: *negated,
                })
            }
            Expr::IsNull(expr) => condition(FormulaCondition::IsNull {
                operand: boxed(inner(expr)?)?,
                negated: false,
            }),
            Expr::IsNotNull(expr) => condition(FormulaCondition::IsNull {
                operand: boxed(inner(expr)?)?,
                negated: true,
            }),
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => {
                let operand = Box::new(inner(expr)?);
                match inner(pattern)? {
                    Formula::Text(pattern) if !pattern.contains('\\') => {
                        condition(FormulaCondition::Like {
                            operand,
                            pattern,
                            negated: *negated,
                        })
                    }
                    _ => Err(Unread::new(
                        "the pattern of LIKE is a constant without backslashes",
                    )),
                }
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                if !is_text(data_type, dialect) {
                    return Err(Unread::new(format!(
                        "a cast to `{data_type}` can raise, or cuts the value"
                    ))
                    .help(match dialect {
                        Dialect::Sqlite | Dialect::Postgres => "write `CAST(value AS text)`",
                        Dialect::Mysql => "write `CAST(value AS char)`",
                    }));
                }
                Ok(Formula::AsText(boxed(inner(expr)?)?))
            }
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special: _,
                shorthand: _,
            } => {
                let mut args = vec![inner(expr)?];
                for part in [substring_from, substring_for] {
                    args.extend(part.as_deref().map(&mut inner).transpose()?);
                }
                if substring_from.is_none() {
                    return Err(Unread::new("`substr` says from which character on"));
                }
                self.call("substr", args)
            }
            Expr::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                let text = inner(expr)?;
                let what = match (trim_what, trim_characters.as_deref()) {
                    (None, None) => None,
                    (Some(what), None) => Some(inner(what)?),
                    (None, Some([what])) => Some(inner(what)?),
                    (_, Some(_)) => return Err(Unread::new("`trim` of this form")),
                };
                let side = match trim_where {
                    None => None,
                    Some(TrimWhereField::Both) => Some(TrimSide::Both),
                    Some(TrimWhereField::Leading) => Some(TrimSide::Leading),
                    Some(TrimWhereField::Trailing) => Some(TrimSide::Trailing),
                };
                trim(side, text, what)
            }
            Expr::Function(function) => {
                let (name, args) = self.read_call(function, depth)?;
                self.call(&name, args)
            }
            Expr::Subquery(_)
            | Expr::Exists {
                subquery: _,
                negated: _,
            }
            | Expr::InSubquery {
                expr: _,
                subquery: _,
                negated: _,
            } => Err(Unread::new("a subquery has no place in a mask")),
            Expr::CompoundIdentifier(_) => Err(Unread::new(format!(
                "`{expr}` is no name of the masked column"
            ))
            .help("write `value`")),
            // The enum is foreign and large; what is not above is refused.
            _ => Err(Unread::new(format!(
                "`{expr}` is not known to give a result for every value"
            ))
            .help(CONSTRUCTS)),
        }
    }

    fn constant(&self, value: &Value) -> Result<Formula, Unread> {
        let doubled = |text: &str, quote: &str| {
            if self.dialect == Dialect::Mysql && text.contains('\\') {
                return Err(Unread::new("a constant has no backslashes"));
            }
            Ok(Formula::Text(text.replace(&quote.repeat(2), quote)))
        };
        match value {
            Value::SingleQuotedString(text) => doubled(text, "'"),
            Value::DoubleQuotedString(text) if self.dialect == Dialect::Mysql => {
                doubled(text, "\"")
            }
            Value::Number(digits, false) => {
                let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
                let plain = |digits: &str, most: usize| {
                    (1..=most).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
                };
                if plain(whole, 15) && plain(part, 6) {
                    Ok(Formula::Number(digits.clone()))
                } else {
                    Err(Unread::new(format!(
                        "`{digits}` is no number of at most 15 digits, with at most 6 after the point"
                    )))
                }
            }
            Value::Boolean(truth) => Ok(Formula::Truth(*truth)),
            Value::Null => Ok(Formula::Null),
            Value::Placeholder(_) => Err(Unread::new("a mask has no parameters")),
            // The enum is foreign; every other form of a literal is refused.
            _ => Err(Unread::new(format!(
                "`{value}` is no constant of a mask: write text, a number, TRUE, FALSE or NULL"
            ))),
        }
    }

    fn binary(
        &self,
        left: Formula,
        op: &BinaryOperator,
        right: Formula,
    ) -> Result<Formula, Unread> {
        let (left, right) = (Box::new(left), Box::new(right));
        let comparing = match op {
            BinaryOperator::Eq => Comparing::Equal,
            BinaryOperator::NotEq => Comparing::NotEqual,
            BinaryOperator::Lt => Comparing::Less,
            BinaryOperator::LtEq => Comparing::LessOrEqual,
            BinaryOperator::Gt => Comparing::Greater,
            BinaryOperator::GtEq => Comparing::GreaterOrEqual,
            BinaryOperator::And => return condition(FormulaCondition::And(left, right)),
            BinaryOperator::Or => return condition(FormulaCondition::Or(left, right)),
            BinaryOperator::StringConcat => {
                return match self.dialect {
                    Dialect::Sqlite | Dialect::Postgres => {
                        require_single_use(Formula::Concat(left, right))
                    }
                    Dialect::Mysql => {
                        Err(Unread::new("`||` is OR on MySQL").help("write `concat(…)`"))
                    }
                };
            }
            BinaryOperator::Plus => return bound_arithmetic(left, Arithmetic::Plus, right),
            BinaryOperator::Minus => return bound_arithmetic(left, Arithmetic::Minus, right),
            BinaryOperator::Multiply => return bound_arithmetic(left, Arithmetic::Times, right),
            BinaryOperator::Divide | BinaryOperator::Modulo => return Err(arithmetic()),
            // The enum is foreign; every other operator is refused.
            _ => {
                return Err(Unread::new(format!(
                    "the operator `{op}` is not known to give a result for every value"
                ))
                .help(CONSTRUCTS));
            }
        };
        condition(FormulaCondition::Compare(left, comparing, right))
    }

    /// The name of a plain call, folded, and its arguments.
    fn read_call(
        &mut self,
        function: &Function,
        depth: usize,
    ) -> Result<(String, Vec<Formula>), Unread> {
        let Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment,
            over,
        } = function;
        let ident = match (name.0.as_slice(), self.dialect) {
            ([ObjectNamePart::Identifier(ident)], _) => ident,
            (
                [
                    ObjectNamePart::Identifier(schema),
                    ObjectNamePart::Identifier(ident),
                ],
                Dialect::Postgres,
            ) if key(schema, self.dialect) == "pg_catalog" => ident,
            _ => return Err(self.no_function(&name.to_string())),
        };
        let name = key(ident, self.dialect).to_ascii_lowercase();
        if over.is_some() {
            return Err(Unread::new("a window has no place in a mask"));
        }
        let aggregates = [
            "count",
            "sum",
            "avg",
            "min",
            "max",
            "total",
            "group_concat",
            "string_agg",
            "array_agg",
        ];
        if aggregates.contains(&name.as_str()) || filter.is_some() || !within_group.is_empty() {
            return Err(Unread::new("an aggregate has no place in a mask"));
        }
        let FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses,
        }) = args
        else {
            return Err(self.no_function(&name));
        };
        if *uses_odbc_syntax
            || !matches!(parameters, FunctionArguments::None)
            || null_treatment.is_some()
            || !clauses.is_empty()
        {
            return Err(self.no_function(&name));
        }
        let mut out = Vec::with_capacity(args.len());
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
                return Err(self.no_function(&name));
            };
            out.push(self.formula(arg, depth)?);
        }
        Ok((name, out))
    }

    fn call(&self, name: &str, mut args: Vec<Formula>) -> Result<Formula, Unread> {
        match (name, args.as_slice()) {
            ("coalesce", [_, _, ..]) => return Ok(Formula::Coalesce(args)),
            ("ifnull", [_, _]) if self.dialect != Dialect::Postgres => {
                return Ok(Formula::Coalesce(args));
            }
            ("nullif", [_, _]) => {
                let right = args.pop().map(Box::new);
                let left = args.pop().map(Box::new);
                return left
                    .zip(right)
                    .map(|(left, right)| Formula::Nullif(left, right))
                    .ok_or_else(|| self.no_function(name));
            }
            ("trim" | "btrim", _) => {}
            (_, _) => {
                let callable = functions::list_callables(self.dialect)
                    .find(|callable| callable.name == name)
                    .ok_or_else(|| self.no_function(name))?;
                callable.takes(&args)?;
                return require_single_use(Formula::Call(callable.name, args));
            }
        }
        let what = (args.len() == 2).then(|| args.pop()).flatten();
        match (args.pop(), args.is_empty()) {
            (Some(text), true) => trim(None, text, what),
            (_, _) => Err(self.no_function(name)),
        }
    }

    fn no_function(&self, name: &str) -> Unread {
        let mut names: Vec<_> = functions::list_callables(self.dialect)
            .map(|callable| callable.name)
            .chain(["coalesce", "nullif", "trim"])
            .collect();
        names.sort_unstable();
        Unread::new(format!("`{name}` is no function that a mask calls")).help(format!(
            "those that give a result for every value are `{}`",
            names.join("`, `")
        ))
    }
}

const CONSTRUCTS: &str = "an expression has `value`, constants, CASE, comparisons, AND, OR, NOT, IS NULL, IN, BETWEEN, LIKE, \
     CAST to text, and functions of text";

fn condition(condition: FormulaCondition) -> Result<Formula, Unread> {
    Ok(Formula::Condition(condition))
}

fn is_constant(formula: &Formula) -> bool {
    matches!(
        formula,
        Formula::Null | Formula::Text(_) | Formula::Number(_) | Formula::Truth(_)
    )
}

/// The types that are text of any length.
fn is_text(data_type: &DataType, dialect: Dialect) -> bool {
    match (data_type, dialect) {
        (DataType::Text, Dialect::Sqlite | Dialect::Postgres)
        | (DataType::Varchar(None), Dialect::Postgres)
        | (DataType::Char(None), Dialect::Mysql) => true,
        // The enum is foreign; every other type is refused.
        _ => false,
    }
}

fn trim(side: Option<TrimSide>, text: Formula, what: Option<Formula>) -> Result<Formula, Unread> {
    let what = match what {
        None => None,
        Some(Formula::Text(what)) => Some(what),
        Some(_) => return Err(Unread::new("what `trim` takes off is a constant")),
    };
    Ok(Formula::Trim {
        side,
        what,
        text: Box::new(text),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::syntax::mask_expr::functions::{EVERYWHERE, SERVERS};

    #[test]
    fn total_expressions_are_read() {
        for (text, dialects) in [
            ("value", EVERYWHERE),
            ("'x'", EVERYWHERE),
            (
                "CASE WHEN value IS NULL THEN 'none' WHEN value LIKE 'a%' THEN 'a' ELSE '***' END",
                EVERYWHERE,
            ),
            ("CASE value WHEN 'a' THEN 1 ELSE -1.5 END", EVERYWHERE),
            (
                "value = 'a' OR value <> 'b' OR value < 'c' OR value <= 'd' OR value > 'e' OR value >= 'f'",
                EVERYWHERE,
            ),
            (
                "NOT (value = 'a' OR value IN ('b', NULL) AND value NOT BETWEEN 'c' AND 'd')",
                EVERYWHERE,
            ),
            ("coalesce(nullif(lower(value), ''), 'it''s')", EVERYWHERE),
            ("substr(value, 1, 2)", EVERYWHERE),
            ("trim(replace(value, '-', ''))", EVERYWHERE),
            ("2 * length(value) - 1", EVERYWHERE),
            (
                "substr(value, 1, 3) || '…' || substr(value, -3, 3)",
                &[Dialect::Sqlite],
            ),
            (
                "left(value, 3) || '…' || right(value, 3)",
                &[Dialect::Postgres],
            ),
            ("value::text", &[Dialect::Postgres]),
            ("pg_catalog.left(value, 2)", &[Dialect::Postgres]),
            ("concat(left(value, 2), '***')", SERVERS),
            ("TRIM(LEADING '0' FROM value)", SERVERS),
            ("CAST(value AS char)", &[Dialect::Mysql]),
            ("concat(\"a\", value)", &[Dialect::Mysql]),
        ] {
            for dialect in dialects {
                if let Err(unread) = read(text, *dialect) {
                    panic!("{dialect}: {text}: {unread:?}");
                }
            }
        }
    }

    #[test]
    fn what_can_raise_is_refused_by_name() {
        for (text, message) in [
            ("", "no expression"),
            ("value, value", "ends before `,`"),
            ("value +", "no expression"),
            ("value + 1", "arithmetic"),
            ("-value", "arithmetic"),
            ("1 / 0", "arithmetic"),
            ("length(value) * 4", "arithmetic"),
            ("length(value) % 2", "arithmetic"),
            ("(SELECT 1)", "a subquery"),
            ("value IN (SELECT 1)", "a subquery"),
            ("EXISTS (SELECT 1)", "a subquery"),
            ("max(value)", "an aggregate"),
            ("lower(value) OVER ()", "a window"),
            ("$1", "no parameters"),
            ("t.value", "no name of the masked column"),
            ("CAST(value AS integer)", "a cast to"),
            ("CAST(value AS varchar(3))", "a cast to"),
            ("value LIKE lower(value)", "the pattern of LIKE"),
            ("value LIKE 'a\\'", "the pattern of LIKE"),
            ("value LIKE 'a' ESCAPE '!'", "not known"),
            ("value ~ 'a'", "the operator `~`"),
            ("value IN ('a', lower(value))", "a constant"),
            ("substr(value, 1, -1)", "a whole number from 0"),
            ("substr(value, -3)", "a whole number from 1"),
            ("substr(value, length(value))", "a whole number"),
            ("split_part(value, '@', 0)", "a whole number from 1"),
            ("split_part(value, '', 1)", "not empty"),
            ("lpad(value, 100000, 'x')", "a whole number"),
            ("lower()", "0 arguments"),
            ("pg_sleep(1)", "`pg_sleep` is no function"),
            ("public.lower(value)", "is no function"),
            ("instr(value, 'a')", "`instr` is no function"),
            ("value || value", "more than once"),
            ("replace(value, 'a', 'aa')", "more than once"),
            ("E'a'", "no constant"),
            ("1e400", "no number"),
            ("value > 1234567890123456", "no number"),
            ("ARRAY[value]", "not known"),
        ] {
            let unread = read(text, Dialect::Postgres)
                .map(|read| read.text)
                .unwrap_err();
            assert!(unread.message.contains(message), "{text}: {unread:?}");
        }
        let unread = read("value || 'x'", Dialect::Mysql)
            .map(|read| read.text)
            .unwrap_err();
        assert!(unread.message.contains("OR on MySQL"), "{unread:?}");
        let long = format!("'{}'", "x".repeat(MAX_BYTES));
        assert!(read(&long, Dialect::Sqlite).is_err());
        let deep = format!("{}value{}", "lower(".repeat(80), ")".repeat(80));
        assert!(read(&deep, Dialect::Sqlite).is_err());
    }

    #[test]
    fn names_are_kept() {
        let read = read("lower(value) || Ssn || \"Ssn\"", Dialect::Postgres);
        assert!(read.is_err(), "twice the whole value");
        let read = super::read("coalesce(Ssn, \"Ssn\", value)", Dialect::Postgres).unwrap();
        let names: Vec<_> = read.names.iter().map(String::as_str).collect();
        assert_eq!(names, ["Ssn", "ssn"]);
    }
}
