//! Where queries are decided: on the thread that reads messages, or aside.

use std::thread::{self, ThreadId};

use super::*;

/// On which thread each record was kept.
#[derive(Clone)]
struct Threads {
    kept: Arc<Mutex<Vec<ThreadId>>>,
    at_once: bool,
}

impl AuditSink for Threads {
    fn record(&self, _: &AuditRecord) -> Result<(), String> {
        self.kept.lock().unwrap().push(thread::current().id());
        Ok(())
    }

    fn records_at_once(&self) -> bool {
        self.at_once
    }
}

/// How many of what `calls` recorded was recorded on this thread, which reads the messages.
async fn count_here(at_once: bool, in_place: bool, calls: &[(&str, Value)]) -> (usize, usize) {
    count_of(at_once, calls, |server| match in_place {
        true => server.with_queries_in_place(),
        false => server,
    })
    .await
}

/// The same of a server that was changed so.
async fn count_of(
    at_once: bool,
    calls: &[(&str, Value)],
    change: impl FnOnce(PalisadeServer) -> PalisadeServer,
) -> (usize, usize) {
    let threads = Threads {
        kept: Arc::default(),
        at_once,
    };
    let server = change(server_over(sqlite(), Arc::new(threads.clone())));
    let mut client = Client::connect(server);
    client.initialize().await;
    for (tool, arguments) in calls {
        client.call(tool, arguments.clone()).await;
    }
    let kept = threads.kept.lock().unwrap();
    let here = (kept.iter()).filter(|id| **id == thread::current().id());
    (here.count(), kept.len())
}

#[tokio::test]
async fn a_small_query_is_decided_where_messages_are_read() {
    let small = [("query", json!({"sql": "SELECT count(*) FROM customers"}))];
    assert_eq!(count_here(true, true, &small).await, (1, 1));
    assert_eq!(count_here(true, false, &small).await, (0, 1));
    // A record that waits for a disk would keep everybody waiting.
    assert_eq!(count_here(false, true, &small).await, (0, 1));
}

#[tokio::test]
async fn what_takes_long_is_decided_aside() {
    let long = format!(
        "SELECT count(*) FROM customers WHERE id IN ({}1)",
        "1, ".repeat(1_400)
    );
    let calls = [
        ("query", json!({"sql": long})),
        ("policy_test", json!({"sql": "SELECT 1"})),
        (
            "explain_query",
            json!({"sql": "SELECT count(*) FROM customers"}),
        ),
        ("describe_table", json!({"table": "customers"})),
    ];
    assert_eq!(count_here(true, true, &calls).await, (0, 4));
}

/// A first decision takes long in a build for tests, and then the second query is decided aside.
#[tokio::test]
async fn a_small_query_has_its_turn_where_several_clients_are_read() {
    let small = [("query", json!({"sql": "SELECT count(*) FROM customers"}))];
    let in_turn = |at_once| count_of(at_once, &small, PalisadeServer::with_queries_in_turn);
    assert_eq!(in_turn(true).await, (1, 1));
    assert_eq!(in_turn(false).await, (0, 1));
}
