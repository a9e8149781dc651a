//! What an agent is told of a mistake that only the engine notices: of which kind it is, and the engine's own words where nothing
//! that the statement reads is withheld. An audit record has the kind.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use palisade::{
    audit::{AuditRecord, AuditSink},
    code::Code,
    firewall::Firewall,
    guard::{Backend, Guard, Outcome, Request},
    limits::Limits,
    session::{Principal, Session},
    value::{Params, Value},
};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_sqlite::SqliteBackend;
use palisade_testkit::{fixture::policy_sources, host::Still};
use rusqlite::Connection;

use crate::database::TestDatabase;

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"call"], resource);
forbid (principal, action == Action::"see", resource is row::SCHEMA::filtered)
unless { resource has tenant && resource.tenant == 1 };
"#;

const TABLES: &str = "
CREATE TABLE plain (id int PRIMARY KEY, name varchar(20), tenant int);
INSERT INTO plain VALUES (1, 'Ada', 1), (2, 'Bo', 2);
CREATE TABLE filtered (id int PRIMARY KEY, name varchar(20), tenant int);
INSERT INTO filtered VALUES (1, 'Ada', 1), (2, 'Bo', 2);
";

/// The records of a guard.
#[derive(Debug, Default)]
struct Records(Mutex<Vec<AuditRecord>>);

impl AuditSink for Records {
    fn record(&self, record: &AuditRecord) -> Result<(), String> {
        self.0.lock().unwrap().push(record.clone());
        Ok(())
    }
}

/// A statement, what its refusal says, and what the record has.
struct Mistake {
    sql: &'static str,
    message: &'static str,
    recorded: &'static str,
}

async fn require_told<B: Backend>(backend: B, schema: &str, more: &str, mistakes: &[Mistake]) {
    let firewall = Firewall::builder(
        backend.catalog().clone(),
        policy_sources(POLICIES.replace("SCHEMA", schema) + more),
    );
    let firewall = firewall.build().unwrap_or_else(|error| panic!("{error}"));
    let records = Arc::new(Records::default());
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Still),
        Arc::clone(&records) as Arc<dyn AuditSink>,
    );
    let session = Session::new(Principal::new("Agent", "a"));
    for Mistake {
        sql,
        message,
        recorded,
    } in mistakes
    {
        let request = Request::statement(sql, &Params::None, &session);
        let (outcome, _) = guard.answer(request).await;
        let Outcome::Rejected(refusal) = outcome else {
            panic!("{sql} was answered");
        };
        assert_eq!(refusal.rejection.code(), Code::DatabaseRejected, "{sql}");
        assert_eq!(refusal.rejection.message(), *message, "{sql}");
        let record = records.0.lock().unwrap().pop().unwrap();
        assert_eq!(record.detail.as_deref(), Some(*recorded), "{sql}");
        assert!(refusal.rejection.operator_detail().is_some(), "{sql}");
    }
}

