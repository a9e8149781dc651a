//! Catalogs from text beside catalogs from a server that has read the same text.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{collections::BTreeSet, path::PathBuf, process::Command};

use palisade::catalog::{Catalog, DefaultValue, Relation, RelationKind, TypeKind};
use palisade_testkit::servers::PostgresServer;

const SCRIPT: &str = r#"
CREATE SCHEMA app; CREATE SCHEMA "Odd Schema";
CREATE EXTENSION citext; CREATE EXTENSION pg_trgm SCHEMA app; CREATE EXTENSION fuzzystrmatch;
CREATE TYPE app.mood AS ENUM ('sad', 'ok');
CREATE DOMAIN app.email AS varchar(90) CHECK (value ~ '@');
CREATE DOMAIN app.work_email AS app.email NOT NULL CONSTRAINT a CHECK (length(value) > 3);
CREATE DOMAIN app.moods AS app.mood;
CREATE DOMAIN app.many AS int[];
CREATE TYPE app.pair AS (a numeric(10,2), b app.mood);
CREATE TYPE app.span AS RANGE (subtype = float8);
CREATE TYPE app.floatrange AS RANGE (subtype = float8, multirange_type_name = app.floats);
CREATE TYPE app.declared;
CREATE COLLATION app.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION app.plain (provider = icu, locale = 'und');
CREATE TABLE app.users (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL, gone int, note varchar(20) DEFAULT NULL);
ALTER TABLE app.users DROP COLUMN gone;
CREATE TABLE "Odd Schema"."T ""1" ("Weird.Col" int, a int, b int, UNIQUE (b, a));
CREATE TABLE app.orders (b int, a int, user_id int REFERENCES app.users ON DELETE CASCADE, x int, y int,
    PRIMARY KEY (a, b), CONSTRAINT zz FOREIGN KEY (x, y) REFERENCES "Odd Schema"."T ""1" (b, a) DEFERRABLE);
CREATE TABLE app.events (at date NOT NULL, what text, who int REFERENCES app.users, PRIMARY KEY (at)) PARTITION BY RANGE (at);
CREATE TABLE app.events_2026 PARTITION OF app.events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01') PARTITION BY LIST (at);
CREATE TABLE app.events_day PARTITION OF app.events_2026 (what NOT NULL) FOR VALUES IN ('2026-02-02');
CREATE TABLE app.events_2027 (at date NOT NULL, what text, who int);
ALTER TABLE app.events ATTACH PARTITION app.events_2027 FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
CREATE TABLE app.vip (rank smallint, note varchar(20) NOT NULL) INHERITS (app.users);
ALTER TABLE app.users ADD COLUMN added timestamptz DEFAULT now() NOT NULL, ALTER COLUMN note TYPE text;
CREATE TABLE app.t (i int8, n numeric(10,2), s text, c char(3), b boolean, m app.mood, e app.email, w app.work_email,
    d app.moods, a int[], ma app.many, u uuid, ts timestamp(3), tz timestamptz(3), iv interval day to second(3), j jsonb,
    p app.pair, sp app.span, ci public.citext, mo money, bt bytea, q "char", nm name, ip inet, tt timetz, xs xid, bits bit varying(4),
    one bit, f float(10), g float, h decimal(4), k serial, bp bpchar, ar text[][3], hs app.users, hsa app.mood[],
    plain text COLLATE "C", blind text COLLATE app.blind, same text COLLATE app.plain,
    made text GENERATED ALWAYS AS (lower(s)) STORED);
CREATE TABLE app.liked (LIKE app.t INCLUDING GENERATED, extra int UNIQUE);
CREATE TABLE app.of_pair OF app.pair (a NOT NULL);
CREATE TABLE app.copied AS SELECT id, email AS e, count(*) AS n FROM app.users GROUP BY id, email;
CREATE UNLOGGED TABLE app.bare ();
CREATE VIEW app.named AS SELECT u.id, u.email AS label, u.note::varchar(3) AS short FROM app.users u JOIN app.orders o ON o.user_id = u.id
    WHERE u.note ~ E'\\d' AND now() > '2020-02-01'::date;
