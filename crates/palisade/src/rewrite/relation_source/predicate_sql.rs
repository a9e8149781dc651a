//! Comparisons of a row filter, with the meaning they have in a policy: strings bytewise, no
//! conversion from one type to another, and, where it can be, in a form that an index serves.

use sqlparser::ast::{BinaryOperator, Expr};

use crate::rewrite::ast;
use crate::{
    catalog::{Column, TypeClass},
    code::Code,
    dialect::Dialect,
    policy::obligation::{Comparison, Literal, PatternPiece},
    rejection::Rejection,
};

/// A side of a comparison.
#[derive(Clone, Copy)]
pub(in crate::rewrite) enum ComparedSide<'f> {
    Column(&'f Column),
    Literal(&'f Literal),
}

/// `left comparison right`.
pub(in crate::rewrite) fn compare(
    left: ComparedSide<'_>,
    comparison: Comparison,
    right: ComparedSide<'_>,
    dialect: Dialect,
) -> Result<Expr, Rejection> {
    let op = operator(comparison);
    if !(is_text(left) && is_text(right)) {
        let (left, right) = (plain_side(left, dialect)?, plain_side(right, dialect)?);
        return Ok(ast::binary(left, op, right));
    }
    let negated = match comparison {
        Comparison::Equal => false,
        Comparison::NotEqual => true,
        Comparison::Less
        | Comparison::LessOrEqual
        | Comparison::Greater
        | Comparison::GreaterOrEqual => return Err(no_form()),
    };
    if let Some((column, text)) = of_class(TypeClass::Uuid, left, right) {
        let name = ast::column(dialect, &column.name);
        return Ok(match uuid(text, dialect)? {
            Some(value) => ast::binary(name, op, value),
            // No value reads so: false, or NULL where the column is NULL.
            None => ast::binary(name.clone(), operator(opposite(comparison)), name),
        });
    }
    let columns = match (left, right) {
        (ComparedSide::Column(one), ComparedSide::Column(other)) => {
            if one.class == TypeClass::Uuid && other.class == TypeClass::Uuid {
                let (one, other) = (&one.name, &other.name);
                let (one, other) = (ast::column(dialect, one), ast::column(dialect, other));
                return Ok(ast::binary(one, op, other));
            }
            true
        }
        (ComparedSide::Column(_), ComparedSide::Literal(_))
        | (ComparedSide::Literal(_), ComparedSide::Column(_) | ComparedSide::Literal(_)) => false,
    };
    match dialect {
        Dialect::Sqlite => Ok(ast::binary(
            sqlite_text(left, dialect)?,
            op,
            sqlite_text(right, dialect)?,
        )),
        Dialect::Postgres => {
            let (mut text, right_text) = (
                postgres_text(left, dialect)?,
                postgres_text(right, dialect)?,
            );
            // Two columns of different collations have no equality without this.
            if columns || !is_deterministic(left) || !is_deterministic(right) {
                text = ast::parens(ast::collate(text, "C", dialect));
            }
            Ok(ast::binary(text, op, right_text))
        }
        Dialect::Mysql => {
            let exact = ast::binary(bytes(left, dialect)?, op, bytes(right, dialect)?);
            match of_class(TypeClass::Text, left, right) {
                Some((column, text)) if !negated => {
                    let name = ast::column(dialect, &column.name);
                    let near = ast::binary(name, BinaryOperator::Eq, ast::text(dialect, text));
                    Ok(ast::join_by(vec![near, exact], &BinaryOperator::And, true))
                }
                Some(_) | None => Ok(exact),
            }
        }
    }
}

/// `column IN (literals)`; there is at least one.
pub(in crate::rewrite) fn in_list(
    column: &Column,
    literals: &[Literal],
    dialect: Dialect,
) -> Result<Expr, Rejection> {
    let side = ComparedSide::Column(column);
    let name = || ast::column(dialect, &column.name);
    let list = |expr, list| Expr::InList {
        expr: Box::new(expr),
        list,
        negated: false,
    };
    let each = |make: &dyn Fn(&Literal) -> Result<Expr, Rejection>| {
        literals.iter().map(make).collect::<Result<Vec<_>, _>>()
    };
    if !is_text(side) {
        let literals = each(&|literal| plain_side(ComparedSide::Literal(literal), dialect))?;
        return Ok(list(plain_side(side, dialect)?, literals));
    }
    if column.class == TypeClass::Uuid {
        let mut values = Vec::new();
        for literal in literals {
            values.extend(uuid(text(literal)?, dialect)?);
        }
        return Ok(if values.is_empty() {
            ast::binary(name(), BinaryOperator::NotEq, name())
        } else {
            list(name(), values)
        });
    }
    match dialect {
        Dialect::Sqlite => {
            let literals = each(&|literal| sqlite_text(ComparedSide::Literal(literal), dialect))?;
            Ok(list(sqlite_text(side, dialect)?, literals))
        }
        Dialect::Postgres => {
            let mut subject = postgres_text(side, dialect)?;
            if !is_deterministic(side) {
                subject = ast::parens(ast::collate(subject, "C", dialect));
            }
            let literals = each(&|literal| postgres_text(ComparedSide::Literal(literal), dialect))?;
            Ok(list(subject, literals))
        }
        Dialect::Mysql => {
            let exact = each(&|literal| bytes(ComparedSide::Literal(literal), dialect))?;
            let exact = list(bytes(side, dialect)?, exact);
            if column.class != TypeClass::Text {
                return Ok(exact);
            }
            let near = each(&|literal| Ok(ast::text(dialect, text(literal)?)))?;
            let near = list(name(), near);
            Ok(ast::join_by(vec![near, exact], &BinaryOperator::And, true))
        }
    }
}

/// The text of `column` matches a pattern, bytewise.
pub(in crate::rewrite) fn like(
    column: &Column,
    pieces: &[PatternPiece],
    dialect: Dialect,
) -> Result<Expr, Rejection> {
    let side = ComparedSide::Column(column);
    let like = |subject, pattern| Expr::Like {
        negated: false,
        any: false,
        expr: Box::new(subject),
        pattern: Box::new(pattern),
        escape_char: Some(Box::new(ast::text(dialect, &ESCAPE.to_string()))),
    };
    match dialect {
        Dialect::Sqlite => {
            let pattern = Literal::Text(glob(pieces));
            Ok(ast::binary(
                ast::column(dialect, &column.name),
                BinaryOperator::Glob,
                plain_side(ComparedSide::Literal(&pattern), dialect)?,
            ))
        }
        Dialect::Postgres => {
            let subject = ast::collate(postgres_text(side, dialect)?, "C", dialect);
            let pattern = Literal::Text(pattern(pieces));
            let pattern = plain_side(ComparedSide::Literal(&pattern), dialect)?;
            Ok(like(ast::parens(subject), pattern))
        }
        Dialect::Mysql => {
            let pattern = Literal::Text(pattern(pieces));
            let pattern = bytes(ComparedSide::Literal(&pattern), dialect)?;
            Ok(like(bytes(side, dialect)?, pattern))
        }
    }
}

/// `column`, a boolean, is true.
pub(in crate::rewrite) fn is_true(column: &Column, dialect: Dialect) -> Expr {
    let name = ast::column(dialect, &column.name);
    match dialect {
        Dialect::Sqlite => ast::binary(name, BinaryOperator::Eq, ast::integer(1)),
        Dialect::Postgres => name,
        Dialect::Mysql => ast::binary(name, BinaryOperator::NotEq, ast::integer(0)),
    }
}

fn operator(comparison: Comparison) -> BinaryOperator {
    match comparison {
        Comparison::Equal => BinaryOperator::Eq,
        Comparison::NotEqual => BinaryOperator::NotEq,
        Comparison::Less => BinaryOperator::Lt,
        Comparison::LessOrEqual => BinaryOperator::LtEq,
        Comparison::Greater => BinaryOperator::Gt,
        Comparison::GreaterOrEqual => BinaryOperator::GtEq,
    }
}

fn opposite(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
        Comparison::Less => Comparison::GreaterOrEqual,
        Comparison::LessOrEqual => Comparison::Greater,
        Comparison::Greater => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual => Comparison::Less,
    }
}

