//! A call on its connection: it waits for a place, runs where blocking is fine, and is recorded.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use palisade::{
    answer::Form,
    code::Code,
    firewall::{PermittedChange, VisibleRelation},
    guard::{Cancel, Refusal, Request, record_unreached},
    limits::Limits,
    rejection::Rejection,
    session::Session,
};
use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::Value;
use tokio::{
    runtime::Handle,
    task::{spawn, spawn_blocking},
    time::Instant,
};
use tracing::{Instrument as _, Span};

use crate::{
    answer::{self, Context, Offered, Templates},
    arguments::{Call, ListCall, Listing, MAX_ROWS},
    connections::{Connection, Recorder},
    cursor::Seals,
    lists::{self, Page, Scope, ShownLimits},
    metadata,
    observe::{CallNotes, WAIT},
    options::AnswerSize,
    policy_test,
    queue::{Ask, Caller, Kind, TRIAL},
    refusals::{cancelled_call, internal, read_only, refusal, too_busy},
    running::Running,
    schema_dump,
    tool_name::ToolName,
    tool_set::ToolSet,
    turn::Turns,
};

/// How long a call may wait at least, where statements get less time than that.
const PATIENCE: Duration = Duration::from_secs(2);

/// In what steps the time that a statement waited is taken off.
const STEP: Duration = Duration::from_millis(250);

