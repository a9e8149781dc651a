//! Parameters in, values out.

use palisade::{guard::BackendErrorKind as Kind, value::Value};
use palisade_testkit::ask::Ask as _;

use super::Shop;

#[tokio::test]
async fn parameters_of_every_kind() {
    let mut shop = Shop::new("params").await;
    shop.ask("CREATE TYPE app.mood AS ENUM ('sad', 'ok'); CREATE DOMAIN app.small AS int CHECK (value < 100); CREATE DOMAIN app.tiny AS app.small");
    // A domain's condition is part of the schema.
    shop.backend = shop.backend.refresh().await.unwrap().unwrap();
    let check = async |ty: &str, value: Value, expected: &str| {
        let query = shop
            .query(&format!("SELECT $1::{ty}::text"))
            .params([value.clone()]);
        assert_eq!(
            query.cell().await,
            Value::text(expected),
            "{value:?} as {ty}"
        );
    };
    let text = |text: &str| Value::text(text);
    check("int2", Value::Integer(-32768), "-32768").await;
    check("int4", Value::Integer(5), "5").await;
    check("int8", Value::Integer(i64::MIN), "-9223372036854775808").await;
    check("oid", Value::Integer(4_000_000_000), "4000000000").await;
    check("numeric", Value::Integer(5), "5").await;
    check("numeric", Value::Real(0.1), "0.1").await;
    check(
        "numeric",
        text("123456789012345678901234567890.10"),
        "123456789012345678901234567890.10",
    )
    .await;
    check("float8", Value::Real(1e-300), "1e-300").await;
    check("float8", Value::Integer(2), "2").await;
    check("float4", Value::Real(1.5), "1.5").await;
    check("float8", text("NaN"), "NaN").await;
    check("bool", Value::Bool(true), "true").await;
    check("bool", Value::Integer(1), "true").await;
    check("bool", Value::Integer(0), "false").await;
    check("text", Value::Integer(-7), "-7").await;
    check("varchar", Value::Integer(7), "7").await;
    check("int4", Value::Real(3.0), "3").await;
    check(
        "text",
        text("it's \\ \"ü\" $1 -- ;"),
        "it's \\ \"ü\" $1 -- ;",
    )
    .await;
    check("varchar(3)", text("abcdef"), "abc").await;
    check("char(4)", text("ab"), "ab").await;
    check("bytea", Value::Blob(vec![0, 0xff]), "\\x00ff").await;
    check("date", text("2026-11-21"), "2026-11-21").await;
    check(
        "timestamptz",
        text("2026-11-21 10:00+02"),
        "2026-11-21 08:00:00+00",
    )
    .await;
    check("interval", text("1 day 2 hours"), "1 day 02:00:00").await;
    check(
        "uuid",
        text("00000000-0000-4000-8000-000000000001"),
        "00000000-0000-4000-8000-000000000001",
    )
    .await;
    check("jsonb", text("{\"a\": [1, 2]}"), "{\"a\": [1, 2]}").await;
    check("int[]", text("{1,2}"), "{1,2}").await;
    check("inet", text("10.0.0.1/8"), "10.0.0.1/8").await;
    check("app.mood", text("sad"), "sad").await;
    check("app.small", Value::Integer(7), "7").await;
    check("app.tiny", Value::Integer(7), "7").await;
    check("regconfig", text("english"), "english").await;

    let null = shop
        .query("SELECT $1::int IS NULL AND $2::regclass IS NULL")
        .params([Value::Null, Value::Null]);
    assert_eq!(null.cell().await, Value::Bool(true));
    let many = shop
        .query("SELECT name FROM app.users WHERE id = $2 AND name = $1 OR id IN ($2, $2)")
        .params([text("bob"), Value::Integer(2)]);
    assert_eq!(many.cell().await, Value::text("bob"));

    for (sql, values) in [
        ("SELECT $1::int", vec![text("x")]),
        ("SELECT $1::int", vec![Value::Real(1.5)]),
        ("SELECT $1::int", vec![Value::Bool(true)]),
        ("SELECT $1::int2", vec![Value::Integer(70_000)]),
        ("SELECT $1::bool", vec![Value::Integer(2)]),
        ("SELECT $1::text", vec![Value::Bool(true)]),
        ("SELECT $1::text", vec![Value::Real(1.5)]),
        ("SELECT $1::date", vec![Value::Integer(20_260_101)]),
        ("SELECT $1::text", vec![text("a\0b")]),
        ("SELECT $1::text", vec![Value::Text(vec![0xc3, 0x28])]),
        ("SELECT $1::text", vec![Value::Blob(vec![1])]),
        ("SELECT $1::regclass::text", vec![text("hr.users")]),
        ("SELECT $1::regrole::text", vec![text("postgres")]),
        ("SELECT $1::app.mood::text", vec![text("furious")]),
        ("SELECT $1::app.small::text", vec![Value::Integer(700)]),
        ("SELECT $1::date", vec![text("not a day")]),
    ] {
        let error = shop.query(sql).params(values.clone()).fails().await;
        assert_eq!(error.kind, Kind::Rejected, "{sql} {values:?}: {error}");
    }
    for values in [vec![], vec![Value::Integer(1), Value::Integer(2)]] {
        let error = shop.query("SELECT $1::int").params(values).fails().await;
        assert_eq!(error.kind, Kind::SecondLock);
    }
}

