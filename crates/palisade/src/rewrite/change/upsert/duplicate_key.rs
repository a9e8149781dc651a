//! REPLACE and ON DUPLICATE KEY UPDATE where policy keeps rows apart.
//!
//! Neither has a condition that could leave a row alone, and a row may be in the way by any unique key. So the rows in the way of
//! those that are proposed are looked for first, by each key: one that is not within reach refuses the change as the key would
//! refuse an INSERT, and one that would not be admitted afterwards refuses it as well. What the keys are has to be known before.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator, Expr, Insert, OnInsert, SetExpr, UnaryOperator,
    Value as SqlValue, Values,
};

use crate::rewrite::{
    ast,
    change::{
        Job, Reads, determinism, disclosure,
        insert_select::Meeting,
        new_row::{converted::Held, fold::Constant, key_value, storage},
        precheck::{Doubt, Found},
        unimplied,
        upsert::excluded::of_update,
    },
    not_as_decided,
    source::row_filter,
};
use crate::{
    catalog::{Change, Column, Relation, TypeClass, UniqueKey},
    code::Code,
    dialect::Dialect,
    policy::{
        WriteDecision,
        obligation::{Comparison, Literal, Operand, Predicate, RowFilter},
    },
    rejection::Rejection,
    resolve::{Conflict, is_default},
    value::Value,
};

/// How many rows are looked for at once by a key of several columns.
const ROWS: usize = 50;

/// What is known of a value of a key before it is stored.
enum Given {
    /// No row is in the way by it: it is NULL, or counted up.
    Nobody,
    /// The column is equal to this, just where it would be equal once it is stored.
    Equal(Box<Expr>),
}

