//! Authorization: the permit, bound to the statement for which it was given.

use std::sync::Arc;

use crate::{
    policy::{self, Permit, SessionView},
    rejection::Rejection,
    resolve::{ResolvedDdl, ResolvedStatement},
};

/// A resolved statement with the permit that was given for it, and for nothing else. Only [`authorize`] makes one, and the
/// rewriter takes it whole: a permit cannot be put beside another statement.
///
/// ```
/// use palisade::rewrite::Authorized;
/// fn pass_on(authorized: Authorized) -> Authorized {
///     authorized
/// }
/// ```
///
/// ```compile_fail,E0451
/// use palisade::rewrite::Authorized;
/// fn exchange(one: Authorized, other: Authorized) -> Authorized {
///     Authorized { permit: other.permit, ..one }
/// }
/// ```
#[derive(Debug)]
pub struct Authorized {
    resolved: ResolvedStatement,
    permit: Permit,
}

/// A resolved definition with the permit that was given for it; as [`Authorized`].
#[derive(Debug)]
pub(crate) struct AuthorizedDefinition {
    resolved: ResolvedDdl,
    permit: Permit,
}

/// Permits everything that `resolved` touches, or nothing.
///
/// # Errors
/// The first refusal, as the policies of the session say it.
pub(crate) fn authorize(
    view: &Arc<SessionView>,
    resolved: ResolvedStatement,
) -> Result<Authorized, Rejection> {
    let permit = policy::authorize(view, &resolved.access)?;
    Ok(Authorized { resolved, permit })
}

/// Permits everything that a definition touches, or nothing.
///
/// # Errors
/// As [`authorize`].
pub(crate) fn authorize_definition(
    view: &Arc<SessionView>,
    resolved: ResolvedDdl,
) -> Result<AuthorizedDefinition, Rejection> {
    let permit = policy::authorize(view, &resolved.access)?;
    Ok(AuthorizedDefinition { resolved, permit })
}

impl Authorized {
    /// The statement, for the record of a decision.
    pub(crate) fn resolved(&self) -> &ResolvedStatement {
        &self.resolved
    }

    /// The permit, for the record of a decision.
    pub(crate) fn permit(&self) -> &Permit {
        &self.permit
    }

    pub(in crate::rewrite) fn into_parts(self) -> (ResolvedStatement, Permit) {
        (self.resolved, self.permit)
    }
}

impl AuthorizedDefinition {
    pub(in crate::rewrite) fn into_parts(self) -> (ResolvedDdl, Permit) {
        (self.resolved, self.permit)
    }
}
