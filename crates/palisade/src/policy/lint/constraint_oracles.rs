//! Constraints that tell of rows which are not shown: a change that breaks one fails exactly if such a row is there.
//!
//! * A unique key is an oracle over hidden rows, or over a column that is not read plain.
//! * A foreign key is an oracle to hidden rows or values, as is a key that hidden rows reference.
//! * A key is no oracle if `see` and `add` both compare its columns with the session's own value, and `see` demands nothing else:
//!   then no hidden row can conflict. The condition of a partial index makes no difference.
//! * A foreign key is no oracle if `add` demands that the row is seen to which it refers: a hidden row and an absent one are refused
//!   alike, before the database looks. Neither is a unique key over such columns, if `see` demands the same.
//!
//! Keys of one integer (ids) tell that a row is there and nothing of what it holds, and nearly every table has one. They are told
//! of together, once for each policy. A partition's key is told of with its parent's.

use std::collections::BTreeMap;

use crate::catalog::{Catalog, Change, ForeignKey, Relation, TypeClass};
use crate::policy::{
    cedar::{request::Subject, schema::write_attribute, seen_attribute::seen_attributes},
    decide::{relation, writes::WriteDecision},
    load::{
        diagnostic::{PolicyProblem, Source},
        source::Origins,
    },
    obligation::{
        ColumnLevel, Comparison, Literal, Operand, Predicate, ReferredRows, RelationDecision,
        RowFilter, Visibility,
    },
    set::Loaded,
};

/// How many tables a warning about ids names.
const NAMED: usize = 3;

/// What a foreign key is that tells of rows.
const REFERENCE: &str = "a foreign key to rows";

/// Which constraint tells, by the policy that permits writing its columns.
#[derive(Default)]
pub(in crate::policy) struct Oracles {
    /// By policy and the columns of a key: what is wrong with it.
    keys: BTreeMap<(String, String), ToldKey>,
    /// By policy: columns of ids.
    ids: BTreeMap<String, ToldIds>,
}

/// A key that tells of rows or values.
struct ToldKey {
    /// What is wrong with it.
    what: String,
    /// The same columns of the tables whose rows include this one's.
    above: Vec<String>,
}

/// Columns of ids that tell of rows.
#[derive(Default)]
struct ToldIds {
    /// What they are called, and the same columns of the tables whose rows include those of theirs.
    columns: BTreeMap<String, Vec<String>>,
    /// The attribute by which a row with one of them follows the row to which it refers.
    attribute: Option<String>,
}

/// A table, with what is shown of it.
struct Shown<'l> {
    relation: &'l Relation,
    read: RelationDecision,
}

/// A table that is written.
struct Written<'l> {
    catalog: &'l Catalog,
    relation: &'l Relation,
    shown: Shown<'l>,
    write: &'l WriteDecision,
}

impl Oracles {
    /// Looks at the constraints of `relation` for `subject`. Where a policy fails, the change fails alike.
    pub(in crate::policy) fn look(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        write: &WriteDecision,
    ) {
        let is_permitted = |change| write.action(change).permitted;
        let [inserts, updates] = [Change::Insert, Change::Update].map(is_permitted);
        // A row that no session may have is not admitted, and no constraint is asked.
        if !(inserts || updates) || write.add == RowFilter::Nothing {
            return;
        }
        let Ok(read) = relation::decide_relation(loaded, subject, relation) else {
            return;
        };
        let own = Written {
            catalog: &loaded.catalog,
            relation,
            shown: Shown { relation, read },
            write,
        };
        self.note_unique_keys(&own);
        for key in &relation.foreign_keys {
            if let Some(other) = read_decision(loaded, subject, &key.schema, &key.table) {
                self.reference(&own, key, &other);
            }
        }
        if updates {
            for child in loaded.catalog.relations() {
                let references = child.foreign_keys.iter().filter(|key| {
                    let table = loaded.catalog.find(&key.schema, &key.table);
                    table.is_some_and(|table| table.id == relation.id)
                });
                for key in references {
                    if let Some(child) = read_decision(loaded, subject, &child.schema, &child.name)
                    {
                        self.note_referenced(&own, key, &child);
                    }
                }
            }
        }
    }

