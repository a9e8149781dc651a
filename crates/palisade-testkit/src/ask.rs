//! Statements that come to a backend as if the firewall had permitted them, and what holds for each backend.

#![allow(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a check that does not hold stops the test"
)]

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use palisade::{
    audit::{AuditRecord, AuditSink},
    catalog::Catalog,
    code::Code,
    danger,
    dialect::Dialect,
    firewall::Firewall,
    guard::{
        Backend, BackendError, BackendErrorKind, BackendFuture, Completion, GivenEstimates, Guard,
        Outcome, RowSink, Ticket,
    },
    session::{Principal, Session},
    value::{Params, Value},
};

use crate::{
    fixture::{policy_sources, require_permitted},
    host::Still,
    rows::Rows,
};

/// A statement and the backend that it is for.
pub trait Ask: Sync {
    /// Its text.
    fn text(&self) -> &str;

    /// Runs it and feeds its rows to `rows`.
    fn run_into(&self, rows: &mut Rows) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// All of its rows.
    fn run(&self) -> impl Future<Output = Result<Rows, BackendError>> + Send {
        async {
            let mut rows = Rows::all();
            self.run_into(&mut rows).await?;
            Ok(rows)
        }
    }

    /// Why it fails, which it must.
    fn fails(&self) -> impl Future<Output = BackendError> + Send {
        async {
            match self.run().await {
                Ok(_) => panic!("{} is answered", self.text()),
                Err(error) => error,
            }
        }
    }

    /// The only cell of its only row.
    fn cell(&self) -> impl Future<Output = Value> + Send {
        async {
            match self.run().await.as_ref().map(Rows::cell) {
                Ok(Some(cell)) => cell.clone(),
                Ok(None) => panic!("{} gives more or less than a cell", self.text()),
                Err(error) => panic!("{}: {error}", self.text()),
            }
        }
    }
}

/// Of six statements at a time that sleep for `each`, on a backend of two connections for which two may wait: two at a
/// time run, two wait, and two are told that too many do.
pub async fn two_run_and_two_wait(sleeping: &(impl Ask + Clone + Send + 'static), each: Duration) {
    let start = Instant::now();
    let running: Vec<_> = (0..6)
        .map(|_| {
            let sleeping = sleeping.clone();
            tokio::spawn(async move { sleeping.run().await.map(drop) })
        })
        .collect();
    let mut refused = 0;
    for task in running {
        match task.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                assert_eq!(error.kind, BackendErrorKind::Busy);
                assert!(error.detail.contains("too many"), "{error}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(refused, 2);
    assert!(start.elapsed() >= each * 2);
}

/// A backend opened to read refuses a change of one row and a definition. A backend opened to write runs them.
/// `contents` prints the database.
pub async fn only_what_is_opened_for_writing_is_written<B: Backend>(
    reader: &B,
    writer: &B,
    [change, definition]: [&str; 2],
    contents: impl Fn() -> String,
) {
    let before = contents();
    for sql in [change, definition] {
        let statement = require_permitted(reader.catalog(), sql);
        match reader
            .execute(danger::ticket(&statement), &mut Rows::all())
            .await
        {
            Ok(_) => panic!("{sql} is done"),
            Err(error) => assert_eq!(error.kind, BackendErrorKind::ReadOnly, "{sql}"),
        }
    }
    assert_eq!(contents(), before);
    for (sql, affected) in [(change, Some(1)), (definition, None)] {
        let statement = require_permitted(writer.catalog(), sql);
        match writer
            .execute(danger::ticket(&statement), &mut Rows::all())
            .await
        {
            Ok(done) => assert_eq!(done.affected, affected, "{sql}"),
            Err(error) => panic!("{sql}: {error}"),
        }
    }
}

/// Records: the code and the incident.
#[derive(Default)]
struct Kept(Mutex<Vec<(Option<Code>, Option<String>)>>);

impl AuditSink for Kept {
    fn record(&self, record: &AuditRecord) -> Result<(), String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((record.code, record.incident.clone()));
        Ok(())
    }
}

/// A backend that can take every decision for a decision that permits nothing.
pub trait Misled: Backend {
    /// Runs the statement of `ticket` as if nothing had been decided about what it reads and writes.
    fn execute_misled(
        &self,
        ticket: Ticket,
        sink: &mut (dyn RowSink + Send),
    ) -> impl Future<Output = Result<Completion, BackendError>> + Send;
}

/// A backend that takes every decision for a decision that permits nothing.
struct Planted<B>(B);

impl<B: Misled> Backend for Planted<B> {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    fn catalog(&self) -> &Catalog {
        self.0.catalog()
    }

    fn is_current(&self) -> BackendFuture<'_, bool> {
        self.0.is_current()
    }

    fn refreshed(&self) -> BackendFuture<'_, Option<Arc<dyn Backend>>> {
        self.0.refreshed()
    }

    fn gives_estimates(&self) -> GivenEstimates {
        self.0.gives_estimates()
    }

    fn execute<'a>(
        &'a self,
        ticket: Ticket,
        sink: &'a mut (dyn RowSink + Send),
    ) -> BackendFuture<'a, Completion> {
        Box::pin(self.0.execute_misled(ticket, sink))
    }
}

/// `backend` gets less of each decision than was decided, as if the decision were wrong. The engine's own check refuses
/// each of `statements`. The agent learns no reason, and the record has the incident. `contents` prints the database.
pub async fn wrong_decisions_are_incidents<B: Misled>(
    backend: B,
    statements: &[&str],
    contents: impl Fn() -> String,
) {
    let planted = Planted(backend);
    let sources = policy_sources("permit(principal, action, resource);");
    let firewall = Firewall::builder(planted.catalog().clone(), sources)
        .allow_changes()
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    let kept = Arc::new(Kept::default());
    let guard = Guard::new(Arc::new(firewall), planted, Arc::new(Still), kept.clone());
    let session = Session::new(Principal::new("Agent", "a"));
    let before = contents();
    for sql in statements {
        let outcome = guard.execute(sql, &Params::None, &session).await;
        let Outcome::Rejected(refusal) = outcome else {
            panic!("{sql} is answered");
        };
        let detail = refusal.rejection.operator_detail().unwrap_or_default();
        assert_eq!(refusal.rejection.code(), Code::Internal, "{sql}: {detail}");
        assert!(!detail.is_empty(), "{sql}");
        let told = serde_json::to_string(&refusal.rejection.for_agent()).unwrap_or_default();
        assert!(!told.contains(detail), "{sql}: {told}");
        let last = kept.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        assert!(refusal.incident.is_some(), "{sql}");
        assert_eq!(
            last,
            Some((Some(Code::Internal), refusal.incident)),
            "{sql}"
        );
    }
    assert_eq!(contents(), before);
}
