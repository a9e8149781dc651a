//! The whole way: decided by policy, rewritten, run, scanned.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{sync::Arc, time::Duration};

use palisade::{
    audit::NoAudit,
    firewall::Firewall,
    guard::Guard,
    host::Host,
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
    value::{Params, Value},
};
use palisade_postgres::{PostgresBackend, PostgresConfig, SettingName};
use palisade_testkit::servers::PostgresServer;

const SCHEMA: &str = "
    CREATE SCHEMA app; CREATE SCHEMA hr;
    CREATE TYPE app.mood AS ENUM ('sad', 'ok');
    CREATE TABLE app.users (id uuid PRIMARY KEY, name text NOT NULL, ssn varchar(11), password text, tenant_id int NOT NULL,
        balance numeric(12,2), big bigint, mood app.mood, joined timestamptz, tags text[], extra jsonb);
    CREATE TABLE app.events (user_id uuid REFERENCES app.users, at date NOT NULL, what text) PARTITION BY RANGE (at);
    CREATE TABLE app.events_2026 PARTITION OF app.events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
    CREATE TABLE hr.users (id int, salary int);
    CREATE VIEW app.directory AS SELECT id, name AS n, ssn AS s FROM app.users;
    INSERT INTO app.users VALUES
      ('00000000-0000-4000-8000-000000000001', 'ann', '123-45-6789', 'hunter2', 1, 1234567890.25, 9007199254740993, 'ok',
       '2026-01-02 03:04:05+01', '{a,\"b c\"}', '{\"k\": [1]}'),
      ('00000000-0000-4000-8000-000000000002', 'bob', '987-65-4321', 'secret', 2, NULL, NULL, 'sad', NULL, NULL, NULL),
      ('00000000-0000-4000-8000-000000000003', 'eve', NULL, 'x', 1, 0, 5, NULL, NULL, NULL, NULL);
    INSERT INTO app.events SELECT id, '2026-05-06', name || ' came' FROM app.users;
";

const POLICIES: &str = r#"
permit(principal, action, resource)
unless { resource is Table && resource == Table::"hr.users" };
@mask("last(4)")
forbid(principal, action == Action::"read_plain", resource == Column::"app.users.ssn");
forbid(principal, action in Action::"read", resource == Column::"app.users.password");
forbid(principal, action == Action::"see", resource is row::app::users)
unless { resource has tenant_id && resource.tenant_id == 1 };
"#;

#[derive(Debug)]
struct Fixed;

impl Host for Fixed {
    fn unix_time(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}

async fn guard() -> Guard {
    guard_with("", |config| config).await
}

async fn guard_with(more: &str, configure: impl FnOnce(PostgresConfig) -> PostgresConfig) -> Guard {
    guard_over(SCHEMA, more, configure).await
}

async fn guard_over(
    schema: &str,
    more: &str,
    configure: impl FnOnce(PostgresConfig) -> PostgresConfig,
) -> Guard {
    let server = PostgresServer::start_shared().unwrap();
    let database = server.fresh_database("guard").unwrap();
    server.load(&database, schema).unwrap().clean().unwrap();
    let role = format!("reader_{database}");
    server
        .query(
            &database,
            &format!(
                "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA app, hr TO {role};
                 GRANT SELECT ON ALL TABLES IN SCHEMA app, hr, public TO {role}"
            ),
        )
        .unwrap();
    let config = PostgresConfig::from_url(&server.url_as(&role, &database)).unwrap();
    let backend = PostgresBackend::connect(configure(config)).await.unwrap();
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: format!("{POLICIES}{more}"),
        }],
        ..PolicySources::default()
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .build()
        .unwrap_or_else(|e| panic!("{e}"));
    Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Fixed),
        Arc::new(NoAudit),
    )
}

/// The rows as JSON, or the code of the refusal and what the operator is told.
async fn ask(guard: &Guard, sql: &str, params: Params) -> String {
    let session = Session::new(Principal::new("Agent", "a"));
    match guard.query(sql, &params, &session).await.into_result() {
        Ok(envelope) => {
            let json: serde_json::Value = serde_json::to_value(&envelope).unwrap();
            json["rows"].to_string()
        }
        Err(refusal) => format!(
            "{:?} {}",
            refusal.rejection.code(),
            refusal.rejection.operator_detail().unwrap_or_default()
        ),
    }
}

