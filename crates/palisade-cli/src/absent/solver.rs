//! Properties of policies over any entities, where what asks a solver was not built in.

use palisade_corpus::{PolicyTests, Proofs, Properties, ProveError};

use crate::{args::policy::ProveArguments, exit::Failure};

pub(crate) fn prove_any(
    _: &ProveArguments,
    _: &PolicyTests,
    _: &Properties,
) -> Result<Result<Proofs, ProveError>, Failure> {
    Err(Failure::Usage(
        "this palisade was built without proofs over any entities\n  help: build it with `--features prove`, or leave `--any-entities` out".to_owned(),
    ))
}
