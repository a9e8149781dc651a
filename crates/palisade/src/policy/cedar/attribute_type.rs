//! Which columns are attributes of row types, and of which Cedar type.

use crate::{
    catalog::{Column, TypeClass},
    dialect::Dialect,
};

/// The Cedar type of a column's values in row policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::policy) enum AttributeType {
    /// `Long`.
    Long,
    /// `Bool`.
    Bool,
    /// `String`: text, and what has one text for each value.
    Text,
    /// `decimal`.
    Decimal,
    /// `datetime`.
    Datetime,
}

impl AttributeType {
    /// The type in a schema.
    pub(in crate::policy) fn name(self) -> &'static str {
        match self {
            Self::Long => "Long",
            Self::Bool => "Bool",
            Self::Text => "String",
            Self::Decimal => "decimal",
            Self::Datetime => "datetime",
        }
    }
}

/// The Cedar type of a column's values in row policies; without one, the column is no attribute.
///
/// Left out is what SQL compares by other rules than Cedar: floating-point numbers, `character(n)`
/// with its trailing blanks, points in time that depend on the session's zone (all of MySQL's), and
/// MySQL's `year`, which reads `24` as 2024. SQLite has values of three of these types only.
pub(in crate::policy) fn attribute_type(
    column: &Column,
    dialect: Dialect,
) -> Option<AttributeType> {
    match (column.class, dialect) {
        (TypeClass::Integer, Dialect::Mysql)
            if column.type_name.to_ascii_lowercase().starts_with("year") =>
        {
            None
        }
        (TypeClass::Integer, Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql) => {
            Some(AttributeType::Long)
        }
        (TypeClass::Boolean, Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql) => {
            Some(AttributeType::Bool)
        }
        (TypeClass::Text, Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql)
        | (TypeClass::Uuid | TypeClass::Enum, Dialect::Postgres | Dialect::Mysql) => {
            Some(AttributeType::Text)
        }
        (TypeClass::Decimal, Dialect::Postgres | Dialect::Mysql) => {
            fits_decimal(&column.type_name).then_some(AttributeType::Decimal)
        }
        (TypeClass::TimestampTz, Dialect::Postgres) => Some(AttributeType::Datetime),
        (TypeClass::TimestampTz, Dialect::Mysql)
        | (
            TypeClass::Uuid | TypeClass::Enum | TypeClass::Decimal | TypeClass::TimestampTz,
            Dialect::Sqlite,
        )
        | (
            TypeClass::Number
            | TypeClass::Padded
            | TypeClass::Blob
            | TypeClass::Date
            | TypeClass::Time
            | TypeClass::Timestamp
            | TypeClass::Interval
            | TypeClass::Json
            | TypeClass::Network
            | TypeClass::Other,
            Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql,
        ) => None,
    }
}

/// Whether policies can ask if a row has a value in the column: of any type, so that `resource has deleted_at` says what it seems to.
///
/// Left out are PostgreSQL's types that may be composite, where `IS NOT NULL` says that no field is NULL.
pub(in crate::policy) fn shows_presence(column: &Column, dialect: Dialect) -> bool {
    match (column.class, dialect) {
        (TypeClass::Other, Dialect::Postgres) => {
            let name = column.type_name.split('(').next().unwrap_or_default();
            name.ends_with(']') || SIMPLE.contains(&name.trim())
        }
        (TypeClass::Other, Dialect::Sqlite | Dialect::Mysql)
        | (
            TypeClass::Integer
            | TypeClass::Number
            | TypeClass::Decimal
            | TypeClass::Boolean
            | TypeClass::Text
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
            | TypeClass::Network,
            Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql,
        ) => true,
    }
}

/// Types of PostgreSQL without fields that have no class of their own.
const SIMPLE: &[&str] = &[
    "bit",
    "bit varying",
    "box",
    "circle",
    "daterange",
    "int4range",
    "int8range",
    "jsonpath",
    "line",
    "lseg",
    "money",
    "numrange",
    "oid",
    "path",
    "point",
    "polygon",
    "tsquery",
    "tsrange",
    "tstzrange",
    "tsvector",
    "xml",
];

/// Whether every value of the type is near enough to Cedar's `decimal` (64 bits, four digits after the
/// point): declared with at most 19 digits, at most four of them after the point.
fn fits_decimal(type_name: &str) -> bool {
    let declared = type_name.split_once('(').and_then(|(_, rest)| {
        let (digits, _) = rest.split_once(')')?;
        let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
        let precision: u8 = precision.trim().parse().ok()?;
        let scale: u8 = scale.trim().parse().ok()?;
        Some((precision, scale))
    });
    declared.is_some_and(|(precision, scale)| precision <= 19 && scale <= 4)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use super::*;
    use crate::{catalog::Catalog, policy::tests::fixture};

    #[test]
    fn attributes_are_what_sql_compares_as_cedar_does() {
        use AttributeType::{Datetime, Decimal, Long, Text};
        for (dialect, type_name, kind) in [
            (Dialect::Postgres, "uuid", Some(Text)),
            (Dialect::Postgres, "character(3)", None),
            (Dialect::Postgres, "numeric(19,4)", Some(Decimal)),
            (Dialect::Postgres, "numeric(20,4)", None),
            (Dialect::Postgres, "numeric(10,5)", None),
            (Dialect::Postgres, "numeric(3,-2)", None),
            (Dialect::Postgres, "numeric", None),
            (
                Dialect::Postgres,
                "timestamp(3) with time zone",
                Some(Datetime),
            ),
            (Dialect::Postgres, "timestamp without time zone", None),
            (Dialect::Postgres, "double precision", None),
            (Dialect::Mysql, "timestamp", None),
            (Dialect::Mysql, "year(4)", None),
            (Dialect::Mysql, "int(10) unsigned", Some(Long)),
            (Dialect::Mysql, "decimal(10,0)", Some(Decimal)),
            (Dialect::Mysql, "enum('a','b')", Some(Text)),
            (Dialect::Sqlite, "DECIMAL(10,2)", None),
        ] {
            let mut catalog = Catalog::builder(dialect);
            let mut relation = fixture::table("t", &["x"]);
            for column in &mut relation.columns {
                column.type_name = type_name.to_owned();
                column.class = TypeClass::from_name(dialect, type_name);
            }
            catalog = catalog.relation(relation);
            let catalog = catalog.build().unwrap();
            let column = &catalog.relations()[0].columns[0];
            assert_eq!(
                attribute_type(column, dialect),
                kind,
                "{dialect} {type_name}"
            );
        }
    }
}
