//! Views: their queries are resolved below what the principal sees.

use std::sync::Arc;

use crate::resolve::{Mode, Reference, ResolvedStatement, Resolver, ViewBody, resolve};
use crate::{
    access::{AccessSet, ColumnUses, Usage, Usages},
    catalog::{Catalog, ColumnId, Relation, RelationId, RelationKind, functions::FunctionDef},
    code::Code,
    limits::Limits,
    policy::obligation::ColumnLevel,
    rejection::Rejection,
    syntax,
};

impl Resolver<'_> {
    /// The resolved query of a view, its accesses added to the statement's.
    pub(in crate::resolve) fn view(
        &mut self,
        relation: &Relation,
        shown: &str,
    ) -> Result<Arc<ViewBody>, Rejection> {
        let body = match self.visible.cached_view(relation.id) {
            Some(body) => body,
            None => {
                let body = Arc::new(self.build_view_body(relation, shown)?);
                self.visible.cache_view(relation.id, &body);
                body
            }
        };
        self.require_calls(relation, shown, &body)?;
        self.count_relation(body.resolved.references.len())?;
        // As often as it is read, whoever read it first.
        self.spend(body.resolved.steps)?;
        self.work.view_levels = self.work.view_levels.max(body.resolved.levels);
        let access = &body.resolved.access;
        self.access.relations.extend(&access.relations);
        self.access
            .functions
            .extend(access.functions.iter().cloned());
        self.access.system.extend(access.system.iter().cloned());
        for (column, usages) in access.columns.iter() {
            let decision = self.visible.relation(column.relation)?;
            let hidden = decision
                .columns
                .get(usize::from(column.index))
                .is_none_or(|c| c.level == ColumnLevel::Hidden);
            // A hidden column is NULL in there: nothing of it is read.
            if !hidden {
                self.touch(column, Usage::View);
                // What the view gives is used as the statement uses it.
                for usage in usages.iter().filter(|usage| *usage != Usage::Output) {
                    self.touch(column, usage);
                }
            }
        }
        Ok(body)
    }

    /// Refuses the view that a statement reads where it calls a function that the principal may not call. Whoever reads the view has not
    /// written the call: its name is the operator's.
    fn require_calls(
        &self,
        relation: &Relation,
        shown: &str,
        body: &ViewBody,
    ) -> Result<(), Rejection> {
        match self.mode {
            Mode::View { within: _ } => return Ok(()),
            Mode::Statement
            | Mode::Rewritten {
                sources: _,
                writes: _,
            } => {}
        }
        let Some(def) = unpermitted_call(self.catalog, self.visible, &body.resolved.access)? else {
            return Ok(());
        };
        let (view, uid, class) = (&relation.uid, &def.uid, def.safety.name());
        let message = format!("the view `{shown}` calls a function that no policy permits");
        let detail = format!(
            "the view `{view}` calls `{uid}` of the class `{class}`; a permit of `call` with `resource == Function::{uid:?}` \
             in its scope permits it, where no policy forbids it"
        );
        Err(Rejection::new(Code::FunctionNotAllowed, message).with_operator_detail(detail))
    }

    /// Counts what the statement does with a view's columns as done with those that they are made from.
    pub(in crate::resolve) fn use_through_views(&mut self) -> Result<(), Rejection> {
        let mut used = Vec::new();
        for reference in &self.references {
            collect_uses_below(reference, &self.access.columns, &mut used);
        }
        for (column, usages) in used {
            let decision = self.visible.relation(column.relation)?;
            let level = decision.columns.get(usize::from(column.index));
            if level.is_none_or(|c| c.level == ColumnLevel::Hidden) {
                continue;
            }
            for usage in usages.iter().filter(|usage| *usage != Usage::Write) {
                self.touch(column, usage);
            }
        }
        Ok(())
    }

    fn build_view_body(&self, relation: &Relation, shown: &str) -> Result<ViewBody, Rejection> {
        let refuse = |inner: &Rejection| {
            // What is missing below belongs to the operator; to the principal the view is not there.
            let (code, message) =
                if matches!(inner.code(), Code::PolicyEvaluationFailed | Code::LimitWork) {
                    return inner.clone();
                } else if matches!(
                    inner.code(),
                    Code::NameUnknownRelation | Code::PolicyNoPermit | Code::PolicyForbidden
                ) {
                    (
                        Code::NameUnknownRelation,
                        format!("there is no table or view `{shown}`"),
                    )
                } else {
                    (
                        Code::SyntaxUnsupported,
                        format!(
                            "the view `{shown}` cannot be used: its definition is not understood"
                        ),
                    )
                };
            Rejection::new(code, message)
                .with_operator_detail(format!("view `{}`: {inner}", relation.uid))
        };
        let above: &[RelationId] = match self.mode {
            Mode::View { within } => within,
            Mode::Statement
            | Mode::Rewritten {
                sources: _,
                writes: _,
            } => &[],
        };
        if above.contains(&relation.id) {
            return Err(refuse(&Rejection::new(
                Code::SyntaxUnsupported,
                "the view reads itself",
            )));
        }
        let within: Vec<_> = above.iter().copied().chain([relation.id]).collect();
        let resolved = read_view(self.catalog, self.visible, relation, &within, self.limits)
            .map_err(|inner| refuse(&inner))?;
        let has_obligation = resolved.references.iter().any(|r| {
            r.decision.has_obligation() || r.body.as_ref().is_some_and(|b| b.has_obligation)
        });
        Ok(ViewBody {
            resolved,
            has_obligation,
        })
    }
}

