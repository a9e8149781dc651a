//! What the account behind the gate must be able to read and change, so that every principal can do what policies
//! let it, and nothing beyond.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use palisade::{
    catalog::{Catalog, Change, Relation, RelationKind},
    dialect::Dialect,
    firewall::{
        Firewall, NeededReads, PermittedChange, ProspectSession, VisibleColumn, VisibleRelation,
    },
    past::{FROM, TO},
    policy::PolicySources,
    session::Principal,
};

use crate::{exit::Failure, setup::Setup, step_needs::StepNeeds};

/// Relations by schema and name, each with columns of it, never none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// What to read.
    pub(crate) relations: BTreeMap<(String, String), BTreeSet<String>>,
    /// Views that some principal may read, in whatever form.
    pub(crate) views: BTreeSet<(String, String)>,
    /// What to read of the server's own relations, in the same form. Of many, every account may.
    pub(crate) system: BTreeMap<(String, String), BTreeSet<String>>,
    /// What to read where history is kept: companions of relations, in the same form.
    pub(crate) past: BTreeMap<(String, String), BTreeSet<String>>,
    /// What to change, by schema and name; nothing where the database is opened for reading.
    pub(crate) changes: BTreeMap<(String, String), Changes>,
    /// Functions of the database to call, by schema and name as policies have it.
    pub(crate) functions: BTreeSet<(String, String)>,
    /// Tables and views to do away with, by schema and name.
    pub(crate) drops: BTreeSet<(String, String)>,
    /// What changes in steps take, where they are asked for.
    pub(crate) steps: Option<StepNeeds>,
    /// What some principal may know of and cannot read, and why.
    pub(crate) notes: Vec<String>,
}

/// What to change of one table.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Columns that new rows have values in.
    pub(crate) insert: BTreeSet<String>,
    /// Columns that get other values.
    pub(crate) update: BTreeSet<String>,
    /// Whether rows are deleted.
    pub(crate) delete: bool,
    /// Whether it is emptied.
    pub(crate) truncate: bool,
}

impl Changes {
    /// What of it `other` has not.
    pub(crate) fn subtract(&self, other: &Self) -> Self {
        let less = |own: &BTreeSet<String>, other: &BTreeSet<String>| -> BTreeSet<String> {
            own.difference(other).cloned().collect()
        };
        Self {
            insert: less(&self.insert, &other.insert),
            update: less(&self.update, &other.update),
            delete: self.delete && !other.delete,
            truncate: self.truncate && !other.truncate,
        }
    }

    /// The privileges for it in SQL, columns spelled by `identifier`: `INSERT (a), UPDATE (b), DELETE`. What empties a
    /// table has no place here, since engines differ in what it takes.
    pub(crate) fn privileges(&self, identifier: impl Fn(&str) -> String) -> Vec<String> {
        let mut found = Vec::new();
        for (word, columns) in [("INSERT", &self.insert), ("UPDATE", &self.update)] {
            if !columns.is_empty() {
                let columns: Vec<_> = columns.iter().map(|column| identifier(column)).collect();
                found.push(format!("{word} ({})", columns.join(", ")));
            }
        }
        if self.delete {
            found.push("DELETE".to_owned());
        }
        found
    }
}

/// The principals that the policies speak of: who asks, whoever is not known, entities, and those that a
/// policy names.
pub(crate) fn principals(setup: &Setup) -> BTreeSet<Principal> {
    let mut found = BTreeSet::from([
        setup.principal.clone(),
        // It has no roles and no attributes: what it may, everybody may whom nothing forbids it.
        Principal::new("Agent", "default"),
    ]);
    let sources = &setup.policies.sources;
    found.extend(entities(sources));
    for file in &sources.policies {
        found.extend(compared_principals(&file.text));
    }
    found
}

/// The types of principals, whatever else policies declare.
const PRINCIPAL_KINDS: [&str; 2] = ["Agent", "User"];

/// Ids of `entities.json`. The policies have been loaded: what is not understood here names no principal
/// that could ask. Roles and other entities ask nothing, so no need is theirs.
fn entities(sources: &PolicySources) -> Vec<Principal> {
    let json = sources.entities.as_deref().unwrap_or("[]");
    let json: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    json.as_array()
        .into_iter()
        .flatten()
        .filter_map(|entity| {
            let uid = entity.get("uid")?;
            let uid = uid.get("__entity").unwrap_or(uid);
            let (kind, id) = (uid.get("type")?.as_str()?, uid.get("id")?.as_str()?);
            let asks = PRINCIPAL_KINDS.contains(&kind);
            asks.then(|| Principal::new(kind, id))
        })
        .collect()
}

