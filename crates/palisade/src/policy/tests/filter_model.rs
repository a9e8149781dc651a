//! A row filter beside the thing it stands for: every condition over every row, once as SQL would
//! test it and once as Cedar decides with the row given.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use cedar_policy::{Entity, EntityUid, RestrictedExpression};

use crate::policy::{
    ColumnFlow, PolicySet,
    cedar::{
        request::{Subject, decide},
        schema::PolicyAction,
    },
    obligation::{Comparison, Literal, Operand, PatternPiece, Predicate, RowFilter},
    set::Loaded,
    tests::fixture::{agent, column, set, sources},
};
use crate::{
    catalog::{Catalog, ColumnDef, Relation, RelationDef, RelationKind, TypeClass},
    dialect::Dialect,
    session::Session,
};

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

const TABLE: &str = "tickets";
const OWNER: &str = "0b8e8a2e-3f0c-4a53-9d6e-0c1f2a3b4c5d";
/// 2020-01-01 and a millisecond.
const MOMENT: i64 = 1_577_836_800_001;

/// Conditions over types that only some engines have.
const FINE_CONDITIONS: &[&str] = &[
    "resource has owner && resource.owner == \"0b8e8a2e-3f0c-4a53-9d6e-0c1f2a3b4c5d\"",
    "resource has owner && resource.owner like \"0b8e*\"",
    "resource has owner && resource has mood && resource.owner == resource.mood",
    "resource has mood && [\"happy\", \"sad\"].contains(resource.mood)",
    "resource has mood && resource.mood != \"happy\"",
    "resource has price && resource.price == decimal(\"100.0\")",
    "resource has price && resource.price.lessThan(decimal(\"0.0\"))",
    "resource has price && !resource.price.greaterThanOrEqual(decimal(\"-0.5\"))",
    "resource has price && resource.price.greaterThan(decimal(\"-0.5\")) && resource.price.lessThanOrEqual(decimal(\"100.0\"))",
    "resource has price && [decimal(\"100.0\")].contains(resource.price)",
    "resource has at && resource.at < datetime(\"2020-01-01\")",
    "resource has at && resource.at >= datetime(\"2020-01-01T00:00:00.001Z\")",
    "resource has at && resource.at == datetime(\"1969-12-31\").offset(duration(\"1d\"))",
    "!(resource has at && resource.at > datetime(\"2020-01-01T01:00:00+0100\"))",
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
    let compared = over("main", CONDITIONS, &set);
    assert!(compared > 1_000, "{compared}");
}

#[test]
fn filters_of_finer_types_admit_the_rows_that_cedar_permits() {
    let classes = [
        ("id", "bigint", TypeClass::Integer),
        ("level", "integer", TypeClass::Integer),
        ("owner", "uuid", TypeClass::Uuid),
        ("mood", "public.mood", TypeClass::Enum),
        ("price", "numeric(10,2)", TypeClass::Decimal),
        ("at", "timestamp with time zone", TypeClass::TimestampTz),
    ];
    let columns = classes.map(|(name, type_name, class)| ColumnDef {
        type_name: type_name.to_owned(),
        ..column(name, class)
    });
    let table = RelationDef::new("public", TABLE, RelationKind::Table, columns.to_vec());
    let catalog = Catalog::builder(Dialect::Postgres).relation(table).build();
    let catalog = Arc::new(catalog.unwrap());
    let compared = over("public", FINE_CONDITIONS, &|policies: &str| {
        let mut sources = sources(policies);
        sources.classification = None;
        PolicySet::load(&sources, &catalog, &ColumnFlow::default())
            .unwrap_or_else(|errors| panic!("{errors}"))
    });
    assert!(compared > 500, "{compared}");
}

