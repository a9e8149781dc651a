//! Resources, completion and news of a server, by calls of its tools.

use std::{sync::Arc, time::Duration};

use palisade::code::Code;
use rmcp::{
    ErrorData, RoleServer, ServerHandler as _,
    model::{
        CacheScope, CallToolRequestParams, CompleteRequestParams, CompleteResult, Extensions,
        JsonObject, ListResourcesResult, ReadResourceResult,
    },
    service::{Peer, RequestContext, SubscriptionContext},
};
use serde_json::Value;
use tokio::{
    runtime::Handle,
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{
    answer,
    arguments::Call,
    complete::{self, Wanted},
    connections::ARGUMENT,
    metadata,
    prompts::{self, invalid},
    queue::TRIAL,
    resources::{self, Address},
    server::{LOOK, PalisadeServer, TTL_MS},
    tool_calls::Allotted,
    tool_name::ToolName,
    tool_set::ToolSet,
    watch::{
        Fingerprint, MAX_WATCHED, News, Seen, TIMED_LOOK, Watched, fingerprint, fingerprint_answer,
    },
};

/// What stands for a resource that there is not.
const NOTHING: &str = "nothing";

impl PalisadeServer {
    /// What the resource `uri` says, recorded as the call of a tool.
    async fn resource(
        &self,
        uri: &str,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let only = self.connections.only();
        // Which tools there are is known of databases that are open.
        self.settle().await;
        let tools = self.nameable_tools(&context.extensions);
        let call = Address::parse(uri).and_then(|at| at.call(only, &tools));
        self.ask_tool(call.ok_or_else(|| resources::not_found(uri))?, context)
            .await
    }

    async fn ask_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        resources::read_answer(self.call_tool(call, context).await?)
    }

    /// The resource `uri`.
    pub(crate) async fn read(
        &self,
        uri: &str,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResult, ErrorData> {
        let answer = self.resource(uri, context).await?;
        Ok(
            ReadResourceResult::new(vec![resources::contents(uri, &answer)])
                .with_ttl_ms(TTL_MS)
                .with_cache_scope(CacheScope::Private),
        )
    }

    /// A page of all resources: of the server and of each connection, and then the tables of one connection after the other.
    pub(crate) async fn page_of_resources(
        &self,
        cursor: Option<String>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.settle().await;
        let connections = &self.connections;
        let opened = match self.tools().has(ToolName::ListTables) {
            true => connections.opened_names(),
            false => Vec::new(),
        };
        let mut listed = Vec::new();
        // A cursor is that of `list_tables`, and says of which connection it is.
        let (cursor, at) = match &cursor {
            None => {
                let tools = self.nameable_tools(&context.extensions);
                listed = resources::list_fixed(connections.names().into_iter(), &tools);
                (None, 0)
            }
            Some(cursor) => {
                let (cursor, name) = cursor.split_once('@').unwrap_or_default();
                let at = opened.iter().position(|one| *one == name);
                let at = at.ok_or_else(|| invalid("there is no such page"))?;
                ((!cursor.is_empty()).then_some(cursor), at)
            }
        };
        let mut next = None;
        if let Some(name) = opened.get(at) {
            let mut arguments = JsonObject::new();
            if let Some(cursor) = cursor {
                arguments.insert("cursor".to_owned(), cursor.into());
            }
            let only = connections.only();
            resources::name_connection(&mut arguments, only, name);
            let call = resources::call_of(ToolName::ListTables, arguments);
            let answer = match self.ask_tool(call, context).await {
                Ok(answer) => answer,
                // A caller without a principal here may have one elsewhere.
                Err(error) if code_of(&error) == Some(Code::PolicyNoPermit.slug()) => Value::Null,
                Err(error) => return Err(error),
            };
            listed.extend(resources::of_tables(name, &answer));
            let more = answer.get("next_cursor").and_then(Value::as_str);
            next = match (more, opened.get(at + 1)) {
                (Some(cursor), _) => Some(format!("{cursor}@{name}")),
                (None, Some(following)) => Some(format!("@{following}")),
                (None, None) => None,
            };
        }
        let mut list = ListResourcesResult::with_all_items(listed)
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        list.meta = Some(resources::meta());
        Ok(list)
    }

    /// Names that an argument can be completed with.
    pub(crate) async fn complete_argument(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let wanted = Wanted::read(&request, &self.nameable_tools(&context.extensions))
            .ok_or_else(|| invalid("there is no such prompt, template or argument"))?;
        let begun = request.argument.value.as_str();
        let connections = &self.connections;
        let (mut names, mut more) = (Vec::new(), false);
        match &wanted {
            Wanted::Nothing => {}
            Wanted::Code => names = complete::codes(),
            Wanted::Connection => {
                let all = connections.names().into_iter();
                names = all.map(str::to_owned).collect();
            }
            Wanted::Schema | Wanted::Table { schema: _ } | Wanted::Qualified => {
                let only = connections.only().map(str::to_owned);
                let connection = complete::find_argument(&request, ARGUMENT).or(only);
                let call = wanted.call(begun, &self.tools());
                if let (Some(connection), Some((tool, mut arguments))) = (connection, call) {
                    resources::name_connection(&mut arguments, connections.only(), &connection)
                        .ok_or_else(|| invalid("there is no such database"))?;
                    let call = resources::call_of(tool, arguments);
                    let answer = self.ask_tool(call, context).await?;
                    names = wanted.names(&answer);
                    more = answer.get("truncated") == Some(&Value::Bool(true));
                }
            }
        }
        names.retain(|name| wanted.begins(name, begun));
        Ok(CompleteResult::new(complete::info(names, more)))
    }

    /// Tells a client of `uri` from now on.
    pub(crate) async fn watch_resource(
        &self,
        uri: &str,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let answer = self.resource(uri, context).await?;
        if self.watched.add(uri, fingerprint_answer(&answer)) {
            return Ok(());
        }
        Err(invalid(format!(
            "{MAX_WATCHED} resources are watched already; unsubscribe from one first"
        )))
    }

    /// Tells a client that has shaken hands of what becomes other, as long as it is there.
    pub(crate) async fn tell_news(self, peer: Peer<RoleServer>, request: Extensions) {
        // What a client lists meanwhile waits for it too, and is no news.
        self.settle().await;
        let mut seen = self.begin_watch(&request);
        // The first look says what is there before anything becomes other.
        let mut is_first = true;
        while !peer.is_transport_closed() {
            if std::mem::take(&mut is_first) || self.hearing.is_open() {
                let news = self.look(&request, &mut seen, &self.watched).await;
                let mut told = Ok(());
                if news.tools {
                    told = told.and(peer.notify_tool_list_changed().await);
                }
                if news.prompts {
                    told = told.and(peer.notify_prompt_list_changed().await);
                }
                if news.resources {
                    told = told.and(peer.notify_resource_list_changed().await);
                }
                for uri in news.updated {
                    let param = rmcp::model::ResourceUpdatedNotificationParam::new(uri);
                    told = told.and(peer.notify_resource_updated(param).await);
                }
                if told.is_err() {
                    return;
                }
            }
            sleep(self.hearing.pace()).await;
        }
    }

    /// Tells a client that listens of what it asked for, until it no longer does.
    pub(crate) async fn tell_listener(&self, context: &SubscriptionContext) {
        let request = context.request_context();
        let accepted = context.accepted();
        let watched = Watched::default();
        self.settle().await;
        let mut seen = self.begin_watch(&request.extensions);
        for uri in accepted.resource_subscriptions.iter().flatten() {
            let said = match self.resource(uri, request.clone()).await {
                Ok(answer) => fingerprint_answer(&answer),
                Err(error) => fingerprint(code_of(&error).unwrap_or(NOTHING)),
            };
            watched.add(uri, said);
        }
        loop {
            let news = self.look(&request.extensions, &mut seen, &watched).await;
            let mut told = Ok(());
            if news.tools && accepted.tools_list_changed == Some(true) {
                told = told.and(context.sink().notify_tool_list_changed().await);
            }
            if news.prompts && accepted.prompts_list_changed == Some(true) {
                told = told.and(context.sink().notify_prompt_list_changed().await);
            }
            if news.resources && accepted.resources_list_changed == Some(true) {
                told = told.and(context.sink().notify_resource_list_changed().await);
            }
            for uri in news.updated {
                told = told.and(context.sink().notify_resource_updated(uri).await);
            }
            if told.is_err() {
                return;
            }
            tokio::select! {
                () = context.cancelled() => return,
                () = sleep(LOOK) => {}
            }
        }
    }

    fn begin_watch(&self, request: &Extensions) -> Seen {
        Seen {
            outline: self.outline_offered(request),
            tools: fingerprint(&self.standing(request)),
            set: self.nameable_tools(request),
            tables: None,
            firewalls: Vec::new(),
            kept: Vec::new(),
            asked: Instant::now(),
            read: (Instant::now(), Duration::ZERO),
        }
    }

    /// What is other than `seen`, which becomes what it is now.
    async fn look(&self, request: &Extensions, seen: &mut Seen, watched: &Watched) -> News {
        let mut news = News::default();
        // First what they depend on: a change after it is found by the next look.
        let outline = self.outline_offered(request);
        let mut set = seen.set.clone();
        if outline != seen.outline {
            seen.outline = outline;
            let tools = fingerprint(&self.standing(request));
            news.tools = std::mem::replace(&mut seen.tools, tools) != seen.tools;
            set = std::mem::replace(&mut seen.set, self.nameable_tools(request));
        }
        let has_choice = self.connections.only().is_none();
        let list = |set: &ToolSet| prompts::list(set, has_choice);
        news.prompts = set != seen.set && list(&set) != list(&seen.set);
        let opened = self.connections.opened();
        let firewalls = opened.iter().map(|one| one.guard.firewall()).collect();
        let mut kept = seen.kept.clone();
        if !watched.is_empty() && seen.asked.elapsed() >= TIMED_LOOK {
            seen.asked = Instant::now();
            // It may stand on another machine.
            let guards: Vec<_> = opened.iter().map(|one| Arc::clone(&one.guard)).collect();
            let read = move || guards.iter().map(|one| one.read_state_version()).collect();
            kept = spawn_blocking(read).await.unwrap_or(kept);
        }
        if !seen.may_differ(firewalls, kept) && set == seen.set {
            return news;
        }
        let began = Instant::now();
        let (server, request, watched) = (self.clone(), request.clone(), watched.clone());
        let (handle, now) = (Handle::current(), seen.set.clone());
        // Names are decided about one by one, while others want answers.
        let job = spawn_blocking(move || {
            let updated = watched.uris().into_iter().filter(|uri| {
                let said = server.glance(uri, (&request, &now), &handle);
                watched.has_changed(uri, said)
            });
            let updated = updated.collect();
            (server.tables((&request, &now), &handle), updated)
        });
        let told = job.await;
        seen.read = (Instant::now(), began.elapsed());
        if let Ok((tables, updated)) = told {
            let before = seen.tables.replace(tables);
            news.resources = before.is_some_and(|before| before != tables);
            news.updated = updated;
        }
        news
    }

    /// The fingerprint of what a resource says by now, without a record: what the client is told of it is that it is other.
    fn glance(&self, uri: &str, by: (&Extensions, &ToolSet), handle: &Handle) -> Fingerprint {
        self.try_glance(uri, by, handle)
            .unwrap_or_else(|| fingerprint(NOTHING))
    }

    fn try_glance(
        &self,
        uri: &str,
        (request, tools): (&Extensions, &ToolSet),
        handle: &Handle,
    ) -> Option<Fingerprint> {
        let connections = &self.connections;
        let at = Address::parse(uri)?;
        let call = at.call(connections.only(), tools)?;
        let connection = match &at {
            Address::Databases => {
                let databases = connections.databases(request);
                let answer = answer::metadata(&metadata::databases(&databases), None).ok()?;
                return answer.structured_content.as_ref().map(fingerprint_answer);
            }
            Address::Of { connection, .. } => connection,
        };
        let opened = connections.opened();
        let connection = opened.into_iter().find(|one| one.name == *connection)?;
        let mut arguments = call.arguments.unwrap_or_default();
        arguments.remove(ARGUMENT);
        let tool = ToolName::from_name(&call.name)?;
        let call = Call::read(tool, arguments, connection.history()).ok()?;
        let asked = self.who_asks(connection, request)?;
        let allotted = Allotted {
            time: TRIAL,
            is_trial: false,
        };
        match handle.block_on(connection.call(&call, &asked, allotted)) {
            Ok(result) => result.structured_content.as_ref().map(fingerprint_answer),
            Err(refusal) => Some(fingerprint(refusal.rejection.code().slug())),
        }
    }

    /// What tells one list of tables from another, of all connections that are open.
    fn tables(&self, (request, tools): (&Extensions, &ToolSet), handle: &Handle) -> Fingerprint {
        // Resources come and go with the tools that say the same.
        let names = self.connections.names().into_iter();
        let fixed = resources::list_fixed(names, tools);
        let has_tables = tools.has(ToolName::ListTables);
        let mut text = format!("{fixed:?}{:?}{has_tables}\n", resources::templates(tools));
        for connection in self.connections.opened() {
            let session = connection.session(request);
            let relations = session.map(|session| handle.block_on(connection.relations(&session)));
            for relation in relations.and_then(Result::ok).iter().flatten() {
                let named = (&connection.name, &relation.schema, &relation.name);
                text.push_str(&format!("{named:?}{}\n", relation.kind));
            }
        }
        fingerprint(&text)
    }
}

/// The code of a refusal.
fn code_of(error: &ErrorData) -> Option<&str> {
    error.data.as_ref()?.get("code")?.as_str()
}
