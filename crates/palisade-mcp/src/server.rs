//! The handler: finds the tool, runs it where blocking is fine, and turns what comes of it into a
//! result.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use palisade::{
    code::Code,
    guard::{Cancel, Guard, Refusal},
    policy::template::Template,
    rejection::Rejection,
    session::{CallOrigin, Claims},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        CompleteRequestParams, CompleteResult, Extensions, GetPromptRequestParams,
        GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams,
        InitializeResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ServerCapabilities, ServerConfig, SubscribeRequestParams,
        SubscriptionFilter, TASKS_EXTENSION_ID, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use crate::{
    answer::{self, Context, Offered, Templates},
    approval_page::ApprovalPage,
    arguments::{self, Call},
    calls::{CallContext, WorkPlace, record, record_unbound, run_on},
    claims::claims,
    confirm::{self, AskedOnce, Asking, Next},
    connections::{Chosen, Connection, Connections, ConnectionsError},
    declare,
    late::{LateConnection, Reached},
    lines::{self, Bounds},
    metadata,
    narrow::Narrowing,
    observe::{CallNotes, CallObserver, CallOutcome, Observer, TellOnDrop},
    options::{AnswerSize, ServeOptions},
    prompts::{self, PromptName},
    readiness::Readiness,
    refusals::{
        describe_unknown_tool, log_incident, no_such_tool, nobody_asks, opening, read_only,
        refusal, unreachable,
    },
    resources,
    running::{CancelOnDrop, PROGRESS, Running, tell_progress},
    tasks::{Caller, PATIENCE, Tasks},
    template_tools::TemplateTool,
    tool_name::ToolName,
    tool_set::{CurrentTools, ToolSet},
    turn::Turns,
    watch::{Hearing, MAX_WATCHED, Watched},
};

/// How long a client may keep a list, in milliseconds: no longer than it takes to look at what it says by a call.
pub(crate) const TTL_MS: u64 = 10_000;

/// How long a call that was given up may take to end and to be recorded.
const TIME_TO_END: Duration = Duration::from_secs(5);

/// How often it is looked whether other policies offer other tools: whoever reloads them tells the gate alone.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// The same for a session over a network, of which there are many.
pub(crate) const SESSION_LOOK: Duration = Duration::from_secs(1);

/// An MCP server over one [`Guard`] or several. Clones share everything.
pub struct PalisadeServer {
    pub(crate) shared: Arc<Shared>,
    /// The databases that it offers: all, or those that a request leaves.
    pub(crate) connections: Arc<Connections>,
    /// What requests took away from it.
    pub(crate) narrowings: Vec<Narrowing>,
    /// Which client it is for, where each has a pair of streams; else 0.
    door: u64,
    /// The calls of that client.
    running: Running,
    /// What this client's session is called in records.
    session_id: Option<Arc<str>>,
    /// What it is to be called, where whoever serves knows a name that outlives the connection.
    session_name: Option<Arc<str>>,
    /// How large an answer may be.
    size: AnswerSize,
    /// Where calls run.
    work: WorkPlace,
    /// How often a call that takes long says so.
    progress: Duration,
    /// Who is told of calls.
    observer: Observer,
    /// Which tools it offers.
    tools: CurrentTools,
    /// Where a person decides about what waits, for clients that can open an address.
    page: Option<Arc<ApprovalPage>>,
    /// The resources that its client watches.
    pub(crate) watched: Watched,
    /// When its client is told of news.
    pub(crate) hearing: Hearing,
    /// Of whom its requests are, where a transport says so.
    pub(crate) caller: Option<Caller>,
    /// Whether calls can go on as tasks,
    pub(crate) has_tasks: bool,
    /// and after what time.
    pub(crate) task_patience: Duration,
}

/// A tool as it was called.
struct Called {
    tool: ToolName,
    /// A template that is a tool has a name of its own,
    name: String,
    /// and is of one connection.
    template: Option<(Arc<Connection>, Template)>,
}

