//! Catalogs of real databases.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use palisade::{
    catalog::{
        Catalog, Column, OperandDef, OperatorDef, Relation, RelationKind, TypeClass, TypeDef,
        TypeKind,
        functions::{FunctionDef, Kinds},
    },
    dialect::Dialect,
};
use palisade_testkit::servers::{PostgresServer, Server};

/// Set to have the tests run on PostgreSQL 18.
const EIGHTEEN: &str = "PALISADE_TEST_POSTGRES_18";

fn server() -> &'static Server {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        if std::env::var_os(EIGHTEEN).is_some() {
            PostgresServer::start_second().unwrap()
        } else {
            PostgresServer::start().unwrap()
        }
    })
}

#[test]
#[ignore = "needs PostgreSQL 18: cargo xtask test runs it"]
fn postgres_18_passes_all_of_these_tests() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--skip", "postgres_18"])
        .env(EIGHTEEN, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && !text.contains("ok. 0 passed"),
        "{text}"
    );
}

/// The catalog of a new database that `script` fills.
async fn load(label: &str, script: &str) -> Catalog {
    let server = server();
    let database = server.fresh_database(label).unwrap();
    server.load(&database, script).unwrap().clean().unwrap();
    read(server, &database).await
}

async fn read(server: &Server, database: &str) -> Catalog {
    let client = palisade_postgres::connect(&server.url(database))
        .await
        .unwrap();
    let catalog = palisade_postgres::catalog(&client).await.unwrap();
    // The session is left as it was found.
    let rows = client
        .query(
            "SELECT current_setting('transaction_read_only'), current_setting('DateStyle')",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "off");
    assert_eq!(rows[0].get::<_, &str>(1), "ISO, MDY");
    catalog
}

fn relation<'c>(catalog: &'c Catalog, name: &str) -> &'c Relation {
    let (schema, name) = name.split_once('.').unwrap();
    catalog
        .find(schema, name)
        .unwrap_or_else(|| panic!("no {name}"))
}

fn column<'c>(catalog: &'c Catalog, table: &str, name: &str) -> &'c Column {
    let relation = relation(catalog, table);
    relation.column(relation.position(name).unwrap()).unwrap()
}

fn names(relation: &Relation) -> Vec<&str> {
    relation.columns.iter().map(|c| &*c.name).collect()
}

fn function<'c>(catalog: &'c Catalog, uid: &str) -> &'c FunctionDef {
    catalog
        .functions()
        .iter()
        .find(|def| def.uid == uid)
        .unwrap_or_else(|| panic!("no {uid}"))
}