/// Principals that a policy's text compares with: `principal == Agent::"a"`. A principal in a comment does no harm:
/// its needs are counted as well.
fn compared_principals(text: &str) -> Vec<Principal> {
    text.split("principal")
        .skip(1)
        .filter_map(|rest| {
            let rest = rest.trim_start().strip_prefix("==")?.trim_start();
            let (kind, rest) = rest.split_once("::\"")?;
            let (id, _) = rest.split_once('"')?;
            Principal::parse(&format!("{kind}::\"{id}\"")).ok()
        })
        .collect()
}

/// What `principals` together need, in any circumstances: at any time, by any transport, with any template. Each of them reads every column that it may of every relation, and
/// what the statement that would run reads is what is needed: conditions of row filters included, columns
/// whose mask is a constant not.
///
/// A view that runs under its own name needs only itself, except for those in `invoker`, which read
/// with the rights of whoever asks.
pub(crate) fn needs(
    firewall: &Firewall,
    principals: &BTreeSet<Principal>,
    invoker: &BTreeSet<String>,
) -> Result<Needs, Failure> {
    let mut needs = Needs::default();
    let prospect = firewall
        .prospect()
        .map_err(|error| Failure::Internal(error.to_string()))?;
    let functions = list_named_functions(firewall.catalog(), firewall.sources());
    let relations = firewall.catalog().relations().iter();
    let by_name = relations.map(|r| (r.database_name(), r)).collect();
    let sessions = principals.iter().flat_map(|principal| {
        let sessions = prospect.sessions(principal).into_iter();
        sessions.map(move |session| (principal, session))
    });
    for (principal, session) in sessions {
        // What is refused in some circumstances is not in all.
        let note = |notes: &mut Vec<String>, text: String| {
            if session.is_most_permissive() {
                notes.push(text);
            }
        };
        let visible = match session.relations() {
            Ok(visible) => visible,
            Err(why) => {
                let text = format!("nothing for {principal}: {}", why.code());
                note(&mut needs.notes, text);
                continue;
            }
        };
        match session.changes() {
            Ok(changes) => changes.iter().for_each(|change| needs.change(change)),
            Err(why) => {
                let text = format!("no change for {principal}: {}", why.code());
                note(&mut needs.notes, text);
            }
        }
        for ((schema, name), call) in &functions {
            let decision = session
                .check(call)
                .map_err(|error| Failure::Internal(error.to_string()))?;
            if decision.is_ok() {
                needs.functions.insert((schema.clone(), name.clone()));
            }
        }
        for relation in visible.iter().filter(|relation| !is_system(relation)) {
            // Where no principal may change anything, this is refused like every change.
            let decision = session
                .check(&drop(firewall.catalog(), relation))
                .map_err(|error| Failure::Internal(error.to_string()))?;
            if decision.is_ok() {
                let key = (relation.schema.clone(), relation.name.clone());
                needs.drops.insert(key);
            }
        }
        for relation in visible.iter().filter(|relation| relation.readable) {
            let decision = session
                .check(&probe(relation, firewall.catalog().dialect()))
                .map_err(|error| Failure::Internal(error.to_string()))?;
            match decision {
                Ok(needed) => {
                    needs.add(firewall.catalog(), &by_name, relation, &needed, invoker);
                }
                Err(why) if session.is_most_permissive() => needs.notes.push(format!(
                    "{}.{} cannot be read by {principal}: {}",
                    relation.schema,
                    relation.name,
                    why.code()
                )),
                Err(_) => {}
            }
            if let Some(needed) = read_aggregated(relation, &session, firewall.catalog().dialect())?
            {
                needs.add(firewall.catalog(), &by_name, relation, &needed, invoker);
            }
        }
    }
    needs.complete(firewall.catalog());
    needs.notes.sort();
    needs.notes.dedup();
    Ok(needs)
}

/// The functions of the database that policies name, without which none is permitted, each with a statement that calls it.
fn list_named_functions(
    catalog: &Catalog,
    sources: &PolicySources,
) -> Vec<((String, String), String)> {
    let is_named = |uid: &str| {
        let literal = format!("{uid:?}");
        (sources.policies.iter()).any(|file| file.text.contains(&literal))
    };
    let callable =
        (catalog.functions().iter()).filter(|def| def.kinds.scalar && is_named(&def.uid));
    let called = callable.filter_map(|def| {
        let schema = def.schema.clone()?;
        let identifier = |name: &str| catalog.dialect().identifier(name);
        let arguments = vec!["NULL"; usize::from(def.min_args)].join(", ");
        let call = format!(
            "SELECT {}.{}({arguments})",
            identifier(&schema),
            identifier(&def.name)
        );
        Some(((schema, def.name.clone()), call))
    });
    called.collect()
}