impl Job<'_> {
    /// What must not be in the way of rows that remove what is.
    pub(in crate::rewrite) fn removed(
        &self,
        insert: &Insert,
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        reads: &mut Reads,
        functions: &mut BTreeSet<String>,
    ) -> Result<Vec<Doubt>, Rejection> {
        let reached = [seen, &write.change];
        let Some(within) = self.guard(&reached, relation, true, reads, functions)? else {
            return Ok(Vec::new());
        };
        let free = is_within(&reached, write);
        let met = self.met(REPLACE, insert, relation, free, reads)?;
        Ok(self.doubts(&met, &within.condition, Found::OutOfReach))
    }

    /// What must not be in the way of rows that update what is.
    #[expect(clippy::too_many_arguments, reason = "the parts of one statement")]
    pub(in crate::rewrite) fn updated(
        &self,
        insert: &Insert,
        assignments: &[Assignment],
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        reads: &mut Reads,
        functions: &mut BTreeSet<String>,
    ) -> Result<Vec<Doubt>, Rejection> {
        let Some(update) =
            self.update(insert, assignments, relation, write, seen, reads, functions)?
        else {
            return Ok(Vec::new());
        };
        let met = self.met(DUPLICATE, insert, relation, update.free, reads)?;
        if rows(insert).is_some_and(|rows| rows.len() > 1) && !update.free && !update.apart {
            return Err(unsought(DUPLICATE, relation, ONE_BY_ONE));
        }
        let mut doubts = Vec::new();
        for (admitted, found) in update.admitted {
            doubts.extend(self.doubts(&met, &admitted, found));
        }
        Ok(doubts)
    }

    /// What must not be in the way of rows that a query gives to REPLACE or ON DUPLICATE KEY UPDATE; none where nothing can be.
    pub(in crate::rewrite) fn met_by_query(
        &self,
        insert: &Insert,
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        reads: &mut Reads,
        functions: &mut BTreeSet<String>,
    ) -> Result<Option<Meeting>, Rejection> {
        let (what, admitted, apart) = match (self.target.on_conflict, &insert.on) {
            (Conflict::Replaces, _) => {
                let reached = [seen, &write.change];
                let Some(within) = self.guard(&reached, relation, true, reads, functions)? else {
                    return Ok(None);
                };
                let admitted = vec![(within.condition, Found::OutOfReach)];
                (REPLACE, admitted, !is_within(&reached, write))
            }
            (Conflict::Updates, Some(OnInsert::DuplicateKeyUpdate(assignments))) => {
                let update =
                    self.update(insert, assignments, relation, write, seen, reads, functions)?;
                let Some(update) = update else {
                    return Ok(None);
                };
                if !update.free && !update.apart {
                    return Err(unsought(DUPLICATE, relation, ONE_BY_ONE));
                }
                (DUPLICATE, update.admitted, !update.free)
            }
            (Conflict::DoNothing | Conflict::Updates, _) => return Ok(None),
        };
        let keys = self.keys_given(what, insert, relation, reads)?;
        Ok((!keys.is_empty()).then_some(Meeting {
            what,
            keys,
            admitted,
            apart,
        }))
    }

    /// What ON DUPLICATE KEY UPDATE does to the rows that it meets; none where it may do that to any.
    #[expect(clippy::too_many_arguments, reason = "the parts of one statement")]
    fn update(
        &self,
        insert: &Insert,
        assignments: &[Assignment],
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        reads: &mut Reads,
        functions: &mut BTreeSet<String>,
    ) -> Result<Option<Duplicate>, Rejection> {
        let mut row = self.constants(
            &self.as_proposed(assignments, insert, relation),
            Change::Update,
            relation,
        );
        if rows(insert).is_none() {
            self.as_admitted(&mut row, assignments, insert, relation, &write.add);
        }
        let changed = self
            .left(&write.add, seen, &row, relation)
            .map_err(|why| of_update(&why))?;
        let reached = [seen, &write.change];
        let within = self.guard(&reached, relation, true, reads, functions)?;
        let rest = unimplied(&changed, &reached);
        if within.is_none() && rest.is_none() {
            return Ok(None);
        }
        if insert.ignore {
            return Err(unsought(
                DUPLICATE,
                relation,
                "IGNORE changes values: leave it out",
            ));
        }
        let mut admitted = Vec::new();
        if let Some(within) = within {
            admitted.push((within.condition, Found::OutOfReach));
        }
        if let Some(rest) = rest {
            row_filter::columns(rest, reads);
            let rest = self.condition(rest, relation, true, functions)?;
            admitted.push((rest, Found::NotAdmitted));
        }
        let keeps = keeps_within(&row, &reached);
        let anew = [seen, &write.change, &changed];
        Ok(Some(Duplicate {
            admitted,
            free: keeps && is_within(&anew, write),
            apart: keeps && keeps_keys(&row, &reached, relation),
        }))
    }

    /// Conditions of rows that are in the way of those that are proposed, if those can be told; none where nothing becomes of
    /// what is in the way.
    pub(in crate::rewrite) fn in_the_way(
        &self,
        insert: &Insert,
        relation: &Relation,
    ) -> Option<Vec<Expr>> {
        match (self.catalog.dialect(), self.target.on_conflict) {
            (Dialect::Mysql, Conflict::Updates | Conflict::Replaces) => self
                .met("", insert, relation, false, &mut Reads::new())
                .ok(),
            (Dialect::Sqlite | Dialect::Postgres, _) | (Dialect::Mysql, Conflict::DoNothing) => {
                None
            }
        }
    }

    pub(in crate::rewrite) fn doubts(
        &self,
        met: &[Expr],
        admitted: &Expr,
        found: Found,
    ) -> Vec<Doubt> {
        met.iter()
            .map(|meets| Doubt::Met {
                alias: self.target.qualifier.clone(),
                meets: Box::new(meets.clone()),
                admitted: Box::new(admitted.clone()),
                found,
            })
            .collect()
    }

    /// The assignments with what is proposed in the place of `VALUES(column)`, where it is one constant for all rows and goes
    /// to the same column: in another it could have become something else before.
    fn as_proposed(
        &self,
        assignments: &[Assignment],
        insert: &Insert,
        relation: &Relation,
    ) -> Vec<Assignment> {
        let proposed = |target: &AssignmentTarget, expr: &Expr| -> Option<Expr> {
            let column = determinism::proposed(expr)?;
            let AssignmentTarget::ColumnName(name) = target else {
                return None;
            };
            if *self.column(relation, name)?.1.key != *column {
                return None;
            }
            let at = given(self, insert, relation)
                .iter()
                .position(|index| relation.column(*index).is_some_and(|c| *c.key == *column))?;
            let mut values = rows(insert)?.into_iter().map(|row| row.get(at).copied());
            let first = values.next()??;
            values
                .all(|value| value == Some(first))
                .then(|| first.clone())
        };
        assignments
            .iter()
            .map(|Assignment { target, value }| Assignment {
                target: target.clone(),
                value: proposed(target, value).unwrap_or_else(|| value.clone()),
            })
            .collect()
    }

    /// What is known of columns that are assigned what is proposed for them, `VALUES(column)`, where policy admits new rows with one
    /// value alone.
    fn as_admitted(
        &self,
        row: &mut BTreeMap<u16, Held>,
        assignments: &[Assignment],
        insert: &Insert,
        relation: &Relation,
        add: &RowFilter,
    ) {
        let RowFilter::Where(add) = add else {
            return;
        };
        let given = given(self, insert, relation);
        for Assignment { target, value } in assignments {
            let AssignmentTarget::ColumnName(name) = target else {
                continue;
            };
            let Some((index, column)) = self.column(relation, name) else {
                continue;
            };
            if determinism::proposed(value).is_some_and(|from| *from == *column.key)
                && given.contains(&index)
                && let Some(value) = disclosure::value(add, index)
            {
                row.insert(index, Held::Known(Constant::Value(value.clone())));
            }
        }
    }

    /// That a row of the target is in the way of one that is proposed: by each key, for some rows at a time. Where `free`, one of several
    /// rows may meet what another has done.
    pub(in crate::rewrite) fn met(
        &self,
        what: &str,
        insert: &Insert,
        relation: &Relation,
        free: bool,
        reads: &mut Reads,
    ) -> Result<Vec<Expr>, Rejection> {
        let keys = self.unique_keys(what, relation)?;
        let rows = rows(insert).ok_or_else(|| not_as_decided("rows of a query"))?;
        let given = given(self, insert, relation);
        if rows.iter().any(|row| row.len() != given.len()) {
            return Err(not_as_decided("rows of another width"));
        }
        let mut met = Vec::new();
        for key in keys {
            let mut found = Vec::with_capacity(rows.len());
            let mut apart = HashSet::new();
            for row in &rows {
                let Some(values) = self.key_values(what, key, relation, &given, row)? else {
                    continue;
                };
                if rows.len() > 1 && !free {
                    let distinct = self.distinct(key, relation, &given, row);
                    if !distinct.is_some_and(|distinct| apart.insert(distinct)) {
                        return Err(unsought(what, relation, ONE_BY_ONE));
                    }
                }
                found.push(values);
            }
            if found.is_empty() {
                continue;
            }
            reads.extend(&key.columns);
            met.extend(self.equal(key, relation, found));
        }
        Ok(met)
    }

    /// A key by its name, where that tells of no column that is not shown.
    fn called(&self, key: &UniqueKey, relation: &Relation) -> String {
        let is_shown = |index: &u16| self.is_plain(relation, *index);
        match &key.name {
            Some(name) if key.columns.iter().all(is_shown) => format!("its unique key `{name}`"),
            Some(_) | None => "a unique key of it".to_owned(),
        }
    }

    /// What each column of `key` is given by `row`; nothing where no row is in the way by it.
    fn key_values(
        &self,
        what: &str,
        key: &UniqueKey,
        relation: &Relation,
        given: &[u16],
        row: &[&Expr],
    ) -> Result<Option<Vec<Expr>>, Rejection> {
        let mut values = Vec::with_capacity(key.columns.len());
        let mut unknown = None;
        for index in &key.columns {
            let column = relation
                .column(*index)
                .ok_or_else(|| not_as_decided("a key of another relation"))?;
            let at = given.iter().position(|other| other == index);
            let value = at.and_then(|at| row.get(at).copied());
            let is_filled = key.filled.contains(index);
            let known = match value.filter(|value| !is_default(value)) {
                None if is_filled || column.generated.is_some() => None,
                None => Some(Given::Nobody),
                Some(value) => self.given(value, column, is_filled),
            };
            match known {
                Some(Given::Nobody) if key.plain => return Ok(None),
                Some(Given::Equal(value)) => values.push(*value),
                Some(Given::Nobody) | None => unknown = Some(column),
            }
        }
        let is_given = |column: &Column| {
            let mut given = given.iter().filter_map(|i| relation.column(*i));
            given.any(|c| c.key == column.key)
        };
        match unknown {
            None if key.plain => Ok(Some(values)),
            unknown => {
                let is_given = unknown.is_some_and(is_given);
                Err(self.unknown_key(what, key, relation, unknown, is_given))
            }
        }
    }

    /// The unique keys of the table.
    pub(in crate::rewrite) fn unique_keys<'r>(
        &self,
        what: &str,
        relation: &'r Relation,
    ) -> Result<&'r [UniqueKey], Rejection> {
        relation.unique_keys.as_deref().ok_or_else(|| {
            unsought(
                what,
                relation,
                "the catalog does not know all of its unique keys",
            )
        })
    }

    /// Why rows cannot be looked for by `key`: for `unknown`, a column of it.
    pub(in crate::rewrite) fn unknown_key(
        &self,
        what: &str,
        key: &UniqueKey,
        relation: &Relation,
        unknown: Option<&Column>,
        is_given: bool,
    ) -> Rejection {
        let why = match unknown {
            _ if !key.plain => format!(
                "{} is of expressions, of parts of values, or of a part of the rows: INSERT and UPDATE by themselves",
                self.called(key, relation)
            ),
            Some(column) if column.generated.is_some() => {
                format!(
                    "{} is of a generated column: INSERT and UPDATE by themselves",
                    self.called(key, relation)
                )
            }
            Some(column) if is_given => format!(
                "give `{}` by a literal or parameter of the column's type, which is stored as it is",
                column.name
            ),
            // A column of a key that is given nothing may be one that is not shown.
            Some(_) | None => {
                "a column of a unique key has a default: give every column of its keys a value"
                    .to_owned()
            }
        };
        unsought(what, relation, &why)
    }

    /// What is known of `value` once it is in `column`; none where nothing is.
    fn given(&self, value: &Expr, column: &Column, is_filled: bool) -> Option<Given> {
        let constant = |value: &Expr| self.constant(value, column);
        let nested = Box::new(ast::parens(value.clone()));
        match (self.catalog.dialect(), constant(value)) {
            // SQLite puts a default in the place of a NULL that may not be there, and MySQL the time.
            (_, Some(Constant::Null)) if !column.nullable && (is_filled || is_time(column)) => None,
            (_, Some(Constant::Null)) => Some(Given::Nobody),
            (Dialect::Sqlite, _) => {
                // As a floating-point number an integer may be another.
                if column.class == TypeClass::Number && !is_short_number(value) {
                    return None;
                }
                if determinism::is_written(value) {
                    return Some(Given::Equal(nested));
                }
                // Which may be a NULL.
                if is_filled && !column.nullable {
                    return None;
                }
                // A cast has an affinity of its own, which a value that is stored has not.
                determinism::is_settled(value, self.uses, self.catalog, self.visible, self.limits)
                    .then(|| {
                        Given::Equal(Box::new(ast::parens(Expr::UnaryOp {
                            op: UnaryOperator::Plus,
                            expr: nested,
                        })))
                    })
            }
            // 5 is 2005 there.
            (Dialect::Mysql, _) if storage::is_named(column, "year") => self
                .whole(value)
                .filter(|year| (1901..=2155).contains(year))
                .map(|_| Given::Equal(nested)),
            (Dialect::Mysql, Some(Constant::Value(known))) => match (column.class, known) {
                (
                    TypeClass::Integer | TypeClass::Boolean,
                    Literal::Integer(_) | Literal::Boolean(_),
                ) => Some(Given::Equal(nested)),
                // Beside a text, a number is compared as a floating-point one.
                (TypeClass::Decimal, Literal::Decimal(_)) if is_short_number(value) => {
                    Some(Given::Equal(nested))
                }
                // `char(n)` loses its blanks where it is stored.
                (TypeClass::Text, Literal::Text(text)) if !text.ends_with(' ') => {
                    Some(Given::Equal(nested))
                }
                (TypeClass::Uuid, Literal::Text(_)) => Some(Given::Equal(nested)),
                (_, Literal::Text(text)) if key_value::is_stored_so(&text, column) => {
                    Some(Given::Equal(nested))
                }
                _ => None,
            },
            (Dialect::Mysql, None) => {
                let is_known = match column.class {
                    TypeClass::Integer => {
                        self.is_truth(value)
                            || determinism::whole_product(value, &constant).is_some()
                    }
                    TypeClass::Number => key_value::is_double(column) && is_short_number(value),
                    TypeClass::Date => is_plain_date(value),
                    _ => false,
                };
                let text = || self.text(value);
                (is_known || text().is_some_and(|text| key_value::is_stored_so(&text, column)))
                    .then_some(Given::Equal(nested))
            }
            // Its upserts have conditions.
            (Dialect::Postgres, _) => None,
        }
    }

    /// Whether `value` is `true` or `false`, which MySQL takes for 1 and 0.
    fn is_truth(&self, value: &Expr) -> bool {
        let Expr::Value(written) = value else {
            return false;
        };
        matches!(written.value, SqlValue::Boolean(_))
            || matches!(self.parameter(value), Some(Value::Bool(_)))
    }

    /// A whole number that is written, or given by a parameter.
    fn whole(&self, value: &Expr) -> Option<i64> {
        let Expr::Value(written) = value else {
            return None;
        };
        if let SqlValue::Number(digits, _) = &written.value {
            return digits.parse().ok();
        }
        match self.parameter(value)? {
            Value::Integer(value) => Some(value),
            Value::Null | Value::Bool(_) | Value::Real(_) | Value::Text(_) | Value::Blob(_) => None,
        }
    }

    /// A text that is written on MySQL, or given by a parameter.
    fn text(&self, value: &Expr) -> Option<String> {
        let Expr::Value(written) = value else {
            return None;
        };
        if let SqlValue::SingleQuotedString(text) = &written.value {
            return (!text.contains('\\')).then(|| text.replace("''", "'"));
        }
        match self.parameter(value)? {
            Value::Text(text) => String::from_utf8(text).ok(),
            Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Real(_) | Value::Blob(_) => {
                None
            }
        }
    }

    /// A text in which rows differ that have certainly different keys; none where that cannot be told.
    fn distinct(
        &self,
        key: &UniqueKey,
        relation: &Relation,
        given: &[u16],
        row: &[&Expr],
    ) -> Option<Vec<String>> {
        key.columns
            .iter()
            .map(|index| {
                let column = relation.column(*index)?;
                let at = given.iter().position(|other| other == index)?;
                let value = row.get(at)?;
                let constant = |value: &Expr| self.constant(value, column);
                if column.class == TypeClass::Date && is_plain_date(value) {
                    return Some(value.to_string());
                }
                if column.class == TypeClass::Integer
                    && let Some(number) = determinism::whole_product(value, &constant)
                {
                    return Some(number.to_string());
                }
                match constant(value)? {
                    Constant::Value(Literal::Integer(value)) => Some(value.to_string()),
                    Constant::Value(Literal::Decimal(value)) => Some(value.to_string()),
                    Constant::Value(Literal::Text(text)) => {
                        folded(&text, column, self.catalog.dialect())
                    }
                    Constant::Value(Literal::Boolean(_) | Literal::Datetime(_))
                    | Constant::Null => None,
                }
            })
            .collect()
    }

    /// That a row of the target has one of these `values` of `key`.
    fn equal(&self, key: &UniqueKey, relation: &Relation, values: Vec<Vec<Expr>>) -> Vec<Expr> {
        let columns: Vec<Expr> = (key.columns.iter())
            .filter_map(|index| relation.column(*index))
            .map(|column| {
                let name = crate::syntax::encode(&column.name, self.catalog.dialect());
                Expr::CompoundIdentifier(vec![self.target.qualifier.clone(), name])
            })
            .collect();
        if let ([column], true) = (columns.as_slice(), values.len() > 1) {
            return vec![Expr::InList {
                expr: Box::new(column.clone()),
                list: values.into_iter().flatten().collect(),
                negated: false,
            }];
        }
        values
            .chunks(ROWS)
            .map(|rows| {
                let rows = rows.iter().map(|row| {
                    let equal = columns.iter().zip(row).map(|(column, value)| {
                        ast::binary(column.clone(), BinaryOperator::Eq, value.clone())
                    });
                    ast::joined(equal.collect(), &BinaryOperator::And, true)
                });
                ast::joined(rows.collect(), &BinaryOperator::Or, false)
            })
            .collect()
    }
}

