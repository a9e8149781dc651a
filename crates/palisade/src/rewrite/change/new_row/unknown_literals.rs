//! Constants and parameters without a type of their own, in the query that an INSERT of PostgreSQL takes its rows from.

use sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, ObjectName, ObjectNamePart, SelectItem, SetExpr, Statement,
    Value,
};

use crate::rewrite::{ast, relation_source::typed_null};
use crate::{
    catalog::{Catalog, Column, TypeClass, TypeKind},
    dialect::Dialect,
    resolve::{Target, is_engine_type},
    syntax::{encode, key},
};

/// Says of which types the constants and parameters are that a query gives to columns of a target on PostgreSQL, as it would
/// take them if nothing stood between: a query under a name gives text.
pub(in crate::rewrite) fn spell_types(change: &mut SetExpr, target: &Target, catalog: &Catalog) {
    let SetExpr::Insert(Statement::Insert(insert)) = change else {
        return;
    };
    let relation = catalog.relation(target.relation);
    let (Some(relation), Some(source)) = (relation, &mut insert.source) else {
        return;
    };
    let SetExpr::Select(select) = &mut *source.body else {
        return;
    };
    for (item, name) in select.projection.iter_mut().zip(&insert.columns) {
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => expr,
            // How many columns these give is not told here.
            SelectItem::ExprWithAliases {
                expr: _,
                aliases: _,
            }
            | SelectItem::QualifiedWildcard(_, _)
            | SelectItem::Wildcard(_) => return,
        };
        let ident = name.0.last().and_then(|part| part.as_ident());
        let index = ident.and_then(|ident| relation.position(&key(ident, catalog.dialect())));
        let column = index.and_then(|index| relation.column(index));
        if let Some(column) = column.filter(|_| is_untyped(expr))
            && let Some(data_type) = literal_type(column, catalog)
        {
            *expr = ast::cast(expr.clone(), data_type);
        }
    }
}

/// Whether PostgreSQL gives `expr` the type of what it is assigned to.
fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(value) => matches!(
            value.value,
            Value::Null | Value::SingleQuotedString(_) | Value::Placeholder(_)
        ),
        _ => false,
    }
}

/// The type that a constant for `column` is written of; nothing where text will do, or no cast names it.
fn literal_type(column: &Column, catalog: &Catalog) -> Option<DataType> {
    if takes_text_as_its_own(column.class) {
        return typed_null::data_type(column, catalog);
    }
    let is_other = column.class == TypeClass::Other;
    is_other
        .then(|| type_by_name(&column.type_name, catalog, DOMAINS))
        .flatten()
}

/// How many domains may stand on each other.
const DOMAINS: u8 = 8;

/// The type called `name`, as `format_type` spells it, for a cast that leaves to the assignment what the column has no room for. A
/// domain is the type that it narrows.
fn type_by_name(name: &str, catalog: &Catalog, domains: u8) -> Option<DataType> {
    let element = name.trim_end_matches("[]");
    // In quotes where they are needed.
    let plain = element.replace('"', "");
    let mut own = catalog.types().iter().filter(|def| {
        let qualified = format!("{}.{}", def.schema, def.name);
        plain == qualified || plain == def.name
    });
    let known = match (own.next(), own.next()) {
        (None, _) => return is_engine_type(name).then(|| engine_type(name)).flatten(),
        (Some(def), None) => def,
        // Two are called so.
        (Some(_), Some(_)) => return None,
    };
    match &known.kind {
        TypeKind::Domain { base, check: _ } if element == name && domains > 0 => {
            type_by_name(base, catalog, domains - 1)
        }
        // A cast to an array of it checks each element, which may call anything.
        TypeKind::Domain { base: _, check: _ } => None,
        // What reads a text may do anything, unless it comes with an extension.
        TypeKind::Base if known.extension.is_none() => None,
        TypeKind::Enum | TypeKind::Composite(_) | TypeKind::Range | TypeKind::Base => {
            let part = |name: &str| ObjectNamePart::Identifier(encode(name, Dialect::Postgres));
            let parts = vec![part(&known.schema), part(&known.name)];
            let own = DataType::Custom(ObjectName(parts), Vec::new());
            Some(if element == name {
                own
            } else {
                DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(own), None))
            })
        }
    }
}

