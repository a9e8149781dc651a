//! `palisade serve`: an MCP server over standard input and output, or over HTTP. Standard output belongs to the
//! protocol; everything else goes to standard error.

use std::{
    collections::BTreeSet,
    io::{IsTerminal as _, Write as _},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use palisade::{
    guard::Guard,
    session::{Principal, Session, Transport},
};
use palisade_mcp::{
    CallObserver, LateConnection, ObservedCall, PalisadeServer, PrincipalSource, ProtocolStreams,
    ServeOptions, serve_streams_until,
};
use tokio::runtime::Handle;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{
    args::{PolicyArguments, SecretArguments, ServeArguments},
    broker::{self, BrokerDoor},
    bundle,
    config::{
        self, ConfigFile,
        approvals::STATE_LINE,
        audit::AuditArguments,
        watch::{Served, Watched},
    },
    counts::Counts,
    database::{Access, Database},
    database_name::Source,
    exit::{Exit, Failure},
    host::{self, Driver},
    otlp::Exporter,
    query::{guard, keep_waiting, open_store},
    serve_http::{self, HttpDoor},
    setup::Setup,
    standing,
    start::Start,
    untold_views, watch, withheld_columns,
};

/// Runs the command until the client goes away.
pub(crate) fn run(arguments: &ServeArguments) -> Result<Exit, Failure> {
    log();
    serve(arguments, Door::open(arguments)?)
}

/// Runs the broker of a configuration until it is asked to end.
pub(crate) fn run_broker(config: &Path, door: BrokerDoor) -> Result<Exit, Failure> {
    log();
    let arguments = ServeArguments {
        sources: Vec::new(),
        in_memory: false,
        schema: None,
        read_only: false,
        writable: false,
        http: None,
        tools: None,
        secret: SecretArguments::default(),
        policies: PolicyArguments {
            principal: None,
            policies: None,
            config: Some(config.to_owned()),
        },
        audit: AuditArguments {
            audit: None,
            audit_key: None,
            audit_anchors: None,
        },
    };
    serve(&arguments, Door::Broker(door))
}

fn serve(arguments: &ServeArguments, mut door: Door) -> Result<Exit, Failure> {
    // While files are read and databases asked. Without the thread, the first load of policies does it.
    let ahead = std::thread::Builder::new().name("schema".to_owned());
    let _detached = ahead.spawn(palisade::policy::read_ahead);
    let askers = door.askers()?;
    // Read before what it says is, so that no change in between is missed.
    let path = arguments.policies.config.clone();
    let configuration = path.map(|path| (std::fs::read_to_string(&path).unwrap_or_default(), path));
    let served = Served::new(arguments.policies.policies.clone());
    let mut databases = door.equip(databases(arguments)?)?;
    if arguments.read_only {
        databases = (databases.into_iter())
            .map(|(setup, database)| (setup.read_only(), database))
            .collect();
    }
    // One thread sends for all of them.
    let webhook = (databases.iter()).find_map(|(setup, _)| setup.webhook.clone());
    let counts = Counts::default();
    for (setup, _) in &mut databases {
        setup.webhook.clone_from(&webhook);
        setup.counts = counts.clone();
    }
    let runtime = host::runtime()?;
    let asked = Access::asked(arguments.writable);
    let audits: Vec<_> = (databases.iter())
        .filter_map(|(setup, _)| setup.audit.clone())
        .collect();
    // One file says it for all of them.
    let (size, tools) = databases
        .first()
        .map(|(setup, _)| (setup.answer_size, setup.tools.clone()))
        .unwrap_or_default();
    let collector = databases
        .first()
        .and_then(|(setup, _)| setup.collector.clone());
    let page = databases
        .first()
        .and_then(|(setup, _)| setup.approvals.page.clone());
    let exporter = collector.as_deref().map(Exporter::new).transpose()?;
    let exporter = exporter.map(Arc::new);
    let tools = tools.choose(arguments.tools);
    let tools = tools.map_err(|unknown| Failure::Internal(unknown.to_string()))?;
    for feed in bundle::list() {
        feed.prepare()?;
        drop(runtime.spawn(bundle::watch(feed)));
    }
    let start = Start::over(&databases);
    let mut late = Vec::new();
    for (setup, database) in databases {
        let access = setup.access(asked)?;
        let opening = (setup, database, access);
        let by = (runtime.handle(), &askers);
        late.push(open_behind(opening, by, &served, &start));
    }
    let server = server(late)?.with_answer_size(size).with_tools(tools);
    let server = match page {
        Some(page) => server.with_approval_page(page),
        None => server,
    };
    door.tell_counts(&counts);
    let exporting = (exporter.as_ref()).map(|one| Arc::clone(one) as Arc<dyn CallObserver>);
    let observers: Vec<_> = exporting.into_iter().chain(door.observer()).collect();
    let server = match observers.is_empty() {
        true => server,
        false => server.with_observer(Arc::new(Observers(observers))),
    };
    let warmed = runtime.spawn(start.clone().warm(server.clone()));
    if let Some((text, path)) = configuration {
        drop(runtime.spawn(config::watch::configuration(Watched {
            path,
            text,
            tools: arguments.tools,
            served,
            server: server.clone(),
        })));
    }
    let opened = server.clone();
    let result = match door {
        Door::Streams(streams) => {
            if std::io::stdin().is_terminal() {
                // There is no reader if this fails.
                let _ = write!(std::io::stderr(), "{}", greet(std::env::args()));
            }
            // One client, on a thread with such a stack.
            let server = server.with_queries_in_place();
            let served = serve_streams_until(server, streams, start.wait_for_end());
            let served = runtime.block_on(served);
            // A client that went at once does not take away what the start found.
            runtime.block_on(start.wait_for_warmth(warmed));
            served.map_err(|error| Failure::Internal(error.to_string()))
        }
        // Its service may lock itself in first.
        Door::Broker(door) => runtime.block_on(async {
            // All clients on this thread.
            let server = server.with_queries_in_turn();
            start.wait_for_warmth(warmed).await;
            match start.has_failed() || !opened.has_open_database() {
                true => Ok(()),
                false => door.serve(server, start.wait_for_end()).await,
            }
        }),
        Door::Http(door) => {
            // All clients on this thread.
            let server = server.with_queries_in_turn();
            runtime.block_on(door.serve(server, start.wait_for_end()))
        }
    };
    let result = start.judge(&opened).and(result);
    // A statement that still runs has no client to answer.
    runtime.shutdown_background();
    if let Some(exporter) = exporter {
        exporter.finish();
    }
    if let Some(untold) = webhook.and_then(|webhook| webhook.finish()) {
        tracing::error!("{untold}");
    }
    for audit in audits {
        if let Err(error) = audit.finish() {
            tracing::error!("no anchor names the end of the audit log: {error}");
        }
    }
    result.map(|()| Exit::Permitted)
}

/// By what clients come.
enum Door {
    /// Standard input and output, one client.
    Streams(ProtocolStreams),
    /// A network.
    Http(Box<HttpDoor>),
    /// A private socket.
    Broker(BrokerDoor),
}

impl Door {
    /// Before any driver or library could print to what belongs to the protocol.
    fn open(arguments: &ServeArguments) -> Result<Self, Failure> {
        if let (Some(address), Some(path)) = (&arguments.http, &arguments.policies.config) {
            let config = ConfigFile::read(path)?;
            return Ok(Self::Http(Box::new(HttpDoor::open(address, &config)?)));
        }
        let streams = ProtocolStreams::take().map_err(|error| {
            Failure::Internal(format!(
                "standard output cannot be taken for the protocol: {error}"
            ))
        })?;
        Ok(Self::Streams(streams))
    }

    /// Has figures tell of `counts` too.
    fn tell_counts(&mut self, counts: &Counts) {
        match self {
            Self::Http(door) => door.tell_counts(counts),
            Self::Streams(_) | Self::Broker(_) => {}
        }
    }

    /// What wants to be told of calls.
    fn observer(&self) -> Option<Arc<dyn CallObserver>> {
        match self {
            Self::Http(door) => door.observer(),
            Self::Streams(_) | Self::Broker(_) => None,
        }
    }

    /// Who may ask.
    fn askers(&self) -> Result<Askers, Failure> {
        match self {
            Self::Streams(_) => Ok(Askers::Configured),
            Self::Http(door) => Ok(Askers::Bearers(door.principals()?)),
            Self::Broker(door) => Ok(Askers::Peers(door.principals())),
        }
    }

    /// The databases, with what only this door knows of them.
    fn equip(&self, databases: Vec<(Setup, Database)>) -> Result<Vec<(Setup, Database)>, Failure> {
        match self {
            Self::Streams(_) | Self::Http(_) => Ok(databases),
            Self::Broker(door) => door.equip(databases),
        }
    }
}

/// Those who are told of calls.
struct Observers(Vec<Arc<dyn CallObserver>>);

impl CallObserver for Observers {
    fn observe(&self, call: &ObservedCall) {
        for observer in &self.0 {
            observer.observe(call);
        }
    }
}

/// Who may ask.
#[derive(Clone)]
enum Askers {
    /// The principal of the configuration or the command line.
    Configured,
    /// Bearers of access tokens; these principals have one by now.
    Bearers(BTreeSet<Principal>),
    /// Processes that connect to the broker: these principals, or that of the configuration.
    Peers(BTreeSet<Principal>),
}

impl Askers {
    /// How they come to a connection of `setup`, and who each is.
    fn source(&self, setup: &Setup) -> (Transport, PrincipalSource) {
        match self {
            Self::Configured => (Transport::Stdio, setup.principal.clone().into()),
            Self::Bearers(_) => (Transport::Http, serve_http::principal_source()),
            Self::Peers(_) => (
                Transport::Stdio,
                broker::principal_source(setup.principal.clone()),
            ),
        }
    }

    /// Those who are known.
    fn list(&self, setup: &Setup) -> Vec<Principal> {
        match self {
            Self::Configured => vec![setup.principal.clone()],
            Self::Bearers(principals) => principals.iter().cloned().collect(),
            Self::Peers(principals) => {
                let configured = std::iter::once(&setup.principal);
                principals.iter().chain(configured).cloned().collect()
            }
        }
    }
}

/// What the command line asks for, and what holds for each.
fn databases(arguments: &ServeArguments) -> Result<Vec<(Setup, Database)>, Failure> {
    let ServeArguments {
        sources,
        in_memory,
        schema,
        writable,
        read_only: _,
        http: _,
        tools: _,
        secret,
        policies,
        audit,
    } = arguments;
    if *in_memory {
        let alone = Setup::in_memory(schema.as_deref(), secret, policies, Some(audit))?;
        return Ok(vec![alone]);
    }
    let mut sources = sources
        .iter()
        .map(|source| Source::argument(source))
        .collect::<Result<Vec<_>, _>>()?;
    if sources.is_empty() && policies.config.is_none() {
        sources.extend(source_of_environment()?);
    }
    let names: Vec<String> = sources
        .iter()
        .filter_map(|source| match source {
            Source::Connection(name) => Some(name.clone()),
            Source::Sqlite(_) | Source::Server(_, _) => None,
        })
        .collect();
    if sources.is_empty() && policies.config.is_none() {
        return Err(Failure::Usage(
            "there is no database to serve\n  help: name a `<DATABASE>`, for example `sqlite:demo.db`, there or in `PALISADE_DATABASE`, or `--config FILE` with connections, or `--in-memory`"
                .to_owned(),
        ));
    }
    if names.len() == sources.len() {
        if *writable {
            return Err(Failure::Usage(
                "`--writable` is for a database that the command line names\n  help: write `writable = true` at each connection of the configuration that may be changed"
                    .to_owned(),
            ));
        }
        return Setup::connections(&names, secret, policies, Some(audit));
    }
    match (sources.pop(), sources.is_empty()) {
        (Some(source), true) => Ok(vec![Setup::over(source, secret, policies, Some(audit))?]),
        (_, _) => Err(Failure::Usage(
            "several databases are connections of a configuration, which says what holds for each\n  help: `palisade serve connection:NAME connection:NAME --config FILE`"
                .to_owned(),
        )),
    }
}

/// The environment variable that names a database where neither the command line nor a configuration does.
const DATABASE: &str = "PALISADE_DATABASE";

/// The database that the environment names.
fn source_of_environment() -> Result<Option<Source>, Failure> {
    let Some(text) = std::env::var_os(DATABASE).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let text = text
        .into_string()
        .map_err(|_| "it is not Unicode".to_owned());
    let source = text.and_then(|text| Source::parse(&text));
    source
        .map(Some)
        .map_err(|why| Failure::Usage(format!("the variable `{DATABASE}`: {why}")))
}

/// A gate, open, and what the server needs to know of it.
type Gate = (Arc<Guard>, ServeOptions);

/// A database that is opened behind the start, and when an agent asks for it where it cannot be reached before.
fn open_behind(
    (setup, database, access): (Setup, Database, Access),
    (runtime, askers): (&Handle, &Askers),
    served: &Served,
    start: &Start,
) -> LateConnection {
    let name = setup.name_of(&database);
    let late = LateConnection::new(name.clone(), database.dialect(), &setup.limits, {
        let (setup, database, askers) = (setup.clone(), database.clone(), askers.clone());
        let (runtime, served, start) = (runtime.clone(), served.clone(), start.clone());
        let was_tried = AtomicBool::new(false);
        move || {
            let open = |setup: &Setup| {
                let by = (Driver::Other(&runtime), &askers);
                gate(setup, &database, access, by, &served)
            };
            if !was_tried.swap(true, Ordering::Relaxed) {
                return open(&setup)
                    .map_err(|failure| start.note(&name, failure))
                    .ok();
            }
            // Long after the start, what it said may have been tightened.
            (served.renew(&setup).and_then(|setup| open(&setup)))
                .inspect_err(|failure| {
                    tracing::error!(connection = name, "still not served: {failure}");
                })
                .ok()
        }
    });
    let (transport, principal) = askers.source(&setup);
    let late = late.recording(setup.audit_sink(), principal, transport);
    let late = match database.engine() {
        Some(engine) => late.with_engine(engine),
        None => late,
    };
    match access {
        Access::Write => late.writable(),
        Access::Read if setup.policies.decide_tools() || setup.expects_history => late,
        Access::Read => late.with_fixed_tools(),
    }
}

/// Taken while a store of requests is opened.
static STORES: Mutex<()> = Mutex::new(());

/// Opens a database. As long as the runtime of `driver` runs, its policies and its schema are watched.
fn gate(
    setup: &Setup,
    database: &Database,
    access: Access,
    (driver, askers): (Driver<'_>, &Askers),
    served: &Served,
) -> Result<Gate, Failure> {
    let name = setup.name_of(database);
    let guard = guard_by_candidates(setup, database, access, driver, &name)?;
    let guard = match &setup.budgets {
        Some(budgets) => guard.with_budgets(Arc::clone(budgets)),
        None => guard,
    };
    let demands_approval = guard.firewall().policies().demands_approval();
    // Databases open side by side, and their requests wait in one file, which is made once.
    let opened = {
        let _alone = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        open_store(setup, &guard, access)?
    };
    let store = match opened {
        Some(store) => store,
        None if setup.approvals.page.is_some() && (demands_approval || access == Access::Write) => {
            return Err(Failure::Configuration(format!(
                "error: the page would show requests in memory, which nobody outside can approve\n  help: write {STATE_LINE}, with a folder that can be written"
            )));
        }
        None if setup.webhook.is_some() && (demands_approval || access == Access::Write) => {
            return Err(Failure::Configuration(format!(
                "error: the webhook would tell of requests in memory, which nobody outside can approve\n  help: write {STATE_LINE}, with a folder that can be written"
            )));
        }
        // Then only the person at the client can approve anything.
        None => {
            if demands_approval {
                tracing::warn!(
                    connection = name,
                    "requests for approval wait in memory, where `palisade approve` does not reach them; write {STATE_LINE}, with a folder that can be written"
                );
            }
            setup.approvals.open_in_memory()?
        }
    };
    let guard = keep_waiting(guard, store, setup);
    let principals = askers.list(setup);
    let may_change = |principal: &Principal| {
        let session = Session::new(principal.clone());
        guard.firewall().may_change(&session)
    };
    match access {
        Access::Write if principals.iter().any(may_change) => {
            tracing::info!(connection = name, "what policies permit can be changed");
        }
        Access::Write => tracing::warn!(
            connection = name,
            "it may be changed, and no policy permits a change to those who ask: `execute` is not offered"
        ),
        Access::Read => {}
    }
    if setup.is_starter {
        tracing::info!(
            connection = name,
            "no policies are named; the built-in starter policies decide (`palisade policy print-starter`)"
        );
    }
    for principal in &principals {
        for note in standing::describe(&guard.firewall(), principal)? {
            tracing::warn!(connection = name, "{note}");
        }
    }
    for warning in watch::list_warnings(guard.firewall().policies(), access) {
        tracing::warn!(connection = name, "{warning}");
    }
    for note in setup.describe_expected_without_column(guard.firewall().catalog()) {
        tracing::warn!(connection = name, "{note}");
    }
    if let Some(note) = untold_views::describe(&guard.firewall(), setup) {
        tracing::warn!(connection = name, "{note}");
    }
    let asking: BTreeSet<Principal> = principals.iter().cloned().collect();
    if let Some(note) = withheld_columns::describe(&guard.firewall(), &asking) {
        tracing::warn!(connection = name, "{note}");
    }
    match askers {
        Askers::Configured => {
            tracing::info!(principal = %setup.principal, database = name, "serving over standard input and output");
        }
        Askers::Peers(_) => {
            tracing::info!(database = name, "serving by the broker");
        }
        Askers::Bearers(_) => {
            tracing::info!(
                access_tokens_of = principals.len(),
                database = name,
                "serving over HTTP"
            );
        }
    }
    let guard = Arc::new(guard);
    let folders = served.add(setup.connection(), &guard, setup.policies.folder());
    match &setup.feed {
        Some(feed) => driver.spawn(watch::bundles(
            Arc::clone(&guard),
            (name.clone(), access),
            Arc::clone(feed),
        )),
        None => driver.spawn(watch::policies(
            Arc::clone(&guard),
            (name.clone(), access),
            setup.policies.clone(),
            folders,
        )),
    }
    driver.spawn(watch::schema(Arc::clone(&guard), name.clone(), asking));
    driver.spawn(watch::moments(
        Arc::clone(&guard),
        name.clone(),
        setup.heartbeat,
    ));
    if guard.shares_budgets() {
        driver.spawn(watch::budgets(Arc::clone(&guard), name.clone()));
    }
    let (transport, principal) = askers.source(setup);
    let options = ServeOptions::new(principal, name).over(transport);
    let options = match access {
        Access::Read => options,
        Access::Write => options.writable(),
    };
    Ok((guard, options))
}

/// The gate to a database. Where the newest bundle does not fit it, the bundle of before decides.
fn guard_by_candidates(
    setup: &Setup,
    database: &Database,
    access: Access,
    driver: Driver<'_>,
    name: &str,
) -> Result<Guard, Failure> {
    let Some(feed) = &setup.feed else {
        return guard(setup, database, access, driver);
    };
    let mut first = None;
    for pulled in feed.list_candidates() {
        let tried = setup.with_policies(pulled.policies.clone());
        match (guard(&tried, database, access, driver), &first) {
            (Ok(guard), None) => {
                feed.note_running(name, &pulled);
                return Ok(guard);
            }
            (Ok(guard), Some(failure)) => {
                let serial = pulled.origin.serial;
                tracing::error!(
                    connection = name,
                    serial,
                    "the newest bundle does not load; one that was in force before decides\n{failure}"
                );
                return Ok(guard);
            }
            (Err(failure @ Failure::Configuration(_)), _) => {
                first.get_or_insert(failure);
            }
            // Other policies mend nothing of it.
            (Err(failure), _) => return Err(first.unwrap_or(failure)),
        }
    }
    Err(first.unwrap_or_else(|| Failure::Internal("there is no bundle".to_owned())))
}

/// One database has no need of a name that can be chosen.
fn server(mut late: Vec<LateConnection>) -> Result<PalisadeServer, Failure> {
    match (late.pop(), late.is_empty()) {
        (Some(only), true) => Ok(PalisadeServer::over_late(only)),
        (last, _) => {
            let late = late.into_iter().chain(last);
            PalisadeServer::over_reachable([], late).map_err(|error| {
                Failure::Configuration(format!(
                    "error: {error}\n  help: `[connections.NAME]` in the configuration names each once"
                ))
            })
        }
    }
}

/// What a person reads who starts the server by hand, with the command that was given.
fn greet(command: impl Iterator<Item = String>) -> String {
    let mut words = command;
    let program = words.next().unwrap_or_else(|| "palisade".to_owned());
    let arguments: Vec<String> = words.collect();
    let entry = serde_json::json!({
        "mcpServers": {"palisade": {"command": program, "args": arguments}}
    });
    format!(
        "Waiting for an MCP client on standard input. A client starts this command itself.\n\
         Its configuration names the command, with paths as from the client's folder:\n\n  {entry}\n\n\
         Ctrl-D ends the server.\n"
    )
}

/// Logs to standard error: our own steps and, of the protocol and of drivers, only what goes wrong; their finer
/// levels hold statements, answers, and what a database server has to say.
pub(crate) fn log() {
    let levels = Targets::new()
        .with_default(LevelFilter::WARN)
        // It warns of each error that it answers, with all of it.
        .with_target("rmcp::service", LevelFilter::ERROR)
        .with_target("palisade", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // Fails only if there is one already, which then logs.
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(levels))
        .try_init();
}
