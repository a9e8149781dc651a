//! Formatting: as `palisade policy fmt` lays out a file.

use lsp_server::ErrorCode;
use palisade::policy::{PolicyFile, format_policies};
use serde_json::{Value, json};

use crate::lsp::{editor::Unanswered, positions::find_range};

/// The edits that lay out a file of policies.
pub(super) fn lay_out(name: &str, text: &str) -> Result<Value, Unanswered> {
    if !name.ends_with(".cedar") {
        return Ok(Value::Null);
    }
    let file = PolicyFile {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let new = format_policies(&file)
        .map_err(|errors| Unanswered::new(ErrorCode::RequestFailed, errors.to_string()))?;
    if new == text {
        return Ok(json!([]));
    }
    Ok(json!([{"range": find_range(text, 0..text.len()), "newText": new}]))
}
