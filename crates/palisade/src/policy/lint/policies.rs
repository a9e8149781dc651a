//! The checks of policies that need no decision: each looks at what is written, and at the catalog.

use std::collections::HashSet;

use cedar_policy::{Entity, EntityUid, Schema};

use crate::{
    catalog::Catalog,
    policy::{
        cedar::named_relations::NamedRelations,
        lint::{
            beaten_permits, closed_words, contradictions, entity_ids, memberless_roles,
            missing_permits, partitions, row_literals, system_permits, undone_conditions,
            view_changes, warn,
        },
        load::{
            classification::Tags,
            diagnostic::{PolicyProblem, Source},
            named_resources,
            source::Located,
            template::Templates,
        },
        rule::Rule,
    },
};

/// Policies as they are written, and what they may speak of.
pub(in crate::policy) struct WrittenPolicies<'a> {
    pub(in crate::policy) located: &'a [Located<'a>],
    pub(in crate::policy) catalog: &'a Catalog,
    pub(in crate::policy) named: &'a NamedRelations<'a>,
    pub(in crate::policy) tags: &'a Tags,
    pub(in crate::policy) templates: &'a Templates,
    /// The file of the operator's entities, where there is one.
    pub(in crate::policy) entities: Option<Source<'a>>,
    /// What is in it.
    pub(in crate::policy) given: &'a [Entity],
}

impl WrittenPolicies<'_> {
    /// Finds names that nothing has, and policies that do something else than their author could mean.
    pub(in crate::policy) fn check(
        &self,
        problems: &mut Vec<PolicyProblem>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        warn(Rule::UnknownName, warnings, |warnings| {
            self.check_names(problems, warnings);
        });
        warn(Rule::SystemPermit, warnings, |warnings| {
            system_permits::check(self.located, self.catalog, warnings);
        });
        row_literals::check(self.located, self.catalog, self.named, problems, warnings);
        warn(Rule::PartitionForbidden, warnings, |warnings| {
            partitions::check(self.located, self.catalog, self.named, warnings);
        });
        warn(Rule::ViewChanged, warnings, |warnings| {
            view_changes::check(self.located, self.named, warnings);
        });
        warn(Rule::UndoneCondition, warnings, |warnings| {
            undone_conditions::check(self.located, warnings);
        });
    }

    /// Warns of what only misleads an author; a server starts without.
    pub(in crate::policy) fn advise_author(
        &self,
        schema: &Schema,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        warn(Rule::NeverTrue, warnings, |warnings| {
            contradictions::check(self.located, warnings);
        });
        warn(Rule::MissingPermit, warnings, |warnings| {
            missing_permits::check(self.located, warnings);
        });
        warn(Rule::AlwaysBeaten, warnings, |warnings| {
            beaten_permits::check(self.located, warnings);
        });
        let kinds = schema.principals().cloned().collect();
        warn(Rule::NoMembers, warnings, |warnings| {
            memberless_roles::check(self.located, self.given, &kinds, warnings);
        });
    }

    fn check_names(&self, problems: &mut Vec<PolicyProblem>, warnings: &mut Vec<PolicyProblem>) {
        let known: Option<HashSet<EntityUid>> = self
            .entities
            .map(|_| self.given.iter().map(Entity::uid).collect());
        let names = (self.tags, self.templates);
        entity_ids::check(
            self.located,
            self.catalog,
            names,
            known.as_ref(),
            problems,
            warnings,
        );
        named_resources::settle_absent(self.located, self.catalog, problems, warnings);
        closed_words::check(self.located, self.catalog, names, problems, warnings);
        match self.entities {
            None => entity_ids::roles(self.located, problems),
            Some(source) => entity_ids::parents(&source, self.given, self.located, warnings),
        }
    }
}
