//! A policy over rows, as partial evaluation left it, becomes a condition that SQL can test.
//!
//! Only what has the same meaning in SQL is translated; the rest is refused by name. Operands are
//! translated before constants are folded, so that nothing untranslatable hides behind a `false &&`.

use std::collections::BTreeSet;

use cedar_policy::{
    Policy,
    pst::{self, BinaryOp, Clause, Expr, UnaryOp, Var},
};

use crate::policy::{
    cedar::{
        attribute_type::{AttributeType, attribute_type, shows_presence},
        constant::literal,
        schema,
    },
    obligation::{Comparison, Literal, Operand, PatternPiece, Predicate},
};
use crate::{
    catalog::{Relation, may_fail},
    dialect::Dialect,
};

/// A condition without a SQL form: the piece of it that has none, as Cedar prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) struct Untranslatable(pub(in crate::policy) String);

/// The condition under which the residual policy applies to a row of `relation`; `refers_to_seen` gives what an attribute means that is
/// no column, if it means anything.
pub(in crate::policy) fn translate(
    residual: &Policy,
    relation: &Relation,
    ancestors: &BTreeSet<(&'static str, String)>,
    dialect: Dialect,
    refers_to_seen: &dyn Fn(&str) -> Option<Predicate>,
) -> Result<Predicate, Untranslatable> {
    let policy = residual
        .to_pst()
        .map_err(|error| Untranslatable(error.to_string()))?;
    let body = policy.body();
    let any = matches!(body.principal, pst::PrincipalConstraint::Any)
        && matches!(body.action, pst::ActionConstraint::Any)
        && matches!(body.resource, pst::ResourceConstraint::Any);
    if !any {
        return Err(Untranslatable(
            "the scope that partial evaluation left".to_owned(),
        ));
    }
    let row = Row {
        relation,
        dialect,
        ancestors,
        refers_to_seen,
    };
    let clauses: Result<Vec<_>, _> = body
        .clauses()
        .iter()
        .map(|clause| match clause {
            Clause::When(condition) => row.predicate(condition),
            Clause::Unless(condition) => row.predicate(condition).map(negate),
        })
        .collect();
    Ok(clauses?
        .into_iter()
        .fold(Predicate::Constant(true), conjoin))
}

/// What `resource` is: some row of a known relation.
struct Row<'a> {
    relation: &'a Relation,
    dialect: Dialect,
    /// Everything a row of the relation is in, as (type, id).
    ancestors: &'a BTreeSet<(&'static str, String)>,
    refers_to_seen: &'a dyn Fn(&str) -> Option<Predicate>,
}