const REPLACE: &str = "REPLACE";

const DUPLICATE: &str = "ON DUPLICATE KEY UPDATE";

/// What ON DUPLICATE KEY UPDATE does to rows that are there.
struct Duplicate {
    /// What they must be like, and what it says of the change where one is not.
    admitted: Vec<(Expr, Found)>,
    /// Whether it may do so to what other rows of the statement have added or updated.
    free: bool,
    /// Whether no row of the statement meets otherwise what another has updated than it was before.
    apart: bool,
}

/// Whether all rows that are added are ones that pass `filters`.
fn is_within(filters: &[&RowFilter], write: &WriteDecision) -> bool {
    filters
        .iter()
        .all(|filter| **filter != RowFilter::Nothing && unimplied(filter, &[&write.add]).is_none())
}

/// What all rows within reach are like.
fn known<'f>(reached: &[&'f RowFilter]) -> impl Iterator<Item = &'f Predicate> {
    reached.iter().filter_map(|rows| match rows {
        RowFilter::Where(known) => Some(known),
        RowFilter::Everything | RowFilter::Nothing => None,
    })
}

/// Whether rows within reach may have another value in a column once `row` is assigned: what every such row has, none gets anew.
fn changes(index: u16, row: &BTreeMap<u16, Held>, reached: &[&RowFilter]) -> bool {
    match row.get(&index) {
        Some(Held::Known(Constant::Value(value))) => {
            let has = Predicate::Compare(
                Operand::Column(index),
                Comparison::Equal,
                Operand::Literal(value.clone()),
            );
            !disclosure::follows(&has, known(reached))
        }
        Some(Held::Known(Constant::Null) | Held::Present | Held::Unknown) => true,
        None => false,
    }
}

