//! An operator's expression as SQL. What is printed here can raise for no value: each construct is one of
//! `syntax/mask_expr/mod.rs`, each text a cast of what has one, each operator in parentheses of its own.

use std::collections::BTreeSet;

use sqlparser::ast::{
    BinaryOperator, CaseWhen, DataType, Expr, TimezoneInfo, TrimWhereField, Value,
    helpers::attached_token::AttachedToken,
};

use crate::rewrite::ast;
use crate::{
    catalog::{Column, TypeClass},
    dialect::Dialect,
    syntax::mask_expr::{
        Arithmetic, Comparing, Formula, FormulaCondition, TrimSide, ValueKind, compared_kind,
    },
};

/// `formula` over `column`; none of what makes no sense of its type.
pub(in crate::rewrite) fn expression(
    formula: &Formula,
    column: &Column,
    dialect: Dialect,
    functions: &mut BTreeSet<String>,
) -> Option<Expr> {
    let mut writer = Writer {
        column,
        dialect,
        value: ValueKind::from_class(column.class, dialect),
        functions,
    };
    let kind = formula.kind(writer.value).ok()?;
    let expr = writer.of_kind(formula, kind)?;
    Some(match (kind, dialect) {
        // Whoever sorts by it sorts by the database's own collation.
        (ValueKind::Text, Dialect::Postgres) => ast::collate(ast::parens(expr), "default", dialect),
        (ValueKind::Text, Dialect::Sqlite | Dialect::Mysql) => ast::mysql_text(expr, dialect),
        (ValueKind::Null | ValueKind::Number | ValueKind::Truth | ValueKind::Moment(_), _) => expr,
    })
}

struct Writer<'w> {
    column: &'w Column,
    dialect: Dialect,
    /// What the column gives.
    value: Option<ValueKind>,
    functions: &'w mut BTreeSet<String>,
}

