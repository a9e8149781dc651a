//! What a firewall is made from.

use std::sync::Arc;

use crate::{
    catalog::Catalog,
    error::Error,
    firewall::{
        Firewall, column_lineage, session_catalog::ViewCache, statement_cache::StatementCache,
        template_names,
    },
    limits::Limits,
    policy::{Lint, PolicySet, PolicySources, system_relations_named},
    rewrite::SourceCache,
    token::TokenSecret,
};

/// Collects what a [`Firewall`] needs.
#[derive(Debug)]
pub struct FirewallBuilder {
    catalog: Catalog,
    policies: PolicySources,
    limits: Limits,
    changes: bool,
    cache_bytes: u64,
    lint: Lint,
}

/// Bytes that rewritten statements may take until the oldest are forgotten: about a thousand. Agents seldom repeat a text to the byte.
const CACHE_BYTES: u64 = 4 * 1024 * 1024;

impl FirewallBuilder {
    /// Other limits than the default ones.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Lets policies permit changes of data and of the schema. If not called, every statement that changes
    /// anything is refused by its name, so that a blanket permit of every action stays one of reading.
    #[must_use]
    pub fn allow_changes(self) -> Self {
        Self {
            changes: true,
            ..self
        }
    }

    /// The secret behind tokens and hash masks, instead of the one in the sources. Policies that give either
    /// do not load without one.
    #[must_use]
    pub fn token_secret(mut self, secret: TokenSecret) -> Self {
        self.policies.secret = Some(secret);
        self
    }

    /// About how many bytes of rewritten statements are remembered by their exact texts; 4 MiB if not called, none for 0.
    /// The decisions are the same.
    #[must_use]
    pub fn cache_bytes(self, cache_bytes: u64) -> Self {
        Self {
            cache_bytes,
            ..self
        }
    }

    /// On how many relations the policies are tried; [`Lint::Sample`] if not called. A reload tries a sample.
    #[must_use]
    pub fn lint(self, lint: Lint) -> Self {
        Self { lint, ..self }
    }

    /// Loads and checks everything.
    ///
    /// # Errors
    /// [`Error::Policies`] with every problem and its line.
    pub fn build(self) -> Result<Firewall, Error> {
        let named = system_relations_named(&self.policies, self.catalog.dialect());
        let catalog = self.policies.name_schemas(self.catalog)?;
        let catalog = Arc::new(catalog.with_system(named));
        let flow = column_lineage::columns(&catalog, &self.limits);
        let policies = PolicySet::load_and_lint(&self.policies, &catalog, &flow, self.lint)?;
        let policies = match self.lint {
            Lint::Sample => policies,
            Lint::EveryRelation => {
                let told = template_names::check(&catalog, &policies, &self.limits);
                policies.with_warnings(&self.policies, told)
            }
        };
        let names = catalog
            .relations()
            .iter()
            .flat_map(|relation| {
                let name = catalog.dialect().fold(&relation.name);
                let columns = relation.columns.iter();
                let columns = columns.map(|column| column.key.to_string());
                columns.chain([name])
            })
            .collect();
        Ok(Firewall {
            catalog,
            names,
            policies,
            sources: self.policies,
            changes: self.changes,
            cache_bytes: self.cache_bytes,
            limits: self.limits,
            views: ViewCache::default(),
            statements: StatementCache::new(self.cache_bytes),
            source_cache: SourceCache::default(),
        })
    }
}

impl Firewall {
    /// A firewall over `catalog` with `policies`; without any permit nothing is allowed.
    #[must_use]
    pub fn builder(catalog: Catalog, policies: PolicySources) -> FirewallBuilder {
        FirewallBuilder {
            catalog,
            policies,
            limits: Limits::default(),
            changes: false,
            cache_bytes: CACHE_BYTES,
            lint: Lint::Sample,
        }
    }
}
