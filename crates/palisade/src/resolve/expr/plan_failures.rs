//! Where it would be noticed that an expression has no value for some row.
//!
//! An expression fails on some rows, and the plan decides on which rows it is evaluated: a join whose one side is empty never
//! looks at the other. The planner chooses by statistics of every row of a table, those that a filter hides included. So a
//! statement that combines several row sources and may fail anywhere below its answer tells of hidden rows, by failing or not,
//! unless every filtered source is fenced.

use std::collections::BTreeSet;

use sqlparser::ast::{Expr, Function, FunctionArguments};

use crate::resolve::{
    Resolver,
    expr::constant_form::is_count,
    scope::{Origin, Output, Scope},
};
use crate::{
    catalog::{ClassSet, ColumnId, TypeClass},
    dialect::Dialect,
    lineage::Lineage,
    rejection::Rejection,
};

/// On which rows the expression that is being read is evaluated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RowChoice {
    /// On rows that the plan chooses.
    #[default]
    Planned,
    /// On the rows of the answer, or on those that are changed: the same ones by every plan.
    Answered,
    /// On rows of a change's target that meet its write filter and every condition that cannot fail, by every plan.
    Filtered,
    /// As [`Answered`](Self::Answered), unless another clause uses the output or term before the rows are joined.
    Output,
}

/// What is known so far of expressions that may fail.
#[derive(Debug, Default)]
pub(in crate::resolve) struct PlanFailures {
    /// Whether one may, on rows that the plan chooses.
    pub(in crate::resolve) planned: bool,
    /// Row sources so far: tables, functions, VALUES and the like, wherever they stand.
    pub(in crate::resolve) sources: usize,
    /// Whether a query inside of the statement takes some of its rows alone: which of them are computed is the plan's choice.
    pub(in crate::resolve) has_limit_inside: bool,
    rows: RowChoice,
    /// Whether the outermost SELECT is being read, and none inside of it.
    outermost: bool,
    /// Whether the next SELECT is the outermost one.
    awaits_outermost: bool,
    /// Whether the term that is being read may fail.
    term_fails: bool,
    /// Whether it has an aggregate or a window, and so is evaluated after rows are joined.
    over_rows: bool,
    /// Positions of the outermost SELECT's outputs that may fail before rows are joined.
    outputs: BTreeSet<usize>,
    /// Those that may fail anywhere.
    failing_outputs: BTreeSet<usize>,
    /// Common table expressions that were read from so far.
    ctes: BTreeSet<String>,
    /// Whether an expression that fails for some value was read since this was last set, on whatever rows.
    found: bool,
    /// Whether one was read in a query inside of the statement.
    found_inside: bool,
    /// Whether the statement stores what it reads: MySQL then takes much for a failure that is a warning elsewhere.
    pub(in crate::resolve) stores: bool,
    /// Whether the statement names a collation: its texts may then have several.
    pub(in crate::resolve) names_collation: bool,
}

/// What [`PlanFailures`] held outside of a query.
#[derive(Debug)]
pub(in crate::resolve) struct Outside {
    rows: RowChoice,
    outermost: bool,
    term_fails: bool,
    over_rows: bool,
    outputs: BTreeSet<usize>,
    failing_outputs: BTreeSet<usize>,
}

impl PlanFailures {
    /// For our own output, which has its fences already.
    pub(in crate::resolve) fn unchecked() -> Self {
        Self {
            planned: true,
            ..Self::default()
        }
    }

    /// Whether the statement fails or not by what the plan evaluates.
    pub(in crate::resolve) fn depend_on_plan(&self) -> bool {
        self.planned && (self.sources > 1 || self.has_limit_inside)
    }

    /// That an expression which may fail was met.
    fn note(&mut self) {
        match self.rows {
            RowChoice::Planned => self.planned = true,
            RowChoice::Answered | RowChoice::Filtered => {}
            RowChoice::Output => self.term_fails = true,
        }
    }

