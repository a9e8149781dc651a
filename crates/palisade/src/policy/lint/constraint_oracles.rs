//! Constraints that tell of rows which are not shown: a change that breaks one fails exactly if such a row is there.
//!
//! * A unique key is an oracle over hidden rows, or over a column that is not read plain.
//! * A foreign key is an oracle to hidden rows or values, as is a key that hidden rows reference.
//! * A key is no oracle if `see` and `add` both compare its columns with the session's own value, and `see` demands nothing else:
//!   then no hidden row can conflict.
//!
//! Keys of one integer (ids) tell that a row is there and nothing of what it holds, and nearly every table has one. They are told
//! of together, once for each policy.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::{Change, ForeignKey, Relation, TypeClass};
use crate::policy::{
    cedar::request::Subject,
    decide::{relation, writes::WriteDecision},
    load::{
        diagnostic::{PolicyProblem, Source},
        source::Origins,
    },
    obligation::{
        ColumnLevel, Comparison, Literal, Operand, Predicate, RelationDecision, RowFilter,
        Visibility,
    },
    set::Loaded,
};

/// How many tables a warning about ids names.
const NAMED: usize = 3;

/// Which constraint tells, by the policy that permits writing its columns.
#[derive(Default)]
pub(in crate::policy) struct Oracles {
    /// By policy and the columns of a key: what is wrong with it.
    keys: BTreeMap<(String, String), String>,
    /// By policy: columns of ids.
    ids: BTreeMap<String, BTreeSet<String>>,
}

/// A table, with what is shown of it.
struct Shown<'l> {
    relation: &'l Relation,
    read: RelationDecision,
}

/// A table that is written.
struct Written<'l> {
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
        let Ok(read) = relation::decision(loaded, subject, relation) else {
            return;
        };
        let own = Written {
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
        let mut keys: BTreeMap<&[u16], bool> = BTreeMap::new();
        keys.insert(&own.relation.primary_key, true);
        for key in own.relation.unique_keys.iter().flatten() {
            // Of expressions and prefixes, other values of a column may be the same.
            *keys.entry(&key.columns).or_insert(true) &= key.plain;
        }
        for (columns, is_plain) in keys.into_iter().filter(|(columns, _)| !columns.is_empty()) {
            let pairs: Vec<(u16, u16)> = columns.iter().map(|column| (*column, *column)).collect();
            let what = if columns.iter().any(|column| !own.shown.reads(*column)) {
                "a unique key over values"
            } else if own.shown.hides_rows()
                && !(is_plain && is_apart(&own.shown.read.rows, &own.write.add, &pairs))
            {
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
        } else if other.hides_rows() && !is_apart(&other.read.rows, &own.write.add, &pairs) {
            "a foreign key to rows"
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
        let named = format!("{} ({})", own.relation.uid, names.join(", "));
        let is_id = matches!(columns, [id] if own
            .relation
            .column(*id)
            .is_some_and(|column| column.class == TypeClass::Integer));
        if is_id && !what.ends_with("values") {
            self.ids.entry(policy).or_default().insert(named);
        } else {
            let what = || what.to_owned();
            self.keys.entry((policy, named)).or_insert_with(what);
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
        for ((policy, key), what) in self.keys {
            let message = format!(
                "`{key}` is {what} that are hidden from somebody who may write it: a change fails exactly if one of them is met"
            );
            let help = "forbid `Action::\"write\"` on it, so that a default or a sequence makes it; or let the key begin with a column that `see` and `add` both compare with the principal's own value, as in `UNIQUE (tenant, email)`";
            warnings.push(place(&policy, message).with_help(Some(help)));
        }
        for (policy, ids) in self.ids {
            let mut named: Vec<String> =
                ids.iter().take(NAMED).map(|id| format!("`{id}`")).collect();
            if ids.len() > NAMED {
                named.push(format!("{} more", ids.len() - NAMED));
            }
            let message = format!(
                "whoever writes ids may learn which ids hidden rows have: {}",
                named.join(", ")
            );
            let help = "forbid `Action::\"write\"` on keys, so that a sequence makes them; ids tell that a row is there, and nothing of what it holds";
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
        read: relation::decision(loaded, subject, relation).ok()?,
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

/// Whether no row that `seen` hides can have what a row has that `added` admits, in each of the `pairs` of columns of one and of
/// the other.
fn is_apart(seen: &RowFilter, added: &RowFilter, pairs: &[(u16, u16)]) -> bool {
    let (RowFilter::Where(seen), RowFilter::Where(added)) = (seen, added) else {
        return false;
    };
    let mut pinned = Vec::new();
    conjuncts(added, true, &mut pinned);
    let mut demanded = Vec::new();
    conjuncts(seen, true, &mut demanded);
    let is_key = |index: u16| pairs.iter().any(|(_, theirs)| *theirs == index);
    demanded.into_iter().all(|demand| match demand {
        // A NULL conflicts with nothing.
        (Predicate::Has(index), true) => is_key(*index),
        demand => equality(demand).is_some_and(|(theirs, value)| {
            pairs
                .iter()
                .filter(|(_, other)| *other == theirs)
                .any(|(own, _)| {
                    let mut pinned = pinned.iter().filter_map(|pin| equality(*pin));
                    pinned.any(|pin| pin == (*own, value))
                })
        }),
    })
}

/// A part of a condition, and whether it has to hold or not to.
type Demand<'p> = (&'p Predicate, bool);

/// What has to be so where `predicate` is as `holds` says.
fn conjuncts<'p>(predicate: &'p Predicate, holds: bool, out: &mut Vec<Demand<'p>>) {
    match (predicate, holds) {
        (Predicate::And(all), true) | (Predicate::Or(all), false) => {
            all.iter().for_each(|one| conjuncts(one, holds, out));
        }
        (Predicate::And(all) | Predicate::Or(all), _) => match all.as_slice() {
            [only] => conjuncts(only, holds, out),
            _ => out.push((predicate, holds)),
        },
        (Predicate::Not(inner), _) => conjuncts(inner, !holds, out),
        (Predicate::Constant(value), _) if *value == holds => {}
        _ => out.push((predicate, holds)),
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
        policy::{ColumnFlow, Lint, PolicyFile, PolicySet, PolicySources},
    };

    const SCHEMA: &str = "
        CREATE TABLE people (tenant text NOT NULL, mail text NOT NULL, secret text UNIQUE, UNIQUE (tenant, mail));
        CREATE TABLE visits (id integer PRIMARY KEY, secret text REFERENCES people (secret));";

    /// The keys of which it is warned that they tell of rows or values that are hidden.
    fn told(policies: &str) -> Vec<String> {
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "base.cedar".to_owned(),
                text: format!("permit(principal, action, resource);\n{policies}"),
            }],
            ..PolicySources::default()
        };
        let catalog = Arc::new(test_ddl::postgres(SCHEMA, "main").unwrap());
        let flow = ColumnFlow::default();
        let set = PolicySet::load_and_lint(&sources, &catalog, &flow, Lint::EveryRelation).unwrap();
        let warnings = set.warnings().iter();
        let told = warnings.filter_map(|warning| warning.message.split_once(" that are hidden"));
        told.map(|(key, _)| key.replace("public.", "")).collect()
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
    fn a_reference_tells_of_values_that_are_not_read() {
        let hides = r#"forbid(principal, action == Action::"read_plain", resource == Column::"public.people.secret");"#;
        let told = told(hides);
        let of_values = "`visits (secret)` is a foreign key to values".to_owned();
        assert!(told.contains(&of_values), "{told:?}");
    }
}
