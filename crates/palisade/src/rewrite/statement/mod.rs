//! The statement that runs: what the rewriter gives, and a backend takes.

mod change_facts;
mod prepared;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

pub use change_facts::{ChangeFacts, ChangeKind};
pub use prepared::Prepared;

use self::change_facts::sets_null;
use crate::rewrite::{
    change::precheck::{Precheck, cascade_count::CascadeCount},
    output::text_facts::TextFacts,
};
use crate::{
    answer::ScanPlan,
    catalog::{Change, Companion},
    code::Code,
    dialect::Dialect,
    limits::{EstimateCaps, Limits},
    past::Label,
    policy::ApprovalDemand,
    rejection::Rejection,
    session::Principal,
    syntax::read_query,
    value::Value,
};

/// A statement that may be run exactly as printed. Only the rewriter makes one, from a permit taken
/// by value; it cannot be serialised or built from text.
///
/// ```compile_fail,E0451
/// use palisade::rewrite::RewrittenStatement;
/// fn forge(statement: RewrittenStatement) -> RewrittenStatement {
///     RewrittenStatement { params: Vec::new(), ..statement }
/// }
/// ```
///
/// ```compile_fail
/// fn serialisable<T: serde::Serialize>() {}
/// serialisable::<palisade::rewrite::RewrittenStatement>();
/// ```
#[derive(Debug)]
pub struct RewrittenStatement {
    prepared: Arc<Prepared>,
    params: Vec<Value>,
    prechecks: Vec<Precheck>,
    cascade_counts: Vec<CascadeCount>,
    /// Why policies refused it once the engine's estimates were known.
    estimate_refusal: OnceLock<Rejection>,
    /// Those of the plan, with the time that is left.
    limits: Limits,
}

/// What a statement does to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It reads.
    Read,
    /// It asks how the engine would find an answer, without finding it.
    Explain,
    /// It changes rows.
    Write,
    /// It changes the schema, or empties tables.
    Define,
    /// It drops, if that is there, what is not for who asks: it has no text, and is not run.
    Nothing,
}

impl Effect {
    /// Whether it leaves the database as it is by what it asks for: what drops, if it is there, what is not for who asks does not.
    #[must_use]
    pub fn only_reads(self) -> bool {
        match self {
            Self::Read | Self::Explain => true,
            Self::Write | Self::Define | Self::Nothing => false,
        }
    }
}

/// The label as of which a statement reads, and where it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastRead {
    /// As of what.
    pub label: Arc<Label>,
    /// What it reads.
    pub companions: Vec<Companion>,
}

impl RewrittenStatement {
    /// As of what it reads, unless it reads tables as they are by now. Its label has to be asked of the database once the rows are
    /// there ([`Backend::check_label`](crate::guard::Backend::check_label)): history may have been pruned meanwhile.
    #[must_use]
    pub fn past(&self) -> Option<&PastRead> {
        self.prepared.past.as_ref()
    }

