//! The answers of tools that list: a page of what exists for the principal, how much there is of it, and where the next page begins.

use std::collections::BTreeMap;

use palisade::{
    catalog::Change,
    firewall::{PermittedChange, VisibleRelation},
    rejection::Rejection,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::metadata::{NameFinding, TableList, find, list_matching};

/// What a list is taken from: what the caller asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Scope {
    /// The schema, as it is named in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// A part of a name, or all of it with `*`, `?` and `%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// `table`, `view`, `system` or `column`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// How much is told of each entry.
    #[serde(skip)]
    pub detail: Detail,
}

/// How much is told of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Its name, after its schema and a dot.
    Names,
    /// Schema, name, kind and whether it can be read.
    #[default]
    Summary,
    /// What `describe_table` tells.
    Full,
}

impl Scope {
    /// Whether a relation is within it, its kind and schema. The name is another matter.
    fn has_relation(&self, relation: &VisibleRelation) -> bool {
        let schema = self.schema.as_deref();
        schema.is_none_or(|schema| relation.schema.eq_ignore_ascii_case(schema))
    }

    fn has_name(&self, name: &str) -> bool {
        self.pattern
            .as_deref()
            .is_none_or(|pattern| matches(pattern, name))
    }

    /// Whether a table is within it.
    pub(crate) fn has_table(&self, relation: &VisibleRelation) -> bool {
        self.has_relation(relation)
            && self.kind.is_none_or(|kind| kind == relation.kind)
            && self.has_name(&relation.name)
    }
}

/// Whether `name` is as `pattern` says, in letters of either case: with `*`, `?` and `%` all of it, else a part of it.
fn matches(pattern: &str, name: &str) -> bool {
    // Who thinks of LIKE writes `%` for `*`. Its `_` stands in too many names to mean anything else.
    let pattern = pattern.to_lowercase().replace('%', "*");
    let name = name.to_lowercase();
    if !pattern.contains(['*', '?']) {
        return name.contains(&pattern);
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // Which beginnings of the name the pattern so far stands for.
    let mut reached = vec![false; name.len() + 1];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    for sign in pattern {
        let mut next = vec![false; name.len() + 1];
        let mut open = false;
        for (at, slot) in next.iter_mut().enumerate() {
            let here = reached.get(at).copied().unwrap_or_default();
            let before = at.checked_sub(1);
            let stepped = before.is_some_and(|before| {
                reached.get(before).copied().unwrap_or_default()
                    && (sign == '?' || name.get(before) == Some(&sign))
            });
            open |= here;
            *slot = if sign == '*' { open } else { stepped };
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}

/// A part of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// The entry with which it begins.
    pub(crate) from: usize,
    /// Bytes that its entries may have as JSON.
    pub(crate) room: usize,
}

impl Page {
    /// The first entries of `all` from where it begins for which there is room, at least one; and where the next page begins, if there
    /// is one.
    pub(crate) fn take<T: Serialize>(self, all: Vec<T>) -> (Vec<T>, Option<usize>) {
        let count = all.len();
        let mut room = self.room;
        let mut taken = Vec::new();
        for entry in all.into_iter().skip(self.from) {
            // With the comma behind it.
            let bytes = serde_json::to_string(&entry).map_or(0, |json| json.len() + 1);
            match room.checked_sub(bytes) {
                None if !taken.is_empty() => break,
                left => room = left.unwrap_or_default(),
            }
            taken.push(entry);
        }
        let end = self.from.saturating_add(taken.len());
        (taken, (end < count).then_some(end))
    }
}

/// What tells one list of names from another: of all tables and columns that exist for the principal.
pub(crate) fn digest(relations: &[VisibleRelation]) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    };
    for relation in relations {
        add(&relation.schema);
        add(&relation.name);
        add(&relation.columns.len().to_string());
        for column in &relation.columns {
            add(&column.name);
        }
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A page of the tables within `scope`.
pub(crate) fn tables<'a>(
    relations: &'a [VisibleRelation],
    scope: &Scope,
    page: Page,
    seal: impl Fn(usize) -> Result<String, Rejection>,
) -> Result<TableList<'a>, Rejection> {
    let (mut list, next) = list_matching(relations, scope, page);
    list.next_cursor = next.map(seal).transpose()?;
    Ok(list)
}

/// The answer of `list_schemas`.
#[derive(Debug, Serialize)]
pub(crate) struct SchemaList<'a> {
    schemas: Vec<ListedSchema<'a>>,
    schema_count: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    findings: Vec<NameFinding<'a>>,
}

#[derive(Debug, Serialize)]
struct ListedSchema<'a> {
    name: &'a str,
    /// Tables and views that exist for the principal.
    tables: usize,
}

