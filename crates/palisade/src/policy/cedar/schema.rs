//! The Cedar schema of a catalog: the fixed types and actions, and one row type a relation.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::policy::cedar::{
    attribute_type::{AttributeType, attribute_type, shows_presence},
    context_use::{ESTIMATED_COST, ESTIMATED_ROWS, HAS_WHERE, STATEMENT, TIME, USAGE},
    seen_attribute::seen_attributes,
};
use crate::{
    catalog::{Catalog, Column, Relation, RelationKind},
    dialect::Dialect,
    ident,
};

/// The principal types where the operator declares none: no attributes, roles in roles.
pub(in crate::policy) const DEFAULT_PRINCIPALS: &str =
    "entity Role in [Role];\nentity Agent in [Role];\nentity User in [Role];\n";

/// The types of principals, for which every action is.
pub(in crate::policy) const PRINCIPAL_TYPES: &[&str] = &["Agent", "User"];

/// Entity types that come from the catalog, never from the operator's entities.
pub(in crate::policy) const CATALOG_TYPES: &[&str] = &[
    "Database", "Schema", "Table", "Column", "Function", "Template", HAS_COLUMN, TAGGED,
];

/// What the rows of every relation with a column of a name are in, by that name.
pub(in crate::policy) const HAS_COLUMN: &str = "HasColumn";

/// What the rows of every relation with a tag are in, by that tag.
pub(in crate::policy) const TAGGED: &str = "Tagged";

/// The namespace of row types.
pub(in crate::policy) const ROW_NAMESPACE: &str = "row";

/// What a principal may be permitted to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::policy) enum PolicyAction {
    Select,
    Insert,
    Update,
    Delete,
    Truncate,
    Create,
    Alter,
    Drop,
    Approve,
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

impl PolicyAction {
    pub(in crate::policy) const ALL: &'static [Self] = &[
        Self::Select,
        Self::Insert,
        Self::Update,
        Self::Delete,
        Self::Truncate,
        Self::Create,
        Self::Alter,
        Self::Drop,
        Self::Approve,
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
            Self::Approve => "approve",
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
            | Self::Approve
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

    /// What it is asked about.
    fn resource(self) -> ActionResource {
        match self {
            Self::Select
            | Self::Insert
            | Self::Update
            | Self::Delete
            | Self::Truncate
            | Self::Create
            | Self::Alter
            | Self::Drop
            | Self::Approve
            | Self::Discover => ActionResource::Table,
            Self::See | Self::Change | Self::Add => ActionResource::Row,
            Self::ReadPlain | Self::ReadMasked | Self::ReadToken | Self::Write => {
                ActionResource::Column
            }
            Self::Call | Self::Run => ActionResource::Other,
        }
    }

    /// What a statement does by it.
    fn purpose(self) -> ActionPurpose {
        match self {
            Self::Select | Self::See | Self::ReadPlain | Self::ReadMasked | Self::ReadToken => {
                ActionPurpose::Read
            }
            Self::Insert
            | Self::Update
            | Self::Delete
            | Self::Truncate
            | Self::Change
            | Self::Add
            | Self::Write => ActionPurpose::Change,
            Self::Create | Self::Alter | Self::Drop => ActionPurpose::Define,
            Self::Approve | Self::Discover | Self::Call | Self::Run => ActionPurpose::Other,
        }
    }

    /// Whether it is asked about tables.
    pub(in crate::policy) fn is_of_tables(self) -> bool {
        self.resource() == ActionResource::Table
    }

    /// Whether it is asked about rows.
    pub(in crate::policy) fn is_of_rows(self) -> bool {
        self.resource() == ActionResource::Row
    }

    /// Whether it is asked about columns.
    pub(in crate::policy) fn is_of_columns(self) -> bool {
        self.resource() == ActionResource::Column
    }

    /// Whether it is asked about something beside relations: functions and templates.
    pub(in crate::policy) fn is_of_no_relation(self) -> bool {
        self.resource() == ActionResource::Other
    }

    /// Whether it decides about reading a relation: the relation itself, its rows or its columns.
    pub(in crate::policy) fn is_read(self) -> bool {
        self.purpose() == ActionPurpose::Read
    }

    /// Whether it decides about which rows are read, whatever is shown of their columns.
    pub(in crate::policy) fn is_read_of_rows(self) -> bool {
        self.is_read() && !self.is_of_columns()
    }

