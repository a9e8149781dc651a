//! A rewritten statement whose plain literals may be others.

use std::sync::{Arc, OnceLock};

use crate::rewrite::{
    Effect, RewrittenStatement,
    change::precheck::{
        Found, Proviso,
        cascade_count::{Origin, Reach},
    },
    output::plan::{Bound, Plan},
};
use crate::{dialect::Dialect, syntax::Cut, value::Placeholder};

/// What was decided of a statement without a look at some of its literals, and so holds whatever they are.
///
/// It is made of the statement with parameters in their places. What runs holds literals there, as it does
/// when such a statement is decided by itself.
#[derive(Debug)]
pub(crate) struct Shaped {
    plan: Arc<Plan>,
    sql: Cut,
    provisos: Vec<(Cut, Found)>,
    reaches: Vec<(Cut, Arc<Origin>)>,
}

impl Shaped {
    /// What `with` parameters has in common with the same statement `without`, in which `literals` stand; none unless the texts
    /// differ in those alone, and everything else not at all.
    pub(crate) fn of(
        with: &RewrittenStatement,
        without: &RewrittenStatement,
        literals: &[&str],
        dialect: Dialect,
    ) -> Option<Self> {
        let (plan, other) = (&with.plan, &without.plan);
        if !plan.looked_at.is_empty()
            || !other.bound.is_empty()
            || !is_same(plan, other)
            || plan.provisos.len() != other.provisos.len()
            || plan.reaches.len() != other.reaches.len()
        {
            return None;
        }
        let cut = |sql: &str, bound: &[Bound], expected: &str| {
            let literal = |number: usize| match bound.get(number.checked_sub(1)?)? {
                Bound::Agent(Placeholder::Number(number)) => {
                    usize::try_from(number.checked_sub(1)?).ok()
                }
                Bound::Agent(Placeholder::Name(_)) | Bound::Secret(_) | Bound::Token(_) => None,
            };
            let cut = Cut::of(sql, dialect, literal)?;
            (cut.with(literals)? == expected).then_some(cut)
        };
        let provisos = plan.provisos.iter().zip(&other.provisos);
        let provisos = provisos.map(|((sql, bound, found), (expected, of_other, same))| {
            let cut = cut(sql, bound, expected)?;
            (found == same && of_other.is_empty()).then_some((cut, *found))
        });
        let reaches = plan.reaches.iter().zip(&other.reaches);
        let reaches = reaches.map(|((sql, bound, origin), (expected, of_other, same))| {
            let cut = cut(sql, bound, expected)?;
            (origin == same && of_other.is_empty()).then(|| (cut, Arc::clone(origin)))
        });
        Some(Self {
            sql: cut(&plan.sql, &plan.bound, &other.sql)?,
            provisos: provisos.collect::<Option<_>>()?,
            reaches: reaches.collect::<Option<_>>()?,
            plan: Arc::clone(plan),
        })
    }

    /// The statement with these literals, of the kinds that it was made with.
    pub(crate) fn with(&self, literals: &[&str]) -> Option<RewrittenStatement> {
        let provisos = self.provisos.iter().map(|(sql, found)| {
            Some(Proviso {
                sql: sql.with(literals)?.into(),
                params: Vec::new(),
                found: *found,
            })
        });
        let reaches = self.reaches.iter().map(|(sql, origin)| {
            Some(Reach {
                sql: sql.with(literals)?.into(),
                params: Vec::new(),
                origin: Arc::clone(origin),
            })
        });
        Some(RewrittenStatement {
            sql: Some(self.sql.with(literals)?),
            params: Vec::new(),
            provisos: provisos.collect::<Option<_>>()?,
            reaches: reaches.collect::<Option<_>>()?,
            refused: OnceLock::new(),
            limits: self.plan.limits.clone(),
            plan: Arc::clone(&self.plan),
        })
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let provisos = self.provisos.iter().map(|(sql, _)| sql.bytes());
        let reaches = self.reaches.iter().map(|(sql, _)| sql.bytes());
        self.plan.bytes() + self.sql.bytes() + provisos.chain(reaches).sum::<usize>()
    }
}

/// Whether the two are the same but for their texts and what is bound, and one of which the text alone matters.
pub(in crate::rewrite) fn is_same(one: &Plan, other: &Plan) -> bool {
    let Plan {
        principal,
        sql: _,
        used: _,
        bound: _,
        provisos: _,
        reaches: _,
        looked_at: _,
        scan_plan,
        engine_reads,
        engine_functions,
        effect,
        max_affected,
        body_after_changes,
        engine_writes,
        engine_triggers,
        estimate_caps,
        reserved,
        gathers,
        may_fail_over_filters,
        limits,
        policies,
        sources,
        relations,
    } = one;
    // A place in the text; and what is asked once more.
    body_after_changes.is_none()
        && other.body_after_changes.is_none()
        && reserved.is_none()
        && other.reserved.is_none()
        && matches!(effect, Effect::Read | Effect::Write)
        && *effect == other.effect
        && *principal == other.principal
        && *scan_plan == other.scan_plan
        && engine_reads.pairs() == other.engine_reads.pairs()
        && *engine_functions == other.engine_functions
        && *max_affected == other.max_affected
        && *engine_writes == other.engine_writes
        && *engine_triggers == other.engine_triggers
        && *estimate_caps == other.estimate_caps
        && *gathers == other.gathers
        && *may_fail_over_filters == other.may_fail_over_filters
        && *limits == other.limits
        && *policies == other.policies
        && *sources == other.sources
        && *relations == other.relations
}