    /// That a common table expression is read: the first time it is one with its own sources.
    pub(in crate::resolve) fn read_cte(&mut self, key: &str) {
        if !self.ctes.insert(key.to_owned()) {
            self.sources += 1;
        }
    }

    /// That the next SELECT is the outermost one.
    pub(in crate::resolve) fn await_outermost(&mut self) {
        self.awaits_outermost = true;
    }

    /// Begins a SELECT.
    pub(in crate::resolve) fn begin_select(&mut self) {
        self.outermost = std::mem::take(&mut self.awaits_outermost);
    }

    /// Whether the SELECT that is being read is the outermost one.
    pub(in crate::resolve) fn is_outermost(&self) -> bool {
        self.outermost
    }

    /// Begins a query inside of what is being read.
    pub(in crate::resolve) fn enter_query(&mut self) -> Outside {
        Outside {
            rows: std::mem::take(&mut self.rows),
            outermost: std::mem::take(&mut self.outermost),
            term_fails: std::mem::take(&mut self.term_fails),
            over_rows: std::mem::take(&mut self.over_rows),
            outputs: std::mem::take(&mut self.outputs),
            failing_outputs: std::mem::take(&mut self.failing_outputs),
        }
    }

    /// Goes back to what stands around it.
    pub(in crate::resolve) fn leave_query(&mut self, outside: Outside) {
        let Outside {
            rows,
            outermost,
            term_fails,
            over_rows,
            outputs,
            failing_outputs,
        } = outside;
        self.rows = rows;
        self.outermost = outermost;
        self.term_fails = term_fails;
        self.over_rows = over_rows;
        self.outputs = outputs;
        self.failing_outputs = failing_outputs;
    }

    /// Whether rows of other sources are looked at, and not those of a change's target alone.
    pub(in crate::resolve) fn reads_sources(&self) -> bool {
        match self.rows {
            RowChoice::Filtered => false,
            RowChoice::Planned | RowChoice::Output | RowChoice::Answered => true,
        }
    }

    /// Whether an output may fail that is named by its alias. Of the queries around nothing is known.
    pub(in crate::resolve) fn fails_as_output(
        &self,
        position: impl FnOnce() -> Option<usize>,
    ) -> bool {
        let is_total = |at| !self.failing_outputs.contains(&at);
        !(self.outermost && position().is_some_and(is_total))
    }
}