pub(crate) struct Shared {
    /// All databases.
    pub(crate) connections: Arc<Connections>,
    /// Incidents numbered here: those the guard could not number because it was not reached or fell.
    incidents: AtomicU64,
    /// How many pairs of streams were served.
    doors: AtomicU64,
    /// The requests that clients were asked to approve.
    asked: AskedOnce,
    /// Whether the databases answer.
    pub(crate) readiness: Readiness,
    /// The calls that go on without their requests.
    pub(crate) tasks: Arc<Tasks>,
}

impl Clone for PalisadeServer {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            connections: Arc::clone(&self.connections),
            narrowings: self.narrowings.clone(),
            door: self.door,
            running: self.running.clone(),
            session_id: self.session_id.clone(),
            session_name: self.session_name.clone(),
            size: self.size,
            work: self.work.clone(),
            progress: self.progress,
            observer: self.observer.clone(),
            tools: self.tools.clone(),
            page: self.page.clone(),
            watched: self.watched.clone(),
            hearing: self.hearing.clone(),
            caller: self.caller.clone(),
            has_tasks: self.has_tasks,
            task_patience: self.task_patience,
        }
    }
}

impl std::fmt::Debug for PalisadeServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PalisadeServer")
            .field(
                "connections",
                &self.connections.offer(&Extensions::default()),
            )
            .finish_non_exhaustive()
    }
}

impl PalisadeServer {
    /// A server that asks `guard` as the principal in `options`.
    #[must_use]
    pub fn new(guard: Arc<Guard>, options: ServeOptions) -> Self {
        Self::serving(Connections::one(guard, options))
    }

    /// A server over several databases: each call says by the connection's name which database it means. With only
    /// one, a call need not name it.
    ///
    /// # Errors
    /// If there is none, or a name is not one or belongs to two.
    pub fn over(
        connections: impl IntoIterator<Item = (Arc<Guard>, ServeOptions)>,
    ) -> Result<Self, ConnectionsError> {
        Self::over_reachable(connections, [])
    }

    /// As [`over`](Self::over), where some databases could not be opened yet. A call that means one of them opens it; while
    /// that fails, it is refused with `database.unavailable`.
    ///
    /// # Errors
    /// As `over`.
    pub fn over_reachable(
        connections: impl IntoIterator<Item = (Arc<Guard>, ServeOptions)>,
        late: impl IntoIterator<Item = LateConnection>,
    ) -> Result<Self, ConnectionsError> {
        Connections::several(connections, late).map(Self::serving)
    }

    /// A server over one database that is not open yet; calls need not name it. It answers at once, and what needs the database waits
    /// for it. [`warm`](Self::warm) opens it without a call.
    #[must_use]
    pub fn over_late(late: LateConnection) -> Self {
        Self::serving(Connections::one_late(late))
    }

    fn serving(connections: Connections) -> Self {
        let connections = Arc::new(connections);
        Self {
            connections: Arc::clone(&connections),
            narrowings: Vec::new(),
            shared: Arc::new(Shared {
                connections,
                incidents: AtomicU64::new(0),
                doors: AtomicU64::new(0),
                asked: AskedOnce::default(),
                readiness: Readiness::default(),
                tasks: Arc::default(),
            }),
            door: 0,
            running: Running::default(),
            session_id: None,
            session_name: None,
            size: AnswerSize::default(),
            work: WorkPlace::Aside,
            progress: PROGRESS,
            observer: None,
            tools: CurrentTools::default(),
            page: None,
            watched: Watched::default(),
            hearing: Hearing::default(),
            caller: None,
            has_tasks: true,
            task_patience: PATIENCE,
        }
    }

    /// The same with these tools alone.
    #[must_use]
    pub fn with_tools(self, tools: ToolSet) -> Self {
        Self {
            tools: CurrentTools::new(tools),
            ..self
        }
    }

    /// Offers these tools from now on, to the clients of all clones. They are told.
    pub fn replace_tools(&self, tools: ToolSet) {
        self.tools.replace(tools);
    }

    /// The tools that the operator offers by now.
    pub(crate) fn current_tools(&self) -> Arc<ToolSet> {
        self.tools.get()
    }

