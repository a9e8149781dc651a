//! Rows that make a condition true, and rows that make it false. They are proposals: the firewall and the engine say what each is.

use std::collections::BTreeMap;

use palisade::{
    catalog::{Column, Relation, TypeClass},
    dialect::Dialect,
    policy::obligation::{Comparison, Literal, Operand, PatternPiece, Predicate},
};

/// At most so many proposals stand for one condition.
const MAX_PROPOSALS: usize = 12;

/// The value of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    /// A number as SQL writes it.
    Number(String),
}

impl Cell {
    /// As SQL writes it into `column`.
    pub(crate) fn sql(&self, dialect: Dialect, column: &Column) -> String {
        let is_truth = column.class == TypeClass::Boolean && dialect == Dialect::Postgres;
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Integer(integer) if is_truth => (*integer != 0).to_string(),
            Self::Integer(integer) => integer.to_string(),
            Self::Text(text) => {
                let text = text.replace('\'', "''");
                match dialect {
                    Dialect::Sqlite | Dialect::Postgres => format!("'{text}'"),
                    Dialect::Mysql => format!("'{}'", text.replace('\\', "\\\\")),
                }
            }
            Self::Number(number) => number.clone(),
        }
    }
}

/// Values by the positions of columns.
pub(crate) type Values = BTreeMap<u16, Cell>;

/// Values for which `predicate` should be `wanted`; columns that it does not look at are left out.
pub(crate) fn propose(predicate: &Predicate, wanted: bool, relation: &Relation) -> Vec<Values> {
    let mut found = match predicate {
        Predicate::Constant(value) if *value == wanted => vec![Values::new()],
        Predicate::Constant(_) => Vec::new(),
        Predicate::Not(part) => propose(part, !wanted, relation),
        Predicate::And(parts) if wanted => join(parts, true, relation),
        Predicate::And(parts) => one_of(parts, false, relation),
        Predicate::Or(parts) if wanted => one_of(parts, true, relation),
        Predicate::Or(parts) => join(parts, false, relation),
        Predicate::If(condition, then, otherwise) => {
            let mut found = merge(
                &propose(condition, true, relation),
                &propose(then, wanted, relation),
            );
            found.extend(merge(
                &propose(condition, false, relation),
                &propose(otherwise, wanted, relation),
            ));
            found
        }
        Predicate::Column(index) => vec![one(*index, Cell::Integer(i64::from(wanted)))],
        Predicate::Has(index) if wanted => vec![one(*index, usual(*index, relation, 1))],
        Predicate::Has(index) => vec![one(*index, Cell::Null)],
        Predicate::Compare(left, comparison, right) => {
            propose_comparison(left, *comparison, right, wanted, relation)
        }
        Predicate::In(Operand::Column(index), literals) => match wanted {
            true => literals
                .iter()
                .map(|literal| one(*index, value(literal)))
                .collect(),
            false => vec![one(*index, unlike(literals, *index, relation))],
        },
        Predicate::In(Operand::Literal(literal), literals) => {
            match literals.contains(literal) == wanted {
                true => vec![Values::new()],
                false => Vec::new(),
            }
        }
        Predicate::Like(index, pieces) => {
            let text: String = pieces
                .iter()
                .map(|piece| match piece {
                    PatternPiece::Text(text) => text.as_str(),
                    PatternPiece::Any => "x",
                })
                .collect();
            let text = match wanted {
                true => text,
                false => format!("\u{1f}{text}"),
            };
            vec![one(*index, Cell::Text(text))]
        }
        // Which rows the other table has is not known here.
        Predicate::RefersToSeen(Operand::Column(index), _) if wanted => {
            vec![one(*index, usual(*index, relation, 1))]
        }
        Predicate::RefersToSeen(Operand::Column(index), _) => vec![one(*index, Cell::Null)],
        Predicate::RefersToSeen(Operand::Literal(_), _) => Vec::new(),
    };
    found.truncate(MAX_PROPOSALS);
    found
}

fn one(index: u16, cell: Cell) -> Values {
    Values::from([(index, cell)])
}

/// Proposals for all parts together.
fn join(parts: &[Predicate], wanted: bool, relation: &Relation) -> Vec<Values> {
    let mut found = vec![Values::new()];
    for part in parts {
        found = merge(&found, &propose(part, wanted, relation));
    }
    found
}

/// Proposals for each part alone; the others should be the contrary, where that can be.
fn one_of(parts: &[Predicate], wanted: bool, relation: &Relation) -> Vec<Values> {
    let mut found = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let mut alone = propose(part, wanted, relation);
        for (other, rest) in parts.iter().enumerate() {
            if other != index {
                let both = merge(&alone, &propose(rest, !wanted, relation));
                if !both.is_empty() {
                    alone = both;
                }
            }
        }
        found.extend(alone);
    }
    found
}

