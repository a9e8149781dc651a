//! The work that a statement may take, in steps.
//!
//! A step is an expression looked at. A name that stands for an expression of a derived table, a view or an alias counts
//! as many steps as that has. Engines put the expression in the place of its name, so that a short text can become one of any
//! length (`WITH a AS (SELECT x + x AS x FROM t), b AS (SELECT x + x AS x FROM a), …`). A
//! query over a set operation counts once for each arm, for SQLite and PostgreSQL read it so.

use super::{
    Resolver,
    scope::{Output, Scope},
};
use crate::{code::Code, rejection::Rejection};

/// What a mask has, about, where it stands for its column.
pub(super) const MASK: u64 = 16;

/// Steps that a term of a window counts for each window after it.
const WINDOW: usize = 4;

/// Steps that one of a query over a set operation counts for each arm but the first: engines plan each.
const ARM: u64 = 4;

/// Sources that a name is looked for in within one step.
const SOURCES: usize = 8;

impl Resolver<'_> {
    /// Counts `steps` against the limit.
    ///
    /// # Errors
    /// `limit.work` if there are no more.
    pub(super) fn spend(&mut self, steps: u64) -> Result<(), Rejection> {
        self.work.steps = self.work.steps.saturating_add(steps);
        if self.work.steps > self.limits.max_steps {
            return Err(Rejection::new(
                Code::LimitWork,
                format!(
                    "reading the statement takes more than {} steps: lists are too long, or expressions stand for each other too often",
                    self.limits.max_steps
                ),
            ));
        }
        Ok(())
    }

    /// Counts `count` things that are looked at one by one.
    pub(super) fn spend_on(&mut self, count: usize) -> Result<(), Rejection> {
        self.spend(u64::try_from(count).unwrap_or(u64::MAX))
    }

    /// Counts the search for a name among so many sources.
    pub(super) fn spend_on_search(&mut self, sources: usize) -> Result<(), Rejection> {
        self.spend_on(sources / SOURCES)
    }

    /// Counts what a star lists.
    pub(super) fn spend_on_star(&mut self, outputs: &[Output]) -> Result<(), Rejection> {
        let sizes = outputs.iter().map(|output| output.lineage.size);
        self.spend(sizes.fold(0, u64::saturating_add))?;
        self.spend_on(outputs.len())
    }

    /// Counts what was read since `before`, once for each further reading.
    pub(super) fn spend_again(&mut self, before: u64, readings: u64) -> Result<(), Rejection> {
        let own = self.work.steps.saturating_sub(before);
        let again = readings.saturating_sub(1).saturating_mul(ARM);
        self.spend(own.saturating_mul(again))
    }

    /// Counts how often a query is read over the source that was read last.
    pub(super) fn count_readings(&self, scope: &mut Scope<'_, '_>) {
        let more = self.work.arms.saturating_sub(1);
        scope.readings = scope.readings.saturating_add(more);
    }

    /// Refuses a list of more terms than the limit: engines compare each with all before it.
    ///
    /// # Errors
    /// `limit.work`.
    pub(super) fn bound_terms(&self, terms: usize, of: &str) -> Result<(), Rejection> {
        if terms <= self.limits.max_terms {
            return Ok(());
        }
        Err(Rejection::new(
            Code::LimitWork,
            format!(
                "{of} {terms} terms; the limit is {}: name each column once, and number rows by a key in a query below",
                self.limits.max_terms
            ),
        ))
    }

    /// Counts a window with so many terms among those of its SELECT, which an engine brings together.
    ///
    /// # Errors
    /// `limit.work`.
    pub(super) fn count_window(&mut self, terms: usize) -> Result<(), Rejection> {
        self.work.window_terms = self
            .work
            .window_terms
            .saturating_add(terms.saturating_add(1));
        self.bound_terms(
            self.work.window_terms,
            "the windows of a SELECT have, counted with themselves,",
        )?;
        // SQLite makes a subquery of each, and brings what stands in all others into it.
        self.spend_on(self.work.window_terms.saturating_mul(WINDOW))
    }
}
