//! Every corpus case through the binary, in batches, beside the same case through the library.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use palisade::{code::Code, limits::Limits, value::Params, value::Value as Raw};
use palisade_corpus::{Case, Corpus, Runner, SECRET, Verdict};
use serde_json::{Value, json};

#[test]
fn the_binary_answers_the_corpus_as_the_library_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let corpus = Corpus::load(&folder).unwrap();
    let runner = Runner::new(&corpus).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let mut groups: BTreeMap<(String, String), Vec<&Case>> = BTreeMap::new();
    for case in &corpus.cases {
        // A batch line cannot ask for other limits, another action or another time, and `query` runs SQLite.
        if case.dialect == palisade::dialect::Dialect::Sqlite
            // What changes data is run where each case has a database of its own.
            && case.catalog != "ledger"
            && case.policies != "presence"
            && case.expect.verdict != Verdict::Reject(Code::WriteMaskedRead)
            && case.limits == Limits::default()
            && !runner.firewall(case).unwrap().policies().looks_at_time()
            && case.on_finding == palisade::answer::Action::Flag
        {
            groups
                .entry((case.catalog.clone(), case.policies.clone()))
                .or_default()
                .push(case);
        }
    }
    let mut compared = 0;
    for ((catalog, policies), cases) in groups {
        let database = temp.path().join(format!("{catalog}-{policies}.db"));
        let script =
            std::fs::read_to_string(folder.join("catalogs").join(format!("{catalog}.sql")))
                .unwrap();
        palisade_sqlite::create_database(&database, &script).unwrap();
        let lines = batch(&database, &folder.join("policies").join(&policies), &cases);
        assert_eq!(lines.len(), cases.len(), "{catalog} under {policies}");
        for (case, line) in cases.iter().zip(lines) {
            let library = runner.answer(case).unwrap();
            assert_eq!(line["id"], json!(case.id()));
            assert_eq!(
                line["code"],
                library.code.map_or(Value::Null, |code| json!(code.slug())),
                "{}",
                case.id()
            );
            assert_eq!(line["rewritten"], json!(library.rewritten), "{}", case.id());
            assert_eq!(line["policies"], json!(library.policies), "{}", case.id());
            if library.code.is_none() {
                for part in [
                    "columns",
                    "rows",
                    "row_count",
                    "truncated",
                    "total_seen",
                    "findings",
                ] {
                    assert_eq!(line[part], library.json[part], "{}: {part}", case.id());
                }
            } else {
                assert_eq!(line["message"], library.json["message"], "{}", case.id());
                assert_eq!(line["rows"], Value::Null, "{}", case.id());
            }
            compared += 1;
        }
    }
    assert!(
        compared >= 150,
        "only {compared} cases went through the binary"
    );
}

/// The answers to `cases`, one JSON line each.
fn batch(database: &Path, policies: &Path, cases: &[&Case]) -> Vec<Value> {
    let config = database.with_extension("toml");
    let named = "token_secret_env = \"CORPUS_SECRET\"\ntoken_lifetime = \"never\"\n[grants]\nenv = [\"CORPUS_SECRET\"]\n";
    std::fs::write(&config, named).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .arg("query")
        .arg(format!("sqlite:{}", database.display()))
        .arg("--policies")
        .arg(policies)
        .args(["--batch", "-", "--config"])
        .arg(config)
        .env("CORPUS_SECRET", SECRET)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: String = cases
        .iter()
        .map(|case| format!("{}\n", request(case)))
        .collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn request(case: &Case) -> Value {
    let mut request = json!({"id": case.id(), "sql": case.sql, "as": case.principal.to_string()});
    let json = |value: &Raw| match value {
        Raw::Null => Value::Null,
        Raw::Bool(b) => json!(b),
        Raw::Integer(i) => json!(i),
        Raw::Real(r) => json!(r),
        Raw::Text(t) => json!(String::from_utf8(t.clone()).unwrap()),
        Raw::Blob(_) => panic!("a batch line has no bytes"),
    };
    match &case.params {
        Params::None => {}
        Params::Positional(values) => {
            request["params"] = values.iter().map(json).collect();
        }
        Params::Named(values) => {
            request["params"] = Value::Object(
                values
                    .iter()
                    .map(|(name, v)| (name.clone(), json(v)))
                    .collect(),
            );
        }
    }
    request
}