#[tokio::test]
async fn relations_of_every_kind() {
    let catalog = load(
        "relations",
        r#"
        CREATE SCHEMA app; CREATE SCHEMA "Odd Schema";
        CREATE TABLE app.users (id int PRIMARY KEY, email text NOT NULL, gone int, note varchar(20));
        ALTER TABLE app.users DROP COLUMN gone;
        CREATE TABLE "Odd Schema"."T ""1" ("Weird.Col" int, a int, b int, UNIQUE (b, a));
        CREATE TABLE app.orders (b int, a int, user_id int REFERENCES app.users, x int, y int,
            PRIMARY KEY (a, b), FOREIGN KEY (x, y) REFERENCES "Odd Schema"."T ""1" (b, a));
        CREATE TABLE app.events (at date NOT NULL, what text) PARTITION BY RANGE (at);
        CREATE TABLE app.events_2026 PARTITION OF app.events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
        CREATE TABLE app.vip (rank int) INHERITS (app.users);
        CREATE VIEW app.named AS SELECT u.id, u.email AS label FROM app.users u JOIN app.orders o ON o.user_id = u.id
            WHERE u.note ~ E'\\d' AND now() > '2020-02-01'::date;
        CREATE MATERIALIZED VIEW app.counted AS SELECT count(*) AS n FROM app.users;
        CREATE RECURSIVE VIEW app.numbers (n) AS VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < 3;
        CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER s FOREIGN DATA WRAPPER nothing;
        CREATE FOREIGN TABLE app.far (a int) SERVER s;
        CREATE SEQUENCE app.seq; CREATE INDEX ON app.users (email);
        CREATE TYPE app.pair AS (a int, b text);
        CREATE TEMP TABLE passing (a int);
        CREATE TABLE app.bare ();
        "#,
    )
    .await;
    assert_eq!(catalog.dialect(), Dialect::Postgres);
    assert!(catalog.database().starts_with("relations_"));
    assert_eq!(catalog.search_path(), ["public"]);
    let found: Vec<_> = catalog
        .relations()
        .iter()
        .map(|r| (r.uid.as_str(), r.kind))
        .collect();
    assert_eq!(
        found,
        [
            (r#""Odd Schema"."T ""1""#, RelationKind::Table),
            ("app.bare", RelationKind::Table),
            ("app.counted", RelationKind::Materialized),
            ("app.events", RelationKind::Table),
            ("app.events_2026", RelationKind::Table),
            ("app.far", RelationKind::Table),
            ("app.named", RelationKind::View),
            ("app.numbers", RelationKind::View),
            ("app.orders", RelationKind::Table),
            ("app.users", RelationKind::Table),
            ("app.vip", RelationKind::Table),
        ]
    );
    assert!(catalog.relations().iter().all(|r| r.strict && !r.has_rowid));
    let users = relation(&catalog, "app.users");
    assert_eq!(names(users), ["id", "email", "note"]);
    assert_eq!(users.primary_key, [0]);
    let nullable: Vec<_> = users.columns.iter().map(|c| c.nullable).collect();
    assert_eq!(nullable, [false, false, true]);
    assert_eq!(users.definition, None);
    assert!(relation(&catalog, "app.bare").columns.is_empty());

    let orders = relation(&catalog, "app.orders");
    // In the key's order.
    assert_eq!(orders.primary_key, [1, 0]);
    let keys: Vec<_> = orders
        .foreign_keys
        .iter()
        .map(|k| {
            (
                k.columns.join(" "),
                k.table.as_str(),
                k.references.join(" "),
            )
        })
        .collect();
    assert_eq!(
        keys,
        [
            ("user_id".to_owned(), "users", "id".to_owned()),
            ("x y".to_owned(), "T \"1", "b a".to_owned()),
        ]
    );
    let parents = |name: &str| -> Vec<_> {
        relation(&catalog, name)
            .parents
            .iter()
            .map(|id| catalog.relation(*id).unwrap().uid.as_str())
            .collect()
    };
    assert_eq!(parents("app.events_2026"), ["app.events"]);
    assert_eq!(parents("app.vip"), ["app.users"]);
    assert_eq!(
        names(relation(&catalog, "app.vip")),
        ["id", "email", "note", "rank"]
    );
    assert!(parents("app.events").is_empty());

    let definition = |name: &str| {
        let text = relation(&catalog, name).definition.clone().unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        definition("app.named"),
        "SELECT u.id, u.email AS label FROM (app.users u JOIN app.orders o ON ((o.user_id = u.id))) \
         WHERE (((u.note)::text ~ '\\d'::text) AND (now() > '2020-02-01'::date))"
    );
    assert_eq!(
        definition("app.counted"),
        "SELECT count(*) AS n FROM app.users"
    );
    assert!(definition("app.numbers").starts_with("WITH RECURSIVE numbers(n) AS ( VALUES (1)"));
}

#[tokio::test]
async fn types_of_every_kind() {
    let catalog = load(
        "types",
        r#"
        CREATE SCHEMA app;
        CREATE EXTENSION citext;
        CREATE TYPE app.mood AS ENUM ('sad', 'ok');
        CREATE DOMAIN app.email AS varchar(90) CHECK (value ~ '@');
        CREATE DOMAIN app.work_email AS app.email NOT NULL;
        CREATE DOMAIN app.moods AS app.mood;
        CREATE DOMAIN app.many AS int[];
        CREATE TYPE app.pair AS (a numeric(10,2), b app.mood);
        CREATE TYPE app.span AS RANGE (subtype = float8);
        CREATE TYPE app.declared;
        CREATE TYPE "text" AS ENUM ('not text');
        CREATE COLLATION app.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
        CREATE TABLE app.t (i int8, n numeric(10,2), s text, c char(3), b boolean, m app.mood, e app.email, w app.work_email,
            d app.moods, a int[], ma app.many, u uuid, ts timestamp(3), tz timestamptz(3), iv interval day to second(3), j jsonb,
            p app.pair, sp app.span, ci citext, mo money, "odd" public."text", bt bytea, q "char", nm name, ip inet, tt timetz, xs xid,
            plain text COLLATE "C", blind text COLLATE app.blind,
            made text GENERATED ALWAYS AS (lower(s) || E'\\') STORED);
        CREATE VIEW app.names AS SELECT table_name FROM information_schema.tables;
        "#,
    )
    .await;
    use TypeClass as C;
    let expected = [
        ("i", "bigint", C::Integer),
        ("n", "numeric(10,2)", C::Decimal),
        ("s", "text", C::Text),
        ("c", "character(3)", C::Padded),
        ("b", "boolean", C::Boolean),
        ("m", "app.mood", C::Enum),
        ("e", "app.email", C::Text),
        ("w", "app.work_email", C::Text),
        ("d", "app.moods", C::Enum),
        ("a", "integer[]", C::Other),
        ("ma", "app.many", C::Other),
        ("u", "uuid", C::Uuid),
        ("ts", "timestamp(3) without time zone", C::Timestamp),
        ("tz", "timestamp(3) with time zone", C::TimestampTz),
        ("iv", "interval day to second(3)", C::Interval),
        ("j", "jsonb", C::Json),
        ("p", "app.pair", C::Other),
        ("sp", "app.span", C::Other),
        // Its equality ignores case.
        ("ci", "public.citext", C::Other),
        ("mo", "money", C::Other),
        ("odd", "public.text", C::Enum),
        ("bt", "bytea", C::Blob),
        ("q", "\"char\"", C::Padded),
        ("nm", "name", C::Text),
        ("ip", "inet", C::Network),
        ("tt", "time with time zone", C::Time),
        ("xs", "xid", C::Other),
    ];
    for (name, type_name, class) in expected {
        let column = column(&catalog, "app.t", name);
        assert_eq!(
            (&*column.type_name, column.class),
            (type_name, class),
            "{name}"
        );
    }
    assert_eq!(column(&catalog, "app.names", "table_name").class, C::Text);
    assert_eq!(column(&catalog, "app.t", "plain").collation, "");
    assert_eq!(column(&catalog, "app.t", "blind").collation, "app.blind");
    assert_eq!(
        column(&catalog, "app.t", "made").generated.as_deref(),
        Some(r"(lower(s) || '\'::text)")
    );
    assert_eq!(column(&catalog, "app.t", "s").generated, None);

    let def = |schema: &str, name: &str, kind, extension: Option<&str>| TypeDef {
        schema: schema.to_owned(),
        name: name.to_owned(),
        kind,
        extension: extension.map(str::to_owned),
    };
    let checked = |base: &str, check: Option<&str>| TypeKind::Domain {
        base: base.to_owned(),
        check: check.map(str::to_owned),
    };
    let domain = |base: &str| checked(base, None);
    let email = checked(
        "character varying(90)",
        Some("CHECK (((VALUE)::text ~ '@'::text))"),
    );
    let pair = [("a", "numeric(10,2)"), ("b", "app.mood")]
        .map(|(n, t)| (n.to_owned(), t.to_owned()))
        .to_vec();
    assert_eq!(
        catalog.types(),
        [
            def("app", "email", email, None),
            def("app", "many", domain("integer[]"), None),
            def("app", "mood", TypeKind::Enum, None),
            def("app", "moods", domain("app.mood"), None),
            def("app", "pair", TypeKind::Composite(pair), None),
            def("app", "span", TypeKind::Range, None),
            def("app", "span_multirange", TypeKind::Range, None),
            def("app", "work_email", domain("app.email"), None),
            def("public", "citext", TypeKind::Base, Some("citext")),
            def("public", "text", TypeKind::Enum, None),
        ]
    );
}

#[tokio::test]
async fn routines_and_operators() {
    let catalog = load(
        "routines",
        r#"
        CREATE SCHEMA app;
        CREATE EXTENSION pg_trgm; CREATE EXTENSION fuzzystrmatch;
        CREATE TABLE app.users (id int, email text);
        CREATE FUNCTION app.f(a int, b int DEFAULT 1) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION app.f(a int, b int, c int, d int) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION app.any_of(VARIADIC a int[]) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION app.listed() RETURNS TABLE (a int, b text) LANGUAGE sql AS $$SELECT 1, 'x'$$;
        CREATE FUNCTION app.listed(x int) RETURNS TABLE (c int) LANGUAGE sql AS $$SELECT 1$$;
        CREATE FUNCTION app.outs(x int, OUT a int, INOUT b int, OUT int) LANGUAGE sql AS 'SELECT 1, 2, 3';
        CREATE FUNCTION app.rows() RETURNS SETOF app.users LANGUAGE sql AS 'SELECT * FROM app.users';
        CREATE FUNCTION app.plain_set() RETURNS SETOF int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION app.anything() RETURNS SETOF record LANGUAGE sql AS 'SELECT 1';
        CREATE PROCEDURE app.act(x int) LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION app.fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE AGGREGATE app.total(int) (sfunc = int4pl, stype = int);
        CREATE FUNCTION app.keep(int, int) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION app.done(int, float8) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE AGGREGATE app.nth(float8 ORDER BY int) (sfunc = app.keep, stype = int, finalfunc = app.done);
        CREATE FUNCTION app.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR app.=== (leftarg = text, rightarg = text, function = app.same);
        CREATE TYPE app.rank AS ENUM ('low', 'high');
        CREATE TYPE app.word AS ENUM ('a', 'b');
        CREATE DOMAIN app.alias AS text;
        CREATE FUNCTION app.alike(app.rank, app.rank) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR app.= (leftarg = app.rank, rightarg = app.rank, function = app.alike);
        CREATE FUNCTION app.unlike(app.rank, app.word) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR app.<> (leftarg = app.rank, rightarg = app.word, function = app.unlike);
        CREATE CAST (text AS app.word) WITH INOUT AS IMPLICIT;
        CREATE FUNCTION app.less(app.rank, app.rank) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION app.less(text, app.rank) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR app.< (leftarg = app.rank, rightarg = app.rank, function = app.less);
        CREATE OPERATOR app.< (leftarg = text, rightarg = app.rank, function = app.less);
        CREATE FUNCTION app.more(app.alias, app.rank) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR app.> (leftarg = app.alias, rightarg = app.rank, function = app.more);
        CREATE OPERATOR app.!!! (rightarg = int, function = pg_catalog.int4up);
        CREATE FUNCTION public.levenshtein(uuid, uuid) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION "Odd"() RETURNS int LANGUAGE sql AS 'SELECT 1';
        "#,
    )
    .await;
    let check = |uid: &str, kinds: Kinds, args: (u8, Option<u8>), columns: &[&[&str]]| {
        let def = function(&catalog, uid);
        assert_eq!(def.kinds, kinds, "{uid}");
        assert_eq!((def.min_args, def.max_args), args, "{uid}");
        assert_eq!(def.columns, columns, "{uid}");
    };
    let none = Kinds::default();
    let table = Kinds {
        table: true,
        ..none
    };
    check("app.f", Kinds::SCALAR, (1, Some(4)), &[]);
    check("app.any_of", Kinds::SCALAR, (1, None), &[]);
    check("app.listed", table, (0, Some(1)), &[&["a", "b"], &["c"]]);
    check(
        "app.outs",
        Kinds::SCALAR,
        (2, Some(2)),
        &[&["a", "b", "column3"]],
    );
    check("app.rows", table, (0, Some(0)), &[&["id", "email"]]);
    check("app.plain_set", table, (0, Some(0)), &[]);
    check("app.anything", table, (0, Some(0)), &[]);
    let procedure = Kinds {
        procedure: true,
        ..none
    };
    check("app.act", procedure, (1, Some(1)), &[]);
    let aggregate = Kinds {
        aggregate: true,
        ..none
    };
    check("app.total", aggregate, (1, Some(1)), &[]);
    let ordered = Kinds {
        ordered: true,
        ..none
    };
    check("app.nth", ordered, (1, Some(1)), &[]);
    check(r#"public."Odd""#, Kinds::SCALAR, (0, Some(0)), &[]);
    assert!(!catalog.functions().iter().any(|def| def.name == "fires"));
    // pg_trgm's comes with its extension; somebody gave levenshtein an overload of their own.
    assert!(
        catalog
            .functions()
            .iter()
            .any(|def| def.uid == "public.similarity")
    );
    check("public.levenshtein", Kinds::SCALAR, (2, Some(5)), &[]);

    let own: Vec<_> = catalog
        .operators()
        .iter()
        .filter(|def| def.schema == "app")
        .cloned()
        .collect();
    let operator =
        |name: &str, function: &str, confined, left: OperandDef, right: OperandDef| OperatorDef {
            schema: "app".to_owned(),
            name: name.to_owned(),
            function: function.to_owned(),
            confined,
            left,
            right,
        };
    let texts = || OperandDef::Classes(vec![TypeClass::Text, TypeClass::Padded]);
    let text = || OperandDef::Classes(vec![TypeClass::Text]);
    let integer = || OperandDef::Classes(vec![TypeClass::Integer]);
    let none = || OperandDef::Classes(Vec::new());
    assert_eq!(
        own,
        [
            operator(
                "!!!",
                "pg_catalog.int4up",
                false,
                OperandDef::Absent,
                integer()
            ),
            // Names and padded texts are cast to texts.
            operator("<", "app.less", false, texts(), none()),
            operator("<", "app.less", true, none(), none()),
            // Texts are cast to what it takes.
            operator("<>", "app.unlike", false, none(), text()),
            operator("=", "app.alike", true, none(), none()),
            operator("===", "app.same", false, texts(), texts()),
            operator(">", "app.more", false, texts(), none()),
        ]
    );
    assert!(catalog.operators().iter().any(|def| {
        (
            def.schema.as_str(),
            def.name.as_str(),
            def.function.as_str(),
        ) == ("public", "%", "public.similarity_op")
    }));
}

#[tokio::test]
async fn the_search_path_is_the_sessions_without_the_systems() {
    let server = server();
    let database = server.fresh_database("paths").unwrap();
    server
        .load(
            &database,
            &format!(
                "CREATE SCHEMA \"B b\"; CREATE SCHEMA a; CREATE TABLE a.t (x int);
                 CREATE VIEW a.v AS SELECT x FROM a.t;
                 ALTER DATABASE {database} SET search_path = pg_temp, \"B b\", nosuch, a, pg_catalog;
                 ALTER DATABASE {database} SET quote_all_identifiers = on;"
            ),
        )
        .unwrap()
        .clean()
        .unwrap();
    let catalog = read(server, &database).await;
    assert_eq!(catalog.search_path(), ["B b", "a"]);
    assert!(catalog.lookup("t").is_some());
    // Whatever the session searches, a definition says where things are.
    let text = relation(&catalog, "a.v").definition.as_deref().unwrap();
    assert!(text.ends_with("FROM a.t"), "{text}");
}

#[tokio::test]
async fn the_same_schema_has_the_same_version() {
    let server = server();
    let database = server.fresh_database("versions").unwrap();
    server
        .query(
            &database,
            "CREATE TABLE t (a int); CREATE VIEW v AS SELECT a FROM t; INSERT INTO t VALUES (1);",
        )
        .unwrap();
    let first = read(server, &database).await;
    server
        .query(
            &database,
            "INSERT INTO t VALUES (2); ANALYZE; VACUUM FULL t;",
        )
        .unwrap();
    assert_eq!(read(server, &database).await.version(), first.version());
    server
        .query(
            &database,
            "CREATE OR REPLACE VIEW v AS SELECT a + 1 AS a FROM t;",
        )
        .unwrap();
    assert_ne!(read(server, &database).await.version(), first.version());
}

#[tokio::test]
async fn the_time_of_a_look_grows_with_the_tables() {
    let server = server();
    let database = server.fresh_database("large").unwrap();
    server
        .query(
            &database,
            "DO $$ BEGIN FOR i IN 1..1000 LOOP
               EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, a text, b text, c int, d int, e date, f numeric, g jsonb, h uuid, parent int REFERENCES t%s)', i, greatest(i - 1, 1));
               IF i % 10 = 0 THEN EXECUTE format('CREATE VIEW v%s AS SELECT x.id, y.a FROM t%s x JOIN t%s y ON x.parent = y.id', i, i, i - 1); END IF;
             END LOOP; END $$;",
        )
        .unwrap();
    let client = palisade_postgres::connect(&server.url(&database))
        .await
        .unwrap();
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        let catalog = palisade_postgres::catalog(&client).await.unwrap();
        best = best.min(start.elapsed());
        assert_eq!(catalog.relations().len(), 1100);
    }
    println!("1,100 relations in {best:?}");
    // It is half a second. What grew with the square of the tables would take far longer than this.
    assert!(best < Duration::from_secs(5), "{best:?}");
}
