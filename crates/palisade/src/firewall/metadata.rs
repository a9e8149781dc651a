//! What a session may know of the catalog: the answer of the metadata tools.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Serialize;

use crate::firewall::Firewall;
use crate::{
    catalog::{Catalog, DefaultValue, Relation, RelationKind, without_labels},
    code::Code,
    dialect::Dialect,
    ident,
    policy::obligation::{ColumnLevel, RelationDecision, Visibility},
    rejection::Rejection,
    resolve::{self, Reference},
    rewrite::{ViewBelow, columns_below, type_of_mask},
    session::Session,
    token::TOKEN_TYPE,
};

/// A relation as a principal may know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VisibleRelation {
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
    /// `table`, `view`, or `system` for one of the engine's own.
    pub kind: &'static str,
    /// Whether rows may be read; without it there are no columns here.
    pub readable: bool,
    /// What the database says of it: a text of its own, as untrusted as a cell. Told where all of its columns are readable plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The columns that exist for the principal.
    pub columns: Vec<VisibleColumn>,
    /// The primary key, if every column of it is visible.
    pub primary_key: Vec<String>,
    /// Other unique keys of a table, columns by column: those whose columns are all readable plain.
    pub unique_keys: Vec<Vec<String>>,
    /// Foreign keys whose both ends are visible.
    pub foreign_keys: Vec<VisibleForeignKey>,
    /// Indexes that are no keys, columns by column: those whose columns are all readable plain.
    pub indexes: Vec<Vec<String>>,
    /// About how many rows a table has, by the engine's own statistics when the schema was read. Told where the table is seen
    /// whole: every row, and every column plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_estimate: Option<u64>,
}

/// A column as a principal may know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VisibleColumn {
    /// The name.
    pub name: String,
    /// The declared type, or what a mask makes of it; `token` where tokens stand for the values.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether it can be NULL; a masked column can.
    pub nullable: bool,
    /// Whether its values are masked.
    pub masked: bool,
    /// Whether a table computes its values from other columns, so that no change assigns it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub generated: bool,
    /// What kind of mask stands before it, where it is its own and not one below a view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<Cow<'static, str>>,
    /// The literal, as SQL, that a new row of a table has in it where it is given no value; told only of values that are
    /// readable plain. None where it is NULL, computed or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The labels of its enumeration, where its values are readable plain and the type's name does not list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// What the database says of it, as of a [relation](VisibleRelation::comment); told where its values are readable plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A foreign key as a principal may know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VisibleForeignKey {
    /// The referencing columns.
    pub columns: Vec<String>,
    /// The referenced table's schema.
    pub schema: String,
    /// The referenced table.
    pub table: String,
    /// The referenced columns.
    pub references: Vec<String>,
}

impl VisibleRelation {
    /// All of `relations` that `table` may mean, with or without its schema: as it is spelled before other cases, and of several schemas
    /// the first one of `search_path` that has it.
    #[must_use]
    pub fn find_named<'a>(
        relations: &'a [Self],
        table: &str,
        dialect: Dialect,
        search_path: &[String],
    ) -> Vec<&'a Self> {
        let key = dialect.fold(table);
        let all = |is_meant: &dyn Fn(&str, &str) -> bool| -> Vec<&'a Self> {
            relations
                .iter()
                .filter(|relation| is_meant(&relation.schema, &relation.name))
                .collect()
        };
        let qualified = [
            all(&|schema, name| {
                table == format!("{schema}.{name}") || table == ident::qualify([schema, name])
            }),
            all(&|schema, name| key == format!("{}.{}", dialect.fold(schema), dialect.fold(name))),
        ];
        let bare = [
            all(&|_, name| table == name),
            all(&|_, name| key == dialect.fold(name)),
        ];
        if let Some(found) = qualified.into_iter().find(|found| !found.is_empty()) {
            return found;
        }
        let Some(found) = bare.into_iter().find(|found| !found.is_empty()) else {
            return Vec::new();
        };
        let on_path = search_path.iter().find_map(|schema| {
            let there = found.iter().filter(|relation| relation.schema == *schema);
            let there: Vec<_> = there.copied().collect();
            (!there.is_empty()).then_some(there)
        });
        on_path.unwrap_or(found)
    }

    /// Whether every column of `relation` is readable plain here.
    pub(crate) fn is_plain(&self, relation: &Relation) -> bool {
        self.readable
            && self.schema == relation.schema
            && self.name == relation.name
            && relation.columns.iter().all(|column| {
                let mut seen = self.columns.iter();
                seen.any(|one| one.name == *column.name && !one.masked)
            })
    }

    /// The names of the columns, those of the primary key first.
    pub(crate) fn list_key_first(&self) -> Vec<String> {
        let rest = self.columns.iter().map(|column| &column.name);
        let rest = rest.filter(|name| !self.primary_key.contains(name));
        self.primary_key.iter().chain(rest).cloned().collect()
    }
}

