//! Palisade's tools beside a tool of its own in one MCP server. It speaks over standard input and output.
//!
//! ```sh
//! cargo run --package palisade-examples --bin beside-own-tools
//! ```

use std::{error::Error, sync::Arc};

use palisade::Principal;
use palisade_mcp::{PalisadeServer, ServeOptions};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
        GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, UpdateTaskParams, object,
    },
    service::{NotificationContext, RequestContext},
    transport::stdio,
};
use serde_json::json;

/// The name of its own tool: none of `palisade::tool_names::TOOLS`, and of no template.
const HOURS: &str = "opening_hours";

struct Shop {
    palisade: PalisadeServer,
}

fn describe_hours() -> Tool {
    let no_arguments = object(json!({"type": "object", "properties": {}}));
    Tool::new(HOURS, "Tells when the shop is open", no_arguments)
}

/// Tools and tasks are announced alone: this server forwards no requests about prompts and resources.
fn keep_tools(capabilities: &mut ServerCapabilities) {
    capabilities.completions = None;
    capabilities.prompts = None;
    capabilities.resources = None;
}

impl ServerHandler for Shop {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.palisade.get_info();
        keep_tools(&mut info.capabilities);
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut told = self.palisade.initialize(request, context).await?;
        keep_tools(&mut told.capabilities);
        Ok(told)
    }

    /// From here on a client is told of tools that come or go.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.palisade.on_initialized(context).await;
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = self.palisade.list_tools(request, context).await?;
        list.tools.push(describe_hours());
        Ok(list)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        match name {
            HOURS => Some(describe_hours()),
            _ => self.palisade.get_tool(name),
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*request.name {
            HOURS => {
                let text = ContentBlock::text("from nine to five");
                Ok(CallToolResult::success(vec![text]).into())
            }
            // Also a tool that there is not: Palisade refuses and records it.
            _ => self.palisade.call_tool(request, context).await,
        }
    }

    // Calls that take long go on as tasks.

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.palisade.get_task(request, context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.palisade.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.palisade.cancel_task(request, context).await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = ServeOptions::new(Principal::new("Agent", "support-bot"), "example");
    let palisade = PalisadeServer::new(Arc::new(palisade_examples::guard()?), options);
    let server = Shop { palisade }.serve(stdio()).await?;
    server.waiting().await?;
    Ok(())
}
