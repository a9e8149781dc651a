//! NULL of a type: PostgreSQL takes a bare NULL of a derived table for text, which then has no
//! comparison with numbers and does not go with them in a set operation. MariaDB 10.11.14 ends with a signal where it
//! pushes `LIKE` down to an aggregate of a bare one.

use sqlparser::{
    ast::{DataType, Expr, ObjectName, ObjectNamePart, TimezoneInfo, Value as SqlValue},
    dialect::PostgreSqlDialect,
    parser::Parser,
    tokenizer::Token,
};

use crate::rewrite::ast;
use crate::{
    catalog::{Catalog, Column, TypeClass, TypeKind},
    dialect::Dialect,
    syntax::encode,
};

/// NULL, of the column's type if the engine must be told and can be.
pub(in crate::rewrite) fn typed_null(column: &Column, catalog: &Catalog) -> Expr {
    match catalog.dialect() {
        Dialect::Sqlite => ast::null(),
        Dialect::Mysql => typed_like(column.class),
        Dialect::Postgres => match data_type(column, catalog) {
            Some(data_type) => ast::cast(ast::null(), data_type),
            None => ast::null(),
        },
    }
}

/// The type of a column of PostgreSQL's, as a cast names it.
pub(in crate::rewrite) fn data_type(column: &Column, catalog: &Catalog) -> Option<DataType> {
    type_by_name(&column.type_name, catalog, DOMAINS)
}

/// NULL of MySQL's type for a class. As text it has no collation of its own: a cast's would not go with that of every
/// column it is compared with.
fn typed_like(class: TypeClass) -> Expr {
    let dialect = Dialect::Mysql;
    let of = |text: &str, data_type| ast::cast(ast::text(dialect, text), data_type);
    let value = match class {
        TypeClass::Integer | TypeClass::Boolean => ast::integer(0),
        TypeClass::Decimal | TypeClass::Number => {
            Expr::Value(SqlValue::Number("0.0".to_owned(), false).into())
        }
        TypeClass::Date => of("2000-01-01", DataType::Date),
        TypeClass::Timestamp | TypeClass::TimestampTz => of("2000-01-01", DataType::Datetime(None)),
        TypeClass::Time => of("00:00:00", DataType::Time(None, TimezoneInfo::None)),
        TypeClass::Text
        | TypeClass::Padded
        | TypeClass::Enum
        | TypeClass::Uuid
        | TypeClass::Interval
        | TypeClass::Json
        | TypeClass::Network
        | TypeClass::Blob
        | TypeClass::Other => ast::text(dialect, ""),
    };
    ast::case(vec![(ast::boolean(false), value)], None)
}

/// How many domains may stand on each other.
const DOMAINS: u8 = 8;

/// The type called `name`. A domain is the type it narrows, since it may forbid NULL.
fn type_by_name(name: &str, catalog: &Catalog, domains: u8) -> Option<DataType> {
    let element = name.trim_end_matches("[]");
    let known = catalog.types().iter().find(|def| {
        let qualified = format!("{}.{}", def.schema, def.name);
        element == qualified || element == def.name
    });
    let Some(def) = known else {
        let built_in = TypeClass::from_name(Dialect::Postgres, element) != TypeClass::Other;
        return built_in.then(|| parse_type(name)).flatten();
    };
    match &def.kind {
        TypeKind::Domain { base, check: _ } if element == name && domains > 0 => {
            type_by_name(base, catalog, domains - 1)
        }
        // An array of a domain has no other type than itself.
        TypeKind::Domain { base: _, check: _ } => None,
        TypeKind::Enum | TypeKind::Composite(_) | TypeKind::Range | TypeKind::Base => {
            let part = |name: &str| ObjectNamePart::Identifier(encode(name, Dialect::Postgres));
            let name_parts = vec![part(&def.schema), part(&def.name)];
            let own = DataType::Custom(ObjectName(name_parts), Vec::new());
            (element == name).then_some(own)
        }
    }
}

/// A type of the engine's own as `format_type` spells it, if it prints as something that reads the
/// same.
pub(in crate::rewrite) fn parse_type(name: &str) -> Option<DataType> {
    let read = |text: &str| {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).ok()?;
        let data_type = parser.parse_data_type().ok()?;
        (parser.peek_token_ref().token == Token::EOF).then_some(data_type)
    };
    let data_type = read(name)?;
    (read(&data_type.to_string())? == data_type).then_some(data_type)
}
