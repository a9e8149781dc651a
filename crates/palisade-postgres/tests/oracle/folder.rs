//! The same over real queries, where the environment says where they are.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::record::{Desk, Tally};

/// A folder as `cargo xtask eval` takes it.
const FOLDER: &str = "PALISADE_EVAL";

#[tokio::test]
#[ignore = "needs the folder of public statements in PALISADE_EVAL"]
async fn real_queries() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let text = fs::read_to_string(folder.join("benign_queries.jsonl")).unwrap();
    let mut schemas: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        if row["engine"] == "postgres" {
            let schema = row["schema_id"].as_str().unwrap().to_owned();
            let sql = row["sql"].as_str().unwrap().to_owned();
            schemas.entry(schema).or_default().push(sql);
        }
    }
    let mut tally = Tally::default();
    for (schema, queries) in &schemas {
        let script = fs::read_to_string(folder.join("schemas").join(format!("{schema}.sql")));
        let desk = match Desk::new("eval", &script.unwrap()).await {
            Ok(desk) => desk,
            Err(error) => {
                println!("{schema}: {error}");
                tally.outside("schema", schema);
                continue;
            }
        };
        for sql in queries {
            desk.compare(sql, &mut tally).await;
        }
    }
    tally.print("the folder");
    println!("{}", tally.missed_functions.join("\n"));
    assert!(tally.missed.is_empty(), "{}", tally.missed.join("\n"));
    assert!(tally.compared > 0);
}
