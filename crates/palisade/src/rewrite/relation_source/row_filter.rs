//! Row filters as SQL: plain three-valued logic, `(permits) AND NOT (forbids)`.
//!
//! No COALESCE and no IS NOT DISTINCT FROM: a NULL permit admits nothing and a NULL forbid drops the
//! row, and indexes stay usable. Some values have no place in a policy: values of another type than declared, which SQLite stores
//! in tables that are not STRICT, and PostgreSQL's NaN. Such a value is an evaluation error: a permit does not admit the row, and
//! a forbid drops it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use sqlparser::ast::{BinaryOperator, Expr, Ident, SelectItem, TableFactor};

use crate::rewrite::{
    ast,
    relation_source::{
        predicate_sql,
        predicate_sql::{ComparedSide, no_form},
    },
};
use crate::{
    catalog::{Catalog, Column, Companion, Relation, RelationId, TypeClass},
    code::Code,
    dialect::Dialect,
    policy::obligation::{Operand, Predicate, ReferredRows, RowFilter},
    rejection::Rejection,
    syntax::{TreeVisitorMut, encode, visit_tree_mut},
};

/// Positions of columns of one relation.
pub(in crate::rewrite) type ColumnSet = BTreeSet<u16>;

/// The condition that `predicate` is for rows of `relation`.
pub(in crate::rewrite) fn expression(
    predicate: &Predicate,
    relation: &Relation,
    catalog: &Catalog,
    functions: &mut BTreeSet<String>,
) -> Result<Expr, Rejection> {
    let lookup = KeyLookup::for_joined_rows(catalog.dialect());
    expression_by(lookup, predicate, relation, catalog, functions)
}

/// At which time keys are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rewrite) enum LookupTime {
    /// The row is there, and is seen.
    Now,
    /// Beside, each of its recorded states is seen: a key may be given to another row.
    Ever,
}

/// How rows are looked up to which keys refer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::rewrite) enum KeyLookup {
    /// All that are seen at once: `key IN (SELECT …)`.
    Set,
    /// For each key by itself: `EXISTS (…)`.
    Each,
}

impl KeyLookup {
    /// Where the rows that refer are joined with others.
    ///
    /// PostgreSQL makes joins of `IN` and of `EXISTS`. It multiplies how many rows each leaves, expects one row at last, and joins
    /// row by row what it should have sorted or hashed: three tables that follow each other took minutes. What stands below `IS TRUE`
    /// stays a condition. SQLite lists all that `IN` gives before the first row is looked at. MySQL finds its own way.
    fn for_joined_rows(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Sqlite | Dialect::Postgres => Self::Each,
            Dialect::Mysql => Self::Set,
        }
    }

    /// Where they are read by themselves: nothing is multiplied.
    fn for_single_source(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Sqlite => Self::Each,
            Dialect::Postgres | Dialect::Mysql => Self::Set,
        }
    }

    /// Where a source stands.
    pub(in crate::rewrite) fn for_source(is_by_itself: bool, dialect: Dialect) -> Self {
        match is_by_itself {
            true => Self::for_single_source(dialect),
            false => Self::for_joined_rows(dialect),
        }
    }
}

/// The same, with keys looked up in a way of its own.
pub(in crate::rewrite) fn expression_by(
    lookup: KeyLookup,
    predicate: &Predicate,
    relation: &Relation,
    catalog: &Catalog,
    functions: &mut BTreeSet<String>,
) -> Result<Expr, Rejection> {
    let lookup = (lookup, LookupTime::Now);
    expression_at(lookup, predicate, relation, catalog, functions)
}

