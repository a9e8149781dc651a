//! Sections of the manual that are made of what stands in the code.

use std::{collections::BTreeMap, fmt::Write as _};

use palisade::{
    code::Code,
    limits::Limits,
    policy::{ACTIONS, ANNOTATIONS, Rule},
};
use palisade_corpus::TestRule;
use palisade_scan::Detector;
use serde_json::{Value, json};

use crate::{desk::Desk, serve::Client};

const CONFIG: &str = concat!(
    include_str!("../../../src/config/mod.rs"),
    include_str!("../../../src/config/approvals.rs"),
    include_str!("../../../src/config/audit.rs"),
    include_str!("../../../src/config/webhook.rs"),
    include_str!("../../../src/config/broker.rs"),
    include_str!("../../../src/config/budget.rs"),
    include_str!("../../../src/config/bundle.rs"),
    include_str!("../../../src/config/history.rs"),
    include_str!("../../../src/config/http.rs"),
    include_str!("../../../src/config/oauth.rs"),
    include_str!("../../../src/config/clients.rs"),
    include_str!("../../../src/config/metrics.rs"),
    include_str!("../../../src/config/telemetry.rs"),
    include_str!("../../../src/config/scan.rs")
);
const LIMITS: &str = include_str!("../../../../palisade/src/limits.rs");
const EXIT: &str = include_str!("../../../src/exit.rs");
const FUNCTIONS: [(&str, &str); 3] = [
    (
        "SQLite",
        include_str!("../../../../palisade/data/functions/sqlite.tsv"),
    ),
    (
        "PostgreSQL",
        include_str!("../../../../palisade/data/functions/postgres.tsv"),
    ),
    (
        "MySQL, MariaDB",
        include_str!("../../../../palisade/data/functions/mysql.tsv"),
    ),
];

/// Names of functions that a cell of the page shows at most.
const EXAMPLES: usize = 5;

/// Every section, by name.
pub(super) fn sections() -> Vec<(&'static str, String)> {
    vec![
        ("codes", codes()),
        ("detectors", detectors()),
        ("sensitivities", sensitivities()),
        ("actions", actions()),
        ("annotations", annotations()),
        ("rules", rules()),
        ("rule-examples", rule_examples()),
        ("test-rules", test_rules()),
        ("test-rule-examples", test_rule_examples()),
        ("functions", functions()),
        ("tools", tools()),
        ("limits", limits()),
        ("configuration", keys("File")),
        ("policies", keys("PolicyTable")),
        ("connections", keys("Connection")),
        ("grants", keys("Grants")),
        ("mcp", keys("Mcp")),
        ("audit", keys("AuditTable")),
        ("approvals", keys("Approvals")),
        ("webhook", keys("Webhook")),
        ("http", keys("Http")),
        ("oauth", keys("Oauth")),
        ("oauth-issuer", keys("OauthIssuer")),
        ("http-clients", keys("HttpClients")),
        ("http-metrics", keys("HttpMetrics")),
        ("broker", keys("Broker")),
        ("broker-peer", keys("BrokerPeer")),
        ("telemetry", keys("Telemetry")),
        ("scan", keys("Scan")),
        ("scan-rules", keys("ScanRule")),
        ("scan-expected", keys("ScanExpected")),
        ("budgets", keys("BudgetTable")),
        ("budget-span", keys("BudgetSpan")),
        ("history", keys("HistoryTable")),
        ("exit-codes", exit_codes()),
    ]
}

/// The Cedar schema of the demonstration.
pub(super) fn policy_schema() -> String {
    let desk = Desk::new();
    let answer = desk.run(&["policy", "schema", "--catalog", "sqlite:demo.db"]);
    answer.expect_exit(0).out
}

/// `text` in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn codes() -> String {
    let mut out =
        "| code | what happened | what to do | try again |\n|---|---|---|---|\n".to_owned();
    for code in Code::ALL {
        let again = if code.retryable() { "later" } else { "no" };
        let (summary, remediation) = (cell(code.summary()), cell(code.remediation()));
        let _ = writeln!(out, "| `{code}` | {summary} | {remediation} | {again} |");
    }
    out
}

