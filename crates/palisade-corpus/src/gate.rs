//! Cases over databases that are not the runner's own.

use std::sync::Arc;

use palisade::{
    audit::NoAudit,
    catalog::Catalog,
    firewall::Firewall,
    guard::{Backend, Guard, Outcome},
    session::Session,
};

use crate::{
    case::{Case, Verdict},
    host::StillHost,
    load::Corpus,
};

impl Corpus {
    /// The accepted cases over `catalog`.
    pub fn accepted(&self, catalog: &str) -> impl Iterator<Item = &Case> {
        self.cases
            .iter()
            .filter(move |case| case.catalog == catalog && case.expect.verdict == Verdict::Allow)
    }

    /// Runs `case`, whether it reads or changes anything, through a gate over `backend`, whose catalog is
    /// `catalog`; how many rows it changed.
    ///
    /// # Errors
    /// The code of the refusal, and what the operator is told.
    pub async fn run_on<B: Backend>(
        &self,
        case: &Case,
        backend: B,
        catalog: Catalog,
    ) -> Result<Option<u64>, String> {
        let sources = self
            .policies
            .get(&case.policies)
            .ok_or_else(|| format!("there are no policies `{}`", case.policies))?;
        let firewall = Firewall::builder(catalog, sources.clone())
            .build()
            .map_err(|error| error.to_string())?;
        let guard = Guard::new(
            Arc::new(firewall),
            backend,
            Arc::new(StillHost),
            Arc::new(NoAudit),
        );
        let session = Session::new(case.principal.clone());
        let (outcome, report) = guard
            .execute_within(&case.sql, &case.params, &session, &case.limits)
            .await;
        match outcome {
            Outcome::Rows(envelope) => Ok(envelope.affected_rows()),
            Outcome::Rejected(refusal) => Err(format!(
                "{:?} {} {}\n  {}",
                refusal.rejection.code(),
                refusal.rejection.message(),
                refusal.rejection.operator_detail().unwrap_or_default(),
                report.rewritten.unwrap_or_default()
            )),
        }
    }
}