/// The same, at a time of its own.
///
/// # Errors
/// `history.not-kept` if it is about the past of rows of which no history is kept.
pub(in crate::rewrite) fn expression_at(
    (lookup, time): (KeyLookup, LookupTime),
    predicate: &Predicate,
    relation: &Relation,
    catalog: &Catalog,
    functions: &mut BTreeSet<String>,
) -> Result<Expr, Rejection> {
    let mut filter = Filter {
        lookup,
        time,
        relation,
        catalog,
        dialect: catalog.dialect(),
        functions,
    };
    let parts = match predicate {
        Predicate::And(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let mut conditions = Vec::with_capacity(parts.len());
    for part in parts {
        conditions.push(match part {
            // A permit without condition: only the forbids remain.
            Predicate::Or(permits) if *permits == [Predicate::Constant(true)] => continue,
            Predicate::Or(permits) => {
                let permits = permits
                    .iter()
                    .map(|p| filter.policy(p))
                    .collect::<Result<Vec<_>, _>>()?;
                ast::join_by(permits, &BinaryOperator::Or, false)
            }
            other => filter.policy(other)?,
        });
    }
    Ok(all_of(conditions))
}

/// The columns that `predicate` looks at.
pub(crate) fn columns(predicate: &Predicate, into: &mut BTreeSet<u16>) {
    let mut looked_at = Columns::default();
    looked_at.collect(predicate);
    into.extend(looked_at.present);
    into.extend(looked_at.values);
}

/// The columns that a predicate looks at, by what it looks at.
#[derive(Default)]
struct Columns {
    /// Whether there is a value.
    present: BTreeSet<u16>,
    /// Which.
    values: BTreeSet<u16>,
}

impl Columns {
    fn collect(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::Constant(_) => {}
            Predicate::And(parts) | Predicate::Or(parts) => {
                parts.iter().for_each(|part| self.collect(part));
            }
            Predicate::Not(inner) => self.collect(inner),
            Predicate::If(condition, then, otherwise) => {
                [condition, then, otherwise]
                    .into_iter()
                    .for_each(|part| self.collect(part));
            }
            Predicate::Has(index) => {
                self.present.insert(*index);
            }
            Predicate::Column(index) | Predicate::Like(index, _) => {
                self.values.insert(*index);
            }
            Predicate::Compare(left, _, right) => {
                self.operand(left);
                self.operand(right);
            }
            Predicate::In(left, _) | Predicate::RefersToSeen(left, _) => self.operand(left),
        }
    }

    fn operand(&mut self, operand: &Operand) {
        match operand {
            Operand::Column(index) => {
                self.values.insert(*index);
            }
            Operand::Literal(_) => {}
        }
    }
}

struct Filter<'f> {
    lookup: KeyLookup,
    time: LookupTime,
    relation: &'f Relation,
    catalog: &'f Catalog,
    dialect: Dialect,
    functions: &'f mut BTreeSet<String>,
}

impl<'f> Filter<'f> {
    /// What one policy says, and the values it may say it of.
    fn policy(&mut self, predicate: &Predicate) -> Result<Expr, Rejection> {
        let condition = self.condition(predicate)?;
        let mut used = Columns::default();
        used.collect(predicate);
        let mut conditions = vec![condition];
        for index in used.present.union(&used.values).copied() {
            conditions.extend(match self.dialect {
                Dialect::Sqlite => self.storage(index, &used)?,
                Dialect::Postgres => {
                    let column = self.column(index)?;
                    (column.class == TypeClass::Decimal).then(|| {
                        let name = ast::column(self.dialect, &column.name);
                        let nan = ast::cast(
                            ast::text(self.dialect, "NaN"),
                            sqlparser::ast::DataType::Numeric(
                                sqlparser::ast::ExactNumberInfo::None,
                            ),
                        );
                        let is_nan = ast::binary(name, BinaryOperator::Eq, nan);
                        Expr::IsNotTrue(Box::new(ast::parens(is_nan)))
                    })
                }
                Dialect::Mysql => {
                    // Texts are compared as the bytes of their UTF-8.
                    self.functions.insert("convert".to_owned());
                    None
                }
            });
        }
        Ok(all_of(conditions))
    }

    /// On SQLite: the storage classes that the column's declared type stands for.
    fn storage(&mut self, index: u16, used: &Columns) -> Result<Option<Expr>, Rejection> {
        if self.relation.strict || self.relation.rowid_alias == Some(index) {
            return Ok(None);
        }
        let column = self.column(index)?;
        let class = match column.class {
            TypeClass::Integer | TypeClass::Boolean => "integer",
            TypeClass::Text => "text",
            TypeClass::Number
            | TypeClass::Decimal
            | TypeClass::Padded
            | TypeClass::Enum
            | TypeClass::Uuid
            | TypeClass::Blob
            | TypeClass::Date
            | TypeClass::Time
            | TypeClass::Timestamp
            | TypeClass::TimestampTz
            | TypeClass::Interval
            | TypeClass::Json
            | TypeClass::Network
            | TypeClass::Other => {
                // A value is there whatever its storage class.
                return if used.values.contains(&index) {
                    Err(no_form())
                } else {
                    Ok(None)
                };
            }
        };
        self.functions.insert("typeof".to_owned());
        Ok(Some(Expr::InList {
            expr: Box::new(ast::call(
                self.dialect,
                "typeof",
                vec![ast::column(self.dialect, &column.name)],
            )),
            list: vec![
                ast::text(self.dialect, class),
                ast::text(self.dialect, "null"),
            ],
            negated: false,
        }))
    }

