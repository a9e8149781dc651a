//! The names of the attributes that a policy looks at.

use std::collections::BTreeSet;

use serde_json::Value;

/// The names of the attributes that a policy, as Cedar's JSON, looks at: of whatever has them.
pub(in crate::policy) fn attribute_names(json: &Value) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    collect_names(json, &mut out);
    out
}

fn collect_names(json: &Value, out: &mut BTreeSet<String>) {
    match json {
        Value::Object(fields) => {
            match fields.get("attr") {
                Some(Value::String(name)) => {
                    out.insert(name.clone());
                }
                Some(Value::Array(names)) => {
                    let names = names.iter().filter_map(Value::as_str);
                    out.extend(names.map(str::to_owned));
                }
                Some(_) | None => {}
            }
            fields.values().for_each(|field| collect_names(field, out));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
