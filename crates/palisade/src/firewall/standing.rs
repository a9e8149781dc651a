//! How a principal stands before the policies: for an operator who wonders why an agent sees nothing. Nothing of it is for agents.

use crate::{
    code::Code,
    firewall::Firewall,
    policy::{PolicySet, obligation::Visibility},
    rejection::Rejection,
    session::Session,
};

/// What policies know of a principal, and whether it can see anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whether the policies' schema has the principal's type. Nothing is permitted to one of another type.
    pub is_of_known_type: bool,
    /// Whether the operator's entities list it. A principal that they lack has no roles and no attributes.
    pub listing: Listing,
    /// Whether some relation exists for it.
    pub sees_a_relation: bool,
}

/// Whether a principal is among the operator's entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// The operator gave no entities.
    NoEntities,
    /// It is.
    Listed,
    /// It is not.
    Missing {
        /// The id of a listed principal of its type that was probably meant.
        closest: Option<String>,
    },
}

impl Firewall {
    /// How the principal of `session` stands before the policies. It tries relations until one exists for the principal.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn standing(&self, session: &Session) -> Result<Standing, Rejection> {
        let principal = session.principal();
        let listing = match self.sources().entities {
            None => Listing::NoEntities,
            Some(_) => {
                let listed = self.policies.listed_ids(principal.kind());
                if listed.iter().any(|id| id == principal.id()) {
                    Listing::Listed
                } else {
                    Listing::Missing {
                        closest: PolicySet::closest(principal.id(), &listed),
                    }
                }
            }
        };
        let view = self.policies.session(session);
        let (mut is_of_known_type, mut sees_a_relation) = (true, false);
        for relation in self.catalog.relations() {
            match view.relation(relation.id) {
                Ok(decision) => match decision.visibility {
                    Visibility::Selectable | Visibility::Discoverable(_) => {
                        sees_a_relation = true;
                        break;
                    }
                    Visibility::Absent => {}
                },
                Err(why) if why.code() == Code::PolicyNoPermit => {
                    is_of_known_type = false;
                    break;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(Standing {
            is_of_known_type,
            listing,
            sees_a_relation,
        })
    }
}
