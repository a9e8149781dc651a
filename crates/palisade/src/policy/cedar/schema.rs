//! The Cedar schema of a catalog: the fixed types and actions, and one row type a relation.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::policy::cedar::context_use::{ESTIMATED_COST, ESTIMATED_ROWS, STATEMENT, USAGE};
use crate::policy::cedar::request::{HAS_WHERE, TIME};
use crate::{
    catalog::{Catalog, Column, Relation, RelationKind, TypeClass},
    dialect::Dialect,
    ident,
};

/// The principal types where the operator declares none: no attributes, roles in roles.
pub(in crate::policy) const DEFAULT_PRINCIPALS: &str =
    "entity Role in [Role];\nentity Agent in [Role];\nentity User in [Role];\n";

/// Entity types that come from the catalog, never from the operator's entities.
pub(in crate::policy) const CATALOG_TYPES: &[&str] = &[
    "Database", "Schema", "Table", "Column", "Function", "Template",
];

/// The namespace of row types.
pub(in crate::policy) const ROW_NAMESPACE: &str = "row";

/// What a principal may be permitted to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::policy) enum Action {
    Select,
    Insert,
    Update,
    Delete,
    Truncate,
    Create,
    Alter,
    Drop,
    Discover,
    Call,
    Run,
    See,
    Change,
    Add,
    ReadPlain,
    ReadMasked,
    ReadToken,
    Write,
}

impl Action {
    pub(in crate::policy) const ALL: &'static [Self] = &[
        Self::Select,
        Self::Insert,
        Self::Update,
        Self::Delete,
        Self::Truncate,
        Self::Create,
        Self::Alter,
        Self::Drop,
        Self::Discover,
        Self::Call,
        Self::Run,
        Self::See,
        Self::Change,
        Self::Add,
        Self::ReadPlain,
        Self::ReadMasked,
        Self::ReadToken,
        Self::Write,
    ];

    /// The id in `Action::"…"`.
    pub(in crate::policy) fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Create => "create",
            Self::Alter => "alter",
            Self::Drop => "drop",
            Self::Discover => "discover",
            Self::Call => "call",
            Self::Run => "run",
            Self::See => "see",
            Self::Change => "change",
            Self::Add => "add",
            Self::ReadPlain => "read_plain",
            Self::ReadMasked => "read_masked",
            Self::ReadToken => "read_token",
            Self::Write => "write",
        }
    }

    /// The group it is a member of.
    pub(in crate::policy) fn group(self) -> Option<&'static str> {
        match self {
            Self::ReadPlain | Self::ReadMasked => Some("read"),
            Self::Select
            | Self::Insert
            | Self::Update
            | Self::Delete
            | Self::Truncate
            | Self::Create
            | Self::Alter
            | Self::Drop
            | Self::Discover
            | Self::Call
            | Self::Run
            | Self::See
            | Self::Change
            | Self::Add
            | Self::ReadToken
            | Self::Write => None,
        }
    }
}

/// The Cedar schema generated from `catalog`, the operator's principal types aside. A comment maps
/// each row type to its relation.
#[must_use]
pub fn schema_text(catalog: &Catalog) -> String {
    let mut rows: BTreeMap<String, Vec<&Relation>> = BTreeMap::new();
    for relation in catalog
        .relations()
        .iter()
        .filter(|relation| has_entity(relation))
    {
        let schema = mangled(&relation.schema_key);
        rows.entry(schema).or_default().push(relation);
    }
    let row_types: Vec<String> = rows
        .values()
        .flatten()
        .map(|relation| row_type(relation))
        .collect();
    let mut out = FIXED.to_owned();
    if let Some(example) = example(catalog.dialect()) {
        let _ = writeln!(
            out,
            "// The server's own relations are named like others, `Table::\"{example}\"`; permits of all tables do not reach them."
        );
    }
    action(&mut out, &[Action::Select], "", "Table");
    action(&mut out, &[Action::Discover], "", "Table");
    action(&mut out, &TABLE_ACTIONS, "", "Table");
    action(&mut out, &CONDITIONED_ACTIONS, "", "Table");
    action(&mut out, &[Action::Call], "", "Function");
    action(&mut out, &[Action::Run], "", "Template");
    out.push_str("action \"read\";\n");
    let read = [Action::ReadPlain, Action::ReadMasked];
    action(&mut out, &read, " in [\"read\"]", "Column");
    action(&mut out, &[Action::ReadToken], "", "Column");
    action(&mut out, &[Action::Write], "", "Column");
    // Without a relation there is nothing to see, and Cedar admits no empty list.
    if row_types.is_empty() {
        out.push_str("action \"see\", \"change\", \"add\";\n");
    } else {
        let list = format!("[{}]", row_types.join(", "));
        action(
            &mut out,
            &[Action::See, Action::Change, Action::Add],
            "",
            &list,
        );
    }
    for (schema, relations) in &rows {
        // Writing to a String cannot fail; likewise below.
        let _ = writeln!(out, "\nnamespace {ROW_NAMESPACE}::{schema} {{");
        for relation in relations {
            row_entity(&mut out, catalog, relation);
        }
        out.push_str("}\n");
    }
    out
}

