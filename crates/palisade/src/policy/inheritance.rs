//! Inheritance and partitions: the rows of a relation are rows of its parents too.
//!
//! What a principal sees of a relation is what policies say of it, and then no more than
//! * what they say of each ancestor: a partition named directly is under its parent's policies, column
//!   by column of the same name, row filter by row filter, and it cannot be selected unless they can;
//! * what they *forbid* of each descendant, because reading a relation reads its descendants' rows. A
//!   descendant whose `select` is forbidden makes the whole unreadable. A column forbidden there is
//!   masked or hidden in every row. A row forbid drops every row it matches, and every row where it
//!   looks at a column the ancestor lacks.
//!
//! That a descendant is merely not permitted does not count: a permit of the parent is enough for
//! reading through the parent. Which descendant a row is stored in is not told apart, so a forbid of one
//! partition may hide more than its rows, never less.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::catalog::{Catalog, ColumnId, Relation, RelationId};
use crate::policy::obligation::{
    ColumnDecision, ColumnLevel, Operand, Predicate, RelationDecision, RowFilter, Visibility,
};

/// Who inherits from whom.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct Inheritance {
    children: HashMap<RelationId, Vec<RelationId>>,
}

impl Inheritance {
    pub(in crate::policy) fn new(catalog: &Catalog) -> Self {
        let mut children: HashMap<RelationId, Vec<RelationId>> = HashMap::new();
        for relation in catalog.relations() {
            for parent in &relation.parents {
                children.entry(*parent).or_default().push(relation.id);
            }
        }
        Self { children }
    }

    /// Every relation above, each once, itself left out.
    pub(in crate::policy) fn ancestors<'c>(
        &self,
        catalog: &'c Catalog,
        relation: &Relation,
    ) -> Vec<&'c Relation> {
        collect_reached(catalog, relation, &|id| {
            catalog.relation(id).map_or(&[], |r| r.parents.as_slice())
        })
    }

    /// Every relation below, each once, itself left out.
    pub(in crate::policy) fn descendants<'c>(
        &self,
        catalog: &'c Catalog,
        relation: &Relation,
    ) -> Vec<&'c Relation> {
        collect_reached(catalog, relation, &|id| {
            self.children.get(&id).map_or(&[], Vec::as_slice)
        })
    }
}

fn collect_reached<'c, 'n>(
    catalog: &'c Catalog,
    start: &Relation,
    next: &dyn Fn(RelationId) -> &'n [RelationId],
) -> Vec<&'c Relation> {
    let mut seen = BTreeSet::from([start.id]);
    let mut pending = vec![start.id];
    let mut out = Vec::new();
    while let Some(id) = pending.pop() {
        for id in next(id) {
            if seen.insert(*id) {
                pending.push(*id);
                out.extend(catalog.relation(*id));
            }
        }
    }
    out
}

/// Which columns hold the same data: those of one name in a relation, its ancestors and its
/// descendants.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct Same {
    /// For each column that has others, one of them, the same for all.
    groups: HashMap<ColumnId, ColumnId>,
}

impl Same {
    pub(in crate::policy) fn new(catalog: &Catalog) -> Self {
        let mut next: HashMap<ColumnId, Vec<ColumnId>> = HashMap::new();
        for relation in catalog.relations() {
            for parent in relation
                .parents
                .iter()
                .filter_map(|id| catalog.relation(*id))
            {
                let positions: HashMap<&str, ColumnId> = parent
                    .column_ids()
                    .map(|(id, column)| (&*column.key, id))
                    .collect();
                for (own, column) in relation.column_ids() {
                    if let Some(theirs) = positions.get(&*column.key) {
                        next.entry(own).or_default().push(*theirs);
                        next.entry(*theirs).or_default().push(own);
                    }
                }
            }
        }
        let mut groups = HashMap::new();
        for start in next.keys() {
            if groups.contains_key(start) {
                continue;
            }
            groups.insert(*start, *start);
            let mut pending = vec![*start];
            while let Some(id) = pending.pop() {
                for other in next.get(&id).into_iter().flatten() {
                    if groups.insert(*other, *start).is_none() {
                        pending.push(*other);
                    }
                }
            }
        }
        Self { groups }
    }

