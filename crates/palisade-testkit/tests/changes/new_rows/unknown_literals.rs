//! Constants without a type, in a query whose rows policy looks at: PostgreSQL gives them the type of what they are assigned to, and
//! so it is with what stands around the query.

use super::*;
use palisade_testkit::fixture::policy_sources;

use crate::database::TestDatabase;

/// Types, each with a text that is a value of it.
const TYPES: &[(&str, &str)] = &[
    ("int[]", "{1}"),
    ("varchar(3)[]", "{a}"),
    ("uuid[]", "{}"),
    ("mood[]", "{a}"),
    ("\"Odd\".pair", "(1,a)"),
    ("\"Odd\".pair[]", "{}"),
    ("span", "[1,2)"),
    ("spans", "[1,2)"),
    ("int4range", "[1,2)"),
    ("int4multirange", "{[1,2)}"),
    ("tsvector", "a"),
    ("tsquery", "a"),
    ("xml", "<a/>"),
    ("money", "1"),
    ("bit(3)", "101"),
    ("bit(3)[]", "{101}"),
    ("varbit", "101"),
    ("oid", "1"),
    ("point", "(1,2)"),
    ("box", "(1,2),(3,4)"),
    ("pg_lsn", "0/0"),
    ("jsonpath", "$"),
    ("char(3)[]", "{a}"),
    ("\"char\"[]", "{a}"),
    ("numeric(4,1)[]", "{1.25}"),
    ("timestamp(3)[]", "{2026-01-02}"),
];

#[tokio::test]
async fn on_postgres_constants_have_the_type_of_their_column() {
    let mut script = "
        CREATE SCHEMA \"Odd\"; CREATE TYPE mood AS ENUM ('a'); CREATE TYPE \"Odd\".pair AS (x int, y text);
        CREATE TYPE span AS RANGE (subtype = int8); CREATE DOMAIN spans AS span NOT NULL CHECK (NOT isempty(VALUE));
        CREATE TABLE given (id int); INSERT INTO given VALUES (1);"
        .to_owned();
    for (at, (name, _)) in TYPES.iter().enumerate() {
        script += &format!("CREATE TABLE items{at} (id int, tenant int, c {name});");
    }
    script += "CREATE TABLE items (id int, tenant int);";
    let database = TestDatabase::postgres("untyped", &script);
    for (at, (name, text)) in TYPES.iter().enumerate() {
        let backend = database.postgres_backend().await;
        let policies = format!(
            "permit(principal, action, resource);\n\
             forbid(principal, action == Action::\"add\", resource is row::public::items{at}) unless {{ resource has tenant && resource.tenant == 1 }};"
        );
        let gate = changing_gate(backend, policy_sources(policies));
        let sql = |value: &str| -> &'static str {
            let sql =
                format!("INSERT INTO items{at} (id, tenant, c) SELECT id, id, {value} FROM given");
            sql.leak()
        };
        let mut cases = vec![(sql(&format!("'{text}'")), json!(null), Ok(1))];
        // What has no room is refused, and not cut off.
        if name.starts_with("bit") || name.contains("char(") {
            let long = text.replace("101", "10101").replace("a", "abcde");
            cases.push((
                sql(&format!("'{long}'")),
                json!(null),
                Err("database.rejected"),
            ));
        }
        cases.push(match *name {
            "spans" => (sql("NULL"), json!(null), Err("database.constraint")),
            _ => (sql("NULL"), json!(null), Ok(1)),
        });
        run(&gate, &cases).await;
    }
}
