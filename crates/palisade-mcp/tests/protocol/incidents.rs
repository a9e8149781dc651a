//! What the operator's log has of a refusal whose reason the agent is not told.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use palisade::{
    audit::NoAudit,
    firewall::Firewall,
    guard::Guard,
    policy::{PolicyFile, PolicySources},
    session::Principal,
};
use palisade_mcp::{PalisadeServer, ServeOptions};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::servers::PostgresServer;
use serde_json::{Value, json};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
};

use crate::{Client, TestHost};

type Line = BTreeMap<&'static str, String>;

/// The lines of a log, with their levels. Clones are one.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Line>>>);

impl Log {
    /// The line that explains a refusal's incident.
    fn find(&self, refused: &Value) -> Line {
        let lines = self.0.lock().unwrap();
        let incident = refused["incident"].as_str();
        let incident = incident.unwrap_or_else(|| panic!("{refused}"));
        let code = refused["code"].as_str().unwrap();
        // The host of tests gives each the same id.
        let mut found = lines.iter().filter(|line| {
            let has = |key: &str, wanted: &str| line.get(key).is_some_and(|found| found == wanted);
            has("incident", incident) && has("code", code)
        });
        let line = found.next().cloned();
        line.unwrap_or_else(|| panic!("{refused} is not among {lines:?}"))
    }
}

struct Fields<'a>(&'a mut Line);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::from([("level", event.metadata().level().to_string())]);
        event.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }
}

/// A server whose account may read column `id` of table `t` alone and nothing of `g`, where policy permits all of them. Rows of `u` are
/// filtered.
async fn half_granted() -> PalisadeServer {
    let cluster = PostgresServer::start_shared().unwrap();
    let database = cluster.fresh_database("incidents").unwrap();
    let script = "CREATE TABLE t (id int PRIMARY KEY, b int); CREATE TABLE g (b int); \
         CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1); \
         CREATE ROLE reads_ids LOGIN NOINHERIT; GRANT SELECT (id) ON t TO reads_ids; GRANT SELECT ON u TO reads_ids; \
         ALTER ROLE reads_ids SET default_transaction_read_only = on;";
    cluster.query(&database, script).unwrap();
    let config = PostgresConfig::from_url(&cluster.url_as("reads_ids", &database)).unwrap();
    let backend = PostgresBackend::connect(config).await.unwrap();
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: "permit (principal, action, resource);
                forbid (principal, action == Action::\"see\", resource is row::public::u) when { resource.id == 9 };"
                .to_owned(),
        }],
        ..PolicySources::default()
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .build()
        .unwrap();
    let host = Arc::new(TestHost::default());
    let guard = Guard::new(Arc::new(firewall), backend, host, Arc::new(NoAudit));
    let options = ServeOptions::new(Principal::new("Agent", "default"), "test");
    PalisadeServer::new(Arc::new(guard), options)
}

/// The agent is told that the log explains an incident, and has the grant that is missing. So it must.
#[tokio::test]
async fn the_log_explains_each_incident() {
    let log = Log::default();
    let lines = log.clone().with_filter(LevelFilter::WARN);
    // The server runs on this test's thread.
    let logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
    let mut client = Client::connect(half_granted().await);
    client.initialize().await;
    let answered = client
        .call("query", json!({"sql": "SELECT id FROM t"}))
        .await;
    assert_eq!(answered["isError"], false, "{answered}");
    let refused = client
        .refused("query", json!({"sql": "SELECT b FROM g"}))
        .await;
    // What is not granted beside what is does not exist yet.
    let hidden = client
        .refused("query", json!({"sql": "SELECT b FROM t"}))
        .await;
    assert_eq!(hidden["code"], "name.unknown-column", "{hidden}");
    let mistaken = client
        .refused(
            "query",
            json!({"sql": "SELECT id FROM u WHERE 1 / (id - 1) > 0"}),
        )
        .await;
    client.stop().await;
    drop(logging);

    assert_eq!(refused["code"], "database.not-granted", "{refused}");
    assert!(!refused.to_string().contains("GRANT SELECT"), "{refused}");
    let line = log.find(&refused);
    assert_eq!(line["code"], "database.not-granted");
    assert_eq!(line["level"], "ERROR");
    let grant = "GRANT SELECT (\"b\") ON public.g TO \"reads_ids\";";
    assert!(line["detail"].ends_with(grant), "{line:?}");

    // Of an agent's own mistake: the engine's code, and no message.
    assert_eq!(mistaken["code"], "database.rejected", "{mistaken}");
    let told = mistaken["message"].as_str().unwrap();
    assert!(!told.contains("22012"), "{told}");
    let line = log.find(&mistaken);
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["detail"], "22012 a division by zero");
}
