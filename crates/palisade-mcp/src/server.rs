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
    answer::Form,
    code::Code,
    firewall::{PermittedChange, VisibleRelation},
    guard::{Cancel, Guard, Refusal, Request},
    limits::Limits,
    policy::template::Template,
    rejection::Rejection,
    session::{CallOrigin, Claims, Session},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
        CompleteResult, Extensions, GetPromptRequestParams, GetPromptResponse, Implementation,
        JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
        ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde::Serialize;
use serde_json::Value;
use tokio::{runtime::Handle, task::spawn_blocking, time::Instant};

use crate::{
    answer::{self, Context, Offered, Templates},
    arguments::{self, Call, ListCall, MAX_ROWS},
    claims::claims,
    confirm::{self, AskedOnce, Asking, Next},
    connections::{Chosen, Connection, Connections, ConnectionsError},
    cursor::Seals,
    declare::{self, ToolName},
    late::LateConnection,
    lines::Bounds,
    lists::{self, Page, Scope, ShownLimits},
    metadata,
    options::{AnswerSize, ServeOptions},
    policy_test,
    prompts::{self, PromptName},
    queue::{Ask, Caller, Kind, TRIAL},
    readiness::Readiness,
    refusals::{internal, nobody_asks, read_only, refusal, too_busy, unreachable},
    resources,
    running::{CancelOnDrop, Running, tell_progress},
    schema_dump,
    template_tools::TemplateTool,
    tool_set::{CurrentTools, ToolSet},
    watch::{MAX_WATCHED, Watched},
};

/// How long a call may wait at least, where statements get less time than that.
const PATIENCE: Duration = Duration::from_secs(2);

/// In what steps the time that a statement waited is taken off.
const STEP: Duration = Duration::from_millis(250);

/// How long a client may keep a list, in milliseconds: no longer than it takes to look at what it says by a call.
pub(crate) const TTL_MS: u64 = 10_000;

/// How often it is looked whether other policies offer other tools: whoever reloads them tells the gate alone.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// An MCP server over one [`Guard`] or several. Clones share everything.
pub struct PalisadeServer {
    pub(crate) shared: Arc<Shared>,
    /// Which client it is for, where each has a pair of streams; else 0.
    door: u64,
    /// The calls of that client.
    running: Running,
    /// What this client's session is called in records.
    session_id: Option<Arc<str>>,
    /// How large an answer may be.
    size: AnswerSize,
    /// Which tools it offers.
    tools: CurrentTools,
    /// The resources that its client watches.
    pub(crate) watched: Watched,
}

/// Who asks, and what of the connection may be changed by this principal.
pub(crate) struct Asked {
    session: Session,
    is_changeable: bool,
    /// Which pair of streams it came through.
    door: u64,
    /// How large the answer may be.
    size: AnswerSize,
    /// Which tools there are, for what a refusal names.
    tools: Arc<ToolSet>,
    /// Whether there are tools for templates.
    templates: Templates,
    /// The calls of its client.
    running: Running,
    /// Whether anybody waits for it.
    cancel: Cancel,
}

/// A tool as it was called.
struct Called {
    tool: ToolName,
    /// A template that is a tool has a name of its own,
    name: String,
    /// and is of one connection.
    template: Option<(Arc<Connection>, Template)>,
}

/// A page of a list, and what its cursors are bound to.
struct Paged<'a> {
    page: Page,
    scope: String,
    seals: &'a Seals,
}

impl Paged<'_> {
    fn seal(&self, position: usize) -> Result<String, Rejection> {
        self.seals.seal(&self.scope, position)
    }
}

pub(crate) struct Shared {
    pub(crate) connections: Connections,
    /// Incidents numbered here: those the guard could not number because it was not reached or fell.
    incidents: AtomicU64,
    /// How many pairs of streams were served.
    doors: AtomicU64,
    /// The requests that clients were asked to approve.
    asked: AskedOnce,
    /// Whether the databases answer.
    pub(crate) readiness: Readiness,
}

impl Clone for PalisadeServer {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            door: self.door,
            running: self.running.clone(),
            session_id: self.session_id.clone(),
            size: self.size,
            tools: self.tools.clone(),
            watched: self.watched.clone(),
        }
    }
}