/// Whether a policy takes the side for a string.
fn is_text(side: ComparedSide<'_>) -> bool {
    match side {
        ComparedSide::Column(column) => {
            matches!(
                column.class,
                TypeClass::Text | TypeClass::Uuid | TypeClass::Enum
            )
        }
        ComparedSide::Literal(Literal::Text(_)) => true,
        ComparedSide::Literal(
            Literal::Integer(_) | Literal::Boolean(_) | Literal::Decimal(_) | Literal::Datetime(_),
        ) => false,
    }
}

/// A value of a key, which the engine compares as it compares keys.
pub(in crate::rewrite) fn key_value(
    literal: &Literal,
    dialect: Dialect,
) -> Result<Expr, Rejection> {
    plain_side(ComparedSide::Literal(literal), dialect)
}

/// A side that engines compare as policies do.
fn plain_side(side: ComparedSide<'_>, dialect: Dialect) -> Result<Expr, Rejection> {
    match side {
        ComparedSide::Column(column) => match (column.class, dialect) {
            (TypeClass::Boolean, Dialect::Mysql) => Ok(ast::parens(is_true(column, dialect))),
            (TypeClass::Integer | TypeClass::Boolean, _)
            | (TypeClass::Decimal, Dialect::Postgres | Dialect::Mysql)
            | (TypeClass::TimestampTz, Dialect::Postgres) => Ok(ast::column(dialect, &column.name)),
            // What has no attribute reaches no filter.
            _ => Err(no_form()),
        },
        ComparedSide::Literal(Literal::Integer(value)) => Ok(ast::integer(*value)),
        ComparedSide::Literal(Literal::Boolean(value)) => Ok(match dialect {
            Dialect::Sqlite => ast::integer(i64::from(*value)),
            Dialect::Postgres | Dialect::Mysql => ast::boolean(*value),
        }),
        ComparedSide::Literal(Literal::Text(value)) if value.contains('\0') => Err(no_form()),
        ComparedSide::Literal(Literal::Text(value)) => Ok(ast::text(dialect, value)),
        ComparedSide::Literal(Literal::Decimal(value)) => match dialect {
            Dialect::Sqlite => Err(no_form()),
            Dialect::Postgres | Dialect::Mysql => Ok(ast::decimal(*value)),
        },
        ComparedSide::Literal(Literal::Datetime(value)) => match dialect {
            Dialect::Postgres => Ok(ast::timestamptz(*value)),
            Dialect::Sqlite | Dialect::Mysql => Err(no_form()),
        },
    }
}

