//! PostgreSQL: what its catalog of types holds, and types that people make.

use std::collections::BTreeSet;

use palisade_testkit::servers::{PostgresServer, Server};

use super::{Back, Type, gate, page, roundtrip, script, there_and_back};

use crate::database::TestDatabase;

const MADE: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TYPE pair AS (a int, b text);
    CREATE DOMAIN small AS int CHECK (VALUE < 10);
    CREATE TYPE span AS RANGE (subtype = float8);
";

/// The server looks the name up for whoever gives it, so that parameters would tell what there is.
const NAMES: &str = "names are looked up, so no parameter";

const fn name(name: &'static str, literal: &'static str) -> Type {
    roundtrip(name, literal).back(Back::Refused).note(NAMES)
}

const TYPES: &[Type] = &[
    roundtrip("bool", "true"),
    roundtrip("int2", "-32768"),
    roundtrip("int4", "2147483647"),
    roundtrip("int8", "5"),
    roundtrip("int8", "9007199254740993").neighbour("9007199254740992"),
    roundtrip("oid", "4294967295"),
    roundtrip("float4", "0.1").neighbour("0.1000001"),
    roundtrip("float8", "0.1::float8 + 0.2").neighbour("0.3"),
    roundtrip("float8", "5e-324"),
    roundtrip("float8", "'NaN'"),
    roundtrip("float8", "'-Infinity'"),
    roundtrip(
        "numeric",
        "12345678901234567890123456789012345678901234567890.10",
    )
    .neighbour("12345678901234567890123456789012345678901234567890.11"),
    roundtrip("numeric", "'NaN'"),
    roundtrip("numeric", "'Infinity'"),
    roundtrip("numeric(5, 2)", "1.5"),
    roundtrip("money", "'-1234.5'").note("printed under `lc_monetary = 'C'`"),
    roundtrip("text", "'ü😀' || chr(10)"),
    roundtrip("varchar(3)", "'abc'"),
    roundtrip("bpchar", "'ab '"),
    roundtrip("char(4)", "'ab'").note("padded as it is stored"),
    roundtrip("\"char\"", "'x'"),
    roundtrip("name", "'n'"),
    roundtrip("bytea", "'\\x00ff'"),
    roundtrip("date", "'2026-01-02'"),
    roundtrip("date", "'0044-03-15 BC'"),
    roundtrip("date", "'infinity'"),
    roundtrip("time", "'24:00'"),
    roundtrip("timetz", "'10:00:00.123456+05:30'"),
    roundtrip("timestamp", "'2026-01-02 03:04:05.6'"),
    roundtrip("timestamp", "'4713-01-01 00:00:00 BC'"),
    roundtrip("timestamptz", "'2026-01-02 03:04:05+02'").note("in UTC"),
    roundtrip("timestamptz", "'-infinity'"),
    roundtrip("interval", "'1 year -2 mons 3 days 04:05:06.7'")
        .note("`IntervalStyle = 'postgres'`"),
    roundtrip("uuid", "'00000000-0000-4000-8000-00000000000A'"),
    roundtrip("json", "'{\"a\":1.10,\"a\":2}'")
        .back(Back::Found("v::text = ?"))
        .note("as it was stored"),
    roundtrip("jsonb", "'{\"b\":1.10,\"a\":[null]}'")
        .note("as the server keeps it: sorted, the last of several keys"),
    roundtrip("jsonpath", "'$.a[*]'").back(Back::Stored),
    roundtrip("xml", "'<a/>'").back(Back::Found("v::text = ?")),
    roundtrip("int4[]", "ARRAY[1, NULL, 3]").note("arrays are the server's text"),
    roundtrip("text[]", "ARRAY['a,b', 'c\"d', NULL, 'NULL']"),
    roundtrip("int4[][]", "'[0:1][2:3]={{1,2},{3,4}}'"),
    roundtrip("numeric[]", "ARRAY[1.10, 'NaN']"),
    roundtrip("int2vector", "'1 2'"),
    roundtrip("oidvector", "'1 2'"),
    roundtrip("int4range", "'[1,5]'"),
    roundtrip("int8range", "'empty'"),
    roundtrip("numrange", "'(1.10,)'"),
    roundtrip("tsrange", "'[2026-01-01,2026-01-02 03:04:05.6)'"),
    roundtrip("tstzrange", "'(,2026-01-01 00:00:00+02]'"),
    roundtrip("daterange", "'[2026-01-01,infinity]'"),
    roundtrip("int4multirange", "'{[1,2],[4,5]}'"),
    roundtrip("int8multirange", "'{}'"),
    roundtrip("nummultirange", "'{(1.1,2.2)}'"),
    roundtrip("tsmultirange", "'{[2026-01-01,2026-01-02)}'"),
    roundtrip(
        "tstzmultirange",
        "'{[2026-01-01 00:00:00+00,2026-01-02 00:00:00+00)}'",
    ),
    roundtrip("datemultirange", "'{[2026-01-01,2026-01-02)}'"),
    roundtrip("inet", "'10.0.0.1/8'"),
    roundtrip("cidr", "'::/0'"),
    roundtrip("macaddr", "'08:00:2b:01:02:03'"),
    roundtrip("macaddr8", "'08:00:2b:ff:fe:01:02:03'"),
    roundtrip("bit(3)", "B'101'"),
    roundtrip("varbit", "B''"),
    roundtrip("point", "'(0.1,-2)'").back(Back::Found("v ~= ?")),
    roundtrip("line", "'{1,2,3}'"),
    roundtrip("lseg", "'[(1,2),(3,4)]'"),
    roundtrip("box", "'(3,4),(1,2)'")
        .back(Back::Found("v ~= ?"))
        .note("`=` compares areas"),
    roundtrip("path", "'[(1,2),(3,4)]'")
        .back(Back::Stored)
        .note("`=` compares numbers of points"),
    roundtrip("polygon", "'((1,2),(3,4))'").back(Back::Found("v ~= ?")),
    roundtrip("circle", "'<(1,2),3>'")
        .back(Back::Found("v ~= ?"))
        .note("`=` compares areas"),
    roundtrip("tsvector", "'''fat'':1A cat:2'"),
    roundtrip("tsquery", "'fat & !cat:*B'"),
    roundtrip("pg_lsn", "'16/B374D848'"),
    roundtrip("pg_snapshot", "'10:20:10,15'").back(Back::Stored),
    roundtrip("txid_snapshot", "'10:20:10,15'").back(Back::Stored),
    roundtrip("xid", "'4294967295'"),
    roundtrip("xid8", "'18446744073709551615'"),
    roundtrip("cid", "'5'"),
    roundtrip("tid", "'(0,1)'"),
    roundtrip("refcursor", "'c'").back(Back::Stored),
    roundtrip("mood", "'ok'").note("an enum"),
    roundtrip("pair", "ROW(1, 'a \"b\"')")
        .back(Back::Found("v = CAST(? AS pair)"))
        .note("a composite type; the server takes a bare parameter for a row without a type"),
    roundtrip("pair[]", "ARRAY[ROW(1, NULL)::pair]"),
    roundtrip("small", "7").note("a domain"),
    roundtrip("span", "'(1.5,2]'").note("a range of `float8`"),
    name("regclass", "'pg_class'"),
    name("regcollation", "'\"C\"'"),
    roundtrip("regconfig", "'english'").back(Back::Found("v = CAST(? AS regconfig)")),
    roundtrip("regdictionary", "'simple'").back(Back::Found("v = CAST(? AS regdictionary)")),
    name("regnamespace", "'public'"),
    name("regoper", "'||/'"),
    name("regoperator", "'+(integer,integer)'"),
    name("regproc", "'now'"),
    name("regprocedure", "'abs(integer)'"),
    name("regrole", "'postgres'"),
    name("regtype", "'int4'"),
    name("aclitem", "'postgres=r/postgres'"),
];