    /// A column that stands for all with the same data as this one.
    pub(in crate::policy) fn group(&self, id: ColumnId) -> ColumnId {
        self.groups.get(&id).copied().unwrap_or(id)
    }
}

/// Makes `decision` about `relation` at least as strict as `theirs` about its relative `other`.
pub(in crate::policy) fn tighten(
    decision: &mut RelationDecision,
    relation: &Relation,
    other: &Relation,
    theirs: &RelationDecision,
) {
    let rank = |visibility: Visibility| match visibility {
        Visibility::Absent => 0,
        Visibility::Discoverable(_) => 1,
        Visibility::Selectable => 2,
    };
    if rank(theirs.visibility) < rank(decision.visibility) {
        decision.visibility = theirs.visibility;
        decision.message.clone_from(&theirs.message);
    }
    let shared = |index: u16| {
        let (column, class) = other.column(index).map(|c| (&c.key, c.class))?;
        let own = relation.position(column)?;
        (relation.column(own)?.class == class).then_some(own)
    };
    for (column, decided) in relation.columns.iter().zip(&mut decision.columns) {
        let level = other
            .position(&column.key)
            .and_then(|index| theirs.columns.get(usize::from(index)));
        if let Some(level) = level {
            tighten_column(decided, level);
        }
    }
    let rows = std::mem::replace(&mut decision.rows, RowFilter::Nothing);
    decision.rows = match (rows, &theirs.rows) {
        (RowFilter::Nothing, _) | (_, RowFilter::Nothing) => RowFilter::Nothing,
        (rows, RowFilter::Everything) => rows,
        (RowFilter::Everything, RowFilter::Where(predicate)) => {
            match map_columns(predicate, &shared) {
                Some(predicate) => RowFilter::Where(predicate),
                None => RowFilter::Nothing,
            }
        }
        (RowFilter::Where(own), RowFilter::Where(predicate)) => {
            match map_columns(predicate, &shared) {
                // The parts stay parts: what a dialect adds to a policy's condition goes with it.
                Some(predicate) => {
                    let mut all = parts(own);
                    for part in parts(predicate) {
                        if !all.contains(&part) {
                            all.push(part);
                        }
                    }
                    RowFilter::Where(Predicate::And(all))
                }
                None => RowFilter::Nothing,
            }
        }
    };
    decision.caps = decision.caps.tightest(theirs.caps);
    decision.policies.extend(theirs.policies.iter().cloned());
    decision.policies.sort();
    decision.policies.dedup();
}

fn tighten_column(own: &mut ColumnDecision, theirs: &ColumnDecision) {
    let level = match (&own.level, &theirs.level) {
        (ColumnLevel::Hidden, _) | (_, ColumnLevel::Hidden) => ColumnLevel::Hidden,
        (ColumnLevel::Masked(one), ColumnLevel::Masked(other)) => {
            ColumnLevel::Masked(one.clone().strictest(other.clone()))
        }
        (ColumnLevel::Masked(mask), ColumnLevel::Plain)
        | (ColumnLevel::Plain, ColumnLevel::Masked(mask)) => ColumnLevel::Masked(mask.clone()),
        (ColumnLevel::Plain, ColumnLevel::Plain) => ColumnLevel::Plain,
    };
    own.level = level;
    own.policies.extend(theirs.policies.iter().cloned());
    own.policies.sort();
    own.policies.dedup();
}

fn parts(predicate: Predicate) -> Vec<Predicate> {
    match predicate {
        Predicate::And(parts) => parts,
        other => vec![other],
    }
}

