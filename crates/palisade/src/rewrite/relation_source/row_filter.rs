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

use sqlparser::ast::{BinaryOperator, Expr, Ident, SelectItem};

use crate::rewrite::{
    ast,
    relation_source::{
        predicate_sql,
        predicate_sql::{ComparedSide, no_form},
    },
};
use crate::{
    catalog::{Catalog, Column, Relation, RelationId, TypeClass},
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
    let mut filter = Filter {
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
                // Engines look a row up by a key that stands in no NOT.
                Predicate::Not(inner) if refers(inner) => self.condition(inner)?,
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
            Predicate::RefersToSeen(operand, seen) => self.refers_to_seen(operand, seen)?,
        })
    }

    /// `column IN (SELECT key FROM table WHERE filter)`, which is never NULL.
    fn refers_to_seen(
        &mut self,
        operand: &Operand,
        seen: &ReferredRows,
    ) -> Result<Expr, Rejection> {
        let table = self.catalog.relation(seen.table).ok_or_else(no_form)?;
        let key = table.column(seen.key).ok_or_else(no_form)?;
        let mut conditions = Vec::new();
        if key.nullable {
            let name = ast::column(self.dialect, &key.name);
            conditions.push(Expr::IsNotNull(Box::new(name)));
        }
        match &seen.rows {
            RowFilter::Everything => {}
            RowFilter::Nothing => conditions.push(ast::boolean(false)),
            RowFilter::Where(predicate) => {
                let condition = expression(predicate, table, self.catalog, self.functions)?;
                conditions.push(condition);
            }
        }
        // Where it stands, columns of other tables may have the same names.
        let alias = encode(SEEN_ROWS, self.dialect);
        let mut condition = all_of(conditions);
        let _ = visit_tree_mut(&mut condition, &mut Qualifier { qualifier: &alias });
        let name = encode(&key.name, self.dialect);
        let item = Expr::CompoundIdentifier(vec![alias.clone(), name]);
        let rows = ast::table_as(self.dialect, &[&table.schema, &table.name], Some(alias));
        let subquery = ast::select(vec![SelectItem::UnnamedExpr(item)], rows, Some(condition));
        let (value, is_nullable) = match operand {
            Operand::Column(index) => {
                let column = self.column(*index)?;
                (ast::column(self.dialect, &column.name), column.nullable)
            }
            Operand::Literal(literal) => (predicate_sql::key_value(literal, self.dialect)?, false),
        };
        let mut all = Vec::new();
        if is_nullable {
            all.push(Expr::IsNotNull(Box::new(value.clone())));
        }
        all.push(Expr::InSubquery {
            expr: Box::new(value),
            subquery: Box::new(subquery),
            negated: false,
        });
        Ok(all_of(all))
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

/// The alias of a table to which a key refers.
const SEEN_ROWS: &str = "palisade_seen";

/// Whether a condition asks for rows of other tables.
fn refers(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::RefersToSeen(_, _) => true,
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().any(refers),
        Predicate::Not(inner) => refers(inner),
        Predicate::If(condition, then, otherwise) => [condition, then, otherwise]
            .into_iter()
            .any(|part| refers(part)),
        Predicate::Constant(_)
        | Predicate::Column(_)
        | Predicate::Has(_)
        | Predicate::Compare(_, _, _)
        | Predicate::In(_, _)
        | Predicate::Like(_, _) => false,
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
