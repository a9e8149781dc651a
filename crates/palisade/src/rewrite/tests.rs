//! What obligations look like in each dialect. Every text has passed the print-and-parse gate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::collections::BTreeSet;

use sqlparser::ast::SelectItem;

use super::{filter, sql};
use crate::{
    catalog::{Catalog, ColumnDef, Relation, RelationDef, RelationKind, TypeClass},
    dialect::Dialect,
    limits::Limits,
    policy::obligation::{
        Comparison::{self, Equal, GreaterOrEqual, Less, NotEqual},
        Literal, Operand, PatternPiece, Predicate,
    },
    syntax,
};

fn column(name: &str, type_name: &str, class: TypeClass, collation: &str) -> ColumnDef {
    ColumnDef {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        class,
        nullable: true,
        collation: collation.to_owned(),
        generated: None,
    }
}

const ID: u16 = 0;
const NAME: u16 = 1;
const OPEN: u16 = 2;
const OWNER: u16 = 3;
const MOOD: u16 = 4;
const PRICE: u16 = 5;
const AT: u16 = 6;
const NICK: u16 = 7;
const LABEL: u16 = 8;

pub(super) fn relation(dialect: Dialect) -> Relation {
    let text = match dialect {
        Dialect::Sqlite => "TEXT",
        Dialect::Postgres => "character varying(20)",
        Dialect::Mysql => "varchar(20)",
    };
    let plain = match dialect {
        Dialect::Sqlite => "BINARY",
        Dialect::Postgres => "default",
        Dialect::Mysql => "utf8mb4_0900_ai_ci",
    };
    let def = RelationDef::new(
        "s",
        "items",
        RelationKind::Table,
        vec![
            column("id", "bigint", TypeClass::Integer, ""),
            column("name", text, TypeClass::Text, plain),
            column("open", "boolean", TypeClass::Boolean, ""),
            column("owner", "uuid", TypeClass::Uuid, ""),
            column("mood", "enum", TypeClass::Enum, ""),
            column("price", "numeric(10,2)", TypeClass::Decimal, ""),
            column("at", "timestamp with time zone", TypeClass::TimestampTz, ""),
            column("nick", text, TypeClass::Text, "nocase"),
            column("label", "name", TypeClass::Text, "C"),
        ],
    );
    let catalog = Catalog::builder(dialect).relation(def).build().unwrap();
    catalog.relations()[0].clone()
}

/// The text of a condition, read back.
fn printed(expr: sqlparser::ast::Expr, dialect: Dialect) -> String {
    let query = sql::select(
        vec![SelectItem::UnnamedExpr(sql::integer(1))],
        sql::table(dialect, &["s", "items"]),
        Some(expr),
    );
    let (text, _) = syntax::print_stable(&query, dialect, &Limits::default())
        .unwrap_or_else(|why| panic!("{why}: {query}"));
    text.split_once(" WHERE ").unwrap().1.to_owned()
}

fn filtered(dialect: Dialect, predicate: &Predicate) -> Result<String, String> {
    let relation = relation(dialect);
    let mut functions = BTreeSet::new();
    filter::expression(predicate, &relation, dialect, &mut functions)
        .map(|expr| printed(expr, dialect))
        .map_err(|why| why.to_string())
}

fn check(dialect: Dialect, predicate: Predicate, expect: &str) {
    assert_eq!(filtered(dialect, &predicate).as_deref(), Ok(expect));
}

fn compare(column: u16, comparison: Comparison, literal: Literal) -> Predicate {
    Predicate::Compare(
        Operand::Column(column),
        comparison,
        Operand::Literal(literal),
    )
}

fn text(text: &str) -> Literal {
    Literal::Text(text.to_owned())
}

const UUID: &str = "0b8e8a2e-3f0c-4a53-9d6e-0c1f2a3b4c5d";

