//! Row filters as SQL: plain three-valued logic, `(permits) AND NOT (forbids)`.
//!
//! No COALESCE and no IS NOT DISTINCT FROM: a NULL permit admits nothing and a NULL forbid drops the
//! row, and indexes stay usable. On SQLite a column of a table that is not STRICT can hold values of
//! another type than declared; such a value is to a policy what an evaluation error is: its permit
//! does not admit the row, its forbid drops it.

use std::collections::BTreeSet;

use sqlparser::ast::{BinaryOperator, Expr, Ident, ObjectName, ObjectNamePart};

use super::sql;
use crate::{
    catalog::{Column, Relation, TypeClass},
    code::Code,
    dialect::Dialect,
    policy::obligation::{Comparison, Literal, Operand, PatternPiece, Predicate},
    rejection::Rejection,
};

/// The condition that `predicate` is for rows of `relation`.
pub(super) fn expression(
    predicate: &Predicate,
    relation: &Relation,
    dialect: Dialect,
    functions: &mut BTreeSet<String>,
) -> Result<Expr, Rejection> {
    let mut filter = Filter {
        relation,
        dialect,
        functions,
    };
    let parts = match predicate {
        Predicate::And(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let mut conditions = Vec::with_capacity(parts.len());
    for part in parts {
        conditions.push(match part {
            // A permit without condition: only the forbids remain.
            Predicate::Or(permits) if *permits == [Predicate::Constant(true)] => continue,
            Predicate::Or(permits) => {
                let permits = permits
                    .iter()
                    .map(|p| filter.policy(p))
                    .collect::<Result<Vec<_>, _>>()?;
                sql::joined(permits, &BinaryOperator::Or, false)
            }
            other => filter.policy(other)?,
        });
    }
    Ok(all(conditions))
}

/// The columns that `predicate` looks at.
pub(super) fn columns(predicate: &Predicate, into: &mut BTreeSet<u16>) {
    let operand = |operand: &Operand, into: &mut BTreeSet<u16>| match operand {
        Operand::Column(index) => {
            into.insert(*index);
        }
        Operand::Literal(_) => {}
    };
    match predicate {
        Predicate::Constant(_) => {}
        Predicate::And(parts) | Predicate::Or(parts) => {
            parts.iter().for_each(|part| columns(part, into));
        }
        Predicate::Not(inner) => columns(inner, into),
        Predicate::If(condition, then, otherwise) => {
            [condition, then, otherwise]
                .into_iter()
                .for_each(|part| columns(part, into));
        }
        Predicate::Column(index) | Predicate::Has(index) | Predicate::Like(index, _) => {
            into.insert(*index);
        }
        Predicate::Compare(left, _, right) => {
            operand(left, into);
            operand(right, into);
        }
        Predicate::In(left, _) => operand(left, into),
    }
}

struct Filter<'f> {
    relation: &'f Relation,
    dialect: Dialect,
    functions: &'f mut BTreeSet<String>,
}

impl<'f> Filter<'f> {
    /// What one policy says, and the storage classes it may say it of.
    fn policy(&mut self, predicate: &Predicate) -> Result<Expr, Rejection> {
        let condition = self.condition(predicate)?;
        let mut used = BTreeSet::new();
        columns(predicate, &mut used);
        let mut conditions = vec![condition];
        for index in used {
            if self.relation.strict || self.relation.rowid_alias == Some(index) {
                continue;
            }
            let column = self.column(index)?;
            let class = match column.class {
                TypeClass::Integer | TypeClass::Boolean => "integer",
                TypeClass::Text => "text",
                TypeClass::Number
                | TypeClass::Decimal
                | TypeClass::Padded
                | TypeClass::Enum
                | TypeClass::Uuid
                | TypeClass::Blob
                | TypeClass::Date
                | TypeClass::Time
                | TypeClass::Timestamp
                | TypeClass::TimestampTz
                | TypeClass::Interval
                | TypeClass::Json
                | TypeClass::Network
                | TypeClass::Other => return Err(no_form()),
            };
            self.functions.insert("typeof".to_owned());
            conditions.push(Expr::InList {
                expr: Box::new(sql::call(
                    self.dialect,
                    "typeof",
                    vec![sql::column(self.dialect, &column.name)],
                )),
                list: vec![
                    sql::text(self.dialect, class),
                    sql::text(self.dialect, "null"),
                ],
                negated: false,
            });
        }
        Ok(all(conditions))
    }

    fn condition(&mut self, predicate: &Predicate) -> Result<Expr, Rejection> {
        Ok(match predicate {
            Predicate::Constant(value) => sql::boolean(*value),
            Predicate::And(parts) => {
                let parts = parts
                    .iter()
                    .map(|p| self.condition(p))
                    .collect::<Result<_, _>>()?;
                sql::joined(parts, &BinaryOperator::And, true)
            }
            Predicate::Or(parts) => {
                let parts = parts
                    .iter()
                    .map(|p| self.condition(p))
                    .collect::<Result<_, _>>()?;
                sql::joined(parts, &BinaryOperator::Or, false)
            }
            Predicate::Not(inner) => sql::not(self.condition(inner)?),
            Predicate::If(condition, then, otherwise) => {
                let condition = self.condition(condition)?;
                // A NULL condition chooses neither arm, as ELSE would.
                sql::case(
                    vec![
                        (sql::parens(condition.clone()), self.condition(then)?),
                        (sql::not(condition), self.condition(otherwise)?),
                    ],
                    None,
                )
            }
            Predicate::Column(index) => {
                let column = self.column(*index)?;
                sql::binary(
                    sql::column(self.dialect, &column.name),
                    BinaryOperator::Eq,
                    sql::integer(1),
                )
            }
            Predicate::Has(index) => Expr::IsNotNull(Box::new(sql::column(
                self.dialect,
                &self.column(*index)?.name,
            ))),
            Predicate::Compare(left, comparison, right) => {
                let op = match comparison {
                    Comparison::Equal => BinaryOperator::Eq,
                    Comparison::NotEqual => BinaryOperator::NotEq,
                    Comparison::Less => BinaryOperator::Lt,
                    Comparison::LessOrEqual => BinaryOperator::LtEq,
                    Comparison::Greater => BinaryOperator::Gt,
                    Comparison::GreaterOrEqual => BinaryOperator::GtEq,
                };
                sql::binary(self.operand(left)?, op, self.operand(right)?)
            }
            Predicate::In(_, literals) if literals.is_empty() => sql::boolean(false),
            Predicate::In(left, literals) => Expr::InList {
                expr: Box::new(self.operand(left)?),
                list: literals
                    .iter()
                    .map(|value| literal(value, self.dialect))
                    .collect::<Result<_, _>>()?,
                negated: false,
            },
            Predicate::Like(index, pieces) => {
                self.functions.insert("glob".to_owned());
                let column = self.column(*index)?;
                sql::binary(
                    sql::column(self.dialect, &column.name),
                    BinaryOperator::Glob,
                    literal(&Literal::Text(glob(pieces)), self.dialect)?,
                )
            }
        })
    }

    fn operand(&self, operand: &Operand) -> Result<Expr, Rejection> {
        match operand {
            Operand::Column(index) => {
                let column = self.column(*index)?;
                let name = sql::column(self.dialect, &column.name);
                // Cedar compares strings bytewise.
                if column.class == TypeClass::Text && column.collation != "BINARY" {
                    return Ok(Expr::Collate {
                        expr: Box::new(name),
                        collation: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(
                            "BINARY",
                        ))]),
                    });
                }
                Ok(name)
            }
            Operand::Literal(value) => literal(value, self.dialect),
        }
    }

    fn column(&self, index: u16) -> Result<&'f Column, Rejection> {
        self.relation.column(index).ok_or_else(no_form)
    }
}

