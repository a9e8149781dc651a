//! What a change would tell of columns that are not shown: where assigned values settle a part of a row policy,
//! what is left of it decides which rows change, and their number tells what it says.

use std::collections::BTreeSet;

use crate::policy::obligation::Predicate;
use crate::rewrite::relation_source::row_filter;

/// Whether `rest`, which is `add` once assigned columns are known, says something of a column that is not
/// `shown` and that neither `seen`, of every row that may be seen, nor `add` by itself says.
pub(in crate::rewrite) fn discloses(
    rest: &Predicate,
    add: &Predicate,
    seen: Option<&Predicate>,
    shown: impl Fn(u16) -> bool,
) -> bool {
    let mut said = conjuncts(add);
    said.extend(seen.into_iter().flat_map(conjuncts));
    conjuncts(rest).iter().any(|term| {
        let mut looked = BTreeSet::new();
        row_filter::columns(&term.predicate, &mut looked);
        !said.contains(term) && !looked.into_iter().all(&shown)
    })
}

/// Whether all that `rest` says is said by one of `known`, which all hold.
pub(in crate::rewrite) fn is_entailed<'p>(
    rest: &Predicate,
    known: impl Iterator<Item = &'p Predicate>,
) -> bool {
    let said: Vec<Term> = known.flat_map(conjuncts).collect();
    conjuncts(rest).iter().all(|term| said.contains(term))
}

/// The conjuncts of `seen` that look at an `assigned` column and also at a column that is neither assigned nor `shown`.
pub(in crate::rewrite) fn hidden_beside(
    seen: &Predicate,
    assigned: impl Fn(u16) -> bool,
    shown: impl Fn(u16) -> bool,
) -> impl Iterator<Item = Predicate> {
    conjuncts(seen).into_iter().filter_map(move |term| {
        let mut looked = BTreeSet::new();
        row_filter::columns(&term.predicate, &mut looked);
        let is_assigned = looked.iter().any(|index| assigned(*index));
        let is_hidden = looked
            .iter()
            .any(|index| !assigned(*index) && !shown(*index));
        (is_assigned && is_hidden).then_some(term.predicate)
    })
}

/// A condition, or its opposite.
#[derive(PartialEq)]
struct Term {
    predicate: Predicate,
    negated: bool,
}

/// The conditions that all hold where `predicate` does.
fn conjuncts(predicate: &Predicate) -> Vec<Term> {
    let mut out = Vec::new();
    collect(predicate, false, &mut out);
    out
}

fn collect(predicate: &Predicate, negated: bool, out: &mut Vec<Term>) {
    match (predicate, negated) {
        (Predicate::And(parts), false) | (Predicate::Or(parts), true) => {
            parts.iter().for_each(|part| collect(part, negated, out));
        }
        (Predicate::And(parts) | Predicate::Or(parts), _) if parts.len() == 1 => {
            parts.iter().for_each(|part| collect(part, negated, out));
        }
        (Predicate::Not(inner), _) => collect(inner, !negated, out),
        (
            Predicate::And(_)
            | Predicate::Or(_)
            | Predicate::Constant(_)
            | Predicate::If(_, _, _)
            | Predicate::Column(_)
            | Predicate::Has(_)
            | Predicate::Compare(_, _, _)
            | Predicate::In(_, _)
            | Predicate::Like(_, _)
            | Predicate::RefersToSeen(_, _),
            _,
        ) => out.push(Term {
            predicate: predicate.clone(),
            negated,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(column: u16) -> Predicate {
        Predicate::Has(column)
    }

    /// A forbid with `unless`, beside a permit without a condition.
    fn unless(condition: Predicate) -> Predicate {
        let not = |inner| Predicate::Not(Box::new(inner));
        Predicate::And(vec![
            Predicate::Or(vec![Predicate::Constant(true)]),
            not(not(condition)),
        ])
    }

    #[test]
    fn what_every_visible_row_is_like_tells_nothing() {
        let both = unless(Predicate::And(vec![has(0), has(1)]));
        let either = unless(Predicate::Or(vec![has(0), has(1)]));
        let rest = unless(has(1));
        let only_first = |column| column == 0;
        for (add, seen, expected) in [
            (&both, Some(&both), false),
            (&both, None, false),
            (&either, Some(&either), true),
            (&either, Some(&rest), false),
            (&either, None, true),
        ] {
            assert_eq!(discloses(&rest, add, seen, only_first), expected, "{add:?}");
        }
        assert!(!discloses(&rest, &either, Some(&either), |_| true));
    }

    #[test]
    fn what_all_rows_are_like_already_follows() {
        let both = unless(Predicate::And(vec![has(0), has(1)]));
        let either = unless(Predicate::Or(vec![has(0), has(1)]));
        let first = unless(has(0));
        let second = unless(has(1));
        for (rest, known, expected) in [
            (&first, vec![&both], true),
            (&both, vec![&first, &second], true),
            (&both, vec![&first], false),
            (&first, vec![&either], false),
            (&either, vec![&either], true),
            (&first, vec![], false),
        ] {
            assert_eq!(is_entailed(rest, known.into_iter()), expected, "{rest:?}");
        }
    }
}