/// The first function of `access` that the principal may not call.
pub(crate) fn unpermitted_call<'c>(
    catalog: &'c Catalog,
    visible: &dyn crate::resolve::Visible,
    access: &AccessSet,
) -> Result<Option<&'c FunctionDef>, Rejection> {
    for uid in access.functions() {
        // What the catalog does not have is refused where calls are decided.
        if let Some(def) = catalog.function(uid)
            && !visible.calls(def)?
        {
            return Ok(Some(def));
        }
    }
    Ok(None)
}

/// What columns below `reference` are used for where its own are used so.
fn collect_uses_below(reference: &Reference, uses: &ColumnUses, out: &mut Vec<(ColumnId, Usages)>) {
    let Some(body) = &reference.body else {
        return;
    };
    let mut below = ColumnUses::default();
    for (index, output) in (0u16..).zip(&body.resolved.outputs) {
        let relation = reference.relation;
        let usages = uses.usages(ColumnId { relation, index });
        for column in &output.lineage.columns {
            if usages.is_read() {
                out.push((*column, usages));
            }
            for usage in usages.iter() {
                below.insert(*column, usage);
            }
        }
    }
    for inner in &body.resolved.references {
        collect_uses_below(inner, &below, out);
    }
}

/// Resolves the query of the view `relation`, which stands in the views `within`, itself last.
pub(crate) fn read_view(
    catalog: &Catalog,
    visible: &dyn crate::resolve::Visible,
    relation: &Relation,
    within: &[RelationId],
    limits: &Limits,
) -> Result<ResolvedStatement, Rejection> {
    debug_assert!(matches!(
        relation.kind,
        RelationKind::View | RelationKind::Materialized
    ));
    let Some(definition) = &relation.definition else {
        return Err(Rejection::new(
            Code::SyntaxUnsupported,
            "the definition is not known",
        ));
    };
    let resolved = syntax::parse(definition, catalog.dialect(), limits, |parsed| {
        resolve(parsed, catalog, visible, Mode::View { within }, limits)
    })?;
    if !resolved.placeholders.is_empty() || resolved.outputs.len() != relation.columns.len() {
        return Err(Rejection::new(
            Code::SyntaxUnsupported,
            "the definition does not give the columns the catalog has",
        ));
    }
    Ok(resolved)
}
