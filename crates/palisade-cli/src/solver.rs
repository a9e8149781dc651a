//! Properties of policies over any entities: a solver is asked, cvc5, which is a program of its own.

use std::time::Duration;

use palisade_corpus::{PolicyTests, Proofs, Properties, ProveError};
use palisade_prove::Solver;

use crate::{args::policy::ProveArguments, exit::Failure};

/// Asks the solver about each property. A failure is what keeps it from being asked at all.
pub(crate) fn prove_any(
    arguments: &ProveArguments,
    tests: &PolicyTests,
    properties: &Properties,
) -> Result<Result<Proofs, ProveError>, Failure> {
    let limit = Duration::from_secs(arguments.solver_time);
    let mut solver = Solver::new(arguments.solver.as_deref(), limit);
    Ok(tests.prove_any(properties, &mut |question| solver.ask(question)))
}
