//! What each tool does on its connection.

use std::{sync::atomic::Ordering, time::Duration};

use palisade::{
    answer::Form,
    firewall::{PermittedChange, VisibleRelation},
    guard::{Refusal, Request},
    limits::Limits,
    rejection::Rejection,
    session::Session,
};
use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::Value;

use crate::{
    answer::{self, Context, Offered},
    arguments::{Call, DescribeCall, ListCall, Listing, MAX_ROWS},
    calls::CallContext,
    connections::Connection,
    cursor::Seals,
    lists::{self, Page, Scope, ShownLimits},
    metadata, policy_test,
    refusals::{read_only, refusal},
    schema_dump,
    tool_name::ToolName,
};

/// What a call's statement may take.
#[derive(Clone, Copy)]
pub(crate) struct Allotted {
    /// How long it may run at most.
    pub(crate) time: Duration,
    /// Whether it is sent again, with more time, if it runs out of this.
    pub(crate) is_trial: bool,
}

/// How the rows of a statement are shown.
#[derive(Clone, Copy)]
struct RowsShown {
    form: Form,
    /// Whether asking for more would give no more.
    has_most_rows: bool,
}

impl RowsShown {
    /// As many as there may be.
    fn unbounded(form: Form) -> Self {
        Self {
            form,
            has_most_rows: true,
        }
    }
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

/// The request, where it is run again with more time if it runs out of it.
fn try_first(request: Request<'_>, allotted: Allotted) -> Request<'_> {
    if allotted.is_trial {
        request.on_trial()
    } else {
        request
    }
}

impl Connection {
    /// Runs `call`. Most of it takes the processor, and what is kept in files blocks.
    pub(crate) async fn call(
        &self,
        call: &Call,
        context: &CallContext,
        allotted: Allotted,
    ) -> Result<CallToolResult, Refusal> {
        let session = &context.session;
        let all_rows = || self.limits(MAX_ROWS, allotted.time);
        match call {
            Call::List(listing, call) => self.list(*listing, call, context).await,
            Call::ListTemplates(call) => self.list_templates(call, context),
            Call::DescribeTable(call) => self.describe_table(call, context).await,
            Call::PolicyTest(call) => {
                let limits = all_rows();
                let request = Request::statement(&call.sql, &call.params, session);
                let request = request.with_limits(&limits);
                let request = match context.is_changeable {
                    true => request.allow_changes(),
                    false => request,
                };
                self.test_policy(request, context).await
            }
            Call::ExplainQuery(call) => {
                let limits = all_rows();
                let request = Request::plan(&call.sql, &call.params, session);
                let request = try_first(request.with_limits(&limits), allotted);
                self.rows(request, RowsShown::unbounded(call.form), context)
                    .await
            }
            Call::RunTemplate(call) => {
                let limits = self.limits(call.limit, allotted.time);
                let request = Request::template(&call.template, &call.arguments, session);
                let request = try_first(request.with_limits(&limits), allotted);
                let shown = RowsShown {
                    form: call.form,
                    has_most_rows: self.is_most(call.limit),
                };
                self.rows(request, shown, context).await
            }
            Call::Query(call) => {
                let least = call.timeout_ms.map(Duration::from_millis);
                let time = least.map_or(allotted.time, |least| allotted.time.min(least));
                let limits = self.limits(call.limit, time);
                let request = Request::statement(&call.sql, &call.params, session);
                let request = request.as_of(call.as_of.as_deref());
                let request = try_first(request.with_limits(&limits), allotted);
                let shown = RowsShown {
                    form: call.form,
                    has_most_rows: self.is_most(call.limit),
                };
                self.rows(request, shown, context).await
            }
            Call::Change(call) => self.call_changes(call, context, &all_rows()).await,
            Call::Past(call) => self.call_past(call, context, &all_rows()).await,
            Call::Execute(call) => {
                if !context.is_changeable {
                    return Err(refusal(read_only(ToolName::Execute)));
                }
                // What a change gives leaves whole, or the change is taken back.
                let limits = Limits {
                    max_affected_rows: call.max_affected_rows.unwrap_or(u64::MAX),
                    ..all_rows()
                };
                let request = Request::statement(&call.sql, &call.params, session);
                let request = request.with_limits(&limits).allow_changes();
                self.rows(request, RowsShown::unbounded(call.form), context)
                    .await
            }
        }
    }

    /// A page of the names that `listing` is of.
    async fn list(
        &self,
        listing: Listing,
        call: &ListCall,
        context: &CallContext,
    ) -> Result<CallToolResult, Refusal> {
        let relations = self.relations(&context.session).await?;
        let paged = self.page(listing.tool(), call, lists::digest(&relations), context);
        let paged = paged.map_err(refusal)?;
        let (page, seal) = (paged.page, |at| paged.seal(at));
        match listing {
            Listing::Schemas => self.tell_page(lists::schemas(&relations, page, seal)),
            Listing::Tables => self.tell_page(lists::tables(&relations, &call.scope, page, seal)),
            Listing::Objects => self.tell_page(lists::objects(&relations, &call.scope, page, seal)),
            Listing::Definitions => {
                let dialect = self.guard.firewall().catalog().dialect();
                let dump = schema_dump::dump(&relations, &call.scope, dialect, page, seal);
                self.tell_page(dump)
            }
            Listing::Permissions => {
                let changes = self.changes(context)?;
                let whose = (
                    context.session.principal().to_string(),
                    self.shown_limits(context),
                    self.list_waiting(context),
                );
                self.tell_page(lists::explain(whose, &relations, &changes, page, seal))
            }
        }
    }

    fn list_templates(
        &self,
        call: &ListCall,
        context: &CallContext,
    ) -> Result<CallToolResult, Refusal> {
        // No tool runs those that change something.
        let mut templates = self.guard.templates(&context.session)?;
        templates.retain(|template| !template.changes_rows);
        let names: Vec<&str> = templates.iter().map(|one| one.name.as_str()).collect();
        let paged = self
            .page(ToolName::ListTemplates, call, names.join("\n"), context)
            .map_err(refusal)?;
        self.tell_page(metadata::templates(&templates, paged.page, |at| {
            paged.seal(at)
        }))
    }

    /// What one call of the caller may cost.
    fn shown_limits(&self, context: &CallContext) -> ShownLimits {
        let firewall = self.guard.firewall();
        let limits = firewall.limits();
        ShownLimits {
            rows: limits.max_rows.min(MAX_ROWS),
            characters: context.size.max_chars(),
            affected_rows: context.is_changeable.then_some(limits.max_affected_rows),
            timeout_ms: limits.statement_timeout_ms,
        }
    }

    /// What may wait for a person's approval, of reading and changing.
    fn list_waiting(&self, context: &CallContext) -> Vec<&'static str> {
        let firewall = self.guard.firewall();
        let reads = firewall.reads_may_wait(&context.session);
        let changes = context.is_changeable && firewall.changes_may_wait(&context.session);
        let waiting = [("read", reads), ("change", changes)];
        let waiting = waiting.into_iter().filter(|(_, may_wait)| *may_wait);
        waiting.map(|(what, _)| what).collect()
    }

    async fn describe_table(
        &self,
        call: &DescribeCall,
        context: &CallContext,
    ) -> Result<CallToolResult, Refusal> {
        let relations = self.relations(&context.session).await?;
        let firewall = self.guard.firewall();
        let catalog = firewall.catalog();
        let (dialect, path) = (catalog.dialect(), catalog.search_path());
        let changes = self.changes(context)?;
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
        let digest = lists::digest(&relations);
        let paged = self
            .page(ToolName::DescribeTable, &list, digest, context)
            .map_err(refusal)?;
        self.tell_page(described.on_page(paged.page, |at| paged.seal(at)))
    }

    /// What would become of a statement.
    async fn test_policy(
        &self,
        request: Request<'_>,
        context: &CallContext,
    ) -> Result<CallToolResult, Refusal> {
        match self.guard.dry_run(request).await {
            Ok(run) => self.tell(&policy_test::describe_permitted(&run)),
            // Of what is not the statement's there is nothing to say of it.
            Err(refusal) if refusal.incident.is_some() => Err(refusal),
            Err(refusal) => self.tell(&policy_test::describe_refused(
                self.describe_refusal(&refusal, context),
            )),
        }
    }

    /// What may be changed, where the caller may change anything.
    fn changes(&self, context: &CallContext) -> Result<Vec<PermittedChange>, Refusal> {
        match context.is_changeable {
            true => self.guard.permitted_changes(&context.session),
            false => Ok(Vec::new()),
        }
    }

    /// An answer about names, with the engine that they are of.
    pub(crate) fn tell(&self, answer: &impl Serialize) -> Result<CallToolResult, Refusal> {
        answer::metadata(answer, self.engine().as_deref()).map_err(refusal)
    }

    /// The same of a page, unless it could not be made.
    fn tell_page(
        &self,
        page: Result<impl Serialize, Rejection>,
    ) -> Result<CallToolResult, Refusal> {
        self.tell(&page.map_err(refusal)?)
    }

    /// What a caller would be told of `refusal` by the tool that runs the statement.
    fn describe_refusal(&self, refusal: &Refusal, context: &CallContext) -> Value {
        let (tool, offered) = match context.is_changeable && context.tools.has(ToolName::Execute) {
            true => (ToolName::Execute, Offered::Changing),
            false => (ToolName::Query, Offered::Reading),
        };
        answer::refusal_body(
            refusal,
            Context {
                tool,
                called: ToolName::PolicyTest.name(),
                connection: Some(&self.name),
            },
            (offered, &context.tools.names()),
            context.templates,
        )
    }

    /// Whether a limit above `rows` would give no more rows.
    fn is_most(&self, rows: u64) -> bool {
        rows >= MAX_ROWS.min(self.guard.firewall().limits().max_rows)
    }

    /// The page that `call` asks of `tool`, and with what the next one is sealed. `digest` tells one list from another.
    fn page(
        &self,
        tool: ToolName,
        call: &ListCall,
        digest: String,
        context: &CallContext,
    ) -> Result<Paged<'_>, Rejection> {
        // Bound to what is visible, and not to the version of a schema that hidden tables are part of.
        let scope = format!(
            "{}\n{}\n{digest}\n{:?}",
            tool.name(),
            context.session.principal(),
            call.scope
        );
        let from = match &call.cursor {
            Some(cursor) => self.seals.open(&scope, cursor)?,
            None => 0,
        };
        let page = Page {
            from,
            room: context.size.list_bytes(),
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
        shown: RowsShown,
        context: &CallContext,
    ) -> Result<CallToolResult, Refusal> {
        let RowsShown {
            form,
            has_most_rows,
        } = shown;
        let room = context.size.room(form, has_most_rows);
        let request = request.with_room(room).cancelled_by(&context.cancel);
        let start = context.notes.elapsed();
        if context.has_counted_trial.swap(false, Ordering::SeqCst) {
            self.guard.take_back_failure(&context.session);
        }
        let is_trial = request.is_on_trial();
        let (outcome, report) = self.guard.answer(request).await;
        // Where nothing comes after the trial, it stays counted.
        let is_counted = is_trial && report.is_counted_failure;
        context
            .has_counted_trial
            .store(is_counted, Ordering::SeqCst);
        context.notes.note_stages(start, &report.stages);
        let envelope = outcome.into_result()?;
        context.notes.note_answer(&envelope);
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
