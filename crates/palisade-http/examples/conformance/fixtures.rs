//! The real server, and beside its own what the suite asks for.

#![expect(
    deprecated,
    reason = "the suite asks for logs and subscriptions of the older revision"
)]

use std::time::Duration;

use palisade_mcp::PalisadeServer;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities,
        CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, GetTaskParams, GetTaskResult, InputRequiredResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel,
        LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    questions, tasks,
    tools::{self, Answer, PNG, Round},
};

/// What the suite can watch.
const WATCHED: &str = "test://watched-resource";

/// The step of what takes a while.
const STEP: Duration = Duration::from_millis(50);

/// A server with what the suite asks for.
#[derive(Clone)]
pub(crate) struct Fixtures {
    server: PalisadeServer,
}

impl Fixtures {
    pub(crate) fn new(server: PalisadeServer) -> Self {
        Self { server }
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| {
        ErrorData::internal_error(format!("a fixture is not of the protocol: {error}"), None)
    })
}

/// A result that is whole.
fn read_complete<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = json!("complete");
    read(value)
}

fn write(value: impl Serialize) -> Result<Value, ErrorData> {
    serde_json::to_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Fixtures of a kind.
fn list<T: DeserializeOwned>(values: Value) -> Result<Vec<T>, ErrorData> {
    read(values)
}

fn has_capability(context: &RequestContext<RoleServer>, name: &str) -> bool {
    let capabilities = context
        .meta
        .0
        .0
        .get("io.modelcontextprotocol/clientCapabilities");
    capabilities.is_some_and(|capabilities| capabilities.get(name).is_some())
}

async fn tell_progress(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else {
        return;
    };
    for progress in [0.0, 50.0, 100.0] {
        let told = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
        let _ = context.peer.notify_progress(told).await;
        sleep(STEP).await;
    }
}

async fn tell_log(context: &RequestContext<RoleServer>) {
    for text in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ] {
        let told = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(text));
        let _ = context.peer.notify_logging_message(told).await;
        sleep(STEP).await;
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.server.get_info();
        info.capabilities.logging = Some(serde_json::Map::new());
        info
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.server.list_tools(request, context).await?;
        listed.tools.extend(list::<Tool>(tools::declare())?);
        listed.tools.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let declared = list::<Tool>(tools::declare()).unwrap_or_default();
        let mut declared = declared.into_iter();
        let found = declared.find(|tool| tool.name == name);
        found.or_else(|| self.server.get_tool(name))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let round = Round {
            responses: request.input_responses.clone().unwrap_or_default(),
            state: request.request_state.clone(),
            has_elicitation: has_capability(&context, "elicitation"),
        };
        match &*request.name {
            "test_tool_with_progress" => tell_progress(&context).await,
            "test_tool_with_logging" => tell_log(&context).await,
            "test_missing_capability" if !has_capability(&context, "sampling") => {
                let needed: ClientCapabilities = read(json!({"sampling": {}}))?;
                return Err(ErrorData::missing_required_client_capability(needed));
            }
            _ => {}
        }
        if let Some(answered) = tasks::answer(&self.server, &request, &context).await {
            return answered;
        }
        if let Some(result) = questions::answer(&request.name, &context.peer).await? {
            return Ok(CallToolResponse::Complete(read_complete(result)?));
        }
        match tools::answer(&request.name, &round) {
            Answer::Complete(result) => Ok(CallToolResponse::Complete(read_complete(result)?)),
            Answer::InputRequired(result) => {
                Ok(CallToolResponse::InputRequired(
                    read::<InputRequiredResult>(result)?,
                ))
            }
            Answer::BadState => Err(ErrorData::invalid_params(
                "the state is not what was given",
                None,
            )),
            Answer::Other => self.server.call_tool(request, context).await,
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = self.server.list_resources(request, context).await?;
        let text = |name: &str, kind: &str| json!({"uri": format!("test://{name}"), "name": name, "description": name, "mimeType": kind});
        listed.resources.extend(list(json!([
            text("static-text", "text/plain"),
            text("static-binary", "image/png"),
            text("watched-resource", "text/plain"),
        ]))?);
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = self
            .server
            .list_resource_templates(request, context)
            .await?;
        listed.resource_templates.extend(list(json!([{
            "uriTemplate": "test://template/{id}/data", "name": "template", "description": "template",
            "mimeType": "application/json",
        }]))?);
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.clone();
        let id = uri
            .strip_prefix("test://template/")
            .and_then(|rest| rest.strip_suffix("/data"));
        let content = match (&*uri, id) {
            (_, Some(id)) => {
                let text =
                    json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                json!({"uri": uri, "mimeType": "application/json", "text": text.to_string()})
            }
            ("test://static-text", None) => {
                json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
            }
            ("test://static-binary", None) => {
                json!({"uri": uri, "mimeType": "image/png", "blob": PNG})
            }
            (WATCHED, None) => json!({"uri": uri, "mimeType": "text/plain", "text": "watched"}),
            (_, None) => return self.server.read_resource(request, context).await,
        };
        let result: ReadResourceResult =
            read_complete(json!({"contents": [content], "ttlMs": 0, "cacheScope": "private"}))?;
        Ok(result.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match request.uri == WATCHED {
            true => Ok(()),
            false => self.server.subscribe(request, context).await,
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.server.unsubscribe(request, context).await
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut listed = self.server.list_prompts(request, context).await?;
        listed.prompts.extend(list(tools::declare_prompts())?);
        Ok(listed)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = write(&request.arguments)?;
        let responses = request.input_responses.clone().unwrap_or_default();
        match tools::fill_prompt(&request.name, &arguments, &responses) {
            Answer::Complete(result) => {
                let result: GetPromptResult = read_complete(result)?;
                Ok(result.into())
            }
            Answer::InputRequired(result) => Ok(GetPromptResponse::InputRequired(read(result)?)),
            Answer::BadState | Answer::Other => self.server.get_prompt(request, context).await,
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let asked = write(&request)?;
        if asked["ref"]["name"] != "test_prompt_with_arguments" {
            return self.server.complete(request, context).await;
        }
        let begun = asked["argument"]["value"].as_str().unwrap_or_default();
        let words = ["paris", "park", "party"];
        let values: Vec<_> = words
            .iter()
            .filter(|word| word.starts_with(begun))
            .collect();
        read_complete(
            json!({"completion": {"values": values, "total": values.len(), "hasMore": false}}),
        )
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.server.on_initialized(context).await;
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.server.accepted_subscription_filter(requested)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.server.get_task(request, context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.server.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.server.cancel_task(request, context).await
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.server.listen(context).await
    }
}
