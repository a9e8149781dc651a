//! Whether an answer is what its tool's output schema says: clients refuse others.

use std::collections::BTreeMap;

use serde_json::Value;

/// The output schemas of tools, by their names.
pub(crate) type OutputSchemas = BTreeMap<String, Value>;

/// Those that a list of tools declares.
pub(crate) fn read_schemas(list: &Value) -> OutputSchemas {
    let tools = list["tools"].as_array().unwrap().iter();
    let declared = tools.filter_map(|tool| {
        let schema = tool.get("outputSchema")?.clone();
        Some((tool["name"].as_str()?.to_owned(), schema))
    });
    declared.collect()
}

/// What is wrong with `value`. Keywords that are not known here end the test.
///
/// # Errors
/// Where in `value`, and why.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    for (keyword, wanted) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "type" => {
                let kinds = match wanted {
                    Value::Array(kinds) => kinds.iter().collect(),
                    kind => vec![kind],
                };
                let is_one = kinds
                    .iter()
                    .any(|kind| is_of(kind.as_str().unwrap(), value));
                require(is_one, || format!("{value} is no {wanted}"))?;
            }
            "enum" => {
                let is_one = wanted.as_array().unwrap().contains(value);
                require(is_one, || format!("{value} is none of {wanted}"))?;
            }
            "const" => require(wanted == value, || format!("{value} is not {wanted}"))?,
            "required" => {
                for key in wanted.as_array().unwrap() {
                    let key = key.as_str().unwrap();
                    require(value.get(key).is_some(), || format!("no `{key}`"))?;
                }
            }
            "properties" => {
                for (key, schema) in wanted.as_object().unwrap() {
                    if let Some(part) = value.get(key) {
                        check(schema, part).map_err(|why| format!("{key}: {why}"))?;
                    }
                }
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object().unwrap();
                for (key, part) in value.as_object().into_iter().flatten() {
                    match (known.contains_key(key), wanted) {
                        (true, _) => {}
                        (false, Value::Bool(may)) => {
                            require(*may, || format!("`{key}` is not declared"))?;
                        }
                        (false, schema) => check(schema, part)?,
                    }
                }
            }
            "items" => {
                for part in value.as_array().into_iter().flatten() {
                    check(wanted, part)?;
                }
            }
            "anyOf" => {
                let tried = wanted.as_array().unwrap().iter();
                let whys: Vec<_> = tried.filter_map(|one| check(one, value).err()).collect();
                let fits = whys.len() < wanted.as_array().unwrap().len();
                require(fits, || whys.join(", or "))?;
            }
            "title" | "description" | "default" => {}
            other => panic!("this test does not know `{other}` of {schema}"),
        }
    }
    Ok(())
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("no type `{other}`"),
    }
}

fn require(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    holds.then_some(()).ok_or_else(why)
}

/// It finds what it is for.
#[test]
fn what_is_not_declared_is_found() {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "string"}}},
        "required": ["rows"],
        "additionalProperties": false,
    });
    for (value, is_right) in [
        (serde_json::json!({"rows": ["a"]}), true),
        (serde_json::json!({"rows": [1]}), false),
        (serde_json::json!({"rows": [], "more": 1}), false),
        (serde_json::json!({}), false),
    ] {
        assert_eq!(check(&schema, &value).is_ok(), is_right, "{value}");
    }
}
