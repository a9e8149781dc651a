//! Databases with extensions of PostgreSQL: their operators, and ordinary statements beside them.

use serde_json::json;

use crate::shop::{Shop, ask};

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read"], resource);
permit (principal, action == Action::"call", resource) when { ["pure", "volatile"].contains(resource.safety) };
"#;

/// `cube` has the operators of pgvector: `<->`, `<=>`, and `=` of a type of its own.
const SCRIPT: &str = "
    CREATE EXTENSION cube; CREATE EXTENSION citext; CREATE EXTENSION hstore;
    CREATE TABLE points (id int PRIMARY KEY, name text, nick citext, at cube);
    INSERT INTO points VALUES (1, 'Ulm', 'ulm', '(1,2,3)'), (2, 'Bonn', 'bonn', '(4,5,9)');
";

#[test]
fn databases_with_extensions_answer_ordinary_statements() {
    let shop = Shop::new("extensions");
    shop.load(&format!(
        "{SCRIPT} GRANT SELECT ON points TO {};",
        shop.reader
    ));
    shop.write_policies("all", POLICIES);
    let url = shop.url();
    let ask = |sql: &str| ask(&shop.desk, "query", &url, "all", sql);
    let one = json!([{"id": 1}]);
    for sql in [
        // What calls a function of the engine is a text, before the statement is rewritten and after it.
        "SELECT id FROM points WHERE lower(name) = 'ulm'",
        "SELECT id FROM points WHERE upper(name) = 'ULM' AND id = 1",
        "SELECT id FROM points WHERE lower(name) IN ('ulm', 'x')",
        "SELECT id FROM points WHERE concat(name, 'x') = 'Ulmx' OR to_char(now(), 'YYYY') = '1'",
        "SELECT id FROM points WHERE lower(name) = lower('ULM')",
        "SELECT max(id) AS id FROM points GROUP BY lower(name) HAVING lower(name) <> 'bonn'",
        "SELECT id FROM points WHERE nick = 'ULM'",
        // Distances bind before comparisons.
        "SELECT id FROM points WHERE at <=> '(1,2,4)' < 2",
        "SELECT id FROM points WHERE at <-> '(1,2,3)' < 1 AND name <> 'x'",
        "SELECT id FROM points WHERE 1 - (at <=> '(1,2,3)') = 1",
        "SELECT id FROM points ORDER BY at <=> '(1,2,3)' LIMIT 1",
        "SELECT id FROM points ORDER BY at <-> cube(ARRAY[1,2,3]) LIMIT 1",
        "SELECT p.id FROM points p ORDER BY p.at <=> (SELECT at FROM points WHERE id = 1) LIMIT 1",
        "WITH near AS (SELECT id, at <=> '(1,2,3)' AS distance FROM points) \
         SELECT id FROM near WHERE distance < 2",
    ] {
        let answer = ask(sql);
        assert_eq!(answer["rows"], one, "{sql}: {answer}");
    }
    let answer = ask("SELECT id, at <=> '(1,2,3)' AS distance FROM points ORDER BY distance");
    let rows = json!([{"id": 1, "distance": 0.0}, {"id": 2, "distance": 6.0}]);
    assert_eq!(answer["rows"], rows, "{answer}");
}