impl Firewall {
    /// The relations that exist for `session`, in the catalog's order.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn relations(&self, session: &Session) -> Result<Vec<VisibleRelation>, Rejection> {
        let session_catalog = self.session_catalog(session);
        let mut relations = Vec::new();
        for (id, decision) in session_catalog.session_view().discoverable()? {
            let Some(relation) = self.catalog.relation(id) else {
                continue;
            };
            let mut is_refused = false;
            let below = match relation.kind {
                RelationKind::View | RelationKind::Materialized => {
                    let above = [relation.id];
                    let read = resolve::read_view(
                        &self.catalog,
                        &session_catalog,
                        relation,
                        &above,
                        &self.limits,
                    );
                    let looked = read.and_then(|view| {
                        let catalog = &self.catalog;
                        let call =
                            resolve::unpermitted_call(catalog, &session_catalog, &view.access)?;
                        is_refused =
                            call.is_some() || is_of_stale_rows(relation, &view.references, catalog);
                        columns_below(&view, &self.catalog, &session_catalog)
                    });
                    match looked {
                        Ok(below) => below,
                        Err(why) if why.code() == Code::PolicyEvaluationFailed => return Err(why),
                        Err(_) => continue,
                    }
                }
                RelationKind::Table | RelationKind::Virtual | RelationKind::System => Vec::new(),
            };
            let readable = decision.visibility == Visibility::Selectable && !is_refused;
            relations.push(self.visible(relation, &decision, &below, readable));
        }
        let visible: BTreeMap<_, BTreeSet<_>> = relations
            .iter()
            .map(|relation: &VisibleRelation| {
                let name = (relation.schema.clone(), relation.name.clone());
                let columns = relation.columns.iter().map(|c| c.name.to_string());
                (name, columns.collect())
            })
            .collect();
        for relation in &mut relations {
            relation.foreign_keys.retain(|key| {
                let Some(parent) = self.catalog.find(&key.schema, &key.table) else {
                    return false;
                };
                let columns = visible.get(&(parent.schema.clone(), parent.name.clone()));
                let is_visible = |name: &String| {
                    let key = self.catalog.dialect().fold(name);
                    let column = parent.position(&key).and_then(|at| parent.column(at));
                    column.is_some_and(|c| columns.is_some_and(|all| all.contains(&*c.name)))
                };
                key.references.iter().all(is_visible)
            });
        }
        Ok(relations)
    }

    /// `relation` as it is shown; `below` says of a view's columns what they are made from.
    fn visible(
        &self,
        relation: &Relation,
        decision: &RelationDecision,
        below: &[ViewBelow],
        readable: bool,
    ) -> VisibleRelation {
        let level = |index: u16| decision.columns.get(usize::from(index)).map(|c| &c.level);
        let exists = |index: u16| readable && level(index) != Some(&ColumnLevel::Hidden);
        let columns: Vec<_> = relation
            .column_ids()
            .filter(|(id, _)| exists(id.index))
            .map(|(id, column)| {
                let below = below.get(usize::from(id.index));
                let own = level(id.index);
                let masked =
                    own != Some(&ColumnLevel::Plain) || below.is_some_and(|below| below.masked);
                let given = match own {
                    Some(ColumnLevel::Masked(mask)) if mask.token().is_some() => {
                        Some(TOKEN_TYPE.into())
                    }
                    Some(ColumnLevel::Masked(mask)) => {
                        type_of_mask(mask, column, self.catalog.dialect())
                    }
                    Some(ColumnLevel::Plain | ColumnLevel::Hidden) | None => None,
                };
                let given = given.or_else(|| below?.type_name.clone());
                let labels = self.catalog.enum_labels(&column.type_name);
                let comment = self.catalog.comment(relation, Some(&column.name));
                let type_name = given.unwrap_or_else(|| Arc::clone(&column.type_name));
                let type_name = match below.and_then(|below| below.value_type) {
                    Some(known) if type_name.is_empty() && !masked => known.into(),
                    Some(_) | None => type_name,
                };
                // What a view shows may be masked below it.
                let is_view = match relation.kind {
                    RelationKind::View | RelationKind::Materialized => true,
                    RelationKind::Table | RelationKind::Virtual | RelationKind::System => false,
                };
                let type_name = if masked || is_view {
                    without_labels(&type_name)
                } else {
                    type_name
                };
                VisibleColumn {
                    name: column.name.to_string(),
                    type_name: type_name.to_string(),
                    nullable: column.nullable || masked,
                    masked,
                    generated: column.generated.is_some() && !is_view,
                    mask: own.and_then(describe_mask),
                    default: default_literal(&column.filled).filter(|_| !masked && !is_view),
                    // What a view shows may be computed from what is withheld.
                    labels: labels
                        .filter(|_| !masked && !is_view)
                        .map(<[String]>::to_vec),
                    comment: comment.filter(|_| !masked).map(str::to_owned),
                }
            })
            .collect();
        let is_whole =
            columns.len() == relation.columns.len() && columns.iter().all(|column| !column.masked);
        let comment = self.catalog.comment(relation, None);
        let is_table = match relation.kind {
            RelationKind::Table => readable,
            RelationKind::View
            | RelationKind::Materialized
            | RelationKind::Virtual
            | RelationKind::System => false,
        };
        let is_plain = |index: u16| level(index) == Some(&ColumnLevel::Plain);
        let name_of = |index: u16| relation.column(index).map(|c| c.name.to_string());
        let unique_keys = relation.unique_keys.iter().flatten().filter(|key| {
            is_table
                && key.plain
                && key.columns != relation.primary_key
                && key.columns.iter().all(|index| is_plain(*index))
        });
        let unique_keys = unique_keys
            .map(|key| key.columns.iter().copied().filter_map(name_of).collect())
            .collect();
        let is_plain_name = |name: &String| {
            let key = self.catalog.dialect().fold(name);
            relation.position(&key).is_some_and(is_plain)
        };
        let indexes = self.catalog.indexes(relation).iter();
        let indexes = indexes
            .filter(|columns| is_table && columns.iter().all(is_plain_name))
            .cloned()
            .collect();
        let row_estimate = self.catalog.row_estimate(relation);
        let named = |name: &String| {
            let key = self.catalog.dialect().fold(name);
            relation.position(&key).is_some_and(exists)
        };
        VisibleRelation {
            schema: relation.schema.clone(),
            name: relation.name.clone(),
            kind: match relation.kind {
                RelationKind::View | RelationKind::Materialized => "view",
                RelationKind::System => "system",
                RelationKind::Table | RelationKind::Virtual => "table",
            },
            readable,
            comment: comment.filter(|_| readable && is_whole).map(str::to_owned),
            primary_key: if relation.primary_key.iter().all(|index| exists(*index)) {
                relation
                    .primary_key
                    .iter()
                    .filter_map(|index| relation.column(*index))
                    .map(|c| c.name.to_string())
                    .collect()
            } else {
                Vec::new()
            },
            foreign_keys: relation
                .foreign_keys
                .iter()
                .filter(|key| key.columns.iter().all(named))
                .map(|key| VisibleForeignKey {
                    columns: key.columns.clone(),
                    schema: key.schema.clone(),
                    table: key.table.clone(),
                    references: key.references.clone(),
                })
                .collect(),
            unique_keys,
            indexes,
            row_estimate: row_estimate.filter(|_| is_table && !decision.has_obligation()),
            columns,
        }
    }
}