impl Writer<'_> {
    fn kind(&self, formula: &Formula) -> Option<ValueKind> {
        formula.kind(self.value).ok()
    }

    /// As text.
    ///
    /// On PostgreSQL every text is of the collation "C": searching in one of a collation that is not
    /// deterministic raises, but not for every value.
    fn text(&mut self, formula: &Formula) -> Option<Expr> {
        self.of_kind(formula, ValueKind::Text)
    }

    /// As what it is compared with or stands beside.
    fn of_kind(&mut self, formula: &Formula, wanted: ValueKind) -> Option<Expr> {
        let own = self.kind(formula)?;
        match (own, wanted) {
            (ValueKind::Text, ValueKind::Moment(class)) => {
                let Formula::Text(moment) = formula else {
                    return None;
                };
                let own = match (class, self.dialect) {
                    (TypeClass::Date, _) => DataType::Date,
                    (TypeClass::TimestampTz, Dialect::Postgres) => {
                        DataType::Timestamp(None, TimezoneInfo::WithTimeZone)
                    }
                    (_, Dialect::Postgres) => DataType::Timestamp(None, TimezoneInfo::None),
                    (_, Dialect::Sqlite | Dialect::Mysql) => DataType::Datetime(None),
                };
                // A day that is compared with a second is one itself.
                let own = match (own, moment.len() > DAY) {
                    (DataType::Date, true) => match self.dialect {
                        Dialect::Postgres => DataType::Timestamp(None, TimezoneInfo::None),
                        Dialect::Sqlite | Dialect::Mysql => DataType::Datetime(None),
                    },
                    (own, _) => own,
                };
                Some(ast::cast(ast::text(self.dialect, moment), own))
            }
            (ValueKind::Number | ValueKind::Truth | ValueKind::Moment(_), ValueKind::Text) => {
                let value = self.plain(formula)?;
                Some(self.cast_text(value))
            }
            (ValueKind::Text, ValueKind::Text | ValueKind::Number | ValueKind::Truth)
            | (
                ValueKind::Number | ValueKind::Truth | ValueKind::Moment(_),
                ValueKind::Number | ValueKind::Truth | ValueKind::Moment(_),
            )
            | (ValueKind::Null, _)
            | (_, ValueKind::Null) => self.plain(formula),
        }
    }

    fn cast_text(&self, expr: Expr) -> Expr {
        let text = ast::cast_text(self.dialect, expr);
        match self.dialect {
            Dialect::Postgres => ast::collate(text, "C", self.dialect),
            Dialect::Sqlite | Dialect::Mysql => text,
        }
    }

    /// As what it is.
    fn plain(&mut self, formula: &Formula) -> Option<Expr> {
        Some(match formula {
            Formula::Value => {
                let value = ast::column(self.dialect, &self.column.name);
                match self.value? {
                    ValueKind::Text => self.cast_text(value),
                    ValueKind::Null
                    | ValueKind::Number
                    | ValueKind::Truth
                    | ValueKind::Moment(_) => value,
                }
            }
            Formula::Null => ast::null(),
            Formula::Text(text) => ast::text(self.dialect, text),
            Formula::Number(digits) => number(digits),
            Formula::Truth(truth) => ast::boolean(*truth),
            Formula::Case {
                operand,
                arms,
                otherwise,
            } => self.case(formula, operand.as_deref(), arms, otherwise.as_deref())?,
            Formula::Condition(condition) => self.condition(condition)?,
            Formula::Concat(left, right) => ast::binary(
                ast::parens(self.text(left)?),
                BinaryOperator::StringConcat,
                ast::parens(self.text(right)?),
            ),
            Formula::Arithmetic(left, op, right) => {
                let op = match op {
                    Arithmetic::Plus => BinaryOperator::Plus,
                    Arithmetic::Minus => BinaryOperator::Minus,
                    Arithmetic::Times => BinaryOperator::Multiply,
                };
                self.both(left, op, right)?
            }
            Formula::AsText(inner) => self.text(inner)?,
            Formula::Coalesce(parts) => {
                let kind = self.kind(formula)?;
                let parts = parts
                    .iter()
                    .map(|part| self.of_kind(part, kind))
                    .collect::<Option<Vec<_>>>()?;
                self.functions.insert("coalesce".to_owned());
                ast::keyword_call("coalesce", parts)
            }
            Formula::Nullif(left, right) => {
                let kind = compared_kind(left, right, self.value).ok()?;
                let args = vec![self.of_kind(left, kind)?, self.of_kind(right, kind)?];
                self.functions.insert("nullif".to_owned());
                ast::keyword_call("nullif", args)
            }
            Formula::Call(name, args) => self.call(name, args)?,
            Formula::Trim { side, what, text } => self.trim(*side, what.as_deref(), text)?,
        })
    }

    fn condition(&mut self, condition: &FormulaCondition) -> Option<Expr> {
        Some(match condition {
            FormulaCondition::Compare(left, comparing, right) => {
                let kind = compared_kind(left, right, self.value).ok()?;
                let left = ast::parens(self.of_kind(left, kind)?);
                let right = ast::parens(self.of_kind(right, kind)?);
                ast::binary(left, operator(*comparing), right)
            }
            FormulaCondition::Between {
                operand,
                low,
                high,
                negated,
            } => {
                let kind = compared_kind(operand, low, self.value).ok()?;
                Expr::Between {
                    expr: Box::new(ast::parens(self.of_kind(operand, kind)?)),
                    negated: *negated,
                    low: Box::new(ast::parens(self.of_kind(low, kind)?)),
                    high: Box::new(ast::parens(self.of_kind(high, kind)?)),
                }
            }
            FormulaCondition::In {
                operand,
                list,
                negated,
            } => {
                let kinds = list
                    .iter()
                    .map(|item| compared_kind(operand, item, self.value));
                let kind = kinds
                    .filter_map(Result::ok)
                    .find(|kind| *kind != ValueKind::Null)
                    .unwrap_or(ValueKind::Null);
                Expr::InList {
                    expr: Box::new(ast::parens(self.of_kind(operand, kind)?)),
                    list: list
                        .iter()
                        .map(|item| self.of_kind(item, kind))
                        .collect::<Option<Vec<_>>>()?,
                    negated: *negated,
                }
            }
            FormulaCondition::IsNull { operand, negated } => {
                let operand = if matches!(**operand, Formula::Value) {
                    ast::column(self.dialect, &self.column.name)
                } else {
                    self.plain(operand)?
                };
                let operand = Box::new(ast::parens(operand));
                if *negated {
                    Expr::IsNotNull(operand)
                } else {
                    Expr::IsNull(operand)
                }
            }
            FormulaCondition::Like {
                operand,
                pattern,
                negated,
            } => {
                if self.dialect == Dialect::Sqlite {
                    self.functions.insert("like".to_owned());
                }
                Expr::Like {
                    negated: *negated,
                    any: false,
                    expr: Box::new(ast::parens(self.text(operand)?)),
                    pattern: Box::new(ast::text(self.dialect, pattern)),
                    escape_char: None,
                }
            }
            FormulaCondition::And(left, right) => self.both(left, BinaryOperator::And, right)?,
            FormulaCondition::Or(left, right) => self.both(left, BinaryOperator::Or, right)?,
            FormulaCondition::Not(inner) => ast::not(self.plain(inner)?),
        })
    }

    fn both(&mut self, left: &Formula, op: BinaryOperator, right: &Formula) -> Option<Expr> {
        let left = ast::parens(self.plain(left)?);
        let right = ast::parens(self.plain(right)?);
        Some(ast::binary(left, op, right))
    }

    fn case(
        &mut self,
        whole: &Formula,
        operand: Option<&Formula>,
        arms: &[(Formula, Formula)],
        otherwise: Option<&Formula>,
    ) -> Option<Expr> {
        let result = self.kind(whole)?;
        let kinds = arms
            .iter()
            .filter_map(|(when, _)| compared_kind(operand?, when, self.value).ok());
        let asked = kinds
            .into_iter()
            .find(|kind| *kind != ValueKind::Null)
            .unwrap_or(ValueKind::Null);
        let conditions = arms
            .iter()
            .map(|(when, then)| {
                let condition = match operand {
                    Some(_) => self.of_kind(when, asked)?,
                    None => self.plain(when)?,
                };
                Some(CaseWhen {
                    condition,
                    result: self.of_kind(then, result)?,
                })
            })
            .collect::<Option<Vec<_>>>()?;
        let operand = match operand {
            Some(operand) => Some(Box::new(ast::parens(self.of_kind(operand, asked)?))),
            None => None,
        };
        let else_result = match otherwise {
            Some(otherwise) => Some(Box::new(self.of_kind(otherwise, result)?)),
            None => None,
        };
        Some(Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand,
            conditions,
            else_result,
        })
    }

    fn function(&mut self, name: &str, args: Vec<Expr>) -> Expr {
        self.functions.insert(match self.dialect {
            Dialect::Sqlite | Dialect::Mysql => name.to_owned(),
            Dialect::Postgres => format!("pg_catalog.{name}"),
        });
        ast::call(self.dialect, name, args)
    }

    fn call(&mut self, name: &str, args: &[Formula]) -> Option<Expr> {
        let mut written = Vec::with_capacity(args.len());
        for (position, arg) in args.iter().enumerate() {
            let is_text = position == 0 || name == "concat";
            written.push(if is_text {
                self.text(arg)?
            } else {
                self.plain(arg)?
            });
        }
        match (name, self.dialect) {
            // "C" knows the case of ASCII letters alone.
            ("lower" | "upper", Dialect::Postgres) => {
                let text = ast::collate(ast::parens(written.pop()?), "default", self.dialect);
                let cased = self.function(name, vec![text]);
                Some(ast::collate(cased, "C", self.dialect))
            }
            // The parser has a node of its own for it, with a schema too.
            ("substr", _) => {
                self.functions.insert(match self.dialect {
                    Dialect::Sqlite | Dialect::Mysql => "substr".to_owned(),
                    Dialect::Postgres => "pg_catalog.substr".to_owned(),
                });
                let mut written = written.into_iter();
                Some(ast::substr(
                    written.next()?,
                    written.next()?,
                    written.next(),
                ))
            }
            (_, Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql) => {
                Some(self.function(name, written))
            }
        }
    }

    fn trim(&mut self, side: Option<TrimSide>, what: Option<&str>, text: &Formula) -> Option<Expr> {
        let text = self.text(text)?;
        let what = what.map(|what| ast::text(self.dialect, what));
        match self.dialect {
            Dialect::Postgres => {
                let name = match side {
                    Some(TrimSide::Both) | None => "btrim",
                    Some(TrimSide::Leading) => "ltrim",
                    Some(TrimSide::Trailing) => "rtrim",
                };
                let args = std::iter::once(text).chain(what).collect();
                Some(self.function(name, args))
            }
            Dialect::Sqlite => {
                let name = match side {
                    Some(TrimSide::Both) | None => {
                        self.functions.insert("trim".to_owned());
                        return Some(Expr::Trim {
                            expr: Box::new(text),
                            trim_where: None,
                            trim_what: None,
                            trim_characters: what.map(|what| vec![what]),
                        });
                    }
                    Some(TrimSide::Leading) => "ltrim",
                    Some(TrimSide::Trailing) => "rtrim",
                };
                let args = std::iter::once(text).chain(what).collect();
                Some(self.function(name, args))
            }
            Dialect::Mysql => {
                self.functions.insert("trim".to_owned());
                let side = match (side, &what) {
                    (None, None) => None,
                    (Some(TrimSide::Both) | None, _) => Some(TrimWhereField::Both),
                    (Some(TrimSide::Leading), _) => Some(TrimWhereField::Leading),
                    (Some(TrimSide::Trailing), _) => Some(TrimWhereField::Trailing),
                };
                // A side says what is trimmed.
                let what = what.or_else(|| side.map(|_| ast::text(self.dialect, " ")));
                Some(Expr::Trim {
                    expr: Box::new(text),
                    trim_where: side,
                    trim_what: what.map(Box::new),
                    trim_characters: None,
                })
            }
        }
    }
}

/// How long `2026-01-31` is.
const DAY: usize = 10;

fn number(digits: &str) -> Expr {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    let number = Expr::Value(Value::Number(digits.to_owned(), false).into());
    if sign {
        ast::parens(Expr::UnaryOp {
            op: sqlparser::ast::UnaryOperator::Minus,
            expr: Box::new(number),
        })
    } else {
        number
    }
}

fn operator(comparing: Comparing) -> BinaryOperator {
    match comparing {
        Comparing::Equal => BinaryOperator::Eq,
        Comparing::NotEqual => BinaryOperator::NotEq,
        Comparing::Less => BinaryOperator::Lt,
        Comparing::LessOrEqual => BinaryOperator::LtEq,
        Comparing::Greater => BinaryOperator::Gt,
        Comparing::GreaterOrEqual => BinaryOperator::GtEq,
    }
}