impl Row<'_> {
    fn predicate(&self, expr: &Expr) -> Result<Predicate, Untranslatable> {
        let refuse = || Untranslatable(expr.to_string());
        match expr {
            Expr::Literal(pst::Literal::Bool(value)) => Ok(Predicate::Constant(*value)),
            Expr::UnaryOp {
                op: UnaryOp::Not,
                expr: inner,
            } => Ok(negate(self.predicate(inner)?)),
            Expr::BinaryOp { op, left, right } => match op {
                BinaryOp::And => Ok(conjoin(self.predicate(left)?, self.predicate(right)?)),
                BinaryOp::Or => Ok(disjoin(self.predicate(left)?, self.predicate(right)?)),
                BinaryOp::Eq => self
                    .compare(left, Comparison::Equal, right)
                    .ok_or_else(refuse),
                BinaryOp::NotEq => self
                    .compare(left, Comparison::NotEqual, right)
                    .ok_or_else(refuse),
                BinaryOp::Less => self
                    .compare(left, Comparison::Less, right)
                    .ok_or_else(refuse),
                BinaryOp::LessEq => self
                    .compare(left, Comparison::LessOrEqual, right)
                    .ok_or_else(refuse),
                BinaryOp::Greater => self
                    .compare(left, Comparison::Greater, right)
                    .ok_or_else(refuse),
                BinaryOp::GreaterEq => self
                    .compare(left, Comparison::GreaterOrEqual, right)
                    .ok_or_else(refuse),
                BinaryOp::DecimalLessThan => self
                    .compare(left, Comparison::Less, right)
                    .ok_or_else(refuse),
                BinaryOp::DecimalLessEq => self
                    .compare(left, Comparison::LessOrEqual, right)
                    .ok_or_else(refuse),
                BinaryOp::DecimalGreater => self
                    .compare(left, Comparison::Greater, right)
                    .ok_or_else(refuse),
                BinaryOp::DecimalGreaterEq => self
                    .compare(left, Comparison::GreaterOrEqual, right)
                    .ok_or_else(refuse),
                BinaryOp::Contains => self.contains(left, right).ok_or_else(refuse),
                BinaryOp::In => self.translate_in(left, right).ok_or_else(refuse),
                // The enum is foreign and open; every other operator lacks a SQL form.
                _ => Err(refuse()),
            },
            Expr::GetAttr {
                expr: subject,
                attr,
            } => match self.column(expr) {
                Some((index, AttributeType::Bool)) => Ok(Predicate::Column(index)),
                Some(_) => Err(refuse()),
                None => match subject.as_ref() {
                    Expr::Var(Var::Resource) => (self.refers_to_seen)(attr).ok_or_else(refuse),
                    _ => Err(refuse()),
                },
            },
            Expr::HasAttr {
                expr: subject,
                attrs,
            } => {
                let (Expr::Var(Var::Resource), []) = (subject.as_ref(), attrs.tail.as_slice())
                else {
                    return Err(refuse());
                };
                let Some(index) = self.relation.position(&attrs.head) else {
                    // It is true or false of every row.
                    let is_there = (self.refers_to_seen)(&attrs.head).is_some();
                    return match is_there {
                        true => Ok(Predicate::Constant(true)),
                        false => Err(refuse()),
                    };
                };
                let column = self.relation.column(index);
                let is_shown = column.is_some_and(|column| shows_presence(column, self.dialect))
                    && !may_fail(index, self.relation, self.dialect);
                match is_shown {
                    true => Ok(Predicate::Has(index)),
                    false => Err(refuse()),
                }
            }
            Expr::Like {
                expr: subject,
                pattern,
            } => match self.column(subject) {
                Some((index, AttributeType::Text)) => Ok(Predicate::Like(index, pieces(pattern))),
                Some(_) | None => Err(refuse()),
            },
            Expr::IfThenElse {
                cond,
                then_expr,
                else_expr,
            } => Ok(Predicate::If(
                Box::new(self.predicate(cond)?),
                Box::new(self.predicate(then_expr)?),
                Box::new(self.predicate(else_expr)?),
            )),
            // As above: an expression we do not know has no SQL form.
            _ => Err(refuse()),
        }
    }

    /// A comparison of columns and literals of one type; order exists for numbers and points in time.
    fn compare(&self, left: &Expr, comparison: Comparison, right: &Expr) -> Option<Predicate> {
        let (left, left_class) = self.operand(left)?;
        let (right, right_class) = self.operand(right)?;
        let ordered = match comparison {
            Comparison::Equal | Comparison::NotEqual => false,
            Comparison::Less
            | Comparison::LessOrEqual
            | Comparison::Greater
            | Comparison::GreaterOrEqual => true,
        };
        let about_the_row =
            matches!(left, Operand::Column(_)) || matches!(right, Operand::Column(_));
        let sound = left_class == right_class
            && about_the_row
            && (!ordered
                || match left_class {
                    AttributeType::Long | AttributeType::Decimal | AttributeType::Datetime => true,
                    AttributeType::Bool | AttributeType::Text => false,
                });
        sound.then_some(Predicate::Compare(left, comparison, right))
    }

    /// `[literals].contains(resource.column)`.
    fn contains(&self, set: &Expr, element: &Expr) -> Option<Predicate> {
        let Expr::Set(members) = set else { return None };
        let (index, class) = self.column(element)?;
        let literals: Option<Vec<Literal>> = members
            .iter()
            .map(|member| {
                literal(member)
                    .filter(|(_, c)| *c == class)
                    .map(|(literal, _)| literal)
            })
            .collect();
        Some(Predicate::In(Operand::Column(index), literals?))
    }

    /// `resource in …`: every row is in its relation, that in its schema, that in its database.
    fn translate_in(&self, subject: &Expr, ancestors: &Expr) -> Option<Predicate> {
        let Expr::Var(Var::Resource) = subject else {
            return None;
        };
        let is_in = |expr: &Expr| match expr {
            Expr::Literal(pst::Literal::EntityUID(uid)) => {
                let kind = uid.ty.to_string();
                // A row's own type: which row is not known.
                let known = schema::CATALOG_TYPES.contains(&kind.as_str());
                known.then(|| {
                    self.ancestors
                        .iter()
                        .any(|(ty, id)| *ty == kind && *id == uid.eid.as_str())
                })
            }
            _ => None,
        };
        let found = match ancestors {
            Expr::Set(members) => {
                let each: Option<Vec<bool>> = members.iter().map(|member| is_in(member)).collect();
                each?.contains(&true)
            }
            one => is_in(one)?,
        };
        Some(Predicate::Constant(found))
    }

    fn operand(&self, expr: &Expr) -> Option<(Operand, AttributeType)> {
        if let Some((literal, class)) = literal(expr) {
            return Some((Operand::Literal(literal), class));
        }
        let (index, class) = self.column(expr)?;
        Some((Operand::Column(index), class))
    }

    /// The column that `resource.column` means.
    fn column(&self, expr: &Expr) -> Option<(u16, AttributeType)> {
        let Expr::GetAttr {
            expr: subject,
            attr,
        } = expr
        else {
            return None;
        };
        let Expr::Var(Var::Resource) = subject.as_ref() else {
            return None;
        };
        self.attribute(attr)
    }

    fn attribute(&self, name: &str) -> Option<(u16, AttributeType)> {
        let index = self.relation.position(name)?;
        let kind = attribute_type(self.relation.column(index)?, self.dialect)?;
        // It would be computed of rows that are not shown, and its error would tell of them.
        (!may_fail(index, self.relation, self.dialect)).then_some((index, kind))
    }
}