#[tokio::test]
async fn policies_hold_on_a_real_database() {
    let guard = guard().await;
    let check = async |sql: &str, expected: &str| {
        assert_eq!(ask(&guard, sql, Params::None).await, expected, "{sql}");
    };
    // The row filter, the mask, the hidden column.
    check(
        "SELECT name, ssn FROM app.users ORDER BY name",
        r#"[{"name":"ann","ssn":"****6789"},{"name":"eve","ssn":null}]"#,
    )
    .await;
    check(
        "SELECT * FROM app.users WHERE name = 'ann'",
        r#"[{"id":"00000000-0000-4000-8000-000000000001","name":"ann","ssn":"****6789","tenant_id":1,"balance":"1234567890.25","big":"9007199254740993","mood":"ok","joined":"2026-01-02 02:04:05+00","tags":"{a,\"b c\"}","extra":"{\"k\": [1]}"}]"#,
    )
    .await;
    check("SELECT password FROM app.users", "NameUnknownColumn ").await;
    check(
        "SELECT n, s FROM app.directory ORDER BY n",
        r#"[{"n":"ann","s":"****6789"},{"n":"eve","s":null}]"#,
    )
    .await;
    // Conditions see what is masked.
    let probe = "SELECT count(*) FROM app.users WHERE ssn = '123-45-6789'";
    check(probe, r#"[{"count":0}]"#).await;
    check(
        "SELECT salary FROM hr.users",
        "NameUnknownRelation `hr.users` exists; no policy permits `select` or `discover` of it to Agent::\"a\" (in no role)",
    )
    .await;
    check(
        "SELECT u.name, e.what FROM app.users u JOIN app.events e ON e.user_id = u.id ORDER BY 1",
        r#"[{"name":"ann","what":"ann came"},{"name":"eve","what":"eve came"}]"#,
    )
    .await;
    check(
        "SELECT count(*) FROM app.users WHERE id = '00000000-0000-4000-8000-000000000001'",
        r#"[{"count":1}]"#,
    )
    .await;
    check(
        "SELECT mood, sum(balance) FROM app.users GROUP BY mood ORDER BY mood NULLS LAST",
        r#"[{"mood":"ok","sum":"1234567890.25"},{"mood":null,"sum":"0.00"}]"#,
    )
    .await;
    check("DELETE FROM app.users", "StatementNotAllowed ").await;
    check(
        "SELECT pg_sleep(1)",
        "FunctionNotAllowed this policy would permit it: `permit (principal == Agent::\"a\", action == Action::\"call\", resource == Function::\"pg_catalog.pg_sleep\");`",
    )
    .await;
    let other = "SELECT set_config('app.user', 'Agent::\"b\"', true)";
    check(
        other,
        "FunctionNotAllowed this policy would permit it: `permit (principal == Agent::\"a\", action == Action::\"call\", resource == Function::\"pg_catalog.set_config\");`",
    )
    .await;
    // What only the server can know reaches the operator, and the agent as a code.
    check(
        "SELECT 1 / (tenant_id - 1) FROM app.users",
        "DatabaseRejected 22012 division by zero",
    )
    .await;
    let params = Params::Positional(vec![Value::text("ann"), Value::Integer(1)]);
    let sql = "SELECT name FROM app.users WHERE name = $1 AND tenant_id = $2";
    assert_eq!(ask(&guard, sql, params).await, r#"[{"name":"ann"}]"#);
}

/// Even a policy that permits it by name lets no statement change whom the server takes it for.
/// What a NATURAL join merges comes in the order in which the join before it lists its columns.
#[tokio::test]
async fn joins_after_joins_list_their_columns_as_the_server_does() {
    let guard = guard().await;
    let b = "(SELECT 1 AS z, 'a' AS x, 1 AS id) AS b";
    let c = "(SELECT 1 AS id, 3 AS w) AS c";
    let a = "(SELECT 2 AS own, 'a' AS x, 1 AS id) AS a";
    for (from, rows) in [
        (
            format!("{b} JOIN {c} USING (id) NATURAL JOIN {a}"),
            r#"[{"id":1,"x":"a","z":1,"w":3,"own":2}]"#,
        ),
        (
            format!("{c}, {b} JOIN {c}2 USING (id) NATURAL LEFT JOIN {a}"),
            r#"[{"id":1,"w":3,"id_2":1,"x":"a","z":1,"w_2":3,"own":2}]"#,
        ),
        (
            format!("({b} NATURAL RIGHT JOIN {c}) NATURAL FULL JOIN {a}"),
            r#"[{"id":1,"x":"a","z":1,"w":3,"own":2}]"#,
        ),
        (
            format!("{b} NATURAL JOIN {a}"),
            r#"[{"x":"a","id":1,"z":1,"own":2}]"#,
        ),
    ] {
        let told = ask(&guard, &format!("SELECT * FROM {from}"), Params::None).await;
        assert_eq!(told, rows, "{from}");
    }
}

#[tokio::test]
async fn who_asks_is_not_for_statements_to_change() {
    let permit = r#"permit(principal, action == Action::"call", resource == Function::"pg_catalog.set_config");"#;
    let sql = "SELECT set_config('app.user', 'x', true) AS told";
    let free = guard_with(permit, |config| config).await;
    assert_eq!(ask(&free, sql, Params::None).await, r#"[{"told":"x"}]"#);
    let name = SettingName::parse("app.user").unwrap();
    let handing = guard_with(permit, |config| config.hand_principal(name)).await;
    let told = ask(&handing, sql, Params::None).await;
    assert_eq!(
        told,
        "Internal the statement may change for whom the server takes it"
    );
}

/// Operators of a database's own types are no business of statements without such values: here they raise.
#[tokio::test]
async fn operators_of_own_types_are_asked_for_where_values_of_them_are() {
    let more = r#"
        CREATE TYPE public.rank AS ENUM ('low', 'high');
        CREATE FUNCTION public.raises(public.rank, public.rank) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
            AS 'BEGIN RAISE EXCEPTION ''called''; END';
        CREATE FUNCTION public.first_rank() RETURNS public.rank LANGUAGE sql AS 'SELECT ''low''::public.rank';
        CREATE OPERATOR public.= (leftarg = public.rank, rightarg = public.rank, function = public.raises);
        CREATE OPERATOR public.<> (leftarg = public.rank, rightarg = public.rank, function = public.raises);
        CREATE DOMAIN public.ranks AS public.rank;
        CREATE TYPE public.pair AS (a public.rank, b int);
        CREATE TABLE public.plain (id int PRIMARY KEY, word varchar(9), at timestamptz, many int[], raw bytea);
        CREATE TABLE public.ranked (id int PRIMARY KEY, own public.rank);
        CREATE TABLE public.paired (id int PRIMARY KEY, both_of public.pair);
        CREATE VIEW public.seen AS SELECT id, own FROM public.ranked;
        INSERT INTO public.plain VALUES (1, 'a', now(), '{1,2}', 'x');
        INSERT INTO public.ranked VALUES (1, 'low');
        INSERT INTO public.paired VALUES (1, ROW('low', 1));
    "#;
    let guard = guard_over(&format!("{SCHEMA}{more}"), "", |config| config).await;
    for sql in [
        "SELECT id FROM plain WHERE id = 1 AND word = 'a' AND at <> '2020-01-01'",
        "SELECT id FROM plain WHERE id IN (1, 2) AND 'a' = 'a' AND 1 = 1",
        "SELECT id FROM plain WHERE 1 = ANY (many) AND raw = 'x' AND (word, id) = ('a', 1)",
        "SELECT a.id FROM plain a JOIN plain b USING (id) WHERE CASE a.word WHEN 'a' THEN true END",
        "SELECT id FROM plain WHERE word = (SELECT 'a'::text) AND NULLIF(id, 2) = 1",
    ] {
        let told = ask(&guard, sql, Params::None).await;
        assert_eq!(told, r#"[{"id":1}]"#, "{sql}");
    }
    for sql in [
        "SELECT id FROM ranked WHERE own = 'low'",
        "SELECT id FROM plain WHERE 'low'::rank = 'low'",
        "SELECT id FROM plain WHERE id = 1 AND CAST('low' AS public.rank) <> 'high'",
        "SELECT id FROM plain WHERE 'low' = ANY (ARRAY['low'::rank])",
        "SELECT id FROM seen WHERE own IN ('low', 'high')",
        "SELECT id FROM paired WHERE (both_of).a = 'low'",
        "SELECT x.own = 'low' AS e FROM (SELECT own FROM ranked) x",
        "WITH x AS (SELECT 'low'::rank AS own) SELECT own = 'low' AS e FROM x",
        "SELECT id FROM plain WHERE first_rank() = 'low'",
        "SELECT id FROM plain WHERE ('{low}'::rank[])[1] = 'low'",
        "SELECT a = 'low' AS e FROM json_to_record('{\"a\": \"low\"}') AS x (a rank)",
        "SELECT a = 'low' AS e FROM json_to_recordset('[{\"a\": \"low\"}]') AS x (a rank)",
        "SELECT (json_populate_record(NULL::pair, '{\"a\": \"low\"}')).a = 'low' AS e",
        "SELECT enum_first(NULL::rank) = 'low' AS e",
        "SELECT x.a = 'low' AS e FROM XMLTABLE('/r' PASSING '<r><a>low</a></r>'::xml COLUMNS a rank PATH 'a') AS x",
        "SELECT 'low'::ranks = 'low' AS e",
    ] {
        let told = ask(&guard, sql, Params::None).await;
        assert!(told.starts_with("FunctionNotAllowed "), "{sql}: {told}");
    }
}

/// Of operators, casts and functions that a database adds, those count as called that the operands let the engine choose: here
/// all of them raise.
#[tokio::test]
async fn what_operands_rule_out_is_not_asked_for() {
    let raises = |name: &str, of: &str, gives: &str| {
        format!(
            "CREATE FUNCTION public.{name}({of}) RETURNS {gives} LANGUAGE plpgsql IMMUTABLE \
             AS 'BEGIN RAISE EXCEPTION ''called''; END';\n"
        )
    };
    let more = [
        "CREATE TYPE public.rank AS ENUM ('low', 'high');
         CREATE TYPE public.code AS (a int);
         CREATE DOMAIN public.pair AS int[];",
        &raises("mixed", "bigint, text", "boolean"),
        &raises("pairs", "public.pair, public.pair", "boolean"),
        &raises("joined", "text, text", "text"),
        &raises("rank_text", "public.rank", "text"),
        &raises("text_rank", "text", "public.rank"),
        &raises("lower", "public.rank", "text"),
        &raises("lower", "public.code", "text"),
        &raises("round", "text", "text"),
        "CREATE OPERATOR public.= (leftarg = bigint, rightarg = text, function = public.mixed);
         CREATE OPERATOR public.<> (leftarg = bigint, rightarg = text, function = public.mixed);
         CREATE OPERATOR public.= (leftarg = public.pair, rightarg = public.pair, function = public.pairs);
         CREATE OPERATOR public.+ (leftarg = text, rightarg = text, function = public.joined);
         CREATE CAST (public.rank AS text) WITH FUNCTION public.rank_text(public.rank) AS IMPLICIT;
         CREATE TABLE public.plain (id int PRIMARY KEY, word varchar(9), at timestamptz, many int[], flag boolean);
         CREATE TABLE public.ranked (id int PRIMARY KEY, own public.rank, word text);
         INSERT INTO public.plain VALUES (1, 'a', now(), '{1,2}', true);
         INSERT INTO public.ranked VALUES (1, 'low', 'a');",
    ]
    .concat();
    let policies = r#"
        permit (principal, action in [Action::"update", Action::"insert", Action::"write", Action::"change", Action::"add"], resource);
    "#;
    let guard = guard_over(&format!("{SCHEMA}{more}"), policies, |config| config).await;
    for sql in [
        "SELECT id FROM plain WHERE id = 1 AND word = word::text AND at > '2020-01-01' AND flag = true",
        "SELECT id FROM plain WHERE id IN (1, 2) AND id <> 3 AND id + 0 = 1 AND id = '1'",
        "SELECT id FROM plain WHERE length(lower(word)) = 1 AND round(id * 1.5) = 2",
        "SELECT a.id FROM plain a JOIN plain b USING (id) WHERE CASE a.id WHEN 1 THEN true END",
        "SELECT id FROM plain WHERE coalesce(id, 0) = 1 AND nullif(id, 2) = 1 AND length(word) + 1 = 2",
        "SELECT id FROM plain GROUP BY id HAVING count(*) = 1",
        "SELECT id FROM plain WHERE flag = (word IS NOT NULL)",
        "SELECT id FROM plain WHERE NOT (id = 2 OR at = '2020-01-01')",
    ] {
        let told = ask(&guard, sql, Params::None).await;
        assert_eq!(told, r#"[{"id":1}]"#, "{sql}");
    }
    for sql in [
        // The engine would choose them.
        "SELECT id FROM plain WHERE id = word",
        "SELECT id FROM plain WHERE id = CASE WHEN flag THEN 'a' ELSE 'b' END",
        "SELECT id FROM plain WHERE id IN (2, word)",
        "SELECT id FROM plain WHERE id = (SELECT 'a'::text)",
        "SELECT id FROM plain WHERE id = ANY (ARRAY['a'::text])",
        "SELECT id FROM plain WHERE many = many",
        "SELECT word + 'x' AS e FROM plain",
        "SELECT word || 'x' + 'y' AS e FROM plain",
        "SELECT lower(own) AS e FROM ranked",
        "SELECT round(word) AS e FROM plain",
        "SELECT round(coalesce('a', 'b')) AS e FROM plain",
        "SELECT own::text AS e FROM ranked",
        "SELECT id FROM plain JOIN (SELECT 'a'::text AS id) x USING (id)",
        "SELECT CASE id WHEN 'a'::text THEN 1 END AS e FROM plain",
        "SELECT nullif(id, word) AS e FROM plain",
    ] {
        let told = ask(&guard, sql, Params::None).await;
        assert!(told.starts_with("FunctionNotAllowed "), "{sql}: {told}");
    }
}