#[tokio::test]
async fn every_type_as_the_server_prints_it() {
    let mut shop = Shop::new("printed").await;
    shop.ask(
        "CREATE TYPE app.mood AS ENUM ('sad', 'ok'); CREATE DOMAIN app.small AS int; CREATE TYPE app.pair AS (a int, b text);
         CREATE TYPE app.span AS RANGE (subtype = float8);",
    );
    // A range comes with casts.
    shop.backend = shop.backend.refresh().await.unwrap().unwrap();
    let text = Value::text;
    let table: Vec<(&str, Value)> = vec![
        ("true", Value::Bool(true)),
        ("false", Value::Bool(false)),
        ("NULL::bool", Value::Null),
        ("NULL::text", Value::Null),
        ("32767::int2", Value::Integer(32767)),
        ("-5::int4", Value::Integer(-5)),
        ("9223372036854775807::int8", Value::Integer(i64::MAX)),
        ("4294967295::oid", Value::Integer(4_294_967_295)),
        ("7::app.small", Value::Integer(7)),
        ("0.1::float4", Value::Real(0.1)),
        ("0.1::float8 + 0.2::float8", Value::Real(0.1 + 0.2)),
        ("1e300::float8", Value::Real(1e300)),
        ("'-0'::float8", Value::Real(-0.0)),
        ("'NaN'::float8", text("NaN")),
        ("'Infinity'::float4", text("Infinity")),
        ("'-Infinity'::float8", text("-Infinity")),
        ("1.10::numeric", text("1.10")),
        (
            "12345678901234567890123456789012345678901234567890.5",
            text("12345678901234567890123456789012345678901234567890.5"),
        ),
        ("'NaN'::numeric", text("NaN")),
        ("'Infinity'::numeric", text("Infinity")),
        ("'-1234.5'::money", text("-$1,234.50")),
        ("''", text("")),
        ("'a' || chr(10) || 'ü😀'", text("a\nü😀")),
        ("'ab'::char(4)", text("ab  ")),
        ("'abc'::varchar(2)", text("ab")),
        ("'x'::\"char\"", text("x")),
        ("'n'::name", text("n")),
        ("'\\x00ff'::bytea", text("\\x00ff")),
        ("'2026-01-02'::date", text("2026-01-02")),
        ("'0044-03-15 BC'::date", text("0044-03-15 BC")),
        ("'infinity'::date", text("infinity")),
        ("'24:00'::time", text("24:00:00")),
        (
            "'10:00:00.123456+05:30'::timetz",
            text("10:00:00.123456+05:30"),
        ),
        (
            "'2026-01-02 03:04:05.6'::timestamp",
            text("2026-01-02 03:04:05.6"),
        ),
        (
            "'2026-01-02 03:04:05+02'::timestamptz",
            text("2026-01-02 01:04:05+00"),
        ),
        ("'-infinity'::timestamptz", text("-infinity")),
        (
            "'1 year -2 mons 3 days 04:05:06.7'::interval",
            text("10 mons 3 days 04:05:06.7"),
        ),
        (
            "'00000000-0000-4000-8000-00000000000A'::uuid",
            text("00000000-0000-4000-8000-00000000000a"),
        ),
        ("'{\"a\":1.10,\"a\":2}'::json", text("{\"a\":1.10,\"a\":2}")),
        (
            "'{\"b\":1.10,\"a\":[null]}'::jsonb",
            text("{\"a\": [null], \"b\": 1.10}"),
        ),
        ("'$.a[*]'::jsonpath", text("$.\"a\"[*]")),
        ("'<a/>'::xml", text("<a/>")),
        ("ARRAY[1,NULL,3]", text("{1,NULL,3}")),
        ("ARRAY['a,b','c\"d']", text("{\"a,b\",\"c\\\"d\"}")),
        ("ARRAY[[1,2],[3,4]]", text("{{1,2},{3,4}}")),
        ("ROW(1,'a b')", text("(1,\"a b\")")),
        ("ROW(1,NULL)::app.pair", text("(1,)")),
        ("'sad'::app.mood", text("sad")),
        ("'[1,5)'::int4range", text("[1,5)")),
        ("'{[1,2],[4,5]}'::int4multirange", text("{[1,3),[4,6)}")),
        ("'[2026-01-01,)'::daterange", text("[2026-01-01,)")),
        ("'(1.5,2]'::app.span", text("(1.5,2]")),
        ("'10.0.0.1/8'::inet", text("10.0.0.1/8")),
        ("'10.0.0.0/8'::cidr", text("10.0.0.0/8")),
        ("'08:00:2b:01:02:03'::macaddr", text("08:00:2b:01:02:03")),
        (
            "'08:00:2b:ff:fe:01:02:03'::macaddr8",
            text("08:00:2b:ff:fe:01:02:03"),
        ),
        ("B'101'::bit(3)", text("101")),
        ("B'1'::varbit", text("1")),
        ("'(1,2)'::point", text("(1,2)")),
        ("'{1,2,3}'::line", text("{1,2,3}")),
        ("'[(1,2),(3,4)]'::lseg", text("[(1,2),(3,4)]")),
        ("'(3,4),(1,2)'::box", text("(3,4),(1,2)")),
        ("'((1,2),(3,4))'::path", text("((1,2),(3,4))")),
        ("'((1,2),(3,4))'::polygon", text("((1,2),(3,4))")),
        ("'<(1,2),3>'::circle", text("<(1,2),3>")),
        (
            "to_tsvector('english', 'fat cats')",
            text("'cat':2 'fat':1"),
        ),
        ("to_tsquery('english', 'fat & cat')", text("'fat' & 'cat'")),
        ("'16/B374D848'::pg_lsn", text("16/B374D848")),
        ("'10:20:10,15'::pg_snapshot", text("10:20:10,15")),
        ("'5'::xid", text("5")),
        ("'5'::xid8", text("5")),
        ("'(0,1)'::tid", text("(0,1)")),
        ("'english'::regconfig", text("english")),
        ("'int4'::regtype", text("integer")),
    ];
    for (sql, expected) in table {
        let found = shop.query(&format!("SELECT {sql} AS v")).cell().await;
        match (&found, &expected) {
            // Minus nought is not nought.
            (Value::Real(found), Value::Real(expected)) => {
                assert_eq!(found.to_bits(), expected.to_bits(), "{sql}");
            }
            _ => assert_eq!(found, expected, "{sql}"),
        }
    }
}

