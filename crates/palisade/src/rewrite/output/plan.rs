//! What of a rewritten statement does not depend on the values of its parameters.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use crate::rewrite::{
    Effect, RewrittenStatement,
    change::precheck::{
        Found, Proviso,
        cascade_count::{Origin, Reach},
    },
    output::expected_access::Reads,
};
use crate::{
    catalog::Change,
    code::Code,
    limits::{EstimateCaps, Limits},
    policy::Reserved,
    rejection::Rejection,
    resolve::TokenParameter,
    scan::ScanPlan,
    session::Principal,
    value::{Params, Placeholder, Value},
};

/// A rewritten statement before values are bound to it. Only the rewriter makes one, from a permit; it
/// holds for whoever the permit was given to, and for nobody else.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(in crate::rewrite) principal: Principal,
    pub(in crate::rewrite) sql: String,
    /// The placeholders of the statement as it was written.
    pub(in crate::rewrite) used: BTreeSet<Placeholder>,
    /// What is bound, the first to the first parameter.
    pub(in crate::rewrite) bound: Vec<Bound>,
    /// What must give no row before it, with what is bound there.
    pub(in crate::rewrite) provisos: Vec<(Arc<str>, Vec<Bound>, Found)>,
    /// Queries for rows that foreign keys follow, with what is bound there.
    pub(in crate::rewrite) reaches: Vec<(Arc<str>, Vec<Bound>, Arc<Origin>)>,
    /// The parameters of which the value was looked at: with other values of these it might be another.
    pub(in crate::rewrite) looked_at: BTreeSet<Placeholder>,
    pub(in crate::rewrite) scan_plan: ScanPlan,
    pub(in crate::rewrite) engine_reads: Reads,
    pub(in crate::rewrite) engine_functions: BTreeSet<String>,
    pub(in crate::rewrite) effect: Effect,
    pub(in crate::rewrite) max_affected: u64,
    pub(in crate::rewrite) body_after_changes: Option<usize>,
    pub(in crate::rewrite) engine_writes: BTreeSet<(Change, String, String)>,
    pub(in crate::rewrite) engine_triggers: BTreeSet<String>,
    pub(in crate::rewrite) estimate_caps: Option<EstimateCaps>,
    /// What policies have to say of the engine's estimates, where those may be looked at.
    pub(in crate::rewrite) reserved: Option<Reserved>,
    pub(in crate::rewrite) gathers: bool,
    pub(in crate::rewrite) may_fail_over_filters: bool,
    pub(in crate::rewrite) limits: Limits,
    pub(in crate::rewrite) policies: Vec<String>,
    pub(in crate::rewrite) sources: Vec<(String, Arc<str>)>,
    pub(in crate::rewrite) relations: Vec<String>,
}

/// What a parameter of the statement that runs holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bound {
    /// A parameter of the statement as it was written.
    Agent(Placeholder),
    /// A key.
    Secret(String),
    /// A parameter that must be a token, without its tag.
    Token(TokenParameter),
}

impl Bound {
    /// The statement's own parameter in whose place it stands.
    pub(in crate::rewrite) fn replaced(&self) -> Option<&Placeholder> {
        match self {
            Self::Token(token) => Some(&token.placeholder),
            Self::Agent(_) | Self::Secret(_) => None,
        }
    }

    /// The value, of the statement's `params`.
    pub(in crate::rewrite) fn value(&self, params: &Params) -> Result<Value, Rejection> {
        let given = |placeholder| {
            params.lookup(placeholder).cloned().ok_or_else(|| {
                let message = "a parameter the statement uses is not given";
                Rejection::new(Code::ParameterMismatch, message)
            })
        };
        match self {
            Self::Agent(placeholder) => given(placeholder),
            Self::Secret(text) => Ok(Value::text(text.clone())),
            Self::Token(token) => token.bind(given(&token.placeholder)?),
        }
    }
}

impl Plan {
    /// The statement with these values.
    ///
    /// # Errors
    /// `parameter.mismatch` if they are not exactly those that the statement uses, `token.foreign` if one is no
    /// token where it must be one.
    pub(crate) fn bind(plan: &Arc<Self>, params: &Params) -> Result<RewrittenStatement, Rejection> {
        let mismatch = |message: String| Rejection::new(Code::ParameterMismatch, message);
        params.check(&plan.used).map_err(mismatch)?;
        let values = |bound: &[Bound]| -> Result<Vec<Value>, Rejection> {
            bound.iter().map(|bound| bound.value(params)).collect()
        };
        let provisos = plan.provisos.iter().map(|(sql, bound, found)| {
            let params = values(bound)?;
            Ok::<_, Rejection>(Proviso {
                sql: Arc::clone(sql),
                params,
                found: *found,
            })
        });
        let reaches = plan.reaches.iter().map(|(sql, bound, origin)| {
            let params = values(bound)?;
            Ok::<_, Rejection>(Reach {
                sql: Arc::clone(sql),
                params,
                origin: Arc::clone(origin),
            })
        });
        Ok(RewrittenStatement {
            params: values(&plan.bound)?,
            provisos: provisos.collect::<Result<_, _>>()?,
            reaches: reaches.collect::<Result<_, _>>()?,
            refused: OnceLock::new(),
            limits: plan.limits.clone(),
            plan: Arc::clone(plan),
        })
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        // Beside its text, a string takes its own size and a share of what holds it.
        const STRING: usize = 48;
        let texts = |texts: &mut dyn Iterator<Item = &String>| -> usize {
            texts.map(|text| STRING + text.len()).sum()
        };
        let columns = self.scan_plan.columns.iter();
        size_of::<Self>()
            + self.sql.len()
            + 2 * STRING
            + self.principal.kind().len()
            + self.principal.id().len()
            + self.reserved.as_ref().map_or(0, Reserved::bytes)
            + (self.used.len() + self.looked_at.len() + self.bound.len()) * 4 * STRING
            + (self.provisos.iter().map(|(sql, bound, _)| (sql, bound)))
                .chain(self.reaches.iter().map(|(sql, bound, _)| (sql, bound)))
                .map(|(sql, bound)| 3 * STRING + sql.len() + bound.len() * 4 * STRING)
                .sum::<usize>()
            + columns
                .map(|column| 3 * STRING + column.name.len() + column.type_name.len())
                .sum::<usize>()
            + self.engine_reads.bytes(2 * STRING)
            + self
                .sources
                .iter()
                .map(|(uid, _)| 2 * STRING + uid.len())
                .sum::<usize>()
            + texts(&mut self.engine_functions.iter())
            + texts(&mut self.engine_triggers.iter())
            + self
                .engine_writes
                .iter()
                .map(|(_, table, column)| 2 * STRING + table.len() + column.len())
                .sum::<usize>()
            + texts(&mut self.policies.iter())
            + texts(&mut self.relations.iter())
    }
}