/// A relation of the engine's own.
fn example(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::Sqlite => None,
        Dialect::Postgres => Some("pg_catalog.pg_stat_activity"),
        Dialect::Mysql => Some("information_schema.processlist"),
    }
}

/// The row type of a relation, `row::main::users`.
pub(in crate::policy) fn row_type(relation: &Relation) -> String {
    format!(
        "{ROW_NAMESPACE}::{}::{}",
        mangled(&relation.schema_key),
        mangled(&relation.key)
    )
}

/// Whether policies can name the relation: virtual ones are unreadable anyway, and of the engine's own those of which nobody
/// knows what they tell.
pub(in crate::policy) fn has_entity(relation: &Relation) -> bool {
    match relation.kind {
        RelationKind::Table | RelationKind::View | RelationKind::Materialized => true,
        RelationKind::System => relation.system.is_some(),
        RelationKind::Virtual => false,
    }
}

/// The id of the schema entity a relation is in.
pub(in crate::policy) fn schema_id(catalog: &Catalog, schema: &str) -> String {
    ident::qualified([catalog.fold_relation(schema).as_str()])
}

/// The Cedar type of a column's values in row policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    fn name(self) -> &'static str {
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

/// The types that every catalog has.
pub(in crate::policy) const FIXED: &str = "\
entity Database;
entity Schema in [Database];
entity Table in [Schema] { tags: Set<String>, kind: String };
entity Column in [Table] { tags: Set<String>, nullable: Bool };
entity Function in [Schema] { safety: String };
entity Template;
";

const TABLE_ACTIONS: [Action; 5] = [
    Action::Insert,
    Action::Truncate,
    Action::Create,
    Action::Alter,
    Action::Drop,
];

/// The actions that know whether the statement has a condition.
const CONDITIONED_ACTIONS: [Action; 2] = [Action::Update, Action::Delete];

/// An attribute of the context of a request, or of a record in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) struct Attribute {
    pub(in crate::policy) name: &'static str,
    kind: &'static str,
    is_optional: bool,
}

const fn always(name: &'static str, kind: &'static str) -> Attribute {
    Attribute {
        name,
        kind,
        is_optional: false,
    }
}

const fn sometimes(name: &'static str, kind: &'static str) -> Attribute {
    Attribute {
        name,
        kind,
        is_optional: true,
    }
}

/// What is known of a statement once its names are resolved: the attributes of `context.statement`.
pub(in crate::policy) const FACTS: &[Attribute] = &[
    always("kind", "String"),
    always("joins", "Long"),
    always("tables", "Set<String>"),
    always("has_where", "Bool"),
    sometimes(ESTIMATED_COST, "Long"),
    sometimes(ESTIMATED_ROWS, "Long"),
];

/// The attributes that the context of `action` can have. A client that is not verified, a time that is not known and
/// a template where none is run are missing.
pub(in crate::policy) fn context(action: Action) -> Vec<Attribute> {
    let mut out = vec![
        always("transport", "String"),
        sometimes("client", "String"),
        sometimes(TIME, "datetime"),
        sometimes("template", "String"),
    ];
    match action {
        // Decided before there is a statement, or for all statements alike.
        Action::Discover | Action::Run | Action::See | Action::Change | Action::Add => {}
        Action::Select
        | Action::Insert
        | Action::Truncate
        | Action::Create
        | Action::Alter
        | Action::Drop
        | Action::Call
        | Action::Write => out.push(sometimes(STATEMENT, "")),
        Action::Update | Action::Delete => {
            out.extend([sometimes(STATEMENT, ""), always(HAS_WHERE, "Bool")]);
        }
        Action::ReadPlain | Action::ReadMasked | Action::ReadToken => {
            out.extend([sometimes(STATEMENT, ""), sometimes(USAGE, "Set<String>")]);
        }
    }
    out
}

/// The actions, all of one context, on `resource`.
fn action(out: &mut String, actions: &[Action], group: &str, resource: &str) {
    let names: Vec<String> = actions
        .iter()
        .map(|a| format!("\"{}\"", a.name()))
        .collect();
    let attributes = actions.first().map_or_else(Vec::new, |a| context(*a));
    let _ = writeln!(
        out,
        "action {}{group} appliesTo {{ principal: [Agent, User], resource: {resource}, context: {} }};",
        names.join(", "),
        record(&attributes)
    );
}

/// The Cedar type of a record with these attributes.
fn record(attributes: &[Attribute]) -> String {
    let attributes = attributes.iter().map(|attribute| {
        let mark = if attribute.is_optional { "?" } else { "" };
        let kind = match attribute.name {
            STATEMENT => record(FACTS),
            _ => attribute.kind.to_owned(),
        };
        format!("{}{mark}: {kind}", attribute.name)
    });
    format!("{{ {} }}", attributes.collect::<Vec<_>>().join(", "))
}