/// The kind of a column's own mask. What it is made with is the operator's, but whom aggregates alone may show.
fn describe_mask(level: &ColumnLevel) -> Option<Cow<'static, str>> {
    let ColumnLevel::Masked(mask) = level else {
        return None;
    };
    Some(match mask.smallest_group() {
        Some(smallest) => Cow::Owned(format!(
            "aggregate_only: COUNT, SUM and AVG over {smallest} values or more see it"
        )),
        None => Cow::Borrowed(mask.kind()),
    })
}

/// Whether each statement over a view is refused: it is, or reads, a materialised view whose rows are from before the masks
/// and filters of what it reads.
fn is_of_stale_rows(relation: &Relation, read: &[Reference], catalog: &Catalog) -> bool {
    let is_under_obligation = |reference: &Reference| {
        let body = reference.body.as_ref();
        reference.decision.has_obligation() || body.is_some_and(|body| body.has_obligation)
    };
    if relation.kind == RelationKind::Materialized && read.iter().any(is_under_obligation) {
        return true;
    }
    read.iter().any(|reference| {
        let below = reference
            .body
            .as_ref()
            .zip(catalog.relation(reference.relation));
        below.is_some_and(|(body, inner)| {
            is_of_stale_rows(inner, &body.resolved.references, catalog)
        })
    })
}