#[tokio::test]
async fn rows_come_in_order_and_all_of_them() {
    let shop = Shop::new("rows").await;
    let rows = shop
        .query("SELECT i, repeat('x', CASE WHEN i % 100 = 0 THEN 50000 ELSE 5 END) FROM generate_series(1, 20000) AS i")
        .up_to(50_000)
        .run()
        .await
        .unwrap();
    assert_eq!(rows.rows.len(), 20_000);
    // No more than one more than leave: with those, the session is cleaned.
    for most in [0, 62, 63, 64, 2500] {
        let query = shop.query("SELECT i FROM generate_series(1, 20000) AS i");
        let bounded = query.up_to(most).run().await.unwrap();
        assert_eq!(u64::try_from(bounded.rows.len()).unwrap(), most + 1);
    }
    for (number, row) in (1_i64..).zip(&rows.rows) {
        assert_eq!(row[0], Value::Integer(number));
    }
    let none = shop
        .query("SELECT id FROM app.users WHERE false")
        .run()
        .await
        .unwrap();
    assert_eq!((none.names, none.rows.len()), (vec!["id".to_owned()], 0));
    let exact = shop
        .query("SELECT i FROM generate_series(1, 64) AS i")
        .run()
        .await
        .unwrap();
    assert_eq!(exact.rows.len(), 64);
}