    /// The same, where clients that can open an address send their person to `page` about a request that waits. What counts is what
    /// the page decides in the store of the guard, and never what a client says of it.
    #[must_use]
    pub fn with_approval_page(self, page: ApprovalPage) -> Self {
        Self {
            page: Some(Arc::new(page)),
            ..self
        }
    }

    /// The same with answers of this size.
    #[must_use]
    pub fn with_answer_size(self, size: AnswerSize) -> Self {
        Self { size, ..self }
    }

    /// The same, where small queries are decided on the thread that reads and answers messages: a query is answered sooner, and
    /// while it is decided, no other message is read. For a server of one client, on threads with a stack of 16 MiB, which deeply
    /// nested statements take.
    #[must_use]
    pub fn with_queries_in_place(self) -> Self {
        Self {
            work: WorkPlace::Here,
            ..self
        }
    }

    /// As [`with_queries_in_place`](Self::with_queries_in_place), for a server of several clients that share the thread: one small
    /// query at a time is decided there, and the rest aside. If one keeps the thread for more than 2 ms, all are decided aside for
    /// a second.
    #[must_use]
    pub fn with_queries_in_turn(self) -> Self {
        Self {
            work: WorkPlace::InTurn(Turns::default()),
            ..self
        }
    }

    /// The same, where a call that takes long tells its client so this often, in place of every 10 seconds. Only clients that ask
    /// for it (`progressToken`) are told. It is a millisecond at least.
    #[must_use]
    pub fn with_progress_interval(self, progress: Duration) -> Self {
        Self {
            progress: progress.max(Duration::from_millis(1)),
            ..self
        }
    }

    /// The same for one client, whose session records call `name`, in place of a random name for each connection. It is for sessions
    /// that outlive their connections.
    #[must_use]
    pub fn with_session_name(self, name: &str) -> Self {
        Self {
            session_name: Some(Arc::from(name)),
            ..self
        }
    }

