//! Rows of two databases that look the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{HIDDEN_IDS, Level, Row, Table, structure};
use crate::worlds::{
    cells::{Cell, DATES, INTEGERS, Renaming, TEXTS},
    choices::Choices,
    world::Filter,
};

/// Rows of a table in two databases: those that may be seen look the same and stand in the same order, for what
/// depends on that is not promised; those that may not are others, and stand anywhere between them.
pub(super) fn twins(
    table: &Table,
    before: &[Vec<Vec<Row>>; 2],
    renamings: &BTreeMap<u8, Renaming>,
    crowded: bool,
    choices: &mut Choices<'_>,
) -> [Vec<Row>; 2] {
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for id in 1..=i64::try_from(choices.below(6)).unwrap() {
        let parents = parents(table, before, 0, false);
        let Some(row) = row(table, id, true, &parents, choices) else {
            continue;
        };
        other.push(twin(table, &row, renamings, &parents, choices));
        one.push(row);
    }
    if crowded {
        for rows in [&mut one, &mut other] {
            repeat(table, rows);
        }
        let parents = parents(table, before, 0, true);
        let hidden = crowd(table, &parents, choices);
        one.extend(hidden.iter().map(|(row, _)| row.clone()));
        other.extend(hidden.into_iter().map(|(_, row)| row));
        settle(table, &mut one, &mut other);
        return [one, other];
    }
    for (database, rows) in [&mut one, &mut other].into_iter().enumerate() {
        let parents = parents(table, before, database, true);
        let count = match table.filter {
            Filter::All => 0,
            _ => i64::try_from(choices.below(5)).unwrap(),
        };
        for id in 1..=count {
            let at = choices.below(rows.len() + 1);
            let hidden = row(table, HIDDEN_IDS + id, false, &parents, choices);
            rows.splice(at..at, hidden);
        }
    }
    settle(table, &mut one, &mut other);
    [one, other]
}

/// Rows that may not be seen, as many and as long in one database as in the other, whose values are others: most of a database have
/// the same. What the filter looks at they hold alike: how many rows it leaves is in every plan.
fn crowd(table: &Table, parents: &[Cell], choices: &mut Choices<'_>) -> Vec<(Row, Row)> {
    if table.filter == Filter::All {
        return Vec::new();
    }
    let patterns: Vec<Row> = (0..KINDS_OF_ROWS)
        .filter_map(|_| row(table, 0, false, parents, choices))
        .collect();
    let Some(last) = patterns.len().checked_sub(1) else {
        return Vec::new();
    };
    let others: Vec<Row> = patterns
        .iter()
        .map(|row| {
            row.iter()
                .map(|cell| alike_in_length(cell, choices))
                .collect()
        })
        .collect();
    let count = CROWD + CROWD * choices.below(4);
    (0..count)
        .map(|n| {
            let mut row = patterns[if n % 7 == 0 {
                n / 7 % patterns.len()
            } else {
                0
            }]
            .clone();
            let source = &others[if n % 5 == 0 {
                n / 5 % others.len()
            } else {
                last
            }];
            row[0] = Cell::Int(HIDDEN_IDS + 1 + i64::try_from(n).unwrap());
            let mut other = row.clone();
            for (at, column) in table.columns.iter().enumerate().skip(1) {
                if column.unique {
                    (row[at], other[at]) = (Cell::Null, Cell::Null);
                } else if !matches!(column.name, "org" | "grp" | "r") && fits(&row[at], &source[at])
                {
                    other[at] = source[at].clone();
                }
            }
            (row, other)
        })
        .collect()
}

/// Adds rows that are as those that there are, under other ids.
fn repeat(table: &Table, rows: &mut Vec<Row>) {
    for n in 0..rows.len() * REPEATED {
        let mut row = rows[n].clone();
        row[0] = Cell::Int(i64::try_from(rows.len() + 1).unwrap());
        for (at, column) in table.columns.iter().enumerate() {
            if column.unique {
                row[at] = Cell::Null;
            }
        }
        rows.push(row);
    }
}

/// How often rows that may be seen are there again where there are many.
const REPEATED: usize = 5;

/// How many rows that may not be seen there are at least where there are many.
const CROWD: usize = 60;

/// How many of them differ.
const KINDS_OF_ROWS: usize = 4;

/// Another value that takes as much room, where there is one.
fn alike_in_length(cell: &Cell, choices: &mut Choices<'_>) -> Cell {
    let all: Vec<Cell> = match cell {
        Cell::Null => return Cell::Null,
        Cell::Int(_) => INTEGERS.iter().map(|value| Cell::Int(*value)).collect(),
        Cell::Text(text) if DATES.contains(&text.as_str()) => DATES
            .iter()
            .map(|text| Cell::Text((*text).to_owned()))
            .collect(),
        Cell::Text(_) => TEXTS
            .iter()
            .map(|text| Cell::Text((*text).to_owned()))
            .collect(),
    };
    let others: Vec<&Cell> = all
        .iter()
        .filter(|other| *other != cell && fits(cell, other))
        .collect();
    match others.is_empty() {
        true => cell.clone(),
        false => (*choices.pick(&others)).clone(),
    }
}