/// Each of one with each of the other, where they agree.
fn merge(left: &[Values], right: &[Values]) -> Vec<Values> {
    let mut found = Vec::new();
    for one in left {
        for other in right {
            let agree = other
                .iter()
                .all(|(index, cell)| one.get(index).is_none_or(|known| known == cell));
            if agree {
                let mut both = one.clone();
                both.extend(other.iter().map(|(index, cell)| (*index, cell.clone())));
                found.push(both);
            }
        }
    }
    found.truncate(MAX_PROPOSALS * 4);
    found
}

fn propose_comparison(
    left: &Operand,
    comparison: Comparison,
    right: &Operand,
    wanted: bool,
    relation: &Relation,
) -> Vec<Values> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let flipped = match comparison {
        Less => Greater,
        LessOrEqual => GreaterOrEqual,
        Greater => Less,
        GreaterOrEqual => LessOrEqual,
        same @ (Equal | NotEqual) => same,
    };
    match (left, right) {
        (Operand::Column(index), Operand::Literal(literal)) => {
            compare_with(*index, comparison, literal, wanted, relation)
        }
        (Operand::Literal(literal), Operand::Column(index)) => {
            compare_with(*index, flipped, literal, wanted, relation)
        }
        (Operand::Column(one), Operand::Column(other)) => {
            let values = [1, 2].map(|number| usual(*one, relation, number));
            let pairs = [(0, 0), (0, 1), (1, 0)];
            let holds = |pair: &(usize, usize)| {
                let order = pair.0.cmp(&pair.1);
                let is = match comparison {
                    Equal => order.is_eq(),
                    NotEqual => order.is_ne(),
                    Less => order.is_lt(),
                    LessOrEqual => order.is_le(),
                    Greater => order.is_gt(),
                    GreaterOrEqual => order.is_ge(),
                };
                is == wanted
            };
            let pairs = pairs.iter().filter(|pair| holds(pair));
            pairs
                .filter_map(|(left, right)| {
                    let (left, right) = (values.get(*left)?, values.get(*right)?);
                    Some(Values::from([
                        (*one, left.clone()),
                        (*other, right.clone()),
                    ]))
                })
                .collect()
        }
        // It is so or not whatever the row.
        (Operand::Literal(_), Operand::Literal(_)) => vec![Values::new()],
    }
}

/// Values of a column beside a literal.
fn compare_with(
    index: u16,
    comparison: Comparison,
    literal: &Literal,
    wanted: bool,
    relation: &Relation,
) -> Vec<Values> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let same = value(literal);
    let (less, more) = neighbours(literal);
    let unlike = || vec![unlike(std::slice::from_ref(literal), index, relation)];
    let cells = match (comparison, wanted) {
        (Equal, true) | (NotEqual, false) => vec![same],
        (Equal, false) | (NotEqual, true) => unlike(),
        (Less, true) | (GreaterOrEqual, false) => vec![less],
        (Greater, true) | (LessOrEqual, false) => vec![more],
        (LessOrEqual, true) | (Greater, false) => vec![same, less],
        (GreaterOrEqual, true) | (Less, false) => vec![same, more],
    };
    cells.into_iter().map(|cell| one(index, cell)).collect()
}

fn value(literal: &Literal) -> Cell {
    match literal {
        Literal::Integer(integer) => Cell::Integer(*integer),
        Literal::Boolean(boolean) => Cell::Integer(i64::from(*boolean)),
        Literal::Text(text) => Cell::Text(text.clone()),
        Literal::Decimal(tenthousandths) => decimal(*tenthousandths),
        Literal::Datetime(milliseconds) => datetime(*milliseconds),
    }
}

/// A smaller and a larger value.
fn neighbours(literal: &Literal) -> (Cell, Cell) {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    match literal {
        Literal::Integer(integer) => (
            Cell::Integer(integer.saturating_sub(1)),
            Cell::Integer(integer.saturating_add(1)),
        ),
        Literal::Boolean(_) => (Cell::Integer(0), Cell::Integer(1)),
        Literal::Text(text) => (Cell::Text(String::new()), Cell::Text(format!("{text}x"))),
        Literal::Decimal(number) => (
            decimal(number.saturating_sub(10_000)),
            decimal(number.saturating_add(10_000)),
        ),
        Literal::Datetime(moment) => (
            datetime(moment.saturating_sub(DAY)),
            datetime(moment.saturating_add(DAY)),
        ),
    }
}