impl<'a> Resolver<'a> {
    /// Reads with `read` what is evaluated on the rows of the answer, or on those that are changed, alone.
    pub(in crate::resolve) fn on_answered_rows<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let before = std::mem::replace(&mut self.failures.rows, RowChoice::Answered);
        let result = read(self);
        self.failures.rows = before;
        result
    }

    /// Reads with `read` the condition of a change whose target is filtered. MySQL's joins have conditions of their own, which
    /// the engine may look at later.
    pub(in crate::resolve) fn on_filtered_rows<T>(
        &mut self,
        is_joined: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let rows = match (self.catalog.dialect(), is_joined) {
            (Dialect::Mysql, true) => RowChoice::Planned,
            (Dialect::Mysql, false) | (Dialect::Sqlite | Dialect::Postgres, _) => {
                RowChoice::Filtered
            }
        };
        let before = std::mem::replace(&mut self.failures.rows, rows);
        let result = read(self);
        self.failures.rows = before;
        result
    }

    /// Reads an output or a term of the outermost SELECT with `read`; whether it may fail before rows are joined.
    fn watch<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<(T, bool), Rejection> {
        let before = std::mem::replace(&mut self.failures.rows, RowChoice::Output);
        self.failures.term_fails = false;
        self.failures.over_rows = false;
        let result = read(self);
        self.failures.rows = before;
        let fails = self.failures.term_fails && !self.failures.over_rows;
        Ok((result?, fails))
    }

    /// Reads the output at `position` with `read`.
    pub(in crate::resolve) fn watch_output<T>(
        &mut self,
        position: usize,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        if !self.failures.outermost {
            return read(self);
        }
        let before = std::mem::replace(&mut self.failures.found, false);
        let (result, fails) = self.watch(read)?;
        if fails {
            self.failures.outputs.insert(position);
        }
        if self.failures.found {
            self.failures.failing_outputs.insert(position);
        }
        self.failures.found |= before;
        Ok(result)
    }

    /// Reads a term of GROUP BY or ORDER BY with `read`: the engine may group or sort before it joins.
    pub(in crate::resolve) fn watch_term<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        if !self.failures.outermost {
            return read(self);
        }
        let (result, fails) = self.watch(read)?;
        self.failures.planned |= fails;
        Ok(result)
    }

    /// That a term of GROUP BY or ORDER BY is the output at `position`.
    pub(in crate::resolve) fn use_output(&mut self, position: usize) {
        self.failures.planned |= self.failures.outputs.contains(&position);
    }

    /// Notes whether `expr` may fail by itself: what it is made from is looked at where that is read.
    pub(in crate::resolve) fn note_failure(&mut self, expr: &Expr, scope: &Scope<'a, '_>) {
        let is_watched = match self.failures.rows {
            RowChoice::Planned | RowChoice::Output => !self.failures.planned,
            RowChoice::Answered | RowChoice::Filtered => false,
        };
        if is_watched && !self.is_total(expr, scope) {
            self.failures.note();
        }
        let is_inside = !self.failures.outermost;
        let is_new = !self.failures.found || (is_inside && !self.failures.found_inside);
        if !self.needs_fence && is_new && !self.never_fails(expr, scope) {
            self.failures.found = true;
            self.failures.found_inside |= is_inside;
        }
    }

    /// Reads a condition with `read`, and whether it has a value for every row, the filtered ones included, as far as what it is
    /// made of inside of the statement has.
    pub(in crate::resolve) fn within_condition<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<(T, bool), Rejection> {
        let before = std::mem::replace(&mut self.failures.found, false);
        let result = read(self)?;
        let fails = self.failures.found || self.failures.planned || self.failures.found_inside;
        self.failures.found |= before;
        Ok((result, !(fails || self.has_own_truths())))
    }

    /// Whether what stands as a condition may be made a truth by a cast that the database adds.
    pub(in crate::resolve) fn has_own_truths(&self) -> bool {
        let mut casts = self.catalog.casts().iter();
        casts.any(|cast| cast.implicit && cast.target.1 == "boolean")
    }

    /// Notes that values of the arms of a set operation, or of rows of VALUES, become of one type: PostgreSQL casts them, and may fail.
    /// Texts may get two collations, which shows where they are compared.
    pub(in crate::resolve) fn note_unified(&mut self, one: &Lineage, other: &Lineage) {
        if self.catalog.dialect() != Dialect::Postgres {
            return;
        }
        let [one, other] =
            [one, other].map(|lineage| self.origin_operand(&Origin::Derived(lineage)).classes());
        let both = one.union(other);
        let is_known = !one.is_empty() && !other.is_empty();
        let is_text = both.contains(TypeClass::Text) || both.contains(TypeClass::Padded);
        let is_alike = both.is_single() && (!is_text || self.has_one_collation());
        let is_exact = both.is_within(ClassSet::from_list(&[
            TypeClass::Integer,
            TypeClass::Decimal,
        ]));
        if !(is_known && (is_alike || is_exact)) {
            self.failures.found = true;
            self.failures.found_inside = true;
        }
        self.failures.planned |= both.is_rounded_as_one();
    }

    /// Reads the arguments of a call with `read`: those of an aggregate or a window are evaluated after rows are joined.
    pub(in crate::resolve) fn within_call<T>(
        &mut self,
        is_over_rows: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        if !is_over_rows || !self.failures.outermost {
            return read(self);
        }
        self.failures.over_rows = true;
        self.on_answered_rows(read)
    }

    /// Whether `call` looks at a group or window of rows, whatever the engine takes it for.
    pub(in crate::resolve) fn is_over_rows(&self, call: &Function) -> bool {
        if call.over.is_some() {
            return true;
        }
        let args = match &call.args {
            FunctionArguments::List(list) => Some(list.args.len()),
            FunctionArguments::None | FunctionArguments::Subquery(_) => None,
        };
        let Some(name) = call.name.0.last().and_then(|part| part.as_ident()) else {
            return false;
        };
        let key = self.key(name);
        let mut named = self.catalog.functions_named(&key).peekable();
        named.peek().is_some() && named.all(|def| def.kinds.is_over_rows(args))
    }

    /// Notes what bounds a query's rows: PostgreSQL fails on a bound below zero, when the first row is asked for. Every plan
    /// asks for the first row of the outermost query.
    pub(in crate::resolve) fn note_bounds<'e>(
        &mut self,
        bounds: impl IntoIterator<Item = &'e Expr>,
        is_outermost: bool,
    ) {
        if !is_outermost && !bounds.into_iter().all(is_count) {
            self.failures.planned = true;
        }
    }

    /// Notes that rows are grouped by `outputs`: PostgreSQL finds only when it compares that the parts of a value cannot be.
    pub(in crate::resolve) fn note_grouped<'o>(
        &mut self,
        outputs: impl IntoIterator<Item = &'o Output>,
    ) {
        for output in outputs {
            self.note_compared(&output.lineage.columns);
        }
    }

    /// As [`note_grouped`](Self::note_grouped), of what rows are grouped or sorted by.
    pub(in crate::resolve) fn note_compared(&mut self, columns: &[ColumnId]) {
        if self.failures.planned || self.catalog.dialect() != Dialect::Postgres {
            return;
        }
        self.failures.planned = columns.iter().any(|id| {
            let class = self.catalog.column(*id).map(|column| column.class);
            matches!(class, Some(TypeClass::Other | TypeClass::Json) | None)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_depend_on_the_plan_where_there_are_several_sources() {
        for (planned, sources, expected) in [(true, 2, true), (true, 1, false), (false, 2, false)] {
            let failures = PlanFailures {
                planned,
                sources,
                ..PlanFailures::default()
            };
            assert_eq!(failures.depend_on_plan(), expected);
        }
        let mut failures = PlanFailures::unchecked();
        for (key, sources) in [("a", 0), ("b", 0), ("a", 1), ("b", 2)] {
            failures.read_cte(key);
            assert_eq!(failures.sources, sources, "{key}");
        }
        assert!(failures.depend_on_plan());
    }

    #[test]
    fn what_may_fail_is_noted_by_where_it_is_evaluated() {
        for (rows, planned, term_fails) in [
            (RowChoice::Planned, true, false),
            (RowChoice::Answered, false, false),
            (RowChoice::Filtered, false, false),
            (RowChoice::Output, false, true),
        ] {
            let mut failures = PlanFailures {
                rows,
                ..PlanFailures::default()
            };
            failures.note();
            let found = (failures.planned, failures.term_fails);
            assert_eq!(found, (planned, term_fails), "{rows:?}");
        }
    }

    #[test]
    fn a_query_inside_begins_anew_and_leaves_what_was() {
        let mut failures = PlanFailures::default();
        failures.await_outermost();
        failures.begin_select();
        assert!(failures.is_outermost());
        failures.rows = RowChoice::Answered;
        failures.term_fails = true;
        failures.over_rows = true;
        failures.outputs.insert(3);
        let outside = failures.enter_query();
        failures.begin_select();
        assert!(!failures.is_outermost() && failures.rows == RowChoice::Planned);
        assert!(!failures.term_fails && !failures.over_rows && failures.outputs.is_empty());
        failures.leave_query(outside);
        assert!(failures.is_outermost() && failures.rows == RowChoice::Answered);
        assert!(failures.term_fails && failures.over_rows);
        assert!(failures.outputs.contains(&3));
    }
}
