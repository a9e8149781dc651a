//! Whoever reads a column as tokens or hashes chooses no value of it: by no column that it is generated from, and by no definition.

use super::*;
use crate::{catalog::test_ddl, token::TokenSecret};

const TABLES: &str = "
CREATE TABLE people (id integer PRIMARY KEY, email text);
CREATE TABLE signups (id integer PRIMARY KEY, raw text, email text GENERATED ALWAYS AS (lower(raw)) STORED, note text);
CREATE TABLE plain (id integer PRIMARY KEY, word text);
";

const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"read_plain", resource) when { resource.tags.contains("mail") };
@domain("people") permit(principal, action == Action::"read_token", resource) when { resource.tags.contains("mail") };
@mask("hash(phones)")
forbid(principal == Agent::"hashed", action == Action::"read_plain", resource) when { resource.tags.contains("phone") };
forbid(principal == User::"plain", action == Action::"read_token", resource);
"#;

const CLASSIFICATION: &str = r#"
[[column]]
pattern = "*.*.*email*"
tags = ["mail"]

[[column]]
patterns = ["*.*.phone"]
except = ["*.plain*.phone"]
tags = ["phone"]
"#;

fn firewall_of(catalog: Catalog) -> Firewall {
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: POLICIES.to_owned(),
        }],
        classification: Some(CLASSIFICATION.to_owned()),
        ..PolicySources::default()
    };
    let secret = TokenSecret::new("a secret that is long enough for a test");
    let builder = Firewall::builder(catalog, sources).allow_changes();
    let built = builder.token_secret(secret).build();
    built.unwrap_or_else(|error| panic!("{error}"))
}

/// None where the statement is allowed.
fn refusal(firewall: &Firewall, (kind, id): (&str, &str), sql: &str) -> Option<Rejection> {
    let session = Session::new(Principal::new(kind, id));
    match firewall.check(sql, &Params::None, &session).unwrap() {
        Decision::Allow(_) => None,
        Decision::Reject(why) => Some(why),
    }
}

const READER: (&str, &str) = ("Agent", "a");

fn engines() -> [Firewall; 2] {
    let postgres = test_ddl::postgres(TABLES, "shop").unwrap();
    let mysql = TABLES.replace(" text", " varchar(40)");
    [postgres, test_ddl::mysql(&mysql, "shop").unwrap()].map(firewall_of)
}

#[test]
fn what_tokens_are_generated_from_is_not_written() {
    for firewall in engines() {
        for (sql, is_refused) in [
            ("INSERT INTO signups (id, raw) VALUES (1, 'Ada@x')", true),
            ("INSERT INTO signups (id, note) VALUES (1, 'Ada@x')", false),
            ("UPDATE signups SET raw = 'Ada@x' WHERE id = 1", true),
            ("UPDATE signups SET note = 'Ada@x' WHERE id = 1", false),
            ("UPDATE people SET email = 'ada@x' WHERE id = 1", true),
        ] {
            let refused = refusal(&firewall, READER, sql);
            let code = refused.as_ref().map(Rejection::code);
            assert_eq!(
                code,
                is_refused.then_some(Code::WriteMaskedRead),
                "{sql}: {refused:?}"
            );
        }
        let sql = "UPDATE signups SET raw = 'x' WHERE id = 1";
        let told = refusal(&firewall, READER, sql).unwrap();
        assert_eq!(
            told.message(),
            "column `email` is read as tokens, which could be guessed by writing values to `raw`, from which it is generated"
        );
    }
}

#[test]
fn no_definition_gives_values_to_what_is_read_as_tokens_or_hashes() {
    const HASHED: (&str, &str) = ("Agent", "hashed");
    for firewall in engines() {
        for (who, sql, is_refused) in [
            (READER, "CREATE TABLE g AS SELECT 'ada@x' AS email", true),
            (
                READER,
                "CREATE TABLE g AS SELECT word AS email FROM plain",
                true,
            ),
            (READER, "CREATE TABLE g AS SELECT 'ada@x' AS word", false),
            (
                READER,
                "CREATE VIEW v AS SELECT 'ada@x' AS work_email",
                true,
            ),
            (
                READER,
                "CREATE VIEW v (email) AS SELECT 'ada@x' AS word",
                true,
            ),
            (
                READER,
                "CREATE VIEW v (word) AS SELECT 'ada@x' AS email",
                false,
            ),
            (
                READER,
                "CREATE TABLE t (id int, email varchar(40) DEFAULT 'ada@x')",
                true,
            ),
            (
                READER,
                "CREATE TABLE t (id int, email varchar(40) DEFAULT NULL)",
                false,
            ),
            (
                READER,
                "CREATE TABLE t (id int, email varchar(40) NOT NULL UNIQUE)",
                false,
            ),
            (
                READER,
                "CREATE TABLE t (id int, raw varchar(40), email varchar(40) GENERATED ALWAYS AS (lower(raw)) STORED)",
                true,
            ),
            (
                READER,
                "ALTER TABLE plain ADD COLUMN email varchar(40) DEFAULT 'ada@x'",
                true,
            ),
            (
                READER,
                "ALTER TABLE plain ADD COLUMN email varchar(40)",
                false,
            ),
            (
                READER,
                "ALTER TABLE plain ADD COLUMN other varchar(40) DEFAULT 'ada@x'",
                false,
            ),
            (READER, "CREATE TABLE g AS SELECT '555' AS phone", false),
            (HASHED, "CREATE TABLE g AS SELECT '555' AS phone", true),
            (
                HASHED,
                "CREATE TABLE plain2 AS SELECT '555' AS phone",
                false,
            ),
            // Who has neither tokens nor hashes of it compares nothing.
            (
                ("User", "plain"),
                "CREATE TABLE g AS SELECT 'ada@x' AS email",
                false,
            ),
        ] {
            let refused = refusal(&firewall, who, sql);
            let code = refused.as_ref().map(Rejection::code);
            assert_eq!(
                code,
                is_refused.then_some(Code::WriteMaskedRead),
                "{sql}: {refused:?}"
            );
        }
    }
}
