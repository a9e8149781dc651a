//! The suite's tools and prompts: what they are, and what they answer.

use std::{collections::BTreeMap, sync::OnceLock};

use serde_json::{Value, json};

use crate::{questions, tasks};

/// A picture of one red point.
pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// No sound.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// Tools without arguments.
const TOOLS: [&str; 19] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_logging_tool",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

/// What a call brings beside its arguments.
pub(crate) struct Round {
    pub(crate) responses: BTreeMap<String, Value>,
    pub(crate) state: Option<String>,
    pub(crate) has_elicitation: bool,
}

/// What a fixture answers.
pub(crate) enum Answer {
    Complete(Value),
    InputRequired(Value),
    /// The state that came back was never given.
    BadState,
    /// It is no fixture.
    Other,
}

/// The suite's tools.
pub(crate) fn declare() -> Value {
    let nothing = json!({"type": "object", "properties": {}});
    let mut tools: Vec<Value> = TOOLS
        .iter()
        .chain(&questions::TOOLS)
        .chain(&tasks::TOOLS)
        .map(|name| json!({"name": name, "description": name, "inputSchema": nothing}))
        .collect();
    tools.push(json!({
        "name": "test_header", "description": "takes an argument that is a header too",
        "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
    }));
    tools.push(json!({
        "name": "json_schema_2020_12_tool",
        "description": "Tool with JSON Schema 2020-12 features",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {
                "$anchor": "addressDef", "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        },
    }));
    Value::Array(tools)
}

fn text(text: &str) -> Answer {
    Answer::Complete(json!({"content": [{"type": "text", "text": text}]}))
}

fn content(content: &Value) -> Answer {
    Answer::Complete(json!({"content": content}))
}

pub(crate) fn elicit(message: &str, property: &str, kind: &str) -> Value {
    let schema =
        json!({"type": "object", "properties": {property: {"type": kind}}, "required": [property]});
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

fn sample(message: &str) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": message}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}})
}

fn list_roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn ask(requests: &Value, state: Option<String>) -> Answer {
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = Value::String(state);
    }
    Answer::InputRequired(result)
}

/// The state of a step, which only this process can make.
fn state(step: &str) -> String {
    static SECRET: OnceLock<String> = OnceLock::new();
    let secret = SECRET.get_or_init(|| {
        let mut bytes = [0_u8; 16];
        // Without chance there is no state that holds.
        match getrandom::fill(&mut bytes) {
            Ok(()) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            Err(_) => std::process::abort(),
        }
    });
    format!("{step}-{secret}")
}