/// A page of the schemas in which something exists for the principal.
pub(crate) fn schemas(
    relations: &[VisibleRelation],
    page: Page,
    seal: impl Fn(usize) -> Result<String, Rejection>,
) -> Result<SchemaList<'_>, Rejection> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for relation in relations {
        *counts.entry(&relation.schema).or_default() += 1;
    }
    let all: Vec<_> = counts
        .into_iter()
        .map(|(name, tables)| ListedSchema { name, tables })
        .collect();
    let schema_count = all.len();
    let (schemas, next) = page.take(all);
    let mut findings = Vec::new();
    for schema in &schemas {
        find(&mut findings, &[schema.name], schema.name, None);
    }
    Ok(SchemaList {
        schemas,
        schema_count,
        truncated: next.is_some(),
        next_cursor: next.map(seal).transpose()?,
        findings,
    })
}

/// The answer of `search_objects`.
#[derive(Debug, Serialize)]
pub(crate) struct ObjectList<'a> {
    objects: Vec<Object<'a>>,
    object_count: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    scope: &'a Scope,
    findings: Vec<NameFinding<'a>>,
}

/// A table or a column that was searched for.
#[derive(Debug, Serialize)]
struct Object<'a> {
    schema: &'a str,
    table: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    readable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    masked: Option<bool>,
}

/// A page of the tables and columns within `scope`: each table before its columns.
pub(crate) fn objects<'a>(
    relations: &'a [VisibleRelation],
    scope: &'a Scope,
    page: Page,
    seal: impl Fn(usize) -> Result<String, Rejection>,
) -> Result<ObjectList<'a>, Rejection> {
    let mut all = Vec::new();
    for relation in relations
        .iter()
        .filter(|relation| scope.has_relation(relation))
    {
        let (schema, table) = (relation.schema.as_str(), relation.name.as_str());
        if scope.has_table(relation) {
            all.push(Object {
                schema,
                table,
                kind: relation.kind,
                readable: Some(relation.readable),
                column: None,
                type_name: None,
                masked: None,
            });
        }
        if scope.kind.is_some_and(|kind| kind != "column") {
            continue;
        }
        let found = relation
            .columns
            .iter()
            .filter(|column| scope.has_name(&column.name));
        all.extend(found.map(|column| Object {
            schema,
            table,
            kind: "column",
            readable: None,
            column: Some(&column.name),
            type_name: Some(&column.type_name),
            masked: Some(column.masked),
        }));
    }
    let object_count = all.len();
    let (objects, next) = page.take(all);
    let mut findings = Vec::new();
    for object in &objects {
        find(
            &mut findings,
            &[object.schema, object.table],
            object.table,
            None,
        );
        if let Some(column) = object.column {
            let texts = [column, object.type_name.unwrap_or_default()];
            find(&mut findings, &texts, object.table, Some(column));
        }
    }
    Ok(ObjectList {
        objects,
        object_count,
        truncated: next.is_some(),
        next_cursor: next.map(seal).transpose()?,
        scope,
        findings,
    })
}

/// The answer of `policy_explain`.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyExplanation<'a> {
    principal: String,
    limits: ShownLimits,
    /// What could wait for a person's approval: `read`, `change`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    may_wait_for_approval: Vec<&'static str>,
    tables: Vec<Permitted<'a>>,
    table_count: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    findings: Vec<NameFinding<'a>>,
}

/// What one call may cost.
#[derive(Debug, Serialize)]
pub(crate) struct ShownLimits {
    /// Rows of an answer.
    pub(crate) rows: u64,
    /// Characters of an answer.
    pub(crate) characters: usize,
    /// Rows that a statement may change; none where nothing can be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) affected_rows: Option<u64>,
    /// Milliseconds of a statement.
    pub(crate) timeout_ms: u64,
}

/// What is permitted of one table.
#[derive(Debug, Serialize)]
struct Permitted<'a> {
    schema: &'a str,
    table: &'a str,
    read: bool,
    /// Columns whose values are replaced, each with the kind of its mask; `masked` where that is a table's below a view.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    masked: BTreeMap<&'a str, &'a str>,
    /// `insert`, `update`, `delete`, `truncate`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<&'static str>,
    /// Columns that may be assigned, of those that exist for the principal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assigned: Vec<&'a str>,
}