    /// What it does to the database.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.prepared.effect
    }

    /// The most rows it may change; more must be undone. 0 for a query.
    #[must_use]
    pub fn max_affected(&self) -> u64 {
        self.prepared.max_affected
    }

    /// Where its body begins in its text, in bytes, if rows are changed in the WITH before it. That
    /// WITH has to stay the outermost (PostgreSQL). The number of rows of the body is not that of the rows changed.
    #[must_use]
    pub fn body_after_changes(&self) -> Option<usize> {
        self.prepared.body_after_changes
    }

    /// What each change in its text does, in the order in which they stand: those in a WITH first. Nothing of what reads, or
    /// changes the schema. It is told of the tree that this very text was read back as.
    #[must_use]
    pub fn change_facts(&self) -> &[ChangeFacts] {
        &self.prepared.change_facts
    }

    /// What its text is made of, told of the tree that this very text was read back as. It is known of queries and changes for
    /// MySQL and MariaDB, whose backend alone asks for it.
    #[must_use]
    pub fn text_facts(&self) -> Option<&TextFacts> {
        self.prepared.text_facts.as_ref()
    }

    /// What the engine's estimates may say at most, where they are to be looked at before it runs: never over what has
    /// masks or filters, of which an estimate would tell.
    #[must_use]
    pub fn estimate_caps(&self) -> Option<EstimateCaps> {
        self.prepared.estimate_caps
    }

    /// Whether policies have still to be asked, with the engine's estimates: never over what has masks or filters.
    #[must_use]
    pub fn awaits_estimate(&self) -> bool {
        self.prepared.reserved.is_some()
    }

    /// Asks policies once more with the engine's estimates; true if they let the statement run.
    pub(crate) fn admits(&self, cost: Option<f64>, rows: Option<f64>) -> bool {
        let Some(reserved) = &self.prepared.reserved else {
            return true;
        };
        match reserved.recheck_with_estimates(cost, rows) {
            Ok(()) => true,
            Err(rejection) => {
                let _ = self.estimate_refusal.set(rejection);
                false
            }
        }
    }

    /// Why policies did not let it run.
    pub(crate) fn estimate_refusal(&self) -> Option<&Rejection> {
        self.estimate_refusal.get()
    }

    /// Whether a function in it gives one value of many rows, so that all of them may have to be worked on before the
    /// first row comes out, whatever its limit.
    #[must_use]
    pub fn gathers(&self) -> bool {
        self.prepared.gathers
    }

    /// Whether failures of it are counted: the engine may fail on what a row filter hides, or by a plan for rows that it hides.
    #[must_use]
    pub fn counts_failures(&self) -> bool {
        self.prepared.counts_failures
    }

    /// Whether the engine may fail on what a row filter hides: what it says then is withheld.
    #[must_use]
    pub fn may_fail_over_filters(&self) -> bool {
        self.prepared.may_fail_over_filters
    }

    /// Whether it reads, and the principal may see all of what it reads: what the engine says of it tells nothing withheld.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.prepared.is_unrestricted
    }

    /// The (change, relation, column) triples, folded, that the engine may make while it runs this:
    /// with an empty column for inserting and deleting.
    #[must_use]
    pub fn engine_writes(&self) -> &BTreeSet<(Change, String, String)> {
        &self.prepared.engine_writes
    }

    /// The same, as the database calls relations and columns: foreign keys are in it, what triggers write is not.
    pub(crate) fn named_writes(&self) -> &BTreeSet<(Change, String, String)> {
        &self.prepared.named_writes
    }

    /// The triggers, or functions of triggers, folded, that the engine may run with it.
    #[must_use]
    pub fn engine_triggers(&self) -> &BTreeSet<String> {
        &self.prepared.engine_triggers
    }

    /// Whether an UPDATE in it sets the column called `column`, folded, to the literal NULL. Its text is read anew for that.
    pub(crate) fn sets_null(&self, column: &str, dialect: Dialect) -> bool {
        read_query(self.text(), dialect, &self.prepared.limits)
            .is_ok_and(|query| sets_null(&query, column, dialect))
    }

    /// Uids of every relation it reads, views and what stands below them included.
    #[must_use]
    pub fn relations(&self) -> &[String] {
        &self.prepared.relations
    }

    /// What it is made of beside the values of its parameters, if other values would not change that.
    pub(crate) fn prepared(&self) -> Option<&Arc<Prepared>> {
        self.prepared.looked_at.is_empty().then_some(&self.prepared)
    }

    /// For whom it was permitted.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.prepared.principal
    }

    /// The text to run, where nothing else has to be looked at: it reads what is there by now, and no estimate is waited for. Others have
    /// none but in the hands of a [`Backend`](crate::guard::Backend), which takes it from a
    /// [`Ticket`](crate::guard::Ticket), or by [`danger::parts`](crate::danger::parts).
    ///
    /// ```compile_fail,E0308
    /// fn run(statement: &palisade::rewrite::RewrittenStatement) -> &str {
    ///     statement.sql()
    /// }
    /// ```
    ///
    /// Nor are the queries that come before it at hand:
    ///
    /// ```compile_fail,E0624
    /// fn look(statement: &palisade::rewrite::RewrittenStatement) -> usize {
    ///     statement.prechecks().len()
    /// }
    /// ```
    #[must_use]
    pub fn sql(&self) -> Option<&str> {
        let reads = self.effect().only_reads();
        let waits =
            self.awaits_estimate() || self.estimate_caps().is_some() || self.past().is_some();
        (reads && !waits).then_some(self.text())
    }

    /// The text, whatever has to be done before it runs.
    pub(crate) fn text(&self) -> &str {
        &self.prepared.sql
    }

    /// The version of the catalog over which it was decided.
    pub(crate) fn catalog_version(&self) -> &str {
        &self.prepared.catalog_version
    }

    /// The values to bind, the first to `?1`.
    #[must_use]
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// Queries that must give no row before it.
    pub(crate) fn prechecks(&self) -> &[Precheck] {
        &self.prechecks
    }

    /// Queries for rows that foreign keys follow.
    pub(crate) fn cascade_counts(&self) -> &[CascadeCount] {
        &self.cascade_counts
    }

    /// How the answer must be scanned.
    #[must_use]
    pub fn scan_plan(&self) -> &ScanPlan {
        &self.prepared.scan_plan
    }

    /// The (relation, column) pairs, folded, that the engine may read while it runs this: the second
    /// lock. A relation that is read without any column stands with an empty column name, on SQLite a derived
    /// table by its alias with [`ANY_COLUMN`].
    #[must_use]
    pub fn engine_reads(&self) -> &BTreeSet<(String, String)> {
        self.prepared.engine_reads.pairs()
    }

    /// The functions, folded, that the engine may call while it runs this.
    #[must_use]
    pub fn engine_functions(&self) -> &BTreeSet<String> {
        &self.prepared.engine_functions
    }

    /// The limits of time, rows and bytes under which it runs.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes off what of its time is `spent` already.
    ///
    /// # Errors
    /// `limit.time` if nothing is left.
    pub(crate) fn spend_time(&mut self, spent: Duration) -> Result<(), Rejection> {
        let spent = u64::try_from(spent.as_millis()).unwrap_or(u64::MAX);
        let left = self
            .prepared
            .limits
            .statement_timeout_ms
            .saturating_sub(spent);
        // The engine answers a statement without time that its time is up.
        if left == 0 && spent > 0 {
            return Err(Rejection::new(
                Code::LimitTime,
                "to decide about the statement took all of its time",
            ));
        }
        self.limits.statement_timeout_ms = left;
        Ok(())
    }

    /// Ids of the policies that determined the permit; the operator's.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        &self.prepared.policies
    }

    /// The approval without which it must not run. No statement with one leaves the firewall but to the gate.
    pub(crate) fn approval(&self) -> Option<&ApprovalDemand> {
        self.prepared.approval.as_ref()
    }

    /// What the permit obliges to, by name: `filter main.tickets`, `mask main.customers.email`, `max-rows 100`. The operator's.
    #[must_use]
    pub fn obligations(&self) -> &[String] {
        &self.prepared.obligations
    }

    /// For each relation with obligations, its uid and what stands in its place; the operator's.
    #[must_use]
    pub fn sources(&self) -> &[(String, Arc<str>)] {
        &self.prepared.sources
    }
}
