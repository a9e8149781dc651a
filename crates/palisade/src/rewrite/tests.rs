//! What obligations look like in each dialect. Every text has passed the print-and-parse gate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod changes;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sqlparser::ast::SelectItem;

use crate::rewrite::{
    ast,
    output::parameters,
    relation_source::{mask, row_filter},
};
use crate::{
    catalog::{
        Catalog, ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass, TypeDef, TypeKind,
    },
    dialect::Dialect,
    limits::Limits,
    policy::obligation::{
        Comparison,
        Comparison::{Equal, GreaterOrEqual, Less, NotEqual},
        DatePart, ExprMask, HashDomain, HashMask, JsonPaths, Literal, Mask, Operand, PatternPiece,
        Predicate, ReferredRows, RowFilter, TokenMask,
    },
    syntax,
    syntax::mask_expr,
    token::TokenSecret,
};

fn column(name: &str, type_name: &str, class: TypeClass, collation: &str) -> ColumnDef {
    ColumnDef {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        class,
        nullable: true,
        collation: collation.to_owned(),
        generated: None,
        stored: false,
        filled: DefaultValue::Unknown,
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

/// `items`, and `orders`, to which `id` may refer.
fn catalog(dialect: Dialect) -> Catalog {
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
    let owners = RelationDef::new(
        "s",
        "orders",
        RelationKind::Table,
        vec![
            column("number", "bigint", TypeClass::Integer, ""),
            column("id", "bigint", TypeClass::Integer, ""),
        ],
    );
    let catalog = Catalog::builder(dialect).relation(def).relation(owners);
    catalog.build().unwrap()
}

/// The text of a condition, read back.
fn printed(expr: sqlparser::ast::Expr, dialect: Dialect) -> String {
    let mut query = ast::select(
        vec![SelectItem::UnnamedExpr(ast::integer(1))],
        ast::table(dialect, &["s", "items"]),
        Some(expr),
    );
    parameters::renumber(
        &mut query,
        &mut Vec::new(),
        &BTreeMap::new(),
        &[],
        dialect,
        None,
    )
    .unwrap();
    let (text, _) = syntax::print_stable(&query, dialect, &Limits::default())
        .unwrap_or_else(|why| panic!("{why}: {query}"));
    text.split_once(" WHERE ").unwrap().1.to_owned()
}

fn filtered(dialect: Dialect, predicate: &Predicate) -> Result<String, String> {
    let catalog = catalog(dialect);
    let relation = catalog.find("s", "items").unwrap();
    let mut functions = BTreeSet::new();
    row_filter::expression(predicate, relation, &catalog, &mut functions)
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

/// The mask of a column `c` of this type, read back.
fn masked(dialect: Dialect, mask: &Mask, type_name: &str) -> String {
    let class = match type_name {
        "public.mood" => TypeClass::Enum,
        "email_address" => TypeClass::Text,
        other => TypeClass::from_name(dialect, other),
    };
    let def = |name: &str, kind| TypeDef {
        schema: "public".to_owned(),
        name: name.to_owned(),
        kind,
        extension: None,
    };
    let domain = TypeKind::Domain {
        base: "character varying(80)".to_owned(),
        check: None,
    };
    let catalog = Catalog::builder(dialect)
        .relation(RelationDef::new(
            "s",
            "t",
            RelationKind::Table,
            vec![column("c", type_name, class, "")],
        ))
        .type_def(def("mood", TypeKind::Enum))
        .type_def(def("email_address", domain))
        .build()
        .unwrap();
    let column = &catalog.relations()[0].columns[0];
    let expr = mask::expression(mask, column, &catalog, &mut BTreeSet::new());
    let text = printed(
        ast::binary(
            ast::parens(expr),
            sqlparser::ast::BinaryOperator::Eq,
            ast::integer(1),
        ),
        dialect,
    );
    let text = text.strip_suffix(") = 1").unwrap();
    text.strip_prefix('(').unwrap().to_owned()
}

#[test]
fn null_has_the_columns_type_on_postgres() {
    for (type_name, expect) in [
        ("integer", "CAST(NULL AS INTEGER)"),
        (
            "character varying(20)",
            "CAST(NULL AS CHARACTER VARYING(20))",
        ),
        ("character(3)", "CAST(NULL AS CHARACTER(3))"),
        ("numeric(10,2)", "CAST(NULL AS NUMERIC(10,2))"),
        (
            "timestamp(3) with time zone",
            "CAST(NULL AS TIMESTAMP(3) WITH TIME ZONE)",
        ),
        (
            "time without time zone",
            "CAST(NULL AS TIME WITHOUT TIME ZONE)",
        ),
        ("integer[]", "CAST(NULL AS INTEGER[])"),
        ("jsonb", "CAST(NULL AS JSONB)"),
        ("uuid", "CAST(NULL AS UUID)"),
        ("inet", "CAST(NULL AS inet)"),
        ("double precision", "CAST(NULL AS DOUBLE PRECISION)"),
        ("interval", "CAST(NULL AS INTERVAL)"),
        ("public.mood", "CAST(NULL AS \"public\".\"mood\")"),
        ("email_address", "CAST(NULL AS CHARACTER VARYING(80))"),
        ("public.mood[]", "NULL"),
        ("elsewhere.thing", "NULL"),
    ] {
        assert_eq!(
            masked(Dialect::Postgres, &Mask::Null, type_name),
            expect,
            "{type_name}"
        );
    }
    assert_eq!(
        masked(Dialect::Mysql, &Mask::Null, "int"),
        "CASE WHEN false THEN 0 END"
    );
    assert_eq!(masked(Dialect::Sqlite, &Mask::Null, "INT"), "NULL");
}

#[test]
fn masks_in_each_dialect() {
    use Dialect::{Mysql, Postgres, Sqlite};
    let fixed = Mask::Fixed("o'x\\".to_owned());
    for (dialect, mask, type_name, expect) in [
        (
            Postgres,
            fixed.clone(),
            "uuid",
            "CASE WHEN \"c\" IS NOT NULL THEN 'o''x\\' END",
        ),
        (
            Mysql,
            fixed,
            "int",
            "CASE WHEN `c` IS NOT NULL THEN 'o''x\\\\' END",
        ),
        (
            Sqlite,
            Mask::First(Reverse(2)),
            "TEXT",
            "CASE WHEN length(CAST(\"c\" AS TEXT)) >= 4 THEN SUBSTR(CAST(\"c\" AS TEXT), 1, 2) || '**' END",
        ),
        (
            Postgres,
            Mask::First(Reverse(2)),
            "text",
            "CASE WHEN pg_catalog.length(CAST(\"c\" AS TEXT)) >= 4 THEN \
             pg_catalog.left(CAST(\"c\" AS TEXT), 2) || '**' END",
        ),
        (
            Mysql,
            Mask::First(Reverse(2)),
            "varchar(9)",
            "CASE WHEN char_length(CAST(`c` AS CHAR)) >= 4 THEN concat(left(CAST(`c` AS CHAR), 2), '**') END COLLATE utf8mb4_bin",
        ),
        (
            Mysql,
            Mask::Last(Reverse(2)),
            "varchar(9)",
            "CASE WHEN char_length(CAST(`c` AS CHAR)) >= 4 THEN concat('**', right(CAST(`c` AS CHAR), 2)) END COLLATE utf8mb4_bin",
        ),
        (
            Sqlite,
            Mask::Email,
            "TEXT",
            "CASE WHEN (length(CAST(\"c\" AS TEXT)) - length(replace(CAST(\"c\" AS TEXT), '@', ''))) = 1 \
             THEN '***@' || SUBSTR(CAST(\"c\" AS TEXT), instr(CAST(\"c\" AS TEXT), '@') + 1) END",
        ),
        (
            Postgres,
            Mask::Email,
            "text",
            "CASE WHEN (pg_catalog.length(CAST(\"c\" AS TEXT)) - \
             pg_catalog.length(pg_catalog.replace(CAST(\"c\" AS TEXT), '@', ''))) = 1 \
             THEN '***@' || pg_catalog.split_part(CAST(\"c\" AS TEXT), '@', 2) END",
        ),
        (
            Mysql,
            Mask::Email,
            "text",
            "CASE WHEN (char_length(CAST(`c` AS CHAR)) - char_length(replace(CAST(`c` AS CHAR), '@', ''))) = 1 \
             THEN concat('***@', substring_index(CAST(`c` AS CHAR), '@', (-1))) END COLLATE utf8mb4_bin",
        ),
        (
            Postgres,
            Mask::Date(DatePart::Month),
            "date",
            "CASE WHEN (\"c\" >= CAST('0001-01-01' AS DATE)) AND (\"c\" <= CAST('9999-12-31' AS DATE)) \
             THEN CAST(pg_catalog.date_trunc('month', CAST(\"c\" AS TIMESTAMP)) AS DATE) END",
        ),
        (
            Postgres,
            Mask::Date(DatePart::Hour),
            "timestamp with time zone",
            "CASE WHEN (\"c\" >= CAST('0001-01-01 00:00:00+00' AS TIMESTAMP WITH TIME ZONE)) AND \
             (\"c\" <= CAST('9999-12-31 23:59:59.999999+00' AS TIMESTAMP WITH TIME ZONE)) \
             THEN pg_catalog.date_trunc('hour', \"c\", 'UTC') END",
        ),
        (
            Mysql,
            Mask::Date(DatePart::Year),
            "datetime",
            "CASE WHEN (`c` >= CAST('0001-01-01' AS DATETIME(6))) AND \
             (`c` <= CAST('9999-12-31 23:59:59.999999' AS DATETIME(6))) \
             THEN CAST(date_format(`c`, '%Y-01-01') AS DATETIME) END",
        ),
        (
            Sqlite,
            Mask::Date(DatePart::Day),
            "DATETIME",
            "strftime('%Y-%m-%d', \"c\")",
        ),
        (
            Postgres,
            Mask::Bucket(10),
            "bigint",
            "CASE WHEN \"c\" >= 0 THEN \"c\" - (\"c\" % 10) \
             WHEN \"c\" >= (-9223372036854775798) THEN (\"c\" + 1) - ((\"c\" + 1) % 10) - 10 END",
        ),
        (
            Postgres,
            Mask::Bucket(10),
            "smallint",
            "CASE WHEN \"c\" >= 0 THEN \"c\" - (\"c\" % 10) \
             WHEN \"c\" >= (-2147483638) THEN (\"c\" + 1) - ((\"c\" + 1) % 10) - 10 END",
        ),
        (
            Postgres,
            Mask::Bucket(3_000_000_000),
            "integer",
            "CASE WHEN \"c\" >= 0 THEN \"c\" - (\"c\" % 3000000000) \
             WHEN \"c\" >= (-9223372033854775808) \
             THEN (\"c\" + 1) - ((\"c\" + 1) % 3000000000) - 3000000000 END",
        ),
        (
            Mysql,
            Mask::Bucket(10),
            "decimal(10,2)",
            "CASE WHEN `c` < (`c` - (`c` % 10)) THEN \
             CASE WHEN `c` > (-1000000000000000000000000000000000000000000000000000000000000) \
             THEN `c` - (`c` % 10) - 10 END ELSE `c` - (`c` % 10) END",
        ),
        (
            Sqlite,
            Mask::Bucket(10),
            "INT",
            "CAST(CASE WHEN (CAST(\"c\" AS INTEGER) >= 0) AND (\"c\" >= CAST(\"c\" AS INTEGER)) \
             THEN CAST(\"c\" AS INTEGER) - (CAST(\"c\" AS INTEGER) % 10) \
             WHEN CAST(\"c\" AS INTEGER) >= (-9223372036854775798) \
             THEN (CAST(\"c\" AS INTEGER) + (\"c\" >= CAST(\"c\" AS INTEGER))) \
             - ((CAST(\"c\" AS INTEGER) + (\"c\" >= CAST(\"c\" AS INTEGER))) % 10) - 10 END AS INTEGER)",
        ),
        (
            Postgres,
            Mask::Bucket(10),
            "real",
            "CASE WHEN (\"c\" >= (-1000000000000000)) AND (\"c\" < 1000000000000000) THEN \
             pg_catalog.\"floor\"(pg_catalog.\"floor\"(CAST(\"c\" AS DOUBLE PRECISION)) / 10) * 10 + 0 END",
        ),
        (
            Mysql,
            Mask::Bucket(10),
            "double",
            "CASE WHEN (`c` >= (-1000000000000000)) AND (`c` < 1000000000000000) THEN \
             FLOOR(FLOOR(`c`) / 10) * 10 + 0 END",
        ),
    ] {
        assert_eq!(masked(dialect, &mask, type_name), expect);
    }
}

#[test]
fn expressions_in_each_dialect() {
    use Dialect::{Mysql, Postgres, Sqlite};
    for (dialect, text, type_name, expect) in [
        (
            Sqlite,
            "substr(value, 1, 3)",
            "TEXT",
            "SUBSTR(CAST(\"c\" AS TEXT), 1, 3)",
        ),
        (
            Postgres,
            "left(value, 2) || '**'",
            "character varying(9)",
            "((pg_catalog.left(CAST(\"c\" AS TEXT) COLLATE \"C\", 2)) || ('**')) COLLATE \"default\"",
        ),
        (
            Postgres,
            "lower(value)",
            "text",
            "(pg_catalog.lower((CAST(\"c\" AS TEXT) COLLATE \"C\") COLLATE \"default\") COLLATE \"C\") COLLATE \"default\"",
        ),
        (
            Mysql,
            "CASE WHEN value > 1000 THEN -1 ELSE value END",
            "int",
            "CASE WHEN (`c`) > (1000) THEN (-1) ELSE `c` END",
        ),
        (
            Postgres,
            "value >= '2000-01-01' OR value IS NULL",
            "date",
            "((\"c\") >= (CAST('2000-01-01' AS DATE))) OR ((\"c\") IS NULL)",
        ),
        (
            Postgres,
            "value BETWEEN '2000-01-01 12:00:00' AND NULL",
            "timestamp with time zone",
            "(\"c\") BETWEEN (CAST('2000-01-01 12:00:00' AS TIMESTAMP WITH TIME ZONE)) AND (NULL)",
        ),
        (
            Sqlite,
            "CASE trim(value, 'x') WHEN 'a' THEN value IN ('b', NULL) ELSE NOT value LIKE 'c%' END",
            "TEXT",
            "CASE (TRIM(CAST(\"c\" AS TEXT), 'x')) WHEN 'a' THEN (CAST(\"c\" AS TEXT)) IN ('b', NULL) \
             ELSE NOT ((CAST(\"c\" AS TEXT)) LIKE 'c%') END",
        ),
        (
            Mysql,
            "concat(TRIM(LEADING '0' FROM value), ' it''s')",
            "varchar(9)",
            "concat(TRIM(LEADING '0' FROM CAST(`c` AS CHAR)), ' it''s') COLLATE utf8mb4_bin",
        ),
        (
            Postgres,
            "nullif(coalesce(length(value), 0) * 2, 4)",
            "uuid",
            "nullif((coalesce(pg_catalog.length(CAST(\"c\" AS TEXT) COLLATE \"C\"), 0)) * (2), 4)",
        ),
        // One that makes no sense of the type shows nothing.
        (
            Mysql,
            "left(value, 2)",
            "blob",
            "CASE WHEN false THEN '' END",
        ),
        (
            Postgres,
            "value > 5",
            "integer[]",
            "CAST(NULL AS INTEGER[])",
        ),
        (Postgres, "left(value, 2)", "bytea", "CAST(NULL AS BYTEA)"),
    ] {
        let read = mask_expr::read(text, dialect)
            .map_err(|unread| unread.message)
            .unwrap();
        let mask = Mask::Expr(ExprMask {
            text: read.text,
            formula: read.formula,
            names: read.names,
        });
        assert_eq!(masked(dialect, &mask, type_name), expect, "{text}");
    }
}

#[test]
fn paths_make_a_new_document() {
    let paths = |text: &str| Mask::Paths(JsonPaths::parse(text).unwrap());
    for (dialect, text, type_name, expect) in [
        (
            Dialect::Sqlite,
            "a.b",
            "TEXT",
            "CASE WHEN (typeof(\"c\") = 'text') AND (json_valid(\"c\")) AND (instr(\"c\", '\\u0000') = 0) \
             THEN CASE WHEN json_type(\"c\", '$') = 'object' THEN (('{') || (concat_ws(',', \
             (('\"a\":') || (CASE WHEN json_type(\"c\", '$.\"a\"') = 'object' THEN (('{') || (concat_ws(',', \
             (('\"b\":') || ((\"c\" -> '$.\"a\".\"b\"'))))) || ('}')) END)))) || ('}')) END END",
        ),
        (
            Dialect::Postgres,
            "a.*",
            "jsonb",
            "CAST(CASE WHEN pg_catalog.jsonb_typeof(\"c\") = 'object' THEN (('{') || (pg_catalog.concat_ws(',', \
             (('\"a\":') || (CASE WHEN pg_catalog.jsonb_typeof(pg_catalog.jsonb_extract_path(\"c\", 'a')) = 'object' \
             THEN CAST(pg_catalog.jsonb_extract_path(\"c\", 'a') AS TEXT) END)))) || ('}')) END AS JSONB)",
        ),
        (
            Dialect::Mysql,
            "a",
            "json",
            "json_extract(CASE WHEN json_valid(`c`) THEN CASE WHEN json_type(json_extract(`c`, '$')) = 'OBJECT' \
             THEN concat('{', concat_ws(',', concat('\"a\":', json_extract(`c`, '$.\"a\"'))), '}') END END, '$')",
        ),
        // A text of which PostgreSQL cannot tell whether it is JSON shows nothing.
        (Dialect::Postgres, "a", "text", "CAST(NULL AS TEXT)"),
    ] {
        assert_eq!(masked(dialect, &paths(text), type_name), expect, "{text}");
    }
}

#[test]
fn hashes_are_hmacs() {
    let key = TokenSecret::new("0").key(&[]);
    let mask = Mask::Hash(HashMask {
        domain: HashDomain::Column,
        key: Some(key),
    });
    assert_eq!(
        masked(Dialect::Postgres, &mask, "uuid"),
        "pg_catalog.encode(pg_catalog.sha256(pg_catalog.decode($1, 'hex') || \
         pg_catalog.sha256(pg_catalog.decode($2, 'hex') || \
         pg_catalog.convert_to(CAST(\"c\" AS TEXT), 'UTF8'))), 'hex')"
    );
    assert_eq!(
        masked(Dialect::Mysql, &mask, "int"),
        "sha2(concat(unhex(?), unhex(sha2(concat(unhex(?), \
         CAST(CONVERT(`c` USING utf8mb4) AS BINARY)), 256))), 256) COLLATE utf8mb4_bin"
    );
    assert_eq!(
        masked(Dialect::Sqlite, &mask, "TEXT"),
        "palisade_keyed_hash(?1, CAST(\"c\" AS TEXT))"
    );
    let unkeyed = Mask::Hash(HashMask {
        domain: HashDomain::Column,
        key: None,
    });
    assert_eq!(
        masked(Dialect::Mysql, &unkeyed, "int"),
        "CASE WHEN false THEN 0 END"
    );
}

#[test]
fn tokens_are_shortened_hashes() {
    let secret = TokenSecret::new("0");
    let keys = secret.tokens("session", None, "domain").unwrap();
    let mask = Mask::Token(TokenMask {
        domain: HashDomain::Column,
        keys: Some(Arc::new(keys)),
    });
    assert_eq!(
        masked(Dialect::Sqlite, &mask, "TEXT"),
        "SUBSTR(palisade_keyed_hash(?1, CAST(\"c\" AS TEXT)), 1, 32)"
    );
    for dialect in [Dialect::Postgres, Dialect::Mysql] {
        let sql = masked(dialect, &mask, "text");
        assert!(sql.contains("left(") && sql.contains(", 32)"), "{sql}");
    }
}

#[test]
fn a_key_is_looked_up_among_the_rows_that_are_seen() {
    let referred = |rows| {
        Arc::new(ReferredRows {
            table: catalog(Dialect::Sqlite).find("s", "orders").unwrap().id,
            key: 1,
            rows,
        })
    };
    let seven = Predicate::Compare(
        Operand::Column(0),
        Equal,
        Operand::Literal(Literal::Integer(7)),
    );
    let follows =
        |operand| Predicate::RefersToSeen(operand, referred(RowFilter::Where(seven.clone())));
    let of_column = follows(Operand::Column(ID));
    check(
        Dialect::Postgres,
        of_column.clone(),
        r#"(EXISTS (SELECT 1 FROM (SELECT "palisade_seen"."id" AS "palisade_key" FROM "s"."orders" AS "palisade_seen" WHERE "palisade_seen"."number" = 7) AS "palisade_seen" WHERE "palisade_seen"."palisade_key" = "id")) IS TRUE"#,
    );
    check(
        Dialect::Mysql,
        of_column.clone(),
        "(`id` IS NOT NULL) AND (`id` IN (SELECT `palisade_seen`.`id` FROM `s`.`orders` AS `palisade_seen` WHERE (`palisade_seen`.`id` IS NOT NULL) AND (`palisade_seen`.`number` = 7)))",
    );
    // Two negations say nothing, and would keep an index from being used.
    let twice = Predicate::Not(Box::new(Predicate::Not(Box::new(of_column.clone()))));
    assert_eq!(
        filtered(Dialect::Mysql, &twice),
        filtered(Dialect::Mysql, &of_column)
    );
    check(
        Dialect::Mysql,
        Predicate::Not(Box::new(follows(Operand::Literal(Literal::Integer(3))))),
        "NOT (3 IN (SELECT `palisade_seen`.`id` FROM `s`.`orders` AS `palisade_seen` WHERE (`palisade_seen`.`id` IS NOT NULL) AND (`palisade_seen`.`number` = 7)))",
    );
    // What a parent follows itself has another name.
    let further = Predicate::RefersToSeen(
        Operand::Literal(Literal::Text("a".to_owned())),
        referred(RowFilter::Where(follows(Operand::Column(0)))),
    );
    check(
        Dialect::Sqlite,
        further,
        r#"EXISTS (SELECT 1 FROM (SELECT "palisade_seen_2"."id" AS "palisade_key" FROM "s"."orders" AS "palisade_seen_2" WHERE EXISTS (SELECT 1 FROM (SELECT "palisade_seen"."id" AS "palisade_key" FROM "s"."orders" AS "palisade_seen" WHERE "palisade_seen"."number" = 7) AS "palisade_seen" WHERE "palisade_seen"."palisade_key" = "palisade_seen_2"."number")) AS "palisade_seen_2" WHERE "palisade_seen_2"."palisade_key" = 'a')"#,
    );
    check(
        Dialect::Sqlite,
        Predicate::RefersToSeen(
            Operand::Literal(Literal::Text("a".to_owned())),
            referred(RowFilter::Everything),
        ),
        r#"EXISTS (SELECT 1 FROM (SELECT "palisade_seen"."id" AS "palisade_key" FROM "s"."orders" AS "palisade_seen") AS "palisade_seen" WHERE "palisade_seen"."palisade_key" = 'a')"#,
    );
}