    fn condition(&mut self, predicate: &Predicate) -> Result<Expr, Rejection> {
        Ok(match predicate {
            Predicate::Constant(value) => ast::boolean(*value),
            Predicate::And(parts) => {
                let parts = parts
                    .iter()
                    .map(|p| self.condition(p))
                    .collect::<Result<_, _>>()?;
                ast::join_by(parts, &BinaryOperator::And, true)
            }
            Predicate::Or(parts) => {
                let parts = parts
                    .iter()
                    .map(|p| self.condition(p))
                    .collect::<Result<_, _>>()?;
                ast::join_by(parts, &BinaryOperator::Or, false)
            }
            Predicate::Not(inner) => match &**inner {
                // An engine uses an index for what stands in no NOT, and it says the same.
                Predicate::Not(inner) => self.condition(inner)?,
                inner => ast::not(self.condition(inner)?),
            },
            Predicate::If(condition, then, otherwise) => {
                let condition = self.condition(condition)?;
                // A NULL condition chooses neither arm, as ELSE would.
                ast::case(
                    vec![
                        (ast::parens(condition.clone()), self.condition(then)?),
                        (ast::not(condition), self.condition(otherwise)?),
                    ],
                    None,
                )
            }
            Predicate::Column(index) => predicate_sql::is_true(self.column(*index)?, self.dialect),
            Predicate::Has(index) => Expr::IsNotNull(Box::new(ast::column(
                self.dialect,
                &self.column(*index)?.name,
            ))),
            Predicate::Compare(left, comparison, right) => predicate_sql::compare(
                self.compared_side(left)?,
                *comparison,
                self.compared_side(right)?,
                self.dialect,
            )?,
            Predicate::In(_, literals) if literals.is_empty() => ast::boolean(false),
            Predicate::In(Operand::Column(index), literals) => {
                predicate_sql::in_list(self.column(*index)?, literals, self.dialect)?
            }
            Predicate::In(Operand::Literal(literal), literals) => {
                ast::boolean(literals.contains(literal))
            }
            Predicate::Like(index, pieces) => {
                if self.dialect == Dialect::Sqlite {
                    self.functions.insert("glob".to_owned());
                }
                predicate_sql::like(self.column(*index)?, pieces, self.dialect)?
            }
            Predicate::RefersToSeen(operand, seen) => {
                let is_seen = self.refers_to_seen(operand, seen)?;
                match (self.time, self.was_hidden(operand, seen)?) {
                    (LookupTime::Ever, Some(was_hidden)) => {
                        all_of(vec![is_seen, ast::not(was_hidden)])
                    }
                    (LookupTime::Ever, None) | (LookupTime::Now, _) => is_seen,
                }
            }
        })
    }