    /// The same, where `observer` is told of every call when it has ended.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn CallObserver>) -> Self {
        Self {
            observer: Some(observer),
            ..self
        }
    }

    /// The same for the client of a session, whose requests come one by one. It is told of news while `is_heard` holds, and of what
    /// became other before that once it does again.
    ///
    /// Records name the session by a random name of its own, which is not that by which its client calls it. Whoever has several
    /// sessions has the share of one client in what runs at once.
    #[must_use]
    pub fn for_session(&self, is_heard: Arc<AtomicBool>) -> Self {
        Self {
            hearing: Hearing::of_session(is_heard),
            door: self.door,
            ..self.clone().through_a_door()
        }
    }

    /// The same for one more client.
    pub(crate) fn through_a_door(self) -> Self {
        let before = self.shared.doors.fetch_add(1, Ordering::Relaxed);
        Self {
            door: before.saturating_add(1),
            running: Running::default(),
            watched: Watched::default(),
            hearing: Hearing::default(),
            session_id: self
                .session_name
                .or_else(|| new_session_id().map(Arc::from)),
            session_name: None,
            ..self
        }
    }

    /// The calls of its client.
    pub(crate) fn running(&self) -> Running {
        self.running.clone()
    }

    /// Which pair of streams it is for, where each client has one; else 0.
    pub(crate) fn door(&self) -> u64 {
        self.door
    }

    /// How large an answer may be.
    pub(crate) fn answer_size(&self) -> AnswerSize {
        self.size
    }

    /// How often a call that takes long says so.
    pub(crate) fn progress_interval(&self) -> Duration {
        self.progress
    }

    /// Bytes of the largest message that a statement with its parameters needs.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.bounds().bytes()
    }

    /// The JSON-RPC error for a message that is no request, or holds more than a statement with its parameters needs: for doors
    /// that hand on whole messages, before anything is made of one. Other messages have none.
    #[must_use]
    pub fn refuse_message(&self, message: &[u8]) -> Option<String> {
        lines::refuse(self.bounds(), message)
    }

    /// How large a message to it may be.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::of_statements(self.connections.max_query_bytes())
    }

    /// The tools that a caller is offered by now, in the order of their names.
    pub(crate) fn list_offered(&self, request: &Extensions) -> Vec<Tool> {
        let connections = &self.connections;
        let mut tools = declare::tools(
            &connections.offer(request),
            (
                connections.have_templates(request),
                connections.waiting(request),
            ),
            (&self.tools(), self.size),
        );
        let templates = self.template_tools(request);
        tools.extend(templates.iter().map(|tool| tool.declare(self.size)));
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools
    }

    /// What [`Self::list_offered`] depends on, in a form that is only compared. It costs little, while declaring every tool takes about a
    /// millisecond: too much for each look at whether a client is to be told of something.
    pub(crate) fn outline_offered(&self, request: &Extensions) -> String {
        let connections = &self.connections;
        let templates = self.template_tools(request);
        format!(
            "{:?}",
            (
                connections.offer(request),
                connections.have_templates(request),
                connections.waiting(request),
                self.tools(),
                templates
                    .iter()
                    .map(TemplateTool::outline)
                    .collect::<Vec<_>>(),
            )
        )
    }

    /// The tools that prompts can name to a caller: those of changes and of the past only where it is offered them.
    pub(crate) fn nameable_tools(&self, request: &Extensions) -> ToolSet {
        let offered = self.list_offered(request);
        self.tools().only_where(|name| {
            let is_for_all = ToolName::from_name(name)
                .is_none_or(|tool| tool.part_in_changes().is_none() && !tool.is_of_history());
            is_for_all || offered.iter().any(|tool| tool.name == name)
        })
    }

    /// The same as clients read it.
    pub(crate) fn standing(&self, request: &Extensions) -> String {
        serde_json::to_string(&self.list_offered(request)).unwrap_or_default()
    }

    /// Who asks `connection` by a request; none if it has no principal.
    pub(crate) fn who_asks(
        &self,
        connection: &Connection,
        request: &Extensions,
    ) -> Option<CallContext> {
        let templates = match self.connections.have_templates(request) {
            true => Templates::Listed,
            false => Templates::None,
        };
        let is_changeable = connection.is_changeable(request);
        let may_approve = connection.may_approve(request);
        let tools = self.tools().only_usable(
            (is_changeable, templates == Templates::Listed),
            connection.find_uses((is_changeable, may_approve)),
        );
        Some(CallContext {
            is_changeable,
            may_approve,
            session: connection.session(request)?,
            door: self.door,
            size: self.size,
            work: self.work.clone(),
            tools: Arc::new(tools),
            templates,
            running: self.running.clone(),
            cancel: Cancel::default(),
            notes: CallNotes::default(),
            has_counted_trial: AtomicBool::default(),
        })
    }

    /// The tool called `name`.
    fn find_called(&self, name: &str, request: &Extensions) -> Option<Called> {
        if let Some(tool) = ToolName::from_name(name) {
            // Of `execute` it is said why it is not there.
            let is_there = tool == ToolName::Execute || self.tools().has(tool);
            let called = Called {
                tool,
                name: name.to_owned(),
                template: None,
            };
            return is_there.then_some(called);
        }
        let mut templates = self.template_tools(request).into_iter();
        let tool = templates.find(|tool| tool.name == name)?;
        Some(Called {
            tool: ToolName::RunTemplate,
            name: tool.name,
            template: Some((tool.connection, tool.template)),
        })
    }

    /// Records the call of a tool that there is not, or that is switched off. Both get one answer.
    async fn refuse_unknown(
        &self,
        name: &str,
        request: &Extensions,
        (claims, origin): (Claims, CallOrigin),
    ) -> ErrorData {
        let recorder = self.shared.connections.recorder(request);
        let recorder = recorder.map(|(guard, session)| {
            let session = session.claiming(claims).called_by(origin);
            (guard, session)
        });
        let refused = Err(refusal(no_such_tool()));
        match record_unbound(recorder, None, refused, Instant::now()).await {
            Err(refusal) if refusal.rejection.code() != Code::RequestInvalid => {
                ErrorData::internal_error("the call could not be recorded", None)
            }
            Ok(_) | Err(_) => {
                let offered = self.list_offered(request);
                let offered: Vec<&str> = offered.iter().map(|tool| &*tool.name).collect();
                ErrorData::invalid_params(describe_unknown_tool(name, &offered), None)
            }
        }
    }

    /// Runs a tool on its connection, or on that which the arguments name.
    async fn run(
        &self,
        called: Called,
        mut arguments: JsonObject,
        request: &Extensions,
        (claims, origin, cancel): (Claims, CallOrigin, Cancel),
        (asking, notes): (Asking, &CallNotes),
    ) -> CallToolResponse {
        let began = Instant::now();
        let shared = &self.shared;
        let (tool, name) = (called.tool, called.name.as_str());
        let tools = self.tools();
        let refuse = |connection: Option<&Connection>, refusal: Refusal| {
            notes.note_outcome(CallOutcome::Refused(refusal.rejection.code()));
            let templates = match self.connections.have_templates(request) {
                true => Templates::Listed,
                false => Templates::None,
            };
            let usable = self.usable_tools(request, connection);
            let is_changeable = connection.is_some() && usable.has(ToolName::Execute);
            shared.refusal(
                (tool, name, &usable),
                (connection, templates),
                is_changeable,
                refusal,
            )
        };
        // Of a call that reaches no connection.
        let end = async |connection, result| -> CallToolResponse {
            let recorder = shared
                .connections
                .recorder(request)
                .map(|(guard, session)| {
                    let session = session.claiming(claims.clone());
                    (guard, session.called_by(origin.clone()))
                });
            let result = record_unbound(recorder, connection, result, began).await;
            notes.note_outcome(CallOutcome::Answered);
            result
                .unwrap_or_else(|refusal| refuse(None, refusal))
                .into()
        };
        if tool == ToolName::ListDatabases {
            self.settle().await;
            let databases = self.connections.databases(request);
            let answer = arguments::nothing(arguments)
                .and_then(|()| answer::metadata(&metadata::databases(&databases), None));
            return end(None, answer.map_err(refusal)).await;
        }
        // Of a database that is not open it is not known yet.
        let may_change = || self.connections.foresee(request).changeable();
        if tool == ToolName::Execute && !(tools.has(tool) && may_change()) {
            return end(None, Err(refusal(read_only(tool)))).await;
        }
        let chosen = match &called.template {
            Some((connection, _)) => Ok(Chosen::Open(Arc::clone(connection))),
            None => self.connections.choose(&mut arguments),
        };
        let connection = match chosen {
            Ok(Chosen::Open(connection)) => connection,
            Ok(Chosen::Late(late)) => {
                let (name, late) = (late.connection.name.clone(), Arc::clone(late));
                match late.reach().await {
                    Reached::Open(connection) => connection,
                    Reached::Opening => {
                        let refused = Err(refusal(opening(&name)));
                        return end(Some(name), refused).await;
                    }
                    Reached::Unreachable => {
                        let refused = Err(refusal(unreachable(&name)));
                        return end(Some(name), refused).await;
                    }
                }
            }
            Err(rejection) => return end(None, Err(refusal(rejection))).await,
        };
        let connection = &connection;
        let Some(context) = self.who_asks(connection, request) else {
            return refuse(None, refusal(nobody_asks())).into();
        };
        let context = CallContext {
            session: context.session.claiming(claims).called_by(origin),
            cancel,
            notes: notes.clone(),
            ..context
        };
        notes.note_reach(&connection.name, context.session.principal());
        let arguments = match &called.template {
            Some((_, template)) => TemplateTool::arguments(template, arguments),
            None => Ok(arguments),
        };
        let context = Arc::new(context);
        let history = connection.history();
        let call = arguments.and_then(|arguments| Call::read(tool, arguments, history));
        let result = match call {
            // The gate records what runs statements, and what reads the past, changes or receipts.
            Ok(call) if call.is_reading() => run_on(connection, &Arc::new(call), &context).await,
            Ok(call) if !call.is_statement() => {
                let result = run_on(connection, &Arc::new(call), &context).await;
                record(connection, &context, result, began).await
            }
            Ok(call) => {
                let call = Arc::new(call);
                match run_on(connection, &call, &context).await {
                    Ok(result) => Ok(result),
                    Err(refusal) => {
                        let of = (&connection.guard, connection.name.as_str());
                        let what = (&*call, &context.session);
                        match confirm::ask(&shared.asked, of, what, refusal, asking).await {
                            Next::Again => run_on(connection, &call, &context).await,
                            Next::Input(required) => {
                                notes.note_outcome(CallOutcome::Asked);
                                return required.into();
                            }
                            Next::Refused(refusal) => Err(refusal),
                        }
                    }
                }
            }
            Err(rejection) => record(connection, &context, Err(refusal(rejection)), began).await,
        };
        notes.note_outcome(CallOutcome::Answered);
        let result = result.unwrap_or_else(|refusal| refuse(Some(connection), refusal));
        result.into()
    }
}