/// Whether rows within reach are within reach still once they are updated.
fn keeps_within(row: &BTreeMap<u16, Held>, reached: &[&RowFilter]) -> bool {
    let mut looked = BTreeSet::new();
    for predicate in known(reached) {
        row_filter::columns(predicate, &mut looked);
    }
    !looked.iter().any(|index| changes(*index, row, reached))
}

/// Whether rows within reach have the keys that they had once they are updated.
fn keeps_keys(row: &BTreeMap<u16, Held>, reached: &[&RowFilter], relation: &Relation) -> bool {
    let mut keys = relation.unique_keys.iter().flatten();
    keys.all(|key| {
        key.plain
            && !key
                .columns
                .iter()
                .any(|index| changes(*index, row, reached))
    })
}

const ONE_BY_ONE: &str = "one row of it may meet another: give one row at a time";

/// The rows that are proposed.
pub(in crate::rewrite) fn rows(insert: &Insert) -> Option<Vec<Vec<&Expr>>> {
    let Some(source) = &insert.source else {
        return Some(vec![insert.assignments.iter().map(|a| &a.value).collect()]);
    };
    match &*source.body {
        SetExpr::Values(Values {
            explicit_row: _,
            value_keyword: _,
            rows,
        }) => Some(
            rows.iter()
                .map(|row| row.content.iter().collect())
                .collect(),
        ),
        _ => None,
    }
}