#[tokio::test]
async fn postgres_tells_what_is_wrong() {
    let database = TestDatabase::postgres("mistakes", TABLES);
    database.load("CREATE TYPE mood AS ENUM ('sad', 'glad'); ALTER TABLE plain ADD mood mood; ALTER TABLE filtered ADD mood mood; \
        CREATE FUNCTION tell() RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$told: %$$, (SELECT max(name) FROM plain); END'; \
        CREATE FUNCTION read_in_place() RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT name::int FROM filtered WHERE tenant = 2';");
    let backend = database.postgres_reader().await;
    let summary = "The database refused the statement";
    let cases = [
        Mistake {
            sql: "SELECT id / (tenant - tenant) AS x FROM plain",
            message: "The database refused the statement: a division by zero. Divide by NULLIF(x, 0). It said: division by zero.",
            recorded: "22012 a division by zero",
        },
        Mistake {
            sql: "SELECT id FROM plain WHERE mood = 'happy'",
            message: "The database refused the statement: a text is no value of the type that it is read as. Check the literal against the column's type, which the description of the table tells. It said: invalid input value for enum mood: \"happy\". It points at `'happy' LIMIT 1001`. Its labels are sad, glad.",
            recorded: "22P02 a text is no value of the type that it is read as",
        },
        // What is of truth values elsewhere is told by what it is here.
        Mistake {
            sql: "SELECT (id = 1) && (tenant = 2) AS x FROM plain",
            message: "The database refused the statement: `&&` is of arrays and ranges on PostgreSQL; write AND.",
            recorded: "42883 no operator takes operands of these types",
        },
        // Before the engine looks at a row, the literal is all that it tells of.
        Mistake {
            sql: "SELECT id FROM filtered WHERE mood IN ('glad', 'happy')",
            message: "The database refused the statement: a text is no value of the type that it is read as. Check the literal against the column's type, which the description of the table tells. It said: invalid input value for enum mood: \"happy\". Its labels are sad, glad.",
            recorded: "22P02 a text is no value of the type that it is read as",
        },
        // Later it might.
        Mistake {
            sql: "SELECT id FROM filtered WHERE id / (tenant - tenant) = 1",
            message: "The database refused the statement.",
            recorded: "22012 a division by zero",
        },
        // What a function of the database says is its own.
        Mistake {
            sql: "SELECT tell() AS x FROM plain",
            message: "The database refused the statement: a function of the database's own refused. Check its arguments; the operator knows what it refuses.",
            recorded: "P0001 a function of the database's own refused",
        },
        // What one in SQL reads, the server reads in the place of the call, and says so in its own words.
        Mistake {
            sql: "SELECT * FROM read_in_place()",
            message: "The database refused the statement: a text is no value of the type that it is read as. Check the literal against the column's type, which the description of the table tells.",
            recorded: "22P02 a text is no value of the type that it is read as",
        },
    ];
    assert!(cases.iter().all(|case| case.message.starts_with(summary)));
    let tell =
        "permit (principal, action == Action::\"call\", resource == Function::\"public.tell\");
         permit (principal, action == Action::\"call\", resource == Function::\"public.read_in_place\");";
    require_told(backend, "public", tell, &cases).await;
}

/// A function of later versions is told as lacking on this server, where it does.
#[tokio::test]
async fn a_function_that_the_server_lacks_is_named() {
    let database = TestDatabase::postgres("lacking", TABLES);
    let backend = database.postgres_reader().await;
    let engine = backend.catalog().engine().unwrap_or_default().to_owned();
    if !engine.starts_with("PostgreSQL 15.") {
        return;
    }
    let message = format!(
        "The database refused the statement: this server, {engine}, has no function `any_value`; write min(x)."
    );
    let case = Mistake {
        sql: "SELECT any_value(id) AS x FROM plain",
        message: message.leak(),
        recorded: "42883 no function or operator takes arguments of these types",
    };
    require_told(backend, "public", "", &[case]).await;
}

#[tokio::test]
async fn mariadb_tells_what_is_wrong() {
    let database = TestDatabase::mariadb("mistakes", TABLES);
    let schema = database.name().to_owned();
    let backend = database.mysql_reader().await;
    let cases = [
        Mistake {
            sql: "SELECT id FROM plain WHERE id = (SELECT id FROM plain)",
            message: "The database refused the statement: a subquery gave more than one row where one value is expected. Use IN, an aggregate, or LIMIT 1 with ORDER BY. It said: Subquery returns more than 1 row.",
            recorded: "1242 a subquery gave more than one row where one value is expected",
        },
        Mistake {
            sql: "SELECT 9223372036854775807 + 1 AS x",
            message: "The database refused the statement: a number is beyond the range of its type. Compute in a wider or signed type, such as numeric or bigint; for a column, give a number that its type holds. It said: BIGINT value is out of range in '9223372036854775807 + 1'.",
            recorded: "1690 a number is beyond the range of its type",
        },
        // MySQL has it.
        Mistake {
            sql: "SELECT name ->> '$.a' AS x FROM plain",
            message: "The database refused the statement: MariaDB has no operator `->>`: write JSON_VALUE(x, '$.key').",
            recorded: "1064 a word stands where the grammar does not allow it",
        },
        Mistake {
            sql: "SELECT id FROM filtered WHERE id = (SELECT id FROM plain)",
            message: "The database refused the statement.",
            recorded: "1242 a subquery gave more than one row where one value is expected",
        },
    ];
    require_told(backend, &schema, "", &cases).await;
}

#[tokio::test]
async fn sqlite_tells_what_is_wrong() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let connection = Connection::open(file.path()).unwrap();
    connection.execute_batch(TABLES).unwrap();
    let backend = SqliteBackend::open_file(file.path(), "main").unwrap();
    let cases = [
        Mistake {
            sql: "SELECT json(name) AS x FROM plain",
            message: "The database refused the statement: a text is no JSON, or a JSON path does not fit the document. Check the document and the path; use an operator that gives NULL where a key is missing. It said: malformed JSON.",
            recorded: "SQLITE_1 a text is no JSON, or a JSON path does not fit the document",
        },
        Mistake {
            sql: "SELECT id FROM filtered WHERE json(name) IS NULL",
            message: "The database refused the statement.",
            recorded: "SQLITE_1 a text is no JSON, or a JSON path does not fit the document",
        },
    ];
    require_told(backend, "main", "", &cases).await;
}