    /// Whether it decides about how much of a column is shown.
    pub(in crate::policy) fn is_read_of_columns(self) -> bool {
        self.is_read() && self.is_of_columns()
    }

    /// Whether it decides about changing rows of a table: the change as such, its rows or its columns.
    pub(in crate::policy) fn is_change(self) -> bool {
        self.purpose() == ActionPurpose::Change
    }

    /// Whether it decides about changing the schema.
    pub(in crate::policy) fn is_definition(self) -> bool {
        self.purpose() == ActionPurpose::Define
    }

    /// Whether a statement that changes anything is permitted by it, rows and columns aside.
    pub(in crate::policy) fn is_changing_statement(self) -> bool {
        (self.is_change() && self.is_of_tables()) || self.is_definition()
    }

    /// The actions of which `is_meant` holds, in the order of [`ALL`](Self::ALL).
    pub(in crate::policy) fn filter(is_meant: impl Fn(Self) -> bool) -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().copied();
        all.filter(move |action| is_meant(*action))
    }
}

/// What an action is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ActionResource {
    Table,
    Row,
    Column,
    /// A function or a template.
    Other,
}

/// What a statement does by an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ActionPurpose {
    Read,
    Change,
    Define,
    /// Nothing to a table: it calls, runs, approves or finds a name.
    Other,
}

/// The Cedar schema generated from `catalog`, the operator's principal types aside. A comment maps
/// each row type to its relation.
#[must_use]
pub fn schema_text(catalog: &Catalog) -> String {
    let relations: Vec<&Relation> = catalog
        .relations()
        .iter()
        .filter(|relation| has_entity(relation))
        .collect();
    let mut out = FIXED.to_owned();
    if let Some(example) = example(catalog.dialect()) {
        let _ = writeln!(
            out,
            "// The server's own relations are named like others, `Table::\"{example}\"`; permits of all tables do not reach them."
        );
    }
    write_fixed_actions(&mut out);
    out + &rows_text(catalog, &relations)
}

/// The types and actions that every catalog has, those of rows aside.
pub(in crate::policy) fn fixed_text() -> String {
    let mut out = FIXED.to_owned();
    write_fixed_actions(&mut out);
    out
}

/// The same types for decisions about rows: the other actions are names alone, of which policies may speak.
pub(in crate::policy) fn fixed_text_for_rows() -> String {
    let mut out = FIXED.to_owned();
    out.push_str("action \"read\";\n");
    for action in PolicyAction::filter(|action| !action.is_of_rows()) {
        let group = match action.group() {
            Some(group) => format!(" in [\"{group}\"]"),
            None => String::new(),
        };
        let _ = writeln!(out, "action \"{}\"{group};", action.name());
    }
    out
}

fn write_fixed_actions(out: &mut String) {
    action(out, &[PolicyAction::Select], "", "Table");
    action(out, &[PolicyAction::Discover], "", "Table");
    action(out, &[PolicyAction::Approve], "", "Table");
    action(out, &TABLE_ACTIONS, "", "Table");
    action(out, &CONDITIONED_ACTIONS, "", "Table");
    action(out, &[PolicyAction::Call], "", "Function");
    action(out, &[PolicyAction::Run], "", "Template");
    out.push_str("action \"read\";\n");
    let read = [PolicyAction::ReadPlain, PolicyAction::ReadMasked];
    action(out, &read, " in [\"read\"]", "Column");
    action(out, &[PolicyAction::ReadToken], "", "Column");
    action(out, &[PolicyAction::Write], "", "Column");
}