/// Cedar compares strings bytewise, as SQLite does under BINARY.
fn sqlite_text(side: ComparedSide<'_>, dialect: Dialect) -> Result<Expr, Rejection> {
    match side {
        ComparedSide::Column(column) => {
            let name = ast::column(dialect, &column.name);
            Ok(if column.collation == "BINARY" {
                name
            } else {
                ast::collate(name, "BINARY", dialect)
            })
        }
        ComparedSide::Literal(_) => plain_side(side, dialect),
    }
}

/// A side as PostgreSQL's `text`: an enum's label, a `name` before it cuts a literal to 63 bytes.
fn postgres_text(side: ComparedSide<'_>, dialect: Dialect) -> Result<Expr, Rejection> {
    match side {
        ComparedSide::Column(column) => {
            let name = ast::column(dialect, &column.name);
            let declared = column.type_name.split('(').next().unwrap_or_default();
            let is_text = column.class == TypeClass::Text
                && matches!(declared.trim(), "text" | "character varying" | "varchar");
            Ok(if is_text {
                name
            } else {
                ast::cast_text(dialect, name)
            })
        }
        ComparedSide::Literal(_) => plain_side(side, dialect),
    }
}

/// Whether equal means the same bytes. Only a database can add collations of which that is not so,
/// and theirs are known by no name: what is not the engine's own gets another collation.
fn is_deterministic(side: ComparedSide<'_>) -> bool {
    match side {
        ComparedSide::Column(column) => match column.class {
            // A cast gives these the database's own collation, or none.
            TypeClass::Uuid | TypeClass::Enum => true,
            TypeClass::Text
            | TypeClass::Padded
            | TypeClass::Integer
            | TypeClass::Number
            | TypeClass::Decimal
            | TypeClass::Boolean
            | TypeClass::Blob
            | TypeClass::Date
            | TypeClass::Time
            | TypeClass::Timestamp
            | TypeClass::TimestampTz
            | TypeClass::Interval
            | TypeClass::Json
            | TypeClass::Network
            | TypeClass::Other => matches!(
                column.collation.to_ascii_lowercase().as_str(),
                "" | "default" | "c" | "posix" | "ucs_basic" | "binary"
            ),
        },
        ComparedSide::Literal(_) => true,
    }
}