fn pieces(pattern: &[pst::PatternElem]) -> Vec<PatternPiece> {
    let mut out: Vec<PatternPiece> = Vec::new();
    for element in pattern {
        match (element, out.last_mut()) {
            (pst::PatternElem::Char(c), Some(PatternPiece::Text(text))) => text.push(*c),
            (pst::PatternElem::Char(c), Some(PatternPiece::Any) | None) => {
                out.push(PatternPiece::Text(c.to_string()));
            }
            (pst::PatternElem::Wildcard, Some(PatternPiece::Any)) => {}
            (pst::PatternElem::Wildcard, Some(PatternPiece::Text(_)) | None) => {
                out.push(PatternPiece::Any);
            }
        }
    }
    out
}

fn negate(inner: Predicate) -> Predicate {
    match inner {
        Predicate::Constant(value) => Predicate::Constant(!value),
        other => Predicate::Not(Box::new(other)),
    }
}

/// Both; a constant folds as it does in three-valued logic.
fn conjoin(left: Predicate, right: Predicate) -> Predicate {
    match (left, right) {
        (Predicate::Constant(false), _) | (_, Predicate::Constant(false)) => {
            Predicate::Constant(false)
        }
        (Predicate::Constant(true), other) | (other, Predicate::Constant(true)) => other,
        (left, right) => Predicate::And(vec![left, right]),
    }
}

