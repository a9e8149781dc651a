//! An MCP server with a tool of its own, which asks the gate. It speaks over standard input and output.
//!
//! ```sh
//! cargo run --package palisade-examples --bin own-mcp-server
//! ```

use std::{error::Error, sync::Arc};

use palisade::{Guard, Params, Principal, Session, tool_names::ToolNames};
use rmcp::{
    ErrorData, ServerHandler, ServiceExt as _,
    handler::server::wrapper::Parameters,
    model::{CallToolResult, ServerCapabilities, ServerConfig},
    schemars, tool, tool_handler, tool_router,
    transport::stdio,
};

struct Customers {
    guard: Guard,
    /// What refusals call the tools.
    names: ToolNames,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Ask {
    /// One SELECT over `customers`.
    sql: String,
}

#[tool_router]
impl Customers {
    #[tool(description = "Reads customers by a SELECT")]
    async fn ask_customers(&self, ask: Parameters<Ask>) -> Result<CallToolResult, ErrorData> {
        // Who asks is known to the server; nothing that a client sends decides it.
        let session = Session::new(Principal::new("Agent", "support-bot"));
        let outcome = self.guard.query(&ask.0.sql, &Params::None, &session).await;
        let json = |value: Result<serde_json::Value, _>| {
            value.map_err(|why: serde_json::Error| ErrorData::internal_error(why.to_string(), None))
        };
        match outcome.into_result() {
            // With the content policy and marks around the rows: a model reads it.
            Ok(envelope) => {
                json(serde_json::to_value(envelope.for_model())).map(CallToolResult::structured)
            }
            Err(refusal) => {
                palisade_examples::tell_operator(&refusal);
                json(serde_json::to_value(refusal.for_agent_of(&self.names)))
                    .map(CallToolResult::structured_error)
            }
        }
    }
}

#[tool_handler]
impl ServerHandler for Customers {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let guard = palisade_examples::guard()?;
    let names = ToolNames::only([("query", "ask_customers")]);
    let customers = Arc::new(Customers { guard, names });
    let server = customers.serve(stdio()).await?;
    server.waiting().await?;
    Ok(())
}
