//! NULL of a type: PostgreSQL takes a bare NULL of a derived table for text, which then has no
//! comparison with numbers and does not go with them in a set operation.

use sqlparser::{
    ast::{DataType, Expr, ObjectName, ObjectNamePart},
    dialect::PostgreSqlDialect,
    parser::Parser,
    tokenizer::Token,
};

use super::sql;
use crate::{
    catalog::{Catalog, Column, TypeClass, TypeKind},
    dialect::Dialect,
    syntax::encode,
};

/// NULL, of the column's type if the engine must be told and can be.
pub(super) fn typed(column: &Column, catalog: &Catalog) -> Expr {
    match catalog.dialect() {
        Dialect::Sqlite | Dialect::Mysql => sql::null(),
        Dialect::Postgres => match named(&column.type_name, catalog, DOMAINS) {
            Some(data_type) => sql::cast(sql::null(), data_type),
            None => sql::null(),
        },
    }
}

/// How many domains may stand on each other.
const DOMAINS: u8 = 8;

/// The type called `name`. A domain is the type it narrows, since it may forbid NULL.
fn named(name: &str, catalog: &Catalog, domains: u8) -> Option<DataType> {
    let element = name.trim_end_matches("[]");
    let known = catalog.types().iter().find(|def| {
        let qualified = format!("{}.{}", def.schema, def.name);
        element == qualified || element == def.name
    });
    let Some(def) = known else {
        let built_in = TypeClass::of(Dialect::Postgres, element) != TypeClass::Other;
        return built_in.then(|| parsed(name)).flatten();
    };
    match &def.kind {
        TypeKind::Domain { base, check: _ } if element == name && domains > 0 => {
            named(base, catalog, domains - 1)
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
fn parsed(name: &str) -> Option<DataType> {
    let read = |text: &str| {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).ok()?;
        let data_type = parser.parse_data_type().ok()?;
        (parser.peek_token_ref().token == Token::EOF).then_some(data_type)
    };
    let data_type = read(name)?;
    (read(&data_type.to_string())? == data_type).then_some(data_type)
}