impl Shared {
    /// The result for a refusal by `connection`, or before one was chosen.
    fn refusal(
        &self,
        (tool, called, set): (ToolName, &str, &ToolSet),
        (connection, templates): (Option<&Connection>, Templates),
        is_changeable: bool,
        mut refusal: Refusal,
    ) -> CallToolResult {
        let offered = if is_changeable {
            Offered::Changing
        } else {
            Offered::Reading
        };
        let connection = connection
            .map(|connection| connection.name.as_str())
            .or_else(|| self.connections.only());
        if refusal.incident.is_none() && refusal.rejection.is_incident() {
            refusal.incident = Some(self.incident());
        }
        if let Some(incident) = &refusal.incident {
            log_incident(incident, &refusal.rejection, (called, connection));
        }
        answer::refusal(
            &refusal,
            Context {
                tool,
                called,
                connection,
            },
            (offered, &set.names()),
            templates,
        )
    }

    fn incident(&self) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis());
        let number = self.incidents.fetch_add(1, Ordering::Relaxed);
        format!("{now:x}-{number:x}")
    }
}

impl ServerHandler for PalisadeServer {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .build();
        if self.has_tasks {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        }
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("palisade", env!("CARGO_PKG_VERSION"))
                    .with_title("Palisade")
                    .with_description("A SQL firewall for AI agents"),
            )
            .with_instructions(declare::instructions(
                &self.connections.foresee(&Extensions::default()),
                self.connections.only_engine(),
                &self.tools(),
            ))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut told = self.negotiate_initialize(&request)?;
        // Revisions with a handshake have no such tasks.
        told.capabilities.extensions = None;
        Ok(told)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
        self.settle_tools().await;
        let tools = self.list_offered(&context.extensions);
        Ok(ListToolsResult::with_all_items(tools)
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        self.page_of_resources(cursor, context).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        let templates = resources::templates(&self.nameable_tools(&context.extensions));
        Ok(ListResourceTemplatesResult::with_all_items(templates)
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.read(&request.uri, context).await.map(Into::into)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watch_resource(&request.uri, context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.remove(&request.uri);
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request)?;
        self.settle_tools().await;
        let has_choice = self.connections.only().is_none();
        let prompts = prompts::list(&self.nameable_tools(&context.extensions), has_choice);
        Ok(ListPromptsResult::with_all_items(prompts)
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.settle_tools().await;
        let tools = self.nameable_tools(&context.extensions);
        let prompt = PromptName::find(&request.name, &tools);
        let prompt = prompt.ok_or_else(|| prompts::invalid("there is no such prompt"))?;
        let has_choice = self.connections.only().is_none();
        let arguments = request.arguments.unwrap_or_default();
        prompt
            .fill(&arguments, (&tools, has_choice))
            .map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.complete_argument(request, context).await
    }

    /// A client that has shaken hands is told of what becomes other as long as it is there.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // A client can say so again and again.
        if self.hearing.begin() {
            tokio::spawn(self.clone().tell_news(context.peer, context.extensions));
        }
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        // What is not announced among the capabilities is taken out of it.
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.truncate(MAX_WATCHED);
        }
        Some(accepted)
    }

    /// Others ask to be told.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.tell_listener(&context).await;
        Ok(())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let mut offered = self.list_offered(&Extensions::default()).into_iter();
        offered.find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Whoever gives this up, the client or the server, ends what runs on the database.
        let cancel = Cancel::default();
        let task = self.prospective_task(&context, count_bytes(&request), &cancel);
        let asking = Asking::read(&context, &request, (self.page.clone(), task.clone()));
        let arguments = request.arguments.unwrap_or_default();
        let traceparent = context.meta.0.0.get(TRACE).and_then(Value::as_str);
        let origin = |tool: Option<ToolName>| {
            let session = self.session_id.as_deref().map(str::to_owned);
            CallOrigin::new(session, tool.map(ToolName::name)).with_traceparent(traceparent)
        };
        if ToolName::from_name(&request.name).is_none() {
            // It could be a template of a database that is not open.
            self.settle_tools().await;
        }
        let called = self.find_called(&request.name, &context.extensions);
        let tool = called.as_ref().map(|called| called.tool.name());
        let whence = (self.session_id.as_deref(), traceparent);
        let notes = CallNotes::begin(&self.observer, tool, whence);
        let told_at_end = TellOnDrop(notes.clone());
        let Some(called) = called else {
            notes.note_outcome(CallOutcome::Refused(Code::RequestInvalid));
            // What a client made up is in no record: it could hold anything.
            let origin = origin(ToolName::from_name(&request.name));
            let who = (claims(&context), origin);
            let refused = self.refuse_unknown(&request.name, &context.extensions, who);
            return Err(refused.await);
        };
        let origin = origin(Some(called.tool));
        let told = (claims(&context), origin, cancel.clone());
        let token = context.meta.get_progress_token();
        if let Some(task) = task {
            let (server, extensions) = (self.clone(), context.extensions.clone());
            let span = notes.span().clone();
            let work = async move {
                let _told_at_end = told_at_end;
                let run = server.run(called, arguments, &extensions, told, (asking, &notes));
                Ok(run.await)
            };
            let whom = (context.peer.clone(), token);
            let is_given_up = context.ct.cancelled();
            let answered = self.answer_or_go_on(task, whom, is_given_up, work);
            return answered.instrument(span).await;
        }
        let _cancel = CancelOnDrop(cancel.clone());
        let run = self
            .run(
                called,
                arguments,
                &context.extensions,
                told,
                (asking, &notes),
            )
            .instrument(notes.span().clone());
        let mut run = pin!(run);
        tokio::select! {
            result = &mut run => return Ok(result),
            () = context.ct.cancelled() => {}
            () = tell_progress(context.peer.clone(), token, self.progress) => {}
        }
        // No one hears the answer. What was begun ends here all the same: it may wait for a place, and its record is still to be
        // written.
        cancel.set();
        let _ = timeout(TIME_TO_END, run).await;
        Err(given_up())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let who = self.owner(&context.extensions);
        let told = self.shared.tasks.get(&request.task_id, &who)?;
        Ok(GetTaskResult::new(told))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let who = self.owner(&context.extensions);
        let (id, said) = (&request.task_id, request.input_responses);
        self.shared.tasks.update(id, &who, said)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let who = self.owner(&context.extensions);
        self.shared.tasks.cancel(&request.task_id, &who)
    }
}

/// Bytes of a call, as far as it is kept while it goes on.
fn count_bytes(request: &CallToolRequestParams) -> usize {
    let arguments = request.arguments.as_ref();
    let written = arguments.and_then(|arguments| serde_json::to_vec(arguments).ok());
    written.map_or(0, |written| written.len())
}

/// That a call has no answer, for a client that still waits for one: the server ends.
pub(crate) fn given_up() -> ErrorData {
    let rejection = Rejection::new(
        Code::LimitCancelled,
        "The call was given up, and its statement cancelled, because the server ends. Whether a change was made is not known: look before it is made again.",
    );
    let data = serde_json::to_value(rejection.for_agent()).ok();
    ErrorData::internal_error(rejection.message().to_owned(), data)
}

/// Refuses the second page of what has one.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(prompts::invalid("there is no such page")),
    }
}

/// Where a call says of which trace it is, as the W3C writes it.
const TRACE: &str = "traceparent";

/// A new name for a client's session, if the machine has random bytes.
fn new_session_id() -> Option<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