/// Whether one value takes as much room as another.
fn fits(one: &Cell, other: &Cell) -> bool {
    match (one, other) {
        (Cell::Int(_), Cell::Int(_)) => true,
        (Cell::Text(one), Cell::Text(other)) => one.len() == other.len(),
        (Cell::Null | Cell::Int(_) | Cell::Text(_), _) => false,
    }
}

/// The ids that a table's rows may reference: those of rows that may be seen, which are the same in both databases, or those of
/// others where the row is `hidden`. Were it to reference a row that may be seen, a constraint would tell of it.
fn parents(table: &Table, before: &[Vec<Vec<Row>>; 2], database: usize, hidden: bool) -> Vec<Cell> {
    let Some(reference) = &table.reference else {
        return Vec::new();
    };
    before[database][reference.parent]
        .iter()
        .map(|row| row[0].clone())
        .filter(|id| (*id >= Cell::Int(HIDDEN_IDS)) == hidden)
        .collect()
}

/// Computes what is generated, and takes away what there would be twice of what is unique: in both databases where
/// it may be seen.
fn settle(table: &Table, one: &mut [Row], other: &mut [Row]) {
    for (at, _) in table.columns.iter().enumerate().filter(|(_, c)| c.unique) {
        let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
        let id = |row: &Row| row[0].clone();
        let shown: Vec<Cell> = one
            .iter()
            .map(id)
            .filter(|id| *id < Cell::Int(HIDDEN_IDS))
            .collect();
        for id in shown {
            let mine = one.iter_mut().find(|row| row[0] == id).unwrap();
            let yours = other.iter_mut().find(|row| row[0] == id).unwrap();
            if ours.contains(&mine[at]) || theirs.contains(&yours[at]) {
                (mine[at], yours[at]) = (Cell::Null, Cell::Null);
            } else {
                ours.insert(mine[at].clone());
                theirs.insert(yours[at].clone());
            }
        }
        for (rows, known) in [(&mut *one, ours), (&mut *other, theirs)] {
            let mut known = known;
            for row in rows.iter_mut().filter(|row| row[0] > Cell::Int(HIDDEN_IDS)) {
                if !known.insert(row[at].clone()) {
                    row[at] = Cell::Null;
                }
            }
        }
    }
    for (at, column) in table.columns.iter().enumerate() {
        if let Some(source) = column.generated {
            for row in one.iter_mut().chain(&mut *other) {
                row[at] = structure::generated(&row[source]);
            }
        }
    }
}

/// A row that may be seen, or not; nothing where none is found.
fn row(
    table: &Table,
    id: i64,
    shown: bool,
    parents: &[Cell],
    choices: &mut Choices<'_>,
) -> Option<Row> {
    (0..12).find_map(|_| {
        let mut row: Row = table
            .columns
            .iter()
            .map(|column| Cell::any(column.kind, column.nullable, choices))
            .collect();
        row[0] = Cell::Int(id);
        if table.reference.is_some() {
            row[table.position("r")?] = parent(parents, choices);
        }
        if shown && choices.chance(80) {
            for (column, cell) in table.columns.iter().zip(&mut row) {
                match (table.filter, column.name) {
                    (Filter::Org(value) | Filter::OrgAtLength(value), "org") => {
                        *cell = Cell::Int(value)
                    }
                    (Filter::Group(value), "grp") => *cell = Cell::Text(value.to_owned()),
                    (Filter::GroupBegins(start), "grp") => *cell = Cell::Text(format!("{start}-1")),
                    _ => {}
                }
            }
        }
        (table.shows(&row) == shown).then_some(row)
    })
}

/// Another row that looks the same, up to the names of tokens.
fn twin(
    table: &Table,
    row: &Row,
    renamings: &BTreeMap<u8, Renaming>,
    parents: &[Cell],
    choices: &mut Choices<'_>,
) -> Row {
    let mut twin = row.clone();
    for (index, column) in table.columns.iter().enumerate().skip(1) {
        match column.level {
            Level::Plain => continue,
            Level::Token(domain) => {
                twin[index] = renamings[&domain].rename(&row[index]);
                continue;
            }
            Level::Masked(_) | Level::Hidden => {}
        }
        for _ in 0..6 {
            let mut changed = twin.clone();
            changed[index] = match column.name {
                "r" => parent(parents, choices),
                _ => Cell::any(column.kind, column.nullable, choices),
            };
            if table.shows(&changed) && table.alike(row, &changed) {
                twin = changed;
                break;
            }
        }
    }
    twin
}

fn parent(parents: &[Cell], choices: &mut Choices<'_>) -> Cell {
    match parents {
        [] => Cell::Null,
        _ if choices.chance(20) => Cell::Null,
        ids => choices.pick(ids).clone(),
    }
}
