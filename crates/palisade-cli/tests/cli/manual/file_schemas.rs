//! Schemas of the files of a policy folder, made of the structs that read them.

use palisade::code::Code;
use serde_json::{Value, json};

use super::generated::{describe_limits, describe_table};

const CASES: &str = concat!(
    include_str!("../../../../palisade-corpus/src/written.rs"),
    include_str!("../../../../palisade-corpus/src/matrix.rs"),
    include_str!("../../../../palisade-corpus/src/survivor.rs"),
);
const SERVERS: &str = include_str!("../../../../palisade-corpus/src/test_server.rs");
const PROPERTIES: &str = include_str!("../../../../palisade-corpus/src/property.rs");
const CLASSIFICATION: &str = include_str!("../../../../palisade/src/policy/load/classification.rs");
const TEMPLATES: &str = include_str!("../../../../palisade/src/policy/load/template.rs");

/// Each schema, by the file that holds it.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("tests.schema.json", tests()),
        ("servers.schema.json", servers()),
        ("classification.schema.json", classification()),
        ("templates.schema.json", templates()),
        ("schemas.schema.json", schemas()),
        ("properties.schema.json", properties()),
    ]
}

fn tests() -> Value {
    let part = object(CASES, "Part", &[]);
    let mut file = part.clone();
    file["properties"]["part"] = json!({
        "type": "array",
        "items": {"$ref": "#/$defs/Part"},
        "description": "Parts of the file with keys of their own. Then its cases are `[[part.case]]`.",
    });
    let mut case = object(CASES, "Written", &["name", "decision"]);
    for key in ["code", "on_data"] {
        case["properties"][key]["enum"] = Code::ALL.iter().map(|code| code.slug()).collect();
    }
    let defs = json!({
        "Part": part,
        "Written": case,
        "WrittenAfter": object(CASES, "WrittenAfter", &["sql", "rows"]),
        "Matrix": object(CASES, "Matrix", &["name", "principals", "statement"]),
        "Row": object(CASES, "Row", &["name", "sql"]),
        "WrittenSurvivor": object(CASES, "WrittenSurvivor", &["policy", "change", "reason"]),
        "Limits": describe_limits(),
    });
    name("tests/*.toml", file, Some(defs))
}

fn servers() -> Value {
    let server = object(SERVERS, "TestServer", &["url"]);
    let file = json!({"type": "object", "additionalProperties": server});
    name("tests/servers.toml", file, None)
}

fn classification() -> Value {
    let defs = json!({
        "Entry": object(CLASSIFICATION, "Entry", &["tags"]),
        "Unclassified": object(CLASSIFICATION, "Unclassified", &["tags"]),
    });
    let file = object(CLASSIFICATION, "Document", &[]);
    name("classification.toml", file, Some(defs))
}

fn templates() -> Value {
    let mut parameter = object(TEMPLATES, "TemplateParameter", &["name"]);
    let properties = parameter["properties"].as_object_mut().unwrap();
    // It is read by another name.
    let kind = properties.remove("kind").unwrap();
    properties.insert("type".to_owned(), kind);
    parameter["required"] = json!(["name", "type"]);
    let defs = json!({
        "Entry": object(TEMPLATES, "Entry", &["name", "description", "sql"]),
        "TemplateParameter": parameter,
    });
    name(
        "templates.toml",
        object(TEMPLATES, "Document", &[]),
        Some(defs),
    )
}

fn schemas() -> Value {
    let names = |engine: &str| {
        json!({
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": format!("What policies call the schemas of {engine}: `NAME = \"NAME IN POLICIES\"`."),
        })
    };
    let file = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "sqlite": names("SQLite"),
            "postgres": names("PostgreSQL"),
            "mysql": names("MySQL and MariaDB"),
        },
    });
    name("schemas.toml", file, None)
}

fn properties() -> Value {
    let defs = json!({"Written": object(PROPERTIES, "Written", &["name"])});
    name(
        "properties.toml",
        object(PROPERTIES, "File", &[]),
        Some(defs),
    )
}

fn name(title: &str, mut schema: Value, defs: Option<Value>) -> Value {
    // The newest that Taplo reads.
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!(title);
    if let Some(defs) = defs {
        schema["$defs"] = defs;
    }
    schema
}

/// The schema of the table that `struct NAME` reads.
fn object(source: &str, name: &str, required: &[&str]) -> Value {
    describe_table(source, name, &schema_of, &|key, _| required.contains(&key))
}

/// What a field takes.
fn schema_of(kind: &str) -> Value {
    let text = || json!({"type": "string"});
    let list = |items: Value| json!({"type": "array", "items": items});
    let reference = |of: &str| json!({"$ref": format!("#/$defs/{of}")});
    // Beside a reference no description counts.
    let table = |of: &str| json!({"allOf": [reference(of)]});
    let rows = || list(list(json!({})));
    match kind {
        "String" | "Spanned<String>" | "Option<String>" | "Option<Spanned<String>>" => text(),
        "bool" | "Option<bool>" | "Option<Spanned<bool>>" => json!({"type": "boolean"}),
        "Option<u64>" => json!({"type": "integer", "minimum": 0}),
        "Vec<String>"
        | "Option<Vec<String>>"
        | "Vec<Spanned<String>>"
        | "Option<Vec<Spanned<String>>>"
        | "BTreeSet<String>" => list(text()),
        "Option<OneOrMore>" | "Option<Spanned<Catalogs>>" => {
            json!({"anyOf": [text(), list(text())]})
        }
        "Option<toml::Value>" => json!({"type": ["array", "object"]}),
        "Option<Vec<Vec<toml::Value>>>" | "Vec<Vec<toml::Value>>" => rows(),
        "BTreeMap<String, Spanned<String>>" | "BTreeMap<Spanned<String>, Spanned<String>>" => {
            json!({"type": "object", "additionalProperties": text()})
        }
        "Option<WrittenTransport>" => json!({"enum": ["library", "cli", "stdio", "http"]}),
        "Option<OnFinding>" => json!({"enum": ["flag", "redact", "withhold", "block"]}),
        "WrittenDecision" => json!({"enum": ["allow", "reject"]}),
        "Option<WrittenApproval>" => json!({"enum": ["required", "operator"]}),
        "Option<Bound>" => json!({"enum": ["hidden", "null", "token", "mask"]}),
        "Option<RowBound>" => json!({"enum": ["none", "some"]}),
        "ParameterType" => json!({"enum": ["text", "integer", "number", "boolean"]}),
        "Option<Limits>" => table("Limits"),
        "Option<WrittenAfter>" => table("WrittenAfter"),
        "Option<Unclassified>" => table("Unclassified"),
        "Vec<Written>" => list(reference("Written")),
        "Vec<Matrix>" => list(reference("Matrix")),
        "Vec<Row>" => list(reference("Row")),
        "Vec<WrittenSurvivor>" => list(reference("WrittenSurvivor")),
        "Vec<Entry>" | "Vec<Spanned<Entry>>" => list(reference("Entry")),
        "Vec<Spanned<TemplateParameter>>" => list(reference("TemplateParameter")),
        other => panic!("what a value of `{other}` is, the schemas do not know"),
    }
}
