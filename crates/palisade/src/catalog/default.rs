//! What a new row has in a column that is given nothing.

use serde::{Deserialize, Serialize};

use crate::catalog::TypeClass;
use crate::dialect::Dialect;

/// What a column of a new row holds that a statement gives no value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DefaultValue {
    /// Not known: it is counted up or computed, its type may have a default, or the source does not tell.
    #[default]
    Unknown,
    /// NULL, which a column that cannot be NULL refuses.
    Null,
    /// This number: digits, with a sign and a point perhaps.
    Number(String),
    /// This text.
    Text(String),
    /// This.
    Boolean(bool),
}

impl DefaultValue {
    /// What `text` says, a default of a column of this type as the engine has it or a schema writes it: a literal, as one of the
    /// column's own type. What is computed is not known.
    #[must_use]
    pub fn by(text: &str, class: TypeClass, type_name: &str, dialect: Dialect) -> Self {
        let text = strip_parens(text.trim());
        let (literal, cast) = match (dialect, text.rsplit_once("::")) {
            (Dialect::Postgres, Some((literal, cast))) => {
                (strip_parens(literal.trim()), Some(cast))
            }
            (Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql, _) => (text, None),
        };
        if literal.eq_ignore_ascii_case("null") {
            return Self::Null;
        }
        if cast.is_some_and(|cast| !is_own(cast.trim(), class, type_name)) {
            return Self::Unknown;
        }
        let found = match unquote(literal, dialect) {
            Some(text) => Self::Text(text),
            None if is_number(literal) => Self::Number(literal.to_owned()),
            None if literal.eq_ignore_ascii_case("true") => Self::Boolean(true),
            None if literal.eq_ignore_ascii_case("false") => Self::Boolean(false),
            None => Self::Unknown,
        };
        found.normalize(class, dialect)
    }

    /// What `text` says, which MySQL tells without quotes of a default that is a literal.
    #[must_use]
    pub fn told(text: &str, class: TypeClass) -> Self {
        Self::Text(text.to_owned()).normalize(class, Dialect::Mysql)
    }

    /// The same in one spelling, as long as it is of a class that policies compare.
    fn normalize(self, class: TypeClass, dialect: Dialect) -> Self {
        match (class, self) {
            (TypeClass::Integer | TypeClass::Decimal, Self::Text(text)) if is_number(&text) => {
                Self::Number(plain(&text))
            }
            (TypeClass::Integer | TypeClass::Decimal, Self::Number(text)) => {
                Self::Number(plain(&text))
            }
            (TypeClass::Integer, Self::Boolean(value)) if dialect != Dialect::Postgres => {
                Self::Number(u8::from(value).to_string())
            }
            (TypeClass::Boolean, Self::Text(text)) if dialect == Dialect::Postgres => {
                match text.as_str() {
                    "true" => Self::Boolean(true),
                    "false" => Self::Boolean(false),
                    _ => Self::Unknown,
                }
            }
            (TypeClass::Boolean, found @ (Self::Boolean(_) | Self::Number(_)))
            | (TypeClass::Text | TypeClass::Enum | TypeClass::Uuid, found @ Self::Text(_))
            | (_, found @ (Self::Null | Self::Unknown)) => found,
            (_, Self::Number(_) | Self::Text(_) | Self::Boolean(_)) => Self::Unknown,
        }
    }
}

/// `text` without parentheses around the whole of it.
fn strip_parens(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) else {
        return text;
    };
    // Where there are others, they may not belong together.
    match inner.contains(['(', ')']) {
        true => text,
        false => inner.trim(),
    }
}

/// The text that a literal in single quotes is, if it is written without escapes.
fn unquote(literal: &str, dialect: Dialect) -> Option<String> {
    let inner = literal.strip_prefix('\'')?.strip_suffix('\'')?;
    let is_plain = !inner.replace("''", "").contains('\'');
    (is_plain && !(dialect == Dialect::Mysql && inner.contains('\\')))
        .then(|| inner.replace("''", "'"))
}

/// Whether `text` is digits, with a sign before them or a point between them perhaps.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    [whole, fraction]
        .iter()
        .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// A number without what makes no other of it.
fn plain(number: &str) -> String {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    match (whole, fraction) {
        ("0", "") => "0".to_owned(),
        (whole, "") => format!("{sign}{whole}"),
        (whole, fraction) => format!("{sign}{whole}.{fraction}"),
    }
}

