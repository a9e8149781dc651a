//! One decision. A fault of the firewall, or a panic, is a finding about one statement, not the end of the run.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use palisade::{
    firewall::{Decision, Firewall},
    limits::Limits,
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::{Principal, Session},
    value::Params,
};

/// What the firewall said.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It may be run.
    Allow(Arc<RewrittenStatement>),
    /// It may not.
    Reject(Rejection),
    /// Nothing: an invariant of the firewall did not hold.
    Broken(String),
}

/// Decides about `sql` for an agent without attributes, under `limits` or the firewall's own.
pub(crate) fn decide(firewall: &Firewall, sql: &str, limits: Option<&Limits>) -> Verdict {
    let session = Session::new(Principal::new("Agent", "eval"));
    let limits = limits.unwrap_or(firewall.limits());
    // The firewall holds nothing but caches of finished values.
    let decision = panic::catch_unwind(AssertUnwindSafe(|| {
        firewall.check_within(sql, &Params::None, &session, limits)
    }));
    match decision {
        Ok(Ok(Decision::Allow(statement))) => Verdict::Allow(Arc::from(statement)),
        Ok(Ok(Decision::Reject(rejection))) => Verdict::Reject(rejection),
        Ok(Err(error)) => Verdict::Broken(error.to_string()),
        Err(_) => Verdict::Broken("the firewall panicked".to_owned()),
    }
}