/// The types of the rows of `relations`, and the actions on them.
pub(in crate::policy) fn rows_text(catalog: &Catalog, relations: &[&Relation]) -> String {
    let mut rows: BTreeMap<String, Vec<&Relation>> = BTreeMap::new();
    for relation in relations {
        let schema = mangle(&relation.policy_schema);
        rows.entry(schema).or_default().push(relation);
    }
    let row_types: Vec<String> = rows
        .values()
        .flatten()
        .map(|relation| row_type(relation))
        .collect();
    let mut out = String::new();
    // Without a relation there is nothing to see, and Cedar admits no empty list.
    if row_types.is_empty() {
        out.push_str(NO_ROW_ACTIONS);
    } else {
        let list = format!("[{}]", row_types.join(", "));
        let of_rows: Vec<PolicyAction> = PolicyAction::filter(PolicyAction::is_of_rows).collect();
        action(&mut out, &of_rows, "", &list);
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

/// The actions on rows where there is no type of rows.
pub(in crate::policy) const NO_ROW_ACTIONS: &str = "action \"see\", \"change\", \"add\";\n";

/// A relation of the engine's own.
fn example(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::Sqlite => None,
        Dialect::Postgres => Some("pg_catalog.pg_stat_activity"),
        Dialect::Mysql => Some("information_schema.processlist"),
    }
}

/// The row type of a relation as policies name it, `row::main::users`.
#[must_use]
pub fn row_type(relation: &Relation) -> String {
    format!(
        "{ROW_NAMESPACE}::{}::{}",
        mangle(&relation.policy_schema),
        mangle(&relation.key)
    )
}

/// Whether policies can name the relation. Virtual relations are unreadable anyway, as are the engine's own relations that
/// have not been reviewed.
pub(in crate::policy) fn has_entity(relation: &Relation) -> bool {
    match relation.kind {
        RelationKind::Table | RelationKind::View | RelationKind::Materialized => true,
        RelationKind::System => relation.system.is_some(),
        RelationKind::Virtual => false,
    }
}

/// The id of the entity of the schema that the database calls `schema`.
pub(in crate::policy) fn schema_id(catalog: &Catalog, schema: &str) -> String {
    ident::qualify([catalog.policy_schema(schema).as_str()])
}

/// The types that every catalog has.
pub(in crate::policy) const FIXED: &str = "\
entity Database;
entity Schema in [Database];
entity Table in [Schema] { tags: Set<String>, kind: String };
entity Column in [Table] { tags: Set<String>, nullable: Bool };
entity Function in [Schema] { safety: String };
entity Template;
// `resource in HasColumn::\"tenant_id\"`: the rows of every table with such a column; `Tagged` is the same by a table's tags.
entity HasColumn;
entity Tagged;
";

const TABLE_ACTIONS: [PolicyAction; 5] = [
    PolicyAction::Insert,
    PolicyAction::Truncate,
    PolicyAction::Create,
    PolicyAction::Alter,
    PolicyAction::Drop,
];

/// The actions that know whether the statement has a condition.
const CONDITIONED_ACTIONS: [PolicyAction; 2] = [PolicyAction::Update, PolicyAction::Delete];

/// An attribute of the context of a request, or of a record in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) struct Attribute {
    pub(in crate::policy) name: &'static str,
    pub(in crate::policy) kind: &'static str,
    pub(in crate::policy) is_optional: bool,
}

const fn required_attribute(name: &'static str, kind: &'static str) -> Attribute {
    Attribute {
        name,
        kind,
        is_optional: false,
    }
}

const fn optional_attribute(name: &'static str, kind: &'static str) -> Attribute {
    Attribute {
        name,
        kind,
        is_optional: true,
    }
}

/// What is known of a statement once its names are resolved: the attributes of `context.statement`.
pub(in crate::policy) const FACTS: &[Attribute] = &[
    required_attribute("kind", "String"),
    required_attribute("joins", "Long"),
    required_attribute("tables", "Set<String>"),
    required_attribute("has_where", "Bool"),
    required_attribute("nesting", "Long"),
    required_attribute("offset", "Long"),
    required_attribute("unjoined", "Long"),
    required_attribute("recursive", "Bool"),
    optional_attribute(ESTIMATED_COST, "Long"),
    optional_attribute(ESTIMATED_ROWS, "Long"),
];

/// The attributes that the context of `action` can have. A client that is not verified, a time that is not known and
/// a template where none is run are missing.
pub(in crate::policy) fn context(action: PolicyAction) -> Vec<Attribute> {
    let mut out = vec![
        required_attribute("transport", "String"),
        optional_attribute("client", "String"),
        optional_attribute(TIME, "datetime"),
        optional_attribute("template", "String"),
    ];
    match action {
        // Decided before there is a statement, or for all statements alike.
        PolicyAction::Discover
        | PolicyAction::Approve
        | PolicyAction::Run
        | PolicyAction::See
        | PolicyAction::Change
        | PolicyAction::Add => {}
        PolicyAction::Select
        | PolicyAction::Insert
        | PolicyAction::Truncate
        | PolicyAction::Create
        | PolicyAction::Alter
        | PolicyAction::Drop
        | PolicyAction::Call
        | PolicyAction::Write => out.push(optional_attribute(STATEMENT, "")),
        PolicyAction::Update | PolicyAction::Delete => {
            out.extend([
                optional_attribute(STATEMENT, ""),
                required_attribute(HAS_WHERE, "Bool"),
            ]);
        }
        PolicyAction::ReadPlain | PolicyAction::ReadMasked | PolicyAction::ReadToken => {
            out.extend([
                optional_attribute(STATEMENT, ""),
                optional_attribute(USAGE, "Set<String>"),
            ]);
        }
    }
    out
}