/// Whether PostgreSQL's cast to `cast` makes nothing else of a literal than a column of this type does.
fn is_own(cast: &str, class: TypeClass, type_name: &str) -> bool {
    let known: &[&str] = match class {
        TypeClass::Integer => &["smallint", "integer", "bigint"],
        TypeClass::Decimal => &["numeric"],
        TypeClass::Boolean => &["boolean"],
        TypeClass::Text => &["text", "character varying"],
        TypeClass::Uuid => &["uuid"],
        TypeClass::Number
        | TypeClass::Padded
        | TypeClass::Enum
        | TypeClass::Blob
        | TypeClass::Date
        | TypeClass::Time
        | TypeClass::Timestamp
        | TypeClass::TimestampTz
        | TypeClass::Interval
        | TypeClass::Json
        | TypeClass::Network
        | TypeClass::Other => &[],
    };
    let own = type_name.split('(').next().unwrap_or_default();
    known.contains(&cast) || cast == own.trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_known_and_nothing_else_is() {
        use Dialect::{Mysql, Postgres, Sqlite};
        let text = |text: &str| DefaultValue::Text(text.to_owned());
        let number = |text: &str| DefaultValue::Number(text.to_owned());
        for (dialect, type_name, default, expected) in [
            (Sqlite, "TEXT", "'open'", text("open")),
            (Sqlite, "TEXT", "'it''s'", text("it's")),
            (Sqlite, "TEXT", "'a' || 'b'", DefaultValue::Unknown),
            (Sqlite, "TEXT", "\"open\"", DefaultValue::Unknown),
            (Sqlite, "TEXT", "open", DefaultValue::Unknown),
            (Sqlite, "TEXT", "CURRENT_TIMESTAMP", DefaultValue::Unknown),
            (Sqlite, "TEXT", "7", DefaultValue::Unknown),
            (Sqlite, "TEXT", "null", DefaultValue::Null),
            (Sqlite, "INTEGER", "(0)", number("0")),
            (Sqlite, "INTEGER", "-1", number("-1")),
            (Sqlite, "INTEGER", "1e3", DefaultValue::Unknown),
            (Sqlite, "INTEGER", "0x10", DefaultValue::Unknown),
            (Sqlite, "INTEGER", "TRUE", number("1")),
            (Sqlite, "INTEGER", "(random())", DefaultValue::Unknown),
            (Postgres, "text", "'open'::text", text("open")),
            (Postgres, "text", "'a::b'::text", text("a::b")),
            (Postgres, "text", "'a::b'", DefaultValue::Unknown),
            (Postgres, "text", "E'a\\\\b'::text", DefaultValue::Unknown),
            (
                Postgres,
                "text",
                "lower('OPEN'::text)",
                DefaultValue::Unknown,
            ),
            (
                Postgres,
                "text",
                "('a'::text || 'b'::text)",
                DefaultValue::Unknown,
            ),
            (Postgres, "text", "CURRENT_USER", DefaultValue::Unknown),
            (
                Postgres,
                "character varying(9)",
                "'open'::character varying",
                text("open"),
            ),
            (
                Postgres,
                "character varying(9)",
                "('open'::character varying)::character varying(2)",
                DefaultValue::Unknown,
            ),
            (
                Postgres,
                "text",
                "'2026-01-01'::date",
                DefaultValue::Unknown,
            ),
            (
                Postgres,
                "text",
                "NULL::character varying",
                DefaultValue::Null,
            ),
            (Postgres, "integer", "'-1'::integer", number("-1")),
            (Postgres, "integer", "0", number("0")),
            (
                Postgres,
                "integer",
                "nextval('s'::regclass)",
                DefaultValue::Unknown,
            ),
            (Postgres, "numeric(6,2)", "0.50", number("0.5")),
            (Postgres, "numeric(6,2)", "'-1'::numeric", number("-1")),
            (Postgres, "boolean", "false", DefaultValue::Boolean(false)),
            (Postgres, "boolean", "'true'", DefaultValue::Boolean(true)),
            (
                Postgres,
                "date",
                "'2026-01-01'::date",
                DefaultValue::Unknown,
            ),
            (Postgres, "double precision", "0.5", DefaultValue::Unknown),
            (Mysql, "int", "7", number("7")),
            (Mysql, "decimal(6,2)", "0.00", number("0")),
            (Mysql, "tinyint(1)", "TRUE", number("1")),
            (Mysql, "varchar(9)", "'open'", text("open")),
            (Mysql, "varchar(9)", "'a\\'b'", DefaultValue::Unknown),
            (Mysql, "varchar(9)", "uuid()", DefaultValue::Unknown),
            (
                Mysql,
                "timestamp",
                "current_timestamp()",
                DefaultValue::Unknown,
            ),
        ] {
            let class = TypeClass::from_name(dialect, type_name);
            assert_eq!(
                DefaultValue::by(default, class, type_name, dialect),
                expected,
                "{type_name}: {default}"
            );
        }
        let mood = |default| DefaultValue::by(default, TypeClass::Enum, "app.mood", Postgres);
        assert_eq!(mood("'ok'::app.mood"), text("ok"));
        assert_eq!(mood("'ok'::mood"), DefaultValue::Unknown);
        assert_eq!(DefaultValue::told("open", TypeClass::Text), text("open"));
        assert_eq!(
            DefaultValue::told("0.50", TypeClass::Decimal),
            number("0.5")
        );
        assert_eq!(
            DefaultValue::told("b'1'", TypeClass::Integer),
            DefaultValue::Unknown
        );
    }
}