#[test]
fn postgres_compares_in_its_own_types() {
    for (predicate, expect) in [
        (
            compare(ID, GreaterOrEqual, Literal::Integer(-7)),
            "\"id\" >= (-7)",
        ),
        (compare(NAME, Equal, text("o'x\\")), "\"name\" = 'o''x\\'"),
        (
            compare(NICK, NotEqual, text("x")),
            "(\"nick\" COLLATE \"C\") <> 'x'",
        ),
        (
            compare(LABEL, Equal, text("x")),
            "CAST(\"label\" AS TEXT) = 'x'",
        ),
        (Predicate::Column(OPEN), "\"open\""),
        (
            compare(OPEN, Equal, Literal::Boolean(false)),
            "\"open\" = false",
        ),
        (
            compare(OWNER, Equal, text(UUID)),
            "\"owner\" = CAST('0b8e8a2e-3f0c-4a53-9d6e-0c1f2a3b4c5d' AS UUID)",
        ),
        (compare(OWNER, Equal, text("x")), "\"owner\" <> \"owner\""),
        (compare(OWNER, NotEqual, text("x")), "\"owner\" = \"owner\""),
        (
            compare(MOOD, Equal, text("happy")),
            "CAST(\"mood\" AS TEXT) = 'happy'",
        ),
        (
            compare(PRICE, Less, Literal::Decimal(-1_005_000)),
            "(\"price\" < (-100.5000)) AND ((\"price\" = CAST('NaN' AS NUMERIC)) IS NOT TRUE)",
        ),
        (
            compare(AT, Less, Literal::Datetime(1_577_836_800_001)),
            "\"at\" < CAST('2020-01-01 00:00:00.001+00' AS TIMESTAMP WITH TIME ZONE)",
        ),
        (
            compare(AT, Less, Literal::Datetime(-62_135_596_800_000)),
            "\"at\" < CAST('0001-01-01 00:00:00.000+00' AS TIMESTAMP WITH TIME ZONE)",
        ),
        (
            Predicate::Compare(Operand::Column(NAME), Equal, Operand::Column(NICK)),
            "(\"name\" COLLATE \"C\") = \"nick\"",
        ),
        (
            Predicate::Compare(Operand::Column(OWNER), Equal, Operand::Column(NAME)),
            "(CAST(\"owner\" AS TEXT) COLLATE \"C\") = \"name\"",
        ),
        (
            Predicate::In(Operand::Column(NICK), vec![text("a"), text("b")]),
            "(\"nick\" COLLATE \"C\") IN ('a', 'b')",
        ),
        (
            Predicate::In(Operand::Column(OWNER), vec![text("a"), text(UUID)]),
            "\"owner\" IN (CAST('0b8e8a2e-3f0c-4a53-9d6e-0c1f2a3b4c5d' AS UUID))",
        ),
        (
            Predicate::In(Operand::Column(OWNER), vec![text("a")]),
            "\"owner\" <> \"owner\"",
        ),
        (
            Predicate::Like(
                NAME,
                vec![PatternPiece::Text("a%_!\\".to_owned()), PatternPiece::Any],
            ),
            "(\"name\" COLLATE \"C\") LIKE 'a!%!_!!\\%' ESCAPE '!'",
        ),
        (
            Predicate::And(vec![
                Predicate::Or(vec![Predicate::Constant(true)]),
                Predicate::Not(Box::new(Predicate::Column(OPEN))),
            ]),
            "NOT (\"open\")",
        ),
        (Predicate::In(Operand::Column(ID), vec![]), "false"),
    ] {
        check(Dialect::Postgres, predicate, expect);
    }
}

#[test]
fn mysql_compares_bytes_and_still_finds_an_index() {
    let bytes = |text: &str| format!("CAST(CONVERT({text} USING utf8mb4) AS BINARY)");
    for (predicate, expect) in [
        (
            compare(ID, Less, Literal::Integer(7)),
            "`id` < 7".to_owned(),
        ),
        (
            compare(NAME, Equal, text("o'x\\")),
            format!(
                "(`name` = 'o''x\\\\') AND ({} = {})",
                bytes("`name`"),
                bytes("'o''x\\\\'")
            ),
        ),
        (
            compare(NAME, NotEqual, text("x")),
            format!("{} <> {}", bytes("`name`"), bytes("'x'")),
        ),
        (Predicate::Column(OPEN), "`open` <> 0".to_owned()),
        (
            compare(OPEN, NotEqual, Literal::Boolean(true)),
            "(`open` <> 0) <> true".to_owned(),
        ),
        (
            compare(MOOD, Equal, text("x")),
            format!("{} = {}", bytes("`mood`"), bytes("'x'")),
        ),
        (
            compare(OWNER, Equal, text(UUID)),
            format!("`owner` = '{UUID}'"),
        ),
        (
            compare(PRICE, Less, Literal::Decimal(5)),
            "`price` < 0.0005".to_owned(),
        ),
        (
            Predicate::Compare(Operand::Column(NAME), Equal, Operand::Column(NICK)),
            format!("{} = {}", bytes("`name`"), bytes("`nick`")),
        ),
        (
            Predicate::In(Operand::Column(NAME), vec![text("a"), text("b")]),
            format!(
                "(`name` IN ('a', 'b')) AND ({} IN ({}, {}))",
                bytes("`name`"),
                bytes("'a'"),
                bytes("'b'")
            ),
        ),
        (
            Predicate::Like(
                NAME,
                vec![PatternPiece::Any, PatternPiece::Text("a_\\".to_owned())],
            ),
            format!(
                "{} LIKE {} ESCAPE '!'",
                bytes("`name`"),
                bytes("'%a!_\\\\'")
            ),
        ),
    ] {
        check(Dialect::Mysql, predicate, &expect);
    }
}

#[test]
fn what_a_dialect_cannot_compare_is_refused() {
    let points_in_time = compare(AT, Less, Literal::Datetime(0));
    let ordered_text = compare(NAME, Less, text("x"));
    let nul = compare(NAME, Equal, text("a\0b"));
    for (dialect, predicate) in [
        (Dialect::Mysql, &points_in_time),
        (Dialect::Sqlite, &points_in_time),
        (Dialect::Postgres, &ordered_text),
        (Dialect::Postgres, &nul),
        (Dialect::Mysql, &nul),
    ] {
        let refused = filtered(dialect, predicate).unwrap_err();
        assert!(refused.starts_with("obligation.inapplicable"), "{refused}");
    }
}
