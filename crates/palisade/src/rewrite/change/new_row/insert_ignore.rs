//! INSERT IGNORE: where a column cannot hold a value, MySQL stores the nearest value that it can hold. So each column that policy
//! looks at needs a value that it certainly holds.

use std::collections::BTreeSet;

use sqlparser::ast::{BinaryOperator, Expr, Insert};

use crate::rewrite::{
    ast,
    change::{
        ChangeRewriter,
        new_row::fold::Constant,
        upsert::proposed_rows::{given_columns, proposed_rows},
    },
    relation_source::row_filter,
};
use crate::{
    catalog::{Column, Relation, TypeClass},
    code::Code,
    dialect::Dialect,
    policy::obligation::{Literal, Predicate},
    rejection::Rejection,
};

/// How many bytes the shortest type of texts without a declared length holds.
const TINY: usize = 255;

impl ChangeRewriter<'_> {
    /// Checks that what `predicates` look at is stored as it is given.
    pub(in crate::rewrite) fn require_stored_unchanged(
        &self,
        insert: &Insert,
        relation: &Relation,
        predicates: &[&Predicate],
    ) -> Result<(), Rejection> {
        let mut looked = BTreeSet::new();
        for predicate in predicates {
            row_filter::columns(predicate, &mut looked);
        }
        let given = given_columns(self, insert, relation);
        let is_stored = |row: &Vec<&Expr>| {
            given
                .iter()
                .zip(row)
                .filter(|(index, _)| looked.contains(index))
                .all(|(index, value)| {
                    relation.column(*index).is_some_and(|column| {
                        self.constant(value, column)
                            .is_some_and(|constant| is_stored_unchanged(&constant, column))
                    })
                })
        };
        let Some(rows) = proposed_rows(insert) else {
            // What a query gives is looked at in the frame around it.
            return Ok(());
        };
        if rows.iter().all(is_stored) {
            Ok(())
        } else {
            Err(may_change_values())
        }
    }
}

/// The conditions under which `column` holds what a query gives it, called `name`, as it is.
pub(in crate::rewrite) fn unchanged_conditions(
    name: &Expr,
    column: &Column,
    dialect: Dialect,
    functions: &mut BTreeSet<String>,
) -> Result<Vec<Expr>, Rejection> {
    let mut conditions = Vec::new();
    // It would be 0, or an empty text.
    if !column.nullable {
        conditions.push(Expr::IsNotNull(Box::new(name.clone())));
    }
    let fits = match column.class {
        TypeClass::Integer => range(&column.type_name).map(|(least, most)| Expr::Between {
            expr: Box::new(name.clone()),
            negated: false,
            low: Box::new(ast::integer(least)),
            high: Box::new(ast::integer(most)),
        }),
        // That it is not too long is looked at wherever it is declared how long it may be.
        TypeClass::Text if column.collation.starts_with("utf8mb4") => {
            functions.insert("octet_length".to_owned());
            let length = ast::call(dialect, "octet_length", vec![name.clone()]);
            let most = i64::try_from(TINY).unwrap_or(0);
            Some(ast::binary(
                length,
                BinaryOperator::LtEq,
                ast::integer(most),
            ))
        }
        _ => None,
    };
    let fits = fits.ok_or_else(may_change_values)?;
    let absent = Expr::IsNull(Box::new(name.clone()));
    conditions.push(ast::parens(ast::binary(
        absent,
        BinaryOperator::Or,
        ast::parens(fits),
    )));
    Ok(conditions)
}

/// Whether `column` holds this as it is, whatever else could be made of it.
fn is_stored_unchanged(constant: &Constant, column: &Column) -> bool {
    match constant {
        // It would be 0, or an empty text.
        Constant::Null => column.nullable,
        Constant::Value(Literal::Integer(value)) => {
            range(&column.type_name).is_some_and(|(least, most)| (least..=most).contains(value))
        }
        Constant::Value(Literal::Text(text)) => {
            let is_of_any_charset = text.is_ascii() || column.collation.starts_with("utf8mb4");
            column.class == TypeClass::Text
                && is_of_any_charset
                && text.len() <= TINY
                && !text.ends_with(' ')
        }
        // It was looked at whether it is rounded.
        Constant::Value(Literal::Decimal(value)) => {
            *value >= 0 || !column.type_name.to_ascii_lowercase().contains("unsigned")
        }
        Constant::Value(Literal::Boolean(_) | Literal::Datetime(_)) => false,
    }
}

/// The least and the most that a column of this type holds, of what a policy can compare.
fn range(type_name: &str) -> Option<(i64, i64)> {
    let name = type_name.to_ascii_lowercase();
    let end = name.find(|c: char| !c.is_ascii_alphabetic());
    let bits = match name.get(..end.unwrap_or(name.len()))? {
        "tinyint" => 8,
        "smallint" => 16,
        "mediumint" => 24,
        "int" | "integer" => 32,
        "bigint" if name.contains("unsigned") || name.contains("zerofill") => {
            return Some((0, i64::MAX));
        }
        "bigint" => return Some((i64::MIN, i64::MAX)),
        _ => return None,
    };
    if name.contains("unsigned") || name.contains("zerofill") {
        Some((0, (1_i64 << bits) - 1))
    } else {
        let half = 1_i64 << (bits - 1);
        Some((-half, half - 1))
    }
}

fn may_change_values() -> Rejection {
    Rejection::new(
        Code::ObligationInapplicable,
        "IGNORE may change values before they are stored: leave it out, or give the columns that policy looks at literals or \
         parameters that they can hold",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::DefaultValue;

    fn column(type_name: &str, collation: &str) -> Column {
        Column {
            name: "c".into(),
            key: "c".into(),
            uid: "t.c".to_owned(),
            type_name: type_name.into(),
            class: TypeClass::from_name(Dialect::Mysql, type_name),
            nullable: true,
            collation: collation.to_owned(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
            withheld: false,
        }
    }

    #[test]
    fn texts_are_stored_as_they_are_where_every_type_of_texts_holds_them() {
        let long = "x".repeat(255);
        let too_long = "x".repeat(256);
        for (type_name, collation, text, expected) in [
            ("varchar(9)", "latin1_bin", "ab", true),
            ("varchar(9)", "latin1_bin", "ab ", false),
            ("varchar(9)", "latin1_bin", "\u{e9}", false),
            ("varchar(9)", "utf8mb4_bin", "\u{e9}", true),
            ("varchar(300)", "utf8mb4_bin", &*long, true),
            ("varchar(300)", "utf8mb4_bin", &*too_long, false),
            ("enum('ab')", "utf8mb4_bin", "ab", false),
        ] {
            let constant = Constant::Value(Literal::Text(text.to_owned()));
            let found = is_stored_unchanged(&constant, &column(type_name, collation));
            assert_eq!(found, expected, "{type_name} {collation} {text:?}");
        }
    }

    #[test]
    fn ranges_of_types() {
        for (name, expected) in [
            ("tinyint(1)", Some((-128, 127))),
            ("smallint(5) unsigned", Some((0, 65_535))),
            ("MEDIUMINT", Some((-8_388_608, 8_388_607))),
            ("int(10) zerofill", Some((0, 4_294_967_295))),
            ("bigint unsigned", Some((0, i64::MAX))),
            ("bigint(20)", Some((i64::MIN, i64::MAX))),
            ("year", None),
            ("bit(3)", None),
        ] {
            assert_eq!(range(name), expected, "{name}");
        }
    }
}
