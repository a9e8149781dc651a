//! A row filter beside the thing it stands for: every condition over every row, once as SQL would
//! test it and once as Cedar decides with the row given.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{HashMap, HashSet};

use cedar_policy::{Entity, EntityUid, RestrictedExpression};

use super::{
    PolicySet,
    decide::{Subject, decide},
    fixture::{agent, relation_id, set},
    obligation::{Comparison, Literal, Operand, PatternPiece, Predicate, RowFilter},
    schema::Action,
};
use crate::{catalog::Relation, session::Session};

const CONDITIONS: &[&str] = &[
    "true",
    "resource.id == 42",
    "resource.id != 42",
    "resource.id < 2",
    "resource.id >= 42",
    "resource has tenant_id",
    "!(resource has tenant_id)",
    "resource has tenant_id && resource.tenant_id == 42",
    "resource has tenant_id && resource.tenant_id != 42",
    "resource has tenant_id && !(resource.tenant_id <= 1)",
    "!(resource has tenant_id && resource.tenant_id == 42)",
    "if resource has tenant_id then resource.tenant_id == 1 else true",
    "principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant",
    "principal has tenant && resource has tenant_id && principal.tenant > resource.tenant_id",
    "resource has tenant_id && resource.tenant_id == resource.id",
    "resource has level && resource has tenant_id && resource.level < resource.tenant_id",
    "resource has title && resource.title == \"a\"",
    "resource has title && resource.title like \"a*\"",
    "resource has title && resource.title like \"*b\\*c\"",
    "resource has title && !(resource.title like \"*b*\")",
    "resource has title && [\"a\", \"z\"].contains(resource.title)",
    "principal has regions && resource has title && principal.regions.contains(resource.title)",
    "[1, 42].contains(resource.id) && !([42].contains(resource.id))",
    "resource has open && resource.open",
    "resource has open && !resource.open",
    "resource has open && resource.open == false",
    "resource has open && resource has active && resource.open == resource.active",
    "if resource has level then resource.level > 0 else resource.id == 1",
    "if resource has open && resource.open then resource.id == 1 else resource has title",
    "resource in Table::\"main.tickets\" && resource.id == 1",
    "principal in Role::\"analyst\" || resource.id == 1",
    "resource.id == 1 && (resource has title || resource has level) || resource has open",
    "context.transport == \"library\" && resource.id == 42",
];

#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Null,
    Value(Literal),
}

/// What SQL makes of a condition: true, false or NULL.
type Truth = Option<bool>;

#[test]
fn filters_admit_the_rows_that_cedar_permits() {
    let select = "permit(principal, action == Action::\"select\", resource);";
    let mut compared = 0u32;
    for condition in CONDITIONS {
        let row = "action == Action::\"see\", resource is row::main::tickets";
        for policies in [
            format!("{select} permit(principal, {row}) when {{ {condition} }};"),
            format!("{select} permit(principal, {row}); forbid(principal, {row}) when {{ {condition} }};"),
            format!(
                "{select} permit(principal, {row}) when {{ resource.id == 1 }}; permit(principal, {row}) when {{ {condition} }};
                 forbid(principal, {row}) unless {{ {condition} || resource has level }};"
            ),
        ] {
            let set = set(&policies);
            for who in ["bot", "stranger"] {
                compared += compare(&set, &agent(who), condition);
            }
        }
    }
    assert!(compared > 1_000, "{compared}");
}

fn compare(set: &PolicySet, session: &Session, condition: &str) -> u32 {
    let relation = set.catalog().relation(relation_id("tickets")).unwrap();
    let decision = set.session(session).relation(relation.id).unwrap();
    let rows = table(relation, condition);
    let subject = subject(set, session, relation, &rows);
    let mut compared = 0;
    for (n, row) in rows.iter().enumerate() {
        let admitted = match &decision.rows {
            RowFilter::Everything => true,
            RowFilter::Nothing => false,
            RowFilter::Where(predicate) => truth(predicate, row) == Some(true),
        };
        let verdict = decide(&set.loaded, &subject, Action::See, row_uid(n)).unwrap();
        assert_eq!(
            admitted, verdict.permitted,
            "{condition} as {session:?} on {row:?}: {:?}",
            decision.rows
        );
        compared += 1;
    }
    compared
}

fn row_uid(n: usize) -> EntityUid {
    super::store::uid("row::main::tickets", &n.to_string()).unwrap()
}

/// Rows of `tickets` with every combination of a few interesting values of the columns that the
/// condition, or the policies around it, look at.
fn table(relation: &Relation, condition: &str) -> Vec<Vec<Cell>> {
    let integers = |values: &[i64]| -> Vec<Cell> {
        let some = values
            .iter()
            .map(|value| Cell::Value(Literal::Integer(*value)));
        some.chain([Cell::Null]).collect()
    };
    let mut rows = vec![Vec::new()];
    for column in &relation.columns {
        let used = matches!(column.key.as_str(), "id" | "level") || condition.contains(&column.key);
        let values = match column.key.as_str() {
            _ if !used => vec![Cell::Null],
            "id" => integers(&[1, 42])
                .into_iter()
                .filter(|cell| *cell != Cell::Null)
                .collect(),
            "tenant_id" => integers(&[1, 42]),
            "level" => integers(&[-1, 7]),
            "title" => ["a", "ab*c", "eu"]
                .map(|text| Cell::Value(Literal::Text(text.to_owned())))
                .into_iter()
                .chain([Cell::Null])
                .collect(),
            "open" | "active" => [true, false]
                .map(|value| Cell::Value(Literal::Boolean(value)))
                .into_iter()
                .chain([Cell::Null])
                .collect(),
            _ => vec![Cell::Null],
        };
        rows = rows
            .into_iter()
            .flat_map(|row: Vec<Cell>| {
                values
                    .iter()
                    .map(move |value| [row.clone(), vec![value.clone()]].concat())
            })
            .collect();
    }
    rows
}