/// A default as SQL spells it.
fn default_literal(filled: &DefaultValue) -> Option<String> {
    match filled {
        DefaultValue::Unknown | DefaultValue::Null => None,
        DefaultValue::Number(number) => Some(number.clone()),
        DefaultValue::Text(text) => Some(format!("'{}'", text.replace('\'', "''"))),
        DefaultValue::Boolean(value) => Some(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{
        catalog::{ColumnDef, RelationDef, TypeClass},
        policy::PolicySources,
        session::Principal,
    };

    /// A comment on a table may tell of any of its columns.
    #[test]
    fn the_comment_of_a_table_is_told_to_whom_it_is_seen_whole() {
        let column = |name: &str| ColumnDef {
            name: name.to_owned(),
            type_name: "TEXT".to_owned(),
            class: TypeClass::Text,
            nullable: true,
            collation: "BINARY".to_owned(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
        };
        let columns = vec![column("name"), column("ssn")];
        let table = RelationDef::new("main", "people", RelationKind::Table, columns);
        let catalog = Catalog::builder(Dialect::Sqlite)
            .relation(table)
            .comment("main", "people", None, "about people")
            .comment("main", "people", Some("ssn".to_owned()), "a number")
            .build()
            .unwrap();
        let text = r#"permit(principal, action, resource);
            @mask("null") forbid(principal == Agent::"masked", action == Action::"read_plain", resource == Column::"main.people.ssn");
            forbid(principal == Agent::"hidden", action in Action::"read", resource == Column::"main.people.ssn");"#;
        let sources = PolicySources::from_cedar("p.cedar", text);
        let firewall = Firewall::builder(catalog, sources).build().unwrap();
        for (who, comment, of_column) in [
            ("whole", Some("about people"), Some(Some("a number"))),
            ("masked", None, Some(None)),
            ("hidden", None, None),
        ] {
            let session = Session::new(Principal::new("Agent", who));
            let shown = firewall.relations(&session).unwrap();
            let people = shown.first().unwrap();
            assert_eq!(people.comment.as_deref(), comment, "{who}");
            let ssn = people.columns.iter().find(|column| column.name == "ssn");
            let told = ssn.map(|column| column.comment.as_deref());
            assert_eq!(told, of_column, "{who}");
        }
    }
}
