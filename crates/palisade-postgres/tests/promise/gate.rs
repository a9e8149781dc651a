//! A database behind a gate, and what an agent gets from it.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use palisade::{
    audit::NoAudit,
    firewall::{Decision, Firewall},
    guard::Guard,
    host::Host,
    limits::Limits,
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::servers::{PostgresServer, Server};

/// Everything may be read, `see` included.
pub(crate) const EVERYTHING: &str = "permit(principal, action, resource);";

/// A database and a gate over it.
pub(crate) struct Stand {
    pub(crate) guard: Guard,
    server: &'static Server,
    database: String,
}

impl Stand {
    /// A new database that `scripts` fill, behind `policies`.
    pub(crate) async fn new(label: &str, scripts: &[&str], policies: &str) -> Self {
        let server: &Server = PostgresServer::start_shared().unwrap();
        let database = server.fresh_database(label).unwrap();
        let mut script = scripts.join("\n");
        write!(
            script,
            "\nCREATE ROLE agent_{database} LOGIN;
             GRANT SELECT ON ALL TABLES IN SCHEMA public TO agent_{database};"
        )
        .unwrap();
        server.load(&database, &script).unwrap().clean().unwrap();
        let url = server.url_as(&format!("agent_{database}"), &database);
        let config = PostgresConfig::from_url(&url).unwrap();
        let backend = PostgresBackend::connect(config).await.unwrap();
        let sources = PolicySources::from_cedar("test.cedar", policies);
        let firewall = Firewall::builder(backend.catalog().clone(), sources)
            .limits(Limits {
                statement_timeout_ms: 20_000,
                max_failures: u32::MAX,
                ..Limits::default()
            })
            .build()
            .unwrap();
        let guard = Guard::new(
            Arc::new(firewall),
            backend,
            Arc::new(Still),
            Arc::new(NoAudit),
        );
        Self {
            guard,
            server,
            database,
        }
    }

    /// What an agent gets: the envelope or the refusal, rows in a fixed order, for theirs is no part of
    /// the promise.
    pub(crate) async fn answer(&self, sql: &str, params: &Params) -> serde_json::Value {
        let mut answer = match self
            .guard
            .query(sql, params, &session())
            .await
            .into_result()
        {
            Ok(envelope) => serde_json::to_value(&envelope).unwrap(),
            Err(refusal) => serde_json::to_value(refusal.rejection.for_agent()).unwrap(),
        };
        if let Some(rows) = answer.get_mut("rows").and_then(|rows| rows.as_array_mut()) {
            rows.sort_by_key(ToString::to_string);
        }
        answer
    }

    /// The text that would be run, or why none is.
    pub(crate) fn rewritten(&self, sql: &str, params: &Params) -> Result<String, String> {
        let firewall = self.guard.firewall();
        match firewall.check(sql, params, &session()).unwrap() {
            Decision::Allow(statement) => Ok(palisade::danger::parts(&statement).sql.to_owned()),
            Decision::Reject(why) => Err(why.to_string()),
        }
    }

    /// What the server says to `sql` without a gate.
    pub(crate) fn bare(&self, sql: &str) -> Result<String, String> {
        self.server
            .query(&self.database, sql)
            .map_err(|error| error.to_string())
    }
}

/// Whether an answer has rows, that is: whether the statement was permitted and ran.
pub(crate) fn ran(answer: &serde_json::Value) -> bool {
    answer.get("rows").is_some()
}

fn session() -> Session {
    Session::new(Principal::new("Agent", "a"))
}

/// A clock that stands still and chance that does not vary: the same input gives the same bytes.
struct Still;

impl Host for Still {
    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}