/// A type of PostgreSQL's own without its length: a cast would cut off what an assignment refuses.
fn engine_type(name: &str) -> Option<DataType> {
    let element = name.trim_end_matches("[]");
    let array = name.get(element.len()..)?;
    let bare = match element.split_once('(') {
        Some((before, rest)) => {
            let (_, after) = rest.split_once(')')?;
            format!("{before}{after}")
        }
        None => element.to_owned(),
    };
    // These have a length of 1 where none is written.
    let bare = match bare.as_str() {
        "bit" => "bit varying",
        "character" => "bpchar",
        other => other,
    };
    typed_null::parse_type(&format!("{bare}{array}"))
}

/// Whether a cast of a text to this class is what an assignment of it is: it cuts nothing off.
fn takes_text_as_its_own(class: TypeClass) -> bool {
    match class {
        TypeClass::Integer
        | TypeClass::Boolean
        | TypeClass::Decimal
        | TypeClass::Number
        | TypeClass::Date
        | TypeClass::Timestamp
        | TypeClass::TimestampTz
        | TypeClass::Time
        | TypeClass::Interval
        | TypeClass::Uuid
        | TypeClass::Json
        | TypeClass::Network
        | TypeClass::Blob
        | TypeClass::Enum => true,
        TypeClass::Text | TypeClass::Padded | TypeClass::Other => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

    use sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

    use super::*;
    use crate::catalog::TypeDef;

    fn parse(text: &str) -> Expr {
        Parser::new(&PostgreSqlDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn literals_without_a_type_are_texts_nulls_and_parameters() {
        for (text, expected) in [
            ("'x'", true),
            ("('x')", true),
            ("NULL", true),
            ("$1", true),
            ("1", false),
            ("true", false),
            ("'x'::text", false),
            ("a", false),
        ] {
            assert_eq!(is_untyped(&parse(text)), expected, "{text}");
        }
    }

    #[test]
    fn types_of_the_engine_are_written_without_their_lengths() {
        for (name, expected) in [
            ("bit(3)", Some("BIT VARYING")),
            ("bit", Some("BIT VARYING")),
            ("character(3)", Some("bpchar")),
            ("character varying(3)", Some("CHARACTER VARYING")),
            ("character varying(3)[]", Some("CHARACTER VARYING[]")),
            ("numeric(5,2)", Some("NUMERIC")),
            (
                "timestamp(3) without time zone",
                Some("TIMESTAMP WITHOUT TIME ZONE"),
            ),
            ("integer[]", Some("INTEGER[]")),
            ("numeric(5", None),
        ] {
            let found = engine_type(name).map(|found| found.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_domain_is_written_as_what_it_narrows() {
        let def = |name: &str, kind| TypeDef {
            schema: "public".to_owned(),
            name: name.to_owned(),
            kind,
            extension: None,
        };
        let domain = |base: &str| TypeKind::Domain {
            base: base.to_owned(),
            check: None,
        };
        let catalog = Catalog::builder(Dialect::Postgres)
            .type_def(def("mood", TypeKind::Enum))
            .type_def(def("short", domain("character varying(3)")))
            .type_def(def("shorter", domain("short")))
            .type_def(def("felt", domain("mood")))
            .type_def(def("endless", domain("endless")))
            .type_def(def("opaque", TypeKind::Base))
            .build()
            .unwrap();
        for (name, expected) in [
            ("short", Some("CHARACTER VARYING")),
            ("public.shorter", Some("CHARACTER VARYING")),
            ("felt", Some("\"public\".\"mood\"")),
            ("mood[]", Some("\"public\".\"mood\"[]")),
            ("short[]", None),
            ("endless", None),
            ("opaque", None),
            ("elsewhere", None),
        ] {
            let found = type_by_name(name, &catalog, DOMAINS);
            let found = found.map(|found| found.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }
}
