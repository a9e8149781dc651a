//! What leaves a text as it is: parentheses, a collation, a cast to a text that is long enough.

use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, Expr, Ident, ObjectName, ObjectNamePart,
    UnaryOperator,
};

use crate::{dialect::Dialect, token::TOKEN_LENGTH};

/// What is inside of an expression that leaves a text, or an array of texts, as it is, by either kind of reference.
macro_rules! peel_by {
    ($expr:expr, $is_array:expr, $dialect:expr) => {
        match $expr {
            Expr::Nested(inner)
            | Expr::Collate {
                expr: inner,
                collation: _,
            } => Some(inner),
            Expr::Cast {
                kind: _,
                expr: inner,
                data_type,
                format: None,
            } if keeps_text(data_type, $is_array, $dialect) => Some(inner),
            Expr::Convert {
                is_try: false,
                expr: inner,
                data_type,
                charset,
                target_before_value: false,
                styles: _,
            } if match (&*data_type, &*charset) {
                (Some(data_type), charset) => {
                    keeps_text(data_type, $is_array, $dialect)
                        && charset.as_ref().is_none_or(keeps_ascii)
                }
                // `CONVERT(… USING utf8mb4)`
                (None, Some(charset)) => !$is_array && keeps_ascii(charset),
                (None, None) => false,
            } =>
            {
                Some(inner)
            }
            // A plus gives what stands after it, whatever that is (<https://www.sqlite.org/lang_expr.html>; MySQL's grammar leaves it
            // out). PostgreSQL has none of text.
            Expr::UnaryOp {
                op: UnaryOperator::Plus,
                expr: inner,
            } if !$is_array && $dialect != Dialect::Postgres => Some(inner),
            // `_utf8mb4'…'`
            Expr::Prefixed {
                prefix,
                value: inner,
            } if !$is_array && $dialect == Dialect::Mysql && introduces_ascii(prefix) => {
                Some(inner)
            }
            _ => None,
        }
    };
}

/// The text, or array of texts, that is inside of something that leaves it as it is.
pub(in crate::resolve) fn peel(expr: &Expr, is_array: bool, dialect: Dialect) -> Option<&Expr> {
    peel_by!(expr, is_array, dialect).map(|inner| &**inner)
}

/// As [`peel`], to be changed.
pub(in crate::resolve) fn peel_mut(
    expr: &mut Expr,
    is_array: bool,
    dialect: Dialect,
) -> Option<&mut Expr> {
    peel_by!(expr, is_array, dialect).map(|inner| &mut **inner)
}

/// Character sets of MySQL in which the digits of a token are the same bytes.
const ASCII: &[&str] = &["ascii", "binary", "latin1", "utf8", "utf8mb3", "utf8mb4"];

fn keeps_ascii(charset: &ObjectName) -> bool {
    match charset.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => is_ascii(&name.value),
        _ => false,
    }
}

/// Whether a literal after this word is text in such a character set.
fn introduces_ascii(prefix: &Ident) -> bool {
    prefix.value.strip_prefix('_').is_some_and(is_ascii)
}

fn is_ascii(charset: &str) -> bool {
    ASCII.iter().any(|name| name.eq_ignore_ascii_case(charset))
}