/// The predicate with other positions of columns; none if a column has no other.
fn map_columns(predicate: &Predicate, to: &dyn Fn(u16) -> Option<u16>) -> Option<Predicate> {
    let all = |parts: &[Predicate]| {
        parts
            .iter()
            .map(|part| map_columns(part, to))
            .collect::<Option<Vec<_>>>()
    };
    let boxed = |part: &Predicate| map_columns(part, to).map(Box::new);
    let operand = |operand: &Operand| match operand {
        Operand::Column(index) => to(*index).map(Operand::Column),
        Operand::Literal(literal) => Some(Operand::Literal(literal.clone())),
    };
    Some(match predicate {
        Predicate::Constant(value) => Predicate::Constant(*value),
        Predicate::And(parts) => Predicate::And(all(parts)?),
        Predicate::Or(parts) => Predicate::Or(all(parts)?),
        Predicate::Not(inner) => Predicate::Not(boxed(inner)?),
        Predicate::If(condition, then, otherwise) => {
            Predicate::If(boxed(condition)?, boxed(then)?, boxed(otherwise)?)
        }
        Predicate::Column(index) => Predicate::Column(to(*index)?),
        Predicate::Has(index) => Predicate::Has(to(*index)?),
        Predicate::Compare(left, comparison, right) => {
            Predicate::Compare(operand(left)?, *comparison, operand(right)?)
        }
        Predicate::In(subject, literals) => Predicate::In(operand(subject)?, literals.clone()),
        Predicate::Like(index, pieces) => Predicate::Like(to(*index)?, pieces.clone()),
        Predicate::RefersToSeen(subject, seen) => {
            Predicate::RefersToSeen(operand(subject)?, Arc::clone(seen))
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::cmp::Reverse;

    use super::*;
    use crate::{
        catalog::{RelationDef, RelationKind},
        code::Code,
        dialect::Dialect,
        policy::{
            ColumnFlow, PolicySet,
            obligation::{Comparison, Literal, Mask},
            tests::fixture::{agent, column, sources},
        },
    };

    fn table(name: &str, columns: &[&str], parents: &[&str]) -> RelationDef {
        use crate::catalog::TypeClass::{Integer, Text};
        let class = |name: &str| if name.ends_with("id") { Integer } else { Text };
        let columns = columns.iter().map(|name| column(name, class(name)));
        let mut def = RelationDef::new("public", name, RelationKind::Table, columns.collect());
        def.parents = parents
            .iter()
            .map(|name| ("public".to_owned(), (*name).to_owned()))
            .collect();
        def
    }

    /// A partitioned table, two levels deep, whose partitions have their columns in another order; and
    /// a table with two parents.
    fn catalog() -> Catalog {
        Catalog::builder(Dialect::Postgres)
            .relation(table("events", &["id", "tenant_id", "email", "note"], &[]))
            .relation(table(
                "events_2024",
                &["note", "email", "tenant_id", "id"],
                &["events"],
            ))
            .relation(table(
                "events_2024_06",
                &["id", "email", "note", "tenant_id", "extra_id"],
                &["events_2024"],
            ))
            .relation(table(
                "events_2025",
                &["id", "tenant_id", "email", "note"],
                &["events"],
            ))
            .relation(table("staff", &["id", "salary"], &[]))
            .relation(table("people", &["id", "email"], &[]))
            .relation(table(
                "managers",
                &["id", "email", "salary"],
                &["people", "staff"],
            ))
            .build()
            .unwrap()
    }

    fn decide(policies: &str, name: &str) -> Arc<RelationDecision> {
        let catalog = Arc::new(catalog());
        let mut sources = sources(policies);
        sources.classification = Some(
            "[[column]]\nname = \"public.events_2025.email\"\ntags = [\"pii\"]\n\
             [[column]]\nname = \"public.staff.salary\"\ntags = [\"secret\"]\n\
             [unclassified]\ntags = [\"new\"]"
                .to_owned(),
        );
        let set = PolicySet::load(&sources, &catalog, &ColumnFlow::default())
            .unwrap_or_else(|errors| panic!("{errors}"));
        let id = catalog.find("public", name).unwrap().id;
        set.session(&agent("bot")).relation(id).unwrap()
    }

    fn level(decision: &RelationDecision, table: &str, column: &str) -> ColumnLevel {
        let catalog = catalog();
        let index = catalog.find("public", table).unwrap().position(column);
        decision.columns[usize::from(index.unwrap())].level.clone()
    }

    const ALL: &str = "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);\n";

    /// Permits `events` and nothing else.
    const PARENT: &str = "permit(principal, action == Action::\"select\", resource == Table::\"public.events\");\n\
        permit(principal, action == Action::\"see\", resource is row::public::events);\n\
        permit(principal, action in Action::\"read\", resource in Table::\"public.events\");\n";

    const TENANT: &str = "forbid(principal, action == Action::\"see\", resource is row::public::events)\n\
        unless { resource has tenant_id && resource.tenant_id == 42 };\n";

    fn tenant(column: u16) -> Predicate {
        let is = Predicate::Compare(
            Operand::Column(column),
            Comparison::Equal,
            Operand::Literal(Literal::Integer(42)),
        );
        let guarded = Predicate::And(vec![Predicate::Has(column), is]);
        Predicate::Not(Box::new(Predicate::Not(Box::new(guarded))))
    }

    #[test]
    fn a_permit_of_the_parent_is_enough_for_the_parent_and_not_for_a_child() {
        let parent = decide(PARENT, "events");
        assert_eq!(parent.visibility, Visibility::Selectable);
        assert_eq!(parent.rows, RowFilter::Everything);
        assert!(
            parent.columns.iter().all(|c| c.level == ColumnLevel::Plain),
            "{parent:?}"
        );
        assert_eq!(decide(PARENT, "events_2024").visibility, Visibility::Absent);
        let child = PARENT.replace("events", "events_2024_06");
        assert_eq!(
            decide(&child, "events_2024_06").visibility,
            Visibility::Absent
        );
    }

    #[test]
    fn where_rows_are_stored_is_shown_to_those_who_see_all_of_it() {
        let mask = "forbid(principal, action == Action::\"read_plain\", resource in Table::\"public.events_2024_06\");\n";
        let only = |table: &str| {
            format!(
                "permit(principal, action == Action::\"select\", resource == Table::\"public.{table}\");\n"
            )
        };
        let rest = ALL.replace("Action::\"select\", ", "");
        for (policies, hidden) in [
            (ALL.to_owned(), false),
            (PARENT.to_owned(), true),
            (format!("{rest}{}", only("events")), true),
            (
                format!("{rest}{}{}", only("events"), only("events_2024")),
                true,
            ),
            (format!("{ALL}{mask}"), true),
        ] {
            let parent = decide(&policies, "events");
            assert_eq!(parent.visibility, Visibility::Selectable, "{policies}");
            assert_eq!(parent.has_hidden_children, hidden, "{policies}");
            assert!(parent.has_obligation() || !hidden, "{policies}");
        }
        assert!(!decide(ALL, "events_2024_06").has_hidden_children);
    }

    #[test]
    fn a_child_has_its_ancestors_filters_by_name() {
        let policies = format!("{ALL}{TENANT}");
        for (name, position) in [("events", 1), ("events_2024", 2), ("events_2024_06", 3)] {
            let RowFilter::Where(Predicate::And(parts)) = decide(&policies, name).rows.clone()
            else {
                panic!("{name}")
            };
            assert!(parts.contains(&tenant(position)), "{name}: {parts:?}");
        }
        let both = format!(
            "{policies}forbid(principal, action == Action::\"see\", resource is row::public::events_2024) when {{ resource.id == 7 }};"
        );
        let RowFilter::Where(Predicate::And(parts)) = decide(&both, "events_2024").rows.clone()
        else {
            panic!()
        };
        assert_eq!(parts.len(), 3, "{parts:?}");
    }

    #[test]
    fn a_child_has_its_ancestors_columns() {
        let policies = format!(
            "{ALL}@mask(\"last(4)\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"public.events.note\");\n\
             forbid(principal, action in Action::\"read\", resource == Column::\"public.events.id\");\n\
             @mask(\"last(2)\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"public.events_2024_06.note\");"
        );
        let last = |n| ColumnLevel::Masked(Mask::Last(Reverse(n)));
        let child = decide(&policies, "events_2024");
        assert_eq!(level(&child, "events_2024", "id"), ColumnLevel::Hidden);
        // What is forbidden of a partition of its own counts as well.
        assert_eq!(level(&child, "events_2024", "note"), last(2));
        let sibling = decide(&policies, "events_2025");
        assert_eq!(level(&sibling, "events_2025", "note"), last(4));
        let parent = decide(&policies, "events");
        assert_eq!(level(&parent, "events", "note"), last(2));
        assert_eq!(level(&parent, "events", "email"), ColumnLevel::Plain);
    }

    #[test]
    fn what_is_forbidden_of_a_child_is_forbidden_of_the_parent() {
        let select = "@message(\"closed\") forbid(principal, action == Action::\"select\", resource == Table::\"public.events_2024_06\");\n";
        let discover = "permit(principal, action == Action::\"discover\", resource);\n";
        for policies in [ALL, PARENT] {
            let refused = decide(&format!("{policies}{select}{discover}"), "events");
            let code = Visibility::Discoverable(Code::PolicyForbidden);
            assert_eq!(refused.visibility, code);
            assert_eq!(refused.message.as_deref(), Some("closed"));
            let unseen = decide(&format!("{policies}{select}"), "events");
            assert_eq!(unseen.visibility, Visibility::Absent);
            assert!(
                unseen
                    .columns
                    .iter()
                    .all(|c| c.level == ColumnLevel::Hidden)
            );
        }
        let other = decide(&format!("{ALL}{select}"), "events_2025");
        assert_eq!(other.visibility, Visibility::Selectable);

        let see =
            "forbid(principal, action == Action::\"see\", resource is row::public::events_2024_06)";
        let rows = |condition: &str| {
            decide(&format!("{PARENT}{see} when {{ {condition} }};"), "events")
                .rows
                .clone()
        };
        let id = Predicate::Compare(
            Operand::Column(0),
            Comparison::Equal,
            Operand::Literal(Literal::Integer(7)),
        );
        let not = Predicate::Not(Box::new(id));
        assert_eq!(
            rows("resource.id == 7"),
            RowFilter::Where(Predicate::And(vec![not]))
        );
        // The parent has no such column.
        assert_eq!(
            rows("resource has extra_id && resource.extra_id == 7"),
            RowFilter::Nothing
        );
        assert_eq!(rows("true"), RowFilter::Nothing);
    }

    #[test]
    fn two_parents_both_count() {
        let policies = format!(
            "{ALL}forbid(principal, action == Action::\"see\", resource is row::public::staff) when {{ resource.id == 1 }};\n\
             forbid(principal, action == Action::\"see\", resource is row::public::people) when {{ resource.id == 2 }};"
        );
        let RowFilter::Where(Predicate::And(parts)) = decide(&policies, "managers").rows.clone()
        else {
            panic!()
        };
        assert_eq!(parts.len(), 3, "{parts:?}");
        let one = format!(
            "{ALL}forbid(principal, action == Action::\"select\", resource == Table::\"public.staff\");"
        );
        assert_eq!(decide(&one, "managers").visibility, Visibility::Absent);
        assert_eq!(decide(&one, "people").visibility, Visibility::Selectable);
    }

    #[test]
    fn classifications_go_both_ways() {
        let tagged = |tag: &str| {
            format!(
                "{ALL}forbid(principal, action == Action::\"read_plain\", resource is Column) when {{ resource.tags.contains(\"{tag}\") }};"
            )
        };
        let null = ColumnLevel::Masked(Mask::Null);
        for name in ["events", "events_2024", "events_2024_06", "events_2025"] {
            let decision = decide(&tagged("pii"), name);
            assert_eq!(level(&decision, name, "email"), null, "{name}");
            assert_eq!(level(&decision, name, "note"), ColumnLevel::Plain);
            // Classified through a relative is not unclassified.
            let decision = decide(&tagged("new"), name);
            assert_eq!(level(&decision, name, "email"), ColumnLevel::Plain);
            assert_eq!(level(&decision, name, "note"), null);
        }
        let decision = decide(&tagged("secret"), "managers");
        assert_eq!(level(&decision, "managers", "salary"), null);
    }

    #[test]
    fn a_circle_ends() {
        let catalog = Catalog::builder(Dialect::Postgres)
            .relation(table("a", &["id"], &["b"]))
            .relation(table("b", &["id"], &["a"]))
            .build()
            .unwrap();
        let inheritance = Inheritance::new(&catalog);
        let a = catalog.find("public", "a").unwrap();
        assert_eq!(inheritance.ancestors(&catalog, a).len(), 1);
        assert_eq!(inheritance.descendants(&catalog, a).len(), 1);
    }
}