    fn note_unique_keys(&mut self, own: &Written<'_>) {
        let primary: &[u16] = &own.relation.primary_key;
        // Of expressions and prefixes, other values of a column may be the same: only in some columns are rows equal that conflict.
        let mut keys: BTreeMap<&[u16], Vec<&[u16]>> = BTreeMap::from([(primary, vec![primary])]);
        for key in own.relation.unique_keys.iter().flatten() {
            keys.entry(&key.columns).or_default().push(&key.equal);
        }
        let separates = |equal: &&[u16]| {
            let pairs: Vec<(u16, u16)> = equal.iter().map(|column| (*column, *column)).collect();
            is_apart(&own.shown.read.rows, &own.write.add, &pairs)
        };
        for (columns, equal) in keys.into_iter().filter(|(columns, _)| !columns.is_empty()) {
            let what = if columns.iter().any(|column| !own.shown.reads(*column)) {
                "a unique key over values"
            } else if own.shown.hides_rows() && !equal.iter().all(separates) {
                "a unique key over rows"
            } else {
                continue;
            };
            self.note(own, columns, what);
        }
    }

    fn reference(&mut self, own: &Written<'_>, key: &ForeignKey, other: &Shown<'_>) {
        let Some(pairs) = positions(key, own.relation, other.relation) else {
            return;
        };
        let what = if pairs.iter().any(|(_, theirs)| !other.reads(*theirs)) {
            "a foreign key to values"
        } else if other.hides_rows()
            && !is_followed(&own.write.add, &pairs, other.relation)
            && !is_apart(&other.read.rows, &own.write.add, &pairs)
        {
            REFERENCE
        } else {
            return;
        };
        let columns: Vec<u16> = pairs.iter().map(|(own, _)| *own).collect();
        self.note(own, &columns, what);
    }

    fn note_referenced(&mut self, own: &Written<'_>, key: &ForeignKey, child: &Shown<'_>) {
        let Some(pairs) = positions(key, child.relation, own.relation) else {
            return;
        };
        let pairs: Vec<(u16, u16)> = pairs.into_iter().map(|(c, own)| (own, c)).collect();
        if child.hides_rows() && !is_apart(&child.read.rows, &own.write.add, &pairs) {
            let columns: Vec<u16> = pairs.iter().map(|(own, _)| *own).collect();
            self.note(own, &columns, "a key that is referenced by rows");
        }
    }

    /// Notes a key of these columns, if one of them may be written.
    fn note(&mut self, own: &Written<'_>, columns: &[u16], what: &str) {
        let is_chosen = |index: &&u16| {
            let column = own.relation.column(**index);
            own.write.assigns(**index) && column.is_some_and(|c| c.generated.is_none())
        };
        let Some(written) = columns.iter().find(is_chosen) else {
            return;
        };
        let policies = own.write.columns.get(usize::from(*written));
        let policy = policies.and_then(|column| column.policies.first());
        let policy = policy.cloned().unwrap_or_default();
        let names: Vec<&str> = columns
            .iter()
            .filter_map(|index| Some(&*own.relation.column(*index)?.name))
            .collect();
        let name_key = |relation: &Relation| format!("{} ({})", relation.uid, names.join(", "));
        let parents = own.relation.parents.iter();
        let above: Vec<String> = parents
            .filter_map(|id| own.catalog.relation(*id))
            .map(name_key)
            .collect();
        let named = name_key(own.relation);
        let is_id = matches!(columns, [id] if own
            .relation
            .column(*id)
            .is_some_and(|column| column.class == TypeClass::Integer));
        if is_id && !what.ends_with("values") {
            let told = self.ids.entry(policy).or_default();
            told.columns.insert(named, above);
            if told.attribute.is_none() && what == REFERENCE {
                told.attribute = find_attribute(own, columns);
            }
        } else {
            let what = what.to_owned();
            let told = || ToldKey { what, above };
            self.keys.entry((policy, named)).or_insert_with(told);
        }
    }