/// A page of what `principal` may do. `changes` are those that are permitted, and reach no further than what is visible.
pub(crate) fn explain<'a>(
    (principal, limits, may_wait_for_approval): (String, ShownLimits, Vec<&'static str>),
    relations: &'a [VisibleRelation],
    changes: &[PermittedChange],
    page: Page,
    seal: impl Fn(usize) -> Result<String, Rejection>,
) -> Result<PolicyExplanation<'a>, Rejection> {
    let of_relation = |relation: &'a VisibleRelation| {
        let masked = relation.columns.iter().filter(|column| column.masked);
        let (changes, assigned) = changes_of(relation, changes);
        Permitted {
            schema: &relation.schema,
            table: &relation.name,
            read: relation.readable,
            masked: masked
                .map(|column| {
                    (
                        column.name.as_str(),
                        column.mask.as_deref().unwrap_or("masked"),
                    )
                })
                .collect(),
            changes,
            assigned,
        }
    };
    let all: Vec<_> = relations.iter().map(of_relation).collect();
    let table_count = all.len();
    let (tables, next) = page.take(all);
    let mut findings = Vec::new();
    for entry in &tables {
        find(
            &mut findings,
            &[entry.schema, entry.table],
            entry.table,
            None,
        );
        for column in entry.masked.keys().chain(&entry.assigned) {
            find(&mut findings, &[column], entry.table, Some(column));
        }
    }
    Ok(PolicyExplanation {
        principal,
        limits,
        may_wait_for_approval,
        tables,
        table_count,
        truncated: next.is_some(),
        next_cursor: next.map(seal).transpose()?,
        findings,
    })
}

/// How rows of `relation` may be changed, of `changes`, and the columns that a change may assign.
pub(crate) fn changes_of<'a>(
    relation: &'a VisibleRelation,
    changes: &[PermittedChange],
) -> (Vec<&'static str>, Vec<&'a str>) {
    let change = changes
        .iter()
        .find(|change| change.schema == relation.schema && change.name == relation.name);
    let assigned: Vec<&str> = relation
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .filter(|name| change.is_some_and(|change| change.assigned.iter().any(|one| one == name)))
        .collect();
    // What can assign hidden columns alone is as if it could assign none.
    let is_told = |change: &&Change| match change {
        Change::Insert | Change::Update => !assigned.is_empty(),
        Change::Delete | Change::Truncate => true,
    };
    let told = change.iter().flat_map(|change| &change.changes);
    let told = told
        .filter(is_told)
        .map(|change| describe_change(*change))
        .collect();
    (told, assigned)
}

fn describe_change(change: Change) -> &'static str {
    match change {
        Change::Insert => "insert",
        Change::Update => "update",
        Change::Delete => "delete",
        Change::Truncate => "truncate",
    }
}

#[cfg(test)]
mod tests {
    use palisade::firewall::VisibleColumn;

    use super::*;

    #[test]
    fn patterns_are_parts_or_whole_names() {
        for (pattern, name, expected) in [
            ("ord", "Orders", true),
            ("ORD", "orders", true),
            ("ord*", "orders", true),
            ("ord", "words", true),
            ("ord*", "words", false),
            ("*s", "orders", true),
            ("o?d*s", "orders", true),
            ("o?ders", "oders", false),
            ("*", "", true),
            ("?", "", false),
            ("", "x", true),
            ("%", "orders", true),
            ("%order%", "my_orders", true),
            ("order%", "my_orders", false),
            ("order_", "orders", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        // Many stars take no longer than the name is long.
        assert!(!matches(&"*a".repeat(100), &"b".repeat(250)));
    }

    #[test]
    fn a_digest_is_of_every_name() {
        let relation = |name: &str, columns: &[&str]| VisibleRelation {
            schema: "main".to_owned(),
            name: name.to_owned(),
            kind: "table",
            readable: true,
            comment: None,
            columns: columns
                .iter()
                .map(|name| VisibleColumn {
                    name: (*name).to_owned(),
                    type_name: "TEXT".to_owned(),
                    nullable: true,
                    masked: false,
                    generated: false,
                    mask: None,
                    default: None,
                    labels: None,
                    comment: None,
                })
                .collect(),
            primary_key: Vec::new(),
            unique_keys: Vec::new(),
            foreign_keys: Vec::new(),
            indexes: Vec::new(),
            row_estimate: None,
        };
        let usual = digest(&[relation("a", &["x"]), relation("b", &[])]);
        for other in [
            vec![relation("a", &["x"])],
            vec![relation("a", &[]), relation("b", &["x"])],
            vec![relation("a", &["x", "b"])],
            vec![relation("b", &[]), relation("a", &["x"])],
        ] {
            assert_ne!(digest(&other), usual);
        }
    }

    #[test]
    fn pages_join_to_the_whole() {
        let all: Vec<String> = (0..100).map(|n| "x".repeat(n)).collect();
        let (mut from, mut seen) = (0, Vec::new());
        loop {
            let (taken, next) = Page { from, room: 80 }.take(all.clone());
            assert!(!taken.is_empty());
            seen.extend(taken);
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!(seen, all);
        let beyond = Page {
            from: 1000,
            room: 80,
        };
        assert_eq!(beyond.take(all), (Vec::new(), None));
    }
}