/// What each sensitivity finds of texts whose sources were not learned from, as it was measured when the weights were learned.
fn sensitivities() -> String {
    let text = include_str!("../../../../palisade-scan/src/score/weights.md");
    let table = text
        .lines()
        .skip_while(|line| !line.starts_with("| texts | use |"))
        .take_while(|line| line.starts_with('|'));
    table.map(|line| format!("{line}\n")).collect()
}

fn detectors() -> String {
    let mut out = "| detector | severity | what it finds |\n|---|---|---|\n".to_owned();
    for detector in Detector::ALL {
        let severity = format!("{:?}", detector.severity).to_lowercase();
        let _ = writeln!(
            out,
            "| `{}` | {severity} | {} |",
            detector.id,
            cell(detector.finds)
        );
    }
    out
}

fn actions() -> String {
    let mut out = "| action | resource | permits |\n|---|---|---|\n".to_owned();
    for action in ACTIONS {
        let (name, resource) = (action.name, action.resource);
        let _ = writeln!(out, "| `{name}` | {resource} | {} |", cell(action.permits));
    }
    out
}

fn annotations() -> String {
    let mut out = "| annotation | belongs to | what it does |\n|---|---|---|\n".to_owned();
    for annotation in ANNOTATIONS {
        let (form, place, effect) = (annotation.form, annotation.place, annotation.effect);
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            cell(form),
            cell(place),
            cell(effect)
        );
    }
    out
}

/// The rules of the check.
fn rules() -> String {
    let mut out =
        "| code | what it finds | why it matters | what to do |\n|---|---|---|---|\n".to_owned();
    for rule in Rule::ALL {
        let cells = [rule.summary(), rule.harm(), rule.cure()].map(cell);
        let _ = writeln!(out, "| `{rule}` | {} |", cells.join(" | "));
    }
    out
}

/// Each rule with what goes wrong, an example and the cure.
fn rule_examples() -> String {
    let mut out = String::new();
    for rule in Rule::ALL {
        let sentence = |text: &str| {
            let mut letters = text.chars();
            let first = letters.next().map(|first| first.to_uppercase().to_string());
            format!("{}{}.", first.unwrap_or_default(), letters.as_str())
        };
        let [summary, harm] = [rule.summary(), rule.harm()].map(sentence);
        let _ = writeln!(out, "## {rule}\n\n{summary} {harm}\n");
        for (file, text) in rule.example().iter().flat_map(|example| example.files) {
            let _ = writeln!(out, "`{file}`:\n\n```text\n{}\n```\n", text.trim_end());
        }
        let mended = match rule.is_mended_alone() {
            true => " `palisade policy check --fix` does it.",
            false => "",
        };
        let _ = writeln!(out, "What to do: {}.{mended}\n", rule.cure());
    }
    out
}

/// Each rule of tests with what goes wrong, an example and the cure.
fn test_rule_examples() -> String {
    let mut out = String::new();
    for rule in TestRule::ALL {
        let sentence = |text: &str| {
            let mut letters = text.chars();
            let first = letters.next().map(|first| first.to_uppercase().to_string());
            format!("{}{}.", first.unwrap_or_default(), letters.as_str())
        };
        let [summary, harm] = [rule.summary(), rule.harm()].map(sentence);
        let _ = writeln!(
            out,
            "### Of tests: {rule}\n\n{summary} {harm}\n\n```text\n{}\n```\n\nWhat to do: {}.\n",
            rule.example().trim_end(),
            rule.cure()
        );
    }
    out
}

/// The rules of tests.
fn test_rules() -> String {
    let mut out =
        "| code | what it finds | why it matters | what to do |\n|---|---|---|---|\n".to_owned();
    for rule in TestRule::ALL {
        let cells = [rule.summary(), rule.harm(), rule.cure()].map(cell);
        let _ = writeln!(out, "| `{rule}` | {} |", cells.join(" | "));
    }
    out
}