/// Who asks, and what of the connection may be changed by this principal.
pub(crate) struct Asked {
    pub(crate) session: Session,
    pub(crate) is_changeable: bool,
    /// Whether it could approve what others propose.
    pub(crate) may_approve: bool,
    /// Which pair of streams it came through.
    pub(crate) door: u64,
    /// How large the answer may be.
    pub(crate) size: AnswerSize,
    /// Where it runs.
    pub(crate) work: WorkPlace,
    /// Which tools whoever asks can use, for what a refusal names.
    pub(crate) tools: Arc<ToolSet>,
    /// Whether there are tools for templates.
    pub(crate) templates: Templates,
    /// The calls of its client.
    pub(crate) running: Running,
    /// Whether anybody waits for it.
    pub(crate) cancel: Cancel,
    /// What is noted of it.
    pub(crate) notes: CallNotes,
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

/// Records a call that reached no connection, with what lends its records. Without a principal there is no record.
pub(crate) async fn record_unbound(
    recorder: Option<(Recorder, Session)>,
    connection: Option<String>,
    result: Result<CallToolResult, Refusal>,
    began: Instant,
) -> Result<CallToolResult, Refusal> {
    let Some((recorder, session)) = recorder else {
        return result;
    };
    // Records are files.
    let job = spawn_blocking(move || {
        let told = result.as_ref().map(|_| ());
        let (connection, took) = (connection.as_deref(), began.elapsed());
        let recorded = match recorder {
            Recorder::Gate(guard) => guard.record_call_of(connection, &session, told, took),
            Recorder::Sink(audit) => {
                let at = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                record_unreached(&*audit, at, (connection, &session), (told, took))
            }
        };
        recorded.and(result)
    });
    job.await
        .map_err(|_| refusal(internal("a record panicked")))?
}

/// Records a call that ran no statement. What cannot be recorded is not answered.
pub(crate) async fn record(
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

/// Where calls run.
#[derive(Clone, Debug)]
pub(crate) enum WorkPlace {
    /// On a blocking thread: deciding takes the processor, and what is kept in files blocks.
    Aside,
    /// Small queries on the thread that reads and answers messages, which spares handing each of their steps from thread to
    /// thread; the rest aside.
    Here,
    /// The same one at a time, while none takes long: others wait for the thread.
    InTurn(Turns),
}

/// Bytes of a statement and its values that are decided where messages are read: deciding more could keep others waiting.
const SMALL: usize = 4 * 1024;

/// Runs `call`, where a panic ends its work and nothing else. How many run at once, and so how many are decided, is the queue's to
/// say.
pub(crate) async fn run_on(
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
        let waits = asked.notes.elapsed();
        let place = connection.queue.place(ask.clone(), deadline);
        let place = place.instrument(tracing::debug_span!(target: "palisade", "wait"));
        let place = tokio::select! {
            place = place => place,
            () = asked.cancel.wait() => {
                let refused = Err(refusal(cancelled_call()));
                // Whoever asked records the others.
                return match call.is_reading() || call.is_statement() {
                    true => record(connection, asked, refused, began).await,
                    false => refused,
                };
            }
        };
        asked.notes.note_stage(WAIT, waits);
        let place = match place {
            Ok(place) => place,
            Err(busy) => {
                let refused = Err(refusal(too_busy(busy)));
                // It has not come as far as the gate.
                return match call.is_reading() {
                    true => record(connection, asked, refused, began).await,
                    false => refused,
                };
            }
        };
        let kind = place.kind();
        let time = match kind {
            Kind::Full => left(timeout, began.elapsed(), deadline),
            Kind::Trial => TRIAL,
        };
        let is_trial = kind == Kind::Trial && TRIAL < timeout;
        let (theirs, call, asked) = (Arc::clone(connection), Arc::clone(call), Arc::clone(asked));
        let running = asked.running.begin();
        let work_place = match theirs.may_run_here(&call, &asked) {
            true => asked.work.clone(),
            false => WorkPlace::Aside,
        };
        let work = async move {
            let result = theirs.call(&call, &asked, (time, is_trial)).await;
            drop((place, running));
            result
        };
        let work = work.instrument(Span::current());
        let aside = |work| {
            let handle = Handle::current();
            spawn_blocking(move || handle.block_on(work))
        };
        let job = match work_place {
            WorkPlace::Aside => aside(work),
            WorkPlace::Here => spawn(work),
            WorkPlace::InTurn(turns) => match turns.take() {
                Some(turn) => spawn(turn.run(work)),
                None => aside(work),
            },
        };
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
    /// Whether `call` may run where messages are read: it is small, and nothing of it blocks.
    fn may_run_here(&self, call: &Call, asked: &Asked) -> bool {
        call.reads_now()
            && call.bytes() <= SMALL
            && self.guard.records_at_once()
            && !self.guard.firewall().reads_may_wait(&asked.session)
    }

    /// Runs `call`; a statement of it for so long at most, and whether it is only tried. Most of it takes the processor, and what
    /// is kept in files blocks.
    pub(crate) async fn call(
        &self,
        call: &Call,
        asked: &Asked,
        (time, is_trial): (Duration, bool),
    ) -> Result<CallToolResult, Refusal> {
        let session = &asked.session;
        match call {
            Call::List(Listing::Schemas, call) => {
                let relations = self.relations(session).await?;
                let paged = self
                    .page("list_schemas", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let list = lists::schemas(&relations, paged.page, |at| paged.seal(at));
                self.tell(&list.map_err(refusal)?)
            }
            Call::List(Listing::Tables, call) => {
                let relations = self.relations(session).await?;
                let paged = self
                    .page("list_tables", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let list = lists::tables(&relations, &call.scope, paged.page, |at| paged.seal(at));
                self.tell(&list.map_err(refusal)?)
            }
            Call::List(Listing::Objects, call) => {
                let relations = self.relations(session).await?;
                let paged = self
                    .page("search_objects", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let list = lists::objects(&relations, &call.scope, paged.page, |at| paged.seal(at));
                self.tell(&list.map_err(refusal)?)
            }
            Call::List(Listing::Permissions, call) => {
                let relations = self.relations(session).await?;
                let changes = self.changes(asked)?;
                let limits = self.guard.firewall().limits().clone();
                let limits = ShownLimits {
                    rows: limits.max_rows.min(MAX_ROWS),
                    characters: asked.size.max_chars(),
                    affected_rows: asked.is_changeable.then_some(limits.max_affected_rows),
                    timeout_ms: limits.statement_timeout_ms,
                };
                let firewall = self.guard.firewall();
                let waits = [
                    ("read", firewall.reads_may_wait(session)),
                    (
                        "change",
                        asked.is_changeable && firewall.changes_may_wait(session),
                    ),
                ];
                let waits = waits.into_iter().filter(|(_, waits)| *waits);
                let waits = waits.map(|(what, _)| what).collect();
                let whose = (session.principal().to_string(), limits, waits);
                let paged = self
                    .page("policy_explain", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let told =
                    lists::explain(whose, &relations, &changes, paged.page, |at| paged.seal(at));
                self.tell(&told.map_err(refusal)?)
            }
            Call::DescribeTable(call) => {
                let relations = self.relations(session).await?;
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
            Call::List(Listing::Definitions, call) => {
                let relations = self.relations(session).await?;
                let dialect = self.guard.firewall().catalog().dialect();
                let paged = self
                    .page("schema_dump", call, lists::digest(&relations), asked)
                    .map_err(refusal)?;
                let seal = |at| paged.seal(at);
                let dump = schema_dump::dump(&relations, &call.scope, dialect, paged.page, seal);
                self.tell(&dump.map_err(refusal)?)
            }
            Call::List(Listing::Templates, call) => {
                // No tool runs those that change something.
                let mut templates = self.guard.templates(session)?;
                templates.retain(|template| !template.changes_rows);
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
                match self.guard.dry_run(request).await {
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
                self.rows(request, call.form, (asked, true)).await
            }
            Call::RunTemplate(call) => {
                let limits = self.limits(call.limit, time);
                let request = Request::template(&call.template, &call.arguments, session);
                let request = try_first(request.with_limits(&limits), is_trial);
                let asked = (asked, self.is_most(call.limit));
                self.rows(request, call.form, asked).await
            }
            Call::Query(call) => {
                let time = call
                    .timeout_ms
                    .map_or(time, |ms| time.min(Duration::from_millis(ms)));
                let limits = self.limits(call.limit, time);
                let request = Request::statement(&call.sql, &call.params, session);
                let request = request.as_of(call.as_of.as_deref());
                let request = try_first(request.with_limits(&limits), is_trial);
                let asked = (asked, self.is_most(call.limit));
                self.rows(request, call.form, asked).await
            }
            Call::Change(call) => {
                let limits = self.limits(MAX_ROWS, time);
                self.call_changes(call, asked, &limits).await
            }
            Call::Past(call) => {
                let limits = self.limits(MAX_ROWS, time);
                self.call_past(call, asked, &limits).await
            }
            Call::Execute(call) => {
                if !asked.is_changeable {
                    return Err(refusal(read_only(ToolName::Execute)));
                }
                // What a change gives leaves whole, or the change is taken back.
                let limits = Limits {
                    max_affected_rows: call.max_affected_rows.unwrap_or(u64::MAX),
                    ..self.limits(MAX_ROWS, time)
                };
                let request = Request::statement(&call.sql, &call.params, session);
                let request = request.with_limits(&limits).allow_changes();
                self.rows(request, call.form, (asked, true)).await
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
    pub(crate) fn tell(&self, answer: &impl Serialize) -> Result<CallToolResult, Refusal> {
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
    async fn rows(
        &self,
        request: Request<'_>,
        form: Form,
        (asked, has_most_rows): (&Asked, bool),
    ) -> Result<CallToolResult, Refusal> {
        let room = asked.size.room(form, has_most_rows);
        let request = request.with_room(room).cancelled_by(&asked.cancel);
        let start = asked.notes.elapsed();
        let (outcome, report) = self.guard.answer(request).await;
        asked.notes.note_stages(start, &report.stages);
        let envelope = outcome.into_result()?;
        asked.notes.note_answer(&envelope);
        answer::rows(&envelope, form).map_err(refusal)
    }

    /// What an answer may cost that is to have so many rows, of a statement that may take so long.
    fn limits(&self, max_rows: u64, time: Duration) -> Limits {
        let limits = self.guard.firewall().limits().clone();
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Limits {
            max_rows: limits.max_rows.min(max_rows),
            statement_timeout_ms: limits.statement_timeout_ms.min(time),
            ..limits
        }
    }

    /// The relations that exist for the session by now. Where the database cannot be looked at, those that it
    /// had.
    pub(crate) async fn relations(
        &self,
        session: &Session,
    ) -> Result<Vec<VisibleRelation>, Refusal> {
        if let Err(error) = self.guard.refresh_if_due().await {
            tracing::warn!(
                connection = self.name,
                "the schema may be out of date: {error}"
            );
        }
        self.guard.relations(session)
    }
}
