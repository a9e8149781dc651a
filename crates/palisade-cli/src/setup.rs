//! From the command line and the configuration file to a firewall.

use std::{path::Path, sync::Arc};

use palisade::{
    audit::{AuditSink, NoAudit},
    catalog::Catalog,
    firewall::Firewall,
    limits::Limits,
    scan::Action,
    session::Principal,
};

use crate::{
    args::PolicyArguments, audit::AuditFile, config::Config, exit::Failure, policies::Policies,
};

/// Everything the operator has decided, the database aside.
pub(crate) struct Setup {
    /// By what it is decided.
    pub(crate) policies: Policies,
    /// Whether the policies are the built-in ones because no others are named.
    pub(crate) is_starter: bool,
    /// Who asks, unless a line of a batch says otherwise.
    pub(crate) principal: Principal,
    /// Where records go.
    pub(crate) audit: Arc<dyn AuditSink>,
    /// What becomes of a cell in which a detector finds something.
    pub(crate) on_finding: Action,
    /// What a statement may cost.
    pub(crate) limits: Limits,
}

impl Setup {
    /// Reads what the command line names. `audit` is its `--audit`.
    pub(crate) fn read(arguments: &PolicyArguments, audit: Option<&Path>) -> Result<Self, Failure> {
        let config = match &arguments.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        let folder = arguments.policies.as_ref().or(config.policies.as_ref());
        let policies = match folder {
            Some(folder) => Policies::read(folder)?,
            None => Policies::starter(),
        };
        let principal = match (&arguments.principal, &config.principal) {
            (Some(principal), _) => principal.clone(),
            (None, Some(text)) => Principal::parse(text)
                .map_err(|error| Failure::Configuration(format!("error: `principal`: {error}")))?,
            (None, None) => Principal::new("Agent", "default"),
        };
        let audit: Arc<dyn AuditSink> = match audit.or(config.audit.as_deref()) {
            Some(path) => Arc::new(AuditFile::open(path)?),
            None => Arc::new(NoAudit),
        };
        Ok(Self {
            policies,
            is_starter: folder.is_none(),
            principal,
            audit,
            on_finding: config.on_finding.map(Action::from).unwrap_or_default(),
            limits: config.limits,
        })
    }

    /// A firewall over `catalog`.
    pub(crate) fn firewall(&self, catalog: Catalog) -> Result<Firewall, Failure> {
        Firewall::builder(catalog, self.policies.sources.clone())
            .limits(self.limits.clone())
            .build()
            .map_err(|error| self.policies.failure(&error))
    }
}