/// How many functions of each class an engine's table has, and the names of some.
fn functions() -> String {
    let mut classes: BTreeMap<&str, [Vec<&str>; 3]> = BTreeMap::new();
    for (engine, (_, table)) in FUNCTIONS.iter().enumerate() {
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let names = &mut classes.entry(fields[3]).or_default()[engine];
            if !names.contains(&fields[1]) {
                names.push(fields[1]);
            }
        }
    }
    let engines: Vec<&str> = FUNCTIONS.iter().map(|(engine, _)| *engine).collect();
    let mut out = format!("| class | {} |\n|---|---|---|---|\n", engines.join(" | "));
    for (class, engines) in &classes {
        let cells = engines.iter().map(|names| {
            if names.is_empty() {
                return "–".to_owned();
            }
            let plain = |name: &&&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let some: Vec<String> = (names.iter().filter(plain))
                .take(EXAMPLES)
                .map(|name| format!("`{name}`"))
                .collect();
            format!("{}: {} …", names.len(), some.join(", "))
        });
        let _ = writeln!(
            out,
            "| `{class}` | {} |",
            cells.collect::<Vec<_>>().join(" | ")
        );
    }
    out
}

/// The tools as a server lists them that may change data, has templates and keeps history.
fn tools() -> String {
    let desk = Desk::new();
    desk.policy("permit (principal, action, resource);");
    desk.write(
        "p/templates.toml",
        "[[template]]\nname = \"t\"\ndescription = \"d\"\nsql = \"SELECT 1\"\nparameters = []\n",
    );
    let enable = [
        "history",
        "enable",
        "sqlite:demo.db",
        "tickets",
        "--policies",
        "p",
    ];
    let script = desk.run(&enable).expect_exit(0).out;
    let database = rusqlite::Connection::open(desk.path("demo.db")).unwrap();
    database.execute_batch(&script).unwrap();
    let mut client = Client::new(&desk, &["sqlite:demo.db", "--policies", "p", "--writable"]);
    let listed = client.ask("tools/list", &serde_json::json!({}));
    let mut out = "| tool | arguments | what it does |\n|---|---|---|\n".to_owned();
    for tool in listed["tools"].as_array().unwrap() {
        let schema = &tool["inputSchema"];
        let is_required = |name: &str| {
            let required = schema["required"].as_array();
            required.is_some_and(|all| all.iter().any(|one| one == name))
        };
        let properties = schema["properties"].as_object().unwrap();
        let arguments: Vec<String> = properties
            .keys()
            .map(|name| {
                let mark = if is_required(name) { "" } else { "?" };
                format!("`{name}`{mark}")
            })
            .collect();
        let (name, about) = (
            tool["name"].as_str().unwrap(),
            tool["description"].as_str().unwrap(),
        );
        let _ = writeln!(
            out,
            "| `{name}` | {} | {} |",
            arguments.join(", "),
            cell(about)
        );
    }
    assert!(out.lines().count() > 7, "{out}");
    out
}

/// The lines of what `start` opens in `source`, each with the comment before it.
fn commented<'a>(source: &'a str, start: &str) -> Vec<(&'a str, String)> {
    let (_, body) = source.split_once(&format!("{start} {{\n")).unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let mut out = Vec::new();
    let mut about: Vec<&str> = Vec::new();
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            about.push(text);
        } else if line != "///" && !line.starts_with('#') && !line.starts_with("// ") {
            assert!(
                !about.is_empty(),
                "{start}: `{line}` says nothing of itself"
            );
            out.push((line, about.join(" ")));
            about.clear();
        }
    }
    out
}

/// The fields of `struct NAME` in `source`: name, type, and what its comment says.
fn fields<'a>(source: &'a str, name: &str) -> Vec<(&'a str, &'a str, String)> {
    let lines = commented(source, &format!("struct {name}")).into_iter();
    lines
        .map(|(line, about)| {
            let line = line
                .strip_prefix("pub(crate) ")
                .or_else(|| line.strip_prefix("pub "))
                .unwrap_or(line)
                .trim_start_matches("r#")
                .trim_start_matches('_');
            let (field, kind) = line.split_once(": ").unwrap();
            (field, kind.trim_end_matches(','), about)
        })
        .collect()
}