/// A value that is none of `literals`.
fn unlike(literals: &[Literal], index: u16, relation: &Relation) -> Cell {
    let cells: Vec<Cell> = literals.iter().map(value).collect();
    let first = match literals.first() {
        Some(Literal::Integer(integer)) => Cell::Integer(integer.saturating_add(1)),
        Some(Literal::Boolean(boolean)) => Cell::Integer(i64::from(!boolean)),
        Some(Literal::Text(text)) => Cell::Text(format!("not {text}")),
        Some(Literal::Decimal(number)) => decimal(number.saturating_add(10_000)),
        Some(literal @ Literal::Datetime(_)) => neighbours(literal).1,
        None => usual(index, relation, 1),
    };
    let mut candidates = (0..).map(|step: i64| match &first {
        Cell::Integer(integer) => Cell::Integer(integer.saturating_add(step)),
        Cell::Text(text) if step > 0 => Cell::Text(format!("{text} {step}")),
        same => same.clone(),
    });
    let tried = cells.len().saturating_add(1);
    let mut tried = candidates.by_ref().take(tried);
    tried
        .find(|cell| !cells.contains(cell))
        .unwrap_or(Cell::Null)
}

fn decimal(tenthousandths: i64) -> Cell {
    let sign = if tenthousandths < 0 { "-" } else { "" };
    let size = tenthousandths.unsigned_abs();
    Cell::Number(format!("{sign}{}.{:04}", size / 10_000, size % 10_000))
}

fn datetime(milliseconds: i64) -> Cell {
    let since = u64::try_from(milliseconds).unwrap_or(0);
    let moment = std::time::Duration::from_millis(since);
    let text = palisade::moment::print_utc(moment);
    Cell::Text(text.trim_end_matches('Z').replace('T', " "))
}

/// A value that a column of this type may have, another for each number.
pub(crate) fn usual(index: u16, relation: &Relation, number: usize) -> Cell {
    let Some(column) = relation.column(index) else {
        return Cell::Null;
    };
    let integer = i64::try_from(number).unwrap_or(i64::MAX);
    match column.class {
        TypeClass::Integer => Cell::Integer(integer),
        TypeClass::Number | TypeClass::Decimal => Cell::Number(format!("{number}.5")),
        TypeClass::Boolean => Cell::Integer(integer % 2),
        TypeClass::Date => Cell::Text(format!("2026-01-{:02}", number % 28 + 1)),
        TypeClass::Time => Cell::Text(format!("12:00:{:02}", number % 60)),
        TypeClass::Timestamp | TypeClass::TimestampTz => {
            Cell::Text(format!("2026-01-{:02} 12:00:00", number % 28 + 1))
        }
        TypeClass::Json => Cell::Text("{}".to_owned()),
        TypeClass::Uuid => Cell::Text(format!("00000000-0000-4000-8000-{number:012}")),
        TypeClass::Network => {
            Cell::Text(format!("10.0.{}.{}", number / 250 % 250, number % 250 + 1))
        }
        TypeClass::Interval => Cell::Text(format!("{number} days")),
        // One of its own names, in the order in which it lists them, or no value.
        TypeClass::Enum => match list_labels(&column.type_name) {
            labels if labels.is_empty() && column.nullable => Cell::Null,
            labels if labels.is_empty() => Cell::Text(format!("{} {number}", column.name)),
            labels => labels
                .get(number % labels.len())
                .map_or(Cell::Null, |label| Cell::Text(label.clone())),
        },
        TypeClass::Text | TypeClass::Padded | TypeClass::Blob | TypeClass::Other => {
            Cell::Text(name_within(column, number))
        }
    }
}

/// `name 7`, as much of the end of it as the type has place for.
fn name_within(column: &Column, number: usize) -> String {
    let text = format!("{} {number}", column.name);
    let length = text.chars().count();
    let most = find_length(&column.type_name).unwrap_or(length);
    text.chars().skip(length.saturating_sub(most)).collect()
}

/// The 20 of `varchar(20)`.
fn find_length(type_name: &str) -> Option<usize> {
    let (_, rest) = type_name.split_once('(')?;
    rest.split(')').next()?.trim().parse().ok()
}

/// The names of `enum('a','b')`, as MySQL writes the type.
fn list_labels(type_name: &str) -> Vec<String> {
    let inner = type_name
        .strip_prefix("enum(")
        .and_then(|rest| rest.strip_suffix(')'));
    let Some(inner) = inner.and_then(|inner| inner.strip_prefix('\'')) else {
        return Vec::new();
    };
    let inner = inner.strip_suffix('\'').unwrap_or(inner);
    let labels = inner.split("','");
    labels.map(|label| label.replace("''", "'")).collect()
}