impl std::fmt::Debug for PalisadeServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PalisadeServer")
            .field(
                "connections",
                &self.shared.connections.offer(&Extensions::default()),
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

    fn serving(connections: Connections) -> Self {
        Self {
            shared: Arc::new(Shared {
                connections,
                incidents: AtomicU64::new(0),
                doors: AtomicU64::new(0),
                asked: AskedOnce::default(),
                readiness: Readiness::default(),
            }),
            door: 0,
            running: Running::default(),
            session_id: None,
            size: AnswerSize::default(),
            tools: CurrentTools::default(),
            watched: Watched::default(),
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

    /// The tools that are offered by now.
    pub(crate) fn tools(&self) -> Arc<ToolSet> {
        self.tools.get()
    }

    /// The same with answers of this size.
    #[must_use]
    pub fn with_answer_size(self, size: AnswerSize) -> Self {
        Self { size, ..self }
    }

    /// The same for one more client.
    pub(crate) fn through_a_door(self) -> Self {
        let before = self.shared.doors.fetch_add(1, Ordering::Relaxed);
        Self {
            door: before.saturating_add(1),
            running: Running::default(),
            watched: Watched::default(),
            session_id: new_session_id().map(Arc::from),
            ..self
        }
    }

    /// The calls of its client.
    pub(crate) fn running(&self) -> Running {
        self.running.clone()
    }

    /// Bytes of the largest message that a statement with its parameters needs.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.bounds().bytes()
    }

    /// How large a message to it may be.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::of_statements(self.shared.connections.max_query_bytes())
    }

    /// The tools that a caller is offered by now, in the order of their names.
    fn list_offered(&self, request: &Extensions) -> Vec<Tool> {
        let connections = &self.shared.connections;
        let mut tools = declare::tools(
            &connections.offer(request),
            connections.have_templates(request),
            (&self.tools(), self.size),
        );
        let templates = connections.template_tools(request);
        tools.extend(templates.iter().map(|tool| tool.declare(self.size)));
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools
    }

    /// The same as clients read it.
    pub(crate) fn standing(&self, request: &Extensions) -> String {
        serde_json::to_string(&self.list_offered(request)).unwrap_or_default()
    }

    /// Who asks `connection` by a request; none if it has no principal.
    pub(crate) fn who_asks(&self, connection: &Connection, request: &Extensions) -> Option<Asked> {
        let templates = match self.shared.connections.have_templates(request) {
            true => Templates::Listed,
            false => Templates::None,
        };
        Some(Asked {
            is_changeable: connection.is_changeable(request),
            session: connection.session(request)?,
            door: self.door,
            size: self.size,
            tools: self.tools(),
            templates,
            running: self.running.clone(),
            cancel: Cancel::default(),
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
        let mut templates = self.shared.connections.template_tools(request).into_iter();
        let tool = templates.find(|tool| tool.name == name)?;
        Some(Called {
            tool: ToolName::RunTemplate,
            name: tool.name,
            template: Some((tool.connection, tool.template)),
        })
    }

    /// Runs a tool on its connection, or on that which the arguments name.
    async fn run(
        &self,
        called: Called,
        mut arguments: JsonObject,
        request: &Extensions,
        (claims, origin, cancel): (Claims, CallOrigin, Cancel),
        asking: Asking,
    ) -> CallToolResponse {
        let began = Instant::now();
        let shared = &self.shared;
        let (tool, name) = (called.tool, called.name.as_str());
        let tools = self.tools();
        let templates = match shared.connections.have_templates(request) {
            true => Templates::Listed,
            false => Templates::None,
        };
        let refuse = |connection: Option<&Connection>, refusal| {
            let is_changeable =
                connection.is_some_and(|connection| connection.is_changeable(request));
            let is_changeable = is_changeable && tools.has(ToolName::Execute);
            shared.refusal(
                (tool, name, &tools),
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
            result
                .unwrap_or_else(|refusal| refuse(None, refusal))
                .into()
        };
        if tool == ToolName::ListDatabases {
            let databases = shared.connections.databases(request);
            let answer = arguments::nothing(arguments)
                .and_then(|()| answer::metadata(&metadata::databases(&databases), None));
            return end(None, answer.map_err(refusal)).await;
        }
        if tool == ToolName::Execute
            && !(tools.has(tool) && shared.connections.offer(request).changeable())
        {
            return end(None, Err(refusal(read_only()))).await;
        }
        let chosen = match &called.template {
            Some((connection, _)) => Ok(Chosen::Open(Arc::clone(connection))),
            None => shared.connections.choose(&mut arguments),
        };
        let connection = match chosen {
            Ok(Chosen::Open(connection)) => connection,
            Ok(Chosen::Late(late)) => {
                let (name, late) = (late.connection.name.clone(), Arc::clone(late));
                match spawn_blocking(move || late.reach()).await {
                    Ok(Some(connection)) => connection,
                    Ok(None) | Err(_) => {
                        let refused = Err(refusal(unreachable(&name)));
                        return end(Some(name), refused).await;
                    }
                }
            }
            Err(rejection) => return end(None, Err(refusal(rejection))).await,
        };
        let connection = &connection;
        let Some(asked) = self.who_asks(connection, request) else {
            return refuse(None, refusal(nobody_asks())).into();
        };
        let asked = Asked {
            session: asked.session.claiming(claims).called_by(origin),
            cancel,
            ..asked
        };
        let arguments = match &called.template {
            Some((_, template)) => TemplateTool::arguments(template, arguments),
            None => Ok(arguments),
        };
        let asked = Arc::new(asked);
        let result = match arguments.and_then(|arguments| Call::read(tool, arguments)) {
            // The gate records what runs statements.
            Ok(call) if !call.is_statement() => {
                let result = run_on(connection, &Arc::new(call), &asked).await;
                record(connection, &asked, result, began).await
            }
            Ok(call) => {
                let call = Arc::new(call);
                match run_on(connection, &call, &asked).await {
                    Ok(result) => Ok(result),
                    Err(refusal) => {
                        let of = (&connection.guard, connection.name.as_str());
                        let what = (&*call, &asked.session);
                        match confirm::ask(&shared.asked, of, what, refusal, asking).await {
                            Next::Again => run_on(connection, &call, &asked).await,
                            Next::Input(required) => return required.into(),
                            Next::Refused(refusal) => Err(refusal),
                        }
                    }
                }
            }
            Err(rejection) => record(connection, &asked, Err(refusal(rejection)), began).await,
        };
        let result = result.unwrap_or_else(|refusal| refuse(Some(connection), refusal));
        result.into()
    }
}

/// Records a call that reached no connection, with the gate that lends its records. Without a principal there is no
/// record.
async fn record_unbound(
    recorder: Option<(Arc<Guard>, Session)>,
    connection: Option<String>,
    result: Result<CallToolResult, Refusal>,
    began: Instant,
) -> Result<CallToolResult, Refusal> {
    let Some((guard, session)) = recorder else {
        return result;
    };
    // Records are files.
    let job = spawn_blocking(move || {
        let told = result.as_ref().map(|_| ());
        match guard.record_call_of(connection.as_deref(), &session, told, began.elapsed()) {
            Ok(()) => result,
            Err(refusal) => Err(refusal),
        }
    });
    job.await
        .map_err(|_| refusal(internal("a record panicked")))?
}

/// Records a call that ran no statement. What cannot be recorded is not answered.
async fn record(
    connection: &Arc<Connection>,
    asked: &Arc<Asked>,
    result: Result<CallToolResult, Refusal>,
    began: Instant,
) -> Result<CallToolResult, Refusal> {
    let (connection, asked) = (Arc::clone(connection), Arc::clone(asked));
    // Records are files.
    let job = spawn_blocking(move || {
        let told = result.as_ref().map(|_| ());
        let session = &asked.session;
        match connection.guard.record_call(session, told, began.elapsed()) {
            Ok(()) => result,
            Err(refusal) => Err(refusal),
        }
    });
    job.await
        .map_err(|_| refusal(internal("a record panicked")))?
}

/// Runs `call` on a blocking thread: backends may block, deciding takes the processor, and a panic there ends that
/// thread's work and nothing else. How many run at once, and so how many are decided, is the queue's to say.
async fn run_on(
    connection: &Arc<Connection>,
    call: &Arc<Call>,
    asked: &Arc<Asked>,
) -> Result<CallToolResult, Refusal> {
    let session = &asked.session;
    let began = Instant::now();
    let timeout = connection.guard.firewall().limits().statement_timeout();
    let deadline = began + timeout.max(PATIENCE);
    let mut ask = Ask {
        caller: Caller {
            principal: session.principal().to_string(),
            client: session.client().map(str::to_owned),
            door: asked.door,
        },
        may_be_tried: call.may_be_tried(),
        bytes: call.bytes(),
    };
    loop {
        let place = connection.queue.place(ask.clone(), deadline).await;
        let place = place.map_err(|busy| refusal(too_busy(busy)))?;
        let kind = place.kind();
        let time = match kind {
            Kind::Full => left(timeout, began.elapsed(), deadline),
            Kind::Trial => TRIAL,
        };
        let is_trial = kind == Kind::Trial && TRIAL < timeout;
        let (theirs, call, asked) = (Arc::clone(connection), Arc::clone(call), Arc::clone(asked));
        let handle = Handle::current();
        let running = asked.running.begin();
        let job = spawn_blocking(move || {
            let result = theirs.call(&call, &asked, (time, is_trial), &handle);
            drop((place, running));
            result
        });
        let result = job
            .await
            .map_err(|_| refusal(internal("a tool panicked")))?;
        match &result {
            Err(refusal) if is_trial && ran_out(refusal.rejection.code()) => {
                ask.may_be_tried = false;
            }
            Ok(_) | Err(_) => return result,
        }
    }
}

/// The request, where it is run again with more time if it runs out of it.
fn try_first(request: Request<'_>, is_trial: bool) -> Request<'_> {
    if is_trial {
        request.on_trial()
    } else {
        request
    }
}

/// Whether a statement that was tried has to wait for all its time.
fn ran_out(code: Code) -> bool {
    code == Code::LimitTime || code == Code::LimitBusy
}

/// What a statement may take that waited: what is left to the deadline. In steps, since limits are part of what decisions are remembered
/// by.
fn left(timeout: Duration, waited: Duration, deadline: Instant) -> Duration {
    if waited < STEP {
        return timeout;
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let steps = left.as_millis().div_ceil(STEP.as_millis());
    timeout.min(STEP * u32::try_from(steps.max(1)).unwrap_or(u32::MAX))
}

impl Connection {
    /// Runs `call`, blocking; a statement of it for so long at most, and whether it is only tried.
    pub(crate) fn call(
        &self,
        call: &Call,
        asked: &Asked,
        (time, is_trial): (Duration, bool),
        handle: &Handle,
    ) -> Result<CallToolResult, Refusal> {
        let session = &asked.session;
        match call {
            Call::ListSchemas(call) => {
                let relations = self.relations(session, handle)?;
                let paged = self
                    .page("list_schemas", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let list = lists::schemas(&relations, paged.page, |at| paged.seal(at));
                self.tell(&list.map_err(refusal)?)
            }
            Call::ListTables(call) => {
                let relations = self.relations(session, handle)?;
                let paged = self
                    .page("list_tables", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let list = lists::tables(&relations, &call.scope, paged.page, |at| paged.seal(at));
                self.tell(&list.map_err(refusal)?)
            }
            Call::SearchObjects(call) => {
                let relations = self.relations(session, handle)?;
                let paged = self
                    .page("search_objects", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let list = lists::objects(&relations, &call.scope, paged.page, |at| paged.seal(at));
                self.tell(&list.map_err(refusal)?)
            }
            Call::PolicyExplain(call) => {
                let relations = self.relations(session, handle)?;
                let changes = self.changes(asked)?;
                let limits = self.guard.firewall().limits().clone();
                let limits = ShownLimits {
                    rows: limits.max_rows.min(MAX_ROWS),
                    characters: asked.size.max_chars(),
                    affected_rows: asked.is_changeable.then_some(limits.max_affected_rows),
                    timeout_ms: limits.statement_timeout_ms,
                };
                let whose = (session.principal().to_string(), limits);
                let paged = self
                    .page("policy_explain", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let told =
                    lists::explain(whose, &relations, &changes, paged.page, |at| paged.seal(at));
                self.tell(&told.map_err(refusal)?)
            }
            Call::DescribeTable(call) => {
                let relations = self.relations(session, handle)?;
                let firewall = self.guard.firewall();
                let catalog = firewall.catalog();
                let (dialect, path) = (catalog.dialect(), catalog.search_path());
                let changes = self.changes(asked)?;
                let list = ListCall {
                    scope: Scope {
                        pattern: Some(call.table.clone()),
                        ..Scope::default()
                    },
                    cursor: call.cursor.clone(),
                };
                let described = metadata::describe(&relations, &call.table, dialect, path);
                let described = described
                    .map_err(refusal)?
                    .with_changes(&relations, &changes);
                let paged = self
                    .page("describe_table", &list, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let described = described.on_page(paged.page, |at| paged.seal(at));
                self.tell(&described.map_err(refusal)?)
            }
            Call::SchemaDump(call) => {
                let relations = self.relations(session, handle)?;
                let dialect = self.guard.firewall().catalog().dialect();
                let paged = self
                    .page("schema_dump", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let seal = |at| paged.seal(at);
                let dump = schema_dump::dump(&relations, &call.scope, dialect, paged.page, seal);
                self.tell(&dump.map_err(refusal)?)
            }
            Call::ListTemplates(call) => {
                let templates = self.guard.templates(session)?;
                let names: Vec<&str> = templates.iter().map(|one| one.name.as_str()).collect();
                let paged = self
                    .page("list_templates", call, names.join("\n"), asked)
                    .map_err(refusal)?;
                let list = metadata::templates(&templates, paged.page, |at| paged.seal(at));
                self.tell(&list.map_err(refusal)?)
            }
            Call::PolicyTest(call) => {
                let limits = self.limits(MAX_ROWS, time);
                let request = Request::statement(&call.sql, &call.params, session);
                let request = request.with_limits(&limits);
                let request = match asked.is_changeable {
                    true => request.allow_changes(),
                    false => request,
                };
                match handle.block_on(self.guard.dry_run(request)) {
                    Ok(run) => self.tell(&policy_test::describe_permitted(&run)),
                    // Of what is not the statement's there is nothing to say of it.
                    Err(refusal) if refusal.incident.is_some() => Err(refusal),
                    Err(refusal) => self.tell(&policy_test::describe_refused(
                        self.describe_refusal(&refusal, asked),
                    )),
                }
            }
            Call::ExplainQuery(call) => {
                let limits = self.limits(MAX_ROWS, time);
                let request = Request::plan(&call.sql, &call.params, session);
                let request = try_first(request.with_limits(&limits), is_trial);
                self.rows(request, call.form, (asked, true), handle)
            }
            Call::RunTemplate(call) => {
                let limits = self.limits(call.limit, time);
                let request = Request::template(&call.template, &call.arguments, session);
                let request = try_first(request.with_limits(&limits), is_trial);
                self.rows(
                    request,
                    call.form,
                    (asked, self.is_most(call.limit)),
                    handle,
                )
            }
            Call::Query(call) => {
                let time = call
                    .timeout_ms
                    .map_or(time, |ms| time.min(Duration::from_millis(ms)));
                let limits = self.limits(call.limit, time);
                let request = Request::statement(&call.sql, &call.params, session);
                let request = try_first(request.with_limits(&limits), is_trial);
                self.rows(
                    request,
                    call.form,
                    (asked, self.is_most(call.limit)),
                    handle,
                )
            }
            Call::Execute(call) => {
                if !asked.is_changeable {
                    return Err(refusal(read_only()));
                }
                // What a change gives leaves whole, or the change is taken back.
                let limits = Limits {
                    max_affected_rows: call.max_affected_rows.unwrap_or(u64::MAX),
                    ..self.limits(MAX_ROWS, time)
                };
                let request = Request::statement(&call.sql, &call.params, session);
                let request = request.with_limits(&limits).allow_changes();
                self.rows(request, call.form, (asked, true), handle)
            }
        }
    }

    /// What may be changed, where the caller may change anything.
    fn changes(&self, asked: &Asked) -> Result<Vec<PermittedChange>, Refusal> {
        match asked.is_changeable {
            true => self.guard.permitted_changes(&asked.session),
            false => Ok(Vec::new()),
        }
    }

    /// An answer about names, with the engine that they are of.
    fn tell(&self, answer: &impl Serialize) -> Result<CallToolResult, Refusal> {
        answer::metadata(answer, self.engine().as_deref()).map_err(refusal)
    }

    /// What a caller would be told of `refusal` by the tool that runs the statement.
    fn describe_refusal(&self, refusal: &Refusal, asked: &Asked) -> Value {
        let (tool, offered) = match asked.is_changeable && asked.tools.has(ToolName::Execute) {
            true => (ToolName::Execute, Offered::Changing),
            false => (ToolName::Query, Offered::Reading),
        };
        let context = Context {
            tool,
            called: ToolName::PolicyTest.name(),
            connection: Some(&self.name),
        };
        answer::refusal_body(
            refusal,
            context,
            (offered, &asked.tools.names()),
            asked.templates,
        )
    }

    /// Whether a limit above `rows` would give no more rows.
    fn is_most(&self, rows: u64) -> bool {
        rows >= MAX_ROWS.min(self.guard.firewall().limits().max_rows)
    }

    /// The page that `call` asks of `tool`, and with what the next one is sealed. `digest` tells one list from another.
    fn page(
        &self,
        tool: &str,
        call: &ListCall,
        digest: String,
        asked: &Asked,
    ) -> Result<Paged<'_>, Rejection> {
        // Bound to what is visible, and not to the version of a schema that hidden tables are part of.
        let scope = format!(
            "{tool}\n{}\n{digest}\n{:?}",
            asked.session.principal(),
            call.scope
        );
        let from = match &call.cursor {
            Some(cursor) => self.seals.open(&scope, cursor)?,
            None => 0,
        };
        let page = Page {
            from,
            room: asked.size.list_bytes(),
        };
        Ok(Paged {
            page,
            scope,
            seals: &self.seals,
        })
    }

    /// The result of a statement.
    fn rows(
        &self,
        request: Request<'_>,
        form: Form,
        (asked, has_most_rows): (&Asked, bool),
        handle: &Handle,
    ) -> Result<CallToolResult, Refusal> {
        let room = asked.size.room(form, has_most_rows);
        let request = request.with_room(room).cancelled_by(&asked.cancel);
        let answer = self.guard.answer(request);
        let envelope = handle.block_on(answer).0.into_result()?;
        answer::rows(&envelope, form).map_err(refusal)
    }

    /// What an answer may cost that is to have so many rows, of a statement that may take so long.
    fn limits(&self, max_rows: u64, time: Duration) -> Limits {
        let limits = self.guard.firewall().limits().clone();
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Limits {
            max_rows,
            statement_timeout_ms: limits.statement_timeout_ms.min(time),
            ..limits
        }
    }

    /// The relations that exist for the session by now. Where the database cannot be looked at, those that it
    /// had.
    pub(crate) fn relations(
        &self,
        session: &Session,
        handle: &Handle,
    ) -> Result<Vec<VisibleRelation>, Refusal> {
        if let Err(error) = handle.block_on(self.guard.refresh_if_due()) {
            tracing::warn!(
                connection = self.name,
                "the schema may be out of date: {error}"
            );
        }
        self.guard.relations(session)
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
        let code = refusal.rejection.code();
        let is_incident = code == Code::Internal || code == Code::DatabaseUnavailable;
        if is_incident && refusal.incident.is_none() {
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
                tool = called,
                connection,
                detail,
                "refused"
            );
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
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("palisade", env!("CARGO_PKG_VERSION"))
                    .with_title("Palisade")
                    .with_description("A SQL firewall for AI agents"),
            )
            .with_instructions(declare::instructions(
                &self.shared.connections.offer(&Extensions::default()),
                self.shared.connections.only_dialect(),
                &self.tools(),
            ))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
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
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        let templates = resources::templates(&self.tools());
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
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request)?;
        let has_choice = self.shared.connections.only().is_none();
        let prompts = prompts::list(&self.tools(), has_choice);
        Ok(ListPromptsResult::with_all_items(prompts)
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompt = PromptName::find(&request.name, &self.tools());
        let prompt = prompt.ok_or_else(|| prompts::invalid("there is no such prompt"))?;
        let has_choice = self.shared.connections.only().is_none();
        let arguments = request.arguments.unwrap_or_default();
        prompt
            .fill(&arguments, (&self.tools(), has_choice))
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
        tokio::spawn(self.clone().tell_news(context.peer, context.extensions));
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
        let asking = Asking::read(&context, &request);
        let arguments = request.arguments.unwrap_or_default();
        let Some(called) = self.find_called(&request.name, &context.extensions) else {
            return Err(ErrorData::invalid_params("there is no such tool", None));
        };
        // Whoever gives this up, the client or the server, ends what runs on the database.
        let cancel = CancelOnDrop(Cancel::default());
        let origin = CallOrigin::new(
            self.session_id.as_deref().map(str::to_owned),
            Some(called.tool.name()),
        )
        .with_traceparent(context.meta.0.0.get(TRACE).and_then(Value::as_str));
        let told = (claims(&context), origin, cancel.0.clone());
        let token = context.meta.get_progress_token();
        tokio::select! {
            result = self.run(called, arguments, &context.extensions, told, asking) => Ok(result),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            () = tell_progress(context.peer.clone(), token) => {
                Err(ErrorData::internal_error("cancelled", None))
            }
        }
    }
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
