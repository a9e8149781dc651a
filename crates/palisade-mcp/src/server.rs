//! The handler: finds the tool, runs it where blocking is fine, and turns what comes of it into a
//! result.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use palisade::{
    code::Code,
    firewall::VisibleRelation,
    guard::{Backend, Guard, Outcome, Refusal},
    limits::Limits,
    rejection::Rejection,
    session::{Claims, Principal, Session},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
        SubscriptionFilter, Tool,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::Value;
use tokio::{runtime::Handle, task::spawn_blocking, time::sleep};

use crate::{
    answer::{self, Context, Offered, Templates},
    arguments::{self, MAX_ROWS},
    connections::{Connection, Connections, ConnectionsError, MAX_CALLS, Standing},
    declare::{self, ToolName},
    metadata,
};

/// Bytes of all cells of one answer.
const MAX_RESULT_BYTES: usize = 64 * 1024;

/// How often it is looked whether other policies offer other tools: whoever reloads them tells the gate alone.
const LOOK: Duration = Duration::from_millis(250);

/// What the operator decides about a connection, and no client can change.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Who asks, whatever a client says of itself.
    pub principal: Principal,
    /// What the database is called. The agent reads it: no path, no address, no secret.
    pub connection: String,
    /// Whether the tool `execute` is offered, as far as policies permit changes. The guard's firewall has to allow
    /// changes and its backend has to be writable as well, or every change is refused.
    pub writable: bool,
}

/// An MCP server over one [`Guard`] or several. Clones share everything.
pub struct PalisadeServer<B> {
    shared: Arc<Shared<B>>,
}

struct Shared<B> {
    connections: Connections<B>,
    /// Incidents numbered here: those the guard could not number because it was not reached or fell.
    incidents: AtomicU64,
}

impl<B> Clone for PalisadeServer<B> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<B: Backend> std::fmt::Debug for PalisadeServer<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PalisadeServer")
            .field("connections", &self.shared.connections.offer())
            .finish_non_exhaustive()
    }
}

impl<B: Backend + 'static> PalisadeServer<B> {
    /// A server that asks `guard` as the principal in `options`.
    #[must_use]
    pub fn new(guard: Arc<Guard<B>>, options: ServeOptions) -> Self {
        Self::serving(Connections::one(guard, options))
    }

    /// A server over several databases: each call says by the connection's name which one it means. Of one
    /// alone, nobody need say anything.
    ///
    /// # Errors
    /// If there is none, or a name is not one or belongs to two.
    pub fn over(
        connections: impl IntoIterator<Item = (Arc<Guard<B>>, ServeOptions)>,
    ) -> Result<Self, ConnectionsError> {
        Connections::several(connections).map(Self::serving)
    }

    fn serving(connections: Connections<B>) -> Self {
        Self {
            shared: Arc::new(Shared {
                connections,
                incidents: AtomicU64::new(0),
            }),
        }
    }

    /// Whether other tools are offered than were `seen`, which become those.
    fn has_changed(&self, seen: &mut Standing) -> bool {
        let now = self.shared.connections.standing();
        let before = std::mem::replace(seen, now);
        before != *seen
    }

    /// Runs `tool` on the connection that the arguments name.
    async fn run(
        &self,
        tool: ToolName,
        mut arguments: JsonObject,
        claims: Claims,
    ) -> CallToolResult {
        let shared = &self.shared;
        if tool == ToolName::Execute && !shared.connections.offer().changeable() {
            return shared.refusal(tool, None, refusal(read_only()));
        }
        match shared.connections.choose(&mut arguments) {
            Ok(connection) => match run_on(connection, tool, arguments, claims).await {
                Ok(result) => result,
                Err(refusal) => shared.refusal(tool, Some(connection), refusal),
            },
            Err(rejection) => shared.refusal(tool, None, refusal(rejection)),
        }
    }
}

