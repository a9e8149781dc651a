//! Which columns a view's or a generated column is computed from, so that classifications flow.

use std::sync::Arc;

use crate::{
    catalog::{
        Catalog, RelationId, RelationKind, SystemClass, SystemRelation, functions::FunctionDef,
    },
    code::Code,
    limits::Limits,
    policy::{
        ColumnFlow, WriteDecision,
        obligation::{Caps, ColumnDecision, ColumnLevel, RelationDecision, RowFilter, Visibility},
    },
    rejection::Rejection,
    resolve::{self, Changes, ViewBody, Visible},
    syntax,
};

/// The flow of every view and generated column whose definition is understood. A view that is not
/// understood has no flow here and cannot be read either.
pub(in crate::firewall) fn columns(catalog: &Catalog, limits: &Limits) -> ColumnFlow {
    let everything = Everything { catalog };
    let mut flow = ColumnFlow::default();
    for relation in catalog.relations() {
        for (id, column) in relation.column_ids() {
            if let Some(expression) = &column.generated {
                // Every word that is a column's name counts: more than it reads, never less.
                let words = syntax::words(expression, catalog.dialect());
                let from = relation
                    .column_ids()
                    .filter(|(other, c)| *other != id && words.contains(&*c.key))
                    .map(|(other, _)| other)
                    .collect();
                flow.columns.insert(id, from);
            }
        }
        match relation.kind {
            RelationKind::View | RelationKind::Materialized => {}
            RelationKind::Table | RelationKind::Virtual | RelationKind::System => continue,
        }
        match resolve::read_view(catalog, &everything, relation, &[relation.id], limits) {
            Ok(resolved) => {
                let calls = resolved.access.functions().map(str::to_owned);
                flow.calls.insert(relation.id, calls.collect());
                for ((id, _), output) in relation.column_ids().zip(&resolved.outputs) {
                    flow.columns
                        .insert(id, output.lineage.columns.iter().copied().collect());
                }
            }
            // What the server tells of itself, a policy may permit by name.
            Err(why) if why.code() == Code::NameSystemRelation => {}
            Err(why) => {
                flow.unread.insert(relation.id, why.message().to_owned());
            }
        }
    }
    flow
}

/// Every relation, wholly visible: lineage has no principal.
pub(in crate::firewall) struct Everything<'a> {
    pub(in crate::firewall) catalog: &'a Catalog,
}

impl Visible for Everything<'_> {
    fn relation(&self, id: RelationId) -> Result<Arc<RelationDecision>, Rejection> {
        let columns = self.catalog.relation(id).map_or(0, |r| r.columns.len());
        let plain = ColumnDecision {
            level: ColumnLevel::Plain,
            policies: Vec::new(),
        };
        Ok(Arc::new(RelationDecision {
            visibility: Visibility::Selectable,
            columns: vec![plain; columns],
            rows: RowFilter::Everything,
            caps: Caps::default(),
            policies: Vec::new(),
            message: None,
            has_hidden_children: false,
            past: None,
        }))
    }

    fn write(&self, _: RelationId) -> Result<Arc<WriteDecision>, Rejection> {
        Ok(Arc::new(WriteDecision::nothing()))
    }

    fn changes(&self) -> Changes {
        Changes::NotHere
    }

    fn reads_system(&self, known: &SystemRelation) -> Result<bool, Rejection> {
        Ok(known.class == SystemClass::Catalog)
    }

    fn calls(&self, _: &FunctionDef) -> Result<bool, Rejection> {
        Ok(true)
    }

    fn shown_principal(&self) -> String {
        "the principal".to_owned()
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn cached_view(&self, _: RelationId) -> Option<Arc<ViewBody>> {
        None
    }

    fn cache_view(&self, _: RelationId, _: &Arc<ViewBody>) {}
}
