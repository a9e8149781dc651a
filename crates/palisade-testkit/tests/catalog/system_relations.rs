//! Relations of the servers' own, read through the gate by whom a permit names one.

use std::collections::BTreeMap;

use palisade::{
    catalog::{SystemClass, system_relation},
    dialect::Dialect,
    guard::Guard,
    ident,
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::{
    fixture::policy_sources,
    live::changing_gate,
    servers::{MariaDbServer, MySqlServer, Server},
};
use serde_json::Value;

use crate::database::TestDatabase;

const SCRIPT: &str = "
    CREATE TABLE people (id int PRIMARY KEY, name varchar(20), boss int);
    INSERT INTO people VALUES (1, 'ann', 1), (2, 'bob', 2);
    CREATE VIEW shown AS SELECT id, name FROM people;
    CREATE TABLE kept (id bigint, what varchar(200));
";

const EVERYTHING: &str = "permit (principal, action, resource);\n";

fn policies(text: &str) -> PolicySources {
    policy_sources(text)
}

/// A permit of `select` that names each of these.
fn naming<'n>(who: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let permit = |name: &str| {
        let name = name.replace('"', "\\\"");
        format!(
            "permit (principal == Agent::\"{who}\", action == Action::\"select\", resource == Table::\"{name}\");\n"
        )
    };
    names.into_iter().map(permit).collect()
}

/// The answer as JSON, or the code of the refusal and what the operator is told.
async fn ask(guard: &Guard, who: &str, sql: &str) -> Result<Value, String> {
    let session = Session::new(Principal::new("Agent", who));
    let outcome = if sql.starts_with("SELECT") {
        guard.query(sql, &Params::None, &session).await
    } else {
        guard.execute(sql, &Params::None, &session).await
    };
    match outcome.into_result() {
        Ok(envelope) => Ok(serde_json::to_value(&envelope).unwrap()),
        Err(refusal) => Err(format!(
            "{} {}",
            refusal.rejection.code().slug(),
            refusal.rejection.operator_detail().unwrap_or_default()
        )),
    }
}

/// Names of the columns of an answer, which has a row at least.
fn columns(answer: &Value) -> Vec<String> {
    assert!(answer["row_count"].as_u64().unwrap() > 0, "{answer}");
    column_names(answer)
}

/// Names of the columns of an answer.
fn column_names(answer: &Value) -> Vec<String> {
    let columns = answer["columns"].as_array().unwrap().iter();
    columns
        .map(|column| column["name"].as_str().unwrap().to_lowercase())
        .collect()
}

async fn postgres(label: &str, policies_text: &str, writable: bool) -> Guard {
    let database = TestDatabase::postgres(label, SCRIPT);
    let role = format!("reader_{database}");
    database.load(&format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO {role};"
    ));
    let mut config = PostgresConfig::from_url(&database.url_as(&role)).unwrap();
    if writable {
        config = config.writable();
    }
    let backend = PostgresBackend::connect(config).await.unwrap();
    changing_gate(backend, policies(policies_text))
}

async fn mysql(server: &'static Server, label: &str, text: &str) -> Guard {
    let database = TestDatabase::on(server, label, SCRIPT);
    let agent = format!("agent_{database}@'127.0.0.1'");
    database.load(&format!(
        "CREATE USER {agent}; GRANT SELECT, SHOW VIEW, INSERT, TRIGGER ON `{database}`.* TO {agent};
         GRANT SELECT (THREAD_ID, NAME) ON performance_schema.threads TO {agent};
         GRANT SELECT ON performance_schema.setup_consumers TO {agent};"
    ));
    let url = database.url_as(&format!("agent_{database}"));
    let config = MysqlConfig::from_url(&url).unwrap().writable();
    let backend = MysqlBackend::connect(config).await.unwrap();
    changing_gate(backend, policies(&text.replace("SCHEMA", database.name())))
}