/// Runs `tool` on a blocking thread: backends may block, and a panic there ends that thread's work and nothing
/// else.
async fn run_on<B: Backend + 'static>(
    connection: &Arc<Connection<B>>,
    tool: ToolName,
    arguments: JsonObject,
    claims: Claims,
) -> Result<CallToolResult, Refusal> {
    let _waiting = connection
        .calls
        .try_acquire()
        .map_err(|_| refusal(busy()))?;
    let permit = Arc::clone(&connection.running)
        .acquire_owned()
        .await
        .map_err(|_| refusal(internal("the semaphore is closed")))?;
    let theirs = Arc::clone(connection);
    let handle = Handle::current();
    let session = connection.session.clone().claiming(claims);
    let job = spawn_blocking(move || {
        let result = theirs.call(tool, arguments, &session, &handle);
        drop(permit);
        result
    });
    job.await
        .map_err(|_| refusal(internal("a tool panicked")))?
}

impl<B: Backend + 'static> Connection<B> {
    /// Runs `tool`, blocking.
    fn call(
        &self,
        tool: ToolName,
        arguments: JsonObject,
        session: &Session,
        handle: &Handle,
    ) -> Result<CallToolResult, Refusal> {
        match tool {
            ToolName::ListTables => {
                arguments::list(arguments).map_err(refusal)?;
                let relations = self.relations(handle)?;
                answer::metadata(&metadata::list(&relations)).map_err(refusal)
            }
            ToolName::DescribeTable => {
                let table = arguments::describe(arguments).map_err(refusal)?;
                let relations = self.relations(handle)?;
                let firewall = self.guard.firewall();
                let catalog = firewall.catalog();
                let description = metadata::describe(
                    &relations,
                    &table,
                    catalog.dialect(),
                    catalog.search_path(),
                );
                answer::metadata(&description.map_err(refusal)?).map_err(refusal)
            }
            ToolName::ListTemplates => {
                arguments::list(arguments).map_err(refusal)?;
                let templates = self.guard.templates(session)?;
                answer::metadata(&metadata::templates(&templates)).map_err(refusal)
            }
            ToolName::RunTemplate => {
                let call = arguments::template(arguments).map_err(refusal)?;
                let limits = self.limits(call.limit);
                let run = self
                    .guard
                    .run_within(&call.template, &call.arguments, session, &limits);
                rows(handle.block_on(run).0)
            }
            ToolName::Query => {
                let call = arguments::query(arguments).map_err(refusal)?;
                let limits = self.limits(call.limit);
                let (outcome, _) = handle.block_on(self.guard.query_within(
                    &call.sql,
                    &call.params,
                    session,
                    &limits,
                ));
                rows(outcome)
            }
            ToolName::Execute => {
                if !self.is_changeable() {
                    return Err(refusal(read_only()));
                }
                let call = arguments::execute(arguments).map_err(refusal)?;
                // What a change gives leaves whole, or the change is taken back.
                let limits = Limits {
                    max_rows: MAX_ROWS,
                    max_result_bytes: MAX_RESULT_BYTES,
                    max_affected_rows: call.max_affected_rows.unwrap_or(u64::MAX),
                    ..self.guard.firewall().limits().clone()
                };
                let (outcome, _) = handle.block_on(self.guard.execute_within(
                    &call.sql,
                    &call.params,
                    session,
                    &limits,
                ));
                rows(outcome)
            }
        }
    }

    /// What an answer may cost that is to have so many rows.
    fn limits(&self, max_rows: u64) -> Limits {
        Limits {
            max_rows,
            max_result_bytes: MAX_RESULT_BYTES,
            ..self.guard.firewall().limits().clone()
        }
    }

    /// The relations that exist for the session by now. Where the database cannot be looked at, those that it
    /// had.
    fn relations(&self, handle: &Handle) -> Result<Vec<VisibleRelation>, Refusal> {
        if let Err(error) = handle.block_on(self.guard.refresh_if_due()) {
            tracing::warn!(
                connection = self.name,
                "the schema may be out of date: {error}"
            );
        }
        self.guard.relations(&self.session)
    }
}

/// The result of a statement.
fn rows(outcome: Outcome) -> Result<CallToolResult, Refusal> {
    match outcome {
        Outcome::Rows(envelope) => answer::rows(&envelope).map_err(refusal),
        Outcome::Rejected(refusal) => Err(refusal),
    }
}