    /// The warnings.
    pub(in crate::policy) fn report(
        self,
        origins: &Origins<'_>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        let place = |id: &str, message: String| match origins.get(id) {
            Some(origin) => origin.problem(message),
            None => Source { name: id, text: "" }.problem_of_file(message),
        };
        let is_told = |policy: &str, what: &str, key: &String| {
            let told = self.keys.get(&(policy.to_owned(), key.clone()));
            told.is_some_and(|told| told.what == what)
        };
        for ((policy, key), ToldKey { what, above }) in &self.keys {
            if above.iter().any(|above| is_told(policy, what, above)) {
                continue;
            }
            let message = format!(
                "`{key}` is {what} that are hidden from somebody who may write it: a change fails exactly if one of them is met"
            );
            let help = "forbid `Action::\"write\"` on it, so that a default or a sequence makes it; or let the key begin with a column that `see` and `add` both compare with the principal's own value, as in `UNIQUE (tenant, email)`";
            warnings.push(place(policy, message).with_help(Some(help)));
        }
        for (policy, ids) in self.ids {
            let ToldIds { columns, attribute } = ids;
            let is_below = |above: &[String]| above.iter().any(|id| columns.contains_key(id));
            let roots = columns.iter().filter(|(_, above)| !is_below(above));
            let roots: Vec<&String> = roots.map(|(id, _)| id).collect();
            let first = roots.iter().take(NAMED);
            let mut named: Vec<String> = first.map(|id| format!("`{id}`")).collect();
            if roots.len() > NAMED {
                named.push(format!("{} more", roots.len() - NAMED));
            }
            let message = format!(
                "whoever writes ids may learn which ids hidden rows have: {}",
                named.join(", ")
            );
            let rest = match attribute {
                Some(attribute) => {
                    format!("let `add` follow the row to which a foreign key refers: `{attribute}`")
                }
                None => "ids tell that a row is there, and nothing of what it holds".to_owned(),
            };
            let help = format!(
                "forbid `Action::\"write\"` on keys, so that a sequence makes them; {rest}"
            );
            warnings.push(place(&policy, message).with_help(Some(help)));
        }
    }
}

impl Shown<'_> {
    /// Whether some rows may be hidden.
    fn hides_rows(&self) -> bool {
        self.read.visibility != Visibility::Selectable || self.read.rows != RowFilter::Everything
    }

    /// Whether the values of a column are read as they are, of the rows that are seen.
    fn reads(&self, index: u16) -> bool {
        let column = self.read.columns.get(usize::from(index));
        self.read.visibility != Visibility::Selectable
            || column.is_some_and(|column| column.level == ColumnLevel::Plain)
    }
}

fn read_decision<'l>(
    loaded: &'l Loaded,
    subject: &Subject,
    schema: &str,
    name: &str,
) -> Option<Shown<'l>> {
    let relation = loaded.catalog.find(schema, name)?;
    Some(Shown {
        relation,
        read: relation::decide_relation(loaded, subject, relation).ok()?,
    })
}

/// The columns of a key in `own` and in the table that it references.
fn positions(key: &ForeignKey, own: &Relation, other: &Relation) -> Option<Vec<(u16, u16)>> {
    let find = |relation: &Relation, name: &String| {
        let mut columns = relation.column_ids();
        let found = columns
            .find(|(_, column)| *column.name == **name || column.key.eq_ignore_ascii_case(name));
        found.map(|(id, _)| id.index)
    };
    let pairs = key.columns.iter().zip(&key.references);
    pairs
        .map(|(column, referenced)| Some((find(own, column)?, find(other, referenced)?)))
        .collect()
}