#[tokio::test]
async fn postgres_shows_what_a_permit_names() {
    let text = format!(
        "{EVERYTHING}{}{}
         forbid (principal == Agent::\"auditor\", action in Action::\"read\", resource == Column::\"pg_catalog.pg_stat_activity.query\");
         forbid (principal == Agent::\"dba\", action == Action::\"see\", resource is row::public::people)
         unless {{ resource has boss && resource.boss == 1 }};",
        naming("dba", ["pg_catalog.pg_stat_activity", "pg_catalog.pg_roles"]),
        naming("auditor", ["pg_catalog.pg_stat_activity"]),
    );
    let guard = postgres("system", &text, true).await;
    let all = ask(&guard, "dba", "SELECT * FROM pg_stat_activity")
        .await
        .unwrap();
    assert!(columns(&all).contains(&"query".to_owned()), "{all}");
    let some = "SELECT * FROM pg_catalog.pg_stat_activity AS a WHERE a.pid > 0";
    let some = ask(&guard, "auditor", some).await.unwrap();
    assert!(!columns(&some).contains(&"query".to_owned()), "{some}");
    assert_eq!(columns(&some).len(), columns(&all).len() - 1);
    for whole in [
        "SELECT to_jsonb(a) AS j FROM pg_stat_activity AS a",
        "SELECT a AS j FROM pg_stat_activity AS a",
        "SELECT j FROM pg_stat_activity AS a, LATERAL (SELECT row_to_json(a) AS j) AS x",
    ] {
        let answer = ask(&guard, "auditor", whole).await.unwrap();
        columns(&answer);
        assert!(!answer["rows"].to_string().contains("SELECT"), "{answer}");
        assert!(!answer["rows"].to_string().contains("FETCH"), "{answer}");
    }
    let joined =
        "SELECT p.name FROM people AS p JOIN pg_stat_activity AS a ON a.pid > p.id GROUP BY 1";
    let joined = ask(&guard, "dba", joined).await.unwrap();
    assert_eq!(joined["rows"].to_string(), r#"[{"name":"ann"}]"#);
    let hidden = "SELECT rolname FROM pg_roles WHERE rolconfig IS NULL";
    let hidden = ask(&guard, "dba", hidden).await.unwrap_err();
    assert!(hidden.starts_with("name.unknown-column"), "{hidden}");
    let kept = "INSERT INTO kept SELECT pid, query FROM pg_stat_activity WHERE pid IS NOT NULL";
    let kept = ask(&guard, "dba", kept).await.unwrap();
    assert!(
        kept["affected_rows"].as_u64().unwrap_or_default() > 0,
        "{kept}"
    );
    for (who, sql) in [
        ("other", "SELECT pid FROM pg_stat_activity"),
        ("dba", "SELECT * FROM pg_authid"),
        ("dba", "SELECT * FROM pg_stats"),
        ("dba", "DELETE FROM pg_stat_activity"),
        ("dba", "SELECT * FROM pg_class"),
    ] {
        let refused = ask(&guard, who, sql).await.unwrap_err();
        assert!(
            refused.starts_with("name.system-relation"),
            "{sql}: {refused}"
        );
    }
    let names = ask(&guard, "other", "SELECT * FROM pg_class")
        .await
        .unwrap();
    assert!(columns(&names).contains(&"relname".to_owned()), "{names}");
    let told = guard.relations(&Session::new(Principal::new("Agent", "auditor")));
    let told = told.unwrap();
    let system: Vec<_> = told.iter().filter(|r| r.kind == "system").collect();
    assert_eq!(system.len(), 1);
    assert!(
        system[0]
            .columns
            .iter()
            .any(|c| c.name == "pid" && c.type_name == "integer")
    );
    assert!(system[0].columns.iter().all(|c| c.name != "query"));
}

async fn shows_what_a_permit_names(server: &'static Server) {
    let names = [
        "information_schema.processlist",
        "performance_schema.threads",
        "performance_schema.setup_consumers",
    ];
    let text = format!(
        "{EVERYTHING}{}{}
         forbid (principal == Agent::\"auditor\", action in Action::\"read\", resource in Table::\"information_schema.processlist\")
         unless {{ resource == Column::\"information_schema.processlist.id\" }};
         forbid (principal == Agent::\"dba\", action == Action::\"see\", resource is row::SCHEMA::people)
         unless {{ resource has boss && resource.boss == 1 }};",
        naming("dba", names),
        naming("auditor", ["information_schema.processlist"]),
    );
    let guard = mysql(server, "system", &text).await;
    let all = ask(
        &guard,
        "dba",
        "SELECT * FROM information_schema.processlist",
    )
    .await
    .unwrap();
    assert!(columns(&all).contains(&"info".to_owned()), "{all}");
    let spelled =
        "SELECT p.Id, user, p.`COMMAND` FROM INFORMATION_SCHEMA.PROCESSLIST AS p WHERE p.id > 0";
    let spelled = ask(&guard, "dba", spelled).await.unwrap();
    assert_eq!(spelled["columns"][0]["name"], "Id", "{spelled}");
    assert_eq!(spelled["columns"][1]["name"], "user", "{spelled}");
    let some = ask(
        &guard,
        "auditor",
        "SELECT * FROM information_schema.processlist",
    )
    .await
    .unwrap();
    assert_eq!(columns(&some), ["id"]);
    let merged = "SELECT * FROM information_schema.processlist AS a NATURAL JOIN information_schema.processlist AS b";
    assert_eq!(
        columns(&ask(&guard, "auditor", merged).await.unwrap()),
        ["id"]
    );
    let consumers = ask(
        &guard,
        "dba",
        "SELECT * FROM performance_schema.setup_consumers",
    )
    .await
    .unwrap();
    // MariaDB gathers nothing unless it is told to.
    assert_eq!(column_names(&consumers), ["name", "enabled"]);
    let threads = "SELECT thread_id, t.Name FROM performance_schema.threads AS t";
    ask(&guard, "dba", threads).await.unwrap();
    let joined = "SELECT p.name FROM people AS p JOIN information_schema.processlist AS a ON a.id > p.id - 10 GROUP BY p.name";
    let joined = ask(&guard, "dba", joined).await.unwrap();
    assert_eq!(joined["rows"].to_string(), r#"[{"name":"ann"}]"#);
    let kept = "INSERT INTO kept SELECT id, command FROM information_schema.processlist";
    let kept = ask(&guard, "dba", kept).await.unwrap();
    assert!(
        kept["affected_rows"].as_u64().unwrap_or_default() > 0,
        "{kept}"
    );
    for (who, sql) in [
        ("other", "SELECT id FROM information_schema.processlist"),
        ("dba", "SELECT * FROM mysql.user"),
        ("auditor", "SELECT * FROM performance_schema.threads"),
        ("dba", "DELETE FROM performance_schema.threads"),
        ("dba", "SELECT * FROM information_schema.tables"),
    ] {
        let refused = ask(&guard, who, sql).await.unwrap_err();
        assert!(
            refused.starts_with("name.system-relation"),
            "{sql}: {refused}"
        );
    }
    let names = "SELECT * FROM information_schema.tables WHERE table_name = 'people'";
    let names = ask(&guard, "other", names).await.unwrap();
    assert!(
        columns(&names).contains(&"table_rows".to_owned()),
        "{names}"
    );
}

#[tokio::test]
async fn mariadb_shows_what_a_permit_names() {
    shows_what_a_permit_names(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn mysql_9_shows_what_a_permit_names() {
    shows_what_a_permit_names(MySqlServer::start_shared().unwrap()).await;
}

/// Columns by schema and name of their relation.
type There = BTreeMap<(String, String), Vec<String>>;

/// What a server has of the relations that are known, told in lines of schema, name and column.
fn there(dialect: Dialect, lines: &str) -> There {
    let mut there = There::new();
    for line in lines.lines() {
        let cells: Vec<_> = line.split('\t').map(str::to_lowercase).collect();
        let [schema, name, column] = cells.as_slice() else {
            panic!("{line}")
        };
        if system_relation(dialect, schema, name).is_some() {
            let columns = there.entry((schema.clone(), name.clone())).or_default();
            columns.push(column.clone());
        }
    }
    there
}

/// Everything for everybody; all that is there by name to one, and to another without its first column.
fn naming_all(there: &There) -> PolicySources {
    let uid = |(schema, name): &(String, String)| ident::qualify([schema.as_str(), name.as_str()]);
    let names: Vec<_> = there.keys().map(uid).collect();
    let names = || names.iter().map(String::as_str);
    let mut text = format!(
        "{EVERYTHING}{}{}",
        naming("dba", names()),
        naming("auditor", names())
    );
    for (key, columns) in there.iter().filter(|(_, columns)| columns.len() > 1) {
        text.push_str(&format!(
            "forbid (principal == Agent::\"auditor\", action in Action::\"read\", resource == Column::\"{}.{}\");\n",
            uid(key).replace('"', "\\\""),
            ident::qualify([columns[0].as_str()]).replace('"', "\\\"")
        ));
    }
    policies(&text)
}

/// Whole, as it is and where one column of it is kept: whichever of the columns of all versions this server has.
async fn reads_them_all(guard: &Guard, dialect: Dialect, there: &There) {
    assert!(there.len() > 150, "{}", there.len());
    let mut failures = Vec::new();
    for ((schema, name), of_server) in there {
        let known = system_relation(dialect, schema, name).unwrap();
        let mut questions = vec!["dba", "auditor"];
        if known.class == SystemClass::Catalog {
            questions.push("other");
        }
        for who in questions {
            let name = dialect.identifier(name);
            let sql = format!("SELECT * FROM {schema}.{name} LIMIT 1");
            let kept = usize::from(who == "auditor" && of_server.len() > 1);
            let secret = |column: &&String| who != "other" && known.secrets.contains(column);
            let hidden = of_server.iter().skip(kept).filter(secret).count();
            // A column of it is computed from the one that is kept.
            let hidden = hidden + usize::from(kept == 1 && known.name == "server_cost");
            match ask(guard, who, &sql).await {
                Ok(answer) => {
                    let columns = answer["columns"].as_array().unwrap().len();
                    if columns != of_server.len() - kept - hidden {
                        failures.push(format!("{who}: {sql}: {columns} columns"));
                    }
                }
                Err(why) => failures.push(format!("{who}: {sql}: {why}")),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn every_relation_of_postgres_is_read_as_the_server_has_it() {
    let database = TestDatabase::postgres("system_all", SCRIPT);
    let columns = "SELECT n.nspname, c.relname, a.attname FROM pg_attribute a \
         JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v') ORDER BY 1, 2, a.attnum";
    let columns = database.query(columns);
    let there = there(Dialect::Postgres, &columns);
    let guard = changing_gate(database.postgres_reader().await, naming_all(&there));
    reads_them_all(&guard, Dialect::Postgres, &there).await;
}

async fn every_relation_is_read(server: &'static Server) {
    let database = TestDatabase::on(server, "system_all", SCRIPT);
    let columns = "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS \
         WHERE EXTRA NOT LIKE '%INVISIBLE%' ORDER BY 1, 2, ORDINAL_POSITION";
    let columns = database.query(columns);
    let mut there = there(Dialect::Mysql, &columns);
    // It looks into a folder that need not be there.
    there.remove(&("information_schema".to_owned(), "all_plugins".to_owned()));
    let guard = changing_gate(database.mysql_reader().await, naming_all(&there));
    reads_them_all(&guard, Dialect::Mysql, &there).await;
}

#[tokio::test]
async fn every_relation_of_mariadb_is_read_as_the_server_has_it() {
    every_relation_is_read(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn every_relation_of_mysql_9_is_read_as_the_server_has_it() {
    every_relation_is_read(MySqlServer::start_shared().unwrap()).await;
}
