//! The Cedar schema of a catalog: the fixed types and actions, and one row type a relation.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    catalog::{Catalog, Relation, RelationKind, TypeClass},
    ident,
};

/// The principal types where the operator declares none: no attributes, roles in roles.
pub(super) const DEFAULT_PRINCIPALS: &str =
    "entity Role in [Role];\nentity Agent in [Role];\nentity User in [Role];\n";

/// Entity types that come from the catalog, never from the operator's entities.
pub(super) const CATALOG_TYPES: &[&str] = &[
    "Database", "Schema", "Table", "Column", "Function", "Template",
];

/// The namespace of row types.
pub(super) const ROW_NAMESPACE: &str = "row";

/// What a principal may be permitted to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Action {
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
    pub(super) const ALL: &'static [Self] = &[
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
    pub(super) fn name(self) -> &'static str {
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
    pub(super) fn group(self) -> Option<&'static str> {
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
        let schema = mangled(&catalog.fold_relation(&relation.schema));
        rows.entry(schema).or_default().push(relation);
    }
    let row_types: Vec<String> = rows
        .values()
        .flatten()
        .map(|relation| row_type(catalog, relation))
        .collect();
    let mut out = FIXED.to_owned();
    action(&mut out, TABLE_ACTIONS, "", "Table");
    action(&mut out, &[Action::Call], "", "Function");
    action(&mut out, &[Action::Run], "", "Template");
    out.push_str("action \"read\";\n");
    action(
        &mut out,
        &[Action::ReadPlain, Action::ReadMasked],
        " in [\"read\"]",
        "Column",
    );
    action(&mut out, &[Action::ReadToken, Action::Write], "", "Column");
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

/// The row type of a relation, `row::main::users`.
pub(super) fn row_type(catalog: &Catalog, relation: &Relation) -> String {
    format!(
        "{ROW_NAMESPACE}::{}::{}",
        mangled(&catalog.fold_relation(&relation.schema)),
        mangled(&catalog.fold_relation(&relation.name))
    )
}

/// Whether policies can name the relation: engine-internal and virtual ones are unreadable anyway.
pub(super) fn has_entity(relation: &Relation) -> bool {
    match relation.kind {
        RelationKind::Table | RelationKind::View | RelationKind::Materialized => true,
        RelationKind::Virtual | RelationKind::System => false,
    }
}

/// The id of the schema entity a relation is in.
pub(super) fn schema_id(catalog: &Catalog, schema: &str) -> String {
    ident::qualified([catalog.fold_relation(schema).as_str()])
}

/// The Cedar type of a column's values in row policies; other classes have no attribute.
pub(super) fn attribute_type(class: TypeClass) -> Option<&'static str> {
    match class {
        TypeClass::Integer => Some("Long"),
        TypeClass::Boolean => Some("Bool"),
        TypeClass::Text => Some("String"),
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
        | TypeClass::Other => None,
    }
}

const FIXED: &str = "\
entity Database;
entity Schema in [Database];
entity Table in [Schema] { tags: Set<String>, kind: String };
entity Column in [Table] { tags: Set<String>, nullable: Bool };
entity Function in [Schema] { safety: String };
entity Template;
";

const TABLE_ACTIONS: &[Action] = &[
    Action::Select,
    Action::Insert,
    Action::Update,
    Action::Delete,
    Action::Truncate,
    Action::Create,
    Action::Alter,
    Action::Drop,
    Action::Discover,
];

fn action(out: &mut String, actions: &[Action], group: &str, resource: &str) {
    let names: Vec<String> = actions
        .iter()
        .map(|a| format!("\"{}\"", a.name()))
        .collect();
    let _ = writeln!(
        out,
        "action {}{group} appliesTo {{ principal: [Agent, User], resource: {resource}, context: {{ transport: String }} }};",
        names.join(", ")
    );
}

fn row_entity(out: &mut String, catalog: &Catalog, relation: &Relation) {
    let name = mangled(&catalog.fold_relation(&relation.name));
    // The uid quotes what is not plain but keeps line ends, which would end the comment.
    let _ = writeln!(out, "  // {}", relation.uid.escape_debug());
    let _ = writeln!(out, "  entity {name} in [Table] {{");
    for column in &relation.columns {
        if let Some(class) = attribute_type(column.class) {
            let optional = if column.nullable { "?" } else { "" };
            let _ = writeln!(
                out,
                "    {}{optional}: {class},",
                string_literal(&column.key)
            );
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
        assert!(!text.contains("\"price\""), "{text}");
        assert!(!text.contains("sqlite_schema"), "{text}");
    }
}