/// What TOML value a field takes.
fn value(kind: &str) -> &'static str {
    match kind {
        "Option<PathBuf>" | "Option<Spanned<PathBuf>>" | "Spanned<PathBuf>" => "path",
        "Option<Spanned<String>>" | "Spanned<String>" | "Option<String>" => "text",
        "Vec<Spanned<String>>" | "Vec<String>" | "Option<Spanned<Vec<String>>>" => "list of texts",
        "Option<Audit>" | "Option<PolicyPlace>" => "path or table",
        "Option<Sync>" => "`\"anchor\"`, `\"record\"`",
        "Option<Tools>" => "`\"core\"`, `\"full\"`",
        "Vec<PathBuf>" => "list of paths",
        "Vec<ScanRule>" | "Vec<ScanExpected>" => "list of tables",
        "Option<RuleSeverity>" => "`\"low\"`, `\"medium\"`, `\"high\"`",
        "bool" | "Option<bool>" | "Option<Spanned<bool>>" => "boolean",
        "Option<OnFinding>" => "`\"flag\"`, `\"redact\"`, `\"withhold\"`, `\"block\"`",
        "Option<ScanFor>" => "`\"strict\"`, `\"balanced\"`, `\"quiet\"`",
        "Option<Spanned<Pooled>>" => "`\"transaction\"`",
        "Limits"
        | "Grants"
        | "Mcp"
        | "Approvals"
        | "Http"
        | "Option<Webhook>"
        | "Broker"
        | "BTreeMap<String, BrokerPeer>"
        | "Telemetry"
        | "Option<Oauth>"
        | "Option<HttpClients>"
        | "Option<HttpMetrics>"
        | "BTreeMap<String, OauthIssuer>"
        | "Scan"
        | "BudgetTable"
        | "HistoryTable"
        | "Option<BudgetSpan>"
        | "BTreeMap<String, Connection>" => "table",
        "usize"
        | "u32"
        | "u64"
        | "Option<u64>"
        | "Option<Spanned<usize>>"
        | "Option<Spanned<u64>>" => "whole number",
        other => panic!("what a value of `{other}` is, the manual does not know"),
    }
}

fn keys(table: &str) -> String {
    let mut out = "| key | value | meaning |\n|---|---|---|\n".to_owned();
    for (key, kind, about) in fields(CONFIG, table) {
        let _ = writeln!(out, "| `{key}` | {} | {} |", value(kind), cell(&about));
    }
    out
}

fn limits() -> String {
    let defaults = serde_json::to_value(Limits::default()).unwrap();
    let mut out = "| limit | default | what it bounds |\n|---|---|---|\n".to_owned();
    for (key, kind, about) in fields(LIMITS, "Limits") {
        assert_eq!(value(kind), "whole number", "{key}");
        let default = match &defaults[key] {
            Value::Null => "none".to_owned(),
            number => number.to_string(),
        };
        let _ = writeln!(out, "| `{key}` | {default} | {} |", cell(&about));
    }
    out
}

/// The schema of a table of limits, with what they are by default.
pub(super) fn describe_limits() -> Value {
    let mut limits = object(LIMITS, "Limits");
    let defaults = serde_json::to_value(Limits::default()).unwrap();
    for (key, property) in limits["properties"].as_object_mut().unwrap() {
        if !defaults[key].is_null() {
            property["default"] = defaults[key].clone();
        }
    }
    limits
}

