//! Spans of calls and of their stages, as a subscriber of the embedding program sees them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock},
};

use palisade::{audit::NoAudit, guard::Guard, session::Principal};
use palisade_mcp::{PalisadeServer, ServeOptions};
use serde_json::json;
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use crate::{Client, HasFirewall as _, TestHost, sqlite};

/// A span that has begun.
#[derive(Debug, Clone, Default)]
struct Seen {
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
}

/// Every span of this process, by its id, in the order in which they began.
type All = Arc<Mutex<Vec<(u64, Seen)>>>;

struct Collect(All);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Collect {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context
            .span(id)
            .and_then(|span| Some(span.parent()?.id().into_u64()));
        let mut seen = Seen {
            name: attributes.metadata().name(),
            parent,
            ..Seen::default()
        };
        attributes.record(&mut Fields(&mut seen.fields));
        self.0.lock().unwrap().push((id.into_u64(), seen));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut all = self.0.lock().unwrap();
        // An id is given again once its span has ended.
        let found = all.iter_mut().rev().find(|(own, _)| *own == id.into_u64());
        values.record(&mut Fields(&mut found.unwrap().1.fields));
    }
}

/// What is seen from now on in this process.
fn subscribe() -> All {
    static ALL: OnceLock<All> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let all = All::default();
        let spans = Targets::new().with_target("palisade", tracing::Level::DEBUG);
        let layer = Collect(Arc::clone(&all)).with_filter(spans);
        tracing_subscriber::registry().with(layer).init();
        all
    });
    Arc::clone(all)
}

/// A server whose connection has a name of its own: other tests of this process are seen too.
fn server() -> PalisadeServer {
    let backend = sqlite();
    let (firewall, host) = (backend.firewall(), Arc::new(TestHost::default()));
    let guard = Guard::new(firewall, backend, host, Arc::new(NoAudit));
    let options = ServeOptions::new(Principal::new("Agent", "default"), "traced");
    PalisadeServer::new(Arc::new(guard), options)
}

/// The fields of the server's call that ended so, and the names of the spans in it, in order.
fn call_that(
    all: &[(u64, Seen)],
    outcome: &str,
) -> (BTreeMap<&'static str, String>, Vec<&'static str>) {
    let is_it = |seen: &Seen| {
        let is = |field: &str, value: &str| {
            seen.fields
                .get(field)
                .is_some_and(|own| own.trim_matches('"') == value)
        };
        seen.name == "call" && is("connection", "traced") && is("outcome", outcome)
    };
    let at = all.iter().position(|(_, seen)| is_it(seen));
    let at = at.unwrap_or_else(|| panic!("no call was {outcome} among {all:?}"));
    let (id, call) = &all[at];
    let inner = all[at..]
        .iter()
        .filter(|(_, seen)| seen.parent == Some(*id));
    (
        call.fields.clone(),
        inner.map(|(_, seen)| seen.name).collect(),
    )
}

#[tokio::test]
async fn a_subscriber_sees_the_stages_and_no_value() {
    let all = subscribe();
    let mut client = Client::connect(server());
    client.initialize().await;
    let sql = "SELECT id, name, 'geheim' AS g FROM customers WHERE name = ? OR name = 'Bob'";
    let answer = client
        .call("query", json!({"sql": sql, "params": ["Ada"]}))
        .await;
    assert_eq!(answer["isError"], false, "{answer}");
    let sql = "SELECT password FROM customers WHERE name = 'geheim'";
    client.refused("query", json!({"sql": sql})).await;
    client.stop().await;

    let all = all.lock().unwrap();
    let (answered, stages) = call_that(&all, "answered");
    assert_eq!(answered["principal"], "Agent::\"default\"");
    assert_eq!(answered["rows"], "2");
    assert!(answered["tool"].contains("query"));
    let expected = [
        "wait",
        "parse",
        "resolve",
        "authorize",
        "rewrite",
        "execute",
        "scan",
        "record",
    ];
    assert!(stages.starts_with(&expected), "{stages:?}");
    // What is refused goes no further.
    let (refused, stages) = call_that(&all, "refused");
    assert!(refused["code"].contains("name.unknown-column"));
    assert!(
        stages.starts_with(&["wait", "parse", "resolve"]),
        "{stages:?}"
    );
    assert!(!stages.contains(&"execute"), "{stages:?}");
    // Of all that ran in this process.
    const FIELDS: [&str; 7] = [
        "tool",
        "session",
        "connection",
        "principal",
        "outcome",
        "code",
        "rows",
    ];
    for (_, seen) in all.iter() {
        for (field, value) in &seen.fields {
            assert!(seen.name == "call" && FIELDS.contains(field), "{seen:?}");
            for secret in ["geheim", "Ada", "Bob", "SELECT", "customers", "pw-1"] {
                assert!(!value.contains(secret), "{seen:?}");
            }
        }
    }
}