/// Whether a cast to this type leaves a token as it is, or an array of tokens.
pub(in crate::resolve) fn keeps_text(
    data_type: &DataType,
    is_array: bool,
    dialect: Dialect,
) -> bool {
    let is_long_enough = |length: &CharacterLength| match length {
        CharacterLength::IntegerLength { length, unit: _ } => {
            usize::try_from(*length).is_ok_and(|length| length >= TOKEN_LENGTH)
        }
        CharacterLength::Max => false,
    };
    match data_type {
        // There no length cuts anything.
        DataType::Varchar(_)
        | DataType::CharVarying(_)
        | DataType::CharacterVarying(_)
        | DataType::Char(_)
        | DataType::Character(_)
        | DataType::Clob(_)
            if dialect == Dialect::Sqlite =>
        {
            !is_array
        }
        DataType::Binary(None) => !is_array && dialect == Dialect::Mysql,
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::Qualified(element, _),
        ) => is_array && keeps_text(element, false, dialect),
        _ if is_array => false,
        DataType::Text => true,
        DataType::Varchar(length)
        | DataType::CharVarying(length)
        | DataType::CharacterVarying(length) => length.as_ref().is_none_or(is_long_enough),
        // Without a length it is one character to PostgreSQL.
        DataType::Char(length) | DataType::Character(length) => match length {
            Some(length) => is_long_enough(length),
            None => dialect != Dialect::Postgres,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use sqlparser::{
        dialect::{MySqlDialect, PostgreSqlDialect, SQLiteDialect},
        parser::Parser,
    };

    use super::*;

    fn parse(text: &str, dialect: Dialect) -> Expr {
        let parser: &dyn sqlparser::dialect::Dialect = match dialect {
            Dialect::Sqlite => &SQLiteDialect {},
            Dialect::Postgres => &PostgreSqlDialect {},
            Dialect::Mysql => &MySqlDialect {},
        };
        Parser::new(parser)
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_text_is_inside_of_what_leaves_it_as_it_is() {
        use Dialect::{Mysql, Postgres, Sqlite};
        for (text, dialect, expected) in [
            ("('x')", Sqlite, true),
            ("'x' COLLATE NOCASE", Sqlite, true),
            ("'x'", Sqlite, false),
            ("+'x'", Sqlite, true),
            ("+'x'", Mysql, true),
            ("+'x'", Postgres, false),
            ("-'x'", Sqlite, false),
            ("CAST('x' AS text)", Postgres, true),
            ("CAST('x' AS int)", Postgres, false),
            ("CAST('x' AS varchar)", Postgres, true),
            ("CAST('x' AS varchar(200))", Postgres, true),
            ("CAST('x' AS varchar(5))", Postgres, false),
            ("CAST('x' AS character varying(200))", Postgres, true),
            ("CAST('x' AS varchar(5))", Sqlite, true),
            ("CAST('x' AS char)", Postgres, false),
            ("CAST('x' AS char(200))", Postgres, true),
            ("CAST('x' AS char(5))", Postgres, false),
            ("CAST('x' AS char)", Mysql, true),
            ("CAST('x' AS char(5))", Mysql, false),
            ("CAST('x' AS char(5))", Sqlite, true),
            ("CAST('x' AS binary)", Mysql, true),
            ("CAST('x' AS binary)", Postgres, false),
            ("CAST('x' AS text[])", Postgres, false),
            ("CONVERT('x', char)", Mysql, true),
            ("CONVERT('x', char(5))", Mysql, false),
            ("CONVERT('x' USING utf8mb4)", Mysql, true),
            ("CONVERT('x' USING utf16)", Mysql, false),
            ("_utf8mb4'x'", Mysql, true),
            ("_latin1'x'", Mysql, true),
            ("_utf16'x'", Mysql, false),
        ] {
            let mut expr = parse(text, dialect);
            let found = peel(&expr, false, dialect).map(ToString::to_string);
            let expected = expected.then_some("'x'");
            assert_eq!(found.as_deref(), expected, "{text} {dialect:?}");
            let found = peel_mut(&mut expr, false, dialect).map(|inner| inner.to_string());
            assert_eq!(found.as_deref(), expected, "{text} {dialect:?}");
        }
    }

    #[test]
    fn an_array_of_texts_is_inside_of_casts_to_such() {
        for (text, expected) in [
            ("a::text[]", true),
            ("a::varchar[]", true),
            ("a::varchar(5)[]", false),
            ("a::int[]", false),
            ("a::text", false),
            ("(a)", true),
            ("+a", false),
        ] {
            let expr = parse(text, Dialect::Postgres);
            let found = peel(&expr, true, Dialect::Postgres).is_some();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_token_fits_where_the_length_is_its_own() {
        for (length, expected) in [
            (TOKEN_LENGTH, true),
            (TOKEN_LENGTH + 1, true),
            (TOKEN_LENGTH - 1, false),
        ] {
            let expr = parse(
                &format!("CAST('x' AS varchar({length}))"),
                Dialect::Postgres,
            );
            let found = peel(&expr, false, Dialect::Postgres).is_some();
            assert_eq!(found, expected, "{length}");
        }
    }
}