/// The session's subject in a store that holds the rows as entities.
fn subject(set: &PolicySet, session: &Session, relation: &Relation, rows: &[Vec<Cell>]) -> Subject {
    let loaded = &set.loaded;
    let parent: EntityUid = "Table::\"main.tickets\"".parse().unwrap();
    let entities = rows.iter().enumerate().map(|(n, row)| {
        let cells = relation.columns.iter().zip(row);
        let attributes: HashMap<String, RestrictedExpression> = cells
            .filter_map(|(column, cell)| match cell {
                Cell::Null => None,
                Cell::Value(literal) => Some((column.key.clone(), expression(literal))),
            })
            .collect();
        Entity::new(row_uid(n), attributes, HashSet::from([parent.clone()])).unwrap()
    });
    let uid = super::store::uid(session.principal().kind(), session.principal().id()).unwrap();
    let mut store = loaded.store.with_principal(&uid, &loaded.schema);
    let known = cedar_policy::Entities::clone(&store.entities);
    store.entities = known
        .add_entities(entities, Some(&loaded.schema))
        .unwrap()
        .into();
    let context = super::decide::context(session.transport()).unwrap();
    Subject {
        uid,
        store,
        context,
    }
}

fn expression(literal: &Literal) -> RestrictedExpression {
    match literal {
        Literal::Integer(value) => RestrictedExpression::new_long(*value),
        Literal::Boolean(value) => RestrictedExpression::new_bool(*value),
        Literal::Text(value) => RestrictedExpression::new_string(value.clone()),
    }
}

fn truth(predicate: &Predicate, row: &[Cell]) -> Truth {
    match predicate {
        Predicate::Constant(value) => Some(*value),
        Predicate::And(all) => chain(all, row, false),
        Predicate::Or(any) => chain(any, row, true),
        Predicate::Not(inner) => truth(inner, row).map(|value| !value),
        Predicate::If(condition, then, otherwise) => match truth(condition, row) {
            Some(true) => truth(then, row),
            Some(false) | None => truth(otherwise, row),
        },
        Predicate::Column(index) => match cell(row, *index) {
            Cell::Value(Literal::Boolean(value)) => Some(*value),
            Cell::Null => None,
            Cell::Value(other) => panic!("{other:?} is no boolean"),
        },
        Predicate::Has(index) => Some(*cell(row, *index) != Cell::Null),
        Predicate::Compare(left, comparison, right) => {
            compared(&operand(left, row)?, *comparison, &operand(right, row)?)
        }
        Predicate::In(subject, literals) => Some(literals.contains(&operand(subject, row)?)),
        Predicate::Like(index, pattern) => match cell(row, *index) {
            Cell::Value(Literal::Text(text)) => Some(like(pattern, text)),
            Cell::Null => None,
            Cell::Value(other) => panic!("{other:?} is no text"),
        },
    }
}

/// A chain in which `decisive` decides, else NULL makes NULL.
fn chain(parts: &[Predicate], row: &[Cell], decisive: bool) -> Truth {
    let truths: Vec<Truth> = parts.iter().map(|part| truth(part, row)).collect();
    if truths.contains(&Some(decisive)) {
        Some(decisive)
    } else if truths.contains(&None) {
        None
    } else {
        Some(!decisive)
    }
}

fn cell(row: &[Cell], index: u16) -> &Cell {
    row.get(usize::from(index)).unwrap()
}

fn operand(operand: &Operand, row: &[Cell]) -> Option<Literal> {
    match operand {
        Operand::Literal(literal) => Some(literal.clone()),
        Operand::Column(index) => match cell(row, *index) {
            Cell::Null => None,
            Cell::Value(literal) => Some(literal.clone()),
        },
    }
}

fn compared(left: &Literal, comparison: Comparison, right: &Literal) -> Truth {
    let order = match (left, right) {
        (Literal::Integer(left), Literal::Integer(right)) => left.cmp(right),
        (Literal::Boolean(left), Literal::Boolean(right)) => left.cmp(right),
        (Literal::Text(left), Literal::Text(right)) => left.cmp(right),
        (left, right) => panic!("{left:?} and {right:?} are of different classes"),
    };
    Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

fn like(pattern: &[PatternPiece], text: &str) -> bool {
    match pattern {
        [] => text.is_empty(),
        [PatternPiece::Text(piece), rest @ ..] => text
            .strip_prefix(piece.as_str())
            .is_some_and(|text| like(rest, text)),
        [PatternPiece::Any, rest @ ..] => {
            text.char_indices()
                .any(|(i, _)| like(rest, text.get(i..).unwrap()))
                || like(rest, "")
        }
    }
}
