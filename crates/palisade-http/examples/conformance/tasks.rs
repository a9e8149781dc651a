//! The suite's tools that go on as tasks, which the server keeps as it keeps its own.

use std::time::Duration;

use palisade_mcp::{OpenTask, PalisadeServer};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputRequest,
        InputRequiredResult,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::tools::elicit;

/// Tools of tasks. What they are given is not declared: the suite does not ask for it.
pub(crate) const TOOLS: [&str; 7] = [
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
];

type Answered = Result<CallToolResponse, ErrorData>;

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn explain_malformed(error: &serde_json::Error) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn say_cancelled() -> ErrorData {
    ErrorData::internal_error("it was cancelled", None)
}

/// Asks the client for a word, within a task.
async fn ask(task: &OpenTask, key: &str, property: &str, kind: &str) -> Result<Value, ErrorData> {
    let request = elicit("Please say", property, kind);
    let request: InputRequest =
        serde_json::from_value(request).map_err(|error| explain_malformed(&error))?;
    task.ask(key, request).await.ok_or_else(say_cancelled)
}

/// Works for `seconds`, unless it is cancelled.
async fn compute(task: &OpenTask, seconds: f64) -> Result<CallToolResult, ErrorData> {
    tokio::select! {
        () = sleep(Duration::from_secs_f64(seconds)) => Ok(text("computed")),
        () = task.cancelled() => Err(say_cancelled()),
    }
}

/// What a tool of these answers; none if it is another.
pub(crate) async fn answer(
    server: &PalisadeServer,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Answered> {
    let arguments = json!(request.arguments);
    let knows_tasks = (context.client_capabilities()).is_some_and(|client| client.supports_tasks());
    Some(match &*request.name {
        "greet" => {
            let name = arguments["name"].as_str().unwrap_or_default();
            Ok(text(format!("Hello, {name}!")).into())
        }
        "slow_compute" => {
            let seconds = arguments["seconds"].as_f64().unwrap_or_default();
            // What is short needs no task, and a client without tasks waits.
            if seconds <= 0.0 || !knows_tasks {
                sleep(Duration::from_secs_f64(seconds.max(0.0))).await;
                return Some(Ok(text("computed").into()));
            }
            server.begin_task(
                context,
                move |task| async move { compute(&task, seconds).await },
            )
        }
        // A client without tasks cannot have it.
        "failing_job" => server.begin_task(context, |_| async {
            sleep(Duration::from_secs(1)).await;
            Ok(CallToolResult::error(vec![ContentBlock::text(
                "the job failed",
            )]))
        }),
        "protocol_error_job" => server.begin_task(context, |_| async {
            Err(ErrorData::internal_error("the job broke", None))
        }),
        // The suite calls the first tool of the list in any way.
        "confirm_delete" if !knows_tasks => Ok(text("nothing was deleted").into()),
        "confirm_delete" => server.begin_task(context, |task| async move {
            let said = ask(&task, "confirm", "confirm", "boolean").await?;
            Ok(text(format!("deleted: {}", said["content"]["confirm"])))
        }),
        "multi_input" => server.begin_task(context, |task| async move {
            let one = ask(&task, "first", "name", "string");
            let other = ask(&task, "second", "name", "string");
            let (one, other) = tokio::try_join!(one, other)?;
            let name = |said: &Value| said["content"]["name"].to_string();
            Ok(text(format!("{} and {}", name(&one), name(&other))))
        }),
        "test_tool_with_task" => {
            let responses = request.input_responses.as_ref();
            let said = responses.and_then(|responses| responses.get("user_name"));
            let Some(said) = said else {
                let question = elicit("What is your name?", "name", "string");
                let asked = json!({"resultType": "input_required", "inputRequests": {"user_name": question}});
                let asked = serde_json::from_value::<InputRequiredResult>(asked);
                return Some(match asked {
                    Ok(asked) => Ok(CallToolResponse::InputRequired(asked)),
                    Err(error) => Err(explain_malformed(&error)),
                });
            };
            let name = said["content"]["name"].to_string();
            server.begin_task(context, |_| async move {
                sleep(Duration::from_millis(200)).await;
                Ok(text(format!("Hello, {name}!")))
            })
        }
        _ => return None,
    })
}