fn over(schema: &str, conditions: &[&str], set: &dyn Fn(&str) -> PolicySet) -> u32 {
    let select = "permit(principal, action == Action::\"select\", resource);";
    let mut compared = 0u32;
    for condition in conditions {
        let row = format!("action == Action::\"see\", resource is row::{schema}::{TABLE}");
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
    compared
}

fn compare(set: &PolicySet, session: &Session, condition: &str) -> u32 {
    let relation = set.catalog().relations().iter().find(|r| r.name == TABLE);
    let relation = relation.unwrap();
    let decision = set.session(session).relation(relation.id).unwrap();
    let rows = table(relation, condition);
    let mut loaded = Loaded::clone(&set.loaded);
    // Requests name rows here.
    loaded.schemas.fixed = loaded
        .schemas
        .with_rows(set.catalog(), &[relation])
        .unwrap();
    let subject = subject(&loaded, session, relation, &rows);
    let mut compared = 0;
    for (n, row) in rows.iter().enumerate() {
        let admitted = match &decision.rows {
            RowFilter::Everything => true,
            RowFilter::Nothing => false,
            RowFilter::Where(predicate) => truth(predicate, row) == Some(true),
        };
        let row_uid = row_uid(relation, n);
        let verdict = decide(&loaded, &subject, PolicyAction::See, relation, row_uid).unwrap();
        assert_eq!(
            admitted, verdict.permitted,
            "{condition} as {session:?} on {row:?}: {:?}",
            decision.rows
        );
        compared += 1;
    }
    compared
}

fn row_uid(relation: &Relation, n: usize) -> EntityUid {
    let kind = format!("row::{}::{TABLE}", relation.schema);
    crate::policy::cedar::entities::uid(&kind, &n.to_string()).unwrap()
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
        let used = matches!(&*column.key, "id" | "level") || condition.contains(&*column.key);
        let values = match &*column.key {
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
            "owner" | "mood" => [OWNER, "happy"]
                .map(|text| Cell::Value(Literal::Text(text.to_owned())))
                .into_iter()
                .chain([Cell::Null])
                .collect(),
            "price" => [-5_000, 1_000_000]
                .map(|value| Cell::Value(Literal::Decimal(value)))
                .into_iter()
                .chain([Cell::Null])
                .collect(),
            "at" => [0, MOMENT]
                .map(|value| Cell::Value(Literal::Datetime(value)))
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
fn subject(loaded: &Loaded, session: &Session, relation: &Relation, rows: &[Vec<Cell>]) -> Subject {
    let parent = crate::policy::cedar::entities::uid("Table", &relation.uid).unwrap();
    let entities = rows.iter().enumerate().map(|(n, row)| {
        let cells = relation.columns.iter().zip(row);
        let attributes: HashMap<String, RestrictedExpression> = cells
            .filter_map(|(column, cell)| match cell {
                Cell::Null => None,
                Cell::Value(literal) => Some((column.key.to_string(), expression(literal))),
            })
            .collect();
        Entity::new(
            row_uid(relation, n),
            attributes,
            HashSet::from([parent.clone()]),
        )
        .unwrap()
    });
    let uid =
        crate::policy::cedar::entities::uid(session.principal().kind(), session.principal().id())
            .unwrap();
    let mut subject = Subject::with_uid(loaded, uid, session).unwrap();
    let known = cedar_policy::Entities::clone(&subject.entities);
    subject.entities = known
        .add_entities(entities, Some(&loaded.schemas.fixed))
        .unwrap()
        .into();
    subject
}

fn expression(literal: &Literal) -> RestrictedExpression {
    match literal {
        Literal::Integer(value) => RestrictedExpression::new_long(*value),
        Literal::Boolean(value) => RestrictedExpression::new_bool(*value),
        Literal::Text(value) => RestrictedExpression::new_string(value.clone()),
        Literal::Decimal(value) => {
            let sign = if *value < 0 { "-" } else { "" };
            let digits = value.unsigned_abs();
            let (whole, fraction) = (digits / 10_000, digits % 10_000);
            RestrictedExpression::new_decimal(format!("{sign}{whole}.{fraction:04}"))
        }
        Literal::Datetime(value) => RestrictedExpression::new_datetime(match *value {
            0 => "1970-01-01",
            MOMENT => "2020-01-01T00:00:00.001Z",
            other => panic!("{other} is in no row"),
        }),
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
        Predicate::RefersToSeen(_, _) => panic!("these tables refer to no others"),
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
        (Literal::Decimal(left), Literal::Decimal(right))
        | (Literal::Datetime(left), Literal::Datetime(right)) => left.cmp(right),
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