    /// That the operand is a key of one of the rows that are seen, which is never NULL.
    fn refers_to_seen(
        &mut self,
        operand: &Operand,
        referred: &ReferredRows,
    ) -> Result<Expr, Rejection> {
        let dialect = self.dialect;
        let table = self.catalog.relation(referred.table).ok_or_else(no_form)?;
        let key = table.column(referred.key).ok_or_else(no_form)?;
        let (value, is_nullable) = self.referring_value(operand, key)?;
        let alias = alias_of(referred, dialect);
        let mut conditions = Vec::new();
        if self.lookup == KeyLookup::Set && key.nullable {
            let name = ast::column(dialect, &key.name);
            conditions.push(Expr::IsNotNull(Box::new(name)));
        }
        match &referred.rows {
            RowFilter::Everything => {}
            RowFilter::Nothing => conditions.push(ast::boolean(false)),
            RowFilter::Where(predicate) => {
                let lookup = (self.lookup, self.time);
                let functions = &mut *self.functions;
                let condition = expression_at(lookup, predicate, table, self.catalog, functions)?;
                conditions.push(condition);
            }
        }
        // Where it stands, columns of other tables may have the same names.
        let condition = (!conditions.is_empty()).then(|| {
            let mut condition = all_of(conditions);
            let _ = visit_tree_mut(&mut condition, &mut Qualifier { qualifier: &alias });
            condition
        });
        let key = Expr::CompoundIdentifier(vec![alias.clone(), encode(&key.name, dialect)]);
        let parts = [table.schema.as_str(), table.name.as_str()];
        let rows = ast::table_as(dialect, &parts, Some(alias.clone()));
        Ok(match self.lookup {
            KeyLookup::Set => {
                let keys = ast::select(vec![SelectItem::UnnamedExpr(key)], rows, condition);
                let is_key = Expr::InSubquery {
                    expr: Box::new(value.clone()),
                    subquery: Box::new(keys),
                    negated: false,
                };
                match is_nullable {
                    true => all_of(vec![Expr::IsNotNull(Box::new(value)), is_key]),
                    false => is_key,
                }
            }
            KeyLookup::Each => {
                // No column of what refers is hidden by one of the table's.
                let keys = ast::select(vec![ast::item(dialect, key, SEEN_KEY)], rows, condition);
                let key = Expr::CompoundIdentifier(vec![alias.clone(), encode(SEEN_KEY, dialect)]);
                let keys = TableFactor::Derived {
                    lateral: false,
                    subquery: Box::new(keys),
                    alias: Some(ast::alias(alias)),
                    sample: None,
                };
                let is_key = ast::binary(key, BinaryOperator::Eq, value);
                let one = SelectItem::UnnamedExpr(ast::integer(1));
                let found = ast::select(vec![one], keys, Some(is_key));
                let exists = Expr::Exists {
                    subquery: Box::new(found),
                    negated: false,
                };
                match dialect {
                    Dialect::Postgres => Expr::IsTrue(Box::new(ast::parens(exists))),
                    Dialect::Sqlite | Dialect::Mysql => exists,
                }
            }
        })
    }

    /// The value that refers to a `key`, and whether it may be NULL.
    fn referring_value(&self, operand: &Operand, key: &Column) -> Result<(Expr, bool), Rejection> {
        let dialect = self.dialect;
        Ok(match operand {
            Operand::Column(index) => {
                let column = self.column(*index)?;
                let value = ast::column(dialect, &column.name);
                // Rows that a query gives are compared otherwise than the table's own.
                let value = match column.collation == key.collation {
                    true => value,
                    false => ast::parens(ast::collate(value, &column.collation, dialect)),
                };
                (value, column.nullable)
            }
            Operand::Literal(literal) => (predicate_sql::key_value(literal, dialect)?, false),
        })
    }

    /// That the operand is a key of a recorded state that is not seen.
    fn was_hidden(
        &mut self,
        operand: &Operand,
        referred: &ReferredRows,
    ) -> Result<Option<Expr>, Rejection> {
        let (dialect, catalog) = (self.dialect, self.catalog);
        let predicate = match (&referred.rows, self.time) {
            (RowFilter::Where(predicate), LookupTime::Ever) => predicate,
            (RowFilter::Everything | RowFilter::Nothing, _) | (_, LookupTime::Now) => {
                return Ok(None);
            }
        };
        let table = catalog.relation(referred.table).ok_or_else(no_form)?;
        let key = table.column(referred.key).ok_or_else(no_form)?;
        let (value, _) = self.referring_value(operand, key)?;
        let companion = companion_of_referred(self.relation, table, catalog)?;
        let lookup = (self.lookup, self.time);
        let mut is_seen = expression_at(lookup, predicate, table, catalog, self.functions)?;
        let alias = alias_of(referred, dialect);
        let _ = visit_tree_mut(&mut is_seen, &mut Qualifier { qualifier: &alias });
        let name = Expr::CompoundIdentifier(vec![alias.clone(), encode(&key.name, dialect)]);
        let parts = [companion.schema.as_str(), companion.name.as_str()];
        let states = ast::select(
            vec![ast::item(dialect, name, SEEN_KEY)],
            ast::table_as(dialect, &parts, Some(alias.clone())),
            Some(ast::not_true(is_seen)),
        );
        let found = Expr::CompoundIdentifier(vec![alias.clone(), encode(SEEN_KEY, dialect)]);
        let states = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(states),
            alias: Some(ast::alias(alias)),
            sample: None,
        };
        let one = SelectItem::UnnamedExpr(ast::integer(1));
        let is_key = ast::binary(found, BinaryOperator::Eq, value);
        Ok(Some(Expr::Exists {
            subquery: Box::new(ast::select(vec![one], states, Some(is_key))),
            negated: false,
        }))
    }

    fn compared_side<'o>(&self, operand: &'o Operand) -> Result<ComparedSide<'o>, Rejection>
    where
        'f: 'o,
    {
        Ok(match operand {
            Operand::Column(index) => ComparedSide::Column(self.column(*index)?),
            Operand::Literal(value) => ComparedSide::Literal(value),
        })
    }

    fn column(&self, index: u16) -> Result<&'f Column, Rejection> {
        self.relation.column(index).ok_or_else(no_form)
    }
}