/// Whether a relation is one of the server's own, which cannot be dropped.
fn is_system(relation: &VisibleRelation) -> bool {
    relation.kind == "system"
}

/// A statement that does away with `relation`.
fn drop(catalog: &Catalog, relation: &VisibleRelation) -> String {
    let kind = catalog
        .find(&relation.schema, &relation.name)
        .map(|r| r.kind);
    let word = match kind {
        Some(RelationKind::View) => "VIEW",
        Some(RelationKind::Materialized) => "MATERIALIZED VIEW",
        Some(RelationKind::Table | RelationKind::Virtual | RelationKind::System) | None => "TABLE",
    };
    format!("DROP {word} {}", named_in(relation, catalog.dialect()))
}

/// A statement that reads everything of `relation` that exists for its principal.
fn probe(relation: &VisibleRelation, dialect: Dialect) -> String {
    let columns: Vec<String> = relation
        .columns
        .iter()
        .map(|column| dialect.identifier(&column.name))
        .collect();
    let columns = if columns.is_empty() {
        "1".to_owned()
    } else {
        columns.join(", ")
    };
    format!("SELECT {columns} FROM {}", named_in(relation, dialect))
}

/// What aggregates read of those columns of `relation` that they alone may see. It is nothing where the aggregates are refused, or
/// all columns are of another kind.
fn read_aggregated(
    relation: &VisibleRelation,
    session: &ProspectSession<'_>,
    dialect: Dialect,
) -> Result<Option<NeededReads>, Failure> {
    let counts: Vec<String> = (relation.columns.iter())
        .filter(|column| is_aggregate_only(column))
        .map(|column| format!("count({})", dialect.identifier(&column.name)))
        .collect();
    if counts.is_empty() {
        return Ok(None);
    }
    let sql = format!(
        "SELECT {} FROM {}",
        counts.join(", "),
        named_in(relation, dialect)
    );
    let decision = session
        .check(&sql)
        .map_err(|error| Failure::Internal(error.to_string()))?;
    Ok(decision.ok())
}

/// Whether COUNT, SUM and AVG alone may see its values.
fn is_aggregate_only(column: &VisibleColumn) -> bool {
    let mask = column.mask.as_deref();
    mask.is_some_and(|mask| mask.starts_with("aggregate_only"))
}

/// The relation's name in a statement.
fn named_in(relation: &VisibleRelation, dialect: Dialect) -> String {
    format!(
        "{}.{}",
        dialect.identifier(&relation.schema),
        dialect.identifier(&relation.name)
    )
}

impl Needs {
    fn add(
        &mut self,
        catalog: &Catalog,
        by_name: &HashMap<String, &Relation>,
        probed: &VisibleRelation,
        needed: &NeededReads,
        invoker: &BTreeSet<String>,
    ) {
        let Some(relation) = catalog.find(&probed.schema, &probed.name) else {
            return;
        };
        let own = relation.database_name();
        let replaced = needed.replaced.contains(&own);
        let is_view = match relation.kind {
            RelationKind::View | RelationKind::Materialized => true,
            RelationKind::Table | RelationKind::Virtual | RelationKind::System => false,
        };
        if is_view {
            let key = (relation.schema.clone(), relation.name.clone());
            self.views.insert(key);
        }
        self.read_referred(&needed.referred);
        if is_view && !replaced {
            self.grant(relation, probed.columns.iter().map(|c| c.name.clone()));
            if !invoker.contains(&own) {
                return;
            }
        }
        for name in &needed.relations {
            // What stands in a view's place reads what is below it.
            let is_other = !(is_view && *name == own);
            let Some(read) = by_name.get(name).filter(|_| is_other) else {
                continue;
            };
            let key = &*read.key;
            let columns = needed
                .reads
                .iter()
                .filter(|(table, _)| table == key)
                .filter_map(|(_, key)| read.position(key))
                .filter_map(|index| read.column(index))
                .map(|column| column.name.to_string());
            self.grant(read, columns.collect::<Vec<_>>().into_iter());
        }
    }