/// Types of the server's that have no input, so that no column of people's holds one; and those of single letters in
/// its own tables.
const INNER: &[&str] = &[
    "gtsvector",
    "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary",
    "pg_dependencies",
    "pg_mcv_list",
    "pg_ndistinct",
    "pg_node_tree",
];

/// The server's names for what is declared otherwise.
const ALIASES: &[(&str, &str)] = &[
    ("char", "\"char\""),
    ("varchar", "varchar(3)"),
    ("bit", "bit(3)"),
];

async fn section(server: &Server) -> String {
    let script = format!("{MADE}{}", script(TYPES));
    let database = TestDatabase::on(server, "types", &script);
    let known: BTreeSet<&str> = TYPES
        .iter()
        .map(|ty| ty.name)
        .chain(INNER.iter().copied())
        .collect();
    let listed = database.query(
        "SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
             AND typtype IN ('b', 'r', 'm') AND typcategory <> 'A' ORDER BY 1",
    );
    for name in listed.lines() {
        let alias = ALIASES.iter().find(|(listed, _)| *listed == name);
        assert!(
            known.contains(alias.map_or(name, |(_, known)| known)),
            "{name}"
        );
    }
    let backend = database.postgres_backend().await;
    there_and_back(&gate(backend), TYPES, "$1").await
}

#[tokio::test]
async fn postgres_sends_every_type_there_and_back() {
    page::check(
        "PostgreSQL",
        &section(PostgresServer::start_shared().unwrap()).await,
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL 18: cargo xtask test runs it"]
async fn postgres_18_sends_every_type_there_and_back() {
    page::check(
        "PostgreSQL",
        &section(&PostgresServer::start_second().unwrap()).await,
    );
}
