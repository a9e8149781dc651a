//! Constants beside a column of tokens: in casts, lists, arrays and choices. Constants that stand elsewhere are refused.

use palisade::dialect::Dialect;
use serde_json::{Value, json};

use super::Asking;

/// A token is accepted beside the column, in a cast, a list or a choice. It is refused behind SELECT or in a table of constants.
/// In a statement `T` is a token of the first person, `U` of the second.
pub(crate) async fn tokens_are_given(to: &Asking, row: &str, ann: &Value, bob: &Value) {
    let [t, u] = [ann, bob].map(|token| token.as_str().unwrap());
    let foreign = json!("token.foreign");
    let values = |list: &[&str]| {
        let rows = list.iter().map(|item| format!("{row}({item})"));
        format!("VALUES {}", rows.collect::<Vec<_>>().join(", "))
    };
    let text = match to.dialect {
        Dialect::Sqlite | Dialect::Postgres => "text",
        Dialect::Mysql => "char",
    };
    let same = match to.dialect {
        Dialect::Sqlite => "IS",
        Dialect::Postgres => "IS NOT DISTINCT FROM",
        Dialect::Mysql => "<=>",
    };
    let people = "SELECT id FROM people WHERE";
    let mut both = vec![
        format!("{people} email IN ('T', 'U') ORDER BY id"),
        format!("{people} email IN ('T', NULL, 'U') AND 'x' <> 'y' ORDER BY id"),
    ];
    let mut one = vec![
        format!("{people} email = CAST('T' AS {text})"),
        format!("{people} email {same} 'T'"),
        format!("{people} CASE id WHEN 7 THEN 'U' ELSE 'T' END = email"),
        format!("{people} coalesce(NULL, 'T', 'U') = email"),
        format!("{people} NULLIF('T', 'U') = email"),
        format!("{people} id = 1 AND ('T', 10) IN (SELECT buyer, id FROM orders)"),
    ];
    // Constants that stand elsewhere.
    let mut elsewhere = vec![
        format!("{people} email IN ({})", values(&["'T'", "'U'"])),
        format!("{people} email IN (SELECT 'T' UNION ALL SELECT 'U')"),
        format!("WITH k(e) AS ({}) {people} email IN (SELECT e FROM k)", values(&["'T'", "NULL", "'U'"])),
        "WITH k AS (SELECT 'T' AS e UNION SELECT 'U'), l AS (SELECT e AS m FROM k) SELECT p.id FROM people p JOIN l ON l.m = p.email".to_owned(),
        format!("WITH k(e) AS ({}) SELECT p.id FROM people p, k WHERE k.e = p.email AND 'x' <> 'y'", values(&["'T'", "'U'"])),
        "SELECT p.id FROM (SELECT 'T' AS email UNION SELECT 'U') AS v JOIN people p USING (email)".to_owned(),
        format!("{people} EXISTS (SELECT 1 FROM (SELECT 'T' AS e UNION SELECT 'U') AS v WHERE v.e = people.email)"),
        format!("{people} email = (SELECT 'T')"),
        format!("{people} email IN (SELECT 'T')"),
        format!("{people} (SELECT CAST('T' AS {text})) = email"),
        format!("{people} (email, id) IN ({})", values(&["'T', 1", "'U', 3"])),
        format!("{people} (email, id) IN (SELECT 'T', 1)"),
        "SELECT 1 AS id FROM orders WHERE total = 7 AND buyer = (SELECT e FROM (SELECT 'T' AS e) AS k)".to_owned(),
        "WITH k AS (SELECT 'T' AS e) SELECT e, count(*) AS n FROM k JOIN orders o ON o.buyer = k.e GROUP BY e".to_owned(),
        "WITH k AS (SELECT 'T' AS e UNION SELECT 'U') SELECT e FROM k WHERE e IN (SELECT email FROM people)".to_owned(),
        "SELECT email AS e FROM people WHERE id = 1 INTERSECT SELECT 'T'".to_owned(),
        "SELECT email AS e FROM people WHERE id < 3 EXCEPT SELECT 'T'".to_owned(),
        "SELECT v.e, t.id FROM (SELECT id, coalesce(email, 'none') AS c FROM people) AS t JOIN (SELECT 'T' AS e UNION SELECT 'none') AS v ON v.e = t.c".to_owned(),
        "WITH RECURSIVE r (n, e) AS (SELECT 1, 'T' UNION ALL SELECT n + 1, 'U' FROM r WHERE n < 2) SELECT r.e, o.id FROM r JOIN orders o ON o.buyer = r.e".to_owned(),
        "SELECT coalesce(p.email, k.e) AS e FROM people p, (SELECT 'T' AS e) AS k".to_owned(),
    ];
    // PostgreSQL has no plus of text.
    if to.dialect != Dialect::Postgres {
        one.push(format!("{people} +email = 'T'"));
        one.push(format!("{people} email = +'T' AND id > 0"));
        elsewhere.push(format!("{people} + +email IN (SELECT +'T')"));
        to.check(
            "SELECT +email AS e, +'x' AS x FROM people WHERE id = 1",
            &[],
            json!([[ann, "x"]]),
        )
        .await;
    }
    if to.dialect == Dialect::Postgres {
        for list in [
            "ANY (ARRAY['T', 'U'])",
            "ANY (ARRAY['T'::text, 'U'])",
            "ANY (ARRAY['T', 'U']::text[])",
            "ANY ('{T,U}')",
            "ANY ('{ \"T\" , NULL, U}'::varchar[])",
            "ANY (CAST('{T,U}' AS text[]))",
        ] {
            both.push(format!("{people} email = {list} ORDER BY id"));
        }
        for from in [
            "(VALUES ('T'), ('U')) AS v(e)",
            "unnest(ARRAY['T', 'U']) AS v(e)",
            "unnest('{T,U}'::text[]) AS v(e)",
            "unnest('{T,U}'::text[], '{1,2}'::int[]) AS v(e, n)",
        ] {
            elsewhere.push(format!(
                "SELECT p.id FROM people p JOIN {from} ON v.e = p.email"
            ));
        }
        elsewhere.push(format!(
            "{people} email = ANY (SELECT unnest('{{T,U}}'::text[]))"
        ));
        one.extend([
            format!("{people} email = 'T'::varchar(60)"),
            format!("{people} email = text 'T'"),
            format!("{people} NOT email <> ALL (ARRAY['T'])"),
            format!("{people} email OPERATOR(pg_catalog.=) 'T'"),
            format!("{people} id = 1 AND 'T' = ANY (ARRAY[email])"),
        ]);
    }
    let told = |sql: &str| {
        sql.replace("'T'", &format!("'{t}'"))
            .replace("'U'", &format!("'{u}'"))
    };
    let array = |sql: &str| {
        let (t, u) = (format!("{{{t}"), format!(",{u}}}"));
        sql.replace("{T", &t)
            .replace(",U}", &u)
            .replace("\"T\"", &format!("\"{}\"", ann.as_str().unwrap()))
            .replace(" U}", &format!(" {}}}", bob.as_str().unwrap()))
    };
    let full = |sql: &str| array(&told(sql));
    for sql in &both {
        to.check(&full(sql), &[], json!([[1], [2]])).await;
        // One that is none spoils the list, wherever it stands.
        let guess = sql
            .replace("'T'", "'ann@x'")
            .replace("{T", "{ann@x")
            .replace("\"T\"", "ann@x");
        to.check(&full(&guess), &[], foreign.clone()).await;
    }
    for sql in &one {
        to.check(&full(sql), &[], json!([[1]])).await;
        to.check(&full(&sql.replace("'T'", "'ann@x'")), &[], foreign.clone())
            .await;
        // As a parameter, whose tag is looked at each time.
        if !sql.contains("text 'T'") {
            let by = told(&sql.replace("'T'", "?"));
            let held = std::slice::from_ref(ann);
            to.check(&by, held, json!([[1]])).await;
            to.check(&by, &[json!("ann@x")], foreign.clone()).await;
            to.check(&by, held, json!([[1]])).await;
        }
    }
    for sql in &elsewhere {
        to.check(&full(sql), &[], foreign.clone()).await;
        // MariaDB names columns after what stands in the first row, which no parameter says.
        let is_named = to.dialect == Dialect::Mysql && row.is_empty() && sql.contains("VALUES");
        if sql.contains("'T'") && !is_named {
            let by = told(&sql.replace("'T'", "?"));
            to.check(&by, std::slice::from_ref(ann), foreign.clone())
                .await;
        }
    }
    // Beside a constant that may be there, others are left as they are.
    to.check(
        "SELECT v.e, t.id FROM (SELECT id, coalesce(email, 'none') AS c FROM people) AS t JOIN (SELECT 'none' AS e UNION SELECT 'some') AS v ON v.e = t.c",
        &[],
        json!([["none", 3]]),
    )
    .await;
    // What is computed of constants is none.
    let mut computed = vec![
        format!("{people} email = lower('T')"),
        format!("{people} email IN (SELECT lower('T'))"),
        format!("{people} email = (SELECT concat('T', ''))"),
        "SELECT p.id FROM people p JOIN (SELECT replace('T', 'x', 'y') AS e) AS v ON v.e = p.email".to_owned(),
        format!("{people} email = CAST(CAST('7' AS {text}) AS char(3))"),
        "SELECT email AS e FROM people INTERSECT SELECT 'some'".to_owned(),
        // Of two domains.
        "WITH k AS (SELECT 'T' AS e) SELECT p.id FROM people p, k WHERE p.email = k.e OR p.name = k.e".to_owned(),
        "WITH k AS (SELECT 'T' AS e UNION SELECT 'some') SELECT p.id FROM people p, k WHERE p.email = k.e".to_owned(),
    ];
    match to.dialect {
        Dialect::Sqlite => computed.extend([
            format!("WITH k(e) AS (VALUES ('x')) {people} email IN k"),
            format!("{people} email = upper((SELECT 'T'))"),
            format!("{people} email = 'T' || ''"),
            format!("{people} email IN (SELECT value FROM json_each('[\"x\"]'))"),
        ]),
        Dialect::Postgres => computed.extend([
            format!("{people} email = 'T' || ''"),
            format!("{people} email = ANY (ARRAY(SELECT 'T'))"),
            format!("{people} email IN (SELECT jsonb_array_elements_text('[\"T\"]'))"),
            format!("{people} email = ANY (string_to_array('T', ','))"),
            "SELECT p.id FROM people p JOIN string_to_table('T', ',') AS s(e) ON s.e = p.email"
                .to_owned(),
            format!("{people} email = ANY ('{{\"a\\\\b\"}}')"),
            format!("{people} email = ANY ('{{{{T}}}}')"),
        ]),
        Dialect::Mysql => {}
    }
    for sql in computed {
        to.check(&told(&sql), &[], foreign.clone()).await;
    }
    // What may be a token or the column's own: without one, every row.
    for sql in [
        "SELECT id FROM people WHERE email = coalesce(?, email) ORDER BY id",
        "SELECT id FROM people WHERE email = CASE WHEN id > 9 THEN email ELSE coalesce(?, email) END ORDER BY id",
    ] {
        to.check(sql, std::slice::from_ref(bob), json!([[2]])).await;
        to.check(sql, &[json!(null)], json!([[1], [2]])).await;
        to.check(sql, &[json!("x")], json!([])).await;
    }
    for (sql, expected) in [
        (
            "SELECT id FROM people WHERE email = coalesce('T', email)",
            json!([[1]]),
        ),
        (
            "SELECT id FROM people WHERE coalesce(email, 'T') = 'T' ORDER BY id",
            json!([[1], [3]]),
        ),
        (
            "SELECT id FROM people WHERE coalesce(email, 'none') = email ORDER BY id",
            json!([[1], [2]]),
        ),
    ] {
        to.check(&told(sql), &[], expected).await;
    }
    // Parameters keep their places beside those that are tokens.
    let placed =
        "SELECT p.id, p.email FROM people p WHERE p.email = ? AND p.id >= ? AND 'x' <> ? LIMIT ?";
    let [one, other] = [
        [ann, &json!(1), &json!("y"), &json!(5)],
        [bob, &json!(1), &json!("y"), &json!(5)],
    ];
    for (params, row) in [(one, json!([[1, ann]])), (other, json!([[2, bob]]))] {
        to.check(placed, &params.map(Value::clone), row).await;
    }
    // What is made of columns is compared as ever, and so is what meets no tokens.
    for (sql, expected) in [
        (
            "SELECT id FROM people WHERE email = lower(email) AND id = 1",
            json!([[1]]),
        ),
        (
            "SELECT p.id FROM people p JOIN log l ON l.what = p.email",
            json!([]),
        ),
        (
            "SELECT p.id FROM people p JOIN log l ON coalesce(l.what, 'none') = p.email",
            json!([]),
        ),
        (
            "SELECT id FROM people WHERE email IN (SELECT what FROM log)",
            json!([]),
        ),
        (
            "SELECT k.e FROM (SELECT 'T' AS e) AS k JOIN people p ON p.id = 1 WHERE k.e = 'T'",
            json!([[ann]]),
        ),
    ] {
        to.check(&told(sql), &[], expected).await;
    }
    if to.dialect == Dialect::Postgres {
        let arrays = format!("{{{t},{u}}}");
        for sql in [
            "SELECT id FROM people WHERE email = ANY (?) ORDER BY id",
            "SELECT id FROM people WHERE email = ANY (?::text[]) ORDER BY id",
        ] {
            to.check(sql, &[json!(arrays)], json!([[1], [2]])).await;
            to.check(sql, &[json!(format!("{{{t}}}"))], json!([[1]]))
                .await;
            to.check(sql, &[json!("{}")], json!([])).await;
            to.check(sql, &[json!(format!("{{{t},x}}"))], foreign.clone())
                .await;
        }
        for sql in [
            "SELECT p.id FROM people p JOIN unnest(?::text[]) AS v(e) ON v.e = p.email",
            "SELECT id FROM people WHERE email IN (SELECT unnest(CAST(? AS varchar[])))",
        ] {
            to.check(sql, &[json!(arrays)], foreign.clone()).await;
        }
        let one = "SELECT v.e FROM (SELECT coalesce(email, 'none') AS c FROM people) AS t JOIN (VALUES (?)) AS v(e) ON v.e = t.c";
        for value in [ann.clone(), json!("none"), json!(&t[4..36])] {
            to.check(one, &[value], foreign.clone()).await;
        }
    }
}