/// Either; a constant folds as it does in three-valued logic.
fn disjoin(left: Predicate, right: Predicate) -> Predicate {
    match (left, right) {
        (Predicate::Constant(true), _) | (_, Predicate::Constant(true)) => {
            Predicate::Constant(true)
        }
        (Predicate::Constant(false), other) | (other, Predicate::Constant(false)) => other,
        (left, right) => Predicate::Or(vec![left, right]),
    }
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

    use super::*;
    use crate::policy::{
        obligation::RowFilter,
        tests::fixture::{agent, load, relation_id, set, sources},
    };

    const BASE: &str = "permit(principal, action == Action::\"select\", resource);\n";

    /// The filter that one `see` permit with this condition gives `Agent::"bot"` on tickets.
    fn filter(condition: &str) -> RowFilter {
        let text = format!(
            "{BASE}permit(principal, action == Action::\"see\", resource is row::main::tickets) when {{ {condition} }};"
        );
        let view = set(&text).session(&agent("bot"));
        view.relation(relation_id("tickets")).unwrap().rows.clone()
    }

    fn check(condition: &str, expect: Predicate) {
        let shape = Predicate::And(vec![Predicate::Or(vec![expect])]);
        assert_eq!(filter(condition), RowFilter::Where(shape), "{condition}");
    }

    const TENANT: u16 = 1;
    const OWNER: u16 = 2;
    const TITLE: u16 = 3;
    const REGION: u16 = 4;
    const LEVEL: u16 = 5;
    const OPEN: u16 = 6;

    fn has(column: u16) -> Predicate {
        Predicate::Has(column)
    }

    fn long(column: u16, comparison: Comparison, value: i64) -> Predicate {
        Predicate::Compare(
            Operand::Column(column),
            comparison,
            Operand::Literal(Literal::Integer(value)),
        )
    }

    fn guarded(column: u16, rest: Predicate) -> Predicate {
        Predicate::And(vec![has(column), rest])
    }

    #[test]
    fn comparisons() {
        use Comparison::{Equal, Less, LessOrEqual};
        check("resource.id == 7", long(0, Equal, 7));
        check(
            "7 == resource.id",
            Predicate::Compare(
                Operand::Literal(Literal::Integer(7)),
                Equal,
                Operand::Column(0),
            ),
        );
        check(
            "resource.id != 7",
            Predicate::Not(Box::new(long(0, Equal, 7))),
        );
        check("resource.id < 7", long(0, Less, 7));
        check("resource.id <= -7", long(0, LessOrEqual, -7));
        check(
            "resource.id > 7",
            Predicate::Not(Box::new(long(0, LessOrEqual, 7))),
        );
        check(
            "resource.id >= 7",
            Predicate::Not(Box::new(long(0, Less, 7))),
        );
        check(
            "principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant",
            guarded(TENANT, long(TENANT, Equal, 42)),
        );
        check(
            "resource has tenant_id && resource has owner_id && resource.tenant_id == resource.owner_id",
            {
                let both =
                    Predicate::Compare(Operand::Column(TENANT), Equal, Operand::Column(OWNER));
                Predicate::And(vec![Predicate::And(vec![has(TENANT), has(OWNER)]), both])
            },
        );
    }

    #[test]
    fn logic_sets_patterns_and_booleans() {
        check(
            "resource has open && resource.open",
            guarded(OPEN, Predicate::Column(OPEN)),
        );
        check(
            "resource has open && resource.open == false",
            guarded(
                OPEN,
                Predicate::Compare(
                    Operand::Column(OPEN),
                    Comparison::Equal,
                    Operand::Literal(Literal::Boolean(false)),
                ),
            ),
        );
        check(
            "principal has regions && resource has region && principal.regions.contains(resource.region)",
            guarded(
                REGION,
                Predicate::In(
                    Operand::Column(REGION),
                    vec![
                        Literal::Text("eu".to_owned()),
                        Literal::Text("us".to_owned()),
                    ],
                ),
            ),
        );
        check(
            "resource has title && resource.title like \"a*\\*b*\"",
            guarded(
                TITLE,
                Predicate::Like(
                    TITLE,
                    vec![
                        PatternPiece::Text("a".to_owned()),
                        PatternPiece::Any,
                        PatternPiece::Text("*b".to_owned()),
                        PatternPiece::Any,
                    ],
                ),
            ),
        );
        check(
            "if resource.id == 1 then !(resource has title) else resource has level",
            Predicate::If(
                Box::new(long(0, Comparison::Equal, 1)),
                Box::new(Predicate::Not(Box::new(has(TITLE)))),
                Box::new(has(LEVEL)),
            ),
        );
        check(
            "resource.id == 1 || resource.id == 2",
            Predicate::Or(vec![
                long(0, Comparison::Equal, 1),
                long(0, Comparison::Equal, 2),
            ]),
        );
    }

    #[test]
    fn a_row_is_in_its_relation_schema_and_database() {
        assert_eq!(
            filter("resource in Table::\"main.tickets\""),
            RowFilter::Everything
        );
        assert_eq!(
            filter("resource in [Schema::\"main\"]"),
            RowFilter::Everything
        );
        assert_eq!(
            filter("resource in Database::\"main\""),
            RowFilter::Everything
        );
        assert_eq!(
            filter("resource in Table::\"main.customers\""),
            RowFilter::Nothing
        );
    }

    #[test]
    fn what_has_no_sql_form_permits_nothing_and_is_reported() {
        for condition in [
            "resource.id + 1 == 2",
            "resource has level && -resource.level == 1",
            "(resource.id == 1) == true",
            "resource has title && resource.title == \"a\" && resource.id * 2 < 4",
            "resource.id + 1 == 2 && false",
            "[resource.id].contains(1)",
            "[1, 2].containsAny([resource.id])",
        ] {
            let text = format!(
                "{BASE}\npermit(principal, action == Action::\"see\", resource is row::main::tickets)\nwhen {{ {condition} }};"
            );
            let set = load(&sources(&text)).unwrap_or_else(|errors| panic!("{errors}"));
            let view = set.session(&agent("bot"));
            let rows = view.relation(relation_id("tickets")).unwrap().rows.clone();
            assert_eq!(rows, RowFilter::Nothing, "{condition}");
            let problem = set
                .warnings()
                .iter()
                .find(|w| w.message.contains("no SQL form"));
            // `&& false` makes the policy impossible, which Cedar reports.
            let line = problem.or(set.warnings().first()).and_then(|p| p.line);
            assert_eq!(line, Some(3), "{condition}: {:?}", set.warnings());
        }
    }

    #[test]
    fn a_forbid_without_sql_form_does_not_load() {
        let text = format!(
            "{BASE}permit(principal, action == Action::\"see\", resource);\n\
             @id(\"odd\") forbid(principal, action == Action::\"see\", resource is row::main::tickets) when {{ resource.id * 2 == 4 }};"
        );
        let errors = load(&sources(&text)).unwrap_err();
        assert_eq!(errors.problems()[0].line, Some(3), "{errors}");
        assert!(
            errors.to_string().contains("(resource.id) * 2")
                || errors.to_string().contains("resource.id * 2"),
            "{errors}"
        );
    }
}