/// The columns that they are given values of.
pub(in crate::rewrite) fn given(job: &Job<'_>, insert: &Insert, relation: &Relation) -> Vec<u16> {
    let assigned = insert.assignments.iter().filter_map(|a| match &a.target {
        AssignmentTarget::ColumnName(name) => Some(name),
        AssignmentTarget::Tuple(_) => None,
    });
    let names = insert.columns.iter().chain(assigned);
    names
        .filter_map(|name| job.column(relation, name))
        .map(|(index, _)| index)
        .collect()
}

/// `text` as the loosest collation may take it; none where that is not known.
fn folded(text: &str, column: &Column, dialect: Dialect) -> Option<String> {
    let text = text.trim_end_matches(' ');
    match dialect {
        // `BINARY`, `NOCASE` and `RTRIM` are all there are.
        Dialect::Sqlite => Some(text.to_ascii_lowercase()),
        Dialect::Mysql if column.collation.ends_with("_bin") => Some(text.to_owned()),
        Dialect::Mysql => {
            let is_plain = text.bytes().all(|b| (b' '..=b'~').contains(&b));
            is_plain.then(|| text.to_ascii_lowercase())
        }
        Dialect::Postgres => None,
    }
}

fn is_time(column: &Column) -> bool {
    match column.class {
        TypeClass::Timestamp | TypeClass::TimestampTz => true,
        TypeClass::Integer
        | TypeClass::Number
        | TypeClass::Decimal
        | TypeClass::Boolean
        | TypeClass::Text
        | TypeClass::Padded
        | TypeClass::Enum
        | TypeClass::Uuid
        | TypeClass::Blob
        | TypeClass::Date
        | TypeClass::Time
        | TypeClass::Interval
        | TypeClass::Json
        | TypeClass::Network
        | TypeClass::Other => false,
    }
}

/// Whether `value` is a number that is written, and short enough to be the same however it is held.
fn is_short_number(value: &Expr) -> bool {
    const DIGITS: usize = 15;
    match value {
        Expr::Nested(inner)
        | Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } => is_short_number(inner),
        Expr::Value(value) => match &value.value {
            SqlValue::Number(digits, _) => {
                digits.len() <= DIGITS && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether `value` is a day as MySQL prints it.
fn is_plain_date(value: &Expr) -> bool {
    let Expr::Value(value) = value else {
        return false;
    };
    let SqlValue::SingleQuotedString(text) = &value.value else {
        return false;
    };
    text.len() == "2000-01-01".len()
        && text.char_indices().all(|(at, c)| {
            if [4, 7].contains(&at) {
                c == '-'
            } else {
                c.is_ascii_digit()
            }
        })
}

pub(in crate::rewrite) fn unsought(what: &str, relation: &Relation, why: &str) -> Rejection {
    Rejection::new(
        Code::ObligationInapplicable,
        format!(
            "{what} could reach rows of `{}` that policy keeps apart, which cannot be looked for: {why}",
            relation.name
        ),
    )
}
