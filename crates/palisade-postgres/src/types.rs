//! What the server calls its own types.

use tokio_postgres::{
    Statement,
    types::{Kind, Type},
};

/// The types of a statement's columns; nothing for those of the database's own, whose names can be anything.
pub(crate) fn names(statement: &Statement) -> Vec<&'static str> {
    let columns = statement.columns().iter();
    columns.map(|column| name(column.type_())).collect()
}

/// As `format_type` writes it, and the catalog of a table has it.
fn name(ty: &Type) -> &'static str {
    if let Kind::Array(element) = ty.kind() {
        let element = name(element);
        let array = ARRAYS.iter().find(|(one, _)| *one == element);
        return array.map_or("", |(_, array)| array);
    }
    let named = NAMES.iter().find(|(one, _)| one == ty);
    named.map_or("", |(_, name)| name)
}

/// The types that expressions have.
const NAMES: &[(Type, &str)] = &[
    (Type::BIT, "bit"),
    (Type::BOOL, "boolean"),
    (Type::BPCHAR, "character"),
    (Type::BYTEA, "bytea"),
    (Type::CHAR, "\"char\""),
    (Type::CIDR, "cidr"),
    (Type::DATE, "date"),
    (Type::FLOAT4, "real"),
    (Type::FLOAT8, "double precision"),
    (Type::INET, "inet"),
    (Type::INT2, "smallint"),
    (Type::INT4, "integer"),
    (Type::INT8, "bigint"),
    (Type::INTERVAL, "interval"),
    (Type::JSON, "json"),
    (Type::JSONB, "jsonb"),
    (Type::MACADDR, "macaddr"),
    (Type::MONEY, "money"),
    (Type::NAME, "name"),
    (Type::NUMERIC, "numeric"),
    (Type::OID, "oid"),
    (Type::POINT, "point"),
    (Type::TEXT, "text"),
    (Type::TIME, "time without time zone"),
    (Type::TIMESTAMP, "timestamp without time zone"),
    (Type::TIMESTAMPTZ, "timestamp with time zone"),
    (Type::TIMETZ, "time with time zone"),
    (Type::TSQUERY, "tsquery"),
    (Type::TS_VECTOR, "tsvector"),
    (Type::UUID, "uuid"),
    (Type::VARBIT, "bit varying"),
    (Type::VARCHAR, "character varying"),
    (Type::XML, "xml"),
];

/// Arrays of those that expressions often have.
const ARRAYS: &[(&str, &str)] = &[
    ("bigint", "bigint[]"),
    ("boolean", "boolean[]"),
    ("character varying", "character varying[]"),
    ("date", "date[]"),
    ("double precision", "double precision[]"),
    ("integer", "integer[]"),
    ("json", "json[]"),
    ("jsonb", "jsonb[]"),
    ("numeric", "numeric[]"),
    ("smallint", "smallint[]"),
    ("text", "text[]"),
    ("timestamp with time zone", "timestamp with time zone[]"),
    (
        "timestamp without time zone",
        "timestamp without time zone[]",
    ),
    ("uuid", "uuid[]"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_the_server_names_them() {
        for (ty, expected) in [
            (Type::INT8, "bigint"),
            (Type::TIMESTAMPTZ, "timestamp with time zone"),
            (Type::TEXT_ARRAY, "text[]"),
            (Type::RECORD, ""),
        ] {
            assert_eq!(name(&ty), expected, "{ty}");
        }
        let own = Type::new("secret".to_owned(), 99_999, Kind::Simple, "s".to_owned());
        assert_eq!(name(&own), "");
    }
}