/// The JSON schema of a configuration, of the same keys.
pub(super) fn configuration_schema() -> Value {
    let mut schema = object(CONFIG, "File");
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("palisade.toml");
    schema["$defs"] = json!({
        "Limits": describe_limits(),
        "Grants": object(CONFIG, "Grants"),
        "Mcp": object(CONFIG, "Mcp"),
        "Approvals": object(CONFIG, "Approvals"),
        "Http": object(CONFIG, "Http"),
        "Oauth": object(CONFIG, "Oauth"),
        "OauthIssuer": object(CONFIG, "OauthIssuer"),
        "HttpClients": object(CONFIG, "HttpClients"),
        "HttpMetrics": object(CONFIG, "HttpMetrics"),
        "Webhook": object(CONFIG, "Webhook"),
        "Broker": object(CONFIG, "Broker"),
        "BrokerPeer": object(CONFIG, "BrokerPeer"),
        "Telemetry": object(CONFIG, "Telemetry"),
        "Scan": object(CONFIG, "Scan"),
        "ScanRule": object(CONFIG, "ScanRule"),
        "ScanExpected": object(CONFIG, "ScanExpected"),
        "BudgetTable": object(CONFIG, "BudgetTable"),
        "HistoryTable": object(CONFIG, "HistoryTable"),
        "BudgetSpan": object(CONFIG, "BudgetSpan"),
        "Connection": object(CONFIG, "Connection"),
        "AuditTable": object(CONFIG, "AuditTable"),
        "PolicyTable": object(CONFIG, "PolicyTable"),
    });
    schema
}

/// The schema of the table that `struct NAME` reads.
fn object(source: &str, name: &str) -> Value {
    // What has no other value if it is left out.
    let is_required = |_: &str, kind: &str| matches!(kind, "Spanned<String>" | "Spanned<PathBuf>");
    describe_table(source, name, &schema_of, &is_required)
}

/// The schema of the table that `struct NAME` reads: what a field takes by its type, and whether it must be there by name and
/// type.
pub(super) fn describe_table(
    source: &str,
    name: &str,
    schema_of: &dyn Fn(&str) -> Value,
    is_required: &dyn Fn(&str, &str) -> bool,
) -> Value {
    let mut properties = serde_json::Map::new();
    let mut required = Vec::new();
    for (key, kind, about) in fields(source, name) {
        let mut property = schema_of(kind);
        property["description"] = json!(about);
        properties.insert(key.to_owned(), property);
        if is_required(key, kind) {
            required.push(key.to_owned());
        }
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    })
}

/// What a field takes, as a schema.
fn schema_of(kind: &str) -> Value {
    let text = json!({"type": "string"});
    match value(kind) {
        "path" | "text" => text,
        "path or table" => {
            let table = match kind {
                "Option<PolicyPlace>" => "#/$defs/PolicyTable",
                _ => "#/$defs/AuditTable",
            };
            json!({"anyOf": [text, {"$ref": table}]})
        }
        "list of texts" | "list of paths" => json!({"type": "array", "items": text}),
        "list of tables" => {
            let of = kind.trim_start_matches("Vec<").trim_end_matches('>');
            json!({"type": "array", "items": {"$ref": format!("#/$defs/{of}")}})
        }
        "boolean" => json!({"type": "boolean"}),
        "whole number" => json!({"type": "integer", "minimum": 0}),
        "table" => match kind.strip_prefix("BTreeMap<String, ") {
            Some(of) => {
                let of = of.trim_end_matches('>');
                json!({"type": "object", "additionalProperties": {"$ref": format!("#/$defs/{of}")}})
            }
            None => {
                let of = kind.trim_start_matches("Option<").trim_end_matches('>');
                json!({"$ref": format!("#/$defs/{of}")})
            }
        },
        words => {
            let words: Vec<&str> = words.split('`').skip(1).step_by(2).collect();
            let words: Vec<&str> = words.iter().map(|word| word.trim_matches('"')).collect();
            json!({"enum": words})
        }
    }
}

/// The exit codes, as their comments in the code say.
fn exit_codes() -> String {
    let mut out = "| exit code | meaning |\n|---|---|\n".to_owned();
    for (_, about) in commented(EXIT, "enum Exit") {
        let (code, meaning) = about.split_once(": ").unwrap();
        // Points of a list, each on a line of its own.
        let meaning = cell(meaning).replace(" * ", "<br>");
        let _ = writeln!(out, "| {code} | {meaning} |");
    }
    out
}