    fn change(&mut self, permitted: &PermittedChange) {
        let key = (permitted.schema.clone(), permitted.name.clone());
        let columns = || permitted.assigned.iter().cloned();
        let changes = self.changes.entry(key.clone()).or_default();
        for change in &permitted.changes {
            match change {
                Change::Insert => changes.insert.extend(columns()),
                Change::Update => changes.update.extend(columns()),
                Change::Delete => changes.delete = true,
                Change::Truncate => changes.truncate = true,
            }
        }
        if !permitted.looked_at.is_empty() {
            let read = self.relations.entry(key).or_default();
            read.extend(permitted.looked_at.iter().cloned());
        }
        self.read_referred(&permitted.looked_at_beyond);
    }

    /// Has what row filters read of tables read to which rows refer.
    fn read_referred(&mut self, referred: &BTreeMap<(String, String), BTreeSet<String>>) {
        for (table, columns) in referred {
            let read = self.relations.entry(table.clone()).or_default();
            read.extend(columns.iter().cloned());
        }
    }

    /// Has `columns` of `relation` read.
    pub(crate) fn grant(&mut self, relation: &Relation, columns: impl Iterator<Item = String>) {
        let key = (relation.schema.clone(), relation.name.clone());
        let granted = match relation.system {
            Some(_) => &mut self.system,
            None => &mut self.relations,
        };
        granted.entry(key).or_default().extend(columns);
    }

    /// Adds what is read of the past of relations: the columns that are read of them, their keys, and since and until when rows were so.
    pub(crate) fn read_past(&mut self, catalog: &Catalog) {
        for relation in catalog.relations() {
            let key = (relation.schema.clone(), relation.name.clone());
            let Some((companion, columns)) =
                catalog.companion(relation).zip(self.relations.get(&key))
            else {
                continue;
            };
            let name = (companion.schema.clone(), companion.name.clone());
            self.past.insert(name, past_columns(relation, columns));
        }
    }

    /// Gives relations of which no column is read one all the same: servers count no rows for whom they let
    /// read no column.
    fn complete(&mut self, catalog: &Catalog) {
        for ((schema, name), columns) in &mut self.relations {
            if columns.is_empty()
                && let Some(relation) = catalog.find(schema, name)
            {
                let key = relation
                    .primary_key
                    .first()
                    .and_then(|index| relation.column(*index));
                columns.extend(
                    key.or_else(|| relation.columns.first())
                        .map(|column| column.name.to_string()),
                );
            }
        }
        self.relations.retain(|_, columns| !columns.is_empty());
    }
}