/// All of `conditions`; a single one as it is.
fn all(mut conditions: Vec<Expr>) -> Expr {
    if conditions.len() == 1 {
        return conditions.swap_remove(0);
    }
    sql::joined(conditions, &BinaryOperator::And, true)
}

fn literal(literal: &Literal, dialect: Dialect) -> Result<Expr, Rejection> {
    match literal {
        Literal::Integer(value) => Ok(sql::integer(*value)),
        Literal::Boolean(value) => Ok(sql::integer(i64::from(*value))),
        Literal::Text(value) if value.contains('\0') => Err(no_form()),
        Literal::Text(value) => Ok(sql::text(dialect, value)),
    }
}

/// A GLOB pattern, which is bytewise: its own special characters stand in brackets.
fn glob(pieces: &[PatternPiece]) -> String {
    let mut pattern = String::new();
    for piece in pieces {
        match piece {
            PatternPiece::Any => pattern.push('*'),
            PatternPiece::Text(text) => {
                for c in text.chars() {
                    if matches!(c, '*' | '?' | '[') {
                        pattern.extend(['[', c, ']']);
                    } else {
                        pattern.push(c);
                    }
                }
            }
        }
    }
    pattern
}

fn no_form() -> Rejection {
    Rejection::new(
        Code::ObligationInapplicable,
        "a row filter that policy demands has no form in this dialect",
    )
}