/// What a tool of this name answers.
pub(crate) fn answer(name: &str, round: &Round) -> Answer {
    let given = |key: &str| round.responses.get(key);
    let is_state = |step: &str| round.state.as_deref() == Some(&*state(step));
    let wants_ok = || json!({"confirm": elicit("Please confirm", "ok", "boolean")});
    match name {
        "test_simple_text" => text("This is a simple text response for testing."),
        "test_image_content" => {
            content(&json!([{"type": "image", "data": PNG, "mimeType": "image/png"}]))
        }
        "test_audio_content" => {
            content(&json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]))
        }
        "test_embedded_resource" => content(&json!([{"type": "resource", "resource": {
            "uri": "test://embedded-resource", "mimeType": "text/plain",
            "text": "This is an embedded resource content.",
        }}])),
        "test_multiple_content_types" => content(&json!([
            {"type": "text", "text": "Multiple content types test:"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "resource", "resource": {
                "uri": "test://mixed-content-resource", "mimeType": "application/json",
                "text": "{\"test\":\"data\",\"value\":123}",
            }},
        ])),
        "test_error_handling" => Answer::Complete(json!({
            "isError": true,
            "content": [{"type": "text", "text": "This tool intentionally returns an error for testing"}],
        })),
        "test_tool_with_logging"
        | "test_tool_with_progress"
        | "test_logging_tool"
        | "test_missing_capability"
        | "test_header"
        | "json_schema_2020_12_tool" => text("done"),
        "test_streaming_elicitation" => ask(
            &json!({"ok": elicit("Please confirm", "ok", "boolean")}),
            None,
        ),
        "test_input_required_result_elicitation" => {
            let name = given("user_name").and_then(|given| given["content"]["name"].as_str());
            match name {
                Some(name) => text(&format!("Hello, {name}!")),
                None => ask(
                    &json!({"user_name": elicit("What is your name?", "name", "string")}),
                    None,
                ),
            }
        }
        "test_input_required_result_sampling" => match given("capital_question") {
            Some(given) => text(given["content"]["text"].as_str().unwrap_or_default()),
            None => ask(
                &json!({"capital_question": sample("What is the capital of France?")}),
                None,
            ),
        },
        "test_input_required_result_list_roots" => match given("client_roots") {
            Some(given) => text(&given["roots"].to_string()),
            None => ask(&json!({"client_roots": list_roots()}), None),
        },
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => match (given("confirm"), &round.state) {
            (Some(_), Some(_)) if is_state("confirm") => text("state-ok"),
            (_, Some(_)) => Answer::BadState,
            (_, None) => ask(&wants_ok(), Some(state("confirm"))),
        },
        "test_input_required_result_multiple_inputs" => {
            let keys = ["user_name", "greeting", "client_roots"];
            match keys.iter().all(|key| given(key).is_some()) {
                true if is_state("several") => text("all are there"),
                true => Answer::BadState,
                false => ask(
                    &json!({
                        "user_name": elicit("What is your name?", "name", "string"),
                        "greeting": sample("Generate a greeting"),
                        "client_roots": list_roots(),
                    }),
                    Some(state("several")),
                ),
            }
        }
        "test_input_required_result_multi_round" => {
            if given("step2").is_some() && is_state("second") {
                text("both steps are done")
            } else if given("step1").is_some() && is_state("first") {
                let second = elicit("Step 2: What is your favorite color?", "color", "string");
                ask(&json!({"step2": second}), Some(state("second")))
            } else if round.state.is_some() {
                Answer::BadState
            } else {
                let first = elicit("Step 1: What is your name?", "name", "string");
                ask(&json!({"step1": first}), Some(state("first")))
            }
        }
        "test_input_required_result_capabilities" => match round.has_elicitation {
            true => ask(&wants_ok(), None),
            false => ask(
                &json!({"question": sample("What is the capital of France?")}),
                None,
            ),
        },
        _ => Answer::Other,
    }
}

/// The suite's prompts.
pub(crate) fn declare_prompts() -> Value {
    let argument = |name: &str| json!({"name": name, "description": name, "required": true});
    let prompt = |name: &str, arguments: Value| json!({"name": name, "description": name, "arguments": arguments});
    json!([
        prompt("test_simple_prompt", json!([])),
        prompt(
            "test_prompt_with_arguments",
            json!([argument("arg1"), argument("arg2")])
        ),
        prompt(
            "test_prompt_with_embedded_resource",
            json!([argument("resourceUri")])
        ),
        prompt("test_prompt_with_image", json!([])),
        prompt("test_input_required_result_prompt", json!([])),
    ])
}

/// What a prompt of this name says.
pub(crate) fn fill_prompt(
    name: &str,
    arguments: &Value,
    responses: &BTreeMap<String, Value>,
) -> Answer {
    let say = |contents: &[Value]| {
        let messages: Vec<_> = contents
            .iter()
            .map(|content| json!({"role": "user", "content": content}))
            .collect();
        Answer::Complete(json!({"messages": messages}))
    };
    let words = |text: &str| json!({"type": "text", "text": text});
    let argument = |name: &str| arguments[name].as_str().unwrap_or_default();
    match name {
        "test_simple_prompt" => say(&[words("This is a simple prompt for testing.")]),
        "test_prompt_with_arguments" => say(&[words(&format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1"),
            argument("arg2")
        ))]),
        "test_prompt_with_embedded_resource" => say(&[
            json!({"type": "resource", "resource": {
                "uri": argument("resourceUri"), "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            words("Please process the embedded resource above."),
        ]),
        "test_prompt_with_image" => say(&[
            json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
            words("Please analyze the image above."),
        ]),
        "test_input_required_result_prompt" => match responses.get("user_context") {
            Some(given) => say(&[words(&given["content"]["context"].to_string())]),
            None => {
                let wanted = elicit("What context should the prompt use?", "context", "string");
                ask(&json!({"user_context": wanted}), None)
            }
        },
        _ => Answer::Other,
    }
}