/// What is read of the past of a relation, of which these columns are read.
pub(crate) fn past_columns(relation: &Relation, columns: &BTreeSet<String>) -> BTreeSet<String> {
    let keys = (relation.primary_key.iter())
        .filter_map(|index| relation.column(*index))
        .map(|column| column.name.to_string());
    let own = [FROM, TO].map(str::to_owned);
    columns.iter().cloned().chain(keys).chain(own).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn entities_that_ask_nothing_have_no_needs() {
        let sources = PolicySources {
            principals_schema: Some(
                "entity Team in [Team]; entity User in [Team]; entity Agent in [Team];".to_owned(),
            ),
            entities: Some(
                r#"[{"uid": {"type": "Team", "id": "analyst"}, "attrs": {}, "parents": []},
                    {"uid": {"type": "Agent", "id": "a"}, "attrs": {}, "parents": []},
                    {"uid": {"__entity": {"type": "User", "id": "u"}}, "attrs": {}, "parents": []}]"#
                    .to_owned(),
            ),
            ..PolicySources::default()
        };
        let asking = [Principal::new("Agent", "a"), Principal::new("User", "u")];
        assert_eq!(entities(&sources), asking);
        // The types are those that the firewall knows.
        let catalog = Catalog::builder(Dialect::Sqlite).build().unwrap();
        let firewall = Firewall::builder(catalog, sources).build().unwrap();
        assert_eq!(firewall.principal_kinds(), PRINCIPAL_KINDS);
    }

    #[test]
    fn functions_that_policies_permit_are_needed() {
        let catalog = palisade_ddl::mysql(
            "CREATE TABLE t (a int);
             CREATE FUNCTION net(a int, b int) RETURNS int DETERMINISTIC RETURN a - b;
             CREATE FUNCTION gross(a int) RETURNS int DETERMINISTIC RETURN a;
             CREATE FUNCTION other(a int) RETURNS int DETERMINISTIC RETURN a;",
            "d",
        )
        .unwrap();
        let text = "permit (principal, action == Action::\"call\", resource == Function::\"d.net\");\n\
                    permit (principal, action == Action::\"call\", resource) when { resource in [Function::\"d.gross\"] };\n\
                    forbid (principal, action == Action::\"call\", resource == Function::\"d.gross\");";
        let sources = PolicySources {
            policies: vec![palisade::policy::PolicyFile {
                name: "p.cedar".to_owned(),
                text: text.to_owned(),
            }],
            ..PolicySources::default()
        };
        let firewall = Firewall::builder(catalog, sources).build().unwrap();
        let principals = BTreeSet::from([Principal::new("Agent", "a")]);
        let needs = needs(&firewall, &principals, &BTreeSet::new()).unwrap();
        let net = ("d".to_owned(), "net".to_owned());
        assert_eq!(needs.functions, BTreeSet::from([net]));
    }

    #[test]
    fn what_aggregates_alone_may_see_is_needed() {
        let catalog = palisade_ddl::postgres(
            "CREATE TABLE t (id bigint PRIMARY KEY, qty bigint, price bigint, note text);",
            "public",
        )
        .unwrap();
        let text = "permit (principal, action, resource);\n\
                    @aggregate_only(\"2\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"public.t.qty\");\n\
                    @aggregate_only(\"5\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"public.t.price\");\n\
                    @mask(\"null\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"public.t.note\");\n";
        let no_calls = "forbid (principal, action == Action::\"call\", resource);";
        let principals = BTreeSet::from([Principal::new("Agent", "a")]);
        for (more, expected) in [("", &["id", "price", "qty"][..]), (no_calls, &["id"])] {
            let sources = PolicySources::from_cedar("p.cedar", format!("{text}{more}"));
            let firewall = Firewall::builder(catalog.clone(), sources).build().unwrap();
            let needs = needs(&firewall, &principals, &BTreeSet::new()).unwrap();
            let columns = &needs.relations[&("public".to_owned(), "t".to_owned())];
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            assert_eq!(columns, expected, "{more}");
            let is_noted = (needs.notes.iter()).any(|note| note.contains("cannot be read"));
            assert!(!is_noted, "{:?}", needs.notes);
        }
    }

    #[test]
    fn what_decides_about_a_parent_is_needed_for_its_children() {
        let catalog = palisade_ddl::postgres(
            "CREATE TABLE orders (id bigint PRIMARY KEY, tenant bigint NOT NULL, title text);
             CREATE TABLE items (id bigint PRIMARY KEY, order_id bigint REFERENCES orders (id));",
            "public",
        )
        .unwrap();
        let text = "permit (principal, action, resource);\n\
                    forbid (principal, action in [Action::\"insert\", Action::\"update\", Action::\"delete\", Action::\"truncate\"], resource == Table::\"public.orders\");\n\
                    forbid (principal, action in Action::\"read\", resource in Table::\"public.orders\") unless { resource == Column::\"public.orders.title\" };\n\
                    forbid (principal, action == Action::\"see\", resource is row::public::orders) unless { resource.tenant == 1 };\n";
        let follows = "forbid (principal, action == Action::\"ACTION\", resource is row::public::items) unless { resource.order_id_is_seen };";
        for (action, is_writable, needs_key) in [
            ("see", false, true),
            ("add", false, false),
            ("add", true, true),
        ] {
            let text = format!("{text}{}", follows.replace("ACTION", action));
            let sources = PolicySources::from_cedar("p.cedar", text);
            let builder = Firewall::builder(catalog.clone(), sources);
            let builder = match is_writable {
                true => builder.allow_changes(),
                false => builder,
            };
            let firewall = builder.build().unwrap();
            let principals = BTreeSet::from([Principal::new("Agent", "a")]);
            let needs = needs(&firewall, &principals, &BTreeSet::new()).unwrap();
            let orders = &needs.relations[&("public".to_owned(), "orders".to_owned())];
            let case = format!("{action} {is_writable}: {orders:?}");
            assert!(orders.contains("tenant"), "{case}");
            assert_eq!(orders.contains("id"), needs_key, "{case}");
        }
    }

    #[test]
    fn principals_that_policies_name_are_found() {
        let text = "permit (principal == Agent::\"a\", action, resource);\n\
                    permit (principal, action, resource) when { principal==User::\"u\" || principal in Role::\"r\" };";
        assert_eq!(
            compared_principals(text),
            [Principal::new("Agent", "a"), Principal::new("User", "u")]
        );
    }
}