impl<B: Backend> Shared<B> {
    /// The result for a refusal by `connection`, or before one was chosen.
    fn refusal(
        &self,
        tool: ToolName,
        connection: Option<&Connection<B>>,
        mut refusal: Refusal,
    ) -> CallToolResult {
        let offered = match connection {
            Some(connection) if connection.is_changeable() => Offered::Changing,
            Some(_) | None => Offered::Reading,
        };
        let connection = connection
            .map(|connection| connection.name.as_str())
            .or_else(|| self.connections.only());
        let code = refusal.rejection.code();
        if code == Code::Internal && refusal.incident.is_none() {
            refusal.incident = Some(self.incident());
        }
        if let Some(incident) = &refusal.incident {
            // Other details are the engine's words, which can hold values.
            let detail = match code {
                Code::Internal | Code::PolicyEvaluationFailed => {
                    refusal.rejection.operator_detail().unwrap_or_default()
                }
                _ => "",
            };
            tracing::error!(
                incident,
                code = code.slug(),
                tool = tool.name(),
                connection,
                detail,
                "refused"
            );
        }
        let templates = if self.connections.have_templates() {
            Templates::Listed
        } else {
            Templates::None
        };
        answer::refusal(&refusal, Context { tool, connection }, offered, templates)
    }

    fn incident(&self) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis());
        let number = self.incidents.fetch_add(1, Ordering::Relaxed);
        format!("{now:x}-{number:x}")
    }
}

impl<B: Backend + 'static> ServerHandler for PalisadeServer<B> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("palisade", env!("CARGO_PKG_VERSION"))
                    .with_title("Palisade")
                    .with_description("A SQL firewall for AI agents"),
            )
            .with_instructions(declare::instructions(&self.shared.connections.offer()))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.is_some_and(|request| request.cursor.is_some()) {
            return Err(ErrorData::invalid_params("there is no such page", None));
        }
        Ok(ListToolsResult::with_all_items(declare::tools(
            &self.shared.connections.offer(),
            self.shared.connections.have_templates(),
        )))
    }

    /// A client that has shaken hands is told of other tools as long as it is there.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let (server, peer) = (self.clone(), context.peer);
        tokio::spawn(async move {
            let mut seen = server.shared.connections.standing();
            while !peer.is_transport_closed() {
                sleep(LOOK).await;
                if server.has_changed(&mut seen) && peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        // What is not announced among the capabilities is taken out of it.
        Some(requested.clone())
    }

    /// Others ask to be told.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut seen = self.shared.connections.standing();
        let wants = context.accepted().tools_list_changed == Some(true);
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = sleep(LOOK) => {}
            }
            if self.has_changed(&mut seen)
                && wants
                && context.sink().notify_tool_list_changed().await.is_err()
            {
                return Ok(());
            }
        }
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tool = ToolName::from_name(name)?;
        declare::tool(tool, &self.shared.connections.offer())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::from_name(&request.name) else {
            return Err(ErrorData::invalid_params("there is no such tool", None));
        };
        let claims = claims(&context);
        tokio::select! {
            result = self.run(tool, request.arguments.unwrap_or_default(), claims) => Ok(result.into()),
            // The engine's own time-out ends what is running; nobody waits for it here.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }
}

/// Where a call says what it is for.
const PURPOSE: &str = "palisade/purpose";

/// What the client says of itself, for records.
fn claims(context: &RequestContext<RoleServer>) -> Claims {
    let client = context
        .client_info()
        .map(|info| format!("{} {}", info.name, info.version));
    let purpose = context.meta.0.0.get(PURPOSE).and_then(Value::as_str);
    Claims::new(client.as_deref(), purpose)
}

fn refusal(rejection: Rejection) -> Refusal {
    Refusal {
        rejection,
        incident: None,
    }
}

fn read_only() -> Rejection {
    Rejection::new(
        Code::StatementNotAllowed,
        "nothing can be changed here: there is no tool `execute`; read with `query`",
    )
}

fn busy() -> Rejection {
    Rejection::new(
        Code::DatabaseUnavailable,
        format!("{MAX_CALLS} calls are running or waiting; try again when one is answered"),
    )
}

fn internal(detail: &str) -> Rejection {
    Rejection::new(Code::Internal, Code::Internal.summary()).with_operator_detail(detail)
}
