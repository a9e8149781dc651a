//! Statements that are not run: whether they would be permitted, and how the engine would go about them.

use serde_json::{Value, json};

use crate::{Client, Records, schema};

#[tokio::test]
async fn a_test_says_what_would_become_of_a_statement_and_runs_nothing() {
    let records = Records::default();
    let mut client = Client::connect(schema::server(&records, None));
    client.initialize().await;
    let test = async |client: &mut Client, sql: &str| -> Value {
        let result = client.call("policy_test", json!({"sql": sql})).await;
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    };
    let told = test(&mut client, "SELECT id, email FROM people").await;
    assert_eq!(
        (&told["allowed"], &told["effect"]),
        (&json!(true), &json!("read"))
    );
    let masked: Vec<_> = told["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["masked"].clone())
        .collect();
    assert_eq!(masked, [json!(false), json!(true)]);
    assert!(told.get("decided_later").is_none());
    let told = test(&mut client, "INSERT INTO visits (day) VALUES ('d')").await;
    assert_eq!(
        (&told["allowed"], &told["effect"]),
        (&json!(true), &json!("write"))
    );
    assert!(told["decided_later"].is_string());
    // Nothing was changed, and what is refused is refused with the same words.
    let count = client
        .call("query", json!({"sql": "SELECT count(*) AS n FROM visits"}))
        .await;
    assert_eq!(count["structuredContent"]["rows"], json!([{"n": 3}]));
    for (tool, sql) in [
        ("query", "SELECT secret_word FROM vault"),
        ("query", "SELECT secret_word FROM wault"),
        ("query", "SELECT born FROM people WHERE emial = 'x'"),
        ("execute", "UPDATE people SET note = 'y'"),
        ("query", "SELECT pay FROM people ORDER BY pay"),
        ("query", "SELECT"),
    ] {
        let told = test(&mut client, sql).await;
        let refused = client.refused(tool, json!({"sql": sql})).await;
        assert_eq!(told["allowed"], false, "{sql}");
        for key in ["code", "message", "remediation_hint", "retryable"] {
            assert_eq!(told["refusal"][key], refused[key], "{sql}: {key}");
        }
        assert!(told.get("columns").is_none() && told.get("effect").is_none());
    }
    // A filter is not told of: with it and without it, the answer is the same but for the table.
    let filtered = test(&mut client, "SELECT id FROM filtered")
        .await
        .to_string();
    assert_eq!(
        filtered,
        test(&mut client, "SELECT id FROM visits").await.to_string()
    );
    client.stop().await;
    let records = records.0.lock().unwrap();
    let dry = records.iter().filter(|record| record.dry_run).count();
    assert_eq!((dry, records.len()), (10, 17));
    assert!(records[0].statement.contains("people") && records[0].rows == 0);
}

#[tokio::test]
async fn a_plan_is_shown_of_what_is_seen_whole_alone() {
    let records = Records::default();
    let mut client = Client::connect(schema::server(&records, None));
    client.initialize().await;
    let plan = client
        .call("explain_query", json!({"sql": "SELECT id FROM visits WHERE day = ?", "params": ["a"], "format": "json"}))
        .await;
    let rows = plan["structuredContent"]["rows"].to_string();
    assert!(rows.contains("visits_day"), "{plan}");
    let text = client
        .call("explain_query", json!({"sql": "SELECT id FROM visits"}))
        .await;
    assert!(text.get("structuredContent").is_none());
    assert!(
        text["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("SCAN"),
        "{text}"
    );
    for (sql, code) in [
        ("SELECT id FROM people", "obligation.inapplicable"),
        ("SELECT id FROM filtered", "obligation.inapplicable"),
        ("SELECT * FROM vault", "name.unknown-relation"),
        ("DELETE FROM visits WHERE id = 1", "statement.not-allowed"),
        ("SELECT 1; SELECT 2", "syntax.multiple-statements"),
    ] {
        let refusal = client.refused("explain_query", json!({"sql": sql})).await;
        assert_eq!(refusal["code"], code, "{sql}: {refusal}");
        // A test of the plan is no way around.
        let told = client
            .call(
                "policy_test",
                json!({"sql": format!("EXPLAIN QUERY PLAN {sql}")}),
            )
            .await;
        assert_eq!(told["structuredContent"]["allowed"], false, "{sql}");
    }
    client.stop().await;
    let records = records.0.lock().unwrap();
    assert!(
        records[0]
            .statement
            .starts_with("explain query plan select"),
        "{}",
        records[0].statement
    );
}

/// Places in errors of a plan are places in the caller's own text, as `query` tells them.
#[tokio::test]
async fn errors_of_a_plan_point_into_the_callers_text() {
    let records = Records::default();
    let mut client = Client::connect(schema::server(&records, None));
    client.initialize().await;
    for (sql, place) in [
        ("SELECT FROM WHERE id = 1", "Line: 1, Column: 13"),
        ("SELECT id\nFROM visits WHERE )", "Line: 2, Column: 19"),
        ("SELECT 'a", "Line: 1, Column: 8"),
        ("SELECT id FROM visits; SELECT 2", "line 1, column 24"),
    ] {
        let by = async |client: &mut Client, tool: &str| {
            let refusal = client.refused(tool, json!({"sql": sql})).await;
            refusal["message"].as_str().unwrap().to_owned()
        };
        let told = by(&mut client, "explain_query").await;
        assert!(told.contains(place), "{sql}: {told}");
        assert_eq!(told, by(&mut client, "query").await, "{sql}");
    }
    // What asks for a plan by itself is no other statement.
    let own = json!({"sql": "EXPLAIN QUERY PLAN SELECT id FROM visits"});
    let text = client.call("explain_query", own).await.to_string();
    assert!(text.contains("SCAN"), "{text}");
    for sql in ["INSERT INTO visits (id) VALUES (1)", "DROP TABLE visits"] {
        let refusal = client.refused("explain_query", json!({"sql": sql})).await;
        assert_eq!(refusal["code"], "statement.not-allowed", "{sql}");
        let message = refusal["message"].as_str().unwrap();
        assert!(message.starts_with("EXPLAIN of "), "{message}");
    }
    client.stop().await;
}

/// Where policy says how many rows there are, no answer says that another limit would give more.
#[tokio::test]
async fn a_cap_of_policy_is_told_as_one() {
    let script = "CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1), (2), (3), (4);";
    let policies = "@max_rows(\"2\") permit (principal, action, resource);";
    let mut client = Client::connect(schema::serving(script, policies, &Records::default(), None));
    client.initialize().await;
    for (limit, reason) in [(1, "row_limit"), (2, "row_cap"), (50, "row_cap")] {
        let arguments = json!({"sql": "SELECT n FROM t", "limit": limit});
        let typed = client.call("query", arguments.clone()).await;
        assert_eq!(
            typed["structuredContent"]["truncation_reason"], reason,
            "{limit}"
        );
        let mut arguments = arguments;
        arguments["format"] = json!("table");
        let text = client.call("query", arguments).await["content"][0]["text"].to_string();
        assert_eq!(
            text.contains("higher limit"),
            reason == "row_limit",
            "{text}"
        );
    }
    client.stop().await;
}