/// Where `referred` is kept as it was, whose rows those of `relation` follow.
///
/// # Errors
/// `history.not-kept`, without the name: the table may be hidden.
fn companion_of_referred<'c>(
    relation: &Relation,
    referred: &Relation,
    catalog: &'c Catalog,
) -> Result<&'c Companion, Rejection> {
    catalog.companion(referred).ok_or_else(|| {
        let why = format!(
            "the rows of `{}` follow others, of which no history is kept",
            relation.name
        );
        let detail = format!("no history is kept of `{}`", referred.uid);
        Rejection::new(Code::HistoryNotKept, why).with_operator_detail(detail)
    })
}

/// What the key is called of a table to which others refer.
const SEEN_KEY: &str = "palisade_key";

/// The alias of a table to which a key refers: another one than those of the tables to which it refers itself.
fn alias_of(referred: &ReferredRows, dialect: Dialect) -> Ident {
    let name = match &referred.rows {
        RowFilter::Everything | RowFilter::Nothing => 0,
        RowFilter::Where(predicate) => count_keys(predicate),
    };
    match name {
        0 => encode("palisade_seen", dialect),
        keys => encode(&format!("palisade_seen_{}", keys + 1), dialect),
    }
}

/// The most keys that a condition follows, one after the other.
fn count_keys(predicate: &Predicate) -> usize {
    let most = |parts: &mut dyn Iterator<Item = &Predicate>| parts.map(count_keys).max();
    match predicate {
        Predicate::RefersToSeen(_, referred) => match &referred.rows {
            RowFilter::Everything | RowFilter::Nothing => 1,
            RowFilter::Where(predicate) => 1 + count_keys(predicate),
        },
        Predicate::And(parts) | Predicate::Or(parts) => most(&mut parts.iter()).unwrap_or_default(),
        Predicate::Not(inner) => count_keys(inner),
        Predicate::If(condition, then, otherwise) => {
            let parts = [condition, then, otherwise];
            most(&mut parts.into_iter().map(|part| &**part)).unwrap_or_default()
        }
        Predicate::Constant(_)
        | Predicate::Column(_)
        | Predicate::Has(_)
        | Predicate::Compare(_, _, _)
        | Predicate::In(_, _)
        | Predicate::Like(_, _) => 0,
    }
}

/// The columns that `predicate` looks at of tables to which keys refer.
pub(crate) fn columns_referred_to(
    predicate: &Predicate,
    into: &mut BTreeMap<RelationId, ColumnSet>,
) {
    match predicate {
        Predicate::RefersToSeen(_, seen) => {
            let own = into.entry(seen.table).or_default();
            own.insert(seen.key);
            if let RowFilter::Where(rows) = &seen.rows {
                columns(rows, own);
                columns_referred_to(rows, into);
            }
        }
        Predicate::And(parts) | Predicate::Or(parts) => {
            parts
                .iter()
                .for_each(|part| columns_referred_to(part, into));
        }
        Predicate::Not(inner) => columns_referred_to(inner, into),
        Predicate::If(condition, then, otherwise) => {
            [condition, then, otherwise]
                .into_iter()
                .for_each(|part| columns_referred_to(part, into));
        }
        Predicate::Constant(_)
        | Predicate::Column(_)
        | Predicate::Has(_)
        | Predicate::Compare(_, _, _)
        | Predicate::In(_, _)
        | Predicate::Like(_, _) => {}
    }
}

/// All of `conditions`; a single one as it is.
fn all_of(mut conditions: Vec<Expr>) -> Expr {
    if conditions.len() == 1 {
        return conditions.swap_remove(0);
    }
    ast::join_by(conditions, &BinaryOperator::And, true)
}

/// Puts a qualifier before columns that have none.
pub(in crate::rewrite) struct Qualifier<'q> {
    pub(in crate::rewrite) qualifier: &'q Ident,
}

impl TreeVisitorMut for Qualifier<'_> {
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr {
            *expr = Expr::CompoundIdentifier(vec![self.qualifier.clone(), name.clone()]);
        }
        ControlFlow::Continue(())
    }
}