/// The actions, all of one context, on `resource`.
fn action(out: &mut String, actions: &[PolicyAction], group: &str, resource: &str) {
    let names: Vec<String> = actions
        .iter()
        .map(|a| format!("\"{}\"", a.name()))
        .collect();
    let attributes = actions.first().map_or_else(Vec::new, |a| context(*a));
    let _ = writeln!(
        out,
        "action {}{group} appliesTo {{ principal: [{}], resource: {resource}, context: {} }};",
        names.join(", "),
        PRINCIPAL_TYPES.join(", "),
        record(&attributes)
    );
}

/// An action of principals of one type on `resource`, in whose context everything can be that is in any action's.
pub(in crate::policy) fn any_action(name: &str, principal: &str, resource: &str) -> String {
    let mut attributes = context(PolicyAction::ReadPlain);
    attributes.push(required_attribute(HAS_WHERE, "Bool"));
    format!(
        "action \"{name}\" appliesTo {{ principal: [{principal}], resource: [{resource}], context: {} }};",
        record(&attributes)
    )
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
    let name = mangle(&relation.key);
    // The uid quotes what is not plain but keeps line ends, which would end the comment.
    let _ = writeln!(out, "  // {}", relation.uid.escape_debug());
    let _ = writeln!(out, "  entity {name} in [Table, {HAS_COLUMN}, {TAGGED}] {{");
    for (column, shown) in row_attributes(catalog, relation) {
        let optional = if column.nullable { "?" } else { "" };
        let name = string_literal(&column.key);
        let _ = match shown {
            RowAttribute::Value(class) => {
                writeln!(out, "    {name}{optional}: {},", class.name())
            }
            RowAttribute::Presence => {
                let kind = column.type_name.escape_debug();
                writeln!(out, "    {name}{optional}: {{}}, // `has` alone: {kind}")
            }
        };
    }
    for attribute in seen_attributes(catalog, relation) {
        let name = string_literal(&attribute.name);
        let parent = attribute.parent.uid.escape_debug();
        let _ = writeln!(out, "    {name}: Bool, // of the row of {parent}");
    }
    out.push_str("  };\n");
}

/// What policies see of a column of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) enum RowAttribute {
    Value(AttributeType),
    /// Whether there is a value: its type is one with which nothing can be done, so that other looks at it do not load.
    Presence,
}

/// The columns of the rows of `relation` that policies see, in their order.
pub(in crate::policy) fn row_attributes<'c>(
    catalog: &'c Catalog,
    relation: &'c Relation,
) -> impl Iterator<Item = (&'c Column, RowAttribute)> {
    // Rows of the engine's own are told apart by nothing.
    let columns = relation.columns.iter();
    let columns = columns.filter(|_| relation.system.is_none());
    columns.filter_map(|column| {
        let class = attribute_type(column, catalog.dialect()).map(RowAttribute::Value);
        let shown = class.or_else(|| {
            shows_presence(column, catalog.dialect()).then_some(RowAttribute::Presence)
        });
        Some((column, shown?))
    })
}

/// How a policy asks for an attribute of `resource`.
pub(in crate::policy) fn write_attribute(name: &str) -> String {
    match mangle(name) == name {
        true => format!("resource.{name}"),
        false => format!("resource[{}]", string_literal(name)),
    }
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
pub(in crate::policy) fn mangle(name: &str) -> String {
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
    HAS_COLUMN,
    TAGGED,
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
    use crate::{catalog::TypeClass, policy::tests::fixture};

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
        let mangled: HashSet<String> = names.iter().map(|name| mangle(name)).collect();
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
        assert!(
            text.contains("entity tickets in [Table, HasColumn, Tagged]"),
            "{text}"
        );
        assert!(text.contains("\"id\": Long"), "{text}");
        assert!(text.contains("\"tenant_id\"?: Long"), "{text}");
        assert!(text.contains("\"price\"?: {}, // `has` alone"), "{text}");
        assert!(!text.contains("sqlite_schema"), "{text}");
    }
}