/// The attribute by which rows follow those to which the only one of these columns refers.
fn find_attribute(own: &Written<'_>, columns: &[u16]) -> Option<String> {
    let mut all = seen_attributes(own.catalog, own.relation).into_iter();
    let found = all.find(|attribute| columns == [attribute.column]);
    found.map(|attribute| write_attribute(&attribute.name))
}

/// Whether a row that `added` admits refers to rows of `parent` alone that are seen, by a key of these `pairs` of columns.
fn is_followed(added: &RowFilter, pairs: &[(u16, u16)], parent: &Relation) -> bool {
    let (RowFilter::Where(added), [(own, theirs)]) = (added, pairs) else {
        return false;
    };
    let is_meant = |rows: &ReferredRows| rows.table == parent.id && rows.key == *theirs;
    follows(added, *own, &is_meant)
}

/// Whether a column of rows that `added` admits is NULL, or refers to rows that are seen and that `is_meant` accepts.
fn follows(added: &Predicate, own: u16, is_meant: &dyn Fn(&ReferredRows) -> bool) -> bool {
    demands(added, true, &|(predicate, holds)| match predicate {
        Predicate::RefersToSeen(Operand::Column(column), rows) => {
            holds && *column == own && is_meant(rows)
        }
        Predicate::Has(column) => !holds && *column == own,
        Predicate::RefersToSeen(Operand::Literal(_), _)
        | Predicate::Constant(_)
        | Predicate::And(_)
        | Predicate::Or(_)
        | Predicate::Not(_)
        | Predicate::If(..)
        | Predicate::Column(_)
        | Predicate::Compare(..)
        | Predicate::In(..)
        | Predicate::Like(..) => false,
    })
}

/// Whether no row that `seen` hides can have what a row has that `added` admits, in each of the `pairs` of columns of one and of
/// the other.
fn is_apart(seen: &RowFilter, added: &RowFilter, pairs: &[(u16, u16)]) -> bool {
    let (RowFilter::Where(seen), RowFilter::Where(added)) = (seen, added) else {
        return false;
    };
    is_implied(seen, true, &|demand| is_met(demand, added, pairs))
}

/// Whether a row meets `demand` that has, in each of the `pairs` of columns, what a row has that `added` admits.
fn is_met(demand: Demand<'_>, added: &Predicate, pairs: &[(u16, u16)]) -> bool {
    let partners = |index: u16| {
        let pairs = pairs.iter().filter(move |(_, theirs)| *theirs == index);
        pairs.map(|(own, _)| *own)
    };
    match demand {
        // A NULL conflicts with nothing.
        (Predicate::Has(index), true) => partners(*index).next().is_some(),
        (Predicate::RefersToSeen(Operand::Column(theirs), rows), true) => {
            let is_meant = |other: &ReferredRows| *other == **rows;
            partners(*theirs).any(|own| follows(added, own, &is_meant))
        }
        demand => equality(demand).is_some_and(|(theirs, value)| {
            partners(theirs).any(|own| {
                demands(added, true, &|pin| {
                    equality(pin).is_some_and(|pin| pin == (own, value))
                })
            })
        }),
    }
}

/// A part of a condition, and whether it has to hold or not to.
type Demand<'p> = (&'p Predicate, bool);