/// The UTF-8 of a side's text, which MySQL compares without collation or padding.
fn bytes(side: ComparedSide<'_>, dialect: Dialect) -> Result<Expr, Rejection> {
    let text = match side {
        ComparedSide::Column(column) => ast::column(dialect, &column.name),
        ComparedSide::Literal(_) => plain_side(side, dialect)?,
    };
    Ok(ast::mysql_bytes(text))
}

/// The column, of this class, and the string of a comparison of the two.
fn of_class<'f>(
    class: TypeClass,
    left: ComparedSide<'f>,
    right: ComparedSide<'f>,
) -> Option<(&'f Column, &'f str)> {
    match (left, right) {
        (ComparedSide::Column(column), ComparedSide::Literal(Literal::Text(text)))
        | (ComparedSide::Literal(Literal::Text(text)), ComparedSide::Column(column))
            if column.class == class =>
        {
            Some((column, text))
        }
        _ => None,
    }
}

fn text(literal: &Literal) -> Result<&str, Rejection> {
    match literal {
        Literal::Text(text) => Ok(text),
        Literal::Integer(_) | Literal::Boolean(_) | Literal::Decimal(_) | Literal::Datetime(_) => {
            Err(no_form())
        }
    }
}

/// `text` as a value of a UUID column: none if it is not as the engine prints UUIDs, in which case no
/// value of the column equals it.
fn uuid(text: &str, dialect: Dialect) -> Result<Option<Expr>, Rejection> {
    let canonical = text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 8 | 13 | 18 | 23) {
                byte == b'-'
            } else {
                matches!(byte, b'0'..=b'9' | b'a'..=b'f')
            }
        });
    if !canonical {
        return Ok(None);
    }
    match dialect {
        Dialect::Sqlite => Err(no_form()),
        Dialect::Postgres => Ok(Some(ast::cast(
            ast::text(dialect, text),
            sqlparser::ast::DataType::Uuid,
        ))),
        Dialect::Mysql => Ok(Some(ast::text(dialect, text))),
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

/// Not a backslash, which some settings take away.
const ESCAPE: char = '!';

/// A LIKE pattern.
fn pattern(pieces: &[PatternPiece]) -> String {
    let mut pattern = String::new();
    for piece in pieces {
        match piece {
            PatternPiece::Any => pattern.push('%'),
            PatternPiece::Text(text) => {
                for c in text.chars() {
                    if matches!(c, '%' | '_' | ESCAPE) {
                        pattern.push(ESCAPE);
                    }
                    pattern.push(c);
                }
            }
        }
    }
    pattern
}

pub(in crate::rewrite) fn no_form() -> Rejection {
    Rejection::new(
        Code::ObligationInapplicable,
        "a row filter that policy demands has no form in this dialect",
    )
}