/// Policy permits a table that the account may not read: the operator is told the grant, and the agent that one is missing.
#[tokio::test]
async fn a_grant_that_is_missing_is_named() {
    let database = TestDatabase::postgres("granted", TABLES);
    database.load(
        "CREATE ROLE half_granted LOGIN NOINHERIT; GRANT SELECT ON plain TO half_granted; \
         ALTER ROLE half_granted SET default_transaction_read_only = on;",
    );
    let config = PostgresConfig::from_url(&database.url_as("half_granted")).unwrap();
    let backend = PostgresBackend::connect(config).await.unwrap();
    let sources = policy_sources(POLICIES.replace("SCHEMA", "public"));
    let firewall = Firewall::builder(backend.catalog().clone(), sources).build();
    let guard = Guard::new(
        Arc::new(firewall.unwrap()),
        backend,
        Arc::new(Still),
        Arc::new(Records::default()),
    );
    let session = Session::new(Principal::new("Agent", "a"));
    let ask = async |sql: &str| {
        let request = Request::statement(sql, &Params::None, &session);
        guard.answer(request).await.0
    };
    assert!(matches!(
        ask("SELECT id FROM plain").await,
        Outcome::Rows(_)
    ));
    let Outcome::Rejected(refusal) = ask("SELECT id FROM filtered").await else {
        panic!("it was answered");
    };
    assert_eq!(refusal.rejection.code(), Code::DatabaseNotGranted);
    assert!(refusal.incident.is_some());
    let detail = refusal.rejection.operator_detail().unwrap();
    // The filter stands around a query of all columns that the principal sees.
    assert!(
        detail.ends_with(
            ", or: GRANT SELECT (\"id\", \"name\", \"tenant\") ON public.filtered TO \"half_granted\";"
        ),
        "{detail}"
    );
    assert!(!refusal.rejection.message().contains("filtered"));
}

