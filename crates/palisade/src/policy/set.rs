//! Everything decisions are made from: the validated policies with what they are about.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use cedar_policy::EntityUid;

use crate::policy::{
    cedar::{
        by_action::Slices,
        entities::{RelationEntities, Store},
        schema::PolicyAction,
        schemas::Schemas,
    },
    inheritance::Inheritance,
    load::{
        annotation::Annotations,
        classification::{ColumnFlow, Tags},
        diagnostic::PolicyProblem,
        template::Templates,
    },
};
use crate::{catalog::Catalog, token::TokenSecret};

/// Everything decisions are made from.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Loaded {
    pub(in crate::policy) catalog: Arc<Catalog>,
    pub(in crate::policy) schemas: Schemas,
    pub(in crate::policy) policies: Slices,
    /// The actions some of whose policies look at the time.
    pub(in crate::policy) timed: BTreeSet<PolicyAction>,
    pub(in crate::policy) annotations: HashMap<String, Annotations>,
    /// Whether any of those demands approval.
    pub(in crate::policy) demands_approval: bool,
    /// Permits that speak of statements without a condition, by policy id.
    pub(in crate::policy) unconditional: BTreeSet<String>,
    /// Forbids that look at the statement, by policy id.
    pub(in crate::policy) of_statements: BTreeSet<String>,
    /// Those of them that look at what the engine expects of a statement.
    pub(in crate::policy) of_estimates: BTreeSet<String>,
    /// The resources that permits name by `resource == …` in their scopes, and functions by conditions too; by policy id.
    pub(in crate::policy) named: HashMap<String, BTreeSet<EntityUid>>,
    /// Permits that reach other databases than the connection's own; they are among the warnings.
    pub(in crate::policy) beyond: Vec<PolicyProblem>,
    pub(in crate::policy) tags: Arc<Tags>,
    pub(in crate::policy) templates: Templates,
    /// Who inherits from whom.
    pub(in crate::policy) inheritance: Arc<Inheritance>,
    /// From which the keys of tokens and hash masks are derived.
    pub(in crate::policy) secret: Option<TokenSecret>,
    /// Which columns others are computed from.
    pub(in crate::policy) flow: Arc<ColumnFlow>,
    pub(in crate::policy) store: Store,
    /// Entities of relations, whoever asks.
    pub(in crate::policy) relation_entities: RelationEntities,
    /// Columns that a policy names, which therefore are decided one by one.
    pub(in crate::policy) named_columns: BTreeSet<String>,
    /// Row types that a policy's scope names.
    pub(in crate::policy) named_row_types: BTreeSet<String>,
    /// Tables that a policy names.
    pub(in crate::policy) named_tables: BTreeSet<String>,
    /// Whether entities' attributes may name tables.
    pub(in crate::policy) tables_in_attributes: bool,
    /// Whether entities' attributes may name columns: then every column is decided by itself.
    pub(in crate::policy) columns_in_attributes: bool,
    pub(in crate::policy) version: String,
    /// Of the texts of policies, classification and templates.
    pub(in crate::policy) texts_digest: String,
    /// Of the principals: their schema and entities.
    pub(in crate::policy) entities_digest: String,
    pub(in crate::policy) warnings: Vec<PolicyProblem>,
}

impl Loaded {
    /// What these policies demand together.
    pub(in crate::policy) fn demands<'p>(
        &self,
        policies: impl IntoIterator<Item = &'p String>,
    ) -> Annotations {
        policies
            .into_iter()
            .filter_map(|id| self.annotations.get(id))
            .cloned()
            .reduce(|all, annotations| all.strictest(&annotations))
            .unwrap_or_default()
    }
}