fn row_entity(out: &mut String, catalog: &Catalog, relation: &Relation) {
    let name = mangled(&relation.key);
    // The uid quotes what is not plain but keeps line ends, which would end the comment.
    let _ = writeln!(out, "  // {}", relation.uid.escape_debug());
    let _ = writeln!(out, "  entity {name} in [Table] {{");
    // Rows of the engine's own are told apart by nothing.
    let columns = relation.columns.iter();
    for column in columns.filter(|_| relation.system.is_none()) {
        let optional = if column.nullable { "?" } else { "" };
        let name = string_literal(&column.key);
        if let Some(class) = attribute_type(column, catalog.dialect()) {
            let _ = writeln!(out, "    {name}{optional}: {},", class.name());
        } else if shows_presence(column, catalog.dialect()) {
            // A type with which nothing can be done; other looks at it do not load.
            let kind = column.type_name.escape_debug();
            let _ = writeln!(out, "    {name}{optional}: {{}}, // `has` alone: {kind}");
        }
    }
    out.push_str("  };\n");
}

/// `text` as a Cedar string literal.
fn string_literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_ascii_graphic() || c == ' ' => out.push(c),
            c => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}

/// `name` as a Cedar identifier. Identifiers stay as they are; others, and those that mean something
/// to Cedar or to this schema, become `_q_…`, one to one: letters and digits as they are, `_` doubled,
/// anything else by its code point.
fn mangled(name: &str) -> String {
    let mut chars = name.chars();
    let is_identifier = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_identifier && !name.starts_with(MANGLED) && !RESERVED.contains(&name) {
        return name.to_owned();
    }
    let mut out = MANGLED.to_owned();
    for c in name.chars() {
        match c {
            '_' => out.push_str("__"),
            c if c.is_ascii_alphanumeric() => out.push(c),
            c => {
                let _ = write!(out, "_{:x}_", u32::from(c));
            }
        }
    }
    out
}

const MANGLED: &str = "_q_";

/// Words of Cedar policies and schemas, and the names in the empty namespace, which a namespace may
/// not shadow.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "if",
    "then",
    "else",
    "in",
    "is",
    "like",
    "has",
    "__cedar",
    "permit",
    "forbid",
    "when",
    "unless",
    "namespace",
    "external",
    "entity",
    "type",
    "Set",
    "appliesTo",
    "principal",
    "action",
    "resource",
    "context",
    "attributes",
    "tags",
    "enum",
    "Long",
    "String",
    "Bool",
    "Boolean",
    "Record",
    "Entity",
    "Extension",
    "EntityOrCommon",
    "ipaddr",
    "decimal",
    "datetime",
    "duration",
    "Database",
    "Schema",
    "Table",
    "Column",
    "Function",
    "Template",
    "Action",
    "Agent",
    "User",
    "Role",
];

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::collections::HashSet;

    use super::*;
    use crate::policy::fixture;

    #[test]
    fn mangling_never_collides() {
        let names = [
            "users",
            "_q_users",
            "_q_",
            "in",
            "_in",
            "a b",
            "a_b",
            "a__b",
            "a_20_b",
            "a.b",
            "Table",
            "table",
            "",
            "_",
            "1a",
            "_q_1a",
            "été",
            "a\"b",
            "String",
            "principal",
            "__cedar",
        ];
        let mangled: HashSet<String> = names.iter().map(|name| mangled(name)).collect();
        assert_eq!(mangled.len(), names.len(), "{mangled:?}");
        for name in &mangled {
            assert!(
                name.parse::<cedar_policy::EntityTypeName>().is_ok(),
                "{name}"
            );
        }
    }

    #[test]
    fn strange_names_give_a_valid_schema() {
        let names = [
            "in",
            "a b",
            "a_20_b",
            "principal",
            "entity",
            "users",
            "a\nb",
            "é",
            "Set",
            "_q_in",
        ];
        let mut builder = Catalog::builder(crate::dialect::Dialect::Sqlite);
        for name in names {
            let mut relation = fixture::table(name, &["id"]);
            relation.columns = names
                .iter()
                .map(|n| fixture::column(n, TypeClass::Text))
                .collect();
            builder = builder.relation(relation);
        }
        let catalog = builder.build().unwrap();
        let text = format!("{DEFAULT_PRINCIPALS}{}", schema_text(&catalog));
        let parsed = cedar_policy::Schema::from_cedarschema_str(&text);
        assert!(parsed.is_ok(), "{}\n{text}", parsed.err().unwrap());
    }

    #[test]
    fn an_empty_catalog_has_a_schema() {
        let catalog = Catalog::builder(crate::dialect::Dialect::Sqlite)
            .build()
            .unwrap();
        let text = format!("{DEFAULT_PRINCIPALS}{}", schema_text(&catalog));
        assert!(
            cedar_policy::Schema::from_cedarschema_str(&text).is_ok(),
            "{text}"
        );
    }

    #[test]
    fn attributes_are_optional_where_columns_are_nullable() {
        let text = schema_text(&fixture::catalog());
        assert!(text.contains("entity tickets in [Table]"), "{text}");
        assert!(text.contains("\"id\": Long"), "{text}");
        assert!(text.contains("\"tenant_id\"?: Long"), "{text}");
        assert!(text.contains("\"price\"?: {}, // `has` alone"), "{text}");
        assert!(!text.contains("sqlite_schema"), "{text}");
    }

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
