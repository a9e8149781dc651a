//! What an operator is told of the principal for whom statements are asked: a typing error there looks like an empty database.

use std::io::Write as _;

use palisade::{
    firewall::{Firewall, Listing, Standing},
    session::{Principal, Session},
};

use crate::{exit::Failure, human};

/// Says on standard error what is to be told.
pub(crate) fn tell(notes: &[String]) {
    for note in notes {
        // There is no reader if this fails.
        let _ = write!(
            std::io::stderr(),
            "{}",
            human::wrap(&format!("note: {note}"), 0, 6)
        );
    }
}

/// What is to be told of `principal`, each as a sentence.
///
/// # Errors
/// A principal of a type that the policies' schema lacks.
pub(crate) fn describe(firewall: &Firewall, principal: &Principal) -> Result<Vec<String>, Failure> {
    let Ok(standing) = firewall.standing(&Session::new(principal.clone())) else {
        // The refusal of each statement says which policy fails to evaluate.
        return Ok(Vec::new());
    };
    let Standing {
        is_of_known_type,
        listing,
        sees_a_relation,
    } = standing;
    if !is_of_known_type {
        return Err(Failure::Usage(format!(
            "the policies' schema has no principals of the type `{}`, so that nothing can be permitted to {principal}\n  \
             help: name the principal as the policies do, for example `--as 'Agent::\"default\"'`, or declare the type in \
             principals.cedarschema",
            principal.kind()
        )));
    }
    let mut told = Vec::new();
    match listing {
        Listing::NoEntities | Listing::Listed => {}
        Listing::Missing { closest } => {
            let meant = closest.map_or_else(String::new, |id| {
                format!("; did you mean {}::{id:?}?", principal.kind())
            });
            told.push(format!(
                "{principal} is not in entities.json, so that it has no roles and no attributes{meant}"
            ));
        }
    }
    if !sees_a_relation {
        told.push(format!(
            "{principal} sees no table: no policy permits `select` or `discover` of any to it"
        ));
    }
    Ok(told)
}
