//! Definitions: nothing is rewritten. What would have to be is refused, since no mask or filter would
//! hold in what stays in the database.

use std::{collections::BTreeSet, sync::Arc};

use crate::rewrite::{
    Effect, Plan, RewrittenStatement,
    change::precheck::foreign_keys,
    needs_form, not_as_decided,
    output::{expected_access, expected_access::Reads},
};
use crate::{
    catalog::Catalog,
    code::Code,
    limits::Limits,
    policy::Permit,
    rejection::Rejection,
    resolve::{self, ResolvedDdl, Visible},
    scan::{EmptyReason, ScanPlan},
    syntax::{self, Outline, ParsedDefinition},
    value::Params,
};

/// The statement that `resolved` is, once `permit` is there.
///
/// # Errors
/// `obligation.inapplicable` where something in it is masked, hidden or filtered; `syntax.not-stable`;
/// `internal` if what was printed is not what was decided.
pub(crate) fn define(
    resolved: ResolvedDdl,
    permit: Permit,
    catalog: &Catalog,
    visible: &dyn Visible,
    limits: &Limits,
) -> Result<RewrittenStatement, Rejection> {
    if let Some(reserved) = permit.reserved() {
        // No engine estimates a definition.
        reserved.confirm(None, None)?;
    }
    if let Some((_, change)) = permit.kept_apart().iter().next() {
        return Err(foreign_keys::beyond(
            *change,
            "a definition looks for no rows",
        ));
    }
    // A permit is used once.
    let (principal, policies) = permit.spent();
    let ResolvedDdl {
        statement,
        references,
        access,
        does_nothing,
    } = resolved;
    if let Some(reference) = references.iter().find(|reference| needs_form(reference)) {
        let name = catalog
            .relation(reference.relation)
            .map_or("", |relation| relation.name.as_str());
        return Err(Rejection::new(
            Code::ObligationInapplicable,
            format!("`{name}` has masks or filters, which would not hold in a definition"),
        ));
    }
    let sql = if does_nothing {
        String::new()
    } else {
        let (sql, again) = syntax::print_definition(&statement, catalog.dialect(), limits)?;
        let parsed = ParsedDefinition {
            text: &sql,
            statement: again,
            outline: Outline::default(),
        };
        let check = resolve::resolve_ddl(parsed, catalog, visible, limits)
            .map_err(|inner| not_as_decided(&inner.to_string()))?;
        if check.access != access {
            return Err(not_as_decided(
                "it touches something else than was permitted",
            ));
        }
        sql
    };
    let plan = Plan {
        body_after_changes: None,
        principal,
        used: BTreeSet::new(),
        bound: Vec::new(),
        provisos: Vec::new(),
        reaches: Vec::new(),
        looked_at: BTreeSet::new(),
        scan_plan: ScanPlan {
            columns: Vec::new(),
            max_rows: limits.max_rows,
            max_result_bytes: limits.max_result_bytes,
            max_cell_bytes: limits.max_cell_bytes,
            if_empty: EmptyReason::NoMatch,
            tokens: Vec::new(),
        },
        engine_reads: Reads::default(),
        engine_functions: access.functions.clone(),
        engine_writes: expected_access::writes(&access, catalog),
        engine_triggers: expected_access::triggers(&access, catalog),
        effect: if does_nothing {
            Effect::Nothing
        } else {
            Effect::Define
        },
        max_affected: limits.max_affected_rows,
        estimate_caps: None,
        reserved: None,
        gathers: false,
        may_fail_over_filters: false,
        limits: limits.clone(),
        policies,
        relations: access
            .relations()
            .filter_map(|id| Some(catalog.relation(id)?.uid.clone()))
            .collect(),
        sources: Vec::new(),
        sql,
    };
    Plan::bind(&Arc::new(plan), &Params::None)
}