CREATE VIEW app.starred AS SELECT u.*, s.n FROM app.users u, (SELECT count(*) AS n FROM app.orders) s;
CREATE VIEW app.checked AS SELECT id FROM app.users WITH CASCADED CHECK OPTION;
CREATE VIEW app.renamed (one, two) AS SELECT id, email FROM app.users;
CREATE MATERIALIZED VIEW app.counted AS SELECT count(*) AS n FROM app.users WITH NO DATA;
CREATE RECURSIVE VIEW app.numbers (n) AS VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < 3;
CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER s FOREIGN DATA WRAPPER nothing;
CREATE FOREIGN TABLE app.far (a int OPTIONS (x 'y')) SERVER s;
CREATE SEQUENCE app.seq; CREATE INDEX ON app.users (email);
CREATE TEMP TABLE passing (a int);
CREATE FUNCTION app.f(a int, b int DEFAULT 1) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION app.f(a int, b int, c int, d int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION app.any_of(VARIADIC a int[]) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION app.listed() RETURNS TABLE (a int, b text) LANGUAGE sql AS $$SELECT 1, 'x'$$;
CREATE FUNCTION app.listed(x int) RETURNS TABLE (c int) LANGUAGE sql AS $$SELECT 1$$;
CREATE FUNCTION app.outs(x int, OUT a int, INOUT b int, OUT int) LANGUAGE sql AS 'SELECT 1, 2, 3';
CREATE FUNCTION app.one_out(double precision, OUT a int) LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION app.rows() RETURNS SETOF app.users LANGUAGE sql AS 'SELECT * FROM app.users';
CREATE FUNCTION app.row() RETURNS app.pair LANGUAGE sql AS $$SELECT 1.0, 'ok'::app.mood$$;
CREATE FUNCTION app.plain_set() RETURNS SETOF int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION app.anything() RETURNS SETOF record LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION app.atomic(a timestamp with time zone = now()) RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END;
CREATE PROCEDURE app.act(x int, OUT y int) LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION app.fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE AGGREGATE app.total(int) (sfunc = int4pl, stype = int);
CREATE AGGREGATE app.counting(*) (sfunc = int8inc, stype = int8, initcond = '0');
CREATE AGGREGATE app.old (basetype = int, sfunc = int4pl, stype = int);
CREATE FUNCTION app.keep(int, int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION app.done(int, float8) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE AGGREGATE app.nth(float8 ORDER BY int) (sfunc = app.keep, stype = int, finalfunc = app.done);
CREATE FUNCTION app.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR app.=== (leftarg = text, rightarg = text, function = app.same);
CREATE OPERATOR app.!!! (rightarg = int, function = pg_catalog.int4up);
CREATE FUNCTION public.levenshtein(uuid, uuid) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION "Odd"() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE TABLE app.lines (a int REFERENCES app.users ON UPDATE CASCADE ON DELETE SET NULL, b int DEFAULT 1, c int, d date REFERENCES app.events ON DELETE CASCADE,
    FOREIGN KEY (b, c) REFERENCES app.orders (a, b) MATCH FULL ON DELETE SET DEFAULT ON UPDATE NO ACTION NOT DEFERRABLE);
ALTER TABLE app.lines ADD CONSTRAINT lines_odd FOREIGN KEY (b, c) REFERENCES "Odd Schema"."T ""1" (b, a) ON DELETE SET NULL (b) ON UPDATE RESTRICT;
CREATE FUNCTION "Odd Schema"."Fires"() RETURNS pg_catalog.trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER a BEFORE INSERT OR UPDATE OF email, note ON app.users FOR EACH ROW WHEN (NEW.email <> 'a (on)') EXECUTE FUNCTION app.fires('execute function x');
CREATE TRIGGER "B or" AFTER TRUNCATE OR DELETE ON app.users EXECUTE PROCEDURE "Odd Schema"."Fires"();
CREATE CONSTRAINT TRIGGER c AFTER DELETE ON app.orders FROM app.users DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION app.fires();
CREATE TRIGGER d INSTEAD OF INSERT ON app.checked FOR EACH ROW EXECUTE FUNCTION app.fires();
CREATE TRIGGER e BEFORE UPDATE ON app.users FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE TRIGGER each AFTER UPDATE ON app.events REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION app.fires();
CREATE TRIGGER parts AFTER INSERT ON app.events FOR EACH ROW EXECUTE FUNCTION app.fires();
CREATE TRIGGER off AFTER DELETE ON app.events FOR EACH ROW EXECUTE FUNCTION "Odd Schema"."Fires"();
ALTER TABLE app.events DISABLE TRIGGER off; ALTER TABLE app.events_day ENABLE TRIGGER off;
CREATE TABLE app.events_2028 PARTITION OF app.events FOR VALUES FROM ('2028-01-01') TO ('2029-01-01');
CREATE TRIGGER gone AFTER DELETE ON app.orders EXECUTE FUNCTION app.fires(); DROP TRIGGER gone ON app.orders;
CREATE TRIGGER replica AFTER UPDATE ON app.orders EXECUTE FUNCTION app.fires(); ALTER TABLE app.orders ENABLE REPLICA TRIGGER replica;
CREATE OR REPLACE TRIGGER replica AFTER INSERT ON app.orders EXECUTE FUNCTION app.fires();
CREATE RULE noted AS ON UPDATE TO app.orders WHERE NEW.x > 1 DO ALSO INSERT INTO app.bare DEFAULT VALUES;
CREATE RULE "No" AS ON DELETE TO app.named DO INSTEAD NOTHING; ALTER RULE "No" ON app.named RENAME TO never;
CREATE OR REPLACE VIEW app.named AS SELECT u.id, u.email AS label, u.note::varchar(3) AS short FROM app.users u;
CREATE TABLE app.keyed (a int, b int DEFAULT 3, c text COLLATE "C" DEFAULT NULL, d text, e int4range, f int NOT NULL DEFAULT 1 UNIQUE, g int, "Odd C" int,
    h serial UNIQUE, CONSTRAINT keyed_named UNIQUE (a, b) DEFERRABLE, UNIQUE NULLS NOT DISTINCT (b, a), UNIQUE (c) INCLUDE (d),
    EXCLUDE USING gist (e WITH &&) WHERE (b > 0), PRIMARY KEY ("Odd C", f));
CREATE UNIQUE INDEX ON app.keyed (d);
CREATE UNIQUE INDEX lowered ON app.keyed USING btree (lower(d), a DESC NULLS LAST);
CREATE UNIQUE INDEX partly ON app.keyed (g) WHERE a IS NULL AND "Odd C" > 1;
CREATE UNIQUE INDEX collated ON app.keyed (d COLLATE "C");
CREATE UNIQUE INDEX classed ON app.keyed (d text_pattern_ops);
CREATE UNIQUE INDEX IF NOT EXISTS gone ON app.keyed (g); DROP INDEX app.gone;
CREATE UNIQUE INDEX renamed_key ON app.keyed (g); ALTER INDEX app.renamed_key RENAME TO other;
CREATE UNIQUE INDEX used ON app.keyed (e); ALTER TABLE app.keyed ADD CONSTRAINT using_it UNIQUE USING INDEX used;
ALTER TABLE app.keyed ADD UNIQUE (g, h), ADD CONSTRAINT dropped UNIQUE (h, g); ALTER TABLE app.keyed DROP CONSTRAINT dropped;
ALTER TABLE app.keyed RENAME CONSTRAINT keyed_named TO renamed_too; ALTER TABLE app.keyed RENAME COLUMN g TO gg;
ALTER TABLE app.keyed ALTER COLUMN b DROP DEFAULT, ALTER COLUMN a SET DEFAULT 1;
CREATE TABLE app.like_keyed (LIKE app.keyed INCLUDING ALL);
CREATE TABLE app.filled (a int DEFAULT -1, b text DEFAULT 'it''s', c varchar(3) DEFAULT 'abc' NOT NULL, d boolean DEFAULT true, e numeric(6,2) DEFAULT 5.50,
    f app.mood DEFAULT 'sad', g app.email DEFAULT 'a@b', h app.email, i text DEFAULT NULL, j text DEFAULT lower('A'), k text CONSTRAINT said DEFAULT 'x'::text,
    l int GENERATED BY DEFAULT AS IDENTITY, m smallserial, n date DEFAULT '2026-01-01', o uuid DEFAULT '00000000-0000-4000-8000-000000000001',
    p bigint DEFAULT '7', q text, r int DEFAULT (1 + 2), s text DEFAULT 'a' || 'b', t int GENERATED ALWAYS AS (1) STORED);
CREATE TABLE app.filled_like (LIKE app.filled);
CREATE TABLE app.filled_all (LIKE app.filled INCLUDING ALL);
CREATE TABLE app.filled_child (a int DEFAULT 5, q text, z int DEFAULT 1) INHERITS (app.filled);
ALTER TABLE app.filled ALTER b SET DEFAULT 'other', ALTER COLUMN e DROP DEFAULT, ALTER p TYPE int, ALTER t DROP EXPRESSION, ADD COLUMN u text DEFAULT 'late';
ALTER TABLE ONLY app.filled ALTER d SET DEFAULT false;
CREATE TABLE app.filled_as AS SELECT a, b AS renamed FROM app.filled;
CREATE TABLE app.split (a int, b int UNIQUE, UNIQUE (a, b), UNIQUE (a)) ;
CREATE TABLE app.whole (a int, b int, PRIMARY KEY (a), UNIQUE (a, b)) PARTITION BY RANGE (a);
CREATE TABLE app.whole_1 PARTITION OF app.whole FOR VALUES FROM (1) TO (9);
CREATE RULE off AS ON INSERT TO app.orders DO INSTEAD NOTHING; ALTER TABLE app.orders DISABLE RULE off;
"#;

/// Every difference between what a server says and what a text says, one line each. What is left out is what a text
/// cannot say, each with its reason where it stands.
fn differences(server: &Catalog, text: &Catalog) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: String, server: String, text: String| {
        if server != text {
            found.push(format!("{what}: `{server}`, by text `{text}`"));
        }
    };
    let uids = |catalog: &Catalog| -> BTreeSet<String> {
        catalog.relations().iter().map(|r| r.uid.clone()).collect()
    };
    let (theirs, ours) = (uids(server), uids(text));
    compare(
        "relations".to_owned(),
        format!("{:?}", theirs.difference(&ours).collect::<Vec<_>>()),
        format!("{:?}", ours.difference(&theirs).collect::<Vec<_>>()),
    );
    for one in server.relations() {
        let Some(other) = text.find(&one.schema, &one.name) else {
            continue;
        };
        let parents = |catalog: &Catalog, relation: &Relation| {
            let uid = |id| catalog.relation(id).unwrap().uid.clone();
            format!(
                "{:?}",
                relation
                    .parents
                    .iter()
                    .map(|id| uid(*id))
                    .collect::<Vec<_>>()
            )
        };
        let facts = |catalog: &Catalog, r: &Relation| {
            // The server names the keys to partitions as it makes them.
            let mut keys: Vec<String> = r.foreign_keys.iter().map(|k| format!("{k:?}")).collect();
            keys.sort();
            format!(
                "{:?} key {:?} parents {} foreign {:?} triggers {:?} has definition {}",
                r.kind,
                r.primary_key,
                parents(catalog, r),
                keys,
                r.triggers,
                r.definition.is_some()
            )
        };
        compare(one.uid.clone(), facts(server, one), facts(text, other));
        let is_view = one.kind != RelationKind::Table;
        let columns = |r: &Relation| -> Vec<String> {
            r.columns
                .iter()
                .zip(&other.columns)
                .map(|(c, by_text)| {
                    // Of what a view or `CREATE TABLE AS` computes, the text does not say the type.
                    let typed = (!by_text.type_name.is_empty()).then_some((&c.type_name, c.class));
                    // An expression is printed anew by the server.
                    let generated = c.generated.is_some();
                    // A computed column's collation is its type's.
                    let collation = (!is_view).then_some(&c.collation);
                    // What the text does not tell is not known.
                    let filled = (by_text.filled != DefaultValue::Unknown).then_some(&c.filled);
                    format!(
                        "{} {typed:?} {} {collation:?} {generated} {filled:?}",
                        c.name, c.nullable
                    )
                })
                .chain([format!("{} columns", r.columns.len())])
                .collect()
        };
        let (theirs, ours) = (columns(one), columns(other));
        for (their, our) in theirs.into_iter().zip(ours) {
            compare(format!("{} column", one.uid), their, our);
        }
        let keys = |r: &Relation| -> Option<Vec<String>> {
            let mut keys: Vec<String> = (r.unique_keys.as_ref()?.iter())
                .map(|key| {
                    let known = other.unique_keys.iter().flatten();
                    // What is made anew with a table that is like another is called as the server likes.
                    let name = known
                        .clone()
                        .all(|key| key.name.is_some())
                        .then_some(&key.name);
                    let filled = key.plain.then_some(&key.filled);
                    format!(
                        "{:?} {filled:?} {:?} {} {name:?}",
                        key.columns, key.equal, key.plain
                    )
                })
                .collect();
            keys.sort();
            // Two that differ in nothing but their names.
            keys.dedup();
            Some(keys)
        };
        compare(
            format!("{} unique", one.uid),
            format!("{:#?}", keys(one)),
            format!("{:#?}", keys(other)),
        );
    }
    let types = |catalog: &Catalog| -> BTreeSet<String> {
        catalog
            .types()
            .iter()
            .map(|t| {
                let kind = match &t.kind {
                    TypeKind::Domain { base, check } => format!("{base} {}", check.is_some()),
                    other => format!("{other:?}"),
                };
                format!("{}.{} {:?} {kind}", t.schema, t.name, t.extension)
            })
            .collect()
    };
    let (theirs, ours) = (types(server), types(text));
    compare(
        "types".to_owned(),
        format!("{:?}", theirs.difference(&ours).collect::<Vec<_>>()),
        format!("{:?}", ours.difference(&theirs).collect::<Vec<_>>()),
    );
    // The registry has every version of an extension, the server one; which classes they have is the registry's.
    let extensions = |f: &palisade::catalog::functions::FunctionDef| {
        f.safety != palisade::catalog::functions::Safety::Unknown
    };
    let routines = |catalog: &Catalog| -> BTreeSet<String> {
        let own = catalog.functions().iter().filter(|f| !extensions(f));
        own.map(|f| {
            format!(
                "{} {:?} {} {:?} {:?}",
                f.uid, f.kinds, f.min_args, f.max_args, f.columns
            )
        })
        .collect()
    };
    let (theirs, ours) = (routines(server), routines(text));
    compare(
        "routines".to_owned(),
        format!("{:#?}", theirs.difference(&ours).collect::<Vec<_>>()),
        format!("{:#?}", ours.difference(&theirs).collect::<Vec<_>>()),
    );
    // An extension's operators are not known by text, and with that do not exist.
    let operators = |catalog: &Catalog| -> BTreeSet<String> {
        (catalog.operators().iter())
            .filter(|o| {
                !catalog
                    .functions()
                    .iter()
                    .any(|f| f.uid == o.function && extensions(f))
            })
            .map(|o| format!("{o:?}"))
            .collect()
    };
    let (theirs, ours) = (operators(server), operators(text));
    let ours: BTreeSet<_> = ours.difference(&theirs).collect();
    compare("operators".to_owned(), "{}".to_owned(), format!("{ours:?}"));
    let casts = |catalog: &Catalog| -> BTreeSet<String> {
        let casts = catalog.casts().iter().map(|cast| format!("{cast:?}"));
        casts.collect()
    };
    let (theirs, ours) = (casts(server), casts(text));
    let ours: BTreeSet<_> = ours.difference(&theirs).collect();
    compare("casts".to_owned(), "{}".to_owned(), format!("{ours:?}"));
    compare(
        "search path".to_owned(),
        format!("{:?}", server.search_path()),
        format!("{:?}", text.search_path()),
    );
    found
}

async fn by_server(server: &palisade_testkit::servers::Server, database: &str) -> Catalog {
    let client = palisade_postgres::connect(&server.url(database))
        .await
        .unwrap();
    palisade_postgres::catalog(&client).await.unwrap()
}

/// What `pg_dump` prints of a database.
fn dump(url: &str) -> String {
    let output = Command::new("pg_dump")
        .arg("--schema-only")
        .arg(url)
        .output()
        .expect("pg_dump stands beside psql");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_text_says_what_a_server_says() {
    let server = PostgresServer::start_shared().unwrap();
    let database = server.fresh_database("ddl").unwrap();
    server.load(&database, SCRIPT).unwrap().clean().unwrap();
    let live = by_server(server, &database).await;
    let text = palisade_ddl::postgres(SCRIPT, &database).unwrap_or_else(|e| panic!("{e}"));
    let found = differences(&live, &text);
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(live.relations().len() > 15 && live.functions().len() > 30);
    let filled = |catalog: &Catalog, name: &str| -> String {
        let relation = catalog.find("app", name).unwrap();
        let known = relation
            .columns
            .iter()
            .filter(|c| c.filled != DefaultValue::Unknown);
        known.map(|c| &*c.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(filled(&live, "filled"), "a b c d e f g i k o p q t u");
    assert_eq!(filled(&text, "filled"), "a b c d e f g i k o q t u");
    assert_eq!(
        filled(&live, "filled_child"),
        "a b c d e f g i k l o p q t z u"
    );
    assert_eq!(filled(&text, "filled_child"), "a b c d e f g i k o q t z u");
    assert_eq!(filled(&text, "filled_as"), "a renamed");

    let dump = dump(&server.url(&database));
    let text = palisade_ddl::postgres(&dump, &database).unwrap_or_else(|e| panic!("{e}\n{dump}"));
    // Beside the database that the dump makes: a column that a parent got later stands elsewhere in its children there.
    let restored = server.fresh_database("restored").unwrap();
    server.load(&restored, &dump).unwrap().clean().unwrap();
    let live = by_server(server, &restored).await;
    let found = differences(&live, &text);
    assert!(found.is_empty(), "{}\n{dump}", found.join("\n"));
    // A dump has views as the server prints them.
    for relation in live.relations() {
        let words = |catalog: &Catalog| {
            let found = catalog.find(&relation.schema, &relation.name).unwrap();
            let text = found.definition.clone().unwrap_or_default();
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&live), words(&text), "{}", relation.uid);
    }
}

/// Over the schemas of the folder that `PALISADE_EVAL` names: each is loaded, and its catalogs compared.
#[tokio::test]
#[ignore = "needs the folder of public schemas in PALISADE_EVAL"]
async fn texts_of_the_evaluation() {
    let folder = std::env::var("PALISADE_EVAL").unwrap();
    let server = PostgresServer::start_shared().unwrap();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(PathBuf::from(folder).join("schemas"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("pgregress__") || name == "bypass__postgres.sql"
        })
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let (mut same, mut different) = (0, Vec::new());
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let script = std::fs::read_to_string(path).unwrap();
        let text = match palisade_ddl::postgres(&script, "d") {
            Ok(text) => text,
            Err(error) => {
                different.push(format!("{name}: {error}"));
                continue;
            }
        };
        let database = server.fresh_database("evalddl").unwrap();
        // Their statements that a server does not take are left out by it; the catalogs tell.
        let _failed = server.load(&database, &script).unwrap();
        let found = differences(&by_server(server, &database).await, &text);
        if found.is_empty() {
            same += 1;
        } else {
            different.push(format!("{name}:\n  {}", found.join("\n  ")));
        }
    }
    eprintln!("{same} of {} schemas give the same catalog", paths.len());
    // The share only goes up; what differs is said below.
    eprintln!("{}", different.join("\n"));
    assert!(same * 10 >= paths.len() * 9, "{same} of {}", paths.len());
}