/// So is that of a table at which only a filter looks.
#[tokio::test]
async fn a_grant_that_a_filter_lacks_is_named() {
    let tables = "CREATE TABLE parent (id int PRIMARY KEY, tenant int);
        CREATE TABLE child (id int PRIMARY KEY, parent_id int NOT NULL REFERENCES parent);";
    let database = TestDatabase::postgres("looked_up", tables);
    let role = format!("child_of_{}", database.name());
    database.load(&format!(
        "CREATE ROLE {role} LOGIN NOINHERIT; GRANT SELECT ON child TO {role}; \
         ALTER ROLE {role} SET default_transaction_read_only = on;"
    ));
    let config = PostgresConfig::from_url(&database.url_as(&role)).unwrap();
    let backend = PostgresBackend::connect(config).await.unwrap();
    let policies = "permit (principal, action, resource);
        forbid (principal, action == Action::\"see\", resource is row::public::parent)
        unless { resource has tenant && resource.tenant == 1 };
        forbid (principal, action == Action::\"see\", resource is row::public::child)
        unless { resource has parent_id_is_seen && resource.parent_id_is_seen };";
    let firewall = Firewall::builder(backend.catalog().clone(), policy_sources(policies)).build();
    let guard = Guard::new(
        Arc::new(firewall.unwrap_or_else(|error| panic!("{error}"))),
        backend,
        Arc::new(Still),
        Arc::new(Records::default()),
    );
    let session = Session::new(Principal::new("Agent", "a"));
    let asked = guard.query("SELECT id FROM child", &Params::None, &session);
    let refusal = asked.await.into_result().unwrap_err();
    assert_eq!(refusal.rejection.code(), Code::DatabaseNotGranted);
    let detail = refusal.rejection.operator_detail().unwrap();
    let grant = format!("GRANT SELECT (\"id\", \"tenant\") ON public.parent TO \"{role}\";");
    assert!(detail.ends_with(&grant), "{detail}");
}

/// The text of a template is the operator's: a mistake in what it is given tells nothing of it.
#[tokio::test]
async fn a_template_is_not_quoted() {
    let database = TestDatabase::postgres("templated", TABLES);
    let backend = database.postgres_reader().await;
    let mut sources = policy_sources(
        POLICIES.replace("SCHEMA", "public")
            + "permit (principal, action == Action::\"run\", resource);",
    );
    sources.templates = Some(
        "[[template]]\nname = \"by-code\"\ndescription = \"x\"\n\
         sql = \"SELECT id FROM plain WHERE id = CAST('secret-' || $1 AS integer)\"\n\
         parameters = [{ name = \"code\", type = \"text\" }]\n"
            .to_owned(),
    );
    let firewall = Firewall::builder(backend.catalog().clone(), sources).build();
    let guard = Guard::new(
        Arc::new(firewall.unwrap_or_else(|error| panic!("{error}"))),
        backend,
        Arc::new(Still),
        Arc::new(Records::default()),
    );
    let session = Session::new(Principal::new("Agent", "a"));
    let arguments = BTreeMap::from([("code".to_owned(), Value::text("x"))]);
    let request = Request::template("by-code", &arguments, &session);
    let Outcome::Rejected(refusal) = guard.answer(request).await.0 else {
        panic!("it was answered");
    };
    let message = refusal.rejection.message();
    assert_eq!(refusal.rejection.code(), Code::DatabaseRejected);
    assert!(
        message.contains("a text is no value") && !message.contains("secret"),
        "{message}"
    );
}

/// A column that goes is a change of the schema, as a look at it confirms.
#[tokio::test]
async fn a_column_that_goes_is_a_change() {
    let database = TestDatabase::postgres("gone", TABLES);
    let backend = database.postgres_reader().await;
    let sources = policy_sources(POLICIES.replace("SCHEMA", "public"));
    let firewall = Firewall::builder(backend.catalog().clone(), sources).build();
    let guard = Guard::new(
        Arc::new(firewall.unwrap()),
        backend,
        Arc::new(Still),
        Arc::new(Records::default()),
    );
    let session = Session::new(Principal::new("Agent", "a"));
    database.load("ALTER TABLE plain DROP COLUMN name");
    let request = Request::statement("SELECT name FROM plain", &Params::None, &session);
    let Outcome::Rejected(refusal) = guard.answer(request).await.0 else {
        panic!("it was answered");
    };
    assert_eq!(refusal.rejection.code(), Code::DatabaseSchemaChanged);
}

/// Whoever drops a request instead of waiting is recorded, and cannot ask more often than others for that.
#[tokio::test]
async fn a_request_that_is_dropped_is_recorded_and_counts() {
    let database = TestDatabase::postgres("dropped", TABLES);
    let backend = database.postgres_reader().await;
    let sources = policy_sources(POLICIES.replace("SCHEMA", "public"));
    let firewall = Firewall::builder(backend.catalog().clone(), sources).limits(Limits {
        max_failures: 2,
        ..Limits::default()
    });
    let records = Arc::new(Records::default());
    let guard = Guard::new(
        Arc::new(firewall.build().unwrap()),
        backend,
        Arc::new(Still),
        Arc::clone(&records) as Arc<dyn AuditSink>,
    );
    let session = Session::new(Principal::new("Agent", "a"));
    let sql = "SELECT f.id FROM filtered f JOIN plain p ON p.id = f.id WHERE f.id / p.id = 1";
    let client = database.postgres_client().await;
    let lock = "BEGIN; LOCK TABLE filtered IN ACCESS EXCLUSIVE MODE";
    client.batch_execute(lock).await.unwrap();
    // What is tried for a moment counts until it is sent again.
    let moment = Limits {
        statement_timeout_ms: 200,
        ..guard.firewall().limits().clone()
    };
    for _ in 0..3 {
        let request = Request::statement(sql, &Params::None, &session);
        let (tried, report) = guard.answer(request.with_limits(&moment).on_trial()).await;
        let code = tried.into_result().unwrap_err().rejection.code();
        assert_eq!((code, report.is_counted_failure), (Code::LimitTime, true));
        guard.take_back_failure(&session);
    }
    records.0.lock().unwrap().clear();
    for _ in 0..2 {
        let asked = guard.query(sql, &Params::None, &session);
        let waited = tokio::time::timeout(Duration::from_millis(400), asked).await;
        assert!(waited.is_err(), "it did not wait for the lock");
    }
    client.batch_execute("ROLLBACK").await.unwrap();
    let codes: Vec<_> = (records.0.lock().unwrap().iter())
        .map(|record| record.code)
        .collect();
    assert_eq!(codes, [Some(Code::LimitCancelled); 2]);
    let Outcome::Rejected(refusal) = guard.query(sql, &Params::None, &session).await else {
        panic!("it was answered");
    };
    assert_eq!(refusal.rejection.code(), Code::LimitFailures);
}