/// Whether `predicate` is as `holds` says wherever its parts are that `is_met` accepts.
fn is_implied(predicate: &Predicate, holds: bool, is_met: &dyn Fn(Demand<'_>) -> bool) -> bool {
    match (predicate, holds) {
        (Predicate::Constant(value), _) => *value == holds,
        (Predicate::Not(inner), _) => is_implied(inner, !holds, is_met),
        (Predicate::And(all), true) | (Predicate::Or(all), false) => {
            all.iter().all(|one| is_implied(one, holds, is_met))
        }
        (Predicate::And(all), false) | (Predicate::Or(all), true) => {
            all.iter().any(|one| is_implied(one, holds, is_met))
        }
        (
            Predicate::If(..)
            | Predicate::Column(_)
            | Predicate::Has(_)
            | Predicate::Compare(..)
            | Predicate::In(..)
            | Predicate::Like(..)
            | Predicate::RefersToSeen(..),
            _,
        ) => is_met((predicate, holds)),
    }
}

/// Whether a part that `is_meant` accepts has to be so wherever `predicate` is as `holds` says.
fn demands(predicate: &Predicate, holds: bool, is_meant: &dyn Fn(Demand<'_>) -> bool) -> bool {
    match (predicate, holds) {
        // It is never so.
        (Predicate::Constant(value), _) => *value != holds,
        (Predicate::Not(inner), _) => demands(inner, !holds, is_meant),
        (Predicate::And(all), true) | (Predicate::Or(all), false) => {
            all.iter().any(|one| demands(one, holds, is_meant))
        }
        (Predicate::And(all), false) | (Predicate::Or(all), true) => {
            all.iter().all(|one| demands(one, holds, is_meant))
        }
        (
            Predicate::If(..)
            | Predicate::Column(_)
            | Predicate::Has(_)
            | Predicate::Compare(..)
            | Predicate::In(..)
            | Predicate::Like(..)
            | Predicate::RefersToSeen(..),
            _,
        ) => is_meant((predicate, holds)),
    }
}

/// The column that has to have this value.
fn equality((predicate, holds): Demand<'_>) -> Option<(u16, &Literal)> {
    let wanted = if holds {
        Comparison::Equal
    } else {
        Comparison::NotEqual
    };
    match predicate {
        Predicate::Compare(Operand::Column(column), comparison, Operand::Literal(value))
        | Predicate::Compare(Operand::Literal(value), comparison, Operand::Column(column))
            if *comparison == wanted =>
        {
            Some((*column, value))
        }
        Predicate::In(Operand::Column(column), values) if holds => match values.as_slice() {
            [value] => Some((*column, value)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use crate::{
        catalog::test_ddl,
        policy::{ColumnFlow, Lint, PolicyFile, PolicyProblem, PolicySet, PolicySources},
    };

    const SCHEMA: &str = "
        CREATE TABLE people (tenant text NOT NULL, mail text NOT NULL, secret text UNIQUE, UNIQUE (tenant, mail));
        CREATE TABLE visits (id integer PRIMARY KEY, secret text REFERENCES people (secret));";

    /// A child that has nothing by which its rows could be told apart.
    const FOLLOWED: &str = "
        CREATE TABLE tasks (id text PRIMARY KEY, tenant text NOT NULL);
        CREATE TABLE labels (id text PRIMARY KEY, tenant text NOT NULL);
        CREATE TABLE task_labels (
            task_id text NOT NULL REFERENCES tasks (id),
            label_id text REFERENCES labels (id),
            UNIQUE (task_id, label_id));
        CREATE TABLE orders (id integer PRIMARY KEY, tenant text NOT NULL);
        CREATE TABLE items (order_id integer REFERENCES orders (id));";

    fn warnings(schema: &str, policies: &str) -> Vec<PolicyProblem> {
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "base.cedar".to_owned(),
                text: format!("permit(principal, action, resource);\n{policies}"),
            }],
            ..PolicySources::default()
        };
        let catalog = Arc::new(test_ddl::postgres(schema, "main").unwrap());
        let flow = ColumnFlow::default();
        let set = PolicySet::load_and_lint(&sources, &catalog, &flow, Lint::EveryRelation).unwrap();
        set.warnings().to_vec()
    }

    /// The keys of which it is warned that they tell of rows or values that are hidden.
    fn told_of(schema: &str, policies: &str) -> Vec<String> {
        let warnings = warnings(schema, policies);
        let messages = warnings.iter().map(|warning| &warning.message);
        let told = messages.filter_map(|message| message.split_once(" that are hidden"));
        told.map(|(key, _)| key.replace("public.", "")).collect()
    }

    fn told(policies: &str) -> Vec<String> {
        told_of(SCHEMA, policies)
    }

    /// A policy by which rows that are not so are hidden, or may not be added.
    fn unless(action: &str, table: &str, condition: &str) -> String {
        format!(
            "forbid(principal, action == Action::\"{action}\", resource is row::public::{table}) unless {{ {condition} }};\n"
        )
    }

    #[test]
    fn a_key_tells_of_rows_unless_it_is_apart_from_them() {
        let hides = r#"forbid(principal, action == Action::"see", resource is row::public::people) unless { resource.tenant == "a" };"#;
        let apart = r#"forbid(principal, action == Action::"add", resource is row::public::people) unless { resource.tenant == "a" };"#;
        let (secret, both, reference) = (
            "`people (secret)` is a unique key over rows",
            "`people (tenant, mail)` is a unique key over rows",
            "`visits (secret)` is a foreign key to rows",
        );
        assert_eq!(told(""), Vec::<String>::new());
        assert_eq!(told(hides), [secret, both, reference]);
        assert_eq!(told(&format!("{hides}\n{apart}")), [secret, reference]);
    }

    #[test]
    fn a_key_is_apart_by_each_column_in_which_conflicting_rows_are_equal() {
        let table = "CREATE TABLE notes (tenant text NOT NULL, code text NOT NULL, gone_at text);";
        let condition = "resource.tenant == \"a\"";
        let see = unless("see", "notes", condition);
        let both = see.clone() + &unless("add", "notes", condition);
        for (index, columns, is_apart) in [
            ("(tenant, code)", "tenant, code", true),
            (
                "(tenant, code) WHERE gone_at IS NULL",
                "tenant, code, gone_at",
                true,
            ),
            ("(lower(code), tenant)", "tenant, code", true),
            (
                "(tenant, code COLLATE \"C\") INCLUDE (gone_at)",
                "tenant, code",
                true,
            ),
            ("(code) WHERE tenant > 'a'", "tenant, code", false),
            ("(lower(tenant), code)", "tenant, code", false),
            ("(tenant COLLATE \"C\", code)", "tenant, code", false),
            ("(tenant, code) NULLS NOT DISTINCT", "tenant, code", false),
        ] {
            let schema = format!("{table} CREATE UNIQUE INDEX one ON notes {index};");
            let key = format!("`notes ({columns})` is a unique key over rows");
            assert_eq!(told_of(&schema, &see), [key.as_str()], "{index}");
            let expected: Vec<String> = (!is_apart).then_some(key).into_iter().collect();
            assert_eq!(told_of(&schema, &both), expected, "{index}");
        }
    }

    #[test]
    fn a_key_of_partitions_is_told_of_once() {
        let schema = "
            CREATE TABLE events (tenant text NOT NULL, code text NOT NULL, day integer NOT NULL, PRIMARY KEY (code, day)) PARTITION BY RANGE (day);
            CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (1) TO (9);
            CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM (9) TO (20) PARTITION BY RANGE (day);
            CREATE TABLE events_3 PARTITION OF events_2 FOR VALUES FROM (9) TO (12);
            CREATE UNIQUE INDEX own ON events_3 (code);
            CREATE TABLE logs (id integer PRIMARY KEY, tenant text NOT NULL) PARTITION BY RANGE (id);
            CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM (1) TO (9);";
        let tables = [
            "events", "events_1", "events_2", "events_3", "logs", "logs_1",
        ];
        let own = tables.map(|table| unless("see", table, "resource.tenant == \"a\""));
        let own = own.concat();
        assert_eq!(
            told_of(schema, &own),
            [
                "`events (code, day)` is a unique key over rows",
                "`events_3 (code)` is a unique key over rows"
            ]
        );
        let mut warnings = warnings(schema, &own).into_iter();
        let ids = warnings.find(|warning| warning.message.starts_with("whoever writes ids"));
        let message = ids.unwrap().message;
        assert!(message.ends_with(": `public.logs (id)`"), "{message}");
    }

    #[test]
    fn a_reference_tells_of_values_that_are_not_read() {
        let hides = r#"forbid(principal, action == Action::"read_plain", resource == Column::"public.people.secret");"#;
        let told = told(hides);
        let of_values = "`visits (secret)` is a foreign key to values".to_owned();
        assert!(told.contains(&of_values), "{told:?}");
    }

    #[test]
    fn a_key_whose_rows_are_followed_tells_of_none() {
        let own = |table: &str| unless("see", table, "resource.tenant == \"a\"");
        let parents = own("tasks") + &own("labels");
        let of_child = |policies: &str| -> Vec<String> {
            let told = told_of(FOLLOWED, &format!("{parents}{policies}"));
            let of_child = told.into_iter().filter(|key| key.contains("task_labels"));
            of_child.collect()
        };
        let (label, task, both) = (
            "`task_labels (label_id)` is a foreign key to rows",
            "`task_labels (task_id)` is a foreign key to rows",
            "`task_labels (task_id, label_id)` is a unique key over rows",
        );
        assert_eq!(of_child(""), [label, task]);
        let task_alone = "resource.task_id_is_seen";
        for follows in [
            "resource.task_id_is_seen && (!(resource has label_id) || resource.label_id_is_seen)",
            "resource.task_id_is_seen && !(resource has label_id && !resource.label_id_is_seen)",
            "resource.label_id_is_seen && resource.task_id_is_seen",
        ] {
            let see = unless("see", "task_labels", follows);
            let add = unless("add", "task_labels", follows);
            assert_eq!(of_child(&see), [label, task, both], "{follows}");
            assert_eq!(of_child(&add), [""; 0], "{follows}");
            assert_eq!(of_child(&format!("{see}{add}")), [""; 0], "{follows}");
            // Another label's rows may be hidden.
            let add = unless("add", "task_labels", task_alone);
            assert_eq!(of_child(&format!("{see}{add}")), [label, both], "{follows}");
        }
        // It need not hold.
        let either = format!("{task_alone} || resource.task_id == \"x\"");
        let add = unless("add", "task_labels", &either);
        assert_eq!(of_child(&add), [label, task]);
        // Of a parent that cannot be read, no row is meant.
        let hidden = "forbid(principal, action == Action::\"select\", resource == Table::\"public.labels\");";
        let add = unless(
            "add",
            "task_labels",
            "resource.task_id_is_seen && (!(resource has label_id) || resource.label_id_is_seen)",
        );
        assert_eq!(of_child(&format!("{hidden}{add}")), [""; 0]);
    }

    #[test]
    fn ids_that_refer_say_what_to_follow() {
        let of_ids = |policies: &str| {
            let orders = unless("see", "orders", "resource.tenant == \"a\"");
            let warnings = warnings(FOLLOWED, &format!("{orders}{policies}"));
            let mut ids = warnings
                .into_iter()
                .filter(|warning| warning.message.starts_with("whoever writes ids"));
            let told = ids.next().unwrap();
            assert_eq!(ids.next(), None);
            (told.message, told.help.unwrap())
        };
        let (message, help) = of_ids("");
        assert!(
            message.ends_with(": `public.items (order_id)`, `public.orders (id)`"),
            "{message}"
        );
        assert!(
            help.ends_with("foreign key refers: `resource.order_id_is_seen`"),
            "{help}"
        );
        let add = unless("add", "items", "resource.order_id_is_seen");
        let (message, help) = of_ids(&add);
        assert!(message.ends_with(": `public.orders (id)`"), "{message}");
        assert!(!help.contains("follow"), "{help}");
    }
}
