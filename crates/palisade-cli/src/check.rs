//! `palisade check`: decisions without a database.

use std::time::Instant;

use palisade::firewall::Firewall;

use crate::{
    answer::{Answer, Answerer, Request},
    args::CheckArguments,
    database::Access,
    database_name::CatalogSource,
    exit::{Exit, Failure},
    host::now,
    setup::Setup,
    statements,
};

/// Runs the command.
pub(crate) fn run(arguments: &CheckArguments) -> Result<Exit, Failure> {
    let (setup, catalog) = Setup::over_catalog(
        CatalogSource::argument(&arguments.catalog)?,
        arguments.dialect,
        &arguments.secret,
        &arguments.policies,
    )?;
    let decider = Decider {
        firewall: setup.firewall(catalog, Access::Write)?,
    };
    statements::run(
        &decider,
        (&setup, &decider.firewall),
        arguments.statement.sql.as_deref(),
        &arguments.statement.form,
    )
}

struct Decider {
    firewall: Firewall,
}

impl Answerer for Decider {
    fn answer(&self, request: &Request) -> Answer {
        let start = Instant::now();
        let decision = self
            .firewall
            .check(&request.sql, &request.params, &now(&request.session));
        let mut answer = Answer::decided(decision);
        answer.duration = start.elapsed();
        answer
    }
}
