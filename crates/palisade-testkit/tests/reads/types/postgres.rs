//! PostgreSQL: what its catalog of types holds, and types that people make.

use std::collections::BTreeSet;

use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::servers::{PostgresServer, Server};

use super::{Back, Type, gate, of, page, script, there_and_back};

const MADE: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TYPE pair AS (a int, b text);
    CREATE DOMAIN small AS int CHECK (VALUE < 10);
    CREATE TYPE span AS RANGE (subtype = float8);
";

/// The server looks the name up for whoever gives it, so that parameters would tell what there is.
const NAMES: &str = "names are looked up, so no parameter";

const fn name(name: &'static str, literal: &'static str) -> Type {
    of(name, literal).back(Back::Refused).note(NAMES)
}

const TYPES: &[Type] = &[
    of("bool", "true"),
    of("int2", "-32768"),
    of("int4", "2147483647"),
    of("int8", "5"),
    of("int8", "9007199254740993").beside("9007199254740992"),
    of("oid", "4294967295"),
    of("float4", "0.1").beside("0.1000001"),
    of("float8", "0.1::float8 + 0.2").beside("0.3"),
    of("float8", "5e-324"),
    of("float8", "'NaN'"),
    of("float8", "'-Infinity'"),
    of(
        "numeric",
        "12345678901234567890123456789012345678901234567890.10",
    )
    .beside("12345678901234567890123456789012345678901234567890.11"),
    of("numeric", "'NaN'"),
    of("numeric", "'Infinity'"),
    of("numeric(5, 2)", "1.5"),
    of("money", "'-1234.5'").note("printed under `lc_monetary = 'C'`"),
    of("text", "'ü😀' || chr(10)"),
    of("varchar(3)", "'abc'"),
    of("bpchar", "'ab '"),
    of("char(4)", "'ab'").note("padded as it is stored"),
    of("\"char\"", "'x'"),
    of("name", "'n'"),
    of("bytea", "'\\x00ff'"),
    of("date", "'2026-01-02'"),
    of("date", "'0044-03-15 BC'"),
    of("date", "'infinity'"),
    of("time", "'24:00'"),
    of("timetz", "'10:00:00.123456+05:30'"),
    of("timestamp", "'2026-01-02 03:04:05.6'"),
    of("timestamp", "'4713-01-01 00:00:00 BC'"),
    of("timestamptz", "'2026-01-02 03:04:05+02'").note("in UTC"),
    of("timestamptz", "'-infinity'"),
    of("interval", "'1 year -2 mons 3 days 04:05:06.7'").note("`IntervalStyle = 'postgres'`"),
    of("uuid", "'00000000-0000-4000-8000-00000000000A'"),
    of("json", "'{\"a\":1.10,\"a\":2}'")
        .back(Back::Found("v::text = ?"))
        .note("as it was stored"),
    of("jsonb", "'{\"b\":1.10,\"a\":[null]}'")
        .note("as the server keeps it: sorted, the last of several keys"),
    of("jsonpath", "'$.a[*]'").back(Back::Stored),
    of("xml", "'<a/>'").back(Back::Found("v::text = ?")),
    of("int4[]", "ARRAY[1, NULL, 3]").note("arrays are the server's text"),
    of("text[]", "ARRAY['a,b', 'c\"d', NULL, 'NULL']"),
    of("int4[][]", "'[0:1][2:3]={{1,2},{3,4}}'"),
    of("numeric[]", "ARRAY[1.10, 'NaN']"),
    of("int2vector", "'1 2'"),
    of("oidvector", "'1 2'"),
    of("int4range", "'[1,5]'"),
    of("int8range", "'empty'"),
    of("numrange", "'(1.10,)'"),
    of("tsrange", "'[2026-01-01,2026-01-02 03:04:05.6)'"),
    of("tstzrange", "'(,2026-01-01 00:00:00+02]'"),
    of("daterange", "'[2026-01-01,infinity]'"),
    of("int4multirange", "'{[1,2],[4,5]}'"),
    of("int8multirange", "'{}'"),
    of("nummultirange", "'{(1.1,2.2)}'"),
    of("tsmultirange", "'{[2026-01-01,2026-01-02)}'"),
    of(
        "tstzmultirange",
        "'{[2026-01-01 00:00:00+00,2026-01-02 00:00:00+00)}'",
    ),
    of("datemultirange", "'{[2026-01-01,2026-01-02)}'"),
    of("inet", "'10.0.0.1/8'"),
    of("cidr", "'::/0'"),
    of("macaddr", "'08:00:2b:01:02:03'"),
    of("macaddr8", "'08:00:2b:ff:fe:01:02:03'"),
    of("bit(3)", "B'101'"),
    of("varbit", "B''"),
    of("point", "'(0.1,-2)'").back(Back::Found("v ~= ?")),
    of("line", "'{1,2,3}'"),
    of("lseg", "'[(1,2),(3,4)]'"),
    of("box", "'(3,4),(1,2)'")
        .back(Back::Found("v ~= ?"))
        .note("`=` compares areas"),
    of("path", "'[(1,2),(3,4)]'")
        .back(Back::Stored)
        .note("`=` compares numbers of points"),
    of("polygon", "'((1,2),(3,4))'").back(Back::Found("v ~= ?")),
    of("circle", "'<(1,2),3>'")
        .back(Back::Found("v ~= ?"))
        .note("`=` compares areas"),
    of("tsvector", "'''fat'':1A cat:2'"),
    of("tsquery", "'fat & !cat:*B'"),
    of("pg_lsn", "'16/B374D848'"),
    of("pg_snapshot", "'10:20:10,15'").back(Back::Stored),
    of("txid_snapshot", "'10:20:10,15'").back(Back::Stored),
    of("xid", "'4294967295'"),
    of("xid8", "'18446744073709551615'"),
    of("cid", "'5'"),
    of("tid", "'(0,1)'"),
    of("refcursor", "'c'").back(Back::Stored),
    of("mood", "'ok'").note("an enum"),
    of("pair", "ROW(1, 'a \"b\"')")
        .back(Back::Found("v = CAST(? AS pair)"))
        .note("a composite type; the server takes a bare parameter for a row without a type"),
    of("pair[]", "ARRAY[ROW(1, NULL)::pair]"),
    of("small", "7").note("a domain"),
    of("span", "'(1.5,2]'").note("a range of `float8`"),
    name("regclass", "'pg_class'"),
    name("regcollation", "'\"C\"'"),
    of("regconfig", "'english'").back(Back::Found("v = CAST(? AS regconfig)")),
    of("regdictionary", "'simple'").back(Back::Found("v = CAST(? AS regdictionary)")),
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
    let database = server.fresh_database("types").unwrap();
    let script = format!("{MADE}{}", script(TYPES));
    server.load(&database, &script).unwrap().clean().unwrap();
    let known: BTreeSet<&str> = TYPES
        .iter()
        .map(|ty| ty.name)
        .chain(INNER.iter().copied())
        .collect();
    let listed = server
        .query(
            &database,
            "SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
             AND typtype IN ('b', 'r', 'm') AND typcategory <> 'A' ORDER BY 1",
        )
        .unwrap();
    for name in listed.lines() {
        let alias = ALIASES.iter().find(|(listed, _)| *listed == name);
        assert!(
            known.contains(alias.map_or(name, |(_, known)| known)),
            "{name}"
        );
    }
    let config = PostgresConfig::from_url(&server.url(&database)).unwrap();
    let backend = PostgresBackend::connect(config.accept_superuser().writable())
        .await
        .unwrap();
    there_and_back(&gate(backend), TYPES, "$1").await
}

#[tokio::test]
async fn postgres_sends_every_type_there_and_back() {
    page::check(
        "PostgreSQL",
        &section(PostgresServer::shared().unwrap()).await,
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
