//! The suite's tools that ask the client within a call, which needs a session: of revisions before 2026-07-28.

use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{ElicitRequestParams, ServerRequest},
    service::ServiceError,
};
use serde_json::{Value, json};

/// The tools, which take no argument that is looked at.
pub(crate) const TOOLS: [&str; 4] = [
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
];

/// What the client is asked for by the tool of this name; none if it is no such tool.
fn properties(name: &str) -> Option<Value> {
    let options = ["option1", "option2", "option3"];
    let titled = |titles: [&str; 3]| {
        let all: Vec<_> = (1..)
            .zip(titles)
            .map(|(n, title)| json!({"const": format!("value{n}"), "title": title}))
            .collect();
        all
    };
    Some(match name {
        "test_elicitation" => json!({"username": {"type": "string"}, "email": {"type": "string"}}),
        "test_elicitation_sep1034_defaults" => json!({
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
        }),
        "test_elicitation_sep1330_enums" => json!({
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"])},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled(["First Choice", "Second Choice", "Third Choice"])}},
        }),
        _ => return None,
    })
}

fn explain(error: ServiceError) -> ErrorData {
    ErrorData::internal_error(format!("the client could not be asked: {error}"), None)
}

/// What the tool of this name answers once the client was asked; none if it asks nothing.
pub(crate) async fn answer(
    name: &str,
    peer: &Peer<RoleServer>,
) -> Result<Option<Value>, ErrorData> {
    let malformed = |error: serde_json::Error| ErrorData::internal_error(error.to_string(), None);
    let told = if name == "test_sampling" {
        let message = json!({"role": "user", "content": {"type": "text", "text": "Test prompt for sampling"}});
        let request = json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}});
        let request: ServerRequest = serde_json::from_value(request).map_err(malformed)?;
        let said = peer.send_request(request).await.map_err(explain)?;
        let said = serde_json::to_value(said).map_err(malformed)?;
        format!("LLM response: {}", said["content"]["text"])
    } else if let Some(properties) = properties(name) {
        let asked = json!({
            "mode": "form", "message": "Please say",
            "requestedSchema": {"type": "object", "properties": properties},
        });
        let asked: ElicitRequestParams = serde_json::from_value(asked).map_err(malformed)?;
        let said = peer.create_elicitation(asked).await.map_err(explain)?;
        let said = serde_json::to_value(said).map_err(malformed)?;
        format!("Elicitation completed: {said}")
    } else {
        return Ok(None);
    };
    Ok(Some(json!({"content": [{"type": "text", "text": told}]})))
}
